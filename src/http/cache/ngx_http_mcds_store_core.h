
/*
 * Copyright (C) mcds authors
 *
 * What the files about storing share: ngx_http_mcds_store.c says what is
 * stored, and when that ends, ngx_http_mcds_store_body.c takes the body.
 */


#ifndef _NGX_HTTP_MCDS_STORE_CORE_H_INCLUDED_
#define _NGX_HTTP_MCDS_STORE_CORE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"
#include "ngx_http_mcds_coding.h"


/* first room for a body of unknown length */
#define NGX_HTTP_MCDS_ROOM        16384

/* the client's CRLF, see ngx_mcds_request_t */
#define NGX_HTTP_MCDS_SPARE       2


struct ngx_http_mcds_store_s {
    ngx_mcds_seat_t    *seat;          /* where it is to be stored */
    ngx_mcds_entry_t    entry;
    ngx_mcds_value_t   *value;
    ngx_mcds_split_t   *split;         /* takes the body, or NULL: value does */
    size_t              limit;         /* of value */
    off_t               length;        /* of the body so far */
    off_t               expected;      /* length of the body, -1: not said */
    off_t               stored;        /* what became of it so far */

    ngx_http_mcds_compress_t  *compress;  /* or NULL */
    ngx_mcds_encoder_t        *encoder;   /* NULL: not yet, or not at all */
    size_t                     turn;      /* compressed in this one */
    ngx_event_t                next;
    void                     (*resume)(void *data);
};


/*
 * More of the body.  NGX_OK; NGX_ERROR: this failed; any other: it cannot be
 * stored.  end: that was all of it; the lengths are written to the entry.
 */

ngx_int_t ngx_http_mcds_store_data(ngx_http_mcds_cache_ctx_t *ctx, u_char *p,
    size_t size);
ngx_int_t ngx_http_mcds_store_data_end(ngx_http_mcds_cache_ctx_t *ctx);


/*
 * From here on the body is stored while it comes.  If memcached takes no parts
 * those who wait get it from memory, up to some size: NGX_DECLINED, above it
 * NGX_BUSY.
 */

ngx_int_t ngx_http_mcds_store_split(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_store_t *store);


/* nothing is compressed any more */

void ngx_http_mcds_store_encoded(ngx_http_mcds_store_t *store);


#endif /* _NGX_HTTP_MCDS_STORE_CORE_H_INCLUDED_ */

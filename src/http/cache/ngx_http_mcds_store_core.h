
/*
 * Copyright (C) mcds authors
 *
 * The structure and the functions that two files share: ngx_http_mcds_store.c
 * decides whether a response is stored, and when the build of the page ends;
 * ngx_http_mcds_store_body.c stores the body of the response.
 */


#ifndef _NGX_HTTP_MCDS_STORE_CORE_H_INCLUDED_
#define _NGX_HTTP_MCDS_STORE_CORE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"
#include "ngx_http_mcds_coding.h"


/*
 * the first size of the buffer for a response's body of unknown length, bytes
 */
#define NGX_HTTP_MCDS_ROOM        16384


struct ngx_http_mcds_store_s {
    ngx_mcds_waiter_t         *waiter; /* the request's handle for the page's
                                          key, to store the page */
    ngx_mcds_entry_t           entry;
    ngx_mcds_value_t          *value;
    ngx_mcds_split_t          *split;  /* stores the page's body in parts; NULL:
                                          the body is stored in one item with
                                          the headers */
    size_t                     limit;  /* maximum bytes of "value", the page's
                                          item: a longer body is stored in
                                          parts */
    off_t                      length; /* bytes of the response's body that
                                          have come so far */
    off_t                      expected; /* length of the whole body of the
                                            response; -1: unknown */
    off_t                      stored; /* bytes of the body stored so far,
                                          after compression */

    ngx_http_mcds_compress_t  *compress;  /* how the body is compressed, or
                                             NULL */
    ngx_mcds_encoder_t        *encoder;   /* encoder that compresses the body;
                                             NULL: not started, or there is
                                             none */
    size_t                     turn;      /* bytes of the body compressed in
                                             this turn of the event loop */
    ngx_event_t                next;
    void                     (*resume)(void *data);
};


/*
 * Stores more of the response's body in the page.  NGX_OK; NGX_ERROR: the build
 * of the page fails, as when out of memory; any other result: the page is not
 * cacheable, since its body cannot be stored.
 */

ngx_int_t ngx_http_mcds_store_data(ngx_http_mcds_cache_ctx_t *ctx, u_char *p,
    size_t size);

/*
 * Ends the body of the response that is stored, and writes its lengths to the
 * page's entry.  The results are those of ngx_http_mcds_store_data().
 */

ngx_int_t ngx_http_mcds_store_data_end(ngx_http_mcds_cache_ctx_t *ctx);


/*
 * Begins to store the body of the response in parts, while the body comes.
 * NGX_OK: the body is stored in parts.  NGX_DECLINED: memcached refuses parts,
 * so the worker keeps the body in its memory for the requests that wait for the
 * page.  NGX_BUSY: memcached refuses parts, and the body is longer than what a
 * worker keeps in its memory; or the response has Cache-Control: no-cache, and
 * such a page must not be stored in parts.  NGX_ERROR: out of memory.
 */

ngx_int_t ngx_http_mcds_store_split(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_store_t *store);


/*
 * Call this when the header of the response has come.  Returns the length that
 * the response's body must have to be whole: "length", which nginx has set, or
 * the Content-Length of the origin if nginx has set 0 instead; -1: unknown.
 */

off_t ngx_http_mcds_store_expected(ngx_http_request_t *r, off_t length);

/*
 * Returns 1 unless the origin's response is truncated.  nginx takes a closed
 * connection for the end of a FastCGI response; without the record that ends
 * the response, the application has died.
 */

ngx_uint_t ngx_http_mcds_store_ended(ngx_http_request_t *r);

/*
 * Call this when the response has ended.  Returns 1 if the origin has sent its
 * status in a trailer, as gRPC does: the page would be without the trailer, and
 * show an error as a success.
 */

ngx_uint_t ngx_http_mcds_store_status_trails(ngx_http_request_t *r);

/*
 * Returns 1 if the upstream has broken off the response being stored: nginx
 * then sends only a flush, and the request continues until its client, or its
 * parent request, has got the data sent before.  Requests that wait for the
 * page must not wait until then.
 */

ngx_uint_t ngx_http_mcds_store_broken(ngx_http_request_t *r, ngx_buf_t *b);


/*
 * Returns 1 if a page, which the response to r has confirmed, can be stored
 * again with entry, which has the headers of this response.  A page that is
 * stored compressed cannot be stored again if these headers forbid changes of
 * the body.
 */

ngx_uint_t ngx_http_mcds_store_updates(ngx_http_request_t *r,
    ngx_mcds_entry_t *entry);


/* frees the encoder, if any, that compresses the response being stored */

void ngx_http_mcds_store_encoded(ngx_http_mcds_store_t *store);


#endif /* _NGX_HTTP_MCDS_STORE_CORE_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * The text of a response, built piece by piece.
 */


#ifndef _NGX_HTTP_MCDS_TEXT_H_INCLUDED_
#define _NGX_HTTP_MCDS_TEXT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>


/*
 * The media type of a request's body or of a response; only a request can have
 * NGX_HTTP_MCDS_OTHER.
 */

typedef enum {
    NGX_HTTP_MCDS_JSON = 0,
    NGX_HTTP_MCDS_NDJSON,
    NGX_HTTP_MCDS_TEXT,
    NGX_HTTP_MCDS_OTHER
} ngx_http_mcds_type_e;


/*
 * the text of a response, of any length, in buffers; "failed" is set when out
 * of memory
 */

typedef struct {
    ngx_pool_t                 *pool;
    ngx_chain_t                *first;
    ngx_chain_t                *last;
    size_t                      size;
    ngx_uint_t                  failed;
} ngx_http_mcds_text_t;

/*
 * Appends a copy of len bytes to the text of a response; sets text->failed when
 * out of memory, after which further calls append nothing.
 */

void ngx_http_mcds_text_put(ngx_http_mcds_text_t *text, u_char *data,
    size_t len);

/*
 * For a content handler: sends the text as a response of status 200 with
 * Cache-Control: no-store, and returns the result for the handler to return;
 * 500 if text->failed is set.  type: the media type, ngx_http_mcds_type_e, but
 * not NGX_HTTP_MCDS_OTHER.
 */

ngx_int_t ngx_http_mcds_text_send(ngx_http_request_t *r,
    ngx_http_mcds_text_t *text, ngx_uint_t type);


#endif /* _NGX_HTTP_MCDS_TEXT_H_INCLUDED_ */

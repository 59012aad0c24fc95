
/*
 * Copyright (C) mcds authors
 *
 * The text of a response, as it is made.
 */


#ifndef _NGX_HTTP_MCDS_TEXT_H_INCLUDED_
#define _NGX_HTTP_MCDS_TEXT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>


/* the type of a text; that of a request may be another one */

typedef enum {
    NGX_HTTP_MCDS_JSON = 0,
    NGX_HTTP_MCDS_NDJSON,
    NGX_HTTP_MCDS_TEXT,
    NGX_HTTP_MCDS_OTHER
} ngx_http_mcds_type_e;


/*
 * A text of any length, in pieces.  put: sets failed when out of memory.
 * send: sends it as the answer.
 */

typedef struct {
    ngx_pool_t                 *pool;
    ngx_chain_t                *first;
    ngx_chain_t                *last;
    size_t                      size;
    ngx_uint_t                  failed;
} ngx_http_mcds_text_t;

void ngx_http_mcds_text_put(ngx_http_mcds_text_t *text, u_char *data,
    size_t len);
ngx_int_t ngx_http_mcds_text_send(ngx_http_request_t *r,
    ngx_http_mcds_text_t *text, ngx_uint_t type);


#endif /* _NGX_HTTP_MCDS_TEXT_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * A stored page as an answer.
 */


#ifndef _NGX_HTTP_MCDS_SERVE_H_INCLUDED_
#define _NGX_HTTP_MCDS_SERVE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"


/*
 * ctx->copy: what is sent as its header, and its body, if that is not split.
 */

ngx_int_t ngx_http_mcds_serve_page(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);
ngx_buf_t *ngx_http_mcds_serve_body(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);

/* adds a header where nginx's filters look for it; NULL: out of memory */
ngx_table_elt_t *ngx_http_mcds_serve_line(ngx_http_request_t *r,
    ngx_str_t *name, ngx_str_t *value);

/* the content handler that sends ctx->copy */
ngx_int_t ngx_http_mcds_serve_handler(ngx_http_request_t *r);


#endif /* _NGX_HTTP_MCDS_SERVE_H_INCLUDED_ */

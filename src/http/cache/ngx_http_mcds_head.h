
/*
 * Copyright (C) mcds authors
 *
 * HEAD that goes to the origin although there is a page.
 */


#ifndef _NGX_HTTP_MCDS_HEAD_H_INCLUDED_
#define _NGX_HTTP_MCDS_HEAD_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"


/*
 * Whether the origin's answer to a HEAD no longer shows the page in ctx->copy
 * to be current: its Content-Length, ETag or Last-Modified is another, or it
 * has neither of the latter two.  same: 1 if it does show that, and the page
 * may be renewed by it.
 */

ngx_uint_t ngx_http_mcds_head_differs(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);
ngx_uint_t ngx_http_mcds_head_same(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);


#endif /* _NGX_HTTP_MCDS_HEAD_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * Compares the origin's response to a HEAD request with the stored page, which
 * the response may invalidate or renew.
 */


#ifndef _NGX_HTTP_MCDS_HEAD_H_INCLUDED_
#define _NGX_HTTP_MCDS_HEAD_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"


/*
 * Returns 1 if the response to a HEAD request invalidates the page in
 * ctx->snapshot, which is fresh: the Content-Length, ETag or Last-Modified of
 * the response differs, or the response has neither ETag nor Last-Modified.
 */

ngx_uint_t ngx_http_mcds_head_differs(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);

/*
 * Returns 1 if the response to a HEAD request confirms the page in
 * ctx->snapshot, and may renew it.
 */

ngx_uint_t ngx_http_mcds_head_same(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);


#endif /* _NGX_HTTP_MCDS_HEAD_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * The uses of a stored page while it is rebuilt: the origin is asked whether
 * the page has changed, and the page is served if the origin fails.
 */


#ifndef _NGX_HTTP_MCDS_REVALIDATE_H_INCLUDED_
#define _NGX_HTTP_MCDS_REVALIDATE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"


/*
 * Adds If-None-Match and If-Modified-Since for the page ctx->snapshot to the
 * headers of r, which has none, if the location has mcds_cache_revalidate and
 * the page has validators.  ctx is the context of r.  A page with no-cache is
 * revalidated by If-None-Match only.  Returns NGX_OK, or NGX_ERROR when out of
 * memory.
 */

ngx_int_t ngx_http_mcds_revalidate_ask(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);


/*
 * Decides whether the page ctx->snapshot replaces a response that could be
 * stored.  NGX_OK: yes, the page was updated by a 304, or is served stale after
 * an error, and its build has ended.  NGX_DONE: as NGX_OK, but in a dry run:
 * the response is passed, and the stored page stays.  NGX_DECLINED: store or
 * pass the response.  NGX_ERROR: out of memory.  NGX_AGAIN: the 304 does not
 * match the page, or cannot renew it, and the request is repeated without
 * validators.  NGX_HTTP_BAD_GATEWAY: as NGX_AGAIN, but the request cannot be
 * repeated; the build has failed.
 */

ngx_int_t ngx_http_mcds_revalidate(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);


/*
 * Removes If-None-Match and If-Modified-Since, which were added to revalidate
 * a page, from the headers of the request, when the response has come or an
 * error page is made: otherwise subrequests and other locations would ask for
 * their pages with the validators of this page.  Returns NGX_OK, or NGX_ERROR
 * when out of memory.
 */

ngx_int_t ngx_http_mcds_revalidate_asked(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);


/*
 * RFC 9111, 4.3.5, after the response to a HEAD request: renews the page in
 * ctx->snapshot if the response confirms the page, and stores the renewed page
 * unless the stored page has changed.
 */

void ngx_http_mcds_revalidate_head(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);


/*
 * Sets the header of the response from the page ctx->snapshot, in place of the
 * origin's header.  Returns NGX_OK, or NGX_ERROR when out of memory.
 */

ngx_int_t ngx_http_mcds_instead_header(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);

/*
 * Replaces "in", a part of the origin's response body: *out is the body of the
 * page ctx->snapshot in the first call, and NULL in later calls.  Returns
 * NGX_OK, or NGX_ERROR when out of memory.
 */

ngx_int_t ngx_http_mcds_instead_body(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_chain_t *in, ngx_chain_t **out);


#endif /* _NGX_HTTP_MCDS_REVALIDATE_H_INCLUDED_ */

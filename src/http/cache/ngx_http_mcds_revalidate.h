
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
 * Adds the validators of the page ctx->snapshot, if it has any, to the headers
 * of the request r, as If-None-Match and If-Modified-Since: with
 * mcds_cache_revalidate, for a page with status 200, if r has no credentials.
 * A page with no-cache is revalidated by If-None-Match only.  Call this when
 * the conditions of the client have been removed from r.  ctx is the context of
 * r.  Returns NGX_OK, or NGX_ERROR when out of memory.
 */

ngx_int_t ngx_http_mcds_revalidate_ask(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);


/*
 * Decides whether the client of r gets the page ctx->snapshot in place of the
 * origin's response.  NGX_OK: yes, a 304 has updated the page, or the response
 * is an error and the stale page replaces it.  NGX_DONE: the stale page would
 * replace the error, but with mcds_cache_dry_run the client gets the error.
 * NGX_DECLINED: no, the response may be stored.  NGX_ERROR: out of memory.
 * NGX_AGAIN: the 304 does not match the page, or cannot renew it: r is sent to
 * the origin again, without validators.  NGX_HTTP_BAD_GATEWAY: as NGX_AGAIN,
 * but r cannot be sent again, and the client gets 502.  With all results but
 * NGX_DECLINED and NGX_AGAIN, r has ended its build of the page.
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

ngx_int_t ngx_http_mcds_revalidate_strip(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);


/*
 * RFC 9111, 4.3.5: if the response to the HEAD request r confirms the page in
 * ctx->snapshot, renews the page by the headers of the response, or, if these
 * do not allow this, ends the page's lifetime.  The result is stored, unless
 * the page in memcached has changed since r looked it up.
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

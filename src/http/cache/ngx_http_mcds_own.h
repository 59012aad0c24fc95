
/*
 * Copyright (C) mcds authors
 *
 * For a HEAD request, a conditional request, or a request for a range, a copy
 * of the request, which has no client, builds the page in the background.  If
 * the response to the copy cannot be stored, it is for the client's request
 * alone, which need not ask the origin a second time.
 */


#ifndef _NGX_HTTP_MCDS_OWN_H_INCLUDED_
#define _NGX_HTTP_MCDS_OWN_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"


/*
 * Call this before the client's request r is copied to build the page in the
 * background: prepares r to get the response to the copy, if that response
 * cannot be stored.  Returns NGX_OK, or NGX_ERROR when out of memory.
 */

ngx_int_t ngx_http_mcds_own_create(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);

/*
 * links the client's request, by its context ctx, with the copy of the request
 * that builds the page in the background, by its context "build"
 */

void ngx_http_mcds_own_link(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_ctx_t *build);

/*
 * Waits for the response to the copy of a client's request that builds the page
 * in the background.  Called for the client's request r when the build of the
 * page has ended.  NGX_AGAIN: the response is on its way, and its end wakes the
 * request; NGX_OK: the response is complete, and the content handler of r is
 * set to send it; NGX_DECLINED: there is no response.
 */

ngx_int_t ngx_http_mcds_own_wait(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);

/*
 * Returns 1 if the client's request waits for the response to the copy of it
 * that builds the page in the background; ctx->task->waiting counts this wait.
 */

ngx_uint_t ngx_http_mcds_own_waiting(ngx_http_mcds_cache_ctx_t *ctx);


/*
 * Called for r, the copy of a client's request that builds the page in the
 * background, when the header of the response has come and the response is not
 * stored.  Keeps the response for the client's request, if that request has
 * called ngx_http_mcds_own_create() and would itself get the same response.
 * Does not keep a response whose body is larger than 1 MB or, if the client has
 * requested a range and the status is 200, has no known length.
 */

void ngx_http_mcds_own_take(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);

/*
 * called for the copy of a client's request in the background: keeps more of
 * its response's body for the client's request, and drops it if the response
 * turns out to have trailers
 */

void ngx_http_mcds_own_body(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_chain_t *in);

/*
 * called for the copy of a client's request in the background: returns 1 while
 * its response is kept for the client's request
 */

ngx_uint_t ngx_http_mcds_own_taking(ngx_http_mcds_cache_ctx_t *ctx);

/*
 * called for the copy of a client's request in the background, when its
 * response has ended, or is not kept for the client's request: unlinks the two
 * requests, and wakes the client's request if it waits
 */

void ngx_http_mcds_own_end(ngx_http_mcds_cache_ctx_t *ctx);


/*
 * Unlinks the client's request and the copy of it that builds the page in the
 * background: they no longer share ctx->own.  Called when one of them is freed,
 * or when the client's request drops the page that it has looked up, to look up
 * another page or none.
 */

void ngx_http_mcds_own_cleanup(ngx_http_mcds_cache_ctx_t *ctx);


#endif /* _NGX_HTTP_MCDS_OWN_H_INCLUDED_ */

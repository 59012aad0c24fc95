
/*
 * Copyright (C) mcds authors
 *
 * A conditional request, or a request for a range, has its page built by a
 * detached copy.  If the response turns out not to be storable, the response
 * is for this request alone, which need not ask the origin a second time.
 */


#ifndef _NGX_HTTP_MCDS_OWN_H_INCLUDED_
#define _NGX_HTTP_MCDS_OWN_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"


/*
 * For the client's request, before it is copied: NGX_OK, or NGX_ERROR when out
 * of memory.
 */

ngx_int_t ngx_http_mcds_own_create(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);

/* for the client's request: build is the context of the detached copy */

void ngx_http_mcds_own_link(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_ctx_t *build);

/*
 * For the client's request, when the build has ended.  NGX_AGAIN: the response
 * is on its way, and its end wakes the request; NGX_OK: the response is
 * complete, and the content handler of r is set to send it; NGX_DECLINED:
 * there is no response.
 */

ngx_int_t ngx_http_mcds_own_wait(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);

/*
 * 1 if the client's request waits for the response, which counts in
 * ctx->task->waiting.
 */

ngx_uint_t ngx_http_mcds_own_waits(ngx_http_mcds_cache_ctx_t *ctx);


/*
 * For the detached copy r, when its header has come and the response is not
 * stored: keeps the response if a request waits for it, and if the body is not
 * larger than 1 MB and, if a range was requested, has a known length.
 */

void ngx_http_mcds_own_take(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);

/* for the detached copy: keeps more of the body */

void ngx_http_mcds_own_body(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_chain_t *in);

/* for the detached copy: 1 while it keeps the response */

ngx_uint_t ngx_http_mcds_own_taking(ngx_http_mcds_cache_ctx_t *ctx);

/* for the detached copy: the response has ended, or is not the one to keep */

void ngx_http_mcds_own_end(ngx_http_mcds_cache_ctx_t *ctx);


/* for both: call this when the request is freed */

void ngx_http_mcds_own_cleanup(ngx_http_mcds_cache_ctx_t *ctx);


#endif /* _NGX_HTTP_MCDS_OWN_H_INCLUDED_ */

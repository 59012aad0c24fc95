
/*
 * Copyright (C) mcds authors
 *
 * A conditional request, or one for a range, has its page built by a copy.  If
 * the answer turns out not to be storable it is for that request alone, which
 * need not ask the origin a second time.
 */


#ifndef _NGX_HTTP_MCDS_OWN_H_INCLUDED_
#define _NGX_HTTP_MCDS_OWN_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"


/*
 * Of the request that waits.  create: before it makes its copy; NGX_ERROR: out
 * of memory.  link: "build" is the context of the copy.  wait: when the request
 * is told how the build has ended; NGX_AGAIN the answer is on its way, and the
 * request is told once more; NGX_OK it has come, and the content handler of the
 * request is set to send it; NGX_DECLINED there is none.  waits: 1 if the
 * answer is on its way, which counts among ctx->task->waiting.
 */

ngx_int_t ngx_http_mcds_own_create(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);
void ngx_http_mcds_own_link(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_ctx_t *build);
ngx_int_t ngx_http_mcds_own_wait(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);
ngx_uint_t ngx_http_mcds_own_waits(ngx_http_mcds_cache_ctx_t *ctx);


/*
 * Of the copy, r.  take: its header has come, and it is not stored; the body is
 * kept if a request waits for it and it is neither larger than 1 MB nor, where
 * a range of it is asked for, of a length that is not known.  body: more of it.
 * taking: 1 as long as that goes on.  end: there will be no more, also because
 * what has come is not the answer.
 */

void ngx_http_mcds_own_take(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);
void ngx_http_mcds_own_body(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_chain_t *in);
ngx_uint_t ngx_http_mcds_own_taking(ngx_http_mcds_cache_ctx_t *ctx);
void ngx_http_mcds_own_end(ngx_http_mcds_cache_ctx_t *ctx);


/* of both: the request is being freed */

void ngx_http_mcds_own_cleanup(ngx_http_mcds_cache_ctx_t *ctx);


#endif /* _NGX_HTTP_MCDS_OWN_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * A request that goes to the origin, on its own or by a copy.
 */


#ifndef _NGX_HTTP_MCDS_CACHE_BUILD_H_INCLUDED_
#define _NGX_HTTP_MCDS_CACHE_BUILD_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"


/*
 * r goes to the origin.  fill: the response ends the build of r.  pass: r
 * builds nothing; with store the response may be stored nevertheless, though
 * no other request waits for it.  Both return NGX_DECLINED, or NGX_ERROR.
 */

ngx_int_t ngx_http_mcds_cache_fill(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);
ngx_int_t ngx_http_mcds_cache_pass(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_uint_t store);


/* hands the build of r to a copy; ends it if that cannot be made: NGX_ERROR */

ngx_int_t ngx_http_mcds_cache_detach(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);


/* 1 if ctx->copy is a page whose body is sent step by step */
ngx_uint_t ngx_http_mcds_cache_streamed(ngx_http_mcds_cache_ctx_t *ctx);


/*
 * rebuild: has the page of r rebuilt that was purged, and is of this CAS now;
 * NGX_AGAIN, NGX_ERROR, or NGX_OK when ctx->outcome is known.  rebuilt: after
 * that; 1 if it is being rebuilt.
 */

ngx_int_t ngx_http_mcds_cache_rebuild(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf,
    uint64_t cas);
ngx_uint_t ngx_http_mcds_cache_rebuilt(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);


#endif /* _NGX_HTTP_MCDS_CACHE_BUILD_H_INCLUDED_ */

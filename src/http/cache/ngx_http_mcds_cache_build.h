
/*
 * Copyright (C) mcds authors
 *
 * Sends a client's request to the origin, or a copy of the request that builds
 * the page in the background, without a client.
 */


#ifndef _NGX_HTTP_MCDS_CACHE_BUILD_H_INCLUDED_
#define _NGX_HTTP_MCDS_CACHE_BUILD_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"


/*
 * Lets the request r go to the origin to build the page: the response to r
 * ends the build.  Returns NGX_DECLINED, or NGX_ERROR when out of memory.
 */

ngx_int_t ngx_http_mcds_cache_fill(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);

/*
 * Lets the request r go to the origin without a build: no other request waits
 * for the response to r.  store: the response may be stored nevertheless.
 * Returns NGX_DECLINED, or NGX_ERROR when out of memory.
 */

ngx_int_t ngx_http_mcds_cache_pass(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_uint_t store);


/*
 * Hands the build of a page from the client's request r over to a copy of r,
 * which runs in the background.  Returns NGX_OK, or NGX_ERROR if the copy
 * cannot be created: the build has ended then.
 */

ngx_int_t ngx_http_mcds_cache_detach(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);


/*
 * Returns 1 if ctx->snapshot is a page whose body is sent to the client in
 * parts, see ngx_http_mcds_streamed().
 */
ngx_uint_t ngx_http_mcds_cache_streamed(ngx_http_mcds_cache_ctx_t *ctx);


/*
 * Starts a rebuild of the page that the request r has purged; cas is the CAS of
 * the item that the purge has stored in place of the page, and left the parts
 * of the body that this item names, or NULL.  NGX_AGAIN: a reply of memcached
 * is to come; NGX_OK: ctx->outcome says already whether r may build the page;
 * NGX_ERROR: out of memory.
 */

ngx_int_t ngx_http_mcds_cache_rebuild(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf,
    uint64_t cas, ngx_mcds_cut_t *left);

/*
 * Call this after ngx_http_mcds_cache_rebuild(), once ctx->outcome says whether
 * the request r may build the purged page.  If r may, creates a copy of r,
 * which builds the page in the background.  Returns 1 if the copy was created.
 */

ngx_uint_t ngx_http_mcds_cache_rebuild_detach(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);


#endif /* _NGX_HTTP_MCDS_CACHE_BUILD_H_INCLUDED_ */

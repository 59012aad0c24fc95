
/*
 * Copyright (C) mcds authors
 *
 * mcds_cache_invalidate: unsafe requests invalidate pages (RFC 9111, 4.4).
 */


#ifndef _NGX_HTTP_MCDS_INVALIDATE_H_INCLUDED_
#define _NGX_HTTP_MCDS_INVALIDATE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"


/*
 * merges mcds_cache_invalidate (whether unsafe requests invalidate pages) of a
 * configuration level, conf, with that of its outer level, prev
 */

void ngx_http_mcds_invalidate_merge(ngx_http_mcds_cache_conf_t *prev,
    ngx_http_mcds_cache_conf_t *conf);

/*
 * Sets ctx->invalidate, ctx->key and ctx->conf if r is an unsafe request, which
 * invalidates the page of its URI by the configuration of its location, ccf.
 * Returns NGX_OK, or NGX_ERROR when out of memory.
 */

ngx_int_t ngx_http_mcds_invalidate_start(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf);

/*
 * Call this when an unsafe request has reached the location that responds: sets
 * ctx->invalidate by the mcds_cache_invalidate of this location.  If the page
 * of the request's URI has another key there, sets ctx->key to that key and
 * ctx->asked_key to the key before, to invalidate both pages.  Returns NGX_OK,
 * or NGX_ERROR when out of memory.
 */

ngx_int_t ngx_http_mcds_invalidate_arrive(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);

/* adds the filters that see the responses to unsafe requests and to HEAD */

void ngx_http_mcds_invalidate_init(void);

/*
 * parses the directive mcds_cache_invalidate: whether unsafe requests
 * invalidate pages
 */

char *ngx_http_mcds_cache_invalidate(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);


#endif /* _NGX_HTTP_MCDS_INVALIDATE_H_INCLUDED_ */

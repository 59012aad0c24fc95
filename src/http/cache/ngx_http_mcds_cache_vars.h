
/*
 * Copyright (C) mcds authors
 *
 * The variables of the cache, and the header Cache-Status (RFC 9211).
 */


#ifndef _NGX_HTTP_MCDS_CACHE_VARS_H_INCLUDED_
#define _NGX_HTTP_MCDS_CACHE_VARS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"


/*
 * Adds the variables of the cache, such as $mcds_cache_status; called in
 * preconfiguration.  Returns NGX_OK, or NGX_ERROR when out of memory.
 */

ngx_int_t ngx_http_mcds_cache_vars_add(ngx_conf_t *cf);

/*
 * Adds the header Cache-Status to the response, if the location has
 * mcds_cache_status_header; ctx->conf must not be NULL.  Returns NGX_OK, or
 * NGX_ERROR when out of memory.
 */

ngx_int_t ngx_http_mcds_cache_vars_header(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);


#endif /* _NGX_HTTP_MCDS_CACHE_VARS_H_INCLUDED_ */

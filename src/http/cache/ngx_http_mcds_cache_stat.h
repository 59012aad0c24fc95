
/*
 * Copyright (C) mcds authors
 *
 * The statistics of pages, for mcds_status.
 */


#ifndef _NGX_HTTP_MCDS_CACHE_STAT_H_INCLUDED_
#define _NGX_HTTP_MCDS_CACHE_STAT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"


/* the setter of mcds_cache_label */

char *ngx_http_mcds_cache_label(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);

/*
 * Call this when a location is merged and its pool is known: finds the cache
 * statistics of the location.  Returns NGX_CONF_OK or NGX_CONF_ERROR.
 */

char *ngx_http_mcds_stat_merge(ngx_conf_t *cf,
    ngx_http_mcds_cache_conf_t *prev, ngx_http_mcds_cache_conf_t *conf);


/*
 * call this when the request has ended: counts its cache status and its reason
 */

void ngx_http_mcds_stat_request(ngx_http_mcds_cache_ctx_t *ctx);

/*
 * Counts a response that is not stored for that reason, ngx_mcds_reason_e,
 * which also becomes the reason of the request.
 */

void ngx_http_mcds_stat_refused(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_uint_t reason);

/*
 * Call this when the header of a page from the cache has been sent: counts the
 * bytes of its body.
 */

void ngx_http_mcds_stat_served(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);


#endif /* _NGX_HTTP_MCDS_CACHE_STAT_H_INCLUDED_ */

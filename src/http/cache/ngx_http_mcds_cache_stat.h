
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


/*
 * parses the directive mcds_cache_label: the location's name in the statistics
 */

char *ngx_http_mcds_cache_label(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);

/*
 * Call this when a location is merged and its pool is known: finds the cache
 * statistics of the location.  Returns NGX_CONF_OK or NGX_CONF_ERROR.
 */

char *ngx_http_mcds_stat_merge(ngx_conf_t *cf,
    ngx_http_mcds_cache_conf_t *prev, ngx_http_mcds_cache_conf_t *conf);


/*
 * call this when a request has ended: counts its cache status, and the reason
 * of that status
 */

void ngx_http_mcds_stat_request(ngx_http_mcds_cache_ctx_t *ctx);

/*
 * Counts a response that is not stored because of "reason", an
 * ngx_mcds_reason_e, which also becomes the value of the request's
 * $mcds_cache_reason.
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


/*
 * Copyright (C) mcds authors
 *
 * What is counted of pages, for mcds_status.
 */


#ifndef _NGX_HTTP_MCDS_CACHE_STAT_H_INCLUDED_
#define _NGX_HTTP_MCDS_CACHE_STAT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"


/*
 * label: the directive.  merge: the zone of a location, when its pool is known.
 */

char *ngx_http_mcds_cache_label(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_mcds_stat_merge(ngx_conf_t *cf,
    ngx_http_mcds_cache_conf_t *prev, ngx_http_mcds_cache_conf_t *conf);


/*
 * request: it has ended.  refused: what the origin has answered is not stored,
 * by this reason, which is the request's from now on.  served: a body from the
 * cache is to be sent, the header was.
 */

void ngx_http_mcds_stat_request(ngx_http_mcds_cache_ctx_t *ctx);
void ngx_http_mcds_stat_refused(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_uint_t reason);
void ngx_http_mcds_stat_served(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);


#endif /* _NGX_HTTP_MCDS_CACHE_STAT_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * Statistics of what the configuration names, for mcds_status.
 */


#ifndef _NGX_HTTP_MCDS_STAT_H_INCLUDED_
#define _NGX_HTTP_MCDS_STAT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_mcds_stat_sums.h"
#include "ngx_http_mcds_module.h"


/* what went wrong, of a counter, log, array or table */

#define ngx_http_mcds_stat_failed(stat, rc)                                   \
    ngx_mcds_stat_add(stat, NGX_MCDS_DATA_FAILED + (rc), 1)


/*
 * While the configuration is read.  init: the lists.  get: what has this name,
 * made when it is asked for first; the name is not copied, pool may be NULL,
 * NULL when out of memory.  kind: of the location that is being merged, before
 * location: its name, with its server.
 */

ngx_int_t ngx_http_mcds_stat_init(ngx_conf_t *cf,
    ngx_http_mcds_main_conf_t *mmcf);
ngx_mcds_stat_t *ngx_http_mcds_stat_get(ngx_conf_t *cf, ngx_uint_t family,
    ngx_mcds_pool_t *pool, ngx_str_t *name);
void ngx_http_mcds_stat_kind(ngx_conf_t *cf, ngx_http_mcds_loc_conf_t *prev,
    ngx_http_mcds_loc_conf_t *conf);
ngx_int_t ngx_http_mcds_stat_location(ngx_conf_t *cf, ngx_str_t *name);


#endif /* _NGX_HTTP_MCDS_STAT_H_INCLUDED_ */

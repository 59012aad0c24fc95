
/*
 * Copyright (C) mcds authors
 *
 * Statistics of locations, counters, logs and the like, for mcds_status.
 */


#ifndef _NGX_HTTP_MCDS_STAT_H_INCLUDED_
#define _NGX_HTTP_MCDS_STAT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_mcds_stat_sums.h"
#include "ngx_http_mcds_module.h"


/*
 * counts, in the statistics of a counter, log, array or table, an operation
 * that has failed in memcached with the result rc, ngx_mcds_rc_e
 */

#define ngx_http_mcds_stat_failed(stat, rc)                                   \
    ngx_mcds_stat_add(stat, NGX_MCDS_DATA_FAILED + (rc), 1)


/*
 * Creates the empty lists of statistics, when the configuration begins.
 * NGX_OK, or NGX_ERROR when out of memory.
 */

ngx_int_t ngx_http_mcds_stat_init(ngx_conf_t *cf,
    ngx_http_mcds_main_conf_t *mmcf);

/*
 * Finds the statistics of one cache, counter, log or the like by their family
 * (ngx_mcds_stat_family_e), pool and name; creates them if this configuration
 * has none yet.  The name is not copied; pool may be NULL.  NULL when out of
 * memory.
 */

ngx_mcds_stat_t *ngx_http_mcds_stat_get(ngx_conf_t *cf, ngx_uint_t family,
    ngx_mcds_pool_t *pool, ngx_str_t *name);

/*
 * Call this when a location is merged, and before
 * ngx_http_mcds_stat_location(): stores the location, and its kind, such as "="
 * or "~".
 */

void ngx_http_mcds_stat_kind(ngx_conf_t *cf, ngx_http_mcds_loc_conf_t *prev,
    ngx_http_mcds_loc_conf_t *conf);

/*
 * Composes the name by which statistics show the location that is being read or
 * merged: its server, its kind and its own name, in memory of cf->pool.
 * NGX_OK, or NGX_ERROR when out of memory.
 */

ngx_int_t ngx_http_mcds_stat_location(ngx_conf_t *cf, ngx_str_t *name);


#endif /* _NGX_HTTP_MCDS_STAT_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * mcds_zone: the memory that all workers of this nginx share.
 */


#ifndef _NGX_HTTP_MCDS_ZONE_H_INCLUDED_
#define _NGX_HTTP_MCDS_ZONE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_module.h"


/* the setter of the directive "mcds_zone" */

char *ngx_http_mcds_zone(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);


/*
 * Call this when the configuration has been read: adds the servers of all pools
 * to the statistics, which exist with and without mcds_zone, the shared memory
 * zone.  NGX_OK, or NGX_ERROR when out of memory.
 */

ngx_int_t ngx_http_mcds_zone_prepare(ngx_conf_t *cf,
    ngx_http_mcds_main_conf_t *mmcf);

/*
 * Call this when the directives of all modules have been read: NGX_ERROR
 * (logged) if another module has declared a shared memory zone with the name of
 * that of mcds, otherwise NGX_OK.
 */

ngx_int_t ngx_http_mcds_zone_check(ngx_conf_t *cf);

/*
 * Adds mcds_zone, the shared memory zone of mcds, to the cycle; only for a
 * configuration that uses a pool of memcached servers, after
 * ngx_http_mcds_zone_check().  NGX_OK, or NGX_ERROR when out of memory.
 */

ngx_int_t ngx_http_mcds_zone_add(ngx_conf_t *cf,
    ngx_http_mcds_main_conf_t *mmcf);

/*
 * Call this when nginx has accepted the configuration, after the last step that
 * can fail: stores the generation of the configuration in mcds_zone, the shared
 * memory zone, as the one that nginx runs.  If nginx refuses a configuration,
 * the next one gets the same generation.
 */

void ngx_http_mcds_zone_accept(ngx_http_mcds_main_conf_t *mmcf);

/*
 * Call this when a worker starts: connects the statistics, the hot keys and the
 * copies of pages of this process to the shared memory zone (mcds_zone).
 */

void ngx_http_mcds_zone_attach(ngx_http_mcds_main_conf_t *mmcf);


/*
 * Allocates size bytes in the shared memory zone (mcds_zone), and drops copies
 * of pages to make room.  NULL if even that is not enough.
 */

void *ngx_http_mcds_zone_room(void *shpool, size_t size);


#endif /* _NGX_HTTP_MCDS_ZONE_H_INCLUDED_ */

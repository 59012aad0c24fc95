
/*
 * Copyright (C) mcds authors
 *
 * The memory that the workers of this host share.
 */


#ifndef _NGX_HTTP_MCDS_ZONE_H_INCLUDED_
#define _NGX_HTTP_MCDS_ZONE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_module.h"


char *ngx_http_mcds_zone(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);


/*
 * The zone is made when the configuration has been read and needs it.
 * prepare: the statistics, with or without a zone.  attach: in a worker.
 */

ngx_int_t ngx_http_mcds_zone_prepare(ngx_conf_t *cf,
    ngx_http_mcds_main_conf_t *mmcf);
ngx_int_t ngx_http_mcds_zone_add(ngx_conf_t *cf,
    ngx_http_mcds_main_conf_t *mmcf);
void ngx_http_mcds_zone_attach(ngx_http_mcds_main_conf_t *mmcf);


/* memory of the zone, for which copies of pages make room; NULL: none */

void *ngx_http_mcds_zone_room(void *shpool, size_t size);


#endif /* _NGX_HTTP_MCDS_ZONE_H_INCLUDED_ */

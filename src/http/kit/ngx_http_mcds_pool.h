
/*
 * Copyright (C) mcds authors
 *
 * Pools in the configuration, and the choice of one.
 */


#ifndef _NGX_HTTP_MCDS_POOL_H_INCLUDED_
#define _NGX_HTTP_MCDS_POOL_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_module.h"


/* directives */

char *ngx_http_mcds_pool(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_http_mcds_use(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_http_mcds_methods(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);


/* NULL: there is none of this name */

ngx_mcds_pool_t *ngx_http_mcds_find_pool(ngx_http_mcds_main_conf_t *mmcf,
    ngx_str_t *name);


/*
 * For a directive that needs a pool; messages are logged.  choose: the pool of
 * a name, or without a name the only one that there is.  needs_ttl: NGX_ERROR
 * when the items of the pool do not end by themselves.  check_lock: warns,
 * once, when locks of so many seconds may end before memcached has answered.
 */

ngx_mcds_pool_t *ngx_http_mcds_choose_pool(ngx_conf_t *cf, ngx_str_t *name,
    char *directive, ngx_http_mcds_place_t *place);
ngx_int_t ngx_http_mcds_needs_ttl(ngx_conf_t *cf, ngx_mcds_pool_t *pool,
    char *what, ngx_http_mcds_place_t *place);
void ngx_http_mcds_check_lock(ngx_conf_t *cf, ngx_mcds_pool_t *pool,
    char *what, time_t ttl, ngx_http_mcds_place_t *place);


#endif /* _NGX_HTTP_MCDS_POOL_H_INCLUDED_ */

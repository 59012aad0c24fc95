
/*
 * Copyright (C) mcds authors
 *
 * Pools of memcached servers in the configuration.
 */


#ifndef _NGX_HTTP_MCDS_POOL_H_INCLUDED_
#define _NGX_HTTP_MCDS_POOL_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_module.h"


/* the setter of the block "mcds_pool": makes a pool of memcached servers */

char *ngx_http_mcds_pool(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/*
 * the setter of "mcds_use", which selects the pool of memcached servers for a
 * location
 */

char *ngx_http_mcds_use(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/*
 * the setter of "mcds_api_methods", which lists the HTTP methods that the APIs
 * of mcds, such as mcds_table_api, allow in a location
 */

char *ngx_http_mcds_methods(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);


/*
 * the pool of memcached servers that has this name, or NULL if the
 * configuration has no such pool
 */

ngx_mcds_pool_t *ngx_http_mcds_find_pool(ngx_http_mcds_main_conf_t *mmcf,
    ngx_str_t *name);


/*
 * The pool of memcached servers for a directive: the pool of that name, or, if
 * name is NULL, the only pool of the configuration.  NULL, logged, if there is
 * none or if several pools are left to choose from.
 */

ngx_mcds_pool_t *ngx_http_mcds_choose_pool(ngx_conf_t *cf, ngx_str_t *name,
    char *directive, ngx_http_mcds_place_t *place);

/*
 * The same for a directive without the name of a pool, when nginx merges its
 * location: the pool of "mcds_use", if there is one.  nginx has merged
 * "mcds_use" of all levels before, as ngx_http_mcds_module precedes the modules
 * of the features in "config".
 */

ngx_mcds_pool_t *ngx_http_mcds_location_pool(ngx_conf_t *cf, char *directive,
    ngx_http_mcds_place_t *place);

/*
 * NGX_ERROR if items in the memcached servers of the pool do not expire
 * ("ttl=off"); the message in the log names the directive that needs items
 * which expire.
 */

ngx_int_t ngx_http_mcds_needs_ttl(ngx_conf_t *cf, ngx_mcds_pool_t *pool,
    char *what, ngx_http_mcds_place_t *place);

/*
 * Warns, once in a configuration, if a lock that expires after ttl seconds may
 * expire before memcached has answered; the message names the directive that
 * uses the lock.
 */

void ngx_http_mcds_check_lock(ngx_conf_t *cf, ngx_mcds_pool_t *pool,
    char *what, time_t ttl, ngx_http_mcds_place_t *place);


#endif /* _NGX_HTTP_MCDS_POOL_H_INCLUDED_ */

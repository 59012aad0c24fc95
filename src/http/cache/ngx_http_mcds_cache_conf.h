
/*
 * Copyright (C) mcds authors
 *
 * The directives of the cache that nginx's own slot setters cannot read.
 */


#ifndef _NGX_HTTP_MCDS_CACHE_CONF_H_INCLUDED_
#define _NGX_HTTP_MCDS_CACHE_CONF_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"
#include "ngx_http_mcds_param.h"


extern ngx_conf_bitmask_t  ngx_http_mcds_use_stale_masks[];


/*
 * the directives of the cache that have one value, as a table for
 * ngx_http_mcds_set_value()
 */

extern ngx_http_mcds_param_t  ngx_http_mcds_cache_values[];


/* sets the fields of a zeroed configuration of the cache to "unset" */

void ngx_http_mcds_cache_init_conf(ngx_http_mcds_cache_conf_t *conf);


/*
 * Merges the cache configuration of an outer level, prev, into that of an inner
 * level, conf; other functions merge some fields, such as cache_pool and
 * cache_label.  Always returns NGX_CONF_OK.
 */

char *ngx_http_mcds_cache_merge_conf(ngx_conf_t *cf,
    ngx_http_mcds_cache_conf_t *prev, ngx_http_mcds_cache_conf_t *conf);


/* parses the directive mcds_cache: the pool of memcached servers for pages */

char *ngx_http_mcds_cache(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/*
 * parses the directive mcds_cache_methods: the request methods that are cached
 */

char *ngx_http_mcds_cache_methods(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);

/* parses the directive mcds_cache_grace: how long stale pages are served */

char *ngx_http_mcds_cache_grace(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);

/* parses the directive mcds_cache_lock_age, and notes its place */

char *ngx_http_mcds_cache_lock_age(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);

/* parses the directive mcds_cache_lock_timeout: the longest wait for a page */

char *ngx_http_mcds_cache_lock_timeout(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);

/*
 * parses the directive mcds_cache_session_cookies: the names of session
 * cookies
 */

char *ngx_http_mcds_cache_session_cookies(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);

/* parses the directive mcds_cache_valid: lifetimes of pages by status code */

char *ngx_http_mcds_cache_valid(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);

/* parses the directive mcds_ignore_headers: response headers to ignore */

char *ngx_http_mcds_ignore_headers(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);

/*
 * parses the directive mcds_cache_heuristic: the lifetime of pages by
 * Last-Modified
 */

char *ngx_http_mcds_cache_heuristic(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);


#endif /* _NGX_HTTP_MCDS_CACHE_CONF_H_INCLUDED_ */

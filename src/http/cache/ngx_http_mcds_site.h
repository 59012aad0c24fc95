
/*
 * Copyright (C) mcds authors
 *
 * The site of a page: the server block that the page belongs to.  The name of
 * the site is the first part of each key in memcached, so that a server block
 * never serves pages of another one, whatever Host a client sends.
 */


#ifndef _NGX_HTTP_MCDS_SITE_H_INCLUDED_
#define _NGX_HTTP_MCDS_SITE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"


/*
 * Call this when a location is merged and its pool is known: sets conf->site
 * to the site of mcds_cache_site, or to that of the server block (a site's
 * name begins the keys of its pages).  Returns NGX_OK, or NGX_ERROR when out
 * of memory.
 */

ngx_int_t ngx_http_mcds_site_merge(ngx_conf_t *cf,
    ngx_http_mcds_cache_conf_t *prev, ngx_http_mcds_cache_conf_t *conf);

/*
 * Call this when the configuration has been read: names the site of each server
 * block by the block's first server_name.  If several blocks that share a pool
 * would have the same name, or none, logs a warning, and adds to the names the
 * listen addresses and, if need be, all server_names and the block's number.
 * Returns NGX_OK, or NGX_ERROR when out of memory.
 */

ngx_int_t ngx_http_mcds_site_init(ngx_conf_t *cf,
    ngx_http_mcds_cache_main_t *cmcf);


/*
 * Prepends the name of a site to the key of a page, in memory of r->pool; the
 * name may be empty.  Returns NGX_OK, or NGX_ERROR when out of memory.
 */

ngx_int_t ngx_http_mcds_site_add(ngx_http_request_t *r, ngx_str_t *site,
    ngx_str_t *key);

/*
 * returns the part of a page's key, "name", behind the name of the site; it
 * points into the key
 */

ngx_str_t ngx_http_mcds_site_key(ngx_str_t *name);


/*
 * returns 1 if a text is valid as the name of a site, which begins the keys of
 * pages
 */

ngx_uint_t ngx_http_mcds_site_check(ngx_str_t *site);

/*
 * parses the directive mcds_cache_site: the name that begins the keys of pages
 */

char *ngx_http_mcds_cache_site(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);


#endif /* _NGX_HTTP_MCDS_SITE_H_INCLUDED_ */

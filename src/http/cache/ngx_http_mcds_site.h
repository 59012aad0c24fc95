
/*
 * Copyright (C) mcds authors
 *
 * The site of a page: the server{} that it belongs to.  Its name is the first
 * part of the page's name, so that no server{} serves pages of another one,
 * whatever Host a client sends.
 */


#ifndef _NGX_HTTP_MCDS_SITE_H_INCLUDED_
#define _NGX_HTTP_MCDS_SITE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"


/*
 * merge: gives conf the site that its pages have, that of mcds_cache_site or
 * that of its server{}; after it is known which pool conf uses.  init: when the
 * configuration was read, names the sites of all server{} blocks: by the first
 * server_name, and where several of them that use one pool would have the same
 * name, or none, by their addresses, too (logged).
 */

ngx_int_t ngx_http_mcds_site_merge(ngx_conf_t *cf,
    ngx_http_mcds_cache_conf_t *prev, ngx_http_mcds_cache_conf_t *conf);
ngx_int_t ngx_http_mcds_site_init(ngx_conf_t *cf,
    ngx_http_mcds_cache_main_t *cmcf);


/*
 * add: makes of a key the name of its page, in memory of r's pool; site may be
 * empty.  key: the part of such a name that is the key.
 */

ngx_int_t ngx_http_mcds_site_add(ngx_http_request_t *r, ngx_str_t *site,
    ngx_str_t *key);
ngx_str_t ngx_http_mcds_site_key(ngx_str_t *name);


/* 1 if the text may be the name of a site */

ngx_uint_t ngx_http_mcds_site_check(ngx_str_t *site);

char *ngx_http_mcds_cache_site(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);


#endif /* _NGX_HTTP_MCDS_SITE_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * Makes the key of a page from the request, by default or by mcds_cache_key.
 */


#ifndef _NGX_HTTP_MCDS_KEY_H_INCLUDED_
#define _NGX_HTTP_MCDS_KEY_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"


/*
 * Sets *key to the key of the page that the request r asks for.  The key begins
 * with the name of the page's site, see ngx_http_mcds_site.h.
 * ngx_http_mcds_key_host() must have been called for the request.
 * NGX_DECLINED: the page has no key, and is not cached; NGX_ERROR: out of
 * memory.
 */

ngx_int_t ngx_http_mcds_cache_key(ngx_http_request_t *r,
    ngx_http_mcds_cache_conf_t *ccf, ngx_str_t *key);

/*
 * Adds a Host header to a request of HTTP/3: from ":authority", nginx makes a
 * Host header for HTTP/2, but not for HTTP/3.  Requests of all protocols share
 * a page, so the origin must get the same Host, be it by $http_host or by a
 * FastCGI parameter.  The header becomes the first part of the request's list
 * of headers: the parts behind may be shared with the main request.  If the
 * request has a Host header, nothing is done.  NGX_ERROR: out of memory.
 */

ngx_int_t ngx_http_mcds_key_host(ngx_http_request_t *r);

/*
 * Returns 1 if a name, up to end, matches the pattern p, up to last, in which
 * "*" stands for any number of characters.
 */

ngx_uint_t ngx_http_mcds_match(u_char *p, u_char *last, u_char *name,
    u_char *end);

/*
 * Adds the variable $mcds_cache_key, the key of a page; called in
 * preconfiguration.  Returns NGX_OK, or NGX_ERROR when out of memory.
 */

ngx_int_t ngx_http_mcds_key_add_variables(ngx_conf_t *cf);

/* parses the directive mcds_cache_key: the key of a page */

char *ngx_http_mcds_cache_key_set(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);

/*
 * parses the directive mcds_cache_key_args: which arguments of the URI are in
 * the key
 */

char *ngx_http_mcds_cache_key_args(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);


#endif /* _NGX_HTTP_MCDS_KEY_H_INCLUDED_ */

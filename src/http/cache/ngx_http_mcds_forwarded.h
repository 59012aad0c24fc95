
/*
 * Copyright (C) mcds authors
 *
 * Request headers that override the method, the host or the scheme for the
 * application, so that the application answers another request than the one
 * that nginx sees.
 */


#ifndef _NGX_HTTP_MCDS_FORWARDED_H_INCLUDED_
#define _NGX_HTTP_MCDS_FORWARDED_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"


/*
 * Returns 1 if a header overrides the request's method for the application,
 * such as X-HTTP-Method-Override.  For a HEAD request, an override with the
 * value HEAD counts, too: a refresh sends a GET request with the headers of
 * the HEAD request.
 */

ngx_uint_t ngx_http_mcds_overridden(ngx_http_request_t *r);


/*
 * Sets *text to the headers named by mcds_cache_forwarded_headers; if none of
 * their values differs from the value that nginx knows itself, the text is
 * empty, and nothing is allocated.  Two requests have the same text only if
 * these headers are equal, up to the order of headers with different names, or
 * if both texts are empty.  A page that was made for one text must not be
 * served for another.  The text is allocated from r->pool.  Returns NGX_OK, or
 * NGX_ERROR when out of memory.
 */

ngx_int_t ngx_http_mcds_forwarded(ngx_http_request_t *r,
    ngx_http_mcds_cache_conf_t *ccf, ngx_str_t *text);


/*
 * parses the directive mcds_cache_forwarded_headers: the names of headers that
 * proxies add
 */

char *ngx_http_mcds_cache_forwarded_headers(ngx_conf_t *cf,
    ngx_command_t *cmd, void *conf);


#endif /* _NGX_HTTP_MCDS_FORWARDED_H_INCLUDED_ */

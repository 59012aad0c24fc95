
/*
 * Copyright (C) mcds authors
 *
 * Request headers that have an application answer another request than the one
 * that nginx has.
 */


#ifndef _NGX_HTTP_MCDS_FORWARDED_H_INCLUDED_
#define _NGX_HTTP_MCDS_FORWARDED_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"


/*
 * 1 if a header tells the application to take the request for one of another
 * method.  A HEAD counts even if it says that it is one: where it has a page
 * refreshed, a GET is sent with its headers.
 */

ngx_uint_t ngx_http_mcds_overridden(ngx_http_request_t *r);


/*
 * *text: the headers named by mcds_cache_forwarded_headers that say something
 * else than nginx has.  It is empty, and nothing is allocated, if there are
 * none.  It is the same for two requests only if these headers are, up to the
 * order of those that have different names; it lives in the pool of r.  A page
 * that was made for one text must not be served for another one.
 * NGX_ERROR: out of memory.
 */

ngx_int_t ngx_http_mcds_forwarded(ngx_http_request_t *r,
    ngx_http_mcds_cache_conf_t *ccf, ngx_str_t *text);


char *ngx_http_mcds_cache_forwarded_headers(ngx_conf_t *cf,
    ngx_command_t *cmd, void *conf);


#endif /* _NGX_HTTP_MCDS_FORWARDED_H_INCLUDED_ */

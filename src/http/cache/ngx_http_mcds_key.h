
/*
 * Copyright (C) mcds authors
 *
 * The name that a page is kept under.
 */


#ifndef _NGX_HTTP_MCDS_KEY_H_INCLUDED_
#define _NGX_HTTP_MCDS_KEY_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"


/*
 * The text that the page of r is kept under: site and key, see
 * ngx_http_mcds_site.h.  NGX_DECLINED: there is none.
 * match: 1 if the name is that of the pattern, in which "*" stands for any
 * number of characters.
 */

ngx_int_t ngx_http_mcds_cache_key(ngx_http_request_t *r,
    ngx_http_mcds_cache_conf_t *ccf, ngx_str_t *key);
ngx_uint_t ngx_http_mcds_match(u_char *p, u_char *last, u_char *name,
    u_char *end);
ngx_int_t ngx_http_mcds_key_add_variables(ngx_conf_t *cf);

char *ngx_http_mcds_cache_key_args(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);


#endif /* _NGX_HTTP_MCDS_KEY_H_INCLUDED_ */

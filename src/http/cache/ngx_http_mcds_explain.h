
/*
 * Copyright (C) mcds authors
 *
 * Variables of the cache, and Cache-Status (RFC 9211).
 */


#ifndef _NGX_HTTP_MCDS_EXPLAIN_H_INCLUDED_
#define _NGX_HTTP_MCDS_EXPLAIN_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"


/*
 * What was done.  header: adds Cache-Status, if it is wanted; ctx has a conf.
 */

ngx_int_t ngx_http_mcds_explain_add_variables(ngx_conf_t *cf);
ngx_int_t ngx_http_mcds_explain_header(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);


#endif /* _NGX_HTTP_MCDS_EXPLAIN_H_INCLUDED_ */

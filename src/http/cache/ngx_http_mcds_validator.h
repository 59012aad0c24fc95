
/*
 * Copyright (C) mcds authors
 *
 * What stored pages and responses are compared by.
 */


#ifndef _NGX_HTTP_MCDS_VALIDATOR_H_INCLUDED_
#define _NGX_HTTP_MCDS_VALIDATOR_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"


extern ngx_str_t  ngx_http_mcds_etag;


/* the first value of a stored header that is not empty, or NGX_DECLINED */

ngx_int_t ngx_http_mcds_stored_find(ngx_str_t headers, ngx_str_t *name,
    ngx_str_t *value);


/* 1 if the ETag of a 304 is that of the stored page */

ngx_uint_t ngx_http_mcds_validator_same(ngx_str_t *old, ngx_str_t *new);


/*
 * 1 if an answer with that status and ETag (NULL: none) may be stored although
 * no-cache stands in it: it can be told from any other, and the location has
 * mcds_cache_revalidate.
 */

ngx_uint_t ngx_http_mcds_validator_each(ngx_http_mcds_cache_conf_t *ccf,
    ngx_uint_t status, ngx_str_t *etag);


/*
 * 1 if an answer that is to become the entry has the ETag of the page that the
 * origin was asked about: the origin does not answer 304.
 */

ngx_uint_t ngx_http_mcds_validator_ignored(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);


#endif /* _NGX_HTTP_MCDS_VALIDATOR_H_INCLUDED_ */

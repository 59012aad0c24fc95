
/*
 * Copyright (C) mcds authors
 *
 * Compares stored pages and responses by their validators.
 */


#ifndef _NGX_HTTP_MCDS_VALIDATOR_H_INCLUDED_
#define _NGX_HTTP_MCDS_VALIDATOR_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"


extern ngx_str_t  ngx_http_mcds_etag;
extern ngx_str_t  ngx_http_mcds_last_modified;


/*
 * Finds the first non-empty value of a header in the headers of a stored page.
 * Returns NGX_OK, or NGX_DECLINED if there is none.
 */

ngx_int_t ngx_http_mcds_stored_find(ngx_str_t headers, ngx_str_t *name,
    ngx_str_t *value);


/*
 * compares the headers of a stored page, "page", with those of a 304,
 * "headers", RFC 9111, 4.3.4: returns 0 if the 304 has the ETag or the
 * Last-Modified of another version of the page; otherwise 1
 */

ngx_uint_t ngx_http_mcds_validator_same(ngx_str_t page, ngx_str_t headers);


/*
 * Returns 1 if a response with a status and an ETag (NULL: none) may be stored
 * in spite of no-cache: it has a strong ETag, by which each request
 * revalidates the page, and the location has mcds_cache_revalidate.
 */

ngx_uint_t ngx_http_mcds_validator_each(ngx_http_mcds_cache_conf_t *ccf,
    ngx_uint_t status, ngx_str_t *etag);


/*
 * Returns 1 if a response to be stored has the ETag of the page that was
 * revalidated: the origin, which does not support 304, has sent the page
 * again.
 */

ngx_uint_t ngx_http_mcds_validator_ignored(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);


#endif /* _NGX_HTTP_MCDS_VALIDATOR_H_INCLUDED_ */

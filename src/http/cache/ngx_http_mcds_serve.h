
/*
 * Copyright (C) mcds authors
 *
 * Sends a stored page as a response.
 */


#ifndef _NGX_HTTP_MCDS_SERVE_H_INCLUDED_
#define _NGX_HTTP_MCDS_SERVE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"


/*
 * Sets the header of the response to the client from the page ctx->snapshot.
 * Returns NGX_OK, or NGX_ERROR when out of memory.
 */

ngx_int_t ngx_http_mcds_serve_page(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);

/*
 * Returns the body of the page ctx->snapshot as the last buffer of a response;
 * NULL when out of memory.  The page must not be one that is streamed (sent in
 * parts).
 */

ngx_buf_t *ngx_http_mcds_serve_body(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);

/*
 * Adds a header of a page to the response, and sets the pointer that nginx has
 * for such a header in r->headers_out, if any.  The texts are not copied.
 * Returns the header, or NULL when out of memory.
 */
ngx_table_elt_t *ngx_http_mcds_serve_line(ngx_http_request_t *r,
    ngx_str_t *name, ngx_str_t *value);

/*
 * Removes those conditions, and the range, of the request that do not apply to
 * the response (RFC 9110, 13 and 14.2); nginx's filters evaluate the others.
 * last_modified: Last-Modified of the response, or -1; date: Date of the
 * response.
 */

void ngx_http_mcds_serve_conditions(ngx_http_request_t *r, time_t last_modified,
    int64_t date);

/*
 * Returns 1 if the response must not have the header "name" of the page, since
 * nginx may make a 206 of the response.  Call this when r->allow_ranges is set.
 */

ngx_uint_t ngx_http_mcds_serve_omits(ngx_http_request_t *r, ngx_str_t *name);

/* the content handler that sends the page ctx->snapshot */
ngx_int_t ngx_http_mcds_serve_handler(ngx_http_request_t *r);


#endif /* _NGX_HTTP_MCDS_SERVE_H_INCLUDED_ */

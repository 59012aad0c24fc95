
/*
 * Copyright (C) mcds authors
 *
 * Functions that add headers to a response, compare the names of headers, and
 * send the header of a response that must not be cached.
 */


#ifndef _NGX_HTTP_MCDS_HEADER_H_INCLUDED_
#define _NGX_HTTP_MCDS_HEADER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_mcds.h"


/*
 * Adds a header to the response; its name and its value are not copied.  NULL
 * when out of memory.
 */

ngx_table_elt_t *ngx_http_mcds_header_add(ngx_http_request_t *r,
    ngx_str_t *name, ngx_str_t *value);

/*
 * Adds a header to the response from null-terminated texts, which must live as
 * long as r->pool.  NGX_OK, or NGX_ERROR when out of memory.
 */

ngx_int_t ngx_http_mcds_header_text(ngx_http_request_t *r, char *name,
    char *value);


/*
 * Adds "Cache-Control: no-store" to the response; the directive "expires"
 * replaces this header.  NGX_OK, or NGX_ERROR when out of memory.
 */

ngx_int_t ngx_http_mcds_header_no_store(ngx_http_request_t *r);


/*
 * For a content handler: sends the header of a response with Cache-Control:
 * no-store, and returns as ngx_http_send_header() does, or 500.  The caller has
 * set the length of the response's body.  type: the Content-Type of the
 * response, a constant, with its parameters.
 */

ngx_int_t ngx_http_mcds_header_send(ngx_http_request_t *r, ngx_uint_t status,
    char *type);


/*
 * 1 if the text s, a ngx_str_t *, equals the literal "name"; case does not
 * matter
 */

#define ngx_http_mcds_header_is(s, name)                                      \
    ((s)->len == sizeof(name) - 1                                             \
     && ngx_mcds_is_name((s)->data, (u_char *) name, sizeof(name) - 1))

/*
 * 1 if the array "names", which ends with an empty string, has the header's
 * name; case does not matter.
 */

ngx_uint_t ngx_http_mcds_header_in(ngx_str_t *names, ngx_str_t *name);

/*
 * 1 if the header is a Cache-Control for some caches only, RFC 9213: its name
 * ends with "-Cache-Control", as that of CDN-Cache-Control does
 */

ngx_uint_t ngx_http_mcds_header_targeted(ngx_str_t *name);


/*
 * 1 if the header of a request is a line of Cache-Control with only-if-cached,
 * by which the client asks caches for a stored response or 504
 */

ngx_uint_t ngx_http_mcds_header_only_if_cached(ngx_table_elt_t *h);


/*
 * Copies a text into memory of the pool; an empty text gets NULL as its data.
 * NGX_OK, or NGX_ERROR when out of memory.
 */

ngx_int_t ngx_http_mcds_copy_text(ngx_pool_t *pool, ngx_str_t *to,
    ngx_str_t *from);


#endif /* _NGX_HTTP_MCDS_HEADER_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * Headers of answers.
 */


#ifndef _NGX_HTTP_MCDS_HEADER_H_INCLUDED_
#define _NGX_HTTP_MCDS_HEADER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>


/*
 * Add a header to the answer.  add: NULL when out of memory; what the two
 * point to is not copied.  text: the same with constants, or what lives as
 * long as r's pool.
 */

ngx_table_elt_t *ngx_http_mcds_header_add(ngx_http_request_t *r,
    ngx_str_t *name, ngx_str_t *value);
ngx_int_t ngx_http_mcds_header_text(ngx_http_request_t *r, char *name,
    char *value);


/* Cache-Control: no-store; "expires" replaces it */

ngx_int_t ngx_http_mcds_header_no_store(ngx_http_request_t *r);


/*
 * Sends the header of an answer that is not to be kept, from a content
 * handler; returns as ngx_http_send_header() does.  The length is set before.
 * type: a constant, with its parameters.
 */

ngx_int_t ngx_http_mcds_header_send(ngx_http_request_t *r, ngx_uint_t status,
    char *type);


/*
 * Names of headers, in any case.  is: s, a ngx_str_t *, is that literal.  in:
 * the name is one of names, which end with an empty one.
 */

#define ngx_http_mcds_header_is(s, name)                                      \
    ((s)->len == sizeof(name) - 1                                             \
     && ngx_strncasecmp((s)->data, (u_char *) name, sizeof(name) - 1) == 0)

ngx_uint_t ngx_http_mcds_header_in(ngx_str_t *names, ngx_str_t *name);


/* a copy in memory of the pool; an empty text has no data */

ngx_int_t ngx_http_mcds_copy_text(ngx_pool_t *pool, ngx_str_t *to,
    ngx_str_t *from);


#endif /* _NGX_HTTP_MCDS_HEADER_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * Arguments in the format application/x-www-form-urlencoded.
 */


#ifndef _NGX_HTTP_MCDS_URLENCODED_H_INCLUDED_
#define _NGX_HTTP_MCDS_URLENCODED_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/*
 * Takes the first argument of a query or form from args, which then starts
 * behind that argument: NGX_OK, or NGX_DONE if none is left.  name and value
 * point into args and are still encoded; value->data is NULL if the argument
 * has no "=".
 */

ngx_int_t ngx_http_mcds_urlencoded_next(ngx_str_t *args, ngx_str_t *name,
    ngx_str_t *value);


/*
 * Decodes a text of a query or form, with %XX, and "+" as a space, into memory
 * of the pool; "to" and "from" may be the same.  NGX_DECLINED: a "%" without
 * two hexadecimal digits; NGX_ERROR: out of memory.
 */

ngx_int_t ngx_http_mcds_urlencoded_decode(ngx_pool_t *pool, ngx_str_t *to,
    ngx_str_t *from);


#endif /* _NGX_HTTP_MCDS_URLENCODED_H_INCLUDED_ */

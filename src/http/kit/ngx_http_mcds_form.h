
/*
 * Copyright (C) mcds authors
 *
 * Arguments as forms write them: application/x-www-form-urlencoded.
 */


#ifndef _NGX_HTTP_MCDS_FORM_H_INCLUDED_
#define _NGX_HTTP_MCDS_FORM_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/*
 * The first argument of args, which moves on: NGX_OK, or NGX_DONE at the end.
 * Both point into args, as written; value->data is NULL without a "=".
 */

ngx_int_t ngx_http_mcds_form_next(ngx_str_t *args, ngx_str_t *name,
    ngx_str_t *value);


/*
 * %XX, and "+" for a space.  to is memory of pool and may be from.
 * NGX_DECLINED: it is not well encoded; NGX_ERROR: out of memory.
 */

ngx_int_t ngx_http_mcds_form_decode(ngx_pool_t *pool, ngx_str_t *to,
    ngx_str_t *from);


#endif /* _NGX_HTTP_MCDS_FORM_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * Arrays, lists of JSON values in memcached: the functions that mcds_array_api
 * and mcds_array_push share.
 */


#ifndef _NGX_HTTP_MCDS_ARRAY_H_INCLUDED_
#define _NGX_HTTP_MCDS_ARRAY_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_data.h"
#include "ngx_http_mcds_json_lines.h"
#include "ngx_http_mcds_param.h"


/* the parameters that mcds_array_api and mcds_array_push share */

extern ngx_http_mcds_param_t  ngx_http_mcds_array_params[];


/*
 * Sets up the structure of an array in memcached by the name that the directive
 * computes for a request; the name may be in memory of the request.  Returns
 * NGX_DECLINED if the name is empty, NGX_ERROR if it cannot be computed.
 */

ngx_int_t ngx_http_mcds_array_name(ngx_http_request_t *r,
    ngx_http_mcds_array_conf_t *conf, ngx_mcds_pool_t *pool,
    ngx_mcds_array_t *array);


/*
 * Returns the set of all values that an array has in memcached, and of those
 * that earlier edits of the same change are going to append ("added", which may
 * be NULL).  Edits that are done together share the set, and must not change
 * it.  Returns NULL if out of memory.
 */

ngx_http_mcds_set_t *ngx_http_mcds_array_known(
    ngx_mcds_array_content_t *content, ngx_mcds_value_t *added);


/*
 * Returns n lines of JSON in the form in which memcached stores the values of
 * an array, in a new ngx_mcds_value_t; the reference is the caller's.  Returns
 * NULL if out of memory.
 */

ngx_mcds_value_t *ngx_http_mcds_array_text(ngx_str_t *line, ngx_uint_t n);


#endif /* _NGX_HTTP_MCDS_ARRAY_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * The values of nginx's variables.  A request and its subrequests have the same
 * variables.  While one of them waits for memcached or for the origin, others
 * may go through their locations, where "set" and named captures change
 * variables.
 */


#ifndef _NGX_HTTP_MCDS_VARIABLES_H_INCLUDED_
#define _NGX_HTTP_MCDS_VARIABLES_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_task.h"


/*
 * Call this when the request of the park begins to wait, or goes on to the
 * origin: saves the values of its variables, unless the request is alone.
 * NGX_ERROR: out of memory.
 */

ngx_int_t ngx_http_mcds_variables_save(ngx_http_mcds_park_t *park);


/*
 * Gives the variables the values back that were saved last; those that had none
 * have none again, unless nginx keeps one value for all requests.
 */

void ngx_http_mcds_variables_restore(ngx_http_mcds_park_t *park);


/*
 * Returns a copy of the values of all variables, by which
 * ngx_http_mcds_variables_set() sets them back; NULL: out of memory.
 */

ngx_http_variable_value_t *ngx_http_mcds_variables_copy(ngx_http_request_t *r);


/* Sets all variables to the values of a copy; NULL: does nothing. */

void ngx_http_mcds_variables_set(ngx_http_request_t *r,
    ngx_http_variable_value_t *copy);


/*
 * Restores the values that were saved for the request's own location, if others
 * may have changed them.  *others is set to a copy of the values until then, to
 * be set back, or to NULL.  NGX_ERROR: out of memory.
 */

ngx_int_t ngx_http_mcds_variables_own(ngx_http_mcds_park_t *park,
    ngx_http_variable_value_t **others);


#endif /* _NGX_HTTP_MCDS_VARIABLES_H_INCLUDED_ */

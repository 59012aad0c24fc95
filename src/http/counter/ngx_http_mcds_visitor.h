
/*
 * Copyright (C) mcds authors
 *
 * mcds_visitor_counter, the counter of those who came lately.
 */


#ifndef _NGX_HTTP_MCDS_VISITOR_H_INCLUDED_
#define _NGX_HTTP_MCDS_VISITOR_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_counter.h"
#include "ngx_mcds_visitors.h"


struct ngx_http_mcds_visitor_s {
    ngx_str_t                   name;     /* who it is, as written */
    ngx_http_complex_value_t    text;     /* ... and for a request */
    ngx_mcds_visitors_t         visitors; /* all but the pool */
};


/*
 * start: counts the visit that r is to the counter of key, unless counts is
 * 0, and asks for the number to show.  NGX_ERROR when out of memory.
 *
 * cancel: the number's handler is not to be called any more.  hurry: it is
 * called, if it was not, as after a timeout.
 */

ngx_int_t ngx_http_mcds_visitor_start(ngx_http_request_t *r,
    ngx_http_mcds_counter_t *counter, ngx_http_mcds_number_t *number,
    ngx_mcds_pool_t *pool, ngx_str_t *key, ngx_uint_t counts);
void ngx_http_mcds_visitor_cancel(ngx_http_mcds_number_t *number);
void ngx_http_mcds_visitor_hurry(ngx_http_mcds_number_t *number);


#endif /* _NGX_HTTP_MCDS_VISITOR_H_INCLUDED_ */

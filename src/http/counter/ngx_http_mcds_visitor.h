
/*
 * Copyright (C) mcds authors
 *
 * mcds_visitor_counter: the number of unique visitors in a window of time.
 */


#ifndef _NGX_HTTP_MCDS_VISITOR_H_INCLUDED_
#define _NGX_HTTP_MCDS_VISITOR_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_counter.h"
#include "ngx_mcds_visitors.h"


struct ngx_http_mcds_visitor_s {
    ngx_str_t                   name;     /* the parameter "visitor=", which
                                             tells visitors apart */
    ngx_http_complex_value_t    text;     /* the compiled value of the
                                             parameter "visitor=" */
    ngx_mcds_visitors_t         visitors; /* the parameters of the counter of
                                             visitors, without its pool of
                                             memcached servers */
};


/*
 * Counts a visit under the key of a counter of visitors, unless counts is 0,
 * and sets the number of visitors that the request r shows.  If memcached must
 * be asked for this number, ngx_http_mcds_task_result() is called when
 * memcached has replied.  Returns NGX_OK, or NGX_ERROR if the value of
 * "visitor=" cannot be computed.
 */

ngx_int_t ngx_http_mcds_visitor_start(ngx_http_request_t *r,
    ngx_http_mcds_counter_t *counter, ngx_http_mcds_number_t *number,
    ngx_mcds_pool_t *pool, ngx_str_t *key, ngx_uint_t counts);

/*
 * Call this when a request is freed: it no longer waits for the value of a
 * counter of visitors.
 */

void ngx_http_mcds_visitor_cancel(ngx_http_mcds_number_t *number);

/*
 * Ends the wait of a request, as after a timeout of memcached, if the value of
 * a counter of visitors has not come yet.
 */

void ngx_http_mcds_visitor_hurry(ngx_http_mcds_number_t *number);


#endif /* _NGX_HTTP_MCDS_VISITOR_H_INCLUDED_ */

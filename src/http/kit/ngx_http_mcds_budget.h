
/*
 * Copyright (C) mcds authors
 *
 * How long a request or subrequest waits for memcached, see ngx_mcds_budget.h.
 * One budget covers all operations of memcached that delay the response header:
 * those for the variables of mcds_table_lookup, for the lock of mcds_lock, for
 * counters, and for the lookup of the page.  The budget leaves out the time
 * spent waiting for another request or for the origin, operations after the
 * header is sent, purges (their response reports the outcome), and resources
 * such as mcds_array_api, which are served from memcached alone.
 */


#ifndef _NGX_HTTP_MCDS_BUDGET_H_INCLUDED_
#define _NGX_HTTP_MCDS_BUDGET_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_task.h"


/*
 * Call this when a request starts to wait for operations that it has sent to
 * memcached.  All waits of one request share a budget of time.  Once it is
 * spent, each operation that memcached has not answered ends with
 * NGX_MCDS_TIMEOUT; later operations of the same request end with
 * NGX_MCDS_TIMEOUT at once.
 */

void ngx_http_mcds_budget_begin(ngx_http_mcds_task_t *task);

/*
 * Call this when a request continues that has waited for memcached: takes the
 * time of the wait from the request's budget for such waits.
 */

void ngx_http_mcds_budget_end(ngx_http_mcds_task_t *task);


/*
 * logs at level "info" that the request r no longer waits for memcached, since
 * the time that r may wait has passed
 */

void ngx_http_mcds_budget_log(ngx_http_request_t *r);


#endif /* _NGX_HTTP_MCDS_BUDGET_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * How long a request or subrequest waits for memcached, see ngx_mcds_budget.h.
 * It is one budget for all that delays the request: the variables of tables,
 * the lock of mcds_lock, its counters, the page in all of its steps.  Not part
 * of it are the time in which another request or the origin is waited for;
 * what is sent behind the header; purges, whose answer is what they have done;
 * and resources such as mcds_array_api, whose content memcached is.
 */


#ifndef _NGX_HTTP_MCDS_BUDGET_H_INCLUDED_
#define _NGX_HTTP_MCDS_BUDGET_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_task.h"


/*
 * The request of a task waits for what it has asked, or goes on.  If it has
 * waited long enough, all of that is told to be TIMEOUT; so is, at once, what
 * is asked later.
 */

void ngx_http_mcds_budget_begin(ngx_http_mcds_task_t *task);
void ngx_http_mcds_budget_end(ngx_http_mcds_task_t *task);


/* for the log: r, which does not wait any longer */

void ngx_http_mcds_budget_log(ngx_http_request_t *r);


#endif /* _NGX_HTTP_MCDS_BUDGET_H_INCLUDED_ */

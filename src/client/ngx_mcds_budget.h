
/*
 * Copyright (C) mcds authors
 *
 * How long a request waits for memcached: whatever it asks, and however many
 * times, all of its waits together take no longer than the timeout of the pool,
 * with several pools the longest of their timeouts.
 *
 * Nothing is done to the operations, which end by themselves.  It is the
 * request that does not wait any longer: what it still waits for is to be taken
 * for an operation that ended with NGX_MCDS_TIMEOUT.
 *
 * Waits of a worker have one timer, which is left in place while they come and
 * go.
 */


#ifndef _NGX_MCDS_BUDGET_H_INCLUDED_
#define _NGX_MCDS_BUDGET_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>


typedef struct ngx_mcds_wait_s  ngx_mcds_wait_t;


/* of one request; zeroed at first */

typedef struct {
    ngx_msec_t            limit;       /* the longest timeout so far */
    ngx_msec_t            spent;       /* by the waits that have ended */
} ngx_mcds_budget_t;


/* of the request, zeroed at first; it may be used again and again */

struct ngx_mcds_wait_s {
    ngx_queue_t           queue;
    ngx_mcds_budget_t    *budget;      /* NULL: has not begun, or has ended */
    ngx_msec_t            start;
    ngx_msec_t            deadline;
    void                (*handler)(void *data);
    void                 *data;
    unsigned              queued:1;
};


/*
 * begin: of one that is not under way; timeout is that of the pool that is
 * asked.  The handler is called once, not from inside of this call, if the wait
 * has not ended in time.  end: it does now, also if the handler was called;
 * until is when memcached was not waited for any more.  cancel: the same, and
 * the time is not counted.  Both are allowed at any time.
 */

void ngx_mcds_wait_begin(ngx_mcds_wait_t *wait, ngx_mcds_budget_t *budget,
    ngx_msec_t timeout, void (*handler)(void *data), void *data);
void ngx_mcds_wait_end(ngx_mcds_wait_t *wait, ngx_msec_t until);
void ngx_mcds_wait_cancel(ngx_mcds_wait_t *wait);


#endif /* _NGX_MCDS_BUDGET_H_INCLUDED_ */

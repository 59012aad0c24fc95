
/*
 * Copyright (C) mcds authors
 *
 * The time that a request waits for memcached.  All waits of a request
 * together, however many operations it submits, last no longer than the timeout
 * of the pool or, with several pools, the longest of their timeouts.
 *
 * The operations are not affected, and end by themselves.  Only the request
 * stops waiting, and treats an operation as if it had ended with
 * NGX_MCDS_TIMEOUT.
 *
 * All waits of a worker share one timer, which is not reset while waits start
 * and end.
 */


#ifndef _NGX_MCDS_BUDGET_H_INCLUDED_
#define _NGX_MCDS_BUDGET_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>


typedef struct ngx_mcds_wait_s  ngx_mcds_wait_t;


/*
 * the budget of time that one request has for all its waits for memcached;
 * zeroed at first
 */

typedef struct {
    /* longest timeout of the request's waits for memcached so far */
    ngx_msec_t            limit;

    /* total duration of the request's waits for memcached that have ended */
    ngx_msec_t            spent;
} ngx_mcds_budget_t;


/* one client request's wait for memcached; zeroed at first, and reusable */

struct ngx_mcds_wait_s {
    ngx_queue_t           queue;
    ngx_mcds_budget_t    *budget;      /* budget of the request, charged with
                                          the wait for memcached; NULL: the wait
                                          is not active */
    ngx_msec_t            start;
    ngx_msec_t            deadline;
    void                (*handler)(void *data);
    void                 *data;
    unsigned              queued:1;
};


/*
 * Starts a request's wait for memcached; the wait must not be active.  timeout
 * is the longest time that the request may wait, ms, most often the timeout of
 * the pool; the time spent on earlier waits of the budget is deducted.  The
 * handler is called once if the wait has not ended in time, never from inside
 * of this call.
 */

void ngx_mcds_wait_begin(ngx_mcds_wait_t *wait, ngx_mcds_budget_t *budget,
    ngx_msec_t timeout, void (*handler)(void *data), void *data);


/*
 * Ends a request's wait for memcached, before or after its handler was called,
 * and charges its duration, up to the time "until", to the request's budget.
 * Does nothing if the wait is not active.
 */

void ngx_mcds_wait_end(ngx_mcds_wait_t *wait, ngx_msec_t until);


/*
 * Ends a request's wait for memcached without charging its duration to the
 * request's budget.  Does nothing if the wait is not active.
 */

void ngx_mcds_wait_cancel(ngx_mcds_wait_t *wait);


#endif /* _NGX_MCDS_BUDGET_H_INCLUDED_ */

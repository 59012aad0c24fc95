
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_budget.h"
#include "ngx_mcds_timer.h"


/*
 * The milliseconds by which the first wait for memcached of a client request
 * may exceed the pool's timeout: an operation in memcached that takes the whole
 * timeout ends by itself before the request's wait does.
 */
#define NGX_MCDS_WAIT_SLACK       5

/*
 * The minimum time, in milliseconds, that a request waits for memcached even if
 * the request's budget of time for its waits is spent: enough for the reply of
 * a healthy server.
 */
#define NGX_MCDS_WAIT_LEAST       2


static void ngx_mcds_wait_insert(ngx_mcds_wait_t *wait);
static void ngx_mcds_wait_set_timer(void);
static void ngx_mcds_wait_handler(ngx_event_t *ev);


/*
 * the waits for memcached that client requests of this worker have begun, in
 * the order of the waits' deadlines
 */

static ngx_queue_t  ngx_mcds_waits;
static ngx_event_t  ngx_mcds_wait_event;


void
ngx_mcds_wait_begin(ngx_mcds_wait_t *wait, ngx_mcds_budget_t *budget,
    ngx_msec_t timeout, void (*handler)(void *data), void *data)
{
    ngx_msec_t  left;

    if (budget->limit < timeout) {
        budget->limit = timeout;
    }

    if (budget->spent == 0) {
        left = budget->limit + NGX_MCDS_WAIT_SLACK;

    } else {
        left = (budget->spent < budget->limit) ? budget->limit - budget->spent
                                               : 0;
        left = ngx_max(left, NGX_MCDS_WAIT_LEAST);
    }

    wait->budget = budget;
    wait->start = ngx_current_msec;
    wait->deadline = ngx_current_msec + left;
    wait->handler = handler;
    wait->data = data;

    ngx_mcds_wait_insert(wait);
    ngx_mcds_wait_set_timer();
}


void
ngx_mcds_wait_end(ngx_mcds_wait_t *wait, ngx_msec_t until)
{
    ngx_msec_int_t  spent;

    if (wait->budget == NULL) {
        return;
    }

    spent = (ngx_msec_int_t) (until - wait->start);

    if (spent > 0) {
        wait->budget->spent += spent;
    }

    ngx_mcds_wait_cancel(wait);
}


void
ngx_mcds_wait_cancel(ngx_mcds_wait_t *wait)
{
    if (wait->queued) {
        ngx_queue_remove(&wait->queue);
        wait->queued = 0;
    }

    wait->budget = NULL;
}


/*
 * inserts a request's wait for memcached into the queue of waits, by its
 * deadline; searches from the end, as most waits have the same timeout
 */

static void
ngx_mcds_wait_insert(ngx_mcds_wait_t *wait)
{
    ngx_queue_t      *q;
    ngx_mcds_wait_t  *last;

    if (ngx_mcds_waits.next == NULL) {
        ngx_queue_init(&ngx_mcds_waits);

        ngx_mcds_timer_init(&ngx_mcds_wait_event, ngx_mcds_wait_handler);

        /*
         * the timer that ends requests' waits for memcached need not delay the
         * exit of a worker: the operations in memcached delay the exit
         */

        ngx_mcds_wait_event.cancelable = 1;
    }

    for (q = ngx_queue_last(&ngx_mcds_waits);
         q != ngx_queue_sentinel(&ngx_mcds_waits);
         q = ngx_queue_prev(q))
    {
        last = ngx_queue_data(q, ngx_mcds_wait_t, queue);

        if ((ngx_msec_int_t) (last->deadline - wait->deadline) <= 0) {
            break;
        }
    }

    ngx_queue_insert_after(q, &wait->queue);
    wait->queued = 1;
}


static void
ngx_mcds_wait_set_timer(void)
{
    ngx_event_t      *ev;
    ngx_msec_int_t    left;
    ngx_mcds_wait_t  *first;

    ev = &ngx_mcds_wait_event;

    first = ngx_queue_data(ngx_queue_head(&ngx_mcds_waits), ngx_mcds_wait_t,
                           queue);

    if (ev->timer_set) {

        if ((ngx_msec_int_t) (ev->timer.key - first->deadline) <= 0) {
            return;
        }

        ngx_del_timer(ev);
    }

    left = (ngx_msec_int_t) (first->deadline - ngx_current_msec);

    ev->log = ngx_cycle->log;

    ngx_add_timer(ev, ngx_max(left, 1));
}


static void
ngx_mcds_wait_handler(ngx_event_t *ev)
{
    ngx_queue_t      *q;
    ngx_mcds_wait_t  *wait;

    while (!ngx_queue_empty(&ngx_mcds_waits)) {
        q = ngx_queue_head(&ngx_mcds_waits);
        wait = ngx_queue_data(q, ngx_mcds_wait_t, queue);

        if ((ngx_msec_int_t) (wait->deadline - ngx_current_msec) > 0) {
            ngx_mcds_wait_set_timer();
            return;
        }

        ngx_queue_remove(q);
        wait->queued = 0;

        wait->handler(wait->data);
    }
}

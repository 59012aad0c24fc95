
/*
 * Copyright (C) mcds authors
 *
 * The requests of this worker that wait for a page.
 */


#ifndef _NGX_MCDS_PAGE_QUEUE_H_INCLUDED_
#define _NGX_MCDS_PAGE_QUEUE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_page_core.h"


/*
 * the shortest time between two looks for a page that another worker builds,
 * ms
 */
#define NGX_MCDS_POLL_MIN         5


/*
 * Puts a waiter into the queue of its page's waiters.  Returns NGX_DECLINED if
 * its request has no time to wait, or if there are too many waiters.
 */

ngx_int_t ngx_mcds_page_wait(ngx_mcds_waiter_t *waiter);


/* Removes a waiter from the queue of its page's waiters. */

void ngx_mcds_page_unqueue(ngx_mcds_waiter_t *waiter);


/*
 * Removes the first waiter from the queue of a page's waiters, and returns it;
 * NULL: the queue is empty.
 */

ngx_mcds_waiter_t *ngx_mcds_page_next(ngx_mcds_page_t *page);


/*
 * If a waiter has waited, counts the end of its wait as "how", one of
 * NGX_MCDS_ZONE_WAIT_*.
 */

void ngx_mcds_page_waited(ngx_mcds_waiter_t *waiter, ngx_uint_t how);


/* Calls the handler of a waiter. */

void ngx_mcds_page_tell(ngx_mcds_waiter_t *waiter, ngx_uint_t outcome,
    ngx_mcds_snapshot_t *snapshot);


/*
 * Calls the handlers of the page's owner, if there is one, and of all waiters,
 * with the snapshot; a snapshot of NULL sends the requests to the origin.
 */

void ngx_mcds_page_found(ngx_mcds_page_t *page, ngx_mcds_snapshot_t *snapshot);


/*
 * Called when a build has failed, or was not started because of a pause: ends
 * the wait of page->owner, if it has not left, and of all waiters, by calling
 * their handlers without a page.
 */

void ngx_mcds_page_tell_pause(ngx_mcds_page_t *page);


/*
 * Returns 1 if the request of the waiter has a stale page, or needs no page,
 * so that it observes the pause of builds after a failure.
 */

ngx_uint_t ngx_mcds_page_old(ngx_mcds_waiter_t *waiter);


/*
 * Returns the outcome for a waiter during the pause of builds after a failure,
 * and sets waiter->retry.
 */

ngx_uint_t ngx_mcds_page_no_build(ngx_mcds_waiter_t *waiter);


/*
 * Sets the timer of the next look for the page that another worker builds,
 * unless already set.
 */

void ngx_mcds_page_set_poll(ngx_mcds_page_t *page);


#endif /* _NGX_MCDS_PAGE_QUEUE_H_INCLUDED_ */

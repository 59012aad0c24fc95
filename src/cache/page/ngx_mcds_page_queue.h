
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
 * the shortest time between two questions to memcached about a page that
 * another worker builds, ms
 */
#define NGX_MCDS_POLL_MIN         5


/*
 * Puts a waiter into the queue of the requests that wait for its page.
 * Returns NGX_DECLINED if the request has no time to wait, or if too many
 * requests wait.
 */

ngx_int_t ngx_mcds_page_wait(ngx_mcds_waiter_t *waiter);


/* Removes a waiter from the queue of the requests that wait for its page. */

void ngx_mcds_page_unqueue(ngx_mcds_waiter_t *waiter);


/*
 * Removes the first waiter from the queue of the requests that wait for a
 * page, and returns it; NULL: the queue is empty.
 */

ngx_mcds_waiter_t *ngx_mcds_page_next(ngx_mcds_page_t *page);


/*
 * Returns the first waiter in the queue of the requests that wait for a page,
 * without removing the waiter; NULL: the queue is empty.
 */

ngx_mcds_waiter_t *ngx_mcds_page_first_waiter(ngx_mcds_page_t *page);


/*
 * If the request of a waiter has waited for its page, counts how the wait has
 * ended: "how" is one of NGX_MCDS_ZONE_WAIT_*.
 */

void ngx_mcds_page_count_wait(ngx_mcds_waiter_t *waiter, ngx_uint_t how);


/*
 * Notes that a build of the waiter's page has ended, and took "took" ms; see
 * ngx_mcds_pace.h.
 */

void ngx_mcds_page_paced(ngx_mcds_waiter_t *waiter, ngx_msec_t took);


/*
 * Notes how long another worker took to build a page that requests of this
 * worker have waited for; see ngx_mcds_pace.h.
 */

void ngx_mcds_page_paced_elsewhere(ngx_mcds_page_t *page,
    ngx_mcds_snapshot_t *snapshot);


/*
 * Tells the request of a waiter the outcome of its wait for a page: calls the
 * waiter's handler.
 */

void ngx_mcds_page_tell(ngx_mcds_waiter_t *waiter, ngx_uint_t outcome,
    ngx_mcds_snapshot_t *snapshot);


/*
 * Gives a page to page->owner, the request that builds the page or asks for its
 * lock, if not NULL, and to all requests that wait for the page, by calling
 * their handlers.  A snapshot of NULL sends the requests to the origin, but
 * waiting requests that have a stale page get NGX_MCDS_PAGE_TIMEOUT.
 */

void ngx_mcds_page_give(ngx_mcds_page_t *page, ngx_mcds_snapshot_t *snapshot);


/*
 * Ends the wait of requests for a page whose build has failed, or does not
 * begin because of the pause after a failed build: calls, without a page, the
 * handlers of page->owner (the request that was to build the page; NULL: none)
 * and of all waiting requests.
 */

void ngx_mcds_page_tell_pause(ngx_mcds_page_t *page);


/*
 * Returns 1 if the request of the waiter can do without a new page: it has a
 * stale page to serve, or would only refresh the page.  Such a request does not
 * build the page in the back-off time after a failed build.
 */

ngx_uint_t ngx_mcds_page_old(ngx_mcds_waiter_t *waiter);


/*
 * Returns the outcome for a request whose page is not built because a build has
 * failed: NGX_MCDS_PAGE_OTHER if the request would only refresh the page,
 * _TIMEOUT if the request has a stale page, otherwise _ERROR.  Sets
 * waiter->retry to the ms that are left of the pause after the failed build.
 */

ngx_uint_t ngx_mcds_page_no_build(ngx_mcds_waiter_t *waiter);


/*
 * Sets the timer after which this worker looks again for the page that its
 * requests wait for, unless the timer is already set.
 */

void ngx_mcds_page_set_poll(ngx_mcds_page_t *page);


#endif /* _NGX_MCDS_PAGE_QUEUE_H_INCLUDED_ */

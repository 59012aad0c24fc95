
/*
 * Copyright (C) mcds authors
 *
 * The requests of this worker that wait for a page, and the calls of their
 * handlers.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_page_queue.h"


static void ngx_mcds_page_wait_handler(ngx_event_t *ev);
static ngx_uint_t ngx_mcds_page_for(ngx_mcds_waiter_t *waiter,
    ngx_uint_t outcome, ngx_mcds_snapshot_t *snapshot);
static void ngx_mcds_page_give_up(ngx_mcds_page_t *page);


ngx_int_t
ngx_mcds_page_wait(ngx_mcds_waiter_t *waiter)
{
    ngx_msec_t        passed;
    ngx_mcds_page_t  *page;

    page = waiter->page;

    if (waiter->wait == 0) {
        return NGX_DECLINED;
    }

    if (!waiter->waited) {
        waiter->waited = 1;
        waiter->since = ngx_current_msec;
    }

    /*
     * a request that has waited for the page, and then asked for the page's
     * lock in vain, waits only for the rest of its time
     */

    passed = ngx_current_msec - waiter->since;

    if (passed >= waiter->wait) {
        ngx_mcds_page_count_wait(waiter, NGX_MCDS_ZONE_WAIT_TIMEOUT);
        return NGX_DECLINED;
    }

    if (page->nwaiters >= waiter->max_waiters) {
        ngx_mcds_page_count_wait(waiter, NGX_MCDS_ZONE_WAIT_FULL);
        return NGX_DECLINED;
    }

    ngx_queue_insert_tail(&page->waiters, &waiter->queue);
    waiter->queued = 1;
    page->nwaiters++;

    if (!waiter->parked) {
        waiter->parked = 1;
        waiter->parked_at = ngx_current_msec;
    }

    waiter->timer.handler = ngx_mcds_page_wait_handler;
    waiter->timer.data = waiter;
    waiter->timer.log = ngx_cycle->log;

    ngx_add_timer(&waiter->timer, waiter->wait - passed);

    if (page->state == NGX_MCDS_STATE_STORING
        || (ngx_mcds_page_elsewhere(page)
            && (!page->unanswered || page->hurried)))
    {
        ngx_mcds_page_set_poll(page);
    }

    return NGX_OK;
}


static void
ngx_mcds_page_wait_handler(ngx_event_t *ev)
{
    ngx_mcds_waiter_t  *waiter;

    waiter = ev->data;

    ngx_mcds_page_unqueue(waiter);
    ngx_mcds_page_count_wait(waiter, NGX_MCDS_ZONE_WAIT_TIMEOUT);

    waiter->handler(waiter->data, NGX_MCDS_PAGE_TIMEOUT, NULL);
}


ngx_mcds_waiter_t *
ngx_mcds_page_next(ngx_mcds_page_t *page)
{
    ngx_mcds_waiter_t  *waiter;

    waiter = ngx_mcds_page_first_waiter(page);

    if (waiter) {
        ngx_mcds_page_unqueue(waiter);
    }

    return waiter;
}


ngx_mcds_waiter_t *
ngx_mcds_page_first_waiter(ngx_mcds_page_t *page)
{
    ngx_queue_t  *q;

    if (ngx_queue_empty(&page->waiters)) {
        return NULL;
    }

    q = ngx_queue_head(&page->waiters);

    return ngx_queue_data(q, ngx_mcds_waiter_t, queue);
}


void
ngx_mcds_page_unqueue(ngx_mcds_waiter_t *waiter)
{
    ngx_queue_remove(&waiter->queue);
    waiter->queued = 0;
    waiter->page->nwaiters--;

    if (waiter->timer.timer_set) {
        ngx_del_timer(&waiter->timer);
    }
}


void
ngx_mcds_page_count_wait(ngx_mcds_waiter_t *waiter, ngx_uint_t how)
{
    if (!waiter->waited) {
        return;
    }

    waiter->waited = 0;

    ngx_mcds_stat_add(waiter->stat, how, 1);

    if (how != NGX_MCDS_ZONE_WAIT_FULL) {
        ngx_mcds_stat_time(waiter->stat, NGX_MCDS_ZONE_WAIT_TIME,
                           ngx_current_msec - waiter->since);
    }
}


void
ngx_mcds_page_paced(ngx_mcds_waiter_t *waiter, ngx_msec_t took)
{
    if (waiter->pace == NULL || took == 0) {
        return;
    }

    ngx_mcds_pace_add(waiter->pace, waiter->page->took, took);

    waiter->page->took = took;
}


void
ngx_mcds_page_paced_elsewhere(ngx_mcds_page_t *page,
    ngx_mcds_snapshot_t *snapshot)
{
    ngx_mcds_waiter_t  *waiter;

    waiter = ngx_mcds_page_first_waiter(page);

    if (waiter && snapshot->entry.kind == NGX_MCDS_ENTRY_PAGE) {
        ngx_mcds_page_paced(waiter, snapshot->entry.took);
    }
}


/*
 * Returns the outcome of a wait for a page, for one of the waiting requests.
 * If the request's location has keys for signatures (mcds_cache_hmac_key), an
 * unsigned entry that says that the page is not cacheable (hit-for-miss) gives
 * NGX_MCDS_PAGE_FOUND, not _PASS: the handler checks the signature.
 */

static ngx_uint_t
ngx_mcds_page_for(ngx_mcds_waiter_t *waiter, ngx_uint_t outcome,
    ngx_mcds_snapshot_t *snapshot)
{
    return (outcome == NGX_MCDS_PAGE_PASS
            && snapshot
            && ngx_mcds_snapshot_signed(snapshot, waiter->secrets) != NGX_OK)
           ? NGX_MCDS_PAGE_FOUND : outcome;
}


void
ngx_mcds_page_give(ngx_mcds_page_t *page, ngx_mcds_snapshot_t *snapshot)
{
    ngx_uint_t          outcome, built;
    ngx_mcds_waiter_t  *waiter;

    outcome = (snapshot == NULL || snapshot->entry.kind == NGX_MCDS_ENTRY_PASS)
              ? NGX_MCDS_PAGE_PASS : NGX_MCDS_PAGE_FOUND;

    if (snapshot == NULL) {
        ngx_mcds_page_give_up(page);
    }

    built = (snapshot && snapshot->entry.build
             && (snapshot->entry.build == page->awaited
                 || snapshot->entry.build == page->before));

    waiter = page->owner;
    page->owner = NULL;

    if (waiter) {
        waiter->built = built;
        ngx_mcds_page_tell(waiter, ngx_mcds_page_for(waiter, outcome, snapshot),
                           snapshot);
    }

    for ( ;; ) {
        waiter = ngx_mcds_page_next(page);

        if (waiter == NULL) {
            break;
        }

        if (outcome == NGX_MCDS_PAGE_FOUND
            && snapshot->item_id.cas == 0
            && waiter->cas != page->base)
        {
            /*
             * this request came when memcached had another version of the page
             * than at the start of the build
             */

            ngx_mcds_page_tell(waiter, NGX_MCDS_PAGE_AGAIN, NULL);
            continue;
        }

        waiter->built = built;

        ngx_mcds_page_tell(waiter, ngx_mcds_page_for(waiter, outcome, snapshot),
                           snapshot);
    }
}


void
ngx_mcds_page_tell(ngx_mcds_waiter_t *waiter, ngx_uint_t outcome,
    ngx_mcds_snapshot_t *snapshot)
{
    ngx_uint_t  how;

    switch (outcome) {

    case NGX_MCDS_PAGE_FOUND:
        how = NGX_MCDS_ZONE_WAIT_BUILT;
        break;

    case NGX_MCDS_PAGE_PASS:
        how = NGX_MCDS_ZONE_WAIT_PASS;
        break;

    case NGX_MCDS_PAGE_AGAIN:
        how = NGX_MCDS_ZONE_WAIT_AGAIN;
        break;

    default: /* NGX_MCDS_PAGE_ERROR or _TIMEOUT: the request waited for the
                page in vain */
        how = NGX_MCDS_ZONE_WAIT_FAILED;
        break;
    }

    ngx_mcds_page_count_wait(waiter, how);

    waiter->handler(waiter->data, outcome,
                    outcome == NGX_MCDS_PAGE_FOUND ? snapshot : NULL);
}


/*
 * Ends the wait of the requests that have a stale page to serve: they do not
 * wait for another build of the page.
 */

static void
ngx_mcds_page_give_up(ngx_mcds_page_t *page)
{
    ngx_queue_t        *q, *next;
    ngx_mcds_waiter_t  *waiter;

    for (q = ngx_queue_head(&page->waiters);
         q != ngx_queue_sentinel(&page->waiters);
         q = next)
    {
        next = ngx_queue_next(q);
        waiter = ngx_queue_data(q, ngx_mcds_waiter_t, queue);

        if (waiter->has_old) {
            ngx_mcds_page_unqueue(waiter);
            ngx_mcds_page_tell(waiter, NGX_MCDS_PAGE_TIMEOUT, NULL);
        }
    }
}


/*
 * Returns 1 if the waiter's request can do without a new page, as it has a
 * stale one or is a refresh.  0: the request asks for the page's lock even in
 * the pause after a failed build of the page.
 */

ngx_uint_t
ngx_mcds_page_old(ngx_mcds_waiter_t *waiter)
{
    return waiter->refresh || waiter->has_old;
}


ngx_uint_t
ngx_mcds_page_no_build(ngx_mcds_waiter_t *waiter)
{
    int64_t           left;
    ngx_mcds_page_t  *page;

    page = waiter->page;

    left = page->failed_until - ngx_mcds_clock(ngx_current_msec);
    waiter->retry = ngx_max(left, 0);
    waiter->failed = 1;

    return waiter->refresh ? NGX_MCDS_PAGE_OTHER
           : waiter->has_old ? NGX_MCDS_PAGE_TIMEOUT
           : NGX_MCDS_PAGE_ERROR;
}


void
ngx_mcds_page_tell_pause(ngx_mcds_page_t *page)
{
    ngx_uint_t          outcome;
    ngx_mcds_waiter_t  *waiter;

    ngx_mcds_page_set_idle(page);

    waiter = page->owner;
    page->owner = NULL;

    if (waiter == NULL) {
        waiter = ngx_mcds_page_next(page);
    }

    while (waiter) {
        outcome = ngx_mcds_page_no_build(waiter);
        ngx_mcds_page_tell(waiter, outcome, NULL);

        waiter = ngx_mcds_page_next(page);
    }
}


void
ngx_mcds_page_set_poll(ngx_mcds_page_t *page)
{
    ngx_msec_int_t  left;

    if (page->poll.timer_set) {
        return;
    }

    if (page->state == NGX_MCDS_STATE_STORING) {
        ngx_add_timer(&page->poll, 1);
        return;
    }

    if (page->state == NGX_MCDS_STATE_LOCAL) {
        ngx_add_timer(&page->poll, NGX_MCDS_POLL_MIN);
        return;
    }

    left = (ngx_msec_int_t) (page->poll_next - ngx_current_msec);
    left = ngx_max(left, 1);

    if (ngx_mcds_page_sequence(page)) {
        left = ngx_min(left, NGX_MCDS_POLL_MIN);
    }

    ngx_add_timer(&page->poll, left);
}


/*
 * Copyright (C) mcds authors
 *
 * The requests of this worker that wait for a page, and the calls of their
 * handlers.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_page_wait.h"


static void ngx_mcds_page_wait_handler(ngx_event_t *ev);
static ngx_uint_t ngx_mcds_page_for(ngx_mcds_seat_t *seat,
    ngx_uint_t outcome, ngx_mcds_copy_t *copy);
static void ngx_mcds_page_give_up(ngx_mcds_page_t *page);


ngx_int_t
ngx_mcds_page_wait(ngx_mcds_seat_t *seat)
{
    ngx_mcds_page_t  *page;

    page = seat->page;

    if (seat->wait == 0) {
        return NGX_DECLINED;
    }

    if (!seat->waited) {
        seat->waited = 1;
        seat->since = ngx_current_msec;
    }

    if (page->nwaiters >= seat->max_waiters) {
        ngx_mcds_page_waited(seat, NGX_MCDS_ZONE_WAIT_FULL);
        return NGX_DECLINED;
    }

    ngx_queue_insert_tail(&page->waiters, &seat->queue);
    seat->queued = 1;
    page->nwaiters++;

    if (!seat->parked) {
        seat->parked = 1;
        seat->parked_at = ngx_current_msec;
    }

    seat->timer.handler = ngx_mcds_page_wait_handler;
    seat->timer.data = seat;
    seat->timer.log = ngx_cycle->log;

    ngx_add_timer(&seat->timer, seat->wait);

    if (page->state == NGX_MCDS_STORING
        || (ngx_mcds_page_elsewhere(page)
            && (!page->missing || page->hurried)))
    {
        ngx_mcds_page_set_poll(page);
    }

    return NGX_OK;
}


static void
ngx_mcds_page_wait_handler(ngx_event_t *ev)
{
    ngx_mcds_seat_t  *seat;

    seat = ev->data;

    ngx_mcds_page_unqueue(seat);
    ngx_mcds_page_waited(seat, NGX_MCDS_ZONE_WAIT_TIMEOUT);

    seat->handler(seat->data, NGX_MCDS_PAGE_TIMEOUT, NULL);
}


ngx_mcds_seat_t *
ngx_mcds_page_next(ngx_mcds_page_t *page)
{
    ngx_queue_t      *q;
    ngx_mcds_seat_t  *seat;

    if (ngx_queue_empty(&page->waiters)) {
        return NULL;
    }

    q = ngx_queue_head(&page->waiters);
    seat = ngx_queue_data(q, ngx_mcds_seat_t, queue);

    ngx_mcds_page_unqueue(seat);

    return seat;
}


void
ngx_mcds_page_unqueue(ngx_mcds_seat_t *seat)
{
    ngx_queue_remove(&seat->queue);
    seat->queued = 0;
    seat->page->nwaiters--;

    if (seat->timer.timer_set) {
        ngx_del_timer(&seat->timer);
    }
}


void
ngx_mcds_page_waited(ngx_mcds_seat_t *seat, ngx_uint_t how)
{
    if (!seat->waited) {
        return;
    }

    seat->waited = 0;

    ngx_mcds_stat_add(seat->stat, how, 1);

    if (how != NGX_MCDS_ZONE_WAIT_FULL) {
        ngx_mcds_stat_time(seat->stat, NGX_MCDS_ZONE_WAIT_TIME,
                           ngx_current_msec - seat->since);
    }
}


/*
 * A hit-for-miss mark that is not signed does not send requests to the origin.
 */

static ngx_uint_t
ngx_mcds_page_for(ngx_mcds_seat_t *seat, ngx_uint_t outcome,
    ngx_mcds_copy_t *copy)
{
    return (outcome == NGX_MCDS_PAGE_PASS
            && copy
            && ngx_mcds_copy_signed(copy, seat->secrets) != NGX_OK)
           ? NGX_MCDS_PAGE_FOUND : outcome;
}


void
ngx_mcds_page_found(ngx_mcds_page_t *page, ngx_mcds_copy_t *copy)
{
    ngx_uint_t        outcome, built;
    ngx_mcds_seat_t  *seat;

    outcome = (copy == NULL || copy->entry.kind == NGX_MCDS_ENTRY_PASS)
              ? NGX_MCDS_PAGE_PASS : NGX_MCDS_PAGE_FOUND;

    if (copy == NULL) {
        ngx_mcds_page_give_up(page);
    }

    built = (copy && copy->entry.build
             && (copy->entry.build == page->awaited
                 || copy->entry.build == page->before));

    seat = page->owner;
    page->owner = NULL;

    if (seat) {
        seat->built = built;
        ngx_mcds_page_tell(seat, ngx_mcds_page_for(seat, outcome, copy), copy);
    }

    for ( ;; ) {
        seat = ngx_mcds_page_next(page);

        if (seat == NULL) {
            break;
        }

        if (outcome == NGX_MCDS_PAGE_FOUND
            && copy->stamp.cas == 0
            && seat->cas != page->base)
        {
            /*
             * the request came when the page was another one than at the start
             * of the build
             */

            ngx_mcds_page_tell(seat, NGX_MCDS_PAGE_AGAIN, NULL);
            continue;
        }

        seat->built = built;

        ngx_mcds_page_tell(seat, ngx_mcds_page_for(seat, outcome, copy), copy);
    }
}


void
ngx_mcds_page_tell(ngx_mcds_seat_t *seat, ngx_uint_t outcome,
    ngx_mcds_copy_t *copy)
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

    default: /* NGX_MCDS_PAGE_ERROR, NGX_MCDS_PAGE_TIMEOUT */
        how = NGX_MCDS_ZONE_WAIT_FAILED;
        break;
    }

    ngx_mcds_page_waited(seat, how);

    seat->handler(seat->data, outcome,
                  outcome == NGX_MCDS_PAGE_FOUND ? copy : NULL);
}


/* Requests with a stale page do not wait for another build. */

static void
ngx_mcds_page_give_up(ngx_mcds_page_t *page)
{
    ngx_queue_t      *q, *next;
    ngx_mcds_seat_t  *seat;

    for (q = ngx_queue_head(&page->waiters);
         q != ngx_queue_sentinel(&page->waiters);
         q = next)
    {
        next = ngx_queue_next(q);
        seat = ngx_queue_data(q, ngx_mcds_seat_t, queue);

        if (seat->has_old) {
            ngx_mcds_page_unqueue(seat);
            ngx_mcds_page_tell(seat, NGX_MCDS_PAGE_TIMEOUT, NULL);
        }
    }
}


/* Requests without a stale page ignore a pause, but not the lock. */

ngx_uint_t
ngx_mcds_page_old(ngx_mcds_seat_t *seat)
{
    return seat->refresh || seat->has_old;
}


ngx_uint_t
ngx_mcds_page_no_build(ngx_mcds_seat_t *seat)
{
    int64_t           left;
    ngx_mcds_page_t  *page;

    page = seat->page;

    left = page->failed_until - ngx_mcds_clock(ngx_current_msec);
    seat->retry = ngx_max(left, 0);
    seat->failed = 1;

    return seat->refresh ? NGX_MCDS_PAGE_OTHER
           : seat->has_old ? NGX_MCDS_PAGE_TIMEOUT
           : NGX_MCDS_PAGE_ERROR;
}


void
ngx_mcds_page_tell_pause(ngx_mcds_page_t *page)
{
    ngx_uint_t        outcome;
    ngx_mcds_seat_t  *seat;

    ngx_mcds_page_rest(page);

    seat = page->owner;
    page->owner = NULL;

    if (seat == NULL) {
        seat = ngx_mcds_page_next(page);
    }

    while (seat) {
        outcome = ngx_mcds_page_no_build(seat);
        ngx_mcds_page_tell(seat, outcome, NULL);

        seat = ngx_mcds_page_next(page);
    }
}


void
ngx_mcds_page_set_poll(ngx_mcds_page_t *page)
{
    ngx_msec_int_t  left;

    if (page->poll.timer_set) {
        return;
    }

    if (page->state == NGX_MCDS_STORING) {
        ngx_add_timer(&page->poll, 1);
        return;
    }

    if (page->state == NGX_MCDS_LOCAL) {
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

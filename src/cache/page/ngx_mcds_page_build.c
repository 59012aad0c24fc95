
/*
 * Copyright (C) mcds authors
 *
 * The steps that decide which request builds a page, see ngx_mcds_page_state.h.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_page_build.h"
#include "ngx_mcds_page_lease.h"
#include "ngx_mcds_page_local.h"
#include "ngx_mcds_page_queue.h"


/*
 * after another worker or host was found to have a page's lock: the time for
 * which requests do not try again to refresh the page, ms
 */
#define NGX_MCDS_HELD             100

/*
 * While another worker has the lock of a page, requests do not ask for the lock
 * again until that worker's build is expected to end; at most so long, ms.
 */
#define NGX_MCDS_HELD_MAX         1000


static void ngx_mcds_page_late(ngx_mcds_page_t *page);
static ngx_int_t ngx_mcds_page_evaluate(ngx_mcds_page_t *page);
static ngx_int_t ngx_mcds_page_compare(ngx_mcds_page_t *page);
static void ngx_mcds_page_step_lock(ngx_mcds_page_t *page);
static void ngx_mcds_page_step_poll(ngx_mcds_page_t *page);
static ngx_msec_t ngx_mcds_page_pause_left(ngx_mcds_page_t *page, uint64_t now);
static void ngx_mcds_page_follow(ngx_mcds_page_t *page, ngx_uint_t state);


void
ngx_mcds_page_start_lock(ngx_mcds_page_t *page, ngx_mcds_waiter_t *owner,
    uint64_t cas)
{
    ngx_mcds_page_set_state(page, NGX_MCDS_STATE_LOCKING);

    page->owner = owner;
    page->base = cas;
    ngx_mcds_page_await(page, 0);

    ngx_mcds_page_ask_lock(page, !ngx_mcds_page_old(owner));
}


void
ngx_mcds_page_step(ngx_mcds_page_t *page)
{
    if (page->hurried) {
        ngx_mcds_page_late(page);
        return;
    }

    if (ngx_mcds_page_evaluate(page) == NGX_OK) {
        ngx_mcds_page_unref(page);
    }
}


/*
 * Handles the replies of memcached about a page and its lock.  Returns
 * NGX_AGAIN if another reply is to come, otherwise NGX_OK.
 */

static ngx_int_t
ngx_mcds_page_evaluate(ngx_mcds_page_t *page)
{
    ngx_uint_t            same;
    ngx_mcds_snapshot_t  *snapshot;

    same = (page->kept.owner && page->kept.owner == page->awaited);

    if (!same) {
        ngx_mcds_page_due(page);
    }

    if (page->kept.owner) {
        ngx_mcds_page_await(page, page->kept.owner);
    }

    if (page->lock_only && !same && ngx_mcds_answered(page->lease_rc)) {

        /*
         * the page's build has ended before it was due: memcached may have the
         * page
         */

        ngx_mcds_page_poll(page, 0);
        return NGX_OK;
    }

    switch (ngx_mcds_page_compare(page)) {

    case NGX_AGAIN:

        /*
         * memcached has a newer version of the page by now, whose value is
         * being read
         */

        return NGX_AGAIN;

    case NGX_OK:
        snapshot = page->snapshot;
        page->snapshot = NULL;

        ngx_mcds_page_release(page);

        page->failed_until = 0;

        if (page->state == NGX_MCDS_STATE_REMOTE) {
            ngx_mcds_page_paced_elsewhere(page, snapshot);
        }

        ngx_mcds_page_set_idle(page);
        ngx_mcds_page_keep(page, snapshot, page->purges, page->asked);
        ngx_mcds_page_give(page, snapshot);
        ngx_mcds_snapshot_unref(snapshot);
        break;

    default: /* NGX_DECLINED: memcached has no newer page than before */

        if (page->state == NGX_MCDS_STATE_LOCKING) {
            ngx_mcds_page_step_lock(page);

        } else {
            ngx_mcds_page_step_poll(page);
        }

        break;
    }

    return NGX_OK;
}


/*
 * Returns NGX_OK if memcached had another version of the page than the one with
 * the CAS page->base: page->snapshot is the other version.  NGX_DECLINED:
 * memcached has no other version that requests may use.  NGX_AGAIN: memcached
 * has another version, and the worker is reading its value.
 */

static ngx_int_t
ngx_mcds_page_compare(ngx_mcds_page_t *page)
{
    ngx_uint_t  flags;

    flags = NGX_MCDS_ENTRY_INVALID|NGX_MCDS_ENTRY_REVALIDATE;

    if (page->snapshot
        && page->snapshot->entry.kind == NGX_MCDS_ENTRY_PAGE
        && (page->snapshot->entry.flags & flags) == flags)
    {
        /*
         * the page was purged, and no request may use the old version: the
         * requests continue to wait for a new one
         */

        page->base = page->snapshot->item_id.cas;

        ngx_mcds_snapshot_unref(page->snapshot);
        page->snapshot = NULL;

        return NGX_DECLINED;
    }

    if (page->snapshot) {
        return NGX_OK;
    }

    if (page->page_rc == NGX_MCDS_NOT_FOUND) {
        page->base = 0;
        return NGX_DECLINED;
    }

    if (page->page_rc != NGX_MCDS_OK || page->page_cas == page->base) {
        return NGX_DECLINED;
    }

    if (page->page_cas == page->foreign) {

        /*
         * only other hosts can use the page's item in memcached, as it needs a
         * feature that this build of mcds lacks; the item stays, because an
         * add, or a set with another CAS, does not replace it
         */

        return NGX_DECLINED;
    }

    if (!page->whole) {
        ngx_mcds_page_ask(page, 1);
        return NGX_AGAIN;
    }

    /*
     * the item of memcached under the page's key is not a page: the built page
     * replaces it, unless the item changes meanwhile
     */

    page->base = page->page_cas;

    return NGX_DECLINED;
}


static void
ngx_mcds_page_step_lock(ngx_mcds_page_t *page)
{
    uint64_t  now, held;

    if (page->lease_rc == NGX_MCDS_OK) {
        page->step = page->kept.step;
    }

    if (page->lease_rc != NGX_MCDS_NOT_STORED) {

        /*
         * This worker builds the page: it has got the page's lock, or memcached
         * gave an error or no reply.  Without the lock, the page is built for
         * this host alone.
         */

        ngx_mcds_page_build(page);
        return;
    }

    now = ngx_mcds_now();

    if (page->kept.step && page->kept.until > now) {
        ngx_mcds_page_pause(page, ngx_mcds_page_pause_left(page, now));
        ngx_mcds_page_tell_pause(page);
        return;
    }

    held = NGX_MCDS_HELD;

    if (page->due > now + held) {
        held = ngx_min(page->due - now, NGX_MCDS_HELD_MAX);
    }

    page->held_until = ngx_mcds_clock(ngx_current_msec) + held;
    page->held_cas = page->base;

    ngx_mcds_page_follow(page, NGX_MCDS_STATE_REMOTE);
}


/*
 * Returns the ms that are left of the pause after a failed build of a page; the
 * item of the page's lock has the end of the pause.  The clock of the host that
 * wrote the item may be ahead, so the result is limited to backoff_max, the
 * longest pause in this host's configuration.
 */

static ngx_msec_t
ngx_mcds_page_pause_left(ngx_mcds_page_t *page, uint64_t now)
{
    if (page->kept.until <= now) {
        return 0;
    }

    return (ngx_msec_t) ngx_min(page->kept.until - now,
                                (uint64_t) page->backoff_max);
}


static void
ngx_mcds_page_step_poll(ngx_mcds_page_t *page)
{
    uint64_t            now;
    ngx_mcds_waiter_t  *waiter;

    now = ngx_mcds_now();

    if (page->lease_rc == NGX_MCDS_OK && page->kept.step) {

        /* the build that the requests of this worker wait for has failed */

        ngx_mcds_page_pause(page, ngx_mcds_page_pause_left(page, now));
        ngx_mcds_page_tell_pause(page);
        return;
    }

    if (!ngx_mcds_answered(page->lease_rc)) {
        ngx_mcds_page_build(page);
        return;
    }

    if (page->lease_rc != NGX_MCDS_OK) {

        /* the lock of the page is free: no request builds the page any more */

        waiter = ngx_mcds_page_next(page);

        if (waiter) {
            ngx_mcds_page_start_lock(page, waiter, page->base);
            return;
        }
    }

    if (ngx_queue_empty(&page->waiters)) {
        ngx_mcds_page_set_idle(page);
        return;
    }

    ngx_mcds_page_set_poll(page);
}


/*
 * Handles memcached's replies about a page and its lock that come after the
 * request that asked for the lock has stopped waiting for them: if other
 * requests wait for the page, sets the time of the next question to memcached.
 */

static void
ngx_mcds_page_late(ngx_mcds_page_t *page)
{
    page->hurried = 0;

    if (ngx_mcds_page_elsewhere(page)) {

        if (ngx_queue_empty(&page->waiters)) {
            ngx_mcds_page_set_idle(page);

        } else {
            ngx_mcds_page_set_poll(page);
        }
    }

    ngx_mcds_page_unref(page);
}


void
ngx_mcds_page_hurry_lock(ngx_mcds_page_t *page)
{
    page->hurried = 1;
    page->whole = 1;

    (void) ngx_mcds_page_evaluate(page);
}


void
ngx_mcds_page_build(ngx_mcds_page_t *page)
{
    ngx_mcds_waiter_t  *waiter;

    if (page->owner == NULL && ngx_queue_empty(&page->waiters)) {
        ngx_mcds_page_release(page);
        ngx_mcds_page_set_idle(page);
        return;
    }

    waiter = page->owner ? page->owner : ngx_mcds_page_first_waiter(page);

    switch (ngx_mcds_page_claim(page, !ngx_mcds_page_old(waiter))) {

    case NGX_ABORT:
        ngx_mcds_page_release(page);
        ngx_mcds_page_tell_pause(page);
        return;

    case NGX_BUSY:

        /*
         * another worker of this host builds the page, but memcached has lost
         * the lock of that build, or does not answer
         */

        ngx_mcds_page_release(page);
        ngx_mcds_page_follow(page, NGX_MCDS_STATE_LOCAL);
        return;

    default:
        break;
    }

    waiter = page->owner;

    if (waiter == NULL) {
        waiter = ngx_mcds_page_next(page);
    }

    ngx_mcds_page_set_state(page, NGX_MCDS_STATE_BUILDING);

    page->owner = waiter;

    waiter->takeover = waiter->waited;

    ngx_mcds_page_count_wait(waiter, NGX_MCDS_ZONE_WAIT_TAKEOVER);
    ngx_mcds_page_begin(waiter);

    ngx_mcds_page_tell(waiter, NGX_MCDS_PAGE_BUILD, NULL);
}


/*
 * Begins the build of a page.  The origin is requested from here on: all
 * requests that wait for the page by now may use the result.
 */

void
ngx_mcds_page_begin(ngx_mcds_waiter_t *waiter)
{
    ngx_queue_t        *q;
    ngx_mcds_page_t    *page;
    ngx_mcds_waiter_t  *each;

    page = waiter->page;

    for (q = ngx_queue_head(&page->waiters);
         q != ngx_queue_sentinel(&page->waiters);
         q = ngx_queue_next(q))
    {
        each = ngx_queue_data(q, ngx_mcds_waiter_t, queue);
        each->cas = page->base;
    }

    waiter->building = 1;
    waiter->since = ngx_current_msec;

    page->purges = ngx_mcds_local_purges(page->place);

    ngx_mcds_stat_add(waiter->stat, waiter->refresh ? NGX_MCDS_ZONE_REFRESH
                                                    : NGX_MCDS_ZONE_FILL, 1);
}


/*
 * Follows the build of a page by another worker or host: the request that
 * asked for the page's lock continues with its stale page, or waits for the
 * build.
 */

static void
ngx_mcds_page_follow(ngx_mcds_page_t *page, ngx_uint_t state)
{
    ngx_atomic_t       *sequence;
    ngx_mcds_waiter_t  *waiter;

    ngx_mcds_page_set_state(page, state);

    page->poll_delay = 0;
    ngx_mcds_page_set_next(page);

    sequence = ngx_mcds_page_sequence(page);

    if (sequence) {
        page->sequence = *sequence;
    }

    waiter = page->owner;
    page->owner = NULL;

    if (waiter && waiter->refresh) {
        ngx_mcds_page_tell(waiter, NGX_MCDS_PAGE_OTHER, NULL);

    } else if (waiter && ngx_mcds_page_wait(waiter) != NGX_OK) {
        ngx_mcds_page_tell(waiter, NGX_MCDS_PAGE_TIMEOUT, NULL);
    }

    if (ngx_queue_empty(&page->waiters)) {
        ngx_mcds_page_set_idle(page);
        return;
    }

    ngx_mcds_page_set_poll(page);
}


void
ngx_mcds_page_failed(ngx_mcds_page_t *page, ngx_uint_t backoff)
{
    ngx_msec_t  period;
    ngx_uint_t  i;

    if (!backoff) {

        if (!ngx_queue_empty(&page->waiters)) {
            ngx_mcds_page_build(page);
            return;
        }

        ngx_mcds_page_release(page);
        ngx_mcds_page_set_idle(page);
        ngx_mcds_page_build_ended(page);
        return;
    }

    /*
     * How long no request builds the page after the failed build: if requests
     * have a stale page, the pause doubles with each failure.  If they have
     * none, there is no pause, lest the error of one client become the error of
     * all: only the requests that have waited for the failed build fail.
     */

    period = page->old ? page->backoff : 0;

    for (i = 0; period && i < page->step; i++) {

        if (period >= page->backoff_max / 2) {
            period = page->backoff_max;
            break;
        }

        period *= 2;
    }

    page->step = period ? page->step + 1 : 1;

    ngx_mcds_page_pause(page, period);
    ngx_mcds_page_release_failed(page, period);

    ngx_mcds_page_tell_pause(page);
    ngx_mcds_page_build_ended(page);
}

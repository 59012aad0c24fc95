
/*
 * Copyright (C) mcds authors
 *
 * Who builds a page, and who waits for it: see ngx_mcds_page_core.h.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_newer.h"
#include "ngx_mcds_page_core.h"


#define NGX_MCDS_POLL_MIN         5
#define NGX_MCDS_POLL_MAX         100

/* who has found the lock held does not ask again so soon, ms */
#define NGX_MCDS_HELD             100

/* failures are not counted on after so long without another try, seconds */
#define NGX_MCDS_FORGET           10

/* a failure is told to those who wait on other hosts, seconds */
#define NGX_MCDS_NOTICE           2

/* and so long to those who wait in other workers, ms */
#define NGX_MCDS_TOLD             30


static ngx_uint_t ngx_mcds_page_for(ngx_mcds_seat_t *seat,
    ngx_uint_t outcome, ngx_mcds_copy_t *copy);
static ngx_int_t ngx_mcds_page_enter_local(ngx_mcds_seat_t *seat,
    uint64_t cas, ngx_uint_t *outcome);
static ngx_uint_t ngx_mcds_page_paused(ngx_mcds_page_t *page, uint64_t cas);
static ngx_uint_t ngx_mcds_page_old(ngx_mcds_seat_t *seat);
static ngx_uint_t ngx_mcds_page_no_build(ngx_mcds_seat_t *seat);
static ngx_int_t ngx_mcds_page_wait(ngx_mcds_seat_t *seat);
static void ngx_mcds_page_wait_handler(ngx_event_t *ev);
static void ngx_mcds_page_start_lock(ngx_mcds_page_t *page,
    ngx_mcds_seat_t *owner, uint64_t cas);
static void ngx_mcds_page_ask_lock(ngx_mcds_page_t *page, ngx_uint_t at_once);
static void ngx_mcds_page_ask_again(ngx_mcds_page_t *page);
static void ngx_mcds_page_locked(void *data, ngx_mcds_lock_t *lock,
    ngx_uint_t rc);
static void ngx_mcds_page_ask(ngx_mcds_page_t *page, ngx_uint_t whole);
static void ngx_mcds_page_asked(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_page_opened(void *data, ngx_uint_t rc);
static void ngx_mcds_page_await(ngx_mcds_page_t *page, uint64_t build);
static void ngx_mcds_page_answered(ngx_mcds_page_t *page);
static void ngx_mcds_page_late(ngx_mcds_page_t *page);
static void ngx_mcds_page_step(ngx_mcds_page_t *page);
static ngx_int_t ngx_mcds_page_judge(ngx_mcds_page_t *page);
static ngx_int_t ngx_mcds_page_changed(ngx_mcds_page_t *page);
static void ngx_mcds_page_step_lock(ngx_mcds_page_t *page);
static void ngx_mcds_page_step_poll(ngx_mcds_page_t *page);
static void ngx_mcds_page_build(ngx_mcds_page_t *page);
static void ngx_mcds_page_begin(ngx_mcds_seat_t *seat);
static ngx_int_t ngx_mcds_page_claim(ngx_mcds_page_t *page);
static void ngx_mcds_page_follow(ngx_mcds_page_t *page, ngx_uint_t state);
static ngx_mcds_seat_t *ngx_mcds_page_next(ngx_mcds_page_t *page);
static void ngx_mcds_page_tell(ngx_mcds_seat_t *seat, ngx_uint_t outcome,
    ngx_mcds_copy_t *copy);
static void ngx_mcds_page_give_up(ngx_mcds_page_t *page);
static void ngx_mcds_page_release_failed(ngx_mcds_page_t *page,
    ngx_msec_t period);
static void ngx_mcds_page_pause(ngx_mcds_page_t *page, ngx_msec_t left);
static void ngx_mcds_page_tell_pause(ngx_mcds_page_t *page);
static void ngx_mcds_page_set_poll(ngx_mcds_page_t *page);
static void ngx_mcds_page_poll_handler(ngx_event_t *ev);
static ngx_int_t ngx_mcds_page_poll_here(ngx_mcds_page_t *page);
static void ngx_mcds_page_lock_asked(void *data, ngx_mcds_result_t *result);


ngx_int_t
ngx_mcds_page_enter(ngx_mcds_seat_t *seat, ngx_mcds_enter_t *enter,
    ngx_uint_t *outcome)
{
    ngx_mcds_page_t  *page;

    page = seat->page;
    page->lock_age = enter->lock_age;
    page->poll.handler = ngx_mcds_page_poll_handler;
    page->answered = ngx_mcds_page_step;

    seat->wait = enter->wait;
    seat->max_waiters = enter->max_waiters;
    seat->refresh = enter->refresh;
    seat->has_old = enter->has_old;
    seat->cas = enter->cas;
    seat->retry = 0;
    seat->failed = 0;
    seat->built = 0;

    page->backoff = enter->backoff;
    page->backoff_max = enter->backoff_max;

    if (ngx_mcds_page_rests(page)) {

        if (page->held_until
            && (page->held_cas != enter->cas
                || page->held_until <= ngx_mcds_clock(ngx_current_msec)))
        {
            page->held_until = 0;
        }

        if (ngx_mcds_page_paused(page, enter->cas) && ngx_mcds_page_old(seat)) {
            *outcome = ngx_mcds_page_no_build(seat);
            return NGX_DONE;
        }

        /* what cannot be stored cannot be waited for on other workers */

        if (enter->local
            || seat->silent
            || page->hurried
            || ngx_mcds_page_refused(page))
        {
            return ngx_mcds_page_enter_local(seat, enter->cas, outcome);
        }

        if (!seat->refresh || !page->held_until) {
            ngx_mcds_page_start_lock(page, seat, enter->cas);
            return NGX_OK;
        }
    }

    if (seat->refresh) {
        *outcome = NGX_MCDS_PAGE_OTHER;
        return NGX_DONE;
    }

    if (ngx_mcds_page_wait(seat) != NGX_OK) {
        *outcome = NGX_MCDS_PAGE_TIMEOUT;
        return NGX_DONE;
    }

    return NGX_OK;
}


/* memcached does not say who builds: this worker, or another one here */

static ngx_int_t
ngx_mcds_page_enter_local(ngx_mcds_seat_t *seat, uint64_t cas,
    ngx_uint_t *outcome)
{
    ngx_mcds_page_t  *page;

    page = seat->page;
    page->base = cas;

    switch (ngx_mcds_page_claim(page)) {

    case NGX_ABORT:
        ngx_mcds_page_rest(page);
        *outcome = ngx_mcds_page_no_build(seat);
        return NGX_DONE;

    case NGX_BUSY:

        if (seat->refresh) {
            *outcome = NGX_MCDS_PAGE_OTHER;
            return NGX_DONE;
        }

        page->owner = NULL;
        page->poll_delay = NGX_MCDS_POLL_MIN;
        page->poll_next = ngx_current_msec + NGX_MCDS_POLL_MIN;

        ngx_mcds_page_set_state(page, NGX_MCDS_LOCAL);

        if (ngx_mcds_page_wait(seat) != NGX_OK) {
            ngx_mcds_page_rest(page);

            *outcome = NGX_MCDS_PAGE_TIMEOUT;
            return NGX_DONE;
        }

        return NGX_OK;

    default:
        page->owner = seat;

        ngx_mcds_page_set_state(page, NGX_MCDS_BUILDING);
        ngx_mcds_page_begin(seat);

        *outcome = NGX_MCDS_PAGE_BUILD;
        return NGX_DONE;
    }
}


/* the origin has failed a while ago, and there is no other page since */

static ngx_uint_t
ngx_mcds_page_paused(ngx_mcds_page_t *page, uint64_t cas)
{
    if (page->failed_until
        && (page->failed_cas != cas
            || page->failed_until <= ngx_mcds_clock(ngx_current_msec)))
    {
        page->failed_until = 0;
        ngx_mcds_page_rest(page);
    }

    return page->failed_until != 0;
}


/* who has no page to show does not obey the pause, but for the lock */

static ngx_uint_t
ngx_mcds_page_old(ngx_mcds_seat_t *seat)
{
    return seat->refresh || seat->has_old;
}


/* what a request is told then */

static ngx_uint_t
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


/* NGX_DECLINED: it may not wait */

static ngx_int_t
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


static void
ngx_mcds_page_start_lock(ngx_mcds_page_t *page, ngx_mcds_seat_t *owner,
    uint64_t cas)
{
    ngx_mcds_page_set_state(page, NGX_MCDS_LOCKING);

    page->owner = owner;
    page->base = cas;
    ngx_mcds_page_await(page, 0);

    ngx_mcds_page_ask_lock(page, !ngx_mcds_page_old(owner));
}


/* tries to take the lock, and asks for the page */

static void
ngx_mcds_page_ask_lock(ngx_mcds_page_t *page, ngx_uint_t at_once)
{
    page->missing = 0;
    page->lock_rc = NGX_MCDS_BUSY;

    ngx_mcds_page_ref(page);

    if (ngx_mcds_lock_acquire_page(page->pool, &page->key, page->lock_age,
                                   at_once, &page->kept, ngx_mcds_page_locked,
                                   page)
        == NGX_OK)
    {
        page->missing++;
    }

    /* behind the lock's command on the same connection */

    ngx_mcds_page_ask(page, page->base == 0);
}


/* looks whether the lock is still held, and asks for the page */

static void
ngx_mcds_page_ask_again(ngx_mcds_page_t *page)
{
    ngx_mcds_request_t  req;

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.verb = NGX_MCDS_GET;
    req.want = NGX_MCDS_VALUE;
    req.key = page->key;
    ngx_str_set(&req.suffix, NGX_MCDS_LOCK_SUFFIX);
    req.by_key = 1;
    req.single = 1;
    req.page = 1;
    req.movable = 1;

    ngx_mcds_page_ref(page);

    page->lock_op.handler = ngx_mcds_page_lock_asked;
    page->lock_op.data = page;

    ngx_mcds_submit(page->pool, &req, &page->lock_op);
    page->missing++;

    ngx_mcds_page_ask(page, page->base == 0);
}


static void
ngx_mcds_page_locked(void *data, ngx_mcds_lock_t *lock, ngx_uint_t rc)
{
    ngx_mcds_page_t *page = data;

    if (page->hurried) {

        if (lock) {
            ngx_mcds_lock_release(lock, 0);
        }

    } else {
        page->lock = lock;
        page->lock_rc = rc;
    }

    ngx_mcds_page_answered(page);
}


/* whole: with its value; otherwise only whether it has changed */

static void
ngx_mcds_page_ask(ngx_mcds_page_t *page, ngx_uint_t whole)
{
    ngx_mcds_request_t  req;

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.verb = NGX_MCDS_GET;
    req.want = whole ? NGX_MCDS_VALUE|NGX_MCDS_CAS|NGX_MCDS_FLAGS
                     : NGX_MCDS_CAS;
    req.newer = whole ? ngx_mcds_newer : NULL;
    req.key = page->key;
    req.limit = page->limit;
    req.page = 1;
    req.movable = 1;

    page->whole = whole;
    page->page_rc = NGX_MCDS_BUSY;
    page->page_cas = 0;
    page->purges = ngx_mcds_local_purges(page->place);

    page->page_op.handler = ngx_mcds_page_asked;
    page->page_op.data = page;

    ngx_mcds_submit(page->pool, &req, &page->page_op);
    page->missing++;
}


static void
ngx_mcds_page_asked(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_page_t   *page;
    ngx_mcds_stamp_t   stamp;
    ngx_mcds_value_t  *value;

    page = data;

    if (page->hurried) {
        ngx_mcds_page_answered(page);
        return;
    }

    page->page_rc = result->rc;

    if (result->rc == NGX_MCDS_OK) {
        page->page_cas = result->cas;

        if (result->has & NGX_MCDS_VALUE) {
            page->big = (result->len >= NGX_MCDS_BULK);

            value = ngx_mcds_result_value(result, ngx_cycle->log);

            if (value) {
                ngx_mcds_page_stamp(&stamp, result);
                page->copy = ngx_mcds_copy_create(page, value, &stamp);
                ngx_mcds_value_unref(value);
            }
        }
    }

    if (page->copy && page->copy->entry.kind == NGX_MCDS_ENTRY_PURGED) {
        ngx_mcds_copy_unref(page->copy);
        page->copy = NULL;
    }

    if (page->copy
        && page->copy->entry.parts
        && ((page->owner
             && ngx_mcds_copy_signed(page->copy, page->owner->secrets)
                == NGX_OK)
            || ngx_mcds_page_signed(page->copy, &page->waiters) == NGX_OK))
    {
        page->split = page->copy;
        page->copy = NULL;

        if (ngx_mcds_stream_open(page->split, 1, ngx_mcds_page_opened, page)
            == NGX_OK)
        {
            return;
        }

        ngx_mcds_copy_unref(page->split);
        page->split = NULL;
        page->page_rc = NGX_MCDS_BUSY;
    }

    ngx_mcds_page_answered(page);
}


static void
ngx_mcds_page_opened(void *data, ngx_uint_t rc)
{
    ngx_mcds_page_t *page = data;

    if (page->hurried) {
        ngx_mcds_copy_unref(page->split);

    } else if (rc == NGX_MCDS_OK) {
        page->copy = page->split;

    } else {
        ngx_mcds_copy_unref(page->split);

        if (ngx_mcds_answered(rc)) {
            ngx_mcds_page_not_used(page, "parts are missing");

        } else {
            page->page_rc = rc;
        }
    }

    page->split = NULL;

    ngx_mcds_page_answered(page);
}


static void
ngx_mcds_page_answered(ngx_mcds_page_t *page)
{
    if (--page->missing == 0) {
        page->answered(page);
    }
}


/*
 * The owner of the step is told what comes out of the answers so far, nothing
 * more is asked, and until all have come pages are built for this host alone.
 */

void
ngx_mcds_page_hurry_lock(ngx_mcds_page_t *page)
{
    page->hurried = 1;
    page->whole = 1;

    (void) ngx_mcds_page_judge(page);
}


/* all answers of a step have come whose owner was told before */

static void
ngx_mcds_page_late(ngx_mcds_page_t *page)
{
    page->hurried = 0;

    if (ngx_mcds_page_elsewhere(page)) {

        if (ngx_queue_empty(&page->waiters)) {
            ngx_mcds_page_rest(page);

        } else {
            ngx_mcds_page_set_poll(page);
        }
    }

    ngx_mcds_page_unref(page);
}


/*
 * The next build may have begun before this worker sees what the last one made,
 * which requests are waiting for.
 */

static void
ngx_mcds_page_await(ngx_mcds_page_t *page, uint64_t build)
{
    if (page->awaited == build) {
        return;
    }

    if (ngx_queue_empty(&page->waiters)) {
        page->before = 0;

    } else if (page->awaited) {
        page->before = page->awaited;
    }

    page->awaited = build;
}


/* lock and page have answered */

static void
ngx_mcds_page_step(ngx_mcds_page_t *page)
{
    if (page->hurried) {
        ngx_mcds_page_late(page);
        return;
    }

    if (ngx_mcds_page_judge(page) == NGX_OK) {
        ngx_mcds_page_unref(page);
    }
}


/* NGX_AGAIN: another answer is to come */

static ngx_int_t
ngx_mcds_page_judge(ngx_mcds_page_t *page)
{
    ngx_mcds_copy_t  *copy;

    if (page->kept.owner) {
        ngx_mcds_page_await(page, page->kept.owner);
    }

    switch (ngx_mcds_page_changed(page)) {

    case NGX_AGAIN:

        /* changed, and now its value is on the way */

        return NGX_AGAIN;

    case NGX_OK:
        copy = page->copy;
        page->copy = NULL;

        ngx_mcds_page_release(page);

        page->failed_until = 0;

        ngx_mcds_page_rest(page);
        ngx_mcds_page_keep(page, copy, page->purges);
        ngx_mcds_page_found(page, copy);
        ngx_mcds_copy_unref(copy);
        break;

    default: /* NGX_DECLINED */

        if (page->state == NGX_MCDS_LOCKING) {
            ngx_mcds_page_step_lock(page);

        } else {
            ngx_mcds_page_step_poll(page);
        }

        break;
    }

    return NGX_OK;
}


/*
 * NGX_OK: there is another page than that of base, and here it is;
 * NGX_DECLINED: there is not.
 */

static ngx_int_t
ngx_mcds_page_changed(ngx_mcds_page_t *page)
{
    ngx_uint_t  flags;

    flags = NGX_MCDS_ENTRY_INVALID|NGX_MCDS_ENTRY_REVALIDATE;

    if (page->copy
        && page->copy->entry.kind == NGX_MCDS_ENTRY_PAGE
        && (page->copy->entry.flags & flags) == flags)
    {
        /* the page was purged, and no request may use it: the wait goes on */

        page->base = page->copy->stamp.cas;

        ngx_mcds_copy_unref(page->copy);
        page->copy = NULL;

        return NGX_DECLINED;
    }

    if (page->copy) {
        return NGX_OK;
    }

    if (page->page_rc == NGX_MCDS_NOT_FOUND) {
        page->base = 0;
        return NGX_DECLINED;
    }

    if (page->page_rc != NGX_MCDS_OK || page->page_cas == page->base) {
        return NGX_DECLINED;
    }

    if (!page->whole) {
        ngx_mcds_page_ask(page, 1);
        return NGX_AGAIN;
    }

    /* something that is no page: to be replaced as it is now */

    page->base = page->page_cas;

    return NGX_DECLINED;
}


static void
ngx_mcds_page_step_lock(ngx_mcds_page_t *page)
{
    uint64_t  now;

    if (page->lock_rc == NGX_MCDS_OK) {
        page->step = page->kept.step;
    }

    if (page->lock_rc != NGX_MCDS_NOT_STORED) {

        /* the lock is held, or there is no lock to be had: then the build
           is for this host alone */

        ngx_mcds_page_build(page);
        return;
    }

    now = ngx_mcds_now();

    if (page->kept.step && page->kept.until > now) {
        ngx_mcds_page_pause(page, (ngx_msec_t) (page->kept.until - now));
        ngx_mcds_page_tell_pause(page);
        return;
    }

    page->held_until = ngx_mcds_clock(ngx_current_msec) + NGX_MCDS_HELD;
    page->held_cas = page->base;

    ngx_mcds_page_follow(page, NGX_MCDS_REMOTE);
}


static void
ngx_mcds_page_step_poll(ngx_mcds_page_t *page)
{
    uint64_t          now;
    ngx_mcds_seat_t  *seat;

    now = ngx_mcds_now();

    if (page->lock_rc == NGX_MCDS_OK && page->kept.step) {

        /* the build that is waited for has failed */

        ngx_mcds_page_pause(page, page->kept.until > now
                                  ? (ngx_msec_t) (page->kept.until - now) : 0);
        ngx_mcds_page_tell_pause(page);
        return;
    }

    if (!ngx_mcds_answered(page->lock_rc)) {
        ngx_mcds_page_build(page);
        return;
    }

    if (page->lock_rc != NGX_MCDS_OK) {

        /* nobody builds it any more */

        seat = ngx_mcds_page_next(page);

        if (seat) {
            ngx_mcds_page_start_lock(page, seat, page->base);
            return;
        }
    }

    if (ngx_queue_empty(&page->waiters)) {
        ngx_mcds_page_rest(page);
        return;
    }

    ngx_mcds_page_set_poll(page);
}


/* somebody here is to build; the lock is page->lock, or NULL */

static void
ngx_mcds_page_build(ngx_mcds_page_t *page)
{
    ngx_mcds_seat_t  *seat;

    if (page->owner == NULL && ngx_queue_empty(&page->waiters)) {
        ngx_mcds_page_release(page);
        ngx_mcds_page_rest(page);
        return;
    }

    switch (ngx_mcds_page_claim(page)) {

    case NGX_ABORT:
        ngx_mcds_page_release(page);
        ngx_mcds_page_tell_pause(page);
        return;

    case NGX_BUSY:

        /* memcached has lost the lock of another worker of this host */

        ngx_mcds_page_release(page);
        ngx_mcds_page_follow(page, NGX_MCDS_LOCAL);
        return;

    default:
        break;
    }

    seat = page->owner;

    if (seat == NULL) {
        seat = ngx_mcds_page_next(page);
    }

    ngx_mcds_page_set_state(page, NGX_MCDS_BUILDING);

    page->owner = seat;

    seat->takeover = seat->waited;

    ngx_mcds_page_waited(seat, NGX_MCDS_ZONE_WAIT_TAKEOVER);
    ngx_mcds_page_begin(seat);

    ngx_mcds_page_tell(seat, NGX_MCDS_PAGE_BUILD, NULL);
}


/* the origin is asked from here on: all requests that wait by now may use it */

static void
ngx_mcds_page_begin(ngx_mcds_seat_t *seat)
{
    ngx_queue_t      *q;
    ngx_mcds_page_t  *page;
    ngx_mcds_seat_t  *waiter;

    page = seat->page;

    for (q = ngx_queue_head(&page->waiters);
         q != ngx_queue_sentinel(&page->waiters);
         q = ngx_queue_next(q))
    {
        waiter = ngx_queue_data(q, ngx_mcds_seat_t, queue);
        waiter->cas = page->base;
    }

    seat->building = 1;
    seat->since = ngx_current_msec;

    page->purges = ngx_mcds_local_purges(page->place);

    ngx_mcds_stat_add(seat->stat, seat->refresh ? NGX_MCDS_ZONE_REFRESH
                                                : NGX_MCDS_ZONE_FILL, 1);
}


/*
 * Who builds among the workers of this host: NGX_OK this one; NGX_BUSY another
 * one; NGX_ABORT nobody for a while.
 */

static ngx_int_t
ngx_mcds_page_claim(ngx_mcds_page_t *page)
{
    ngx_int_t              rc;
    ngx_mcds_local_left_t  left;

    /* a build that is handed on is the same one to all who wait for it */

    if (page->lock) {
        page->awaited = ngx_mcds_lock_owner(page->lock);

    } else if (page->hold.claim == NULL) {
        ngx_mcds_random(&page->awaited, sizeof(uint64_t));
        page->awaited |= 1;
    }

    if (ngx_mcds_page_refused(page)) {
        return NGX_OK;
    }

    (void) ngx_mcds_page_id(page);

    page->hold.build = page->awaited;

    rc = ngx_mcds_local_claim(&page->hold, ngx_mcds_msec(page->lock_age),
                              &left);

    switch (rc) {

    case NGX_BUSY:
        ngx_mcds_page_await(page, left.build);
        page->unheard = (page->lock == NULL);
        page->here_since = ngx_current_msec;
        return NGX_BUSY;

    case NGX_ABORT:

        if (page->lock) {

            /* what memcached says counts more */

            return NGX_OK;
        }

        ngx_mcds_page_pause(page, left.left);
        return NGX_ABORT;

    default: /* NGX_OK, NGX_DECLINED */

        if (page->lock == NULL) {
            page->step = left.step;
        }

        return NGX_OK;
    }
}


/* a mark that is not signed sends no request to the origin */

static ngx_uint_t
ngx_mcds_page_for(ngx_mcds_seat_t *seat, ngx_uint_t outcome,
    ngx_mcds_copy_t *copy)
{
    return (outcome == NGX_MCDS_PAGE_PASS
            && copy
            && ngx_mcds_copy_signed(copy, seat->secrets) != NGX_OK)
           ? NGX_MCDS_PAGE_FOUND : outcome;
}


/* for all who are here: the owner, if there is one, and those who wait */

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
            /* it came when there was another page than when this was begun */

            ngx_mcds_page_tell(seat, NGX_MCDS_PAGE_AGAIN, NULL);
            continue;
        }

        seat->built = built;

        ngx_mcds_page_tell(seat, ngx_mcds_page_for(seat, outcome, copy), copy);
    }
}


/* somebody else builds: the owner goes on with the old page or waits */

static void
ngx_mcds_page_follow(ngx_mcds_page_t *page, ngx_uint_t state)
{
    ngx_atomic_t     *sequence;
    ngx_mcds_seat_t  *seat;

    ngx_mcds_page_set_state(page, state);

    page->poll_delay = NGX_MCDS_POLL_MIN;
    page->poll_next = ngx_current_msec + NGX_MCDS_POLL_MIN;

    sequence = ngx_mcds_page_sequence(page);

    if (sequence) {
        page->sequence = *sequence;
    }

    seat = page->owner;
    page->owner = NULL;

    if (seat && seat->refresh) {
        ngx_mcds_page_tell(seat, NGX_MCDS_PAGE_OTHER, NULL);

    } else if (seat && ngx_mcds_page_wait(seat) != NGX_OK) {
        ngx_mcds_page_tell(seat, NGX_MCDS_PAGE_TIMEOUT, NULL);
    }

    if (ngx_queue_empty(&page->waiters)) {
        ngx_mcds_page_rest(page);
        return;
    }

    ngx_mcds_page_set_poll(page);
}


void
ngx_mcds_page_release(ngx_mcds_page_t *page)
{
    ngx_mcds_local_left_t  left;

    ngx_memzero(&left, sizeof(ngx_mcds_local_left_t));

    if (page->lock) {
        ngx_mcds_lock_release(page->lock, 0);
        page->lock = NULL;
    }

    ngx_mcds_local_release(&page->hold, &left);
}


/*
 * Who waits in other workers, and cannot ask memcached, takes the copy from
 * the zone.  One that is not to be had there, large ones, each of them has to
 * build.
 */

void
ngx_mcds_page_share_copy(ngx_mcds_page_t *page, ngx_mcds_copy_t *copy)
{
    ngx_uint_t             wanted;
    ngx_mcds_stamp_t       none;
    ngx_mcds_local_left_t  left;

    if (page->hold.claim == NULL) {
        return;
    }

    ngx_memzero(&none, sizeof(ngx_mcds_stamp_t));
    ngx_memzero(&left, sizeof(ngx_mcds_local_left_t));

    wanted = ngx_mcds_local_wanted(&page->hold);

    if (wanted && copy && copy->first && copy->first->entry.parts == 0) {
        (void) ngx_mcds_local_put(ngx_mcds_page_id(copy->first->page),
                                  copy->first->value, &none);
    }

    if (wanted
        && (copy == NULL
            || copy->entry.parts
            || ngx_mcds_local_put(ngx_mcds_page_id(page), copy->value, &none)
               != NGX_OK))
    {
        left.state = NGX_MCDS_LOCAL_ALONE;
    }

    ngx_mcds_local_release(&page->hold, &left);

    if (wanted) {
        ngx_mcds_page_moved(page);
    }
}


static ngx_mcds_seat_t *
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


static void
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


/* who has an old page does not wait for another try */

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
        ngx_mcds_page_rest(page);
        ngx_mcds_page_moved(page);
        return;
    }

    /*
     * Behind an old page the time doubles with each failure.  Without one there
     * is no pause, or somebody's error would be everybody's: only those who
     * have waited for this build are told.
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
    ngx_mcds_page_moved(page);
}


/* gives up the lock and the claim, and leaves behind how often that failed */

static void
ngx_mcds_page_release_failed(ngx_mcds_page_t *page, ngx_msec_t period)
{
    uint32_t               keep;
    ngx_mcds_kept_t        kept;
    ngx_mcds_local_left_t  left;

    if (page->backoff && page->lock) {
        kept.step = page->step;
        kept.until = period ? ngx_mcds_now() + period : 0;
        keep = NGX_MCDS_NOTICE;

        if (period) {
            keep = (uint32_t) ngx_min(2 * period / 1000 + NGX_MCDS_FORGET,
                                      NGX_MCDS_MAX_TTL);
        }

        ngx_mcds_lock_fail(page->lock, keep, &kept);
        page->lock = NULL;
    }

    left.state = page->backoff ? NGX_MCDS_LOCAL_FAILED : NGX_MCDS_LOCAL_FREE;
    left.step = page->step;
    left.left = period ? period : NGX_MCDS_TOLD;

    ngx_mcds_local_release(&page->hold, &left);
    ngx_mcds_page_release(page);
}


/* nobody here tries for so long */

static void
ngx_mcds_page_pause(ngx_mcds_page_t *page, ngx_msec_t left)
{
    page->failed_cas = page->base;
    page->failed_until = ngx_mcds_clock(ngx_current_msec) + left;
}


/* all who are here, the owner and those who wait */

static void
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


static void
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


static void
ngx_mcds_page_poll_handler(ngx_event_t *ev)
{
    ngx_uint_t        due;
    ngx_msec_t        delay;
    ngx_atomic_t     *sequence;
    ngx_mcds_page_t  *page;

    page = ev->data;

    if (ngx_queue_empty(&page->waiters)) {
        if (ngx_mcds_page_elsewhere(page)
            && (!page->missing || page->hurried))
        {
            ngx_mcds_page_rest(page);
        }

        return;
    }

    if (page->state == NGX_MCDS_STORING) {

        /* of a split body there is none yet: all are told at the end */

        if (page->built) {
            ngx_mcds_page_found(page, page->built);
        }

        return;
    }

    if (!ngx_mcds_page_elsewhere(page)
        || (page->missing && !page->hurried))
    {
        return;
    }

    if (page->state == NGX_MCDS_LOCAL
        && ngx_mcds_page_poll_here(page) != NGX_DECLINED)
    {
        return;
    }

    if (page->hurried) {

        /* memcached is asked when it has answered what it was asked before */

        return;
    }

    due = ((ngx_msec_int_t) (page->poll_next - ngx_current_msec) <= 0);

    sequence = ngx_mcds_page_sequence(page);

    if (sequence && *sequence != page->sequence) {
        page->sequence = *sequence;
        due = 1;
    }

    if (!due) {
        ngx_mcds_page_set_poll(page);
        return;
    }

    /* jitter is only ever downwards */

    delay = ngx_min(page->poll_delay * 3 / 2 + 1, NGX_MCDS_POLL_MAX);
    page->poll_delay = delay;
    page->poll_next = ngx_current_msec + delay
                      - (ngx_msec_t) ngx_random() % (delay / 4 + 1);

    ngx_mcds_page_ask_again(page);
}


/* another worker of this host builds; NGX_DECLINED: not any more */

static ngx_int_t
ngx_mcds_page_poll_here(ngx_mcds_page_t *page)
{
    ngx_int_t               rc;
    ngx_mcds_copy_t        *copy;
    ngx_mcds_stamp_t        found;
    ngx_mcds_value_t       *value;
    ngx_mcds_local_left_t   left;

    rc = ngx_mcds_local_look(ngx_mcds_page_id(page), 1, &left);

    if (rc == NGX_BUSY) {
        ngx_mcds_page_await(page, left.build);
        ngx_mcds_page_set_poll(page);
        return NGX_OK;
    }

    ngx_mcds_page_set_state(page, NGX_MCDS_REMOTE);

    if (rc == NGX_ABORT) {
        ngx_mcds_page_pause(page, left.left);
        ngx_mcds_page_tell_pause(page);
        return NGX_OK;
    }

    value = ngx_mcds_local_get(ngx_mcds_page_id(page), NULL,
                               ngx_current_msec - page->here_since
                               + NGX_MCDS_LAG, &found);

    copy = value ? ngx_mcds_copy_create(page, value, &found) : NULL;

    ngx_mcds_value_unref(value);

    if (copy) {
        ngx_mcds_page_rest(page);

        if (copy->entry.kind == NGX_MCDS_ENTRY_VARY) {
            ngx_mcds_page_remember(page, copy);
        }

        ngx_mcds_page_keep_unasked(page, copy);
        ngx_mcds_page_found(page, copy);
        ngx_mcds_copy_unref(copy);
        return NGX_OK;
    }

    if (page->unheard || left.state == NGX_MCDS_LOCAL_ALONE) {

        /* no use to wait for memcached once more */

        ngx_mcds_page_build(page);
        return NGX_OK;
    }

    page->poll_next = ngx_current_msec;

    return NGX_DECLINED;
}


static void
ngx_mcds_page_lock_asked(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_page_t *page = data;

    page->lock_rc = result->rc;

    ngx_memzero(&page->kept, sizeof(ngx_mcds_kept_t));

    if (result->rc == NGX_MCDS_OK) {
        (void) ngx_mcds_lock_read(result->data, result->len, &page->kept);
    }

    ngx_mcds_page_answered(page);
}

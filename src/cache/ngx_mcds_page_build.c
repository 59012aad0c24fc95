
/*
 * Copyright (C) mcds authors
 *
 * Who builds a page, and who waits for it: see ngx_mcds_page_core.h.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_page_core.h"


#define NGX_MCDS_POLL_MIN         5
#define NGX_MCDS_POLL_MAX         100

/* who has found the lock held does not ask again so soon, ms */
#define NGX_MCDS_HELD             100

/* after a failed refresh nobody tries again so soon, seconds */
#define NGX_MCDS_BACKOFF          2


static ngx_int_t ngx_mcds_page_wait(ngx_mcds_seat_t *seat);
static void ngx_mcds_page_wait_handler(ngx_event_t *ev);
static void ngx_mcds_page_start_lock(ngx_mcds_page_t *page,
    ngx_mcds_seat_t *owner, uint64_t cas);
static void ngx_mcds_page_locked(void *data, ngx_mcds_lock_t *lock,
    ngx_uint_t rc);
static ngx_int_t ngx_mcds_page_ask(ngx_mcds_page_t *page, ngx_uint_t whole);
static void ngx_mcds_page_asked(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_page_opened(void *data, ngx_uint_t rc);
static void ngx_mcds_page_step(ngx_mcds_page_t *page);
static ngx_int_t ngx_mcds_page_changed(ngx_mcds_page_t *page);
static void ngx_mcds_page_step_lock(ngx_mcds_page_t *page);
static void ngx_mcds_page_step_poll(ngx_mcds_page_t *page);
static void ngx_mcds_page_build(ngx_mcds_page_t *page);
static void ngx_mcds_page_elsewhere(ngx_mcds_page_t *page);
static ngx_mcds_seat_t *ngx_mcds_page_next(ngx_mcds_page_t *page);
static void ngx_mcds_page_tell(ngx_mcds_seat_t *seat, ngx_uint_t outcome,
    ngx_mcds_copy_t *copy);
static void ngx_mcds_page_give_up(ngx_mcds_page_t *page);
static void ngx_mcds_page_set_poll(ngx_mcds_page_t *page);
static void ngx_mcds_page_lock_asked(void *data, ngx_mcds_result_t *result);


ngx_int_t
ngx_mcds_page_enter(ngx_mcds_seat_t *seat, ngx_mcds_enter_t *enter,
    ngx_uint_t *outcome)
{
    ngx_mcds_page_t  *page;

    page = seat->page;
    page->lock_age = enter->lock_age;

    seat->wait = enter->wait;
    seat->max_waiters = enter->max_waiters;
    seat->refresh = enter->refresh;
    seat->has_old = enter->has_old;
    seat->cas = enter->cas;

    if (page->state == NGX_MCDS_IDLE) {

        if (page->held
            && (ngx_msec_int_t) (page->held_until - ngx_current_msec) <= 0)
        {
            page->held = 0;
        }

        /* what cannot be stored cannot be waited for on other workers */

        if (enter->local || ngx_mcds_page_refused(page)) {
            page->base = enter->cas;
            page->owner = seat;

            ngx_mcds_page_set_state(page, NGX_MCDS_BUILDING);
            seat->building = 1;

            *outcome = NGX_MCDS_PAGE_BUILD;
            return NGX_DONE;
        }

        if (!seat->refresh || !page->held) {
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


/* NGX_DECLINED: it may not wait */

static ngx_int_t
ngx_mcds_page_wait(ngx_mcds_seat_t *seat)
{
    ngx_mcds_page_t  *page;

    page = seat->page;

    if (seat->wait == 0 || page->nwaiters >= seat->max_waiters) {
        return NGX_DECLINED;
    }

    ngx_queue_insert_tail(&page->waiters, &seat->queue);
    seat->queued = 1;
    page->nwaiters++;

    seat->timer.handler = ngx_mcds_page_wait_handler;
    seat->timer.data = seat;
    seat->timer.log = ngx_cycle->log;

    ngx_add_timer(&seat->timer, seat->wait);

    if (page->state == NGX_MCDS_STORING
        || (page->state == NGX_MCDS_ELSEWHERE && !page->missing))
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

    seat->handler(seat->data, NGX_MCDS_PAGE_TIMEOUT, NULL);
}


static void
ngx_mcds_page_start_lock(ngx_mcds_page_t *page, ngx_mcds_seat_t *owner,
    uint64_t cas)
{
    ngx_mcds_page_set_state(page, NGX_MCDS_LOCKING);

    page->owner = owner;
    page->base = cas;
    page->missing = 1;
    page->lock_rc = NGX_MCDS_BUSY;
    page->page_rc = NGX_MCDS_BUSY;

    ngx_mcds_page_ref(page);

    if (ngx_mcds_lock_acquire(page->pool, &page->key, page->lock_age,
                              ngx_mcds_page_locked, page)
        == NGX_OK)
    {
        page->missing++;
    }

    /* behind the lock's command on the same connection, see the top */

    (void) ngx_mcds_page_ask(page, cas == 0);

    if (--page->missing == 0) {

        /* out of memory; the owner hears of it in a posted event */

        ngx_mcds_page_elsewhere(page);
        ngx_mcds_page_unref(page);
    }
}


static void
ngx_mcds_page_locked(void *data, ngx_mcds_lock_t *lock, ngx_uint_t rc)
{
    ngx_mcds_page_t *page = data;

    page->lock = lock;
    page->lock_rc = rc;

    if (--page->missing == 0) {
        ngx_mcds_page_step(page);
    }
}


/* whole: with its value; otherwise only whether it has changed */

static ngx_int_t
ngx_mcds_page_ask(ngx_mcds_page_t *page, ngx_uint_t whole)
{
    ngx_mcds_request_t  req;

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.verb = NGX_MCDS_GET;
    req.want = whole ? NGX_MCDS_VALUE|NGX_MCDS_CAS : NGX_MCDS_CAS;
    req.key = page->key;
    req.limit = page->limit;
    req.movable = 1;

    page->whole = whole;
    page->page_rc = NGX_MCDS_BUSY;
    page->page_cas = 0;

    if (ngx_mcds_submit(page->pool, &req, ngx_mcds_page_asked, page) == NULL) {
        return NGX_ERROR;
    }

    page->missing++;

    return NGX_OK;
}


static void
ngx_mcds_page_asked(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_page_t   *page;
    ngx_mcds_value_t  *value;

    page = data;

    page->page_rc = result->rc;

    if (result->rc == NGX_MCDS_OK) {
        page->page_cas = result->cas;

        if (result->has & NGX_MCDS_VALUE) {
            page->big = (result->len >= NGX_MCDS_BULK);

            value = ngx_mcds_result_value(result, ngx_cycle->log);

            if (value) {
                page->copy = ngx_mcds_copy_create(page, value, result->cas);
                ngx_mcds_value_unref(value);
            }
        }
    }

    if (page->copy && page->copy->entry.kind == NGX_MCDS_ENTRY_PURGED) {
        ngx_mcds_copy_unref(page->copy);
        page->copy = NULL;
    }

    if (page->copy && page->copy->entry.parts) {
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

    if (--page->missing == 0) {
        ngx_mcds_page_step(page);
    }
}


static void
ngx_mcds_page_opened(void *data, ngx_uint_t rc)
{
    ngx_mcds_page_t *page = data;

    if (rc == NGX_MCDS_OK) {
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

    if (--page->missing == 0) {
        ngx_mcds_page_step(page);
    }
}


/* lock and page have answered */

static void
ngx_mcds_page_step(ngx_mcds_page_t *page)
{
    ngx_mcds_copy_t  *copy;

    switch (ngx_mcds_page_changed(page)) {

    case NGX_AGAIN:

        /* changed, and now its value is on the way */

        return;

    case NGX_OK:
        copy = page->copy;
        page->copy = NULL;

        ngx_mcds_page_release(page, 0);
        ngx_mcds_page_set_state(page, NGX_MCDS_IDLE);

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

    ngx_mcds_page_unref(page);
}


/*
 * NGX_OK: there is another page than that of base, and here it is;
 * NGX_DECLINED: there is not.
 */

static ngx_int_t
ngx_mcds_page_changed(ngx_mcds_page_t *page)
{
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

    if (!page->whole && ngx_mcds_page_ask(page, 1) == NGX_OK) {
        return NGX_AGAIN;
    }

    /* something that is no page: to be replaced as it is now */

    page->base = page->page_cas;

    return NGX_DECLINED;
}


static void
ngx_mcds_page_step_lock(ngx_mcds_page_t *page)
{
    if (page->lock_rc != NGX_MCDS_NOT_STORED) {

        /* the lock is held, or there is no lock to be had: then the build
           is for this worker alone */

        ngx_mcds_page_build(page);
        return;
    }

    page->held = 1;
    page->held_until = ngx_current_msec + NGX_MCDS_HELD;

    ngx_mcds_page_elsewhere(page);
}


static void
ngx_mcds_page_step_poll(ngx_mcds_page_t *page)
{
    ngx_mcds_seat_t  *seat;

    if (page->lock_rc != NGX_MCDS_OK) {

        /* nobody builds it any more, or memcached does not answer */

        seat = ngx_mcds_page_next(page);

        if (seat) {
            ngx_mcds_page_start_lock(page, seat, page->base);
            return;
        }
    }

    if (page->kept) {
        ngx_mcds_page_give_up(page);
    }

    if (ngx_queue_empty(&page->waiters)) {
        ngx_mcds_page_set_state(page, NGX_MCDS_IDLE);
        return;
    }

    ngx_mcds_page_set_poll(page);
}


/* somebody here is to build; the lock is page->lock, or NULL */

static void
ngx_mcds_page_build(ngx_mcds_page_t *page)
{
    ngx_mcds_seat_t  *seat;

    seat = page->owner;

    if (seat == NULL) {
        seat = ngx_mcds_page_next(page);
    }

    if (seat == NULL) {
        ngx_mcds_page_release(page, 0);
        ngx_mcds_page_set_state(page, NGX_MCDS_IDLE);
        return;
    }

    ngx_mcds_page_set_state(page, NGX_MCDS_BUILDING);

    page->owner = seat;
    seat->building = 1;

    ngx_mcds_page_tell(seat, NGX_MCDS_PAGE_BUILD, NULL);
}


/* for all who are here: the owner, if there is one, and those who wait */

void
ngx_mcds_page_found(ngx_mcds_page_t *page, ngx_mcds_copy_t *copy)
{
    ngx_uint_t        outcome;
    ngx_mcds_seat_t  *seat;

    outcome = (copy == NULL || copy->entry.kind == NGX_MCDS_ENTRY_PASS)
              ? NGX_MCDS_PAGE_PASS : NGX_MCDS_PAGE_FOUND;

    if (copy == NULL) {
        ngx_mcds_page_give_up(page);
    }

    seat = page->owner;
    page->owner = NULL;

    if (seat) {
        ngx_mcds_page_tell(seat, outcome, copy);
    }

    for ( ;; ) {
        seat = ngx_mcds_page_next(page);

        if (seat == NULL) {
            break;
        }

        if (outcome == NGX_MCDS_PAGE_FOUND
            && copy->cas == 0
            && seat->cas != page->base)
        {
            /* it came when there was another page than when this was begun */

            ngx_mcds_page_tell(seat, NGX_MCDS_PAGE_AGAIN, NULL);
            continue;
        }

        ngx_mcds_page_tell(seat, outcome, copy);
    }
}


/* somebody else builds: the owner goes on with the old page or waits */

static void
ngx_mcds_page_elsewhere(ngx_mcds_page_t *page)
{
    ngx_atomic_t     *sequence;
    ngx_mcds_seat_t  *seat;

    ngx_mcds_page_set_state(page, NGX_MCDS_ELSEWHERE);

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
        ngx_mcds_page_set_state(page, NGX_MCDS_IDLE);
        return;
    }

    ngx_mcds_page_set_poll(page);
}


void
ngx_mcds_page_release(ngx_mcds_page_t *page, uint32_t keep)
{
    if (page->lock) {
        ngx_mcds_lock_release(page->lock, keep);
        page->lock = NULL;
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


static void
ngx_mcds_page_tell(ngx_mcds_seat_t *seat, ngx_uint_t outcome,
    ngx_mcds_copy_t *copy)
{
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
    if (backoff) {
        ngx_mcds_page_give_up(page);
    }

    if (!ngx_queue_empty(&page->waiters)) {
        ngx_mcds_page_build(page);
        return;
    }

    if (backoff) {
        ngx_mcds_page_release(page, NGX_MCDS_BACKOFF);
        page->held = 1;
        page->held_until = ngx_current_msec + NGX_MCDS_BACKOFF * 1000;

    } else {
        ngx_mcds_page_release(page, 0);
    }

    ngx_mcds_page_set_state(page, NGX_MCDS_IDLE);

    ngx_mcds_page_moved(page);
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

    left = (ngx_msec_int_t) (page->poll_next - ngx_current_msec);
    left = ngx_max(left, 1);

    if (ngx_mcds_page_sequence(page)) {
        left = ngx_min(left, NGX_MCDS_POLL_MIN);
    }

    ngx_add_timer(&page->poll, left);
}


void
ngx_mcds_page_poll_handler(ngx_event_t *ev)
{
    ngx_uint_t           due;
    ngx_msec_t           delay;
    ngx_atomic_t        *sequence;
    ngx_mcds_page_t     *page;
    ngx_mcds_request_t   req;

    page = ev->data;

    if (ngx_queue_empty(&page->waiters)) {
        if (page->state == NGX_MCDS_ELSEWHERE && !page->missing) {
            ngx_mcds_page_set_state(page, NGX_MCDS_IDLE);
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

    if (page->state != NGX_MCDS_ELSEWHERE || page->missing) {
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

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.verb = NGX_MCDS_GET;
    req.want = NGX_MCDS_VALUE;
    req.key = page->key;
    ngx_str_set(&req.suffix, NGX_MCDS_LOCK_SUFFIX);
    req.by_key = 1;
    req.single = 1;
    req.movable = 1;

    page->lock_rc = NGX_MCDS_BUSY;

    ngx_mcds_page_ref(page);

    if (ngx_mcds_submit(page->pool, &req, ngx_mcds_page_lock_asked, page)
        != NULL)
    {
        page->missing++;
    }

    (void) ngx_mcds_page_ask(page, page->base == 0);

    if (page->missing == 0) {
        ngx_mcds_page_set_poll(page);
        ngx_mcds_page_unref(page);
    }
}


static void
ngx_mcds_page_lock_asked(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_page_t *page = data;

    page->lock_rc = result->rc;
    page->kept = (result->rc == NGX_MCDS_OK
                  && result->len == sizeof(NGX_MCDS_LOCK_KEPT) - 1
                  && ngx_memcmp(result->data, NGX_MCDS_LOCK_KEPT, result->len)
                     == 0);

    if (--page->missing == 0) {
        ngx_mcds_page_step(page);
    }
}


/*
 * Copyright (C) mcds authors
 *
 * While requests wait until another worker or host has built a page, or until
 * the page is stored, the worker looks for the page from time to time.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_page_build.h"
#include "ngx_mcds_page_lease.h"
#include "ngx_mcds_page_local.h"
#include "ngx_mcds_page_queue.h"


/*
 * the longest time between two questions to memcached about a page that
 * another worker builds, ms; and the longest time between them while the page's
 * lock shows that the build is not expected to end yet
 */
#define NGX_MCDS_POLL_MAX         100
#define NGX_MCDS_POLL_EARLY       250


static ngx_int_t ngx_mcds_page_poll_local_build(ngx_mcds_page_t *page);
static ngx_int_t ngx_mcds_page_take_local_build(ngx_mcds_page_t *page);


void
ngx_mcds_page_poll_handler(ngx_event_t *ev)
{
    ngx_uint_t        now, early;
    ngx_atomic_t     *sequence;
    ngx_mcds_page_t  *page;

    page = ev->data;

    if (ngx_queue_empty(&page->waiters)) {
        if (ngx_mcds_page_elsewhere(page)
            && (!page->unanswered || page->hurried))
        {
            ngx_mcds_page_set_idle(page);
        }

        return;
    }

    if (page->state == NGX_MCDS_STATE_STORING) {

        /*
         * page->built NULL: not all parts of the page's body are stored yet;
         * when all are stored, the waiting requests get the page
         */

        if (page->built) {
            ngx_mcds_page_give(page, page->built);
        }

        return;
    }

    if (!ngx_mcds_page_elsewhere(page)
        || (page->unanswered && !page->hurried))
    {
        return;
    }

    if (page->state == NGX_MCDS_STATE_LOCAL
        && ngx_mcds_page_poll_local_build(page) != NGX_DECLINED)
    {
        return;
    }

    if (page->hurried) {

        /*
         * this worker asks memcached for the page again when memcached has
         * replied to the last commands about it
         */

        return;
    }

    now = ((ngx_msec_int_t) (page->poll_next - ngx_current_msec) <= 0);

    /*
     * until page->due, when the build that the requests wait for is expected
     * to end, memcached is asked not for the page, but only for its lock, which
     * shows whether this build is still under way
     */

    early = (page->due > ngx_mcds_now());

    sequence = ngx_mcds_page_sequence(page);

    if (sequence && *sequence != page->sequence) {
        page->sequence = *sequence;
        now = 1;
        early = 0;
    }

    if (!now) {
        ngx_mcds_page_set_poll(page);
        return;
    }

    ngx_mcds_page_set_next(page);

    ngx_mcds_page_poll(page, early);
}


void
ngx_mcds_page_due(ngx_mcds_page_t *page)
{
    ngx_msec_t          least;
    ngx_mcds_waiter_t  *waiter;

    page->due = page->kept.due;
    page->guessed = 0;

    if (page->due || page->kept.owner == 0) {
        return;
    }

    waiter = page->owner ? page->owner : ngx_mcds_page_first_waiter(page);

    if (waiter && waiter->pace) {
        least = ngx_mcds_pace_least(waiter->pace, page->took);

        page->due = least ? ngx_mcds_now() + least : 0;
        page->guessed = 1;
    }
}


void
ngx_mcds_page_set_next(ngx_mcds_page_t *page)
{
    uint64_t    now;
    ngx_msec_t  delay, most;

    now = ngx_mcds_now();

    if (page->due > now) {
        most = page->guessed ? NGX_MCDS_POLL_MAX : NGX_MCDS_POLL_EARLY;
        delay = (ngx_msec_t) ngx_min((page->due - now) / 2, most);

    } else {
        delay = ngx_min(page->poll_delay * 3 / 2 + 1, NGX_MCDS_POLL_MAX);

        if (page->due) {
            delay = (ngx_msec_t) ngx_min((now - page->due) / 4, delay);
        }
    }

    delay = ngx_max(delay, NGX_MCDS_POLL_MIN);

    /*
     * the random part of the delay between two questions about the page only
     * shortens the delay
     */

    page->poll_delay = delay;
    page->poll_next = ngx_current_msec + delay
                      - (ngx_msec_t) ngx_random() % (delay / 4 + 1);
}


/*
 * Requests wait for a page that another worker of this host builds: checks
 * whether the build has ended.  Returns NGX_DECLINED if it has ended, the
 * requests still wait, and no other build has begun, so that memcached is to be
 * asked.
 */

static ngx_int_t
ngx_mcds_page_poll_local_build(ngx_mcds_page_t *page)
{
    ngx_int_t               rc;
    ngx_mcds_local_left_t   left;

    rc = ngx_mcds_local_look(ngx_mcds_page_id(page), 1, &left);

    if (rc == NGX_BUSY && left.build == page->awaited) {
        ngx_mcds_page_set_poll(page);
        return NGX_OK;
    }

    if (rc == NGX_ABORT) {
        ngx_mcds_page_set_state(page, NGX_MCDS_STATE_REMOTE);
        ngx_mcds_page_pause(page, left.left);
        ngx_mcds_page_tell_pause(page);
        return NGX_OK;
    }

    if (ngx_mcds_page_take_local_build(page) == NGX_OK) {
        return NGX_OK;
    }

    if (rc == NGX_BUSY) {
        ngx_mcds_page_await(page, left.build);
        ngx_mcds_page_set_poll(page);
        return NGX_OK;
    }

    ngx_mcds_page_set_state(page, NGX_MCDS_STATE_REMOTE);

    if (page->offline || left.state == NGX_MCDS_LOCAL_ALONE) {

        /*
         * this worker cannot get the page from memcached, and builds it: to
         * wait for yet another worker's build would be useless
         */

        ngx_mcds_page_build(page);
        return NGX_OK;
    }

    page->poll_next = ngx_current_msec;

    return NGX_DECLINED;
}


/*
 * Serves the waiting requests with the copy of the page that another worker of
 * this host has left in mcds_zone since the requests began to wait.  Returns
 * NGX_DECLINED if there is no such copy.
 */

static ngx_int_t
ngx_mcds_page_take_local_build(ngx_mcds_page_t *page)
{
    ngx_mcds_value_t     *value;
    ngx_mcds_item_id_t    found;
    ngx_mcds_snapshot_t  *snapshot;

    value = ngx_mcds_local_get(ngx_mcds_page_id(page), NULL,
                               ngx_current_msec - page->local_since
                               + NGX_MCDS_LAG, &found);

    snapshot = value ? ngx_mcds_snapshot_create(page, value, &found) : NULL;

    ngx_mcds_value_unref(value);

    if (snapshot == NULL) {
        return NGX_DECLINED;
    }

    ngx_mcds_page_set_state(page, NGX_MCDS_STATE_REMOTE);

    ngx_mcds_page_paced_elsewhere(page, snapshot);
    ngx_mcds_page_set_idle(page);

    if (snapshot->entry.kind == NGX_MCDS_ENTRY_VARY) {
        ngx_mcds_page_remember(page, snapshot);
    }

    ngx_mcds_page_keep_unasked(page, snapshot);
    ngx_mcds_page_give(page, snapshot);
    ngx_mcds_snapshot_unref(snapshot);

    return NGX_OK;
}


/*
 * Copyright (C) mcds authors
 *
 * Decides whether a request builds a page, or waits until another request has
 * built it.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_page_build.h"
#include "ngx_mcds_page_lease.h"
#include "ngx_mcds_page_queue.h"


static ngx_int_t ngx_mcds_page_enter_local(ngx_mcds_waiter_t *waiter,
    uint64_t cas, ngx_uint_t *outcome);


ngx_int_t
ngx_mcds_page_enter(ngx_mcds_waiter_t *waiter, ngx_mcds_enter_t *enter,
    ngx_uint_t *outcome)
{
    ngx_mcds_page_t  *page;

    page = waiter->page;
    page->lock_age = enter->lock_age;
    page->poll.handler = ngx_mcds_page_poll_handler;
    page->answered = ngx_mcds_page_step;

    waiter->wait = enter->wait;
    waiter->max_waiters = enter->max_waiters;
    waiter->pace = enter->pace;
    waiter->refresh = enter->refresh;
    waiter->has_old = enter->has_old;
    waiter->cas = enter->cas;
    waiter->retry = 0;
    waiter->failed = 0;
    waiter->built = 0;

    page->backoff = enter->backoff;
    page->backoff_max = enter->backoff_max;

    if (waiter->local) {
        page->local = 1;
    }

    if (ngx_mcds_page_is_idle(page)) {

        if (enter->left && enter->left->parts && enter->cas) {

            /* the parts are removed when a new version of the page is stored */

            page->cut = *enter->left;
            page->cut_cas = enter->cas;
            page->cut_signed = waiter->secrets;
        }

        if (page->held_until
            && (page->held_cas != enter->cas
                || page->held_until <= ngx_mcds_clock(ngx_current_msec)))
        {
            page->held_until = 0;
        }

        if (ngx_mcds_page_paused(page, enter->cas)
            && ngx_mcds_page_old(waiter))
        {
            *outcome = ngx_mcds_page_no_build(waiter);
            return NGX_DONE;
        }

        /*
         * if memcached did not answer, or has refused the page, the page is
         * built for this host alone, as requests of other hosts cannot get the
         * page from memcached
         */

        if (enter->offline
            || waiter->silent
            || page->hurried
            || ngx_mcds_page_refused(page))
        {
            return ngx_mcds_page_enter_local(waiter, enter->cas, outcome);
        }

        if (!waiter->refresh || !page->held_until) {
            ngx_mcds_page_start_lock(page, waiter, enter->cas);
            return NGX_OK;
        }
    }

    if (waiter->refresh) {
        *outcome = NGX_MCDS_PAGE_OTHER;
        return NGX_DONE;
    }

    if (ngx_mcds_page_wait(waiter) != NGX_OK) {
        *outcome = NGX_MCDS_PAGE_TIMEOUT;
        return NGX_DONE;
    }

    return NGX_OK;
}


/*
 * If memcached does not answer or has refused the page, the claim to build the
 * page, in shared memory (mcds_zone), decides which worker of the host builds
 * it.
 */

static ngx_int_t
ngx_mcds_page_enter_local(ngx_mcds_waiter_t *waiter, uint64_t cas,
    ngx_uint_t *outcome)
{
    ngx_mcds_page_t  *page;

    page = waiter->page;
    page->base = cas;

    switch (ngx_mcds_page_claim(page, !ngx_mcds_page_old(waiter))) {

    case NGX_ABORT:
        ngx_mcds_page_set_idle(page);
        *outcome = ngx_mcds_page_no_build(waiter);
        return NGX_DONE;

    case NGX_BUSY:

        if (waiter->refresh) {
            *outcome = NGX_MCDS_PAGE_OTHER;
            return NGX_DONE;
        }

        page->owner = NULL;
        page->poll_delay = NGX_MCDS_POLL_MIN;
        page->poll_next = ngx_current_msec + NGX_MCDS_POLL_MIN;

        ngx_mcds_page_set_state(page, NGX_MCDS_STATE_LOCAL);

        if (ngx_mcds_page_wait(waiter) != NGX_OK) {
            ngx_mcds_page_set_idle(page);

            *outcome = NGX_MCDS_PAGE_TIMEOUT;
            return NGX_DONE;
        }

        return NGX_OK;

    default:
        page->owner = waiter;

        ngx_mcds_page_set_state(page, NGX_MCDS_STATE_BUILDING);
        ngx_mcds_page_begin(waiter);

        *outcome = NGX_MCDS_PAGE_BUILD;
        return NGX_DONE;
    }
}

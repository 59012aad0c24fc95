
/*
 * Copyright (C) mcds authors
 *
 * The right to build a page: its lock in memcached and the claim among the
 * workers of this host, until both are given up; and the pause without builds
 * of a page after a failed build.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_page_lease.h"


/*
 * After a failed build of a page, its lock keeps the number of failed builds:
 * for twice the time in which no request may build the page again, and these
 * seconds in addition.
 */
#define NGX_MCDS_FORGET           10

/*
 * the time for which requests that wait on other hosts can see that a build of
 * a page has failed, seconds
 */
#define NGX_MCDS_NOTICE           2

/*
 * the time for which requests that wait in other workers can see that a build
 * of a page has failed, ms
 */
#define NGX_MCDS_TOLD             30


ngx_int_t
ngx_mcds_page_claim(ngx_mcds_page_t *page, ngx_uint_t at_once)
{
    ngx_int_t              rc;
    ngx_mcds_local_left_t  left;

    /*
     * a build keeps its id when it is handed over to another request, so that
     * the requests that wait for the build still recognize its page
     */

    if (page->lease) {
        page->awaited = ngx_mcds_lease_owner(page->lease);

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
                              at_once || page->lease, &left);

    switch (rc) {

    case NGX_BUSY:
        ngx_mcds_page_await(page, left.build);
        page->offline = (page->lease == NULL);
        page->local_since = ngx_current_msec;
        return NGX_BUSY;

    case NGX_ABORT:

        if (page->lease) {

            /*
             * the shared memory (mcds_zone) says that a worker of this host has
             * just failed to build the page; this worker builds it all the
             * same, as it has the page's lock in memcached
             */

            return NGX_OK;
        }

        ngx_mcds_page_pause(page, left.left);
        return NGX_ABORT;

    default: /* NGX_OK, NGX_DECLINED: this worker builds the page */

        if (page->lease == NULL) {
            page->step = left.step;
        }

        return NGX_OK;
    }
}


ngx_uint_t
ngx_mcds_page_paused(ngx_mcds_page_t *page, uint64_t cas)
{
    if (page->failed_until
        && (page->failed_cas != cas
            || page->failed_until <= ngx_mcds_clock(ngx_current_msec)))
    {
        page->failed_until = 0;
        ngx_mcds_page_set_idle(page);
    }

    return page->failed_until != 0;
}


void
ngx_mcds_page_pause(ngx_mcds_page_t *page, ngx_msec_t left)
{
    page->failed_cas = page->base;
    page->failed_until = ngx_mcds_clock(ngx_current_msec) + left;
}


/*
 * Sets the id of the page's current build, and keeps the id of the previous
 * build, for which requests may still wait: the current build may begin before
 * this worker has seen the page that the previous build has stored.
 */

void
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


void
ngx_mcds_page_release(ngx_mcds_page_t *page)
{
    ngx_mcds_local_left_t  left;

    ngx_memzero(&left, sizeof(ngx_mcds_local_left_t));

    if (page->lease) {
        ngx_mcds_lease_release(page->lease, 0);
        page->lease = NULL;
    }

    ngx_mcds_local_release(&page->hold, &left);
}


/*
 * Gives up the lock of a page and the claim to build the page after a failed
 * build.  The number of failures in a row stays in the lock and in the claim,
 * for the next worker that gets one of them.
 */

void
ngx_mcds_page_release_failed(ngx_mcds_page_t *page, ngx_msec_t period)
{
    uint32_t               keep;
    ngx_mcds_lease_left_t  kept;
    ngx_mcds_local_left_t  left;

    if (page->backoff && page->lease) {
        kept.step = page->step;
        kept.until = period ? ngx_mcds_now() + period : 0;
        keep = NGX_MCDS_NOTICE;

        if (period) {
            keep = (uint32_t) ngx_min(2 * period / 1000 + NGX_MCDS_FORGET,
                                      NGX_MCDS_MAX_TTL);
        }

        ngx_mcds_lease_fail(page->lease, keep, &kept);
        page->lease = NULL;
    }

    left.state = !page->backoff ? NGX_MCDS_LOCAL_FREE
                 : period ? NGX_MCDS_LOCAL_FAILED : NGX_MCDS_LOCAL_TOLD;
    left.step = page->step;
    left.left = period ? period : NGX_MCDS_TOLD;

    ngx_mcds_local_release(&page->hold, &left);
    ngx_mcds_page_release(page);
}


/*
 * Gives the built page to the other workers of this host that wait for it and
 * get no reply from memcached: puts a copy of the page into the shared memory
 * zone (mcds_zone).  If the zone cannot take a copy, because the page is large,
 * or is not to have one, because the page was purged during its build, each of
 * the waiting workers has to build the page itself.
 */

void
ngx_mcds_page_share_result(ngx_mcds_page_t *page, ngx_mcds_snapshot_t *snapshot)
{
    ngx_uint_t             wanted, purged;
    ngx_mcds_item_id_t     none;
    ngx_mcds_local_left_t  left;

    if (page->hold.claim == NULL) {
        return;
    }

    ngx_memzero(&none, sizeof(ngx_mcds_item_id_t));
    ngx_memzero(&left, sizeof(ngx_mcds_local_left_t));

    wanted = ngx_mcds_local_wanted(&page->hold);
    purged = (page->purges != ngx_mcds_local_purges(page->place));

    if (wanted
        && !purged
        && snapshot
        && snapshot->first
        && !ngx_mcds_body_apart(&snapshot->first->entry))
    {
        (void) ngx_mcds_local_put(ngx_mcds_page_id(snapshot->first->page),
                                  snapshot->first->value, &none);
    }

    if (wanted
        && (purged
            || snapshot == NULL
            || ngx_mcds_body_apart(&snapshot->entry)
            || ngx_mcds_local_put(ngx_mcds_page_id(page), snapshot->value,
                                  &none)
               != NGX_OK))
    {
        left.state = NGX_MCDS_LOCAL_ALONE;
    }

    ngx_mcds_local_release(&page->hold, &left);

    if (wanted) {
        ngx_mcds_page_build_ended(page);
    }
}

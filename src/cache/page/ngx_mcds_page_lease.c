
/*
 * Copyright (C) mcds authors
 *
 * The right to build a page: the lock in memcached, and the claim among the
 * workers of this host, until it is given up, and the pause after a failure.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_page_lease.h"


/* failures are not counted on after so long without another try, seconds */
#define NGX_MCDS_FORGET           10

/* a failure is told to those who wait on other hosts, seconds */
#define NGX_MCDS_NOTICE           2

/* and so long to those who wait in other workers, ms */
#define NGX_MCDS_TOLD             30


/*
 * Who builds among the workers of this host: NGX_OK this one; NGX_BUSY another
 * one; NGX_ABORT nobody for a while.
 */

ngx_int_t
ngx_mcds_page_claim(ngx_mcds_page_t *page)
{
    ngx_int_t              rc;
    ngx_mcds_local_left_t  left;

    /* a build that is handed on is the same one to all who wait for it */

    if (page->lock) {
        page->awaited = ngx_mcds_lease_owner(page->lock);

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


/* the origin has failed a while ago, and there is no other page since */

ngx_uint_t
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


/* nobody here tries for so long */

void
ngx_mcds_page_pause(ngx_mcds_page_t *page, ngx_msec_t left)
{
    page->failed_cas = page->base;
    page->failed_until = ngx_mcds_clock(ngx_current_msec) + left;
}


/*
 * The next build may have begun before this worker sees what the last one made,
 * which requests are waiting for.
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

    if (page->lock) {
        ngx_mcds_lease_release(page->lock, 0);
        page->lock = NULL;
    }

    ngx_mcds_local_release(&page->hold, &left);
}


/* gives up the lock and the claim, and leaves behind how often that failed */

void
ngx_mcds_page_release_failed(ngx_mcds_page_t *page, ngx_msec_t period)
{
    uint32_t               keep;
    ngx_mcds_lease_left_t  kept;
    ngx_mcds_local_left_t  left;

    if (page->backoff && page->lock) {
        kept.step = page->step;
        kept.until = period ? ngx_mcds_now() + period : 0;
        keep = NGX_MCDS_NOTICE;

        if (period) {
            keep = (uint32_t) ngx_min(2 * period / 1000 + NGX_MCDS_FORGET,
                                      NGX_MCDS_MAX_TTL);
        }

        ngx_mcds_lease_fail(page->lock, keep, &kept);
        page->lock = NULL;
    }

    left.state = page->backoff ? NGX_MCDS_LOCAL_FAILED : NGX_MCDS_LOCAL_FREE;
    left.step = page->step;
    left.left = period ? period : NGX_MCDS_TOLD;

    ngx_mcds_local_release(&page->hold, &left);
    ngx_mcds_page_release(page);
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

    if (wanted
        && copy
        && copy->first
        && !ngx_mcds_body_apart(&copy->first->entry))
    {
        (void) ngx_mcds_local_put(ngx_mcds_page_id(copy->first->page),
                                  copy->first->value, &none);
    }

    if (wanted
        && (copy == NULL
            || ngx_mcds_body_apart(&copy->entry)
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

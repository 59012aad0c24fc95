
/*
 * Copyright (C) mcds authors
 *
 * The right to build a page: its lock in memcached, and the claim among the
 * workers of this host.
 */


#ifndef _NGX_MCDS_PAGE_LEASE_H_INCLUDED_
#define _NGX_MCDS_PAGE_LEASE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_page_core.h"


/*
 * Claims the build of a page among the workers of this host.  at_once: for a
 * request that has no stale page, and does not obey the pause after a failed
 * build.  NGX_OK: this worker builds; NGX_BUSY: another worker builds;
 * NGX_ABORT: a build has failed, and the request may not begin another one for
 * a while.
 */

ngx_int_t ngx_mcds_page_claim(ngx_mcds_page_t *page, ngx_uint_t at_once);


/* Gives up the lock of a page and the claim to build it, if they are held. */

void ngx_mcds_page_release(ngx_mcds_page_t *page);


/*
 * Gives up the lock of a page and the claim to build it after a failed build,
 * and leaves a note of the failure in both.  For the next "period" ms the note
 * in the lock keeps other hosts, and the note in the claim keeps other workers,
 * from building the page; 0: only the requests that are already waiting learn
 * of the failure.
 */

void ngx_mcds_page_release_failed(ngx_mcds_page_t *page, ngx_msec_t period);


/*
 * Gives up this worker's claim to build a page.  If other workers wait for the
 * page, first puts it into the shared memory zone (mcds_zone), where they find
 * the page even if memcached does not answer.  snapshot is the built page;
 * NULL: the build made none.  Has no effect if this worker has no claim.
 */

void ngx_mcds_page_share_result(ngx_mcds_page_t *page,
    ngx_mcds_snapshot_t *snapshot);


/*
 * Sets the id of the page's build that requests wait for, see
 * ngx_mcds_page_build_id(); 0: unknown.
 */

void ngx_mcds_page_await(ngx_mcds_page_t *page, uint64_t build);


/*
 * Starts the pause after a failed build of a page, "left" ms long.  The pause
 * ends early if memcached has a version of the page whose CAS is not
 * page->base.
 */

void ngx_mcds_page_pause(ngx_mcds_page_t *page, ngx_msec_t left);


/*
 * Returns 1 during the pause after a failed build of a page, if the CAS of the
 * page has not changed since the failure.
 */

ngx_uint_t ngx_mcds_page_paused(ngx_mcds_page_t *page, uint64_t cas);


#endif /* _NGX_MCDS_PAGE_LEASE_H_INCLUDED_ */

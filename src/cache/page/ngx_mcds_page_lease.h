
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
 * Claims the build of a page among the workers of this host.  NGX_OK: this
 * worker builds; NGX_BUSY: another worker builds; NGX_ABORT: no worker may
 * build for a while.
 */

ngx_int_t ngx_mcds_page_claim(ngx_mcds_page_t *page);


/* Gives up the lock of a page and the claim to build it, if they are held. */

void ngx_mcds_page_release(ngx_mcds_page_t *page);


/*
 * Gives up the lock of a page and the claim to build it after a failed build.
 * For the next "period" ms the lock keeps other hosts, and the claim keeps
 * other workers, from building the page; 0: only the requests that are already
 * waiting learn of the failure.
 */

void ngx_mcds_page_release_failed(ngx_mcds_page_t *page, ngx_msec_t period);


/*
 * Puts a built page into the shared memory zone (mcds_zone), if other workers
 * wait for it, so that they get it while memcached does not answer, and gives
 * up the claim to build the page.  snapshot is the page, or NULL if there is
 * none.
 */

void ngx_mcds_page_share_copy(ngx_mcds_page_t *page,
    ngx_mcds_snapshot_t *snapshot);


/*
 * Sets the id of the page's build that requests wait for, see
 * ngx_mcds_page_build_id(); 0: unknown.
 */

void ngx_mcds_page_await(ngx_mcds_page_t *page, uint64_t build);


/*
 * Starts a pause without builds of a page: for "left" ms this worker builds no
 * page that replaces the version with the CAS page->base.
 */

void ngx_mcds_page_pause(ngx_mcds_page_t *page, ngx_msec_t left);


/*
 * Returns 1 during the pause after a failed build of a page, if the CAS of the
 * page has not changed since the failure.
 */

ngx_uint_t ngx_mcds_page_paused(ngx_mcds_page_t *page, uint64_t cas);


#endif /* _NGX_MCDS_PAGE_LEASE_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * The right to build a page: the lock of it in memcached, and the claim among
 * the workers of this host.
 */


#ifndef _NGX_MCDS_PAGE_LEASE_H_INCLUDED_
#define _NGX_MCDS_PAGE_LEASE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_page_core.h"


/*
 * Claims the build among the workers of this host: NGX_OK, this worker builds;
 * NGX_BUSY, another one does; NGX_ABORT, no worker is to build for a while.
 */

ngx_int_t ngx_mcds_page_claim(ngx_mcds_page_t *page);


/*
 * Gives up the lock and the claim.  failed: the build has failed, which the
 * lock tells other hosts, and the claim other workers, for period ms.
 */

void ngx_mcds_page_release(ngx_mcds_page_t *page);
void ngx_mcds_page_release_failed(ngx_mcds_page_t *page, ngx_msec_t period);


/*
 * Gives the copy, which was built, to those who wait in other workers while
 * memcached does not answer, and gives up the claim.
 */

void ngx_mcds_page_share_copy(ngx_mcds_page_t *page, ngx_mcds_copy_t *copy);


/* the build that requests wait for, see ngx_mcds_page_build_id(), 0: none */

void ngx_mcds_page_await(ngx_mcds_page_t *page, uint64_t build);


/*
 * pause: for so many ms this worker does not try to build what follows
 * page->base.  paused: 1 if that is so, and the page is that of cas.
 */

void ngx_mcds_page_pause(ngx_mcds_page_t *page, ngx_msec_t left);
ngx_uint_t ngx_mcds_page_paused(ngx_mcds_page_t *page, uint64_t cas);


#endif /* _NGX_MCDS_PAGE_LEASE_H_INCLUDED_ */

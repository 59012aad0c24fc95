
/*
 * Copyright (C) mcds authors
 *
 * The steps of the build of a page, see ngx_mcds_page_state.h: a request asks
 * for the page's lock, then builds the page, or waits until another worker or
 * host has built it.
 */


#ifndef _NGX_MCDS_PAGE_BUILD_H_INCLUDED_
#define _NGX_MCDS_PAGE_BUILD_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_page_core.h"


/*
 * Asks memcached for the lock of a page, and for the page.  page->answered is
 * called after both replies.  If at_once is set, the lock is also taken during
 * a pause after a failed build.
 */

void ngx_mcds_page_ask_lock(ngx_mcds_page_t *page, ngx_uint_t at_once);


/*
 * Asks memcached whether the lock of a page is still held, and for the page.
 * page->answered is called after both replies.  With lock_only memcached is
 * asked for the lock alone.
 */

void ngx_mcds_page_poll(ngx_mcds_page_t *page, ngx_uint_t lock_only);


/*
 * Reads a page from memcached: with "whole" its value, otherwise only its CAS.
 * page->answered is called after the last reply about the page and its lock.
 */

void ngx_mcds_page_ask(ngx_mcds_page_t *page, ngx_uint_t whole);


/*
 * Asks memcached for the lock of a page, so that the request "owner" builds
 * the page; cas is that of the version that the request has seen, or 0.
 */

void ngx_mcds_page_start_lock(ngx_mcds_page_t *page, ngx_mcds_waiter_t *owner,
    uint64_t cas);


/*
 * Handles memcached's replies about a page and its lock: a request of this
 * worker builds the page, or the requests for the page wait, or they get it.
 * page->answered points to this function.
 */

void ngx_mcds_page_step(ngx_mcds_page_t *page);


/*
 * Lets the request that asks for a page's lock continue with the replies that
 * memcached has sent so far; later replies are ignored.  As long as replies are
 * missing, no request of this worker asks for the lock again; without the lock,
 * the page is built for this host alone.
 */

void ngx_mcds_page_hurry_lock(ngx_mcds_page_t *page);


/*
 * Starts the build of a page by the request that has asked for the page's lock
 * or, if that request has ended, by the next request that waits for the page.
 * The lock of the build is page->lease; NULL: there is none.
 */

void ngx_mcds_page_build(ngx_mcds_page_t *page);


/*
 * Begins the build of a page by a waiter's request, which goes to the origin
 * now.
 */

void ngx_mcds_page_begin(ngx_mcds_waiter_t *waiter);


/*
 * Ends a failed build of a page: the next waiting request builds the page or,
 * if "backoff" is set, all waiting requests learn that the build has failed.
 */

void ngx_mcds_page_failed(ngx_mcds_page_t *page, ngx_uint_t backoff);


/*
 * Sets page->due, the earliest time at which the build of a page is expected to
 * end, from the page's lock, which was just read.  If the lock does not have
 * the time, this worker guesses it, as if the build had begun now.
 */

void ngx_mcds_page_due(ngx_mcds_page_t *page);


/*
 * Sets the time of the next question to memcached about a page that another
 * worker builds.
 */

void ngx_mcds_page_set_next(ngx_mcds_page_t *page);


/*
 * The handler of the timer of ngx_mcds_page_set_poll(): looks whether the page
 * that another worker builds is ready.
 */

void ngx_mcds_page_poll_handler(ngx_event_t *ev);


#endif /* _NGX_MCDS_PAGE_BUILD_H_INCLUDED_ */

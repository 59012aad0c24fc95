
/*
 * Copyright (C) mcds authors
 *
 * The steps of a build, see ngx_mcds_page_state.h.
 */


#ifndef _NGX_MCDS_PAGE_BUILD_H_INCLUDED_
#define _NGX_MCDS_PAGE_BUILD_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_page_core.h"


/*
 * Asks for the lock of a page, and reads the page.  page->answered is called
 * after both answers.  With at_once the lock is also taken during a pause
 * after a failure.
 */

void ngx_mcds_page_ask_lock(ngx_mcds_page_t *page, ngx_uint_t at_once);


/*
 * Looks whether the lock of a page is still held, and reads the page.
 * page->answered is called after both answers.
 */

void ngx_mcds_page_ask_again(ngx_mcds_page_t *page);


/*
 * Reads a page: with whole its value, otherwise only its CAS.  page->answered
 * is called after all answers.
 */

void ngx_mcds_page_ask(ngx_mcds_page_t *page, ngx_uint_t whole);


/*
 * Asks for the lock of a page for the owner's build; cas is that of the page
 * that the owner has seen, or 0.
 */

void ngx_mcds_page_start_lock(ngx_mcds_page_t *page, ngx_mcds_waiter_t *owner,
    uint64_t cas);


/*
 * Continues a build after the answers about the lock and the page; this is
 * page->answered of a build.
 */

void ngx_mcds_page_step(ngx_mcds_page_t *page);


/*
 * Calls the handler of the page's owner with the outcome of the answers so
 * far, and asks memcached nothing more.  Until all answers have come the page
 * is built for this host alone.
 */

void ngx_mcds_page_hurry_lock(ngx_mcds_page_t *page);


/*
 * Makes the page's owner or, if that request has ended, the next waiter build
 * the page.  The lock of the build is page->lease; NULL: there is none.
 */

void ngx_mcds_page_build(ngx_mcds_page_t *page);


/* Begins the build of a waiter, whose request goes to the origin now. */

void ngx_mcds_page_begin(ngx_mcds_waiter_t *waiter);


/*
 * Ends a failed build of a page: the next waiter builds or, with backoff, all
 * waiters get the outcome of a failure.
 */

void ngx_mcds_page_failed(ngx_mcds_page_t *page, ngx_uint_t backoff);


/*
 * The handler of the timer of ngx_mcds_page_set_poll(): looks for the page
 * that another worker builds.
 */

void ngx_mcds_page_poll_handler(ngx_event_t *ev);


#endif /* _NGX_MCDS_PAGE_BUILD_H_INCLUDED_ */

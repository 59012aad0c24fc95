
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
 * Asks for the lock and the page: page->answered is called when both have
 * answered.  ask_lock: tries to take the lock, with at_once also during a pause
 * after a failure.  ask_again: looks whether it is still held.  ask: for the
 * page alone; whole: with its value, otherwise only whether it has changed.
 */

void ngx_mcds_page_ask_lock(ngx_mcds_page_t *page, ngx_uint_t at_once);
void ngx_mcds_page_ask_again(ngx_mcds_page_t *page);
void ngx_mcds_page_ask(ngx_mcds_page_t *page, ngx_uint_t whole);


/*
 * start_lock: the owner asks for the lock; cas is that of the page it has seen.
 * step: lock and page have answered, see page->answered.  hurry_lock: the owner
 * of the step is told what comes out of the answers so far, nothing more is
 * asked, and until all have come pages are built for this host alone.
 */

void ngx_mcds_page_start_lock(ngx_mcds_page_t *page, ngx_mcds_seat_t *owner,
    uint64_t cas);
void ngx_mcds_page_step(ngx_mcds_page_t *page);
void ngx_mcds_page_hurry_lock(ngx_mcds_page_t *page);


/*
 * build: a seat that is here is to build; the lock is page->lock, or NULL.
 * begin: the seat does.  failed: its build has; the next seat that waits builds
 * or, with backoff, all are told.
 */

void ngx_mcds_page_build(ngx_mcds_page_t *page);
void ngx_mcds_page_begin(ngx_mcds_seat_t *seat);
void ngx_mcds_page_failed(ngx_mcds_page_t *page, ngx_uint_t backoff);


/* the timer of the next look for the page, see ngx_mcds_page_set_poll() */

void ngx_mcds_page_poll_handler(ngx_event_t *ev);


#endif /* _NGX_MCDS_PAGE_BUILD_H_INCLUDED_ */

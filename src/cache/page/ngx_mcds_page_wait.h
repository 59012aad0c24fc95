
/*
 * Copyright (C) mcds authors
 *
 * The requests of this worker that wait for a page.
 */


#ifndef _NGX_MCDS_PAGE_WAIT_H_INCLUDED_
#define _NGX_MCDS_PAGE_WAIT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_page_core.h"


/* the shortest time from one look for a page to the next, ms */
#define NGX_MCDS_POLL_MIN         5


/*
 * wait: puts a seat into the queue; NGX_DECLINED, it may not wait.  unqueue: it
 * does not wait any more.  next: takes the first one out of the queue, or NULL.
 * waited: counts that a seat has waited, if it has, with one of
 * NGX_MCDS_ZONE_WAIT_*.
 */

ngx_int_t ngx_mcds_page_wait(ngx_mcds_seat_t *seat);
void ngx_mcds_page_unqueue(ngx_mcds_seat_t *seat);
ngx_mcds_seat_t *ngx_mcds_page_next(ngx_mcds_page_t *page);
void ngx_mcds_page_waited(ngx_mcds_seat_t *seat, ngx_uint_t how);


/*
 * tell: calls the handler of a seat.  found: tells all seats that are here, the
 * owner, if there is one, and those that wait; without a copy, to go to the
 * origin.  tell_pause: tells all of them that the build has failed.
 */

void ngx_mcds_page_tell(ngx_mcds_seat_t *seat, ngx_uint_t outcome,
    ngx_mcds_copy_t *copy);
void ngx_mcds_page_found(ngx_mcds_page_t *page, ngx_mcds_copy_t *copy);
void ngx_mcds_page_tell_pause(ngx_mcds_page_t *page);


/*
 * old: 1 if the request of the seat has an old page, or needs none, so that it
 * obeys a pause.  no_build: the outcome of a seat while there is one.
 */

ngx_uint_t ngx_mcds_page_old(ngx_mcds_seat_t *seat);
ngx_uint_t ngx_mcds_page_no_build(ngx_mcds_seat_t *seat);


/* sets the timer of the next look for the page, if it is not set */

void ngx_mcds_page_set_poll(ngx_mcds_page_t *page);


#endif /* _NGX_MCDS_PAGE_WAIT_H_INCLUDED_ */

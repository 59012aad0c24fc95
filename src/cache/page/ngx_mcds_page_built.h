
/*
 * Copyright (C) mcds authors
 *
 * The end of a build, and stores of pages.
 */


#ifndef _NGX_MCDS_PAGE_BUILT_H_INCLUDED_
#define _NGX_MCDS_PAGE_BUILT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_page.h"
#include "ngx_mcds_split.h"


/* how a build ended */

typedef enum {
    NGX_MCDS_BUILD_STORE = 0,     /* value is the entry, finished */
    NGX_MCDS_BUILD_RENEW,         /* the same, with the body, or the parts, of
                                     the entry that it replaces */
    NGX_MCDS_BUILD_PASS,          /* uncacheable; value is a hit-for-miss
                                     mark */
    NGX_MCDS_BUILD_FAILED,        /* nothing is known of the page, as when the
                                     client went away: the next builds */
    NGX_MCDS_BUILD_BACKOFF        /* the origin has failed: nobody tries again
                                     for a while */
} ngx_mcds_build_e;


/*
 * Names the build that the seat has, to be written into what it makes: that is
 * how the requests that wait for it, here and on other hosts, tell it from any
 * other page that they may find meanwhile, as one of a memcached that has
 * returned.  0: it does not build.
 */

uint64_t ngx_mcds_page_build_id(ngx_mcds_seat_t *seat);


/*
 * item: the longest entry that one item takes, as far as is known.  split:
 * what takes the body of a longer one, NULL if nothing does.
 */

size_t ngx_mcds_page_item(ngx_mcds_seat_t *seat);
ngx_mcds_split_t *ngx_mcds_page_split(ngx_mcds_seat_t *seat);


/*
 * Ends a build of this seat's.  The value's reference is taken over (NULL with
 * FAILED and BACKOFF); it is stored unless somebody has stored a newer page or
 * deleted the old one since, and unless memcached is known not to take one of
 * its size.  Those who wait in this worker are told before the store is
 * answered.  ttl: seconds that memcached keeps the value, 0 for ever.
 */

void ngx_mcds_page_built(ngx_mcds_seat_t *seat, ngx_uint_t how,
    ngx_mcds_value_t *value, uint32_t ttl);


/*
 * The same with NGX_MCDS_BUILD_STORE for a body that was split: the entry is
 * taken with all but the body, value as it came from ngx_mcds_entry_begin()
 * and is not finished; split has all of the body and is taken over, too.
 * Those who wait are told when the parts are stored.
 */

void ngx_mcds_page_built_split(ngx_mcds_seat_t *seat, ngx_mcds_value_t *value,
    ngx_mcds_entry_t *entry, ngx_mcds_split_t *split);


/* a copy of a finished entry, for the seat's own request; NULL: no page */

ngx_mcds_copy_t *ngx_mcds_page_copy(ngx_mcds_seat_t *seat,
    ngx_mcds_value_t *value);


/* the same with a list of variants; first: as in ngx_mcds_copy_t, or NULL */

void ngx_mcds_page_built_list(ngx_mcds_seat_t *seat, ngx_mcds_value_t *value,
    uint32_t ttl, ngx_mcds_copy_t *first);


/*
 * Stores without having asked to build; the value's reference is taken over.
 * Only if the page is still that of cas, or with cas 0 if there is none.
 * replace: otherwise, too, if the origin was asked for this page after that
 * of the other, and nobody has purged it since.
 */

void ngx_mcds_page_store(ngx_mcds_seat_t *seat, ngx_mcds_value_t *value,
    uint64_t cas, ngx_uint_t replace);
void ngx_mcds_page_store_split(ngx_mcds_seat_t *seat, ngx_mcds_value_t *value,
    ngx_mcds_entry_t *entry, ngx_mcds_split_t *split, uint64_t cas,
    ngx_uint_t replace);


/*
 * The same, and tells how it ended, once, maybe from inside of this call: rc
 * is that of memcached's answer, copy is what was to be stored, or NULL.  split
 * may be NULL, then value is finished and entry is not looked at.  NGX_ERROR:
 * the handler is not called.
 */

typedef void (*ngx_mcds_stored_pt)(void *data, ngx_uint_t rc,
    ngx_mcds_copy_t *copy);

ngx_int_t ngx_mcds_page_store_then(ngx_mcds_seat_t *seat,
    ngx_mcds_value_t *value, ngx_mcds_entry_t *entry, ngx_mcds_split_t *split,
    uint64_t cas, ngx_uint_t replace, ngx_mcds_stored_pt handler, void *data);


#endif /* _NGX_MCDS_PAGE_BUILT_H_INCLUDED_ */

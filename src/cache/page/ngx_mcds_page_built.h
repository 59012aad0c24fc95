
/*
 * Copyright (C) mcds authors
 *
 * The end of a build, and stores of pages without a build.
 */


#ifndef _NGX_MCDS_PAGE_BUILT_H_INCLUDED_
#define _NGX_MCDS_PAGE_BUILT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_page.h"
#include "ngx_mcds_split.h"


/* How a build ended. */

typedef enum {
    NGX_MCDS_BUILD_STORE = 0,     /* by ngx_mcds_page_store() */
    NGX_MCDS_BUILD_RENEW,         /* the same, with the body of the entry that
                                     it replaces */
    NGX_MCDS_BUILD_PASS,          /* uncacheable; value is a hit-for-miss
                                     mark */
    NGX_MCDS_BUILD_FAILED,        /* without a result, as when the client closed
                                     the connection: the next waiter builds */
    NGX_MCDS_BUILD_BACKOFF        /* the origin has failed: no request builds
                                     for a while */
} ngx_mcds_build_e;


/*
 * Returns the id of the seat's build, which the caller writes into the entry.
 * Requests on all hosts that wait for the build recognize its page by the id;
 * other pages may appear meanwhile, such as an old one of a memcached that has
 * returned.  0: the seat does not build.
 */

uint64_t ngx_mcds_page_build_id(ngx_mcds_seat_t *seat);


/*
 * Returns the maximum length of an entry in one item, as far as known; bytes.
 */

size_t ngx_mcds_page_item(ngx_mcds_seat_t *seat);


/*
 * Creates a split for the body of a longer entry.  Returns NULL if the servers
 * take no parts, or if out of memory.
 */

ngx_mcds_split_t *ngx_mcds_page_split(ngx_mcds_seat_t *seat);


/*
 * Ends a build of this seat's without a page: how is NGX_MCDS_BUILD_PASS with
 * the value of a mark, whose reference is taken over, and the seconds that
 * memcached keeps it, or NGX_MCDS_BUILD_FAILED or NGX_MCDS_BUILD_BACKOFF with
 * NULL.
 */

void ngx_mcds_page_built(ngx_mcds_seat_t *seat, ngx_uint_t how,
    ngx_mcds_value_t *value, uint32_t ttl);


/*
 * A page, or a list of variants, that is to be stored; zeroed but for what is
 * said.
 *
 * value: the entry, finished; its reference is taken over.  With split, the
 * entry has all but the body, value is as it came from ngx_mcds_entry_begin()
 * and not finished, and split has all of the body and is taken over, too.
 *
 * cas: of a store without a build: it replaces the page of this CAS, or with 0
 * none.  replace: otherwise, too, if the origin was asked for this page after
 * that of the other, and the other was not purged since.
 *
 * handler: called once, maybe from inside of ngx_mcds_page_store(): rc is that
 * of memcached's answer, copy is what was to be stored, or NULL.
 */

typedef void (*ngx_mcds_stored_pt)(void *data, ngx_uint_t rc,
    ngx_mcds_copy_t *copy);

typedef struct {
    ngx_mcds_value_t    *value;
    ngx_mcds_entry_t    *entry;        /* with split */
    ngx_mcds_split_t    *split;        /* or NULL */
    ngx_mcds_copy_t     *first;        /* of a list, as in ngx_mcds_copy_t */
    uint64_t             cas;
    uint32_t             ttl;          /* of a build: seconds that memcached
                                          keeps the value, 0: for ever */
    ngx_mcds_stored_pt   handler;      /* or NULL */
    void                *data;

    unsigned             renewed:1;    /* of a build: has the body of the page
                                          that it replaces */
    unsigned             replace:1;
} ngx_mcds_storing_t;


/*
 * Ends the build of the seat, if it has one, or stores without a build.  What a
 * build has made is stored unless a newer page was stored or the old one was
 * deleted since, and unless memcached is known not to take one of its size.
 * The requests of this worker that wait get it before the store is answered,
 * or, if it is split, when the parts are stored.  NGX_ERROR: out of memory, the
 * build has failed, and the handler is not called.
 */

ngx_int_t ngx_mcds_page_store(ngx_mcds_seat_t *seat,
    ngx_mcds_storing_t *storing);


/*
 * Creates a copy of a finished entry, for the seat's own request.  Returns NULL
 * if value is not a valid entry, or if out of memory.
 */

ngx_mcds_copy_t *ngx_mcds_page_copy(ngx_mcds_seat_t *seat,
    ngx_mcds_value_t *value);


#endif /* _NGX_MCDS_PAGE_BUILT_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * The store of a page, while it is under way.
 */


#ifndef _NGX_MCDS_PAGE_STORE_H_INCLUDED_
#define _NGX_MCDS_PAGE_STORE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_page_built.h"
#include "ngx_mcds_page_core.h"
#include "ngx_mcds_update.h"


/* the state of storing a page in memcached */

typedef struct {
    ngx_mcds_page_t      *page;        /* the page in this worker, referenced */
    ngx_mcds_snapshot_t  *snapshot;    /* the page to store; NULL: its parts are
                                          not complete yet */
    ngx_mcds_value_t     *expired;     /* copy of the page marked as expired,
                                          stored if the page was invalidated
                                          meanwhile; or NULL */
    ngx_mcds_value_t     *head;        /* with a body in parts: the entry to
                                          store, not finished yet */
    ngx_mcds_entry_t      entry;       /* fields of the entry in "head", without
                                          its strings */
    ngx_array_t          *secrets;     /* secrets that sign the page, or NULL */

    ngx_mcds_stat_t      *stat;        /* counters of the cache's zone, or
                                          NULL */

    uint64_t              base;        /* CAS of the page that is replaced */
    ngx_atomic_uint_t     purges;      /* the purge counter before the page was
                                          built */
    uint32_t              ttl;
    ngx_uint_t            tries;       /* number of the page's lengths that were
                                          tried */
    ngx_mcds_update_t     update;      /* update that reads a page which another
                                          writer has stored meanwhile */

    ngx_mcds_stored_pt    handler;     /* handler of the caller, called at the
                                          end of the store, or NULL */
    void                 *data;
    ngx_uint_t            rc;
    ngx_uint_t            refused;     /* reason why the page was not sent, an
                                          rc of memcached, or 0 */

    unsigned              building:1;  /* the store ends the build of the
                                          page */
    unsigned              locked:1;    /* the build of the page has the lock */
    unsigned              replace:1;   /* the page also replaces an older
                                          page */
    unsigned              renewed:1;   /* the page's parts are those of the page
                                          that it replaces */
} ngx_mcds_store_t;


/* Stores the page store->snapshot; data is ngx_mcds_store_t. */

void ngx_mcds_store_try(void *data);


/*
 * Stores a page after the parts of its body; the handler of
 * ngx_mcds_split_end().
 */

void ngx_mcds_store_parted(void *data, ngx_mcds_split_t *split, ngx_uint_t rc);


/*
 * Counts the result of storing a page, calls the handlers of the waiters and
 * of the store, and frees the store.
 */

void ngx_mcds_store_end(ngx_mcds_store_t *store);


/*
 * Returns 1 if the page to store replaces the page in result, which was stored
 * meanwhile but created earlier.
 */

ngx_uint_t ngx_mcds_store_newer(ngx_mcds_store_t *store,
    ngx_mcds_result_t *result);


/*
 * Returns 1 if the page in result was invalidated meanwhile, so that the page
 * to store, marked as expired, replaces it.
 */

ngx_uint_t ngx_mcds_store_invalidated(ngx_mcds_store_t *store,
    ngx_mcds_result_t *result);


/*
 * Makes store->expired, the page to store marked as expired, if there is none
 * yet.  Returns NGX_ERROR if out of memory.
 */

ngx_int_t ngx_mcds_store_expire(ngx_mcds_store_t *store);


/* Returns the value of the page that is sent to memcached. */

ngx_mcds_value_t *ngx_mcds_store_value(ngx_mcds_store_t *store);


#endif /* _NGX_MCDS_PAGE_STORE_H_INCLUDED_ */

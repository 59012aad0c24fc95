
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


/* A store of a page. */

typedef struct {
    ngx_mcds_page_t      *page;        /* a reference */
    ngx_mcds_snapshot_t  *snapshot;    /* the page; NULL: not complete yet */
    ngx_mcds_value_t     *expired;     /* snapshot as an expired page, stored if
                                          the page was invalidated meanwhile; or
                                          NULL */
    ngx_mcds_value_t     *head;        /* of a split body, not finished */
    ngx_mcds_entry_t      entry;       /* of head, without its strings */
    ngx_array_t          *secrets;     /* or NULL */

    ngx_mcds_stat_t      *stat;        /* or NULL */

    uint64_t              base;        /* CAS of the page that is replaced */
    ngx_atomic_uint_t     purges;      /* the purge counter before the build */
    uint32_t              ttl;
    ngx_uint_t            tries;       /* of lengths that may be refused */
    ngx_mcds_update_t     update;      /* reads a page that was stored
                                          meanwhile */

    ngx_mcds_stored_pt    handler;     /* or NULL */
    void                 *data;
    ngx_uint_t            rc;
    ngx_uint_t            refused;     /* an rc if nothing was sent, or 0 */

    unsigned              building:1;  /* the store ends the page's build */
    unsigned              locked:1;    /* the build has the lock */
    unsigned              replace:1;   /* also replaces an older page */
    unsigned              renewed:1;   /* its parts are those of the replaced
                                          page */
} ngx_mcds_store_t;


/* Stores store->snapshot; data is the store. */

void ngx_mcds_store_try(void *data);


/* Stores a page after its parts; the handler of a split. */

void ngx_mcds_store_parted(void *data, ngx_mcds_split_t *split, ngx_uint_t rc);


/*
 * Counts the result of a store, calls the handlers of the waiters and of the
 * store, and frees the store.
 */

void ngx_mcds_store_end(ngx_mcds_store_t *store);


/*
 * Returns 1 if the page of the store replaces the page in result, which was
 * stored meanwhile but created earlier.
 */

ngx_uint_t ngx_mcds_store_newer(ngx_mcds_store_t *store,
    ngx_mcds_result_t *result);


/*
 * Returns 1 if the page in result was invalidated meanwhile, so that the page
 * of the store, marked as expired, replaces it.
 */

ngx_uint_t ngx_mcds_store_invalidated(ngx_mcds_store_t *store,
    ngx_mcds_result_t *result);


/*
 * Makes store->expired, the expired page, if there is none yet.  Returns
 * NGX_ERROR if out of memory.
 */

ngx_int_t ngx_mcds_store_expire(ngx_mcds_store_t *store);


/* Returns the value to be sent to memcached. */

ngx_mcds_value_t *ngx_mcds_store_value(ngx_mcds_store_t *store);


#endif /* _NGX_MCDS_PAGE_STORE_H_INCLUDED_ */

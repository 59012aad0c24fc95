
/*
 * Copyright (C) mcds authors
 *
 * The store of a page in memcached, while it is under way.
 */


#ifndef _NGX_MCDS_PAGE_STORE_H_INCLUDED_
#define _NGX_MCDS_PAGE_STORE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_page_built.h"
#include "ngx_mcds_page_core.h"
#include "ngx_mcds_update.h"


/* the state of storing one page in memcached; freed by ngx_mcds_store_end() */

typedef struct {
    ngx_mcds_page_t      *page;        /* this worker's struct of the page
                                          to store, with a reference */
    ngx_mcds_snapshot_t  *snapshot;    /* the version of the page to store;
                                          NULL: the parts of its body are not
                                          complete yet */
    ngx_mcds_value_t     *expired;     /* copy of the page, marked as expired,
                                          to store if the page was invalidated
                                          during the build; or NULL */
    ngx_mcds_value_t     *head;        /* with a body in parts: the page's
                                          entry to store, not finished yet */
    ngx_mcds_entry_t      entry;       /* fields of the page's entry, without
                                          the entry's strings */
    ngx_array_t          *secrets;     /* the keys of mcds_cache_hmac_key, which
                                          sign the page, or NULL */

    ngx_mcds_stat_t      *stat;        /* the cache's statistics in shared
                                          memory (mcds_zone), or NULL */

    uint64_t              base;        /* CAS of the version of the page that
                                          is replaced */
    ngx_atomic_uint_t     purges;      /* the page's purge counter before the
                                          page was built */
    uint64_t              since;       /* time when the store began */
    uint32_t              ttl;
    ngx_uint_t            tries;       /* how often it was tried, with a test
                                          value (zeros), whether memcached
                                          accepts a value as long as the page */
    ngx_mcds_update_t     update;      /* the write of the page's item, and the
                                          read of a version that another worker
                                          or host has stored meanwhile */

    ngx_mcds_stored_pt    handler;     /* handler of the caller, called when
                                          memcached has stored or refused the
                                          page, or NULL */
    void                 *data;
    ngx_uint_t            rc;
    ngx_uint_t            refused;     /* reason why the page was not sent, a
                                          result code of memcached commands, or
                                          0 */

    unsigned              building:1;  /* the store follows a build of the page;
                                          0: stored without a build */
    unsigned              locked:1;    /* the build of the page has the page's
                                          lock */
    unsigned              replace:1;   /* the page to store also replaces an
                                          older version that was stored
                                          meanwhile */
    unsigned              renewed:1;   /* the page is renewed: the parts of its
                                          body are those of the page that it
                                          replaces */
} ngx_mcds_store_t;


/*
 * Stores the page in store->snapshot in memcached; data is ngx_mcds_store_t.
 */

void ngx_mcds_store_try(void *data);


/*
 * Stores a page when the parts of its body are stored, or ends the store of the
 * page if a part was not stored; a handler for ngx_mcds_split_end().
 */

void ngx_mcds_store_parted(void *data, ngx_mcds_split_t *split, ngx_uint_t rc);


/*
 * Ends the store of a page: counts its result, calls the handlers of the
 * waiting requests and of the caller, and frees ngx_mcds_store_t.
 */

void ngx_mcds_store_end(ngx_mcds_store_t *store);


/*
 * Returns 1 if the page to store replaces the page in result, a reply of
 * memcached: that page was not invalidated, and the origin sent it before the
 * page to store was requested.
 */

ngx_uint_t ngx_mcds_store_newer(ngx_mcds_store_t *store,
    ngx_mcds_result_t *result);


/*
 * Returns 1 if the page in result, a reply of memcached, was invalidated
 * during the build, so that the page to store, marked as expired, replaces it.
 */

ngx_uint_t ngx_mcds_store_invalidated(ngx_mcds_store_t *store,
    ngx_mcds_result_t *result);


/*
 * Sets store->expired to a copy of the page that is being stored, and marks the
 * copy as expired; an existing copy stays as it is.  Returns NGX_OK, or
 * NGX_ERROR if out of memory.
 */

ngx_int_t ngx_mcds_store_expire(ngx_mcds_store_t *store);


/* Returns the value to send to memcached for the page that is being stored. */

ngx_mcds_value_t *ngx_mcds_store_value(ngx_mcds_store_t *store);


#endif /* _NGX_MCDS_PAGE_STORE_H_INCLUDED_ */

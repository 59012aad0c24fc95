
/*
 * Copyright (C) mcds authors
 *
 * A store of a page under way.
 */


#ifndef _NGX_MCDS_PAGE_STORE_H_INCLUDED_
#define _NGX_MCDS_PAGE_STORE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_page_built.h"
#include "ngx_mcds_page_core.h"


/* the client's CRLF, see ngx_mcds_request_t */
#define NGX_MCDS_SPARE            2


/* a store under way */

typedef struct {
    ngx_mcds_page_t      *page;        /* a reference */
    ngx_mcds_copy_t      *copy;        /* what is stored; NULL: not yet */
    ngx_mcds_value_t     *expired;     /* the same as it is stored when it was
                                          invalidated meanwhile, or NULL */
    ngx_mcds_value_t     *head;        /* of a split body, not finished */
    ngx_mcds_entry_t      entry;       /* of head; the strings are gone */
    ngx_array_t          *secrets;     /* or NULL */

    ngx_mcds_stat_t      *stat;        /* or NULL */

    uint64_t              base;        /* CAS of what is replaced */
    ngx_atomic_uint_t     purges;      /* of the page, before it was built */
    uint32_t              ttl;
    ngx_uint_t            tries;       /* whether its length is taken */
    ngx_uint_t            looks;       /* at what somebody else has stored */
    ngx_mcds_op_t         op;

    ngx_mcds_stored_pt    handler;     /* or NULL */
    void                 *data;
    ngx_uint_t            rc;
    ngx_uint_t            refused;     /* what was not tried, an rc, or 0 */

    unsigned              building:1;  /* the page's state is that of it */
    unsigned              locked:1;    /* and memcached gave it the lock */
    unsigned              replace:1;   /* what is older, too */
    unsigned              renewed:1;   /* its parts are those of the page that
                                          it replaces */
} ngx_mcds_store_t;


/*
 * try: stores store->copy.  parted: the handler of a split body.  end: counts
 * how the store has ended, tells that, and frees the store.
 */

void ngx_mcds_store_try(void *data);
void ngx_mcds_store_parted(void *data, ngx_mcds_split_t *split, ngx_uint_t rc);
void ngx_mcds_store_end(ngx_mcds_store_t *store);


/*
 * What is done about result, the page that was stored meanwhile.  newer: 1 if
 * the one of the store replaces it.  invalidated: 1 if the one of the store
 * replaces it as a page that has expired, which expire makes of it; NGX_ERROR,
 * out of memory.  value: what is sent to memcached.
 */

ngx_uint_t ngx_mcds_store_newer(ngx_mcds_store_t *store,
    ngx_mcds_result_t *result);
ngx_uint_t ngx_mcds_store_invalidated(ngx_mcds_store_t *store,
    ngx_mcds_result_t *result);
ngx_int_t ngx_mcds_store_expire(ngx_mcds_store_t *store);
ngx_mcds_value_t *ngx_mcds_store_value(ngx_mcds_store_t *store);


#endif /* _NGX_MCDS_PAGE_STORE_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * The structure ngx_mcds_page_t, which a worker has once for each page that it
 * knows, and the functions that the files about pages and builds share.
 */


#ifndef _NGX_MCDS_PAGE_CORE_H_INCLUDED_
#define _NGX_MCDS_PAGE_CORE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_body_cut.h"
#include "ngx_mcds_index.h"
#include "ngx_mcds_lease.h"
#include "ngx_mcds_page.h"
#include "ngx_mcds_page_state.h"


typedef struct ngx_mcds_read_s  ngx_mcds_read_t;


struct ngx_mcds_page_s {
    ngx_mcds_index_node_t  node;       /* node in the index of pages; a page
                                          without references is idle: the index
                                          may drop it */
    ngx_uint_t             refs;

    ngx_mcds_pool_t       *pool;
    size_t                 limit;
    ngx_mcds_read_t       *read;       /* read of the page from memcached in
                                          this turn of the event loop, or
                                          NULL */
    ngx_mcds_read_t       *confirm;    /* command of this turn of the event
                                          loop that asks memcached to confirm
                                          the list of headers that the page
                                          varies by, or NULL */
    ngx_mcds_snapshot_t   *list;       /* the list of headers that the page
                                          varies by, as last seen, or NULL */
    /*
     * function that frees the list of headers that the page varies by; NULL:
     * the page has had no list
     */
    void                 (*forget)(ngx_mcds_page_t *page);
    uint64_t               list_asked; /* time when memcached confirmed the
                                          list of headers that the page varies
                                          by; 0: not yet */
    /*
     * the page's purge counter when memcached was asked about the list of
     * headers that the page varies by
     */
    ngx_atomic_uint_t      list_purges;

    ngx_uint_t             state;
    ngx_mcds_waiter_t     *owner;      /* the request that asks for the page's
                                          lock or builds the page; NULL: none,
                                          or the request has ended */
    ngx_queue_t            waiters;
    ngx_uint_t             nwaiters;

    ngx_uint_t             lock_age;
    ngx_mcds_lease_t      *lease;
    uint64_t               base;       /* CAS of the version of the page that
                                          the build replaces; 0: none */
    ngx_mcds_snapshot_t   *built;      /* the built page while it is being
                                          stored */
    uint64_t               awaited;    /* id of the page's build, by this or
                                          another worker, that requests wait
                                          for; 0: unknown */
    uint64_t               before;     /* id of the build that preceded the
                                          awaited one; requests may still find
                                          the page of the preceding build */

    /*
     * the function that is called when memcached has replied about the page
     * and about its lock; the fields after it have these replies
     */
    void                 (*answered)(ngx_mcds_page_t *page);
    ngx_mcds_op_t          lease_op;
    ngx_mcds_op_t          page_op;
    ngx_uint_t             unanswered;
    ngx_uint_t             lease_rc;
    ngx_uint_t             page_rc;
    uint64_t               page_cas;
    uint64_t               foreign;    /* CAS of a version of the page that
                                          only other hosts can use: it needs a
                                          feature that this build of mcds
                                          lacks; 0: none */
    ngx_mcds_snapshot_t   *snapshot;
    ngx_mcds_snapshot_t   *split;      /* the page found in memcached, while it
                                          is checked whether all parts of its
                                          body are there */

    ngx_mcds_cut_t         cut;        /* how the body is cut into parts, in
                                          the last version of the page whose
                                          body was in parts */
    uint64_t               cut_cas;    /* CAS of the last version of the page
                                          with a body in parts; 0: none */
    void                  *cut_signed; /* the keys of mcds_cache_hmac_key, one
                                          of which has signed the last version
                                          of the page with a body in parts; or
                                          NULL */

    ngx_event_t            poll;
    ngx_msec_t             poll_delay;
    ngx_msec_t             poll_next;
    uint64_t               due;        /* earliest time when the build that
                                          requests wait for is expected to end,
                                          ms since the epoch; 0: unknown */
    ngx_msec_t             took;       /* how long the last known build of the
                                          page took, ms; 0: unknown */
    ngx_atomic_uint_t      sequence;
    uint32_t               number;     /* CRC of the page's key, which selects
                                          the page's counter of ended builds */

    uint64_t               held_until; /* time until which requests do not try
                                          to refresh the page, as another worker
                                          had the page's lock; 0: requests may
                                          try at any time */
    uint64_t               held_cas;   /* CAS of the version of the page that
                                          requests do not refresh before
                                          held_until */

    ngx_msec_t             backoff;    /* how long no request builds the page
                                          after a failed build, ms */
    ngx_msec_t             backoff_max;
    ngx_mcds_lease_left_t  kept;       /* data in the page's lock, such as the
                                          number of failed builds, as last
                                          read */
    ngx_uint_t             step;       /* number of failed builds of the page
                                          in a row, as this worker knows it */
    /*
     * time until which no request builds the page after a failed build; 0:
     * there is no pause
     */
    uint64_t               failed_until;
    uint64_t               failed_cas; /* CAS of the page when the last build
                                          failed */

    ngx_mcds_hold_t        hold;       /* claim of this worker to build the
                                          page, which keeps other workers of
                                          the host from building it */
    ngx_msec_t             local_since;

    ngx_mcds_snapshot_t   *copy;       /* copy of the page in the memory of
                                          this worker, or NULL */
    ngx_queue_t            copy_lru;
    ngx_uint_t             copy_sent;  /* number of responses with this
                                          worker's copy of the page, see
                                          ngx_mcds_page_sent() */
    uint64_t               copy_asked; /* time when memcached confirmed this
                                          worker's copy of the page, unless
                                          copy_unasked is set */
    /*
     * the page's purge counter when memcached was asked about this worker's
     * copy of the page, see ngx_mcds_local.h
     */
    ngx_atomic_uint_t      copy_purges;
    ngx_atomic_uint_t      purges;     /* the purge counter when the page was
                                          read, or its build began */
    uint64_t               asked;      /* time when memcached was last asked
                                          for the page while requests waited
                                          for the page or its lock */
    ngx_uint_t             place;      /* index of the purge counter, which the
                                          page shares with other pages */

    size_t                 refused;    /* length of the page that memcached has
                                          refused, or 0 */
    uint64_t               refused_until;

    unsigned               old:1;      /* the last failed build of the page was
                                          by a request with a stale page */
    unsigned               offline:1;  /* another worker of this host builds
                                          the page, and memcached does not
                                          answer this worker */
    unsigned               local:1;    /* mcds_cache_local allows this host to
                                          keep copies of the page */
    unsigned               copy_unasked:1; /* memcached has not confirmed this
                                              worker's copy of the page, which
                                              is from another worker */
    unsigned               named:1;    /* hold.id, the page's id in shared
                                          memory (mcds_zone), is set */
    unsigned               big:1;      /* the last value of the page had at
                                          least NGX_MCDS_BULK bytes: the next
                                          one is read on the connection for
                                          large values */
    unsigned               whole:1;    /* the page is read from memcached with
                                          its value */
    unsigned               lock_only:1; /* memcached was asked for the page's
                                           lock, but not for the page */
    unsigned               guessed:1;  /* the time when the page's build is due
                                          is not from the page's lock, but a
                                          guess of this worker */
    unsigned               used:1;     /* a request has found the page since
                                          the last call of
                                          ngx_mcds_page_used() */
    unsigned               hurried:1;  /* replies of memcached about the page
                                          and its lock are ignored, as the
                                          request that needed them has stopped
                                          waiting for memcached */
    ngx_str_t              key;
};


/* Logs why the item of a page in memcached is not used. */
void ngx_mcds_page_not_used(ngx_mcds_page_t *page, char *why);


/*
 * Returns the page of a key; creates ngx_mcds_page_t if there is none.  Adds no
 * reference.  Returns NULL if out of memory.
 */

ngx_mcds_page_t *ngx_mcds_page_get(ngx_mcds_pool_t *pool, ngx_str_t *key);


/*
 * Prepares a GET of the page's item from memcached; want says which fields of
 * the item are needed.
 */

void ngx_mcds_page_request(ngx_mcds_page_t *page, ngx_mcds_request_t *req,
    ngx_uint_t want);


/* Adds a reference of a page. */

void ngx_mcds_page_ref(ngx_mcds_page_t *page);


/*
 * Drops a reference of a page.  A page without references is only remembered
 * by the worker, until other unused pages take its place.
 */

void ngx_mcds_page_unref(ngx_mcds_page_t *page);


/* Changes the state of a page's build; no other code changes it. */

void ngx_mcds_page_set_state(ngx_mcds_page_t *page, ngx_uint_t state);

/*
 * sets the state of a page that no request of this worker builds or waits for
 */
#define ngx_mcds_page_set_idle(page)                                          \
    ngx_mcds_page_set_state(page, (page)->failed_until                        \
                                  ? NGX_MCDS_STATE_PAUSED                     \
                                  : NGX_MCDS_STATE_IDLE)

/* returns 1 if no request of this worker builds the page or waits for it */
#define ngx_mcds_page_is_idle(page)                                           \
    ((page)->state == NGX_MCDS_STATE_IDLE                                     \
     || (page)->state == NGX_MCDS_STATE_PAUSED)

/*
 * returns 1 if requests of this worker wait for the build of the page by
 * another worker or host
 */
#define ngx_mcds_page_elsewhere(page)                                         \
    ((page)->state == NGX_MCDS_STATE_REMOTE                                   \
     || (page)->state == NGX_MCDS_STATE_LOCAL)


/*
 * Returns the page's counter of ended builds, one of those that the workers
 * share, see ngx_mcds_page_share(); NULL: the workers share none.
 */

ngx_atomic_t *ngx_mcds_page_sequence(ngx_mcds_page_t *page);


/*
 * Increments the page's counter of ended builds, so that requests that wait in
 * other workers look for the page.
 */

void ngx_mcds_page_build_ended(ngx_mcds_page_t *page);


/*
 * Returns the id of the page in shared memory (mcds_zone), see
 * ngx_mcds_local_id().
 */

u_char *ngx_mcds_page_id(ngx_mcds_page_t *page);


/*
 * Returns 1 if memcached is known to refuse the page; page->refused is the
 * refused length.
 */

ngx_uint_t ngx_mcds_page_refused(ngx_mcds_page_t *page);


#endif /* _NGX_MCDS_PAGE_CORE_H_INCLUDED_ */

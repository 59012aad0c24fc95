
/*
 * Copyright (C) mcds authors
 *
 * Pages and their builds: which request reads a page, builds it, or waits for
 * it.  This layer knows memcached and the other requests of the worker, but not
 * HTTP.
 */


#ifndef _NGX_MCDS_PAGE_H_INCLUDED_
#define _NGX_MCDS_PAGE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_body_cut.h"
#include "ngx_mcds_pace.h"
#include "ngx_mcds_snapshot.h"
#include "ngx_mcds_stat_sums.h"


typedef struct ngx_mcds_waiter_s  ngx_mcds_waiter_t;


/*
 * The outcome of a request's lookup of a page, or of its wait for the page's
 * build.
 */

typedef enum {
    NGX_MCDS_PAGE_FOUND = 0,      /* the request gets the page, as memcached
                                     has it or as it was just built */
    NGX_MCDS_PAGE_MISSING,        /* memcached has no page under the key, or
                                     none that requests may use */
    NGX_MCDS_PAGE_NO_REPLY,       /* memcached did not answer the request's
                                     command for the page */

    NGX_MCDS_PAGE_BUILD,          /* this request builds the page, and then
                                     calls ngx_mcds_page_store() or, without a
                                     page to store, ngx_mcds_page_abandon() */
    NGX_MCDS_PAGE_OTHER,          /* another request builds the page */
    NGX_MCDS_PAGE_PASS,           /* the request goes to the origin, bypassing
                                     the cache */
    NGX_MCDS_PAGE_ERROR,          /* the build of the page has failed; no
                                     request builds the page for waiter->retry
                                     ms */
    NGX_MCDS_PAGE_TIMEOUT,        /* the request has waited for the page long
                                     enough, or may not wait */
    NGX_MCDS_PAGE_AGAIN           /* the page was purged or replaced after its
                                     build began and before this request came:
                                     the request looks up the page again */
} ngx_mcds_page_e;


/*
 * The handler of a waiter (a request that looks up, builds or waits for a
 * page). With NGX_MCDS_PAGE_FOUND, snapshot is the page, and the handler may
 * take a reference of it; otherwise snapshot is NULL.
 */

typedef void (*ngx_mcds_page_pt)(void *data, ngx_uint_t outcome,
    ngx_mcds_snapshot_t *snapshot);


/*
 * How a request uses the copies of pages on this host, see ngx_mcds_local.h.
 */

typedef enum {
    NGX_MCDS_LOCAL_OFF = 0,
    NGX_MCDS_LOCAL_VALIDATED,     /* a copy of a page is served if memcached
                                     confirms it */
    NGX_MCDS_LOCAL_TIMED          /* a copy of a page is served for some time
                                     without asking memcached */
} ngx_mcds_local_mode_e;


/*
 * A waiter: a request that looks up a page, builds it, or waits for its build.
 * The memory of this struct belongs to the request, which must call
 * ngx_mcds_page_leave() before the memory is freed.
 */

struct ngx_mcds_waiter_s {
    ngx_queue_t         queue;
    ngx_mcds_page_t    *page;
    ngx_mcds_page_pt    handler;
    void               *data;
    ngx_event_t         timer;
    ngx_msec_t          wait;
    ngx_uint_t          max_waiters;
    ngx_mcds_pace_t    *pace;
    uint64_t            cas;           /* CAS of the version of the page that
                                          the request has seen */
    ngx_msec_t          retry;         /* ms until a request may build the page
                                          again after a failed build */
    ngx_uint_t          local;         /* how the request uses copies of the
                                          page on this host,
                                          ngx_mcds_local_mode_e; set by the
                                          caller */
    ngx_msec_t          local_time;    /* with NGX_MCDS_LOCAL_TIMED: how long a
                                          copy of the page is served without
                                          asking memcached, ms */
    ngx_array_t        *secrets;       /* set by the caller: the keys of
                                          mcds_cache_hmac_key, which sign the
                                          page and the parts of its body, or
                                          NULL */
    ngx_mcds_stat_t    *stat;          /* the cache's statistics in shared
                                          memory (mcds_zone); set by the caller,
                                          or NULL */
    ngx_msec_t          since;         /* time when the request began to wait
                                          for the page, or to build it */
    ngx_msec_t          parked_at;

    unsigned            silent:1;      /* memcached did not answer a command of
                                          this request */
    unsigned            queued:1;      /* the request waits in page->waiters */
    unsigned            waited:1;      /* the request has waited for the page,
                                          but its wait is not counted in the
                                          statistics yet */
    unsigned            parked:1;      /* parked_at is set: the time when the
                                          request began to wait for the page;
                                          after the wait the caller clears this
                                          flag */
    unsigned            building:1;
    unsigned            takeover:1;    /* the request waited for the page, and
                                          then builds it itself */
    unsigned            refresh:1;     /* the request does not wait if another
                                          request builds the page */
    unsigned            has_old:1;     /* the request has a stale page to
                                          serve */
    unsigned            built:1;       /* with NGX_MCDS_PAGE_FOUND: the page
                                          comes from the build that the request
                                          has waited for */
    unsigned            failed:1;      /* a build has failed: the request got no
                                          page, and did not wait for another
                                          build */
    unsigned            looking:1;     /* the request waits while the page is
                                          looked up in memcached */
    unsigned            no_body:1;     /* the request likely needs no body of
                                          the page, or only a later part of
                                          it */
};


typedef struct {
    ngx_uint_t          lock_age;      /* lifetime of the page's lock,
                                          seconds */
    ngx_msec_t          wait;          /* how long this request waits for the
                                          page at most, ms */
    ngx_uint_t          max_waiters;   /* maximum of the requests in this
                                          worker that wait for the page */
    ngx_mcds_pace_t    *pace;          /* how long builds of the location's
                                          pages take, or NULL; must live as
                                          long as the waiter */
    uint64_t            cas;           /* CAS of the version of the page that
                                          the request has seen; 0: none */
    ngx_mcds_cut_t     *left;          /* the parts of the body of this version,
                                          whose signature is valid; NULL: none,
                                          or this worker has read them with the
                                          page */
    ngx_msec_t          backoff;       /* how long no request builds the page
                                          after a failed build, ms; 0: there is
                                          no pause */
    ngx_msec_t          backoff_max;   /* the longest time for which no
                                          request builds the page after
                                          repeated failures, ms */
    unsigned            refresh:1;     /* the request does not wait if another
                                          request builds the page */
    unsigned            has_old:1;     /* the request has a stale page to
                                          serve */
    unsigned            offline:1;     /* memcached does not answer: the page
                                          is built for this host alone */
} ngx_mcds_enter_t;


/*
 * Makes a request a waiter of the page of a key, before it looks up, builds or
 * waits for this page.  The key is any text, and is copied.  limit is the
 * maximum length of a page to accept from memcached, in bytes.  Returns
 * NGX_ERROR if out of memory.
 */

ngx_int_t ngx_mcds_page_join(ngx_mcds_waiter_t *waiter, ngx_mcds_pool_t *pool,
    ngx_str_t *key, size_t limit, ngx_mcds_page_pt handler, void *data);


/*
 * Returns this worker's copy of the page of a waiter (a request), if
 * waiter->local allows the copy to be served without asking memcached,
 * otherwise NULL.  Adds no reference.  Never returns a page that each request
 * must revalidate: another request may have learned of a newer version.
 */

ngx_mcds_snapshot_t *ngx_mcds_page_known(ngx_mcds_waiter_t *waiter);


/*
 * Notes that a response with the body of a snapshot is sent on a connection
 * that could use sendfile().  If the snapshot is this worker's copy of the
 * page, and large, the copy moves into a memory file for later responses, see
 * ngx_mcds_memfile.h.
 */

void ngx_mcds_page_sent(ngx_mcds_snapshot_t *snapshot);


/*
 * Reads the page of a waiter (a request) from memcached.  The outcome is
 * NGX_MCDS_PAGE_FOUND, _MISSING or _FAILED; instead of the page, the list of
 * headers that it varies by may be found, or an entry that says that the page
 * is not cacheable or was purged.  With waiter->local a copy on this host is
 * FOUND if memcached confirms it, or does not answer.  The requests of one turn
 * of the event loop share one read.  The handler is called once, not from
 * inside of this call.  Returns NGX_ERROR, and calls no handler, if out of
 * memory.
 */

ngx_int_t ngx_mcds_page_lookup(ngx_mcds_waiter_t *waiter);


/*
 * Asks whether the request of a waiter builds its page.  The outcome is:
 *
 *   BUILD    this request builds the page: one request among all hosts; while
 *            memcached does not answer, one among the workers of this host
 *   OTHER    with enter->refresh: another request builds the page
 *   FOUND    the page has changed since enter->cas; with waiter->built this is
 *            the page that the request has waited for
 *   PASS     the build that the request has waited for made no page that the
 *            request may use
 *   TIMEOUT  enter->wait is over, or too many requests wait
 *   AGAIN    the page is to be looked up again, see ngx_mcds_page_e
 *
 * When a build has failed, and during the pause after that, the outcome is
 * OTHER with enter->refresh, TIMEOUT with a stale page, and ERROR otherwise.
 *
 * Returns NGX_OK: the handler is called once, not from inside of this call; or
 * NGX_DONE: *outcome is set, and the handler is not called.
 */

ngx_int_t ngx_mcds_page_enter(ngx_mcds_waiter_t *waiter,
    ngx_mcds_enter_t *enter, ngx_uint_t *outcome);


/*
 * Ends the wait of a waiter (a request) for memcached.  If it waits for a
 * reply about its page, its handler is called, from inside of this call, as if
 * memcached did not answer.  Has no effect on a waiter that waits for a build
 * of the page.
 */

void ngx_mcds_page_hurry(ngx_mcds_waiter_t *waiter);


/*
 * Hands the build of a page over from one waiter (a request) to another, which
 * must end the build.  The waiter "from" no longer belongs to the page.
 */

void ngx_mcds_page_hand(ngx_mcds_waiter_t *from, ngx_mcds_waiter_t *to);


/*
 * Returns the list of headers that the page of a waiter (a request) varies by,
 * see ngx_mcds_vary.h, if the page varies and this worker remembers the list;
 * otherwise NULL.  Adds no reference.
 */

ngx_mcds_snapshot_t *ngx_mcds_page_list(ngx_mcds_waiter_t *waiter);


/*
 * Returns 1 if memcached has confirmed the list of headers that a page varies
 * by so recently that, with NGX_MCDS_LOCAL_TIMED, copies of the page's
 * variants may be served without asking memcached.
 */

ngx_uint_t ngx_mcds_page_list_known(ngx_mcds_waiter_t *waiter);


/*
 * Asks memcached whether the remembered list of headers that a page varies by
 * is still the current one.  The outcome is NGX_MCDS_PAGE_FOUND, with the
 * list, _MISSING or _FAILED.  Returns NGX_ERROR, and calls no handler, if out
 * of memory.
 */

ngx_int_t ngx_mcds_page_confirm(ngx_mcds_waiter_t *waiter);


/*
 * Returns a snapshot of the variant of a page that a waiter (a request) needs,
 * if shared memory (mcds_zone) has a copy of the variant not older than age ms,
 * otherwise NULL.  A worker whose build has made both the variant and the list
 * of headers that the page varies by puts the copy into shared memory, for
 * requests to which memcached does not reply.  The reference is the caller's.
 */

ngx_mcds_snapshot_t *ngx_mcds_page_first(ngx_mcds_waiter_t *waiter,
    ngx_msec_t age);


/*
 * Returns 1 if a request of this worker has found the page of a key since the
 * last call of this function for the key.  The page's memcached pool is that of
 * the waiter (a request).
 */

ngx_uint_t ngx_mcds_page_used(ngx_mcds_waiter_t *waiter, ngx_str_t *key);


/*
 * Returns the key of the page that a waiter (a request) looks up, builds or
 * waits for.
 */
ngx_str_t *ngx_mcds_page_key(ngx_mcds_waiter_t *waiter);


/*
 * Removes a waiter (a request) from its page.  The request does not look up the
 * page or wait for it any more; a build by the request that has not ended
 * counts as NGX_MCDS_BUILD_FAILED.  May be called at any time, more than once,
 * and for a waiter of zeroed memory.
 */

void ngx_mcds_page_leave(ngx_mcds_waiter_t *waiter);


/*
 * Gives this worker n counters of ended builds that all workers of the host
 * share.  Called once, when the worker starts.  Whenever the build of a page
 * ends, the counter that the page's key selects is incremented; so requests
 * that wait in other workers notice the end without asking memcached.
 */

void ngx_mcds_page_share(ngx_atomic_t *sequences, ngx_uint_t n);


#endif /* _NGX_MCDS_PAGE_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * Pages and their rebuilds: who reads, who builds, who waits.  Knows memcached
 * and the other requests of this worker, not HTTP.
 */


#ifndef _NGX_MCDS_PAGE_H_INCLUDED_
#define _NGX_MCDS_PAGE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_snapshot.h"
#include "ngx_mcds_stat_sums.h"


typedef struct ngx_mcds_seat_s  ngx_mcds_seat_t;


/* what a request is told */

typedef enum {
    NGX_MCDS_PAGE_FOUND = 0,      /* copy is what memcached holds now, or what
                                     was just built */
    NGX_MCDS_PAGE_MISSING,        /* nothing (usable) is there */
    NGX_MCDS_PAGE_FAILED,         /* memcached did not say */

    NGX_MCDS_PAGE_BUILD,          /* this request is to build the page, and to
                                     say how that ended */
    NGX_MCDS_PAGE_OTHER,          /* somebody else builds it */
    NGX_MCDS_PAGE_PASS,           /* go to the origin, without the cache */
    NGX_MCDS_PAGE_ERROR,          /* the build has failed, and nobody is to
                                     try again for seat->retry ms */
    NGX_MCDS_PAGE_TIMEOUT,        /* waited long enough, or not allowed to */
    NGX_MCDS_PAGE_AGAIN           /* what was built had been purged before this
                                     request came: look once more */
} ngx_mcds_page_e;


/*
 * copy: with FOUND, a reference that the handler may take; else NULL.
 */

typedef void (*ngx_mcds_page_pt)(void *data, ngx_uint_t outcome,
    ngx_mcds_copy_t *copy);


/* whether pages are kept by this host, see ngx_mcds_local.h, and how used */

typedef enum {
    NGX_MCDS_LOCAL_OFF = 0,
    NGX_MCDS_LOCAL_VALIDATED,     /* when memcached says that it is the one */
    NGX_MCDS_LOCAL_TIMED          /* for some time without asking */
} ngx_mcds_local_mode_e;


/*
 * A request's place at a page.  The memory is the request's; it must be left
 * before the memory goes away.
 */

struct ngx_mcds_seat_s {
    ngx_queue_t         queue;
    ngx_mcds_page_t    *page;
    ngx_mcds_page_pt    handler;
    void               *data;
    ngx_event_t         timer;
    ngx_msec_t          wait;
    ngx_uint_t          max_waiters;
    uint64_t            cas;           /* of the copy it has seen */
    ngx_msec_t          retry;         /* with ERROR */
    ngx_uint_t          local;         /* ngx_mcds_local_mode_e; the caller's */
    ngx_msec_t          local_time;    /* TIMED: used unasked so long */
    ngx_array_t        *secrets;       /* parts are signed; the caller's, or
                                          NULL, see ngx_mcds_sign.h */
    ngx_mcds_stat_t    *stat;          /* of its zone; the caller's, or NULL */
    ngx_msec_t          since;         /* it waits, or builds */
    ngx_msec_t          parked_at;

    unsigned            silent:1;      /* memcached has not answered */
    unsigned            queued:1;      /* waits for a build */
    unsigned            waited:1;      /* the same, until it is told */
    unsigned            parked:1;      /* it does, or has done, since then; the
                                          caller's to reset */
    unsigned            building:1;
    unsigned            takeover:1;    /* builds, and has waited before */
    unsigned            refresh:1;     /* does not wait for another's build */
    unsigned            has_old:1;     /* may show an old page */
    unsigned            built:1;       /* with FOUND: the copy is that of the
                                          build that it has waited for */
    unsigned            failed:1;      /* with ERROR and TIMEOUT: so has a
                                          build, there was no wait for the
                                          next */
    unsigned            want_copy:1;   /* waits for a lookup */
    unsigned            no_body:1;     /* likely does not want the body from
                                          its beginning */
};


typedef struct {
    ngx_uint_t          lock_age;      /* seconds */
    ngx_msec_t          wait;          /* the longest wait of this request */
    ngx_uint_t          max_waiters;   /* at one page, in this worker */
    uint64_t            cas;           /* of the copy it has seen, 0: none */
    ngx_msec_t          backoff;       /* after a failure, 0: none */
    ngx_msec_t          backoff_max;   /* ... after some more of them */
    unsigned            refresh:1;     /* not to wait for another's build */
    unsigned            has_old:1;     /* there is an old page to show */
    unsigned            local:1;       /* memcached does not answer: build
                                          for this host alone */
} ngx_mcds_enter_t;


/*
 * Takes a seat at the page of a key (any text, copied).  limit: the largest
 * entry to accept.  NULL is never the outcome of a full table, only of
 * missing memory: NGX_ERROR.
 */

ngx_int_t ngx_mcds_page_sit(ngx_mcds_seat_t *seat, ngx_mcds_pool_t *pool,
    ngx_str_t *key, size_t limit, ngx_mcds_page_pt handler, void *data);


/*
 * A copy that may be served without a lookup, as seat->local says, or NULL; the
 * page's reference, not the caller's.  Not one that the origin is asked about:
 * another request may have been told that there is a newer one.
 */

ngx_mcds_copy_t *ngx_mcds_page_known(ngx_mcds_seat_t *seat);


/*
 * Reads the page: FOUND, MISSING or FAILED.  The copy may be a mark, one that
 * says that the page was purged, too.  With seat->local a copy of this host is
 * FOUND when memcached confirms it, or does not answer.  Requests of one turn
 * of the event loop share one read.  The handler is called once, not from
 * inside of this
 * call.  NGX_ERROR: out of memory, the handler is not called.
 */

ngx_int_t ngx_mcds_page_lookup(ngx_mcds_seat_t *seat);


/*
 * Asks to build.  The outcome is BUILD for one request among all hosts (among
 * those of this host while memcached does not answer); OTHER for one with
 * refresh set, when somebody else builds; FOUND when the page has changed
 * since enter->cas, and with seat->built it is what was waited for; for those
 * that wait FOUND, PASS or BUILD as it turns out, TIMEOUT after enter->wait or
 * when too many wait, and AGAIN.  When a build has failed, and for some time
 * after it, all are told at once: OTHER those with refresh, TIMEOUT those with
 * an old page, ERROR the others.  The handler is called once.  NGX_OK, or
 * NGX_DONE with *outcome when that is known at once and the handler is not
 * called; NGX_ERROR: out of memory.
 */

ngx_int_t ngx_mcds_page_enter(ngx_mcds_seat_t *seat, ngx_mcds_enter_t *enter,
    ngx_uint_t *outcome);


/*
 * Memcached is not waited for any longer: if the seat waits for its answer, it
 * is told now what it is told when there is none, and the handler is called
 * from inside of this call.  Not if it waits for a build.
 */

void ngx_mcds_page_hurry(ngx_mcds_seat_t *seat);


/*
 * Hands a build over to another place, of zeroed memory, whose request ends
 * it; from has left then.
 */

void ngx_mcds_page_hand(ngx_mcds_seat_t *from, ngx_mcds_seat_t *to);


/*
 * Pages that vary, see ngx_mcds_vary.h.  What is found under a key may be a
 * list.  list: that of the seat's page, if this worker knows it; list_known: 1
 * if timed copies of its variants may be used unasked by it; confirm: asks
 * whether it is still that one: FOUND, with it, MISSING or FAILED; first: a
 * copy, the caller's, of the seat's variant, which was built in another worker
 * of this host not longer ago than that and made the list, while memcached does
 * not answer; or NULL.
 */

ngx_mcds_copy_t *ngx_mcds_page_list(ngx_mcds_seat_t *seat);
ngx_uint_t ngx_mcds_page_list_known(ngx_mcds_seat_t *seat);
ngx_int_t ngx_mcds_page_confirm(ngx_mcds_seat_t *seat);
ngx_mcds_copy_t *ngx_mcds_page_first(ngx_mcds_seat_t *seat, ngx_msec_t age);


/*
 * 1 if a request of this worker has found the page of the key, in the seat's
 * pool, since this was called for it last.
 */

ngx_uint_t ngx_mcds_page_used(ngx_mcds_seat_t *seat, ngx_str_t *key);


/* the key that the seat was taken at */
ngx_str_t *ngx_mcds_page_key(ngx_mcds_seat_t *seat);


/*
 * Leaves: whatever was asked is canceled; a build that has not ended counts
 * as NGX_MCDS_BUILD_FAILED.  Allowed at any time, more than once, and for a
 * seat of zeroed memory.
 */

void ngx_mcds_page_leave(ngx_mcds_seat_t *seat);


/*
 * Numbers shared by the workers of a host: one of them is moved on whenever a
 * page was built, chosen by the hash of its key, so that waiting workers need
 * not ask memcached to know.  Called once, when a worker starts.
 */

void ngx_mcds_page_share(ngx_atomic_t *sequences, ngx_uint_t n);


#endif /* _NGX_MCDS_PAGE_H_INCLUDED_ */

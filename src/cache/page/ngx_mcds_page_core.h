
/*
 * Copyright (C) mcds authors
 *
 * A page, of which each worker has one for each key, and what the files about
 * pages share.
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
    ngx_mcds_index_node_t node;        /* idle: without references */
    ngx_uint_t            refs;

    ngx_mcds_pool_t      *pool;
    size_t                limit;
    ngx_mcds_read_t      *read;        /* of this turn */
    ngx_mcds_read_t      *confirm;     /* the same for the list */
    ngx_mcds_copy_t      *list;        /* the last one that was seen */
    void                (*forget)(ngx_mcds_page_t *page);  /* frees the list,
                                          or NULL */
    uint64_t              list_asked;  /* when memcached said that it is the
                                          right one; 0: not yet */
    ngx_atomic_uint_t     list_purges; /* ... as mine_purges */

    ngx_uint_t            state;
    ngx_mcds_seat_t      *owner;       /* who locks or builds, or NULL: left */
    ngx_queue_t           waiters;
    ngx_uint_t            nwaiters;

    ngx_uint_t            lock_age;
    ngx_mcds_lease_t     *lock;
    uint64_t              base;        /* CAS of the page to be replaced */
    ngx_mcds_copy_t      *built;       /* while storing */
    uint64_t              awaited;     /* the build under way, here or
                                          elsewhere; 0: not known */
    uint64_t              before;      /* the one before that, which may have
                                          made what is found now */

    /* the answers of one step, lock and page, and what is called then */
    void                (*answered)(ngx_mcds_page_t *page);
    ngx_mcds_op_t         lock_op;
    ngx_mcds_op_t         page_op;
    ngx_uint_t            missing;
    ngx_uint_t            lock_rc;
    ngx_uint_t            page_rc;
    uint64_t              page_cas;
    ngx_mcds_copy_t      *copy;
    ngx_mcds_copy_t      *split;       /* while its parts are looked for */

    ngx_mcds_cut_t        cut;         /* the body of a page that was seen */
    uint64_t              cut_cas;     /* and its CAS; 0: no such page */
    void                 *cut_signed;  /* the secrets by which it is, or NULL */

    ngx_event_t           poll;
    ngx_msec_t            poll_delay;
    ngx_msec_t            poll_next;
    ngx_atomic_uint_t     sequence;
    uint32_t              number;      /* of its place in all workers */

    uint64_t              held_until;  /* the lock was seen held; 0: no */
    uint64_t              held_cas;    /* for what was to follow this page */

    ngx_msec_t            backoff;     /* after a failure */
    ngx_msec_t            backoff_max;
    ngx_mcds_lease_left_t kept;        /* what the lock's last owner left */
    ngx_uint_t            step;        /* failures in a row, here */
    uint64_t              failed_until;  /* no build, a pause after a failure;
                                          0: there is none */
    uint64_t              failed_cas;  /* of the page then */

    ngx_mcds_hold_t       hold;        /* of the build, among workers */
    ngx_msec_t            here_since;

    ngx_mcds_copy_t      *mine;        /* kept by this worker */
    ngx_queue_t           mine_lru;
    uint64_t              mine_asked;  /* when it was the right one */
    ngx_atomic_uint_t     mine_purges; /* ... and how many purges before, see
                                          ngx_mcds_local.h */
    ngx_atomic_uint_t     purges;      /* the same when the page was asked for,
                                          or its build has begun */
    ngx_uint_t            place;       /* of these numbers */

    size_t                refused;     /* length that was too large, or 0 */
    uint64_t              refused_until;

    unsigned              old:1;       /* a build is behind an old page */
    unsigned              unheard:1;   /* LOCAL: memcached does not answer */
    unsigned              local:1;     /* copies are kept */
    unsigned              named:1;     /* hold.id is known */
    unsigned              big:1;       /* the last value was */
    unsigned              whole:1;     /* the page was asked with its value */
    unsigned              used:1;      /* was found since this was asked last */
    unsigned              hurried:1;   /* answers that are to come change
                                          nothing any more */
    ngx_str_t             key;
};


/* for the log */
void ngx_mcds_page_not_used(ngx_mcds_page_t *page, char *why);


/* the page of a key, made if there is none yet; NULL: out of memory */

ngx_mcds_page_t *ngx_mcds_page_get(ngx_mcds_pool_t *pool, ngx_str_t *key);


/* a request for the item of a page, or for what want names of it */

void ngx_mcds_page_request(ngx_mcds_page_t *page, ngx_mcds_request_t *req,
    ngx_uint_t want);


/* a page lives on while somebody refers to it, and some time beyond */

void ngx_mcds_page_ref(ngx_mcds_page_t *page);
void ngx_mcds_page_unref(ngx_mcds_page_t *page);

/*
 * set_state: changes the state, and nothing else does.  rest: no request here
 * builds or waits any more; rests, elsewhere: 1 in those states.
 */

void ngx_mcds_page_set_state(ngx_mcds_page_t *page, ngx_uint_t state);

#define ngx_mcds_page_rest(page)                                              \
    ngx_mcds_page_set_state(page, (page)->failed_until ? NGX_MCDS_PAUSED      \
                                                       : NGX_MCDS_IDLE)

#define ngx_mcds_page_rests(page)                                             \
    ((page)->state == NGX_MCDS_IDLE || (page)->state == NGX_MCDS_PAUSED)

#define ngx_mcds_page_elsewhere(page)                                         \
    ((page)->state == NGX_MCDS_REMOTE || (page)->state == NGX_MCDS_LOCAL)


/*
 * sequence: the number of ngx_mcds_page_share() that is the page's, or NULL;
 * moved: moves it on, for those who wait in other workers.
 */

ngx_atomic_t *ngx_mcds_page_sequence(ngx_mcds_page_t *page);
void ngx_mcds_page_moved(ngx_mcds_page_t *page);


/* names the page in the memory of the zone */

u_char *ngx_mcds_page_id(ngx_mcds_page_t *page);


/* 1 if memcached is known not to take the page, page->refused its length */

ngx_uint_t ngx_mcds_page_refused(ngx_mcds_page_t *page);


#endif /* _NGX_MCDS_PAGE_CORE_H_INCLUDED_ */

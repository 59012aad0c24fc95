
/*
 * Copyright (C) mcds authors
 *
 * A page, of which each worker has one for each key, and the functions that the
 * files of the page core share.
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
    ngx_mcds_index_node_t  node;       /* idle: without references */
    ngx_uint_t             refs;

    ngx_mcds_pool_t       *pool;
    size_t                 limit;
    ngx_mcds_read_t       *read;       /* of this turn of the event loop */
    ngx_mcds_read_t       *confirm;    /* a read of the list, of this turn */
    ngx_mcds_snapshot_t   *list;       /* the last list seen, or NULL */
    void                 (*forget)(ngx_mcds_page_t *page); /* frees the list, or
                                                              NULL */
    uint64_t               list_asked; /* when memcached confirmed the list; 0:
                                          not yet */
    ngx_atomic_uint_t      list_purges; /* the purge counter then */

    ngx_uint_t             state;
    ngx_mcds_waiter_t     *owner;      /* locks or builds; NULL: has left */
    ngx_queue_t            waiters;
    ngx_uint_t             nwaiters;

    ngx_uint_t             lock_age;
    ngx_mcds_lease_t      *lease;
    uint64_t               base;       /* CAS of the page that is replaced */
    ngx_mcds_snapshot_t   *built;      /* while STORING */
    uint64_t               awaited;    /* id of the current build, here or
                                          elsewhere; 0: unknown */
    uint64_t               before;     /* id of the build before, whose page may
                                          be found now */

    /*
     * the answers of one step, about the lock and the page, and the function
     * that is called after both
     */
    void                 (*answered)(ngx_mcds_page_t *page);
    ngx_mcds_op_t          lease_op;
    ngx_mcds_op_t          page_op;
    ngx_uint_t             missing;
    ngx_uint_t             lease_rc;
    ngx_uint_t             page_rc;
    uint64_t               page_cas;
    uint64_t               foreign;    /* CAS of a page that needs a feature
                                          that is left out, but not for another
                                          host; 0: none */
    ngx_mcds_snapshot_t   *snapshot;
    ngx_mcds_snapshot_t   *split;      /* while its parts are checked */

    ngx_mcds_cut_t         cut;        /* of the last page with parts */
    uint64_t               cut_cas;    /* its CAS; 0: no such page */
    void                  *cut_signed; /* the secrets by which it is signed, or
                                          NULL */

    ngx_event_t            poll;
    ngx_msec_t             poll_delay;
    ngx_msec_t             poll_next;
    ngx_atomic_uint_t      sequence;
    uint32_t               number;     /* CRC of the key, the same in all
                                          workers */

    uint64_t               held_until; /* no refresh asks for the lock, which
                                          was held, before this time; 0: any
                                          may */
    uint64_t               held_cas;   /* for a build that replaces the page
                                          with this CAS */

    ngx_msec_t             backoff;    /* the pause after a failure */
    ngx_msec_t             backoff_max;
    ngx_mcds_lease_left_t  kept;       /* left by the lock's last owner */
    ngx_uint_t             step;       /* failures in a row, known here */
    uint64_t               failed_until; /* end of the pause after a failure; 0:
                                            none */
    uint64_t               failed_cas; /* CAS of the page at the failure */

    ngx_mcds_hold_t        hold;       /* the claim among the workers */
    ngx_msec_t             here_since;

    ngx_mcds_snapshot_t   *mine;       /* kept by this worker, or NULL */
    ngx_queue_t            mine_lru;
    ngx_uint_t             mine_reads; /* how often mine was used */
    uint64_t               mine_asked; /* when memcached confirmed mine */
    ngx_atomic_uint_t      mine_purges;   /* the purge counter then, see
                                          ngx_mcds_local.h */
    ngx_atomic_uint_t      purges;     /* the purge counter when the page was
                                          read, or its build began */
    ngx_uint_t             place;      /* of the purge counter */

    size_t                 refused;    /* the length that memcached refused, or
                                          0 */
    uint64_t               refused_until;

    unsigned               old:1;      /* requests have a stale page to serve */
    unsigned               unheard:1;  /* LOCAL: memcached does not answer */
    unsigned               local:1;    /* copies are kept by this host */
    unsigned               named:1;    /* hold.id is set */
    unsigned               big:1;      /* the last value was large */
    unsigned               whole:1;    /* the page is read with its value */
    unsigned               used:1;     /* found since the last call of
                                          ngx_mcds_page_used() */
    unsigned               hurried:1;  /* further answers are ignored */
    ngx_str_t              key;
};


/* Logs why the item of a page is not used. */
void ngx_mcds_page_not_used(ngx_mcds_page_t *page, char *why);


/*
 * Returns the page of a key, which is created if necessary, without a new
 * reference.  Returns NULL if out of memory.
 */

ngx_mcds_page_t *ngx_mcds_page_get(ngx_mcds_pool_t *pool, ngx_str_t *key);


/* Prepares a GET of the page's item, or of the fields in want. */

void ngx_mcds_page_request(ngx_mcds_page_t *page, ngx_mcds_request_t *req,
    ngx_uint_t want);


/* Adds a reference. */

void ngx_mcds_page_ref(ngx_mcds_page_t *page);


/*
 * Drops a reference.  After the last one the page becomes idle: the worker
 * remembers it until other idle pages take its place.
 */

void ngx_mcds_page_unref(ngx_mcds_page_t *page);


/* Changes the state of a page; nothing else does. */

void ngx_mcds_page_set_state(ngx_mcds_page_t *page, ngx_uint_t state);

/*
 * sets the state of a page that no request of this worker builds or waits for
 */
#define ngx_mcds_page_rest(page)                                              \
    ngx_mcds_page_set_state(page, (page)->failed_until ? NGX_MCDS_PAUSED      \
                                                       : NGX_MCDS_IDLE)

/* 1 if no request of this worker builds the page or waits for it */
#define ngx_mcds_page_rests(page)                                             \
    ((page)->state == NGX_MCDS_IDLE || (page)->state == NGX_MCDS_PAUSED)

/* 1 if requests of this worker wait for the build of another worker or host */
#define ngx_mcds_page_elsewhere(page)                                         \
    ((page)->state == NGX_MCDS_REMOTE || (page)->state == NGX_MCDS_LOCAL)


/* Returns the shared counter of a page, see ngx_mcds_page_share(), or NULL. */

ngx_atomic_t *ngx_mcds_page_sequence(ngx_mcds_page_t *page);


/*
 * Increments the shared counter of a page, so that waiters in other workers
 * look for the page.
 */

void ngx_mcds_page_moved(ngx_mcds_page_t *page);


/* Returns the id of the page in the zone, see ngx_mcds_local_id(). */

u_char *ngx_mcds_page_id(ngx_mcds_page_t *page);


/*
 * Returns 1 if memcached is known to refuse the page; page->refused is the
 * refused length.
 */

ngx_uint_t ngx_mcds_page_refused(ngx_mcds_page_t *page);


#endif /* _NGX_MCDS_PAGE_CORE_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * The data about pages that the workers of a host share in shared memory
 * (mcds_zone): the claims to build pages, by which two workers do not build the
 * same page at one time, even if memcached does not answer; copies of pages;
 * and counters of this host's purges.  A worker that is killed leaves nothing
 * locked: its claims are free as soon as another worker looks at them, and they
 * also expire.
 */


#ifndef _NGX_MCDS_LOCAL_H_INCLUDED_
#define _NGX_MCDS_LOCAL_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds.h"


#define NGX_MCDS_LOCAL_ID         16


typedef struct ngx_mcds_local_s  ngx_mcds_local_t;
typedef struct ngx_mcds_claim_s  ngx_mcds_claim_t;


/*
 * The claim of this worker to build a page: it keeps other workers of the host
 * from building the page.  A zeroed structure holds no claim.
 */

typedef struct {
    ngx_queue_t          queue;
    ngx_mcds_claim_t    *claim;        /* the claim to build a page in shared
                                          memory (mcds_zone); NULL: this worker
                                          has none */
    u_char               id[NGX_MCDS_LOCAL_ID];
    uint64_t             build;        /* id of this worker's build of the page,
                                          shown to other workers */
    ngx_msec_t           age;
} ngx_mcds_hold_t;


/*
 * How the last build of a page ended.  The worker that built the page leaves
 * this outcome for the other workers of the host.
 */

typedef enum {
    NGX_MCDS_LOCAL_FREE = 0,      /* the last build of the page, by any worker
                                     of the host, has ended, and each worker is
                                     allowed to begin the next one */
    NGX_MCDS_LOCAL_ALONE,         /* a worker has built the page, but mcds_zone
                                     has no copy for other workers, for example
                                     because the page is large: they build the
                                     page, too */
    NGX_MCDS_LOCAL_FAILED,        /* the build of the page has failed: no
                                     request with a stale page builds the page
                                     for a while */
    NGX_MCDS_LOCAL_TOLD           /* the build of the page has failed, and the
                                     requests that waited for it fail, too */
} ngx_mcds_local_e;


typedef struct {
    ngx_uint_t           state;        /* how the last build of the page ended,
                                          ngx_mcds_local_e */
    ngx_uint_t           step;         /* after a failed build: how many builds
                                          of the page have failed in a row */
    ngx_msec_t           left;         /* ms until the outcome of the page's
                                          last build is forgotten */
    uint64_t             build;        /* if another worker has claimed the
                                          build of the page (NGX_BUSY): the id
                                          of this build */
} ngx_mcds_local_left_t;


/*
 * Creates, in shared memory (mcds_zone), the structure in which the workers of
 * a host share copies of pages and claims to build pages.  Returns NULL if
 * there is no room.
 */

ngx_mcds_local_t *ngx_mcds_local_create(ngx_slab_pool_t *shpool);


/*
 * Lets this worker use "local", in which the workers of a host share copies of
 * pages and claims to build pages.  Without a call the worker knows nothing of
 * other workers.
 */

void ngx_mcds_local_attach(ngx_mcds_local_t *local, ngx_slab_pool_t *shpool);


/*
 * Identifies one version of the item that a key has in memcached.  A CAS value
 * alone does not: the CAS values of memcached begin again after a restart, and
 * a server that takes over for another has its own.
 */

typedef struct {
    uint64_t             cas;          /* CAS of the memcached item; 0:
                                          unknown */
    ngx_uint_t           flags;        /* client flags of the memcached item,
                                          see ngx_mcds_entry_client_flags() */
} ngx_mcds_item_id_t;


/*
 * Returns 1 if two ids of memcached items are known and identify the same
 * version of an item.
 */

static ngx_inline ngx_uint_t
ngx_mcds_item_id_same(ngx_mcds_item_id_t *a, ngx_mcds_item_id_t *b)
{
    return a->cas && a->cas == b->cas && a->flags == b->flags;
}


/*
 * Computes the id of a page in shared memory (mcds_zone), NGX_MCDS_LOCAL_ID
 * bytes, from the pool's name and prefix and the key.
 */

void ngx_mcds_local_id(u_char *id, ngx_str_t *pool, ngx_str_t *prefix,
    ngx_str_t *key);


/*
 * Claims the build of the page hold->id among the workers of this host.  The
 * claim is extended until it is released; if the worker hangs, the claim ends
 * after age ms.  at_once: the worker claims the build also in the pause after a
 * failed build, as its request has no stale page, or as it has the page's lock
 * in memcached.  Returns:
 *
 *   NGX_OK        this worker has the claim; left->step is set if the last
 *                 build has failed
 *   NGX_BUSY      another worker has the claim, see left->build, and is told
 *                 that a worker waits
 *   NGX_ABORT     the worker may not build for left->left ms
 *   NGX_DECLINED  the worker may build, but without a claim: there is no
 *                 mcds_zone or no room, this worker has the claim already, or
 *                 the last build ended with NGX_MCDS_LOCAL_ALONE
 */

ngx_int_t ngx_mcds_local_claim(ngx_mcds_hold_t *hold, ngx_msec_t age,
    ngx_uint_t at_once, ngx_mcds_local_left_t *left);


/*
 * Looks at the claim of a page's build without taking it.  The results are
 * those of ngx_mcds_local_claim(); NGX_OK: no worker has the claim.  If "wait"
 * is set, the worker that builds learns that another worker waits for the
 * page.
 */

ngx_int_t ngx_mcds_local_look(u_char *id, ngx_uint_t wait,
    ngx_mcds_local_left_t *left);


/*
 * Returns 1 if another worker waits for the build of the page that this worker
 * has claimed.
 */

ngx_uint_t ngx_mcds_local_wanted(ngx_mcds_hold_t *hold);


/*
 * Releases the claim of this worker to build a page, and leaves *left, the
 * outcome of the build, for the next worker.  Has no effect if no claim is
 * held.
 */

void ngx_mcds_local_release(ngx_mcds_hold_t *hold,
    ngx_mcds_local_left_t *left);


/*
 * Puts a copy of a page's value into shared memory (mcds_zone), in place of the
 * least recently read copies.  Returns NGX_DECLINED if there is no room for a
 * value of this length.
 */

ngx_int_t ngx_mcds_local_put(u_char *id, ngx_mcds_value_t *value,
    ngx_mcds_item_id_t *item_id);


/*
 * Returns the value of a page's copy in shared memory (mcds_zone), in new
 * memory with one reference, and sets *found to the id of the memcached item
 * that was copied.  Returns NULL if there is no copy, if it is older than age
 * ms, if it was made from another item than item_id, or if out of memory.  An
 * item_id of NULL accepts any copy.
 */

ngx_mcds_value_t *ngx_mcds_local_get(u_char *id, ngx_mcds_item_id_t *item_id,
    ngx_msec_t age, ngx_mcds_item_id_t *found);


/*
 * Returns the number of the purge counter for a key: the shared memory
 * (mcds_zone) has a table of counters of purges, and each belongs to many keys.
 * A page that varies and all its variants have the same counter.
 */

ngx_uint_t ngx_mcds_local_place(ngx_str_t *key);


/*
 * Returns the value of the purge counter with this number in shared memory
 * (mcds_zone).  Many pages share a counter, which is incremented when any
 * worker of this host purges one of these pages.  If memcached confirmed a copy
 * of a page before the last increment, memcached must be asked again before the
 * copy is served.
 */

ngx_atomic_uint_t ngx_mcds_local_purges(ngx_uint_t place);


/*
 * Increments the purge counter of a page's key.  If "forget" is set, the page's
 * copy in shared memory (mcds_zone) is dropped, too, so that it is not served
 * while memcached does not answer.
 */

void ngx_mcds_local_purged(ngx_str_t *pool, ngx_str_t *prefix, ngx_str_t *key,
    ngx_uint_t forget);


/*
 * Drops a page's copy from shared memory (mcds_zone) because memcached has
 * another version of the page, the one with the id item_id; if its CAS is 0,
 * because a worker has built another version, which memcached could not store.
 * A copy that was put there at the time "asked", when memcached was asked or
 * the store of the built page began, or later, stays: it may be a newer
 * version.
 */

void ngx_mcds_local_forget(u_char *id, ngx_mcds_item_id_t *item_id,
    uint64_t asked);


/*
 * Allocates zeroed shared memory in mcds_zone, dropping as many copies of pages
 * from it as necessary.  Returns NULL if there is not so much memory.  "local",
 * which has the copies of pages, may be NULL; ngx_mcds_local_attach() need not
 * have been called.
 */

void *ngx_mcds_local_room(ngx_mcds_local_t *local, ngx_slab_pool_t *shpool,
    size_t size);


/*
 * Returns the size in bytes of the shared memory zone (mcds_zone), which is
 * also the maximum size of the copies of pages that one worker keeps in its own
 * memory; 0 without a zone.
 */

size_t ngx_mcds_local_size(void);


#endif /* _NGX_MCDS_LOCAL_H_INCLUDED_ */

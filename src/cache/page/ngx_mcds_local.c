
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_md5.h>
#include "ngx_mcds_entry.h"
#include "ngx_mcds_local.h"
#include "ngx_mcds_timer.h"
#include "ngx_mcds_vary.h"


/*
 * the maximum number of claims, by which workers of one host tell each other
 * that they build a page; further builds of pages have no claim
 */
#define NGX_MCDS_CLAIMS           1024
#define NGX_MCDS_CLAIM_PROBES     8

/* the interval at which a worker extends its claims to build pages, ms */
#define NGX_MCDS_CLAIM_EXTEND     500

/*
 * how long the outcome of a page's build is NGX_MCDS_LOCAL_ALONE, ms: only the
 * worker that built the page has it, so each other worker builds the page, too
 */
#define NGX_MCDS_CLAIM_ALONE      1000

/*
 * the time without another build after which the failed builds of a page are
 * counted from zero again, ms
 */
#define NGX_MCDS_CLAIM_FORGET     60000

#define NGX_MCDS_SNAPSHOT_BUCKETS 1024

#define NGX_MCDS_PURGES           1024

/*
 * the maximum number of copies of pages that are dropped from the shared memory
 * (mcds_zone) to make room for a new copy
 */
#define NGX_MCDS_SNAPSHOT_EVICT   64


struct ngx_mcds_claim_s {
    u_char               id[NGX_MCDS_LOCAL_ID];
    ngx_pid_t            pid;          /* worker that builds the page; 0: no
                                          worker has claimed the build */
    uint64_t             build;
    uint64_t             expire;       /* time when the claim to build the page
                                          ends, unless it is extended */
    uint64_t             until;        /* time when the outcome of the last
                                          build, in "state", is forgotten */
    ngx_uint_t           state;        /* how the last build of the page ended,
                                          ngx_mcds_local_e */
    ngx_uint_t           step;
    ngx_uint_t           wanted;
};


/* a copy of a page in shared memory (mcds_zone) */

typedef struct ngx_mcds_kept_snapshot_s  ngx_mcds_kept_snapshot_t;

struct ngx_mcds_kept_snapshot_s {
    ngx_queue_t                lru;
    ngx_mcds_kept_snapshot_t  *next;   /* next copy of a page in the same hash
                                          bucket */
    u_char                     id[NGX_MCDS_LOCAL_ID];
    ngx_mcds_item_id_t         item_id;
    uint64_t                   stored;
    size_t                     len;
    u_char                     data[1];
};


struct ngx_mcds_local_s {
    ngx_mcds_claim_t           claims[NGX_MCDS_CLAIMS];
    ngx_mcds_kept_snapshot_t  *buckets[NGX_MCDS_SNAPSHOT_BUCKETS];
    ngx_queue_t                lru;
    ngx_atomic_t               purges[NGX_MCDS_PURGES];
};


static ngx_mcds_claim_t *ngx_mcds_claim_find(u_char *id);
static ngx_mcds_claim_t *ngx_mcds_claim_place(u_char *id);
static ngx_uint_t ngx_mcds_claim_held(ngx_mcds_claim_t *claim);
static ngx_uint_t ngx_mcds_claim_used(ngx_mcds_claim_t *claim);
static ngx_int_t ngx_mcds_claim_state(ngx_mcds_claim_t *claim,
    ngx_mcds_local_left_t *left);
static void ngx_mcds_claim_extend(ngx_event_t *ev);
static ngx_uint_t ngx_mcds_local_hash(u_char *id);
static ngx_mcds_kept_snapshot_t **ngx_mcds_local_find(ngx_mcds_local_t *local,
    u_char *id);
static void *ngx_mcds_local_alloc(ngx_mcds_local_t *local,
    ngx_slab_pool_t *shpool, size_t size, ngx_uint_t evict);
static void ngx_mcds_local_drop(ngx_slab_pool_t *shpool,
    ngx_mcds_kept_snapshot_t **link);


/*
 * in shared memory (mcds_zone): the copies of pages and the claims to build
 * pages; in this worker: its own claims
 */

static ngx_mcds_local_t  *ngx_mcds_local;
static ngx_slab_pool_t   *ngx_mcds_local_pool;
static ngx_queue_t        ngx_mcds_local_holds;
static ngx_event_t        ngx_mcds_local_timer;


ngx_mcds_local_t *
ngx_mcds_local_create(ngx_slab_pool_t *shpool)
{
    ngx_mcds_local_t  *local;

    local = ngx_slab_calloc(shpool, sizeof(ngx_mcds_local_t));

    if (local) {
        ngx_queue_init(&local->lru);
    }

    return local;
}


void
ngx_mcds_local_attach(ngx_mcds_local_t *local, ngx_slab_pool_t *shpool)
{
    ngx_mcds_local = local;
    ngx_mcds_local_pool = shpool;

    ngx_queue_init(&ngx_mcds_local_holds);

    ngx_mcds_timer_init(&ngx_mcds_local_timer, ngx_mcds_claim_extend);
    ngx_mcds_local_timer.cancelable = 1;
}


ngx_uint_t
ngx_mcds_item_id_same(ngx_mcds_item_id_t *a, ngx_mcds_item_id_t *b)
{
    return a->cas && a->cas == b->cas && a->flags == b->flags;
}


void
ngx_mcds_local_id(u_char *id, ngx_str_t *pool, ngx_str_t *key)
{
    ngx_md5_t  md5;

    ngx_md5_init(&md5);
    ngx_md5_update(&md5, pool->data, pool->len);
    ngx_md5_update(&md5, "", 1);
    ngx_md5_update(&md5, key->data, key->len);
    ngx_md5_final(id, &md5);
}


size_t
ngx_mcds_local_size(void)
{
    return ngx_mcds_local ? ngx_mcds_local_pool->end
                            - (u_char *) ngx_mcds_local_pool
                          : 0;
}


ngx_int_t
ngx_mcds_local_claim(ngx_mcds_hold_t *hold, ngx_msec_t age,
    ngx_mcds_local_left_t *left)
{
    ngx_int_t          rc;
    ngx_mcds_claim_t  *claim;

    ngx_memzero(left, sizeof(ngx_mcds_local_left_t));

    if (ngx_mcds_local == NULL || hold->claim) {
        return NGX_DECLINED;
    }

    ngx_shmtx_lock(&ngx_mcds_local_pool->mutex);

    rc = NGX_DECLINED;
    claim = ngx_mcds_claim_place(hold->id);

    if (claim) {
        rc = ngx_mcds_claim_state(claim, left);

        if (rc == NGX_OK && left->state == NGX_MCDS_LOCAL_ALONE) {
            rc = NGX_DECLINED;

        } else if (rc == NGX_OK) {
            claim->pid = ngx_pid;
            claim->build = hold->build;
            claim->expire = ngx_mcds_clock(ngx_current_msec) + age;
            claim->wanted = 0;
            claim->state = NGX_MCDS_LOCAL_FREE;

        } else if (rc == NGX_BUSY) {
            claim->wanted = 1;
        }
    }

    ngx_shmtx_unlock(&ngx_mcds_local_pool->mutex);

    if (rc == NGX_OK) {
        hold->claim = claim;
        hold->age = age;
        ngx_queue_insert_tail(&ngx_mcds_local_holds, &hold->queue);

        if (!ngx_mcds_local_timer.timer_set) {
            ngx_add_timer(&ngx_mcds_local_timer, NGX_MCDS_CLAIM_EXTEND);
        }
    }

    return rc;
}


ngx_int_t
ngx_mcds_local_look(u_char *id, ngx_uint_t wait, ngx_mcds_local_left_t *left)
{
    ngx_int_t          rc;
    ngx_mcds_claim_t  *claim;

    ngx_memzero(left, sizeof(ngx_mcds_local_left_t));

    if (ngx_mcds_local == NULL) {
        return NGX_DECLINED;
    }

    ngx_shmtx_lock(&ngx_mcds_local_pool->mutex);

    rc = NGX_OK;
    claim = ngx_mcds_claim_find(id);

    if (claim) {
        rc = ngx_mcds_claim_state(claim, left);

        if (rc == NGX_BUSY && wait) {
            claim->wanted = 1;
        }
    }

    ngx_shmtx_unlock(&ngx_mcds_local_pool->mutex);

    return rc;
}


ngx_uint_t
ngx_mcds_local_wanted(ngx_mcds_hold_t *hold)
{
    ngx_uint_t  wanted;

    if (hold->claim == NULL) {
        return 0;
    }

    ngx_shmtx_lock(&ngx_mcds_local_pool->mutex);

    wanted = hold->claim->wanted;

    ngx_shmtx_unlock(&ngx_mcds_local_pool->mutex);

    return wanted;
}


void
ngx_mcds_local_release(ngx_mcds_hold_t *hold, ngx_mcds_local_left_t *left)
{
    ngx_mcds_claim_t  *claim;

    claim = hold->claim;

    if (claim == NULL) {
        return;
    }

    hold->claim = NULL;
    ngx_queue_remove(&hold->queue);

    ngx_shmtx_lock(&ngx_mcds_local_pool->mutex);

    /*
     * if this worker was stopped for too long, another worker may have claimed
     * the build of the page meanwhile
     */

    if (claim->pid == ngx_pid
        && ngx_memcmp(claim->id, hold->id, NGX_MCDS_LOCAL_ID) == 0)
    {
        claim->pid = 0;
        claim->wanted = 0;
        claim->state = left->state;
        claim->step = left->step;
        claim->until = ngx_mcds_clock(ngx_current_msec)
                       + (left->state == NGX_MCDS_LOCAL_ALONE
                          ? NGX_MCDS_CLAIM_ALONE : left->left);
    }

    ngx_shmtx_unlock(&ngx_mcds_local_pool->mutex);
}


static ngx_mcds_claim_t *
ngx_mcds_claim_find(u_char *id)
{
    ngx_uint_t         i, hash;
    ngx_mcds_claim_t  *claim;

    hash = ngx_mcds_local_hash(id);

    for (i = 0; i < NGX_MCDS_CLAIM_PROBES; i++) {
        claim = &ngx_mcds_local->claims[(hash + i) % NGX_MCDS_CLAIMS];

        if (ngx_memcmp(claim->id, id, NGX_MCDS_LOCAL_ID) == 0) {
            return claim;
        }
    }

    return NULL;
}


/*
 * Returns the claim to build a page (this host's lock) in shared memory
 * (mcds_zone); if the page has none, a free one.  NULL: there is no room.
 */

static ngx_mcds_claim_t *
ngx_mcds_claim_place(u_char *id)
{
    ngx_uint_t         i, hash;
    ngx_mcds_claim_t  *claim;

    claim = ngx_mcds_claim_find(id);

    if (claim) {
        return claim;
    }

    hash = ngx_mcds_local_hash(id);

    for (i = 0; i < NGX_MCDS_CLAIM_PROBES; i++) {
        claim = &ngx_mcds_local->claims[(hash + i) % NGX_MCDS_CLAIMS];

        if (!ngx_mcds_claim_used(claim)) {
            ngx_memzero(claim, sizeof(ngx_mcds_claim_t));
            ngx_memcpy(claim->id, id, NGX_MCDS_LOCAL_ID);
            return claim;
        }
    }

    return NULL;
}


static ngx_uint_t
ngx_mcds_claim_held(ngx_mcds_claim_t *claim)
{
    if (claim->pid == 0) {
        return 0;
    }

    if (claim->expire <= ngx_mcds_clock(ngx_current_msec)
        || (claim->pid != ngx_pid
            && kill(claim->pid, 0) == -1 && ngx_errno == NGX_ESRCH))
    {
        claim->pid = 0;
        claim->state = NGX_MCDS_LOCAL_FREE;
        return 0;
    }

    return 1;
}


static ngx_uint_t
ngx_mcds_claim_used(ngx_mcds_claim_t *claim)
{
    return ngx_mcds_claim_held(claim)
           || (claim->state != NGX_MCDS_LOCAL_FREE
               && claim->until > ngx_mcds_clock(ngx_current_msec));
}


static ngx_int_t
ngx_mcds_claim_state(ngx_mcds_claim_t *claim, ngx_mcds_local_left_t *left)
{
    int64_t  ms;

    if (ngx_mcds_claim_held(claim)) {
        left->build = claim->build;

        return (claim->pid == ngx_pid) ? NGX_DECLINED : NGX_BUSY;
    }

    left->step = claim->step;

    ms = claim->until - ngx_mcds_clock(ngx_current_msec);

    if (claim->state != NGX_MCDS_LOCAL_FREE && ms > 0) {
        left->state = claim->state;
        left->left = ms;

        return (claim->state == NGX_MCDS_LOCAL_FAILED) ? NGX_ABORT : NGX_OK;
    }

    if (ms <= - NGX_MCDS_CLAIM_FORGET) {
        left->step = 0;
    }

    return NGX_OK;
}


/*
 * extends all claims by which this worker tells other workers of the host that
 * it builds a page
 */

static void
ngx_mcds_claim_extend(ngx_event_t *ev)
{
    ngx_queue_t       *q;
    ngx_mcds_hold_t   *hold;
    ngx_mcds_claim_t  *claim;

    if (ngx_queue_empty(&ngx_mcds_local_holds)) {
        return;
    }

    ngx_shmtx_lock(&ngx_mcds_local_pool->mutex);

    for (q = ngx_queue_head(&ngx_mcds_local_holds);
         q != ngx_queue_sentinel(&ngx_mcds_local_holds);
         q = ngx_queue_next(q))
    {
        hold = ngx_queue_data(q, ngx_mcds_hold_t, queue);
        claim = hold->claim;

        if (claim->pid == ngx_pid
            && ngx_memcmp(claim->id, hold->id, NGX_MCDS_LOCAL_ID) == 0)
        {
            claim->expire = ngx_mcds_clock(ngx_current_msec) + hold->age;
        }
    }

    ngx_shmtx_unlock(&ngx_mcds_local_pool->mutex);

    ngx_add_timer(&ngx_mcds_local_timer, NGX_MCDS_CLAIM_EXTEND);
}


static ngx_uint_t
ngx_mcds_local_hash(u_char *id)
{
    uint32_t  hash;

    ngx_memcpy(&hash, id, sizeof(uint32_t));

    return hash;
}


ngx_int_t
ngx_mcds_local_put(u_char *id, ngx_mcds_value_t *value,
    ngx_mcds_item_id_t *item_id)
{
    size_t                      size;
    ngx_mcds_kept_snapshot_t   *snapshot, **link;

    if (ngx_mcds_local == NULL || value->len > ngx_mcds_local_size() / 8) {
        return NGX_DECLINED;
    }

    size = offsetof(ngx_mcds_kept_snapshot_t, data) + value->len;

    ngx_shmtx_lock(&ngx_mcds_local_pool->mutex);

    link = ngx_mcds_local_find(ngx_mcds_local, id);

    if (*link) {
        snapshot = *link;

        if (ngx_mcds_item_id_same(&snapshot->item_id, item_id)) {
            snapshot->stored = ngx_mcds_clock(ngx_current_msec);
            ngx_shmtx_unlock(&ngx_mcds_local_pool->mutex);
            return NGX_OK;
        }

        ngx_mcds_local_drop(ngx_mcds_local_pool, link);
    }

    snapshot = ngx_mcds_local_alloc(ngx_mcds_local, ngx_mcds_local_pool, size,
                                    NGX_MCDS_SNAPSHOT_EVICT);

    if (snapshot) {
        link = &ngx_mcds_local->buckets[ngx_mcds_local_hash(id)
                                        % NGX_MCDS_SNAPSHOT_BUCKETS];

        ngx_memcpy(snapshot->id, id, NGX_MCDS_LOCAL_ID);
        snapshot->item_id = *item_id;
        snapshot->stored = ngx_mcds_clock(ngx_current_msec);
        snapshot->len = value->len;
        ngx_memcpy(snapshot->data, value->data, value->len);

        /*
         * a page's copy enters first the LRU queue, then a hash bucket: if the
         * worker is killed in between, the copy is later found in the queue and
         * freed
         */

        ngx_queue_insert_head(&ngx_mcds_local->lru, &snapshot->lru);
        ngx_memory_barrier();

        snapshot->next = *link;
        *link = snapshot;
    }

    ngx_shmtx_unlock(&ngx_mcds_local_pool->mutex);

    return snapshot ? NGX_OK : NGX_DECLINED;
}


ngx_mcds_value_t *
ngx_mcds_local_get(u_char *id, ngx_mcds_item_id_t *item_id, ngx_msec_t age,
    ngx_mcds_item_id_t *found)
{
    ngx_mcds_value_t          *value;
    ngx_mcds_kept_snapshot_t  *snapshot;

    value = NULL;

    if (ngx_mcds_local == NULL) {
        return NULL;
    }

    ngx_shmtx_lock(&ngx_mcds_local_pool->mutex);

    snapshot = *ngx_mcds_local_find(ngx_mcds_local, id);

    if (snapshot
        && (item_id == NULL
            || ngx_mcds_item_id_same(&snapshot->item_id, item_id))
        && ngx_mcds_clock(ngx_current_msec) <= snapshot->stored + age)
    {
        value = ngx_mcds_value_create(snapshot->len, ngx_cycle->log);

        if (value) {
            ngx_memcpy(value->data, snapshot->data, snapshot->len);
            value->len = snapshot->len;
            *found = snapshot->item_id;

            ngx_queue_remove(&snapshot->lru);
            ngx_queue_insert_head(&ngx_mcds_local->lru, &snapshot->lru);
        }
    }

    ngx_shmtx_unlock(&ngx_mcds_local_pool->mutex);

    return value;
}


ngx_uint_t
ngx_mcds_local_place(ngx_str_t *key)
{
    ngx_str_t  base;

    base = *key;

    if (ngx_mcds_varying) {
        ngx_mcds_varying->base(key, &base);
    }

    return ngx_mcds_crc32c(0, base.data, base.len) % NGX_MCDS_PURGES;
}


ngx_atomic_uint_t
ngx_mcds_local_purges(ngx_uint_t place)
{
    return ngx_mcds_local ? ngx_mcds_local->purges[place] : 0;
}


void
ngx_mcds_local_purged(ngx_str_t *pool, ngx_str_t *key, ngx_uint_t forget)
{
    u_char                      id[NGX_MCDS_LOCAL_ID];
    ngx_mcds_kept_snapshot_t  **link;

    if (ngx_mcds_local == NULL) {
        return;
    }

    if (forget) {
        ngx_mcds_local_id(id, pool, key);

        ngx_shmtx_lock(&ngx_mcds_local_pool->mutex);

        link = ngx_mcds_local_find(ngx_mcds_local, id);

        if (*link) {
            ngx_mcds_local_drop(ngx_mcds_local_pool, link);
        }

        ngx_shmtx_unlock(&ngx_mcds_local_pool->mutex);
    }

    (void) ngx_atomic_fetch_add(
                          &ngx_mcds_local->purges[ngx_mcds_local_place(key)],
                          1);
}


void *
ngx_mcds_local_room(ngx_mcds_local_t *local, ngx_slab_pool_t *shpool,
    size_t size)
{
    void  *p;

    ngx_shmtx_lock(&shpool->mutex);

    p = local ? ngx_mcds_local_alloc(local, shpool, size, NGX_MAX_UINT32_VALUE)
              : ngx_slab_alloc_locked(shpool, size);

    ngx_shmtx_unlock(&shpool->mutex);

    if (p) {
        ngx_memzero(p, size);
    }

    return p;
}


static ngx_mcds_kept_snapshot_t **
ngx_mcds_local_find(ngx_mcds_local_t *local, u_char *id)
{
    ngx_mcds_kept_snapshot_t  **link;

    link = &local->buckets[ngx_mcds_local_hash(id) % NGX_MCDS_SNAPSHOT_BUCKETS];

    while (*link && ngx_memcmp((*link)->id, id, NGX_MCDS_LOCAL_ID) != 0) {
        link = &(*link)->next;
    }

    return link;
}


/*
 * Allocates shared memory in mcds_zone.  To make room, drops at most "evict"
 * copies of pages, those that were read least recently.
 */

static void *
ngx_mcds_local_alloc(ngx_mcds_local_t *local, ngx_slab_pool_t *shpool,
    size_t size, ngx_uint_t evict)
{
    void                       *p;
    ngx_queue_t                *q;
    ngx_mcds_kept_snapshot_t   *snapshot, **link;

    while (evict--) {

        p = ngx_slab_alloc_locked(shpool, size);

        if (p || ngx_queue_empty(&local->lru)) {
            return p;
        }

        q = ngx_queue_last(&local->lru);
        snapshot = ngx_queue_data(q, ngx_mcds_kept_snapshot_t, lru);

        link = ngx_mcds_local_find(local, snapshot->id);

        if (*link == snapshot) {
            ngx_mcds_local_drop(shpool, link);
            continue;
        }

        /* a worker was killed while it added or dropped this copy of a page */

        ngx_queue_remove(q);
        ngx_slab_free_locked(shpool, snapshot);
    }

    return NULL;
}


static void
ngx_mcds_local_drop(ngx_slab_pool_t *shpool, ngx_mcds_kept_snapshot_t **link)
{
    ngx_mcds_kept_snapshot_t  *snapshot;

    snapshot = *link;
    *link = snapshot->next;

    ngx_queue_remove(&snapshot->lru);
    ngx_slab_free_locked(shpool, snapshot);
}

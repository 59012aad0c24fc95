
/*
 * Copyright (C) mcds authors
 *
 * The copies of pages in shared memory (mcds_zone), and the counters of this
 * host's purges.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_md5.h>
#include "ngx_mcds_entry.h"
#include "ngx_mcds_local_core.h"
#include "ngx_mcds_vary.h"


/*
 * the maximum number of copies of pages that are dropped from the shared memory
 * (mcds_zone) to make room for a new copy
 */
#define NGX_MCDS_SNAPSHOT_EVICT   64


/* a copy of a page in shared memory (mcds_zone) */

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


static ngx_mcds_kept_snapshot_t **ngx_mcds_local_find(ngx_mcds_local_t *local,
    u_char *id);
static void *ngx_mcds_local_alloc(ngx_mcds_local_t *local,
    ngx_slab_pool_t *shpool, size_t size, ngx_uint_t evict);
static void ngx_mcds_local_drop(ngx_slab_pool_t *shpool,
    ngx_mcds_kept_snapshot_t **link);


ngx_mcds_local_t  *ngx_mcds_local;
ngx_slab_pool_t   *ngx_mcds_local_pool;


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

    ngx_mcds_claim_init();
}


void
ngx_mcds_local_id(u_char *id, ngx_str_t *pool, ngx_str_t *prefix,
    ngx_str_t *key)
{
    ngx_md5_t  md5;

    ngx_md5_init(&md5);
    ngx_md5_update(&md5, pool->data, pool->len);
    ngx_md5_update(&md5, "", 1);
    ngx_md5_update(&md5, prefix->data, prefix->len);
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
ngx_mcds_local_purged(ngx_str_t *pool, ngx_str_t *prefix, ngx_str_t *key,
    ngx_uint_t forget)
{
    u_char                      id[NGX_MCDS_LOCAL_ID];
    ngx_mcds_kept_snapshot_t  **link;

    if (ngx_mcds_local == NULL) {
        return;
    }

    if (forget) {
        ngx_mcds_local_id(id, pool, prefix, key);

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


void
ngx_mcds_local_forget(u_char *id, ngx_mcds_item_id_t *item_id, uint64_t asked)
{
    ngx_mcds_kept_snapshot_t  *snapshot, **link;

    if (ngx_mcds_local == NULL) {
        return;
    }

    ngx_shmtx_lock(&ngx_mcds_local_pool->mutex);

    link = ngx_mcds_local_find(ngx_mcds_local, id);
    snapshot = *link;

    if (snapshot
        && snapshot->stored < asked
        && !ngx_mcds_item_id_same(&snapshot->item_id, item_id))
    {
        ngx_mcds_local_drop(ngx_mcds_local_pool, link);
    }

    ngx_shmtx_unlock(&ngx_mcds_local_pool->mutex);
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


/*
 * Copyright (C) mcds authors
 *
 * The copies of pages in shared memory: after a worker was killed while it
 * added or dropped one of them, the copy is in the queue of all copies, but not
 * in its bucket; and a worker that has learned of another version of a page
 * drops an older copy, but none that may be newer.
 */


#include "../../src/cache/page/ngx_mcds_claim.c"
#include "../../src/cache/page/ngx_mcds_local.c"
#include "tap.h"


#define ROOM  8


static void test_lost(ngx_uint_t n);
static void test_forget(void);
static ngx_int_t put(ngx_uint_t n);
static ngx_uint_t there(ngx_uint_t n);
static void make_id(u_char *id, ngx_uint_t n);


static ngx_uint_t       used;
static ngx_slab_pool_t  pool;

ngx_rbtree_t            ngx_event_timer_rbtree;
ngx_mcds_varying_t     *ngx_mcds_varying;


int
main(void)
{
    ngx_uint_t  i;

    for (i = 0; i < ROOM; i++) {
        test_lost(i);
    }

    test_forget();

    return done_testing();
}


static void
test_lost(ngx_uint_t n)
{
    u_char                      id[NGX_MCDS_LOCAL_ID];
    ngx_uint_t                  i, kept;
    ngx_mcds_local_t           *local;
    ngx_mcds_kept_snapshot_t   *snapshot, **link;

    used = 0;
    pool.end = (u_char *) &pool + 1024 * 1024;

    local = ngx_mcds_local_create(&pool);
    ngx_mcds_local_attach(local, &pool);

    for (i = 0; i < ROOM; i++) {
        (void) put(i);
    }

    for (kept = 0, i = 0; i < ROOM; i++) {
        kept += there(i);
    }

    ok(kept == ROOM, "copy %d: all copies are there", (int) n);

    /*
     * removes the copy of page n from its hash bucket, but not from the queue
     * of all copies, as a killed worker leaves it
     */

    make_id(id, n);
    link = ngx_mcds_local_find(local, id);
    *link = (*link)->next;

    ok(!there(n), "copy %d: is lost", (int) n);

    for (i = ROOM; i < 3 * ROOM; i++) {

        if (put(i) != NGX_OK || !there(i)) {
            break;
        }
    }

    ok(i == 3 * ROOM, "copy %d: others take its place", (int) n);

    for (kept = 0, i = 0; i < 3 * ROOM; i++) {
        kept += there(i);
    }

    ok(kept == ROOM, "copy %d: as many as there is room for", (int) n);

    while (!ngx_queue_empty(&local->lru)) {
        snapshot = ngx_queue_data(ngx_queue_head(&local->lru),
                                  ngx_mcds_kept_snapshot_t, lru);
        ngx_mcds_local_drop(&pool, ngx_mcds_local_find(local, snapshot->id));
    }

    ok(used == 0, "copy %d: no memory is lost", (int) n);

    ngx_free(local);
}


static void
test_forget(void)
{
    u_char               id[NGX_MCDS_LOCAL_ID];
    ngx_mcds_local_t    *local;
    ngx_mcds_item_id_t   item_id;

    used = 0;
    pool.end = (u_char *) &pool + 1024 * 1024;

    local = ngx_mcds_local_create(&pool);
    ngx_mcds_local_attach(local, &pool);

    ngx_memzero(&item_id, sizeof(ngx_mcds_item_id_t));

    /* the copy is of the item with a CAS of 1 */

    ngx_current_msec = 1000;
    make_id(id, 0);
    (void) put(0);

    item_id.cas = 2;
    ngx_mcds_local_forget(id, &item_id, 1000);

    ok(there(0), "forget: a copy that came after the question stays");

    item_id.cas = 1;
    ngx_mcds_local_forget(id, &item_id, 1001);

    ok(there(0), "forget: a copy of the same item stays");

    item_id.cas = 2;
    ngx_mcds_local_forget(id, &item_id, 1001);

    ok(!there(0) && used == 0, "forget: a copy of another item is dropped");

    ngx_mcds_local_forget(id, &item_id, 1001);

    ok(!there(0), "forget: without a copy there is nothing to do");

    (void) put(0);

    item_id.cas = 0;
    ngx_mcds_local_forget(id, &item_id, 1001);

    ok(!there(0), "forget: a page that memcached does not have excludes it");

    ngx_free(local);
}


static ngx_int_t
put(ngx_uint_t n)
{
    u_char               id[NGX_MCDS_LOCAL_ID];
    ngx_mcds_value_t     value;
    ngx_mcds_item_id_t   item_id;

    ngx_memzero(&value, sizeof(ngx_mcds_value_t));
    ngx_memzero(&item_id, sizeof(ngx_mcds_item_id_t));

    item_id.cas = n + 1;

    make_id(id, n);

    return ngx_mcds_local_put(id, &value, &item_id);
}


static ngx_uint_t
there(ngx_uint_t n)
{
    u_char  id[NGX_MCDS_LOCAL_ID];

    make_id(id, n);

    return *ngx_mcds_local_find(ngx_mcds_local, id) != NULL;
}


static void
make_id(u_char *id, ngx_uint_t n)
{
    ngx_memset(id, (int) n, NGX_MCDS_LOCAL_ID);
}


/* replaces nginx's allocation: shared memory has room for ROOM page copies */

void *
ngx_slab_alloc_locked(ngx_slab_pool_t *shpool, size_t size)
{
    if (used == ROOM) {
        return NULL;
    }

    used++;

    return ngx_alloc(size, ngx_cycle->log);
}


void
ngx_slab_free_locked(ngx_slab_pool_t *shpool, void *p)
{
    used--;
    ngx_free(p);
}


void *
ngx_slab_calloc(ngx_slab_pool_t *shpool, size_t size)
{
    return ngx_calloc(size, ngx_cycle->log);
}


void
ngx_rbtree_insert(ngx_rbtree_t *tree, ngx_rbtree_node_t *node)
{
    /* void */
}


void
ngx_rbtree_delete(ngx_rbtree_t *tree, ngx_rbtree_node_t *node)
{
    /* void */
}


/*
 * Copyright (C) mcds authors
 *
 * Random operations compare ngx_mcds_index.h, a hash table with keys and idle
 * nodes, with a model: the list of all nodes, searched from the newest.  Small
 * limits make the index full most of the time; few keys, hashes and buckets
 * make collisions frequent.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds.h"
#include "ngx_mcds_index.h"
#include "tap.h"


#define MANY   400
#define ROUNDS 60
#define STEPS  4000


typedef struct {
    u_char                  before[3];   /* gives the field "node" an offset */
    ngx_mcds_index_node_t   node;
    ngx_uint_t              there;
    ngx_uint_t              idle;
    ngx_uint_t              inserted;    /* serial number of the insertion */
    ngx_uint_t              used;        /* serial number of the last use */
    u_char                  key[4];
} item_t;


static void test_empty(void);
static void test_drop_uses(void);
static void test_random(void);
static void round_of(ngx_uint_t round);
static void step(void);
static ngx_int_t insert(item_t *item);
static item_t *any(void);
static void fill(item_t *item);
static ngx_int_t model_insert(item_t *item);
static void model_idle(item_t *item);
static void model_drop(void);
static item_t *model_last(void);
static ngx_uint_t model_idle_full(void);
static void count(void);
static void compare(void);
static void compare_found(void);
static void compare_order(void);
static void dropped(ngx_mcds_index_node_t *node);
static void dropped_uses(ngx_mcds_index_node_t *node);
static void walked(ngx_mcds_index_node_t *node, void *data);
static void removed(ngx_mcds_index_node_t *node, void *data);
static ngx_uint_t rnd(ngx_uint_t n);


static ngx_mcds_index_node_t  *buckets[8];
static ngx_mcds_index_t        tested;
static item_t                  items[MANY];
static item_t                 *drops[MANY];    /* items that the tested index
                                                  must drop, in order, when
                                                  it is full */
static ngx_uint_t              ndrops;
static ngx_uint_t              seen_drops;
static ngx_uint_t              wrong;
static ngx_uint_t              order;
static ngx_uint_t              nodes, idles;   /* numbers of nodes and of idle
                                                  nodes that the tested index
                                                  must have */
static size_t                  bytes, idle_bytes;
static ngx_uint_t              all_drops, all_busy, all_found, all_twins;


int
main(void)
{
    srandom(tap_seed(21));

    test_empty();
    test_drop_uses();
    test_random();

    return done_testing();
}


static void
test_empty(void)
{
    ngx_str_t         key = ngx_string("k");
    ngx_uint_t        n;
    item_t           *item;
    ngx_mcds_index_t  index = ngx_mcds_index(buckets, 2, 20, 0, 0, NULL);

    item = items;
    n = 0;

    ok(ngx_mcds_index_find(&index, NULL, &key, 1) == NULL, "empty: not found");

    ngx_mcds_index_walk(&index, walked, &n);
    ok(n == 0, "empty: nothing to walk");

    ngx_mcds_index_remove(&index, &item->node);
    ok(index.count == 0, "a node that is in no index can be removed");

    ok(ngx_mcds_index_insert(&index, &item[0].node, NULL, &key, 0, 21)
       == NGX_BUSY,
       "a node that is too large is not inserted");
    ngx_mcds_index_remove(&index, &item[0].node);

    ok(ngx_mcds_index_insert(&index, &item[0].node, NULL, &key, 0, 1) == NGX_OK
       && ngx_mcds_index_insert(&index, &item[1].node, NULL, &key, 0, 1)
          == NGX_OK
       && ngx_mcds_index_insert(&index, &item[2].node, NULL, &key, 0, 1)
          == NGX_BUSY,
       "without idle nodes: bounded by their number");

    ok(ngx_mcds_index_find(&index, NULL, &key, 0) == &item[1].node,
       "the newest is found first");
    ok(ngx_mcds_index_next(&item[1].node) == &item[0].node
       && ngx_mcds_index_next(&item[0].node) == NULL, "then the one before");

    ngx_mcds_index_walk(&index, removed, &index);
    ok(index.count == 0 && index.size == 0, "all can be removed in a walk");

    ngx_memzero(items, sizeof(items));
}


/* The handler that is called for a dropped node drops another node. */

static void
test_drop_uses(void)
{
    ngx_uint_t  i;

    tested = (ngx_mcds_index_t)
             ngx_mcds_index(buckets, 100, 1000, 3, 1000, dropped_uses);

    seen_drops = 0;

    for (i = 0; i < 4; i++) {
        fill(&items[i]);
        items[i].node.size = 1;
        (void) insert(&items[i]);
    }

    for (i = 0; i < 4; i++) {
        ngx_mcds_index_idle(&tested, &items[i].node);
    }

    ok(seen_drops == 1 && tested.count == 2 && tested.idle_count == 2
       && tested.size == 2 && tested.idle_size == 2,
       "drop may remove another idle node");
    ok(items[0].node.link == NULL && items[1].node.link == NULL,
       "the two least recently used are gone");

    ngx_mcds_index_walk(&tested, removed, &tested);
    ngx_memzero(items, sizeof(items));
}


static void
test_random(void)
{
    ngx_uint_t  i;

    for (i = 0; i < ROUNDS && wrong == 0; i++) {
        round_of(i);
    }

    ok(wrong == 0, "as the model: %d operations", ROUNDS * STEPS);

    /* each kind of operation on the index has occurred often */

    ok(all_drops > STEPS, "of them, nodes dropped: %d", (int) all_drops);
    ok(all_busy > STEPS, "insertions refused: %d", (int) all_busy);
    ok(all_found > STEPS, "keys found: %d", (int) all_found);
    ok(all_twins > STEPS, "more than once: %d", (int) all_twins);
}


static void
round_of(ngx_uint_t round)
{
    ngx_uint_t  i, n;

    tested = (ngx_mcds_index_t)
             ngx_mcds_index(buckets, 1 + rnd(200), 1 + rnd(6000),
                            rnd(200), rnd(6000), dropped);

    if (round % 4 == 1) {
        tested.max = MANY;
        tested.max_size = 100 * MANY;

    } else if (round % 4 == 2) {
        tested.max_idle = MANY;
        tested.max_idle_size = 100 * MANY;
    }

    ngx_memzero(items, sizeof(items));

    for (i = 0; i < STEPS && wrong == 0; i++) {
        step();

        if (i % 8 == 0) {
            compare();
        }
    }

    n = 0;
    ngx_mcds_index_walk(&tested, walked, &n);

    if (n != nodes) {
        wrong = 1;
    }

    ngx_mcds_index_walk(&tested, removed, &tested);

    if (tested.count || tested.size || tested.idle_count || tested.idle_size) {
        wrong = 1;
    }

    for (i = 0; i < 8; i++) {
        if (buckets[i]) {
            wrong = 1;
        }
    }

    if (wrong) {
        printf("# round %d: max %d, %d bytes, idle %d, %d bytes\n",
               (int) round, (int) tested.max, (int) tested.max_size,
               (int) tested.max_idle, (int) tested.max_idle_size);
    }
}


static void
step(void)
{
    item_t     *item;
    size_t      size;
    ngx_int_t   rc;

    item = any();
    ndrops = 0;
    seen_drops = 0;

    count();

    if (!item->there) {
        fill(item);
        rc = model_insert(item);

        if (insert(item) != rc) {
            wrong = 1;
        }

        all_busy += (rc == NGX_BUSY);

    } else {

        switch (rnd(8)) {

        case 0:
            item->there = 0;
            item->idle = 0;
            ngx_mcds_index_remove(&tested, &item->node);
            ngx_mcds_index_remove(&tested, &item->node);
            break;

        case 1:
        case 2:
            item->idle = 0;
            ngx_mcds_index_busy(&tested, &item->node);
            break;

        case 3:
            if (!item->idle) {
                size = rnd(100);
                ngx_mcds_index_resize(&tested, &item->node, size);
            }

            break;

        default:
            model_idle(item);
            ngx_mcds_index_idle(&tested, &item->node);
        }
    }

    if (seen_drops != ndrops) {
        wrong = 1;
    }

    all_drops += ndrops;

    count();

    if (tested.count != nodes || tested.size != bytes
        || tested.idle_count != idles || tested.idle_size != idle_bytes)
    {
        wrong = 1;
    }
}


static ngx_int_t
insert(item_t *item)
{
    ngx_mcds_index_node_t  *node;

    node = &item->node;

    return ngx_mcds_index_insert(&tested, node, node->pool, &node->key,
                                 node->hash, node->size);
}


static item_t *
any(void)
{
    return &items[rnd(MANY)];
}


/*
 * Gives a node a random key, hash and size.  Keys of different lengths may have
 * the same hash, and different hashes the same bucket.
 */

static void
fill(item_t *item)
{
    item->node.key.data = item->key;
    item->node.key.len = 1 + rnd(3);
    ngx_memset(item->key, 'a' + rnd(3), 4);

    item->node.pool = rnd(2) ? (void *) &tested : NULL;
    item->node.hash = (item->key[0] & 1) + 8 * item->node.key.len * rnd(2);
    item->node.size = rnd(100);
}


static ngx_int_t
model_insert(item_t *item)
{
    while (nodes >= tested.max || bytes + item->node.size > tested.max_size) {

        if (idles == 0) {
            return NGX_BUSY;
        }

        model_drop();
        count();
    }

    item->there = 1;
    item->idle = 0;
    item->inserted = ++order;

    return NGX_OK;
}


static void
model_idle(item_t *item)
{
    ngx_uint_t  was;

    was = item->idle;

    item->idle = 1;
    item->used = ++order;

    count();

    while (!was && idles && model_idle_full()) {
        model_drop();
        count();
    }
}


static ngx_uint_t
model_idle_full(void)
{
    return idles > tested.max_idle || idle_bytes > tested.max_idle_size
           || bytes > tested.max_size;
}


static void
model_drop(void)
{
    item_t  *item;

    item = model_last();
    item->there = 0;
    item->idle = 0;

    drops[ndrops++] = item;
}


static item_t *
model_last(void)
{
    item_t      *last;
    ngx_uint_t   i;

    last = NULL;

    for (i = 0; i < MANY; i++) {
        if (items[i].idle && (last == NULL || items[i].used < last->used)) {
            last = &items[i];
        }
    }

    return last;
}


static void
count(void)
{
    ngx_uint_t  i;

    nodes = 0;
    bytes = 0;
    idles = 0;
    idle_bytes = 0;

    for (i = 0; i < MANY; i++) {

        if (items[i].there) {
            nodes++;
            bytes += items[i].node.size;
        }

        if (items[i].idle) {
            idles++;
            idle_bytes += items[i].node.size;
        }
    }
}


static void
compare(void)
{
    compare_found();
    compare_order();
}


/*
 * Compares the nodes that the index finds for a random key, the newest first,
 * with the model, which searches the array "items".
 */

static void
compare_found(void)
{
    item_t                  probe, *next;
    ngx_uint_t               i, before;
    ngx_mcds_index_node_t   *node;

    fill(&probe);

    before = (ngx_uint_t) -1;

    node = ngx_mcds_index_find(&tested, probe.node.pool, &probe.node.key,
                               probe.node.hash);

    for ( ;; ) {
        next = NULL;

        for (i = 0; i < MANY; i++) {
            if (items[i].there
                && items[i].inserted < before
                && (next == NULL || items[i].inserted > next->inserted)
                && items[i].node.pool == probe.node.pool
                && items[i].node.hash == probe.node.hash
                && items[i].node.key.len == probe.node.key.len
                && items[i].key[0] == probe.key[0])
            {
                next = &items[i];
            }
        }

        if (next == NULL) {
            wrong |= (node != NULL);
            return;
        }

        all_found++;
        all_twins += (before != (ngx_uint_t) -1);

        if (node == NULL
            || ngx_mcds_index_data(node, item_t, node) != next)
        {
            wrong = 1;
            return;
        }

        before = next->inserted;
        node = ngx_mcds_index_next(node);
    }
}


/*
 * Compares the index's list of idle nodes, the last used one first, with the
 * model, the array "items".
 */

static void
compare_order(void)
{
    item_t                 *item;
    ngx_uint_t              n, before;
    ngx_queue_t            *q;
    ngx_mcds_index_node_t  *node;

    before = (ngx_uint_t) -1;
    n = 0;

    if (tested.idle.next == NULL) {
        return;
    }

    for (q = ngx_queue_head(&tested.idle);
         q != ngx_queue_sentinel(&tested.idle);
         q = ngx_queue_next(q))
    {
        node = ngx_queue_data(q, ngx_mcds_index_node_t, queue);
        item = ngx_mcds_index_data(node, item_t, node);

        if (!item->idle || item->used >= before) {
            wrong = 1;
        }

        before = item->used;
        n++;
    }

    if (n != idles) {
        wrong = 1;
    }
}


/*
 * Called for a node that the index has dropped: the node is no longer in the
 * index, and could be freed.
 */

static void
dropped(ngx_mcds_index_node_t *node)
{
    item_t  *item;

    item = ngx_mcds_index_data(node, item_t, node);

    if (seen_drops >= ndrops || drops[seen_drops++] != item
        || node->idle || node->link)
    {
        wrong = 1;
    }

    ngx_memset(node, 0xa5, sizeof(ngx_mcds_index_node_t));
}


static void
dropped_uses(ngx_mcds_index_node_t *node)
{
    ngx_queue_t  *q;

    seen_drops++;

    q = ngx_queue_last(&tested.idle);

    ngx_mcds_index_remove(&tested, ngx_queue_data(q, ngx_mcds_index_node_t,
                                                  queue));
}


static void
walked(ngx_mcds_index_node_t *node, void *data)
{
    ngx_uint_t *n = data;

    (*n)++;
}


static void
removed(ngx_mcds_index_node_t *node, void *data)
{
    ngx_mcds_index_t *index = data;

    ngx_mcds_index_remove(index, node);

    ngx_memset(node, 0xa5, sizeof(ngx_mcds_index_node_t));
}


static ngx_uint_t
rnd(ngx_uint_t n)
{
    return n ? (ngx_uint_t) random() % n : 0;
}

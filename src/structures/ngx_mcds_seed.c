
/*
 * Copyright (C) mcds authors
 *
 * A change of a counter is first sent to memcached.  If the counter is missing,
 * the change waits for the seed of the key, which fetches the initial value; a
 * worker has one seed of a key at a time:
 *
 *   lock -> look whether there is a counter now -> fetch -> add
 *     |                    ^
 *     +-- another worker has the lock: wait, look, lock again
 *
 * In the end all waiting changes continue, whatever the result.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_seed.h"
#include "ngx_mcds_lease.h"
#include "ngx_mcds_outbox.h"
#include "ngx_mcds_raise.h"
#include "ngx_mcds_index.h"


/*
 * the limits of a worker's seeds, which fetch the initial values of counters:
 * their number, and their bytes; beyond them the initial value of a further
 * counter is not fetched, as if out of memory
 */
#define NGX_MCDS_SEED_BUCKETS     64
#define NGX_MCDS_SEEDS            65536
#define NGX_MCDS_SEED_SIZE        (64 * 1024 * 1024)

/*
 * the time by which the lock for fetching a counter's initial value outlives a
 * worker that was killed, seconds
 */
#define NGX_MCDS_SEED_LOCK        5

/*
 * the time after a failure for which no worker fetches the counter's initial
 * value again, seconds
 */
#define NGX_MCDS_SEED_KEEP        2

/*
 * the first and the longest interval at which a worker looks whether another
 * host has created the counter, ms
 */
#define NGX_MCDS_SEED_FIRST       5
#define NGX_MCDS_SEED_LAST        100

/*
 * the maximum time that a worker waits for another host to create the counter,
 * ms
 */
#define NGX_MCDS_SEED_PATIENCE    60000

/* bytes of a counter's value as text: longer than that of any 64-bit number */
#define NGX_MCDS_SEED_LEN         64


struct ngx_mcds_increment_s {
    ngx_queue_t          queue;        /* link in the queue of changes that wait
                                          for the counter's initial value */
    ngx_mcds_seed_t     *seed;         /* fetch of the counter's initial value;
                                          NULL: this change of the counter is
                                          being sent to memcached */
    ngx_event_t          timer;
    ngx_msec_t           deadline;
    ngx_mcds_count_pt    handler;      /* handler that gets the counter's
                                          value; NULL: the request does not
                                          wait */
    void                *data;
    int64_t              delta;
    ngx_mcds_source_t    source;
    ngx_mcds_counter_t   counter;
    ngx_uint_t           sought;       /* 1: memcached did not have the counter
                                          when this change was first sent */
};


struct ngx_mcds_seed_s {
    ngx_mcds_index_node_t  node;
    ngx_mcds_op_t          op;           /* command about the missing counter,
                                            one at a time */
    ngx_queue_t            growing;      /* changes that wait for the counter's
                                            initial value,
                                            ngx_mcds_increment_t */

    /*
     * a change, in the queue "growing", that sums up the changes whose requests
     * no longer wait for the counter's initial value; or NULL
     */
    ngx_mcds_increment_t  *silent;

    ngx_mcds_lease_t      *lock;
    ngx_event_t            timer;
    ngx_msec_t             start;
    ngx_msec_t             wait;
    ngx_mcds_source_t      source;
    ngx_mcds_counter_t     counter;
};


static void ngx_mcds_seed_try(ngx_mcds_increment_t *increment);
static void ngx_mcds_seed_tried(void *data, ngx_uint_t rc, uint64_t value);
static void ngx_mcds_seed_join(ngx_mcds_increment_t *increment);
static void ngx_mcds_seed_timeout_handler(ngx_event_t *ev);
static void ngx_mcds_seed_silence(ngx_mcds_increment_t *increment);
static ngx_mcds_increment_t *ngx_mcds_seed_pop(ngx_mcds_seed_t *seed);
static void ngx_mcds_seed_give_up(ngx_mcds_increment_t *increment,
    ngx_uint_t rc);
static void ngx_mcds_seed_tell(ngx_mcds_increment_t *increment, ngx_uint_t rc,
    uint64_t value);
static void ngx_mcds_seed_settle(ngx_mcds_increment_t *increment, ngx_uint_t rc,
    uint64_t value);

static ngx_mcds_seed_t *ngx_mcds_seed_create(ngx_mcds_increment_t *increment,
    uint32_t hash);
static ngx_int_t ngx_mcds_seed_lock(ngx_mcds_seed_t *seed);
static void ngx_mcds_seed_locked(void *data, ngx_mcds_lease_t *lock,
    ngx_uint_t rc);
static void ngx_mcds_seed_read_lock(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_seed_wait_handler(ngx_event_t *ev);
static void ngx_mcds_seed_look(ngx_mcds_seed_t *seed);
static void ngx_mcds_seed_looked(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_seed_fetch(ngx_mcds_seed_t *seed);
static void ngx_mcds_seed_added(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_seed_ready(ngx_mcds_seed_t *seed);
static void ngx_mcds_seed_fail(ngx_mcds_seed_t *seed, char *reason);
static void ngx_mcds_seed_free(ngx_mcds_seed_t *seed, uint32_t keep);


static ngx_str_t    ngx_mcds_seed_suffix = ngx_string(NGX_MCDS_LEASE_SUFFIX);

static ngx_mcds_index_node_t  *ngx_mcds_seed_buckets[NGX_MCDS_SEED_BUCKETS];
static ngx_mcds_index_t  ngx_mcds_seeds =
    ngx_mcds_index(ngx_mcds_seed_buckets, NGX_MCDS_SEEDS, NGX_MCDS_SEED_SIZE,
                   0, 0, NULL);


ngx_mcds_increment_t *
ngx_mcds_seed_change(ngx_mcds_counter_t *counter, int64_t delta,
    ngx_mcds_source_t *source, ngx_mcds_count_pt handler, void *data)
{
    ngx_mcds_increment_t  *increment;

    increment = ngx_calloc(sizeof(ngx_mcds_increment_t) + counter->key.len,
                           ngx_cycle->log);
    if (increment == NULL) {
        return NULL;
    }

    increment->deadline = ngx_current_msec + source->timeout;
    increment->handler = handler;
    increment->data = data;
    increment->delta = delta;
    increment->source = *source;
    increment->counter = *counter;
    increment->counter.update = NGX_MCDS_COUNTER_ONLY;

    increment->counter.key.data = (u_char *) increment
                                  + sizeof(ngx_mcds_increment_t);
    ngx_memcpy(increment->counter.key.data, counter->key.data,
               counter->key.len);

    increment->timer.handler = ngx_mcds_seed_timeout_handler;
    increment->timer.data = increment;
    increment->timer.log = ngx_cycle->log;

    if (ngx_mcds_counter_change(&increment->counter, delta, ngx_mcds_seed_tried,
                                increment)
        == NULL)
    {
        ngx_free(increment);
        return NULL;
    }

    return increment;
}


void
ngx_mcds_seed_cancel(ngx_mcds_increment_t *increment)
{
    increment->handler = NULL;

    if (increment->timer.timer_set) {
        ngx_del_timer(&increment->timer);
    }

    ngx_mcds_seed_silence(increment);
}


ngx_uint_t
ngx_mcds_seed_sought(ngx_mcds_increment_t *increment)
{
    return increment->sought;
}


/*
 * Sends a change of a counter to memcached again, after the first command found
 * no counter.  If counter.update is NGX_MCDS_COUNTER_NOW, a counter that is
 * still missing is created.
 */

static void
ngx_mcds_seed_try(ngx_mcds_increment_t *increment)
{
    if (increment->delta == 0) {
        ngx_mcds_seed_settle(increment, NGX_MCDS_OK, 0);
        return;
    }

    if (ngx_mcds_counter_change(&increment->counter, increment->delta,
                                ngx_mcds_seed_tried, increment)
        == NULL)
    {
        ngx_mcds_seed_settle(increment, NGX_MCDS_BUSY, 0);
    }
}


static void
ngx_mcds_seed_tried(void *data, ngx_uint_t rc, uint64_t value)
{
    ngx_mcds_increment_t *increment = data;

    if (rc == NGX_MCDS_NOT_FOUND
        && increment->counter.update == NGX_MCDS_COUNTER_ONLY)
    {
        ngx_mcds_seed_join(increment);
        return;
    }

    ngx_mcds_seed_settle(increment, rc, value);
}


static void
ngx_mcds_seed_join(ngx_mcds_increment_t *increment)
{
    uint32_t                hash;
    ngx_msec_int_t          left;
    ngx_mcds_seed_t        *seed;
    ngx_mcds_index_node_t  *node;

    hash = ngx_mcds_hash(increment->counter.key.data,
                         increment->counter.key.len);
    left = (ngx_msec_int_t) (increment->deadline - ngx_current_msec);

    increment->sought = 1;

    node = ngx_mcds_index_find(&ngx_mcds_seeds, increment->counter.pool,
                               &increment->counter.key, hash);

    if (node) {
        seed = ngx_mcds_index_data(node, ngx_mcds_seed_t, node);

    } else {
        seed = ngx_mcds_seed_create(increment, hash);
        if (seed == NULL) {
            ngx_mcds_seed_give_up(increment, NGX_MCDS_BUSY);
            return;
        }
    }

    ngx_queue_insert_tail(&seed->growing, &increment->queue);
    increment->seed = seed;

    if (increment->handler == NULL || left <= 0) {
        ngx_mcds_seed_tell(increment, NGX_MCDS_TIMEOUT, 0);
        ngx_mcds_seed_silence(increment);
        return;
    }

    ngx_add_timer(&increment->timer, left);
}


/*
 * The timeout of a request that has changed a counter is over: the request
 * continues without the counter's value; the change is counted when the
 * initial value arrives.
 */

static void
ngx_mcds_seed_timeout_handler(ngx_event_t *ev)
{
    ngx_mcds_increment_t  *increment;

    increment = ev->data;

    ngx_mcds_seed_tell(increment, NGX_MCDS_TIMEOUT, 0);
    ngx_mcds_seed_silence(increment);
}


/*
 * Adds a change of a counter, whose request no longer waits, to seed->silent:
 * the sum of such changes, which wait for the initial value from the origin.
 * So an origin that hangs does not cost memory for each request.
 */

static void
ngx_mcds_seed_silence(ngx_mcds_increment_t *increment)
{
    ngx_mcds_seed_t       *seed;
    ngx_mcds_increment_t  *silent;

    seed = increment->seed;

    if (seed == NULL) {
        return;
    }

    silent = seed->silent;

    if (silent == NULL
        || silent->source.counted != increment->source.counted
        || silent->source.data != increment->source.data
        || silent->source.skip != increment->source.skip
        || silent->counter.initial != increment->counter.initial
        || !ngx_mcds_outbox_fits(silent->delta, increment->delta))
    {
        seed->silent = increment;
        return;
    }

    silent->delta += increment->delta;

    ngx_queue_remove(&increment->queue);
    ngx_free(increment);
}


/*
 * Removes the first change from the queue of those that wait for the counter's
 * initial value, and returns the change; NULL: the queue is empty.
 */

static ngx_mcds_increment_t *
ngx_mcds_seed_pop(ngx_mcds_seed_t *seed)
{
    ngx_queue_t           *q;
    ngx_mcds_increment_t  *increment;

    if (ngx_queue_empty(&seed->growing)) {
        return NULL;
    }

    q = ngx_queue_head(&seed->growing);
    ngx_queue_remove(q);

    increment = ngx_queue_data(q, ngx_mcds_increment_t, queue);
    increment->seed = NULL;

    if (seed->silent == increment) {
        seed->silent = NULL;
    }

    if (increment->timer.timer_set) {
        ngx_del_timer(&increment->timer);
    }

    return increment;
}


/*
 * Ends the wait for the initial value of a counter, which the location of
 * mcds_counter_init has not returned.  With fail=skip the change is not
 * counted; otherwise the counter starts from the number that this host knows,
 * or from the configured one.
 */

static void
ngx_mcds_seed_give_up(ngx_mcds_increment_t *increment, ngx_uint_t rc)
{
    if (increment->source.skip) {
        ngx_mcds_seed_settle(increment, rc, 0);
        return;
    }

    increment->counter.update = NGX_MCDS_COUNTER_NOW;
    ngx_mcds_seed_try(increment);
}


static void
ngx_mcds_seed_tell(ngx_mcds_increment_t *increment, ngx_uint_t rc,
    uint64_t value)
{
    ngx_mcds_count_pt  handler;

    handler = increment->handler;

    if (handler) {
        increment->handler = NULL;
        handler(increment->data, rc, value);
    }
}


static void
ngx_mcds_seed_settle(ngx_mcds_increment_t *increment, ngx_uint_t rc,
    uint64_t value)
{
    ngx_mcds_seed_tell(increment, rc, value);

    if (increment->source.counted) {
        increment->source.counted(increment->source.data,
                                  &increment->counter.key, increment->delta);
    }

    ngx_free(increment);
}


static ngx_mcds_seed_t *
ngx_mcds_seed_create(ngx_mcds_increment_t *increment, uint32_t hash)
{
    ngx_mcds_seed_t  *seed;

    seed = ngx_calloc(sizeof(ngx_mcds_seed_t) + increment->counter.key.len,
                      ngx_cycle->log);
    if (seed == NULL) {
        return NULL;
    }

    ngx_queue_init(&seed->growing);

    seed->op.data = seed;
    seed->start = ngx_current_msec;
    seed->wait = NGX_MCDS_SEED_FIRST;
    seed->source = increment->source;
    seed->counter = increment->counter;
    seed->counter.key.data = (u_char *) seed + sizeof(ngx_mcds_seed_t);
    ngx_memcpy(seed->counter.key.data, increment->counter.key.data,
               increment->counter.key.len);

    seed->timer.handler = ngx_mcds_seed_wait_handler;
    seed->timer.data = seed;
    seed->timer.log = ngx_cycle->log;

    if (ngx_mcds_index_insert(&ngx_mcds_seeds, &seed->node,
                              seed->counter.pool, &seed->counter.key, hash,
                              sizeof(ngx_mcds_seed_t) + seed->counter.key.len)
        != NGX_OK)
    {
        ngx_free(seed);
        return NULL;
    }

    if (ngx_mcds_seed_lock(seed) != NGX_OK) {
        ngx_mcds_index_remove(&ngx_mcds_seeds, &seed->node);
        ngx_free(seed);
        return NULL;
    }

    return seed;
}


static ngx_int_t
ngx_mcds_seed_lock(ngx_mcds_seed_t *seed)
{
    ngx_mcds_lease_wish_t  wish;

    ngx_memzero(&wish, sizeof(ngx_mcds_lease_wish_t));

    wish.pool = seed->counter.pool;
    wish.key = seed->counter.key;
    wish.ttl = NGX_MCDS_SEED_LOCK;

    return ngx_mcds_lease_acquire(&wish, ngx_mcds_seed_locked, seed);
}


static void
ngx_mcds_seed_locked(void *data, ngx_mcds_lease_t *lock, ngx_uint_t rc)
{
    ngx_mcds_seed_t *seed = data;

    ngx_mcds_request_t  req;

    if (rc == NGX_MCDS_OK) {
        seed->lock = lock;

        /*
         * the worker that had the lock for the initial value before may have
         * created the counter
         */

        ngx_mcds_seed_look(seed);
        return;
    }

    if (rc != NGX_MCDS_NOT_STORED) {
        ngx_mcds_seed_fail(seed, ngx_mcds_strerror(rc));
        return;
    }

    /*
     * the value of the lock's item says whether another worker is fetching the
     * counter's initial value, or has failed
     */

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.verb = NGX_MCDS_GET;
    req.want = NGX_MCDS_VALUE;
    req.key = seed->counter.key;
    req.suffix = ngx_mcds_seed_suffix;
    req.by_key = 1;
    req.single = 1;
    req.movable = 1;
    req.limit = NGX_MCDS_SEED_LEN;

    seed->op.handler = ngx_mcds_seed_read_lock;

    ngx_mcds_submit(seed->counter.pool, &req, &seed->op);
}


static void
ngx_mcds_seed_read_lock(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_seed_t *seed = data;

    size_t  len;

    len = sizeof(NGX_MCDS_LEASE_KEPT) - 1;

    if (result->rc == NGX_MCDS_OK
        && result->len == len
        && ngx_memcmp(result->data, NGX_MCDS_LEASE_KEPT, len) == 0)
    {
        ngx_mcds_seed_fail(seed, NULL);
        return;
    }

    ngx_add_timer(&seed->timer, seed->wait);

    seed->wait = ngx_min(seed->wait * 2, NGX_MCDS_SEED_LAST);
}


static void
ngx_mcds_seed_wait_handler(ngx_event_t *ev)
{
    ngx_mcds_seed_t  *seed;

    seed = ev->data;

    if (ngx_current_msec - seed->start > NGX_MCDS_SEED_PATIENCE) {
        ngx_mcds_seed_fail(seed, "another host has the lock for too long");
        return;
    }

    ngx_mcds_seed_look(seed);
}


static void
ngx_mcds_seed_look(ngx_mcds_seed_t *seed)
{
    ngx_mcds_request_t  req;

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.verb = NGX_MCDS_GET;
    req.want = NGX_MCDS_VALUE;
    req.key = seed->counter.key;
    req.limit = NGX_MCDS_SEED_LEN;
    req.number = 1;

    seed->op.handler = ngx_mcds_seed_looked;

    ngx_mcds_submit(seed->counter.pool, &req, &seed->op);
}


static void
ngx_mcds_seed_looked(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_seed_t *seed = data;

    if (result->rc == NGX_MCDS_NOT_FOUND) {

        if (seed->lock) {
            ngx_mcds_seed_fetch(seed);
            return;
        }

        if (ngx_mcds_seed_lock(seed) != NGX_OK) {
            ngx_mcds_seed_fail(seed, "out of memory");
        }

        return;
    }

    if (!ngx_mcds_answered(result->rc)) {
        ngx_mcds_seed_fail(seed, ngx_mcds_strerror(result->rc));
        return;
    }

    /*
     * the counter exists; if its value is no number, each of the changes that
     * wait gets an error from memcached
     */

    ngx_mcds_seed_ready(seed);
}


static void
ngx_mcds_seed_fetch(ngx_mcds_seed_t *seed)
{
    ngx_queue_t           *q;
    ngx_mcds_increment_t  *increment;

    for (q = ngx_queue_head(&seed->growing);
         q != ngx_queue_sentinel(&seed->growing);
         q = ngx_queue_next(q))
    {
        increment = ngx_queue_data(q, ngx_mcds_increment_t, queue);

        if (increment->handler == NULL) {
            continue;
        }

        if (seed->source.fetch(seed, increment->data) != NGX_OK) {
            ngx_mcds_seed_fail(seed, "it could not be asked for");
        }

        return;
    }

    /*
     * No request waits any more, and only a request that waits can ask for the
     * counter's initial value: the waiting changes are not counted, and the
     * next request asks for the number.
     */

    while ((increment = ngx_mcds_seed_pop(seed)) != NULL) {
        ngx_mcds_seed_settle(increment, NGX_MCDS_NOT_FOUND, 0);
    }

    ngx_mcds_seed_free(seed, 0);
}


void
ngx_mcds_seed_value(ngx_mcds_seed_t *seed, ngx_int_t rc, uint64_t value)
{
    u_char              text[NGX_INT64_LEN];
    uint64_t            known;
    ngx_mcds_request_t  req;

    if (rc != NGX_OK) {
        ngx_mcds_seed_fail(seed, "no number was answered");
        return;
    }

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.verb = NGX_MCDS_ADD;
    req.key = seed->counter.key;
    req.ttl = ngx_mcds_raise_ttl(&seed->counter);
    req.text.data = text;

    known = ngx_mcds_counter_known(&seed->counter);
    req.text.len = ngx_sprintf(text, "%uL", ngx_max(value, known)) - text;

    seed->op.handler = ngx_mcds_seed_added;

    ngx_mcds_submit(seed->counter.pool, &req, &seed->op);
}


static void
ngx_mcds_seed_added(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_seed_t *seed = data;

    if (result->rc == NGX_MCDS_OK || result->rc == NGX_MCDS_NOT_STORED) {
        ngx_mcds_seed_ready(seed);
        return;
    }

    ngx_mcds_seed_fail(seed, ngx_mcds_strerror(result->rc));
}


/*
 * Sends to memcached the changes that have waited for the counter's initial
 * value, as the counter exists now.
 */

static void
ngx_mcds_seed_ready(ngx_mcds_seed_t *seed)
{
    ngx_mcds_increment_t  *increment;

    while ((increment = ngx_mcds_seed_pop(seed)) != NULL) {
        ngx_mcds_seed_try(increment);
    }

    ngx_mcds_seed_free(seed, 0);
}


/*
 * Ends the fetch of a counter's initial value without a value.  The reason is
 * logged; it is NULL if another worker has logged the failure.
 */

static void
ngx_mcds_seed_fail(ngx_mcds_seed_t *seed, char *reason)
{
    ngx_mcds_key_t         key;
    ngx_mcds_increment_t  *increment;

    if (reason) {
        ngx_mcds_key_show(&key, &seed->counter.key);

        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                      "no start for counter \"%*s\": %s, %s",
                      (size_t) key.len, key.data, reason,
                      seed->source.skip ? "it is not counted"
                      : ngx_mcds_counter_known(&seed->counter)
                      ? "it goes on from the last number that is known"
                      : "it begins anew");
    }

    while ((increment = ngx_mcds_seed_pop(seed)) != NULL) {
        ngx_mcds_seed_give_up(increment, NGX_MCDS_NOT_FOUND);
    }

    ngx_mcds_seed_free(seed, seed->source.skip ? NGX_MCDS_SEED_KEEP : 0);
}


static void
ngx_mcds_seed_free(ngx_mcds_seed_t *seed, uint32_t keep)
{
    ngx_mcds_index_remove(&ngx_mcds_seeds, &seed->node);

    if (seed->lock) {
        ngx_mcds_lease_release(seed->lock, keep);
    }

    ngx_free(seed);
}


/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_lease.h"
#include "ngx_mcds_lock.h"
#include "ngx_mcds_index.h"


/*
 * the limit of the random delay, ms, before the next attempt to acquire a lock
 * if memcached failed in the last attempt
 */
#define NGX_MCDS_LOCK_FAILED      100

/*
 * this worker's hash table of gates (a gate has all requests of the worker for
 * one lock): its buckets, and its limits in gates and bytes; they are too high
 * to be reached, as a gate exists only while a request wants or holds its lock
 */
#define NGX_MCDS_GATE_BUCKETS     1024
#define NGX_MCDS_GATES            1048576
#define NGX_MCDS_GATES_SIZE       (512 * 1024 * 1024)


typedef enum {
    NGX_MCDS_LOCK_WAITING = 0,    /* the request stands in the line of those
                                     that wait for the lock, or is to be
                                     refused */
    NGX_MCDS_LOCK_ADDING,
    NGX_MCDS_LOCK_COUNTING,
    NGX_MCDS_LOCK_WRITING,
    NGX_MCDS_LOCK_HOLDING
} ngx_mcds_lock_step_e;


/* a gate: all requests of this worker for the lock of one key */

typedef struct {
    ngx_mcds_index_node_t    node;
    ngx_mcds_pool_t         *pool;
    ngx_uint_t               refs;
    ngx_queue_t              line;     /* requests that wait for the lock, first
                                          come first served */
    ngx_uint_t               waiters;
    ngx_mcds_lock_t         *trying;
    ngx_mcds_lock_t         *holder;
    ngx_event_t              timer;    /* timer of the next attempt to acquire
                                          the lock */
    ngx_msec_t               series;   /* since when requests of this worker
                                          have acquired the lock one after the
                                          other; after a while, the worker
                                          pauses, so that others may get it */
    unsigned                 in_series:1;
    unsigned                 failed:1;
} ngx_mcds_gate_t;


struct ngx_mcds_lock_s {
    ngx_queue_t             queue;     /* link in the line of requests that wait
                                          for the lock */
    ngx_mcds_gate_t        *gate;      /* all requests of this worker for this
                                          lock; NULL: the lock was lost */
    ngx_mcds_lock_pt        handler;
    void                   *data;
    ngx_mcds_lease_t       *lease;
    ngx_mcds_op_t           op;        /* increments the counter of the lock's
                                          owners; the counter's new number is
                                          the fencing token */
    ngx_uint_t              step;      /* how far the request for the lock has
                                          come, ngx_mcds_lock_step_e */
    ngx_uint_t              status;    /* result of the request for the lock, to
                                          be passed to the handler */
    uint32_t                ttl;
    ngx_msec_t              start;
    ngx_msec_t              wait;
    ngx_uint_t              waiters;   /* maximum number of requests that may
                                          wait for the lock */
    ngx_event_t             timer;     /* timer that ends the wait for the
                                          lock */
    ngx_mcds_lock_item_t    item;
    u_char                  owner[NGX_MCDS_LOCK_OWNER];
    unsigned                lined:1;   /* the request is in the line of those
                                          that wait for the lock */
    unsigned                waited:1;  /* the request has waited for the lock,
                                          or another owner had the lock */
    unsigned                over:1;    /* the request's time to wait for the
                                          lock is over, or it was cancelled */
    unsigned                released:1;
    unsigned                lost:1;
};


static ngx_mcds_gate_t *ngx_mcds_lock_gate(ngx_mcds_pool_t *pool,
    ngx_str_t *key);
static void ngx_mcds_lock_made(ngx_mcds_lock_t *lock);
static void ngx_mcds_lock_refuse(ngx_mcds_lock_t *lock,
    ngx_uint_t status);
static void ngx_mcds_lock_refuse_handler(ngx_event_t *ev);
static void ngx_mcds_lock_line(ngx_mcds_lock_t *lock, ngx_uint_t first);
static void ngx_mcds_lock_unline(ngx_mcds_lock_t *lock);
static void ngx_mcds_lock_over_handler(ngx_event_t *ev);
static void ngx_mcds_lock_try(ngx_mcds_lock_t *lock);
static void ngx_mcds_lock_lease_handler(void *data, ngx_mcds_lease_t *lease,
    ngx_uint_t rc);
static void ngx_mcds_lock_count(ngx_mcds_lock_t *lock);
static void ngx_mcds_lock_counted(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_lock_held(ngx_mcds_lock_t *lock);
static void ngx_mcds_lock_failed(ngx_mcds_lock_t *lock, ngx_uint_t rc);
static void ngx_mcds_lock_lost(ngx_mcds_lock_t *lock);
static void ngx_mcds_lock_next(ngx_mcds_gate_t *gate, ngx_msec_t delay);
static void ngx_mcds_lock_next_handler(ngx_event_t *ev);
static void ngx_mcds_lock_free(ngx_mcds_lock_t *lock);


static ngx_str_t          ngx_mcds_lock_fence =
                              ngx_string(NGX_MCDS_LOCK_FENCE);

/*
 * the gates, in whose lines the requests of this worker wait for a lock, one
 * gate for each lock; and the largest fencing token that this worker has seen
 */

static ngx_mcds_index_node_t  *ngx_mcds_gate_buckets[NGX_MCDS_GATE_BUCKETS];
static ngx_mcds_index_t   ngx_mcds_gates =
    ngx_mcds_index(ngx_mcds_gate_buckets, NGX_MCDS_GATES, NGX_MCDS_GATES_SIZE,
                   0, 0, NULL);
static uint64_t           ngx_mcds_lock_seen;


ngx_mcds_lock_t *
ngx_mcds_lock_acquire(ngx_mcds_lock_wish_t *wish, ngx_mcds_lock_pt handler,
    void *data)
{
    ngx_uint_t        idle;
    ngx_mcds_gate_t  *gate;
    ngx_mcds_lock_t  *lock;

    lock = ngx_calloc(sizeof(ngx_mcds_lock_t), ngx_cycle->log);
    if (lock == NULL) {
        return NULL;
    }

    gate = ngx_mcds_lock_gate(wish->pool, &wish->key);
    if (gate == NULL) {
        ngx_free(lock);
        return NULL;
    }

    gate->refs++;

    lock->gate = gate;
    lock->handler = handler;
    lock->data = data;
    lock->ttl = wish->ttl;
    lock->start = ngx_current_msec;
    lock->wait = wish->wait;
    lock->waiters = wish->waiters;

    lock->timer.data = lock;
    lock->timer.log = ngx_cycle->log;
    lock->timer.handler = ngx_mcds_lock_over_handler;

    lock->item.owner.data = lock->owner;
    lock->item.owner.len = wish->owner.len;
    ngx_memcpy(lock->owner, wish->owner.data, wish->owner.len);

    if (wish->owner.len == 0) {
        ngx_mcds_lock_made(lock);
    }

    idle = (gate->trying == NULL && gate->holder == NULL
            && gate->waiters == 0);

    if (!idle && lock->wait == 0) {
        ngx_mcds_lock_refuse(lock, gate->failed
                                   ? NGX_MCDS_LOCK_UNAVAILABLE
                                     : NGX_MCDS_LOCK_BUSY);
        return lock;
    }

    if (!idle && gate->waiters >= lock->waiters) {
        ngx_mcds_lock_refuse(lock, NGX_MCDS_LOCK_FULL);
        return lock;
    }

    if (!idle && gate->failed) {
        ngx_mcds_lock_refuse(lock, NGX_MCDS_LOCK_UNAVAILABLE);
        return lock;
    }

    if (lock->wait) {
        ngx_add_timer(&lock->timer, lock->wait);
    }

    if (idle) {
        ngx_mcds_lock_try(lock);

    } else {
        ngx_mcds_lock_line(lock, 0);
    }

    return lock;
}


/* Generates a unique name for a lock's owner: the caller has given no name. */

static void
ngx_mcds_lock_made(ngx_mcds_lock_t *lock)
{
    u_char  bytes[NGX_MCDS_LOCK_MADE / 2];

    ngx_mcds_random(bytes, NGX_MCDS_LOCK_MADE / 2);

    (void) ngx_hex_dump(lock->owner, bytes, NGX_MCDS_LOCK_MADE / 2);

    lock->item.owner.len = NGX_MCDS_LOCK_MADE;
}


static ngx_mcds_gate_t *
ngx_mcds_lock_gate(ngx_mcds_pool_t *pool, ngx_str_t *key)
{
    uint32_t                hash;
    ngx_str_t               name;
    ngx_mcds_gate_t        *gate;
    ngx_mcds_index_node_t  *node;

    hash = ngx_mcds_hash(key->data, key->len);

    node = ngx_mcds_index_find(&ngx_mcds_gates, pool, key, hash);

    if (node) {
        return ngx_mcds_index_data(node, ngx_mcds_gate_t, node);
    }

    gate = ngx_calloc(sizeof(ngx_mcds_gate_t) + key->len, ngx_cycle->log);
    if (gate == NULL) {
        return NULL;
    }

    gate->pool = pool;

    name.data = (u_char *) gate + sizeof(ngx_mcds_gate_t);
    name.len = key->len;
    ngx_memcpy(name.data, key->data, key->len);

    gate->timer.handler = ngx_mcds_lock_next_handler;
    gate->timer.data = gate;
    gate->timer.log = ngx_cycle->log;

    ngx_queue_init(&gate->line);

    if (ngx_mcds_index_insert(&ngx_mcds_gates, &gate->node, pool, &name,
                              hash, sizeof(ngx_mcds_gate_t) + key->len)
        != NGX_OK)
    {
        ngx_free(gate);
        return NULL;
    }

    return gate;
}


void
ngx_mcds_lock_release(ngx_mcds_lock_t *lock)
{
    ngx_msec_t        delay;
    ngx_mcds_gate_t  *gate;

    gate = lock->gate;

    switch (lock->step) {

    case NGX_MCDS_LOCK_WAITING:

        ngx_mcds_lock_unline(lock);
        ngx_mcds_lock_free(lock);

        break;

    case NGX_MCDS_LOCK_HOLDING:

        ngx_mcds_lease_release(lock->lease, 0);
        ngx_mcds_lock_free(lock);

        if (gate == NULL) {
            return;
        }

        gate->holder = NULL;

        delay = ngx_mcds_lock_pause(ngx_current_msec - gate->series);

        if (delay) {
            gate->in_series = 0;
        }

        ngx_mcds_lock_next(gate, delay);

        return;

    case NGX_MCDS_LOCK_COUNTING:

        ngx_mcds_cancel(&lock->op);

        lock->released = 1;
        ngx_mcds_lock_failed(lock, NGX_MCDS_NOT_STORED);

        return;

    default:

        /*
         * a command for the lock is under way: the lock is released after
         * memcached's reply
         */

        lock->released = 1;
        lock->over = 1;

        if (lock->timer.timer_set) {
            ngx_del_timer(&lock->timer);
        }

        return;
    }

    if (!gate->timer.timer_set) {
        ngx_mcds_lock_next(gate, 0);
    }
}


void
ngx_mcds_lock_leave(ngx_mcds_lock_t *lock)
{
    ngx_mcds_gate_t  *gate;

    gate = lock->gate;

    ngx_mcds_lease_leave(lock->lease);
    ngx_mcds_lock_free(lock);

    if (gate) {
        gate->holder = NULL;
        ngx_mcds_lock_next(gate, NGX_MCDS_LOCK_INTERVAL);
    }
}


ngx_uint_t
ngx_mcds_lock_waited(ngx_mcds_lock_t *lock)
{
    return lock->waited;
}


uint64_t
ngx_mcds_lock_number(ngx_mcds_lock_t *lock)
{
    return lock->item.number;
}


ngx_str_t *
ngx_mcds_lock_owner(ngx_mcds_lock_t *lock)
{
    return &lock->item.owner;
}


void
ngx_mcds_lock_kick(ngx_mcds_pool_t *pool, ngx_str_t *key)
{
    ngx_mcds_gate_t        *gate;
    ngx_mcds_index_node_t  *node;

    node = ngx_mcds_index_find(&ngx_mcds_gates, pool, key,
                               ngx_mcds_hash(key->data, key->len));

    if (node) {
        gate = ngx_mcds_index_data(node, ngx_mcds_gate_t, node);
        ngx_mcds_lock_next(gate, 0);
    }
}


/* Refuses a request for a lock: calls the handler later, from an event. */

static void
ngx_mcds_lock_refuse(ngx_mcds_lock_t *lock, ngx_uint_t status)
{
    lock->status = status;
    lock->timer.handler = ngx_mcds_lock_refuse_handler;

    ngx_post_event(&lock->timer, &ngx_posted_events);
}


static void
ngx_mcds_lock_refuse_handler(ngx_event_t *ev)
{
    void              *data;
    ngx_uint_t         status;
    ngx_mcds_gate_t   *gate;
    ngx_mcds_lock_t   *lock;
    ngx_mcds_lock_pt   handler;

    lock = ev->data;
    gate = lock->gate;
    data = lock->data;
    status = lock->status;
    handler = lock->handler;

    ngx_mcds_lock_free(lock);

    if (!gate->timer.timer_set) {
        ngx_mcds_lock_next(gate, 0);
    }

    handler(data, NULL, status);
}


static void
ngx_mcds_lock_line(ngx_mcds_lock_t *lock, ngx_uint_t first)
{
    ngx_mcds_gate_t  *gate;

    gate = lock->gate;

    if (first) {
        ngx_queue_insert_head(&gate->line, &lock->queue);

    } else {
        ngx_queue_insert_tail(&gate->line, &lock->queue);
    }

    lock->lined = 1;
    lock->waited = 1;
    gate->waiters++;
}


static void
ngx_mcds_lock_unline(ngx_mcds_lock_t *lock)
{
    if (lock->lined) {
        ngx_queue_remove(&lock->queue);
        lock->lined = 0;
        lock->gate->waiters--;
    }
}


static void
ngx_mcds_lock_over_handler(ngx_event_t *ev)
{
    ngx_mcds_lock_t *lock = ev->data;

    lock->over = 1;

    if (lock->step != NGX_MCDS_LOCK_WAITING) {

        /*
         * a command is under way: memcached's reply decides whether the request
         * gets the lock
         */

        return;
    }

    ngx_mcds_lock_unline(lock);

    lock->status = lock->gate->failed ? NGX_MCDS_LOCK_UNAVAILABLE
                                      : NGX_MCDS_LOCK_LATE;

    ngx_mcds_lock_refuse_handler(ev);
}


static void
ngx_mcds_lock_try(ngx_mcds_lock_t *lock)
{
    u_char                 text[NGX_MCDS_LOCK_TEXT];
    ngx_mcds_gate_t       *gate;
    ngx_mcds_lease_wish_t  wish;

    gate = lock->gate;

    gate->trying = lock;

    lock->step = NGX_MCDS_LOCK_ADDING;
    lock->item.number = 0;
    lock->lost = 0;

    ngx_memzero(&wish, sizeof(ngx_mcds_lease_wish_t));

    wish.pool = gate->pool;
    wish.key = gate->node.key;
    wish.ttl = lock->ttl;
    wish.text.data = text;
    wish.text.len = ngx_mcds_lock_write(text, &lock->item) - text;

    if (ngx_mcds_lease_acquire(&wish, ngx_mcds_lock_lease_handler, lock)
        != NGX_OK)
    {
        /*
         * the caller's handler must not be called from inside of
         * ngx_mcds_lock_acquire(), so ngx_mcds_lock_refuse() posts an event
         */

        gate->trying = NULL;
        lock->step = NGX_MCDS_LOCK_WAITING;

        if (lock->timer.timer_set) {
            ngx_del_timer(&lock->timer);
        }

        ngx_mcds_lock_refuse(lock, NGX_MCDS_LOCK_UNAVAILABLE);
    }
}


/*
 * The handler of the lease that keeps a lock in memcached: called when the
 * lease is acquired, then written with the fencing token, or lost.
 */

static void
ngx_mcds_lock_lease_handler(void *data, ngx_mcds_lease_t *lease, ngx_uint_t rc)
{
    ngx_mcds_lock_t *lock = data;

    lock->lease = lease;

    if (lease == NULL) {
        ngx_mcds_lock_failed(lock, rc);
        return;
    }

    if (rc != NGX_MCDS_OK) {
        ngx_mcds_lock_lost(lock);
        return;
    }

    if (lock->released) {
        ngx_mcds_lock_failed(lock, NGX_MCDS_NOT_STORED);
        return;
    }

    if (lock->step == NGX_MCDS_LOCK_ADDING) {
        ngx_mcds_lock_count(lock);
        return;
    }

    if (ngx_mcds_lease_sure(lease) <= 0) {

        /* this worker was stopped for too long: the lock's time is over */

        ngx_mcds_lock_failed(lock, NGX_MCDS_NOT_STORED);
        return;
    }

    ngx_mcds_lock_held(lock);
}


ngx_uint_t
ngx_mcds_lock_is_fence(ngx_str_t *key)
{
    return ngx_mcds_key_has_suffix(key, &ngx_mcds_lock_fence);
}


static void
ngx_mcds_lock_count(ngx_mcds_lock_t *lock)
{
    uint64_t            now;
    struct timeval      tv;
    ngx_mcds_request_t  req;

    ngx_gettimeofday(&tv);

    now = ngx_mcds_epoch(tv.tv_sec) * 1000000 + tv.tv_usec;

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.verb = NGX_MCDS_INCR;
    req.want = NGX_MCDS_VALUE;
    req.key = lock->gate->node.key;
    req.suffix = ngx_mcds_lock_fence;
    req.ttl = NGX_MCDS_LOCK_FENCE_TTL;
    req.initial = ngx_mcds_lock_first(now, ngx_mcds_lock_seen);
    req.delta = 1;
    req.rising = 1;

    lock->step = NGX_MCDS_LOCK_COUNTING;
    lock->op.handler = ngx_mcds_lock_counted;
    lock->op.data = lock;

    ngx_mcds_submit(lock->gate->pool, &req, &lock->op);
}


static void
ngx_mcds_lock_counted(void *data, ngx_mcds_result_t *result)
{
    u_char            text[NGX_MCDS_LOCK_TEXT];
    uint64_t          number;
    ngx_str_t         s;
    ngx_uint_t        rc;
    ngx_mcds_key_t    key;
    ngx_mcds_lock_t  *lock;

    lock = data;
    rc = result->rc;
    number = 0;

    if (rc == NGX_MCDS_OK
        && (ngx_mcds_parse_number(result->data, result->len, &number)
            != NGX_OK
            || number == 0))
    {
        rc = NGX_MCDS_NOT_NUMERIC;
    }

    if (rc == NGX_MCDS_NOT_NUMERIC) {
        ngx_mcds_key_show(&key, &lock->gate->node.key);

        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                      "\"%*s" NGX_MCDS_LOCK_FENCE "\" holds no number, the "
                      "lock cannot be used", (size_t) key.len, key.data);
    }

    if (rc == NGX_MCDS_OK && lock->lost) {
        rc = NGX_MCDS_NOT_STORED;
    }

    if (rc == NGX_MCDS_OK) {
        lock->item.number = number;
        lock->step = NGX_MCDS_LOCK_WRITING;

        ngx_mcds_lock_seen = ngx_max(ngx_mcds_lock_seen, number);

        s.data = text;
        s.len = ngx_mcds_lock_write(text, &lock->item) - text;

        if (ngx_mcds_lease_write(lock->lease, &s) == NGX_OK) {
            return;
        }

        rc = NGX_MCDS_NOT_STORED;
    }

    ngx_mcds_lock_failed(lock, rc);
}


static void
ngx_mcds_lock_held(ngx_mcds_lock_t *lock)
{
    ngx_mcds_gate_t  *gate;

    gate = lock->gate;

    if (lock->timer.timer_set) {
        ngx_del_timer(&lock->timer);
    }

    lock->step = NGX_MCDS_LOCK_HOLDING;

    gate->trying = NULL;
    gate->holder = lock;
    gate->failed = 0;

    if (!gate->in_series) {
        gate->in_series = 1;
        gate->series = ngx_current_msec;
    }

    lock->handler(lock->data, lock, NGX_MCDS_LOCK_HELD);
}


/*
 * Ends the failed attempt of a request to acquire a lock: the request waits for
 * the next attempt, or is refused.
 */

static void
ngx_mcds_lock_failed(ngx_mcds_lock_t *lock, ngx_uint_t rc)
{
    ngx_uint_t        busy, full;
    ngx_msec_t        delay;
    ngx_mcds_gate_t  *gate;

    if (lock->lease) {
        ngx_mcds_lease_release(lock->lease, 0);
        lock->lease = NULL;
    }

    gate = lock->gate;
    gate->trying = NULL;
    gate->in_series = 0;

    lock->step = NGX_MCDS_LOCK_WAITING;

    if (lock->released) {
        ngx_mcds_lock_free(lock);
        ngx_mcds_lock_next(gate, 0);
        return;
    }

    busy = (rc == NGX_MCDS_NOT_STORED || rc == NGX_MCDS_EXISTS
            || rc == NGX_MCDS_NOT_FOUND);

    gate->failed = !busy;

    /* a request that has waited for the lock may stay, even in a full line */

    full = (busy && !lock->waited && gate->waiters >= lock->waiters);

    if (busy) {
        lock->waited = 1;
        delay = ngx_mcds_lock_interval(ngx_current_msec - lock->start,
                                       lock->wait, ngx_random());

    } else {
        delay = NGX_MCDS_LOCK_FAILED / 2
                + ngx_random() % (NGX_MCDS_LOCK_FAILED / 2);
    }

    if (lock->wait && !lock->over && lock->waited && !full) {
        ngx_mcds_lock_line(lock, 1);
        ngx_mcds_lock_next(gate, delay);
        return;
    }

    if (!busy) {
        lock->status = NGX_MCDS_LOCK_UNAVAILABLE;

    } else if (lock->wait == 0) {
        lock->status = NGX_MCDS_LOCK_BUSY;

    } else {
        lock->status = (full && !lock->over) ? NGX_MCDS_LOCK_FULL
                                             : NGX_MCDS_LOCK_LATE;
    }

    if (gate->waiters) {
        ngx_mcds_lock_next(gate, delay);
    }

    ngx_mcds_lock_refuse_handler(&lock->timer);
}


static void
ngx_mcds_lock_lost(ngx_mcds_lock_t *lock)
{
    ngx_mcds_gate_t  *gate;

    if (lock->step != NGX_MCDS_LOCK_HOLDING) {
        lock->lost = 1;
        return;
    }

    gate = lock->gate;

    lock->gate = NULL;

    gate->holder = NULL;
    gate->refs--;

    ngx_mcds_lock_next(gate, 0);

    lock->handler(lock->data, lock, NGX_MCDS_LOCK_LOST);
}


/*
 * Lets the first of the requests that wait for a lock try to acquire it;
 * without requests, their line (the gate) is freed.
 */

static void
ngx_mcds_lock_next(ngx_mcds_gate_t *gate, ngx_msec_t delay)
{
    ngx_queue_t      *q;
    ngx_mcds_lock_t  *lock;

    if (gate->trying || gate->holder) {
        return;
    }

    if (gate->timer.timer_set) {
        ngx_del_timer(&gate->timer);
    }

    if (gate->waiters == 0) {

        if (gate->refs == 0) {
            ngx_mcds_index_remove(&ngx_mcds_gates, &gate->node);
            ngx_free(gate);
        }

        return;
    }

    if (delay) {
        ngx_add_timer(&gate->timer, delay);
        return;
    }

    q = ngx_queue_head(&gate->line);
    lock = ngx_queue_data(q, ngx_mcds_lock_t, queue);

    ngx_mcds_lock_unline(lock);
    ngx_mcds_lock_try(lock);
}


static void
ngx_mcds_lock_next_handler(ngx_event_t *ev)
{
    ngx_mcds_lock_next(ev->data, 0);
}


static void
ngx_mcds_lock_free(ngx_mcds_lock_t *lock)
{
    if (lock->timer.timer_set) {
        ngx_del_timer(&lock->timer);
    }

    if (lock->timer.posted) {
        ngx_delete_posted_event(&lock->timer);
    }

    if (lock->gate) {
        lock->gate->refs--;
    }

    ngx_free(lock);
}

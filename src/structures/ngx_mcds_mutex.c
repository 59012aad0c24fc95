
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_lease.h"
#include "ngx_mcds_mutex.h"
#include "ngx_mcds_index.h"


/* the delay of the next attempt while memcached does not reply, ms */
#define NGX_MCDS_MUTEX_FAILED     100

/*
 * the limits of a worker's gates: their number, and their bytes; each gate has
 * a request, so that the limits are never reached
 */
#define NGX_MCDS_GATE_BUCKETS     1024
#define NGX_MCDS_GATES            1048576
#define NGX_MCDS_GATES_SIZE       (512 * 1024 * 1024)


typedef enum {
    NGX_MCDS_MUTEX_WAITING = 0,   /* in the line, or to be refused */
    NGX_MCDS_MUTEX_ADDING,
    NGX_MCDS_MUTEX_COUNTING,
    NGX_MCDS_MUTEX_WRITING,
    NGX_MCDS_MUTEX_HOLDING
} ngx_mcds_mutex_step_e;


/* all requests of this worker for the lock of one key */

typedef struct {
    ngx_mcds_index_node_t    node;
    ngx_mcds_pool_t         *pool;
    ngx_uint_t               refs;
    ngx_queue_t              line;     /* waiters, first come first */
    ngx_uint_t               waiters;
    ngx_mcds_mutex_t        *trying;
    ngx_mcds_mutex_t        *holder;
    ngx_event_t              timer;    /* of the next attempt */
    ngx_msec_t               series;   /* start of the series */
    unsigned                 in_series:1;
    unsigned                 failed:1;
} ngx_mcds_gate_t;


struct ngx_mcds_mutex_s {
    ngx_queue_t              queue;    /* in gate->line */
    ngx_mcds_gate_t         *gate;     /* NULL: was lost */
    ngx_mcds_mutex_pt        handler;
    void                    *data;
    ngx_mcds_lease_t        *lock;
    ngx_mcds_op_t            op;       /* increments the counter */
    ngx_uint_t               step;     /* ngx_mcds_mutex_step_e */
    ngx_uint_t               status;   /* for the handler */
    uint32_t                 ttl;
    ngx_msec_t               start;
    ngx_msec_t               wait;
    ngx_event_t              timer;    /* end of the wait */
    ngx_mcds_mutex_item_t    item;
    u_char                   owner[NGX_MCDS_MUTEX_OWNER];
    unsigned                 lined:1;  /* is in gate->line */
    unsigned                 asked:1;  /* another owner had the lock */
    unsigned                 over:1;   /* no time, or no interest, left */
    unsigned                 released:1;
    unsigned                 lost:1;
};


static ngx_mcds_gate_t *ngx_mcds_mutex_gate(ngx_mcds_pool_t *pool,
    ngx_str_t *key);
static void ngx_mcds_mutex_made(ngx_mcds_mutex_t *mutex);
static void ngx_mcds_mutex_refuse(ngx_mcds_mutex_t *mutex,
    ngx_uint_t status);
static void ngx_mcds_mutex_refuse_handler(ngx_event_t *ev);
static void ngx_mcds_mutex_line(ngx_mcds_mutex_t *mutex, ngx_uint_t first);
static void ngx_mcds_mutex_unline(ngx_mcds_mutex_t *mutex);
static void ngx_mcds_mutex_over_handler(ngx_event_t *ev);
static void ngx_mcds_mutex_try(ngx_mcds_mutex_t *mutex);
static void ngx_mcds_mutex_lock_handler(void *data, ngx_mcds_lease_t *lock,
    ngx_uint_t rc);
static void ngx_mcds_mutex_count(ngx_mcds_mutex_t *mutex);
static void ngx_mcds_mutex_counted(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_mutex_held(ngx_mcds_mutex_t *mutex);
static void ngx_mcds_mutex_failed(ngx_mcds_mutex_t *mutex, ngx_uint_t rc);
static void ngx_mcds_mutex_lost(ngx_mcds_mutex_t *mutex);
static void ngx_mcds_mutex_next(ngx_mcds_gate_t *gate, ngx_msec_t delay);
static void ngx_mcds_mutex_next_handler(ngx_event_t *ev);
static void ngx_mcds_mutex_free(ngx_mcds_mutex_t *mutex);


static ngx_str_t          ngx_mcds_mutex_fence =
                              ngx_string(NGX_MCDS_MUTEX_FENCE);

/* the gates of this worker, and the largest number that it has seen */

static ngx_mcds_index_node_t  *ngx_mcds_gate_buckets[NGX_MCDS_GATE_BUCKETS];
static ngx_mcds_index_t   ngx_mcds_gates =
    ngx_mcds_index(ngx_mcds_gate_buckets, NGX_MCDS_GATES, NGX_MCDS_GATES_SIZE,
                   0, 0, NULL);
static uint64_t           ngx_mcds_mutex_seen;


ngx_mcds_mutex_t *
ngx_mcds_mutex_acquire(ngx_mcds_mutex_wish_t *wish, ngx_mcds_mutex_pt handler,
    void *data)
{
    ngx_uint_t         idle;
    ngx_mcds_gate_t   *gate;
    ngx_mcds_mutex_t  *mutex;

    mutex = ngx_calloc(sizeof(ngx_mcds_mutex_t), ngx_cycle->log);
    if (mutex == NULL) {
        return NULL;
    }

    gate = ngx_mcds_mutex_gate(wish->pool, &wish->key);
    if (gate == NULL) {
        ngx_free(mutex);
        return NULL;
    }

    gate->refs++;

    mutex->gate = gate;
    mutex->handler = handler;
    mutex->data = data;
    mutex->ttl = wish->ttl;
    mutex->start = ngx_current_msec;
    mutex->wait = wish->wait;

    mutex->timer.data = mutex;
    mutex->timer.log = ngx_cycle->log;
    mutex->timer.handler = ngx_mcds_mutex_over_handler;

    mutex->item.owner.data = mutex->owner;
    mutex->item.owner.len = wish->owner.len;
    ngx_memcpy(mutex->owner, wish->owner.data, wish->owner.len);

    if (wish->owner.len == 0) {
        ngx_mcds_mutex_made(mutex);
    }

    idle = (gate->trying == NULL && gate->holder == NULL
            && gate->waiters == 0);

    if (!idle && mutex->wait == 0) {
        ngx_mcds_mutex_refuse(mutex, gate->failed
                                     ? NGX_MCDS_MUTEX_UNAVAILABLE
                                     : NGX_MCDS_MUTEX_BUSY);
        return mutex;
    }

    if (!idle && gate->waiters >= wish->waiters) {
        ngx_mcds_mutex_refuse(mutex, NGX_MCDS_MUTEX_FULL);
        return mutex;
    }

    if (!idle && gate->failed) {
        ngx_mcds_mutex_refuse(mutex, NGX_MCDS_MUTEX_UNAVAILABLE);
        return mutex;
    }

    if (mutex->wait) {
        ngx_add_timer(&mutex->timer, mutex->wait);
    }

    if (idle) {
        ngx_mcds_mutex_try(mutex);

    } else {
        ngx_mcds_mutex_line(mutex, 0);
    }

    return mutex;
}


/* Generates a unique name. */

static void
ngx_mcds_mutex_made(ngx_mcds_mutex_t *mutex)
{
    u_char  bytes[NGX_MCDS_MUTEX_MADE / 2];

    ngx_mcds_random(bytes, NGX_MCDS_MUTEX_MADE / 2);

    (void) ngx_hex_dump(mutex->owner, bytes, NGX_MCDS_MUTEX_MADE / 2);

    mutex->item.owner.len = NGX_MCDS_MUTEX_MADE;
}


static ngx_mcds_gate_t *
ngx_mcds_mutex_gate(ngx_mcds_pool_t *pool, ngx_str_t *key)
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

    gate->timer.handler = ngx_mcds_mutex_next_handler;
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
ngx_mcds_mutex_release(ngx_mcds_mutex_t *mutex)
{
    ngx_msec_t        delay;
    ngx_mcds_gate_t  *gate;

    gate = mutex->gate;

    switch (mutex->step) {

    case NGX_MCDS_MUTEX_WAITING:

        ngx_mcds_mutex_unline(mutex);
        ngx_mcds_mutex_free(mutex);

        break;

    case NGX_MCDS_MUTEX_HOLDING:

        ngx_mcds_lease_release(mutex->lock, 0);
        ngx_mcds_mutex_free(mutex);

        if (gate == NULL) {
            return;
        }

        gate->holder = NULL;

        delay = ngx_mcds_mutex_pause(ngx_current_msec - gate->series);

        if (delay) {
            gate->in_series = 0;
        }

        ngx_mcds_mutex_next(gate, delay);

        return;

    case NGX_MCDS_MUTEX_COUNTING:

        ngx_mcds_cancel(&mutex->op);

        mutex->released = 1;
        ngx_mcds_mutex_failed(mutex, NGX_MCDS_NOT_STORED);

        return;

    default:

        /* the lock is released when memcached has replied */

        mutex->released = 1;
        mutex->over = 1;

        if (mutex->timer.timer_set) {
            ngx_del_timer(&mutex->timer);
        }

        return;
    }

    if (!gate->timer.timer_set) {
        ngx_mcds_mutex_next(gate, 0);
    }
}


void
ngx_mcds_mutex_leave(ngx_mcds_mutex_t *mutex)
{
    ngx_mcds_gate_t  *gate;

    gate = mutex->gate;

    ngx_mcds_lease_leave(mutex->lock);
    ngx_mcds_mutex_free(mutex);

    if (gate) {
        gate->holder = NULL;
        ngx_mcds_mutex_next(gate, NGX_MCDS_MUTEX_INTERVAL);
    }
}


ngx_uint_t
ngx_mcds_mutex_asked(ngx_mcds_mutex_t *mutex)
{
    return mutex->asked;
}


uint64_t
ngx_mcds_mutex_number(ngx_mcds_mutex_t *mutex)
{
    return mutex->item.number;
}


ngx_str_t *
ngx_mcds_mutex_owner(ngx_mcds_mutex_t *mutex)
{
    return &mutex->item.owner;
}


void
ngx_mcds_mutex_kick(ngx_mcds_pool_t *pool, ngx_str_t *key)
{
    ngx_mcds_gate_t        *gate;
    ngx_mcds_index_node_t  *node;

    node = ngx_mcds_index_find(&ngx_mcds_gates, pool, key,
                               ngx_mcds_hash(key->data, key->len));

    if (node) {
        gate = ngx_mcds_index_data(node, ngx_mcds_gate_t, node);
        ngx_mcds_mutex_next(gate, 0);
    }
}


/* Calls the handler later, from an event. */

static void
ngx_mcds_mutex_refuse(ngx_mcds_mutex_t *mutex, ngx_uint_t status)
{
    mutex->status = status;
    mutex->timer.handler = ngx_mcds_mutex_refuse_handler;

    ngx_post_event(&mutex->timer, &ngx_posted_events);
}


static void
ngx_mcds_mutex_refuse_handler(ngx_event_t *ev)
{
    void               *data;
    ngx_uint_t          status;
    ngx_mcds_gate_t    *gate;
    ngx_mcds_mutex_t   *mutex;
    ngx_mcds_mutex_pt   handler;

    mutex = ev->data;
    gate = mutex->gate;
    data = mutex->data;
    status = mutex->status;
    handler = mutex->handler;

    ngx_mcds_mutex_free(mutex);

    if (!gate->timer.timer_set) {
        ngx_mcds_mutex_next(gate, 0);
    }

    handler(data, NULL, status);
}


static void
ngx_mcds_mutex_line(ngx_mcds_mutex_t *mutex, ngx_uint_t first)
{
    ngx_mcds_gate_t  *gate;

    gate = mutex->gate;

    if (first) {
        ngx_queue_insert_head(&gate->line, &mutex->queue);

    } else {
        ngx_queue_insert_tail(&gate->line, &mutex->queue);
    }

    mutex->lined = 1;
    mutex->asked = 1;
    gate->waiters++;
}


static void
ngx_mcds_mutex_unline(ngx_mcds_mutex_t *mutex)
{
    if (mutex->lined) {
        ngx_queue_remove(&mutex->queue);
        mutex->lined = 0;
        mutex->gate->waiters--;
    }
}


static void
ngx_mcds_mutex_over_handler(ngx_event_t *ev)
{
    ngx_mcds_mutex_t *mutex = ev->data;

    mutex->over = 1;

    if (mutex->step != NGX_MCDS_MUTEX_WAITING) {

        /* the reply decides */

        return;
    }

    ngx_mcds_mutex_unline(mutex);

    mutex->status = mutex->gate->failed ? NGX_MCDS_MUTEX_UNAVAILABLE
                                        : NGX_MCDS_MUTEX_LATE;

    ngx_mcds_mutex_refuse_handler(ev);
}


static void
ngx_mcds_mutex_try(ngx_mcds_mutex_t *mutex)
{
    u_char                 text[NGX_MCDS_MUTEX_TEXT];
    ngx_mcds_gate_t       *gate;
    ngx_mcds_lease_wish_t  wish;

    gate = mutex->gate;

    gate->trying = mutex;

    mutex->step = NGX_MCDS_MUTEX_ADDING;
    mutex->item.number = 0;
    mutex->lost = 0;

    ngx_memzero(&wish, sizeof(ngx_mcds_lease_wish_t));

    wish.pool = gate->pool;
    wish.key = gate->node.key;
    wish.ttl = mutex->ttl;
    wish.text.data = text;
    wish.text.len = ngx_mcds_mutex_write(text, &mutex->item) - text;

    if (ngx_mcds_lease_acquire(&wish, ngx_mcds_mutex_lock_handler, mutex)
        != NGX_OK)
    {
        /*
         * the handler must not be called from inside of
         * ngx_mcds_mutex_acquire()
         */

        gate->trying = NULL;
        mutex->step = NGX_MCDS_MUTEX_WAITING;

        if (mutex->timer.timer_set) {
            ngx_del_timer(&mutex->timer);
        }

        ngx_mcds_mutex_refuse(mutex, NGX_MCDS_MUTEX_UNAVAILABLE);
    }
}


/* The handler of the lock for all its steps. */

static void
ngx_mcds_mutex_lock_handler(void *data, ngx_mcds_lease_t *lock, ngx_uint_t rc)
{
    ngx_mcds_mutex_t *mutex = data;

    mutex->lock = lock;

    if (lock == NULL) {
        ngx_mcds_mutex_failed(mutex, rc);
        return;
    }

    if (rc != NGX_MCDS_OK) {
        ngx_mcds_mutex_lost(mutex);
        return;
    }

    if (mutex->released) {
        ngx_mcds_mutex_failed(mutex, NGX_MCDS_NOT_STORED);
        return;
    }

    if (mutex->step == NGX_MCDS_MUTEX_ADDING) {
        ngx_mcds_mutex_count(mutex);
        return;
    }

    if (ngx_mcds_lease_sure(lock) <= 0) {

        /* this worker was stopped for too long */

        ngx_mcds_mutex_failed(mutex, NGX_MCDS_NOT_STORED);
        return;
    }

    ngx_mcds_mutex_held(mutex);
}


ngx_uint_t
ngx_mcds_mutex_is_fence(ngx_str_t *key)
{
    return ngx_mcds_key_ends(key, &ngx_mcds_mutex_fence);
}


static void
ngx_mcds_mutex_count(ngx_mcds_mutex_t *mutex)
{
    uint64_t            now;
    struct timeval      tv;
    ngx_mcds_request_t  req;

    ngx_gettimeofday(&tv);

    now = ngx_mcds_epoch(tv.tv_sec) * 1000000 + tv.tv_usec;

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.verb = NGX_MCDS_INCR;
    req.want = NGX_MCDS_VALUE;
    req.key = mutex->gate->node.key;
    req.suffix = ngx_mcds_mutex_fence;
    req.ttl = NGX_MCDS_MUTEX_FENCE_TTL;
    req.initial = ngx_mcds_mutex_first(now, ngx_mcds_mutex_seen);
    req.delta = 1;

    mutex->step = NGX_MCDS_MUTEX_COUNTING;
    mutex->op.handler = ngx_mcds_mutex_counted;
    mutex->op.data = mutex;

    ngx_mcds_submit(mutex->gate->pool, &req, &mutex->op);
}


static void
ngx_mcds_mutex_counted(void *data, ngx_mcds_result_t *result)
{
    u_char             text[NGX_MCDS_MUTEX_TEXT];
    uint64_t           number;
    ngx_str_t          s;
    ngx_uint_t         rc;
    ngx_mcds_key_t     key;
    ngx_mcds_mutex_t  *mutex;

    mutex = data;
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
        ngx_mcds_key_show(&key, &mutex->gate->node.key);

        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                      "\"%*s" NGX_MCDS_MUTEX_FENCE "\" holds no number, the "
                      "lock cannot be used", (size_t) key.len, key.data);
    }

    if (rc == NGX_MCDS_OK && mutex->lost) {
        rc = NGX_MCDS_NOT_STORED;
    }

    if (rc == NGX_MCDS_OK) {
        mutex->item.number = number;
        mutex->step = NGX_MCDS_MUTEX_WRITING;

        ngx_mcds_mutex_seen = ngx_max(ngx_mcds_mutex_seen, number);

        s.data = text;
        s.len = ngx_mcds_mutex_write(text, &mutex->item) - text;

        if (ngx_mcds_lease_write(mutex->lock, &s) == NGX_OK) {
            return;
        }

        rc = NGX_MCDS_NOT_STORED;
    }

    ngx_mcds_mutex_failed(mutex, rc);
}


static void
ngx_mcds_mutex_held(ngx_mcds_mutex_t *mutex)
{
    ngx_mcds_gate_t  *gate;

    gate = mutex->gate;

    if (mutex->timer.timer_set) {
        ngx_del_timer(&mutex->timer);
    }

    mutex->step = NGX_MCDS_MUTEX_HOLDING;

    gate->trying = NULL;
    gate->holder = mutex;
    gate->failed = 0;

    if (!gate->in_series) {
        gate->in_series = 1;
        gate->series = ngx_current_msec;
    }

    mutex->handler(mutex->data, mutex, NGX_MCDS_MUTEX_HELD);
}


/* Ends an attempt that has failed. */

static void
ngx_mcds_mutex_failed(ngx_mcds_mutex_t *mutex, ngx_uint_t rc)
{
    ngx_uint_t        busy;
    ngx_msec_t        delay;
    ngx_mcds_gate_t  *gate;

    if (mutex->lock) {
        ngx_mcds_lease_release(mutex->lock, 0);
        mutex->lock = NULL;
    }

    gate = mutex->gate;
    gate->trying = NULL;
    gate->in_series = 0;

    mutex->step = NGX_MCDS_MUTEX_WAITING;

    if (mutex->released) {
        ngx_mcds_mutex_free(mutex);
        ngx_mcds_mutex_next(gate, 0);
        return;
    }

    busy = (rc == NGX_MCDS_NOT_STORED || rc == NGX_MCDS_EXISTS
            || rc == NGX_MCDS_NOT_FOUND);

    gate->failed = !busy;

    if (busy) {
        mutex->asked = 1;
        delay = ngx_mcds_mutex_interval(ngx_current_msec - mutex->start,
                                        mutex->wait, ngx_random());

    } else {
        delay = NGX_MCDS_MUTEX_FAILED / 2
                + ngx_random() % (NGX_MCDS_MUTEX_FAILED / 2);
    }

    if (mutex->wait && !mutex->over && mutex->asked) {
        ngx_mcds_mutex_line(mutex, 1);
        ngx_mcds_mutex_next(gate, delay);
        return;
    }

    if (!busy) {
        mutex->status = NGX_MCDS_MUTEX_UNAVAILABLE;

    } else {
        mutex->status = mutex->wait ? NGX_MCDS_MUTEX_LATE
                                    : NGX_MCDS_MUTEX_BUSY;
    }

    if (gate->waiters) {
        ngx_mcds_mutex_next(gate, delay);
    }

    ngx_mcds_mutex_refuse_handler(&mutex->timer);
}


static void
ngx_mcds_mutex_lost(ngx_mcds_mutex_t *mutex)
{
    ngx_mcds_gate_t  *gate;

    if (mutex->step != NGX_MCDS_MUTEX_HOLDING) {
        mutex->lost = 1;
        return;
    }

    gate = mutex->gate;

    mutex->gate = NULL;

    gate->holder = NULL;
    gate->refs--;

    ngx_mcds_mutex_next(gate, 0);

    mutex->handler(mutex->data, mutex, NGX_MCDS_MUTEX_LOST);
}


/* The first waiter tries; a gate without requests is freed. */

static void
ngx_mcds_mutex_next(ngx_mcds_gate_t *gate, ngx_msec_t delay)
{
    ngx_queue_t       *q;
    ngx_mcds_mutex_t  *mutex;

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
    mutex = ngx_queue_data(q, ngx_mcds_mutex_t, queue);

    ngx_mcds_mutex_unline(mutex);
    ngx_mcds_mutex_try(mutex);
}


static void
ngx_mcds_mutex_next_handler(ngx_event_t *ev)
{
    ngx_mcds_mutex_next(ev->data, 0);
}


static void
ngx_mcds_mutex_free(ngx_mcds_mutex_t *mutex)
{
    if (mutex->timer.timer_set) {
        ngx_del_timer(&mutex->timer);
    }

    if (mutex->timer.posted) {
        ngx_delete_posted_event(&mutex->timer);
    }

    if (mutex->gate) {
        mutex->gate->refs--;
    }

    ngx_free(mutex);
}

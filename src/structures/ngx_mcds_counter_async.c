
/*
 * Copyright (C) mcds authors
 *
 * The counters that this worker remembers.  A counter is idle in the index, and
 * may be forgotten, if it has no change to send and waits for no reply of
 * memcached.  A counter that has a change to send, or whose number is to be
 * read, is in the queue of a flush: a timer that sends the sum of the changes
 * of each counter.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_counter_async.h"
#include "ngx_mcds_replay.h"
#include "ngx_mcds_stat_sums.h"
#include "ngx_mcds_timer.h"
#include "ngx_mcds_index.h"


/*
 * the limits of the counters whose numbers a worker remembers, so that requests
 * need not wait for memcached: their number, and their bytes
 */
#define NGX_MCDS_COUNTER_ASYNC_NODES   16384
#define NGX_MCDS_COUNTER_ASYNC_SIZE    (8 * 1024 * 1024)
#define NGX_MCDS_COUNTER_ASYNC_BUCKETS 4096

/*
 * the maximum number of counters whose sums are sent in one turn of the event
 * loop, so that other commands find room in the queue to memcached
 */
#define NGX_MCDS_COUNTER_ASYNC_BURST 512

/*
 * Milliseconds.  A timer that sends changes of counters checks at this interval
 * whether the worker exits.  A change that could not be sent is sent again
 * after this time at least, or earlier with the next change of its counter.
 * Lost changes are logged once in this time at most.
 */
#define NGX_MCDS_COUNTER_ASYNC_TICK 1000

/*
 * the limit of the sum of unsent changes that a worker keeps for a counter, far
 * below the maximum of int64_t
 */
#define NGX_MCDS_COUNTER_ASYNC_MAX ((int64_t) 1 << 61)


typedef struct {
    ngx_queue_t          queue;
    ngx_queue_t          asyncs;       /* counters whose summed changes are to
                                          be sent */
    ngx_event_t          event;
    ngx_msec_t           period;
    ngx_msec_t           last;         /* when the sums of all queued counters
                                          were last sent */
} ngx_mcds_flush_t;


typedef struct {
    /*
     * node in the index of counters that this worker remembers; the counter is
     * idle, and may be forgotten, if it has no change to send and memcached has
     * replied to the last one
     */
    ngx_mcds_index_node_t  node;

    ngx_queue_t          queue;        /* link in the queue of counters to be
                                          sent together (a flush) */
    ngx_mcds_flush_t    *flush;        /* flush, every "period" ms, that sends
                                          the sum of this counter's changes */
    ngx_msec_t           period;       /* shortest interval, of those requested,
                                          at which this counter's changes are
                                          sent */
    int64_t              kept;
    int64_t              sent;         /* sum of the counter's changes that was
                                          sent to memcached, without a reply
                                          yet */
    uint64_t             value;
    unsigned             known:1;      /* the value of the counter is known */
    unsigned             queued:1;     /* the counter is in the queue of those
                                          to be sent */
    unsigned             under_way:1;
    unsigned             buffer:1;     /* unsent changes of the counter are
                                          kept in shared memory (the outbox),
                                          not in the worker's own memory */
    ngx_mcds_stat_t     *stat;         /* statistics of the counter, or NULL */
    ngx_mcds_counter_t   counter;
} ngx_mcds_counter_async_t;


static void ngx_mcds_counter_async_init(void);
static ngx_mcds_counter_async_t *ngx_mcds_counter_async_find(
    ngx_mcds_counter_t *counter, uint32_t hash);
static ngx_mcds_counter_async_t *ngx_mcds_counter_async_create(
    ngx_mcds_counter_t *counter, uint32_t hash, ngx_msec_t period);
static void ngx_mcds_counter_async_drop(ngx_mcds_index_node_t *node);
static ngx_mcds_flush_t *ngx_mcds_counter_async_flush(ngx_msec_t period);
static ngx_int_t ngx_mcds_counter_async_queue(ngx_mcds_counter_async_t *async,
    ngx_msec_t period);
static void ngx_mcds_counter_async_flush_handler(ngx_event_t *ev);
static void ngx_mcds_counter_async_send(ngx_mcds_counter_async_t *async);
static void ngx_mcds_counter_async_handler(void *data, ngx_uint_t rc,
    uint64_t value);
static ngx_int_t ngx_mcds_counter_async_give(ngx_mcds_counter_async_t *async,
    int64_t delta);
static void ngx_mcds_counter_async_done(ngx_mcds_counter_async_t *async);
static void ngx_mcds_counter_async_lose(int64_t delta, ngx_log_t *log,
    char *reason);
static void ngx_mcds_counter_async_event_handler(ngx_event_t *ev);
static void ngx_mcds_counter_async_say(ngx_log_t *log);
static void ngx_mcds_counter_async_leave(ngx_mcds_index_node_t *node,
    void *data);


static ngx_mcds_index_node_t
    *ngx_mcds_counter_async_buckets[NGX_MCDS_COUNTER_ASYNC_BUCKETS];
static ngx_mcds_index_t  ngx_mcds_counter_async_index =
    ngx_mcds_index(ngx_mcds_counter_async_buckets, NGX_MCDS_COUNTER_ASYNC_NODES,
                   NGX_MCDS_COUNTER_ASYNC_SIZE, NGX_MCDS_COUNTER_ASYNC_NODES,
                   NGX_MCDS_COUNTER_ASYNC_SIZE, ngx_mcds_counter_async_drop);

static ngx_queue_t  ngx_mcds_counter_async_flushes;
static uint64_t     ngx_mcds_counter_async_lost;  /* sum of the sizes of lost
                                                     changes of counters, until
                                                     it is logged */
static char        *ngx_mcds_counter_async_reason;
static ngx_event_t  ngx_mcds_counter_async_event;  /* event that logs lost
                                                      changes of counters */


ngx_int_t
ngx_mcds_counter_async_change(ngx_mcds_counter_t *counter, int64_t delta,
    ngx_msec_t period, ngx_mcds_stat_t *stat, uint64_t *value)
{
    int64_t                    more;
    uint32_t                   hash;
    ngx_uint_t                 created;
    ngx_mcds_counter_async_t  *async;

    if (ngx_mcds_counter_async_flushes.next == NULL) {
        ngx_mcds_counter_async_init();
    }

    hash = ngx_mcds_hash(counter->key.data, counter->key.len);

    async = ngx_mcds_counter_async_find(counter, hash);
    created = 0;

    if (async == NULL) {
        async = ngx_mcds_counter_async_create(counter, hash, period);
        created = 1;
    }

    if (async == NULL
        || async->kept > NGX_MCDS_COUNTER_ASYNC_MAX - ngx_max(delta, 0)
        || async->kept < -NGX_MCDS_COUNTER_ASYNC_MAX - ngx_min(delta, 0)
        || ngx_mcds_counter_async_queue(async, created ? 0 : period) != NGX_OK)
    {
        ngx_mcds_stat_add(stat, NGX_MCDS_DATA_FAILED + NGX_MCDS_BUSY, 1);
        ngx_mcds_counter_async_lose(delta, ngx_cycle->log, "no room is left");
        return NGX_BUSY;
    }

    async->kept += delta;
    async->period = ngx_min(async->period, period);
    async->stat = stat;

    if (delta) {

        /*
         * only a directive that changes the counter sets its time to live, and
         * whether it is durable or buffered
         */

        async->counter.ttl = counter->ttl;
        async->counter.durable = counter->durable;
        async->buffer = counter->buffer;
    }

    if (!async->known) {
        return NGX_DECLINED;
    }

    more = async->sent + async->kept;

    *value = (more < 0 && async->value < (uint64_t) -more)
             ? 0 : async->value + more;

    return NGX_OK;
}


static void
ngx_mcds_counter_async_init(void)
{
    ngx_queue_init(&ngx_mcds_counter_async_flushes);

    ngx_mcds_timer_init(&ngx_mcds_counter_async_event,
                        ngx_mcds_counter_async_event_handler);
    ngx_mcds_counter_async_event.cancelable = 1;
}


static ngx_mcds_counter_async_t *
ngx_mcds_counter_async_find(ngx_mcds_counter_t *counter, uint32_t hash)
{
    ngx_mcds_counter_async_t  *async;
    ngx_mcds_index_node_t     *node;

    for (node = ngx_mcds_index_find(&ngx_mcds_counter_async_index,
                                    counter->pool, &counter->key, hash);
         node;
         node = ngx_mcds_index_next(node))
    {
        async = ngx_mcds_index_data(node, ngx_mcds_counter_async_t, node);

        if (async->counter.initial == counter->initial) {
            return async;
        }
    }

    return NULL;
}


static ngx_mcds_counter_async_t *
ngx_mcds_counter_async_create(ngx_mcds_counter_t *counter, uint32_t hash,
    ngx_msec_t period)
{
    size_t                     size;
    ngx_mcds_counter_async_t  *async;

    size = sizeof(ngx_mcds_counter_async_t) + counter->key.len;

    async = ngx_calloc(size, ngx_cycle->log);
    if (async == NULL) {
        return NULL;
    }

    async->period = period;
    async->counter = *counter;
    async->counter.buffer = 0;
    async->counter.key.data = (u_char *) async
                              + sizeof(ngx_mcds_counter_async_t);
    ngx_memcpy(async->counter.key.data, counter->key.data, counter->key.len);

    if (ngx_mcds_index_insert(&ngx_mcds_counter_async_index, &async->node,
                              counter->pool, &async->counter.key, hash, size)
        != NGX_OK)
    {
        ngx_free(async);
        return NULL;
    }

    ngx_mcds_index_idle(&ngx_mcds_counter_async_index, &async->node);

    return async;
}


static void
ngx_mcds_counter_async_drop(ngx_mcds_index_node_t *node)
{
    ngx_free(ngx_mcds_index_data(node, ngx_mcds_counter_async_t, node));
}


/*
 * Returns the flush that sends summed changes of counters at intervals of
 * "period" ms; there is one flush for each period that the configuration has.
 */

static ngx_mcds_flush_t *
ngx_mcds_counter_async_flush(ngx_msec_t period)
{
    ngx_queue_t       *q;
    ngx_mcds_flush_t  *flush;

    for (q = ngx_queue_head(&ngx_mcds_counter_async_flushes);
         q != ngx_queue_sentinel(&ngx_mcds_counter_async_flushes);
         q = ngx_queue_next(q))
    {
        flush = ngx_queue_data(q, ngx_mcds_flush_t, queue);

        if (flush->period == period) {
            return flush;
        }
    }

    flush = ngx_calloc(sizeof(ngx_mcds_flush_t), ngx_cycle->log);
    if (flush == NULL) {
        return NULL;
    }

    ngx_queue_init(&flush->asyncs);

    flush->period = period;
    flush->last = ngx_current_msec - period;
    flush->event.handler = ngx_mcds_counter_async_flush_handler;
    flush->event.data = flush;
    flush->event.log = ngx_cycle->log;

    ngx_queue_insert_head(&ngx_mcds_counter_async_flushes, &flush->queue);

    return flush;
}


static ngx_int_t
ngx_mcds_counter_async_queue(ngx_mcds_counter_async_t *async, ngx_msec_t period)
{
    ngx_msec_t         passed;
    ngx_mcds_flush_t  *flush;

    if (async->queued && async->flush->period <= period) {
        return NGX_OK;
    }

    flush = ngx_mcds_counter_async_flush(period);
    if (flush == NULL) {
        return NGX_ERROR;
    }

    if (async->queued) {
        ngx_queue_remove(&async->queue);
    }

    ngx_mcds_index_busy(&ngx_mcds_counter_async_index, &async->node);

    async->queued = 1;
    async->flush = flush;

    ngx_queue_insert_tail(&flush->asyncs, &async->queue);

    if (flush->event.timer_set || flush->event.posted) {
        return NGX_OK;
    }

    passed = ngx_current_msec - flush->last;

    if (passed >= flush->period) {
        ngx_post_event(&flush->event, &ngx_posted_events);
        return NGX_OK;
    }

    ngx_add_timer(&flush->event,
                  ngx_min(flush->period - passed, NGX_MCDS_COUNTER_ASYNC_TICK));

    return NGX_OK;
}


static void
ngx_mcds_counter_async_flush_handler(ngx_event_t *ev)
{
    ngx_uint_t                 n;
    ngx_msec_t                 passed, wait;
    ngx_queue_t               *q, later;
    ngx_mcds_counter_async_t  *async;
    ngx_mcds_flush_t          *flush;

    flush = ev->data;

    if (ngx_queue_empty(&flush->asyncs)) {
        return;
    }

    passed = ngx_current_msec - flush->last;

    if (passed < flush->period && !ngx_exiting) {
        ngx_add_timer(ev, ngx_min(flush->period - passed,
                                  NGX_MCDS_COUNTER_ASYNC_TICK));
        return;
    }

    ngx_queue_init(&later);

    for (n = 0; n < NGX_MCDS_COUNTER_ASYNC_BURST; /* void */) {

        if (ngx_queue_empty(&flush->asyncs)) {
            break;
        }

        q = ngx_queue_head(&flush->asyncs);
        async = ngx_queue_data(q, ngx_mcds_counter_async_t, queue);

        ngx_queue_remove(q);

        if (async->under_way) {
            ngx_queue_insert_tail(&later, q);
            continue;
        }

        ngx_mcds_counter_async_send(async);
        n++;
    }

    wait = 1;

    if (ngx_queue_empty(&flush->asyncs)) {
        flush->last = ngx_current_msec;
        wait = ngx_max(ngx_min(flush->period, NGX_MCDS_COUNTER_ASYNC_TICK), 1);
    }

    if (!ngx_queue_empty(&later)) {
        ngx_queue_add(&flush->asyncs, &later);
    }

    if (!ngx_queue_empty(&flush->asyncs)) {
        ngx_add_timer(ev, wait);
    }
}


static void
ngx_mcds_counter_async_send(ngx_mcds_counter_async_t *async)
{
    async->queued = 0;
    async->under_way = 1;
    async->sent = async->kept;
    async->kept = 0;

    if (ngx_mcds_counter_change(&async->counter, async->sent,
                                ngx_mcds_counter_async_handler, async)
        == NULL)
    {
        ngx_mcds_counter_async_handler(async, NGX_MCDS_BUSY, 0);
    }
}


static void
ngx_mcds_counter_async_handler(void *data, ngx_uint_t rc, uint64_t value)
{
    ngx_mcds_counter_async_t *async = data;

    int64_t  sent;

    sent = async->sent;

    async->sent = 0;
    async->under_way = 0;

    if (rc != NGX_MCDS_OK) {
        ngx_mcds_stat_add(async->stat, NGX_MCDS_DATA_FAILED + rc, 1);
    }

    switch (rc) {

    case NGX_MCDS_OK:
        async->known = 1;
        async->value = value;
        break;

    case NGX_MCDS_DOWN:
    case NGX_MCDS_BUSY:
    case NGX_MCDS_TLS:

        /*
         * the change of the counter was not sent: it is kept in shared memory
         * (the outbox), or in this worker until the next flush
         */

        if (ngx_mcds_counter_async_give(async, sent) == NGX_OK) {

            /*
             * a change that waits in shared memory (the outbox) is added to the
             * counter's value that this worker knows, until memcached replies
             * with the counter again
             */

            async->value = (sent < 0 && async->value < (uint64_t) -sent)
                           ? 0 : async->value + sent;
            break;
        }

        if (!ngx_exiting) {
            async->kept += sent;
            break;
        }

        /* fall through */

    default:

        if (rc == NGX_MCDS_NOT_NUMERIC) {
            async->known = 0;
        }

        ngx_mcds_counter_async_lose(sent, ngx_cycle->log,
                                    ngx_mcds_strerror(rc));
    }

    ngx_mcds_counter_async_done(async);
}


/*
 * Puts a change of a counter, which was not sent, into the outbox (shared
 * memory for unsent changes), from which it is added to the counter later, see
 * ngx_mcds_replay_keep().  NGX_DECLINED: the counter does not use the outbox,
 * or there is none; NGX_BUSY: the outbox has no room.
 */

static ngx_int_t
ngx_mcds_counter_async_give(ngx_mcds_counter_async_t *async, int64_t delta)
{
    if (!async->buffer) {
        return NGX_DECLINED;
    }

    return delta ? ngx_mcds_replay_keep(&async->counter, delta) : NGX_OK;
}


static void
ngx_mcds_counter_async_done(ngx_mcds_counter_async_t *async)
{
    if (async->queued) {
        return;
    }

    if (async->kept
        && ngx_mcds_counter_async_queue(async,
                           ngx_max(async->period, NGX_MCDS_COUNTER_ASYNC_TICK))
           != NGX_OK)
    {
        ngx_mcds_counter_async_lose(async->kept, ngx_cycle->log,
                                    "no room is left");
        async->kept = 0;
    }

    if (!async->queued) {
        ngx_mcds_index_idle(&ngx_mcds_counter_async_index, &async->node);
    }
}


/*
 * Adds the size of a lost change of a counter to the sum that is logged, in at
 * most one message per second.
 */

static void
ngx_mcds_counter_async_lose(int64_t delta, ngx_log_t *log, char *reason)
{
    ngx_mcds_counter_async_lost += (delta < 0) ? -delta : delta;
    ngx_mcds_counter_async_reason = reason;

    if (ngx_mcds_counter_async_lost
        && !ngx_mcds_counter_async_event.timer_set)
    {
        ngx_mcds_counter_async_say(log);
        ngx_add_timer(&ngx_mcds_counter_async_event,
                      NGX_MCDS_COUNTER_ASYNC_TICK);
    }
}


static void
ngx_mcds_counter_async_event_handler(ngx_event_t *ev)
{
    if (ngx_mcds_counter_async_lost) {
        ngx_mcds_counter_async_say(ev->log);
        ngx_add_timer(ev, NGX_MCDS_COUNTER_ASYNC_TICK);
    }
}


static void
ngx_mcds_counter_async_say(ngx_log_t *log)
{
    if (ngx_mcds_counter_async_lost) {
        ngx_log_error(NGX_LOG_WARN, log, 0, "counts are lost, %uL: %s",
                      ngx_mcds_counter_async_lost,
                      ngx_mcds_counter_async_reason);
        ngx_mcds_counter_async_lost = 0;
    }
}


void
ngx_mcds_counter_async_exit(ngx_log_t *log)
{
    if (ngx_mcds_counter_async_flushes.next == NULL) {
        return;
    }

    ngx_mcds_counter_async_say(log);

    ngx_mcds_counter_async_reason = "the worker exits";

    ngx_mcds_index_walk(&ngx_mcds_counter_async_index,
                        ngx_mcds_counter_async_leave, NULL);

    ngx_mcds_counter_async_say(log);
}


static void
ngx_mcds_counter_async_leave(ngx_mcds_index_node_t *node, void *data)
{
    int64_t                    delta;
    ngx_mcds_counter_async_t  *async;

    async = ngx_mcds_index_data(node, ngx_mcds_counter_async_t, node);

    if (ngx_mcds_counter_async_give(async, async->kept) == NGX_OK) {
        async->kept = 0;
    }

    delta = async->kept + async->sent;
    ngx_mcds_counter_async_lost += (delta < 0) ? -delta : delta;
}

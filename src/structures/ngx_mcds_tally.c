
/*
 * Copyright (C) mcds authors
 *
 * A tally is idle in the index, and may be forgotten, if nothing is to be sent
 * and no answer is missing.  Otherwise a flush has the tally in its queue, to
 * send its sum, or an answer is missing.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_tally.h"
#include "ngx_mcds_buffer.h"
#include "ngx_mcds_stat_sums.h"
#include "ngx_mcds_timer.h"
#include "ngx_mcds_index.h"


/*
 * the limits of the counters that a worker knows: their number, and their bytes
 */
#define NGX_MCDS_TALLIES          16384
#define NGX_MCDS_TALLY_SIZE       (8 * 1024 * 1024)
#define NGX_MCDS_TALLY_BUCKETS    4096

/*
 * the maximum number of tallies sent in one turn, so that other commands find
 * room in the queue to memcached
 */
#define NGX_MCDS_TALLY_BURST      512

/*
 * the interval at which a flush looks whether the worker exits; and the
 * shortest time until a change that could not be sent is tried again, unless
 * more is added; ms
 */
#define NGX_MCDS_TALLY_TICK       1000

/* the limit of the sum kept, far from the end of its type */
#define NGX_MCDS_TALLY_MAX        ((int64_t) 1 << 61)


typedef struct {
    ngx_queue_t          queue;
    ngx_queue_t          tallies;      /* to be sent */
    ngx_event_t          event;
    ngx_msec_t           period;
    ngx_msec_t           last;         /* when the last flush was complete */
} ngx_mcds_flush_t;


typedef struct {
    ngx_mcds_index_node_t  node;       /* idle: nothing is to be sent, and no
                                          answer is missing */
    ngx_queue_t          queue;        /* in flush->tallies */
    ngx_mcds_flush_t    *flush;        /* that sends the sum */
    ngx_msec_t           period;       /* the shortest requested */
    int64_t              kept;
    int64_t              sent;         /* not answered yet */
    uint64_t             value;
    unsigned             known:1;      /* value is known */
    unsigned             queued:1;     /* is in flush->tallies */
    unsigned             under_way:1;
    unsigned             buffer:1;     /* keep in the ledger, not here */
    ngx_mcds_stat_t     *stat;         /* or NULL */
    ngx_mcds_counter_t   counter;
} ngx_mcds_tally_t;


static void ngx_mcds_tally_init(void);
static ngx_mcds_tally_t *ngx_mcds_tally_find(ngx_mcds_counter_t *counter,
    uint32_t hash);
static ngx_mcds_tally_t *ngx_mcds_tally_create(ngx_mcds_counter_t *counter,
    uint32_t hash, ngx_msec_t period);
static void ngx_mcds_tally_drop(ngx_mcds_index_node_t *node);
static ngx_mcds_flush_t *ngx_mcds_tally_flush(ngx_msec_t period);
static ngx_int_t ngx_mcds_tally_queue(ngx_mcds_tally_t *tally,
    ngx_msec_t period);
static void ngx_mcds_tally_flush_handler(ngx_event_t *ev);
static void ngx_mcds_tally_send(ngx_mcds_tally_t *tally);
static void ngx_mcds_tally_handler(void *data, ngx_uint_t rc, uint64_t value);
static ngx_int_t ngx_mcds_tally_give(ngx_mcds_tally_t *tally, int64_t delta);
static void ngx_mcds_tally_done(ngx_mcds_tally_t *tally);
static void ngx_mcds_tally_lose(int64_t delta, ngx_log_t *log, char *reason);
static void ngx_mcds_tally_event_handler(ngx_event_t *ev);
static void ngx_mcds_tally_say(ngx_log_t *log);
static void ngx_mcds_tally_leave(ngx_mcds_index_node_t *node, void *data);


static ngx_mcds_index_node_t  *ngx_mcds_tally_buckets[NGX_MCDS_TALLY_BUCKETS];
static ngx_mcds_index_t  ngx_mcds_tallies =
    ngx_mcds_index(ngx_mcds_tally_buckets, NGX_MCDS_TALLIES,
                   NGX_MCDS_TALLY_SIZE, NGX_MCDS_TALLIES, NGX_MCDS_TALLY_SIZE,
                   ngx_mcds_tally_drop);

static ngx_queue_t  ngx_mcds_tally_flushes;
static uint64_t     ngx_mcds_tally_lost;        /* not logged yet */
static char        *ngx_mcds_tally_reason;
static ngx_event_t  ngx_mcds_tally_event;       /* logs losses */


ngx_int_t
ngx_mcds_tally_change(ngx_mcds_counter_t *counter, int64_t delta,
    ngx_msec_t period, ngx_mcds_stat_t *stat, uint64_t *value)
{
    int64_t            more;
    uint32_t           hash;
    ngx_uint_t         created;
    ngx_mcds_tally_t  *tally;

    if (ngx_mcds_tally_flushes.next == NULL) {
        ngx_mcds_tally_init();
    }

    hash = ngx_mcds_hash(counter->key.data, counter->key.len);

    tally = ngx_mcds_tally_find(counter, hash);
    created = 0;

    if (tally == NULL) {
        tally = ngx_mcds_tally_create(counter, hash, period);
        created = 1;
    }

    if (tally == NULL
        || tally->kept > NGX_MCDS_TALLY_MAX - ngx_max(delta, 0)
        || tally->kept < -NGX_MCDS_TALLY_MAX - ngx_min(delta, 0)
        || ngx_mcds_tally_queue(tally, created ? 0 : period) != NGX_OK)
    {
        ngx_mcds_stat_add(stat, NGX_MCDS_DATA_FAILED + NGX_MCDS_BUSY, 1);
        ngx_mcds_tally_lose(delta, ngx_cycle->log, "no room is left");
        return NGX_BUSY;
    }

    tally->kept += delta;
    tally->period = ngx_min(tally->period, period);
    tally->counter.ttl = counter->ttl;
    tally->buffer = counter->buffer;
    tally->stat = stat;

    if (!tally->known) {
        return NGX_DECLINED;
    }

    more = tally->sent + tally->kept;

    *value = (more < 0 && tally->value < (uint64_t) -more)
             ? 0 : tally->value + more;

    return NGX_OK;
}


static void
ngx_mcds_tally_init(void)
{
    ngx_queue_init(&ngx_mcds_tally_flushes);

    ngx_mcds_timer_init(&ngx_mcds_tally_event, ngx_mcds_tally_event_handler);
    ngx_mcds_tally_event.cancelable = 1;
}


static ngx_mcds_tally_t *
ngx_mcds_tally_find(ngx_mcds_counter_t *counter, uint32_t hash)
{
    ngx_mcds_tally_t       *tally;
    ngx_mcds_index_node_t  *node;

    for (node = ngx_mcds_index_find(&ngx_mcds_tallies, counter->pool,
                                    &counter->key, hash);
         node;
         node = ngx_mcds_index_next(node))
    {
        tally = ngx_mcds_index_data(node, ngx_mcds_tally_t, node);

        if (tally->counter.initial == counter->initial) {
            return tally;
        }
    }

    return NULL;
}


static ngx_mcds_tally_t *
ngx_mcds_tally_create(ngx_mcds_counter_t *counter, uint32_t hash,
    ngx_msec_t period)
{
    size_t             size;
    ngx_mcds_tally_t  *tally;

    size = sizeof(ngx_mcds_tally_t) + counter->key.len;

    tally = ngx_calloc(size, ngx_cycle->log);
    if (tally == NULL) {
        return NULL;
    }

    tally->period = period;
    tally->counter = *counter;
    tally->counter.buffer = 0;
    tally->counter.key.data = (u_char *) tally + sizeof(ngx_mcds_tally_t);
    ngx_memcpy(tally->counter.key.data, counter->key.data, counter->key.len);

    if (ngx_mcds_index_insert(&ngx_mcds_tallies, &tally->node, counter->pool,
                              &tally->counter.key, hash, size)
        != NGX_OK)
    {
        ngx_free(tally);
        return NULL;
    }

    ngx_mcds_index_idle(&ngx_mcds_tallies, &tally->node);

    return tally;
}


static void
ngx_mcds_tally_drop(ngx_mcds_index_node_t *node)
{
    ngx_free(ngx_mcds_index_data(node, ngx_mcds_tally_t, node));
}


/* There is a flush for each different value of the configuration. */

static ngx_mcds_flush_t *
ngx_mcds_tally_flush(ngx_msec_t period)
{
    ngx_queue_t       *q;
    ngx_mcds_flush_t  *flush;

    for (q = ngx_queue_head(&ngx_mcds_tally_flushes);
         q != ngx_queue_sentinel(&ngx_mcds_tally_flushes);
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

    ngx_queue_init(&flush->tallies);

    flush->period = period;
    flush->last = ngx_current_msec - period;
    flush->event.handler = ngx_mcds_tally_flush_handler;
    flush->event.data = flush;
    flush->event.log = ngx_cycle->log;

    ngx_queue_insert_head(&ngx_mcds_tally_flushes, &flush->queue);

    return flush;
}


static ngx_int_t
ngx_mcds_tally_queue(ngx_mcds_tally_t *tally, ngx_msec_t period)
{
    ngx_msec_t         passed;
    ngx_mcds_flush_t  *flush;

    if (tally->queued && tally->flush->period <= period) {
        return NGX_OK;
    }

    flush = ngx_mcds_tally_flush(period);
    if (flush == NULL) {
        return NGX_ERROR;
    }

    if (tally->queued) {
        ngx_queue_remove(&tally->queue);
    }

    ngx_mcds_index_busy(&ngx_mcds_tallies, &tally->node);

    tally->queued = 1;
    tally->flush = flush;

    ngx_queue_insert_tail(&flush->tallies, &tally->queue);

    if (flush->event.timer_set || flush->event.posted) {
        return NGX_OK;
    }

    passed = ngx_current_msec - flush->last;

    if (passed >= flush->period) {
        ngx_post_event(&flush->event, &ngx_posted_events);
        return NGX_OK;
    }

    ngx_add_timer(&flush->event,
                  ngx_min(flush->period - passed, NGX_MCDS_TALLY_TICK));

    return NGX_OK;
}


static void
ngx_mcds_tally_flush_handler(ngx_event_t *ev)
{
    ngx_uint_t         n;
    ngx_msec_t         passed, wait;
    ngx_queue_t       *q, later;
    ngx_mcds_tally_t  *tally;
    ngx_mcds_flush_t  *flush;

    flush = ev->data;

    if (ngx_queue_empty(&flush->tallies)) {
        return;
    }

    passed = ngx_current_msec - flush->last;

    if (passed < flush->period && !ngx_exiting) {
        ngx_add_timer(ev, ngx_min(flush->period - passed,
                                  NGX_MCDS_TALLY_TICK));
        return;
    }

    ngx_queue_init(&later);

    for (n = 0; n < NGX_MCDS_TALLY_BURST; /* void */) {

        if (ngx_queue_empty(&flush->tallies)) {
            break;
        }

        q = ngx_queue_head(&flush->tallies);
        tally = ngx_queue_data(q, ngx_mcds_tally_t, queue);

        ngx_queue_remove(q);

        if (tally->under_way) {
            ngx_queue_insert_tail(&later, q);
            continue;
        }

        ngx_mcds_tally_send(tally);
        n++;
    }

    wait = 1;

    if (ngx_queue_empty(&flush->tallies)) {
        flush->last = ngx_current_msec;
        wait = ngx_max(ngx_min(flush->period, NGX_MCDS_TALLY_TICK), 1);
    }

    if (!ngx_queue_empty(&later)) {
        ngx_queue_add(&flush->tallies, &later);
    }

    if (!ngx_queue_empty(&flush->tallies)) {
        ngx_add_timer(ev, wait);
    }
}


static void
ngx_mcds_tally_send(ngx_mcds_tally_t *tally)
{
    tally->queued = 0;
    tally->under_way = 1;
    tally->sent = tally->kept;
    tally->kept = 0;

    if (ngx_mcds_counter_change(&tally->counter, tally->sent,
                                ngx_mcds_tally_handler, tally)
        == NULL)
    {
        ngx_mcds_tally_handler(tally, NGX_MCDS_BUSY, 0);
    }
}


static void
ngx_mcds_tally_handler(void *data, ngx_uint_t rc, uint64_t value)
{
    ngx_mcds_tally_t *tally = data;

    int64_t  sent;

    sent = tally->sent;

    tally->sent = 0;
    tally->under_way = 0;

    if (rc != NGX_MCDS_OK) {
        ngx_mcds_stat_add(tally->stat, NGX_MCDS_DATA_FAILED + rc, 1);
    }

    switch (rc) {

    case NGX_MCDS_OK:
        tally->known = 1;
        tally->value = value;
        break;

    case NGX_MCDS_DOWN:
    case NGX_MCDS_BUSY:
    case NGX_MCDS_TLS:

        /*
         * the change was not sent: it waits in the ledger, or for the next
         * flush
         */

        if (ngx_mcds_tally_give(tally, sent) == NGX_OK) {

            /* counts as added, until the next result */

            tally->value = (sent < 0 && tally->value < (uint64_t) -sent)
                           ? 0 : tally->value + sent;
            break;
        }

        if (!ngx_exiting) {
            tally->kept += sent;
            break;
        }

        /* fall through */

    default:

        if (rc == NGX_MCDS_NOT_NUMERIC) {
            tally->known = 0;
        }

        ngx_mcds_tally_lose(sent, ngx_cycle->log, ngx_mcds_strerror(rc));
    }

    ngx_mcds_tally_done(tally);
}


/* Moves a change to the ledger, from which it is added later. */

static ngx_int_t
ngx_mcds_tally_give(ngx_mcds_tally_t *tally, int64_t delta)
{
    if (!tally->buffer) {
        return NGX_DECLINED;
    }

    return delta ? ngx_mcds_buffer_keep(&tally->counter, delta) : NGX_OK;
}


static void
ngx_mcds_tally_done(ngx_mcds_tally_t *tally)
{
    if (tally->queued) {
        return;
    }

    if (tally->kept
        && ngx_mcds_tally_queue(tally, ngx_max(tally->period,
                                               NGX_MCDS_TALLY_TICK))
           != NGX_OK)
    {
        ngx_mcds_tally_lose(tally->kept, ngx_cycle->log, "no room is left");
        tally->kept = 0;
    }

    if (!tally->queued) {
        ngx_mcds_index_idle(&ngx_mcds_tallies, &tally->node);
    }
}


/* At most one message per second is logged. */

static void
ngx_mcds_tally_lose(int64_t delta, ngx_log_t *log, char *reason)
{
    ngx_mcds_tally_lost += (delta < 0) ? -delta : delta;
    ngx_mcds_tally_reason = reason;

    if (ngx_mcds_tally_lost && !ngx_mcds_tally_event.timer_set) {
        ngx_mcds_tally_say(log);
        ngx_add_timer(&ngx_mcds_tally_event, NGX_MCDS_TALLY_TICK);
    }
}


static void
ngx_mcds_tally_event_handler(ngx_event_t *ev)
{
    if (ngx_mcds_tally_lost) {
        ngx_mcds_tally_say(ev->log);
        ngx_add_timer(ev, NGX_MCDS_TALLY_TICK);
    }
}


static void
ngx_mcds_tally_say(ngx_log_t *log)
{
    if (ngx_mcds_tally_lost) {
        ngx_log_error(NGX_LOG_WARN, log, 0, "counts are lost, %uL: %s",
                      ngx_mcds_tally_lost, ngx_mcds_tally_reason);
        ngx_mcds_tally_lost = 0;
    }
}


void
ngx_mcds_tally_exit(ngx_log_t *log)
{
    if (ngx_mcds_tally_flushes.next == NULL) {
        return;
    }

    ngx_mcds_tally_say(log);

    ngx_mcds_tally_reason = "the worker exits";

    ngx_mcds_index_walk(&ngx_mcds_tallies, ngx_mcds_tally_leave, NULL);

    ngx_mcds_tally_say(log);
}


static void
ngx_mcds_tally_leave(ngx_mcds_index_node_t *node, void *data)
{
    int64_t            delta;
    ngx_mcds_tally_t  *tally;

    tally = ngx_mcds_index_data(node, ngx_mcds_tally_t, node);

    if (ngx_mcds_tally_give(tally, tally->kept) == NGX_OK) {
        tally->kept = 0;
    }

    delta = tally->kept + tally->sent;
    ngx_mcds_tally_lost += (delta < 0) ? -delta : delta;
}


/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_counter.h"
#include "ngx_mcds_outbox.h"
#include "ngx_mcds_raise.h"
#include "ngx_mcds_replay.h"
#include "ngx_mcds_timer.h"
#include "ngx_mcds_index.h"


/*
 * the index of batches (summed changes of one counter): its hash buckets, and
 * the maximum of batches and of bytes in it; if the index is full, a change for
 * which there is no batch is sent alone
 */
#define NGX_MCDS_COUNTER_BUCKETS  64
#define NGX_MCDS_COUNTER_BATCHES  16384
#define NGX_MCDS_COUNTER_SIZE     (16 * 1024 * 1024)

/*
 * If a turn of the event loop has at least NGX_MCDS_COUNTER_MANY changes of
 * counters, and at least one in NGX_MCDS_COUNTER_JOINED of them was added to an
 * earlier change of the same counter, the changes wait for those of the next
 * turns: at most for NGX_MCDS_COUNTER_TURNS turns, and for a millisecond.
 */
#define NGX_MCDS_COUNTER_MANY     8
#define NGX_MCDS_COUNTER_JOINED   16
#define NGX_MCDS_COUNTER_TURNS    8

/*
 * the size in bytes of a buffer for a counter's value as text: longer than the
 * text of any 64-bit number, with the spaces that memcached may append
 */
#define NGX_MCDS_COUNTER_LEN      64


struct ngx_mcds_count_s {
    ngx_queue_t          queue;
    ngx_mcds_count_pt    handler;      /* handler that gets the counter's value
                                          after this change; NULL: the request
                                          no longer waits for it */
    void                *data;
    uint64_t             delta;
};


/*
 * A batch: the sum of the changes of one counter in this turn of the event
 * loop; 0 if the counter is only read.  A subtraction has a batch of its own:
 * memcached stops at 0, so the result would not tell each request its number.
 */

typedef struct {
    ngx_mcds_index_node_t  node;       /* node in the index of batches (summed
                                          changes of one counter) to which
                                          further changes can be added; not
                                          used by a subtraction */
    ngx_mcds_op_t          op;
    ngx_queue_t            queue;      /* link in the queue of batches to send
                                          to memcached */
    ngx_queue_t            counts;     /* changes of the counter,
                                          ngx_mcds_count_t, in order */
    uint64_t               sum;
    uint64_t               id;         /* id of the counter in shared memory
                                          (the outbox), or 0 */
    uint64_t               known;      /* larger of two values of the counter:
                                          the initial one, and the one that
                                          nginx remembers in shared memory */

    /*
     * for ngx_mcds_raise(): if memcached has lost the counter, that function
     * increases the new counter to the number that nginx remembers
     */
    ngx_mcds_wish_t        wish;

    uint64_t               value;      /* value of the counter in memcached's
                                          reply, kept while ngx_mcds_raise()
                                          increases the counter */
    ngx_msec_t             sent;
    ngx_uint_t             subtract;
    ngx_mcds_counter_t     counter;
} ngx_mcds_batch_t;


static ngx_mcds_batch_t *ngx_mcds_counter_batch(ngx_mcds_counter_t *counter,
    int64_t delta);
static ngx_mcds_batch_t *ngx_mcds_counter_find(ngx_mcds_counter_t *counter,
    int64_t delta, uint32_t hash);
static void ngx_mcds_counter_init(void);
static void ngx_mcds_counter_flush_handler(ngx_event_t *ev);
static ngx_uint_t ngx_mcds_counter_delay(ngx_event_t *ev);
static void ngx_mcds_counter_send(ngx_mcds_batch_t *batch);
static void ngx_mcds_counter_recall(ngx_mcds_batch_t *batch,
    ngx_mcds_request_t *req);
static void ngx_mcds_counter_handler(void *data, ngx_mcds_result_t *result);
static ngx_int_t ngx_mcds_counter_number(ngx_mcds_batch_t *batch,
    uint64_t value);
static ngx_int_t ngx_mcds_counter_raise(ngx_mcds_batch_t *batch,
    uint64_t value);
static void ngx_mcds_counter_raised(void *data, ngx_int_t rc, uint64_t value);
static void ngx_mcds_counter_lowered(ngx_mcds_batch_t *batch);
static uint64_t ngx_mcds_counter_id(ngx_mcds_counter_t *counter);
static void ngx_mcds_counter_unmark(ngx_mcds_batch_t *batch,
    ngx_mcds_result_t *result);
static void ngx_mcds_counter_done(ngx_mcds_batch_t *batch, ngx_uint_t rc,
    uint64_t value);


static ngx_mcds_index_node_t  *
                    ngx_mcds_counter_buckets[NGX_MCDS_COUNTER_BUCKETS];
static ngx_mcds_index_t  ngx_mcds_counter_index =
    ngx_mcds_index(ngx_mcds_counter_buckets, NGX_MCDS_COUNTER_BATCHES,
                   NGX_MCDS_COUNTER_SIZE, 0, 0, NULL);

static ngx_queue_t  ngx_mcds_counter_batches;   /* summed changes of counters to
                                                   send, in order */
static ngx_queue_t  ngx_mcds_counter_free;
static ngx_event_t  ngx_mcds_counter_flush;
static ngx_uint_t   ngx_mcds_counter_counts;    /* changes of counters in this
                                                   turn of the event loop */
static ngx_uint_t   ngx_mcds_counter_joined;    /* changes of counters in this
                                                   turn of the event loop that
                                                   were added to earlier ones */
static ngx_uint_t   ngx_mcds_counter_turns;     /* number of turns of the event
                                                   loop for which changes of
                                                   counters have waited */


ngx_mcds_count_t *
ngx_mcds_counter_add(ngx_mcds_pool_t *pool, ngx_str_t *key, uint64_t delta,
    uint32_t ttl, ngx_mcds_count_pt handler, void *data)
{
    ngx_mcds_counter_t  counter;

    counter.pool = pool;
    counter.key = *key;
    counter.initial = 0;
    counter.ttl = ttl;
    counter.update = 0;
    counter.durable = 0;
    counter.buffer = 0;

    return ngx_mcds_counter_change(&counter, delta, handler, data);
}


ngx_mcds_count_t *
ngx_mcds_counter_change(ngx_mcds_counter_t *counter, int64_t delta,
    ngx_mcds_count_pt handler, void *data)
{
    ngx_queue_t       *q;
    ngx_mcds_count_t  *count;
    ngx_mcds_batch_t  *batch;

    if (ngx_mcds_counter_flush.handler == NULL) {
        ngx_mcds_counter_init();
    }

    if (ngx_queue_empty(&ngx_mcds_counter_free)) {
        count = ngx_alloc(sizeof(ngx_mcds_count_t), ngx_cycle->log);
        if (count == NULL) {
            return NULL;
        }

    } else {
        q = ngx_queue_head(&ngx_mcds_counter_free);
        ngx_queue_remove(q);
        count = ngx_queue_data(q, ngx_mcds_count_t, queue);
    }

    count->handler = handler;
    count->data = data;
    count->delta = (delta < 0) ? -delta : delta;

    batch = ngx_mcds_counter_batch(counter, delta);

    if (batch == NULL) {
        ngx_queue_insert_head(&ngx_mcds_counter_free, &count->queue);
        return NULL;
    }

    batch->sum += count->delta;
    ngx_queue_insert_tail(&batch->counts, &count->queue);

    ngx_mcds_counter_counts++;

    if (!ngx_mcds_counter_flush.posted) {
        ngx_post_event(&ngx_mcds_counter_flush, &ngx_posted_events);
    }

    return count;
}


void
ngx_mcds_counter_cancel(ngx_mcds_count_t *count)
{
    count->handler = NULL;
}


static void
ngx_mcds_counter_init(void)
{
    ngx_queue_init(&ngx_mcds_counter_free);
    ngx_queue_init(&ngx_mcds_counter_batches);

    ngx_mcds_timer_init(&ngx_mcds_counter_flush,
                        ngx_mcds_counter_flush_handler);
}


static ngx_mcds_batch_t *
ngx_mcds_counter_batch(ngx_mcds_counter_t *counter, int64_t delta)
{
    uint32_t           hash;
    ngx_str_t         *key;
    ngx_mcds_batch_t  *batch;

    key = &counter->key;
    hash = 0;

    if (delta >= 0) {
        hash = ngx_mcds_hash(key->data, key->len);

        batch = ngx_mcds_counter_find(counter, delta, hash);
        if (batch) {
            ngx_mcds_counter_joined++;
            return batch;
        }
    }

    batch = ngx_alloc(sizeof(ngx_mcds_batch_t) + key->len, ngx_cycle->log);
    if (batch == NULL) {
        return NULL;
    }

    ngx_memzero(&batch->op, sizeof(ngx_mcds_op_t));

    batch->op.handler = ngx_mcds_counter_handler;
    batch->op.data = batch;

    ngx_queue_init(&batch->counts);
    batch->sum = 0;
    batch->subtract = (delta < 0);
    batch->counter = *counter;
    batch->counter.key.data = (u_char *) batch + sizeof(ngx_mcds_batch_t);
    ngx_memcpy(batch->counter.key.data, key->data, key->len);

    batch->node.link = NULL;

    if (delta >= 0) {
        (void) ngx_mcds_index_insert(&ngx_mcds_counter_index, &batch->node,
                                     counter->pool, &batch->counter.key, hash,
                                     sizeof(ngx_mcds_batch_t) + key->len);
    }

    ngx_queue_insert_tail(&ngx_mcds_counter_batches, &batch->queue);

    return batch;
}


static ngx_mcds_batch_t *
ngx_mcds_counter_find(ngx_mcds_counter_t *counter, int64_t delta,
    uint32_t hash)
{
    ngx_mcds_batch_t       *batch;
    ngx_mcds_index_node_t  *node;

    for (node = ngx_mcds_index_find(&ngx_mcds_counter_index, counter->pool,
                                    &counter->key, hash);
         node;
         node = ngx_mcds_index_next(node))
    {
        batch = ngx_mcds_index_data(node, ngx_mcds_batch_t, node);

        if (batch->counter.initial != counter->initial
            || batch->counter.update != counter->update
            || batch->counter.durable != counter->durable
            || (delta && batch->sum
                && !ngx_mcds_outbox_fits((int64_t) batch->sum, delta)))
        {
            continue;
        }

        /*
         * a read of the counter can be combined with any change: the batch then
         * has the time to live of the change
         */

        if (delta && batch->sum == 0) {
            batch->counter.ttl = counter->ttl;
            batch->counter.buffer = counter->buffer;
        }

        if (delta == 0
            || (batch->counter.ttl == counter->ttl
                && batch->counter.buffer == counter->buffer))
        {
            return batch;
        }
    }

    return NULL;
}


static void
ngx_mcds_counter_flush_handler(ngx_event_t *ev)
{
    ngx_queue_t       *q;
    ngx_mcds_batch_t  *batch;

    if (ngx_mcds_counter_delay(ev)) {
        return;
    }

    /*
     * batches of changes of counters are sent in the order of the requests, so
     * that the first requests continue first
     */

    while (!ngx_queue_empty(&ngx_mcds_counter_batches)) {
        q = ngx_queue_head(&ngx_mcds_counter_batches);
        ngx_queue_remove(q);

        batch = ngx_queue_data(q, ngx_mcds_batch_t, queue);

        ngx_mcds_index_remove(&ngx_mcds_counter_index, &batch->node);

        ngx_mcds_counter_send(batch);
    }
}


/*
 * Decides whether the batches of changes of counters wait for the changes of
 * the next turn of the event loop, and returns 1 if so: fewer commands to
 * memcached are then sent, which under load are most of the cost of a cheap
 * request.  The posted event makes the next turn begin at once.
 */

static ngx_uint_t
ngx_mcds_counter_delay(ngx_event_t *ev)
{
    ngx_uint_t  waits;

    waits = (!ev->timedout
             && ngx_mcds_counter_turns < NGX_MCDS_COUNTER_TURNS
             && (ngx_mcds_counter_turns
                 || ngx_mcds_counter_counts >= NGX_MCDS_COUNTER_MANY)
             && ngx_mcds_counter_joined
             && ngx_mcds_counter_joined * NGX_MCDS_COUNTER_JOINED
                >= ngx_mcds_counter_counts);

    ngx_mcds_counter_counts = 0;
    ngx_mcds_counter_joined = 0;

    if (waits) {
        ngx_mcds_counter_turns++;

        /*
         * the timer that ends the wait for more changes of counters also keeps
         * a worker from exiting before the waiting changes are sent
         */

        if (!ev->timer_set) {
            ngx_add_timer(ev, 1);
        }

        ngx_post_event(ev, &ngx_posted_next_events);

        return 1;
    }

    ngx_mcds_counter_turns = 0;

    ev->timedout = 0;

    if (ev->timer_set) {
        ngx_del_timer(ev);
    }

    if (ev->posted) {
        ngx_delete_posted_event(ev);
    }

    return 0;
}


static void
ngx_mcds_counter_send(ngx_mcds_batch_t *batch)
{
    ngx_mcds_request_t  req;

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.want = NGX_MCDS_VALUE;
    req.key = batch->counter.key;
    req.ttl = ngx_mcds_raise_ttl(&batch->counter);
    req.initial = batch->counter.initial;
    req.delta = batch->sum;
    req.update = (batch->counter.update == NGX_MCDS_COUNTER_ONLY);

    batch->id = 0;
    batch->known = batch->counter.initial;

    if (batch->subtract) {
        req.verb = NGX_MCDS_DECR;
        req.want |= NGX_MCDS_TTL;
        req.ttl = batch->counter.ttl;
        req.initial -= ngx_min(req.initial, batch->sum);

    } else if (batch->sum) {
        req.verb = NGX_MCDS_INCR;
        req.initial += batch->sum;

        if (req.ttl > NGX_MCDS_MAX_TTL
            && ngx_mcds_raise_doubt(batch->counter.pool))
        {
            req.want |= NGX_MCDS_TTL;
        }

    } else {
        req.verb = NGX_MCDS_GET;
        req.limit = NGX_MCDS_COUNTER_LEN;
        req.number = 1;
    }

    if (batch->counter.durable && ngx_mcds_outbox && !batch->subtract) {
        ngx_mcds_counter_recall(batch, &req);
    }

    ngx_mcds_submit(batch->counter.pool, &req, &batch->op);
}


/*
 * Sets in req, which changes a counter, the number that nginx remembers in
 * shared memory: a counter that memcached has lost is created from this number,
 * so that no client ever sees a smaller one.  Leaves req as it is if the
 * initial value must be fetched from the origin (req->update).  With replicas,
 * a counter that a server has just created is then increased to the largest
 * number of all servers.
 */

static void
ngx_mcds_counter_recall(ngx_mcds_batch_t *batch, ngx_mcds_request_t *req)
{
    uint64_t          known;
    ngx_mcds_pool_t  *pool;

    pool = batch->counter.pool;

    batch->id = ngx_mcds_counter_id(&batch->counter);
    batch->sent = ngx_current_msec;

    known = ngx_mcds_outbox_known(ngx_mcds_outbox, batch->id);

    batch->wish.known = known;

    if (known <= batch->known) {
        return;
    }

    batch->known = known;

    if (req->update) {
        return;
    }

    if (pool->replicas > 1 && batch->counter.ttl == 0) {

        /*
         * With replicas, nginx usually creates a counter with an expiry years
         * ahead (see ngx_mcds_raise.h): if memcached replies with a smaller
         * number than nginx remembers, nginx then increases the counter.  It
         * does not increase one without an expiry: if the command would create
         * such a counter, the command itself gets the remembered number.
         */

        if (req->ttl == 0) {
            req->known = known;
        }

    } else {
        req->initial = known + batch->sum;
    }
}


static void
ngx_mcds_counter_handler(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_batch_t *batch = data;

    uint64_t    value;
    ngx_uint_t  rc;

    rc = result->rc;
    value = 0;

    if ((result->has & NGX_MCDS_TTL) && !batch->subtract) {
        ngx_mcds_raise_check(batch->counter.pool, result->ttl);
    }

    if (rc == NGX_MCDS_NOT_FOUND && batch->sum == 0) {
        rc = NGX_MCDS_OK;
        value = batch->known;

    } else if (rc == NGX_MCDS_OK
               && (!(result->has & NGX_MCDS_VALUE)
                   || ngx_mcds_parse_number(result->data, result->len, &value)
                      != NGX_OK))
    {
        rc = NGX_MCDS_NOT_NUMERIC;

    } else if (rc == NGX_MCDS_OK && batch->id && ngx_mcds_outbox) {

        if (ngx_mcds_counter_number(batch, value) == NGX_AGAIN) {
            return;
        }

    } else if (rc == NGX_MCDS_OK && batch->subtract) {
        ngx_mcds_counter_lowered(batch);
        ngx_mcds_counter_unmark(batch, result);
    }

    ngx_mcds_counter_done(batch, rc, value);
}


/*
 * Handles the value of a counter in memcached's reply.  Returns NGX_AGAIN if
 * this number is smaller than the one that nginx remembers, and the counter is
 * being increased: the waiting requests will get the larger number.
 */

static ngx_int_t
ngx_mcds_counter_number(ngx_mcds_batch_t *batch, uint64_t value)
{
    ngx_int_t  rc;

    if (value - batch->sum < batch->wish.known) {
        rc = ngx_mcds_counter_raise(batch, value);

        if (rc != NGX_DECLINED) {
            return rc;
        }
    }

    if (batch->sum) {
        ngx_mcds_outbox_learn(ngx_mcds_outbox, batch->id, value, batch->sent);
    }

    return NGX_OK;
}


/*
 * Increases a counter in memcached to the number that nginx remembered before
 * the change of the counter was sent: the smaller number in memcached's reply
 * means that memcached has lost the counter and created it again, or that a
 * client has set it.  Returns NGX_AGAIN if the increase has begun; NGX_DECLINED
 * if the counter must stay as it is, such as when another worker has learned
 * meanwhile that a client has set it; NGX_ERROR if the increase cannot begin.
 */

static ngx_int_t
ngx_mcds_counter_raise(ngx_mcds_batch_t *batch, uint64_t value)
{
    uint64_t     known;
    ngx_int_t    rc;
    ngx_msec_t   age;

    known = ngx_mcds_outbox_heard(ngx_mcds_outbox, batch->id, &age);

    batch->wish.known = ngx_min(batch->wish.known, known);

    if (value - batch->sum >= batch->wish.known) {
        return NGX_DECLINED;
    }

    batch->value = value;
    batch->wish.sum = batch->sum;
    batch->wish.sent = batch->sent;
    batch->wish.handler = ngx_mcds_counter_raised;
    batch->wish.data = batch;

    rc = ngx_mcds_raise(&batch->counter, batch->id, age, &batch->wish);

    return rc == NGX_OK ? NGX_AGAIN : rc;
}


static void
ngx_mcds_counter_raised(void *data, ngx_int_t rc, uint64_t value)
{
    ngx_mcds_batch_t *batch = data;

    if (ngx_mcds_outbox && rc == NGX_OK && batch->sum) {
        ngx_mcds_outbox_learn(ngx_mcds_outbox, batch->id, value, batch->sent);

    } else if (ngx_mcds_outbox && rc == NGX_DECLINED) {
        ngx_mcds_outbox_lower(ngx_mcds_outbox, batch->id,
                              ngx_max(value, batch->value));
    }

    ngx_mcds_counter_done(batch, NGX_MCDS_OK,
                          rc == NGX_OK ? value : batch->value);
}


/*
 * Subtracts, from the number that nginx remembers of a counter, the sum that
 * memcached has just subtracted: nginx would otherwise increase the counter to
 * the old number again.  Removing the counter's expiry, as
 * ngx_mcds_counter_unmark() does, is not enough: a counter that expires at the
 * end of a period, such as a day, keeps its expiry.
 */

static void
ngx_mcds_counter_lowered(ngx_mcds_batch_t *batch)
{
    if (ngx_mcds_outbox) {
        ngx_mcds_outbox_subtract(ngx_mcds_outbox,
                                 ngx_mcds_counter_id(&batch->counter),
                                 batch->sum);
    }
}


/*
 * Removes the expiry of a counter that was just decreased, if it is the expiry
 * years ahead that mcds itself has set.  Other hosts may know only the larger
 * number of before: they would increase the counter to it, as if memcached had
 * lost the counter, but they do not increase a counter without an expiry.
 */

static void
ngx_mcds_counter_unmark(ngx_mcds_batch_t *batch, ngx_mcds_result_t *result)
{
    ngx_mcds_request_t  req;

    if (!(result->has & NGX_MCDS_TTL)
        || ngx_mcds_raise_marked(result->ttl, ngx_time()) < 0)
    {
        return;
    }

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.verb = NGX_MCDS_TOUCH;
    req.key = batch->counter.key;

    ngx_mcds_submit(batch->counter.pool, &req, NULL);
}


static void
ngx_mcds_counter_done(ngx_mcds_batch_t *batch, ngx_uint_t rc, uint64_t value)
{
    int64_t            delta;
    ngx_queue_t       *q;
    ngx_mcds_count_t  *count;

    if (!ngx_mcds_sent(rc) && batch->counter.buffer && batch->sum) {
        delta = batch->subtract ? -(int64_t) batch->sum : (int64_t) batch->sum;

        if (ngx_mcds_replay_keep(&batch->counter, delta) == NGX_BUSY) {
            ngx_mcds_replay_lose(delta);
        }
    }

    /*
     * memcached has replied with the counter's value after all changes that
     * were sent as one sum: each request gets the number after its own change
     */

    if (!batch->subtract) {
        value -= batch->sum;
    }

    while (!ngx_queue_empty(&batch->counts)) {
        q = ngx_queue_head(&batch->counts);
        ngx_queue_remove(q);

        count = ngx_queue_data(q, ngx_mcds_count_t, queue);
        if (!batch->subtract) {
            value += count->delta;
        }

        if (count->handler) {
            count->handler(count->data, rc, value);
        }

        ngx_queue_insert_head(&ngx_mcds_counter_free, &count->queue);
    }

    ngx_free(batch);
}


uint64_t
ngx_mcds_counter_known(ngx_mcds_counter_t *counter)
{
    if (!counter->durable || ngx_mcds_outbox == NULL) {
        return 0;
    }

    return ngx_mcds_outbox_known(ngx_mcds_outbox,
                                 ngx_mcds_counter_id(counter));
}


/*
 * returns the id of a counter in the outbox, the shared memory in which this
 * host remembers counters; there must be an outbox
 */

static uint64_t
ngx_mcds_counter_id(ngx_mcds_counter_t *counter)
{
    return ngx_mcds_outbox_id(ngx_mcds_outbox, &counter->pool->name,
                              &counter->pool->prefix, &counter->key);
}


uint64_t
ngx_mcds_period_number(ngx_mcds_period_t *period, time_t now)
{
    return (uint64_t) (now - period->start) / period->length;
}


uint32_t
ngx_mcds_period_ttl(ngx_mcds_period_t *period, time_t now)
{
    return period->length - (uint64_t) (now - period->start) % period->length
           + NGX_MCDS_PERIOD_SPARE;
}

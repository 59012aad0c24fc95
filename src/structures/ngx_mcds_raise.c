
/*
 * Copyright (C) mcds authors
 *
 * Raises a counter that memcached has lost to the number that this host knows,
 * for all changes and reads (wishes) that wait for the counter in a worker:
 *
 *   read the counter -> may it be raised? -> add the missing part -> done
 *     ^                                                  |
 *     +-- the counter has changed since the read, or more wishes have come
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_raise.h"
#include "ngx_mcds_outbox.h"
#include "ngx_mcds_index.h"


/*
 * the number of hash buckets for the counters that a worker is raising to the
 * numbers that this host knows, and the limits of these counters: their number,
 * and their bytes of memory; beyond a limit no further counter is raised
 */
#define NGX_MCDS_RAISE_BUCKETS    256
#define NGX_MCDS_RAISES           65536
#define NGX_MCDS_RAISE_SIZE       (64 * 1024 * 1024)

/*
 * the maximum number of attempts to raise a counter to the number that this
 * host knows; an attempt fails if the counter changes meanwhile
 */
#define NGX_MCDS_RAISE_TRIES      256

/* the maximum length of a counter's value: longer than any 64-bit number */
#define NGX_MCDS_RAISE_LEN        64

/*
 * seconds after which a worker checks again that memcached preserves the
 * expiry, years ahead, by which mcds marks the item of a durable counter
 */
#define NGX_MCDS_RAISE_DOUBT      60


typedef struct ngx_mcds_raise_s  ngx_mcds_raise_t;


/* the counter to be raised, as it is on one of its servers (replicas) */

typedef struct {
    ngx_mcds_op_t        op;
    ngx_mcds_raise_t    *raise;
    ngx_uint_t           server;       /* index, in the pool's array, of the
                                          server that is asked for the
                                          counter */
    uint64_t             value;
    uint64_t             cas;
    int64_t              ttl;
    unsigned             there:1;
    unsigned             again:1;      /* the counter has changed on this server
                                          since it was read */
} ngx_mcds_raise_leg_t;


struct ngx_mcds_raise_s {
    ngx_mcds_index_node_t  node;
    ngx_queue_t            wishes;     /* changes and reads of the counter that
                                          wait until it is raised,
                                          ngx_mcds_wish_t */
    ngx_uint_t             judged;     /* how many of the changes and reads that
                                          wait in "wishes", from its head on,
                                          are considered in "target", the number
                                          to which the counter is to be set */
    ngx_event_t            timer;
    ngx_mcds_pool_t       *pool;
    uint64_t               id;
    ngx_uint_t             ends;       /* 1: the counter has a configured time
                                          to live; 0: mcds gives it an expiry
                                          years ahead */
    int64_t                age;        /* seconds since this host learned the
                                          counter's value */

    uint64_t               base;       /* value of the counter that this host
                                          knew before the servers were first
                                          asked for the counter */
    uint64_t               target;
    uint64_t               largest;
    ngx_uint_t             unanswered; /* number of servers that have not yet
                                          replied with the counter */
    ngx_uint_t             tries;
    ngx_uint_t             failed;
    ngx_uint_t             raised;

    ngx_uint_t             n;
    ngx_mcds_raise_leg_t   legs[NGX_MCDS_MAX_REPLICAS];
};


static ngx_mcds_raise_t *ngx_mcds_raise_find(uint64_t id,
    ngx_mcds_counter_t *counter);
static ngx_mcds_raise_t *ngx_mcds_raise_create(ngx_mcds_counter_t *counter,
    uint64_t id);
static void ngx_mcds_raise_start(ngx_mcds_raise_t *raise);
static void ngx_mcds_raise_timer_handler(ngx_event_t *ev);
static void ngx_mcds_raise_look(ngx_mcds_raise_t *raise);
static void ngx_mcds_raise_looked(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_raise_judge(ngx_mcds_raise_t *raise);
static ngx_int_t ngx_mcds_raise_made(ngx_mcds_raise_t *raise);
static ngx_int_t ngx_mcds_raise_target(ngx_mcds_raise_t *raise);
static void ngx_mcds_raise_add(ngx_mcds_raise_t *raise);
static void ngx_mcds_raise_added(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_raise_done(ngx_mcds_raise_t *raise);
static void ngx_mcds_raise_end(ngx_mcds_raise_t *raise, ngx_int_t rc);
static void ngx_mcds_raise_free(ngx_mcds_raise_t *raise);


static ngx_mcds_index_node_t  *ngx_mcds_raise_buckets[NGX_MCDS_RAISE_BUCKETS];
static ngx_mcds_index_t  ngx_mcds_raises =
    ngx_mcds_index(ngx_mcds_raise_buckets, NGX_MCDS_RAISES,
                   NGX_MCDS_RAISE_SIZE, 0, 0, NULL);


uint32_t
ngx_mcds_raise_mark(time_t now)
{
    if (now >= NGX_MCDS_MARK_FIRST - NGX_MCDS_MARK_SPARE) {
        return 0;
    }

    return NGX_MCDS_MARK_FIRST + now % NGX_MCDS_MARK_SPAN;
}


int64_t
ngx_mcds_raise_marked(int64_t ttl, time_t now)
{
    int64_t  age, made;

    if (ttl < 0 || ttl > INT32_MAX || ngx_mcds_raise_mark(now) == 0) {
        return -1;
    }

    made = ttl + now - NGX_MCDS_MARK_FIRST;

    if (made < -NGX_MCDS_MARK_SKEW
        || made > NGX_MCDS_MARK_SPAN + NGX_MCDS_MARK_SKEW)
    {
        return -1;
    }

    age = (now - made) % NGX_MCDS_MARK_SPAN;

    /*
     * a negative age, which modulo NGX_MCDS_MARK_SPAN is almost that span,
     * counts as 0: the counter was created by a host whose clock is ahead
     */

    return age > NGX_MCDS_MARK_SPAN - NGX_MCDS_MARK_SKEW ? 0 : age;
}


uint32_t
ngx_mcds_raise_ttl(ngx_mcds_counter_t *counter)
{
    if (counter->ttl || !counter->durable || counter->pool->classic
        || counter->pool->unmarked)
    {
        return counter->ttl;
    }

    return ngx_mcds_raise_mark(ngx_time());
}


ngx_uint_t
ngx_mcds_raise_doubt(ngx_mcds_pool_t *pool)
{
    return ngx_time() - pool->marked >= NGX_MCDS_RAISE_DOUBT
           || ngx_time() < pool->marked;
}


void
ngx_mcds_raise_check(ngx_mcds_pool_t *pool, int64_t ttl)
{
    if (ngx_mcds_raise_marked(ttl, ngx_time()) >= 0) {
        pool->marked = ngx_time();

    } else if (ttl > INT32_MAX && !pool->unmarked) {

        /*
         * memcached reports a negative time to live as a large number: by the
         * server's clock, the expiry that mcds gave the counter has passed
         */

        pool->unmarked = 1;

        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "a memcached server of pool \"%V\" is years ahead: "
                      "counters that are lost are not raised to what other "
                      "hosts know", &pool->name);
    }
}


ngx_int_t
ngx_mcds_raise(ngx_mcds_counter_t *counter, uint64_t id, ngx_msec_t age,
    ngx_mcds_wish_t *wish)
{
    ngx_msec_int_t     left;
    ngx_mcds_raise_t  *raise;

    if (counter->pool->classic || counter->pool->unmarked
        || ngx_mcds_raise_mark(ngx_time()) == 0)
    {
        return NGX_DECLINED;
    }

    left = (ngx_msec_int_t) (wish->sent + counter->pool->timeout
                             - ngx_current_msec);

    if (left <= 0 || wish->known + wish->sum < wish->known) {
        return NGX_ERROR;
    }

    raise = ngx_mcds_raise_find(id, counter);

    if (raise) {
        ngx_queue_insert_tail(&raise->wishes, &wish->queue);
        return NGX_OK;
    }

    raise = ngx_mcds_raise_create(counter, id);
    if (raise == NULL) {
        return NGX_ERROR;
    }

    raise->age = age / 1000;

    ngx_queue_insert_tail(&raise->wishes, &wish->queue);

    ngx_mcds_raise_start(raise);

    return NGX_OK;
}


static ngx_mcds_raise_t *
ngx_mcds_raise_find(uint64_t id, ngx_mcds_counter_t *counter)
{
    ngx_mcds_raise_t       *raise;
    ngx_mcds_index_node_t  *node;

    for (node = ngx_mcds_index_find(&ngx_mcds_raises, counter->pool,
                                    &counter->key, (uint32_t) id);
         node;
         node = ngx_mcds_index_next(node))
    {
        raise = ngx_mcds_index_data(node, ngx_mcds_raise_t, node);

        if (raise->id == id) {
            return raise;
        }
    }

    return NULL;
}


static ngx_mcds_raise_t *
ngx_mcds_raise_create(ngx_mcds_counter_t *counter, uint64_t id)
{
    ngx_str_t            key;
    ngx_uint_t           i, first;
    ngx_mcds_pool_t     *pool;
    ngx_mcds_raise_t    *raise;
    ngx_mcds_request_t   req;

    raise = ngx_calloc(sizeof(ngx_mcds_raise_t) + counter->key.len,
                       ngx_cycle->log);
    if (raise == NULL) {
        return NULL;
    }

    pool = counter->pool;

    raise->pool = pool;
    raise->id = id;
    raise->ends = (counter->ttl != 0);

    key.len = counter->key.len;
    key.data = (u_char *) raise + sizeof(ngx_mcds_raise_t);
    ngx_memcpy(key.data, counter->key.data, key.len);

    ngx_queue_init(&raise->wishes);

    raise->timer.handler = ngx_mcds_raise_timer_handler;
    raise->timer.data = raise;
    raise->timer.log = ngx_cycle->log;

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));
    req.key = key;

    first = ngx_mcds_first(pool, &req);

    raise->n = ngx_max(pool->replicas, 1);

    for (i = 0; i < raise->n; i++) {
        raise->legs[i].op.data = &raise->legs[i];
        raise->legs[i].raise = raise;
        raise->legs[i].server = (first + i) % pool->servers.nelts;
    }

    if (ngx_mcds_index_insert(&ngx_mcds_raises, &raise->node, pool, &key,
                              (uint32_t) id,
                              sizeof(ngx_mcds_raise_t) + key.len)
        != NGX_OK)
    {
        ngx_free(raise);
        return NULL;
    }

    return raise;
}


/*
 * Starts to raise a counter in memcached to the larger number that this host
 * knows.  Sets the timer to the time that is left for the first change or read
 * in the queue raise->wishes, which has waited for the longest time.
 */

static void
ngx_mcds_raise_start(ngx_mcds_raise_t *raise)
{
    ngx_queue_t      *q;
    ngx_msec_int_t    left;
    ngx_mcds_wish_t  *wish;

    q = ngx_queue_head(&raise->wishes);
    wish = ngx_queue_data(q, ngx_mcds_wish_t, queue);

    left = (ngx_msec_int_t) (wish->sent + raise->pool->timeout
                             - ngx_current_msec);

    raise->tries = 0;
    raise->base = ngx_mcds_outbox
                  ? ngx_mcds_outbox_known(ngx_mcds_outbox, raise->id) : 0;

    ngx_add_timer(&raise->timer, ngx_max(left, 1));

    ngx_mcds_raise_look(raise);
}


static void
ngx_mcds_raise_timer_handler(ngx_event_t *ev)
{
    ngx_mcds_raise_end(ev->data, NGX_ERROR);
}


static void
ngx_mcds_raise_look(ngx_mcds_raise_t *raise)
{
    ngx_uint_t             i;
    ngx_mcds_request_t     req;
    ngx_mcds_raise_leg_t  *leg;

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.verb = NGX_MCDS_GET;
    req.want = NGX_MCDS_VALUE|NGX_MCDS_CAS|NGX_MCDS_TTL;
    req.key = raise->node.key;
    req.limit = NGX_MCDS_RAISE_LEN;

    raise->failed = 0;
    raise->raised = 0;
    raise->unanswered = raise->n;

    for (i = 0; i < raise->n; i++) {
        leg = &raise->legs[i];

        leg->there = 0;
        leg->op.handler = ngx_mcds_raise_looked;

        ngx_mcds_submit_to(raise->pool, leg->server, &req, &leg->op);
    }
}


static void
ngx_mcds_raise_looked(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_raise_leg_t *leg = data;

    ngx_mcds_raise_t  *raise;

    raise = leg->raise;

    switch (result->rc) {

    case NGX_MCDS_OK:

        if ((result->has & NGX_MCDS_VALUE)
            && (result->has & NGX_MCDS_CAS) && result->cas
            && (result->has & NGX_MCDS_TTL)
            && ngx_mcds_parse_number(result->data, result->len, &leg->value)
               == NGX_OK)
        {
            leg->cas = result->cas;
            leg->ttl = result->ttl;
            leg->there = 1;
            break;
        }

        raise->failed = 1;
        break;

    case NGX_MCDS_NOT_FOUND:
    case NGX_MCDS_DOWN:

        /*
         * this server lacks the counter, or is down: another replica may have
         * the counter, whose number reaches this server later
         */

        break;

    default:
        raise->failed = 1;
    }

    if (--raise->unanswered == 0) {
        ngx_mcds_raise_judge(raise);
    }
}


static void
ngx_mcds_raise_judge(ngx_mcds_raise_t *raise)
{
    ngx_int_t              rc;
    ngx_uint_t             i, there;
    ngx_mcds_raise_leg_t  *leg;

    there = 0;
    raise->largest = 0;

    for (i = 0; i < raise->n; i++) {
        leg = &raise->legs[i];

        if (leg->there) {
            raise->largest = ngx_max(raise->largest, leg->value);
            there++;
        }
    }

    if (raise->failed || there == 0
        || ngx_mcds_raise_target(raise) != NGX_OK)
    {
        ngx_mcds_raise_end(raise, NGX_ERROR);
        return;
    }

    rc = ngx_mcds_raise_made(raise);

    if (rc != NGX_OK) {
        ngx_mcds_raise_end(raise, rc);
        return;
    }

    ngx_mcds_raise_add(raise);
}


/*
 * Decides, from a counter's copies on all replicas, whether the counter may be
 * set to the larger number raise->target, which this host knows.  NGX_OK: it
 * may, or the number of a copy is large enough.  NGX_DECLINED in two cases: a
 * copy has no expiry, which mcds gives and a program that sets a number does
 * not; or memcached has not lost the counter, as each replica is up, and has a
 * copy that was created well before this host learned the counter's value (not
 * with a configured time to live).  NGX_ABORT: another program has given a copy
 * a time to live.
 */

static ngx_int_t
ngx_mcds_raise_made(ngx_mcds_raise_t *raise)
{
    int64_t                age;
    ngx_int_t              rc;
    ngx_uint_t             i, away;
    ngx_mcds_raise_leg_t  *leg;

    if (raise->largest >= raise->target) {
        return NGX_OK;
    }

    rc = NGX_DECLINED;
    away = 0;

    for (i = 0; i < raise->n; i++) {
        away |= !raise->legs[i].there;
    }

    for (i = 0; i < raise->n; i++) {
        leg = &raise->legs[i];

        if (!leg->there) {
            continue;
        }

        if (leg->ttl < 0) {
            return NGX_DECLINED;
        }

        if (raise->ends) {
            rc = NGX_OK;
            continue;
        }

        age = ngx_mcds_raise_marked(leg->ttl, ngx_time());

        if (age < 0) {
            return NGX_ABORT;
        }

        if (away || age <= raise->age + NGX_MCDS_MARK_SKEW) {
            rc = NGX_OK;
        }
    }

    return rc;
}


/*
 * Computes the number to which a counter is raised.  Each waiting change (wish)
 * has a base: the number that this host knew when the change was sent.  The
 * result is the largest base plus the sum of the changes with that base: a base
 * does not contain its changes.  The result is not below any waiting change
 * plus its base, nor below raise->base, the number that this host knew before
 * the counter was first read.  NGX_ERROR: the sum overflows.
 *
 * The number that this host knows now does not matter: as soon as a replica has
 * been raised, by this or another host, further changes are counted on top, and
 * are in that number.  If another replica was raised to it, the changes that
 * are still under way to that replica would count twice there.
 */

static ngx_int_t
ngx_mcds_raise_target(ngx_mcds_raise_t *raise)
{
    uint64_t          known, sum, each;
    ngx_queue_t      *q;
    ngx_mcds_wish_t  *wish;

    known = 0;
    sum = 0;
    each = raise->base;
    raise->judged = 0;

    for (q = ngx_queue_head(&raise->wishes);
         q != ngx_queue_sentinel(&raise->wishes);
         q = ngx_queue_next(q))
    {
        wish = ngx_queue_data(q, ngx_mcds_wish_t, queue);

        if (wish->known > known) {
            known = wish->known;
            sum = 0;
        }

        if (wish->known == known) {
            sum += wish->sum;
        }

        each = ngx_max(each, wish->known + wish->sum);

        raise->judged++;
    }

    raise->target = ngx_max(known + sum, each);

    return known + sum < known ? NGX_ERROR : NGX_OK;
}


static void
ngx_mcds_raise_add(ngx_mcds_raise_t *raise)
{
    ngx_uint_t             i, low;
    ngx_mcds_request_t     req;
    ngx_mcds_raise_leg_t  *leg;

    low = (raise->largest < raise->target);

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.verb = NGX_MCDS_INCR;
    req.key = raise->node.key;
    req.update = 1;

    raise->raised = !low;
    raise->unanswered = 0;

    for (i = 0; i < raise->n; i++) {
        leg = &raise->legs[i];

        if (!leg->there || leg->value >= raise->target
            || !(low || leg->again))
        {
            leg->again = 0;
            continue;
        }

        leg->again = 0;

        req.cas = leg->cas;
        req.delta = raise->target - leg->value;

        leg->op.handler = ngx_mcds_raise_added;

        ngx_mcds_submit_to(raise->pool, leg->server, &req, &leg->op);

        raise->unanswered++;
    }

    if (raise->unanswered == 0) {

        if (raise->raised) {
            ngx_mcds_raise_done(raise);

        } else {
            ngx_mcds_raise_end(raise, NGX_ERROR);
        }
    }
}


static void
ngx_mcds_raise_added(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_raise_leg_t *leg = data;

    ngx_uint_t         i, again;
    ngx_mcds_raise_t  *raise;

    raise = leg->raise;

    if (result->rc == NGX_MCDS_OK) {
        raise->raised = 1;

    } else if (result->rc == NGX_MCDS_EXISTS) {
        leg->again = 1;
    }

    if (--raise->unanswered) {
        return;
    }

    again = 0;

    for (i = 0; i < raise->n; i++) {
        again |= raise->legs[i].again;
    }

    if (again && ++raise->tries < NGX_MCDS_RAISE_TRIES) {
        ngx_mcds_raise_look(raise);

    } else if (raise->raised) {
        ngx_mcds_raise_done(raise);

    } else {
        ngx_mcds_raise_end(raise, NGX_ERROR);
    }
}


/*
 * Called when a counter in memcached was raised to the number that this host
 * knows: calls the handlers of the changes and reads (wishes) from which this
 * number was computed.  Those that came later wait until the counter is raised
 * once more.
 */

static void
ngx_mcds_raise_done(ngx_mcds_raise_t *raise)
{
    uint64_t          value, sum;
    ngx_queue_t      *q, wishes;
    ngx_mcds_wish_t  *wish;

    value = ngx_max(raise->largest, raise->target);
    sum = 0;

    ngx_queue_init(&wishes);

    for ( /* void */ ; raise->judged; raise->judged--) {
        q = ngx_queue_head(&raise->wishes);
        ngx_queue_remove(q);
        ngx_queue_insert_tail(&wishes, q);

        wish = ngx_queue_data(q, ngx_mcds_wish_t, queue);
        sum += wish->sum;
    }

    if (ngx_queue_empty(&raise->wishes)) {
        ngx_mcds_raise_free(raise);

    } else {
        ngx_del_timer(&raise->timer);
        ngx_mcds_raise_start(raise);
    }

    /*
     * "value" is that of the counter in memcached, with all changes in
     * the queue "wishes": each of them gets the number that the counter would
     * have had after it, as if the changes had come one after another
     */

    value -= sum;

    while (!ngx_queue_empty(&wishes)) {
        q = ngx_queue_head(&wishes);
        ngx_queue_remove(q);

        wish = ngx_queue_data(q, ngx_mcds_wish_t, queue);
        value += wish->sum;

        wish->handler(wish->data, NGX_OK,
                      ngx_max(value, wish->known + wish->sum));
    }
}


/*
 * Calls the handlers of all changes and reads that wait until a counter is set
 * to the larger number that this worker knows, when it could not be set.  rc is
 * their result; with NGX_ABORT, another program has given the counter a time to
 * live: changes get NGX_DECLINED then, and reads get NGX_ERROR.
 */

static void
ngx_mcds_raise_end(ngx_mcds_raise_t *raise, ngx_int_t rc)
{
    uint64_t          value;
    ngx_int_t         told;
    ngx_queue_t      *q, wishes;
    ngx_mcds_wish_t  *wish;

    value = raise->largest;

    ngx_queue_init(&wishes);

    while (!ngx_queue_empty(&raise->wishes)) {
        q = ngx_queue_head(&raise->wishes);
        ngx_queue_remove(q);
        ngx_queue_insert_tail(&wishes, q);
    }

    ngx_mcds_raise_free(raise);

    while (!ngx_queue_empty(&wishes)) {
        q = ngx_queue_head(&wishes);
        ngx_queue_remove(q);

        wish = ngx_queue_data(q, ngx_mcds_wish_t, queue);
        told = rc;

        if (rc == NGX_ABORT) {
            told = wish->sum ? NGX_DECLINED : NGX_ERROR;
        }

        wish->handler(wish->data, told, value);
    }
}


static void
ngx_mcds_raise_free(ngx_mcds_raise_t *raise)
{
    ngx_uint_t  i;

    ngx_mcds_index_remove(&ngx_mcds_raises, &raise->node);

    if (raise->timer.timer_set) {
        ngx_del_timer(&raise->timer);
    }

    for (i = 0; i < raise->n; i++) {
        ngx_mcds_cancel(&raise->legs[i].op);
    }

    ngx_free(raise);
}

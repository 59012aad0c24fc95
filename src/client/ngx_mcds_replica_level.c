
/*
 * Copyright (C) mcds authors
 *
 * A counter that a replica ("low") has created anew, because its server came
 * back empty, is raised to the value of another replica ("high"):
 *
 *   wait -> read low -> read high -> add the difference -> equal: end
 *    ^         ^                            |
 *    |         +----------------------------+ low was changed in between
 *    +--------------------------------------+ high has counted on, or a
 *                                             server did not reply
 *
 * The replicas also differ for a moment if two hosts create the counter at the
 * same time: a host that reaches "high" first finds "low" without increments
 * that are still on their way.  So "low" is raised only after a wait, in which
 * these increments must have arrived, and to the value that "high" had before
 * the wait: "low" then lacks the increments made during the wait, but no
 * increment counts twice.  The waits are repeated until one passes without an
 * increment.  If a number is smaller or missing after the wait, the counter was
 * set, deleted or decremented, and is left alone; unless the worker has seen in
 * the wait that the server of "low" has come back empty once more.
 *
 * A worker raises a counter on a replica only once at a time.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_group.h"
#include "ngx_mcds_index.h"
#include "ngx_mcds_op_link.h"


/*
 * milliseconds to wait, besides the pool's timeout, before a counter that is
 * too low on one replica is set to the larger number of another replica: longer
 * than the network delays an increment of the counter
 */
#define NGX_MCDS_LEVEL_WAIT       5000

/*
 * The maximum number of waits (NGX_MCDS_LEVEL_WAIT) for a counter whose numbers
 * differ on two replicas.  After each wait, the smaller number is set to the
 * larger number of before the wait; the numbers become equal after a wait
 * without increments.  After the last wait, the numbers stay different.
 */
#define NGX_MCDS_LEVEL_WAITS      120

/*
 * the maximum number of attempts, after one wait (NGX_MCDS_LEVEL_WAIT), to set
 * a counter that is too low on one replica to the number of the other replica;
 * an attempt fails if another client changes the counter in between
 */
#define NGX_MCDS_LEVEL_TRIES      16

/*
 * the size in bytes of a buffer for a counter's value as text, longer than the
 * text of any 64-bit number
 */
#define NGX_MCDS_LEVEL_LEN        64

/*
 * the maximum number of counters of a worker that wait until one replica gets
 * the larger number of another, and of bytes that they take; further counters
 * keep different numbers on their replicas until a later increment, by which a
 * worker notices the difference again
 */
#define NGX_MCDS_LEVEL_BUCKETS    1024
#define NGX_MCDS_LEVELS           262144
#define NGX_MCDS_LEVELS_SIZE      (256 * 1024 * 1024)


typedef struct {
    ngx_mcds_server_t     *server;
    uint64_t               number;       /* value of the counter on this
                                            replica as last read */
    uint64_t               cas;
    unsigned               has_number:1;
    unsigned               missing:1;
} ngx_mcds_level_side_t;


typedef struct {
    ngx_mcds_index_node_t  node;         /* index node, found by the key of the
                                            counter and by the server of "low",
                                            where the counter is too low */
    ngx_event_t            timer;
    ngx_mcds_op_t          op;

    /*
     * the template of all commands to the two replicas, with the key of the
     * counter; its strings follow this struct in memory
     */
    ngx_mcds_request_t     req;

    /*
     * The counter as it was before a wait of some seconds, in which increments
     * that are still under way arrive on both replicas.  After the wait, the
     * counter on the replica "low", where it is too low, is set to "seen".
     */

    uint64_t               seen;         /* value of the counter on "high", the
                                            replica with the larger number */
    uint64_t               least;        /* value of the counter on "low", the
                                            replica with the smaller number */
    ngx_uint_t             was_there;    /* 1: the counter existed on "low", the
                                            replica with the smaller number,
                                            before the wait for increments that
                                            are still under way */
    ngx_uint_t             waits;
    ngx_uint_t             tries;
    ngx_mcds_level_side_t  high;
    ngx_mcds_level_side_t  low;
} ngx_mcds_level_t;


static void ngx_mcds_level_exit(ngx_mcds_index_node_t *node, void *data);
static void ngx_mcds_level_wait(ngx_mcds_level_t *level);
static void ngx_mcds_level_timer_handler(ngx_event_t *ev);
static void ngx_mcds_level_read(ngx_mcds_level_t *level,
    ngx_mcds_level_side_t *side, ngx_mcds_handler_pt handler);
static void ngx_mcds_level_low(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_level_high(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_level_take(ngx_mcds_level_side_t *side,
    ngx_mcds_result_t *result);
static void ngx_mcds_level_add(ngx_mcds_level_t *level);
static void ngx_mcds_level_added(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_level_next(ngx_mcds_level_t *level);
static void ngx_mcds_level_free(ngx_mcds_level_t *level);


static ngx_mcds_index_node_t  *ngx_mcds_level_buckets[NGX_MCDS_LEVEL_BUCKETS];
static ngx_mcds_index_t  ngx_mcds_levels =
    ngx_mcds_index(ngx_mcds_level_buckets, NGX_MCDS_LEVELS,
                   NGX_MCDS_LEVELS_SIZE, 0, 0, NULL);


void
ngx_mcds_replica_level(ngx_mcds_group_t *group, ngx_mcds_leg_t *high,
    ngx_mcds_leg_t *low)
{
    size_t                  len;
    uint32_t                hash;
    ngx_str_t               item;
    ngx_mcds_level_t       *level;
    ngx_mcds_request_t     *req;
    ngx_mcds_index_node_t  *node;

    req = &group->req;

    /*
     * in memory, the suffix of the request's key follows the key: both can be
     * hashed as one string
     */

    len = req->key.len + req->suffix.len;
    hash = ngx_mcds_hash(req->key.data, len);

    item.data = req->key.data;
    item.len = len;

    node = ngx_mcds_index_find(&ngx_mcds_levels, low->server, &item, hash);

    if (node) {

        /*
         * The server of "low" has come back empty once more: that the counter
         * is smaller there than before is no change by a client.  It is still
         * set to "seen", a number from before the wait.
         */

        level = ngx_mcds_index_data(node, ngx_mcds_level_t, node);

        level->least = low->number;
        level->was_there = !low->missing;

        return;
    }

    level = ngx_calloc(sizeof(ngx_mcds_level_t) + len, ngx_cycle->log);
    if (level == NULL) {
        return;
    }

    level->req.key.len = req->key.len;
    level->req.key.data = (u_char *) level + sizeof(ngx_mcds_level_t);
    level->req.suffix.len = req->suffix.len;
    level->req.suffix.data = level->req.key.data + req->key.len;
    ngx_memcpy(level->req.key.data, req->key.data, len);

    level->req.by_key = req->by_key;
    level->req.ttl = req->ttl;

    item.data = level->req.key.data;

    if (ngx_mcds_index_insert(&ngx_mcds_levels, &level->node, low->server,
                              &item, hash, sizeof(ngx_mcds_level_t) + len)
        != NGX_OK)
    {
        ngx_free(level);
        return;
    }

    level->high.server = high->server;
    level->high.number = high->number;
    level->low.server = low->server;
    level->low.number = low->number;
    level->low.missing = low->missing;

    level->op.data = level;

    level->timer.handler = ngx_mcds_level_timer_handler;
    level->timer.data = level;
    level->timer.log = ngx_cycle->log;

    /* an exiting worker does not wait until the replicas have equal numbers */

    level->timer.cancelable = 1;

    ngx_mcds_level_next(level);
}


void
ngx_mcds_replica_level_exit(ngx_mcds_pool_t *pool)
{
    ngx_mcds_index_walk(&ngx_mcds_levels, ngx_mcds_level_exit, pool);
}


static void
ngx_mcds_level_exit(ngx_mcds_index_node_t *node, void *data)
{
    ngx_mcds_level_t  *level;

    level = ngx_mcds_index_data(node, ngx_mcds_level_t, node);

    if (level->low.server->pool == data) {
        ngx_mcds_level_free(level);
    }
}


/*
 * notes the numbers that a counter has on two replicas, and starts a wait, in
 * which increments that are still under way arrive on both; after the wait, the
 * replica with the smaller number is set to the larger one noted here
 */

static void
ngx_mcds_level_next(ngx_mcds_level_t *level)
{
    level->seen = level->high.number;
    level->least = level->low.number;
    level->was_there = !level->low.missing;

    ngx_mcds_level_wait(level);
}


static void
ngx_mcds_level_wait(ngx_mcds_level_t *level)
{
    if (level->waits++ == NGX_MCDS_LEVEL_WAITS) {
        ngx_mcds_level_free(level);
        return;
    }

    level->tries = 0;

    ngx_add_timer(&level->timer,
                  level->low.server->pool->timeout + NGX_MCDS_LEVEL_WAIT);
}


static void
ngx_mcds_level_timer_handler(ngx_event_t *ev)
{
    ngx_mcds_level_t  *level;

    level = ev->data;

    ngx_mcds_level_read(level, &level->low, ngx_mcds_level_low);
}


static void
ngx_mcds_level_read(ngx_mcds_level_t *level, ngx_mcds_level_side_t *side,
    ngx_mcds_handler_pt handler)
{
    ngx_mcds_request_t  req;

    req = level->req;

    req.verb = NGX_MCDS_GET;
    req.want = NGX_MCDS_VALUE|NGX_MCDS_CAS;
    req.ttl = 0;
    req.limit = NGX_MCDS_LEVEL_LEN;

    level->op.handler = handler;

    ngx_mcds_server_submit(side->server, &req, &level->op);
}


/*
 * Takes the value of the counter on "low", the replica where it is smaller,
 * and then reads it on "high", where it is larger: in this order, a decrement
 * seen on "low" has reached "high", too.
 */

static void
ngx_mcds_level_low(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_level_t *level = data;

    ngx_mcds_level_take(&level->low, result);

    if (!level->low.has_number && !level->low.missing) {
        ngx_mcds_level_wait(level);
        return;
    }

    if (level->was_there
        && (level->low.missing || level->low.number < level->least))
    {
        ngx_mcds_level_free(level);
        return;
    }

    ngx_mcds_level_read(level, &level->high, ngx_mcds_level_high);
}


static void
ngx_mcds_level_high(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_level_t *level = data;

    ngx_mcds_level_take(&level->high, result);

    if (level->high.has_number) {
        ngx_mcds_level_add(level);

    } else if (level->high.missing) {
        ngx_mcds_level_free(level);

    } else {
        ngx_mcds_level_wait(level);
    }
}


static void
ngx_mcds_level_take(ngx_mcds_level_side_t *side, ngx_mcds_result_t *result)
{
    uint64_t  number;

    side->has_number = 0;
    side->missing = (result->rc == NGX_MCDS_NOT_FOUND);

    if (result->rc == NGX_MCDS_OK
        && (result->has & NGX_MCDS_VALUE)
        && (result->has & NGX_MCDS_CAS) && result->cas
        && ngx_mcds_parse_number(result->data, result->len, &number) == NGX_OK)
    {
        side->number = number;
        side->cas = result->cas;
        side->has_number = 1;
    }
}


static void
ngx_mcds_level_add(ngx_mcds_level_t *level)
{
    u_char               text[NGX_INT64_LEN];
    ngx_mcds_request_t   req;
    ngx_mcds_server_t   *server;

    server = level->low.server;

    if (level->high.number < level->seen
        || (level->low.has_number
            && level->low.number >= level->high.number))
    {
        ngx_mcds_level_free(level);
        return;
    }

    if (level->low.has_number && level->low.number >= level->seen) {
        ngx_mcds_level_next(level);
        return;
    }

    req = level->req;

    if (level->low.has_number && !server->pool->classic) {
        req.verb = NGX_MCDS_INCR;
        req.update = 1;
        req.ttl = 0;
        req.delta = level->seen - level->low.number;
        req.cas = level->low.cas;

    } else {

        /*
         * a missing counter is added; in the classic protocol, whose increment
         * cannot depend on a CAS value, the counter is set to level->seen
         */

        req.verb = level->low.missing ? NGX_MCDS_ADD : NGX_MCDS_SET;
        req.cas = level->low.missing ? 0 : level->low.cas;
        req.text.data = text;
        req.text.len = ngx_sprintf(text, "%uL", level->seen) - text;
    }

    level->op.handler = ngx_mcds_level_added;

    ngx_mcds_server_submit(server, &req, &level->op);
}


static void
ngx_mcds_level_added(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_level_t *level = data;

    if (result->rc == NGX_MCDS_OK) {

        if (level->high.number == level->seen) {
            ngx_mcds_level_free(level);
            return;
        }

        level->low.number = level->seen;
        level->low.missing = 0;

        ngx_mcds_level_next(level);

    } else if ((result->rc == NGX_MCDS_EXISTS
                || result->rc == NGX_MCDS_NOT_STORED)
               && ++level->tries < NGX_MCDS_LEVEL_TRIES)
    {
        ngx_mcds_level_read(level, &level->low, ngx_mcds_level_low);

    } else {
        ngx_mcds_level_wait(level);
    }
}


static void
ngx_mcds_level_free(ngx_mcds_level_t *level)
{
    ngx_mcds_index_remove(&ngx_mcds_levels, &level->node);
    ngx_mcds_cancel(&level->op);

    if (level->timer.timer_set) {
        ngx_del_timer(&level->timer);
    }

    ngx_free(level);
}

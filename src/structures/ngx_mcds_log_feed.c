
/*
 * Copyright (C) mcds authors
 *
 * The feed of a log's followers.  A look for new lines asks for the CAS values
 * of the items of the log's last chunks (time intervals), then for the values
 * of changed items, in which it skips the lines that earlier looks have read.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_log.h"
#include "ngx_mcds_log_feed.h"


/*
 * the maximum number of new lines of a log that a worker holds back until no
 * earlier line is to come; with more lines all are given to the followers
 */
#define NGX_MCDS_LOG_UNSETTLED    100000

/*
 * the maximum number of items in a row, of a chunk (time interval) of a log,
 * whose server fails and behind which a worker looks for further items
 */
#define NGX_MCDS_LOG_SKIP         16

/*
 * the minimum number of chunks (time intervals) of a log, and the minimum time
 * in ms that they last, before and after those that can get new lines, whose
 * lines a worker knows as read: the clock may be set back into them, or ahead
 * again
 */
#define NGX_MCDS_LOG_AROUND       16
#define NGX_MCDS_LOG_AROUND_TIME  160000


typedef struct {
    uint64_t                  cas;
    size_t                    at;        /* position in the log's item up to
                                            which its lines were read */
    u_char                    head[NGX_MCDS_LOG_HEAD];
                                         /* copy of the item's first bytes, as
                                            far as lines were read: if the next
                                            value of the item begins otherwise,
                                            it was lost and created again */
    ngx_mcds_value_t         *value;     /* value of the log's item, as just
                                            read, or NULL */
} ngx_mcds_log_part_t;


typedef struct {
    ngx_queue_t               queue;
    uint64_t                  chunk;
    ngx_mcds_log_part_t      *parts;
    ngx_uint_t                nparts;
    ngx_uint_t                max;
    ngx_mcds_log_seen_t       seen;
} ngx_mcds_log_chunk_t;


struct ngx_mcds_log_feed_s {
    ngx_queue_t               queue;
    ngx_mcds_log_t           *log;
    ngx_queue_t               followers;
    ngx_queue_t               chunks;    /* chunks of the log, time intervals,
                                            the oldest one first, without a
                                            gap */
    ngx_event_t               event;
    ngx_mcds_log_batch_t     *batch;     /* new lines of the log that are held
                                            back until no earlier line is to
                                            come */
    ngx_mcds_log_id_t         newest;    /* largest id of a line that was given
                                            to the followers of the log */
    uint64_t                  settled;
    uint64_t                  since;     /* time, ms since the epoch: lines of
                                            the log with an earlier time are
                                            never given to the followers */
    ngx_queue_t               asks;      /* queries for items of the log that
                                            are yet to be sent */
    ngx_uint_t                sent;      /* number of queries that memcached has
                                            not answered yet */
    ngx_uint_t                unanswered; /* number of all these queries */
    ngx_uint_t                looks;
    ngx_uint_t                first;     /* number of the current look for new
                                            lines or, if looks directly before
                                            it failed, of the first failed one:
                                            lines it missed may be found now */
    ngx_uint_t                rc;        /* result of the current look for new
                                            lines of the log */
    unsigned                  ready:1;   /* the first look for new lines of the
                                            log has ended */
};


/* a query for an item of the log */

typedef struct {
    ngx_queue_t               queue;
    ngx_mcds_op_t             op;
    ngx_mcds_log_feed_t      *feed;
    ngx_mcds_log_chunk_t     *chunk;
    ngx_uint_t                part;
    ngx_uint_t                whole;     /* 1: the query requests the item's
                                            value, not only its CAS value */
} ngx_mcds_log_ask_t;


static ngx_mcds_log_feed_t *ngx_mcds_log_get_feed(ngx_mcds_log_t *log);
static void ngx_mcds_log_tick(ngx_event_t *ev);
static void ngx_mcds_log_look(ngx_mcds_log_feed_t *feed);
static ngx_int_t ngx_mcds_log_window(ngx_mcds_log_feed_t *feed,
    uint64_t *first, uint64_t *last);
static ngx_mcds_log_chunk_t *ngx_mcds_log_new_chunk(uint64_t number);
static void ngx_mcds_log_free_chunk(ngx_mcds_log_chunk_t *chunk);
static void ngx_mcds_log_ask_part(ngx_mcds_log_feed_t *feed,
    ngx_mcds_log_chunk_t *chunk, ngx_uint_t part, ngx_uint_t whole);
static void ngx_mcds_log_ask_next(ngx_mcds_log_feed_t *feed);
static void ngx_mcds_log_part_handler(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_log_found(ngx_mcds_log_ask_t *ask,
    ngx_mcds_result_t *result);
static ngx_mcds_log_part_t *ngx_mcds_log_part(ngx_mcds_log_chunk_t *chunk,
    ngx_uint_t part);
static void ngx_mcds_log_looked(ngx_mcds_log_feed_t *feed);
static ngx_int_t ngx_mcds_log_read_parts(ngx_mcds_log_feed_t *feed,
    ngx_mcds_log_batch_t *batch);
static ngx_uint_t ngx_mcds_log_settle(ngx_mcds_log_feed_t *feed);
static void ngx_mcds_log_set_ready(ngx_mcds_log_feed_t *feed);
static ngx_int_t ngx_mcds_log_read_part(ngx_mcds_log_feed_t *feed,
    ngx_mcds_log_chunk_t *chunk, ngx_mcds_log_part_t *part);
static void ngx_mcds_log_tell(ngx_mcds_log_feed_t *feed,
    ngx_mcds_log_batch_t *batch);
static void ngx_mcds_log_feed_free(ngx_mcds_log_feed_t *feed);


static ngx_queue_t  ngx_mcds_log_feeds;


ngx_int_t
ngx_mcds_log_follow(ngx_mcds_log_t *log, ngx_mcds_log_follower_t *follower)
{
    ngx_mcds_log_feed_t  *feed;

    feed = ngx_mcds_log_get_feed(log);
    if (feed == NULL) {
        return NGX_ERROR;
    }

    follower->feed = feed;
    ngx_queue_insert_tail(&feed->followers, &follower->queue);

    return NGX_OK;
}


static ngx_mcds_log_feed_t *
ngx_mcds_log_get_feed(ngx_mcds_log_t *log)
{
    ngx_queue_t          *q;
    ngx_mcds_log_feed_t  *feed;

    if (ngx_mcds_log_feeds.next == NULL) {
        ngx_queue_init(&ngx_mcds_log_feeds);
    }

    for (q = ngx_queue_head(&ngx_mcds_log_feeds);
         q != ngx_queue_sentinel(&ngx_mcds_log_feeds);
         q = ngx_queue_next(q))
    {
        feed = ngx_queue_data(q, ngx_mcds_log_feed_t, queue);

        if (feed->log == log) {
            return feed;
        }
    }

    feed = ngx_calloc(sizeof(ngx_mcds_log_feed_t), ngx_cycle->log);
    if (feed == NULL) {
        return NULL;
    }

    feed->log = log;
    feed->since = ngx_mcds_now() - NGX_MCDS_LOG_LATE;
    ngx_queue_init(&feed->followers);
    ngx_queue_init(&feed->chunks);
    ngx_queue_init(&feed->asks);

    /*
     * the timer that looks for new lines of a log is not cancelable: a worker
     * that exits must still call the followers of the log
     */

    feed->event.handler = ngx_mcds_log_tick;
    feed->event.data = feed;
    feed->event.log = ngx_cycle->log;

    ngx_queue_insert_tail(&ngx_mcds_log_feeds, &feed->queue);

    ngx_add_timer(&feed->event, 1);

    return feed;
}


void
ngx_mcds_log_leave(ngx_mcds_log_follower_t *follower)
{
    if (follower->feed) {
        ngx_queue_remove(&follower->queue);
        follower->feed = NULL;
    }
}


ngx_uint_t
ngx_mcds_log_ready(ngx_mcds_log_follower_t *follower)
{
    return follower->feed->ready;
}


uint64_t
ngx_mcds_log_settled(ngx_mcds_log_follower_t *follower)
{
    ngx_mcds_log_feed_t  *feed;

    feed = follower->feed;

    /*
     * if too many lines were held back, the followers got some that have not
     * settled: a new follower has to read these
     */

    return ngx_max(feed->settled, feed->newest.time);
}


uint64_t
ngx_mcds_log_held(ngx_mcds_log_follower_t *follower)
{
    return follower->feed->settled;
}


ngx_uint_t
ngx_mcds_log_look_count(ngx_mcds_log_follower_t *follower)
{
    return follower->feed->looks;
}


static void
ngx_mcds_log_tick(ngx_event_t *ev)
{
    ngx_mcds_log_feed_t  *feed;

    feed = ev->data;

    ngx_mcds_log_tell(feed, NULL);

    if (feed->unanswered == 0) {

        if (ngx_queue_empty(&feed->followers)) {
            ngx_mcds_log_feed_free(feed);
            return;
        }

        ngx_mcds_log_look(feed);
    }

    ngx_add_timer(&feed->event, NGX_MCDS_LOG_TICK);
}


static void
ngx_mcds_log_look(ngx_mcds_log_feed_t *feed)
{
    uint64_t               first, last;
    ngx_uint_t             i;
    ngx_queue_t           *q;
    ngx_mcds_log_chunk_t  *chunk;

    feed->looks++;

    if (feed->rc == NGX_MCDS_OK) {
        feed->first = feed->looks;
    }

    feed->rc = NGX_MCDS_OK;

    if (ngx_mcds_log_window(feed, &first, &last) != NGX_OK) {
        feed->rc = NGX_MCDS_BUSY;
        return;
    }

    /*
     * memcached's replies to the queries for items of the log are handled only
     * after this function has returned
     */

    for (q = ngx_queue_head(&feed->chunks);
         q != ngx_queue_sentinel(&feed->chunks);
         q = ngx_queue_next(q))
    {
        chunk = ngx_queue_data(q, ngx_mcds_log_chunk_t, queue);

        if (chunk->chunk < first || chunk->chunk > last) {
            continue;
        }

        for (i = 0; i <= chunk->nparts && i < NGX_MCDS_LOG_PARTS; i++) {
            ngx_mcds_log_ask_part(feed, chunk, i, 0);
        }
    }
}


/*
 * Sets *first and *last to the numbers of the first and the last chunk (time
 * interval of the log) that can get new lines at the present time; adds those
 * that the feed does not have, and frees the chunks far outside of them.
 */

static ngx_int_t
ngx_mcds_log_window(ngx_mcds_log_feed_t *feed, uint64_t *first, uint64_t *last)
{
    uint64_t               now, number, around;
    ngx_queue_t           *q;
    ngx_mcds_log_chunk_t  *chunk;
    ngx_mcds_log_range_t   range;

    now = ngx_mcds_now();

    ngx_memzero(&range, sizeof(ngx_mcds_log_range_t));

    range.first = now - NGX_MCDS_LOG_LATE;
    range.last = now;

    if (feed->since > now) {

        /* the clock was set back since the feed was created */

        feed->since = range.first;
    }

    (void) ngx_mcds_log_chunks(feed->log, &range, now, first, last);

    around = ngx_max(NGX_MCDS_LOG_AROUND,
                     NGX_MCDS_LOG_AROUND_TIME / feed->log->chunk);

    while (!ngx_queue_empty(&feed->chunks)) {

        q = ngx_queue_head(&feed->chunks);
        chunk = ngx_queue_data(q, ngx_mcds_log_chunk_t, queue);

        if (chunk->chunk + around >= *first) {
            break;
        }

        ngx_mcds_log_free_chunk(chunk);
    }

    /*
     * a time interval of the log (chunk) may also be in the future, if the
     * clock was set back
     */

    while (!ngx_queue_empty(&feed->chunks)) {

        q = ngx_queue_last(&feed->chunks);
        chunk = ngx_queue_data(q, ngx_mcds_log_chunk_t, queue);

        if (chunk->chunk <= *last + around) {
            break;
        }

        ngx_mcds_log_free_chunk(chunk);
    }

    number = *first;

    if (!ngx_queue_empty(&feed->chunks)) {

        q = ngx_queue_head(&feed->chunks);
        chunk = ngx_queue_data(q, ngx_mcds_log_chunk_t, queue);

        for (number = chunk->chunk; number > *first; number--) {

            chunk = ngx_mcds_log_new_chunk(number - 1);
            if (chunk == NULL) {
                return NGX_ERROR;
            }

            ngx_queue_insert_head(&feed->chunks, &chunk->queue);
        }

        q = ngx_queue_last(&feed->chunks);
        chunk = ngx_queue_data(q, ngx_mcds_log_chunk_t, queue);
        number = chunk->chunk + 1;
    }

    for ( /* void */ ; number <= *last; number++) {

        chunk = ngx_mcds_log_new_chunk(number);
        if (chunk == NULL) {
            return NGX_ERROR;
        }

        ngx_queue_insert_tail(&feed->chunks, &chunk->queue);
    }

    return NGX_OK;
}


static ngx_mcds_log_chunk_t *
ngx_mcds_log_new_chunk(uint64_t number)
{
    ngx_mcds_log_chunk_t  *chunk;

    chunk = ngx_calloc(sizeof(ngx_mcds_log_chunk_t), ngx_cycle->log);
    if (chunk == NULL) {
        return NULL;
    }

    chunk->chunk = number;

    return chunk;
}


static void
ngx_mcds_log_free_chunk(ngx_mcds_log_chunk_t *chunk)
{
    ngx_queue_remove(&chunk->queue);

    if (chunk->parts) {
        ngx_free(chunk->parts);
    }

    if (chunk->seen.runs) {
        ngx_free(chunk->seen.runs);
    }

    ngx_free(chunk);
}


static void
ngx_mcds_log_ask_part(ngx_mcds_log_feed_t *feed, ngx_mcds_log_chunk_t *chunk,
    ngx_uint_t part, ngx_uint_t whole)
{
    ngx_mcds_log_ask_t  *ask;

    ask = ngx_calloc(sizeof(ngx_mcds_log_ask_t), ngx_cycle->log);
    if (ask == NULL) {
        feed->rc = NGX_MCDS_BUSY;
        return;
    }

    ask->op.handler = ngx_mcds_log_part_handler;
    ask->op.data = ask;
    ask->feed = feed;
    ask->chunk = chunk;
    ask->part = part;
    ask->whole = whole;

    ngx_queue_insert_tail(&feed->asks, &ask->queue);
    feed->unanswered++;

    ngx_mcds_log_ask_next(feed);
}


/*
 * Sends queries for items of the log, no more at a time than the pool of
 * memcached servers allows; the others follow when it has answered.
 */

static void
ngx_mcds_log_ask_next(ngx_mcds_log_feed_t *feed)
{
    ngx_uint_t           batch;
    ngx_queue_t         *q;
    ngx_mcds_log_ask_t  *ask;

    batch = ngx_mcds_pool_batch(feed->log->pool, 0);

    while (feed->sent < batch && !ngx_queue_empty(&feed->asks)) {

        q = ngx_queue_head(&feed->asks);
        ngx_queue_remove(q);
        ask = ngx_queue_data(q, ngx_mcds_log_ask_t, queue);

        feed->sent++;

        ngx_mcds_log_get_item(feed->log, ask->chunk->chunk, ask->part,
                              ask->whole ? NGX_MCDS_VALUE : 0, &ask->op);
    }
}


static void
ngx_mcds_log_part_handler(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_log_ask_t    *ask;
    ngx_mcds_log_feed_t   *feed;
    ngx_mcds_log_chunk_t  *chunk;

    ask = data;
    feed = ask->feed;
    feed->sent--;
    feed->unanswered--;

    if (result->rc == NGX_MCDS_OK) {
        ngx_mcds_log_found(ask, result);

    } else if (result->rc != NGX_MCDS_NOT_FOUND) {
        feed->rc = result->rc;

        chunk = ask->chunk;

        if (!ask->whole
            && ask->part >= chunk->nparts
            && ask->part < chunk->nparts + NGX_MCDS_LOG_SKIP
            && ask->part + 1 < NGX_MCDS_LOG_PARTS)
        {
            /*
             * the server of this item of the log may be down; the next item may
             * be on another one
             */

            ngx_mcds_log_ask_part(feed, chunk, ask->part + 1, 0);
        }
    }

    ngx_free(ask);

    ngx_mcds_log_ask_next(feed);

    if (feed->unanswered == 0) {
        ngx_mcds_log_looked(feed);
    }
}


static void
ngx_mcds_log_found(ngx_mcds_log_ask_t *ask, ngx_mcds_result_t *result)
{
    ngx_mcds_log_part_t   *part;
    ngx_mcds_log_feed_t   *feed;
    ngx_mcds_log_chunk_t  *chunk;

    feed = ask->feed;
    chunk = ask->chunk;

    part = ngx_mcds_log_part(chunk, ask->part);
    if (part == NULL) {
        feed->rc = NGX_MCDS_BUSY;
        return;
    }

    if (!ask->whole) {

        if (ask->part + 1 == chunk->nparts && part->cas == 0
            && chunk->nparts < NGX_MCDS_LOG_PARTS)
        {
            /*
             * this item of the log is new, or its server has no CAS values:
             * look for the next item, too
             */

            ngx_mcds_log_ask_part(feed, chunk, ask->part + 1, 0);
        }

        if (result->cas == 0 || result->cas != part->cas) {
            ngx_mcds_log_ask_part(feed, chunk, ask->part, 1);
        }

        return;
    }

    if (part->value) {
        return;
    }

    part->value = ngx_mcds_result_value(result, ngx_cycle->log);

    if (part->value == NULL) {
        feed->rc = NGX_MCDS_BUSY;
        return;
    }

    part->cas = result->cas;
}


/*
 * Returns the entry for item number "part" of a chunk, a time interval of the
 * log; creates the entry, and those before it, if there are none yet.  NULL if
 * out of memory.
 */

static ngx_mcds_log_part_t *
ngx_mcds_log_part(ngx_mcds_log_chunk_t *chunk, ngx_uint_t part)
{
    ngx_uint_t            max;
    ngx_mcds_log_part_t  *parts;

    if (part >= chunk->max) {

        max = ngx_max(2 * chunk->max, part + 4);

        parts = ngx_calloc(max * sizeof(ngx_mcds_log_part_t), ngx_cycle->log);
        if (parts == NULL) {
            return NULL;
        }

        if (chunk->parts) {
            ngx_memcpy(parts, chunk->parts,
                       chunk->nparts * sizeof(ngx_mcds_log_part_t));
            ngx_free(chunk->parts);
        }

        chunk->parts = parts;
        chunk->max = max;
    }

    chunk->nparts = ngx_max(chunk->nparts, part + 1);

    return &chunk->parts[part];
}


static void
ngx_mcds_log_looked(ngx_mcds_log_feed_t *feed)
{
    ngx_uint_t             n;
    ngx_mcds_log_batch_t  *batch, *rest;

    if (feed->batch == NULL) {
        feed->batch = ngx_mcds_log_batch_create();
    }

    batch = feed->batch;

    if (ngx_mcds_log_read_parts(feed, batch) != NGX_OK || batch == NULL) {
        feed->rc = NGX_MCDS_BUSY;
        return;
    }

    n = ngx_mcds_log_settle(feed);

    if (n == 0) {
        ngx_mcds_log_set_ready(feed);
        return;
    }

    rest = ngx_mcds_log_batch_split(batch, n);
    if (rest == NULL) {
        feed->rc = NGX_MCDS_BUSY;
        return;
    }

    batch->look = feed->first;
    batch->newest = feed->newest;

    if (ngx_mcds_log_id_cmp(&batch->events.elts[n - 1].id, &feed->newest) > 0)
    {
        feed->newest = batch->events.elts[n - 1].id;
    }

    feed->batch = rest;

    /*
     * the first look for new lines of the log finds the log's old lines, which
     * the followers do not get
     */

    if (feed->ready) {
        ngx_mcds_log_tell(feed, batch);
    }

    ngx_mcds_log_set_ready(feed);

    ngx_mcds_log_batch_unref(batch);
}


/*
 * Reads the new lines from the values of the log's items, in the order in which
 * writers go from one item to the next.
 */

static ngx_int_t
ngx_mcds_log_read_parts(ngx_mcds_log_feed_t *feed,
    ngx_mcds_log_batch_t *batch)
{
    ngx_int_t              rc;
    ngx_uint_t             i;
    ngx_queue_t           *q;
    ngx_mcds_log_part_t   *part;
    ngx_mcds_log_chunk_t  *chunk;

    rc = NGX_OK;

    for (q = ngx_queue_head(&feed->chunks);
         q != ngx_queue_sentinel(&feed->chunks);
         q = ngx_queue_next(q))
    {
        chunk = ngx_queue_data(q, ngx_mcds_log_chunk_t, queue);

        for (i = 0; i < chunk->nparts; i++) {
            part = &chunk->parts[i];

            if (part->value == NULL) {
                continue;
            }

            if (batch == NULL
                || ngx_mcds_log_read_part(feed, chunk, part) != NGX_OK)
            {
                /*
                 * the lines of the item could not be read, or memory ran out:
                 * the next look for new lines reads the whole item again
                 */

                part->cas = 0;
                part->at = 0;
                rc = NGX_ERROR;
            }

            ngx_mcds_value_unref(part->value);
            part->value = NULL;
        }
    }

    return rc;
}


/*
 * Returns the number of lines, at the start of the feed's batch, that have
 * settled: no earlier line of the log is to come, so that the followers may get
 * these lines.  If the batch has more than NGX_MCDS_LOG_UNSETTLED lines,
 * returns the number of all its lines, but not at the first look for new lines:
 * the followers do not get those of its lines that are returned.
 */

static ngx_uint_t
ngx_mcds_log_settle(ngx_mcds_log_feed_t *feed)
{
    ngx_uint_t              n;
    ngx_mcds_log_events_t  *events;

    feed->settled = ngx_mcds_now() - NGX_MCDS_LOG_SETTLE;

    events = &feed->batch->events;
    events->n = ngx_mcds_log_sort(events->elts, events->n);

    if (feed->ready && events->n > NGX_MCDS_LOG_UNSETTLED) {
        return events->n;
    }

    for (n = 0; n < events->n; n++) {
        if (events->elts[n].id.time > feed->settled) {
            break;
        }
    }

    return n;
}


/*
 * Called when a look for new lines of the log has ended: from now on, the
 * followers get the lines that looks find.  Old lines that the first look has
 * missed, as a server was down, are found by a later look, but are not new.
 */

static void
ngx_mcds_log_set_ready(ngx_mcds_log_feed_t *feed)
{
    if (feed->ready) {
        return;
    }

    if (feed->rc != NGX_MCDS_OK) {
        feed->since = ngx_max(feed->since, feed->settled + 1);
    }

    feed->ready = 1;
}


static ngx_int_t
ngx_mcds_log_read_part(ngx_mcds_log_feed_t *feed,
    ngx_mcds_log_chunk_t *chunk, ngx_mcds_log_part_t *part)
{
    ngx_int_t              rc;
    ngx_uint_t             n;
    ngx_mcds_log_batch_t  *batch;
    ngx_mcds_log_event_t   event;
    ngx_mcds_log_place_t   place;

    batch = feed->batch;

    if (ngx_mcds_log_batch_hold(batch, part->value) != NGX_OK) {
        return NGX_ERROR;
    }

    n = batch->events.n;

    ngx_memzero(&place, sizeof(ngx_mcds_log_place_t));

    if (part->at > part->value->len
        || ngx_memcmp(part->head, part->value->data,
                      ngx_min(part->at, NGX_MCDS_LOG_HEAD))
           != 0)
    {
        /* the item of the log was lost, and created again */

        part->at = 0;
    }

    place.at = part->at;
    place.pos = part->at;
    place.end = part->at;

    while (ngx_mcds_log_next(&place, part->value->data, part->value->len,
                             &event)
           == NGX_OK)
    {
        /*
         * add the line to the feed's batch before ngx_mcds_log_seen() records
         * it as read: if there is no memory, the next look reads it again
         */

        if (ngx_mcds_log_push(&batch->events, &event) != NGX_OK) {
            return NGX_ERROR;
        }

        rc = ngx_mcds_log_seen(&chunk->seen, &event.id);

        if (rc != 0 || event.id.time < feed->since) {
            batch->events.n--;
        }

        if (rc == NGX_ERROR) {
            return NGX_ERROR;
        }
    }

    part->at = place.at;

    ngx_memcpy(part->head, part->value->data,
               ngx_min(part->at, NGX_MCDS_LOG_HEAD));

    if (batch->events.n == n) {

        /* none of the lines in this item of the log is new */

        ngx_mcds_log_batch_drop(batch);
    }

    return NGX_OK;
}


static void
ngx_mcds_log_tell(ngx_mcds_log_feed_t *feed, ngx_mcds_log_batch_t *batch)
{
    ngx_queue_t              *q, *next;
    ngx_mcds_log_follower_t  *follower;

    for (q = ngx_queue_head(&feed->followers);
         q != ngx_queue_sentinel(&feed->followers);
         q = next)
    {
        next = ngx_queue_next(q);
        follower = ngx_queue_data(q, ngx_mcds_log_follower_t, queue);

        follower->handler(follower->data, feed->rc, batch);
    }
}


static void
ngx_mcds_log_feed_free(ngx_mcds_log_feed_t *feed)
{
    ngx_queue_t           *q;
    ngx_mcds_log_chunk_t  *chunk;

    while (!ngx_queue_empty(&feed->chunks)) {

        q = ngx_queue_head(&feed->chunks);
        chunk = ngx_queue_data(q, ngx_mcds_log_chunk_t, queue);

        ngx_mcds_log_free_chunk(chunk);
    }

    if (feed->batch) {
        ngx_mcds_log_batch_unref(feed->batch);
    }

    ngx_queue_remove(&feed->queue);
    ngx_free(feed);
}


/*
 * Copyright (C) mcds authors
 *
 * Reads of a log.  Chunks (time intervals) are read in parallel; their lines
 * are collected in the order of time, or from the newest one back, until there
 * are enough lines.  As the first chunks may have enough, two are read, then
 * four, and so on.  The number of items of a chunk is unknown: the first two
 * are read, then as many again if the last of them exists, and so on.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_log.h"
#include "ngx_mcds_log_read.h"


/*
 * the number of chunks (time intervals) of a log that are read in parallel: at
 * first, and at most
 */
#define NGX_MCDS_LOG_BEGIN        2
#define NGX_MCDS_LOG_WINDOW       32

/*
 * the number of items of a log's chunk (time interval) that are requested
 * first, and the maximum that are requested at a time
 */
#define NGX_MCDS_LOG_FEW          2
#define NGX_MCDS_LOG_MANY         16


typedef struct {
    ngx_mcds_log_read_t      *read;
    uint64_t                  chunk;
    ngx_mcds_log_events_t     events;
    ngx_uint_t                asked;     /* number of items of this chunk, a
                                            time interval of the log, that were
                                            requested */
    ngx_uint_t                planned;   /* number of items of this chunk that
                                            are to be requested before it is
                                            known whether there are more */
    ngx_uint_t                unanswered;
    unsigned                  ended:1;   /* 1: this chunk, a time interval of
                                            the log, has no further items to
                                            request */
} ngx_mcds_log_slot_t;


/* a request to memcached for an item of a log */

typedef struct {
    ngx_queue_t               queue;
    ngx_mcds_op_t             op;
    ngx_mcds_log_slot_t      *slot;
    ngx_uint_t                part;
} ngx_mcds_log_item_t;


struct ngx_mcds_log_read_s {
    ngx_mcds_log_t           *log;
    ngx_mcds_log_range_t      range;
    ngx_mcds_log_read_pt      handler;   /* handler that gets the lines of the
                                            log; NULL: it was called */
    void                     *data;
    ngx_pool_t               *pool;
    ngx_event_t               event;

    ngx_mcds_log_slot_t      *slots;     /* chunks, time intervals of the log,
                                            in the order in which they are
                                            read */
    ngx_uint_t                nslots;
    ngx_uint_t                begun;
    ngx_uint_t                done;
    ngx_uint_t                window;    /* number of chunks, time intervals of
                                            the log, to read in parallel */

    ngx_array_t               values;    /* values of the log's items that have
                                            the lines, ngx_mcds_value_t * */
    size_t                    held;      /* bytes of memory that the read uses
                                            for values of the log's items */
    ngx_uint_t                lines;     /* number of lines in the chunks (time
                                            intervals) that were read fully */
    ngx_queue_t               items;     /* items of the log that are being
                                            read, ngx_mcds_log_item_t */
    ngx_uint_t                nitems;    /* number of these items */
    ngx_queue_t               spare;
    ngx_uint_t                rc;
};


static ngx_int_t ngx_mcds_log_slots(ngx_mcds_log_read_t *read, uint64_t now);
static void ngx_mcds_log_event(ngx_event_t *ev);
static void ngx_mcds_log_go_on(ngx_mcds_log_read_t *read);
static void ngx_mcds_log_begin_slots(ngx_mcds_log_read_t *read);
static void ngx_mcds_log_plan(ngx_mcds_log_slot_t *slot);
static void ngx_mcds_log_ask(ngx_mcds_log_read_t *read);
static ngx_mcds_log_item_t *ngx_mcds_log_item_get(ngx_mcds_log_read_t *read);
static void ngx_mcds_log_item_handler(void *data, ngx_mcds_result_t *result);
static ngx_uint_t ngx_mcds_log_item(ngx_mcds_log_slot_t *slot,
    ngx_mcds_result_t *result);
static void ngx_mcds_log_finish(ngx_mcds_log_read_t *read);
static ngx_uint_t ngx_mcds_log_collect(ngx_mcds_log_read_t *read,
    ngx_mcds_log_events_t *events);
static void ngx_mcds_log_read_free(ngx_mcds_log_read_t *read);


ngx_mcds_log_read_t *
ngx_mcds_log_read(ngx_mcds_log_t *log, ngx_mcds_log_range_t *range,
    uint64_t now, ngx_mcds_log_read_pt handler, void *data)
{
    ngx_pool_t           *pool;
    ngx_mcds_log_read_t  *read;

    pool = ngx_create_pool(4096, ngx_cycle->log);
    if (pool == NULL) {
        return NULL;
    }

    read = ngx_pcalloc(pool, sizeof(ngx_mcds_log_read_t));
    if (read == NULL) {
        ngx_destroy_pool(pool);
        return NULL;
    }

    read->pool = pool;
    read->log = log;
    read->range = *range;
    read->handler = handler;
    read->data = data;
    read->window = NGX_MCDS_LOG_BEGIN;

    ngx_queue_init(&read->items);
    ngx_queue_init(&read->spare);

    read->event.handler = ngx_mcds_log_event;
    read->event.data = read;
    read->event.log = ngx_cycle->log;

    if (ngx_array_init(&read->values, pool, 16, sizeof(ngx_mcds_value_t *))
        != NGX_OK
        || ngx_mcds_log_slots(read, now) != NGX_OK)
    {
        ngx_destroy_pool(pool);
        return NULL;
    }

    ngx_post_event(&read->event, &ngx_posted_events);

    return read;
}


void
ngx_mcds_log_cancel(ngx_mcds_log_read_t *read)
{
    if (read->handler) {
        ngx_mcds_log_read_free(read);
    }
}


static ngx_int_t
ngx_mcds_log_slots(ngx_mcds_log_read_t *read, uint64_t now)
{
    uint64_t               first, last;
    ngx_uint_t             i;
    ngx_mcds_log_range_t  *range;

    range = &read->range;

    if (range->limit == 0
        || ngx_mcds_log_chunks(read->log, range, now, &first, &last)
           != NGX_OK)
    {
        return NGX_OK;
    }

    read->nslots = last - first + 1;

    read->slots = ngx_pcalloc(read->pool,
                              read->nslots * sizeof(ngx_mcds_log_slot_t));
    if (read->slots == NULL) {
        return NGX_ERROR;
    }

    for (i = 0; i < read->nslots; i++) {
        read->slots[i].read = read;
        read->slots[i].chunk = range->newest ? last - i : first + i;
    }

    return NGX_OK;
}


static void
ngx_mcds_log_event(ngx_event_t *ev)
{
    ngx_mcds_log_go_on(ev->data);
}


static void
ngx_mcds_log_go_on(ngx_mcds_log_read_t *read)
{
    ngx_mcds_log_slot_t  *slot;

    while (read->rc == NGX_MCDS_OK
           && read->done < read->nslots
           && read->lines < read->range.limit)
    {
        ngx_mcds_log_begin_slots(read);

        slot = &read->slots[read->done];

        if (slot->asked == slot->planned
            && slot->unanswered == 0
            && !slot->ended)
        {
            ngx_mcds_log_plan(slot);
        }

        ngx_mcds_log_ask(read);

        if (read->rc != NGX_MCDS_OK) {
            break;
        }

        if (slot->asked < slot->planned || slot->unanswered) {
            return;
        }

        slot->events.n = ngx_mcds_log_sort(slot->events.elts,
                                           slot->events.n);

        read->lines += slot->events.n;
        read->done++;
    }

    if (ngx_queue_empty(&read->items)) {
        ngx_mcds_log_finish(read);
    }
}


/*
 * Begins to read further chunks, time intervals of the log.  Until the maximum
 * number of chunks is read in parallel, all chunks that were begun must have
 * been read, with too few lines, before further ones are begun, twice as many.
 */

static void
ngx_mcds_log_begin_slots(ngx_mcds_log_read_t *read)
{
    ngx_uint_t  end;

    if (read->window < NGX_MCDS_LOG_WINDOW) {

        if (read->begun > read->done) {
            return;
        }

        if (read->begun) {
            read->window *= 2;
        }
    }

    end = ngx_min(read->done + read->window, read->nslots);

    while (read->begun < end) {
        ngx_mcds_log_plan(&read->slots[read->begun++]);
    }
}


/*
 * Plans to request the next items of a chunk, a time interval of a log: as many
 * as were requested before, within limits.
 */

static void
ngx_mcds_log_plan(ngx_mcds_log_slot_t *slot)
{
    ngx_uint_t  n;

    if (slot->planned == NGX_MCDS_LOG_PARTS) {
        slot->ended = 1;
        return;
    }

    n = ngx_min(ngx_max(slot->planned, NGX_MCDS_LOG_FEW), NGX_MCDS_LOG_MANY);

    slot->planned = ngx_min(slot->planned + n, NGX_MCDS_LOG_PARTS);
}


/*
 * Requests the items of the log that are planned, no more at a time than the
 * pool of memcached servers allows; the others follow when it has answered.
 */

static void
ngx_mcds_log_ask(ngx_mcds_log_read_t *read)
{
    ngx_uint_t            i, batch;
    ngx_mcds_log_item_t  *item;
    ngx_mcds_log_slot_t  *slot;

    batch = ngx_mcds_pool_batch(read->log->pool, 0);

    for (i = read->done; i < read->begun; i++) {
        slot = &read->slots[i];

        while (slot->asked < slot->planned) {

            if (read->nitems >= batch) {
                return;
            }

            item = ngx_mcds_log_item_get(read);

            if (item == NULL) {
                read->rc = NGX_MCDS_BUSY;
                return;
            }

            item->slot = slot;
            item->part = slot->asked;

            ngx_mcds_log_get_item(read->log, slot->chunk, slot->asked,
                                  NGX_MCDS_VALUE, &item->op);

            slot->asked++;
            slot->unanswered++;
        }
    }
}


static ngx_mcds_log_item_t *
ngx_mcds_log_item_get(ngx_mcds_log_read_t *read)
{
    ngx_queue_t          *q;
    ngx_mcds_log_item_t  *item;

    if (!ngx_queue_empty(&read->spare)) {
        q = ngx_queue_head(&read->spare);
        ngx_queue_remove(q);
        item = ngx_queue_data(q, ngx_mcds_log_item_t, queue);

    } else {
        item = ngx_pcalloc(read->pool, sizeof(ngx_mcds_log_item_t));
        if (item == NULL) {
            return NULL;
        }

        item->op.handler = ngx_mcds_log_item_handler;
        item->op.data = item;
    }

    ngx_queue_insert_tail(&read->items, &item->queue);
    read->nitems++;

    return item;
}


void
ngx_mcds_log_get_item(ngx_mcds_log_t *log, uint64_t chunk, ngx_uint_t part,
    ngx_uint_t want, ngx_mcds_op_t *op)
{
    u_char              buf[NGX_MCDS_LOG_SUFFIX];
    ngx_mcds_request_t  req;

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.verb = NGX_MCDS_GET;
    req.want = want|NGX_MCDS_CAS;
    req.key = log->name;
    ngx_mcds_log_suffix(&req.suffix, buf, chunk, part);
    req.limit = NGX_MCDS_LOG_ITEM;
    req.bulk = (want & NGX_MCDS_VALUE) ? 1 : 0;
    req.single = 1;

    ngx_mcds_submit(log->pool, &req, op);
}


static void
ngx_mcds_log_item_handler(void *data, ngx_mcds_result_t *result)
{
    ngx_uint_t            rc;
    ngx_mcds_log_item_t  *item;
    ngx_mcds_log_read_t  *read;
    ngx_mcds_log_slot_t  *slot;

    item = data;
    slot = item->slot;
    read = slot->read;

    slot->unanswered--;

    ngx_queue_remove(&item->queue);
    ngx_queue_insert_head(&read->spare, &item->queue);
    read->nitems--;

    if (result->rc == NGX_MCDS_NOT_FOUND) {

        /*
         * if the last item that is to be requested is missing, the log's time
         * interval has no further items; a missing item before the last one is
         * no sign of the end, as memcached may have lost it
         */

        if (item->part + 1 == slot->planned) {
            slot->ended = 1;
        }

    } else if (read->rc == NGX_MCDS_OK) {

        rc = ngx_mcds_log_item(slot, result);

        if (rc != NGX_MCDS_OK) {
            read->rc = rc;
        }
    }

    ngx_mcds_log_go_on(read);
}


static ngx_uint_t
ngx_mcds_log_item(ngx_mcds_log_slot_t *slot, ngx_mcds_result_t *result)
{
    ngx_uint_t             n;
    ngx_mcds_value_t      *value, **held;
    ngx_mcds_log_read_t   *read;
    ngx_mcds_log_event_t   event;
    ngx_mcds_log_place_t   place;

    read = slot->read;

    if (result->rc != NGX_MCDS_OK) {
        return result->rc;
    }

    value = ngx_mcds_result_value(result, ngx_cycle->log);
    if (value == NULL) {
        return NGX_MCDS_BUSY;
    }

    ngx_memzero(&place, sizeof(ngx_mcds_log_place_t));

    n = slot->events.n;

    while (ngx_mcds_log_next(&place, value->data, value->len, &event)
           == NGX_OK)
    {
        if (ngx_mcds_log_wanted(&read->range, &event.id)
            && ngx_mcds_log_push(&slot->events, &event) != NGX_OK)
        {
            ngx_mcds_value_unref(value);
            return NGX_MCDS_BUSY;
        }
    }

    if (slot->events.n == n) {
        ngx_mcds_value_unref(value);
        return NGX_MCDS_OK;
    }

    held = ngx_array_push(&read->values);
    if (held == NULL) {
        ngx_mcds_value_unref(value);
        return NGX_MCDS_BUSY;
    }

    *held = value;
    read->held += value->len;

    return read->held > NGX_MCDS_LOG_HELD ? NGX_MCDS_TOO_LARGE : NGX_MCDS_OK;
}


ngx_int_t
ngx_mcds_log_push(ngx_mcds_log_events_t *events, ngx_mcds_log_event_t *event)
{
    ngx_uint_t             max;
    ngx_mcds_log_event_t  *elts;

    if (events->n == events->max) {

        max = events->max ? 2 * events->max : 64;

        elts = ngx_alloc(max * sizeof(ngx_mcds_log_event_t), ngx_cycle->log);
        if (elts == NULL) {
            return NGX_ERROR;
        }

        if (events->elts) {
            ngx_memcpy(elts, events->elts,
                       events->n * sizeof(ngx_mcds_log_event_t));
            ngx_free(events->elts);
        }

        events->elts = elts;
        events->max = max;
    }

    events->elts[events->n++] = *event;

    return NGX_OK;
}


static void
ngx_mcds_log_finish(ngx_mcds_log_read_t *read)
{
    ngx_mcds_log_read_pt   handler;
    ngx_mcds_log_events_t  events;

    ngx_memzero(&events, sizeof(ngx_mcds_log_events_t));

    if (read->rc == NGX_MCDS_OK) {
        read->rc = ngx_mcds_log_collect(read, &events);
    }

    /*
     * the handler of the read may call ngx_mcds_log_cancel(), and the read is
     * freed below
     */

    handler = read->handler;
    read->handler = NULL;

    handler(read->data, read->rc,
            read->rc == NGX_MCDS_OK ? &events : NULL);

    if (events.max) {
        ngx_free(events.elts);
    }

    ngx_mcds_log_read_free(read);
}


/*
 * Collects the lines of all chunks, time intervals of the log, that were read
 * fully, in the order of time, up to the maximum number of lines to read.
 */

static ngx_uint_t
ngx_mcds_log_collect(ngx_mcds_log_read_t *read, ngx_mcds_log_events_t *events)
{
    ngx_uint_t            i, n, skip;
    ngx_mcds_log_slot_t  *slot;

    if (read->lines == 0) {
        return NGX_MCDS_OK;
    }

    events->elts = ngx_alloc(read->lines * sizeof(ngx_mcds_log_event_t),
                             ngx_cycle->log);
    if (events->elts == NULL) {
        return NGX_MCDS_BUSY;
    }

    events->max = read->lines;

    for (i = 0; i < read->done; i++) {
        slot = &read->slots[i];

        if (slot->events.n) {
            ngx_memcpy(&events->elts[events->n], slot->events.elts,
                       slot->events.n * sizeof(ngx_mcds_log_event_t));
            events->n += slot->events.n;
        }
    }

    n = ngx_mcds_log_sort(events->elts, events->n);
    skip = 0;

    if (n > read->range.limit) {
        skip = read->range.newest ? n - read->range.limit : 0;
        n = read->range.limit;
    }

    if (skip) {
        ngx_memmove(events->elts, &events->elts[skip],
                    n * sizeof(ngx_mcds_log_event_t));
    }

    events->n = n;

    return NGX_MCDS_OK;
}


static void
ngx_mcds_log_read_free(ngx_mcds_log_read_t *read)
{
    ngx_uint_t            i;
    ngx_queue_t          *q;
    ngx_mcds_value_t    **value;
    ngx_mcds_log_item_t  *item;

    if (read->event.posted) {
        ngx_delete_posted_event(&read->event);
    }

    for (q = ngx_queue_head(&read->items);
         q != ngx_queue_sentinel(&read->items);
         q = ngx_queue_next(q))
    {
        item = ngx_queue_data(q, ngx_mcds_log_item_t, queue);
        ngx_mcds_cancel(&item->op);
    }

    value = read->values.elts;

    for (i = 0; i < read->values.nelts; i++) {
        ngx_mcds_value_unref(value[i]);
    }

    for (i = 0; i < read->nslots; i++) {
        if (read->slots[i].events.elts) {
            ngx_free(read->slots[i].events.elts);
        }
    }

    ngx_destroy_pool(read->pool);
}

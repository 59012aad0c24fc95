
/*
 * Copyright (C) mcds authors
 *
 * The list of the most frequent keys: reads from memcached how often the
 * workers have counted each key in each slot (part of the list's time window),
 * and adds the counts up.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_top_core.h"
#include "ngx_mcds_posted.h"


/*
 * the minimum time, in seconds, from the end of a slot (part of the list's time
 * window) to the last read of its counts of keys; the interval at which workers
 * send their counts is added to this time
 */
#define NGX_MCDS_TOP_SETTLE       10

/*
 * after this time without a request for the list of the most frequent keys, a
 * worker reads the list from memcached at this interval, ms
 */
#define NGX_MCDS_TOP_IDLE         60000

/*
 * the interval, in seconds, at which a worker reads the counts of a slot (part
 * of the list's time window) again that is over, while other workers may still
 * add counts that memcached has not accepted before
 */
#define NGX_MCDS_TOP_LATE         60


static void ngx_mcds_top_reader_handler(ngx_event_t *ev);
static ngx_uint_t ngx_mcds_top_is_final(ngx_mcds_top_t *top, uint64_t slot);
static ngx_uint_t ngx_mcds_top_is_late(ngx_mcds_top_t *top,
    ngx_mcds_top_part_t *part);
static int64_t ngx_mcds_top_settled(ngx_mcds_top_t *top, uint64_t slot);
static void ngx_mcds_top_part_handler(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_top_finish(ngx_mcds_top_t *top);
static void ngx_mcds_top_add_up(ngx_mcds_top_t *top);
static void ngx_mcds_top_adder_handler(ngx_event_t *ev);
static ngx_uint_t ngx_mcds_top_add_part(ngx_mcds_top_t *top);
static void ngx_mcds_top_show(ngx_mcds_top_t *top);
static void ngx_mcds_top_wake(ngx_mcds_top_t *top);


ngx_int_t
ngx_mcds_top_read_create(ngx_mcds_top_t *top, ngx_mcds_top_state_t *state)
{
    ngx_uint_t  i;

    state->ended = ngx_mcds_topk_create(top->keys, ngx_cycle->log);
    state->shown = ngx_mcds_topk_create(top->keys, ngx_cycle->log);
    state->next = ngx_mcds_topk_create(top->keys, ngx_cycle->log);

    if (state->ended == NULL || state->shown == NULL || state->next == NULL) {
        ngx_free(state->ended);
        ngx_free(state->shown);
        ngx_free(state->next);

        return NGX_ERROR;
    }

    for (i = 0; i < top->slots; i++) {
        state->part[i].op.handler = ngx_mcds_top_part_handler;
        state->part[i].op.data = &state->part[i];
        state->part[i].top = top;
    }

    state->order = (ngx_mcds_ranked_t **) &state->part[top->slots];
    state->asked = ngx_current_msec;

    state->reader.handler = ngx_mcds_top_reader_handler;
    state->reader.data = top;
    state->reader.log = ngx_cycle->log;
    state->reader.cancelable = 1;

    state->adder.handler = ngx_mcds_top_adder_handler;
    state->adder.data = top;
    state->adder.log = ngx_cycle->log;

    ngx_queue_init(&state->waits);

    return NGX_OK;
}


void
ngx_mcds_top_read_free(ngx_mcds_top_t *top)
{
    ngx_uint_t             i;
    ngx_queue_t           *q;
    ngx_mcds_top_state_t  *state;

    state = top->state;

    while (!ngx_queue_empty(&state->waits)) {
        q = ngx_queue_head(&state->waits);
        ngx_queue_remove(q);
        ngx_free(ngx_queue_data(q, ngx_mcds_top_wait_t, queue));
    }

    for (i = 0; i < top->slots; i++) {
        ngx_mcds_cancel(&state->part[i].op);
        ngx_mcds_value_unref(state->part[i].value);
    }

    ngx_free(state->ended);
    ngx_free(state->shown);
    ngx_free(state->next);

    if (state->adder.posted) {
        ngx_delete_posted_event(&state->adder);
    }

    if (state->reader.timer_set) {
        ngx_del_timer(&state->reader);
    }
}


static void
ngx_mcds_top_reader_handler(ngx_event_t *ev)
{
    ngx_msec_t             wait;
    ngx_mcds_top_t        *top;
    ngx_mcds_top_state_t  *state;

    top = ev->data;
    state = top->state;

    wait = NGX_MCDS_TOP_IDLE;

    if (ngx_current_msec - state->asked < NGX_MCDS_TOP_IDLE) {
        wait = top->flush;
    }

    if (state->unanswered == 0
        && (state->read == 0 || ngx_current_msec - state->read >= wait))
    {
        ngx_mcds_top_begin(top);
    }

    ngx_add_timer(ev, ngx_max(top->flush, NGX_MCDS_TOP_TICK));
}


void
ngx_mcds_top_begin(ngx_mcds_top_t *top)
{
    u_char                 suffix[NGX_MCDS_TOP_SUFFIX];
    uint64_t               slot, present;
    ngx_mcds_request_t     req;
    ngx_mcds_top_part_t   *part;
    ngx_mcds_top_state_t  *state;

    state = top->state;

    /*
     * note when this read of the list of the most frequent keys begins: at the
     * next run of the timer that starts reads, the interval top->flush has
     * passed since this beginning, but not yet since the end of the read
     */

    state->read = ngx_max(ngx_current_msec, 1);
    state->now = ngx_time();
    state->answered = 0;
    state->failed = NGX_MCDS_OK;

    present = ngx_mcds_top_slot(top, state->now);

    for (slot = present + 1 - top->slots; slot <= present; slot++) {
        part = &state->part[slot % top->slots];

        if (part->slot != slot) {
            ngx_mcds_value_unref(part->value);
            part->value = NULL;
            part->slot = slot;
            part->final = 0;
        }

        if (part->final) {

            if (ngx_mcds_top_is_final(top, slot)
                && !ngx_mcds_top_is_late(top, part))
            {
                continue;
            }

            /*
             * this time slot, whose final counts were added up, has begun again
             * as the clock was set back, or late counts may have been added to
             * it: read its counts again, and add up those of all ended slots
             */

            part->final = 0;
            state->ended_slot = 0;
        }

        ngx_mcds_top_request(top, slot, &req, suffix);

        req.verb = NGX_MCDS_GET;
        req.want = NGX_MCDS_VALUE;
        req.limit = NGX_MCDS_TOP_LIMIT;
        req.bulk = 1;

        ngx_mcds_submit(top->pool, &req, &part->op);

        state->unanswered++;
    }
}


/*
 * Returns 1 if the counts of keys in a slot (part of the list's time window) do
 * not change any more, as all workers have sent their counts, unless memcached
 * did not accept them.
 */

static ngx_uint_t
ngx_mcds_top_is_final(ngx_mcds_top_t *top, uint64_t slot)
{
    return top->state->now >= ngx_mcds_top_settled(top, slot);
}


/*
 * Returns 1 if the counts of a slot (part of the list's time window) are to be
 * read again, although the slot is over.  A worker whose counts memcached did
 * not accept tries again until the end of the next slot: until then they are
 * read now and then, and once afterwards.
 */

static ngx_uint_t
ngx_mcds_top_is_late(ngx_mcds_top_t *top, ngx_mcds_top_part_t *part)
{
    int64_t  last;

    last = ngx_mcds_top_settled(top, part->slot + 1);

    if (part->read >= last) {
        return 0;
    }

    return top->state->now >= last
           || top->state->now - part->read >= NGX_MCDS_TOP_LATE;
}


/*
 * returns the time at which the workers have sent their counts of a slot (part
 * of the list's time window) to memcached, in seconds since the epoch
 */

static int64_t
ngx_mcds_top_settled(ngx_mcds_top_t *top, uint64_t slot)
{
    return (slot + 1) * (top->window / top->slots) + NGX_MCDS_TOP_SETTLE
           + (int64_t) (top->flush / 1000);
}


static void
ngx_mcds_top_part_handler(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_top_part_t *part = data;

    ngx_mcds_top_t        *top;
    ngx_mcds_value_t      *value;
    ngx_mcds_top_state_t  *state;

    top = part->top;
    state = top->state;

    value = NULL;

    if (result->rc == NGX_MCDS_OK) {
        value = ngx_mcds_result_value(result, ngx_cycle->log);
    }

    if (value || result->rc == NGX_MCDS_NOT_FOUND) {
        state->answered = 1;

        ngx_mcds_value_unref(part->value);
        part->value = value;

        part->final = ngx_mcds_top_is_final(top, part->slot);
        part->read = state->now;

    } else {
        state->failed = (result->rc == NGX_MCDS_OK) ? NGX_MCDS_BUSY
                                                    : result->rc;
    }

    if (--state->unanswered == 0) {
        ngx_mcds_top_finish(top);
    }
}


static void
ngx_mcds_top_finish(ngx_mcds_top_t *top)
{
    ngx_mcds_top_state_t  *state;

    state = top->state;

    state->rc = state->failed;

    if (state->answered) {
        ngx_mcds_top_add_up(top);
        return;
    }

    ngx_mcds_top_wake(top);
}


/*
 * Starts to add up the counts of keys in all slots (parts of the list's time
 * window), as read from memcached.  Slots may be many and large, so each turn
 * of the event loop adds one.  The sum of the slots whose counts are final is
 * kept for the next time.
 */

static void
ngx_mcds_top_add_up(ngx_mcds_top_t *top)
{
    uint64_t               present;
    ngx_uint_t             i, n;
    ngx_mcds_top_state_t  *state;

    state = top->state;
    present = ngx_mcds_top_slot(top, state->now);

    for (n = 0, i = 0; i < top->slots; i++) {
        n += state->part[i].final;
    }

    state->unanswered = 1;
    state->adding = 0;
    state->ending = (state->ended_slot != present || state->ended_n != n);

    if (state->ending) {
        state->ended_slot = present;
        state->ended_n = n;
        ngx_mcds_topk_reset(state->ended);

    } else {
        ngx_mcds_topk_reset(state->next);
        ngx_mcds_topk_merge(state->next, state->ended);
    }

    ngx_mcds_post_later(&state->adder);
}


static void
ngx_mcds_top_adder_handler(ngx_event_t *ev)
{
    ngx_mcds_top_t        *top;
    ngx_mcds_top_state_t  *state;

    top = ev->data;
    state = top->state;

    if (ngx_mcds_top_add_part(top)) {
        ngx_mcds_post_later(ev);
        return;
    }

    if (state->ending) {
        state->ending = 0;
        state->adding = 0;

        ngx_mcds_topk_reset(state->next);
        ngx_mcds_topk_merge(state->next, state->ended);

        ngx_mcds_post_later(ev);
        return;
    }

    ngx_mcds_top_show(top);

    state->unanswered = 0;

    ngx_mcds_top_wake(top);
}


/*
 * Adds the counts of keys in the next slot (part of the list's time window) to
 * a sum.  While state->ending is 1, this is the sum of the slots whose counts
 * do not change any more, and other slots are skipped.  Later it is the sum of
 * the whole window, to which the other slots are added.  Malformed counts add
 * 0.  Returns 1, or 0 if no slot is left.
 */

static ngx_uint_t
ngx_mcds_top_add_part(ngx_mcds_top_t *top)
{
    ngx_mcds_topk_t       *sum;
    ngx_mcds_top_part_t   *part;
    ngx_mcds_top_state_t  *state;

    state = top->state;
    sum = state->ending ? state->ended : state->next;

    while (state->adding < top->slots) {
        part = &state->part[state->adding++];

        if (part->value && part->final == state->ending) {
            (void) ngx_mcds_topk_decode(sum, part->value->data,
                                        part->value->len, ngx_cycle->log);
            return 1;
        }
    }

    return 0;
}


static void
ngx_mcds_top_show(ngx_mcds_top_t *top)
{
    ngx_mcds_topk_t       *shown;
    ngx_mcds_top_state_t  *state;

    state = top->state;

    shown = state->next;
    state->next = state->shown;
    state->shown = shown;

    state->list.total = shown->total;
    state->list.n = ngx_mcds_topk_sort(shown, state->order, top->size);
    state->list.ranked = state->order;
    state->listed = 1;
}


static void
ngx_mcds_top_wake(ngx_mcds_top_t *top)
{
    ngx_queue_t           *q, waits;
    ngx_mcds_top_wait_t   *wait;
    ngx_mcds_top_state_t  *state;

    state = top->state;

    if (ngx_queue_empty(&state->waits)) {
        return;
    }

    /*
     * a handler that wants the list of the most frequent keys again must wait
     * for the next time that the list is read
     */

    waits = state->waits;
    waits.next->prev = &waits;
    waits.prev->next = &waits;
    ngx_queue_init(&state->waits);

    while (!ngx_queue_empty(&waits)) {
        q = ngx_queue_head(&waits);
        ngx_queue_remove(q);

        wait = ngx_queue_data(q, ngx_mcds_top_wait_t, queue);

        if (wait->handler) {
            wait->handler(wait->data);
        }

        ngx_free(wait);
    }
}

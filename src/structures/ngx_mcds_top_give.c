
/*
 * Copyright (C) mcds authors
 *
 * Merges this worker's counts of keys into memcached, which has an item for
 * each slot (a part of the window, the time in which keys are counted).
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_top_core.h"


/*
 * the maximum number of retries of a worker that adds its counts of keys to an
 * item that other workers change at the same time, and the maximum delay, ms,
 * before the first retry; before retry n the maximum is n times as long
 */
#define NGX_MCDS_TOP_TRIES        7
#define NGX_MCDS_TOP_RETRY        20

/* the size of an item that every memcached server accepts, bytes */
#define NGX_MCDS_TOP_FITS         (16 * 1024)
/*
 * the minimum size to which the item with the counts of keys in one slot (part
 * of the window) is reduced, bytes
 */
#define NGX_MCDS_TOP_FEW          1024


static void ngx_mcds_top_schedule(ngx_mcds_top_t *top, ngx_msec_t wait);
static void ngx_mcds_top_give_handler(ngx_event_t *ev);
static void ngx_mcds_top_give(ngx_mcds_top_t *top);
static ngx_int_t ngx_mcds_top_edit(void *data, ngx_mcds_result_t *now,
    ngx_mcds_request_t *req);
static ngx_mcds_value_t *ngx_mcds_top_merged(ngx_mcds_top_t *top,
    ngx_mcds_result_t *result);
static void ngx_mcds_top_try(ngx_mcds_top_t *top);
static void ngx_mcds_top_tried(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_top_stored(void *data, ngx_mcds_result_t *result);
static ngx_msec_t ngx_mcds_top_again(void *data, ngx_uint_t tries);
static void ngx_mcds_top_bound(ngx_mcds_top_t *top, size_t fits);
static void ngx_mcds_top_take_back(ngx_mcds_top_t *top, char *reason);
static void ngx_mcds_top_lose(ngx_mcds_top_t *top,
    ngx_mcds_topk_t *topk, char *reason);
static void ngx_mcds_top_given(ngx_mcds_top_t *top);


void
ngx_mcds_top_give_create(ngx_mcds_top_t *top, ngx_mcds_top_state_t *state)
{
    state->update.pool = top->pool;
    state->update.edit = ngx_mcds_top_edit;
    state->update.handler = ngx_mcds_top_stored;
    state->update.data = top;
    state->update.max = NGX_MCDS_TOP_TRIES;
    state->update.again = ngx_mcds_top_again;

    state->op.handler = ngx_mcds_top_tried;
    state->op.data = top;

    state->fits = NGX_MCDS_TOP_FITS;
    state->given = ngx_current_msec;

    state->give.handler = ngx_mcds_top_give_handler;
    state->give.data = top;
    state->give.log = ngx_cycle->log;
}


void
ngx_mcds_top_give_free(ngx_mcds_top_t *top)
{
    ngx_mcds_top_state_t  *state;

    state = top->state;

    ngx_mcds_update_cancel(&state->update);
    ngx_mcds_cancel(&state->op);

    ngx_free(state->current);
    ngx_free(state->old);
    ngx_free(state->flying);

    /*
     * remove this timer: its event is a part of the state, which is freed when
     * the worker exits, and other code may still look at all timers later
     */

    if (state->give.timer_set) {
        ngx_del_timer(&state->give);
    }
}


void
ngx_mcds_top_count(ngx_mcds_top_t *top, ngx_str_t *key, uint64_t count)
{
    uint64_t               slot;
    ngx_mcds_top_state_t  *state;

    state = top->state;
    slot = ngx_mcds_top_slot(top, ngx_time());

    if (state->current && state->current_slot != slot) {

        if (state->old) {
            ngx_mcds_top_lose(top, state->old, "there is no room for more");
        }

        state->old = state->current;
        state->old_slot = state->current_slot;
        state->current = NULL;
    }

    if (state->current == NULL) {
        state->current = ngx_mcds_topk_create(top->keys, ngx_cycle->log);
        if (state->current == NULL) {
            return;
        }

        state->current_slot = slot;
    }

    ngx_mcds_topk_add(state->current, key, count);

    if (!state->flying && !state->give.timer_set) {
        ngx_mcds_top_schedule(top, top->flush);
    }
}


static void
ngx_mcds_top_schedule(ngx_mcds_top_t *top, ngx_msec_t wait)
{
    ngx_add_timer(&top->state->give,
                  ngx_max(ngx_min(wait, NGX_MCDS_TOP_TICK), 1));
}


static void
ngx_mcds_top_give_handler(ngx_event_t *ev)
{
    ngx_msec_t             passed;
    ngx_mcds_top_t        *top;
    ngx_mcds_top_state_t  *state;

    top = ev->data;
    state = top->state;

    passed = ngx_current_msec - state->given;

    if (passed < top->flush && !ngx_exiting) {
        ngx_mcds_top_schedule(top, top->flush - passed);
        return;
    }

    if (state->old && !(state->held && state->current)) {
        state->flying = state->old;
        state->flying_slot = state->old_slot;
        state->old = NULL;

    } else if (state->current) {
        state->flying = state->current;
        state->flying_slot = state->current_slot;
        state->current = NULL;

    } else {
        return;
    }

    state->held = 0;

    ngx_mcds_top_give(top);
}


static void
ngx_mcds_top_give(ngx_mcds_top_t *top)
{
    ngx_mcds_request_t    *get;
    ngx_mcds_top_state_t  *state;

    state = top->state;

    if (ngx_mcds_top_ttl(top, state->flying_slot, ngx_time()) == 0) {

        /*
         * the slot (part of the window) in which these keys were counted is no
         * longer shown
         */

        ngx_mcds_top_given(top);
        return;
    }

    get = &state->update.get;

    ngx_mcds_top_request(top, state->flying_slot, get, state->suffix);

    get->verb = NGX_MCDS_GET;
    get->want = NGX_MCDS_VALUE|NGX_MCDS_CAS;
    get->limit = NGX_MCDS_TOP_LIMIT;
    get->bulk = 1;

    ngx_mcds_update(&state->update);
}


static ngx_int_t
ngx_mcds_top_edit(void *data, ngx_mcds_result_t *now, ngx_mcds_request_t *req)
{
    ngx_mcds_top_t *top = data;

    ngx_mcds_value_t      *value;
    ngx_mcds_top_state_t  *state;

    state = top->state;

    if (now->rc != NGX_MCDS_OK && now->rc != NGX_MCDS_NOT_FOUND) {
        ngx_mcds_top_take_back(top, ngx_mcds_strerror(now->rc));
        return NGX_DONE;
    }

    req->ttl = ngx_mcds_top_ttl(top, state->flying_slot, ngx_time());

    if (req->ttl == 0) {

        /*
         * the slot (part of the window) in which these keys were counted is no
         * longer shown
         */

        ngx_mcds_top_given(top);
        return NGX_DONE;
    }

    value = ngx_mcds_top_merged(top, now);
    if (value == NULL) {
        ngx_mcds_top_take_back(top, "out of memory");
        return NGX_DONE;
    }

    if (value->len > state->fits) {
        ngx_mcds_value_unref(value);
        ngx_mcds_top_try(top);
        return NGX_DONE;
    }

    req->value = value;

    return NGX_OK;
}


/*
 * Returns the value to store for a slot, a part of the window of a list of the
 * most frequent keys: the counts of keys in memcached, with those of this
 * worker added.
 */

static ngx_mcds_value_t *
ngx_mcds_top_merged(ngx_mcds_top_t *top, ngx_mcds_result_t *result)
{
    size_t                 size;
    ngx_int_t              rc;
    ngx_mcds_value_t      *value;
    ngx_mcds_topk_t       *merged;
    ngx_mcds_top_state_t  *state;

    state = top->state;

    size = state->bounded ? state->fits : NGX_MCDS_TOP_LIMIT;

    if (result->rc == NGX_MCDS_NOT_FOUND) {
        return ngx_mcds_topk_encode(state->flying, size, ngx_cycle->log);
    }

    merged = ngx_mcds_topk_create(top->keys, ngx_cycle->log);
    if (merged == NULL) {
        return NULL;
    }

    rc = ngx_mcds_topk_decode(merged, result->data, result->len,
                              ngx_cycle->log);

    if (rc == NGX_ERROR) {
        ngx_free(merged);
        return NULL;
    }

    if (rc == NGX_DECLINED && !state->warned) {
        state->warned = 1;
        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "mcds: the item \"%V\" of \"mcds_counter_top\" is "
                      "not a list of keys, it is replaced", &top->key);
    }

    ngx_mcds_topk_merge(merged, state->flying);

    value = ngx_mcds_topk_encode(merged, size, ngx_cycle->log);

    ngx_free(merged);

    return value;
}


/*
 * Stores an item of state->trial zero bytes, at first the maximum size of an
 * item with counts of keys, to find out whether a memcached server accepts this
 * size.  The item has a key of its own: when memcached refuses an item as too
 * large, it deletes the old item that has the same key.  The item goes to the
 * server of the slot whose counts are being added, as the server of the item's
 * own key may be down.
 */

static void
ngx_mcds_top_try(ngx_mcds_top_t *top)
{
    ngx_mcds_value_t      *value;
    ngx_mcds_request_t     req;
    ngx_mcds_top_state_t  *state;

    state = top->state;

    if (state->trial == 0) {
        state->trial = NGX_MCDS_TOPK_HEADER
                       + top->keys * NGX_MCDS_TOPK_RANKED;
    }

    value = ngx_mcds_value_create(state->trial + NGX_MCDS_VALUE_SPARE,
                                  ngx_cycle->log);
    if (value == NULL) {
        ngx_mcds_top_take_back(top, "out of memory");
        return;
    }

    value->len = state->trial;
    ngx_memzero(value->data, value->len);

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.verb = NGX_MCDS_SET;
    req.key = top->key;
    ngx_str_set(&req.suffix, ":top:size");
    req.place = ngx_mcds_first(top->pool, &state->update.get) + 1;
    req.value = value;
    req.ttl = 1;

    ngx_mcds_submit(top->pool, &req, &state->op);

    ngx_mcds_value_unref(value);
}


static void
ngx_mcds_top_tried(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_top_t *top = data;

    ngx_mcds_top_state_t  *state;

    state = top->state;

    if (result->rc == NGX_MCDS_OK) {
        ngx_mcds_top_bound(top, state->trial);

    } else if (result->rc == NGX_MCDS_TOO_LARGE) {
        state->trial /= 2;

        if (state->trial > state->fits) {
            ngx_mcds_top_try(top);
            return;
        }

        ngx_mcds_top_bound(top, state->fits);

    } else {
        ngx_mcds_top_take_back(top, ngx_mcds_strerror(result->rc));
        return;
    }

    ngx_mcds_update_read(&state->update);
}


static void
ngx_mcds_top_bound(ngx_mcds_top_t *top, size_t fits)
{
    top->state->fits = fits;
    top->state->bounded = 1;

    if (fits >= NGX_MCDS_TOPK_HEADER + top->keys * NGX_MCDS_TOPK_RANKED) {
        return;
    }

    ngx_log_error(NGX_LOG_NOTICE, ngx_cycle->log, 0,
                  "mcds: the most viewed \"%V\" are too large for an item, "
                  "%uz bytes of them are stored from now on", &top->key,
                  fits);
}


static void
ngx_mcds_top_stored(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_top_t *top = data;

    ngx_mcds_top_state_t  *state;

    state = top->state;

    switch (result->rc) {

    case NGX_MCDS_OK:
        ngx_mcds_top_given(top);
        return;

    case NGX_MCDS_EXISTS:
    case NGX_MCDS_NOT_STORED:
    case NGX_MCDS_NOT_FOUND:
        ngx_mcds_top_take_back(top, "others are faster");
        return;

    case NGX_MCDS_TOO_LARGE:

        /*
         * the memcached server to which the key of this item belongs accepts
         * only smaller items, even if a larger one was stored on another server
         * as a trial: halve the size
         */

        if (state->fits / 2 >= NGX_MCDS_TOP_FEW) {
            ngx_mcds_top_bound(top, state->fits / 2);

            if (ngx_mcds_update_again(&state->update) != NGX_OK) {
                ngx_mcds_top_take_back(top, ngx_mcds_strerror(result->rc));
            }

            return;
        }

        /* fall through */

    case NGX_MCDS_TIMEOUT:
    case NGX_MCDS_CLOSED:
    case NGX_MCDS_PROTOCOL:

        /*
         * except after TOO_LARGE, memcached may have stored the item with this
         * worker's counts of keys added: drop these counts, as to lose counts
         * is better than to count keys twice
         */

        ngx_mcds_top_lose(top, state->flying, ngx_mcds_strerror(result->rc));
        state->flying = NULL;
        ngx_mcds_top_given(top);
        return;

    default:
        ngx_mcds_top_take_back(top, ngx_mcds_strerror(result->rc));
        return;
    }
}


/* a random delay separates workers that add counts of keys to the same item */

static ngx_msec_t
ngx_mcds_top_again(void *data, ngx_uint_t tries)
{
    return 1 + ngx_random() % (NGX_MCDS_TOP_RETRY * tries);
}


/*
 * Keeps the counts of keys that could not be added to those in memcached, for
 * the next attempt; they are lost if the worker exits or has no room for them.
 */

static void
ngx_mcds_top_take_back(ngx_mcds_top_t *top, char *reason)
{
    ngx_mcds_topk_t       *flying;
    ngx_mcds_top_state_t  *state;

    state = top->state;

    flying = state->flying;
    state->flying = NULL;

    if (ngx_exiting) {
        ngx_mcds_top_lose(top, flying, reason);

    } else if (state->current && state->current_slot == state->flying_slot) {
        ngx_mcds_topk_merge(state->current, flying);
        ngx_free(flying);

    } else if (state->current == NULL
               && state->flying_slot == ngx_mcds_top_slot(top, ngx_time()))
    {
        state->current = flying;
        state->current_slot = state->flying_slot;

    } else if (state->old && state->old_slot >= state->flying_slot) {
        ngx_mcds_top_lose(top, flying, reason);

    } else {

        if (state->old) {
            ngx_mcds_top_lose(top, state->old, "there is no room for more");
        }

        state->old = flying;
        state->old_slot = state->flying_slot;
        state->held = 1;
    }

    ngx_mcds_top_given(top);
}


static void
ngx_mcds_top_lose(ngx_mcds_top_t *top, ngx_mcds_topk_t *topk,
    char *reason)
{
    ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                  "mcds: %uL counts for the most viewed \"%V\" are lost: %s",
                  topk->total, &top->key, reason);

    ngx_free(topk);
}


static void
ngx_mcds_top_given(ngx_mcds_top_t *top)
{
    ngx_mcds_top_state_t  *state;

    state = top->state;

    ngx_free(state->flying);

    state->flying = NULL;
    state->given = ngx_current_msec;

    if (state->old || state->current) {
        ngx_mcds_top_schedule(top, ngx_exiting ? 1 : top->flush);
    }
}

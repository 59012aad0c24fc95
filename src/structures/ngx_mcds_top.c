
/*
 * Copyright (C) mcds authors
 *
 * Two independent halves: the counts of this worker, which are merged into
 * memcached, and the list of all workers, which is read.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_top.h"
#include "ngx_mcds_stat_sums.h"
#include "ngx_mcds_next.h"
#include "ngx_mcds_update.h"


/* an item outlives its use by this time, as the clocks differ; seconds */
#define NGX_MCDS_TOP_SPARE        60
/* a slot is read for the last time this long after its end; seconds */
#define NGX_MCDS_TOP_SETTLE       10

/* attempts if other workers merge at the same time, and their delay, ms */
#define NGX_MCDS_TOP_TRIES        7
#define NGX_MCDS_TOP_RETRY        20

/* the maximum size of an item, bytes */
#define NGX_MCDS_TOP_LIMIT        (1024 * 1024)
/* the size of an item that every server takes, bytes */
#define NGX_MCDS_TOP_FITS         (16 * 1024)
/* the minimum size to which an item is reduced, bytes */
#define NGX_MCDS_TOP_FEW          1024

/* how often a worker that has counts looks whether it is to exit, ms */
#define NGX_MCDS_TOP_TICK         1000
/* after this time without a request a list is read at this interval, ms */
#define NGX_MCDS_TOP_IDLE         60000

/* ":top:" and a number */
#define NGX_MCDS_TOP_SUFFIX       (sizeof(":top:") - 1 + NGX_INT64_LEN)


struct ngx_mcds_top_wait_s {
    ngx_queue_t              queue;
    ngx_mcds_top_pt          handler;      /* NULL: canceled */
    void                    *data;
};


/* one slot, as it was read */

typedef struct {
    ngx_mcds_op_t            op;
    ngx_mcds_top_t          *top;
    uint64_t                 slot;
    ngx_mcds_value_t        *value;
    ngx_uint_t               final;        /* the slot has ended */
} ngx_mcds_top_part_t;


struct ngx_mcds_top_state_s {

    /* own counts: of the present slot, of the one before, being merged */

    ngx_mcds_summary_t      *current;
    ngx_mcds_summary_t      *old;
    ngx_mcds_summary_t      *flying;
    uint64_t                 current_slot;
    uint64_t                 old_slot;
    uint64_t                 flying_slot;
    ngx_mcds_update_t        update;       /* of flying_slot */
    u_char                   suffix[NGX_MCDS_TOP_SUFFIX];
    size_t                   fits;         /* size known to fit an item */
    size_t                   trial;        /* size being tried */
    ngx_mcds_op_t            op;           /* ... by this command */
    ngx_event_t              give;
    ngx_msec_t               given;        /* time of the last merge */

    /* the reading */

    ngx_event_t              reader;
    ngx_queue_t              waits;
    ngx_uint_t               missing;      /* answers missing, and adding */
    ngx_msec_t               asked;        /* last use by a request */
    ngx_msec_t               read;         /* time of the last reading */
    ngx_uint_t               rc;           /* its failure */
    ngx_uint_t               failed;       /* failure of this reading */
    time_t                   now;          /* time of this reading */
    ngx_mcds_summary_t      *ended;        /* sum of the final slots */
    uint64_t                 ended_slot;   /* the present slot then */
    ngx_uint_t               ended_n;
    ngx_mcds_summary_t      *shown;
    ngx_mcds_summary_t      *next;         /* is shown next */
    ngx_event_t              adder;
    ngx_uint_t               adding;       /* parts added */
    ngx_mcds_ranked_t      **order;
    ngx_mcds_top_list_t      list;

    unsigned                 listed:1;
    unsigned                 answered:1;   /* a server has replied */
    unsigned                 ending:1;     /* final slots are being added */
    unsigned                 warned:1;
    unsigned                 bounded:1;    /* larger items do not fit */

    ngx_mcds_top_part_t      part[1];      /* the slots, a ring */
};


static ngx_mcds_top_state_t *ngx_mcds_top_state(ngx_mcds_top_t *top);
static void ngx_mcds_top_free(ngx_mcds_summary_t *summary);
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
    ngx_mcds_summary_t *summary, char *reason);
static void ngx_mcds_top_given(ngx_mcds_top_t *top);
static void ngx_mcds_top_reader_handler(ngx_event_t *ev);
static void ngx_mcds_top_begin(ngx_mcds_top_t *top);
static void ngx_mcds_top_part_handler(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_top_finish(ngx_mcds_top_t *top);
static void ngx_mcds_top_add_up(ngx_mcds_top_t *top);
static void ngx_mcds_top_adder_handler(ngx_event_t *ev);
static ngx_uint_t ngx_mcds_top_add_part(ngx_mcds_top_t *top);
static void ngx_mcds_top_show(ngx_mcds_top_t *top);
static void ngx_mcds_top_wake(ngx_mcds_top_t *top);
static void ngx_mcds_top_request(ngx_mcds_top_t *top, uint64_t slot,
    ngx_mcds_request_t *req, u_char *suffix);


uint64_t
ngx_mcds_top_slot(ngx_mcds_top_t *top, time_t now)
{
    return now / (top->window / top->slots);
}


uint32_t
ngx_mcds_top_ttl(ngx_mcds_top_t *top, uint64_t slot, time_t now)
{
    int64_t  ttl;

    ttl = (int64_t) (slot + top->slots) * (top->window / top->slots) - now;

    if (ttl <= 0) {
        return 0;
    }

    return ngx_min(ttl + NGX_MCDS_TOP_SPARE, NGX_MCDS_MAX_TTL);
}


static ngx_mcds_top_state_t *
ngx_mcds_top_state(ngx_mcds_top_t *top)
{
    size_t                 size;
    ngx_uint_t             i;
    ngx_mcds_top_state_t  *state;

    if (top->state) {
        return top->state;
    }

    size = offsetof(ngx_mcds_top_state_t, part)
           + top->slots * sizeof(ngx_mcds_top_part_t)
           + top->keys * sizeof(ngx_mcds_ranked_t *);

    state = ngx_calloc(size, ngx_cycle->log);
    if (state == NULL) {
        return NULL;
    }

    state->ended = ngx_mcds_summary_create(top->keys, ngx_cycle->log);
    state->shown = ngx_mcds_summary_create(top->keys, ngx_cycle->log);
    state->next = ngx_mcds_summary_create(top->keys, ngx_cycle->log);

    if (state->ended == NULL || state->shown == NULL || state->next == NULL) {
        ngx_mcds_top_free(state->ended);
        ngx_mcds_top_free(state->shown);
        ngx_mcds_top_free(state->next);
        ngx_free(state);
        return NULL;
    }

    for (i = 0; i < top->slots; i++) {
        state->part[i].op.handler = ngx_mcds_top_part_handler;
        state->part[i].op.data = &state->part[i];
        state->part[i].top = top;
    }

    state->update.pool = top->pool;
    state->update.edit = ngx_mcds_top_edit;
    state->update.handler = ngx_mcds_top_stored;
    state->update.data = top;
    state->update.max = NGX_MCDS_TOP_TRIES;
    state->update.again = ngx_mcds_top_again;

    state->op.handler = ngx_mcds_top_tried;
    state->op.data = top;

    state->order = (ngx_mcds_ranked_t **) &state->part[top->slots];
    state->fits = NGX_MCDS_TOP_FITS;
    state->given = ngx_current_msec;
    state->asked = ngx_current_msec;

    state->give.handler = ngx_mcds_top_give_handler;
    state->give.data = top;
    state->give.log = ngx_cycle->log;

    state->reader.handler = ngx_mcds_top_reader_handler;
    state->reader.data = top;
    state->reader.log = ngx_cycle->log;
    state->reader.cancelable = 1;

    state->adder.handler = ngx_mcds_top_adder_handler;
    state->adder.data = top;
    state->adder.log = ngx_cycle->log;

    ngx_queue_init(&state->waits);

    top->state = state;

    return state;
}


void
ngx_mcds_top_start(ngx_mcds_top_t *top)
{
    ngx_mcds_top_state_t  *state;

    state = ngx_mcds_top_state(top);

    if (state) {
        ngx_add_timer(&state->reader, 1);
    }
}


void
ngx_mcds_top_exit(ngx_mcds_top_t *top)
{
    ngx_uint_t             i;
    ngx_queue_t           *q;
    ngx_mcds_top_state_t  *state;

    state = top->state;

    if (state == NULL) {
        return;
    }

    while (!ngx_queue_empty(&state->waits)) {
        q = ngx_queue_head(&state->waits);
        ngx_queue_remove(q);
        ngx_free(ngx_queue_data(q, ngx_mcds_top_wait_t, queue));
    }

    ngx_mcds_update_cancel(&state->update);
    ngx_mcds_cancel(&state->op);

    for (i = 0; i < top->slots; i++) {
        ngx_mcds_cancel(&state->part[i].op);
        ngx_mcds_value_unref(state->part[i].value);
    }

    ngx_mcds_top_free(state->current);
    ngx_mcds_top_free(state->old);
    ngx_mcds_top_free(state->flying);
    ngx_mcds_top_free(state->ended);
    ngx_mcds_top_free(state->shown);
    ngx_mcds_top_free(state->next);

    if (state->adder.posted) {
        ngx_delete_posted_event(&state->adder);
    }

    /* other code of the exit may still look at the timers */

    if (state->give.timer_set) {
        ngx_del_timer(&state->give);
    }

    if (state->reader.timer_set) {
        ngx_del_timer(&state->reader);
    }

    ngx_free(state);

    top->state = NULL;
}


static void
ngx_mcds_top_free(ngx_mcds_summary_t *summary)
{
    if (summary) {
        ngx_free(summary);
    }
}


void
ngx_mcds_top_add(ngx_mcds_top_t *top, ngx_str_t *key, uint64_t count)
{
    uint64_t               slot;
    ngx_mcds_top_state_t  *state;

    if (key->len == 0 || key->len > NGX_MCDS_SUMMARY_KEY) {
        return;
    }

    state = ngx_mcds_top_state(top);
    if (state == NULL) {
        return;
    }

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
        state->current = ngx_mcds_summary_create(top->keys, ngx_cycle->log);
        if (state->current == NULL) {
            return;
        }

        state->current_slot = slot;
    }

    ngx_mcds_summary_add(state->current, key, count);

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

    if (state->old) {
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

    ngx_mcds_top_give(top);
}


static void
ngx_mcds_top_give(ngx_mcds_top_t *top)
{
    ngx_mcds_request_t    *get;
    ngx_mcds_top_state_t  *state;

    state = top->state;

    if (ngx_mcds_top_ttl(top, state->flying_slot, ngx_time()) == 0) {

        /* the slot is no longer shown */

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

        /* the slot is no longer shown */

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


/* Returns the value to store: the stored counts merged with the own ones. */

static ngx_mcds_value_t *
ngx_mcds_top_merged(ngx_mcds_top_t *top, ngx_mcds_result_t *result)
{
    size_t                 size;
    ngx_int_t              rc;
    ngx_mcds_value_t      *value;
    ngx_mcds_summary_t    *merged;
    ngx_mcds_top_state_t  *state;

    state = top->state;

    size = state->bounded ? state->fits : NGX_MCDS_TOP_LIMIT;

    if (result->rc == NGX_MCDS_NOT_FOUND) {
        return ngx_mcds_summary_encode(state->flying, size, ngx_cycle->log);
    }

    merged = ngx_mcds_summary_create(top->keys, ngx_cycle->log);
    if (merged == NULL) {
        return NULL;
    }

    rc = ngx_mcds_summary_decode(merged, result->data, result->len,
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

    ngx_mcds_summary_merge(merged, state->flying);

    value = ngx_mcds_summary_encode(merged, size, ngx_cycle->log);

    ngx_free(merged);

    return value;
}


/*
 * A memcached that refuses a larger item deletes the old one.  So another key
 * is used, once, to find out whether the largest item would fit.
 */

static void
ngx_mcds_top_try(ngx_mcds_top_t *top)
{
    ngx_mcds_value_t      *value;
    ngx_mcds_request_t     req;
    ngx_mcds_top_state_t  *state;

    state = top->state;

    if (state->trial == 0) {
        state->trial = NGX_MCDS_SUMMARY_HEADER
                       + top->keys * NGX_MCDS_SUMMARY_RANKED;
    }

    value = ngx_mcds_value_create(state->trial + 2, ngx_cycle->log);
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

    if (fits >= NGX_MCDS_SUMMARY_HEADER + top->keys * NGX_MCDS_SUMMARY_RANKED) {
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

        /* a server with another limit */

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

        /* the item may be stored: a loss is better than counting twice */

        ngx_mcds_top_lose(top, state->flying, ngx_mcds_strerror(result->rc));
        state->flying = NULL;
        ngx_mcds_top_given(top);
        return;

    default:
        ngx_mcds_top_take_back(top, ngx_mcds_strerror(result->rc));
        return;
    }
}


/* a random delay separates the workers */

static ngx_msec_t
ngx_mcds_top_again(void *data, ngx_uint_t tries)
{
    return 1 + ngx_random() % (NGX_MCDS_TOP_RETRY * tries);
}


/* Keeps the counts that could not be merged for the next attempt. */

static void
ngx_mcds_top_take_back(ngx_mcds_top_t *top, char *reason)
{
    ngx_mcds_summary_t    *flying;
    ngx_mcds_top_state_t  *state;

    state = top->state;

    flying = state->flying;
    state->flying = NULL;

    if (ngx_exiting) {
        ngx_mcds_top_lose(top, flying, reason);

    } else if (state->current && state->current_slot == state->flying_slot) {
        ngx_mcds_summary_merge(state->current, flying);
        ngx_free(flying);

    } else if (state->current == NULL
               && state->flying_slot == ngx_mcds_top_slot(top, ngx_time()))
    {
        state->current = flying;
        state->current_slot = state->flying_slot;

    } else if (state->old == NULL) {
        state->old = flying;
        state->old_slot = state->flying_slot;

    } else {
        ngx_mcds_top_lose(top, flying, reason);
    }

    ngx_mcds_top_given(top);
}


static void
ngx_mcds_top_lose(ngx_mcds_top_t *top, ngx_mcds_summary_t *summary,
    char *reason)
{
    ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                  "mcds: %uL counts for the most viewed \"%V\" are lost: %s",
                  summary->total, &top->key, reason);

    ngx_free(summary);
}


static void
ngx_mcds_top_given(ngx_mcds_top_t *top)
{
    ngx_mcds_top_state_t  *state;

    state = top->state;

    ngx_mcds_top_free(state->flying);

    state->flying = NULL;
    state->given = ngx_current_msec;

    if (state->old || state->current) {
        ngx_mcds_top_schedule(top, ngx_exiting ? 1 : top->flush);
    }
}


ngx_mcds_top_list_t *
ngx_mcds_top_list(ngx_mcds_top_t *top)
{
    ngx_mcds_top_state_t  *state;

    state = top->state;

    if (state == NULL) {
        return NULL;
    }

    state->asked = ngx_current_msec;

    ngx_mcds_stat_add(top->stat, NGX_MCDS_DATA_READ, 1);

    if (state->rc != NGX_MCDS_OK) {
        ngx_mcds_stat_add(top->stat, NGX_MCDS_DATA_FAILED + state->rc, 1);
    }

    return state->listed ? &state->list : NULL;
}


ngx_int_t
ngx_mcds_top_read(ngx_mcds_top_t *top, ngx_mcds_top_pt handler, void *data,
    ngx_mcds_top_wait_t **wait)
{
    ngx_mcds_top_wait_t   *w;
    ngx_mcds_top_state_t  *state;

    state = ngx_mcds_top_state(top);
    if (state == NULL) {
        return NGX_ERROR;
    }

    state->asked = ngx_current_msec;

    if (state->missing == 0
        && state->read
        && ngx_current_msec - state->read < top->flush)
    {
        return NGX_OK;
    }

    w = ngx_alloc(sizeof(ngx_mcds_top_wait_t), ngx_cycle->log);
    if (w == NULL) {
        return NGX_ERROR;
    }

    if (state->missing == 0) {
        ngx_mcds_top_begin(top);
    }

    if (state->missing == 0) {
        ngx_free(w);
        return NGX_OK;
    }

    w->handler = handler;
    w->data = data;
    ngx_queue_insert_tail(&state->waits, &w->queue);

    *wait = w;

    return NGX_AGAIN;
}


void
ngx_mcds_top_cancel(ngx_mcds_top_wait_t *wait)
{
    wait->handler = NULL;
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

    if (state->missing == 0
        && (state->read == 0 || ngx_current_msec - state->read >= wait))
    {
        ngx_mcds_top_begin(top);
    }

    ngx_add_timer(ev, ngx_max(top->flush, NGX_MCDS_TOP_TICK));
}


static void
ngx_mcds_top_begin(ngx_mcds_top_t *top)
{
    u_char                 suffix[NGX_MCDS_TOP_SUFFIX];
    uint64_t               slot, present;
    ngx_mcds_request_t     req;
    ngx_mcds_top_part_t   *part;
    ngx_mcds_top_state_t  *state;

    state = top->state;

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
            continue;
        }

        ngx_mcds_top_request(top, slot, &req, suffix);

        req.verb = NGX_MCDS_GET;
        req.want = NGX_MCDS_VALUE;
        req.limit = NGX_MCDS_TOP_LIMIT;
        req.bulk = 1;

        ngx_mcds_submit(top->pool, &req, &part->op);

        state->missing++;
    }
}


static void
ngx_mcds_top_part_handler(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_top_part_t *part = data;

    int64_t                end;
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

        end = (part->slot + 1) * (top->window / top->slots);

        part->final = (state->now >= end + NGX_MCDS_TOP_SETTLE
                                     + (int64_t) (top->flush / 1000));

    } else {
        state->failed = (result->rc == NGX_MCDS_OK) ? NGX_MCDS_BUSY
                                                    : result->rc;
    }

    if (--state->missing == 0) {
        ngx_mcds_top_finish(top);
    }
}


static void
ngx_mcds_top_finish(ngx_mcds_top_t *top)
{
    ngx_mcds_top_state_t  *state;

    state = top->state;

    state->read = ngx_max(ngx_current_msec, 1);
    state->rc = state->failed;

    if (state->answered) {
        ngx_mcds_top_add_up(top);
        return;
    }

    ngx_mcds_top_wake(top);
}


/*
 * Slots may be many and large, so each turn of the event loop adds one.  The
 * sum of the slots that have ended is kept.
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

    state->missing = 1;
    state->adding = 0;
    state->ending = (state->ended_slot != present || state->ended_n != n);

    if (state->ending) {
        state->ended_slot = present;
        state->ended_n = n;
        ngx_mcds_summary_reset(state->ended);

    } else {
        ngx_mcds_summary_reset(state->next);
        ngx_mcds_summary_merge(state->next, state->ended);
    }

    ngx_mcds_post_next(&state->adder);
}


static void
ngx_mcds_top_adder_handler(ngx_event_t *ev)
{
    ngx_mcds_top_t        *top;
    ngx_mcds_top_state_t  *state;

    top = ev->data;
    state = top->state;

    if (ngx_mcds_top_add_part(top)) {
        ngx_mcds_post_next(ev);
        return;
    }

    if (state->ending) {
        state->ending = 0;
        state->adding = 0;

        ngx_mcds_summary_reset(state->next);
        ngx_mcds_summary_merge(state->next, state->ended);

        ngx_mcds_post_next(ev);
        return;
    }

    ngx_mcds_top_show(top);

    state->missing = 0;

    ngx_mcds_top_wake(top);
}


/* Adds the next part, unless it is invalid.  Returns 0 after the last part. */

static ngx_uint_t
ngx_mcds_top_add_part(ngx_mcds_top_t *top)
{
    ngx_mcds_summary_t    *sum;
    ngx_mcds_top_part_t   *part;
    ngx_mcds_top_state_t  *state;

    state = top->state;
    sum = state->ending ? state->ended : state->next;

    while (state->adding < top->slots) {
        part = &state->part[state->adding++];

        if (part->value && part->final == state->ending) {
            (void) ngx_mcds_summary_decode(sum, part->value->data,
                                           part->value->len, ngx_cycle->log);
            return 1;
        }
    }

    return 0;
}


static void
ngx_mcds_top_show(ngx_mcds_top_t *top)
{
    ngx_mcds_summary_t    *shown;
    ngx_mcds_top_state_t  *state;

    state = top->state;

    shown = state->next;
    state->next = state->shown;
    state->shown = shown;

    state->list.total = shown->total;
    state->list.n = ngx_mcds_summary_sort(shown, state->order, top->size);
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

    /* a handler that asks again waits for the next reading */

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


static void
ngx_mcds_top_request(ngx_mcds_top_t *top, uint64_t slot,
    ngx_mcds_request_t *req, u_char *suffix)
{
    ngx_memzero(req, sizeof(ngx_mcds_request_t));

    req->key = top->key;
    req->suffix.data = suffix;
    req->suffix.len = ngx_sprintf(suffix, ":top:%uL", slot) - suffix;
}

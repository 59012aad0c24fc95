
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_top_core.h"
#include "ngx_mcds_stat_sums.h"


static ngx_mcds_top_state_t *ngx_mcds_top_state(ngx_mcds_top_t *top);


static ngx_mcds_top_state_t *
ngx_mcds_top_state(ngx_mcds_top_t *top)
{
    size_t                 size;
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

    if (ngx_mcds_top_read_create(top, state) != NGX_OK) {
        ngx_free(state);
        return NULL;
    }

    ngx_mcds_top_give_create(top, state);

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
    if (top->state == NULL) {
        return;
    }

    ngx_mcds_top_give_free(top);
    ngx_mcds_top_read_free(top);

    ngx_free(top->state);

    top->state = NULL;
}


void
ngx_mcds_top_add(ngx_mcds_top_t *top, ngx_str_t *key, uint64_t count)
{
    if (key->len == 0 || key->len > NGX_MCDS_TOPK_KEY) {
        return;
    }

    if (ngx_mcds_top_state(top)) {
        ngx_mcds_top_count(top, key, count);
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

    if (state->unanswered == 0
        && state->read
        && ngx_current_msec - state->read < top->flush)
    {
        return NGX_OK;
    }

    w = ngx_alloc(sizeof(ngx_mcds_top_wait_t), ngx_cycle->log);
    if (w == NULL) {
        return NGX_ERROR;
    }

    if (state->unanswered == 0) {
        ngx_mcds_top_begin(top);
    }

    if (state->unanswered == 0) {
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


/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_log.h"
#include "ngx_mcds_log_batch.h"


ngx_mcds_log_batch_t *
ngx_mcds_log_batch_create(void)
{
    ngx_pool_t            *pool;
    ngx_mcds_log_batch_t  *batch;

    pool = ngx_create_pool(1024, ngx_cycle->log);
    if (pool == NULL) {
        return NULL;
    }

    batch = ngx_pcalloc(pool, sizeof(ngx_mcds_log_batch_t));

    if (batch == NULL
        || ngx_array_init(&batch->values, pool, 8, sizeof(ngx_mcds_value_t *))
           != NGX_OK)
    {
        ngx_destroy_pool(pool);
        return NULL;
    }

    batch->refs = 1;
    batch->pool = pool;

    return batch;
}


ngx_mcds_log_batch_t *
ngx_mcds_log_batch_ref(ngx_mcds_log_batch_t *batch)
{
    batch->refs++;

    return batch;
}


void
ngx_mcds_log_batch_unref(ngx_mcds_log_batch_t *batch)
{
    ngx_uint_t          i;
    ngx_mcds_value_t  **value;

    if (--batch->refs) {
        return;
    }

    value = batch->values.elts;

    for (i = 0; i < batch->values.nelts; i++) {
        ngx_mcds_value_unref(value[i]);
    }

    if (batch->events.elts) {
        ngx_free(batch->events.elts);
    }

    ngx_mcds_value_unref(batch->text);

    ngx_destroy_pool(batch->pool);
}


ngx_int_t
ngx_mcds_log_batch_hold(ngx_mcds_log_batch_t *batch, ngx_mcds_value_t *value)
{
    ngx_mcds_value_t  **held;

    held = ngx_array_push(&batch->values);
    if (held == NULL) {
        return NGX_ERROR;
    }

    *held = ngx_mcds_value_ref(value);

    return NGX_OK;
}


void
ngx_mcds_log_batch_drop(ngx_mcds_log_batch_t *batch)
{
    ngx_mcds_value_t  **value;

    value = batch->values.elts;

    ngx_mcds_value_unref(value[--batch->values.nelts]);
}


ngx_mcds_log_batch_t *
ngx_mcds_log_batch_split(ngx_mcds_log_batch_t *batch, ngx_uint_t n)
{
    u_char                 *p;
    ngx_uint_t              i, k;
    ngx_mcds_value_t      **value;
    ngx_mcds_log_batch_t   *rest;
    ngx_mcds_log_events_t  *events;

    rest = ngx_mcds_log_batch_create();
    if (rest == NULL) {
        return NULL;
    }

    events = &batch->events;

    for (i = n; i < events->n; i++) {
        if (ngx_mcds_log_push(&rest->events, &events->elts[i]) != NGX_OK) {
            ngx_mcds_log_batch_unref(rest);
            return NULL;
        }
    }

    value = batch->values.elts;

    for (k = 0; k < batch->values.nelts; k++) {

        for (i = n; i < events->n; i++) {
            p = events->elts[i].host.data;

            if (p >= value[k]->data && p < value[k]->data + value[k]->len) {
                break;
            }
        }

        if (i == events->n) {
            continue;
        }

        if (ngx_mcds_log_batch_hold(rest, value[k]) != NGX_OK) {
            ngx_mcds_log_batch_unref(rest);
            return NULL;
        }
    }

    events->n = n;

    return rest;
}

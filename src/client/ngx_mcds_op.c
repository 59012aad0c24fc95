
/*
 * Copyright (C) mcds authors
 *
 * Operations, their keys and their results.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_conn.h"
#include "ngx_mcds_op.h"


/* of this worker */

static ngx_queue_t  ngx_mcds_free_ops;


ngx_mcds_op_t *
ngx_mcds_op_alloc(void)
{
    ngx_queue_t    *q;
    ngx_mcds_op_t  *op;

    if (ngx_mcds_free_ops.next == NULL) {
        ngx_queue_init(&ngx_mcds_free_ops);
    }

    if (!ngx_queue_empty(&ngx_mcds_free_ops)) {
        q = ngx_queue_head(&ngx_mcds_free_ops);
        ngx_queue_remove(q);
        op = ngx_queue_data(q, ngx_mcds_op_t, queue);

    } else {
        op = ngx_alloc(sizeof(ngx_mcds_op_t), ngx_cycle->log);
        if (op == NULL) {
            return NULL;
        }
    }

    op->value = NULL;

    return op;
}


void
ngx_mcds_op_done(ngx_mcds_op_t *op, ngx_mcds_result_t *result)
{
    if (op->handler) {
        op->handler(op->data, result);
    }

    ngx_mcds_value_unref(op->value);
    ngx_queue_insert_head(&ngx_mcds_free_ops, &op->queue);
}


void
ngx_mcds_op_key(ngx_mcds_key_t *key, ngx_mcds_pool_t *pool,
    ngx_mcds_request_t *req, ngx_str_t *suffix)
{
    if (req->page) {
        ngx_mcds_key_build_page(key, &pool->prefix, &req->key, suffix);

    } else {
        ngx_mcds_key_build(key, &pool->prefix, &req->key, suffix);
    }
}


ngx_mcds_value_t *
ngx_mcds_result_value(ngx_mcds_result_t *result, ngx_log_t *log)
{
    ngx_mcds_value_t  *value;

    if (result->value) {
        return ngx_mcds_value_ref(result->value);
    }

    /* as a value that is received in its place: it may be stored again */

    value = ngx_mcds_value_create(result->len + 2, log);
    if (value == NULL) {
        return NULL;
    }

    if (result->len) {
        ngx_memcpy(value->data, result->data, result->len);
    }

    value->len = result->len;

    return value;
}


/*
 * Copyright (C) mcds authors
 *
 * Links an operation with the object that executes it, such as an exchange with
 * a server; ends or cancels the operation, and passes the result to the
 * operation's handler.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_op_link.h"


static void ngx_mcds_op_fail_handler(ngx_event_t *ev);


/*
 * the operations of this worker that have failed before a command was sent; and
 * the abandoned ones, which get no result as the worker exits
 */

static ngx_queue_t  ngx_mcds_failed_ops;
static ngx_event_t  ngx_mcds_fail_event;
static ngx_queue_t  ngx_mcds_abandoned_ops;


void
ngx_mcds_op_link(ngx_mcds_op_t **link, ngx_mcds_op_t *op)
{
    *link = op;

    if (op) {
        op->link = link;
    }
}


void
ngx_mcds_op_unlink(ngx_mcds_op_t **link)
{
    if (*link) {
        (*link)->link = NULL;
        *link = NULL;
    }
}


void
ngx_mcds_op_done(ngx_mcds_op_t **link, ngx_mcds_result_t *result)
{
    ngx_mcds_op_t  *op;

    op = *link;

    if (op) {
        ngx_mcds_op_unlink(link);
        op->handler(op->data, result);
    }
}


void
ngx_mcds_cancel(ngx_mcds_op_t *op)
{
    if (op->link) {
        ngx_mcds_op_unlink(op->link);

    } else if (op->queue.next) {
        ngx_queue_remove(&op->queue);
        op->queue.next = NULL;
    }
}


void
ngx_mcds_op_abandon(ngx_mcds_op_t **link)
{
    ngx_mcds_op_t  *op;

    op = *link;

    if (op == NULL) {
        return;
    }

    ngx_mcds_op_unlink(link);

    if (ngx_mcds_abandoned_ops.next == NULL) {
        ngx_queue_init(&ngx_mcds_abandoned_ops);
    }

    ngx_queue_insert_tail(&ngx_mcds_abandoned_ops, &op->queue);
}


void
ngx_mcds_op_fail(ngx_mcds_op_t *op, ngx_uint_t rc)
{
    if (op == NULL) {
        return;
    }

    op->rc = rc;

    if (ngx_mcds_failed_ops.next == NULL) {
        ngx_queue_init(&ngx_mcds_failed_ops);
    }

    ngx_queue_insert_tail(&ngx_mcds_failed_ops, &op->queue);

    if (!ngx_mcds_fail_event.posted) {
        ngx_mcds_fail_event.handler = ngx_mcds_op_fail_handler;
        ngx_mcds_fail_event.log = ngx_cycle->log;

        ngx_post_event(&ngx_mcds_fail_event, &ngx_posted_events);
    }
}


static void
ngx_mcds_op_fail_handler(ngx_event_t *ev)
{
    ngx_queue_t        *q;
    ngx_mcds_op_t      *op;
    ngx_mcds_result_t   result;

    while (!ngx_queue_empty(&ngx_mcds_failed_ops)) {
        q = ngx_queue_head(&ngx_mcds_failed_ops);
        op = ngx_queue_data(q, ngx_mcds_op_t, queue);

        ngx_queue_remove(q);
        q->next = NULL;

        ngx_memzero(&result, sizeof(ngx_mcds_result_t));
        result.rc = op->rc;

        op->handler(op->data, &result);
    }
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

    /*
     * the copy of a value has room for a CRLF, so that it may be stored again
     */

    value = ngx_mcds_value_create(result->len + NGX_MCDS_VALUE_SPARE, log);
    if (value == NULL) {
        return NULL;
    }

    if (result->len) {
        ngx_memcpy(value->data, result->data, result->len);
    }

    value->len = result->len;

    return value;
}

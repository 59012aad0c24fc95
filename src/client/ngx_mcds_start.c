
/*
 * Copyright (C) mcds authors
 *
 * An operation on the connection of its server.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_classic.h"
#include "ngx_mcds_conn.h"
#include "ngx_mcds_measure.h"
#include "ngx_mcds_op.h"


static void ngx_mcds_op_fail_later(ngx_mcds_op_t *op, ngx_uint_t rc);
static void ngx_mcds_op_fail_handler(ngx_event_t *ev);


/* of this worker */

static ngx_queue_t   ngx_mcds_failed_ops;
static ngx_event_t   ngx_mcds_fail_event;
static uint32_t      ngx_mcds_opaque;


ngx_mcds_op_t *
ngx_mcds_op_submit(ngx_mcds_server_t *server, ngx_mcds_request_t *req,
    ngx_mcds_handler_pt handler, void *data)
{
    ngx_mcds_op_t  *op;

    op = ngx_mcds_op_create(server->pool, req, handler, data);

    return op ? ngx_mcds_op_begin(server, op, req) : NULL;
}


ngx_mcds_op_t *
ngx_mcds_op_create(ngx_mcds_pool_t *pool, ngx_mcds_request_t *req,
    ngx_mcds_handler_pt handler, void *data)
{
    ngx_mcds_op_t  *op;

    op = ngx_mcds_op_alloc();
    if (op == NULL) {
        return NULL;
    }

    op->handler = handler;
    op->data = data;

    ngx_mcds_op_key(&op->key, pool, req, &req->suffix);

    return op;
}


ngx_mcds_op_t *
ngx_mcds_op_begin(ngx_mcds_server_t *server, ngx_mcds_op_t *op,
    ngx_mcds_request_t *req)
{
    if (ngx_mcds_op_start(server, op, req, 0) == NGX_ERROR) {
        op->handler = NULL;
        ngx_mcds_op_done(op, NULL);
        return NULL;
    }

    return op;
}


ngx_int_t
ngx_mcds_op_start(ngx_mcds_server_t *server, ngx_mcds_op_t *op,
    ngx_mcds_request_t *req, ngx_uint_t probe)
{
    ngx_int_t         rc;
    ngx_uint_t        bulk;
    ngx_mcds_cmd_t    cmd;
    ngx_mcds_conn_t  *conn;

    if (req->value) {
        op->value = ngx_mcds_value_ref(req->value);
    }

    op->verb = req->verb;
    op->probe = probe;

    if (server->down && !probe) {
        ngx_mcds_measure_op(server, op);
        ngx_mcds_measure_failed(server, op, NGX_MCDS_DOWN);
        ngx_mcds_op_fail_later(op, NGX_MCDS_DOWN);
        return NGX_OK;
    }

    cmd.verb = req->verb;
    cmd.want = req->want;
    cmd.key.data = op->key.data;
    cmd.key.len = op->key.len;
    cmd.opaque = ++ngx_mcds_opaque;
    cmd.ttl = req->ttl;
    cmd.flags = req->flags;
    cmd.cas = req->cas;
    cmd.initial = req->initial;
    cmd.delta = req->delta;
    cmd.update = req->update;
    cmd.len = req->value ? req->value->len : req->text.len;

    op->want = 0;
    op->asked = req->want;
    op->repeated = 0;
    op->opaque = cmd.opaque;
    op->limit = req->limit ? req->limit : NGX_MCDS_BULK;

    if (req->verb == NGX_MCDS_INCR || req->verb == NGX_MCDS_DECR) {
        op->want = NGX_MCDS_VALUE;

    } else if (req->verb == NGX_MCDS_GET) {
        op->want = req->want & NGX_MCDS_VALUE;
    }

    if (server->pool->classic || cmd.verb == NGX_MCDS_STATS) {
        op->words = ngx_mcds_classic_words(&cmd);
    }

    bulk = req->bulk || cmd.len >= NGX_MCDS_BULK;

    conn = ngx_mcds_conn_get(server, bulk);
    if (conn == NULL) {
        return NGX_ERROR;
    }

    rc = ngx_mcds_conn_push(conn, op, &cmd, &req->text);

    if (rc != NGX_ERROR) {
        ngx_mcds_measure_op(server, op);
    }

    if (rc == NGX_BUSY) {
        ngx_mcds_measure_failed(server, op, NGX_MCDS_BUSY);
        ngx_mcds_op_fail_later(op, NGX_MCDS_BUSY);
        return NGX_OK;
    }

    return rc;
}


static void
ngx_mcds_op_fail_later(ngx_mcds_op_t *op, ngx_uint_t rc)
{
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

    ngx_memzero(&result, sizeof(ngx_mcds_result_t));

    while (!ngx_queue_empty(&ngx_mcds_failed_ops)) {
        q = ngx_queue_head(&ngx_mcds_failed_ops);
        op = ngx_queue_data(q, ngx_mcds_op_t, queue);
        ngx_queue_remove(q);

        result.rc = op->rc;
        ngx_mcds_op_done(op, &result);
    }
}

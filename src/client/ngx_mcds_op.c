
/*
 * Copyright (C) mcds authors
 *
 * Operations: from a request to the connection of its server.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_choice.h"
#include "ngx_mcds_classic.h"
#include "ngx_mcds_conn.h"
#include "ngx_mcds_replica.h"


static ngx_uint_t ngx_mcds_op_choose(ngx_mcds_pool_t *pool,
    ngx_mcds_request_t *req, ngx_mcds_key_t *key);
static ngx_mcds_op_t *ngx_mcds_op_create(ngx_mcds_pool_t *pool,
    ngx_mcds_request_t *req, ngx_mcds_handler_pt handler, void *data);
static ngx_mcds_op_t *ngx_mcds_op_begin(ngx_mcds_server_t *server,
    ngx_mcds_op_t *op, ngx_mcds_request_t *req);
static void ngx_mcds_op_fail_later(ngx_mcds_op_t *op, ngx_uint_t rc);
static void ngx_mcds_op_fail_handler(ngx_event_t *ev);


/* of this worker */

static ngx_queue_t   ngx_mcds_free_ops;
static ngx_queue_t   ngx_mcds_failed_ops;
static ngx_event_t   ngx_mcds_fail_event;
static uint32_t      ngx_mcds_opaque;


ngx_mcds_op_t *
ngx_mcds_submit(ngx_mcds_pool_t *pool, ngx_mcds_request_t *req,
    ngx_mcds_handler_pt handler, void *data)
{
    ngx_uint_t          n;
    ngx_mcds_op_t      *op;
    ngx_mcds_server_t  *server;

    server = pool->servers.elts;

    if (pool->replicas > 1 || pool->classic) {
        n = ngx_mcds_first(pool, req);

        return pool->replicas > 1
               ? ngx_mcds_replica_submit(pool, n, req, handler, data)
               : ngx_mcds_server_submit(&server[n], req, handler, data);
    }

    op = ngx_mcds_op_create(pool, req, handler, data);
    if (op == NULL) {
        return NULL;
    }

    n = ngx_mcds_op_choose(pool, req, &op->key);

    return ngx_mcds_op_begin(&server[n], op, req);
}


ngx_mcds_op_t *
ngx_mcds_submit_to(ngx_mcds_pool_t *pool, ngx_uint_t n,
    ngx_mcds_request_t *req, ngx_mcds_handler_pt handler, void *data)
{
    ngx_mcds_server_t  *server;

    server = pool->servers.elts;

    return ngx_mcds_server_submit(&server[n], req, handler, data);
}


ngx_uint_t
ngx_mcds_first(ngx_mcds_pool_t *pool, ngx_mcds_request_t *req)
{
    ngx_mcds_key_t  key;

    ngx_mcds_op_key(&key, pool, req, &req->suffix);

    return ngx_mcds_op_choose(pool, req, &key);
}


ngx_uint_t
ngx_mcds_disabled(ngx_mcds_pool_t *pool, ngx_uint_t n)
{
    ngx_mcds_server_t  *server;

    server = pool->servers.elts;

    return server[n].stat->disabled;
}


ngx_uint_t
ngx_mcds_place(ngx_mcds_pool_t *pool, ngx_str_t *page)
{
    ngx_mcds_request_t  req;

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.key = *page;
    req.page = 1;
    req.movable = 1;

    return ngx_mcds_first(pool, &req) + 1;
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


static ngx_uint_t
ngx_mcds_op_choose(ngx_mcds_pool_t *pool, ngx_mcds_request_t *req,
    ngx_mcds_key_t *key)
{
    ngx_str_t       none;
    ngx_mcds_key_t  base;

    if (pool->servers.nelts == 1) {
        return 0;
    }

    if (req->place) {
        return req->place - 1;
    }

    if (req->by_key && req->suffix.len) {
        ngx_str_null(&none);
        ngx_mcds_op_key(&base, pool, req, &none);
        key = &base;
    }

    return ngx_mcds_choice_get(pool, key->data + key->prefix,
                               key->len - key->prefix, req->movable);
}


ngx_uint_t
ngx_mcds_ejected(ngx_mcds_pool_t *pool, ngx_mcds_request_t *req)
{
    ngx_uint_t          i, n;
    ngx_mcds_key_t      key;
    ngx_mcds_server_t  *server;

    if (!pool->eject || !req->movable) {
        return 0;
    }

    server = pool->servers.elts;

    for (i = 0; i < pool->servers.nelts; i++) {
        if (server[i].down && !server[i].stat->disabled) {
            break;
        }
    }

    if (i == pool->servers.nelts) {
        return 0;
    }

    ngx_mcds_op_key(&key, pool, req, &req->suffix);

    n = ngx_mcds_choice_get(pool, key.data + key.prefix, key.len - key.prefix,
                            0);

    /* what stands in for a disabled server may be what is out */

    return server[n].stat->disabled
           || n != ngx_mcds_op_choose(pool, req, &key);
}


ngx_uint_t
ngx_mcds_down(ngx_mcds_pool_t *pool, ngx_mcds_request_t *req)
{
    ngx_uint_t          i, n;
    ngx_mcds_key_t      key;
    ngx_mcds_server_t  *server;

    n = 0;

    if (pool->servers.nelts > 1) {
        ngx_mcds_op_key(&key, pool, req, &req->suffix);

        n = ngx_mcds_choice_get(pool, key.data + key.prefix,
                                key.len - key.prefix, 0);
    }

    for (i = 0; i < ngx_max(pool->replicas, 1); i++) {
        server = pool->servers.elts;
        server += (n + i) % pool->servers.nelts;

        if (server->down && !server->stat->disabled) {
            return 1;
        }
    }

    return 0;
}


ngx_mcds_op_t *
ngx_mcds_server_submit(ngx_mcds_server_t *server, ngx_mcds_request_t *req,
    ngx_mcds_handler_pt handler, void *data)
{
    if (server->pool->classic && ngx_mcds_classic_needed(req)) {
        return ngx_mcds_classic_submit(server, req, handler, data);
    }

    return ngx_mcds_op_submit(server, req, handler, data);
}


ngx_mcds_op_t *
ngx_mcds_op_submit(ngx_mcds_server_t *server, ngx_mcds_request_t *req,
    ngx_mcds_handler_pt handler, void *data)
{
    ngx_mcds_op_t  *op;

    op = ngx_mcds_op_create(server->pool, req, handler, data);

    return op ? ngx_mcds_op_begin(server, op, req) : NULL;
}


static ngx_mcds_op_t *
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


static ngx_mcds_op_t *
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


ngx_mcds_op_t *
ngx_mcds_op_alloc(void)
{
    ngx_queue_t    *q;
    ngx_mcds_op_t  *op;

    if (ngx_mcds_free_ops.next == NULL) {
        ngx_queue_init(&ngx_mcds_free_ops);
        ngx_queue_init(&ngx_mcds_failed_ops);
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

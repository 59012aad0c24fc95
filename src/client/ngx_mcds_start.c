
/*
 * Copyright (C) mcds authors
 *
 * Queues the command of an operation on a connection to its server.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_classic.h"
#include "ngx_mcds_exchange.h"
#include "ngx_mcds_client_stat.h"


static ngx_uint_t ngx_mcds_exchange_push(ngx_mcds_server_t *server,
    ngx_mcds_exchange_t *ex, ngx_mcds_request_t *req);
static void ngx_mcds_exchange_command(ngx_mcds_exchange_t *ex,
    ngx_mcds_request_t *req, ngx_mcds_cmd_t *cmd);


/* the last opaque that this worker has sent with a command */

static uint32_t  ngx_mcds_exchange_opaque;


void
ngx_mcds_exchange_submit(ngx_mcds_server_t *server, ngx_mcds_request_t *req,
    ngx_mcds_op_t *op)
{
    ngx_mcds_exchange_t  *ex;

    ex = ngx_mcds_exchange_create(server->pool, req);

    ngx_mcds_exchange_start(server, ex, req, op);
}


void
ngx_mcds_exchange_start(ngx_mcds_server_t *server, ngx_mcds_exchange_t *ex,
    ngx_mcds_request_t *req, ngx_mcds_op_t *op)
{
    ngx_uint_t  rc;

    rc = ex ? ngx_mcds_exchange_push(server, ex, req) : NGX_MCDS_BUSY;

    if (rc == NGX_MCDS_OK) {
        ngx_mcds_op_link(&ex->op, op);
        return;
    }

    if (ex) {
        ngx_mcds_exchange_free(ex);
    }

    ngx_mcds_op_fail(op, rc);
}


/*
 * puts the exchange (a command and its reply) into the queue of a connection;
 * returns NGX_MCDS_OK, or if the exchange was not queued the result code of the
 * operation
 */

static ngx_uint_t
ngx_mcds_exchange_push(ngx_mcds_server_t *server, ngx_mcds_exchange_t *ex,
    ngx_mcds_request_t *req)
{
    ngx_int_t         rc;
    ngx_mcds_cmd_t    cmd;
    ngx_mcds_conn_t  *conn;

    if (req->value) {
        ex->value = ngx_mcds_value_ref(req->value);
    }

    ex->verb = req->verb;

    if (server->down && !ex->probe) {
        ngx_mcds_client_stat_op(server, ex);
        ngx_mcds_client_stat_failed(server, ex, NGX_MCDS_DOWN);
        return NGX_MCDS_DOWN;
    }

    ngx_mcds_exchange_command(ex, req, &cmd);

    if (server->pool->classic || cmd.verb == NGX_MCDS_STATS) {
        ex->words = ngx_mcds_classic_words(&cmd);
    }

    conn = ngx_mcds_conn_get(server, req->bulk || cmd.len >= NGX_MCDS_BULK);
    if (conn == NULL) {
        return NGX_MCDS_BUSY;
    }

    rc = ngx_mcds_conn_push(conn, ex, &cmd, &req->text);

    if (rc == NGX_ERROR) {
        return NGX_MCDS_BUSY;
    }

    ngx_mcds_client_stat_op(server, ex);

    if (rc == NGX_BUSY) {
        ngx_mcds_client_stat_failed(server, ex, NGX_MCDS_BUSY);
        return NGX_MCDS_BUSY;
    }

    return NGX_MCDS_OK;
}


static void
ngx_mcds_exchange_command(ngx_mcds_exchange_t *ex, ngx_mcds_request_t *req,
    ngx_mcds_cmd_t *cmd)
{
    cmd->verb = req->verb;
    cmd->want = req->want;
    cmd->key.data = ex->key.data;
    cmd->key.len = ex->key.len;
    cmd->opaque = ++ngx_mcds_exchange_opaque;
    cmd->ttl = req->ttl;
    cmd->flags = req->flags;
    cmd->cas = req->cas;
    cmd->initial = req->initial;
    cmd->delta = req->delta;
    cmd->update = req->update;
    cmd->len = req->value ? req->value->len : req->text.len;

    ex->want = 0;
    ex->asked = req->want;
    ex->repeated = 0;
    ex->opaque = cmd->opaque;
    ex->limit = req->limit ? req->limit : NGX_MCDS_BULK;

    if (req->verb == NGX_MCDS_INCR || req->verb == NGX_MCDS_DECR) {
        ex->want = NGX_MCDS_VALUE;

    } else if (req->verb == NGX_MCDS_GET) {
        ex->want = req->want & NGX_MCDS_VALUE;
    }
}

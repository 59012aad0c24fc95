
/*
 * Copyright (C) mcds authors
 *
 * Private to client/: an exchange, one command on a connection and its reply.
 */


#ifndef _NGX_MCDS_EXCHANGE_H_INCLUDED_
#define _NGX_MCDS_EXCHANGE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_conn.h"
#include "ngx_mcds_op_link.h"


/*
 * Executes an operation as a single exchange, a command and its reply, in the
 * pool's protocol, meta or classic.  The operation's result is that of the
 * exchange; if the command cannot be queued, the result is DOWN or BUSY, from a
 * posted event.  op may be NULL if the result is not needed.
 */

void ngx_mcds_exchange_submit(ngx_mcds_server_t *server,
    ngx_mcds_request_t *req, ngx_mcds_op_t *op);


/*
 * Creates an exchange, a command and its reply, with the key of the request.
 * Followed by ngx_mcds_exchange_start() it does the same as
 * ngx_mcds_exchange_submit(); before the start, the caller can use the key to
 * choose the server, or mark the exchange as a probe.  Returns NULL if out of
 * memory.
 */

ngx_mcds_exchange_t *ngx_mcds_exchange_create(ngx_mcds_pool_t *pool,
    ngx_mcds_request_t *req);


/*
 * Queues the exchange, a command and its reply, on a connection of the server;
 * the exchange then belongs to the connection.  If ex is NULL, the result of
 * the operation is BUSY.
 */

void ngx_mcds_exchange_start(ngx_mcds_server_t *server,
    ngx_mcds_exchange_t *ex, ngx_mcds_request_t *req, ngx_mcds_op_t *op);


/*
 * Passes the result of an exchange, a command and its reply, to its operation,
 * and frees the exchange, which must not be in a queue.
 */

void ngx_mcds_exchange_done(ngx_mcds_exchange_t *ex,
    ngx_mcds_result_t *result);


/*
 * Frees an exchange (a command and its reply) that is in no queue; its
 * operation gets no result.
 */

void ngx_mcds_exchange_free(ngx_mcds_exchange_t *ex);


#endif /* _NGX_MCDS_EXCHANGE_H_INCLUDED_ */

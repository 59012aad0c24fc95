
/*
 * Copyright (C) mcds authors
 *
 * Private to client/: links an operation with its executor: an exchange (one
 * command to a server, and the reply), a group (the operations on all replicas
 * of a key), or the steps (several commands) of the classic protocol.  The two
 * point to each other, so that either can end first.  A group or steps submit
 * operations of their own, which have executors of their own.
 */


#ifndef _NGX_MCDS_OP_LINK_H_INCLUDED_
#define _NGX_MCDS_OP_LINK_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_client.h"


/*
 * Submits a request like ngx_mcds_submit(), but to the given server: the key
 * does not choose the server.  It is defined in ngx_mcds_classic.c, as it sends
 * one command or the steps of the classic protocol; replicas of either protocol
 * use it.
 */

void ngx_mcds_server_submit(ngx_mcds_server_t *server,
    ngx_mcds_request_t *req, ngx_mcds_op_t *op);


/*
 * Links an operation with its executor (an exchange with a server, a group of
 * replicas, or the steps of the classic protocol): sets *link, the executor's
 * pointer to the operation, to op, and op->link to link.  op may be NULL.
 */

void ngx_mcds_op_link(ngx_mcds_op_t **link, ngx_mcds_op_t *op);


/*
 * Unlinks the operation that *link points to, if any, from its executor, such
 * as an exchange with a server: sets *link, and the operation's own pointer to
 * link, to NULL, so that the operation's handler will not be called.
 */

void ngx_mcds_op_unlink(ngx_mcds_op_t **link);


/*
 * Ends the operation that *link points to, if any: sets *link to NULL and calls
 * the handler of the operation with the result.  The handler may submit the
 * operation again or free it.
 */

void ngx_mcds_op_done(ngx_mcds_op_t **link, ngx_mcds_result_t *result);


/*
 * Ends an operation of which no command was sent: a posted event calls its
 * handler with the result code rc.  op may be NULL.
 */

void ngx_mcds_op_fail(ngx_mcds_op_t *op, ngx_uint_t rc);


/*
 * Unlinks an operation from its executor, such as an exchange (a command to a
 * server, and the reply), when the worker exits.  A list of abandoned
 * operations points to the operation until its owner cancels it: memory without
 * any pointer to it would look like a leak.
 */

void ngx_mcds_op_abandon(ngx_mcds_op_t **link);


#endif /* _NGX_MCDS_OP_LINK_H_INCLUDED_ */

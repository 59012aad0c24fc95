
/*
 * Copyright (C) mcds authors
 *
 * Inside of client/: one command on the connection of one server, and the
 * reply to it.
 */


#ifndef _NGX_MCDS_EXCHANGE_H_INCLUDED_
#define _NGX_MCDS_EXCHANGE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_conn.h"
#include "ngx_mcds_op_link.h"


/*
 * The operation as one exchange, whatever the protocol of the server: its
 * result is that of the exchange, or DOWN, BUSY from a posted event, when
 * nothing could be sent.  op: NULL, if the result is of no interest.
 */

void ngx_mcds_exchange_submit(ngx_mcds_server_t *server,
    ngx_mcds_request_t *req, ngx_mcds_op_t *op);


/*
 * The two halves of submit, for a caller that needs the key in between, or
 * makes it a probe.  create: with the key of the request; NULL when out of
 * memory.  start: takes the exchange, which may be NULL.
 */

ngx_mcds_exchange_t *ngx_mcds_exchange_create(ngx_mcds_pool_t *pool,
    ngx_mcds_request_t *req);
void ngx_mcds_exchange_start(ngx_mcds_server_t *server,
    ngx_mcds_exchange_t *ex, ngx_mcds_request_t *req, ngx_mcds_op_t *op);


/*
 * The end of an exchange that is in no queue any more.  done: the operation
 * gets the result.  free: it gets none.
 */

void ngx_mcds_exchange_done(ngx_mcds_exchange_t *ex,
    ngx_mcds_result_t *result);
void ngx_mcds_exchange_free(ngx_mcds_exchange_t *ex);


#endif /* _NGX_MCDS_EXCHANGE_H_INCLUDED_ */

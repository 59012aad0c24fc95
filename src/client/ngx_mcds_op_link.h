
/*
 * Copyright (C) mcds authors
 *
 * Inside of client/: an exchange, a group of replicas, or the steps of the
 * classic protocol carry out an operation.  They point to it and it points
 * back, so that either can end first.  The operations of a group and of steps
 * are linked with exchanges in the same way.
 */


#ifndef _NGX_MCDS_OP_LINK_H_INCLUDED_
#define _NGX_MCDS_OP_LINK_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_client.h"


/* as ngx_mcds_submit(), on this server, whatever the key */

void ngx_mcds_server_submit(ngx_mcds_server_t *server,
    ngx_mcds_request_t *req, ngx_mcds_op_t *op);


/*
 * link: *link points to the operation from now on; op may be NULL.  unlink:
 * it does not any more, and the handler is not called.  done: the same, and
 * then the handler is called, which may submit the operation anew or free it.
 * fail: calls the handler of one that is not linked, from a posted event;
 * op may be NULL.  abandon: as unlink, when the worker exits: the operation is
 * kept in a list until it is cancelled, as memory that nothing points to would
 * be taken for a leak.
 */

void ngx_mcds_op_link(ngx_mcds_op_t **link, ngx_mcds_op_t *op);
void ngx_mcds_op_unlink(ngx_mcds_op_t **link);
void ngx_mcds_op_done(ngx_mcds_op_t **link, ngx_mcds_result_t *result);
void ngx_mcds_op_fail(ngx_mcds_op_t *op, ngx_uint_t rc);
void ngx_mcds_op_abandon(ngx_mcds_op_t **link);


#endif /* _NGX_MCDS_OP_LINK_H_INCLUDED_ */

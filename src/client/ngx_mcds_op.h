
/*
 * Copyright (C) mcds authors
 *
 * Operations inside of the client.
 */


#ifndef _NGX_MCDS_OP_H_INCLUDED_
#define _NGX_MCDS_OP_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_conn.h"


/* as ngx_mcds_submit(), on this server, whatever the key */

ngx_mcds_op_t *ngx_mcds_server_submit(ngx_mcds_server_t *server,
    ngx_mcds_request_t *req, ngx_mcds_handler_pt handler, void *data);


/* the same, as one command, whatever the protocol */

ngx_mcds_op_t *ngx_mcds_op_submit(ngx_mcds_server_t *server,
    ngx_mcds_request_t *req, ngx_mcds_handler_pt handler, void *data);


/*
 * Operations.  alloc: to be filled with a handler and a key; NULL when out of
 * memory.  start: hands it to the server, or fails it from a posted event;
 * probe: also if that is down.  NGX_ERROR: out of memory, the operation is
 * still the caller's.  done: one that has come to its end: calls the handler,
 * frees.
 */

ngx_mcds_op_t *ngx_mcds_op_alloc(void);
ngx_int_t ngx_mcds_op_start(ngx_mcds_server_t *server, ngx_mcds_op_t *op,
    ngx_mcds_request_t *req, ngx_uint_t probe);
void ngx_mcds_op_done(ngx_mcds_op_t *op, ngx_mcds_result_t *result);


/*
 * The two halves of ngx_mcds_op_submit().  create: with the key of the request;
 * NULL when out of memory.  begin: the same, and then the operation is freed.
 */

ngx_mcds_op_t *ngx_mcds_op_create(ngx_mcds_pool_t *pool,
    ngx_mcds_request_t *req, ngx_mcds_handler_pt handler, void *data);
ngx_mcds_op_t *ngx_mcds_op_begin(ngx_mcds_server_t *server,
    ngx_mcds_op_t *op, ngx_mcds_request_t *req);


#endif /* _NGX_MCDS_OP_H_INCLUDED_ */

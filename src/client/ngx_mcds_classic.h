
/*
 * Copyright (C) mcds authors
 *
 * Operations that take several commands of the classic protocol, one after
 * the other:
 *
 *   INCR, DECR    incr; when there is nothing: add the initial value; when
 *                 somebody else has added it meanwhile: incr again
 *   ADD and SET   the store, then gets: is what is there what was stored?
 *   that want     its CAS then is the result
 *   the CAS
 *   SET and       gets: is what is there the old value?  then with its CAS the
 *   DELETE with   store
 *   a CAS and
 *   the old value
 *
 * The last is for servers that number the changes of each item on its own and
 * so give the same CAS to an item and to its successor.
 *
 * A step is begun when the one before was answered, and nothing is sent twice.
 * All together take no longer than the pool's timeout.
 */


#ifndef _NGX_MCDS_CLASSIC_H_INCLUDED_
#define _NGX_MCDS_CLASSIC_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_conn.h"


/*
 * needed: whether the request takes more than one command.  submit: as
 * ngx_mcds_server_submit(), for these.  exit: forgets all of a pool, without
 * calling a handler.
 */

ngx_uint_t ngx_mcds_classic_needed(ngx_mcds_request_t *req);
void ngx_mcds_classic_submit(ngx_mcds_server_t *server,
    ngx_mcds_request_t *req, ngx_mcds_op_t *op);
void ngx_mcds_classic_exit(ngx_mcds_pool_t *pool);


#endif /* _NGX_MCDS_CLASSIC_H_INCLUDED_ */

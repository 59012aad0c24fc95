
/*
 * Copyright (C) mcds authors
 *
 * Operations that take several commands of the classic protocol in sequence:
 *
 *   INCR, DECR    incr; if the counter is missing: add the initial value; if
 *                 another client has added it in between: incr again
 *   ADD and SET   the store, then gets: if the value is the stored one, its
 *   that want     CAS value is the result
 *   the CAS
 *   DELETE with   if the pool stores items without expiry: cas, which leaves
 *   a CAS         an empty item, then delete
 *   SET and       gets: if the value is the old one, the store with its CAS
 *   DELETE with   value
 *   a CAS and
 *   the old value
 *
 * The last sequence is for servers that number the changes of each item
 * separately, so that an item and its successor can have the same CAS value.
 *
 * A step starts after the reply to the previous one.  If the connection is lost
 * before the reply, only gets is sent again, once; after any other command the
 * operation fails.  All steps together take no longer than the pool's timeout.
 */


#ifndef _NGX_MCDS_CLASSIC_H_INCLUDED_
#define _NGX_MCDS_CLASSIC_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_conn.h"


/*
 * Submits a request that takes more than one command of the classic protocol to
 * the given server; otherwise like ngx_mcds_server_submit().
 */

void ngx_mcds_classic_submit(ngx_mcds_server_t *server,
    ngx_mcds_request_t *req, ngx_mcds_op_t *op);


/*
 * Frees all operations of a pool that take several commands of the classic
 * protocol, without calling a handler.
 */

void ngx_mcds_classic_exit(ngx_mcds_pool_t *pool);


#endif /* _NGX_MCDS_CLASSIC_H_INCLUDED_ */

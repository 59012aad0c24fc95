
/*
 * Copyright (C) mcds authors
 *
 * An operation on several servers: a key is stored on the server that the
 * pool's distribution chooses and on the next ones in the list, as with
 * libmemcached's replicas.
 *
 *   INCR, DECR    on all; the result is the largest number
 *   ADD           on all; stored if none of them had the key
 *   GET           the first server that has the key.  The next server is asked
 *                 when one lacks the key, fails, or is silent for half of the
 *                 pool's timeout; further servers in equal parts of the other
 *                 half, at whose end the operation times out.  A number is read
 *                 from all servers; the result is the largest one
 *   SET, APPEND,  on all; done if one server has done it
 *   TOUCH
 *   DELETE        on all; done if all servers have done it
 *
 * An operation marked "every" (a purge) is also done only if all servers have
 * done it, as a server that was down still has the old item when it returns.
 * The available servers do it in any case, and their number is in the result.
 *
 * A conditional store of an ngx_mcds_value_t (a page), and any operation marked
 * "single" (a lock), has a leader: the first server that is up.  The leader's
 * reply is the result, unless the operation is marked "every"; a page is then
 * also set on the other servers.  The two highest bits of a CAS value identify
 * the server that returned it, so that the next operation with it goes to that
 * server.
 *
 * A counter without expiry that a server has created anew, because the server
 * came back empty, is raised by the difference to the other servers; this is
 * done a while later, so that no increment counts twice.
 */


#ifndef _NGX_MCDS_REPLICA_H_INCLUDED_
#define _NGX_MCDS_REPLICA_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_client.h"


/*
 * Submits an operation on replicas, like ngx_mcds_submit(); first is the index
 * of the key's server.
 */

void ngx_mcds_replica_submit(ngx_mcds_pool_t *pool, ngx_uint_t first,
    ngx_mcds_request_t *req, ngx_mcds_op_t *op);


/* Frees all operations on replicas of a pool, without calling a handler. */

void ngx_mcds_replica_exit(ngx_mcds_pool_t *pool);


/* Drops the counters of a pool that are to be raised on a replica later. */

void ngx_mcds_replica_level_exit(ngx_mcds_pool_t *pool);


#endif /* _NGX_MCDS_REPLICA_H_INCLUDED_ */

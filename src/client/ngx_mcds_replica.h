
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
 *                 pool's timeout; further servers at equal intervals in the
 *                 second half, at whose end the operation times out.  A number
 *                 is read from all servers; the result is the largest one
 *   SET, APPEND,  on all; done if one server has done it
 *   TOUCH
 *   DELETE        on all; done if all servers have done it
 *
 * An operation marked "every" (a purge) is also done only if all servers have
 * done it, as a server that was down still has the old item when it returns.
 * The available servers do it in any case, and their number is in the result.
 *
 * An operation with a CAS value, an ADD of an ngx_mcds_value_t (a page, or an
 * element of a table), and any operation marked "single" (a lock) has a leader:
 * the first server that is up, or the one that returned the CAS value, which
 * the two highest bits of the value identify.  The leader's reply is the
 * result, unless the operation is marked "every".  If the leader has done the
 * operation, and it is not "single", it is also done on the other servers,
 * unconditionally; a DELETE has its result when these have replied.  If the
 * leader does not reply, the operation has failed, with two exceptions: one
 * marked "every", and the ADD of a page, which is then added on the other
 * servers, but does not replace an item there, such as a purge's tombstone.
 *
 * A counter without expiry that a server has created anew, because the server
 * came back empty, is raised by the difference to the other servers; this is
 * done a while later, so that no increment counts twice.  A counter marked
 * "rising" (of the owners of a lock) is raised at once, even if it expires.
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


/*
 * Stops raising counters of a pool on replicas that came back empty: cancels
 * the worker's timers and operations for this, and frees their memory.
 */

void ngx_mcds_replica_level_exit(ngx_mcds_pool_t *pool);


#endif /* _NGX_MCDS_REPLICA_H_INCLUDED_ */

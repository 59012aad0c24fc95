
/*
 * Copyright (C) mcds authors
 *
 * One operation on several servers: a key lies on the server that the pool's
 * distribution chooses and on those that follow it in the list, as with
 * libmemcached's replicas.
 *
 *   INCR, DECR   on all; the largest number
 *   ADD          on all; stored if none of them had it
 *   GET          the first that has it; the next one is asked when a server
 *                does not have it, fails, or is silent for half of the pool's
 *                timeout, further ones in equal parts of the other half, at
 *                whose end the operation does; of a number: all are asked, the
 *                largest one
 *   SET, APPEND, on all; done if one has done it
 *   TOUCH
 *   DELETE       on all; done if all have done it
 *
 * What is marked every (a purge) is done if all have done it, too: a server
 * that was away still has what was there before when it comes back.  The others
 * do it nevertheless, and the number that they counted to is in the result.
 *
 * A value of ngx_mcds_value_t (a page) that is stored under a condition, and
 * whatever is marked single (a lock), has a leader: the first server that is
 * not down.  What is said there holds, unless it is marked every; a page is
 * then set on the others.  A CAS names the server that gave it in its two
 * highest bits, so that it finds its way back.
 *
 * A counter without a time to live that had to be made anew on one server,
 * because that came back empty, is raised there by what the others have more;
 * a while later, so that nothing is counted twice.
 */


#ifndef _NGX_MCDS_REPLICA_H_INCLUDED_
#define _NGX_MCDS_REPLICA_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_client.h"


/* as ngx_mcds_submit(), first is the index of the key's server */

void ngx_mcds_replica_submit(ngx_mcds_pool_t *pool, ngx_uint_t first,
    ngx_mcds_request_t *req, ngx_mcds_op_t *op);


/*
 * Forgets all operations of a pool, without calling a handler; level: counters
 * that are to be raised later.
 */

void ngx_mcds_replica_exit(ngx_mcds_pool_t *pool);
void ngx_mcds_replica_level_exit(ngx_mcds_pool_t *pool);


#endif /* _NGX_MCDS_REPLICA_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * Keeps the changes of counters while a memcached server is down, in the outbox
 * (shared memory), and sends them when the server has returned.
 */


#ifndef _NGX_MCDS_REPLAY_H_INCLUDED_
#define _NGX_MCDS_REPLAY_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_client.h"
#include "ngx_mcds_counter.h"
#include "ngx_mcds_outbox.h"


/*
 * Starts to send, in this worker, the changes of counters that were kept while
 * a server was down.  pools is an array of ngx_mcds_pool_t *, which must stay;
 * generation is that of the configuration.
 */

void ngx_mcds_replay_start(ngx_array_t *pools, ngx_uint_t generation);


/*
 * Keeps a change of a counter that was not sent, in the outbox (shared
 * memory).  NGX_OK: delta is added later, once at most, even by another worker
 * if this one has exited.  NGX_DECLINED: there is no outbox, or its accounts,
 * one for each destination of changes, are used up.  NGX_BUSY: the outbox has
 * no room for the change.
 */

ngx_int_t ngx_mcds_replay_keep(ngx_mcds_counter_t *counter, int64_t delta);


/*
 * Logs, at most once a second, that changes of counters are lost, as there was
 * no room to keep them.
 */

void ngx_mcds_replay_lose(int64_t delta);


/*
 * Logs, in the master after all workers have exited, the unsent changes of
 * counters that are lost with the shared memory.
 */

void ngx_mcds_replay_exit(ngx_mcds_outbox_t *outbox, ngx_array_t *pools,
    ngx_log_t *log);


#endif /* _NGX_MCDS_REPLAY_H_INCLUDED_ */

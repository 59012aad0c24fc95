
/*
 * Copyright (C) mcds authors
 *
 * What was counted while a server was down, kept in the ledger and added when
 * the server is back.
 */


#ifndef _NGX_MCDS_BUFFER_H_INCLUDED_
#define _NGX_MCDS_BUFFER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_client.h"
#include "ngx_mcds_counter.h"
#include "ngx_mcds_ledger.h"


/*
 * To be called in each worker, with all pools: an array of ngx_mcds_pool_t *
 * that stays.  generation: that of the configuration.
 */

void ngx_mcds_buffer_start(ngx_array_t *pools, ngx_uint_t generation);


/*
 * Keeps delta, which was not sent, for this counter.  NGX_OK: it is added
 * later, once at most; also by another worker, when this one is gone.
 * NGX_DECLINED: there is no ledger.  NGX_BUSY: there is no room; it is lost
 * unless the caller keeps it: lose() logs that, once a second.
 */

ngx_int_t ngx_mcds_buffer_keep(ngx_mcds_counter_t *counter, int64_t delta);
void ngx_mcds_buffer_lose(int64_t delta);


/* in the master, when all workers are gone: says what is lost with the zone */

void ngx_mcds_buffer_exit(ngx_mcds_ledger_t *ledger, ngx_array_t *pools,
    ngx_log_t *log);


#endif /* _NGX_MCDS_BUFFER_H_INCLUDED_ */

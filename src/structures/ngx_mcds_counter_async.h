
/*
 * Copyright (C) mcds authors
 *
 * Counters for which no request waits.  A worker sums its changes of such a
 * counter, sends the sum at intervals, and knows the counter's value from the
 * last reply of memcached.
 */


#ifndef _NGX_MCDS_COUNTER_ASYNC_H_INCLUDED_
#define _NGX_MCDS_COUNTER_ASYNC_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_client.h"
#include "ngx_mcds_counter.h"
#include "ngx_mcds_stat.h"


/*
 * Adds delta to a counter as ngx_mcds_counter_change() does, but the worker
 * sends the change within flush milliseconds, or, if the worker does not
 * remember the counter, at the end of this turn of the event loop.  A change
 * that could not be sent is kept and sent later; a change without a reply is
 * not sent again.  A worker that is to exit does not wait for the interval: it
 * sends the kept changes, only once, and then exits.
 *
 * NGX_OK: *value is the counter's value as far as this worker knows, with all
 * changes by this worker.  NGX_DECLINED: delta is accepted, but the counter's
 * value is not known (yet).  NGX_BUSY: out of memory, or too many changes are
 * kept: delta is lost (logged).
 *
 * Failures, now or when the change is sent, are counted in stat, which may be
 * NULL.
 */

ngx_int_t ngx_mcds_counter_async_change(ngx_mcds_counter_t *counter,
    int64_t delta, ngx_msec_t flush, ngx_mcds_stat_t *stat, uint64_t *value);


/*
 * Called when the worker exits: moves unsent changes of buffered counters to
 * the outbox (shared memory), and logs the sum of all others, which are lost.
 */

void ngx_mcds_counter_async_exit(ngx_log_t *log);


#endif /* _NGX_MCDS_COUNTER_ASYNC_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * Counters that nobody waits for.  A worker keeps what it has to add, sends
 * it now and then as one sum, and knows the counter from the last answer.
 */


#ifndef _NGX_MCDS_TALLY_H_INCLUDED_
#define _NGX_MCDS_TALLY_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_client.h"
#include "ngx_mcds_counter.h"
#include "ngx_mcds_stat.h"


/*
 * Adds delta, as ngx_mcds_counter_change() does, flush milliseconds from now
 * at most; a counter that this worker did not know, at the end of this turn.
 * What could not be sent is kept and sent later; what was sent without an
 * answer is not sent again.  While something is kept a worker does not exit,
 * but it sends at once then, and only once.
 *
 * NGX_OK: *value is the counter as far as this worker knows it, with all that
 * it has added.  NGX_DECLINED: it does not know it (yet).  NGX_BUSY: out of
 * memory, or of the room for what is kept: delta is lost (logged).
 *
 * What fails, now or when it is sent, is counted in stat, which may be NULL.
 */

ngx_int_t ngx_mcds_tally_change(ngx_mcds_counter_t *counter, int64_t delta,
    ngx_msec_t flush, ngx_mcds_stat_t *stat, uint64_t *value);


/* when the worker exits: logs what is lost with it */

void ngx_mcds_tally_exit(ngx_log_t *log);


#endif /* _NGX_MCDS_TALLY_H_INCLUDED_ */

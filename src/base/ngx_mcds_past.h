
/*
 * Copyright (C) mcds authors
 *
 * What the sums of this host were, minute after minute, of the last hour: for
 * a page that shows more than what came since it was opened.
 *
 * The first worker that has something to add in a minute keeps the sums as they
 * are before that, in shared memory.  A minute in which nothing was added has
 * no sample: the next one has the same sums.
 */


#ifndef _NGX_MCDS_PAST_H_INCLUDED_
#define _NGX_MCDS_PAST_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_stat.h"


/* seconds from one sample to the next, and samples */
#define NGX_MCDS_PAST_STEP        60
#define NGX_MCDS_PAST_SAMPLES     61


typedef struct ngx_mcds_past_s  ngx_mcds_past_t;


/* of this host, or NULL; set by who has the shared memory */

extern ngx_mcds_past_t  *ngx_mcds_past;


/* the bytes of zeroed shared memory that it is made of */

size_t ngx_mcds_past_size(void);


/* keeps the sums of all if it is time to; now: seconds since the epoch */

void ngx_mcds_past_take(ngx_mcds_past_t *past, ngx_mcds_stats_t *stats,
    time_t now);


/*
 * The n-th sample, the oldest is 0 and the last one NGX_MCDS_PAST_SAMPLES - 1;
 * NGX_DECLINED: there is none.  time: in seconds since the epoch.  Of caches
 * the requests by status, those of the origin and the builds that ended are
 * kept, of servers the latency; all others are 0.
 */

ngx_int_t ngx_mcds_past_read(ngx_mcds_past_t *past, ngx_uint_t n,
    uint64_t *time, ngx_mcds_stat_totals_t *caches,
    ngx_mcds_stat_totals_t *servers);


#endif /* _NGX_MCDS_PAST_H_INCLUDED_ */

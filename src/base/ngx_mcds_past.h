
/*
 * Copyright (C) mcds authors
 *
 * The history of this host's statistics: one sample of their sums a minute for
 * the last hour, so that the live page can show figures from before it was
 * opened.
 *
 * The samples are in shared memory.  The first worker that flushes its sums in
 * a minute takes a sample of the sums as they were before its flush.  A minute
 * in which no worker flushed has no sample: the next sample has the same sums.
 */


#ifndef _NGX_MCDS_PAST_H_INCLUDED_
#define _NGX_MCDS_PAST_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_stat.h"


/*
 * the history of statistics: seconds between two samples, and number of samples
 */
#define NGX_MCDS_PAST_STEP        60
#define NGX_MCDS_PAST_SAMPLES     61


typedef struct ngx_mcds_past_s  ngx_mcds_past_t;


/*
 * the history of this host's statistics, or NULL; set by the code that owns the
 * shared memory
 */

extern ngx_mcds_past_t  *ngx_mcds_past;


/*
 * Returns the size of the history of statistics, in bytes; the caller allocates
 * so much zeroed shared memory.
 */

size_t ngx_mcds_past_size(void);


/*
 * Takes a sample of the statistics of caches and servers, if the history has
 * none of the current minute; now is in seconds since the epoch.
 */

void ngx_mcds_past_take(ngx_mcds_past_t *past, ngx_mcds_stats_t *stats,
    time_t now);


/*
 * Reads the n-th sample of the history: 0 is the oldest, NGX_MCDS_PAST_SAMPLES
 * - 1 the latest.  Returns NGX_DECLINED if there is no such sample.
 *
 * *time, when the sample was taken, is in seconds since the epoch.  *caches has
 * the totals of all caches: requests by status, requests that went to the
 * origin, and builds of pages by how they ended.  *servers has the latency of
 * all servers.  All other totals are set to 0.  *set is a hash of the list of
 * caches and servers: if it differs between two samples, they are of different
 * caches or servers, and their totals must not be compared.
 */

ngx_int_t ngx_mcds_past_read(ngx_mcds_past_t *past, ngx_uint_t n,
    uint64_t *time, uint32_t *set, ngx_mcds_stat_totals_t *caches,
    ngx_mcds_stat_totals_t *servers);


#endif /* _NGX_MCDS_PAST_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_sha1.h>
#include "ngx_mcds_stat.h"
#include "ngx_mcds_stat_sums.h"
#include "ngx_mcds_past.h"


static ngx_uint_t ngx_mcds_stat_shares(ngx_mcds_stat_t *stat);
static ngx_uint_t ngx_mcds_stat_owns(ngx_mcds_stat_t *stat);
static ngx_uint_t ngx_mcds_stat_others_down(ngx_mcds_stat_t *stat);


ngx_mcds_memory_t  ngx_mcds_memory;
ngx_mcds_stats_t  *ngx_mcds_stats;

void  (*ngx_mcds_stat_wake)(void);

ngx_uint_t  ngx_mcds_stat_bounds[NGX_MCDS_STAT_BUCKETS - 1] = {
    50, 100, 250, 500, 1000, 2500, 5000, 10000, 25000, 50000, 100000, 250000,
    500000, 1000000
};

ngx_uint_t  ngx_mcds_stat_times[NGX_MCDS_STAT_TIME_BUCKETS - 1] = {
    5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000, 30000, 60000
};


#define ngx_mcds_stat_family_sums(name, word, nsums)  { word, nsums },

static struct {
    char        *name;
    ngx_uint_t   nsums;
} ngx_mcds_stat_families[NGX_MCDS_STAT_FAMILIES] = {
    NGX_MCDS_FAMILY_LIST(ngx_mcds_stat_family_sums)
};


/* checks when compiling that ngx_mcds_stat_totals_t has room for all sums */
typedef char  ngx_mcds_stat_check_servers[
    (NGX_MCDS_STAT_LAST <= NGX_MCDS_STAT_MAX) ? 1 : -1];
typedef char  ngx_mcds_stat_check_zones[
    (NGX_MCDS_ZONE_LAST <= NGX_MCDS_STAT_MAX) ? 1 : -1];


/*
 * the statistics of this worker whose sums are not flushed to shared memory yet
 */
static ngx_queue_t  ngx_mcds_stat_queue;


ngx_mcds_stat_t *
ngx_mcds_stat_create(ngx_pool_t *p, ngx_uint_t family, ngx_str_t *pool,
    ngx_str_t *name)
{
    ngx_mcds_stat_t  *stat;

    stat = ngx_pcalloc(p, sizeof(ngx_mcds_stat_t));
    if (stat == NULL) {
        return NULL;
    }

    stat->family = family;
    stat->pool = *pool;
    stat->name = *name;
    stat->nsums = ngx_mcds_stat_nsums(family);

    stat->sums = ngx_pcalloc(p, stat->nsums * sizeof(uint64_t));
    if (stat->sums == NULL) {
        return NULL;
    }

    return stat;
}


ngx_uint_t
ngx_mcds_stat_nsums(ngx_uint_t family)
{
    return ngx_mcds_stat_families[family].nsums;
}


char *
ngx_mcds_stat_family(ngx_uint_t family)
{
    return ngx_mcds_stat_families[family].name;
}


void
ngx_mcds_stat_id(ngx_mcds_stat_t *stat, u_char *id)
{
    ngx_sha1_t  sha1;

    ngx_sha1_init(&sha1);
    ngx_sha1_update(&sha1, &stat->family, sizeof(ngx_uint_t));
    ngx_sha1_update(&sha1, &stat->pool.len, sizeof(size_t));
    ngx_sha1_update(&sha1, stat->pool.data, stat->pool.len);
    ngx_sha1_update(&sha1, stat->name.data, stat->name.len);
    ngx_sha1_final(id, &sha1);
}


void
ngx_mcds_stat_attach(ngx_mcds_stat_t *stat, ngx_uint_t worker)
{
    stat->gauge = NULL;

    if (!ngx_mcds_stat_shares(stat) || worker >= stat->ngauges) {
        return;
    }

    /*
     * clear the worker's gauges of this server (pending operations, breaker): a
     * killed worker of the same number may have left its values there
     */

    stat->gauge = &stat->gauges[worker];
    stat->gauge->pid = ngx_pid;
    stat->gauge->pending = 0;
    stat->gauge->connections = 0;
    stat->gauge->down_since = 0;
    stat->gauge->retry = 0;
}


void
ngx_mcds_stat_changed(ngx_mcds_stat_t *stat)
{
    if (stat->changed.next) {
        return;
    }

    if (ngx_mcds_stat_queue.next == NULL) {
        ngx_queue_init(&ngx_mcds_stat_queue);
    }

    ngx_queue_insert_tail(&ngx_mcds_stat_queue, &stat->changed);

    if (ngx_mcds_stat_wake) {
        ngx_mcds_stat_wake();
    }
}


void
ngx_mcds_stat_flush(ngx_mcds_stat_t *stat)
{
    ngx_uint_t  i;

    if (stat->changed.next) {
        ngx_queue_remove(&stat->changed);
        stat->changed.next = NULL;
    }

    if (stat->gather) {
        stat->gather(stat);
    }

    if (!ngx_mcds_stat_shares(stat)) {
        return;
    }

    for (i = 0; i < stat->nsums; i++) {
        if (stat->sums[i]) {
            (void) __atomic_fetch_add(&stat->shared->sums[i], stat->sums[i],
                                      __ATOMIC_RELAXED);
            stat->sums[i] = 0;
        }
    }

    if (ngx_mcds_stat_owns(stat)) {
        stat->gauge->pending = stat->pending;
        stat->gauge->connections = stat->connections;
    }
}


void
ngx_mcds_stat_flush_all(void)
{
    ngx_queue_t      *q;
    ngx_mcds_stat_t  *stat;

    if (ngx_mcds_past && ngx_mcds_stats) {
        ngx_mcds_past_take(ngx_mcds_past, ngx_mcds_stats, ngx_time());
    }

    if (ngx_mcds_stat_queue.next == NULL) {
        return;
    }

    while (!ngx_queue_empty(&ngx_mcds_stat_queue)) {
        q = ngx_queue_head(&ngx_mcds_stat_queue);
        stat = ngx_queue_data(q, ngx_mcds_stat_t, changed);

        ngx_mcds_stat_flush(stat);
    }
}


void
ngx_mcds_stat_detach(ngx_mcds_stat_t *stat)
{
    stat->gather = NULL;

    if (stat->gauge == NULL) {

        /*
         * this worker has no gauges of the server in shared memory, so none to
         * give back: there is no shared memory, or no room in it
         */

        return;
    }

    stat->pending = 0;
    stat->connections = 0;

    ngx_mcds_stat_flush(stat);

    if (ngx_mcds_stat_owns(stat)) {
        stat->gauge->down_since = 0;
        stat->gauge->pid = 0;
    }

    stat->gauge = NULL;
}


ngx_uint_t
ngx_mcds_stat_breaker(ngx_mcds_stat_t *stat, ngx_uint_t open, time_t now)
{
    ngx_atomic_t  *told;

    if (!ngx_mcds_stat_shares(stat)) {
        return 1;
    }

    if (!ngx_mcds_stat_owns(stat)) {

        /*
         * A worker without gauges of the server in shared memory logs each
         * change of its breaker (1).  A worker whose gauges a new worker has
         * taken over logs no change (0): the new worker logs instead.
         */

        return stat->gauge == NULL;
    }

    told = &stat->shared->told;
    stat->gauge->retry = 0;

    if (open) {
        stat->gauge->down_since = now;
        ngx_memory_barrier();

        /*
         * This worker's breaker has opened.  Log (1) that the server is down,
         * unless the flag "told" says that the log has it.  If no other
         * worker's breaker for the server is open, the flag is ignored: a
         * worker that ended with an open breaker may have left it set.
         */

        return ngx_atomic_cmp_set(told, 0, 1)
               || !ngx_mcds_stat_others_down(stat);
    }

    stat->gauge->down_since = 0;
    ngx_memory_barrier();

    if (ngx_mcds_stat_others_down(stat) || !ngx_atomic_cmp_set(told, 1, 0)) {
        return 0;
    }

    if (ngx_mcds_stat_others_down(stat)) {

        /*
         * the breaker of another worker has opened meanwhile: do not log (0)
         * that the server is up, and set the flag "told" (the log has reported
         * the server as down) again
         */

        (void) ngx_atomic_cmp_set(told, 0, 1);
        return 0;
    }

    return 1;
}


void
ngx_mcds_stat_retry(ngx_mcds_stat_t *stat, time_t when)
{
    if (ngx_mcds_stat_owns(stat)) {
        stat->gauge->retry = when;
    }
}


ngx_uint_t
ngx_mcds_stat_ask(ngx_mcds_stat_t *stat, time_t now)
{
    ngx_atomic_t       *asked;
    ngx_atomic_uint_t   last;

    if (!ngx_mcds_stat_shares(stat)) {
        return 0;
    }

    asked = &stat->shared->usage->asked;
    last = *asked;

    return last != (ngx_atomic_uint_t) now
           && ngx_atomic_cmp_set(asked, last, (ngx_atomic_uint_t) now);
}


void
ngx_mcds_stat_usage(ngx_mcds_stat_t *stat, ngx_uint_t i, uint64_t n)
{
    if (ngx_mcds_stat_shares(stat)) {
        __atomic_store_n(&stat->shared->usage->values[i], n,
                         __ATOMIC_RELAXED);
    }
}


void
ngx_mcds_stat_latency(ngx_mcds_stat_t *stat, ngx_uint_t us)
{
    ngx_uint_t  i;

    for (i = 0; i < NGX_MCDS_STAT_BUCKETS - 1; i++) {
        if (us <= ngx_mcds_stat_bounds[i]) {
            break;
        }
    }

    stat->sums[NGX_MCDS_STAT_LATENCY + i]++;
    stat->sums[NGX_MCDS_STAT_LATENCY_SUM] += us;
}


void
ngx_mcds_stat_time(ngx_mcds_stat_t *stat, ngx_uint_t i, ngx_msec_t ms)
{
    ngx_uint_t  n;

    for (n = 0; n < NGX_MCDS_STAT_TIME_BUCKETS - 1; n++) {
        if (ms <= ngx_mcds_stat_times[n]) {
            break;
        }
    }

    ngx_mcds_stat_add(stat, i, ms);
    ngx_mcds_stat_add(stat, i + 1 + n, 1);
}


ngx_int_t
ngx_mcds_stat_read(ngx_mcds_stat_t *stat, ngx_mcds_stat_totals_t *totals)
{
    ngx_uint_t              i;
    ngx_atomic_uint_t       since, retry;
    ngx_mcds_stat_gauge_t  *gauge;

    if (!ngx_mcds_stat_shares(stat)) {
        return NGX_DECLINED;
    }

    ngx_memzero(totals, sizeof(ngx_mcds_stat_totals_t));

    for (i = 0; i < stat->nsums; i++) {
        totals->sums[i] = __atomic_load_n(&stat->shared->sums[i],
                                          __ATOMIC_RELAXED);
    }

    for (i = 0; stat->shared->usage && i < NGX_MCDS_USAGE_LAST; i++) {
        totals->usage[i] = __atomic_load_n(&stat->shared->usage->values[i],
                                           __ATOMIC_RELAXED);
    }

    for (i = 0; i < stat->ngauges; i++) {
        gauge = &stat->gauges[i];

        totals->pending += gauge->pending;
        totals->connections += gauge->connections;

        since = gauge->down_since;

        if (since == 0) {
            continue;
        }

        totals->open++;

        if (totals->open == 1 || since < totals->open_since) {
            totals->open_since = since;
        }

        retry = gauge->retry;

        if (totals->open == 1 || retry < totals->retry) {
            totals->retry = retry;
        }
    }

    return NGX_OK;
}


/*
 * Returns 1 if the statistics still own their shared memory.  After some
 * reloads the shared memory of removed statistics may belong to other
 * statistics: the owner differs then.
 */

static ngx_uint_t
ngx_mcds_stat_shares(ngx_mcds_stat_t *stat)
{
    return stat->shared && stat->shared->owner == stat->owner;
}


static ngx_uint_t
ngx_mcds_stat_owns(ngx_mcds_stat_t *stat)
{
    return stat->gauge && stat->gauge->pid == (ngx_atomic_uint_t) ngx_pid
           && ngx_mcds_stat_shares(stat);
}


static ngx_uint_t
ngx_mcds_stat_others_down(ngx_mcds_stat_t *stat)
{
    ngx_uint_t  i;

    for (i = 0; i < stat->ngauges; i++) {
        if (&stat->gauges[i] != stat->gauge && stat->gauges[i].down_since) {
            return 1;
        }
    }

    return 0;
}


/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_sha1.h>
#include "ngx_mcds_stat.h"


static ngx_uint_t ngx_mcds_stat_shares(ngx_mcds_stat_t *stat);
static ngx_uint_t ngx_mcds_stat_owns(ngx_mcds_stat_t *stat);
static ngx_uint_t ngx_mcds_stat_others_down(ngx_mcds_stat_t *stat);


ngx_mcds_stats_t  *ngx_mcds_stats;

ngx_uint_t  ngx_mcds_stat_bounds[NGX_MCDS_STAT_BUCKETS - 1] = {
    50, 100, 250, 500, 1000, 2500, 5000, 10000, 25000, 50000, 100000, 250000,
    500000, 1000000
};


ngx_mcds_stat_t *
ngx_mcds_stat_create(ngx_pool_t *p, ngx_str_t *pool, ngx_str_t *name)
{
    ngx_mcds_stat_t  *stat;

    stat = ngx_pcalloc(p, sizeof(ngx_mcds_stat_t));
    if (stat == NULL) {
        return NULL;
    }

    stat->pool = *pool;
    stat->name = *name;

    return stat;
}


void
ngx_mcds_stat_id(ngx_mcds_stat_t *stat, u_char *id)
{
    ngx_sha1_t  sha1;

    ngx_sha1_init(&sha1);
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

    /* whatever one has left that was killed */

    stat->gauge = &stat->gauges[worker];
    stat->gauge->pid = ngx_pid;
    stat->gauge->pending = 0;
    stat->gauge->connections = 0;
    stat->gauge->down_since = 0;
}


void
ngx_mcds_stat_flush(ngx_mcds_stat_t *stat, ngx_uint_t pending,
    ngx_uint_t connections)
{
    ngx_uint_t  i;

    if (!ngx_mcds_stat_shares(stat)) {
        return;
    }

    for (i = 0; i < NGX_MCDS_STAT_LAST; i++) {
        if (stat->sums[i]) {
            (void) ngx_atomic_fetch_add(&stat->shared->sums[i],
                                        stat->sums[i]);
            stat->sums[i] = 0;
        }
    }

    if (ngx_mcds_stat_owns(stat)) {
        stat->gauge->pending = pending;
        stat->gauge->connections = connections;
    }
}


void
ngx_mcds_stat_detach(ngx_mcds_stat_t *stat)
{
    if (stat->gauge == NULL) {
        return;
    }

    ngx_mcds_stat_flush(stat, 0, 0);

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

        /* of a worker that leaves: its successor has the say */

        return stat->gauge == NULL;
    }

    told = &stat->shared->told;

    if (open) {
        stat->gauge->down_since = now;
        ngx_memory_barrier();

        /* it may stay told by one that has left without a word */

        return ngx_atomic_cmp_set(told, 0, 1)
               || !ngx_mcds_stat_others_down(stat);
    }

    stat->gauge->down_since = 0;
    ngx_memory_barrier();

    if (ngx_mcds_stat_others_down(stat) || !ngx_atomic_cmp_set(told, 1, 0)) {
        return 0;
    }

    if (ngx_mcds_stat_others_down(stat)) {

        /* another one went down in this very moment, and kept silent */

        (void) ngx_atomic_cmp_set(told, 0, 1);
        return 0;
    }

    return 1;
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


ngx_int_t
ngx_mcds_stat_read(ngx_mcds_stat_t *stat, ngx_mcds_stat_totals_t *totals)
{
    ngx_uint_t              i;
    ngx_atomic_uint_t       since;
    ngx_mcds_stat_gauge_t  *gauge;

    if (!ngx_mcds_stat_shares(stat)) {
        return NGX_DECLINED;
    }

    ngx_memzero(totals, sizeof(ngx_mcds_stat_totals_t));

    for (i = 0; i < NGX_MCDS_STAT_LAST; i++) {
        totals->sums[i] = stat->shared->sums[i];
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
    }

    return NGX_OK;
}


/* not if another server has got the place, after some reloads */

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

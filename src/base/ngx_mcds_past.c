
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_past.h"
#include "ngx_mcds_stat_sums.h"


/*
 * The sums that each sample of the history copies from one family of statistics
 * (caches or servers): n sums, from the one with the index "first" on.
 */

typedef struct {
    ngx_uint_t               family;
    ngx_uint_t               first;
    ngx_uint_t               n;
} ngx_mcds_past_part_t;


#define NGX_MCDS_PAST_STATUSES    NGX_MCDS_ZONE_REASONS
#define NGX_MCDS_PAST_BUILT                                                   \
    (NGX_MCDS_ZONE_BUILD_TIME - NGX_MCDS_ZONE_BUILT_STORE)
#define NGX_MCDS_PAST_LATENCY     (1 + NGX_MCDS_STAT_BUCKETS)

#define NGX_MCDS_PAST_SUMS                                                    \
    (NGX_MCDS_PAST_STATUSES + 1 + NGX_MCDS_PAST_BUILT + NGX_MCDS_PAST_LATENCY)


/*
 * A sample of the history of statistics, taken in one minute.  Only the process
 * that takes the sample writes to it; minute is 0 meanwhile.
 */

typedef struct {
    ngx_atomic_t             minute;
    uint64_t                 time;
    uint32_t                 set;
    uint64_t                 sums[NGX_MCDS_PAST_SUMS];
} ngx_mcds_past_sample_t;


struct ngx_mcds_past_s {
    ngx_atomic_t             last;      /* the minute in which statistics were
                                           last sampled */
    ngx_mcds_past_sample_t   samples[NGX_MCDS_PAST_SAMPLES];
};


static uint32_t ngx_mcds_past_hash(ngx_mcds_stat_t *stat);


ngx_mcds_past_t  *ngx_mcds_past;


static ngx_mcds_past_part_t  ngx_mcds_past_parts[] = {
    { NGX_MCDS_STAT_ZONES, NGX_MCDS_ZONE_NONE, NGX_MCDS_PAST_STATUSES },
    { NGX_MCDS_STAT_ZONES, NGX_MCDS_ZONE_ORIGIN, 1 },
    { NGX_MCDS_STAT_ZONES, NGX_MCDS_ZONE_BUILT_STORE, NGX_MCDS_PAST_BUILT },
    { NGX_MCDS_STAT_SERVERS, NGX_MCDS_STAT_LATENCY_SUM,
      NGX_MCDS_PAST_LATENCY }
};

#define NGX_MCDS_PAST_PARTS                                                   \
    (sizeof(ngx_mcds_past_parts) / sizeof(ngx_mcds_past_part_t))


size_t
ngx_mcds_past_size(void)
{
    return sizeof(ngx_mcds_past_t);
}


void
ngx_mcds_past_take(ngx_mcds_past_t *past, ngx_mcds_stats_t *stats, time_t now)
{
    uint64_t                *sum;
    ngx_uint_t               i, n, k;
    ngx_array_t             *list;
    ngx_mcds_stat_t        **stat;
    ngx_atomic_uint_t        last, minute;
    ngx_mcds_past_part_t    *part;
    ngx_mcds_past_sample_t  *sample;
    ngx_mcds_stat_totals_t   totals;

    minute = now / NGX_MCDS_PAST_STEP;
    last = past->last;

    if (minute == last || !ngx_atomic_cmp_set(&past->last, last, minute)) {
        return;
    }

    sample = &past->samples[minute % NGX_MCDS_PAST_SAMPLES];

    sample->minute = 0;
    ngx_memory_barrier();

    sample->time = now;
    sample->set = 0;
    sum = sample->sums;

    for (i = 0; i < NGX_MCDS_PAST_PARTS; i++) {

        part = &ngx_mcds_past_parts[i];
        list = &stats->families[part->family];
        stat = list->elts;

        ngx_memzero(sum, part->n * sizeof(uint64_t));

        for (n = 0; n < list->nelts; n++) {

            if (ngx_mcds_stat_read(stat[n], &totals) != NGX_OK) {
                continue;
            }

            sample->set += ngx_mcds_past_hash(stat[n]);

            for (k = 0; k < part->n; k++) {
                sum[k] += totals.sums[part->first + k];
            }
        }

        sum += part->n;
    }

    ngx_memory_barrier();
    sample->minute = minute;
}


/*
 * Returns a hash of the id of the statistics of a cache or server and of
 * "owner", a number that changes when the shared memory of these statistics is
 * reused for other statistics.  A sample of the history has the sum of the
 * hashes of all caches and servers: the order of the caches and servers in the
 * configuration does not matter.
 */

static uint32_t
ngx_mcds_past_hash(ngx_mcds_stat_t *stat)
{
    uint32_t           hash;
    ngx_atomic_uint_t  owner;

    owner = stat->owner;

    ngx_crc32_init(hash);
    ngx_crc32_update(&hash, stat->shared->id, NGX_MCDS_STAT_ID);
    ngx_crc32_update(&hash, (u_char *) &owner, sizeof(ngx_atomic_uint_t));
    ngx_crc32_final(hash);

    return hash;
}


ngx_int_t
ngx_mcds_past_read(ngx_mcds_past_t *past, ngx_uint_t n, uint64_t *time,
    uint32_t *set, ngx_mcds_stat_totals_t *caches,
    ngx_mcds_stat_totals_t *servers)
{
    uint64_t                *sum;
    ngx_uint_t               i;
    ngx_atomic_uint_t        minute;
    ngx_mcds_past_part_t    *part;
    ngx_mcds_past_sample_t   copy, *sample;
    ngx_mcds_stat_totals_t  *totals;

    minute = past->last - (NGX_MCDS_PAST_SAMPLES - 1) + n;
    sample = &past->samples[minute % NGX_MCDS_PAST_SAMPLES];

    copy = *sample;
    ngx_memory_barrier();

    if (copy.minute != minute || sample->minute != minute || minute == 0) {
        return NGX_DECLINED;
    }

    *time = copy.time;
    *set = copy.set;

    ngx_memzero(caches, sizeof(ngx_mcds_stat_totals_t));
    ngx_memzero(servers, sizeof(ngx_mcds_stat_totals_t));

    sum = copy.sums;

    for (i = 0; i < NGX_MCDS_PAST_PARTS; i++) {
        part = &ngx_mcds_past_parts[i];

        totals = (part->family == NGX_MCDS_STAT_ZONES) ? caches : servers;

        ngx_memcpy(&totals->sums[part->first], sum,
                   part->n * sizeof(uint64_t));
        sum += part->n;
    }

    return NGX_OK;
}


/*
 * Copyright (C) mcds authors
 *
 * The sums of each family of statistics but the servers, whose sums are in
 * ngx_mcds_stat.h.  docs/reference/status.md, "mcds_status", explains them.
 */


#ifndef _NGX_MCDS_STAT_SUMS_H_INCLUDED_
#define _NGX_MCDS_STAT_SUMS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds.h"
#include "ngx_mcds_reason.h"
#include "ngx_mcds_stat.h"


/*
 * the number of sums of a histogram: the total of all durations in
 * milliseconds, and the number of durations in each bucket
 */
#define NGX_MCDS_STAT_TIME        (1 + NGX_MCDS_STAT_TIME_BUCKETS)


/*
 * The values of $mcds_cache_status (ngx_http_mcds_status_e) and their words in
 * statistics.  NGX_MCDS_DRY_STATUS_LIST has the words for requests that the
 * cache would have answered if mcds_cache_dry_run had been off.
 */

#define NGX_MCDS_STATUS_LIST(X)                                               \
    X(NONE, "none")               /* the page was not looked up in the        \
                                     cache */                                 \
    X(BYPASS, "bypass")                                                       \
    X(MISS, "miss")                                                           \
    X(EXPIRED, "expired")                                                     \
    X(STALE, "stale")                                                         \
    X(UPDATING, "updating")                                                   \
    X(REVALIDATED, "revalidated")                                             \
    X(HIT, "hit")

#define NGX_MCDS_DRY_STATUS_LIST(X)                                           \
    X(STALE, "stale_dry_run")                                                 \
    X(UPDATING, "updating_dry_run")                                           \
    X(HIT, "hit_dry_run")


/*
 * the results of building a page (fetching it from the origin to store it), by
 * ngx_mcds_build_e, and their words in statistics
 */

#define NGX_MCDS_BUILD_LIST(X)                                                \
    X(STORE, "stored")                                                        \
    X(RENEW, "renewed")                                                       \
    X(PASS, "uncacheable")                                                    \
    X(BACKOFF, "failed")                                                      \
    X(FAILED, "abandoned")


/* the results of requests for a lock, by ngx_mcds_lock_e, and their words */

#define NGX_MCDS_LOCK_LIST(X)                                                 \
    X(HELD, "acquired")                                                       \
    X(BUSY, "busy")                                                           \
    X(LATE, "timeout")                                                        \
    X(FULL, "full")                                                           \
    X(UNAVAILABLE, "unavailable")


/* the sums that statistics have of a cache */

#define ngx_mcds_zone_status(name, word)  NGX_MCDS_ZONE_##name,
#define ngx_mcds_zone_dry(name, word)     NGX_MCDS_ZONE_##name##_DRY,
#define ngx_mcds_zone_built(name, word)   NGX_MCDS_ZONE_BUILT_##name,

typedef enum {
    /* the number of requests to the cache by $mcds_cache_status */
    NGX_MCDS_STATUS_LIST(ngx_mcds_zone_status)
    NGX_MCDS_DRY_STATUS_LIST(ngx_mcds_zone_dry)

    NGX_MCDS_ZONE_REASONS,        /* requests to the cache, a sum for each
                                     reason of their status */
    NGX_MCDS_ZONE_REFUSED = NGX_MCDS_ZONE_REASONS + NGX_MCDS_REASON_LAST,
                                  /*
                                   * REFUSED: responses not stored, a sum for
                                   * each reason
                                   */

    NGX_MCDS_ZONE_ORIGIN = NGX_MCDS_ZONE_REFUSED + NGX_MCDS_REASON_LAST,
    NGX_MCDS_ZONE_FILL,           /* started builds of pages: FILL if the
                                     request that starts the build waits for
                                     it, REFRESH if the request does not */
    NGX_MCDS_ZONE_REFRESH,

    /* ended builds of pages, a sum for each result, such as "stored" */
    NGX_MCDS_BUILD_LIST(ngx_mcds_zone_built)
    NGX_MCDS_ZONE_BUILD_TIME,

    NGX_MCDS_ZONE_STORED = NGX_MCDS_ZONE_BUILD_TIME + NGX_MCDS_STAT_TIME,
    NGX_MCDS_ZONE_TOO_LARGE,      /* pages that could not be stored, by cause */
    NGX_MCDS_ZONE_EVICTED,
    NGX_MCDS_ZONE_CHANGED,
    NGX_MCDS_ZONE_STORE_FAILED,

    NGX_MCDS_ZONE_WAIT_BUILT,     /* requests that waited for a page, by
                                     outcome */
    NGX_MCDS_ZONE_WAIT_PASS,
    NGX_MCDS_ZONE_WAIT_FAILED,
    NGX_MCDS_ZONE_WAIT_TAKEOVER,
    NGX_MCDS_ZONE_WAIT_AGAIN,
    NGX_MCDS_ZONE_WAIT_TIMEOUT,
    NGX_MCDS_ZONE_WAIT_ABORTED,
    NGX_MCDS_ZONE_WAIT_FULL,      /* requests that were not allowed to wait for
                                     a page */
    NGX_MCDS_ZONE_WAIT_TIME,

    NGX_MCDS_ZONE_BACKOFFS = NGX_MCDS_ZONE_WAIT_TIME + NGX_MCDS_STAT_TIME,
    NGX_MCDS_ZONE_BYTES,
    NGX_MCDS_ZONE_PURGES,
    NGX_MCDS_ZONE_LAST
} ngx_mcds_zone_sum_e;


/* the sums that statistics have of a lock, such as requests by outcome */

#define ngx_mcds_stat_lock_status(name, word)  NGX_MCDS_STAT_LOCK_##name,

typedef enum {
    NGX_MCDS_LOCK_LIST(ngx_mcds_stat_lock_status)
    NGX_MCDS_STAT_LOCK_LOST,
    NGX_MCDS_STAT_LOCK_TIME,

    NGX_MCDS_STAT_LOCK_READ = NGX_MCDS_STAT_LOCK_TIME + NGX_MCDS_STAT_TIME,
    NGX_MCDS_STAT_LOCK_RENEW,     /* requests of mcds_lock_api to renew a
                                     lock */
    NGX_MCDS_STAT_LOCK_RELEASE,   /* requests of mcds_lock_api to release a
                                     lock */
    NGX_MCDS_STAT_LOCK_FAILED,    /* failed requests of mcds_lock_api other
                                     than POST, a sum for each memcached
                                     result, ngx_mcds_rc_e */
    NGX_MCDS_STAT_LOCK_LAST = NGX_MCDS_STAT_LOCK_FAILED + NGX_MCDS_RC_LAST
} ngx_mcds_stat_lock_sum_e;


/* the sums of a counter, log, array or table: operations and failures */

typedef enum {
    NGX_MCDS_DATA_READ = 0,       /* reads of a counter, log, array or table,
                                     of one of its elements, or of a list of
                                     the most frequent keys */
    NGX_MCDS_DATA_COUNT,          /* increments of a counter */
    NGX_MCDS_DATA_VISITORS,       /* increments of a counter by a new visitor */
    NGX_MCDS_DATA_PUSH,           /* elements pushed by mcds_array_push */
    NGX_MCDS_DATA_CHANGE,         /* changes of an array or table, and POST
                                     requests to a log */
    NGX_MCDS_DATA_GET,            /* lookups by mcds_table_lookup */
    NGX_MCDS_DATA_FOUND,          /* lookups that found the element in the
                                     table */
    NGX_MCDS_DATA_FOLLOW,         /* requests that follow a log */
    NGX_MCDS_DATA_WRITTEN,        /* lines written to a log */
    NGX_MCDS_DATA_LOST,
    NGX_MCDS_DATA_FAILED,         /* failed operations on a counter, log,
                                     array or table, a sum for each memcached
                                     result, ngx_mcds_rc_e */
    NGX_MCDS_DATA_LAST = NGX_MCDS_DATA_FAILED + NGX_MCDS_RC_LAST
} ngx_mcds_data_sum_e;


#endif /* _NGX_MCDS_STAT_SUMS_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * Statistics of all workers of this host: of the servers of pools, of caches,
 * counters, locks, logs, arrays and tables.
 *
 * A worker counts in its own memory and from time to time adds its sums to
 * shared memory.  So counting costs one addition, and takes no lock.  Values
 * that are no sums (pending operations, open connections, the breaker) have a
 * gauge for each worker, which the next worker with the same number
 * (ngx_worker) takes over; only servers have gauges.
 */


#ifndef _NGX_MCDS_STAT_H_INCLUDED_
#define _NGX_MCDS_STAT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds.h"


/*
 * the number of buckets of the latency of servers; the last one has no upper
 * bound
 */
#define NGX_MCDS_STAT_BUCKETS     15

/*
 * the number of buckets in a histogram of the times to build a page, or to wait
 * for a page or lock; the last bucket has no upper bound
 */
#define NGX_MCDS_STAT_TIME_BUCKETS  14

#define NGX_MCDS_STAT_ID          20

/*
 * the maximum number of sums of a family of statistics (servers, caches,
 * counters and so on); checked when compiling
 */
#define NGX_MCDS_STAT_MAX         256


/*
 * The families of statistics: the name of each, and the number of its sums.
 * The sums are declared below and in ngx_mcds_stat_sums.h.
 */

#define NGX_MCDS_FAMILY_LIST(X)                                               \
    X(SERVERS, "servers", NGX_MCDS_STAT_LAST)                                 \
    X(ZONES, "caches", NGX_MCDS_ZONE_LAST)                                    \
    X(COUNTERS, "counters", NGX_MCDS_DATA_LAST)                               \
    X(LOCKS, "locks", NGX_MCDS_STAT_LOCK_LAST)                                \
    X(LOGS, "logs", NGX_MCDS_DATA_LAST)                                       \
    X(ARRAYS, "arrays", NGX_MCDS_DATA_LAST)                                   \
    X(TABLES, "tables", NGX_MCDS_DATA_LAST)

#define ngx_mcds_stat_family_item(name, word, nsums)  NGX_MCDS_STAT_##name,

typedef enum {
    NGX_MCDS_FAMILY_LIST(ngx_mcds_stat_family_item)
    NGX_MCDS_STAT_FAMILIES
} ngx_mcds_stat_family_e;


/* the kinds of counters and their names in statistics; NUMBER is the default */

#define NGX_MCDS_KIND_LIST(X)                                                 \
    X(NUMBER, "counter")                                                      \
    X(VISITORS, "visitors")                                                   \
    X(KEYS, "keys")               /* all counters of a location with          \
                                     mcds_counter_api, as one entry */        \
    X(TOP, "top")

#define ngx_mcds_stat_kind(name, word)  NGX_MCDS_STAT_##name,

typedef enum {
    NGX_MCDS_KIND_LIST(ngx_mcds_stat_kind)
    NGX_MCDS_STAT_KINDS
} ngx_mcds_stat_kind_e;


/*
 * The sums that statistics have of a server; docs/reference/status.md explains
 * each of them.
 */

typedef enum {
    NGX_MCDS_STAT_GET = 0,        /* operations of the server, a sum for each
                                     kind */
    NGX_MCDS_STAT_SET,
    NGX_MCDS_STAT_ADD,
    NGX_MCDS_STAT_APPEND,
    NGX_MCDS_STAT_INCR,
    NGX_MCDS_STAT_DECR,
    NGX_MCDS_STAT_DELETE,
    NGX_MCDS_STAT_TOUCH,

    NGX_MCDS_STAT_HITS,           /* get operations of the server: hits, and
                                     misses */
    NGX_MCDS_STAT_MISSES,
    NGX_MCDS_STAT_RESULTS,        /* operations by result, a sum for each of
                                     ngx_mcds_rc_e */

    NGX_MCDS_STAT_CONNECTS = NGX_MCDS_STAT_RESULTS + NGX_MCDS_RC_LAST,
    NGX_MCDS_STAT_LOST_CLOSED,
    NGX_MCDS_STAT_LOST_TIMEOUT,
    NGX_MCDS_STAT_LOST_PROTOCOL,
    NGX_MCDS_STAT_LOST_TLS,
    NGX_MCDS_STAT_LOST_REFUSED,

    NGX_MCDS_STAT_SENT,           /* bytes sent to and received from the
                                     server */
    NGX_MCDS_STAT_RECEIVED,

    NGX_MCDS_STAT_BREAKS,
    NGX_MCDS_STAT_PROBES,

    NGX_MCDS_STAT_LATENCY_SUM,    /* sum of the latencies of all replies, in
                                     microseconds */
    NGX_MCDS_STAT_LATENCY,        /* replies of the server, a sum for each
                                     bucket of latency */

    NGX_MCDS_STAT_LAST = NGX_MCDS_STAT_LATENCY + NGX_MCDS_STAT_BUCKETS
} ngx_mcds_stat_e;


/*
 * A sum of statistics in shared memory.  It has 64 bits on all systems, and is
 * read and written atomically: on i386 by cmpxchg8b, within one cache line.
 */

typedef uint64_t  ngx_mcds_stat_sum_t  __attribute__((aligned(8)));


/*
 * The gauges that one worker has of a server, in shared memory; only the
 * process "pid" writes them.
 */

typedef struct {
    ngx_atomic_t           pid;
    ngx_atomic_t           pending;     /* operations of the worker without a
                                           reply yet */
    ngx_atomic_t           connections;
    ngx_atomic_t           down_since;  /* when the worker's breaker opened,
                                           seconds since the epoch; 0: closed */
    ngx_atomic_t           retry;       /* when the worker probes the server
                                           next, seconds since the epoch */
} ngx_mcds_stat_gauge_t;


/*
 * The memory usage of a server as reported by "stats" of memcached, in shared
 * memory.  TIME is the time of the last report, in seconds since the epoch; 0:
 * there was none.
 */

#define NGX_MCDS_USAGE_LIST(X)                                                \
    X(BYTES, "bytes")                                                         \
    X(LIMIT, "limit_maxbytes")                                                \
    X(ITEMS, "curr_items")                                                    \
    X(EVICTIONS, "evictions")

#define ngx_mcds_usage(name, word)  NGX_MCDS_USAGE_##name,

typedef enum {
    NGX_MCDS_USAGE_TIME = 0,
    NGX_MCDS_USAGE_LIST(ngx_mcds_usage)
    NGX_MCDS_USAGE_LAST
} ngx_mcds_usage_e;


typedef struct {
    ngx_atomic_t           asked;       /* when the server was last asked for
                                           its memory usage, seconds since the
                                           epoch */
    ngx_mcds_stat_sum_t    values[NGX_MCDS_USAGE_LAST];
} ngx_mcds_stat_usage_t;


/*
 * Statistics in shared memory, which pass from one configuration to the next.
 */

typedef struct ngx_mcds_stat_shared_s  ngx_mcds_stat_shared_t;

struct ngx_mcds_stat_shared_s {
    ngx_mcds_stat_shared_t  *next;

    u_char                   id[NGX_MCDS_STAT_ID];
    ngx_atomic_t             owner;     /* number that changes when this shared
                                           memory goes to other statistics */

    /* the number, from 1, of the last configuration with these statistics */
    ngx_uint_t               generation;

    ngx_mcds_stat_gauge_t   *gauges;
    ngx_uint_t               ngauges;
    ngx_atomic_t             told;      /* 1: the log has reported the server as
                                           down */
    ngx_mcds_stat_usage_t   *usage;     /* the memory usage of a server; NULL
                                           in statistics of anything else */

    ngx_uint_t               nsums;
    ngx_mcds_stat_sum_t     *sums;
};


/*
 * the statistics of a server, cache, counter, lock or the like in one
 * configuration and worker
 */

typedef struct ngx_mcds_stat_s  ngx_mcds_stat_t;

struct ngx_mcds_stat_s {
    ngx_uint_t               family;
    ngx_str_t                pool;      /* the pool's name; empty for a cache */
    ngx_str_t                name;
    ngx_uint_t               kind;      /* kind of a counter,
                                           ngx_mcds_stat_kind_e */
    ngx_uint_t               disabled;  /* 1: a server marked "down" in the
                                           configuration */

    ngx_mcds_stat_shared_t  *shared;    /* the statistics in shared memory;
                                           NULL: no mcds_zone, or no room */
    ngx_atomic_uint_t        owner;
    ngx_mcds_stat_gauge_t   *gauges;
    ngx_uint_t               ngauges;   /* number of elements in gauges, one for
                                           each worker */

    ngx_mcds_stat_gauge_t   *gauge;     /* this worker's gauges of the server
                                           in shared memory; NULL: none */
    ngx_uint_t               pending;
    ngx_uint_t               connections;

    void                   (*gather)(ngx_mcds_stat_t *stat);
                                        /*
                                         * gather() sets the gauges pending and
                                         * connections; called before the sums
                                         * are flushed to shared memory; or NULL
                                         */
    void                    *data;      /* data for gather(), the handler called
                                           before the sums are flushed */

    ngx_queue_t              changed;   /* link in the queue of statistics to be
                                           flushed; next NULL: not queued */
    ngx_uint_t               nsums;
    uint64_t                *sums;      /* the sums that this worker has counted
                                           since the last flush */
};


/*
 * the totals of the statistics of a server, cache, counter, lock or the like
 * over all workers
 */

typedef struct {
    uint64_t                 pending;
    uint64_t                 connections;
    uint64_t                 open;      /* number of workers whose breaker is
                                           open */
    uint64_t                 open_since;  /* when the first of the workers'
                                             open breakers opened, seconds
                                             since the epoch; 0: none is open */
    uint64_t                 retry;     /* when any worker probes the server
                                           next, seconds since the epoch */
    uint64_t                 usage[NGX_MCDS_USAGE_LAST];
    uint64_t                 sums[NGX_MCDS_STAT_MAX];
} ngx_mcds_stat_totals_t;


/* the statistics of one loaded configuration of nginx, from start or reload */

typedef struct {
    ngx_array_t              families[NGX_MCDS_STAT_FAMILIES];
                                        /*
                                         * each element of families lists the
                                         * statistics of one family (servers,
                                         * caches, ...), ngx_mcds_stat_t *;
                                         * servers are in the order of the pools
                                         */
    ngx_uint_t               generation;  /* number of configurations since the
                                             start of nginx */
    ngx_uint_t               workers;
    time_t                   since;     /* when these statistics began to
                                           count */
    time_t                   loaded;    /* when the configuration was loaded */
} ngx_mcds_stats_t;


/*
 * Memory of this worker that depends on the behavior of clients, in bytes: of
 * stored responses that their clients have not read yet, of long bodies that
 * are being stored as several items, and of the pages in the worker's memory.
 * Each of the three is bounded by the code that uses it.
 */

typedef struct {
    size_t                   unsent;
    size_t                   storing;
    size_t                   pages;
} ngx_mcds_memory_t;

extern ngx_mcds_memory_t  ngx_mcds_memory;


/*
 * the statistics of this worker, or NULL; set by the code that has read the
 * configuration
 */

extern ngx_mcds_stats_t  *ngx_mcds_stats;

/*
 * starts the timer that flushes the sums of statistics to shared memory, unless
 * the timer is running; NULL until the worker starts
 */

extern void  (*ngx_mcds_stat_wake)(void);

/*
 * upper bounds of all histogram buckets but the last, which has none: of server
 * latencies, in microseconds; of the times to build a page, or to wait for a
 * page or lock, in milliseconds
 */

extern ngx_uint_t  ngx_mcds_stat_bounds[NGX_MCDS_STAT_BUCKETS - 1];
extern ngx_uint_t  ngx_mcds_stat_times[NGX_MCDS_STAT_TIME_BUCKETS - 1];


/*
 * Creates the statistics of a server, cache, counter or the like, while the
 * configuration is read.  The names are not copied.  Returns NULL if out of
 * memory.
 */

ngx_mcds_stat_t *ngx_mcds_stat_create(ngx_pool_t *p, ngx_uint_t family,
    ngx_str_t *pool, ngx_str_t *name);


/*
 * Writes the NGX_MCDS_STAT_ID bytes that identify the statistics across
 * configurations.
 */

void ngx_mcds_stat_id(ngx_mcds_stat_t *stat, u_char *id);

/* Returns the number of sums of a family of statistics, such as caches. */

ngx_uint_t ngx_mcds_stat_nsums(ngx_uint_t family);


/* Returns the name of a family of statistics, such as "caches", for output. */

char *ngx_mcds_stat_family(ngx_uint_t family);


/*
 * The functions of statistics from here on are called in a worker.  Without
 * shared memory they count in the memory of the worker only.
 */


/*
 * Makes this worker the owner of its gauges of a server in shared memory
 * (pending operations, open connections, breaker), and sets the gauges to 0;
 * worker is the number of this worker.
 */

void ngx_mcds_stat_attach(ngx_mcds_stat_t *stat, ngx_uint_t worker);


/*
 * Queues the statistics for the next flush to shared memory; called when a sum
 * has changed.
 */

void ngx_mcds_stat_changed(ngx_mcds_stat_t *stat);


/*
 * Adds the sums that this worker has counted to those in shared memory, and
 * updates the worker's gauges of the server.
 */

void ngx_mcds_stat_flush(ngx_mcds_stat_t *stat);


/* Flushes the sums of all queued statistics to shared memory. */

void ngx_mcds_stat_flush_all(void);


/*
 * Records that the breaker of a server has opened ("open" is 1) or closed in
 * this worker.  Returns 1 if the caller is to log the change: the log has only
 * the first breaker of the host that opens, and the last one that closes.  now
 * is in seconds since the epoch.
 */

ngx_uint_t ngx_mcds_stat_breaker(ngx_mcds_stat_t *stat, ngx_uint_t open,
    time_t now);


/*
 * Sets the time of this worker's next probe of the server, in seconds since the
 * epoch.
 */

void ngx_mcds_stat_retry(ngx_mcds_stat_t *stat, time_t when);


/*
 * Flushes the sums of a server's statistics a last time when the worker exits,
 * and clears this worker's gauges of the server in shared memory, unless a new
 * worker with the same number already uses them.  If the statistics have no
 * gauges, nothing is flushed: ngx_mcds_stat_flush_all() flushes their sums.
 */

void ngx_mcds_stat_detach(ngx_mcds_stat_t *stat);


/*
 * Returns 1 for one worker in each second, which is to ask the server for its
 * memory usage; 0 for all other workers, and without shared memory.  now is in
 * seconds since the epoch.
 */

ngx_uint_t ngx_mcds_stat_ask(ngx_mcds_stat_t *stat, time_t now);


/* Stores one value of the server's memory usage, by ngx_mcds_usage_e. */

void ngx_mcds_stat_usage(ngx_mcds_stat_t *stat, ngx_uint_t i, uint64_t n);


/* Adds n to the sum i of the statistics, which may be NULL. */

static ngx_inline void
ngx_mcds_stat_add(ngx_mcds_stat_t *stat, ngx_uint_t i, uint64_t n)
{
    if (stat) {
        stat->sums[i] += n;

        if (stat->changed.next == NULL) {
            ngx_mcds_stat_changed(stat);
        }
    }
}


/*
 * Counts a reply of a server, with its latency of "us" microseconds.  Does not
 * queue the statistics for a flush; stat must not be NULL.
 */

void ngx_mcds_stat_latency(ngx_mcds_stat_t *stat, ngx_uint_t us);


/*
 * Adds a duration in milliseconds to a histogram, an array of sums: sums[i] is
 * the total of all durations, the sums of the buckets follow.  stat may be
 * NULL.
 */

void ngx_mcds_stat_time(ngx_mcds_stat_t *stat, ngx_uint_t i, ngx_msec_t ms);


/*
 * Reads the totals of the statistics over all workers from shared memory.
 * Returns NGX_DECLINED if the statistics have no shared memory.
 */

ngx_int_t ngx_mcds_stat_read(ngx_mcds_stat_t *stat,
    ngx_mcds_stat_totals_t *totals);


#endif /* _NGX_MCDS_STAT_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * Numbers of all workers of this host: about the servers of pools, zones of
 * pages, counters, locks, logs, arrays and tables.
 *
 * A worker counts in memory of its own, and adds what it has counted to the
 * memory that it shares with others from time to time: so counting costs an
 * addition, and nothing is locked.  What is not a sum (how much waits, is the
 * breaker open) has a place for each worker, which its successor takes over;
 * servers alone have such.
 */


#ifndef _NGX_MCDS_STAT_H_INCLUDED_
#define _NGX_MCDS_STAT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds.h"


/* bounds of the latency, and one for what is above all of them */
#define NGX_MCDS_STAT_BUCKETS     15

/* the same of what takes longer: builds and waits */
#define NGX_MCDS_STAT_TIMES       14

#define NGX_MCDS_STAT_ID          20

/* no family has more sums, which is checked */
#define NGX_MCDS_STAT_MAX         256


/* what there are numbers of; see ngx_mcds_stat_sums.h for their sums */

typedef enum {
    NGX_MCDS_STAT_SERVERS = 0,
    NGX_MCDS_STAT_ZONES,
    NGX_MCDS_STAT_COUNTERS,
    NGX_MCDS_STAT_LOCKS,
    NGX_MCDS_STAT_LOGS,
    NGX_MCDS_STAT_ARRAYS,
    NGX_MCDS_STAT_TABLES,
    NGX_MCDS_STAT_FAMILIES
} ngx_mcds_stat_family_e;


/* what a counter is; number is that of most */

typedef enum {
    NGX_MCDS_STAT_NUMBER = 0,
    NGX_MCDS_STAT_VISITORS,
    NGX_MCDS_STAT_KEYS,           /* of mcds_counter_api */
    NGX_MCDS_STAT_TOP
} ngx_mcds_stat_kind_e;


/* sums of a server; what each means is told in docs/reference/status.md */

typedef enum {
    NGX_MCDS_STAT_GET = 0,        /* operations */
    NGX_MCDS_STAT_SET,
    NGX_MCDS_STAT_ADD,
    NGX_MCDS_STAT_APPEND,
    NGX_MCDS_STAT_INCR,
    NGX_MCDS_STAT_DECR,
    NGX_MCDS_STAT_DELETE,
    NGX_MCDS_STAT_TOUCH,

    NGX_MCDS_STAT_HITS,           /* of GET */
    NGX_MCDS_STAT_MISSES,
    NGX_MCDS_STAT_RESULTS,        /* one for each of ngx_mcds_rc_e */

    NGX_MCDS_STAT_CONNECTS = NGX_MCDS_STAT_RESULTS + NGX_MCDS_RC_LAST,
    NGX_MCDS_STAT_LOST_CLOSED,
    NGX_MCDS_STAT_LOST_TIMEOUT,
    NGX_MCDS_STAT_LOST_PROTOCOL,
    NGX_MCDS_STAT_LOST_TLS,
    NGX_MCDS_STAT_LOST_REFUSED,

    NGX_MCDS_STAT_SENT,           /* bytes */
    NGX_MCDS_STAT_RECEIVED,

    NGX_MCDS_STAT_BREAKS,
    NGX_MCDS_STAT_PROBES,

    NGX_MCDS_STAT_LATENCY_SUM,    /* microseconds */
    NGX_MCDS_STAT_LATENCY,        /* one for each bucket */

    NGX_MCDS_STAT_LAST = NGX_MCDS_STAT_LATENCY + NGX_MCDS_STAT_BUCKETS
} ngx_mcds_stat_e;


/*
 * A sum in shared memory.  It has 64 bits everywhere, which are read and
 * written at once: on i386 by cmpxchg8b, in one line of the cache.
 */

typedef uint64_t  ngx_mcds_stat_sum_t  __attribute__((aligned(8)));


/* of one worker, in shared memory; written by the process pid alone */

typedef struct {
    ngx_atomic_t           pid;
    ngx_atomic_t           pending;     /* operations */
    ngx_atomic_t           connections;
    ngx_atomic_t           down_since;  /* seconds since the epoch, 0: well */
    ngx_atomic_t           retry;       /* the same: of the next probe */
} ngx_mcds_stat_gauge_t;


/*
 * Of a server, in shared memory: what it said of itself when it was asked last.
 * time: seconds since the epoch, 0: never; all others as "stats" of memcached
 * has them.
 */

typedef enum {
    NGX_MCDS_USAGE_TIME = 0,
    NGX_MCDS_USAGE_BYTES,
    NGX_MCDS_USAGE_LIMIT,
    NGX_MCDS_USAGE_ITEMS,
    NGX_MCDS_USAGE_EVICTIONS,
    NGX_MCDS_USAGE_LAST
} ngx_mcds_usage_e;


typedef struct {
    ngx_atomic_t           asked;       /* seconds since the epoch */
    ngx_mcds_stat_sum_t    values[NGX_MCDS_USAGE_LAST];
} ngx_mcds_stat_usage_t;


/* of one of these, in shared memory, from one configuration to the next */

typedef struct ngx_mcds_stat_shared_s  ngx_mcds_stat_shared_t;

struct ngx_mcds_stat_shared_s {
    ngx_mcds_stat_shared_t  *next;

    u_char                   id[NGX_MCDS_STAT_ID];
    ngx_atomic_t             owner;     /* differs when it got another id */
    ngx_uint_t               generation;  /* of the last one that had it */

    ngx_mcds_stat_gauge_t   *gauges;
    ngx_uint_t               ngauges;
    ngx_atomic_t             told;      /* the log has that it is down */
    ngx_mcds_stat_usage_t   *usage;     /* of servers */

    ngx_uint_t               nsums;
    ngx_mcds_stat_sum_t     *sums;
};


/* the same in one configuration and worker */

typedef struct ngx_mcds_stat_s  ngx_mcds_stat_t;

struct ngx_mcds_stat_s {
    ngx_uint_t               family;
    ngx_str_t                pool;      /* names; that of a zone's is empty */
    ngx_str_t                name;
    ngx_uint_t               kind;      /* of counters */
    ngx_uint_t               disabled;  /* "down" in the configuration */

    ngx_mcds_stat_shared_t  *shared;    /* NULL: no room */
    ngx_atomic_uint_t        owner;
    ngx_mcds_stat_gauge_t   *gauges;
    ngx_uint_t               ngauges;   /* as many as there are workers */

    ngx_mcds_stat_gauge_t   *gauge;     /* of this worker, or NULL */
    ngx_uint_t               pending;
    ngx_uint_t               connections;

    void                   (*gather)(ngx_mcds_stat_t *stat);
                                        /* sets the two, or NULL */
    void                    *data;      /* of it */

    ngx_queue_t              changed;   /* next is not NULL: has sums */
    ngx_uint_t               nsums;
    uint64_t                *sums;      /* not added yet */
};


/* of all workers */

typedef struct {
    uint64_t                 pending;
    uint64_t                 connections;
    uint64_t                 open;      /* workers with an open breaker */
    uint64_t                 open_since;  /* of the first of them */
    uint64_t                 retry;     /* the first of their next probes */
    uint64_t                 usage[NGX_MCDS_USAGE_LAST];
    uint64_t                 sums[NGX_MCDS_STAT_MAX];
} ngx_mcds_stat_totals_t;


/* all that there is to be shown, of one configuration */

typedef struct {
    ngx_array_t              families[NGX_MCDS_STAT_FAMILIES];
                                        /* ngx_mcds_stat_t *; servers are in
                                           the order of pools */
    ngx_uint_t               generation;  /* configurations since the start */
    ngx_uint_t               workers;
    time_t                   since;     /* the sums began */
    time_t                   loaded;    /* the configuration */
} ngx_mcds_stats_t;


/*
 * Bytes that clients can make this worker hold, each bounded by its owner:
 * answers that are stored and not read by their clients, bodies in parts that
 * are being stored, what is remembered of pages.
 */

typedef struct {
    size_t                   unsent;
    size_t                   storing;
    size_t                   pages;
} ngx_mcds_memory_t;

extern ngx_mcds_memory_t  ngx_mcds_memory;


/* of this worker, or NULL; set by who has read the configuration */

extern ngx_mcds_stats_t  *ngx_mcds_stats;

/* called when there is something to be flushed; set by who has a clock */

extern void  (*ngx_mcds_stat_wake)(void);

/* upper bounds of the buckets but the last: microseconds, milliseconds */

extern ngx_uint_t  ngx_mcds_stat_bounds[NGX_MCDS_STAT_BUCKETS - 1];
extern ngx_uint_t  ngx_mcds_stat_times[NGX_MCDS_STAT_TIMES - 1];


/*
 * While the configuration is read.  create: NULL when out of memory; the names
 * are not copied.  id: what tells one from all others.
 */

ngx_mcds_stat_t *ngx_mcds_stat_create(ngx_pool_t *p, ngx_uint_t family,
    ngx_str_t *pool, ngx_str_t *name);
void ngx_mcds_stat_id(ngx_mcds_stat_t *stat, u_char *id);

/* how many sums one of the family has, and what its members are called */

ngx_uint_t ngx_mcds_stat_nsums(ngx_uint_t family);
char *ngx_mcds_stat_family(ngx_uint_t family);


/*
 * In a worker; all of them do what they can where there is nothing shared.
 * attach: takes the place of the worker of that number.  changed: a sum was
 * added to; it is flushed soon.  flush: adds the sums and says how much waits.
 * flush_all: the same for all that have changed.  breaker: it opens or closes
 * in this worker; 1 if that is news for the whole host: the first one that
 * opens, the last one that closes.  retry: when the worker tries it again,
 * seconds since the epoch.  detach: gives the place back, after the last flush;
 * who has none is flushed with all others.
 *
 * ask: 1 for one worker in each second, which is to ask the server for its
 * usage; 0 for all others, and where nothing is shared.  usage: keeps that one
 * of ngx_mcds_usage_e.
 */

void ngx_mcds_stat_attach(ngx_mcds_stat_t *stat, ngx_uint_t worker);
void ngx_mcds_stat_changed(ngx_mcds_stat_t *stat);
void ngx_mcds_stat_flush(ngx_mcds_stat_t *stat);
void ngx_mcds_stat_flush_all(void);
ngx_uint_t ngx_mcds_stat_breaker(ngx_mcds_stat_t *stat, ngx_uint_t open,
    time_t now);
void ngx_mcds_stat_retry(ngx_mcds_stat_t *stat, time_t when);
void ngx_mcds_stat_detach(ngx_mcds_stat_t *stat);
ngx_uint_t ngx_mcds_stat_ask(ngx_mcds_stat_t *stat, time_t now);
void ngx_mcds_stat_usage(ngx_mcds_stat_t *stat, ngx_uint_t i, uint64_t n);


/*
 * add: to a sum.  latency: counts an answer of a server that took so many
 * microseconds, without saying that it has changed.  time: what took so many
 * milliseconds; the sum of all is sums[i], the buckets are behind it.  All may
 * be called with NULL but latency.
 */

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


void ngx_mcds_stat_latency(ngx_mcds_stat_t *stat, ngx_uint_t us);
void ngx_mcds_stat_time(ngx_mcds_stat_t *stat, ngx_uint_t i, ngx_msec_t ms);


/* of all workers, for who shows it; NGX_DECLINED: nothing of this is shared */

ngx_int_t ngx_mcds_stat_read(ngx_mcds_stat_t *stat,
    ngx_mcds_stat_totals_t *totals);


#endif /* _NGX_MCDS_STAT_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * The statistics of servers, and the timer that flushes all statistics of a
 * worker to shared memory.  The first change starts the timer, and the timer
 * stops when there are no changes.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_conn.h"
#include "ngx_mcds_spare.h"
#include "ngx_mcds_timer.h"
#include "ngx_mcds_client_stat.h"


/*
 * the interval at which a worker flushes changes of its statistics to shared
 * memory, in milliseconds; a worker that is killed loses those not yet flushed
 */
#define NGX_MCDS_FLUSH_INTERVAL   50


/* the results of the module's own commands (probes, "stats") are not counted */
#define ngx_mcds_client_stat_skips(ex)                                        \
    ((ex)->probe || (ex)->verb == NGX_MCDS_STATS)


static void ngx_mcds_client_stat_gather(ngx_mcds_stat_t *stat);
static void ngx_mcds_client_stat_conn(ngx_mcds_conn_t *conn,
    ngx_uint_t *pending, ngx_uint_t *connections);
static void ngx_mcds_client_stat_wake(void);
static void ngx_mcds_client_stat_timer_handler(ngx_event_t *ev);


static ngx_uint_t  ngx_mcds_client_stat_verbs[] = {
    NGX_MCDS_STAT_GET,
    NGX_MCDS_STAT_SET,
    NGX_MCDS_STAT_ADD,
    NGX_MCDS_STAT_APPEND,
    NGX_MCDS_STAT_INCR,
    NGX_MCDS_STAT_DECR,
    NGX_MCDS_STAT_DELETE,
    NGX_MCDS_STAT_TOUCH
};


/* the timer that flushes the statistics of this worker */

static ngx_event_t  ngx_mcds_client_stat_timer;


ngx_int_t
ngx_mcds_pool_stats(ngx_mcds_pool_t *pool, ngx_array_t *stats)
{
    ngx_uint_t           i;
    ngx_mcds_stat_t    **stat;
    ngx_mcds_server_t   *server;

    server = pool->servers.elts;

    for (i = 0; i < pool->servers.nelts; i++) {
        stat = ngx_array_push(stats);
        if (stat == NULL) {
            return NGX_ERROR;
        }

        *stat = server[i].stat;

        (*stat)->gather = ngx_mcds_client_stat_gather;
        (*stat)->data = &server[i];
    }

    return NGX_OK;
}


void
ngx_mcds_pool_stats_start(void)
{
    ngx_mcds_timer_init(&ngx_mcds_client_stat_timer,
                        ngx_mcds_client_stat_timer_handler);

    /*
     * the timer that flushes the statistics need not delay the exit of a
     * worker, which flushes them a last time
     */

    ngx_mcds_client_stat_timer.cancelable = 1;

    ngx_mcds_stat_wake = ngx_mcds_client_stat_wake;
}


uint64_t
ngx_mcds_client_stat_clock(void)
{
    struct timespec  ts;

    (void) clock_gettime(CLOCK_MONOTONIC, &ts);

    return (uint64_t) ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}


void
ngx_mcds_client_stat_changed(ngx_mcds_server_t *server)
{
    ngx_mcds_stat_changed(server->stat);
}


void
ngx_mcds_client_stat_op(ngx_mcds_server_t *server, ngx_mcds_exchange_t *ex)
{
    if (ex->probe) {
        server->stat->sums[NGX_MCDS_STAT_PROBES]++;

    } else if (ex->verb < NGX_MCDS_NOOP) {
        server->stat->sums[ngx_mcds_client_stat_verbs[ex->verb]]++;
    }

    ngx_mcds_client_stat_changed(server);
}


void
ngx_mcds_client_stat_answer(ngx_mcds_conn_t *conn, ngx_mcds_exchange_t *ex,
    ngx_uint_t rc)
{
    uint64_t          us;
    ngx_mcds_stat_t  *stat;

    if (ngx_mcds_client_stat_skips(ex)) {
        return;
    }

    stat = conn->server->stat;

    stat->sums[NGX_MCDS_STAT_RESULTS + rc]++;

    if (ex->verb == NGX_MCDS_GET) {
        if (rc == NGX_MCDS_OK) {
            stat->sums[NGX_MCDS_STAT_HITS]++;

        } else if (rc == NGX_MCDS_NOT_FOUND) {
            stat->sums[NGX_MCDS_STAT_MISSES]++;
        }
    }

    us = conn->received - ex->start;

    ngx_mcds_stat_latency(stat, (ngx_uint_t) us);
}


void
ngx_mcds_client_stat_failed(ngx_mcds_server_t *server, ngx_mcds_exchange_t *ex,
    ngx_uint_t rc)
{
    if (ngx_mcds_client_stat_skips(ex)) {
        return;
    }

    server->stat->sums[NGX_MCDS_STAT_RESULTS + rc]++;

    ngx_mcds_client_stat_changed(server);
}


void
ngx_mcds_client_stat_sum(ngx_mcds_server_t *server, ngx_uint_t i, ngx_uint_t n)
{
    server->stat->sums[i] += n;

    ngx_mcds_client_stat_changed(server);
}


void
ngx_mcds_client_stat_lost(ngx_mcds_server_t *server, ngx_uint_t rc)
{
    ngx_uint_t  i;

    switch (rc) {

    case NGX_MCDS_TIMEOUT:
        i = NGX_MCDS_STAT_LOST_TIMEOUT;
        break;

    case NGX_MCDS_PROTOCOL:
        i = NGX_MCDS_STAT_LOST_PROTOCOL;
        break;

    case NGX_MCDS_TLS:
        i = NGX_MCDS_STAT_LOST_TLS;
        break;

    default:
        i = NGX_MCDS_STAT_LOST_CLOSED;
        break;
    }

    ngx_mcds_client_stat_sum(server, i, 1);
}


ngx_uint_t
ngx_mcds_client_stat_breaker(ngx_mcds_server_t *server, ngx_uint_t open)
{
    if (open) {
        ngx_mcds_client_stat_sum(server, NGX_MCDS_STAT_BREAKS, 1);
        ngx_mcds_stat_flush(server->stat);
    }

    return ngx_mcds_stat_breaker(server->stat, open, ngx_time());
}


void
ngx_mcds_client_stat_retry(ngx_mcds_server_t *server, ngx_msec_t delay)
{
    ngx_time_t  *tp;

    tp = ngx_timeofday();

    ngx_mcds_stat_retry(server->stat, tp->sec + (tp->msec + delay) / 1000);
}


void
ngx_mcds_client_stat_exit(ngx_mcds_server_t *server)
{
    ngx_mcds_stat_detach(server->stat);
}


static void
ngx_mcds_client_stat_gather(ngx_mcds_stat_t *stat)
{
    ngx_uint_t          pending, connections;
    ngx_mcds_conn_t    *conn;
    ngx_mcds_server_t  *server;

    server = stat->data;

    pending = 0;
    connections = 0;

    ngx_mcds_client_stat_conn(server->control, &pending, &connections);
    ngx_mcds_client_stat_conn(server->bulk, &pending, &connections);

    for (conn = server->retired; conn; conn = conn->next) {
        ngx_mcds_client_stat_conn(conn, &pending, &connections);
    }

    stat->pending = pending;
    stat->connections = connections;
}


static void
ngx_mcds_client_stat_conn(ngx_mcds_conn_t *conn, ngx_uint_t *pending,
    ngx_uint_t *connections)
{
    if (conn) {
        *pending += conn->pending;
        *connections += (conn->peer.connection != NULL);
    }
}


static void
ngx_mcds_client_stat_wake(void)
{
    if (!ngx_mcds_client_stat_timer.timer_set) {
        ngx_add_timer(&ngx_mcds_client_stat_timer, NGX_MCDS_FLUSH_INTERVAL);
    }
}


static void
ngx_mcds_client_stat_timer_handler(ngx_event_t *ev)
{
    ngx_mcds_stat_flush_all();

    /*
     * ngx_mcds_spare_age() frees memory that the worker has kept for later
     * values but not used; while any memory is still kept, the timer runs again
     */

    if (ngx_mcds_spare_age()) {
        ngx_mcds_client_stat_wake();
    }
}

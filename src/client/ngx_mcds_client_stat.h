
/*
 * Copyright (C) mcds authors
 *
 * Statistics of memcached servers: counts of operations, replies, failures and
 * lost connections.
 */


#ifndef _NGX_MCDS_CLIENT_STAT_H_INCLUDED_
#define _NGX_MCDS_CLIENT_STAT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_conn.h"


/* Returns the time of the monotonic clock in microseconds. */

uint64_t ngx_mcds_client_stat_clock(void);


/* Queues the statistics of the server for the next flush to shared memory. */

void ngx_mcds_client_stat_changed(ngx_mcds_server_t *server);


/* Counts, in the server's statistics, an operation that starts. */

void ngx_mcds_client_stat_op(ngx_mcds_server_t *server,
    ngx_mcds_exchange_t *ex);


/*
 * Counts, in the server's statistics, the reply to an operation, with its
 * latency.
 */

void ngx_mcds_client_stat_answer(ngx_mcds_conn_t *conn, ngx_mcds_exchange_t *ex,
    ngx_uint_t rc);


/*
 * Counts, in the server's statistics, an operation that got no reply, or was
 * not sent.
 */

void ngx_mcds_client_stat_failed(ngx_mcds_server_t *server,
    ngx_mcds_exchange_t *ex, ngx_uint_t rc);


/* Adds n to the sum i, of ngx_mcds_stat_e, of the server's statistics. */

void ngx_mcds_client_stat_sum(ngx_mcds_server_t *server, ngx_uint_t i,
    ngx_uint_t n);


/*
 * Counts, in the server's statistics, a connection that failed or was given up.
 */

void ngx_mcds_client_stat_lost(ngx_mcds_server_t *server, ngx_uint_t rc);


/*
 * Records in the statistics that the server's circuit breaker opens or closes.
 * Returns 1 if this worker is to log the change, once for the whole host, see
 * ngx_mcds_stat_breaker().
 */

ngx_uint_t ngx_mcds_client_stat_breaker(ngx_mcds_server_t *server,
    ngx_uint_t open);


/*
 * Records in the statistics that the next probe of a server that is down is due
 * in delay milliseconds.
 */

void ngx_mcds_client_stat_retry(ngx_mcds_server_t *server, ngx_msec_t delay);


/* Flushes the statistics of the server a last time, when the worker exits. */

void ngx_mcds_client_stat_exit(ngx_mcds_server_t *server);


#endif /* _NGX_MCDS_CLIENT_STAT_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * What is counted and measured of servers and operations.
 */


#ifndef _NGX_MCDS_MEASURE_H_INCLUDED_
#define _NGX_MCDS_MEASURE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_conn.h"


/*
 * Statistics.  clock: microseconds of a clock that never goes back.
 * changed: something is to be shown soon.  op: an operation begins; answer: it
 * was answered; failed: it was not, or has not been sent.  sum: adds n to that
 * one of ngx_mcds_stat_e.  lost: a connection that could not be made or was
 * given up.  breaker: it opens or closes; 1 if that is news for the host.
 * retry: the server is down, and tried again in so many milliseconds.
 * exit: the worker does.
 */

uint64_t ngx_mcds_measure_clock(void);
void ngx_mcds_measure_changed(ngx_mcds_server_t *server);
void ngx_mcds_measure_op(ngx_mcds_server_t *server, ngx_mcds_exchange_t *ex);
void ngx_mcds_measure_answer(ngx_mcds_conn_t *conn, ngx_mcds_exchange_t *ex,
    ngx_uint_t rc);
void ngx_mcds_measure_failed(ngx_mcds_server_t *server, ngx_mcds_exchange_t *ex,
    ngx_uint_t rc);
void ngx_mcds_measure_sum(ngx_mcds_server_t *server, ngx_uint_t i,
    ngx_uint_t n);
void ngx_mcds_measure_lost(ngx_mcds_server_t *server, ngx_uint_t rc);
ngx_uint_t ngx_mcds_measure_breaker(ngx_mcds_server_t *server,
    ngx_uint_t open);
void ngx_mcds_measure_retry(ngx_mcds_server_t *server, ngx_msec_t delay);
void ngx_mcds_measure_exit(ngx_mcds_server_t *server);


#endif /* _NGX_MCDS_MEASURE_H_INCLUDED_ */

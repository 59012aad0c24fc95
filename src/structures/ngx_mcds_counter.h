
/*
 * Copyright (C) mcds authors
 *
 * Atomic counters.  One command creates or increments a counter.  The changes
 * of several requests to one counter in one turn of the event loop are sent as
 * one sum, and each request gets its own number, computed from the result.
 */


#ifndef _NGX_MCDS_COUNTER_H_INCLUDED_
#define _NGX_MCDS_COUNTER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_client.h"


typedef struct ngx_mcds_count_s  ngx_mcds_count_t;


/*
 * values of "update" in a counter: with ONLY, a change of a missing counter
 * fails; with NOW, it creates the counter
 */

#define NGX_MCDS_COUNTER_ONLY     1
#define NGX_MCDS_COUNTER_NOW      2


/* a counter: an item with a decimal number under this key */

typedef struct {
    ngx_mcds_pool_t    *pool;
    ngx_str_t           key;
    uint64_t            initial;       /* number of a missing counter, before
                                          delta is added */
    uint32_t            ttl;           /* time to live of a new counter,
                                          seconds; 0: no expiry */

    /*
     * ONLY: a missing counter is not created, the result is NGX_MCDS_NOT_FOUND.
     * NOW: a missing counter is created.  With both, a change that could not be
     * sent, and that shared memory keeps to send it later, creates a missing
     * counter only from a number that this host knows.  If it knows none, the
     * change is dropped: the next request fetches the counter's initial value
     * from the origin, and that number may already include the change.
     */
    ngx_uint_t          update;

    /*
     * 1: a lost counter continues from the number that this host knows, see
     * ngx_mcds_raise.h; not for counters that are meant to decrease, or to
     * expire otherwise than with their period
     */
    ngx_uint_t          durable;

    ngx_uint_t          buffer;        /* 1: a change of the counter that
                                          cannot be sent is kept, and sent
                                          later */
} ngx_mcds_counter_t;


/*
 * The handler of a change of a counter.  value is the counter after this change
 * if rc is NGX_MCDS_OK.  With NGX_MCDS_TIMEOUT, CLOSED and PROTOCOL the change
 * may have been counted; with all other codes it was not.  If the counter has
 * the flag "buffer", a change that ends with NGX_MCDS_DOWN, BUSY or TLS is
 * kept, and counted later.
 */

typedef void (*ngx_mcds_count_pt)(void *data, ngx_uint_t rc, uint64_t value);


/*
 * Adds delta, which is above INT64_MIN, to a counter; a negative delta is
 * subtracted, and the result is 0 at least.  A delta of 0 reads the counter; a
 * missing one is not created then, and reads as its initial value.
 *
 * Strings are copied.  Unless ngx_mcds_counter_cancel() is called, the handler,
 * which may be NULL, is called once, after this call has returned.  Returns
 * NULL if out of memory.
 */

ngx_mcds_count_t *ngx_mcds_counter_change(ngx_mcds_counter_t *counter,
    int64_t delta, ngx_mcds_count_pt handler, void *data);


/*
 * Adds delta, at least 1, to a plain counter that starts at 0.  ttl is that of
 * a new counter, in seconds.  Otherwise as ngx_mcds_counter_change().
 */

ngx_mcds_count_t *ngx_mcds_counter_add(ngx_mcds_pool_t *pool, ngx_str_t *key,
    uint64_t delta, uint32_t ttl, ngx_mcds_count_pt handler, void *data);


/*
 * Detaches the handler of a change of a counter; the change is still counted.
 * Must not be called after the handler.
 */

void ngx_mcds_counter_cancel(ngx_mcds_count_t *count);


/*
 * Returns the number that this host remembers of a durable counter; 0: the host
 * remembers none, or the counter is not durable.
 */

uint64_t ngx_mcds_counter_known(ngx_mcds_counter_t *counter);


/*
 * The periods of a counter, such as days: each period has a counter of its own.
 * Periods follow each other and are numbered; period 0 begins "start" seconds
 * after the epoch.
 */

typedef struct {
    uint32_t            length;        /* length of a period in seconds; 0: no
                                          periods */
    uint32_t            start;         /* start of the first period, seconds
                                          since the epoch; less than length */
} ngx_mcds_period_t;


/* a counter outlives its period by this time, as clocks differ; seconds */
#define NGX_MCDS_PERIOD_SPARE     60

#define NGX_MCDS_MAX_PERIOD       (NGX_MCDS_MAX_TTL - NGX_MCDS_PERIOD_SPARE)


/*
 * Returns the number of the period (such as a day) that contains the time
 * "now", in seconds since the epoch.
 */

uint64_t ngx_mcds_period_number(ngx_mcds_period_t *period, time_t now);


/*
 * Returns the time to live, in seconds, for the counter of the period (such as
 * a day) that contains the time "now", in seconds since the epoch: the rest of
 * that period, plus NGX_MCDS_PERIOD_SPARE.
 */

uint32_t ngx_mcds_period_ttl(ngx_mcds_period_t *period, time_t now);


#endif /* _NGX_MCDS_COUNTER_H_INCLUDED_ */

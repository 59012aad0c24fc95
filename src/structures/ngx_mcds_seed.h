
/*
 * Copyright (C) mcds authors
 *
 * Counters whose initial value comes from elsewhere, such as the origin.  If a
 * counter is missing, one worker of all hosts asks for the number, under a
 * lock.  The number is stored unless there is a counter by then, and all
 * requests count from there.  If this host knows a larger number of a durable
 * counter, that number is stored.
 */


#ifndef _NGX_MCDS_SEED_H_INCLUDED_
#define _NGX_MCDS_SEED_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_client.h"
#include "ngx_mcds_counter.h"


typedef struct ngx_mcds_seed_s   ngx_mcds_seed_t;
typedef struct ngx_mcds_increment_s  ngx_mcds_increment_t;


/*
 * The type of a function that asks, for instance the origin, for the initial
 * value of a missing counter; data is that of a waiting request that was not
 * canceled.  With NGX_OK, ngx_mcds_seed_value() must be called once, with the
 * number, not from inside of the function.  With any other result, which is
 * logged, the number cannot be asked for.
 */

typedef ngx_int_t (*ngx_mcds_seed_pt)(ngx_mcds_seed_t *seed, void *data);


/*
 * The type of a function that is called once for each change of a counter, or
 * once for the sum of several changes, even if memcached has not counted them.
 * The calls wait for the initial value that the origin supplies, as this
 * number might already contain the changes.  If a worker is killed, the
 * function is not called for the worker's unfinished changes.
 */

typedef void (*ngx_mcds_counted_pt)(void *data, ngx_str_t *key, int64_t delta);


typedef struct {
    ngx_mcds_seed_pt     fetch;
    ngx_mcds_counted_pt  counted;      /* called for each change of the counter,
                                          or NULL */
    void                *data;         /* first argument of counted(), not of
                                          fetch(); must outlive the request that
                                          changes the counter */
    ngx_msec_t           timeout;
    ngx_uint_t           skip;         /* 1: if the initial value cannot be
                                          fetched, changes are not counted; 0:
                                          they count from the number that this
                                          host knows, or from the one that is
                                          configured */
} ngx_mcds_source_t;


/*
 * Changes a counter as ngx_mcds_counter_change() does; delta is not 0.  If
 * there is no counter, the change waits for the initial value, for which
 * source->fetch() asks.  After source->timeout the handler is called with
 * NGX_MCDS_TIMEOUT, and the change is still counted when the number arrives.
 * NGX_MCDS_NOT_FOUND: there is no number, and the change is not counted.
 * Returns NULL if out of memory.
 */

ngx_mcds_increment_t *ngx_mcds_seed_change(ngx_mcds_counter_t *counter,
    int64_t delta, ngx_mcds_source_t *source, ngx_mcds_count_pt handler,
    void *data);


/*
 * Detaches the handler of a change of a counter; the change is still counted.
 * Must not be called after the handler.
 */

void ngx_mcds_seed_cancel(ngx_mcds_increment_t *increment);


/*
 * Returns 1 if memcached did not have the counter when its change was sent, so
 * that the change waits, or has waited, for the counter's initial value, which
 * source->fetch() asks for: parameter source of ngx_mcds_seed_change().
 */

ngx_uint_t ngx_mcds_seed_sought(ngx_mcds_increment_t *increment);


/*
 * Called by the code that source->fetch has asked for a counter's initial
 * value.  NGX_OK: there is a value; any other rc: there is none, which
 * is logged.
 */

void ngx_mcds_seed_value(ngx_mcds_seed_t *seed, ngx_int_t rc, uint64_t value);


#endif /* _NGX_MCDS_SEED_H_INCLUDED_ */

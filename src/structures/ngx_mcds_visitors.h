
/*
 * Copyright (C) mcds authors
 *
 * How many different visitors came in the last window seconds.
 *
 * The window is cut into slots; slot number s covers the seconds from
 * s * window / slots on, and its count is the item key:s, with the absolute
 * number, so that all hosts agree without talking and no old count is taken
 * for a new one.  A visit goes to the present slot; shown is the sum of the
 * complete slots before it, which does not change until the slot does.  One
 * slot: two items, one being filled and one being shown.
 *
 * Interpolated, the number does not jump when the slot changes: in second i
 * (from 1) of a slot of L seconds it is (L - i) / L of the last slot's sum
 * and i / L of the present one's.  Both count nobody twice, so this does not,
 * either.
 *
 * A visitor counts once in a window: the first visit adds the item
 * key:v:visitor, which lives window + 1 seconds and holds the time of that
 * visit; only who adds it is counted.  memcached's clock ticks in seconds, so
 * that the mark ends between window and window + 1 seconds after it was made.
 */


#ifndef _NGX_MCDS_VISITORS_H_INCLUDED_
#define _NGX_MCDS_VISITORS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_client.h"
#include "ngx_mcds_stat_sums.h"


#define NGX_MCDS_MAX_SLOTS        60

/* jitter of 1 % */
#define NGX_MCDS_JITTER_PERCENT   100


typedef struct ngx_mcds_sum_s  ngx_mcds_sum_t;


typedef struct {
    ngx_mcds_pool_t    *pool;
    uint32_t            window;        /* seconds, a multiple of slots */
    uint32_t            slots;         /* 1 to NGX_MCDS_MAX_SLOTS */
    uint32_t            jitter;        /* of the number that is shown */
    uint32_t            interpolate;   /* 0 or 1 */
    ngx_mcds_stat_t    *stat;          /* or NULL */
} ngx_mcds_visitors_t;


/*
 * The number of the slot that fills at second now, and for how many seconds
 * from now on its item is needed: until the last sum that shows it,
 * interpolated or not; never more than NGX_MCDS_MAX_TTL.
 */

uint64_t ngx_mcds_visitors_slot(ngx_mcds_visitors_t *visitors, time_t now);
uint32_t ngx_mcds_visitors_ttl(ngx_mcds_visitors_t *visitors, time_t now);


/*
 * value with normally distributed noise, whose standard deviation is jitter
 * (in units of NGX_MCDS_JITTER_PERCENT) of it; never negative.  It depends on
 * the key and the second alone, and so is the same everywhere.
 */

uint64_t ngx_mcds_visitors_jitter(uint64_t value, uint32_t jitter,
    ngx_str_t *key, time_t now);


/*
 * Counts the visit of visitor (not empty) to key at second now, unless he was
 * counted within the window.  Nobody waits for it.  A visitor whom this
 * worker knows to be marked costs no operation.
 */

void ngx_mcds_visitors_visit(ngx_mcds_visitors_t *visitors, ngx_str_t *key,
    ngx_str_t *visitor, time_t now);


/*
 * The number to show at second now.  NGX_OK: *value is known already.
 * NGX_AGAIN: the handler is called once, not from inside of this call,
 * unless *sum is canceled; rc other than NGX_MCDS_OK: not available.
 * NGX_ERROR: out of memory.
 */

typedef void (*ngx_mcds_sum_pt)(void *data, ngx_uint_t rc, uint64_t value);

ngx_int_t ngx_mcds_visitors_sum(ngx_mcds_visitors_t *visitors, ngx_str_t *key,
    time_t now, uint64_t *value, ngx_mcds_sum_pt handler, void *data,
    ngx_mcds_sum_t **sum);

void ngx_mcds_visitors_cancel(ngx_mcds_sum_t *sum);


#endif /* _NGX_MCDS_VISITORS_H_INCLUDED_ */

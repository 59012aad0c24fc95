
/*
 * Copyright (C) mcds authors
 *
 * The number of unique visitors in the last window seconds.
 *
 * The window is divided into slots.  Slot s begins at second s * window /
 * slots; its count is the item key:s.  Slot numbers are absolute, so that all
 * hosts agree without communication, and an old count is never taken for a new
 * one.  A visit is counted in the present slot; the number shown is the sum of
 * the complete slots before, which does not change until the next slot begins.
 * With one slot there are two items, one that is filled and one that is shown.
 *
 * With interpolation the number does not jump when the slot changes: in second
 * i (from 1) of a slot of L seconds it is (L - i) / L of the last slot's sum
 * plus i / L of the present sum.  As no visitor is in either sum twice, none is
 * counted twice here.
 *
 * A visitor counts once in a window: the first visit adds the item
 * key:v:visitor, the mark, which lives window + 1 seconds and has the time of
 * the visit; a visit counts only if it has added the mark.  memcached's clock
 * has whole seconds, so that the mark ends between window and window + 1
 * seconds after it was added.
 */


#ifndef _NGX_MCDS_VISITORS_H_INCLUDED_
#define _NGX_MCDS_VISITORS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_client.h"
#include "ngx_mcds_stat_sums.h"


#define NGX_MCDS_MAX_SLOTS        60

/*
 * the value of the field "jitter" that adds random noise of 1 % to the number
 * of visitors
 */
#define NGX_MCDS_JITTER_PERCENT   100


typedef struct ngx_mcds_sum_s  ngx_mcds_sum_t;


typedef struct {
    ngx_mcds_pool_t    *pool;
    uint32_t            window;        /* the window: seconds in which a visitor
                                          counts once; a multiple of "slots",
                                          the number of its parts */
    uint32_t            slots;         /* number of parts into which the window,
                                          a period of time, is divided, 1 to
                                          NGX_MCDS_MAX_SLOTS */
    uint32_t            jitter;        /* random noise added to the number of
                                          visitors, in hundredths of a
                                          percent */
    uint32_t            interpolate;   /* 1: the displayed number of visitors
                                          changes gradually in a slot (part of
                                          the window), not only at its end */
    ngx_mcds_stat_t    *stat;          /* statistics of the counter of visitors,
                                          or NULL */
} ngx_mcds_visitors_t;


/*
 * Returns the number of the slot, the part of a visitor counter's window, to
 * which visits at the time now, in seconds since the epoch, are added.
 */

uint64_t ngx_mcds_visitors_slot(ngx_mcds_visitors_t *visitors, time_t now);


/*
 * Returns the time to live, in seconds, of the item that counts visitors in the
 * slot (part of the window) at the time now: until the slot is no longer part
 * of any number shown, also with interpolation; at most NGX_MCDS_MAX_TTL.
 */

uint32_t ngx_mcds_visitors_ttl(ngx_mcds_visitors_t *visitors, time_t now);


/*
 * Returns value, a number of visitors, plus normally distributed noise, or 0 if
 * this sum is negative.  The standard deviation of the noise is jitter /
 * NGX_MCDS_JITTER_PERCENT percent of value.  The noise is computed from the key
 * and the time, not drawn at random, so that all hosts show the same number.
 */

uint64_t ngx_mcds_visitors_jitter(uint64_t value, uint32_t jitter,
    ngx_str_t *key, time_t now);


/*
 * Counts a visit at the time now, unless the visitor was counted within the
 * window.  visitor is not empty.  The result is not awaited.  If this worker
 * remembers that the visitor was counted, the visit costs no operation in
 * memcached.
 */

void ngx_mcds_visitors_visit(ngx_mcds_visitors_t *visitors, ngx_str_t *key,
    ngx_str_t *visitor, time_t now);


/*
 * The handler of a request for a number of visitors.  Any rc but NGX_MCDS_OK:
 * the number is not available.
 */

typedef void (*ngx_mcds_sum_pt)(void *data, ngx_uint_t rc, uint64_t value);


/*
 * Gets the number of visitors to show at the time now.  NGX_OK: *value is set.
 * NGX_AGAIN: *sum, a request for the number, is set, and the handler is called
 * once, not from inside of this call, unless the request is canceled.
 * NGX_ERROR: out of memory.
 */

ngx_int_t ngx_mcds_visitors_sum(ngx_mcds_visitors_t *visitors, ngx_str_t *key,
    time_t now, uint64_t *value, ngx_mcds_sum_pt handler, void *data,
    ngx_mcds_sum_t **sum);


/*
 * Cancels a request for a number of visitors: its handler, which must not have
 * been called yet, will not be called.
 */

void ngx_mcds_visitors_cancel(ngx_mcds_sum_t *sum);


#endif /* _NGX_MCDS_VISITORS_H_INCLUDED_ */

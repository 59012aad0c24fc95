
/*
 * Copyright (C) mcds authors
 *
 * Atomic counters.  One command creates or increments; what several requests
 * add to one counter in one turn of the event loop travels as one sum, and
 * each gets its own number out of the answer.
 */


#ifndef _NGX_MCDS_COUNTER_H_INCLUDED_
#define _NGX_MCDS_COUNTER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_client.h"


typedef struct ngx_mcds_count_s  ngx_mcds_count_t;


/* an item of that key which holds a decimal number */

typedef struct {
    ngx_mcds_pool_t    *pool;
    ngx_str_t           key;
    uint64_t            initial;       /* what an absent one counts from */
    uint32_t            ttl;           /* seconds that it lives when it is
                                          created now, 0: for ever */
    ngx_uint_t          update;        /* an absent one is not created, but
                                          NGX_MCDS_NOT_FOUND */
    ngx_uint_t          durable;       /* one that was lost goes on from what
                                          this host knows, see
                                          ngx_mcds_raise.h; not for those that
                                          are meant to go away, or down */
    ngx_uint_t          buffer;        /* what cannot be sent is kept, and
                                          added later */
} ngx_mcds_counter_t;


/*
 * value: the counter behind this change, when rc is NGX_MCDS_OK.  With
 * NGX_MCDS_TIMEOUT, CLOSED and PROTOCOL it is not known whether it counted;
 * with all others it did not, but with "buffer" it will after NGX_MCDS_DOWN,
 * BUSY and TLS.
 */

typedef void (*ngx_mcds_count_pt)(void *data, ngx_uint_t rc, uint64_t value);


/*
 * Adds delta to a counter; a negative one is subtracted, which ends at 0, and
 * is above INT64_MIN.  0 reads: an absent counter is not created then, and
 * reads as its initial value.
 *
 * The strings are copied.  The handler, which may be NULL, is called once,
 * not from inside of this call, unless it is canceled.  NULL when out of
 * memory.
 */

ngx_mcds_count_t *ngx_mcds_counter_change(ngx_mcds_counter_t *counter,
    int64_t delta, ngx_mcds_count_pt handler, void *data);


/* the same for a plain counter from 0 on, with delta from 1 on */

ngx_mcds_count_t *ngx_mcds_counter_add(ngx_mcds_pool_t *pool, ngx_str_t *key,
    uint64_t delta, uint32_t ttl, ngx_mcds_count_pt handler, void *data);


/* counts all the same; not after the handler was called */

void ngx_mcds_counter_cancel(ngx_mcds_count_t *count);


/* what this host remembers of a durable counter, 0 when that is nothing */

uint64_t ngx_mcds_counter_known(ngx_mcds_counter_t *counter);


/*
 * A counter for each period of so many seconds.  Periods follow each other
 * from second start of 1970 (UTC) on, and each has a number.
 */

typedef struct {
    uint32_t            length;        /* 0: there are none */
    uint32_t            start;         /* less than length */
} ngx_mcds_period_t;


/* a counter outlives its period by so many seconds, for clocks that differ */
#define NGX_MCDS_PERIOD_SPARE     60

#define NGX_MCDS_MAX_PERIOD       (NGX_MCDS_MAX_TTL - NGX_MCDS_PERIOD_SPARE)


/* the number of the period of second now, and how long from then on its
   counter is needed */

uint64_t ngx_mcds_period_number(ngx_mcds_period_t *period, time_t now);
uint32_t ngx_mcds_period_ttl(ngx_mcds_period_t *period, time_t now);


#endif /* _NGX_MCDS_COUNTER_H_INCLUDED_ */

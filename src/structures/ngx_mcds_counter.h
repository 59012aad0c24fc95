
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


/*
 * value: the counter behind this addition, when rc is NGX_MCDS_OK.  With
 * NGX_MCDS_TIMEOUT, CLOSED and PROTOCOL it is not known whether it counted;
 * with all others it did not.
 */

typedef void (*ngx_mcds_count_pt)(void *data, ngx_uint_t rc, uint64_t value);


/*
 * Adds delta (at least 1) to the counter of key, an item of that key which
 * holds a decimal number.  ttl: seconds that the item lives when it is
 * created now, 0 for ever.  The handler, which may be NULL, is called once,
 * not from inside of this call, unless it is canceled.  NULL when out of
 * memory.
 */

ngx_mcds_count_t *ngx_mcds_counter_add(ngx_mcds_pool_t *pool, ngx_str_t *key,
    uint64_t delta, uint32_t ttl, ngx_mcds_count_pt handler, void *data);


/* counts all the same; not after the handler was called */

void ngx_mcds_counter_cancel(ngx_mcds_count_t *count);


#endif /* _NGX_MCDS_COUNTER_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * Lines that go to several readers.
 */


#ifndef _NGX_MCDS_LOG_BATCH_H_INCLUDED_
#define _NGX_MCDS_LOG_BATCH_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_log.h"
#include "ngx_mcds_log_read.h"


/*
 * Lines in the order of time; shared.  They have settled: later ones come
 * behind them, but for a few that were late.  newest: no line before this batch
 * came behind it.  look: the number of the one that has told it.  text: for who
 * shows it, to show it once; NULL at first.
 */

typedef struct {
    ngx_uint_t              refs;
    ngx_uint_t              look;
    ngx_mcds_log_id_t       newest;
    ngx_mcds_log_events_t   events;
    ngx_array_t             values;     /* ngx_mcds_value_t *, of the events */
    ngx_pool_t             *pool;
    ngx_mcds_value_t       *text;
} ngx_mcds_log_batch_t;


/*
 * create: an empty one, of one reference.  hold: keeps what lines of the batch
 * point to.  split: takes what follows the first n lines into another batch.
 * NULL and NGX_ERROR: out of memory.
 */

ngx_mcds_log_batch_t *ngx_mcds_log_batch_create(void);
ngx_mcds_log_batch_t *ngx_mcds_log_batch_ref(ngx_mcds_log_batch_t *batch);
void ngx_mcds_log_batch_unref(ngx_mcds_log_batch_t *batch);
ngx_int_t ngx_mcds_log_batch_hold(ngx_mcds_log_batch_t *batch,
    ngx_mcds_value_t *value);
ngx_mcds_log_batch_t *ngx_mcds_log_batch_split(ngx_mcds_log_batch_t *batch,
    ngx_uint_t n);


#endif /* _NGX_MCDS_LOG_BATCH_H_INCLUDED_ */

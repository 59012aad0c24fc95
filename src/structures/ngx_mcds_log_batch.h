
/*
 * Copyright (C) mcds authors
 *
 * Batches: new lines of a log, which the log's followers in a worker share.
 */


#ifndef _NGX_MCDS_LOG_BATCH_H_INCLUDED_
#define _NGX_MCDS_LOG_BATCH_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_log.h"
#include "ngx_mcds_log_read.h"


/*
 * A batch of new lines for the followers of a log, in the order of the lines'
 * ids.  The lines have settled: lines of later batches have larger ids, with
 * the exception of a few lines that were written late.  No earlier batch has a
 * line whose id is larger than "newest".  "text" is for the followers, which
 * may cache the formatted lines there; NULL at first.
 *
 * The worker numbers its searches for new lines of the log.  "look" is the
 * number of the search that completed the batch.  If searches directly before
 * that one failed, "look" is the number of the first of the failed searches.
 */

typedef struct {
    ngx_uint_t              refs;
    ngx_uint_t              look;
    ngx_mcds_log_id_t       newest;
    ngx_mcds_log_events_t   events;
    ngx_array_t             values;     /* the values of the log's items into
                                           which the lines point,
                                           ngx_mcds_value_t * */
    ngx_pool_t             *pool;
    ngx_mcds_value_t       *text;
} ngx_mcds_log_batch_t;


/*
 * Creates a batch without lines, with one reference.  Returns NULL if out of
 * memory.
 */

ngx_mcds_log_batch_t *ngx_mcds_log_batch_create(void);


/* Adds a reference to the batch of lines, and returns the batch. */

ngx_mcds_log_batch_t *ngx_mcds_log_batch_ref(ngx_mcds_log_batch_t *batch);


/* Drops a reference to the batch of lines; the last one frees the batch. */

void ngx_mcds_log_batch_unref(ngx_mcds_log_batch_t *batch);


/*
 * Adds to the batch a reference to a value into which the batch's lines point.
 * Returns NGX_ERROR if out of memory.
 */

ngx_int_t ngx_mcds_log_batch_hold(ngx_mcds_log_batch_t *batch,
    ngx_mcds_value_t *value);


/* Drops the reference that ngx_mcds_log_batch_hold() has added last. */

void ngx_mcds_log_batch_drop(ngx_mcds_log_batch_t *batch);


/*
 * Moves all but the first n lines of the batch into a new batch.  Returns NULL
 * if out of memory.
 */

ngx_mcds_log_batch_t *ngx_mcds_log_batch_split(ngx_mcds_log_batch_t *batch,
    ngx_uint_t n);


#endif /* _NGX_MCDS_LOG_BATCH_H_INCLUDED_ */

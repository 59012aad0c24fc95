
/*
 * Copyright (C) mcds authors
 *
 * Asides: the commands by which a log's writer creates missing items and counts
 * the log's bytes, beside those that append the lines.  If one fails, no line
 * is lost.
 */


#ifndef _NGX_MCDS_LOG_ASIDE_H_INCLUDED_
#define _NGX_MCDS_LOG_ASIDE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_log.h"


/*
 * The handler that gets the total of the bytes in a chunk, a time interval of
 * the log, from memcached.
 */

typedef void (*ngx_mcds_log_size_pt)(void *data, uint64_t chunk, uint64_t size);


/*
 * The asides of a log's writer: its commands that count the log's bytes or
 * create missing items.  The writer sets log, handler and data, and initializes
 * the queue.
 */

typedef struct {
    ngx_queue_t             queue;     /* commands to which memcached has not
                                          replied yet, ngx_mcds_log_aside_t */
    ngx_mcds_log_t         *log;
    ngx_mcds_log_size_pt    handler;
    void                   *data;
} ngx_mcds_log_asides_t;


/*
 * Adds len to the counter, in memcached, of the bytes in a chunk (time
 * interval) of the log; asides->handler is called with the counter's new value
 * if memcached replies with it.
 */

void ngx_mcds_log_add_size(ngx_mcds_log_asides_t *asides, uint64_t chunk,
    size_t len);


/*
 * Creates a missing item of a chunk (time interval) of a log, empty, and the
 * items before it, back to the first one that is not missing: readers request
 * one item after another until one is missing.
 */

void ngx_mcds_log_fill(ngx_mcds_log_asides_t *asides, uint64_t chunk,
    ngx_uint_t part);


/*
 * Cancels those commands of a log's writer, still without a reply, that create
 * missing items or count the log's bytes.
 */

void ngx_mcds_log_asides_cancel(ngx_mcds_log_asides_t *asides);


#endif /* _NGX_MCDS_LOG_ASIDE_H_INCLUDED_ */

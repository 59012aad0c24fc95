
/*
 * Copyright (C) mcds authors
 *
 * Asides: commands of a writer to items of a log that append no lines, and
 * which may fail.
 */


#ifndef _NGX_MCDS_LOG_ASIDE_H_INCLUDED_
#define _NGX_MCDS_LOG_ASIDE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_log.h"


/* Gets the total of the bytes in a chunk, a time interval of the log. */

typedef void (*ngx_mcds_log_size_pt)(void *data, uint64_t chunk, uint64_t size);


/* The user sets log, handler and data, and initializes the queue. */

typedef struct {
    ngx_queue_t             queue;     /* ngx_mcds_log_aside_t */
    ngx_mcds_log_t         *log;
    ngx_mcds_log_size_pt    handler;
    void                   *data;
} ngx_mcds_log_asides_t;


/* Adds len bytes to the total of a chunk, and calls the handler with it. */

void ngx_mcds_log_size(ngx_mcds_log_asides_t *asides, uint64_t chunk,
    size_t len);


/*
 * Creates, empty, this item of a chunk, a time interval of a log, and those
 * before it, as far as they are missing: a reader requests one item after
 * another until one is missing.
 */

void ngx_mcds_log_fill(ngx_mcds_log_asides_t *asides, uint64_t chunk,
    ngx_uint_t part);


/* Cancels the commands that are under way. */

void ngx_mcds_log_asides_cancel(ngx_mcds_log_asides_t *asides);


#endif /* _NGX_MCDS_LOG_ASIDE_H_INCLUDED_ */

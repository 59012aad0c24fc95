
/*
 * Copyright (C) mcds authors
 *
 * Writing a log: lines are gathered for a moment, and then appended together.
 * The request does not wait, except for ngx_mcds_log_put().
 */


#ifndef _NGX_MCDS_LOG_WRITE_H_INCLUDED_
#define _NGX_MCDS_LOG_WRITE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_log.h"


/* the time for which a log's lines are gathered before they are sent, ms */
#define NGX_MCDS_LOG_GATHER       150

/*
 * the maximum size of the lines that a writer of a log keeps until memcached
 * takes them, bytes
 */
#define NGX_MCDS_LOG_PENDING      (4 * 1024 * 1024)


typedef struct ngx_mcds_log_writer_s  ngx_mcds_log_writer_t;


/*
 * Opens a writer of a log in a worker.  The log must live as long as the
 * writer.  Returns NULL if out of memory.
 */

ngx_mcds_log_writer_t *ngx_mcds_log_open(ngx_mcds_log_t *log);


/*
 * Adds a line of this time, in milliseconds since the epoch, to the log.  The
 * line is copied, and truncated to NGX_MCDS_LOG_LINE bytes.  The lines of one
 * chunk (time interval) are appended in order; those of other chunks do not
 * wait for a chunk whose lines cannot be appended.  Such lines are tried again;
 * after a lost reply the same lines are appended again, with the same sequence
 * numbers.  Lines are lost, which is logged, if more than NGX_MCDS_LOG_PENDING
 * bytes would wait (the oldest lines first), if out of memory, if memcached
 * refuses the lines as too large, or if the log no longer keeps their time
 * interval.
 */

void ngx_mcds_log_line(ngx_mcds_log_writer_t *writer, uint64_t time,
    ngx_str_t *line);


/*
 * Closes and frees a writer of a log when the worker exits.  Lines that are not
 * stored yet are lost, which is logged; the handlers of ngx_mcds_log_put() that
 * were not called yet get NGX_MCDS_CLOSED.
 */

void ngx_mcds_log_close(ngx_mcds_log_writer_t *writer);


/*
 * The handler of ngx_mcds_log_put(), called once.  With rc NGX_MCDS_OK all
 * lines are stored; with any other rc at least the first "taken" lines are.
 * With NGX_MCDS_TIMEOUT, CLOSED or PROTOCOL further lines may be stored.
 */

typedef void (*ngx_mcds_log_put_pt)(void *data, ngx_uint_t rc,
    ngx_uint_t taken);


/*
 * Appends n lines to a log at once, n being at least 1, without a second
 * attempt.  The writer must not be used for ngx_mcds_log_line().  The caller
 * sets id.time and line of each event, at most NGX_MCDS_LOG_LINE bytes; lines
 * are copied.  The events are sorted, and get their ids.  Returns NGX_BUSY if
 * out of memory, or if too many lines are waiting; then no handler is called.
 */

ngx_int_t ngx_mcds_log_put(ngx_mcds_log_writer_t *writer,
    ngx_mcds_log_event_t *events, ngx_uint_t n, ngx_mcds_log_put_pt handler,
    void *data);


#endif /* _NGX_MCDS_LOG_WRITE_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * Writing a log: lines are gathered for a moment, then appended at once.
 * Nobody waits for that, but for what was put.
 */


#ifndef _NGX_MCDS_LOG_WRITE_H_INCLUDED_
#define _NGX_MCDS_LOG_WRITE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_log.h"


/* lines are gathered for so long, milliseconds, or until a frame is full */
#define NGX_MCDS_LOG_GATHER       150

/* what a writer keeps while memcached does not take it; bytes */
#define NGX_MCDS_LOG_PENDING      (4 * 1024 * 1024)


typedef struct ngx_mcds_log_writer_s  ngx_mcds_log_writer_t;


/*
 * open: in a worker, a writer of its own; NULL when out of memory.  The log
 * must live as long.  line: adds one of this time, milliseconds since the
 * epoch; copies it, and cuts it if it is too long.
 *
 * What cannot be appended is tried again; the oldest lines are lost when there
 * is no room for them, or when nobody would read them any more: that is
 * logged.  Lines of one writer are appended in order.  When the answer to an
 * append is lost, the same frame is appended again.
 *
 * close: when the worker exits; what is left is lost, and that is logged or,
 * of what was put, told.
 */

ngx_mcds_log_writer_t *ngx_mcds_log_open(ngx_mcds_log_t *log);
void ngx_mcds_log_line(ngx_mcds_log_writer_t *writer, uint64_t time,
    ngx_str_t *line);
void ngx_mcds_log_close(ngx_mcds_log_writer_t *writer);


/*
 * Lines that are sent at once and not again, by a writer of their own, of which
 * line() is not called.  put: n is 1 at least, time and line of events are
 * given, and copied; sorts them, and tells their ids.  No line may be longer
 * than NGX_MCDS_LOG_LINE.  NGX_BUSY: out of memory, or too many are waiting.
 *
 * The handler is called later, once: by ngx_mcds_rc_e, all are stored, or the
 * first ones, as many as taken; of the next ones that is not known after
 * TIMEOUT, CLOSED and PROTOCOL.
 */

typedef void (*ngx_mcds_log_put_pt)(void *data, ngx_uint_t rc,
    ngx_uint_t taken);

ngx_int_t ngx_mcds_log_put(ngx_mcds_log_writer_t *writer,
    ngx_mcds_log_event_t *events, ngx_uint_t n, ngx_mcds_log_put_pt handler,
    void *data);


#endif /* _NGX_MCDS_LOG_WRITE_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * Reading a log: the lines of an interval, of all writers, in the order of
 * time.
 */


#ifndef _NGX_MCDS_LOG_READ_H_INCLUDED_
#define _NGX_MCDS_LOG_READ_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_log.h"


/* the largest item that is read, and all items of a read; bytes */
#define NGX_MCDS_LOG_ITEM         (8 * 1024 * 1024)
#define NGX_MCDS_LOG_HELD         (64 * 1024 * 1024)


typedef struct {
    ngx_mcds_log_event_t  *elts;
    ngx_uint_t             n;
    ngx_uint_t             max;
} ngx_mcds_log_events_t;


typedef struct ngx_mcds_log_read_s  ngx_mcds_log_read_t;

/*
 * rc NGX_MCDS_OK: the events are there as long as the handler runs; with any
 * other rc, which may be NGX_MCDS_TOO_LARGE, events is NULL.
 */

typedef void (*ngx_mcds_log_read_pt)(void *data, ngx_uint_t rc,
    ngx_mcds_log_events_t *events);


/*
 * Asks for the items of the chunks that the interval touches, all at once, and
 * of one beside it.  The log must live until the handler was called.  now:
 * milliseconds since the epoch.  NULL when out of memory; otherwise the
 * handler is called once, not from inside of this call, unless it is canceled.
 */

ngx_mcds_log_read_t *ngx_mcds_log_read(ngx_mcds_log_t *log,
    ngx_mcds_log_range_t *range, uint64_t now, ngx_mcds_log_read_pt handler,
    void *data);
void ngx_mcds_log_cancel(ngx_mcds_log_read_t *read);


/* NGX_ERROR when out of memory; elts are to be freed by ngx_free() */

ngx_int_t ngx_mcds_log_push(ngx_mcds_log_events_t *events,
    ngx_mcds_log_event_t *event);


/* asks for an item: its CAS, and its value if that is wanted, too */

void ngx_mcds_log_get_item(ngx_mcds_log_t *log, uint64_t chunk,
    ngx_uint_t part, ngx_uint_t want, ngx_mcds_op_t *op);


#endif /* _NGX_MCDS_LOG_READ_H_INCLUDED_ */

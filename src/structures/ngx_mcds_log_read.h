
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


/* the maximum size of an item of a log, and of all items of a read; bytes */
#define NGX_MCDS_LOG_ITEM         (8 * 1024 * 1024)
#define NGX_MCDS_LOG_HELD         (64 * 1024 * 1024)


typedef struct {
    ngx_mcds_log_event_t  *elts;
    ngx_uint_t             n;
    ngx_uint_t             max;
} ngx_mcds_log_events_t;


typedef struct ngx_mcds_log_read_s  ngx_mcds_log_read_t;

/*
 * The handler of a read of a log.  With rc NGX_MCDS_OK, events has the lines
 * that were read, and is valid until the handler returns; with any other rc,
 * such as NGX_MCDS_TOO_LARGE, events is NULL.
 */

typedef void (*ngx_mcds_log_read_pt)(void *data, ngx_uint_t rc,
    ngx_mcds_log_events_t *events);


/*
 * Reads the lines of a log in range, from the chunks (time intervals) of this
 * range and the chunk after them.  The log must live until the handler is
 * called; range is copied; now is in milliseconds since the epoch.  Unless the
 * read is canceled, the handler is called once, after this call has returned.
 * Returns NULL if out of memory.
 */

ngx_mcds_log_read_t *ngx_mcds_log_read(ngx_mcds_log_t *log,
    ngx_mcds_log_range_t *range, uint64_t now, ngx_mcds_log_read_pt handler,
    void *data);


/* Cancels a read of a log.  Has no effect from inside of the read's handler. */

void ngx_mcds_log_cancel(ngx_mcds_log_read_t *read);


/*
 * Appends an event, a line of a log, to an array of events.  The user frees
 * elts with ngx_free().  Returns NGX_ERROR if out of memory.
 */

ngx_int_t ngx_mcds_log_push(ngx_mcds_log_events_t *events,
    ngx_mcds_log_event_t *event);


/*
 * Submits a GET of an item of a log.  want is NGX_MCDS_VALUE for the item's
 * lines and CAS value, 0 for the CAS value alone; chunk is the number of the
 * time interval, and part that of the item in it.
 */

void ngx_mcds_log_get_item(ngx_mcds_log_t *log, uint64_t chunk,
    ngx_uint_t part, ngx_uint_t want, ngx_mcds_op_t *op);


#endif /* _NGX_MCDS_LOG_READ_H_INCLUDED_ */

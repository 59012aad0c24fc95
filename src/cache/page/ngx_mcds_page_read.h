
/*
 * Copyright (C) mcds authors
 *
 * The read of a page.
 */


#ifndef _NGX_MCDS_PAGE_READ_H_INCLUDED_
#define _NGX_MCDS_PAGE_READ_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_page_core.h"


/* a read of a page, shared by the requests of one turn of the event loop */

struct ngx_mcds_read_s {
    ngx_mcds_page_t      *page;
    ngx_mcds_snapshot_t  *snapshot;    /* the page that was found; also while
                                          its parts are checked */
    ngx_queue_t           waiters;
    ngx_queue_t           queue;       /* place in the queue of reads that are
                                          not sent yet */
    ngx_mcds_op_t         op;
    ngx_atomic_uint_t     purges;      /* the purge counter when the read was
                                          sent */
    unsigned              whole:1;     /* the read is for the value, not only
                                          the CAS */
};


/*
 * the reads of pages that this worker has not sent yet, and the event that
 * sends them
 */

typedef struct {
    ngx_queue_t  reads;
    ngx_event_t  event;
} ngx_mcds_reads_t;


/*
 * Lets a waiter join *read, a field of its page.  If *read is NULL, the read
 * of the page is created; send, the handler of the event, sends it in this
 * turn of the event loop, and done is called with the result.  Returns
 * NGX_ERROR if out of memory.
 */

ngx_int_t ngx_mcds_page_read_join(ngx_mcds_waiter_t *waiter,
    ngx_mcds_read_t **read, ngx_mcds_reads_t *reads, ngx_event_handler_pt send,
    ngx_mcds_handler_pt done);


/*
 * Calls the handlers of the requests that wait for the read of a page, with
 * its snapshot if the outcome is NGX_MCDS_PAGE_FOUND, and frees the read.
 */

void ngx_mcds_page_read_end(ngx_mcds_read_t *read, ngx_uint_t outcome);


#endif /* _NGX_MCDS_PAGE_READ_H_INCLUDED_ */

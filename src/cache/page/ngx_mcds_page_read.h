
/*
 * Copyright (C) mcds authors
 *
 * Reads of pages from memcached; requests for the same page share a read.
 */


#ifndef _NGX_MCDS_PAGE_READ_H_INCLUDED_
#define _NGX_MCDS_PAGE_READ_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_page_core.h"


/*
 * a read of a page from memcached, shared by the requests of one turn of the
 * event loop
 */

struct ngx_mcds_read_s {
    ngx_mcds_page_t      *page;
    ngx_mcds_snapshot_t  *snapshot;    /* the page that was read; set before
                                          the check that memcached has the parts
                                          of the page's body */
    ngx_queue_t           waiters;
    ngx_queue_t           queue;       /* link of this read in the queue of
                                          reads that are not sent yet */
    ngx_mcds_op_t         op;
    ngx_atomic_uint_t     purges;      /* the page's purge counter when the
                                          read was sent to memcached */
    uint64_t              asked;       /* time when the read was sent */
    unsigned              whole:1;     /* the read asks for the page's value,
                                          not only for its CAS */
};


/*
 * this worker's reads of pages that are still to be sent to memcached, and the
 * event that sends these reads
 */

typedef struct {
    ngx_queue_t  reads;
    ngx_event_t  event;
} ngx_mcds_reads_t;


/*
 * Lets a waiter (a request) join *read, a read of its page from memcached.  If
 * *read is NULL, creates the read and adds it to *reads, the reads to be sent.
 * send, the handler of the event in *reads, sends them in this turn of the
 * event loop; done is called with the reply of memcached.  Returns NGX_ERROR if
 * out of memory.
 */

ngx_int_t ngx_mcds_page_read_join(ngx_mcds_waiter_t *waiter,
    ngx_mcds_read_t **read, ngx_mcds_reads_t *reads, ngx_event_handler_pt send,
    ngx_mcds_handler_pt done);


/*
 * Ends a read of a page from memcached: calls the handlers of the requests
 * that wait for it, with the page if the outcome is NGX_MCDS_PAGE_FOUND, and
 * frees the read.
 */

void ngx_mcds_page_read_end(ngx_mcds_read_t *read, ngx_uint_t outcome);


#endif /* _NGX_MCDS_PAGE_READ_H_INCLUDED_ */

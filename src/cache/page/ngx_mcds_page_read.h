
/*
 * Copyright (C) mcds authors
 *
 * A read of a page.
 */


#ifndef _NGX_MCDS_PAGE_READ_H_INCLUDED_
#define _NGX_MCDS_PAGE_READ_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_page_core.h"


/* one read, for the requests of one turn */

struct ngx_mcds_read_s {
    ngx_mcds_page_t      *page;
    ngx_mcds_copy_t      *copy;        /* what was found; also while its parts
                                          are looked for */
    ngx_queue_t           seats;
    ngx_queue_t           queue;       /* until it is sent */
    ngx_mcds_op_t         op;
    ngx_atomic_uint_t     purges;      /* of the page, when it is sent */
    unsigned              whole:1;     /* with the value */
};


/*
 * Tells those who wait for the read, with its copy if the outcome is FOUND, and
 * frees it.
 */

void ngx_mcds_page_read_end(ngx_mcds_read_t *read, ngx_uint_t outcome);


#endif /* _NGX_MCDS_PAGE_READ_H_INCLUDED_ */

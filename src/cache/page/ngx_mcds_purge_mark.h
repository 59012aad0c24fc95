
/*
 * Copyright (C) mcds authors
 *
 * A purge under way, and what it stores under the key.
 */


#ifndef _NGX_MCDS_PURGE_MARK_H_INCLUDED_
#define _NGX_MCDS_PURGE_MARK_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_body_cut.h"
#include "ngx_mcds_purge.h"
#include "ngx_mcds_update.h"


/* then the page is deleted, whatever it is by now */
#define NGX_MCDS_PURGE_TRIES      16


typedef struct {
    ngx_mcds_pool_t      *pool;
    ngx_uint_t            how;
    uint64_t              now;
    uint64_t              stamp;       /* now, or later */
    ngx_array_t          *secrets;
    ngx_mcds_purge_pt     handler;     /* NULL: it was called */
    void                 *data;
    ngx_mcds_update_t     update;

    ngx_queue_t           queue;       /* in ngx_mcds_purge_waiting */
    ngx_event_t           event;       /* until the second look, or the next
                                          time */
    ngx_msec_t            until;
    ngx_msec_t            delay;
    unsigned              surely:1;
    unsigned              late:1;      /* counted in ngx_mcds_purge_nlate */
    unsigned              running:1;   /* ... in ngx_mcds_purge_nrunning */
    unsigned              looked:1;    /* for a page that makes room */
    ngx_mcds_cut_t        cut;         /* the parts of what is deleted */
    ngx_uint_t            found;       /* ngx_mcds_purged_e */
    ngx_uint_t            deleted;     /* it was before, or is not known */
    ngx_uint_t            ejected;     /* what was sent, to a stand-in */
    ngx_str_t             key;
} ngx_mcds_purge_t;


/*
 * mark: the page of result with a mark on it; NULL: it is to be deleted, and
 * replaced by a tombstone; NULL: out of memory.
 */

ngx_mcds_value_t *ngx_mcds_purge_mark(ngx_mcds_purge_t *purge,
    ngx_mcds_result_t *result);
ngx_mcds_value_t *ngx_mcds_purge_tombstone(ngx_mcds_purge_t *purge);


#endif /* _NGX_MCDS_PURGE_MARK_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * A purge of a page that is under way, and the value that the purge stores
 * under the page's key.
 */


#ifndef _NGX_MCDS_PURGE_MARK_H_INCLUDED_
#define _NGX_MCDS_PURGE_MARK_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_body_cut.h"
#include "ngx_mcds_purge.h"
#include "ngx_mcds_update.h"


/*
 * the number of attempts to mark a page as purged after which a purge mark
 * (tombstone) replaces it unconditionally
 */
#define NGX_MCDS_PURGE_TRIES      16


typedef struct {
    ngx_mcds_pool_t      *pool;
    ngx_uint_t            how;
    uint64_t              now;
    uint64_t              purge_time;  /* time that is written into the purged
                                          page's item as that of the purge:
                                          "now", or later */
    ngx_array_t          *secrets;
    ngx_mcds_purge_pt     handler;     /* handler of the purge, called after the
                                          first attempt; NULL: it was called */
    void                 *data;
    ngx_mcds_update_t     update;

    ngx_queue_t           queue;       /* place of the purge in the queue of
                                          purges to repeat */
    ngx_event_t           event;       /* timer of the purge: of the second
                                          lookup of the page, or of the next
                                          attempt */
    ngx_msec_t            until;
    ngx_msec_t            delay;
    unsigned              surely:1;
    unsigned              late:1;      /* the purge has failed, and is counted
                                          in ngx_mcds_purge_nlate */
    unsigned              running:1;   /* the repeated purge is under way, and
                                          is counted in
                                          ngx_mcds_purge_nrunning */
    unsigned              looked:1;    /* with NGX_MCDS_PURGE_RETIRE: the page
                                          was not found once, and is looked up
                                          a second and last time */
    ngx_mcds_cut_t        cut;         /* parts of the body of the page that is
                                          deleted */
    ngx_mcds_cut_t        left;        /* parts of the body of the page that is
                                          marked as invalidated, and stays */
    ngx_uint_t            found;       /* the kind of item that the purge has
                                          found in memcached,
                                          ngx_mcds_purged_e */
    ngx_uint_t            was_deleted; /* 1: under the page's key the purge has
                                          found the tombstone of an earlier
                                          purge that deleted the page, or an
                                          item that cannot be read */
    ngx_uint_t            ejected;     /* the purge went to a stand-in for the
                                          page's server */
    ngx_str_t             key;
} ngx_mcds_purge_t;


/*
 * Returns a copy of the item in "result", memcached's reply with a page or a
 * list of headers that a page varies by; the copy is marked as invalidated.
 * Sets purge->found.  Returns NULL if a purge mark without a page (tombstone)
 * is to replace the item, or if out of memory.  For a tombstone, purge->cut
 * tells which parts of the page's body to remove; it is zero if out of memory.
 * For the copy of a page, purge->left tells which parts its body has.
 */

ngx_mcds_value_t *ngx_mcds_purge_mark(ngx_mcds_purge_t *purge,
    ngx_mcds_result_t *result);


/*
 * Returns the value of a purge mark without a page (tombstone), or NULL if out
 * of memory.
 */

ngx_mcds_value_t *ngx_mcds_purge_tombstone(ngx_mcds_purge_t *purge);


#endif /* _NGX_MCDS_PURGE_MARK_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * The most frequent keys of all hosts in the last seconds, as precisely as
 * summaries of a bounded size allow, see ngx_mcds_topk.h.
 *
 * The window is divided into slots.  Slot s begins at second s * window /
 * slots.  A worker counts in memory, and at intervals merges its counts into
 * the item key:top:s, by compare-and-swap.  The list shown is the sum of the
 * present slot and the slots - 1 before.
 *
 * A list that is in use is read again at intervals, so that requests that
 * cannot wait get it at once.  A worker that exits merges its last counts.
 */


#ifndef _NGX_MCDS_TOP_H_INCLUDED_
#define _NGX_MCDS_TOP_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_client.h"
#include "ngx_mcds_stat.h"
#include "ngx_mcds_topk.h"


#define NGX_MCDS_TOP_SLOTS        60
#define NGX_MCDS_TOP_SIZE         100


typedef struct ngx_mcds_top_state_s  ngx_mcds_top_state_t;
typedef struct ngx_mcds_top_wait_s   ngx_mcds_top_wait_t;


typedef struct {
    ngx_mcds_pool_t        *pool;
    ngx_str_t               key;
    uint32_t                window;    /* the window, seconds in which keys are
                                          counted; a multiple of "slots", the
                                          number of its parts */
    uint32_t                slots;     /* number of parts of the window in which
                                          keys are counted, 1 to
                                          NGX_MCDS_TOP_SLOTS */
    ngx_uint_t              keys;      /* number of keys that a worker counts at
                                          a time */
    ngx_uint_t              size;      /* number of most frequent keys to
                                          show */
    ngx_msec_t              flush;     /* interval at which workers send their
                                          counts of keys to memcached and read
                                          the list of the most frequent keys,
                                          ms */

    ngx_mcds_stat_t        *stat;      /* statistics of the list of the most
                                          frequent keys, or NULL */

    ngx_mcds_top_state_t   *state;     /* state of the list of the most frequent
                                          keys in this worker, or NULL */
} ngx_mcds_top_t;


/*
 * the list of the most frequent keys to show; valid until the next turn of the
 * event loop
 */

typedef struct {
    uint64_t                total;
    ngx_uint_t              n;
    ngx_mcds_ranked_t     **ranked;    /* keys of the list, the most frequent
                                          one first */
} ngx_mcds_top_list_t;


/*
 * Returns the number of the slot, a part of the window in which keys are
 * counted, at the time now, in seconds since the epoch.
 */

uint64_t ngx_mcds_top_slot(ngx_mcds_top_t *top, time_t now);


/*
 * Returns the time to live, in seconds from "now", of the item with the counts
 * of keys in a slot (part of the window); 0: the slot is no longer shown.
 */

uint32_t ngx_mcds_top_ttl(ngx_mcds_top_t *top, uint64_t slot, time_t now);


/*
 * Called when a worker starts: starts to read the list of the most frequent
 * keys from memcached.
 */

void ngx_mcds_top_start(ngx_mcds_top_t *top);


/*
 * Frees the state of a list of most frequent keys when the worker exits, after
 * the worker's last commands.
 */

void ngx_mcds_top_exit(ngx_mcds_top_t *top);


/*
 * Counts a key, which is copied, for the list of the most frequent keys.  An
 * empty key, and one longer than NGX_MCDS_TOPK_KEY bytes, is ignored.  No
 * result is awaited.
 */

void ngx_mcds_top_add(ngx_mcds_top_t *top, ngx_str_t *key, uint64_t count);


/*
 * Returns the list of the most frequent keys as this worker has read it last,
 * or NULL.  For a minute from this call, the worker reads the list again at the
 * flush interval, at most once a second.  Counts in stat that the list was
 * used, and the failure of the last attempt to read it from memcached.
 */

ngx_mcds_top_list_t *ngx_mcds_top_list(ngx_mcds_top_t *top);


/*
 * The handler of a request that waits until the worker has read the list of the
 * most frequent keys.
 */

typedef void (*ngx_mcds_top_pt)(void *data);


/*
 * Reads the list of the most frequent keys from memcached if the worker does
 * not know it, or has not read it lately.  NGX_OK: there is nothing to wait
 * for.  NGX_AGAIN: *wait is set, and the handler is called once, not from
 * inside of this call, unless the wait is canceled.  NGX_ERROR: out of memory.
 */

ngx_int_t ngx_mcds_top_read(ngx_mcds_top_t *top, ngx_mcds_top_pt handler,
    void *data, ngx_mcds_top_wait_t **wait);


/*
 * Cancels the wait of a request for the list of the most frequent keys; must
 * not be called after the wait's handler.
 */

void ngx_mcds_top_cancel(ngx_mcds_top_wait_t *wait);


#endif /* _NGX_MCDS_TOP_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * The keys that came most often lately, on all hosts together, as far as
 * summaries of a bounded size tell (see ngx_mcds_summary.h).
 *
 * The window is cut into slots; slot number s covers the seconds from
 * s * window / slots on.  A worker counts by itself and now and then merges
 * what it has into the item key:top:s, by compare-and-swap.  Shown is the
 * sum of the present slot and the slots - 1 before it.
 *
 * What is known is read again now and then, so that it is there for those
 * who cannot wait.  A worker that exits gives away what it has.
 */


#ifndef _NGX_MCDS_TOP_H_INCLUDED_
#define _NGX_MCDS_TOP_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_client.h"
#include "ngx_mcds_stat.h"
#include "ngx_mcds_summary.h"


#define NGX_MCDS_TOP_SLOTS        60
#define NGX_MCDS_TOP_SIZE         100


typedef struct ngx_mcds_top_state_s  ngx_mcds_top_state_t;
typedef struct ngx_mcds_top_wait_s   ngx_mcds_top_wait_t;


typedef struct {
    ngx_mcds_pool_t        *pool;
    ngx_str_t               key;
    uint32_t                window;    /* seconds, a multiple of slots */
    uint32_t                slots;     /* 1 to NGX_MCDS_TOP_SLOTS */
    ngx_uint_t              keys;      /* that are watched */
    ngx_uint_t              size;      /* that are shown */
    ngx_msec_t              flush;     /* how often workers merge and read */

    ngx_mcds_stat_t        *stat;      /* or NULL */

    ngx_mcds_top_state_t   *state;     /* of this worker, or NULL */
} ngx_mcds_top_t;


/* what is shown; lives until the next turn of the event loop */

typedef struct {
    uint64_t                total;
    ngx_uint_t              n;
    ngx_mcds_ranked_t     **ranked;    /* the first one first */
} ngx_mcds_top_list_t;


/*
 * The number of the slot of second now, and for how many seconds from then
 * on its item is needed.
 */

uint64_t ngx_mcds_top_slot(ngx_mcds_top_t *top, time_t now);
uint32_t ngx_mcds_top_ttl(ngx_mcds_top_t *top, uint64_t slot, time_t now);


/*
 * start: when the worker starts; begins to read.  exit: when it exits and the
 * pool was left; frees all.
 */

void ngx_mcds_top_start(ngx_mcds_top_t *top);
void ngx_mcds_top_exit(ngx_mcds_top_t *top);


/* counts key, which is copied; nobody waits for it */

void ngx_mcds_top_add(ngx_mcds_top_t *top, ngx_str_t *key, uint64_t count);


/*
 * What is known, NULL if nothing is.  It is read again from now on as often
 * as flush says, for a minute.  Counts in stat that somebody has read it, and
 * what the last reading of it has failed with.
 */

ngx_mcds_top_list_t *ngx_mcds_top_list(ngx_mcds_top_t *top);


/*
 * Reads what is not known, or not lately.  NGX_OK: there is nothing to wait
 * for.  NGX_AGAIN: the handler is called once, not from inside of this call,
 * unless *wait is canceled.  NGX_ERROR: out of memory.
 */

typedef void (*ngx_mcds_top_pt)(void *data);

ngx_int_t ngx_mcds_top_read(ngx_mcds_top_t *top, ngx_mcds_top_pt handler,
    void *data, ngx_mcds_top_wait_t **wait);
void ngx_mcds_top_cancel(ngx_mcds_top_wait_t *wait);


#endif /* _NGX_MCDS_TOP_H_INCLUDED_ */

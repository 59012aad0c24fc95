
/*
 * Copyright (C) mcds authors
 *
 * Lines of a log as they come.  All followers of a worker share one feed,
 * which looks for what is new from time to time.
 */


#ifndef _NGX_MCDS_LOG_FEED_H_INCLUDED_
#define _NGX_MCDS_LOG_FEED_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_log.h"
#include "ngx_mcds_log_batch.h"


/* milliseconds between two looks */
#define NGX_MCDS_LOG_TICK         500

/* lines that are written so late are still found; milliseconds */
#define NGX_MCDS_LOG_LATE         10000


typedef struct ngx_mcds_log_feed_s  ngx_mcds_log_feed_t;


/*
 * Called at each tick, and when lines have come; then with a batch, otherwise
 * with NULL.  rc: how the last look went.  It may leave from inside of it.
 */

typedef void (*ngx_mcds_log_follow_pt)(void *data, ngx_uint_t rc,
    ngx_mcds_log_batch_t *batch);


typedef struct {
    ngx_queue_t             queue;
    ngx_mcds_log_feed_t    *feed;       /* NULL: does not follow */
    ngx_mcds_log_follow_pt  handler;
    void                   *data;
} ngx_mcds_log_follower_t;


/*
 * follow: from now on; NGX_ERROR when out of memory.
 *
 * ready: 1 if the feed knows what was there before.  settled: later lines come
 * in batches, each of them once; earlier ones have to be read, but a line that
 * was late may be in both, until a look that began after the read: see looks().
 */

ngx_int_t ngx_mcds_log_follow(ngx_mcds_log_t *log,
    ngx_mcds_log_follower_t *follower);
void ngx_mcds_log_leave(ngx_mcds_log_follower_t *follower);
ngx_uint_t ngx_mcds_log_ready(ngx_mcds_log_follower_t *follower);
uint64_t ngx_mcds_log_settled(ngx_mcds_log_follower_t *follower);
ngx_uint_t ngx_mcds_log_looks(ngx_mcds_log_follower_t *follower);


#endif /* _NGX_MCDS_LOG_FEED_H_INCLUDED_ */

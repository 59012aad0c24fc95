
/*
 * Copyright (C) mcds authors
 *
 * Following a log.  All followers of a log in a worker share one feed, which
 * looks for new lines at intervals.
 */


#ifndef _NGX_MCDS_LOG_FEED_H_INCLUDED_
#define _NGX_MCDS_LOG_FEED_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_log.h"
#include "ngx_mcds_log_batch.h"


/* the interval between two looks for new lines of a log, ms */
#define NGX_MCDS_LOG_TICK         500

/*
 * the maximum delay, after the time of a line of a log, with which the line may
 * be written so that followers still find it, ms
 */
#define NGX_MCDS_LOG_LATE         10000


typedef struct ngx_mcds_log_feed_s  ngx_mcds_log_feed_t;


/*
 * The handler of a follower of a log, called at intervals with a batch of NULL,
 * and with each batch of new lines.  rc is the result of the last look for new
 * lines.  The follower may leave from inside of the handler.
 */

typedef void (*ngx_mcds_log_follow_pt)(void *data, ngx_uint_t rc,
    ngx_mcds_log_batch_t *batch);


typedef struct {
    ngx_queue_t             queue;
    ngx_mcds_log_feed_t    *feed;       /* feed that all followers of the log in
                                           this worker share; NULL: the follower
                                           follows no log */
    ngx_mcds_log_follow_pt  handler;
    void                   *data;
} ngx_mcds_log_follower_t;


/* Starts to follow a log.  Returns NGX_ERROR if out of memory. */

ngx_int_t ngx_mcds_log_follow(ngx_mcds_log_t *log,
    ngx_mcds_log_follower_t *follower);


/* Stops following a log; has no effect on a follower that does not follow. */

void ngx_mcds_log_leave(ngx_mcds_log_follower_t *follower);


/*
 * Returns 1 if the first look for new lines of the follower's log has ended,
 * even in a failure: it tells old lines of the log from new ones.
 */

ngx_uint_t ngx_mcds_log_ready(ngx_mcds_log_follower_t *follower);


/*
 * Returns the time, in milliseconds since the epoch, up to which the lines of a
 * log have settled: no earlier line is to come.  If more lines came at a time
 * than the feed holds back, it is the time of the last line that followers have
 * got, if that is later.  The follower gets later lines in batches, each line
 * once, and reads earlier lines by ngx_mcds_log_read().
 * A line that was written late, or is held back, may come twice: from such a
 * read, and in a batch of new lines.  The last batch that may repeat a line of
 * a read is that of the first look for new lines that begins after the read, or
 * that of the look in which ngx_mcds_log_held() reaches the time up to which
 * the read has returned lines, if this look is later.  The function
 * ngx_mcds_log_look_count() counts the looks.  Failed looks in a row and the
 * successful look after them share one number: their batches have the number of
 * the first of these looks.
 */

uint64_t ngx_mcds_log_settled(ngx_mcds_log_follower_t *follower);


/*
 * Returns the time, in milliseconds since the epoch, whose later lines the feed
 * holds back.  It is earlier than that of ngx_mcds_log_settled() if followers
 * have got lines that have not settled, or if the clock was set back.
 */

uint64_t ngx_mcds_log_held(ngx_mcds_log_follower_t *follower);


/*
 * Returns how often the worker has looked for new lines of the follower's log,
 * including the search that is under way.
 */

ngx_uint_t ngx_mcds_log_look_count(ngx_mcds_log_follower_t *follower);


#endif /* _NGX_MCDS_LOG_FEED_H_INCLUDED_ */

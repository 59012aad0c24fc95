
/*
 * Copyright (C) mcds authors
 *
 * The frames of a log's writer: lines of one chunk (time interval) of the log
 * that are appended at once.  They wait in a queue, the oldest ones first.  The
 * frames of a chunk are held while its lines cannot be written.
 */


#ifndef _NGX_MCDS_LOG_FRAMES_H_INCLUDED_
#define _NGX_MCDS_LOG_FRAMES_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_log.h"
#include "ngx_mcds_log_write.h"


typedef struct {
    ngx_queue_t             queue;
    uint64_t                chunk;
    ngx_uint_t              part;       /* item of the log at which the writing
                                           of these lines begins */
    ngx_uint_t              lines;
    ngx_mcds_value_t       *value;
    ngx_mcds_log_put_pt     handler;
    void                   *data;
    ngx_msec_t              refused;    /* when the pool was too busy to send
                                           these lines for the first time */
    unsigned                ended:1;
    unsigned                once:1;
    unsigned                failed:1;   /* these lines were sent in vain */
    unsigned                held:1;     /* lines of this time interval of the
                                           log could not be written */
} ngx_mcds_log_frame_t;


/*
 * Creates a frame with room for len bytes of log lines; seq is the number of
 * the first line.  Returns NULL if out of memory.
 */

ngx_mcds_log_frame_t *ngx_mcds_log_frame_create(uint64_t writer, uint64_t seq,
    uint64_t chunk, size_t len);


/*
 * Notes that a pool was too busy to send the frame (lines to append at once) to
 * the item "part".  Returns 1 if less than timeout ms have passed since it was
 * too busy for the first time: the lines are sent again.
 */

ngx_uint_t ngx_mcds_log_frame_again(ngx_mcds_log_frame_t *frame,
    ngx_uint_t part, ngx_msec_t timeout);


/* Removes a frame (lines to append at once) from its queue, and frees it. */

void ngx_mcds_log_frame_free(ngx_mcds_log_frame_t *frame);


/*
 * Adds a frame (lines to append at once) at the end of the queue; it is held if
 * others of its chunk are.
 */

void ngx_mcds_log_frames_add(ngx_queue_t *frames, ngx_mcds_log_frame_t *frame);


/* Holds all frames (lines to append at once) of a chunk (time interval). */

void ngx_mcds_log_frames_hold(ngx_queue_t *frames, uint64_t chunk);


/* Ends the hold of all frames (lines to append at once). */

void ngx_mcds_log_frames_release(ngx_queue_t *frames);


/*
 * Returns the first frame (lines to append at once) of a held chunk (time
 * interval): of the next one after the chunk "after" or, if there is none, of
 * the first one.  NULL: no chunk is held.
 */

ngx_mcds_log_frame_t *ngx_mcds_log_frames_held(ngx_queue_t *frames,
    uint64_t after);


/* Returns the first frame (lines to append at once) not held; NULL: none. */

ngx_mcds_log_frame_t *ngx_mcds_log_frames_first(ngx_queue_t *frames);


#endif /* _NGX_MCDS_LOG_FRAMES_H_INCLUDED_ */

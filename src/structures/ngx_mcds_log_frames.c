
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_log.h"
#include "ngx_mcds_log_frames.h"


ngx_mcds_log_frame_t *
ngx_mcds_log_frame_create(uint64_t writer, uint64_t seq, uint64_t chunk,
    size_t len)
{
    u_char                *last;
    ngx_str_t              host;
    ngx_mcds_log_frame_t  *frame;

    frame = ngx_calloc(sizeof(ngx_mcds_log_frame_t), ngx_cycle->log);
    if (frame == NULL) {
        return NULL;
    }

    host = ngx_cycle->hostname;

    frame->value = ngx_mcds_value_create(NGX_MCDS_LOG_HEAD
                                         + ngx_min(host.len, 255) + len
                                         + NGX_MCDS_VALUE_SPARE,
                                         ngx_cycle->log);
    if (frame->value == NULL) {
        ngx_free(frame);
        return NULL;
    }

    last = ngx_mcds_log_begin(frame->value->data, &host, writer, seq);

    frame->value->len = last - frame->value->data;
    frame->chunk = chunk;

    return frame;
}


ngx_uint_t
ngx_mcds_log_frame_again(ngx_mcds_log_frame_t *frame, ngx_uint_t part,
    ngx_msec_t timeout)
{
    if (!frame->failed) {
        frame->failed = 1;
        frame->refused = ngx_current_msec;
    }

    frame->part = part;

    return ngx_current_msec - frame->refused < timeout;
}


void
ngx_mcds_log_frame_free(ngx_mcds_log_frame_t *frame)
{
    ngx_queue_remove(&frame->queue);

    ngx_mcds_value_unref(frame->value);
    ngx_free(frame);
}


void
ngx_mcds_log_frames_add(ngx_queue_t *frames, ngx_mcds_log_frame_t *frame)
{
    ngx_queue_t           *q;
    ngx_mcds_log_frame_t  *other;

    for (q = ngx_queue_head(frames);
         q != ngx_queue_sentinel(frames);
         q = ngx_queue_next(q))
    {
        other = ngx_queue_data(q, ngx_mcds_log_frame_t, queue);

        if (other->held && other->chunk == frame->chunk) {
            frame->held = 1;
            break;
        }
    }

    ngx_queue_insert_tail(frames, &frame->queue);
}


void
ngx_mcds_log_frames_hold(ngx_queue_t *frames, uint64_t chunk)
{
    ngx_queue_t           *q;
    ngx_mcds_log_frame_t  *frame;

    for (q = ngx_queue_head(frames);
         q != ngx_queue_sentinel(frames);
         q = ngx_queue_next(q))
    {
        frame = ngx_queue_data(q, ngx_mcds_log_frame_t, queue);

        if (frame->chunk == chunk) {
            frame->held = 1;
        }
    }
}


void
ngx_mcds_log_frames_release(ngx_queue_t *frames)
{
    ngx_queue_t           *q;
    ngx_mcds_log_frame_t  *frame;

    for (q = ngx_queue_head(frames);
         q != ngx_queue_sentinel(frames);
         q = ngx_queue_next(q))
    {
        frame = ngx_queue_data(q, ngx_mcds_log_frame_t, queue);
        frame->held = 0;
    }
}


ngx_mcds_log_frame_t *
ngx_mcds_log_frames_held(ngx_queue_t *frames, uint64_t after)
{
    ngx_queue_t           *q;
    ngx_mcds_log_frame_t  *frame, *first, *next;

    first = NULL;
    next = NULL;

    /* if the clock was set back, the queue is not in the order of the chunks */

    for (q = ngx_queue_head(frames);
         q != ngx_queue_sentinel(frames);
         q = ngx_queue_next(q))
    {
        frame = ngx_queue_data(q, ngx_mcds_log_frame_t, queue);

        if (!frame->held) {
            continue;
        }

        if (first == NULL || frame->chunk < first->chunk) {
            first = frame;
        }

        if (frame->chunk > after
            && (next == NULL || frame->chunk < next->chunk))
        {
            next = frame;
        }
    }

    return next ? next : first;
}


ngx_mcds_log_frame_t *
ngx_mcds_log_frames_first(ngx_queue_t *frames)
{
    ngx_queue_t           *q;
    ngx_mcds_log_frame_t  *frame;

    for (q = ngx_queue_head(frames);
         q != ngx_queue_sentinel(frames);
         q = ngx_queue_next(q))
    {
        frame = ngx_queue_data(q, ngx_mcds_log_frame_t, queue);

        if (!frame->held) {
            return frame;
        }
    }

    return NULL;
}


/*
 * Copyright (C) mcds authors
 *
 * The writer of a log.  Lines wait in a queue of frames; the lines of a frame
 * are of the same chunk (time interval), and are written together.  One frame
 * is written after another, the oldest one that is not held first:
 *
 *   append  to the item to which the last frame went; at the same time the
 *           counter of the bytes in the chunk is incremented: its new value
 *           tells whether the next frame goes to the next item
 *   add     the item, if it does not exist; another writer may be faster
 *   append  to the item of the other writer; if that is full, to the next one
 *
 * After a failure, frames of ngx_mcds_log_line() are written again; those of
 * ngx_mcds_log_put(), whose caller is told of the failure, only if the pool was
 * too busy to send them.  If the lines of one call of ngx_mcds_log_put() need
 * several frames, the last of them has the caller's handler.
 *
 * A chunk whose frame could not be written is held, with all its frames: other
 * chunks may be on other servers, and are written meanwhile.  At intervals one
 * frame of the held chunks is written, of each chunk in turn; when that
 * succeeds, no chunk is held any more.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_log.h"
#include "ngx_mcds_log_aside.h"
#include "ngx_mcds_log_frames.h"
#include "ngx_mcds_log_spot.h"
#include "ngx_mcds_log_write.h"


/*
 * the interval between attempts to write to a log, and to send lines for which
 * the pool was too busy; the time for which a worker that exits tries after its
 * last line or a first failure; and the interval between messages about lost
 * lines; ms
 */
#define NGX_MCDS_LOG_RETRY        500
#define NGX_MCDS_LOG_AGAIN        10
#define NGX_MCDS_LOG_EXIT         3000
#define NGX_MCDS_LOG_SAY          10000

/*
 * the interval, ms, at which a writer looks whether earlier items of the log
 * are still there, and how many it looks for at a time
 */
#define NGX_MCDS_LOG_CHECK        1000
#define NGX_MCDS_LOG_CHECKS       4

/*
 * if the clock is set back by less than this, in ms, new log lines get the time
 * of the line before, so that the times do not decrease
 */
#define NGX_MCDS_LOG_BACK         1000


struct ngx_mcds_log_writer_s {
    ngx_mcds_log_t         *log;
    uint64_t                number;
    uint64_t                seq;        /* number of the next log line */
    uint64_t                time;       /* time of the last log line */

    ngx_mcds_op_t           op;         /* operation that appends log lines */
    ngx_mcds_log_frame_t   *frame;      /* the log lines that the operation
                                           appends */
    ngx_queue_t             frames;
    size_t                  pending;    /* bytes of log lines yet to store */
    ngx_event_t             event;

    ngx_mcds_log_spots_t    spots;
    ngx_mcds_log_spot_t     was;        /* spots.at before the log lines that
                                           are being sent */
    ngx_uint_t              check;      /* number of the item of the log that
                                           was last checked, and created if
                                           missing; counts down */
    ngx_msec_t              checked;    /* when earlier items of the log were
                                           last looked for */
    ngx_uint_t              verb;
    ngx_mcds_log_asides_t   asides;     /* commands besides those that append
                                           lines */
    ngx_uint_t              lost;       /* lost lines of the log that are not
                                           yet reported in the error log */
    ngx_uint_t              rc;         /* why log lines could not be sent */
    ngx_uint_t              taken;      /* lines stored so far by the oldest
                                           unfinished ngx_mcds_log_put() */
    ngx_msec_t              said;
    ngx_msec_t              retry;      /* when log lines that are held are sent
                                           again */
    uint64_t                retried;    /* time interval of the held log lines
                                           that were last sent again in vain */
    ngx_msec_t              give_up;    /* when a worker that exits no longer
                                           tries to send log lines */

    unsigned                busy:1;     /* lines of the log are being sent */
    unsigned                added:1;    /* the log's item exists: if an append
                                           fails again, the item is full */
    unsigned                failing:1;  /* log lines are held */
    unsigned                silent:1;   /* a loss of log lines was logged, most
                                           recently at the time "said" */
    unsigned                exiting:1;
};


static ngx_mcds_log_frame_t *ngx_mcds_log_room(ngx_mcds_log_writer_t *writer,
    uint64_t chunk, size_t len);
static size_t ngx_mcds_log_space(ngx_mcds_log_writer_t *writer);
static ngx_mcds_log_frame_t *ngx_mcds_log_new_frame(
    ngx_mcds_log_writer_t *writer, uint64_t chunk, size_t len);
static void ngx_mcds_log_into(ngx_mcds_log_writer_t *writer,
    ngx_mcds_log_frame_t *frame, uint64_t time, ngx_str_t *line);
static ngx_mcds_log_frame_t *ngx_mcds_log_put_frame(
    ngx_mcds_log_writer_t *writer, ngx_mcds_log_event_t *events,
    ngx_uint_t n);
static void ngx_mcds_log_put_done(ngx_mcds_log_writer_t *writer,
    ngx_uint_t rc);
static void ngx_mcds_log_drop(ngx_mcds_log_writer_t *writer,
    ngx_mcds_log_frame_t *frame);
static void ngx_mcds_log_lose(ngx_mcds_log_writer_t *writer, ngx_uint_t lines,
    ngx_uint_t rc);
static void ngx_mcds_log_say(ngx_mcds_log_writer_t *writer);
static void ngx_mcds_log_flush_handler(ngx_event_t *ev);
static void ngx_mcds_log_flush(ngx_mcds_log_writer_t *writer);
static ngx_mcds_log_frame_t *ngx_mcds_log_choose(
    ngx_mcds_log_writer_t *writer);
static void ngx_mcds_log_send(ngx_mcds_log_writer_t *writer);
static void ngx_mcds_log_restore(ngx_mcds_log_writer_t *writer);
static void ngx_mcds_log_size_handler(void *data, uint64_t chunk,
    uint64_t size);
static void ngx_mcds_log_handler(void *data, ngx_mcds_result_t *result);
static ngx_int_t ngx_mcds_log_next_try(ngx_mcds_log_writer_t *writer,
    ngx_uint_t rc);
static void ngx_mcds_log_done(ngx_mcds_log_writer_t *writer, ngx_uint_t rc);
static void ngx_mcds_log_failed(ngx_mcds_log_writer_t *writer, ngx_uint_t rc);
static void ngx_mcds_log_next_timer(ngx_mcds_log_writer_t *writer);
static void ngx_mcds_log_wait(ngx_mcds_log_writer_t *writer, ngx_msec_t wait);


ngx_mcds_log_writer_t *
ngx_mcds_log_open(ngx_mcds_log_t *log)
{
    ngx_mcds_log_writer_t  *writer;

    writer = ngx_calloc(sizeof(ngx_mcds_log_writer_t), ngx_cycle->log);
    if (writer == NULL) {
        return NULL;
    }

    writer->log = log;
    writer->seq = 1;

    ngx_mcds_random(&writer->number, sizeof(uint64_t));
    ngx_queue_init(&writer->frames);
    ngx_queue_init(&writer->asides.queue);

    writer->asides.log = log;
    writer->asides.handler = ngx_mcds_log_size_handler;
    writer->asides.data = writer;

    writer->op.handler = ngx_mcds_log_handler;
    writer->op.data = writer;

    /* the timer is not cancelable: log lines are sent before a worker exits */

    writer->event.handler = ngx_mcds_log_flush_handler;
    writer->event.data = writer;
    writer->event.log = ngx_cycle->log;

    return writer;
}


void
ngx_mcds_log_line(ngx_mcds_log_writer_t *writer, uint64_t time,
    ngx_str_t *line)
{
    ngx_str_t              text;
    ngx_mcds_log_frame_t  *frame;

    if (time < writer->time && writer->time - time < NGX_MCDS_LOG_BACK) {
        time = writer->time;
    }

    writer->time = time;

    text.data = line->data;
    text.len = ngx_min(line->len, NGX_MCDS_LOG_LINE);

    frame = ngx_mcds_log_room(writer, time / writer->log->chunk,
                              NGX_MCDS_LOG_RECORD + text.len);
    if (frame == NULL) {

        /* the number of the lost log line is not used: readers see the gap */

        writer->seq++;

        ngx_mcds_log_lose(writer, 1, NGX_MCDS_BUSY);
        return;
    }

    ngx_mcds_log_into(writer, frame, time, &text);

    if (ngx_exiting) {
        writer->give_up = ngx_current_msec + NGX_MCDS_LOG_EXIT;
    }

    if (writer->busy) {
        return;
    }

    if (!frame->held) {
        ngx_mcds_log_wait(writer, ngx_exiting ? 1 : NGX_MCDS_LOG_GATHER);

    } else if (ngx_exiting) {

        /* the worker, which still serves requests, may have given up */

        ngx_mcds_log_wait(writer, NGX_MCDS_LOG_RETRY);
    }
}


/*
 * Returns a frame (log lines sent at once) with room for len bytes.  NULL: out
 * of memory, or too many bytes wait even after the oldest frames were dropped.
 */

static ngx_mcds_log_frame_t *
ngx_mcds_log_room(ngx_mcds_log_writer_t *writer, uint64_t chunk, size_t len)
{
    ngx_queue_t           *q;
    ngx_mcds_log_frame_t  *frame;

    if (!ngx_queue_empty(&writer->frames)) {

        q = ngx_queue_last(&writer->frames);
        frame = ngx_queue_data(q, ngx_mcds_log_frame_t, queue);

        if (!frame->ended
            && frame->chunk == chunk
            && frame->value->size - 2 - frame->value->len >= len)
        {
            return frame;
        }

        /* this frame (log lines sent at once) is full or too old: send it */

        if (!writer->busy && !frame->held) {
            ngx_mcds_log_wait(writer, 1);
        }
    }

    while (writer->pending + NGX_MCDS_LOG_FRAME > NGX_MCDS_LOG_PENDING) {

        q = ngx_queue_head(&writer->frames);

        if (writer->busy && q == &writer->frame->queue) {
            q = ngx_queue_next(q);
        }

        if (q == ngx_queue_sentinel(&writer->frames)) {
            return NULL;
        }

        frame = ngx_queue_data(q, ngx_mcds_log_frame_t, queue);

        ngx_mcds_log_lose(writer, frame->lines, writer->rc);
        ngx_mcds_log_drop(writer, frame);
    }

    /* a frame (lines sent at once) has room for any line, even a long one */

    return ngx_mcds_log_new_frame(writer, chunk,
                                  ngx_max(len, ngx_mcds_log_space(writer)));
}


/* Returns how many bytes of lines may be appended to a log at once. */

static size_t
ngx_mcds_log_space(ngx_mcds_log_writer_t *writer)
{
    return ngx_min(writer->log->max_chunk, NGX_MCDS_LOG_FRAME)
           - NGX_MCDS_LOG_HEAD - ngx_min(ngx_cycle->hostname.len, 255);
}


static ngx_mcds_log_frame_t *
ngx_mcds_log_new_frame(ngx_mcds_log_writer_t *writer, uint64_t chunk,
    size_t len)
{
    ngx_mcds_log_frame_t  *frame;

    frame = ngx_mcds_log_frame_create(writer->number, writer->seq, chunk, len);
    if (frame == NULL) {
        return NULL;
    }

    writer->pending += frame->value->size;

    ngx_mcds_log_frames_add(&writer->frames, frame);

    return frame;
}


static void
ngx_mcds_log_into(ngx_mcds_log_writer_t *writer, ngx_mcds_log_frame_t *frame,
    uint64_t time, ngx_str_t *line)
{
    ngx_mcds_value_t  *value;

    value = frame->value;
    value->len = ngx_mcds_log_add(value->data, value->data + value->len, time,
                                  line)
                 - value->data;

    frame->lines++;
    writer->seq++;
}


static void
ngx_mcds_log_drop(ngx_mcds_log_writer_t *writer, ngx_mcds_log_frame_t *frame)
{
    writer->pending -= frame->value->size;

    ngx_mcds_log_frame_free(frame);
}


ngx_int_t
ngx_mcds_log_put(ngx_mcds_log_writer_t *writer, ngx_mcds_log_event_t *events,
    ngx_uint_t n, ngx_mcds_log_put_pt handler, void *data)
{
    ngx_uint_t             i;
    ngx_queue_t           *q;
    ngx_mcds_log_frame_t  *frame;

    /* sort the lines by time: those of one item of the log are then together */

    for (i = 0; i < n; i++) {
        events[i].id.writer = writer->number;
        events[i].id.seq = i;
    }

    (void) ngx_mcds_log_sort(events, n);

    frame = NULL;

    for (i = 0; i < n; i += frame->lines) {

        frame = ngx_mcds_log_put_frame(writer, &events[i], n - i);

        if (frame == NULL) {
            break;
        }

        frame->once = 1;
    }

    if (frame) {
        frame->handler = handler;
        frame->data = data;

        ngx_post_event(&writer->event, &ngx_posted_events);

        return NGX_OK;
    }

    /* drop the frames (log lines) of this call, which have no handler yet */

    while (!ngx_queue_empty(&writer->frames)) {

        q = ngx_queue_last(&writer->frames);
        frame = ngx_queue_data(q, ngx_mcds_log_frame_t, queue);

        if (frame->handler) {
            break;
        }

        ngx_mcds_log_drop(writer, frame);
    }

    return NGX_BUSY;
}


/* Makes a frame of as many of n lines as can be appended to a log at once. */

static ngx_mcds_log_frame_t *
ngx_mcds_log_put_frame(ngx_mcds_log_writer_t *writer,
    ngx_mcds_log_event_t *events, ngx_uint_t n)
{
    size_t                 len, more, space;
    uint64_t               chunk;
    ngx_uint_t             i, lines;
    ngx_mcds_log_frame_t  *frame;

    chunk = events[0].id.time / writer->log->chunk;
    space = ngx_mcds_log_space(writer);
    len = 0;

    for (lines = 0; lines < n; lines++) {

        more = NGX_MCDS_LOG_RECORD + events[lines].line.len;

        if (lines && (events[lines].id.time / writer->log->chunk != chunk
                      || len + more > space))
        {
            break;
        }

        len += more;
    }

    if (writer->pending + len > NGX_MCDS_LOG_PENDING) {
        return NULL;
    }

    frame = ngx_mcds_log_new_frame(writer, chunk, len);
    if (frame == NULL) {
        return NULL;
    }

    for (i = 0; i < lines; i++) {
        events[i].id.seq = writer->seq;
        ngx_mcds_log_into(writer, frame, events[i].id.time, &events[i].line);
    }

    return frame;
}


/*
 * Frees the first frame (lines to append at once) of a ngx_mcds_log_put(), and
 * after a failure its other frames, too; calls the handler after the last one.
 */

static void
ngx_mcds_log_put_done(ngx_mcds_log_writer_t *writer, ngx_uint_t rc)
{
    void                  *data;
    ngx_uint_t             taken;
    ngx_queue_t           *q;
    ngx_mcds_log_put_pt    handler;
    ngx_mcds_log_frame_t  *frame;

    do {
        q = ngx_queue_head(&writer->frames);
        frame = ngx_queue_data(q, ngx_mcds_log_frame_t, queue);

        if (rc == NGX_MCDS_OK) {
            writer->taken += frame->lines;
        }

        handler = frame->handler;
        data = frame->data;

        ngx_mcds_log_drop(writer, frame);

    } while (rc != NGX_MCDS_OK && handler == NULL);

    if (!ngx_queue_empty(&writer->frames)) {
        ngx_post_event(&writer->event, &ngx_posted_events);
    }

    if (handler) {
        taken = writer->taken;
        writer->taken = 0;

        handler(data, rc, taken);
    }
}


static void
ngx_mcds_log_lose(ngx_mcds_log_writer_t *writer, ngx_uint_t lines,
    ngx_uint_t rc)
{
    ngx_mcds_stat_add(writer->log->stat, NGX_MCDS_DATA_LOST, lines);

    writer->lost += lines;
    writer->rc = (rc == NGX_MCDS_OK) ? NGX_MCDS_BUSY : rc;

    if (!writer->silent
        || ngx_current_msec - writer->said >= NGX_MCDS_LOG_SAY)
    {
        ngx_mcds_log_say(writer);
    }
}


static void
ngx_mcds_log_say(ngx_mcds_log_writer_t *writer)
{
    if (writer->lost == 0) {
        return;
    }

    ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                  "\"mcds_log %V\" has lost %ui lines: %s",
                  &writer->log->name, writer->lost,
                  ngx_mcds_strerror(writer->rc));

    writer->lost = 0;
    writer->silent = 1;
    writer->said = ngx_current_msec;
}


static void
ngx_mcds_log_flush_handler(ngx_event_t *ev)
{
    ngx_mcds_log_writer_t  *writer;

    writer = ev->data;

    if (ngx_exiting && !writer->exiting) {
        writer->exiting = 1;
        writer->give_up = ngx_current_msec + NGX_MCDS_LOG_EXIT;
    }

    ngx_mcds_log_flush(writer);
}


static void
ngx_mcds_log_flush(ngx_mcds_log_writer_t *writer)
{
    ngx_mcds_log_spot_t   *at;
    ngx_mcds_log_frame_t  *frame;

    if (writer->busy) {
        return;
    }

    frame = ngx_mcds_log_choose(writer);

    if (frame == NULL) {
        ngx_mcds_log_next_timer(writer);
        return;
    }

    writer->frame = frame;

    if (!frame->ended) {
        frame->ended = 1;
        (void) ngx_mcds_log_end(frame->value->data,
                                frame->value->data + frame->value->len);
    }

    ngx_mcds_log_turn(&writer->spots, frame->chunk);

    at = &writer->spots.at;

    writer->was = *at;

    if (at->crowded) {
        at->part++;
        at->written = 0;
    }

    if (at->part < frame->part) {
        at->part = frame->part;
        at->written = 0;
    }

    at->crowded = 0;

    writer->verb = NGX_MCDS_APPEND;
    writer->added = 0;

    ngx_mcds_log_send(writer);
}


/*
 * Returns the frame (lines to append at once) that is sent next; NULL: none
 * now.  The frames at the start of the queue, whose time interval the log no
 * longer keeps, are dropped.
 */

static ngx_mcds_log_frame_t *
ngx_mcds_log_choose(ngx_mcds_log_writer_t *writer)
{
    uint64_t               first;
    ngx_queue_t           *q;
    ngx_mcds_log_frame_t  *frame;

    first = ngx_mcds_log_first(writer->log, ngx_mcds_now());

    while (!ngx_queue_empty(&writer->frames)) {

        q = ngx_queue_head(&writer->frames);
        frame = ngx_queue_data(q, ngx_mcds_log_frame_t, queue);

        if (frame->chunk >= first || frame->once) {
            break;
        }

        ngx_mcds_log_lose(writer, frame->lines, writer->rc);
        ngx_mcds_log_drop(writer, frame);
    }

    if (writer->failing
        && (ngx_msec_int_t) (ngx_current_msec - writer->retry) >= 0)
    {
        frame = ngx_mcds_log_frames_held(&writer->frames, writer->retried);

        if (frame) {
            return frame;
        }

        writer->failing = 0;
    }

    return ngx_mcds_log_frames_first(&writer->frames);
}


static void
ngx_mcds_log_send(ngx_mcds_log_writer_t *writer)
{
    u_char                 buf[NGX_MCDS_LOG_SUFFIX];
    ngx_mcds_request_t     req;
    ngx_mcds_log_frame_t  *frame;

    frame = writer->frame;

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.verb = writer->verb;
    req.key = writer->log->name;
    ngx_mcds_log_suffix(&req.suffix, buf, frame->chunk, writer->spots.at.part);
    req.value = frame->value;
    req.ttl = ngx_mcds_log_ttl(writer->log->chunk, writer->log->chunks);
    req.single = 1;

    writer->busy = 1;

    ngx_mcds_submit(writer->log->pool, &req, &writer->op);

    if (writer->verb == NGX_MCDS_APPEND
        && !writer->added
        && !frame->failed)
    {
        ngx_mcds_log_add_size(&writer->asides, frame->chunk, frame->value->len);
        ngx_mcds_log_restore(writer);
    }
}


/*
 * Creates missing earlier items of the log's time interval, a few at a time, in
 * turn: memcached may lose an earlier item while a later one, on another
 * server, is written to.
 */

static void
ngx_mcds_log_restore(ngx_mcds_log_writer_t *writer)
{
    ngx_uint_t  n;

    if (writer->spots.at.part == 0
        || ngx_current_msec - writer->checked < NGX_MCDS_LOG_CHECK)
    {
        return;
    }

    writer->checked = ngx_current_msec;

    for (n = ngx_min(writer->spots.at.part, NGX_MCDS_LOG_CHECKS); n; n--) {

        if (writer->check == 0 || writer->check > writer->spots.at.part) {
            writer->check = writer->spots.at.part;
        }

        ngx_mcds_log_fill(&writer->asides, writer->spots.at.chunk,
                          --writer->check);
    }
}


/*
 * Handles the number of bytes in a time interval of a log: if it is large, the
 * writer goes to the next item, but only to the next, so that none is skipped.
 */

static void
ngx_mcds_log_size_handler(void *data, uint64_t chunk, uint64_t size)
{
    ngx_mcds_log_spot_t    *spot;
    ngx_mcds_log_writer_t  *writer;

    writer = data;
    spot = ngx_mcds_log_spot(&writer->spots, chunk);

    if (spot
        && size / writer->log->max_chunk > spot->part
        && spot->part + 1 < NGX_MCDS_LOG_PARTS)
    {
        spot->crowded = 1;
    }
}


static void
ngx_mcds_log_handler(void *data, ngx_mcds_result_t *result)
{
    ngx_uint_t              rc;
    ngx_mcds_log_writer_t  *writer;

    writer = data;
    rc = result->rc;

    if (ngx_mcds_log_next_try(writer, rc) == NGX_OK) {
        ngx_mcds_log_send(writer);
        return;
    }

    if (rc == NGX_MCDS_OK
        && writer->verb == NGX_MCDS_ADD
        && writer->spots.at.part)
    {
        ngx_mcds_log_fill(&writer->asides, writer->spots.at.chunk,
                          writer->spots.at.part - 1);
    }

    ngx_mcds_log_done(writer, rc);
}


/* Chooses the next command to append the log lines; NGX_DECLINED: none. */

static ngx_int_t
ngx_mcds_log_next_try(ngx_mcds_log_writer_t *writer, ngx_uint_t rc)
{
    if (writer->verb == NGX_MCDS_ADD) {

        if (rc != NGX_MCDS_NOT_STORED) {
            return NGX_DECLINED;
        }

        /*
         * the first append to the log's item failed, and now the add, as the
         * item exists: another writer has just added the item, or it is full;
         * a second append tells which
         */

        writer->verb = NGX_MCDS_APPEND;
        writer->added = 1;

        return NGX_OK;
    }

    if (rc != NGX_MCDS_NOT_FOUND
        && rc != NGX_MCDS_NOT_STORED
        && rc != NGX_MCDS_TOO_LARGE)
    {
        return NGX_DECLINED;
    }

    if (writer->added || rc == NGX_MCDS_TOO_LARGE) {

        if (writer->spots.at.part + 1 == NGX_MCDS_LOG_PARTS) {
            return NGX_DECLINED;
        }

        writer->spots.at.part++;
        writer->spots.at.written = 0;
        writer->added = 0;

        return NGX_OK;
    }

    writer->verb = NGX_MCDS_ADD;

    return NGX_OK;
}


/* Handles the final result of the append of lines to a log. */

static void
ngx_mcds_log_done(ngx_mcds_log_writer_t *writer, ngx_uint_t rc)
{
    ngx_mcds_log_frame_t  *frame;

    writer->busy = 0;

    frame = writer->frame;

    if (frame->once && rc == NGX_MCDS_BUSY
        && ngx_mcds_log_frame_again(frame, writer->spots.at.part,
                                    writer->log->pool->timeout))
    {
        writer->spots.at = writer->was;
        ngx_mcds_log_wait(writer, NGX_MCDS_LOG_AGAIN);
        return;
    }

    if (rc == NGX_MCDS_OK) {
        ngx_mcds_stat_add(writer->log->stat, NGX_MCDS_DATA_WRITTEN,
                          frame->lines);

        writer->spots.at.written += frame->value->len;

        if (writer->spots.at.written >= writer->log->max_chunk
            && writer->spots.at.part + 1 < NGX_MCDS_LOG_PARTS)
        {
            writer->spots.at.crowded = 1;
        }

    } else {
        ngx_mcds_stat_add(writer->log->stat, NGX_MCDS_DATA_FAILED + rc, 1);
    }

    if (frame->once) {
        ngx_mcds_log_put_done(writer, rc);
        return;
    }

    if (rc == NGX_MCDS_OK || rc == NGX_MCDS_TOO_LARGE) {

        /* TOO_LARGE: memcached refuses even a new item with these log lines */

        if (rc != NGX_MCDS_OK) {
            ngx_mcds_log_lose(writer, frame->lines, rc);
        }

        if (frame->held) {
            writer->failing = 0;
            ngx_mcds_log_frames_release(&writer->frames);
        }

        ngx_mcds_log_drop(writer, frame);

    } else {
        ngx_mcds_log_failed(writer, rc);
    }

    ngx_mcds_log_next_timer(writer);
}


/* Holds the time interval (chunk) of log lines that could not be appended. */

static void
ngx_mcds_log_failed(ngx_mcds_log_writer_t *writer, ngx_uint_t rc)
{
    ngx_mcds_log_frame_t  *failed;

    failed = writer->frame;

    failed->failed = 1;
    failed->part = writer->spots.at.part;

    writer->spots.at = writer->was;

    writer->rc = rc;

    if (failed->held) {
        writer->retried = failed->chunk;

    } else {
        writer->give_up = ngx_current_msec + NGX_MCDS_LOG_EXIT;
    }

    if (failed->held || !writer->failing) {
        writer->retry = ngx_current_msec + NGX_MCDS_LOG_RETRY;
    }

    writer->failing = 1;

    ngx_mcds_log_frames_hold(&writer->frames, failed->chunk);
}


/* Sets the timer for the lines that a log's writer sends next. */

static void
ngx_mcds_log_next_timer(ngx_mcds_log_writer_t *writer)
{
    ngx_msec_int_t         wait;
    ngx_mcds_log_frame_t  *frame;

    if (ngx_queue_empty(&writer->frames)) {
        writer->failing = 0;
        ngx_mcds_log_say(writer);
        return;
    }

    frame = ngx_mcds_log_frames_first(&writer->frames);

    if (frame) {

        /* the last lines for the log may wait for more, to be sent together */

        ngx_mcds_log_wait(writer,
                          (frame->ended || ngx_exiting
                           || &frame->queue
                              != ngx_queue_last(&writer->frames))
                          ? 1 : NGX_MCDS_LOG_GATHER);
    }

    if (!writer->failing) {
        return;
    }

    if (writer->exiting
        && (ngx_msec_int_t) (ngx_current_msec - writer->give_up) >= 0)
    {
        /*
         * the worker exits now, and ngx_mcds_log_close() reports the lost
         * lines; or it still serves requests: the next line is tried again
         */
        return;
    }

    wait = writer->retry - ngx_current_msec;

    ngx_mcds_log_wait(writer, ngx_max(wait, 1));
}


/* Sets the timer of a log's writer, unless the timer expires earlier. */

static void
ngx_mcds_log_wait(ngx_mcds_log_writer_t *writer, ngx_msec_t wait)
{
    if (writer->event.timer_set) {

        if ((ngx_msec_int_t) (writer->event.timer.key - ngx_current_msec)
            <= (ngx_msec_int_t) wait)
        {
            return;
        }

        ngx_del_timer(&writer->event);
    }

    ngx_add_timer(&writer->event, wait);
}


void
ngx_mcds_log_close(ngx_mcds_log_writer_t *writer)
{
    ngx_queue_t           *q;
    ngx_mcds_log_frame_t  *frame;

    ngx_mcds_cancel(&writer->op);

    ngx_mcds_log_asides_cancel(&writer->asides);

    while (!ngx_queue_empty(&writer->frames)) {

        q = ngx_queue_head(&writer->frames);
        frame = ngx_queue_data(q, ngx_mcds_log_frame_t, queue);

        if (frame->once) {
            ngx_mcds_log_put_done(writer, NGX_MCDS_CLOSED);
            continue;
        }

        ngx_mcds_stat_add(writer->log->stat, NGX_MCDS_DATA_LOST, frame->lines);

        writer->lost += frame->lines;
        ngx_mcds_log_drop(writer, frame);
    }

    if (writer->event.timer_set) {
        ngx_del_timer(&writer->event);
    }

    if (writer->event.posted) {
        ngx_delete_posted_event(&writer->event);
    }

    if (writer->rc == NGX_MCDS_OK) {
        writer->rc = NGX_MCDS_CLOSED;
    }

    ngx_mcds_log_say(writer);

    ngx_free(writer);
}

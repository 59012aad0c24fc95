
/*
 * Copyright (C) mcds authors
 *
 * A log that all hosts write, whose last minutes are kept.  Time is divided
 * into chunks of equal length; a chunk is one item, or several if it has many
 * lines:
 *
 *   name:176366012       the lines of the chunk with this number:
 *                        milliseconds since the epoch / length of a chunk
 *   name:176366012:1     continuations
 *   name:176366012:2
 *   name:176366012:size  the number of bytes appended to all of them, about:
 *                        tells a writer which item has room
 *
 * Writers append to the items without a lock; items expire by themselves.  The
 * text appended is a frame: numbered lines of one writer in the order of
 * writing.  An item may have a frame twice, if the reply to an append was lost;
 * the lines then have the same numbers, and are read once.
 */


#ifndef _NGX_MCDS_LOG_H_INCLUDED_
#define _NGX_MCDS_LOG_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_client.h"
#include "ngx_mcds_stat_sums.h"


/* the maximum length of a line of a log, bytes; longer lines are truncated */
#define NGX_MCDS_LOG_LINE         16384

/*
 * the maximum length of a frame, the lines that are appended to a log at once,
 * bytes
 */
#define NGX_MCDS_LOG_FRAME        32768

/* the maximum number of items for a chunk of a log, a time interval */
#define NGX_MCDS_LOG_PARTS        10000

/*
 * The milliseconds, after the time of a line of a log, within which the line is
 * written, even if the clocks of hosts differ: a line whose time is longer ago
 * is not expected any more, unless memcached was down.
 */
#define NGX_MCDS_LOG_SETTLE       1500

/*
 * the seconds by which an item of a log outlives the time for which its lines
 * are kept
 */
#define NGX_MCDS_LOG_SPARE        60


/*
 * The format of a frame of a log.  All numbers are little-endian and unsigned.
 *
 *   at size
 *    0   4  magic, "MCDL"
 *    4   4  length of the frame, with this head
 *    8   4  CRC32 (that of zlib) of all bytes from 12 on
 *   12   1  format, 1
 *   13   1  length of the host's name
 *   14   2  reserved, 0
 *   16   4  number of lines, at least 1
 *   20   8  writer: a number that no other writer has
 *   28   8  number of the first line; each further line has the next number
 *   36      the host's name
 *           the lines:
 *        8  time, milliseconds since the epoch, in this chunk
 *        4  length of the line
 *           the line, any bytes
 */

#define NGX_MCDS_LOG_HEAD         36
#define NGX_MCDS_LOG_RECORD       12


typedef struct {
    ngx_mcds_pool_t       *pool;
    ngx_str_t              name;
    ngx_msec_t             chunk;      /* length of a chunk, a time interval of
                                          the log, ms */
    ngx_uint_t             chunks;     /* number of time intervals (chunks) of
                                          the log that are kept */
    size_t                 max_chunk;  /* maximum bytes of an item of the log,
                                          about */
    ngx_mcds_stat_t       *stat;       /* statistics of the log, or NULL */
} ngx_mcds_log_t;


/* the id of a line of a log; lines are shown in the order of their ids */

typedef struct {
    uint64_t               time;       /* time of the line, milliseconds since
                                          the epoch */
    uint64_t               writer;
    uint64_t               seq;
} ngx_mcds_log_id_t;


typedef struct {
    ngx_mcds_log_id_t      id;
    ngx_str_t              host;
    ngx_str_t              line;
} ngx_mcds_log_event_t;


typedef struct {
    uint64_t               first;      /* start of the time interval of lines to
                                          read, ms since the epoch */
    uint64_t               last;       /* end of the time interval of lines to
                                          read, inclusive */
    ngx_mcds_log_id_t      after;      /* read only lines after this id; zeroed:
                                          all lines */
    ngx_uint_t             limit;      /* maximum number of lines to read */
    ngx_uint_t             newest;     /* 1: read the last lines of the
                                          interval, not the first */
} ngx_mcds_log_range_t;


/* the length of the text of a line's id, "time-writer-seq" */
#define NGX_MCDS_LOG_ID           (20 + 1 + 16 + 1 + 20)


/* the maximum length of the suffix of the key of a log's item */

#define NGX_MCDS_LOG_SUFFIX       (1 + 20 + 1 + 20)

/*
 * a value that stands, in place of the number of a log's item, for the item
 * that counts the bytes of all lines in one time interval (chunk) of the log
 */
#define NGX_MCDS_LOG_SIZE         ((ngx_uint_t) -1)


/*
 * Builds the suffix of the key of a log's item in buf, which has
 * NGX_MCDS_LOG_SUFFIX bytes.  chunk is the number of the time interval; part is
 * 0 for its first item, NGX_MCDS_LOG_SIZE for the item that counts the bytes of
 * all its lines.
 */

void ngx_mcds_log_suffix(ngx_str_t *suffix, u_char *buf, uint64_t chunk,
    ngx_uint_t part);


/*
 * Returns the time to live of an item of a log, in seconds; the log keeps
 * "chunks" time intervals of "chunk" milliseconds each.
 */

uint32_t ngx_mcds_log_ttl(ngx_msec_t chunk, ngx_uint_t chunks);


/*
 * Returns the number of the oldest chunk, a time interval, that the log keeps
 * at the time now, in milliseconds since the epoch.
 */

uint64_t ngx_mcds_log_first(ngx_mcds_log_t *log, uint64_t now);


/*
 * Checks the time of an event to be written to a log, in milliseconds since the
 * epoch.  NGX_ABORT: the time is in the future; NGX_DECLINED: the log does not
 * keep such old events.
 */

ngx_int_t ngx_mcds_log_time(ngx_mcds_log_t *log, uint64_t time, uint64_t now);


/*
 * Sets *first and *last to the numbers of the first and the last chunk (time
 * interval) of a log to read for the lines in range, as far as the log keeps
 * them, with one more chunk at the end.  NGX_DECLINED: no chunk is to be read.
 */

ngx_int_t ngx_mcds_log_chunks(ngx_mcds_log_t *log,
    ngx_mcds_log_range_t *range, uint64_t now, uint64_t *first,
    uint64_t *last);


/*
 * Returns 1 if the line with this id is in the interval of range, and comes
 * after the line range->after.
 */

ngx_uint_t ngx_mcds_log_wanted(ngx_mcds_log_range_t *range,
    ngx_mcds_log_id_t *id);


/*
 * Writes the head of a frame, the lines that are appended to a log at once; seq
 * is the number of the first line to be added.  The host's name is truncated to
 * 255 bytes.  Returns the end of the frame.
 */

u_char *ngx_mcds_log_begin(u_char *frame, ngx_str_t *host, uint64_t writer,
    uint64_t seq);


/*
 * Adds a line at the end of a frame, the lines that are appended to a log at
 * once; the frame must have room.  Returns the new end of the frame.
 */

u_char *ngx_mcds_log_add(u_char *frame, u_char *last, uint64_t time,
    ngx_str_t *line);


/*
 * Completes a frame, the lines that are appended to a log at once, with the
 * frame's length and CRC.  Returns the end of the frame.
 */

u_char *ngx_mcds_log_end(u_char *frame, u_char *last);


/*
 * A position in an item of a log, zeroed at the start.  "at" is the end of the
 * last whole frame, lines that were appended at once: text that is appended to
 * the item later can be read from there on.
 */

typedef struct {
    size_t                 at;
    size_t                 pos;
    size_t                 end;        /* end of the frame, the lines appended
                                          to the log at once, that is being
                                          read */
    size_t                 foreign;    /* bytes of the item that are in no frame
                                          of lines: other programs wrote them */
    size_t                 spent;      /* number of bytes of this item of the
                                          log that were read in vain, in search
                                          of the next frame of lines */
    ngx_str_t              host;
    uint64_t               writer;
    uint64_t               seq;
} ngx_mcds_log_place_t;


/*
 * Reads the next line of an item of a log; event points into data.  Bytes of
 * other programs, not in a frame of lines, are skipped, and counted.  Returns
 * NGX_DONE at the end of the item.
 */

ngx_int_t ngx_mcds_log_next(ngx_mcds_log_place_t *place, u_char *data,
    size_t len, ngx_mcds_log_event_t *event);


/* Compares two ids of lines, as memcmp() does. */

ngx_int_t ngx_mcds_log_id_cmp(ngx_mcds_log_id_t *one, ngx_mcds_log_id_t *two);


/*
 * Writes the text of a line's id, at most NGX_MCDS_LOG_ID bytes, and returns
 * the end of the text.
 */

u_char *ngx_mcds_log_id_text(u_char *buf, ngx_mcds_log_id_t *id);


/* Parses the text of a line's id.  Returns NGX_ERROR if the text is invalid. */

ngx_int_t ngx_mcds_log_id_parse(ngx_mcds_log_id_t *id, ngx_str_t *text);


/*
 * Sorts lines of a log by their ids, removes duplicates, and returns the number
 * of lines left.
 */

ngx_uint_t ngx_mcds_log_sort(ngx_mcds_log_event_t *events, ngx_uint_t n);


/* a run: the numbers of consecutive lines, already read, of one log writer */

typedef struct {
    uint64_t                writer;
    uint64_t                first;
    uint64_t                last;
    uint64_t                next;       /* first line number of the same log
                                           writer's next run of lines in "runs"
                                           of ngx_mcds_log_seen_t;
                                           (uint64_t) -1: none */
} ngx_mcds_log_run_t;


/*
 * A record of which lines of a log's chunk (time interval) were read already.
 * It is zeroed at the start; the user frees runs with ngx_free().
 */

typedef struct {
    ngx_mcds_log_run_t     *runs;
    ngx_uint_t              n;
    ngx_uint_t              max;
    ngx_uint_t              current;    /* index of the run (consecutive lines
                                           of one writer) that was used last */
} ngx_mcds_log_seen_t;


/*
 * Returns 1 if the line of the log was read already; otherwise remembers the
 * line, and returns 0.  NGX_ERROR: out of memory.
 */

ngx_int_t ngx_mcds_log_seen(ngx_mcds_log_seen_t *seen,
    ngx_mcds_log_id_t *id);


#endif /* _NGX_MCDS_LOG_H_INCLUDED_ */

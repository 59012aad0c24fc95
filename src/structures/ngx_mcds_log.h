
/*
 * Copyright (C) mcds authors
 *
 * A log that all hosts write, of which the last minutes are kept.  Time is
 * cut into chunks of equal length, and a chunk is one item, or several when
 * there is much to say:
 *
 *     name:176366012        what happened in this chunk, by the numbers of
 *     name:176366012:1      milliseconds since the epoch / length of a chunk;
 *     name:176366012:2      continuations
 *     name:176366012:size   bytes that were appended to all of them, more or
 *                           less: tells where to go on
 *
 * Items are appended to, without a lock, and end by themselves.  What is
 * appended is a frame: lines of one writer in the order they were written,
 * numbered.  A frame may be there twice, when the answer to an append was
 * lost; its lines have the same numbers then, and are read once.
 */


#ifndef _NGX_MCDS_LOG_H_INCLUDED_
#define _NGX_MCDS_LOG_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_client.h"
#include "ngx_mcds_stat_sums.h"


/* the longest line, bytes; longer ones are cut */
#define NGX_MCDS_LOG_LINE         16384

/* of a frame; bytes */
#define NGX_MCDS_LOG_FRAME        32768

/* continuations of a chunk */
#define NGX_MCDS_LOG_PARTS        10000

/*
 * Milliseconds after which a line has been written, and clocks differ no
 * longer: what is older than that is all that there will be, unless memcached
 * was away.
 */
#define NGX_MCDS_LOG_SETTLE       1500

/* seconds that an item lives longer than it is read */
#define NGX_MCDS_LOG_SPARE        60


/*
 * A frame.  All numbers are little-endian and unsigned.
 *
 *   at  size
 *    0    4  magic, "MCDL"
 *    4    4  length of the frame, with this head
 *    8    4  CRC32 (that of zlib) of all bytes from 12 on
 *   12    1  format, 1
 *   13    1  length of the host's name
 *   14    2  reserved, 0
 *   16    4  number of lines, 1 at least
 *   20    8  writer: a number that no other writer has
 *   28    8  number of the first line; the others count on
 *   36       the host's name
 *            the lines:
 *            8  time, milliseconds since the epoch, in this chunk
 *            4  length of the line
 *               the line, any bytes
 */

#define NGX_MCDS_LOG_HEAD         36
#define NGX_MCDS_LOG_RECORD       12


typedef struct {
    ngx_mcds_pool_t       *pool;
    ngx_str_t              name;
    ngx_msec_t             chunk;      /* how long it is */
    ngx_uint_t             chunks;     /* that are read */
    size_t                 max_chunk;  /* bytes of an item, about */
    ngx_mcds_stat_t       *stat;       /* or NULL */
} ngx_mcds_log_t;


/* what tells a line from all others; also the order in which they are shown */

typedef struct {
    uint64_t               time;       /* milliseconds since the epoch */
    uint64_t               writer;
    uint64_t               seq;
} ngx_mcds_log_id_t;


typedef struct {
    ngx_mcds_log_id_t      id;
    ngx_str_t              host;
    ngx_str_t              line;
} ngx_mcds_log_event_t;


typedef struct {
    uint64_t               first;      /* milliseconds since the epoch; both */
    uint64_t               last;       /* are of the interval */
    ngx_mcds_log_id_t      after;      /* what comes behind this one; zeroed:
                                          everything */
    ngx_uint_t             limit;      /* so many lines, the first ones, */
    ngx_uint_t             newest;     /* or the last ones */
} ngx_mcds_log_range_t;


/* "time-writer-seq" */
#define NGX_MCDS_LOG_ID           (20 + 1 + 16 + 1 + 20)


/*
 * Pure functions.
 *
 * suffix: what stands behind the name in a key, in a buffer of
 * NGX_MCDS_LOG_SUFFIX bytes; part 0 is the chunk itself.
 *
 * ttl: of an item, seconds.  first: the first chunk that is read.  time: may an
 * event have it, in milliseconds; NGX_OK, NGX_ABORT: it is in the future,
 * NGX_DECLINED: the log does not keep events that old.  chunks: the first and
 * the last one that an interval touches, of those that are read, and one
 * beside; NGX_DECLINED: none.  wanted: 1 if a line is of the interval.
 */

#define NGX_MCDS_LOG_SUFFIX       (1 + 20 + 1 + 20)
#define NGX_MCDS_LOG_SIZE         ((ngx_uint_t) -1)

void ngx_mcds_log_suffix(ngx_str_t *suffix, u_char *buf, uint64_t chunk,
    ngx_uint_t part);
uint32_t ngx_mcds_log_ttl(ngx_msec_t chunk, ngx_uint_t chunks);
uint64_t ngx_mcds_log_first(ngx_mcds_log_t *log, uint64_t now);
ngx_int_t ngx_mcds_log_time(ngx_mcds_log_t *log, uint64_t time, uint64_t now);
ngx_int_t ngx_mcds_log_chunks(ngx_mcds_log_t *log,
    ngx_mcds_log_range_t *range, uint64_t now, uint64_t *first,
    uint64_t *last);
ngx_uint_t ngx_mcds_log_wanted(ngx_mcds_log_range_t *range,
    ngx_mcds_log_id_t *id);


/*
 * begin: writes a head without length and CRC, of a frame of no line; host
 * is at most 255 bytes long.  add: a line at last, for which there is room.
 * end: the frame is whole.  All return its end.
 */

u_char *ngx_mcds_log_begin(u_char *frame, ngx_str_t *host, uint64_t writer,
    uint64_t seq);
u_char *ngx_mcds_log_add(u_char *frame, u_char *last, uint64_t time,
    ngx_str_t *line);
u_char *ngx_mcds_log_end(u_char *frame, u_char *last);


/*
 * Lines one after the other, from a zeroed place: NGX_OK, or NGX_DONE at the
 * end.  What is no frame is left out, and counted.  Event points into data.
 * at: where the last whole frame ends, so that what is appended later can be
 * read from there on.
 */

typedef struct {
    size_t                 at;
    size_t                 pos;
    size_t                 end;        /* of a frame, at the lines of which
                                          pos is */
    size_t                 foreign;    /* bytes that are no frame */
    size_t                 spent;      /* on what has turned out to be none */
    ngx_str_t              host;
    uint64_t               writer;
    uint64_t               seq;
} ngx_mcds_log_place_t;

ngx_int_t ngx_mcds_log_next(ngx_mcds_log_place_t *place, u_char *data,
    size_t len, ngx_mcds_log_event_t *event);


/*
 * cmp: as memcmp().  text: writes at most NGX_MCDS_LOG_ID bytes, returns the
 * end.  parse: NGX_OK or NGX_ERROR.  sort: into the order of ids, each once;
 * returns how many there are.
 */

ngx_int_t ngx_mcds_log_id_cmp(ngx_mcds_log_id_t *one, ngx_mcds_log_id_t *two);
u_char *ngx_mcds_log_id_text(u_char *buf, ngx_mcds_log_id_t *id);
ngx_int_t ngx_mcds_log_id_parse(ngx_mcds_log_id_t *id, ngx_str_t *text);
ngx_uint_t ngx_mcds_log_sort(ngx_mcds_log_event_t *events, ngx_uint_t n);


/*
 * Lines of a chunk that were seen, from zeroed memory; runs are to be freed by
 * ngx_free().  seen: 1 if it was, 0 if it is now; NGX_ERROR when out of
 * memory.
 */

typedef struct {
    uint64_t                writer;
    uint64_t                first;
    uint64_t                last;
    uint64_t                next;       /* where another run begins */
} ngx_mcds_log_run_t;


typedef struct {
    ngx_mcds_log_run_t     *runs;
    ngx_uint_t              n;
    ngx_uint_t              max;
    ngx_uint_t              current;    /* the one that was used last */
} ngx_mcds_log_seen_t;

ngx_int_t ngx_mcds_log_seen(ngx_mcds_log_seen_t *seen,
    ngx_mcds_log_id_t *id);


#endif /* _NGX_MCDS_LOG_H_INCLUDED_ */

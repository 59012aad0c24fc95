
/*
 * Copyright (C) mcds authors
 *
 * The items of a log: their keys and their content.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_log.h"


/*
 * the maximum number of runs (consecutive lines of one writer) by which a
 * worker records which lines of a log's chunk (time interval) it has read
 */
#define NGX_MCDS_LOG_RUNS         4096

/*
 * the limit of the bytes, in multiples of the item's length, that the search
 * for frames (lines that were appended at once) in an item of a log reads, some
 * of them repeatedly, without finding a frame
 */
#define NGX_MCDS_LOG_PATIENCE     8


static ngx_int_t ngx_mcds_log_frame(ngx_mcds_log_place_t *place, u_char *data,
    size_t len);
static ngx_int_t ngx_mcds_log_whole(u_char *frame, size_t len);
static ngx_int_t ngx_mcds_log_number(u_char **pos, u_char *last,
    ngx_uint_t base, uint64_t *number);
static int ngx_libc_cdecl ngx_mcds_log_cmp_events(const void *one,
    const void *two);
static ngx_int_t ngx_mcds_log_new_run(ngx_mcds_log_seen_t *seen,
    ngx_mcds_log_id_t *id);


void
ngx_mcds_log_suffix(ngx_str_t *suffix, u_char *buf, uint64_t chunk,
    ngx_uint_t part)
{
    u_char  *p;

    p = ngx_sprintf(buf, ":%uL", chunk);

    if (part == NGX_MCDS_LOG_SIZE) {
        p = ngx_cpymem(p, ":size", 5);

    } else if (part) {
        p = ngx_sprintf(p, ":%ui", part);
    }

    suffix->data = buf;
    suffix->len = p - buf;
}


/*
 * Returns the time to live of an item that has lines of one time interval
 * (chunk) of a log; the time is long enough even for an item that is created at
 * the start of the interval.
 */

uint32_t
ngx_mcds_log_ttl(ngx_msec_t chunk, ngx_uint_t chunks)
{
    return (uint64_t) chunk * (chunks + 1) / 1000 + 1 + NGX_MCDS_LOG_SPARE;
}


uint64_t
ngx_mcds_log_first(ngx_mcds_log_t *log, uint64_t now)
{
    uint64_t  chunk;

    chunk = now / log->chunk;

    return chunk > log->chunks ? chunk - log->chunks : 0;
}


ngx_int_t
ngx_mcds_log_time(ngx_mcds_log_t *log, uint64_t time, uint64_t now)
{
    if (time > now + NGX_MCDS_LOG_SETTLE) {
        return NGX_ABORT;
    }

    if (time / log->chunk < ngx_mcds_log_first(log, now)) {
        return NGX_DECLINED;
    }

    return NGX_OK;
}


ngx_int_t
ngx_mcds_log_chunks(ngx_mcds_log_t *log, ngx_mcds_log_range_t *range,
    uint64_t now, uint64_t *first, uint64_t *last)
{
    /* hosts that write the log may have a clock ahead of that of this host */

    *first = ngx_max(ngx_mcds_log_first(log, now),
                     ngx_max(range->first, range->after.time) / log->chunk);
    *last = ngx_min(now / log->chunk + 2, range->last / log->chunk + 1);

    return (*first <= *last && range->first <= range->last) ? NGX_OK
                                                            : NGX_DECLINED;
}


ngx_uint_t
ngx_mcds_log_wanted(ngx_mcds_log_range_t *range, ngx_mcds_log_id_t *id)
{
    return id->time >= range->first
           && id->time <= range->last
           && ngx_mcds_log_id_cmp(id, &range->after) > 0;
}


u_char *
ngx_mcds_log_begin(u_char *frame, ngx_str_t *host, uint64_t writer,
    uint64_t seq)
{
    u_char  *p;
    size_t   len;

    len = ngx_min(host->len, 255);

    p = ngx_cpymem(frame, "MCDL", 4);
    p = ngx_mcds_put(p, 0, 8);
    *p++ = 1;
    *p++ = (u_char) len;
    p = ngx_mcds_put(p, 0, 2 + 4);
    p = ngx_mcds_put(p, writer, 8);
    p = ngx_mcds_put(p, seq, 8);

    return ngx_cpymem(p, host->data, len);
}


u_char *
ngx_mcds_log_add(u_char *frame, u_char *last, uint64_t time, ngx_str_t *line)
{
    (void) ngx_mcds_put(frame + 16, ngx_mcds_take(frame + 16, 4) + 1, 4);

    last = ngx_mcds_put(last, time, 8);
    last = ngx_mcds_put(last, line->len, 4);

    return ngx_cpymem(last, line->data, line->len);
}


u_char *
ngx_mcds_log_end(u_char *frame, u_char *last)
{
    (void) ngx_mcds_put(frame + 4, last - frame, 4);
    (void) ngx_mcds_put(frame + 8,
                        ngx_crc32_long(frame + 12, last - frame - 12), 4);

    return last;
}


ngx_int_t
ngx_mcds_log_next(ngx_mcds_log_place_t *place, u_char *data, size_t len,
    ngx_mcds_log_event_t *event)
{
    u_char  *p;

    while (place->pos == place->end) {
        if (ngx_mcds_log_frame(place, data, len) != NGX_OK) {
            return NGX_DONE;
        }
    }

    p = data + place->pos;

    event->id.time = ngx_mcds_take(p, 8);
    event->id.writer = place->writer;
    event->id.seq = place->seq++;
    event->host = place->host;
    event->line.len = ngx_mcds_take(p + 8, 4);
    event->line.data = p + NGX_MCDS_LOG_RECORD;

    place->pos += NGX_MCDS_LOG_RECORD + event->line.len;

    return NGX_OK;
}


/*
 * Finds, in an item of a log, the next frame, the lines that were appended at
 * once, and reads its head.  Returns NGX_DONE at the end of the item.
 */

static ngx_int_t
ngx_mcds_log_frame(ngx_mcds_log_place_t *place, u_char *data, size_t len)
{
    u_char     *p, *last;
    ngx_int_t   rc;

    p = data + place->pos;
    last = data + len;

    while (p < last) {

        rc = NGX_DECLINED;

        if (place->spent <= NGX_MCDS_LOG_PATIENCE * len) {
            rc = ngx_mcds_log_whole(p, last - p);
        }

        if (rc != NGX_OK) {

            /*
             * a client may have written false heads of frames with a large
             * length on purpose, to make the search for the next frame slow
             */

            place->spent += (rc == NGX_ERROR) ? ngx_mcds_take(p + 4, 4) : 1;

            p++;
            p = memchr(p, 'M', last - p);

            if (p == NULL) {
                break;
            }

            continue;
        }

        place->foreign += p - (data + place->at);
        place->writer = ngx_mcds_take(p + 20, 8);
        place->seq = ngx_mcds_take(p + 28, 8);
        place->host.len = p[13];
        place->host.data = p + NGX_MCDS_LOG_HEAD;

        place->pos = p + NGX_MCDS_LOG_HEAD + p[13] - data;
        place->end = p + ngx_mcds_take(p + 4, 4) - data;
        place->at = place->end;

        return NGX_OK;
    }

    if (len > place->at) {
        place->foreign += len - place->at;
    }

    place->pos = len;
    place->end = len;

    return NGX_DONE;
}


/*
 * Checks whether a frame, lines that were appended to a log at once, begins at
 * "frame" in an item.  Returns NGX_OK if it does; NGX_ERROR if it does not, but
 * its whole length had to be read to find out; otherwise NGX_DECLINED.
 */

static ngx_int_t
ngx_mcds_log_whole(u_char *frame, size_t len)
{
    size_t    size, pos;
    uint64_t  n;

    if (len < NGX_MCDS_LOG_HEAD + NGX_MCDS_LOG_RECORD
        || ngx_memcmp(frame, "MCDL", 4) != 0
        || frame[12] != 1)
    {
        return NGX_DECLINED;
    }

    size = ngx_mcds_take(frame + 4, 4);
    pos = NGX_MCDS_LOG_HEAD + frame[13];

    if (size > len || size < pos + NGX_MCDS_LOG_RECORD) {
        return NGX_DECLINED;
    }

    if (ngx_crc32_long(frame + 12, size - 12)
        != ngx_mcds_take(frame + 8, 4))
    {
        return NGX_ERROR;
    }

    for (n = ngx_mcds_take(frame + 16, 4); n; n--) {

        if (size - pos < NGX_MCDS_LOG_RECORD) {
            return NGX_ERROR;
        }

        len = ngx_mcds_take(frame + pos + 8, 4);
        pos += NGX_MCDS_LOG_RECORD;

        if (size - pos < len) {
            return NGX_ERROR;
        }

        pos += len;
    }

    return (pos == size) ? NGX_OK : NGX_ERROR;
}


ngx_int_t
ngx_mcds_log_id_cmp(ngx_mcds_log_id_t *one, ngx_mcds_log_id_t *two)
{
    if (one->time != two->time) {
        return one->time < two->time ? -1 : 1;
    }

    if (one->writer != two->writer) {
        return one->writer < two->writer ? -1 : 1;
    }

    if (one->seq != two->seq) {
        return one->seq < two->seq ? -1 : 1;
    }

    return 0;
}


u_char *
ngx_mcds_log_id_text(u_char *buf, ngx_mcds_log_id_t *id)
{
    return ngx_sprintf(buf, "%uL-%xL-%uL", id->time, id->writer, id->seq);
}


ngx_int_t
ngx_mcds_log_id_parse(ngx_mcds_log_id_t *id, ngx_str_t *text)
{
    u_char  *p, *last;

    p = text->data;
    last = p + text->len;

    if (ngx_mcds_log_number(&p, last, 10, &id->time) != NGX_OK
        || p == last || *p++ != '-'
        || ngx_mcds_log_number(&p, last, 16, &id->writer) != NGX_OK
        || p == last || *p++ != '-'
        || ngx_mcds_log_number(&p, last, 10, &id->seq) != NGX_OK
        || p != last)
    {
        return NGX_ERROR;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_mcds_log_number(u_char **pos, u_char *last, ngx_uint_t base,
    uint64_t *number)
{
    u_char      c, *p;
    uint64_t    n;
    ngx_uint_t  digit;

    n = 0;

    for (p = *pos; p < last; p++) {

        c = *p;

        if (c >= '0' && c <= '9') {
            digit = c - '0';

        } else if (base == 16 && c >= 'a' && c <= 'f') {
            digit = c - 'a' + 10;

        } else {
            break;
        }

        if (n > (((uint64_t) -1) - digit) / base) {
            return NGX_ERROR;
        }

        n = n * base + digit;
    }

    if (p == *pos) {
        return NGX_ERROR;
    }

    *pos = p;
    *number = n;

    return NGX_OK;
}


ngx_uint_t
ngx_mcds_log_sort(ngx_mcds_log_event_t *events, ngx_uint_t n)
{
    ngx_uint_t  i, last;

    if (n == 0) {
        return 0;
    }

    ngx_qsort(events, n, sizeof(ngx_mcds_log_event_t),
              ngx_mcds_log_cmp_events);

    for (i = 1, last = 0; i < n; i++) {
        if (ngx_mcds_log_id_cmp(&events[i].id, &events[last].id) != 0) {
            events[++last] = events[i];
        }
    }

    return last + 1;
}


static int ngx_libc_cdecl
ngx_mcds_log_cmp_events(const void *one, const void *two)
{
    ngx_mcds_log_event_t  *first, *second;

    first = (ngx_mcds_log_event_t *) one;
    second = (ngx_mcds_log_event_t *) two;

    return (int) ngx_mcds_log_id_cmp(&first->id, &second->id);
}


ngx_int_t
ngx_mcds_log_seen(ngx_mcds_log_seen_t *seen, ngx_mcds_log_id_t *id)
{
    ngx_uint_t           i, found;
    ngx_mcds_log_run_t  *run;

    if (seen->n) {
        run = &seen->runs[seen->current];

        if (run->writer == id->writer
            && run->last + 1 == id->seq && id->seq < run->next)
        {
            run->last++;
            return 0;
        }
    }

    found = seen->n;

    for (i = 0; i < seen->n; i++) {
        run = &seen->runs[i];

        if (run->writer != id->writer) {
            continue;
        }

        if (id->seq >= run->first && id->seq <= run->last) {
            return 1;
        }

        if (run->last + 1 == id->seq) {
            found = i;
        }
    }

    if (found < seen->n) {
        seen->current = found;
        seen->runs[found].last++;
        return 0;
    }

    return ngx_mcds_log_new_run(seen, id);
}


static ngx_int_t
ngx_mcds_log_new_run(ngx_mcds_log_seen_t *seen, ngx_mcds_log_id_t *id)
{
    ngx_uint_t           i, max;
    ngx_mcds_log_run_t  *run, *runs;

    if (seen->n == NGX_MCDS_LOG_RUNS) {

        /*
         * the limit of remembered runs (consecutive lines of a log that were
         * read) is reached: forget the older half of them
         */

        seen->n /= 2;

        ngx_memmove(seen->runs, &seen->runs[seen->n],
                    seen->n * sizeof(ngx_mcds_log_run_t));
    }

    seen->current = 0;

    if (seen->n == seen->max) {

        max = seen->max ? 2 * seen->max : 16;

        runs = ngx_alloc(max * sizeof(ngx_mcds_log_run_t), ngx_cycle->log);
        if (runs == NULL) {
            return NGX_ERROR;
        }

        if (seen->runs) {
            ngx_memcpy(runs, seen->runs,
                       seen->n * sizeof(ngx_mcds_log_run_t));
            ngx_free(seen->runs);
        }

        seen->runs = runs;
        seen->max = max;
    }

    run = &seen->runs[seen->n];

    run->writer = id->writer;
    run->first = id->seq;
    run->last = id->seq;
    run->next = (uint64_t) -1;

    for (i = 0; i < seen->n; i++) {

        if (seen->runs[i].writer != id->writer) {
            continue;
        }

        if (seen->runs[i].first > id->seq) {
            run->next = ngx_min(run->next, seen->runs[i].first);

        } else {
            seen->runs[i].next = ngx_min(seen->runs[i].next, id->seq);
        }
    }

    seen->current = seen->n++;

    return 0;
}

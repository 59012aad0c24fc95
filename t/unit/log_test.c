
/*
 * Copyright (C) mcds authors
 *
 * The items of a log in memcached: their keys, the items that contain the lines
 * of an interval, and lines in torn, foreign or duplicate items.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_log.c"
#include "tap.h"


#define SIZE  65536


static void test_keys(void);
static void test_chunks(void);
static void test_wanted(void);
static void test_frames(void);
static void test_bytes(void);
static void test_torn(void);
static void test_foreign(void);
static void test_promises(void);
static void test_changed(void);
static void test_later(void);
static void test_ids(void);
static void test_sort(void);
static void test_seen(void);
static void test_seen_at_random(void);
static u_char *make(u_char *p, uint64_t writer, uint64_t seq, ngx_uint_t n);
static ngx_uint_t count(u_char *data, size_t len, size_t *foreign);
static ngx_int_t seen(ngx_mcds_log_seen_t *s, uint64_t writer, uint64_t seq);
static uint32_t number(void);


static u_char     data[SIZE];
static uint32_t   seed;


int
main(void)
{
    seed = tap_seed(0);

    test_keys();
    test_chunks();
    test_wanted();
    test_frames();
    test_bytes();
    test_torn();
    test_foreign();
    test_promises();
    test_changed();
    test_later();
    test_ids();
    test_sort();
    test_seen();
    test_seen_at_random();

    return done_testing();
}


static void
test_keys(void)
{
    u_char     buf[NGX_MCDS_LOG_SUFFIX];
    ngx_str_t  s;

    ngx_mcds_log_suffix(&s, buf, 176366012, 0);
    ok(s.len == 10 && ngx_memcmp(s.data, ":176366012", 10) == 0,
       "the key of a chunk");

    ngx_mcds_log_suffix(&s, buf, 176366012, 12);
    ok(s.len == 13 && ngx_memcmp(s.data, ":176366012:12", 13) == 0,
       "... of a continuation");

    ngx_mcds_log_suffix(&s, buf, (uint64_t) -1, NGX_MCDS_LOG_SIZE);
    ok(s.len == 26
       && ngx_memcmp(s.data, ":18446744073709551615:size", 26) == 0,
       "... of its size");
}


static void
test_chunks(void)
{
    uint64_t              first, last, now;
    ngx_mcds_log_t        log;
    ngx_mcds_log_range_t  range;

    ngx_memzero(&log, sizeof(ngx_mcds_log_t));
    ngx_memzero(&range, sizeof(ngx_mcds_log_range_t));

    log.chunk = 10000;
    log.chunks = 30;
    now = 1000000;

    ok(ngx_mcds_log_ttl(10000, 30) >= 310 + 10, "an item outlives its chunk");
    ok(ngx_mcds_log_first(&log, now) == 70, "the first chunk");
    ok(ngx_mcds_log_first(&log, 5000) == 0, "... soon after 1970");

    range.last = (uint64_t) -1;
    ok(ngx_mcds_log_chunks(&log, &range, now, &first, &last) == NGX_OK
       && first == 70 && last == 102, "no bounds: the whole ring");

    range.first = 959999;
    range.last = 960000;
    ok(ngx_mcds_log_chunks(&log, &range, now, &first, &last) == NGX_OK
       && first == 95 && last == 97, "the chunks of an interval, one beside");

    range.after.time = 970000;
    range.last = 979999;
    ok(ngx_mcds_log_chunks(&log, &range, now, &first, &last) == NGX_OK
       && first == 97 && last == 98, "behind a line");

    range.last = 950000;
    ok(ngx_mcds_log_chunks(&log, &range, now, &first, &last)
       == NGX_DECLINED, "an empty interval");

    range.after.time = 0;
    range.first = 100;
    range.last = 600000;
    ok(ngx_mcds_log_chunks(&log, &range, now, &first, &last)
       == NGX_DECLINED, "one that has passed");

    range.first = 5000000;
    range.last = 6000000;
    ok(ngx_mcds_log_chunks(&log, &range, now, &first, &last)
       == NGX_DECLINED, "one that is to come");
}


static void
test_wanted(void)
{
    ngx_mcds_log_id_t     id;
    ngx_mcds_log_range_t  range;

    ngx_memzero(&range, sizeof(ngx_mcds_log_range_t));

    range.first = 1000;
    range.last = 2000;
    id.writer = 5;
    id.seq = 6;

    id.time = 999;
    ok(!ngx_mcds_log_wanted(&range, &id), "a millisecond too early");
    id.time = 1000;
    ok(ngx_mcds_log_wanted(&range, &id), "the first millisecond");
    id.time = 2000;
    ok(ngx_mcds_log_wanted(&range, &id), "the last one");
    id.time = 2001;
    ok(!ngx_mcds_log_wanted(&range, &id), "a millisecond too late");

    id.time = 1500;
    range.after = id;
    ok(!ngx_mcds_log_wanted(&range, &id), "not the line itself");
    id.seq = 7;
    ok(ngx_mcds_log_wanted(&range, &id), "the one behind it");
    id.seq = 5;
    ok(!ngx_mcds_log_wanted(&range, &id), "not the one before it");
}


static void
test_frames(void)
{
    u_char                *p;
    size_t                 foreign;
    ngx_uint_t             i, good;
    ngx_mcds_log_event_t   event;
    ngx_mcds_log_place_t   place;

    p = make(data, 7, 100, 3);
    p = make(p, 8, 1, 1);
    p = make(p, 7, 103, 2);

    ngx_memzero(&place, sizeof(ngx_mcds_log_place_t));
    good = 1;

    for (i = 0; ngx_mcds_log_next(&place, data, p - data, &event) == NGX_OK;
         i++)
    {
        good &= (event.host.len == 4
                 && ngx_memcmp(event.host.data, "host", 4) == 0
                 && event.line.len == event.id.seq % 50
                 && event.id.time == 1000 + event.id.seq);
    }

    ok(i == 6 && good, "lines of three frames");
    ok(place.at == (size_t) (p - data) && place.foreign == 0,
       "all of it was read");
    ok(ngx_mcds_log_next(&place, data, p - data, &event) == NGX_DONE,
       "the end stays the end");
    ok(count(data, 0, &foreign) == 0 && foreign == 0, "nothing");
}


static void
test_bytes(void)
{
    u_char      *p;
    u_char       frame[] = {
        'M', 'C', 'D', 'L', 50, 0, 0, 0, 0x04, 0x25, 0x1d, 0x43, 1, 1, 0, 0,
        1, 0, 0, 0, 0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01,
        2, 0, 0, 0, 0, 0, 0, 0, 'h',
        3, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 'x'
    };
    ngx_str_t    host = ngx_string("h");
    ngx_str_t    line = ngx_string("x");
    uint32_t     crc;

    p = ngx_mcds_log_begin(data, &host, 0x0102030405060708ULL, 2);
    p = ngx_mcds_log_add(data, p, 3, &line);
    p = ngx_mcds_log_end(data, p);

    crc = ngx_crc32_long(frame + 12, sizeof(frame) - 12);

    frame[8] = (u_char) crc;
    frame[9] = (u_char) (crc >> 8);
    frame[10] = (u_char) (crc >> 16);
    frame[11] = (u_char) (crc >> 24);

    ok(p == data + sizeof(frame)
       && ngx_memcmp(data, frame, sizeof(frame)) == 0, "byte for byte");
}


static void
test_torn(void)
{
    size_t      len, foreign;
    u_char     *copy, *p;
    ngx_uint_t  good;

    p = make(data, 7, 100, 3);
    len = p - data;
    good = 1;

    while (len--) {

        /*
         * a copy of a cut frame (a batch of log lines): a sanitizer notices a
         * read beyond its end
         */

        copy = malloc(len);
        ngx_memcpy(copy, data, len);

        good &= (count(copy, len, &foreign) == 0 && foreign == len);

        free(copy);
    }

    ok(good, "a frame that is cut is none, wherever it is");
}


static void
test_foreign(void)
{
    u_char     *p;
    size_t      foreign, n;
    ngx_uint_t  i, k, good;

    p = ngx_cpymem(data, "MCDLMCDMM", 9);
    p = make(p, 7, 100, 3);
    p = ngx_cpymem(p, "\0\0foreign MCDL", 14);
    p = make(p, 7, 103, 3);
    p = ngx_cpymem(p, "MCD", 3);

    ok(count(data, p - data, &foreign) == 6 && foreign == 26,
       "frames between other bytes");

    good = 1;

    for (i = 0; i < 300; i++) {

        n = number() % 200;

        for (k = 0; k < n; k++) {
            data[k] = (number() % 3) ? (u_char) number() : "MCDL"[k % 4];
        }

        p = make(data + n, 7, 1 + i, 1 + i % 5);

        good &= (count(data, p - data, &foreign) == 1 + i % 5
                 && foreign == n);
    }

    ok(good, "behind 300 kinds of noise");
}


static void
test_promises(void)
{
    size_t                 foreign;
    ngx_uint_t             i;
    ngx_mcds_log_event_t   event;
    ngx_mcds_log_place_t   place;

    /*
     * each frame (a batch of log lines) claims all the remaining bytes, which
     * must be read to check it
     */

    ngx_memzero(data, SIZE);

    for (i = 0; i + 52 < SIZE; i += 13) {
        ngx_memcpy(&data[i], "MCDL", 4);
        data[i + 4] = (u_char) (SIZE - i - 52);
        data[i + 5] = (u_char) ((SIZE - i - 52) >> 8);
        data[i + 12] = 1;
    }

    ngx_memzero(&place, sizeof(ngx_mcds_log_place_t));

    ok(ngx_mcds_log_next(&place, data, SIZE, &event) == NGX_DONE,
       "a lot of heads, and no frame");
    ok(place.spent < 10 * SIZE, "are not all read to the end");
    ok(count(data, SIZE, &foreign) == 0 && foreign == SIZE, "all is foreign");
}


static void
test_changed(void)
{
    u_char     *p;
    size_t      i, foreign;
    ngx_uint_t  good;

    p = make(data, 7, 100, 3);
    good = 1;

    for (i = 0; i < (size_t) (p - data); i++) {
        data[i] ^= 1 << (i % 8);
        good &= (count(data, p - data, &foreign) == 0);
        data[i] ^= 1 << (i % 8);
    }

    ok(good, "a frame with one bit changed is none");
    ok(count(data, p - data, &foreign) == 3, "it is one without");
}


static void
test_later(void)
{
    u_char                *p, *middle;
    ngx_uint_t             n;
    ngx_mcds_log_event_t   event;
    ngx_mcds_log_place_t   place;

    middle = make(data, 7, 100, 3);
    p = make(middle, 7, 103, 4);

    ngx_memzero(&place, sizeof(ngx_mcds_log_place_t));

    /* half of the second frame (a batch of log lines) has arrived */

    for (n = 0; ngx_mcds_log_next(&place, data, middle - data + 40, &event)
                == NGX_OK; n++);

    ok(n == 3 && place.at == (size_t) (middle - data), "up to a torn frame");

    place.pos = place.at;
    place.end = place.at;

    for (n = 0; ngx_mcds_log_next(&place, data, p - data, &event) == NGX_OK;
         n++);

    ok(n == 4 && place.at == (size_t) (p - data), "and on, when it is whole");
}


static void
test_ids(void)
{
    u_char             buf[NGX_MCDS_LOG_ID];
    ngx_str_t          s;
    ngx_uint_t         i;
    ngx_mcds_log_id_t  id, back;

    static char  *bad[] = {
        "", "1", "1-", "1-2", "1-2-", "-1-2", "1-2-3-", "1-2-3 ", " 1-2-3",
        "1-g-3", "a-2-3", "1-2-f", "1-A-3", "1--3", "18446744073709551616-1-1",
        "1-10000000000000000-1", "1-2-18446744073709551616", "1.5-2-3", NULL
    };

    id.time = 1763669000123ULL;
    id.writer = 0xfedcba9876543210ULL;
    id.seq = 17;

    s.data = buf;
    s.len = ngx_mcds_log_id_text(buf, &id) - buf;

    ok(s.len == 33
       && ngx_memcmp(buf, "1763669000123-fedcba9876543210-17", 33) == 0,
       "an id as a text");
    ok(ngx_mcds_log_id_parse(&back, &s) == NGX_OK
       && ngx_mcds_log_id_cmp(&id, &back) == 0, "and back");

    ngx_memset(&id, 0xff, sizeof(ngx_mcds_log_id_t));

    s.len = ngx_mcds_log_id_text(buf, &id) - buf;
    ok(s.len == NGX_MCDS_LOG_ID
       && ngx_mcds_log_id_parse(&back, &s) == NGX_OK
       && ngx_mcds_log_id_cmp(&id, &back) == 0, "the largest one");

    for (i = 0; bad[i]; i++) {
        s.data = (u_char *) bad[i];
        s.len = ngx_strlen(bad[i]);

        ok(ngx_mcds_log_id_parse(&back, &s) == NGX_ERROR, "no id: \"%s\"",
           bad[i]);
    }
}


static void
test_sort(void)
{
    ngx_uint_t            i, n, good;
    ngx_mcds_log_event_t  events[1000];

    ngx_memzero(events, sizeof(events));

    for (i = 0; i < 1000; i++) {
        events[i].id.time = number() % 5;
        events[i].id.writer = number() % 5;
        events[i].id.seq = number() % 5;
    }

    n = ngx_mcds_log_sort(events, 1000);
    good = 1;

    for (i = 1; i < n; i++) {
        good &= (ngx_mcds_log_id_cmp(&events[i - 1].id, &events[i].id) < 0);
    }

    ok(n == 125 && good, "in order, each once");
    ok(ngx_mcds_log_sort(events, 1) == 1, "a single one");
    ok(ngx_mcds_log_sort(NULL, 0) == 0, "none");
}


static void
test_seen(void)
{
    ngx_mcds_log_seen_t  s;

    ngx_memzero(&s, sizeof(ngx_mcds_log_seen_t));

    ok(seen(&s, 7, 10) == 0 && seen(&s, 7, 11) == 0 && seen(&s, 8, 10) == 0,
       "new ones");
    ok(seen(&s, 7, 10) == 1 && seen(&s, 7, 11) == 1 && seen(&s, 8, 10) == 1,
       "again");
    ok(seen(&s, 7, 14) == 0 && seen(&s, 7, 15) == 0, "behind a gap");
    ok(seen(&s, 7, 12) == 0 && seen(&s, 7, 13) == 0, "the gap, late");
    ok(seen(&s, 7, 14) == 1 && seen(&s, 7, 15) == 1, "what is behind, again");
    ok(seen(&s, 7, 16) == 0 && seen(&s, 7, 16) == 1, "and on");
    ok(seen(&s, 7, 1) == 0 && seen(&s, 7, 1) == 1, "one before all of them");

    ngx_free(s.runs);
}


static void
test_seen_at_random(void)
{
    u_char               *known;
    ngx_int_t             rc;
    ngx_uint_t            i, k, writer, seq, n, good;
    ngx_mcds_log_seen_t   s;

    good = 1;

    for (k = 0; k < 20; k++) {

        ngx_memzero(&s, sizeof(ngx_mcds_log_seen_t));
        known = calloc(5, 200);

        for (i = 0; i < 300; i++) {

            /* numbers of log lines, some of which were perhaps seen before */

            writer = number() % 5;
            seq = number() % 180;

            for (n = number() % 20; n; n--, seq++) {
                rc = seen(&s, writer, seq);
                good &= (rc == known[writer * 200 + seq]);
                known[writer * 200 + seq] = 1;
            }
        }

        free(known);
        ngx_free(s.runs);
    }

    ok(good, "frames in any order, many times");

    ngx_memzero(&s, sizeof(ngx_mcds_log_seen_t));

    for (i = 0; i < 20000; i++) {
        (void) seen(&s, i, 5);
    }

    ok(s.n <= 4096 && seen(&s, 19999, 5) == 1, "so many are remembered");

    ngx_free(s.runs);
}


static u_char *
make(u_char *p, uint64_t writer, uint64_t seq, ngx_uint_t n)
{
    u_char     *frame, text[50];
    ngx_str_t   host = ngx_string("host"), line;

    frame = p;
    p = ngx_mcds_log_begin(frame, &host, writer, seq);

    line.data = text;

    for ( /* void */ ; n; n--, seq++) {
        line.len = seq % 50;
        ngx_memset(text, (int) seq, line.len);

        p = ngx_mcds_log_add(frame, p, 1000 + seq, &line);
    }

    return ngx_mcds_log_end(frame, p);
}


static ngx_uint_t
count(u_char *bytes, size_t len, size_t *foreign)
{
    ngx_uint_t             n;
    ngx_mcds_log_event_t   event;
    ngx_mcds_log_place_t   place;

    ngx_memzero(&place, sizeof(ngx_mcds_log_place_t));

    for (n = 0; ngx_mcds_log_next(&place, bytes, len, &event) == NGX_OK; n++);

    *foreign = place.foreign;

    return n;
}


static ngx_int_t
seen(ngx_mcds_log_seen_t *s, uint64_t writer, uint64_t seq)
{
    ngx_mcds_log_id_t  id;

    id.time = 0;
    id.writer = writer;
    id.seq = seq;

    return ngx_mcds_log_seen(s, &id);
}


static uint32_t
number(void)
{
    seed = seed * 1103515245 + 12345;

    return seed >> 8;
}

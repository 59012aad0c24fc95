
/*
 * Copyright (C) mcds authors
 *
 * Slots, times to live, and what a worker asks memcached of visitors.  The
 * client is played by the test: what is submitted is written down and
 * answered by hand, with the time as an argument.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_visitors.c"
#include "tap.h"


#define SENT  4096


typedef struct {
    ngx_uint_t           verb;
    ngx_uint_t           want;
    uint32_t             ttl;
    char                 key[128];     /* with its suffix */
    char                 text[32];
    ngx_mcds_handler_pt  handler;
    void                *data;
} sent_t;


typedef struct {
    char                 key[128];
    uint64_t             delta;
    uint32_t             ttl;
} added_t;


static void test_slot(void);
static void test_ttl(void);
static void test_two_keys(void);
static void test_visit(void);
static void test_visit_elsewhere(void);
static void test_visit_failed(void);
static void test_sum(void);
static void test_sum_settles(void);
static void test_sum_failed(void);
static void test_sum_shared(void);
static void test_sum_again(void);
static void test_sum_many(void);
static void start(void);
static void visit(char *key, char *visitor, time_t now);
static ngx_int_t sum(char *key, time_t now, uint64_t *value, void *data);
static void answer(ngx_uint_t i, ngx_uint_t rc, char *text, int64_t ttl);
static void sum_handler(void *data, ngx_uint_t rc, uint64_t value);
static void again_handler(void *data, ngx_uint_t rc, uint64_t value);
static int same(char *a, const char *b);


static ngx_mcds_visitors_t  five = { NULL, 300, 5 };
static ngx_mcds_visitors_t *used = &five;

static sent_t           sent[SENT];
static ngx_uint_t       nsent;
static ngx_uint_t       full;          /* submit is out of memory */
static added_t          added[64];
static ngx_uint_t       nadded;
static ngx_uint_t       calls, last_rc;
static uint64_t         last_value;
static ngx_mcds_sum_t  *handle;


ngx_mcds_op_t *
ngx_mcds_submit(ngx_mcds_pool_t *pool, ngx_mcds_request_t *req,
    ngx_mcds_handler_pt handler, void *data)
{
    sent_t  *s;

    if (full || nsent == SENT) {
        return NULL;
    }

    s = &sent[nsent++];

    s->verb = req->verb;
    s->want = req->want;
    s->ttl = req->ttl;
    s->handler = handler;
    s->data = data;

    *ngx_snprintf((u_char *) s->key, sizeof(s->key) - 1, "%V%V", &req->key,
                  &req->suffix)
        = '\0';
    *ngx_snprintf((u_char *) s->text, sizeof(s->text) - 1, "%V", &req->text)
        = '\0';

    return (ngx_mcds_op_t *) s;
}


ngx_mcds_count_t *
ngx_mcds_counter_add(ngx_mcds_pool_t *pool, ngx_str_t *key, uint64_t delta,
    uint32_t ttl, ngx_mcds_count_pt handler, void *data)
{
    added_t  *a;

    a = &added[nadded++];

    *ngx_snprintf((u_char *) a->key, sizeof(a->key) - 1, "%V", key) = '\0';
    a->delta = delta;
    a->ttl = ttl;

    return (ngx_mcds_count_t *) a;
}


int
main(void)
{
    test_slot();
    test_ttl();
    test_two_keys();
    test_visit();
    test_visit_elsewhere();
    test_visit_failed();
    test_sum();
    test_sum_settles();
    test_sum_failed();
    test_sum_shared();
    test_sum_again();
    test_sum_many();

    return done_testing();
}


static void
test_slot(void)
{
    ngx_mcds_visitors_t  v = { NULL, 300, 5 };

    ok(ngx_mcds_visitors_slot(&v, 0) == 0, "slot: second 0");
    ok(ngx_mcds_visitors_slot(&v, 59) == 0, "slot: last second");
    ok(ngx_mcds_visitors_slot(&v, 60) == 1, "slot: first second of the next");
    ok(ngx_mcds_visitors_slot(&v, 1700000000) == 28333333, "slot: absolute");
    ok(ngx_mcds_visitors_slot(&v, 300) == 5, "slot: goes on, is no ring");

    v.slots = 1;

    ok(ngx_mcds_visitors_slot(&v, 299) == 0, "slot: as long as the window");
    ok(ngx_mcds_visitors_slot(&v, 300) == 1, "slot: and the next");

    v.window = 60;
    v.slots = 60;

    ok(ngx_mcds_visitors_slot(&v, 4000000000) == 4000000000,
       "slot: of a second, beyond 2038");
}


/* an item lives until it was shown last, whenever in its slot it was made */

static void
test_ttl(void)
{
    time_t               now, end, gone;
    uint32_t             length, ttl, bad;
    ngx_uint_t           i;
    ngx_mcds_visitors_t  v;

    static struct {
        uint32_t  window;
        uint32_t  slots;
    } sizes[] = {
        { 1, 1 }, { 2, 1 }, { 2, 2 }, { 60, 1 }, { 60, 60 }, { 300, 5 },
        { 300, 1 }, { 3600, 12 }, { 86400, 24 }, { 1296000, 1 },
        { 2505600, 29 }, { 0, 0 }
    };

    ngx_memzero(&v, sizeof(ngx_mcds_visitors_t));

    for (i = 0; sizes[i].window; i++) {
        v.window = sizes[i].window;
        v.slots = sizes[i].slots;

        length = v.window / v.slots;
        bad = 0;

        for (now = 1700000000; now < 1700000000 + 2 * (time_t) length;
             now += 1 + length / 997)
        {
            ttl = ngx_mcds_visitors_ttl(&v, now);

            /* when the slot after the last that shows it begins */
            end = (ngx_mcds_visitors_slot(&v, now) + v.slots + 1) * length;

            /* memcached's clock may tick at once */
            gone = now + ttl - 1;

            if (gone < end || gone > end + 1 || ttl > NGX_MCDS_MAX_TTL) {
                bad++;
            }
        }

        ok(bad == 0, "ttl: window %u in %u slots", v.window, v.slots);
    }
}


/* one slot: as two keys that swap, each living 2T - t % T at least */

static void
test_two_keys(void)
{
    time_t               t;
    uint32_t             T, ttl, bad;
    ngx_mcds_visitors_t  v;

    ngx_memzero(&v, sizeof(ngx_mcds_visitors_t));

    T = 60;
    v.window = T;
    v.slots = 1;
    bad = 0;

    for (t = 1700000000; t < 1700000000 + 4 * (time_t) T; t++) {
        ttl = ngx_mcds_visitors_ttl(&v, t);

        if (ttl < 2 * T - t % T || ttl > 2 * T - t % T + 1
            || ngx_mcds_visitors_slot(&v, t) % 2 != (t % (2 * T) >= T))
        {
            bad++;
        }
    }

    ok(bad == 0, "one slot: two keys in turn");
}


static void
test_visit(void)
{
    start();

    visit("k", "anna", 1000);

    ok(nsent == 1 && sent[0].verb == NGX_MCDS_ADD, "visit: adds a mark");
    ok(same(sent[0].key, "k:v:anna"), "visit: its key");
    ok(sent[0].ttl == 301, "visit: it lives for window + 1");
    ok(same(sent[0].text, "1000"), "visit: it holds the time");
    ok(nadded == 0, "visit: not counted before the answer");

    answer(0, NGX_MCDS_OK, NULL, 0);

    ok(nadded == 1 && added[0].delta == 1, "visit: counted");
    ok(same(added[0].key, "k:16"), "visit: in its slot");
    ok(added[0].ttl == 6 * 60 - 40 + 1, "visit: with the slot's life");

    visit("k", "anna", 1000);
    visit("k", "anna", 1299);
    ok(nsent == 1, "visit: known within the window");

    visit("k", "bert", 1001);
    ok(nsent == 2 && same(sent[1].key, "k:v:bert"), "visit: another visitor");

    visit("l", "anna", 1001);
    ok(nsent == 3 && same(sent[2].key, "l:v:anna"), "visit: another key");

    visit("k", "anna", 1300);
    ok(nsent == 4, "visit: asked again after the window");

    answer(1, NGX_MCDS_OK, NULL, 0);
    answer(2, NGX_MCDS_OK, NULL, 0);
    answer(3, NGX_MCDS_OK, NULL, 0);

    ok(nadded == 4 && same(added[3].key, "k:21"), "visit: and counted again");
}


static void
test_visit_elsewhere(void)
{
    start();

    visit("e", "anna", 2000);
    answer(0, NGX_MCDS_NOT_STORED, NULL, 0);

    ok(nsent == 2 && sent[1].verb == NGX_MCDS_GET
       && sent[1].want == NGX_MCDS_TTL && same(sent[1].key, "e:v:anna"),
       "elsewhere: until when?");

    visit("e", "anna", 2000);
    ok(nsent == 2, "elsewhere: asked once");

    answer(1, NGX_MCDS_OK, NULL, 101);
    ok(nadded == 0, "elsewhere: not counted");

    visit("e", "anna", 2099);
    ok(nsent == 2, "elsewhere: known as long as the mark lives");

    visit("e", "anna", 2100);
    ok(nsent == 3, "elsewhere: not a second longer");

    answer(2, NGX_MCDS_NOT_STORED, NULL, 0);
    answer(3, NGX_MCDS_NOT_FOUND, NULL, 0);

    visit("e", "anna", 2100);
    ok(nsent == 5, "elsewhere: gone meanwhile");
    answer(4, NGX_MCDS_NOT_STORED, NULL, 0);

    /* a mark of another program, without an end */

    answer(5, NGX_MCDS_OK, NULL, -1);
    visit("e", "anna", 2101);
    ok(nsent == 7, "elsewhere: a mark without an end is not trusted");
    answer(6, NGX_MCDS_NOT_STORED, NULL, 0);
    answer(7, NGX_MCDS_OK, NULL, 1000000);

    visit("e", "anna", 2400);
    ok(nsent == 8, "elsewhere: known");
    visit("e", "anna", 2401);
    ok(nsent == 9, "elsewhere: for a window at most");
    answer(8, NGX_MCDS_OK, NULL, 0);
}


static void
test_visit_failed(void)
{
    ngx_uint_t  rc;

    for (rc = NGX_MCDS_TOO_LARGE; rc < NGX_MCDS_RC_LAST; rc++) {
        start();

        visit("f", "anna", 3000);
        answer(0, rc, NULL, 0);
        visit("f", "anna", 3000);

        ok(nadded == 0 && nsent == 2, "failed: %s, comes again",
           ngx_mcds_strerror(rc));

        answer(1, NGX_MCDS_CLOSED, NULL, 0);
    }

    start();
    full = 1;
    visit("f", "anna", 3000);
    full = 0;
    visit("f", "anna", 3000);
    ok(nsent == 1, "failed: no memory, comes again");

    full = 1;
    answer(0, NGX_MCDS_NOT_STORED, NULL, 0);
    full = 0;
    visit("f", "anna", 3000);
    ok(nsent == 2, "failed: no memory for the second question");
    answer(1, NGX_MCDS_CLOSED, NULL, 0);
}


static void
test_sum(void)
{
    uint64_t    value;
    ngx_uint_t  i, bad;

    start();

    ok(sum("s", 6010, &value, NULL) == NGX_AGAIN, "sum: asks");
    ok(nsent == 5, "sum: for each slot but the one that fills");

    bad = 0;

    for (i = 0; i < 5; i++) {
        if (sent[i].verb != NGX_MCDS_GET || sent[i].want != NGX_MCDS_VALUE) {
            bad++;
        }
    }

    ok(bad == 0, "sum: for their values");
    ok(same(sent[0].key, "s:99") && same(sent[4].key, "s:95"), "sum: keys");

    answer(0, NGX_MCDS_OK, "7", 0);
    answer(1, NGX_MCDS_NOT_FOUND, NULL, 0);
    answer(2, NGX_MCDS_OK, "100", 0);
    answer(4, NGX_MCDS_OK, "9 ", 0);
    ok(calls == 0, "sum: waits for all");

    answer(3, NGX_MCDS_NOT_FOUND, NULL, 0);
    ok(calls == 1 && last_rc == NGX_MCDS_OK && last_value == 116,
       "sum: of what there is");

    value = 0;
    ok(sum("s", 6059, &value, NULL) == NGX_OK && value == 116 && nsent == 5,
       "sum: constant within the slot");

    ok(sum("s", 6060, &value, NULL) == NGX_AGAIN && nsent == 10
       && same(sent[5].key, "s:100"), "sum: anew in the next slot");

    for (i = 5; i < 10; i++) {
        answer(i, NGX_MCDS_NOT_FOUND, NULL, 0);
    }

    ok(calls == 2 && last_rc == NGX_MCDS_OK && last_value == 0, "sum: nobody");
}


/* visits of the last slot may still be on their way when it is over */

static void
test_sum_settles(void)
{
    time_t      now;
    uint64_t    value;
    ngx_uint_t  i;

    start();

    for (now = 9000; now < 9005; now++) {
        if (sum("t", now, &value, NULL) == NGX_AGAIN) {
            for (i = nsent - 5; i < nsent; i++) {
                answer(i, NGX_MCDS_OK, "1", 0);
            }
        }

        (void) sum("t", now, &value, NULL);
    }

    ok(nsent == 15, "sum: settles in the first seconds of a slot");
    ok(value == 5, "sum: settled");
}


static void
test_sum_failed(void)
{
    uint64_t    value;
    ngx_uint_t  i;

    start();

    (void) sum("u", 12030, &value, NULL);

    for (i = 0; i < 5; i++) {
        answer(i, i == 2 ? NGX_MCDS_TIMEOUT : NGX_MCDS_OK, "5", 0);
    }

    ok(calls == 1 && last_rc == NGX_MCDS_TIMEOUT, "sum: one did not answer");

    ok(sum("u", 12030, &value, NULL) == NGX_AGAIN && nsent == 10,
       "sum: the next one asks again");

    for (i = 5; i < 10; i++) {
        answer(i, NGX_MCDS_OK, i == 7 ? "x" : "5", 0);
    }

    ok(calls == 2 && last_rc == NGX_MCDS_NOT_NUMERIC, "sum: not a number");

    full = 1;
    ok(sum("u", 12030, &value, NULL) == NGX_ERROR, "sum: out of memory");
    full = 0;

    ok(sum("u", 12030, &value, NULL) == NGX_AGAIN && nsent == 15,
       "sum: and asked again");

    ngx_mcds_visitors_cancel(handle);

    for (i = 10; i < 15; i++) {
        answer(i, NGX_MCDS_OK, "5", 0);
    }

    ok(calls == 2, "sum: canceled");
    ok(sum("u", 12031, &value, NULL) == NGX_OK && value == 25,
       "sum: known to the next one all the same");
}


static void
test_sum_shared(void)
{
    uint64_t             value;
    ngx_uint_t           i;
    ngx_mcds_visitors_t  one = { NULL, 60, 1 };

    start();

    (void) sum("w", 15030, &value, NULL);
    (void) sum("w", 15030, &value, NULL);
    (void) sum("w", 15031, &value, NULL);

    ok(nsent == 5, "sum: asked once for all that wait");

    for (i = 0; i < 5; i++) {
        answer(i, NGX_MCDS_OK, "2", 0);
    }

    ok(calls == 3 && last_value == 10, "sum: all are told");

    used = &one;
    ok(sum("w", 15031, &value, NULL) == NGX_AGAIN && nsent == 6,
       "sum: another window is another sum");
    used = &five;

    answer(5, NGX_MCDS_OK, "2", 0);
    ok(calls == 4 && last_value == 2, "sum: of its own slot");
}


/* a handler asks for the next sum, or has this one evicted */

static void
test_sum_again(void)
{
    char        key[32];
    uint64_t    value;
    ngx_str_t   s;
    ngx_uint_t  i;

    start();

    s.data = (u_char *) "x";
    s.len = 1;

    (void) ngx_mcds_visitors_sum(&five, &s, 18030, &value, again_handler,
                                 "next", &handle);
    (void) sum("x", 18030, &value, NULL);

    for (i = 0; i < 5; i++) {
        answer(i, NGX_MCDS_OK, "2", 0);
    }

    ok(calls == 2 && nsent == 10, "again: the next slot is asked for");

    for (i = 5; i < 10; i++) {
        answer(i, NGX_MCDS_OK, "3", 0);
    }

    ok(calls == 3 && last_value == 15, "again: and told for itself");

    start();

    s.data = (u_char *) "y";

    (void) ngx_mcds_visitors_sum(&five, &s, 18030, &value, again_handler,
                                 "many", &handle);
    (void) sum("y", 18030, &value, NULL);

    for (i = 0; i < 5; i++) {
        answer(i, NGX_MCDS_OK, "2", 0);
    }

    ok(calls == 2 && last_value == 10, "again: evicted while it tells");

    for (i = 0; i < 600; i++) {
        ngx_sprintf((u_char *) key, "y%ui%Z", i);

        if (sum(key, 18030, &value, NULL) != NGX_AGAIN) {
            break;
        }

        answer(nsent - 5, NGX_MCDS_OK, "1", 0);
        answer(nsent - 4, NGX_MCDS_OK, "1", 0);
        answer(nsent - 3, NGX_MCDS_OK, "1", 0);
        answer(nsent - 2, NGX_MCDS_OK, "1", 0);
        answer(nsent - 1, NGX_MCDS_OK, "1", 0);
    }

    ok(i == 600, "again: others");
}


/* more keys than are remembered, also while all of them wait */

static void
test_sum_many(void)
{
    char                 key[32];
    uint64_t             value;
    ngx_uint_t           i, bad;
    ngx_mcds_visitors_t  one = { NULL, 60, 1 };

    start();
    used = &one;
    bad = 0;

    for (i = 0; i < 2 * NGX_MCDS_SUMS; i++) {
        ngx_sprintf((u_char *) key, "z%ui%Z", i);

        if (sum(key, 21030, &value, NULL) != NGX_AGAIN || nsent != i + 1) {
            bad++;
        }
    }

    ok(bad == 0, "many: all wait");

    for (i = 0; i < 2 * NGX_MCDS_SUMS; i++) {
        answer(i, NGX_MCDS_OK, "1", 0);
    }

    ok(calls == 2 * NGX_MCDS_SUMS, "many: all are told");

    ngx_sprintf((u_char *) key, "z%ui%Z", i - 1);
    ok(sum(key, 21030, &value, NULL) == NGX_OK && value == 1,
       "many: the last is known");

    nsent = 0;

    for (i = 0; i < 2 * NGX_MCDS_SUMS; i++) {
        ngx_sprintf((u_char *) key, "Z%ui%Z", i);
        (void) sum(key, 21030, &value, NULL);
        answer(nsent - 1, NGX_MCDS_OK, "1", 0);
    }

    ok(sum("z2047", 21030, &value, NULL) == NGX_AGAIN,
       "many: what was not used is forgotten");
    answer(nsent - 1, NGX_MCDS_OK, "1", 0);

    ok(ngx_mcds_shown_count <= 2 * NGX_MCDS_SUMS, "many: bounded");

    used = &five;
}


static void
start(void)
{
    nsent = 0;
    nadded = 0;
    calls = 0;
    full = 0;
}


static void
visit(char *key, char *visitor, time_t now)
{
    ngx_str_t  k, v;

    k.data = (u_char *) key;
    k.len = ngx_strlen(key);
    v.data = (u_char *) visitor;
    v.len = ngx_strlen(visitor);

    ngx_mcds_visitors_visit(&five, &k, &v, now);
}


static ngx_int_t
sum(char *key, time_t now, uint64_t *value, void *data)
{
    ngx_str_t  k;

    k.data = (u_char *) key;
    k.len = ngx_strlen(key);

    return ngx_mcds_visitors_sum(used, &k, now, value, sum_handler, data,
                                 &handle);
}


static void
answer(ngx_uint_t i, ngx_uint_t rc, char *text, int64_t ttl)
{
    ngx_mcds_result_t  result;

    ngx_memzero(&result, sizeof(ngx_mcds_result_t));

    result.rc = rc;

    if (rc == NGX_MCDS_OK && text) {
        result.has = NGX_MCDS_VALUE;
        result.data = (u_char *) text;
        result.len = ngx_strlen(text);
    }

    if (rc == NGX_MCDS_OK && ttl) {
        result.has |= NGX_MCDS_TTL;
        result.ttl = ttl;
    }

    sent[i].handler(sent[i].data, &result);
}


static void
sum_handler(void *data, ngx_uint_t rc, uint64_t value)
{
    calls++;
    last_rc = rc;
    last_value = value;
}


static void
again_handler(void *data, ngx_uint_t rc, uint64_t value)
{
    char      key[32];
    uint64_t  v;
    uint32_t  i;

    sum_handler(NULL, rc, value);

    if (same(data, "next")) {
        (void) sum("x", 18090, &v, NULL);
        return;
    }

    for (i = 0; i < 2 * NGX_MCDS_SUMS; i++) {
        ngx_sprintf((u_char *) key, "n%uD%Z", i);

        full = 1;
        (void) sum(key, 18030, &v, NULL);
        full = 0;
    }
}


static int
same(char *a, const char *b)
{
    return ngx_strcmp(a, b) == 0;
}


/*
 * Copyright (C) mcds authors
 *
 * The slots of time and the items with which a worker counts visitors.  The
 * test replaces the client of memcached, and passes the time as an argument; it
 * records submitted operations, and answers them.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_visitors.c"
#include "tap.h"


#define SENT  16384


typedef struct {
    ngx_uint_t           verb;
    ngx_uint_t           want;
    uint32_t             ttl;
    char                 key[128];     /* key of the item: the counter's key
                                          and a suffix, such as ":99" */
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
static void test_sum_interpolated(void);
static void test_jitter(void);
static void test_marks(void);
static ngx_uint_t visit_number(ngx_uint_t n, time_t now);
static void test_sum_failed(void);
static void test_sum_shared(void);
static void test_sum_again(void);
static void test_sum_many(void);
static void start(void);
static void visit(char *key, char *visitor, time_t now);
static ngx_int_t sum(char *key, time_t now, uint64_t *value, void *data);
static void answer_all(ngx_uint_t from, char *text);
static void answer(ngx_uint_t i, ngx_uint_t rc, char *text, int64_t ttl);
static void sum_handler(void *data, ngx_uint_t rc, uint64_t value);
static void again_handler(void *data, ngx_uint_t rc, uint64_t value);
static int same(char *a, const char *b);


static ngx_mcds_visitors_t  five = { NULL, 300, 5, 0, 0, NULL };
static ngx_mcds_visitors_t  short_slots = { NULL, 5, 5, 0, 0, NULL };
static ngx_mcds_visitors_t *used = &five;

static sent_t           sent[SENT];
static ngx_uint_t       nsent;
static added_t          added[64];
static ngx_uint_t       nadded;
static ngx_uint_t       calls, last_rc;
static uint64_t         last_value;
static ngx_mcds_sum_t  *handle;


void
ngx_mcds_submit(ngx_mcds_pool_t *pool, ngx_mcds_request_t *req,
    ngx_mcds_op_t *op)
{
    sent_t  *s;

    if (nsent == SENT) {
        printf("# too many commands\n");
        exit(1);
    }

    s = &sent[nsent++];

    s->verb = req->verb;
    s->want = req->want;
    s->ttl = req->ttl;
    s->handler = op->handler;
    s->data = op->data;

    *ngx_snprintf((u_char *) s->key, sizeof(s->key) - 1, "%V%V", &req->key,
                  &req->suffix)
        = '\0';
    *ngx_snprintf((u_char *) s->text, sizeof(s->text) - 1, "%V", &req->text)
        = '\0';
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
    test_sum_interpolated();
    test_jitter();
    test_marks();
    test_sum_failed();
    test_sum_shared();
    test_sum_again();
    test_sum_many();

    return done_testing();
}


static void
test_slot(void)
{
    ngx_mcds_visitors_t  v = { NULL, 300, 5, 0, 0, NULL };

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


/*
 * The item of a slot (interval of time), created at any second of the slot,
 * lives until its count was shown for the last time.  Interpolation shows the
 * count for one more slot, unless the item would have to live longer than
 * NGX_MCDS_MAX_TTL.
 */

static void
test_ttl(void)
{
    time_t               now, end, gone;
    uint32_t             length, ttl, bad, more;
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
        more = (v.window + 2 * length + 1 <= NGX_MCDS_MAX_TTL) ? 2 : 1;
        bad = 0;

        for (now = 1700000000; now < 1700000000 + 2 * (time_t) length;
             now += 1 + length / 997)
        {
            ttl = ngx_mcds_visitors_ttl(&v, now);

            /*
             * until this time, the start of a later slot, the count in the item
             * is a part of the numbers of visitors to show
             */
            end = (ngx_mcds_visitors_slot(&v, now) + v.slots + more)
                  * length;

            /* memcached's clock may tick just after it has stored the item */
            gone = now + ttl - 1;

            if (gone < end
                || (more == 2 && gone > end + 1)
                || ttl > NGX_MCDS_MAX_TTL)
            {
                bad++;
            }
        }

        ok(bad == 0, "ttl: window %u in %u slots", v.window, v.slots);
    }
}


/*
 * If the window, of T seconds, has only one slot, two items alternate: one is
 * filled, one is shown.  An item created at time t lives to the end of the next
 * slot at least.
 */

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

        if (ttl < 2 * T - t % T || ttl > 3 * T - t % T + 1
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
    ok(added[0].ttl == 7 * 60 - 40 + 1, "visit: with the slot's life");

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
       && sent[1].want == (NGX_MCDS_VALUE|NGX_MCDS_TTL)
       && same(sent[1].key, "e:v:anna"),
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

    /*
     * another program has stored a visitor's mark, the item that tells that the
     * visitor was counted, without an expiry
     */

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

    /* a memcached server that does not report times to live */

    visit("e", "bert", 3000);
    answer(9, NGX_MCDS_NOT_STORED, NULL, 0);
    answer(10, NGX_MCDS_OK, "2800", 0);

    visit("e", "bert", 3099);
    ok(nsent == 11, "elsewhere: known by the time of the visit");
    visit("e", "bert", 3100);
    ok(nsent == 12, "elsewhere: for a window");
    answer(11, NGX_MCDS_NOT_STORED, NULL, 0);
    answer(12, NGX_MCDS_OK, "2000", 0);

    visit("e", "bert", 3100);
    ok(nsent == 14, "elsewhere: a visit too long ago");
    answer(13, NGX_MCDS_NOT_STORED, NULL, 0);
    answer(14, NGX_MCDS_OK, "anna", 0);

    visit("e", "bert", 3100);
    ok(nsent == 16, "elsewhere: no time at all");
    answer(15, NGX_MCDS_OK, NULL, 0);
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
    visit("f", "anna", 3000);
    answer(0, NGX_MCDS_NOT_STORED, NULL, 0);
    answer(1, NGX_MCDS_BUSY, NULL, 0);
    visit("f", "anna", 3000);
    ok(nsent == 3, "failed: no memory for the second question");
    answer(2, NGX_MCDS_CLOSED, NULL, 0);
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

    ok(sum("s", 6060, &value, NULL) == NGX_AGAIN && nsent == 7
       && same(sent[5].key, "s:100") && same(sent[6].key, "s:99"),
       "sum: the next slot asks for what may have changed");

    answer(5, NGX_MCDS_NOT_FOUND, NULL, 0);
    answer(6, NGX_MCDS_OK, "8", 0);

    ok(calls == 2 && last_value == 108, "sum: without the oldest");

    ok(sum("s", 6600, &value, NULL) == NGX_AGAIN && nsent == 12,
       "sum: all anew after a while");

    answer_all(7, "0");
    ok(calls == 3 && last_rc == NGX_MCDS_OK && last_value == 0, "sum: nobody");

    ok(sum("s", 6000, &value, NULL) == NGX_AGAIN && nsent == 17,
       "sum: all anew when the clock was set back");

    answer_all(12, "1");
    ok(calls == 4 && last_value == 5, "sum: of the time it is now");
}


/* Visits in a slot of time may still be counted soon after the slot's end. */

static void
test_sum_settles(void)
{
    time_t      now;
    uint64_t    value;
    ngx_uint_t  n;

    start();

    for (now = 9000; now < 9005; now++) {
        n = nsent;

        if (sum("t", now, &value, NULL) == NGX_AGAIN) {
            answer_all(n, now == 9001 ? "3" : "1");
        }

        (void) sum("t", now, &value, NULL);

        if (now == 9001) {
            ok(value == 7, "sum: follows the last slot");
        }
    }

    ok(nsent == 7 && same(sent[6].key, "t:149"),
       "sum: settles in the first seconds of a slot");
    ok(value == 5, "sum: settled");

    /* the count of a slot of one second becomes final only some slots later */

    used = &short_slots;
    start();

    for (now = 9000; now < 9005; now++) {
        (void) sum("t", now, &value, NULL);
        answer_all(nsent - (now == 9000 ? 5 : 3), "1");
    }

    ok(nsent == 17 && same(sent[14].key, "t:9003")
       && same(sent[15].key, "t:9002") && same(sent[16].key, "t:9001"),
       "sum: settles over several slots");

    used = &five;
}


/*
 * With interpolation the number of visitors to show moves, second by second,
 * from the sum in the previous slot (part of the window) to the present sum.
 */

static void
test_sum_interpolated(void)
{
    time_t               now;
    uint64_t             value, last;
    ngx_str_t            key;
    ngx_uint_t           i, bad;
    ngx_mcds_visitors_t  v = { NULL, 300, 5, 0, 1, NULL };
    ngx_mcds_visitors_t  w = { NULL, 5, 5, 0, 1, NULL };
    ngx_mcds_visitors_t  j = { NULL, 300, 5, 500, 1, NULL };

    start();
    used = &v;

    (void) sum("i", 6014, &value, NULL);
    ok(nsent == 6 && same(sent[5].key, "i:94"),
       "interpolated: asks for a slot more");

    for (i = 0; i < 6; i++) {
        answer(i, NGX_MCDS_OK, i == 0 ? "60" : i == 5 ? "120" : "1", 0);
    }

    /*
     * in the previous slot the counts of visitors in five slots added up to
     * 124, now to 64: after 15 of 60 seconds, 124 - (124 - 64) / 4 is shown
     */

    ok(calls == 1 && last_value == 109, "interpolated: told");

    bad = 0;

    for (now = 6000; now < 6060; now++) {
        (void) sum("i", now, &value, NULL);

        if (value != (uint64_t) (124 - (now - 6000 + 1))) {
            bad++;
        }

        last = value;
    }

    ok(nsent == 6 && bad == 0, "interpolated: straight");
    ok(last == 64, "interpolated: arrives with the slot's last second");

    (void) sum("i", 6060, &value, NULL);
    answer_all(6, "60");
    ok(nsent == 8 && last_value == 65, "interpolated: and goes on from there");

    used = &five;
    (void) sum("i", 6014, &value, NULL);
    ok(nsent == 13, "interpolated: beside one that is not");
    answer_all(8, "1");

    used = &w;
    (void) sum("i", 6014, &value, NULL);
    answer(13, NGX_MCDS_OK, "2", 0);
    answer_all(14, "7");
    ok(last_value == 30, "interpolated: nothing to do in a slot of a second");

    ngx_str_set(&key, "i");

    used = &v;
    (void) sum("i", 6075, &value, NULL);
    answer_all(19, "1000");
    last = last_value;

    used = &j;
    (void) sum("i", 6075, &value, NULL);
    ok(value != last
       && value == ngx_mcds_visitors_jitter(last, 500, &key, 6075),
       "interpolated: then comes the jitter");

    (void) sum("i", 6135, &value, NULL);
    answer_all(nsent - 2, "3000");

    ok(last_value
       == ngx_mcds_visitors_jitter((3063 * 44 + 6062 * 16 + 30) / 60, 500,
                                   &key, 6135),
       "interpolated: also for who waits");

    used = &five;
}


/*
 * The jitter, random noise that is added to the number of visitors to show, has
 * a normal distribution, and is the same on all hosts.
 */

static void
test_jitter(void)
{
    double      n, z, sum, square, third, fourth;
    time_t      now;
    uint64_t    value;
    ngx_str_t   key, other;
    ngx_uint_t  i, bad, same_as, inside[4];

    ngx_str_set(&key, "jitter");
    ngx_str_set(&other, "other");

    sum = square = third = fourth = 0;
    same_as = bad = 0;
    ngx_memzero(inside, sizeof(inside));
    n = 100000;

    for (now = 1700000000; now < 1700000000 + (time_t) n; now++) {

        value = ngx_mcds_visitors_jitter(1000000, 500, &key, now);

        if (value != ngx_mcds_visitors_jitter(1000000, 500, &key, now)) {
            bad++;
        }

        if (value == ngx_mcds_visitors_jitter(1000000, 500, &other, now)
            || value == ngx_mcds_visitors_jitter(1000000, 500, &key, now + 1))
        {
            same_as++;
        }

        z = ((double) value - 1000000) / 50000;

        sum += z;
        square += z * z;
        third += z * z * z;
        fourth += z * z * z * z;

        for (i = 1; i < 4; i++) {
            inside[i] += (z > -(double) i && z < (double) i);
        }
    }

    ok(bad == 0, "jitter: of a key and a second");
    ok(same_as < 10, "jitter: other keys and other seconds differ");

    ok(sum / n > -0.02 && sum / n < 0.02, "jitter: mean 0");
    ok(square / n > 0.97 && square / n < 1.03, "jitter: deviation 5 %%");
    ok(third / n > -0.05 && third / n < 0.05, "jitter: no skew");
    ok(fourth / n > 2.75 && fourth / n < 3.1, "jitter: tails");
    ok(inside[1] / n > 0.673 && inside[1] / n < 0.693
       && inside[2] / n > 0.949 && inside[2] / n < 0.960
       && inside[3] / n > 0.995 && inside[3] / n < 0.999,
       "jitter: 68, 95 and 99.7 %%");

    bad = 0;

    for (now = 0; now < 1000; now++) {
        if (ngx_mcds_visitors_jitter(0, 10000, &key, now)
            || ngx_mcds_visitors_jitter(9, 500, &key, now) > 11
            || ngx_mcds_visitors_jitter(100, 10000, &key, now) > 700)
        {
            bad++;
        }
    }

    ok(bad == 0, "jitter: never negative, nothing of nothing");

    /* the jitter depends on its arguments alone: it is the same on all hosts */

    ok(ngx_mcds_visitors_jitter(1000, 500, &key, 1700000000) == 1005
       && ngx_mcds_visitors_jitter(1000, 500, &key, 1700000001) == 1057,
       "jitter: the same everywhere");
}


/* Counts visits of more visitors than a worker can remember. */

static void
test_marks(void)
{
    ngx_uint_t  i, pass, asked;

    start();

    for (pass = 0; pass < 2; pass++) {
        asked = 0;

        for (i = 0; i < NGX_MCDS_MARK_SETS; i++) {
            asked += visit_number(i, 1000 + pass);
        }

        if (pass == 0) {
            ok(asked == NGX_MCDS_MARK_SETS, "marks: all are new");
        }
    }

    ok(asked < NGX_MCDS_MARK_SETS / 100, "marks: nearly all are known");

    asked = 0;

    for (i = 0; i < NGX_MCDS_MARK_SETS * NGX_MCDS_MARK_WAYS * 4; i++) {
        asked += visit_number(1000000 + i, 1002);
    }

    ok(asked == i, "marks: many more are new");
    ok(visit_number(1000000 + i - 1, 1003) == 0, "marks: the last is known");
    ok(visit_number(1000000, 1003) == 1, "marks: the first is not");

    ok(visit_number(1000000 + i - 1, 1002 + 300) == 1, "marks: known no more");

    ok(visit_number(1000000 + i - 1, 1000) == 1,
       "marks: not believed when the clock was set back");
}


/* Counts a visit, and returns the number of operations of memcached for it. */

static ngx_uint_t
visit_number(ngx_uint_t n, time_t now)
{
    char  visitor[32];

    ngx_sprintf((u_char *) visitor, "visitor %ui%Z", n);

    nsent = 0;
    nadded = 0;

    visit("m", visitor, now);

    if (nsent) {
        answer(0, NGX_MCDS_OK, NULL, 0);
    }

    return nsent;
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

    ok(sum("u", 12030, &value, NULL) == NGX_AGAIN && nsent == 7
       && same(sent[5].key, "u:199") && same(sent[6].key, "u:197"),
       "sum: the next one asks it again");

    answer(5, NGX_MCDS_OK, "5", 0);
    answer(6, NGX_MCDS_OK, "x", 0);

    ok(calls == 2 && last_rc == NGX_MCDS_NOT_NUMERIC, "sum: not a number");

    (void) sum("u", 12030, &value, NULL);
    answer(7, NGX_MCDS_BUSY, NULL, 0);
    answer(8, NGX_MCDS_BUSY, NULL, 0);
    ok(calls == 3 && last_rc == NGX_MCDS_BUSY, "sum: out of memory");

    ok(sum("u", 12030, &value, NULL) == NGX_AGAIN && nsent == 11,
       "sum: and asked again");

    ngx_mcds_visitors_cancel(handle);
    answer_all(9, "5");

    ok(calls == 3, "sum: canceled");
    ok(sum("u", 12031, &value, NULL) == NGX_OK && value == 25,
       "sum: known to the next one all the same");
}


static void
test_sum_shared(void)
{
    uint64_t             value;
    ngx_uint_t           i;
    ngx_mcds_visitors_t  one = { NULL, 60, 1, 0, 0, NULL };

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


/*
 * The handler that gets the number of visitors of a key asks, while it runs,
 * for the number of the same key a minute later, or for the numbers of so many
 * other keys that the first key is evicted from the worker's memory.
 */

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

    ok(calls == 2 && nsent == 7, "again: the next slot is asked for");

    answer_all(5, "3");

    ok(calls == 3 && last_value == 12, "again: and told for itself");

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


/*
 * Asks for the numbers of visitors of more keys than a worker can remember:
 * first for all keys before memcached answers, then for one key after another.
 */

static void
test_sum_many(void)
{
    char                 key[32];
    uint64_t             value;
    ngx_uint_t           i, bad;
    ngx_mcds_visitors_t  one = { NULL, 60, 1, 0, 0, NULL };

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

    ngx_sprintf((u_char *) key, "z%ui%Z", i - 1);
    ok(sum(key, 21030, &value, NULL) == NGX_AGAIN,
       "many: what was not used is forgotten");
    answer(nsent - 1, NGX_MCDS_OK, "1", 0);

    ok(ngx_mcds_shown.count <= NGX_MCDS_SUMS, "many: bounded");

    used = &five;
}


static void
start(void)
{
    nsent = 0;
    nadded = 0;
    calls = 0;
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
answer_all(ngx_uint_t from, char *text)
{
    ngx_uint_t  i, n;

    n = nsent;

    for (i = from; i < n; i++) {
        answer(i, NGX_MCDS_OK, text, 0);
    }
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
    char        key[32];
    uint64_t    v;
    uint32_t    i, k;
    ngx_uint_t  first, n;

    sum_handler(NULL, rc, value);

    if (same(data, "next")) {
        (void) sum("x", 18090, &v, NULL);
        return;
    }

    first = nsent;
    n = calls;

    for (i = 0; i < 2 * NGX_MCDS_SUMS; i++) {
        ngx_sprintf((u_char *) key, "n%uD%Z", i);

        (void) sum(key, 18030, &v, NULL);

        for (k = 0; k < 5; k++) {
            answer(first + k, NGX_MCDS_BUSY, NULL, 0);
        }

        nsent = first;
    }

    calls = n;
    last_value = value;
}


static int
same(char *a, const char *b)
{
    return ngx_strcmp(a, b) == 0;
}

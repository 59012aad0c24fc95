
/*
 * Copyright (C) mcds authors
 *
 * Counters: the arithmetic of periods, with the time as an argument; and the
 * operations and results of several requests that change a counter in one turn
 * of the event loop.  The test replaces the client of memcached.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_counter.c"
#include "tap.h"


typedef struct {
    ngx_uint_t           verb;
    uint32_t             ttl;
    uint64_t             initial;
    uint64_t             delta;
    char                 key[32];
    ngx_mcds_handler_pt  handler;
    void                *data;
} sent_t;


static void test_period(void);
static void test_period_edges(void);
static void test_add(void);
static void test_read(void);
static void test_mixed(void);
static void test_subtract(void);
static void test_apart(void);
static void test_failed(void);
static void test_cancel(void);
static void test_order(void);
static void test_wait(void);
static void test_wait_bounds(void);
static ngx_mcds_count_t *change(char *key, uint64_t initial, uint32_t ttl,
    int64_t delta);
static void turn(void);
static void answer(ngx_uint_t i, ngx_uint_t rc, char *text);
static void handler(void *data, ngx_uint_t rc, uint64_t value);
static void start(void);


static sent_t      sent[16];
static ngx_uint_t  nsent;
static ngx_uint_t  nasked, ntold;
static ngx_uint_t  rcs[128];
static uint64_t    values[128];

ngx_queue_t        ngx_posted_events;
ngx_queue_t        ngx_posted_next_events;
ngx_rbtree_t       ngx_event_timer_rbtree;


/*
 * replace the functions of nginx's timers: the test itself decides when a timer
 * expires
 */

void
ngx_rbtree_insert(ngx_rbtree_t *tree, ngx_rbtree_node_t *node)
{
    /* void */
}


void
ngx_rbtree_delete(ngx_rbtree_t *tree, ngx_rbtree_node_t *node)
{
    /* void */
}


/*
 * replace the code that raises a counter to its last known value after
 * memcached has lost the counter: these functions raise none
 */

ngx_int_t
ngx_mcds_raise(ngx_mcds_counter_t *counter, uint64_t id, ngx_msec_t age,
    ngx_mcds_wish_t *wish)
{
    return NGX_DECLINED;
}


uint32_t
ngx_mcds_raise_ttl(ngx_mcds_counter_t *counter)
{
    return counter->ttl;
}


ngx_uint_t
ngx_mcds_raise_doubt(ngx_mcds_pool_t *pool)
{
    return 0;
}


void
ngx_mcds_raise_check(ngx_mcds_pool_t *pool, int64_t ttl)
{
    /* void */
}


int64_t
ngx_mcds_raise_marked(int64_t ttl, time_t now)
{
    return -1;
}


/* replaces the function that keeps unsent increments: this one keeps none */

ngx_int_t
ngx_mcds_replay_keep(ngx_mcds_counter_t *counter, int64_t delta)
{
    return NGX_DECLINED;
}


void
ngx_mcds_replay_lose(int64_t delta)
{
    /* void */
}


void
ngx_mcds_submit(ngx_mcds_pool_t *pool, ngx_mcds_request_t *req,
    ngx_mcds_op_t *op)
{
    sent_t  *s;

    s = &sent[nsent++];

    s->verb = req->verb;
    s->ttl = req->ttl;
    s->initial = req->initial;
    s->delta = req->delta;
    s->handler = op->handler;
    s->data = op->data;

    ngx_memcpy(s->key, req->key.data, req->key.len);
    s->key[req->key.len] = '\0';
}


int
main(void)
{
    ngx_queue_init(&ngx_posted_events);
    ngx_queue_init(&ngx_posted_next_events);

    test_period();
    test_period_edges();
    test_add();
    test_read();
    test_mixed();
    test_subtract();
    test_apart();
    test_failed();
    test_cancel();
    test_order();
    test_wait();
    test_wait_bounds();

    return done_testing();
}


static void
test_period(void)
{
    ngx_mcds_period_t  hour = { 3600, 0 }, day = { 86400, 79200 };

    /* 1795194000 is 2026-11-20 17:00:00 UTC */

    ok(ngx_mcds_period_number(&hour, 1795194000) == 498665, "hour");
    ok(ngx_mcds_period_number(&hour, 1795194000 - 1) == 498664,
       "hour, a second before");
    ok(ngx_mcds_period_number(&hour, 1795194000 + 3599) == 498665,
       "hour, its last second");
    ok(ngx_mcds_period_ttl(&hour, 1795194000) == 3660, "hour, to live");
    ok(ngx_mcds_period_ttl(&hour, 1795194000 + 3599) == 61,
       "hour, to live at its end");

    /* a period of a day, which begins at 22:00 UTC */

    ok(ngx_mcds_period_number(&day, 1795194000) == 20776, "day");
    ok(ngx_mcds_period_number(&day, 1795194000 + 5 * 3600 - 1) == 20776,
       "day, its last second");
    ok(ngx_mcds_period_number(&day, 1795194000 + 5 * 3600) == 20777,
       "day, the next");
    ok(ngx_mcds_period_ttl(&day, 1795194000) == 5 * 3600 + 60,
       "day, to live");
}


/*
 * Each second belongs to one period, whose counter lives until a minute after
 * the end of the period.
 */

static void
test_period_edges(void)
{
    time_t             now;
    uint64_t           number, before;
    ngx_uint_t         i, wrong;
    ngx_mcds_period_t  periods[] = {
        { 1, 0 }, { 2, 1 }, { 7, 3 }, { 60, 59 }, { 3600, 1800 }
    };

    for (i = 0; i < 5; i++) {
        wrong = 0;
        before = ngx_mcds_period_number(&periods[i], 1795194000 - 1);

        for (now = 1795194000; now < 1795194000 + 8000; now++) {
            number = ngx_mcds_period_number(&periods[i], now);

            wrong += (number != before
                      + ((now - periods[i].start) % periods[i].length == 0));

            wrong += ((uint64_t) now + ngx_mcds_period_ttl(&periods[i], now)
                      != (number + 1) * periods[i].length + periods[i].start
                         + NGX_MCDS_PERIOD_SPARE);

            before = number;
        }

        ok(wrong == 0, "periods of %u from %u on", periods[i].length,
           periods[i].start);
    }

    periods[0].length = NGX_MCDS_MAX_PERIOD;

    ok(ngx_mcds_period_ttl(&periods[0], 0) == NGX_MCDS_MAX_TTL,
       "the longest lives as long as it may");
}


static void
test_add(void)
{
    start();

    change("a", 0, 5, 1);
    change("a", 0, 5, 10);
    change("a", 0, 5, 100);
    turn();

    ok(nsent == 1 && sent[0].verb == NGX_MCDS_INCR, "add: one command");
    ok(sent[0].delta == 111 && sent[0].initial == 111 && sent[0].ttl == 5,
       "add: the sum");

    answer(0, NGX_MCDS_OK, "1111");

    ok(ntold == 3 && values[0] == 1001 && values[1] == 1011
       && values[2] == 1111, "add: to each its own");

    start();

    change("a", 1000, 0, 1);
    change("a", 1000, 0, 1);
    turn();

    ok(sent[0].delta == 2 && sent[0].initial == 1002, "add: from a start on");

    answer(0, NGX_MCDS_OK, "1002");

    ok(values[0] == 1001 && values[1] == 1002, "add: its first numbers");
}


static void
test_read(void)
{
    start();

    change("a", 7, 0, 0);
    change("a", 7, 60, 0);
    turn();

    ok(nsent == 1 && sent[0].verb == NGX_MCDS_GET, "read: one command");

    answer(0, NGX_MCDS_OK, "12  ");

    ok(ntold == 2 && values[0] == 12 && values[1] == 12, "read: the number");

    start();

    change("a", 7, 0, 0);
    turn();
    answer(0, NGX_MCDS_NOT_FOUND, NULL);

    ok(ntold == 1 && rcs[0] == NGX_MCDS_OK && values[0] == 7,
       "read: absent, its start");
}


static void
test_mixed(void)
{
    start();

    change("a", 0, 0, 0);
    change("a", 0, 60, 2);
    change("a", 0, 0, 0);
    change("a", 0, 60, 3);
    turn();

    ok(nsent == 1 && sent[0].verb == NGX_MCDS_INCR && sent[0].delta == 5
       && sent[0].ttl == 60, "mixed: one command, with the time of who adds");

    answer(0, NGX_MCDS_OK, "15");

    ok(ntold == 4 && values[0] == 10 && values[1] == 12 && values[2] == 12
       && values[3] == 15, "mixed: to each what it finds");
}


static void
test_subtract(void)
{
    start();

    change("a", 0, 0, -3);
    change("a", 0, 0, 1);
    change("a", 2, 0, -3);
    change("a", 5, 0, -3);
    turn();

    ok(nsent == 4, "subtract: one by one");
    ok(sent[0].verb == NGX_MCDS_DECR && sent[0].delta == 3
       && sent[0].initial == 0, "subtract: nothing");
    ok(sent[1].verb == NGX_MCDS_INCR && sent[1].delta == 1, "subtract: add");
    ok(sent[2].initial == 0, "subtract: less than there is");
    ok(sent[3].initial == 2, "subtract: from a start");

    answer(0, NGX_MCDS_OK, "0");
    answer(1, NGX_MCDS_OK, "1");
    answer(2, NGX_MCDS_OK, "0 ");
    answer(3, NGX_MCDS_OK, "2");

    ok(ntold == 4 && values[0] == 0 && values[1] == 1 && values[2] == 0
       && values[3] == 2, "subtract: what is left");
}


static void
test_apart(void)
{
    start();

    change("a", 0, 0, 1);
    change("b", 0, 0, 1);
    change("a", 0, 9, 1);
    change("a", 1, 0, 1);
    turn();

    ok(nsent == 4, "apart: another key, time to live, start");

    while (nsent) {
        answer(--nsent, NGX_MCDS_OK, "5");
    }

    ok(ntold == 4, "apart: all are told");
}


static void
test_failed(void)
{
    start();

    change("a", 0, 0, 1);
    change("a", 0, 0, 1);
    turn();
    answer(0, NGX_MCDS_TIMEOUT, NULL);

    ok(ntold == 2 && rcs[0] == NGX_MCDS_TIMEOUT && rcs[1] == NGX_MCDS_TIMEOUT,
       "failed: all are told");

    start();

    change("a", 0, 0, 1);
    turn();
    answer(0, NGX_MCDS_NOT_FOUND, NULL);

    ok(rcs[0] == NGX_MCDS_NOT_FOUND, "failed: an increment that found none");

    start();

    change("a", 0, 0, 0);
    turn();
    answer(0, NGX_MCDS_OK, "text");

    ok(rcs[0] == NGX_MCDS_NOT_NUMERIC, "failed: no number");

    start();

    change("a", 0, 0, 1);
    turn();
    answer(0, NGX_MCDS_BUSY, NULL);

    ok(ntold == 1 && rcs[0] == NGX_MCDS_BUSY, "failed: not sent");
}


static void
test_cancel(void)
{
    ngx_mcds_count_t  *count;

    start();

    change("a", 0, 0, 1);
    count = change("a", 0, 0, 1);
    change("a", 0, 0, 1);

    ngx_mcds_counter_cancel(count);

    turn();

    ok(sent[0].delta == 3, "canceled: counts");

    answer(0, NGX_MCDS_OK, "3");

    ok(ntold == 2 && values[0] == 1 && values[2] == 3,
       "canceled: is not told");
}


static void
test_order(void)
{
    ngx_uint_t  i, wrong;
    char        key[2] = "z";

    start();

    for (i = 0; i < 16; i++) {
        key[0] = 'z' - i;
        change(key, 0, 0, 1);
    }

    turn();

    wrong = (nsent != 16);

    for (i = 0; i < nsent; i++) {
        wrong += (sent[i].key[0] != 'z' - (char) i);
    }

    ok(wrong == 0, "order: first come, first sent");

    while (nsent) {
        answer(--nsent, NGX_MCDS_OK, "1");
    }
}


/*
 * If one turn of the event loop has many increments of the same counters, the
 * worker delays them, and sends them with those of the next turns.
 */

static void
test_wait(void)
{
    ngx_uint_t  i;

    start();

    for (i = 0; i < NGX_MCDS_COUNTER_MANY - 1; i++) {
        change("a", 0, 0, 1);
    }

    turn();

    ok(nsent == 1, "wait: not for a few");

    answer(0, NGX_MCDS_OK, "7");
    start();

    for (i = 0; i < NGX_MCDS_COUNTER_MANY; i++) {
        change("a", 0, 0, 1);
    }

    turn();

    ok(nsent == 0 && ngx_mcds_counter_flush.timer_set, "wait: one turn");

    change("a", 0, 0, 1);
    change("b", 0, 0, 1);
    turn();

    ok(nsent == 0, "wait: while there is more");

    change("c", 0, 0, 1);
    turn();

    ok(nsent == 3 && sent[0].delta == NGX_MCDS_COUNTER_MANY + 1
       && sent[1].delta == 1, "wait: no longer");
    ok(!ngx_mcds_counter_flush.timer_set && !ngx_mcds_counter_flush.posted,
       "wait: nothing is left");

    answer(0, NGX_MCDS_OK, "109");
    answer(1, NGX_MCDS_OK, "1");
    answer(2, NGX_MCDS_OK, "1");

    ok(ntold == NGX_MCDS_COUNTER_MANY + 3 && values[0] == 101
       && values[NGX_MCDS_COUNTER_MANY] == 109, "wait: to each its own");
}


static void
test_wait_bounds(void)
{
    ngx_uint_t  i, turns;
    char        key[2] = "A";

    start();

    for (turns = 0; nsent == 0 && turns < 2 * NGX_MCDS_COUNTER_TURNS; turns++)
    {
        for (i = 0; i < NGX_MCDS_COUNTER_MANY; i++) {
            change("a", 0, 0, 1);
        }

        turn();
    }

    ok(nsent == 1 && turns == NGX_MCDS_COUNTER_TURNS + 1,
       "wait: for so many turns at most");

    answer(0, NGX_MCDS_OK, "100");
    start();

    for (i = 0; i < NGX_MCDS_COUNTER_MANY; i++) {
        change("a", 0, 0, 1);
    }

    turn();

    ngx_mcds_counter_flush.timer_set = 0;
    ngx_mcds_counter_flush.timedout = 1;

    for (i = 0; i < NGX_MCDS_COUNTER_MANY; i++) {
        change("a", 0, 0, 1);
    }

    ngx_mcds_counter_flush_handler(&ngx_mcds_counter_flush);

    ok(nsent == 1 && sent[0].delta == 2 * NGX_MCDS_COUNTER_MANY,
       "wait: for so long at most");
    ok(!ngx_mcds_counter_flush.posted && !ngx_mcds_counter_flush.timedout,
       "wait: nothing is left then");

    answer(0, NGX_MCDS_OK, "100");
    start();

    for (i = 0; i < NGX_MCDS_COUNTER_MANY; i++) {
        key[0] = 'A' + i;
        change(key, 0, 0, 1);
    }

    turn();

    ok(nsent == NGX_MCDS_COUNTER_MANY, "wait: not for different ones");

    while (nsent) {
        answer(--nsent, NGX_MCDS_OK, "1");
    }
}


static ngx_mcds_count_t *
change(char *key, uint64_t initial, uint32_t ttl, int64_t delta)
{
    ngx_mcds_counter_t  counter;

    ngx_memzero(&counter, sizeof(ngx_mcds_counter_t));

    counter.key.data = (u_char *) key;
    counter.key.len = ngx_strlen(key);
    counter.initial = initial;
    counter.ttl = ttl;

    return ngx_mcds_counter_change(&counter, delta, handler,
                                   (void *) (uintptr_t) nasked++);
}


/* Runs the posted event that sends increments. */

static void
turn(void)
{
    if (ngx_mcds_counter_flush.posted) {
        ngx_delete_posted_event(&ngx_mcds_counter_flush);
        ngx_mcds_counter_flush_handler(&ngx_mcds_counter_flush);
    }
}


static void
answer(ngx_uint_t i, ngx_uint_t rc, char *text)
{
    ngx_mcds_result_t  result;

    ngx_memzero(&result, sizeof(ngx_mcds_result_t));

    result.rc = rc;

    if (text) {
        result.has = NGX_MCDS_VALUE;
        result.data = (u_char *) text;
        result.len = ngx_strlen(text);
    }

    sent[i].handler(sent[i].data, &result);
}


static void
handler(void *data, ngx_uint_t rc, uint64_t value)
{
    ntold++;
    rcs[(uintptr_t) data] = rc;
    values[(uintptr_t) data] = value;
}


static void
start(void)
{
    ngx_queue_t  *q;

    nsent = 0;
    nasked = 0;
    ntold = 0;

    /* frees the structs kept for reuse: a sanitizer would report leaks */

    while (ngx_mcds_counter_free.next
           && !ngx_queue_empty(&ngx_mcds_counter_free))
    {
        q = ngx_queue_head(&ngx_mcds_counter_free);
        ngx_queue_remove(q);
        ngx_free(ngx_queue_data(q, ngx_mcds_count_t, queue));
    }
}


/*
 * Copyright (C) mcds authors
 *
 * Lists of the most frequent keys: the summaries that a worker stores and
 * reads.  The test replaces the client of memcached and the timers, and sets
 * the clock; it records submitted operations, and answers them.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_topk.c"
#include "ngx_mcds_posted.c"
#include "ngx_mcds_update.c"
#include "ngx_mcds_top.c"
#include "ngx_mcds_top_give.c"
#include "ngx_mcds_top_read.c"
#include "ngx_mcds_top_slot.c"
#include "tap.h"


#define SENT  256


typedef struct {
    ngx_uint_t            verb;
    uint64_t              cas;
    uint32_t              ttl;
    ngx_uint_t            place;
    char                  key[64];
    ngx_mcds_value_t     *value;
    ngx_mcds_handler_pt   handler;
    void                 *data;
} sent_t;


static void test_slot(void);
static void test_give(void);
static void test_give_merges(void);
static void test_give_again(void);
static void test_give_foreign(void);
static void test_give_failed(void);
static void test_give_unknown(void);
static void test_give_large(void);
static void test_give_slots(void);
static void test_give_held(void);
static void test_give_exiting(void);
static void test_keys(void);
static void test_read(void);
static void test_read_ended(void);
static void test_read_late(void);
static void test_read_turns(void);
static void test_read_failed(void);
static void test_read_waits(void);
static void test_reader(void);
static void start(time_t now);
static void pass(ngx_msec_t ms);
static ngx_uint_t turns(void);
static void count(char *key, uint64_t n);
static void answer(ngx_uint_t i, ngx_uint_t rc, ngx_mcds_value_t *value);
static ngx_mcds_value_t *stored(char *key, uint64_t n);
static uint64_t in_value(ngx_mcds_value_t *value, char *key);
static uint64_t in_list(char *key);
static ngx_uint_t is(ngx_uint_t i, ngx_uint_t verb, char *key);
static void waiter(void *data);


static ngx_mcds_top_t   top = { NULL, ngx_string("t"), 60, 6, 100, 3, 5000,
                                NULL, NULL };
static sent_t           sent[SENT];
static ngx_uint_t       nsent, calls;
static ngx_uint_t       apart;         /* 1: the test runs the event loop; 0:
                                          answer() does after each reply */
static ngx_log_t        test_log;


ngx_queue_t             ngx_posted_next_events;
ngx_rbtree_t            ngx_event_timer_rbtree;
ngx_uint_t              ngx_exiting;


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
    s->cas = req->cas;
    s->ttl = req->ttl;
    s->place = req->place;
    s->handler = op->handler;
    s->data = op->data;
    s->value = req->value ? ngx_mcds_value_ref(req->value) : NULL;

    *ngx_snprintf((u_char *) s->key, sizeof(s->key) - 1, "%V%V", &req->key,
                  &req->suffix)
        = '\0';
}


void
ngx_mcds_submit_to(ngx_mcds_pool_t *pool, ngx_uint_t n,
    ngx_mcds_request_t *req, ngx_mcds_op_t *op)
{
    /* void */
}


/* of 7 servers, the one of a slot has the index slot % 7 */

ngx_uint_t
ngx_mcds_first(ngx_mcds_pool_t *pool, ngx_mcds_request_t *req)
{
    return ngx_atoi(req->suffix.data + 5, req->suffix.len - 5) % 7;
}


void
ngx_mcds_cancel(ngx_mcds_op_t *op)
{
    /* void */
}


ngx_mcds_value_t *
ngx_mcds_result_value(ngx_mcds_result_t *result, ngx_log_t *log)
{
    return ngx_mcds_value_ref(result->value);
}


int
main(void)
{
    ngx_queue_init(&ngx_posted_next_events);

    test_slot();
    test_give();
    test_give_merges();
    test_give_again();
    test_give_foreign();
    test_give_failed();
    test_give_unknown();
    test_give_large();
    test_give_slots();
    test_give_held();
    test_give_exiting();
    test_keys();
    test_read();
    test_read_ended();
    test_read_late();
    test_read_turns();
    test_read_failed();
    test_read_waits();
    test_reader();

    start(0);
    ngx_mcds_top_exit(&top);

    return done_testing();
}


static void
test_slot(void)
{
    ok(ngx_mcds_top_slot(&top, 1199) == 119
       && ngx_mcds_top_slot(&top, 1200) == 120
       && ngx_mcds_top_slot(&top, 1209) == 120, "slot: of ten seconds");
    ok(ngx_mcds_top_ttl(&top, 120, 1200) == 60 + 60
       && ngx_mcds_top_ttl(&top, 120, 1209) == 51 + 60,
       "ttl: until it is shown no more, and a minute");
    ok(ngx_mcds_top_ttl(&top, 120, 1259) == 1 + 60
       && ngx_mcds_top_ttl(&top, 120, 1260) == 0,
       "ttl: none when it is shown no more");
}


static void
test_give(void)
{
    start(1200);

    count("/a", 1);
    count("/b", 2);
    count("/a", 3);
    ok(nsent == 0, "give: nobody waits");
    ok(top.state->give.timer_set && !top.state->give.cancelable,
       "give: the worker does not exit before");

    pass(4000);
    ok(nsent == 0, "give: not before its time");
    pass(1000);
    ok(nsent == 1 && is(0, NGX_MCDS_GET, "t:top:120"), "give: reads first");

    answer(0, NGX_MCDS_NOT_FOUND, NULL);
    ok(nsent == 2 && is(1, NGX_MCDS_ADD, "t:top:120") && sent[1].ttl == 115,
       "give: adds what is not there");
    ok(in_value(sent[1].value, "/a") == 4 && in_value(sent[1].value, "/b") == 2,
       "give: what was counted");

    answer(1, NGX_MCDS_OK, NULL);
    ok(!top.state->give.timer_set && top.state->current == NULL,
       "give: done");
}


static void
test_give_merges(void)
{
    ngx_mcds_value_t  *value;

    start(1200);

    count("/a", 1);
    pass(5000);

    value = stored("/a", 7);
    answer(0, NGX_MCDS_OK, value);
    ngx_mcds_value_unref(value);

    ok(nsent == 2 && is(1, NGX_MCDS_SET, "t:top:120") && sent[1].cas == 42,
       "merge: by compare-and-swap");
    ok(in_value(sent[1].value, "/a") == 8, "merge: with what was there");

    count("/a", 100);
    ok(nsent == 2, "merge: what comes meanwhile waits");

    answer(1, NGX_MCDS_OK, NULL);
    pass(5000);
    answer(2, NGX_MCDS_NOT_FOUND, NULL);
    ok(nsent == 4 && in_value(sent[3].value, "/a") == 100,
       "merge: and goes the next time");
    answer(3, NGX_MCDS_OK, NULL);
}


static void
test_give_again(void)
{
    ngx_uint_t         i;
    ngx_mcds_value_t  *value;

    start(1200);

    count("/a", 1);
    pass(5000);

    value = stored("/a", 7);

    for (i = 0; i <= NGX_MCDS_TOP_TRIES; i++) {
        answer(nsent - 1, NGX_MCDS_OK, value);
        answer(nsent - 1, i % 2 ? NGX_MCDS_NOT_FOUND : NGX_MCDS_EXISTS, NULL);

        if (i < NGX_MCDS_TOP_TRIES) {
            ok(top.state->flying && top.state->update.event.timer_set,
               "again: later, %d", (int) i);
            pass(200);
        }
    }

    ok(nsent == 2 * NGX_MCDS_TOP_TRIES + 2, "again: not without end");
    ok(top.state->flying == NULL && top.state->current,
       "again: kept for the next time");

    pass(5000);
    answer(nsent - 1, NGX_MCDS_OK, value);
    ok(in_value(sent[nsent - 1].value, "/a") == 8, "again: counted once");
    answer(nsent - 1, NGX_MCDS_OK, NULL);

    ngx_mcds_value_unref(value);

    /* two workers add the same item at the same time */

    count("/b", 1);
    pass(5000);
    answer(nsent - 1, NGX_MCDS_NOT_FOUND, NULL);
    answer(nsent - 1, NGX_MCDS_NOT_STORED, NULL);
    pass(200);
    ok(is(nsent - 1, NGX_MCDS_GET, "t:top:121"), "again: after an add, too");
    answer(nsent - 1, NGX_MCDS_NOT_FOUND, NULL);
    answer(nsent - 1, NGX_MCDS_OK, NULL);
}


static void
test_give_foreign(void)
{
    ngx_mcds_value_t  *value;

    start(1200);

    count("/a", 1);
    pass(5000);

    value = ngx_mcds_value_create(16, &test_log);
    ngx_memcpy(value->data, "something else", 14);
    value->len = 14;

    answer(0, NGX_MCDS_OK, value);
    ok(is(1, NGX_MCDS_SET, "t:top:120") && sent[1].cas == 42
       && in_value(sent[1].value, "/a") == 1,
       "foreign: what is not ours is replaced");
    answer(1, NGX_MCDS_OK, NULL);

    ngx_mcds_value_unref(value);
}


static void
test_give_failed(void)
{
    start(1200);

    count("/a", 1);
    pass(5000);
    count("/a", 2);
    answer(0, NGX_MCDS_TIMEOUT, NULL);
    ok(top.state->give.timer_set && top.state->old == NULL,
       "failed: kept, as part of the present slot");

    pass(4999);
    ok(nsent == 1, "failed: not tried at once");
    pass(1);
    answer(1, NGX_MCDS_NOT_FOUND, NULL);
    ok(in_value(sent[2].value, "/a") == 3, "failed: all of it goes then");

    answer(2, NGX_MCDS_DOWN, NULL);
    pass(5000);
    answer(3, NGX_MCDS_NOT_FOUND, NULL);
    ok(is(4, NGX_MCDS_ADD, "t:top:120") && in_value(sent[4].value, "/a") == 3,
       "failed: and when nothing was sent, to its own slot");
    answer(4, NGX_MCDS_OK, NULL);
}


static void
test_give_unknown(void)
{
    start(1200);

    count("/a", 1);
    pass(5000);
    answer(0, NGX_MCDS_NOT_FOUND, NULL);
    answer(1, NGX_MCDS_TIMEOUT, NULL);

    ok(top.state->flying == NULL && top.state->current == NULL
       && top.state->old == NULL, "unknown: never sent twice");
}


static void
test_give_large(void)
{
    char               key[256];
    ngx_uint_t         i;
    ngx_mcds_value_t  *value;

    start(1200);

    for (i = 0; i < 90; i++) {
        ngx_memset(key, 'x', 255);
        ngx_sprintf((u_char *) key + 200, "%02ui%Z", i);
        count(key, i + 1);
    }

    pass(5000);
    value = stored("/other", 1000);

    /*
     * before the worker stores an item of 20 kilobytes with the counts of the
     * most frequent keys, it stores a test item under another key, as large as
     * such an item can be: the reply shows whether memcached accepts this size
     */

    answer(0, NGX_MCDS_OK, value);
    ok(is(1, NGX_MCDS_SET, "t:top:size") && sent[1].cas == 0
       && sent[1].value->len == 32 + 100 * 272 && sent[1].ttl == 1,
       "large: tried elsewhere");
    ok(sent[0].place == 0 && sent[1].place == 120 % 7 + 1,
       "large: tried on the server of the slot");
    answer(1, NGX_MCDS_OK, NULL);
    answer(2, NGX_MCDS_OK, value);
    ok(is(3, NGX_MCDS_SET, "t:top:120") && in_value(sent[3].value, key) == 90
       && in_value(sent[3].value, "/other") == 1000, "large: it fits");
    answer(3, NGX_MCDS_OK, NULL);

    /*
     * memcached refuses the test item, which is as large as an item with the
     * counts of the most frequent keys can be
     */

    start(1200);
    ngx_mcds_value_unref(value);
    value = stored("/other", 1000);

    for (i = 0; i < 90; i++) {
        ngx_sprintf((u_char *) key + 200, "%02ui%Z", i);
        count(key, i + 1);
    }

    pass(5000);
    answer(0, NGX_MCDS_OK, value);
    answer(1, NGX_MCDS_TOO_LARGE, NULL);
    ok(is(2, NGX_MCDS_GET, "t:top:120"), "large: half of it fits anyway");
    answer(2, NGX_MCDS_OK, value);
    ok(is(3, NGX_MCDS_SET, "t:top:120") && sent[3].value->len <= 16384
       && in_value(sent[3].value, key) == 90
       && in_value(sent[3].value, "/other") == 1000,
       "large: the first ones are stored");

    /*
     * memcached refuses items with counts of keys at any size: the worker stops
     * halving their size
     */

    for (i = 0; i < 10 && top.state->flying; i++) {
        answer(nsent - 1, NGX_MCDS_TOO_LARGE, NULL);
        pass(200);
        if (top.state->flying) {
            answer(nsent - 1, NGX_MCDS_NOT_FOUND, NULL);
        }
    }

    ok(i == 5 && top.state->current == NULL && top.state->fits == 1024,
       "large: not for ever");

    ngx_mcds_value_unref(value);
}


static void
test_give_slots(void)
{
    start(1209);

    count("/a", 1);
    pass(1000);                   /* the clock is at 1210 */
    count("/b", 2);

    pass(4000);
    ok(nsent == 1 && is(0, NGX_MCDS_GET, "t:top:120"),
       "slots: the old one first");
    answer(0, NGX_MCDS_NOT_FOUND, NULL);
    ok(in_value(sent[1].value, "/a") == 1 && !in_value(sent[1].value, "/b"),
       "slots: alone");
    answer(1, NGX_MCDS_OK, NULL);

    pass(5000);
    ok(nsent == 3 && is(2, NGX_MCDS_GET, "t:top:121"),
       "slots: then the next one");

    /*
     * while memcached is down, a worker keeps the counts of keys in a slot
     * (interval of time) until the next slot ends, and then drops them
     */

    pass(1000);                   /* the clock is at 1220 */
    count("/c", 1);
    answer(2, NGX_MCDS_DOWN, NULL);
    ok(top.state->old && top.state->old_slot == 121
       && top.state->current_slot == 122, "slots: kept");
    pass(10000);
    count("/d", 1);
    answer(nsent - 1, NGX_MCDS_DOWN, NULL);
    ok(top.state->old && top.state->old_slot == 122
       && top.state->current_slot == 123, "slots: not for ever");

    /* counts of a slot (interval of time) that is too old to be shown */

    ngx_current_msec += 100000;

    while (top.state->give.timer_set) {
        pass(5000);
    }

    ok(nsent == 4 && top.state->old == NULL && top.state->current == NULL,
       "slots: what would not be seen is not sent");

    /* memcached answers when the slot (interval of time) is no longer shown */

    start(1200);

    count("/a", 1);
    pass(5000);
    ngx_cached_time->sec = 1260;
    answer(0, NGX_MCDS_NOT_FOUND, NULL);
    ok(nsent == 1 && top.state->flying == NULL,
       "slots: nor stored for ever");
}


/*
 * The server of slot 120 is down, that of slot 121 is not: the counts of slot
 * 121 do not wait until those of slot 120 are stored or dropped.
 */

static void
test_give_held(void)
{
    start(1209);

    count("/a", 1);
    pass(1000);                   /* the clock is at 1210 */
    count("/b", 2);
    pass(4000);
    answer(0, NGX_MCDS_DOWN, NULL);

    pass(5000);                   /* at 1219 */
    ok(nsent == 2 && is(1, NGX_MCDS_GET, "t:top:121"),
       "held: the present slot after a failure of the old one");
    answer(1, NGX_MCDS_NOT_FOUND, NULL);
    answer(2, NGX_MCDS_OK, NULL);
    ok(in_value(sent[2].value, "/b") == 2 && top.state->old_slot == 120,
       "held: stored, and the old one is kept");

    pass(5000);                   /* at 1224 */
    ok(nsent == 4 && is(3, NGX_MCDS_GET, "t:top:120"),
       "held: the old one again, when nothing else is there");
    count("/c", 3);
    answer(3, NGX_MCDS_DOWN, NULL);

    pass(5000);                   /* at 1229 */
    ok(nsent == 5 && is(4, NGX_MCDS_GET, "t:top:122"),
       "held: and so on");

    /* slot 122 ends before the command for its counts fails, too */

    pass(1000);
    count("/d", 4);
    answer(4, NGX_MCDS_DOWN, NULL);
    ok(top.state->old && top.state->old_slot == 122
       && top.state->current && top.state->current_slot == 123,
       "held: the counts of the later slot are kept");

    pass(5000);
    answer(5, NGX_MCDS_NOT_FOUND, NULL);
    answer(6, NGX_MCDS_OK, NULL);
    pass(5000);
    ok(nsent == 8 && is(5, NGX_MCDS_GET, "t:top:123")
       && is(7, NGX_MCDS_GET, "t:top:122"), "held: and sent in turn");
}


static void
test_give_exiting(void)
{
    start(1200);

    count("/a", 1);
    ngx_exiting = 1;
    pass(1000);
    ok(nsent == 1, "exiting: at once");
    answer(0, NGX_MCDS_NOT_FOUND, NULL);
    count("/b", 1);
    answer(1, NGX_MCDS_OK, NULL);
    pass(1);
    ok(nsent == 3, "exiting: what came meanwhile, too");
    answer(2, NGX_MCDS_DOWN, NULL);
    ok(!top.state->give.timer_set && top.state->current == NULL,
       "exiting: does not hold up the worker when memcached is down");
    ngx_exiting = 0;
}


static void
test_keys(void)
{
    char  key[300];

    start(1200);

    ngx_memset(key, 'x', sizeof(key));
    key[256] = '\0';
    count("", 1);
    count(key, 1);
    ok(top.state->current == NULL, "keys: neither empty nor too long");

    key[255] = '\0';
    count(key, 1);
    ok(top.state->current && top.state->current->n == 1, "keys: 255 bytes");
    ok(top.state->current->total == 1, "keys: counted");
}


static void
test_read(void)
{
    ngx_uint_t            i;
    ngx_mcds_value_t     *value;
    ngx_mcds_top_wait_t  *wait;

    start(1205);

    ok(ngx_mcds_top_list(&top) == NULL, "read: nothing is known");
    ok(ngx_mcds_top_read(&top, waiter, NULL, &wait) == NGX_AGAIN,
       "read: waits");
    ok(nsent == 6 && is(0, NGX_MCDS_GET, "t:top:115")
       && is(5, NGX_MCDS_GET, "t:top:120"), "read: all slots, at once");

    value = stored("/a", 2);

    for (i = 0; i < 6; i++) {
        answer(i, i % 2 ? NGX_MCDS_OK : NGX_MCDS_NOT_FOUND, value);
    }

    ngx_mcds_value_unref(value);

    ok(calls == 1, "read: once");
    ok(in_list("/a") == 6 && top.state->list.total == 6, "read: added up");
    ok(ngx_mcds_top_read(&top, waiter, NULL, &wait) == NGX_OK && nsent == 6,
       "read: known for a while");

    pass(5000);
    ok(ngx_mcds_top_read(&top, waiter, NULL, &wait) == NGX_AGAIN,
       "read: then again");
    ngx_mcds_top_cancel(wait);

    for (i = 6; i < nsent; i++) {
        answer(i, NGX_MCDS_NOT_FOUND, NULL);
    }

    ok(calls == 1, "read: canceled");
}


static void
test_read_ended(void)
{
    ngx_uint_t            i, n;
    ngx_mcds_value_t     *a, *b;
    ngx_mcds_top_wait_t  *wait;

    start(1226);                  /* in slot 122, an interval of 10 s, which
                                     began at 1220 */

    a = stored("/a", 1);
    b = stored("/b", 10);

    (void) ngx_mcds_top_read(&top, waiter, NULL, &wait);

    for (i = 0; i < 6; i++) {
        answer(i, NGX_MCDS_OK, a);
    }

    ok(in_list("/a") == 6, "ended: all of them");

    pass(5000);                   /* the clock is at 1231, in slot 123: the
                                     list shows the slots 118 to 123 */
    n = nsent;
    (void) ngx_mcds_top_read(&top, waiter, NULL, &wait);
    ok(nsent == n + 3 && is(n, NGX_MCDS_GET, "t:top:121")
       && is(n + 2, NGX_MCDS_GET, "t:top:123"),
       "ended: not read again, but for a while");

    for (i = n; i < nsent; i++) {
        answer(i, NGX_MCDS_OK, b);
    }

    ok(in_list("/a") == 3 && in_list("/b") == 30,
       "ended: the oldest is dropped, the others stay");

    pass(5000);                   /* at 1236, the counts of slot 121, which
                                     ended at 1220, are final; until now,
                                     workers could add to slot 120 what
                                     memcached had not accepted before */
    n = nsent;
    (void) ngx_mcds_top_read(&top, waiter, NULL, &wait);
    ok(nsent == n + 4 && is(n, NGX_MCDS_GET, "t:top:120"),
       "ended: read once more after the next slot");

    answer(n, NGX_MCDS_OK, a);

    for (i = n + 1; i < nsent; i++) {
        answer(i, NGX_MCDS_OK, b);
    }

    ok(in_list("/a") == 3 && in_list("/b") == 30,
       "ended: while the present slot goes on");

    pass(5000);
    n = nsent;
    (void) ngx_mcds_top_read(&top, waiter, NULL, &wait);
    ok(nsent == n + 3 && is(n, NGX_MCDS_GET, "t:top:122"),
       "ended: and then not again");

    for (i = n; i < nsent; i++) {
        answer(i, NGX_MCDS_OK, b);
    }

    ok(in_list("/a") == 2 && in_list("/b") == 40, "ended: so it goes on");

    pass(60000);
    n = nsent;
    (void) ngx_mcds_top_read(&top, waiter, NULL, &wait);

    for (i = n; i < nsent; i++) {
        answer(i, NGX_MCDS_NOT_FOUND, NULL);
    }

    ok(in_list("/a") == 0 && in_list("/b") == 0, "ended: all is over");

    ngx_mcds_value_unref(a);
    ngx_mcds_value_unref(b);
}


/*
 * Other workers add counts to a slot that is over, as memcached did not accept
 * them before: the list has them soon, and also those of the last moment.
 */

static void
test_read_late(void)
{
    ngx_uint_t            i, n;
    ngx_mcds_value_t     *a, *b;
    ngx_mcds_top_wait_t  *wait;

    top.window = 3600;            /* slots of 600 s */
    start(6020);                  /* 20 s after the end of slot 9 */

    a = stored("/a", 1);
    b = stored("/b", 10);

    (void) ngx_mcds_top_read(&top, waiter, NULL, &wait);

    for (i = 0; i < 6; i++) {
        answer(i, NGX_MCDS_OK, a);
    }

    ok(in_list("/a") == 6, "late: all of them");

    pass(55000);
    n = nsent;
    (void) ngx_mcds_top_read(&top, waiter, NULL, &wait);
    ok(nsent == n + 1 && is(n, NGX_MCDS_GET, "t:top:10"),
       "late: only the present slot for a while");
    answer(n, NGX_MCDS_OK, a);

    pass(5000);
    n = nsent;
    (void) ngx_mcds_top_read(&top, waiter, NULL, &wait);
    ok(nsent == n + 2 && is(n, NGX_MCDS_GET, "t:top:9"),
       "late: the slot that is over now and then");
    answer(n, NGX_MCDS_OK, b);
    answer(n + 1, NGX_MCDS_OK, a);
    ok(in_list("/a") == 5 && in_list("/b") == 10, "late: it has new counts");

    pass(5000);
    n = nsent;
    (void) ngx_mcds_top_read(&top, waiter, NULL, &wait);
    ok(nsent == n + 1, "late: not each time");
    answer(n, NGX_MCDS_TIMEOUT, NULL);

    pass(55000);
    n = nsent;
    (void) ngx_mcds_top_read(&top, waiter, NULL, &wait);
    answer(n, NGX_MCDS_TIMEOUT, NULL);
    answer(n + 1, NGX_MCDS_OK, a);
    ok(in_list("/a") == 5 && in_list("/b") == 10,
       "late: a failed attempt loses nothing");

    pass(550000);                 /* the clock is at 6690: slot 10 has ended,
                                     too, more than 15 s ago */
    n = nsent;
    (void) ngx_mcds_top_read(&top, waiter, NULL, &wait);
    ok(nsent == n + 3 && is(n, NGX_MCDS_GET, "t:top:9"),
       "late: once more after the end of the next slot");

    for (i = n; i < nsent; i++) {
        answer(i, NGX_MCDS_OK, b);
    }

    ok(in_list("/a") == 3 && in_list("/b") == 30, "late: the last counts");

    pass(60000);
    n = nsent;
    (void) ngx_mcds_top_read(&top, waiter, NULL, &wait);
    ok(nsent == n + 2 && is(n, NGX_MCDS_GET, "t:top:10"),
       "late: and never again");

    top.window = 60;
    start(1205);
    ngx_mcds_value_unref(a);
    ngx_mcds_value_unref(b);
}


/*
 * The worker builds a new list of the most frequent keys: each turn of the
 * event loop adds the counts of one interval of time.  Until the new list is
 * complete, the previous list is shown.
 */

static void
test_read_turns(void)
{
    ngx_uint_t            i, n;
    ngx_mcds_value_t     *a, *b;
    ngx_mcds_top_wait_t  *wait;

    start(1226);

    a = stored("/a", 1);
    b = stored("/b", 10);

    (void) ngx_mcds_top_read(&top, waiter, NULL, &wait);

    apart = 1;

    for (i = 0; i < 6; i++) {
        answer(i, NGX_MCDS_OK, a);
    }

    ok(calls == 0 && in_list("/a") == 0, "turns: nothing yet");
    ok(ngx_mcds_top_read(&top, waiter, NULL, &wait) == NGX_AGAIN
       && nsent == 6, "turns: who asks meanwhile waits, too");
    ok(turns() == 6 + 2, "turns: one for each slot");
    ok(calls == 2 && in_list("/a") == 6, "turns: all of them");

    pass(1);
    top.flush = 0;
    n = nsent;
    (void) ngx_mcds_top_read(&top, waiter, NULL, &wait);
    top.flush = 5000;

    for (i = n; i < nsent; i++) {
        answer(i, NGX_MCDS_OK, b);
    }

    ok(in_list("/a") == 6 && in_list("/b") == 0,
       "turns: what was shown before, so long");
    ok(turns() == nsent - n + 1, "turns: what has ended is kept");
    ok(in_list("/b") == 10 * (nsent - n), "turns: and now");

    (void) ngx_mcds_top_read(&top, waiter, NULL, &wait);
    pass(5000);
    (void) ngx_mcds_top_read(&top, waiter, NULL, &wait);

    for (i = n + 2; i < nsent; i++) {
        answer(i, NGX_MCDS_OK, b);
    }

    ngx_mcds_top_exit(&top);
    ok(ngx_queue_empty(&ngx_posted_next_events), "turns: left at exit");

    apart = 0;
    ngx_mcds_value_unref(a);
    ngx_mcds_value_unref(b);
}


static void
test_read_failed(void)
{
    ngx_uint_t            i, n;
    ngx_mcds_value_t     *a;
    ngx_mcds_top_wait_t  *wait;

    start(1205);

    (void) ngx_mcds_top_read(&top, waiter, NULL, &wait);

    for (i = 0; i < 6; i++) {
        answer(i, NGX_MCDS_TIMEOUT, NULL);
    }

    ok(calls == 1 && ngx_mcds_top_list(&top) == NULL,
       "failed: still nothing is known");
    ok(ngx_mcds_top_read(&top, waiter, NULL, &wait) == NGX_OK && nsent == 6,
       "failed: nobody waits again, for a while");

    pass(5000);
    (void) ngx_mcds_top_read(&top, waiter, NULL, &wait);
    n = nsent;

    a = stored("/a", 1);

    for (i = 6; i < n; i++) {
        answer(i, i % 2 ? NGX_MCDS_OK : NGX_MCDS_DOWN, a);
    }

    ok(in_list("/a") == 3, "failed: what there is is shown");

    pass(5000);
    (void) ngx_mcds_top_read(&top, waiter, NULL, &wait);

    for (i = n; i < nsent; i++) {
        answer(i, NGX_MCDS_DOWN, NULL);
    }

    ok(in_list("/a") == 3, "failed: and kept");

    ngx_mcds_value_unref(a);
}


static void
test_read_waits(void)
{
    ngx_uint_t            i;
    ngx_mcds_top_wait_t  *wait;

    start(1205);

    for (i = 0; i < 5; i++) {
        (void) ngx_mcds_top_read(&top, waiter, NULL, &wait);
    }

    ok(nsent == 6, "waits: asked once for all");

    pass(9000);

    for (i = 0; i < 6; i++) {
        answer(i, NGX_MCDS_TIMEOUT, NULL);
    }

    ok(calls == 5, "waits: all are called");

    /*
     * the worker has read the list of the most frequent keys, and calls the
     * handler waiter(); from inside of this call, waiter() asks for the list
     * again, and the worker sends new reads
     */

    pass(5000);
    (void) ngx_mcds_top_read(&top, waiter, &top, &wait);
    top.flush = 0;

    for (i = 6; i < 12; i++) {
        answer(i, NGX_MCDS_NOT_FOUND, NULL);
    }

    top.flush = 5000;
    ok(calls == 6 && nsent == 12 + 2, "waits: from the handler");

    ngx_mcds_top_exit(&top);
    ok(top.state == NULL, "waits: left at exit");
}


static void
test_reader(void)
{
    ngx_uint_t  i, n;

    start(1200);

    ok(top.state->reader.timer_set && top.state->reader.cancelable,
       "reader: begins with the worker");

    top.state->reader.handler(&top.state->reader);
    ok(nsent == 6, "reader: reads");

    pass(3);

    for (i = 0; i < 6; i++) {
        answer(i, NGX_MCDS_NOT_FOUND, NULL);
    }

    nsent = 0;

    for (n = 0, i = 0; i < 24; i++) {
        pass(5000 - 3);
        (void) ngx_mcds_top_list(&top);
        top.state->reader.handler(&top.state->reader);

        n += (nsent > 0);

        pass(3);                  /* memcached answers after 3 ms */

        while (nsent) {
            answer(--nsent, NGX_MCDS_NOT_FOUND, NULL);
        }
    }

    ok(n == 24, "reader: as often as flush when it is looked at");

    for (n = 0, i = 0; i < 48; i++) {
        pass(5000);
        top.state->reader.handler(&top.state->reader);

        n += (nsent > 0);

        while (nsent) {
            answer(--nsent, NGX_MCDS_NOT_FOUND, NULL);
        }
    }

    ok(n == 11 + 3, "reader: once in a minute when it is not, %d", (int) n);
}


static void
start(time_t now)
{
    ngx_uint_t  i;

    ngx_mcds_top_exit(&top);

    for (i = 0; i < SENT; i++) {
        ngx_mcds_value_unref(sent[i].value);
        sent[i].value = NULL;
    }

    nsent = 0;
    calls = 0;

    ngx_cached_time->sec = now;
    ngx_current_msec = now * 1000;

    ngx_mcds_top_start(&top);
}


static void
pass(ngx_msec_t ms)
{
    ngx_event_t           *ev;
    ngx_msec_t             end;
    ngx_mcds_top_state_t  *state;

    state = top.state;
    end = ngx_current_msec + ms;

    for ( ;; ) {
        ev = state->update.event.timer_set ? &state->update.event
                                           : &state->give;

        if (!ev->timer_set || ev->timer.key > end) {
            break;
        }

        ngx_current_msec = ngx_max(ev->timer.key, ngx_current_msec);
        ngx_cached_time->sec = ngx_current_msec / 1000;

        ev->timer_set = 0;
        ev->handler(ev);
    }

    ngx_current_msec = end;
    ngx_cached_time->sec = end / 1000;
}


static void
count(char *key, uint64_t n)
{
    ngx_str_t  s;

    s.data = (u_char *) key;
    s.len = ngx_strlen(key);

    ngx_mcds_top_add(&top, &s, n);
}


static void
answer(ngx_uint_t i, ngx_uint_t rc, ngx_mcds_value_t *value)
{
    ngx_mcds_result_t  result;

    ngx_memzero(&result, sizeof(ngx_mcds_result_t));

    result.rc = rc;
    result.cas = 42;

    if (rc == NGX_MCDS_OK && value) {
        result.has = NGX_MCDS_VALUE|NGX_MCDS_CAS;
        result.value = value;
        result.data = value->data;
        result.len = value->len;
    }

    sent[i].handler(sent[i].data, &result);

    if (!apart) {
        (void) turns();
    }
}


/*
 * Runs the event loop until nothing is left to do; returns the number of turns.
 */

static ngx_uint_t
turns(void)
{
    ngx_uint_t  n;

    for (n = 0; top.state && top.state->adder.posted; n++) {
        ngx_delete_posted_event(&top.state->adder);
        top.state->adder.handler(&top.state->adder);
    }

    return n;
}


static ngx_mcds_value_t *
stored(char *key, uint64_t n)
{
    ngx_str_t          s;
    ngx_mcds_value_t  *value;
    ngx_mcds_topk_t   *summary;

    s.data = (u_char *) key;
    s.len = ngx_strlen(key);

    summary = ngx_mcds_topk_create(10, &test_log);
    ngx_mcds_topk_add(summary, &s, n);
    value = ngx_mcds_topk_encode(summary, 1000, &test_log);
    ngx_free(summary);

    return value;
}


static uint64_t
in_value(ngx_mcds_value_t *value, char *key)
{
    size_t              len;
    uint64_t            n;
    ngx_mcds_ranked_t  *ranked;
    ngx_mcds_topk_t    *summary;

    len = ngx_strlen(key);

    summary = ngx_mcds_topk_create(200, &test_log);
    (void) ngx_mcds_topk_decode(summary, value->data, value->len,
                                &test_log);

    ranked = ngx_mcds_topk_find(summary,
                                ngx_mcds_topk_hash((u_char *) key, len),
                                (u_char *) key, len);
    n = ranked ? ranked->count : 0;

    ngx_free(summary);

    return n;
}


static uint64_t
in_list(char *key)
{
    ngx_uint_t            i;
    ngx_mcds_top_list_t  *list;

    list = ngx_mcds_top_list(&top);

    for (i = 0; list && i < list->n; i++) {
        if (list->ranked[i]->len == ngx_strlen(key)
            && ngx_memcmp(list->ranked[i]->data, key, list->ranked[i]->len)
               == 0)
        {
            return list->ranked[i]->count;
        }
    }

    return 0;
}


static ngx_uint_t
is(ngx_uint_t i, ngx_uint_t verb, char *key)
{
    return sent[i].verb == verb && ngx_strcmp(sent[i].key, key) == 0;
}


static void
waiter(void *data)
{
    ngx_mcds_top_wait_t  *wait;

    calls++;

    if (data) {
        (void) ngx_mcds_top_read(data, waiter, NULL, &wait);
    }
}


/*
 * Copyright (C) mcds authors
 *
 * Updates of an item by compare-and-swap.  The test replaces the client of
 * memcached and the timers: it keeps a single item, or chooses failures.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_update.c"
#include "tap.h"


#define SENT     64
#define WRITERS  5
#define ROUNDS   2000


typedef struct {
    ngx_mcds_request_t    req;
    ngx_mcds_op_t        *op;          /* NULL: the operation has ended */
    ngx_uint_t            server;      /* 1 + the index of the server; 0: the
                                          server of the key */
    u_char                text[64];
    size_t                len;
} sent_t;


typedef struct {
    ngx_mcds_update_t     update;
    uint64_t              more;        /* what the writer adds to the number
                                          in the item */
    uint64_t              added;
    ngx_uint_t            busy;
    u_char                text[32];
} writer_t;


static void test_add(void);
static void test_set(void);
static void test_request(void);
static void test_conflict(void);
static void test_race(void);
static void test_vanished(void);
static void test_gone(void);
static void test_bound(void);
static void test_force(void);
static void test_waits(void);
static void test_done(void);
static void test_abort(void);
static void test_read_failed(void);
static void test_write_failed(void);
static void test_cancel(void);
static void test_server(void);
static void test_own_read(void);
static void test_again(void);
static void test_handler(void);
static void test_writers(void);
static void start(ngx_int_t rc);
static void request(sent_t *s, ngx_mcds_request_t *req, ngx_mcds_op_t *op,
    ngx_uint_t server);
static ngx_int_t edit(void *data, ngx_mcds_result_t *now,
    ngx_mcds_request_t *req);
static ngx_int_t edit_frees(void *data, ngx_mcds_result_t *now,
    ngx_mcds_request_t *req);
static void handler(void *data, ngx_mcds_result_t *result);
static void handler_frees(void *data, ngx_mcds_result_t *result);
static void handler_anew(void *data, ngx_mcds_result_t *result);
static void handler_again(void *data, ngx_mcds_result_t *result);
static ngx_msec_t waits(void *data, ngx_uint_t tries);
static void own_read(void *data);
static ngx_int_t writer_edit(void *data, ngx_mcds_result_t *now,
    ngx_mcds_request_t *req);
static void writer_handler(void *data, ngx_mcds_result_t *result);
static void serve(void);
static void serve_one(ngx_uint_t i);
static void fail(ngx_uint_t rc);
static void tell(ngx_uint_t i, ngx_mcds_result_t *result);
static void put(char *text);
static ngx_uint_t holds(char *text);
static ngx_uint_t is(ngx_uint_t i, ngx_uint_t verb, uint64_t cas);


/* the only item that memcached has in these tests */

static u_char             item[64];
static size_t             item_len;
static uint64_t           item_cas;    /* 0: there is no item */
static uint64_t           last_cas;

static sent_t             sent[SENT];
static ngx_uint_t         nsent;

static ngx_mcds_update_t  u;
static ngx_int_t          says;        /* the result that edit() returns */
static ngx_mcds_value_t  *value;       /* the value that edit() stores; NULL: it
                                          stores a text */
static ngx_uint_t         edits, ends, reads;
static ngx_uint_t         seen, ended; /* last result codes that edit() and
                                          handler() were given */
static uint64_t           seen_cas;
static ngx_uint_t         waited;      /* the number of failed tries that the
                                          last call of waits() was given */
static ngx_msec_t         wait_for;
static ngx_uint_t         declined;
static ngx_log_t          test_log;


ngx_rbtree_t              ngx_event_timer_rbtree;


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
    request(&sent[nsent], req, op, 0);
}


void
ngx_mcds_submit_to(ngx_mcds_pool_t *pool, ngx_uint_t n,
    ngx_mcds_request_t *req, ngx_mcds_op_t *op)
{
    request(&sent[nsent], req, op, n + 1);
}


void
ngx_mcds_cancel(ngx_mcds_op_t *op)
{
    ngx_uint_t  i;

    for (i = 0; i < nsent; i++) {
        if (sent[i].op == op) {
            sent[i].op = NULL;
        }
    }

    op->link = NULL;
}


int
main(void)
{
    test_add();
    test_set();
    test_request();
    test_conflict();
    test_race();
    test_vanished();
    test_gone();
    test_bound();
    test_force();
    test_waits();
    test_done();
    test_abort();
    test_read_failed();
    test_write_failed();
    test_cancel();
    test_server();
    test_own_read();
    test_again();
    test_handler();
    test_writers();

    start(NGX_OK);

    return done_testing();
}


static void
test_add(void)
{
    start(NGX_OK);

    value = ngx_mcds_value_create(16, &test_log);
    ngx_memcpy(value->data, "new", 3);
    value->len = 3;

    ngx_mcds_update(&u);
    ok(nsent == 1 && is(0, NGX_MCDS_GET, 0) && edits == 0, "add: reads first");

    serve();
    ok(edits == 1 && seen == NGX_MCDS_NOT_FOUND && ends == 0,
       "add: the edit sees that there is none");
    ok(nsent == 2 && is(1, NGX_MCDS_ADD, 0), "add: an add");
    ok(value->refs == 1, "add: the reference of the value was taken over");

    ngx_mcds_value_unref(value);
    value = NULL;

    serve();
    ok(ends == 1 && ended == NGX_MCDS_OK && holds("new"), "add: done");
    ok(nsent == 2 && u.tries == 0, "add: once");
}


static void
test_set(void)
{
    start(NGX_OK);
    put("old");

    ngx_mcds_update(&u);
    serve();
    ok(seen == NGX_MCDS_OK && seen_cas == item_cas, "set: the edit sees it");
    ok(is(1, NGX_MCDS_SET, item_cas), "set: with the CAS that was read");

    serve();
    ok(ends == 1 && ended == NGX_MCDS_OK && holds("edited"), "set: done");
}


static void
test_request(void)
{
    ngx_mcds_request_t  *req;

    start(NGX_OK);
    put("old");

    ngx_str_set(&u.get.suffix, ":suffix");
    u.get.place = 7;
    u.get.want = NGX_MCDS_VALUE|NGX_MCDS_CAS|NGX_MCDS_TTL;
    u.get.limit = 5;
    u.get.by_key = 1;
    u.get.single = 1;
    u.get.page = 1;
    u.get.movable = 1;
    u.get.bulk = 1;
    u.get.every = 1;

    ngx_mcds_update(&u);
    req = &sent[0].req;
    ok(req->limit == 5 && req->bulk && req->want == u.get.want
       && req->place == 7 && req->suffix.len == 7,
       "request: the read is the caller's");

    serve();
    req = &sent[1].req;
    ok(req->key.len == 1 && req->key.data[0] == 'k'
       && req->suffix.len == 7
       && ngx_memcmp(req->suffix.data, ":suffix", 7) == 0
       && req->place == 7 && req->by_key && req->single && req->page
       && req->movable, "request: the write goes to the same item");
    ok(req->limit == 0 && !req->bulk && !req->every && req->want == 0
       && req->ttl == 30,
       "request: and has of the rest what the edit says");
    serve();
}


static void
test_conflict(void)
{
    start(NGX_OK);
    put("old");

    ngx_mcds_update(&u);
    serve();
    put("other");
    serve();
    ok(nsent == 3 && is(2, NGX_MCDS_GET, 0) && edits == 1 && ends == 0,
       "conflict: reads again");
    ok(holds("other"), "conflict: the other's is left");

    serve();
    ok(edits == 2 && is(3, NGX_MCDS_SET, item_cas) && u.tries == 1,
       "conflict: the edit judges what is there now");

    serve();
    ok(ends == 1 && ended == NGX_MCDS_OK && holds("edited"),
       "conflict: done then");
}


static void
test_race(void)
{
    start(NGX_OK);

    ngx_mcds_update(&u);
    serve();
    put("other");
    serve();
    ok(is(2, NGX_MCDS_GET, 0) && holds("other"), "race: two add");

    serve();
    ok(seen == NGX_MCDS_OK && is(3, NGX_MCDS_SET, item_cas),
       "race: the second one sets what the first one has made");

    serve();
    ok(ends == 1 && holds("edited"), "race: done then");
}


static void
test_vanished(void)
{
    start(NGX_OK);
    put("old");

    ngx_mcds_update(&u);
    serve();
    item_cas = 0;
    serve();
    ok(is(2, NGX_MCDS_GET, 0) && ends == 0, "vanished: reads again");

    serve();
    ok(seen == NGX_MCDS_NOT_FOUND && is(3, NGX_MCDS_ADD, 0),
       "vanished: then adds");

    serve();
    ok(ends == 1 && holds("edited"), "vanished: done then");
}


static void
test_gone(void)
{
    start(NGX_OK);
    put("old");

    u.gone = 1;

    ngx_mcds_update(&u);
    serve();
    item_cas = 0;
    serve();
    ok(ends == 1 && ended == NGX_MCDS_NOT_FOUND && nsent == 2,
       "gone: one that was deleted ends it");

    put("old");

    ngx_mcds_update(&u);
    serve();
    put("other");
    serve();
    ok(nsent == 5 && is(4, NGX_MCDS_GET, 0), "gone: a change does not");

    serve();
    serve();
    ok(ends == 2 && ended == NGX_MCDS_OK, "gone: done then");
}


static void
test_bound(void)
{
    ngx_uint_t  i;

    start(NGX_OK);
    put("old");

    ngx_mcds_update(&u);

    for (i = 0; i < 4; i++) {
        ok(ends == 0 && u.tries == i, "bound: try %d", (int) i);
        serve();
        put("other");
        serve();
    }

    ok(edits == 4 && ends == 1 && ended == NGX_MCDS_EXISTS && nsent == 8,
       "bound: not without end");

    u.max = 0;

    ngx_mcds_update(&u);
    serve();
    put("another");
    serve();
    ok(edits == 5 && ends == 2 && ended == NGX_MCDS_EXISTS && nsent == 10,
       "bound: once, if it is so");
}


static void
test_force(void)
{
    ngx_uint_t  i;

    start(NGX_OK);

    u.force = 1;

    ngx_mcds_update(&u);

    for (i = 0; i < 3; i++) {
        serve();
        ok(sent[nsent - 1].req.verb != NGX_MCDS_SET
           || sent[nsent - 1].req.cas, "force: not in try %d", (int) i);

        put("other");
        serve();
    }

    serve();
    ok(is(nsent - 1, NGX_MCDS_SET, 0), "force: the last one");

    put("another");
    serve();
    ok(ends == 1 && ended == NGX_MCDS_OK && holds("edited"),
       "force: replaces whatever is there");

    u.max = 0;
    item_cas = 0;

    ngx_mcds_update(&u);
    serve();
    ok(is(nsent - 1, NGX_MCDS_SET, 0), "force: also if there is no item");
    serve();
    ok(ends == 2 && ended == NGX_MCDS_OK, "force: done");
}


static void
test_waits(void)
{
    start(NGX_OK);
    put("old");

    u.again = waits;
    wait_for = 20;

    ngx_mcds_update(&u);
    serve();
    put("other");
    serve();
    ok(waited == 1 && u.event.timer_set && nsent == 2,
       "waits: before the second try");
    ok(u.event.timer.key == ngx_current_msec + 20 && !u.event.cancelable,
       "waits: for so long, and the worker does not exit before");

    u.event.timer_set = 0;
    u.event.handler(&u.event);
    ok(nsent == 3 && is(2, NGX_MCDS_GET, 0), "waits: then it reads");

    wait_for = 0;

    serve();
    put("another");
    serve();
    ok(waited == 2 && !u.event.timer_set && nsent == 5,
       "waits: not, if it is so");

    serve();
    serve();
    ok(ends == 1 && ended == NGX_MCDS_OK && waited == 2, "waits: done then");
}


static void
test_done(void)
{
    ngx_mcds_update_t  *heap;

    start(NGX_DONE);
    put("old");

    ngx_mcds_update(&u);
    serve();
    ok(edits == 1 && nsent == 1 && ends == 0, "done: nothing is written");

    ngx_mcds_update_read(&u);
    ok(nsent == 2 && is(1, NGX_MCDS_GET, 0) && u.tries == 0,
       "done: it may read anew");
    serve();

    heap = ngx_calloc(sizeof(ngx_mcds_update_t), &test_log);
    *heap = u;
    heap->edit = edit_frees;
    heap->data = heap;

    ngx_mcds_update(heap);
    serve();
    ok(edits == 3 && nsent == 3 && ends == 0, "done: and may be freed");
}


static void
test_abort(void)
{
    start(NGX_ABORT);
    put("old");

    ngx_mcds_update(&u);
    serve();
    ok(is(1, NGX_MCDS_DELETE, item_cas), "abort: deletes what was read");

    put("other");
    serve();
    ok(is(2, NGX_MCDS_GET, 0) && holds("other"), "abort: and nothing else");

    serve();
    serve();
    ok(ends == 1 && ended == NGX_MCDS_OK && item_cas == 0, "abort: done then");
}


static void
test_read_failed(void)
{
    ngx_uint_t  i;

    static ngx_uint_t  rcs[] = { NGX_MCDS_BUSY, NGX_MCDS_DOWN,
                                 NGX_MCDS_TIMEOUT, NGX_MCDS_CLOSED,
                                 NGX_MCDS_SERVER_ERROR };

    for (i = 0; i < sizeof(rcs) / sizeof(rcs[0]); i++) {
        start(NGX_DONE);

        ngx_mcds_update(&u);
        fail(rcs[i]);
        ok(edits == 1 && seen == rcs[i] && nsent == 1 && ends == 0,
           "read failed: the edit decides: %s", ngx_mcds_strerror(rcs[i]));
    }

    start(NGX_OK);
    put("old");

    ngx_mcds_update(&u);
    fail(NGX_MCDS_TOO_LARGE);
    ok(is(1, NGX_MCDS_SET, 0), "read failed: it may be replaced");

    put("other");
    serve();
    ok(ends == 1 && ended == NGX_MCDS_OK && holds("edited"),
       "read failed: done then");
}


static void
test_write_failed(void)
{
    ngx_uint_t  i;

    static ngx_uint_t  rcs[] = { NGX_MCDS_BUSY, NGX_MCDS_DOWN,
                                 NGX_MCDS_TIMEOUT, NGX_MCDS_CLOSED,
                                 NGX_MCDS_TOO_LARGE, NGX_MCDS_SERVER_ERROR };

    for (i = 0; i < sizeof(rcs) / sizeof(rcs[0]); i++) {
        start(NGX_OK);

        ngx_mcds_update(&u);
        serve();
        fail(rcs[i]);
        ok(edits == 1 && ends == 1 && ended == rcs[i] && nsent == 2,
           "write failed: not again: %s", ngx_mcds_strerror(rcs[i]));
    }
}


static void
test_cancel(void)
{
    start(NGX_OK);
    put("old");

    u.again = waits;
    wait_for = 20;

    ngx_mcds_update(&u);
    ngx_mcds_update_cancel(&u);
    serve();
    ok(edits == 0 && ends == 0 && nsent == 1, "cancel: while it reads");

    ngx_mcds_update(&u);
    serve();
    ngx_mcds_update_cancel(&u);
    put("other");
    serve();
    ok(edits == 1 && ends == 0 && nsent == 3 && waited == 0,
       "cancel: while it writes: not again");

    ngx_mcds_update(&u);
    serve();
    put("another");
    serve();
    ok(u.event.timer_set, "cancel: while it waits");
    ngx_mcds_update_cancel(&u);
    ok(!u.event.timer_set && ends == 0, "cancel: no timer is left");

    ngx_mcds_update_cancel(&u);
    ok(ends == 0, "cancel: one that is not under way");

    ngx_mcds_update(&u);
    ok(u.tries == 0, "cancel: used anew");
    serve();
    serve();
    ok(ends == 1 && ended == NGX_MCDS_OK && holds("edited"), "cancel: done");
}


static void
test_server(void)
{
    start(NGX_OK);
    put("old");

    u.server = 3;

    ngx_mcds_update(&u);
    serve();
    put("other");
    serve();
    serve();
    serve();
    ok(nsent == 4 && sent[0].server == 3 && sent[1].server == 3
       && sent[2].server == 3 && sent[3].server == 3 && ends == 1,
       "server: all goes to that one");
}


static void
test_own_read(void)
{
    start(NGX_OK);
    put("old");

    u.read = own_read;
    u.edit = NULL;

    ngx_mcds_update(&u);
    ok(reads == 1 && nsent == 1 && is(0, NGX_MCDS_SET, item_cas),
       "own read: and a write");

    put("other");
    serve();
    ok(reads == 2 && nsent == 2 && is(1, NGX_MCDS_SET, item_cas)
       && u.tries == 1, "own read: again");

    serve();
    ok(ends == 1 && ended == NGX_MCDS_OK && holds("own"), "own read: done");

    /* an update that begins with a write, without a read of the item */

    start(NGX_OK);

    own_read(NULL);
    ok(nsent == 1 && is(0, NGX_MCDS_ADD, 0), "write: without a read");

    put("other");
    serve();
    ok(is(1, NGX_MCDS_GET, 0), "write: if another was faster it reads");

    serve();
    serve();
    ok(edits == 1 && ends == 1 && ended == NGX_MCDS_OK && holds("edited"),
       "write: done");
}


static void
test_again(void)
{
    ngx_uint_t  i;

    start(NGX_OK);
    put("old");

    u.handler = handler_again;
    u.again = waits;

    ngx_mcds_update(&u);

    for (i = 0; i < 4; i++) {
        ok(declined == 0 && waited == i, "again: by the handler, %d", (int) i);
        serve();
        fail(NGX_MCDS_TOO_LARGE);
    }

    ok(declined == 1 && edits == 4 && waited == 3 && nsent == 8,
       "again: not without end");
}


static void
test_handler(void)
{
    ngx_mcds_update_t  *heap;

    start(NGX_OK);
    put("old");

    heap = ngx_calloc(sizeof(ngx_mcds_update_t), &test_log);
    *heap = u;
    heap->handler = handler_frees;
    heap->data = heap;

    ngx_mcds_update(heap);
    serve();
    serve();
    ok(ends == 1 && ended == NGX_MCDS_OK, "handler: may free the update");

    u.handler = handler_anew;

    ngx_mcds_update(&u);
    serve();
    serve();
    ok(ends == 2 && nsent == 5 && is(4, NGX_MCDS_GET, 0),
       "handler: may use it anew");

    ngx_mcds_update_cancel(&u);
}


/*
 * Writers add to the number in an item, in any order; at times, the test
 * deletes the item.  Only a deletion loses additions, and no addition is
 * counted twice.
 */

static void
test_writers(void)
{
    char        text[32];
    uint64_t    expected, gone;
    ngx_uint_t  i, n, round;
    writer_t   *w;

    static writer_t  writers[WRITERS];

    start(NGX_OK);
    srandom(tap_seed(1));

    expected = 0;
    gone = 0;

    for (i = 0; i < WRITERS; i++) {
        w = &writers[i];
        w->update = u;
        w->update.edit = writer_edit;
        w->update.handler = writer_handler;
        w->update.data = w;
        w->update.max = 1000;
    }

    for (round = 0; round < ROUNDS; round++) {

        i = random() % WRITERS;

        if (!writers[i].busy && (nsent == 0 || round < ROUNDS - 100)) {
            writers[i].busy = 1;
            writers[i].more = 1 + random() % 9;
            ngx_mcds_update(&writers[i].update);
        }

        if (random() % 50 == 0 && item_cas) {
            gone += atoi((char *) item);
            item_cas = 0;
        }

        n = random() % nsent;

        if (sent[n].op) {
            serve_one(n);
        }

        for (i = 0, n = 0; i < nsent; i++) {
            if (sent[i].op) {
                sent[n] = sent[i];
                sent[n].op->link = (ngx_mcds_op_t **) &sent[n];
                n++;
            }
        }

        nsent = n;
    }

    for (i = 0; i < 10000 && nsent; i++) {
        if (sent[0].op) {
            serve_one(0);
        }

        ngx_memmove(&sent[0], &sent[1], --nsent * sizeof(sent_t));
    }

    for (i = 0; i < WRITERS; i++) {
        expected += writers[i].added;
        ok(!writers[i].busy && writers[i].added, "writers: %d has ended",
           (int) i);
    }

    ngx_sprintf((u_char *) text, "%uL%Z", expected - gone);
    ok(item_cas == 0 ? expected == gone : holds(text),
       "writers: the sum is right");
}


static void
start(ngx_int_t rc)
{
    ngx_memzero(&u, sizeof(ngx_mcds_update_t));

    ngx_str_set(&u.get.key, "k");
    u.get.verb = NGX_MCDS_GET;
    u.edit = edit;
    u.handler = handler;
    u.max = 3;

    says = rc;
    item_cas = 0;
    nsent = 0;
    edits = 0;
    ends = 0;
    reads = 0;
    waited = 0;
    wait_for = 0;
    declined = 0;
}


static void
request(sent_t *s, ngx_mcds_request_t *req, ngx_mcds_op_t *op,
    ngx_uint_t server)
{
    if (nsent == SENT || ngx_mcds_op_active(op)) {
        printf("# too many commands\n");
        exit(1);
    }

    nsent++;

    s->req = *req;
    s->op = op;
    s->server = server;

    s->len = req->value ? req->value->len : req->text.len;

    if (s->len) {
        ngx_memcpy(s->text, req->value ? req->value->data : req->text.data,
                   s->len);
    }

    op->link = (ngx_mcds_op_t **) s;
}


static ngx_int_t
edit(void *data, ngx_mcds_result_t *now, ngx_mcds_request_t *req)
{
    edits++;
    seen = now->rc;
    seen_cas = now->cas;

    req->ttl = 30;

    if (value) {
        req->value = ngx_mcds_value_ref(value);

    } else {
        ngx_str_set(&req->text, "edited");
    }

    return says;
}


static ngx_int_t
edit_frees(void *data, ngx_mcds_result_t *now, ngx_mcds_request_t *req)
{
    edits++;
    ngx_free(data);

    return NGX_DONE;
}


static void
handler(void *data, ngx_mcds_result_t *result)
{
    ends++;
    ended = result->rc;
}


static void
handler_frees(void *data, ngx_mcds_result_t *result)
{
    handler(data, result);
    ngx_free(data);
}


static void
handler_anew(void *data, ngx_mcds_result_t *result)
{
    handler(data, result);
    ngx_mcds_update(&u);
}


static void
handler_again(void *data, ngx_mcds_result_t *result)
{
    if (ngx_mcds_update_again(&u) != NGX_OK) {
        declined++;
    }
}


static ngx_msec_t
waits(void *data, ngx_uint_t tries)
{
    waited = tries;

    return wait_for;
}


static void
own_read(void *data)
{
    ngx_mcds_request_t  req;

    reads++;

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    ngx_str_set(&req.key, "k");
    ngx_str_set(&req.text, "own");
    req.verb = item_cas ? NGX_MCDS_SET : NGX_MCDS_ADD;
    req.cas = item_cas;

    ngx_mcds_update_write(&u, &req);
}


static ngx_int_t
writer_edit(void *data, ngx_mcds_result_t *now, ngx_mcds_request_t *req)
{
    uint64_t   n;
    writer_t  *w;

    w = data;
    n = (now->rc == NGX_MCDS_OK) ? strtoull((char *) now->data, NULL, 10) : 0;

    req->text.data = w->text;
    req->text.len = ngx_sprintf(w->text, "%uL", n + w->more) - w->text;

    return NGX_OK;
}


static void
writer_handler(void *data, ngx_mcds_result_t *result)
{
    writer_t *w = data;

    if (result->rc == NGX_MCDS_OK) {
        w->added += w->more;
    }

    w->busy = 0;
}


/* Answers the last command as memcached, unless it was cancelled. */

static void
serve(void)
{
    serve_one(nsent - 1);
}


static void
serve_one(ngx_uint_t i)
{
    sent_t             *s;
    ngx_mcds_result_t   result;

    s = &sent[i];

    ngx_memzero(&result, sizeof(ngx_mcds_result_t));

    if (s->req.verb == NGX_MCDS_GET) {

        if (item_cas) {
            result.cas = item_cas;
            result.data = item;
            result.len = item_len;
            result.has = NGX_MCDS_VALUE|NGX_MCDS_CAS;

        } else {
            result.rc = NGX_MCDS_NOT_FOUND;
        }

    } else if (s->req.verb == NGX_MCDS_ADD && item_cas) {
        result.rc = NGX_MCDS_NOT_STORED;

    } else if (s->req.verb != NGX_MCDS_ADD && s->req.cas && item_cas == 0) {
        result.rc = NGX_MCDS_NOT_FOUND;

    } else if (s->req.cas && s->req.cas != item_cas) {
        result.rc = NGX_MCDS_EXISTS;

    } else if (s->req.verb == NGX_MCDS_DELETE) {
        item_cas = 0;

    } else {
        ngx_memcpy(item, s->text, s->len);
        item[s->len] = '\0';
        item_len = s->len;
        item_cas = ++last_cas;
    }

    tell(i, &result);
}


static void
fail(ngx_uint_t rc)
{
    ngx_mcds_result_t  result;

    ngx_memzero(&result, sizeof(ngx_mcds_result_t));
    result.rc = rc;

    tell(nsent - 1, &result);
}


static void
tell(ngx_uint_t i, ngx_mcds_result_t *result)
{
    ngx_mcds_op_t  *op;

    op = sent[i].op;

    if (op) {
        sent[i].op = NULL;
        op->link = NULL;
        op->handler(op->data, result);
    }
}


static void
put(char *text)
{
    item_len = ngx_strlen(text);
    ngx_memcpy(item, text, item_len + 1);
    item_cas = ++last_cas;
}


static ngx_uint_t
holds(char *text)
{
    return item_cas && item_len == ngx_strlen(text)
           && ngx_memcmp(item, text, item_len) == 0;
}


static ngx_uint_t
is(ngx_uint_t i, ngx_uint_t verb, uint64_t cas)
{
    return sent[i].req.verb == verb && sent[i].req.cas == cas;
}


/*
 * Copyright (C) mcds authors
 *
 * Operations and their ends in any order: pools of one server and of replicas,
 * with both protocols; operations that are submitted, cancelled, and submitted
 * again from inside of handlers; requests that are destroyed; connections that
 * are refused, slow, full, closed; replies that are good, wrong, late, missing;
 * time that passes; a worker that exits.  Each operation lives in memory of its
 * own, which is freed as soon as the client must have forgotten it.
 *
 * The first byte chooses the pool.  Of each other byte the low bits are what
 * happens, and the high ones to what.
 */


#include "io.h"
#include "slow.h"
#include "ngx_mcds_conn.h"


#define CALLS     12
#define LINKS     32
#define SERVERS   3
#define ROUNDS    400
#define AGAIN     64


/* an operation, and what its handler does */

typedef struct {
    ngx_mcds_op_t       op;
    ngx_mcds_request_t  req;
    ngx_uint_t          slot;
    ngx_uint_t          act;
} call_t;


/* a connection, as the memcached server sees it */

typedef struct {
    ngx_connection_t   *c;
    u_char             *got;
    size_t              len;
    size_t              size;
    size_t              pos;            /* position in got of the first command
                                           without a reply */
    size_t              room;
    u_char              in[1024];
    size_t              in_len;
    ngx_uint_t          eof;
} link_t;


typedef struct {
    u_char             *p[16];
    size_t              len[16];
    ngx_uint_t          n;
} words_t;


static void start(ngx_uint_t kind);
static ngx_mcds_pool_t *create(ngx_uint_t servers, ngx_uint_t replicas,
    ngx_uint_t classic);
static void step(u_char byte);
static void submit(ngx_uint_t slot, ngx_uint_t what);
static void send_call(call_t *call);
static void request(ngx_mcds_request_t *req, ngx_uint_t what);
static ngx_uint_t newer(ngx_str_t *key, ngx_mcds_result_t *a,
    ngx_mcds_result_t *b);
static void handler(void *data, ngx_mcds_result_t *result);
static void forget(ngx_uint_t slot);
static ngx_uint_t under_way(void);

static ngx_int_t net_connect(ngx_connection_t *c);
static ssize_t net_recv(ngx_connection_t *c, u_char *buf, size_t size);
static ssize_t net_send(ngx_connection_t *c, u_char *buf, size_t size);
static void net_close(ngx_connection_t *c);
static link_t *find(ngx_connection_t *c);
static link_t *choose(ngx_uint_t n);
static void read_event(link_t *l);
static void write_event(link_t *l);
static void greet(void);
static ngx_uint_t command(link_t *l, words_t *words);
static void reply(link_t *l, ngx_uint_t how);
static void say(link_t *l, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static void reply_meta(link_t *l, words_t *w, ngx_uint_t how);
static void echo(link_t *l, words_t *w, ngx_uint_t from, ngx_uint_t how);
static void reply_classic(link_t *l, words_t *w, ngx_uint_t how);
static int word(words_t *w, ngx_uint_t i, const char *text);


static ngx_mcds_pool_t   *pools[6];
static ngx_mcds_pool_t   *pool;
static ngx_mcds_value_t  *value;
static call_t            *calls[CALLS];
static link_t             links[LINKS];
static ngx_uint_t         nlinks, inside, again, refuse, slow;


int
LLVMFuzzerTestOneInput(const u_char *data, size_t size)
{
    size_t              i;
    ngx_uint_t          n;
    ngx_mcds_server_t  *server;

    if (size < 2 || size > 512) {
        return 0;
    }

    start(data[0] % 6);

    for (i = 1; i < size; i++) {
        step(data[i]);
    }

    io_posted();

    if (data[0] & 0x80) {

        /* the worker exits; callers then cancel operations without a result */

        ngx_mcds_pool_exit(pool);

        for (n = 0; n < CALLS; n++) {
            forget(n);
        }

    } else {
        refuse = 1;

        for (n = 0; under_way() && n < ROUNDS; n++) {
            io_later(50);
        }

        must(under_way() == 0);
        ngx_mcds_pool_exit(pool);
    }

    io_posted();

    for (n = 0; n < LINKS; n++) {
        must(links[n].c == NULL);
        free(links[n].got);
    }

    server = pool->servers.elts;

    for (n = 0; n < pool->servers.nelts; n++) {
        server[n].down = 0;
        server[n].fails = 0;
        server[n].unsupported = 0;

        ngx_mcds_cancel(&server[n].probe_op);
    }

    must(ngx_event_timer_rbtree.root == ngx_event_timer_rbtree.sentinel);
    must(ngx_queue_empty(&ngx_posted_events));
    must(value->refs == 1);

    return 0;
}


static void
start(ngx_uint_t kind)
{
    io_reset();

    io.connect = net_connect;
    io.recv = net_recv;
    io.send = net_send;
    io.close = net_close;

    memset(links, 0, sizeof(links));
    memset(calls, 0, sizeof(calls));
    nlinks = 0;
    again = 0;
    refuse = 0;
    slow = 0;

    if (pools[0] == NULL) {
        pools[0] = create(1, 1, 0);
        pools[1] = create(1, 1, 1);
        pools[2] = create(2, 2, 0);
        pools[3] = create(3, 2, 0);
        pools[4] = create(3, 3, 0);
        pools[5] = create(2, 2, 1);

        value = ngx_mcds_value_create(8, ngx_cycle->log);
        value->len = 4;
        memcpy(value->data, "page", 4);
    }

    pool = pools[kind];
}


static ngx_mcds_pool_t *
create(ngx_uint_t servers, ngx_uint_t replicas, ngx_uint_t classic)
{
    ngx_str_t         name, string;
    ngx_conf_t        cf;
    ngx_mcds_pool_t  *p;

    static char      *lists[] = {
        "--SERVER=127.0.0.1:1",
        "--SERVER=127.0.0.1:1 --SERVER=127.0.0.1:2",
        "--SERVER=127.0.0.1:1 --SERVER=127.0.0.1:2 --SERVER=127.0.0.1:3"
    };

    memset(&cf, 0, sizeof(cf));
    cf.log = ngx_cycle->log;
    cf.pool = ngx_create_pool(4096, cf.log);

    ngx_str_set(&name, "main");
    string.data = (u_char *) lists[servers - 1];
    string.len = strlen(lists[servers - 1]);

    p = ngx_mcds_pool_create(cf.pool, &name);
    must(ngx_mcds_pool_config(&cf, p, &string) == NULL);

    p->replicas = replicas;
    p->classic = classic;
    p->timeout = 100;
    p->connect_timeout = 60;
    p->fail_timeout = 200;
    p->max_fails = 3;
    p->max_pending = 8;

    must(ngx_mcds_pool_init(&cf, p) == NULL);

    return p;
}


static void
step(u_char byte)
{
    ngx_uint_t  n;

    n = byte >> 3;

    switch (byte & 7) {

    case 0:
    case 1:
        submit(n % CALLS, n * 7 + (byte & 1) + again);
        break;

    case 2:
        forget(n % CALLS);
        break;

    case 3:
        io_posted();
        greet();
        io_later(n & 1 ? n : 0);
        break;

    case 4:
    case 5:
        reply(choose(n & 3), (n >> 2) + (byte & 1) * 8);
        break;

    case 6:
        io_later(n * 4);
        break;

    default: /* 7: the network changes */

        switch (n & 7) {

        case 0:
            refuse = !refuse;
            break;

        case 1:
            slow = !slow;
            break;

        case 2:
            choose(n >> 3)->eof = 1;
            read_event(choose(n >> 3));
            break;

        case 3:
            choose(n >> 3)->room = 0;
            break;

        case 4:
            choose(n >> 3)->room = 7;
            write_event(choose(n >> 3));
            break;

        case 5:
            choose(n >> 3)->room = 4096;
            write_event(choose(n >> 3));
            break;

        case 6:
            say(choose(n >> 3), "ERROR\r\n");
            read_event(choose(n >> 3));
            break;

        default:
            for (n = 0; n < CALLS; n++) {
                forget(n);
            }
        }
    }
}


static void
submit(ngx_uint_t slot, ngx_uint_t what)
{
    call_t  *call;

    if (calls[slot]) {
        return;
    }

    call = calloc(1, sizeof(call_t));
    calls[slot] = call;

    call->op.handler = handler;
    call->op.data = call;
    call->slot = slot;
    call->act = what / 3;

    request(&call->req, what);
    send_call(call);
}


/*
 * submits an operation; the strings of its request are freed when the call
 * returns
 */

static void
send_call(call_t *call)
{
    u_char              *key, *text, *old;
    ngx_mcds_request_t   req;

    req = call->req;

    key = (u_char *) strndup((char *) req.key.data, req.key.len);
    text = (u_char *) strndup("12345", req.text.len);
    old = (u_char *) strndup("17", req.old.len);

    req.key.data = key;
    req.text.data = text;
    req.old.data = old;

    inside++;

    if (call->act % 16 == 15) {
        ngx_mcds_submit_to(pool, call->slot % pool->servers.nelts, &req,
                           &call->op);

    } else {
        ngx_mcds_submit(pool, &req, &call->op);
    }

    if (call->act % 32 == 9) {
        ngx_mcds_submit(pool, &req, NULL);
    }

    inside--;

    free(key);
    free(text);
    free(old);

    must(ngx_mcds_op_active(&call->op));
}


static void
request(ngx_mcds_request_t *req, ngx_uint_t what)
{
    static char  *keys[] = { "a", "b", "counter" };

    static ngx_uint_t  verbs[] = {
        NGX_MCDS_GET, NGX_MCDS_INCR, NGX_MCDS_SET, NGX_MCDS_ADD,
        NGX_MCDS_DELETE, NGX_MCDS_APPEND, NGX_MCDS_DECR, NGX_MCDS_TOUCH
    };

    memset(req, 0, sizeof(ngx_mcds_request_t));

    req->verb = verbs[what % 8];
    req->key.data = (u_char *) keys[what % 3];
    req->key.len = strlen(keys[what % 3]);
    req->delta = 1;
    req->initial = 1;
    req->single = (what % 5 == 1);
    req->every = (what % 7 == 1 && req->verb != NGX_MCDS_GET);
    req->update = (what % 11 == 1);

    switch (req->verb) {

    case NGX_MCDS_GET:
        req->want = NGX_MCDS_VALUE|NGX_MCDS_CAS|NGX_MCDS_FLAGS;
        req->number = (what % 4 == 1);
        req->newer = (what % 9 < 4 && !req->number) ? newer : NULL;
        req->bulk = (what % 13 == 1);
        break;

    case NGX_MCDS_INCR:
    case NGX_MCDS_DECR:
        req->known = what % 23;
        break;

    case NGX_MCDS_SET:
    case NGX_MCDS_ADD:
        req->want = (what % 6 < 3) ? NGX_MCDS_CAS : 0;

        if (what % 10 < 4) {
            req->value = value;

        } else {
            req->text.len = 1 + what % 5;
        }

        break;

    case NGX_MCDS_APPEND:
        req->text.len = 1 + what % 5;
        break;

    default:
        break;
    }

    if ((req->verb == NGX_MCDS_SET || req->verb == NGX_MCDS_DELETE)
        && what % 4 < 2)
    {
        req->cas = 1 + what % 3 + ((uint64_t) (what % 2) << 62);
        req->old.len = (what % 8 < 4) ? 2 : 0;
        req->within = (what % 16 < 8) ? 20 : 0;
    }
}


static ngx_uint_t
newer(ngx_str_t *key, ngx_mcds_result_t *a, ngx_mcds_result_t *b)
{
    must(a->data != NULL && b->data != NULL);

    return a->len < b->len || (a->len && a->data[0] < b->data[0]);
}


static void
handler(void *data, ngx_mcds_result_t *result)
{
    call_t *call = data;

    size_t      i;
    ngx_uint_t  sum;

    must(inside == 0);
    must(calls[call->slot] == call);
    must(!ngx_mcds_op_active(&call->op));
    must(result->rc < NGX_MCDS_RC_LAST);

    for (i = 0, sum = 0; i < result->len; i++) {
        sum += result->data[i];
    }

    must(sum == 0 || (result->has & NGX_MCDS_VALUE));

    if (call->act % 4 == 1 && again++ < AGAIN) {
        send_call(call);
        return;
    }

    if (call->act % 8 == 2) {
        forget((call->slot + 1) % CALLS);
    }

    if (call->act % 8 == 6 && again++ < AGAIN) {
        submit((call->slot + 5) % CALLS, call->act);
    }

    calls[call->slot] = NULL;
    free(call);
}


static void
forget(ngx_uint_t slot)
{
    if (calls[slot]) {
        ngx_mcds_cancel(&calls[slot]->op);
        must(!ngx_mcds_op_active(&calls[slot]->op));

        free(calls[slot]);
        calls[slot] = NULL;
    }
}


static ngx_uint_t
under_way(void)
{
    ngx_uint_t  i, n;

    for (i = 0, n = 0; i < CALLS; i++) {
        n += (calls[i] != NULL);
    }

    return n;
}


static ngx_int_t
net_connect(ngx_connection_t *c)
{
    link_t  *l;

    if (refuse) {
        return NGX_DECLINED;
    }

    l = &links[nlinks % LINKS];

    if (l->c) {
        return NGX_BUSY;
    }

    nlinks++;

    free(l->got);
    memset(l, 0, sizeof(link_t));

    l->c = c;
    l->room = 4096;

    return slow ? NGX_AGAIN : NGX_OK;
}


static ssize_t
net_recv(ngx_connection_t *c, u_char *buf, size_t size)
{
    link_t  *l;

    l = find(c);

    if (l->in_len == 0) {
        c->read->ready = 0;
        return l->eof ? 0 : NGX_AGAIN;
    }

    size = ngx_min(size, l->in_len);

    memcpy(buf, l->in, size);
    memmove(l->in, l->in + size, l->in_len - size);
    l->in_len -= size;

    c->read->ready = 1;

    return size;
}


static ssize_t
net_send(ngx_connection_t *c, u_char *buf, size_t size)
{
    link_t  *l;

    l = find(c);

    if (l->eof) {
        return NGX_ERROR;
    }

    if (l->room == 0) {
        return NGX_AGAIN;
    }

    size = ngx_min(size, l->room);
    l->room -= size;

    if (l->len + size > l->size) {
        l->size = (l->len + size) * 2;
        l->got = realloc(l->got, l->size);
    }

    memcpy(l->got + l->len, buf, size);
    l->len += size;

    c->sent += size;

    return size;
}


static void
net_close(ngx_connection_t *c)
{
    link_t  *l;

    l = find(c);

    if (l) {
        l->c = NULL;
    }
}


static link_t *
find(ngx_connection_t *c)
{
    ngx_uint_t  i;

    for (i = 0; i < LINKS; i++) {
        if (links[i].c == c) {
            return &links[i];
        }
    }

    return NULL;
}


/* returns the nth open connection, or an unused one if there are fewer */

static link_t *
choose(ngx_uint_t n)
{
    ngx_uint_t      i;

    static link_t   none;

    for (i = 0; i < LINKS; i++) {
        if (links[i].c && n-- == 0) {
            return &links[i];
        }
    }

    memset(&none, 0, sizeof(none));

    return &none;
}


static void
read_event(link_t *l)
{
    ngx_connection_t  *c;

    c = l->c;

    if (c) {
        c->read->ready = 1;
        c->read->handler(c->read);
        io_posted();
    }
}


static void
write_event(link_t *l)
{
    ngx_connection_t  *c;

    c = l->c;

    if (c) {
        c->write->ready = 1;
        c->write->handler(c->write);
        io_posted();
    }
}


/*
 * completes the connections that are being made, and replies to the first
 * commands on them
 */

static void
greet(void)
{
    link_t      *l;
    words_t      w;
    size_t       pos;
    ngx_uint_t   i;

    for (i = 0; i < LINKS; i++) {
        l = &links[i];

        if (l->c && !l->c->write->ready && l->len == 0 && l->room) {
            write_event(l);
        }

        if (l->c == NULL) {
            continue;
        }

        pos = l->pos;

        if (command(l, &w) && word(&w, 0, "version")) {
            say(l, "VERSION 1.6.18\r\n");
            pos = l->pos;

            if (command(l, &w) && word(&w, 0, "mn")) {
                say(l, "MN\r\n");
                pos = l->pos;
            }

            l->pos = pos;
            read_event(l);
            continue;
        }

        l->pos = pos;
    }
}


/*
 * splits the next command on a connection into words; returns 0 if it has not
 * arrived as a whole, with its data
 */

static ngx_uint_t
command(link_t *l, words_t *w)
{
    u_char  *p, *last;
    size_t   len;

    if (l->pos == l->len) {
        return 0;
    }

    p = l->got + l->pos;
    last = memchr(p, '\n', l->len - l->pos);

    if (last == NULL) {
        return 0;
    }

    len = last + 1 - p;
    w->n = 0;

    while (p < last - 1 && w->n < 16) {

        if (*p == ' ') {
            p++;
            continue;
        }

        w->p[w->n] = p;

        while (p < last - 1 && *p != ' ') {
            p++;
        }

        w->len[w->n] = p - w->p[w->n];
        w->n++;
    }

    must(w->n > 0);

    if (word(w, 0, "ms")) {
        len += atoi((char *) w->p[2]) + 2;

    } else if (word(w, 0, "set") || word(w, 0, "add") || word(w, 0, "cas")
               || word(w, 0, "append"))
    {
        len += atoi((char *) w->p[4]) + 2;
    }

    if (l->pos + len > l->len) {
        return 0;
    }

    l->pos += len;

    return 1;
}


static void
reply(link_t *l, ngx_uint_t how)
{
    words_t  w;

    if (l->c == NULL || !command(l, &w)) {
        return;
    }

    if (how == 15) {

        /* no reply to this command: the client may get the next one for it */

        return;
    }

    if (pool->classic) {
        reply_classic(l, &w, how);

    } else {
        reply_meta(l, &w, how);
    }

    read_event(l);
}


static void
say(link_t *l, const char *fmt, ...)
{
    va_list  args;

    va_start(args, fmt);

    l->in_len += vsnprintf((char *) l->in + l->in_len,
                           sizeof(l->in) - l->in_len, fmt, args);

    va_end(args);

    if (l->in_len >= sizeof(l->in)) {
        l->in_len = sizeof(l->in) - 1;
    }
}


static void
reply_meta(link_t *l, words_t *w, ngx_uint_t how)
{
    ngx_uint_t   i, valued;

    static char *stored[] = { "HD", "HD", "NS", "EX", "NF", "HD", "NS", "HD" };

    if (word(w, 0, "version")) {
        say(l, "VERSION 1.6.18\r\n");
        return;
    }

    if (word(w, 0, "mn")) {
        say(l, "MN\r\n");
        return;
    }

    if (word(w, 0, "stats")) {
        say(l, "END\r\n");
        return;
    }

    if (how == 14) {
        say(l, "SERVER_ERROR out of memory\r\n");
        return;
    }

    if (word(w, 0, "ms")) {
        say(l, "%s", stored[how % 8]);
        echo(l, w, 3, how);
        return;
    }

    if (word(w, 0, "md")) {
        say(l, "%s", how % 4 == 3 ? "NF" : how % 4 == 2 ? "EX" : "HD");
        echo(l, w, 2, how);
        return;
    }

    if (how % 4 == 3) {
        say(l, "%s", word(w, 0, "mg") ? "EN" : "NF");
        echo(l, w, 2, how);
        return;
    }

    for (i = 2, valued = 0; i < w->n; i++) {
        valued |= word(w, i, "v");
    }

    if (!valued) {
        say(l, "HD");
        echo(l, w, 2, how);
        return;
    }

    say(l, "VA 2");
    echo(l, w, 2, how);
    say(l, "%02d\r\n", (int) (10 + how));
}


static void
echo(link_t *l, words_t *w, ngx_uint_t from, ngx_uint_t how)
{
    ngx_uint_t  i;

    for (i = from; i < w->n; i++) {

        switch (w->p[i][0]) {

        case 'k':
            say(l, " k%.*s", (int) w->len[1], w->p[1]);
            break;

        case 'O':
            say(l, " %.*s", (int) w->len[i], w->p[i]);
            break;

        case 'c':
            say(l, " c%d", (int) (1 + how % 3));
            break;

        case 't':
            if (w->len[i] == 1) {
                say(l, " t%d", how % 2 ? -1 : 60);
            }

            break;

        case 'f':
            say(l, " f%d", (int) (how % 3));
            break;

        default:
            break;
        }
    }

    say(l, "\r\n");
}


static void
reply_classic(link_t *l, words_t *w, ngx_uint_t how)
{
    if (word(w, 0, "version")) {
        say(l, "VERSION 1.6.18\r\n");

    } else if (how == 14) {
        say(l, "SERVER_ERROR out of memory\r\n");

    } else if (word(w, 0, "get") || word(w, 0, "gets")) {

        if (how % 4 == 3) {
            say(l, "END\r\n");

        } else {
            say(l, "VALUE %.*s %d 2 %d\r\n%s\r\nEND\r\n", (int) w->len[1],
                w->p[1], (int) (how % 3), (int) (1 + how % 3),
                how % 2 ? "17" : "12");
        }

    } else if (word(w, 0, "delete")) {
        say(l, how % 4 == 3 ? "NOT_FOUND\r\n" : "DELETED\r\n");

    } else if (word(w, 0, "touch")) {
        say(l, how % 4 == 3 ? "NOT_FOUND\r\n" : "TOUCHED\r\n");

    } else if (word(w, 0, "incr") || word(w, 0, "decr")) {
        say(l, how % 4 == 3 ? "NOT_FOUND\r\n" : "17\r\n");

    } else if (word(w, 0, "cas")) {
        say(l, how % 4 == 3 ? "EXISTS\r\n"
               : how % 4 == 2 ? "NOT_FOUND\r\n" : "STORED\r\n");

    } else {
        say(l, how % 4 == 3 ? "NOT_STORED\r\n" : "STORED\r\n");
    }
}


static int
word(words_t *w, ngx_uint_t i, const char *text)
{
    return w->len[i] == strlen(text)
           && memcmp(w->p[i], text, w->len[i]) == 0;
}

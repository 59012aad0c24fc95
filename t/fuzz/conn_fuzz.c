
/*
 * Copyright (C) mcds authors
 *
 * A connection with operations on it, and a server that says anything, in
 * pieces of all sizes: each operation ends once, with just the answer that a
 * slow reader of the same bytes finds for it, or with none.
 *
 * A byte of 0x80 and above stands for a whole reply to the next operation,
 * good or bent, so that the fuzzer need not guess opaques.
 */


#include "io.h"
#include "slow.h"
#include "ngx_mcds_conn.h"


#define OPS      8
#define LIMIT    64
#define LARGE    50000
#define SKIP     (16 * 1024 * 1024)

#define WIDE     0x08
#define CANCEL   0x10
#define ALL      0x20


typedef struct {
    ngx_uint_t          verb;
    ngx_uint_t          want;
    uint32_t            opaque;
    char                key[8];
    size_t              limit;
    ngx_mcds_op_t       op;
    ngx_uint_t          canceled;
    ngx_uint_t          begun;
    ngx_uint_t          sent;

    /* the result that the operation got, and the expected one */

    ngx_uint_t          calls;
    ngx_mcds_result_t   result;
    u_char             *data;

    ngx_uint_t          answered;
    ngx_uint_t          rc;
    slow_reply_t        reply;
    const u_char       *value;
} one_t;


static void start(void);
static void submit(ngx_uint_t n, const u_char *kinds);
static void handler(void *data, ngx_mcds_result_t *result);
static int stores(one_t *one);
static void learn(void);
static void expand(const u_char *data, size_t size);
static void expand_one(u_char token);
static void put(const char *fmt, ...)
    __attribute__((format(printf, 1, 2)));
static void put_value(size_t len);
static void predict(void);
static size_t predict_greeting(void);
static ngx_uint_t predict_refusal(slow_reply_t *reply, size_t pos);
static const u_char *find(const u_char *data, size_t len, u_char ch);
static int predict_one(one_t *one, slow_reply_t *reply);
static void deliver(uint32_t random);
static void piece(size_t len);
static void compare(void);


static ngx_mcds_pool_t  *pool;

static one_t        ones[OPS];
static ngx_uint_t   nones, next, again;
static int          bare;

static u_char      *stream;
static size_t       stream_len, stream_size;

static ngx_uint_t   rest;              /* the expected result code of operations
                                          that get no reply */
static ngx_uint_t   ends;              /* 1: the client must close the
                                          connection before the server does */
static ngx_uint_t   left_early;        /* 1: the client closes the connection,
                                          and opens another one */

static char         full[] = "ERROR Too many open connections";


int
LLVMFuzzerTestOneInput(const u_char *data, size_t size)
{
    uint32_t            random;
    ngx_uint_t          n, i, closed;
    ngx_mcds_server_t  *server;

    if (size < 4) {
        return 0;
    }

    start();

    n = 1 + data[0] % OPS;

    if (size < 3 + n) {
        return 0;
    }

    bare = (data[1] & 1);
    again = (data[1] & 2) ? 3 : 0;
    io.slow = (data[1] & 4) != 0;

    if (data[1] & 0x40) {
        ngx_str_set(&pool->user, "user");
        ngx_str_set(&pool->password, "word");
    }

    if ((data[1] & 0x18) == 0x18) {
        io.room = sizeof("set mcds:auth 0 -1 9\r\nuser word\r\n"
                         "version\r\nmn\r\n") + data[1] / 32 * 20;
    }

    random = data[2] * 2654435761U + 1;

    submit(n, data + 3);
    io_posted();

    if (io.slow) {
        must(io.connection != NULL && io.out_len == 0);
        io.connection->write->ready = 1;
        io.connection->write->handler(io.connection->write);
        io_posted();
    }

    stream_len = 0;
    put_value(0);

    if (!(data[1] & 0x20) || io.room < sizeof(io.out)) {
        put("%sVERSION 1.6.%d\r\nMN\r\n",
            pool->user.len ? "STORED\r\n" : "", bare ? 14 : 18);
    }

    expand(data + 3 + n, size - 3 - n);

    deliver(random);

    closed = (io.connection == NULL);

    io.eof = 1;

    while (io.connection) {
        io.connection->read->handler(io.connection->read);
        io_posted();
    }

    for (i = 0; i < nones; i++) {
        must(ones[i].calls == !ones[i].canceled);
    }

    if (!(data[1] & 2)) {
        learn();
        predict();
        must(left_early || closed == ends);
        compare();
    }

    for (i = 0; i < OPS; i++) {
        free(ones[i].data);
        ones[i].data = NULL;
    }

    ngx_mcds_pool_exit(pool);

    must(io.connection == NULL);

    server = pool->servers.elts;
    server->down = 0;
    server->fails = 0;
    server->unsupported = 0;

    must(ngx_event_timer_rbtree.root == ngx_event_timer_rbtree.sentinel);

    return 0;
}


static void
start(void)
{
    ngx_str_t   name, string;
    ngx_conf_t  cf;

    io_reset();

    memset(ones, 0, sizeof(ones));
    nones = 0;
    next = 0;

    if (pool) {
        ngx_str_null(&pool->user);
        return;
    }

    memset(&cf, 0, sizeof(cf));
    cf.log = ngx_cycle->log;
    cf.pool = ngx_create_pool(4096, cf.log);

    ngx_str_set(&name, "main");
    ngx_str_set(&string, "--SERVER=127.0.0.1");

    pool = ngx_mcds_pool_create(cf.pool, &name);
    must(ngx_mcds_pool_config(&cf, pool, &string) == NULL);
    must(ngx_mcds_pool_init(&cf, pool) == NULL);

    pool->max_fails = 0;
}


static void
submit(ngx_uint_t n, const u_char *kinds)
{
    one_t                *one;
    ngx_uint_t            i;
    ngx_mcds_request_t    req;
    ngx_mcds_exchange_t  *ex;

    static ngx_uint_t     verbs[] = {
        NGX_MCDS_GET, NGX_MCDS_GET, NGX_MCDS_INCR, NGX_MCDS_SET,
        NGX_MCDS_ADD, NGX_MCDS_DELETE, NGX_MCDS_APPEND, NGX_MCDS_DECR
    };

    for (i = 0; i < n; i++) {
        one = &ones[i];

        memset(&req, 0, sizeof(req));
        sprintf(one->key, "k%d", (int) (kinds[i] >> 6));

        req.verb = verbs[kinds[i] % 8];
        req.key.data = (u_char *) one->key;
        req.key.len = strlen(one->key);
        req.limit = (kinds[i] & WIDE) ? LARGE : LIMIT;

        if (kinds[i] & ALL) {
            req.want = NGX_MCDS_CAS|NGX_MCDS_TTL;
        }

        if (req.verb == NGX_MCDS_GET) {
            req.want |= (kinds[i] & 7) ? 0 : NGX_MCDS_VALUE;

        } else if (req.verb == NGX_MCDS_SET
                   || req.verb == NGX_MCDS_ADD
                   || req.verb == NGX_MCDS_APPEND)
        {
            ngx_str_set(&req.text, "text");
        }

        one->verb = req.verb;
        one->want = req.want;
        one->limit = req.limit;

        if (req.verb == NGX_MCDS_INCR || req.verb == NGX_MCDS_DECR) {
            one->want |= NGX_MCDS_VALUE;
        }

        one->op.handler = handler;
        one->op.data = one;

        ngx_mcds_submit(pool, &req, &one->op);
        must(one->op.link != NULL);

        ex = ngx_queue_data(one->op.link, ngx_mcds_exchange_t, op);
        one->opaque = ex->opaque;
        nones++;

        if (kinds[i] & CANCEL) {
            ngx_mcds_cancel(&one->op);
            must(!ngx_mcds_op_active(&one->op));
            one->canceled = 1;
        }
    }
}


static void
handler(void *data, ngx_mcds_result_t *result)
{
    one_t *one = data;

    ngx_mcds_request_t  req;

    one->calls++;
    one->result = *result;

    must(result->rc < NGX_MCDS_RC_LAST);
    must((result->data != NULL) == ((result->has & NGX_MCDS_VALUE) != 0));

    if (result->data) {
        one->data = malloc(result->len + 1);
        memcpy(one->data, result->data, result->len);
    }

    /* some handlers submit another operation at once */

    if (again && nones < OPS) {
        again--;
        one = &ones[nones++];

        memset(&req, 0, sizeof(req));
        req.verb = again % 2 ? NGX_MCDS_INCR : NGX_MCDS_DELETE;
        ngx_str_set(&req.key, "again");

        one->op.handler = handler;
        one->op.data = one;

        ngx_mcds_submit(pool, &req, &one->op);
        must(ngx_mcds_op_active(&one->op));
    }
}


static int
stores(one_t *one)
{
    return ngx_mcds_verb_stores(one->verb);
}


/*
 * determines which commands the client has sent on the first connection, in
 * part or as a whole
 */

static void
learn(void)
{
    u_char      *p, *last, *lf;
    ngx_uint_t   i;

    p = (io.opened > 1) ? io.first : io.out;
    last = p + ((io.opened > 1) ? io.first_len : io.out_len);

    for (i = 0; i < (pool->user.len ? 4 : 2) && p < last; i++) {
        lf = memchr(p, '\n', last - p);
        p = lf ? lf + 1 : last;
    }

    for (i = 0; i < nones; i++) {

        ones[i].begun = (p < last);

        lf = memchr(p, '\n', last - p);

        if (lf == NULL) {
            return;
        }

        p = lf + 1;

        if (stores(&ones[i])) {
            if (last - p < 6) {
                return;
            }

            must(memcmp(p, "text\r\n", 6) == 0);
            p += 6;
        }

        ones[i].sent = 1;
    }
}


static void
expand(const u_char *data, size_t size)
{
    size_t  i;

    for (i = 0; i < size; i++) {

        if (data[i] >= 0x80) {
            expand_one(data[i] & 0x7f);

        } else {
            put("%c", data[i]);
        }
    }
}


static void
expand_one(u_char token)
{
    one_t      *one;
    char        line[64];
    uint32_t    opaque;

    one = &ones[next % nones];
    opaque = one->opaque;

    switch (token >> 4) {

    case 1:
        opaque += 1;
        break;

    case 2:
        opaque -= 1;
        break;

    default:
        break;
    }

    sprintf(line, " k%s%s O%x", one->key, (token >> 4 == 3) ? "x" : "",
            opaque);

    if (token >> 4 == 4) {
        sprintf(line, " O%x", opaque);
    }

    if (token >> 4 == 5) {
        sprintf(line, " k%s", one->key);
    }

    if (token >> 4 == 6) {
        strcat(line, " c18446744073709551615 t60");
    }

    if (token >> 4 == 7) {
        sprintf(line, " kkx O%x", opaque);
    }

    next++;

    switch (token & 0xf) {

    case 0:
        put("HD%s\r\n", line);
        break;

    case 1:
        put("EN%s\r\n", line);
        break;

    case 2:
        put("NF%s\r\n", line);
        break;

    case 3:
        put("NS%s\r\n", line);
        break;

    case 4:
        put("EX%s\r\n", line);
        break;

    case 5:
        put("VA 3%s\r\n123\r\n", line);
        break;

    case 6:
        put("VA 40000%s\r\n", line);
        put_value(40000);
        put("\r\n");
        break;

    case 7:
        put("SERVER_ERROR out of memory\r\n");
        break;

    case 8:
        put("SERVER_ERROR object too large for cache\r\n");
        break;

    case 9:
        put("CLIENT_ERROR cannot increment or decrement non-numeric "
            "value\r\n");
        break;

    case 10:
        put("MN\r\n");
        break;

    case 11:
        put("VERSION 1.6.18\r\n");
        break;

    case 12:
        put("VA 0%s\r\n\r\n", line);
        break;

    case 13:
        put("VA %d%s\r\n", LIMIT, line);
        put_value(LIMIT);
        put("\r\n");
        break;

    case 14:
        put("VA %d%s\r\n", LIMIT + 1, line);
        put_value(LIMIT + 1);
        put("\r\n");
        break;

    default: /* 15 */
        put("EN\r\n");
        break;
    }
}


static void
put(const char *fmt, ...)
{
    int      n;
    va_list  args;

    put_value(0);

    va_start(args, fmt);
    n = vsnprintf((char *) stream + stream_len, 512, fmt, args);
    va_end(args);

    stream_len += n;
}


static void
put_value(size_t len)
{
    if (stream_size - stream_len < len + 512) {
        stream_size = stream_size * 2 + len + 512;
        stream = realloc(stream, stream_size);
        must(stream != NULL);
    }

    memset(stream + stream_len, 'v', len);
    stream_len += len;
}


/* computes the expected results of the operations from the server's bytes */

static void
predict(void)
{
    size_t         pos, left;
    one_t         *one;
    ngx_uint_t     i;
    slow_reply_t   reply;

    ends = 1;
    left_early = 0;
    pos = predict_greeting();

    if (pos == 0) {
        return;
    }

    for (i = 0; /* void */ ; i++) {

        if (i == nones) {
            ends = (pos != stream_len);
            rest = ends ? NGX_MCDS_PROTOCOL : NGX_MCDS_CLOSED;
            return;
        }

        slow_parse(&reply, stream + pos, stream_len - pos);

        if (reply.code == NGX_AGAIN) {
            rest = NGX_MCDS_CLOSED;
            ends = 0;
            return;
        }

        if (reply.code == NGX_OK
            && (reply.rc == NGX_MCDS_TOO_LARGE
                || reply.rc == NGX_MCDS_SERVER_ERROR)
            && !(reply.has & NGX_MCDS_OPAQUE)
            && ones[i].begun
            && !ones[i].sent
            && stores(&ones[i]))
        {
            /* the reply ends this operation; later ones are sent again */

            left_early = 1;
            return;
        }

        if (reply.code == NGX_ERROR
            || !ones[i].sent
            || !predict_one(&ones[i], &reply))
        {
            rest = NGX_MCDS_PROTOCOL;
            return;
        }

        one = &ones[i];
        one->rc = reply.rc;
        pos += reply.taken;

        if (reply.has & NGX_MCDS_VALUE) {

            left = stream_len - pos;

            if (reply.len > one->limit && reply.len > SKIP) {
                rest = NGX_MCDS_PROTOCOL;
                return;
            }

            if (left < reply.len + 2) {
                rest = NGX_MCDS_CLOSED;
                ends = 0;
                return;
            }

            one->value = stream + pos;
            pos += reply.len + 2;

            if (stream[pos - 2] != '\r' || stream[pos - 1] != '\n') {
                rest = NGX_MCDS_PROTOCOL;
                return;
            }

            if (reply.len > one->limit) {
                one->rc = NGX_MCDS_TOO_LARGE;
                one->value = NULL;
                reply.has &= ~(ngx_uint_t) NGX_MCDS_VALUE;
            }
        }

        one->reply = reply;
        one->answered = 1;
    }
}


/*
 * returns the number of bytes of the server's greeting; if it is wrong, returns
 * 0 and sets rest, the expected result code of all operations
 */

static size_t
predict_greeting(void)
{
    size_t         pos;
    const u_char  *lf;
    slow_reply_t   reply;

    pos = 0;

    if (pool->user.len) {

        lf = find(stream, stream_len, '\n');

        if (lf == NULL && stream_len < NGX_MCDS_MAX_LINE) {
            rest = NGX_MCDS_CLOSED;
            ends = 0;
            return 0;
        }

        if (lf != stream + 7 || memcmp(stream, "STORED\r", 7) != 0) {
            pos = strlen(full);

            rest = (stream_len > pos
                    && memcmp(stream, full, pos) == 0
                    && (stream[pos] < ' ' || stream[pos] > '~'))
                       ? NGX_MCDS_CLOSED : NGX_MCDS_DOWN;
            return 0;
        }

        pos = 8;
    }

    slow_parse(&reply, stream + pos, stream_len - pos);

    if (reply.code == NGX_AGAIN) {
        rest = NGX_MCDS_CLOSED;
        ends = 0;
        return 0;
    }

    if (reply.code == NGX_ERROR || !reply.version
        || slow_version(reply.text.data, reply.text.len, 1, 6, 13) != NGX_OK)
    {
        rest = predict_refusal(&reply, pos);
        return 0;
    }

    bare = (slow_version(reply.text.data, reply.text.len, 1, 6, 18)
            != NGX_OK);

    pos += reply.taken;

    slow_parse(&reply, stream + pos, stream_len - pos);

    if (reply.code == NGX_AGAIN) {
        rest = NGX_MCDS_CLOSED;
        ends = 0;
        return 0;
    }

    if (reply.code == NGX_ERROR || !reply.noop) {
        rest = predict_refusal(&reply, pos);
        return 0;
    }

    return pos + reply.taken;
}


/*
 * returns the expected result code after a wrong greeting: NGX_MCDS_CLOSED if
 * the server has too many connections, otherwise NGX_MCDS_DOWN
 */

static ngx_uint_t
predict_refusal(slow_reply_t *reply, size_t pos)
{
    u_char  *p;
    size_t   len;

    len = strlen(full);

    if (reply->code == NGX_OK) {
        return (reply->text.len == len
                && memcmp(reply->text.data, full, len) == 0)
                   ? NGX_MCDS_CLOSED : NGX_MCDS_DOWN;
    }

    /* the client reads an invalid line up to a control character */

    p = stream + pos;

    if (stream_len - pos <= len || memcmp(p, full, len) != 0) {
        return NGX_MCDS_DOWN;
    }

    p += len;

    if (p[0] < ' ' || p[0] == 0x7f) {
        return NGX_MCDS_CLOSED;
    }

    return (stream_len - pos - len >= 3 && memcmp(p, " \r\n", 3) == 0)
               ? NGX_MCDS_CLOSED : NGX_MCDS_DOWN;
}


static const u_char *
find(const u_char *data, size_t len, u_char ch)
{
    for ( /* void */ ; len; data++, len--) {
        if (*data == ch) {
            return data;
        }
    }

    return NULL;
}


/* returns 1 if the reply may be the one to this operation */

static int
predict_one(one_t *one, slow_reply_t *reply)
{
    if (reply->noop || reply->version) {
        return 0;
    }

    if (!(reply->has & NGX_MCDS_OPAQUE)) {

        switch (reply->rc) {

        case NGX_MCDS_TOO_LARGE:
        case NGX_MCDS_SERVER_ERROR:
            return 1;

        case NGX_MCDS_NOT_NUMERIC:
            return one->verb == NGX_MCDS_INCR || one->verb == NGX_MCDS_DECR;

        case NGX_MCDS_NOT_FOUND:
            return bare && one->verb == NGX_MCDS_GET;

        default:
            return 0;
        }
    }

    if (reply->opaque != one->opaque
        || !(reply->has & NGX_MCDS_KEY)
        || reply->key.len != strlen(one->key)
        || memcmp(reply->key.data, one->key, reply->key.len) != 0)
    {
        return 0;
    }

    return reply->rc != NGX_MCDS_OK
           || (reply->has & NGX_MCDS_VALUE) == (one->want & NGX_MCDS_VALUE);
}


static void
deliver(uint32_t random)
{
    u_char  *cr;
    size_t   pos, len;

    for (pos = 0; pos < stream_len && io.connection; pos += len) {
        random = random * 1103515245 + 12345;
        len = 1 + (random >> 16) % ((random >> 8) % 4 ? 30 : 20000);
        len = ngx_min(len, stream_len - pos);

        /* many pieces end between CR and LF, where mistakes are likely */

        if ((random >> 10) % 4 == 0) {
            cr = memchr(stream + pos, '\r', stream_len - pos);
            len = cr ? (size_t) (cr - stream) + 1 - pos : len;
        }

        io.in = stream + pos;
        io.in_len = len;
        piece(len);
    }
}


static void
piece(size_t len)
{
    u_char       *copy;
    ngx_event_t  *rev;

    /* an exact copy; if the connection is closed, some of it is not read */

    copy = malloc(len);
    must(copy != NULL);
    memcpy(copy, io.in, len);
    io.in = copy;

    rev = io.connection->read;
    rev->ready = 1;
    rev->handler(rev);
    io_posted();

    io.in_len = 0;
    free(copy);
}


static void
compare(void)
{
    one_t       *one;
    ngx_uint_t   i;

    for (i = 0; i < nones; i++) {
        one = &ones[i];

        if (one->canceled) {
            continue;
        }

        if (!one->answered) {
            /* the result may be DOWN if no byte of the command was sent */

            must(left_early
                 || one->result.rc == rest
                 || (!one->sent && one->result.rc == NGX_MCDS_DOWN));
            must(one->data == NULL);
            continue;
        }

        must(one->result.rc == one->rc);
        must(one->result.has == one->reply.has);
        must(one->result.cas == one->reply.cas);
        must(one->result.ttl == one->reply.ttl);

        if (one->value) {
            must(one->result.len == one->reply.len);
            must(memcmp(one->data, one->value, one->result.len) == 0);
        }
    }
}

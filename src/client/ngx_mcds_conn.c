
/*
 * Copyright (C) mcds authors
 *
 * A connection to memcached.
 *
 *          flush: connect()               writable: "version", "mn"
 *   IDLE ------------------> CONNECTING (HANDSHAKING) --> GREETING
 *     ^                                                      |
 *     |      error, timeout, doubt, idle at exit             | VERSION, MN
 *     +------------------------------------------------- READY <
 *
 * Commands are encoded into out as they are pushed and leave together from a
 * posted event at the end of the turn.  Nothing but the greeting is sent
 * before the server has shown that it speaks the meta commands: another one
 * would run the lines of a value as commands.
 *
 * Replies are matched with operations in order, and checked by opaque and
 * key.  Any doubt closes the connection and fails what waits on it, so that
 * an answer can never reach the wrong request.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_conn.h"


#define NGX_MCDS_BLOCK_SIZE       16384
#define NGX_MCDS_IN_SIZE          32768

/* user and password, and what stands around them */
#define NGX_MCDS_AUTH_SIZE        (NGX_MCDS_MAX_AUTH + 128)

/* a value above its limit is read and dropped, up to here */
#define NGX_MCDS_MAX_SKIP         (16 * 1024 * 1024)


struct ngx_mcds_block_s {
    ngx_chain_t             chain;
    ngx_buf_t               buf;
    u_char                  data[NGX_MCDS_BLOCK_SIZE];
};


static void ngx_mcds_conn_connect(ngx_mcds_conn_t *conn);
static void ngx_mcds_conn_close_socket(ngx_mcds_conn_t *conn);
static void ngx_mcds_conn_connected(ngx_mcds_conn_t *conn);
#if (NGX_SSL)
static void ngx_mcds_conn_handshaked(ngx_mcds_conn_t *conn, ngx_int_t rc);
#endif
static void ngx_mcds_conn_greet(ngx_mcds_conn_t *conn);
static void ngx_mcds_conn_ready(ngx_mcds_conn_t *conn);
static void ngx_mcds_conn_flush_handler(ngx_event_t *ev);
static void ngx_mcds_conn_timer_handler(ngx_event_t *ev);
static void ngx_mcds_conn_write_handler(ngx_event_t *wev);
static void ngx_mcds_conn_read_handler(ngx_event_t *rev);
static void ngx_mcds_conn_send(ngx_mcds_conn_t *conn);
static ssize_t ngx_mcds_conn_recv(ngx_mcds_conn_t *conn);
static ngx_int_t ngx_mcds_conn_process(ngx_mcds_conn_t *conn);
static ngx_int_t ngx_mcds_conn_process_auth(ngx_mcds_conn_t *conn);
static ngx_int_t ngx_mcds_conn_process_greeting(ngx_mcds_conn_t *conn);
static void ngx_mcds_conn_refused(ngx_mcds_conn_t *conn);
static ngx_int_t ngx_mcds_conn_match(ngx_mcds_conn_t *conn);
static ngx_int_t ngx_mcds_conn_value(ngx_mcds_conn_t *conn);
static ngx_int_t ngx_mcds_conn_skip(ngx_mcds_conn_t *conn);
static void ngx_mcds_conn_answer(ngx_mcds_conn_t *conn, u_char *data);
static void ngx_mcds_conn_doubt(ngx_mcds_conn_t *conn, char *why);
static void ngx_mcds_conn_set_timer(ngx_mcds_conn_t *conn);
static ngx_int_t ngx_mcds_conn_deadline(ngx_mcds_conn_t *conn,
    ngx_msec_t *deadline);
static void ngx_mcds_conn_set_idle(ngx_mcds_conn_t *conn);
static ngx_mcds_block_t *ngx_mcds_conn_block(ngx_mcds_conn_t *conn,
    size_t room);
static ngx_mcds_block_t *ngx_mcds_conn_value_block(ngx_mcds_conn_t *conn,
    ngx_mcds_value_t *value);
static void ngx_mcds_conn_free_block(ngx_mcds_conn_t *conn, ngx_chain_t *cl);
static u_char *ngx_mcds_conn_log_error(ngx_log_t *log, u_char *buf,
    size_t len);


static u_char  ngx_mcds_greeting[] = "version\r\nmn\r\n";


ngx_mcds_conn_t *
ngx_mcds_conn_get(ngx_mcds_server_t *server, ngx_uint_t bulk)
{
    ngx_mcds_conn_t  *conn, **place;

    place = bulk ? &server->bulk : &server->control;

    if (*place) {
        return *place;
    }

    conn = ngx_calloc(sizeof(ngx_mcds_conn_t), ngx_cycle->log);
    if (conn == NULL) {
        return NULL;
    }

    conn->in = ngx_calloc(sizeof(ngx_buf_t) + NGX_MCDS_IN_SIZE,
                          ngx_cycle->log);
    if (conn->in == NULL) {
        ngx_free(conn);
        return NULL;
    }

    conn->in->start = (u_char *) conn->in + sizeof(ngx_buf_t);
    conn->in->end = conn->in->start + NGX_MCDS_IN_SIZE;
    conn->in->pos = conn->in->start;
    conn->in->last = conn->in->start;

    conn->server = server;
    ngx_queue_init(&conn->ops);

    conn->log = *ngx_cycle->log;
    conn->log.handler = ngx_mcds_conn_log_error;
    conn->log.data = conn;
    conn->log.action = NULL;

    conn->flush.handler = ngx_mcds_conn_flush_handler;
    conn->flush.data = conn;
    conn->flush.log = &conn->log;

    conn->timer.handler = ngx_mcds_conn_timer_handler;
    conn->timer.data = conn;
    conn->timer.log = &conn->log;

    *place = conn;

    return conn;
}


void
ngx_mcds_conn_destroy(ngx_mcds_conn_t *conn)
{
    ngx_queue_t    *q;
    ngx_mcds_op_t  *op;

    while (!ngx_queue_empty(&conn->ops)) {
        q = ngx_queue_head(&conn->ops);
        op = ngx_queue_data(q, ngx_mcds_op_t, queue);
        op->handler = NULL;
        ngx_queue_remove(q);
        ngx_mcds_op_done(op, NULL);
    }

    conn->pending = 0;
    ngx_mcds_conn_close(conn, NGX_MCDS_CLOSED);

    if (conn->flush.posted) {
        ngx_delete_posted_event(&conn->flush);
    }

    if (conn->spare) {
        ngx_free(conn->spare);
    }

    ngx_free(conn->in);
    ngx_free(conn);
}


ngx_int_t
ngx_mcds_conn_push(ngx_mcds_conn_t *conn, ngx_mcds_op_t *op,
    ngx_mcds_cmd_t *cmd, ngx_str_t *text)
{
    u_char            *p;
    size_t             size;
    ngx_mcds_pool_t   *pool;
    ngx_mcds_block_t  *block, *vb;

    pool = conn->server->pool;
    size = NGX_MCDS_MAX_COMMAND + cmd->len;

    if (conn->pending >= pool->max_pending
        || (conn->pending && conn->pending_size + size
                             > pool->max_pending_size))
    {
        return NGX_BUSY;
    }

    vb = NULL;

    if (op->value) {
        vb = ngx_mcds_conn_value_block(conn, op->value);
        if (vb == NULL) {
            return NGX_ERROR;
        }
    }

    block = ngx_mcds_conn_block(conn, NGX_MCDS_MAX_COMMAND + text->len + 2);
    if (block == NULL) {
        if (vb) {
            ngx_free(vb);
        }

        return NGX_ERROR;
    }

    p = ngx_mcds_encode(block->buf.last, cmd);

    if (vb) {
        block->chain.next = &vb->chain;
        conn->last = vb;
        conn->queued += vb->buf.last - vb->buf.pos;

    } else if (cmd->verb == NGX_MCDS_SET
               || cmd->verb == NGX_MCDS_ADD
               || cmd->verb == NGX_MCDS_APPEND)
    {
        p = ngx_cpymem(p, text->data, text->len);
        *p++ = CR;
        *p++ = LF;
    }

    conn->queued += p - block->buf.last;
    block->buf.last = p;

    op->end = conn->queued;
    op->size = size;
    op->deadline = ngx_current_msec + pool->timeout;

    ngx_queue_insert_tail(&conn->ops, &op->queue);

    conn->pending++;
    conn->pending_size += size;

    if (conn->peer.connection) {
        conn->peer.connection->idle = 0;
    }

    if (!conn->flush.posted) {
        ngx_post_event(&conn->flush, &ngx_posted_events);
    }

    return NGX_OK;
}


void
ngx_mcds_conn_close(ngx_mcds_conn_t *conn, ngx_uint_t rc)
{
    ngx_chain_t        *cl;
    ngx_queue_t         ops, *q;
    ngx_mcds_op_t      *op;
    ngx_mcds_result_t   result;

    if (conn->peer.connection) {
        ngx_log_debug2(NGX_LOG_DEBUG_EVENT, &conn->log, 0,
                       "mcds close fd:%d: %s", conn->peer.connection->fd,
                       ngx_mcds_strerror(rc));

        ngx_mcds_conn_close_socket(conn);
    }

    if (conn->timer.timer_set) {
        ngx_del_timer(&conn->timer);
    }

    while (conn->out) {
        cl = conn->out;
        conn->out = cl->next;
        ngx_mcds_conn_free_block(conn, cl);
    }

    ngx_mcds_value_unref(conn->value);

    conn->state = NGX_MCDS_CONN_IDLE;
    conn->last = NULL;
    conn->value = NULL;
    conn->has_reply = 0;
    conn->authenticated = 0;
    conn->skip = 0;
    conn->queued = 0;
    conn->sent = 0;
    conn->in->pos = conn->in->start;
    conn->in->last = conn->in->start;

    if (ngx_queue_empty(&conn->ops)) {
        return;
    }

    /* a handler may push anew: that is for the next connection */

    ngx_queue_init(&ops);
    ngx_queue_add(&ops, &conn->ops);
    ngx_queue_init(&conn->ops);

    conn->pending = 0;
    conn->pending_size = 0;

    ngx_memzero(&result, sizeof(ngx_mcds_result_t));
    result.rc = rc;

    while (!ngx_queue_empty(&ops)) {
        q = ngx_queue_head(&ops);
        op = ngx_queue_data(q, ngx_mcds_op_t, queue);
        ngx_queue_remove(q);
        ngx_mcds_op_done(op, &result);
    }
}


static void
ngx_mcds_conn_close_socket(ngx_mcds_conn_t *conn)
{
    ngx_pool_t        *pool;
    ngx_connection_t  *c;

    c = conn->peer.connection;
    pool = c->pool;

#if (NGX_SSL)
    if (c->ssl) {
        ngx_mcds_ssl_close(c);
    }
#endif

    ngx_close_connection(c);
    conn->peer.connection = NULL;

    if (pool) {
        ngx_destroy_pool(pool);
    }
}


static void
ngx_mcds_conn_connect(ngx_mcds_conn_t *conn)
{
    ngx_int_t               rc;
    ngx_uint_t              level;
    ngx_connection_t       *c;
    ngx_mcds_server_t      *server;
    ngx_peer_connection_t  *pc;

    server = conn->server;
    pc = &conn->peer;

    ngx_memzero(pc, sizeof(ngx_peer_connection_t));

    pc->sockaddr = server->addr.sockaddr;
    pc->socklen = server->addr.socklen;
    pc->name = &server->addr.name;
    pc->get = ngx_event_get_peer;
    pc->log = &conn->log;
    pc->log_error = NGX_ERROR_INFO;

    /* a refused connection is the breaker's to tell, once */

    level = conn->log.log_level;

    if (!(level & NGX_LOG_DEBUG_ALL)) {
        conn->log.log_level = NGX_LOG_ALERT;
    }

    rc = ngx_event_connect_peer(pc);

    conn->log.log_level = level;

    if (rc == NGX_ERROR || rc == NGX_DECLINED || rc == NGX_BUSY) {
        if (pc->connection) {
            ngx_mcds_conn_close_socket(conn);
        }

        ngx_mcds_server_failed(server, NGX_MCDS_CLOSED);
        ngx_mcds_conn_close(conn, NGX_MCDS_CLOSED);
        return;
    }

    c = pc->connection;
    c->data = conn;
    c->sendfile = 0;
    c->read->handler = ngx_mcds_conn_read_handler;
    c->write->handler = ngx_mcds_conn_write_handler;

    conn->state = NGX_MCDS_CONN_CONNECTING;
    conn->deadline = ngx_current_msec + server->pool->connect_timeout;

    if (rc == NGX_OK) {
        ngx_mcds_conn_connected(conn);
        return;
    }

    ngx_mcds_conn_set_timer(conn);
}


static void
ngx_mcds_conn_connected(ngx_mcds_conn_t *conn)
{
#if (NGX_SSL)

    if (conn->server->pool->ssl) {
        conn->state = NGX_MCDS_CONN_HANDSHAKING;

        if (ngx_mcds_ssl_handshake(conn, ngx_mcds_conn_handshaked) != NGX_OK) {
            ngx_mcds_conn_handshaked(conn, NGX_ERROR);
        }

        return;
    }

#endif

    ngx_mcds_conn_greet(conn);
}


#if (NGX_SSL)

static void
ngx_mcds_conn_handshaked(ngx_mcds_conn_t *conn, ngx_int_t rc)
{
    ngx_connection_t  *c;

    if (rc != NGX_OK) {
        ngx_mcds_server_failed(conn->server, NGX_MCDS_TLS);
        ngx_mcds_conn_close(conn, NGX_MCDS_TLS);
        return;
    }

    c = conn->peer.connection;
    c->sendfile = 0;
    c->read->handler = ngx_mcds_conn_read_handler;
    c->write->handler = ngx_mcds_conn_write_handler;

    ngx_mcds_conn_greet(conn);
}

#endif


static void
ngx_mcds_conn_greet(ngx_mcds_conn_t *conn)
{
    u_char             buf[NGX_MCDS_AUTH_SIZE], *p;
    ssize_t            n, size;
    ngx_connection_t  *c;
    ngx_mcds_pool_t   *pool;

    c = conn->peer.connection;
    pool = conn->server->pool;

    if (c->tcp_nodelay == NGX_TCP_NODELAY_UNSET
        && ngx_tcp_nodelay(c) != NGX_OK)
    {
        ngx_mcds_conn_close(conn, NGX_MCDS_CLOSED);
        return;
    }

    conn->state = NGX_MCDS_CONN_GREETING;
    conn->greeted = 0;
    conn->authenticated = (pool->user.len == 0);
    conn->deadline = ngx_current_msec + pool->timeout;

    if (conn->timer.timer_set) {
        ngx_del_timer(&conn->timer);
    }

    p = buf;

    if (pool->user.len) {

        /* with -1 it is gone at once where nobody asks for it */

        p = ngx_sprintf(p, "set mcds:auth 0 -1 %uz" CRLF "%V %V" CRLF,
                        pool->user.len + 1 + pool->password.len,
                        &pool->user, &pool->password);
    }

    p = ngx_cpymem(p, ngx_mcds_greeting, sizeof(ngx_mcds_greeting) - 1);

    size = p - buf;
    n = c->send(c, buf, size);

    ngx_explicit_memzero(buf, size);

    if (n != size
        || ngx_handle_read_event(c->read, 0) != NGX_OK
        || ngx_handle_write_event(c->write, 0) != NGX_OK)
    {
        ngx_mcds_server_failed(conn->server, NGX_MCDS_CLOSED);
        ngx_mcds_conn_close(conn, NGX_MCDS_CLOSED);
        return;
    }

    ngx_mcds_conn_set_timer(conn);
}


static void
ngx_mcds_conn_ready(ngx_mcds_conn_t *conn)
{
    conn->state = NGX_MCDS_CONN_READY;

    ngx_log_debug1(NGX_LOG_DEBUG_EVENT, &conn->log, 0,
                   "mcds connected, %ui operations wait", conn->pending);

    /* the timer was that of the greeting */

    if (conn->timer.timer_set) {
        ngx_del_timer(&conn->timer);
    }

    ngx_mcds_conn_send(conn);
}


static void
ngx_mcds_conn_flush_handler(ngx_event_t *ev)
{
    ngx_mcds_conn_t  *conn;

    conn = ev->data;

    /* what has been posted already may have more for the same write */

    if (!conn->deferred && !ngx_queue_empty(&ngx_posted_events)) {
        conn->deferred = 1;
        ngx_post_event(ev, &ngx_posted_events);
        return;
    }

    conn->deferred = 0;

    switch (conn->state) {

    case NGX_MCDS_CONN_IDLE:
        if (!ngx_queue_empty(&conn->ops)) {
            ngx_mcds_conn_connect(conn);
        }

        break;

    case NGX_MCDS_CONN_READY:
        ngx_mcds_conn_send(conn);
        break;

    default:
        break;
    }
}


static void
ngx_mcds_conn_timer_handler(ngx_event_t *ev)
{
    ngx_msec_t        deadline;
    ngx_mcds_conn_t  *conn;

    conn = ev->data;

    if (ngx_mcds_conn_deadline(conn, &deadline) != NGX_OK) {
        return;
    }

    if ((ngx_msec_int_t) (deadline - ngx_current_msec) > 0) {
        ngx_mcds_conn_set_timer(conn);
        return;
    }

    if (conn->state == NGX_MCDS_CONN_READY && ngx_queue_empty(&conn->ops)) {
        ngx_mcds_conn_close(conn, NGX_MCDS_CLOSED);
        return;
    }

    ngx_log_error(NGX_LOG_INFO, &conn->log, 0, "memcached timed out");

    ngx_mcds_server_failed(conn->server, NGX_MCDS_TIMEOUT);
    ngx_mcds_conn_close(conn, NGX_MCDS_TIMEOUT);
}


static void
ngx_mcds_conn_write_handler(ngx_event_t *wev)
{
    int                err;
    socklen_t          len;
    ngx_connection_t  *c;
    ngx_mcds_conn_t   *conn;

    c = wev->data;
    conn = c->data;

    if (conn->state == NGX_MCDS_CONN_READY) {
        ngx_mcds_conn_send(conn);
        return;
    }

    if (conn->state != NGX_MCDS_CONN_CONNECTING) {
        return;
    }

    err = 0;
    len = sizeof(int);

    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, (void *) &err, &len) == -1) {
        err = ngx_socket_errno;
    }

    if (err) {
        ngx_log_error(NGX_LOG_INFO, &conn->log, err,
                      "connect() to memcached failed");

        ngx_mcds_server_failed(conn->server, NGX_MCDS_CLOSED);
        ngx_mcds_conn_close(conn, NGX_MCDS_CLOSED);
        return;
    }

    ngx_mcds_conn_connected(conn);
}


static void
ngx_mcds_conn_send(ngx_mcds_conn_t *conn)
{
    off_t              sent;
    ngx_chain_t       *cl, *rest;
    ngx_connection_t  *c;

    c = conn->peer.connection;

    if (conn->out && c->write->ready) {
        sent = c->sent;

        rest = c->send_chain(c, conn->out, 0);

        if (rest == NGX_CHAIN_ERROR) {
            ngx_mcds_server_failed(conn->server, NGX_MCDS_CLOSED);
            ngx_mcds_conn_close(conn, NGX_MCDS_CLOSED);
            return;
        }

        conn->sent += c->sent - sent;

        while (conn->out != rest) {
            cl = conn->out;
            conn->out = cl->next;
            ngx_mcds_conn_free_block(conn, cl);
        }

        if (conn->out == NULL) {
            conn->last = NULL;
        }
    }

    if (ngx_handle_write_event(c->write, 0) != NGX_OK) {
        ngx_mcds_conn_close(conn, NGX_MCDS_CLOSED);
        return;
    }

    ngx_mcds_conn_set_timer(conn);
}


static void
ngx_mcds_conn_read_handler(ngx_event_t *rev)
{
    ssize_t            n;
    ngx_uint_t         failed;
    ngx_connection_t  *c;
    ngx_mcds_conn_t   *conn;

    c = rev->data;
    conn = c->data;

    if (c->close) {
        ngx_mcds_conn_close(conn, NGX_MCDS_CLOSED);
        return;
    }

    if (conn->state == NGX_MCDS_CONN_CONNECTING) {
        ngx_mcds_conn_write_handler(c->write);

        /* one that speaks first may have nothing more to say */

        if (conn->state != NGX_MCDS_CONN_GREETING) {
            return;
        }
    }

    do {
        n = ngx_mcds_conn_recv(conn);

        if (n == NGX_AGAIN) {
            break;
        }

        if (n == NGX_ERROR || n == 0) {

            /* a server may close what is idle, that is no failure */

            failed = !ngx_queue_empty(&conn->ops)
                     || conn->state != NGX_MCDS_CONN_READY;

            if (failed) {
                ngx_log_error(NGX_LOG_INFO, &conn->log, 0,
                              "memcached closed the connection");

                ngx_mcds_server_failed(conn->server, NGX_MCDS_CLOSED);
            }

            ngx_mcds_conn_close(conn, NGX_MCDS_CLOSED);
            return;
        }

        if (ngx_mcds_conn_process(conn) != NGX_OK) {
            return;
        }

    } while (rev->ready);

    if (ngx_handle_read_event(rev, 0) != NGX_OK) {
        ngx_mcds_conn_close(conn, NGX_MCDS_CLOSED);
        return;
    }

    ngx_mcds_conn_set_idle(conn);
}


static ssize_t
ngx_mcds_conn_recv(ngx_mcds_conn_t *conn)
{
    size_t             size;
    ssize_t            n;
    ngx_buf_t         *b;
    ngx_connection_t  *c;
    ngx_mcds_value_t  *value;

    c = conn->peer.connection;
    value = conn->value;

    if (value) {
        n = c->recv(c, value->data + value->len, value->size - value->len);

        if (n > 0) {
            value->len += n;
        }

        return n;
    }

    b = conn->in;

    if (b->pos == b->last) {
        b->pos = b->start;
        b->last = b->start;

    } else if (b->pos != b->start) {
        size = b->last - b->pos;
        ngx_memmove(b->start, b->pos, size);
        b->pos = b->start;
        b->last = b->start + size;
    }

    n = c->recv(c, b->last, b->end - b->last);

    if (n > 0) {
        b->last += n;
    }

    return n;
}


/* NGX_OK, or NGX_ERROR if the connection was closed */

static ngx_int_t
ngx_mcds_conn_process(ngx_mcds_conn_t *conn)
{
    ngx_int_t  rc;

    for ( ;; ) {

        if (!conn->has_reply) {

            if (conn->in->pos == conn->in->last) {
                return NGX_OK;
            }

            /* not even the beginning of a line may come unasked */

            if (conn->state == NGX_MCDS_CONN_READY
                && ngx_queue_empty(&conn->ops))
            {
                ngx_mcds_conn_doubt(conn, "a reply that nobody asked for");
                return NGX_ERROR;
            }

            if (!conn->authenticated) {
                rc = ngx_mcds_conn_process_auth(conn);

                if (rc == NGX_OK) {
                    continue;
                }

                return (rc == NGX_AGAIN) ? NGX_OK : NGX_ERROR;
            }

            rc = ngx_mcds_parse(&conn->reply, conn->in);

            if (rc == NGX_AGAIN) {
                return NGX_OK;
            }

            if (conn->state == NGX_MCDS_CONN_GREETING) {

                if (rc == NGX_ERROR
                    || ngx_mcds_conn_process_greeting(conn) != NGX_OK)
                {
                    ngx_mcds_conn_refused(conn);
                    return NGX_ERROR;
                }

                if (conn->peer.connection == NULL) {
                    return NGX_ERROR;
                }

                continue;
            }

            if (rc == NGX_ERROR) {
                ngx_mcds_conn_doubt(conn, "unexpected reply");
                return NGX_ERROR;
            }

            if (ngx_mcds_conn_match(conn) != NGX_OK) {
                return NGX_ERROR;
            }

            if (!(conn->reply.has & NGX_MCDS_VALUE)) {
                ngx_mcds_conn_answer(conn, NULL);
                continue;
            }

            conn->has_reply = 1;
        }

        rc = ngx_mcds_conn_value(conn);

        if (rc == NGX_AGAIN) {
            return NGX_OK;
        }

        if (rc == NGX_ERROR) {
            return NGX_ERROR;
        }
    }
}


/* the answer to user and password, which is none of a meta command */

static ngx_int_t
ngx_mcds_conn_process_auth(ngx_mcds_conn_t *conn)
{
    u_char     *lf;
    ngx_str_t   text;
    ngx_buf_t  *b;

    b = conn->in;

    lf = ngx_strlchr(b->pos, b->last, LF);

    if (lf == NULL && b->last - b->pos < NGX_MCDS_MAX_LINE) {
        return NGX_AGAIN;
    }

    text.data = b->pos;
    text.len = (lf ? lf : b->last) - b->pos;

    if (text.len == 7 && ngx_strncmp(text.data, "STORED\r", 7) == 0) {
        b->pos = lf + 1;
        conn->authenticated = 1;
        return NGX_OK;
    }

    /* with what it said as far as that can be shown */

    for (text.len = 0; text.len < 128 && b->pos + text.len < b->last;
         text.len++)
    {
        if (text.data[text.len] < 0x20 || text.data[text.len] > 0x7e) {
            break;
        }
    }

    ngx_mcds_server_unsupported(conn->server, &text);
    ngx_mcds_conn_close(conn, NGX_MCDS_DOWN);

    return NGX_ERROR;
}


/* NGX_DECLINED if this is not what memcached of our day says */

static ngx_int_t
ngx_mcds_conn_process_greeting(ngx_mcds_conn_t *conn)
{
    ngx_mcds_reply_t  *reply;

    reply = &conn->reply;

    if (conn->greeted == 0 && reply->version) {

        if (ngx_mcds_version_at_least(&reply->text, 1, 6, 13) != NGX_OK) {
            return NGX_DECLINED;
        }

        conn->bare_misses = (ngx_mcds_version_at_least(&reply->text, 1, 6, 18)
                             != NGX_OK);
        conn->greeted = 1;

        return NGX_OK;
    }

    if (conn->greeted == 1 && reply->noop) {
        ngx_mcds_conn_ready(conn);

        return NGX_OK;
    }

    return NGX_DECLINED;
}


static void
ngx_mcds_conn_refused(ngx_mcds_conn_t *conn)
{
    ngx_str_t  *text;

    static ngx_str_t  full = ngx_string("ERROR Too many open connections");

    text = &conn->reply.text;

    if (text->len == full.len
        && ngx_memcmp(text->data, full.data, full.len) == 0)
    {
        /* memcached at its limit, it may speak the right language */

        ngx_log_error(NGX_LOG_WARN, &conn->log, 0, "memcached said \"%V\"",
                      text);

        ngx_mcds_server_failed(conn->server, NGX_MCDS_CLOSED);
        ngx_mcds_conn_close(conn, NGX_MCDS_CLOSED);
        return;
    }

    ngx_mcds_server_unsupported(conn->server, text);
    ngx_mcds_conn_close(conn, NGX_MCDS_DOWN);
}


/* is this the answer to the operation at the head? */

static ngx_int_t
ngx_mcds_conn_match(ngx_mcds_conn_t *conn)
{
    ngx_mcds_op_t     *op;
    ngx_mcds_reply_t  *reply;

    reply = &conn->reply;

    op = ngx_queue_data(ngx_queue_head(&conn->ops), ngx_mcds_op_t, queue);

    if (op->end > conn->sent) {
        ngx_mcds_conn_doubt(conn, "a reply before the command was sent");
        return NGX_ERROR;
    }

    if (reply->noop || reply->version) {
        ngx_mcds_conn_doubt(conn, "a reply of another kind");
        return NGX_ERROR;
    }

    if (!(reply->has & NGX_MCDS_OPAQUE)) {

        /* error lines carry no flags, nor does the EN of old servers */

        if (reply->rc == NGX_MCDS_SERVER_ERROR
            || reply->rc == NGX_MCDS_TOO_LARGE
            || (reply->rc == NGX_MCDS_NOT_NUMERIC
                && (op->verb == NGX_MCDS_INCR || op->verb == NGX_MCDS_DECR))
            || (reply->rc == NGX_MCDS_NOT_FOUND
                && op->verb == NGX_MCDS_GET && conn->bare_misses))
        {
            return NGX_OK;
        }

        ngx_mcds_conn_doubt(conn, "a reply without its opaque");
        return NGX_ERROR;
    }

    if (reply->opaque != op->opaque) {
        ngx_mcds_conn_doubt(conn, "the reply to another operation");
        return NGX_ERROR;
    }

    if (!(reply->has & NGX_MCDS_KEY)
        || reply->key.len != op->key.len
        || ngx_memcmp(reply->key.data, op->key.data, op->key.len) != 0)
    {
        ngx_mcds_conn_doubt(conn, "a reply with another key");
        return NGX_ERROR;
    }

    if (reply->rc == NGX_MCDS_OK
        && (reply->has & NGX_MCDS_VALUE) != (op->want & NGX_MCDS_VALUE))
    {
        ngx_mcds_conn_doubt(conn, "a reply of another kind");
        return NGX_ERROR;
    }

    if ((reply->has & NGX_MCDS_VALUE) && reply->len > op->limit) {

        /* somebody else's key may hold anything, that is no fault */

        if (reply->len > NGX_MCDS_MAX_SKIP) {
            ngx_mcds_conn_doubt(conn, "a value above all limits");
            return NGX_ERROR;
        }

        conn->skip = reply->len + 2;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_mcds_conn_value(ngx_mcds_conn_t *conn)
{
    u_char            *end;
    size_t             size, len;
    ngx_buf_t         *b;
    ngx_mcds_value_t  *value;

    if (conn->skip) {
        return ngx_mcds_conn_skip(conn);
    }

    b = conn->in;
    len = conn->reply.len;
    size = b->last - b->pos;
    value = conn->value;

    if (value == NULL && len + 2 > (size_t) (b->end - b->start) / 2) {

        value = ngx_mcds_value_create(len + 2, &conn->log);
        if (value == NULL) {
            ngx_mcds_conn_doubt(conn, "no memory for a value");
            return NGX_ERROR;
        }

        value->len = ngx_min(size, len + 2);
        ngx_memcpy(value->data, b->pos, value->len);
        b->pos += value->len;

        conn->value = value;
    }

    if (value) {
        if (value->len < len + 2) {
            return NGX_AGAIN;
        }

        value->len = len;
        end = value->data + len;

    } else {
        if (size < len + 2) {
            return NGX_AGAIN;
        }

        end = b->pos + len;
        b->pos += len + 2;
    }

    if (end[0] != CR || end[1] != LF) {
        ngx_mcds_conn_doubt(conn, "a value of another length");
        return NGX_ERROR;
    }

    conn->has_reply = 0;
    ngx_mcds_conn_answer(conn, end - len);

    return NGX_OK;
}


/* a value that is larger than the operation wants to know */

static ngx_int_t
ngx_mcds_conn_skip(ngx_mcds_conn_t *conn)
{
    size_t      size;
    ngx_buf_t  *b;

    b = conn->in;

    size = ngx_min((size_t) (b->last - b->pos), conn->skip - 2);

    b->pos += size;
    conn->skip -= size;

    if (conn->skip > 2 || b->last - b->pos < 2) {
        return NGX_AGAIN;
    }

    if (b->pos[0] != CR || b->pos[1] != LF) {
        ngx_mcds_conn_doubt(conn, "a value of another length");
        return NGX_ERROR;
    }

    b->pos += 2;

    conn->skip = 0;
    conn->has_reply = 0;
    conn->reply.rc = NGX_MCDS_TOO_LARGE;
    conn->reply.has &= ~(ngx_uint_t) NGX_MCDS_VALUE;

    ngx_mcds_conn_answer(conn, NULL);

    return NGX_OK;
}


static void
ngx_mcds_conn_answer(ngx_mcds_conn_t *conn, u_char *data)
{
    ngx_queue_t        *q;
    ngx_mcds_op_t      *op;
    ngx_mcds_value_t   *value;
    ngx_mcds_result_t   result;

    q = ngx_queue_head(&conn->ops);
    op = ngx_queue_data(q, ngx_mcds_op_t, queue);

    ngx_queue_remove(q);
    conn->pending--;
    conn->pending_size -= op->size;

    if (conn->server->fails || conn->server->down) {
        ngx_mcds_server_answered(conn->server);
    }

    value = conn->value;
    conn->value = NULL;

    result.rc = conn->reply.rc;
    result.has = conn->reply.has;
    result.cas = conn->reply.cas;
    result.ttl = conn->reply.ttl;
    result.data = data;
    result.len = data ? conn->reply.len : 0;
    result.value = value;

    ngx_mcds_op_done(op, &result);
    ngx_mcds_value_unref(value);
}


static void
ngx_mcds_conn_doubt(ngx_mcds_conn_t *conn, char *why)
{
    ngx_uint_t  level;

    /* when the breaker is open it has been told that something is wrong */

    level = conn->server->down ? NGX_LOG_INFO : NGX_LOG_ERR;

    ngx_log_error(level, &conn->log, 0,
                  "memcached sent %s, connection closed", why);

    ngx_mcds_server_failed(conn->server, NGX_MCDS_PROTOCOL);
    ngx_mcds_conn_close(conn, NGX_MCDS_PROTOCOL);
}


/*
 * One timer, left in place while operations come and go: its handler looks
 * again at what is the nearest.
 */

static void
ngx_mcds_conn_set_timer(ngx_mcds_conn_t *conn)
{
    ngx_msec_t      deadline;
    ngx_msec_int_t  left;

    if (ngx_mcds_conn_deadline(conn, &deadline) != NGX_OK) {
        return;
    }

    conn->timer.cancelable = (conn->state == NGX_MCDS_CONN_READY
                              && ngx_queue_empty(&conn->ops));

    if (conn->timer.timer_set) {
        return;
    }

    left = (ngx_msec_int_t) (deadline - ngx_current_msec);

    ngx_add_timer(&conn->timer, ngx_max(left, 1));
}


/* NGX_DECLINED if there is nothing to wait for */

static ngx_int_t
ngx_mcds_conn_deadline(ngx_mcds_conn_t *conn, ngx_msec_t *deadline)
{
    ngx_uint_t      has;
    ngx_mcds_op_t  *op;

    has = 0;

    switch (conn->state) {

    case NGX_MCDS_CONN_CONNECTING:
    case NGX_MCDS_CONN_HANDSHAKING:
    case NGX_MCDS_CONN_GREETING:
        *deadline = conn->deadline;
        has = 1;
        break;

    default:
        break;
    }

    if (!ngx_queue_empty(&conn->ops)) {
        op = ngx_queue_data(ngx_queue_head(&conn->ops), ngx_mcds_op_t, queue);

        if (!has || (ngx_msec_int_t) (op->deadline - *deadline) < 0) {
            *deadline = op->deadline;
        }

        return NGX_OK;
    }

    if (conn->state == NGX_MCDS_CONN_READY && conn->server->pool->keepalive) {
        *deadline = conn->idle_since + conn->server->pool->keepalive;
        has = 1;
    }

    return has ? NGX_OK : NGX_DECLINED;
}


static void
ngx_mcds_conn_set_idle(ngx_mcds_conn_t *conn)
{
    ngx_uint_t         idle;
    ngx_connection_t  *c;

    c = conn->peer.connection;
    idle = ngx_queue_empty(&conn->ops);

    if (idle && ngx_exiting) {
        ngx_mcds_conn_close(conn, NGX_MCDS_CLOSED);
        return;
    }

    /* a timer that runs on for nobody must not hold up an exit */

    conn->timer.cancelable = idle;
    c->idle = idle;

    if (idle) {
        conn->idle_since = ngx_current_msec;
        ngx_mcds_conn_set_timer(conn);
    }
}


static ngx_mcds_block_t *
ngx_mcds_conn_block(ngx_mcds_conn_t *conn, size_t room)
{
    ngx_mcds_block_t  *block;

    block = conn->last;

    if (block && (size_t) (block->buf.end - block->buf.last) >= room) {
        return block;
    }

    block = conn->spare;

    if (block) {
        conn->spare = NULL;

    } else {
        block = ngx_alloc(sizeof(ngx_mcds_block_t), &conn->log);
        if (block == NULL) {
            return NULL;
        }
    }

    ngx_memzero(&block->buf, sizeof(ngx_buf_t));

    block->buf.start = block->data;
    block->buf.pos = block->data;
    block->buf.last = block->data;
    block->buf.end = block->data + NGX_MCDS_BLOCK_SIZE;
    block->buf.temporary = 1;

    block->chain.buf = &block->buf;
    block->chain.next = NULL;

    if (conn->last) {
        conn->last->chain.next = &block->chain;

    } else {
        conn->out = &block->chain;
    }

    conn->last = block;

    return block;
}


/* a value is sent from where it is, with the CRLF behind it */

static ngx_mcds_block_t *
ngx_mcds_conn_value_block(ngx_mcds_conn_t *conn, ngx_mcds_value_t *value)
{
    ngx_mcds_block_t  *block;

    block = ngx_alloc(offsetof(ngx_mcds_block_t, data), &conn->log);
    if (block == NULL) {
        return NULL;
    }

    value->data[value->len] = CR;
    value->data[value->len + 1] = LF;

    ngx_memzero(&block->buf, sizeof(ngx_buf_t));

    block->buf.start = value->data;
    block->buf.pos = value->data;
    block->buf.last = value->data + value->len + 2;
    block->buf.end = block->buf.last;
    block->buf.memory = 1;

    block->chain.buf = &block->buf;
    block->chain.next = NULL;

    return block;
}


static void
ngx_mcds_conn_free_block(ngx_mcds_conn_t *conn, ngx_chain_t *cl)
{
    ngx_mcds_block_t  *block;

    block = (ngx_mcds_block_t *) ((u_char *) cl
                                  - offsetof(ngx_mcds_block_t, chain));

    if (conn->spare == NULL && block->buf.start == block->data) {
        conn->spare = block;
        return;
    }

    ngx_free(block);
}


static u_char *
ngx_mcds_conn_log_error(ngx_log_t *log, u_char *buf, size_t len)
{
    u_char           *p;
    ngx_mcds_conn_t  *conn;

    conn = log->data;

    p = ngx_snprintf(buf, len, ", memcached: %V, pool: \"%V\"",
                     &conn->server->addr.name, &conn->server->pool->name);

    return p;
}

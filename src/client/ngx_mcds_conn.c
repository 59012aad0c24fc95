
/*
 * Copyright (C) mcds authors
 *
 * A connection to memcached.
 *
 *          flush: connect()               writable: "version", "mn"
 *   IDLE ------------------> CONNECTING (HANDSHAKING) --> GREETING
 *     ^                                                      |
 *     |   error, timeout, bad reply, idle at exit            | VERSION, MN
 *     +------------------------------------------------- READY <
 *
 * Commands are encoded into conn->out, a chain of blocks, when they are pushed;
 * a posted event sends all of them at once at the end of the event loop's turn.
 * Only the greeting (user and password, "version", "mn") is sent before the
 * server has shown that it supports the meta commands: a server without them
 * would execute the lines of a value as commands.  If the pool uses the classic
 * protocol, "mn" is not sent, as a proxy may close the connection on an unknown
 * command.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_conn.h"
#include "ngx_mcds_resolve.h"
#include "ngx_mcds_client_stat.h"
#include "ngx_mcds_exchange.h"
#include "ngx_mcds_server.h"


#define NGX_MCDS_IN_SIZE          32768

/* room for the command that sends user and password to a server, in bytes */
#define NGX_MCDS_AUTH_SIZE        (NGX_MCDS_MAX_AUTH + 128)


static void ngx_mcds_conn_retire(ngx_mcds_conn_t *conn);
static void ngx_mcds_conn_close_socket(ngx_mcds_conn_t *conn);
static void ngx_mcds_conn_connect(ngx_mcds_conn_t *conn);
static void ngx_mcds_conn_connected(ngx_mcds_conn_t *conn);
#if (NGX_SSL)
static void ngx_mcds_conn_handshaked(ngx_mcds_conn_t *conn, ngx_int_t rc);
#endif
static void ngx_mcds_conn_greet(ngx_mcds_conn_t *conn);
static void ngx_mcds_conn_flush_handler(ngx_event_t *ev);
static void ngx_mcds_conn_timer_handler(ngx_event_t *ev);
static void ngx_mcds_conn_write_handler(ngx_event_t *wev);
static void ngx_mcds_conn_read_handler(ngx_event_t *rev);
static ngx_int_t ngx_mcds_conn_deadline(ngx_mcds_conn_t *conn,
    ngx_msec_t *deadline);
static ngx_uint_t ngx_mcds_conn_unused(ngx_mcds_conn_t *conn);
static void ngx_mcds_conn_set_idle(ngx_mcds_conn_t *conn);
static u_char *ngx_mcds_conn_log_error(ngx_log_t *log, u_char *buf,
    size_t len);


static u_char  ngx_mcds_greeting[] = "version\r\nmn\r\n";
static u_char  ngx_mcds_classic_greeting[] = "version\r\n";


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
    ngx_queue_init(&conn->exchanges);

    conn->log = *ngx_cycle->log;
    conn->log.handler = ngx_mcds_conn_log_error;
    conn->log.data = conn;
    conn->log.action = NULL;

    conn->address = server->name;

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
    ngx_queue_t          *q;
    ngx_mcds_exchange_t  *ex;
    ngx_mcds_conn_t     **next;

    if (conn->retired) {
        next = &conn->server->retired;

        while (*next != conn) {
            next = &(*next)->next;
        }

        *next = conn->next;
    }

    while (!ngx_queue_empty(&conn->exchanges)) {
        q = ngx_queue_head(&conn->exchanges);
        ex = ngx_queue_data(q, ngx_mcds_exchange_t, queue);
        ngx_queue_remove(q);
        ngx_mcds_op_abandon(&ex->op);
        ngx_mcds_exchange_free(ex);
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


void
ngx_mcds_conn_close(ngx_mcds_conn_t *conn, ngx_uint_t rc)
{
    uint64_t              sent;
    ngx_chain_t          *cl;
    ngx_queue_t           exchanges, *q;
    ngx_mcds_exchange_t  *ex;
    ngx_mcds_result_t     result;

    if (conn->peer.connection) {
        ngx_log_debug2(NGX_LOG_DEBUG_EVENT, &conn->log, 0,
                       "mcds close fd:%d: %s", conn->peer.connection->fd,
                       ngx_mcds_strerror(rc));

        ngx_mcds_conn_close_socket(conn);
        ngx_mcds_client_stat_changed(conn->server);
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

    sent = conn->sent;

    conn->state = NGX_MCDS_CONN_IDLE;
    conn->last = NULL;
    conn->value = NULL;
    conn->has_reply = 0;
    conn->authenticated = 0;
    conn->quiet = 0;
    conn->skip = 0;
    conn->sent = 0;
    conn->queued = 0;
    conn->in->pos = conn->in->start;
    conn->in->last = conn->in->start;

    if (conn->retired && !conn->flush.posted) {

        /*
         * the connection is retired (it gets no new commands) and now closed; a
         * posted event frees its memory, as the caller may still use it
         */

        ngx_post_event(&conn->flush, &ngx_posted_events);
    }

    if (ngx_queue_empty(&conn->exchanges)) {
        return;
    }

    /*
     * a handler of a failed operation may push new commands, which are for the
     * next connection
     */

    ngx_queue_init(&exchanges);
    ngx_queue_add(&exchanges, &conn->exchanges);
    ngx_queue_init(&conn->exchanges);

    conn->pending = 0;
    conn->pending_size = 0;

    ngx_memzero(&result, sizeof(ngx_mcds_result_t));

    while (!ngx_queue_empty(&exchanges)) {
        q = ngx_queue_head(&exchanges);
        ex = ngx_queue_data(q, ngx_mcds_exchange_t, queue);
        ngx_queue_remove(q);

        /* a command of which no byte was sent was not executed by the server */

        result.rc = (ngx_mcds_sent(rc) && ex->begin >= sent)
                    ? NGX_MCDS_DOWN : rc;

        ngx_mcds_client_stat_failed(conn->server, ex, rc);
        ngx_mcds_exchange_done(ex, &result);
    }
}


void
ngx_mcds_conn_fail(ngx_mcds_conn_t *conn, ngx_uint_t rc)
{
    ngx_uint_t          reached;
    ngx_mcds_server_t  *server;

    server = conn->server;

    if (conn->retired) {
        ngx_mcds_client_stat_lost(server, rc);
        ngx_mcds_conn_close(conn, rc);
        return;
    }

    reached = (conn->state == NGX_MCDS_CONN_READY);

    /*
     * server->err may come from a connect() of the server's other connection:
     * it does not explain why this connection, which was ready, has failed
     */

    if (reached) {
        server->err = 0;
    }

    ngx_mcds_server_failed(server, rc);
    ngx_mcds_conn_close(conn, rc);

    if (!reached) {
        ngx_mcds_resolve_next(server);
    }
}


void
ngx_mcds_server_retire(ngx_mcds_server_t *server)
{
    if (server->control) {
        ngx_mcds_conn_retire(server->control);
    }

    if (server->bulk) {
        ngx_mcds_conn_retire(server->bulk);
    }
}


static void
ngx_mcds_conn_retire(ngx_mcds_conn_t *conn)
{
    ngx_mcds_server_t  *server;

    if (conn->state == NGX_MCDS_CONN_IDLE) {
        return;
    }

    if (ngx_queue_empty(&conn->exchanges)) {
        ngx_mcds_conn_close(conn, NGX_MCDS_CLOSED);
        return;
    }

    server = conn->server;

    if (server->control == conn) {
        server->control = NULL;

    } else {
        server->bulk = NULL;
    }

    conn->retired = 1;
    conn->next = server->retired;
    server->retired = conn;
}


/*
 * Closes a lost connection, and sends its pending reads again on a new one.
 * Changes are not sent again, as the server may have executed them.
 */

void
ngx_mcds_conn_lost(ngx_mcds_conn_t *conn)
{
    ngx_str_t             none;
    ngx_msec_t            deadline;
    ngx_queue_t          *q, *next, again;
    ngx_mcds_exchange_t  *ex;
    ngx_mcds_cmd_t        cmd;
    ngx_mcds_result_t     result;

    ngx_queue_init(&again);

    for (q = ngx_queue_head(&conn->exchanges);
         q != ngx_queue_sentinel(&conn->exchanges) && !conn->retired;
         q = next)
    {
        next = ngx_queue_next(q);
        ex = ngx_queue_data(q, ngx_mcds_exchange_t, queue);

        if (ex->verb == NGX_MCDS_GET && !ex->repeated) {
            ngx_queue_remove(q);
            ngx_queue_insert_tail(&again, q);

            conn->pending--;
            conn->pending_size -= ex->size;
        }
    }

    ngx_mcds_conn_close(conn, NGX_MCDS_CLOSED);

    ngx_str_null(&none);
    ngx_memzero(&cmd, sizeof(ngx_mcds_cmd_t));

    while (!ngx_queue_empty(&again)) {
        q = ngx_queue_head(&again);
        ex = ngx_queue_data(q, ngx_mcds_exchange_t, queue);
        ngx_queue_remove(q);

        ex->repeated = 1;
        deadline = ex->deadline;

        cmd.verb = ex->verb;
        cmd.want = ex->asked;
        cmd.key.data = ex->key.data;
        cmd.key.len = ex->key.len;
        cmd.opaque = ex->opaque;

        if (ngx_mcds_conn_push(conn, ex, &cmd, &none) == NGX_OK) {
            ex->deadline = deadline;
            continue;
        }

        ngx_memzero(&result, sizeof(ngx_mcds_result_t));
        result.rc = NGX_MCDS_CLOSED;

        ngx_mcds_client_stat_failed(conn->server, ex, result.rc);
        ngx_mcds_exchange_done(ex, &result);
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

    ngx_memcpy(&conn->sockaddr, server->addr.sockaddr, server->addr.socklen);

    conn->address.data = conn->text;
    conn->address.len = ngx_min(server->addr.name.len, NGX_SOCKADDR_STRLEN);
    ngx_memcpy(conn->text, server->addr.name.data, conn->address.len);

    pc->sockaddr = &conn->sockaddr.sockaddr;
    pc->socklen = server->addr.socklen;
    pc->name = &conn->address;
    pc->get = ngx_event_get_peer;
    pc->log = &conn->log;
    pc->log_error = NGX_ERROR_INFO;

    /* a refused connection is logged, once, by the server's circuit breaker */

    level = conn->log.log_level;

    if (!(level & NGX_LOG_DEBUG_ALL)) {
        conn->log.log_level = NGX_LOG_ALERT;
    }

    server->err = 0;

    ngx_set_errno(0);

    rc = ngx_event_connect_peer(pc);

    conn->log.log_level = level;

    if (rc == NGX_ERROR || rc == NGX_DECLINED || rc == NGX_BUSY) {
        server->err = ngx_socket_errno;

        if (pc->connection) {
            ngx_mcds_conn_close_socket(conn);
        }

        ngx_mcds_conn_fail(conn, NGX_MCDS_CLOSED);
        return;
    }

    c = pc->connection;
    c->data = conn;
    c->sendfile = 0;
    c->read->handler = ngx_mcds_conn_read_handler;
    c->write->handler = ngx_mcds_conn_write_handler;

    conn->state = NGX_MCDS_CONN_CONNECTING;
    conn->deadline = ngx_current_msec + server->pool->connect_timeout;

    /*
     * the timer of the connection is also needed if connect() succeeds at once,
     * for the TLS handshake and the greeting ("version")
     */

    ngx_mcds_conn_set_timer(conn);

    if (rc == NGX_OK) {
        ngx_mcds_conn_connected(conn);
    }
}


static void
ngx_mcds_conn_connected(ngx_mcds_conn_t *conn)
{
    ngx_mcds_client_stat_sum(conn->server, NGX_MCDS_STAT_CONNECTS, 1);

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
        ngx_mcds_conn_fail(conn, NGX_MCDS_TLS);
        return;
    }

    c = conn->peer.connection;
    c->sendfile = 0;
    c->read->handler = ngx_mcds_conn_read_handler;
    c->write->handler = ngx_mcds_conn_write_handler;

    /*
     * poll() and select() do not report data that is already in OpenSSL's
     * buffer
     */

    if (c->read->ready) {
        ngx_post_event(c->read, &ngx_posted_events);
    }

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

        /*
         * user and password are sent by "set"; a server without authentication
         * stores them as an item, which the expiry -1 ends at once
         */

        p = ngx_sprintf(p, "set mcds:auth 0 -1 %uz" CRLF "%V %V" CRLF,
                        pool->user.len + 1 + pool->password.len,
                        &pool->user, &pool->password);
    }

    if (pool->classic) {
        p = ngx_cpymem(p, ngx_mcds_classic_greeting,
                       sizeof(ngx_mcds_classic_greeting) - 1);

    } else {
        p = ngx_cpymem(p, ngx_mcds_greeting, sizeof(ngx_mcds_greeting) - 1);
    }

    size = p - buf;
    n = c->send(c, buf, size);

    ngx_explicit_memzero(buf, size);

    if (n > 0) {
        ngx_mcds_client_stat_sum(conn->server, NGX_MCDS_STAT_SENT, n);
    }

    if (n != size
        || ngx_handle_read_event(c->read, 0) != NGX_OK
        || ngx_handle_write_event(c->write, 0) != NGX_OK)
    {
        ngx_mcds_conn_fail(conn, NGX_MCDS_CLOSED);
        return;
    }

    ngx_mcds_conn_set_timer(conn);
}


void
ngx_mcds_conn_ready(ngx_mcds_conn_t *conn)
{
    conn->state = NGX_MCDS_CONN_READY;

    ngx_log_debug1(NGX_LOG_DEBUG_EVENT, &conn->log, 0,
                   "mcds connected, %ui operations wait", conn->pending);

    /*
     * the timer was set for the connect and the greeting ("version"), which
     * have ended
     */

    if (conn->timer.timer_set) {
        ngx_del_timer(&conn->timer);
    }

    if (!conn->retired) {
        ngx_mcds_resolve_connected(conn->server);
    }

    ngx_mcds_conn_send(conn);
}


static void
ngx_mcds_conn_flush_handler(ngx_event_t *ev)
{
    ngx_mcds_conn_t  *conn;

    conn = ev->data;

    /*
     * defer the sending of commands to memcached: other posted events may queue
     * more commands, which are then sent in the same write
     */

    if (!conn->deferred && !ngx_queue_empty(&ngx_posted_events)) {
        conn->deferred = 1;
        ngx_post_event(ev, &ngx_posted_events);
        return;
    }

    conn->deferred = 0;

    switch (conn->state) {

    case NGX_MCDS_CONN_IDLE:
        if (conn->retired) {
            ngx_mcds_conn_destroy(conn);
            break;
        }

        if (!ngx_queue_empty(&conn->exchanges)) {
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

    if (conn->state == NGX_MCDS_CONN_READY
        && ngx_queue_empty(&conn->exchanges))
    {
        ngx_mcds_conn_close(conn, NGX_MCDS_CLOSED);
        return;
    }

    if (ngx_mcds_reply_late(conn) == NGX_OK) {
        return;
    }

    ngx_log_error(NGX_LOG_INFO, &conn->log, 0, "memcached timed out");

    ngx_mcds_conn_fail(conn, NGX_MCDS_TIMEOUT);
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

        conn->server->err = err;
        ngx_mcds_conn_fail(conn, NGX_MCDS_CLOSED);
        return;
    }

    ngx_mcds_conn_connected(conn);
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

        /*
         * a server may send data before it gets our greeting ("version"), and
         * no data later: read this data now, as no later event would report it
         */

        if (conn->state != NGX_MCDS_CONN_GREETING) {
            return;
        }
    }

    do {
        n = ngx_mcds_reply_recv(conn);

        if (n == NGX_AGAIN) {
            break;
        }

        if (n == NGX_ERROR || n == 0) {

            /* a server may close an idle connection, which is no failure */

            failed = !ngx_queue_empty(&conn->exchanges)
                     || conn->state != NGX_MCDS_CONN_READY;

            if (failed) {
                ngx_log_error(NGX_LOG_INFO, &conn->log, 0,
                              "memcached closed the connection");

                if (conn->quiet) {
                    ngx_mcds_conn_lost(conn);
                    return;
                }

                conn->server->hung_up = (conn->state == NGX_MCDS_CONN_GREETING
                                         && conn->greeted == 0 && n == 0);

                ngx_mcds_conn_fail(conn, NGX_MCDS_CLOSED);
                return;
            }

            ngx_mcds_conn_close(conn, NGX_MCDS_CLOSED);
            return;
        }

        conn->quiet = 0;

        /* all replies in the received bytes get the same time of receipt */

        conn->received = ngx_mcds_client_stat_clock();

        ngx_mcds_client_stat_sum(conn->server, NGX_MCDS_STAT_RECEIVED, n);

        if (ngx_mcds_reply_process(conn) != NGX_OK) {
            return;
        }

    } while (rev->ready);

    if (ngx_handle_read_event(rev, 0) != NGX_OK) {
        ngx_mcds_conn_close(conn, NGX_MCDS_CLOSED);
        return;
    }

    ngx_mcds_conn_set_idle(conn);
}


/*
 * Sets the timer of a connection to the earliest deadline.  A timer that ends
 * earlier is not reset, as operations come and go: its handler looks for the
 * earliest deadline again.
 */

void
ngx_mcds_conn_set_timer(ngx_mcds_conn_t *conn)
{
    ngx_msec_t      deadline;
    ngx_msec_int_t  left;

    if (ngx_mcds_conn_deadline(conn, &deadline) != NGX_OK) {
        return;
    }

    conn->timer.cancelable = ngx_mcds_conn_unused(conn);

    if (conn->timer.timer_set) {

        if ((ngx_msec_int_t) (conn->timer.timer.key - deadline) <= 0) {
            return;
        }

        ngx_del_timer(&conn->timer);
    }

    left = (ngx_msec_int_t) (deadline - ngx_current_msec);

    ngx_add_timer(&conn->timer, ngx_max(left, 1));
}


/*
 * gets the earliest deadline of the connection: of the connect, of an operation
 * or of "keepalive"; returns NGX_DECLINED if there is none
 */

static ngx_int_t
ngx_mcds_conn_deadline(ngx_mcds_conn_t *conn, ngx_msec_t *deadline)
{
    ngx_uint_t      has;
    ngx_mcds_exchange_t  *ex;

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

    if (!ngx_queue_empty(&conn->exchanges)) {
        ex = ngx_mcds_conn_head(conn);

        if (!has || (ngx_msec_int_t) (ex->deadline - *deadline) < 0) {
            *deadline = ex->deadline;
        }

        return NGX_OK;
    }

    if (conn->state == NGX_MCDS_CONN_READY && conn->server->pool->keepalive) {
        *deadline = conn->idle_since + conn->server->pool->keepalive;
        has = 1;
    }

    return has ? NGX_OK : NGX_DECLINED;
}


/*
 * Returns 1 if the timer of the connection must not delay the exit of the
 * worker: the connection is idle, or has only the probe of a server that is
 * down.  While another timer delays the exit, the worker continues to probe.
 */

static ngx_uint_t
ngx_mcds_conn_unused(ngx_mcds_conn_t *conn)
{
    ngx_mcds_exchange_t  *ex;

    if (ngx_queue_empty(&conn->exchanges)) {
        return conn->state == NGX_MCDS_CONN_READY;
    }

    ex = ngx_mcds_conn_head(conn);

    return ex->probe && &ex->queue == ngx_queue_last(&conn->exchanges);
}


static void
ngx_mcds_conn_set_idle(ngx_mcds_conn_t *conn)
{
    ngx_uint_t         idle;
    ngx_connection_t  *c;

    c = conn->peer.connection;
    idle = ngx_queue_empty(&conn->exchanges);

    if (idle && (conn->retired || ngx_exiting)) {
        ngx_mcds_conn_close(conn, NGX_MCDS_CLOSED);
        return;
    }

    conn->timer.cancelable = ngx_mcds_conn_unused(conn);
    c->idle = idle;

    if (idle) {
        conn->quiet = 1;
        conn->idle_since = ngx_current_msec;
        ngx_mcds_conn_set_timer(conn);
    }
}


static u_char *
ngx_mcds_conn_log_error(ngx_log_t *log, u_char *buf, size_t len)
{
    u_char           *p;
    ngx_mcds_conn_t  *conn;

    conn = log->data;

    p = ngx_snprintf(buf, len, ", memcached: %V, pool: \"%V\"",
                     &conn->address, &conn->server->pool->name);

    return p;
}

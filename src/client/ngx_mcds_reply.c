
/*
 * Copyright (C) mcds authors
 *
 * The replies of a connection.  Replies are matched with operations in order,
 * and checked by opaque and key; in the classic protocol by their kind and the
 * key of a value.  Any mismatch closes the connection and fails its pending
 * operations, so that a reply never reaches the wrong request.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_conn.h"
#include "ngx_mcds_client_stat.h"
#include "ngx_mcds_exchange.h"
#include "ngx_mcds_server.h"


/*
 * The maximum length, in bytes, of a value that the worker reads only to drop
 * it: one that is not requested, above the limit of its operation, or for which
 * the worker has no memory.  To skip a longer value, the worker closes the
 * connection.
 */
#define NGX_MCDS_MAX_SKIP         (16 * 1024 * 1024)

/*
 * the bytes that are read at a time from a server's bulk connection, the one
 * for large values, to find the line of a reply
 */
#define NGX_MCDS_BULK_LINE        4096

/*
 * the bytes that follow a value in a reply of the classic protocol; in a reply
 * to a meta command only CRLF follows the value
 */
#define NGX_MCDS_TAIL             CRLF "END" CRLF
#define ngx_mcds_reply_tail(conn)  ((conn)->server->pool->classic ? 7 : 2)


static ngx_int_t ngx_mcds_reply_process_auth(ngx_mcds_conn_t *conn);
static ngx_int_t ngx_mcds_reply_parse(ngx_mcds_conn_t *conn);
static ngx_int_t ngx_mcds_reply_process_greeting(ngx_mcds_conn_t *conn);
static void ngx_mcds_reply_refused(ngx_mcds_conn_t *conn);
static ngx_int_t ngx_mcds_reply_match(ngx_mcds_conn_t *conn);
static void ngx_mcds_reply_match_stats(ngx_mcds_conn_t *conn);
static ngx_int_t ngx_mcds_reply_match_classic(ngx_mcds_conn_t *conn,
    ngx_mcds_exchange_t *ex);
static ngx_int_t ngx_mcds_reply_drop(ngx_mcds_conn_t *conn);
static void ngx_mcds_reply_leave(ngx_mcds_conn_t *conn, char *why,
    ngx_uint_t rc);
static ngx_int_t ngx_mcds_reply_value(ngx_mcds_conn_t *conn);
static ngx_int_t ngx_mcds_reply_no_memory(ngx_mcds_conn_t *conn);
static ngx_int_t ngx_mcds_reply_skip(ngx_mcds_conn_t *conn);
static void ngx_mcds_reply_answer(ngx_mcds_conn_t *conn, u_char *data);
static ngx_mcds_exchange_t *ngx_mcds_reply_take(ngx_mcds_conn_t *conn,
    ngx_mcds_result_t *result);
static void ngx_mcds_reply_doubt(ngx_mcds_conn_t *conn, char *why);


ssize_t
ngx_mcds_reply_recv(ngx_mcds_conn_t *conn)
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

    size = b->end - b->last;

    /*
     * read little to find the line of a reply: the rest of a large value is
     * then received into the memory of the value, without a copy
     */

    if (conn == conn->server->bulk && conn->skip == 0) {
        size = ngx_min(size, NGX_MCDS_BULK_LINE);
    }

    n = c->recv(c, b->last, size);

    if (n > 0) {
        b->last += n;
    }

    return n;
}


ngx_int_t
ngx_mcds_reply_process(ngx_mcds_conn_t *conn)
{
    ngx_int_t  rc;

    for ( ;; ) {

        if (!conn->has_reply) {

            if (conn->in->pos == conn->in->last) {
                return NGX_OK;
            }

            /*
             * without a pending operation not even an incomplete line of a
             * reply is acceptable
             */

            if (conn->state == NGX_MCDS_CONN_READY
                && ngx_queue_empty(&conn->exchanges))
            {
                ngx_mcds_reply_doubt(conn, "a reply that nobody asked for");
                return NGX_ERROR;
            }

            if (!conn->authenticated) {
                rc = ngx_mcds_reply_process_auth(conn);

                if (rc == NGX_OK) {
                    continue;
                }

                return (rc == NGX_AGAIN) ? NGX_OK : NGX_ERROR;
            }

            rc = ngx_mcds_reply_parse(conn);

            if (rc == NGX_AGAIN) {
                return NGX_OK;
            }

            if (conn->state == NGX_MCDS_CONN_GREETING) {

                if (rc == NGX_ERROR
                    || ngx_mcds_reply_process_greeting(conn) != NGX_OK)
                {
                    ngx_mcds_reply_refused(conn);
                    return NGX_ERROR;
                }

                if (conn->peer.connection == NULL) {
                    return NGX_ERROR;
                }

                continue;
            }

            if (rc == NGX_ERROR) {
                ngx_mcds_reply_doubt(conn, "unexpected reply");
                return NGX_ERROR;
            }

            if (ngx_mcds_reply_match(conn) != NGX_OK) {
                return NGX_ERROR;
            }

            if (conn->reply.stat) {
                ngx_mcds_usage_line(conn->server, &conn->reply.key,
                                    &conn->reply.text);
                continue;
            }

            if (conn->reply.number) {
                conn->reply.has = NGX_MCDS_VALUE;
                conn->reply.len = conn->reply.text.len;
                ngx_mcds_reply_answer(conn, conn->reply.text.data);
                continue;
            }

            if (!(conn->reply.has & NGX_MCDS_VALUE)) {
                ngx_mcds_reply_answer(conn, NULL);
                continue;
            }

            conn->has_reply = 1;
        }

        rc = ngx_mcds_reply_value(conn);

        if (rc == NGX_AGAIN) {
            return NGX_OK;
        }

        if (rc == NGX_ERROR) {
            return NGX_ERROR;
        }
    }
}


/*
 * processes the reply to user and password, which are sent by the classic
 * command "set"
 */

static ngx_int_t
ngx_mcds_reply_process_auth(ngx_mcds_conn_t *conn)
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

    /* the printable part of a refusal to authenticate, for the log */

    for (text.len = 0; text.len < 128 && b->pos + text.len < b->last;
         text.len++)
    {
        if (text.data[text.len] < 0x20 || text.data[text.len] > 0x7e) {
            break;
        }
    }

    conn->reply.text = text;

    ngx_mcds_reply_refused(conn);

    return NGX_ERROR;
}


static ngx_int_t
ngx_mcds_reply_parse(ngx_mcds_conn_t *conn)
{
    ngx_uint_t            words, classic;
    ngx_mcds_exchange_t  *ex;

    classic = conn->server->pool->classic;
    words = NGX_MCDS_WORD_VERSION;

    if (conn->state != NGX_MCDS_CONN_GREETING) {
        ex = ngx_mcds_conn_head(conn);
        words = ex->words;
        classic |= (ex->verb == NGX_MCDS_STATS);
    }

    if (!classic) {
        return ngx_mcds_parse(&conn->reply, conn->in);
    }

    return ngx_mcds_classic_parse(&conn->reply, conn->in, words);
}


/*
 * processes a reply to the greeting of a new connection, "version" and "mn";
 * returns NGX_DECLINED if the reply is not that of a supported memcached
 */

static ngx_int_t
ngx_mcds_reply_process_greeting(ngx_mcds_conn_t *conn)
{
    ngx_mcds_reply_t  *reply;

    reply = &conn->reply;

    if (conn->server->pool->classic) {

        /*
         * the server may reply with the error of a proxy whose own server is
         * down
         */

        if (!reply->version && reply->rc != NGX_MCDS_SERVER_ERROR) {
            return NGX_DECLINED;
        }

        ngx_mcds_conn_ready(conn);

        return NGX_OK;
    }

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
ngx_mcds_reply_refused(ngx_mcds_conn_t *conn)
{
    ngx_str_t   *text;
    ngx_uint_t   level;

    static ngx_str_t  full = ngx_string("ERROR Too many open connections");

    text = &conn->reply.text;

    if (text->len == full.len
        && ngx_memcmp(text->data, full.data, full.len) == 0)
    {
        /*
         * memcached is at its limit of connections: this counts as a failure,
         * not as a sign that the server lacks the pool's protocol (meta or
         * classic), without which it is not used at all
         */

        level = ngx_mcds_server_level(conn->server, NGX_LOG_WARN);

        ngx_log_error(level, &conn->log, 0, "memcached said \"%V\"", text);

        ngx_mcds_conn_fail(conn, NGX_MCDS_CLOSED);
        return;
    }

    if (!conn->retired) {
        ngx_mcds_server_unsupported(conn->server, text);
    }

    ngx_mcds_conn_close(conn, NGX_MCDS_DOWN);
}


/*
 * checks that the reply is that to the first pending operation of the
 * connection
 */

static ngx_int_t
ngx_mcds_reply_match(ngx_mcds_conn_t *conn)
{
    ngx_mcds_exchange_t  *ex;
    ngx_mcds_reply_t     *reply;

    reply = &conn->reply;

    ex = ngx_mcds_conn_head(conn);

    if (ex->end > conn->sent) {

        if ((reply->rc == NGX_MCDS_TOO_LARGE
             || reply->rc == NGX_MCDS_SERVER_ERROR)
            && ex->begin < conn->sent
            && ngx_mcds_verb_stores(ex->verb))
        {
            /*
             * memcached 1.4 sends the error of a value that is too large, or
             * for which it has no memory, before it has read the value
             */

            ngx_mcds_reply_leave(conn, "its answer before the value had left",
                                 NGX_MCDS_PROTOCOL);
            return NGX_ERROR;
        }

        ngx_mcds_reply_doubt(conn, "a reply before the command was sent");
        return NGX_ERROR;
    }

    if (ex->verb == NGX_MCDS_STATS) {
        ngx_mcds_reply_match_stats(conn);
        return NGX_OK;
    }

    if (conn->server->pool->classic) {
        return ngx_mcds_reply_match_classic(conn, ex);
    }

    if (reply->noop || reply->version) {
        ngx_mcds_reply_doubt(conn, "a reply of another kind");
        return NGX_ERROR;
    }

    if (!(reply->has & NGX_MCDS_OPAQUE)) {

        /*
         * a reply without an opaque is accepted if it is of a kind that has no
         * meta flags: an error, or EN, which servers older than 1.6.18 send for
         * a miss
         */

        if (reply->rc == NGX_MCDS_SERVER_ERROR
            || reply->rc == NGX_MCDS_TOO_LARGE
            || (reply->rc == NGX_MCDS_NOT_NUMERIC
                && (ex->verb == NGX_MCDS_INCR || ex->verb == NGX_MCDS_DECR))
            || (reply->rc == NGX_MCDS_NOT_FOUND
                && (ex->verb == NGX_MCDS_GET || ex->verb == NGX_MCDS_TOUCH)
                && conn->bare_misses))
        {
            return NGX_OK;
        }

        ngx_mcds_reply_doubt(conn, "a reply without its opaque");
        return NGX_ERROR;
    }

    if (reply->opaque != ex->opaque) {
        ngx_mcds_reply_doubt(conn, "the reply to another operation");
        return NGX_ERROR;
    }

    if (!(reply->has & NGX_MCDS_KEY)
        || reply->key.len != ex->key.len
        || ngx_memcmp(reply->key.data, ex->key.data, ex->key.len) != 0)
    {
        ngx_mcds_reply_doubt(conn, "a reply with another key");
        return NGX_ERROR;
    }

    if (reply->rc == NGX_MCDS_OK
        && (reply->has & NGX_MCDS_VALUE) != (ex->want & NGX_MCDS_VALUE))
    {
        ngx_mcds_reply_doubt(conn, "a reply of another kind");
        return NGX_ERROR;
    }

    if ((reply->has & NGX_MCDS_VALUE) && reply->len > ex->limit) {
        return ngx_mcds_reply_drop(conn);
    }

    return NGX_OK;
}


/*
 * "ERROR", which has no text, tells that the server does not know "stats"; a
 * SERVER_ERROR, such as "out of memory", does not
 */

static void
ngx_mcds_reply_match_stats(ngx_mcds_conn_t *conn)
{
    ngx_mcds_reply_t  *reply;

    reply = &conn->reply;

    if (reply->rc == NGX_MCDS_SERVER_ERROR
        && reply->text.len == 0
        && !conn->retired)
    {
        conn->server->mute = 1;
    }
}


/*
 * checks the key and the length of the value in a reply of the classic
 * protocol; the parser has checked that the command may have such a reply
 */

static ngx_int_t
ngx_mcds_reply_match_classic(ngx_mcds_conn_t *conn, ngx_mcds_exchange_t *ex)
{
    ngx_mcds_reply_t  *reply;

    reply = &conn->reply;

    if (!(reply->has & NGX_MCDS_VALUE)) {
        return NGX_OK;
    }

    if (reply->key.len != ex->key.len
        || ngx_memcmp(reply->key.data, ex->key.data, ex->key.len) != 0)
    {
        ngx_mcds_reply_doubt(conn, "a reply with another key");
        return NGX_ERROR;
    }

    /* a reply to "gets" has a value even if only the CAS value is wanted */

    if (!(ex->want & NGX_MCDS_VALUE) || reply->len > ex->limit) {
        return ngx_mcds_reply_drop(conn);
    }

    return NGX_OK;
}


/*
 * Drops the value of a reply: a value that another program has stored may have
 * any size, which is no failure of the server.
 */

static ngx_int_t
ngx_mcds_reply_drop(ngx_mcds_conn_t *conn)
{
    if (conn->reply.len > NGX_MCDS_MAX_SKIP) {

        /* to read such a large value only to drop it would take too long */

        ngx_mcds_reply_leave(conn, "a value too large to be skipped",
                             NGX_MCDS_PROTOCOL);
        return NGX_ERROR;
    }

    conn->skip = conn->reply.len + ngx_mcds_reply_tail(conn);

    return NGX_OK;
}


/*
 * Closes the connection and ends its first pending operation; the closing does
 * not count as a failure of the server.  The other pending reads are sent again
 * on a new connection, unless rc is NGX_MCDS_TIMEOUT.
 */

static void
ngx_mcds_reply_leave(ngx_mcds_conn_t *conn, char *why, ngx_uint_t rc)
{
    ngx_mcds_exchange_t  *ex;
    ngx_mcds_result_t     result;

    ngx_log_error(NGX_LOG_INFO, &conn->log, 0,
                  "memcached sent %s, connection closed", why);

    ngx_mcds_client_stat_lost(conn->server, rc);

    ex = ngx_mcds_conn_head(conn);

    if ((ex->want & NGX_MCDS_VALUE) && conn->reply.rc == NGX_MCDS_OK) {
        conn->reply.rc = NGX_MCDS_TOO_LARGE;
    }

    conn->reply.has &= ~(ngx_uint_t) NGX_MCDS_VALUE;

    ex = ngx_mcds_reply_take(conn, &result);

    if (rc == NGX_MCDS_TIMEOUT) {
        ngx_mcds_conn_close(conn, rc);

    } else {
        ngx_mcds_conn_lost(conn);
    }

    ngx_mcds_exchange_done(ex, &result);
}


ngx_int_t
ngx_mcds_reply_late(ngx_mcds_conn_t *conn)
{
    if (conn->skip == 0) {
        return NGX_DECLINED;
    }

    ngx_mcds_reply_leave(conn, "a value too slowly that is to be skipped",
                         NGX_MCDS_TIMEOUT);

    return NGX_OK;
}


static ngx_int_t
ngx_mcds_reply_value(ngx_mcds_conn_t *conn)
{
    u_char            *end;
    size_t             size, len, whole;
    ngx_buf_t         *b;
    ngx_mcds_value_t  *value;

    if (conn->skip) {
        return ngx_mcds_reply_skip(conn);
    }

    b = conn->in;
    len = conn->reply.len;
    whole = len + ngx_mcds_reply_tail(conn);
    size = b->last - b->pos;
    value = conn->value;

    if (value == NULL && whole > (size_t) (b->end - b->start) / 2) {

        value = ngx_mcds_value_create(whole, &conn->log);
        if (value == NULL) {
            return ngx_mcds_reply_no_memory(conn);
        }

        value->len = ngx_min(size, whole);
        ngx_memcpy(value->data, b->pos, value->len);
        b->pos += value->len;

        conn->value = value;
    }

    if (value) {
        if (value->len < whole) {
            return NGX_AGAIN;
        }

        value->len = len;
        end = value->data + len;

    } else {
        if (size < whole) {
            return NGX_AGAIN;
        }

        end = b->pos + len;
        b->pos += whole;
    }

    if (ngx_memcmp(end, NGX_MCDS_TAIL, whole - len) != 0) {
        ngx_mcds_reply_doubt(conn, "a value of another length");
        return NGX_ERROR;
    }

    conn->has_reply = 0;
    ngx_mcds_reply_answer(conn, end - len);

    return NGX_OK;
}


/*
 * Drops a value for which the worker has no memory: only the read of this value
 * fails, not the server, nor other operations on the connection.
 */

static ngx_int_t
ngx_mcds_reply_no_memory(ngx_mcds_conn_t *conn)
{
    ngx_log_error(NGX_LOG_WARN, &conn->log, 0,
                  "no memory for a value of %uz bytes, it is not read",
                  conn->reply.len);

    conn->reply.rc = NGX_MCDS_BUSY;

    if (ngx_mcds_reply_drop(conn) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_mcds_reply_skip(conn);
}


/*
 * drops the received bytes of a value that is above the limit of the operation,
 * or not wanted, or for which the worker has no memory
 */

static ngx_int_t
ngx_mcds_reply_skip(ngx_mcds_conn_t *conn)
{
    size_t                size, tail;
    ngx_buf_t            *b;
    ngx_mcds_exchange_t  *ex;

    b = conn->in;
    tail = ngx_mcds_reply_tail(conn);

    size = ngx_min((size_t) (b->last - b->pos), conn->skip - tail);

    b->pos += size;
    conn->skip -= size;

    if (conn->skip > tail || (size_t) (b->last - b->pos) < tail) {
        return NGX_AGAIN;
    }

    if (ngx_memcmp(b->pos, NGX_MCDS_TAIL, tail) != 0) {
        ngx_mcds_reply_doubt(conn, "a value of another length");
        return NGX_ERROR;
    }

    b->pos += tail;

    ex = ngx_mcds_conn_head(conn);

    if ((ex->want & NGX_MCDS_VALUE) && conn->reply.rc == NGX_MCDS_OK) {
        conn->reply.rc = NGX_MCDS_TOO_LARGE;
    }

    conn->skip = 0;
    conn->has_reply = 0;
    conn->reply.has &= ~(ngx_uint_t) NGX_MCDS_VALUE;

    ngx_mcds_reply_answer(conn, NULL);

    return NGX_OK;
}


static void
ngx_mcds_reply_answer(ngx_mcds_conn_t *conn, u_char *data)
{
    ngx_mcds_exchange_t  *ex;
    ngx_mcds_value_t     *value;
    ngx_mcds_result_t     result;

    ex = ngx_mcds_reply_take(conn, &result);

    if (data) {
        result.data = data;
        result.len = conn->reply.len;
    }

    value = conn->value;
    conn->value = NULL;

    result.value = value;

    ngx_mcds_exchange_done(ex, &result);
    ngx_mcds_value_unref(value);
}


/*
 * removes the first pending operation of the connection, and fills its result
 */

static ngx_mcds_exchange_t *
ngx_mcds_reply_take(ngx_mcds_conn_t *conn, ngx_mcds_result_t *result)
{
    ngx_queue_t    *q;
    ngx_mcds_exchange_t  *ex;

    q = ngx_queue_head(&conn->exchanges);
    ex = ngx_queue_data(q, ngx_mcds_exchange_t, queue);

    ngx_queue_remove(q);
    conn->pending--;
    conn->pending_size -= ex->size;

    if ((conn->server->fails || conn->server->down || conn->server->told)
        && !conn->retired)
    {
        ngx_mcds_server_answered(conn->server);
    }

    ngx_mcds_client_stat_answer(conn, ex, conn->reply.rc);

    result->rc = conn->reply.rc;
    result->has = conn->reply.has;
    result->cas = conn->reply.cas;
    result->ttl = conn->reply.ttl;
    result->flags = conn->reply.flags;
    result->data = NULL;
    result->len = 0;
    result->value = NULL;

    return ex;
}


static void
ngx_mcds_reply_doubt(ngx_mcds_conn_t *conn, char *why)
{
    ngx_uint_t  level;

    level = ngx_mcds_server_level(conn->server, NGX_LOG_ERR);

    ngx_log_error(level, &conn->log, 0,
                  "memcached sent %s, connection closed", why);

    ngx_mcds_conn_fail(conn, NGX_MCDS_PROTOCOL);
}


/*
 * Copyright (C) mcds authors
 *
 * The unsent commands of a connection.  The test replaces the socket: with TLS
 * by one that is full whenever a record has been written, as OpenSSL reports
 * the bytes of a buffer only when all its records are written.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_out.c"
#include "tap.h"


static void test_grows(void);
#if (NGX_SSL)
static void test_tls(void);
static ngx_chain_t *tls_chain(ngx_connection_t *c, ngx_chain_t *in,
    off_t limit);
#endif
static void start(ngx_send_chain_pt send_chain);
static void push(ngx_mcds_exchange_t *ex, char *key);
static ngx_chain_t *full_chain(ngx_connection_t *c, ngx_chain_t *in,
    off_t limit);


static ngx_mcds_conn_t      conn;
static ngx_mcds_server_t    server;
static ngx_mcds_pool_t      pool;
static ngx_connection_t     connection;
static ngx_event_t          wev;
static ngx_mcds_exchange_t  exchange[3];
static ngx_log_t            test_log;
static off_t                written;   /* bytes of the first buffer that the
                                          server has */
static off_t                record;    /* bytes of the record that OpenSSL is
                                          writing */


ngx_queue_t                 ngx_posted_events;


void
ngx_mcds_client_stat_sum(ngx_mcds_server_t *server, ngx_uint_t i, uint64_t n)
{
    /* void */
}


uint64_t
ngx_mcds_client_stat_clock(void)
{
    return 0;
}


void
ngx_mcds_conn_lost(ngx_mcds_conn_t *conn)
{
    /* void */
}


void
ngx_mcds_conn_fail(ngx_mcds_conn_t *conn, ngx_uint_t rc)
{
    /* void */
}


void
ngx_mcds_conn_close(ngx_mcds_conn_t *conn, ngx_uint_t rc)
{
    /* void */
}


void
ngx_mcds_conn_set_timer(ngx_mcds_conn_t *conn)
{
    /* void */
}


ngx_int_t
ngx_handle_write_event(ngx_event_t *wev, size_t lowat)
{
    return NGX_OK;
}


int
main(void)
{
    test_grows();
#if (NGX_SSL)
    test_tls();
#endif

    return done_testing();
}


static void
test_grows(void)
{
    start(full_chain);

    push(&exchange[0], "a");
    ngx_mcds_conn_send(&conn);
    push(&exchange[1], "b");

    ok(conn.out && conn.out->next == NULL,
       "without TLS: later commands join the block");
    ok(conn.sent == 0 && conn.queued == exchange[1].end, "nothing is sent");
}


#if (NGX_SSL)

static void
test_tls(void)
{
    start(tls_chain);

    connection.ssl = (ngx_ssl_connection_t *) &connection;

    push(&exchange[0], "a");
    ngx_mcds_conn_send(&conn);
    ok(conn.sent == 0 && record == (off_t) exchange[0].end,
       "TLS: the record of a command is being written");

    push(&exchange[1], "b");
    ngx_mcds_conn_send(&conn);
    ok(conn.sent == exchange[0].end, "TLS: the command is sent, and the server "
       "may reply, while the next one is being written");

    push(&exchange[2], "c");
    ngx_mcds_conn_send(&conn);
    ok(conn.sent == exchange[1].end, "TLS: so it is with the next one");

    ngx_mcds_conn_send(&conn);
    ok(conn.sent == exchange[2].end && conn.out == NULL && conn.last == NULL,
       "TLS: all is sent");
}


/*
 * writes the record that OpenSSL has of a buffer, and begins one of the
 * buffer's other bytes, or of the next buffer
 */

static ngx_chain_t *
tls_chain(ngx_connection_t *c, ngx_chain_t *in, off_t limit)
{
    off_t  size;

    written += record;

    for ( /* void */ ; in; in = in->next) {
        size = in->buf->last - in->buf->pos;

        if (written < size) {
            record = size - written;
            return in;
        }

        in->buf->pos = in->buf->last;
        c->sent += size;
        written = 0;
        record = 0;
    }

    return NULL;
}

#endif


static ngx_chain_t *
full_chain(ngx_connection_t *c, ngx_chain_t *in, off_t limit)
{
    return in;
}


static void
start(ngx_send_chain_pt send_chain)
{
    while (conn.out) {
        conn.last = (ngx_mcds_block_t *) ((u_char *) conn.out
                                          - offsetof(ngx_mcds_block_t, chain));
        conn.out = conn.out->next;
        ngx_free(conn.last);
    }

    ngx_memzero(&conn, sizeof(ngx_mcds_conn_t));
    ngx_memzero(&connection, sizeof(ngx_connection_t));

    ngx_queue_init(&ngx_posted_events);
    ngx_queue_init(&conn.exchanges);

    pool.max_pending = 10;
    pool.max_pending_size = 1024 * 1024;
    server.pool = &pool;

    conn.server = &server;
    conn.flush.log = &test_log;
    conn.peer.connection = &connection;

    wev.ready = 1;
    connection.write = &wev;
    connection.send_chain = send_chain;

    written = 0;
    record = 0;
}


static void
push(ngx_mcds_exchange_t *ex, char *key)
{
    ngx_str_t       none;
    ngx_mcds_cmd_t  cmd;

    ngx_str_null(&none);
    ngx_memzero(ex, sizeof(ngx_mcds_exchange_t));
    ngx_memzero(&cmd, sizeof(ngx_mcds_cmd_t));

    cmd.verb = NGX_MCDS_GET;
    cmd.key.data = (u_char *) key;
    cmd.key.len = ngx_strlen(key);

    if (ngx_mcds_conn_push(&conn, ex, &cmd, &none) != NGX_OK) {
        printf("# no room\n");
        exit(1);
    }
}

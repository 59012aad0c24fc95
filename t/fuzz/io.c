
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_event_connect.h>
#include <netdb.h>
#include "ngx_mcds_conn.h"
#include "ngx_mcds_resolve.h"
#include "io.h"


static void io_init(void) __attribute__((constructor));
static ssize_t io_recv(ngx_connection_t *c, u_char *buf, size_t size);
static ssize_t io_send(ngx_connection_t *c, u_char *buf, size_t size);
static ngx_chain_t *io_send_chain(ngx_connection_t *c, ngx_chain_t *in,
    off_t limit);


io_t  io;

/* variables of nginx's event loop that client/ needs */

ngx_queue_t    ngx_posted_events;
ngx_rbtree_t   ngx_event_timer_rbtree;
ngx_uint_t     ngx_exiting;
sig_atomic_t   ngx_exiting_signal;

static ngx_rbtree_node_t  io_sentinel;


static void
io_init(void)
{
    ngx_queue_init(&ngx_posted_events);
    ngx_rbtree_init(&ngx_event_timer_rbtree, &io_sentinel,
                    ngx_rbtree_insert_timer_value);
}


void
io_reset(void)
{
    memset(&io, 0, sizeof(io));
    io.room = sizeof(io.out);
}


void
io_posted(void)
{
    ngx_event_t  *ev;
    ngx_queue_t  *q;

    while (!ngx_queue_empty(&ngx_posted_events)) {
        q = ngx_queue_head(&ngx_posted_events);
        ev = ngx_queue_data(q, ngx_event_t, queue);
        ngx_delete_posted_event(ev);
        ev->handler(ev);
    }
}


void
io_later(ngx_msec_t ms)
{
    ngx_event_t        *ev;
    ngx_rbtree_node_t  *node;

    ngx_current_msec += ms;

    while (ngx_event_timer_rbtree.root != &io_sentinel) {
        node = ngx_rbtree_min(ngx_event_timer_rbtree.root, &io_sentinel);

        if ((ngx_msec_int_t) (node->key - ngx_current_msec) > 0) {
            break;
        }

        ev = ngx_rbtree_data(node, ngx_event_t, timer);
        ngx_del_timer(ev);
        ev->timedout = 1;
        ev->handler(ev);
    }

    io_posted();
}


ngx_int_t
ngx_event_connect_peer(ngx_peer_connection_t *pc)
{
    ngx_connection_t  *c;

    c = calloc(1, sizeof(ngx_connection_t));
    c->read = calloc(1, sizeof(ngx_event_t));
    c->write = calloc(1, sizeof(ngx_event_t));

    c->fd = -1;
    c->log = pc->log;
    c->recv = io_recv;
    c->send = io_send;
    c->send_chain = io_send_chain;

    c->read->data = c;
    c->write->data = c;
    c->write->write = 1;
    c->write->ready = !io.slow;

    pc->connection = c;

    if (io.connect) {
        c->recv = io.recv;
        c->send = io.send;

        return io.connect(c);
    }

    if (io.opened == 1) {
        memcpy(io.first, io.out, io.out_len);
        io.first_len = io.out_len;
    }

    io.connection = c;
    io.opened++;
    io.out_len = 0;

    return io.slow ? NGX_AGAIN : NGX_OK;
}


ngx_int_t
ngx_event_get_peer(ngx_peer_connection_t *pc, void *data)
{
    return NGX_OK;
}


void
ngx_close_connection(ngx_connection_t *c)
{
    if (io.close) {
        io.close(c);
    }

    if (io.connection == c) {
        io.connection = NULL;
    }

    free(c->read);
    free(c->write);
    free(c);
}


ngx_int_t
ngx_handle_read_event(ngx_event_t *rev, ngx_uint_t flags)
{
    return NGX_OK;
}


ngx_int_t
ngx_handle_write_event(ngx_event_t *wev, size_t lowat)
{
    return NGX_OK;
}


ngx_int_t
ngx_tcp_nodelay(ngx_connection_t *c)
{
    c->tcp_nodelay = NGX_TCP_NODELAY_SET;

    return NGX_OK;
}


static ssize_t
io_recv(ngx_connection_t *c, u_char *buf, size_t size)
{
    if (io.in_len == 0) {
        c->read->ready = 0;
        return io.eof ? 0 : NGX_AGAIN;
    }

    if (size == 0) {
        abort();
    }

    size = ngx_min(size, io.in_len);

    memcpy(buf, io.in, size);
    io.in += size;
    io.in_len -= size;

    c->read->ready = 1;

    return size;
}


static ssize_t
io_send(ngx_connection_t *c, u_char *buf, size_t size)
{
    size = ngx_min(size, io.room - io.out_len);

    memcpy(io.out + io.out_len, buf, size);
    io.out_len += size;

    c->sent += size;

    return size;
}


static ngx_chain_t *
io_send_chain(ngx_connection_t *c, ngx_chain_t *in, off_t limit)
{
    ssize_t     n;
    ngx_buf_t  *b;

    for ( /* void */ ; in; in = in->next) {
        b = in->buf;

        n = c->send(c, b->pos, b->last - b->pos);

        if (n == NGX_ERROR) {
            return NGX_CHAIN_ERROR;
        }

        if (n > 0) {
            b->pos += n;
        }

        if (b->pos != b->last) {
            c->write->ready = 0;
            break;
        }
    }

    return in;
}


#if (NGX_SSL)

/* replace the functions for TLS, which no pool of a fuzzer has */

ngx_int_t
ngx_mcds_ssl_handshake(ngx_mcds_conn_t *conn,
    void (*handler)(ngx_mcds_conn_t *conn, ngx_int_t rc))
{
    abort();
}


void
ngx_mcds_ssl_close(ngx_connection_t *c)
{
    abort();
}

#endif


/* replace the functions that resolve names again: addresses do not change */

void
ngx_mcds_resolve_connected(ngx_mcds_server_t *server)
{
}


void
ngx_mcds_resolve_next(ngx_mcds_server_t *server)
{
}


void
ngx_mcds_resolve_stop(ngx_mcds_server_t *server)
{
}


/* replaces getsockopt(), which tells the client that connect() has succeeded */

int
getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
    memset(value, 0, *len);

    return 0;
}


/*
 * replaces getaddrinfo(): the host name "no" is unknown, all others have the
 * address 127.0.0.1
 */

int
getaddrinfo(const char *node, const char *service,
    const struct addrinfo *hints, struct addrinfo **res)
{
    struct addrinfo     *ai;
    struct sockaddr_in  *sin;

    if (node == NULL || strcmp(node, "no") == 0) {
        return EAI_NONAME;
    }

    ai = calloc(1, sizeof(struct addrinfo) + sizeof(struct sockaddr_in));
    sin = (struct sockaddr_in *) (ai + 1);

    sin->sin_family = AF_INET;
    sin->sin_addr.s_addr = htonl(INADDR_LOOPBACK);

    ai->ai_family = AF_INET;
    ai->ai_socktype = SOCK_STREAM;
    ai->ai_addr = (struct sockaddr *) sin;
    ai->ai_addrlen = sizeof(struct sockaddr_in);

    *res = ai;

    return 0;
}


void
freeaddrinfo(struct addrinfo *res)
{
    free(res);
}


/*
 * Copyright (C) mcds authors
 *
 * Sockets, timers and posted events of one program that waits: poll(), since
 * there are few of them.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_event_connect.h>
#include <poll.h>
#include "../../src/client/ngx_mcds_resolve.h"
#include "ngx_tool.h"


#define NGX_TOOL_CONNECTIONS      512


static ssize_t ngx_tool_recv(ngx_connection_t *c, u_char *buf, size_t size);
static ssize_t ngx_tool_send(ngx_connection_t *c, u_char *buf, size_t size);
static ngx_chain_t *ngx_tool_send_chain(ngx_connection_t *c, ngx_chain_t *in,
    off_t limit);
static ngx_connection_t *ngx_tool_create(int fd, ngx_log_t *log);
static void ngx_tool_posted(ngx_uint_t *done);
static ngx_uint_t ngx_tool_expire(ngx_uint_t *done);
static ngx_int_t ngx_tool_poll(void);
static void ngx_tool_connection(ngx_connection_t *c, short revents);


volatile ngx_msec_t    ngx_current_msec;
volatile ngx_time_t   *ngx_cached_time;
volatile ngx_cycle_t  *ngx_cycle;

ngx_queue_t            ngx_posted_events;
ngx_queue_t            ngx_posted_next_events;
ngx_rbtree_t           ngx_event_timer_rbtree;
ngx_uint_t             ngx_exiting;
ngx_pid_t              ngx_pid;

static ngx_cycle_t        ngx_tool_cycle;
static ngx_log_t          ngx_tool_log;
static ngx_time_t         ngx_tool_time;
static u_char             ngx_tool_host[NGX_MAXHOSTNAMELEN];
static ngx_rbtree_node_t  ngx_tool_sentinel;

static ngx_connection_t  *ngx_tool_connections[NGX_TOOL_CONNECTIONS];
static ngx_atomic_uint_t  ngx_tool_number;


void
ngx_tool_init(ngx_uint_t log_level)
{
    ngx_tool_log.log_level = log_level;
    ngx_tool_cycle.log = &ngx_tool_log;
    ngx_cycle = &ngx_tool_cycle;
    ngx_pid = getpid();

    /* as nginx has it */

    if (gethostname((char *) ngx_tool_host, NGX_MAXHOSTNAMELEN) == 0) {
        ngx_tool_host[NGX_MAXHOSTNAMELEN - 1] = '\0';
        ngx_tool_cycle.hostname.data = ngx_tool_host;
        ngx_tool_cycle.hostname.len = ngx_strlen(ngx_tool_host);
        ngx_strlow(ngx_tool_host, ngx_tool_host, ngx_tool_cycle.hostname.len);
    }

    ngx_queue_init(&ngx_posted_events);
    ngx_queue_init(&ngx_posted_next_events);
    ngx_rbtree_init(&ngx_event_timer_rbtree, &ngx_tool_sentinel,
                    ngx_rbtree_insert_timer_value);

    ngx_tool_update_time();

    srandom(ngx_pid ^ ngx_tool_time.msec);
}


void
ngx_tool_update_time(void)
{
    struct timespec  ts;

    (void) clock_gettime(CLOCK_REALTIME, &ts);

    ngx_tool_time.sec = ts.tv_sec;
    ngx_tool_time.msec = ts.tv_nsec / 1000000;
    ngx_cached_time = &ngx_tool_time;

    (void) clock_gettime(CLOCK_MONOTONIC, &ts);

    ngx_current_msec = (ngx_msec_t) ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}


#ifdef ngx_src_file

/* Angie */

void
ngx_log_error_core(ngx_uint_t level, ngx_log_t *log, const char *filename,
    ngx_err_t err, const char *fmt, ...)

#else

void
ngx_log_error_core(ngx_uint_t level, ngx_log_t *log, ngx_err_t err,
    const char *fmt, ...)

#endif
{
    u_char   *p, *last, *q, text[NGX_MAX_ERROR_STR];
    va_list   args;

    last = text + sizeof(text);

    va_start(args, fmt);
    p = ngx_vslprintf(text, last, fmt, args);
    va_end(args);

    if (err) {
        p = ngx_slprintf(p, last, " (%s)", strerror(err));
    }

    if (log->handler) {
        p = log->handler(log, p, last - p);
    }

    for (q = text; q < p; q++) {
        if (*q < 0x20 || *q == 0x7f) {
            *q = '?';
        }
    }

    (void) fprintf(stderr, "mcds: %.*s\n", (int) (p - text), text);
}


ngx_int_t
ngx_event_connect_peer(ngx_peer_connection_t *pc)
{
    int                fd, rc;
    ngx_connection_t  *c;

    fd = socket(pc->sockaddr->sa_family,
                SOCK_STREAM|SOCK_NONBLOCK|SOCK_CLOEXEC, 0);

    if (fd == -1) {
        return NGX_ERROR;
    }

    c = ngx_tool_create(fd, pc->log);

    if (c == NULL) {
        (void) close(fd);
        return NGX_ERROR;
    }

    c->recv = ngx_tool_recv;
    c->send = ngx_tool_send;
    c->send_chain = ngx_tool_send_chain;

    if (pc->sockaddr->sa_family == AF_UNIX) {
        c->tcp_nodelay = NGX_TCP_NODELAY_DISABLED;
    }

    pc->connection = c;

    rc = connect(fd, pc->sockaddr, pc->socklen);

    if (rc == -1 && ngx_errno == NGX_EINPROGRESS) {
        return NGX_AGAIN;
    }

    c->write->ready = 1;

    return (rc == -1) ? NGX_DECLINED : NGX_OK;
}


/* NULL: there are too many, or no memory */

static ngx_connection_t *
ngx_tool_create(int fd, ngx_log_t *log)
{
    ngx_uint_t         i;
    ngx_connection_t  *c;

    for (i = 0; i < NGX_TOOL_CONNECTIONS; i++) {
        if (ngx_tool_connections[i] == NULL) {
            break;
        }
    }

    if (i == NGX_TOOL_CONNECTIONS) {
        return NULL;
    }

    /* one block: the connection and its two events */

    c = ngx_calloc(sizeof(ngx_connection_t) + 2 * sizeof(ngx_event_t), log);

    if (c == NULL) {
        return NULL;
    }

    c->read = (ngx_event_t *) &c[1];
    c->write = c->read + 1;
    c->fd = fd;
    c->log = log;
    c->number = ++ngx_tool_number;

    c->read->data = c;
    c->read->log = log;
    c->write->data = c;
    c->write->log = log;
    c->write->write = 1;

    ngx_tool_connections[i] = c;

    return c;
}


ngx_connection_t *
ngx_tool_watch(int fd, ngx_event_handler_pt handler, void *data)
{
    ngx_connection_t  *c;

    c = ngx_tool_create(fd, ngx_cycle->log);

    if (c) {
        c->data = data;
        c->read->handler = handler;
        c->write->ready = 1;
    }

    return c;
}


void
ngx_tool_unwatch(ngx_connection_t *c)
{
    ngx_uint_t  i;

    for (i = 0; i < NGX_TOOL_CONNECTIONS; i++) {
        if (ngx_tool_connections[i] == c) {
            ngx_tool_connections[i] = NULL;
            break;
        }
    }

    ngx_free(c);
}


ngx_int_t
ngx_event_get_peer(ngx_peer_connection_t *pc, void *data)
{
    return NGX_OK;
}


void
ngx_close_connection(ngx_connection_t *c)
{
    ngx_uint_t  i;

    for (i = 0; i < NGX_TOOL_CONNECTIONS; i++) {
        if (ngx_tool_connections[i] == c) {
            ngx_tool_connections[i] = NULL;
            break;
        }
    }

    if (c->read->posted) {
        ngx_delete_posted_event(c->read);
    }

    if (c->write->posted) {
        ngx_delete_posted_event(c->write);
    }

    (void) close(c->fd);

    ngx_free(c);
}


/* all that is not ready is waited for, anyway */

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
    int  on;

    on = 1;

    (void) setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(int));

    c->tcp_nodelay = NGX_TCP_NODELAY_SET;

    return NGX_OK;
}


static ssize_t
ngx_tool_recv(ngx_connection_t *c, u_char *buf, size_t size)
{
    ssize_t  n;

    do {
        n = recv(c->fd, buf, size, 0);
    } while (n == -1 && ngx_errno == NGX_EINTR);

    c->read->ready = (n == (ssize_t) size);

    if (n == 0) {
        c->read->eof = 1;
    }

    if (n == -1) {
        return (ngx_errno == NGX_EAGAIN) ? NGX_AGAIN : NGX_ERROR;
    }

    return n;
}


static ssize_t
ngx_tool_send(ngx_connection_t *c, u_char *buf, size_t size)
{
    ssize_t  n;

    do {
        n = send(c->fd, buf, size, MSG_NOSIGNAL);
    } while (n == -1 && ngx_errno == NGX_EINTR);

    if (n == -1) {
        if (ngx_errno != NGX_EAGAIN) {
            return NGX_ERROR;
        }

        c->write->ready = 0;
        return NGX_AGAIN;
    }

    if (n < (ssize_t) size) {
        c->write->ready = 0;
    }

    c->sent += n;

    return n;
}


static ngx_chain_t *
ngx_tool_send_chain(ngx_connection_t *c, ngx_chain_t *in, off_t limit)
{
    ssize_t     n;
    ngx_buf_t  *b;

    for ( /* void */ ; in; in = in->next) {
        b = in->buf;

        while (b->pos != b->last) {

            n = c->write->ready ? c->send(c, b->pos, b->last - b->pos)
                                : NGX_AGAIN;

            if (n == NGX_ERROR) {
                return NGX_CHAIN_ERROR;
            }

            if (n == NGX_AGAIN) {
                return in;
            }

            b->pos += n;
        }
    }

    return NULL;
}


ngx_int_t
ngx_tool_run(ngx_uint_t *done)
{
    for ( ;; ) {
        ngx_tool_update_time();
        ngx_tool_posted(done);

        if (*done || ngx_tool_expire(done)) {
            if (*done) {
                return NGX_OK;
            }

            continue;
        }

        if (ngx_tool_poll() != NGX_OK) {
            return NGX_ERROR;
        }
    }
}


static void
ngx_tool_posted(ngx_uint_t *done)
{
    ngx_event_t  *ev;
    ngx_queue_t  *q;

    while (!*done && !ngx_queue_empty(&ngx_posted_events)) {
        q = ngx_queue_head(&ngx_posted_events);
        ev = ngx_queue_data(q, ngx_event_t, queue);

        ngx_delete_posted_event(ev);
        ev->handler(ev);
    }

    while (!ngx_queue_empty(&ngx_posted_next_events)) {
        q = ngx_queue_head(&ngx_posted_next_events);
        ngx_queue_remove(q);
        ngx_queue_insert_tail(&ngx_posted_events, q);
    }
}


/* 1 if there was a timer whose time has come */

static ngx_uint_t
ngx_tool_expire(ngx_uint_t *done)
{
    ngx_uint_t          n;
    ngx_event_t        *ev;
    ngx_rbtree_node_t  *node;

    for (n = 0; !*done; n++) {

        if (ngx_event_timer_rbtree.root == &ngx_tool_sentinel) {
            break;
        }

        node = ngx_rbtree_min(ngx_event_timer_rbtree.root,
                              &ngx_tool_sentinel);

        if ((ngx_msec_int_t) (node->key - ngx_current_msec) > 0) {
            break;
        }

        ev = ngx_rbtree_data(node, ngx_event_t, timer);

        ngx_rbtree_delete(&ngx_event_timer_rbtree, &ev->timer);
        ev->timer_set = 0;
        ev->timedout = 1;
        ev->handler(ev);
    }

    return n;
}


/* NGX_ERROR: there is nothing to wait for */

static ngx_int_t
ngx_tool_poll(void)
{
    int                 ms, n;
    ngx_uint_t          i, nfds;
    struct pollfd       fds[NGX_TOOL_CONNECTIONS];
    ngx_connection_t   *c, *polled[NGX_TOOL_CONNECTIONS];
    ngx_rbtree_node_t  *node;
    ngx_atomic_uint_t   number;
    ngx_uint_t          slots[NGX_TOOL_CONNECTIONS];

    nfds = 0;
    number = ngx_tool_number;

    for (i = 0; i < NGX_TOOL_CONNECTIONS; i++) {
        c = ngx_tool_connections[i];

        if (c == NULL) {
            continue;
        }

        fds[nfds].fd = c->fd;
        fds[nfds].events = POLLIN | (c->write->ready ? 0 : POLLOUT);
        fds[nfds].revents = 0;
        slots[nfds] = i;
        polled[nfds++] = c;
    }

    if (ngx_event_timer_rbtree.root == &ngx_tool_sentinel) {

        if (nfds == 0) {
            return ngx_queue_empty(&ngx_posted_events) ? NGX_ERROR : NGX_OK;
        }

        ms = -1;

    } else {
        node = ngx_rbtree_min(ngx_event_timer_rbtree.root,
                              &ngx_tool_sentinel);
        ngx_tool_update_time();
        ms = (int) ngx_max((ngx_msec_int_t) (node->key - ngx_current_msec), 0);
    }

    if (!ngx_queue_empty(&ngx_posted_events)) {
        ms = 0;
    }

    n = poll(fds, nfds, ms);

    ngx_tool_update_time();

    for (i = 0; n > 0 && i < nfds; i++) {
        c = polled[i];

        /* a handler may have closed it, and have made another there */

        if (fds[i].revents && ngx_tool_connections[slots[i]] == c
            && c->number <= number)
        {
            ngx_tool_connection(c, fds[i].revents);
        }
    }

    return NGX_OK;
}


static void
ngx_tool_connection(ngx_connection_t *c, short revents)
{
    ngx_uint_t         i;
    ngx_atomic_uint_t  number;

    number = c->number;

    if (revents & (POLLERR|POLLHUP|POLLNVAL)) {
        revents |= POLLIN | (c->write->ready ? 0 : POLLOUT);
    }

    if (revents & POLLOUT) {
        c->write->ready = 1;
        c->write->handler(c->write);
    }

    for (i = 0; i < NGX_TOOL_CONNECTIONS; i++) {
        if (ngx_tool_connections[i] == c) {
            break;
        }
    }

    if (i == NGX_TOOL_CONNECTIONS || c->number != number) {
        return;
    }

    if (revents & POLLIN) {
        c->read->ready = 1;
        c->read->handler(c->read);
    }
}


/* there is one thread */

void
ngx_shmtx_lock(ngx_shmtx_t *mtx)
{
    /* void */
}


void
ngx_shmtx_unlock(ngx_shmtx_t *mtx)
{
    /* void */
}


/* a program ends before an address does */

void
ngx_mcds_resolve_connected(ngx_mcds_server_t *server)
{
    /* void */
}


void
ngx_mcds_resolve_next(ngx_mcds_server_t *server)
{
    /* void */
}


void
ngx_mcds_resolve_stop(ngx_mcds_server_t *server)
{
    /* void */
}

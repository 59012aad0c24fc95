
/*
 * Copyright (C) mcds authors
 *
 * The origin of the long chaos run.
 *
 *   origin -p port -o history [-s seed]
 *
 * Answers /location/kind/number with a body of jepsen.h; the kind says how the
 * response may be stored:
 *
 *   s   for a second         m   for a second, must-revalidate
 *   k   for a minute         l   for a minute, and larger than an item
 *   v   for a minute, by Accept-Language
 *   u   for a second; the page of the cookie "session" or of Authorization
 *   t   with Set-Cookie; the page of X-Token
 *   p   accepts POST, for a minute
 *
 * Requests of a path with /lock/ must not overlap: the history gets a line for
 * each of them,
 *
 *   O begin end path token whole
 */


#define _GNU_SOURCE

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "jepsen.h"


#define MAX_CONNS    1024
#define MAX_REQUEST  16384


typedef struct {
    int        fd;
    int        busy;
    int        lock;
    uint64_t   begin;
    uint64_t   due;
    char       path[256];
    char       token[64];
    char      *out;
    size_t     out_len;
    size_t     sent;
    size_t     len;
    char       in[MAX_REQUEST + 1];
} conn_t;


static void open_conn(void);
static void close_conn(conn_t *c);
static void take(conn_t *c);
static void request(conn_t *c, char *head);
static size_t size_of(char kind);
static void answer(conn_t *c, char *head, char kind);
static void pass(conn_t *c);


static int        ep, listener;
static conn_t    *conns[MAX_CONNS];
static uint64_t   rnd = 88172645463325252, serial;
static FILE      *history;


int
main(int argc, char **argv)
{
    int                  i, n, one, opt, port;
    char                *path;
    conn_t              *c;
    uint64_t             now, wake;
    struct sockaddr_in   sin;
    struct epoll_event   ev, events[128];

    port = 0;
    path = NULL;

    while ((opt = getopt(argc, argv, "p:o:s:")) != -1) {
        switch (opt) {
        case 'p': port = atoi(optarg); break;
        case 'o': path = optarg; break;
        case 's': rnd += strtoull(optarg, NULL, 10) * 7919; break;
        default: return 2;
        }
    }

    history = path ? fopen(path, "w") : NULL;

    if (port == 0 || history == NULL) {
        fprintf(stderr, "origin: -p and -o are needed\n");
        return 2;
    }

    setvbuf(history, NULL, _IOLBF, 0);

    ep = epoll_create1(0);
    listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    one = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));

    memset(&sin, 0, sizeof(sin));
    sin.sin_family = AF_INET;
    sin.sin_port = htons(port);
    sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);

    if (bind(listener, (struct sockaddr *) &sin, sizeof(sin)) == -1
        || listen(listener, 511) == -1)
    {
        fprintf(stderr, "origin: port %d: %s\n", port, strerror(errno));
        return 1;
    }

    ev.events = EPOLLIN;
    ev.data.ptr = NULL;
    epoll_ctl(ep, EPOLL_CTL_ADD, listener, &ev);

    wake = 1000;

    for ( ;; ) {
        n = epoll_wait(ep, events, 128, wake);

        for (i = 0; i < n; i++) {
            c = events[i].data.ptr;

            if (c == NULL) {
                open_conn();
                continue;
            }

            if (c->fd != -1 && (events[i].events & EPOLLOUT) && c->out) {
                pass(c);
            }

            if (c->fd != -1
                && (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
            {
                take(c);
            }
        }

        now = jepsen_now();
        wake = 1000;

        for (i = 0; i < MAX_CONNS; i++) {
            c = conns[i];

            if (c && c->fd == -1) {
                free(c);
                conns[i] = NULL;
                continue;
            }

            if (c == NULL || !c->busy || c->due == 0) {
                continue;
            }

            if (c->due <= now) {
                c->due = 0;
                pass(c);

            } else if ((c->due - now) / 1000 + 1 < wake) {
                wake = (c->due - now) / 1000 + 1;
            }
        }
    }
}


static void
open_conn(void)
{
    int                  fd, i, one;
    conn_t              *c;
    struct epoll_event   ev;

    fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
    if (fd == -1) {
        return;
    }

    for (i = 0; i < MAX_CONNS && conns[i]; i++) { /* void */ }

    if (i == MAX_CONNS) {
        close(fd);
        return;
    }

    c = calloc(1, sizeof(conn_t));
    c->fd = fd;
    conns[i] = c;

    one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));

    ev.events = EPOLLIN | EPOLLOUT | EPOLLET;
    ev.data.ptr = c;
    epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev);
}


/*
 * Closes a connection; main() frees it when no event of this turn can be for
 * it.
 */

static void
close_conn(conn_t *c)
{
    if (c->busy && c->lock) {
        fprintf(history, "O %llu %llu %s %s left\n",
                (unsigned long long) c->begin,
                (unsigned long long) jepsen_now(), c->path, c->token);
    }

    close(c->fd);
    c->fd = -1;
    free(c->out);
    c->out = NULL;
    c->busy = 0;
}


static void
take(conn_t *c)
{
    char     *end, text[32];
    size_t    total;
    ssize_t   n;

    for ( ;; ) {
        if (c->len == MAX_REQUEST) {
            close_conn(c);
            return;
        }

        n = recv(c->fd, c->in + c->len, MAX_REQUEST - c->len, 0);

        if (n == -1 && errno == EAGAIN) {
            break;
        }

        if (n <= 0) {
            close_conn(c);
            return;
        }

        c->len += n;
    }

    while (!c->busy) {
        c->in[c->len] = '\0';
        end = strstr(c->in, "\r\n\r\n");

        if (end == NULL) {
            return;
        }

        end[2] = '\0';
        jepsen_field(c->in, "\r\nContent-Length:", text, sizeof(text));
        total = end + 4 - c->in + atoi(text);

        if (total > c->len) {
            end[2] = '\r';
            return;
        }

        request(c, c->in);

        if (c->fd == -1) {
            return;
        }

        memmove(c->in, c->in + total, c->len - total);
        c->len -= total;
    }
}


static void
request(conn_t *c, char *head)
{
    char  *p, kind;

    p = strchr(head, ' ');

    if (p == NULL || sscanf(p, " %255s", c->path) != 1) {
        close_conn(c);
        return;
    }

    jepsen_field(head, "\r\nX-Lock-Token:", c->token, sizeof(c->token));
    c->lock = strstr(c->path, "/lock/") != NULL;
    c->begin = jepsen_now();
    c->busy = 1;

    p = strchr(c->path + 1, '/');
    kind = p ? p[1] : 's';

    c->due = c->begin + 5000 + jepsen_below(&rnd, 60000);

    if (jepsen_below(&rnd, 12) == 0) {
        c->due += jepsen_below(&rnd, 350000);
    }

    answer(c, head, kind);
}


static size_t
size_of(char kind)
{
    if (kind == 'l') {
        return 1100000 + jepsen_below(&rnd, 300000);
    }

    switch (jepsen_below(&rnd, 64)) {
    case 0:
        return 100000 + jepsen_below(&rnd, 200000);
    case 1:
    case 2:
    case 3:
        return 20000 + jepsen_below(&rnd, 60000);
    default:
        return JEPSEN_MIN_BODY + 120 + jepsen_below(&rnd, 4000);
    }
}


static void
answer(conn_t *c, char *head, char kind)
{
    int     n;
    char   *p, more[512], user[64], lang[64], text[256];
    size_t  size;

    strcpy(user, "all");
    strcpy(lang, "none");
    snprintf(more, sizeof(more), "Cache-Control: max-age=%d%s\r\n",
             strchr("smu", kind) ? 1 : 60,
             kind == 'm' ? ", must-revalidate" : "");

    switch (kind) {

    case 'v':
        jepsen_field(head, "\r\nAccept-Language:", lang, sizeof(lang));
        strcat(more, "Vary: Accept-Language\r\n");
        break;

    case 'u':
        jepsen_field(head, "\r\nAuthorization:", text, sizeof(text));
        p = strstr(text, "Bearer ");

        if (p == NULL) {
            jepsen_field(head, "\r\nCookie:", text, sizeof(text));
            p = strstr(text, "session=");
        }

        if (p) {
            snprintf(user, sizeof(user), "%s", strpbrk(p, " =") + 1);
        }

        break;

    case 't':
        jepsen_field(head, "\r\nX-Token:", user, sizeof(user));
        strcat(more, "Set-Cookie: a=b\r\n");
        break;
    }

    size = size_of(kind);
    c->out = malloc(size + 2048);

    n = snprintf(c->out, 2048, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
                 "Content-Length: %zu\r\nX-Tag: %s\r\n%s\r\n", size, c->path,
                 more);

    jepsen_body(c->out + n, size, c->path, c->begin, ++serial,
                user[0] ? user : "none", lang[0] ? lang : "none");

    c->out_len = n + size;
    c->sent = 0;
}


static void
pass(conn_t *c)
{
    ssize_t  n;

    if (!c->busy || c->due) {
        return;
    }

    while (c->sent < c->out_len) {
        n = send(c->fd, c->out + c->sent, c->out_len - c->sent, MSG_NOSIGNAL);

        if (n == -1) {
            if (errno != EAGAIN) {
                close_conn(c);
            }

            return;
        }

        c->sent += n;
    }

    if (c->lock) {
        fprintf(history, "O %llu %llu %s %s whole\n",
                (unsigned long long) c->begin,
                (unsigned long long) jepsen_now(), c->path,
                c->token[0] ? c->token : "none");
    }

    free(c->out);
    c->out = NULL;
    c->busy = 0;

    take(c);
}

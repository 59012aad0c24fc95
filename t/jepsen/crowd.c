
/*
 * Copyright (C) mcds authors
 *
 * The load generator of the long chaos run, see crowd.h.
 *
 *   crowd -p port,port,... -t seconds -o history [-c clients] [-r factor]
 *       [-s seed]
 *
 * Each client has a host, which it changes now and then, and a keepalive
 * connection.  The history gets a line for each response, and for each request
 * without a response, in the order in which the requests end.
 */


#define _GNU_SOURCE

#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "crowd.h"


#define MAX_HOSTS    8
#define MAX_CLIENTS  1024
#define PATIENCE     15000000


static void turn(client_t *c, uint64_t now, uint64_t *wake);
static void start(client_t *c, uint64_t now);
static int connect_client(client_t *c);
static void disconnect(client_t *c);
static void send_request(client_t *c);
static void take(client_t *c);
static int complete(client_t *c, int eof, answer_t *a, size_t *total);
static int chunked(client_t *c, size_t body, answer_t *a, size_t *total);
static void done(client_t *c, answer_t *a);


FILE  *history;

static int        nhosts, ports[MAX_HOSTS], nclients = 72, ep, busy;
static double     factor = 1;
static uint64_t   stop;
static long       answers, failures, left;
static client_t  *clients[MAX_CLIENTS];


int
main(int argc, char **argv)
{
    int                  i, n, opt;
    char                *p, *path;
    double               seconds;
    client_t            *c;
    uint64_t             now, wake, seed;
    struct epoll_event   events[256];

    path = NULL;
    seconds = 0;
    seed = 1;

    while ((opt = getopt(argc, argv, "p:t:o:c:r:s:")) != -1) {
        switch (opt) {
        case 'p':
            for (p = strtok(optarg, ","); p && nhosts < MAX_HOSTS;
                 p = strtok(NULL, ","))
            {
                ports[nhosts++] = atoi(p);
            }
            break;
        case 't': seconds = atof(optarg); break;
        case 'o': path = optarg; break;
        case 'c': nclients = atoi(optarg); break;
        case 'r': factor = atof(optarg); break;
        case 's': seed = strtoull(optarg, NULL, 10) + 1; break;
        default: return 2;
        }
    }

    history = path ? fopen(path, "w") : NULL;

    if (nhosts == 0 || seconds <= 0 || history == NULL || nclients < 1
        || nclients > MAX_CLIENTS)
    {
        fprintf(stderr, "crowd: -p, -t and -o are needed\n");
        return 2;
    }

    setvbuf(history, NULL, _IOFBF, 1 << 18);

    ep = epoll_create1(0);
    now = jepsen_now();
    stop = now + seconds * 1000000;

    for (i = 0; i < nclients; i++) {
        c = clients[i] = calloc(1, sizeof(client_t));
        c->index = i;
        c->role = role_of(i, &c->nth);
        c->rnd = (seed * 1000 + i) * 0x9e3779b97f4a7c15 | 1;
        jepsen_random(&c->rnd);
        c->host = jepsen_below(&c->rnd, nhosts);
        c->fd = -1;
        c->next = now + jepsen_below(&c->rnd, 500000);
    }

    for ( ;; ) {
        now = jepsen_now();
        wake = now + 1000000;
        busy = 0;

        for (i = 0; i < nclients; i++) {
            turn(clients[i], now, &wake);
        }

        if (!busy && now >= stop) {
            break;
        }

        n = epoll_wait(ep, events, 256,
                       wake > now ? (int) ((wake - now) / 1000 + 1) : 0);

        for (i = 0; i < n; i++) {
            c = events[i].data.ptr;

            if (c->fd != -1 && c->active && c->sent < c->request_len) {
                send_request(c);
            }

            if (c->fd != -1
                && (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
            {
                take(c);
            }
        }
    }

    fclose(history);
    printf("answers %ld failures %ld left %ld\n", answers, failures, left);

    return 0;
}


static void
turn(client_t *c, uint64_t now, uint64_t *wake)
{
    answer_t  none;

    if (c->active && c->leave && now >= c->leave) {
        disconnect(c);
        c->active = 0;
        left++;
    }

    if (c->active && now > c->begin + PATIENCE) {
        memset(&none, 0, sizeof(none));
        disconnect(c);
        done(c, &none);
    }

    if (c->active) {
        busy = 1;

        if (c->leave && c->leave < *wake) {
            *wake = c->leave;
        }

        return;
    }

    if (now >= stop) {
        return;
    }

    if (now >= c->next) {
        start(c, now);
        busy |= c->active;

    } else if (c->next < *wake) {
        *wake = c->next;
    }
}


static void
start(client_t *c, uint64_t now)
{
    double    u;
    answer_t  none;

    if (c->moves-- <= 0) {
        disconnect(c);
        c->host = jepsen_below(&c->rnd, nhosts);
        c->moves = 10 + jepsen_below(&c->rnd, 60);
    }

    u = (jepsen_below(&c->rnd, 1000000) + 1) / 1000001.0;
    c->next = now + (uint64_t) (-log(u) * 1e6 / (role_rate(c->role) * factor));
    c->leave = 0;
    c->lang[0] = '\0';
    c->user[0] = '\0';

    role_ask(c);

    c->active = 1;
    c->sent = 0;
    c->len = 0;
    c->begin = jepsen_now();

    if (c->fd == -1 && connect_client(c) != 0) {
        memset(&none, 0, sizeof(none));
        disconnect(c);
        done(c, &none);
        return;
    }

    send_request(c);
}


static int
connect_client(client_t *c)
{
    int                  one;
    struct epoll_event   ev;
    struct sockaddr_in   sin;

    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (c->fd == -1) {
        return -1;
    }

    one = 1;
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));

    memset(&sin, 0, sizeof(sin));
    sin.sin_family = AF_INET;
    sin.sin_port = htons(ports[c->host]);
    sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);

    if (connect(c->fd, (struct sockaddr *) &sin, sizeof(sin)) == -1
        && errno != EINPROGRESS)
    {
        return -1;
    }

    ev.events = EPOLLIN | EPOLLOUT | EPOLLET;
    ev.data.ptr = c;

    return epoll_ctl(ep, EPOLL_CTL_ADD, c->fd, &ev);
}


static void
disconnect(client_t *c)
{
    if (c->fd != -1) {
        close(c->fd);
        c->fd = -1;
    }
}


static void
send_request(client_t *c)
{
    ssize_t   n;
    answer_t  none;

    while (c->sent < c->request_len) {
        n = send(c->fd, c->request + c->sent, c->request_len - c->sent,
                 MSG_NOSIGNAL);

        if (n == -1) {
            if (errno == EAGAIN || errno == ENOTCONN) {
                return;
            }

            memset(&none, 0, sizeof(none));
            disconnect(c);
            done(c, &none);
            return;
        }

        c->sent += n;
    }
}


static void
take(client_t *c)
{
    int       eof;
    size_t    total;
    ssize_t   n;
    answer_t  a;

    for ( ;; ) {
        if (c->size - c->len < 16384) {
            c->size = c->size ? c->size * 2 : 32768;
            c->buf = realloc(c->buf, c->size + 1);
        }

        n = recv(c->fd, c->buf + c->len, c->size - c->len, 0);

        if (n == -1 && errno == EAGAIN) {
            return;
        }

        eof = n <= 0;

        if (!c->active) {

            /* the server closes an idle connection */

            disconnect(c);
            return;
        }

        c->len += eof ? 0 : n;
        c->buf[c->len] = '\0';

        memset(&a, 0, sizeof(a));

        if (complete(c, eof, &a, &total)) {
            if (eof || total != c->len
                || strcasestr(c->buf, "\r\nConnection: close"))
            {
                disconnect(c);
            }

            done(c, &a);
            return;
        }

        if (eof) {
            disconnect(c);
            memset(&a, 0, sizeof(a));
            done(c, &a);
            return;
        }
    }
}


static int
complete(client_t *c, int eof, answer_t *a, size_t *total)
{
    char    *end, text[32];
    size_t   body;

    end = strstr(c->buf, "\r\n\r\n");

    if (end == NULL || sscanf(c->buf, "HTTP/1.%*d %d", &a->status) != 1) {
        return 0;
    }

    body = end + 4 - c->buf;
    a->body = c->buf + body;

    end[2] = '\0';
    jepsen_field(c->buf, "\r\nX-Cache:", a->cache, sizeof(a->cache));
    jepsen_field(c->buf, "\r\nX-Reason:", a->reason, sizeof(a->reason));
    jepsen_field(c->buf, "\r\nContent-Encoding:", a->encoding,
                 sizeof(a->encoding));
    jepsen_field(c->buf, "\r\nTransfer-Encoding:", text, sizeof(text));

    if (strcmp(text, "chunked") == 0) {
        end[2] = '\r';
        return chunked(c, body, a, total);
    }

    jepsen_field(c->buf, "\r\nContent-Length:", text, sizeof(text));
    end[2] = '\r';

    if (text[0] == '\0' && a->status != 204) {
        a->len = c->len - body;
        *total = c->len;
        return eof;
    }

    a->len = strtoul(text, NULL, 10);
    *total = body + a->len;

    return c->len >= *total;
}


/*
 * In a first pass checks that the body is complete, in a second one joins its
 * chunks.
 */

static int
chunked(client_t *c, size_t body, answer_t *a, size_t *total)
{
    int     pass;
    char   *p, *to, *end, *last;
    size_t  n;

    last = c->buf + c->len;

    for (pass = 0; pass < 2; pass++) {
        to = c->buf + body;
        p = to;

        for ( ;; ) {
            end = memmem(p, last - p, "\r\n", 2);

            if (end == NULL) {
                return 0;
            }

            n = strtoul(p, NULL, 16);
            p = end + 2;

            if ((size_t) (last - p) < n + 2) {
                return 0;
            }

            if (n == 0) {
                break;
            }

            if (pass == 1) {
                memmove(to, p, n);
            }

            to += n;
            p += n + 2;
        }

        a->len = to - (c->buf + body);
        *total = p + 2 - c->buf;
    }

    return 1;
}


static void
done(client_t *c, answer_t *a)
{
    c->active = 0;
    c->end = jepsen_now();

    if (a->status) {
        answers++;

    } else {
        failures++;

        /* a host that is down is not asked again at once */

        if (c->next < c->end + 20000) {
            c->next = c->end + 20000;
        }
    }

    role_answer(c, a);
}

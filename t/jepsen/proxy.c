
/*
 * Copyright (C) mcds authors
 *
 * A proxy that causes faults, between each host and each memcached.
 *
 *   proxy -c control port -l first port -h hosts -m port,port,... [-s seed]
 *
 * Listens on 127.0.0.1: for host h and memcached m on the first port + h * the
 * number of memcached + m.  Reads lines on the control port, and answers each
 * with "ok".  A host, a memcached and a direction may be "*"; a direction is
 * "c", from the client, or "s", from the server:
 *
 *   set H M D delay n    each piece is up to n ms late, in its order
 *   set H M D stall 1    data is held back, and nothing is lost
 *   set H M D chop n     n percent of the pieces are cut into many
 *   set H M D drop n     of n in 10000 pieces a part is dropped
 *   set H M D dup n      of n in 10000 pieces a part is doubled
 *   set H M D corrupt n  of n in 10000 pieces a bit is changed
 *   set H M D cut n      after up to n bytes the connection ends
 *   set H M * refuse 1   connections are refused
 *   reset H M            all connections are reset
 *   heal                 removes all faults
 *
 * Data that a side has sent before closing its connection is passed on, also
 * after a stall, as in a network.
 */


#define _GNU_SOURCE

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "jepsen.h"


#define MAX_SERVERS  8
#define MAX_PAIRS    (8 * MAX_SERVERS)
#define MAX_WAITING  (4 * 1024 * 1024)
#define MAX_PIECE    65536

#define FAULTS       8


typedef enum { LISTENER, CONTROL_LISTENER, CONTROL, SIDE } kind_t;

enum { DELAY, STALL, CHOP, DROP, DUP, CORRUPT, CUT, REFUSE };


typedef struct piece_s  piece_t;
typedef struct conn_s   conn_t;
typedef struct pair_s   pair_t;


struct piece_s {
    piece_t       *next;
    uint64_t       due;
    size_t         pos;
    size_t         len;
    char           data[];
};


typedef struct {
    kind_t         kind;
    int            fd;
    int            index;               /* of a side: 0 client, 1 server */
    void          *owner;
} handle_t;


struct pair_s {
    int            port;
    int            target;
    long           fault[2][FAULTS];
    handle_t       listener;
    conn_t        *conns;
};


typedef struct {
    piece_t       *first;
    piece_t      **last;
    size_t         waiting;
    uint64_t       due;
    long           left;                /* bytes before the cut, or -1 */
    int            eof;                 /* nothing more to read */
    int            shut;                /* eof was passed on */
} flow_t;


struct conn_s {
    pair_t        *pair;
    conn_t        *next;
    conn_t       **prev;
    handle_t       side[2];
    flow_t         flow[2];             /* data that side 0, or 1, has sent */
    int            connected;
    int            dead;
    int            gone[2];             /* the side is closed or reset */
    uint32_t       events[2];
};


static void listen_on(handle_t *h, int port);
static void accept_pair(pair_t *pair);
static void accept_control(void);
static void control(handle_t *h);
static int command(char *line);
static void set(pair_t *pair, int d, int what, long value);
static void refuse(pair_t *pair, int on);
static void take(conn_t *c, int d);
static void queue(flow_t *f, char *data, size_t len, uint64_t due);
static size_t spoil(long *fault, char *data, size_t len, size_t size);
static void pass(conn_t *c, int d);
static void watch(conn_t *c);
static void kill_conn(conn_t *c, int reset);
static void bury(void);


static pair_t     pairs[MAX_PAIRS];
static int        npairs, hosts, nservers, servers[MAX_SERVERS];
static int        ep, delayed;
static uint64_t   rnd = 88172645463325252;
static handle_t   control_listener;
static conn_t    *graves;
static char      *names[FAULTS] = { "delay", "stall", "chop", "drop", "dup",
                                    "corrupt", "cut", "refuse" };


int
main(int argc, char **argv)
{
    int                  i, n, d, opt, first, port;
    char                *p;
    conn_t              *c, *next;
    handle_t            *h;
    struct epoll_event   events[128];

    first = port = 0;

    while ((opt = getopt(argc, argv, "c:l:h:m:s:")) != -1) {
        switch (opt) {
        case 'c': port = atoi(optarg); break;
        case 'l': first = atoi(optarg); break;
        case 'h': hosts = atoi(optarg); break;
        case 's': rnd += strtoull(optarg, NULL, 10) * 7919; break;
        case 'm':
            for (p = strtok(optarg, ","); p && nservers < MAX_SERVERS;
                 p = strtok(NULL, ","))
            {
                servers[nservers++] = atoi(p);
            }
            break;
        default: return 2;
        }
    }

    npairs = hosts * nservers;

    if (npairs == 0 || npairs > MAX_PAIRS || first == 0 || port == 0) {
        fprintf(stderr, "proxy: -c, -l, -h and -m are needed\n");
        return 2;
    }

    ep = epoll_create1(0);

    for (i = 0; i < npairs; i++) {
        pairs[i].port = first + i;
        pairs[i].target = servers[i % nservers];
        pairs[i].listener.kind = LISTENER;
        pairs[i].listener.owner = &pairs[i];
        listen_on(&pairs[i].listener, pairs[i].port);
    }

    control_listener.kind = CONTROL_LISTENER;
    listen_on(&control_listener, port);

    for ( ;; ) {
        n = epoll_wait(ep, events, 128, delayed ? 1 : 1000);

        for (i = 0; i < n; i++) {
            h = events[i].data.ptr;

            switch (h->kind) {
            case LISTENER: accept_pair(h->owner); break;
            case CONTROL_LISTENER: accept_control(); break;
            case CONTROL: control(h); break;
            case SIDE:
                c = h->owner;

                if (c->dead) {
                    break;
                }

                if (events[i].events & EPOLLOUT) {
                    c->connected |= h->index;
                    pass(c, !h->index);
                }

                if (!c->dead && (events[i].events
                                 & (EPOLLIN | EPOLLHUP | EPOLLERR)))
                {
                    take(c, h->index);
                }

                break;
            }
        }

        if (delayed) {
            delayed = 0;

            for (i = 0; i < npairs; i++) {
                for (c = pairs[i].conns; c; c = next) {
                    next = c->next;

                    for (d = 0; d < 2 && !c->dead; d++) {
                        if (c->flow[d].first) {
                            pass(c, d);
                        }
                    }
                }
            }
        }

        bury();
    }
}


static void
listen_on(handle_t *h, int port)
{
    int                 one;
    struct epoll_event  ev;
    struct sockaddr_in  sin;

    one = 1;
    h->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    setsockopt(h->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));

    memset(&sin, 0, sizeof(sin));
    sin.sin_family = AF_INET;
    sin.sin_port = htons(port);
    sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);

    if (bind(h->fd, (struct sockaddr *) &sin, sizeof(sin)) == -1
        || listen(h->fd, 511) == -1)
    {
        fprintf(stderr, "proxy: port %d: %s\n", port, strerror(errno));
        exit(1);
    }

    ev.events = EPOLLIN;
    ev.data.ptr = h;
    epoll_ctl(ep, EPOLL_CTL_ADD, h->fd, &ev);
}


static void
accept_pair(pair_t *pair)
{
    int                  fd, i, one;
    long                 cut;
    conn_t              *c;
    struct epoll_event   ev;
    struct sockaddr_in   sin;

    fd = accept4(pair->listener.fd, NULL, NULL, SOCK_NONBLOCK);
    if (fd == -1) {
        return;
    }

    c = calloc(1, sizeof(conn_t));
    c->pair = pair;
    c->next = pair->conns;
    c->prev = &pair->conns;
    if (c->next) {
        c->next->prev = &c->next;
    }
    pair->conns = c;

    c->side[0].fd = fd;
    c->side[1].fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    one = 1;

    memset(&sin, 0, sizeof(sin));
    sin.sin_family = AF_INET;
    sin.sin_port = htons(pair->target);
    sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);

    for (i = 0; i < 2; i++) {
        c->side[i].kind = SIDE;
        c->side[i].index = i;
        c->side[i].owner = c;
        c->flow[i].last = &c->flow[i].first;
        cut = pair->fault[i][CUT];
        c->flow[i].left = cut ? (long) jepsen_below(&rnd, cut) : -1;
        setsockopt(c->side[i].fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    }

    if (connect(c->side[1].fd, (struct sockaddr *) &sin, sizeof(sin)) == -1
        && errno != EINPROGRESS)
    {
        kill_conn(c, 1);
        return;
    }

    for (i = 0; i < 2; i++) {
        c->events[i] = i ? EPOLLIN | EPOLLOUT : EPOLLIN;
        ev.events = c->events[i];
        ev.data.ptr = &c->side[i];
        epoll_ctl(ep, EPOLL_CTL_ADD, c->side[i].fd, &ev);
    }
}


static void
accept_control(void)
{
    handle_t            *h;
    struct epoll_event   ev;

    h = calloc(1, sizeof(handle_t));
    h->kind = CONTROL;
    h->fd = accept4(control_listener.fd, NULL, NULL, 0);

    if (h->fd == -1) {
        free(h);
        return;
    }

    ev.events = EPOLLIN;
    ev.data.ptr = h;
    epoll_ctl(ep, EPOLL_CTL_ADD, h->fd, &ev);
}


/* The nemesis sends a line, waits for the answer, and sends the next line. */

static void
control(handle_t *h)
{
    char     line[256];
    ssize_t  n;

    n = recv(h->fd, line, sizeof(line) - 1, 0);

    if (n <= 0) {
        close(h->fd);
        free(h);
        return;
    }

    line[n] = '\0';

    n = command(line) == 0 ? send(h->fd, "ok\n", 3, MSG_NOSIGNAL)
                           : send(h->fd, "what?\n", 6, MSG_NOSIGNAL);
    (void) n;
}


static int
command(char *line)
{
    int      i, what, d, h, m;
    long     value;
    char     hs[16], ms[16], ds[16], name[32];
    conn_t  *c;

    if (strncmp(line, "heal", 4) == 0) {
        for (i = 0; i < npairs; i++) {
            for (what = 0; what < FAULTS; what++) {
                set(&pairs[i], 0, what, 0);
                set(&pairs[i], 1, what, 0);
            }
        }

        return 0;
    }

    name[0] = '\0';
    value = 0;
    what = 0;

    if (sscanf(line, "set %15s %15s %15s %31s %ld", hs, ms, ds, name, &value)
        == 5)
    {
        for (what = 0; what < FAULTS; what++) {
            if (strcmp(names[what], name) == 0) {
                break;
            }
        }

        if (what == FAULTS) {
            return -1;
        }

    } else if (sscanf(line, "reset %15s %15s", hs, ms) != 2) {
        return -1;
    }

    for (i = 0; i < npairs; i++) {
        h = i / nservers;
        m = i % nservers;

        if ((hs[0] != '*' && atoi(hs) != h) || (ms[0] != '*' && atoi(ms) != m))
        {
            continue;
        }

        if (name[0] == '\0') {
            for (c = pairs[i].conns; c; c = c->next) {
                kill_conn(c, 1);
            }

            continue;
        }

        for (d = 0; d < 2; d++) {
            if (ds[0] == '*' || ds[0] == "cs"[d]) {
                set(&pairs[i], d, what, value);
            }
        }
    }

    return 0;
}


static void
set(pair_t *pair, int d, int what, long value)
{
    long     old;
    conn_t  *c, *next;

    old = pair->fault[d][what];
    pair->fault[d][what] = value;

    if (what == REFUSE && d == 0) {
        refuse(pair, value != 0);
    }

    for (c = pair->conns; c; c = next) {
        next = c->next;

        if (c->dead) {
            continue;
        }

        if (what == CUT) {
            c->flow[d].left = value ? (long) jepsen_below(&rnd, value) : -1;

        } else if (what == STALL && old && !value) {
            pass(c, d);
        }
    }
}


static void
refuse(pair_t *pair, int on)
{
    if (on && pair->listener.fd != -1) {
        close(pair->listener.fd);
        pair->listener.fd = -1;

    } else if (!on && pair->listener.fd == -1) {
        listen_on(&pair->listener, pair->port);
    }
}


/* Reads data from a side, and applies the faults of its direction. */

static void
take(conn_t *c, int d)
{
    int        ends;
    long      *fault;
    size_t     len, n, pos;
    flow_t    *f;
    ssize_t    got;
    uint64_t   due;

    static char  buf[2 * MAX_PIECE + 64];

    f = &c->flow[d];
    fault = c->pair->fault[d];
    ends = 0;

    if (f->eof) {
        epoll_ctl(ep, EPOLL_CTL_DEL, c->side[d].fd, NULL);
        c->gone[d] = 1;
        return;
    }

    got = recv(c->side[d].fd, buf, MAX_PIECE, 0);

    if (got == -1) {
        if (errno != EAGAIN) {
            kill_conn(c, 1);
        }

        return;
    }

    if (got == 0) {
        f->eof = 1;
        pass(c, d);
        return;
    }

    len = spoil(fault, buf, got, sizeof(buf));

    if (f->left >= 0) {
        if ((size_t) f->left <= len) {
            len = f->left;
            ends = 1;
        }

        f->left -= len;
    }

    due = 0;

    if (fault[DELAY]) {
        due = jepsen_now() + jepsen_below(&rnd, fault[DELAY] * 1000 + 1);
        due = due > f->due ? due : f->due;
        f->due = due;
    }

    if (fault[CHOP] && (long) jepsen_below(&rnd, 100) < fault[CHOP]) {
        due = due ? due : jepsen_now();

        for (pos = 0; pos < len; pos += n) {
            n = 1 + jepsen_below(&rnd, len / 4 + 3);
            n = n < len - pos ? n : len - pos;
            queue(f, buf + pos, n, due);
            due += 1000;
        }

        f->due = due;

    } else if (len) {
        queue(f, buf, len, due > f->due ? due : f->due);
    }

    pass(c, d);

    if (ends && !c->dead) {
        kill_conn(c, jepsen_below(&rnd, 2));
    }
}


static void
queue(flow_t *f, char *data, size_t len, uint64_t due)
{
    piece_t  *piece;

    piece = malloc(sizeof(piece_t) + len);
    piece->next = NULL;
    piece->due = due;
    piece->pos = 0;
    piece->len = len;
    memcpy(piece->data, data, len);

    *f->last = piece;
    f->last = &piece->next;
    f->waiting += len;
}


/* Returns the length after the faults. */

static size_t
spoil(long *fault, char *data, size_t len, size_t size)
{
    size_t  pos, n;

    if (fault[CORRUPT] && (long) jepsen_below(&rnd, 10000) < fault[CORRUPT]) {
        data[jepsen_below(&rnd, len)] ^= 1 << jepsen_below(&rnd, 8);
    }

    pos = jepsen_below(&rnd, len);
    n = jepsen_below(&rnd, 2) ? 1 + jepsen_below(&rnd, len - pos) : len - pos;

    if (fault[DROP] && (long) jepsen_below(&rnd, 10000) < fault[DROP]) {
        memmove(data + pos, data + pos + n, len - pos - n);
        return len - n;
    }

    if (fault[DUP] && (long) jepsen_below(&rnd, 10000) < fault[DUP]
        && len + n <= size)
    {
        memmove(data + pos + n, data + pos, len - pos);
        return len + n;
    }

    return len;
}


/* Sends the data of a side to the other one, as far as it is due. */

static void
pass(conn_t *c, int d)
{
    flow_t    *f;
    piece_t   *piece;
    ssize_t    n;
    uint64_t   now;

    f = &c->flow[d];
    now = 0;

    if (c->pair->fault[d][STALL] || (d == 0 && !c->connected)) {
        watch(c);
        return;
    }

    while ((piece = f->first) != NULL) {
        if (piece->due) {
            now = now ? now : jepsen_now();

            if (piece->due > now) {
                delayed = 1;
                break;
            }
        }

        n = send(c->side[!d].fd, piece->data + piece->pos,
                 piece->len - piece->pos, MSG_NOSIGNAL);

        if (n == -1) {
            if (errno == EAGAIN) {
                piece->due = 0;
                break;
            }

            kill_conn(c, 1);
            return;
        }

        f->waiting -= n;
        piece->pos += n;

        if (piece->pos < piece->len) {
            break;
        }

        f->first = piece->next;
        if (f->first == NULL) {
            f->last = &f->first;
        }

        free(piece);
    }

    if (f->eof && f->first == NULL && !f->shut) {
        f->shut = 1;
        shutdown(c->side[!d].fd, SHUT_WR);
    }

    if (c->flow[0].shut && c->flow[1].shut) {
        kill_conn(c, 0);
        return;
    }

    watch(c);
}


static void
watch(conn_t *c)
{
    int                  i;
    flow_t              *in, *out;
    uint32_t             events;
    struct epoll_event   ev;

    for (i = 0; i < 2; i++) {
        in = &c->flow[i];
        out = &c->flow[!i];
        events = 0;

        if (!in->eof && in->waiting < MAX_WAITING) {
            events |= EPOLLIN;
        }

        if ((i == 1 && !c->connected)
            || (out->first && out->first->due == 0
                && !c->pair->fault[!i][STALL]))
        {
            events |= EPOLLOUT;
        }

        if (events != c->events[i] && !c->gone[i]) {
            c->events[i] = events;
            ev.events = events;
            ev.data.ptr = &c->side[i];
            epoll_ctl(ep, EPOLL_CTL_MOD, c->side[i].fd, &ev);
        }
    }
}


/* The connection is freed when no event of this turn can be for it. */

static void
kill_conn(conn_t *c, int reset)
{
    int            i;
    struct linger  linger;

    if (c->dead) {
        return;
    }

    for (i = 0; i < 2; i++) {
        if (reset) {
            linger.l_onoff = 1;
            linger.l_linger = 0;
            setsockopt(c->side[i].fd, SOL_SOCKET, SO_LINGER, &linger,
                       sizeof(linger));
        }

        close(c->side[i].fd);
    }

    c->dead = 1;
    graves = c;
}


static void
bury(void)
{
    int       i, d;
    conn_t   *c, *next;
    piece_t  *piece;

    if (graves == NULL) {
        return;
    }

    graves = NULL;

    for (i = 0; i < npairs; i++) {
        for (c = pairs[i].conns; c; c = next) {
            next = c->next;

            if (!c->dead) {
                continue;
            }

            *c->prev = c->next;
            if (c->next) {
                c->next->prev = c->prev;
            }

            for (d = 0; d < 2; d++) {
                while ((piece = c->flow[d].first) != NULL) {
                    c->flow[d].first = piece->next;
                    free(piece);
                }
            }

            free(c);
        }
    }
}

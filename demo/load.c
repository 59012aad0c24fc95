
/*
 * Copyright (C) mcds authors
 *
 * load: clients that behave like people.  Each one asks, waits for its answer,
 * and asks again at the next tick of its own clock.  The ticks that passed
 * while it waited are dropped: who waits for a page does not click meanwhile.
 *
 *     load [-p] [-w warm-up s] [-d s] [-i interval ms] group ...
 *     load -b group ...
 *
 * A group is label:clients:path:port[,port...]; all ports are on 127.0.0.1, a
 * client stays with one of them.  Each client has a User-Agent of its own.
 *
 * The end is one line of JSON.  Latencies, in ms, are those of the requests
 * sent after the warm-up; all answers are counted.  An answer's X-Views is
 * taken as the counter that was shown with it, and remembered, so that a
 * number that was shown twice or never is found.
 *
 *     -p  tells "<second> <answers> <requests without one>" every second
 *     -b  a burst: every client asks once, all at the same moment, and each
 *         answer's time of CLOCK_MONOTONIC is told
 *     -d 0 goes on until a signal
 */

#define _GNU_SOURCE

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>


#define LOAD_GROUPS    16
#define LOAD_PORTS     16
#define LOAD_HEAD      16384
#define LOAD_VIEWS     (1 << 24)
#define LOAD_TIMEOUT   30.0
#define LOAD_DRAIN     10.0


typedef enum {
    sw_head = 0,
    sw_length,
    sw_chunk_size,
    sw_chunk_data,
    sw_chunk_end,
    sw_trailer,
    sw_until_close
} load_state_e;


typedef struct {
    char           *label;
    char           *path;
    int             nports;
    int             ports[LOAD_PORTS];
    int             clients;

    /* latencies in ms */
    double         *times;
    size_t          ntimes;
    size_t          room;

    unsigned long   answers;
    unsigned long   refused;        /* answers that are not 200 */
    unsigned long   errors;         /* no whole answer */

    unsigned char  *views;          /* a bit for each number shown */
    unsigned long   views_shown;
    unsigned long   views_distinct;
    unsigned long   views_max;
    unsigned long   online_max;
} load_group_t;


typedef struct {
    load_group_t   *group;
    int             number;
    int             port;
    int             fd;

    double          tick;           /* when to ask next */
    double          sent;

    unsigned        busy:1;
    unsigned        close:1;
    unsigned        done:1;

    load_state_e    state;
    int             status;
    long            left;
    size_t          len;
    char            head[LOAD_HEAD];
} load_client_t;


static double load_now(void);
static void load_signal_handler(int signo);
static void load_group_parse(load_group_t *group, char *text);
static void load_connect(load_client_t *client);
static void load_reconnect(load_client_t *client);
static void load_ask(load_client_t *client, double now);
static void load_receive(load_client_t *client);
static int load_parse(load_client_t *client, char *p, size_t n);
static int load_parse_head(load_client_t *client);
static int load_parse_line(load_client_t *client, char ch);
static void load_answered(load_client_t *client);
static void load_failed(load_client_t *client);
static void load_shown(load_group_t *group, unsigned long n);
static int load_compare(const void *one, const void *two);
static double load_percentile(load_group_t *group, double share);
static void load_poll(int timeout);
static void load_run(double warm, double seconds, double interval,
    int progress);
static void load_burst(void);
static void load_report(double seconds);


static int             load_ep;
static int             load_ngroups;
static int             load_nclients;
static double          load_start;
static double          load_from;
static load_group_t    load_groups[LOAD_GROUPS];
static load_client_t  *load_clients;

static volatile sig_atomic_t  load_stop;


static double
load_now(void)
{
    struct timespec  ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);

    return ts.tv_sec + ts.tv_nsec / 1e9;
}


static void
load_signal_handler(int signo)
{
    (void) signo;

    load_stop = 1;
}


static void
load_group_parse(load_group_t *group, char *text)
{
    char  *clients, *ports, *port;

    group->label = strtok(text, ":");
    clients = strtok(NULL, ":");
    group->path = strtok(NULL, ":");
    ports = strtok(NULL, ":");

    if (ports == NULL) {
        fprintf(stderr, "load: a group is label:clients:path:ports\n");
        exit(2);
    }

    group->clients = atoi(clients);

    for (port = strtok(ports, ",");
         port != NULL && group->nports < LOAD_PORTS;
         port = strtok(NULL, ","))
    {
        group->ports[group->nports++] = atoi(port);
    }

    group->views = calloc(LOAD_VIEWS / 8, 1);

    if (group->clients < 1 || group->nports == 0 || group->views == NULL) {
        fprintf(stderr, "load: bad group \"%s\"\n", group->label);
        exit(2);
    }
}


static void
load_connect(load_client_t *client)
{
    int                 one;
    struct sockaddr_in  sin;
    struct epoll_event  ee;

    one = 1;

    memset(&sin, 0, sizeof(sin));
    sin.sin_family = AF_INET;
    sin.sin_port = htons(client->port);
    sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);

    client->close = 0;
    client->fd = socket(AF_INET, SOCK_STREAM, 0);

    if (client->fd == -1) {
        perror("load: socket");
        exit(1);
    }

    /* the server is on this machine: connect() returns at once */

    if (connect(client->fd, (struct sockaddr *) &sin, sizeof(sin)) == -1) {
        close(client->fd);
        client->fd = -1;
        return;
    }

    setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));

    ee.events = EPOLLIN;
    ee.data.ptr = client;

    if (epoll_ctl(load_ep, EPOLL_CTL_ADD, client->fd, &ee) == -1) {
        perror("load: epoll_ctl");
        exit(1);
    }
}


static void
load_reconnect(load_client_t *client)
{
    if (client->fd != -1) {
        close(client->fd);
    }

    load_connect(client);
}


static void
load_ask(load_client_t *client, double now)
{
    int   len;
    char  request[2048];

    if (client->fd == -1) {
        load_connect(client);
    }

    if (client->fd == -1) {
        client->sent = now;
        load_failed(client);
        return;
    }

    len = snprintf(request, sizeof(request),
                   "GET %s HTTP/1.1\r\n"
                   "Host: 127.0.0.1\r\n"
                   "User-Agent: person-%d\r\n\r\n",
                   client->group->path, client->number);

    client->busy = 1;
    client->state = sw_head;
    client->len = 0;
    client->sent = load_now();

    if (send(client->fd, request, len, MSG_NOSIGNAL) == len) {
        return;
    }

    /* a connection that was idle may have been closed: not an error yet */

    load_reconnect(client);

    if (client->fd == -1
        || send(client->fd, request, len, MSG_NOSIGNAL) != len)
    {
        load_failed(client);
    }
}


static void
load_receive(load_client_t *client)
{
    int          rc;
    ssize_t      n;
    static char  buf[131072];

    n = recv(client->fd, buf, sizeof(buf), MSG_DONTWAIT);

    if (n == -1 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }

    if (n <= 0) {

        if (!client->busy) {
            close(client->fd);
            client->fd = -1;
            return;
        }

        if (n == 0 && client->state == sw_until_close) {
            client->close = 1;
            load_answered(client);
            return;
        }

        load_failed(client);
        return;
    }

    rc = client->busy ? load_parse(client, buf, n) : -1;

    if (rc == -1) {
        load_failed(client);
        return;
    }

    if (rc == 1) {
        load_answered(client);
    }
}


/* 1: the answer is whole, 0: more must come, -1: this is not an answer */

static int
load_parse(load_client_t *client, char *p, size_t n)
{
    int     rc;
    size_t  size;

    while (n != 0) {

        switch (client->state) {

        case sw_head:

            if (client->len == LOAD_HEAD - 1) {
                return -1;
            }

            client->head[client->len++] = *p++;
            n--;

            if (client->len < 4
                || memcmp(client->head + client->len - 4, "\r\n\r\n", 4) != 0)
            {
                break;
            }

            client->head[client->len] = '\0';
            client->len = 0;

            rc = load_parse_head(client);

            if (rc != 0) {
                return (rc == 1 && n != 0) ? -1 : rc;
            }

            break;

        case sw_length:
        case sw_chunk_data:

            size = n < (size_t) client->left ? n : (size_t) client->left;

            p += size;
            n -= size;
            client->left -= size;

            if (client->left != 0) {
                break;
            }

            if (client->state == sw_length) {
                return n == 0 ? 1 : -1;
            }

            client->state = sw_chunk_end;
            break;

        case sw_until_close:
            return 0;

        default:

            rc = load_parse_line(client, *p++);
            n--;

            if (rc != 0) {
                return (rc == 1 && n != 0) ? -1 : rc;
            }
        }
    }

    return 0;
}


static int
load_parse_head(load_client_t *client)
{
    char  *p;

    if (strncmp(client->head, "HTTP/1.", 7) != 0) {
        return -1;
    }

    client->status = atoi(client->head + 9);

    if (strcasestr(client->head, "\r\nConnection: close") != NULL) {
        client->close = 1;
    }

    p = strcasestr(client->head, "\r\nX-Views:");

    if (p != NULL && client->status == 200) {
        load_shown(client->group, strtoul(p + 10, NULL, 10));
    }

    p = strcasestr(client->head, "\r\nX-Online:");

    if (p != NULL && strtoul(p + 11, NULL, 10) > client->group->online_max) {
        client->group->online_max = strtoul(p + 11, NULL, 10);
    }

    p = strcasestr(client->head, "\r\nContent-Length:");

    if (p != NULL) {
        client->left = atol(p + 17);
        client->state = sw_length;
        return client->left == 0;
    }

    if (strcasestr(client->head, "\r\nTransfer-Encoding: chunked") != NULL) {
        client->state = sw_chunk_size;
        return 0;
    }

    client->state = sw_until_close;

    return 0;
}


/* the lines of a chunked body: sizes, what ends a chunk, the trailer */

static int
load_parse_line(load_client_t *client, char ch)
{
    if (ch != '\n') {

        if (ch != '\r') {
            if (client->len == LOAD_HEAD - 1) {
                return -1;
            }

            client->head[client->len++] = ch;
        }

        return 0;
    }

    client->head[client->len] = '\0';

    switch (client->state) {

    case sw_chunk_size:
        client->left = strtol(client->head, NULL, 16);
        client->state = client->left != 0 ? sw_chunk_data : sw_trailer;
        break;

    case sw_chunk_end:
        if (client->len != 0) {
            return -1;
        }

        client->state = sw_chunk_size;
        break;

    default: /* sw_trailer */
        if (client->len == 0) {
            return 1;
        }
    }

    client->len = 0;

    return 0;
}


static void
load_shown(load_group_t *group, unsigned long n)
{
    group->views_shown++;

    if (n > group->views_max) {
        group->views_max = n;
    }

    if (n < LOAD_VIEWS && !(group->views[n / 8] & (1 << n % 8))) {
        group->views[n / 8] |= 1 << n % 8;
        group->views_distinct++;
    }
}


static void
load_answered(load_client_t *client)
{
    double         *times;
    load_group_t   *group;

    group = client->group;

    group->answers++;
    client->busy = 0;
    client->done = 1;

    if (client->status != 200) {
        group->refused++;
    }

    if (client->sent >= load_from) {

        if (group->ntimes == group->room) {
            group->room = group->room * 2 + 1024;

            times = realloc(group->times, group->room * sizeof(double));
            if (times == NULL) {
                perror("load: realloc");
                exit(1);
            }

            group->times = times;
        }

        group->times[group->ntimes++] = (load_now() - client->sent) * 1e3;
    }

    if (client->close) {
        close(client->fd);
        client->fd = -1;
    }
}


static void
load_failed(load_client_t *client)
{
    client->group->errors++;
    client->busy = 0;
    client->done = 1;
    client->status = 0;

    if (client->fd != -1) {
        close(client->fd);
        client->fd = -1;
    }
}


static int
load_compare(const void *one, const void *two)
{
    double  a, b;

    a = *(const double *) one;
    b = *(const double *) two;

    return (a > b) - (a < b);
}


static double
load_percentile(load_group_t *group, double share)
{
    size_t  i;

    if (group->ntimes == 0) {
        return 0;
    }

    i = group->ntimes * share;

    return group->times[i < group->ntimes ? i : group->ntimes - 1];
}


static void
load_poll(int timeout)
{
    int                 i, n;
    struct epoll_event  events[256];

    n = epoll_wait(load_ep, events, 256, timeout);

    for (i = 0; i < n; i++) {
        load_receive(events[i].data.ptr);
    }
}


static void
load_run(double warm, double seconds, double interval, int progress)
{
    int             i, waiting;
    double          now, end, told;
    unsigned long   answers;
    load_client_t  *client;

    load_start = load_now();
    load_from = load_start + warm;
    end = seconds != 0 ? load_from + seconds : 1e18;
    told = load_start + 1;

    for (i = 0; i < load_nclients; i++) {
        load_clients[i].tick = load_start + interval * i / load_nclients;
    }

    for ( ;; ) {
        now = load_now();

        if (load_stop && end > now) {
            end = now;
        }

        waiting = 0;

        for (i = 0; i < load_nclients; i++) {
            client = &load_clients[i];

            if (client->busy) {
                waiting++;

                if (now - client->sent > LOAD_TIMEOUT) {
                    load_failed(client);
                }

                continue;
            }

            if (client->tick > now || now >= end) {
                continue;
            }

            load_ask(client, now);

            while (client->tick <= now) {
                client->tick += interval;
            }
        }

        if (now >= end && (waiting == 0 || now >= end + LOAD_DRAIN)) {
            break;
        }

        if (progress && now >= told) {
            answers = 0;

            for (i = 0; i < load_ngroups; i++) {
                answers += load_groups[i].answers;
            }

            printf("%.0f %lu %d\n", told - load_start, answers, waiting);
            fflush(stdout);
            told += 1;
        }

        load_poll(1);
    }

    /* who is still without an answer will not get one */

    for (i = 0; i < load_nclients; i++) {
        if (load_clients[i].busy) {
            load_failed(&load_clients[i]);
        }
    }
}


static void
load_burst(void)
{
    int             i, left;
    double          now;
    double         *at;
    load_client_t  *client;

    at = calloc(load_nclients, sizeof(double));
    if (at == NULL) {
        perror("load: calloc");
        exit(1);
    }

    load_start = load_now();
    load_from = load_start;

    for (i = 0; i < load_nclients; i++) {
        load_ask(&load_clients[i], load_start);
    }

    do {
        load_poll(10);

        now = load_now();
        left = 0;

        for (i = 0; i < load_nclients; i++) {
            client = &load_clients[i];

            if (client->done) {
                at[i] = at[i] != 0 ? at[i] : now;

            } else {
                left++;
            }
        }

    } while (left != 0 && now - load_start < LOAD_TIMEOUT && !load_stop);

    printf("{\"start\":%.6f,\"answers\":[", load_start);

    for (i = 0; i < load_nclients; i++) {
        client = &load_clients[i];

        printf("%s{\"group\":\"%s\",\"port\":%d,\"at\":%.6f,\"status\":%d}",
               i != 0 ? "," : "", client->group->label, client->port,
               at[i] != 0 ? at[i] : now,
               client->done ? client->status : 0);
    }

    printf("]}\n");

    free(at);
}


static void
load_report(double seconds)
{
    int            i;
    load_group_t  *group;

    printf("{");

    for (i = 0; i < load_ngroups; i++) {
        group = &load_groups[i];

        qsort(group->times, group->ntimes, sizeof(double), load_compare);

        printf("%s\"%s\":{\"clients\":%d,\"answers\":%lu,\"refused\":%lu,"
               "\"errors\":%lu,\"measured\":%zu,\"rate\":%.1f,"
               "\"p50\":%.3f,\"p90\":%.3f,\"p99\":%.3f,\"p999\":%.3f,"
               "\"max\":%.3f,\"views_shown\":%lu,\"views_distinct\":%lu,"
               "\"views_max\":%lu,\"online_max\":%lu}",
               i != 0 ? "," : "", group->label, group->clients,
               group->answers, group->refused, group->errors, group->ntimes,
               seconds != 0 ? group->ntimes / seconds : 0,
               load_percentile(group, 0.5), load_percentile(group, 0.9),
               load_percentile(group, 0.99), load_percentile(group, 0.999),
               load_percentile(group, 1), group->views_shown,
               group->views_distinct, group->views_max, group->online_max);
    }

    printf("}\n");
}


int
main(int argc, char **argv)
{
    int               i, k, n, opt, burst, progress;
    double            warm, seconds, interval;
    load_client_t    *client;
    struct rlimit     rlmt;
    struct sigaction  sa;

    burst = 0;
    progress = 0;
    warm = 0;
    seconds = 8;
    interval = 0.1;

    while ((opt = getopt(argc, argv, "bpw:d:i:")) != -1) {

        switch (opt) {

        case 'b':
            burst = 1;
            break;

        case 'p':
            progress = 1;
            break;

        case 'w':
            warm = atof(optarg);
            break;

        case 'd':
            seconds = atof(optarg);
            break;

        case 'i':
            interval = atof(optarg) / 1e3;
            break;

        default:
            return 2;
        }
    }

    if (optind == argc || argc - optind > LOAD_GROUPS || interval <= 0) {
        fprintf(stderr, "usage: load [-b] [-p] [-w s] [-d s] [-i ms] "
                "label:clients:path:port[,port...] ...\n");
        return 2;
    }

    memset(&sa, 0, sizeof(sa));
    sa.sa_handler = load_signal_handler;
    sigaction(SIGINT, &sa, NULL);
    sigaction(SIGTERM, &sa, NULL);

    for ( /* void */ ; optind < argc; optind++) {
        load_group_parse(&load_groups[load_ngroups], argv[optind]);
        load_nclients += load_groups[load_ngroups++].clients;
    }

    if (getrlimit(RLIMIT_NOFILE, &rlmt) == 0) {
        rlmt.rlim_cur = rlmt.rlim_max;
        setrlimit(RLIMIT_NOFILE, &rlmt);
    }

    load_ep = epoll_create1(0);
    load_clients = calloc(load_nclients, sizeof(load_client_t));

    if (load_ep == -1 || load_clients == NULL) {
        perror("load");
        return 1;
    }

    /* clients of different groups take turns, so that their ticks mix */

    n = 0;

    for (k = 0; n < load_nclients; k++) {

        for (i = 0; i < load_ngroups; i++) {

            if (k >= load_groups[i].clients) {
                continue;
            }

            client = &load_clients[n];
            client->group = &load_groups[i];
            client->number = n++;
            client->port = client->group->ports[k % client->group->nports];

            load_connect(client);
        }
    }

    if (burst) {
        load_burst();

    } else {
        load_run(warm, seconds, interval, progress);
        load_report(seconds);
    }

    return 0;
}

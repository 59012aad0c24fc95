
/*
 * Copyright (C) mcds authors
 *
 * An HTTP load generator for the tests: sends a given number of requests, or
 * requests for a given time, on keepalive connections, and checks each answer.
 * Prints one line of JSON.
 *
 *     load -p port[,port] -u uri[,uri] [-c clients] [-n requests] [-t seconds]
 *          [-r rate] [-e expected text] [-H header] [-o timeout]
 *          [-a percent of aborted requests] [-k keys]
 *          [-m method] [-b body]
 *
 * In a URI and in a body %n is replaced by the numbers from 0 to keys - 1 in
 * turn; in the expected text %u is the URI of the request.  Several -e are
 * alternatives.
 */


#define _GNU_SOURCE

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>


#define MAX_LIST   64
#define MAX_HEAD   65536


typedef struct {
    int       fd;
    int       port;
    int       active;
    int       reused;             /* 1: the connection has had a response
                                     before */
    int       out;                /* bytes of the request that were not sent
                                     yet */
    int       sent;
    double    start;
    double    next;               /* time at which the client sends its next
                                     request */
    double    leave;              /* time at which the client aborts its
                                     request, or 0 */
    char      uri[1024];
    char     *buf;
    size_t    size;
    size_t    len;
    char      request[8192];      /* the client's request, with its body */
    int       request_len;
} client_t;


static double now(void);
static int list(char *text, char **items);
static void start(client_t *c);
static void fill_in(char *text, size_t size, char *from, char *word,
    char *value);
static int connect_client(client_t *c);
static void write_request(client_t *c);
static void read_answer(client_t *c);
static int complete(client_t *c, size_t *body, size_t *body_len,
    size_t *total, int eof);
static int chunked(client_t *c, size_t body, size_t *total);
static void finish(client_t *c, size_t body, size_t len, size_t total);
static int expected(client_t *c, size_t body, size_t len);
static void leave(client_t *c);
static void send_request(client_t *c);
static void fail(client_t *c, char *what);
static void done(client_t *c);
static int compare(const void *a, const void *b);
static void report(double seconds);


static char      *uris[MAX_LIST], *ports[MAX_LIST];
static int        nuris, nports, nexpects;
static char      *expects[MAX_LIST], *header, *content, *method = "GET";
static int        clients = 64;
static long       limit = -1, keys = 1;
static double     duration, rate, timeout = 20, aborts, end;
static long       issued, answered, errors, wrong, timeouts, retries, aborted;
static long       statuses[1000];
static float     *times;
static size_t     ntimes, maxtimes;
static int        ep;
static char       first_error[256], first_wrong[256];


int
main(int argc, char **argv)
{
    int                  i, n, opt, busy;
    double               t, begin, wake;
    client_t            *all, *c;
    struct epoll_event   events[256];

    while ((opt = getopt(argc, argv, "p:u:c:n:t:r:e:H:o:a:k:m:b:")) != -1) {
        switch (opt) {
        case 'p': nports = list(optarg, ports); break;
        case 'u': nuris = list(optarg, uris); break;
        case 'c': clients = atoi(optarg); break;
        case 'n': limit = atol(optarg); break;
        case 't': duration = atof(optarg); break;
        case 'r': rate = atof(optarg); break;
        case 'e':
            if (nexpects < MAX_LIST) {
                expects[nexpects++] = optarg;
            }
            break;
        case 'H': header = optarg; break;
        case 'o': timeout = atof(optarg); break;
        case 'a': aborts = atof(optarg); break;
        case 'k': keys = atol(optarg); break;
        case 'm': method = optarg; break;
        case 'b': content = optarg; break;
        default: return 2;
        }
    }

    if (nports == 0 || nuris == 0 || (limit < 0 && duration <= 0)) {
        fprintf(stderr, "load: -p, -u, and -n or -t are needed\n");
        return 2;
    }

    ep = epoll_create1(0);
    all = calloc(clients, sizeof(client_t));
    begin = now();
    end = duration > 0 ? begin + duration : 1e30;

    for (i = 0; i < clients; i++) {
        c = &all[i];
        c->fd = -1;
        c->port = atoi(ports[i % nports]);

        /*
         * with a rate of requests, the starts of the clients are spread over
         * time
         */
        c->next = begin + (rate > 0 ? (double) i / clients / rate : 0);
    }

    for ( ;; ) {
        t = now();
        busy = 0;
        wake = 0.1;

        for (i = 0; i < clients; i++) {
            c = &all[i];

            if (c->active && t - c->start > timeout) {
                timeouts++;
                c->reused = 0;
                fail(c, "timed out");
            }

            if (c->active && c->leave) {
                if (t >= c->leave) {
                    leave(c);

                } else if (c->leave - t < wake) {
                    wake = c->leave - t;
                }
            }

            if (!c->active && t < end && (limit < 0 || issued < limit)) {
                if (t >= c->next) {
                    start(c);

                } else if (c->next - t < wake) {
                    wake = c->next - t;
                }

                busy = 1;
            }

            busy |= c->active;
        }

        if (!busy) {
            break;
        }

        n = epoll_wait(ep, events, 256, (int) (wake * 1000));

        for (i = 0; i < n; i++) {
            c = events[i].data.ptr;

            if (c->fd == -1) {
                continue;
            }

            if (c->active && c->out > 0) {
                write_request(c);
            }

            if (c->fd != -1
                && (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
            {
                read_answer(c);
            }
        }
    }

    report(now() - begin);

    return 0;
}


static double
now(void)
{
    struct timespec  ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);

    return ts.tv_sec + ts.tv_nsec / 1e9;
}


static int
list(char *text, char **items)
{
    int    n;
    char  *item;

    n = 0;

    for (item = strtok(text, ","); item && n < MAX_LIST;
         item = strtok(NULL, ","))
    {
        items[n++] = item;
    }

    return n;
}


static void
start(client_t *c)
{
    char  number[32], text[4096], type[128];

    snprintf(number, sizeof(number), "%ld", issued / nuris % keys);
    fill_in(c->uri, sizeof(c->uri), uris[issued % nuris], "%n", number);

    text[0] = '\0';
    type[0] = '\0';

    if (content) {
        fill_in(text, sizeof(text), content, "%n", number);
        snprintf(type, sizeof(type), "Content-Type: application/json\r\n"
                                     "Content-Length: %zu\r\n", strlen(text));
    }

    c->request_len = snprintf(c->request, sizeof(c->request),
                              "%s %s HTTP/1.1\r\nHost: localhost\r\n"
                              "%s%s%s\r\n%s",
                              method, c->uri, header ? header : "",
                              header ? "\r\n" : "", type, text);
    issued++;
    c->active = 1;
    c->start = now();
    c->next = c->start;
    c->leave = 0;

    if (aborts > 0 && drand48() * 100 < aborts) {
        c->leave = c->start + drand48() * drand48() * drand48() * 0.02;
    }

    if (rate > 0) {
        c->next += 1 / rate;
    }

    send_request(c);
}


/*
 * copies the text "from" to "text", and replaces the first occurrence of the
 * placeholder "word", if there is one, by the value
 */

static void
fill_in(char *text, size_t size, char *from, char *word, char *value)
{
    char  *p;

    p = strstr(from, word);

    if (p == NULL) {
        snprintf(text, size, "%s", from);
        return;
    }

    snprintf(text, size, "%.*s%s%s", (int) (p - from), from, value,
             p + strlen(word));
}


static void
send_request(client_t *c)
{
    c->out = c->request_len;
    c->sent = 0;
    c->len = 0;

    if (c->fd == -1 && connect_client(c) != 0) {
        fail(c, strerror(errno));
        return;
    }

    write_request(c);
}


static int
connect_client(client_t *c)
{
    int                 one;
    struct epoll_event  ev;
    struct sockaddr_in  sin;

    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (c->fd == -1) {
        return -1;
    }

    one = 1;
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));

    memset(&sin, 0, sizeof(sin));
    sin.sin_family = AF_INET;
    sin.sin_port = htons(c->port);
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
write_request(client_t *c)
{
    ssize_t  n;

    while (c->out > 0) {
        n = send(c->fd, c->request + c->sent, c->out, MSG_NOSIGNAL);

        if (n == -1) {
            if (errno == EAGAIN || errno == ENOTCONN) {
                return;
            }

            fail(c, strerror(errno));
            return;
        }

        c->sent += n;
        c->out -= n;
    }
}


static void
read_answer(client_t *c)
{
    int      eof;
    size_t   body, len, total;
    ssize_t  n;

    for ( ;; ) {
        if (c->size - c->len < 16384) {
            c->size = c->size ? c->size * 2 : 65536;
            c->buf = realloc(c->buf, c->size + 1);
        }

        n = recv(c->fd, c->buf + c->len, c->size - c->len, 0);

        if (n == -1 && errno == EAGAIN) {
            return;
        }

        if (n == -1 && c->active) {
            fail(c, strerror(errno));
            return;
        }

        eof = n <= 0;

        if (!c->active) {

            /*
             * without a pending request, the server has closed the connection
             * or sent bytes
             */

            done(c);
            return;
        }

        c->len += eof ? 0 : n;
        c->buf[c->len] = '\0';

        if (complete(c, &body, &len, &total, eof)) {
            finish(c, body, len, total);

            if (eof) {
                done(c);
            }

            return;
        }

        if (eof) {
            fail(c, "closed");
            return;
        }
    }
}


static int
complete(client_t *c, size_t *body, size_t *body_len, size_t *total, int eof)
{
    char  *p, *head_end, saved;

    head_end = strstr(c->buf, "\r\n\r\n");
    if (head_end == NULL) {
        return 0;
    }

    *body = head_end + 4 - c->buf;
    *body_len = 0;

    saved = head_end[2];
    head_end[2] = '\0';

    p = strcasestr(c->buf, "\r\ncontent-length:");

    if (p) {
        *body_len = strtoull(p + 17, NULL, 10);
        *total = *body + *body_len;

    } else if (strcasestr(c->buf, "\r\ntransfer-encoding: chunked")) {
        head_end[2] = saved;
        *body_len = c->len - *body;
        return chunked(c, *body, total);

    } else if (strncmp(c->buf + 9, "204", 3) == 0
               || strncmp(c->buf + 9, "304", 3) == 0)
    {
        *total = *body;

    } else {
        head_end[2] = saved;
        *body_len = c->len - *body;
        *total = c->len;
        return eof;
    }

    head_end[2] = saved;

    return c->len >= *total;
}


static int
chunked(client_t *c, size_t body, size_t *total)
{
    char    *p, *line;
    size_t   size;

    p = c->buf + body;

    for ( ;; ) {
        line = strstr(p, "\r\n");
        if (line == NULL) {
            return 0;
        }

        size = strtoull(p, NULL, 16);
        p = line + 2 + size + 2;

        if (p > c->buf + c->len) {
            return 0;
        }

        if (size == 0) {
            *total = p - c->buf;
            return 1;
        }
    }
}


static void
finish(client_t *c, size_t body, size_t len, size_t total)
{
    int  status, close_it;

    status = atoi(c->buf + 9);

    if (status < 0 || status > 999) {
        status = 0;
    }

    statuses[status]++;
    answered++;

    c->buf[body - 1] = '\0';
    close_it = strcasestr(c->buf, "\r\nconnection: close") != NULL;

    if (status == 200 && nexpects && !expected(c, body, len)) {
        wrong++;

        if (first_wrong[0] == '\0') {
            snprintf(first_wrong, sizeof(first_wrong), "%.*s",
                     len > 200 ? 200 : (int) len, c->buf + body);
        }
    }

    /* bytes after the end of a response count as a wrong response */

    if (c->len > total) {
        wrong++;
    }

    if (ntimes == maxtimes) {
        maxtimes = maxtimes ? maxtimes * 2 : 65536;
        times = realloc(times, maxtimes * sizeof(float));
    }

    times[ntimes++] = (now() - c->start) * 1000;

    c->active = 0;
    c->reused = 1;
    c->len = 0;

    if (close_it) {
        done(c);
        return;
    }

    if (rate == 0 && now() < end && (limit < 0 || issued < limit)) {
        start(c);
    }
}


static int
expected(client_t *c, size_t body, size_t len)
{
    int   i;
    char  text[8192], *expect;

    for (i = 0; i < nexpects; i++) {
        expect = expects[i];

        if (strstr(expect, "%u")) {
            fill_in(text, sizeof(text), expect, "%u", c->uri);
            expect = text;
        }

        if (memmem(c->buf + body, len, expect, strlen(expect)) != NULL) {
            return 1;
        }
    }

    return 0;
}


/* aborts a request of a client, every other time with a TCP reset */

static void
leave(client_t *c)
{
    struct linger  l;

    if (++aborted % 2 && c->fd != -1) {
        l.l_onoff = 1;
        l.l_linger = 0;
        setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
    }

    done(c);
}


static void
fail(client_t *c, char *what)
{
    if (c->reused && c->len == 0) {

        /*
         * the server has closed an idle connection just when the client used it
         * again: the client repeats its request
         */

        retries++;
        done(c);
        c->active = 1;
        send_request(c);
        return;
    }

    errors++;
    snprintf(first_error, sizeof(first_error), "%s", what);
    c->active = 0;

    /*
     * after a failure, the client sends its next request with a delay, lest it
     * retry in a busy loop while the server refuses connections
     */
    if (rate == 0) {
        c->next = now() + 0.005;
    }

    done(c);
}


static void
done(client_t *c)
{
    if (c->fd != -1) {
        close(c->fd);
        c->fd = -1;
    }

    c->reused = 0;
    c->active = 0;
    c->len = 0;
}


static int
compare(const void *a, const void *b)
{
    float  x = *(const float *) a, y = *(const float *) b;

    return x < y ? -1 : x > y;
}


static void
report(double seconds)
{
    int         i;
    char       *sep, *p;

    qsort(times, ntimes, sizeof(float), compare);

#define at(q)  (ntimes ? times[(size_t) ((ntimes - 1) * (q))] : 0)

    printf("{\"requests\":%ld,\"answered\":%ld,\"ok\":%ld,\"errors\":%ld,"
           "\"timeouts\":%ld,\"retries\":%ld,\"wrong\":%ld,"
           "\"aborted\":%ld,\"seconds\":%.3f,"
           "\"per_second\":%.1f,\"p50\":%.3f,\"p90\":%.3f,\"p99\":%.3f,"
           "\"p999\":%.3f,\"max\":%.3f,\"status\":{",
           issued, answered, statuses[200], errors, timeouts, retries, wrong,
           aborted, seconds, answered / seconds, at(0.5), at(0.9), at(0.99),
           at(0.999), at(1.0));

    sep = "";

    for (i = 0; i < 1000; i++) {
        if (statuses[i]) {
            printf("%s\"%d\":%ld", sep, i, statuses[i]);
            sep = ",";
        }
    }

    for (p = first_wrong; *p; p++) {
        if ((unsigned char) *p < 0x20 || *p == '"' || *p == '\\'
            || (unsigned char) *p > 0x7e)
        {
            *p = '.';
        }
    }

    printf("},\"first_error\":\"%s\",\"first_wrong\":\"%s\"}\n",
           first_error, first_wrong);
}


/*
 * Copyright (C) mcds authors
 *
 * Measures the event loop of nginx's workers: this library is loaded before
 * libc and wraps epoll_wait(), and all other functions that could block.  A
 * turn of the loop lasts from one epoll_wait() to the next.  The library
 * measures how long a turn takes, how long the worker ran in the turn, and how
 * long the worker was ready to run but had no processor.
 *
 * Each worker has a file, $MCDS_LOOP.<pid>, which is mapped, so that it can be
 * read at any time.
 */


#define _GNU_SOURCE

#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>


/*
 * The times and counts that are measured of a worker's event loop.  A test that
 * reads them writes "wanted" to reset them; the worker then sets "round" to the
 * same value.
 */

typedef struct {
    volatile uint64_t  wanted;
    volatile uint64_t  round;
    volatile uint64_t  turns;
    volatile uint64_t  longest;        /* nanoseconds of the longest turn of the
                                          event loop, without the time for which
                                          other processes had the processor */
    volatile uint64_t  ran;            /* CPU time of the longest turn of the
                                          event loop */
    volatile uint64_t  others;
    volatile uint64_t  calls;          /* number of calls of functions that may
                                          block the worker */
    volatile uint64_t  waited;         /* duration of the longest call of a
                                          function that may block */
    char               name[56];       /* name of the last called function among
                                          those that may block */
} watch_t;


static void begin(void) __attribute__((constructor));
static watch_t *own(void);
static uint64_t now(clockid_t id);
static uint64_t others(void);
static void turn(void);
static void called(char *name, uint64_t start);


#define real(name)                                                            \
    static __typeof__(&name)  real_##name;                                    \
                                                                              \
    if (real_##name == NULL) {                                                \
        *(void **) &real_##name = dlsym(RTLD_NEXT, #name);                    \
    }

#define waits(type, name, ...)                                                \
    type      value;                                                          \
    uint64_t  start;                                                          \
                                                                              \
    real(name)                                                                \
                                                                              \
    start = now(CLOCK_MONOTONIC);                                             \
    value = real_##name(__VA_ARGS__);                                         \
    called(#name, start);                                                     \
                                                                              \
    return value;


static char      path[1024];
static pid_t     pid;
static watch_t  *watch;
static int       stat_fd = -1;
static uint64_t  woken, woken_ran, woken_others;


static void
begin(void)
{
    char  *name;

    name = getenv("MCDS_LOOP");

    if (name) {
        snprintf(path, sizeof(path), "%s", name);
    }
}


/*
 * returns the times and counts of this worker's event loop; a worker is made by
 * fork(), and creates a file of its own for them
 */

static watch_t *
own(void)
{
    int   fd;
    char  name[1100];

    if (pid == getpid()) {
        return watch;
    }

    pid = getpid();
    watch = NULL;
    woken = 0;

    if (stat_fd != -1) {
        close(stat_fd);
    }

    stat_fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);

    snprintf(name, sizeof(name), "%s.%d", path, (int) pid);

    fd = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);

    if (fd == -1 || ftruncate(fd, sizeof(watch_t)) == -1) {
        return NULL;
    }

    watch = mmap(NULL, sizeof(watch_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                 0);
    close(fd);

    if (watch == MAP_FAILED) {
        watch = NULL;
    }

    return watch;
}


static uint64_t
now(clockid_t id)
{
    struct timespec  ts;

    clock_gettime(id, &ts);

    return ts.tv_sec * (uint64_t) 1000000000 + ts.tv_nsec;
}


static uint64_t
others(void)
{
    char           buf[128];
    ssize_t        n;
    unsigned long  ran, delay;

    n = stat_fd == -1 ? -1 : pread(stat_fd, buf, sizeof(buf) - 1, 0);

    if (n <= 0) {
        return 0;
    }

    buf[n] = '\0';

    if (sscanf(buf, "%lu %lu", &ran, &delay) != 2) {
        return 0;
    }

    return delay;
}


/* counts a turn of the event loop, which has just ended */

static void
turn(void)
{
    uint64_t  taken, delay;

    if (watch->wanted != watch->round) {
        watch->turns = 0;
        watch->longest = 0;
        watch->ran = 0;
        watch->others = 0;
        watch->calls = 0;
        watch->waited = 0;
        watch->name[0] = '\0';
        watch->round = watch->wanted;
        return;
    }

    watch->turns++;

    taken = now(CLOCK_MONOTONIC) - woken;

    if (taken <= watch->longest) {
        return;
    }

    delay = others() - woken_others;
    taken -= delay < taken ? delay : taken;

    if (taken > watch->longest) {
        watch->longest = taken;
        watch->ran = now(CLOCK_THREAD_CPUTIME_ID) - woken_ran;
        watch->others = delay;
    }
}


int
epoll_wait(int ep, struct epoll_event *events, int n, int timeout)
{
    int  rc;

    real(epoll_wait)

    if (own() && woken) {
        turn();
    }

    rc = real_epoll_wait(ep, events, n, timeout);

    if (watch) {
        woken_others = others();
        woken_ran = now(CLOCK_THREAD_CPUTIME_ID);
        woken = now(CLOCK_MONOTONIC);
    }

    return rc;
}


static void
called(char *name, uint64_t start)
{
    uint64_t  taken;

    if (pid != getpid() || watch == NULL) {
        return;
    }

    taken = now(CLOCK_MONOTONIC) - start;

    watch->calls++;
    snprintf(watch->name, sizeof(watch->name), "%s", name);

    if (taken > watch->waited) {
        watch->waited = taken;
    }
}


int
poll(struct pollfd *fds, nfds_t n, int timeout)
{
    waits(int, poll, fds, n, timeout)
}


int
select(int n, fd_set *r, fd_set *w, fd_set *e, struct timeval *timeout)
{
    waits(int, select, n, r, w, e, timeout)
}


int
nanosleep(const struct timespec *wanted, struct timespec *left)
{
    waits(int, nanosleep, wanted, left)
}


int
usleep(useconds_t usec)
{
    waits(int, usleep, usec)
}


unsigned int
sleep(unsigned int seconds)
{
    waits(unsigned int, sleep, seconds)
}


int
getaddrinfo(const char *node, const char *service,
    const struct addrinfo *hints, struct addrinfo **res)
{
    waits(int, getaddrinfo, node, service, hints, res)
}


struct hostent *
gethostbyname(const char *name)
{
    waits(struct hostent *, gethostbyname, name)
}


/*
 * Copyright (C) mcds authors
 *
 * Preloaded into each nginx of the long chaos run.
 *
 *   MCDS_FROM, MCDS_PORTS, MCDS_SHIFT
 *       Connections to MCDS_PORTS ports from MCDS_FROM on go to ports that are
 *       higher by MCDS_SHIFT, so that all hosts have the same names of servers,
 *       but each host its own proxies.
 *   MCDS_AHEAD
 *       A file with the microseconds, 8 bytes, by which the time of day is
 *       ahead; unlike with t/lib/clock.c, the time runs.
 */


#define _GNU_SOURCE

#include <dlfcn.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>


static void host_init(void) __attribute__((constructor));
static void host_move(struct timespec *ts);


static volatile int64_t  *host_ahead;
static int                host_from, host_ports, host_shift;


static void
host_init(void)
{
    int    fd;
    char  *path;
    void  *p;

    host_from = getenv("MCDS_FROM") ? atoi(getenv("MCDS_FROM")) : 0;
    host_ports = getenv("MCDS_PORTS") ? atoi(getenv("MCDS_PORTS")) : 0;
    host_shift = getenv("MCDS_SHIFT") ? atoi(getenv("MCDS_SHIFT")) : 0;

    path = getenv("MCDS_AHEAD");
    if (path == NULL) {
        return;
    }

    fd = open(path, O_RDONLY|O_CLOEXEC);
    p = (fd == -1) ? MAP_FAILED
                   : mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);

    if (p == MAP_FAILED) {
        abort();
    }

    close(fd);
    host_ahead = p;
}


int
connect(int fd, const struct sockaddr *addr, socklen_t len)
{
    int                 port;
    struct sockaddr_in  sin;

    if (addr->sa_family == AF_INET && len >= sizeof(sin)) {
        sin = *(const struct sockaddr_in *) addr;
        port = ntohs(sin.sin_port);

        if (port >= host_from && port < host_from + host_ports) {
            sin.sin_port = htons(port + host_shift);
            return syscall(SYS_connect, fd, &sin, sizeof(sin));
        }
    }

    return syscall(SYS_connect, fd, addr, len);
}


static void
host_move(struct timespec *ts)
{
    int64_t  us;

    if (host_ahead == NULL) {
        return;
    }

    us = ts->tv_nsec / 1000 + *host_ahead;
    ts->tv_sec += us / 1000000;
    us %= 1000000;

    if (us < 0) {
        us += 1000000;
        ts->tv_sec--;
    }

    ts->tv_nsec = us * 1000;
}


int
clock_gettime(clockid_t id, struct timespec *ts)
{
    static int  (*real)(clockid_t, struct timespec *);

    int  rc;

    if (real == NULL) {
        real = (int (*)(clockid_t, struct timespec *)) dlsym(RTLD_NEXT,
                                                             "clock_gettime");
    }

    rc = real(id, ts);

    if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE) {
        host_move(ts);
    }

    return rc;
}


int
gettimeofday(struct timeval *restrict tv, void *restrict tz)
{
    struct timespec  ts;

    (void) tz;

    clock_gettime(CLOCK_REALTIME, &ts);
    tv->tv_sec = ts.tv_sec;
    tv->tv_usec = ts.tv_nsec / 1000;

    return 0;
}


time_t
time(time_t *t)
{
    struct timespec  ts;

    clock_gettime(CLOCK_REALTIME, &ts);

    if (t) {
        *t = ts.tv_sec;
    }

    return ts.tv_sec;
}

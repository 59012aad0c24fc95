
/*
 * Copyright (C) mcds authors
 *
 * A clock that the test moves, preloaded into nginx and memcached, see
 * Test/Mcds/Clock.pm.  A file has two 64-bit numbers of microseconds: the time
 * since the epoch, to which each process adds its offset, and the time by which
 * nginx's monotonic clock is ahead of the real one.
 *
 *    MCDS_CLOCK         the file
 *    MCDS_CLOCK_OFFSET  the offset of the process, in microseconds
 *    MCDS_CLOCK_ALL     also replace the monotonic clocks by the test's clock:
 *                       for memcached, whose items expire by a monotonic clock
 *
 * Without MCDS_CLOCK_ALL the monotonic clocks, and so the timeouts of nginx,
 * run in real time, and the test can only advance them.
 */


#define _GNU_SOURCE

#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>


static void clock_init(void) __attribute__((constructor));
static int64_t clock_now(void);


static volatile int64_t  *clock_file;
static int64_t            clock_offset;
static int                clock_all;


static void
clock_init(void)
{
    int    fd;
    char  *path, *offset;
    void  *p;

    path = getenv("MCDS_CLOCK");
    if (path == NULL) {
        return;
    }

    fd = open(path, O_RDONLY|O_CLOEXEC);
    p = (fd == -1) ? MAP_FAILED
                   : mmap(NULL, 2 * sizeof(int64_t), PROT_READ, MAP_SHARED, fd,
                          0);

    if (p == MAP_FAILED) {
        abort();
    }

    close(fd);

    offset = getenv("MCDS_CLOCK_OFFSET");

    clock_offset = offset ? atoll(offset) : 0;
    clock_all = getenv("MCDS_CLOCK_ALL") != NULL;
    clock_file = p;
}


static int64_t
clock_now(void)
{
    return *clock_file + clock_offset;
}


int
clock_gettime(clockid_t id, struct timespec *ts)
{
    int64_t  now;

    if (clock_file == NULL) {
        return syscall(SYS_clock_gettime, id, ts);
    }

    switch (id) {

    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE:
        break;

    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_COARSE:
    case CLOCK_BOOTTIME:
        if (clock_all) {
            break;
        }

        if (syscall(SYS_clock_gettime, id, ts) == -1) {
            return -1;
        }

        now = ts->tv_nsec + clock_file[1] % 1000000 * 1000;

        ts->tv_sec += clock_file[1] / 1000000 + now / 1000000000;
        ts->tv_nsec = now % 1000000000;

        return 0;

    default:
        return syscall(SYS_clock_gettime, id, ts);
    }

    now = clock_now();

    ts->tv_sec = now / 1000000;
    ts->tv_nsec = now % 1000000 * 1000;

    return 0;
}


int
gettimeofday(struct timeval *restrict tv, void *restrict tz)
{
    struct timespec  ts;

    (void) tz;

    if (clock_gettime(CLOCK_REALTIME, &ts) == -1) {
        return -1;
    }

    tv->tv_sec = ts.tv_sec;
    tv->tv_usec = ts.tv_nsec / 1000;

    return 0;
}


time_t
time(time_t *t)
{
    struct timespec  ts;

    (void) clock_gettime(CLOCK_REALTIME, &ts);

    if (t) {
        *t = ts.tv_sec;
    }

    return ts.tv_sec;
}


/*
 * replaces epoll_wait(): a process with MCDS_CLOCK_ALL, such as memcached,
 * waits for at most 2 milliseconds, so that its timers run soon after a test
 * has advanced the clock
 */

int
epoll_wait(int fd, struct epoll_event *events, int max, int timeout)
{
    if (clock_file && clock_all && (timeout < 0 || timeout > 2)) {
        timeout = 2;
    }

    return syscall(SYS_epoll_pwait, fd, events, max, timeout, NULL, 8);
}


/*
 * Copyright (C) mcds authors
 *
 * Statistics: the sums of several workers, the gauges of running workers, when
 * a host logs that the circuit breaker of a server opened or closed, and the
 * counts that wait for a flush.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include "ngx_mcds_stat.h"
#include "ngx_mcds_stat_sums.h"
#include "tap.h"


#define WORKERS  4
#define ADDS     50000
#define STEP     0xc0000001


static void test_sums(void);
static void test_large(void);
static void test_whole(void);
static void test_gauges(void);
static void test_latency(void);
static void test_breaker(void);
static void test_breaker_orders(void);
static void test_breaker_killed(void);
static void test_unshared(void);
static void test_id(void);
static void test_changed(void);
static void test_time(void);
static void test_families(void);
static void wake(void);
static void gather(ngx_mcds_stat_t *stat);
static void reset(void);
static void start(ngx_uint_t n, ngx_pid_t pid);
static ngx_uint_t breaker(ngx_uint_t n, ngx_uint_t open, time_t now);
static void flush(ngx_uint_t n, ngx_uint_t pending, ngx_uint_t connections);
static ngx_mcds_stat_totals_t *totals(void);


static ngx_mcds_stat_shared_t  shared;
static ngx_mcds_stat_gauge_t   gauges[WORKERS];
static ngx_mcds_stat_sum_t     sums[NGX_MCDS_STAT_MAX];

/* statistics of one server, as each worker has them */

static ngx_mcds_stat_t         seen[WORKERS];
static ngx_pid_t               pids[WORKERS];
static uint64_t                own[WORKERS][NGX_MCDS_STAT_MAX];
static ngx_uint_t              woken, gathered;


int
main(void)
{
    test_sums();
    test_large();
    test_whole();
    test_gauges();
    test_latency();
    test_breaker();
    test_breaker_orders();
    test_breaker_killed();
    test_unshared();
    test_id();
    test_changed();
    test_time();
    test_families();

    return done_testing();
}


static void
test_sums(void)
{
    ngx_uint_t  i, n, wrong;

    reset();

    for (n = 0; n < WORKERS; n++) {
        for (i = 0; i < NGX_MCDS_STAT_LAST; i++) {
            seen[n].sums[i] = n + i;
        }
    }

    flush(0, 0, 0);
    ok(totals()->sums[7] == 7, "the first worker");

    for (n = 1; n < WORKERS; n++) {
        flush(n, 0, 0);
        flush(n, 0, 0);
    }

    wrong = 0;

    for (i = 0; i < NGX_MCDS_STAT_LAST; i++) {
        wrong += (totals()->sums[i] != 0 + 1 + 2 + 3 + 4 * i);
    }

    ok(wrong == 0, "all workers, each once");

    /* the statistics of another server take the place in shared memory */

    shared.owner++;
    seen[0].sums[7] = 100;
    flush(0, 5, 5);

    ok(sums[7] == 6 + 28, "nothing for who has the place now");
    ok(ngx_mcds_stat_read(&seen[0], totals()) == NGX_DECLINED,
       "and nothing to be read");
}


/* Sums of statistics have 64 bits, even where a word of memory has 32. */

static void
test_large(void)
{
    reset();

    sums[7] = 0xfffffff0;
    seen[0].sums[7] = 0x20;
    flush(0, 0, 0);
    ok(totals()->sums[7] == 0x100000010, "more than 32 bits");

    ngx_mcds_stat_add(&seen[1], 7, 0x300000000);
    ngx_mcds_stat_add(&seen[1], 7, 0xffffffff);
    flush(1, 0, 0);
    ok(totals()->sums[7] == 0x50000000f, "of one worker, too");
}


/*
 * A growing sum of statistics never appears to shrink, whenever its lower half
 * overflows.
 */

static void
test_whole(void)
{
    int         status;
    pid_t       pid;
    uint64_t    last, now;
    ngx_uint_t  i, n, wrong;

    reset();

    shared.sums = mmap(NULL, 4096, PROT_READ|PROT_WRITE,
                       MAP_SHARED|MAP_ANONYMOUS, -1, 0);

    for (n = 0; n < 2; n++) {
        pid = fork();

        if (pid == 0) {
            for (i = 0; i < ADDS; i++) {
                ngx_mcds_stat_add(&seen[n], 7, STEP);
                ngx_mcds_stat_flush(&seen[n]);
            }

            _exit(0);
        }
    }

    last = 0;
    wrong = 0;

    while (n) {
        now = totals()->sums[7];
        wrong += (now < last || now % STEP);
        last = now;

        if (waitpid(-1, &status, WNOHANG) > 0) {
            wrong += (status != 0);
            n--;
        }
    }

    ok(wrong == 0, "each number that was read was one");
    ok(totals()->sums[7] == 2 * ADDS * (uint64_t) STEP, "and none was lost");

    (void) munmap(shared.sums, 4096);
}


static void
test_gauges(void)
{
    reset();

    flush(0, 10, 1);
    flush(1, 5, 2);
    ok(totals()->pending == 15 && totals()->connections == 3, "gauges");

    flush(0, 0, 1);
    ok(totals()->pending == 5 && totals()->connections == 3, "written over");

    /*
     * a new worker takes over the shared memory for the gauges ("pending",
     * "connections") of an old worker, which still runs, and clears it
     */

    ngx_pid = 999;
    ngx_mcds_stat_attach(&seen[2], 1);
    ok(totals()->pending == 0, "a new worker begins with nothing");

    flush(1, 7, 7);
    ok(totals()->pending == 0, "the old one has no say");

    seen[1].sums[3] = 3;
    flush(1, 7, 7);
    ok(totals()->sums[3] == 3, "but its sums count");

    ngx_pid = 999;
    seen[2].pending = 4;
    seen[2].connections = 2;
    ngx_mcds_stat_flush(&seen[2]);
    ok(totals()->pending == 4 && totals()->connections == 3, "the new one has");

    ngx_mcds_stat_detach(&seen[2]);
    ok(totals()->pending == 0 && totals()->connections == 1, "until it ends");
    ok(seen[2].gauge == NULL, "for good");

    ngx_mcds_stat_attach(&seen[3], WORKERS);
    ok(seen[3].gauge == NULL, "no place for a number too large");
}


static void
test_latency(void)
{
    ngx_uint_t  i, wrong, sum;

    reset();

    sum = 0;
    wrong = 0;

    for (i = 0; i < NGX_MCDS_STAT_BUCKETS - 1; i++) {
        ngx_mcds_stat_latency(&seen[0], ngx_mcds_stat_bounds[i]);
        ngx_mcds_stat_latency(&seen[0], ngx_mcds_stat_bounds[i] + 1);
        sum += ngx_mcds_stat_bounds[i] * 2 + 1;

        if (i) {
            wrong += (ngx_mcds_stat_bounds[i] <= ngx_mcds_stat_bounds[i - 1]);
        }
    }

    ok(wrong == 0, "bounds grow");

    for (i = 1; i < NGX_MCDS_STAT_BUCKETS - 1; i++) {
        wrong += (seen[0].sums[NGX_MCDS_STAT_LATENCY + i] != 2);
    }

    ok(wrong == 0, "a bound belongs to its bucket");
    ok(seen[0].sums[NGX_MCDS_STAT_LATENCY] == 1, "the first bucket");
    ok(seen[0].sums[NGX_MCDS_STAT_LAST - 1] == 1, "the last one");
    ok(seen[0].sums[NGX_MCDS_STAT_LATENCY_SUM] == sum, "the sum");

    ngx_mcds_stat_latency(&seen[0], 0);
    ngx_mcds_stat_latency(&seen[0], (ngx_uint_t) -1 / 4);
    ok(seen[0].sums[NGX_MCDS_STAT_LATENCY] == 2, "no time at all");
    ok(seen[0].sums[NGX_MCDS_STAT_LAST - 1] == 2, "very long");
}


static void
test_breaker(void)
{
    reset();

    ok(breaker(0, 1, 100), "the first worker: news");
    ok(!breaker(1, 1, 101), "the second one: none");
    ok(totals()->open == 2 && totals()->open_since == 100, "open in two");

    ok(!breaker(0, 0, 102), "well in the first: no news");
    ok(totals()->open == 1 && totals()->open_since == 101, "open in one");

    ok(!breaker(0, 1, 103), "down again: no news");
    ok(totals()->open == 2 && totals()->open_since == 101, "open in two");

    ok(!breaker(1, 0, 104), "well in the second: no news");
    ok(breaker(0, 0, 105), "well in the last one: news");
    ok(totals()->open == 0 && totals()->open_since == 0, "closed");

    ok(breaker(3, 1, 106), "the next time: news");
    ok(totals()->retry == 0, "it is not known when it is tried");
    ngx_mcds_stat_retry(&seen[3], 110);
    ok(totals()->retry == 110, "when it is tried again");
    (void) breaker(2, 1, 107);
    ngx_mcds_stat_retry(&seen[2], 109);
    ok(totals()->retry == 109, "by the first one that does");
    (void) breaker(2, 0, 108);
    ok(totals()->retry == 110, "that is down");
    ok(breaker(3, 0, 107), "and its end");
}


/*
 * In whatever order the workers find a server down and up, the host logs the
 * changes of the server alternately: down, up, down, up.
 */

static void
test_breaker_orders(void)
{
    uint32_t    seed;
    ngx_uint_t  i, n, open[WORKERS], opened, news, wrong, told;

    reset();
    ngx_memzero(open, sizeof(open));

    seed = tap_seed(1);
    wrong = 0;
    opened = 0;
    told = 0;

    for (i = 0; i < 100000; i++) {
        seed = seed * 1103515245 + 12345;
        n = (seed >> 16) % WORKERS;

        open[n] = !open[n];
        opened += open[n] ? 1 : -1;

        news = breaker(n, open[n], 1000 + i);

        wrong += (news != (open[n] ? opened == 1 : opened == 0));
        wrong += (totals()->open != opened);
        told += news;
    }

    ok(wrong == 0, "the first that opens and the last that closes");
    ok(told > 1000, "%d times", (int) told);
}


static void
test_breaker_killed(void)
{
    reset();

    (void) breaker(0, 1, 100);
    (void) breaker(1, 1, 101);

    start(0, 200);
    ok(totals()->open == 1 && totals()->open_since == 101,
       "one is killed: open in the other");
    ok(!breaker(0, 1, 102), "its successor has no news");

    start(0, 201);
    start(1, 202);
    ok(totals()->open == 0, "both are killed: closed");
    ok(breaker(1, 1, 103), "and down is news");
    ok(breaker(1, 0, 104), "as is its end");

    (void) breaker(0, 1, 105);
    (void) breaker(1, 1, 106);
    start(0, 203);
    ok(breaker(1, 0, 107), "the end in the one that is left");
    ok(breaker(0, 1, 108), "and the next beginning");

    /* a worker exits after the next worker has taken over its statistics */

    reset();
    (void) breaker(0, 1, 100);
    seen[2] = seen[0];
    pids[2] = 300;
    ngx_pid = 300;
    ngx_mcds_stat_attach(&seen[2], 0);

    ok(!breaker(0, 0, 101), "the end in one that leaves is no news");
    ok(!breaker(0, 1, 102), "nor the beginning");
    ok(totals()->open == 0, "nor is it shown");
    ok(breaker(2, 1, 103), "the beginning in its successor is");
}


static void
test_unshared(void)
{
    reset();

    seen[0].shared = NULL;
    seen[0].gauge = NULL;
    seen[0].sums[0] = 1;

    flush(0, 1, 1);
    ok(seen[0].sums[0] == 1, "without a place nothing is lost");
    ok(breaker(0, 1, 1) && breaker(0, 0, 1), "and all is news");
    ok(ngx_mcds_stat_read(&seen[0], totals()) == NGX_DECLINED, "unread");

    ngx_mcds_stat_attach(&seen[0], 0);
    ok(seen[0].gauge == NULL, "unattached");
    ngx_mcds_stat_detach(&seen[0]);
}


static void
test_id(void)
{
    u_char           id[4][NGX_MCDS_STAT_ID];
    ngx_uint_t       i, j, wrong;
    ngx_mcds_stat_t  one[4];

    static ngx_str_t  names[4][2] = {
        { ngx_string("ab"), ngx_string("c") },
        { ngx_string("a"), ngx_string("bc") },
        { ngx_string(""), ngx_string("abc") },
        { ngx_string("abc"), ngx_string("") }
    };

    wrong = 0;
    ngx_memzero(one, sizeof(one));

    for (i = 0; i < 4; i++) {
        one[i].pool = names[i][0];
        one[i].name = names[i][1];
        ngx_mcds_stat_id(&one[i], id[i]);

        for (j = 0; j < i; j++) {
            wrong += (memcmp(id[i], id[j], NGX_MCDS_STAT_ID) == 0);
        }
    }

    ok(wrong == 0, "pools and servers are told apart");

    ngx_mcds_stat_id(&one[0], id[1]);
    ok(memcmp(id[0], id[1], NGX_MCDS_STAT_ID) == 0, "the same one is the same");

    one[0].family = NGX_MCDS_STAT_LOGS;
    ngx_mcds_stat_id(&one[0], id[1]);
    ok(memcmp(id[0], id[1], NGX_MCDS_STAT_ID) != 0, "but of another family");
}


static void
test_changed(void)
{
    reset();

    ngx_mcds_stat_add(NULL, 1, 1);
    ngx_mcds_stat_flush_all();
    ok(woken == 0, "without a place there is nothing to do");

    ngx_mcds_stat_wake = wake;

    ngx_mcds_stat_add(&seen[0], 1, 2);
    ngx_mcds_stat_add(&seen[0], 1, 3);
    ngx_mcds_stat_add(&seen[1], 1, 4);
    ok(woken == 2, "the clock hears of each once");
    ok(sums[1] == 0, "nothing is shared yet");

    seen[1].gather = gather;
    ngx_pid = pids[1];
    ngx_mcds_stat_flush_all();
    ok(sums[1] == 9, "then all");
    ok(gathered == 1 && totals()->pending == 8, "with what is no sum");

    ngx_mcds_stat_flush_all();
    ok(sums[1] == 9 && gathered == 1, "once");

    ngx_mcds_stat_add(&seen[1], 1, 1);
    ngx_mcds_stat_detach(&seen[1]);
    ok(sums[1] == 10 && totals()->pending == 0, "the end of one");

    ngx_mcds_stat_flush_all();
    ok(sums[1] == 10 && gathered == 1, "is its end");
}


static void
wake(void)
{
    woken++;
}


static void
gather(ngx_mcds_stat_t *stat)
{
    gathered++;
    stat->pending = 8;
}


static void
test_time(void)
{
    ngx_uint_t  i, wrong;

    reset();

    wrong = 0;

    for (i = 0; i < NGX_MCDS_STAT_TIME_BUCKETS - 1; i++) {
        ngx_mcds_stat_time(&seen[0], 10, ngx_mcds_stat_times[i]);
        wrong += (own[0][10 + 1 + i] != 1);
        wrong += (i && ngx_mcds_stat_times[i] <= ngx_mcds_stat_times[i - 1]);
    }

    ok(wrong == 0, "a bound belongs to its bucket");

    own[0][10] = 0;
    ngx_mcds_stat_time(&seen[0], 10, 60001);
    ngx_mcds_stat_time(&seen[0], 10, 0);

    ok(own[0][10] == 60001, "the sum");
    ok(own[0][10 + NGX_MCDS_STAT_TIME_BUCKETS] == 1 && own[0][11] == 2,
       "the last bucket and the first");
    ok(own[0][10 + NGX_MCDS_STAT_TIME_BUCKETS + 1] == 0,
       "and nothing behind them");

    ngx_mcds_stat_time(NULL, 10, 1);
    ngx_mcds_stat_flush_all();
}


static void
test_families(void)
{
    ngx_uint_t  i, j, wrong;

    wrong = 0;

    for (i = 0; i < NGX_MCDS_STAT_FAMILIES; i++) {
        wrong += (ngx_mcds_stat_nsums(i) == 0);
        wrong += (ngx_mcds_stat_nsums(i) > NGX_MCDS_STAT_MAX);

        for (j = 0; j < i; j++) {
            wrong += (strcmp(ngx_mcds_stat_family(i), ngx_mcds_stat_family(j))
                      == 0);
        }
    }

    ok(wrong == 0, "families have a name and room");

    for (i = NGX_MCDS_REASON_NONE; i < NGX_MCDS_REASON_LAST; i++) {
        wrong += (ngx_mcds_reasons[i].len == 0) != (i == NGX_MCDS_REASON_NONE);

        for (j = 0; j < i; j++) {
            wrong += (ngx_mcds_reasons[i].len == ngx_mcds_reasons[j].len
                      && memcmp(ngx_mcds_reasons[i].data,
                                ngx_mcds_reasons[j].data,
                                ngx_mcds_reasons[i].len) == 0);
        }
    }

    ok(wrong == 0, "reasons are told apart");
}


static void
reset(void)
{
    ngx_uint_t  n;

    ngx_memzero(&shared, sizeof(shared));
    ngx_memzero(gauges, sizeof(gauges));
    ngx_memzero(seen, sizeof(seen));
    ngx_memzero(own, sizeof(own));

    for (n = 0; n < NGX_MCDS_STAT_MAX; n++) {
        sums[n] = 0;
    }

    shared.sums = sums;
    shared.nsums = NGX_MCDS_STAT_LAST;

    for (n = 0; n < WORKERS; n++) {
        seen[n].sums = own[n];
        seen[n].nsums = NGX_MCDS_STAT_LAST;
        seen[n].shared = &shared;
        seen[n].gauges = gauges;
        seen[n].ngauges = WORKERS;

        start(n, 100 + n);
    }
}


static void
start(ngx_uint_t n, ngx_pid_t pid)
{
    pids[n] = pid;
    ngx_pid = pid;

    ngx_mcds_stat_attach(&seen[n], n);
}


static ngx_uint_t
breaker(ngx_uint_t n, ngx_uint_t open, time_t now)
{
    ngx_pid = pids[n];

    return ngx_mcds_stat_breaker(&seen[n], open, now);
}


static void
flush(ngx_uint_t n, ngx_uint_t pending, ngx_uint_t connections)
{
    ngx_pid = pids[n];

    seen[n].pending = pending;
    seen[n].connections = connections;

    ngx_mcds_stat_flush(&seen[n]);
}


static ngx_mcds_stat_totals_t *
totals(void)
{
    static ngx_mcds_stat_totals_t  all;

    (void) ngx_mcds_stat_read(&seen[1], &all);

    return &all;
}

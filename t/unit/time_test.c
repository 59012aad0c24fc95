
/*
 * Copyright (C) mcds authors
 *
 * Times beyond the range of ngx_msec_t where it has 32 bits: ngx_current_msec
 * begins again after 49 days, and only times within 24 days are unambiguous.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds.h"
#include "tap.h"


#define DAY  86400


static void test_clock(void);
static void test_msec(void);


int
main(void)
{
    test_clock();
    test_msec();

    return done_testing();
}


static void
test_clock(void)
{
    int64_t          ms;
    uint64_t         now;
    ngx_int_t        days;
    ngx_msec_t       msec;
    struct timespec  ts;

    (void) clock_gettime(CLOCK_MONOTONIC, &ts);

    now = (uint64_t) ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
    msec = (ngx_msec_t) now;

    ok(ngx_mcds_clock(msec) == now, "clock: as the system's");

    for (days = -24; days <= 24; days += 4) {
        ms = (int64_t) days * DAY * 1000;

        ok(ngx_mcds_clock(msec + (ngx_msec_t) ms) - ngx_mcds_clock(msec)
           == (uint64_t) ms,
           "clock: %d days from now", (int) days);
    }
}


static void
test_msec(void)
{
    ok(ngx_mcds_msec(0) == 0, "msec: 0");
    ok(ngx_mcds_msec(2) == 2000, "msec: 2s");
    ok(ngx_mcds_msec(24 * DAY) == 24u * DAY * 1000, "msec: 24 days");

    ok((ngx_msec_int_t) ngx_mcds_msec(NGX_MCDS_MAX_TTL) >= 24 * DAY * 1000,
       "msec: 30 days are not over");
    ok((ngx_msec_int_t) ngx_mcds_msec((uint64_t) NGX_MCDS_MAX_TTL * 60) > 0,
       "msec: nor are 60 times as much");
}


/*
 * Copyright (C) mcds authors
 *
 * Estimates, from the durations of earlier builds of pages, the time before
 * which a build is not expected to end.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_pace.h"
#include "tap.h"


static void regular(void);
static void irregular(void);
static void one_page(void);


static void
regular(void)
{
    ngx_msec_t       least;
    ngx_uint_t       i;
    ngx_mcds_pace_t  pace;

    ngx_memzero(&pace, sizeof(ngx_mcds_pace_t));

    ok(ngx_mcds_pace_least(&pace, 0) == 0, "no build was seen");

    ngx_mcds_pace_add(&pace, 0, 1000);

    ok(ngx_mcds_pace_least(&pace, 0) == 750, "one build, with a margin: %lu",
       (unsigned long) ngx_mcds_pace_least(&pace, 0));

    for (i = 0; i < 3; i++) {
        least = ngx_mcds_pace_least(&pace, 0);
        ngx_mcds_pace_add(&pace, 0, 1000);

        ok((1000 - ngx_mcds_pace_least(&pace, 0)) == (1000 - least) / 2,
           "a regular build halves the margin: %lu",
           (unsigned long) ngx_mcds_pace_least(&pace, 0));
    }

    for (i = 0; i < 20; i++) {
        ngx_mcds_pace_add(&pace, 0, 1000);
    }

    ok(ngx_mcds_pace_least(&pace, 0) == 1000, "regular builds: %lu",
       (unsigned long) ngx_mcds_pace_least(&pace, 0));

    for (i = 0; i < 40; i++) {
        ngx_mcds_pace_add(&pace, 0, 200);
    }

    least = ngx_mcds_pace_least(&pace, 0);

    ok(least >= 195 && least <= 200, "builds that have become faster: %lu",
       (unsigned long) least);

    ngx_memzero(&pace, sizeof(ngx_mcds_pace_t));

    for (i = 0; i < 40; i++) {
        ngx_mcds_pace_add(&pace, 0, 0);
    }

    ok(ngx_mcds_pace_least(&pace, 0) == 0, "builds of no time");
}


/*
 * if builds of pages take short and long times by turns, the time that a build
 * is expected to take at least (ngx_mcds_pace_least()) stays low
 */

static void
irregular(void)
{
    ngx_msec_t       least, most;
    ngx_uint_t       i;
    ngx_mcds_pace_t  pace;

    ngx_memzero(&pace, sizeof(ngx_mcds_pace_t));

    most = 0;

    for (i = 0; i < 100; i++) {
        ngx_mcds_pace_add(&pace, 0, (i % 2) ? 10 : 2000);

        least = ngx_mcds_pace_least(&pace, 0);

        if (i >= 10) {
            most = ngx_max(most, least);
        }
    }

    ok(most < 500, "short and long builds by turns: %lu", (unsigned long) most);

    ngx_mcds_pace_add(&pace, 0, 1000000);

    ok(ngx_mcds_pace_least(&pace, 0) < 1000, "one very long build: %lu",
       (unsigned long) ngx_mcds_pace_least(&pace, 0));
}


/*
 * the time that a build is expected to take at least (ngx_mcds_pace_least()) is
 * the time of the last build of the same page, less a margin, which depends on
 * the builds of all pages
 */

static void
one_page(void)
{
    ngx_uint_t       i;
    ngx_mcds_pace_t  pace;

    ngx_memzero(&pace, sizeof(ngx_mcds_pace_t));

    for (i = 0; i < 40; i++) {
        ngx_mcds_pace_add(&pace, (i % 2) ? 10 : 2000, (i % 2) ? 10 : 2000);
    }

    ok(ngx_mcds_pace_least(&pace, 2000) == 2000, "a slow page: %lu",
       (unsigned long) ngx_mcds_pace_least(&pace, 2000));
    ok(ngx_mcds_pace_least(&pace, 10) == 10, "a fast page: %lu",
       (unsigned long) ngx_mcds_pace_least(&pace, 10));

    ngx_mcds_pace_add(&pace, 2000, 1000);

    ok(ngx_mcds_pace_least(&pace, 2000) == 1500, "an early one: %lu",
       (unsigned long) ngx_mcds_pace_least(&pace, 2000));
    ok(ngx_mcds_pace_least(&pace, 10) == 0, "of the fast page: %lu",
       (unsigned long) ngx_mcds_pace_least(&pace, 10));
}


int
main(void)
{
    regular();
    irregular();
    one_page();

    return done_testing();
}


/*
 * Copyright (C) mcds authors
 *
 * The marks of counters: the mark of a counter is the expiry of its item, years
 * ahead.  A mark is a fixed time plus the time of the counter's creation modulo
 * about 194 days.  Tests the values of marks, expiries that are no marks, and
 * the age of a counter by its mark, with clocks that differ.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_raise.c"
#include "tap.h"


#define FIRST   2113929215
#define SPAN    16777216
#define NOW     1795000000


ngx_queue_t        ngx_posted_events;
ngx_rbtree_t       ngx_event_timer_rbtree;


void
ngx_rbtree_insert(ngx_rbtree_t *tree, ngx_rbtree_node_t *node)
{
    /* void */
}


void
ngx_rbtree_delete(ngx_rbtree_t *tree, ngx_rbtree_node_t *node)
{
    /* void */
}


ngx_uint_t
ngx_mcds_first(ngx_mcds_pool_t *pool, ngx_mcds_request_t *req)
{
    return 0;
}


void
ngx_mcds_submit_to(ngx_mcds_pool_t *pool, ngx_uint_t n,
    ngx_mcds_request_t *req, ngx_mcds_op_t *op)
{
    /* void */
}


void
ngx_mcds_cancel(ngx_mcds_op_t *op)
{
    /* void */
}


static void
is(int64_t got, int64_t expected, char *name)
{
    ok(got == expected, "%s", name);

    if (got != expected) {
        printf("# got %lld, expected %lld\n", (long long) got,
               (long long) expected);
    }
}


/*
 * Returns the age of a counter as a host computes it so many seconds after the
 * counter's creation, if the host's clock is ahead of memcached's by skew.
 */

static int64_t
age(time_t made, int64_t seconds, int64_t skew)
{
    time_t  now;

    now = made + seconds;

    return ngx_mcds_raise_marked((int64_t) ngx_mcds_raise_mark(made) - now,
                                 now + skew);
}


static void
test_marks(void)
{
    is(ngx_mcds_raise_mark(NOW), FIRST + NOW % SPAN, "a mark");
    ok(ngx_mcds_raise_mark(NOW) > NGX_MCDS_MAX_TTL, "a time, no seconds");
    is(ngx_mcds_raise_mark(SPAN), FIRST, "the first one");
    is(ngx_mcds_raise_mark(SPAN - 1), FIRST + SPAN - 1, "the last one");
    ok(FIRST + SPAN - 1 <= 0x7fffffff, "that memcached can have");

    is(ngx_mcds_raise_mark(FIRST - 60 * 86400 - 1) != 0, 1, "until 2036");
    is(ngx_mcds_raise_mark(FIRST - 60 * 86400), 0, "not behind it");
    is(ngx_mcds_raise_marked(60 * 86400, FIRST - 60 * 86400), -1,
       "nor is one");
}


static void
test_ages(void)
{
    is(age(NOW, 0, 0), 0, "just made");
    is(age(NOW, 3600, 0), 3600, "an hour ago");
    is(age(NOW, SPAN - 1000, 0), SPAN - 1000, "194 days ago");
    is(age(NOW, SPAN + 5, 0), 5, "and then it seems to be young again");
    is(age((NOW / SPAN + 1) * SPAN - 1, 2, 0), 2, "when the marks begin again");
    is(age((NOW / SPAN + 1) * SPAN, 2, 0), 2, "and behind that");

    /*
     * the clock of memcached agrees with that of the host that created the
     * counter, but not with this host's
     */

    is(age((NOW / SPAN + 1) * SPAN, 2, -200), 2, "a clock behind");
    is(age((NOW / SPAN + 1) * SPAN - 1, 2, 200), 2, "a clock ahead");

    /*
     * the clock of the host that created the counter was ahead of memcached's
     * and of this host's
     */

    is(age(NOW, -200, 0), 0, "by a clock that is ahead");
}


static void
test_others(void)
{
    is(ngx_mcds_raise_marked(-1, NOW), -1, "no time to live");
    is(ngx_mcds_raise_marked(0, NOW), -1, "one that ends now");
    is(ngx_mcds_raise_marked(3600, NOW), -1, "an hour");
    is(ngx_mcds_raise_marked(NGX_MCDS_MAX_TTL, NOW), -1, "30 days");
    is(ngx_mcds_raise_marked(FIRST - NOW - 301, NOW), -1, "before the first");
    is(ngx_mcds_raise_marked(FIRST + SPAN - NOW + 301, NOW), -1,
       "behind the last");
    is(ngx_mcds_raise_marked(0x7fffffff - NOW, NOW), -1, "the last second");
    is(ngx_mcds_raise_marked(INT64_MAX, NOW), -1, "for ever");
}


int
main(void)
{
    test_marks();
    test_ages();
    test_others();

    return done_testing();
}

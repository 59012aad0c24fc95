
/*
 * Copyright (C) mcds authors
 *
 * The correction of the times in stored entries that were written by hosts
 * whose clocks are ahead of this host's clock.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_skew.h"
#include "tap.h"


#define NOW   1700000000000ULL
#define LIFE  60000


static int check(ngx_uint_t kind, uint32_t flags, int64_t created,
    int64_t expire, int64_t now, int64_t is_created, int64_t is_expire,
    const char *name);


static u_char  key[] = "http://example.com/";
static u_char  pools[2];
static void   *place = &pools[0];


/*
 * Corrects the times of a stored entry as if this host's clock showed "now",
 * and checks the result: the times of creation and expiry must become
 * is_created and is_expire.  All arguments are relative to the macro NOW, ms.
 */

static int
check(ngx_uint_t kind, uint32_t flags, int64_t created, int64_t expire,
    int64_t now, int64_t is_created, int64_t is_expire, const char *name)
{
    ngx_log_t         log;
    ngx_mcds_entry_t  e;

    ngx_memzero(&log, sizeof(ngx_log_t));
    ngx_memzero(&e, sizeof(ngx_mcds_entry_t));

    e.kind = kind;
    e.flags = flags;
    e.created = NOW + created;
    e.expire = NOW + expire;
    e.key.data = key;
    e.key.len = sizeof(key) - 1;

    ngx_mcds_skew_mend(&e, place, NOW + now, &log);

    return ok(e.created == NOW + is_created && e.expire == NOW + is_expire,
              "%s: %lld %lld", name, (long long) (e.created - NOW),
              (long long) (e.expire - NOW));
}


int
main(void)
{
    int64_t     year, n;
    ngx_uint_t  page, pass, list;

    year = 365 * 86400 * (int64_t) 1000;
    page = NGX_MCDS_ENTRY_PAGE;
    pass = NGX_MCDS_ENTRY_PASS;
    list = NGX_MCDS_ENTRY_VARY;

    /*
     * a page keeps its times if its creation is at most 5 s in the future; a
     * list of variants always keeps its time of creation
     */

    check(page, 0, 0, LIFE, 0, 0, LIFE, "now");
    check(page, 0, -LIFE, 0, 0, -LIFE, 0, "expired");
    check(page, 0, 5000, LIFE + 5000, 0, 5000, LIFE + 5000, "at the bound");
    check(page, 0, -year, -year + LIFE, 0, -year, -year + LIFE, "a year ago");
    check(page, 0, -NOW, LIFE - NOW, 0, -NOW, LIFE - NOW, "in 1970");
    check(list, 0, year, 0, 0, year, 0, "a list");

    /*
     * a page whose creation is more than 5 s in the future has an unknown age,
     * and expires when the worker first sees it
     */

    check(page, 0, 5001, LIFE + 5001, 0, -LIFE, 0, "beyond the bound");
    check(page, 0, 5001, LIFE + 5001, 1, -LIFE, 0, "seen again");

    /*
     * a new version of a page, created in the future, counts as created when
     * the worker last saw the previous version of this page
     */

    check(page, 0, year, year + LIFE, 100, 1, LIFE + 1, "in a year");
    check(page, 0, year, year + LIFE, LIFE, 1, LIFE + 1, "a minute later");
    check(page, 0, year, year + LIFE, 9 * LIFE, 1, LIFE + 1, "and more");
    check(page, 0, year, LIFE, 9 * LIFE, 1, 1, "no life at all");
    check(page, 0, year, -LIFE, 9 * LIFE, 1, -LIFE, "expired long before");
    check(page, 0, year + 1, year + LIFE, 10 * LIFE, 9 * LIFE,
          10 * LIFE - 1, "another page");
    check(page, 0, 11 * LIFE, 12 * LIFE, 11 * LIFE, 11 * LIFE, 12 * LIFE,
          "one whose clock is right");
    check(page, 0, year, year + LIFE, 12 * LIFE, 11 * LIFE, 12 * LIFE,
          "made after that");

    /*
     * the worker has seen versions of the page in another pool only, so the age
     * of the page is unknown
     */

    place = &pools[1];
    check(page, 0, year, year + LIFE, 13 * LIFE, 12 * LIFE, 13 * LIFE,
          "in another pool");
    place = &pools[0];

    /*
     * a hit-for-miss entry whose creation is in the future counts as created
     * when the worker first sees it
     */

    key[0] = 'H';
    check(pass, 0, year, year + LIFE, 13 * LIFE, 13 * LIFE, 14 * LIFE,
          "a mark");
    key[0] = 'h';

    /*
     * the page keeps its corrected times even when its own time of creation is
     * no longer in the future
     */

    check(page, 0, year, year + LIFE, year - 5000, 11 * LIFE, 12 * LIFE,
          "within the bound by now");
    check(page, 0, year, year + LIFE, year + LIFE, 11 * LIFE, 12 * LIFE,
          "no longer ahead");

    /* this host's clock was set back: the page counts as not seen before */

    check(page, 0, year, year + LIFE, 50, 50 - LIFE, 50, "set back");

    /*
     * a page created in the year 9999, and a page whose lifetime is longer than
     * the time since the epoch
     */

    check(page, 0, 253402300799000LL - NOW, 253402300799000LL - NOW + LIFE, 7,
          7 - LIFE, 7, "in 9999");
    check(page, 0, year, year + 2 * (int64_t) NOW, 6, 1 - (int64_t) NOW, 6,
          "a life longer than time");

    /*
     * in the entry of a purged page and in a list of variants, "expire" is the
     * time of the purge: a purge in the future counts as a purge now
     */

    check(page, NGX_MCDS_ENTRY_INVALID, 0, 3000, 1000, 0, 1000, "purged");
    check(page, NGX_MCDS_ENTRY_INVALID, 0, 3000, 4000, 0, 3000,
          "purged a second ago");
    check(list, 0, 0, 3000, 1000, 0, 1000, "all variants purged");

    /* a worker that has seen too many pages remembers those it saw last */

    for (n = 0; n < 30000; n++) {
        ngx_memcpy(key, &n, 4);
        check(page, 0, year, year + LIFE, 20 * LIFE + n, 19 * LIFE + n,
              20 * LIFE + n, "one of many");
    }

    for (n = 29900; n < 30000; n++) {
        ngx_memcpy(key, &n, 4);
        check(page, 0, year, year + LIFE, 21 * LIFE + n, 19 * LIFE + n,
              20 * LIFE + n, "one of the last");
    }

    return done_testing();
}

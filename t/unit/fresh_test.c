
/*
 * Copyright (C) mcds authors
 *
 * Which responses are stored, and for how long; whether a stored page may be
 * served, fresh or stale; and the age of a stored page.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_fresh.h"
#include "ngx_mcds_targeted.h"
#include "tap.h"


#define NOW        1700000000           /* current time in the tests, seconds */
#define NOW_MS     1700000000250        /* time at which responses begin, ms */

#define UNSET      NGX_MCDS_ENTRY_UNSET
#define MAX        2147483648U

#define SHARED     NGX_MCDS_ENTRY_SHARED
#define REVALID    NGX_MCDS_ENTRY_REVALIDATE
#define OURS       NGX_MCDS_ENTRY_CONFIGURED
#define EACH       (NGX_MCDS_ENTRY_VALIDATE|REVALID)
#define NO_GRACE   NGX_MCDS_ENTRY_NO_GRACE

#define NEVER      NGX_MCDS_ALWAYS

/* fields of the response that a row of decide_rows sets, as bits */

#define EXPIRES    0x0001               /* Expires is NOW + row->expires */
#define BADEXP     0x0002               /* Expires is not a date */
#define DATE       0x0004               /* Date is NOW + row->date */
#define ACCEL      0x0008               /* X-Accel-Expires: NOW + row->accel */
#define VALID      0x0010               /* mcds_cache_valid is row->valid */
#define PRAGMA     0x0020
#define COOKIE     0x0040
#define VARY       0x0080
#define ENCODED    0x0100
#define AUTH       0x0200
#define ASKS       0x0400               /* no-cache does not forbid storing:
                                           each request revalidates the page */

/* directives of a parsed Cache-Control, as bits */

#define C_MAX      0x0001
#define C_SMAX     0x0002
#define C_SWR      0x0004
#define C_SIE      0x0008
#define C_NOSTORE  0x0010
#define C_NOCACHE  0x0020
#define C_PRIVATE  0x0040
#define C_PUBLIC   0x0080
#define C_MUST     0x0100
#define C_PROXY    0x0200
#define C_BAD      0x0400


typedef struct {
    const char   *cc;                   /* lines of Cache-Control, separated by
                                           LF; NULL: none */
    ngx_uint_t    bits;
    int64_t       max_age;
    int64_t       s_maxage;
    int64_t       swr;
    int64_t       sie;
} control_row_t;


typedef struct {
    ngx_uint_t    status;
    const char   *cc;
    ngx_uint_t    bits;
    int64_t       expires;
    int64_t       date;
    int64_t       accel;
    int64_t       valid;
    uint32_t      age;

    ngx_uint_t    reason;
    int64_t       life;                 /* milliseconds */
    ngx_uint_t    flags;
} decide_row_t;


typedef struct {
    uint64_t      update;
    uint64_t      grace;
    uint32_t      swr;
    uint32_t      flags;
    int64_t       late;                 /* time since the page expired, ms */
    ngx_uint_t    state;
} state_row_t;


static void test_control(void);
static void test_control_bytes(void);
static void test_decide(void);
static void test_took(void);
static void test_decide_order(void);
static void test_decide_statuses(void);
static void test_decide_origin(void);
static void test_decide_cookie(void);
static void test_decide_stale(void);
static void test_reasons(void);
static void test_state(void);
static void test_targeted(void);
static void test_ignore(void);
static void test_heuristic(void);
static void test_error(void);
static void test_accepted(void);
static void test_age(void);

static void parse(ngx_mcds_cache_control_t *cc, const char *lines);
static ngx_uint_t control_bits(ngx_mcds_cache_control_t *cc);
static const char *printable(const char *text);
static char *word(ngx_uint_t reason);


static control_row_t  control_rows[] = {

    { "", 0, 0, 0, 0, 0 },
    { " ", 0, 0, 0, 0, 0 },
    { ",, ,\t,", 0, 0, 0, 0, 0 },
    { "max-age=60", C_MAX, 60, 0, 0, 0 },
    { "max-age=\"60\"", C_MAX, 60, 0, 0, 0 },
    { "MAX-AGE=60", C_MAX, 60, 0, 0, 0 },
    { "Max-Age=060", C_MAX, 60, 0, 0, 0 },
    { "max-age=0", C_MAX, 0, 0, 0, 0 },
    { "  max-age=60  ", C_MAX, 60, 0, 0, 0 },
    { "\tmax-age=60\t,\tpublic\t", C_MAX|C_PUBLIC, 60, 0, 0, 0 },
    { ",max-age=60,,public,", C_MAX|C_PUBLIC, 60, 0, 0, 0 },
    { "max-age=60,public", C_MAX|C_PUBLIC, 60, 0, 0, 0 },
    { "s-maxage=5, max-age=60", C_SMAX|C_MAX, 60, 5, 0, 0 },
    { "S-MaxAge=5", C_SMAX, 0, 5, 0, 0 },
    { "max-age=60, stale-while-revalidate=30, stale-if-error=86400",
      C_MAX|C_SWR|C_SIE, 60, 0, 30, 86400 },
    { "stale-while-revalidate", C_SWR, 0, 0, 0, 0 },
    { "stale-if-error=x", C_SIE, 0, 0, 0, 0 },

    /* large and malformed numbers of seconds in Cache-Control */

    { "max-age=2147483647", C_MAX, 2147483647, 0, 0, 0 },
    { "max-age=2147483648", C_MAX, MAX, 0, 0, 0 },
    { "max-age=2147483649", C_MAX, MAX, 0, 0, 0 },
    { "max-age=4294967295", C_MAX, MAX, 0, 0, 0 },
    { "max-age=4294967296", C_MAX, MAX, 0, 0, 0 },
    { "max-age=18446744073709551617", C_MAX, MAX, 0, 0, 0 },
    { "max-age=1000000000000000000000000000000", C_MAX, MAX, 0, 0, 0 },
    { "max-age=0000000000000000000000000000060", C_MAX, 60, 0, 0, 0 },
    { "max-age", C_MAX, 0, 0, 0, 0 },
    { "max-age=\"\"", C_MAX, 0, 0, 0, 0 },
    { "max-age=-1", C_MAX, 0, 0, 0, 0 },
    { "max-age=+60", C_MAX, 0, 0, 0, 0 },
    { "max-age=1.5", C_MAX, 0, 0, 0, 0 },
    { "max-age=60s", C_MAX, 0, 0, 0, 0 },
    { "max-age=0x10", C_MAX, 0, 0, 0, 0 },
    { "max-age=abc", C_MAX, 0, 0, 0, 0 },
    { "max-age=\" 60\"", C_MAX, 0, 0, 0, 0 },
    { "max-age=\"6\\0\"", C_MAX, 60, 0, 0, 0 },
    { "max-age=\"\\6\\0\", s-maxage=\"6\\\\0\"", C_MAX|C_SMAX, 60, 0, 0, 0 },
    { "max-age='60'", C_MAX, 0, 0, 0, 0 },
    { "max-age=1e30", C_MAX, 0, 0, 0, 0 },

    /* duplicate directives of Cache-Control, on one line and on several */

    { "max-age=60, max-age=10", C_MAX, 10, 0, 0, 0 },
    { "max-age=10, max-age=60", C_MAX, 10, 0, 0, 0 },
    { "max-age=10\nmax-age=60", C_MAX, 10, 0, 0, 0 },
    { "max-age=60\nmax-age=10\nmax-age=30", C_MAX, 10, 0, 0, 0 },
    { "max-age=60, max-age", C_MAX, 0, 0, 0, 0 },
    { "max-age=x, max-age=60", C_MAX, 0, 0, 0, 0 },
    { "s-maxage=60, s-maxage=10", C_SMAX, 0, 10, 0, 0 },
    { "stale-while-revalidate=9\nstale-while-revalidate=8", C_SWR,
      0, 0, 8, 0 },
    { "max-age=60\nprivate", C_MAX|C_PRIVATE, 60, 0, 0, 0 },
    { "public\nno-store", C_PUBLIC|C_NOSTORE, 0, 0, 0, 0 },

    /* directives of Cache-Control without a number */

    { "no-store", C_NOSTORE, 0, 0, 0, 0 },
    { "NO-STORE", C_NOSTORE, 0, 0, 0, 0 },
    { "no-store=x", C_NOSTORE, 0, 0, 0, 0 },
    { "no-cache", C_NOCACHE, 0, 0, 0, 0 },
    { "no-cache=\"Set-Cookie\"", C_NOCACHE, 0, 0, 0, 0 },
    { "no-cache=\"Set-Cookie, X\", max-age=60", C_NOCACHE|C_MAX,
      60, 0, 0, 0 },
    { "no-cache=Set-Cookie", C_NOCACHE, 0, 0, 0, 0 },
    { "private", C_PRIVATE, 0, 0, 0, 0 },
    { "Private", C_PRIVATE, 0, 0, 0, 0 },
    { "private=\"X-User\", max-age=60", C_PRIVATE|C_MAX, 60, 0, 0, 0 },
    { "public", C_PUBLIC, 0, 0, 0, 0 },
    { "public=\"x\"", 0, 0, 0, 0, 0 },
    { "must-revalidate", C_MUST, 0, 0, 0, 0 },
    { "proxy-revalidate", C_PROXY, 0, 0, 0, 0 },
    { "Must-Revalidate,Proxy-Revalidate", C_MUST|C_PROXY, 0, 0, 0, 0 },

    /* unknown directives of Cache-Control */

    { "immutable, no-transform, max-age=60", C_MAX, 60, 0, 0, 0 },
    { "x-no-store, no-storex, no_store, nostore, no-stor", 0, 0, 0, 0, 0 },
    { "x-max-age=60, max-age2=60", 0, 0, 0, 0, 0 },
    { "community=\"UCI\", max-age=60", C_MAX, 60, 0, 0, 0 },
    { "x=no-store", 0, 0, 0, 0, 0 },
    { "x=\"no-store\"", 0, 0, 0, 0, 0 },
    { "x=\"a, no-store, private\", public", C_PUBLIC, 0, 0, 0, 0 },
    { "x=\"a\\\", no-store, \\\"b\", public", C_PUBLIC, 0, 0, 0, 0 },
    { "x=\"a\\\\\", no-store", C_NOSTORE, 0, 0, 0, 0 },
    { "x=\", max-age=60\", max-age=5", C_MAX, 5, 0, 0, 0 },
    { "x=\"\xc3\xa4\tb\", max-age=5", C_MAX, 5, 0, 0, 0 },
    { "!#$%&'*+-.^_`|~09=1, max-age=5", C_MAX, 5, 0, 0, 0 },

    /* invalid syntax of Cache-Control */

    { "max-age=", C_BAD, 0, 0, 0, 0 },
    { "max-age=, public", C_BAD, 0, 0, 0, 0 },
    { "max-age =60", C_BAD, 0, 0, 0, 0 },
    { "max-age= 60", C_BAD, 0, 0, 0, 0 },
    { "max-age=60 public", C_BAD, 0, 0, 0, 0 },
    { "max-age=60; public", C_BAD, 0, 0, 0, 0 },
    { "public max-age=60", C_BAD, 0, 0, 0, 0 },
    { "public, max-age=60;", C_BAD|C_PUBLIC, 0, 0, 0, 0 },
    { "=60", C_BAD, 0, 0, 0, 0 },
    { "=", C_BAD, 0, 0, 0, 0 },
    { "\"no-store\"", C_BAD, 0, 0, 0, 0 },
    { "x=\"open, no-store", C_BAD, 0, 0, 0, 0 },
    { "x=\"open\\\"", C_BAD, 0, 0, 0, 0 },
    { "x=\"open\\", C_BAD, 0, 0, 0, 0 },
    { "x=\"a\"b", C_BAD, 0, 0, 0, 0 },
    { "x=a\"b\"", C_BAD, 0, 0, 0, 0 },
    { "x=a=b", C_BAD, 0, 0, 0, 0 },
    { "max-age=60, \x01", C_BAD|C_MAX, 60, 0, 0, 0 },
    { "x=\"\x01\"", C_BAD, 0, 0, 0, 0 },
    { "x=\"\\\x7f\"", C_BAD, 0, 0, 0, 0 },
    { "\xc3\xa4", C_BAD, 0, 0, 0, 0 },
    { "max-age:60", C_BAD, 0, 0, 0, 0 },
    { "(public)", C_BAD, 0, 0, 0, 0 },
    { "max-age=60\n@\nno-store", C_BAD|C_MAX|C_NOSTORE, 60, 0, 0, 0 }
};


static decide_row_t  decide_rows[] = {

    /* the source of a response's lifetime */

    { 200, NULL, 0, 0, 0, 0, 0, 0,
      NGX_MCDS_REFUSE_NO_LIFETIME, 0, 0 },
    { 200, NULL, DATE, 0, 0, 0, 0, 0,
      NGX_MCDS_REFUSE_NO_LIFETIME, 0, 0 },
    { 200, "", 0, 0, 0, 0, 0, 0,
      NGX_MCDS_REFUSE_NO_LIFETIME, 0, 0 },
    { 200, "public", 0, 0, 0, 0, 0, 0,
      NGX_MCDS_REFUSE_NO_LIFETIME, 0, 0 },
    { 200, "must-revalidate", 0, 0, 0, 0, 0, 0,
      NGX_MCDS_REFUSE_NO_LIFETIME, 0, 0 },
    { 200, "stale-while-revalidate=60", 0, 0, 0, 0, 0, 0,
      NGX_MCDS_REFUSE_NO_LIFETIME, 0, 0 },
    { 200, NULL, VALID, 0, 0, 0, 30, 0,
      NGX_MCDS_STORE, 30000, OURS },
    { 200, "public", VALID, 0, 0, 0, 30, 0,
      NGX_MCDS_STORE, 30000, SHARED|OURS },
    { 200, NULL, VALID, 0, 0, 0, 0, 0,
      NGX_MCDS_REFUSE_EXPIRED, 0, 0 },
    { 200, NULL, VALID, 0, 0, 0, INT64_MAX, 0,
      NGX_MCDS_STORE, MAX * 1000LL, OURS },
    { 200, "max-age=60", 0, 0, 0, 0, 0, 0,
      NGX_MCDS_STORE, 60000, 0 },
    { 200, "max-age=60", VALID, 0, 0, 0, 30, 0,
      NGX_MCDS_STORE, 60000, 0 },
    { 200, "max-age=0", VALID, 0, 0, 0, 30, 0,
      NGX_MCDS_REFUSE_EXPIRED, 0, 0 },
    { 200, "max-age=60", EXPIRES|DATE, 10, 0, 0, 0, 0,
      NGX_MCDS_STORE, 60000, 0 },
    { 200, "max-age=60", BADEXP, 0, 0, 0, 0, 0,
      NGX_MCDS_STORE, 60000, 0 },
    { 200, "s-maxage=5, max-age=60", EXPIRES|VALID, 10, 0, 0, 30, 0,
      NGX_MCDS_STORE, 5000, SHARED|REVALID },
    { 200, "s-maxage=0, max-age=60", 0, 0, 0, 0, 0, 0,
      NGX_MCDS_REFUSE_EXPIRED, 0, 0 },
    { 200, "s-maxage=60, max-age=0", 0, 0, 0, 0, 0, 0,
      NGX_MCDS_STORE, 60000, SHARED|REVALID },
    { 200, "max-age=x", VALID, 0, 0, 0, 30, 0,
      NGX_MCDS_REFUSE_EXPIRED, 0, 0 },
    { 200, "max-age", 0, 0, 0, 0, 0, 0,
      NGX_MCDS_REFUSE_EXPIRED, 0, 0 },
    { 200, "max-age=60, max-age=0", 0, 0, 0, 0, 0, 0,
      NGX_MCDS_REFUSE_EXPIRED, 0, 0 },
    { 200, "max-age=1000000000000000000000000000000", 0, 0, 0, 0, 0, 0,
      NGX_MCDS_STORE, MAX * 1000LL, 0 },

    /* lifetimes by Expires and Date */

    { 200, NULL, EXPIRES|DATE, 60, 0, 0, 0, 0,
      NGX_MCDS_STORE, 60000, 0 },
    { 200, NULL, EXPIRES|DATE|VALID, 60, 0, 0, 30, 0,
      NGX_MCDS_STORE, 60000, 0 },
    { 200, NULL, EXPIRES|DATE, 60, 50, 0, 0, 0,
      NGX_MCDS_STORE, 10000, 0 },
    { 200, NULL, EXPIRES|DATE, 3660, 3600, 0, 0, 0,
      NGX_MCDS_STORE, 60000, 0 },
    { 200, NULL, EXPIRES|DATE, -3540, -3600, 0, 0, 0,
      NGX_MCDS_STORE, 60000, 0 },
    { 200, NULL, EXPIRES|DATE, 60, 60, 0, 0, 0,
      NGX_MCDS_REFUSE_EXPIRED, 0, 0 },
    { 200, NULL, EXPIRES|DATE|VALID, 59, 60, 0, 30, 0,
      NGX_MCDS_REFUSE_EXPIRED, 0, 0 },
    { 200, NULL, EXPIRES, 60, 0, 0, 0, 0,
      NGX_MCDS_STORE, 59750, 0 },
    { 200, NULL, EXPIRES, 1, 0, 0, 0, 0,
      NGX_MCDS_STORE, 750, 0 },
    { 200, NULL, EXPIRES, 0, 0, 0, 0, 0,
      NGX_MCDS_REFUSE_EXPIRED, 0, 0 },
    { 200, NULL, EXPIRES, -NOW, 0, 0, 0, 0,
      NGX_MCDS_REFUSE_EXPIRED, 0, 0 },
    { 200, NULL, BADEXP, 0, 0, 0, 0, 0,
      NGX_MCDS_REFUSE_EXPIRED, 0, 0 },
    { 200, NULL, BADEXP|DATE|VALID, 0, 0, 0, 30, 0,
      NGX_MCDS_REFUSE_EXPIRED, 0, 0 },
    { 200, NULL, EXPIRES, 253402300799 - NOW, 0, 0, 0, 0,
      NGX_MCDS_STORE, MAX * 1000LL - 250, 0 },
    { 200, NULL, EXPIRES|DATE, INT64_MAX - NOW, INT64_MIN, 0, 0, 0,
      NGX_MCDS_STORE, MAX * 1000LL, 0 },

    /* lifetimes by X-Accel-Expires, which precedes Cache-Control */

    { 200, NULL, ACCEL, 0, 0, 10, 0, 0,
      NGX_MCDS_STORE, 10000, 0 },
    { 200, "s-maxage=5, max-age=60", ACCEL|EXPIRES|VALID, 20, 0, 10, 30, 0,
      NGX_MCDS_STORE, 10000, SHARED|REVALID },
    { 200, "max-age=0", ACCEL, 0, 0, 10, 0, 0,
      NGX_MCDS_STORE, 10000, 0 },
    { 200, "max-age=60", ACCEL|VALID, 0, 0, 0, 30, 0,
      NGX_MCDS_REFUSE_EXPIRED, 0, 0 },
    { 200, "max-age=60", ACCEL, 0, 0, -NOW, 0, 0,
      NGX_MCDS_REFUSE_EXPIRED, 0, 0 },
    { 200, NULL, ACCEL, 0, 0, 10, 0, 9,
      NGX_MCDS_STORE, 10000, 0 },
    { 200, NULL, ACCEL, 0, 0, INT64_MAX - NOW, 0, 0,
      NGX_MCDS_STORE, MAX * 1000LL, 0 },
    { 200, "no-store", ACCEL, 0, 0, 10, 0, 0,
      NGX_MCDS_REFUSE_NO_STORE, 0, 0 },
    { 200, "private", ACCEL, 0, 0, 10, 0, 0,
      NGX_MCDS_REFUSE_PRIVATE, 0, 0 },
    { 200, NULL, ACCEL|COOKIE, 0, 0, 10, 0, 0,
      NGX_MCDS_REFUSE_SET_COOKIE, 0, 0 },
    { 404, NULL, ACCEL, 0, 0, 10, 0, 0,
      NGX_MCDS_STORE, 10000, 0 },
    { 500, NULL, ACCEL, 0, 0, 10, 0, 0,
      NGX_MCDS_REFUSE_STATUS, 0, 0 },

    /* the Age of a response is subtracted from its lifetime */

    { 200, "max-age=60", 0, 0, 0, 0, 0, 59,
      NGX_MCDS_STORE, 1000, 0 },
    { 200, "max-age=60", 0, 0, 0, 0, 0, 60,
      NGX_MCDS_REFUSE_EXPIRED, 0, 0 },
    { 200, "max-age=60", VALID, 0, 0, 0, 30, 0xffffffff,
      NGX_MCDS_REFUSE_EXPIRED, 0, 0 },
    { 200, "s-maxage=60", 0, 0, 0, 0, 0, 10,
      NGX_MCDS_STORE, 50000, SHARED|REVALID },
    { 200, NULL, EXPIRES|DATE, 60, 0, 0, 0, 10,
      NGX_MCDS_STORE, 50000, 0 },
    { 200, NULL, EXPIRES|DATE, 60, 0, 0, 0, 60,
      NGX_MCDS_REFUSE_EXPIRED, 0, 0 },
    { 200, NULL, EXPIRES, 60, 0, 0, 0, 10,
      NGX_MCDS_STORE, 49750, 0 },
    { 200, NULL, VALID, 0, 0, 0, 30, 3600,
      NGX_MCDS_STORE, 30000, OURS },

    /* responses that must not be stored */

    { 200, "private", VALID, 0, 0, 0, 30, 0,
      NGX_MCDS_REFUSE_PRIVATE, 0, 0 },
    { 200, "private=\"X-User\", max-age=60", 0, 0, 0, 0, 0, 0,
      NGX_MCDS_REFUSE_PRIVATE, 0, 0 },
    { 200, "max-age=60\nPRIVATE", 0, 0, 0, 0, 0, 0,
      NGX_MCDS_REFUSE_PRIVATE, 0, 0 },
    { 200, "public, s-maxage=60\nprivate", 0, 0, 0, 0, 0, 0,
      NGX_MCDS_REFUSE_PRIVATE, 0, 0 },
    { 200, "no-store, max-age=60", 0, 0, 0, 0, 0, 0,
      NGX_MCDS_REFUSE_NO_STORE, 0, 0 },
    { 200, "max-age=60\nno-store", 0, 0, 0, 0, 0, 0,
      NGX_MCDS_REFUSE_NO_STORE, 0, 0 },
    { 200, "no-cache", VALID, 0, 0, 0, 30, 0,
      NGX_MCDS_REFUSE_NO_CACHE, 0, 0 },
    { 200, "no-cache=\"X\", max-age=60", 0, 0, 0, 0, 0, 0,
      NGX_MCDS_REFUSE_NO_CACHE, 0, 0 },
    { 200, "no-cache", ASKS, 0, 0, 0, 0, 0,
      NGX_MCDS_STORE, 0, OURS|EACH },
    { 200, "no-cache, max-age=60", ASKS, 0, 0, 0, 0, 70,
      NGX_MCDS_STORE, 0, EACH },
    { 200, "no-cache=\"X\", s-maxage=60", ASKS, 0, 0, 0, 0, 0,
      NGX_MCDS_STORE, 0, SHARED|EACH },
    { 200, NULL, PRAGMA|EXPIRES|ASKS, 60, 0, 0, 0, 0,
      NGX_MCDS_STORE, 0, EACH },
    { 200, "max-age=60", ASKS, 0, 0, 0, 0, 0,
      NGX_MCDS_STORE, 60000, 0 },
    { 200, "no-cache, no-store", ASKS, 0, 0, 0, 0, 0,
      NGX_MCDS_REFUSE_NO_STORE, 0, 0 },
    { 200, "no-cache; max-age=60", ASKS, 0, 0, 0, 0, 0,
      NGX_MCDS_REFUSE_MALFORMED, 0, 0 },
    { 200, "no-cache", ASKS|AUTH, 0, 0, 0, 0, 0,
      NGX_MCDS_REFUSE_AUTHORIZATION, 0, 0 },
    { 200, "no-cache", ASKS|VARY, 0, 0, 0, 0, 0,
      NGX_MCDS_REFUSE_VARY, 0, 0 },
    { 200, "x=\"no-store\", max-age=60", 0, 0, 0, 0, 0, 0,
      NGX_MCDS_STORE, 60000, 0 },
    { 200, "max-age=60; private", 0, 0, 0, 0, 0, 0,
      NGX_MCDS_REFUSE_MALFORMED, 0, 0 },
    { 200, "max-age=60\nx=\"open", VALID, 0, 0, 0, 30, 0,
      NGX_MCDS_REFUSE_MALFORMED, 0, 0 },
    { 200, NULL, PRAGMA|VALID, 0, 0, 0, 30, 0,
      NGX_MCDS_REFUSE_NO_CACHE, 0, 0 },
    { 200, NULL, PRAGMA|EXPIRES, 60, 0, 0, 0, 0,
      NGX_MCDS_REFUSE_NO_CACHE, 0, 0 },
    { 200, "immutable", PRAGMA|VALID, 0, 0, 0, 30, 0,
      NGX_MCDS_REFUSE_NO_CACHE, 0, 0 },
    { 200, "max-age=60", PRAGMA, 0, 0, 0, 0, 0,
      NGX_MCDS_STORE, 60000, 0 },
    { 200, "public", PRAGMA|VALID, 0, 0, 0, 30, 0,
      NGX_MCDS_STORE, 30000, SHARED|OURS },
    { 200, "proxy-revalidate", PRAGMA|VALID, 0, 0, 0, 30, 0,
      NGX_MCDS_STORE, 30000, REVALID|OURS },
    { 200, "max-age=60", COOKIE, 0, 0, 0, 0, 0,
      NGX_MCDS_REFUSE_SET_COOKIE, 0, 0 },
    { 200, "max-age=60", VARY, 0, 0, 0, 0, 0,
      NGX_MCDS_REFUSE_VARY, 0, 0 },
    { 200, "max-age=60", ENCODED, 0, 0, 0, 0, 0,
      NGX_MCDS_REFUSE_ENCODED, 0, 0 },

    /* responses to requests with Authorization */

    { 200, "max-age=60", AUTH, 0, 0, 0, 0, 0,
      NGX_MCDS_REFUSE_AUTHORIZATION, 0, 0 },
    { 200, NULL, AUTH|VALID, 0, 0, 0, 30, 0,
      NGX_MCDS_REFUSE_AUTHORIZATION, 0, 0 },
    { 200, NULL, AUTH|ACCEL, 0, 0, 10, 0, 0,
      NGX_MCDS_REFUSE_AUTHORIZATION, 0, 0 },
    { 200, "max-age=60, proxy-revalidate", AUTH, 0, 0, 0, 0, 0,
      NGX_MCDS_REFUSE_AUTHORIZATION, 0, 0 },
    { 200, "max-age=60, public=x", AUTH, 0, 0, 0, 0, 0,
      NGX_MCDS_REFUSE_AUTHORIZATION, 0, 0 },
    { 200, "max-age=60, public", AUTH, 0, 0, 0, 0, 0,
      NGX_MCDS_STORE, 60000, SHARED },
    { 200, "s-maxage=60", AUTH, 0, 0, 0, 0, 0,
      NGX_MCDS_STORE, 60000, SHARED|REVALID },
    { 200, "max-age=60, must-revalidate", AUTH, 0, 0, 0, 0, 0,
      NGX_MCDS_STORE, 60000, SHARED|REVALID },
    { 200, "max-age=60, public, private", AUTH, 0, 0, 0, 0, 0,
      NGX_MCDS_REFUSE_PRIVATE, 0, 0 },
    { 200, "public", AUTH, 0, 0, 0, 0, 0,
      NGX_MCDS_REFUSE_NO_LIFETIME, 0, 0 },

    /* flags of the stored entry, by must-revalidate, s-maxage and the like */

    { 200, "max-age=60, must-revalidate", 0, 0, 0, 0, 0, 0,
      NGX_MCDS_STORE, 60000, SHARED|REVALID },
    { 200, "max-age=60, proxy-revalidate", 0, 0, 0, 0, 0, 0,
      NGX_MCDS_STORE, 60000, REVALID },
    { 200, "s-maxage=60, stale-while-revalidate=5", 0, 0, 0, 0, 0, 0,
      NGX_MCDS_STORE, 60000, SHARED|NO_GRACE },
    { 200, "s-maxage=60, stale-if-error=5", 0, 0, 0, 0, 0, 0,
      NGX_MCDS_STORE, 60000, SHARED|NO_GRACE },
    { 200, "s-maxage=60, stale-if-error=5, proxy-revalidate", 0, 0, 0, 0, 0, 0,
      NGX_MCDS_STORE, 60000, SHARED|REVALID },
    { 200, "s-maxage=60, stale-if-error=5, must-revalidate", 0, 0, 0, 0, 0, 0,
      NGX_MCDS_STORE, 60000, SHARED|REVALID },
    { 200, "max-age=60, stale-while-revalidate=5", 0, 0, 0, 0, 0, 0,
      NGX_MCDS_STORE, 60000, 0 },

    /* which status codes are stored, and with which lifetime */

    { 204, "max-age=60", 0, 0, 0, 0, 0, 0, NGX_MCDS_STORE, 60000, 0 },
    { 301, "max-age=60", 0, 0, 0, 0, 0, 0, NGX_MCDS_STORE, 60000, 0 },
    { 302, NULL, 0, 0, 0, 0, 0, 0, NGX_MCDS_REFUSE_NO_LIFETIME, 0, 0 },
    { 302, NULL, VALID, 0, 0, 0, 30, 0, NGX_MCDS_STORE, 30000, OURS },
    { 404, NULL, 0, 0, 0, 0, 0, 0, NGX_MCDS_REFUSE_NO_LIFETIME, 0, 0 },
    { 404, "max-age=60", 0, 0, 0, 0, 0, 0, NGX_MCDS_STORE, 60000, 0 },
    { 404, "max-age=0", 0, 0, 0, 0, 0, 0, NGX_MCDS_REFUSE_EXPIRED, 0, 0 },
    { 404, NULL, VALID, 0, 0, 0, 30, 0, NGX_MCDS_STORE, 30000, OURS },
    { 410, NULL, EXPIRES|DATE, 60, 0, 0, 0, 0, NGX_MCDS_STORE, 60000, 0 },
    { 403, "max-age=60", 0, 0, 0, 0, 0, 0, NGX_MCDS_REFUSE_STATUS, 0, 0 },
    { 403, NULL, VALID, 0, 0, 0, 30, 0, NGX_MCDS_STORE, 30000, OURS },
    { 403, "max-age=60", VALID, 0, 0, 0, 30, 0, NGX_MCDS_STORE, 60000, 0 },
    { 500, "max-age=60, public", 0, 0, 0, 0, 0, 0,
      NGX_MCDS_REFUSE_STATUS, 0, 0 },
    { 503, NULL, VALID, 0, 0, 0, 3, 0, NGX_MCDS_STORE, 3000, OURS },
    { 503, NULL, VALID, 0, 0, 0, 0, 0, NGX_MCDS_REFUSE_EXPIRED, 0, 0 },
    { 206, "max-age=60", VALID, 0, 0, 0, 30, 0,
      NGX_MCDS_REFUSE_STATUS, 0, 0 },
    { 304, "max-age=60", VALID, 0, 0, 0, 30, 0,
      NGX_MCDS_REFUSE_STATUS, 0, 0 },
    { 101, "max-age=60", VALID, 0, 0, 0, 30, 0,
      NGX_MCDS_REFUSE_STATUS, 0, 0 },
    { 0, "max-age=60", VALID, 0, 0, 0, 30, 0,
      NGX_MCDS_REFUSE_STATUS, 0, 0 },
    { 600, "max-age=60", VALID, 0, 0, 0, 30, 0,
      NGX_MCDS_REFUSE_STATUS, 0, 0 }
};


static state_row_t  state_rows[] = {

    { 60000, NEVER, UNSET, 0, -1700000030000, NGX_MCDS_FRESH },
    { 60000, NEVER, UNSET, 0, -1, NGX_MCDS_FRESH },
    { 60000, NEVER, UNSET, 0, 0, NGX_MCDS_STALE_USABLE },
    { 60000, NEVER, UNSET, 0, 59999, NGX_MCDS_STALE_USABLE },
    { 60000, NEVER, UNSET, 0, 60000, NGX_MCDS_STALE_LAST },
    { 60000, NEVER, UNSET, 0, 60001, NGX_MCDS_STALE_LAST },
    { 60000, NEVER, UNSET, 0, 31536000000, NGX_MCDS_STALE_LAST },

    /* the time for updates in the background (1st field) is 0 or unlimited */

    { 0, NEVER, UNSET, 0, -1, NGX_MCDS_FRESH },
    { 0, NEVER, UNSET, 0, 0, NGX_MCDS_STALE_LAST },
    { NEVER, NEVER, UNSET, 0, 0, NGX_MCDS_STALE_USABLE },
    { NEVER, NEVER, UNSET, 0, 31536000000, NGX_MCDS_STALE_USABLE },

    /* a stale page may be used until the end of its grace (2nd field) */

    { 60000, 90000, UNSET, 0, 60000, NGX_MCDS_STALE_LAST },
    { 60000, 90000, UNSET, 0, 89999, NGX_MCDS_STALE_LAST },
    { 60000, 90000, UNSET, 0, 90000, NGX_MCDS_STALE_UNUSABLE },
    { 60000, 0, UNSET, 0, -1, NGX_MCDS_FRESH },
    { 60000, 0, UNSET, 0, 0, NGX_MCDS_STALE_UNUSABLE },
    { 60000, 30000, UNSET, 0, 29999, NGX_MCDS_STALE_USABLE },
    { 60000, 30000, UNSET, 0, 30000, NGX_MCDS_STALE_UNUSABLE },
    { NEVER, 30000, UNSET, 0, 29999, NGX_MCDS_STALE_USABLE },
    { NEVER, 30000, UNSET, 0, 30000, NGX_MCDS_STALE_UNUSABLE },

    /*
     * stale-while-revalidate (3rd field) replaces the time for updates in the
     * background (1st field)
     */

    { 60000, NEVER, 10, 0, 0, NGX_MCDS_STALE_USABLE },
    { 60000, NEVER, 10, 0, 9999, NGX_MCDS_STALE_USABLE },
    { 60000, NEVER, 10, 0, 10000, NGX_MCDS_STALE_LAST },
    { 0, NEVER, 10, 0, 9999, NGX_MCDS_STALE_USABLE },
    { NEVER, NEVER, 10, 0, 10000, NGX_MCDS_STALE_LAST },
    { 60000, NEVER, 0, 0, 0, NGX_MCDS_STALE_LAST },
    { 60000, 90000, 3600, 0, 89999, NGX_MCDS_STALE_USABLE },
    { 60000, 90000, 3600, 0, 90000, NGX_MCDS_STALE_USABLE },
    { 0, NEVER, MAX, 0, 2147483647999, NGX_MCDS_STALE_USABLE },
    { 0, NEVER, MAX, 0, 2147483648000, NGX_MCDS_STALE_LAST },

    /* a page with must-revalidate (REVALID) is never used stale */

    { 60000, NEVER, UNSET, REVALID, -1, NGX_MCDS_FRESH },
    { 60000, NEVER, UNSET, REVALID, 0, NGX_MCDS_STALE_UNUSABLE },
    { NEVER, NEVER, UNSET, REVALID, 0, NGX_MCDS_STALE_UNUSABLE },
    { 60000, NEVER, 10, REVALID, 0, NGX_MCDS_STALE_UNUSABLE },
    { 60000, NEVER, 10, REVALID|SHARED, 70000, NGX_MCDS_STALE_UNUSABLE },

    /*
     * a page with s-maxage and stale-while-revalidate (NO_GRACE) is used stale
     * for exactly the seconds of stale-while-revalidate (3rd field)
     */

    { 60000, NEVER, 10, NO_GRACE, -1, NGX_MCDS_FRESH },
    { 60000, NEVER, 10, NO_GRACE, 9999, NGX_MCDS_STALE_USABLE },
    { 60000, NEVER, 10, NO_GRACE, 10000, NGX_MCDS_STALE_UNUSABLE },
    { NEVER, NEVER, 10, NO_GRACE|OURS, 10000, NGX_MCDS_STALE_UNUSABLE },
    { 60000, NEVER, 0, NO_GRACE, 0, NGX_MCDS_STALE_UNUSABLE },
    { NEVER, NEVER, UNSET, NO_GRACE, 0, NGX_MCDS_STALE_UNUSABLE },

    { 60000, NEVER, UNSET, SHARED, 0, NGX_MCDS_STALE_USABLE }
};


int
main(void)
{
    test_control();
    test_control_bytes();
    test_decide();
    test_took();
    test_decide_order();
    test_decide_statuses();
    test_decide_origin();
    test_decide_cookie();
    test_decide_stale();
    test_reasons();
    test_state();
    test_targeted();
    test_ignore();
    test_heuristic();
    test_error();
    test_accepted();
    test_age();

    return done_testing();
}


static void
test_control(void)
{
    ngx_uint_t                 i;
    control_row_t             *row;
    ngx_mcds_cache_control_t   cc;

    for (i = 0; i < sizeof(control_rows) / sizeof(control_rows[0]); i++) {
        row = &control_rows[i];

        parse(&cc, row->cc);

        ok(control_bits(&cc) == row->bits
           && cc.max_age == row->max_age && cc.s_maxage == row->s_maxage
           && cc.swr == row->swr && cc.sie == row->sie,
           "control %u: %s", (unsigned) i, printable(row->cc));
    }
}


/*
 * Each byte after the name of a directive of Cache-Control: a space, a tab and
 * a comma end the name, a byte that a name can have makes another name, and any
 * other byte is an error.
 */

static void
test_control_bytes(void)
{
    u_char                    *text;
    ngx_str_t                  line;
    ngx_uint_t                 c, n, wrong;
    ngx_mcds_cache_control_t   cc;

    wrong = 0;

    for (c = 0; c < 256; c++) {
        line.len = sizeof("no-store? ") - 1;
        line.data = malloc(line.len);
        ngx_memcpy(line.data, "no-store? ", line.len);
        line.data[8] = (u_char) c;

        ngx_memzero(&cc, sizeof(cc));
        ngx_mcds_cache_control_add(&cc, &line);

        /* n: "no-store" and this byte are the name of an unknown directive */

        n = c != 0 && (isalnum((int) c)
                       || strchr("!#$%&'*+-.^_`|~", (int) c) != NULL);

        if (c == ' ' || c == '\t' || c == ',') {
            wrong += !cc.no_store || cc.malformed;

        } else {
            wrong += cc.no_store || cc.malformed == n;
        }

        free(line.data);
    }

    ok(wrong == 0, "any byte behind a directive");

    /* Cache-Control is cut at each byte, in memory of exactly its size */

    text = (u_char *) "x=\"a\\\"b\" , max-age=\"60\", private=\"X, Y\","
                      "no-store";
    wrong = 0;

    for (n = 0; n <= ngx_strlen(text); n++) {
        line.len = n;
        line.data = malloc(n ? n : 1);
        ngx_memcpy(line.data, text, n);

        ngx_memzero(&cc, sizeof(cc));
        ngx_mcds_cache_control_add(&cc, &line);

        wrong += cc.no_store != (n == ngx_strlen(text));
        wrong += cc.has_max_age != (n == 18 || n > 22);

        free(line.data);
    }

    ok(wrong == 0, "a line cut at each place");
}


static void
test_decide(void)
{
    int                  good;
    ngx_uint_t           i, reason;
    decide_row_t        *row;
    ngx_mcds_entry_t     entry, before;
    ngx_mcds_response_t  response;

    for (i = 0; i < sizeof(decide_rows) / sizeof(decide_rows[0]); i++) {
        row = &decide_rows[i];

        ngx_memzero(&response, sizeof(response));
        parse(&response.cc, row->cc);

        response.status = row->status;
        response.age = row->age;
        response.date = (row->bits & DATE) ? NOW + row->date : NGX_ERROR;
        response.valid = (row->bits & VALID) ? row->valid : -1;

        response.has_expires = (row->bits & (EXPIRES|BADEXP)) != 0;
        response.expires = (row->bits & BADEXP) ? NGX_ERROR
                                                : NOW + row->expires;

        response.has_accel = (row->bits & ACCEL) != 0;
        response.accel = (row->bits & ACCEL) ? NOW + row->accel : 0;

        response.pragma_no_cache = (row->bits & PRAGMA) != 0;
        response.set_cookie = (row->bits & COOKIE) != 0;
        response.vary = (row->bits & VARY) != 0;
        response.encoded = (row->bits & ENCODED) != 0;
        response.authorization = (row->bits & AUTH) != 0;
        response.validated = (row->bits & ASKS) != 0;

        ngx_memset(&entry, 0x5a, sizeof(entry));
        before = entry;

        reason = ngx_mcds_fresh_decide(&response, NOW_MS, &entry);

        good = reason == row->reason;

        if (reason == NGX_MCDS_STORE) {
            good = good && entry.status == row->status
                   && entry.created == NOW_MS
                   && (int64_t) (entry.expire - NOW_MS) == row->life
                   && entry.flags == row->flags
                   && entry.age == row->age
                   && entry.generation == before.generation
                   && entry.key.data == before.key.data;

        } else {
            good = good && ngx_memcmp(&entry, &before, sizeof(entry)) == 0;
        }

        ok(good, "decide %u: %u %s: %s", (unsigned) i,
           (unsigned) row->status, row->cc ? printable(row->cc) : "-",
           word(row->reason));
    }
}


static void
test_took(void)
{
    ngx_uint_t           i, reason;
    ngx_mcds_entry_t     entry;
    ngx_mcds_response_t  response;

    /*
     * lifetimes that the origin sets count from the request to it, other
     * lifetimes from its response
     */

    static struct {
        const char  *cc;
        ngx_uint_t   bits;         /* VALID: mcds_cache_valid is 60 seconds */
        ngx_uint_t   heuristic;
        uint32_t     age;
        uint32_t     took;
        ngx_uint_t   reason;
        int64_t      life;
        uint32_t     now;          /* age of the page when it is stored */
    } rows[] = {
        { "max-age=60", 0, 0, 0, 0, NGX_MCDS_STORE, 60000, 0 },
        { "max-age=60", 0, 0, 0, 2500, NGX_MCDS_STORE, 57500, 2 },
        { "max-age=60", 0, 0, 7, 2500, NGX_MCDS_STORE, 50500, 9 },
        { "max-age=60", 0, 0, 0, 59999, NGX_MCDS_STORE, 1, 59 },
        { "max-age=60", 0, 0, 0, 60000, NGX_MCDS_STORE, 0, 60 },
        { "max-age=60", 0, 0, 0, 65000, NGX_MCDS_STORE, -5000, 65 },
        { "max-age=60", 0, 0, 59, 2000, NGX_MCDS_STORE, -1000, 61 },
        { "max-age=60", 0, 0, 60, 0, NGX_MCDS_REFUSE_EXPIRED, 0, 0 },
        { "max-age=60", 0, 0, 60, 2000, NGX_MCDS_REFUSE_EXPIRED, 0, 0 },
        { "max-age=0", 0, 0, 0, 2000, NGX_MCDS_REFUSE_EXPIRED, 0, 0 },
        { "max-age=60, must-revalidate", 0, 0, 0, 59999,
          NGX_MCDS_STORE, 1, 59 },
        { "max-age=60, must-revalidate", 0, 0, 0, 60000,
          NGX_MCDS_REFUSE_EXPIRED, 0, 0 },
        { "max-age=60, proxy-revalidate", 0, 0, 0, 60000,
          NGX_MCDS_REFUSE_EXPIRED, 0, 0 },
        { "s-maxage=60", 0, 0, 0, 2000, NGX_MCDS_STORE, 58000, 2 },
        { "s-maxage=60", 0, 0, 0, 60000, NGX_MCDS_REFUSE_EXPIRED, 0, 0 },
        { "s-maxage=60, stale-if-error=9", 0, 0, 0, 61000,
          NGX_MCDS_REFUSE_EXPIRED, 0, 0 },
        { "s-maxage=60, stale-while-revalidate=9", 0, 0, 0, 68999,
          NGX_MCDS_STORE, -8999, 68 },
        { "s-maxage=60, stale-while-revalidate=9", 0, 0, 0, 69000,
          NGX_MCDS_REFUSE_EXPIRED, 0, 0 },
        { NULL, EXPIRES|DATE, 0, 0, 2000, NGX_MCDS_STORE, 58000, 2 },
        { NULL, EXPIRES, 0, 0, 2000, NGX_MCDS_STORE, 57750, 2 },
        { NULL, 0, 10, 0, 2000, NGX_MCDS_STORE, 58000, 2 },
        { NULL, VALID, 0, 7, 2000, NGX_MCDS_STORE, 60000, 9 },
        { NULL, VALID, 0, 0, 90000, NGX_MCDS_STORE, 60000, 90 },
        { "must-revalidate", VALID, 0, 0, 90000, NGX_MCDS_STORE, 60000, 90 },
        { "max-age=1", ACCEL, 0, 0, 90000, NGX_MCDS_STORE, 60000, 90 }
    };

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ngx_memzero(&entry, sizeof(entry));
        ngx_memzero(&response, sizeof(response));
        parse(&response.cc, rows[i].cc);

        response.status = 200;
        response.age = rows[i].age;
        response.took = rows[i].took;
        response.date = (rows[i].bits & DATE) ? NOW : NGX_ERROR;
        response.has_expires = (rows[i].bits & EXPIRES) != 0;
        response.expires = NOW + 60;
        response.has_accel = (rows[i].bits & ACCEL) != 0;
        response.accel = NOW + 60;
        response.valid = (rows[i].bits & VALID) ? 60 : -1;
        response.heuristic = rows[i].heuristic;
        response.heuristic_max = 86400;
        response.last_modified = NOW - 600;

        reason = ngx_mcds_fresh_decide(&response, NOW_MS, &entry);

        ok(reason == rows[i].reason
           && (reason != NGX_MCDS_STORE
               || ((int64_t) (entry.expire - NOW_MS) == rows[i].life
                   && entry.took == rows[i].took
                   && ngx_mcds_fresh_age(&entry, NOW_MS) == rows[i].now)),
           "took %u: %s: %s", (unsigned) rows[i].took,
           rows[i].cc ? rows[i].cc : "-", word(reason));
    }

    entry.age = 0;
    entry.took = 600;
    entry.created = NOW_MS;

    ok(ngx_mcds_fresh_age(&entry, NOW_MS + 399) == 0
       && ngx_mcds_fresh_age(&entry, NOW_MS + 400) == 1
       && ngx_mcds_fresh_age(&entry, NOW_MS - 1) == 0,
       "age: parts of seconds add up");
}


/*
 * If several reasons forbid storing a response, the first reason is reported;
 * the test then removes the reasons in turn.
 */

static void
test_decide_order(void)
{
    ngx_uint_t           n, wrong;
    ngx_mcds_entry_t     entry;
    ngx_mcds_response_t  response;

    ngx_memzero(&response, sizeof(response));

    response.status = 206;
    response.date = NGX_ERROR;
    response.valid = 0;
    response.set_cookie = 1;
    response.authorization = 1;
    response.vary = 1;
    response.encoded = 1;
    response.cc.private = 1;
    response.cc.no_store = 1;
    response.cc.no_cache = 1;
    response.cc.malformed = 1;

    wrong = 0;

    for (n = NGX_MCDS_REFUSE_STATUS; n <= NGX_MCDS_REFUSE_NO_LIFETIME; n++) {

        wrong += ngx_mcds_fresh_decide(&response, NOW_MS, &entry) != n;

        switch (n) {

        case NGX_MCDS_REFUSE_STATUS:
            response.status = 200;
            break;

        case NGX_MCDS_REFUSE_SET_COOKIE:
            response.set_cookie = 0;
            break;

        case NGX_MCDS_REFUSE_PRIVATE:
            response.cc.private = 0;
            break;

        case NGX_MCDS_REFUSE_NO_STORE:
            response.cc.no_store = 0;
            break;

        case NGX_MCDS_REFUSE_NO_CACHE:
            response.cc.no_cache = 0;
            break;

        case NGX_MCDS_REFUSE_MALFORMED:
            response.cc.malformed = 0;
            break;

        case NGX_MCDS_REFUSE_AUTHORIZATION:
            response.cc.public = 1;
            break;

        case NGX_MCDS_REFUSE_VARY:
            response.vary = 0;
            break;

        case NGX_MCDS_REFUSE_ENCODED:
            response.encoded = 0;
            break;

        case NGX_MCDS_REFUSE_EXPIRED:
            response.valid = -1;
            break;

        default:
            response.valid = 1;
            break;
        }
    }

    ok(wrong == 0
       && ngx_mcds_fresh_decide(&response, NOW_MS, &entry) == NGX_MCDS_STORE,
       "the first reason that applies is told");
}


static void
test_decide_statuses(void)
{
    ngx_uint_t           reason, status, wrong;
    ngx_mcds_entry_t     entry;
    ngx_mcds_response_t  response;

    ngx_memzero(&response, sizeof(response));

    response.date = NGX_ERROR;
    response.cc.has_max_age = 1;
    response.cc.max_age = 60;

    wrong = 0;

    for (status = 0; status < 1000; status++) {
        response.status = status;

        response.valid = -1;
        reason = ngx_mcds_fresh_decide(&response, NOW_MS, &entry);

        wrong += (reason == NGX_MCDS_STORE)
                 != (status >= 200 && status != 206 && status != 304
                     && (status < 400 || status == 404 || status == 410));

        response.valid = 30;
        reason = ngx_mcds_fresh_decide(&response, NOW_MS, &entry);

        wrong += (reason == NGX_MCDS_STORE)
                 != (status >= 200 && status < 600
                     && status != 206 && status != 304);
    }

    ok(wrong == 0, "every status, with mcds_cache_valid and without");
}


/*
 * With "origin" in mcds_cache_valid, a response of any final status is stored
 * if the origin sets its lifetime.  The exceptions are 206, 304, 511 and errors
 * that depend on the request, such as 416.
 */

static void
test_decide_origin(void)
{
    ngx_uint_t           status, wrong, stored, forced, without;
    ngx_mcds_entry_t     entry;
    ngx_mcds_response_t  response;

    ngx_memzero(&response, sizeof(response));

    response.date = NGX_ERROR;
    response.valid = -1;
    response.last_modified = NOW - 1000;
    response.heuristic = 10;
    response.heuristic_max = 100;

    wrong = 0;
    forced = 0;
    without = 0;

    for (status = 100; status < 700; status++) {

        response.status = status;

        response.origin = 1;
        parse(&response.cc, "max-age=60");

        stored = ngx_mcds_fresh_decide(&response, NOW_MS, &entry)
                 == NGX_MCDS_STORE;

        if (status < 200 || status > 599 || status == 206 || status == 304
            || status == 511 || ngx_mcds_fresh_of_request(status))
        {
            wrong += stored;

        } else {
            wrong += !stored || entry.expire != NOW_MS + 60000;
        }

        /*
         * a 403 with must-understand is not stored; without a lifetime, even a
         * "public" error is refused for its status, except 404 and 410
         */

        parse(&response.cc, "max-age=60, must-understand");
        forced += status == 403
                  && ngx_mcds_fresh_decide(&response, NOW_MS, &entry)
                     == NGX_MCDS_STORE;

        parse(&response.cc, "public");

        if (status >= 400 && status != 404 && status != 410) {
            without += ngx_mcds_fresh_decide(&response, NOW_MS, &entry)
                       != NGX_MCDS_REFUSE_STATUS;
        }
    }

    ok(wrong == 0, "origin: with a lifetime");
    ok(forced == 0, "origin: not what must be understood");
    ok(without == 0, "origin: not without a lifetime");

    response.status = 403;
    parse(&response.cc, "max-age=0");
    ok(ngx_mcds_fresh_decide(&response, NOW_MS, &entry)
       == NGX_MCDS_REFUSE_EXPIRED, "origin: a lifetime of 0");

    parse(&response.cc, "private, max-age=60");
    ok(ngx_mcds_fresh_decide(&response, NOW_MS, &entry)
       == NGX_MCDS_REFUSE_PRIVATE, "origin: what is private");

    parse(&response.cc, "");
    response.has_expires = 1;
    response.expires = NOW + 60;
    ok(ngx_mcds_fresh_decide(&response, NOW * 1000ULL, &entry)
       == NGX_MCDS_STORE, "origin: Expires");

    response.has_expires = 0;
    response.has_accel = 1;
    response.accel = NOW + 60;
    ok(ngx_mcds_fresh_decide(&response, NOW_MS, &entry) == NGX_MCDS_STORE,
       "origin: X-Accel-Expires");
}


static void
test_decide_cookie(void)
{
    ngx_uint_t           n, stored;
    ngx_mcds_entry_t     entry;
    ngx_mcds_response_t  response;

    stored = 0;

    for (n = 0; n < 4096; n++) {
        ngx_memzero(&response, sizeof(response));

        response.set_cookie = 1;
        response.status = (n & 0x01) ? 200 : 404;
        response.has_accel = (n & 0x02) != 0;
        response.accel = NOW + 60;
        response.has_expires = (n & 0x04) != 0;
        response.expires = NOW + 60;
        response.date = (n & 0x08) ? NOW : NGX_ERROR;
        response.valid = (n & 0x10) ? 60 : -1;
        response.cc.public = (n & 0x20) != 0;
        response.cc.has_max_age = (n & 0x40) != 0;
        response.cc.max_age = 60;
        response.cc.has_s_maxage = (n & 0x80) != 0;
        response.cc.s_maxage = 60;
        response.cc.must_revalidate = (n & 0x100) != 0;
        response.cc.has_swr = (n & 0x200) != 0;
        response.authorization = (n & 0x400) != 0;
        response.pragma_no_cache = (n & 0x800) != 0;

        stored += ngx_mcds_fresh_decide(&response, NOW_MS, &entry)
                  != NGX_MCDS_REFUSE_SET_COOKIE;
    }

    ok(stored == 0, "an answer with Set-Cookie is not stored");
}


static void
test_decide_stale(void)
{
    ngx_mcds_entry_t     entry;
    ngx_mcds_response_t  response;

    ngx_memzero(&response, sizeof(response));

    response.status = 200;
    response.date = NGX_ERROR;
    response.valid = 30;

    ngx_mcds_fresh_decide(&response, NOW_MS, &entry);
    ok(entry.swr == UNSET && entry.sie == UNSET, "nothing said of stale");

    parse(&response.cc, "stale-while-revalidate=0, stale-if-error=86400");
    ngx_mcds_fresh_decide(&response, NOW_MS, &entry);
    ok(entry.swr == 0 && entry.sie == 86400, "times to be served stale");

    parse(&response.cc, "stale-while-revalidate=4294967295, stale-if-error");
    ngx_mcds_fresh_decide(&response, NOW_MS, &entry);
    ok(entry.swr == MAX && entry.sie == 0,
       "no number of seconds means that nothing was said");
}


static void
test_reasons(void)
{
    char        *p;
    ngx_uint_t   n, wrong;

    wrong = 0;

    for (n = 0; n <= NGX_MCDS_REFUSE_NO_LIFETIME; n++) {
        p = word(n);

        wrong += *p == '\0';

        for ( /* void */ ; *p; p++) {
            wrong += *p != '-' && (*p < 'a' || *p > 'z');
        }
    }

    ok(wrong == 0, "each reason is a word");

    ok(ngx_strcmp(word(NGX_MCDS_REFUSE_STATUS), "status") == 0
       && ngx_strcmp(word(NGX_MCDS_REFUSE_NO_LIFETIME), "no-lifetime") == 0,
       "reasons from the first to the last");
}


static void
test_state(void)
{
    ngx_uint_t         i;
    state_row_t       *row;
    ngx_mcds_entry_t   entry;
    ngx_mcds_stale_t   stale;

    ngx_memzero(&entry, sizeof(entry));
    entry.expire = 1700000030000;

    for (i = 0; i < sizeof(state_rows) / sizeof(state_rows[0]); i++) {
        row = &state_rows[i];

        stale.update = row->update;
        stale.grace = row->grace;
        stale.origin = row->grace;
        entry.swr = row->swr;
        entry.flags = row->flags;
        entry.sie = UNSET;

        ok(ngx_mcds_fresh_state(&entry, &stale,
                                (uint64_t) ((int64_t) entry.expire
                                            + row->late))
           == row->state,
           "state %u: %lld ms late", (unsigned) i, (long long) row->late);
    }

    stale.update = NEVER;
    stale.grace = NEVER;
    stale.origin = NEVER;
    entry.swr = UNSET;
    entry.sie = UNSET;
    entry.flags = 0;

    entry.expire = 0;
    ok(ngx_mcds_fresh_state(&entry, &stale, 0) == NGX_MCDS_STALE_USABLE
       && ngx_mcds_fresh_state(&entry, &stale, UINT64_MAX)
          == NGX_MCDS_STALE_UNUSABLE, "expired at the epoch");

    entry.expire = UINT64_MAX;
    ok(ngx_mcds_fresh_state(&entry, &stale, UINT64_MAX - 1) == NGX_MCDS_FRESH
       && ngx_mcds_fresh_state(&entry, &stale, UINT64_MAX)
          == NGX_MCDS_STALE_USABLE, "expires at the end of time");

    stale.update = 1000;
    stale.grace = 2000;
    stale.origin = 2000;
    entry.expire = UINT64_MAX - 500;
    ok(ngx_mcds_fresh_state(&entry, &stale, UINT64_MAX)
       == NGX_MCDS_STALE_USABLE, "no bound wraps around");

    /*
     * a page has one grace if the origin has set its lifetime, and another one
     * if the configuration has
     */

    stale.update = NEVER;
    stale.origin = 1000;
    entry.expire = NOW_MS;
    entry.sie = UNSET;
    ok(ngx_mcds_fresh_state(&entry, &stale, NOW_MS + 1000)
       == NGX_MCDS_STALE_UNUSABLE
       && !ngx_mcds_fresh_error(&entry, &stale, 1, NOW_MS + 1000),
       "the origin's lifetime");

    entry.flags = OURS;
    ok(ngx_mcds_fresh_state(&entry, &stale, NOW_MS + 1000)
       == NGX_MCDS_STALE_USABLE
       && ngx_mcds_fresh_error(&entry, &stale, 1, NOW_MS + 1999)
       && !ngx_mcds_fresh_error(&entry, &stale, 1, NOW_MS + 2000)
       && ngx_mcds_fresh_state(&entry, &stale, NOW_MS + 2000)
          == NGX_MCDS_STALE_UNUSABLE, "the configuration's lifetime");

    /*
     * a page with s-maxage (NO_GRACE) is used after an error for exactly the
     * seconds of the origin's stale-if-error, and not at all without it
     */

    entry.flags = OURS|NO_GRACE;
    ok(!ngx_mcds_fresh_error(&entry, &stale, 1, NOW_MS), "no grace: no error");

    entry.sie = 1;
    ok(ngx_mcds_fresh_state(&entry, &stale, NOW_MS + 999)
       == NGX_MCDS_STALE_ERROR
       && ngx_mcds_fresh_error(&entry, &stale, 1, NOW_MS + 999)
       && !ngx_mcds_fresh_error(&entry, &stale, 1, NOW_MS + 1000)
       && ngx_mcds_fresh_state(&entry, &stale, NOW_MS + 1000)
          == NGX_MCDS_STALE_UNUSABLE, "no grace: stale-if-error");

    entry.flags = OURS;

    /* the origin's stale-if-error applies whatever the grace is */

    stale.grace = 0;
    entry.sie = 3;
    ok(ngx_mcds_fresh_state(&entry, &stale, NOW_MS + 2999)
       == NGX_MCDS_STALE_ERROR
       && ngx_mcds_fresh_error(&entry, &stale, 0, NOW_MS + 2999)
       && ngx_mcds_fresh_state(&entry, &stale, NOW_MS + 3000)
          == NGX_MCDS_STALE_UNUSABLE, "stale-if-error without a grace");

    entry.swr = 2;
    ok(ngx_mcds_fresh_state(&entry, &stale, NOW_MS + 1999)
       == NGX_MCDS_STALE_USABLE
       && ngx_mcds_fresh_state(&entry, &stale, NOW_MS + 2000)
          == NGX_MCDS_STALE_ERROR, "stale-while-revalidate without a grace");

    entry.flags = REVALID;
    ok(ngx_mcds_fresh_state(&entry, &stale, NOW_MS)
       == NGX_MCDS_STALE_UNUSABLE, "must-revalidate");
}


/* CDN-Cache-Control (RFC 9213) and must-understand */

static void
test_targeted(void)
{
    int                  good;
    ngx_str_t            cdn;
    ngx_uint_t           i, reason;
    ngx_mcds_entry_t     entry;
    ngx_mcds_response_t  response;

    static struct {
        ngx_uint_t   status;
        const char  *cc, *cdn;
        ngx_uint_t   bits, reason;
        int64_t      life;
    } rows[] = {
        { 200, "no-store", "max-age=60", 0, NGX_MCDS_STORE, 60000 },
        { 200, "private", "max-age=60", 0, NGX_MCDS_STORE, 60000 },
        { 200, "max-age=60", "no-store", 0, NGX_MCDS_REFUSE_NO_STORE, 0 },
        { 200, "max-age=60", "max-age=0", 0, NGX_MCDS_REFUSE_EXPIRED, 0 },
        { 200, "max-age=60", "max-age=5, s-maxage=7", 0, NGX_MCDS_STORE,
          7000 },
        { 200, "max-age=60", "", 0, NGX_MCDS_STORE, 60000 },
        { 200, "max-age=60", "x-unknown", 0, NGX_MCDS_REFUSE_NO_LIFETIME,
          0 },
        { 200, "max-age=60", "max-age=5;no", 0, NGX_MCDS_STORE, 5000 },
        { 200, "max-age=60", "max-age=7, max-age=9", 0, NGX_MCDS_STORE,
          9000 },
        { 200, "max-age=60", "max-age=5, private=\"a\"", 0,
          NGX_MCDS_REFUSE_PRIVATE, 0 },
        { 200, "max-age=60", "max-age=5, private=?0", 0, NGX_MCDS_STORE,
          5000 },
        { 200, "max-age=60", "max-age=999999999999999", 0, NGX_MCDS_STORE,
          2147483648000 },
        { 200, "max-age=60", "max-age=5,", 0, NGX_MCDS_STORE, 60000 },
        { 200, "max-age=60", "max-age=5 no", 0, NGX_MCDS_STORE, 60000 },
        { 200, "no-store", "max-age=5 no", 0, NGX_MCDS_REFUSE_NO_STORE, 0 },
        { 200, NULL, "must-revalidate", EXPIRES|DATE,
          NGX_MCDS_REFUSE_NO_LIFETIME, 0 },
        { 200, NULL, "max-age=60", PRAGMA, NGX_MCDS_STORE, 60000 },
        { 200, "max-age=60", "max-age=10", COOKIE,
          NGX_MCDS_REFUSE_SET_COOKIE, 0 },
        { 200, NULL, "max-age=10", AUTH, NGX_MCDS_REFUSE_AUTHORIZATION, 0 },
        { 200, NULL, "max-age=10, public", AUTH, NGX_MCDS_STORE, 10000 },

        { 200, "no-store, must-understand, max-age=60", NULL, 0,
          NGX_MCDS_STORE, 60000 },
        { 404, "must-understand, no-store, max-age=60", NULL, 0,
          NGX_MCDS_STORE, 60000 },
        { 299, "no-store, must-understand, max-age=60", NULL, 0,
          NGX_MCDS_REFUSE_STATUS, 0 },
        { 299, "must-understand, max-age=60", NULL, 0,
          NGX_MCDS_REFUSE_STATUS, 0 },
        { 299, "max-age=60", NULL, 0, NGX_MCDS_STORE, 60000 },
        { 200, "private, must-understand, max-age=60", NULL, 0,
          NGX_MCDS_REFUSE_PRIVATE, 0 }
    };

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {

        ngx_memzero(&response, sizeof(response));
        parse(&response.cc, rows[i].cc);

        if (rows[i].cdn) {
            cdn.data = (u_char *) rows[i].cdn;
            cdn.len = ngx_strlen(rows[i].cdn);
            response.has_cdn = ngx_mcds_targeted_add(&response.cdn, &cdn) != 0;
        }

        response.status = rows[i].status;
        response.valid = -1;
        response.last_modified = NGX_ERROR;
        response.date = (rows[i].bits & DATE) ? NOW : NGX_ERROR;
        response.expires = NOW + 60;
        response.has_expires = (rows[i].bits & EXPIRES) != 0;
        response.pragma_no_cache = (rows[i].bits & PRAGMA) != 0;
        response.set_cookie = (rows[i].bits & COOKIE) != 0;
        response.authorization = (rows[i].bits & AUTH) != 0;

        reason = ngx_mcds_fresh_decide(&response, NOW_MS, &entry);

        good = reason == rows[i].reason;

        if (reason == NGX_MCDS_STORE) {
            good = good
                   && (int64_t) (entry.expire - NOW_MS) == rows[i].life;
        }

        ok(good, "targeted %u: %u \"%s\" \"%s\": %s", (unsigned) i,
           (unsigned) rows[i].status, rows[i].cc ? rows[i].cc : "-",
           rows[i].cdn ? rows[i].cdn : "-", word(rows[i].reason));
    }
}


/*
 * Each bit of mcds_cache_ignore removes its directive of Cache-Control, and
 * changes no other one.
 */

static void
test_ignore(void)
{
    ngx_uint_t                 i, bits;
    ngx_mcds_cache_control_t   cc;

    static ngx_uint_t  expected[] = {
        C_MAX, C_SMAX, C_SWR, C_SIE, C_NOSTORE, C_NOCACHE, C_PRIVATE, C_PUBLIC,
        C_MUST, C_PROXY, 0
    };

    for (i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {

        ngx_memzero(&cc, sizeof(cc));
        parse(&cc, "max-age=1, s-maxage=2, stale-while-revalidate=3, "
                   "stale-if-error=4, no-store, no-cache, private, public, "
                   "must-revalidate, proxy-revalidate, must-understand");

        bits = control_bits(&cc);

        ngx_mcds_cache_control_ignore(&cc, (ngx_uint_t) 1 << i);

        ok(control_bits(&cc) == (bits & ~expected[i])
           && cc.must_understand == (expected[i] != 0)
           && cc.may_stale == (expected[i] == C_MUST
                               || expected[i] == C_PROXY)
           && cc.ignored,
           "ignored: bit %u", (unsigned) i);

        ngx_memzero(&cc, sizeof(cc));
        ngx_mcds_cache_control_ignore(&cc, (ngx_uint_t) 1 << i);

        ok(!cc.ignored, "ignored: bit %u, not there", (unsigned) i);
    }

    ok(((ngx_uint_t) 1 << (i - 1) | (((ngx_uint_t) 1 << (i - 1)) - 1))
       == NGX_MCDS_CONTROL_ALL, "ignored: all bits");
}


static void
test_heuristic(void)
{
    int                  good;
    ngx_uint_t           i, reason;
    ngx_mcds_entry_t     entry;
    ngx_mcds_response_t  response;

    static struct {
        ngx_uint_t   status;
        const char  *cc;
        ngx_uint_t   percent;
        int64_t      max, modified, date;  /* dates: seconds before NOW; -1:
                                              none */
        uint32_t     age;
        ngx_uint_t   reason;
        int64_t      life;
    } rows[] = {
        { 200, NULL, 0, 100, 1000, 0, 0, NGX_MCDS_REFUSE_NO_LIFETIME, 0 },
        { 200, NULL, 10, 1000, 1000, 0, 0, NGX_MCDS_STORE, 100000 },
        { 200, NULL, 10, 1000, 1000, -1, 0, NGX_MCDS_STORE, 100000 },
        { 200, NULL, 10, 50, 1000, 0, 0, NGX_MCDS_STORE, 50000 },
        { 200, NULL, 10, 1000, 1000, 500, 0, NGX_MCDS_STORE, 50000 },
        { 200, NULL, 10, 1000, 1000, 0, 40, NGX_MCDS_STORE, 60000 },
        { 200, NULL, 10, 1000, 1000, 0, 100, NGX_MCDS_REFUSE_EXPIRED, 0 },
        { 200, NULL, 10, 1000, -1, 0, 0, NGX_MCDS_REFUSE_NO_LIFETIME, 0 },
        { 200, NULL, 10, 1000, 5, 0, 0, NGX_MCDS_REFUSE_EXPIRED, 0 },
        { 200, "max-age=7", 10, 1000, 1000, 0, 0, NGX_MCDS_STORE, 7000 },
        { 204, NULL, 10, 1000, 1000, 0, 0, NGX_MCDS_STORE, 100000 },
        { 302, NULL, 10, 1000, 1000, 0, 0, NGX_MCDS_REFUSE_NO_LIFETIME, 0 },
        { 302, "public", 10, 1000, 1000, 0, 0, NGX_MCDS_STORE, 100000 },
        { 299, NULL, 10, 1000, 1000, 0, 0, NGX_MCDS_REFUSE_NO_LIFETIME, 0 },
        { 299, "public", 10, 1000, 1000, 0, 0, NGX_MCDS_STORE, 100000 },
        { 404, NULL, 10, 1000, 1000, 0, 0, NGX_MCDS_STORE, 100000 },
        { 200, NULL, 100, 0x7fffffff, 1700000000, 0, 0, NGX_MCDS_STORE,
          1700000000000 }
    };

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {

        ngx_memzero(&response, sizeof(response));
        parse(&response.cc, rows[i].cc);

        response.status = rows[i].status;
        response.valid = -1;
        response.age = rows[i].age;
        response.heuristic = rows[i].percent;
        response.heuristic_max = rows[i].max;
        response.last_modified = (rows[i].modified < 0)
                                 ? NGX_ERROR : NOW - rows[i].modified;
        response.date = (rows[i].date < 0) ? NGX_ERROR : NOW - rows[i].date;

        reason = ngx_mcds_fresh_decide(&response, NOW_MS, &entry);

        good = reason == rows[i].reason;

        if (reason == NGX_MCDS_STORE) {
            good = good
                   && (int64_t) (entry.expire - NOW_MS) == rows[i].life;
        }

        ok(good, "heuristic %u: %u %s", (unsigned) i,
           (unsigned) rows[i].status, word(rows[i].reason));
    }
}


static void
test_error(void)
{
    ngx_uint_t        i;
    ngx_mcds_stale_t  stale;
    ngx_mcds_entry_t  entry;

    static struct {
        int64_t      late;
        uint32_t     sie, flags;
        uint64_t     grace;
        ngx_uint_t   configured, usable;
    } rows[] = {
        { -1, UNSET, 0, NEVER, 0, 1 },
        { 0, UNSET, 0, NEVER, 0, 0 },
        { 0, UNSET, 0, NEVER, 1, 1 },
        { 86400000, UNSET, 0, NEVER, 1, 1 },
        { 0, 60, 0, NEVER, 0, 1 },
        { 59999, 60, 0, NEVER, 0, 1 },
        { 60000, 60, 0, NEVER, 0, 0 },
        { 60000, 60, 0, NEVER, 1, 0 },
        { 0, 0, 0, NEVER, 1, 0 },
        { 999, UNSET, 0, 1000, 1, 1 },
        { 1000, UNSET, 0, 1000, 1, 0 },
        { 1000, 60, 0, 1000, 1, 1 },
        { 0, 60, REVALID, NEVER, 1, 0 },
        { -1, 60, REVALID, NEVER, 1, 0 }
    };

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {

        ngx_memzero(&entry, sizeof(entry));
        entry.expire = NOW_MS;
        entry.sie = rows[i].sie;
        entry.flags = rows[i].flags;

        stale.update = 0;
        stale.grace = rows[i].grace;
        stale.origin = rows[i].grace;

        ok(ngx_mcds_fresh_error(&entry, &stale, rows[i].configured,
                                NOW_MS + rows[i].late) == rows[i].usable,
           "error %u: %s", (unsigned) i, rows[i].usable ? "used" : "not used");
    }
}


static void
test_accepted(void)
{
    ngx_uint_t                i;
    ngx_mcds_entry_t          entry;
    ngx_mcds_cache_control_t  cc;

    static struct {
        const char  *cc;
        int64_t      late;                 /* time since the page expired, ms */
        ngx_uint_t   accepted;
    } rows[] = {
        { "", -1, 1 }, { "", 1000, 1 },
        { "no-cache", -60000, 0 }, { "No-Cache", -60000, 0 },
        { "max-age=0", -59000, 0 },

        /* the page is 100 seconds old when it expires */

        { "max-age=40", -60000, 1 }, { "max-age=39", -60000, 0 },
        { "max-age=40, max-age=1000", -60000, 1 },
        { "max-age=100", 0, 1 }, { "max-age=99", 0, 0 },
        { "min-fresh=60", -60000, 1 }, { "min-fresh=61", -60000, 0 },
        { "min-fresh=1, min-fresh=61", -60000, 0 },
        { "min-fresh=0", 0, 0 }, { "min-fresh=1", 5000, 0 },
        { "max-stale", 86400000, 1 }, { "max-stale=60", 60000, 1 },
        { "max-stale=60", 60001, 0 }, { "max-stale=60", -1000, 1 },
        { "max-stale, max-stale=5", 5001, 0 }, { "max-stale=x", 1, 0 }
    };

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {

        ngx_memzero(&cc, sizeof(cc));
        parse(&cc, rows[i].cc);

        ngx_memzero(&entry, sizeof(entry));
        entry.created = NOW_MS;
        entry.expire = NOW_MS + 100000;

        ok(ngx_mcds_fresh_accepted(&cc, &entry, entry.expire + rows[i].late)
           == rows[i].accepted,
           "request \"%s\", %d ms late: %s", rows[i].cc, (int) rows[i].late,
           rows[i].accepted ? "accepted" : "not accepted");
    }

    parse(&cc, "only-if-cached");
    ok(cc.only_if_cached, "only-if-cached");
}


static void
test_age(void)
{
    ngx_uint_t        i;
    ngx_mcds_entry_t  entry;

    static struct {
        uint32_t      age;
        uint64_t      created;
        uint64_t      now;
        uint32_t      want;
    } rows[] = {
        { 0, 1000000, 1000000, 0 },
        { 0, 1000000, 1000999, 0 },
        { 0, 1000000, 1001000, 1 },
        { 0, 1000000, 1001999, 1 },
        { 10, 1000000, 1000000, 10 },
        { 10, 1000000, 1005500, 15 },

        /* pages created by a host whose clock is ahead */

        { 0, 1000001, 1000000, 0 },
        { 0, 1001000, 1000000, 0 },
        { 7, 9999999, 1000000, 7 },
        { 0, UINT64_MAX, 0, 0 },
        { 7, UINT64_MAX, 1700000000000, 7 },

        /* pages with an age that is too large */

        { MAX, 1000000, 1001000, MAX },
        { 0xffffffff, 1000000, 1000000, MAX },
        { 0xffffffff, 1000000, 1001000, MAX },
        { 0, 0, 2147483647999, 2147483647 },
        { 0, 0, 2147483648000, MAX },
        { 0, 0, UINT64_MAX, MAX },
        { 0xffffffff, 0, UINT64_MAX, MAX }
    };

    ngx_memzero(&entry, sizeof(entry));

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        entry.age = rows[i].age;
        entry.created = rows[i].created;

        ok(ngx_mcds_fresh_age(&entry, rows[i].now) == rows[i].want,
           "age %u is %lu", (unsigned) i, (unsigned long) rows[i].want);
    }
}


static void
parse(ngx_mcds_cache_control_t *cc, const char *lines)
{
    size_t       len;
    ngx_str_t    line;
    const char  *p, *end;

    ngx_memzero(cc, sizeof(ngx_mcds_cache_control_t));

    if (lines == NULL) {
        return;
    }

    for (p = lines; /* void */ ; p = end + 1) {
        end = strchr(p, '\n');
        len = end ? (size_t) (end - p) : strlen(p);

        line.data = malloc(len ? len : 1);
        line.len = len;
        ngx_memcpy(line.data, p, len);

        ngx_mcds_cache_control_add(cc, &line);

        free(line.data);

        if (end == NULL) {
            return;
        }
    }
}


static ngx_uint_t
control_bits(ngx_mcds_cache_control_t *cc)
{
    return (cc->has_max_age ? C_MAX : 0)
           | (cc->has_s_maxage ? C_SMAX : 0)
           | (cc->has_swr ? C_SWR : 0)
           | (cc->has_sie ? C_SIE : 0)
           | (cc->no_store ? C_NOSTORE : 0)
           | (cc->no_cache ? C_NOCACHE : 0)
           | (cc->private ? C_PRIVATE : 0)
           | (cc->public ? C_PUBLIC : 0)
           | (cc->must_revalidate ? C_MUST : 0)
           | (cc->proxy_revalidate ? C_PROXY : 0)
           | (cc->malformed ? C_BAD : 0);
}


/*
 * Returns a text in a form for the name of a test: one line, without marks of a
 * TAP directive.
 */

static const char *
printable(const char *text)
{
    char         *p;
    static char   line[80];

    p = line;

    while (*text && p < line + sizeof(line) - 1) {
        *p++ = (*text < 0x20 || *text > 0x7e || *text == '#' || *text == '\\')
               ? '.' : *text;
        text++;
    }

    *p = '\0';

    return line;
}


static char *
word(ngx_uint_t reason)
{
    return (reason == NGX_MCDS_STORE)
           ? "store"
           : (char *) ngx_mcds_reasons[ngx_mcds_fresh_why(reason)].data;
}


/*
 * Copyright (C) mcds authors
 *
 * HTTP dates: the three formats, in GMT only.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_date.h"
#include "tap.h"


#define NOW     1700000000         /* 2023 */
#define TIME    784111777          /* 1994-11-06 08:49:37 */


static int64_t  parse(const char *text, size_t len, int64_t now);
static void     test_valid(void);
static void     test_invalid(void);
static void     test_cut(void);
static void     test_years(void);
static void     test_days(void);


int
main(void)
{
    ngx_time_init();

    test_valid();
    test_invalid();
    test_cut();
    test_years();
    test_days();

    return done_testing();
}


/* Parses a date in memory that ends where the date ends. */

static int64_t
parse(const char *text, size_t len, int64_t now)
{
    int64_t    time;
    ngx_str_t  value;

    value.len = len;
    value.data = malloc(len ? len : 1);

    memcpy(value.data, text, len);

    time = ngx_mcds_date_parse(&value, now);

    free(value.data);

    return time;
}


static void
test_valid(void)
{
    size_t  i;

    static const char  *valid[] = {
        "Sun, 06 Nov 1994 08:49:37 GMT",
        "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994",
        "Sun Nov 06 08:49:37 1994",
        "sun, 06 nov 1994 08:49:37 gmt",
        "SUNDAY, 06-NOV-94 08:49:37 GMT"
    };

    for (i = 0; i < sizeof(valid) / sizeof(valid[0]); i++) {
        ok(parse(valid[i], strlen(valid[i]), NOW) == TIME, "%s", valid[i]);
    }
}


static void
test_invalid(void)
{
    size_t  i;

    static const char  *invalid[] = {
        "", "0", "-1", "soon",
        "Sun, 06 Nov 1994 08:49:37",
        "Sun, 06 Nov 1994 08:49:37 ",
        "Sun, 06 Nov 1994 08:49:37 EST",
        "Sun, 06 Nov 1994 08:49:37 UTC",
        "Sun, 06 Nov 1994 08:49:37 +0000",
        "Sun, 06 Nov 1994 08:49:37GMT",
        "Sun, 06 Nov 1994 08:49:37 GMT+1",
        "Sun, 06 Nov 1994 08:49:37 GMT ",
        " Sun, 06 Nov 1994 08:49:37 GMT",
        "Sun,06 Nov 1994 08:49:37 GMT",
        "Sun, 6 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 94 08:49:37 GMT",
        "Sun, 06-Nov-94 08:49:37 GMT",
        "Sun, 00 Nov 1994 08:49:37 GMT",
        "Sun, 31 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nox 1994 08:49:37 GMT",
        "Six, 06 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 24:49:37 GMT",
        "Sun, 06 Nov 1994 08:60:37 GMT",
        "Sun, 06 Nov 1994 8:49:37 GMT",
        "Sun, 06 Nov 1994 08-49-37 GMT",
        "Sunday, 06-Nov-94 08:49:37 EST",
        "Sunday, 06-Nov-1994 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994 GMT",
        "Sun Nov  6 08:49:37 EST 1994",
        "Sun Nov 6 08:49:37 1994"
    };

    for (i = 0; i < sizeof(invalid) / sizeof(invalid[0]); i++) {
        ok(parse(invalid[i], strlen(invalid[i]), NOW) == NGX_ERROR,
           "invalid: \"%s\"", invalid[i]);
    }
}


/* Truncated dates; a sanitizer notices a read beyond the end of a date. */

static void
test_cut(void)
{
    size_t  i, len;

    static const char  *text[] = {
        "Sun, 06 Nov 1994 08:49:37 GMT",
        "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994"
    };

    for (i = 0; i < 3; i++) {
        for (len = 0; len < strlen(text[i]); len++) {
            if (parse(text[i], len, NOW) != NGX_ERROR) {
                break;
            }
        }

        ok(len == strlen(text[i]), "not a part of it: %s", text[i]);
    }
}


static void
test_years(void)
{
    size_t  i;

    static struct {
        const char  *text;
        int64_t      now;
        int64_t      time;
    } rows[] = {
        { "Thu, 01 Jan 1970 00:00:00 GMT", 0, 0 },
        { "Wed, 31 Dec 1969 23:59:59 GMT", 0, NGX_ERROR },
        { "Tue, 29 Feb 2000 12:00:00 GMT", 0, 951825600 },
        { "Wed, 01 Mar 2000 00:00:00 GMT", 0, 951868800 },
        { "Fri, 31 Dec 2004 23:59:59 GMT", 0, 1104537599 },
        { "Sat, 29 Feb 2003 00:00:00 GMT", 0, NGX_ERROR },
        { "Sun, 28 Feb 2100 00:00:00 GMT", 0, 4107456000 },
        { "Mon, 29 Feb 2100 00:00:00 GMT", 0, NGX_ERROR },
        { "Tue, 19 Jan 2038 03:14:08 GMT", 0, 2147483648 },
        { "Fri, 31 Dec 9999 23:59:59 GMT", 0, 253402300799 },
        { "Sunday, 01-Jan-23 00:00:00 GMT", 1700000000, 1672531200 },
        { "Friday, 01-Jan-72 00:00:00 GMT", 1700000000, 3218832000 },
        { "Monday, 01-Jan-73 00:00:00 GMT", 1700000000, 94694400 },
        { "Monday, 01-Jan-73 00:00:00 GMT", 1704067200, 3250454400 },
        { "Friday, 01-Jan-99 00:00:00 GMT", 1700000000, 915148800 },
        { "Saturday, 01-Jan-00 00:00:00 GMT", 1700000000, 946684800 }
    };

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ok(parse(rows[i].text, strlen(rows[i].text), rows[i].now)
           == rows[i].time, "%s, in %lld", rows[i].text,
           (long long) rows[i].now);
    }
}


/* Each day as nginx formats it, within the range of a time_t of 32 bits. */

static void
test_days(void)
{
    u_char   text[sizeof("Mon, 28 Sep 1970 06:00:00 GMT")], *p;
    int64_t  time;

    for (time = 1; time < 2147483647; time += 86400 + 3601) {
        p = ngx_http_time(text, (time_t) time);

        if (parse((char *) text, p - text, NOW) != time) {
            break;
        }
    }

    ok(time >= 2147483647, "days of 68 years");
}

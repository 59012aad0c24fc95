
/*
 * Copyright (C) mcds authors
 *
 * The item of a lock in memcached, the names and fencing tokens of a lock's
 * owners, and the delays of requests that wait for a lock.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_lock_item.c"
#include "tap.h"


static void test_item(void);
static void test_odd(void);
static void test_owner(void);
static void test_first(void);
static void test_interval(void);
static void test_pause(void);
static ngx_int_t read_exact(ngx_mcds_lock_item_t *item, const char *text,
    size_t len);


int
main(void)
{
    test_item();
    test_odd();
    test_owner();
    test_first();
    test_interval();
    test_pause();

    return done_testing();
}


static void
test_item(void)
{
    u_char                buf[NGX_MCDS_LOCK_TEXT], *p;
    ngx_uint_t            i;
    ngx_mcds_lock_item_t  item, found;

    static uint64_t  numbers[] = { 0, 1, 1763668800123456ULL,
                                   18446744073709551615ULL };

    static u_char  owner[] =
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    for (i = 0; i < 4; i++) {
        item.number = numbers[i];
        item.owner.data = owner;
        item.owner.len = i ? NGX_MCDS_LOCK_OWNER : 1;

        p = ngx_mcds_lock_write(buf, &item);

        ok((size_t) (p - buf) <= sizeof(buf), "it has room");
        ok(read_exact(&found, (char *) buf, p - buf) == NGX_OK
           && found.number == item.number
           && found.owner.len == item.owner.len
           && ngx_memcmp(found.owner.data, owner, item.owner.len) == 0,
           "what was written is read");
    }

    item.number = 1763668800123456ULL;
    item.owner.len = 4;

    p = ngx_mcds_lock_write(buf, &item);

    ok(p - buf == 21 && ngx_memcmp(buf, "1763668800123456 0123", 21) == 0,
       "as storage.md says");
}


static void
test_odd(void)
{
    ngx_uint_t            i;
    ngx_mcds_lock_item_t  item;

    static const char  *odd[] = {
        "", " ", "1", "1 ", " a", "x a", "-1 a", "1 a b", "1  a", "1 a\n",
        "1 a\x7f", "1 \xc3\xa9", "18446744073709551616 a", "1a b", "1\ta",
        "1 01234567890123456789012345678901234567890123456789012345678901234"
    };

    for (i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        ok(read_exact(&item, odd[i], strlen(odd[i])) == NGX_DECLINED,
           "no lock: \"%s\"", i == 9 ? "LF" : odd[i]);
    }

    ok(read_exact(&item, "1 a\0b", 5) == NGX_DECLINED, "no lock: NUL");
}


static void
test_owner(void)
{
    u_char      name[NGX_MCDS_LOCK_OWNER + 1];
    ngx_str_t   owner;
    ngx_uint_t  i, good;

    ngx_memset(name, 'x', sizeof(name));

    owner.data = name;

    good = 0;

    for (owner.len = 0; owner.len <= sizeof(name); owner.len++) {
        good += (ngx_mcds_lock_check(&owner) == NGX_OK);
    }

    ok(good == NGX_MCDS_LOCK_OWNER, "1 to 64 bytes");

    owner.len = 3;
    good = 0;

    for (i = 0; i < 256; i++) {
        name[1] = i;
        good += (ngx_mcds_lock_check(&owner) == NGX_OK) == (i > 32
                                                            && i < 127);
    }

    ok(good == 256, "no blanks, no control characters, ASCII");
}


static void
test_first(void)
{
    ok(ngx_mcds_lock_first(1000, 0) == 1000, "begins with the time");
    ok(ngx_mcds_lock_first(1000, 999) == 1000, "later than the last one");
    ok(ngx_mcds_lock_first(1000, 1000) == 1001, "in the same microsecond");
    ok(ngx_mcds_lock_first(1000, 5000) == 5001,
       "after the clock was set back");
}


static void
test_interval(void)
{
    ngx_msec_t  ms, least, most;
    ngx_uint_t  random, late;

    for (late = 0; late < 2; late++) {
        least = 1000;
        most = 0;

        for (random = 0; random < 1000; random++) {
            ms = ngx_mcds_lock_interval(late ? 1001 : 1000, 2000, random);
            least = ngx_min(least, ms);
            most = ngx_max(most, ms);
        }

        if (late) {
            ok(least == 1 && most == 2, "1 to 2 ms in the second half");

        } else {
            ok(least == 3 && most == NGX_MCDS_LOCK_INTERVAL, "3 to 6 ms");
        }
    }

    ok(ngx_mcds_lock_interval(5000, 1, 7) >= 1, "never 0");
    ok(ngx_mcds_lock_interval(0, 0, 7) >= 1, "never 0 without waiting");
}


static void
test_pause(void)
{
    ok(ngx_mcds_lock_pause(0) == 0, "a series begins");
    ok(ngx_mcds_lock_pause(NGX_MCDS_LOCK_SERIES - 1) == 0, "goes on");
    ok(ngx_mcds_lock_pause(NGX_MCDS_LOCK_SERIES) == NGX_MCDS_LOCK_PAUSE,
       "ends");
    ok(NGX_MCDS_LOCK_PAUSE > 2 * NGX_MCDS_LOCK_INTERVAL,
       "for longer than others take to ask");
}


/*
 * Reads an exact copy of a lock's item, so that a sanitizer notices a read
 * beyond its end.
 */

static ngx_int_t
read_exact(ngx_mcds_lock_item_t *item, const char *text, size_t len)
{
    u_char         *p;
    ngx_int_t       rc;
    static u_char  *last;

    free(last);

    p = malloc(len ? len : 1);
    ngx_memcpy(p, text, len);

    rc = ngx_mcds_lock_read(item, len ? p : p + 1, len);

    last = p;

    return rc;
}

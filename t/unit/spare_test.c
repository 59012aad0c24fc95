
/*
 * Copyright (C) mcds authors
 *
 * A worker keeps the memory of freed values for later values: the memory is
 * used again, blocks do not overlap, the size of the kept memory is bounded,
 * and unused memory is freed.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds.h"
#include "ngx_mcds_spare.h"
#include "ngx_mcds_stat.h"
#include "tap.h"


#define BOUND  (256 * 1024)
#define MANY   64
#define STEPS  200000


typedef struct {
    u_char      *p;
    size_t       size;
    u_char       fill;
} piece_t;


static void test_before(void);
static void test_again(void);
static void test_sizes(void);
static void test_bound(void);
static void test_age(void);
static void test_values(void);
static void test_random(void);
static u_char *get(size_t size);
static void wake(void);
static size_t any_size(void);


static ngx_log_t   test_log;
static ngx_uint_t  wakes;


int
main(void)
{
    srandom(tap_seed(23));

    ngx_current_msec = 5000;
    ngx_mcds_stat_wake = wake;

    test_before();

    ngx_mcds_spare_init(BOUND);
    ngx_mcds_spare_init(2 * BOUND);

    test_again();
    test_sizes();
    test_bound();
    test_age();
    test_values();
    test_random();

    return done_testing();
}


static void
test_before(void)
{
    u_char  *p;

    p = ngx_mcds_spare_alloc(10000, &test_log);
    ngx_mcds_spare_free(p, 10000);

    ok(ngx_mcds_spare_age() == 0, "nothing is kept without a bound");
}


static void
test_again(void)
{
    u_char  *p, *q;

    p = get(10000);
    ngx_mcds_spare_free(p, 10000);

    ok(ngx_mcds_spare_age() >= 10000, "memory is kept");
    ok(wakes == 1, "the clock was started");

    q = get(10100);

    ok(q == p, "and used for a value of about that size");
    ok(ngx_mcds_spare_age() == 0, "it is not kept meanwhile");

    p = get(10000);

    ok(p != q, "a second value has memory of its own");

    ngx_mcds_spare_free(p, 10000);
    ngx_mcds_spare_free(q, 10100);

    ok(wakes == 2, "the clock was started once more, for both");
    ok(get(10000) == q, "what was freed last is used first");
    ok(get(10000) == p, "then the other");

    ngx_mcds_spare_free(p, 10000);
    ngx_mcds_spare_free(q, 10000);

    q = get(20000);

    ok(ngx_mcds_spare_age() >= 20000, "no memory is used for another class");

    ngx_mcds_spare_free(q, 20000);

    ngx_current_msec += NGX_MCDS_SPARE_AGE;
    (void) ngx_mcds_spare_age();
}


/*
 * Allocates and frees values of sizes from 1 byte to the bound of the memory
 * that a worker keeps.  get() writes the last byte of each: AddressSanitizer
 * notices memory that is one byte too short.
 */

static void
test_sizes(void)
{
    size_t      size, kept;
    ngx_uint_t  wrong;

    wrong = 0;

    for (size = 1; size <= BOUND; size += 1 + size / 97) {
        ngx_mcds_spare_free(get(size), size);

        kept = ngx_mcds_spare_age();

        if (size <= 1024 ? kept != 0
                         : (kept < size || kept > size + size / 8 + 1))
        {
            wrong++;
        }

        ngx_current_msec += NGX_MCDS_SPARE_AGE;

        if (ngx_mcds_spare_age() != 0) {
            wrong++;
        }
    }

    ok(wrong == 0, "a class wastes an eighth at most");

    size = 2 * 1024 * 1024;

    ngx_mcds_spare_free(get(size), size);
    ngx_mcds_spare_free(get(size + 1), size + 1);

    ok(ngx_mcds_spare_age() == 0, "memory above the bound is not kept");
}


static void
test_bound(void)
{
    u_char      *p[MANY];
    ngx_uint_t   i;

    for (i = 0; i < MANY; i++) {
        p[i] = get(16384);
    }

    for (i = 0; i < MANY; i++) {
        ngx_mcds_spare_free(p[i], 16384);
    }

    ok(ngx_mcds_spare_age() == BOUND, "as much is kept as the bound allows");

    ngx_mcds_spare_free(get(1100), 1100);

    ok(ngx_mcds_spare_age() == BOUND, "and not a byte more");

    ngx_current_msec += NGX_MCDS_SPARE_AGE - 1;

    ok(ngx_mcds_spare_age() == BOUND, "it is kept for its time");

    ngx_current_msec++;

    ok(ngx_mcds_spare_age() == 0, "a burst leaves nothing");
}


static void
test_age(void)
{
    u_char      *p[4];
    ngx_uint_t   i, n;

    for (i = 0; i < 4; i++) {
        p[i] = get(8192);
    }

    for (i = 0; i < 4; i++) {
        ngx_mcds_spare_free(p[i], 8192);
    }

    /* two of the four kept blocks of memory are used again and again */

    for (n = 0; n < 5; n++) {
        ngx_current_msec += NGX_MCDS_SPARE_AGE / 4;

        p[0] = get(8192);
        p[1] = get(8192);

        ngx_mcds_spare_free(p[0], 8192);
        ngx_mcds_spare_free(p[1], 8192);

        i = ngx_mcds_spare_age() / 8192;
    }

    ok(i == 2, "what is not used is freed beside what is");

    ngx_current_msec += NGX_MCDS_SPARE_AGE;

    ok(ngx_mcds_spare_age() == 0, "and then the rest");
}


static void
test_values(void)
{
    u_char            *data;
    ngx_mcds_value_t  *value;

    value = ngx_mcds_value_create(5000, &test_log);
    data = value->data;

    ok(value->size == 5000, "a value has the size that it was created with");

    ngx_memset(data, 1, 5000);

    (void) ngx_mcds_value_ref(value);
    ngx_mcds_value_unref(value);

    ok(ngx_mcds_spare_age() == 0, "a reference holds it");

    ngx_mcds_value_unref(value);

    ok(ngx_mcds_spare_age() >= 5000, "its memory is kept without one");

    value = ngx_mcds_value_create(5001, &test_log);

    ok(value->data == data && value->refs == 1 && value->size == 5001
       && value->len == 0, "the next value has it");

    ngx_mcds_value_unref(value);

    ngx_current_msec += NGX_MCDS_SPARE_AGE;
    (void) ngx_mcds_spare_age();
}


static void
test_random(void)
{
    size_t       i;
    piece_t      pieces[MANY], *piece;
    ngx_uint_t   n, wrong, above;

    ngx_memzero(pieces, sizeof(pieces));

    wrong = 0;
    above = 0;

    for (n = 0; n < STEPS; n++) {
        piece = &pieces[random() % MANY];

        if (piece->p) {

            for (i = 0; i < piece->size; i += 1 + i / 4) {
                wrong += (piece->p[i] != piece->fill);
            }

            wrong += (piece->p[piece->size - 1] != piece->fill);

            ngx_mcds_spare_free(piece->p, piece->size);
            piece->p = NULL;

        } else {
            piece->size = any_size();
            piece->fill = (u_char) n;
            piece->p = get(piece->size);
            ngx_memset(piece->p, piece->fill, piece->size);
        }

        if (n % 16 == 0) {
            ngx_current_msec += random() % (NGX_MCDS_SPARE_AGE / 8);
            above += (ngx_mcds_spare_age() > BOUND);
        }
    }

    ok(wrong == 0, "no two pieces overlap");
    ok(above == 0, "the bound holds");

    for (n = 0; n < MANY; n++) {
        if (pieces[n].p) {
            ngx_mcds_spare_free(pieces[n].p, pieces[n].size);
        }
    }

    ngx_current_msec += NGX_MCDS_SPARE_AGE;

    ok(ngx_mcds_spare_age() == 0, "all of it is freed in the end");
}


static u_char *
get(size_t size)
{
    u_char  *p;

    p = ngx_mcds_spare_alloc(size, &test_log);

    p[0] = 1;
    p[size - 1] = 1;

    return p;
}


static void
wake(void)
{
    wakes++;
}


static size_t
any_size(void)
{
    return 1 + random() % ((size_t) 1 << (4 + random() % 14));
}

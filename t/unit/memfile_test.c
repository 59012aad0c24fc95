
/*
 * Copyright (C) mcds authors
 *
 * Copies of values in files in memory (memfd): their bytes and offsets, the
 * seals against changes, the smallest value to copy, and the number of files.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds.h"
#include "ngx_mcds_memfile.h"
#include "tap.h"


#define SIZE  100000
#define MAX   3


static void test_none(void);
static void test_copy(void);
static void test_sealed(void);
static void test_small(void);
static void test_max(void);
static ngx_mcds_value_t *value(size_t len);


static ngx_log_t  test_log;


int
main(void)
{
    srandom(tap_seed(29));

    test_none();

    ngx_mcds_memfile_init(MAX);

    test_copy();
    test_sealed();
    test_small();
    test_max();

    return done_testing();
}


static void
test_none(void)
{
    ngx_mcds_value_t  *v;

    v = value(SIZE);

    ok(ngx_mcds_memfile_copy(v, &test_log) == NULL, "no file by default");

    ngx_mcds_value_unref(v);
}


static void
test_copy(void)
{
    u_char             buf[SIZE];
    ngx_mcds_value_t  *v, *copy;

    v = value(SIZE);
    copy = ngx_mcds_memfile_copy(v, &test_log);

    ok(copy && copy->fd != NGX_INVALID_FILE, "a file");
    ok(v->fd == NGX_INVALID_FILE, "the value itself has none");
    ok(copy->refs == 1 && copy->len == SIZE, "one reference, the same length");
    ok(ngx_memcmp(copy->data, v->data, SIZE) == 0, "its bytes in memory");

    ok(pread(copy->fd, buf, SIZE, copy->data - (u_char *) copy) == SIZE
       && ngx_memcmp(buf, v->data, SIZE) == 0,
       "in the file, they have the same offset");

    ok(ngx_mcds_memfile_copy(copy, &test_log) == NULL,
       "a copy is not copied again");

    ngx_mcds_value_ref(copy);
    ngx_mcds_value_unref(copy);
    ok(ngx_memcmp(copy->data, v->data, SIZE) == 0, "references are counted");

    ngx_mcds_value_unref(copy);
    ngx_mcds_value_unref(v);
}


static void
test_sealed(void)
{
    ngx_fd_t           fd;
    ngx_mcds_value_t  *v, *copy;

    v = value(SIZE);
    copy = ngx_mcds_memfile_copy(v, &test_log);
    fd = dup(copy->fd);

    ok(pwrite(fd, "x", 1, SIZE / 2) == -1, "the file cannot be written");
    ok(ftruncate(fd, 10) == -1, "nor be made shorter");

    ngx_mcds_value_unref(copy);

    ok(lseek(fd, 0, SEEK_END) > SIZE,
       "the bytes stay for a socket when the copy is gone");

    (void) close(fd);

    ngx_mcds_value_unref(v);
}


static void
test_small(void)
{
    ngx_mcds_value_t  *v, *copy;

    v = value(NGX_MCDS_MEMFILE_MIN - 1);
    ok(ngx_mcds_memfile_copy(v, &test_log) == NULL, "too small");
    ngx_mcds_value_unref(v);

    v = value(NGX_MCDS_MEMFILE_MIN);
    copy = ngx_mcds_memfile_copy(v, &test_log);
    ok(copy != NULL, "the smallest one");
    ngx_mcds_value_unref(copy);
    ngx_mcds_value_unref(v);
}


static void
test_max(void)
{
    ngx_uint_t         i, n;
    ngx_mcds_value_t  *v, *copy[MAX + 1];

    v = value(SIZE);

    for (n = 0; n < 2; n++) {

        for (i = 0; i < MAX; i++) {
            copy[i] = ngx_mcds_memfile_copy(v, &test_log);
        }

        ok(copy[MAX - 1] != NULL, "as many files as allowed");
        ok(ngx_mcds_memfile_copy(v, &test_log) == NULL, "and no more");

        for (i = 0; i < MAX; i++) {
            ngx_mcds_value_unref(copy[i]);
        }
    }

    ngx_mcds_value_unref(v);
}


static ngx_mcds_value_t *
value(size_t len)
{
    size_t             i;
    ngx_mcds_value_t  *v;

    v = ngx_mcds_value_create(len, &test_log);

    for (i = 0; i < len; i++) {
        v->data[i] = (u_char) random();
    }

    v->len = len;

    return v;
}

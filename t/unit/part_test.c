
/*
 * Copyright (C) mcds authors
 *
 * The parts of a page's body, items of their own in memcached: only parts as
 * they were written are accepted.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_entry.h"
#include "ngx_mcds_part.h"
#include "tap.h"


#define GENERATION  0x0123456789abcdef


static void test_layout(void);
static void test_read(void);
static void test_bytes(void);
static void test_sizes(void);
static void test_suffix(void);
static ngx_mcds_value_t *build(const char *data);
static ngx_int_t read_exact(const u_char *data, size_t len, size_t expected);


static u_char  layout[] =
    "\x4d\x43\x44\x50"                       /* at 0: magic */
    "\x01\x00"                               /* at 4: format, reserved */
    "\x20\x00"                               /* at 6: size of this header */
    "\x05\x00\x00\x00"                       /* at 8: size of the data */
    "CRC!"                                   /* at 12: checksum, CRC32C */
    "\xef\xcd\xab\x89\x67\x45\x23\x01"       /* at 16: the body's generation */
    "\x07\x00\x00\x00"                       /* at 24: number of the part */
    "\x00\x00\x00\x00"                       /* at 28: reserved */
    "hello";


int
main(void)
{
    test_layout();
    test_read();
    test_bytes();
    test_sizes();
    test_suffix();

    return done_testing();
}


static void
test_layout(void)
{
    uint32_t           crc;
    ngx_mcds_value_t  *value;

    crc = ngx_mcds_crc32c(0, layout, 12);
    crc = ngx_mcds_crc32c(crc, layout + 16, sizeof(layout) - 1 - 16);

    layout[12] = (u_char) crc;
    layout[13] = (u_char) (crc >> 8);
    layout[14] = (u_char) (crc >> 16);
    layout[15] = (u_char) (crc >> 24);

    value = build("hello");

    ok(value->len == sizeof(layout) - 1
       && ngx_memcmp(value->data, layout, value->len) == 0,
       "a part is the documented bytes");
    ok(value->size >= value->len + 2, "with room for what the client adds");

    ngx_mcds_value_unref(value);
}


static void
test_read(void)
{
    ngx_str_t          body;
    ngx_mcds_value_t  *value;

    value = build("hello");

    ok(ngx_mcds_part_read(&body, value->data, value->len, GENERATION, 7, 5)
       == NGX_OK && body.len == 5 && ngx_memcmp(body.data, "hello", 5) == 0,
       "it is read");
    ok(ngx_mcds_part_read(&body, value->data, value->len, GENERATION + 1, 7, 5)
       == NGX_DECLINED, "of another generation");
    ok(ngx_mcds_part_read(&body, value->data, value->len, GENERATION, 6, 5)
       == NGX_DECLINED, "another part");
    ok(ngx_mcds_part_read(&body, value->data, value->len, GENERATION, 7, 4)
       == NGX_DECLINED, "of another length");

    ngx_mcds_value_unref(value);
}


static void
test_bytes(void)
{
    size_t             bit, len;
    ngx_uint_t         served;
    ngx_mcds_value_t  *value;

    value = build("some data of a part");
    served = 0;

    for (bit = 0; bit < value->len * 8; bit++) {
        value->data[bit / 8] ^= (u_char) (1 << (bit % 8));
        served += read_exact(value->data, value->len, 19) != NGX_DECLINED;
        value->data[bit / 8] ^= (u_char) (1 << (bit % 8));
    }

    ok(served == 0, "every flipped bit is a miss");

    for (len = 0; len < value->len; len++) {
        served += read_exact(value->data, len, 19) != NGX_DECLINED;
        served += len >= 32
                  && read_exact(value->data, len, len - 32) != NGX_DECLINED;
    }

    ok(served == 0, "every truncation is a miss");
    ok(read_exact(value->data, value->len, 19) == NGX_OK, "and itself is not");

    ngx_mcds_value_unref(value);
}


/*
 * An item that holds a part of a page's body begins with a header, which has a
 * checksum and the header's size: an item with a wrong size there is refused,
 * even if the checksum is right.
 */

static void
test_sizes(void)
{
    uint32_t           crc, size;
    ngx_uint_t         read;
    ngx_mcds_value_t  *value;

    value = build("some data of a part");
    read = 0;

    for (size = 0; size < 65536; size++) {
        value->data[6] = (u_char) size;
        value->data[7] = (u_char) (size >> 8);

        crc = ngx_mcds_crc32c(0, value->data, 12);
        crc = ngx_mcds_crc32c(crc, value->data + 16, value->len - 16);
        ngx_memcpy(value->data + 12, &crc, 4);

        read += read_exact(value->data, value->len, 19) == NGX_OK;
    }

    ok(read == 1, "one size of the header fits");

    ngx_mcds_value_unref(value);
}


static void
test_suffix(void)
{
    u_char     buf[NGX_MCDS_PART_SUFFIX];
    ngx_str_t  suffix;

    suffix.data = buf;

    ngx_mcds_part_suffix(&suffix, GENERATION, 0);
    ok(suffix.len == 24
       && ngx_memcmp(buf, ":part:0123456789abcdef:0", 24) == 0, "first key");

    ngx_mcds_part_suffix(&suffix, 0xfULL, 4294967295U);
    ok(suffix.len == NGX_MCDS_PART_SUFFIX
       && ngx_memcmp(buf, ":part:000000000000000f:4294967295", suffix.len) == 0,
       "longest key");
}


static ngx_mcds_value_t *
build(const char *data)
{
    size_t             len;
    ngx_log_t          log;
    ngx_mcds_value_t  *value;

    ngx_memzero(&log, sizeof(ngx_log_t));

    len = ngx_strlen(data);
    value = ngx_mcds_part_begin(NGX_MCDS_PART_HEADER, len, &log);

    ngx_memcpy(value->data + value->len, data, len);
    value->len += len;

    ngx_mcds_part_finish(value, GENERATION, 7);

    return value;
}


/*
 * Reads an exact copy of a part of a page's body, so that a sanitizer notices a
 * read beyond the end of the copy.
 */

static ngx_int_t
read_exact(const u_char *data, size_t len, size_t expected)
{
    u_char     *copy;
    ngx_int_t   rc;
    ngx_str_t   body;

    copy = malloc(len ? len : 1);
    ngx_memcpy(copy, data, len);

    rc = ngx_mcds_part_read(&body, copy, len, GENERATION, 7, expected);

    free(copy);

    return rc;
}


/*
 * Copyright (C) mcds authors
 *
 * The meta protocol: the bytes of commands; replies as memcached 1.6.18 sends
 * them, whole and cut at every byte; and replies that must be refused.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_proto.h"
#include "tap.h"


#define EDITS     200000
#define NUMERIC   "cannot increment or decrement non-numeric value"

#define HAS_V     NGX_MCDS_VALUE
#define HAS_C     NGX_MCDS_CAS
#define HAS_T     NGX_MCDS_TTL
#define HAS_F     NGX_MCDS_FLAGS
#define HAS_KO    (NGX_MCDS_KEY|NGX_MCDS_OPAQUE)

#define rows(a)   (sizeof(a) / sizeof((a)[0]))
#define text(s)   sizeof(s) - 1, s


typedef struct {
    const char      *line;
    ngx_mcds_cmd_t   cmd;
} command_t;


typedef struct {
    const char  *line;            /* line of a reply, without CRLF */
    ngx_uint_t   rc;
    ngx_uint_t   has;
    size_t       len;
    uint64_t     cas;
    int64_t      ttl;
    uint32_t     flags;
    uint32_t     opaque;
    const char  *key;
    const char  *text;
    ngx_uint_t   noop;
    ngx_uint_t   version;
} reply_t;


static void test_encode(void);
static void test_encode_limits(void);
static void test_encode_numbers(void);
static void test_replies(void);
static void test_cuts(void);
static void test_pipeline(void);
static void test_wrong(void);
static void test_long_lines(void);
static void test_excerpts(void);
static void test_edits(void);
static void test_numbers(void);
static void test_versions(void);
static size_t encode(char *line, ngx_mcds_cmd_t *cmd);
static ngx_int_t parse(ngx_mcds_reply_t *reply, u_char *data, size_t len,
    size_t *taken);
static ngx_uint_t same(ngx_mcds_reply_t *reply, reply_t *row);
static ngx_uint_t same_text(ngx_str_t *got, const char *expected);
static ngx_uint_t inside(ngx_str_t *slice, u_char *data, size_t len);
static const char *shown(const char *data, size_t len);
static uint32_t next_random(void);


static command_t  commands[] = {

    { "mg foo k O1\r\n",
      { .verb = NGX_MCDS_GET, .opaque = 1 } },

    { "mg foo v k O0\r\n",
      { .verb = NGX_MCDS_GET, .want = HAS_V } },

    { "mg foo c k Oa\r\n",
      { .verb = NGX_MCDS_GET, .want = HAS_C, .opaque = 10 } },

    { "mg foo v c t f k O1f\r\n",
      { .verb = NGX_MCDS_GET, .want = HAS_V|HAS_C|HAS_T|HAS_F,
        .opaque = 0x1f } },

    { "mg foo v k O1\r\n",
      { .verb = NGX_MCDS_GET, .want = HAS_V, .opaque = 1,
        .ttl = 5, .cas = 5, .initial = 5, .delta = 5, .len = 5 } },

    { "ms foo 3 T60 k O2\r\n",
      { .verb = NGX_MCDS_SET, .len = 3, .ttl = 60, .opaque = 2 } },

    { "ms foo 3 T60 F4294901760 C7 c k O2\r\n",
      { .verb = NGX_MCDS_SET, .len = 3, .ttl = 60, .flags = 0xffff0000,
        .cas = 7, .want = HAS_C, .opaque = 2 } },

    { "ms foo 0 T0 k O2\r\n",
      { .verb = NGX_MCDS_SET, .opaque = 2 } },

    { "ms foo 1048576 T2592000 c k O2\r\n",
      { .verb = NGX_MCDS_SET, .len = 1048576, .ttl = NGX_MCDS_MAX_TTL,
        .want = HAS_C, .opaque = 2 } },

    { "ms foo 3 T60 C7 c k O2\r\n",
      { .verb = NGX_MCDS_SET, .len = 3, .ttl = 60, .cas = 7, .want = HAS_C,
        .opaque = 2 } },

    { "ms foo 3 T60 C18446744073709551615 k O2\r\n",
      { .verb = NGX_MCDS_SET, .len = 3, .ttl = 60, .cas = (uint64_t) -1,
        .want = HAS_V|HAS_T|HAS_F, .opaque = 2 } },

    { "ms foo 16 ME T30 c k Offffffff\r\n",
      { .verb = NGX_MCDS_ADD, .len = 16, .ttl = 30, .want = HAS_C,
        .opaque = 0xffffffff } },

    { "ms foo 0 ME T301 k O3\r\n",
      { .verb = NGX_MCDS_ADD, .ttl = 301, .cas = 9, .opaque = 3 } },

    { "ms foo 12 MA k O4\r\n",
      { .verb = NGX_MCDS_APPEND, .len = 12, .ttl = 60, .cas = 9,
        .opaque = 4 } },

    { "ms foo 12 MA c k O4\r\n",
      { .verb = NGX_MCDS_APPEND, .len = 12, .want = HAS_C, .opaque = 4 } },

    { "ma foo N0 J1 D1 v k O5\r\n",
      { .verb = NGX_MCDS_INCR, .initial = 1, .delta = 1, .opaque = 5 } },

    { "ma foo N60 J10 D99 v k O5\r\n",
      { .verb = NGX_MCDS_INCR, .ttl = 60, .initial = 10, .delta = 99,
        .want = HAS_V, .opaque = 5 } },

    { "ma foo N2592000 J18446744073709551615 D18446744073709551615 v c t k "
      "O80000000\r\n",
      { .verb = NGX_MCDS_INCR, .ttl = NGX_MCDS_MAX_TTL,
        .initial = (uint64_t) -1, .delta = (uint64_t) -1,
        .want = HAS_C|HAS_T|HAS_F, .opaque = 0x80000000 } },

    { "ma foo N0 J0 D1 MD v k O5\r\n",
      { .verb = NGX_MCDS_DECR, .delta = 1, .opaque = 5 } },

    { "ma foo N30 J1 D2 MD v t k O5\r\n",
      { .verb = NGX_MCDS_DECR, .ttl = 30, .initial = 1, .delta = 2,
        .want = HAS_T, .opaque = 5 } },

    { "ma foo D2 v k O5\r\n",
      { .verb = NGX_MCDS_INCR, .ttl = 30, .initial = 1, .delta = 2,
        .update = 1, .opaque = 5 } },

    { "ma foo D2 C77 v k O5\r\n",
      { .verb = NGX_MCDS_INCR, .delta = 2, .cas = 77, .update = 1,
        .opaque = 5 } },

    { "md foo k O6\r\n",
      { .verb = NGX_MCDS_DELETE, .opaque = 6, .ttl = 60 } },

    { "md foo C3121875 k O6\r\n",
      { .verb = NGX_MCDS_DELETE, .cas = 3121875, .opaque = 6,
        .want = HAS_V|HAS_C|HAS_T|HAS_F } },

    { "mn\r\n",
      { .verb = NGX_MCDS_NOOP, .opaque = 7, .want = HAS_V } },

    { "version\r\n",
      { .verb = NGX_MCDS_GET_VERSION, .opaque = 8 } },

    { "mg foo T60 k O9\r\n",
      { .verb = NGX_MCDS_TOUCH, .ttl = 60, .opaque = 9,
        .want = HAS_V|HAS_C|HAS_T|HAS_F } }
};


static reply_t  replies[] = {

    /* replies to the command mg, which reads an item */

    { "EN kfoo O1f", .rc = NGX_MCDS_NOT_FOUND, .has = HAS_KO, .key = "foo",
      .opaque = 0x1f },
    { "HD kfoo O1f", .has = HAS_KO, .key = "foo", .opaque = 0x1f },
    { "HD c8 kfoo O1f", .has = HAS_C|HAS_KO, .cas = 8, .key = "foo",
      .opaque = 0x1f },
    { "HD t60 kfoo O4", .has = HAS_T|HAS_KO, .ttl = 60, .key = "foo",
      .opaque = 4 },
    { "HD c8 t60 f0 kfoo O4", .has = HAS_C|HAS_T|HAS_F|HAS_KO, .cas = 8,
      .ttl = 60, .key = "foo", .opaque = 4 },
    { "VA 0 kfoo O4", .has = HAS_V|HAS_KO, .key = "foo", .opaque = 4 },
    { "VA 3 kfoo O4", .has = HAS_V|HAS_KO, .len = 3, .key = "foo",
      .opaque = 4 },
    { "VA 3 c8 t60 f0 kfoo O4", .has = HAS_V|HAS_C|HAS_T|HAS_F|HAS_KO,
      .len = 3, .cas = 8, .ttl = 60, .key = "foo", .opaque = 4 },
    { "VA 1048576 c18446744073709551615 t-1 f4294967295 kfoo Offffffff",
      .has = HAS_V|HAS_C|HAS_T|HAS_F|HAS_KO, .len = 1048576,
      .cas = (uint64_t) -1, .ttl = -1, .flags = 0xffffffff, .key = "foo",
      .opaque = 0xffffffff },

    /* an item that another client has marked stale or is recaching */

    { "VA 3 kfoo O2 X W", .has = HAS_V|HAS_KO, .len = 3, .key = "foo",
      .opaque = 2 },
    { "VA 3 kfoo O2 Z X", .has = HAS_V|HAS_KO, .len = 3, .key = "foo",
      .opaque = 2 },
    { "HD c32 t10 f0 kfoo O2 Z X", .has = HAS_C|HAS_T|HAS_F|HAS_KO,
      .cas = 32, .ttl = 10, .key = "foo", .opaque = 2 },
    { "VA 0 t-1 c3121868 W", .has = HAS_V|HAS_C|HAS_T, .ttl = -1,
      .cas = 3121868 },

    /* replies to the command ms, which stores an item */

    { "HD c1 kfoo O2", .has = HAS_C|HAS_KO, .cas = 1, .key = "foo",
      .opaque = 2 },
    { "NS kfoo O3", .rc = NGX_MCDS_NOT_STORED, .has = HAS_KO, .key = "foo",
      .opaque = 3 },
    { "NS c0 kfoo O3", .rc = NGX_MCDS_NOT_STORED, .has = HAS_C|HAS_KO,
      .key = "foo", .opaque = 3 },
    { "EX kfoo O5", .rc = NGX_MCDS_EXISTS, .has = HAS_KO, .key = "foo",
      .opaque = 5 },
    { "EX c0 kfoo O5", .rc = NGX_MCDS_EXISTS, .has = HAS_C|HAS_KO,
      .key = "foo", .opaque = 5 },
    { "NF kfoo O5", .rc = NGX_MCDS_NOT_FOUND, .has = HAS_KO, .key = "foo",
      .opaque = 5 },
    { "NF c0 kfoo O5", .rc = NGX_MCDS_NOT_FOUND, .has = HAS_C|HAS_KO,
      .key = "foo", .opaque = 5 },

    /* replies to the command ma, which increments or decrements a number */

    { "VA 1 kfoo O6", .has = HAS_V|HAS_KO, .len = 1, .key = "foo",
      .opaque = 6 },
    { "VA 20 c29 t2592000 kfoo Offffffff", .has = HAS_V|HAS_C|HAS_T|HAS_KO,
      .len = 20, .cas = 29, .ttl = 2592000, .key = "foo",
      .opaque = 0xffffffff },
    { "VA 1 c11 t-1 kfoo O6", .has = HAS_V|HAS_C|HAS_T|HAS_KO, .len = 1,
      .cas = 11, .ttl = -1, .key = "foo", .opaque = 6 },
    { "CLIENT_ERROR " NUMERIC, .rc = NGX_MCDS_NOT_NUMERIC, .text = NUMERIC },

    /*
     * flags of replies have letters, and no fixed position; any may be missing
     */

    { "VA 3 O4 kfoo f7 t60 c8", .has = HAS_V|HAS_C|HAS_T|HAS_F|HAS_KO,
      .len = 3, .cas = 8, .ttl = 60, .flags = 7, .key = "foo", .opaque = 4 },
    { "VA 3", .has = HAS_V, .len = 3 },
    { "HD", .rc = NGX_MCDS_OK },
    { "EN", .rc = NGX_MCDS_NOT_FOUND },
    { "NF", .rc = NGX_MCDS_NOT_FOUND },
    { "NS", .rc = NGX_MCDS_NOT_STORED },
    { "EX", .rc = NGX_MCDS_EXISTS },
    { "HD kfoo", .has = NGX_MCDS_KEY, .key = "foo" },
    { "HD O0", .has = NGX_MCDS_OPAQUE },
    { "HD kkk O1", .has = HAS_KO, .key = "kk", .opaque = 1 },
    { "HD k~!O1 O2", .has = HAS_KO, .key = "~!O1", .opaque = 2 },
    { "VA 9223372036854775807 t9223372036854775807", .has = HAS_V|HAS_T,
      .len = NGX_MAX_SIZE_T_VALUE, .ttl = 9223372036854775807 },

    /* older versions of memcached write a space at the end of a line */

    { "HD ", .rc = NGX_MCDS_OK },
    { "EN ", .rc = NGX_MCDS_NOT_FOUND },
    { "HD kfoo O1f ", .has = HAS_KO, .key = "foo", .opaque = 0x1f },
    { "VA 3 kfoo O4 ", .has = HAS_V|HAS_KO, .len = 3, .key = "foo",
      .opaque = 4 },
    { "VA 3 ", .has = HAS_V, .len = 3 },

    /* replies that begin with a word: no-op, version, errors */

    { "MN", .noop = 1 },
    { "MN ", .noop = 1 },
    { "VERSION 1.6.18", .version = 1, .text = "1.6.18" },
    { "VERSION 1.6.45-dirty x", .version = 1, .text = "1.6.45-dirty x" },
    { "SERVER_ERROR object too large for cache", .rc = NGX_MCDS_TOO_LARGE,
      .text = "object too large for cache" },
    { "SERVER_ERROR out of memory storing object",
      .rc = NGX_MCDS_SERVER_ERROR, .text = "out of memory storing object" },
    { "SERVER_ERROR x", .rc = NGX_MCDS_SERVER_ERROR, .text = "x" }
};


/* lines that the parser must refuse, each with the LF that ends it */

static struct {
    size_t       len;
    const char  *line;
} wrong[] = {

    /* wrong starts and ends of the lines of replies */

    { text("\n") },
    { text("\r\n") },
    { text(" \r\n") },
    { text("  \r\n") },
    { text("\nHD\r\n") },
    { text("\r\nHD\r\n") },
    { text("\rHD\r\n") },
    { text(" HD kfoo O1\r\n") },
    { text(" VA 3\r\n") },
    { text("HD\n") },
    { text("HD kfoo O1\n") },
    { text("VA 3 kfoo O1\n") },
    { text("MN\n") },
    { text("EN\r\r\n") },
    { text("HD \r\r\n") },
    { text("HD  \r\n") },
    { text("VA 3  \r\n") },
    { text("HD kfoo\rO1\r\n") },

    /* missing and malformed lengths of values */

    { text("VA\r\n") },
    { text("VA \r\n") },
    { text("VA  3\r\n") },
    { text("VA -1\r\n") },
    { text("VA +5\r\n") },
    { text("VA 05\r\n") },
    { text("VA 00\r\n") },
    { text("VA 0x10\r\n") },
    { text("VA 1e3\r\n") },
    { text("VA 3.0\r\n") },
    { text("VA 3kfoo\r\n") },
    { text("VA kfoo O1\r\n") },
    { text("VA\t3\r\n") },
    { text("VA3\r\n") },
    { text("VA 9223372036854775808 kfoo O1\r\n") },
    { text("VA 18446744073709551615 kfoo O1\r\n") },
    { text("VA 18446744073709551616 kfoo O1\r\n") },
    { text("VA 99999999999999999999 kfoo O1\r\n") },
    { text("VA 1000000000000000000000000000000 kfoo O1\r\n") },

    /* duplicate and unknown flags of replies */

    { text("HD kfoo kfoo\r\n") },
    { text("HD kfoo O1 O1\r\n") },
    { text("HD c1 c1 kfoo O1\r\n") },
    { text("HD t1 t-1\r\n") },
    { text("HD f0 f0\r\n") },
    { text("VA 3 X W X\r\n") },
    { text("VA 3 W W\r\n") },
    { text("VA 3 Z Z\r\n") },
    { text("HD s3\r\n") },
    { text("HD h0\r\n") },
    { text("HD l0\r\n") },
    { text("HD b\r\n") },
    { text("HD q\r\n") },
    { text("HD v\r\n") },
    { text("HD T60\r\n") },
    { text("HD C1\r\n") },
    { text("HD K1\r\n") },
    { text("HD o1\r\n") },
    { text("HD ?\r\n") },
    { text("HD W1\r\n") },
    { text("HD X0\r\n") },
    { text("HD  kfoo\r\n") },
    { text("HD kfoo  O1\r\n") },
    { text("HD\tkfoo\r\n") },
    { text("HDkfoo\r\n") },
    { text("HD,kfoo\r\n") },
    { text("HD c1,kfoo\r\n") },
    { text("HD t-1,c5\r\n") },
    { text("HD X,W\r\n") },
    { text("VA 3,kfoo O1\r\n") },

    /* missing and malformed numbers and texts of flags of replies */

    { text("HD c\r\n") },
    { text("HD c kfoo\r\n") },
    { text("HD t\r\n") },
    { text("HD f\r\n") },
    { text("HD O\r\n") },
    { text("HD k\r\n") },
    { text("HD k O1\r\n") },
    { text("HD c-1\r\n") },
    { text("HD c+1\r\n") },
    { text("HD c01\r\n") },
    { text("HD c1x\r\n") },
    { text("HD c0x1\r\n") },
    { text("HD c18446744073709551616\r\n") },
    { text("HD c1844674407370955161500\r\n") },
    { text("HD t-\r\n") },
    { text("HD t-0\r\n") },
    { text("HD t-2\r\n") },
    { text("HD t-10\r\n") },
    { text("HD t-1x\r\n") },
    { text("HD t06\r\n") },
    { text("HD t9223372036854775808\r\n") },
    { text("HD f4294967296\r\n") },
    { text("HD f-1\r\n") },
    { text("HD O01\r\n") },
    { text("HD O00\r\n") },
    { text("HD OA\r\n") },
    { text("HD O1g\r\n") },
    { text("HD O0x1\r\n") },
    { text("HD O-1\r\n") },
    { text("HD O100000000\r\n") },
    { text("HD O123456789abcdef01234\r\n") },
    { text("HD kf\x7foo\r\n") },
    { text("HD kf\xc3\xb6\r\n") },

    /* NUL bytes in replies */

    { text("\0\r\n") },
    { text("\0\0\r\n") },
    { text("HD\0\r\n") },
    { text("HD \0\r\n") },
    { text("\0HD\r\n") },
    { text("HD kfo\0o\r\n") },
    { text("HD kfoo\0 O1\r\n") },
    { text("HD kfoo O1\0\r\n") },
    { text("VA 3\0 kfoo O1\r\n") },
    { text("MN\0\r\n") },
    { text("VERSION 1.6\0\r\n") },
    { text("SERVER_ERROR out\0\r\n") },

    /*
     * lines that answer no command of the client: the state of the connection
     * is unknown, or the server is not memcached
     */

    { text("M\r\n") },
    { text("H\r\n") },
    { text("hd\r\n") },
    { text("HE\r\n") },
    { text("OK\r\n") },
    { text("ME foo exp=-1\r\n") },
    { text("MN kfoo\r\n") },
    { text("MN O1\r\n") },
    { text("MNX\r\n") },
    { text("END\r\n") },
    { text("STORED\r\n") },
    { text("NOT_FOUND\r\n") },
    { text("VALUE foo 0 3\r\n") },
    { text("ERROR\r\n") },
    { text("ERROR unknown command\r\n") },
    { text("VERSION\r\n") },
    { text("VERSION \r\n") },
    { text("VERSION1.6.18\r\n") },
    { text("version 1.6.18\r\n") },
    { text("SERVER_ERROR\r\n") },
    { text("SERVER_ERROR \r\n") },
    { text("SERVER_ERROR\tx\r\n") },
    { text("SERVER_ERROR a\x1b[2Jb\r\n") },
    { text("CLIENT_ERROR\r\n") },
    { text("CLIENT_ERROR bad command line format\r\n") },
    { text("CLIENT_ERROR bad data chunk\r\n") },
    { text("CLIENT_ERROR invalid flag\r\n") },
    { text("CLIENT_ERROR invalid or duplicate flag\r\n") },
    { text("CLIENT_ERROR opaque token too long\r\n") },
    { text("CLIENT_ERROR unauthenticated\r\n") },
    { text("CLIENT_ERROR " NUMERIC "s\r\n") },
    { text("CLIENT_ERROR " NUMERIC "  \r\n") },
    { text("CLIENT_ERROR cannot increment or decrement\r\n") },
    { text("HTTP/1.1 400 Bad Request\r\n") },
    { text("-ERR unknown command\r\n") },
    { text("SSH-2.0-OpenSSH_9.2\r\n") },
    { text("\x15\x03\x01\x00\x02\x02\x46\r\n") },
    { text("mg foo v k O1\r\n") }
};


int
main(void)
{
    test_encode();
    test_encode_limits();
    test_encode_numbers();
    test_replies();
    test_cuts();
    test_pipeline();
    test_wrong();
    test_long_lines();
    test_excerpts();
    test_edits();
    test_numbers();
    test_versions();

    return done_testing();
}


static void
test_encode(void)
{
    char             line[NGX_MCDS_MAX_COMMAND + 1];
    ngx_uint_t       i;
    ngx_mcds_cmd_t   cmd;

    for (i = 0; i < rows(commands); i++) {

        cmd = commands[i].cmd;
        ngx_str_set(&cmd.key, "foo");

        encode(line, &cmd);

        ok(strcmp(line, commands[i].line) == 0, "command %s",
           shown(line, strlen(line)));
    }
}


/*
 * The longest command of each verb fits into the buffer of NGX_MCDS_MAX_COMMAND
 * bytes that callers provide.
 */

static void
test_encode_limits(void)
{
    char             line[NGX_MCDS_MAX_COMMAND + 1];
    size_t           len, longest;
    u_char           key[NGX_MCDS_MAX_KEY];
    ngx_uint_t       verb;
    ngx_mcds_cmd_t   cmd;

    memset(key, 'K', sizeof(key));

    longest = 0;

    for (verb = NGX_MCDS_GET; verb <= NGX_MCDS_GET_VERSION; verb++) {

        memset(&cmd, 0xff, sizeof(ngx_mcds_cmd_t));

        cmd.verb = verb;
        cmd.key.len = sizeof(key);
        cmd.key.data = key;

        len = encode(line, &cmd);

        longest = ngx_max(longest, len);
    }

    ok(longest <= NGX_MCDS_MAX_COMMAND,
       "the longest command line has %d bytes", (int) longest);
}


static void
test_encode_numbers(void)
{
    char             line[NGX_MCDS_MAX_COMMAND + 1], expected[128];
    uint64_t         n, power;
    ngx_int_t        add;
    ngx_uint_t       i, bad;
    ngx_mcds_cmd_t   cmd;

    memset(&cmd, 0, sizeof(ngx_mcds_cmd_t));
    ngx_str_set(&cmd.key, "foo");

    cmd.verb = NGX_MCDS_DELETE;

    for (bad = 0, power = 10, i = 0; i < 19; power *= 10, i++) {

        for (add = -1; add <= 1; add++) {
            n = power + add;

            cmd.cas = n;
            encode(line, &cmd);

            sprintf(expected, "md foo C%llu k O0\r\n", (unsigned long long) n);
            bad += (strcmp(line, expected) != 0);
        }
    }

    ok(bad == 0, "decimal numbers around the powers of ten");

    cmd.cas = 0;

    for (bad = 0, i = 0; i < 32; i++) {

        for (add = -1; add <= 1; add++) {
            cmd.opaque = ((uint32_t) 1 << i) + add;
            encode(line, &cmd);

            sprintf(expected, "md foo k O%x\r\n", cmd.opaque);
            bad += (strcmp(line, expected) != 0);
        }
    }

    ok(bad == 0, "hexadecimal numbers around the powers of two");
}


static void
test_replies(void)
{
    char              line[256];
    size_t            len, taken;
    reply_t          *row;
    ngx_int_t         rc;
    ngx_uint_t        i;
    ngx_mcds_reply_t  reply;

    for (i = 0; i < rows(replies); i++) {

        row = &replies[i];
        len = sprintf(line, "%s\r\n", row->line);

        rc = parse(&reply, (u_char *) line, len, &taken);

        ok(rc == NGX_OK && taken == len && same(&reply, row), "reply \"%s\"",
           row->line);
    }
}


/*
 * Parses each reply, cut after each of its bytes, in memory that ends there;
 * and the whole reply with a malformed line after it.
 */

static void
test_cuts(void)
{
    char              line[256];
    u_char           *data;
    size_t            len, cut, taken;
    ngx_int_t         rc;
    ngx_uint_t        i, bad, cuts;
    ngx_mcds_reply_t  reply;

    bad = 0;
    cuts = 0;

    for (i = 0; i < rows(replies); i++) {

        len = sprintf(line, "%s\r\n", replies[i].line);

        for (cut = 0; cut <= len; cut++) {

            data = malloc(cut);
            memcpy(data, line, cut);

            rc = parse(&reply, data, cut, &taken);

            if (cut < len) {
                bad += (rc != NGX_AGAIN || taken != 0);

            } else {
                bad += (rc != NGX_OK || taken != len
                        || !same(&reply, &replies[i]));
            }

            free(data);
            cuts++;
        }

        strcpy(line + len, "\nVA \r\n");

        rc = parse(&reply, (u_char *) line, strlen(line), &taken);

        bad += (rc != NGX_OK || taken != len || !same(&reply, &replies[i]));
    }

    ok(bad == 0, "%d cuts of %d replies make no difference", (int) cuts,
       (int) rows(replies));
}


/* Many replies are parsed from one buffer, some with a value. */

static void
test_pipeline(void)
{
    u_char            *data, *p;
    ngx_buf_t          b;
    ngx_int_t          rc;
    ngx_uint_t         i, n, round, bad, row[64];
    ngx_mcds_reply_t   reply;

    data = malloc(64 * 512);

    for (bad = 0, round = 0; round < 2000; round++) {

        memset(&b, 0, sizeof(ngx_buf_t));

        p = data;
        n = 1 + next_random() % 64;

        for (i = 0; i < n; i++) {

            do {
                row[i] = next_random() % rows(replies);
            } while (replies[row[i]].len > 64);

            p += sprintf((char *) p, "%s\r\n", replies[row[i]].line);

            if (replies[row[i]].has & HAS_V) {
                memset(p, '\n', replies[row[i]].len);
                p += replies[row[i]].len;
                *p++ = CR;
                *p++ = LF;
            }
        }

        b.pos = data;
        b.last = p;

        for (i = 0; i < n; i++) {
            rc = ngx_mcds_parse(&reply, &b);

            if (rc != NGX_OK || !same(&reply, &replies[row[i]])) {
                bad++;
                break;
            }

            if (reply.has & HAS_V) {
                b.pos += reply.len + 2;
            }
        }

        bad += (b.pos != b.last);
    }

    ok(bad == 0, "1 to 64 replies in one buffer, %d times", (int) round);

    free(data);
}


static void
test_wrong(void)
{
    u_char           *data;
    size_t            cut, taken;
    ngx_int_t         rc;
    ngx_uint_t        i, bad;
    ngx_mcds_reply_t  reply;

    for (i = 0; i < rows(wrong); i++) {

        bad = 0;

        /* the parser accepts no beginning of a wrong line either */

        for (cut = 0; cut <= wrong[i].len; cut++) {

            data = malloc(cut);
            memcpy(data, wrong[i].line, cut);

            rc = parse(&reply, data, cut, &taken);

            bad += (rc == NGX_OK || taken != 0);

            if (rc == NGX_ERROR) {
                bad += (reply.text.len > 128 || reply.has != 0
                        || !inside(&reply.text, data, cut));
            }

            free(data);
        }

        ok(bad == 0 && rc == NGX_ERROR, "refused: %s",
           shown(wrong[i].line, wrong[i].len));
    }
}


/* Lines of replies that exceed the maximum length. */

static void
test_long_lines(void)
{
    u_char           *data;
    size_t            taken;
    ngx_mcds_reply_t  reply;

    data = malloc(65536);
    memset(data, 'x', 65536);

    ok(parse(&reply, data, NGX_MCDS_MAX_LINE, &taken) == NGX_AGAIN,
       "2048 bytes without LF may still become a line");

    ok(parse(&reply, data, NGX_MCDS_MAX_LINE + 1, &taken) == NGX_ERROR
       && reply.text.len == 128 && taken == 0,
       "2049 bytes without LF are refused");

    ok(parse(&reply, data, 65536, &taken) == NGX_ERROR
       && reply.text.len == 128 && taken == 0,
       "64 KiB without LF are refused");

    memcpy(data, "SERVER_ERROR ", 13);
    memcpy(data + NGX_MCDS_MAX_LINE - 1, CRLF, 2);

    ok(parse(&reply, data, NGX_MCDS_MAX_LINE, &taken) == NGX_AGAIN,
       "the longest line without its LF");

    ok(parse(&reply, data, NGX_MCDS_MAX_LINE + 1, &taken) == NGX_OK
       && reply.rc == NGX_MCDS_SERVER_ERROR
       && reply.text.len == NGX_MCDS_MAX_LINE - 14
       && taken == NGX_MCDS_MAX_LINE + 1,
       "the longest line");

    memcpy(data + NGX_MCDS_MAX_LINE - 1, "xx", 2);
    memcpy(data + NGX_MCDS_MAX_LINE, CRLF, 2);

    ok(parse(&reply, data, 65536, &taken) == NGX_ERROR && taken == 0,
       "a line of one byte more is refused, even with its LF");

    memset(data, 0, 65536);

    ok(parse(&reply, data, 65536, &taken) == NGX_ERROR
       && reply.text.len == 0,
       "64 KiB of NUL are refused");

    memcpy(data, "HD k", 4);
    memset(data + 4, 'K', 251);
    memcpy(data + 4 + 250, CRLF, 2);

    ok(parse(&reply, data, 256, &taken) == NGX_OK && reply.key.len == 250,
       "a key of 250 bytes comes back");

    memcpy(data + 4 + 250, "K\r\n", 3);

    ok(parse(&reply, data, 257, &taken) == NGX_ERROR,
       "a key of 251 bytes does not");

    free(data);
}


/* The excerpt, for nginx's error log, of a reply that the parser refuses. */

static void
test_excerpts(void)
{
    char              line[300];
    ngx_uint_t        i;
    ngx_mcds_reply_t  reply;

    static struct {
        const char  *line;
        const char  *text;
    } cases[] = {
        { "ERROR\r\n", "ERROR" },
        { "CLIENT_ERROR bad data chunk\r\nERROR\r\n",
          "CLIENT_ERROR bad data chunk" },
        { "HD kfoo O1\n", "HD kfoo O1" },
        { "\n", "" },
        { "HTTP/1.1 400\r\n\r\n", "HTTP/1.1 400" },
        { "one\033[2Jtwo\r\n", "one" },
        { "one\rtwo\r\n", "one" }
    };

    for (i = 0; i < rows(cases); i++) {
        parse(&reply, (u_char *) cases[i].line, strlen(cases[i].line), NULL);

        ok(same_text(&reply.text, cases[i].text), "told of it: \"%s\"",
           cases[i].text);
    }

    memset(line, 'x', 300);
    memcpy(line + 298, CRLF, 2);

    parse(&reply, (u_char *) line, 300, NULL);
    ok(reply.text.len == 128, "told of 298 bytes: the first 128");
}


/*
 * Replies with one to eight bytes changed: any result is allowed, but no access
 * outside of the buffer.
 */

static void
test_edits(void)
{
    char              line[256];
    u_char           *data;
    size_t            len, taken;
    ngx_int_t         rc;
    ngx_uint_t        i, n, bad, good;
    ngx_mcds_reply_t  reply;

    static u_char  bytes[] = " \r\n0123456789-kOctfWXZ\0\377aV";

    bad = 0;
    good = 0;

    for (i = 0; i < EDITS; i++) {

        len = sprintf(line, "%s\r\n", replies[i % rows(replies)].line);

        data = malloc(len);
        memcpy(data, line, len);

        for (n = 1 + next_random() % 8; n; n--) {
            data[next_random() % len] =
                                    bytes[next_random() % (rows(bytes) - 1)];
        }

        rc = parse(&reply, data, len, &taken);

        bad += (rc == NGX_OK) ? (taken < 4 || taken > len
                                 || data[taken - 1] != LF
                                 || data[taken - 2] != CR)
                              : (taken != 0);

        bad += (!inside(&reply.text, data, len)
                || !inside(&reply.key, data, len)
                || reply.len > NGX_MAX_SIZE_T_VALUE
                || reply.rc >= NGX_MCDS_RC_LAST);

        good += (rc == NGX_OK);

        free(data);
    }

    ok(bad == 0, "%d replies with changed bytes, %d still grammatical",
       EDITS, (int) good);
}


/* Parses numbers at the limits of their types, and invalid numbers. */

static void
test_numbers(void)
{
    u_char      *data;
    uint64_t     n;
    ngx_int_t    rc;
    ngx_uint_t   i;

    static struct {
        size_t       len;
        const char  *text;
        ngx_int_t    rc;
        uint64_t     number;
    } cases[] = {
        { text("0"), NGX_OK, 0 },
        { text("6"), NGX_OK, 6 },
        { text("6 "), NGX_OK, 6 },
        { text("6   "), NGX_OK, 6 },
        { text("9                   "), NGX_OK, 9 },
        { text("007"), NGX_OK, 7 },
        { text("00000000000000000001"), NGX_OK, 1 },
        { text("4294967296"), NGX_OK, 4294967296 },
        { text("9223372036854775808"), NGX_OK, 9223372036854775808u },
        { text("18446744073709551615"), NGX_OK, (uint64_t) -1 },
        { text("18446744073709551615 "), NGX_OK, (uint64_t) -1 },

        { text(""), NGX_ERROR, 0 },
        { text(" "), NGX_ERROR, 0 },
        { text("    "), NGX_ERROR, 0 },
        { text(" 6"), NGX_ERROR, 0 },
        { text("-1"), NGX_ERROR, 0 },
        { text("+1"), NGX_ERROR, 0 },
        { text("abc"), NGX_ERROR, 0 },
        { text("6a"), NGX_ERROR, 0 },
        { text("0x10"), NGX_ERROR, 0 },
        { text("1.5"), NGX_ERROR, 0 },
        { text("6 6"), NGX_ERROR, 0 },
        { text("6\0"), NGX_ERROR, 0 },
        { text("\0"), NGX_ERROR, 0 },
        { text("6\t"), NGX_ERROR, 0 },
        { text("6\r\n"), NGX_ERROR, 0 },
        { text("18446744073709551616"), NGX_ERROR, 0 },
        { text("18446744073709551620"), NGX_ERROR, 0 },
        { text("99999999999999999999"), NGX_ERROR, 0 },
        { text("000000000000000000001"), NGX_ERROR, 0 },
        { text("1844674407370955161512345"), NGX_ERROR, 0 },
        { text("0000000000000000000000000"), NGX_ERROR, 0 }
    };

    for (i = 0; i < rows(cases); i++) {

        data = malloc(cases[i].len);
        memcpy(data, cases[i].text, cases[i].len);

        n = 0;
        rc = ngx_mcds_parse_number(data, cases[i].len, &n);

        ok(rc == cases[i].rc && n == cases[i].number, "number %s: %s",
           shown(cases[i].text, cases[i].len),
           cases[i].rc == NGX_OK ? "taken" : "refused");

        free(data);
    }

    ok(ngx_mcds_parse_number(NULL, 0, &n) == NGX_ERROR, "no number at all");
}


static void
test_versions(void)
{
    ngx_str_t   version;
    ngx_uint_t  i;

    static struct {
        const char  *text;
        ngx_int_t    rc;
    } cases[] = {
        { "1.6.13", NGX_OK },
        { "1.6.14", NGX_OK },
        { "1.6.18", NGX_OK },
        { "1.6.100", NGX_OK },
        { "1.6.18-dirty", NGX_OK },
        { "1.6.18beta", NGX_OK },
        { "1.6.18.1", NGX_OK },
        { "1.7.0", NGX_OK },
        { "1.10.2", NGX_OK },
        { "2.0.0", NGX_OK },
        { "10.0.0", NGX_OK },
        { "1.6.12", NGX_DECLINED },
        { "1.6.9", NGX_DECLINED },
        { "1.6.1", NGX_DECLINED },
        { "1.6.0-rc1", NGX_DECLINED },
        { "1.5.22", NGX_DECLINED },
        { "1.5.99", NGX_DECLINED },
        { "0.9.99", NGX_DECLINED },
        { "0.0.0", NGX_DECLINED },
        { "", NGX_ERROR },
        { "1", NGX_ERROR },
        { "1.", NGX_ERROR },
        { "1.6", NGX_ERROR },
        { "1.6.", NGX_ERROR },
        { "1.6.x", NGX_ERROR },
        { "1.x.18", NGX_ERROR },
        { "2.x.0", NGX_ERROR },
        { "1..18", NGX_ERROR },
        { "1-6-18", NGX_ERROR },
        { " 1.6.18", NGX_ERROR },
        { "v1.6.18", NGX_ERROR },
        { "-1.6.18", NGX_ERROR },
        { "unknown", NGX_ERROR },
        { "1.6.99999999999999999999999", NGX_ERROR }
    };

    for (i = 0; i < rows(cases); i++) {

        version.len = strlen(cases[i].text);
        version.data = malloc(version.len);
        memcpy(version.data, cases[i].text, version.len);

        ok(ngx_mcds_version_at_least(&version, 1, 6, 13) == cases[i].rc,
           "version \"%s\" is %s", cases[i].text,
           cases[i].rc == NGX_OK ? "enough for 1.6.13"
           : cases[i].rc == NGX_DECLINED ? "too old" : "none");

        free(version.data);
    }
}


/*
 * Encodes a command into memory of NGX_MCDS_MAX_COMMAND bytes, so that a
 * sanitizer notices a longer command, and copies the encoded command to line.
 * Returns the command's length.
 */

static size_t
encode(char *line, ngx_mcds_cmd_t *cmd)
{
    size_t   len;
    u_char  *buf;

    buf = malloc(NGX_MCDS_MAX_COMMAND);

    len = ngx_mcds_encode(buf, cmd) - buf;

    memcpy(line, buf, len);
    line[len] = '\0';

    free(buf);

    return len;
}


static ngx_int_t
parse(ngx_mcds_reply_t *reply, u_char *data, size_t len, size_t *taken)
{
    ngx_int_t  rc;
    ngx_buf_t  b;

    memset(&b, 0, sizeof(ngx_buf_t));
    memset(reply, 0xff, sizeof(ngx_mcds_reply_t));

    b.pos = data;
    b.last = data + len;

    rc = ngx_mcds_parse(reply, &b);

    if (taken) {
        *taken = b.pos - data;
    }

    return rc;
}


static ngx_uint_t
same(ngx_mcds_reply_t *reply, reply_t *row)
{
    return reply->rc == row->rc
           && reply->has == row->has
           && reply->len == row->len
           && reply->cas == row->cas
           && reply->ttl == row->ttl
           && reply->flags == row->flags
           && reply->opaque == row->opaque
           && same_text(&reply->key, row->key)
           && same_text(&reply->text, row->text)
           && reply->noop == row->noop
           && reply->version == row->version;
}


static ngx_uint_t
same_text(ngx_str_t *got, const char *expected)
{
    if (expected == NULL) {
        return got->len == 0;
    }

    return got->len == strlen(expected)
           && memcmp(got->data, expected, got->len) == 0;
}


static ngx_uint_t
inside(ngx_str_t *slice, u_char *data, size_t len)
{
    return slice->len == 0
           || (slice->data >= data && slice->len <= len
               && slice->data + slice->len <= data + len);
}


/* Shows bytes as in a C string, so that no byte breaks a line of TAP. */

static const char *
shown(const char *data, size_t len)
{
    u_char       ch;
    char        *p;
    ngx_uint_t   i;
    static char  out[4 * 512 + 3];

    p = out;
    *p++ = '"';

    for (i = 0; i < len && i < 512; i++) {
        ch = (u_char) data[i];

        if (ch == CR || ch == LF) {
            p += sprintf(p, "\\%c", ch == CR ? 'r' : 'n');

        } else if (ch < 0x20 || ch > 0x7e || ch == '#') {
            p += sprintf(p, "\\x%02x", ch);

        } else {
            *p++ = (char) ch;
        }
    }

    *p++ = '"';
    *p = '\0';

    return out;
}


static uint32_t
next_random(void)
{
    static uint32_t    seed;
    static ngx_uint_t  seeded;

    if (!seeded) {
        seeded = 1;
        seed = tap_seed(20);
    }

    seed = seed * 1664525 + 1013904223;

    return seed >> 8;
}


/*
 * Copyright (C) mcds authors
 *
 * Stored entries of the cache: layout, round trip, damage, forged sizes, header
 * lines, CRC32C.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_coding.h"
#include "ngx_mcds_entry.h"
#include "ngx_mcds_part.h"
#include "tap.h"


/*
 * includes the checksum code once more, under another name, so that the test
 * can call its static function ngx_mcds_crc32c_table(), which is not used on a
 * processor with an instruction for CRC32C
 */

uint32_t ngx_mcds_crc32c_copy(uint32_t crc, u_char *data, size_t len);

#define ngx_mcds_crc32c  ngx_mcds_crc32c_copy
#include "../../src/cache/format/ngx_mcds_crc32c.c"
#undef ngx_mcds_crc32c


#define PAGE_HEADERS  "Content-Type: text/html\r\n"                           \
                      "X-Empty: \r\n"                                          \
                      "ETag: \"a\tb\"\r\n"


static void test_crc_vectors(void);
static void test_crc_same(void);
static void test_layout(void);
static void test_round_trip(void);
static void test_kinds(void);
static void test_bit_flips(void);
static void test_truncations(void);
static void test_edits(void);
static void test_sizes(void);
static void test_header_size(void);
static void test_fields(void);
static void test_coding(void);
static void test_extensions(void);
static void test_header_lines(void);
static void test_header_check(void);
static void test_key(void);
static void test_too_long(void);
static void test_grow(void);
static void test_purge(void);

static void page(ngx_mcds_entry_t *entry);
static ngx_mcds_value_t *build(ngx_mcds_entry_t *entry, const char *body,
    size_t len);
static ngx_mcds_value_t *build_2k(ngx_mcds_entry_t *entry);
static u_char *exact(const u_char *data, size_t len);
static void sign(u_char *data, size_t len);
static void put32(u_char *p, uint32_t n);
static ngx_int_t read_exact(const u_char *data, size_t len, char **why);
static int declined(ngx_mcds_value_t *value, const char *text);
static int headers_are(const char *text, size_t len, ngx_int_t rc);
static uint32_t pseudo_random(void);


static ngx_str_t  page_key = ngx_string("httpexample.org/articles/?a=1");
static uint32_t   seed;

static u_char     layout[] =
    "\x4d\x43\x44\x53"                       /* at 0: magic */
    "\x01"                                   /* at 4: format */
    "\x00"                                   /* at 5: kind */
    "\x70\x00"                               /* at 6: size of the header */
    "\x03\x00\x00\x00"                       /* at 8: flags */
    "\xe3\x51\x1d\xff"                       /* at 12: CRC32C */
    "\x08\x07\x06\x05\x04\x03\x02\x01"       /* at 16: time of expiry */
    "\x18\x17\x16\x15\x14\x13\x12\x11"       /* at 24: time of creation */
    "\x28\x27\x26\x25\x24\x23\x22\x21"       /* at 32: generation */
    "\x05\x00\x00\x00\x00\x00\x00\x00"       /* at 40: size of body */
    "\x34\x33\x32\x31"                       /* at 48: age */
    "\x44\x43\x42\x41"                       /* at 52: stale-while-revalidate */
    "\xff\xff\xff\xff"                       /* at 56: stale-if-error */
    "\x54\x53\x52\x51"                       /* at 60: ms until the response */
    "\x03\x00\x00\x00"                       /* at 64: size of key */
    "\x08\x00\x00\x00"                       /* at 68: size of entry's tags */
    "\x06\x00\x00\x00"                       /* at 72: size of headers */
    "\x05\x00\x00\x00"                       /* at 76: size of body in item */
    "\x00\x00\x00\x00"                       /* at 80: number of parts */
    "\xc8\x00"                               /* at 84: status */
    "\x00\x00"                               /* at 86: coding of the body */
    "\x00\x00\x00\x00"                       /* at 88: length of a part */
    "\x00\x00\x00\x00\x00\x00\x00\x00"       /* at 92: size of decoded body */
    "\x68\x67\x66\x65\x64\x63\x62\x61"       /* at 100: id of page's build */
    "\x00\x00\x00\x00"                       /* at 108: purges of variants */
    "k/1"                                    /* at 112: text of the key */
    "\x02\x00\x02\x00\x00\x00t1"             /* extension, type 2, size 2 */
    "A: b\r\n"
    "hello";


int
main(void)
{
    /* from a seed of 0, the generator of random numbers would return only 0 */

    seed = tap_seed(1) | 1;

    test_crc_vectors();
    test_crc_same();
    test_layout();
    test_round_trip();
    test_kinds();
    test_bit_flips();
    test_truncations();
    test_edits();
    test_sizes();
    test_header_size();
    test_fields();
    test_coding();
    test_extensions();
    test_header_lines();
    test_header_check();
    test_key();
    test_too_long();
    test_grow();
    test_purge();

    return done_testing();
}


/* The test vectors of CRC32C in RFC 3720, B.4. */

static void
test_crc_vectors(void)
{
    u_char          data[32];
    uint32_t        table[5];
    ngx_uint_t      i, n;

    static u_char   read_pdu[] =
        "\x01\xc0\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
        "\x14\x00\x00\x00\x00\x00\x04\x00\x00\x00\x00\x14\x00\x00\x00\x18"
        "\x28\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00";

    static uint32_t want[] = { 0x8a9136aa, 0x62a8ab43, 0x46dd794e,
                               0x113fdb5c, 0xd9963a56 };
    static char    *name[] = { "zeroes", "ones", "rising", "falling",
                               "a read command" };

    ngx_mcds_crc32c_init();

    for (n = 0; n < 5; n++) {

        for (i = 0; i < 32; i++) {
            data[i] = (u_char) (n == 0 ? 0 : n == 1 ? 0xff
                                : n == 2 ? i : 31 - i);
        }

        if (n == 4) {
            table[n] = ~ngx_mcds_crc32c_table(~0U, read_pdu, 48);
            ok(ngx_mcds_crc32c(0, read_pdu, 48) == want[n], "crc of %s",
               name[n]);

        } else {
            table[n] = ~ngx_mcds_crc32c_table(~0U, data, 32);
            ok(ngx_mcds_crc32c(0, data, 32) == want[n], "crc of %s", name[n]);
        }

        ok(table[n] == want[n], "crc of %s by table", name[n]);
    }

    ok(ngx_mcds_crc32c(0, data, 0) == 0, "crc of nothing");
    ok(ngx_mcds_crc32c(0, (u_char *) "123456789", 9) == 0xe3069283,
       "crc of digits");
}


static void
test_crc_same(void)
{
    int              same;
    u_char          *data;
    size_t           len, at, cut;
    uint32_t         crc, table;
    ngx_uint_t       i;

    data = malloc(20000);
    same = 1;

    for (i = 0; i < 20000; i++) {
        data[i] = (u_char) pseudo_random();
    }

    /* many lengths and alignments: the checksum code has two block sizes */

    for (len = 0; len < 8000; len += (len < 1000) ? 1 : 61) {
        at = len % 9;

        crc = ngx_mcds_crc32c(7, data + at, len);
        table = ~ngx_mcds_crc32c_table(~7U, data + at, len);

        same = same && crc == table;
    }

    for (len = 3 * 1024 - 9; len < 3 * 1024 + 9; len++) {
        crc = ngx_mcds_crc32c(0, data, len);
        same = same && crc == ~ngx_mcds_crc32c_table(~0U, data, len);
    }

    ok(same, "instruction and table agree");

    same = 1;
    table = ngx_mcds_crc32c(0, data, 20000);

    for (i = 0; i < 500; i++) {
        cut = pseudo_random() % 20000;

        crc = ngx_mcds_crc32c(0, data, cut);
        crc = ngx_mcds_crc32c(crc, data + cut, 20000 - cut);

        same = same && crc == table;
    }

    ok(same, "crc of two parts is that of the whole");

    free(data);
}


static void
test_layout(void)
{
    char              *why;
    ngx_str_t          key = ngx_string("k/1");
    ngx_mcds_entry_t   entry, got;
    ngx_mcds_value_t  *value;

    ngx_memset(&entry, 0x5a, sizeof(entry));

    entry.kind = NGX_MCDS_ENTRY_PAGE;
    entry.flags = NGX_MCDS_ENTRY_SHARED | NGX_MCDS_ENTRY_REVALIDATE;
    entry.expire = 0x0102030405060708;
    entry.created = 0x1112131415161718;
    entry.generation = 0x2122232425262728;
    entry.age = 0x31323334;
    entry.swr = 0x41424344;
    entry.sie = NGX_MCDS_ENTRY_UNSET;
    entry.took = 0x51525354;
    entry.parts = 0;
    entry.purges = 0;
    entry.build = 0x6162636465666768;
    entry.status = 200;
    entry.coding = NGX_MCDS_CODING_NONE;

    entry.key = key;
    ngx_str_set(&entry.ext, "\x02\x00\x02\x00\x00\x00t1");
    ngx_str_set(&entry.headers, "A: b\r\n");

    value = build(&entry, "hello", 5);

    ok(value->len == sizeof(layout) - 1
       && ngx_memcmp(value->data, layout, value->len) == 0,
       "an entry is the documented bytes");

    ok(ngx_mcds_entry_read(&got, layout, sizeof(layout) - 1, &key, &why)
       == NGX_OK, "the documented bytes are an entry");

    ok(got.kind == 0 && got.flags == 3 && got.expire == entry.expire
       && got.created == entry.created && got.generation == entry.generation
       && got.total == 5 && got.age == entry.age && got.swr == entry.swr
       && got.sie == entry.sie && got.took == entry.took && got.parts == 0
       && got.build == entry.build
       && got.status == 200 && got.coding == 0 && got.length == 5,
       "and its numbers come back");

    ngx_mcds_value_unref(value);
}


static void
test_round_trip(void)
{
    char              *why;
    u_char            *data;
    uint32_t           part;
    ngx_int_t          rc;
    ngx_str_t          name, text;
    ngx_uint_t         wrong;
    ngx_mcds_entry_t   entry, got;
    ngx_mcds_value_t  *value;

    wrong = 0;

    page(&entry);

    value = build(&entry, "body", 4);
    data = exact(value->data, value->len);

    rc = ngx_mcds_entry_read(&got, data, value->len, &page_key, &why);

    ok(rc == NGX_OK && why == NULL, "page is read");

    ok(got.key.len == page_key.len
       && ngx_memcmp(got.key.data, page_key.data, page_key.len) == 0
       && got.ext.len == 0
       && got.headers.len == sizeof(PAGE_HEADERS) - 1
       && ngx_memcmp(got.headers.data, PAGE_HEADERS, got.headers.len) == 0
       && got.body.len == 4 && ngx_memcmp(got.body.data, "body", 4) == 0,
       "its strings come back");

    ok(ngx_mcds_entry_header(&got.headers, &name, &text) == NGX_OK
       && name.len == 12 && ngx_memcmp(name.data, "Content-Type", 12) == 0
       && text.len == 9 && ngx_memcmp(text.data, "text/html", 9) == 0,
       "first header line");

    ok(ngx_mcds_entry_header(&got.headers, &name, &text) == NGX_OK
       && name.len == 7 && ngx_memcmp(name.data, "X-Empty", 7) == 0
       && text.len == 0, "header line without a value");

    ok(ngx_mcds_entry_header(&got.headers, &name, &text) == NGX_OK
       && name.len == 4 && text.len == 5
       && ngx_memcmp(text.data, "\"a\tb\"", 5) == 0, "last header line");

    ok(ngx_mcds_entry_header(&got.headers, &name, &text) == NGX_DONE
       && ngx_mcds_entry_header(&got.headers, &name, &text) == NGX_DONE,
       "no further header line");

    free(data);
    ngx_mcds_value_unref(value);

    /* a page without a body and headers: entry.headers.data may be NULL */

    ngx_str_null(&entry.headers);

    value = build(&entry, "", 0);
    data = exact(value->data, value->len);

    ok(ngx_mcds_entry_read(&got, data, value->len, &page_key, &why) == NGX_OK
       && got.body.len == 0 && got.headers.len == 0, "empty page is read");

    ok(ngx_mcds_entry_header(&got.headers, &name, &text) == NGX_DONE,
       "empty page has no header line");

    free(data);
    ngx_mcds_value_unref(value);

    /* the first item of a page whose body is stored in parts */

    entry.parts = 3;
    entry.part = 40;
    entry.total = 100;

    value = build(&entry, "body", 4);

    ok(ngx_mcds_entry_read(&got, value->data, value->len, &page_key, &why)
       == NGX_OK && got.parts == 3 && got.total == 100 && got.body.len == 4,
       "first item of a split body is read");

    ok(got.part == 40 && ngx_mcds_entry_part(&got, 0) == 40
       && ngx_mcds_entry_part(&got, 1) == 40
       && ngx_mcds_entry_part(&got, 2) == 16, "lengths of its parts");

    ngx_mcds_value_unref(value);

    /*
     * 96 bytes of a body in 3 parts: an entry is read only if the length of a
     * part (the last may be shorter) is 32 to 47 bytes
     */

    for (part = 0; part < 100; part++) {
        entry.part = part;
        value = build(&entry, "body", 4);

        wrong += (ngx_mcds_entry_read(&got, value->data, value->len, &page_key,
                                      &why)
                  == NGX_OK) != (part >= 32 && part <= 47);

        ngx_mcds_value_unref(value);
    }

    ok(wrong == 0, "parts of a length that does not add up");

    entry.part = 1;
    entry.total = 4;

    value = build(&entry, "body", 4);
    ok(declined(value, "wrong length of the body"),
       "further items without a rest of the body");

    entry.parts = NGX_MCDS_MAX_PARTS;
    entry.total = 4 + NGX_MCDS_MAX_PARTS;

    value = build(&entry, "body", 4);
    ok(ngx_mcds_entry_read(&got, value->data, value->len, &page_key, &why)
       == NGX_OK, "as many parts as a page can have");
    ngx_mcds_value_unref(value);

    entry.parts++;
    entry.total++;

    value = build(&entry, "body", 4);
    ok(declined(value, "wrong length of the body"), "one part more");

    entry.parts = 0xffffffff;
    entry.total = 4 + (uint64_t) 0xffffffff;

    value = build(&entry, "body", 4);
    ok(declined(value, "wrong length of the body"), "4294967295 parts");
}


static void
test_kinds(void)
{
    char              *why;
    ngx_uint_t         kind;
    ngx_mcds_entry_t   entry, got;
    ngx_mcds_value_t  *value;

    for (kind = NGX_MCDS_ENTRY_PASS; kind <= NGX_MCDS_ENTRY_VARY; kind++) {
        page(&entry);
        entry.kind = kind;
        entry.status = 0;
        ngx_str_null(&entry.headers);

        value = build(&entry, "Accept", kind == NGX_MCDS_ENTRY_VARY ? 6 : 0);

        ok(ngx_mcds_entry_read(&got, value->data, value->len, &page_key, &why)
           == NGX_OK && got.kind == kind, "kind %u is read", (unsigned) kind);

        ngx_mcds_value_unref(value);

        entry.status = 200;
        value = build(&entry, "", 0);
        ok(declined(value, "wrong status"), "kind %u with a status",
           (unsigned) kind);
    }

    page(&entry);
    entry.kind = NGX_MCDS_ENTRY_PASS;
    entry.status = 0;
    entry.parts = 1;
    entry.part = 1;
    entry.total = 1;
    ok(declined(build(&entry, "", 0), "wrong length of the body"),
       "no page, but parts");

    page(&entry);
    entry.kind = 4;
    entry.status = 0;
    ok(declined(build(&entry, "", 0), "unknown kind"), "unknown kind");
}


static void
test_bit_flips(void)
{
    char              *why;
    u_char            *data;
    size_t             bit;
    ngx_uint_t         served;
    ngx_mcds_entry_t   entry, got;
    ngx_mcds_value_t  *value;

    value = build_2k(&entry);
    data = exact(value->data, value->len);
    served = 0;

    for (bit = 0; bit < value->len * 8; bit++) {
        data[bit / 8] ^= (u_char) (1 << (bit % 8));
        why = NULL;

        if (ngx_mcds_entry_read(&got, data, value->len, &page_key, &why)
            != NGX_DECLINED || why == NULL)
        {
            served++;
        }

        data[bit / 8] ^= (u_char) (1 << (bit % 8));
    }

    ok(bit == 16384 && served == 0, "every flipped bit of 2 KiB is a miss");

    ok(ngx_mcds_entry_read(&got, data, value->len, &page_key, &why) == NGX_OK,
       "and none flipped is not");

    free(data);
    ngx_mcds_value_unref(value);
}


static void
test_truncations(void)
{
    char              *why;
    u_char            *data;
    size_t             len;
    ngx_uint_t         served;
    ngx_mcds_entry_t   entry;
    ngx_mcds_value_t  *value;

    value = build_2k(&entry);
    served = 0;

    for (len = 0; len < value->len; len++) {
        if (read_exact(value->data, len, &why) != NGX_DECLINED) {
            served++;
        }
    }

    ok(served == 0, "every truncation is a miss");

    /* truncated entries with a correct checksum: only sizes show the damage */

    for (len = NGX_MCDS_ENTRY_HEADER; len < value->len; len++) {
        data = exact(value->data, len);
        sign(data, len);

        if (read_exact(data, len, &why) != NGX_DECLINED) {
            served++;
        }

        free(data);
    }

    ok(served == 0, "every truncation with a good checksum is a miss");

    data = malloc(value->len + 1);
    ngx_memcpy(data, value->data, value->len);
    data[value->len] = 0;
    sign(data, value->len + 1);

    ok(read_exact(data, value->len + 1, &why) == NGX_DECLINED,
       "one byte more is a miss");

    free(data);
    ngx_mcds_value_unref(value);
}


static void
test_edits(void)
{
    char              *why;
    u_char            *data;
    size_t             at, n, len;
    ngx_str_t          name, text;
    ngx_uint_t         i, round, served, bad;
    ngx_mcds_entry_t   entry, got;
    ngx_mcds_value_t  *value;

    value = build_2k(&entry);
    len = value->len;
    data = exact(value->data, len);
    served = 0;
    bad = 0;

    for (round = 0; round < 100000; round++) {
        n = 1 + pseudo_random() % 64;

        for (i = 0; i < n; i++) {
            at = pseudo_random() % (round % 2 ? len : NGX_MCDS_ENTRY_HEADER);
            data[at] = (u_char) pseudo_random();
        }

        if (ngx_memcmp(data, value->data, len) != 0
            && ngx_mcds_entry_read(&got, data, len, &page_key, &why)
               != NGX_DECLINED)
        {
            served++;
        }

        /* a forged entry with a correct checksum must be harmless, too */

        sign(data, len);

        if (ngx_mcds_entry_read(&got, data, len, &page_key, &why) == NGX_OK) {

            while (ngx_mcds_entry_header(&got.headers, &name, &text)
                   == NGX_OK)
            {
                if (ngx_mcds_entry_header_check(&name, &text) != NGX_OK) {
                    bad++;
                }
            }

            bad += got.headers.len != 0;
            bad += got.body.data + got.body.len != data + len;
        }

        ngx_memcpy(data, value->data, len);
    }

    ok(served == 0, "100,000 edits are misses");
    ok(bad == 0, "edits with a good checksum do no harm");

    free(data);
    ngx_mcds_value_unref(value);
}


static void
test_sizes(void)
{
    char              *why;
    u_char            *data;
    size_t             len;
    ngx_uint_t         i, served;
    ngx_mcds_entry_t   entry;
    ngx_mcds_value_t  *value;

    /*
     * the lengths of an entry's key, extensions, headers and body; the low 32
     * bits of their sum are right
     */

    static uint32_t    lens[][4] = {
        { 0xffffffff, 0, 0, 0 },
        { 0, 0xffffffff, 0, 0 },
        { 0, 0, 0xffffffff, 0 },
        { 0, 0, 0, 0xffffffff },
        { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff },
        { 0x80000000, 0x80000000, 0, 64 },
        { 32, 0x80000000, 0x80000000, 32 },
        { 32, 0, 0x80000000, 0x80000020 },
        { 0xffffffff, 65, 0, 0 },
        { 65, 0xffffffff, 0, 0 },
        { 65, 0, 0xffffffff, 0 },
        { 65, 0, 0, 0xffffffff },
        { 0xffffffff, 0xffffffff, 66, 0 },
        { 0x40000000, 0x40000000, 0x40000000, 0x40000040 },
        { 0xffffff90, 0, 0, 176 },
        { 64, 0, 0, 1 },
        { 63, 0, 0, 0 }
    };

    page(&entry);
    ngx_str_set(&entry.key, "k");
    ngx_str_null(&entry.headers);

    /* the key "k" and a body of 63 bytes: the sum of the lengths is 64 */

    value = build(&entry, "123456789012345678901234567890123456789012345678901"
                          "234567890123", 63);
    len = value->len;
    served = 0;

    for (i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
        data = exact(value->data, len);

        put32(data + 64, lens[i][0]);
        put32(data + 68, lens[i][1]);
        put32(data + 72, lens[i][2]);
        put32(data + 76, lens[i][3]);
        put32(data + 40, lens[i][3]);
        sign(data, len);

        if (read_exact(data, len, &why) != NGX_DECLINED
            || ngx_strcmp(why, "wrong sizes") != 0)
        {
            served++;
        }

        free(data);
    }

    ok(len == 112 + 64 && served == 0, "%u sums of sizes that overflow",
       (unsigned) i);

    ngx_mcds_value_unref(value);
}


static void
test_header_size(void)
{
    char              *why;
    u_char            *data;
    size_t             len;
    ngx_uint_t         size, read;
    ngx_mcds_entry_t   entry;
    ngx_mcds_value_t  *value;

    page(&entry);
    value = build(&entry, "body", 4);
    len = value->len;

    /*
     * an entry whose header is eight bytes longer, as a later version may write
     * it
     */

    data = malloc(len + 8);
    ngx_memcpy(data, value->data, 112);
    ngx_memcpy(data + 112, "\xff\xff\xff\xff\xff\xff\xff\xff", 8);
    ngx_memcpy(data + 120, value->data + 112, len - 112);
    data[6] = 120;
    sign(data, len + 8);

    ok(read_exact(data, len + 8, &why) == NGX_OK,
       "longer header of a later writer is read");

    /* an entry with 0xff from offset 86 on and an unknown flag is accepted */

    ngx_memset(data + 86, 0xff, 120 - 86);
    data[11] = 0x80;
    sign(data, len + 8);

    ok(read_exact(data, len + 8, &why) == NGX_OK,
       "unknown fields and flags are skipped");

    free(data);

    data = exact(value->data, len);
    read = 0;

    for (size = 0; size <= 0xffff; size++) {
        data[6] = (u_char) size;
        data[7] = (u_char) (size >> 8);

        /*
         * the longer the entry's fixed header, the shorter the page's body, so
         * that the sizes of the entry's parts add up to the entry's length if
         * possible
         */

        put32(data + 76, (uint32_t) (size < 116 ? 116 - size : 0));
        put32(data + 40, (uint32_t) (size < 116 ? 116 - size : 0));

        sign(data, len);

        if (read_exact(data, len, &why) == NGX_OK) {
            read += (size == 112) ? 1 : 1000;
        }
    }

    ok(read == 1, "any other size of the header is a miss");

    data[6] = 111;
    data[7] = 0;
    put32(data + 76, 5);
    put32(data + 40, 5);
    sign(data, len);

    ok(read_exact(data, len, &why) == NGX_DECLINED
       && ngx_strcmp(why, "wrong sizes") == 0,
       "shorter header is a miss though it adds up");

    free(data);
    ngx_mcds_value_unref(value);
}


static void
test_fields(void)
{
    char              *why;
    u_char            *data;
    size_t             len;
    ngx_uint_t         status, n, read;
    ngx_mcds_entry_t   entry;
    ngx_mcds_value_t  *value;

    page(&entry);
    value = build(&entry, "body", 4);
    len = value->len;
    data = exact(value->data, len);

    read = 0;

    for (status = 0; status <= 0xffff; status++) {
        data[84] = (u_char) status;
        data[85] = (u_char) (status >> 8);
        sign(data, len);

        if (read_exact(data, len, &why) == NGX_OK) {
            read += (status >= 200 && status <= 599) ? 1 : 1000;
        }
    }

    ok(read == 400, "status is 200 to 599");

    data[84] = 200;
    data[85] = 0;
    read = 0;

    for (n = 0; n < 256; n++) {
        data[4] = (u_char) n;
        sign(data, len);
        read += read_exact(data, len, &why) == NGX_OK;
    }

    ok(read == 2, "no format but two is that of a page without a coding");

    data[4] = 1;

    put32(data + 40, 5);
    sign(data, len);
    ok(read_exact(data, len, &why) == NGX_DECLINED
       && ngx_strcmp(why, "wrong length of the body") == 0,
       "whole body longer than its only item");

    put32(data + 40, 4);
    put32(data + 44, 1);
    sign(data, len);
    ok(read_exact(data, len, &why) == NGX_DECLINED,
       "length of the whole body is 64 bits");

    put32(data + 80, 2);
    put32(data + 88, 0x80000000);
    sign(data, len);
    ok(read_exact(data, len, &why) == NGX_OK,
       "whole body of more than 4 GiB");

    free(data);
    ngx_mcds_value_unref(value);
}


static void
test_coding(void)
{
    char              *why;
    size_t             len;
    u_char            *data;
    ngx_uint_t         n, read;
    ngx_mcds_entry_t   entry, got;
    ngx_mcds_value_t  *value;

    page(&entry);

    entry.coding = NGX_MCDS_CODING_ZSTD;
    entry.length = 0x0102030405060708;

    value = build(&entry, "body", 4);
    len = value->len;
    data = exact(value->data, len);

    ok(data[4] == 2 && ngx_memcmp(data + 86, "\x02\x00", 2) == 0
       && ngx_memcmp(data + 92, "\x08\x07\x06\x05\x04\x03\x02\x01\0\0\0\0",
                     12)
          == 0,
       "a coding is another format, to readers that know none");

    ok(ngx_mcds_entry_read(&got, data, len, &page_key, &why) == NGX_OK
       && got.coding == NGX_MCDS_CODING_ZSTD && got.length == entry.length
       && got.total == 4 && got.body.len == 4,
       "a coding and both lengths come back");

    read = 0;

    for (n = 0; n <= 0xffff; n++) {
        data[86] = (u_char) n;
        data[87] = (u_char) (n >> 8);
        sign(data, len);

        if (read_exact(data, len, &why) == NGX_OK) {
            read += (n == 1 || n == 2) ? 1 : 1000;
        }
    }

    ok(read == 2, "two codings are known");

    data[86] = 1;
    data[87] = 0;
    data[4] = 1;
    sign(data, len);

    ok(ngx_mcds_entry_read(&got, data, len, &page_key, &why) == NGX_OK
       && got.coding == NGX_MCDS_CODING_NONE && got.length == 4,
       "in the other format they are reserved");

    data[4] = 2;
    ngx_memzero(data + 92, 8);
    sign(data, len);

    ok(read_exact(data, len, &why) == NGX_DECLINED
       && ngx_strcmp(why, "wrong length of the body") == 0,
       "nothing has no coding");

    data[92] = 1;
    data[5] = NGX_MCDS_ENTRY_PASS;
    data[84] = 0;
    sign(data, len);

    ok(read_exact(data, len, &why) == NGX_DECLINED,
       "and neither has a mark");

    free(data);
    ngx_mcds_value_unref(value);
}


static void
test_extensions(void)
{
    int                good;
    char              *why, name[64];
    ngx_int_t          rc;
    ngx_uint_t         i;
    ngx_mcds_entry_t   entry, got;
    ngx_mcds_value_t  *value;

    static struct {
        ngx_str_t      ext;
        ngx_int_t      rc;
    } rows[] = {
        { ngx_string("\x01\0\0\0\0\0"), NGX_OK },
        { ngx_string("\xff\xff\x03\0\0\0abc"), NGX_OK },
        { ngx_string("\xff\xff\x01\0\0\0a\x02\0\x01\0\0\0b"), NGX_OK },
        { ngx_string("\0\0\0\0\0\0\0\0\0\0\0\0"), NGX_OK },
        { ngx_string("\x01"), NGX_DECLINED },
        { ngx_string("\x01\0\0\0\0"), NGX_DECLINED },
        { ngx_string("\x01\0\x01\0\0\0"), NGX_DECLINED },
        { ngx_string("\x01\0\x03\0\0\0ab"), NGX_DECLINED },
        { ngx_string("\x01\0\x01\0\0\0ab"), NGX_DECLINED },
        { ngx_string("\x01\0\xff\xff\xff\xff"), NGX_DECLINED },
        { ngx_string("\x01\0\xfa\xff\xff\xff"), NGX_DECLINED },
        { ngx_string("\x01\0\0\0\0\x80"), NGX_DECLINED },
        { ngx_string("\x01\0\x01\0\0\0a\x02\0\x02\0\0\0b"), NGX_DECLINED }
    };

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        page(&entry);
        entry.ext = rows[i].ext;

        value = build(&entry, "body", 4);
        rc = ngx_mcds_entry_read(&got, value->data, value->len, &page_key,
                                 &why);

        good = rc == rows[i].rc;

        if (rc == NGX_OK) {
            good = good && got.ext.len == rows[i].ext.len
                   && ngx_memcmp(got.ext.data, rows[i].ext.data, got.ext.len)
                      == 0;
        }

        snprintf(name, sizeof(name), "%s", rc == NGX_OK ? "read" : why);
        ok(good, "extensions %u: %s", (unsigned) i, name);

        ngx_mcds_value_unref(value);
    }
}


static void
test_header_lines(void)
{
    char        line[64];
    ngx_uint_t  c, n, wrong;

    static struct {
        ngx_str_t      headers;
        ngx_int_t      rc;
    } rows[] = {
        { ngx_string(""), NGX_OK },
        { ngx_string("A: b\r\n"), NGX_OK },
        { ngx_string("A: \r\n"), NGX_OK },
        { ngx_string("A: b\r\nA: b\r\n"), NGX_OK },
        { ngx_string("A: : b:\r\n"), NGX_OK },
        { ngx_string("A:  two spaces \r\n"), NGX_OK },
        { ngx_string("A: \t b\tc\t\r\n"), NGX_OK },
        { ngx_string("A: 0123456789\t0123456789\r\n"), NGX_OK },
        { ngx_string("A: 0\t \t\t !12\t 345678\t \r\n"), NGX_OK },
        { ngx_string("A: \xc3\xa4\xff\x80\r\n"), NGX_OK },
        { ngx_string("!#$%&'*+-.^_`|~09azAZ: b\r\n"), NGX_OK },
        { ngx_string("\r\n"), NGX_DECLINED },
        { ngx_string(":"), NGX_DECLINED },
        { ngx_string("A"), NGX_DECLINED },
        { ngx_string("A:"), NGX_DECLINED },
        { ngx_string("A: "), NGX_DECLINED },
        { ngx_string("A: \r"), NGX_DECLINED },
        { ngx_string("A: b"), NGX_DECLINED },
        { ngx_string("A: b\r"), NGX_DECLINED },
        { ngx_string("A: b\n"), NGX_DECLINED },
        { ngx_string("A:b\r\n"), NGX_DECLINED },
        { ngx_string("A:\tb\r\n"), NGX_DECLINED },
        { ngx_string("A:\r\n"), NGX_DECLINED },
        { ngx_string("A:\r\n\r\n"), NGX_DECLINED },
        { ngx_string("A : b\r\n"), NGX_DECLINED },
        { ngx_string(" A: b\r\n"), NGX_DECLINED },
        { ngx_string(": b\r\n"), NGX_DECLINED },
        { ngx_string("A B: c\r\n"), NGX_DECLINED },
        { ngx_string("A: b\r\n\r\n"), NGX_DECLINED },
        { ngx_string("A: b\r\n folded\r\n"), NGX_DECLINED },
        { ngx_string("A: b\rc\r\n"), NGX_DECLINED },
        { ngx_string("A: b\nC: d\r\n"), NGX_DECLINED },
        { ngx_string("A: b\r\r\n"), NGX_DECLINED },
        { ngx_string("A: b\0c\r\n"), NGX_DECLINED },
        { ngx_string("A: b\x7f\r\n"), NGX_DECLINED },
        { ngx_string("A\0: b\r\n"), NGX_DECLINED },
        { ngx_string("\xc3\xa4: b\r\n"), NGX_DECLINED },
        { ngx_string("A: b\r\nC: d"), NGX_DECLINED },
        { ngx_string("A: b\r\nC: d\r\nE"), NGX_DECLINED }
    };

    for (n = 0; n < sizeof(rows) / sizeof(rows[0]); n++) {
        ok(headers_are((char *) rows[n].headers.data, rows[n].headers.len,
                       rows[n].rc),
           "header lines %u are %s", (unsigned) n,
           rows[n].rc == NGX_OK ? "read" : "a miss");
    }

    /*
     * each byte at each position of a header's value: the parser checks a
     * value a machine word at a time
     */

    wrong = 0;

    for (n = 0; n < 24; n++) {
        for (c = 0; c < 256; c++) {
            ngx_memcpy(line, "A: 0123456789\xff\xe4yz456789abcd\r\n", 29);
            line[3 + n] = (char) c;

            if (!headers_are(line, 29, (c >= 0x20 && c != 0x7f) || c == '\t'
                                       ? NGX_OK : NGX_DECLINED))
            {
                wrong++;
            }
        }
    }

    ok(wrong == 0, "control characters are found wherever they are");

    wrong = 0;

    for (c = 0; c < 256; c++) {
        ngx_memcpy(line, "Abc: d\r\n", 8);
        line[1] = (char) c;

        if (!headers_are(line, 8, c != 0 && (isalnum((int) c)
                                  || strchr("!#$%&'*+-.^_`|~", (int) c))
                                  ? NGX_OK : NGX_DECLINED))
        {
            wrong++;
        }
    }

    ok(wrong == 0, "a name is a token");
}


static void
test_header_check(void)
{
    ngx_uint_t  i;

    static struct {
        ngx_str_t      name;
        ngx_str_t      value;
        ngx_int_t      rc;
    } rows[] = {
        { ngx_string("A"), ngx_null_string, NGX_OK },
        { ngx_string("X-A"), ngx_string("b c\td"), NGX_OK },
        { ngx_string("X-A"), ngx_string("12345678"), NGX_OK },
        { ngx_null_string, ngx_string("b"), NGX_DECLINED },
        { ngx_string("A:"), ngx_string("b"), NGX_DECLINED },
        { ngx_string("A "), ngx_string("b"), NGX_DECLINED },
        { ngx_string("A\r\nB"), ngx_string("b"), NGX_DECLINED },
        { ngx_string("A\0"), ngx_string("b"), NGX_DECLINED },
        { ngx_string("A"), ngx_string("b\r\nC: d"), NGX_DECLINED },
        { ngx_string("A"), ngx_string("b\n"), NGX_DECLINED },
        { ngx_string("A"), ngx_string("\r"), NGX_DECLINED },
        { ngx_string("A"), ngx_string("1234567\0"), NGX_DECLINED },
        { ngx_string("A"), ngx_string("12345678\0"), NGX_DECLINED },
        { ngx_string("A"), ngx_string("\x1b[31m"), NGX_DECLINED }
    };

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ok(ngx_mcds_entry_header_check(&rows[i].name, &rows[i].value)
           == rows[i].rc, "header %u may%s be stored", (unsigned) i,
           rows[i].rc == NGX_OK ? "" : " not");
    }
}


static void
test_key(void)
{
    char              *why;
    ngx_uint_t         i, read;
    ngx_str_t          key, empty;
    ngx_mcds_entry_t   entry, got;
    ngx_mcds_value_t  *value;

    page(&entry);
    value = build(&entry, "body", 4);
    read = 0;

    key.data = exact(page_key.data, page_key.len);

    /* a prefix of the page's key, or the key with a byte changed, is refused */

    for (i = 0; i < page_key.len; i++) {
        key.len = i;

        read += ngx_mcds_entry_read(&got, value->data, value->len, &key, &why)
                == NGX_OK;

        key.len = page_key.len;
        key.data[i] ^= 0x20;

        read += ngx_mcds_entry_read(&got, value->data, value->len, &key, &why)
                == NGX_OK;

        key.data[i] ^= 0x20;
    }

    ok(read == 0 && ngx_strcmp(why, "key of another page") == 0,
       "entry of another key is a miss");

    ok(ngx_mcds_entry_read(&got, value->data, value->len, &key, &why)
       == NGX_OK, "entry of an equal key is read");

    free(key.data);

    ngx_str_set(&key, "httpexample.org/articles/?a=1Content-Type");
    ok(ngx_mcds_entry_read(&got, value->data, value->len, &key, &why)
       == NGX_DECLINED, "entry of a longer key is a miss");

    ngx_str_null(&empty);
    ok(ngx_mcds_entry_read(&got, value->data, value->len, &empty, &why)
       == NGX_DECLINED, "no key is another key");

    ngx_mcds_value_unref(value);

    ngx_str_null(&entry.key);
    value = build(&entry, "body", 4);

    ok(ngx_mcds_entry_read(&got, value->data, value->len, &empty, &why)
       == NGX_OK, "an empty key is a key");

    ngx_mcds_value_unref(value);
}


static void
test_too_long(void)
{
    ngx_log_t          log;
    ngx_mcds_entry_t   entry;
    ngx_mcds_value_t  *value;

    ngx_memzero(&log, sizeof(ngx_log_t));

    page(&entry);

    ok(ngx_mcds_entry_begin(&entry, NGX_MAX_SIZE_T_VALUE, &log) == NULL
       && ngx_mcds_entry_begin(&entry, (size_t) -1, &log) == NULL
       && ngx_mcds_entry_begin(&entry, (size_t) -100, &log) == NULL
       && ngx_mcds_entry_begin(&entry, 0x7fffffff, &log) == NULL,
       "no room for a body that no length fits");

    entry.headers.len = (size_t) -100;
    ok(ngx_mcds_entry_begin(&entry, 0, &log) == NULL, "headers too long");

    page(&entry);
    entry.key.len = 0xffffffff;
    ok(ngx_mcds_entry_begin(&entry, 0, &log) == NULL, "key too long");

    page(&entry);
    entry.ext.len = 0x7fffffff;
    ok(ngx_mcds_entry_begin(&entry, 0, &log) == NULL, "extensions too long");

    page(&entry);
    value = ngx_mcds_entry_begin(&entry, 0, &log);
    ok(ngx_mcds_entry_grow(value, (size_t) -1, &log) == NULL
       && ngx_mcds_entry_grow(value, 0x7fffffff, &log) == NULL,
       "no room to grow beyond all lengths");

    ngx_mcds_value_unref(value);
}


static void
test_grow(void)
{
    char              *why;
    size_t             n, len;
    ngx_log_t          log;
    ngx_uint_t         moves;
    ngx_mcds_entry_t   entry, got;
    ngx_mcds_value_t  *value, *old;

    ngx_memzero(&log, sizeof(ngx_log_t));

    page(&entry);
    value = ngx_mcds_entry_begin(&entry, 100, &log);

    ok(value->len == 112 + page_key.len + sizeof(PAGE_HEADERS) - 1
       && value->size >= value->len + 100 && value->refs == 1,
       "room for the body");

    ok(ngx_mcds_entry_grow(value, 100, &log) == value
       && ngx_mcds_entry_grow(value, 0, &log) == value,
       "what has room does not move");

    moves = 0;
    len = 0;

    while (len < 300000) {
        n = 1 + pseudo_random() % 100;

        old = value;
        value = ngx_mcds_entry_grow(value, n, &log);
        moves += value != old;

        ngx_memset(value->data + value->len, 'a' + (int) (len % 26), n);
        value->len += n;
        len += n;
    }

    ok(moves > 3 && moves < 40, "growing in small pieces moves seldom");

    ngx_mcds_entry_finish(value, &entry);

    ok(ngx_mcds_entry_read(&got, value->data, value->len, &page_key, &why)
       == NGX_OK && got.body.len == len && got.total == len
       && got.body.data[0] == 'a', "what has grown is read");

    old = value;
    value = ngx_mcds_entry_grow(value, 5000000, &log);

    ok(value != old && value->size - value->len >= 5000000
       && value->refs == 1, "growing by a large piece");

    ngx_mcds_value_unref(value);
}


static void
test_purge(void)
{
    char              *why;
    ngx_mcds_entry_t   entry, got;
    ngx_mcds_value_t  *value;

    page(&entry);

    entry.kind = NGX_MCDS_ENTRY_VARY;
    entry.status = 0;
    entry.expire = 0;
    entry.purges = 0x01020304;

    value = build(&entry, "0123456789abcdef", 16);

    ok(ngx_memcmp(value->data + 108, "\x04\x03\x02\x01", 4) == 0,
       "how often the variants of a list were purged");

    ngx_mcds_entry_purge(value, 1700000001000);

    ok(ngx_mcds_entry_read(&got, value->data, value->len, &page_key, &why)
       == NGX_OK && got.purges == 0x01020305 && got.expire == 1700000001000
       && got.body.len == 16 && got.generation == entry.generation,
       "and once more, now");

    entry.created = 1700000000900;
    entry.took = 500;

    ok(ngx_mcds_entry_purged(&got, &entry) == 1700000001000,
       "a variant of before has expired then");

    ngx_mcds_entry_purge(value, 1700000002000);

    ok(ngx_mcds_entry_read(&got, value->data, value->len, &page_key, &why)
       == NGX_OK && got.purges == 0x01020306 && got.expire == 1700000002000,
       "and again");

    ok(ngx_mcds_entry_purged(&got, &entry) == 1700000001000,
       "it has still expired when the first of two came");

    entry.purges++;

    ok(ngx_mcds_entry_purged(&got, &entry) == 1700000002000,
       "one that knows the first, when the second came");

    entry.purges--;
    ngx_mcds_entry_purge(value, 1700000002003);
    (void) ngx_mcds_entry_read(&got, value->data, value->len, &page_key, &why);

    ok(ngx_mcds_entry_purged(&got, &entry) == 1700000001000,
       "the first of three");

    ngx_mcds_entry_purge(value, 1700000002004);
    (void) ngx_mcds_entry_read(&got, value->data, value->len, &page_key, &why);

    ok(ngx_mcds_entry_purged(&got, &entry) == 1700000000400,
       "the first of four is not known: since its origin was asked");

    ngx_mcds_entry_purge(value, 1800000000000);
    (void) ngx_mcds_entry_read(&got, value->data, value->len, &page_key, &why);
    entry.purges = got.purges - 2;

    ok(got.took == NGX_MCDS_ENTRY_UNSET
       && ngx_mcds_entry_purged(&got, &entry) == 1700000000400,
       "nor one of long ago");

    ngx_mcds_value_unref(value);
}


static void
page(ngx_mcds_entry_t *entry)
{
    ngx_memzero(entry, sizeof(ngx_mcds_entry_t));

    entry->kind = NGX_MCDS_ENTRY_PAGE;
    entry->expire = 1700000030000;
    entry->created = 1700000000000;
    entry->generation = 0x0123456789abcdef;
    entry->swr = NGX_MCDS_ENTRY_UNSET;
    entry->sie = NGX_MCDS_ENTRY_UNSET;
    entry->took = 1003;
    entry->status = 200;
    entry->key = page_key;
    ngx_str_set(&entry->headers, PAGE_HEADERS);
}


static ngx_mcds_value_t *
build(ngx_mcds_entry_t *entry, const char *body, size_t len)
{
    ngx_log_t          log;
    ngx_mcds_value_t  *value;

    ngx_memzero(&log, sizeof(ngx_log_t));

    value = ngx_mcds_entry_begin(entry, len, &log);

    ngx_memcpy(value->data + value->len, body, len);
    value->len += len;

    ngx_mcds_entry_finish(value, entry);

    return value;
}


static ngx_mcds_value_t *
build_2k(ngx_mcds_entry_t *entry)
{
    char        body[2048];
    size_t      len;
    ngx_uint_t  i;

    page(entry);
    ngx_str_set(&entry->ext, "\x02\x00\x02\x00\x00\x00t1");

    for (i = 0; i < sizeof(body); i++) {
        body[i] = (char) ('a' + i % 26);
    }

    len = 2048 - 112 - entry->key.len - entry->ext.len - entry->headers.len;

    return build(entry, body, len);
}


/*
 * Returns an exact copy of an entry, so that a read beyond its end is noticed.
 */

static u_char *
exact(const u_char *data, size_t len)
{
    u_char  *copy;

    copy = malloc(len ? len : 1);

    if (len) {
        ngx_memcpy(copy, data, len);
    }

    return copy;
}


static void
sign(u_char *data, size_t len)
{
    uint32_t  crc;

    crc = ngx_mcds_crc32c(0, data, 12);
    crc = ngx_mcds_crc32c(crc, data + 16, len - 16);

    put32(data + 12, crc);
}


static void
put32(u_char *p, uint32_t n)
{
    p[0] = (u_char) n;
    p[1] = (u_char) (n >> 8);
    p[2] = (u_char) (n >> 16);
    p[3] = (u_char) (n >> 24);
}


static ngx_int_t
read_exact(const u_char *data, size_t len, char **why)
{
    u_char            *copy;
    ngx_int_t          rc;
    ngx_mcds_entry_t   entry;

    *why = NULL;

    copy = exact(data, len);
    rc = ngx_mcds_entry_read(&entry, copy, len, &page_key, why);
    free(copy);

    if (rc == NGX_DECLINED && *why == NULL) {
        return NGX_ERROR;
    }

    return rc;
}


/* Reads and frees an entry; returns 1 if it is refused for the given reason. */

static int
declined(ngx_mcds_value_t *value, const char *text)
{
    int    good;
    char  *why;

    good = read_exact(value->data, value->len, &why) == NGX_DECLINED
           && strcmp(why, text) == 0;

    ngx_mcds_value_unref(value);

    return good;
}


/*
 * Returns 1 if reading an entry with these headers returns rc, and a check of
 * each of its headers alone agrees; otherwise 0.
 */

static int
headers_are(const char *text, size_t len, ngx_int_t rc)
{
    int                good;
    char              *why;
    ngx_str_t          name, value;
    ngx_mcds_entry_t   entry, got;
    ngx_mcds_value_t  *stored;

    page(&entry);
    entry.headers.data = (u_char *) text;
    entry.headers.len = len;

    stored = build(&entry, "", 0);

    good = read_exact(stored->data, stored->len, &why) == rc;

    if (rc == NGX_OK) {
        ngx_mcds_entry_read(&got, stored->data, stored->len, &page_key, &why);

        while (ngx_mcds_entry_header(&got.headers, &name, &value) == NGX_OK) {
            good = good
                   && ngx_mcds_entry_header_check(&name, &value) == NGX_OK;
        }

        good = good && got.headers.len == 0;

    } else {
        good = good && strcmp(why, "wrong headers") == 0;
    }

    ngx_mcds_value_unref(stored);

    return good;
}


static uint32_t
pseudo_random(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 17;
    seed ^= seed << 5;

    return seed;
}

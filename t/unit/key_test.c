
/*
 * Copyright (C) mcds authors
 *
 * The keys of items: which texts are used unchanged, which are hashed, and that
 * two texts never have the same key.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds.h"
#include "ngx_mcds_key.h"
#include "tap.h"


#define PAIRS  100000


static void test_lengths(void);
static void test_bytes(void);
static void test_places(void);
static void test_names(void);
static void test_marks(void);
static void test_known(void);
static void test_null(void);
static void test_prefixes(void);
static void test_pages(void);
static void test_distinct(void);
static ngx_uint_t build(ngx_mcds_key_t *key, const char *prefix,
    const char *base, size_t len, const char *suffix);
static ngx_uint_t is_plain(ngx_mcds_key_t *key, const char *prefix,
    const char *base, size_t len, const char *suffix);
static ngx_uint_t is_hashed(ngx_mcds_key_t *key, const char *prefix);
static uint32_t next_random(void);
static int compare(const void *one, const void *two);


static uint32_t  seed;


int
main(void)
{
    seed = tap_seed(20);

    test_lengths();
    test_bytes();
    test_places();
    test_names();
    test_marks();
    test_known();
    test_null();
    test_prefixes();
    test_pages();
    test_distinct();

    return done_testing();
}


/*
 * The text of a key is hashed if it has, with the prefix, more than 250 bytes.
 */

static void
test_lengths(void)
{
    char            text[NGX_MCDS_MAX_KEY + 8], prefix[NGX_MCDS_MAX_PREFIX + 1];
    size_t          len, border;
    ngx_uint_t      i, wrong;
    ngx_mcds_key_t  key;

    static struct {
        size_t       prefix;
        const char  *suffix;
    } cases[] = {
        { 0, "" },
        { 0, ":lock" },
        { 5, "" },
        { 5, ":12345" },
        { NGX_MCDS_MAX_PREFIX, "" },
        { NGX_MCDS_MAX_PREFIX, ":lock" }
    };

    memset(text, 'x', sizeof(text));

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {

        memset(prefix, 'p', cases[i].prefix);
        prefix[cases[i].prefix] = '\0';

        border = NGX_MCDS_MAX_KEY - cases[i].prefix - strlen(cases[i].suffix);

        for (wrong = 0, len = 1; len <= border; len++) {
            build(&key, prefix, text, len, cases[i].suffix);

            if (!is_plain(&key, prefix, text, len, cases[i].suffix)) {
                wrong++;
            }
        }

        ok(wrong == 0 && key.len == 250,
           "prefix of %d and suffix \"%s\": 1 to %d bytes are the key",
           (int) cases[i].prefix, cases[i].suffix, (int) border);

        build(&key, prefix, text, border - 1, cases[i].suffix);
        ok(key.len == 249, "one less makes a key of 249");

        build(&key, prefix, text, border + 1, cases[i].suffix);
        ok(is_hashed(&key, prefix), "one more is hashed");
    }

    build(&key, "", "", 0, "");
    ok(is_hashed(&key, ""), "an empty text is hashed");

    build(&key, "site:", "", 0, "");
    ok(is_hashed(&key, "site:"), "an empty text behind a prefix is hashed");

    build(&key, "site:", "", 0, ":lock");
    ok(is_plain(&key, "site:", "", 0, ":lock"), "a suffix alone is a text");
}


static void
test_bytes(void)
{
    char            text[3], suffix[2];
    ngx_uint_t      ch, plain, hashed, i, wrong;
    ngx_mcds_key_t  key;

    wrong = 0;
    plain = 0;
    hashed = 0;

    for (ch = 0; ch < 256; ch++) {

        /* the byte ch is the first, the middle and the last one of a key */

        for (i = 0; i < 3; i++) {

            memset(text, 'a', 3);
            text[i] = (char) ch;

            build(&key, "p:", text, 3, "");

            if (ch >= 0x21 && ch <= 0x7e && ch != '<') {
                plain++;
                wrong += !is_plain(&key, "p:", text, 3, "");

            } else {
                hashed++;
                wrong += !is_hashed(&key, "p:");
            }
        }
    }

    ok(wrong == 0 && plain == 93 * 3 && hashed == 163 * 3,
       "bytes 0x21 to 0x7e but '<' are kept, all others lead to the hash");

    for (wrong = 0, ch = 1; ch < 256; ch++) {

        suffix[0] = (char) ch;
        suffix[1] = '\0';

        build(&key, "", "abc", 3, suffix);

        if (ch >= 0x21 && ch <= 0x7e && ch != '<') {
            wrong += !is_plain(&key, "", "abc", 3, suffix);

        } else {
            wrong += !is_hashed(&key, "");
        }
    }

    ok(wrong == 0, "the same for the bytes of a suffix");
}


/*
 * tests each byte value at each position of a key: ngx_mcds_key_end() checks
 * the bytes of a key a machine word at a time
 */

static void
test_places(void)
{
    u_char      text[24], *p;
    size_t      len, at;
    ngx_uint_t  ch, wrong;

    wrong = 0;

    for (len = 0; len <= sizeof(text); len++) {

        p = malloc(len);

        for (at = 0; at < len; at++) {
            for (ch = 0; ch < 256; ch++) {
                memset(p, '~', len);
                p[at] = (u_char) ch;

                wrong += ngx_mcds_key_end(p, p + len)
                         != p + (ch >= 0x21 && ch <= 0x7e ? len : at);
            }
        }

        wrong += ngx_mcds_key_end(p, p) != p;

        free(p);
    }

    ok(wrong == 0, "the first other byte is found wherever it is");
}


/*
 * Names of HTTP headers, protocols and media types are compared without regard
 * to case, as ngx_strncasecmp() does.
 */

static void
test_names(void)
{
    u_char      text[32];
    size_t      len, at;
    ngx_uint_t  i, ch, same, wrong;

    static const char  *names[] = {
        "TE", "ETag", "h2c", "Expires", "X-Accel-", "text/plain",
        "Last-Modified", "Proxy-Authentication-Info"
    };

    wrong = 0;
    same = 0;

    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        len = strlen(names[i]);

        for (at = 0; at < len; at++) {
            for (ch = 0; ch < 256; ch++) {
                memcpy(text, names[i], len);
                text[at] = (u_char) ch;

                same += ngx_mcds_is_name(text, (u_char *) names[i], len);

                wrong += ngx_mcds_is_name(text, (u_char *) names[i], len)
                         != (ngx_strncasecmp(text, (u_char *) names[i], len)
                             == 0);
            }
        }
    }

    ok(wrong == 0 && same > 100, "names are the same in any case");
}


static void
test_marks(void)
{
    ngx_mcds_key_t  key, again;

    build(&key, "", "sha1", 4, "");
    ok(is_plain(&key, "", "sha1", 4, ""), "\"sha1\" is kept");

    build(&key, "", "SHA1:x", 6, "");
    ok(is_plain(&key, "", "SHA1:x", 6, ""), "\"SHA1:x\" is kept");

    build(&key, "", "xsha1:", 6, "");
    ok(is_plain(&key, "", "xsha1:", 6, ""), "\"xsha1:\" is kept");

    build(&key, "sha1:", "x", 1, "");
    ok(is_plain(&key, "sha1:", "x", 1, ""), "a prefix may be \"sha1:\"");

    build(&key, "", "sha1:", 5, "");
    ok(is_hashed(&key, ""), "\"sha1:\" is hashed");

    build(&key, "", "sha1", 4, ":lock");
    ok(is_hashed(&key, ""), "\"sha1\" with a suffix \":lock\" is hashed");

    build(&key, "", "a b", 3, "");
    build(&again, "", (char *) key.data, key.len, "");
    ok(is_hashed(&again, "") && memcmp(key.data, again.data, key.len) != 0,
       "the text of a hashed key gets a key of its own");
}


/*
 * Known pairs of a text and its key: another program that uses items of mcds
 * must compute the keys in this way.
 */

static void
test_known(void)
{
    ngx_mcds_key_t  key, again;

    build(&key, "site:", "a b", 3, "");
    ok(key.len == 50 && key.prefix == 5
       && memcmp(key.data,
                 "site:sha1:7dbde93504122a707f849f2c12bdd9de71b41929", 50)
          == 0,
       "\"a b\" is SHA-1 in lower-case hexadecimal");

    build(&key, "", "", 0, "");
    ok(memcmp(key.data, "sha1:da39a3ee5e6b4b0d3255bfef95601890afd80709", 45)
       == 0,
       "an empty text is the SHA-1 of nothing");

    build(&key, "", "a b", 3, ":lock");
    build(&again, "", "a b:lock", 8, "");
    ok(key.len == again.len && memcmp(key.data, again.data, key.len) == 0,
       "base and suffix are hashed as one text");

    build(&key, "one:", "a b", 3, "");
    build(&again, "two:", "a b", 3, "");
    ok(memcmp(key.data + 4, again.data + 4, NGX_MCDS_KEY_HASHED) == 0,
       "the prefix is not part of what is hashed");
}


/* The parts of a key may be empty strings, whose data may be NULL. */

static void
test_null(void)
{
    ngx_str_t       empty, base;
    ngx_mcds_key_t  key;

    ngx_str_null(&empty);

    ngx_mcds_key_build(&key, &empty, &empty, &empty);
    ok(is_hashed(&key, ""), "all three may be null strings");

    ngx_str_set(&base, "/uri");

    ngx_mcds_key_build(&key, &empty, &base, &empty);
    ok(is_plain(&key, "", "/uri", 4, ""), "a null prefix and suffix");

    ngx_str_set(&base, "/uri with space");

    ngx_mcds_key_build(&key, &empty, &base, &empty);
    ok(is_hashed(&key, ""), "a null suffix behind a hashed text");
}


static void
test_prefixes(void)
{
    u_char      data[NGX_MCDS_MAX_PREFIX + 1];
    ngx_str_t   prefix;
    ngx_uint_t  ch, wrong;

    ngx_str_null(&prefix);
    ok(ngx_mcds_key_check_prefix(&prefix) == NGX_OK, "no prefix is good");

    memset(data, 'p', sizeof(data));

    prefix.data = data;
    prefix.len = NGX_MCDS_MAX_PREFIX;
    ok(ngx_mcds_key_check_prefix(&prefix) == NGX_OK, "a prefix of 128 bytes");

    prefix.len++;
    ok(ngx_mcds_key_check_prefix(&prefix) == NGX_ERROR, "not one of 129");

    prefix.len = 3;

    for (wrong = 0, ch = 0; ch < 256; ch++) {
        data[1] = (u_char) ch;

        if ((ngx_mcds_key_check_prefix(&prefix) == NGX_OK)
            != (ch >= 0x21 && ch <= 0x7e && ch != '<'))
        {
            wrong++;
        }
    }

    ok(wrong == 0, "a prefix holds bytes 0x21 to 0x7e only, and no '<'");
}


/* No item other than a page can have the key of a page in memcached. */

static void
test_pages(void)
{
    size_t          i, n;
    ngx_str_t       empty, base;
    ngx_mcds_key_t  page, key;

    static char  *texts[] = {
        "<>http://localhost/", "<site>page", "<sha1:x", "page", "sha1:x",
        "<>a b", "a<b", ""
    };

    ngx_str_null(&empty);

    for (n = 0, i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {

        base.data = (u_char *) texts[i];
        base.len = strlen(texts[i]);

        ngx_mcds_key_build_page(&page, &empty, &base, &empty);
        ngx_mcds_key_build(&key, &empty, &base, &empty);

        n += (memchr(page.data, '<', page.len) == NULL);
        n += (memchr(key.data, '<', key.len) != NULL);

        if (i < 2) {
            ok(page.len == base.len
               && memcmp(page.data, base.data, base.len) == 0,
               "the name of a page: %s", texts[i]);
            ok(is_hashed(&key, ""), "no other key has that text");

        } else {
            ok(page.len == NGX_MCDS_KEY_PAGE_HASHED
               && memcmp(page.data, "<sha1:", 6) == 0,
               "a hash as the name of a page: %s", texts[i]);
        }
    }

    ok(n == 0, "names of pages have a '<', and no other key has one");

    ngx_str_set(&base, "<>http://localhost/");

    ngx_mcds_key_show(&page, &base);
    ok(is_plain(&page, "", (char *) base.data, base.len, ""),
       "the name of a page is shown");
}


/*
 * Different texts have different keys in memcached, also if the texts are
 * hashed.  Each random text begins with a serial number, and so is unique.
 */

static void
test_distinct(void)
{
    char             base[300], suffix[16];
    size_t           len;
    ngx_uint_t       i, n, same, hashed, bad;
    ngx_mcds_key_t  *keys;

    keys = malloc(PAIRS * sizeof(ngx_mcds_key_t));
    if (keys == NULL) {
        ok(0, "no memory for the keys");
        return;
    }

    bad = 0;
    hashed = 0;

    for (i = 0; i < PAIRS; i++) {

        len = sprintf(base, "%06x", (unsigned) i);
        n = next_random() % 280;

        while (len < 6 + n) {
            base[len++] = (char) (next_random() % 8 == 0 && i % 2
                                  ? next_random() % 256
                                  : 0x21 + next_random() % 94);
        }

        sprintf(suffix, ":%u", (unsigned) (next_random() % 1000));

        memset(keys[i].data, 0, NGX_MCDS_MAX_KEY);
        build(&keys[i], "", base, len, suffix);

        if (is_hashed(&keys[i], "")) {
            hashed++;

        } else if (!is_plain(&keys[i], "", base, len, suffix)) {
            bad++;
        }
    }

    qsort(keys, PAIRS, sizeof(ngx_mcds_key_t), compare);

    for (same = 0, i = 1; i < PAIRS; i++) {
        same += (compare(&keys[i - 1], &keys[i]) == 0);
    }

    ok(bad == 0, "every key is the text or a hash");
    ok(hashed > PAIRS / 10 && hashed < PAIRS, "both ways were taken");
    ok(same == 0, "%d pairs of base and suffix have %d keys", PAIRS,
       (int) (PAIRS - same));

    free(keys);
}


/*
 * Builds a key from copies of its parts in memory of exactly their lengths, so
 * that a sanitizer notices a read beyond their ends.  Returns the key's length.
 */

static ngx_uint_t
build(ngx_mcds_key_t *key, const char *prefix, const char *base, size_t len,
    const char *suffix)
{
    ngx_str_t  p, b, s;

    p.len = strlen(prefix);
    p.data = malloc(p.len);

    b.len = len;
    b.data = malloc(b.len);

    s.len = strlen(suffix);
    s.data = malloc(s.len);

    memcpy(p.data, prefix, p.len);
    memcpy(b.data, base, b.len);
    memcpy(s.data, suffix, s.len);

    memset(key, 0xff, sizeof(ngx_mcds_key_t));

    ngx_mcds_key_build(key, &p, &b, &s);

    free(p.data);
    free(b.data);
    free(s.data);

    return key->len;
}


static ngx_uint_t
is_plain(ngx_mcds_key_t *key, const char *prefix, const char *base,
    size_t len, const char *suffix)
{
    size_t  plen, slen;

    plen = strlen(prefix);
    slen = strlen(suffix);

    return key->prefix == plen
           && key->len == plen + len + slen
           && memcmp(key->data, prefix, plen) == 0
           && memcmp(key->data + plen, base, len) == 0
           && memcmp(key->data + plen + len, suffix, slen) == 0;
}


static ngx_uint_t
is_hashed(ngx_mcds_key_t *key, const char *prefix)
{
    u_char  *p;
    size_t   plen;

    plen = strlen(prefix);

    if (key->prefix != plen
        || key->len != plen + NGX_MCDS_KEY_HASHED
        || memcmp(key->data, prefix, plen) != 0
        || memcmp(key->data + plen, "sha1:", 5) != 0)
    {
        return 0;
    }

    for (p = key->data + plen + 5; p < key->data + key->len; p++) {
        if (!(*p >= '0' && *p <= '9') && !(*p >= 'a' && *p <= 'f')) {
            return 0;
        }
    }

    return 1;
}


static uint32_t
next_random(void)
{
    /* the random numbers are the same in each run */

    seed = seed * 1664525 + 1013904223;

    return seed >> 8;
}


static int
compare(const void *one, const void *two)
{
    const ngx_mcds_key_t  *a = one, *b = two;

    if (a->len != b->len) {
        return a->len < b->len ? -1 : 1;
    }

    return memcmp(a->data, b->data, a->len);
}

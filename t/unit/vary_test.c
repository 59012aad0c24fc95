
/*
 * Copyright (C) mcds authors
 *
 * Lists of the request headers by which a page varies, and the requests that
 * get the same variant.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_vary.h"
#include "tap.h"


static void test_add(void);
static void test_covers(void);
static void test_variants(void);
static void test_coded(void);
static void test_suffix(void);
static void test_entry(void);

static const char *add(ngx_str_t *list, const char *lines);
static void variant(u_char *hash, const char *values);


static void
test_add(void)
{
    u_char       data[NGX_MCDS_MAX_VARY_LEN + 1];
    const char  *got;
    ngx_str_t    list, value;
    ngx_uint_t   i;

    static struct {
        const char  *lines;             /* lines of Vary, separated by LF */
        const char  *list;              /* expected names; NULL: Vary is
                                           declined */
    } rows[] = {
        { "", "" }, { ",, ,", "" },
        { "Accept", "accept" },
        { "Accept-Encoding, Accept", "accept,accept-encoding" },
        { "b,a,c", "a,b,c" }, { "c\nb\na", "a,b,c" },
        { "B, b,\tb , B", "b" },
        { "a ,, b", "a,b" }, { " a", "a" }, { "a ", "a" },
        { "ab,a,abc", "a,ab,abc" },
        { "*", NULL }, { "a, *", NULL }, { "a\n*", NULL }, { "*, a", NULL },
        { "a b", NULL }, { "a;b", NULL }, { "\"a\"", NULL }, { "a\x01", NULL },
        { "a*", "a*" },
        { "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p",
          "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p" },
        { "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,a,P",
          "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p" },
        { "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q", NULL }
    };

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        list.data = data;
        list.len = 0;

        got = add(&list, rows[i].lines);

        ok(rows[i].list ? got && strcmp(got, rows[i].list) == 0 : got == NULL,
           "list %u: %s", (unsigned) i, rows[i].list ? rows[i].list : "none");
    }

    /* the longest list of names of headers, and a list one byte longer */

    value.data = malloc(NGX_MCDS_MAX_VARY_LEN + 1);
    memset(value.data, 'x', NGX_MCDS_MAX_VARY_LEN + 1);
    value.len = NGX_MCDS_MAX_VARY_LEN;

    list.data = malloc(NGX_MCDS_MAX_VARY_LEN);
    list.len = 0;

    ok(ngx_mcds_vary_add(&list, &value) == NGX_OK
       && list.len == NGX_MCDS_MAX_VARY_LEN, "the longest list");

    value.len++;
    list.len = 0;

    ok(ngx_mcds_vary_add(&list, &value) == NGX_DECLINED, "a longer one");

    free(list.data);
    free(value.data);
}


static void
test_covers(void)
{
    ngx_str_t   a, b;
    ngx_uint_t  i;

    static struct {
        const char  *a, *b;
        ngx_uint_t   covers;
    } rows[] = {
        { "", "", 1 }, { "a", "", 1 }, { "", "a", 0 }, { "a,b", "b", 1 },
        { "a,b", "a,b", 1 }, { "a,b", "a,c", 0 }, { "ab", "a", 0 },
        { "a", "ab", 0 }
    };

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        a.data = (u_char *) rows[i].a;
        a.len = strlen(rows[i].a);
        b.data = (u_char *) rows[i].b;
        b.len = strlen(rows[i].b);

        ok(ngx_mcds_vary_covers(&a, &b) == rows[i].covers,
           "\"%s\" and \"%s\"", rows[i].a, rows[i].b);
    }
}


/*
 * Variants of requests with lines "name: value"; a name without a colon is a
 * missing header.
 */

static void
test_variants(void)
{
    int          equal;
    u_char       a[NGX_MCDS_VARIANT_LEN], b[NGX_MCDS_VARIANT_LEN];
    ngx_uint_t   i;

    static struct {
        const char  *a, *b;
        int          equal;
    } rows[] = {
        { "accept: x", "accept: x", 1 },
        { "accept: x", "accept: y", 0 },
        { "x-a: x", "x-a: X", 0 },
        { "x-a: a;b", "x-a: a; b", 0 },
        { "cookie: a=b; c=D", "cookie: a=b; c=d", 0 },
        { "accept: Text/HTML", "accept: text/html", 1 },
        { "accept: text/html ;\tQ=0.5", "accept: text/html;q=0.5", 1 },
        { "accept: a/b;Level=X", "accept: a/b;level=X", 1 },
        { "accept: a/b;level=X", "accept: a/b;level=x", 0 },
        { "accept: a/b;level=X;Q=1, C/D", "accept: A/B;level=X;q=1,c/d", 1 },
        { "accept: a/b;c=\"X\"", "accept: a/b;c=\"x\"", 0 },
        { "accept: a/b;c=\"x, Y; z\"", "accept: a/b;c=\"x, y; z\"", 0 },
        { "accept: a/b;c=\"x, y; Z\"", "accept: a/b;c=\"x, y;Z\"", 0 },
        { "accept: a/b;c=\"x, y\"", "accept: a/b;c=\"x,y\"", 0 },
        { "x-a: \"a , b\"", "x-a: \"a,b\"", 0 },
        { "x-a: \"a, b\" ", "x-a: \"a, b\"", 1 },
        { "accept-language: de-DE, en;q=0.5", "accept-language: DE-de,EN;Q=0.5",
          1 },
        { "accept-language: en ; q=0.5", "accept-language: en;q=0.5", 1 },
        { "accept-language: en;q=0.5", "accept-language: en;q=0.6", 0 },
        { "accept-language: de;", "accept-language: de", 0 },
        { "accept-language: d e", "accept-language: de", 0 },
        { "accept-language: de,en", "accept-language: en,de", 0 },
        { "accept: a/0123456789012345678901234567890123456789012345678901234567"
          "8901234567890A", "accept: A/012345678901234567890123456789012345678"
          "90123456789012345678901234567890a", 1 },
        { "accept-charset: UTF-8;q=1", "accept-charset: utf-8; q=1", 1 },
        { "accept-languages: DE", "accept-languages: de", 0 },
        { "accept: a, b", "accept: a,b", 1 },
        { "accept: a ,\tb ", "accept: a\naccept: b", 1 },
        { "accept: a,b", "accept: b,a", 0 },
        { "accept: a b", "accept: ab", 0 },
        { "accept", "accept: ", 0 },
        { "accept: ", "accept: ,", 0 },
        { "accept: x\ncookie", "accept\ncookie: x", 0 },
        { "accept: x\ncookie: y", "accept: xy\ncookie", 0 },
        { "accept\ncookie: x", "accept: =\ncookie: x", 0 },

        { "accept-encoding: gzip, br", "accept-encoding: br,gzip", 1 },
        { "accept-encoding: gzip, deflate", "accept-encoding: gzip", 1 },
        { "accept-encoding: GZIP;q=0.5", "accept-encoding: gzip", 1 },
        { "accept-encoding: x-gzip", "accept-encoding: gzip", 1 },
        { "accept-encoding: gzip;q=0", "accept-encoding", 1 },
        { "accept-encoding: gzip;q=0.000", "accept-encoding: identity", 1 },
        { "accept-encoding: gzip; Q=0.001", "accept-encoding: gzip", 1 },
        { "accept-encoding: gzip;q=1", "accept-encoding: br", 0 },
        { "accept-encoding: gzip", "accept-encoding", 0 },
        { "accept-encoding: *", "accept-encoding: gzip,br,zstd", 1 },
        { "accept-encoding: *, br;q=0", "accept-encoding: gzip,zstd", 1 },
        { "accept-encoding: br;q=0, *;q=0", "accept-encoding", 1 },
        { "accept-encoding: gzip\naccept-encoding: br",
          "accept-encoding: br, gzip", 1 },
        { "accept-encoding: gzip, br, zstd, x, y", "accept-encoding: *", 1 }
    };

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        variant(a, rows[i].a);
        variant(b, rows[i].b);

        equal = memcmp(a, b, NGX_MCDS_VARIANT_LEN) == 0;

        ok(equal == rows[i].equal, "variant %u: \"%s\" is%s \"%s\"",
           (unsigned) i, rows[i].a, rows[i].equal ? "" : " not", rows[i].b);
    }
}


/*
 * Tests whether the Accept-Encoding of a request accepts all codings in the
 * Content-Encoding of a response.
 */

static void
test_coded(void)
{
    int                  got;
    ngx_str_t            name, value;
    ngx_uint_t           i;
    ngx_mcds_variant_t   v;

    static struct {
        const char  *accept, *coded;
        int          ok;
    } rows[] = {
        { "gzip", "gzip", 1 }, { "gzip", "GZIP", 1 }, { "gzip", "x-gzip", 1 },
        { "gzip", "br", 0 }, { "gzip, br", "br", 1 }, { "", "gzip", 0 },
        { "", "identity", 1 }, { "", "", 1 }, { "gzip", "deflate", 0 },
        { "deflate", "deflate", 0 }, { "*", "zstd", 1 },
        { "*, gzip;q=0", "gzip", 0 }, { "gzip, br", "gzip, br", 1 },
        { "gzip", "gzip, br", 0 }, { "gzip", "identity , gzip", 1 },
        { "gzip", "gzi", 0 }, { "*", "*", 0 }
    };

    ngx_str_set(&name, "Accept-Encoding");

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ngx_mcds_variant_begin(&v);
        ngx_mcds_variant_name(&v, &name);

        value.data = (u_char *) rows[i].accept;
        value.len = strlen(rows[i].accept);

        ngx_mcds_variant_line(&v, &value);

        value.data = (u_char *) rows[i].coded;
        value.len = strlen(rows[i].coded);

        got = (ngx_mcds_vary_coded(ngx_mcds_variant_accepted(&v), &value)
               == NGX_OK);

        ok(got == rows[i].ok, "\"%s\" of \"%s\"", rows[i].coded,
           rows[i].accept);
    }
}


static void
test_entry(void)
{
    u_char     *p, *copy, buf[128];
    size_t      len;
    ngx_str_t   ext, names, body;

    ngx_str_set(&names, "accept,cookie");
    ngx_str_set(&body, "0123456789abcdefFEDCBA9876543210");

    /*
     * a page's entry has two extensions, each a type, a length and data: the
     * one with the names of headers follows one of an unknown type
     */

    memcpy(buf, "\x07\x00\x02\x00\x00\x00zz", 8);
    p = ngx_mcds_vary_ext(buf + 8, &names);

    ext.data = buf;
    ext.len = p - buf;

    ok(ext.len == 8 + NGX_MCDS_VARY_EXT + names.len, "the extension");
    ok(ngx_mcds_vary_check(&ext, &body) == NGX_OK, "a list");

    ngx_mcds_vary_names(&ext, &names);
    ok(names.len == 13 && memcmp(names.data, "accept,cookie", 13) == 0,
       "its names");

    ok(ngx_mcds_vary_has(&body, (u_char *) "FEDCBA9876543210") == 1
       && ngx_mcds_vary_has(&body, (u_char *) "123456789abcdefF") == 0,
       "its variants");

    body.len--;
    ok(ngx_mcds_vary_check(&ext, &body) == NGX_DECLINED, "a cut row");
    body.len++;

    buf[8 + NGX_MCDS_VARY_EXT] = 'A';
    ok(ngx_mcds_vary_check(&ext, &body) == NGX_DECLINED, "upper case");
    buf[8 + NGX_MCDS_VARY_EXT] = 'z';
    ok(ngx_mcds_vary_check(&ext, &body) == NGX_DECLINED, "not sorted");
    buf[8 + NGX_MCDS_VARY_EXT] = '*';
    ok(ngx_mcds_vary_check(&ext, &body) == NGX_OK, "any token");
    memcpy(buf + 8 + NGX_MCDS_VARY_EXT, "*,", 2);
    ok(ngx_mcds_vary_check(&ext, &body) == NGX_DECLINED, "a star");

    /*
     * an entry's extensions (the fields, one with the names of headers, that
     * "buf" holds) are cut after each possible number of bytes, and refused
     */

    for (len = 0; len < ext.len; len++) {
        copy = malloc(len);
        memcpy(copy, buf, len);

        names.data = copy;
        names.len = len;

        if (ngx_mcds_vary_check(&names, &body) != NGX_DECLINED) {
            break;
        }

        free(copy);
    }

    ok(len == ext.len, "cut");
}


static void
test_suffix(void)
{
    u_char     *p, buf[128], hash[NGX_MCDS_VARIANT_LEN];
    ngx_str_t   key, base;

    memset(hash, 0xa5, sizeof(hash));

    p = ngx_mcds_vary_suffix(buf, 0x0123456789abcdefULL, hash);

    ok(p - buf == NGX_MCDS_VARY_SUFFIX_LEN
       && memcmp(buf, ":vary:0123456789abcdef:"
                 "a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5", p - buf) == 0,
       "what follows the key");

    key.data = buf;
    key.len = p - buf;

    ngx_mcds_vary_base(&key, &base);
    ok(base.len == 0, "the key before it, empty");

    memmove(buf + 5, buf, p - buf);
    memcpy(buf, ":vary", 5);
    key.len += 5;

    ngx_mcds_vary_base(&key, &base);
    ok(base.data == buf && base.len == 5, "the key before it");

    ngx_mcds_vary_base(&base, &base);
    ok(base.data == buf && base.len == 5, "a key that is shorter");

    key.len--;
    ngx_mcds_vary_base(&key, &base);
    ok(base.len == key.len, "a key that ends otherwise");
}


/*
 * Adds lines of Vary to a list of names of headers, which is returned as a
 * string; NULL: a line was declined.
 */

static const char *
add(ngx_str_t *list, const char *lines)
{
    ngx_str_t    value;
    const char  *end;

    for ( ;; ) {
        end = strchr(lines, '\n');

        value.data = (u_char *) lines;
        value.len = end ? (size_t) (end - lines) : strlen(lines);

        if (ngx_mcds_vary_add(list, &value) != NGX_OK) {
            return NULL;
        }

        if (end == NULL) {
            break;
        }

        lines = end + 1;
    }

    list->data[list->len] = '\0';

    return (const char *) list->data;
}


static void
variant(u_char *hash, const char *values)
{
    ngx_str_t            name, value, last;
    const char          *end, *colon;
    ngx_mcds_variant_t   v;

    ngx_mcds_variant_begin(&v);
    ngx_str_null(&last);

    for ( ;; ) {
        end = strchr(values, '\n');
        end = end ? end : values + strlen(values);

        colon = memchr(values, ':', end - values);

        name.data = (u_char *) values;
        name.len = (colon ? colon : end) - values;

        if (name.len != last.len
            || memcmp(name.data, last.data, name.len) != 0)
        {
            ngx_mcds_variant_name(&v, &name);
        }

        last = name;

        if (colon) {
            value.data = (u_char *) colon + 1;
            value.len = end - colon - 1;

            ngx_mcds_variant_line(&v, &value);
        }

        if (*end == '\0') {
            break;
        }

        values = end + 1;
    }

    ngx_mcds_variant_end(&v, hash);
}


int
main(void)
{
    test_add();
    test_covers();
    test_variants();
    test_coded();
    test_suffix();
    test_entry();

    return done_testing();
}

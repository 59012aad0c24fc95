
/*
 * Copyright (C) mcds authors
 *
 * Lists of varying headers, and which values are the same.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_vary.h"
#include "tap.h"


static void test_add(void);
static void test_covers(void);
static void test_variants(void);
static void test_suffix(void);

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
        const char  *lines;             /* ended by LF */
        const char  *list;              /* NULL: declined */
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

    /* at the limit of bytes */

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


/* "name: value" lines; a name without a colon has no line */

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
        { "accept: x", "accept: X", 0 },
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


static void
test_suffix(void)
{
    u_char  *p, buf[128], hash[NGX_MCDS_VARIANT_LEN];

    memset(hash, 0xa5, sizeof(hash));

    p = ngx_mcds_vary_suffix(buf, 0x0123456789abcdefULL, hash);

    ok(p - buf == NGX_MCDS_VARY_SUFFIX_LEN
       && memcmp(buf, ":vary:0123456789abcdef:"
                 "a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5", p - buf) == 0,
       "what follows the key");
}


/* the list as a string, or NULL */

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
    test_suffix();

    return done_testing();
}

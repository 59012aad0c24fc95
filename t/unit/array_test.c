
/*
 * Copyright (C) mcds authors
 *
 * Tests of the parser of arrays: the start of an array's head item, its
 * references to parts, and its lines, each of which is a value; also the list
 * of the names of a table's elements, which is stored as the lines of an array.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_array.c"
#include "ngx_mcds_table_names.c"
#include "tap.h"


static void test_base(void);
static void test_ref(void);
static void test_cut(void);
static void test_lines(void);
static void test_next(void);
static void test_names(void);
static void test_names_bad(void);
static void test_names_many(void);
static void test_compact(void);
static ngx_int_t ref(char *text, ngx_mcds_array_ref_t *r, size_t *taken);
static void content(char *first, char *second);
static char *join(void);
static char *names(char *text, time_t now);
static ngx_mcds_value_t *value(char *before, char *text);


static ngx_mcds_array_content_t  array;
static ngx_mcds_array_piece_t    pieces[3];
static char                      joined[4096];


ngx_int_t
ngx_mcds_array_change(ngx_mcds_array_t *a, ngx_uint_t shared, size_t size,
    ngx_mcds_array_edit_pt edit, ngx_mcds_array_done_pt handler, void *data)
{
    return NGX_ERROR;
}


int
main(void)
{
    test_base();
    test_ref();
    test_cut();
    test_lines();
    test_next();
    test_names();
    test_names_bad();
    test_names_many();
    test_compact();

    content(NULL, NULL);

    return done_testing();
}


static void
test_base(void)
{
    u_char      *p;
    ngx_uint_t   i, base;

    static char  *bad[] = {
        "", "#", "#\n", "#1", "#x\n", "#1x\n", "#-1\n", "# 1\n",
        "#1234567890\n", "1\n", NULL
    };

    p = (u_char *) "#123\nx";

    ok(ngx_mcds_array_base(&p, p + 6, &base) == NGX_OK && base == 123
       && *p == 'x', "base");

    for (i = 0; bad[i]; i++) {
        p = (u_char *) bad[i];

        ok(ngx_mcds_array_base(&p, p + strlen(bad[i]), &base) == NGX_DECLINED
           && p == (u_char *) bad[i], "no base: %u", (unsigned) i);
    }
}


static void
test_ref(void)
{
    size_t                 taken;
    ngx_uint_t             i;
    ngx_mcds_array_ref_t   r;

    static char  *bad[] = {
        "", "@", "@0123456789abcdef", "@0123456789abcdef 1 2",
        "@0123456789abcde 1 2\n", "@0123456789abcdef0 1 2\n",
        "@0123456789abcdeF 1 2\n", "@0123456789abcdeg 1 2\n",
        "@0123456789abcdef  1 2\n", "@0123456789abcdef 1\n",
        "@0123456789abcdef 1 \n", "@0123456789abcdef 1 2 \n",
        "@0123456789abcdef 1 2 3\n", "@0123456789abcdef -1 2\n",
        "@0123456789abcdef 1 1234567890\n", "@somebody\n",
        "\"@0123456789abcdef 1 2\"\n", "@0123456789abcdef 1 2\r\n", NULL
    };

    ok(ref("@0123456789abcdef 1200 32000\n\"x\"\n", &r, &taken) == NGX_OK
       && memcmp(r.id, "0123456789abcdef", 16) == 0
       && r.lines == 1200 && r.size == 32000 && taken == 29, "ref");

    ok(ref("@ffffffffffffffff 1 1\n", &r, &taken) == NGX_OK, "a short one");

    for (i = 0; bad[i]; i++) {
        ok(ref(bad[i], &r, &taken) == NGX_DECLINED && taken == 0,
           "no ref: %u", (unsigned) i);
    }
}


static void
test_cut(void)
{
    u_char      *text, *p, *end, *last;
    ngx_uint_t   i, n, wrong, large;

    text = malloc(400000);
    last = text;

    for (i = 0; last < text + 300000; i++) {
        n = (i * 7919) % 500;
        memset(last, 'x', n);
        last += n;
        *last++ = LF;
    }

    n = 0;
    wrong = 0;
    large = 0;

    for (p = text; p < last; p = end) {
        end = ngx_mcds_array_cut(p, last);
        n += ngx_mcds_array_lines(p, end);

        wrong += (end <= p || end[-1] != LF);
        large += (end - p > NGX_MCDS_ARRAY_PART);
    }

    ok(wrong == 0, "parts end with a line");
    ok(large == 0, "no part is too large");
    ok(n == i, "all lines are in parts");

    memset(text, 'x', 100000);
    text[100000] = LF;
    text[100001] = 'y';

    ok(ngx_mcds_array_cut(text, text + 100002) == text + 100001,
       "a line larger than a part");
    ok(ngx_mcds_array_cut(text, text + 100000) == text + 100000,
       "the same without an end");
    ok(ngx_mcds_array_cut(text, text + 10) == text + 10, "a short text");

    free(text);
}


static void
test_lines(void)
{
    ngx_uint_t  i;

    static struct {
        char        *text;
        ngx_uint_t   n;
    } rows[] = {
        { "", 0 }, { "a", 1 }, { "a\n", 1 }, { "\n", 1 }, { "a\nb", 2 },
        { "a\n\nb\n", 3 }
    };

    for (i = 0; i < 6; i++) {
        ok(ngx_mcds_array_lines((u_char *) rows[i].text,
                                (u_char *) rows[i].text
                                + strlen(rows[i].text))
           == rows[i].n, "lines: %u", (unsigned) i);
    }
}


static void
test_next(void)
{
    content("a\nb\n", "c\n\nd");
    ok(strcmp(join(), "a|b|c|d|") == 0, "next: two pieces");

    content("", "c\n");
    ok(strcmp(join(), "c|") == 0, "next: an empty one");

    content(NULL, "c\n");
    ok(strcmp(join(), "c|") == 0, "next: one that was lost");

    content("\n\n", "\n");
    ok(strcmp(join(), "") == 0, "next: empty lines");

    content("no end", "another");
    ok(strcmp(join(), "no end|another|") == 0, "next: without an end");
}


static void
test_names(void)
{
    ok(strcmp(names("+0 a\n+0 b\n", 100), "a|b|") == 0, "names");
    ok(strcmp(names("+0 a\n+0 b\n-a\n", 100), "b|") == 0, "names: deleted");
    ok(strcmp(names("+0 a\n-a\n+0 a\n", 100), "a|") == 0, "names: again");
    ok(strcmp(names("-a\n", 100), "") == 0, "names: never there");
    ok(strcmp(names("+101 a\n+100 b\n+99 c\n", 100), "a|") == 0,
       "names: an end");
    ok(strcmp(names("+0 a\n+50 a\n", 100), "") == 0, "names: another end");
    ok(strcmp(names("+50 a\n+0 a\n", 100), "a|") == 0, "names: without end");
    ok(strcmp(names("+0 a b\n+0  c\n-d e\n", 100), "a b| c|") == 0,
       "names: spaces");
    ok(strcmp(names("", 100), "") == 0, "names: none");
}


static void
test_names_bad(void)
{
    ngx_uint_t  i;

    static char  *bad[] = {
        "+", "+ ", "+0", "+0 ", "+x a", "+-1 a", "-", "a", "0 a",
        "+99999999999999999999 a", "\"a\"", NULL
    };

    for (i = 0; bad[i]; i++) {
        ok(strcmp(names(bad[i], 100), "") == 0, "no name: %u", (unsigned) i);
    }
}


static void
test_names_many(void)
{
    u_char                  *p;
    ngx_uint_t               i, there;
    ngx_mcds_value_t        *v;
    ngx_mcds_table_names_t   list;

    v = ngx_mcds_value_create(40000 * 20, ngx_cycle->log);
    p = v->data;

    for (i = 0; i < 40000; i++) {
        p = ngx_sprintf(p, i % 3 ? "+0 name-%ui\n" : "-name-%ui\n",
                        (i * 7919) % 10000);
    }

    v->len = p - v->data;

    content(NULL, NULL);
    pieces[0].value = v;

    ok(ngx_mcds_table_names(&list, &array, 100) == NGX_OK, "names: many");

    there = 0;

    for (i = 0; i < list.n; i++) {
        there += list.name[i].there;
    }

    ok(list.n == 10000 && list.there == there && there > 6000 && there < 7000,
       "names: how many are there");

    ngx_mcds_table_names_free(&list);
}


static void
test_compact(void)
{
    ngx_mcds_array_edit_t  edit;

    ngx_memzero(&edit, sizeof(ngx_mcds_array_edit_t));

    content("+0 a\n+0 b\n-a\n", "+1 gone\n+4000000000 c\n+0 b\n");

    ok(ngx_mcds_table_compact_edit(NULL, &array, NULL, &edit) == NGX_MCDS_OK
       && edit.kind == NGX_MCDS_ARRAY_REPLACE && edit.base == 2,
       "compact");
    ok(edit.text->len == sizeof("+0 b\n+4000000000 c\n") - 1
       && memcmp(edit.text->data, "+0 b\n+4000000000 c\n", edit.text->len)
          == 0,
       "compact: what is left");

    ngx_mcds_value_unref(edit.text);
    ngx_memzero(&edit, sizeof(ngx_mcds_array_edit_t));

    content("+0 a\n", "-a\n");

    ok(ngx_mcds_table_compact_edit(NULL, &array, NULL, &edit) == NGX_MCDS_OK
       && edit.kind == NGX_MCDS_ARRAY_REPLACE && edit.text == NULL,
       "compact: nothing is left");
}


static ngx_int_t
ref(char *text, ngx_mcds_array_ref_t *r, size_t *taken)
{
    u_char     *p, *copy;
    size_t      len;
    ngx_int_t   rc;

    /* an exact copy of the text, so that a read beyond its end is noticed */

    len = strlen(text);
    copy = malloc(len);
    memcpy(copy, text, len);

    p = copy;
    rc = ngx_mcds_array_ref(&p, copy + len, r);
    *taken = p - copy;

    free(copy);

    return rc;
}


static void
content(char *first, char *second)
{
    ngx_uint_t  i;

    for (i = 0; i < 3; i++) {
        ngx_mcds_value_unref(pieces[i].value);
    }

    ngx_memzero(pieces, sizeof(pieces));
    ngx_memzero(&array, sizeof(ngx_mcds_array_content_t));

    array.pieces = pieces;
    array.n = 3;

    if (first) {
        pieces[0].value = value("", first);
    }

    if (second) {
        pieces[2].value = value("#12\n", second);
        pieces[2].start = 4;
    }
}


static ngx_mcds_value_t *
value(char *before, char *text)
{
    u_char            *p;
    ngx_mcds_value_t  *v;

    v = ngx_mcds_value_create(strlen(before) + strlen(text) + 1,
                              ngx_cycle->log);

    p = ngx_cpymem(v->data, before, strlen(before));
    p = ngx_cpymem(p, text, strlen(text));

    v->len = p - v->data;

    return v;
}


static char *
join(void)
{
    char                    *p;
    ngx_str_t                line;
    ngx_mcds_array_place_t   place;

    ngx_memzero(&place, sizeof(ngx_mcds_array_place_t));

    p = joined;

    while (ngx_mcds_array_next(&array, &place, &line) == NGX_OK) {
        memcpy(p, line.data, line.len);
        p += line.len;
        *p++ = '|';
    }

    *p = '\0';

    return joined;
}


static char *
names(char *text, time_t now)
{
    char                    *p;
    ngx_uint_t               i;
    ngx_mcds_table_names_t   list;

    content(text, NULL);

    p = joined;

    if (ngx_mcds_table_names(&list, &array, now) == NGX_OK) {

        for (i = 0; i < list.n; i++) {
            if (list.name[i].there) {
                memcpy(p, list.name[i].name.data, list.name[i].name.len);
                p += list.name[i].name.len;
                *p++ = '|';
            }
        }
    }

    *p = '\0';

    ngx_mcds_table_names_free(&list);

    return joined;
}

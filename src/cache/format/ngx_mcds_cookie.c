
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_cookie.h"


typedef struct {
    u_char      *start;
    u_char      *last;
    u_char      *tail;            /* start of the blanks at the end of the
                                     cookie's name; equal to "last", the end of
                                     the name, if it does not end in blanks */
    ngx_uint_t   decode;          /* 1: decode "%xx" in the cookie's name when
                                     it is compared */
} ngx_mcds_cookie_t;


static u_char *ngx_mcds_cookie_next(u_char *p, u_char *last, u_char ch);
static ngx_uint_t ngx_mcds_cookie_first(u_char *p, u_char *end, u_char *last,
    ngx_array_t *names);
static ngx_uint_t ngx_mcds_cookie_list(u_char *p, u_char *last,
    ngx_array_t *names);
static ngx_uint_t ngx_mcds_cookie_parts(u_char *p, u_char *last,
    ngx_array_t *names);
static ngx_uint_t ngx_mcds_cookie_is(u_char *p, u_char *last,
    ngx_array_t *names);
static ngx_uint_t ngx_mcds_cookie_any(ngx_mcds_cookie_t *cookie,
    ngx_array_t *names);
static ngx_uint_t ngx_mcds_cookie_match(ngx_mcds_cookie_t *cookie,
    ngx_str_t *name);
static ngx_uint_t ngx_mcds_cookie_ends(ngx_mcds_cookie_t *cookie, u_char *p);
static u_char *ngx_mcds_cookie_char(ngx_mcds_cookie_t *cookie, u_char *p,
    u_char *ch);


/*
 * Returns 1 for an invisible or non-ASCII character in a Cookie header line:
 * there are applications that take such a character for white space.
 */

#define ngx_mcds_cookie_blank(ch)    ((ch) <= ' ' || (ch) >= 0x7f)

#define ngx_mcds_cookie_in(set, ch)                                           \
    ((set)[(ch) >> 5] & (1U << ((ch) & 0x1f)))


/*
 * a bitmap of the characters after which some application begins the name of a
 * cookie, at any position in a Cookie header line: control characters, space,
 * non-ASCII bytes, and " \ [ ]
 */

static uint32_t  ngx_mcds_cookie_separators[] = {
    0xffffffff, 0x00000005, 0x38000000, 0x80000000,
    0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff
};

/*
 * Some applications begin a cookie inside of another cookie: this is a bitmap
 * of the characters that end the name of the inner cookie: = , ; and those in
 * ngx_mcds_cookie_separators.
 */

static uint32_t  ngx_mcds_cookie_stops[] = {
    0xffffffff, 0x28001005, 0x38000000, 0x80000000,
    0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff
};

/*
 * a bitmap of the characters that the legacy parser of Tomcat skips in front
 * of a cookie's name: ( ) < > @ : / ? = { } and those in
 * ngx_mcds_cookie_separators
 */

static uint32_t  ngx_mcds_cookie_skip[] = {
    0xffffffff, 0xf4008305, 0x38000001, 0xa8000000,
    0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff
};


/* maps letters of a cookie's name to lower case, and "." " " "[" "+" to "_" */

static u_char  ngx_mcds_cookie_fold[] = {
    0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b,
    0x0c, 0x0d, 0x0e, 0x0f, 0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17,
    0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0x1e, 0x1f, 0x5f, 0x21, 0x22, 0x23,
    0x24, 0x25, 0x26, 0x27, 0x28, 0x29, 0x2a, 0x5f, 0x2c, 0x2d, 0x5f, 0x2f,
    0x30, 0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38, 0x39, 0x3a, 0x3b,
    0x3c, 0x3d, 0x3e, 0x3f, 0x40, 0x61, 0x62, 0x63, 0x64, 0x65, 0x66, 0x67,
    0x68, 0x69, 0x6a, 0x6b, 0x6c, 0x6d, 0x6e, 0x6f, 0x70, 0x71, 0x72, 0x73,
    0x74, 0x75, 0x76, 0x77, 0x78, 0x79, 0x7a, 0x5f, 0x5c, 0x5d, 0x5e, 0x5f,
    0x60, 0x61, 0x62, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68, 0x69, 0x6a, 0x6b,
    0x6c, 0x6d, 0x6e, 0x6f, 0x70, 0x71, 0x72, 0x73, 0x74, 0x75, 0x76, 0x77,
    0x78, 0x79, 0x7a, 0x7b, 0x7c, 0x7d, 0x7e, 0x7f, 0x80, 0x81, 0x82, 0x83,
    0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8a, 0x8b, 0x8c, 0x8d, 0x8e, 0x8f,
    0x90, 0x91, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9a, 0x9b,
    0x9c, 0x9d, 0x9e, 0x9f, 0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7,
    0xa8, 0xa9, 0xaa, 0xab, 0xac, 0xad, 0xae, 0xaf, 0xb0, 0xb1, 0xb2, 0xb3,
    0xb4, 0xb5, 0xb6, 0xb7, 0xb8, 0xb9, 0xba, 0xbb, 0xbc, 0xbd, 0xbe, 0xbf,
    0xc0, 0xc1, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7, 0xc8, 0xc9, 0xca, 0xcb,
    0xcc, 0xcd, 0xce, 0xcf, 0xd0, 0xd1, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7,
    0xd8, 0xd9, 0xda, 0xdb, 0xdc, 0xdd, 0xde, 0xdf, 0xe0, 0xe1, 0xe2, 0xe3,
    0xe4, 0xe5, 0xe6, 0xe7, 0xe8, 0xe9, 0xea, 0xeb, 0xec, 0xed, 0xee, 0xef,
    0xf0, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9, 0xfa, 0xfb,
    0xfc, 0xfd, 0xfe, 0xff
};


ngx_uint_t
ngx_mcds_cookie_named(ngx_str_t *line, ngx_array_t *names)
{
    u_char      *p, *s, *last, *end;
    ngx_uint_t   comma, odd;

    p = line->data;
    last = p + line->len;

    for ( /* void */ ; p < last; p = s + 1) {

        while (p < last && *p == ' ') {
            p++;
        }

        end = NULL;
        comma = 0;
        odd = 0;

        for (s = p; s < last; s++) {

            if (!ngx_mcds_cookie_in(ngx_mcds_cookie_stops, *s)) {
                continue;
            }

            if (*s == ';') {
                break;
            }

            if (*s == ',') {
                comma = 1;

            } else if (*s != '=') {
                odd = 1;

            } else if (end == NULL) {
                end = s;
            }
        }

        /*
         * some applications read a comma as part of a cookie's name, others end
         * the cookie at it
         */

        if (ngx_mcds_cookie_first(p, end ? end : s, s, names)
            || (comma && ngx_mcds_cookie_list(p, s, names))
            || (odd && ngx_mcds_cookie_parts(p, s, names)))
        {
            return 1;
        }
    }

    return 0;
}


static u_char *
ngx_mcds_cookie_next(u_char *p, u_char *last, u_char ch)
{
    u_char  *next;

    next = ngx_strlchr(p, last, ch);

    return next ? next : last;
}


/*
 * returns 1 if some application reads the cookie that starts at p as one with a
 * name in "names"; the cookie's name ends at "end", where "=" may follow
 */

static ngx_uint_t
ngx_mcds_cookie_first(u_char *p, u_char *end, u_char *last,
    ngx_array_t *names)
{
    u_char  *s;

    if (ngx_mcds_cookie_is(p, end, names)) {
        return 1;
    }

    if (p == last || !ngx_mcds_cookie_in(ngx_mcds_cookie_skip, *p)) {
        return 0;
    }

    /*
     * old releases of Werkzeug skip "=" and blanks in front of a cookie's name
     */

    for (s = p; s < last && (*s == '=' || ngx_mcds_cookie_blank(*s)); s++) {
        /* void */
    }

    if (s > end
        && ngx_mcds_cookie_is(s, ngx_mcds_cookie_next(s, last, '='), names))
    {
        return 1;
    }

    while (s < last && ngx_mcds_cookie_in(ngx_mcds_cookie_skip, *s)) {
        s++;
    }

    end = ngx_mcds_cookie_next(s, last, '=');

    return end < last && ngx_mcds_cookie_is(s, end, names);
}


static ngx_uint_t
ngx_mcds_cookie_list(u_char *p, u_char *last, ngx_array_t *names)
{
    u_char  *next;

    for ( /* void */ ; p < last; p = next + 1) {

        next = ngx_mcds_cookie_next(p, last, ',');

        if (ngx_mcds_cookie_first(p, ngx_mcds_cookie_next(p, next, '='), next,
                                  names))
        {
            return 1;
        }
    }

    return 0;
}


/*
 * returns 1 if one of the cookie names in "names" is followed by "=" and stands
 * at a position where some application begins a cookie: at p, after a comma, or
 * after a character of ngx_mcds_cookie_separators
 */

static ngx_uint_t
ngx_mcds_cookie_parts(u_char *p, u_char *last, ngx_array_t *names)
{
    u_char  *end, *s;

    while (p < last) {

        if (*p == '=' || *p == ','
            || ngx_mcds_cookie_in(ngx_mcds_cookie_separators, *p))
        {
            p++;
            continue;
        }

        end = p;

        while (end < last && !ngx_mcds_cookie_in(ngx_mcds_cookie_stops, *end))
        {
            end++;
        }

        s = end;

        while (s < last && (ngx_mcds_cookie_blank(*s) || *s == '"')) {
            s++;
        }

        if (s < last && *s == '=' && ngx_mcds_cookie_is(p, end, names)) {
            return 1;
        }

        /*
         * skip "=" and the value up to a separator or a comma, after which some
         * application may begin another cookie
         */

        while (end < last
               && (*end == '='
                   || !ngx_mcds_cookie_in(ngx_mcds_cookie_stops, *end)))
        {
            end++;
        }

        p = end;
    }

    return 0;
}


static ngx_uint_t
ngx_mcds_cookie_is(u_char *p, u_char *last, ngx_array_t *names)
{
    u_char             *next, ch;
    ngx_mcds_cookie_t   cookie;

    while (p < last && *p < 0x80 && ngx_mcds_cookie_blank(*p)) {
        p++;
    }

    if (p == last) {
        return 0;
    }

    cookie.start = p;
    cookie.last = last;
    cookie.tail = last;
    cookie.decode = 0;

    while (cookie.tail > p && ngx_mcds_cookie_blank(cookie.tail[-1])) {
        cookie.tail--;
    }

    if (ngx_mcds_cookie_any(&cookie, names)) {
        return 1;
    }

    /*
     * some applications keep white space of Unicode at the start of a cookie's
     * name, others skip it
     */

    if (*p >= 0x80) {

        while (p < last && ngx_mcds_cookie_blank(*p)) {
            p++;
        }

        cookie.start = p;

        if (p < last && ngx_mcds_cookie_any(&cookie, names)) {
            return 1;
        }
    }

    cookie.decode = 1;

    if (ngx_strlchr(p, last, '%')
        && ngx_mcds_cookie_any(&cookie, names))
    {
        return 1;
    }

    /* PHP decodes the cookie's name first, then skips white space */

    while (p < last) {
        next = ngx_mcds_cookie_char(&cookie, p, &ch);

        if (ch != '+' && !ngx_mcds_cookie_blank(ch)) {
            break;
        }

        p = next;
    }

    if (p == cookie.start || p == last) {
        return 0;
    }

    cookie.start = p;

    return ngx_mcds_cookie_any(&cookie, names);
}


static ngx_uint_t
ngx_mcds_cookie_any(ngx_mcds_cookie_t *cookie, ngx_array_t *names)
{
    u_char       first;
    ngx_str_t   *name;
    ngx_uint_t   i;

    name = names->elts;

    first = ngx_mcds_cookie_fold[*cookie->start];

    for (i = 0; i < names->nelts; i++) {

        if (name[i].data[0] != '*'
            && ngx_mcds_cookie_fold[name[i].data[0]] != first
            && !cookie->decode)
        {
            continue;
        }

        if (ngx_mcds_cookie_match(cookie, &name[i])) {
            return 1;
        }
    }

    return 0;
}


static ngx_uint_t
ngx_mcds_cookie_match(ngx_mcds_cookie_t *cookie, ngx_str_t *name)
{
    u_char  *p, *s, *end, *next, *star, *mark, ch;

    p = cookie->start;
    s = name->data;
    end = s + name->len;

    star = NULL;
    mark = NULL;

    for ( ;; ) {

        if (s < end && *s == '*') {
            star = ++s;
            mark = p;

            if (s == end) {
                return 1;
            }

            continue;
        }

        if (s == end && ngx_mcds_cookie_ends(cookie, p)) {
            return 1;
        }

        if (s < end && p < cookie->last) {
            next = ngx_mcds_cookie_char(cookie, p, &ch);

            if (ngx_mcds_cookie_fold[*s] == ngx_mcds_cookie_fold[ch]) {
                s++;
                p = next;
                continue;
            }
        }

        if (star == NULL || mark == cookie->last) {
            return 0;
        }

        mark = ngx_mcds_cookie_char(cookie, mark, &ch);

        while (!cookie->decode
               && mark < cookie->last
               && ngx_mcds_cookie_fold[*mark] != ngx_mcds_cookie_fold[*star])
        {
            mark++;
        }

        s = star;
        p = mark;
    }
}


/*
 * returns 1 if some application ends the cookie's name in front of p: p is at
 * the end or in the trailing blanks, or the character at p is "[" or NUL
 */

static ngx_uint_t
ngx_mcds_cookie_ends(ngx_mcds_cookie_t *cookie, u_char *p)
{
    u_char  ch;

    if (p >= cookie->tail) {
        return 1;
    }

    (void) ngx_mcds_cookie_char(cookie, p, &ch);

    return ch == '[' || ch == '\0';
}


static u_char *
ngx_mcds_cookie_char(ngx_mcds_cookie_t *cookie, u_char *p, u_char *ch)
{
    ngx_int_t  n;

    *ch = *p++;

    if (cookie->decode && *ch == '%' && cookie->last - p >= 2) {

        n = ngx_hextoi(p, 2);

        if (n != NGX_ERROR) {
            *ch = (u_char) n;
            p += 2;
        }
    }

    return p;
}

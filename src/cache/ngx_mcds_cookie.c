
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_cookie.h"


typedef struct {
    u_char      *start;
    u_char      *last;
    u_char      *tail;            /* only blanks from here on */
    ngx_uint_t   decode;          /* "%xx" */
} ngx_mcds_cookie_t;


static u_char *ngx_mcds_cookie_next(u_char *p, u_char *last, u_char ch);
static ngx_uint_t ngx_mcds_cookie_first(u_char *p, u_char *last,
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
static u_char ngx_mcds_cookie_fold(u_char ch);
static ngx_uint_t ngx_mcds_cookie_separator(u_char ch);


/* not visible, or not ASCII: what some application takes for white space */

#define ngx_mcds_cookie_blank(ch)    ((ch) <= ' ' || (ch) >= 0x7f)


ngx_uint_t
ngx_mcds_cookie_named(ngx_str_t *line, ngx_array_t *names)
{
    u_char  *p, *last, *next;

    p = line->data;
    last = p + line->len;

    for ( /* void */ ; p < last; p = next + 1) {

        next = ngx_mcds_cookie_next(p, last, ';');

        /* a comma may be part of a name, or end a cookie */

        if (ngx_mcds_cookie_first(p, next, names)
            || ngx_mcds_cookie_list(p, next, names)
            || ngx_mcds_cookie_parts(p, next, names))
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


/* the name of one cookie; old releases of Werkzeug skip "=" in front of it */

static ngx_uint_t
ngx_mcds_cookie_first(u_char *p, u_char *last, ngx_array_t *names)
{
    u_char  *s;

    for (s = p; s < last && (*s == '=' || ngx_mcds_cookie_blank(*s)); s++) {
        if (*s == '=') {
            p = s + 1;
        }
    }

    return ngx_mcds_cookie_is(p, ngx_mcds_cookie_next(p, last, '='), names);
}


static ngx_uint_t
ngx_mcds_cookie_list(u_char *p, u_char *last, ngx_array_t *names)
{
    u_char  *next;

    if (ngx_strlchr(p, last, ',') == NULL) {
        return 0;
    }

    for ( /* void */ ; p < last; p = next + 1) {

        next = ngx_mcds_cookie_next(p, last, ',');

        if (ngx_mcds_cookie_first(p, next, names)) {
            return 1;
        }
    }

    return 0;
}


/* names with "=" inside of a value, or behind what is no part of a name */

static ngx_uint_t
ngx_mcds_cookie_parts(u_char *p, u_char *last, ngx_array_t *names)
{
    u_char      *end, *s;
    ngx_uint_t   first;

    first = 1;

    while (p < last) {

        if (ngx_mcds_cookie_separator(*p)) {
            first |= (*p++ == ',');
            continue;
        }

        /* Tomcat's legacy parser skips these in front of a cookie */

        if (*p == '=' || (first && ngx_strchr("()<>@:/?{}", *p))) {
            p++;
            continue;
        }

        end = p;

        while (end < last && *end != '=' && !ngx_mcds_cookie_separator(*end)) {
            end++;
        }

        s = end;

        while (s < last && (ngx_mcds_cookie_blank(*s) || *s == '"')) {
            s++;
        }

        if (s < last && *s == '=' && ngx_mcds_cookie_is(p, end, names)) {
            return 1;
        }

        /* another one may begin behind the value */

        while (end < last && !ngx_mcds_cookie_separator(*end)) {
            end++;
        }

        p = end;
        first = 0;
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

    /* a name may begin with white space of Unicode, or behind it */

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

    /* PHP decodes first, then it skips white space */

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
    ngx_str_t   *name;
    ngx_uint_t   i;

    name = names->elts;

    for (i = 0; i < names->nelts; i++) {
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

            if (ngx_mcds_cookie_fold(*s) == ngx_mcds_cookie_fold(ch)) {
                s++;
                p = next;
                continue;
            }
        }

        if (star == NULL || mark == cookie->last) {
            return 0;
        }

        mark = ngx_mcds_cookie_char(cookie, mark, &ch);

        s = star;
        p = mark;
    }
}


/* 1 if an application may see no more of the name */

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


static u_char
ngx_mcds_cookie_fold(u_char ch)
{
    switch (ch) {

    case '.':
    case ' ':
    case '[':
    case '+':
        return '_';

    default:
        return ngx_tolower(ch);
    }
}


static ngx_uint_t
ngx_mcds_cookie_separator(u_char ch)
{
    switch (ch) {

    case ',':
    case '"':
    case '\\':
    case '[':
    case ']':
        return 1;

    default:
        return ngx_mcds_cookie_blank(ch);
    }
}

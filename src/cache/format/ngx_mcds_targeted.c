
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_targeted.h"


typedef enum {
    NGX_MCDS_MEMBER_FALSE = 0,
    NGX_MCDS_MEMBER_TRUE,
    NGX_MCDS_MEMBER_INTEGER,
    NGX_MCDS_MEMBER_OTHER
} ngx_mcds_member_e;


typedef struct {
    ngx_str_t     name;
    ngx_uint_t    type;
    uint32_t      integer;
} ngx_mcds_member_t;


/*
 * These functions parse the value of CDN-Cache-Control, a list of members such
 * as "max-age=60", piece by piece.  They return the end of the piece, or NULL
 * if it is malformed.
 */

static u_char *ngx_mcds_member_parse(ngx_mcds_member_t *m, u_char *p,
    u_char *last);
static u_char *ngx_mcds_member_name(ngx_str_t *name, u_char *p, u_char *last);
static u_char *ngx_mcds_member_params(u_char *p, u_char *last);
static u_char *ngx_mcds_member_list(u_char *p, u_char *last);
static u_char *ngx_mcds_member_item(ngx_mcds_member_t *m, u_char *p,
    u_char *last);
static u_char *ngx_mcds_member_number(ngx_mcds_member_t *m, u_char *p,
    u_char *last);
static u_char *ngx_mcds_member_string(u_char *p, u_char *last);
static u_char *ngx_mcds_member_bytes(u_char *p, u_char *last);
static u_char *ngx_mcds_member_token(u_char *p, u_char *last);

static void ngx_mcds_member_apply(ngx_mcds_cache_control_t *cc,
    ngx_mcds_member_t *m);
static ngx_uint_t ngx_mcds_member_is(ngx_mcds_member_t *m, const char *name);
static ngx_uint_t ngx_mcds_is_alpha(u_char c);
static ngx_uint_t ngx_mcds_is_digit(u_char c);


ngx_uint_t
ngx_mcds_targeted_add(ngx_mcds_cache_control_t *cc, ngx_str_t *value)
{
    u_char             *p, *last;
    ngx_uint_t          n;
    ngx_mcds_member_t   m;

    p = value->data;
    last = p + value->len;

    while (p < last && *p == ' ') {
        p++;
    }

    while (p < last && last[-1] == ' ') {
        last--;
    }

    for (n = 0; p < last; n++) {

        p = ngx_mcds_member_parse(&m, p, last);

        if (p == NULL) {
            cc->malformed = 1;
            return n + 1;
        }

        ngx_mcds_member_apply(cc, &m);

        while (p < last && (*p == ' ' || *p == '\t')) {
            p++;
        }

        if (p == last) {
            continue;
        }

        if (*p++ != ',') {
            cc->malformed = 1;
            return n + 1;
        }

        while (p < last && (*p == ' ' || *p == '\t')) {
            p++;
        }

        /* in CDN-Cache-Control another member must follow a comma */

        if (p == last) {
            cc->malformed = 1;
        }
    }

    return n;
}


static u_char *
ngx_mcds_member_parse(ngx_mcds_member_t *m, u_char *p, u_char *last)
{
    m->type = NGX_MCDS_MEMBER_TRUE;
    m->integer = 0;

    p = ngx_mcds_member_name(&m->name, p, last);

    if (p == NULL) {
        return NULL;
    }

    if (p < last && *p == '=') {
        p++;

        if (p < last && *p == '(') {
            m->type = NGX_MCDS_MEMBER_OTHER;
            p = ngx_mcds_member_list(p, last);

        } else {
            p = ngx_mcds_member_item(m, p, last);
        }

        if (p == NULL) {
            return NULL;
        }
    }

    return ngx_mcds_member_params(p, last);
}


static u_char *
ngx_mcds_member_name(ngx_str_t *name, u_char *p, u_char *last)
{
    name->data = p;

    if (p == last || ((*p < 'a' || *p > 'z') && *p != '*')) {
        return NULL;
    }

    while (p < last
           && ((*p >= 'a' && *p <= 'z')
               || ngx_mcds_is_digit(*p)
               || *p == '_' || *p == '-' || *p == '.' || *p == '*'))
    {
        p++;
    }

    name->len = p - name->data;

    return p;
}


static u_char *
ngx_mcds_member_params(u_char *p, u_char *last)
{
    ngx_str_t          name;
    ngx_mcds_member_t  m;

    while (p && p < last && *p == ';') {
        p++;

        while (p < last && *p == ' ') {
            p++;
        }

        p = ngx_mcds_member_name(&name, p, last);

        if (p && p < last && *p == '=') {
            p = ngx_mcds_member_item(&m, p + 1, last);
        }
    }

    return p;
}


static u_char *
ngx_mcds_member_list(u_char *p, u_char *last)
{
    ngx_mcds_member_t  m;

    for (p++; p < last; /* void */) {

        while (p < last && *p == ' ') {
            p++;
        }

        if (p < last && *p == ')') {
            return p + 1;
        }

        p = ngx_mcds_member_item(&m, p, last);
        p = (p == NULL) ? NULL : ngx_mcds_member_params(p, last);

        if (p == NULL || p == last || (*p != ' ' && *p != ')')) {
            return NULL;
        }
    }

    return NULL;
}


static u_char *
ngx_mcds_member_item(ngx_mcds_member_t *m, u_char *p, u_char *last)
{
    m->type = NGX_MCDS_MEMBER_OTHER;

    if (p == last) {
        return NULL;
    }

    switch (*p) {

    case '"':
        return ngx_mcds_member_string(p + 1, last);

    case ':':
        return ngx_mcds_member_bytes(p + 1, last);

    case '?':

        if (last - p < 2 || (p[1] != '0' && p[1] != '1')) {
            return NULL;
        }

        m->type = (p[1] == '1') ? NGX_MCDS_MEMBER_TRUE
                                : NGX_MCDS_MEMBER_FALSE;
        return p + 2;

    default:

        if (*p == '-' || ngx_mcds_is_digit(*p)) {
            return ngx_mcds_member_number(m, p, last);
        }

        return ngx_mcds_member_token(p, last);
    }
}


/*
 * reads a number in CDN-Cache-Control, a structured header: at most 15 digits,
 * or 12 before the point and 3 after it (RFC 8941)
 */

static u_char *
ngx_mcds_member_number(ngx_mcds_member_t *m, u_char *p, u_char *last)
{
    u_char      *start;
    uint64_t     n;
    ngx_uint_t   negative;

    negative = (*p == '-');
    p += negative;

    n = 0;

    for (start = p; p < last && p - start < 16; p++) {

        if (!ngx_mcds_is_digit(*p)) {
            break;
        }

        n = n * 10 + (*p - '0');
    }

    if (p == start || p - start > 15) {
        return NULL;
    }

    if (p < last && *p == '.') {

        if (p - start > 12) {
            return NULL;
        }

        for (start = ++p; p < last && ngx_mcds_is_digit(*p); p++) {
            /* void */
        }

        return (p == start || p - start > 3) ? NULL : p;
    }

    m->type = NGX_MCDS_MEMBER_INTEGER;
    m->integer = negative ? 0 : (uint32_t) ngx_min(n, NGX_MCDS_MAX_DELTA);

    return p;
}


static u_char *
ngx_mcds_member_string(u_char *p, u_char *last)
{
    for ( /* void */ ; p < last; p++) {

        if (*p == '"') {
            return p + 1;
        }

        if (*p == '\\') {
            p++;

            if (p == last || (*p != '"' && *p != '\\')) {
                return NULL;
            }
        }

        if (*p < 0x20 || *p > 0x7e) {
            return NULL;
        }
    }

    return NULL;
}


static u_char *
ngx_mcds_member_bytes(u_char *p, u_char *last)
{
    for ( /* void */ ; p < last; p++) {

        if (*p == ':') {
            return p + 1;
        }

        if (!ngx_mcds_is_alpha(*p)
            && !ngx_mcds_is_digit(*p)
            && *p != '+' && *p != '/' && *p != '=')
        {
            return NULL;
        }
    }

    return NULL;
}


static u_char *
ngx_mcds_member_token(u_char *p, u_char *last)
{
    if (!ngx_mcds_is_alpha(*p) && *p != '*') {
        return NULL;
    }

    while (p < last
           && (ngx_mcds_is_alpha(*p)
               || ngx_mcds_is_digit(*p)
               || (*p != '\0'
                   && ngx_strchr("!#$%&'*+-.^_`|~:/", *p) != NULL)))
    {
        p++;
    }

    return p;
}


static void
ngx_mcds_member_apply(ngx_mcds_cache_control_t *cc, ngx_mcds_member_t *m)
{
    ngx_uint_t  there;

    there = (m->type != NGX_MCDS_MEMBER_FALSE);

    if (ngx_mcds_member_is(m, "max-age")) {
        cc->max_age = m->integer;
        cc->has_max_age = 1;

    } else if (ngx_mcds_member_is(m, "s-maxage")) {
        cc->s_maxage = m->integer;
        cc->has_s_maxage = 1;

    } else if (ngx_mcds_member_is(m, "stale-while-revalidate")) {
        cc->swr = m->integer;
        cc->has_swr = 1;

    } else if (ngx_mcds_member_is(m, "stale-if-error")) {
        cc->sie = m->integer;
        cc->has_sie = 1;

    } else if (ngx_mcds_member_is(m, "no-store")) {
        cc->no_store = there;

    } else if (ngx_mcds_member_is(m, "no-cache")) {
        cc->no_cache = there;

    } else if (ngx_mcds_member_is(m, "private")) {
        cc->private = there;

    } else if (ngx_mcds_member_is(m, "must-revalidate")) {
        cc->must_revalidate = there;

    } else if (ngx_mcds_member_is(m, "proxy-revalidate")) {
        cc->proxy_revalidate = there;

    } else if (ngx_mcds_member_is(m, "no-transform")) {
        cc->no_transform = there;

    } else if (ngx_mcds_member_is(m, "must-understand")) {
        cc->must_understand = (m->type == NGX_MCDS_MEMBER_TRUE);

    } else if (ngx_mcds_member_is(m, "public")) {
        cc->public = (m->type == NGX_MCDS_MEMBER_TRUE);
    }
}


static ngx_uint_t
ngx_mcds_member_is(ngx_mcds_member_t *m, const char *name)
{
    return m->name.len == ngx_strlen(name)
           && ngx_memcmp(m->name.data, name, m->name.len) == 0;
}


static ngx_uint_t
ngx_mcds_is_alpha(u_char c)
{
    c |= 0x20;

    return c >= 'a' && c <= 'z';
}


static ngx_uint_t
ngx_mcds_is_digit(u_char c)
{
    return c >= '0' && c <= '9';
}


/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds.h"
#include "ngx_mcds_forwarded.h"


typedef enum {
    NGX_MCDS_FORWARDED_OTHER = 0, /* a header that proxies add, whose value is
                                     not compared: any value counts as
                                     different from the request */
    NGX_MCDS_FORWARDED_HOST,
    NGX_MCDS_FORWARDED_SCHEME,
    NGX_MCDS_FORWARDED_TLS,       /* a header that proxies add, with the value
                                     "on" for https, or "off" */
    NGX_MCDS_FORWARDED_PORT,
    NGX_MCDS_FORWARDED_LIST       /* the header "Forwarded" of RFC 7239, a list
                                     of pairs that proxies add */
} ngx_mcds_forwarded_e;


typedef struct {
    ngx_str_t     name;
    ngx_uint_t    kind;
} ngx_mcds_forwarded_t;


/*
 * a pair of name and value in the header "Forwarded", with the separator after
 * it: ";", "," or 0
 */

typedef struct {
    ngx_str_t     name;
    ngx_str_t     value;          /* the pair's value in the header
                                     "Forwarded", without quotes */
    u_char        end;
} ngx_mcds_forwarded_pair_t;


static ngx_uint_t ngx_mcds_forwarded_is(ngx_str_t *name, ngx_str_t *header);
static ngx_uint_t ngx_mcds_forwarded_kind(ngx_str_t *name);
static ngx_uint_t ngx_mcds_forwarded_same(ngx_uint_t kind, ngx_str_t *value,
    ngx_mcds_own_t *own);
static ngx_uint_t ngx_mcds_forwarded_pair_kind(ngx_str_t *name);
static ngx_int_t ngx_mcds_forwarded_pair(ngx_str_t *left,
    ngx_mcds_forwarded_pair_t *pair);
static ngx_int_t ngx_mcds_forwarded_list(ngx_str_t *value, u_char *buf,
    ngx_str_t *text);


/* returns 1 if ch is a digit or a letter in lower case */

#define ngx_mcds_forwarded_alnum(ch)                                          \
    (((ch) >= 'a' && (ch) <= 'z') || ((ch) >= '0' && (ch) <= '9'))


/*
 * the built-in names of forwarding headers; docs/reference/cache.md lists them
 * under "mcds_cache_forwarded_headers"
 */

static ngx_mcds_forwarded_t  ngx_mcds_forwarded_table[] = {
    { ngx_string("forwarded"), NGX_MCDS_FORWARDED_LIST },
    { ngx_string("x-forwarded-host"), NGX_MCDS_FORWARDED_HOST },
    { ngx_string("x-forwarded-server"), NGX_MCDS_FORWARDED_HOST },
    { ngx_string("x-host"), NGX_MCDS_FORWARDED_HOST },
    { ngx_string("x-original-host"), NGX_MCDS_FORWARDED_HOST },
    { ngx_string("x-http-host-override"), NGX_MCDS_FORWARDED_HOST },
    { ngx_string("x-forwarded-proto"), NGX_MCDS_FORWARDED_SCHEME },
    { ngx_string("x-forwarded-protocol"), NGX_MCDS_FORWARDED_SCHEME },
    { ngx_string("x-forwarded-scheme"), NGX_MCDS_FORWARDED_SCHEME },
    { ngx_string("x-scheme"), NGX_MCDS_FORWARDED_SCHEME },
    { ngx_string("x-url-scheme"), NGX_MCDS_FORWARDED_SCHEME },
    { ngx_string("cloudfront-forwarded-proto"), NGX_MCDS_FORWARDED_SCHEME },
    { ngx_string("x-forwarded-ssl"), NGX_MCDS_FORWARDED_TLS },
    { ngx_string("front-end-https"), NGX_MCDS_FORWARDED_TLS },
    { ngx_string("x-forwarded-port"), NGX_MCDS_FORWARDED_PORT },
    { ngx_string("x-forwarded-prefix"), NGX_MCDS_FORWARDED_OTHER },
    { ngx_string("x-forwarded-path"), NGX_MCDS_FORWARDED_OTHER },
    { ngx_string("x-forwarded-uri"), NGX_MCDS_FORWARDED_OTHER },
    { ngx_string("x-script-name"), NGX_MCDS_FORWARDED_OTHER },
    { ngx_string("x-original-uri"), NGX_MCDS_FORWARDED_OTHER },
    { ngx_string("x-original-url"), NGX_MCDS_FORWARDED_OTHER },
    { ngx_string("x-rewrite-url"), NGX_MCDS_FORWARDED_OTHER },
    { ngx_null_string, 0 }
};


ngx_uint_t
ngx_mcds_forwarded_method(ngx_str_t *name)
{
    ngx_str_t  *s;

    static ngx_str_t  names[] = {
        ngx_string("x-http-method-override"),
        ngx_string("x-http-method"),
        ngx_string("x-method-override"),
        ngx_null_string
    };

    if (name->len == 0 || ngx_tolower(name->data[0]) != 'x') {
        return 0;
    }

    for (s = names; s->len; s++) {
        if (ngx_mcds_forwarded_is(s, name)) {
            return 1;
        }
    }

    return 0;
}


static ngx_uint_t
ngx_mcds_forwarded_is(ngx_str_t *name, ngx_str_t *header)
{
    size_t  i;
    u_char  one, two;

    if (name->len != header->len) {
        return 0;
    }

    for (i = 0; i < name->len; i++) {
        one = ngx_tolower(name->data[i]);
        two = ngx_tolower(header->data[i]);

        if (one != two && (one != '-' || ngx_mcds_forwarded_alnum(two))) {
            return 0;
        }
    }

    return 1;
}


ngx_str_t *
ngx_mcds_forwarded_name(ngx_array_t *names, ngx_str_t *header)
{
    ngx_str_t             *name;
    ngx_uint_t             i;
    ngx_mcds_forwarded_t  *f;

    if (names == NULL) {

        /*
         * the names of most request headers begin with another letter than
         * those of the headers that proxies add
         */

        switch (header->len ? ngx_tolower(header->data[0]) : 0) {
        case 'c':
        case 'f':
        case 'x':
            break;
        default:
            return NULL;
        }

        for (f = ngx_mcds_forwarded_table; f->name.len; f++) {
            if (f->name.len == header->len
                && ngx_mcds_forwarded_is(&f->name, header))
            {
                return &f->name;
            }
        }

        return NULL;
    }

    name = names->elts;

    for (i = 0; i < names->nelts; i++) {
        if (ngx_mcds_forwarded_is(&name[i], header)) {
            return &name[i];
        }
    }

    return NULL;
}


ngx_int_t
ngx_mcds_forwarded_add(ngx_array_t *names)
{
    ngx_str_t             *name;
    ngx_mcds_forwarded_t  *f;

    for (f = ngx_mcds_forwarded_table; f->name.len; f++) {

        name = ngx_array_push(names);
        if (name == NULL) {
            return NGX_ERROR;
        }

        *name = f->name;
    }

    return NGX_OK;
}


static ngx_uint_t
ngx_mcds_forwarded_kind(ngx_str_t *name)
{
    ngx_mcds_forwarded_t  *f;

    for (f = ngx_mcds_forwarded_table; f->name.len; f++) {
        if (ngx_mcds_forwarded_is(&f->name, name)) {
            return f->kind;
        }
    }

    return NGX_MCDS_FORWARDED_OTHER;
}


ngx_uint_t
ngx_mcds_forwarded_differs(ngx_str_t *name, ngx_str_t *value,
    ngx_mcds_own_t *own)
{
    ngx_int_t                  rc;
    ngx_str_t                  left;
    ngx_uint_t                 kind;
    ngx_mcds_forwarded_pair_t  pair;

    kind = ngx_mcds_forwarded_kind(name);

    if (kind != NGX_MCDS_FORWARDED_LIST) {
        return !ngx_mcds_forwarded_same(kind, value, own);
    }

    left = *value;

    while ((rc = ngx_mcds_forwarded_pair(&left, &pair)) == NGX_OK) {

        if (pair.name.len
            && !ngx_mcds_forwarded_same(
                    ngx_mcds_forwarded_pair_kind(&pair.name), &pair.value,
                    own))
        {
            return 1;
        }
    }

    return rc != NGX_DONE;
}


/*
 * Returns 1 if the value of a forwarding header, such as X-Forwarded-Host, is
 * that of the request, also in letter case: an application may answer with the
 * name of the host as the header has it, or compare a scheme by case.
 */

static ngx_uint_t
ngx_mcds_forwarded_same(ngx_uint_t kind, ngx_str_t *value,
    ngx_mcds_own_t *own)
{
    ngx_int_t  n;

    static ngx_str_t  on = ngx_string("on");
    static ngx_str_t  off = ngx_string("off");

    switch (kind) {

    case NGX_MCDS_FORWARDED_HOST:
        return ngx_mcds_same(value, &own->host);

    case NGX_MCDS_FORWARDED_SCHEME:
        return ngx_mcds_same(value, &own->scheme);

    case NGX_MCDS_FORWARDED_TLS:
        return ngx_mcds_same(value, own->scheme.len == sizeof("https") - 1
                                    ? &on : &off);

    case NGX_MCDS_FORWARDED_PORT:

        /*
         * a port in a forwarding header agrees with the request only if it is
         * equal to the port in Host and to the port on which nginx received
         * the request: without the header an application would use either.
         * With a leading zero the port does not agree: the application may
         * write it as the header has it.
         */

        if (value->len && value->data[0] == '0') {
            return 0;
        }

        n = ngx_atoi(value->data, value->len);

        return n == (ngx_int_t) own->port && n == (ngx_int_t) own->local_port;

    case NGX_MCDS_FORWARDED_LIST:

        /*
         * the addresses in "for" and "by" of the header "Forwarded" are not
         * compared with those of the request, any address counts as the same
         */

        return 1;

    default: /* NGX_MCDS_FORWARDED_OTHER: any value of the header counts as
                different from the request */
        return 0;
    }
}


/*
 * returns the kind of a pair in the header "Forwarded" by its name;
 * NGX_MCDS_FORWARDED_LIST for addresses, which are not compared
 */

static ngx_uint_t
ngx_mcds_forwarded_pair_kind(ngx_str_t *name)
{
    ngx_mcds_forwarded_t  *f;

    static ngx_mcds_forwarded_t  kinds[] = {
        { ngx_string("for"), NGX_MCDS_FORWARDED_LIST },
        { ngx_string("by"), NGX_MCDS_FORWARDED_LIST },
        { ngx_string("host"), NGX_MCDS_FORWARDED_HOST },
        { ngx_string("proto"), NGX_MCDS_FORWARDED_SCHEME },
        { ngx_null_string, 0 }
    };

    for (f = kinds; f->name.len; f++) {
        if (f->name.len == name->len
            && ngx_mcds_is_name(name->data, f->name.data, name->len))
        {
            return f->kind;
        }
    }

    return NGX_MCDS_FORWARDED_OTHER;
}


/*
 * Takes the next pair from a header "Forwarded" and advances "left"; the name
 * of an empty element is empty.  Returns NGX_DONE at the end; NGX_DECLINED if
 * the header is malformed, or if an application that ignores quotes could read
 * a quoted string differently.
 */

static ngx_int_t
ngx_mcds_forwarded_pair(ngx_str_t *left, ngx_mcds_forwarded_pair_t *pair)
{
    u_char  *p, *last, *start;

    p = left->data;
    last = p + left->len;

    while (p < last && (*p == ' ' || *p == '\t')) {
        p++;
    }

    if (p == last) {
        return NGX_DONE;
    }

    ngx_str_null(&pair->value);

    pair->name.data = p;

    while (p < last
           && (ngx_mcds_forwarded_alnum(ngx_tolower(*p)) || *p == '-'))
    {
        p++;
    }

    pair->name.len = p - pair->name.data;

    if (pair->name.len) {

        if (p == last || *p++ != '=') {
            return NGX_DECLINED;
        }

        start = p;

        if (p < last && *p == '"') {
            start = ++p;

            while (p < last && *p != '"') {
                if (*p <= ' '
                    || *p == ';' || *p == ',' || *p == '=' || *p == '\\')
                {
                    return NGX_DECLINED;
                }

                p++;
            }

            if (p == last) {
                return NGX_DECLINED;
            }

            pair->value.len = p++ - start;

        } else {
            while (p < last && *p > ' ' && *p != ';' && *p != ','
                   && *p != '"' && *p != '=')
            {
                p++;
            }

            pair->value.len = p - start;
        }

        pair->value.data = start;

        while (p < last && (*p == ' ' || *p == '\t')) {
            p++;
        }
    }

    pair->end = 0;

    if (p < last) {

        if (*p != ';' && *p != ',') {
            return NGX_DECLINED;
        }

        pair->end = *p++;
    }

    left->data = p;
    left->len = last - p;

    return NGX_OK;
}


/*
 * Writes the pairs of a header "Forwarded" but the addresses to buf, such as
 * "host=a;proto=b,host=c", and sets text to them.  Returns NGX_DONE;
 * NGX_DECLINED if ngx_mcds_forwarded_pair() declines a pair.
 */

static ngx_int_t
ngx_mcds_forwarded_list(ngx_str_t *value, u_char *buf, ngx_str_t *text)
{
    u_char                     *p;
    ngx_int_t                   rc;
    ngx_str_t                   left;
    ngx_mcds_forwarded_pair_t   pair;

    p = buf;
    left = *value;

    while ((rc = ngx_mcds_forwarded_pair(&left, &pair)) == NGX_OK) {

        if (pair.name.len
            && ngx_mcds_forwarded_pair_kind(&pair.name)
               != NGX_MCDS_FORWARDED_LIST)
        {
            ngx_strlow(p, pair.name.data, pair.name.len);
            p += pair.name.len;
            *p++ = '=';
            p = ngx_cpymem(p, pair.value.data, pair.value.len);

            if (pair.end == ';') {
                *p++ = ';';
            }
        }

        if (pair.end == ',') {
            *p++ = ',';
        }
    }

    text->data = buf;
    text->len = p - buf;

    return rc;
}


u_char *
ngx_mcds_forwarded_write(u_char *p, ngx_str_t *name, ngx_str_t *value)
{
    u_char     *start;
    ngx_str_t   text;

    p = ngx_sprintf(p, "%uz:", name->len);
    ngx_strlow(p, name->data, name->len);
    p += name->len;

    text = *value;

    if (ngx_mcds_forwarded_kind(name) == NGX_MCDS_FORWARDED_LIST) {

        /*
         * in the text of the cache key, the pairs of the header "Forwarded"
         * are written after room for their length, which is not known yet
         */

        start = p + NGX_SIZE_T_LEN + sizeof(",:") - 1;

        if (ngx_mcds_forwarded_list(value, start, &text) != NGX_DONE) {
            text = *value;
        }
    }

    p = ngx_sprintf(p, ",%uz:", text.len);
    p = ngx_movemem(p, text.data, text.len);
    *p++ = ',';

    return p;
}


/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_entry.h"
#include "ngx_mcds_vary.h"


/*
 * bits for the codings gzip, br and zstd in a request's Accept-Encoding; and
 * one for "*"
 */
#define NGX_MCDS_CODINGS          0x07
#define NGX_MCDS_ANY_CODING       0x80


static ngx_int_t ngx_mcds_vary_insert(ngx_str_t *list, ngx_str_t *name);
static ngx_int_t ngx_mcds_vary_compare(ngx_str_t *a, ngx_str_t *b);
static ngx_uint_t ngx_mcds_variant_kind(ngx_str_t *name);
static void ngx_mcds_variant_flush(ngx_mcds_variant_t *variant);
static void ngx_mcds_variant_part(ngx_mcds_variant_t *variant,
    ngx_uint_t kind, ngx_str_t *part);
static void ngx_mcds_variant_codings(ngx_mcds_variant_t *variant,
    ngx_str_t *value);
static ngx_uint_t ngx_mcds_variant_coding(ngx_str_t *name);
static ngx_uint_t ngx_mcds_variant_weight(u_char *p, u_char *last);
static void ngx_mcds_variant_trim(ngx_str_t *s);
static ngx_uint_t ngx_mcds_vary_token(u_char ch);


ngx_mcds_varying_t  ngx_mcds_vary_functions = {
    ngx_mcds_vary_check,
    ngx_mcds_vary_base
};


ngx_int_t
ngx_mcds_vary_add(ngx_str_t *list, ngx_str_t *value)
{
    u_char     *p, *last;
    ngx_str_t   name;

    p = value->data;
    last = p + value->len;

    while (p < last) {

        if (*p == ',' || *p == ' ' || *p == '\t') {
            p++;
            continue;
        }

        name.data = p;

        while (p < last && ngx_mcds_vary_token(*p)) {
            p++;
        }

        name.len = p - name.data;

        /*
         * "*" in Vary consists of characters of a token, too, but no page that
         * varies by it can be found
         */

        if (name.len == 0 || (name.len == 1 && name.data[0] == '*')) {
            return NGX_DECLINED;
        }

        while (p < last && (*p == ' ' || *p == '\t')) {
            p++;
        }

        if (p < last && *p != ',') {
            return NGX_DECLINED;
        }

        if (ngx_mcds_vary_insert(list, &name) != NGX_OK) {
            return NGX_DECLINED;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_mcds_vary_insert(ngx_str_t *list, ngx_str_t *name)
{
    u_char      *at;
    size_t       size, rest;
    ngx_int_t    rc;
    ngx_str_t    left, one;
    ngx_uint_t   n;

    left = *list;
    at = list->data + list->len;
    n = 0;

    while (ngx_mcds_vary_next(&left, &one) == NGX_OK) {
        n++;

        rc = ngx_mcds_vary_compare(name, &one);

        if (rc == 0) {
            return NGX_OK;
        }

        if (rc < 0 && one.data < at) {
            at = one.data;
        }
    }

    size = name->len + (list->len ? 1 : 0);

    if (n == NGX_MCDS_MAX_VARY || list->len + size > NGX_MCDS_MAX_VARY_LEN) {
        return NGX_DECLINED;
    }

    rest = list->data + list->len - at;

    ngx_memmove(at + size, at, rest);

    if (rest) {
        at[name->len] = ',';

    } else if (list->len) {
        *at++ = ',';
    }

    ngx_strlow(at, name->data, name->len);
    list->len += size;

    return NGX_OK;
}


static ngx_int_t
ngx_mcds_vary_compare(ngx_str_t *a, ngx_str_t *b)
{
    ngx_int_t  rc;

    rc = ngx_strncasecmp(a->data, b->data, ngx_min(a->len, b->len));

    return rc ? rc : (ngx_int_t) a->len - (ngx_int_t) b->len;
}


ngx_uint_t
ngx_mcds_vary_covers(ngx_str_t *a, ngx_str_t *b)
{
    ngx_uint_t  found;
    ngx_str_t   left, name, other, one;

    other = *b;

    while (ngx_mcds_vary_next(&other, &one) == NGX_OK) {

        left = *a;
        found = 0;

        while (!found && ngx_mcds_vary_next(&left, &name) == NGX_OK) {
            found = (ngx_mcds_vary_compare(&name, &one) == 0);
        }

        if (!found) {
            return 0;
        }
    }

    return 1;
}


ngx_int_t
ngx_mcds_vary_next(ngx_str_t *list, ngx_str_t *name)
{
    u_char  *p;

    if (list->len == 0) {
        return NGX_DONE;
    }

    p = ngx_strlchr(list->data, list->data + list->len, ',');

    name->data = list->data;
    name->len = p ? (size_t) (p - list->data) : list->len;

    list->data += name->len;
    list->len -= name->len;

    if (p) {
        list->data++;
        list->len--;
    }

    return NGX_OK;
}


void
ngx_mcds_variant_begin(ngx_mcds_variant_t *variant)
{
    ngx_memzero(variant, sizeof(ngx_mcds_variant_t));
    ngx_md5_init(&variant->md5);
}


void
ngx_mcds_variant_name(ngx_mcds_variant_t *variant, ngx_str_t *name)
{
    ngx_mcds_variant_flush(variant);

    variant->kind = ngx_mcds_variant_kind(name);
    variant->named = 1;
    variant->any = 0;
    variant->codings = 0;
    variant->refused = 0;
}


static ngx_uint_t
ngx_mcds_variant_kind(ngx_str_t *name)
{
    ngx_uint_t  i;

    static struct {
        ngx_str_t   name;
        ngx_uint_t  kind;
    } kinds[] = {
        { ngx_string("accept"), NGX_MCDS_VARIANT_MEDIA },
        { ngx_string("accept-charset"), NGX_MCDS_VARIANT_CASELESS },
        { ngx_string("accept-encoding"), NGX_MCDS_VARIANT_ENCODING },
        { ngx_string("accept-language"), NGX_MCDS_VARIANT_CASELESS },
        { ngx_null_string, NGX_MCDS_VARIANT_EXACT }
    };

    for (i = 0; kinds[i].name.len; i++) {
        if (ngx_mcds_vary_compare(&kinds[i].name, name) == 0) {
            break;
        }
    }

    return kinds[i].kind;
}


/*
 * Ends the values of one request header, in the hash that selects a variant,
 * with a line feed.  No value contains a line feed, so the values of one header
 * cannot be taken for those of the next.
 */

static void
ngx_mcds_variant_flush(ngx_mcds_variant_t *variant)
{
    u_char  set;

    if (!variant->named) {
        return;
    }

    if (variant->kind == NGX_MCDS_VARIANT_ENCODING) {
        set = (u_char) ('0' + ngx_mcds_variant_accepted(variant));

        ngx_md5_update(&variant->md5, &set, 1);

    } else if (variant->any) {
        ngx_md5_update(&variant->md5, "=", 1);
    }

    ngx_md5_update(&variant->md5, "\n", 1);
}


void
ngx_mcds_variant_line(ngx_mcds_variant_t *variant, ngx_str_t *value)
{
    u_char      *comma;
    ngx_str_t    left, part;
    ngx_uint_t   kind, quoted;

    left = *value;

    kind = variant->kind;
    quoted = 0;

    if (ngx_strlchr(left.data, left.data + left.len, '"')
        && kind != NGX_MCDS_VARIANT_ENCODING)
    {
        kind = NGX_MCDS_VARIANT_EXACT;
        quoted = 1;
    }

    for ( ;; ) {

        /* a comma in a quoted string does not end an element of the list */

        comma = quoted ? NULL
                       : ngx_strlchr(left.data, left.data + left.len, ',');

        part.data = left.data;
        part.len = comma ? (size_t) (comma - left.data) : left.len;

        ngx_mcds_variant_trim(&part);

        if (kind == NGX_MCDS_VARIANT_ENCODING) {
            ngx_mcds_variant_codings(variant, &part);

        } else {
            if (variant->any) {
                ngx_md5_update(&variant->md5, ",", 1);
            }

            ngx_mcds_variant_part(variant, kind, &part);
        }

        variant->any = 1;

        if (comma == NULL) {
            return;
        }

        left.len -= comma + 1 - left.data;
        left.data = comma + 1;
    }
}


/*
 * adds a list element of a request header, between two commas, to the hash
 * that selects a variant
 */

static void
ngx_mcds_variant_part(ngx_mcds_variant_t *variant, ngx_uint_t kind,
    ngx_str_t *part)
{
    size_t       n;
    u_char      *p, *last, *param, buf[64];
    ngx_str_t    left, one;
    ngx_uint_t   value;

    if (kind == NGX_MCDS_VARIANT_EXACT) {
        ngx_md5_update(&variant->md5, part->data, part->len);
        return;
    }

    left = *part;

    for ( ;; ) {
        param = ngx_strlchr(left.data, left.data + left.len, ';');

        one.data = left.data;
        one.len = param ? (size_t) (param - left.data) : left.len;

        ngx_mcds_variant_trim(&one);

        last = one.data + one.len;
        value = 0;
        n = 0;

        for (p = one.data; p < last; p++) {

            if (n == sizeof(buf)) {
                ngx_md5_update(&variant->md5, buf, n);
                n = 0;
            }

            buf[n++] = value ? *p : ngx_tolower(*p);

            if (*p == '=' && kind == NGX_MCDS_VARIANT_MEDIA) {
                value = 1;
            }
        }

        ngx_md5_update(&variant->md5, buf, n);

        if (param == NULL) {
            return;
        }

        ngx_md5_update(&variant->md5, ";", 1);

        left.len -= param + 1 - left.data;
        left.data = param + 1;
    }
}


void
ngx_mcds_variant_end(ngx_mcds_variant_t *variant, u_char *hash)
{
    ngx_mcds_variant_flush(variant);
    ngx_md5_final(hash, &variant->md5);
}


ngx_uint_t
ngx_mcds_variant_accepted(ngx_mcds_variant_t *variant)
{
    ngx_uint_t  set;

    set = variant->codings;

    if (set & NGX_MCDS_ANY_CODING) {
        set = ~variant->refused;
    }

    return set & NGX_MCDS_CODINGS;
}


ngx_int_t
ngx_mcds_vary_coded(ngx_uint_t codings, ngx_str_t *value)
{
    u_char      *comma;
    ngx_str_t    left, part;
    ngx_uint_t   coding;

    left = *value;

    for ( ;; ) {
        comma = ngx_strlchr(left.data, left.data + left.len, ',');

        part.data = left.data;
        part.len = comma ? (size_t) (comma - left.data) : left.len;

        ngx_mcds_variant_trim(&part);

        coding = ngx_mcds_variant_coding(&part) & NGX_MCDS_CODINGS;

        if (!(coding & codings)
            && part.len
            && !(part.len == 8
                 && ngx_strncasecmp(part.data, (u_char *) "identity", 8) == 0))
        {
            return NGX_DECLINED;
        }

        if (comma == NULL) {
            return NGX_OK;
        }

        left.len -= comma + 1 - left.data;
        left.data = comma + 1;
    }
}


static void
ngx_mcds_variant_codings(ngx_mcds_variant_t *variant, ngx_str_t *value)
{
    u_char      *p, *last;
    ngx_str_t    name;
    ngx_uint_t   coding;

    last = value->data + value->len;

    p = ngx_strlchr(value->data, last, ';');

    name.data = value->data;
    name.len = p ? (size_t) (p - value->data) : value->len;

    ngx_mcds_variant_trim(&name);

    coding = ngx_mcds_variant_coding(&name);

    if (p && ngx_mcds_variant_weight(p, last) == 0) {
        variant->refused |= coding;
        return;
    }

    variant->codings |= coding;
}


static ngx_uint_t
ngx_mcds_variant_coding(ngx_str_t *name)
{
    ngx_uint_t  i;

    static ngx_str_t  names[] = {
        ngx_string("gzip"),
        ngx_string("br"),
        ngx_string("zstd"),
        ngx_null_string
    };

    if (name->len == 1 && name->data[0] == '*') {
        return NGX_MCDS_ANY_CODING;
    }

    if (name->len == 6
        && ngx_strncasecmp(name->data, (u_char *) "x-gzip", 6) == 0)
    {
        return 1;
    }

    for (i = 0; names[i].len; i++) {
        if (names[i].len == name->len
            && ngx_strncasecmp(names[i].data, name->data, name->len) == 0)
        {
            return (ngx_uint_t) 1 << i;
        }
    }

    return 0;
}


/*
 * returns 0 if the weight of a coding in Accept-Encoding is 0, such as "q=0" or
 * "q=0.00", or is text that is no number, such as "q=x"
 */

static ngx_uint_t
ngx_mcds_variant_weight(u_char *p, u_char *last)
{
    while (p < last && (*p == ';' || *p == ' ' || *p == '\t')) {
        p++;
    }

    if (last - p < 3 || (*p | 0x20) != 'q' || p[1] != '=') {
        return 1;
    }

    for (p += 2; p < last && (*p == '0' || *p == '.'); p++) { /* void */ }

    return p < last && *p >= '1' && *p <= '9';
}


static void
ngx_mcds_variant_trim(ngx_str_t *s)
{
    while (s->len && (s->data[0] == ' ' || s->data[0] == '\t')) {
        s->data++;
        s->len--;
    }

    while (s->len
           && (s->data[s->len - 1] == ' ' || s->data[s->len - 1] == '\t'))
    {
        s->len--;
    }
}


u_char *
ngx_mcds_vary_suffix(u_char *p, uint64_t generation, u_char *hash)
{
    ngx_uint_t  shift;
    u_char      bytes[8];

    for (shift = 0; shift < 8; shift++) {
        bytes[shift] = (u_char) (generation >> (56 - 8 * shift));
    }

    p = ngx_cpymem(p, ":vary:", sizeof(":vary:") - 1);
    p = ngx_hex_dump(p, bytes, 8);
    *p++ = ':';

    return ngx_hex_dump(p, hash, NGX_MCDS_VARIANT_LEN);
}


void
ngx_mcds_vary_base(ngx_str_t *key, ngx_str_t *base)
{
    u_char  *p;

    *base = *key;

    if (key->len < NGX_MCDS_VARY_SUFFIX_LEN) {
        return;
    }

    p = key->data + key->len - NGX_MCDS_VARY_SUFFIX_LEN;

    if (ngx_strncmp(p, ":vary:", sizeof(":vary:") - 1) == 0) {
        base->len -= NGX_MCDS_VARY_SUFFIX_LEN;
    }
}


ngx_int_t
ngx_mcds_vary_check(ngx_str_t *ext, ngx_str_t *body)
{
    u_char     data[NGX_MCDS_MAX_VARY_LEN];
    ngx_str_t  names, list;

    ngx_mcds_vary_names(ext, &names);

    if (names.len == 0
        || body->len % NGX_MCDS_VARIANT_LEN
        || body->len / NGX_MCDS_VARIANT_LEN > NGX_MCDS_MAX_VARIANTS)
    {
        return NGX_DECLINED;
    }

    list.data = data;
    list.len = 0;

    if (ngx_mcds_vary_add(&list, &names) != NGX_OK
        || list.len != names.len
        || ngx_memcmp(list.data, names.data, list.len) != 0)
    {
        return NGX_DECLINED;
    }

    return NGX_OK;
}


void
ngx_mcds_vary_names(ngx_str_t *ext, ngx_str_t *names)
{
    size_t   len;
    u_char  *p, *last;

    ngx_str_null(names);

    p = ext->data;
    last = p + ext->len;

    while (last - p >= NGX_MCDS_VARY_EXT) {
        len = p[2] | (size_t) p[3] << 8 | (size_t) p[4] << 16
              | (size_t) p[5] << 24;

        if (len > (size_t) (last - p) - NGX_MCDS_VARY_EXT) {
            return;
        }

        if (p[0] == NGX_MCDS_ENTRY_EXT_VARY && p[1] == 0) {
            names->data = p + NGX_MCDS_VARY_EXT;
            names->len = len;
            return;
        }

        p += NGX_MCDS_VARY_EXT + len;
    }
}


ngx_uint_t
ngx_mcds_vary_has(ngx_str_t *body, u_char *hash)
{
    size_t  i;

    for (i = 0; i + NGX_MCDS_VARIANT_LEN <= body->len;
         i += NGX_MCDS_VARIANT_LEN)
    {
        if (ngx_memcmp(body->data + i, hash, NGX_MCDS_VARIANT_LEN) == 0) {
            return 1;
        }
    }

    return 0;
}


u_char *
ngx_mcds_vary_ext(u_char *p, ngx_str_t *names)
{
    *p++ = NGX_MCDS_ENTRY_EXT_VARY;
    *p++ = 0;
    *p++ = (u_char) names->len;
    *p++ = (u_char) (names->len >> 8);
    *p++ = 0;
    *p++ = 0;

    return ngx_cpymem(p, names->data, names->len);
}


static ngx_uint_t
ngx_mcds_vary_token(u_char ch)
{
    u_char  c;

    c = ch | 0x20;

    return (c >= 'a' && c <= 'z')
           || (ch >= '0' && ch <= '9')
           || (ch != '\0' && ngx_strchr("!#$%&'*+-.^_`|~", ch) != NULL);
}

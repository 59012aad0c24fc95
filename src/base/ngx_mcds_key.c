
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_sha1.h>
#include "ngx_mcds_key.h"


#define NGX_MCDS_KEY_ONES  0x0101010101010101ULL


static void ngx_mcds_key_make(ngx_mcds_key_t *key, ngx_str_t *prefix,
    ngx_str_t *base, ngx_str_t *suffix, ngx_str_t *mark);
static u_char *ngx_mcds_key_copy(u_char *p, ngx_str_t *text);
static ngx_uint_t ngx_mcds_key_plain(ngx_str_t *text);
static ngx_uint_t ngx_mcds_key_of_page(ngx_str_t *text);


static ngx_str_t  ngx_mcds_key_mark = ngx_string("sha1:");
static ngx_str_t  ngx_mcds_key_page_mark = ngx_string("<sha1:");


void
ngx_mcds_key_build(ngx_mcds_key_t *key, ngx_str_t *prefix, ngx_str_t *base,
    ngx_str_t *suffix)
{
    ngx_mcds_key_make(key, prefix, base, suffix, &ngx_mcds_key_mark);
}


void
ngx_mcds_key_build_page(ngx_mcds_key_t *key, ngx_str_t *prefix,
    ngx_str_t *base, ngx_str_t *suffix)
{
    ngx_mcds_key_make(key, prefix, base, suffix, &ngx_mcds_key_page_mark);
}


/*
 * Builds a key of memcached: the prefix, base and suffix.  If base and suffix
 * cannot stand in a key as they are, "mark" ("sha1:" or "<sha1:") and the SHA-1
 * of base and suffix replace them.
 */

static void
ngx_mcds_key_make(ngx_mcds_key_t *key, ngx_str_t *prefix, ngx_str_t *base,
    ngx_str_t *suffix, ngx_str_t *mark)
{
    u_char      *p, hash[20];
    size_t       len;
    ngx_str_t    text;
    ngx_sha1_t   sha1;

    p = ngx_mcds_key_copy(key->data, prefix);
    key->prefix = prefix->len;

    len = base->len + suffix->len;

    if (len > 0 && len <= NGX_MCDS_MAX_KEY - prefix->len) {

        text.data = p;
        text.len = len;

        p = ngx_mcds_key_copy(p, base);
        (void) ngx_mcds_key_copy(p, suffix);

        if (ngx_mcds_key_plain(&text)
            && (len < mark->len
                || ngx_memcmp(text.data, mark->data, mark->len) != 0)
            && (mark->data[0] == NGX_MCDS_KEY_PAGE
                ? text.data[0] == NGX_MCDS_KEY_PAGE
                : !ngx_mcds_key_of_page(&text)))
        {
            key->len = prefix->len + len;
            return;
        }

        p = text.data;
    }

    ngx_sha1_init(&sha1);

    if (base->len) {
        ngx_sha1_update(&sha1, base->data, base->len);
    }

    if (suffix->len) {
        ngx_sha1_update(&sha1, suffix->data, suffix->len);
    }

    ngx_sha1_final(hash, &sha1);

    p = ngx_mcds_key_copy(p, mark);
    p = ngx_hex_dump(p, hash, sizeof(hash));

    key->len = p - key->data;
}


void
ngx_mcds_key_show(ngx_mcds_key_t *key, ngx_str_t *text)
{
    ngx_str_t  none;

    ngx_str_null(&none);

    if (ngx_mcds_key_of_page(text)) {
        ngx_mcds_key_build_page(key, &none, text, &none);

    } else {
        ngx_mcds_key_build(key, &none, text, &none);
    }
}


ngx_int_t
ngx_mcds_key_check_prefix(ngx_str_t *prefix)
{
    if (prefix->len > NGX_MCDS_MAX_PREFIX
        || !ngx_mcds_key_plain(prefix)
        || ngx_mcds_key_of_page(prefix))
    {
        return NGX_ERROR;
    }

    return NGX_OK;
}


ngx_uint_t
ngx_mcds_key_has_suffix(ngx_str_t *text, ngx_str_t *suffix)
{
    return text->len >= suffix->len
           && ngx_memcmp(text->data + text->len - suffix->len, suffix->data,
                         suffix->len)
              == 0;
}


static u_char *
ngx_mcds_key_copy(u_char *p, ngx_str_t *text)
{
    /* the data of an empty string may be NULL, which memcpy() must not get */

    if (text->len == 0) {
        return p;
    }

    return ngx_cpymem(p, text->data, text->len);
}


static ngx_uint_t
ngx_mcds_key_plain(ngx_str_t *text)
{
    u_char  *last;

    last = text->data + text->len;

    return ngx_mcds_key_end(text->data, last) == last;
}


u_char *
ngx_mcds_key_end(u_char *p, u_char *last)
{
    uint64_t  word, del;

    while (last - p >= 8) {
        ngx_memcpy(&word, p, 8);

        /*
         * test eight bytes of the key at once (SWAR): is any of them below
         * 0x21, or 0x7f (DEL) or greater?
         */

        del = word ^ (NGX_MCDS_KEY_ONES * 0x7f);

        word |= (word - NGX_MCDS_KEY_ONES * 0x21) | (del - NGX_MCDS_KEY_ONES);

        if (word & (NGX_MCDS_KEY_ONES * 0x80)) {
            break;
        }

        p += 8;
    }

    while (p < last && *p > 0x20 && *p < 0x7f) {
        p++;
    }

    return p;
}


static ngx_uint_t
ngx_mcds_key_of_page(ngx_str_t *text)
{
    return text->len
           && memchr(text->data, NGX_MCDS_KEY_PAGE, text->len) != NULL;
}

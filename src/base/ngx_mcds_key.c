
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_sha1.h>
#include "ngx_mcds_key.h"


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


/* mark: the text before the hash, if the key is hashed */

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
ngx_mcds_key_ends(ngx_str_t *text, ngx_str_t *suffix)
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
    size_t  i;

    for (i = 0; i < text->len; i++) {
        if (text->data[i] < 0x21 || text->data[i] > 0x7e) {
            return 0;
        }
    }

    return 1;
}


static ngx_uint_t
ngx_mcds_key_of_page(ngx_str_t *text)
{
    return text->len
           && ngx_strlchr(text->data, text->data + text->len,
                          NGX_MCDS_KEY_PAGE)
              != NULL;
}


/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_tags.h"


static ngx_int_t ngx_mcds_tags_check(ngx_str_t *list);


ngx_int_t
ngx_mcds_tag_check(ngx_str_t *tag)
{
    size_t  i;
    u_char  c;

    if (tag->len == 0 || tag->len > NGX_MCDS_TAG_LEN) {
        return NGX_DECLINED;
    }

    for (i = 0; i < tag->len; i++) {
        c = tag->data[i];

        if (c <= ' ' || c == ',' || c == 0x7f) {
            return NGX_DECLINED;
        }
    }

    return NGX_OK;
}


ngx_int_t
ngx_mcds_tags_add(ngx_str_t *list, char *prefix, ngx_str_t *text)
{
    u_char      *to;
    size_t       len;
    ngx_str_t    words, rest, name, tag;
    ngx_uint_t   n;

    len = ngx_strlen(prefix);
    words = *text;

    while (ngx_mcds_word_next(&words, &tag) == NGX_OK) {

        if (ngx_mcds_tag_check(&tag) != NGX_OK
            || list->len + 1 + len + tag.len > NGX_MCDS_TAGS_LEN)
        {
            return NGX_DECLINED;
        }

        to = list->data + list->len;

        if (list->len) {
            *to++ = ' ';
        }

        name.data = to;
        to = ngx_cpymem(to, prefix, len);
        to = ngx_cpymem(to, tag.data, tag.len);
        name.len = to - name.data;

        /* a tag that the page's list of tags has already is not added again */

        rest = *list;

        for (n = 0; ngx_mcds_tags_next(&rest, &tag) == NGX_OK; n++) {
            if (tag.len == name.len
                && ngx_memcmp(tag.data, name.data, name.len) == 0)
            {
                to = NULL;
                break;
            }
        }

        if (to == NULL) {
            continue;
        }

        if (n == NGX_MCDS_TAGS_MAX) {
            return NGX_DECLINED;
        }

        list->len = to - list->data;
    }

    return NGX_OK;
}


ngx_int_t
ngx_mcds_tags_next(ngx_str_t *list, ngx_str_t *name)
{
    u_char  *p, *last;

    if (list->len == 0) {
        return NGX_DONE;
    }

    last = list->data + list->len;
    p = ngx_strlchr(list->data, last, ' ');

    if (p == NULL) {
        p = last;
    }

    name->data = list->data;
    name->len = p - name->data;

    p = ngx_min(p + 1, last);

    list->data = p;
    list->len = last - p;

    return NGX_OK;
}


u_char *
ngx_mcds_tags_put(u_char *p, uint64_t counter, ngx_str_t *list)
{
    ngx_uint_t  i;
    uint32_t    len;

    len = (uint32_t) list->len + 8;

    *p++ = NGX_MCDS_ENTRY_EXT_TAG;
    *p++ = 0;

    for (i = 0; i < 4; i++) {
        *p++ = (u_char) (len >> (8 * i));
    }

    for (i = 0; i < 8; i++) {
        *p++ = (u_char) (counter >> (8 * i));
    }

    return ngx_cpymem(p, list->data, list->len);
}


ngx_int_t
ngx_mcds_tags_get(ngx_mcds_entry_t *entry, uint64_t *counter, ngx_str_t *list)
{
    u_char      *p;
    ngx_str_t    ext;
    ngx_uint_t   i;

    if (ngx_mcds_entry_ext(entry, NGX_MCDS_ENTRY_EXT_TAG, &ext) != NGX_OK) {
        return NGX_DECLINED;
    }

    if (ext.len < 8 || ext.len > 8 + NGX_MCDS_TAGS_LEN) {
        return NGX_ERROR;
    }

    p = ext.data;
    *counter = 0;

    for (i = 0; i < 8; i++) {
        *counter |= (uint64_t) p[i] << (8 * i);
    }

    list->data = p + 8;
    list->len = ext.len - 8;

    return ngx_mcds_tags_check(list);
}


/*
 * Checks the names in a page's list of tags.  Each name must be valid, as it
 * becomes part of a memcached key: that of the tag's record.
 */

static ngx_int_t
ngx_mcds_tags_check(ngx_str_t *list)
{
    size_t       len;
    ngx_str_t    rest, name;
    ngx_uint_t   n;

    rest = *list;

    for (n = 0; ngx_mcds_tags_next(&rest, &name) == NGX_OK; n++) {

        if (n == NGX_MCDS_TAGS_MAX) {
            return NGX_ERROR;
        }

        if (name.len == 3 && ngx_strncmp(name.data, "all", 3) == 0) {
            continue;
        }

        len = (name.len > 4 && ngx_strncmp(name.data, "tag:", 4) == 0) ? 4
              : (name.len > 5 && ngx_strncmp(name.data, "host:", 5) == 0) ? 5
              : 0;

        name.data += len;
        name.len -= len;

        if (len == 0 || ngx_mcds_tag_check(&name) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}

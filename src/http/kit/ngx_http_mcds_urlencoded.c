
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_mcds_urlencoded.h"


ngx_int_t
ngx_http_mcds_urlencoded_next(ngx_str_t *args, ngx_str_t *name,
    ngx_str_t *value)
{
    u_char  *p, *last, *end, *equals;

    p = args->data;
    last = p + args->len;

    while (p < last && *p == '&') {
        p++;
    }

    if (p == last) {
        return NGX_DONE;
    }

    end = ngx_strlchr(p, last, '&');
    end = end ? end : last;

    equals = ngx_strlchr(p, end, '=');

    name->data = p;
    name->len = (equals ? equals : end) - p;

    value->data = equals ? equals + 1 : NULL;
    value->len = equals ? (size_t) (end - value->data) : 0;

    args->data = end;
    args->len = last - end;

    return NGX_OK;
}


ngx_int_t
ngx_http_mcds_urlencoded_decode(ngx_pool_t *pool, ngx_str_t *to,
    ngx_str_t *from)
{
    u_char     *p, *last, *d;
    ngx_int_t   ch;

    p = from->data;
    last = p + from->len;

    d = ngx_pnalloc(pool, from->len + 1);
    if (d == NULL) {
        return NGX_ERROR;
    }

    to->data = d;

    while (p < last) {

        if (*p == '+') {
            *d++ = ' ';
            p++;
            continue;
        }

        if (*p != '%') {
            *d++ = *p++;
            continue;
        }

        if (last - p < 3) {
            return NGX_DECLINED;
        }

        ch = ngx_hextoi(p + 1, 2);
        if (ch == NGX_ERROR) {
            return NGX_DECLINED;
        }

        *d++ = (u_char) ch;
        p += 3;
    }

    to->len = d - to->data;

    return NGX_OK;
}

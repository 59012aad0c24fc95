
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_json.h"


static size_t ngx_mcds_json_sequence(u_char *p, u_char *last);


uintptr_t
ngx_mcds_json_string(u_char *dst, ngx_str_t *text)
{
    size_t   n, len;
    u_char   buf[6], *p, *last;

    p = text->data;
    last = p + text->len;
    len = 0;

    while (p < last) {

        n = ngx_mcds_json_sequence(p, last);

        if (n == 0) {
            ngx_memcpy(buf, "\\ufffd", 6);
            n = 6;
            p++;

        } else if (n == 1 && (*p == '"' || *p == '\\')) {
            buf[0] = '\\';
            buf[1] = *p++;
            n = 2;

        } else if (n == 1
                   && (*p < 0x20 || *p == 0x7f || *p == '<' || *p == '>'
                       || *p == '&' || *p == '\''))
        {
            (void) ngx_sprintf(buf, "\\u%04xd", *p++);
            n = 6;

        } else {

            if (dst) {
                dst = ngx_cpymem(dst, p, n);
            }

            p += n;
            len += n;
            continue;
        }

        if (dst) {
            dst = ngx_cpymem(dst, buf, n);
        }

        len += n;
    }

    return dst ? (uintptr_t) dst : (uintptr_t) len;
}


ngx_uint_t
ngx_mcds_json_utf8(ngx_str_t *text)
{
    size_t   n;
    u_char  *p, *last;

    p = text->data;
    last = p + text->len;

    while (p < last) {
        n = ngx_mcds_json_sequence(p, last);

        if (n == 0) {
            return 0;
        }

        p += n;
    }

    return 1;
}


/* Returns the length of the UTF-8 character at p, or 0 if it is malformed. */

static size_t
ngx_mcds_json_sequence(u_char *p, u_char *last)
{
    size_t  n, i;
    u_char  low, high;

    low = 0x80;
    high = 0xbf;

    if (*p < 0x80) {
        return 1;

    } else if (*p >= 0xc2 && *p <= 0xdf) {
        n = 2;

    } else if (*p >= 0xe0 && *p <= 0xef) {
        n = 3;

        /*
         * a sequence of three bytes must be neither an overlong encoding nor
         * half of a surrogate pair
         */

        if (*p == 0xe0) {
            low = 0xa0;

        } else if (*p == 0xed) {
            high = 0x9f;
        }

    } else if (*p >= 0xf0 && *p <= 0xf4) {
        n = 4;

        if (*p == 0xf0) {
            low = 0x90;

        } else if (*p == 0xf4) {
            high = 0x8f;
        }

    } else {
        return 0;
    }

    if ((size_t) (last - p) < n || p[1] < low || p[1] > high) {
        return 0;
    }

    for (i = 2; i < n; i++) {
        if (p[i] < 0x80 || p[i] > 0xbf) {
            return 0;
        }
    }

    return n;
}


/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>


#define NGX_TOOL_DIGITS           64


typedef struct {
    u_char       pad;
    ngx_uint_t   width;
    ngx_uint_t   max_width;
    ngx_uint_t   is_signed;
    ngx_uint_t   hex;             /* 1: lower case, 2: upper case */
    ngx_uint_t   slen;            /* of %*s */
    ngx_uint_t   has_slen;
} ngx_tool_format_t;


static const char *ngx_tool_format(ngx_tool_format_t *f, const char *fmt,
    va_list *args);
static u_char *ngx_tool_put(u_char *p, u_char *last, const void *data,
    size_t len);
static u_char *ngx_tool_put_hex(u_char *p, u_char *last, const u_char *data,
    size_t len, ngx_uint_t upper);
static u_char *ngx_tool_put_text(u_char *p, u_char *last,
    ngx_tool_format_t *f, const u_char *data, size_t len);
static u_char *ngx_tool_put_number(u_char *p, u_char *last,
    ngx_tool_format_t *f, uint64_t n, ngx_uint_t minus);
static u_char *ngx_tool_put_integer(u_char *p, u_char *last,
    ngx_tool_format_t *f, u_char type, va_list *args);


u_char *
ngx_sprintf(u_char *buf, const char *fmt, ...)
{
    u_char   *p;
    va_list   args;

    va_start(args, fmt);
    p = ngx_vslprintf(buf, (u_char *) UINTPTR_MAX, fmt, args);
    va_end(args);

    return p;
}


u_char *
ngx_snprintf(u_char *buf, size_t max, const char *fmt, ...)
{
    u_char   *p;
    va_list   args;

    va_start(args, fmt);
    p = ngx_vslprintf(buf, buf + max, fmt, args);
    va_end(args);

    return p;
}


u_char *
ngx_slprintf(u_char *buf, u_char *last, const char *fmt, ...)
{
    u_char   *p;
    va_list   args;

    va_start(args, fmt);
    p = ngx_vslprintf(buf, last, fmt, args);
    va_end(args);

    return p;
}


u_char *
ngx_vslprintf(u_char *buf, u_char *last, const char *fmt, va_list given)
{
    u_char              *s, ch;
    va_list              args;
    ngx_str_t           *v;
    ngx_tool_format_t    f;

    va_copy(args, given);

    while (*fmt && buf < last) {

        if (*fmt != '%') {
            *buf++ = *fmt++;
            continue;
        }

        fmt = ngx_tool_format(&f, fmt + 1, &args);

        switch (*fmt) {

        case 'V':
            v = va_arg(args, ngx_str_t *);
            buf = ngx_tool_put_text(buf, last, &f, v->data, v->len);
            break;

        case 's':
            s = va_arg(args, u_char *);
            buf = ngx_tool_put_text(buf, last, &f, s,
                                    f.has_slen ? f.slen : ngx_strlen(s));
            break;

        case 'c':
            ch = (u_char) va_arg(args, int);
            buf = ngx_tool_put(buf, last, &ch, 1);
            break;

        case 'Z':
            buf = ngx_tool_put(buf, last, "", 1);
            break;

        case 'N':
            buf = ngx_tool_put(buf, last, "\n", 1);
            break;

        case '%':
            buf = ngx_tool_put(buf, last, "%", 1);
            break;

        default:
            buf = ngx_tool_put_integer(buf, last, &f, *fmt, &args);
        }

        if (*fmt) {
            fmt++;
        }
    }

    va_end(args);

    return buf;
}


/* what stands between "%" and the letter */

static const char *
ngx_tool_format(ngx_tool_format_t *f, const char *fmt, va_list *args)
{
    ngx_memzero(f, sizeof(ngx_tool_format_t));

    f->is_signed = 1;
    f->pad = (*fmt == '0') ? '0' : ' ';

    while (*fmt >= '0' && *fmt <= '9') {
        f->width = f->width * 10 + (*fmt++ - '0');
    }

    for ( ;; ) {
        switch (*fmt++) {

        case 'u':
            f->is_signed = 0;
            continue;

        case 'm':
            f->max_width = 1;
            continue;

        case 'x':
            f->hex = 1;
            f->is_signed = 0;
            continue;

        case 'X':
            f->hex = 2;
            f->is_signed = 0;
            continue;

        case '*':
            f->slen = va_arg(*args, size_t);
            f->has_slen = 1;
            continue;

        default:
            return fmt - 1;
        }
    }
}


static u_char *
ngx_tool_put(u_char *p, u_char *last, const void *data, size_t len)
{
    len = ngx_min(len, (size_t) (last - p));

    return len ? ngx_cpymem(p, data, len) : p;
}


static u_char *
ngx_tool_put_hex(u_char *p, u_char *last, const u_char *data, size_t len,
    ngx_uint_t upper)
{
    u_char  buf[2];
    size_t  i;

    for (i = 0; i < len; i++) {
        ngx_hex_dump(buf, (u_char *) &data[i], 1);

        if (upper) {
            buf[0] = ngx_toupper(buf[0]);
            buf[1] = ngx_toupper(buf[1]);
        }

        p = ngx_tool_put(p, last, buf, 2);
    }

    return p;
}


static u_char *
ngx_tool_put_text(u_char *p, u_char *last, ngx_tool_format_t *f,
    const u_char *data, size_t len)
{
    if (f->hex) {
        return ngx_tool_put_hex(p, last, data, len, f->hex == 2);
    }

    return ngx_tool_put(p, last, data, len);
}


static u_char *
ngx_tool_put_number(u_char *p, u_char *last, ngx_tool_format_t *f, uint64_t n,
    ngx_uint_t minus)
{
    u_char      buf[NGX_TOOL_DIGITS], *at;
    size_t      len;
    ngx_uint_t  base;

    at = buf + NGX_TOOL_DIGITS;
    base = f->hex ? 16 : 10;

    do {
        *--at = ((f->hex == 2) ? "0123456789ABCDEF"
                               : "0123456789abcdef")[n % base];
        n /= base;
    } while (n);

    if (minus) {
        p = ngx_tool_put(p, last, "-", 1);
    }

    len = buf + NGX_TOOL_DIGITS - at;

    for ( /* void */ ; f->width > len; f->width--) {
        p = ngx_tool_put(p, last, &f->pad, 1);
    }

    return ngx_tool_put(p, last, at, len);
}


static u_char *
ngx_tool_put_integer(u_char *p, u_char *last, ngx_tool_format_t *f,
    u_char type, va_list *args)
{
    int64_t     n;
    ngx_uint_t  minus;

    switch (type) {

    case 'd':
    case 'D':
        n = f->is_signed ? va_arg(*args, int)
                         : (int64_t) va_arg(*args, u_int);
        break;

    case 'P':
        n = va_arg(*args, ngx_pid_t);
        break;

    case 'p':
        n = va_arg(*args, uintptr_t);
        f->hex = 2;
        f->is_signed = 0;
        break;

    case 'z':
    case 'l':
    case 'i':
    case 'A':
        n = f->is_signed ? va_arg(*args, long)
                         : (int64_t) va_arg(*args, u_long);
        break;

    case 'M':
        n = va_arg(*args, ngx_msec_t);

        if (n == (int64_t) (ngx_msec_t) -1) {
            n = -1;

        } else {
            f->is_signed = 0;
        }

        break;

    case 'T':
        n = va_arg(*args, time_t);
        break;

    case 'O':
    case 'L':
    case 'r':
        n = va_arg(*args, int64_t);
        break;

    default:
        return p;
    }

    minus = (f->is_signed && n < 0);

    return ngx_tool_put_number(p, last, f,
                               minus ? (uint64_t) 0 - (uint64_t) n
                                     : (uint64_t) n,
                               minus);
}


u_char *
ngx_hex_dump(u_char *dst, u_char *src, size_t len)
{
    static u_char  hex[] = "0123456789abcdef";

    while (len--) {
        *dst++ = hex[*src >> 4];
        *dst++ = hex[*src++ & 0xf];
    }

    return dst;
}


u_char *
ngx_cpystrn(u_char *dst, u_char *src, size_t n)
{
    size_t  len;

    if (n == 0) {
        return dst;
    }

    len = strnlen((char *) src, n - 1);
    dst = ngx_cpymem(dst, src, len);
    *dst = '\0';

    return dst;
}


void
ngx_strlow(u_char *dst, u_char *src, size_t n)
{
    while (n--) {
        *dst++ = ngx_tolower(*src);
        src++;
    }
}


ngx_int_t
ngx_strncasecmp(u_char *s1, u_char *s2, size_t n)
{
    return strncasecmp((char *) s1, (char *) s2, n);
}


ngx_int_t
ngx_memn2cmp(u_char *s1, u_char *s2, size_t n1, size_t n2)
{
    ngx_int_t  rc;

    rc = ngx_memcmp(s1, s2, ngx_min(n1, n2));

    return rc ? rc : (n1 > n2) - (n1 < n2);
}


void
ngx_explicit_memzero(void *buf, size_t n)
{
    explicit_bzero(buf, n);
}


ngx_int_t
ngx_atoi(u_char *line, size_t n)
{
    ngx_int_t  value;

    if (n == 0) {
        return NGX_ERROR;
    }

    for (value = 0; n--; line++) {

        if (*line < '0' || *line > '9'
            || value > (NGX_MAX_INT_T_VALUE - (*line - '0')) / 10)
        {
            return NGX_ERROR;
        }

        value = value * 10 + (*line - '0');
    }

    return value;
}


time_t
ngx_atotm(u_char *line, size_t n)
{
    return ngx_atoi(line, n);
}


/* a number and a unit, several of them one after the other, "1h 30m" */

ngx_int_t
ngx_parse_time(ngx_str_t *line, ngx_uint_t is_sec)
{
    size_t       i, len;
    u_char      *p;
    int64_t      total, max, n, unit;

    /* milliseconds of each */

    static struct {
        char     *name;
        int64_t   ms;
    } units[] = {
        { "y", 31536000000 }, { "M", 2592000000 }, { "w", 604800000 },
        { "d", 86400000 }, { "h", 3600000 }, { "ms", 1 }, { "m", 60000 },
        { "s", 1000 }, { NULL, 0 }
    };

    p = line->data;
    len = line->len;
    total = 0;

    if (len == 0) {
        return NGX_ERROR;
    }

    /* of what is returned, in milliseconds */

    max = NGX_MAX_INT_T_VALUE;

    if (is_sec && max < INT64_MAX / 1000) {
        max *= 1000;
    }

    while (len) {
        for (i = 0; i < len && p[i] >= '0' && p[i] <= '9'; i++) { /* void */ }

        n = ngx_atoi(p, i);

        if (n == NGX_ERROR || n > 1000000000000) {
            return NGX_ERROR;
        }

        p += i;
        len -= i;
        unit = 1000;

        if (len && *p != ' ') {
            for (i = 0; units[i].name; i++) {
                if (len >= ngx_strlen(units[i].name)
                    && ngx_strncmp(p, units[i].name,
                                   ngx_strlen(units[i].name))
                       == 0)
                {
                    break;
                }
            }

            if (units[i].name == NULL || (is_sec && units[i].ms == 1)) {
                return NGX_ERROR;
            }

            unit = units[i].ms;
            p += ngx_strlen(units[i].name);
            len -= ngx_strlen(units[i].name);
        }

        if (n > (max - total) / unit) {
            return NGX_ERROR;
        }

        total += n * unit;

        while (len && *p == ' ') {
            p++;
            len--;
        }
    }

    return is_sec ? total / 1000 : total;
}


ssize_t
ngx_parse_size(ngx_str_t *line)
{
    ssize_t    size;
    size_t     len;
    ngx_int_t  shift;

    len = line->len;

    if (len == 0) {
        return NGX_ERROR;
    }

    switch (line->data[len - 1]) {

    case 'K':
    case 'k':
        shift = 10;
        len--;
        break;

    case 'M':
    case 'm':
        shift = 20;
        len--;
        break;

    default:
        shift = 0;
    }

    size = ngx_atoi(line->data, len);

    if (size == NGX_ERROR || size > (NGX_MAX_INT_T_VALUE >> shift)) {
        return NGX_ERROR;
    }

    return size << shift;
}

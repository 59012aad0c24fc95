
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_codec.h"
#include "ngx_mcds_key.h"


/* the maximum length of the excerpt of a malformed reply that is logged */
#define NGX_MCDS_MAX_TEXT         128

/*
 * the largest number that is accepted in the version of a server; the numbers
 * in memcached's versions are far smaller
 */
#define NGX_MCDS_MAX_VERSION      1000000

/*
 * Flags that memcached adds to a reply although the command did not request
 * them: another client has marked the item as stale (md with I), or is about to
 * recache the item (mg with N or R), protocol.txt, "Meta Get".  The parser
 * accepts and ignores these flags.
 */

#define NGX_MCDS_WON              0x0100
#define NGX_MCDS_STALE            0x0200
#define NGX_MCDS_SENT             0x0400
#define NGX_MCDS_UNTOLD           0x0700

/*
 * the largest number of 64 bits in decimal, without its last digit; and this
 * digit
 */

#define NGX_MCDS_CUTOFF           ((uint64_t) -1 / 10)
#define NGX_MCDS_CUTLIM           ((uint64_t) -1 % 10)

#define ngx_mcds_word(a, b)       ((ngx_uint_t) (a) << 8 | (b))

#define ngx_mcds_text_is(text, s)                                             \
    ((text)->len == sizeof(s) - 1                                             \
     && ngx_memcmp((text)->data, s, sizeof(s) - 1) == 0)


static ngx_int_t ngx_mcds_parse_meta(ngx_mcds_reply_t *reply, u_char *p,
    u_char *last);
static ngx_int_t ngx_mcds_parse_flags(ngx_mcds_reply_t *reply, u_char *p,
    u_char *last);
static ngx_int_t ngx_mcds_parse_text(ngx_str_t *text, u_char *p,
    u_char *last);
static u_char *ngx_mcds_parse_ttl(int64_t *ttl, u_char *p, u_char *last);
static u_char *ngx_mcds_parse_hex(uint32_t *number, u_char *p, u_char *last);
static u_char *ngx_mcds_parse_digits(uint64_t *number, u_char *p,
    u_char *last);
static void ngx_mcds_parse_excerpt(ngx_str_t *text, u_char *p, u_char *last);


ngx_int_t
ngx_mcds_parse(ngx_mcds_reply_t *reply, ngx_buf_t *b)
{
    u_char     *p, *last, *end;
    ngx_int_t   rc;

    rc = ngx_mcds_parse_line(reply, b, &end);

    if (rc != NGX_OK) {
        return rc;
    }

    p = b->pos;
    last = end;

    /* memcached before 1.6.18 may leave one space at the end of a reply line */

    if (last > p && last[-1] == ' ') {
        last--;
    }

    if (ngx_mcds_parse_meta(reply, p, last) != NGX_OK) {
        return ngx_mcds_parse_failed(reply, p, last);
    }

    b->pos = end + 2;

    return NGX_OK;
}


ngx_int_t
ngx_mcds_parse_line(ngx_mcds_reply_t *reply, ngx_buf_t *b, u_char **last)
{
    u_char  *p, *lf;
    size_t   len;

    ngx_memzero(reply, sizeof(ngx_mcds_reply_t));

    p = b->pos;
    len = b->last - p;

    if (len == 0) {
        return NGX_AGAIN;
    }

    lf = memchr(p, LF, ngx_min(len, NGX_MCDS_MAX_LINE + 1));

    if (lf == NULL) {

        if (len <= NGX_MCDS_MAX_LINE) {
            return NGX_AGAIN;
        }

        return ngx_mcds_parse_failed(reply, p, b->last);
    }

    if (lf == p || lf[-1] != CR) {
        return ngx_mcds_parse_failed(reply, p, lf);
    }

    *last = lf - 1;

    return NGX_OK;
}


static ngx_int_t
ngx_mcds_parse_meta(ngx_mcds_reply_t *reply, u_char *p, u_char *last)
{
    uint64_t  n;

    if (last - p < 2) {
        return NGX_ERROR;
    }

    if (last - p > 2 && p[2] != ' ') {
        return ngx_mcds_parse_words(reply, p, last);
    }

    switch (ngx_mcds_word(p[0], p[1])) {

    case ngx_mcds_word('V', 'A'):

        p += 2;

        if (p == last) {
            return NGX_ERROR;
        }

        /*
         * the length of a value is at most INT64_MAX, as the caller adds the
         * length of a CRLF
         */

        p = ngx_mcds_parse_decimal(&n, INT64_MAX, p + 1, last);
        if (p == NULL) {
            return NGX_ERROR;
        }

        reply->len = (size_t) ngx_min(n, NGX_MAX_SIZE_T_VALUE);
        reply->has = NGX_MCDS_VALUE;

        return ngx_mcds_parse_flags(reply, p, last);

    case ngx_mcds_word('H', 'D'):
        break;

    case ngx_mcds_word('E', 'N'):
    case ngx_mcds_word('N', 'F'):
        reply->rc = NGX_MCDS_NOT_FOUND;
        break;

    case ngx_mcds_word('N', 'S'):
        reply->rc = NGX_MCDS_NOT_STORED;
        break;

    case ngx_mcds_word('E', 'X'):
        reply->rc = NGX_MCDS_EXISTS;
        break;

    case ngx_mcds_word('M', 'N'):

        if (last - p != 2) {
            return NGX_ERROR;
        }

        reply->noop = 1;

        return NGX_OK;

    default:
        return NGX_ERROR;
    }

    return ngx_mcds_parse_flags(reply, p + 2, last);
}


static ngx_int_t
ngx_mcds_parse_flags(ngx_mcds_reply_t *reply, u_char *p, u_char *last)
{
    uint64_t    n;
    ngx_uint_t  flag, seen;

    seen = 0;

    while (p < last) {

        if (last - p < 2 || *p != ' ') {
            return NGX_ERROR;
        }

        p += 2;

        switch (p[-1]) {

        case 'k':
            flag = NGX_MCDS_KEY;
            p = ngx_mcds_parse_key(&reply->key, p, last);
            break;

        case 'O':
            flag = NGX_MCDS_OPAQUE;
            p = ngx_mcds_parse_hex(&reply->opaque, p, last);
            break;

        case 'c':
            flag = NGX_MCDS_CAS;
            p = ngx_mcds_parse_decimal(&reply->cas, (uint64_t) -1, p, last);
            break;

        case 't':
            flag = NGX_MCDS_TTL;
            p = ngx_mcds_parse_ttl(&reply->ttl, p, last);
            break;

        case 'f':
            flag = NGX_MCDS_FLAGS;
            p = ngx_mcds_parse_decimal(&n, (uint32_t) -1, p, last);
            reply->flags = (uint32_t) n;
            break;

        case 'W':
            flag = NGX_MCDS_WON;
            break;

        case 'X':
            flag = NGX_MCDS_STALE;
            break;

        case 'Z':
            flag = NGX_MCDS_SENT;
            break;

        default:
            return NGX_ERROR;
        }

        if (p == NULL || seen & flag) {
            return NGX_ERROR;
        }

        seen |= flag;
    }

    reply->has |= seen & ~(ngx_uint_t) NGX_MCDS_UNTOLD;

    return NGX_OK;
}


ngx_int_t
ngx_mcds_parse_words(ngx_mcds_reply_t *reply, u_char *p, u_char *last)
{
    size_t      len;
    ngx_str_t  *text;

    text = &reply->text;
    len = last - p;

    if (len > sizeof("VERSION ") - 1
        && ngx_memcmp(p, "VERSION ", sizeof("VERSION ") - 1) == 0)
    {
        p += sizeof("VERSION ") - 1;

        reply->version = 1;

        return ngx_mcds_parse_text(text, p, last);
    }

    if (len > sizeof("SERVER_ERROR ") - 1
        && ngx_memcmp(p, "SERVER_ERROR ", sizeof("SERVER_ERROR ") - 1) == 0)
    {
        p += sizeof("SERVER_ERROR ") - 1;

        if (ngx_mcds_parse_text(text, p, last) != NGX_OK) {
            return NGX_ERROR;
        }

        if (ngx_mcds_text_is(text, "object too large for cache")) {
            reply->rc = NGX_MCDS_TOO_LARGE;

        } else {
            reply->rc = NGX_MCDS_SERVER_ERROR;
        }

        return NGX_OK;
    }

    if (len > sizeof("CLIENT_ERROR ") - 1
        && ngx_memcmp(p, "CLIENT_ERROR ", sizeof("CLIENT_ERROR ") - 1) == 0)
    {
        text->data = p + sizeof("CLIENT_ERROR ") - 1;
        text->len = last - text->data;

        /*
         * only the CLIENT_ERROR about a value that is no number is a valid
         * reply: any other means that the client sent a malformed command, a
         * bug
         */

        if (ngx_mcds_text_is(text, "cannot increment or decrement "
                                   "non-numeric value"))
        {
            reply->rc = NGX_MCDS_NOT_NUMERIC;
            return NGX_OK;
        }
    }

    return NGX_ERROR;
}


static ngx_int_t
ngx_mcds_parse_text(ngx_str_t *text, u_char *p, u_char *last)
{
    text->data = p;
    text->len = last - p;

    for ( /* void */ ; p < last; p++) {
        if (*p < ' ' || *p == 0x7f) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


u_char *
ngx_mcds_parse_key(ngx_str_t *key, u_char *p, u_char *last)
{
    key->data = p;

    p = ngx_mcds_key_end(p, last);

    key->len = p - key->data;

    if (key->len == 0
        || key->len > NGX_MCDS_MAX_KEY
        || (p < last && *p != ' '))
    {
        return NULL;
    }

    return p;
}


static u_char *
ngx_mcds_parse_ttl(int64_t *ttl, u_char *p, u_char *last)
{
    uint64_t  n;

    if (last - p >= 2 && p[0] == '-' && p[1] == '1') {
        *ttl = -1;
        return p + 2;
    }

    p = ngx_mcds_parse_decimal(&n, (uint64_t) -1 / 2, p, last);

    *ttl = (int64_t) n;

    return p;
}


/*
 * Parses the opaque of a reply, a hexadecimal number, in the format in which
 * the command sent the opaque: lower case, no leading zeros.
 */

static u_char *
ngx_mcds_parse_hex(uint32_t *number, u_char *p, u_char *last)
{
    u_char    *start, ch;
    uint32_t   n;

    n = 0;
    start = p;

    for ( /* void */ ; p < last && *p != ' '; p++) {

        ch = *p;

        if (ch >= '0' && ch <= '9') {
            ch -= '0';

        } else if (ch >= 'a' && ch <= 'f') {
            ch -= 'a' - 10;

        } else {
            return NULL;
        }

        n = n << 4 | ch;
    }

    if (p == start || p - start > 8 || (*start == '0' && p - start > 1)) {
        return NULL;
    }

    *number = n;

    return p;
}


/*
 * Parses a decimal number, and stops at the first byte that is not a digit,
 * which the caller has to check.
 */

u_char *
ngx_mcds_parse_decimal(uint64_t *number, uint64_t max, u_char *p,
    u_char *last)
{
    u_char  *start;

    start = p;

    p = ngx_mcds_parse_digits(number, p, last);

    if (p == NULL || *number > max || (*start == '0' && p - start > 1)) {
        return NULL;
    }

    return p;
}


static u_char *
ngx_mcds_parse_digits(uint64_t *number, u_char *p, u_char *last)
{
    u_char    *start, digit;
    uint64_t   n;

    n = 0;
    *number = 0;

    for (start = p; p < last; p++) {

        digit = (u_char) (*p - '0');

        if (digit > 9) {
            break;
        }

        if (n >= NGX_MCDS_CUTOFF
            && (n > NGX_MCDS_CUTOFF || digit > NGX_MCDS_CUTLIM))
        {
            return NULL;
        }

        n = n * 10 + digit;
    }

    if (p == start) {
        return NULL;
    }

    *number = n;

    return p;
}


ngx_int_t
ngx_mcds_parse_failed(ngx_mcds_reply_t *reply, u_char *p, u_char *last)
{
    ngx_memzero(reply, sizeof(ngx_mcds_reply_t));
    ngx_mcds_parse_excerpt(&reply->text, p, last);

    return NGX_ERROR;
}


/*
 * Takes the beginning of a malformed line of a reply, up to the first control
 * character, for the log.
 */

static void
ngx_mcds_parse_excerpt(ngx_str_t *text, u_char *p, u_char *last)
{
    text->data = p;

    last = ngx_min(last, p + NGX_MCDS_MAX_TEXT);

    while (p < last && *p >= ' ' && *p != 0x7f) {
        p++;
    }

    text->len = p - text->data;
}


ngx_int_t
ngx_mcds_parse_number(u_char *data, size_t len, uint64_t *number)
{
    u_char    *p, *last;
    uint64_t   n;

    if (len == 0) {
        return NGX_ERROR;
    }

    last = data + len;

    /*
     * a counter that another program has stored may have leading zeros:
     * memcached increments a number with leading zeros
     */

    p = ngx_mcds_parse_digits(&n, data, last);

    if (p == NULL || (size_t) (p - data) > NGX_INT64_LEN) {
        return NGX_ERROR;
    }

    while (p < last) {
        if (*p++ != ' ') {
            return NGX_ERROR;
        }
    }

    *number = n;

    return NGX_OK;
}


ngx_int_t
ngx_mcds_version_at_least(ngx_str_t *text, ngx_uint_t major,
    ngx_uint_t minor, ngx_uint_t patch)
{
    u_char      *p, *last;
    uint64_t     n;
    ngx_int_t    rc;
    ngx_uint_t   i, least[3];

    if (text->len == 0) {
        return NGX_ERROR;
    }

    least[0] = major;
    least[1] = minor;
    least[2] = patch;

    p = text->data;
    last = text->data + text->len;

    /*
     * the first part of a server's version that differs decides which version
     * is older, but all parts must be well-formed
     */

    rc = NGX_AGAIN;

    for (i = 0; i < 3; i++) {

        if (i > 0) {
            if (p == last || *p++ != '.') {
                return NGX_ERROR;
            }
        }

        p = ngx_mcds_parse_decimal(&n, NGX_MCDS_MAX_VERSION, p, last);
        if (p == NULL) {
            return NGX_ERROR;
        }

        if (rc == NGX_AGAIN && n != least[i]) {
            rc = (n > least[i]) ? NGX_OK : NGX_DECLINED;
        }
    }

    return (rc == NGX_AGAIN) ? NGX_OK : rc;
}

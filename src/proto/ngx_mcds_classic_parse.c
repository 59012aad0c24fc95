
/*
 * Copyright (C) mcds authors
 *
 * Parses replies of the classic protocol of memcached.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_codec.h"


typedef struct {
    ngx_str_t     name;
    ngx_uint_t    word;
    ngx_uint_t    rc;
} ngx_mcds_classic_word_t;


static ngx_int_t ngx_mcds_classic_parse_reply(ngx_mcds_reply_t *reply,
    u_char *p, u_char *last, ngx_uint_t words);
static ngx_int_t ngx_mcds_classic_parse_value(ngx_mcds_reply_t *reply,
    u_char *p, u_char *last, ngx_uint_t words);
static ngx_int_t ngx_mcds_classic_parse_number(ngx_mcds_reply_t *reply,
    u_char *p, u_char *last);
static ngx_int_t ngx_mcds_classic_parse_stat(ngx_mcds_reply_t *reply,
    u_char *p, u_char *last);


/* the replies of the classic protocol that consist of one word */

static ngx_mcds_classic_word_t  ngx_mcds_classic_table[] = {
    { ngx_string("END"), NGX_MCDS_WORD_END, NGX_MCDS_NOT_FOUND },
    { ngx_string("STORED"), NGX_MCDS_WORD_STORED, NGX_MCDS_OK },
    { ngx_string("NOT_STORED"), NGX_MCDS_WORD_NOT_STORED,
      NGX_MCDS_NOT_STORED },
    { ngx_string("EXISTS"), NGX_MCDS_WORD_EXISTS, NGX_MCDS_EXISTS },
    { ngx_string("NOT_FOUND"), NGX_MCDS_WORD_NOT_FOUND, NGX_MCDS_NOT_FOUND },
    { ngx_string("DELETED"), NGX_MCDS_WORD_DELETED, NGX_MCDS_OK },
    { ngx_string("TOUCHED"), NGX_MCDS_WORD_TOUCHED, NGX_MCDS_OK },
    { ngx_string("ERROR"), NGX_MCDS_WORD_ERROR, NGX_MCDS_SERVER_ERROR },
    { ngx_null_string, 0, 0 }
};


ngx_int_t
ngx_mcds_classic_parse(ngx_mcds_reply_t *reply, ngx_buf_t *b,
    ngx_uint_t words)
{
    u_char     *last;
    ngx_int_t   rc;

    rc = ngx_mcds_parse_line(reply, b, &last);

    if (rc != NGX_OK) {
        return rc;
    }

    if (ngx_mcds_classic_parse_reply(reply, b->pos, last, words) != NGX_OK) {
        return ngx_mcds_parse_failed(reply, b->pos, last);
    }

    b->pos = last + 2;

    return NGX_OK;
}


static ngx_int_t
ngx_mcds_classic_parse_reply(ngx_mcds_reply_t *reply, u_char *p, u_char *last,
    ngx_uint_t words)
{
    size_t                    len;
    ngx_mcds_classic_word_t  *w;

    len = last - p;

    if (len > 6 && ngx_memcmp(p, "VALUE ", 6) == 0) {
        return ngx_mcds_classic_parse_value(reply, p + 6, last, words);
    }

    if (len > 5 && ngx_memcmp(p, "STAT ", 5) == 0
        && (words & NGX_MCDS_WORD_STAT))
    {
        return ngx_mcds_classic_parse_stat(reply, p + 5, last);
    }

    if (len && *p >= '0' && *p <= '9' && (words & NGX_MCDS_WORD_NUMBER)) {
        return ngx_mcds_classic_parse_number(reply, p, last);
    }

    for (w = ngx_mcds_classic_table; w->name.len; w++) {

        if ((words & w->word)
            && len == w->name.len
            && ngx_memcmp(p, w->name.data, len) == 0)
        {
            reply->rc = w->rc;
            return NGX_OK;
        }
    }

    if (ngx_mcds_parse_words(reply, p, last) != NGX_OK) {
        return NGX_ERROR;
    }

    if (reply->version) {
        return (words & NGX_MCDS_WORD_VERSION) ? NGX_OK : NGX_ERROR;
    }

    if (reply->rc == NGX_MCDS_NOT_NUMERIC) {
        return (words & NGX_MCDS_WORD_NUMBER) ? NGX_OK : NGX_ERROR;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_mcds_classic_parse_value(ngx_mcds_reply_t *reply, u_char *p, u_char *last,
    ngx_uint_t words)
{
    uint64_t  n;

    if (!(words & (NGX_MCDS_WORD_VALUE|NGX_MCDS_WORD_VALUE_CAS))) {
        return NGX_ERROR;
    }

    p = ngx_mcds_parse_key(&reply->key, p, last);
    if (p == NULL || p == last) {
        return NGX_ERROR;
    }

    p = ngx_mcds_parse_decimal(&n, (uint32_t) -1, p + 1, last);
    if (p == NULL || p == last || *p != ' ') {
        return NGX_ERROR;
    }

    reply->flags = (uint32_t) n;

    p = ngx_mcds_parse_decimal(&n, INT64_MAX, p + 1, last);
    if (p == NULL) {
        return NGX_ERROR;
    }

    reply->len = (size_t) ngx_min(n, NGX_MAX_SIZE_T_VALUE);
    reply->has = NGX_MCDS_VALUE|NGX_MCDS_FLAGS|NGX_MCDS_KEY;

    if (words & NGX_MCDS_WORD_VALUE_CAS) {

        if (p == last || *p != ' ') {
            return NGX_ERROR;
        }

        p = ngx_mcds_parse_decimal(&reply->cas, (uint64_t) -1, p + 1, last);
        if (p == NULL) {
            return NGX_ERROR;
        }

        reply->has |= NGX_MCDS_CAS;
    }

    return (p == last) ? NGX_OK : NGX_ERROR;
}


static ngx_int_t
ngx_mcds_classic_parse_number(ngx_mcds_reply_t *reply, u_char *p,
    u_char *last)
{
    uint64_t  n;

    reply->text.data = p;
    reply->text.len = last - p;
    reply->number = 1;

    return (ngx_mcds_parse_decimal(&n, (uint64_t) -1, p, last) == last)
               ? NGX_OK : NGX_ERROR;
}


/*
 * Parses a line "STAT name value" of the reply to "stats", from the name on.
 * The value, which may be empty, extends to the end of the line.
 */

static ngx_int_t
ngx_mcds_classic_parse_stat(ngx_mcds_reply_t *reply, u_char *p, u_char *last)
{
    p = ngx_mcds_parse_key(&reply->key, p, last);
    if (p == NULL) {
        return NGX_ERROR;
    }

    reply->text.data = (p < last) ? p + 1 : p;
    reply->text.len = last - reply->text.data;
    reply->stat = 1;

    return NGX_OK;
}

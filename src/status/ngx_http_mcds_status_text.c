
/*
 * Copyright (C) mcds authors
 *
 * The text of a status response: a chain of buffers that grows, and is sent.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_header.h"
#include "ngx_http_mcds_status.h"


/*
 * bytes of each buffer of a response's text, unless a piece of the text is
 * larger
 */
#define NGX_HTTP_MCDS_STATUS_BUF  16384


ngx_int_t
ngx_http_mcds_status_send(ngx_http_request_t *r,
    ngx_http_mcds_status_text_t *text, ngx_uint_t status, char *type)
{
    ngx_int_t  rc;

    if (text->failed) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    text->last->buf->last_buf = (r == r->main) ? 1 : 0;
    text->last->buf->last_in_chain = 1;

    r->headers_out.content_length_n = text->size;

    rc = ngx_http_mcds_header_send(r, status, type);

    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) {
        return rc;
    }

    return ngx_http_output_filter(r, text->first);
}


u_char *
ngx_http_mcds_status_room(ngx_http_mcds_status_text_t *text, size_t n)
{
    ngx_buf_t    *b;
    ngx_chain_t  *cl;

    if (text->failed) {
        return NULL;
    }

    if (text->last) {
        b = text->last->buf;

        if ((size_t) (b->end - b->last) >= n) {
            return b->last;
        }
    }

    b = ngx_create_temp_buf(text->pool, ngx_max(n, NGX_HTTP_MCDS_STATUS_BUF));
    cl = ngx_alloc_chain_link(text->pool);

    if (b == NULL || cl == NULL) {
        text->failed = 1;
        return NULL;
    }

    cl->buf = b;
    cl->next = NULL;

    if (text->last) {
        text->last->next = cl;

    } else {
        text->first = cl;
    }

    text->last = cl;

    return b->last;
}


void
ngx_http_mcds_status_add(ngx_http_mcds_status_text_t *text, u_char *end)
{
    ngx_buf_t  *b;

    b = text->last->buf;

    text->size += end - b->last;
    b->last = end;
}


/*
 * a constant text is copied to a buffer of the response, since filters may
 * change the buffer
 */

void
ngx_http_mcds_status_copy(ngx_http_mcds_status_text_t *text, char *s,
    size_t len)
{
    u_char  *p;

    if (len == 0) {
        return;
    }

    p = ngx_http_mcds_status_room(text, len);

    if (p) {
        ngx_http_mcds_status_add(text, ngx_cpymem(p, s, len));
    }
}


void
ngx_http_mcds_status_printf(ngx_http_mcds_status_text_t *text,
    const char *fmt, ...)
{
    u_char   *p;
    va_list   args;

    p = ngx_http_mcds_status_room(text, NGX_HTTP_MCDS_STATUS_PIECE);
    if (p == NULL) {
        return;
    }

    va_start(args, fmt);
    p = ngx_vslprintf(p, p + NGX_HTTP_MCDS_STATUS_PIECE, fmt, args);
    va_end(args);

    ngx_http_mcds_status_add(text, p);
}


/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_header.h"
#include "ngx_http_mcds_text.h"


/* bytes of each buffer of a response's text */
#define NGX_HTTP_MCDS_PIECE       16384


void
ngx_http_mcds_text_put(ngx_http_mcds_text_t *text, u_char *data, size_t len)
{
    size_t        n;
    ngx_buf_t    *b;
    ngx_chain_t  *cl;

    text->size += len;

    while (len && !text->failed) {

        b = text->last ? text->last->buf : NULL;

        if (b == NULL || b->last == b->end) {

            b = ngx_create_temp_buf(text->pool, NGX_HTTP_MCDS_PIECE);
            cl = ngx_alloc_chain_link(text->pool);

            if (b == NULL || cl == NULL) {
                text->failed = 1;
                return;
            }

            cl->buf = b;
            cl->next = NULL;

            if (text->last) {
                text->last->next = cl;

            } else {
                text->first = cl;
            }

            text->last = cl;
        }

        n = ngx_min(len, (size_t) (b->end - b->last));

        b->last = ngx_cpymem(b->last, data, n);
        data += n;
        len -= n;
    }
}


ngx_int_t
ngx_http_mcds_text_send(ngx_http_request_t *r, ngx_http_mcds_text_t *text,
    ngx_uint_t type)
{
    ngx_int_t  rc;

    static char  *types[] = {
        "application/json", "application/x-ndjson", "text/plain"
    };

    if (text->failed) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    r->headers_out.content_length_n = text->size;

    rc = ngx_http_mcds_header_send(r, NGX_HTTP_OK, types[type]);

    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) {
        return rc;
    }

    if (text->first == NULL) {
        return ngx_http_send_special(r, NGX_HTTP_LAST);
    }

    text->last->buf->last_buf = (r == r->main);
    text->last->buf->last_in_chain = 1;

    return ngx_http_output_filter(r, text->first);
}


/*
 * Copyright (C) mcds authors
 *
 * RFC 9111, 4.3.5: HEAD that goes to the origin although there is a page, since
 * the request does not accept it, or since it must not be shown any more.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_module.h"
#include "ngx_http_mcds_variant.h"


static ngx_uint_t ngx_http_mcds_head_same(ngx_list_t *headers,
    ngx_str_t *name, ngx_str_t *value);


ngx_uint_t
ngx_http_mcds_head_differs(ngx_http_request_t *r, ngx_http_mcds_ctx_t *ctx)
{
    ngx_str_t             rest, name, value;
    ngx_list_t           *headers;
    ngx_mcds_entry_t     *entry;
    ngx_http_upstream_t  *u;

    u = r->upstream;

    if (r->method != NGX_HTTP_HEAD
        || ctx->copy == NULL
        || !ctx->conf->cache_invalidate
        || ctx->serving
        || ctx->instead
        || u == NULL
        || u->headers_in.status_n != NGX_HTTP_OK
        || r->headers_out.status != NGX_HTTP_OK)
    {
        return 0;
    }

    entry = &ctx->copy->entry;

    if (entry->kind != NGX_MCDS_ENTRY_PAGE
        || entry->status != NGX_HTTP_OK
        || ngx_mcds_copy_signed(ctx->copy, ctx->conf->secrets) != NGX_OK)
    {
        return 0;
    }

    /*
     * A page that has expired already is left alone: it is to be asked for
     * anyway, and what is just being built is to take its place.
     */

    if (ctx->expired
        || ngx_http_mcds_variant_expire(ctx) <= ngx_mcds_now())
    {
        return 0;
    }

    if (u->headers_in.content_length_n >= 0
        && (uint64_t) u->headers_in.content_length_n != entry->length)
    {
        return 1;
    }

    headers = &u->headers_in.headers;
    rest = entry->headers;

    while (ngx_mcds_entry_header(&rest, &name, &value) == NGX_OK) {

        if ((ngx_http_mcds_header_is(&name, "ETag")
             || ngx_http_mcds_header_is(&name, "Last-Modified"))
            && !ngx_http_mcds_head_same(headers, &name, &value))
        {
            return 1;
        }
    }

    return 0;
}


/* or not there at all, which says nothing */

static ngx_uint_t
ngx_http_mcds_head_same(ngx_list_t *headers, ngx_str_t *name, ngx_str_t *value)
{
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h;

    for (part = &headers->part; part; part = part->next) {

        h = part->elts;

        for (i = 0; i < part->nelts; i++) {

            if (h[i].key.len == name->len
                && ngx_strncasecmp(h[i].key.data, name->data, name->len) == 0)
            {
                return h[i].value.len == value->len
                       && ngx_memcmp(h[i].value.data, value->data, value->len)
                          == 0;
            }
        }
    }

    return 1;
}

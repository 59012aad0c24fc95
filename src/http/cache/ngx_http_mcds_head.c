
/*
 * Copyright (C) mcds authors
 *
 * RFC 9111, 4.3.5: HEAD that goes to the origin although there is a page, since
 * the request does not accept it, or since it must not be shown any more.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"
#include "ngx_http_mcds_head.h"
#include "ngx_http_mcds_route.h"
#include "ngx_http_mcds_vary.h"


static ngx_int_t ngx_http_mcds_head_judge(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);
static ngx_str_t *ngx_http_mcds_head_find(ngx_list_t *headers,
    ngx_str_t *name);


static ngx_str_t  ngx_http_mcds_validators[] = {
    ngx_string("ETag"),
    ngx_string("Last-Modified"),
    ngx_null_string
};


ngx_uint_t
ngx_http_mcds_head_differs(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx)
{
    /*
     * A page that has expired already is left alone: it is to be asked for
     * anyway, and what is just being built is to take its place.
     */

    return r->method == NGX_HTTP_HEAD
           && ctx->copy
           && ctx->conf->cache_invalidate
           && !ctx->expired
           && ngx_http_mcds_vary_expire(ctx) > ngx_mcds_now()
           && ngx_http_mcds_head_judge(r, ctx) == NGX_DECLINED;
}


ngx_uint_t
ngx_http_mcds_head_same(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_mcds_entry_t            *entry;
    ngx_http_mcds_cache_conf_t  *ccf;

    if (r->method != NGX_HTTP_HEAD
        || r != r->main
        || ctx->copy == NULL
        || ctx->dry
        || ctx->replace
        || ctx->no_store
        || ctx->authorization)
    {
        /* or, with mcds_cache_bypass, it was not asked what was purged */

        return 0;
    }

    entry = &ctx->copy->entry;

    /*
     * A purge says that the page is another one now, whatever its validators
     * are; and a page that is validated for each request gains nothing.
     */

    if ((entry->flags & (NGX_MCDS_ENTRY_INVALID|NGX_MCDS_ENTRY_VALIDATE))
        || ngx_http_mcds_vary_purged(ctx)
        || (ctx->expired && entry->expire > ngx_mcds_now()))
    {
        return 0;
    }

    ccf = ngx_http_get_module_loc_conf(r, ngx_http_mcds_cache_module);

    return ccf == ctx->conf
           && !r->err_status
           && !ngx_http_mcds_replaced(r, ctx)
           && !ngx_http_mcds_is_accel(r)
           && !ngx_http_mcds_route_left(r, ctx)
           && ngx_http_mcds_head_judge(r, ctx) == NGX_OK
           && ngx_http_test_predicates(r, ccf->no_cache) == NGX_OK
           && ngx_http_test_predicates(r, ctx->asker->no_cache) == NGX_OK;
}


/*
 * NGX_OK: all validators of the answer, and its length, are those of the page
 * in ctx->copy; NGX_DECLINED: another is, or there is no validator, so that the
 * page is no longer known to be the same; NGX_DONE: the answer does not count.
 */

static ngx_int_t
ngx_http_mcds_head_judge(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_str_t            *validator, *new, old, rest;
    ngx_uint_t            same;
    ngx_mcds_entry_t     *entry;
    ngx_http_upstream_t  *u;

    u = r->upstream;

    if (ngx_http_mcds_serving(ctx)
        || ctx->instead
        || u == NULL
        || u->headers_in.status_n != NGX_HTTP_OK
        || r->headers_out.status != NGX_HTTP_OK)
    {
        return NGX_DONE;
    }

    entry = &ctx->copy->entry;

    if (entry->kind != NGX_MCDS_ENTRY_PAGE
        || entry->status != NGX_HTTP_OK
        || ngx_mcds_copy_signed(ctx->copy, ctx->conf->secrets) != NGX_OK)
    {
        return NGX_DONE;
    }

    if (u->headers_in.content_length_n >= 0
        && (uint64_t) u->headers_in.content_length_n != entry->length)
    {
        return NGX_DECLINED;
    }

    same = 0;

    for (validator = ngx_http_mcds_validators; validator->len; validator++) {

        /* a validator that the location hides is not stored, either */

        new = ngx_http_mcds_head_find(&r->headers_out.headers, validator);

        if (new == NULL) {
            continue;
        }

        rest = entry->headers;

        if (ngx_mcds_entry_find(&rest, validator, &old) != NGX_OK
            || !ngx_mcds_same(new, &old))
        {
            return NGX_DECLINED;
        }

        same = 1;
    }

    return same ? NGX_OK : NGX_DECLINED;
}


static ngx_str_t *
ngx_http_mcds_head_find(ngx_list_t *headers, ngx_str_t *name)
{
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h;

    for (part = &headers->part; part; part = part->next) {

        h = part->elts;

        for (i = 0; i < part->nelts; i++) {

            if (h[i].hash
                && h[i].key.len == name->len
                && ngx_strncasecmp(h[i].key.data, name->data, name->len) == 0)
            {
                return &h[i].value;
            }
        }
    }

    return NULL;
}


/*
 * Copyright (C) mcds authors
 *
 * RFC 9111, 4.3.5: compares the origin's response to a HEAD request with the
 * stored page.  The request went to the origin, for example, since its
 * Cache-Control excludes the page, or since the page has expired.  The response
 * may invalidate the page, or renew it.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_nginx.h"
#include "ngx_http_mcds_cache.h"
#include "ngx_http_mcds_admission.h"
#include "ngx_http_mcds_head.h"
#include "ngx_http_mcds_route.h"
#include "ngx_http_mcds_vary.h"


static ngx_uint_t ngx_http_mcds_head_tells(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);
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
     * The response to a HEAD request does not invalidate an expired page: the
     * page will be revalidated anyway, or a new one that is being built
     * replaces it.  Nor does the response to a HEAD request that goes to the
     * origin only because of mcds_cache_dry_run.
     */

    return ngx_http_mcds_head_tells(r, ctx)
           && !(ctx->dry && ctx->status == NGX_HTTP_MCDS_HIT)
           && ctx->conf->cache_invalidate
           && !ctx->expired
           && ngx_http_mcds_vary_expire(ctx) > ngx_mcds_now()
           && ngx_http_mcds_head_judge(r, ctx) == NGX_DECLINED
           && ngx_http_mcds_admission_allowed(r, ctx, ctx->conf);
}


ngx_uint_t
ngx_http_mcds_head_same(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_mcds_entry_t  *entry;

    if (!ngx_http_mcds_head_tells(r, ctx) || ctx->dry || ctx->no_store) {
        return 0;
    }

    entry = &ctx->snapshot->entry;

    /*
     * A purge says that the page has changed, whatever its ETag and
     * Last-Modified are; a page that is revalidated for each request does not
     * need to be renewed.
     */

    if ((entry->flags & (NGX_MCDS_ENTRY_INVALID|NGX_MCDS_ENTRY_VALIDATE))
        || ngx_http_mcds_vary_purged(ctx)
        || ctx->tag_purged)
    {
        return 0;
    }

    return ngx_http_mcds_head_judge(r, ctx) == NGX_OK
           && ngx_http_mcds_admission_allowed(r, ctx, ctx->conf);
}


/*
 * Returns 1 if r is a HEAD request whose response may say something about the
 * page in ctx->snapshot.  The response does not if it may be for this client
 * only, if it comes from another location than the page, if it is an error
 * page, or if mcds_cache_bypass applies to the request: in this case it is not
 * known whether the page was purged.
 */

static ngx_uint_t
ngx_http_mcds_head_tells(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx)
{
    if (r->method != NGX_HTTP_HEAD
        || r != r->main
        || ctx->snapshot == NULL
        || ctx->overwrite
        || ctx->authorization)
    {
        return 0;
    }

    return ngx_http_get_module_loc_conf(r, ngx_http_mcds_cache_module)
               == ctx->conf
           && !r->err_status
           && !ngx_http_mcds_replaced(r, ctx)
           && !ngx_http_mcds_is_accel(r)
           && !ngx_http_mcds_route_left(r, ctx);
}


/*
 * Compares the response to a HEAD request with the page in ctx->snapshot.
 * NGX_OK: the validators (ETag, Last-Modified) and the length of the response
 * are those of the page; NGX_DECLINED: one of them differs, or the response
 * has no validator; NGX_DONE: the response says nothing about the page.
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

    entry = &ctx->snapshot->entry;

    if (entry->kind != NGX_MCDS_ENTRY_PAGE
        || entry->status != NGX_HTTP_OK
        || ngx_mcds_snapshot_signed(ctx->snapshot, ctx->conf->secrets)
           != NGX_OK)
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

        /*
         * an ETag or Last-Modified that the location hides from the client is
         * not stored with the page, and is not compared
         */

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


/*
 * Copyright (C) mcds authors
 *
 * Sends a client's request to the origin, or creates the copy of the client's
 * request that builds the page in the background.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_refresh.h"
#include "ngx_http_mcds_cache.h"
#include "ngx_http_mcds_cache_build.h"
#include "ngx_http_mcds_coding.h"
#include "ngx_http_mcds_lookup.h"
#include "ngx_http_mcds_own.h"
#include "ngx_http_mcds_revalidate.h"
#include "ngx_http_mcds_route.h"
#include "ngx_http_mcds_store.h"
#include "ngx_http_mcds_stream.h"
#include "ngx_http_mcds_tags.h"


static void ngx_http_mcds_cache_refreshed(ngx_http_request_t *r, void *data,
    ngx_int_t rc);


ngx_int_t
ngx_http_mcds_cache_fill(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx)
{
    if (ngx_http_mcds_refresh_strip(r) != NGX_OK) {
        return NGX_ERROR;
    }

    if (!ngx_http_mcds_cache_streamed(ctx)
        && !ctx->dry
        && ngx_http_mcds_revalidate_ask(r, ctx) != NGX_OK)
    {
        return NGX_ERROR;
    }

    ngx_http_mcds_stream_end(ctx);
    ngx_http_mcds_set_state(ctx, NGX_HTTP_MCDS_STATE_FILL);

    ctx->start = ngx_current_msec;

    return NGX_DECLINED;
}


ngx_int_t
ngx_http_mcds_cache_pass(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx,
    ngx_uint_t store)
{
    ngx_http_mcds_stream_end(ctx);

    ctx->start = ngx_current_msec;

    if (!store || r->method != NGX_HTTP_GET || r->header_only
        || ctx->no_store
        || ngx_http_mcds_cache_partial(r))
    {
        ngx_http_mcds_set_state(ctx, NGX_HTTP_MCDS_STATE_PASS);
        ngx_mcds_page_leave(&ctx->waiter);
        return NGX_DECLINED;
    }

    if (ngx_http_mcds_refresh_strip(r) != NGX_OK) {
        return NGX_ERROR;
    }

    if (!ngx_http_mcds_cache_streamed(ctx)
        && !ctx->dry
        && ngx_http_mcds_revalidate_ask(r, ctx) != NGX_OK)
    {
        return NGX_ERROR;
    }

    ngx_http_mcds_set_state(ctx, NGX_HTTP_MCDS_STATE_STORE);

    return NGX_DECLINED;
}


ngx_int_t
ngx_http_mcds_cache_detach(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_http_request_t         *sr;
    ngx_http_mcds_cache_ctx_t  *sctx;

    /*
     * the last argument is any pointer but NULL: ngx_http_mcds_silent() knows
     * by it that sr is a refresh, a request without a client
     */

    sr = ngx_http_mcds_refresh_create(r, ngx_http_mcds_cache_refreshed,
                                      ctx->waiter.page);

    sctx = sr ? ngx_http_mcds_cache_need(sr) : NULL;

    if (sctx) {
        ngx_http_mcds_set_state(sctx, NGX_HTTP_MCDS_STATE_DETACHED);

        sctx->task->refresh = 1;
        sctx->error_page = ctx->error_page;
        sctx->unaccepted = ctx->unaccepted;
        sctx->authorization = ctx->authorization;
        sctx->asked_about = ctx->asked_about;
        sctx->start = ngx_current_msec;

        sctx->key.len = ctx->key.len;
        sctx->key.data = ngx_pstrdup(sr->pool, &ctx->key);

        sctx->asker = ctx->asker;
        sctx->conf = ctx->conf;
        sctx->purges = ctx->purges;
        sctx->snapshot = ctx->snapshot ? ngx_mcds_snapshot_ref(ctx->snapshot)
                                       : NULL;

        ngx_http_mcds_lookup_inherit(sctx, ctx);
    }

    if (sctx == NULL
        || sctx->key.data == NULL
        || ngx_http_mcds_route_inherit(sr, sctx, ctx) != NGX_OK
        || ngx_http_mcds_revalidate_ask(sr, sctx) != NGX_OK)
    {
        ngx_mcds_page_abandon(&ctx->waiter, NGX_MCDS_BUILD_FAILED, NULL, 0);
        return NGX_ERROR;
    }

    ngx_http_mcds_own_link(ctx, sctx);
    ngx_mcds_page_hand(&ctx->waiter, &sctx->waiter);

    ngx_mcds_stat_add(ctx->conf->zone, NGX_MCDS_ZONE_ORIGIN, 1);

    return NGX_OK;
}


static void
ngx_http_mcds_cache_refreshed(ngx_http_request_t *r, void *data, ngx_int_t rc)
{
    ngx_http_mcds_cache_ctx_t  *ctx;

    ctx = ngx_http_mcds_cache_get(r);

    if (ctx == NULL) {
        return;
    }

    if (ctx->waiter.building) {
        ngx_http_mcds_store_cleanup(ctx);
        ngx_mcds_page_abandon(&ctx->waiter, NGX_MCDS_BUILD_BACKOFF, NULL, 0);
    }

    ngx_http_mcds_own_end(ctx);
}


ngx_uint_t
ngx_http_mcds_cache_streamed(ngx_http_mcds_cache_ctx_t *ctx)
{
    return ctx->snapshot
           && ctx->snapshot->entry.kind == NGX_MCDS_ENTRY_PAGE
           && ngx_http_mcds_streamed(&ctx->snapshot->entry);
}


ngx_int_t
ngx_http_mcds_cache_rebuild(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf,
    uint64_t cas, ngx_mcds_cut_t *left)
{
    ngx_int_t         rc;
    ngx_mcds_enter_t  enter;

    ngx_http_mcds_set_state(ctx, NGX_HTTP_MCDS_STATE_WAIT);

    /* another location may have begun the request, and its rules hold, too */

    if (ctx->asker == NULL) {
        ctx->asker = ccf;
    }

    ctx->conf = ccf;
    ctx->at = ctx->key;

    ngx_http_mcds_route_begin(r, ctx);

    if (ngx_http_mcds_lookup_join(ctx, ccf) != NGX_OK) {
        return NGX_ERROR;
    }

    if (ccf->tags && ngx_http_mcds_tagging->start(r, ctx, ccf) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_memzero(&enter, sizeof(ngx_mcds_enter_t));

    enter.lock_age = ccf->cache_lock_age;
    enter.cas = cas;
    enter.left = left;
    enter.pace = &ccf->cache_pace;
    enter.backoff = ccf->cache_backoff;
    enter.backoff_max = ccf->cache_backoff_max;
    enter.refresh = 1;

    ctx->task->waiting++;

    rc = ngx_mcds_page_enter(&ctx->waiter, &enter, &ctx->outcome);

    if (rc == NGX_OK) {
        return NGX_AGAIN;
    }

    return (--ctx->task->waiting) ? NGX_AGAIN : NGX_OK;
}


ngx_uint_t
ngx_http_mcds_cache_rebuild_detach(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx)
{
    return ctx->outcome == NGX_MCDS_PAGE_BUILD
           && ngx_http_mcds_cache_detach(r, ctx) == NGX_OK;
}

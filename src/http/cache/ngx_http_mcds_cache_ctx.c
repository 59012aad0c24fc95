
/*
 * Copyright (C) mcds authors
 *
 * The context of a request in the cache, and the page that it looks up.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"
#include "ngx_http_mcds_herd.h"
#include "ngx_http_mcds_stream.h"


static void ngx_http_mcds_cache_handler(void *data, ngx_uint_t outcome,
    ngx_mcds_copy_t *copy);


ngx_http_mcds_cache_ctx_t *
ngx_http_mcds_cache_need(ngx_http_request_t *r)
{
    ngx_http_mcds_task_t  *task;

    task = ngx_http_mcds_task_need(r);

    return task ? ngx_http_mcds_cache_ctx(task) : NULL;
}


ngx_uint_t
ngx_http_mcds_replaced(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx)
{
    return ctx->replaced || r->error_page != ctx->error_page;
}


ngx_int_t
ngx_http_mcds_cache_sit(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf)
{
    ngx_http_request_t  *r;

    if (ngx_mcds_page_sit(&ctx->seat, ccf->cache_pool, &ctx->at,
                          ccf->cache_max_size + NGX_HTTP_MCDS_ENTRY_ROOM,
                          ngx_http_mcds_cache_handler, ctx)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    ngx_http_mcds_herd_local(ctx, ccf);

    ctx->seat.secrets = ccf->secrets;
    ctx->seat.stat = ccf->zone;

    r = ctx->task->request;

    ctx->seat.no_body = (r->method != NGX_HTTP_GET
                         || r->header_only
                         || ctx->replace
                         || ngx_http_mcds_cache_partial(r));

    return NGX_OK;
}


/* what it asks for is less than the page, or depends on what it has */

ngx_uint_t
ngx_http_mcds_cache_partial(ngx_http_request_t *r)
{
    return r->headers_in.range != NULL
           || r->headers_in.if_range != NULL
           || r->headers_in.if_modified_since != NULL
           || r->headers_in.if_unmodified_since != NULL
           || r->headers_in.if_match != NULL
           || r->headers_in.if_none_match != NULL;
}


static void
ngx_http_mcds_cache_handler(void *data, ngx_uint_t outcome,
    ngx_mcds_copy_t *copy)
{
    ngx_http_mcds_cache_ctx_t *ctx = data;

    ctx->outcome = outcome;

    if (ctx->entered) {
        ctx->lock_wait += ngx_current_msec - ctx->lock_start;
        ctx->awaited = 1;
    }

    if (copy) {
        ngx_mcds_copy_unref(ctx->copy);
        ctx->copy = ngx_mcds_copy_ref(copy);

        /* the first parts are in memory now, but not for long */

        if (!ctx->seat.no_body) {
            ngx_http_mcds_stream_begin(ctx);
        }
    }

    ngx_http_mcds_task_wake(ctx->task);
}


void
ngx_http_mcds_cache_drop(ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_http_mcds_stream_end(ctx);

    ngx_mcds_copy_unref(ctx->copy);
    ctx->copy = NULL;

    ctx->old_shown = 0;
}


void
ngx_http_mcds_cache_bounds(ngx_http_mcds_cache_conf_t *ccf,
    ngx_mcds_stale_t *stale)
{
    stale->update = ccf->cache_update;
    stale->grace = ccf->cache_grace;
    stale->origin = ccf->cache_grace_origin;
}

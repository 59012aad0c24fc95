
/*
 * Copyright (C) mcds authors
 *
 * A request on its way through the precontent phase, behind access control, so
 * that a refused request is not counted.  The first handler of the phase asks
 * for counters and for the page together, in one batch, and does not wait:
 * try_files, and whatever leads the request to another location, run meanwhile.
 * The last handler of the phase waits for the answers, and decides in the
 * location that answers what is done with the page.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_module.h"
#include "ngx_http_mcds_budget.h"
#include "ngx_http_mcds_nginx.h"
#include "ngx_http_mcds_own.h"
#include "ngx_http_mcds_revalidate.h"
#include "ngx_http_mcds_route.h"
#include "ngx_http_mcds_stat.h"
#include "ngx_http_mcds_store.h"
#include "ngx_http_mcds_variant.h"
#include "ngx_http_mcds_watch.h"


/* how often to let others go first: there may be others who do so, too */
#define NGX_HTTP_MCDS_RESUME_LATER  8


static ngx_int_t ngx_http_mcds_purge(ngx_http_request_t *r,
    ngx_http_mcds_ctx_t *ctx, ngx_http_mcds_loc_conf_t *mlcf);
static void ngx_http_mcds_error_page(ngx_http_request_t *r,
    ngx_http_mcds_ctx_t *ctx);
static ngx_int_t ngx_http_mcds_decided(ngx_http_request_t *r,
    ngx_http_mcds_ctx_t *ctx);
static ngx_int_t ngx_http_mcds_suspend(ngx_http_request_t *r,
    ngx_http_mcds_ctx_t *ctx);
static void ngx_http_mcds_post(ngx_http_mcds_ctx_t *ctx);
static void ngx_http_mcds_resume_handler(ngx_event_t *ev);
static void ngx_http_mcds_resume(ngx_http_mcds_ctx_t *ctx);
static void ngx_http_mcds_cleanup(void *data);


/* of this worker */

static ngx_queue_t  ngx_http_mcds_resuming;
static ngx_event_t  ngx_http_mcds_resume_event;
static ngx_uint_t   ngx_http_mcds_resume_later;


ngx_int_t
ngx_http_mcds_handler(ngx_http_request_t *r)
{
    ngx_uint_t                 counts;
    ngx_http_mcds_ctx_t       *ctx;
    ngx_http_mcds_loc_conf_t  *mlcf;

    ctx = ngx_http_mcds_get_ctx(r);

    if (ctx && ctx->refresh) {
        return NGX_DECLINED;
    }

    if (ctx && (ctx->suspended || ctx->resuming)) {

        /* something else runs the phases of a request that waits */

        return NGX_AGAIN;
    }

    mlcf = ngx_http_get_module_loc_conf(r, ngx_http_mcds_module);

    if (ctx && ctx->purging) {
        return ngx_http_mcds_purge(r, ctx, mlcf);
    }

    if (ctx == NULL && ngx_http_mcds_purge_asked(r, mlcf)) {
        return ngx_http_mcds_purge(r, NULL, mlcf);
    }

    counts = (mlcf->counters && r == r->main);

    if (ctx == NULL) {

        if (!counts
            && mlcf->cache_pool == NULL
            && !ngx_http_mcds_auth_asked(r))
        {
            return NGX_DECLINED;
        }

        ctx = ngx_http_mcds_create_ctx(r);
        if (ctx == NULL) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }
    }

    if (ngx_http_mcds_auth_asked(r)) {

        /* nginx forgets it when the request is led to another location */

        ctx->asked_about = 1;
    }

    if (counts && ngx_http_mcds_counters_start(r, mlcf) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (!ctx->asked
        && mlcf->cache_pool
        && ngx_http_mcds_cache_start(r, ctx, mlcf) != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return NGX_DECLINED;
}


ngx_int_t
ngx_http_mcds_decide_handler(ngx_http_request_t *r)
{
    ngx_int_t             rc;
    ngx_http_mcds_ctx_t  *ctx;

    ctx = ngx_http_mcds_get_ctx(r);

    if (ctx == NULL || ctx->purging) {
        return NGX_DECLINED;
    }

    if (ctx->suspended || ctx->resuming) {
        return NGX_AGAIN;
    }

    ngx_http_mcds_carried(r, ctx);

    if (ctx->refresh || ctx->decided) {

        rc = ngx_http_mcds_decided(r, ctx);

        if (rc != NGX_OK) {
            return rc;
        }
    }

    /* a file needs no page, but its filters may show what was counted */

    if (ctx->counts || (ctx->waiting && r->content_handler)) {
        return ngx_http_mcds_suspend(r, ctx);
    }

    if (ctx->decided || r->content_handler == NULL) {
        return NGX_DECLINED;
    }

    if (ctx->seat.page == NULL && !ctx->left) {
        ctx->origin = 1;
        return NGX_DECLINED;
    }

    rc = ngx_http_mcds_cache_decide(r, ctx);

    if (rc == NGX_AGAIN) {
        return ngx_http_mcds_suspend(r, ctx);
    }

    ctx->decided = 1;

    if (rc == NGX_ERROR) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (rc == NGX_DONE) {
        return NGX_DECLINED;
    }

    if (rc == NGX_OK) {
        ctx->serving = 1;
        r->content_handler = ngx_http_mcds_serve_handler;
    }

    ctx->origin = (rc == NGX_DECLINED);

    return rc;
}


/*
 * The request comes by once more, led to another location behind the decision.
 * NGX_OK: a page of that location is looked up, or counters are.
 */

static ngx_int_t
ngx_http_mcds_decided(ngx_http_request_t *r, ngx_http_mcds_ctx_t *ctx)
{
    if (ctx->invalidate && r->content_handler) {
        ctx->origin = 1;

        if (ngx_http_mcds_invalidate_arrive(r, ctx) != NGX_OK) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }
    }

    if (!ngx_http_mcds_is_accel(r)) {
        ngx_http_mcds_error_page(r, ctx);
    }

    if (!ctx->replaced
        && (ctx->seat.building || ctx->storing || ctx->passed))
    {

        if (!ctx->routed) {

            /* a page that was purged is rebuilt: its route begins here */

            ctx->routed = 1;

            if (ngx_http_mcds_route_here(r, ctx) == NGX_ERROR) {
                return NGX_HTTP_INTERNAL_SERVER_ERROR;
            }

        } else if (ngx_http_mcds_is_accel(r)
                   || ngx_http_mcds_route_left(r, ctx))
        {
            return ngx_http_mcds_cache_left(r, ctx);
        }
    }

    return ctx->refresh ? NGX_DECLINED : NGX_OK;
}


static ngx_int_t
ngx_http_mcds_purge(ngx_http_request_t *r, ngx_http_mcds_ctx_t *ctx,
    ngx_http_mcds_loc_conf_t *mlcf)
{
    ngx_int_t  rc;

    if (ctx == NULL) {
        ctx = ngx_http_mcds_create_ctx(r);

        if (ctx == NULL
            || ngx_http_mcds_purge_start(r, ctx, mlcf) != NGX_OK)
        {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }
    }

    rc = ctx->waiting ? NGX_AGAIN : ngx_http_mcds_purge_end(r, ctx, mlcf);

    if (rc == NGX_AGAIN) {
        return ngx_http_mcds_suspend(r, ctx);
    }

    return (rc == NGX_OK) ? NGX_OK : NGX_HTTP_INTERNAL_SERVER_ERROR;
}


/*
 * With recursive_error_pages nginx leaves no trace of it, but the upstream that
 * has failed.
 */

ngx_uint_t
ngx_http_mcds_is_error_page(ngx_http_request_t *r)
{
    ngx_http_mcds_main_conf_t  *mmcf;

    mmcf = ngx_http_get_module_main_conf(r, ngx_http_mcds_module);

    return r->error_page
           || (mmcf->recursive
               && r->internal
               && r->upstream
               && !ngx_http_mcds_is_accel(r));
}


ngx_uint_t
ngx_http_mcds_is_accel(ngx_http_request_t *r)
{
    return r->upstream && r->upstream->headers_in.x_accel_redirect;
}


ngx_uint_t
ngx_http_mcds_replaced(ngx_http_request_t *r, ngx_http_mcds_ctx_t *ctx)
{
    return ctx->replaced || r->error_page != ctx->error_page;
}


/*
 * An error page leads to another location.  After a file that was not there,
 * as in "error_page 404 = @application", that one makes the page; after an
 * answer of an upstream, it makes something else.
 */

static void
ngx_http_mcds_error_page(ngx_http_request_t *r, ngx_http_mcds_ctx_t *ctx)
{
    if (ctx->error_page || !ngx_http_mcds_is_error_page(r)) {
        return;
    }

    if (r->upstream == NULL) {
        ctx->error_page = 1;
        return;
    }

    ctx->replaced = 1;
    ctx->failed_status = r->upstream->headers_in.status_n;

    (void) ngx_http_mcds_revalidate_asked(r, ctx);
}


static ngx_int_t
ngx_http_mcds_suspend(ngx_http_request_t *r, ngx_http_mcds_ctx_t *ctx)
{
    if (ngx_http_mcds_watch(r) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ctx->suspended = 1;

    if (ctx->waiting == 0) {

        /* the answer has come from inside of the call that asked for it */

        ngx_http_mcds_post(ctx);
    }

    ngx_http_mcds_budget_begin(ctx);

    return NGX_AGAIN;
}


void
ngx_http_mcds_wake(ngx_http_mcds_ctx_t *ctx)
{
    if (--ctx->waiting || !ctx->suspended || ctx->resuming) {
        return;
    }

    ngx_http_mcds_post(ctx);
}


/*
 * ngx_http_upstream_finalize_request() is called twice here: by the cleanup
 * handler, as ngx_http_upstream_create() calls it, and by the upstream, which
 * gets NGX_ERROR from its header filter and finds that it has ended.  Each of
 * the two gives back a reference.
 */

ngx_int_t
ngx_http_mcds_again(ngx_http_request_t *r, ngx_http_mcds_ctx_t *ctx)
{
    ngx_http_upstream_t  *u;

    u = r->upstream;

    if (u == NULL || u->cleanup == NULL || u->header_sent) {
        return NGX_DECLINED;
    }

    r->main->count += 2;

    (*u->cleanup)(r);

    ngx_http_clean_header(r);

    r->expect_trailers = 0;

    r->write_event_handler = ngx_http_request_empty_handler;

    ctx->start = ngx_current_msec;

    ngx_http_mcds_post(ctx);

    return NGX_OK;
}


static void
ngx_http_mcds_post(ngx_http_mcds_ctx_t *ctx)
{
    if (ngx_http_mcds_resuming.next == NULL) {
        ngx_queue_init(&ngx_http_mcds_resuming);
        ngx_http_mcds_resume_event.handler = ngx_http_mcds_resume_handler;
    }

    ngx_queue_insert_tail(&ngx_http_mcds_resuming, &ctx->queue);
    ctx->resuming = 1;

    if (!ngx_http_mcds_resume_event.posted) {
        ngx_http_mcds_resume_event.log = ngx_cycle->log;
        ngx_post_event(&ngx_http_mcds_resume_event, &ngx_posted_events);
    }
}


/*
 * The last of its turn: what other requests ask is sent before, so that
 * memcached has answered it when these are done.
 */

static void
ngx_http_mcds_resume_handler(ngx_event_t *ev)
{
    ngx_queue_t  *q;

    if (!ngx_queue_empty(&ngx_posted_events)
        && ngx_http_mcds_resume_later++ < NGX_HTTP_MCDS_RESUME_LATER)
    {
        ngx_post_event(ev, &ngx_posted_events);
        return;
    }

    ngx_http_mcds_resume_later = 0;

    while (!ngx_queue_empty(&ngx_http_mcds_resuming)) {
        q = ngx_queue_head(&ngx_http_mcds_resuming);

        ngx_http_mcds_resume(ngx_queue_data(q, ngx_http_mcds_ctx_t, queue));
    }
}


static void
ngx_http_mcds_resume(ngx_http_mcds_ctx_t *ctx)
{
    ngx_connection_t    *c;
    ngx_http_request_t  *r;

    ngx_queue_remove(&ctx->queue);
    ctx->resuming = 0;
    ctx->suspended = 0;

    ngx_http_mcds_budget_end(ctx);

    r = ctx->request;
    c = r->connection;

    ngx_http_set_log_request(c->log, r);

    ngx_log_debug0(NGX_LOG_DEBUG_HTTP, c->log, 0, "mcds resume");

    if (r == r->main) {
        r->read_event_handler = ngx_http_block_reading;
    }

    r->write_event_handler = ngx_http_core_run_phases;

    ngx_http_core_run_phases(r);
    ngx_http_run_posted_requests(c);
}


ngx_http_mcds_ctx_t *
ngx_http_mcds_create_ctx(ngx_http_request_t *r)
{
    ngx_pool_cleanup_t   *cln;
    ngx_http_mcds_ctx_t  *ctx;

    cln = ngx_pool_cleanup_add(r->pool, sizeof(ngx_http_mcds_ctx_t));
    if (cln == NULL) {
        return NULL;
    }

    ctx = cln->data;
    ngx_memzero(ctx, sizeof(ngx_http_mcds_ctx_t));

    cln->handler = ngx_http_mcds_cleanup;

    ctx->request = r;

    ngx_http_mcds_budget_inherit(ctx);

    ngx_http_set_ctx(r, ctx, ngx_http_mcds_module);

    return ctx;
}


ngx_http_mcds_ctx_t *
ngx_http_mcds_get_ctx(ngx_http_request_t *r)
{
    ngx_pool_cleanup_t   *cln;
    ngx_http_mcds_ctx_t  *ctx;

    ctx = ngx_http_get_module_ctx(r, ngx_http_mcds_module);

    if (ctx || (!r->internal && !r->filter_finalize)) {
        return ctx;
    }

    /* r->ctx was cleared by an internal redirect or an error page */

    for (cln = r->pool->cleanup; cln; cln = cln->next) {

        if (cln->handler != ngx_http_mcds_cleanup) {
            continue;
        }

        ctx = cln->data;

        if (ctx->request == r) {
            ngx_http_set_ctx(r, ctx, ngx_http_mcds_module);
            return ctx;
        }
    }

    return NULL;
}


static void
ngx_http_mcds_cleanup(void *data)
{
    ngx_http_mcds_ctx_t *ctx = data;

    if (ctx->resuming) {
        ngx_queue_remove(&ctx->queue);
    }

    ngx_mcds_wait_cancel(&ctx->delay);

    ngx_http_mcds_store_aborted(ctx);

    ngx_http_mcds_stat_request(ctx);

    ngx_http_mcds_own_cleanup(ctx);
    ngx_http_mcds_counters_cleanup(ctx);
    ngx_http_mcds_store_cleanup(ctx);
    ngx_http_mcds_variant_cleanup(ctx);

    ngx_mcds_page_leave(&ctx->seat);
    ngx_mcds_copy_unref(ctx->copy);
    ngx_mcds_tags_free(ctx->tags);
}

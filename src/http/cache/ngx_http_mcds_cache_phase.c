
/*
 * Copyright (C) mcds authors
 *
 * The cache in the precontent phase: looks the page up in the first location
 * of the request, and decides in the location that responds whether to serve
 * the page or to ask the origin.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_nginx.h"
#include "ngx_http_mcds_cache.h"
#include "ngx_http_mcds_cache_build.h"
#include "ngx_http_mcds_cache_stat.h"
#include "ngx_http_mcds_admission.h"
#include "ngx_http_mcds_invalidate.h"
#include "ngx_http_mcds_lookup.h"
#include "ngx_http_mcds_own.h"
#include "ngx_http_mcds_purge.h"
#include "ngx_http_mcds_revalidate.h"
#include "ngx_http_mcds_route.h"
#include "ngx_http_mcds_serve.h"
#include "ngx_http_mcds_site.h"
#include "ngx_http_mcds_store.h"
#include "ngx_http_mcds_tags.h"
#include "ngx_http_mcds_vary.h"


static ngx_int_t ngx_http_mcds_phase_init(ngx_conf_t *cf);
static ngx_int_t ngx_http_mcds_phase_prepare(ngx_conf_t *cf);
static ngx_int_t ngx_http_mcds_phase_first(ngx_http_request_t *r,
    ngx_http_mcds_task_t *task);
static ngx_uint_t ngx_http_mcds_phase_may_purge(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);
static ngx_int_t ngx_http_mcds_phase_purge(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf);
static ngx_int_t ngx_http_mcds_phase_start(ngx_http_request_t *r,
    ngx_http_mcds_task_t *task);
static ngx_int_t ngx_http_mcds_phase_arrive(ngx_http_request_t *r,
    ngx_http_mcds_task_t *task);
static void ngx_http_mcds_phase_last_filter(ngx_conf_t *cf);
static void ngx_http_mcds_phase_post_action(ngx_http_mcds_task_t *task);
static ngx_int_t ngx_http_mcds_phase_again(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);
static ngx_uint_t ngx_http_mcds_phase_marked(ngx_http_mcds_cache_ctx_t *ctx);
static void ngx_http_mcds_phase_error_page(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);
static ngx_int_t ngx_http_mcds_phase_decide(ngx_http_request_t *r,
    ngx_http_mcds_task_t *task);
static ngx_msec_t ngx_http_mcds_phase_wait(ngx_http_mcds_task_t *task,
    ngx_uint_t *others);
static ngx_msec_t ngx_http_mcds_phase_until(ngx_http_mcds_task_t *task);
static void ngx_http_mcds_phase_hurry(ngx_http_mcds_task_t *task);
static void ngx_http_mcds_phase_cleanup(ngx_http_mcds_task_t *task);


ngx_http_mcds_feature_t  ngx_http_mcds_cache_feature = {
    ngx_string("cache"),
    sizeof(ngx_http_mcds_cache_ctx_t),
    0,
    ngx_http_mcds_phase_prepare,
    ngx_http_mcds_phase_init,
    NULL,                                  /* zone */
    NULL,                                  /* exit */
    ngx_http_mcds_phase_first,
    ngx_http_mcds_phase_start,
    ngx_http_mcds_phase_arrive,
    ngx_http_mcds_phase_decide,
    ngx_http_mcds_phase_wait,
    ngx_http_mcds_phase_until,
    ngx_http_mcds_phase_hurry,
    ngx_http_mcds_phase_cleanup,
    ngx_http_mcds_phase_post_action
};


static ngx_int_t
ngx_http_mcds_phase_prepare(ngx_conf_t *cf)
{
    ngx_http_mcds_phase_last_filter(cf);

    /*
     * the filters that see responses to unsafe requests are added even if no
     * location has a cache, see ngx_http_mcds_filter_init()
     */

    ngx_http_mcds_invalidate_init();

    return NGX_OK;
}


/*
 * A module with filters that is loaded after mcds, such as lua or echo, stands
 * between the storing filter and the copy filter: its filters would change a
 * response before it is stored, for all visitors, and again whenever the page
 * is served.  So the storing filter is moved right before the copy filter in
 * the order of the modules, in which they add their filters.  nginx is calling
 * the handlers of this order now; that of the first module of mcds, which has
 * called this function, precedes both filters, so none is left out.
 */

static void
ngx_http_mcds_phase_last_filter(ngx_conf_t *cf)
{
    ngx_uint_t      i, last;
    ngx_module_t  **modules;

    modules = cf->cycle->modules;

    for (i = 0; modules[i] != &ngx_http_mcds_filter_module; i++) {
        /* void */
    }

    for (last = i; modules[last + 1]; last++) {

        if (ngx_strcmp(modules[last + 1]->name, "ngx_http_copy_filter_module")
            == 0)
        {
            ngx_memmove(&modules[i], &modules[i + 1],
                        (last - i) * sizeof(ngx_module_t *));

            modules[last] = &ngx_http_mcds_filter_module;
            return;
        }
    }
}


static ngx_int_t
ngx_http_mcds_phase_init(ngx_conf_t *cf)
{
    return ngx_http_mcds_site_init(cf,
               ngx_http_conf_get_module_main_conf(cf,
                                                  ngx_http_mcds_cache_module));
}


/*
 * In the phase of the cache the purge of a page comes first, so that mcds does
 * not count the purge request for its limits and counters.  Once the purge has
 * ended, nginx may lead the request to the location of an error page or of
 * "post_action", which responds as usual.
 */

static ngx_int_t
ngx_http_mcds_phase_first(ngx_http_request_t *r, ngx_http_mcds_task_t *task)
{
    ngx_http_mcds_cache_ctx_t   *ctx;
    ngx_http_mcds_cache_conf_t  *ccf;

    ctx = task ? ngx_http_mcds_cache_ctx(task) : NULL;
    ccf = ngx_http_get_module_loc_conf(r, ngx_http_mcds_cache_module);

    if (ctx && ctx->purging) {

        if (r->post_action && !ctx->purged) {

            /* the client has left, and does not get the result of the purge */

            ngx_mcds_page_leave(&ctx->waiter);
            ctx->purged = 1;
        }

        return ctx->purged ? NGX_DECLINED
                           : ngx_http_mcds_phase_purge(r, ctx, ccf);
    }

    /*
     * a purge request may come from another location, such as one with
     * try_files; but a request purges nothing if the origin has led it to this
     * location
     */

    if (r->post_action
        || !ngx_http_mcds_phase_may_purge(r, ctx)
        || !ngx_http_mcds_purge_asked(r, ccf))
    {
        return NGX_DECLINED;
    }

    if (ctx && ctx->state == NGX_HTTP_MCDS_STATE_LOOKUP) {

        /*
         * another location has asked memcached for the page, since it did not
         * know the request for a purge request: the purge begins when memcached
         * has replied
         */

        if (task->waiting) {
            return ngx_http_mcds_task_suspend(r, task);
        }

        ngx_http_mcds_cache_drop_lookup(ctx);
    }

    return ngx_http_mcds_phase_purge(r, NULL, ccf);
}


/*
 * returns 1 if the request has come to its location in a way on which it may
 * still become a purge request: no page is chosen, and no origin was asked
 */

static ngx_uint_t
ngx_http_mcds_phase_may_purge(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx)
{
    if (ngx_http_mcds_is_accel(r)) {
        return 0;
    }

    if (ctx == NULL) {
        return 1;
    }

    switch (ctx->state) {

    case NGX_HTTP_MCDS_STATE_START:
    case NGX_HTTP_MCDS_STATE_BYPASS:
    case NGX_HTTP_MCDS_STATE_INVALIDATE:
        return 1;

    case NGX_HTTP_MCDS_STATE_LOOKUP:
        return !ctx->routed;

    default:
        return 0;
    }
}


static ngx_int_t
ngx_http_mcds_phase_purge(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf)
{
    ngx_int_t  rc;

    if (ctx == NULL) {
        ctx = ngx_http_mcds_cache_need(r);

        if (ctx == NULL) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }

        if (ngx_http_mcds_purge_start(r, ctx, ccf) != NGX_OK) {
            ctx->purged = 1;
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }
    }

    rc = ctx->task->waiting ? NGX_AGAIN : ngx_http_mcds_purge_end(r, ctx, ccf);

    if (rc == NGX_AGAIN) {
        rc = ngx_http_mcds_task_suspend(r, ctx->task);
    }

    if (rc == NGX_AGAIN) {
        return NGX_AGAIN;
    }

    ctx->purged = 1;

    return (rc == NGX_OK) ? NGX_OK : NGX_HTTP_INTERNAL_SERVER_ERROR;
}


static ngx_int_t
ngx_http_mcds_phase_start(ngx_http_request_t *r, ngx_http_mcds_task_t *task)
{
    ngx_uint_t                   asked_about;
    ngx_http_mcds_cache_ctx_t   *ctx;
    ngx_http_mcds_cache_conf_t  *ccf;

    ccf = ngx_http_get_module_loc_conf(r, ngx_http_mcds_cache_module);
    asked_about = ngx_http_mcds_auth_asked(r);

    if (ccf->cache_pool == NULL && !asked_about) {
        return NGX_DECLINED;
    }

    ctx = task ? ngx_http_mcds_cache_ctx(task) : ngx_http_mcds_cache_need(r);
    if (ctx == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (asked_about) {

        /*
         * auth_request's context is lost when the request is redirected, so
         * ctx notes that auth_request has checked the client
         */

        ctx->asked_about = 1;
    }

    if (ctx->state == NGX_HTTP_MCDS_STATE_START
        && ccf->cache_pool
        && ngx_http_mcds_cache_start(r, ctx, ccf) != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return NGX_DECLINED;
}


static ngx_int_t
ngx_http_mcds_phase_arrive(ngx_http_request_t *r, ngx_http_mcds_task_t *task)
{
    ngx_http_mcds_cache_ctx_t  *ctx;

    ctx = ngx_http_mcds_cache_ctx(task);

    if (ctx->purging) {
        return NGX_OK;
    }

    ngx_http_mcds_carried(r, ctx);

    if (r->post_action && ngx_http_mcds_decided(ctx)) {
        ngx_http_mcds_phase_post_action(task);
        return NGX_OK;
    }

    if (task->refresh || ngx_http_mcds_decided(ctx)) {
        return ngx_http_mcds_phase_again(r, ctx);
    }

    /*
     * the location of an unsafe request may have "mcds_cache_invalidate off",
     * and the location that responds another argument
     */

    if (ctx->state == NGX_HTTP_MCDS_STATE_BYPASS
        && r->content_handler
        && !r->post_action
        && !ngx_http_mcds_is_accel(r)
        && !ngx_http_mcds_is_error_page(r))
    {
        if (ngx_http_mcds_invalidate_arrive(r, ctx) != NGX_OK) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }

        if (ctx->invalidate) {
            ctx->origin = 1;
        }
    }

    return NGX_OK;
}


/*
 * Called when nginx has led a request to its "post_action", before that waits
 * for anything else: if the request still builds a page, as the client has left
 * or the response has failed, ends the build, so that another request that
 * waits for the page builds it.
 */

static void
ngx_http_mcds_phase_post_action(ngx_http_mcds_task_t *task)
{
    ngx_http_mcds_cache_ctx_t  *ctx;

    ctx = ngx_http_mcds_cache_ctx(task);

    if (ctx->purging || !ngx_http_mcds_decided(ctx)) {
        return;
    }

    ngx_http_mcds_store_aborted(ctx);
    ngx_http_mcds_store_cleanup(ctx);

    ctx->tee.held = NULL;

    ngx_mcds_page_leave(&ctx->waiter);
}


/*
 * Handles a request that runs the phase of the cache again in another location,
 * after mcds has decided to serve a page or to ask the origin.  NGX_OK: a page
 * of that location may be looked up, and the location's counters may be read;
 * NGX_DECLINED: neither is done, as r, a copy of a client's request, builds a
 * page in the background, and no client gets its response; NGX_ERROR: that copy
 * ends; 500: out of memory.
 */

static ngx_int_t
ngx_http_mcds_phase_again(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_http_mcds_cache_conf_t  *ccf;

    ccf = ngx_http_get_module_loc_conf(r, ngx_http_mcds_cache_module);

    if (ctx->invalidate && r->content_handler) {
        ctx->origin = 1;

        if (ngx_http_mcds_invalidate_arrive(r, ctx) != NGX_OK) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }
    }

    if (!ngx_http_mcds_is_accel(r)) {
        ngx_http_mcds_phase_error_page(r, ctx);
    }

    if (!ctx->replaced
        && (ctx->waiter.building
            || ctx->state == NGX_HTTP_MCDS_STATE_STORE
            || (ctx->state == NGX_HTTP_MCDS_STATE_PASS
                && (ctx->outcome == NGX_MCDS_PAGE_PASS
                    || ngx_http_mcds_phase_marked(ctx)))))
    {

        if (!ctx->routed) {

            /*
             * a request that rebuilds a purged page has looked up no page, and
             * has now reached the location that responds, where its route
             * through the locations ends
             */

            ctx->routed = 1;

            if (!ngx_http_mcds_cache_may_rebuild(r, ctx, ccf)
                && ctx->waiter.building)
            {
                ngx_mcds_page_abandon(&ctx->waiter, NGX_MCDS_BUILD_FAILED,
                                      NULL, 0);
                return NGX_ERROR;
            }

            if (ngx_http_mcds_route_here(r, ctx) == NGX_ERROR) {
                return NGX_HTTP_INTERNAL_SERVER_ERROR;
            }

        } else if (ngx_http_mcds_is_accel(r)
                   || ngx_http_mcds_route_left(r, ctx))
        {
            return ngx_http_mcds_cache_left(r, ctx);
        }
    }

    return ctx->task->refresh ? NGX_DECLINED : NGX_OK;
}


/*
 * Returns 1 if the request has found, instead of its page, a mark that the page
 * is not cacheable (hit-for-miss), such as a response with X-Accel-Redirect
 * leaves.  A request that finds the mark and cannot replace it, such as HEAD,
 * passes to the origin.
 */

static ngx_uint_t
ngx_http_mcds_phase_marked(ngx_http_mcds_cache_ctx_t *ctx)
{
    return ctx->outcome == NGX_MCDS_PAGE_FOUND
           && ctx->snapshot
           && ctx->snapshot->entry.kind == NGX_MCDS_ENTRY_PASS;
}


/*
 * Notes that the request was redirected to the location of an error page.  If
 * a file did not exist, as with "error_page 404 = @application", that location
 * makes the page; after a response of an upstream, the response of that
 * location is an error page, and not the page.
 */

static void
ngx_http_mcds_phase_error_page(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx)
{
    if (ctx->error_page || !ngx_http_mcds_is_error_page(r)) {
        return;
    }

    if (r->upstream == NULL) {
        ctx->error_page = 1;
        return;
    }

    ngx_http_mcds_note_replaced(r, ctx);

    (void) ngx_http_mcds_revalidate_strip(r, ctx);
}


static ngx_int_t
ngx_http_mcds_phase_decide(ngx_http_request_t *r, ngx_http_mcds_task_t *task)
{
    ngx_int_t                   rc;
    ngx_http_mcds_cache_ctx_t  *ctx;

    ctx = ngx_http_mcds_cache_ctx(task);

    if (ctx->purging || ngx_http_mcds_decided(ctx)) {
        return NGX_DECLINED;
    }

    if (ctx->waiter.page == NULL && ctx->state != NGX_HTTP_MCDS_STATE_LEFT) {
        ctx->origin = 1;
        return NGX_DECLINED;
    }

    if (r->post_action && ctx->state != NGX_HTTP_MCDS_STATE_FORK) {

        /*
         * no client gets the response to the request of "post_action": the
         * request goes to the origin, and no page is served or built, even if
         * the request has waited for a page when its client left
         */

        ctx->origin = 1;
        return ngx_http_mcds_cache_pass(r, ctx, 0);
    }

    rc = ngx_http_mcds_cache_decide(r, ctx);

    if (rc == NGX_AGAIN) {
        return NGX_AGAIN;
    }

    ctx->origin = (rc == NGX_DECLINED);

    switch (rc) {

    case NGX_OK:
        ngx_http_mcds_set_state(ctx, NGX_HTTP_MCDS_STATE_SERVE);
        r->content_handler = ngx_http_mcds_serve_handler;
        return NGX_OK;

    case NGX_DECLINED:
        return NGX_DECLINED;

    case NGX_DONE:
        ngx_http_mcds_set_state(ctx, NGX_HTTP_MCDS_STATE_OWN);
        return NGX_DECLINED;

    case NGX_ERROR:
        ngx_http_mcds_set_state(ctx, NGX_HTTP_MCDS_STATE_FAILED);
        return NGX_HTTP_INTERNAL_SERVER_ERROR;

    default:
        ngx_http_mcds_set_state(ctx, NGX_HTTP_MCDS_STATE_REFUSE);
        return rc;
    }
}


static ngx_msec_t
ngx_http_mcds_phase_wait(ngx_http_mcds_task_t *task, ngx_uint_t *others)
{
    ngx_http_mcds_cache_ctx_t  *ctx;

    ctx = ngx_http_mcds_cache_ctx(task);

    if (ctx->purging && !ctx->purged) {

        /*
         * A purge request must report its result to the client, so it waits for
         * memcached without a time limit.  This function returns 0, no limit.
         * It also adds the number of results that the request waits for to
         * *others, which counts the results that have no time limit.
         */

        *others += task->waiting;
        return 0;
    }

    if (!ctx->waiter.queued) {
        ctx->waiter.parked = 0;
    }

    *others += ctx->waiter.queued + ngx_http_mcds_own_waiting(ctx);

    return (ctx->conf && ctx->conf->cache_pool) ? ctx->conf->cache_pool->timeout
                                                : 0;
}


static ngx_msec_t
ngx_http_mcds_phase_until(ngx_http_mcds_task_t *task)
{
    ngx_http_mcds_cache_ctx_t  *ctx;

    ctx = ngx_http_mcds_cache_ctx(task);

    return ctx->waiter.parked ? ctx->waiter.parked_at : ngx_current_msec;
}


static void
ngx_http_mcds_phase_hurry(ngx_http_mcds_task_t *task)
{
    ngx_http_mcds_cache_ctx_t  *ctx;

    ctx = ngx_http_mcds_cache_ctx(task);

    ngx_http_mcds_admission_hurry(ctx);

    if (ngx_http_mcds_varying) {
        ngx_http_mcds_varying->hurry(ctx);
    }

    if (ctx->tags) {
        ngx_http_mcds_tagging->hurry(ctx->tags);
    }

    ngx_mcds_page_hurry(&ctx->vary.base);
    ngx_mcds_page_hurry(&ctx->waiter);
}


static void
ngx_http_mcds_phase_cleanup(ngx_http_mcds_task_t *task)
{
    ngx_http_mcds_cache_ctx_t  *ctx;

    ctx = ngx_http_mcds_cache_ctx(task);

    ngx_http_mcds_store_aborted(ctx);

    ngx_http_mcds_stat_request(ctx);

    ngx_http_mcds_own_cleanup(ctx);
    ngx_http_mcds_store_cleanup(ctx);
    ngx_http_mcds_lookup_cleanup(ctx);

    ngx_mcds_page_leave(&ctx->waiter);
    ngx_mcds_snapshot_unref(ctx->snapshot);

    if (ctx->tags) {
        ngx_http_mcds_tagging->free(ctx->tags);
    }
}

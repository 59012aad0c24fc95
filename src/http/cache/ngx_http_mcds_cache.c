
/*
 * Copyright (C) mcds authors
 *
 * Decides how a request uses the page of its key: serve the page, build it,
 * have it refreshed, wait, or pass to the origin.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_header.h"
#include "ngx_http_mcds_cache.h"
#include "ngx_http_mcds_cache_build.h"
#include "ngx_http_mcds_admission.h"
#include "ngx_http_mcds_judge.h"
#include "ngx_http_mcds_lookup.h"
#include "ngx_http_mcds_own.h"
#include "ngx_http_mcds_vary.h"


static ngx_int_t ngx_http_mcds_cache_choose(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf);
static ngx_int_t ngx_http_mcds_cache_use_found(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf);
static ngx_int_t ngx_http_mcds_cache_gone(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf,
    ngx_http_mcds_judgement_t *j);
static ngx_int_t ngx_http_mcds_cache_stale(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf,
    ngx_uint_t state);
static ngx_int_t ngx_http_mcds_cache_entered(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf);
static ngx_int_t ngx_http_mcds_cache_in_vain(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf);
static ngx_uint_t ngx_http_mcds_cache_lasts(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf);
static ngx_msec_t ngx_http_mcds_cache_wait(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_msec_t limit);
static ngx_int_t ngx_http_mcds_cache_enter(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf,
    ngx_uint_t refresh, ngx_uint_t has_old);
static ngx_int_t ngx_http_mcds_cache_only(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);
static ngx_int_t ngx_http_mcds_cache_miss(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf);
static ngx_int_t ngx_http_mcds_cache_refresh(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);
static ngx_int_t ngx_http_mcds_cache_behind(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf);
static ngx_int_t ngx_http_mcds_cache_unavailable(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);


ngx_int_t
ngx_http_mcds_cache_decide(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_int_t                    rc;
    ngx_http_mcds_cache_conf_t  *ccf;

    ccf = ngx_http_get_module_loc_conf(r, ngx_http_mcds_cache_module);

    if (!ctx->routed) {
        ctx->routed = 1;

        rc = ngx_http_mcds_cache_end_route(r, ctx, ccf);

        if (rc != NGX_OK) {
            return rc;
        }
    }

    ctx->dry = ccf->cache_dry_run || ctx->asker->cache_dry_run;

    rc = ngx_http_mcds_cache_choose(r, ctx, ccf);

    if (rc != NGX_OK) {
        return rc;
    }

    if (ctx->dry) {
        return ngx_http_mcds_cache_pass(r, ctx, 0);
    }

    ctx->expire = ngx_http_mcds_vary_expire(ctx);

    return NGX_OK;
}


/*
 * decides whether the request is served from the cache, waits, or goes to the
 * origin, as if there was no mcds_cache_dry_run
 */

static ngx_int_t
ngx_http_mcds_cache_choose(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf)
{
    ngx_int_t  rc;

    rc = ngx_http_mcds_lookup_end(r, ctx, ccf);

    if (rc == NGX_BUSY) {
        ctx->status = NGX_HTTP_MCDS_MISS;
        ctx->reason = NGX_MCDS_REASON_VARIANTS;

        return ctx->only_if_cached ? ngx_http_mcds_cache_only(r, ctx)
                                   : ngx_http_mcds_cache_pass(r, ctx, 0);
    }

    if (rc != NGX_OK) {
        return rc;
    }

    if (ctx->state == NGX_HTTP_MCDS_STATE_WAIT) {
        return ngx_http_mcds_cache_entered(r, ctx, ccf);
    }

    if (ctx->state == NGX_HTTP_MCDS_STATE_COUNT_USES) {
        return ngx_http_mcds_cache_miss(r, ctx, ccf);
    }

    ctx->cas = ctx->snapshot ? ctx->snapshot->item_id.cas : 0;

    if (ctx->overwrite) {

        /*
         * the response to this request replaces the stored page only if the
         * page still has the CAS value ctx->cas: a newer page is kept
         */

        return ngx_http_mcds_cache_pass(r, ctx,
                                     ctx->outcome != NGX_MCDS_PAGE_NO_REPLY);
    }

    if (ctx->outcome == NGX_MCDS_PAGE_FOUND) {
        return ngx_http_mcds_cache_use_found(r, ctx, ccf);
    }

    ctx->status = NGX_HTTP_MCDS_MISS;
    ctx->reason = (ctx->outcome == NGX_MCDS_PAGE_NO_REPLY)
                  ? NGX_MCDS_REASON_MEMCACHED : NGX_MCDS_REASON_ABSENT;

    return ngx_http_mcds_cache_miss(r, ctx, ccf);
}


/*
 * decides how the request uses the page in ctx->snapshot, after a lookup of
 * the page as well as after a wait for it
 */

static ngx_int_t
ngx_http_mcds_cache_use_found(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf)
{
    ngx_uint_t                 verdict;
    ngx_http_mcds_judgement_t  j;

    verdict = ngx_http_mcds_judge(r, ctx, ccf, &j);

    if (verdict == NGX_HTTP_MCDS_JUDGE_WAIT) {
        return NGX_AGAIN;
    }

    if (verdict == NGX_HTTP_MCDS_JUDGE_ERROR) {
        return NGX_ERROR;
    }

    if (verdict == NGX_HTTP_MCDS_JUDGE_AGAIN) {
        return ngx_http_mcds_lookup_again(ctx, ccf);
    }

    if (j.built && verdict == NGX_HTTP_MCDS_JUDGE_VALID) {
        ctx->reason = NGX_MCDS_REASON_BUILT;
        ctx->status = NGX_HTTP_MCDS_HIT;
        return NGX_OK;
    }

    if (j.waited) {
        ctx->cas = ctx->snapshot->item_id.cas;
    }

    if (j.waited && !j.built) {

        /*
         * The page is not the one that the request has waited for, and may
         * come from a memcached server that was down: judge the page as if the
         * request had found it without a wait.
         */

        ngx_http_mcds_set_state(ctx, NGX_HTTP_MCDS_STATE_LOOKUP);
        ctx->old_shown = 0;
    }

    switch (verdict) {

    case NGX_HTTP_MCDS_JUDGE_VALID:
        ctx->status = NGX_HTTP_MCDS_HIT;
        ctx->reason = NGX_MCDS_REASON_FRESH;

        if (!ctx->authorization
            && !ctx->no_store
            && ngx_http_mcds_admission_early(ctx, ccf))
        {
            return ngx_http_mcds_cache_enter(r, ctx, ccf, 1, 1);
        }

        return NGX_OK;

    case NGX_HTTP_MCDS_JUDGE_STALE:
        ctx->reason = j.reason;
        return ngx_http_mcds_cache_stale(r, ctx, ccf, j.state);

    default: /* NGX_HTTP_MCDS_JUDGE_GONE: the page that was found is not
                served */
        ctx->reason = j.reason;
        return ngx_http_mcds_cache_gone(r, ctx, ccf, &j);
    }
}


static ngx_int_t
ngx_http_mcds_cache_gone(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf,
    ngx_http_mcds_judgement_t *j)
{
    switch (j->reason) {

    case NGX_MCDS_REASON_UNCACHEABLE:

        /*
         * the page is not cacheable: no other request has to wait for the
         * response to this one
         */

        ctx->status = NGX_HTTP_MCDS_MISS;
        break;

    case NGX_MCDS_REASON_NO_CACHE:

        if (!j->built) {
            ctx->status = NGX_HTTP_MCDS_EXPIRED;
        }

        break;

    case NGX_MCDS_REASON_AUTHORIZATION:
        ctx->status = NGX_HTTP_MCDS_BYPASS;
        return ngx_http_mcds_cache_pass(r, ctx, 0);

    case NGX_MCDS_REASON_REQUEST:
        ctx->status = NGX_HTTP_MCDS_BYPASS;
        ctx->unaccepted = 1;
        return ngx_http_mcds_cache_miss(r, ctx, ccf);

    default: /* NGX_MCDS_REASON_PURGED or _UNSIGNED: the page that was found
                counts as missing */

        if (j->entry->kind == NGX_MCDS_ENTRY_PAGE
            || j->entry->kind == NGX_MCDS_ENTRY_PASS)
        {
            ngx_http_mcds_lookup_drop(ctx);
        }

        ctx->status = NGX_HTTP_MCDS_MISS;
        return ngx_http_mcds_cache_miss(r, ctx, ccf);
    }

    return ctx->only_if_cached ? ngx_http_mcds_cache_only(r, ctx)
                               : ngx_http_mcds_cache_pass(r, ctx, 1);
}


static ngx_int_t
ngx_http_mcds_cache_stale(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf,
    ngx_uint_t state)
{
    ngx_uint_t        has_old;
    ngx_mcds_stale_t  stale;
    ngx_mcds_entry_t  entry;

    if (state == NGX_MCDS_STALE_USABLE) {

        ctx->status = NGX_HTTP_MCDS_UPDATING;

        /*
         * the response to a request with credentials may be for its client
         * only, and the response to one with no-store is not stored: such a
         * request gets the stale page, and does not build a new one
         */

        return (ctx->authorization || ctx->no_store)
               ? NGX_OK : ngx_http_mcds_cache_enter(r, ctx, ccf, 1, 1);
    }

    ctx->status = NGX_HTTP_MCDS_EXPIRED;

    if (state == NGX_MCDS_STALE_UNUSABLE || !ccf->cache_lock) {
        return ngx_http_mcds_cache_miss(r, ctx, ccf);
    }

    if (ctx->only_if_cached) {
        return ngx_http_mcds_cache_only(r, ctx);
    }

    if (ctx->authorization || ctx->no_store) {

        /*
         * a request with credentials does not take the page's lock, so no other
         * request waits for its response; the response is stored if the origin
         * allows this, and the stale page is served in place of an error
         */

        return ngx_http_mcds_cache_pass(r, ctx, 1);
    }

    ctx->old_shown = (state == NGX_MCDS_STALE_LAST);

    ngx_http_mcds_cache_bounds(ccf, &stale);

    entry = ctx->snapshot->entry;
    entry.expire = ngx_http_mcds_vary_expire(ctx);

    has_old = ngx_mcds_fresh_error(&entry, &stale,
                       (ccf->cache_use_stale & NGX_HTTP_MCDS_FAILURES) != 0,
                       ngx_mcds_now());

    return ngx_http_mcds_cache_enter(r, ctx, ccf, 0, has_old);
}


/*
 * handles a request with only-if-cached, RFC 9111, 5.2.1.7, that cannot be
 * served from the cache
 */

static ngx_int_t
ngx_http_mcds_cache_only(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx)
{
    ctx->reason = NGX_MCDS_REASON_ONLY_IF_CACHED;

    return ctx->dry ? ngx_http_mcds_cache_pass(r, ctx, 0)
                    : NGX_HTTP_GATEWAY_TIME_OUT;
}


/*
 * handles a request that no page in the cache can serve: counts a use of the
 * page (mcds_cache_min_uses), builds the page, or goes to the origin
 */

static ngx_int_t
ngx_http_mcds_cache_miss(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf)
{
    ngx_int_t  rc;

    if (ctx->only_if_cached) {
        return ngx_http_mcds_cache_only(r, ctx);
    }

    if (r->method != NGX_HTTP_GET || r->header_only || ctx->no_store) {
        return ngx_http_mcds_cache_pass(r, ctx, 0);
    }

    rc = ngx_http_mcds_admission_uses(r, ctx, ccf);

    if (rc == NGX_AGAIN) {
        ngx_http_mcds_set_state(ctx, NGX_HTTP_MCDS_STATE_COUNT_USES);
        return NGX_AGAIN;
    }

    if (rc == NGX_DECLINED) {
        ctx->reason = NGX_MCDS_REASON_USES;
        return ngx_http_mcds_cache_pass(r, ctx, 0);
    }

    if (rc != NGX_OK) {
        return rc;
    }

    if (ctx->authorization || !ccf->cache_lock) {
        return ngx_http_mcds_cache_pass(r, ctx, 1);
    }

    return ngx_http_mcds_cache_enter(r, ctx, ccf, 0, 0);
}


static ngx_int_t
ngx_http_mcds_cache_enter(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf,
    ngx_uint_t refresh, ngx_uint_t has_old)
{
    ngx_int_t         rc;
    ngx_mcds_enter_t  enter;

    ngx_memzero(&enter, sizeof(ngx_mcds_enter_t));

    enter.lock_age = ccf->cache_lock_age;
    enter.wait = ccf->cache_dry_run ? 0
                 : ngx_http_mcds_cache_wait(ctx, ctx->old_shown
                                                 ? ccf->cache_wait
                                                 : ccf->cache_lock_timeout);
    enter.max_waiters = ccf->cache_max_waiters;
    enter.pace = &ccf->cache_pace;
    enter.cas = ctx->cas;
    enter.backoff = ccf->cache_backoff;
    enter.backoff_max = ccf->cache_backoff_max;
    enter.refresh = refresh;
    enter.has_old = has_old;
    enter.offline = (ctx->outcome == NGX_MCDS_PAGE_NO_REPLY);

    ngx_http_mcds_set_state(ctx, NGX_HTTP_MCDS_STATE_WAIT);

    ctx->lock_start = ngx_current_msec;

    ctx->task->waiting++;

    rc = ngx_mcds_page_enter(&ctx->waiter, &enter, &ctx->outcome);

    if (rc == NGX_OK) {
        return NGX_AGAIN;
    }

    ctx->task->waiting--;

    return ngx_http_mcds_cache_entered(r, ctx, ccf);
}


/*
 * Returns the rest of "limit", the longest wait of a request for its page: the
 * limit counts from the request's first wait for this page, even if the request
 * waits again since it cannot use the page that was built.
 */

static ngx_msec_t
ngx_http_mcds_cache_wait(ngx_http_mcds_cache_ctx_t *ctx, ngx_msec_t limit)
{
    ngx_msec_t  waited;

    if (ctx->wait_start == 0) {
        ctx->wait_start = ngx_current_msec;
    }

    waited = ngx_current_msec - ctx->wait_start;

    return (waited < limit) ? limit - waited : 0;
}


static ngx_int_t
ngx_http_mcds_cache_entered(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf)
{
    ngx_int_t  rc;

    if (ctx->own
        && ctx->outcome != NGX_MCDS_PAGE_FOUND
        && ctx->outcome != NGX_MCDS_PAGE_AGAIN
        && !(ctx->outcome == NGX_MCDS_PAGE_TIMEOUT
             && ctx->waiter.has_old
             && ngx_http_mcds_cache_lasts(ctx, ccf)))
    {
        rc = ngx_http_mcds_own_wait(r, ctx);

        if (rc != NGX_DECLINED) {
            return (rc == NGX_OK) ? NGX_DONE : rc;
        }
    }

    switch (ctx->outcome) {

    case NGX_MCDS_PAGE_FOUND:
        return ngx_http_mcds_cache_use_found(r, ctx, ccf);

    case NGX_MCDS_PAGE_AGAIN:
        return ngx_http_mcds_lookup_again(ctx, ccf);

    case NGX_MCDS_PAGE_BUILD:

        if (ctx->waiter.refresh
            && (!ctx->dry
                || r->method != NGX_HTTP_GET
                || r->header_only
                || ngx_http_mcds_cache_partial(r)))
        {
            return ngx_http_mcds_cache_refresh(r, ctx);
        }

        if (ctx->waiter.refresh) {

            /* a request that rebuilds a fresh page early still is a hit */

            if (ctx->status != NGX_HTTP_MCDS_HIT) {
                ctx->status = NGX_HTTP_MCDS_STALE;
            }

            return ngx_http_mcds_cache_fill(r, ctx);
        }

        if (ngx_http_mcds_cache_partial(r)
            || r->method != NGX_HTTP_GET
            || (ngx_http_mcds_cache_streamed(ctx)
                && (ctx->waiter.has_old || ctx->old_shown
                    || ccf->cache_revalidate)
                && !ctx->behind && !ctx->dry))
        {
            return ngx_http_mcds_cache_behind(r, ctx, ccf);
        }

        return ngx_http_mcds_cache_fill(r, ctx);

    case NGX_MCDS_PAGE_OTHER:
        return NGX_OK;

    case NGX_MCDS_PAGE_PASS:
        ctx->reason = NGX_MCDS_REASON_UNCACHEABLE;
        return ngx_http_mcds_cache_pass(r, ctx, 0);

    default: /* NGX_MCDS_PAGE_TIMEOUT, NGX_MCDS_PAGE_ERROR */
        return ngx_http_mcds_cache_in_vain(r, ctx, ccf);
    }
}


/* continues a request that has waited in vain for its page to be built */

static ngx_int_t
ngx_http_mcds_cache_in_vain(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf)
{
    ngx_uint_t  stale;

    ctx->reason = ctx->waiter.retry ? NGX_MCDS_REASON_BACKOFF
                  : ctx->waiter.failed ? NGX_MCDS_REASON_ERROR
                  : NGX_MCDS_REASON_TIMEOUT;

    stale = ctx->outcome == NGX_MCDS_PAGE_TIMEOUT
            && (ctx->waiter.has_old || ctx->old_shown)
            && ngx_http_mcds_cache_lasts(ctx, ccf);

    if (ctx->dry) {

        if (stale && ctx->waiter.retry) {
            ctx->status = NGX_HTTP_MCDS_STALE;

        } else {
            ctx->status = NGX_HTTP_MCDS_HIT;
            ctx->reason = NGX_MCDS_REASON_WAIT;
        }

        return ngx_http_mcds_cache_pass(r, ctx, 0);
    }

    if (stale) {
        ctx->status = NGX_HTTP_MCDS_STALE;
        return NGX_OK;
    }

    /*
     * The request goes to the origin, and the client gets the response, even an
     * error, in two cases: mcds_cache_lock_timeout has the parameter "pass"; or
     * a background copy of this request builds the page, and either that build
     * has failed, or the configuration lets no request wait for a build.
     */

    if (ccf->cache_lock_pass
        || (ctx->behind
            && (ctx->outcome == NGX_MCDS_PAGE_ERROR
                || ctx->waiter.failed
                || ccf->cache_lock_timeout == 0
                || ccf->cache_max_waiters == 0)))
    {
        return ngx_http_mcds_cache_pass(r, ctx, 0);
    }

    return ngx_http_mcds_cache_unavailable(r, ctx);
}


/*
 * returns 1 if the stale page that a request has found before its wait may
 * still be served: the time of mcds_cache_grace or stale-if-error is not over
 */

static ngx_uint_t
ngx_http_mcds_cache_lasts(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf)
{
    uint64_t          now;
    ngx_uint_t        state;
    ngx_mcds_stale_t  stale;
    ngx_mcds_entry_t  entry;

    if (ctx->snapshot == NULL) {
        return 0;
    }

    ngx_http_mcds_cache_bounds(ccf, &stale);

    entry = ctx->snapshot->entry;
    entry.expire = ngx_http_mcds_vary_expire(ctx);

    now = ngx_mcds_now();
    state = ngx_mcds_fresh_state(&entry, &stale, now);

    return (state != NGX_MCDS_STALE_ERROR && state != NGX_MCDS_STALE_UNUSABLE)
           || ngx_mcds_fresh_error(&entry, &stale,
                       (ccf->cache_use_stale & NGX_HTTP_MCDS_FAILURES) != 0,
                       now);
}


/*
 * serves the stored page to this request, while a copy of the request builds
 * the new page in the background
 */

static ngx_int_t
ngx_http_mcds_cache_refresh(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx)
{
    if (ngx_http_mcds_cache_detach(r, ctx) == NGX_OK
        && ctx->status != NGX_HTTP_MCDS_HIT)
    {
        ctx->status = NGX_HTTP_MCDS_STALE;
    }

    return NGX_OK;
}


/*
 * A HEAD request, a conditional request, or a request for a range, cannot fill
 * the cache, since the build needs the whole page.  So a background copy of the
 * request builds, and the request waits for the build like any other request;
 * if the page turns out to be uncacheable, the response is for this request
 * alone, see ngx_http_mcds_own.h.
 *
 * A background copy of the request also builds if the request has found a
 * streamed page (one that is sent in parts), which may be served after a
 * failure, or confirmed by a 304: ngx_http_mcds_instead_body() cannot put a
 * streamed page in place of the origin's response, but the request can serve it
 * when the build has ended.
 */

static ngx_int_t
ngx_http_mcds_cache_behind(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf)
{
    ngx_uint_t  has_old;

    has_old = ctx->waiter.has_old;

    if (!ctx->behind
        && !ctx->dry
        && ngx_http_mcds_own_create(r, ctx) != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (ctx->behind || ngx_http_mcds_cache_detach(r, ctx) != NGX_OK) {

        /*
         * the background build for this request has failed: the request goes
         * to the origin, and the next request may build the page
         */

        return ngx_http_mcds_cache_pass(r, ctx, 0);
    }

    if (ctx->dry) {
        return ngx_http_mcds_cache_pass(r, ctx, 0);
    }

    /*
     * the time that the request has spent waiting for builds of other requests
     * does not count for its own build
     */

    ctx->behind = 1;
    ctx->wait_start = 0;

    if (ngx_http_mcds_lookup_join(ctx, ccf) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_http_mcds_cache_enter(r, ctx, ccf, 0, has_old);
}


static ngx_int_t
ngx_http_mcds_cache_unavailable(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx)
{
    u_char  *p;

    p = ngx_pnalloc(r->pool, NGX_INT64_LEN + 1);
    if (p == NULL) {
        return NGX_ERROR;
    }

    *ngx_sprintf(p, "%M", ngx_max((ctx->waiter.retry + 999) / 1000, 1)) = '\0';

    if (ngx_http_mcds_header_text(r, "Retry-After", (char *) p) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_log_error(NGX_LOG_WARN, r->connection->log, 0,
                  ctx->outcome == NGX_MCDS_PAGE_ERROR
                  ? "page could not be built a moment ago"
                  : "page is still being built by another request");

    return NGX_HTTP_SERVICE_UNAVAILABLE;
}

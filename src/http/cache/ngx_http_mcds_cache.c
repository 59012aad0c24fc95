
/*
 * Copyright (C) mcds authors
 *
 * What a request does with the page under its key: serve it, build it, have
 * it refreshed, wait, or pass.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_header.h"
#include "ngx_http_mcds_hot.h"
#include "ngx_http_mcds_refresh.h"
#include "ngx_http_mcds_cache.h"
#include "ngx_http_mcds_coding.h"
#include "ngx_http_mcds_control.h"
#include "ngx_http_mcds_forwarded.h"
#include "ngx_http_mcds_herd.h"
#include "ngx_http_mcds_invalidate.h"
#include "ngx_http_mcds_judge.h"
#include "ngx_http_mcds_key.h"
#include "ngx_http_mcds_lookup.h"
#include "ngx_http_mcds_own.h"
#include "ngx_http_mcds_revalidate.h"
#include "ngx_http_mcds_route.h"
#include "ngx_http_mcds_session.h"
#include "ngx_http_mcds_store.h"
#include "ngx_http_mcds_stream.h"
#include "ngx_http_mcds_tags.h"
#include "ngx_http_mcds_vary.h"


static ngx_uint_t ngx_http_mcds_cache_applies(ngx_http_request_t *r,
    ngx_http_mcds_cache_conf_t *ccf);
static ngx_uint_t ngx_http_mcds_cache_personal(ngx_http_request_t *r,
    ngx_http_mcds_cache_conf_t *ccf);
static ngx_int_t ngx_http_mcds_cache_ask(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf);
static ngx_int_t ngx_http_mcds_cache_arrive(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf);
static ngx_int_t ngx_http_mcds_cache_join(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf);
static ngx_int_t ngx_http_mcds_cache_refuse(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_uint_t reason);
static void ngx_http_mcds_cache_forget(ngx_http_mcds_cache_ctx_t *ctx);
static ngx_int_t ngx_http_mcds_cache_choose(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf);
static ngx_int_t ngx_http_mcds_cache_judged(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf);
static ngx_int_t ngx_http_mcds_cache_gone(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf,
    ngx_http_mcds_judgement_t *j);
static ngx_int_t ngx_http_mcds_cache_stale(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf,
    ngx_uint_t state);
static ngx_int_t ngx_http_mcds_cache_entered(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf);
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
static ngx_int_t ngx_http_mcds_cache_detach(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);
static void ngx_http_mcds_cache_refreshed(ngx_http_request_t *r, void *data,
    ngx_int_t rc);
static ngx_uint_t ngx_http_mcds_cache_streamed(ngx_http_mcds_cache_ctx_t *ctx);
static ngx_uint_t ngx_http_mcds_cache_upgrade(ngx_http_request_t *r);
static ngx_int_t ngx_http_mcds_cache_fill(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);
static ngx_int_t ngx_http_mcds_cache_pass(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_uint_t store);
static ngx_int_t ngx_http_mcds_cache_unavailable(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);


ngx_int_t
ngx_http_mcds_cache_start(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf)
{
    ngx_int_t  rc;

    ngx_http_mcds_set_state(ctx, NGX_HTTP_MCDS_STATE_BYPASS);

    ctx->asker = ccf;
    ctx->conf = ccf;
    ctx->error_page = r->error_page;

    ngx_http_mcds_route_begin(r, ctx);

    if (ngx_http_mcds_invalidate_start(r, ctx) != NGX_OK) {
        return NGX_ERROR;
    }

    ctx->reason = ngx_http_mcds_cache_applies(r, ccf);

    if (ctx->reason) {
        return NGX_OK;
    }

    if (ngx_http_mcds_overridden(r)) {
        ctx->status = NGX_HTTP_MCDS_BYPASS;
        ctx->reason = NGX_MCDS_REASON_OVERRIDE;
        return NGX_OK;
    }

    if (ngx_http_mcds_session(r, ccf->session_cookies)) {
        ctx->status = NGX_HTTP_MCDS_BYPASS;
        ctx->reason = NGX_MCDS_REASON_SESSION;
        return NGX_OK;
    }

    rc = ngx_http_mcds_cache_key(r, ccf, &ctx->key);

    if (rc == NGX_DECLINED) {
        ctx->status = NGX_HTTP_MCDS_BYPASS;
        ctx->reason = NGX_MCDS_REASON_KEY;
        return NGX_OK;
    }

    if (rc != NGX_OK) {
        return rc;
    }

    ngx_http_mcds_hot_add(NGX_MCDS_HOT_PAGES, &ctx->key);

    ctx->authorization = ngx_http_mcds_cache_personal(r, ccf);

    if (ngx_http_mcds_control(r, ctx) != NGX_OK) {
        return NGX_ERROR;
    }

    if (ngx_http_mcds_cache_upgrade(r)) {
        ctx->no_store = 1;
    }

    if (ngx_http_test_predicates(r, ccf->cache_bypass) != NGX_OK) {

        /* as in proxy_cache: not taken from the cache, but stored */

        ctx->status = NGX_HTTP_MCDS_BYPASS;
        ctx->reason = NGX_MCDS_REASON_BYPASS;
        ctx->replace = 1;
    }

    /* as it would be, if nothing led the request elsewhere */

    if (ngx_http_mcds_route_here(r, ctx) == NGX_ERROR) {
        return NGX_ERROR;
    }

    return ngx_http_mcds_cache_ask(r, ctx, ccf);
}


/* sends the look-up of ctx->key */

static ngx_int_t
ngx_http_mcds_cache_ask(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf)
{
    ngx_http_mcds_set_state(ctx, NGX_HTTP_MCDS_STATE_LOOKUP);

    ctx->at = ctx->key;
    ctx->came = ngx_mcds_now();

    if (ngx_http_mcds_lookup_sit(ctx, ccf) != NGX_OK) {
        return NGX_ERROR;
    }

    if (ngx_http_mcds_lookup(r, ctx, ccf) != NGX_OK) {
        return NGX_ERROR;
    }

    if (ccf->tags
        && ctx->tags == NULL
        && ngx_http_mcds_tags_start(r, ctx, ccf) != NGX_OK)
    {
        return NGX_ERROR;
    }

    return NGX_OK;
}


/* NONE, or the reason why it does not */

static ngx_uint_t
ngx_http_mcds_cache_applies(ngx_http_request_t *r,
    ngx_http_mcds_cache_conf_t *ccf)
{
    if (!(r->method & ccf->cache_methods)) {
        return NGX_MCDS_REASON_METHOD;
    }

    /* a body may mean something else, subrequests are sent with it too */

    if (r->headers_in.content_length_n > 0 || r->headers_in.chunked) {
        return NGX_MCDS_REASON_BODY;
    }

    /* an error page shows the error of another location */

    if (r->err_status) {
        return NGX_MCDS_REASON_ERROR_PAGE;
    }

    /*
     * mirror, and background updates of other caches, have no reader; the
     * status of auth_request's subrequest is for one client, and a page that
     * another one has got must not speak for it
     */

    if (r->background || (r != r->main && r->header_only)) {
        return NGX_MCDS_REASON_BACKGROUND;
    }

    return NGX_MCDS_REASON_NONE;
}


/*
 * 1 if the page may be for this client alone: the request has named a user, or
 * the access rules have asked about the client.
 */

static ngx_uint_t
ngx_http_mcds_cache_personal(ngx_http_request_t *r,
    ngx_http_mcds_cache_conf_t *ccf)
{
    ngx_http_mcds_cache_ctx_t  *ctx;
#if (NGX_HTTP_SSL)
    X509                 *cert;
    ngx_connection_t     *c;
#endif

    if (ccf->cache_shared) {
        return 0;
    }

    ctx = ngx_http_mcds_cache_get(r->main);

    if (r->headers_in.authorization || (ctx && ctx->asked_about)) {
        return 1;
    }

#if (NGX_HTTP_SSL)

    c = r->connection;

    if (c->ssl) {
        cert = SSL_get_peer_certificate(c->ssl->connection);

        if (cert) {
            X509_free(cert);
            return 1;
        }
    }

#endif

    return 0;
}


ngx_int_t
ngx_http_mcds_cache_decide(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_int_t                    rc;
    ngx_http_mcds_cache_conf_t  *ccf;

    ccf = ngx_http_get_module_loc_conf(r, ngx_http_mcds_cache_module);

    if (!ctx->routed) {
        ctx->routed = 1;

        rc = ngx_http_mcds_cache_arrive(r, ctx, ccf);

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


/* the request has reached the location that answers */

static ngx_int_t
ngx_http_mcds_cache_arrive(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf)
{
    ngx_int_t  rc;

    ctx->error_page = r->error_page;

    rc = ngx_http_mcds_route_here(r, ctx);

    if (rc == NGX_ERROR) {
        return NGX_ERROR;
    }

    ctx->rerouted = (rc == NGX_DECLINED);

    if (ccf == ctx->conf && ctx->state != NGX_HTTP_MCDS_STATE_LEFT) {
        return NGX_OK;
    }

    return ngx_http_mcds_cache_join(r, ctx, ccf);
}


/*
 * The rules of the location that answers hold, too.  If it keeps its pages
 * elsewhere, or under other keys, then they are asked for now.
 */

static ngx_int_t
ngx_http_mcds_cache_join(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf)
{
    ngx_int_t                    rc;
    ngx_str_t                    key;
    ngx_uint_t                   reason, no_store, only_if_cached;
    ngx_http_mcds_cache_conf_t  *asker;

    asker = ctx->conf;

    if (ccf->cache_pool == NULL) {
        return ngx_http_mcds_cache_refuse(ctx, NGX_MCDS_REASON_OFF);
    }

    ctx->conf = ccf;

    reason = ngx_http_mcds_cache_applies(r, ccf);

    if (reason) {
        return ngx_http_mcds_cache_refuse(ctx, reason);
    }

    if (ngx_http_mcds_session(r, ccf->session_cookies)) {
        return ngx_http_mcds_cache_refuse(ctx, NGX_MCDS_REASON_SESSION);
    }

    rc = ngx_http_mcds_cache_key(r, ccf, &key);

    if (rc == NGX_DECLINED) {
        return ngx_http_mcds_cache_refuse(ctx, NGX_MCDS_REASON_KEY);
    }

    if (rc != NGX_OK) {
        return rc;
    }

    if (ngx_http_mcds_cache_personal(r, ccf)) {
        ctx->authorization = 1;
    }

    if (ccf->cache_request_control && !asker->cache_request_control) {

        no_store = ctx->no_store;
        only_if_cached = ctx->only_if_cached;

        if (ngx_http_mcds_control(r, ctx) != NGX_OK) {
            return NGX_ERROR;
        }

        ctx->no_store |= no_store;
        ctx->only_if_cached |= only_if_cached;
    }

    if (!ctx->replace
        && ngx_http_test_predicates(r, ccf->cache_bypass) != NGX_OK)
    {
        ctx->status = NGX_HTTP_MCDS_BYPASS;
        ctx->reason = NGX_MCDS_REASON_BYPASS;
        ctx->replace = 1;
    }

    if (ctx->seat.page
        && ccf->cache_pool == asker->cache_pool
        && ccf->secrets == asker->secrets
        && ccf->cache_local == asker->cache_local
        && ccf->cache_local_time == asker->cache_local_time
        && ccf->cache_max_size == asker->cache_max_size
        && ngx_mcds_same(&key, &ctx->key))
    {
        if (ccf->tags == NULL || ctx->tags) {
            return NGX_OK;
        }

        /* how many purges there were before the origin is asked */

        return (ngx_http_mcds_tags_start(r, ctx, ccf) == NGX_OK)
               ? NGX_AGAIN : NGX_ERROR;
    }

    ngx_http_mcds_cache_forget(ctx);

    /* those beside the other page */

    ngx_mcds_tags_free(ctx->tags);
    ctx->tags = NULL;
    ctx->purges = 0;

    ctx->key = key;

    if (ngx_http_mcds_cache_ask(r, ctx, ccf) != NGX_OK) {
        return NGX_ERROR;
    }

    return ctx->task->waiting ? NGX_AGAIN : NGX_OK;
}


static ngx_int_t
ngx_http_mcds_cache_refuse(ngx_http_mcds_cache_ctx_t *ctx, ngx_uint_t reason)
{
    ngx_http_mcds_cache_forget(ctx);
    ngx_http_mcds_set_state(ctx, NGX_HTTP_MCDS_STATE_PASS);

    ctx->status = NGX_HTTP_MCDS_BYPASS;
    ctx->reason = reason;

    return NGX_DECLINED;
}


/* what was found is not for this request, all answers have come */

static void
ngx_http_mcds_cache_forget(ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_http_mcds_lookup_drop(ctx);
    ngx_http_mcds_lookup_cleanup(ctx);

    ngx_mcds_page_leave(&ctx->seat);

    ctx->outcome = NGX_MCDS_PAGE_MISSING;
    ctx->cas = 0;
    ctx->vary.turns = 0;
    ctx->behind = 0;
    ctx->rerouted = 0;
}


ngx_int_t
ngx_http_mcds_cache_left(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_uint_t                   refused;
    ngx_http_mcds_cache_conf_t  *ccf;

    refused = ngx_http_mcds_store_left(r, ctx);

    if (ngx_http_mcds_revalidate_asked(r, ctx) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (ctx->task->refresh) {
        return NGX_DECLINED;
    }

    ccf = ngx_http_get_module_loc_conf(r, ngx_http_mcds_cache_module);

    if (refused || ctx->dry || ccf->cache_pool == NULL) {
        ngx_http_mcds_set_state(ctx, NGX_HTTP_MCDS_STATE_PASS);
        ctx->outcome = NGX_MCDS_PAGE_MISSING;
        return NGX_OK;
    }

    /* that location's pages are found when its rules have been looked at */

    ngx_http_mcds_cache_forget(ctx);
    ngx_http_mcds_set_state(ctx, NGX_HTTP_MCDS_STATE_LEFT);

    ctx->routed = 0;
    ctx->judged = 0;

    return NGX_OK;
}


/* what to do, were this not a dry run */

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

    ctx->cas = ctx->copy ? ctx->copy->stamp.cas : 0;

    if (ctx->replace) {

        /* what is there now is known, what comes later is not replaced */

        return ngx_http_mcds_cache_pass(r, ctx,
                                     ctx->outcome != NGX_MCDS_PAGE_FAILED);
    }

    if (ctx->outcome == NGX_MCDS_PAGE_FOUND) {
        return ngx_http_mcds_cache_judged(r, ctx, ccf);
    }

    ctx->status = NGX_HTTP_MCDS_MISS;
    ctx->reason = (ctx->outcome == NGX_MCDS_PAGE_FAILED)
                  ? NGX_MCDS_REASON_MEMCACHED : NGX_MCDS_REASON_ABSENT;

    return ngx_http_mcds_cache_miss(r, ctx, ccf);
}


/* ctx->copy, after a look-up and after a wait alike */

static ngx_int_t
ngx_http_mcds_cache_judged(ngx_http_request_t *r,
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
        ctx->cas = ctx->copy->stamp.cas;
    }

    if (j.waited && !j.built) {

        /*
         * Another page than the one that the request has waited for, maybe of
         * a server that was away: as if the first look-up had found it.
         */

        ngx_http_mcds_set_state(ctx, NGX_HTTP_MCDS_STATE_LOOKUP);
        ctx->old_shown = 0;
    }

    switch (verdict) {

    case NGX_HTTP_MCDS_JUDGE_VALID:
        ctx->status = NGX_HTTP_MCDS_HIT;
        ctx->reason = NGX_MCDS_REASON_FRESH;

        if (!ctx->authorization && ngx_http_mcds_herd_early(ctx, ccf)) {
            return ngx_http_mcds_cache_enter(r, ctx, ccf, 1, 1);
        }

        return NGX_OK;

    case NGX_HTTP_MCDS_JUDGE_STALE:
        ctx->reason = j.reason;
        return ngx_http_mcds_cache_stale(r, ctx, ccf, j.state);

    default: /* NGX_HTTP_MCDS_JUDGE_GONE */
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

        /* others need not wait for this one */

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

    default: /* NGX_MCDS_REASON_PURGED, NGX_MCDS_REASON_UNSIGNED */

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

        /* such a request starts no build */

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
        return ngx_http_mcds_cache_pass(r, ctx, 0);
    }

    ctx->old_shown = (state == NGX_MCDS_STALE_LAST);

    ngx_http_mcds_cache_bounds(ccf, &stale);

    entry = ctx->copy->entry;
    entry.expire = ngx_http_mcds_vary_expire(ctx);

    has_old = ngx_mcds_fresh_error(&entry, &stale,
                       (ccf->cache_use_stale & NGX_HTTP_MCDS_FAILURES) != 0,
                       ngx_mcds_now());

    return ngx_http_mcds_cache_enter(r, ctx, ccf, 0, has_old);
}


/* only-if-cached, RFC 9111, 5.2.1.7 */

static ngx_int_t
ngx_http_mcds_cache_only(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx)
{
    ctx->reason = NGX_MCDS_REASON_ONLY_IF_CACHED;

    return ctx->dry ? ngx_http_mcds_cache_pass(r, ctx, 0)
                    : NGX_HTTP_GATEWAY_TIME_OUT;
}


/* nothing that could be served */

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

    rc = ngx_http_mcds_herd_uses(r, ctx, ccf);

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
    enter.cas = ctx->cas;
    enter.backoff = ccf->cache_backoff;
    enter.backoff_max = ccf->cache_backoff_max;
    enter.refresh = refresh;
    enter.has_old = has_old;
    enter.local = (ctx->outcome == NGX_MCDS_PAGE_FAILED);

    ngx_http_mcds_set_state(ctx, NGX_HTTP_MCDS_STATE_WAIT);

    ctx->lock_start = ngx_current_msec;

    ctx->task->waiting++;

    rc = ngx_mcds_page_enter(&ctx->seat, &enter, &ctx->outcome);

    if (rc == NGX_OK) {
        return NGX_AGAIN;
    }

    ctx->task->waiting--;

    return ngx_http_mcds_cache_entered(r, ctx, ccf);
}


/*
 * What is left of the limit: a request that has waited for a page that it
 * cannot use does not wait anew.
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
        && !(ctx->outcome == NGX_MCDS_PAGE_TIMEOUT && ctx->seat.has_old))
    {
        rc = ngx_http_mcds_own_wait(r, ctx);

        if (rc != NGX_DECLINED) {
            return (rc == NGX_OK) ? NGX_DONE : rc;
        }
    }

    switch (ctx->outcome) {

    case NGX_MCDS_PAGE_FOUND:
        return ngx_http_mcds_cache_judged(r, ctx, ccf);

    case NGX_MCDS_PAGE_AGAIN:
        return ngx_http_mcds_lookup_again(ctx, ccf);

    case NGX_MCDS_PAGE_BUILD:

        if (ctx->seat.refresh
            && (!ctx->dry
                || r->method != NGX_HTTP_GET
                || r->header_only
                || ngx_http_mcds_cache_partial(r)))
        {
            return ngx_http_mcds_cache_refresh(r, ctx);
        }

        if (ctx->seat.refresh) {
            ctx->status = NGX_HTTP_MCDS_STALE;
            return ngx_http_mcds_cache_fill(r, ctx);
        }

        if (ngx_http_mcds_cache_partial(r)
            || r->method != NGX_HTTP_GET
            || (ngx_http_mcds_cache_streamed(ctx)
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

        if (ctx->dry) {
            ctx->status = NGX_HTTP_MCDS_HIT;
            ctx->reason = NGX_MCDS_REASON_WAIT;
            return ngx_http_mcds_cache_pass(r, ctx, 0);
        }

        ctx->reason = ctx->seat.retry ? NGX_MCDS_REASON_BACKOFF
                      : ctx->seat.failed ? NGX_MCDS_REASON_ERROR
                      : NGX_MCDS_REASON_TIMEOUT;

        if (ctx->outcome == NGX_MCDS_PAGE_TIMEOUT
            && (ctx->seat.has_old || ctx->old_shown))
        {
            ctx->status = NGX_HTTP_MCDS_STALE;
            return NGX_OK;
        }

        /* whose own build has failed is told how, as one that fills is */

        if (ccf->cache_lock_pass
            || (ctx->behind && ctx->outcome == NGX_MCDS_PAGE_ERROR))
        {
            return ngx_http_mcds_cache_pass(r, ctx, 0);
        }

        return ngx_http_mcds_cache_unavailable(r, ctx);
    }
}


/* this request shows the old page, and a copy of it builds the new one */

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
 * A conditional request, or one for a range, cannot fill: the origin is to be
 * asked for the whole page.  So a copy builds, and the request waits for it
 * like others; if the page turns out to be uncacheable the answer is for the
 * request alone, see ngx_http_mcds_own.h.  So does one that has found a page
 * that is streamed: that cannot take the place of the origin's answer, see
 * ngx_http_mcds_instead_body(), but be served when the copy has ended.
 */

static ngx_int_t
ngx_http_mcds_cache_behind(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf)
{
    ngx_uint_t  has_old;

    has_old = ctx->seat.has_old;

    if (!ctx->behind
        && !ctx->dry
        && ngx_http_mcds_own_create(r, ctx) != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (ctx->behind || ngx_http_mcds_cache_detach(r, ctx) != NGX_OK) {

        /* it did not work out: let the next one try */

        return ngx_http_mcds_cache_pass(r, ctx, 0);
    }

    if (ctx->dry) {
        return ngx_http_mcds_cache_pass(r, ctx, 0);
    }

    /* it has waited for others, and waits for its own build from here on */

    ctx->behind = 1;
    ctx->wait_start = 0;

    if (ngx_http_mcds_lookup_sit(ctx, ccf) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_http_mcds_cache_enter(r, ctx, ccf, 0, has_old);
}


ngx_int_t
ngx_http_mcds_cache_rebuild(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf,
    uint64_t cas)
{
    ngx_int_t         rc;
    ngx_mcds_enter_t  enter;

    ngx_http_mcds_set_state(ctx, NGX_HTTP_MCDS_STATE_WAIT);

    ctx->asker = ccf;
    ctx->conf = ccf;
    ctx->at = ctx->key;

    ngx_http_mcds_route_begin(r, ctx);

    if (ngx_http_mcds_lookup_sit(ctx, ccf) != NGX_OK) {
        return NGX_ERROR;
    }

    if (ccf->tags && ngx_http_mcds_tags_start(r, ctx, ccf) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_memzero(&enter, sizeof(ngx_mcds_enter_t));

    enter.lock_age = ccf->cache_lock_age;
    enter.cas = cas;
    enter.backoff = ccf->cache_backoff;
    enter.backoff_max = ccf->cache_backoff_max;
    enter.refresh = 1;

    ctx->task->waiting++;

    rc = ngx_mcds_page_enter(&ctx->seat, &enter, &ctx->outcome);

    if (rc == NGX_OK) {
        return NGX_AGAIN;
    }

    return (--ctx->task->waiting) ? NGX_AGAIN : NGX_OK;
}


ngx_uint_t
ngx_http_mcds_cache_rebuilt(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx)
{
    return ctx->outcome == NGX_MCDS_PAGE_BUILD
           && ngx_http_mcds_cache_detach(r, ctx) == NGX_OK;
}


/* hands the build of r to a copy; ends it if that cannot be made */

static ngx_int_t
ngx_http_mcds_cache_detach(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_http_request_t         *sr;
    ngx_http_mcds_cache_ctx_t  *sctx;

    /* the data serve as a mark only, see ngx_http_mcds_silent() */

    sr = ngx_http_mcds_refresh_create(r, ngx_http_mcds_cache_refreshed,
                                      ctx->seat.page);

    sctx = sr ? ngx_http_mcds_cache_need(sr) : NULL;

    if (sctx) {
        ngx_http_mcds_set_state(sctx, NGX_HTTP_MCDS_STATE_DETACHED);

        sctx->task->refresh = 1;
        sctx->error_page = ctx->error_page;
        sctx->start = ngx_current_msec;

        sctx->key.len = ctx->key.len;
        sctx->key.data = ngx_pstrdup(sr->pool, &ctx->key);

        sctx->asker = ctx->asker;
        sctx->conf = ctx->conf;
        sctx->purges = ctx->purges;
        sctx->copy = ctx->copy ? ngx_mcds_copy_ref(ctx->copy) : NULL;

        ngx_http_mcds_lookup_inherit(sctx, ctx);
    }

    if (sctx == NULL
        || sctx->key.data == NULL
        || ngx_http_mcds_route_inherit(sr, sctx, ctx) != NGX_OK
        || ngx_http_mcds_revalidate_ask(sr, sctx) != NGX_OK)
    {
        ngx_mcds_page_built(&ctx->seat, NGX_MCDS_BUILD_FAILED, NULL, 0);
        return NGX_ERROR;
    }

    ngx_http_mcds_own_link(ctx, sctx);
    ngx_mcds_page_hand(&ctx->seat, &sctx->seat);

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

    if (ctx->seat.building) {
        ngx_http_mcds_store_cleanup(ctx);
        ngx_mcds_page_built(&ctx->seat, NGX_MCDS_BUILD_BACKOFF, NULL, 0);
    }

    ngx_http_mcds_own_end(ctx);
}


static ngx_uint_t
ngx_http_mcds_cache_streamed(ngx_http_mcds_cache_ctx_t *ctx)
{
    return ctx->copy
           && ctx->copy->entry.kind == NGX_MCDS_ENTRY_PAGE
           && ngx_http_mcds_streamed(&ctx->copy->entry);
}


/*
 * A request for another protocol, such as a WebSocket, needs its headers, and
 * what it asks for is no page.  Clients offer h2c with any request and take an
 * answer in HTTP/1.1; RFC 9110, 7.8, has it ignored in HTTP/1.0.
 */

static ngx_uint_t
ngx_http_mcds_cache_upgrade(ngx_http_request_t *r)
{
    ngx_table_elt_t  *h;

    h = r->headers_in.upgrade;

    return h
           && r->http_version == NGX_HTTP_VERSION_11
           && !ngx_http_mcds_header_is(&h->value, "h2c");
}


static ngx_int_t
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


/* store: the answer may be stored, though nobody waits for it */

static ngx_int_t
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
        ngx_mcds_page_leave(&ctx->seat);
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


static ngx_int_t
ngx_http_mcds_cache_unavailable(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx)
{
    u_char  *p;

    p = ngx_pnalloc(r->pool, NGX_INT64_LEN + 1);
    if (p == NULL) {
        return NGX_ERROR;
    }

    *ngx_sprintf(p, "%M", ngx_max((ctx->seat.retry + 999) / 1000, 1)) = '\0';

    if (ngx_http_mcds_header_text(r, "Retry-After", (char *) p) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_log_error(NGX_LOG_WARN, r->connection->log, 0,
                  ctx->outcome == NGX_MCDS_PAGE_ERROR
                  ? "page could not be built a moment ago"
                  : "page is still being built by another request");

    return NGX_HTTP_SERVICE_UNAVAILABLE;
}

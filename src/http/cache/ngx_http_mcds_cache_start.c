
/*
 * Copyright (C) mcds authors
 *
 * Decides whether a request uses the cache, and by which key, and whether the
 * location that responds has other rules than the first location of the
 * request.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_header.h"
#include "ngx_http_mcds_hotkeys.h"
#include "ngx_http_mcds_nginx.h"
#include "ngx_http_mcds_cache.h"
#include "ngx_http_mcds_request_cc.h"
#include "ngx_http_mcds_forwarded.h"
#include "ngx_http_mcds_invalidate.h"
#include "ngx_http_mcds_key.h"
#include "ngx_http_mcds_lookup.h"
#include "ngx_http_mcds_own.h"
#include "ngx_http_mcds_revalidate.h"
#include "ngx_http_mcds_route.h"
#include "ngx_http_mcds_session.h"
#include "ngx_http_mcds_store.h"
#include "ngx_http_mcds_tags.h"


static ngx_int_t ngx_http_mcds_cache_ask(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf);
static ngx_uint_t ngx_http_mcds_cache_applies(ngx_http_request_t *r,
    ngx_http_mcds_cache_conf_t *ccf);
static ngx_uint_t ngx_http_mcds_cache_replaced(ngx_http_request_t *r);
static ngx_uint_t ngx_http_mcds_cache_personal(ngx_http_request_t *r,
    ngx_http_mcds_cache_conf_t *ccf);
static ngx_uint_t ngx_http_mcds_cache_refuse_redirect(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);
static ngx_int_t ngx_http_mcds_cache_take_location(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf);
static ngx_int_t ngx_http_mcds_cache_refuse(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_uint_t reason);
static void ngx_http_mcds_cache_forget(ngx_http_mcds_cache_ctx_t *ctx);
static ngx_uint_t ngx_http_mcds_cache_upgrade(ngx_http_request_t *r);
static ngx_uint_t ngx_http_mcds_cache_cased(ngx_http_request_t *r);


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

    /*
     * for HTTP/3, a Host header is added for the key and the origin, even if
     * the cache is bypassed
     */

    if (ngx_http_mcds_key_host(r) != NGX_OK
        || ngx_http_mcds_invalidate_start(r, ctx, ccf) != NGX_OK)
    {
        return NGX_ERROR;
    }

    ctx->reason = ngx_http_mcds_cache_applies(r, ccf);

    if (ctx->reason) {
        return NGX_OK;
    }

    ctx->authorization = ngx_http_mcds_cache_personal(r, ccf);

    if (ngx_http_mcds_cache_refuse_redirect(r, ctx)) {
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

    ngx_http_mcds_hotkeys_add(NGX_MCDS_HOTKEYS_PAGES, &ctx->key);

    if (ngx_http_mcds_request_cc(r, ctx) != NGX_OK) {
        return NGX_ERROR;
    }

    if (ngx_http_mcds_cache_upgrade(r) || ngx_http_mcds_cache_cased(r)) {
        ctx->no_store = 1;
    }

    if (ngx_http_test_predicates(r, ccf->cache_bypass) != NGX_OK) {

        /*
         * with mcds_cache_bypass, as with proxy_cache_bypass, the stored page
         * is not used, but replaced
         */

        ctx->status = NGX_HTTP_MCDS_BYPASS;
        ctx->reason = NGX_MCDS_REASON_BYPASS;
        ctx->overwrite = 1;
    }

    /*
     * notes the locations that the request has passed so far, its route: a
     * later redirect of the request to another location changes the route
     */

    if (ngx_http_mcds_route_here(r, ctx) == NGX_ERROR) {
        return NGX_ERROR;
    }

    return ngx_http_mcds_cache_ask(r, ctx, ccf);
}


/* sends memcached the command that looks up the request's page */

static ngx_int_t
ngx_http_mcds_cache_ask(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf)
{
    ngx_http_mcds_set_state(ctx, NGX_HTTP_MCDS_STATE_LOOKUP);

    ctx->at = ctx->key;
    ctx->came = ngx_mcds_now();

    if (ngx_http_mcds_lookup_join(ctx, ccf) != NGX_OK) {
        return NGX_ERROR;
    }

    if (ngx_http_mcds_lookup(r, ctx, ccf) != NGX_OK) {
        return NGX_ERROR;
    }

    if (ccf->tags
        && ctx->tags == NULL
        && ngx_http_mcds_tagging->start(r, ctx, ccf) != NGX_OK)
    {
        return NGX_ERROR;
    }

    return NGX_OK;
}


/*
 * returns NGX_MCDS_REASON_NONE if the request uses the cache, or the reason
 * why it does not
 */

static ngx_uint_t
ngx_http_mcds_cache_applies(ngx_http_request_t *r,
    ngx_http_mcds_cache_conf_t *ccf)
{
    if (!(r->method & ccf->cache_methods)) {
        return NGX_MCDS_REASON_METHOD;
    }

    /*
     * the body of a request may change the response, so the cache is not used;
     * subrequests inherit the body
     */

    if (r->headers_in.content_length_n > 0 || r->headers_in.chunked) {
        return NGX_MCDS_REASON_BODY;
    }

    /*
     * the request was redirected to an error page, whose content is about the
     * failed request: the cache is not used
     */

    if (r->err_status || ngx_http_mcds_cache_replaced(r)) {
        return NGX_MCDS_REASON_ERROR_PAGE;
    }

    /*
     * the cache is not used for requests of mirror and background updates of
     * other caches, whose responses are not read, nor for the subrequests of
     * auth_request, whose responses authorize one client each
     */

    if (r->background || (r != r->main && r->header_only)) {
        return NGX_MCDS_REASON_BACKGROUND;
    }

    return NGX_MCDS_REASON_NONE;
}


/*
 * Returns 1 if "error_page =", for which nginx does not set r->err_status, has
 * led the request here after an upstream has responded or was tried.  If none
 * was, the location of the error page makes the page.
 */

static ngx_uint_t
ngx_http_mcds_cache_replaced(ngx_http_request_t *r)
{
    ngx_http_mcds_main_conf_t  *mmcf;

    if (r->upstream == NULL) {
        return 0;
    }

    if (!ngx_http_mcds_is_accel(r)) {
        return ngx_http_mcds_is_error_page(r);
    }

    /*
     * X-Accel-Redirect has led the request here: from a location with an
     * upstream of its own, or from an error page, if there were two upstreams.
     * With "recursive_error_pages on" nginx does not tell the two apart.
     */

    mmcf = ngx_http_get_module_main_conf(r, ngx_http_mcds_module);

    return ngx_http_mcds_is_second(r) && (r->error_page || mmcf->recursive);
}


/*
 * Returns 1 if the page may be for this client only: the request has
 * credentials, or auth_request has checked the client.
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


/*
 * Returns 1 if X-Accel-Redirect has led the request to this location, from one
 * with the cache off, and the response with X-Accel-Redirect forbids to store
 * the response of this location, or was not the first with X-Accel-Redirect:
 * the cache is not used.
 */

static ngx_uint_t
ngx_http_mcds_cache_refuse_redirect(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx)
{
    if (!ngx_http_mcds_is_accel(r)) {
        return 0;
    }

    if (ngx_http_mcds_is_second(r)) {

        /*
         * two responses with X-Accel-Redirect, one after the other, have led
         * the request here, and nginx no longer has the headers of the first
         */

        ctx->status = NGX_HTTP_MCDS_BYPASS;
        ctx->reason = NGX_MCDS_REASON_ERROR_PAGE;
        return 1;
    }

    ctx->start = ngx_current_msec;

    /*
     * mcds_ignore_headers of this location is about the responses of this
     * location, and not about the response with X-Accel-Redirect
     */

    ctx->reason = ngx_http_mcds_store_redirect(r, ctx, 0);

    if (ctx->reason) {
        ctx->status = NGX_HTTP_MCDS_BYPASS;
        return 1;
    }

    return 0;
}


ngx_uint_t
ngx_http_mcds_cache_may_rebuild(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf)
{
    if (ngx_http_mcds_auth_asked(r)) {
        ctx->asked_about = 1;
    }

    if (ngx_http_mcds_cache_personal(r, ccf)
        || (ctx->asked_about && !ccf->cache_shared))
    {
        ctx->authorization = 1;
    }

    if (ngx_http_mcds_cache_cased(r)) {
        return 0;
    }

    return !ngx_http_mcds_overridden(r)
           && !ngx_http_mcds_session(r, ccf->session_cookies);
}


/*
 * error_page may lead a request on before the precontent phase of its location,
 * because auth_request has denied access, or because a lock is held: then nginx
 * drops the context of auth_request, by which ngx_http_mcds_auth_asked() knows
 * that it has asked about the client
 */

ngx_int_t
ngx_http_mcds_cache_note_auth(ngx_http_request_t *r)
{
    ngx_http_mcds_cache_ctx_t  *ctx;

    if (r == r->main || !r->header_only
        || !ngx_http_mcds_auth_asked(r->parent))
    {
        return NGX_OK;
    }

    ctx = ngx_http_mcds_cache_need(r->parent);
    if (ctx == NULL) {
        return NGX_ERROR;
    }

    ctx->asked_about = 1;

    return NGX_OK;
}


ngx_int_t
ngx_http_mcds_cache_end_route(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf)
{
    ngx_int_t  rc;

    ctx->error_page = r->error_page;

    rc = ngx_http_mcds_route_here(r, ctx);

    if (rc == NGX_ERROR) {
        return NGX_ERROR;
    }

    ctx->rerouted = (rc == NGX_DECLINED);

    /*
     * a request may come back to the location that has looked the page up from
     * one where auth_request has checked the client
     */

    if (ngx_http_mcds_cache_personal(r, ccf)) {
        ctx->authorization = 1;
    }

    if (ccf == ctx->conf && ctx->state != NGX_HTTP_MCDS_STATE_LEFT) {
        return NGX_OK;
    }

    return ngx_http_mcds_cache_take_location(r, ctx, ccf);
}


/*
 * Applies the cache's rules in the location that responds, after those in the
 * location that looked the page up.  If the location that responds uses
 * another pool or another key, its page is looked up now.
 */

static ngx_int_t
ngx_http_mcds_cache_take_location(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf)
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

    if (ccf->cache_request_control && !asker->cache_request_control) {

        no_store = ctx->no_store;
        only_if_cached = ctx->only_if_cached;

        if (ngx_http_mcds_request_cc(r, ctx) != NGX_OK) {
            return NGX_ERROR;
        }

        ctx->no_store |= no_store;
        ctx->only_if_cached |= only_if_cached;
    }

    if (!ctx->overwrite
        && ngx_http_test_predicates(r, ccf->cache_bypass) != NGX_OK)
    {
        ctx->status = NGX_HTTP_MCDS_BYPASS;
        ctx->reason = NGX_MCDS_REASON_BYPASS;
        ctx->overwrite = 1;
    }

    if (ctx->waiter.page
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

        /*
         * a page is stored with the purge counter of its memcached server: the
         * counter must be known before the origin is asked
         */

        return (ngx_http_mcds_tagging->start(r, ctx, ccf) == NGX_OK)
               ? NGX_AGAIN : NGX_ERROR;
    }

    ngx_http_mcds_cache_drop_lookup(ctx);

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


/*
 * Drops the page and the other results of a request's lookup; called when
 * memcached has sent all replies about the lookup.  If a copy of the request,
 * which has no client, builds the page in the background, that build goes on.
 */

static void
ngx_http_mcds_cache_forget(ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_http_mcds_lookup_drop(ctx);
    ngx_http_mcds_lookup_cleanup(ctx);

    ngx_mcds_page_leave(&ctx->waiter);

    ngx_http_mcds_own_cleanup(ctx);

    ctx->own = NULL;
    ctx->outcome = NGX_MCDS_PAGE_MISSING;
    ctx->cas = 0;
    ctx->vary.lists = 0;
    ctx->behind = 0;
    ctx->rerouted = 0;
}


void
ngx_http_mcds_cache_drop_lookup(ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_http_mcds_cache_forget(ctx);

    /*
     * the replies of memcached about tags belong to the page that was looked
     * up before, not to the page that is looked up or purged next
     */

    if (ctx->tags) {
        ngx_http_mcds_tagging->free(ctx->tags);
        ctx->tags = NULL;
    }

    ctx->purges = 0;
}


ngx_int_t
ngx_http_mcds_cache_left(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_uint_t                   refused;
    ngx_http_mcds_cache_conf_t  *ccf;

    refused = ngx_http_mcds_store_redirect(r, ctx, ctx->conf->cache_ignore);

    if (ngx_http_mcds_revalidate_strip(r, ctx) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (ctx->task->refresh) {

        /*
         * r is a copy of a client's request, and builds a page in the
         * background.  The origin has redirected r to another location, as with
         * X-Accel-Redirect.  No client gets that location's response, which may
         * be endless, so r ends.
         */

        return NGX_ERROR;
    }

    ccf = ngx_http_get_module_loc_conf(r, ngx_http_mcds_cache_module);

    if (refused || ctx->dry || ccf->cache_pool == NULL) {
        ngx_http_mcds_set_state(ctx, NGX_HTTP_MCDS_STATE_PASS);
        ctx->outcome = NGX_MCDS_PAGE_MISSING;
        return NGX_OK;
    }

    /*
     * the origin has redirected the request to another location: the page of
     * that location is looked up when the location's rules have been checked
     */

    ngx_http_mcds_cache_forget(ctx);
    ngx_http_mcds_set_state(ctx, NGX_HTTP_MCDS_STATE_LEFT);

    ctx->routed = 0;
    ctx->judged = 0;

    /*
     * the time that the request has waited for the page of the location it has
     * left does not count as a wait for the page of the new location
     */

    ctx->wait_start = 0;

    return NGX_OK;
}


/*
 * Returns 1 if the request asks for another protocol, such as WebSocket: it
 * needs its hop-by-hop headers, and the response is not a page.  Clients offer
 * h2c with any request and accept HTTP/1.1, so h2c is ignored; RFC 9110, 7.8,
 * ignores Upgrade in HTTP/1.0.
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


/*
 * Returns 1 if the Host header has upper-case letters in the name of the host.
 * The key has this name in lower case, while the origin may answer with the
 * name as the client has written it, or redirect to the usual one.
 */

static ngx_uint_t
ngx_http_mcds_cache_cased(ngx_http_request_t *r)
{
    ngx_str_t  *value, *server;

    if (r->headers_in.host == NULL) {
        return 0;
    }

    value = &r->headers_in.host->value;
    server = &r->headers_in.server;

    return value->len >= server->len
           && ngx_memcmp(value->data, server->data, server->len) != 0;
}

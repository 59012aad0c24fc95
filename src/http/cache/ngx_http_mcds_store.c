
/*
 * Copyright (C) mcds authors
 *
 * Decides whether a response is stored, and makes the entry of its page;
 * ngx_http_mcds_store_body.c stores the body of the response.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_mcds_sign.h"
#include "ngx_http_mcds_header.h"
#include "ngx_http_mcds_nginx.h"
#include "ngx_http_mcds_variables.h"
#include "ngx_http_mcds_cache.h"
#include "ngx_http_mcds_cache_stat.h"
#include "ngx_http_mcds_coding.h"
#include "ngx_http_mcds_admission.h"
#include "ngx_http_mcds_route.h"
#include "ngx_http_mcds_sign.h"
#include "ngx_http_mcds_store.h"
#include "ngx_http_mcds_store_core.h"
#include "ngx_http_mcds_validator.h"
#include "ngx_http_mcds_tags.h"
#include "ngx_http_mcds_vary.h"


static ngx_int_t ngx_http_mcds_store_judge(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf,
    ngx_mcds_entry_t *entry, off_t length);
static ngx_uint_t ngx_http_mcds_store_sliced(ngx_http_request_t *r,
    off_t length);
static void ngx_http_mcds_store_end_replaced(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);
static ngx_uint_t ngx_http_mcds_store_foreign(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);
static ngx_uint_t ngx_http_mcds_store_ruled(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);
static ngx_int_t ngx_http_mcds_store_take(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_store_t *store);
static ngx_int_t ngx_http_mcds_store_lines(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf,
    ngx_http_mcds_store_t *store);
static ngx_int_t ngx_http_mcds_store_sign_ext(ngx_http_request_t *r,
    ngx_http_mcds_cache_conf_t *ccf, ngx_str_t *ext);
static ngx_int_t ngx_http_mcds_store_value(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_store_t *store);
static void ngx_http_mcds_store_status(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_uint_t status);
static void ngx_http_mcds_store_decline(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);
static void ngx_http_mcds_store_hit_for_miss(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);
static ngx_mcds_value_t *ngx_http_mcds_store_mark(
    ngx_http_mcds_cache_ctx_t *ctx);
static ngx_uint_t ngx_http_mcds_store_not_cached(ngx_http_request_t *r);
static ngx_int_t ngx_http_mcds_store_append(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_buf_t *b);
static void ngx_http_mcds_store_refused(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_int_t rc);
static void ngx_http_mcds_store_finish(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);


ngx_int_t
ngx_http_mcds_store_begin(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf)
{
    off_t                   length;
    ngx_int_t               rc;
    ngx_http_mcds_store_t  *store;

    if (!ngx_http_mcds_is_accel(r)
        && (r->err_status || ngx_http_mcds_replaced(r, ctx)))
    {
        ngx_http_mcds_store_end_replaced(r, ctx);
        return NGX_DECLINED;
    }

    if (ngx_http_mcds_store_foreign(r, ctx)) {
        ngx_http_mcds_stat_refused(ctx, NGX_MCDS_REASON_ERROR_PAGE);
        ngx_http_mcds_store_hit_for_miss(r, ctx);
        return NGX_DECLINED;
    }

    store = ngx_pcalloc(r->pool, sizeof(ngx_http_mcds_store_t));
    if (store == NULL) {
        ngx_http_mcds_store_fail(r, ctx);
        return NGX_ERROR;
    }

    /*
     * a response 204 has no body, whatever Content-Length the origin sends,
     * RFC 9110, 15.3.5
     */

    length = (r->headers_out.status == NGX_HTTP_NO_CONTENT)
             ? 0 : r->headers_out.content_length_n;

    if (ngx_http_mcds_store_judge(r, ctx, ccf, &store->entry, length)
        != NGX_OK)
    {
        return NGX_DECLINED;
    }

    rc = ngx_http_mcds_store_lines(r, ctx, ccf, store);

    if (rc == NGX_DECLINED) {
        ngx_http_mcds_store_hit_for_miss(r, ctx);
        return NGX_DECLINED;
    }

    if (rc != NGX_OK) {
        ngx_http_mcds_store_fail(r, ctx);
        return NGX_ERROR;
    }

    ngx_http_mcds_admission_jitter(ccf, &store->entry);

    store->waiter = &ctx->waiter;

    if (ngx_http_mcds_varying
        && ngx_http_mcds_varying->begin(r, ctx, ccf, &store->waiter) != NGX_OK)
    {
        ngx_http_mcds_store_fail(r, ctx);
        return NGX_ERROR;
    }

    ngx_http_mcds_vary_note_purges(ctx, &store->entry);

    store->entry.build = ngx_mcds_page_build_id(&ctx->waiter);

    store->entry.key = *ngx_mcds_page_key(store->waiter);

    if (ngx_mcds_entry_fits(&store->entry) != NGX_OK) {
        ngx_http_mcds_stat_refused(ctx, NGX_MCDS_REASON_HEADERS);
        ngx_http_mcds_store_hit_for_miss(r, ctx);
        return NGX_DECLINED;
    }

    store->expected = ngx_http_mcds_store_expected(r, length);

    /*
     * a page that is revalidated for each request is not compressed: a long
     * compressed page is sent in parts (streamed), which is not possible for a
     * page that is sent in place of the origin's 304
     */

    store->compress = (ccf->compress
                       && length
                       && !(store->entry.flags & NGX_MCDS_ENTRY_VALIDATE))
                      ? ngx_http_mcds_coding_hooks->compress(r, ccf) : NULL;

    if (ngx_http_mcds_store_value(r, ctx, store) != NGX_OK) {
        ngx_http_mcds_store_fail(r, ctx);
        return NGX_ERROR;
    }

    return ngx_http_mcds_store_take(r, ctx, store);
}


/*
 * Decides whether the response is stored.  NGX_OK: the response is to be
 * stored; NGX_DECLINED: it is not, and the build of the page has ended.
 */

static ngx_int_t
ngx_http_mcds_store_judge(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf,
    ngx_mcds_entry_t *entry, off_t length)
{
    ngx_str_t            *etag;
    ngx_uint_t            reason;
    ngx_mcds_response_t   response;

    ngx_http_mcds_response(r, ccf, &response,
                           ngx_http_mcds_store_sliced(r, length)
                           ? NGX_HTTP_PARTIAL_CONTENT : r->headers_out.status,
                           ccf->cache_ignore);

    if (ngx_http_mcds_varying) {
        ngx_http_mcds_varying->response(r, &response, &ctx->vary.names);
    }

    /*
     * with ctx->own, this request is a copy of a client's request: the copy
     * keeps a response with no-cache for the client's request, and does not
     * store the response as a page, see ngx_http_mcds_own.h
     */

    etag = r->headers_out.etag ? &r->headers_out.etag->value : NULL;

    response.validated = ctx->own == NULL
                         && ngx_http_mcds_validator_each(ccf, response.status,
                                                        etag);

    reason = ngx_mcds_fresh_decide(&response, ngx_mcds_now(), entry);

    if (reason == NGX_MCDS_STORE && r->header_only) {
        reason = NGX_MCDS_REFUSE_STATUS;
    }

    if (reason == NGX_MCDS_REFUSE_EXPIRED && response.kept) {

        /* the cache of nginx will have a newer response: the page stays */

        ngx_http_mcds_stat_refused(ctx, ngx_mcds_fresh_why(reason));
        ngx_http_mcds_store_decline(r, ctx);
        return NGX_DECLINED;
    }

    if (reason != NGX_MCDS_STORE) {
        ngx_http_mcds_store_refuse(r, ctx, reason, response.status);
        return NGX_DECLINED;
    }

    if (ccf->cache_pool == NULL || length > (off_t) ccf->cache_max_size) {
        ngx_http_mcds_stat_refused(ctx, (ccf->cache_pool == NULL)
                                        ? NGX_MCDS_REASON_OFF
                                        : NGX_MCDS_REASON_SIZE);

        ngx_http_mcds_store_hit_for_miss(r, ctx);
        return NGX_DECLINED;
    }

    if (ngx_http_mcds_store_apply_rule(r, ctx, ccf)) {
        return NGX_DECLINED;
    }

    if ((entry->flags & NGX_MCDS_ENTRY_VALIDATE)
        && (length > (off_t) ngx_mcds_page_item(&ctx->waiter)
            || ngx_http_mcds_validator_ignored(r, ctx)))
    {
        ngx_http_mcds_store_hit_for_miss(r, ctx);
        return NGX_DECLINED;
    }

    return NGX_OK;
}


/*
 * Returns 1 if nginx's slice module joins several 206 responses of the origin.
 * The module turns the first 206 into a 200 with the length of the whole page,
 * and gets the rest by subrequests, whose bodies do not pass mcds's filter.
 */

static ngx_uint_t
ngx_http_mcds_store_sliced(ngx_http_request_t *r, off_t length)
{
    ngx_http_upstream_t  *u;

    u = r->upstream;

    return u
           && u->headers_in.status_n == NGX_HTTP_PARTIAL_CONTENT
           && u->headers_in.content_length_n != length;
}


ngx_uint_t
ngx_http_mcds_store_apply_rule(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf)
{
    if (ngx_http_mcds_admission_allowed(r, ctx, ccf)) {
        return 0;
    }

    ngx_http_mcds_stat_refused(ctx, NGX_MCDS_REASON_RULE);

    ngx_http_mcds_store_decline(r, ctx);

    return 1;
}


/*
 * Ends the build of a page whose response was replaced by an error page; the
 * error page is not stored.  If the original status was a redirect or a client
 * error, the origin is well, and each request that waits for the page gets an
 * error page of its own.
 */

static void
ngx_http_mcds_store_end_replaced(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_uint_t  status;

    ngx_http_mcds_stat_refused(ctx, NGX_MCDS_REASON_ERROR_PAGE);

    status = ngx_http_mcds_replaced_status(r, ctx);

    if (status < NGX_HTTP_OK) {
        ngx_http_mcds_store_fail(r, ctx);

    } else if (status < NGX_HTTP_SPECIAL_RESPONSE) {

        /* a filter, such as image_filter, has refused a good response */

        ngx_http_mcds_store_decline(r, ctx);

    } else {
        ngx_http_mcds_store_status(r, ctx, status);
    }
}


/*
 * Returns 1 if the response is that of another location or URI than the page's:
 * X-Accel-Redirect, or another internal redirect, has led the request there.
 */

static ngx_uint_t
ngx_http_mcds_store_foreign(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx)
{
    return ngx_http_mcds_route_left(r, ctx)
           || ngx_http_mcds_is_accel(r);
}


static ngx_int_t
ngx_http_mcds_store_take(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_store_t *store)
{
    ctx->store = store;
    ctx->expire = store->entry.expire;

    if (store->expected == 0
        && (r != r->main || r->headers_out.status == NGX_HTTP_NO_CONTENT))
    {
        /*
         * the store of an empty body ends here: nginx sends no buffer, not even
         * the last one, for a 204 and, before nginx 1.23.4, in a subrequest for
         * an empty file or an empty page of proxy_cache
         */

        ngx_http_mcds_store_finish(r, ctx);
        return NGX_DECLINED;
    }

    return NGX_OK;
}


/*
 * Sets the headers and the extensions (optional fields, such as the page's
 * tags) in the entry of the page to store.  NGX_DECLINED: a header or a tag
 * cannot be stored.
 */

static ngx_int_t
ngx_http_mcds_store_lines(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf,
    ngx_http_mcds_store_t *store)
{
    ngx_int_t  rc;

    rc = ngx_http_mcds_stored_headers(r, &store->entry.headers);

    if (rc != NGX_OK) {
        ngx_http_mcds_stat_refused(ctx, NGX_MCDS_REASON_HEADERS);
        return rc;
    }

    if (ngx_http_mcds_stored_absolute(r)) {
        store->entry.flags |= NGX_MCDS_ENTRY_ABSOLUTE;
    }

    rc = ccf->tags ? ngx_http_mcds_tagging->store(r, ctx, ccf,
                                                  &store->entry.ext)
                   : NGX_OK;

    if (rc == NGX_DECLINED) {
        ngx_log_error(NGX_LOG_WARN, r->connection->log, 0,
                      "page with too many or too long tags is not stored");

        ngx_http_mcds_stat_refused(ctx, NGX_MCDS_REASON_TAGS);
    }

    if (rc == NGX_OK) {
        rc = ngx_http_mcds_route_ext(r, ctx->route, &store->entry.ext);
    }

    if (rc == NGX_OK) {
        rc = ngx_http_mcds_store_sign_ext(r, ccf, &store->entry.ext);
    }

    return rc;
}


/*
 * puts room for a signature in front of "ext", the extensions (optional fields)
 * of the entry of the page to store
 */

static ngx_int_t
ngx_http_mcds_store_sign_ext(ngx_http_request_t *r,
    ngx_http_mcds_cache_conf_t *ccf, ngx_str_t *ext)
{
    u_char  *p;

    if (ccf->secrets == NULL) {
        return NGX_OK;
    }

    p = ngx_pnalloc(r->pool, NGX_MCDS_SIGN_EXT + ext->len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    if (ext->len) {
        ngx_memcpy(p + NGX_MCDS_SIGN_EXT, ext->data, ext->len);
    }

    (void) ngx_mcds_signing->put(p);

    ext->data = p;
    ext->len += NGX_MCDS_SIGN_EXT;

    return NGX_OK;
}


static ngx_int_t
ngx_http_mcds_store_value(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_store_t *store)
{
    off_t              length;
    ngx_mcds_value_t  *value;

    store->limit = ngx_mcds_page_item(store->waiter);

    length = store->expected;

    if (length < 0 || length > (off_t) store->limit || store->compress) {
        length = NGX_HTTP_MCDS_ROOM;
    }

    value = ngx_mcds_entry_begin(&store->entry,
                                 (size_t) length + NGX_MCDS_VALUE_SPARE,
                                 r->connection->log);
    if (value == NULL) {
        return NGX_ERROR;
    }

    store->value = value;

    if (store->compress == NULL
        && store->expected + (off_t) value->len > (off_t) store->limit
        && ngx_http_mcds_store_split(r, ctx, store) == NGX_ERROR)
    {
        if (store->split) {
            ngx_mcds_split_abandon(store->split);
        }

        ngx_mcds_value_unref(store->value);
        return NGX_ERROR;
    }

    return NGX_OK;
}


/*
 * Ends the build of a page whose response is not stored.  If the status is a
 * server error, or concerns this request alone, such as 400, the stored page
 * stays; otherwise an entry that marks the page as not cacheable (hit-for-miss)
 * replaces the page.
 */

void
ngx_http_mcds_store_refuse(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_uint_t reason, ngx_uint_t status)
{
    ngx_http_mcds_stat_refused(ctx, ngx_mcds_fresh_why(reason));

    ngx_log_debug1(NGX_LOG_DEBUG_HTTP, r->connection->log, 0,
                   "mcds response is not stored: %V",
                   &ngx_mcds_reasons[ctx->reason]);

    ngx_http_mcds_store_status(r, ctx, status);
}


/*
 * Ends the build of a page whose response is not stored, as failed or as not
 * cacheable, by the status.  A response to a request with credentials (such a
 * request builds a page only after a purge) may be for the client alone, and
 * does not replace the stored page.
 */

static void
ngx_http_mcds_store_status(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_uint_t status)
{
    if (status >= NGX_HTTP_INTERNAL_SERVER_ERROR) {
        ngx_http_mcds_store_fail(r, ctx);

    } else if (ctx->authorization || ngx_mcds_fresh_of_request(status)) {
        ngx_http_mcds_store_decline(r, ctx);

    } else {
        ngx_http_mcds_store_hit_for_miss(r, ctx);
    }
}


/*
 * Ends a build whose response says nothing about the page: the stored page
 * stays, even one that the request's Cache-Control excludes, and the next
 * request builds the page.  If no page is stored, and this request itself has
 * waited for another build, the page is marked as not cacheable, so that
 * requests for the page no longer wait for each other.
 */

static void
ngx_http_mcds_store_decline(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx)
{
    if (!ctx->waiter.building) {
        return;
    }

    if (ctx->waiter.takeover && !ctx->waiter.has_old && !ctx->unaccepted) {
        ngx_http_mcds_store_hit_for_miss(r, ctx);
        return;
    }

    ngx_mcds_page_abandon(&ctx->waiter, NGX_MCDS_BUILD_FAILED, NULL, 0);
}


ngx_uint_t
ngx_http_mcds_store_redirect(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_uint_t ignore)
{
    ngx_uint_t           reason;
    ngx_mcds_entry_t     entry;
    ngx_mcds_response_t  response;

    ngx_http_mcds_response(r, ctx->conf, &response, NGX_HTTP_OK, ignore);

    reason = ngx_mcds_fresh_decide(&response, ngx_mcds_now(), &entry);

    ngx_http_mcds_store_hit_for_miss(r, ctx);

    if (!ngx_http_mcds_is_accel(r)) {
        return NGX_MCDS_REASON_ERROR_PAGE;
    }

    if (reason != NGX_MCDS_STORE && reason != NGX_MCDS_REFUSE_NO_LIFETIME) {
        return ngx_mcds_fresh_why(reason);
    }

    if (response.vary) {
        return ngx_mcds_fresh_why(NGX_MCDS_REFUSE_VARY);
    }

    return ngx_http_mcds_store_ruled(r, ctx) ? NGX_MCDS_REASON_RULE
                                             : NGX_MCDS_REASON_NONE;
}


/*
 * Returns 1 if mcds_no_cache forbids to store what the response with
 * X-Accel-Redirect leads to.  The conditions are evaluated again for the
 * response of the new location, so the values that variables get here are
 * forgotten.
 */

static ngx_uint_t
ngx_http_mcds_store_ruled(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_uint_t                  allowed;
    ngx_http_variable_value_t  *vv;

    if (ctx->conf->no_cache == NULL && ctx->asker->no_cache == NULL) {
        return 0;
    }

    vv = ngx_http_mcds_variables_copy(r);
    if (vv == NULL) {
        return 1;
    }

    allowed = ngx_http_mcds_admission_allowed(r, ctx, ctx->conf);

    ngx_http_mcds_variables_set(r, vv);

    return !allowed;
}


static void
ngx_http_mcds_store_hit_for_miss(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_mcds_value_t  *value;

    if (!ctx->waiter.building) {
        return;
    }

    value = ngx_http_mcds_store_mark(ctx);

    if (value == NULL) {
        ngx_http_mcds_store_fail(r, ctx);
        return;
    }

    ngx_mcds_page_abandon(&ctx->waiter, NGX_MCDS_BUILD_PASS, value,
                          ctx->conf->cache_uncacheable);
}


/*
 * makes the entry for a page that is not cacheable (hit-for-miss), by which
 * requests for the page do not wait for each other; NULL when out of memory
 */

static ngx_mcds_value_t *
ngx_http_mcds_store_mark(ngx_http_mcds_cache_ctx_t *ctx)
{
    u_char            *p;
    u_char             ext[NGX_MCDS_SIGN_EXT + NGX_HTTP_MCDS_ROUTE_EXT];
    ngx_mcds_entry_t   entry;
    ngx_mcds_value_t  *value;

    ngx_memzero(&entry, sizeof(ngx_mcds_entry_t));

    entry.kind = NGX_MCDS_ENTRY_PASS;
    entry.created = ngx_mcds_now();
    entry.expire = entry.created
                   + (uint64_t) ctx->conf->cache_uncacheable * 1000;
    entry.swr = NGX_MCDS_ENTRY_UNSET;
    entry.sie = NGX_MCDS_ENTRY_UNSET;
    entry.key = *ngx_mcds_page_key(&ctx->waiter);

    p = ctx->conf->secrets ? ngx_mcds_signing->put(ext) : ext;

    entry.ext.data = ext;
    entry.ext.len = ngx_http_mcds_route_put(p, ctx->route) - ext;

    value = ngx_mcds_entry_begin(&entry, NGX_MCDS_VALUE_SPARE, ngx_cycle->log);

    if (value) {
        ngx_mcds_entry_finish(value, &entry);
        ngx_http_mcds_sign(ctx->conf, value, &entry);
    }

    return value;
}


void
ngx_http_mcds_store_fail(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx)
{
    if (!ctx->waiter.building) {
        return;
    }

    ngx_mcds_page_abandon(&ctx->waiter, ngx_http_mcds_store_not_cached(r)
                                        ? NGX_MCDS_BUILD_FAILED
                                        : NGX_MCDS_BUILD_BACKOFF,
                          NULL, 0);
}


/*
 * Returns 1 if the origin, a cache itself, has sent 504 since the request has
 * only-if-cached: such a 504 is no failure of the origin, unlike the 504 that
 * nginx sends after a timeout.
 */

static ngx_uint_t
ngx_http_mcds_store_not_cached(ngx_http_request_t *r)
{
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h;

    if (r->upstream == NULL
        || r->upstream->headers_in.status_n != NGX_HTTP_GATEWAY_TIME_OUT)
    {
        return 0;
    }

    for (part = &r->headers_in.headers.part; part; part = part->next) {

        h = part->elts;

        for (i = 0; i < part->nelts; i++) {
            if (ngx_http_mcds_header_only_if_cached(&h[i])) {
                return 1;
            }
        }
    }

    return 0;
}


void
ngx_http_mcds_store_chain(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx,
    ngx_chain_t *in)
{
    ngx_chain_t  *cl;

    for (cl = in; cl; cl = cl->next) {

        if (ngx_http_mcds_store_append(r, ctx, cl->buf) != NGX_OK) {
            return;
        }

        if (cl->buf->last_buf || (r != r->main && cl->buf->last_in_chain)) {
            ngx_http_mcds_store_finish(r, ctx);
            return;
        }

        if (ngx_http_mcds_store_broken(r, cl->buf)) {
            ngx_http_mcds_stat_refused(ctx, NGX_MCDS_REASON_TRUNCATED);
            ngx_http_mcds_store_refused(r, ctx, NGX_ERROR);
            return;
        }
    }
}


static ngx_int_t
ngx_http_mcds_store_append(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_buf_t *b)
{
    size_t                       size;
    ngx_int_t                    rc;
    ngx_http_mcds_store_t       *store;
    ngx_http_mcds_cache_conf_t  *ccf;

    store = ctx->store;

    if (!ngx_buf_in_memory(b)) {

        if (ngx_buf_special(b)) {
            return NGX_OK;
        }

        /*
         * the body of the response cannot be stored: an earlier filter has
         * sent a file past the copy filter
         */

        ngx_http_mcds_store_refused(r, ctx, NGX_DECLINED);
        return NGX_DECLINED;
    }

    size = b->last - b->pos;

    if (size == 0) {
        return NGX_OK;
    }

    ccf = ngx_http_get_module_loc_conf(r, ngx_http_mcds_cache_module);

    if (store->length + (off_t) size > (off_t) ccf->cache_max_size) {
        ngx_log_debug0(NGX_LOG_DEBUG_HTTP, r->connection->log, 0,
                       "mcds response is too large to be stored");

        ngx_http_mcds_stat_refused(ctx, NGX_MCDS_REASON_SIZE);

        ngx_http_mcds_store_refused(r, ctx, NGX_DECLINED);
        return NGX_DECLINED;
    }

    rc = ngx_http_mcds_store_data(ctx, b->pos, size);

    if (rc != NGX_OK) {
        ngx_http_mcds_store_refused(r, ctx, rc);
        return rc;
    }

    store->length += size;

    return NGX_OK;
}


static void
ngx_http_mcds_store_refused(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_int_t rc)
{
    ngx_http_mcds_store_cleanup(ctx);

    if (rc == NGX_ERROR) {
        ngx_http_mcds_store_fail(r, ctx);

    } else {
        ngx_http_mcds_store_hit_for_miss(r, ctx);
    }
}


static void
ngx_http_mcds_store_finish(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_int_t               rc;
    ngx_mcds_value_t       *value;
    ngx_mcds_split_t       *split;
    ngx_mcds_storing_t      storing;
    ngx_http_mcds_store_t  *store;

    store = ctx->store;

    if (store->expected >= 0 && store->length != store->expected) {
        ngx_log_error(NGX_LOG_WARN, r->connection->log, 0,
                      "page of %O bytes instead of %O is not stored",
                      store->length, store->expected);

        ngx_http_mcds_stat_refused(ctx, NGX_MCDS_REASON_TRUNCATED);

        ngx_http_mcds_store_refused(r, ctx, NGX_ERROR);
        return;
    }

    if (!ngx_http_mcds_store_ended(r)) {
        ngx_http_mcds_stat_refused(ctx, NGX_MCDS_REASON_TRUNCATED);
        ngx_http_mcds_store_refused(r, ctx, NGX_ERROR);
        return;
    }

    if (ngx_http_mcds_store_status_trails(r)) {
        ngx_http_mcds_stat_refused(ctx, NGX_MCDS_REASON_STATUS);
        ngx_http_mcds_store_refused(r, ctx, NGX_DECLINED);
        return;
    }

    rc = ngx_http_mcds_store_data_end(ctx);

    if (rc != NGX_OK) {
        ngx_http_mcds_store_refused(r, ctx, rc);
        return;
    }

    value = store->value;
    split = store->split;

    ctx->store = NULL;

    if (split == NULL) {
        ngx_mcds_entry_finish(value, &store->entry);
        ngx_http_mcds_sign(ctx->conf, value, &store->entry);
    }

    rc = ngx_http_mcds_varying
         ? ngx_http_mcds_varying->store(r, ctx, value, &store->entry, split)
         : NGX_DECLINED;

    if (rc == NGX_ERROR) {
        ngx_http_mcds_store_fail(r, ctx);
    }

    if (rc != NGX_DECLINED) {
        return;
    }

    ngx_memzero(&storing, sizeof(ngx_mcds_storing_t));

    storing.value = value;
    storing.entry = &store->entry;
    storing.split = split;
    storing.cas = ctx->cas;
    storing.replace = ctx->overwrite;

    (void) ngx_mcds_page_store(&ctx->waiter, &storing);
}


/*
 * Fails the build of a page if the origin has broken off its response.  If the
 * response violates its protocol, as by an invalid chunk or RST_STREAM, nginx
 * ends the request at once, without a flush.  nginx also does so if the client
 * leaves, but then the client's connection has an error, and this function
 * leaves the build alone.
 */

void
ngx_http_mcds_store_aborted(ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_connection_t     *c;
    ngx_http_upstream_t  *u;

    u = ctx->task->request->upstream;

    if (ctx->store == NULL || !ctx->waiter.building
        || u == NULL || !u->header_sent)
    {
        return;
    }

    c = ctx->task->request->connection;

    if (c->error || c->timedout
        || c->read->error || c->write->error
        || c->read->timedout || c->write->timedout)
    {
        return;
    }

    ngx_http_mcds_stat_refused(ctx, NGX_MCDS_REASON_TRUNCATED);
    ngx_http_mcds_store_refused(ctx->task->request, ctx, NGX_ERROR);
}


ngx_uint_t
ngx_http_mcds_store_compresses(ngx_http_mcds_cache_ctx_t *ctx)
{
    return ctx->store && ctx->store->compress;
}


void
ngx_http_mcds_store_leave(ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_http_mcds_stat_refused(ctx, NGX_MCDS_REASON_SLOW);

    ngx_http_mcds_store_cleanup(ctx);

    if (ctx->waiter.building) {
        ngx_mcds_page_abandon(&ctx->waiter, NGX_MCDS_BUILD_FAILED, NULL, 0);
    }
}


void
ngx_http_mcds_store_cleanup(ngx_http_mcds_cache_ctx_t *ctx)
{
    if (ctx->store == NULL) {
        return;
    }

    if (ctx->store->split) {
        ngx_mcds_split_abandon(ctx->store->split);
    }

    ngx_http_mcds_store_encoded(ctx->store);
    ngx_mcds_value_unref(ctx->store->value);
    ctx->store = NULL;
}

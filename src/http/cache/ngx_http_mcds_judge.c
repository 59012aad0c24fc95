
/*
 * Copyright (C) mcds authors
 *
 * Decides whether a page may be served.  Each function in ngx_http_mcds_judges
 * checks one rule, in this order: a page that is not signed as required is not
 * used; then purges may expire the page; then the directives of the request
 * and the lifetime apply to the result.
 *
 * A page from a lookup is judged by the current time.  A page that the request
 * has waited for is valid if it would have been valid when the lookup began.
 * If the origin was asked after that, the page is valid whatever its lifetime
 * and the directives of the request are, since the origin would give the same
 * response again.  If the page that the request has waited for is not valid,
 * the request looks up the key once more, and judges the entry that it finds by
 * the current time.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"
#include "ngx_http_mcds_judge.h"
#include "ngx_http_mcds_tags.h"
#include "ngx_http_mcds_vary.h"


typedef ngx_uint_t (*ngx_http_mcds_judge_pt)(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_judgement_t *j);


static ngx_uint_t ngx_http_mcds_judge_signature(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_judgement_t *j);
static ngx_uint_t ngx_http_mcds_judge_client(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_judgement_t *j);
static ngx_uint_t ngx_http_mcds_judge_tags(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_judgement_t *j);
static ngx_uint_t ngx_http_mcds_judge_vary(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_judgement_t *j);
static ngx_uint_t ngx_http_mcds_judge_no_cache(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_judgement_t *j);
static ngx_uint_t ngx_http_mcds_judge_request(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_judgement_t *j);
static ngx_uint_t ngx_http_mcds_judge_lifetime(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_judgement_t *j);
static ngx_uint_t ngx_http_mcds_judge_says(ngx_http_mcds_judgement_t *j,
    ngx_uint_t verdict, ngx_uint_t reason);
static ngx_uint_t ngx_http_mcds_judge_since(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_judgement_t *j);
static void ngx_http_mcds_judge_expire(ngx_http_mcds_judgement_t *j,
    uint64_t when);


/*
 * the functions for tags of pages; NULL: this build of mcds has no tags
 * (MCDS_WITHOUT)
 */

ngx_http_mcds_tagging_t  *ngx_http_mcds_tagging =
#if !(NGX_MCDS_WITHOUT_TAGS)
    &ngx_http_mcds_tags_functions;
#else
    NULL;
#endif


static ngx_http_mcds_judge_pt  ngx_http_mcds_judges[] = {
    ngx_http_mcds_judge_signature,
    ngx_http_mcds_judge_client,
    ngx_http_mcds_judge_tags,
    ngx_http_mcds_judge_vary,
    ngx_http_mcds_judge_no_cache,
    ngx_http_mcds_judge_request,
    ngx_http_mcds_judge_lifetime,
    NULL
};


ngx_uint_t
ngx_http_mcds_judge(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf, ngx_http_mcds_judgement_t *j)
{
    ngx_uint_t               verdict, rc;
    ngx_http_mcds_judge_pt  *judge;

    j->conf = ccf;
    j->entry = &ctx->snapshot->entry;
    j->now = ngx_mcds_now();
    j->reason = NGX_MCDS_REASON_NONE;
    j->state = NGX_MCDS_FRESH;
    j->waited = (ctx->state == NGX_HTTP_MCDS_STATE_WAIT);
    j->built = j->waited && ctx->waiter.built;

    ctx->unaccepted = 0;
    ctx->tag_purged = 0;

    verdict = NGX_HTTP_MCDS_JUDGE_VALID;

    for (judge = ngx_http_mcds_judges; *judge; judge++) {
        rc = (*judge)(r, ctx, j);

        if (rc == NGX_HTTP_MCDS_JUDGE_VALID) {
            continue;
        }

        verdict = rc;

        if (verdict != NGX_HTTP_MCDS_JUDGE_STALE) {
            break;
        }
    }

    if (!j->built) {
        ctx->expired = (j->now >= j->entry->expire);
        return verdict;
    }

    /*
     * if the page that was just built has no-cache, a second lookup would find
     * no better page
     */

    return ((verdict == NGX_HTTP_MCDS_JUDGE_STALE
             || verdict == NGX_HTTP_MCDS_JUDGE_GONE)
            && j->reason != NGX_MCDS_REASON_NO_CACHE)
           ? NGX_HTTP_MCDS_JUDGE_AGAIN : verdict;
}


/*
 * Decides whether the entry that was found in memcached may be served, by its
 * kind (a page, or an entry that says that the page was purged or is not
 * cacheable) and its signature.  A list of the page's variants counts as
 * unsigned: if its signature were valid, the lookup would have gone on to a
 * variant.
 */

static ngx_uint_t
ngx_http_mcds_judge_signature(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_judgement_t *j)
{
    if (j->entry->kind == NGX_MCDS_ENTRY_PURGED) {
        return ngx_http_mcds_judge_says(j, NGX_HTTP_MCDS_JUDGE_GONE,
                                        NGX_MCDS_REASON_PURGED);
    }

    if (j->entry->kind == NGX_MCDS_ENTRY_VARY
        || ngx_http_mcds_judge_signed(ctx, j->conf) != NGX_OK)
    {
        return ngx_http_mcds_judge_says(j, NGX_HTTP_MCDS_JUDGE_GONE,
                                        NGX_MCDS_REASON_UNSIGNED);
    }

    if (j->entry->kind != NGX_MCDS_ENTRY_PAGE) {

        /*
         * the entry that was found says that the page is not cacheable
         * (hit-for-miss)
         */

        return ngx_http_mcds_judge_says(j, NGX_HTTP_MCDS_JUDGE_GONE,
                                        NGX_MCDS_REASON_UNCACHEABLE);
    }

    return NGX_HTTP_MCDS_JUDGE_VALID;
}


ngx_int_t
ngx_http_mcds_judge_signed(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf)
{
    if (ngx_mcds_snapshot_signed(ctx->snapshot, ccf->secrets) != NGX_OK) {
        return NGX_DECLINED;
    }

    return ctx->stream ? ngx_mcds_body_signed(ctx->stream) : NGX_OK;
}


/*
 * judges whether a page may be served to a request with credentials, RFC 9111,
 * 3.5
 */

static ngx_uint_t
ngx_http_mcds_judge_client(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_judgement_t *j)
{
    if (ctx->authorization && !(j->entry->flags & NGX_MCDS_ENTRY_SHARED)) {
        return ngx_http_mcds_judge_says(j, NGX_HTTP_MCDS_JUDGE_GONE,
                                        NGX_MCDS_REASON_AUTHORIZATION);
    }

    return NGX_HTTP_MCDS_JUDGE_VALID;
}


/*
 * decides by the page's tags whether it may be served: after a purge by tag, it
 * counts as expired or as deleted; if memcached cannot tell whether it was
 * purged, as expired
 */

static ngx_uint_t
ngx_http_mcds_judge_tags(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_judgement_t *j)
{
    ngx_int_t   rc;
    ngx_uint_t  verdict;

    if (ngx_http_mcds_tagging == NULL) {
        return NGX_HTTP_MCDS_JUDGE_VALID;
    }

    rc = ngx_http_mcds_tagging->judge(r, ctx, j->conf, &verdict);

    if (rc != NGX_OK) {
        return (rc == NGX_AGAIN) ? NGX_HTTP_MCDS_JUDGE_WAIT
                                 : NGX_HTTP_MCDS_JUDGE_ERROR;
    }

    ctx->tag_purged = (verdict != NGX_MCDS_TAGS_VALID);

    switch (verdict) {

    case NGX_MCDS_TAGS_VALID:
        return NGX_HTTP_MCDS_JUDGE_VALID;

    case NGX_MCDS_TAGS_UNKNOWN:

        /*
         * memcached cannot tell whether a tag of the page was purged: a page
         * that was just built is used, as another lookup would not tell either;
         * for an expired page, the check of the lifetime decides
         */

        if (j->built || j->entry->expire <= j->now) {
            return NGX_HTTP_MCDS_JUDGE_VALID;
        }

        ngx_http_mcds_judge_expire(j, j->now);

        return ngx_http_mcds_judge_says(j, NGX_HTTP_MCDS_JUDGE_STALE,
                                        NGX_MCDS_REASON_MEMCACHED);

    case NGX_MCDS_TAGS_STALE:
        ngx_http_mcds_judge_expire(j, j->now);

        return ngx_http_mcds_judge_says(j, NGX_HTTP_MCDS_JUDGE_STALE,
                                        NGX_MCDS_REASON_PURGED);

    default: /* NGX_MCDS_TAGS_GONE: a purge by tag has deleted the page */
        return ngx_http_mcds_judge_says(j, NGX_HTTP_MCDS_JUDGE_GONE,
                                        NGX_MCDS_REASON_PURGED);
    }
}


/*
 * Decides whether a variant of a page may be served after a purge of the page,
 * which is recorded in the page's list of variants.  A request that has waited
 * for the variant looks it up again, as the list that the request has read may
 * be older than the variant.
 */

static ngx_uint_t
ngx_http_mcds_judge_vary(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_judgement_t *j)
{
    if (!ngx_http_mcds_vary_purged(ctx)) {
        return NGX_HTTP_MCDS_JUDGE_VALID;
    }

    if (j->waited) {
        return NGX_HTTP_MCDS_JUDGE_AGAIN;
    }

    ngx_http_mcds_judge_expire(j, ngx_http_mcds_vary_expire(ctx));

    return ngx_http_mcds_judge_says(j, (j->entry->expire > j->now)
                                       ? NGX_HTTP_MCDS_JUDGE_VALID
                                       : NGX_HTTP_MCDS_JUDGE_STALE,
                                    NGX_MCDS_REASON_PURGED);
}


/*
 * Rejects a page whose response had no-cache, RFC 9111, 5.2.2.4: each request
 * revalidates the page by itself, since a response to one request may not be
 * valid for the next.
 */

static ngx_uint_t
ngx_http_mcds_judge_no_cache(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_judgement_t *j)
{
    if (j->entry->flags & NGX_MCDS_ENTRY_VALIDATE) {
        return ngx_http_mcds_judge_says(j, NGX_HTTP_MCDS_JUDGE_GONE,
                                        NGX_MCDS_REASON_NO_CACHE);
    }

    return NGX_HTTP_MCDS_JUDGE_VALID;
}


/*
 * judges whether the page satisfies the Cache-Control of the client's request,
 * RFC 9111, 5.2.1
 */

static ngx_uint_t
ngx_http_mcds_judge_request(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_judgement_t *j)
{
    if (ctx->control
        && !ngx_http_mcds_judge_since(ctx, j)
        && !ngx_mcds_fresh_accepted(ctx->control, j->entry, j->now))
    {
        return ngx_http_mcds_judge_says(j, NGX_HTTP_MCDS_JUDGE_GONE,
                                        NGX_MCDS_REASON_REQUEST);
    }

    return NGX_HTTP_MCDS_JUDGE_VALID;
}


/*
 * Decides by the page's lifetime whether it may be served.  A page that was
 * built while the request waited is valid if it expires after ctx->came, the
 * time of the request's lookup before the wait.  It is also valid if the origin
 * began its response after ctx->came or, for a page that must never be served
 * stale (must-revalidate), if the origin was asked after ctx->came.
 */

static ngx_uint_t
ngx_http_mcds_judge_lifetime(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_judgement_t *j)
{
    ngx_mcds_stale_t   stale;
    ngx_mcds_entry_t  *entry;

    entry = j->entry;

    if (j->built) {

        if (entry->flags & NGX_MCDS_ENTRY_INVALID) {
            return ngx_http_mcds_judge_says(j, NGX_HTTP_MCDS_JUDGE_STALE,
                                            NGX_MCDS_REASON_PURGED);
        }

        if (!ngx_http_mcds_judge_since(ctx, j)
            && entry->expire <= ctx->came
            && (entry->created < ctx->came
                || (entry->flags & NGX_MCDS_ENTRY_REVALIDATE)))
        {
            return ngx_http_mcds_judge_says(j, NGX_HTTP_MCDS_JUDGE_STALE,
                                            NGX_MCDS_REASON_STALE);
        }

        return NGX_HTTP_MCDS_JUDGE_VALID;
    }

    ngx_http_mcds_cache_bounds(j->conf, &stale);

    j->state = ngx_mcds_fresh_state(entry, &stale, j->now);

    if (j->state == NGX_MCDS_FRESH) {
        return NGX_HTTP_MCDS_JUDGE_VALID;
    }

    /*
     * a client with max-stale accepts this stale page, and does not wait for a
     * new one
     */

    if (j->state == NGX_MCDS_STALE_LAST
        && ctx->control
        && ctx->control->has_max_stale)
    {
        j->state = NGX_MCDS_STALE_USABLE;
    }

    if (entry->flags & NGX_MCDS_ENTRY_INVALID) {
        j->reason = NGX_MCDS_REASON_PURGED;

    } else if (j->reason == NGX_MCDS_REASON_NONE) {
        j->reason = NGX_MCDS_REASON_STALE;
    }

    return NGX_HTTP_MCDS_JUDGE_STALE;
}


static ngx_uint_t
ngx_http_mcds_judge_says(ngx_http_mcds_judgement_t *j, ngx_uint_t verdict,
    ngx_uint_t reason)
{
    j->reason = reason;

    return verdict;
}


/*
 * returns 1 if the page was requested from the origin after the client's
 * request had begun its lookup of the page
 */

static ngx_uint_t
ngx_http_mcds_judge_since(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_judgement_t *j)
{
    return j->built
           && j->entry->created >= ctx->came + j->entry->took;
}


static void
ngx_http_mcds_judge_expire(ngx_http_mcds_judgement_t *j, uint64_t when)
{
    if (j->entry->expire <= when) {
        return;
    }

    if (j->entry != &j->expired) {
        j->expired = *j->entry;
        j->entry = &j->expired;
    }

    j->expired.expire = when;
}

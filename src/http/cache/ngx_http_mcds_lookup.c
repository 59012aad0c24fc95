
/*
 * Copyright (C) mcds authors
 *
 *   key ---> header names, generation ---> key:vary:generation:values
 *
 * Under the key of its page, a request may find a list of variants: the names
 * of the headers in Vary, and the list's random id (generation).  The request
 * then looks up the variant for its own values of these headers, a page like
 * any other, with its own lock, waiters and refreshes.  For the next request,
 * this worker knows the list, and looks up the list and the variant together.
 *
 * If a response has a Vary header, and no list is stored, the response is
 * stored as a variant, and then the list is stored in place of the page: the
 * requests that wait for the page get the list, and look up their own
 * variants.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"
#include "ngx_http_mcds_admission.h"
#include "ngx_http_mcds_judge.h"
#include "ngx_http_mcds_lookup.h"
#include "ngx_http_mcds_route.h"
#include "ngx_http_mcds_stream.h"
#include "ngx_http_mcds_vary.h"


static ngx_int_t ngx_http_mcds_lookup_ask(ngx_http_mcds_cache_ctx_t *ctx);
static ngx_int_t ngx_http_mcds_lookup_go(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf, ngx_mcds_snapshot_t *list);
static ngx_int_t ngx_http_mcds_lookup_list(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf);
static ngx_int_t ngx_http_mcds_lookup_variant(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf);
static ngx_int_t ngx_http_mcds_lookup_other(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf);
static ngx_int_t ngx_http_mcds_lookup_move(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf, ngx_str_t *key);
static ngx_uint_t ngx_http_mcds_lookup_routes(ngx_http_mcds_cache_ctx_t *ctx);
static ngx_int_t ngx_http_mcds_lookup_first(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf, ngx_mcds_snapshot_t *list);
static ngx_int_t ngx_http_mcds_lookup_shared(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf, ngx_mcds_snapshot_t *list, ngx_str_t *key);
static void ngx_http_mcds_lookup_take(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_mcds_snapshot_t *list);
static void ngx_http_mcds_lookup_handler(void *data, ngx_uint_t outcome,
    ngx_mcds_snapshot_t *snapshot);
static void ngx_http_mcds_lookup_confirmed(void *data, ngx_uint_t outcome,
    ngx_mcds_snapshot_t *snapshot);


/*
 * the functions for variants of pages; NULL: this build of mcds has no variants
 * (MCDS_WITHOUT)
 */

ngx_http_mcds_varying_t  *ngx_http_mcds_varying =
#if !(NGX_MCDS_WITHOUT_VARY)
    &ngx_http_mcds_vary_functions;
#else
    NULL;
#endif


ngx_int_t
ngx_http_mcds_lookup(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf)
{
    ngx_uint_t            known;
    ngx_mcds_snapshot_t  *list;

    list = ngx_mcds_page_list(&ctx->waiter);

    if (list == NULL
        || ngx_mcds_snapshot_signed(list, ccf->secrets) != NGX_OK)
    {
        return ngx_http_mcds_lookup_ask(ctx);
    }

    known = ngx_mcds_page_list_known(&ctx->waiter);

    if (ngx_http_mcds_lookup_go(ctx, ccf, list) != NGX_OK) {
        return NGX_ERROR;
    }

    if (ctx->snapshot && known) {

        /*
         * the variant and the list of variants that led to it are recent
         * enough to be used without a lookup
         */

        return NGX_OK;
    }

    if (ngx_mcds_page_join(&ctx->vary.base, ccf->cache_pool, &ctx->key, 0,
                           ngx_http_mcds_lookup_confirmed, ctx)
        != NGX_OK
        || ngx_mcds_page_confirm(&ctx->vary.base) != NGX_OK)
    {
        return NGX_ERROR;
    }

    ctx->task->waiting++;

    return NGX_OK;
}


static ngx_int_t
ngx_http_mcds_lookup_ask(ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_mcds_snapshot_t  *snapshot;

    snapshot = ngx_mcds_page_known(&ctx->waiter);

    if (snapshot) {
        ctx->outcome = NGX_MCDS_PAGE_FOUND;
        ctx->snapshot = ngx_mcds_snapshot_ref(snapshot);

        return NGX_OK;
    }

    if (ngx_mcds_page_lookup(&ctx->waiter) != NGX_OK) {
        return NGX_ERROR;
    }

    ctx->task->waiting++;

    return NGX_OK;
}


/*
 * Makes the request look up the variant of the page that fits its headers.
 * "list" is the page's list of variants, with the names of the headers by which
 * the variants differ: the request's values of these headers make the key.
 */

static ngx_int_t
ngx_http_mcds_lookup_go(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf, ngx_mcds_snapshot_t *list)
{
    ngx_str_t          names, key;
    ngx_mcds_entry_t  *entry;

    entry = &list->entry;

    ngx_http_mcds_varying->names(&entry->ext, &names);

    if (ngx_http_mcds_varying->key(ctx->task->request, ctx, &names,
                                   entry->generation, ctx->vary.hash, &key)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    ngx_http_mcds_lookup_take(ctx, list);

    if (ngx_http_mcds_lookup_move(ctx, ccf, &key) != NGX_OK) {
        return NGX_ERROR;
    }

    if (ctx->vary.read && ngx_mcds_same(&key, &ctx->vary.read->entry.key)) {
        ctx->snapshot = ctx->vary.read;
        ctx->vary.read = NULL;
        ctx->outcome = NGX_MCDS_PAGE_FOUND;

        if (!ctx->waiter.no_body) {
            ngx_http_mcds_stream_begin(ctx);
        }

        return NGX_OK;
    }

    return ngx_http_mcds_lookup_ask(ctx);
}


/* looks up ctx->key again: the page, or the list of the page's variants */

static ngx_int_t
ngx_http_mcds_lookup_list(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf)
{
    ngx_mcds_snapshot_unref(ctx->vary.read);
    ctx->vary.read = NULL;

    /*
     * the variant that was found is kept: if the list of variants, which is
     * read again, leads to the same variant, the request need not look it up
     * again
     */

    if (ctx->vary.list && ctx->snapshot && ctx->snapshot->item_id.cas) {
        ctx->vary.read = ngx_mcds_snapshot_ref(ctx->snapshot);
    }

    ngx_mcds_snapshot_unref(ctx->vary.list);
    ctx->vary.list = NULL;

    if (ngx_http_mcds_lookup_move(ctx, ccf, &ctx->key) != NGX_OK
        || ngx_mcds_page_lookup(&ctx->waiter) != NGX_OK)
    {
        return NGX_ERROR;
    }

    ctx->task->waiting++;

    return NGX_AGAIN;
}


static ngx_int_t
ngx_http_mcds_lookup_move(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf, ngx_str_t *key)
{
    ngx_http_mcds_lookup_drop(ctx);

    ngx_mcds_page_leave(&ctx->waiter);

    ctx->outcome = NGX_MCDS_PAGE_MISSING;
    ngx_http_mcds_set_state(ctx, NGX_HTTP_MCDS_STATE_LOOKUP);
    ctx->behind = 0;

    ctx->at = *key;

    return ngx_http_mcds_lookup_join(ctx, ccf);
}


ngx_int_t
ngx_http_mcds_lookup_end(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf)
{
    ngx_int_t  rc;

    rc = ngx_http_mcds_lookup_variant(ctx, ccf);

    if (rc == NGX_OK
        && ctx->snapshot
        && ctx->outcome == NGX_MCDS_PAGE_FOUND
        && !ngx_http_mcds_route_matches(&ctx->snapshot->entry, ctx->route)
        && ngx_http_mcds_judge_signed(ctx, ccf) == NGX_OK)
    {
        return ngx_http_mcds_lookup_other(r, ctx, ccf);
    }

    return rc;
}


/* follows a page's list of variants to the variant that the request needs */

static ngx_int_t
ngx_http_mcds_lookup_variant(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf)
{
    ngx_int_t             rc;
    ngx_mcds_snapshot_t  *list;

    if (ctx->vary.base.page) {
        ngx_mcds_page_leave(&ctx->vary.base);

        if (ctx->vary.base_outcome == NGX_MCDS_PAGE_MISSING) {
            return ngx_http_mcds_lookup_list(ctx, ccf);
        }

        /*
         * if memcached fails, a copy of the variant in the memory of this host
         * may be used, but only with mcds_cache_local
         */

        if (ctx->vary.base_outcome == NGX_MCDS_PAGE_NO_REPLY
            && !ctx->waiter.local)
        {
            ngx_http_mcds_lookup_drop(ctx);

            ctx->outcome = NGX_MCDS_PAGE_NO_REPLY;
        }
    }

    if (ctx->state == NGX_HTTP_MCDS_STATE_FORK) {
        return ngx_http_mcds_lookup_list(ctx, ccf);
    }

    if (ctx->rerouted) {
        ctx->rerouted = 0;

        if (ngx_http_mcds_lookup_routes(ctx)) {
            rc = ngx_http_mcds_lookup_go(ctx, ccf, ctx->vary.list);

            if (rc != NGX_OK || ctx->task->waiting) {
                return (rc == NGX_OK) ? NGX_AGAIN : rc;
            }
        }
    }

    if (ctx->snapshot == NULL
        || ctx->outcome != NGX_MCDS_PAGE_FOUND
        || ctx->snapshot->entry.kind != NGX_MCDS_ENTRY_VARY
        || ngx_mcds_snapshot_signed(ctx->snapshot, ccf->secrets) != NGX_OK)
    {
        return NGX_OK;
    }

    if (++ctx->vary.lists > NGX_HTTP_MCDS_VARIANT_LISTS) {
        return NGX_BUSY;
    }

    list = ctx->snapshot;
    ctx->snapshot = NULL;

    rc = ngx_http_mcds_lookup_first(ctx, ccf, list);

    if (rc == NGX_DECLINED) {

        if (ctx->vary.list) {

            /*
             * the entry under the variant's key is itself a list of variants:
             * the list under the page's key has changed, and is read again
             */

            rc = ngx_http_mcds_lookup_list(ctx, ccf);

        } else {
            rc = ngx_http_mcds_lookup_go(ctx, ccf, list);

            if (rc == NGX_OK) {
                rc = ctx->task->waiting ? NGX_AGAIN : NGX_OK;
            }
        }
    }

    ngx_mcds_snapshot_unref(list);

    return rc;
}


/*
 * returns 1 if ctx->vary.list, the page's list of variants, has a variant of
 * its own for each route (the way of a request through the locations)
 */

static ngx_uint_t
ngx_http_mcds_lookup_routes(ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_str_t  names;

    if (ctx->vary.list == NULL) {
        return 0;
    }

    ngx_http_mcds_varying->names(&ctx->vary.list->entry.ext, &names);

    return ngx_http_mcds_varying->covers(&names, &ngx_http_mcds_route_name);
}


/*
 * serves the request with list->first, the variant that a build has just made
 * together with the page's list of variants, if the request needs that variant
 */

static ngx_int_t
ngx_http_mcds_lookup_first(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf, ngx_mcds_snapshot_t *list)
{
    ngx_str_t             names, key;
    ngx_uint_t            built;
    ngx_mcds_snapshot_t  *snapshot;

    if (list->first == NULL
        && (list->item_id.cas || ctx->vary.list || !ctx->awaited))
    {
        return NGX_DECLINED;
    }

    ngx_http_mcds_varying->names(&list->entry.ext, &names);

    if (ngx_http_mcds_varying->key(ctx->task->request, ctx, &names,
                                   list->entry.generation, ctx->vary.hash,
                                   &key)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    snapshot = list->first;

    if (snapshot == NULL) {
        return ngx_http_mcds_lookup_shared(ctx, ccf, list, &key);
    }

    if (!ngx_mcds_same(&key, &snapshot->entry.key)) {
        return NGX_DECLINED;
    }

    built = ctx->waiter.built;

    ngx_http_mcds_lookup_take(ctx, list);

    if (ngx_http_mcds_lookup_move(ctx, ccf, &key) != NGX_OK) {
        return NGX_ERROR;
    }

    ctx->snapshot = ngx_mcds_snapshot_ref(snapshot);
    ctx->outcome = NGX_MCDS_PAGE_FOUND;
    ngx_http_mcds_set_state(ctx, NGX_HTTP_MCDS_STATE_WAIT);
    ctx->waiter.built = built;

    if (!ctx->waiter.no_body) {
        ngx_http_mcds_stream_begin(ctx);
    }

    return NGX_OK;
}


/*
 * finds the variant that another worker of this host has built together with
 * the page's list of variants, if memcached could store neither of them
 */

static ngx_int_t
ngx_http_mcds_lookup_shared(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf, ngx_mcds_snapshot_t *list, ngx_str_t *key)
{
    ngx_uint_t  built;

    built = ctx->waiter.built;

    if (ngx_http_mcds_lookup_move(ctx, ccf, key) != NGX_OK) {
        return NGX_ERROR;
    }

    ctx->snapshot = ngx_mcds_page_first(&ctx->waiter, ctx->lock_wait);

    if (ctx->snapshot == NULL) {
        return NGX_DECLINED;
    }

    ctx->waiter.built = (built
                         && ctx->snapshot->entry.build == list->entry.build);

    ngx_http_mcds_lookup_take(ctx, list);

    ctx->outcome = NGX_MCDS_PAGE_FOUND;
    ngx_http_mcds_set_state(ctx, NGX_HTTP_MCDS_STATE_WAIT);

    return NGX_OK;
}


/* makes "list" the list of variants that the request uses */

static void
ngx_http_mcds_lookup_take(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_mcds_snapshot_t *list)
{
    ngx_mcds_snapshot_ref(list);
    ngx_mcds_snapshot_unref(ctx->vary.list);
    ctx->vary.list = list;
}


static void
ngx_http_mcds_lookup_confirmed(void *data, ngx_uint_t outcome,
    ngx_mcds_snapshot_t *snapshot)
{
    ngx_http_mcds_cache_ctx_t *ctx = data;

    if (snapshot
        && (snapshot->entry.generation != ctx->vary.list->entry.generation
            || ngx_mcds_snapshot_signed(snapshot, ctx->conf->secrets)
               != NGX_OK))
    {
        /* the list of variants has changed while the variant was looked up */

        outcome = NGX_MCDS_PAGE_MISSING;

    } else if (snapshot) {
        ngx_http_mcds_lookup_take(ctx, snapshot);
    }

    ctx->vary.base_outcome = outcome;

    ngx_http_mcds_task_result(ctx->task);
}


void
ngx_http_mcds_lookup_inherit(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_ctx_t *from)
{
    if (from->vary.list) {
        ctx->vary.list = ngx_mcds_snapshot_ref(from->vary.list);
        ngx_memcpy(ctx->vary.hash, from->vary.hash, NGX_MCDS_VARIANT_LEN);
    }
}


void
ngx_http_mcds_lookup_cleanup(ngx_http_mcds_cache_ctx_t *ctx)
{
    if (ngx_http_mcds_varying) {
        ngx_http_mcds_varying->unfork(ctx);
    }

    ngx_mcds_page_leave(&ctx->vary.base);
    ngx_mcds_page_leave(&ctx->vary.target);

    ngx_mcds_snapshot_unref(ctx->vary.list);
    ctx->vary.list = NULL;

    ngx_mcds_snapshot_unref(ctx->vary.read);
    ctx->vary.read = NULL;
}


ngx_int_t
ngx_http_mcds_lookup_join(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf)
{
    ngx_http_request_t  *r;

    if (ngx_mcds_page_join(&ctx->waiter, ccf->cache_pool, &ctx->at,
                           ccf->cache_max_size + NGX_HTTP_MCDS_ENTRY_ROOM,
                           ngx_http_mcds_lookup_handler, ctx)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    ngx_http_mcds_admission_local(ctx, ccf);

    ctx->waiter.secrets = ccf->secrets;
    ctx->waiter.stat = ccf->zone;

    r = ctx->task->request;

    ctx->waiter.no_body = (r->method != NGX_HTTP_GET
                           || r->header_only
                         || ctx->overwrite
                         || ngx_http_mcds_cache_partial(r));

    return NGX_OK;
}


static void
ngx_http_mcds_lookup_handler(void *data, ngx_uint_t outcome,
    ngx_mcds_snapshot_t *snapshot)
{
    ngx_http_mcds_cache_ctx_t *ctx = data;

    ctx->outcome = outcome;

    if (ctx->state == NGX_HTTP_MCDS_STATE_WAIT) {
        ctx->lock_wait += ngx_current_msec - ctx->lock_start;
        ctx->awaited = 1;
    }

    if (snapshot) {
        ngx_mcds_snapshot_unref(ctx->snapshot);
        ctx->snapshot = ngx_mcds_snapshot_ref(snapshot);

        /*
         * if the page's body is stored in parts, the first parts are in memory
         * now, but not for long, so the request begins to read the body
         */

        if (!ctx->waiter.no_body) {
            ngx_http_mcds_stream_begin(ctx);
        }
    }

    ngx_http_mcds_task_result(ctx->task);
}


void
ngx_http_mcds_lookup_drop(ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_http_mcds_stream_end(ctx);

    ngx_mcds_snapshot_unref(ctx->snapshot);
    ctx->snapshot = NULL;

    ctx->old_shown = 0;
}


ngx_int_t
ngx_http_mcds_lookup_again(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf)
{
    if (ctx->snapshot && ngx_http_mcds_vary_purged(ctx)) {

        /*
         * the list of variants that the request has read may be older than a
         * purge, after which the page was built
         */

        return ngx_http_mcds_lookup_list(ctx, ccf);
    }

    ngx_http_mcds_lookup_drop(ctx);

    ngx_http_mcds_set_state(ctx, NGX_HTTP_MCDS_STATE_LOOKUP);

    if (ngx_mcds_page_lookup(&ctx->waiter) != NGX_OK) {
        return NGX_ERROR;
    }

    ctx->task->waiting++;

    return NGX_AGAIN;
}


/*
 * Handles a page that was made by another route (way through the locations)
 * than the request has taken: replaces the page by a list of variants, which
 * from then on leads to one page for each route.
 */

static ngx_int_t
ngx_http_mcds_lookup_other(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf)
{
    if (ctx->state == NGX_HTTP_MCDS_STATE_WAIT) {
        return ngx_http_mcds_lookup_again(ctx, ccf);
    }

    if (ngx_http_mcds_varying
        && r->method == NGX_HTTP_GET
        && !r->header_only
        && !ctx->no_store
        && !ctx->authorization
        && !ccf->cache_dry_run
        && !ctx->asker->cache_dry_run)
    {
        return ngx_http_mcds_varying->fork(r, ctx, ccf);
    }

    /*
     * the page stays in the cache, for requests that nginx leads to the same
     * location and URI as the page's: this request gets its response from the
     * origin, and the response is not stored
     */

    ngx_http_mcds_lookup_drop(ctx);

    ctx->reason = NGX_MCDS_REASON_NONE;
    ctx->outcome = NGX_MCDS_PAGE_MISSING;
    ctx->no_store = 1;

    return NGX_OK;
}


uint64_t
ngx_http_mcds_vary_expire(ngx_http_mcds_cache_ctx_t *ctx)
{
    uint64_t           purged;
    ngx_mcds_entry_t  *entry;

    entry = &ctx->snapshot->entry;

    if (!ngx_http_mcds_vary_purged(ctx)) {
        return entry->expire;
    }

    purged = ngx_mcds_entry_purged(&ctx->vary.list->entry, entry);

    return ngx_min(entry->expire, purged);
}


void
ngx_http_mcds_vary_note_purges(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_mcds_entry_t *entry)
{
    entry->purges = ctx->vary.list ? ctx->vary.list->entry.purges : 0;
}

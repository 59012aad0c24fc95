
/*
 * Copyright (C) mcds authors
 *
 *   key ---> list of names, generation ---> key:vary:generation:values
 *
 * A request that finds a list under the page's key takes its seat at the
 * variant of its own values; from there on that is a page like others, with a
 * lock, waiters and refreshes of its own.  Next time this worker knows the list
 * and asks for both at once.
 *
 * An answer that varies where no list was is stored as a variant, and then the
 * list is stored as if it was the page: those who wait for the page get it, and
 * look for their own variants.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_header.h"
#include "ngx_http_mcds_refresh.h"
#include "ngx_http_mcds_cache.h"
#include "ngx_http_mcds_route.h"
#include "ngx_http_mcds_stream.h"
#include "ngx_http_mcds_variant.h"


static ngx_int_t ngx_http_mcds_variant_ask(ngx_http_mcds_cache_ctx_t *ctx);
static ngx_int_t ngx_http_mcds_variant_go(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf, ngx_mcds_copy_t *list);
static ngx_int_t ngx_http_mcds_variant_sit(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf, ngx_str_t *key);
static ngx_uint_t ngx_http_mcds_variant_routes(ngx_http_mcds_cache_ctx_t *ctx);
static ngx_int_t ngx_http_mcds_variant_first(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf, ngx_mcds_copy_t *list);
static ngx_int_t ngx_http_mcds_variant_shared(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf, ngx_mcds_copy_t *list, ngx_str_t *key);
static void ngx_http_mcds_variant_take(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_mcds_copy_t *list);
static void ngx_http_mcds_variant_confirmed(void *data, ngx_uint_t outcome,
    ngx_mcds_copy_t *copy);
static void ngx_http_mcds_variant_values(ngx_http_request_t *r,
    ngx_mcds_variant_t *variant, ngx_str_t *name);
static ngx_int_t ngx_http_mcds_variant_names(ngx_list_t *headers,
    ngx_str_t *names);
static ngx_uint_t ngx_http_mcds_variant_coded(ngx_http_request_t *r);


static ngx_str_t  ngx_http_mcds_accept_encoding =
    ngx_string("accept-encoding");


ngx_int_t
ngx_http_mcds_variant_lookup(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf)
{
    ngx_uint_t        known;
    ngx_mcds_copy_t  *list;

    list = ngx_mcds_page_list(&ctx->seat);

    if (list == NULL || ngx_mcds_copy_signed(list, ccf->secrets) != NGX_OK) {
        return ngx_http_mcds_variant_ask(ctx);
    }

    known = ngx_mcds_page_list_known(&ctx->seat);

    if (ngx_http_mcds_variant_go(ctx, ccf, list) != NGX_OK) {
        return NGX_ERROR;
    }

    if (ctx->copy && known) {

        /* both are used unasked */

        return NGX_OK;
    }

    if (ngx_mcds_page_sit(&ctx->vary.base, ccf->cache_pool, &ctx->key, 0,
                          ngx_http_mcds_variant_confirmed, ctx)
        != NGX_OK
        || ngx_mcds_page_confirm(&ctx->vary.base) != NGX_OK)
    {
        return NGX_ERROR;
    }

    ctx->task->waiting++;

    return NGX_OK;
}


static ngx_int_t
ngx_http_mcds_variant_ask(ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_mcds_copy_t  *copy;

    copy = ngx_mcds_page_known(&ctx->seat);

    if (copy) {
        ctx->outcome = NGX_MCDS_PAGE_FOUND;
        ctx->copy = ngx_mcds_copy_ref(copy);

        return NGX_OK;
    }

    if (ngx_mcds_page_lookup(&ctx->seat) != NGX_OK) {
        return NGX_ERROR;
    }

    ctx->task->waiting++;

    return NGX_OK;
}


/* to the variant of the list */

static ngx_int_t
ngx_http_mcds_variant_go(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf, ngx_mcds_copy_t *list)
{
    ngx_str_t          names, key;
    ngx_mcds_entry_t  *entry;

    entry = &list->entry;

    ngx_mcds_vary_names(&entry->ext, &names);

    if (ngx_http_mcds_variant_key(ctx->task->request, ctx, &names,
                                  entry->generation, ctx->vary.hash, &key)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    ngx_http_mcds_variant_take(ctx, list);

    if (ngx_http_mcds_variant_sit(ctx, ccf, &key) != NGX_OK) {
        return NGX_ERROR;
    }

    if (ctx->vary.read && ngx_mcds_same(&key, &ctx->vary.read->entry.key)) {
        ctx->copy = ctx->vary.read;
        ctx->vary.read = NULL;
        ctx->outcome = NGX_MCDS_PAGE_FOUND;

        if (!ctx->seat.no_body) {
            ngx_http_mcds_stream_begin(ctx);
        }

        return NGX_OK;
    }

    return ngx_http_mcds_variant_ask(ctx);
}


ngx_int_t
ngx_http_mcds_variant_again(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf)
{
    ngx_mcds_copy_unref(ctx->vary.read);
    ctx->vary.read = NULL;

    /* a list that has just other variants leads to the same page again */

    if (ctx->vary.list && ctx->copy && ctx->copy->stamp.cas) {
        ctx->vary.read = ngx_mcds_copy_ref(ctx->copy);
    }

    ngx_mcds_copy_unref(ctx->vary.list);
    ctx->vary.list = NULL;

    if (ngx_http_mcds_variant_sit(ctx, ccf, &ctx->key) != NGX_OK
        || ngx_mcds_page_lookup(&ctx->seat) != NGX_OK)
    {
        return NGX_ERROR;
    }

    ctx->task->waiting++;

    return NGX_AGAIN;
}


static ngx_int_t
ngx_http_mcds_variant_sit(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf, ngx_str_t *key)
{
    ngx_http_mcds_cache_drop(ctx);

    ngx_mcds_page_leave(&ctx->seat);

    ctx->outcome = NGX_MCDS_PAGE_MISSING;
    ctx->entered = 0;
    ctx->behind = 0;

    ctx->at = *key;

    return ngx_http_mcds_cache_sit(ctx, ccf);
}


ngx_int_t
ngx_http_mcds_variant(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf)
{
    ngx_int_t         rc;
    ngx_mcds_copy_t  *list;

    if (ctx->vary.base.page) {
        ngx_mcds_page_leave(&ctx->vary.base);

        if (ctx->vary.base_outcome == NGX_MCDS_PAGE_MISSING) {
            return ngx_http_mcds_variant_again(ctx, ccf);
        }

        /* a host that keeps copies has them for just that */

        if (ctx->vary.base_outcome == NGX_MCDS_PAGE_FAILED
            && !ctx->seat.local)
        {
            ngx_http_mcds_cache_drop(ctx);

            ctx->outcome = NGX_MCDS_PAGE_FAILED;
        }
    }

    if (ctx->forking) {
        ctx->forking = 0;
        return ngx_http_mcds_variant_again(ctx, ccf);
    }

    if (ctx->rerouted) {
        ctx->rerouted = 0;

        if (ngx_http_mcds_variant_routes(ctx)) {
            rc = ngx_http_mcds_variant_go(ctx, ccf, ctx->vary.list);

            if (rc != NGX_OK || ctx->task->waiting) {
                return (rc == NGX_OK) ? NGX_AGAIN : rc;
            }
        }
    }

    if (ctx->copy == NULL
        || ctx->outcome != NGX_MCDS_PAGE_FOUND
        || ctx->copy->entry.kind != NGX_MCDS_ENTRY_VARY
        || ngx_mcds_copy_signed(ctx->copy, ccf->secrets) != NGX_OK)
    {
        return NGX_OK;
    }

    if (++ctx->vary.turns > NGX_HTTP_MCDS_TURNS) {
        return NGX_BUSY;
    }

    list = ctx->copy;
    ctx->copy = NULL;

    rc = ngx_http_mcds_variant_first(ctx, ccf, list);

    if (rc == NGX_DECLINED) {

        if (ctx->vary.list) {

            /* in the place of a variant: the list has changed */

            rc = ngx_http_mcds_variant_again(ctx, ccf);

        } else {
            rc = ngx_http_mcds_variant_go(ctx, ccf, list);

            if (rc == NGX_OK) {
                rc = ctx->task->waiting ? NGX_AGAIN : NGX_OK;
            }
        }
    }

    ngx_mcds_copy_unref(list);

    return rc;
}


/* 1 if the list at hand tells routes apart */

static ngx_uint_t
ngx_http_mcds_variant_routes(ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_str_t  names;

    if (ctx->vary.list == NULL) {
        return 0;
    }

    ngx_mcds_vary_names(&ctx->vary.list->entry.ext, &names);

    return ngx_mcds_vary_covers(&names, &ngx_http_mcds_route_name);
}


/* what the list was made for may be just what the request wants */

static ngx_int_t
ngx_http_mcds_variant_first(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf, ngx_mcds_copy_t *list)
{
    ngx_str_t         names, key;
    ngx_uint_t        built;
    ngx_mcds_copy_t  *copy;

    if (list->first == NULL
        && (list->stamp.cas || ctx->vary.list || !ctx->awaited))
    {
        return NGX_DECLINED;
    }

    ngx_mcds_vary_names(&list->entry.ext, &names);

    if (ngx_http_mcds_variant_key(ctx->task->request, ctx, &names,
                                  list->entry.generation, ctx->vary.hash,
                                  &key)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    copy = list->first;

    if (copy == NULL) {
        return ngx_http_mcds_variant_shared(ctx, ccf, list, &key);
    }

    if (!ngx_mcds_same(&key, &copy->entry.key)) {
        return NGX_DECLINED;
    }

    built = ctx->seat.built;

    ngx_http_mcds_variant_take(ctx, list);

    if (ngx_http_mcds_variant_sit(ctx, ccf, &key) != NGX_OK) {
        return NGX_ERROR;
    }

    ctx->copy = ngx_mcds_copy_ref(copy);
    ctx->outcome = NGX_MCDS_PAGE_FOUND;
    ctx->entered = 1;
    ctx->seat.built = built;

    if (!ctx->seat.no_body) {
        ngx_http_mcds_stream_begin(ctx);
    }

    return NGX_OK;
}


/* the same in another worker, when memcached has not been there for either */

static ngx_int_t
ngx_http_mcds_variant_shared(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf, ngx_mcds_copy_t *list, ngx_str_t *key)
{
    ngx_uint_t  built;

    built = ctx->seat.built;

    if (ngx_http_mcds_variant_sit(ctx, ccf, key) != NGX_OK) {
        return NGX_ERROR;
    }

    ctx->copy = ngx_mcds_page_first(&ctx->seat, ctx->lock_wait);

    if (ctx->copy == NULL) {
        return NGX_DECLINED;
    }

    ctx->seat.built = (built
                       && ctx->copy->entry.build == list->entry.build);

    ngx_http_mcds_variant_take(ctx, list);

    ctx->outcome = NGX_MCDS_PAGE_FOUND;
    ctx->entered = 1;

    return NGX_OK;
}


/* the request goes by this list from here on */

static void
ngx_http_mcds_variant_take(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_mcds_copy_t *list)
{
    ngx_mcds_copy_ref(list);
    ngx_mcds_copy_unref(ctx->vary.list);
    ctx->vary.list = list;
}


static void
ngx_http_mcds_variant_confirmed(void *data, ngx_uint_t outcome,
    ngx_mcds_copy_t *copy)
{
    ngx_http_mcds_cache_ctx_t *ctx = data;

    if (copy
        && (copy->entry.generation != ctx->vary.list->entry.generation
            || ngx_mcds_copy_signed(copy, ctx->conf->secrets) != NGX_OK))
    {
        /* it has changed while the answer was on its way */

        outcome = NGX_MCDS_PAGE_MISSING;

    } else if (copy) {
        ngx_http_mcds_variant_take(ctx, copy);
    }

    ctx->vary.base_outcome = outcome;

    ngx_http_mcds_task_wake(ctx->task);
}


ngx_int_t
ngx_http_mcds_variant_key(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_str_t *names, uint64_t generation,
    u_char *hash, ngx_str_t *key)
{
    u_char              *p, text[NGX_HTTP_MCDS_ROUTE_TEXT];
    ngx_str_t            left, name, value;
    ngx_mcds_variant_t   variant;

    left = *names;

    ngx_mcds_variant_begin(&variant);

    while (ngx_mcds_vary_next(&left, &name) == NGX_OK) {
        ngx_mcds_variant_name(&variant, &name);

        if (ngx_mcds_vary_covers(&ngx_http_mcds_route_name, &name)) {
            ngx_http_mcds_route_text(ctx->route, text);

            value.data = text;
            value.len = NGX_HTTP_MCDS_ROUTE_TEXT;
            ngx_mcds_variant_line(&variant, &value);

            continue;
        }

        ngx_http_mcds_variant_values(r, &variant, &name);
    }

    ngx_mcds_variant_end(&variant, hash);

    p = ngx_pnalloc(r->pool, ctx->key.len + NGX_MCDS_VARY_SUFFIX_LEN);
    if (p == NULL) {
        return NGX_ERROR;
    }

    key->data = p;

    p = ngx_cpymem(p, ctx->key.data, ctx->key.len);
    p = ngx_mcds_vary_suffix(p, generation, hash);

    key->len = p - key->data;

    return NGX_OK;
}


/* what a build does not pass to the origin is not there */

static void
ngx_http_mcds_variant_values(ngx_http_request_t *r,
    ngx_mcds_variant_t *variant, ngx_str_t *name)
{
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h;

    if (ngx_http_mcds_refresh_unwanted(name)) {
        return;
    }

    for (part = &r->headers_in.headers.part; part; part = part->next) {

        h = part->elts;

        for (i = 0; i < part->nelts; i++) {

            if (h[i].hash
                && h[i].key.len == name->len
                && ngx_strncasecmp(h[i].key.data, name->data, name->len) == 0)
            {
                ngx_mcds_variant_line(variant, &h[i].value);
            }
        }
    }
}


void
ngx_http_mcds_variant_answer(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_mcds_answer_t *answer)
{
    ngx_http_mcds_cache_conf_t  *ccf;

    ngx_str_null(&ctx->vary.names);

    ccf = ngx_http_get_module_loc_conf(r, ngx_http_mcds_cache_module);

    /* what is still said then is "*" */

    if ((!answer->vary && !answer->encoded)
        || (ccf->cache_ignore & NGX_HTTP_MCDS_IGN_VARY))
    {
        return;
    }

    ctx->vary.names.data = ngx_pnalloc(r->pool, NGX_MCDS_MAX_VARY_LEN);

    if (ctx->vary.names.data == NULL
        || ngx_http_mcds_variant_names(&r->headers_out.headers,
                                       &ctx->vary.names)
           != NGX_OK
        || (r->upstream
            && ngx_http_mcds_variant_names(&r->upstream->headers_in.headers,
                                           &ctx->vary.names)
               != NGX_OK))
    {
        ctx->vary.names.len = 0;
        return;
    }

    answer->vary = 0;

    /* a coding without a word about it is for those who accept it, too */

    if (answer->encoded
        && ngx_http_mcds_variant_coded(r)
        && ngx_mcds_vary_add(&ctx->vary.names, &ngx_http_mcds_accept_encoding)
           == NGX_OK)
    {
        answer->encoded = 0;
    }
}


static ngx_int_t
ngx_http_mcds_variant_names(ngx_list_t *headers, ngx_str_t *names)
{
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h;

    for (part = &headers->part; part; part = part->next) {

        h = part->elts;

        for (i = 0; i < part->nelts; i++) {

            if (h[i].hash
                && ngx_http_mcds_header_is(&h[i].key, "Vary")
                && ngx_mcds_vary_add(names, &h[i].value) != NGX_OK)
            {
                return NGX_DECLINED;
            }
        }
    }

    return NGX_OK;
}


/*
 * 1 if all requests with the same set of codings as this one accept the
 * answer's
 */

static ngx_uint_t
ngx_http_mcds_variant_coded(ngx_http_request_t *r)
{
    ngx_uint_t           i, codings, found;
    ngx_list_part_t     *part;
    ngx_table_elt_t     *h;
    ngx_mcds_variant_t   variant;

    ngx_mcds_variant_begin(&variant);
    ngx_mcds_variant_name(&variant, &ngx_http_mcds_accept_encoding);
    ngx_http_mcds_variant_values(r, &variant, &ngx_http_mcds_accept_encoding);

    codings = ngx_mcds_variant_accepted(&variant);
    found = 0;

    for (part = &r->headers_out.headers.part; part; part = part->next) {

        h = part->elts;

        for (i = 0; i < part->nelts; i++) {

            if (h[i].hash == 0
                || !ngx_http_mcds_header_is(&h[i].key, "Content-Encoding"))
            {
                continue;
            }

            if (ngx_mcds_vary_coded(codings, &h[i].value) != NGX_OK) {
                return 0;
            }

            found = 1;
        }
    }

    return found;
}


ngx_uint_t
ngx_http_mcds_variant_purged(ngx_http_mcds_cache_ctx_t *ctx)
{
    return ctx->vary.list
           && ctx->vary.list->entry.purges != ctx->copy->entry.purges;
}


uint64_t
ngx_http_mcds_variant_expire(ngx_http_mcds_cache_ctx_t *ctx)
{
    uint64_t           purged;
    ngx_mcds_entry_t  *entry;

    entry = &ctx->copy->entry;

    if (!ngx_http_mcds_variant_purged(ctx)) {
        return entry->expire;
    }

    purged = ngx_mcds_entry_purged(&ctx->vary.list->entry, entry);

    return ngx_min(entry->expire, purged);
}


void
ngx_http_mcds_variant_stamp(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_mcds_entry_t *entry)
{
    entry->purges = ctx->vary.list ? ctx->vary.list->entry.purges : 0;
}


void
ngx_http_mcds_variant_inherit(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_ctx_t *from)
{
    if (from->vary.list) {
        ctx->vary.list = ngx_mcds_copy_ref(from->vary.list);
        ngx_memcpy(ctx->vary.hash, from->vary.hash, NGX_MCDS_VARIANT_LEN);
    }
}


void
ngx_http_mcds_variant_cleanup(ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_http_mcds_variant_unfork(ctx);

    ngx_mcds_page_leave(&ctx->vary.base);
    ngx_mcds_page_leave(&ctx->vary.target);

    ngx_mcds_copy_unref(ctx->vary.list);
    ctx->vary.list = NULL;

    ngx_mcds_copy_unref(ctx->vary.read);
    ctx->vary.read = NULL;
}

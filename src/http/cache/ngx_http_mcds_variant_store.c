
/*
 * Copyright (C) mcds authors
 *
 * Stores a variant of a page and the page's list of variants.  The order of the
 * two depends on the page's list:
 *
 *   the page has no list, or the list lacks    the variant, then a new list, in
 *   a header that the response's Vary names:   which waiting requests find the
 *                                              variant
 *   the list lacks the variant:                the list, which limits the
 *                                              number of variants, then the
 *                                              variant
 *   the list has the variant:                  only the variant, as any page
 *
 * A full list drops a variant.  Clients can send made-up headers, so a new
 * variant is worth no more than an old one: any old variant may be dropped, but
 * a variant that requests of this worker have used is spared once.  A variant
 * in constant use stays, or one request for it brings it back.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_mcds_sign.h"
#include "ngx_http_mcds_cache.h"
#include "ngx_http_mcds_route.h"
#include "ngx_http_mcds_store.h"
#include "ngx_http_mcds_store_core.h"
#include "ngx_http_mcds_variant.h"
#include "ngx_http_mcds_vary.h"


/*
 * the maximum number of variants that are dropped from a page's list at a time:
 * 2, since a list must shrink if mcds_cache_max_variants was lowered
 */
#define NGX_HTTP_MCDS_DROPPED     2

/* the newest variants in a page's list, 1/4 of the list, are not dropped */
#define NGX_HTTP_MCDS_SPARED      4

/*
 * the maximum number of variants in use that are passed over when a variant to
 * drop from a page's list is chosen
 */
#define NGX_HTTP_MCDS_CHANCES     8

/*
 * the lifetime, in seconds, of a variant that could not be added to the page's
 * list of variants, and of a copy of a new list of variants: the copy is stored
 * under the key of a variant of the old list, where waiting requests find it
 */
#define NGX_HTTP_MCDS_MOVED       10

/*
 * the maximum number of attempts to store a list of variants that other
 * workers change at the same time
 */
#define NGX_HTTP_MCDS_TRIES       64


/*
 * the state of storing a variant of a page and the page's list of variants; the
 * structure outlives the request
 */

struct ngx_http_mcds_put_s {
    ngx_http_mcds_cache_ctx_t  *ctx;        /* context of a request that waits
                                               until a list of routes (ways
                                               through the locations) is
                                               stored, or NULL */
    ngx_uint_t                  fork;

    ngx_mcds_waiter_t           waiter;     /* handle for the page or the
                                               variant that the request built */
    ngx_mcds_waiter_t           base;       /* handle for the key of the page's
                                               list of variants, to store it */
    ngx_mcds_waiter_t           target;     /* handle for the key of the first
                                               variant of a new list, to store
                                               the variant */

    ngx_mcds_pool_t            *pool;
    ngx_mcds_snapshot_t        *list;       /* the page's old list of variants,
                                               or NULL */
    /* the variant of the page, once it is stored */
    ngx_mcds_snapshot_t        *snapshot;

    ngx_mcds_value_t           *value;
    ngx_mcds_split_t           *split;
    ngx_mcds_entry_t            entry;

    ngx_str_t                   names;      /* names of the headers in Vary,
                                               for a new list of variants */
    uint64_t                    generation;
    uint64_t                    build;      /* id of the build of the variant;
                                               0: none */
    u_char                      hash[NGX_MCDS_VARIANT_LEN];
    u_char                      dropped[NGX_HTTP_MCDS_DROPPED]
                                        [NGX_MCDS_VARIANT_LEN];
    ngx_uint_t                  ndropped;   /* number of hashes in "dropped",
                                               of the variants that are dropped
                                               from the page's list */

    uint64_t                    cas;        /* CAS that the item to replace must
                                               have, 0: there must be no item;
                                               not used if the request builds
                                               the page for other requests */
    ngx_uint_t                  replace;
    ngx_uint_t                  max;
    uint32_t                    ttl;        /* time to live of a variant that
                                               is not in the page's list of
                                               variants, seconds; 0: the variant
                                               is in the list */
    ngx_uint_t                  tries;
    ngx_array_t                *secrets;    /* the keys of mcds_cache_hmac_key,
                                               which sign the list of variants,
                                               or NULL */
};


static ngx_http_mcds_put_t *ngx_http_mcds_put_create(
    ngx_http_mcds_cache_ctx_t *ctx);
static ngx_int_t ngx_http_mcds_put_waiters(ngx_http_mcds_put_t *put,
    ngx_http_mcds_cache_ctx_t *ctx);
static void ngx_http_mcds_put_free(ngx_http_mcds_put_t *put);
static void ngx_http_mcds_put_stored(void *data, ngx_uint_t rc,
    ngx_mcds_snapshot_t *snapshot);
static void ngx_http_mcds_put_list(ngx_http_mcds_put_t *put);
static void ngx_http_mcds_put_listed(void *data, ngx_uint_t rc,
    ngx_mcds_snapshot_t *snapshot);
static void ngx_http_mcds_put_read(void *data, ngx_uint_t outcome,
    ngx_mcds_snapshot_t *snapshot);
static void ngx_http_mcds_put_end(ngx_http_mcds_put_t *put);
static void ngx_http_mcds_put_room(ngx_http_mcds_put_t *put);
static u_char *ngx_http_mcds_put_choose(ngx_http_mcds_put_t *put,
    ngx_uint_t n);
static ngx_uint_t ngx_http_mcds_put_used(ngx_http_mcds_put_t *put,
    u_char *hash);
static ngx_uint_t ngx_http_mcds_put_drops(ngx_http_mcds_put_t *put,
    u_char *hash);
static void ngx_http_mcds_put_retire(ngx_http_mcds_put_t *put);
static void ngx_http_mcds_put_retired(void *data, ngx_uint_t rc,
    ngx_uint_t found, uint64_t cas, ngx_mcds_cut_t *left);
static ngx_int_t ngx_http_mcds_put_key(ngx_http_mcds_put_t *put, u_char *hash,
    ngx_str_t *key);
static ngx_mcds_value_t *ngx_http_mcds_put_value(ngx_http_mcds_put_t *put,
    ngx_str_t *key);
static void ngx_http_mcds_put_forked(void *data, ngx_uint_t rc,
    ngx_mcds_snapshot_t *snapshot);
static void ngx_http_mcds_put_unwanted(void *data, ngx_uint_t outcome,
    ngx_mcds_snapshot_t *snapshot);


ngx_int_t
ngx_http_mcds_variant_begin(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf,
    ngx_mcds_waiter_t **waiter)
{
    ngx_str_t  names, key, merged;

    ngx_mcds_page_leave(&ctx->vary.target);

    *waiter = &ctx->waiter;

    if (ngx_http_mcds_vary_covered(ctx)) {
        return NGX_OK;
    }

    /*
     * if the list of headers that the page varies by would have too many
     * names, only the names in this response's Vary are used
     */

    if (ctx->vary.list) {
        ngx_mcds_vary_names(&ctx->vary.list->entry.ext, &names);

        merged.data = ngx_pnalloc(r->pool, NGX_MCDS_MAX_VARY_LEN);
        if (merged.data == NULL) {
            return NGX_ERROR;
        }

        merged.len = 0;

        if (ngx_mcds_vary_add(&merged, &names) == NGX_OK
            && ngx_mcds_vary_add(&merged, &ctx->vary.names) == NGX_OK)
        {
            ctx->vary.names = merged;
        }
    }

    ngx_mcds_random(&ctx->vary.generation, sizeof(uint64_t));

    if (ngx_http_mcds_vary_key(r, ctx, &ctx->vary.names,
                                  ctx->vary.generation, ctx->vary.target_hash,
                                  &key)
        != NGX_OK
        || ngx_mcds_page_join(&ctx->vary.target, ccf->cache_pool, &key,
                              ccf->cache_max_size + NGX_HTTP_MCDS_ENTRY_ROOM,
                              ngx_http_mcds_put_unwanted, NULL)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    ctx->vary.target.secrets = ccf->secrets;

    *waiter = &ctx->vary.target;

    return NGX_OK;
}


ngx_int_t
ngx_http_mcds_variant_store(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_mcds_value_t *value,
    ngx_mcds_entry_t *entry, ngx_mcds_split_t *split)
{
    ngx_mcds_storing_t    storing;
    ngx_http_mcds_put_t  *put;

    if (ctx->vary.target.page == NULL
        && (ctx->vary.list == NULL
            || ngx_mcds_vary_has(&ctx->vary.list->entry.body,
                                 ctx->vary.hash)))
    {
        return NGX_DECLINED;
    }

    put = ngx_http_mcds_put_create(ctx);

    if (put == NULL) {
        if (split) {
            ngx_mcds_split_abandon(split);
        }

        ngx_mcds_value_unref(value);
        return NGX_ERROR;
    }

    if (put->target.page == NULL) {
        put->value = value;
        put->split = split;
        put->entry = *entry;

        ngx_http_mcds_put_list(put);
        return NGX_OK;
    }

    ngx_memzero(&storing, sizeof(ngx_mcds_storing_t));

    storing.value = value;
    storing.entry = entry;
    storing.split = split;
    storing.handler = ngx_http_mcds_put_stored;
    storing.data = put;

    if (ngx_mcds_page_store(&put->target, &storing) != NGX_OK) {
        ngx_http_mcds_put_free(put);
    }

    return NGX_OK;
}


static ngx_http_mcds_put_t *
ngx_http_mcds_put_create(ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_http_mcds_put_t  *put;

    put = ngx_calloc(sizeof(ngx_http_mcds_put_t) + ctx->vary.names.len,
                     ngx_cycle->log);
    if (put == NULL) {
        return NULL;
    }

    put->build = ngx_mcds_page_build_id(&ctx->waiter);

    if (ngx_http_mcds_put_waiters(put, ctx) != NGX_OK) {
        ngx_http_mcds_put_free(put);
        return NULL;
    }

    put->pool = ctx->conf->cache_pool;
    put->list = ctx->vary.list ? ngx_mcds_snapshot_ref(ctx->vary.list) : NULL;
    put->generation = ctx->vary.generation;

    ngx_memcpy(put->hash, put->target.page ? ctx->vary.target_hash
                                           : ctx->vary.hash,
               NGX_MCDS_VARIANT_LEN);

    if (ctx->vary.names.len) {
        put->names.data = (u_char *) put + sizeof(ngx_http_mcds_put_t);
        put->names.len = ctx->vary.names.len;
        ngx_memcpy(put->names.data, ctx->vary.names.data,
                   ctx->vary.names.len);
    }

    put->cas = ctx->cas;
    put->replace = ctx->overwrite;
    put->max = ctx->conf->cache_max_variants;
    put->ttl = NGX_HTTP_MCDS_MOVED;
    put->secrets = ctx->conf->secrets;

    return put;
}


/*
 * Sets up the structures ngx_mcds_waiter_t in "put", the handles for the keys
 * under which the variant and the page's list of variants are stored.  If the
 * request builds the variant, for which other requests may wait, "put", which
 * outlives the request, takes over as the builder; this comes last, after the
 * steps that may fail.
 */

static ngx_int_t
ngx_http_mcds_put_waiters(ngx_http_mcds_put_t *put,
    ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_mcds_pool_t  *pool;

    pool = ctx->conf->cache_pool;

    if (ngx_mcds_page_join(&put->base, pool, &ctx->key, 0,
                           ngx_http_mcds_put_read, put)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (ctx->vary.target.page
        && ngx_mcds_page_join(&put->target, pool,
                              ngx_mcds_page_key(&ctx->vary.target), 0,
                              ngx_http_mcds_put_unwanted, put)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    put->target.secrets = ctx->conf->secrets;
    put->target.stat = ctx->conf->zone;

    if (ctx->waiter.building) {
        ngx_mcds_page_hand(&ctx->waiter, &put->waiter);

        put->waiter.handler = ngx_http_mcds_put_unwanted;
        put->waiter.data = put;

        return NGX_OK;
    }

    if (ngx_mcds_page_join(&put->waiter, pool, ngx_mcds_page_key(&ctx->waiter),
                           0, ngx_http_mcds_put_unwanted, put)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    put->waiter.secrets = ctx->conf->secrets;
    put->waiter.stat = ctx->conf->zone;

    return NGX_OK;
}


static void
ngx_http_mcds_put_free(ngx_http_mcds_put_t *put)
{
    ngx_mcds_page_leave(&put->waiter);
    ngx_mcds_page_leave(&put->base);
    ngx_mcds_page_leave(&put->target);

    ngx_mcds_snapshot_unref(put->list);
    ngx_mcds_snapshot_unref(put->snapshot);

    ngx_free(put);
}


/*
 * called when the first variant of a new list is stored, or its store has
 * failed: stores the list
 */

static void
ngx_http_mcds_put_stored(void *data, ngx_uint_t rc,
    ngx_mcds_snapshot_t *snapshot)
{
    ngx_http_mcds_put_t *put = data;

    ngx_mcds_value_t    *value;
    ngx_mcds_storing_t   storing;

    put->snapshot = snapshot ? ngx_mcds_snapshot_ref(snapshot) : NULL;

    if (put->list) {
        ngx_http_mcds_put_list(put);
        return;
    }

    value = ngx_http_mcds_put_value(put, ngx_mcds_page_key(&put->waiter));

    if (value) {
        ngx_memzero(&storing, sizeof(ngx_mcds_storing_t));

        storing.value = value;
        storing.first = put->snapshot;
        storing.cas = put->cas;
        storing.replace = put->replace;

        (void) ngx_mcds_page_store(&put->waiter, &storing);
    }

    ngx_http_mcds_put_free(put);
}


/*
 * replaces the page's list of variants by a new list, or by the old list with
 * one more variant
 */

static void
ngx_http_mcds_put_list(ngx_http_mcds_put_t *put)
{
    ngx_mcds_storing_t  storing;

    if (put->target.page == NULL) {

        if (ngx_mcds_vary_has(&put->list->entry.body, put->hash)) {
            put->ttl = 0;
            ngx_http_mcds_put_end(put);
            return;
        }

        ngx_http_mcds_put_room(put);
    }

    ngx_memzero(&storing, sizeof(ngx_mcds_storing_t));

    storing.value = ngx_http_mcds_put_value(put,
                                            ngx_mcds_page_key(&put->base));
    storing.cas = put->list->item_id.cas;
    storing.handler = ngx_http_mcds_put_listed;
    storing.data = put;

    if (storing.value == NULL
        || ngx_mcds_page_store(&put->base, &storing) != NGX_OK)
    {
        ngx_http_mcds_put_end(put);
    }
}


static void
ngx_http_mcds_put_listed(void *data, ngx_uint_t rc,
    ngx_mcds_snapshot_t *snapshot)
{
    ngx_http_mcds_put_t *put = data;

    if (rc == NGX_MCDS_OK) {
        put->ttl = 0;
        ngx_http_mcds_put_retire(put);
    }

    if (rc == NGX_MCDS_EXISTS
        && put->tries++ < NGX_HTTP_MCDS_TRIES
        && ngx_mcds_page_lookup(&put->base) == NGX_OK)
    {
        return;
    }

    ngx_http_mcds_put_end(put);
}


/*
 * called when a page's list of variants was read again, as another worker may
 * have added a variant
 */

static void
ngx_http_mcds_put_read(void *data, ngx_uint_t outcome,
    ngx_mcds_snapshot_t *snapshot)
{
    ngx_http_mcds_put_t *put = data;

    if (snapshot == NULL
        || snapshot->entry.kind != NGX_MCDS_ENTRY_VARY
        || snapshot->entry.generation != put->list->entry.generation
        || ngx_mcds_snapshot_signed(snapshot, put->secrets) != NGX_OK)
    {
        ngx_http_mcds_put_end(put);
        return;
    }

    ngx_mcds_snapshot_unref(put->list);
    put->list = ngx_mcds_snapshot_ref(snapshot);

    ngx_http_mcds_put_list(put);
}


/*
 * Called when a page's list of variants is stored, or cannot be stored, as
 * another worker has changed or removed the list.  If the list is not stored,
 * later requests do not find the variant that was just built: the other worker
 * knows more about the page than this variant, which is older.  Requests that
 * wait for the variant get it all the same.
 */

static void
ngx_http_mcds_put_end(ngx_http_mcds_put_t *put)
{
    ngx_mcds_storing_t  storing;

    ngx_memzero(&storing, sizeof(ngx_mcds_storing_t));

    if (put->target.page == NULL) {
        storing.value = put->value;
        storing.entry = &put->entry;
        storing.split = put->split;
        storing.cas = put->cas;
        storing.ttl = put->ttl;
        storing.replace = put->replace;

    } else if (put->waiter.building) {
        storing.value =
                ngx_http_mcds_put_value(put, ngx_mcds_page_key(&put->waiter));
        storing.first = put->snapshot;
        storing.ttl = NGX_HTTP_MCDS_MOVED;
    }

    if (storing.value) {
        (void) ngx_mcds_page_store(&put->waiter, &storing);
    }

    ngx_http_mcds_put_free(put);
}


/*
 * chooses the variants to be dropped from a page's list to make room for
 * another one
 */

static void
ngx_http_mcds_put_room(ngx_http_mcds_put_t *put)
{
    u_char      *hash;
    ngx_uint_t   n;

    put->ndropped = 0;

    n = put->list->entry.body.len / NGX_MCDS_VARIANT_LEN;

    while (n - put->ndropped >= put->max
           && put->ndropped < ngx_min(n, NGX_HTTP_MCDS_DROPPED))
    {
        hash = ngx_http_mcds_put_choose(put, n);

        if (hash == NULL) {
            return;
        }

        ngx_memcpy(put->dropped[put->ndropped++], hash, NGX_MCDS_VARIANT_LEN);
    }
}


/*
 * chooses a variant to be dropped from a page's list; NULL: all variants that
 * were looked at are dropped already
 */

static u_char *
ngx_http_mcds_put_choose(ngx_http_mcds_put_t *put, ngx_uint_t n)
{
    u_char      *hash, *first;
    ngx_uint_t   i, at;

    /*
     * the last variants in a page's list may not be stored yet, or had no time
     * to be requested again, so they are not dropped
     */

    n -= n / NGX_HTTP_MCDS_SPARED;

    first = NULL;
    at = ngx_random() % n;

    for (i = 0; i < ngx_min(n, NGX_HTTP_MCDS_CHANCES); i++) {

        hash = put->list->entry.body.data
               + (at + i) % n * NGX_MCDS_VARIANT_LEN;

        if (ngx_http_mcds_put_drops(put, hash)) {
            continue;
        }

        if (!ngx_http_mcds_put_used(put, hash)) {
            return hash;
        }

        if (first == NULL) {
            first = hash;
        }
    }

    return first;
}


static ngx_uint_t
ngx_http_mcds_put_used(ngx_http_mcds_put_t *put, u_char *hash)
{
    ngx_str_t   key;
    ngx_uint_t  used;

    if (ngx_http_mcds_put_key(put, hash, &key) != NGX_OK) {
        return 0;
    }

    used = ngx_mcds_page_used(&put->base, &key);

    ngx_free(key.data);

    return used;
}


static ngx_uint_t
ngx_http_mcds_put_drops(ngx_http_mcds_put_t *put, u_char *hash)
{
    ngx_uint_t  i;

    for (i = 0; i < put->ndropped; i++) {
        if (ngx_memcmp(put->dropped[i], hash, NGX_MCDS_VARIANT_LEN) == 0) {
            return 1;
        }
    }

    return 0;
}


/*
 * lets the variants that were dropped from a page's list expire soon, to free
 * memory in memcached
 */

static void
ngx_http_mcds_put_retire(ngx_http_mcds_put_t *put)
{
    ngx_str_t   key;
    ngx_uint_t  i;

    for (i = 0; i < put->ndropped; i++) {

        if (ngx_http_mcds_put_key(put, put->dropped[i], &key) != NGX_OK) {
            return;
        }

        (void) ngx_mcds_purge_key(put->pool, &key, NGX_MCDS_PURGE_RETIRE,
                                  ngx_mcds_now(), put->secrets,
                                  ngx_http_mcds_put_retired, NULL);
        ngx_free(key.data);
    }
}


static void
ngx_http_mcds_put_retired(void *data, ngx_uint_t rc, ngx_uint_t found,
    uint64_t cas, ngx_mcds_cut_t *left)
{
    /*
     * does nothing: if memcached has not set the new expiry of a dropped
     * variant, the variant stays until it expires or is evicted
     */
}


static ngx_int_t
ngx_http_mcds_put_key(ngx_http_mcds_put_t *put, u_char *hash, ngx_str_t *key)
{
    u_char     *p;
    ngx_str_t  *base;

    base = ngx_mcds_page_key(&put->base);

    key->data = ngx_alloc(base->len + NGX_MCDS_VARY_SUFFIX_LEN,
                          ngx_cycle->log);
    if (key->data == NULL) {
        return NGX_ERROR;
    }

    p = ngx_cpymem(key->data, base->data, base->len);
    p = ngx_mcds_vary_suffix(p, put->list->entry.generation, hash);

    key->len = p - key->data;

    return NGX_OK;
}


/*
 * makes the page's list of variants to be stored under the key; NULL when out
 * of memory
 */

static ngx_mcds_value_t *
ngx_http_mcds_put_value(ngx_http_mcds_put_t *put, ngx_str_t *key)
{
    u_char            *p;
    size_t             i;
    u_char             ext[NGX_MCDS_SIGN_EXT + NGX_MCDS_VARY_EXT
                           + NGX_MCDS_MAX_VARY_LEN];
    ngx_mcds_entry_t   entry, *old;
    ngx_mcds_value_t  *value;

    ngx_memzero(&entry, sizeof(ngx_mcds_entry_t));

    old = (put->target.page || put->fork) ? NULL : &put->list->entry;

    if (old) {
        entry = *old;

    } else {
        entry.kind = NGX_MCDS_ENTRY_VARY;
        entry.created = ngx_mcds_now();
        entry.generation = put->generation;
        entry.swr = NGX_MCDS_ENTRY_UNSET;
        entry.sie = NGX_MCDS_ENTRY_UNSET;

        /*
         * the new list of variants takes over the purges of the page that the
         * list before it has recorded
         */

        if (put->list) {
            entry.purges = put->list->entry.purges;
            entry.expire = put->list->entry.expire;
            entry.took = put->list->entry.took;
            entry.age = put->list->entry.age;
        }

        p = put->secrets ? ngx_mcds_signing->put(ext) : ext;

        entry.ext.data = ext;
        entry.ext.len = ngx_mcds_vary_ext(p, &put->names) - ext;
    }

    entry.key = *key;
    entry.build = put->build;

    value = ngx_mcds_entry_begin(&entry, entry.body.len + NGX_MCDS_VARIANT_LEN
                                         + NGX_MCDS_VALUE_SPARE,
                                 ngx_cycle->log);
    if (value == NULL) {
        return NULL;
    }

    p = value->data + value->len;

    for (i = 0; old && i < old->body.len; i += NGX_MCDS_VARIANT_LEN) {

        if (!ngx_http_mcds_put_drops(put, old->body.data + i)) {
            p = ngx_cpymem(p, old->body.data + i, NGX_MCDS_VARIANT_LEN);
        }
    }

    p = ngx_cpymem(p, put->hash, NGX_MCDS_VARIANT_LEN);
    value->len = p - value->data;

    ngx_mcds_entry_finish(value, &entry);

    if (put->secrets) {
        (void) ngx_mcds_signing->sign(value, &entry, put->secrets);
    }

    return value;
}


ngx_int_t
ngx_http_mcds_variant_fork(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf)
{
    u_char                data[NGX_MCDS_MAX_VARY_LEN];
    uint64_t              cas;
    ngx_str_t             names, old, key;
    ngx_mcds_value_t     *value;
    ngx_mcds_storing_t    storing;
    ngx_http_mcds_put_t  *put;

    if (++ctx->vary.lists > NGX_HTTP_MCDS_VARIANT_LISTS) {
        return NGX_BUSY;
    }

    names.len = 0;
    names.data = data;

    if (ctx->vary.list) {
        ngx_mcds_vary_names(&ctx->vary.list->entry.ext, &old);

        if (ngx_mcds_vary_add(&names, &old) != NGX_OK) {
            return NGX_BUSY;
        }
    }

    if (ngx_mcds_vary_add(&names, &ngx_http_mcds_route_name) != NGX_OK) {
        return NGX_BUSY;
    }

    put = ngx_calloc(sizeof(ngx_http_mcds_put_t) + names.len, ngx_cycle->log);
    if (put == NULL) {
        return NGX_ERROR;
    }

    put->fork = 1;
    put->pool = ccf->cache_pool;
    put->list = ctx->vary.list ? ngx_mcds_snapshot_ref(ctx->vary.list) : NULL;
    put->secrets = ccf->secrets;

    put->names.data = (u_char *) put + sizeof(ngx_http_mcds_put_t);
    put->names.len = names.len;
    ngx_memcpy(put->names.data, names.data, names.len);

    ngx_mcds_random(&put->generation, sizeof(uint64_t));

    cas = ctx->vary.list ? ctx->vary.list->item_id.cas
                         : ctx->snapshot->item_id.cas;
    value = NULL;

    if (ngx_http_mcds_vary_key(r, ctx, &names, put->generation, put->hash,
                                  &key)
        == NGX_OK
        && ngx_mcds_page_join(&put->base, ccf->cache_pool, &ctx->key, 0,
                              ngx_http_mcds_put_unwanted, put)
           == NGX_OK)
    {
        value = ngx_http_mcds_put_value(put, &ctx->key);
    }

    if (value == NULL) {
        ngx_http_mcds_put_free(put);
        return NGX_ERROR;
    }

    put->ctx = ctx;

    ctx->vary.fork = put;
    ngx_http_mcds_set_state(ctx, NGX_HTTP_MCDS_STATE_FORK);
    ctx->task->waiting++;

    ngx_memzero(&storing, sizeof(ngx_mcds_storing_t));

    storing.value = value;
    storing.cas = cas;
    storing.handler = ngx_http_mcds_put_forked;
    storing.data = put;

    if (ngx_mcds_page_store(&put->base, &storing) != NGX_OK) {
        ctx->vary.fork = NULL;
        ctx->task->waiting--;

        ngx_http_mcds_put_free(put);
        return NGX_ERROR;
    }

    return NGX_AGAIN;
}


static void
ngx_http_mcds_put_forked(void *data, ngx_uint_t rc,
    ngx_mcds_snapshot_t *snapshot)
{
    ngx_http_mcds_put_t *put = data;

    ngx_http_mcds_cache_ctx_t  *ctx;

    ctx = put->ctx;

    ngx_http_mcds_put_free(put);

    if (ctx) {
        ctx->vary.fork = NULL;
        ngx_http_mcds_task_result(ctx->task);
    }
}


void
ngx_http_mcds_variant_unfork(ngx_http_mcds_cache_ctx_t *ctx)
{
    if (ctx->vary.fork) {
        ctx->vary.fork->ctx = NULL;
        ctx->vary.fork = NULL;
    }
}


void
ngx_http_mcds_variant_hurry(ngx_http_mcds_cache_ctx_t *ctx)
{
    if (ctx->vary.fork) {
        ngx_http_mcds_variant_unfork(ctx);
        ngx_http_mcds_task_result(ctx->task);
    }
}


static void
ngx_http_mcds_put_unwanted(void *data, ngx_uint_t outcome,
    ngx_mcds_snapshot_t *snapshot)
{
    /*
     * does nothing: this handler gets the result of a lookup, but the handles
     * that have this handler only store a variant or a list of variants
     */
}


/*
 * Copyright (C) mcds authors
 *
 * Stores of pages in memcached.  If the body of a page was split, or memcached
 * refuses the page as a whole, the parts of the body are stored before the
 * page.  ngx_mcds_page_store(), which begins a store, is in
 * ngx_mcds_page_built.c.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_item_size.h"
#include "ngx_mcds_page_lease.h"
#include "ngx_mcds_page_local.h"
#include "ngx_mcds_page_store.h"
#include "ngx_mcds_page_queue.h"
#include "ngx_mcds_purge.h"
#include "ngx_mcds_sign.h"
#include "ngx_mcds_body.h"


/*
 * the time for which a page that memcached has refused is not sent again, ms
 */
#define NGX_MCDS_REFUSED          60000

/*
 * the time for which the parts of a replaced page's body stay in memcached, for
 * requests that are reading them, seconds
 */
#define NGX_MCDS_LINGER           60

/*
 * how often one store of a page tries at most, with test values (zeros) of
 * different lengths, whether memcached accepts a value as long as the page
 */
#define NGX_MCDS_STORE_TRIES      4

/*
 * the maximum number of times that one store of a page reads a version that
 * another host or worker has stored meanwhile; then the store gives up
 */
#define NGX_MCDS_LOOKS            3


static void ngx_mcds_store_put(ngx_mcds_store_t *store);
static void ngx_mcds_store_answered(void *data, ngx_mcds_result_t *result);
static ngx_int_t ngx_mcds_store_bar(ngx_mcds_store_t *store);
static void ngx_mcds_store_barred(void *data, ngx_uint_t rc, ngx_uint_t found,
    uint64_t cas, ngx_mcds_cut_t *left);
static void ngx_mcds_store_lost(ngx_mcds_store_t *store);
static ngx_int_t ngx_mcds_store_edit(void *data, ngx_mcds_result_t *now,
    ngx_mcds_request_t *req);
static void ngx_mcds_store_request(ngx_mcds_store_t *store,
    ngx_mcds_request_t *req);
static ngx_int_t ngx_mcds_store_cut(ngx_mcds_store_t *store);
static ngx_mcds_snapshot_t *ngx_mcds_store_finish(ngx_mcds_store_t *store,
    ngx_mcds_split_t *split);
static void ngx_mcds_store_drop_old(ngx_mcds_store_t *store, uint64_t cas);
static void ngx_mcds_store_item_id(ngx_mcds_store_t *store,
    ngx_mcds_item_id_t *item_id, uint64_t cas);
static void ngx_mcds_store_too_large(ngx_mcds_store_t *store, uint64_t len);
static void ngx_mcds_store_keep(ngx_mcds_store_t *store, uint64_t cas);
static void ngx_mcds_store_count(ngx_mcds_store_t *store);


/*
 * Stores a page in memcached.  The page itself is not sent until a test has
 * shown that memcached accepts a value of this length.
 */

void
ngx_mcds_store_try(void *data)
{
    ngx_mcds_store_t *store = data;

    size_t            len;
    ngx_mcds_page_t  *page;

    page = store->page;
    len = store->snapshot->value->len;

    if (store->tries++ < NGX_MCDS_STORE_TRIES
        && ngx_mcds_item_size_try(page->pool, &page->key, len,
                                  ngx_mcds_store_try, store)
           == NGX_OK)
    {
        return;
    }

    if (len <= ngx_mcds_item_size(page->pool)) {
        ngx_mcds_store_put(store);
        return;
    }

    if (ngx_mcds_store_cut(store) != NGX_OK) {
        store->rc = NGX_MCDS_TOO_LARGE;

        ngx_mcds_store_too_large(store, len);
        ngx_mcds_store_end(store);
    }
}


/*
 * Sends the page to memcached.  If another worker or host has stored a version
 * of the page meanwhile, the store ends; but for a page that was built with the
 * lock, or if store->replace is 1, the store reads that version and may replace
 * it, see ngx_mcds_store_edit().
 */

static void
ngx_mcds_store_put(ngx_mcds_store_t *store)
{
    ngx_mcds_page_t     *page;
    ngx_mcds_update_t   *update;
    ngx_mcds_request_t   req;

    page = store->page;
    update = &store->update;

    update->pool = page->pool;
    update->edit = ngx_mcds_store_edit;
    update->handler = ngx_mcds_store_answered;
    update->data = store;
    update->gone = 1;

    if (store->replace
        || (store->locked
            && store->snapshot->entry.kind == NGX_MCDS_ENTRY_PAGE))
    {
        update->max = NGX_MCDS_LOOKS;
    }

    ngx_mcds_page_request(page, &update->get, NGX_MCDS_VALUE|NGX_MCDS_CAS
                                              |NGX_MCDS_FLAGS);
    update->get.bulk = page->big;

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.verb = store->base ? NGX_MCDS_SET : NGX_MCDS_ADD;
    req.key = page->key;
    req.cas = store->base;
    req.page = 1;
    req.movable = 1;

    ngx_mcds_store_request(store, &req);

    ngx_mcds_update_write(update, &req);
}


static void
ngx_mcds_store_request(ngx_mcds_store_t *store, ngx_mcds_request_t *req)
{
    req->want = NGX_MCDS_CAS;
    req->ttl = store->ttl;
    req->value = ngx_mcds_store_value(store);
    req->flags = ngx_mcds_entry_client_flags(req->value);
}


static void
ngx_mcds_store_answered(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_snapshot_t  *snapshot;
    ngx_mcds_store_t     *store;

    store = data;
    snapshot = store->snapshot;

    store->rc = result->rc;

    switch (result->rc) {

    case NGX_MCDS_OK:
        ngx_mcds_store_drop_old(store, result->cas);

        if (store->expired) {
            ngx_mcds_page_drop(store->page);
            break;
        }

        ngx_mcds_store_keep(store, result->cas);

        if (store->ttl) {

            /*
             * the page's item expires in store->ttl seconds: call the function
             * that lets the items with the parts of its body expire, too
             */

            ngx_mcds_store_lost(store);
        }

        break;

    case NGX_MCDS_TOO_LARGE:

        if (ngx_mcds_item_size_learn(store->page->pool, snapshot->value->len)
            != NGX_OK)
        {
            ngx_mcds_store_too_large(store, snapshot->value->len);
        }

        /* fall through */

    case NGX_MCDS_SERVER_ERROR:

        if (ngx_mcds_store_bar(store) == NGX_OK) {
            return;
        }

        break;

    case NGX_MCDS_NOT_FOUND:
    case NGX_MCDS_NOT_STORED:
    case NGX_MCDS_EXISTS:

        /*
         * NGX_MCDS_NOT_FOUND: the old page is gone, so the new page is not
         * stored.  If a purge has deleted the old page, the new page may be
         * from before the purge; if memcached has evicted the old page, the
         * next request builds the page again.
         */

        ngx_mcds_store_lost(store);
        break;

    default:

        if (ngx_mcds_answered(result->rc) || store->expired) {
            break;
        }

        if (snapshot->entry.kind == NGX_MCDS_ENTRY_VARY) {
            ngx_mcds_page_remember(store->page, snapshot);
        }

        /*
         * memcached has not confirmed the page: if no copies are kept of it,
         * older copies are dropped only if the page was just built
         */

        ngx_mcds_page_keep(store->page, snapshot, store->purges,
                           store->building ? store->since : 0);
        break;
    }

    ngx_mcds_store_end(store);
}


/*
 * Purges the page again after a failed store.  A memcached that cannot store a
 * page has already removed the old item.  If that item said that the page was
 * purged, an older build could now store its page.
 */

static ngx_int_t
ngx_mcds_store_bar(ngx_mcds_store_t *store)
{
    ngx_mcds_page_t  *page;

    page = store->page;

    return ngx_mcds_purge_key(page->pool, &page->key, NGX_MCDS_PURGE_DELETE,
                              ngx_mcds_now(), store->secrets,
                              ngx_mcds_store_barred, store);
}


static void
ngx_mcds_store_barred(void *data, ngx_uint_t rc, ngx_uint_t found,
    uint64_t cas, ngx_mcds_cut_t *left)
{
    ngx_mcds_store_t *store = data;

    ngx_mcds_store_lost(store);
    ngx_mcds_store_end(store);
}


/*
 * Makes the parts of a page's body expire in NGX_MCDS_LINGER seconds.  The
 * parts are items of their own, stored without a time to live; but the page's
 * own item was not stored, or itself expires soon (store->ttl).  The parts of a
 * renewed page stay: the version that the page replaces has the same body.
 */

static void
ngx_mcds_store_lost(ngx_mcds_store_t *store)
{
    ngx_mcds_cut_t        cut;
    ngx_mcds_snapshot_t  *snapshot;

    snapshot = store->snapshot;

    if (!store->renewed) {
        ngx_mcds_body_cut(&snapshot->entry, &cut);

        ngx_mcds_body_drop(store->page->pool, &store->page->key, &cut,
                           NGX_MCDS_LINGER);
    }
}


/*
 * Lets the page that is being stored replace the version that another worker or
 * host has stored meanwhile: a page just built replaces an invalidated version,
 * and a page that is stored without a build replaces an older version.  Any
 * other version stays in memcached, and the store ends.
 */

static ngx_int_t
ngx_mcds_store_edit(void *data, ngx_mcds_result_t *now, ngx_mcds_request_t *req)
{
    ngx_mcds_store_t *store = data;

    if (now->rc == NGX_MCDS_OK
        && (store->building
            ? ngx_mcds_store_invalidated(store, now)
              && ngx_mcds_store_expire(store) == NGX_OK
            : ngx_mcds_store_newer(store, now)))
    {
        store->base = now->cas;

        ngx_mcds_store_request(store, req);
        (void) ngx_mcds_value_ref(req->value);

        return NGX_OK;
    }

    store->rc = store->base ? NGX_MCDS_EXISTS : NGX_MCDS_NOT_STORED;

    ngx_mcds_store_lost(store);
    ngx_mcds_store_end(store);

    return NGX_DONE;
}


/*
 * tries to store a page in parts, as memcached does not accept a value of the
 * page's length
 */

static ngx_int_t
ngx_mcds_store_cut(ngx_mcds_store_t *store)
{
    ngx_mcds_snapshot_t  *snapshot;
    ngx_mcds_page_t      *page;
    ngx_mcds_entry_t     *entry;
    ngx_mcds_split_t     *split;

    page = store->page;
    snapshot = store->snapshot;
    entry = &snapshot->entry;

    if (ngx_mcds_body_apart(entry)
        || entry->body.len == 0
        || ngx_mcds_item_size_learn(page->pool, snapshot->value->len) != NGX_OK)
    {
        return NGX_DECLINED;
    }

    store->entry = *entry;
    store->head = ngx_mcds_entry_begin(entry, NGX_MCDS_VALUE_SPARE,
                                       ngx_cycle->log);

    if (store->head == NULL) {
        return NGX_DECLINED;
    }

    split = ngx_mcds_split_create(page->pool, &page->key, store->secrets);
    if (split == NULL) {
        return NGX_DECLINED;
    }

    if (ngx_mcds_split_append(split, entry->body.data, entry->body.len)
        != NGX_OK)
    {
        ngx_mcds_split_abandon(split);
        return NGX_DECLINED;
    }

    ngx_mcds_split_end(split, ngx_mcds_store_parted, store);

    return NGX_OK;
}


void
ngx_mcds_store_parted(void *data, ngx_mcds_split_t *split, ngx_uint_t rc)
{
    ngx_uint_t            told;
    ngx_mcds_page_t      *page;
    ngx_mcds_store_t     *store;
    ngx_mcds_item_id_t    none;
    ngx_mcds_snapshot_t  *snapshot;

    store = data;
    page = store->page;
    told = (store->snapshot != NULL);

    snapshot = ngx_mcds_store_finish(store, split);

    if (rc == NGX_MCDS_TOO_LARGE) {
        ngx_mcds_store_too_large(store, store->entry.total);
    }

    if (rc != NGX_MCDS_OK || snapshot == NULL) {

        store->refused = (rc != NGX_MCDS_OK) ? rc : NGX_MCDS_BUSY;

        /*
         * the parts of the body are not all stored: the waiting requests get
         * the page from memory, or go to the origin
         */

        if (snapshot && !told && store->building
            && ngx_mcds_body_keep(snapshot, split) == NGX_OK)
        {
            store->snapshot = snapshot;

        } else {
            ngx_mcds_snapshot_unref(snapshot);
        }

        if (store->building && !ngx_mcds_answered(rc)) {

            /*
             * no copies are kept of the built page, and memcached, which does
             * not answer, cannot say that it is newer than a copy
             */

            ngx_memzero(&none, sizeof(ngx_mcds_item_id_t));
            ngx_mcds_page_drop_all(page, &none, store->since);
        }

        ngx_mcds_store_end(store);
        return;
    }

    ngx_mcds_snapshot_unref(store->snapshot);
    store->snapshot = snapshot;

    if (store->building) {
        (void) ngx_mcds_body_keep(snapshot, split);

        page->built = snapshot;
        page->refused = 0;

        if (!told) {
            ngx_mcds_page_give(page, snapshot);
        }
    }

    ngx_mcds_store_put(store);
}


/*
 * Returns the page to store, whose body is in parts, as a snapshot; NULL if
 * out of memory.
 */

static ngx_mcds_snapshot_t *
ngx_mcds_store_finish(ngx_mcds_store_t *store, ngx_mcds_split_t *split)
{
    ngx_mcds_snapshot_t  *snapshot;

    ngx_mcds_split_entry(split, &store->entry);

    ngx_mcds_entry_finish(store->head, &store->entry);

    snapshot = ngx_mcds_snapshot_create(store->page, store->head, NULL);

    if (snapshot && store->secrets) {
        (void) ngx_mcds_signing->sign(store->head, &snapshot->entry,
                                      store->secrets);
    }

    ngx_mcds_value_unref(store->head);
    store->head = NULL;

    return snapshot;
}


/* Removes the parts of the old page's body after the new page was stored. */

static void
ngx_mcds_store_drop_old(ngx_mcds_store_t *store, uint64_t cas)
{
    ngx_mcds_snapshot_t  *snapshot;
    ngx_mcds_page_t      *page;

    page = store->page;
    snapshot = store->snapshot;

    if (page->cut_cas && !ngx_mcds_body_same(&page->cut, &snapshot->entry)) {

        /*
         * if pages are signed, the old page's parts are removed only if its
         * entry was signed: an unsigned one may name the parts of another body
         */

        if (store->secrets == NULL || page->cut_signed == store->secrets) {
            ngx_mcds_body_drop(page->pool, &page->key, &page->cut,
                               NGX_MCDS_LINGER);
        }

        page->cut_cas = 0;
    }

    /*
     * the snapshot of a page that was invalidated during its build keeps a CAS
     * of 0, so that requests that came after the purge look up the page again
     */

    if (store->expired) {
        return;
    }

    if (ngx_mcds_body_apart(&snapshot->entry)
        || snapshot->entry.kind == NGX_MCDS_ENTRY_VARY)
    {
        snapshot->checked = store->secrets;

        ngx_mcds_store_item_id(store, &snapshot->item_id, cas);
        ngx_mcds_page_saw(page, snapshot);
    }
}


/*
 * Returns in *item_id the id of the page's item that memcached has just stored:
 * the CAS that memcached returned, and the client flags sent with the page.
 */

static void
ngx_mcds_store_item_id(ngx_mcds_store_t *store, ngx_mcds_item_id_t *item_id,
    uint64_t cas)
{
    item_id->cas = cas;
    item_id->flags = ngx_mcds_entry_client_flags(ngx_mcds_store_value(store));
}


static void
ngx_mcds_store_too_large(ngx_mcds_store_t *store, uint64_t len)
{
    ngx_mcds_key_t    key;
    ngx_mcds_page_t  *page;

    page = store->page;

    if (!store->building) {
        return;
    }

    ngx_mcds_key_show(&key, &page->key);

    ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                  "page \"%*s\" of %uL bytes is too large for memcached",
                  (size_t) key.len, key.data, len);

    page->refused = (size_t) len;
    page->refused_until = ngx_mcds_clock(ngx_current_msec) + NGX_MCDS_REFUSED;
}


/*
 * Keeps a copy of the page that was stored.  The snapshot of ngx_mcds_store_t
 * keeps a CAS of 0, which says that the page was built here; the copy for
 * later requests has the CAS of the item in memcached.
 */

static void
ngx_mcds_store_keep(ngx_mcds_store_t *store, uint64_t cas)
{
    ngx_mcds_snapshot_t   *snapshot;
    ngx_mcds_page_t       *page;
    ngx_mcds_item_id_t     item_id;

    page = store->page;

    ngx_mcds_store_item_id(store, &item_id, cas);

    if (!page->local || ngx_mcds_body_apart(&store->snapshot->entry)) {
        ngx_mcds_page_drop_all(page, &item_id, store->since);
        return;
    }

    snapshot = ngx_mcds_snapshot_create(page, store->snapshot->value, &item_id);

    if (snapshot) {
        ngx_mcds_page_keep(page, snapshot, store->purges, store->since);
        ngx_mcds_snapshot_unref(snapshot);
    }
}


/*
 * Counts whether a page was stored in memcached; entries without a page (not
 * cacheable, purged, or a list of headers) are not counted.
 */

static void
ngx_mcds_store_count(ngx_mcds_store_t *store)
{
    ngx_uint_t  i;

    if (store->snapshot && store->snapshot->entry.kind != NGX_MCDS_ENTRY_PAGE) {
        return;
    }

    switch (store->refused ? store->refused : store->rc) {

    case NGX_MCDS_OK:
        i = NGX_MCDS_ZONE_STORED;
        break;

    case NGX_MCDS_TOO_LARGE:
        i = NGX_MCDS_ZONE_TOO_LARGE;
        break;

    case NGX_MCDS_NOT_FOUND:
        i = NGX_MCDS_ZONE_EVICTED;
        break;

    case NGX_MCDS_NOT_STORED:
    case NGX_MCDS_EXISTS:
        i = NGX_MCDS_ZONE_CHANGED;
        break;

    default:
        i = NGX_MCDS_ZONE_STORE_FAILED;
        break;
    }

    ngx_mcds_stat_add(store->stat, i, 1);
}


void
ngx_mcds_store_end(ngx_mcds_store_t *store)
{
    ngx_mcds_page_t  *page;

    page = store->page;

    ngx_mcds_store_count(store);

    if (store->building) {
        page->built = NULL;
        page->held_until = 0;
        page->failed_until = 0;
        page->step = 0;

        ngx_mcds_page_set_idle(page);
        ngx_mcds_page_share_result(page, store->snapshot);
        ngx_mcds_page_release(page);

        ngx_mcds_page_build_ended(page);

        ngx_mcds_page_give(page, store->snapshot);
    }

    if (store->handler) {
        store->handler(store->data, store->rc, store->snapshot);
    }

    ngx_mcds_value_unref(store->head);
    ngx_mcds_value_unref(store->expired);
    ngx_mcds_snapshot_unref(store->snapshot);
    ngx_mcds_page_unref(page);
    ngx_free(store);
}

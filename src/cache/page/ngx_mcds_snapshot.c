
/*
 * Copyright (C) mcds authors
 *
 * Pages as they were read or built, shared by all requests that use them; and
 * the lists of headers that pages vary by, which a worker remembers.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_lack.h"
#include "ngx_mcds_page_core.h"
#include "ngx_mcds_sign.h"
#include "ngx_mcds_skew.h"
#include "ngx_mcds_vary.h"


/* the time after which the parts of a damaged page's body expire, seconds */
#define NGX_MCDS_LOST_LINGER      60


static char *ngx_mcds_snapshot_unusable(ngx_mcds_page_t *page,
    ngx_mcds_entry_t *entry, ngx_mcds_item_id_t *item_id);


/*
 * the functions for pages that vary and for signatures of pages; NULL: this
 * build of mcds lacks the feature (MCDS_WITHOUT)
 */

ngx_mcds_varying_t  *ngx_mcds_varying =
#if !(NGX_MCDS_WITHOUT_VARY)
    &ngx_mcds_vary_functions;
#else
    NULL;
#endif

ngx_mcds_signing_t  *ngx_mcds_signing =
#if !(NGX_MCDS_WITHOUT_HMAC)
    &ngx_mcds_sign_functions;
#else
    NULL;
#endif


ngx_mcds_snapshot_t *
ngx_mcds_snapshot_ref(ngx_mcds_snapshot_t *snapshot)
{
    snapshot->refs++;

    return snapshot;
}


void
ngx_mcds_snapshot_unref(ngx_mcds_snapshot_t *snapshot)
{
    if (snapshot && --snapshot->refs == 0) {
        if (snapshot->kept) {
            snapshot->unkeep(snapshot->kept);
        }

        ngx_mcds_snapshot_unref(snapshot->first);

        if (snapshot->prepared) {
            ngx_free(snapshot->prepared);
        }

        ngx_mcds_value_unref(snapshot->value);

        if (snapshot->page) {
            ngx_mcds_page_unref(snapshot->page);
        }

        ngx_free(snapshot);
    }
}


ngx_mcds_snapshot_t *
ngx_mcds_snapshot_create(ngx_mcds_page_t *page, ngx_mcds_value_t *value,
    ngx_mcds_item_id_t *item_id)
{
    char                 *why;
    ngx_mcds_snapshot_t  *snapshot;

    snapshot = ngx_alloc(sizeof(ngx_mcds_snapshot_t), ngx_cycle->log);
    if (snapshot == NULL) {
        return NULL;
    }

    if (ngx_mcds_entry_read(&snapshot->entry, value->data, value->len,
                            &page->key, &why)
        == NGX_OK)
    {
        why = ngx_mcds_snapshot_unusable(page, &snapshot->entry, item_id);
    }

    if (why) {
        ngx_mcds_page_not_used(page, why);
        ngx_free(snapshot);
        return NULL;
    }

    /*
     * the times of a page that was built here are from this host's clock, and
     * need no correction
     */

    if (item_id && item_id->cas) {
        ngx_mcds_skew_mend(&snapshot->entry, page->pool, ngx_mcds_now(),
                           ngx_cycle->log);
    }

    snapshot->refs = 1;
    snapshot->page = page;
    snapshot->value = ngx_mcds_value_ref(value);
    snapshot->checked = NULL;
    snapshot->prepared = NULL;
    snapshot->kept = NULL;
    snapshot->first = NULL;

    if (item_id) {
        snapshot->item_id = *item_id;

    } else {
        ngx_memzero(&snapshot->item_id, sizeof(ngx_mcds_item_id_t));
    }

    ngx_mcds_page_ref(page);
    ngx_mcds_page_saw(page, snapshot);

    return snapshot;
}


ngx_mcds_snapshot_t *
ngx_mcds_snapshot_result(ngx_mcds_page_t *page, ngx_mcds_result_t *result)
{
    ngx_mcds_snapshot_t  *snapshot;
    ngx_mcds_item_id_t    item_id;
    ngx_mcds_value_t     *value;

    value = ngx_mcds_result_value(result, ngx_cycle->log);
    if (value == NULL) {
        return NULL;
    }

    ngx_mcds_page_item_id(&item_id, result);

    snapshot = ngx_mcds_snapshot_create(page, value, &item_id);
    ngx_mcds_value_unref(value);

    return snapshot;
}


/*
 * Returns the reason why a page's entry in memcached is not used: it is of
 * another version of mcds, or of a build with more features, has an invalid
 * list of headers, or is too large.  Returns NULL if the entry is usable.
 */

static char *
ngx_mcds_snapshot_unusable(ngx_mcds_page_t *page, ngx_mcds_entry_t *entry,
    ngx_mcds_item_id_t *item_id)
{
    char  *why;

    why = ngx_mcds_entry_lacks(entry);

    if (why) {

        /*
         * This build of mcds lacks a feature that the entry needs.  Other hosts
         * may use the entry: this host does not replace it until it expires.  A
         * list of the headers that a page varies by never expires; its field
         * "expire" has the time of a purge.
         */

        if (item_id) {
            page->foreign = (entry->kind == NGX_MCDS_ENTRY_VARY
                             || entry->expire + NGX_MCDS_SKEW_MAX
                                > ngx_mcds_now()) ? item_id->cas : 0;
        }

        return why;
    }

    if (entry->kind == NGX_MCDS_ENTRY_VARY
        && ngx_mcds_varying->check(&entry->ext, &entry->body) != NGX_OK)
    {
        return "no list of headers";
    }

    if (entry->total > page->limit || entry->length > page->limit) {
        return "too large";
    }

    return NULL;
}


ngx_int_t
ngx_mcds_snapshot_signed(ngx_mcds_snapshot_t *snapshot, ngx_array_t *secrets)
{
    ngx_mcds_key_t     key;
    ngx_mcds_page_t   *page;
    ngx_mcds_entry_t  *entry;

    entry = &snapshot->entry;

    if (secrets == NULL
        || snapshot->checked == secrets
        || entry->kind == NGX_MCDS_ENTRY_PURGED)
    {
        return NGX_OK;
    }

    if (ngx_mcds_signing->check(snapshot->value->data, snapshot->value->len,
                                entry, secrets)
        != NGX_OK)
    {
        ngx_mcds_key_show(&key, &entry->key);

        ngx_log_error(NGX_LOG_INFO, ngx_cycle->log, 0,
                      "page \"%*s\" is not signed",
                      (size_t) key.len, key.data);

        return NGX_DECLINED;
    }

    /*
     * the signature of this snapshot of a page was checked for all requests
     * that share the snapshot
     */

    snapshot->checked = secrets;

    page = snapshot->page;

    if (page && page->cut_cas && page->cut_cas == snapshot->item_id.cas) {
        page->cut_signed = secrets;
    }

    return NGX_OK;
}


ngx_int_t
ngx_mcds_page_signed(ngx_mcds_snapshot_t *snapshot, ngx_queue_t *waiters)
{
    ngx_queue_t        *q;
    ngx_mcds_waiter_t  *waiter;

    for (q = ngx_queue_head(waiters);
         q != ngx_queue_sentinel(waiters);
         q = ngx_queue_next(q))
    {
        waiter = ngx_queue_data(q, ngx_mcds_waiter_t, queue);

        if (ngx_mcds_snapshot_signed(snapshot, waiter->secrets) == NGX_OK) {
            return NGX_OK;
        }
    }

    return NGX_DECLINED;
}


void
ngx_mcds_snapshot_remove(ngx_mcds_snapshot_t *snapshot)
{
    ngx_mcds_cut_t       cut;
    ngx_mcds_page_t     *page;
    ngx_mcds_request_t   req;

    page = snapshot->page;

    /*
     * The page whose body is lost is deleted, so that the next request builds
     * it again; a page that was stored meanwhile stays.
     */

    if (snapshot->item_id.cas) {
        ngx_memzero(&req, sizeof(ngx_mcds_request_t));

        req.verb = NGX_MCDS_DELETE;
        req.key = page->key;
        req.cas = snapshot->item_id.cas;
        req.page = 1;
        req.movable = 1;

        ngx_mcds_submit(page->pool, &req, NULL);
    }

    ngx_mcds_body_cut(&snapshot->entry, &cut);

    ngx_mcds_body_drop(page->pool, &page->key, &cut, NGX_MCDS_LOST_LINGER);
}


void
ngx_mcds_page_item_id(ngx_mcds_item_id_t *item_id, ngx_mcds_result_t *result)
{
    item_id->cas = result->cas;
    item_id->flags = result->flags;
}


void
ngx_mcds_page_saw(ngx_mcds_page_t *page, ngx_mcds_snapshot_t *snapshot)
{
    if (snapshot->item_id.cas == 0) {
        return;
    }

    if (snapshot->entry.kind == NGX_MCDS_ENTRY_VARY) {
        ngx_mcds_page_remember(page, snapshot);
    }

    if (!ngx_mcds_body_apart(&snapshot->entry)) {
        return;
    }

    ngx_mcds_body_cut(&snapshot->entry, &page->cut);

    page->cut_cas = snapshot->item_id.cas;
    page->cut_signed = snapshot->checked;
}


/*
 * Remembers the list of headers that a page varies by.  The remembered list
 * holds no reference to its page: with one the page would never be freed.
 */

void
ngx_mcds_page_remember(ngx_mcds_page_t *page, ngx_mcds_snapshot_t *snapshot)
{
    ngx_mcds_snapshot_t  *list;

    ngx_mcds_page_forget_list(page);

    list = ngx_alloc(sizeof(ngx_mcds_snapshot_t), ngx_cycle->log);
    if (list == NULL) {
        return;
    }

    *list = *snapshot;

    list->refs = 1;
    list->page = NULL;
    list->value = ngx_mcds_value_ref(snapshot->value);
    list->prepared = NULL;
    list->kept = NULL;
    list->first = NULL;

    page->list = list;
    page->forget = ngx_mcds_page_forget_list;
}


void
ngx_mcds_page_forget_list(ngx_mcds_page_t *page)
{
    ngx_mcds_snapshot_unref(page->list);
    page->list = NULL;
    page->list_asked = 0;
}


void
ngx_mcds_page_confirmed(ngx_mcds_page_t *page, ngx_atomic_uint_t purges)
{
    page->list_asked = ngx_mcds_clock(ngx_current_msec);
    page->list_purges = purges;
}

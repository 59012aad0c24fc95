
/*
 * Copyright (C) mcds authors
 *
 * Ends the build of a page, and stores the page in memcached; also stores a
 * page for a request that is not the page's builder.  The requests that wait
 * for a built page get the page before its entry is sent to memcached.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_page_build.h"
#include "ngx_mcds_page_built.h"
#include "ngx_mcds_page_lease.h"
#include "ngx_mcds_page_store.h"
#include "ngx_mcds_page_queue.h"


static ngx_int_t ngx_mcds_store_end_build(ngx_mcds_waiter_t *waiter,
    ngx_uint_t how, ngx_mcds_storing_t *storing);
static ngx_mcds_store_t *ngx_mcds_store_create(ngx_mcds_waiter_t *waiter,
    ngx_mcds_storing_t *storing);
static void ngx_mcds_store_count_build(ngx_mcds_waiter_t *waiter,
    ngx_uint_t how);


void
ngx_mcds_page_abandon(ngx_mcds_waiter_t *waiter, ngx_uint_t how,
    ngx_mcds_value_t *value, uint32_t ttl)
{
    ngx_mcds_page_t     *page;
    ngx_mcds_storing_t   storing;

    page = waiter->page;

    if (how == NGX_MCDS_BUILD_PASS && value) {
        ngx_memzero(&storing, sizeof(ngx_mcds_storing_t));

        storing.value = value;
        storing.ttl = ttl;

        (void) ngx_mcds_store_end_build(waiter, how, &storing);
        return;
    }

    waiter->building = 0;
    page->owner = NULL;
    page->old = waiter->has_old;

    ngx_mcds_store_count_build(waiter, how);
    ngx_mcds_page_failed(page, how == NGX_MCDS_BUILD_BACKOFF);
}


ngx_int_t
ngx_mcds_page_store(ngx_mcds_waiter_t *waiter, ngx_mcds_storing_t *storing)
{
    ngx_mcds_store_t  *store;

    if (waiter->building) {
        return ngx_mcds_store_end_build(waiter, storing->renewed
                                                ? NGX_MCDS_BUILD_RENEW
                                              : NGX_MCDS_BUILD_STORE, storing);
    }

    store = ngx_mcds_store_create(waiter, storing);
    if (store == NULL) {
        return NGX_ERROR;
    }

    store->base = storing->cas;
    store->replace = storing->replace;

    if (storing->split) {
        ngx_mcds_split_end(storing->split, ngx_mcds_store_parted, store);
        return NGX_OK;
    }

    /*
     * Without storing->split the request has no parts of a body to store.  If
     * the entry says nevertheless that its body is in parts, it is the body of
     * the old page, whose parts memcached already has.
     */

    store->renewed = ngx_mcds_body_apart(&store->snapshot->entry);

    ngx_mcds_store_try(store);

    return NGX_OK;
}


/*
 * Ends the build of a page, and stores the page in memcached.  Returns
 * NGX_ERROR if out of memory; then the build has failed.
 */

static ngx_int_t
ngx_mcds_store_end_build(ngx_mcds_waiter_t *waiter, ngx_uint_t how,
    ngx_mcds_storing_t *storing)
{
    size_t             len;
    ngx_uint_t         list;
    ngx_mcds_page_t   *page;
    ngx_mcds_store_t  *store;

    page = waiter->page;

    waiter->building = 0;
    page->owner = NULL;

    store = ngx_mcds_store_create(waiter, storing);

    if (store == NULL) {
        ngx_mcds_store_count_build(waiter, NGX_MCDS_BUILD_FAILED);
        ngx_mcds_page_failed(page, 0);
        return NGX_ERROR;
    }

    ngx_mcds_store_count_build(waiter, how);
    ngx_mcds_page_set_state(page, NGX_MCDS_STATE_STORING);

    store->base = page->base;
    store->purges = page->purges;
    store->building = 1;
    store->locked = (page->lease != NULL);

    if (storing->split) {
        ngx_mcds_split_end(storing->split, ngx_mcds_store_parted, store);
        return NGX_OK;
    }

    store->renewed = storing->renewed;

    len = store->snapshot->value->len;
    list = (store->snapshot->entry.kind == NGX_MCDS_ENTRY_VARY);

    if (storing->first) {
        store->snapshot->first = ngx_mcds_snapshot_ref(storing->first);
    }

    if (!list) {
        page->big = (len >= NGX_MCDS_BULK);
    }

    page->built = store->snapshot;

    ngx_mcds_page_give(page, store->snapshot);
    ngx_mcds_page_share_result(page, store->snapshot);

    if (!list && ngx_mcds_page_refused(page) && len >= page->refused) {
        store->refused = NGX_MCDS_TOO_LARGE;
        ngx_mcds_store_end(store);
        return NGX_OK;
    }

    page->refused = 0;

    ngx_mcds_store_try(store);

    return NGX_OK;
}


/*
 * Creates ngx_mcds_store_t, the state of storing a page.  The value and the
 * split body in *storing are taken over, even if the result is NULL.
 */

static ngx_mcds_store_t *
ngx_mcds_store_create(ngx_mcds_waiter_t *waiter, ngx_mcds_storing_t *storing)
{
    ngx_mcds_page_t   *page;
    ngx_mcds_store_t  *store;

    page = waiter->page;

    store = ngx_calloc(sizeof(ngx_mcds_store_t), ngx_cycle->log);

    if (store && storing->split) {
        store->entry = *storing->entry;
        store->head = storing->value;

    } else if (store) {
        store->snapshot = ngx_mcds_snapshot_create(page, storing->value, NULL);
        ngx_mcds_value_unref(storing->value);

        if (store->snapshot == NULL) {
            ngx_free(store);
            return NULL;
        }

    } else {
        ngx_mcds_value_unref(storing->value);

        if (storing->split) {
            ngx_mcds_split_abandon(storing->split);
        }

        return NULL;
    }

    store->page = page;
    store->secrets = waiter->secrets;
    store->stat = waiter->stat;
    store->handler = storing->handler;
    store->data = storing->data;
    store->ttl = storing->ttl;
    store->rc = NGX_MCDS_BUSY;
    store->purges = ngx_mcds_local_purges(page->place);
    store->since = ngx_mcds_clock(ngx_current_msec);
    ngx_mcds_page_ref(page);

    return store;
}


/* Adds the end of a page's build, and the time it took, to the statistics. */

static void
ngx_mcds_store_count_build(ngx_mcds_waiter_t *waiter, ngx_uint_t how)
{
    ngx_msec_t  took;

    ngx_mcds_stat_add(waiter->stat, NGX_MCDS_ZONE_BUILT_STORE + how, 1);

    took = ngx_current_msec - waiter->since;

    ngx_mcds_stat_time(waiter->stat, NGX_MCDS_ZONE_BUILD_TIME, took);

    if (how != NGX_MCDS_BUILD_FAILED && how != NGX_MCDS_BUILD_BACKOFF) {
        ngx_mcds_page_paced(waiter, took);
    }

    if (how == NGX_MCDS_BUILD_BACKOFF
        && waiter->has_old
        && waiter->page->backoff)
    {
        ngx_mcds_stat_add(waiter->stat, NGX_MCDS_ZONE_BACKOFFS, 1);
    }
}

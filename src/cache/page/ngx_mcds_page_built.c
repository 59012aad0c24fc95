
/*
 * Copyright (C) mcds authors
 *
 * The end of a build, and stores of pages without a build: requests that wait
 * are told, then memcached.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_page_build.h"
#include "ngx_mcds_page_built.h"
#include "ngx_mcds_page_lease.h"
#include "ngx_mcds_page_store.h"
#include "ngx_mcds_page_wait.h"


static ngx_mcds_store_t *ngx_mcds_store_create(ngx_mcds_seat_t *seat,
    ngx_mcds_value_t *value, ngx_mcds_entry_t *entry);
static ngx_mcds_store_t *ngx_mcds_store_build(ngx_mcds_seat_t *seat,
    ngx_uint_t how, ngx_mcds_value_t *value, ngx_mcds_entry_t *entry);
static void ngx_mcds_store_built(ngx_mcds_seat_t *seat, ngx_uint_t how);


void
ngx_mcds_page_built(ngx_mcds_seat_t *seat, ngx_uint_t how,
    ngx_mcds_value_t *value, uint32_t ttl)
{
    ngx_mcds_page_t   *page;
    ngx_mcds_store_t  *store;

    page = seat->page;

    if (how == NGX_MCDS_BUILD_FAILED
        || how == NGX_MCDS_BUILD_BACKOFF
        || value == NULL)
    {
        ngx_mcds_value_unref(value);

        seat->building = 0;
        page->owner = NULL;
        page->old = seat->has_old;

        ngx_mcds_store_built(seat, how);
        ngx_mcds_page_failed(page, how == NGX_MCDS_BUILD_BACKOFF);
        return;
    }

    store = ngx_mcds_store_build(seat, how, value, NULL);
    if (store == NULL) {
        return;
    }

    store->ttl = ttl;
    store->renewed = (how == NGX_MCDS_BUILD_RENEW);

    page->built = store->copy;
    page->big = (store->copy->value->len >= NGX_MCDS_BULK);

    ngx_mcds_page_found(page, store->copy);
    ngx_mcds_page_share_copy(page, store->copy);

    if (ngx_mcds_page_refused(page)
        && store->copy->value->len >= page->refused)
    {
        store->refused = NGX_MCDS_TOO_LARGE;
        ngx_mcds_store_end(store);
        return;
    }

    page->refused = 0;

    ngx_mcds_store_try(store);
}


void
ngx_mcds_page_built_split(ngx_mcds_seat_t *seat, ngx_mcds_value_t *value,
    ngx_mcds_entry_t *entry, ngx_mcds_split_t *split)
{
    ngx_mcds_store_t  *store;

    store = ngx_mcds_store_build(seat, NGX_MCDS_BUILD_STORE, value, entry);

    if (store == NULL) {
        ngx_mcds_split_abandon(split);
        return;
    }

    ngx_mcds_split_end(split, ngx_mcds_store_parted, store);
}


void
ngx_mcds_page_built_list(ngx_mcds_seat_t *seat, ngx_mcds_value_t *value,
    uint32_t ttl, ngx_mcds_copy_t *first)
{
    ngx_mcds_page_t   *page;
    ngx_mcds_store_t  *store;

    page = seat->page;

    store = ngx_mcds_store_build(seat, NGX_MCDS_BUILD_STORE, value, NULL);
    if (store == NULL) {
        return;
    }

    store->ttl = ttl;
    store->copy->first = first ? ngx_mcds_copy_ref(first) : NULL;

    page->built = store->copy;
    page->refused = 0;

    ngx_mcds_page_found(page, store->copy);
    ngx_mcds_page_share_copy(page, store->copy);

    ngx_mcds_store_try(store);
}


void
ngx_mcds_page_store(ngx_mcds_seat_t *seat, ngx_mcds_value_t *value,
    uint64_t cas, ngx_uint_t replace)
{
    ngx_mcds_store_t  *store;

    store = ngx_mcds_store_create(seat, value, NULL);

    if (store) {
        store->base = cas;
        store->replace = replace;

        /* a value whose body is stored already was there, and is renewed */

        store->renewed = ngx_mcds_body_apart(&store->copy->entry);

        ngx_mcds_store_try(store);
    }
}


void
ngx_mcds_page_store_split(ngx_mcds_seat_t *seat, ngx_mcds_value_t *value,
    ngx_mcds_entry_t *entry, ngx_mcds_split_t *split, uint64_t cas,
    ngx_uint_t replace)
{
    ngx_mcds_store_t  *store;

    store = ngx_mcds_store_create(seat, value, entry);

    if (store == NULL) {
        ngx_mcds_split_abandon(split);
        return;
    }

    store->base = cas;
    store->replace = replace;

    ngx_mcds_split_end(split, ngx_mcds_store_parted, store);
}


ngx_int_t
ngx_mcds_page_store_then(ngx_mcds_seat_t *seat, ngx_mcds_value_t *value,
    ngx_mcds_entry_t *entry, ngx_mcds_split_t *split, uint64_t cas,
    ngx_uint_t replace, ngx_mcds_stored_pt handler, void *data)
{
    ngx_mcds_store_t  *store;

    store = ngx_mcds_store_create(seat, value, split ? entry : NULL);

    if (store == NULL) {
        if (split) {
            ngx_mcds_split_abandon(split);
        }

        return NGX_ERROR;
    }

    store->base = cas;
    store->replace = replace;
    store->handler = handler;
    store->data = data;

    if (split) {
        ngx_mcds_split_end(split, ngx_mcds_store_parted, store);

    } else {
        ngx_mcds_store_try(store);
    }

    return NGX_OK;
}


/* takes the value's reference; it is finished unless entry is given */

static ngx_mcds_store_t *
ngx_mcds_store_create(ngx_mcds_seat_t *seat, ngx_mcds_value_t *value,
    ngx_mcds_entry_t *entry)
{
    ngx_mcds_page_t   *page;
    ngx_mcds_store_t  *store;

    page = seat->page;

    store = ngx_calloc(sizeof(ngx_mcds_store_t), ngx_cycle->log);

    if (store && entry) {
        store->entry = *entry;
        store->head = value;

    } else if (store) {
        store->copy = ngx_mcds_copy_create(page, value, NULL);
        ngx_mcds_value_unref(value);

        if (store->copy == NULL) {
            ngx_free(store);
            return NULL;
        }

    } else {
        ngx_mcds_value_unref(value);
        return NULL;
    }

    store->page = page;
    store->secrets = seat->secrets;
    store->stat = seat->stat;
    store->rc = NGX_MCDS_BUSY;
    store->op.data = store;
    store->purges = ngx_mcds_local_purges(page->place);
    ngx_mcds_page_ref(page);

    return store;
}


/* the same at the end of a build, which has failed then if it is NULL */

static ngx_mcds_store_t *
ngx_mcds_store_build(ngx_mcds_seat_t *seat, ngx_uint_t how,
    ngx_mcds_value_t *value, ngx_mcds_entry_t *entry)
{
    ngx_mcds_page_t   *page;
    ngx_mcds_store_t  *store;

    page = seat->page;

    seat->building = 0;
    page->owner = NULL;

    store = ngx_mcds_store_create(seat, value, entry);

    if (store == NULL) {
        ngx_mcds_store_built(seat, NGX_MCDS_BUILD_FAILED);
        ngx_mcds_page_failed(page, 0);
        return NULL;
    }

    ngx_mcds_store_built(seat, how);
    ngx_mcds_page_set_state(page, NGX_MCDS_STORING);

    store->base = page->base;
    store->purges = page->purges;
    store->building = 1;
    store->locked = (page->lock != NULL);

    return store;
}


/* counts that a build has ended */

static void
ngx_mcds_store_built(ngx_mcds_seat_t *seat, ngx_uint_t how)
{
    ngx_mcds_stat_add(seat->stat, NGX_MCDS_ZONE_BUILT_STORE + how, 1);

    ngx_mcds_stat_time(seat->stat, NGX_MCDS_ZONE_BUILD_TIME,
                       ngx_current_msec - seat->since);

    if (how == NGX_MCDS_BUILD_BACKOFF
        && seat->has_old
        && seat->page->backoff)
    {
        ngx_mcds_stat_add(seat->stat, NGX_MCDS_ZONE_BACKOFFS, 1);
    }
}

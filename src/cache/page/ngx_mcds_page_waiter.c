
/*
 * Copyright (C) mcds authors
 *
 * Waiters: requests that look up a page, build it, or wait for its build.  Here
 * a request becomes a waiter of a page, or stops being one; see
 * ngx_mcds_page.h.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_item_size.h"
#include "ngx_mcds_page_build.h"
#include "ngx_mcds_page_built.h"
#include "ngx_mcds_page_local.h"
#include "ngx_mcds_page_queue.h"


ngx_int_t
ngx_mcds_page_join(ngx_mcds_waiter_t *waiter, ngx_mcds_pool_t *pool,
    ngx_str_t *key, size_t limit, ngx_mcds_page_pt handler, void *data)
{
    ngx_mcds_page_t  *page;

    page = ngx_mcds_page_get(pool, key);
    if (page == NULL) {
        return NGX_ERROR;
    }

    ngx_mcds_page_ref(page);

    page->limit = ngx_max(page->limit, limit);

    ngx_memzero(waiter, sizeof(ngx_mcds_waiter_t));

    waiter->page = page;
    waiter->handler = handler;
    waiter->data = data;

    return NGX_OK;
}


void
ngx_mcds_page_leave(ngx_mcds_waiter_t *waiter)
{
    ngx_mcds_page_t  *page;

    page = waiter->page;

    if (page == NULL) {
        return;
    }

    if (waiter->looking) {
        ngx_queue_remove(&waiter->queue);
        waiter->looking = 0;

    } else if (waiter->queued) {
        ngx_mcds_page_unqueue(waiter);
    }

    ngx_mcds_page_count_wait(waiter, NGX_MCDS_ZONE_WAIT_ABORTED);

    if (waiter->building) {
        ngx_mcds_page_abandon(waiter, NGX_MCDS_BUILD_FAILED, NULL, 0);
    }

    if (page->owner == waiter) {
        page->owner = NULL;
    }

    waiter->page = NULL;

    ngx_mcds_page_unref(page);
}


void
ngx_mcds_page_hand(ngx_mcds_waiter_t *from, ngx_mcds_waiter_t *to)
{
    *to = *from;
    to->page->owner = to;

    from->page = NULL;
    from->building = 0;
}


void
ngx_mcds_page_hurry(ngx_mcds_waiter_t *waiter)
{
    ngx_mcds_snapshot_t  *snapshot;
    ngx_mcds_page_t      *page;

    page = waiter->page;

    if (page == NULL) {
        return;
    }

    if (!waiter->looking) {

        if (page->owner == waiter
            && page->state == NGX_MCDS_STATE_LOCKING
            && !page->hurried)
        {
            ngx_mcds_page_hurry_lock(page);
        }

        return;
    }

    ngx_queue_remove(&waiter->queue);
    waiter->looking = 0;

    snapshot = NULL;

    if (waiter->local) {
        waiter->silent = 1;
        snapshot = ngx_mcds_page_copy_offline(page);
    }

    if (snapshot) {
        page->used = 1;
    }

    waiter->handler(waiter->data, snapshot ? NGX_MCDS_PAGE_FOUND
                                           : NGX_MCDS_PAGE_NO_REPLY, snapshot);
}


ngx_str_t *
ngx_mcds_page_key(ngx_mcds_waiter_t *waiter)
{
    return &waiter->page->key;
}


uint64_t
ngx_mcds_page_build_id(ngx_mcds_waiter_t *waiter)
{
    return waiter->building ? waiter->page->awaited : 0;
}


size_t
ngx_mcds_page_item(ngx_mcds_waiter_t *waiter)
{
    return ngx_mcds_item_size(waiter->page->pool);
}


ngx_mcds_split_t *
ngx_mcds_page_split(ngx_mcds_waiter_t *waiter)
{
    return ngx_mcds_split_create(waiter->page->pool, &waiter->page->key,
                                 waiter->secrets);
}


ngx_mcds_snapshot_t *
ngx_mcds_page_snapshot(ngx_mcds_waiter_t *waiter, ngx_mcds_value_t *value)
{
    return ngx_mcds_snapshot_create(waiter->page, value, NULL);
}

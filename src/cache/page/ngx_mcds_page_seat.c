
/*
 * Copyright (C) mcds authors
 *
 * The place of a request at a page, see ngx_mcds_page.h.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_limit.h"
#include "ngx_mcds_page_build.h"
#include "ngx_mcds_page_built.h"
#include "ngx_mcds_page_local.h"
#include "ngx_mcds_page_wait.h"


ngx_int_t
ngx_mcds_page_sit(ngx_mcds_seat_t *seat, ngx_mcds_pool_t *pool,
    ngx_str_t *key, size_t limit, ngx_mcds_page_pt handler, void *data)
{
    ngx_mcds_page_t  *page;

    page = ngx_mcds_page_get(pool, key);
    if (page == NULL) {
        return NGX_ERROR;
    }

    ngx_mcds_page_ref(page);

    page->limit = ngx_max(page->limit, limit);

    ngx_memzero(seat, sizeof(ngx_mcds_seat_t));

    seat->page = page;
    seat->handler = handler;
    seat->data = data;

    return NGX_OK;
}


void
ngx_mcds_page_leave(ngx_mcds_seat_t *seat)
{
    ngx_mcds_page_t  *page;

    page = seat->page;

    if (page == NULL) {
        return;
    }

    if (seat->want_copy) {
        ngx_queue_remove(&seat->queue);
        seat->want_copy = 0;

    } else if (seat->queued) {
        ngx_mcds_page_unqueue(seat);
    }

    ngx_mcds_page_waited(seat, NGX_MCDS_ZONE_WAIT_ABORTED);

    if (seat->building) {
        ngx_mcds_page_built(seat, NGX_MCDS_BUILD_FAILED, NULL, 0);
    }

    if (page->owner == seat) {
        page->owner = NULL;
    }

    seat->page = NULL;

    ngx_mcds_page_unref(page);
}


void
ngx_mcds_page_hand(ngx_mcds_seat_t *from, ngx_mcds_seat_t *to)
{
    *to = *from;
    to->page->owner = to;

    from->page = NULL;
    from->building = 0;
}


void
ngx_mcds_page_hurry(ngx_mcds_seat_t *seat)
{
    ngx_mcds_copy_t  *copy;
    ngx_mcds_page_t  *page;

    page = seat->page;

    if (page == NULL) {
        return;
    }

    if (!seat->want_copy) {

        if (page->owner == seat
            && page->state == NGX_MCDS_LOCKING
            && !page->hurried)
        {
            ngx_mcds_page_hurry_lock(page);
        }

        return;
    }

    ngx_queue_remove(&seat->queue);
    seat->want_copy = 0;

    copy = NULL;

    if (seat->local) {
        seat->silent = 1;
        copy = ngx_mcds_page_unasked(page);
    }

    if (copy) {
        page->used = 1;
    }

    seat->handler(seat->data, copy ? NGX_MCDS_PAGE_FOUND
                                   : NGX_MCDS_PAGE_FAILED, copy);
}


ngx_str_t *
ngx_mcds_page_key(ngx_mcds_seat_t *seat)
{
    return &seat->page->key;
}


uint64_t
ngx_mcds_page_build_id(ngx_mcds_seat_t *seat)
{
    return seat->building ? seat->page->awaited : 0;
}


size_t
ngx_mcds_page_item(ngx_mcds_seat_t *seat)
{
    return ngx_mcds_limit(seat->page->pool);
}


ngx_mcds_split_t *
ngx_mcds_page_split(ngx_mcds_seat_t *seat)
{
    return ngx_mcds_split_create(seat->page->pool, &seat->page->key,
                                 seat->secrets);
}


ngx_mcds_copy_t *
ngx_mcds_page_copy(ngx_mcds_seat_t *seat, ngx_mcds_value_t *value)
{
    return ngx_mcds_copy_create(seat->page, value, NULL);
}

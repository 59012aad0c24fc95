
/*
 * Copyright (C) mcds authors
 *
 * The list of headers that a page varies by, as a worker remembers it.  The
 * list is used if memcached confirms, in the turn of the event loop in which
 * the variant is read, that the list has not changed.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_page_local.h"
#include "ngx_mcds_page_read.h"


static void ngx_mcds_page_confirm_handler(ngx_event_t *ev);
static void ngx_mcds_page_confirm_done(void *data, ngx_mcds_result_t *result);


static ngx_mcds_reads_t  ngx_mcds_confirms;


ngx_mcds_snapshot_t *
ngx_mcds_page_list(ngx_mcds_waiter_t *waiter)
{
    return waiter->page->list;
}


ngx_uint_t
ngx_mcds_page_list_known(ngx_mcds_waiter_t *waiter)
{
    ngx_mcds_page_t  *page;

    page = waiter->page;

    return page->list_asked
           && page->list_purges == ngx_mcds_local_purges(page->place)
           && ngx_mcds_clock(ngx_current_msec) - page->list_asked
              < waiter->local_time;
}


ngx_mcds_snapshot_t *
ngx_mcds_page_first(ngx_mcds_waiter_t *waiter, ngx_msec_t age)
{
    ngx_mcds_snapshot_t  *snapshot;
    ngx_mcds_page_t      *page;
    ngx_mcds_item_id_t    found;
    ngx_mcds_value_t     *value;

    page = waiter->page;

    value = ngx_mcds_local_get(ngx_mcds_page_id(page), NULL,
                               age + NGX_MCDS_LAG, &found);
    if (value == NULL) {
        return NULL;
    }

    snapshot = ngx_mcds_snapshot_create(page, value, NULL);
    ngx_mcds_value_unref(value);

    return snapshot;
}


ngx_int_t
ngx_mcds_page_confirm(ngx_mcds_waiter_t *waiter)
{
    return ngx_mcds_page_read_join(waiter, &waiter->page->confirm,
                                   &ngx_mcds_confirms,
                                   ngx_mcds_page_confirm_handler,
                                   ngx_mcds_page_confirm_done);
}


static void
ngx_mcds_page_confirm_handler(ngx_event_t *ev)
{
    ngx_queue_t         *q;
    ngx_mcds_page_t     *page;
    ngx_mcds_read_t     *read;
    ngx_mcds_request_t   req;

    while (!ngx_queue_empty(&ngx_mcds_confirms.reads)) {
        q = ngx_queue_head(&ngx_mcds_confirms.reads);
        ngx_queue_remove(q);

        read = ngx_queue_data(q, ngx_mcds_read_t, queue);
        page = read->page;
        page->confirm = NULL;

        ngx_mcds_page_request(page, &req, NGX_MCDS_CAS|NGX_MCDS_FLAGS);

        read->purges = ngx_mcds_local_purges(page->place);

        ngx_mcds_submit(page->pool, &req, &read->op);
    }
}


static void
ngx_mcds_page_confirm_done(void *data, ngx_mcds_result_t *result)
{
    ngx_uint_t             outcome;
    ngx_mcds_snapshot_t   *list;
    ngx_mcds_page_t       *page;
    ngx_mcds_read_t       *read;
    ngx_mcds_item_id_t     item_id;

    read = data;
    page = read->page;
    list = page->list;

    ngx_mcds_page_item_id(&item_id, result);

    if (result->rc == NGX_MCDS_OK
        && list && ngx_mcds_item_id_same(&list->item_id, &item_id))
    {
        outcome = NGX_MCDS_PAGE_FOUND;
        read->snapshot = ngx_mcds_snapshot_ref(list);

        ngx_mcds_page_confirmed(page, read->purges);

    } else {
        outcome = NGX_MCDS_PAGE_NO_REPLY;

        if (ngx_mcds_answered(result->rc)) {
            outcome = NGX_MCDS_PAGE_MISSING;
            ngx_mcds_page_forget_list(page);
        }
    }

    ngx_mcds_page_read_end(read, outcome);
}

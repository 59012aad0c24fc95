
/*
 * Copyright (C) mcds authors
 *
 * One step of the build of a page: memcached is asked for the page's lock and,
 * after it on the same connection, for the page.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_page_build.h"
#include "ngx_mcds_page_local.h"
#include "ngx_mcds_body.h"


static void ngx_mcds_page_lock_handler(void *data, ngx_mcds_lease_t *lease,
    ngx_uint_t rc);
static void ngx_mcds_page_lock_replied(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_page_replied(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_page_opened(void *data, ngx_uint_t rc);
static void ngx_mcds_page_answered(ngx_mcds_page_t *page);


void
ngx_mcds_page_ask_lock(ngx_mcds_page_t *page, ngx_uint_t at_once)
{
    ngx_msec_t             left;
    ngx_mcds_lease_wish_t  wish;

    page->unanswered = 0;
    page->lock_only = 0;
    page->lease_rc = NGX_MCDS_BUSY;

    ngx_mcds_page_ref(page);

    ngx_memzero(&wish, sizeof(ngx_mcds_lease_wish_t));

    wish.pool = page->pool;
    wish.key = page->key;
    wish.ttl = page->lock_age;
    wish.left = &page->kept;
    wish.at_once = at_once;

    if (page->owner && page->owner->pace) {
        left = ngx_mcds_pace_least(page->owner->pace, page->took);
        wish.due = left ? ngx_mcds_now() + left : 0;
    }

    if (ngx_mcds_lease_acquire(&wish, ngx_mcds_page_lock_handler, page)
        == NGX_OK)
    {
        page->unanswered++;
    }

    /*
     * memcached is asked for the page on the connection that asks for the
     * page's lock, after the command for the lock
     */

    ngx_mcds_page_ask(page, page->base == 0);
}


static void
ngx_mcds_page_lock_handler(void *data, ngx_mcds_lease_t *lease, ngx_uint_t rc)
{
    ngx_mcds_page_t *page = data;

    if (page->hurried) {

        if (lease) {
            ngx_mcds_lease_release(lease, 0);
        }

    } else {
        page->lease = lease;
        page->lease_rc = rc;
    }

    ngx_mcds_page_answered(page);
}


void
ngx_mcds_page_poll(ngx_mcds_page_t *page, ngx_uint_t lock_only)
{
    ngx_mcds_request_t  req;

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.verb = NGX_MCDS_GET;
    req.want = NGX_MCDS_VALUE;
    req.key = page->key;
    ngx_str_set(&req.suffix, NGX_MCDS_LEASE_SUFFIX);
    req.by_key = 1;
    req.single = 1;
    req.page = 1;
    req.movable = 1;

    ngx_mcds_page_ref(page);

    page->lease_op.handler = ngx_mcds_page_lock_replied;
    page->lease_op.data = page;

    ngx_mcds_submit(page->pool, &req, &page->lease_op);
    page->unanswered++;

    page->lock_only = lock_only;

    if (lock_only) {
        page->page_rc = NGX_MCDS_BUSY;
        return;
    }

    ngx_mcds_page_ask(page, page->base == 0);
}


static void
ngx_mcds_page_lock_replied(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_page_t *page = data;

    page->lease_rc = result->rc;

    ngx_memzero(&page->kept, sizeof(ngx_mcds_lease_left_t));

    if (result->rc == NGX_MCDS_OK) {
        (void) ngx_mcds_lease_read(result->data, result->len, &page->kept);
    }

    ngx_mcds_page_answered(page);
}


void
ngx_mcds_page_ask(ngx_mcds_page_t *page, ngx_uint_t whole)
{
    ngx_mcds_request_t  req;

    ngx_mcds_page_request(page, &req,
                          whole ? NGX_MCDS_VALUE|NGX_MCDS_CAS|NGX_MCDS_FLAGS
                                : NGX_MCDS_CAS);

    page->whole = whole;
    page->page_rc = NGX_MCDS_BUSY;
    page->page_cas = 0;
    page->purges = ngx_mcds_local_purges(page->place);
    page->asked = ngx_mcds_clock(ngx_current_msec);

    page->page_op.handler = ngx_mcds_page_replied;
    page->page_op.data = page;

    ngx_mcds_submit(page->pool, &req, &page->page_op);
    page->unanswered++;
}


static void
ngx_mcds_page_replied(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_page_t *page = data;

    if (page->hurried) {
        ngx_mcds_page_answered(page);
        return;
    }

    page->page_rc = result->rc;

    if (result->rc == NGX_MCDS_OK) {
        page->page_cas = result->cas;

        if (result->has & NGX_MCDS_VALUE) {
            page->big = (result->len >= NGX_MCDS_BULK);

            page->snapshot = ngx_mcds_snapshot_result(page, result);
        }
    }

    if (page->snapshot && page->snapshot->entry.kind == NGX_MCDS_ENTRY_PURGED) {
        ngx_mcds_page_drop_all(page, &page->snapshot->item_id, page->asked);

        ngx_mcds_snapshot_unref(page->snapshot);
        page->snapshot = NULL;
    }

    if (page->snapshot
        && ngx_mcds_body_apart(&page->snapshot->entry)
        && ((page->owner
             && ngx_mcds_snapshot_signed(page->snapshot, page->owner->secrets)
                == NGX_OK)
            || ngx_mcds_page_signed(page->snapshot, &page->waiters) == NGX_OK))
    {
        page->split = page->snapshot;
        page->snapshot = NULL;

        if (ngx_mcds_body_check(page->split, 1, ngx_mcds_page_opened, page)
            == NGX_OK)
        {
            return;
        }

        ngx_mcds_snapshot_unref(page->split);
        page->split = NULL;
        page->page_rc = NGX_MCDS_BUSY;
    }

    ngx_mcds_page_answered(page);
}


static void
ngx_mcds_page_opened(void *data, ngx_uint_t rc)
{
    ngx_mcds_page_t *page = data;

    if (page->hurried) {
        ngx_mcds_snapshot_unref(page->split);

    } else if (rc == NGX_MCDS_OK) {
        page->snapshot = page->split;

    } else {
        ngx_mcds_snapshot_unref(page->split);

        if (ngx_mcds_answered(rc)) {
            ngx_mcds_page_not_used(page, "parts are missing");

        } else {
            page->page_rc = rc;
        }
    }

    page->split = NULL;

    ngx_mcds_page_answered(page);
}


static void
ngx_mcds_page_answered(ngx_mcds_page_t *page)
{
    if (--page->unanswered == 0) {
        page->answered(page);
    }
}

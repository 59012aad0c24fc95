
/*
 * Copyright (C) mcds authors
 *
 * Reads of pages from memcached.  The requests of one turn of the event loop
 * share the read of a page.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_page_local.h"
#include "ngx_mcds_page_read.h"
#include "ngx_mcds_body.h"


static void ngx_mcds_page_read_handler(ngx_event_t *ev);
static void ngx_mcds_page_read_done(void *data, ngx_mcds_result_t *result);
static ngx_int_t ngx_mcds_page_read_local(ngx_mcds_read_t *read,
    ngx_mcds_result_t *result);
static ngx_uint_t ngx_mcds_page_read_window(ngx_mcds_read_t *read);
static void ngx_mcds_page_read_opened(void *data, ngx_uint_t rc);
static void ngx_mcds_page_no_cas(ngx_mcds_page_t *page);


static ngx_mcds_reads_t  ngx_mcds_pages_reads;


ngx_int_t
ngx_mcds_page_lookup(ngx_mcds_waiter_t *waiter)
{
    ngx_mcds_page_t  *page;

    page = waiter->page;

    if (ngx_mcds_page_read_join(waiter, &page->read, &ngx_mcds_pages_reads,
                                ngx_mcds_page_read_handler,
                                ngx_mcds_page_read_done)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (waiter->local) {
        page->local = 1;
    }

    return NGX_OK;
}


ngx_int_t
ngx_mcds_page_read_join(ngx_mcds_waiter_t *waiter, ngx_mcds_read_t **read,
    ngx_mcds_reads_t *reads, ngx_event_handler_pt send,
    ngx_mcds_handler_pt done)
{
    if (reads->event.handler == NULL) {
        ngx_queue_init(&reads->reads);
        reads->event.handler = send;
        reads->event.log = ngx_cycle->log;
    }

    if (*read == NULL) {
        *read = ngx_calloc(sizeof(ngx_mcds_read_t), ngx_cycle->log);
        if (*read == NULL) {
            return NGX_ERROR;
        }

        (*read)->page = waiter->page;
        (*read)->op.handler = done;
        (*read)->op.data = *read;
        ngx_queue_init(&(*read)->waiters);
        ngx_queue_insert_tail(&reads->reads, &(*read)->queue);

        ngx_mcds_page_ref(waiter->page);

        if (!reads->event.posted) {
            ngx_post_event(&reads->event, &ngx_posted_events);
        }
    }

    ngx_queue_insert_tail(&(*read)->waiters, &waiter->queue);
    waiter->looking = 1;

    return NGX_OK;
}


static void
ngx_mcds_page_read_handler(ngx_event_t *ev)
{
    ngx_queue_t         *q;
    ngx_mcds_page_t     *page;
    ngx_mcds_read_t     *read;
    ngx_mcds_request_t   req;

    while (!ngx_queue_empty(&ngx_mcds_pages_reads.reads)) {
        q = ngx_queue_head(&ngx_mcds_pages_reads.reads);
        ngx_queue_remove(q);

        read = ngx_queue_data(q, ngx_mcds_read_t, queue);
        page = read->page;
        page->read = NULL;

        /*
         * if this host keeps a copy of the page, memcached only has to confirm
         * it
         */

        read->purges = ngx_mcds_local_purges(page->place);
        read->asked = ngx_mcds_clock(ngx_current_msec);
        read->whole = (!page->local
                       || ngx_mcds_page_get_copy(page, NULL) == NULL);

        ngx_mcds_page_request(page, &req, NGX_MCDS_CAS|NGX_MCDS_FLAGS
                                          |(read->whole ? NGX_MCDS_VALUE : 0));

        req.bulk = read->whole && page->big;

        ngx_mcds_submit(page->pool, &req, &read->op);
    }
}


static void
ngx_mcds_page_read_done(void *data, ngx_mcds_result_t *result)
{
    ngx_uint_t        outcome;
    ngx_mcds_page_t  *page;
    ngx_mcds_read_t  *read;

    read = data;
    page = read->page;
    outcome = NGX_MCDS_PAGE_MISSING;

    if (page->local) {
        switch (ngx_mcds_page_read_local(read, result)) {

        case NGX_AGAIN:
            return;

        case NGX_OK:
            ngx_mcds_page_read_end(read, NGX_MCDS_PAGE_FOUND);
            return;

        default: /* NGX_DECLINED: no copy of the page on this host may be
                    used */
            break;
        }
    }

    if (result->rc == NGX_MCDS_OK && !ngx_queue_empty(&read->waiters)) {
        page->big = (result->len >= NGX_MCDS_BULK);

        read->snapshot = ngx_mcds_snapshot_result(page, result);

        if (read->snapshot) {
            outcome = NGX_MCDS_PAGE_FOUND;
            ngx_mcds_page_keep(page, read->snapshot, read->purges,
                               read->asked);

            if (read->snapshot->entry.kind == NGX_MCDS_ENTRY_VARY) {
                ngx_mcds_page_confirmed(page, read->purges);
            }
        }

        if (result->cas == 0) {
            ngx_mcds_page_no_cas(page);
            outcome = NGX_MCDS_PAGE_NO_REPLY;
        }

    } else if (!ngx_mcds_answered(result->rc)) {
        outcome = NGX_MCDS_PAGE_NO_REPLY;
    }

    if (outcome == NGX_MCDS_PAGE_FOUND
        && ngx_mcds_body_apart(&read->snapshot->entry)
        && ngx_mcds_page_signed(read->snapshot, &read->waiters) == NGX_OK)
    {
        if (ngx_mcds_body_check(read->snapshot, ngx_mcds_page_read_window(read),
                                ngx_mcds_page_read_opened, read)
            == NGX_OK)
        {
            return;
        }

        outcome = NGX_MCDS_PAGE_NO_REPLY;
    }

    ngx_mcds_page_read_end(read, outcome);
}


/*
 * Looks for a copy of the page on this host, after the reply of memcached.
 * Returns NGX_OK if read->snapshot is such a copy, NGX_AGAIN if the page's
 * value is now being read from memcached, and NGX_DECLINED if no copy on this
 * host may be used.
 */

static ngx_int_t
ngx_mcds_page_read_local(ngx_mcds_read_t *read, ngx_mcds_result_t *result)
{
    ngx_queue_t           *q;
    ngx_mcds_snapshot_t   *snapshot;
    ngx_mcds_page_t       *page;
    ngx_mcds_waiter_t     *waiter;
    ngx_mcds_item_id_t     item_id;
    ngx_mcds_request_t     req;

    page = read->page;

    if (!ngx_mcds_answered(result->rc)) {

        for (q = ngx_queue_head(&read->waiters);
             q != ngx_queue_sentinel(&read->waiters);
             q = ngx_queue_next(q))
        {
            waiter = ngx_queue_data(q, ngx_mcds_waiter_t, queue);
            waiter->silent = 1;
        }

        snapshot = ngx_mcds_page_copy_offline(page);

    } else if (result->rc == NGX_MCDS_OK && !read->whole && result->cas) {

        ngx_mcds_page_item_id(&item_id, result);
        snapshot = ngx_mcds_page_get_copy(page, &item_id);

        if (snapshot) {
            ngx_mcds_page_keep_confirmed(page, read->purges);

        } else {

            /*
             * memcached has another version of the page than the copy on this
             * host
             */

            ngx_mcds_page_request(page, &req, NGX_MCDS_VALUE|NGX_MCDS_CAS
                                              |NGX_MCDS_FLAGS);
            req.bulk = page->big;

            read->whole = 1;

            ngx_mcds_submit(page->pool, &req, &read->op);

            return NGX_AGAIN;
        }

    } else {

        if (result->rc != NGX_MCDS_OK) {
            ngx_mcds_page_drop(page);
        }

        return NGX_DECLINED;
    }

    if (snapshot == NULL) {
        return NGX_DECLINED;
    }

    read->snapshot = ngx_mcds_snapshot_ref(snapshot);

    return NGX_OK;
}


/*
 * Returns 1 if the first parts of the page's body are to be read, too: not if
 * all requests that read the page need no body, or only a later part of it.
 */

static ngx_uint_t
ngx_mcds_page_read_window(ngx_mcds_read_t *read)
{
    ngx_queue_t        *q;
    ngx_mcds_waiter_t  *waiter;

    for (q = ngx_queue_head(&read->waiters);
         q != ngx_queue_sentinel(&read->waiters);
         q = ngx_queue_next(q))
    {
        waiter = ngx_queue_data(q, ngx_mcds_waiter_t, queue);

        if (!waiter->no_body) {
            return 1;
        }
    }

    return 0;
}


static void
ngx_mcds_page_read_opened(void *data, ngx_uint_t rc)
{
    ngx_mcds_read_t *read = data;

    ngx_uint_t  outcome;

    if (ngx_mcds_answered(rc) && rc != NGX_MCDS_OK) {
        ngx_mcds_page_not_used(read->page, "parts are missing");
    }

    outcome = (rc == NGX_MCDS_OK) ? NGX_MCDS_PAGE_FOUND
              : ngx_mcds_answered(rc) ? NGX_MCDS_PAGE_MISSING
              : NGX_MCDS_PAGE_NO_REPLY;

    ngx_mcds_page_read_end(read, outcome);
}


void
ngx_mcds_page_read_end(ngx_mcds_read_t *read, ngx_uint_t outcome)
{
    ngx_queue_t        *q;
    ngx_mcds_waiter_t  *waiter;

    if (outcome == NGX_MCDS_PAGE_FOUND) {
        read->page->used = 1;
    }

    while (!ngx_queue_empty(&read->waiters)) {
        q = ngx_queue_head(&read->waiters);
        waiter = ngx_queue_data(q, ngx_mcds_waiter_t, queue);

        ngx_queue_remove(q);
        waiter->looking = 0;

        waiter->handler(waiter->data, outcome,
                        outcome == NGX_MCDS_PAGE_FOUND ? read->snapshot : NULL);
    }

    ngx_mcds_snapshot_unref(read->snapshot);
    ngx_mcds_page_unref(read->page);
    ngx_free(read);
}


/*
 * Warns once about a memcached that was started with -C: it gives no CAS, so
 * that a changed page cannot be recognized.
 */

static void
ngx_mcds_page_no_cas(ngx_mcds_page_t *page)
{
    static ngx_uint_t  warned;

    if (!warned) {
        warned = 1;
        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                      "memcached gives no CAS in pool \"%V\" (option -C), "
                      "its pages are not used", &page->pool->name);
    }
}

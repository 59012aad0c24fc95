
/*
 * Copyright (C) mcds authors
 *
 * The copies of pages that this worker keeps, and those in the shared memory
 * (mcds_zone) of its host, see ngx_mcds_local.h.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_memfile.h"
#include "ngx_mcds_page_local.h"
#include "ngx_mcds_skew.h"


/*
 * the maximum age of copies of pages in shared memory (mcds_zone), ms: usually
 * a copy is dropped earlier, to make room for another
 */
#define NGX_MCDS_KEPT             (24 * 60 * 60 * 1000)


/*
 * the number of responses after which a worker's copy of a page moves into a
 * file; the move costs a write of the copy
 */
#define NGX_MCDS_FILE_SENT        4


static size_t ngx_mcds_page_weight(ngx_mcds_snapshot_t *snapshot);
static ngx_int_t ngx_mcds_page_keep_copy(ngx_mcds_page_t *page,
    ngx_mcds_snapshot_t *snapshot, ngx_atomic_uint_t purges);
static void ngx_mcds_page_put(ngx_mcds_page_t *page,
    ngx_mcds_snapshot_t *snapshot);
static void ngx_mcds_page_file(ngx_mcds_page_t *page);


/* the copies of pages that this worker keeps in its memory, and their size */

static ngx_queue_t  ngx_mcds_pages_lru;
static size_t       ngx_mcds_pages_kept;


/*
 * returns the bytes by which a copy of a page counts towards the limit of this
 * worker's copies: the length of the copy's value, and a fixed number of bytes
 * for each header line
 */

static size_t
ngx_mcds_page_weight(ngx_mcds_snapshot_t *snapshot)
{
    return snapshot->value->len
           + snapshot->entry.lines * NGX_MCDS_SNAPSHOT_LINE;
}


void
ngx_mcds_page_keep(ngx_mcds_page_t *page, ngx_mcds_snapshot_t *snapshot,
    ngx_atomic_uint_t purges, uint64_t asked)
{
    switch (ngx_mcds_page_keep_copy(page, snapshot, purges)) {

    case NGX_OK:
        ngx_mcds_page_put(page, snapshot);
        break;

    case NGX_DECLINED:
        ngx_mcds_page_drop_all(page, &snapshot->item_id, asked);
        break;

    default: /* NGX_DONE: this worker had the copy before */
        break;
    }
}


void
ngx_mcds_page_drop_all(ngx_mcds_page_t *page, ngx_mcds_item_id_t *item_id,
    uint64_t asked)
{
    ngx_mcds_page_drop(page);

    if (page->local) {
        ngx_mcds_local_forget(ngx_mcds_page_id(page), item_id, asked);
    }
}


/*
 * Keeps a copy of a page in this worker alone.  Returns NGX_DECLINED if no
 * copies are kept of this version of the page, and NGX_DONE if this worker had
 * the copy before.
 */

static ngx_int_t
ngx_mcds_page_keep_copy(ngx_mcds_page_t *page,
    ngx_mcds_snapshot_t *snapshot, ngx_atomic_uint_t purges)
{
    size_t            size;
    ngx_queue_t      *q;
    ngx_mcds_page_t  *last;

    size = ngx_mcds_local_size();

    if (!page->local
        || size == 0
        || ngx_mcds_body_apart(&snapshot->entry)
        || snapshot->entry.kind != NGX_MCDS_ENTRY_PAGE
        || ngx_mcds_page_weight(snapshot) > size / 8)
    {
        ngx_mcds_page_drop(page);
        return NGX_DECLINED;
    }

    page->copy_asked = ngx_mcds_clock(ngx_current_msec);
    page->copy_purges = purges;
    page->copy_unasked = 0;

    if (page->copy == snapshot) {
        return NGX_DONE;
    }

    ngx_mcds_page_drop(page);

    page->copy = ngx_mcds_snapshot_ref(snapshot);
    page->copy_sent = 0;
    ngx_mcds_pages_kept += ngx_mcds_page_weight(snapshot);

    if (ngx_mcds_pages_lru.next == NULL) {
        ngx_queue_init(&ngx_mcds_pages_lru);
    }

    ngx_queue_insert_head(&ngx_mcds_pages_lru, &page->copy_lru);

    while (ngx_mcds_pages_kept > size) {
        q = ngx_queue_last(&ngx_mcds_pages_lru);
        last = ngx_queue_data(q, ngx_mcds_page_t, copy_lru);

        ngx_mcds_page_drop(last);
    }

    return NGX_OK;
}


/*
 * puts a page's copy into shared memory (mcds_zone), for the other workers,
 * unless the page has been purged since memcached was asked for it
 */

static void
ngx_mcds_page_put(ngx_mcds_page_t *page, ngx_mcds_snapshot_t *snapshot)
{
    if (page->copy_purges == ngx_mcds_local_purges(page->place)) {
        (void) ngx_mcds_local_put(ngx_mcds_page_id(page), snapshot->value,
                                  &snapshot->item_id);
    }
}


void
ngx_mcds_page_keep_unasked(ngx_mcds_page_t *page, ngx_mcds_snapshot_t *snapshot)
{
    /*
     * the copy, which came from shared memory (mcds_zone), is not put there
     * again, as its age there would start anew
     */

    (void) ngx_mcds_page_keep_copy(page, snapshot,
                                   ngx_mcds_local_purges(page->place));

    page->copy_unasked = 1;
}


void
ngx_mcds_page_keep_confirmed(ngx_mcds_page_t *page, ngx_atomic_uint_t purges)
{
    uint64_t  now;

    now = ngx_mcds_clock(ngx_current_msec);
    page->copy_purges = purges;

    /*
     * Memcached has just confirmed this worker's copy of the page.  If this is
     * the first time, or the last time was NGX_MCDS_KEPT ms ago or longer, the
     * worker puts the copy into shared memory (mcds_zone) again, where the age
     * of the copy starts anew.
     */

    if (page->copy_unasked || now - page->copy_asked >= NGX_MCDS_KEPT) {
        ngx_mcds_page_put(page, page->copy);
    }

    page->copy_asked = now;
    page->copy_unasked = 0;
}


void
ngx_mcds_page_drop(ngx_mcds_page_t *page)
{
    ngx_mcds_snapshot_t  *snapshot;

    snapshot = page->copy;

    if (snapshot) {
        page->copy = NULL;
        ngx_queue_remove(&page->copy_lru);
        ngx_mcds_pages_kept -= ngx_mcds_page_weight(snapshot);

        ngx_mcds_snapshot_unref(snapshot);
    }
}


ngx_mcds_snapshot_t *
ngx_mcds_page_get_copy(ngx_mcds_page_t *page, ngx_mcds_item_id_t *item_id)
{
    ngx_mcds_snapshot_t  *snapshot;
    ngx_mcds_item_id_t    found;
    ngx_mcds_value_t     *value;

    if (page->copy
        && (item_id == NULL
            || ngx_mcds_item_id_same(&page->copy->item_id, item_id)))
    {
        ngx_queue_remove(&page->copy_lru);
        ngx_queue_insert_head(&ngx_mcds_pages_lru, &page->copy_lru);

        snapshot = page->copy;

        /*
         * if this host's clock was set back since the copy of the page was
         * kept, the copy appears to be from the future: its times are corrected
         */

        if (snapshot->entry.created > ngx_mcds_now() + NGX_MCDS_SKEW_MAX) {
            ngx_mcds_skew_mend(&snapshot->entry, page->pool, ngx_mcds_now(),
                               ngx_cycle->log);
        }

        return snapshot;
    }

    value = ngx_mcds_local_get(ngx_mcds_page_id(page), item_id, NGX_MCDS_KEPT,
                               &found);
    if (value == NULL) {
        return NULL;
    }

    snapshot = ngx_mcds_snapshot_create(page, value, &found);
    ngx_mcds_value_unref(value);

    if (snapshot) {
        ngx_mcds_page_keep_unasked(page, snapshot);
        ngx_mcds_snapshot_unref(snapshot);
    }

    return page->copy;
}


void
ngx_mcds_page_sent(ngx_mcds_snapshot_t *snapshot)
{
    ngx_mcds_page_t  *page;

    page = snapshot->page;

    if (page->copy == snapshot && ++page->copy_sent == NGX_MCDS_FILE_SENT) {
        ngx_mcds_page_file(page);
    }
}


/*
 * Moves this worker's copy of a page into a file, so that sendfile() can send
 * its body.  Requests that already use the copy keep the version in memory.
 */

static void
ngx_mcds_page_file(ngx_mcds_page_t *page)
{
    ngx_mcds_value_t     *value;
    ngx_mcds_snapshot_t  *snapshot;

    value = ngx_mcds_memfile_copy(page->copy->value, ngx_cycle->log);
    if (value == NULL) {
        return;
    }

    snapshot = ngx_mcds_snapshot_create(page, value, &page->copy->item_id);
    ngx_mcds_value_unref(value);

    if (snapshot == NULL) {
        return;
    }

    snapshot->checked = page->copy->checked;

    ngx_mcds_snapshot_unref(page->copy);
    page->copy = snapshot;
}


ngx_mcds_snapshot_t *
ngx_mcds_page_known(ngx_mcds_waiter_t *waiter)
{
    ngx_mcds_page_t  *page;

    page = waiter->page;

    if (waiter->local != NGX_MCDS_LOCAL_TIMED
        || page->copy == NULL
        || (page->copy->entry.flags & NGX_MCDS_ENTRY_VALIDATE)
        || page->copy_unasked
        || page->copy_purges != ngx_mcds_local_purges(page->place)
        || ngx_mcds_clock(ngx_current_msec) - page->copy_asked
           >= waiter->local_time)
    {
        return NULL;
    }

    page->used = 1;

    return ngx_mcds_page_get_copy(page, NULL);
}


ngx_mcds_snapshot_t *
ngx_mcds_page_copy_offline(ngx_mcds_page_t *page)
{
    /*
     * after a purge this worker drops its own copy of the page, and looks for
     * the copy in shared memory (mcds_zone): the purge has removed that copy
     * if the page must not be served any more
     */

    if (page->copy_purges != ngx_mcds_local_purges(page->place)) {
        ngx_mcds_page_drop(page);
    }

    return ngx_mcds_page_get_copy(page, NULL);
}

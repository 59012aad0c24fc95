
/*
 * Copyright (C) mcds authors
 *
 * The copies of pages that this worker keeps, and those in the zone of its
 * host, see ngx_mcds_local.h.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_page_local.h"
#include "ngx_mcds_skew.h"


/* the maximum age of copies in the zone, ms: they last while there is room */
#define NGX_MCDS_KEPT             (24 * 60 * 60 * 1000)


static size_t ngx_mcds_page_weight(ngx_mcds_copy_t *copy);


/* the copies of this worker */

static ngx_queue_t  ngx_mcds_pages_mine;
static size_t       ngx_mcds_pages_kept;


/* the size of a copy, with the memory that is prepared for each header */

static size_t
ngx_mcds_page_weight(ngx_mcds_copy_t *copy)
{
    return copy->value->len + copy->entry.lines * NGX_MCDS_COPY_LINE;
}


void
ngx_mcds_page_keep(ngx_mcds_page_t *page, ngx_mcds_copy_t *copy,
    ngx_atomic_uint_t purges)
{
    size_t            size;
    ngx_queue_t      *q;
    ngx_mcds_page_t  *last;

    size = ngx_mcds_local_size();

    if (!page->local
        || size == 0
        || ngx_mcds_body_apart(&copy->entry)
        || copy->entry.kind != NGX_MCDS_ENTRY_PAGE
        || ngx_mcds_page_weight(copy) > size / 8)
    {
        ngx_mcds_page_drop(page);
        return;
    }

    page->mine_asked = ngx_mcds_clock(ngx_current_msec);
    page->mine_purges = purges;

    if (page->mine == copy) {
        return;
    }

    ngx_mcds_page_drop(page);

    page->mine = ngx_mcds_copy_ref(copy);
    ngx_mcds_pages_kept += ngx_mcds_page_weight(copy);

    if (ngx_mcds_pages_mine.next == NULL) {
        ngx_queue_init(&ngx_mcds_pages_mine);
    }

    ngx_queue_insert_head(&ngx_mcds_pages_mine, &page->mine_lru);

    /*
     * other workers do not get a page that was purged while it was being read
     */

    if (purges == ngx_mcds_local_purges(page->place)) {
        (void) ngx_mcds_local_put(ngx_mcds_page_id(page), copy->value,
                                  &copy->stamp);
    }

    while (ngx_mcds_pages_kept > size) {
        q = ngx_queue_last(&ngx_mcds_pages_mine);
        last = ngx_queue_data(q, ngx_mcds_page_t, mine_lru);

        ngx_mcds_page_drop(last);
    }
}


void
ngx_mcds_page_keep_unasked(ngx_mcds_page_t *page, ngx_mcds_copy_t *copy)
{
    ngx_mcds_page_keep(page, copy, ngx_mcds_local_purges(page->place));

    page->mine_asked = ngx_mcds_clock(ngx_current_msec) - NGX_MCDS_KEPT;
}


void
ngx_mcds_page_drop(ngx_mcds_page_t *page)
{
    ngx_mcds_copy_t  *copy;

    copy = page->mine;

    if (copy) {
        page->mine = NULL;
        ngx_queue_remove(&page->mine_lru);
        ngx_mcds_pages_kept -= ngx_mcds_page_weight(copy);

        ngx_mcds_copy_unref(copy);
    }
}


ngx_mcds_copy_t *
ngx_mcds_page_kept(ngx_mcds_page_t *page, ngx_mcds_stamp_t *stamp)
{
    ngx_mcds_copy_t   *copy;
    ngx_mcds_stamp_t   found;
    ngx_mcds_value_t  *value;

    if (page->mine
        && (stamp == NULL || ngx_mcds_stamp_same(&page->mine->stamp, stamp)))
    {
        ngx_queue_remove(&page->mine_lru);
        ngx_queue_insert_head(&ngx_mcds_pages_mine, &page->mine_lru);

        copy = page->mine;

        /* the clock was set back since the copy was kept */

        if (copy->entry.created > ngx_mcds_now() + NGX_MCDS_SKEW_MAX) {
            ngx_mcds_skew_mend(&copy->entry, page->pool, ngx_mcds_now(),
                               ngx_cycle->log);
        }

        return copy;
    }

    value = ngx_mcds_local_get(ngx_mcds_page_id(page), stamp, NGX_MCDS_KEPT,
                               &found);
    if (value == NULL) {
        return NULL;
    }

    copy = ngx_mcds_copy_create(page, value, &found);
    ngx_mcds_value_unref(value);

    if (copy) {
        ngx_mcds_page_keep_unasked(page, copy);
        ngx_mcds_copy_unref(copy);
    }

    return page->mine;
}


ngx_mcds_copy_t *
ngx_mcds_page_known(ngx_mcds_seat_t *seat)
{
    ngx_mcds_page_t  *page;

    page = seat->page;

    if (seat->local != NGX_MCDS_LOCAL_TIMED
        || page->mine == NULL
        || (page->mine->entry.flags & NGX_MCDS_ENTRY_VALIDATE)
        || page->mine_purges != ngx_mcds_local_purges(page->place)
        || ngx_mcds_clock(ngx_current_msec) - page->mine_asked
           >= seat->local_time)
    {
        return NULL;
    }

    page->used = 1;

    return ngx_mcds_page_kept(page, NULL);
}


ngx_mcds_copy_t *
ngx_mcds_page_unasked(ngx_mcds_page_t *page)
{
    /*
     * after a purge the zone, not this worker, knows whether a copy may be used
     */

    if (page->mine_purges != ngx_mcds_local_purges(page->place)) {
        ngx_mcds_page_drop(page);
    }

    return ngx_mcds_page_kept(page, NULL);
}

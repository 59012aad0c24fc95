
/*
 * Copyright (C) mcds authors
 *
 * The copies of pages that this host keeps in the memory of its workers and in
 * shared memory (mcds_zone).
 */


#ifndef _NGX_MCDS_PAGE_LOCAL_H_INCLUDED_
#define _NGX_MCDS_PAGE_LOCAL_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_page_core.h"


/*
 * the time by which a copy of a page from another worker may appear older than
 * it is, ms
 */
#define NGX_MCDS_LAG              100


/*
 * Keeps a copy of a page in this worker, and puts it into the shared memory
 * zone (mcds_zone).  "purges" is the page's purge counter when memcached was
 * asked for the copied page; if the page was purged since then, the zone does
 * not get the copy.  If no copies are kept of this version of the page, for
 * example because it says that the page was deleted, older copies are dropped,
 * see ngx_mcds_page_drop_all(); "asked" is the time when memcached was asked,
 * or when the store of a built page began, or 0: only the copy in this worker
 * is dropped.
 */

void ngx_mcds_page_keep(ngx_mcds_page_t *page, ngx_mcds_snapshot_t *snapshot,
    ngx_atomic_uint_t purges, uint64_t asked);


/*
 * Drops the copies of a page in this worker and in the shared memory zone
 * (mcds_zone), as memcached has another version of the page, the one with the
 * id item_id; if its CAS is 0, this worker has built another version, which
 * memcached could not store.  A copy that the zone got at the time "asked",
 * when memcached was asked or the store of the built page began, or later,
 * stays.
 */

void ngx_mcds_page_drop_all(ngx_mcds_page_t *page, ngx_mcds_item_id_t *item_id,
    uint64_t asked);


/*
 * Keeps a copy of a page that may be outdated: until memcached has confirmed
 * the copy, it is served only while memcached does not answer.
 */

void ngx_mcds_page_keep_unasked(ngx_mcds_page_t *page,
    ngx_mcds_snapshot_t *snapshot);


/*
 * Notes that memcached has confirmed the copy of a page that this worker keeps;
 * "purges" is the page's purge counter when memcached was asked.
 */

void ngx_mcds_page_keep_confirmed(ngx_mcds_page_t *page,
    ngx_atomic_uint_t purges);


/* Drops the copy of a page that this worker keeps, if there is one. */

void ngx_mcds_page_drop(ngx_mcds_page_t *page);


/*
 * Returns the copy of a page that was made from the memcached item with the id
 * item_id, or from any item if item_id is NULL.  The copy is in this worker's
 * memory or in the shared memory zone (mcds_zone); NULL: there is no such copy.
 * Adds no reference.
 */

ngx_mcds_snapshot_t *ngx_mcds_page_get_copy(ngx_mcds_page_t *page,
    ngx_mcds_item_id_t *item_id);


/*
 * Returns the copy of a page to use while memcached does not answer, or NULL.
 * Adds no reference.
 */

ngx_mcds_snapshot_t *ngx_mcds_page_copy_offline(ngx_mcds_page_t *page);


#endif /* _NGX_MCDS_PAGE_LOCAL_H_INCLUDED_ */

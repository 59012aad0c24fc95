
/*
 * Copyright (C) mcds authors
 *
 * Snapshots of pages: the pages in this worker's memory as they were read or
 * built, shared by all requests that use them.
 */


#ifndef _NGX_MCDS_SNAPSHOT_H_INCLUDED_
#define _NGX_MCDS_SNAPSHOT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_client.h"
#include "ngx_mcds_entry.h"
#include "ngx_mcds_local.h"


typedef struct ngx_mcds_page_s  ngx_mcds_page_t;
typedef struct ngx_mcds_snapshot_s  ngx_mcds_snapshot_t;


/*
 * the bytes that are counted for each header line of a snapshot (a page in this
 * worker's memory), in addition to the length of the page's value
 */
#define NGX_MCDS_SNAPSHOT_LINE 64


/*
 * A snapshot of a page: the page in this worker's memory, as it was read or
 * built. The strings of entry point into value.  A body outside of the entry
 * is read with ngx_mcds_body_open().
 */

struct ngx_mcds_snapshot_s {
    ngx_uint_t            refs;
    ngx_mcds_page_t      *page;        /* the page of the snapshot, referenced;
                                          NULL in page->list, the list of
                                          headers that the page varies by */
    ngx_mcds_value_t     *value;
    ngx_mcds_entry_t      entry;
    ngx_mcds_item_id_t    item_id;
    void                 *checked;     /* the keys of mcds_cache_hmac_key, one
                                          of which has signed this snapshot of a
                                          page; NULL: not checked */
    void                 *prepared;    /* memory in which users of this
                                          snapshot of a page keep data, or
                                          NULL; freed with the snapshot */
    void                 *kept;        /* parts of the page's body in memory,
                                          or NULL */
    /* frees the parts of the page's body in "kept" */
    void                (*unkeep)(void *kept);
    ngx_mcds_snapshot_t  *first;       /* if this snapshot is a list of headers
                                          that a page varies by: the variant
                                          whose build made the list, or NULL */
};


/* Adds a reference of a page's snapshot, and returns the snapshot. */

ngx_mcds_snapshot_t *ngx_mcds_snapshot_ref(ngx_mcds_snapshot_t *snapshot);


/*
 * Drops a reference of a page's snapshot; the last one frees the snapshot.
 * NULL is allowed.
 */

void ngx_mcds_snapshot_unref(ngx_mcds_snapshot_t *snapshot);


/*
 * Returns NGX_OK if one of secrets, the keys of mcds_cache_hmac_key, has signed
 * the page in the snapshot, if secrets is NULL, or for a purge mark without a
 * page, which has no signature.  Otherwise returns NGX_DECLINED; then only the
 * CAS of the snapshot may be used.
 */

ngx_int_t ngx_mcds_snapshot_signed(ngx_mcds_snapshot_t *snapshot,
    ngx_array_t *secrets);


/*
 * Returns NGX_OK if ngx_mcds_snapshot_signed() accepts a page's snapshot for
 * any request in the queue "waiters", with this request's secrets.  Otherwise
 * returns NGX_DECLINED: none of these requests can use the page, so the caller
 * need not ask memcached for the parts of the page's body.
 */

ngx_int_t ngx_mcds_page_signed(ngx_mcds_snapshot_t *snapshot,
    ngx_queue_t *waiters);


/*
 * Creates a snapshot of a page from its value, with one reference, and takes a
 * reference of the value.  item_id is the id of the page's item in memcached,
 * or NULL if unknown.  Returns NULL, and logs this, if the value is not a valid
 * entry of the page, or is one that this worker cannot use; also returns NULL
 * if out of memory.
 */

ngx_mcds_snapshot_t *ngx_mcds_snapshot_create(ngx_mcds_page_t *page,
    ngx_mcds_value_t *value, ngx_mcds_item_id_t *item_id);


/*
 * Creates a snapshot of a page from the item that a memcached command has
 * returned.  Returns NULL if the value is not a valid entry, or if out of
 * memory.
 */

ngx_mcds_snapshot_t *ngx_mcds_snapshot_result(ngx_mcds_page_t *page,
    ngx_mcds_result_t *result);


/*
 * Removes from memcached a page whose body is lost or damaged.  The page is
 * deleted only if memcached still has the version in snapshot; the parts of its
 * body expire after a minute.
 */

void ngx_mcds_snapshot_remove(ngx_mcds_snapshot_t *snapshot);


/*
 * Sets *item_id to the id of the item that a memcached command has returned.
 */

void ngx_mcds_page_item_id(ngx_mcds_item_id_t *item_id,
    ngx_mcds_result_t *result);


/*
 * Notes in ngx_mcds_page_t the list of headers that the page varies by, or the
 * parts of the page's body, whichever memcached has now according to the
 * snapshot.  A snapshot without a CAS has no effect.
 */

void ngx_mcds_page_saw(ngx_mcds_page_t *page, ngx_mcds_snapshot_t *snapshot);


/*
 * Remembers the list of headers that a page varies by.  A list without a CAS
 * comes from a build during which memcached did not answer; such a list is used
 * until memcached answers.
 */

void ngx_mcds_page_remember(ngx_mcds_page_t *page,
    ngx_mcds_snapshot_t *snapshot);


/* Forgets the list of headers that a page varies by, if there is one. */

void ngx_mcds_page_forget_list(ngx_mcds_page_t *page);


/*
 * Notes that memcached has just confirmed the list of headers that a page
 * varies by; "purges" is the page's purge counter when memcached was asked.
 */

void ngx_mcds_page_confirmed(ngx_mcds_page_t *page, ngx_atomic_uint_t purges);


#endif /* _NGX_MCDS_SNAPSHOT_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * Ends the build of a page, and stores the page in memcached; also stores a
 * page for a request that is not the page's builder.
 */


#ifndef _NGX_MCDS_PAGE_BUILT_H_INCLUDED_
#define _NGX_MCDS_PAGE_BUILT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_page.h"
#include "ngx_mcds_split.h"
#include "ngx_mcds_stat_sums.h"


/*
 * How the build of a page ended:
 *
 * STORE     the entry is stored by ngx_mcds_page_store()
 * RENEW     as STORE, but the body is that of the page that the entry replaces
 * PASS      the page is not cacheable; the entry is a hit-for-miss mark
 * BACKOFF   the origin has failed: no request builds the page for a while
 * FAILED    the build has no result, as when the client closed the connection:
 *           the next waiter builds the page
 */

#define ngx_mcds_build(name, word)  NGX_MCDS_BUILD_##name,

typedef enum {
    NGX_MCDS_BUILD_LIST(ngx_mcds_build)
    NGX_MCDS_BUILD_LAST
} ngx_mcds_build_e;


/*
 * Returns the id of a request's build of a page, which the caller writes into
 * the page's entry; 0: the request does not build.  By this id the requests
 * that wait for the build, on any host, recognize the built page: memcached may
 * show another version, such as an old one on a server that was down.
 */

uint64_t ngx_mcds_page_build_id(ngx_mcds_waiter_t *waiter);


/*
 * Returns the maximum length, in bytes, of a page in one item of the memcached
 * servers that the waiter (a request) uses: about 1 MB, or less after this
 * worker has seen a server refuse a page.
 */

size_t ngx_mcds_page_item(ngx_mcds_waiter_t *waiter);


/*
 * Creates ngx_mcds_split_t, which stores the body of a page in parts, for a
 * page that is too long for one item.  Returns NULL if the servers accept no
 * parts, or if out of memory.
 */

ngx_mcds_split_t *ngx_mcds_page_split(ngx_mcds_waiter_t *waiter);


/*
 * Ends a request's build of a page without a page to store.  With
 * NGX_MCDS_BUILD_PASS, value is a hit-for-miss entry, which says that the page
 * is not cacheable; the entry's reference is taken over, and ttl is its time to
 * live in memcached, in seconds.  With NGX_MCDS_BUILD_FAILED and
 * NGX_MCDS_BUILD_BACKOFF value is NULL.
 */

void ngx_mcds_page_abandon(ngx_mcds_waiter_t *waiter, ngx_uint_t how,
    ngx_mcds_value_t *value, uint32_t ttl);


/*
 * The handler that is called once when the store of a page has ended, even if
 * it failed, maybe from inside of ngx_mcds_page_store().  rc is NGX_MCDS_OK if
 * memcached has stored the page, otherwise an error, such as NGX_MCDS_EXISTS;
 * snapshot is the page that was to be stored, or NULL.
 */

typedef void (*ngx_mcds_stored_pt)(void *data, ngx_uint_t rc,
    ngx_mcds_snapshot_t *snapshot);


/*
 * A page, or a list of headers that a page varies by, that is to be stored.
 * Unused fields are zero.
 *
 * value is the finished entry; its reference is taken over.  With split, entry
 * describes everything but the body, value comes from ngx_mcds_entry_begin()
 * and is not finished, and split has the whole body and is taken over, too.
 *
 * cas is used if the request does not build the page: the entry is stored only
 * if the page's item still has this CAS or, if cas is 0, if there is no item.
 * With replace the entry also replaces an old page that was not purged, and
 * whose time of creation is before the new page's request to the origin.
 */

typedef struct {
    ngx_mcds_value_t       *value;
    ngx_mcds_entry_t       *entry;     /* the page's entry, only with split */
    ngx_mcds_split_t       *split;     /* the page's body in parts, or NULL */
    ngx_mcds_snapshot_t    *first;     /* if value is a list of headers that the
                                          page varies by: the variant whose
                                          build made this list, or NULL */
    uint64_t                cas;
    uint32_t                ttl;       /* the page's time to live in memcached,
                                          seconds; 0: no expiry */
    ngx_mcds_stored_pt      handler;   /* called when the store of the page has
                                          ended, even if it failed, or NULL */
    void                   *data;

    unsigned                renewed:1; /* the built page has the body of the
                                          page that it replaces; ignored if the
                                          request that stores the page is not
                                          the one that has built it */
    unsigned                replace:1;
} ngx_mcds_storing_t;


/*
 * Stores a page in memcached, and ends the build of the page if the waiter (a
 * request) builds it.  A built page is stored, unless meanwhile another page
 * was stored or the old page was deleted, and unless memcached is known to
 * refuse its length.  The requests that wait for the page in this worker get it
 * before memcached has replied; if the page's body is split, they get the page
 * when the parts are stored.  Returns NGX_ERROR if out of memory: the build has
 * failed, and the handler is not called.
 */

ngx_int_t ngx_mcds_page_store(ngx_mcds_waiter_t *waiter,
    ngx_mcds_storing_t *storing);


/*
 * Creates a snapshot (the page in memory) from the finished entry of a page,
 * for the request that has built or revalidated the page.  Returns NULL if the
 * value is not a valid entry, or if out of memory.
 */

ngx_mcds_snapshot_t *ngx_mcds_page_snapshot(ngx_mcds_waiter_t *waiter,
    ngx_mcds_value_t *value);


#endif /* _NGX_MCDS_PAGE_BUILT_H_INCLUDED_ */

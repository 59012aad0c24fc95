
/*
 * Copyright (C) mcds authors
 *
 * Purging a page, for all hosts at once.  When the handler of the purge is
 * called, the workers of this host no longer serve their copies of the page
 * without asking memcached.
 *
 * The item of the page is not just deleted: another item, with another CAS,
 * takes its place, so that a build that began before the purge cannot store its
 * page, see ngx_mcds_page_store.c.
 */


#ifndef _NGX_MCDS_PURGE_H_INCLUDED_
#define _NGX_MCDS_PURGE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_body_cut.h"
#include "ngx_mcds_client.h"
#include "ngx_mcds_entry.h"


typedef enum {
    /*
     * NGX_MCDS_PURGE_INVALIDATE: the page gets the time of the purge as its
     * expiry, less a second for other hosts' clocks; it may be served stale
     * during a build; of a page that varies, all variants expire; a page being
     * built is stored as expired
     */
    NGX_MCDS_PURGE_INVALIDATE = 0,
    NGX_MCDS_PURGE_DELETE,          /* a tombstone replaces the page */
    NGX_MCDS_PURGE_RETIRE           /* the page makes room for other pages:
                                       it expires in some seconds, in which
                                       requests that have waited for the page
                                       may read it */
} ngx_mcds_purge_e;


/* the kind of item that a purge has found in memcached under the page's key */

typedef enum {
    NGX_MCDS_PURGED_NOTHING = 0,
    NGX_MCDS_PURGED_PAGE,
    NGX_MCDS_PURGED_LIST            /* the list of headers that a page varies
                                       by */
} ngx_mcds_purged_e;


/*
 * The handler of a purge of a page, called once.  rc is NGX_MCDS_OK, or the
 * reason why the purge has failed, or may have failed.  On replicas rc is the
 * worst of their results, and all servers that can be reached have done the
 * purge.  rc is also NGX_MCDS_DOWN if the page's own server is ejected, and
 * only its stand-in has done the purge, see ngx_mcds_ejected().  found is the
 * kind of item that was purged, ngx_mcds_purged_e; cas is that of the item
 * which the purge has written.  left are the parts of the body of a page that
 * the purge has only marked: they stay until another version of the page
 * replaces it; left->parts is 0 if there are none.
 */

typedef void (*ngx_mcds_purge_pt)(void *data, ngx_uint_t rc, ngx_uint_t found,
    uint64_t cas, ngx_mcds_cut_t *left);


/*
 * Purges the page of a key.  The key is any text, and is copied; how is
 * ngx_mcds_purge_e; now is in milliseconds since the epoch.  With secrets, the
 * keys of mcds_cache_hmac_key, a page that none of them has signed is replaced
 * like an item that is not a page, and the parts of its body are left alone;
 * secrets may be NULL.  Returns NGX_ERROR, and calls no handler, if out of
 * memory.
 */

ngx_int_t ngx_mcds_purge_key(ngx_mcds_pool_t *pool, ngx_str_t *key,
    ngx_uint_t how, uint64_t now, ngx_array_t *secrets,
    ngx_mcds_purge_pt handler, void *data);


/*
 * the limits of a worker for repeating failed purges: the time for which one
 * purge is repeated, ms; the number of purges; and the bytes of all their keys
 */

#define NGX_MCDS_PURGE_PATIENCE   600000
#define NGX_MCDS_PURGE_LATE       4096
#define NGX_MCDS_PURGE_LATE_SIZE  (1024 * 1024)


/*
 * Purges a page for a client that will not repeat its request.  The handler is
 * called after the first attempt.  A purge that has failed, or may have
 * failed, is repeated when all servers of the key are up, at increasing
 * intervals, for NGX_MCDS_PURGE_PATIENCE ms; then a page that was stored
 * meanwhile is purged, too.  If NGX_MCDS_PURGE_LATE failed purges of this
 * worker are already to be repeated, or their keys have too many bytes, a
 * further failed purge is logged and not repeated.  Parameters and result are
 * as with ngx_mcds_purge_key().
 */

ngx_int_t ngx_mcds_purge_surely(ngx_mcds_pool_t *pool, ngx_str_t *key,
    ngx_uint_t how, uint64_t now, ngx_array_t *secrets,
    ngx_mcds_purge_pt handler, void *data);


#endif /* _NGX_MCDS_PURGE_H_INCLUDED_ */

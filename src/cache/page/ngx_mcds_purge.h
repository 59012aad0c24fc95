
/*
 * Copyright (C) mcds authors
 *
 * Purging a page, for all hosts at once; workers of this host do not use their
 * copies of it unasked when the handler is called.
 *
 * What is under the key is never just removed: it becomes another item, with
 * another CAS, so that a build which has begun before cannot store what it
 * gets, see ngx_mcds_page_store.c.
 */


#ifndef _NGX_MCDS_PURGE_H_INCLUDED_
#define _NGX_MCDS_PURGE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_client.h"
#include "ngx_mcds_entry.h"


/* clocks of hosts differ by less, ms */
#define NGX_MCDS_PURGE_SKEW       1000


typedef enum {
    NGX_MCDS_PURGE_INVALIDATE = 0,  /* it is expired since a second, the
                                       tolerance for other hosts' clocks; as
                                       old pages are, it may be shown while
                                       another is built; of a page that varies
                                       all variants are; what was being built
                                       is stored as one that has expired */
    NGX_MCDS_PURGE_DELETE,          /* it is not there any more */
    NGX_MCDS_PURGE_RETIRE           /* it makes room for others: it is gone in
                                       some seconds, in which those that have
                                       waited for it may read it */
} ngx_mcds_purge_e;


/*
 * Called once.  rc: NGX_MCDS_OK, or why it is not done or not known to be; on
 * replicas the worst of theirs, and all that can be reached have done it.
 * NGX_MCDS_DOWN also where another server stands in for the one that the page
 * belongs to, see ngx_mcds_ejected(), and that one alone has done it.
 * found: ngx_mcds_purged_e, what there was.  cas: of what is there now.
 */

typedef enum {
    NGX_MCDS_PURGED_NOTHING = 0,
    NGX_MCDS_PURGED_PAGE,
    NGX_MCDS_PURGED_LIST            /* of a page that varies */
} ngx_mcds_purged_e;

typedef void (*ngx_mcds_purge_pt)(void *data, ngx_uint_t rc, ngx_uint_t found,
    uint64_t cas);


/*
 * The key is any text and copied.  now: milliseconds since the epoch.  secrets:
 * see ngx_mcds_sign.h, or NULL; a page that none of them has signed is replaced
 * then, as anything that is no page, and its parts are left alone.  NGX_ERROR:
 * out of memory, the handler is not called.
 */

ngx_int_t ngx_mcds_purge_key(ngx_mcds_pool_t *pool, ngx_str_t *key,
    ngx_uint_t how, uint64_t now, ngx_array_t *secrets,
    ngx_mcds_purge_pt handler, void *data);


/*
 * The same, for a client that will not ask again: what is not done, or not
 * known to be, is tried again when all servers of the key are up, less and
 * less often, for NGX_MCDS_PURGE_PATIENCE.  The handler is called after the
 * first time.  A page that was stored meanwhile is purged, too.  The worker
 * keeps so many of them, and so many bytes of their keys; what is more, or
 * lasts longer, is logged.
 */

#define NGX_MCDS_PURGE_PATIENCE   600000        /* ms */
#define NGX_MCDS_PURGE_LATE       4096
#define NGX_MCDS_PURGE_LATE_SIZE  (1024 * 1024)

ngx_int_t ngx_mcds_purge_surely(ngx_mcds_pool_t *pool, ngx_str_t *key,
    ngx_uint_t how, uint64_t now, ngx_array_t *secrets,
    ngx_mcds_purge_pt handler, void *data);


#endif /* _NGX_MCDS_PURGE_H_INCLUDED_ */

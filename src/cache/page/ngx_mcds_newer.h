
/*
 * Copyright (C) mcds authors
 *
 * Finds out which of two memcached items of a page is the newer one.  A server
 * that was down may have an old item, since it has missed the changes.
 */


#ifndef _NGX_MCDS_NEWER_H_INCLUDED_
#define _NGX_MCDS_NEWER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_client.h"
#include "ngx_mcds_entry.h"


/*
 * Compares the items that two memcached servers (replicas) have under one key;
 * for the field "newer" of ngx_mcds_request_t.  Returns 1 if item b is newer
 * than item a: if its page was requested from the origin later or, for an item
 * that says that a page was purged, if the purge was later.  An invalid item
 * counts as the older one.  a comes from the first server, which gets each
 * change before the other servers; if the times do not differ, returns 0.
 */

ngx_uint_t ngx_mcds_newer(ngx_str_t *key, ngx_mcds_result_t *a,
    ngx_mcds_result_t *b);


/*
 * Returns the time, in milliseconds, to write into the mark of a purge, the
 * item that says that a page was purged, so that the mark is newer than the
 * entry of the purged page: now, or later if the clock of the host that wrote
 * the entry is ahead.
 */

uint64_t ngx_mcds_newer_after(ngx_mcds_entry_t *entry, uint64_t now);


#endif /* _NGX_MCDS_NEWER_H_INCLUDED_ */

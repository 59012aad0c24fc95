
/*
 * Copyright (C) mcds authors
 *
 * Which of two items under the key of a page is the newer one.  One of them may
 * be what a server has that was away, and has missed what came since.
 */


#ifndef _NGX_MCDS_NEWER_H_INCLUDED_
#define _NGX_MCDS_NEWER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_client.h"
#include "ngx_mcds_entry.h"


/*
 * For newer of ngx_mcds_request_t: 1 if b is to be taken, and not a.  What no
 * entry can be read from is the older one.
 *
 * A page is as old as the request that its origin was asked by, a purge as its
 * command.  a is that of the first server, which takes a change before the
 * others do, so that it stays where the times say nothing.
 */

ngx_uint_t ngx_mcds_newer(ngx_str_t *key, ngx_mcds_result_t *a,
    ngx_mcds_result_t *b);


/*
 * now, or later if the entry is of a clock that is ahead; ms: a purge of that
 * time is newer than the entry.
 */

uint64_t ngx_mcds_newer_after(ngx_mcds_entry_t *entry, uint64_t now);


#endif /* _NGX_MCDS_NEWER_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * Stamps of a host whose clock is ahead of this one's.
 */


#ifndef _NGX_MCDS_SKEW_H_INCLUDED_
#define _NGX_MCDS_SKEW_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_entry.h"


/* up to which a page just lives longer or shorter by the difference; ms */
#define NGX_MCDS_SKEW_MAX  5000


/*
 * What memcached has, before it is judged at now_ms.  The age of a page that
 * was created further in the future than NGX_MCDS_SKEW_MAX is not known, and
 * without more it would be fresh until that time has come, be it in a year.  If
 * this worker has seen another page under the key before, the page was made
 * later than that, and lives from then on as long as its writer meant.  If not,
 * the page expires now; the worker has then seen it, and knows the age of the
 * next one.  A mark from the future lives as long as its writer meant from when
 * it is seen first.  A purge that is still to come was now.  Changes the stamps
 * of the entry, not the value.  Before the first page from the future nothing
 * is remembered.  Says at most once a minute that clocks differ, and for how
 * many pages.
 *
 * Place is any address that stands for the pool: pages of one key in several
 * pools say nothing of each other.
 */

void ngx_mcds_skew_mend(ngx_mcds_entry_t *entry, void *place, uint64_t now_ms,
    ngx_log_t *log);


#endif /* _NGX_MCDS_SKEW_H_INCLUDED_ */

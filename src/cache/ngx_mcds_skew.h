
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
 * What was read from memcached, before it is judged at now_ms.  A page, or a
 * mark, that was created further in the future than NGX_MCDS_SKEW_MAX lives as
 * long as its writer meant, but from when this worker has seen it first: else
 * it would be fresh until that time has come, be it in a year.  A purge that
 * is still to come was now.  Changes the stamps of the entry, not the value.
 * Says at most once a minute that clocks differ, and for how many pages.
 */

void ngx_mcds_skew_mend(ngx_mcds_entry_t *entry, uint64_t now_ms,
    ngx_log_t *log);


#endif /* _NGX_MCDS_SKEW_H_INCLUDED_ */

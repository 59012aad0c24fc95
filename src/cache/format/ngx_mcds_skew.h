
/*
 * Copyright (C) mcds authors
 *
 * Corrects the times of pages that a host with a fast clock has written.
 */


#ifndef _NGX_MCDS_SKEW_H_INCLUDED_
#define _NGX_MCDS_SKEW_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_entry.h"


/*
 * the maximum difference between the clocks of two hosts that is tolerated:
 * pages live longer or shorter by it; ms
 */
#define NGX_MCDS_SKEW_MAX  5000

/* the maximum difference of the clocks of two hosts that is expected, ms */
#define NGX_MCDS_SKEW      1000


/*
 * Corrects the times in the parsed fields of a page's entry, but not in the
 * entry's bytes, before the caller compares them with now_ms, the present time.
 *
 * The age of a page that was created more than NGX_MCDS_SKEW_MAX in the future
 * is unknown; without a correction the page would be fresh until that time
 * comes, perhaps for a year.  If this worker has seen another page under the
 * key before, the new page is younger than that moment, and lives from then on
 * as long as its writer intended.  Otherwise the page expires now, and the
 * worker remembers it, so that the age of the next page is known.  The entry of
 * a page that is not cacheable (hit-for-miss) lives from the moment when the
 * worker first sees it.  A purge in the future counts as a purge now.
 *
 * The worker remembers no pages until it has seen a first one that was created
 * in the future.  The log gets a warning at most once a minute, with the number
 * of pages that were created in the future.
 *
 * place is any address that identifies the pool: pages with the same key in
 * different pools are unrelated.
 */

void ngx_mcds_skew_mend(ngx_mcds_entry_t *entry, void *place, uint64_t now_ms,
    ngx_log_t *log);


#endif /* _NGX_MCDS_SKEW_H_INCLUDED_ */

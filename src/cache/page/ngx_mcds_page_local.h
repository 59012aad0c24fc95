
/*
 * Copyright (C) mcds authors
 *
 * Copies of pages that this host keeps.
 */


#ifndef _NGX_MCDS_PAGE_LOCAL_H_INCLUDED_
#define _NGX_MCDS_PAGE_LOCAL_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_page_core.h"


/* copies of other workers may look so much older than they are, ms */
#define NGX_MCDS_LAG              100


/*
 * Copies of this host.  keep: this one, which is the right one now, unless the
 * page was purged since its number of purges was this one; keep_unasked: this
 * one, which may be the right one; drop: of this worker.  kept: that of the
 * worker or of the host, of this stamp, or of any if it is NULL; NULL if there
 * is none; the page's reference.  unasked: that to use when memcached does not
 * answer.
 */

void ngx_mcds_page_keep(ngx_mcds_page_t *page, ngx_mcds_copy_t *copy,
    ngx_atomic_uint_t purges);
void ngx_mcds_page_keep_unasked(ngx_mcds_page_t *page, ngx_mcds_copy_t *copy);
void ngx_mcds_page_drop(ngx_mcds_page_t *page);
ngx_mcds_copy_t *ngx_mcds_page_kept(ngx_mcds_page_t *page,
    ngx_mcds_stamp_t *stamp);
ngx_mcds_copy_t *ngx_mcds_page_unasked(ngx_mcds_page_t *page);


#endif /* _NGX_MCDS_PAGE_LOCAL_H_INCLUDED_ */

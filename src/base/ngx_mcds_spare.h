
/*
 * Copyright (C) mcds authors
 *
 * The memory of values that are not used any longer.  A worker keeps it for the
 * next values: the allocator would return it to the system, which zeroes each
 * page that a value touches again.
 *
 * Bounds.  A worker keeps memory of 1 KB to 2 MB a piece, and
 * NGX_MCDS_SPARE_SIZE bytes at most; it frees whatever exceeds that.  It also
 * frees memory that it has not used for NGX_MCDS_SPARE_AGE, so that a burst
 * leaves nothing.
 *
 * A worker keeps nothing by default, and nothing in builds that have an
 * allocation for each object of a pool (NGX_DEBUG_PALLOC) or under
 * MALLOC_PERTURB_: there, the use of freed memory is to be seen.
 */


#ifndef _NGX_MCDS_SPARE_H_INCLUDED_
#define _NGX_MCDS_SPARE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* bytes that a worker keeps at most */
#define NGX_MCDS_SPARE_SIZE       (8 * 1024 * 1024)

/* milliseconds after which it frees those that it has not used */
#define NGX_MCDS_SPARE_AGE        1000


/* sets the bound, before there is a value; later calls do nothing */

void ngx_mcds_spare_init(size_t max);


/*
 * As ngx_alloc() and ngx_free().  size: of "free", the one that the memory was
 * allocated with.
 */

void *ngx_mcds_spare_alloc(size_t size, ngx_log_t *log);
void ngx_mcds_spare_free(void *p, size_t size);


/*
 * Frees what was not used for NGX_MCDS_SPARE_AGE, returns the bytes that are
 * left.  To be called as long as there are any, once ngx_mcds_stat_wake() was.
 */

size_t ngx_mcds_spare_age(void);


#endif /* _NGX_MCDS_SPARE_H_INCLUDED_ */

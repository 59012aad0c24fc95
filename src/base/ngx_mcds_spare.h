
/*
 * Copyright (C) mcds authors
 *
 * The freed memory of values.  A worker keeps this memory for later values: the
 * allocator would return it to the system, which zeroes each page that a value
 * touches again.
 *
 * Bounds.  A worker keeps memory of 1 KB to 2 MB a piece, and
 * NGX_MCDS_SPARE_SIZE bytes at most; it frees whatever exceeds that.  It also
 * frees memory that it has not used for NGX_MCDS_SPARE_AGE, so that a burst
 * leaves nothing.
 *
 * Until ngx_mcds_spare_init() is called, a worker keeps nothing.  The module
 * lets it keep nothing in a build with NGX_DEBUG_PALLOC (an allocation for each
 * object of a pool) or if the environment has MALLOC_PERTURB_: both serve to
 * find uses of freed memory.
 */


#ifndef _NGX_MCDS_SPARE_H_INCLUDED_
#define _NGX_MCDS_SPARE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* the bytes of freed memory that a worker keeps at most for later values */
#define NGX_MCDS_SPARE_SIZE       (8 * 1024 * 1024)

/*
 * the milliseconds after which a worker frees memory that it has kept for later
 * values without using it
 */
#define NGX_MCDS_SPARE_AGE        1000


/*
 * Sets the bound of the freed memory that a worker keeps, in bytes, before the
 * first value is allocated; later calls do nothing.
 */

void ngx_mcds_spare_init(size_t max);


/*
 * Allocate and free the memory of a value, as ngx_alloc() and ngx_free() do.
 * ngx_mcds_spare_free() gets the size that the memory was allocated with.
 */

void *ngx_mcds_spare_alloc(size_t size, ngx_log_t *log);
void ngx_mcds_spare_free(void *p, size_t size);


/*
 * Frees the memory that the worker keeps for later values but has not used for
 * NGX_MCDS_SPARE_AGE, and returns the number of bytes that it still keeps.  A
 * timer, which ngx_mcds_stat_wake() starts, calls this function periodically
 * until it returns 0.
 */

size_t ngx_mcds_spare_age(void);


#endif /* _NGX_MCDS_SPARE_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_spare.h"
#include "ngx_mcds_stat.h"


/*
 * The freed memory of values is kept by classes of sizes, eight for each power
 * of two, so that a class wastes an eighth at most.
 */

#define NGX_MCDS_SPARE_MIN_SHIFT  7
#define NGX_MCDS_SPARE_SHIFTS     11
#define NGX_MCDS_SPARE_CLASSES    (8 * NGX_MCDS_SPARE_SHIFTS)

#define NGX_MCDS_SPARE_MIN        ((size_t) 8 << NGX_MCDS_SPARE_MIN_SHIFT)
#define NGX_MCDS_SPARE_MAX        (NGX_MCDS_SPARE_MIN << NGX_MCDS_SPARE_SHIFTS)


/* the header of each piece of freed memory that is kept for later values */

typedef struct {
    ngx_queue_t   queue;
    ngx_msec_t    freed;
} ngx_mcds_spare_t;


static ngx_uint_t ngx_mcds_spare_class(size_t size, size_t *room);


static size_t       ngx_mcds_spare_max;

/*
 * the freed memory that this worker keeps, by class of size; the piece that was
 * freed last is the first of its class
 */

static ngx_queue_t  ngx_mcds_spares[NGX_MCDS_SPARE_CLASSES];
static size_t       ngx_mcds_spare_kept;


void
ngx_mcds_spare_init(size_t max)
{
    ngx_uint_t         i;
    static ngx_uint_t  done;

    /*
     * Only the first call of this function sets the bound of the freed memory
     * that a worker keeps.  While the bound is 0, a value's memory has just the
     * requested size, and is not rounded up to the size of its class.  If a
     * second call set a larger bound, the worker would keep this memory when it
     * is freed, and use it for a later value that needs the full size.
     */

    if (done) {
        return;
    }

    done = 1;

    for (i = 0; i < NGX_MCDS_SPARE_CLASSES; i++) {
        ngx_queue_init(&ngx_mcds_spares[i]);
    }

    ngx_mcds_spare_max = max;
}


void *
ngx_mcds_spare_alloc(size_t size, ngx_log_t *log)
{
    size_t        room;
    ngx_uint_t    n;
    ngx_queue_t  *q;

    if (ngx_mcds_spare_max == 0
        || size <= NGX_MCDS_SPARE_MIN
        || size > NGX_MCDS_SPARE_MAX)
    {
        return ngx_alloc(size, log);
    }

    n = ngx_mcds_spare_class(size, &room);

    if (ngx_queue_empty(&ngx_mcds_spares[n])) {
        return ngx_alloc(room, log);
    }

    q = ngx_queue_head(&ngx_mcds_spares[n]);
    ngx_queue_remove(q);

    ngx_mcds_spare_kept -= room;

    return ngx_queue_data(q, ngx_mcds_spare_t, queue);
}


void
ngx_mcds_spare_free(void *p, size_t size)
{
    size_t             room;
    ngx_uint_t         n;
    ngx_mcds_spare_t  *spare;

    if (ngx_mcds_spare_max == 0
        || size <= NGX_MCDS_SPARE_MIN
        || size > NGX_MCDS_SPARE_MAX)
    {
        ngx_free(p);
        return;
    }

    n = ngx_mcds_spare_class(size, &room);

    if (room > ngx_mcds_spare_max
        || ngx_mcds_spare_kept > ngx_mcds_spare_max - room)
    {
        ngx_free(p);
        return;
    }

    if (ngx_mcds_spare_kept == 0 && ngx_mcds_stat_wake) {
        ngx_mcds_stat_wake();
    }

    spare = p;
    spare->freed = ngx_current_msec;

    ngx_queue_insert_head(&ngx_mcds_spares[n], &spare->queue);

    ngx_mcds_spare_kept += room;
}


size_t
ngx_mcds_spare_age(void)
{
    size_t             room;
    ngx_uint_t         i;
    ngx_queue_t       *q;
    ngx_mcds_spare_t  *spare;

    for (i = 0; ngx_mcds_spare_kept && i < NGX_MCDS_SPARE_CLASSES; i++) {

        room = (9 + i % 8) << (NGX_MCDS_SPARE_MIN_SHIFT + i / 8);

        while (!ngx_queue_empty(&ngx_mcds_spares[i])) {
            q = ngx_queue_last(&ngx_mcds_spares[i]);
            spare = ngx_queue_data(q, ngx_mcds_spare_t, queue);

            if (ngx_current_msec - spare->freed < NGX_MCDS_SPARE_AGE) {
                break;
            }

            ngx_queue_remove(q);
            ngx_mcds_spare_kept -= room;
            ngx_free(spare);
        }
    }

    return ngx_mcds_spare_kept;
}


/*
 * Returns the class of sizes to which memory of this size belongs; *room is the
 * size of each piece of memory in that class.
 */

static ngx_uint_t
ngx_mcds_spare_class(size_t size, size_t *room)
{
    size_t      last;
    ngx_uint_t  shift;

    last = size - 1;

    for (shift = NGX_MCDS_SPARE_MIN_SHIFT; last >> shift > 15; shift++) {
        /* void */
    }

    *room = ((last >> shift) + 1) << shift;

    return 8 * (shift - NGX_MCDS_SPARE_MIN_SHIFT) + (last >> shift) - 8;
}

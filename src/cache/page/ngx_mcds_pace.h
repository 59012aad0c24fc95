
/*
 * Copyright (C) mcds authors
 *
 * How long the builds of a location's pages take, as a worker has seen them: a
 * worker that builds a page tells the other workers the time before which its
 * build likely does not end, so that they ask memcached seldom until then, and
 * often when the page is due.  Mean and error are smoothed as in RFC 6298,
 * section 2, but with larger weights of the newest build, 1/4 in the mean and
 * 1/2 in the error, so that both are accurate after a few regular builds.
 */


#ifndef _NGX_MCDS_PACE_H_INCLUDED_
#define _NGX_MCDS_PACE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* how long builds of a location's pages take; in zeroed memory: unknown */

typedef struct {
    ngx_msec_t  mean;             /* smoothed time that a build of a page takes,
                                     ms; 0: no build was seen */
    ngx_msec_t  error;            /* smoothed difference between the expected
                                     and the real time of a page's build, ms */
} ngx_mcds_pace_t;


/*
 * Adds the time that a build of a page took, ms, to the mean of the location's
 * builds.  last is how long the previous build of the same page took, ms; 0:
 * unknown.
 */

void ngx_mcds_pace_add(ngx_mcds_pace_t *pace, ngx_msec_t last, ngx_msec_t took);


/*
 * Returns the time that a build of a page will likely take at least, ms; 0:
 * unknown.  last is how long the last build of the page took, ms; 0: unknown.
 */

ngx_msec_t ngx_mcds_pace_least(ngx_mcds_pace_t *pace, ngx_msec_t last);


#endif /* _NGX_MCDS_PACE_H_INCLUDED_ */

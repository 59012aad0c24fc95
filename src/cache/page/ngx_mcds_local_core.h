
/*
 * Copyright (C) mcds authors
 *
 * What the workers of a host share in shared memory (mcds_zone): the copies of
 * pages and the counters of purges, which belong to ngx_mcds_local.c, and the
 * claims to build pages, which belong to ngx_mcds_claim.c.
 */


#ifndef _NGX_MCDS_LOCAL_CORE_H_INCLUDED_
#define _NGX_MCDS_LOCAL_CORE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_local.h"


/*
 * the maximum number of claims, by which workers of one host tell each other
 * that they build a page; further builds of pages have no claim
 */
#define NGX_MCDS_CLAIMS           1024

#define NGX_MCDS_SNAPSHOT_BUCKETS 1024

#define NGX_MCDS_PURGES           1024


struct ngx_mcds_claim_s {
    u_char               id[NGX_MCDS_LOCAL_ID];
    ngx_pid_t            pid;          /* worker that builds the page; 0: no
                                          worker has claimed the build */
    uint64_t             build;
    uint64_t             expire;       /* time when the claim to build the page
                                          ends, unless it is extended */
    uint64_t             until;        /* time when the outcome of the last
                                          build, in "state", is forgotten */
    ngx_uint_t           state;        /* how the last build of the page ended,
                                          ngx_mcds_local_e */
    ngx_uint_t           step;
    ngx_uint_t           wanted;
};


typedef struct ngx_mcds_kept_snapshot_s  ngx_mcds_kept_snapshot_t;

struct ngx_mcds_local_s {
    ngx_mcds_claim_t           claims[NGX_MCDS_CLAIMS];
    ngx_mcds_kept_snapshot_t  *buckets[NGX_MCDS_SNAPSHOT_BUCKETS];
    ngx_queue_t                lru;
    ngx_atomic_t               purges[NGX_MCDS_PURGES];
};


/*
 * the structure that the workers of the host share, and the memory zone it is
 * in; NULL: there is none
 */

extern ngx_mcds_local_t  *ngx_mcds_local;
extern ngx_slab_pool_t   *ngx_mcds_local_pool;


/*
 * Prepares the queue of this worker's claims, each of which tells the other
 * workers of the host that this worker builds a page, and the timer that
 * extends the claims.  Called once, when the worker starts.
 */

void ngx_mcds_claim_init(void);


static ngx_inline ngx_uint_t
ngx_mcds_local_hash(u_char *id)
{
    uint32_t  hash;

    ngx_memcpy(&hash, id, sizeof(uint32_t));

    return hash;
}


#endif /* _NGX_MCDS_LOCAL_CORE_H_INCLUDED_ */

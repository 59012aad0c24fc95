
/*
 * Copyright (C) mcds authors
 *
 * The distribution of keys over the servers of a pool: pure computation, no
 * I/O, no clock.  Only ngx_mcds_distribution_eject() changes data at run time.
 */


#ifndef _NGX_MCDS_DISTRIBUTION_H_INCLUDED_
#define _NGX_MCDS_DISTRIBUTION_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_client.h"


struct ngx_mcds_point_s {
    uint32_t              hash;
    uint32_t              server;       /* index in the pool of the server to
                                           which this point of the ring
                                           belongs */
};


/*
 * Prepares the distribution of keys over the pool's servers, once, when the
 * pool has all its servers.  Returns NULL, or an error text in memory of
 * cf->pool.
 */

char *ngx_mcds_distribution_init(ngx_conf_t *cf, ngx_mcds_pool_t *pool);


/*
 * Frees the pool's handles of libmemcached, which are not in the memory of an
 * nginx pool.
 */

void ngx_mcds_distribution_cleanup(ngx_mcds_pool_t *pool);


/*
 * Returns the index in the pool of the server that stores a key; the key has 1
 * to 250 bytes, without the pool's prefix.  With movable, the key of an ejected
 * server goes to another server.
 */

ngx_uint_t ngx_mcds_distribution_get(ngx_mcds_pool_t *pool, u_char *key,
    size_t len, ngx_uint_t movable);


/*
 * With pool->eject: ejects server n of the pool from the ring if down is 1, or
 * takes it back.  The other servers share the keys of an ejected server; no
 * other key moves.
 */

void ngx_mcds_distribution_eject(ngx_mcds_pool_t *pool, ngx_uint_t n,
    ngx_uint_t down);


#endif /* _NGX_MCDS_DISTRIBUTION_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * Which of a pool's servers has a key.  Computes only: no I/O, no clock, and
 * nothing is written once the configuration is read.
 */


#ifndef _NGX_MCDS_CHOICE_H_INCLUDED_
#define _NGX_MCDS_CHOICE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_client.h"


struct ngx_mcds_point_s {
    uint32_t              hash;
    uint32_t              server;       /* its index in the pool */
};


/*
 * While the configuration is read.
 *
 * init: to be called once, when the pool has all its servers; NULL or a text
 * that says what is wrong (in pool memory).
 *
 * cleanup: gives back what is not in the memory of nginx's pools.
 */

char *ngx_mcds_choice_init(ngx_conf_t *cf, ngx_mcds_pool_t *pool);
void ngx_mcds_choice_cleanup(ngx_mcds_pool_t *pool);


/*
 * The index of the server; key is without the pool's prefix, 1 to 250 bytes.
 * movable: servers that were ejected do not count.
 */

ngx_uint_t ngx_mcds_choice_get(ngx_mcds_pool_t *pool, u_char *key, size_t len,
    ngx_uint_t movable);


/*
 * With pool->eject: the server of an index is down, or up again.  Its share of
 * the ring goes to the others meanwhile; nothing else moves.
 */

void ngx_mcds_choice_eject(ngx_mcds_pool_t *pool, ngx_uint_t n,
    ngx_uint_t down);


#endif /* _NGX_MCDS_CHOICE_H_INCLUDED_ */

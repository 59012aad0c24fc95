
/*
 * Copyright (C) mcds authors
 *
 * Hashes of what clients choose: who does not have the secret cannot find texts
 * that collide.
 */


#ifndef _NGX_MCDS_HASH_H_INCLUDED_
#define _NGX_MCDS_HASH_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/*
 * siphash: SipHash-2-4, Aumasson and Bernstein, 2012, with the key k0, k1.
 * hash: half of SipHash-1-3, with a secret of this process, for places in its
 * memory: as safe there, as it is never shown, and half the work.
 */

uint64_t ngx_mcds_siphash(uint64_t k0, uint64_t k1, u_char *p, size_t len);
uint32_t ngx_mcds_hash(u_char *p, size_t len);


#endif /* _NGX_MCDS_HASH_H_INCLUDED_ */

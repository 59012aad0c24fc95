
/*
 * Copyright (C) mcds authors
 *
 * Keyed hashes of strings that clients choose: a client without the secret
 * cannot find strings that collide.
 */


#ifndef _NGX_MCDS_HASH_H_INCLUDED_
#define _NGX_MCDS_HASH_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/*
 * Returns the SipHash-2-4 (Aumasson and Bernstein, 2012) of a string, with the
 * key k0, k1.
 */

uint64_t ngx_mcds_siphash(uint64_t k0, uint64_t k1, u_char *p, size_t len);


/*
 * Returns the lower half of the SipHash-1-3 of a string, with a random secret
 * of this process, for hash tables in the memory of this process.  SipHash-1-3
 * takes half the time of SipHash-2-4, and is sufficient as the hash never
 * leaves the process.
 */

uint32_t ngx_mcds_hash(u_char *p, size_t len);


#endif /* _NGX_MCDS_HASH_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds.h"
#include "ngx_mcds_hash.h"


#define ngx_mcds_rotl(x, n)  (((x) << (n)) | ((x) >> (64 - (n))))

#define ngx_mcds_sip_round(v)                                                 \
    v[0] += v[1];                                                             \
    v[1] = ngx_mcds_rotl(v[1], 13) ^ v[0];                                    \
    v[0] = ngx_mcds_rotl(v[0], 32);                                           \
    v[2] += v[3];                                                             \
    v[3] = ngx_mcds_rotl(v[3], 16) ^ v[2];                                    \
    v[0] += v[3];                                                             \
    v[3] = ngx_mcds_rotl(v[3], 21) ^ v[0];                                    \
    v[2] += v[1];                                                             \
    v[1] = ngx_mcds_rotl(v[1], 17) ^ v[2];                                    \
    v[2] = ngx_mcds_rotl(v[2], 32)


/*
 * the SipHash of a string, with c rounds for each word and d rounds at the end
 */

static ngx_inline uint64_t
ngx_mcds_sip(uint64_t k0, uint64_t k1, u_char *p, size_t len, ngx_uint_t c,
    ngx_uint_t d)
{
    uint64_t    v[4], word, rest;
    ngx_uint_t  i;

    v[0] = k0 ^ 0x736f6d6570736575ULL;
    v[1] = k1 ^ 0x646f72616e646f6dULL;
    v[2] = k0 ^ 0x6c7967656e657261ULL;
    v[3] = k1 ^ 0x7465646279746573ULL;

    rest = (uint64_t) len << 56;

    for ( /* void */ ; len >= 8; p += 8, len -= 8) {
        ngx_memcpy(&word, p, 8);

        v[3] ^= word;

        for (i = 0; i < c; i++) {
            ngx_mcds_sip_round(v);
        }

        v[0] ^= word;
    }

    for (i = 0; i < len; i++) {
        rest |= (uint64_t) p[i] << (8 * i);
    }

    v[3] ^= rest;

    for (i = 0; i < c; i++) {
        ngx_mcds_sip_round(v);
    }

    v[0] ^= rest;

    v[2] ^= 0xff;

    for (i = 0; i < d; i++) {
        ngx_mcds_sip_round(v);
    }

    return v[0] ^ v[1] ^ v[2] ^ v[3];
}


uint64_t
ngx_mcds_siphash(uint64_t k0, uint64_t k1, u_char *p, size_t len)
{
    return ngx_mcds_sip(k0, k1, p, len, 2, 4);
}


uint32_t
ngx_mcds_hash(u_char *p, size_t len)
{
    static uint64_t    secret[2];
    static ngx_uint_t  ready;

    if (!ready) {
        ngx_mcds_random(secret, sizeof(secret));
        ready = 1;
    }

    return (uint32_t) ngx_mcds_sip(secret[0], secret[1], p, len, 1, 3);
}

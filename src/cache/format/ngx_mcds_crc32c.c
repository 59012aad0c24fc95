
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_entry.h"


#if (__x86_64__ && (__GNUC__ || __clang__))
#define NGX_MCDS_CRC32C_SSE42  1
#include <nmmintrin.h>
#include <wmmintrin.h>
#endif


#define NGX_MCDS_CRC32C_POLY   0x82f63b78    /* the polynomial of CRC32C
                                                (Castagnoli), bits reversed */


typedef uint32_t (*ngx_mcds_crc32c_pt)(uint32_t crc, u_char *data, size_t len);


static uint32_t ngx_mcds_crc32c_choose(uint32_t crc, u_char *data, size_t len);
static void ngx_mcds_crc32c_init(void);
static uint32_t ngx_mcds_crc32c_table(uint32_t crc, u_char *data, size_t len);

#if (NGX_MCDS_CRC32C_SSE42)
static uint32_t ngx_mcds_crc32c_sse42(uint32_t crc, u_char *data, size_t len);
#endif


static ngx_mcds_crc32c_pt  ngx_mcds_crc32c_update = ngx_mcds_crc32c_choose;
static uint32_t            ngx_mcds_crc32c_tables[8][256];


uint32_t
ngx_mcds_crc32c(uint32_t crc, u_char *data, size_t len)
{
    return ~ngx_mcds_crc32c_update(~crc, data, len);
}


static uint32_t
ngx_mcds_crc32c_choose(uint32_t crc, u_char *data, size_t len)
{
#if (NGX_MCDS_CRC32C_SSE42)

    if (__builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul")) {
        ngx_mcds_crc32c_update = ngx_mcds_crc32c_sse42;
        return ngx_mcds_crc32c_update(crc, data, len);
    }

#endif

    ngx_mcds_crc32c_init();
    ngx_mcds_crc32c_update = ngx_mcds_crc32c_table;

    return ngx_mcds_crc32c_update(crc, data, len);
}


static void
ngx_mcds_crc32c_init(void)
{
    uint32_t    crc;
    ngx_uint_t  i, n;

    for (i = 0; i < 256; i++) {
        crc = (uint32_t) i;

        for (n = 0; n < 8; n++) {
            crc = (crc >> 1) ^ ((crc & 1) ? NGX_MCDS_CRC32C_POLY : 0);
        }

        ngx_mcds_crc32c_tables[0][i] = crc;
    }

    /*
     * CRC32C table n has, for each value of a byte, the share of this byte in
     * the CRC of a block of eight bytes if n more bytes of the block follow it
     */

    for (n = 1; n < 8; n++) {
        for (i = 0; i < 256; i++) {
            crc = ngx_mcds_crc32c_tables[n - 1][i];
            ngx_mcds_crc32c_tables[n][i] = (crc >> 8)
                                   ^ ngx_mcds_crc32c_tables[0][crc & 0xff];
        }
    }
}


static uint32_t
ngx_mcds_crc32c_table(uint32_t crc, u_char *data, size_t len)
{
    uint32_t  (*t)[256];

    t = ngx_mcds_crc32c_tables;

    while (len >= 8) {
        crc ^= (uint32_t) data[0] | (uint32_t) data[1] << 8
               | (uint32_t) data[2] << 16 | (uint32_t) data[3] << 24;

        crc = t[7][crc & 0xff] ^ t[6][(crc >> 8) & 0xff]
              ^ t[5][(crc >> 16) & 0xff] ^ t[4][crc >> 24]
              ^ t[3][data[4]] ^ t[2][data[5]] ^ t[1][data[6]] ^ t[0][data[7]];

        data += 8;
        len -= 8;
    }

    while (len--) {
        crc = t[0][(crc ^ *data++) & 0xff] ^ (crc >> 8);
    }

    return crc;
}


#if (NGX_MCDS_CRC32C_SSE42)

/*
 * The crc32 instruction of the processor has a latency of three cycles and a
 * throughput of one per cycle, so three blocks of the data are processed in
 * parallel.  Carry-less multiplications then combine their remainders.  As the
 * bits are reversed, a carry-less product comes out multiplied by x; the crc32
 * instruction, which reduces the product, multiplies it by x^32.  So the factor
 * that advances a remainder by n bytes is x^(8n - 33) mod P, where P is the
 * polynomial of CRC32C.
 */

#define NGX_MCDS_CRC32C_LONG         1024
#define NGX_MCDS_CRC32C_LONG_1       0x170076fa    /* factor to advance a
                                                      CRC32C by one block of
                                                      data */
#define NGX_MCDS_CRC32C_LONG_2       0xa51b6135    /* factor to advance a
                                                      CRC32C by two blocks of
                                                      data */

#define NGX_MCDS_CRC32C_SHORT        128
#define NGX_MCDS_CRC32C_SHORT_1      0x0d3b6092
#define NGX_MCDS_CRC32C_SHORT_2      0xb9e02b86


__attribute__((target("sse4.2,pclmul")))
static ngx_inline uint32_t
ngx_mcds_crc32c_three(uint32_t crc, u_char *data, size_t block, uint32_t one,
    uint32_t two)
{
    size_t    i;
    __m128i   joined;
    uint64_t  a, b, c, word;

    a = crc;
    b = 0;
    c = 0;

    for (i = 0; i < block; i += 8) {
        ngx_memcpy(&word, data + i, 8);
        a = _mm_crc32_u64(a, word);

        ngx_memcpy(&word, data + block + i, 8);
        b = _mm_crc32_u64(b, word);

        ngx_memcpy(&word, data + 2 * block + i, 8);
        c = _mm_crc32_u64(c, word);
    }

    joined = _mm_xor_si128(
                 _mm_clmulepi64_si128(_mm_cvtsi64_si128((int64_t) a),
                                      _mm_cvtsi64_si128((int64_t) two), 0),
                 _mm_clmulepi64_si128(_mm_cvtsi64_si128((int64_t) b),
                                      _mm_cvtsi64_si128((int64_t) one), 0));

    word = (uint64_t) _mm_cvtsi128_si64(joined);

    return (uint32_t) (_mm_crc32_u64(0, word) ^ c);
}


__attribute__((target("sse4.2,pclmul")))
static uint32_t
ngx_mcds_crc32c_sse42(uint32_t crc, u_char *data, size_t len)
{
    uint64_t  wide, word;

    while (len >= 3 * NGX_MCDS_CRC32C_LONG) {
        crc = ngx_mcds_crc32c_three(crc, data, NGX_MCDS_CRC32C_LONG,
                                    NGX_MCDS_CRC32C_LONG_1,
                                    NGX_MCDS_CRC32C_LONG_2);
        data += 3 * NGX_MCDS_CRC32C_LONG;
        len -= 3 * NGX_MCDS_CRC32C_LONG;
    }

    while (len >= 3 * NGX_MCDS_CRC32C_SHORT) {
        crc = ngx_mcds_crc32c_three(crc, data, NGX_MCDS_CRC32C_SHORT,
                                    NGX_MCDS_CRC32C_SHORT_1,
                                    NGX_MCDS_CRC32C_SHORT_2);
        data += 3 * NGX_MCDS_CRC32C_SHORT;
        len -= 3 * NGX_MCDS_CRC32C_SHORT;
    }

    wide = crc;

    while (len >= 8) {
        ngx_memcpy(&word, data, 8);
        wide = _mm_crc32_u64(wide, word);

        data += 8;
        len -= 8;
    }

    crc = (uint32_t) wide;

    while (len--) {
        crc = _mm_crc32_u8(crc, *data++);
    }

    return crc;
}

#endif

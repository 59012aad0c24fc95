
/*
 * Copyright (C) mcds authors
 *
 * Hashes, by libcrypto and zlib's polynomial.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_md5.h>
#include <ngx_murmurhash.h>
#include <ngx_sha1.h>
#include <openssl/evp.h>


static void ngx_tool_hash_init(void) __attribute__((constructor));
static void ngx_tool_digest_init(u_char *place, const EVP_MD *md);
static void ngx_tool_digest_update(u_char *place, const void *data,
    size_t size);
static void ngx_tool_digest_final(u_char *place, u_char *result);


uint32_t  ngx_crc32_table256[256];


/* that of zlib and Ethernet, the lowest bit first */

static void
ngx_tool_hash_init(void)
{
    uint32_t    crc;
    ngx_uint_t  i, bit;

    for (i = 0; i < 256; i++) {
        crc = i;

        for (bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ ((crc & 1) ? 0xedb88320 : 0);
        }

        ngx_crc32_table256[i] = crc;
    }
}


/* MurmurHash2, by Austin Appleby, with the seed 0 */

uint32_t
ngx_murmur_hash2(u_char *data, size_t len)
{
    uint32_t    hash, word;
    ngx_uint_t  i;

    hash = (uint32_t) len;

    for ( /* void */ ; len >= 4; data += 4, len -= 4) {

        word = data[0] | data[1] << 8 | data[2] << 16
               | (uint32_t) data[3] << 24;

        word *= 0x5bd1e995;
        word ^= word >> 24;
        word *= 0x5bd1e995;

        hash = (hash * 0x5bd1e995) ^ word;
    }

    if (len) {
        for (word = 0, i = 0; i < len; i++) {
            word |= (uint32_t) data[i] << (8 * i);
        }

        hash = (hash ^ word) * 0x5bd1e995;
    }

    hash ^= hash >> 13;
    hash *= 0x5bd1e995;

    return hash ^ (hash >> 15);
}


/* libcrypto's context lives where nginx keeps a block */

static void
ngx_tool_digest_init(u_char *place, const EVP_MD *md)
{
    EVP_MD_CTX  *ctx;

    ctx = EVP_MD_CTX_new();

    if (ctx == NULL || EVP_DigestInit_ex(ctx, md, NULL) != 1) {
        ngx_log_error(NGX_LOG_EMERG, ngx_cycle->log, 0,
                      "libcrypto has no such digest");
        exit(1);
    }

    ngx_memcpy(place, &ctx, sizeof(EVP_MD_CTX *));
}


static void
ngx_tool_digest_update(u_char *place, const void *data, size_t size)
{
    EVP_MD_CTX  *ctx;

    ngx_memcpy(&ctx, place, sizeof(EVP_MD_CTX *));

    (void) EVP_DigestUpdate(ctx, data, size);
}


static void
ngx_tool_digest_final(u_char *place, u_char *result)
{
    EVP_MD_CTX  *ctx;

    ngx_memcpy(&ctx, place, sizeof(EVP_MD_CTX *));

    (void) EVP_DigestFinal_ex(ctx, result, NULL);

    EVP_MD_CTX_free(ctx);
}


void
ngx_md5_init(ngx_md5_t *ctx)
{
    ngx_tool_digest_init(ctx->buffer, EVP_md5());
}


void
ngx_md5_update(ngx_md5_t *ctx, const void *data, size_t size)
{
    ngx_tool_digest_update(ctx->buffer, data, size);
}


void
ngx_md5_final(u_char result[16], ngx_md5_t *ctx)
{
    ngx_tool_digest_final(ctx->buffer, result);
}


void
ngx_sha1_init(ngx_sha1_t *ctx)
{
    ngx_tool_digest_init(ctx->buffer, EVP_sha1());
}


void
ngx_sha1_update(ngx_sha1_t *ctx, const void *data, size_t size)
{
    ngx_tool_digest_update(ctx->buffer, data, size);
}


void
ngx_sha1_final(u_char result[20], ngx_sha1_t *ctx)
{
    ngx_tool_digest_final(ctx->buffer, result);
}


/*
 * Copyright (C) mcds authors
 *
 * mcds_cache_compress: pages are compressed when they are stored, and sent
 * compressed to clients that accept the coding.
 *
 * mcds decides in two steps whether a client gets the compressed body.  First,
 * mcds makes the header of the response as for a decompressed body, and notes
 * whether the client accepts the coding.  Then the coding filter, directly
 * before nginx's gzip filter and after the filters that change bodies, sends
 * the body compressed if none of these filters changes the body.
 */


#ifndef _NGX_HTTP_MCDS_CODING_H_INCLUDED_
#define _NGX_HTTP_MCDS_CODING_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"
#include "ngx_mcds_coding.h"


/*
 * the longest body of a compressed page, in bytes after decompression, that is
 * decompressed at once; a longer body is decompressed while it is sent
 */
#define NGX_HTTP_MCDS_DECODE_WHOLE  (128 * 1024)

/*
 * the longest body of a compressed page, in bytes after decompression, for
 * which range requests are supported: a range requires that all bytes before
 * it are decompressed
 */
#define NGX_HTTP_MCDS_DECODE_RANGE  (1024 * 1024)


struct ngx_http_mcds_compress_s {
    ngx_uint_t     coding;        /* coding to compress pages with,
                                     ngx_mcds_coding_e */
    ngx_int_t      level;         /* level of compression; 0: the default of
                                     the library */
    size_t         min_length;
    ngx_array_t   *types;         /* media types of pages to compress,
                                     ngx_str_t, where "*" is a wildcard */
};


/*
 * Returns 1 if a page is streamed: its body is sent in parts, since it is
 * stored in parts, or since it is compressed and long.
 */

#define ngx_http_mcds_streamed(entry)                                         \
    (ngx_mcds_body_apart(entry)                                               \
     || ((entry)->coding && (entry)->length > NGX_HTTP_MCDS_DECODE_WHOLE))


/*
 * The functions for compressed pages that the rest of the cache calls.
 *
 * compress: returns ccf->compress, which must not be NULL, if the response to r
 * is to be compressed; NULL if not, by its length, its type or its headers.
 *
 * fixed: returns 1 if a header of the response to r, such as a digest, forbids
 * changes of the body.
 *
 * create, run, free: the encoder, see ngx_mcds_coding.h.
 *
 * accepted: returns 1 if r accepts the coding of the page ctx->snapshot.
 *
 * body: decompresses the whole body of the page ctx->snapshot; returns NULL if
 * the body is corrupt, or when out of memory.
 *
 * begin, take, back: decompress the body of the page ctx->snapshot in parts,
 * see ngx_http_mcds_decode_begin(), _take() and _free() below.
 */

typedef struct {
    ngx_http_mcds_compress_t  *(*compress)(ngx_http_request_t *r,
                                   ngx_http_mcds_cache_conf_t *ccf);
    ngx_uint_t                 (*fixed)(ngx_http_request_t *r);
    ngx_mcds_encoder_t        *(*create)(ngx_uint_t coding, ngx_int_t level);
    ngx_int_t                  (*run)(ngx_mcds_encoder_t *encoder, u_char *p,
                                   size_t len, ngx_uint_t last,
                                   ngx_mcds_encoded_pt handler, void *data);
    void                       (*free)(ngx_mcds_encoder_t *encoder);

    ngx_uint_t                 (*accepted)(ngx_http_request_t *r,
                                   ngx_http_mcds_cache_ctx_t *ctx);
    ngx_buf_t                 *(*body)(ngx_http_request_t *r,
                                   ngx_http_mcds_cache_ctx_t *ctx);
    ngx_int_t                  (*begin)(ngx_http_request_t *r,
                                   ngx_http_mcds_cache_ctx_t *ctx, off_t end,
                                   void (*run)(void *data));
    ngx_int_t                  (*take)(ngx_http_request_t *r,
                                   ngx_http_mcds_cache_ctx_t *ctx,
                                   ngx_chain_t **out);
    ngx_uint_t                 (*back)(ngx_http_mcds_cache_ctx_t *ctx);
} ngx_http_mcds_coding_hooks_t;


/*
 * The functions for compressed pages, set in preconfiguration.  NULL if this
 * build of mcds cannot compress pages (MCDS_WITHOUT): then no location
 * compresses pages, and pages that are stored compressed are not used.
 */

extern ngx_http_mcds_coding_hooks_t  *ngx_http_mcds_coding_hooks;


/*
 * functions for compressed pages that only compress.c, decode.c and
 * coding_filter_module.c use
 */

char *ngx_http_mcds_cache_compress(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
ngx_http_mcds_compress_t *ngx_http_mcds_compress(ngx_http_request_t *r,
    ngx_http_mcds_cache_conf_t *ccf);
ngx_uint_t ngx_http_mcds_compress_fixed(ngx_http_request_t *r);
ngx_uint_t ngx_http_mcds_coding_accepted(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);
ngx_buf_t *ngx_http_mcds_decode_body(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);

/*
 * Starts to decompress the body of a page that is sent in parts, from the first
 * byte up to the offset "end", exclusive.  When decompression has paused for
 * other requests, an event calls run(ctx) to continue.  Returns NGX_OK, or
 * NGX_ERROR when out of memory.
 */

ngx_int_t ngx_http_mcds_decode_begin(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, off_t end, void (*run)(void *data));

/*
 * Decompresses more of the body of a page: sets *out to the decompressed
 * buffers, or leaves *out as it is if there are none.  NGX_DONE: the body is
 * complete; NGX_AGAIN: the next part of the stored body has not come from
 * memcached; NGX_BUSY: buffers have to be freed first, or other requests have
 * their turn; NGX_ERROR: corrupt or incomplete body, or out of memory.
 */

ngx_int_t ngx_http_mcds_decode_take(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_chain_t **out);

/*
 * lets the buffers of a page's decompressed body be used again once nginx has
 * sent them to the client; returns 1 if a buffer has become free
 */

ngx_uint_t ngx_http_mcds_decode_free(ngx_http_mcds_cache_ctx_t *ctx);


#endif /* _NGX_HTTP_MCDS_CODING_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * mcds_cache_compress: pages are compressed when they are stored, and sent
 * compressed to clients that accept the coding.
 *
 * The choice has two steps.  When the header of a page is made, the compressed
 * page is only offered; the header describes the page without its coding.  In
 * the place of nginx's gzip filter, behind the filters that change bodies, the
 * compressed page is taken if none of these filters has changed the body.  The
 * body then follows this choice.
 */


#ifndef _NGX_HTTP_MCDS_CODING_H_INCLUDED_
#define _NGX_HTTP_MCDS_CODING_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"
#include "ngx_mcds_coding.h"


/*
 * the longest body, in bytes without its coding, that is decoded at once; a
 * longer body is decoded while it is sent
 */
#define NGX_HTTP_MCDS_DECODE_WHOLE  (128 * 1024)

/*
 * the longest body, in bytes without its coding, that has ranges: a range
 * requires that all bytes before it are decoded
 */
#define NGX_HTTP_MCDS_DECODE_RANGE  (1024 * 1024)


struct ngx_http_mcds_compress_s {
    ngx_uint_t     coding;        /* ngx_mcds_coding_e */
    ngx_int_t      level;         /* 0: the default */
    size_t         min_length;
    ngx_array_t   *types;         /* ngx_str_t, with "*" */
};


/*
 * The compression for the response of r, or NULL; takes the length into
 * account, if known.
 */

ngx_http_mcds_compress_t *ngx_http_mcds_compress(ngx_http_request_t *r,
    ngx_http_mcds_cache_conf_t *ccf);

/* the setter of mcds_cache_compress */

char *ngx_http_mcds_cache_compress(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);


/*
 * Sets ctx->offered if ctx->copy has a coding that r accepts; later,
 * ctx->coded says whether the coding was taken.
 */

void ngx_http_mcds_coding_offer(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);

/*
 * Call this when the body begins, or if another response replaces ctx->copy:
 * the coding can no longer be taken.
 */

void ngx_http_mcds_coding_withdraw(ngx_http_mcds_cache_ctx_t *ctx);


/*
 * 1 if the body of a page is sent in parts, since it is stored in parts, or
 * since it has a coding and is long.
 */

ngx_uint_t ngx_http_mcds_streamed(ngx_mcds_entry_t *entry);


/*
 * The body of ctx->copy without its coding, for a page that is not streamed.
 * NULL if the body is corrupt (logged), or out of memory.
 */

ngx_buf_t *ngx_http_mcds_decode_body(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);

/*
 * Starts to decode the body of a streamed page, up to the offset "end".  run
 * is called, from an event of its own, when decoding continues after a pause
 * for other requests.
 */

ngx_int_t ngx_http_mcds_decode_begin(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, off_t end, void (*run)(void *data));

/*
 * Decodes more of the body: *out is the next part, or NULL.  NGX_DONE: the
 * body is complete; NGX_AGAIN: ctx->stream will call back; NGX_BUSY: buffers
 * have to be freed first, or other requests have their turn; NGX_ERROR.
 */

ngx_int_t ngx_http_mcds_decode_take(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_chain_t **out);

/* takes back the buffers that have been sent; 1 if there were any */

ngx_uint_t ngx_http_mcds_decode_free(ngx_http_mcds_cache_ctx_t *ctx);


#endif /* _NGX_HTTP_MCDS_CODING_H_INCLUDED_ */

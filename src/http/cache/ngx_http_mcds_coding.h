
/*
 * Copyright (C) mcds authors
 *
 * mcds_cache_compress: pages are compressed when they are stored, and sent as
 * they are stored to who accepts that.
 *
 * Who sends a page decides in two steps.  When its header is made the page is
 * only offered in its coding; the header says what it is without.  Where nginx
 * would compress it, behind the filters that change bodies, it is taken in its
 * coding if none of them has touched it.  The body is then made to fit.
 */


#ifndef _NGX_HTTP_MCDS_CODING_H_INCLUDED_
#define _NGX_HTTP_MCDS_CODING_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"
#include "ngx_mcds_coding.h"


/* what is longer is decoded while it is sent; bytes, without the coding */
#define NGX_HTTP_MCDS_DECODE_WHOLE  (128 * 1024)

/*
 * What is longer has no ranges, since all before a range would be decoded for
 * it; bytes, without the coding
 */
#define NGX_HTTP_MCDS_DECODE_RANGE  (1024 * 1024)


struct ngx_http_mcds_compress_s {
    ngx_uint_t     coding;        /* ngx_mcds_coding_e */
    ngx_int_t      level;         /* 0: the usual one */
    size_t         min_length;
    ngx_array_t   *types;         /* ngx_str_t, may have "*" in them */
};


/*
 * What the answer of r is to be compressed with, or NULL.  That it is long
 * enough, as far as is known, is looked at, too.
 */

ngx_http_mcds_compress_t *ngx_http_mcds_compress(ngx_http_request_t *r,
    ngx_http_mcds_cache_conf_t *ccf);
char *ngx_http_mcds_cache_compress(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);


/*
 * offer: 1 if ctx->copy has a coding that r accepts; says so in ctx.  withdraw:
 * its body begins, or something stands in its place.  Whether it was taken
 * says ctx->coded.
 */

void ngx_http_mcds_coding_offer(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);
void ngx_http_mcds_coding_withdraw(ngx_http_mcds_cache_ctx_t *ctx);


/*
 * 1 if the body of a page is not at hand as a whole, so that it is sent step by
 * step only: it lies in parts, or has a coding and is long.
 */

ngx_uint_t ngx_http_mcds_streamed(ngx_mcds_entry_t *entry);


/*
 * Of ctx->copy, without its coding.  body: of one that is not streamed, NULL
 * if it is broken (logged), or out of memory.
 *
 * begin: the body up to the offset "end" is to be sent; run is called, from
 * an event of its own, when that is to go on after others had their turn.
 * take: more of it; *out: what there is, or NULL.  NGX_DONE: that was the last;
 * NGX_AGAIN: ctx->stream will tell; NGX_BUSY: something is to be freed before,
 * or it is others' turn; NGX_ERROR.  free: takes back what was sent; 1: there
 * was something.
 */

ngx_buf_t *ngx_http_mcds_decode_body(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);
ngx_int_t ngx_http_mcds_decode_begin(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, off_t end, void (*run)(void *data));
ngx_int_t ngx_http_mcds_decode_take(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_chain_t **out);
ngx_uint_t ngx_http_mcds_decode_free(ngx_http_mcds_cache_ctx_t *ctx);


#endif /* _NGX_HTTP_MCDS_CODING_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * Pages that vary, RFC 9111, 4.1: how a response that has Vary is stored.
 */


#ifndef _NGX_HTTP_MCDS_VARIANT_H_INCLUDED_
#define _NGX_HTTP_MCDS_VARIANT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"


/*
 * The response is to be stored; *seat: where, which is not ctx->seat when its
 * list is a new one.
 */

ngx_int_t ngx_http_mcds_variant_begin(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf,
    ngx_mcds_seat_t **seat);


/*
 * The end of the body.  NGX_DECLINED: there is nothing special about it.
 * Otherwise value and split, which may be NULL, are taken over: NGX_OK, the
 * build ends by itself; NGX_ERROR, nothing is stored, and it does not.
 */

ngx_int_t ngx_http_mcds_variant_store(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_mcds_value_t *value,
    ngx_mcds_entry_t *entry, ngx_mcds_split_t *split);


/*
 * Under the key lies a page, or a list, that does not tell routes apart, see
 * ngx_http_mcds_route.h; the request has come along another one.  Stores a list
 * that does in its place.  NGX_AGAIN: the page is looked up again after that;
 * NGX_BUSY: it is not for the cache; NGX_ERROR.  hurry: it is not waited for
 * any longer.
 */

ngx_int_t ngx_http_mcds_variant_fork(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf);
void ngx_http_mcds_variant_unfork(ngx_http_mcds_cache_ctx_t *ctx);
void ngx_http_mcds_variant_hurry(ngx_http_mcds_cache_ctx_t *ctx);


/* from a list to another one that has just replaced it, and so on */
#define NGX_HTTP_MCDS_TURNS       4


#endif /* _NGX_HTTP_MCDS_VARIANT_H_INCLUDED_ */

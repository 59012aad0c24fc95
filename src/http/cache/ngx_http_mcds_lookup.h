
/*
 * Copyright (C) mcds authors
 *
 * Looks up the entry of a request's page or, if the entry is a list of the
 * page's variants, the entry of the variant that the request needs.
 */


#ifndef _NGX_HTTP_MCDS_LOOKUP_H_INCLUDED_
#define _NGX_HTTP_MCDS_LOOKUP_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"


/*
 * Looks up the page of the key ctx->key for ctx->waiter.  If this worker knows
 * the page's list of variants, looks up instead the variant that the request
 * needs and, in the same turn of the event loop, the list, to see whether the
 * list was replaced.  NGX_OK, or NGX_ERROR when out of memory.
 */

ngx_int_t ngx_http_mcds_lookup(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf);


/*
 * Call this when memcached has answered a lookup of a page: if a list of
 * variants was found, looks up the variant that the request needs.  NGX_OK: the
 * lookup has ended, ctx->snapshot is the page or other entry that was found, or
 * NULL; NGX_AGAIN: another reply is to come; NGX_BUSY: the page is not cached,
 * since its lists of variants keep changing; NGX_ERROR: out of memory.
 */

ngx_int_t ngx_http_mcds_lookup_end(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf);


/*
 * Looks up the request's page once more, since another page may be stored by
 * now.  Returns NGX_AGAIN, or NGX_ERROR when out of memory.
 */

ngx_int_t ngx_http_mcds_lookup_again(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf);


/*
 * Makes the request, by its ctx->waiter, a waiter of the page with the key
 * ctx->at, before the request looks up, builds or waits for this page.  Returns
 * NGX_OK, or NGX_ERROR when out of memory.
 */

ngx_int_t ngx_http_mcds_lookup_join(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf);


/*
 * releases the page or other entry in ctx->snapshot, which this request does
 * not use
 */
void ngx_http_mcds_lookup_drop(ngx_http_mcds_cache_ctx_t *ctx);

/*
 * Lets the copy of the client's request that builds the page in the background
 * use the list of variants that the client's request has read.  ctx is the
 * context of the copy, "from" the context of the client's request.
 */
void ngx_http_mcds_lookup_inherit(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_ctx_t *from);

/* releases the list of variants that the request has read */
void ngx_http_mcds_lookup_cleanup(ngx_http_mcds_cache_ctx_t *ctx);


#endif /* _NGX_HTTP_MCDS_LOOKUP_H_INCLUDED_ */

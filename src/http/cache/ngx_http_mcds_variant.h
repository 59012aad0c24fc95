
/*
 * Copyright (C) mcds authors
 *
 * Pages with variants, RFC 9111, 4.1: how a response with Vary is stored.
 */


#ifndef _NGX_HTTP_MCDS_VARIANT_H_INCLUDED_
#define _NGX_HTTP_MCDS_VARIANT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"


/*
 * Call this when a response is to be stored: sets *waiter to the handle by
 * which the response is stored as a page: ctx->waiter or, if a new list of
 * variants is needed, the handle for the key of the first variant in the new
 * list.  Returns NGX_OK, or NGX_ERROR when out of memory.
 */

ngx_int_t ngx_http_mcds_variant_begin(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf,
    ngx_mcds_waiter_t **waiter);


/*
 * Stores a variant of a page and the page's list of variants.  Call this at
 * the end of the response's body.  NGX_DECLINED: the caller stores the response
 * by ctx->waiter, as for any page, since the page has no variants, or its list
 * has this variant.  Otherwise the function takes over value, the variant's
 * entry, and split, the variant's body in parts or NULL.  NGX_OK: the build of
 * the page ends later, by itself; NGX_ERROR: nothing is stored, and the caller
 * ends the build.
 */

ngx_int_t ngx_http_mcds_variant_store(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_mcds_value_t *value,
    ngx_mcds_entry_t *entry, ngx_mcds_split_t *split);


/*
 * Call this if the page was made by another route (way through the locations)
 * than the request has taken: replaces the page, or its list of variants, by a
 * list that distinguishes routes.  NGX_AGAIN: look up the page again after
 * that; NGX_BUSY: the page is not cached; NGX_ERROR: out of memory.
 */

ngx_int_t ngx_http_mcds_variant_fork(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf);

/*
 * the request no longer waits for its new list of variants to be stored; the
 * list is stored nevertheless
 */

void ngx_http_mcds_variant_unfork(ngx_http_mcds_cache_ctx_t *ctx);

/*
 * The request no longer waits for the list of variants that is being stored, as
 * after a timeout, and continues if it waits for nothing else; the list is
 * stored nevertheless.
 */

void ngx_http_mcds_variant_hurry(ngx_http_mcds_cache_ctx_t *ctx);


#endif /* _NGX_HTTP_MCDS_VARIANT_H_INCLUDED_ */

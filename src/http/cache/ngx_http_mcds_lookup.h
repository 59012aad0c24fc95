
/*
 * Copyright (C) mcds authors
 *
 * A request and the page of its key: from the key, or from list to variant, to
 * the copy that the request is to judge.
 */


#ifndef _NGX_HTTP_MCDS_LOOKUP_H_INCLUDED_
#define _NGX_HTTP_MCDS_LOOKUP_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"


/*
 * Looks up the page of ctx->key, where ctx->seat is.  If this worker knows
 * that it varies, its variant is looked up instead, and in the same turn
 * whether the list is still the one that is known.  NGX_OK or NGX_ERROR.
 */

ngx_int_t ngx_http_mcds_lookup(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf);


/*
 * After a reply.  NGX_OK: ctx->copy, if there is one, is no list that leads
 * elsewhere, and has come along the route of the request; NGX_AGAIN: another
 * reply is to come; NGX_BUSY: the page is not for the cache, its lists change
 * all the time; NGX_ERROR.
 */

ngx_int_t ngx_http_mcds_lookup_end(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf);


/*
 * The page that has come is not right for this request, and the page that is
 * there now may be: NGX_AGAIN, or NGX_ERROR.
 */

ngx_int_t ngx_http_mcds_lookup_again(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf);


/* takes a seat at the page of ctx->at: NGX_OK, or NGX_ERROR */

ngx_int_t ngx_http_mcds_lookup_sit(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf);


/* forgets ctx->copy, which is not for this request */
void ngx_http_mcds_lookup_drop(ngx_http_mcds_cache_ctx_t *ctx);

/* the copy that builds behind a request goes on with its list */
void ngx_http_mcds_lookup_inherit(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_ctx_t *from);

/* forgets the list and the variants */
void ngx_http_mcds_lookup_cleanup(ngx_http_mcds_cache_ctx_t *ctx);


#endif /* _NGX_HTTP_MCDS_LOOKUP_H_INCLUDED_ */

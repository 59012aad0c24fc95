
/*
 * Copyright (C) mcds authors
 *
 * A response that is stored goes two ways, to the client and to memcached, at
 * the speed of the origin: the origin waits for memcached, and does not wait
 * for a slow client.
 */


#ifndef _NGX_HTTP_MCDS_TEE_H_INCLUDED_
#define _NGX_HTTP_MCDS_TEE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"


/*
 * Holds back an origin that is faster than memcached: data of the response
 * stays in the upstream's buffers, and the upstream waits for free ones.  Sets
 * *in to the data that is to be stored now.  When memcached has taken enough of
 * the data before, the filters run again, without new data.  Returns NGX_OK, or
 * NGX_ERROR when out of memory.
 */

ngx_int_t ngx_http_mcds_hold_back(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_chain_t **in);

/*
 * Returns 1 if a slow client may get a copy of the response's data.  The copies
 * for all slow clients together are limited: above the limit, a client slows
 * down its upstream, as without a cache, and delays the requests that wait for
 * the page; after a second, its request gives up the build.
 */

ngx_uint_t ngx_http_mcds_may_detach(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_chain_t *in);

/*
 * A client that reads slowly must not delay the requests that wait for the
 * page: sets *out to a copy of the response's data for the client, and marks
 * the upstream's buffers as sent, so that the upstream reads on.  Returns
 * NGX_OK, or NGX_ERROR when out of memory: *out then has what was copied.
 */

ngx_int_t ngx_http_mcds_detach(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_chain_t *in, ngx_chain_t **out);

/*
 * Call this each time after nginx has sent data to a client that gets copies:
 * takes over "out", the copies of ngx_http_mcds_detach(), or NULL, and frees
 * those that nginx has sent.  The others are freed with the request.
 */

void ngx_http_mcds_detached(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_chain_t *out);


#endif /* _NGX_HTTP_MCDS_TEE_H_INCLUDED_ */

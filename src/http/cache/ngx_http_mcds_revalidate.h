
/*
 * Copyright (C) mcds authors
 *
 * What the stored page is still good for while it is rebuilt: the origin is
 * asked whether it has changed, and when the origin fails it is shown.
 */


#ifndef _NGX_HTTP_MCDS_REVALIDATE_H_INCLUDED_
#define _NGX_HTTP_MCDS_REVALIDATE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"


/*
 * Adds If-None-Match and If-Modified-Since of ctx->copy to the headers of r,
 * which has no such ones, if the location has mcds_cache_revalidate and the
 * page has something to ask with.  ctx is that of r.  A page that no-cache
 * stands in is asked for by If-None-Match alone.
 */

ngx_int_t ngx_http_mcds_revalidate_ask(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);


/*
 * Looks at an answer that is to be stored.  NGX_OK: the page stands in its
 * place, renewed after a 304 or old because of an error; it is ctx->copy now,
 * and the build has ended.  NGX_DECLINED: it is an answer like others.
 * NGX_ERROR: out of memory.  NGX_AGAIN: a 304 of another page than the stored
 * one; the origin will be asked again, without validators.
 * NGX_HTTP_BAD_GATEWAY: the same where that cannot be; the build has failed.
 */

ngx_int_t ngx_http_mcds_revalidate(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);


/*
 * Takes these headers away again when there is an answer, or an error page is
 * to be made: subrequests, and other locations, would ask for a page with the
 * validators of this one.
 */

ngx_int_t ngx_http_mcds_revalidate_asked(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);


/*
 * RFC 9111, 4.3.5: a HEAD has been answered; the page in ctx->copy is renewed
 * if the answer shows that it is current, and stored if it is the same still.
 */

void ngx_http_mcds_revalidate_head(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);


/*
 * Sends ctx->copy in the place of an answer: header, then body for each call
 * of the body filter, whatever it is called with.
 */

ngx_int_t ngx_http_mcds_instead_header(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);
ngx_int_t ngx_http_mcds_instead_body(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_chain_t *in, ngx_chain_t **out);


#endif /* _NGX_HTTP_MCDS_REVALIDATE_H_INCLUDED_ */

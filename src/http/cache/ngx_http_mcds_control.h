
/*
 * Copyright (C) mcds authors
 *
 * mcds_cache_request_control.
 */


#ifndef _NGX_HTTP_MCDS_CONTROL_H_INCLUDED_
#define _NGX_HTTP_MCDS_CONTROL_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"


/*
 * mcds_cache_request_control.  control: reads what a request asks of its
 * answer, into ctx.  accepts: whether a page is that, where ctx->control is
 * given; a page that is purged counts as expired; state, an ngx_mcds_fresh_e,
 * may be mended by it.
 */

ngx_int_t ngx_http_mcds_control(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);
ngx_uint_t ngx_http_mcds_control_accepts(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_mcds_entry_t *entry, ngx_uint_t purged, ngx_uint_t *state);


#endif /* _NGX_HTTP_MCDS_CONTROL_H_INCLUDED_ */

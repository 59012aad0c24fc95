
/*
 * Copyright (C) mcds authors
 *
 * A body that is sent step by step.
 */


#ifndef _NGX_HTTP_MCDS_STREAM_H_INCLUDED_
#define _NGX_HTTP_MCDS_STREAM_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"


/*
 * The body of ctx->copy, if that is split.  begin: reads it ahead.  end: it is
 * not wanted.  send: the rest of a content handler whose header was sent.
 */

void ngx_http_mcds_stream_begin(ngx_http_mcds_cache_ctx_t *ctx);
void ngx_http_mcds_stream_end(ngx_http_mcds_cache_ctx_t *ctx);
ngx_int_t ngx_http_mcds_stream_send(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);


#endif /* _NGX_HTTP_MCDS_STREAM_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * Sends the body of a page in parts.
 */


#ifndef _NGX_HTTP_MCDS_STREAM_H_INCLUDED_
#define _NGX_HTTP_MCDS_STREAM_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"


/*
 * starts to read the body of the page ctx->snapshot, if it is stored in parts
 */

void ngx_http_mcds_stream_begin(ngx_http_mcds_cache_ctx_t *ctx);

/* ends the reading of the parts of a page's body, as the page is not used */

void ngx_http_mcds_stream_end(ngx_http_mcds_cache_ctx_t *ctx);

/*
 * Sends the body of a page in parts, for a content handler that has sent the
 * header.  Returns the result for the content handler to return.
 */

ngx_int_t ngx_http_mcds_stream_send(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);


#endif /* _NGX_HTTP_MCDS_STREAM_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * mcds_cache_request_control: the Cache-Control and Pragma of requests.
 */


#ifndef _NGX_HTTP_MCDS_REQUEST_CC_H_INCLUDED_
#define _NGX_HTTP_MCDS_REQUEST_CC_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"


/*
 * Reads the Cache-Control and Pragma of a request into ctx, if the location
 * has mcds_cache_request_control.  Returns NGX_OK, or NGX_ERROR when out of
 * memory.
 */

ngx_int_t ngx_http_mcds_request_cc(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);


#endif /* _NGX_HTTP_MCDS_REQUEST_CC_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * mcds_cache_invalidate.
 */


#ifndef _NGX_HTTP_MCDS_INVALIDATE_H_INCLUDED_
#define _NGX_HTTP_MCDS_INVALIDATE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"


/*
 * mcds_cache_invalidate.  merge: of a level with the one above.
 * start: r may be a request that changes something.
 * arrive: it has reached a location that answers, where the page may have
 * another key.  init: of the filters that see its answer.
 */

void ngx_http_mcds_invalidate_merge(ngx_http_mcds_cache_conf_t *prev,
    ngx_http_mcds_cache_conf_t *conf);
ngx_int_t ngx_http_mcds_invalidate_start(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);
ngx_int_t ngx_http_mcds_invalidate_arrive(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);
void ngx_http_mcds_invalidate_init(void);
char *ngx_http_mcds_cache_invalidate(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);


#endif /* _NGX_HTTP_MCDS_INVALIDATE_H_INCLUDED_ */

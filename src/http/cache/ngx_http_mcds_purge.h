
/*
 * Copyright (C) mcds authors
 *
 * mcds_purge_api.
 */


#ifndef _NGX_HTTP_MCDS_PURGE_H_INCLUDED_
#define _NGX_HTTP_MCDS_PURGE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"


typedef enum {
    NGX_HTTP_MCDS_MODE_INVALIDATE = 0,
    NGX_HTTP_MCDS_MODE_DELETE,
    NGX_HTTP_MCDS_MODE_REFRESH
} ngx_http_mcds_purge_mode_e;


struct ngx_http_mcds_purge_s {
    ngx_uint_t                    mode;      /* of the directive */
    ngx_uint_t                    how;       /* ngx_mcds_purge_e */
    ngx_str_t                     method;
    ngx_array_t                  *when;      /* as predicates, or NULL */
    ngx_uint_t                    off;
    ngx_uint_t                    handler;
};


/*
 * mcds_purge_api.  asked: 1 if r purges its page.  start: begins that, for
 * r in the phase; NGX_ERROR: out of memory.  end: when it was answered;
 * NGX_AGAIN more is to come, NGX_OK the answer is content now.  handler: of
 * a location of its own.
 */

ngx_uint_t ngx_http_mcds_purge_asked(ngx_http_request_t *r,
    ngx_http_mcds_cache_conf_t *ccf);
ngx_int_t ngx_http_mcds_purge_start(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf);
ngx_int_t ngx_http_mcds_purge_end(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf);
ngx_int_t ngx_http_mcds_purge_handler(ngx_http_request_t *r);
void ngx_http_mcds_purge_merge(ngx_conf_t *cf,
    ngx_http_mcds_cache_conf_t *prev, ngx_http_mcds_cache_conf_t *conf);
ngx_uint_t ngx_http_mcds_purge_needs_pool(ngx_http_mcds_cache_conf_t *conf);
char *ngx_http_mcds_cache_purge(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);


#endif /* _NGX_HTTP_MCDS_PURGE_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * mcds_cache_tag.
 */


#ifndef _NGX_HTTP_MCDS_TAGS_H_INCLUDED_
#define _NGX_HTTP_MCDS_TAGS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"


/*
 * mcds_cache_tag.  start: asks for what was purged.  judge: of ctx->copy;
 * NGX_AGAIN when an answer is to come, NGX_OK with *verdict, one of
 * ngx_mcds_tags_e.  store: the extension of a page, empty without tags;
 * NGX_DECLINED: its tags cannot be stored.  renew: of a page that is still
 * the same.
 */

ngx_int_t ngx_http_mcds_tags_start(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf);
ngx_int_t ngx_http_mcds_tags_judge(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf,
    ngx_uint_t *verdict);
ngx_int_t ngx_http_mcds_tags_store(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf,
    ngx_str_t *ext);
ngx_int_t ngx_http_mcds_tags_renew(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_mcds_entry_t *entry);

char *ngx_http_mcds_cache_tag(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);


#endif /* _NGX_HTTP_MCDS_TAGS_H_INCLUDED_ */

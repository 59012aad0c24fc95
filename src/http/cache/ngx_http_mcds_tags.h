
/*
 * Copyright (C) mcds authors
 *
 * mcds_cache_tag: the tags of pages, and the purges by tag.
 */


#ifndef _NGX_HTTP_MCDS_TAGS_H_INCLUDED_
#define _NGX_HTTP_MCDS_TAGS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"


/*
 * Looks up the purges of the tags that the page is likely to have.  NGX_OK, or
 * NGX_ERROR when out of memory.
 */

ngx_int_t ngx_http_mcds_tags_start(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf);

/*
 * Compares the tags of ctx->copy with the purges.  NGX_OK: *verdict is set,
 * ngx_mcds_tags_e; NGX_AGAIN: a result is to come; NGX_ERROR: out of memory.
 */

ngx_int_t ngx_http_mcds_tags_judge(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf,
    ngx_uint_t *verdict);

/*
 * Sets *ext to the extension for the tags of a page to be stored; empty
 * without tags.  NGX_OK; NGX_DECLINED: the tags cannot be stored; NGX_ERROR:
 * out of memory.
 */

ngx_int_t ngx_http_mcds_tags_store(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf,
    ngx_str_t *ext);

/*
 * Updates the extension of a page that the origin has confirmed.  NGX_OK, or
 * NGX_ERROR when out of memory.
 */

ngx_int_t ngx_http_mcds_tags_renew(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_mcds_entry_t *entry);

/* the setter of mcds_cache_tag */

char *ngx_http_mcds_cache_tag(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);


#endif /* _NGX_HTTP_MCDS_TAGS_H_INCLUDED_ */

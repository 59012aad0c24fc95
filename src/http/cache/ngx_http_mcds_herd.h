
/*
 * Copyright (C) mcds authors
 *
 * What keeps herds from an origin beyond the lock: pauses after failures,
 * refreshes before the end, lifetimes that differ, pages that are worth it.
 */


#ifndef _NGX_HTTP_MCDS_HERD_H_INCLUDED_
#define _NGX_HTTP_MCDS_HERD_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"
#include "ngx_http_mcds_param.h"


/*
 * early: 1 if this request is to have a fresh page refreshed.  jitter: takes
 * mcds_cache_jitter off the lifetime of a page that is to be stored.
 */

ngx_uint_t ngx_http_mcds_herd_early(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf);
void ngx_http_mcds_herd_jitter(ngx_http_mcds_cache_conf_t *ccf,
    ngx_mcds_entry_t *entry);


/*
 * mcds_cache_min_uses, for a page that is not there.  NGX_OK: it is used often
 * enough, or that is not known; NGX_DECLINED: not yet; NGX_AGAIN: the answer is
 * to come, and ctx is woken then; NGX_ERROR: out of memory.
 */

ngx_int_t ngx_http_mcds_herd_uses(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf);


/* the answer that is to come is not waited for */

void ngx_http_mcds_herd_hurry(ngx_http_mcds_cache_ctx_t *ctx);


/* how copies of this host are used */

void ngx_http_mcds_herd_local(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf);


/* directives */

char *ngx_http_mcds_cache_error_backoff(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);

/* types of mcds_cache_local and mcds_cache_early */

char *ngx_http_mcds_herd_mode(ngx_conf_t *cf, ngx_http_mcds_param_t *param,
    ngx_str_t *text, void *conf);
char *ngx_http_mcds_herd_factor(ngx_conf_t *cf, ngx_http_mcds_param_t *param,
    ngx_str_t *text, void *conf);

void ngx_http_mcds_herd_init_conf(ngx_http_mcds_cache_conf_t *conf);
void ngx_http_mcds_herd_merge_conf(ngx_http_mcds_cache_conf_t *prev,
    ngx_http_mcds_cache_conf_t *conf);


#endif /* _NGX_HTTP_MCDS_HERD_H_INCLUDED_ */

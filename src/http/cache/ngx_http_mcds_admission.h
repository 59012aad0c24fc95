
/*
 * Copyright (C) mcds authors
 *
 * Protects the origin from a cache stampede beyond the lock: back-off after
 * failures, early refreshes, lifetimes with jitter, pages that are stored only
 * after some uses.
 */


#ifndef _NGX_HTTP_MCDS_ADMISSION_H_INCLUDED_
#define _NGX_HTTP_MCDS_ADMISSION_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"
#include "ngx_http_mcds_param.h"


/*
 * Returns 1 if this request is to refresh a page that is still fresh,
 * mcds_cache_early.
 */

ngx_uint_t ngx_http_mcds_admission_early(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf);

/* shortens the lifetime of a page that is to be stored by mcds_cache_jitter */

void ngx_http_mcds_admission_jitter(ngx_http_mcds_cache_conf_t *ccf,
    ngx_mcds_entry_t *entry);


/*
 * Counts a request for a page that is not stored, for mcds_cache_min_uses.
 * NGX_OK: the page has enough uses, or memcached has failed; NGX_DECLINED: too
 * few; NGX_AGAIN: the result wakes the task of ctx; NGX_ERROR: out of memory.
 */

ngx_int_t ngx_http_mcds_admission_uses(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf);


/* ends the request's wait for the count of uses of its page */

void ngx_http_mcds_admission_hurry(ngx_http_mcds_cache_ctx_t *ctx);


/*
 * Sets up ctx->waiter for mcds_cache_local: the use of copies in the shared
 * memory of this host.
 */

void ngx_http_mcds_admission_local(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf);


/* the setter of mcds_cache_error_backoff */

char *ngx_http_mcds_cache_error_backoff(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);

/* parses the value of mcds_cache_local */

char *ngx_http_mcds_admission_mode(ngx_conf_t *cf, ngx_http_mcds_param_t *param,
    ngx_str_t *text, void *conf);

/* parses the value of mcds_cache_early */

char *ngx_http_mcds_admission_factor(ngx_conf_t *cf,
    ngx_http_mcds_param_t *param, ngx_str_t *text, void *conf);

/*
 * sets the fields of a zeroed configuration of the cache that belong to this
 * file to "unset"
 */

void ngx_http_mcds_admission_init_conf(ngx_http_mcds_cache_conf_t *conf);

/*
 * merges the fields of a level's cache configuration that belong to this file
 */

void ngx_http_mcds_admission_merge_conf(ngx_http_mcds_cache_conf_t *prev,
    ngx_http_mcds_cache_conf_t *conf);


#endif /* _NGX_HTTP_MCDS_ADMISSION_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * Protects the origin from a cache stampede, in addition to mcds_cache_lock:
 * back-off after failures, early refreshes, lifetimes with jitter, pages that
 * are stored only after some uses, or not at all.
 */


#ifndef _NGX_HTTP_MCDS_ADMISSION_H_INCLUDED_
#define _NGX_HTTP_MCDS_ADMISSION_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"
#include "ngx_http_mcds_param.h"


/*
 * Returns 1 if this request is to refresh a page that is still fresh, as
 * mcds_cache_early lets some requests do.
 */

ngx_uint_t ngx_http_mcds_admission_early(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf);

/*
 * before a page is stored, shortens its lifetime (entry->expire) by a random
 * part of it, at most by mcds_cache_jitter percent
 */

void ngx_http_mcds_admission_jitter(ngx_http_mcds_cache_conf_t *ccf,
    ngx_mcds_entry_t *entry);


/*
 * Returns 1 if the rules of mcds_no_cache, both in the location that responds
 * and in the location that looked the page up, let the response be stored.
 */

ngx_uint_t ngx_http_mcds_admission_allowed(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf);


/*
 * Counts a request for a page that is not stored, for mcds_cache_min_uses.
 * NGX_OK: the page has enough uses to be stored, or memcached has failed;
 * NGX_DECLINED: it has too few; NGX_AGAIN: the request waits for the reply of
 * memcached; NGX_ERROR: out of memory.
 */

ngx_int_t ngx_http_mcds_admission_uses(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf);


/*
 * the request no longer waits for memcached to count a use of its page, for
 * mcds_cache_min_uses: the command is canceled
 */

void ngx_http_mcds_admission_hurry(ngx_http_mcds_cache_ctx_t *ctx);


/*
 * Copies the settings of mcds_cache_local (whether copies of pages on this host
 * are served, and for how long) into ctx->waiter, by which the request waits
 * for its page.
 */

void ngx_http_mcds_admission_local(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf);


/*
 * parses the directive mcds_cache_error_backoff, the pauses after failed
 * builds
 */

char *ngx_http_mcds_cache_error_backoff(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);

/*
 * parses the value of mcds_cache_local: how copies of pages on this host are
 * served
 */

char *ngx_http_mcds_admission_mode(ngx_conf_t *cf, ngx_http_mcds_param_t *param,
    ngx_str_t *text, void *conf);

/*
 * parses the value of mcds_cache_early, a factor: the larger it is, the earlier
 * requests refresh a page that is still fresh
 */

char *ngx_http_mcds_admission_factor(ngx_conf_t *cf,
    ngx_http_mcds_param_t *param, ngx_str_t *text, void *conf);

/*
 * sets the fields for mcds_cache_error_backoff and the time of
 * mcds_cache_local to "unset" in a zeroed configuration of the cache
 */

void ngx_http_mcds_admission_init_conf(ngx_http_mcds_cache_conf_t *conf);

/*
 * for a block of the configuration, merges the times of
 * mcds_cache_error_backoff and mcds_cache_local (conf) with those of the
 * enclosing block (prev)
 */

void ngx_http_mcds_admission_merge_conf(ngx_http_mcds_cache_conf_t *prev,
    ngx_http_mcds_cache_conf_t *conf);


#endif /* _NGX_HTTP_MCDS_ADMISSION_H_INCLUDED_ */

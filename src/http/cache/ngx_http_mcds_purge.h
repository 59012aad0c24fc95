
/*
 * Copyright (C) mcds authors
 *
 * mcds_purge_api: purges pages by key, tag or host.
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
    ngx_uint_t                    mode;      /* "mode=" of mcds_purge_api:
                                                invalidate, delete or refresh,
                                                ngx_http_mcds_purge_mode_e */
    ngx_uint_t                    how;       /* whether mcds_purge_api expires
                                                or deletes pages,
                                                ngx_mcds_purge_e */
    ngx_str_t                     method;
    ngx_array_t                  *when;      /* conditions of mcds_purge_api
                                                under which a request purges
                                                its page, as predicates, or
                                                NULL */
    ngx_uint_t                    off;
    ngx_uint_t                    handler;
};


/* returns 1 if the request r purges the page of its own URI */

ngx_uint_t ngx_http_mcds_purge_asked(ngx_http_request_t *r,
    ngx_http_mcds_cache_conf_t *ccf);

/*
 * Starts, in the phase of the cache, the purge of the page of the request r;
 * the request waits for the reply of memcached.  Returns NGX_OK, or NGX_ERROR
 * when out of memory.
 */

ngx_int_t ngx_http_mcds_purge_start(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf);

/*
 * Ends, in the phase of the cache, the purge of the page of the request r,
 * when memcached has answered.  NGX_AGAIN: r has asked to rebuild the page, and
 * waits for another reply of memcached: call this function again after that
 * reply; NGX_OK: the content handler of r is set to send the result of the
 * purge to the client; NGX_ERROR: out of memory.
 */

ngx_int_t ngx_http_mcds_purge_end(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf);

/*
 * the content handler of a location with "mcds_purge_api on", which purges
 * pages for its clients
 */

ngx_int_t ngx_http_mcds_purge_handler(ngx_http_request_t *r);

/*
 * merges mcds_purge_api (how requests purge pages) of a configuration level,
 * conf, with that of its outer level, prev, and sets conf->get_conf to the
 * value of r->loc_conf for a GET request: that of prev if conf is a
 * "limit_except" block without effect on GET, otherwise that of conf
 */

void ngx_http_mcds_purge_merge(ngx_conf_t *cf,
    ngx_http_mcds_cache_conf_t *prev, ngx_http_mcds_cache_conf_t *conf);

/*
 * returns 1 if the location has "mcds_purge_api on": the location then needs a
 * pool of memcached servers even if it has no cache
 */

ngx_uint_t ngx_http_mcds_purge_needs_pool(ngx_http_mcds_cache_conf_t *conf);

/* parses the directive mcds_purge_api: how requests purge pages */

char *ngx_http_mcds_cache_purge(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);


#endif /* _NGX_HTTP_MCDS_PURGE_H_INCLUDED_ */

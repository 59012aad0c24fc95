
/*
 * Copyright (C) mcds authors
 *
 * The route of a request: what nginx itself has chosen for it, which is the
 * location that answers, as it is written in the configuration, and the URI and
 * the arguments that the request has ended with.  One URI of a client may lead
 * along several routes, to pages that differ: by "if", "rewrite", "try_files",
 * "error_page" or X-Accel-Redirect.  Headers that have an application take the
 * request for another one, see ngx_http_mcds_forwarded.h, belong to the route,
 * too.  A page is served only to requests that have come along its own route.
 */


#ifndef _NGX_HTTP_MCDS_ROUTE_H_INCLUDED_
#define _NGX_HTTP_MCDS_ROUTE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"


/* an extension of an entry, with its type and length */
#define NGX_HTTP_MCDS_ROUTE_EXT   (6 + NGX_HTTP_MCDS_ROUTE_LEN)


/*
 * While the configuration is merged: gives conf its part of a route.  Hosts
 * whose configurations are alike agree on it.
 */

void ngx_http_mcds_route_merge(ngx_conf_t *cf,
    ngx_http_mcds_cache_conf_t *prev, ngx_http_mcds_cache_conf_t *conf);


/*
 * begin: remembers in ctx what r is asked for, before its key is made.  here:
 * makes ctx->route the route that r has come by now; NGX_OK, or NGX_DECLINED if
 * it was another one; NGX_ERROR when out of memory.  inherit: r is the copy of
 * a request that rebuilds a page behind it.
 */

void ngx_http_mcds_route_begin(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);
ngx_int_t ngx_http_mcds_route_here(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);
ngx_int_t ngx_http_mcds_route_inherit(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_ctx_t *from);


/* 1 if r has been led to another location, or to another URI, since then */

ngx_uint_t ngx_http_mcds_route_left(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);


/*
 * The name that stands for the route in a list of varying headers, where pages
 * of one key differ by it; no header has it.  value: a text of the route.
 */

extern ngx_str_t  ngx_http_mcds_route_name;

#define NGX_HTTP_MCDS_ROUTE_TEXT  (2 * NGX_HTTP_MCDS_ROUTE_LEN)

void ngx_http_mcds_route_text(u_char *route, u_char *text);


/*
 * The extension.  put: writes it, the end is returned.  ext: adds it to the
 * extensions of a page, in memory of r's pool.  matches: 0 if the entry was
 * stored for another route; one that names none, as other programs may write
 * it, is for all.
 */

u_char *ngx_http_mcds_route_put(u_char *p, u_char *route);
ngx_int_t ngx_http_mcds_route_ext(ngx_http_request_t *r, u_char *route,
    ngx_str_t *ext);
ngx_uint_t ngx_http_mcds_route_matches(ngx_mcds_entry_t *entry,
    u_char *route);


#endif /* _NGX_HTTP_MCDS_ROUTE_H_INCLUDED_ */

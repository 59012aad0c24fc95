
/*
 * Copyright (C) mcds authors
 *
 * The route of a request is what nginx has chosen for it: the location that
 * responds, as written in the configuration, and the final URI and arguments.
 * By "if", "rewrite", "try_files", "error_page" or X-Accel-Redirect, requests
 * for one URI may take several routes, to different pages.  The headers of
 * ngx_http_mcds_forwarded.h belong to the route, too.  A page is served only to
 * requests with the same route as the request that stored the page.
 */


#ifndef _NGX_HTTP_MCDS_ROUTE_H_INCLUDED_
#define _NGX_HTTP_MCDS_ROUTE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"


/*
 * the size of that extension (optional field) of a page's entry which holds the
 * route (the way of a request through the locations), bytes: 6 bytes for the
 * type and the length of the extension, and the route
 */
#define NGX_HTTP_MCDS_ROUTE_EXT   (6 + NGX_HTTP_MCDS_ROUTE_LEN)


/*
 * Call this when a location is merged: computes the part that the location adds
 * to a request's route, its way through the locations.  Hosts with equal
 * configurations compute equal routes.
 */

void ngx_http_mcds_route_merge(ngx_conf_t *cf,
    ngx_http_mcds_cache_conf_t *prev, ngx_http_mcds_cache_conf_t *conf);


/*
 * stores in ctx, before the key of the page is made, the arguments that the
 * client has sent or, for a subrequest r, the URI and the arguments of r
 */

void ngx_http_mcds_route_begin(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);

/*
 * Sets ctx->route to the route (the way through the locations) that the
 * request r has taken up to now.  Returns NGX_OK; NGX_DECLINED if the route
 * was another one before; NGX_ERROR when out of memory.
 */

ngx_int_t ngx_http_mcds_route_here(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);

/*
 * Copies the route of a request, its way through the locations, from the
 * request's context "from" to ctx, the context of r, which is a background copy
 * of the request.  Returns NGX_OK, or NGX_ERROR when out of memory.
 */

ngx_int_t ngx_http_mcds_route_inherit(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_ctx_t *from);


/*
 * Returns 1 if the request r was redirected to another location, or to another
 * URI, after its route was set by ngx_http_mcds_route_here().
 */

ngx_uint_t ngx_http_mcds_route_left(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);


/*
 * The name that stands for the route (the way through the locations) in a list
 * of the headers that a page varies by, if pages of one key differ by route;
 * no header has this name.
 */

extern ngx_str_t  ngx_http_mcds_route_name;

#define NGX_HTTP_MCDS_ROUTE_TEXT  (2 * NGX_HTTP_MCDS_ROUTE_LEN)

/*
 * writes the id of a route, a way through the locations, as a text of
 * NGX_HTTP_MCDS_ROUTE_TEXT bytes
 */

void ngx_http_mcds_route_text(u_char *route, u_char *text);


/*
 * Writes the route of a request, its way through the locations, to p: as an
 * extension (a typed field behind the key) of the page's entry in memcached.
 * Returns the end of the extension.
 */

u_char *ngx_http_mcds_route_put(u_char *p, u_char *route);

/*
 * Extensions are optional fields behind the key in a page's entry; "ext" has
 * those of the request's page.  Puts one more in front of them: the route of
 * the request, its way through the locations.  Uses memory of r->pool.  Returns
 * NGX_OK, or NGX_ERROR when out of memory.
 */

ngx_int_t ngx_http_mcds_route_ext(ngx_http_request_t *r, u_char *route,
    ngx_str_t *ext);

/*
 * Returns 0 if the entry of a page was stored by requests of another route
 * through the locations.  An entry without a route, as other programs may
 * write it, matches all routes.
 */

ngx_uint_t ngx_http_mcds_route_matches(ngx_mcds_entry_t *entry,
    u_char *route);


#endif /* _NGX_HTTP_MCDS_ROUTE_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * A background refresh: a copy of a client's request that runs in the
 * background, without a client, to build a stale page again or for other work
 * of mcds.
 */


#ifndef _NGX_HTTP_MCDS_REFRESH_H_INCLUDED_
#define _NGX_HTTP_MCDS_REFRESH_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>


/*
 * The handler of a refresh, a request without a client, which builds a page
 * again, for example: called once, when the request has ended, successfully or
 * not.  rc is the code of the request's finalization.  If nginx has sent an
 * error page, for an error such as 502, rc is NGX_OK, and the status is in
 * r->headers_out.  rc is NGX_OK, too, for a truncated response: then the body
 * filters have seen no buffer with last_in_chain.  The request and its pool
 * still exist; a posted event frees both soon after.
 */

typedef void (*ngx_http_mcds_refresh_pt)(ngx_http_request_t *r, void *data,
    ngx_int_t rc);


/*
 * The type of a function that sets v to the value that the variable var has in
 * the client's request r.  A refresh of a page is a request of its own, without
 * a client, in which variables of some features have no value.  Such a feature
 * provides a function of this type; a pointer to it is NULL if there is no such
 * feature.  NGX_OK, or NGX_DECLINED if var is not one of these variables or has
 * no value, or NGX_ERROR when out of memory.
 */

typedef ngx_int_t (*ngx_http_mcds_refresh_value_pt)(ngx_http_request_t *r,
    ngx_http_variable_t *var, ngx_http_variable_value_t *v);

extern ngx_http_mcds_refresh_value_pt  ngx_http_mcds_refresh_value;


/*
 * Makes a copy of the request r that has no client, to refresh a page or for
 * other work in the background.  It lives on a connection and a pool of its
 * own: a background subrequest of a main request that never runs, as GET,
 * without a body, without the Range, If-*, Expect, Upgrade, TE, Content-Length,
 * Transfer-Encoding, Trailer and hop-by-hop headers (RFC 9110, 7.6.1), and
 * without lines of Cache-Control that have only-if-cached: the response is for
 * all clients, and a cache before the origin would refuse to ask it.  Headers
 * named in Connection stay, as they do in nginx: otherwise a client could hide
 * from the origin a header that is part of the page's key.  Nothing in the copy
 * points into r or into r's connection, so r may end at any time.  The copy
 * continues at r's current phase, r->phase_handler, so that no earlier phase
 * runs again.
 *
 * Returns the copy, on which the caller sets its context; the copy runs from a
 * posted event, not inside this call.  NULL when out of memory or of
 * connections (logged): handler is not called then.  The caller may end a copy
 * with ngx_http_finalize_request() and NGX_ERROR at any time, even before the
 * copy has run; handler is called then.
 *
 * A filter that gets the output of the copy must not pass it down the chain
 * and must set header_sent: the copy has no client.
 */

ngx_http_request_t *ngx_http_mcds_refresh_create(ngx_http_request_t *r,
    ngx_http_mcds_refresh_pt handler, void *data);


/*
 * Returns the argument "data" of ngx_http_mcds_refresh_create(), if that call
 * has returned r, a copy of a client's request, and the handler of the refresh
 * has not been called yet.  An internal redirect of r, which clears its
 * contexts, does not change the data.  Returns NULL for any other request,
 * including subrequests of a copy.  The call costs a comparison.
 */

void *ngx_http_mcds_refresh_data(ngx_http_request_t *r);


/*
 * Removes from the request r, which is going to fill the cache, the headers
 * that a refresh of the page would leave out: from the list of request headers,
 * from the pointers to parsed headers, and from cached values of variables.
 * nginx still reads the body of r.  NGX_OK, or NGX_ERROR when out of memory.
 */

ngx_int_t ngx_http_mcds_refresh_strip(ngx_http_request_t *r);


/*
 * 1 if a refresh of a page leaves out the request header of this name; "_" in
 * the name counts as "-"
 */

ngx_uint_t ngx_http_mcds_refresh_unwanted(ngx_str_t *name);


#endif /* _NGX_HTTP_MCDS_REFRESH_H_INCLUDED_ */

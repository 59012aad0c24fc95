
/*
 * Copyright (C) mcds authors
 *
 * A detached refresh: runs the content handler of a page without a client,
 * after a client's request has shown that the page is stale.
 */


#ifndef _NGX_HTTP_MCDS_REFRESH_H_INCLUDED_
#define _NGX_HTTP_MCDS_REFRESH_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>


/*
 * Called once, when the detached request has ended, successfully or not.  rc
 * is the code that the request was finalized with.  If nginx has sent an error
 * page, for an error such as 502, rc is NGX_OK, and the status is in the
 * header that was filtered.  rc is NGX_OK, too, for a truncated response,
 * where the filter has seen no last_in_chain.  The request and its pool still
 * exist; a posted event frees both soon after.
 */

typedef void (*ngx_http_mcds_refresh_pt)(ngx_http_request_t *r, void *data,
    ngx_int_t rc);


/*
 * Makes a copy of r that lives on a connection and a pool of its own: a
 * background subrequest of a parked main request, as GET, without a body,
 * without the Range, If-*, Expect, Upgrade, TE, Content-Length,
 * Transfer-Encoding, Trailer and hop-by-hop headers (RFC 9110, 7.6.1).
 * Headers named in Connection stay, as they do in nginx: otherwise a client
 * could hide from the origin a header that is part of the page's key.  Nothing
 * in the copy points into r or into r's connection, so r may end at any time.
 * The copy continues at r's current phase, r->phase_handler, so that no
 * earlier phase runs again.
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
 * The data given to create, until handler has been called, when r is the copy,
 * even after an internal redirect has cleared its contexts.  NULL for any
 * other request, including subrequests of the copy.  Costs a comparison.
 */

void *ngx_http_mcds_refresh_data(ngx_http_request_t *r);


/*
 * Removes the headers that a refresh leaves out from r itself, for a request
 * that is going to fill the cache: from the list, from the parsed pointers,
 * and from cached values of variables.  The reading of the request's own body
 * does not change.  NGX_OK, or NGX_ERROR when out of memory.
 */

ngx_int_t ngx_http_mcds_refresh_strip(ngx_http_request_t *r);


/*
 * 1 if a refresh leaves out the header of this name; "_" in the name counts as
 * "-"
 */

ngx_uint_t ngx_http_mcds_refresh_unwanted(ngx_str_t *name);


#endif /* _NGX_HTTP_MCDS_REFRESH_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * A request of nobody: runs a page's content handler apart from the client
 * whose request showed that the page is stale.
 */


#ifndef _NGX_HTTP_MCDS_REFRESH_H_INCLUDED_
#define _NGX_HTTP_MCDS_REFRESH_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>


/*
 * Called once, when the detached request has ended, whether well or not.  rc
 * is what it was finalized with: an error status such as 502 comes here as
 * the NGX_OK of the error page that was sent for it, the status itself is in
 * the header that was filtered; and so does an answer that the origin broke
 * off, only that the filter has seen no last_in_chain then.  The request is
 * still there, its pool too; both go away in a posted event soon after.
 */

typedef void (*ngx_http_mcds_refresh_pt)(ngx_http_request_t *r, void *data,
    ngx_int_t rc);


/*
 * Makes a copy of r that lives on a connection and a pool of its own: a
 * background subrequest of a parked main request, as GET, without a body,
 * without the Range, If-*, Expect, Upgrade, TE, Content-Length,
 * Transfer-Encoding, Trailer and hop-by-hop headers (RFC 9110, 7.6.1).
 * Headers named in Connection stay, as they do in nginx: a client could hide
 * from the origin what the page's key was made of.  Nothing in the copy
 * points into r or into r's connection, so r may end at any time.  It goes on
 * at r's current phase, r->phase_handler, so that no earlier phase runs again.
 *
 * Returns the copy, on which the caller sets its context; it runs from a
 * posted event, not inside of this call.  NULL when out of memory or of
 * connections (logged): handler is not called then.  A copy that is not wanted
 * any more may be finalized with NGX_ERROR at any time, also before it ran;
 * handler is called then.
 *
 * Whoever filters the output of the copy must not pass it down the chain and
 * must set header_sent: the copy has no client.
 */

ngx_http_request_t *ngx_http_mcds_refresh_create(ngx_http_request_t *r,
    ngx_http_mcds_refresh_pt handler, void *data);


/*
 * The data given to create, until handler has been called, when r is the
 * copy, also after an internal redirect has wiped its contexts.  NULL for any
 * other request, subrequests of the copy included.  Costs a comparison.
 */

void *ngx_http_mcds_refresh_data(ngx_http_request_t *r);


/*
 * Takes the same headers away from r itself, for a request that is going to
 * fill the cache: from the list, from the parsed pointers, and what variables
 * remember of them.  How the request's own body is read stays as it was.
 */

ngx_int_t ngx_http_mcds_refresh_strip(ngx_http_request_t *r);


/* 1 if a header of this name is one of them */

ngx_uint_t ngx_http_mcds_refresh_unwanted(ngx_str_t *name);


#endif /* _NGX_HTTP_MCDS_REFRESH_H_INCLUDED_ */

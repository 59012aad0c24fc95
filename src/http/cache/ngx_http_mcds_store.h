
/*
 * Copyright (C) mcds authors
 *
 * Stores responses that pass the storing filter.
 */


#ifndef _NGX_HTTP_MCDS_STORE_H_INCLUDED_
#define _NGX_HTTP_MCDS_STORE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"


/*
 * Reads the response to the request r into *response, to decide whether it is
 * stored: the headers in r->headers_out and, for an upstream, all headers that
 * it has sent, r->upstream->headers_in.  status: taken as the status of the
 * response; ignore: the mask of mcds_ignore_headers.
 */

void ngx_http_mcds_response(ngx_http_request_t *r,
    ngx_http_mcds_cache_conf_t *ccf, ngx_mcds_response_t *response,
    ngx_uint_t status, ngx_uint_t ignore);

/*
 * Adds one more header of the response to *response; headers that were added
 * before have precedence; ignore: the mask of mcds_ignore_headers.
 */

void ngx_http_mcds_response_line(ngx_mcds_response_t *response, ngx_str_t *name,
    ngx_str_t *value, ngx_uint_t ignore);


/*
 * parses the date in an HTTP header as ngx_mcds_date_parse() does; the current
 * time decides the century of a year of two digits
 */

int64_t ngx_http_mcds_date(ngx_str_t *value);


/*
 * Sets *headers to the headers of the response to store, as "Name: value"
 * lines in memory of r->pool: those in the list of headers_out, and those that
 * nginx keeps elsewhere (Content-Type, Last-Modified, Date, X-Accel-Charset,
 * X-Accel-Limit-Rate); without hop-by-hop headers, headers that belong to one
 * response only, such as Set-Cookie, and headers that the response had before
 * the content handler ran, which each request adds again.  NGX_DECLINED: a
 * header cannot be stored as it is; NGX_ERROR: out of memory.
 */

ngx_int_t ngx_http_mcds_stored_headers(ngx_http_request_t *r,
    ngx_str_t *headers);

/*
 * Call this before the content handler of the request r runs: notes the
 * headers that the response has already, as they do not belong to the page.
 */

void ngx_http_mcds_carried(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);


/*
 * returns 1 if nginx, not the client, has to make the response's Location an
 * absolute URL
 */

ngx_uint_t ngx_http_mcds_stored_absolute(ngx_http_request_t *r);


/*
 * returns 1 if a response header of this name, such as Connection, is neither
 * stored nor sent from the cache
 */

ngx_uint_t ngx_http_mcds_header_dropped(ngx_str_t *name);


/*
 * Call this when the header of a response has come: begins to store the
 * response.  NGX_OK: the body is to be stored; otherwise the response is not
 * stored, or has an empty body and is stored already, and the build of the
 * page, if any, has ended or ends by itself.
 */

ngx_int_t ngx_http_mcds_store_begin(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf);

/*
 * Stores a part of the response's body, and ends the build of the page with
 * the last buffer, or when the response cannot be stored.
 */

void ngx_http_mcds_store_chain(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_chain_t *in);


/*
 * Ends the build of the page, if the request r builds it: the response is not
 * stored, for a reason of ngx_mcds_refuse_e; status: status of the response.
 */

void ngx_http_mcds_store_refuse(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_uint_t reason, ngx_uint_t status);

/*
 * Ends the build of the page, if the request r builds it, as failed, with a
 * back-off: the response says nothing about the stored page.
 */

void ngx_http_mcds_store_fail(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);


/*
 * Returns 1 if mcds_no_cache forbids to store the response: the build of the
 * page has ended then.
 */

ngx_uint_t ngx_http_mcds_store_apply_rule(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf);


/*
 * Call this when the request r was redirected to another location, after the
 * origin has responded: ends the build of the page, if the request builds it.
 * Returns NGX_MCDS_REASON_NONE, or the reason if the request must not get the
 * page of the new location from the cache: the redirect is not by
 * X-Accel-Redirect, or the origin's response has Vary or headers that forbid to
 * store the response, or mcds_no_cache does.  ignore: the mask of
 * mcds_ignore_headers in the location that the request has left.
 */

ngx_uint_t ngx_http_mcds_store_redirect(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_uint_t ignore);


/*
 * Returns 1 if ngx_http_mcds_store_chain() should not be called until handler
 * is called, once, from an event of its own: memcached stores the response too
 * slowly, or the worker has compressed so many bytes of the response at once
 * that other requests come first.  handler is not called after the response was
 * stored.
 */

ngx_uint_t ngx_http_mcds_store_waits(ngx_http_mcds_cache_ctx_t *ctx,
    void (*handler)(void *data));


/*
 * returns 1 if the response that is being stored is compressed, or will be
 * once it is long enough
 */

ngx_uint_t ngx_http_mcds_store_compresses(ngx_http_mcds_cache_ctx_t *ctx);


/*
 * Call this when the request is freed: the build of its page fails if the
 * origin has broken off its response.
 */

void ngx_http_mcds_store_aborted(ngx_http_mcds_cache_ctx_t *ctx);

/*
 * Gives up the build of a page by this request, whose slow client would delay
 * the page: another request builds the page.
 */

void ngx_http_mcds_store_leave(ngx_http_mcds_cache_ctx_t *ctx);

/* drops the part of the response that was stored so far */

void ngx_http_mcds_store_cleanup(ngx_http_mcds_cache_ctx_t *ctx);


#endif /* _NGX_HTTP_MCDS_STORE_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * What passes the storing filter is taken into an entry.
 */


#ifndef _NGX_HTTP_MCDS_STORE_H_INCLUDED_
#define _NGX_HTTP_MCDS_STORE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"


/*
 * The answer of r, whose headers are in r->headers_out and, when it came from
 * an upstream, as it was sent there in r->upstream->headers_in, as the
 * freshness rules want it; as if its status were the one that is given.  line:
 * one more header, less weighty than those before; ignore is cache_ignore of
 * the location.
 */

void ngx_http_mcds_answer(ngx_http_request_t *r,
    ngx_http_mcds_cache_conf_t *ccf, ngx_mcds_answer_t *answer,
    ngx_uint_t status);
void ngx_http_mcds_answer_line(ngx_mcds_answer_t *answer, ngx_str_t *name,
    ngx_str_t *value, ngx_uint_t ignore);


/* ngx_mcds_date_parse() of now */

int64_t ngx_http_mcds_date(ngx_str_t *value);


/*
 * The headers to be stored, "Name: value" lines in memory of r's pool: those
 * of headers_out, and what nginx keeps beside them (Content-Type,
 * Last-Modified, X-Accel-Charset, X-Accel-Limit-Rate); not the hop-by-hop
 * ones, not those that belong to one answer only, and not those of "carried",
 * which each request brings along again.  NGX_DECLINED if one of them cannot be
 * stored as it is; NGX_ERROR when out of memory.  carried: notes what is there,
 * the content handler of r is next.
 */

ngx_int_t ngx_http_mcds_stored_headers(ngx_http_request_t *r,
    ngx_str_t *headers);
void ngx_http_mcds_carried(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);


/* 1 if nginx, not the client, is to make an absolute URL of the Location */

ngx_uint_t ngx_http_mcds_stored_absolute(ngx_http_request_t *r);


/* 1 if a header of this name is neither stored nor sent from the store */

ngx_uint_t ngx_http_mcds_header_dropped(ngx_str_t *name);


/*
 * begin: the header of the answer has come; NGX_OK: the body is to be taken;
 * anything else: it is not, and those who wait have been told.  body: takes
 * more of it, and ends the build with its last buffer, or when it cannot be
 * stored.
 */

ngx_int_t ngx_http_mcds_store_begin(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf);
void ngx_http_mcds_store_body(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_chain_t *in);


/*
 * Ends the build of an answer that is not stored, if there is a build.  refuse:
 * by a reason of ngx_mcds_refuse_e, status is that of what was not stored;
 * fail: it says nothing about the page there is.
 */

void ngx_http_mcds_store_refuse(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_uint_t reason, ngx_uint_t status);
void ngx_http_mcds_store_fail(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);


/* 1 if mcds_no_cache says that the answer is not stored: then the build ends */

ngx_uint_t ngx_http_mcds_store_rule(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf);


/*
 * Ends the build, if there is one, of a request that the origin has led to
 * another location.  1: the origin's answer allows no page there either.
 */

ngx_uint_t ngx_http_mcds_store_left(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);


/*
 * 1 while memcached is far behind what was taken, or so much of it was
 * compressed that it is others' turn: no more should be given to body until
 * handler is called, once, from an event of its own; not any more when the
 * store was ended or cleaned up.
 */

ngx_uint_t ngx_http_mcds_store_waits(ngx_http_mcds_cache_ctx_t *ctx,
    void (*handler)(void *data));


/* 1 if what is taken is compressed, or will be when it is long enough */

ngx_uint_t ngx_http_mcds_store_compresses(ngx_http_mcds_cache_ctx_t *ctx);


/*
 * aborted: the request is being freed; the build fails if the origin has broken
 * off its answer.  leave: it would have to wait for the client; another request
 * is to build.  cleanup: drops what was taken so far.
 */

void ngx_http_mcds_store_aborted(ngx_http_mcds_cache_ctx_t *ctx);
void ngx_http_mcds_store_leave(ngx_http_mcds_cache_ctx_t *ctx);
void ngx_http_mcds_store_cleanup(ngx_http_mcds_cache_ctx_t *ctx);


#endif /* _NGX_HTTP_MCDS_STORE_H_INCLUDED_ */

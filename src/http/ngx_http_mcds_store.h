
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
#include "ngx_http_mcds_module.h"


/*
 * The answer of r, whose headers are in r->headers_out and, when it came from
 * an upstream, as it was sent there in r->upstream->headers_in, as the
 * freshness rules want it.
 */

void ngx_http_mcds_answer(ngx_http_request_t *r, ngx_mcds_answer_t *answer);


/*
 * The headers to be stored, "Name: value" lines in memory of r's pool: those
 * of headers_out, and what nginx keeps beside them (Content-Type,
 * Last-Modified); not the hop-by-hop ones, and not those that belong to one
 * answer only.  NGX_DECLINED if one of them cannot be stored as it is;
 * NGX_ERROR when out of memory.
 */

ngx_int_t ngx_http_mcds_stored_headers(ngx_http_request_t *r,
    ngx_str_t *headers);


/* 1 if a header of this name is neither stored nor sent from the store */

ngx_uint_t ngx_http_mcds_header_dropped(ngx_str_t *name);


/*
 * begin: the header of the answer has come; NGX_OK: the body is to be taken;
 * anything else: it is not, and those who wait have been told.  body: takes
 * more of it, and ends the build with its last buffer, or when it cannot be
 * stored.
 */

ngx_int_t ngx_http_mcds_store_begin(ngx_http_request_t *r,
    ngx_http_mcds_ctx_t *ctx, ngx_http_mcds_loc_conf_t *mlcf);
void ngx_http_mcds_store_body(ngx_http_request_t *r, ngx_http_mcds_ctx_t *ctx,
    ngx_chain_t *in);


/* 0 while memcached is far behind what was taken */

ngx_uint_t ngx_http_mcds_store_hurries(ngx_http_mcds_ctx_t *ctx);


/* drops what was taken so far */

void ngx_http_mcds_store_cleanup(ngx_http_mcds_ctx_t *ctx);


#endif /* _NGX_HTTP_MCDS_STORE_H_INCLUDED_ */

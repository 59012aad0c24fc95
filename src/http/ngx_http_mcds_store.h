
/*
 * Copyright (C) mcds authors
 *
 * The storing filter: what passes is taken into an entry.
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


/* drops what was taken so far */

void ngx_http_mcds_store_cleanup(ngx_http_mcds_ctx_t *ctx);


#endif /* _NGX_HTTP_MCDS_STORE_H_INCLUDED_ */

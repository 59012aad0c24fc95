
/*
 * Copyright (C) mcds authors
 *
 * Pages that vary, RFC 9111, 4.1: which variant of a list a request gets, and
 * which names a response adds.  Functions that ask nothing and change no state
 * of a request.
 */


#ifndef _NGX_HTTP_MCDS_VARY_H_INCLUDED_
#define _NGX_HTTP_MCDS_VARY_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"


/*
 * The key of the variant that belongs to the request: that of the page, with
 * what the request says by the names of a list of this generation, and its
 * route, if the list has that name.  hash: the entry of the variant in the
 * list.  NGX_OK, or NGX_ERROR when out of memory.
 */

ngx_int_t ngx_http_mcds_vary_key(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_str_t *names, uint64_t generation,
    u_char *hash, ngx_str_t *key);


/*
 * The names of a response's Vary, and Accept-Encoding if the response is
 * encoded; when the response can be found by them, it may be stored, and
 * answer says neither.  covered: 1 if the list at hand has all names of
 * ctx->vary.names.
 */

void ngx_http_mcds_vary_answer(ngx_http_request_t *r,
    ngx_mcds_answer_t *answer, ngx_str_t *names);
ngx_uint_t ngx_http_mcds_vary_covered(ngx_http_mcds_cache_ctx_t *ctx);


/*
 * purged: 1 if the origin was asked for ctx->copy before its list was purged;
 * expire: when ctx->copy expires, by itself or by that purge.  stamp: says in
 * an entry that is to be stored which purges were known before.
 */

#define ngx_http_mcds_vary_purged(ctx)                                        \
    ((ctx)->vary.list                                                         \
     && (ctx)->vary.list->entry.purges != (ctx)->copy->entry.purges)

uint64_t ngx_http_mcds_vary_expire(ngx_http_mcds_cache_ctx_t *ctx);
void ngx_http_mcds_vary_stamp(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_mcds_entry_t *entry);


#endif /* _NGX_HTTP_MCDS_VARY_H_INCLUDED_ */

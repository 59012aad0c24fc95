
/*
 * Copyright (C) mcds authors
 *
 * Pages that vary, RFC 9111, 4.1: which variant a request gets, and what is
 * done with an answer that has Vary.
 */


#ifndef _NGX_HTTP_MCDS_VARIANT_H_INCLUDED_
#define _NGX_HTTP_MCDS_VARIANT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"


/*
 * Looks up the page of ctx->key, where ctx->seat is.  If this worker knows
 * that it varies, its variant is looked up instead, and in the same turn
 * whether the list is still the one that is known.
 */

ngx_int_t ngx_http_mcds_variant_lookup(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf);


/*
 * After an answer.  NGX_OK: ctx->copy, if there is one, is no list;
 * NGX_AGAIN: another answer is to come; NGX_BUSY: the page is not for the
 * cache, its lists change all the time; NGX_ERROR.
 */

ngx_int_t ngx_http_mcds_variant(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf);


/* looks up what there is under ctx->key now: NGX_AGAIN, or NGX_ERROR */

ngx_int_t ngx_http_mcds_variant_again(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf);


/*
 * answer: the names of an answer's Vary to ctx->vary.names, and Accept-Encoding
 * if it is encoded; when the answer can be found by them, that is no reason not
 * to store it.  covered: 1 if the list at hand has all of these names.  begin:
 * the answer is to be stored; *seat: where, which is not ctx->seat when its
 * list is a new one.
 */

void ngx_http_mcds_variant_answer(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_mcds_answer_t *answer);
ngx_uint_t ngx_http_mcds_variant_covered(ngx_http_mcds_cache_ctx_t *ctx);
ngx_int_t ngx_http_mcds_variant_begin(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf,
    ngx_mcds_seat_t **seat);


/*
 * The end of the body.  NGX_DECLINED: there is nothing special about it.
 * Otherwise value and split, which may be NULL, are taken over, and the build
 * has ended or will end by itself.
 */

ngx_int_t ngx_http_mcds_variant_store(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_mcds_value_t *value,
    ngx_mcds_entry_t *entry, ngx_mcds_split_t *split);


/*
 * Under the key lies a page, or a list, that does not tell routes apart, see
 * ngx_http_mcds_route.h; the request has come along another one.  Stores a list
 * that does in its place.  NGX_AGAIN: the page is looked up again after that;
 * NGX_BUSY: it is not for the cache; NGX_ERROR.  hurry: it is not waited for
 * any longer.
 */

ngx_int_t ngx_http_mcds_variant_fork(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf);
void ngx_http_mcds_variant_unfork(ngx_http_mcds_cache_ctx_t *ctx);
void ngx_http_mcds_variant_hurry(ngx_http_mcds_cache_ctx_t *ctx);


/* from a list to another one that has just replaced it, and so on */
#define NGX_HTTP_MCDS_TURNS       4


/* the key of the request's variant, and its values to hash */

ngx_int_t ngx_http_mcds_variant_key(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_str_t *names, uint64_t generation,
    u_char *hash, ngx_str_t *key);


/*
 * purged: 1 if the origin was asked for ctx->copy before its list was purged;
 * expire: when ctx->copy expires, by itself or by that purge.  stamp: says in
 * an entry that is to be stored which purges were known before.
 */

ngx_uint_t ngx_http_mcds_variant_purged(ngx_http_mcds_cache_ctx_t *ctx);
uint64_t ngx_http_mcds_variant_expire(ngx_http_mcds_cache_ctx_t *ctx);
void ngx_http_mcds_variant_stamp(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_mcds_entry_t *entry);


/* the copy that builds behind a request goes on with its list */
void ngx_http_mcds_variant_inherit(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_ctx_t *from);


void ngx_http_mcds_variant_cleanup(ngx_http_mcds_cache_ctx_t *ctx);


#endif /* _NGX_HTTP_MCDS_VARIANT_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * Pages with variants, RFC 9111, 4.1: which variant of a page a request gets,
 * and which names of headers a response adds to the page's list of variants.
 * The functions send no commands to memcached, and do not change the state of a
 * request.
 */


#ifndef _NGX_HTTP_MCDS_VARY_H_INCLUDED_
#define _NGX_HTTP_MCDS_VARY_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"


/*
 * the maximum number of lists of variants of a page that one request reads or
 * stores, as other requests may replace each list that the request has read
 */
#define NGX_HTTP_MCDS_VARIANT_LISTS  4


/*
 * The functions for variants of pages that the rest of the cache calls.
 *
 * key: sets *key to the key of the request's variant: the key of the page, the
 * id of its list of variants (the generation), and a hash.  The hash is made of
 * the request's values of the headers in names and, if names has the route, of
 * the request's way through the locations.  Sets *hash to the hash in binary,
 * as it is in the list.  NGX_OK, or NGX_ERROR when out of memory.
 *
 * names, covers: see ngx_mcds_vary.h.
 *
 * response: sets *names to the names in Vary, with Accept-Encoding if the
 * response has a coding.  If these names suffice to find the response, it may
 * be stored, and response->vary and response->encoded are cleared.
 *
 * covered: returns 1 if the current list of variants distinguishes all headers
 * in ctx->vary.names.
 *
 * begin, store, fork, unfork, hurry: see ngx_http_mcds_variant.h.
 */

typedef struct {
    ngx_int_t   (*key)(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx,
                    ngx_str_t *names, uint64_t generation, u_char *hash,
                    ngx_str_t *key);
    void        (*names)(ngx_str_t *ext, ngx_str_t *names);
    ngx_uint_t  (*covers)(ngx_str_t *a, ngx_str_t *b);

    void        (*response)(ngx_http_request_t *r,
                    ngx_mcds_response_t *response, ngx_str_t *names);
    ngx_uint_t  (*covered)(ngx_http_mcds_cache_ctx_t *ctx);

    ngx_int_t   (*begin)(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx,
                    ngx_http_mcds_cache_conf_t *ccf,
                    ngx_mcds_waiter_t **waiter);
    ngx_int_t   (*store)(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx,
                    ngx_mcds_value_t *value, ngx_mcds_entry_t *entry,
                    ngx_mcds_split_t *split);
    ngx_int_t   (*fork)(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx,
                    ngx_http_mcds_cache_conf_t *ccf);
    void        (*unfork)(ngx_http_mcds_cache_ctx_t *ctx);
    void        (*hurry)(ngx_http_mcds_cache_ctx_t *ctx);
} ngx_http_mcds_varying_t;


/*
 * The functions for variants of pages; NULL: this build of mcds has no variants
 * (MCDS_WITHOUT), then no request has a list of variants, and a response with
 * Vary is not stored.
 */

extern ngx_http_mcds_varying_t  *ngx_http_mcds_varying;
extern ngx_http_mcds_varying_t   ngx_http_mcds_vary_functions;


/* functions for variants of pages that only vary.c and variant_store.c use */

ngx_int_t ngx_http_mcds_vary_key(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_str_t *names, uint64_t generation,
    u_char *hash, ngx_str_t *key);
ngx_uint_t ngx_http_mcds_vary_covered(ngx_http_mcds_cache_ctx_t *ctx);


/*
 * returns 1 if the page was purged, as its list of variants says, after the
 * variant ctx->snapshot was requested from the origin
 */

#define ngx_http_mcds_vary_purged(ctx)                                        \
    ((ctx)->vary.list                                                         \
     && (ctx)->vary.list->entry.purges != (ctx)->snapshot->entry.purges)

/*
 * Returns the time at which the page ctx->snapshot expires, by itself or by a
 * purge of its list of variants; milliseconds since the epoch.
 */

uint64_t ngx_http_mcds_vary_expire(ngx_http_mcds_cache_ctx_t *ctx);

/*
 * notes in the entry of a variant to be stored how many purges the page's list
 * of variants has seen
 */

void ngx_http_mcds_vary_note_purges(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_mcds_entry_t *entry);


#endif /* _NGX_HTTP_MCDS_VARY_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * Whether a request may be answered with the page that was found for it.
 */


#ifndef _NGX_HTTP_MCDS_JUDGE_H_INCLUDED_
#define _NGX_HTTP_MCDS_JUDGE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"


typedef enum {
    NGX_HTTP_MCDS_JUDGE_VALID = 0,  /* the page that was found is served */
    NGX_HTTP_MCDS_JUDGE_STALE,      /* the page has expired, or was purged; the
                                       judgement's "state" says whether it may
                                       still be served */
    NGX_HTTP_MCDS_JUDGE_GONE,       /* the page that was found must not be
                                       served */
    NGX_HTTP_MCDS_JUDGE_AGAIN,      /* the request looks up its page once more:
                                       another page may be stored by now */
    NGX_HTTP_MCDS_JUDGE_WAIT,       /* the request waits until memcached has
                                       answered about the page's tags, then
                                       judges the page once more */
    NGX_HTTP_MCDS_JUDGE_ERROR       /* it cannot be judged whether to serve the
                                       page: out of memory */
} ngx_http_mcds_judge_e;


typedef struct {
    ngx_http_mcds_cache_conf_t  *conf;
    ngx_mcds_entry_t            *entry;   /* the entry of the page that is
                                             judged; after a purge, a copy of
                                             it with an earlier expiry */
    ngx_mcds_entry_t             expired; /* copy of the page's entry, with the
                                             expiry that a purge has set */
    uint64_t                     now;
    ngx_uint_t                   reason;  /* why the page is stale or gone,
                                             ngx_mcds_reason_e */
    ngx_uint_t                   state;   /* how the page may be used at its
                                             age, ngx_mcds_fresh_e */

    unsigned                     waited:1; /* the request has waited for the
                                              page */
    unsigned                     built:1; /* the page was built while the
                                             request waited */
} ngx_http_mcds_judgement_t;


/*
 * Judges whether the request is served with ctx->snapshot, after a lookup of
 * the page as well as after a wait for it; returns ngx_http_mcds_judge_e, and
 * sets *j.
 */

ngx_uint_t ngx_http_mcds_judge(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf,
    ngx_http_mcds_judgement_t *j);

/*
 * Returns NGX_OK if the page ctx->snapshot is signed as its location, ccf,
 * requires and, if the page's body is stored in parts, those parts that are in
 * memory are signed, too.  Otherwise NGX_DECLINED.
 */

ngx_int_t ngx_http_mcds_judge_signed(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf);


#endif /* _NGX_HTTP_MCDS_JUDGE_H_INCLUDED_ */


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
    NGX_HTTP_MCDS_JUDGE_VALID = 0,  /* serve the page */
    NGX_HTTP_MCDS_JUDGE_STALE,      /* the page has expired, or was purged;
                                       "state" says how long ago */
    NGX_HTTP_MCDS_JUDGE_GONE,       /* the page must not be served */
    NGX_HTTP_MCDS_JUDGE_AGAIN,      /* look up the key once more: another page
                                       may be stored by now */
    NGX_HTTP_MCDS_JUDGE_WAIT,       /* a result is to come; then judge the page
                                       once more */
    NGX_HTTP_MCDS_JUDGE_ERROR       /* out of memory */
} ngx_http_mcds_judge_e;


typedef struct {
    ngx_http_mcds_cache_conf_t  *conf;
    ngx_mcds_entry_t            *entry;   /* of the page, or "expired" */
    ngx_mcds_entry_t             expired; /* copy of the entry that a purge has
                                             expired */
    uint64_t                     now;
    ngx_uint_t                   reason;  /* ngx_mcds_reason_e; for STALE and
                                             GONE */
    ngx_uint_t                   state;   /* ngx_mcds_fresh_e; for STALE */

    unsigned                     waited:1; /* the request has waited for a
                                              page */
    unsigned                     built:1; /* this page was built during the
                                             wait */
} ngx_http_mcds_judgement_t;


/*
 * Judges ctx->snapshot, after a lookup as well as after a wait; returns
 * ngx_http_mcds_judge_e, and sets *j.
 */

ngx_uint_t ngx_http_mcds_judge(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf,
    ngx_http_mcds_judgement_t *j);

/*
 * NGX_OK if ctx->snapshot is signed as ccf requires; for a page in parts, this
 * includes the parts that are in memory.  Otherwise NGX_DECLINED.
 */

ngx_int_t ngx_http_mcds_judge_signed(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf);


#endif /* _NGX_HTTP_MCDS_JUDGE_H_INCLUDED_ */


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
    NGX_HTTP_MCDS_JUDGE_VALID = 0,  /* the page answers the request */
    NGX_HTTP_MCDS_JUDGE_STALE,      /* the page has expired, or was purged;
                                       "state" says how long ago */
    NGX_HTTP_MCDS_JUDGE_GONE,       /* the page must not answer the request */
    NGX_HTTP_MCDS_JUDGE_AGAIN,      /* another page may lie there by now: the
                                       key is to be looked up once more */
    NGX_HTTP_MCDS_JUDGE_WAIT,       /* a reply is to come; then the page is to
                                       be judged once more */
    NGX_HTTP_MCDS_JUDGE_ERROR       /* out of memory */
} ngx_http_mcds_judge_e;


typedef struct {
    ngx_http_mcds_cache_conf_t  *conf;
    ngx_mcds_entry_t            *entry;   /* the page, or "expired" */
    ngx_mcds_entry_t             expired; /* the page, purged before its end */
    uint64_t                     now;
    ngx_uint_t                   reason;  /* ngx_mcds_reason_e; of STALE and
                                             GONE */
    ngx_uint_t                   state;   /* ngx_mcds_fresh_e; of STALE */

    unsigned                     waited:1; /* the request has waited for a page
                                              that was to be built */
    unsigned                     built:1; /* ... and this is that page */
} ngx_http_mcds_judgement_t;


/*
 * judge: runs the list of judges over ctx->copy, after a look-up and after a
 * wait alike; an ngx_http_mcds_judge_e.  judge_signed: NGX_OK if the page is
 * signed as ccf wants it; of a page in parts, those parts, too, that are in
 * memory.
 */

ngx_uint_t ngx_http_mcds_judge(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf,
    ngx_http_mcds_judgement_t *j);
ngx_int_t ngx_http_mcds_judge_signed(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf);


#endif /* _NGX_HTTP_MCDS_JUDGE_H_INCLUDED_ */

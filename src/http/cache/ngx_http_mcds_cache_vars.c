
/*
 * Copyright (C) mcds authors
 *
 * Tells how the cache has handled a request, and why: the variables, and the
 * header Cache-Status (RFC 9211).
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_header.h"
#include "ngx_http_mcds_cache.h"
#include "ngx_http_mcds_cache_vars.h"


static ngx_int_t ngx_http_mcds_status_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_mcds_reason_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_mcds_age_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_mcds_ttl_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_mcds_lock_wait_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_mcds_cache_vars_ttl(ngx_http_mcds_cache_ctx_t *ctx);
static u_char *ngx_http_mcds_cache_vars_forward(u_char *p,
    ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx);


#define ngx_http_mcds_status_word(name, word)  ngx_string(#name),

static ngx_str_t  ngx_http_mcds_statuses[NGX_HTTP_MCDS_STATUSES] = {
    NGX_MCDS_STATUS_LIST(ngx_http_mcds_status_word)
};


/*
 * the words of $mcds_cache_status in a dry run; empty: the status has the same
 * word as without a dry run
 */

#define ngx_http_mcds_dry_status_word(name, word)                             \
    [NGX_HTTP_MCDS_##name] = ngx_string(#name "_DRY_RUN"),

static ngx_str_t  ngx_http_mcds_dry_statuses[NGX_HTTP_MCDS_STATUSES] = {
    NGX_MCDS_DRY_STATUS_LIST(ngx_http_mcds_dry_status_word)
};


static ngx_http_variable_t  ngx_http_mcds_cache_variables[] = {

    { ngx_string("mcds_cache_status"), NULL,
      ngx_http_mcds_status_variable, 0,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("mcds_cache_reason"), NULL,
      ngx_http_mcds_reason_variable, 0,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("mcds_cache_age"), NULL,
      ngx_http_mcds_age_variable, 0,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("mcds_cache_ttl"), NULL,
      ngx_http_mcds_ttl_variable, 0,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("mcds_cache_lock_wait"), NULL,
      ngx_http_mcds_lock_wait_variable, 0,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

      ngx_http_null_variable
};


ngx_int_t
ngx_http_mcds_cache_vars_add(ngx_conf_t *cf)
{
    return ngx_http_mcds_add_vars(cf, ngx_http_mcds_cache_variables);
}


static ngx_int_t
ngx_http_mcds_status_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_str_t                  *status;
    ngx_http_mcds_cache_ctx_t  *ctx;

    ctx = ngx_http_mcds_cache_get(r);

    if (ctx == NULL || ctx->status == NGX_HTTP_MCDS_NONE) {
        v->not_found = 1;
        return NGX_OK;
    }

    status = &ngx_http_mcds_statuses[ctx->status];

    if (ctx->dry && ngx_http_mcds_dry_statuses[ctx->status].len) {
        status = &ngx_http_mcds_dry_statuses[ctx->status];
    }

    v->data = status->data;
    v->len = status->len;
    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;

    return NGX_OK;
}


static ngx_int_t
ngx_http_mcds_reason_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_http_mcds_cache_ctx_t  *ctx;

    ctx = ngx_http_mcds_cache_get(r);

    if (ctx == NULL || ctx->reason == NGX_MCDS_REASON_NONE) {
        v->not_found = 1;
        return NGX_OK;
    }

    v->data = ngx_mcds_reasons[ctx->reason].data;
    v->len = ngx_mcds_reasons[ctx->reason].len;
    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;

    return NGX_OK;
}


static ngx_int_t
ngx_http_mcds_age_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    u_char                     *p;
    uint32_t                    age;
    ngx_http_mcds_cache_ctx_t  *ctx;

    ctx = ngx_http_mcds_cache_get(r);

    if (ctx == NULL || !ngx_http_mcds_serving(ctx)) {
        v->not_found = 1;
        return NGX_OK;
    }

    p = ngx_pnalloc(r->pool, NGX_INT32_LEN);
    if (p == NULL) {
        return NGX_ERROR;
    }

    age = ngx_mcds_fresh_age(&ctx->snapshot->entry, ngx_mcds_now());

    v->data = p;
    v->len = ngx_sprintf(p, "%uD", age) - p;
    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;

    return NGX_OK;
}


static ngx_int_t
ngx_http_mcds_ttl_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    u_char                     *p;
    ngx_http_mcds_cache_ctx_t  *ctx;

    ctx = ngx_http_mcds_cache_get(r);

    if (ctx == NULL || ctx->expire == 0) {
        v->not_found = 1;
        return NGX_OK;
    }

    p = ngx_pnalloc(r->pool, NGX_INT64_LEN);
    if (p == NULL) {
        return NGX_ERROR;
    }

    v->data = p;
    v->len = ngx_sprintf(p, "%i", ngx_http_mcds_cache_vars_ttl(ctx)) - p;
    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;

    return NGX_OK;
}


/*
 * returns the seconds until the page of a request expires, rounded down;
 * negative if it has expired
 */

static ngx_int_t
ngx_http_mcds_cache_vars_ttl(ngx_http_mcds_cache_ctx_t *ctx)
{
    uint64_t  now;

    now = ngx_mcds_now();

    return (ctx->expire >= now)
           ? (ngx_int_t) ((ctx->expire - now) / 1000)
           : - (ngx_int_t) ((now - ctx->expire + 999) / 1000);
}


static ngx_int_t
ngx_http_mcds_lock_wait_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    u_char                     *p;
    ngx_http_mcds_cache_ctx_t  *ctx;

    ctx = ngx_http_mcds_cache_get(r);

    if (ctx == NULL || !ctx->awaited) {
        v->not_found = 1;
        return NGX_OK;
    }

    p = ngx_pnalloc(r->pool, NGX_TIME_T_LEN + 4);
    if (p == NULL) {
        return NGX_ERROR;
    }

    v->data = p;
    v->len = ngx_sprintf(p, "%T.%03M", (time_t) ctx->lock_wait / 1000,
                         ctx->lock_wait % 1000)
             - p;
    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;

    return NGX_OK;
}


ngx_int_t
ngx_http_mcds_cache_vars_header(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx)
{
    u_char            *p;
    ngx_str_t          value;

    static ngx_str_t   name = ngx_string("Cache-Status");

    if (!ctx->conf->cache_status_header || r != r->main) {
        return NGX_OK;
    }

    p = ngx_pnalloc(r->pool, sizeof("mcds; fwd=vary-miss; fwd-status=;"
                                    " collapsed; stored; ttl=; detail=")
                             + 2 * NGX_INT64_LEN
                             + ngx_mcds_reasons[ctx->reason].len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    value.data = p;

    p = ngx_cpymem(p, "mcds", 4);

    if (ngx_http_mcds_serving(ctx)
        && ctx->reason != NGX_MCDS_REASON_BUILT
        && !ctx->instead)
    {
        p = ngx_cpymem(p, "; hit", 5);

    } else {
        p = ngx_http_mcds_cache_vars_forward(p, r, ctx);
    }

    if (ctx->expire) {
        p = ngx_sprintf(p, "; ttl=%i", ngx_http_mcds_cache_vars_ttl(ctx));
    }

    if (ctx->reason != NGX_MCDS_REASON_NONE) {
        p = ngx_sprintf(p, "; detail=%V", &ngx_mcds_reasons[ctx->reason]);
    }

    value.len = p - value.data;

    return ngx_http_mcds_header_add(r, &name, &value) ? NGX_OK : NGX_ERROR;
}


static u_char *
ngx_http_mcds_cache_vars_forward(u_char *p, ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx)
{
    /*
     * Cache-Status has no "fwd": the request was refused, by 503 as the page
     * was not built, or by 504 for only-if-cached, and was not forwarded.
     */

    if (ctx->state == NGX_HTTP_MCDS_STATE_REFUSE) {
        return p;
    }

    switch (ctx->status) {

    case NGX_HTTP_MCDS_NONE:
        p = ngx_sprintf(p, "; fwd=%s", (ctx->reason == NGX_MCDS_REASON_METHOD)
                                      ? "method" : "bypass");
        break;

    case NGX_HTTP_MCDS_BYPASS:
        p = ngx_sprintf(p, "; fwd=%s", ctx->unaccepted ? "request" : "bypass");
        break;

    case NGX_HTTP_MCDS_EXPIRED:
    case NGX_HTTP_MCDS_STALE:
    case NGX_HTTP_MCDS_UPDATING:
    case NGX_HTTP_MCDS_REVALIDATED:
        p = ngx_sprintf(p, "; fwd=stale");
        break;

    case NGX_HTTP_MCDS_HIT:

        if (ctx->dry) {
            p = ngx_sprintf(p, "; fwd=bypass");
            break;
        }

        /* fall through */

    default:
        p = ngx_sprintf(p, "; fwd=%s",
                        ctx->vary.list ? "vary-miss" : "uri-miss");
        break;
    }

    if (ctx->reason == NGX_MCDS_REASON_BUILT && !ctx->dry) {
        return ngx_sprintf(p, "; collapsed");
    }

    if (r->upstream && r->upstream->headers_in.status_n) {
        p = ngx_sprintf(p, "; fwd-status=%ui",
                        r->upstream->headers_in.status_n);
    }

    if (ctx->store || ctx->renewed) {
        p = ngx_sprintf(p, "; stored");
    }

    return p;
}

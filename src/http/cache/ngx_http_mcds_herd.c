
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <math.h>
#include "ngx_http_mcds_name.h"
#include "ngx_http_mcds_cache.h"
#include "ngx_http_mcds_herd.h"


/* uses are counted for so long, as "inactive" of proxy_cache_path; seconds */
#define NGX_HTTP_MCDS_USES_TTL    600

/* of mcds_cache_local timed; ms */
#define NGX_HTTP_MCDS_TIMED       1000

/* the largest mcds_cache_error_backoff; ms */
#define NGX_HTTP_MCDS_BACKOFF_MAX 86400000


static void ngx_http_mcds_herd_used(void *data, ngx_mcds_result_t *result);
static void ngx_http_mcds_herd_cleanup(void *data);
static double ngx_http_mcds_herd_random(void);
static ngx_int_t ngx_http_mcds_herd_number(ngx_str_t *value);


static ngx_str_t  ngx_http_mcds_uses_suffix =
    ngx_string(NGX_HTTP_MCDS_USES_SUFFIX);


/*
 * Vattani, Chierichetti, Lowenstein: Optimal Probabilistic Cache Stampede
 * Prevention, VLDB 2015: the nearer the end, and the longer the origin takes,
 * the likelier.
 */

ngx_uint_t
ngx_http_mcds_herd_early(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf)
{
    double             ahead;
    uint64_t           now;
    ngx_mcds_entry_t  *entry;

    entry = &ctx->copy->entry;

    if (ccf->cache_early == 0 || entry->took == 0) {
        return 0;
    }

    now = ngx_mcds_now();

    ahead = - log(ngx_http_mcds_herd_random())
            * entry->took * ccf->cache_early / 100;

    return (double) now + ahead >= (double) entry->expire;
}


/* more than 0, at most 1 */

static double
ngx_http_mcds_herd_random(void)
{
    return (double) ((ngx_random() & 0x7fffffff) + 1.0) / 0x80000000U;
}


void
ngx_http_mcds_herd_jitter(ngx_http_mcds_cache_conf_t *ccf,
    ngx_mcds_entry_t *entry)
{
    double  off;

    if (ccf->cache_jitter == 0 || entry->expire <= entry->created) {
        return;
    }

    off = (double) (entry->expire - entry->created) * ccf->cache_jitter / 100
          * ngx_http_mcds_herd_random();

    entry->expire -= (uint64_t) off;
}


ngx_int_t
ngx_http_mcds_herd_uses(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf)
{
    ngx_pool_cleanup_t  *cln;
    ngx_mcds_request_t   req;

    if (ccf->cache_min_uses <= 1
        || ctx->outcome == NGX_MCDS_PAGE_FAILED)
    {
        return NGX_OK;
    }

    if (ctx->uses) {
        return ctx->uses < ccf->cache_min_uses ? NGX_DECLINED : NGX_OK;
    }

    cln = ngx_pool_cleanup_add(r->pool, 0);
    if (cln == NULL) {
        return NGX_ERROR;
    }

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.verb = NGX_MCDS_INCR;
    req.want = NGX_MCDS_VALUE;
    req.key = ctx->key;
    req.suffix = ngx_http_mcds_uses_suffix;
    req.by_key = 1;
    req.single = 1;
    req.page = 1;
    req.movable = 1;
    req.initial = 1;
    req.delta = 1;
    req.ttl = NGX_HTTP_MCDS_USES_TTL;

    ctx->use.handler = ngx_http_mcds_herd_used;
    ctx->use.data = ctx;

    ngx_mcds_submit(ccf->cache_pool, &req, &ctx->use);

    cln->handler = ngx_http_mcds_herd_cleanup;
    cln->data = &ctx->use;

    ctx->uses = NGX_MAX_UINT32_VALUE;
    ctx->task->waiting++;

    return NGX_AGAIN;
}


static void
ngx_http_mcds_herd_used(void *data, ngx_mcds_result_t *result)
{
    ngx_http_mcds_cache_ctx_t *ctx = data;

    uint64_t  n;

    if (result->rc == NGX_MCDS_OK
        && (result->has & NGX_MCDS_VALUE)
        && ngx_mcds_parse_number(result->data, result->len, &n) == NGX_OK)
    {
        ctx->uses = (ngx_uint_t) ngx_min(n, NGX_MAX_UINT32_VALUE);
    }

    ngx_http_mcds_task_wake(ctx->task);
}


static void
ngx_http_mcds_herd_cleanup(void *data)
{
    ngx_mcds_cancel(data);
}


void
ngx_http_mcds_herd_hurry(ngx_http_mcds_cache_ctx_t *ctx)
{
    if (ngx_mcds_op_active(&ctx->use)) {
        ngx_mcds_cancel(&ctx->use);
        ngx_http_mcds_task_wake(ctx->task);
    }
}


void
ngx_http_mcds_herd_local(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf)
{
    ctx->seat.local = ccf->cache_local;
    ctx->seat.local_time = ccf->cache_local_time;
}


/* off, or the first pause and the longest */

char *
ngx_http_mcds_cache_error_backoff(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    ngx_http_mcds_cache_conf_t *ccf = conf;

    ngx_int_t    ms;
    ngx_str_t   *value;
    ngx_uint_t   i;

    if (ccf->cache_backoff != NGX_CONF_UNSET_MSEC) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (value[1].len == 3 && ngx_strncmp(value[1].data, "off", 3) == 0) {

        if (cf->args->nelts == 3) {
            return "\"off\" takes no further parameter";
        }

        ccf->cache_backoff = 0;
        ccf->cache_backoff_max = 0;
        return NGX_CONF_OK;
    }

    for (i = 1; i < cf->args->nelts; i++) {
        ms = ngx_parse_time(&value[i], 0);

        if (ms == NGX_ERROR || ms < 1000 || ms > NGX_HTTP_MCDS_BACKOFF_MAX) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid time \"%V\" in \"%V\", it must be "
                               "1s to 1d", &value[i], &cmd->name);
            return NGX_CONF_ERROR;
        }

        if (i == 1) {
            ccf->cache_backoff = ms;

        } else {
            ccf->cache_backoff_max = ms;
        }
    }

    if (cf->args->nelts == 2) {
        ccf->cache_backoff_max = ngx_max(ccf->cache_backoff, 60000);
    }

    if (ccf->cache_backoff_max < ccf->cache_backoff) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "the second time of \"%V\" is less than the first",
                           &cmd->name);
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


/* off, validated, timed or timed=time */

char *
ngx_http_mcds_cache_local(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mcds_cache_conf_t *ccf = conf;

    ngx_int_t   ms;
    ngx_str_t  *value, s;

    if (ccf->cache_local != NGX_CONF_UNSET_UINT) {
        return "is duplicate";
    }

    value = cf->args->elts;
    s = value[1];

    if (s.len == 3 && ngx_strncmp(s.data, "off", 3) == 0) {
        ccf->cache_local = NGX_MCDS_LOCAL_OFF;
        return NGX_CONF_OK;
    }

    if (s.len == 9 && ngx_strncmp(s.data, "validated", 9) == 0) {
        ccf->cache_local = NGX_MCDS_LOCAL_VALIDATED;
        return NGX_CONF_OK;
    }

    if (s.len < 5 || ngx_strncmp(s.data, "timed", 5) != 0
        || (s.len > 5 && s.data[5] != '='))
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid value \"%V\" in \"%V\", it must be "
                           "\"off\", \"validated\" or \"timed=\" and a time",
                           &value[1], &cmd->name);
        return NGX_CONF_ERROR;
    }

    ccf->cache_local = NGX_MCDS_LOCAL_TIMED;
    ccf->cache_local_time = NGX_HTTP_MCDS_TIMED;

    if (s.len == 5) {
        return NGX_CONF_OK;
    }

    s.data += 6;
    s.len -= 6;

    ms = ngx_parse_time(&s, 0);

    if (ms == NGX_ERROR || ms == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid time \"%V\" in \"%V\"", &value[1],
                           &cmd->name);
        return NGX_CONF_ERROR;
    }

    ccf->cache_local_time = ms;

    return NGX_CONF_OK;
}


/* off, on, or a factor as "1.5" */

char *
ngx_http_mcds_cache_early(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mcds_cache_conf_t *ccf = conf;

    ngx_int_t   n;
    ngx_str_t  *value;

    if (ccf->cache_early != NGX_CONF_UNSET_UINT) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (value[1].len == 3 && ngx_strncmp(value[1].data, "off", 3) == 0) {
        ccf->cache_early = 0;
        return NGX_CONF_OK;
    }

    if (value[1].len == 2 && ngx_strncmp(value[1].data, "on", 2) == 0) {
        ccf->cache_early = 100;
        return NGX_CONF_OK;
    }

    n = ngx_atofp(value[1].data, value[1].len, 2);

    if (n < 1 || n > 10000) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid value \"%V\" in \"%V\", it must be "
                           "\"on\", \"off\" or a factor up to 100", &value[1],
                           &cmd->name);
        return NGX_CONF_ERROR;
    }

    ccf->cache_early = n;

    return NGX_CONF_OK;
}


/* off, or percent of the lifetime */

char *
ngx_http_mcds_cache_jitter(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mcds_cache_conf_t *ccf = conf;

    ngx_int_t   n;
    ngx_str_t  *value;

    if (ccf->cache_jitter != NGX_CONF_UNSET_UINT) {
        return "is duplicate";
    }

    value = cf->args->elts;

    n = ngx_http_mcds_herd_number(&value[1]);

    if (n == NGX_ERROR) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid value \"%V\" in \"%V\", it must be "
                           "\"off\" or 1%% to 90%%", &value[1], &cmd->name);
        return NGX_CONF_ERROR;
    }

    ccf->cache_jitter = n;

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_http_mcds_herd_number(ngx_str_t *value)
{
    size_t     len;
    ngx_int_t  n;

    len = value->len;

    if (len == 3 && ngx_strncmp(value->data, "off", 3) == 0) {
        return 0;
    }

    if (len && value->data[len - 1] == '%') {
        len--;
    }

    n = ngx_atoi(value->data, len);

    return (n < 1 || n > 90) ? NGX_ERROR : n;
}


void
ngx_http_mcds_herd_init_conf(ngx_http_mcds_cache_conf_t *conf)
{
    conf->cache_backoff = NGX_CONF_UNSET_MSEC;
    conf->cache_backoff_max = NGX_CONF_UNSET_MSEC;
    conf->cache_local = NGX_CONF_UNSET_UINT;
    conf->cache_local_time = NGX_CONF_UNSET_MSEC;
    conf->cache_early = NGX_CONF_UNSET_UINT;
    conf->cache_jitter = NGX_CONF_UNSET_UINT;
    conf->cache_min_uses = NGX_CONF_UNSET_UINT;
}


void
ngx_http_mcds_herd_merge_conf(ngx_http_mcds_cache_conf_t *prev,
    ngx_http_mcds_cache_conf_t *conf)
{
    ngx_conf_merge_msec_value(conf->cache_backoff, prev->cache_backoff, 2000);
    ngx_conf_merge_msec_value(conf->cache_backoff_max,
                              prev->cache_backoff_max, 60000);

    ngx_conf_merge_uint_value(conf->cache_local, prev->cache_local,
                              NGX_MCDS_LOCAL_OFF);
    ngx_conf_merge_msec_value(conf->cache_local_time, prev->cache_local_time,
                              NGX_HTTP_MCDS_TIMED);

    ngx_conf_merge_uint_value(conf->cache_early, prev->cache_early, 0);
    ngx_conf_merge_uint_value(conf->cache_jitter, prev->cache_jitter, 0);
    ngx_conf_merge_uint_value(conf->cache_min_uses, prev->cache_min_uses, 1);
}

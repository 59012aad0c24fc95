
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <math.h>
#include "ngx_http_mcds_name.h"
#include "ngx_http_mcds_param_type.h"
#include "ngx_http_mcds_variables.h"
#include "ngx_http_mcds_cache.h"
#include "ngx_http_mcds_admission.h"


/*
 * seconds after which the number of a page's uses, for mcds_cache_min_uses, is
 * forgotten, as with "inactive" of proxy_cache_path
 */
#define NGX_HTTP_MCDS_USES_TTL    600

/*
 * the default time of "mcds_cache_local timed", for which a copy of a page is
 * served without asking memcached, milliseconds
 */
#define NGX_HTTP_MCDS_TIMED       1000

/*
 * the defaults of mcds_cache_error_backoff, milliseconds: the first and the
 * longest back-off after failed builds of a page
 */
#define NGX_HTTP_MCDS_BACKOFF     2000
#define NGX_HTTP_MCDS_BACKOFF_MAX 60000


static void ngx_http_mcds_admission_used(void *data, ngx_mcds_result_t *result);
static void ngx_http_mcds_admission_cleanup(void *data);
static double ngx_http_mcds_admission_random(void);


static ngx_str_t  ngx_http_mcds_uses_suffix =
    ngx_string(NGX_HTTP_MCDS_USES_SUFFIX);


/*
 * The probability that a request refreshes a page that is still fresh grows
 * with the time that the origin takes, and the nearer the page is to its
 * expiry: Vattani, Chierichetti, Lowenstein, Optimal Probabilistic Cache
 * Stampede Prevention, VLDB 2015.
 */

ngx_uint_t
ngx_http_mcds_admission_early(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf)
{
    double             ahead;
    uint64_t           now;
    ngx_mcds_entry_t  *entry;

    entry = &ctx->snapshot->entry;

    if (ccf->cache_early == 0 || entry->took == 0) {
        return 0;
    }

    now = ngx_mcds_now();

    ahead = - log(ngx_http_mcds_admission_random())
            * entry->took * ccf->cache_early / 100;

    return (double) now + ahead >= (double) entry->expire;
}


/* returns a random number above 0, at most 1, for mcds_cache_early */

static double
ngx_http_mcds_admission_random(void)
{
    return (double) ((ngx_random() & 0x7fffffff) + 1.0) / 0x80000000U;
}


void
ngx_http_mcds_admission_jitter(ngx_http_mcds_cache_conf_t *ccf,
    ngx_mcds_entry_t *entry)
{
    double  off;

    if (ccf->cache_jitter == 0 || entry->expire <= entry->created) {
        return;
    }

    off = (double) (entry->expire - entry->created) * ccf->cache_jitter / 100
          * ngx_http_mcds_admission_random();

    entry->expire -= (uint64_t) off;
}


ngx_uint_t
ngx_http_mcds_admission_allowed(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf)
{
    ngx_uint_t                  allowed;
    ngx_http_variable_value_t  *others;

    if (ccf->no_cache == NULL && ctx->asker->no_cache == NULL) {
        return 1;
    }

    if (ngx_http_mcds_variables_own(&ctx->task->park, &others) != NGX_OK) {
        return 0;
    }

    allowed = ngx_http_test_predicates(r, ccf->no_cache) == NGX_OK
              && (ctx->asker == ccf
                  || ngx_http_test_predicates(r, ctx->asker->no_cache)
                     == NGX_OK);

    ngx_http_mcds_variables_set(r, others);

    return allowed;
}


ngx_int_t
ngx_http_mcds_admission_uses(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf)
{
    ngx_pool_cleanup_t  *cln;
    ngx_mcds_request_t   req;

    if (ccf->cache_min_uses <= 1
        || ctx->outcome == NGX_MCDS_PAGE_NO_REPLY)
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

    ctx->use.handler = ngx_http_mcds_admission_used;
    ctx->use.data = ctx;

    ngx_mcds_submit(ccf->cache_pool, &req, &ctx->use);

    cln->handler = ngx_http_mcds_admission_cleanup;
    cln->data = &ctx->use;

    ctx->uses = NGX_MAX_UINT32_VALUE;
    ctx->task->waiting++;

    return NGX_AGAIN;
}


static void
ngx_http_mcds_admission_used(void *data, ngx_mcds_result_t *result)
{
    ngx_http_mcds_cache_ctx_t *ctx = data;

    uint64_t  n;

    if (result->rc == NGX_MCDS_OK
        && (result->has & NGX_MCDS_VALUE)
        && ngx_mcds_parse_number(result->data, result->len, &n) == NGX_OK)
    {
        ctx->uses = (ngx_uint_t) ngx_min(n, NGX_MAX_UINT32_VALUE);
    }

    ngx_http_mcds_task_result(ctx->task);
}


static void
ngx_http_mcds_admission_cleanup(void *data)
{
    ngx_mcds_cancel(data);
}


void
ngx_http_mcds_admission_hurry(ngx_http_mcds_cache_ctx_t *ctx)
{
    if (ngx_mcds_op_active(&ctx->use)) {
        ngx_mcds_cancel(&ctx->use);
        ngx_http_mcds_task_result(ctx->task);
    }
}


void
ngx_http_mcds_admission_local(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf)
{
    ctx->waiter.local = ccf->cache_local;
    ctx->waiter.local_time = ccf->cache_local_time;
}


/*
 * the arguments of mcds_cache_error_backoff are the first pause after a failed
 * build, or "off", and the longest one
 */

static ngx_conf_enum_t  ngx_http_mcds_backoff_off[] = {
    { ngx_string("off"), 0 },
    { ngx_null_string, 0 }
};


static ngx_http_mcds_param_t  ngx_http_mcds_backoff_params[] = {

    { ngx_string("time"),
      ngx_http_mcds_param_msec,
      ngx_http_mcds_field(ngx_http_mcds_cache_conf_t, cache_backoff),
      1000, 86400000, NGX_HTTP_MCDS_BACKOFF, ngx_http_mcds_backoff_off },

    { ngx_string("max"),
      ngx_http_mcds_param_msec,
      ngx_http_mcds_field(ngx_http_mcds_cache_conf_t, cache_backoff_max),
      1000, 86400000, 0, NULL },

      ngx_http_mcds_params_end
};


char *
ngx_http_mcds_cache_error_backoff(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    ngx_http_mcds_cache_conf_t *ccf = conf;

    if (ccf->cache_backoff != NGX_CONF_UNSET_MSEC) {
        return "is duplicate";
    }

    if (ngx_http_mcds_params(cf, cmd, 1, ngx_http_mcds_backoff_params, ccf)
        != NGX_CONF_OK)
    {
        return NGX_CONF_ERROR;
    }

    if (cf->args->nelts == 2 && ccf->cache_backoff) {
        ccf->cache_backoff_max = ngx_max(ccf->cache_backoff,
                                         NGX_HTTP_MCDS_BACKOFF_MAX);
    }

    if (ccf->cache_backoff_max < ccf->cache_backoff) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "the second time of \"%V\" is less than the first",
                           &cmd->name);
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


/*
 * parses the value of mcds_cache_local: "off", "validated", "timed" or
 * "timed=time"
 */

char *
ngx_http_mcds_admission_mode(ngx_conf_t *cf, ngx_http_mcds_param_t *param,
    ngx_str_t *text, void *conf)
{
    ngx_http_mcds_cache_conf_t *ccf = conf;

    ngx_str_t   time;
    ngx_msec_t  ms;

    ms = NGX_HTTP_MCDS_TIMED;

    if (ngx_http_mcds_is(text, "off")) {
        ccf->cache_local = NGX_MCDS_LOCAL_OFF;

    } else if (ngx_http_mcds_is(text, "validated")) {
        ccf->cache_local = NGX_MCDS_LOCAL_VALIDATED;

    } else {
        ccf->cache_local = NGX_MCDS_LOCAL_TIMED;

        if (text->len > 6 && ngx_strncmp(text->data, "timed=", 6) == 0) {
            time.data = text->data + 6;
            time.len = text->len - 6;
            ms = ngx_parse_time(&time, 0);

        } else if (!ngx_http_mcds_is(text, "timed")) {
            ms = 0;
        }
    }

    if (ms == 0 || ms == (ngx_msec_t) NGX_ERROR) {
        return "\"off\", \"validated\" or \"timed=\" and a time";
    }

    ccf->cache_local_time = ms;

    return NGX_CONF_OK;
}


/*
 * parses the value of mcds_cache_early: "on", "off" or a factor such as "1.5",
 * which is stored as a percentage
 */

char *
ngx_http_mcds_admission_factor(ngx_conf_t *cf, ngx_http_mcds_param_t *param,
    ngx_str_t *text, void *conf)
{
    ngx_int_t  n;

    if (ngx_http_mcds_is(text, "off")) {
        n = 0;

    } else if (ngx_http_mcds_is(text, "on")) {
        n = 100;

    } else {
        n = ngx_atofp(text->data, text->len, 2);

        if (n == 0) {
            n = NGX_ERROR;
        }
    }

    if (n < 0 || n > 10000) {
        return "\"on\", \"off\" or a factor up to 100";
    }

    ngx_http_mcds_param_put(param, conf, n);

    return NGX_CONF_OK;
}


void
ngx_http_mcds_admission_init_conf(ngx_http_mcds_cache_conf_t *conf)
{
    conf->cache_backoff = NGX_CONF_UNSET_MSEC;
    conf->cache_backoff_max = NGX_CONF_UNSET_MSEC;
    conf->cache_local_time = NGX_CONF_UNSET_MSEC;
}


void
ngx_http_mcds_admission_merge_conf(ngx_http_mcds_cache_conf_t *prev,
    ngx_http_mcds_cache_conf_t *conf)
{
    ngx_conf_merge_msec_value(conf->cache_backoff, prev->cache_backoff,
                              NGX_HTTP_MCDS_BACKOFF);
    ngx_conf_merge_msec_value(conf->cache_backoff_max,
                              prev->cache_backoff_max,
                              NGX_HTTP_MCDS_BACKOFF_MAX);

    ngx_conf_merge_msec_value(conf->cache_local_time, prev->cache_local_time,
                              NGX_HTTP_MCDS_TIMED);
}

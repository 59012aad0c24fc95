
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_module.h"
#include "ngx_http_mcds_nginx.h"
#include "ngx_http_mcds_herd.h"
#include "ngx_http_mcds_top.h"
#include "ngx_mcds_tally.h"
#include "ngx_http_mcds_counter.h"
#include "ngx_http_mcds_forwarded.h"
#include "ngx_http_mcds_ledger.h"
#include "ngx_http_mcds_route.h"
#include "ngx_http_mcds_site.h"
#include "ngx_http_mcds_stat.h"


#define NGX_HTTP_MCDS_LEVELS                                                  \
    NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF


static ngx_int_t ngx_http_mcds_add_variables(ngx_conf_t *cf);
static ngx_int_t ngx_http_mcds_init(ngx_conf_t *cf);
static ngx_int_t ngx_http_mcds_init_resolver(ngx_conf_t *cf,
    ngx_http_mcds_main_conf_t *mmcf);
static void *ngx_http_mcds_create_main_conf(ngx_conf_t *cf);
static void *ngx_http_mcds_create_loc_conf(ngx_conf_t *cf);
static char *ngx_http_mcds_merge_loc_conf(ngx_conf_t *cf, void *parent,
    void *child);
static char *ngx_http_mcds_merge_pools(ngx_conf_t *cf,
    ngx_http_mcds_loc_conf_t *conf);
static ngx_int_t ngx_http_mcds_check_counters(ngx_conf_t *cf,
    ngx_http_mcds_loc_conf_t *conf);
static ngx_int_t ngx_http_mcds_init_process(ngx_cycle_t *cycle);
static void ngx_http_mcds_exit_process(ngx_cycle_t *cycle);


static ngx_conf_post_t  ngx_http_mcds_max_size_post =
    { ngx_http_mcds_cache_max_size };

static ngx_conf_post_t  ngx_http_mcds_uncacheable_post =
    { ngx_http_mcds_cache_uncacheable };

static ngx_conf_post_t  ngx_http_mcds_lock_age_post =
    { ngx_http_mcds_cache_lock_age };

static ngx_conf_post_t  ngx_http_mcds_variants_post =
    { ngx_http_mcds_cache_max_variants };


static ngx_command_t  ngx_http_mcds_commands[] = {

    { ngx_string("mcds_pool"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_BLOCK|NGX_CONF_TAKE1,
      ngx_http_mcds_pool,
      NGX_HTTP_MAIN_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mcds_use"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_TAKE1,
      ngx_http_mcds_use,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mcds_zone"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_http_mcds_zone,
      NGX_HTTP_MAIN_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mcds_api_methods"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_1MORE,
      ngx_http_mcds_methods,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mcds_cache_label"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_TAKE1,
      ngx_http_mcds_cache_label,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mcds_counter"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_1MORE,
      ngx_http_mcds_counter,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mcds_counter_init"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_2MORE,
      ngx_http_mcds_counter_init,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mcds_counter_durable"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_TAKE2,
      ngx_http_mcds_counter_durable,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mcds_counter_buffer"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_TAKE2,
      ngx_http_mcds_counter_buffer,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mcds_visitor_counter"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_1MORE,
      ngx_http_mcds_visitor_counter,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mcds_counter_api"),
      NGX_HTTP_LOC_CONF|NGX_HTTP_LIF_CONF|NGX_CONF_1MORE,
      ngx_http_mcds_counters,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mcds_counter_top"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_1MORE,
      ngx_http_mcds_counter_top,
      NGX_HTTP_MAIN_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mcds_counter_writeback"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_TAKE123,
      ngx_http_mcds_counter_writeback,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mcds_return"),
      NGX_HTTP_LOC_CONF|NGX_HTTP_LIF_CONF|NGX_CONF_TAKE12,
      ngx_http_mcds_return,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mcds_cache"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_TAKE1,
      ngx_http_mcds_cache,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mcds_cache_key"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_TAKE1,
      ngx_http_set_complex_value_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_mcds_loc_conf_t, cache_key),
      NULL },

    { ngx_string("mcds_cache_key_args"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_1MORE,
      ngx_http_mcds_cache_key_args,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mcds_cache_status_header"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_FLAG,
      ngx_conf_set_flag_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_mcds_loc_conf_t, cache_status_header),
      NULL },

    { ngx_string("mcds_cache_dry_run"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_FLAG,
      ngx_conf_set_flag_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_mcds_loc_conf_t, cache_dry_run),
      NULL },

    { ngx_string("mcds_cache_site"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_TAKE1,
      ngx_http_mcds_cache_site,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mcds_cache_shared"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_FLAG,
      ngx_conf_set_flag_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_mcds_loc_conf_t, cache_shared),
      NULL },

    { ngx_string("mcds_cache_uncacheable"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_TAKE1,
      ngx_http_mcds_set_sec,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_mcds_loc_conf_t, cache_uncacheable),
      &ngx_http_mcds_uncacheable_post },

    { ngx_string("mcds_cache_compress"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_1MORE,
      ngx_http_mcds_cache_compress,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mcds_cache_hmac_key"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_1MORE,
      ngx_http_mcds_cache_hmac_key,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mcds_cache_tag"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_1MORE,
      ngx_http_mcds_cache_tag,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mcds_purge_api"),
      NGX_HTTP_MCDS_LEVELS|NGX_HTTP_LIF_CONF|NGX_CONF_1MORE,
      ngx_http_mcds_cache_purge,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mcds_cache_valid"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_1MORE,
      ngx_http_mcds_cache_valid,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_mcds_loc_conf_t, cache_valid),
      NULL },

    { ngx_string("mcds_cache_methods"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_1MORE,
      ngx_http_mcds_cache_methods,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mcds_cache_bypass"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_1MORE,
      ngx_http_set_predicate_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_mcds_loc_conf_t, cache_bypass),
      NULL },

    { ngx_string("mcds_no_cache"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_1MORE,
      ngx_http_set_predicate_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_mcds_loc_conf_t, no_cache),
      NULL },

    { ngx_string("mcds_cache_session_cookies"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_1MORE,
      ngx_http_mcds_cache_session_cookies,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mcds_cache_forwarded_headers"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_1MORE,
      ngx_http_mcds_cache_forwarded_headers,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mcds_ignore_headers"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_1MORE,
      ngx_http_mcds_ignore_headers,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mcds_cache_heuristic"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_TAKE12,
      ngx_http_mcds_cache_heuristic,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mcds_cache_max_size"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_TAKE1,
      ngx_http_mcds_set_size,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_mcds_loc_conf_t, cache_max_size),
      &ngx_http_mcds_max_size_post },

    { ngx_string("mcds_cache_lock"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_FLAG,
      ngx_conf_set_flag_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_mcds_loc_conf_t, cache_lock),
      NULL },

    { ngx_string("mcds_cache_lock_age"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_TAKE1,
      ngx_http_mcds_set_sec,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_mcds_loc_conf_t, cache_lock_age),
      &ngx_http_mcds_lock_age_post },

    { ngx_string("mcds_cache_lock_timeout"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_TAKE12,
      ngx_http_mcds_cache_lock_timeout,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mcds_cache_wait"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_TAKE1,
      ngx_http_mcds_set_msec,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_mcds_loc_conf_t, cache_wait),
      NULL },

    { ngx_string("mcds_cache_max_waiters"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_TAKE1,
      ngx_http_mcds_set_num,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_mcds_loc_conf_t, cache_max_waiters),
      NULL },

    { ngx_string("mcds_cache_max_variants"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_TAKE1,
      ngx_http_mcds_set_num,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_mcds_loc_conf_t, cache_max_variants),
      &ngx_http_mcds_variants_post },

    { ngx_string("mcds_cache_grace"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_TAKE12,
      ngx_http_mcds_cache_grace,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mcds_cache_background_update"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_TAKE1,
      ngx_http_mcds_cache_period,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_mcds_loc_conf_t, cache_update),
      NULL },

    { ngx_string("mcds_cache_request_control"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_FLAG,
      ngx_conf_set_flag_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_mcds_loc_conf_t, cache_request_control),
      NULL },

    { ngx_string("mcds_cache_invalidate"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_1MORE,
      ngx_http_mcds_cache_invalidate,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mcds_cache_error_backoff"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_TAKE12,
      ngx_http_mcds_cache_error_backoff,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mcds_cache_local"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_TAKE1,
      ngx_http_mcds_cache_local,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mcds_cache_early"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_TAKE1,
      ngx_http_mcds_cache_early,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mcds_cache_jitter"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_TAKE1,
      ngx_http_mcds_cache_jitter,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mcds_cache_min_uses"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_TAKE1,
      ngx_http_mcds_set_num,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_mcds_loc_conf_t, cache_min_uses),
      NULL },

    { ngx_string("mcds_cache_revalidate"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_FLAG,
      ngx_conf_set_flag_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_mcds_loc_conf_t, cache_revalidate),
      NULL },

    { ngx_string("mcds_cache_use_stale"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_1MORE,
      ngx_http_mcds_set_mask,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_mcds_loc_conf_t, cache_use_stale),
      ngx_http_mcds_use_stale_masks },

      ngx_null_command
};


static ngx_http_module_t  ngx_http_mcds_module_ctx = {
    ngx_http_mcds_add_variables,           /* preconfiguration */
    ngx_http_mcds_init,                    /* postconfiguration */

    ngx_http_mcds_create_main_conf,        /* create main configuration */
    NULL,                                  /* init main configuration */

    NULL,                                  /* create server configuration */
    NULL,                                  /* merge server configuration */

    ngx_http_mcds_create_loc_conf,         /* create location configuration */
    ngx_http_mcds_merge_loc_conf           /* merge location configuration */
};


ngx_module_t  ngx_http_mcds_module = {
    NGX_MODULE_V1,
    &ngx_http_mcds_module_ctx,             /* module context */
    ngx_http_mcds_commands,                /* module directives */
    NGX_HTTP_MODULE,                       /* module type */
    NULL,                                  /* init master */
    ngx_http_mcds_ledger_init,             /* init module */
    ngx_http_mcds_init_process,            /* init process */
    NULL,                                  /* init thread */
    NULL,                                  /* exit thread */
    ngx_http_mcds_exit_process,            /* exit process */
    ngx_http_mcds_ledger_exit,             /* exit master */
    NGX_MODULE_V1_PADDING
};


static ngx_int_t
ngx_http_mcds_add_variables(ngx_conf_t *cf)
{
    if (ngx_http_mcds_key_add_variables(cf) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_http_mcds_explain_add_variables(cf);
}


ngx_int_t
ngx_http_mcds_add_vars(ngx_conf_t *cf, ngx_http_variable_t *vars)
{
    ngx_http_variable_t  *var, *v;

    for (v = vars; v->name.len; v++) {
        var = ngx_http_add_variable(cf, &v->name, v->flags);
        if (var == NULL) {
            return NGX_ERROR;
        }

        var->get_handler = v->get_handler;
        var->data = v->data;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_mcds_init(ngx_conf_t *cf)
{
    ngx_array_t                *handlers;
    ngx_http_handler_pt        *h;
    ngx_http_core_main_conf_t  *cmcf;
    ngx_http_mcds_main_conf_t  *mmcf;

    /* always, see ngx_http_mcds_filter_init() */

    ngx_http_mcds_invalidate_init();

    mmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_mcds_module);

    if (ngx_http_mcds_top_init(cf, mmcf) != NGX_OK) {
        return NGX_ERROR;
    }

    if (ngx_http_mcds_zone_prepare(cf, mmcf) != NGX_OK) {
        return NGX_ERROR;
    }

    if (!mmcf->used) {
        return NGX_OK;
    }

    ngx_http_mcds_nginx_check(cf);

    if (ngx_http_mcds_zone_add(cf, mmcf) != NGX_OK
        || ngx_http_mcds_site_init(cf, mmcf) != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (ngx_http_mcds_init_resolver(cf, mmcf) != NGX_OK) {
        return NGX_ERROR;
    }

    cmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);

    handlers = &cmcf->phases[NGX_HTTP_PRECONTENT_PHASE].handlers;

    h = ngx_array_push_n(handlers, 2);
    if (h == NULL) {
        return NGX_ERROR;
    }

    /* nginx runs them from the last one to the first */

    h[1] = ngx_http_mcds_handler;

    h = handlers->elts;
    ngx_memmove(h + 1, h, (handlers->nelts - 2) * sizeof(*h));

    h[0] = ngx_http_mcds_decide_handler;

    if (mmcf->responses) {

        h = ngx_array_push(&cmcf->phases[NGX_HTTP_LOG_PHASE].handlers);
        if (h == NULL) {
            return NGX_ERROR;
        }

        *h = ngx_http_mcds_counters_log;
    }

    if (mmcf->inits) {
        ngx_http_mcds_counter_init_filters();
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_mcds_init_resolver(ngx_conf_t *cf, ngx_http_mcds_main_conf_t *mmcf)
{
    ngx_uint_t                 i;
    ngx_msec_t                 timeout;
    ngx_mcds_pool_t          **pools;
    ngx_http_core_loc_conf_t  *clcf;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    /* where there is none, nginx makes one without servers */

    if (clcf->resolver == NULL
        || !ngx_http_mcds_resolver_asks(clcf->resolver))
    {
        return NGX_OK;
    }

    timeout = clcf->resolver_timeout;

    if (timeout == NGX_CONF_UNSET_MSEC) {
        timeout = 30000;
    }

    pools = mmcf->pools.elts;

    for (i = 0; i < mmcf->pools.nelts; i++) {
        if (ngx_mcds_resolve_init(cf, pools[i], clcf->resolver, timeout)
            != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static void *
ngx_http_mcds_create_main_conf(ngx_conf_t *cf)
{
    ngx_http_mcds_main_conf_t  *mmcf;

    mmcf = ngx_pcalloc(cf->pool, sizeof(ngx_http_mcds_main_conf_t));
    if (mmcf == NULL) {
        return NULL;
    }

    if (ngx_array_init(&mmcf->pools, cf->pool, 2, sizeof(ngx_mcds_pool_t *))
        != NGX_OK
        || ngx_array_init(&mmcf->numbers, cf->pool, 4,
                          sizeof(ngx_http_mcds_number_var_t))
           != NGX_OK
        || ngx_array_init(&mmcf->writebacks, cf->pool, 2,
                          sizeof(ngx_http_mcds_writeback_t *))
           != NGX_OK
        || ngx_array_init(&mmcf->tops, cf->pool, 2,
                          sizeof(ngx_http_mcds_top_t *))
           != NGX_OK
        || ngx_array_init(&mmcf->sites, cf->pool, 4,
                          sizeof(ngx_http_mcds_site_t *))
           != NGX_OK
        || ngx_http_mcds_stat_init(cf, mmcf) != NGX_OK)
    {
        return NULL;
    }

    return mmcf;
}


static void *
ngx_http_mcds_create_loc_conf(ngx_conf_t *cf)
{
    ngx_http_mcds_loc_conf_t  *conf;

    conf = ngx_pcalloc(cf->pool, sizeof(ngx_http_mcds_loc_conf_t));
    if (conf == NULL) {
        return NULL;
    }

    /*
     * set by ngx_pcalloc():
     *
     *     conf->use = { 0, NULL };
     *     conf->pool = NULL;
     *     conf->methods = 0;
     *     conf->return_text = NULL;
     *     conf->show = NULL;
     */

    conf->counters = NGX_CONF_UNSET_PTR;
    conf->writeback = NGX_CONF_UNSET_PTR;

    ngx_http_mcds_cache_init_conf(conf);

    return conf;
}


static char *
ngx_http_mcds_merge_loc_conf(ngx_conf_t *cf, void *parent, void *child)
{
    ngx_http_mcds_loc_conf_t *prev = parent;
    ngx_http_mcds_loc_conf_t *conf = child;

    char                       *rv;
    ngx_http_core_loc_conf_t   *clcf;
    ngx_http_mcds_main_conf_t  *mmcf;

    rv = ngx_http_mcds_check_handler(cf, conf);
    if (rv != NGX_CONF_OK) {
        return rv;
    }

    ngx_http_mcds_stat_kind(cf, prev, conf);
    ngx_http_mcds_route_merge(cf, prev, conf);

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    if (clcf->recursive_error_pages) {
        mmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_mcds_module);
        mmcf->recursive = 1;
    }

    if (conf->return_text == NULL && (clcf->noname || clcf->lmt_excpt)) {

        /* as proxy_pass: "if" and "limit_except" are still that location */

        conf->return_text = prev->return_text;
        conf->return_code = prev->return_code;

        if (clcf->lmt_excpt && clcf->handler == NULL && conf->return_text) {
            clcf->handler = ngx_http_mcds_return_handler;
        }
    }

    if (conf->show == NULL && (clcf->noname || clcf->lmt_excpt)) {
        conf->show = prev->show;
        conf->show_place = prev->show_place;

        if (clcf->lmt_excpt && clcf->handler == NULL && conf->show) {
            clcf->handler = ngx_http_mcds_counters_handler;
        }
    }

    if (conf->use.data == NULL) {
        conf->use = prev->use;
        conf->use_place = prev->use_place;
    }

    if (conf->methods == 0) {
        conf->methods = prev->methods ? prev->methods
                                      : NGX_HTTP_GET|NGX_HTTP_HEAD;
    }

    if (conf->counters == NGX_CONF_UNSET_PTR) {
        conf->counters = prev->counters;
        conf->counters_place = prev->counters_place;
    }

    if (conf->counters == NGX_CONF_UNSET_PTR) {
        conf->counters = NULL;
    }

    ngx_conf_merge_ptr_value(conf->writeback, prev->writeback, NULL);

    if (conf->counters || conf->show) {
        mmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_mcds_module);
        mmcf->counted = 1;
    }

    rv = ngx_http_mcds_writeback_merge(cf, conf);
    if (rv != NGX_CONF_OK) {
        return rv;
    }

    rv = ngx_http_mcds_cache_merge_conf(cf, prev, conf);
    if (rv != NGX_CONF_OK) {
        return rv;
    }

    rv = ngx_http_mcds_merge_pools(cf, conf);
    if (rv != NGX_CONF_OK) {
        return rv;
    }

    if (ngx_http_mcds_site_merge(cf, prev, conf) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    return ngx_http_mcds_stat_merge(cf, prev, conf);
}


static char *
ngx_http_mcds_merge_pools(ngx_conf_t *cf, ngx_http_mcds_loc_conf_t *conf)
{
    ngx_str_t                  *name;
    ngx_http_mcds_main_conf_t  *mmcf;

    mmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_mcds_module);

    if (conf->use.data) {
        conf->pool = ngx_http_mcds_choose_pool(cf, &conf->use, "mcds_use",
                                               &conf->use_place);
        if (conf->pool == NULL) {
            return NGX_CONF_ERROR;
        }
    }

    if (conf->counters) {
        mmcf->used = 1;

        if (conf->pool == NULL) {
            conf->pool = ngx_http_mcds_choose_pool(cf, NULL, "mcds_counter",
                                                   &conf->counters_place);
            if (conf->pool == NULL) {
                return NGX_CONF_ERROR;
            }
        }

        if (ngx_http_mcds_check_counters(cf, conf) != NGX_OK
            || ngx_http_mcds_stat_counters(cf, conf) != NGX_OK)
        {
            return NGX_CONF_ERROR;
        }
    }

    if (conf->show) {
        mmcf->used = 1;

        if (conf->pool == NULL) {
            conf->pool = ngx_http_mcds_choose_pool(cf, NULL, "mcds_counter_api",
                                                   &conf->show_place);
            if (conf->pool == NULL) {
                return NGX_CONF_ERROR;
            }
        }

        if (ngx_http_mcds_stat_keys(cf, conf) != NGX_OK) {
            return NGX_CONF_ERROR;
        }
    }

    if (ngx_http_mcds_purge_needs_pool(conf)) {
        mmcf->used = 1;

        if (conf->pool == NULL) {
            conf->pool = ngx_http_mcds_choose_pool(cf, NULL,
                                                   "mcds_purge_api",
                                                   &conf->purge_place);
            if (conf->pool == NULL) {
                return NGX_CONF_ERROR;
            }
        }
    }

    name = &conf->cache;

    if (name->data == NULL
        || (name->len == 3 && ngx_strncmp(name->data, "off", 3) == 0))
    {
        return NGX_CONF_OK;
    }

    mmcf->used = 1;
    mmcf->cached = 1;

    if (name->len == 2 && ngx_strncmp(name->data, "on", 2) == 0) {

        conf->cache_pool = conf->pool;
        name = NULL;
    }

    if (conf->cache_pool == NULL) {
        conf->cache_pool = ngx_http_mcds_choose_pool(cf, name, "mcds_cache",
                                                     &conf->cache_place);
        if (conf->cache_pool == NULL) {
            return NGX_CONF_ERROR;
        }
    }

    if (conf->cache_lock) {
        ngx_http_mcds_check_lock(cf, conf->cache_pool, "mcds_cache_lock_age",
                                 conf->cache_lock_age, &conf->cache_place);
    }

    /* its locks must end by themselves when their owner has died */

    return ngx_http_mcds_needs_ttl(cf, conf->cache_pool, "mcds_cache",
                                   &conf->cache_place)
               == NGX_OK ? NGX_CONF_OK : NGX_CONF_ERROR;
}


static ngx_int_t
ngx_http_mcds_check_counters(ngx_conf_t *cf, ngx_http_mcds_loc_conf_t *conf)
{
    char                     *what;
    ngx_uint_t                i;
    ngx_http_mcds_counter_t  *counter;

    counter = conf->counters->elts;

    for (i = 0; i < conf->counters->nelts; i++) {

        if (counter[i].visitor) {
            what = "mcds_visitor_counter";

        } else if (counter[i].period.length) {
            what = "period\" of \"mcds_counter";

        } else if (counter[i].ttl) {
            what = "ttl\" of \"mcds_counter";

        } else if (counter[i].init) {
            what = "mcds_counter_init";

        } else if (counter[i].top) {
            what = "top\" of \"mcds_counter";

        } else {
            continue;
        }

        if (ngx_http_mcds_needs_ttl(cf, conf->pool, what,
                                    &conf->counters_place)
            != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


ngx_int_t
ngx_http_mcds_needs_ttl(ngx_conf_t *cf, ngx_mcds_pool_t *pool, char *what,
    ngx_http_mcds_place_t *place)
{
    if (!pool->no_ttl) {
        return NGX_OK;
    }

    ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                  "\"%s\" needs items that end by themselves, and "
                  "mcds_pool \"%V\" has \"protocol classic ttl=off\", "
                  "in %V:%ui", what, &pool->name, &place->file, place->line);

    return NGX_ERROR;
}


ngx_mcds_pool_t *
ngx_http_mcds_choose_pool(ngx_conf_t *cf, ngx_str_t *name, char *directive,
    ngx_http_mcds_place_t *place)
{
    ngx_mcds_pool_t            *pool, **pools;
    ngx_http_mcds_main_conf_t  *mmcf;

    mmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_mcds_module);

    if (name) {
        pool = ngx_http_mcds_find_pool(mmcf, name);
        if (pool) {
            return pool;
        }

        /* a name may be longer than a line of the log */

        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "\"%s\": there is no pool \"%*s\" in %V:%ui",
                      directive, ngx_min(name->len, NGX_MAX_CONF_ERRSTR / 2),
                      name->data, &place->file, place->line);
        return NULL;
    }

    if (mmcf->pools.nelts == 1) {
        pools = mmcf->pools.elts;
        return pools[0];
    }

    if (mmcf->pools.nelts == 0) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "\"%s\" needs a \"mcds_pool\", and there is none, "
                      "in %V:%ui", directive, &place->file, place->line);
        return NULL;
    }

    ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                  "\"%s\" needs a \"mcds_use\" to choose one of %ui pools, "
                  "in %V:%ui", directive, mmcf->pools.nelts, &place->file,
                  place->line);
    return NULL;
}


ngx_mcds_pool_t *
ngx_http_mcds_find_pool(ngx_http_mcds_main_conf_t *mmcf, ngx_str_t *name)
{
    ngx_uint_t         i;
    ngx_mcds_pool_t  **pools;

    pools = mmcf->pools.elts;

    for (i = 0; i < mmcf->pools.nelts; i++) {
        if (pools[i]->name.len == name->len
            && ngx_strncmp(pools[i]->name.data, name->data, name->len) == 0)
        {
            return pools[i];
        }
    }

    return NULL;
}


static ngx_int_t
ngx_http_mcds_init_process(ngx_cycle_t *cycle)
{
    ngx_uint_t                  i;
    ngx_mcds_pool_t           **pools;
    ngx_http_mcds_main_conf_t  *mmcf;

    mmcf = ngx_http_cycle_get_module_main_conf(cycle, ngx_http_mcds_module);

    if (mmcf == NULL) {
        return NGX_OK;
    }

    ngx_http_mcds_zone_attach(mmcf);
    ngx_http_mcds_ledger_start(mmcf);

    pools = mmcf->pools.elts;

    for (i = 0; i < mmcf->pools.nelts; i++) {
        ngx_mcds_resolve_start(pools[i]);
    }

    ngx_http_mcds_top_start(mmcf);

    return NGX_OK;
}


static void
ngx_http_mcds_exit_process(ngx_cycle_t *cycle)
{
    ngx_uint_t                  i;
    ngx_mcds_pool_t           **pools;
    ngx_http_mcds_main_conf_t  *mmcf;

    mmcf = ngx_http_cycle_get_module_main_conf(cycle, ngx_http_mcds_module);

    if (mmcf == NULL) {
        return;
    }

    ngx_mcds_tally_exit(cycle->log);

    pools = mmcf->pools.elts;

    for (i = 0; i < mmcf->pools.nelts; i++) {
        ngx_mcds_pool_exit(pools[i]);
    }

    ngx_http_mcds_top_exit(mmcf);

    ngx_mcds_stat_flush_all();
}

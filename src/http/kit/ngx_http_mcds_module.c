
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_mcds_memfile.h"
#include "ngx_mcds_spare.h"
#include "ngx_http_mcds_conf.h"
#include "ngx_http_mcds_nginx.h"
#include "ngx_http_mcds_pool.h"
#include "ngx_http_mcds_stat.h"
#include "ngx_http_mcds_task.h"
#include "ngx_http_mcds_zone.h"


/*
 * the maximum number of files in memory, memfd_create(2), from which a worker
 * sends pages by sendfile()
 */
#define NGX_HTTP_MCDS_FILES       4096


static ngx_int_t ngx_http_mcds_init(ngx_conf_t *cf);
static ngx_int_t ngx_http_mcds_init_resolver(ngx_conf_t *cf,
    ngx_http_mcds_main_conf_t *mmcf);
static void *ngx_http_mcds_create_main_conf(ngx_conf_t *cf);
static char *ngx_http_mcds_init_main_conf(ngx_conf_t *cf, void *conf);
static void *ngx_http_mcds_create_loc_conf(ngx_conf_t *cf);
static char *ngx_http_mcds_merge_loc_conf(ngx_conf_t *cf, void *parent,
    void *child);
static ngx_int_t ngx_http_mcds_init_module(ngx_cycle_t *cycle);
static ngx_int_t ngx_http_mcds_init_process(ngx_cycle_t *cycle);
static void ngx_http_mcds_files(ngx_cycle_t *cycle);
static void ngx_http_mcds_exit_process(ngx_cycle_t *cycle);


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

      ngx_null_command
};


static ngx_http_module_t  ngx_http_mcds_module_ctx = {
    NULL,                                  /* preconfiguration */
    ngx_http_mcds_init,                    /* postconfiguration */

    ngx_http_mcds_create_main_conf,        /* create main configuration */
    ngx_http_mcds_init_main_conf,          /* init main configuration */

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
    ngx_http_mcds_init_module,             /* init module */
    ngx_http_mcds_init_process,            /* init process */
    NULL,                                  /* init thread */
    NULL,                                  /* exit thread */
    ngx_http_mcds_exit_process,            /* exit process */
    NULL,                                  /* exit master */
    NGX_MODULE_V1_PADDING
};


/*
 * No postconfiguration handler of mcds refuses a configuration, except when out
 * of memory: in these handlers the master links the filters to a chain.  If one
 * of them refused a reload, workers that start later with the old configuration
 * would have only the part of the chain that was linked by then.  Errors are
 * found before, by handlers of "init main configuration" and "merge location
 * configuration".
 */

static ngx_int_t
ngx_http_mcds_init(ngx_conf_t *cf)
{
    ngx_uint_t                   i;
    ngx_http_conf_ctx_t         *ctx;
    ngx_http_mcds_feature_t    **feature;
    ngx_http_mcds_main_conf_t   *mmcf;

    ctx = cf->ctx;

    mmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_mcds_module);
    mmcf->main_conf = ctx->main_conf;

    feature = mmcf->features.elts;

    for (i = 0; i < mmcf->features.nelts; i++) {

        if (feature[i]->prepare && feature[i]->prepare(cf) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    if (ngx_http_mcds_zone_prepare(cf, mmcf) != NGX_OK) {
        return NGX_ERROR;
    }

    if (!mmcf->used) {
        return NGX_OK;
    }

    ngx_http_mcds_nginx_check(cf);

    if (ngx_http_mcds_zone_add(cf, mmcf) != NGX_OK) {
        return NGX_ERROR;
    }

    for (i = 0; i < mmcf->features.nelts; i++) {

        if (feature[i]->init && feature[i]->init(cf) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    if (ngx_http_mcds_init_resolver(cf, mmcf) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_http_mcds_task_init(cf);
}


static ngx_int_t
ngx_http_mcds_init_resolver(ngx_conf_t *cf, ngx_http_mcds_main_conf_t *mmcf)
{
    ngx_uint_t                 i;
    ngx_msec_t                 timeout;
    ngx_mcds_pool_t          **pools;
    ngx_http_core_loc_conf_t  *clcf;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    /*
     * without the directive "resolver", nginx makes a resolver without servers;
     * mcds does not use such a resolver
     */

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
        || ngx_array_init(&mmcf->features, cf->pool, 2,
                          sizeof(ngx_http_mcds_feature_t *))
           != NGX_OK
        || ngx_http_mcds_stat_init(cf, mmcf) != NGX_OK)
    {
        return NULL;
    }

    /*
     * under MALLOC_PERTURB_, workers keep no freed memory for reuse, so that a
     * use after the free is seen; this environment variable is read here, in
     * the master, since workers do not have the master's environment
     */

#if !(NGX_DEBUG_PALLOC)
    ngx_mcds_spare_init(getenv("MALLOC_PERTURB_") ? 0 : NGX_MCDS_SPARE_SIZE);
#endif

    return mmcf;
}


static char *
ngx_http_mcds_init_main_conf(ngx_conf_t *cf, void *conf)
{
    ngx_http_mcds_main_conf_t *mmcf = conf;

    /*
     * a configuration without a pool of memcached servers has no mcds_zone,
     * see ngx_http_mcds_zone_add()
     */

    if (mmcf->pools.nelts && ngx_http_mcds_zone_check(cf) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


static void *
ngx_http_mcds_create_loc_conf(ngx_conf_t *cf)
{
    /*
     * all fields of a location's configuration are 0 or NULL until a directive
     * sets them
     */

    return ngx_pcalloc(cf->pool, sizeof(ngx_http_mcds_loc_conf_t));
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

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    if (clcf->recursive_error_pages) {
        mmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_mcds_module);
        mmcf->recursive = 1;
    }

    if (conf->methods == 0) {
        conf->methods = prev->methods ? prev->methods
                                      : NGX_HTTP_GET|NGX_HTTP_HEAD;
    }

    if (conf->use.data == NULL) {
        conf->use = prev->use;
        conf->use_place = prev->use_place;
    }

    if (conf->use.data) {
        conf->pool = ngx_http_mcds_choose_pool(cf, &conf->use, "mcds_use",
                                               &conf->use_place);
        if (conf->pool == NULL) {
            return NGX_CONF_ERROR;
        }
    }

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_http_mcds_init_module(ngx_cycle_t *cycle)
{
    ngx_http_mcds_main_conf_t  *mmcf;

    mmcf = ngx_http_cycle_get_module_main_conf(cycle, ngx_http_mcds_module);

    if (mmcf) {
        ngx_http_mcds_zone_accept(mmcf);
    }

    return NGX_OK;
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
    ngx_http_mcds_files(cycle);

    pools = mmcf->pools.elts;

    for (i = 0; i < mmcf->pools.nelts; i++) {
        ngx_mcds_resolve_start(pools[i]);
    }

    return NGX_OK;
}


/*
 * allows the worker to have files in memory, from which it sends pages by
 * sendfile(); their number is at most half of the descriptors that are left of
 * RLIMIT_NOFILE when all connections are in use
 */

static void
ngx_http_mcds_files(ngx_cycle_t *cycle)
{
    struct rlimit  limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == -1
        || limit.rlim_cur <= cycle->connection_n)
    {
        return;
    }

    ngx_mcds_memfile_init(ngx_min((limit.rlim_cur - cycle->connection_n) / 2,
                                  NGX_HTTP_MCDS_FILES));
}


static void
ngx_http_mcds_exit_process(ngx_cycle_t *cycle)
{
    ngx_uint_t                   i;
    ngx_mcds_pool_t            **pools;
    ngx_http_mcds_feature_t    **feature;
    ngx_http_mcds_main_conf_t   *mmcf;

    mmcf = ngx_http_cycle_get_module_main_conf(cycle, ngx_http_mcds_module);

    if (mmcf == NULL) {
        return;
    }

    feature = mmcf->features.elts;

    for (i = 0; i < mmcf->features.nelts; i++) {

        if (feature[i]->exit) {
            feature[i]->exit(cycle);
        }
    }

    pools = mmcf->pools.elts;

    for (i = 0; i < mmcf->pools.nelts; i++) {
        ngx_mcds_pool_exit(pools[i]);
    }

    ngx_mcds_stat_flush_all();
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

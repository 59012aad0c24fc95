
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_conf.h"
#include "ngx_http_mcds_param.h"
#include "ngx_http_mcds_param_type.h"
#include "ngx_http_mcds_json.h"
#include "ngx_http_mcds_pool.h"
#include "ngx_http_mcds_stat.h"
#include "ngx_http_mcds_task.h"
#include "ngx_http_mcds_lock.h"


/*
 * the maximum of the parameter "wait=", the time that a request waits for a
 * lock: an hour, in milliseconds
 */
#define NGX_HTTP_MCDS_LOCK_WAIT   3600000


static char *ngx_http_mcds_lock(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
static ngx_int_t ngx_http_mcds_lock_retry_after(ngx_conf_t *cf,
    ngx_http_mcds_lock_conf_t *lock);
static char *ngx_http_mcds_lock_api(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
static ngx_int_t ngx_http_mcds_lock_preconfigure(ngx_conf_t *cf);
static void *ngx_http_mcds_lock_create_main_conf(ngx_conf_t *cf);
static void *ngx_http_mcds_lock_create_loc_conf(ngx_conf_t *cf);
static char *ngx_http_mcds_lock_merge_loc_conf(ngx_conf_t *cf, void *parent,
    void *child);
static ngx_int_t ngx_http_mcds_lock_init(ngx_conf_t *cf);
static ngx_int_t ngx_http_mcds_lock_stats(ngx_conf_t *cf,
    ngx_http_mcds_lock_loc_conf_t *conf);


static ngx_conf_enum_t  ngx_http_mcds_lock_pass[] = {
    { ngx_string("pass"), NGX_HTTP_MCDS_LOCK_PASS },
    { ngx_null_string, 0 }
};


static ngx_http_mcds_param_t  ngx_http_mcds_lock_params[] = {

    { ngx_string("ttl="),
      ngx_http_mcds_param_lock_sec,
      ngx_http_mcds_field(ngx_http_mcds_lock_conf_t, ttl),
      NGX_MCDS_LOCK_MIN_TTL, NGX_MCDS_MAX_TTL, 30, NULL },

    { ngx_string("wait="),
      ngx_http_mcds_param_msec,
      ngx_http_mcds_field(ngx_http_mcds_lock_conf_t, wait),
      0, NGX_HTTP_MCDS_LOCK_WAIT, 0, NULL },

    { ngx_string("waiters="),
      ngx_http_mcds_param_num,
      ngx_http_mcds_field(ngx_http_mcds_lock_conf_t, waiters),
      0, 1000000, 1000, NULL },

    { ngx_string("status="),
      ngx_http_mcds_param_num,
      ngx_http_mcds_field(ngx_http_mcds_lock_conf_t, status),
      400, 599, NGX_HTTP_MCDS_LOCKED, NULL },

    { ngx_string("unavailable="),
      ngx_http_mcds_param_num,
      ngx_http_mcds_field(ngx_http_mcds_lock_conf_t, unavailable),
      400, 599, 503, ngx_http_mcds_lock_pass },

    { ngx_string("retry_after="),
      ngx_http_mcds_param_sec,
      ngx_http_mcds_field(ngx_http_mcds_lock_conf_t, retry),
      1, 86400, 0, NULL },

      ngx_http_mcds_params_end
};


static ngx_http_mcds_param_t  ngx_http_mcds_lock_api_params[] = {

    { ngx_string("ttl="),
      ngx_http_mcds_param_lock_sec,
      ngx_http_mcds_field(ngx_http_mcds_lock_api_conf_t, ttl),
      NGX_MCDS_LOCK_MIN_TTL, NGX_MCDS_MAX_TTL, 0, NULL },

    { ngx_string("max_ttl="),
      ngx_http_mcds_param_lock_sec,
      ngx_http_mcds_field(ngx_http_mcds_lock_api_conf_t, max_ttl),
      NGX_MCDS_LOCK_MIN_TTL, NGX_MCDS_MAX_TTL, 0, NULL },

    { ngx_string("max_wait="),
      ngx_http_mcds_param_msec,
      ngx_http_mcds_field(ngx_http_mcds_lock_api_conf_t, max_wait),
      0, NGX_HTTP_MCDS_LOCK_WAIT, 30000, NULL },

      ngx_http_mcds_params_end
};


static ngx_command_t  ngx_http_mcds_lock_commands[] = {

    { ngx_string("mcds_lock"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_1MORE,
      ngx_http_mcds_lock,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mcds_lock_api"),
      NGX_HTTP_LOC_CONF|NGX_HTTP_LIF_CONF|NGX_CONF_ANY,
      ngx_http_mcds_lock_api,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

      ngx_null_command
};


static ngx_http_module_t  ngx_http_mcds_lock_module_ctx = {
    ngx_http_mcds_lock_preconfigure,       /* preconfiguration */
    ngx_http_mcds_lock_init,               /* postconfiguration */

    ngx_http_mcds_lock_create_main_conf,   /* create main configuration */
    NULL,                                  /* init main configuration */

    NULL,                                  /* create server configuration */
    NULL,                                  /* merge server configuration */

    ngx_http_mcds_lock_create_loc_conf,    /* create location configuration */
    ngx_http_mcds_lock_merge_loc_conf      /* merge location configuration */
};


ngx_module_t  ngx_http_mcds_lock_module = {
    NGX_MODULE_V1,
    &ngx_http_mcds_lock_module_ctx,        /* module context */
    ngx_http_mcds_lock_commands,           /* module directives */
    NGX_HTTP_MODULE,                       /* module type */
    NULL,                                  /* init master */
    NULL,                                  /* init module */
    NULL,                                  /* init process */
    NULL,                                  /* init thread */
    NULL,                                  /* exit thread */
    NULL,                                  /* exit process */
    NULL,                                  /* exit master */
    NGX_MODULE_V1_PADDING
};


static char *
ngx_http_mcds_lock(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mcds_lock_loc_conf_t *llcf = conf;

    char                       *rv;
    ngx_str_t                  *value;
    ngx_http_mcds_lock_conf_t  *lock;

    rv = ngx_http_mcds_param_off(cf, &llcf->lock);

    if (rv != NGX_CONF_OK || llcf->lock == NULL) {
        return rv;
    }

    value = cf->args->elts;

    if (value[1].len == 0) {
        return "needs a key";
    }

    lock = ngx_pcalloc(cf->pool, sizeof(ngx_http_mcds_lock_conf_t));
    if (lock == NULL) {
        return NGX_CONF_ERROR;
    }

    if (ngx_http_mcds_compile(cf, &value[1], &lock->key) != NGX_CONF_OK
        || ngx_http_mcds_params(cf, cmd, 2, ngx_http_mcds_lock_params, lock)
           != NGX_CONF_OK
        || ngx_http_mcds_lock_retry_after(cf, lock) != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    ngx_http_mcds_set_place(cf, &lock->place);

    llcf->lock = lock;

    return NGX_CONF_OK;
}


/* composes the header Retry-After for requests that do not get the lock */

static ngx_int_t
ngx_http_mcds_lock_retry_after(ngx_conf_t *cf,
    ngx_http_mcds_lock_conf_t *lock)
{
    if (lock->retry == 0) {
        return NGX_OK;
    }

    lock->retry_after = ngx_pnalloc(cf->pool, NGX_TIME_T_LEN + 1);
    if (lock->retry_after == NULL) {
        return NGX_ERROR;
    }

    (void) ngx_sprintf((u_char *) lock->retry_after, "%T%Z", lock->retry);

    return NGX_OK;
}


static char *
ngx_http_mcds_lock_api(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mcds_lock_loc_conf_t *llcf = conf;

    ngx_http_mcds_lock_api_conf_t  *lock_api;

    if (llcf->lock_api) {
        return "is duplicate";
    }

    lock_api = ngx_pcalloc(cf->pool, sizeof(ngx_http_mcds_lock_api_conf_t));
    if (lock_api == NULL) {
        return NGX_CONF_ERROR;
    }

    if (ngx_http_mcds_params(cf, cmd, 1, ngx_http_mcds_lock_api_params,
                             lock_api)
        != NGX_CONF_OK)
    {
        return NGX_CONF_ERROR;
    }

    if (lock_api->max_ttl == 0) {
        lock_api->max_ttl = ngx_max(lock_api->ttl, 3600);
    }

    if (lock_api->ttl == 0) {
        lock_api->ttl = ngx_min(lock_api->max_ttl, 30);
    }

    if (lock_api->ttl > lock_api->max_ttl) {
        return "has a \"ttl\" that is longer than its \"max_ttl\"";
    }

    ngx_http_mcds_set_place(cf, &lock_api->place);

    llcf->lock_api = lock_api;

    return ngx_http_mcds_set_handler(cf, ngx_http_mcds_lock_api_handler);
}


static ngx_int_t
ngx_http_mcds_lock_preconfigure(ngx_conf_t *cf)
{
    if (ngx_http_mcds_feature_add(cf, &ngx_http_mcds_lock_feature) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_http_mcds_lock_add_variables(cf);
}


static void *
ngx_http_mcds_lock_create_main_conf(ngx_conf_t *cf)
{
    ngx_http_mcds_lock_main_conf_t  *lmcf;

    lmcf = ngx_pcalloc(cf->pool, sizeof(ngx_http_mcds_lock_main_conf_t));
    if (lmcf == NULL) {
        return NULL;
    }

    if (ngx_array_init(&lmcf->confs, cf->pool, 4,
                       sizeof(ngx_http_mcds_lock_loc_conf_t *))
        != NGX_OK)
    {
        return NULL;
    }

    return lmcf;
}


static void *
ngx_http_mcds_lock_create_loc_conf(ngx_conf_t *cf)
{
    ngx_http_mcds_lock_loc_conf_t  *conf;

    conf = ngx_pcalloc(cf->pool, sizeof(ngx_http_mcds_lock_loc_conf_t));
    if (conf == NULL) {
        return NULL;
    }

    /*
     * set by ngx_pcalloc():
     *
     *     conf->pool = NULL;
     *     conf->lock_api = NULL;
     */

    conf->lock = NGX_CONF_UNSET_PTR;

    return conf;
}


static char *
ngx_http_mcds_lock_merge_loc_conf(ngx_conf_t *cf, void *parent, void *child)
{
    ngx_http_mcds_lock_loc_conf_t *prev = parent;
    ngx_http_mcds_lock_loc_conf_t *conf = child;

    char                            *directive;
    ngx_http_mcds_place_t           *place;
    ngx_http_core_loc_conf_t        *clcf;
    ngx_http_mcds_main_conf_t       *mmcf;
    ngx_http_mcds_lock_loc_conf_t  **p;
    ngx_http_mcds_lock_main_conf_t  *lmcf;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    if (conf->lock_api == NULL && (clcf->noname || clcf->lmt_excpt)) {

        /*
         * the blocks "if" and "limit_except" inherit mcds_lock_api from their
         * location, as they inherit proxy_pass
         */

        conf->lock_api = prev->lock_api;

        if (clcf->lmt_excpt && clcf->handler == NULL && conf->lock_api) {
            clcf->handler = ngx_http_mcds_lock_api_handler;
        }
    }

    ngx_conf_merge_ptr_value(conf->lock, prev->lock, NULL);

    if (conf->lock == NULL && conf->lock_api == NULL) {
        return NGX_CONF_OK;
    }

    directive = conf->lock ? "mcds_lock" : "mcds_lock_api";
    place = conf->lock ? &conf->lock->place : &conf->lock_api->place;

    lmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_mcds_lock_module);
    mmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_mcds_module);

    mmcf->used = 1;

    if (conf->lock) {
        lmcf->locked = 1;
    }

    if (conf->lock_api
        && ngx_http_mcds_stat_location(cf, &conf->name) != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    conf->pool = ngx_http_mcds_location_pool(cf, directive, place);
    if (conf->pool == NULL) {
        return NGX_CONF_ERROR;
    }

    /*
     * a lock must expire by itself if its owner dies, so the pool of memcached
     * servers must not have "ttl=off"
     */

    if (ngx_http_mcds_needs_ttl(cf, conf->pool, directive, place) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    p = ngx_array_push(&lmcf->confs);
    if (p == NULL) {
        return NGX_CONF_ERROR;
    }

    *p = conf;

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_http_mcds_lock_init(ngx_conf_t *cf)
{
    ngx_uint_t                       i;
    ngx_http_handler_pt             *h;
    ngx_http_core_main_conf_t       *cmcf;
    ngx_http_mcds_lock_loc_conf_t   *conf, **confs;
    ngx_http_mcds_lock_main_conf_t  *lmcf;

    lmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_mcds_lock_module);

    confs = lmcf->confs.elts;

    for (i = 0; i < lmcf->confs.nelts; i++) {
        conf = confs[i];

        if (ngx_http_mcds_lock_stats(cf, conf) != NGX_OK) {
            return NGX_ERROR;
        }

        if (conf->lock) {
            ngx_http_mcds_check_lock(cf, conf->pool, "mcds_lock",
                                     conf->lock->ttl, &conf->lock->place);
        }

        if (conf->lock_api) {
            ngx_http_mcds_check_lock(cf, conf->pool, "mcds_lock_api",
                                     conf->lock_api->ttl,
                                     &conf->lock_api->place);
        }
    }

    if (!lmcf->locked) {
        return NGX_OK;
    }

    cmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);

    h = ngx_array_push(&cmcf->phases[NGX_HTTP_PRECONTENT_PHASE].handlers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    /*
     * nginx runs the handlers of a phase from the last one of the array to the
     * first: this one runs before mcds's start handler, which is in the array
     * by now, as ngx_http_mcds_module precedes this module in "config"
     */

    *h = ngx_http_mcds_lock_handler;

    return NGX_OK;
}


/*
 * gets the statistics of a location's locks: for mcds_lock, these are named by
 * the lock's key, in which variables are not evaluated; for mcds_lock_api, by
 * the name of the location
 */

static ngx_int_t
ngx_http_mcds_lock_stats(ngx_conf_t *cf, ngx_http_mcds_lock_loc_conf_t *conf)
{
    if (conf->lock) {
        conf->stat = ngx_http_mcds_stat_get(cf, NGX_MCDS_STAT_LOCKS,
                                            conf->pool,
                                            &conf->lock->key.value);
        if (conf->stat == NULL) {
            return NGX_ERROR;
        }
    }

    if (conf->lock_api) {
        conf->lock_api_stat = ngx_http_mcds_stat_get(cf, NGX_MCDS_STAT_LOCKS,
                                                     conf->pool, &conf->name);
        if (conf->lock_api_stat == NULL) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}

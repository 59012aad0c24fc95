
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_conf.h"
#include "ngx_http_mcds_param.h"
#include "ngx_http_mcds_pool.h"
#include "ngx_http_mcds_cache.h"
#include "ngx_http_mcds_cache_conf.h"
#include "ngx_http_mcds_cache_stat.h"
#include "ngx_http_mcds_cache_vars.h"
#include "ngx_http_mcds_forwarded.h"
#include "ngx_http_mcds_admission.h"
#include "ngx_http_mcds_invalidate.h"
#include "ngx_http_mcds_key.h"
#include "ngx_http_mcds_purge.h"
#include "ngx_http_mcds_route.h"
#include "ngx_http_mcds_sign.h"
#include "ngx_http_mcds_site.h"
#include "ngx_http_mcds_tags.h"


static ngx_int_t ngx_http_mcds_cache_preconfigure(ngx_conf_t *cf);
static void *ngx_http_mcds_cache_create_main_conf(ngx_conf_t *cf);
static void *ngx_http_mcds_cache_create_loc_conf(ngx_conf_t *cf);
static char *ngx_http_mcds_cache_merge_loc_conf(ngx_conf_t *cf, void *parent,
    void *child);
static char *ngx_http_mcds_cache_merge_pools(ngx_conf_t *cf,
    ngx_http_mcds_cache_conf_t *conf);


static ngx_command_t  ngx_http_mcds_cache_commands[] = {

    { ngx_string("mcds_cache_label"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_TAKE1,
      ngx_http_mcds_cache_label,
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
      ngx_http_mcds_cache_key_set,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_mcds_cache_conf_t, cache_key),
      NULL },

    { ngx_string("mcds_cache_key_args"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_1MORE,
      ngx_http_mcds_cache_key_args,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mcds_cache_status_header"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_FLAG,
      ngx_http_mcds_set_value,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      ngx_http_mcds_cache_values },

    { ngx_string("mcds_cache_dry_run"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_FLAG,
      ngx_http_mcds_set_value,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      ngx_http_mcds_cache_values },

    { ngx_string("mcds_cache_site"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_TAKE1,
      ngx_http_mcds_cache_site,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mcds_cache_shared"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_FLAG,
      ngx_http_mcds_set_value,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      ngx_http_mcds_cache_values },

    { ngx_string("mcds_cache_uncacheable"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_TAKE1,
      ngx_http_mcds_set_value,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      ngx_http_mcds_cache_values },

#if !(NGX_MCDS_WITHOUT_HMAC)
    { ngx_string("mcds_cache_hmac_key"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_1MORE,
      ngx_http_mcds_cache_hmac_key,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },
#endif

#if !(NGX_MCDS_WITHOUT_TAGS)
    { ngx_string("mcds_cache_tag"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_1MORE,
      ngx_http_mcds_cache_tag,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },
#endif

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
      offsetof(ngx_http_mcds_cache_conf_t, cache_valid),
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
      offsetof(ngx_http_mcds_cache_conf_t, cache_bypass),
      NULL },

    { ngx_string("mcds_no_cache"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_1MORE,
      ngx_http_set_predicate_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_mcds_cache_conf_t, no_cache),
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
      ngx_http_mcds_set_value,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      ngx_http_mcds_cache_values },

    { ngx_string("mcds_cache_lock"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_FLAG,
      ngx_http_mcds_set_value,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      ngx_http_mcds_cache_values },

    { ngx_string("mcds_cache_lock_age"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_TAKE1,
      ngx_http_mcds_cache_lock_age,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      ngx_http_mcds_cache_values },

    { ngx_string("mcds_cache_lock_timeout"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_TAKE12,
      ngx_http_mcds_cache_lock_timeout,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mcds_cache_wait"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_TAKE1,
      ngx_http_mcds_set_value,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      ngx_http_mcds_cache_values },

    { ngx_string("mcds_cache_max_waiters"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_TAKE1,
      ngx_http_mcds_set_value,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      ngx_http_mcds_cache_values },

#if !(NGX_MCDS_WITHOUT_VARY)
    { ngx_string("mcds_cache_max_variants"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_TAKE1,
      ngx_http_mcds_set_value,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      ngx_http_mcds_cache_values },
#endif

    { ngx_string("mcds_cache_grace"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_TAKE12,
      ngx_http_mcds_cache_grace,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mcds_cache_background_update"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_TAKE1,
      ngx_http_mcds_set_value,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      ngx_http_mcds_cache_values },

    { ngx_string("mcds_cache_request_control"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_FLAG,
      ngx_http_mcds_set_value,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      ngx_http_mcds_cache_values },

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

#if !(NGX_MCDS_WITHOUT_LOCAL)
    { ngx_string("mcds_cache_local"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_TAKE1,
      ngx_http_mcds_set_value,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      ngx_http_mcds_cache_values },
#endif

    { ngx_string("mcds_cache_early"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_TAKE1,
      ngx_http_mcds_set_value,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      ngx_http_mcds_cache_values },

    { ngx_string("mcds_cache_jitter"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_TAKE1,
      ngx_http_mcds_set_value,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      ngx_http_mcds_cache_values },

    { ngx_string("mcds_cache_min_uses"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_TAKE1,
      ngx_http_mcds_set_value,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      ngx_http_mcds_cache_values },

    { ngx_string("mcds_cache_revalidate"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_FLAG,
      ngx_http_mcds_set_value,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      ngx_http_mcds_cache_values },

    { ngx_string("mcds_cache_use_stale"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_1MORE,
      ngx_http_mcds_set_mask,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_mcds_cache_conf_t, cache_use_stale),
      ngx_http_mcds_use_stale_masks },

      ngx_null_command
};


static ngx_http_module_t  ngx_http_mcds_cache_module_ctx = {
    ngx_http_mcds_cache_preconfigure,      /* preconfiguration */
    NULL,                                  /* postconfiguration */

    ngx_http_mcds_cache_create_main_conf,  /* create main configuration */
    NULL,                                  /* init main configuration */

    NULL,                                  /* create server configuration */
    NULL,                                  /* merge server configuration */

    ngx_http_mcds_cache_create_loc_conf,   /* create location configuration */
    ngx_http_mcds_cache_merge_loc_conf     /* merge location configuration */
};


ngx_module_t  ngx_http_mcds_cache_module = {
    NGX_MODULE_V1,
    &ngx_http_mcds_cache_module_ctx,       /* module context */
    ngx_http_mcds_cache_commands,          /* module directives */
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


static ngx_int_t
ngx_http_mcds_cache_preconfigure(ngx_conf_t *cf)
{
    if (ngx_http_mcds_feature_add(cf, &ngx_http_mcds_cache_feature) != NGX_OK
        || ngx_http_mcds_key_add_variables(cf) != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_http_mcds_cache_vars_add(cf);
}


static void *
ngx_http_mcds_cache_create_main_conf(ngx_conf_t *cf)
{
    ngx_http_mcds_cache_main_t  *cmcf;

    cmcf = ngx_pcalloc(cf->pool, sizeof(ngx_http_mcds_cache_main_t));
    if (cmcf == NULL) {
        return NULL;
    }

    if (ngx_array_init(&cmcf->sites, cf->pool, 4,
                       sizeof(ngx_http_mcds_site_t *))
        != NGX_OK)
    {
        return NULL;
    }

    return cmcf;
}


static void *
ngx_http_mcds_cache_create_loc_conf(ngx_conf_t *cf)
{
    ngx_http_mcds_cache_conf_t  *conf;

    conf = ngx_pcalloc(cf->pool, sizeof(ngx_http_mcds_cache_conf_t));
    if (conf == NULL) {
        return NULL;
    }

    ngx_http_mcds_cache_init_conf(conf);

    return conf;
}


static char *
ngx_http_mcds_cache_merge_loc_conf(ngx_conf_t *cf, void *parent, void *child)
{
    ngx_http_mcds_cache_conf_t *prev = parent;
    ngx_http_mcds_cache_conf_t *conf = child;

    char  *rv;

    ngx_http_mcds_route_merge(cf, prev, conf);

    rv = ngx_http_mcds_cache_merge_conf(cf, prev, conf);
    if (rv != NGX_CONF_OK) {
        return rv;
    }

    rv = ngx_http_mcds_cache_merge_pools(cf, conf);
    if (rv != NGX_CONF_OK) {
        return rv;
    }

    if (ngx_http_mcds_site_merge(cf, prev, conf) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    return ngx_http_mcds_stat_merge(cf, prev, conf);
}


static char *
ngx_http_mcds_cache_merge_pools(ngx_conf_t *cf,
    ngx_http_mcds_cache_conf_t *conf)
{
    ngx_str_t                  *name;
    ngx_http_mcds_loc_conf_t   *mlcf;
    ngx_http_mcds_main_conf_t  *mmcf;

    mlcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_mcds_module);
    mmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_mcds_module);

    name = &conf->cache;

    if (name->data == NULL || ngx_http_mcds_is(name, "off")) {
        if (!ngx_http_mcds_purge_needs_pool(conf)) {
            return NGX_CONF_OK;
        }

        mmcf->used = 1;

        if (mlcf->pool == NULL) {
            mlcf->pool = ngx_http_mcds_choose_pool(cf, NULL,
                                                   "mcds_purge_api",
                                                   &conf->purge_place);
            if (mlcf->pool == NULL) {
                return NGX_CONF_ERROR;
            }
        }

        conf->purge_pool = mlcf->pool;

        /*
         * the purge of a page that is not stored writes an item that expires,
         * so that builds that began before the purge cannot store the page
         */

        return ngx_http_mcds_needs_ttl(cf, conf->purge_pool, "mcds_purge_api",
                                       &conf->purge_place)
                   == NGX_OK ? NGX_CONF_OK : NGX_CONF_ERROR;
    }

    mmcf->used = 1;

    if (ngx_http_mcds_is(name, "on")) {

        conf->cache_pool = mlcf->pool;
        name = NULL;
    }

    if (conf->cache_pool == NULL) {
        conf->cache_pool = ngx_http_mcds_choose_pool(cf, name, "mcds_cache",
                                                     &conf->cache_place);
        if (conf->cache_pool == NULL) {
            return NGX_CONF_ERROR;
        }
    }

    conf->purge_pool = conf->cache_pool;

    if (conf->cache_lock) {
        ngx_http_mcds_check_lock(cf, conf->cache_pool, "mcds_cache_lock_age",
                                 conf->cache_lock_age,
                                 conf->cache_lock_age_place.line
                                     ? &conf->cache_lock_age_place
                                     : &conf->cache_place);
    }

    /*
     * the cache's pool must support times to live: the lock of a page must
     * expire by itself if its owner dies
     */

    return ngx_http_mcds_needs_ttl(cf, conf->cache_pool, "mcds_cache",
                                   &conf->cache_place)
               == NGX_OK ? NGX_CONF_OK : NGX_CONF_ERROR;
}


/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <jansson.h>
#include "ngx_http_mcds_pool.h"
#include "ngx_http_mcds_stat.h"
#include "ngx_http_mcds_task.h"
#include "ngx_http_mcds_data.h"


static ngx_int_t ngx_http_mcds_data_preconfigure(ngx_conf_t *cf);
static void *ngx_http_mcds_data_create_main(ngx_conf_t *cf);
static void *ngx_http_mcds_data_create_loc(ngx_conf_t *cf);
static char *ngx_http_mcds_data_merge_loc(ngx_conf_t *cf, void *parent,
    void *child);
static void ngx_http_mcds_data_merge_handler(ngx_conf_t *cf,
    ngx_http_mcds_data_conf_t *prev, ngx_http_mcds_data_conf_t *conf);
static char *ngx_http_mcds_data_merge_pool(ngx_conf_t *cf,
    ngx_http_mcds_data_conf_t *conf);
static ngx_int_t ngx_http_mcds_data_init(ngx_conf_t *cf);
static ngx_int_t ngx_http_mcds_data_stats(ngx_conf_t *cf,
    ngx_http_mcds_data_conf_t *conf);
static ngx_mcds_stat_t **ngx_http_mcds_data_array_stats(ngx_conf_t *cf,
    ngx_http_mcds_data_conf_t *conf, ngx_array_t *array, ngx_uint_t family,
    size_t offset);
static ngx_int_t ngx_http_mcds_data_add_handler(ngx_conf_t *cf,
    ngx_uint_t phase, ngx_http_handler_pt handler);
static ngx_int_t ngx_http_mcds_data_init_process(ngx_cycle_t *cycle);


static ngx_command_t  ngx_http_mcds_data_commands[] = {

    { ngx_string("mcds_array_api"),
      NGX_HTTP_LOC_CONF|NGX_HTTP_LIF_CONF|NGX_CONF_1MORE,
      ngx_http_mcds_array,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mcds_array_push"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_1MORE,
      ngx_http_mcds_array_push,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mcds_table_api"),
      NGX_HTTP_LOC_CONF|NGX_HTTP_LIF_CONF|NGX_CONF_1MORE,
      ngx_http_mcds_table,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mcds_table_lookup"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_1MORE,
      ngx_http_mcds_table_get,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

      ngx_null_command
};


static ngx_http_module_t  ngx_http_mcds_data_module_ctx = {
    ngx_http_mcds_data_preconfigure,       /* preconfiguration */
    ngx_http_mcds_data_init,               /* postconfiguration */

    ngx_http_mcds_data_create_main,        /* create main configuration */
    NULL,                                  /* init main configuration */

    NULL,                                  /* create server configuration */
    NULL,                                  /* merge server configuration */

    ngx_http_mcds_data_create_loc,         /* create location configuration */
    ngx_http_mcds_data_merge_loc           /* merge location configuration */
};


ngx_module_t  ngx_http_mcds_data_module = {
    NGX_MODULE_V1,
    &ngx_http_mcds_data_module_ctx,        /* module context */
    ngx_http_mcds_data_commands,           /* module directives */
    NGX_HTTP_MODULE,                       /* module type */
    NULL,                                  /* init master */
    NULL,                                  /* init module */
    ngx_http_mcds_data_init_process,       /* init process */
    NULL,                                  /* init thread */
    NULL,                                  /* exit thread */
    ngx_http_mcds_push_exit,               /* exit process */
    NULL,                                  /* exit master */
    NGX_MODULE_V1_PADDING
};


static ngx_int_t
ngx_http_mcds_data_preconfigure(ngx_conf_t *cf)
{
    return ngx_http_mcds_feature_add(cf, &ngx_http_mcds_table_feature);
}


static void *
ngx_http_mcds_data_create_main(ngx_conf_t *cf)
{
    ngx_http_mcds_data_main_t  *dmcf;

    dmcf = ngx_pcalloc(cf->pool, sizeof(ngx_http_mcds_data_main_t));
    if (dmcf == NULL) {
        return NULL;
    }

    if (ngx_array_init(&dmcf->confs, cf->pool, 8,
                       sizeof(ngx_http_mcds_data_conf_t *))
        != NGX_OK)
    {
        return NULL;
    }

    return dmcf;
}


static void *
ngx_http_mcds_data_create_loc(ngx_conf_t *cf)
{
    ngx_http_mcds_data_conf_t  *conf;

    conf = ngx_pcalloc(cf->pool, sizeof(ngx_http_mcds_data_conf_t));
    if (conf == NULL) {
        return NULL;
    }

    /*
     * set by ngx_pcalloc():
     *
     *     conf->pool = NULL;
     *     conf->array = NULL;
     *     conf->table = NULL;
     *     conf->directive = NULL;
     */

    conf->pushes = NGX_CONF_UNSET_PTR;
    conf->gets = NGX_CONF_UNSET_PTR;

    return conf;
}


static char *
ngx_http_mcds_data_merge_loc(ngx_conf_t *cf, void *parent, void *child)
{
    ngx_http_mcds_data_conf_t *prev = parent;
    ngx_http_mcds_data_conf_t *conf = child;

    ngx_uint_t                   i;
    ngx_http_mcds_get_t         *get;
    ngx_http_mcds_data_conf_t  **p;
    ngx_http_mcds_data_main_t   *dmcf;
    ngx_http_mcds_main_conf_t   *mmcf;

    ngx_http_mcds_data_merge_handler(cf, prev, conf);

    ngx_conf_merge_ptr_value(conf->pushes, prev->pushes, NULL);
    ngx_conf_merge_ptr_value(conf->gets, prev->gets, NULL);

    if (conf->directive == NULL) {
        conf->directive = prev->directive;
        conf->place = prev->place;
    }

    if (conf->pushes == NULL && conf->gets == NULL && conf->array == NULL
        && conf->table == NULL)
    {
        return NGX_CONF_OK;
    }

    dmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_mcds_data_module);
    mmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_mcds_module);

    mmcf->used = 1;

    if (conf->pushes) {
        dmcf->pushes = 1;
    }

    if (conf->gets) {
        get = conf->gets->elts;

        for (i = 0; i < conf->gets->nelts; i++) {
            dmcf->late |= get[i].late;
            dmcf->early |= !get[i].late;
        }
    }

    p = ngx_array_push(&dmcf->confs);
    if (p == NULL) {
        return NGX_CONF_ERROR;
    }

    *p = conf;

    return ngx_http_mcds_data_merge_pool(cf, conf);
}


/*
 * The blocks "if" and "limit_except" inherit mcds_array_api and mcds_table_api
 * from their location, as they inherit proxy_pass.
 */

static void
ngx_http_mcds_data_merge_handler(ngx_conf_t *cf,
    ngx_http_mcds_data_conf_t *prev, ngx_http_mcds_data_conf_t *conf)
{
    ngx_http_core_loc_conf_t  *clcf;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    if (conf->array || conf->table || !(clcf->noname || clcf->lmt_excpt)) {
        return;
    }

    conf->array = prev->array;
    conf->table = prev->table;

    if (!clcf->lmt_excpt || clcf->handler) {
        return;
    }

    if (conf->array) {
        clcf->handler = ngx_http_mcds_array_handler;
    }

    if (conf->table) {
        clcf->handler = ngx_http_mcds_table_handler;
    }
}


/* sets the pool of memcached servers for a location's arrays and tables */

static char *
ngx_http_mcds_data_merge_pool(ngx_conf_t *cf, ngx_http_mcds_data_conf_t *conf)
{
    conf->pool = ngx_http_mcds_location_pool(cf, conf->directive, &conf->place);
    if (conf->pool == NULL) {
        return NGX_CONF_ERROR;
    }

    if (conf->table
        && conf->table->ttl
        && ngx_http_mcds_needs_ttl(cf, conf->pool,
                                   "ttl\" of \"mcds_table_api",
                                   &conf->table->place)
           != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_http_mcds_data_init(ngx_conf_t *cf)
{
    ngx_uint_t                   i;
    ngx_http_mcds_data_conf_t  **confs;
    ngx_http_mcds_data_main_t   *dmcf;

    dmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_mcds_data_module);

    confs = dmcf->confs.elts;

    for (i = 0; i < dmcf->confs.nelts; i++) {
        if (ngx_http_mcds_data_stats(cf, confs[i]) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    if (dmcf->early
        && (ngx_http_mcds_data_add_handler(cf, NGX_HTTP_SERVER_REWRITE_PHASE,
                                           ngx_http_mcds_get_early_handler)
            != NGX_OK
            || ngx_http_mcds_data_add_handler(cf, NGX_HTTP_REWRITE_PHASE,
                                              ngx_http_mcds_get_early_handler)
               != NGX_OK))
    {
        return NGX_ERROR;
    }

    if (dmcf->late
        && ngx_http_mcds_data_add_handler(cf, NGX_HTTP_PREACCESS_PHASE,
                                          ngx_http_mcds_get_late_handler)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (dmcf->pushes
        && ngx_http_mcds_data_add_handler(cf, NGX_HTTP_LOG_PHASE,
                                          ngx_http_mcds_push_handler)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    return NGX_OK;
}


/*
 * Gets the statistics of each array and table of a location.  The statistics
 * are for the name of the array or table as it is written in the configuration:
 * "cart:$cookie_id" is one name, whatever the variable's value is.
 */

static ngx_int_t
ngx_http_mcds_data_stats(ngx_conf_t *cf, ngx_http_mcds_data_conf_t *conf)
{
    if (conf->array || conf->table) {
        conf->stat = ngx_http_mcds_stat_get(cf,
                                            conf->array ? NGX_MCDS_STAT_ARRAYS
                                                        : NGX_MCDS_STAT_TABLES,
                                            conf->pool,
                                            conf->array
                                            ? &conf->array->name.value
                                            : &conf->table->name.value);
        if (conf->stat == NULL) {
            return NGX_ERROR;
        }
    }

    conf->push_stats = ngx_http_mcds_data_array_stats(cf, conf, conf->pushes,
                           NGX_MCDS_STAT_ARRAYS,
                           offsetof(ngx_http_mcds_array_conf_t, name));

    conf->get_stats = ngx_http_mcds_data_array_stats(cf, conf, conf->gets,
                           NGX_MCDS_STAT_TABLES,
                           offsetof(ngx_http_mcds_get_t, table));

    return (conf->push_stats && conf->get_stats) ? NGX_OK : NGX_ERROR;
}


static ngx_mcds_stat_t **
ngx_http_mcds_data_array_stats(ngx_conf_t *cf,
    ngx_http_mcds_data_conf_t *conf, ngx_array_t *array, ngx_uint_t family,
    size_t offset)
{
    u_char                     *elt;
    ngx_uint_t                  i, n;
    ngx_mcds_stat_t           **stat;
    ngx_http_complex_value_t   *name;

    n = array ? array->nelts : 0;

    stat = ngx_pcalloc(cf->pool, (n + 1) * sizeof(ngx_mcds_stat_t *));
    if (stat == NULL) {
        return NULL;
    }

    for (i = 0; i < n; i++) {
        elt = (u_char *) array->elts + i * array->size;
        name = (ngx_http_complex_value_t *) (elt + offset);

        stat[i] = ngx_http_mcds_stat_get(cf, family, conf->pool, &name->value);
        if (stat[i] == NULL) {
            return NULL;
        }
    }

    return stat;
}


static ngx_int_t
ngx_http_mcds_data_add_handler(ngx_conf_t *cf, ngx_uint_t phase,
    ngx_http_handler_pt handler)
{
    ngx_http_handler_pt        *h;
    ngx_http_core_main_conf_t  *cmcf;

    cmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);

    h = ngx_array_push(&cmcf->phases[phase].handlers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    *h = handler;

    return NGX_OK;
}


/*
 * Seeds the hashes of the JSON library jansson when a worker starts: jansson
 * would do so at the first JSON object, and read a random device while requests
 * wait.
 */

static ngx_int_t
ngx_http_mcds_data_init_process(ngx_cycle_t *cycle)
{
    json_object_seed(0);

    return NGX_OK;
}


/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_pool.h"
#include "ngx_http_mcds_stat.h"
#include "ngx_http_mcds_counter.h"
#include "ngx_http_mcds_counter_conf.h"
#include "ngx_http_mcds_outbox.h"
#include "ngx_http_mcds_counter_api.h"


static ngx_int_t ngx_http_mcds_counter_preconfigure(ngx_conf_t *cf);
static void *ngx_http_mcds_counter_create_main_conf(ngx_conf_t *cf);
static void *ngx_http_mcds_counter_create_loc_conf(ngx_conf_t *cf);
static char *ngx_http_mcds_counter_merge_loc_conf(ngx_conf_t *cf, void *parent,
    void *child);
static char *ngx_http_mcds_counter_merge_pools(ngx_conf_t *cf,
    ngx_http_mcds_counter_conf_t *conf);
static ngx_int_t ngx_http_mcds_check_counters(ngx_conf_t *cf,
    ngx_http_mcds_counter_conf_t *conf);
static ngx_int_t ngx_http_mcds_stat_counters(ngx_conf_t *cf,
    ngx_http_mcds_counter_conf_t *conf);
static ngx_int_t ngx_http_mcds_stat_keys(ngx_conf_t *cf,
    ngx_http_mcds_counter_conf_t *conf);
static ngx_int_t ngx_http_mcds_counter_init_process(ngx_cycle_t *cycle);


static ngx_command_t  ngx_http_mcds_counter_commands[] = {

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
      ngx_http_mcds_counter_api,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mcds_return"),
      NGX_HTTP_LOC_CONF|NGX_HTTP_LIF_CONF|NGX_CONF_TAKE12,
      ngx_http_mcds_return,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

      ngx_null_command
};


static ngx_http_module_t  ngx_http_mcds_counter_module_ctx = {
    ngx_http_mcds_counter_preconfigure,    /* preconfiguration */
    ngx_http_mcds_counter_init_filters,    /* postconfiguration */

    ngx_http_mcds_counter_create_main_conf, /* create main configuration */
    NULL,                                  /* init main configuration */

    NULL,                                  /* create server configuration */
    NULL,                                  /* merge server configuration */

    ngx_http_mcds_counter_create_loc_conf, /* create location configuration */
    ngx_http_mcds_counter_merge_loc_conf   /* merge location configuration */
};


ngx_module_t  ngx_http_mcds_counter_module = {
    NGX_MODULE_V1,
    &ngx_http_mcds_counter_module_ctx,     /* module context */
    ngx_http_mcds_counter_commands,        /* module directives */
    NGX_HTTP_MODULE,                       /* module type */
    NULL,                                  /* init master */
    ngx_http_mcds_outbox_init,             /* init module */
    ngx_http_mcds_counter_init_process,    /* init process */
    NULL,                                  /* init thread */
    NULL,                                  /* exit thread */
    NULL,                                  /* exit process */
    ngx_http_mcds_outbox_exit,             /* exit master */
    NGX_MODULE_V1_PADDING
};


static ngx_int_t
ngx_http_mcds_counter_preconfigure(ngx_conf_t *cf)
{
    return ngx_http_mcds_feature_add(cf, &ngx_http_mcds_counter_feature);
}


static void *
ngx_http_mcds_counter_create_main_conf(ngx_conf_t *cf)
{
    ngx_http_mcds_counter_main_t  *nmcf;

    nmcf = ngx_pcalloc(cf->pool, sizeof(ngx_http_mcds_counter_main_t));
    if (nmcf == NULL) {
        return NULL;
    }

    if (ngx_array_init(&nmcf->numbers, cf->pool, 4,
                       sizeof(ngx_http_mcds_number_var_t))
        != NGX_OK)
    {
        return NULL;
    }

    return nmcf;
}


static void *
ngx_http_mcds_counter_create_loc_conf(ngx_conf_t *cf)
{
    ngx_http_mcds_counter_conf_t  *conf;

    conf = ngx_pcalloc(cf->pool, sizeof(ngx_http_mcds_counter_conf_t));
    if (conf == NULL) {
        return NULL;
    }

    /*
     * set by ngx_pcalloc():
     *
     *     conf->pool = NULL;
     *     conf->writeback = NULL;
     *     conf->return_text = NULL;
     *     conf->show = NULL;
     */

    conf->counters = NGX_CONF_UNSET_PTR;

    return conf;
}


static char *
ngx_http_mcds_counter_merge_loc_conf(ngx_conf_t *cf, void *parent, void *child)
{
    ngx_http_mcds_counter_conf_t *prev = parent;
    ngx_http_mcds_counter_conf_t *conf = child;

    ngx_http_core_loc_conf_t      *clcf;
    ngx_http_mcds_counter_main_t  *nmcf;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    if (conf->return_text == NULL && (clcf->noname || clcf->lmt_excpt)) {

        /*
         * the blocks "if" and "limit_except" inherit mcds_return from their
         * location, as they inherit proxy_pass
         */

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
            clcf->handler = ngx_http_mcds_counter_api_handler;
        }
    }

    if (conf->counters == NGX_CONF_UNSET_PTR) {
        conf->counters = prev->counters;
    }

    if (conf->counters == NGX_CONF_UNSET_PTR) {
        conf->counters = NULL;
    }

    if (conf->counters || conf->show) {
        nmcf = ngx_http_conf_get_module_main_conf(cf,
                                                  ngx_http_mcds_counter_module);
        nmcf->counted = 1;
    }

    return ngx_http_mcds_counter_merge_pools(cf, conf);
}


static char *
ngx_http_mcds_counter_merge_pools(ngx_conf_t *cf,
    ngx_http_mcds_counter_conf_t *conf)
{
    ngx_http_mcds_counter_t    *counter;
    ngx_http_mcds_loc_conf_t   *mlcf;
    ngx_http_mcds_main_conf_t  *mmcf;

    mlcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_mcds_module);
    mmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_mcds_module);

    if (conf->counters) {
        counter = conf->counters->elts;
        mmcf->used = 1;

        if (mlcf->pool == NULL) {
            mlcf->pool = ngx_http_mcds_choose_pool(cf, NULL,
                                                   counter->visitor
                                                   ? "mcds_visitor_counter"
                                                   : "mcds_counter",
                                                   &counter->place);
            if (mlcf->pool == NULL) {
                return NGX_CONF_ERROR;
            }
        }

        conf->pool = mlcf->pool;

        if (ngx_http_mcds_check_counters(cf, conf) != NGX_OK
            || ngx_http_mcds_stat_counters(cf, conf) != NGX_OK)
        {
            return NGX_CONF_ERROR;
        }
    }

    if (conf->show) {
        mmcf->used = 1;

        if (mlcf->pool == NULL) {
            mlcf->pool = ngx_http_mcds_choose_pool(cf, NULL, "mcds_counter_api",
                                                   &conf->show_place);
            if (mlcf->pool == NULL) {
                return NGX_CONF_ERROR;
            }
        }

        conf->pool = mlcf->pool;

        if (conf->show->ttl
            && ngx_http_mcds_needs_ttl(cf, conf->pool,
                                       "ttl\" of \"mcds_counter_api",
                                       &conf->show_place)
               != NGX_OK)
        {
            return NGX_CONF_ERROR;
        }

        if (ngx_http_mcds_stat_keys(cf, conf) != NGX_OK) {
            return NGX_CONF_ERROR;
        }
    }

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_http_mcds_check_counters(ngx_conf_t *cf,
    ngx_http_mcds_counter_conf_t *conf)
{
    char                     *what;
    ngx_uint_t                i;
    ngx_http_mcds_place_t    *place;
    ngx_http_mcds_counter_t  *counter;

    counter = conf->counters->elts;

    for (i = 0; i < conf->counters->nelts; i++) {
        place = &counter[i].place;

        if (counter[i].visitor) {
            what = "mcds_visitor_counter";

        } else if (counter[i].period.length) {
            what = "period\" of \"mcds_counter";

        } else if (counter[i].ttl) {
            what = "ttl\" of \"mcds_counter";

        } else if (counter[i].init) {
            what = "mcds_counter_init";
            place = &counter[i].init_place;

        } else if (counter[i].top) {
            what = "top\" of \"mcds_counter";

        } else {
            continue;
        }

        if (ngx_http_mcds_needs_ttl(cf, conf->pool, what, place) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_mcds_stat_counters(ngx_conf_t *cf, ngx_http_mcds_counter_conf_t *conf)
{
    ngx_uint_t                      i;
    ngx_mcds_stat_t               **stat;
    ngx_http_mcds_counter_t        *counter;
    ngx_http_mcds_number_var_t     *number;
    ngx_http_mcds_counter_main_t   *nmcf;

    nmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_mcds_counter_module);
    counter = conf->counters->elts;

    stat = ngx_pcalloc(cf->pool,
                       conf->counters->nelts * sizeof(ngx_mcds_stat_t *));
    if (stat == NULL) {
        return NGX_ERROR;
    }

    conf->counter_stats = stat;

    for (i = 0; i < conf->counters->nelts; i++) {
        number = nmcf->numbers.elts;
        number += counter[i].index;

        stat[i] = ngx_http_mcds_stat_get(cf, NGX_MCDS_STAT_COUNTERS,
                                         conf->pool, &number->name);
        if (stat[i] == NULL) {
            return NGX_ERROR;
        }

        if (counter[i].visitor) {
            stat[i]->kind = NGX_MCDS_STAT_VISITORS;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_mcds_stat_keys(ngx_conf_t *cf, ngx_http_mcds_counter_conf_t *conf)
{
    ngx_str_t  name;

    if (conf->show->prefix == NULL) {
        return NGX_OK;
    }

    if (ngx_http_mcds_stat_location(cf, &name) != NGX_OK) {
        return NGX_ERROR;
    }

    conf->show_stat = ngx_http_mcds_stat_get(cf, NGX_MCDS_STAT_COUNTERS,
                                             conf->pool, &name);
    if (conf->show_stat == NULL) {
        return NGX_ERROR;
    }

    conf->show_stat->kind = NGX_MCDS_STAT_KEYS;

    return NGX_OK;
}


static ngx_int_t
ngx_http_mcds_counter_init_process(ngx_cycle_t *cycle)
{
    ngx_http_mcds_main_conf_t     *mmcf;
    ngx_http_mcds_counter_main_t  *nmcf;

    mmcf = ngx_http_cycle_get_module_main_conf(cycle, ngx_http_mcds_module);

    if (mmcf == NULL) {
        return NGX_OK;
    }

    nmcf = ngx_http_cycle_get_module_main_conf(cycle,
                                               ngx_http_mcds_counter_module);

    ngx_http_mcds_outbox_start(mmcf, nmcf);

    return NGX_OK;
}

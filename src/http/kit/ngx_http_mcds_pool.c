
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_conf.h"
#include "ngx_http_mcds_pool.h"


static struct {
    ngx_str_t     name;
    ngx_uint_t    method;
} ngx_http_mcds_method_names[] = {
    { ngx_string("GET"), NGX_HTTP_GET|NGX_HTTP_HEAD },
    { ngx_string("HEAD"), NGX_HTTP_GET|NGX_HTTP_HEAD },
    { ngx_string("POST"), NGX_HTTP_POST },
    { ngx_string("PUT"), NGX_HTTP_PUT },
    { ngx_string("PATCH"), NGX_HTTP_PATCH },
    { ngx_string("DELETE"), NGX_HTTP_DELETE },
    { ngx_null_string, 0 }
};


char *
ngx_http_mcds_use(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mcds_loc_conf_t *mlcf = conf;

    ngx_str_t  *value;

    if (mlcf->use.data) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (value[1].len == 0) {
        return "needs the name of a pool";
    }

    mlcf->use = value[1];
    ngx_http_mcds_set_place(cf, &mlcf->use_place);

    return NGX_CONF_OK;
}


char *
ngx_http_mcds_methods(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mcds_loc_conf_t *mlcf = conf;

    ngx_str_t   *value;
    ngx_uint_t   i, m;

    if (mlcf->methods) {
        return "is duplicate";
    }

    value = cf->args->elts;

    for (i = 1; i < cf->args->nelts; i++) {

        for (m = 0; ngx_http_mcds_method_names[m].method; m++) {
            if (ngx_http_mcds_method_names[m].name.len == value[i].len
                && ngx_strncmp(ngx_http_mcds_method_names[m].name.data,
                               value[i].data, value[i].len)
                   == 0)
            {
                break;
            }
        }

        if (ngx_http_mcds_method_names[m].method == 0) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid method \"%V\" in \"%V\", it must be "
                               "GET, HEAD, POST, PUT, PATCH or DELETE",
                               &value[i], &cmd->name);
            return NGX_CONF_ERROR;
        }

        mlcf->methods |= ngx_http_mcds_method_names[m].method;
    }

    return NGX_CONF_OK;
}


ngx_mcds_pool_t *
ngx_http_mcds_location_pool(ngx_conf_t *cf, char *directive,
    ngx_http_mcds_place_t *place)
{
    ngx_http_mcds_loc_conf_t  *mlcf;

    mlcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_mcds_module);

    return mlcf->pool ? mlcf->pool
                      : ngx_http_mcds_choose_pool(cf, NULL, directive, place);
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

        /*
         * the name of a pool may be longer than a line of the error log, and
         * would cut off the file and line of the directive
         */

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


ngx_int_t
ngx_http_mcds_needs_ttl(ngx_conf_t *cf, ngx_mcds_pool_t *pool, char *what,
    ngx_http_mcds_place_t *place)
{
    if (!pool->no_ttl) {
        return NGX_OK;
    }

    ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                  "\"%s\" needs items that expire, but "
                  "mcds_pool \"%V\" has \"protocol classic ttl=off\", "
                  "in %V:%ui", what, &pool->name, &place->file, place->line);

    return NGX_ERROR;
}


void
ngx_http_mcds_check_lock(ngx_conf_t *cf, ngx_mcds_pool_t *pool, char *what,
    time_t ttl, ngx_http_mcds_place_t *place)
{
    ngx_http_mcds_main_conf_t  *mmcf;

    mmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_mcds_module);

    if ((ngx_msec_t) ttl * 1000 >= pool->timeout || mmcf->hasty) {
        return;
    }

    mmcf->hasty = 1;

    ngx_log_error(NGX_LOG_WARN, cf->log, 0,
                  "\"%s\": a lock of %T seconds may end before memcached has "
                  "answered, mcds_pool \"%V\" has a \"timeout\" of %M ms, "
                  "in %V:%ui", what, ttl, &pool->name, pool->timeout,
                  &place->file, place->line);
}


/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_stat.h"


ngx_int_t
ngx_http_mcds_stat_init(ngx_conf_t *cf, ngx_http_mcds_main_conf_t *mmcf)
{
    ngx_uint_t  i;

    for (i = 0; i < NGX_MCDS_STAT_FAMILIES; i++) {
        if (ngx_array_init(&mmcf->stats.families[i], cf->pool, 8,
                           sizeof(ngx_mcds_stat_t *))
            != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


ngx_mcds_stat_t *
ngx_http_mcds_stat_get(ngx_conf_t *cf, ngx_uint_t family,
    ngx_mcds_pool_t *pool, ngx_str_t *name)
{
    ngx_str_t                   of;
    ngx_uint_t                  i;
    ngx_array_t                *list;
    ngx_mcds_stat_t           **stat;
    ngx_http_mcds_main_conf_t  *mmcf;

    mmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_mcds_module);
    list = &mmcf->stats.families[family];
    stat = list->elts;

    ngx_str_null(&of);

    if (pool) {
        of = pool->name;
    }

    for (i = 0; i < list->nelts; i++) {

        if (stat[i]->name.len == name->len
            && ngx_strncmp(stat[i]->name.data, name->data, name->len) == 0
            && stat[i]->pool.len == of.len
            && ngx_strncmp(stat[i]->pool.data, of.data, of.len) == 0)
        {
            return stat[i];
        }
    }

    stat = ngx_array_push(list);
    if (stat == NULL) {
        return NULL;
    }

    *stat = ngx_mcds_stat_create(cf->pool, family, &of, name);

    if (*stat == NULL) {
        list->nelts--;
        return NULL;
    }

    return *stat;
}


/*
 * nginx gives the blocks "if" and "limit_except" the name of their location,
 * but not the fields that tell the location's kind, such as "=" or "~": the
 * blocks inherit stat_kind and the location instead
 */

void
ngx_http_mcds_stat_kind(ngx_conf_t *cf, ngx_http_mcds_loc_conf_t *prev,
    ngx_http_mcds_loc_conf_t *conf)
{
    ngx_http_core_loc_conf_t  *clcf;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    if (clcf->noname) {
        conf->stat_kind = prev->stat_kind;
        conf->location = prev->location;
        return;
    }

    conf->location = clcf;
    conf->stat_kind = clcf->exact_match ? " = " : " ";

#if (NGX_PCRE)
    if (clcf->regex) {
        conf->stat_kind = " ~ ";
    }
#endif

    if (clcf->name.len == 0) {
        conf->stat_kind = "";
    }
}


/*
 * statistics name a location by its server, and as the configuration spells it:
 * "example.com ~ \.php$"
 */

ngx_int_t
ngx_http_mcds_stat_location(ngx_conf_t *cf, ngx_str_t *name)
{
    ngx_str_t                  server;
    ngx_http_core_loc_conf_t  *clcf;
    ngx_http_core_srv_conf_t  *cscf;
    ngx_http_mcds_loc_conf_t  *mlcf;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);
    cscf = ngx_http_conf_get_module_srv_conf(cf, ngx_http_core_module);
    mlcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_mcds_module);

    server = cscf->server_name;

    if (server.len == 0) {
        ngx_str_set(&server, "_");
    }

    name->data = ngx_pnalloc(cf->pool, server.len + 3 + clcf->name.len);
    if (name->data == NULL) {
        return NGX_ERROR;
    }

    name->len = ngx_sprintf(name->data, "%V%s%V", &server, mlcf->stat_kind,
                            &clcf->name)
                - name->data;

    return NGX_OK;
}

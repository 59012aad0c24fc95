
/*
 * Copyright (C) mcds authors
 *
 * mcds_purge_api: the directive.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_mcds_purge.h"
#include "ngx_http_mcds_conf.h"
#include "ngx_http_mcds_cache.h"
#include "ngx_http_mcds_purge.h"


static char *ngx_http_mcds_purge_param(ngx_conf_t *cf,
    ngx_http_mcds_purge_t *conf, ngx_str_t *value);
static char *ngx_http_mcds_purge_when(ngx_conf_t *cf,
    ngx_http_mcds_purge_t *conf, ngx_str_t *value);


char *
ngx_http_mcds_cache_purge(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mcds_cache_conf_t *ccf = conf;

    char                      *rv;
    ngx_str_t                 *value;
    ngx_uint_t                 i;
    ngx_http_mcds_purge_t     *purge;

    if (ccf->purge) {
        return "is duplicate";
    }

    purge = ngx_pcalloc(cf->pool, sizeof(ngx_http_mcds_purge_t));
    if (purge == NULL) {
        return NGX_CONF_ERROR;
    }

    purge->how = NGX_CONF_UNSET_UINT;

    value = cf->args->elts;

    for (i = 1; i < cf->args->nelts; i++) {

        rv = ngx_http_mcds_purge_param(cf, purge, &value[i]);

        if (rv == NGX_CONF_ERROR) {
            return NGX_CONF_ERROR;
        }

        if (rv != NGX_CONF_OK) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid parameter \"%V\" in \"%V\"%s",
                               &value[i], &cmd->name, rv);
            return NGX_CONF_ERROR;
        }
    }

    if (purge->off + purge->handler + (purge->when || purge->method.len) != 1)
    {
        return "needs \"on\", \"off\", or \"method=\" and conditions";
    }

    if (purge->off && purge->how != NGX_CONF_UNSET_UINT) {
        return "has a mode and \"off\"";
    }

    if (purge->handler && purge->refresh) {
        return "has \"mode=refresh\" in a location of its own, where no page "
               "can be made";
    }

    ngx_conf_init_uint_value(purge->how, NGX_MCDS_PURGE_INVALIDATE);

    ccf->purge = purge;
    ngx_http_mcds_set_place(cf, &ccf->purge_place);

    if (purge->handler) {

        if (!(cf->cmd_type & (NGX_HTTP_LOC_CONF|NGX_HTTP_LIF_CONF))) {
            return "can be \"on\" in a location only";
        }

        return ngx_http_mcds_set_handler(cf, ngx_http_mcds_purge_handler);
    }

    return NGX_CONF_OK;
}


static char *
ngx_http_mcds_purge_param(ngx_conf_t *cf, ngx_http_mcds_purge_t *conf,
    ngx_str_t *value)
{
    if (value->len == 2 && ngx_strncmp(value->data, "on", 2) == 0) {
        conf->handler = 1;
        return NGX_CONF_OK;
    }

    if (value->len == 3 && ngx_strncmp(value->data, "off", 3) == 0) {
        conf->off = 1;
        return NGX_CONF_OK;
    }

    if (value->len >= 5 && ngx_strncmp(value->data, "mode=", 5) == 0) {

        if (conf->how != NGX_CONF_UNSET_UINT) {
            return ", it is a duplicate";
        }

        conf->how = NGX_MCDS_PURGE_INVALIDATE;

        if (ngx_strcmp(value->data + 5, "delete") == 0) {
            conf->how = NGX_MCDS_PURGE_DELETE;

        } else if (ngx_strcmp(value->data + 5, "refresh") == 0) {
            conf->refresh = 1;

        } else if (ngx_strcmp(value->data + 5, "invalidate") != 0) {
            return ", it must be \"invalidate\", \"delete\" or \"refresh\"";
        }

        return NGX_CONF_OK;
    }

    if (value->len >= 7 && ngx_strncmp(value->data, "method=", 7) == 0) {

        if (conf->method.len) {
            return ", it is a duplicate";
        }

        conf->method.data = value->data + 7;
        conf->method.len = value->len - 7;

        if (conf->method.len == 0
            || ngx_strcmp(conf->method.data, "GET") == 0
            || ngx_strcmp(conf->method.data, "HEAD") == 0)
        {
            return ", it must be another method than GET and HEAD";
        }

        return NGX_CONF_OK;
    }

    return ngx_http_mcds_purge_when(cf, conf, value);
}


static char *
ngx_http_mcds_purge_when(ngx_conf_t *cf, ngx_http_mcds_purge_t *conf,
    ngx_str_t *value)
{
    ngx_http_complex_value_t          *cv;
    ngx_http_compile_complex_value_t   ccv;

    if (ngx_http_script_variables_count(value) == 0) {
        return ", it has no variable";
    }

    if (conf->when == NULL) {
        conf->when = ngx_array_create(cf->pool, 1,
                                      sizeof(ngx_http_complex_value_t));
        if (conf->when == NULL) {
            return NGX_CONF_ERROR;
        }
    }

    cv = ngx_array_push(conf->when);
    if (cv == NULL) {
        return NGX_CONF_ERROR;
    }

    ngx_memzero(&ccv, sizeof(ngx_http_compile_complex_value_t));

    ccv.cf = cf;
    ccv.value = value;
    ccv.complex_value = cv;

    return ngx_http_compile_complex_value(&ccv) == NGX_OK
           ? NGX_CONF_OK : NGX_CONF_ERROR;
}


void
ngx_http_mcds_purge_merge(ngx_conf_t *cf, ngx_http_mcds_cache_conf_t *prev,
    ngx_http_mcds_cache_conf_t *conf)
{
    ngx_http_core_loc_conf_t  *clcf;

    if (conf->purge || prev->purge == NULL) {
        return;
    }

    if (!prev->purge->handler) {
        conf->purge = prev->purge;
        conf->purge_place = prev->purge_place;
        return;
    }

    /* a handler is the location's, of which "if" and "limit_except" are part */

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    if (clcf->noname || clcf->lmt_excpt) {
        conf->purge = prev->purge;
        conf->purge_place = prev->purge_place;

        if (clcf->lmt_excpt && clcf->handler == NULL) {
            clcf->handler = ngx_http_mcds_purge_handler;
        }
    }
}


ngx_uint_t
ngx_http_mcds_purge_needs_pool(ngx_http_mcds_cache_conf_t *conf)
{
    return conf->purge && conf->purge->handler;
}

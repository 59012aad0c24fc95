
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_param.h"
#include "ngx_http_mcds_param_type.h"


static ngx_http_mcds_param_t *ngx_http_mcds_param_row(
    ngx_http_mcds_param_t *param);
static ngx_uint_t ngx_http_mcds_param_first(ngx_http_mcds_param_t *param);
static ngx_http_mcds_param_t *ngx_http_mcds_param_find(
    ngx_http_mcds_param_t *params, ngx_str_t *arg, ngx_str_t *value);
static ngx_uint_t ngx_http_mcds_param_again(ngx_conf_t *cf, ngx_uint_t first,
    ngx_uint_t i, ngx_http_mcds_param_t *params, ngx_http_mcds_param_t *param);
static char *ngx_http_mcds_param_set(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_mcds_param_t *param, ngx_str_t *arg, ngx_str_t *value,
    void *conf);


char *
ngx_http_mcds_params(ngx_conf_t *cf, ngx_command_t *cmd, ngx_uint_t i,
    ngx_http_mcds_param_t *params, void *conf)
{
    ngx_str_t              *arg, value;
    ngx_uint_t              first;
    ngx_http_mcds_param_t  *param;

    for (param = ngx_http_mcds_param_row(params);
         param;
         param = ngx_http_mcds_param_row(param + 1))
    {
        ngx_http_mcds_param_put(param, conf, param->init);
    }

    arg = cf->args->elts;
    param = ngx_http_mcds_param_row(params);

    for ( /* void */ ; i < cf->args->nelts; i++) {

        if (param == NULL || !ngx_http_mcds_param_first(param)) {
            break;
        }

        if (ngx_http_mcds_param_set(cf, cmd, param, &arg[i], &arg[i], conf)
            != NGX_CONF_OK)
        {
            return NGX_CONF_ERROR;
        }

        param = ngx_http_mcds_param_row(param + 1);
    }

    for (first = i; i < cf->args->nelts; i++) {

        param = ngx_http_mcds_param_find(params, &arg[i], &value);

        if (param == NULL) {
            return ngx_http_mcds_invalid(cf, cmd, &arg[i], NULL);
        }

        if (ngx_http_mcds_param_again(cf, first, i, params, param)) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "duplicate parameter \"%V\" in \"%V\"", &arg[i],
                               &cmd->name);
            return NGX_CONF_ERROR;
        }

        if (ngx_http_mcds_param_set(cf, cmd, param, &arg[i], &value, conf)
            != NGX_CONF_OK)
        {
            return NGX_CONF_ERROR;
        }
    }

    return NGX_CONF_OK;
}


/* this row, the first one of the table that it leads to, or NULL at the end */

static ngx_http_mcds_param_t *
ngx_http_mcds_param_row(ngx_http_mcds_param_t *param)
{
    while (param && param->set == NULL) {
        param = param->post;
    }

    return param;
}


/* one of the first arguments, which have no name */

static ngx_uint_t
ngx_http_mcds_param_first(ngx_http_mcds_param_t *param)
{
    return param->name.len
           && param->name.data[param->name.len - 1] != '='
           && param->set != ngx_http_mcds_param_word;
}


/* the row of an argument, and its value; NULL: there is none */

static ngx_http_mcds_param_t *
ngx_http_mcds_param_find(ngx_http_mcds_param_t *params, ngx_str_t *arg,
    ngx_str_t *value)
{
    size_t                  len;
    ngx_http_mcds_param_t  *param;

    for (param = ngx_http_mcds_param_row(params);
         param;
         param = ngx_http_mcds_param_row(param + 1))
    {
        len = param->name.len;

        if (ngx_http_mcds_param_first(param)
            || arg->len < len
            || ngx_strncmp(arg->data, param->name.data, len) != 0)
        {
            continue;
        }

        /* a word is a whole argument, what follows a "=" is not empty */

        if ((arg->len > len) != (param->set != ngx_http_mcds_param_word)) {
            continue;
        }

        value->data = arg->data + len;
        value->len = arg->len - len;

        return param;
    }

    return NULL;
}


static ngx_uint_t
ngx_http_mcds_param_again(ngx_conf_t *cf, ngx_uint_t first, ngx_uint_t i,
    ngx_http_mcds_param_t *params, ngx_http_mcds_param_t *param)
{
    ngx_str_t              *arg, value;
    ngx_http_mcds_param_t  *other;

    if (param->name.len == 0) {
        return 0;
    }

    arg = cf->args->elts;

    for ( /* void */ ; first < i; first++) {

        other = ngx_http_mcds_param_find(params, &arg[first], &value);

        if (other && other->name.len && other->offset == param->offset) {
            return 1;
        }
    }

    return 0;
}


static char *
ngx_http_mcds_param_set(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_mcds_param_t *param, ngx_str_t *arg, ngx_str_t *value, void *conf)
{
    char  *must;

    must = param->set(cf, param, value, conf);

    if (must == NULL || must == NGX_CONF_ERROR) {
        return must;
    }

    return ngx_http_mcds_invalid(cf, cmd, arg, must);
}


char *
ngx_http_mcds_param_off(ngx_conf_t *cf, void *field)
{
    void       **p = field;
    ngx_str_t   *arg;

    if (*p != NGX_CONF_UNSET_PTR) {
        return "is duplicate";
    }

    arg = cf->args->elts;

    if (cf->args->nelts == 2 && ngx_http_mcds_is(&arg[1], "off")) {
        *p = NULL;
    }

    return NGX_CONF_OK;
}


char *
ngx_http_mcds_param_list(ngx_conf_t *cf, ngx_array_t **list, size_t size)
{
    ngx_uint_t   off;
    ngx_str_t   *arg;

    arg = cf->args->elts;
    off = (cf->args->nelts == 2 && ngx_http_mcds_is(&arg[1], "off"));

    if (*list == NGX_CONF_UNSET_PTR) {

        *list = off ? NULL : ngx_array_create(cf->pool, 2, size);

        return (off || *list) ? NGX_CONF_OK : NGX_CONF_ERROR;
    }

    if (*list == NULL) {
        return off ? "is duplicate" : "is off already";
    }

    return off ? "is duplicate" : NGX_CONF_OK;
}


char *
ngx_http_mcds_invalid(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_str_t *value, char *must)
{
    if (must) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid value \"%V\" in \"%V\", it must be %s",
                           value, &cmd->name, must);

    } else {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid parameter \"%V\" in \"%V\"", value,
                           &cmd->name);
    }

    return NGX_CONF_ERROR;
}


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
static ngx_uint_t ngx_http_mcds_param_many(ngx_http_mcds_param_t *param);
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

        if (i + 1 < cf->args->nelts && ngx_http_mcds_is(&arg[i], "off")) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "\"%V\" directive \"off\" takes no further "
                               "parameter", &cmd->name);
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


void
ngx_http_mcds_params_add(ngx_http_mcds_param_t *params,
    ngx_http_mcds_param_t *more)
{
    ngx_http_mcds_param_t  *end, *next;

    for (end = params; end->set; end++) { /* void */ }

    /*
     * if nginx has read another configuration before in this process, the table
     * "params" is already continued by the table "more"
     */

    for (next = end->post; next; next = next->post) {

        if (next == more) {
            return;
        }

        while (next->set) {
            next++;
        }
    }

    for (next = more; next->set; next++) { /* void */ }

    next->post = end->post;
    end->post = more;
}


/*
 * returns param, unless param is the last row of a table of parameters, which
 * describes no parameter: then returns the first row of the table that
 * continues this table, or NULL if there is no such table
 */

static ngx_http_mcds_param_t *
ngx_http_mcds_param_row(ngx_http_mcds_param_t *param)
{
    while (param && param->set == NULL) {
        param = param->post;
    }

    return param;
}


/*
 * 1 if several arguments of a directive may match this row of its table of
 * parameters
 */

static ngx_uint_t
ngx_http_mcds_param_many(ngx_http_mcds_param_t *param)
{
    return param->name.len == 0 || param->name.data[0] == '$';
}


/*
 * 1 if a row of the table of parameters is for a positional argument of the
 * directive: such an argument does not begin with the parameter's name
 */

static ngx_uint_t
ngx_http_mcds_param_first(ngx_http_mcds_param_t *param)
{
    return !ngx_http_mcds_param_many(param)
           && param->name.data[param->name.len - 1] != '='
           && param->set != ngx_http_mcds_param_word;
}


/*
 * finds the row of the table of parameters that matches an argument of a
 * directive, and points "value" to the value in the argument; NULL if no row
 * matches
 */

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

        if (param->set == ngx_http_mcds_param_word) {

            if (arg->len > len) {
                continue;
            }

        } else if (len && arg->len == len) {
            return NULL;
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

    arg = cf->args->elts;

    for ( /* void */ ; first < i; first++) {

        other = ngx_http_mcds_param_find(params, &arg[first], &value);

        if (other->offset != param->offset) {
            continue;
        }

        /*
         * the directive has this parameter twice, which is an error, unless the
         * parameter's row in the table of parameters may match several
         * arguments, such as "$a" and "$b"; "$a" twice is an error even then
         */

        if (!ngx_http_mcds_param_many(param)
            || (param->name.len
                && arg[first].len == arg[i].len
                && ngx_strncmp(arg[first].data, arg[i].data, arg[i].len) == 0))
        {
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
ngx_http_mcds_set_value(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_str_t              *arg;
    ngx_http_mcds_param_t  *param;

    for (param = cmd->post; /* void */ ; param++) {
        if (param->name.len == cmd->name.len
            && ngx_strncmp(param->name.data, cmd->name.data, cmd->name.len)
               == 0)
        {
            break;
        }
    }

    if (ngx_http_mcds_param_get(param, conf) != NGX_CONF_UNSET) {
        return "is duplicate";
    }

    arg = cf->args->elts;

    return ngx_http_mcds_param_set(cf, cmd, param, &arg[1], &arg[1], conf);
}


void
ngx_http_mcds_values_unset(ngx_http_mcds_param_t *param, void *conf)
{
    for ( /* void */ ; param->set; param++) {
        ngx_http_mcds_param_put(param, conf, NGX_CONF_UNSET);
    }
}


void
ngx_http_mcds_values_merge(ngx_http_mcds_param_t *param, void *prev,
    void *conf)
{
    int64_t  n;

    for ( /* void */ ; param->set; param++) {

        if (ngx_http_mcds_param_get(param, conf) != NGX_CONF_UNSET) {
            continue;
        }

        n = ngx_http_mcds_param_get(param, prev);

        ngx_http_mcds_param_put(param, conf,
                                (n == NGX_CONF_UNSET) ? param->init : n);
    }
}


ngx_str_t *
ngx_http_mcds_param_given(ngx_conf_t *cf, char *name)
{
    size_t       len;
    ngx_str_t   *arg;
    ngx_uint_t   i;

    arg = cf->args->elts;
    len = ngx_strlen(name);

    for (i = 1; i < cf->args->nelts; i++) {
        if (arg[i].len >= len && ngx_strncmp(arg[i].data, name, len) == 0) {
            return &arg[i];
        }
    }

    return NULL;
}


ngx_uint_t
ngx_http_mcds_is_off(ngx_conf_t *cf)
{
    ngx_str_t  *arg;

    arg = cf->args->elts;

    return cf->args->nelts == 2 && ngx_http_mcds_is(&arg[1], "off");
}


char *
ngx_http_mcds_param_off(ngx_conf_t *cf, void *field)
{
    void **p = field;

    ngx_str_t  *arg;

    if (*p != NGX_CONF_UNSET_PTR) {
        return "is duplicate";
    }

    arg = cf->args->elts;

    if (ngx_http_mcds_is_off(cf)) {
        *p = NULL;

    } else if (ngx_http_mcds_is(&arg[1], "off")) {
        return "\"off\" takes no further parameter";
    }

    return NGX_CONF_OK;
}


char *
ngx_http_mcds_param_list(ngx_conf_t *cf, ngx_array_t **list, size_t size)
{
    ngx_str_t  *arg;

    if (ngx_http_mcds_is_off(cf)) {

        if (*list != NGX_CONF_UNSET_PTR) {
            return "is duplicate";
        }

        *list = NULL;
        return NGX_CONF_OK;
    }

    arg = cf->args->elts;

    if (ngx_http_mcds_is(&arg[1], "off")) {
        return "\"off\" takes no further parameter";
    }

    if (*list == NULL) {
        return "is off already";
    }

    if (*list == NGX_CONF_UNSET_PTR) {
        *list = ngx_array_create(cf->pool, 2, size);
    }

    return *list ? NGX_CONF_OK : NGX_CONF_ERROR;
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


/*
 * Copyright (C) mcds authors
 *
 * Directives that are more than a slot.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_module.h"


void
ngx_http_mcds_set_place(ngx_conf_t *cf, ngx_http_mcds_place_t *place)
{
    if (cf->conf_file && cf->conf_file->file.fd != NGX_INVALID_FILE) {
        place->file = cf->conf_file->file.name;
        place->line = cf->conf_file->line;

    } else {
        ngx_str_set(&place->file, "command line");
        place->line = 0;
    }
}


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
ngx_http_mcds_cache(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mcds_loc_conf_t *mlcf = conf;

    ngx_str_t  *value;

    if (mlcf->cache.data) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (value[1].len == 0) {
        return "must be \"on\", \"off\" or the name of a pool";
    }

    mlcf->cache = value[1];
    ngx_http_mcds_set_place(cf, &mlcf->cache_place);

    return NGX_CONF_OK;
}


char *
ngx_http_mcds_cache_methods(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mcds_loc_conf_t *mlcf = conf;

    ngx_str_t   *value;
    ngx_uint_t   i;

    if (mlcf->cache_methods) {
        return "is duplicate";
    }

    value = cf->args->elts;

    for (i = 1; i < cf->args->nelts; i++) {

        if (value[i].len == 3 && ngx_strncmp(value[i].data, "GET", 3) == 0) {
            mlcf->cache_methods |= NGX_HTTP_GET;

        } else if (value[i].len == 4
                   && ngx_strncmp(value[i].data, "HEAD", 4) == 0)
        {
            mlcf->cache_methods |= NGX_HTTP_HEAD;

        } else {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid method \"%V\" in \"%V\", it must be "
                               "GET or HEAD", &value[i], &cmd->name);
            return NGX_CONF_ERROR;
        }
    }

    /* HEAD is answered from the page of GET, so there is no one without */

    mlcf->cache_methods |= NGX_HTTP_GET;

    return NGX_CONF_OK;
}


/* "on" without a bound, "off" never, or a time */

char *
ngx_http_mcds_cache_period(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    char *p = conf;

    ngx_str_t   *value;
    ngx_int_t   *field;
    ngx_msec_t   ms;

    field = (ngx_int_t *) (p + cmd->offset);

    if (*field != NGX_CONF_UNSET) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (value[1].len == 2 && ngx_strncmp(value[1].data, "on", 2) == 0) {
        *field = NGX_HTTP_MCDS_ALWAYS;
        return NGX_CONF_OK;
    }

    if (value[1].len == 3 && ngx_strncmp(value[1].data, "off", 3) == 0) {
        *field = 0;
        return NGX_CONF_OK;
    }

    ms = ngx_parse_time(&value[1], 0);

    if (ms == (ngx_msec_t) NGX_ERROR) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid value \"%V\" in \"%V\" directive, it "
                           "must be \"on\", \"off\" or a time", &value[1],
                           &cmd->name);
        return NGX_CONF_ERROR;
    }

    *field = ms;

    return NGX_CONF_OK;
}


char *
ngx_http_mcds_cache_lock_timeout(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    ngx_http_mcds_loc_conf_t *mlcf = conf;

    ngx_str_t   *value;
    ngx_msec_t   ms;

    if (mlcf->cache_lock_timeout != NGX_CONF_UNSET_MSEC) {
        return "is duplicate";
    }

    value = cf->args->elts;

    ms = ngx_parse_time(&value[1], 0);

    if (ms == (ngx_msec_t) NGX_ERROR) {
        return "invalid value";
    }

    mlcf->cache_lock_timeout = ms;
    mlcf->cache_lock_pass = 0;

    if (cf->args->nelts == 2) {
        return NGX_CONF_OK;
    }

    if (value[2].len == 4 && ngx_strncmp(value[2].data, "pass", 4) == 0) {
        mlcf->cache_lock_pass = 1;
        return NGX_CONF_OK;
    }

    if (value[2].len == 5 && ngx_strncmp(value[2].data, "error", 5) == 0) {
        return NGX_CONF_OK;
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "invalid parameter \"%V\" in \"%V\", it must be "
                       "\"error\" or \"pass\"", &value[2], &cmd->name);

    return NGX_CONF_ERROR;
}


char *
ngx_http_mcds_cache_max_size(ngx_conf_t *cf, void *post, void *data)
{
    size_t *size = data;

    return (*size > NGX_HTTP_MCDS_MAX_SIZE) ? "must be 64m at most"
                                            : NGX_CONF_OK;
}


char *
ngx_http_mcds_cache_lock_age(ngx_conf_t *cf, void *post, void *data)
{
    time_t *age = data;

    if (*age < 2 || *age > NGX_MCDS_MAX_TTL) {
        return "must be 2s, since memcached counts in seconds, to 30d";
    }

    return NGX_CONF_OK;
}


char *
ngx_http_mcds_cache_session_cookies(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    ngx_http_mcds_loc_conf_t *mlcf = conf;

    ngx_str_t   *value, *name;
    ngx_uint_t   i;

    if (mlcf->session_cookies == NGX_CONF_UNSET_PTR) {
        mlcf->session_cookies = NULL;
    }

    value = cf->args->elts;

    if (cf->args->nelts == 2
        && value[1].len == 3 && ngx_strncmp(value[1].data, "off", 3) == 0)
    {
        return NGX_CONF_OK;
    }

    if (mlcf->session_cookies == NULL) {
        mlcf->session_cookies = ngx_array_create(cf->pool, 4,
                                                 sizeof(ngx_str_t));
        if (mlcf->session_cookies == NULL) {
            return NGX_CONF_ERROR;
        }
    }

    for (i = 1; i < cf->args->nelts; i++) {

        if (value[i].len == 0) {
            return "needs names of cookies";
        }

        name = ngx_array_push(mlcf->session_cookies);
        if (name == NULL) {
            return NGX_CONF_ERROR;
        }

        *name = value[i];
    }

    return NGX_CONF_OK;
}


char *
ngx_http_mcds_zone(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mcds_main_conf_t *mmcf = conf;

    ssize_t     size;
    ngx_str_t  *value;

    if (mmcf->zone_size) {
        return "is duplicate";
    }

    value = cf->args->elts;

    size = ngx_parse_size(&value[1]);

    if (size < (ssize_t) (16 * ngx_pagesize)) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid size \"%V\" in \"%V\", it must be at "
                           "least %uz", &value[1], &cmd->name,
                           16 * ngx_pagesize);
        return NGX_CONF_ERROR;
    }

    mmcf->zone_size = size;

    return NGX_CONF_OK;
}

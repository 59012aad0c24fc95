
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

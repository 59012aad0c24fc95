
/*
 * Copyright (C) mcds authors
 *
 * Helpers for directives that nginx's own slot setters cannot read.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_conf.h"


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


int64_t
ngx_http_mcds_parse_msec(ngx_str_t *text)
{
    ngx_int_t  n;

    n = ngx_parse_time(text, 0);

#if (NGX_PTR_SIZE == 4)

    /*
     * on a 32-bit host, ngx_parse_time() reads at most 24 days in milliseconds:
     * longer times are read in seconds
     */

    if (n == NGX_ERROR) {
        n = ngx_parse_time(text, 1);
        return (n == NGX_ERROR) ? NGX_ERROR : (int64_t) n * 1000;
    }

#endif

    return n;
}


char *
ngx_http_mcds_set_mask(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_str_t           *value;
    ngx_uint_t           i, m;
    ngx_conf_bitmask_t  *mask;

    value = cf->args->elts;
    mask = cmd->post;

    for (i = 1; i < cf->args->nelts; i++) {

        for (m = 0; mask[m].name.len; m++) {
            if (mask[m].name.len == value[i].len
                && ngx_strcasecmp(mask[m].name.data, value[i].data) == 0)
            {
                break;
            }
        }

        if (mask[m].name.len == 0) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid value \"%V\" in \"%V\", it must be "
                               "one of%s", &value[i], &cmd->name,
                               ngx_http_mcds_mask_words(cf, mask));
            return NGX_CONF_ERROR;
        }
    }

    return ngx_conf_set_bitmask_slot(cf, cmd, conf);
}


u_char *
ngx_http_mcds_mask_words(ngx_conf_t *cf, ngx_conf_bitmask_t *mask)
{
    u_char      *p, *words;
    size_t       len;
    ngx_uint_t   m;

    len = 1;

    for (m = 0; mask[m].name.len; m++) {
        len += 1 + mask[m].name.len;
    }

    words = ngx_pcalloc(cf->temp_pool, len);
    if (words == NULL) {
        return (u_char *) "";
    }

    for (p = words, m = 0; mask[m].name.len; m++) {
        p = ngx_sprintf(p, " %V", &mask[m].name);
    }

    return words;
}


char *
ngx_http_mcds_set_handler(ngx_conf_t *cf, ngx_http_handler_pt handler)
{
    ngx_str_t                 *value;
    ngx_http_mcds_loc_conf_t  *mlcf;
    ngx_http_core_loc_conf_t  *clcf;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);
    mlcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_mcds_module);

    value = cf->args->elts;

    if (mlcf->handler) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\" conflicts with \"%V\": only one of them "
                           "can answer the requests of a location",
                           &value[0], &mlcf->handler_name);
        return NGX_CONF_ERROR;
    }

    if (clcf->handler) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\" conflicts with another directive that "
                           "answers the requests of this location", &value[0]);
        return NGX_CONF_ERROR;
    }

    clcf->handler = handler;

    mlcf->handler = handler;
    mlcf->handler_name = value[0];
    ngx_http_mcds_set_place(cf, &mlcf->handler_place);

    return NGX_CONF_OK;
}


/*
 * a later directive of another module replaces the content handler of a
 * location silently, so the handler is checked again when locations are merged
 */

char *
ngx_http_mcds_check_handler(ngx_conf_t *cf, ngx_http_mcds_loc_conf_t *conf)
{
    ngx_http_core_loc_conf_t  *clcf;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    if (conf->handler == NULL || clcf->handler == conf->handler) {
        return NGX_CONF_OK;
    }

    ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                  "\"%V\" conflicts with another directive that answers the "
                  "requests of its location, in %V:%ui", &conf->handler_name,
                  &conf->handler_place.file, conf->handler_place.line);

    return NGX_CONF_ERROR;
}


char *
ngx_http_mcds_compile(ngx_conf_t *cf, ngx_str_t *text,
    ngx_http_complex_value_t *cv)
{
    ngx_http_compile_complex_value_t  ccv;

    ngx_memzero(&ccv, sizeof(ngx_http_compile_complex_value_t));

    ccv.cf = cf;
    ccv.value = text;
    ccv.complex_value = cv;

    if (ngx_http_compile_complex_value(&ccv) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


/*
 * Copyright (C) mcds authors
 *
 * The directive mcds_counter_api.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_conf.h"
#include "ngx_http_mcds_param_type.h"
#include "ngx_http_mcds_counter.h"
#include "ngx_http_mcds_counter_conf.h"
#include "ngx_http_mcds_counter_api.h"


static char *ngx_http_mcds_show_match(ngx_conf_t *cf,
    ngx_http_mcds_param_t *param, ngx_str_t *text, void *conf);
static char *ngx_http_mcds_show_variable(ngx_conf_t *cf,
    ngx_http_mcds_param_t *param, ngx_str_t *text, void *conf);
static char *ngx_http_mcds_show_check(ngx_conf_t *cf,
    ngx_http_mcds_show_t *show);


ngx_http_mcds_param_t  ngx_http_mcds_show_params[] = {

    { ngx_string("prefix="),
      ngx_http_mcds_param_complex,
      ngx_http_mcds_field(ngx_http_mcds_show_t, prefix),
      0, 0, 0, NULL },

    { ngx_string("count="),
      ngx_http_mcds_param_flag,
      ngx_http_mcds_field(ngx_http_mcds_show_t, count),
      0, 0, 0, NULL },

    { ngx_string("match="),
      ngx_http_mcds_show_match,
      ngx_http_mcds_field(ngx_http_mcds_show_t, match),
      0, 0, 0, NULL },

    { ngx_string("max="),
      ngx_http_mcds_param_num,
      ngx_http_mcds_field(ngx_http_mcds_show_t, max),
      1, 500, 100, NULL },

    { ngx_string("ttl="),
      ngx_http_mcds_param_sec,
      ngx_http_mcds_field(ngx_http_mcds_show_t, ttl),
      1, NGX_MCDS_MAX_TTL, 0, NULL },

    { ngx_string("$"),
      ngx_http_mcds_show_variable,
      ngx_http_mcds_field(ngx_http_mcds_show_t, variables),
      0, 0, 0, NULL },

      ngx_http_mcds_params_end
};


char *
ngx_http_mcds_counter_api(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mcds_counter_conf_t *ncf = conf;

    char                  *rv;
    ngx_http_mcds_show_t  *show;

    if (ncf->show) {
        return "is duplicate";
    }

    show = ngx_pcalloc(cf->pool, sizeof(ngx_http_mcds_show_t));
    if (show == NULL) {
        return NGX_CONF_ERROR;
    }

    if (ngx_array_init(&show->variables, cf->pool, 2,
                       sizeof(ngx_http_mcds_shown_t))
        != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    if (ngx_http_mcds_params(cf, cmd, 1, ngx_http_mcds_show_params, show)
        != NGX_CONF_OK)
    {
        return NGX_CONF_ERROR;
    }

    rv = ngx_http_mcds_show_check(cf, show);

    if (rv != NGX_CONF_OK) {
        return rv;
    }

    ncf->show = show;
    ngx_http_mcds_set_place(cf, &ncf->show_place);

    return ngx_http_mcds_set_handler(cf, ngx_http_mcds_counter_api_handler);
}


static char *
ngx_http_mcds_show_match(ngx_conf_t *cf, ngx_http_mcds_param_t *param,
    ngx_str_t *text, void *conf)
{
#if (NGX_PCRE)

    ngx_http_mcds_show_t *show = conf;

    u_char               errstr[NGX_MAX_CONF_ERRSTR];
    ngx_regex_compile_t  rc;

    ngx_memzero(&rc, sizeof(ngx_regex_compile_t));

    rc.pattern = *text;
    rc.err.len = NGX_MAX_CONF_ERRSTR;
    rc.err.data = errstr;

    show->match = ngx_http_regex_compile(cf, &rc);

    return show->match ? NGX_CONF_OK : NGX_CONF_ERROR;

#else

    return "left out, as this nginx has no PCRE library";

#endif
}


static char *
ngx_http_mcds_show_variable(ngx_conf_t *cf, ngx_http_mcds_param_t *param,
    ngx_str_t *text, void *conf)
{
    ngx_http_mcds_show_t *show = conf;

    ngx_http_mcds_shown_t  *shown;

    shown = ngx_array_push(&show->variables);
    if (shown == NULL) {
        return NGX_CONF_ERROR;
    }

    shown->name = *text;
    shown->index = ngx_http_get_variable_index(cf, text);

    return shown->index == NGX_ERROR ? NGX_CONF_ERROR : NGX_CONF_OK;
}


static char *
ngx_http_mcds_show_check(ngx_conf_t *cf, ngx_http_mcds_show_t *show)
{
    ngx_uint_t  keys;

    keys = show->match || show->ttl || ngx_http_mcds_param_given(cf, "max=");

    if (show->top) {

        if (show->prefix == NULL
            && (keys || show->count || show->variables.nelts))
        {
            return "shows \"top=\" alone, or other numbers, not both";
        }

        if (show->prefix && !show->count) {
            return "has \"top=\" beside \"prefix=\" without \"count=on\"";
        }

    } else if (show->prefix == NULL) {

        if (keys) {
            return "has \"match=\", \"max=\" or \"ttl=\" without \"prefix=\"";
        }

        if (show->variables.nelts == 0) {
            return "needs \"prefix=\", \"top=\" or a variable";
        }
    }

    if (show->ttl && !show->count) {
        return "has \"ttl=\" without \"count=on\"";
    }

    return NGX_CONF_OK;
}


/*
 * Copyright (C) mcds authors
 *
 * Parses and merges the directive mcds_purge_api: how requests purge pages.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_mcds_purge.h"
#include "ngx_http_mcds_conf.h"
#include "ngx_http_mcds_param_type.h"
#include "ngx_http_mcds_cache.h"
#include "ngx_http_mcds_purge.h"


static char *ngx_http_mcds_purge_method(ngx_conf_t *cf,
    ngx_http_mcds_param_t *param, ngx_str_t *text, void *conf);
static char *ngx_http_mcds_purge_when(ngx_conf_t *cf,
    ngx_http_mcds_param_t *param, ngx_str_t *text, void *conf);


static ngx_conf_enum_t  ngx_http_mcds_purge_modes[] = {
    { ngx_string("invalidate"), NGX_HTTP_MCDS_MODE_INVALIDATE },
    { ngx_string("delete"), NGX_HTTP_MCDS_MODE_DELETE },
    { ngx_string("refresh"), NGX_HTTP_MCDS_MODE_REFRESH },
    { ngx_null_string, 0 }
};


static ngx_http_mcds_param_t  ngx_http_mcds_purge_params[] = {

    { ngx_string("on"),
      ngx_http_mcds_param_word,
      ngx_http_mcds_field(ngx_http_mcds_purge_t, handler),
      1, 0, 0, NULL },

    { ngx_string("off"),
      ngx_http_mcds_param_word,
      ngx_http_mcds_field(ngx_http_mcds_purge_t, off),
      1, 0, 0, NULL },

    { ngx_string("mode="),
      ngx_http_mcds_param_enum,
      ngx_http_mcds_field(ngx_http_mcds_purge_t, mode),
      0, 0, 0, ngx_http_mcds_purge_modes },

    { ngx_string("method="),
      ngx_http_mcds_purge_method,
      ngx_http_mcds_field(ngx_http_mcds_purge_t, method),
      0, 0, 0, NULL },

    { ngx_string(""),
      ngx_http_mcds_purge_when,
      ngx_http_mcds_field(ngx_http_mcds_purge_t, when),
      0, 0, 0, NULL },

      ngx_http_mcds_params_end
};


char *
ngx_http_mcds_cache_purge(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mcds_cache_conf_t *ccf = conf;

    ngx_http_mcds_purge_t  *purge;

    if (ccf->purge) {
        return "is duplicate";
    }

    purge = ngx_pcalloc(cf->pool, sizeof(ngx_http_mcds_purge_t));
    if (purge == NULL) {
        return NGX_CONF_ERROR;
    }

    if (ngx_http_mcds_params(cf, cmd, 1, ngx_http_mcds_purge_params, purge)
        != NGX_CONF_OK)
    {
        return NGX_CONF_ERROR;
    }

    if (purge->off + purge->handler + (purge->when || purge->method.len) != 1)
    {
        return "needs \"on\", \"off\", or \"method=\" and conditions";
    }

    if (purge->off && ngx_http_mcds_param_given(cf, "mode=")) {
        return "has a mode and \"off\"";
    }

    if (purge->handler && purge->mode == NGX_HTTP_MCDS_MODE_REFRESH) {
        return "has \"mode=refresh\" in a location of its own, where no page "
               "can be made";
    }

    purge->how = (purge->mode == NGX_HTTP_MCDS_MODE_DELETE)
                 ? NGX_MCDS_PURGE_DELETE : NGX_MCDS_PURGE_INVALIDATE;

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
ngx_http_mcds_purge_method(ngx_conf_t *cf, ngx_http_mcds_param_t *param,
    ngx_str_t *text, void *conf)
{
    if (ngx_http_mcds_is(text, "GET") || ngx_http_mcds_is(text, "HEAD")) {
        return "another method than GET and HEAD";
    }

    return ngx_http_mcds_param_string(cf, param, text, conf);
}


static char *
ngx_http_mcds_purge_when(ngx_conf_t *cf, ngx_http_mcds_param_t *param,
    ngx_str_t *text, void *conf)
{
    ngx_http_mcds_purge_t *purge = conf;

    ngx_http_complex_value_t  *cv;

    if (ngx_http_script_variables_count(text) == 0) {
        return "a condition with a variable";
    }

    if (purge->when == NULL) {
        purge->when = ngx_array_create(cf->pool, 1,
                                       sizeof(ngx_http_complex_value_t));
        if (purge->when == NULL) {
            return NGX_CONF_ERROR;
        }
    }

    cv = ngx_array_push(purge->when);
    if (cv == NULL) {
        return NGX_CONF_ERROR;
    }

    return ngx_http_mcds_compile(cf, text, cv);
}


void
ngx_http_mcds_purge_merge(ngx_conf_t *cf, ngx_http_mcds_cache_conf_t *prev,
    ngx_http_mcds_cache_conf_t *conf)
{
    ngx_http_core_loc_conf_t  *clcf, *outer;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    conf->get_conf = ((ngx_http_conf_ctx_t *) cf->ctx)->loc_conf;

    if (clcf->lmt_excpt) {
        outer = prev->get_conf[ngx_http_core_module.ctx_index];

        if (!(outer->limit_except & NGX_HTTP_GET)) {
            conf->get_conf = prev->get_conf;
        }
    }

    if (conf->purge || prev->purge == NULL) {
        return;
    }

    if (!prev->purge->handler) {
        conf->purge = prev->purge;
        conf->purge_place = prev->purge_place;
        return;
    }

    /*
     * "if" and "limit_except" blocks inherit the content handler of their
     * location
     */

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

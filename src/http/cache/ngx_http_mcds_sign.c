
/*
 * Copyright (C) mcds authors
 *
 * The directive mcds_cache_hmac_key: only signed pages are served.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_mcds_sign.h"
#include "ngx_http_mcds_param.h"
#include "ngx_http_mcds_cache.h"
#include "ngx_http_mcds_sign.h"


char *
ngx_http_mcds_cache_hmac_key(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mcds_cache_conf_t *ccf = conf;

    ngx_str_t   *value;
    ngx_uint_t   i;

    if (ccf->secrets != NGX_CONF_UNSET_PTR) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (cf->args->nelts == 2 && ngx_http_mcds_is(&value[1], "off")) {
        ccf->secrets = NULL;
        return NGX_CONF_OK;
    }

    if (!ngx_mcds_sign_able()) {
        return "needs an nginx that is built with OpenSSL";
    }

    ccf->secrets = ngx_array_create(cf->pool, 1, sizeof(ngx_str_t));
    if (ccf->secrets == NULL) {
        return NGX_CONF_ERROR;
    }

    for (i = 1; i < cf->args->nelts; i++) {

        if (ngx_conf_full_name(cf->cycle, &value[i], 1) != NGX_OK
            || ngx_mcds_sign_read(cf, "mcds_cache_hmac_key", &value[i],
                                  ccf->secrets)
               != NGX_OK)
        {
            return NGX_CONF_ERROR;
        }
    }

    return NGX_CONF_OK;
}

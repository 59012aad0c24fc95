
/*
 * Copyright (C) mcds authors
 *
 * mcds_return: as "return", but in the content phase, when the numbers of the
 * counters are known.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_conf.h"
#include "ngx_http_mcds_counter.h"
#include "ngx_http_mcds_counter_conf.h"


char *
ngx_http_mcds_return(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mcds_counter_conf_t *ncf = conf;

    ngx_int_t                          n, code;
    ngx_str_t                         *value, *text;
    ngx_http_compile_complex_value_t   ccv;

    if (ncf->return_text) {
        return "is duplicate";
    }

    value = cf->args->elts;
    text = &value[1];
    code = NGX_HTTP_OK;

    n = ngx_atoi(value[1].data, value[1].len);

    if (cf->args->nelts == 3 || n != NGX_ERROR) {
        code = n;

        if (code < 200 || code > 599) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid code \"%V\" in \"%V\", it must be "
                               "200 to 599", &value[1], &cmd->name);
            return NGX_CONF_ERROR;
        }

        text = &value[2];
    }

    ncf->return_text = ngx_pcalloc(cf->pool,
                                    sizeof(ngx_http_complex_value_t));
    if (ncf->return_text == NULL) {
        return NGX_CONF_ERROR;
    }

    ncf->return_code = code;

    if (text < value + cf->args->nelts) {
        ngx_memzero(&ccv, sizeof(ngx_http_compile_complex_value_t));

        ccv.cf = cf;
        ccv.value = text;
        ccv.complex_value = ncf->return_text;

        if (ngx_http_compile_complex_value(&ccv) != NGX_OK) {
            return NGX_CONF_ERROR;
        }
    }

    return ngx_http_mcds_set_handler(cf, ngx_http_mcds_return_handler);
}


ngx_int_t
ngx_http_mcds_return_handler(ngx_http_request_t *r)
{
    ngx_int_t                      rc;
    ngx_http_mcds_counter_conf_t  *ncf;

    ncf = ngx_http_get_module_loc_conf(r, ngx_http_mcds_counter_module);

    if (ncf->return_code >= NGX_HTTP_SPECIAL_RESPONSE
        && ncf->return_text->value.len == 0)
    {
        return ncf->return_code;
    }

    rc = ngx_http_discard_request_body(r);
    if (rc != NGX_OK) {
        return rc;
    }

    return ngx_http_send_response(r, ncf->return_code, NULL,
                                  ncf->return_text);
}

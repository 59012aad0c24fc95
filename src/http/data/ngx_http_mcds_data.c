
/*
 * Copyright (C) mcds authors
 *
 * The functions that the directives of arrays and tables share.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_conf.h"
#include "ngx_http_mcds_resource.h"
#include "ngx_http_mcds_stat.h"
#include "ngx_http_mcds_data.h"


void
ngx_http_mcds_data_needs(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_mcds_data_conf_t *dcf)
{
    if (dcf->directive == NULL) {
        dcf->directive = (char *) cmd->name.data;
        ngx_http_mcds_set_place(cf, &dcf->place);
    }
}


ngx_int_t
ngx_http_mcds_data_failed(ngx_http_request_t *r, ngx_uint_t rc)
{
    ngx_http_mcds_data_conf_t  *dcf;

    dcf = ngx_http_get_module_loc_conf(r, ngx_http_mcds_data_module);

    ngx_http_mcds_stat_failed(dcf->stat, rc);

    return ngx_http_mcds_resource_failed(r, rc);
}


ngx_int_t
ngx_http_mcds_data_unread(ngx_http_request_t *r, ngx_uint_t rc)
{
    ngx_http_mcds_data_conf_t  *dcf;

    dcf = ngx_http_get_module_loc_conf(r, ngx_http_mcds_data_module);

    ngx_http_mcds_stat_failed(dcf->stat, rc);

    if (!(r->method & (NGX_HTTP_GET|NGX_HTTP_HEAD))
        && ngx_mcds_sent(rc) && !ngx_mcds_answered(rc))
    {
        rc = NGX_MCDS_DOWN;
    }

    return ngx_http_mcds_resource_failed(r, rc);
}

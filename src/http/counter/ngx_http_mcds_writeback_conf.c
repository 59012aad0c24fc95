
/*
 * Copyright (C) mcds authors
 *
 * The directive mcds_counter_writeback.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_conf.h"
#include "ngx_http_mcds_param_type.h"
#include "ngx_http_mcds_counter.h"
#include "ngx_http_mcds_counter_conf.h"
#include "ngx_http_mcds_writeback.h"
#include "ngx_http_mcds_writeback_core.h"


static char *ngx_http_mcds_writeback_uri(ngx_conf_t *cf,
    ngx_http_mcds_param_t *param, ngx_str_t *text, void *conf);
static ngx_int_t ngx_http_mcds_writeback_name(ngx_conf_t *cf,
    ngx_http_mcds_writeback_t *wb, ngx_uint_t n);


static ngx_http_mcds_param_t  ngx_http_mcds_writeback_params[] = {

    { ngx_string("uri"),
      ngx_http_mcds_writeback_uri,
      ngx_http_mcds_field(ngx_http_mcds_writeback_t, uri),
      0, 0, 0, NULL },

    { ngx_string("interval="),
      ngx_http_mcds_param_msec,
      ngx_http_mcds_field(ngx_http_mcds_writeback_t, interval),
      100, 0, 3600000, NULL },

    { ngx_string("batch="),
      ngx_http_mcds_param_num,
      ngx_http_mcds_field(ngx_http_mcds_writeback_t, batch),
      1, 10000, 1000, NULL },

      ngx_http_mcds_params_end
};


char *
ngx_http_mcds_counter_writeback(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    ngx_http_mcds_counter_conf_t *ncf = conf;

    char                       *rv;
    ngx_str_t                  *value;
    ngx_http_mcds_writeback_t  *wb;

    value = cf->args->elts;

    if (value[1].len && value[1].data[0] == '$') {

        if (cf->args->nelts != 3) {
            return "needs \"on\" or \"off\" behind a variable";
        }

        return ngx_http_mcds_counter_written_back(cf, cmd, ncf);
    }

    rv = ngx_http_mcds_param_off(cf, &ncf->writeback, 0);

    if (rv != NGX_CONF_OK || ncf->writeback == NULL) {
        return rv;
    }

    wb = ngx_pcalloc(cf->pool, sizeof(ngx_http_mcds_writeback_t));
    if (wb == NULL) {
        return NGX_CONF_ERROR;
    }

    if (ngx_http_mcds_params(cf, cmd, 1, ngx_http_mcds_writeback_params, wb)
        != NGX_CONF_OK)
    {
        return NGX_CONF_ERROR;
    }

    ngx_http_mcds_set_place(cf, &wb->place);

    ncf->writeback = wb;

    return NGX_CONF_OK;
}


static char *
ngx_http_mcds_writeback_uri(ngx_conf_t *cf, ngx_http_mcds_param_t *param,
    ngx_str_t *text, void *conf)
{
    ngx_http_mcds_writeback_t *wb = conf;

    u_char  *p;

    if (text->data[0] != '/' || ngx_http_script_variables_count(text)) {
        return "the URI of a location, without variables";
    }

    wb->uri = *text;

    p = ngx_strlchr(text->data, text->data + text->len, '?');

    if (p) {
        wb->uri.len = p - text->data;
        wb->args.data = p + 1;
        wb->args.len = text->len - wb->uri.len - 1;
    }

    return NULL;
}


/*
 * Many servers may inherit one directive; each of them posts to its own
 * location.  Directives with the same destination become one writeback.
 */

char *
ngx_http_mcds_writeback_merge(ngx_conf_t *cf,
    ngx_http_mcds_counter_conf_t *conf)
{
    ngx_uint_t                     i, n;
    ngx_http_mcds_writeback_t     *wb, *other, **wbp;
    ngx_http_core_srv_conf_t      *cscf, *ocscf;
    ngx_http_mcds_counter_main_t  *nmcf;

    wb = conf->writeback;

    if (wb == NULL || (conf->counters == NULL && conf->show == NULL)) {
        return NGX_CONF_OK;
    }

    nmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_mcds_counter_module);
    cscf = ngx_http_conf_get_module_srv_conf(cf, ngx_http_core_module);

    wbp = nmcf->writebacks.elts;
    n = 0;

    for (i = 0; i < nmcf->writebacks.nelts; i++) {
        other = wbp[i];

        if (other->uri.len != wb->uri.len
            || other->args.len != wb->args.len
            || ngx_strncmp(other->uri.data, wb->uri.data, wb->uri.len) != 0
            || ngx_strncmp(other->args.data, wb->args.data, wb->args.len) != 0)
        {
            continue;
        }

        if (other->ctx == cscf->ctx) {

            if (other->interval == wb->interval && other->batch == wb->batch) {
                conf->writeback = other;
                return NGX_CONF_OK;
            }

            ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                          "\"mcds_counter_writeback %V\" in %V:%ui has other "
                          "parameters than the one in %V:%ui", &wb->uri,
                          &wb->place.file, wb->place.line, &other->place.file,
                          other->place.line);
            return NGX_CONF_ERROR;
        }

        ocscf = other->ctx->srv_conf[ngx_http_core_module.ctx_index];

        n += (ocscf->server_name.len == cscf->server_name.len
              && ngx_strncmp(ocscf->server_name.data, cscf->server_name.data,
                             cscf->server_name.len)
                 == 0);
    }

    other = ngx_palloc(cf->pool, sizeof(ngx_http_mcds_writeback_t));
    wbp = ngx_array_push(&nmcf->writebacks);

    if (other == NULL || wbp == NULL) {
        return NGX_CONF_ERROR;
    }

    *other = *wb;
    *wbp = other;

    other->ctx = cscf->ctx;

    if (ngx_http_mcds_writeback_name(cf, other, n) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    conf->writeback = other;

    return NGX_CONF_OK;
}


/*
 * composes the name of the account, which must be the same after a reload; n:
 * the number of servers of the same name that post to this URI, too
 */

static ngx_int_t
ngx_http_mcds_writeback_name(ngx_conf_t *cf, ngx_http_mcds_writeback_t *wb,
    ngx_uint_t n)
{
    u_char                    *p;
    ngx_http_core_srv_conf_t  *cscf;

    cscf = wb->ctx->srv_conf[ngx_http_core_module.ctx_index];

    wb->name.data = ngx_pnalloc(cf->pool,
                                cscf->server_name.len + wb->uri.len + 1
                                + wb->args.len + 1 + NGX_INT_T_LEN);
    if (wb->name.data == NULL) {
        return NGX_ERROR;
    }

    p = ngx_sprintf(wb->name.data, "%V%V?%V#%ui", &cscf->server_name,
                    &wb->uri, &wb->args, n);

    wb->name.len = p - wb->name.data;

    return NGX_OK;
}

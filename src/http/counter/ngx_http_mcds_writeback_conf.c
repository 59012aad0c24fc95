
/*
 * Copyright (C) mcds authors
 *
 * The directive mcds_counter_writeback.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_conf.h"
#include "ngx_http_mcds_counter.h"
#include "ngx_http_mcds_counter_conf.h"
#include "ngx_http_mcds_writeback.h"
#include "ngx_http_mcds_writeback_core.h"


#define NGX_HTTP_MCDS_WRITEBACK_MIN    100
#define NGX_HTTP_MCDS_WRITEBACK_BATCH  10000


static char *ngx_http_mcds_writeback_param(ngx_conf_t *cf,
    ngx_http_mcds_writeback_t *wb, ngx_str_t *value);
static char *ngx_http_mcds_writeback_uri(ngx_conf_t *cf,
    ngx_http_mcds_writeback_t *wb, ngx_str_t *value);
static ngx_int_t ngx_http_mcds_writeback_name(ngx_conf_t *cf,
    ngx_http_mcds_writeback_t *wb, ngx_uint_t n);


char *
ngx_http_mcds_counter_writeback(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    ngx_http_mcds_counter_conf_t *ncf = conf;

    char                       *rv;
    ngx_str_t                  *value;
    ngx_uint_t                  i;
    ngx_http_mcds_writeback_t  *wb;

    value = cf->args->elts;

    if (value[1].len && value[1].data[0] == '$') {

        if (cf->args->nelts != 3) {
            return "needs \"on\" or \"off\" behind a variable";
        }

        return ngx_http_mcds_counter_written_back(cf, cmd, ncf);
    }

    if (ncf->writeback != NGX_CONF_UNSET_PTR) {
        return "is duplicate";
    }

    if (value[1].len == 3 && ngx_strncmp(value[1].data, "off", 3) == 0) {

        if (cf->args->nelts > 2) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid parameter \"%V\" in \"%V off\"",
                               &value[2], &cmd->name);
            return NGX_CONF_ERROR;
        }

        ncf->writeback = NULL;
        return NGX_CONF_OK;
    }

    wb = ngx_pcalloc(cf->pool, sizeof(ngx_http_mcds_writeback_t));
    if (wb == NULL) {
        return NGX_CONF_ERROR;
    }

    if (ngx_http_mcds_writeback_uri(cf, wb, &value[1]) != NGX_CONF_OK) {
        return NGX_CONF_ERROR;
    }

    for (i = 2; i < cf->args->nelts; i++) {

        rv = ngx_http_mcds_writeback_param(cf, wb, &value[i]);

        if (rv != NGX_CONF_OK) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid parameter \"%V\" in \"%V\"%s",
                               &value[i], &cmd->name, rv);
            return NGX_CONF_ERROR;
        }
    }

    if (wb->interval == 0) {
        wb->interval = 3600 * 1000;
    }

    if (wb->batch == 0) {
        wb->batch = 1000;
    }

    ngx_http_mcds_set_place(cf, &wb->place);

    ncf->writeback = wb;

    return NGX_CONF_OK;
}


static char *
ngx_http_mcds_writeback_uri(ngx_conf_t *cf, ngx_http_mcds_writeback_t *wb,
    ngx_str_t *value)
{
    u_char  *p;

    if (value->data[0] != '/' || ngx_http_script_variables_count(value)) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"mcds_counter_writeback\" needs the URI of a "
                           "location, without variables, not \"%V\"", value);
        return NGX_CONF_ERROR;
    }

    wb->uri = *value;

    p = ngx_strlchr(value->data, value->data + value->len, '?');

    if (p) {
        wb->uri.len = p - value->data;
        wb->args.data = p + 1;
        wb->args.len = value->len - wb->uri.len - 1;
    }

    return NGX_CONF_OK;
}


/* NGX_CONF_OK, or what is to be said of it */

static char *
ngx_http_mcds_writeback_param(ngx_conf_t *cf, ngx_http_mcds_writeback_t *wb,
    ngx_str_t *value)
{
    int64_t    ms;
    ngx_int_t  n;
    ngx_str_t  s;

    if (value->len > 9 && ngx_strncmp(value->data, "interval=", 9) == 0) {
        s.data = value->data + 9;
        s.len = value->len - 9;

        ms = ngx_http_mcds_parse_msec(&s);

        if (wb->interval) {
            return ", it is a duplicate";
        }

        wb->interval = ms;

        if (ms < NGX_HTTP_MCDS_WRITEBACK_MIN || (int64_t) wb->interval != ms) {
            return ", a time of 100ms at least is needed";
        }

        return NGX_CONF_OK;
    }

    if (value->len > 6 && ngx_strncmp(value->data, "batch=", 6) == 0) {

        n = ngx_atoi(value->data + 6, value->len - 6);

        if (wb->batch) {
            return ", it is a duplicate";
        }

        if (n < 1 || n > NGX_HTTP_MCDS_WRITEBACK_BATCH) {
            return ", a number from 1 to 10000 is needed";
        }

        wb->batch = n;

        return NGX_CONF_OK;
    }

    return "";
}


/*
 * One directive may be inherited by many servers; each of them posts to its
 * own location.  Where several lead to the same one they are one.
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


/* that of the account, the same after a reload; n: others of that name */

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


/*
 * Copyright (C) mcds authors
 *
 * The configuration of mcds_counter_writeback, by which workers post the counts
 * of counters to a location.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_conf.h"
#include "ngx_http_mcds_param_type.h"
#include "ngx_http_mcds_counter.h"
#include "ngx_http_mcds_counter_conf.h"
#include "ngx_http_mcds_writeback.h"


typedef struct {
    ngx_http_mcds_writeback_t  *writeback;
} ngx_http_mcds_writeback_conf_t;


static ngx_int_t ngx_http_mcds_writeback_preconfigure(ngx_conf_t *cf);
static void *ngx_http_mcds_writeback_create_main_conf(ngx_conf_t *cf);
static void *ngx_http_mcds_writeback_create_loc_conf(ngx_conf_t *cf);
static char *ngx_http_mcds_writeback_merge_loc_conf(ngx_conf_t *cf,
    void *parent, void *child);
static char *ngx_http_mcds_writeback_merge(ngx_conf_t *cf,
    ngx_http_mcds_counter_conf_t *conf);
static char *ngx_http_mcds_counter_writeback(ngx_conf_t *cf,
    ngx_command_t *cmd, void *conf);
static char *ngx_http_mcds_writeback_of(ngx_conf_t *cf, ngx_command_t *cmd);
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


/* the parameters of "mcds_counter_writeback $variable on|off" */

static ngx_http_mcds_param_t  ngx_http_mcds_writeback_of_params[] = {

    { ngx_string("on|off"),
      ngx_http_mcds_param_flag,
      ngx_http_mcds_field(ngx_http_mcds_counter_t, writeback),
      0, 0, 1, NULL },

      ngx_http_mcds_params_end
};


static ngx_command_t  ngx_http_mcds_writeback_commands[] = {

    { ngx_string("mcds_counter_writeback"),
      NGX_HTTP_MCDS_LEVELS|NGX_CONF_TAKE123,
      ngx_http_mcds_counter_writeback,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

      ngx_null_command
};


static ngx_http_module_t  ngx_http_mcds_writeback_module_ctx = {
    ngx_http_mcds_writeback_preconfigure,  /* preconfiguration */
    NULL,                                  /* postconfiguration */

    ngx_http_mcds_writeback_create_main_conf, /* create main configuration */
    NULL,                                  /* init main configuration */

    NULL,                                  /* create server configuration */
    NULL,                                  /* merge server configuration */

    ngx_http_mcds_writeback_create_loc_conf, /* create location configuration */
    ngx_http_mcds_writeback_merge_loc_conf /* merge location configuration */
};


ngx_module_t  ngx_http_mcds_writeback_module = {
    NGX_MODULE_V1,
    &ngx_http_mcds_writeback_module_ctx,   /* module context */
    ngx_http_mcds_writeback_commands,      /* module directives */
    NGX_HTTP_MODULE,                       /* module type */
    NULL,                                  /* init master */
    NULL,                                  /* init module */
    NULL,                                  /* init process */
    NULL,                                  /* init thread */
    NULL,                                  /* exit thread */
    NULL,                                  /* exit process */
    NULL,                                  /* exit master */
    NGX_MODULE_V1_PADDING
};


static ngx_int_t
ngx_http_mcds_writeback_preconfigure(ngx_conf_t *cf)
{
    ngx_http_mcds_writeback_hooks = &ngx_http_mcds_writeback_posts;

    return NGX_OK;
}


static void *
ngx_http_mcds_writeback_create_main_conf(ngx_conf_t *cf)
{
    ngx_http_mcds_writeback_main_t  *wmcf;

    wmcf = ngx_pcalloc(cf->pool, sizeof(ngx_http_mcds_writeback_main_t));

    if (wmcf == NULL
        || ngx_array_init(&wmcf->writebacks, cf->pool, 2,
                          sizeof(ngx_http_mcds_writeback_t *))
           != NGX_OK)
    {
        return NULL;
    }

    return wmcf;
}


static void *
ngx_http_mcds_writeback_create_loc_conf(ngx_conf_t *cf)
{
    ngx_http_mcds_writeback_conf_t  *conf;

    conf = ngx_palloc(cf->pool, sizeof(ngx_http_mcds_writeback_conf_t));
    if (conf == NULL) {
        return NULL;
    }

    conf->writeback = NGX_CONF_UNSET_PTR;

    return conf;
}


/*
 * merges mcds_counter_writeback of a location with that of its outer level, and
 * sets the destination to which the location's counters post their counts;
 * nginx has merged the configuration of the counters before
 */

static char *
ngx_http_mcds_writeback_merge_loc_conf(ngx_conf_t *cf, void *parent,
    void *child)
{
    ngx_http_mcds_writeback_conf_t *prev = parent;
    ngx_http_mcds_writeback_conf_t *conf = child;

    char                          *rv;
    ngx_http_mcds_counter_conf_t  *ncf;

    ngx_conf_merge_ptr_value(conf->writeback, prev->writeback, NULL);

    ncf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_mcds_counter_module);

    ncf->writeback = conf->writeback;

    rv = ngx_http_mcds_writeback_merge(cf, ncf);

    conf->writeback = ncf->writeback;

    return rv;
}


static char *
ngx_http_mcds_counter_writeback(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    ngx_http_mcds_writeback_conf_t *wcf = conf;

    char                       *rv;
    ngx_str_t                  *value;
    ngx_http_mcds_writeback_t  *wb;

    value = cf->args->elts;

    if (value[1].len && value[1].data[0] == '$') {

        if (cf->args->nelts != 3) {
            return "needs \"on\" or \"off\" behind a variable";
        }

        return ngx_http_mcds_writeback_of(cf, cmd);
    }

    rv = ngx_http_mcds_param_off(cf, &wcf->writeback);

    if (rv != NGX_CONF_OK || wcf->writeback == NULL) {
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

    wcf->writeback = wb;

    return NGX_CONF_OK;
}


static char *
ngx_http_mcds_writeback_of(ngx_conf_t *cf, ngx_command_t *cmd)
{
    ngx_http_mcds_counter_t       *counter;
    ngx_http_mcds_counter_conf_t  *ncf;

    ncf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_mcds_counter_module);

    counter = ngx_http_mcds_counter_find(cf, ncf, cmd);
    if (counter == NULL) {
        return NGX_CONF_ERROR;
    }

    if (counter->has_writeback) {
        return "is duplicate";
    }

    counter->has_writeback = 1;

    return ngx_http_mcds_counter_kept(cf, cmd, counter,
                                      ngx_http_mcds_writeback_of_params);
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
 * Finds or creates the destination to which the counters of a location post
 * their counts.  Each pair of a virtual server and a URI has one destination,
 * since the same URI is another location in each virtual server.  Directives
 * with the same server and URI must have the same parameters.
 */

static char *
ngx_http_mcds_writeback_merge(ngx_conf_t *cf,
    ngx_http_mcds_counter_conf_t *conf)
{
    ngx_uint_t                       i, n;
    ngx_http_mcds_writeback_t       *wb, *other, **wbp;
    ngx_http_core_srv_conf_t        *cscf, *ocscf;
    ngx_http_mcds_writeback_main_t  *wmcf;

    wb = conf->writeback;

    if (wb == NULL || (conf->counters == NULL && conf->show == NULL)) {
        return NGX_CONF_OK;
    }

    wmcf = ngx_http_conf_get_module_main_conf(cf,
                                              ngx_http_mcds_writeback_module);
    cscf = ngx_http_conf_get_module_srv_conf(cf, ngx_http_core_module);

    wbp = wmcf->writebacks.elts;
    n = 0;

    for (i = 0; i < wmcf->writebacks.nelts; i++) {
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
    wbp = ngx_array_push(&wmcf->writebacks);

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
 * Composes the name that a destination of mcds_counter_writeback has in shared
 * memory.  The destination keeps its name after a reload.  n is the number of
 * other destinations that would get the same name without "#n".
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

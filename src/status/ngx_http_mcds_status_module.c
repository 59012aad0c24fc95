
/*
 * Copyright (C) mcds authors
 *
 * mcds_status: the directives, and the handler that sends the statistics.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_conf.h"
#include "ngx_http_mcds_param_type.h"
#include "ngx_http_mcds_status.h"


typedef struct {
    ngx_uint_t                on;
    ngx_uint_t                format;   /* the only format in which the location
                                           shows statistics, or
                                           NGX_HTTP_MCDS_STATUS_AUTO */
    ngx_array_t              *hosts;    /* other hosts whose statistics the HTML
                                           page shows, array of
                                           ngx_http_mcds_status_host_t */
    ngx_http_mcds_place_t     host_place;
} ngx_http_mcds_status_conf_t;


static void *ngx_http_mcds_status_create_conf(ngx_conf_t *cf);
static char *ngx_http_mcds_status_merge_conf(ngx_conf_t *cf, void *parent,
    void *child);
static char *ngx_http_mcds_status(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
static char *ngx_http_mcds_status_host(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
static ngx_int_t ngx_http_mcds_status_handler(ngx_http_request_t *r);
static ngx_uint_t ngx_http_mcds_status_arg(ngx_http_request_t *r, char *name);


static ngx_conf_enum_t  ngx_http_mcds_status_formats[] = {
    { ngx_string("auto"), NGX_HTTP_MCDS_STATUS_AUTO },
    { ngx_string("json"), NGX_HTTP_MCDS_STATUS_JSON },
    { ngx_string("prometheus"), NGX_HTTP_MCDS_STATUS_PROMETHEUS },
    { ngx_string("html"), NGX_HTTP_MCDS_STATUS_HTML },
    { ngx_null_string, 0 }
};


static ngx_http_mcds_param_t  ngx_http_mcds_status_params[] = {

    { ngx_string("format="),
      ngx_http_mcds_param_enum,
      ngx_http_mcds_field(ngx_http_mcds_status_conf_t, format),
      0, 0, NGX_HTTP_MCDS_STATUS_AUTO, ngx_http_mcds_status_formats },

      ngx_http_mcds_params_end
};


static ngx_command_t  ngx_http_mcds_status_commands[] = {

    { ngx_string("mcds_status"),
      NGX_HTTP_LOC_CONF|NGX_CONF_ANY,
      ngx_http_mcds_status,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mcds_status_host"),
      NGX_HTTP_LOC_CONF|NGX_CONF_TAKE2,
      ngx_http_mcds_status_host,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

      ngx_null_command
};


static ngx_http_module_t  ngx_http_mcds_status_module_ctx = {
    NULL,                                  /* preconfiguration */
    NULL,                                  /* postconfiguration */

    NULL,                                  /* create main configuration */
    NULL,                                  /* init main configuration */

    NULL,                                  /* create server configuration */
    NULL,                                  /* merge server configuration */

    ngx_http_mcds_status_create_conf,      /* create location configuration */
    ngx_http_mcds_status_merge_conf        /* merge location configuration */
};


ngx_module_t  ngx_http_mcds_status_module = {
    NGX_MODULE_V1,
    &ngx_http_mcds_status_module_ctx,      /* module context */
    ngx_http_mcds_status_commands,         /* module directives */
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


static void *
ngx_http_mcds_status_create_conf(ngx_conf_t *cf)
{
    return ngx_pcalloc(cf->pool, sizeof(ngx_http_mcds_status_conf_t));
}


/* the blocks "if" and "limit_except" inherit mcds_status from their location */

static char *
ngx_http_mcds_status_merge_conf(ngx_conf_t *cf, void *parent, void *child)
{
    ngx_http_mcds_status_conf_t *prev = parent;
    ngx_http_mcds_status_conf_t *conf = child;

    ngx_http_core_loc_conf_t  *clcf;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    if (clcf->noname || clcf->lmt_excpt) {
        *conf = *prev;

        if (clcf->lmt_excpt && clcf->handler == NULL && conf->on) {
            clcf->handler = ngx_http_mcds_status_handler;
        }
    }

    if (conf->hosts && !conf->on) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "\"mcds_status_host\" in location \"%V\", which has no "
                      "\"mcds_status\", in %V:%ui", &clcf->name,
                      &conf->host_place.file, conf->host_place.line);
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


static char *
ngx_http_mcds_status(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mcds_status_conf_t *scf = conf;

    char                       *rv;
    ngx_http_mcds_main_conf_t  *mmcf;

    if (scf->on) {
        return "is duplicate";
    }

    rv = ngx_http_mcds_set_handler(cf, ngx_http_mcds_status_handler);
    if (rv != NGX_CONF_OK) {
        return rv;
    }

    mmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_mcds_module);
    mmcf->status = 1;

    scf->on = 1;

    return ngx_http_mcds_params(cf, cmd, 1, ngx_http_mcds_status_params, scf);
}


static char *
ngx_http_mcds_status_host(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mcds_status_conf_t *scf = conf;

    ngx_str_t                    *value;
    ngx_uint_t                    i;
    ngx_http_mcds_status_host_t  *host;

    value = cf->args->elts;

    if (value[1].len == 0 || ngx_http_script_variables_count(&value[1])) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid name \"%V\" in \"%V\", it must be a text "
                           "without variables", &value[1], &cmd->name);
        return NGX_CONF_ERROR;
    }

    /*
     * the URI of another host's status must not begin with "//", which browsers
     * take for another server
     */

    if (ngx_http_script_variables_count(&value[2])
        || value[2].len == 0
        || value[2].data[0] != '/'
        || (value[2].len > 1 && value[2].data[1] == '/'))
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid URI \"%V\" in \"%V\", it must be one of "
                           "this server, which begins with one \"/\", without "
                           "variables",
                           &value[2], &cmd->name);
        return NGX_CONF_ERROR;
    }

    if (scf->hosts == NULL) {
        scf->hosts = ngx_array_create(cf->pool, 4,
                                      sizeof(ngx_http_mcds_status_host_t));
        if (scf->hosts == NULL) {
            return NGX_CONF_ERROR;
        }

        ngx_http_mcds_set_place(cf, &scf->host_place);
    }

    host = scf->hosts->elts;

    for (i = 0; i < scf->hosts->nelts; i++) {

        if (host[i].name.len == value[1].len
            && ngx_memcmp(host[i].name.data, value[1].data, value[1].len) == 0)
        {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "duplicate name \"%V\" in \"%V\"", &value[1],
                               &cmd->name);
            return NGX_CONF_ERROR;
        }
    }

    host = ngx_array_push(scf->hosts);
    if (host == NULL) {
        return NGX_CONF_ERROR;
    }

    host->name = value[1];
    host->uri = value[2];

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_http_mcds_status_handler(ngx_http_request_t *r)
{
    ngx_int_t                     rc;
    ngx_http_mcds_status_conf_t  *scf;
    ngx_http_mcds_status_text_t   text;

    if (!(r->method & (NGX_HTTP_GET|NGX_HTTP_HEAD))) {
        return NGX_HTTP_NOT_ALLOWED;
    }

    rc = ngx_http_discard_request_body(r);
    if (rc != NGX_OK) {
        return rc;
    }

    ngx_memzero(&text, sizeof(ngx_http_mcds_status_text_t));
    text.pool = r->pool;

    scf = ngx_http_get_module_loc_conf(r, ngx_http_mcds_status_module);

    switch (ngx_http_mcds_status_wanted(r, scf->format)) {

    case NGX_HTTP_MCDS_STATUS_HTML:
        return ngx_http_mcds_status_html(r, scf->format);

    case NGX_HTTP_MCDS_STATUS_NONE:
        ngx_http_mcds_status_printf(&text,
                                    scf->format == NGX_HTTP_MCDS_STATUS_AUTO
                                    ? "format must be json, prometheus or "
                                      "html\n"
                                    : "this format is not to be had here\n");

        return ngx_http_mcds_status_send(r, &text, NGX_HTTP_BAD_REQUEST,
                                         "text/plain");

    case NGX_HTTP_MCDS_STATUS_PROMETHEUS:
        ngx_mcds_stat_flush_all();
        ngx_http_mcds_status_prometheus(&text, ngx_mcds_stats);

        return ngx_http_mcds_status_send(r, &text, NGX_HTTP_OK,
                                         "text/plain; version=0.0.4; "
                                         "charset=utf-8");

    default: /* the client gets the statistics as JSON */

        if (ngx_mcds_stats && ngx_http_mcds_status_arg(r, "memory")) {
            ngx_mcds_pool_usage(
                             &ngx_mcds_stats->families[NGX_MCDS_STAT_SERVERS]);
        }

        ngx_mcds_stat_flush_all();
        ngx_http_mcds_status_json(&text, ngx_mcds_stats, scf->hosts,
                                  ngx_http_mcds_status_arg(r, "history"));

        return ngx_http_mcds_status_send(r, &text, NGX_HTTP_OK,
                                         "application/json");
    }
}


static ngx_uint_t
ngx_http_mcds_status_arg(ngx_http_request_t *r, char *name)
{
    ngx_str_t  value;

    return ngx_http_arg(r, (u_char *) name, ngx_strlen(name), &value)
           == NGX_OK;
}

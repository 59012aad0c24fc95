
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_task.h"
#include "ngx_http_mcds_log.h"


static ngx_int_t ngx_http_mcds_log_handler(ngx_http_request_t *r);
static void *ngx_http_mcds_log_create_main(ngx_conf_t *cf);
static char *ngx_http_mcds_log_init_main(ngx_conf_t *cf, void *conf);
static void *ngx_http_mcds_log_create_loc(ngx_conf_t *cf);
static char *ngx_http_mcds_log_merge_loc(ngx_conf_t *cf, void *parent,
    void *child);
static ngx_int_t ngx_http_mcds_log_init(ngx_conf_t *cf);
static ngx_int_t ngx_http_mcds_log_init_process(ngx_cycle_t *cycle);
static ngx_int_t ngx_http_mcds_log_open(ngx_http_mcds_log_t *log,
    ngx_mcds_log_writer_t **writer);
static void ngx_http_mcds_log_exit_process(ngx_cycle_t *cycle);
static void ngx_http_mcds_log_close_all(void);


static ngx_command_t  ngx_http_mcds_log_commands[] = {

    { ngx_string("mcds_log"),
      NGX_HTTP_MCDS_LEVELS|NGX_HTTP_LIF_CONF|NGX_HTTP_LMT_CONF
                          |NGX_CONF_1MORE,
      ngx_http_mcds_log_set,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mcds_log_api"),
      NGX_HTTP_LOC_CONF|NGX_HTTP_LIF_CONF|NGX_CONF_1MORE,
      ngx_http_mcds_log_read_set,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

      ngx_null_command
};


static ngx_http_module_t  ngx_http_mcds_log_module_ctx = {
    NULL,                                  /* preconfiguration */
    ngx_http_mcds_log_init,                /* postconfiguration */

    ngx_http_mcds_log_create_main,         /* create main configuration */
    ngx_http_mcds_log_init_main,           /* init main configuration */

    NULL,                                  /* create server configuration */
    NULL,                                  /* merge server configuration */

    ngx_http_mcds_log_create_loc,          /* create location configuration */
    ngx_http_mcds_log_merge_loc            /* merge location configuration */
};


ngx_module_t  ngx_http_mcds_log_module = {
    NGX_MODULE_V1,
    &ngx_http_mcds_log_module_ctx,         /* module context */
    ngx_http_mcds_log_commands,            /* module directives */
    NGX_HTTP_MODULE,                       /* module type */
    NULL,                                  /* init master */
    NULL,                                  /* init module */
    ngx_http_mcds_log_init_process,        /* init process */
    NULL,                                  /* init thread */
    NULL,                                  /* exit thread */
    ngx_http_mcds_log_exit_process,        /* exit process */
    NULL,                                  /* exit master */
    NGX_MODULE_V1_PADDING
};


/*
 * the log writers that this worker has opened, and closes when it exits; after
 * a reload of a single process ("master_process off"), only this array has
 * pointers to the open writers, not the new configuration
 */

static ngx_mcds_log_writer_t  **ngx_http_mcds_log_writers;
static ngx_uint_t               ngx_http_mcds_log_nwriters;


/*
 * the handler of the log phase: writes a line about the request to each log of
 * its location
 */

static ngx_int_t
ngx_http_mcds_log_handler(ngx_http_request_t *r)
{
    u_char                     *last;
    ngx_str_t                   line;
    ngx_uint_t                  i;
    ngx_http_mcds_task_t       *task;
    ngx_http_mcds_log_use_t   **use;
    ngx_http_mcds_log_conf_t   *lcf;

    static u_char  buf[NGX_MCDS_LOG_LINE];

    lcf = ngx_http_get_module_loc_conf(r, ngx_http_mcds_log_module);

    if (lcf->logs == NULL) {
        return NGX_OK;
    }

    task = ngx_http_mcds_task_get(r);

    if (task && task->refresh) {
        return NGX_OK;
    }

    use = lcf->logs->elts;

    for (i = 0; i < lcf->logs->nelts; i++) {

        if (use[i]->log->writer == NULL) {
            continue;
        }

        if (use[i]->filter) {

            if (ngx_http_complex_value(r, use[i]->filter, &line) != NGX_OK) {
                return NGX_ERROR;
            }

            if (line.len == 0 || (line.len == 1 && line.data[0] == '0')) {
                continue;
            }
        }

        last = ngx_http_mcds_log_format_write(r, use[i]->format, buf,
                                              NGX_MCDS_LOG_LINE);
        line.data = buf;
        line.len = last - buf;

        ngx_mcds_log_line(use[i]->log->writer, ngx_mcds_now(), &line);
    }

    return NGX_OK;
}


static void *
ngx_http_mcds_log_create_main(ngx_conf_t *cf)
{
    ngx_http_mcds_log_main_t  *lmcf;

    lmcf = ngx_pcalloc(cf->pool, sizeof(ngx_http_mcds_log_main_t));
    if (lmcf == NULL) {
        return NULL;
    }

    if (ngx_array_init(&lmcf->uses, cf->pool, 4,
                       sizeof(ngx_http_mcds_log_use_t *))
        != NGX_OK
        || ngx_array_init(&lmcf->logs, cf->pool, 2,
                          sizeof(ngx_http_mcds_log_t *))
           != NGX_OK
        || ngx_array_init(&lmcf->formats, cf->pool, 4,
                          sizeof(ngx_http_mcds_log_format_t *))
           != NGX_OK
        || ngx_http_mcds_log_formats_watch(cf) != NGX_OK)
    {
        return NULL;
    }

    return lmcf;
}


/*
 * ends the collection of log_format directives, and finds the pool and the
 * format of each log: nginx calls this function when it has read all directives
 */

static char *
ngx_http_mcds_log_init_main(ngx_conf_t *cf, void *conf)
{
    ngx_http_mcds_log_main_t *lmcf = conf;

    ngx_http_mcds_log_formats_unwatch();

    if (ngx_http_mcds_log_resolve(cf, lmcf) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


static void *
ngx_http_mcds_log_create_loc(ngx_conf_t *cf)
{
    ngx_http_mcds_log_conf_t  *conf;

    conf = ngx_palloc(cf->pool, sizeof(ngx_http_mcds_log_conf_t));
    if (conf == NULL) {
        return NULL;
    }

    conf->logs = NGX_CONF_UNSET_PTR;
    conf->read = NULL;

    return conf;
}


static char *
ngx_http_mcds_log_merge_loc(ngx_conf_t *cf, void *parent, void *child)
{
    ngx_http_mcds_log_conf_t *prev = parent;
    ngx_http_mcds_log_conf_t *conf = child;

    ngx_http_core_loc_conf_t  *clcf;

    ngx_conf_merge_ptr_value(conf->logs, prev->logs, NULL);

    /*
     * the blocks "if" and "limit_except" inherit mcds_log_api from their
     * location, as they inherit proxy_pass
     */

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    if (conf->read == NULL && (clcf->noname || clcf->lmt_excpt)) {
        conf->read = prev->read;

        if (clcf->lmt_excpt && clcf->handler == NULL && conf->read) {
            clcf->handler = ngx_http_mcds_log_read_handler;
        }
    }

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_http_mcds_log_init(ngx_conf_t *cf)
{
    ngx_uint_t                  i;
    ngx_http_handler_pt        *h;
    ngx_http_mcds_log_t       **log;
    ngx_http_mcds_log_main_t   *lmcf;
    ngx_http_core_main_conf_t  *cmcf;

    lmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_mcds_log_module);

    log = lmcf->logs.elts;

    for (i = 0; i < lmcf->logs.nelts; i++) {
        if (log[i]->written) {
            break;
        }
    }

    if (i == lmcf->logs.nelts) {
        return NGX_OK;
    }

    cmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);

    h = ngx_array_push(&cmcf->phases[NGX_HTTP_LOG_PHASE].handlers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    *h = ngx_http_mcds_log_handler;

    return NGX_OK;
}


static ngx_int_t
ngx_http_mcds_log_init_process(ngx_cycle_t *cycle)
{
    ngx_uint_t                  i;
    ngx_http_mcds_log_t       **log;
    ngx_http_mcds_log_main_t   *lmcf;

    ngx_http_mcds_log_close_all();

    lmcf = ngx_http_cycle_get_module_main_conf(cycle,
                                               ngx_http_mcds_log_module);

    if (lmcf == NULL || lmcf->logs.nelts == 0) {
        return NGX_OK;
    }

    ngx_http_mcds_log_writers = ngx_calloc(2 * lmcf->logs.nelts
                                           * sizeof(ngx_mcds_log_writer_t *),
                                           cycle->log);
    if (ngx_http_mcds_log_writers == NULL) {
        return NGX_ERROR;
    }

    log = lmcf->logs.elts;

    for (i = 0; i < lmcf->logs.nelts; i++) {

        if ((log[i]->written
             && ngx_http_mcds_log_open(log[i], &log[i]->writer) != NGX_OK)
            || (log[i]->shown
                && ngx_http_mcds_log_open(log[i], &log[i]->poster) != NGX_OK))
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_mcds_log_open(ngx_http_mcds_log_t *log,
    ngx_mcds_log_writer_t **writer)
{
    *writer = ngx_mcds_log_open(&log->log);
    if (*writer == NULL) {
        return NGX_ERROR;
    }

    ngx_http_mcds_log_writers[ngx_http_mcds_log_nwriters++] = *writer;

    return NGX_OK;
}


static void
ngx_http_mcds_log_exit_process(ngx_cycle_t *cycle)
{
    ngx_http_mcds_log_close_all();
}


static void
ngx_http_mcds_log_close_all(void)
{
    ngx_uint_t  i;

    for (i = 0; i < ngx_http_mcds_log_nwriters; i++) {
        ngx_mcds_log_close(ngx_http_mcds_log_writers[i]);
    }

    if (ngx_http_mcds_log_writers) {
        ngx_free(ngx_http_mcds_log_writers);
    }

    ngx_http_mcds_log_writers = NULL;
    ngx_http_mcds_log_nwriters = 0;

    /*
     * closing the log writers has changed this worker's statistics after
     * ngx_http_mcds_exit_process() has added them to those in shared memory, so
     * the last changes are added here
     */

    ngx_mcds_stat_flush_all();
}

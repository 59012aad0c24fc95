
/*
 * Copyright (C) mcds authors
 *
 * The directives mcds_log and mcds_log_api: reads their parameters, and finds
 * the log of each directive when the configuration has been read.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_conf.h"
#include "ngx_http_mcds_param_type.h"
#include "ngx_http_mcds_pool.h"
#include "ngx_http_mcds_stat.h"
#include "ngx_http_mcds_log.h"


/*
 * the defaults of the parameters of a log: "chunk" (milliseconds), "chunks" (a
 * number), and "max_chunk" (bytes)
 */
#define NGX_HTTP_MCDS_CHUNK       10000
#define NGX_HTTP_MCDS_CHUNKS      30
#define NGX_HTTP_MCDS_FULL        (128 * 1024)


static ngx_http_mcds_log_use_t *ngx_http_mcds_log_use(ngx_conf_t *cf,
    ngx_command_t *cmd);
static ngx_mcds_pool_t *ngx_http_mcds_log_pool(ngx_conf_t *cf,
    ngx_http_mcds_log_use_t *use);
static ngx_http_mcds_log_t *ngx_http_mcds_log_get(ngx_conf_t *cf,
    ngx_http_mcds_log_main_t *lmcf, ngx_mcds_pool_t *pool, ngx_str_t *name);
static ngx_int_t ngx_http_mcds_log_agree(ngx_conf_t *cf,
    ngx_http_mcds_log_use_t *use);
static ngx_int_t ngx_http_mcds_log_differs(ngx_conf_t *cf,
    ngx_http_mcds_log_use_t *use, char *what, ngx_http_mcds_place_t *place);
static ngx_int_t ngx_http_mcds_log_check(ngx_conf_t *cf,
    ngx_http_mcds_log_use_t *use);


static ngx_http_mcds_param_t  ngx_http_mcds_log_api_params[] = {

    { ngx_string("pool="),
      ngx_http_mcds_param_string,
      ngx_http_mcds_field(ngx_http_mcds_log_use_t, pool),
      0, 0, 0, NULL },

    { ngx_string("chunk="),
      ngx_http_mcds_param_msec,
      ngx_http_mcds_field(ngx_http_mcds_log_use_t, chunk),
      1000, 3600000, 0, NULL },

    { ngx_string("chunks="),
      ngx_http_mcds_param_num,
      ngx_http_mcds_field(ngx_http_mcds_log_use_t, chunks),
      2, 3600, 0, NULL },

      ngx_http_mcds_params_end
};


static ngx_http_mcds_param_t  ngx_http_mcds_log_params[] = {

    { ngx_string("if="),
      ngx_http_mcds_param_complex,
      ngx_http_mcds_field(ngx_http_mcds_log_use_t, filter),
      0, 0, 0, NULL },

    { ngx_string("max_chunk="),
      ngx_http_mcds_param_size,
      ngx_http_mcds_field(ngx_http_mcds_log_use_t, max_chunk),
      4096, 1048576, 0, NULL },

      ngx_http_mcds_params_of(ngx_http_mcds_log_api_params)
};


char *
ngx_http_mcds_log_set(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mcds_log_conf_t *lcf = conf;

    char                      *rv;
    ngx_str_t                 *value;
    ngx_http_mcds_log_use_t   *use, **p;

    rv = ngx_http_mcds_param_list(cf, &lcf->logs,
                                  sizeof(ngx_http_mcds_log_use_t *));

    if (rv != NGX_CONF_OK || lcf->logs == NULL) {
        return rv;
    }

    value = cf->args->elts;

    if (cf->args->nelts < 3 || value[2].len == 0) {
        return "needs a name and a \"log_format\"";
    }

    use = ngx_http_mcds_log_use(cf, cmd);
    if (use == NULL) {
        return NGX_CONF_ERROR;
    }

    use->format_name = value[2];

    p = ngx_array_push(lcf->logs);
    if (p == NULL) {
        return NGX_CONF_ERROR;
    }

    *p = use;

    return ngx_http_mcds_params(cf, cmd, 3, ngx_http_mcds_log_params, use);
}


char *
ngx_http_mcds_log_read_set(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mcds_log_conf_t *lcf = conf;

    if (lcf->read) {
        return "is duplicate";
    }

    lcf->read = ngx_http_mcds_log_use(cf, cmd);

    if (lcf->read == NULL
        || ngx_http_mcds_params(cf, cmd, 2, ngx_http_mcds_log_api_params,
                                lcf->read)
           != NGX_CONF_OK)
    {
        return NGX_CONF_ERROR;
    }

    return ngx_http_mcds_set_handler(cf, ngx_http_mcds_log_read_handler);
}


/*
 * creates the structure for the parameters of a directive mcds_log or
 * mcds_log_api; NULL (logged) on an error
 */

static ngx_http_mcds_log_use_t *
ngx_http_mcds_log_use(ngx_conf_t *cf, ngx_command_t *cmd)
{
    ngx_str_t                  *value;
    ngx_http_mcds_log_use_t    *use, **p;
    ngx_http_mcds_log_main_t   *lmcf;
    ngx_http_mcds_main_conf_t  *mmcf;

    value = cf->args->elts;

    if (value[1].len == 0 || ngx_strchr(value[1].data, '$')) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid name \"%V\" in \"%V\", the name of a log "
                           "is a word without variables", &value[1],
                           &cmd->name);
        return NULL;
    }

    use = ngx_pcalloc(cf->pool, sizeof(ngx_http_mcds_log_use_t));
    if (use == NULL) {
        return NULL;
    }

    use->name = value[1];
    use->directive = (char *) cmd->name.data;
    use->mlcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_mcds_module);
    ngx_http_mcds_set_place(cf, &use->place);

    mmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_mcds_module);
    mmcf->used = 1;

    lmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_mcds_log_module);

    p = ngx_array_push(&lmcf->uses);
    if (p == NULL) {
        return NULL;
    }

    *p = use;

    return use;
}


ngx_int_t
ngx_http_mcds_log_resolve(ngx_conf_t *cf, ngx_http_mcds_log_main_t *lmcf)
{
    ngx_uint_t                 i;
    ngx_mcds_pool_t           *pool;
    ngx_http_mcds_log_use_t   *use, **uses;

    uses = lmcf->uses.elts;

    for (i = 0; i < lmcf->uses.nelts; i++) {
        use = uses[i];

        pool = ngx_http_mcds_log_pool(cf, use);

        if (pool == NULL
            || ngx_http_mcds_needs_ttl(cf, pool, use->directive, &use->place)
               != NGX_OK)
        {
            return NGX_ERROR;
        }

        use->log = ngx_http_mcds_log_get(cf, lmcf, pool, &use->name);

        if (use->log == NULL || ngx_http_mcds_log_agree(cf, use) != NGX_OK) {
            return NGX_ERROR;
        }

        use->log->log.stat = ngx_http_mcds_stat_get(cf, NGX_MCDS_STAT_LOGS,
                                                    pool, &use->name);
        if (use->log->log.stat == NULL) {
            return NGX_ERROR;
        }

        if (use->format_name.len == 0) {
            use->log->shown = 1;
            continue;
        }

        use->log->written = 1;
        use->format = ngx_http_mcds_log_format_find(cf, lmcf, use);

        if (use->format == NULL) {
            return NGX_ERROR;
        }
    }

    for (i = 0; i < lmcf->uses.nelts; i++) {
        if (ngx_http_mcds_log_check(cf, uses[i]) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


/*
 * finds the pool of memcached servers for a log: that of "pool=", or of
 * "mcds_use" at the level of the directive, or the only pool; all locations
 * that inherit the directive share its log, even if they have other pools
 */

static ngx_mcds_pool_t *
ngx_http_mcds_log_pool(ngx_conf_t *cf, ngx_http_mcds_log_use_t *use)
{
    if (use->pool.len) {
        return ngx_http_mcds_choose_pool(cf, &use->pool, use->directive,
                                         &use->place);
    }

    if (use->mlcf->use.data) {
        return ngx_http_mcds_choose_pool(cf, &use->mlcf->use, "mcds_use",
                                         &use->mlcf->use_place);
    }

    return ngx_http_mcds_choose_pool(cf, NULL, use->directive, &use->place);
}


static ngx_http_mcds_log_t *
ngx_http_mcds_log_get(ngx_conf_t *cf, ngx_http_mcds_log_main_t *lmcf,
    ngx_mcds_pool_t *pool, ngx_str_t *name)
{
    ngx_uint_t             i;
    ngx_http_mcds_log_t   *log, **logs;

    logs = lmcf->logs.elts;

    for (i = 0; i < lmcf->logs.nelts; i++) {
        log = logs[i];

        if (log->log.pool == pool
            && log->log.name.len == name->len
            && ngx_strncmp(log->log.name.data, name->data, name->len) == 0)
        {
            return log;
        }
    }

    log = ngx_pcalloc(cf->pool, sizeof(ngx_http_mcds_log_t));
    if (log == NULL) {
        return NULL;
    }

    log->log.pool = pool;
    log->log.name = *name;

    logs = ngx_array_push(&lmcf->logs);
    if (logs == NULL) {
        return NULL;
    }

    *logs = log;

    return log;
}


/*
 * checks that the parameters that a directive sets for its log have the values
 * that earlier directives about this log have set
 */

static ngx_int_t
ngx_http_mcds_log_agree(ngx_conf_t *cf, ngx_http_mcds_log_use_t *use)
{
    ngx_http_mcds_log_t  *log;

    log = use->log;

    if (use->chunk) {

        if (log->log.chunk && log->log.chunk != use->chunk) {
            return ngx_http_mcds_log_differs(cf, use, "chunk",
                                             &log->chunk_place);
        }

        log->log.chunk = use->chunk;
        log->chunk_place = use->place;
    }

    if (use->chunks) {

        if (log->log.chunks && log->log.chunks != use->chunks) {
            return ngx_http_mcds_log_differs(cf, use, "chunks",
                                             &log->chunks_place);
        }

        log->log.chunks = use->chunks;
        log->chunks_place = use->place;
    }

    if (use->max_chunk) {

        if (log->log.max_chunk && log->log.max_chunk != use->max_chunk) {
            return ngx_http_mcds_log_differs(cf, use, "max_chunk",
                                             &log->max_chunk_place);
        }

        log->log.max_chunk = use->max_chunk;
        log->max_chunk_place = use->place;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_mcds_log_differs(ngx_conf_t *cf, ngx_http_mcds_log_use_t *use,
    char *what, ngx_http_mcds_place_t *place)
{
    ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                  "\"%s %V\" has another \"%s\" in %V:%ui than in %V:%ui",
                  use->directive, &use->name, what, &use->place.file,
                  use->place.line, &place->file, place->line);

    return NGX_ERROR;
}


static ngx_int_t
ngx_http_mcds_log_check(ngx_conf_t *cf, ngx_http_mcds_log_use_t *use)
{
    ngx_mcds_log_t  *log;

    log = &use->log->log;

    if (log->chunk == 0) {
        log->chunk = NGX_HTTP_MCDS_CHUNK;
    }

    if (log->chunks == 0) {
        log->chunks = NGX_HTTP_MCDS_CHUNKS;
    }

    if (log->max_chunk == 0) {
        log->max_chunk = NGX_HTTP_MCDS_FULL;
    }

    /*
     * the defaults are not too long, so that at least one directive about the
     * log has one of these parameters
     */

    if ((use->chunk || use->chunks)
        && ngx_mcds_log_ttl(log->chunk, log->chunks) > NGX_MCDS_MAX_TTL)
    {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "\"%s %V\": \"chunk\" times (\"chunks\" + 1) must be at "
                      "most 30 days minus 61 seconds in %V:%ui",
                      use->directive, &use->name, &use->place.file,
                      use->place.line);
        return NGX_ERROR;
    }

    return NGX_OK;
}

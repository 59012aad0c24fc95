
/*
 * Copyright (C) mcds authors
 *
 * The directives mcds_log and mcds_log_api.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_conf.h"
#include "ngx_http_mcds_param.h"
#include "ngx_http_mcds_pool.h"
#include "ngx_http_mcds_stat.h"
#include "ngx_http_mcds_log.h"


/* milliseconds */
#define NGX_HTTP_MCDS_CHUNK       10000
#define NGX_HTTP_MCDS_CHUNK_MIN   1000
#define NGX_HTTP_MCDS_CHUNK_MAX   3600000

#define NGX_HTTP_MCDS_CHUNKS      30
#define NGX_HTTP_MCDS_CHUNKS_MIN  2
#define NGX_HTTP_MCDS_CHUNKS_MAX  3600

/* bytes */
#define NGX_HTTP_MCDS_FULL        (128 * 1024)
#define NGX_HTTP_MCDS_FULL_MIN    (4 * 1024)
#define NGX_HTTP_MCDS_FULL_MAX    (1024 * 1024)


static ngx_http_mcds_log_use_t *ngx_http_mcds_log_use(ngx_conf_t *cf,
    ngx_command_t *cmd);
static char *ngx_http_mcds_log_param(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_mcds_log_use_t *use, ngx_str_t *value);
static char *ngx_http_mcds_log_bad(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_str_t *value, char *why);
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


char *
ngx_http_mcds_log_set(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mcds_log_conf_t *lcf = conf;

    ngx_str_t                 *value, s;
    ngx_uint_t                 i;
    ngx_http_mcds_log_use_t   *use, **p;

    value = cf->args->elts;

    if (cf->args->nelts == 2
        && value[1].len == 3 && ngx_strncmp(value[1].data, "off", 3) == 0)
    {
        if (lcf->logs != NGX_CONF_UNSET_PTR) {
            return "is duplicate";
        }

        lcf->logs = NULL;
        return NGX_CONF_OK;
    }

    if (lcf->logs == NULL) {
        return "is off already";
    }

    if (cf->args->nelts < 3 || value[2].len == 0) {
        return "needs a name and a \"log_format\"";
    }

    use = ngx_http_mcds_log_use(cf, cmd);
    if (use == NULL) {
        return NGX_CONF_ERROR;
    }

    use->format_name = value[2];

    for (i = 3; i < cf->args->nelts; i++) {

        if (value[i].len > 3 && ngx_strncmp(value[i].data, "if=", 3) == 0
            && use->filter == NULL)
        {
            use->filter = ngx_palloc(cf->pool,
                                     sizeof(ngx_http_complex_value_t));
            if (use->filter == NULL) {
                return NGX_CONF_ERROR;
            }

            s.data = value[i].data + 3;
            s.len = value[i].len - 3;

            if (ngx_http_mcds_compile(cf, &s, use->filter) != NGX_CONF_OK)
            {
                return NGX_CONF_ERROR;
            }

            continue;
        }

        if (ngx_http_mcds_log_param(cf, cmd, use, &value[i]) != NGX_CONF_OK) {
            return NGX_CONF_ERROR;
        }
    }

    if (lcf->logs == NGX_CONF_UNSET_PTR) {
        lcf->logs = ngx_array_create(cf->pool, 2,
                                     sizeof(ngx_http_mcds_log_use_t *));
        if (lcf->logs == NULL) {
            return NGX_CONF_ERROR;
        }
    }

    p = ngx_array_push(lcf->logs);
    if (p == NULL) {
        return NGX_CONF_ERROR;
    }

    *p = use;

    return NGX_CONF_OK;
}


char *
ngx_http_mcds_log_read_set(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mcds_log_conf_t *lcf = conf;

    ngx_str_t                 *value;
    ngx_uint_t                 i;

    if (lcf->read) {
        return "is duplicate";
    }

    lcf->read = ngx_http_mcds_log_use(cf, cmd);
    if (lcf->read == NULL) {
        return NGX_CONF_ERROR;
    }

    value = cf->args->elts;

    for (i = 2; i < cf->args->nelts; i++) {
        if (ngx_http_mcds_log_param(cf, cmd, lcf->read, &value[i])
            != NGX_CONF_OK)
        {
            return NGX_CONF_ERROR;
        }
    }

    return ngx_http_mcds_set_handler(cf, ngx_http_mcds_log_read_handler);
}


/* what both directives begin with; NULL: it is not right (logged) */

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


static char *
ngx_http_mcds_log_param(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_mcds_log_use_t *use, ngx_str_t *value)
{
    ssize_t    size;
    ngx_int_t  n;
    ngx_str_t  s;

    if (value->len > 5 && ngx_strncmp(value->data, "pool=", 5) == 0
        && use->pool.len == 0)
    {
        use->pool.data = value->data + 5;
        use->pool.len = value->len - 5;

        return NGX_CONF_OK;
    }

    if (value->len > 6 && ngx_strncmp(value->data, "chunk=", 6) == 0
        && use->chunk == 0)
    {
        s.data = value->data + 6;
        s.len = value->len - 6;

        n = ngx_parse_time(&s, 0);

        if (n < NGX_HTTP_MCDS_CHUNK_MIN || n > NGX_HTTP_MCDS_CHUNK_MAX) {
            return ngx_http_mcds_log_bad(cf, cmd, value,
                                         "chunk must be 1s to 1h");
        }

        use->chunk = n;
        return NGX_CONF_OK;
    }

    if (value->len > 7 && ngx_strncmp(value->data, "chunks=", 7) == 0
        && use->chunks == 0)
    {
        n = ngx_atoi(value->data + 7, value->len - 7);

        if (n < NGX_HTTP_MCDS_CHUNKS_MIN || n > NGX_HTTP_MCDS_CHUNKS_MAX) {
            return ngx_http_mcds_log_bad(cf, cmd, value,
                                         "chunks must be 2 to 3600");
        }

        use->chunks = n;
        return NGX_CONF_OK;
    }

    if (value->len > 10 && ngx_strncmp(value->data, "max_chunk=", 10) == 0
        && use->max_chunk == 0 && use->format_name.len)
    {
        s.data = value->data + 10;
        s.len = value->len - 10;

        size = ngx_parse_size(&s);

        if (size < NGX_HTTP_MCDS_FULL_MIN || size > NGX_HTTP_MCDS_FULL_MAX) {
            return ngx_http_mcds_log_bad(cf, cmd, value,
                                         "max_chunk must be 4k to 1m");
        }

        use->max_chunk = size;
        return NGX_CONF_OK;
    }

    return ngx_http_mcds_invalid(cf, cmd, value, NULL);
}


static char *
ngx_http_mcds_log_bad(ngx_conf_t *cf, ngx_command_t *cmd, ngx_str_t *value,
    char *why)
{
    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "invalid value \"%V\" in \"%V\", %s", value, &cmd->name,
                       why);

    return NGX_CONF_ERROR;
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


/* that of the level of the directive: a log of all locations is one log */

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


/* what several directives say of a log must be the same */

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

    if (ngx_mcds_log_ttl(log->chunk, log->chunks) > NGX_MCDS_MAX_TTL) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "\"%s %V\": \"chunk\" times \"chunks\" must be less "
                      "than 30 days in %V:%ui", use->directive, &use->name,
                      &use->place.file, use->place.line);
        return NGX_ERROR;
    }

    return NGX_OK;
}

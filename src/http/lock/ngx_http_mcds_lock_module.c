
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_conf.h"
#include "ngx_http_mcds_json.h"
#include "ngx_http_mcds_pool.h"
#include "ngx_http_mcds_stat.h"
#include "ngx_http_mcds_task.h"
#include "ngx_http_mcds_lock.h"


/* who waits for a lock does so for at most an hour */
#define NGX_HTTP_MCDS_LOCK_WAIT   3600000


static char *ngx_http_mcds_lock(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
static char *ngx_http_mcds_lock_param(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_mcds_lock_conf_t *lock, ngx_str_t *value);
static char *ngx_http_mcds_lock_retry_after(ngx_conf_t *cf,
    ngx_http_mcds_lock_conf_t *lock, ngx_str_t *text);
static char *ngx_http_mcds_locks(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
static ngx_int_t ngx_http_mcds_lock_word(ngx_str_t *value, char *name,
    ngx_str_t *text);
static char *ngx_http_mcds_lock_ttl(ngx_str_t *text, uint32_t *ttl);
static char *ngx_http_mcds_lock_wait(ngx_str_t *text, ngx_msec_t *wait);
static char *ngx_http_mcds_lock_code(ngx_str_t *text, ngx_uint_t *code);
static void ngx_http_mcds_lock_needs(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_mcds_lock_loc_conf_t *llcf);
static ngx_int_t ngx_http_mcds_lock_preconfigure(ngx_conf_t *cf);
static void *ngx_http_mcds_lock_create_main_conf(ngx_conf_t *cf);
static void *ngx_http_mcds_lock_create_loc_conf(ngx_conf_t *cf);
static char *ngx_http_mcds_lock_merge_loc_conf(ngx_conf_t *cf, void *parent,
    void *child);
static ngx_int_t ngx_http_mcds_lock_init(ngx_conf_t *cf);
static ngx_int_t ngx_http_mcds_lock_stats(ngx_conf_t *cf,
    ngx_http_mcds_lock_loc_conf_t *conf);


static ngx_command_t  ngx_http_mcds_lock_commands[] = {

    { ngx_string("mcds_lock"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_1MORE,
      ngx_http_mcds_lock,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("mcds_lock_api"),
      NGX_HTTP_LOC_CONF|NGX_HTTP_LIF_CONF|NGX_CONF_ANY,
      ngx_http_mcds_locks,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

      ngx_null_command
};


static ngx_http_module_t  ngx_http_mcds_lock_module_ctx = {
    ngx_http_mcds_lock_preconfigure,       /* preconfiguration */
    ngx_http_mcds_lock_init,               /* postconfiguration */

    ngx_http_mcds_lock_create_main_conf,   /* create main configuration */
    NULL,                                  /* init main configuration */

    NULL,                                  /* create server configuration */
    NULL,                                  /* merge server configuration */

    ngx_http_mcds_lock_create_loc_conf,    /* create location configuration */
    ngx_http_mcds_lock_merge_loc_conf      /* merge location configuration */
};


ngx_module_t  ngx_http_mcds_lock_module = {
    NGX_MODULE_V1,
    &ngx_http_mcds_lock_module_ctx,        /* module context */
    ngx_http_mcds_lock_commands,           /* module directives */
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


static char *
ngx_http_mcds_lock(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mcds_lock_loc_conf_t *llcf = conf;

    ngx_str_t                         *value;
    ngx_uint_t                         i;
    ngx_http_mcds_lock_conf_t         *lock;
    ngx_http_compile_complex_value_t   ccv;

    if (llcf->lock != NGX_CONF_UNSET_PTR) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (value[1].len == 3 && ngx_strncmp(value[1].data, "off", 3) == 0
        && cf->args->nelts == 2)
    {
        llcf->lock = NULL;
        return NGX_CONF_OK;
    }

    if (value[1].len == 0) {
        return "needs a key";
    }

    lock = ngx_pcalloc(cf->pool, sizeof(ngx_http_mcds_lock_conf_t));
    if (lock == NULL) {
        return NGX_CONF_ERROR;
    }

    ngx_memzero(&ccv, sizeof(ngx_http_compile_complex_value_t));

    ccv.cf = cf;
    ccv.value = &value[1];
    ccv.complex_value = &lock->key;

    if (ngx_http_compile_complex_value(&ccv) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    lock->wait = NGX_CONF_UNSET_MSEC;
    lock->waiters = NGX_CONF_UNSET_UINT;
    lock->status = NGX_CONF_UNSET_UINT;
    lock->unavailable = NGX_CONF_UNSET_UINT;

    for (i = 2; i < cf->args->nelts; i++) {
        if (ngx_http_mcds_lock_param(cf, cmd, lock, &value[i]) != NGX_CONF_OK)
        {
            return NGX_CONF_ERROR;
        }
    }

    ngx_conf_init_uint_value(lock->status, NGX_HTTP_MCDS_LOCKED);
    ngx_conf_init_uint_value(lock->unavailable, 503);
    ngx_conf_init_uint_value(lock->waiters, 1000);
    ngx_conf_init_msec_value(lock->wait, 0);

    if (lock->ttl == 0) {
        lock->ttl = 30;
    }

    llcf->lock = lock;

    ngx_http_mcds_lock_needs(cf, cmd, llcf);

    return NGX_CONF_OK;
}


static char *
ngx_http_mcds_lock_param(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_mcds_lock_conf_t *lock, ngx_str_t *value)
{
    char       *what;
    ngx_int_t   n;
    ngx_str_t   s;

    if (ngx_http_mcds_lock_word(value, "ttl=", &s) == NGX_OK
        && lock->ttl == 0)
    {
        what = ngx_http_mcds_lock_ttl(&s, &lock->ttl);

    } else if (ngx_http_mcds_lock_word(value, "wait=", &s) == NGX_OK
               && lock->wait == NGX_CONF_UNSET_MSEC)
    {
        what = ngx_http_mcds_lock_wait(&s, &lock->wait);

    } else if (ngx_http_mcds_lock_word(value, "waiters=", &s) == NGX_OK
               && lock->waiters == NGX_CONF_UNSET_UINT)
    {
        n = ngx_atoi(s.data, s.len);
        what = (n < 0 || n > 1000000) ? "0 to 1000000" : NULL;
        lock->waiters = n;

    } else if (ngx_http_mcds_lock_word(value, "status=", &s) == NGX_OK
               && lock->status == NGX_CONF_UNSET_UINT)
    {
        what = ngx_http_mcds_lock_code(&s, &lock->status);

    } else if (ngx_http_mcds_lock_word(value, "unavailable=", &s) == NGX_OK
               && lock->unavailable == NGX_CONF_UNSET_UINT)
    {
        what = NULL;

        if (s.len == 4 && ngx_strncmp(s.data, "pass", 4) == 0) {
            lock->unavailable = 0;

        } else if (ngx_http_mcds_lock_code(&s, &lock->unavailable)) {
            what = "\"pass\" or a status, 400 to 599";
        }

    } else if (ngx_http_mcds_lock_word(value, "retry_after=", &s) == NGX_OK
               && lock->retry_after == NULL)
    {
        what = ngx_http_mcds_lock_retry_after(cf, lock, &s);

    } else {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid parameter \"%V\" in \"%V\"", value,
                           &cmd->name);
        return NGX_CONF_ERROR;
    }

    return what ? ngx_http_mcds_invalid(cf, cmd, value, what)
                : NGX_CONF_OK;
}


static char *
ngx_http_mcds_lock_retry_after(ngx_conf_t *cf,
    ngx_http_mcds_lock_conf_t *lock, ngx_str_t *text)
{
    ngx_int_t  n;

    n = ngx_parse_time(text, 1);

    if (n < 1 || n > 86400) {
        return "1s to 1d";
    }

    lock->retry_after = ngx_pnalloc(cf->pool, NGX_INT_T_LEN + 1);
    if (lock->retry_after == NULL) {
        return "less";
    }

    (void) ngx_sprintf((u_char *) lock->retry_after, "%i%Z", n);

    return NULL;
}


static char *
ngx_http_mcds_locks(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mcds_lock_loc_conf_t *llcf = conf;

    char                        *what;
    ngx_str_t                   *value, s;
    ngx_uint_t                   i;
    ngx_http_mcds_locks_conf_t  *locks;

    if (llcf->locks) {
        return "is duplicate";
    }

    locks = ngx_pcalloc(cf->pool, sizeof(ngx_http_mcds_locks_conf_t));
    if (locks == NULL) {
        return NGX_CONF_ERROR;
    }

    locks->max_wait = NGX_CONF_UNSET_MSEC;

    value = cf->args->elts;

    for (i = 1; i < cf->args->nelts; i++) {

        if (ngx_http_mcds_lock_word(&value[i], "ttl=", &s) == NGX_OK
            && locks->ttl == 0)
        {
            what = ngx_http_mcds_lock_ttl(&s, &locks->ttl);

        } else if (ngx_http_mcds_lock_word(&value[i], "max_ttl=", &s) == NGX_OK
                   && locks->max_ttl == 0)
        {
            what = ngx_http_mcds_lock_ttl(&s, &locks->max_ttl);

        } else if (ngx_http_mcds_lock_word(&value[i], "max_wait=", &s)
                   == NGX_OK
                   && locks->max_wait == NGX_CONF_UNSET_MSEC)
        {
            what = ngx_http_mcds_lock_wait(&s, &locks->max_wait);

        } else {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid parameter \"%V\" in \"%V\"",
                               &value[i], &cmd->name);
            return NGX_CONF_ERROR;
        }

        if (what) {
            return ngx_http_mcds_invalid(cf, cmd, &value[i], what);
        }
    }

    if (locks->max_ttl == 0) {
        locks->max_ttl = ngx_max(locks->ttl, 3600);
    }

    if (locks->ttl == 0) {
        locks->ttl = ngx_min(locks->max_ttl, 30);
    }

    if (locks->ttl > locks->max_ttl) {
        return "has a \"ttl\" that is longer than its \"max_ttl\"";
    }

    ngx_conf_init_msec_value(locks->max_wait, 30000);

    llcf->locks = locks;

    ngx_http_mcds_lock_needs(cf, cmd, llcf);

    return ngx_http_mcds_set_handler(cf, ngx_http_mcds_locks_handler);
}


/* what follows the name */

static ngx_int_t
ngx_http_mcds_lock_word(ngx_str_t *value, char *name, ngx_str_t *text)
{
    size_t  len;

    len = ngx_strlen(name);

    if (value->len < len || ngx_strncmp(value->data, name, len) != 0) {
        return NGX_DECLINED;
    }

    text->data = value->data + len;
    text->len = value->len - len;

    return NGX_OK;
}


/* these return NULL, or what it must be */

static char *
ngx_http_mcds_lock_ttl(ngx_str_t *text, uint32_t *ttl)
{
    ngx_int_t  n;

    n = ngx_parse_time(text, 1);

    if (n < NGX_MCDS_MUTEX_MIN_TTL || n > NGX_MCDS_MAX_TTL) {
        return "2s, since memcached counts in seconds, to 30d";
    }

    *ttl = n;

    return NULL;
}


static char *
ngx_http_mcds_lock_wait(ngx_str_t *text, ngx_msec_t *wait)
{
    ngx_int_t  n;

    n = ngx_parse_time(text, 0);

    if (n < 0 || n > NGX_HTTP_MCDS_LOCK_WAIT) {
        return "a time up to 1h";
    }

    *wait = n;

    return NULL;
}


static char *
ngx_http_mcds_lock_code(ngx_str_t *text, ngx_uint_t *code)
{
    ngx_int_t  n;

    n = ngx_atoi(text->data, text->len);

    if (n < 400 || n > 599) {
        return "400 to 599";
    }

    *code = n;

    return NULL;
}


static void
ngx_http_mcds_lock_needs(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_mcds_lock_loc_conf_t *llcf)
{
    if (llcf->directive == NULL) {
        llcf->directive = (char *) cmd->name.data;
        ngx_http_mcds_set_place(cf, &llcf->place);
    }
}


static ngx_int_t
ngx_http_mcds_lock_preconfigure(ngx_conf_t *cf)
{
    if (ngx_http_mcds_feature_add(cf, &ngx_http_mcds_lock_feature) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_http_mcds_lock_add_variables(cf);
}


static void *
ngx_http_mcds_lock_create_main_conf(ngx_conf_t *cf)
{
    ngx_http_mcds_lock_main_conf_t  *lmcf;

    lmcf = ngx_pcalloc(cf->pool, sizeof(ngx_http_mcds_lock_main_conf_t));
    if (lmcf == NULL) {
        return NULL;
    }

    if (ngx_array_init(&lmcf->confs, cf->pool, 4,
                       sizeof(ngx_http_mcds_lock_loc_conf_t *))
        != NGX_OK)
    {
        return NULL;
    }

    return lmcf;
}


static void *
ngx_http_mcds_lock_create_loc_conf(ngx_conf_t *cf)
{
    ngx_http_mcds_lock_loc_conf_t  *conf;

    conf = ngx_pcalloc(cf->pool, sizeof(ngx_http_mcds_lock_loc_conf_t));
    if (conf == NULL) {
        return NULL;
    }

    /*
     * set by ngx_pcalloc():
     *
     *     conf->pool = NULL;
     *     conf->locks = NULL;
     *     conf->directive = NULL;
     *     conf->mlcf = NULL;
     */

    conf->lock = NGX_CONF_UNSET_PTR;

    return conf;
}


static char *
ngx_http_mcds_lock_merge_loc_conf(ngx_conf_t *cf, void *parent, void *child)
{
    ngx_http_mcds_lock_loc_conf_t *prev = parent;
    ngx_http_mcds_lock_loc_conf_t *conf = child;

    ngx_http_core_loc_conf_t        *clcf;
    ngx_http_mcds_main_conf_t       *mmcf;
    ngx_http_mcds_lock_loc_conf_t  **p;
    ngx_http_mcds_lock_main_conf_t  *lmcf;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    if (conf->locks == NULL && (clcf->noname || clcf->lmt_excpt)) {

        /* as proxy_pass: "if" and "limit_except" are still that location */

        conf->locks = prev->locks;

        if (clcf->lmt_excpt && clcf->handler == NULL && conf->locks) {
            clcf->handler = ngx_http_mcds_locks_handler;
        }
    }

    ngx_conf_merge_ptr_value(conf->lock, prev->lock, NULL);

    if (conf->directive == NULL) {
        conf->directive = prev->directive;
        conf->place = prev->place;
    }

    if (conf->lock == NULL && conf->locks == NULL) {
        return NGX_CONF_OK;
    }

    lmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_mcds_lock_module);
    mmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_mcds_module);

    mmcf->used = 1;

    if (conf->lock) {
        lmcf->locked = 1;
    }

    if (conf->locks && ngx_http_mcds_stat_location(cf, &conf->name) != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    /* its pool is known when all levels are merged */

    conf->mlcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_mcds_module);

    p = ngx_array_push(&lmcf->confs);
    if (p == NULL) {
        return NGX_CONF_ERROR;
    }

    *p = conf;

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_http_mcds_lock_init(ngx_conf_t *cf)
{
    ngx_uint_t                       i;
    ngx_http_handler_pt             *h;
    ngx_http_core_main_conf_t       *cmcf;
    ngx_http_mcds_lock_loc_conf_t   *conf, **confs;
    ngx_http_mcds_lock_main_conf_t  *lmcf;

    lmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_mcds_lock_module);

    confs = lmcf->confs.elts;

    for (i = 0; i < lmcf->confs.nelts; i++) {
        conf = confs[i];

        conf->pool = conf->mlcf->pool;

        if (conf->pool == NULL) {
            conf->pool = ngx_http_mcds_choose_pool(cf, NULL, conf->directive,
                                                   &conf->place);
            if (conf->pool == NULL) {
                return NGX_ERROR;
            }
        }

        /* locks must end by themselves when their owner has died */

        if (ngx_http_mcds_needs_ttl(cf, conf->pool, conf->directive,
                                    &conf->place)
            != NGX_OK)
        {
            return NGX_ERROR;
        }

        if (ngx_http_mcds_lock_stats(cf, conf) != NGX_OK) {
            return NGX_ERROR;
        }

        if (conf->lock) {
            ngx_http_mcds_check_lock(cf, conf->pool, "mcds_lock",
                                     conf->lock->ttl, &conf->place);
        }

        if (conf->locks) {
            ngx_http_mcds_check_lock(cf, conf->pool, "mcds_lock_api",
                                     conf->locks->ttl, &conf->place);
        }
    }

    if (!lmcf->locked) {
        return NGX_OK;
    }

    cmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);

    h = ngx_array_push(&cmcf->phases[NGX_HTTP_PRECONTENT_PHASE].handlers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    *h = ngx_http_mcds_lock_handler;

    return NGX_OK;
}


/* the key as it is written, and the location */

static ngx_int_t
ngx_http_mcds_lock_stats(ngx_conf_t *cf, ngx_http_mcds_lock_loc_conf_t *conf)
{
    if (conf->lock) {
        conf->stat = ngx_http_mcds_stat_get(cf, NGX_MCDS_STAT_LOCKS,
                                            conf->pool,
                                            &conf->lock->key.value);
        if (conf->stat == NULL) {
            return NGX_ERROR;
        }
    }

    if (conf->locks) {
        conf->locks_stat = ngx_http_mcds_stat_get(cf, NGX_MCDS_STAT_LOCKS,
                                                  conf->pool, &conf->name);
        if (conf->locks_stat == NULL) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}

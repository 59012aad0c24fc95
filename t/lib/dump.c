
/*
 * Copyright (C) mcds authors
 *
 * A module of nginx for Test::Mcds::Dump: answers each request with the values
 * of mcds's directives in the location that handles the request, one line for
 * each directive, and with the request's properties according to proxy headers.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"
#include "ngx_http_mcds_coding.h"
#include "ngx_http_mcds_counter.h"
#include "ngx_http_mcds_forwarded.h"
#include "ngx_http_mcds_data.h"
#include "ngx_http_mcds_lock.h"
#include "ngx_http_mcds_log.h"
#include "ngx_http_mcds_writeback.h"


#define DUMP_SIZE  16384


static ngx_int_t dump_init(ngx_conf_t *cf);
static ngx_int_t dump_handler(ngx_http_request_t *r);
static u_char *dump_cache(u_char *p, u_char *last,
    ngx_http_mcds_cache_conf_t *conf);
static u_char *dump_lists(u_char *p, u_char *last,
    ngx_http_mcds_cache_conf_t *conf);
static u_char *dump_others(u_char *p, u_char *last, ngx_http_request_t *r);
static u_char *dump_values(u_char *p, u_char *last, char *name,
    ngx_array_t *values);
static u_char *dump_words(u_char *p, u_char *last, char *name,
    ngx_array_t *words);


static ngx_http_module_t  dump_module_ctx = {
    NULL,                                  /* preconfiguration */
    dump_init,                             /* postconfiguration */

    NULL,                                  /* create main configuration */
    NULL,                                  /* init main configuration */

    NULL,                                  /* create server configuration */
    NULL,                                  /* merge server configuration */

    NULL,                                  /* create location configuration */
    NULL                                   /* merge location configuration */
};


ngx_module_t  dump_module = {
    NGX_MODULE_V1,
    &dump_module_ctx,                      /* module context */
    NULL,                                  /* module directives */
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


/* the symbols that nginx looks up in a dynamic module */

ngx_module_t  *ngx_modules[] = { &dump_module, NULL };
char          *ngx_module_names[] = { "dump_module", NULL };
char          *ngx_module_order[] = { NULL };


static ngx_int_t
dump_init(ngx_conf_t *cf)
{
    ngx_http_handler_pt        *h;
    ngx_http_core_main_conf_t  *cmcf;

    cmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);

    /*
     * the handler, which responds with the values of mcds's directives, runs in
     * the preaccess phase: after the directive "if", and before any request to
     * memcached
     */

    h = ngx_array_push(&cmcf->phases[NGX_HTTP_PREACCESS_PHASE].handlers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    *h = dump_handler;

    return NGX_OK;
}


static ngx_int_t
dump_handler(ngx_http_request_t *r)
{
    u_char                    *p, *last;
    ngx_buf_t                 *b;
    ngx_int_t                  rc;
    ngx_str_t                  text;
    ngx_chain_t                out;
    ngx_http_mcds_cache_conf_t  *conf;

    b = ngx_create_temp_buf(r->pool, DUMP_SIZE);
    if (b == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    conf = ngx_http_get_module_loc_conf(r, ngx_http_mcds_cache_module);
    last = b->end;

    p = dump_cache(b->pos, last, conf);
    p = dump_lists(p, last, conf);
    p = dump_others(p, last, r);

    if (ngx_http_mcds_forwarded(r, conf, &text) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    p = ngx_slprintf(p, last, "forwarded=%V\n", &text);

    b->last = p;
    b->last_buf = 1;
    out.buf = b;
    out.next = NULL;

    r->headers_out.status = NGX_HTTP_OK;
    r->headers_out.content_length_n = b->last - b->pos;

    rc = ngx_http_send_header(r);

    if (rc == NGX_OK) {
        rc = ngx_http_output_filter(r, &out);
    }

    ngx_http_finalize_request(r, rc);

    return NGX_DONE;
}


#define dump_number(name, value)                                              \
    p = ngx_slprintf(p, last, "mcds_" name "=%L\n", (int64_t) (value))

#define dump_str(name, value)                                                 \
    p = ngx_slprintf(p, last, "mcds_" name "=%V\n", value)


static u_char *
dump_cache(u_char *p, u_char *last, ngx_http_mcds_cache_conf_t *conf)
{
    static ngx_str_t  none = ngx_null_string;

    dump_str("cache_label", &conf->cache_label);
    dump_str("cache", &conf->cache);
    dump_str("cache_site", conf->site ? conf->site : &none);
    dump_str("cache_key", conf->cache_key ? &conf->cache_key->value : &none);
    dump_str("purge_api", &conf->purge_place.file);

    dump_number("cache_status_header", conf->cache_status_header);
    dump_number("cache_dry_run", conf->cache_dry_run);
    dump_number("cache_shared", conf->cache_shared);
    dump_number("cache_uncacheable", conf->cache_uncacheable);
    dump_number("cache_methods", conf->cache_methods);
    dump_number("cache_max_size", conf->cache_max_size);
    dump_number("cache_lock", conf->cache_lock);
    dump_number("cache_lock_age", conf->cache_lock_age);
    dump_number("cache_wait", conf->cache_wait);
    dump_number("cache_max_waiters", conf->cache_max_waiters);
    dump_number("cache_max_variants", conf->cache_max_variants);
    dump_number("cache_grace", conf->cache_grace);
    dump_number("cache_background_update", conf->cache_update);
    dump_number("cache_early", conf->cache_early);
    dump_number("cache_jitter", conf->cache_jitter);
    dump_number("cache_min_uses", conf->cache_min_uses);
    dump_number("cache_revalidate", conf->cache_revalidate);
    dump_number("cache_request_control", conf->cache_request_control);
    dump_number("cache_invalidate", conf->cache_invalidate);
    dump_number("cache_use_stale", conf->cache_use_stale);
    dump_number("ignore_headers", conf->cache_ignore);

    p = ngx_slprintf(p, last, "mcds_cache_heuristic=%ui %T\n",
                     conf->cache_heuristic, conf->cache_heuristic_max);
    p = ngx_slprintf(p, last, "mcds_cache_error_backoff=%M %M\n",
                     conf->cache_backoff, conf->cache_backoff_max);
    p = ngx_slprintf(p, last, "mcds_cache_local=%ui %M\n",
                     conf->cache_local, conf->cache_local_time);
    p = ngx_slprintf(p, last, "mcds_cache_lock_timeout=%M %ui\n",
                     conf->cache_lock_timeout, conf->cache_lock_pass);

    p = ngx_slprintf(p, last, "mcds_cache_compress=");

    if (conf->compress) {
        p = ngx_slprintf(p, last, "%ui %i %uz", conf->compress->coding,
                         conf->compress->level, conf->compress->min_length);
    }

    return ngx_slprintf(p, last, "\n");
}


static u_char *
dump_lists(u_char *p, u_char *last, ngx_http_mcds_cache_conf_t *conf)
{
    ngx_uint_t               i;
    ngx_http_cache_valid_t  *valid;

    p = dump_words(p, last, "cache_key_args",
                   conf->key_args ? &conf->key_args->names : NULL);
    p = dump_words(p, last, "cache_session_cookies", conf->session_cookies);
    p = dump_words(p, last, "cache_forwarded_headers",
                   conf->forwarded_headers);
    p = dump_words(p, last, "cache_hmac_key", conf->secrets);
    p = dump_values(p, last, "cache_tag", conf->tags);
    p = dump_values(p, last, "cache_bypass", conf->cache_bypass);
    p = dump_values(p, last, "no_cache", conf->no_cache);

    p = ngx_slprintf(p, last, "mcds_cache_valid=");

    for (i = 0; conf->cache_valid && i < conf->cache_valid->nelts; i++) {
        valid = conf->cache_valid->elts;
        p = ngx_slprintf(p, last, "%ui:%T,", (ngx_uint_t) valid[i].status,
                         (time_t) valid[i].valid);
    }

    return ngx_slprintf(p, last, "\n");
}


static u_char *
dump_others(u_char *p, u_char *last, ngx_http_request_t *r)
{
    ngx_uint_t                      i;
    ngx_http_mcds_get_t            *get;
    ngx_http_mcds_log_use_t       **log;
    ngx_http_mcds_log_conf_t       *lcf;
    ngx_http_mcds_data_conf_t      *dcf;
    ngx_http_mcds_array_conf_t     *push;
    ngx_http_mcds_counter_t        *counter;
    ngx_http_mcds_loc_conf_t       *mlcf;
    ngx_http_mcds_lock_loc_conf_t  *llcf;
    ngx_http_mcds_counter_conf_t   *ncf;

    dcf = ngx_http_get_module_loc_conf(r, ngx_http_mcds_data_module);
    llcf = ngx_http_get_module_loc_conf(r, ngx_http_mcds_lock_module);
    lcf = ngx_http_get_module_loc_conf(r, ngx_http_mcds_log_module);

    mlcf = ngx_http_get_module_loc_conf(r, ngx_http_mcds_module);
    ncf = ngx_http_get_module_loc_conf(r, ngx_http_mcds_counter_module);

    dump_str("use", &mlcf->use);
    dump_number("api_methods", mlcf->methods);

    p = ngx_slprintf(p, last, "mcds_counter=");

    for (i = 0; ncf->counters && i < ncf->counters->nelts; i++) {
        counter = ncf->counters->elts;
        p = ngx_slprintf(p, last, "%V,", &counter[i].key.value);
    }

    p = ngx_slprintf(p, last, "\nmcds_counter_writeback=");

    if (ncf->writeback) {
        p = ngx_slprintf(p, last, "%V", &ncf->writeback->uri);
    }

    p = ngx_slprintf(p, last, "\nmcds_array_push=");

    for (i = 0; dcf->pushes && i < dcf->pushes->nelts; i++) {
        push = dcf->pushes->elts;
        p = ngx_slprintf(p, last, "%V,", &push[i].name.value);
    }

    p = ngx_slprintf(p, last, "\nmcds_table_lookup=");

    for (i = 0; dcf->gets && i < dcf->gets->nelts; i++) {
        get = dcf->gets->elts;
        p = ngx_slprintf(p, last, "%V,", &get[i].table.value);
    }

    p = ngx_slprintf(p, last, "\nmcds_log=");

    for (i = 0; lcf->logs && i < lcf->logs->nelts; i++) {
        log = lcf->logs->elts;
        p = ngx_slprintf(p, last, "%V,", &log[i]->name);
    }

    p = ngx_slprintf(p, last, "\nmcds_lock=");

    if (llcf->lock) {
        p = ngx_slprintf(p, last, "%V", &llcf->lock->key.value);
    }

    return ngx_slprintf(p, last, "\n");
}


static u_char *
dump_values(u_char *p, u_char *last, char *name, ngx_array_t *values)
{
    ngx_uint_t                 i;
    ngx_http_complex_value_t  *value;

    p = ngx_slprintf(p, last, "mcds_%s=", name);

    for (i = 0; values && i < values->nelts; i++) {
        value = values->elts;
        p = ngx_slprintf(p, last, "%V,", &value[i].value);
    }

    return ngx_slprintf(p, last, "\n");
}


static u_char *
dump_words(u_char *p, u_char *last, char *name, ngx_array_t *words)
{
    ngx_str_t   *word;
    ngx_uint_t   i;

    p = ngx_slprintf(p, last, "mcds_%s=", name);

    for (i = 0; words && i < words->nelts; i++) {
        word = words->elts;
        p = ngx_slprintf(p, last, "%V,", &word[i]);
    }

    return ngx_slprintf(p, last, "\n");
}

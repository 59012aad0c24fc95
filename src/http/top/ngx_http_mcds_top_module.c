
/*
 * Copyright (C) mcds authors
 *
 * mcds_counter_top: lists of the keys that counters count most; the directive,
 * its variable, and the response that shows a list as JSON.  A list counts the
 * keys of the counters whose parameter "top=" names it.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_mcds_top.h"
#include "ngx_http_mcds_conf.h"
#include "ngx_http_mcds_json.h"
#include "ngx_http_mcds_param_type.h"
#include "ngx_http_mcds_pool.h"
#include "ngx_http_mcds_resource.h"
#include "ngx_http_mcds_stat.h"
#include "ngx_http_mcds_counter.h"
#include "ngx_http_mcds_counter_conf.h"
#include "ngx_http_mcds_counter_api.h"


#define NGX_HTTP_MCDS_TOP_VARIABLE  "mcds_top_"


struct ngx_http_mcds_top_s {
    ngx_str_t                   name;
    ngx_str_t                   directive;  /* the name of the directive that is
                                               the first to name this list of
                                               the most counted keys */
    ngx_http_mcds_place_t       place;    /* the file and line of this
                                             directive, then those of
                                             mcds_counter_top */
    ngx_str_t                   pool;     /* name of the pool of memcached
                                             servers that has this list of the
                                             most counted keys, or empty */
    ngx_str_t                   prefix;   /* the prefix that the list of the
                                             most counted keys removes from keys
                                             when it shows them */
    ngx_mcds_top_t              top;
    ngx_uint_t                  declared; /* 1: a mcds_counter_top declares the
                                             list of the most counted keys */
};


typedef struct {
    ngx_array_t                 tops;     /* the lists of the most counted keys,
                                             array of ngx_http_mcds_top_t * */
} ngx_http_mcds_top_conf_t;


/* a request that is answered with a list of the most counted keys */

typedef struct {
    ngx_http_mcds_resource_t    res;
    ngx_http_mcds_top_t        *top;
    ngx_mcds_top_wait_t        *wait;
} ngx_http_mcds_top_request_t;


static ngx_int_t ngx_http_mcds_top_preconfigure(ngx_conf_t *cf);
static void *ngx_http_mcds_top_create_conf(ngx_conf_t *cf);
static ngx_int_t ngx_http_mcds_top_init_process(ngx_cycle_t *cycle);
static void ngx_http_mcds_top_exit_process(ngx_cycle_t *cycle);
static char *ngx_http_mcds_counter_top(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
static char *ngx_http_mcds_top_of(ngx_conf_t *cf, ngx_http_mcds_param_t *param,
    ngx_str_t *text, void *conf);
static ngx_http_mcds_top_t *ngx_http_mcds_top_ref(ngx_conf_t *cf,
    ngx_str_t *name);
static char *ngx_http_mcds_top_slots(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_mcds_top_t *top);
static ngx_int_t ngx_http_mcds_top_add_variable(ngx_conf_t *cf,
    ngx_http_mcds_top_t *top);
static ngx_uint_t ngx_http_mcds_top_name(ngx_str_t *name);
static char *ngx_http_mcds_top_init_conf(ngx_conf_t *cf, void *conf);
static ngx_int_t ngx_http_mcds_top_pool(ngx_conf_t *cf,
    ngx_http_mcds_main_conf_t *mmcf, ngx_http_mcds_top_t *top);
static void ngx_http_mcds_top_count(ngx_http_mcds_top_t *top, ngx_str_t *key,
    uint64_t delta);
static ngx_int_t ngx_http_mcds_top_show(ngx_http_request_t *r,
    ngx_http_mcds_top_t *top);
static void ngx_http_mcds_top_read_handler(void *data);
static void ngx_http_mcds_top_cancel(ngx_http_mcds_resource_t *res);
static ngx_int_t ngx_http_mcds_top_respond(ngx_http_mcds_resource_t *res);
static ngx_int_t ngx_http_mcds_top_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_mcds_top_json(ngx_http_mcds_top_t *top,
    ngx_pool_t *pool, ngx_uint_t all, ngx_str_t *text);
static void ngx_http_mcds_top_shown(ngx_http_mcds_top_t *top,
    ngx_mcds_ranked_t *ranked, ngx_str_t *key);


static ngx_http_mcds_param_t  ngx_http_mcds_top_params[] = {

    { ngx_string("size="),
      ngx_http_mcds_param_num,
      ngx_http_mcds_field(ngx_http_mcds_top_t, top.size),
      1, NGX_MCDS_TOP_SIZE, 10, NULL },

    { ngx_string("window="),
      ngx_http_mcds_param_sec,
      ngx_http_mcds_field(ngx_http_mcds_top_t, top.window),
      1, NGX_MCDS_MAX_TTL, 86400, NULL },

    { ngx_string("slots="),
      ngx_http_mcds_param_num,
      ngx_http_mcds_field(ngx_http_mcds_top_t, top.slots),
      1, NGX_MCDS_TOP_SLOTS, 0, NULL },

    { ngx_string("keys="),
      ngx_http_mcds_param_num,
      ngx_http_mcds_field(ngx_http_mcds_top_t, top.keys),
      10, NGX_MCDS_TOPK_MAX, 1000, NULL },

    { ngx_string("flush="),
      ngx_http_mcds_param_msec,
      ngx_http_mcds_field(ngx_http_mcds_top_t, top.flush),
      100, 60000, 5000, NULL },

    { ngx_string("prefix="),
      ngx_http_mcds_param_string,
      ngx_http_mcds_field(ngx_http_mcds_top_t, prefix),
      0, 0, 0, NULL },

    { ngx_string("pool="),
      ngx_http_mcds_param_string,
      ngx_http_mcds_field(ngx_http_mcds_top_t, pool),
      0, 0, 0, NULL },

      ngx_http_mcds_params_end
};


/*
 * the parameter "top=", which mcds_counter and mcds_counter_api have for lists
 * of the most counted keys
 */

static ngx_http_mcds_param_t  ngx_http_mcds_top_counter_params[] = {

    { ngx_string("top="),
      ngx_http_mcds_top_of,
      ngx_http_mcds_field(ngx_http_mcds_counter_t, top),
      0, 0, 0, NULL },

      ngx_http_mcds_params_end
};


static ngx_http_mcds_param_t  ngx_http_mcds_top_show_params[] = {

    { ngx_string("top="),
      ngx_http_mcds_top_of,
      ngx_http_mcds_field(ngx_http_mcds_show_t, top),
      0, 0, 0, NULL },

      ngx_http_mcds_params_end
};


static ngx_http_mcds_top_hooks_t  ngx_http_mcds_top_lists = {
    ngx_http_mcds_top_count,
    ngx_http_mcds_top_show
};


static ngx_command_t  ngx_http_mcds_top_commands[] = {

    { ngx_string("mcds_counter_top"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_1MORE,
      ngx_http_mcds_counter_top,
      NGX_HTTP_MAIN_CONF_OFFSET,
      0,
      NULL },

      ngx_null_command
};


static ngx_http_module_t  ngx_http_mcds_top_module_ctx = {
    ngx_http_mcds_top_preconfigure,        /* preconfiguration */
    NULL,                                  /* postconfiguration */

    ngx_http_mcds_top_create_conf,         /* create main configuration */
    ngx_http_mcds_top_init_conf,           /* init main configuration */

    NULL,                                  /* create server configuration */
    NULL,                                  /* merge server configuration */

    NULL,                                  /* create location configuration */
    NULL                                   /* merge location configuration */
};


ngx_module_t  ngx_http_mcds_top_module = {
    NGX_MODULE_V1,
    &ngx_http_mcds_top_module_ctx,         /* module context */
    ngx_http_mcds_top_commands,            /* module directives */
    NGX_HTTP_MODULE,                       /* module type */
    NULL,                                  /* init master */
    NULL,                                  /* init module */
    ngx_http_mcds_top_init_process,        /* init process */
    NULL,                                  /* init thread */
    NULL,                                  /* exit thread */
    ngx_http_mcds_top_exit_process,        /* exit process */
    NULL,                                  /* exit master */
    NGX_MODULE_V1_PADDING
};


static ngx_int_t
ngx_http_mcds_top_preconfigure(ngx_conf_t *cf)
{
    ngx_http_mcds_params_add(ngx_http_mcds_counter_params,
                             ngx_http_mcds_top_counter_params);
    ngx_http_mcds_params_add(ngx_http_mcds_show_params,
                             ngx_http_mcds_top_show_params);

    ngx_http_mcds_top_hooks = &ngx_http_mcds_top_lists;

    return NGX_OK;
}


static void *
ngx_http_mcds_top_create_conf(ngx_conf_t *cf)
{
    ngx_http_mcds_top_conf_t  *tcf;

    tcf = ngx_pcalloc(cf->pool, sizeof(ngx_http_mcds_top_conf_t));

    if (tcf == NULL
        || ngx_array_init(&tcf->tops, cf->pool, 2,
                          sizeof(ngx_http_mcds_top_t *))
           != NGX_OK)
    {
        return NULL;
    }

    return tcf;
}


static char *
ngx_http_mcds_counter_top(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    char                 *rv;
    ngx_str_t            *value;
    ngx_http_mcds_top_t  *top;

    value = cf->args->elts;

    top = ngx_http_mcds_top_ref(cf, &value[1]);
    if (top == NULL) {
        return NGX_CONF_ERROR;
    }

    if (top->declared) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V %V\" is duplicate", &cmd->name, &value[1]);
        return NGX_CONF_ERROR;
    }

    top->declared = 1;
    ngx_http_mcds_set_place(cf, &top->place);

    top->top.key = top->name;

    if (ngx_http_mcds_params(cf, cmd, 2, ngx_http_mcds_top_params, top)
        != NGX_CONF_OK)
    {
        return NGX_CONF_ERROR;
    }

    if (top->top.keys < top->top.size) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\": size=%ui is more than keys=%ui",
                           &cmd->name, top->top.size, top->top.keys);
        return NGX_CONF_ERROR;
    }

    rv = ngx_http_mcds_top_slots(cf, cmd, top);
    if (rv != NGX_CONF_OK) {
        return rv;
    }

    /*
     * the list's window of time consists of slots; a worker keeps the counts
     * of keys for two slots, and sends the counts of one slot at a time to
     * memcached: it must send at least twice a slot, or counts would be lost
     */

    top->top.flush = ngx_min(top->top.flush,
                             (ngx_msec_t) (top->top.window / top->top.slots)
                             * 1000 / 2);

    return ngx_http_mcds_top_add_variable(cf, top) == NGX_OK
           ? NGX_CONF_OK : NGX_CONF_ERROR;
}


static char *
ngx_http_mcds_top_slots(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_mcds_top_t *top)
{
    if (top->top.slots == 0) {

        /*
         * by default, a list of the most counted keys divides its window into
         * slots of time: the largest number, up to 24, that divides the window
         */

        for (top->top.slots = 24; top->top.window % top->top.slots;
             top->top.slots--)
        {
            /* void */
        }

        return NGX_CONF_OK;
    }

    if (top->top.window % top->top.slots) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\": a window of %uDs cannot be cut into %uD "
                           "slots of whole seconds", &cmd->name,
                           top->top.window, top->top.slots);
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_http_mcds_top_add_variable(ngx_conf_t *cf, ngx_http_mcds_top_t *top)
{
    ngx_str_t             name;
    ngx_http_variable_t  *v;

    name.len = sizeof(NGX_HTTP_MCDS_TOP_VARIABLE) - 1 + top->name.len;

    name.data = ngx_pnalloc(cf->pool, name.len);
    if (name.data == NULL) {
        return NGX_ERROR;
    }

    (void) ngx_sprintf(name.data, NGX_HTTP_MCDS_TOP_VARIABLE "%V",
                       &top->name);

    v = ngx_http_add_variable(cf, &name, NGX_HTTP_VAR_NOCACHEABLE);
    if (v == NULL) {
        return NGX_ERROR;
    }

    v->get_handler = ngx_http_mcds_top_variable;
    v->data = (uintptr_t) top;

    return NGX_OK;
}


/*
 * parses the parameter "top=", the name of a list of the most counted keys, and
 * stores a pointer to the list
 */

static char *
ngx_http_mcds_top_of(ngx_conf_t *cf, ngx_http_mcds_param_t *param,
    ngx_str_t *text, void *conf)
{
    ngx_http_mcds_top_t  **top;

    top = (ngx_http_mcds_top_t **) ((u_char *) conf + param->offset);

    *top = ngx_http_mcds_top_ref(cf, text);

    return *top ? NULL : NGX_CONF_ERROR;
}


/*
 * Finds a list of the most counted keys by its name, or creates the list, since
 * the directive mcds_counter_top that declares it may follow later.  NULL if
 * the name is not valid (logged), or when out of memory.
 */

static ngx_http_mcds_top_t *
ngx_http_mcds_top_ref(ngx_conf_t *cf, ngx_str_t *name)
{
    ngx_str_t                 *value;
    ngx_uint_t                 i;
    ngx_http_mcds_top_t       *top, **tops;
    ngx_http_mcds_top_conf_t  *tcf;

    if (!ngx_http_mcds_top_name(name)) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid name \"%V\" of a \"mcds_counter_top\", "
                           "it must be 1 to 64 letters, digits and \"_\"",
                           name);
        return NULL;
    }

    tcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_mcds_top_module);

    tops = tcf->tops.elts;

    for (i = 0; i < tcf->tops.nelts; i++) {
        if (tops[i]->name.len == name->len
            && ngx_strncmp(tops[i]->name.data, name->data, name->len) == 0)
        {
            return tops[i];
        }
    }

    top = ngx_pcalloc(cf->pool, sizeof(ngx_http_mcds_top_t));
    if (top == NULL) {
        return NULL;
    }

    value = cf->args->elts;

    top->name = *name;
    top->directive = value[0];
    ngx_http_mcds_set_place(cf, &top->place);

    tops = ngx_array_push(&tcf->tops);
    if (tops == NULL) {
        return NULL;
    }

    *tops = top;

    return top;
}


/*
 * 1 if the name of a list of the most counted keys is valid: it is part of the
 * name of a variable, and of a key in memcached
 */

static ngx_uint_t
ngx_http_mcds_top_name(ngx_str_t *name)
{
    u_char      ch;
    ngx_uint_t  i;

    for (i = 0; i < name->len; i++) {
        ch = name->data[i];

        if ((ch < 'a' || ch > 'z') && (ch < 'A' || ch > 'Z')
            && (ch < '0' || ch > '9') && ch != '_')
        {
            return 0;
        }
    }

    return name->len > 0 && name->len <= 64;
}


/*
 * checks, when the configuration has been read, that a mcds_counter_top
 * declares each list of the most counted keys that a parameter "top=" names,
 * and finds the pool and the statistics of each list
 */

static char *
ngx_http_mcds_top_init_conf(ngx_conf_t *cf, void *conf)
{
    ngx_http_mcds_top_conf_t *tcf = conf;

    ngx_uint_t                  i;
    ngx_http_mcds_top_t        *top, **tops;
    ngx_http_mcds_main_conf_t  *mmcf;

    mmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_mcds_module);
    tops = tcf->tops.elts;

    for (i = 0; i < tcf->tops.nelts; i++) {
        top = tops[i];

        if (!top->declared) {
            ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                          "\"%V\": there is no \"mcds_counter_top %V\", "
                          "in %V:%ui", &top->directive, &top->name,
                          &top->place.file, top->place.line);
            return NGX_CONF_ERROR;
        }

        if (ngx_http_mcds_top_pool(cf, mmcf, top) != NGX_OK
            || ngx_http_mcds_needs_ttl(cf, top->top.pool, "mcds_counter_top",
                                       &top->place)
               != NGX_OK)
        {
            return NGX_CONF_ERROR;
        }

        top->top.stat = ngx_http_mcds_stat_get(cf, NGX_MCDS_STAT_COUNTERS,
                                               top->top.pool, &top->name);
        if (top->top.stat == NULL) {
            return NGX_CONF_ERROR;
        }

        top->top.stat->kind = NGX_MCDS_STAT_TOP;

        mmcf->used = 1;
    }

    return NGX_CONF_OK;
}


/*
 * finds the pool of memcached servers for a list of the most counted keys: that
 * of "pool=", or of "mcds_use" in the http block, or the only pool
 */

static ngx_int_t
ngx_http_mcds_top_pool(ngx_conf_t *cf, ngx_http_mcds_main_conf_t *mmcf,
    ngx_http_mcds_top_t *top)
{
    ngx_str_t                 *name;
    ngx_mcds_pool_t          **pools;
    ngx_http_mcds_loc_conf_t  *mlcf;

    mlcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_mcds_module);

    name = top->pool.len ? &top->pool : &mlcf->use;

    if (name->len) {
        top->top.pool = ngx_http_mcds_find_pool(mmcf, name);

        if (top->top.pool == NULL) {
            ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                          "\"mcds_counter_top %V\": there is no pool \"%V\", "
                          "in %V:%ui", &top->name, name, &top->place.file,
                          top->place.line);
            return NGX_ERROR;
        }

        return NGX_OK;
    }

    if (mmcf->pools.nelts != 1) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "\"mcds_counter_top %V\" needs %s, in %V:%ui",
                      &top->name,
                      mmcf->pools.nelts
                          ? "a \"pool=\" to choose one of several"
                          : "a \"mcds_pool\", and there is none",
                      &top->place.file, top->place.line);
        return NGX_ERROR;
    }

    pools = mmcf->pools.elts;
    top->top.pool = pools[0];

    return NGX_OK;
}


static ngx_int_t
ngx_http_mcds_top_init_process(ngx_cycle_t *cycle)
{
    ngx_uint_t                  i;
    ngx_http_mcds_top_t       **tops;
    ngx_http_mcds_top_conf_t   *tcf;

    if (!ngx_mcds_is_worker()) {
        return NGX_OK;
    }

    tcf = ngx_http_cycle_get_module_main_conf(cycle, ngx_http_mcds_top_module);

    if (tcf == NULL) {
        return NGX_OK;
    }

    tops = tcf->tops.elts;

    for (i = 0; i < tcf->tops.nelts; i++) {
        ngx_mcds_top_start(&tops[i]->top);
    }

    return NGX_OK;
}


/*
 * frees the lists of the most counted keys when a worker exits; nginx calls
 * this after ngx_http_mcds_exit_process(), which has closed the pools
 */

static void
ngx_http_mcds_top_exit_process(ngx_cycle_t *cycle)
{
    ngx_uint_t                  i;
    ngx_http_mcds_top_t       **tops;
    ngx_http_mcds_top_conf_t   *tcf;

    tcf = ngx_http_cycle_get_module_main_conf(cycle, ngx_http_mcds_top_module);

    if (tcf == NULL) {
        return;
    }

    tops = tcf->tops.elts;

    for (i = 0; i < tcf->tops.nelts; i++) {
        ngx_mcds_top_exit(&tops[i]->top);
    }

    ngx_mcds_stat_flush_all();
}


static void
ngx_http_mcds_top_count(ngx_http_mcds_top_t *top, ngx_str_t *key,
    uint64_t delta)
{
    ngx_mcds_top_add(&top->top, key, delta);
}


static ngx_int_t
ngx_http_mcds_top_show(ngx_http_request_t *r, ngx_http_mcds_top_t *top)
{
    ngx_int_t                     rc;
    ngx_http_mcds_top_request_t  *tr;

    tr = ngx_http_mcds_resource_create(r, sizeof(ngx_http_mcds_top_request_t));
    if (tr == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    tr->res.respond = ngx_http_mcds_top_respond;
    tr->res.cancel = ngx_http_mcds_top_cancel;
    tr->top = top;

    rc = ngx_mcds_top_read(&top->top, ngx_http_mcds_top_read_handler, tr,
                           &tr->wait);

    if (rc == NGX_AGAIN) {
        tr->res.waiting = 1;
        return ngx_http_mcds_resource_wait(&tr->res);
    }

    /*
     * the response has the list of the most counted keys that this worker
     * knows, also when out of memory for reading it from memcached
     */

    return ngx_http_mcds_top_respond(&tr->res);
}


static void
ngx_http_mcds_top_read_handler(void *data)
{
    ngx_http_mcds_top_request_t *tr = data;

    tr->wait = NULL;

    ngx_http_mcds_resource_done(&tr->res);
}


static void
ngx_http_mcds_top_cancel(ngx_http_mcds_resource_t *res)
{
    ngx_http_mcds_top_request_t *tr = (ngx_http_mcds_top_request_t *) res;

    if (tr->wait) {
        ngx_mcds_top_cancel(tr->wait);

        res->waiting--;
    }
}


static ngx_int_t
ngx_http_mcds_top_respond(ngx_http_mcds_resource_t *res)
{
    ngx_http_mcds_top_request_t *tr = (ngx_http_mcds_top_request_t *) res;

    ngx_str_t            text;
    ngx_http_request_t  *r;

    r = res->request;

    if (ngx_http_mcds_top_json(tr->top, r->pool, 1, &text) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return ngx_http_mcds_json_send(r, &text);
}


static ngx_int_t
ngx_http_mcds_top_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_str_t             text;
    ngx_http_mcds_top_t  *top;

    top = (ngx_http_mcds_top_t *) data;

    if (ngx_http_mcds_top_json(top, r->pool, 0, &text) != NGX_OK) {
        return NGX_ERROR;
    }

    if (text.data == NULL) {
        v->not_found = 1;
        return NGX_OK;
    }

    v->data = text.data;
    v->len = text.len;
    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;

    return NGX_OK;
}


/*
 * Writes JSON, in memory of the pool, about the list of the most counted keys
 * as far as this worker knows it.  If "all" is set: an object with the list's
 * window, total count and keys, the latter two null if no list is known.  If
 * "all" is 0: an array of the keys; text->data is NULL if no list is known.
 */

static ngx_int_t
ngx_http_mcds_top_json(ngx_http_mcds_top_t *top, ngx_pool_t *pool,
    ngx_uint_t all, ngx_str_t *text)
{
    u_char               *p;
    size_t                size;
    ngx_str_t             key;
    ngx_uint_t            i;
    ngx_mcds_top_list_t  *list, none;

    list = ngx_mcds_top_list(&top->top);

    if (list == NULL && !all) {
        ngx_str_null(text);
        return NGX_OK;
    }

    ngx_memzero(&none, sizeof(ngx_mcds_top_list_t));

    if (list == NULL) {
        list = &none;
    }

    size = sizeof("{\"window\":,\"total\":,\"keys\":null}" CRLF)
           + 2 * NGX_INT64_LEN;

    for (i = 0; i < list->n; i++) {
        ngx_http_mcds_top_shown(top, list->ranked[i], &key);

        size += sizeof("{\"key\":\"\",\"count\":,\"error\":},") - 1
                + ngx_mcds_json_string(NULL, &key) + 2 * NGX_INT64_LEN;
    }

    p = ngx_pnalloc(pool, size);
    if (p == NULL) {
        return NGX_ERROR;
    }

    text->data = p;

    if (all && list == &none) {
        p = ngx_sprintf(p, "{\"window\":%uD,\"total\":null,\"keys\":null}"
                        CRLF, top->top.window);
        text->len = p - text->data;
        return NGX_OK;
    }

    if (all) {
        p = ngx_sprintf(p, "{\"window\":%uD,\"total\":%uL,\"keys\":",
                        top->top.window, list->total);
    }

    *p++ = '[';

    for (i = 0; i < list->n; i++) {
        ngx_http_mcds_top_shown(top, list->ranked[i], &key);

        p = ngx_sprintf(p, "%s{\"key\":\"", i ? "," : "");
        p = (u_char *) ngx_mcds_json_string(p, &key);
        p = ngx_sprintf(p, "\",\"count\":%uL,\"error\":%uL}",
                        list->ranked[i]->count, list->ranked[i]->error);
    }

    *p++ = ']';

    if (all) {
        p = ngx_cpymem(p, "}" CRLF, sizeof("}" CRLF) - 1);
    }

    text->len = p - text->data;

    return NGX_OK;
}


/*
 * sets key to the part of a key that a list of the most counted keys shows: the
 * part behind the list's prefix
 */

static void
ngx_http_mcds_top_shown(ngx_http_mcds_top_t *top, ngx_mcds_ranked_t *ranked,
    ngx_str_t *key)
{
    size_t  skip;

    skip = 0;

    if (top->prefix.len
        && ranked->len >= top->prefix.len
        && ngx_memcmp(ranked->data, top->prefix.data, top->prefix.len) == 0)
    {
        skip = top->prefix.len;
    }

    key->data = ranked->data + skip;
    key->len = ranked->len - skip;
}


/*
 * Copyright (C) mcds authors
 *
 * mcds_table_lookup: variables with the values of table elements.  A request
 * starts all its lookups of a phase together: in the rewrite phases, before the
 * directives of the rewrite module, or, with phase=preaccess, in the preaccess
 * phase.  The variables are then set as by "set", so that subrequests and other
 * copies of the request have them.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_budget.h"
#include "ngx_http_mcds_conf.h"
#include "ngx_http_mcds_param_type.h"
#include "ngx_http_mcds_stat.h"
#include "ngx_http_mcds_data.h"


typedef struct ngx_http_mcds_get_ctx_s  ngx_http_mcds_get_ctx_t;


/* the lookup of one variable in a table, which may still be under way */

typedef struct {
    ngx_http_mcds_get_ctx_t    *ctx;
    ngx_http_mcds_get_t        *get;
    ngx_mcds_pool_t            *pool;
    ngx_mcds_stat_t            *stat;
    ngx_str_t                   table;
    ngx_str_t                   key;
    ngx_mcds_table_wait_t       wait;
    ngx_str_t                   value;
    unsigned                    begun:1;
    unsigned                    found:1;   /* the table has the element, with
                                              this value */
    unsigned                    set:1;     /* the variable has been set */
} ngx_http_mcds_got_t;


/* the lookups in tables of one request or subrequest */

struct ngx_http_mcds_get_ctx_s {
    ngx_http_mcds_task_t       *task;
    ngx_uint_t                  unanswered;
    ngx_http_mcds_data_conf_t  *awaited;   /* the location or server whose
                                              lookups the request waits for, or
                                              has waited for */
    ngx_list_t                  got;       /* the lookups that the request has
                                              started, list of
                                              ngx_http_mcds_got_t */
    unsigned                    failed:1;  /* a variable could not be set, as
                                              memory was out when the reply of
                                              memcached came */
};


static ngx_int_t ngx_http_mcds_get_variable(ngx_conf_t *cf,
    ngx_command_t *cmd, ngx_str_t *name, ngx_http_mcds_get_t *get);
static char *ngx_http_mcds_get_default(ngx_conf_t *cf,
    ngx_http_mcds_param_t *param, ngx_str_t *text, void *conf);
static ngx_int_t ngx_http_mcds_get_unknown(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_mcds_get_handler(ngx_http_request_t *r,
    ngx_uint_t late);
static ngx_http_mcds_get_ctx_t *ngx_http_mcds_get_need_ctx(
    ngx_http_request_t *r);
static ngx_int_t ngx_http_mcds_get_add(ngx_http_request_t *r,
    ngx_http_mcds_get_ctx_t *ctx, ngx_http_mcds_data_conf_t *dcf,
    ngx_uint_t n);
static ngx_int_t ngx_http_mcds_get_start(ngx_http_request_t *r,
    ngx_http_mcds_got_t *got);
static ngx_uint_t ngx_http_mcds_get_done(ngx_http_mcds_get_ctx_t *ctx,
    ngx_http_mcds_get_t *get, ngx_mcds_pool_t *pool, ngx_str_t *table,
    ngx_str_t *key);
static ngx_int_t ngx_http_mcds_get_keep(ngx_http_request_t *r,
    ngx_http_mcds_got_t *got, ngx_str_t *value);
static ngx_int_t ngx_http_mcds_get_set_all(ngx_http_request_t *r,
    ngx_http_mcds_get_ctx_t *ctx);
static ngx_int_t ngx_http_mcds_get_set(ngx_http_request_t *r,
    ngx_http_mcds_got_t *got);
static void ngx_http_mcds_get_found(void *data, ngx_uint_t rc,
    ngx_str_t *value);
static ngx_uint_t ngx_http_mcds_get_clean(ngx_http_mcds_get_t *get,
    ngx_str_t *value);
static void ngx_http_mcds_get_over(void *data);
static void ngx_http_mcds_get_drop(ngx_http_mcds_get_ctx_t *ctx);
static void ngx_http_mcds_get_cleanup(ngx_http_mcds_task_t *task);


ngx_http_mcds_feature_t  ngx_http_mcds_table_feature = {
    ngx_string("table"),
    sizeof(ngx_http_mcds_get_ctx_t),
    0,
    NULL,                                  /* prepare */
    NULL,                                  /* init */
    NULL,                                  /* zone */
    NULL,                                  /* exit */
    NULL,                                  /* first */
    NULL,                                  /* start */
    NULL,                                  /* arrive */
    NULL,                                  /* decide */
    NULL,                                  /* wait */
    NULL,                                  /* until */
    NULL,                                  /* hurry */
    ngx_http_mcds_get_cleanup,
    NULL                                   /* post_action */
};


static ngx_conf_enum_t  ngx_http_mcds_get_off[] = {
    { ngx_string("off"), 0 },
    { ngx_null_string, 0 }
};


static ngx_conf_enum_t  ngx_http_mcds_get_phases[] = {
    { ngx_string("rewrite"), 0 },
    { ngx_string("preaccess"), 1 },
    { ngx_null_string, 0 }
};


static ngx_http_mcds_param_t  ngx_http_mcds_get_params[] = {

    { ngx_string("remember="),
      ngx_http_mcds_param_msec,
      ngx_http_mcds_field(ngx_http_mcds_get_t, keep),
      0, 3600000, 1000, ngx_http_mcds_get_off },

    { ngx_string("phase="),
      ngx_http_mcds_param_enum,
      ngx_http_mcds_field(ngx_http_mcds_get_t, late),
      0, 0, 0, ngx_http_mcds_get_phases },

    { ngx_string(""),
      ngx_http_mcds_get_default,
      ngx_http_mcds_field(ngx_http_mcds_get_t, other),
      0, 0, 0, NULL },

      ngx_http_mcds_params_end
};


char *
ngx_http_mcds_table_get(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mcds_data_conf_t *dcf = conf;

    char                 *rv;
    ngx_str_t            *value;
    ngx_http_mcds_get_t  *get, *other;

    rv = ngx_http_mcds_param_list(cf, &dcf->gets, sizeof(ngx_http_mcds_get_t));

    if (rv != NGX_CONF_OK || dcf->gets == NULL) {
        return rv;
    }

    if (cf->args->nelts < 4) {
        return "needs a variable, the name of a table and a key";
    }

    get = ngx_array_push(dcf->gets);
    if (get == NULL) {
        return NGX_CONF_ERROR;
    }

    ngx_memzero(get, sizeof(ngx_http_mcds_get_t));

    value = cf->args->elts;

    if (ngx_http_mcds_get_variable(cf, cmd, &value[1], get) != NGX_OK
        || ngx_http_mcds_compile(cf, &value[2], &get->table) != NGX_CONF_OK
        || ngx_http_mcds_compile(cf, &value[3], &get->key) != NGX_CONF_OK
        || ngx_http_mcds_params(cf, cmd, 4, ngx_http_mcds_get_params, get)
           != NGX_CONF_OK)
    {
        return NGX_CONF_ERROR;
    }

    for (other = dcf->gets->elts; other < get; other++) {

        if (other->index == get->index && other->late == get->late) {
            other->again = 1;
        }
    }

    ngx_http_mcds_data_needs(cf, cmd, dcf);

    return NGX_CONF_OK;
}


/*
 * Parses the argument of mcds_table_lookup that is the default value of the
 * variable: the only optional argument without a name such as "remember=".
 */

static char *
ngx_http_mcds_get_default(ngx_conf_t *cf, ngx_http_mcds_param_t *param,
    ngx_str_t *text, void *conf)
{
    ngx_http_mcds_get_t *get = conf;

    if (get->other) {
        return "\"remember=\" or \"phase=\", as there is a default";
    }

    return ngx_http_mcds_param_complex(cf, param, text, conf);
}


static ngx_int_t
ngx_http_mcds_get_variable(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_str_t *name, ngx_http_mcds_get_t *get)
{
    ngx_http_variable_t  *v;

    if (name->len < 2 || name->data[0] != '$') {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid variable name \"%V\" in \"%V\"", name,
                           &cmd->name);
        return NGX_ERROR;
    }

    name->data++;
    name->len--;

    v = ngx_http_add_variable(cf, name, NGX_HTTP_VAR_CHANGEABLE
                                        |NGX_HTTP_VAR_NOCACHEABLE);
    if (v == NULL) {
        return NGX_ERROR;
    }

    if (v->get_handler && v->get_handler != ngx_http_mcds_get_unknown) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "the variable \"$%V\" in \"%V\" gets its value from "
                           "another directive, too", name, &cmd->name);
        return NGX_ERROR;
    }

    v->get_handler = ngx_http_mcds_get_unknown;

    get->index = ngx_http_get_variable_index(cf, name);

    return get->index == NGX_ERROR ? NGX_ERROR : NGX_OK;
}


/* The get_handler of a variable whose lookup in a table has not been done. */

static ngx_int_t
ngx_http_mcds_get_unknown(ngx_http_request_t *r, ngx_http_variable_value_t *v,
    uintptr_t data)
{
    v->not_found = 1;

    return NGX_OK;
}


ngx_int_t
ngx_http_mcds_get_early_handler(ngx_http_request_t *r)
{
    ngx_int_t  rc;

    rc = ngx_http_mcds_get_handler(r, 0);

    return rc == NGX_AGAIN ? NGX_DONE : rc;
}


ngx_int_t
ngx_http_mcds_get_late_handler(ngx_http_request_t *r)
{
    return ngx_http_mcds_get_handler(r, 1);
}


static ngx_int_t
ngx_http_mcds_get_handler(ngx_http_request_t *r, ngx_uint_t late)
{
    ngx_uint_t                  i;
    ngx_list_part_t            *part;
    ngx_http_mcds_get_t        *get;
    ngx_http_mcds_got_t        *got;
    ngx_http_mcds_task_t       *task;
    ngx_http_mcds_get_ctx_t    *ctx;
    ngx_http_mcds_data_conf_t  *dcf;

    task = ngx_http_mcds_task_enter(r);

    if (task && ngx_http_mcds_is_parked(&task->park)) {

        /*
         * another module runs the phases of a request that waits for a lookup:
         * the request goes on waiting
         */

        return NGX_AGAIN;
    }

    dcf = ngx_http_get_module_loc_conf(r, ngx_http_mcds_data_module);

    if (dcf->gets == NULL) {
        return NGX_DECLINED;
    }

    ctx = ngx_http_mcds_get_need_ctx(r);
    if (ctx == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (ctx->awaited == dcf) {

        /*
         * the lookups that the request waited for have ended; their keys are
         * not computed again, as they may use variables that the lookups have
         * set
         */

        ctx->awaited = NULL;

        if (ctx->failed || ngx_http_mcds_get_set_all(r, ctx) != NGX_OK) {
            goto failed;
        }

        return NGX_DECLINED;
    }

    /* the keys of all lookups are computed before a lookup sets its variable */

    get = dcf->gets->elts;

    for (i = 0; i < dcf->gets->nelts; i++) {

        if (get[i].late == late
            && !get[i].again
            && ngx_http_mcds_get_add(r, ctx, dcf, i) != NGX_OK)
        {
            goto failed;
        }
    }

    for (part = &ctx->got.part; part; part = part->next) {
        got = part->elts;

        for (i = 0; i < part->nelts; i++) {

            if (!got[i].begun && ngx_http_mcds_get_start(r, &got[i]) != NGX_OK)
            {
                goto failed;
            }
        }
    }

    if (ctx->unanswered == 0) {

        if (ngx_http_mcds_get_set_all(r, ctx) != NGX_OK) {
            goto failed;
        }

        return NGX_DECLINED;
    }

    task = ctx->task;

    if (ngx_http_mcds_park(&task->park) != NGX_AGAIN) {
        goto failed;
    }

    ctx->awaited = dcf;
    ngx_mcds_wait_begin(&task->delay, &task->budget, dcf->pool->timeout,
                        ngx_http_mcds_get_over, ctx);

    return NGX_AGAIN;

failed:

    ngx_http_mcds_get_drop(ctx);

    return NGX_HTTP_INTERNAL_SERVER_ERROR;
}


static ngx_http_mcds_get_ctx_t *
ngx_http_mcds_get_need_ctx(ngx_http_request_t *r)
{
    ngx_http_mcds_task_t     *task;
    ngx_http_mcds_get_ctx_t  *ctx;

    task = ngx_http_mcds_task_need(r);
    if (task == NULL) {
        return NULL;
    }

    ctx = ngx_http_mcds_task_ctx(task, &ngx_http_mcds_table_feature);

    if (ctx->got.pool == NULL
        && ngx_list_init(&ctx->got, r->pool, 4, sizeof(ngx_http_mcds_got_t))
           != NGX_OK)
    {
        return NULL;
    }

    return ctx;
}


/*
 * adds a lookup in a table to those that the request is to start, unless the
 * request has done it already
 */

static ngx_int_t
ngx_http_mcds_get_add(ngx_http_request_t *r, ngx_http_mcds_get_ctx_t *ctx,
    ngx_http_mcds_data_conf_t *dcf, ngx_uint_t n)
{
    ngx_str_t             name, key;
    ngx_http_mcds_got_t  *got;
    ngx_http_mcds_get_t  *get;

    get = dcf->gets->elts;
    get += n;

    if (ngx_http_complex_value(r, &get->table, &name) != NGX_OK
        || ngx_http_complex_value(r, &get->key, &key) != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (ngx_http_mcds_get_done(ctx, get, dcf->pool, &name, &key)) {
        return NGX_OK;
    }

    got = ngx_list_push(&ctx->got);
    if (got == NULL) {
        return NGX_ERROR;
    }

    ngx_memzero(got, sizeof(ngx_http_mcds_got_t));

    got->get = get;
    got->table.len = name.len;
    got->table.data = ngx_pstrdup(r->pool, &name);
    got->key.len = key.len;
    got->key.data = ngx_pstrdup(r->pool, &key);

    if (got->table.data == NULL || got->key.data == NULL) {
        return NGX_ERROR;
    }

    got->ctx = ctx;
    got->pool = dcf->pool;
    got->stat = dcf->get_stats[n];
    got->wait.handler = ngx_http_mcds_get_found;
    got->wait.data = got;

    return NGX_OK;
}


static ngx_int_t
ngx_http_mcds_get_start(ngx_http_request_t *r, ngx_http_mcds_got_t *got)
{
    ngx_str_t         value;
    ngx_mcds_table_t  table;

    got->begun = 1;

    if (got->table.len == 0
        || got->key.len == 0
        || got->key.len > NGX_MCDS_TABLE_NAME)
    {
        return NGX_OK;
    }

    ngx_mcds_stat_add(got->stat, NGX_MCDS_DATA_GET, 1);

    table.pool = got->pool;
    table.key = got->table;

    switch (ngx_mcds_table_find(&table, &got->key, got->get->keep, &value,
                                &got->wait))
    {

    case NGX_OK:
        ngx_mcds_stat_add(got->stat, NGX_MCDS_DATA_FOUND, 1);

        return ngx_http_mcds_get_keep(r, got, &value);

    case NGX_AGAIN:
        got->ctx->unanswered++;
        return NGX_OK;

    case NGX_DECLINED:

        /* the worker remembers that the table has no element of this name */

        break;

    default: /* NGX_ERROR: out of memory for the lookup */

        ngx_http_mcds_stat_failed(got->stat, NGX_MCDS_BUSY);
    }

    return NGX_OK;
}


/*
 * 1 if the request has already done this lookup in a table: a location inherits
 * the lookups of its server, which run again in the location's rewrite phase,
 * perhaps with another key, or in the pool of the location's own mcds_use.
 */

static ngx_uint_t
ngx_http_mcds_get_done(ngx_http_mcds_get_ctx_t *ctx, ngx_http_mcds_get_t *get,
    ngx_mcds_pool_t *pool, ngx_str_t *table, ngx_str_t *key)
{
    ngx_uint_t            i;
    ngx_list_part_t      *part;
    ngx_http_mcds_got_t  *got, *last;

    last = NULL;

    for (part = &ctx->got.part; part; part = part->next) {
        got = part->elts;

        for (i = 0; i < part->nelts; i++) {
            if (got[i].get->index == get->index) {
                last = &got[i];
            }
        }
    }

    return last
           && last->get == get
           && last->pool == pool
           && ngx_mcds_same(&last->table, table)
           && ngx_mcds_same(&last->key, key);
}


/* keeps the value that a lookup has found until its variable is set */

static ngx_int_t
ngx_http_mcds_get_keep(ngx_http_request_t *r, ngx_http_mcds_got_t *got,
    ngx_str_t *value)
{
    got->value.len = value->len;
    got->value.data = ngx_pstrdup(r->pool, value);

    if (got->value.data == NULL) {
        return NGX_ERROR;
    }

    got->found = 1;

    return NGX_OK;
}


/*
 * Sets the variables of all lookups that have ended, when the request goes on,
 * and not when the replies come: a request and its subrequests have the same
 * variables, and several of them may wait for lookups at the same time.
 */

static ngx_int_t
ngx_http_mcds_get_set_all(ngx_http_request_t *r, ngx_http_mcds_get_ctx_t *ctx)
{
    ngx_uint_t            i;
    ngx_list_part_t      *part;
    ngx_http_mcds_got_t  *got;

    for (part = &ctx->got.part; part; part = part->next) {
        got = part->elts;

        for (i = 0; i < part->nelts; i++) {

            if (!got[i].set && ngx_http_mcds_get_set(r, &got[i]) != NGX_OK) {
                return NGX_ERROR;
            }
        }
    }

    return NGX_OK;
}


/*
 * Sets the variable of a lookup to the value from the table, or to the default
 * if the table has none.
 */

static ngx_int_t
ngx_http_mcds_get_set(ngx_http_request_t *r, ngx_http_mcds_got_t *got)
{
    ngx_str_t                   s;
    ngx_http_mcds_get_t        *get;
    ngx_http_variable_value_t  *v;

    got->set = 1;
    get = got->get;

    ngx_str_null(&s);

    if (got->found && ngx_http_mcds_get_clean(get, &got->value)) {
        s = got->value;

    } else if (get->other
               && ngx_http_complex_value(r, get->other, &s) != NGX_OK)
    {
        return NGX_ERROR;
    }

    v = &r->variables[get->index];

    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;
    v->len = s.len;
    v->data = s.data;

    return NGX_OK;
}


/*
 * 1 if a looked-up value has no control characters; 0, logged, if it has some:
 * a line feed could add a header in "return" or "add_header", and memcached is
 * not trusted that far.
 */

static ngx_uint_t
ngx_http_mcds_get_clean(ngx_http_mcds_get_t *get, ngx_str_t *value)
{
    size_t  i;

    for (i = 0; i < value->len; i++) {

        if (value->data[i] < 0x20 || value->data[i] == 0x7f) {
            ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                          "\"mcds_table_lookup\" has left out a value with "
                          "control characters");
            return 0;
        }
    }

    return 1;
}


static void
ngx_http_mcds_get_found(void *data, ngx_uint_t rc, ngx_str_t *value)
{
    ngx_http_mcds_got_t *got = data;

    ngx_http_mcds_get_ctx_t  *ctx;

    ctx = got->ctx;

    if (rc == NGX_MCDS_OK) {
        ngx_mcds_stat_add(got->stat, NGX_MCDS_DATA_FOUND, 1);

    } else if (rc != NGX_MCDS_NOT_FOUND) {
        ngx_http_mcds_stat_failed(got->stat, rc);
    }

    if (rc == NGX_MCDS_OK
        && ngx_http_mcds_get_keep(ctx->task->request, got, value) != NGX_OK)
    {
        ctx->failed = 1;
    }

    if (--ctx->unanswered == 0) {
        ngx_mcds_wait_end(&ctx->task->delay, ngx_current_msec);
        ngx_http_mcds_wake(&ctx->task->park);
    }
}


static void
ngx_http_mcds_get_over(void *data)
{
    ngx_http_mcds_get_ctx_t *ctx = data;

    ngx_uint_t            i;
    ngx_list_part_t      *part;
    ngx_http_mcds_got_t  *got;

    ngx_http_mcds_budget_log(ctx->task->request);

    for (part = &ctx->got.part; part; part = part->next) {
        got = part->elts;

        for (i = 0; i < part->nelts; i++) {

            if (ngx_mcds_table_finding(&got[i].wait)) {
                ngx_mcds_table_find_cancel(&got[i].wait);
                ngx_http_mcds_get_found(&got[i], NGX_MCDS_TIMEOUT, NULL);
            }
        }
    }
}


/*
 * Forgets all lookups of a request that gets 500: no reply of memcached
 * continues the request then, and its error page does lookups of its own.
 */

static void
ngx_http_mcds_get_drop(ngx_http_mcds_get_ctx_t *ctx)
{
    ngx_http_mcds_get_cleanup(ctx->task);

    ctx->got.last = &ctx->got.part;
    ctx->got.part.nelts = 0;
    ctx->got.part.next = NULL;

    ctx->unanswered = 0;
    ctx->failed = 0;
}


static void
ngx_http_mcds_get_cleanup(ngx_http_mcds_task_t *task)
{
    ngx_uint_t                i;
    ngx_list_part_t          *part;
    ngx_http_mcds_got_t      *got;
    ngx_http_mcds_get_ctx_t  *ctx;

    ctx = ngx_http_mcds_task_ctx(task, &ngx_http_mcds_table_feature);

    for (part = &ctx->got.part; part; part = part->next) {
        got = part->elts;

        for (i = 0; i < part->nelts; i++) {
            ngx_mcds_table_find_cancel(&got[i].wait);
        }
    }
}

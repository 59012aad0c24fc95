
/*
 * Copyright (C) mcds authors
 *
 * mcds_counter, and the variables of counters.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_module.h"
#include "ngx_http_mcds_counter.h"


static ngx_int_t ngx_http_mcds_counter_variable(ngx_conf_t *cf,
    ngx_command_t *cmd, ngx_str_t *name, ngx_uint_t *index);
static ngx_uint_t ngx_http_mcds_counters_refused(ngx_http_request_t *r,
    ngx_http_mcds_loc_conf_t *mlcf);
static ngx_http_mcds_number_t *ngx_http_mcds_number_find(
    ngx_http_mcds_ctx_t *ctx, ngx_uint_t index);
static ngx_int_t ngx_http_mcds_count(ngx_http_request_t *r,
    ngx_http_mcds_counter_t *counter, ngx_http_mcds_number_t *number,
    ngx_mcds_pool_t *pool);
static void ngx_http_mcds_counted(void *data, ngx_uint_t rc, uint64_t value);
static ngx_int_t ngx_http_mcds_number_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static void ngx_http_mcds_number_too_early(ngx_http_request_t *r,
    ngx_uint_t index);


static ngx_str_t  ngx_http_mcds_default_key = ngx_string("$host$uri");


char *
ngx_http_mcds_counter(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mcds_loc_conf_t *mlcf = conf;

    ngx_int_t                 rc;
    ngx_str_t                *value;
    ngx_uint_t                i;
    ngx_http_mcds_counter_t  *counter;

    if (ngx_http_mcds_counter_is_off(cf)) {
        return ngx_http_mcds_counter_off(cf, mlcf, cmd);
    }

    counter = ngx_http_mcds_counter_add(cf, mlcf, cmd);
    if (counter == NULL) {
        return NGX_CONF_ERROR;
    }

    value = cf->args->elts;

    for (i = 2; i < cf->args->nelts; i++) {

        rc = ngx_http_mcds_counter_param(cf, cmd, counter, &value[i]);

        if (rc == NGX_DECLINED) {
            return ngx_http_mcds_counter_invalid(cf, cmd, &value[i]);
        }

        if (rc == NGX_ERROR) {
            return NGX_CONF_ERROR;
        }
    }

    if (counter->key.value.data == NULL) {
        return ngx_http_mcds_counter_value(cf, &ngx_http_mcds_default_key,
                                           &counter->key);
    }

    return NGX_CONF_OK;
}


ngx_int_t
ngx_http_mcds_counter_param(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_mcds_counter_t *counter, ngx_str_t *value)
{
    ngx_str_t  s;

    if (value->len > 4 && ngx_strncmp(value->data, "key=", 4) == 0) {
        s.data = value->data + 4;
        s.len = value->len - 4;

        return ngx_http_mcds_counter_value(cf, &s, &counter->key)
               == NGX_CONF_OK ? NGX_OK : NGX_ERROR;
    }

    return NGX_DECLINED;
}


char *
ngx_http_mcds_counter_invalid(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_str_t *value)
{
    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "invalid parameter \"%V\" in \"%V\"", value,
                       &cmd->name);

    return NGX_CONF_ERROR;
}


ngx_uint_t
ngx_http_mcds_counter_is_off(ngx_conf_t *cf)
{
    ngx_str_t  *value;

    value = cf->args->elts;

    return cf->args->nelts == 2
           && value[1].len == 3
           && ngx_strncmp(value[1].data, "off", 3) == 0;
}


char *
ngx_http_mcds_counter_off(ngx_conf_t *cf, ngx_http_mcds_loc_conf_t *mlcf,
    ngx_command_t *cmd)
{
    if (mlcf->counters != NGX_CONF_UNSET_PTR && mlcf->counters) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V off\" beside counters of the same level",
                           &cmd->name);
        return NGX_CONF_ERROR;
    }

    mlcf->counters = NULL;

    return NGX_CONF_OK;
}


ngx_http_mcds_counter_t *
ngx_http_mcds_counter_add(ngx_conf_t *cf, ngx_http_mcds_loc_conf_t *mlcf,
    ngx_command_t *cmd)
{
    ngx_str_t                *value;
    ngx_uint_t                i, index;
    ngx_http_mcds_counter_t  *counter, *other;

    value = cf->args->elts;

    if (mlcf->counters == NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V %V\" beside \"off\" of the same level",
                           &cmd->name, &value[1]);
        return NULL;
    }

    if (mlcf->counters == NGX_CONF_UNSET_PTR) {
        mlcf->counters = ngx_array_create(cf->pool, 2,
                                          sizeof(ngx_http_mcds_counter_t));
        if (mlcf->counters == NULL) {
            return NULL;
        }

        ngx_http_mcds_set_place(cf, &mlcf->counters_place);
    }

    if (ngx_http_mcds_counter_variable(cf, cmd, &value[1], &index) != NGX_OK) {
        return NULL;
    }

    other = mlcf->counters->elts;

    for (i = 0; i < mlcf->counters->nelts; i++) {
        if (other[i].index == index) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "\"%V\": variable \"%V\" is used twice",
                               &cmd->name, &value[1]);
            return NULL;
        }
    }

    counter = ngx_array_push(mlcf->counters);
    if (counter == NULL) {
        return NULL;
    }

    ngx_memzero(counter, sizeof(ngx_http_mcds_counter_t));
    counter->index = index;

    return counter;
}


static ngx_int_t
ngx_http_mcds_counter_variable(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_str_t *name, ngx_uint_t *index)
{
    ngx_str_t                    s;
    ngx_http_variable_t         *v;
    ngx_http_mcds_main_conf_t   *mmcf;
    ngx_http_mcds_number_var_t  *number;

    if (name->len < 2 || name->data[0] != '$') {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\": invalid variable name \"%V\"",
                           &cmd->name, name);
        return NGX_ERROR;
    }

    s.data = name->data + 1;
    s.len = name->len - 1;

    v = ngx_http_add_variable(cf, &s, NGX_HTTP_VAR_CHANGEABLE
                                      |NGX_HTTP_VAR_NOCACHEABLE);
    if (v == NULL) {
        return NGX_ERROR;
    }

    if (v->get_handler == ngx_http_mcds_number_variable) {
        *index = v->data;
        return NGX_OK;
    }

    if (v->get_handler) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\": variable \"%V\" already has a value",
                           &cmd->name, name);
        return NGX_ERROR;
    }

    mmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_mcds_module);

    number = ngx_array_push(&mmcf->numbers);
    if (number == NULL) {
        return NGX_ERROR;
    }

    number->name = *name;
    number->warned = 0;

    *index = mmcf->numbers.nelts - 1;

    v->get_handler = ngx_http_mcds_number_variable;
    v->data = *index;

    return NGX_OK;
}


char *
ngx_http_mcds_counter_value(ngx_conf_t *cf, ngx_str_t *text,
    ngx_http_complex_value_t *cv)
{
    ngx_http_compile_complex_value_t  ccv;

    ngx_memzero(&ccv, sizeof(ngx_http_compile_complex_value_t));

    ccv.cf = cf;
    ccv.value = text;
    ccv.complex_value = cv;

    if (ngx_http_compile_complex_value(&ccv) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


ngx_int_t
ngx_http_mcds_counters_start(ngx_http_request_t *r,
    ngx_http_mcds_loc_conf_t *mlcf)
{
    size_t                    size;
    ngx_uint_t                i, n;
    ngx_http_mcds_ctx_t      *ctx;
    ngx_http_mcds_counter_t  *counter;
    ngx_http_mcds_numbers_t  *numbers;

    if (ngx_http_mcds_counters_refused(r, mlcf)) {
        return NGX_OK;
    }

    ctx = ngx_http_get_module_ctx(r, ngx_http_mcds_module);

    counter = mlcf->counters->elts;
    n = 0;

    for (i = 0; i < mlcf->counters->nelts; i++) {
        if (ngx_http_mcds_number_find(ctx, counter[i].index) == NULL) {
            n++;
        }
    }

    if (n == 0) {
        return NGX_OK;
    }

    size = offsetof(ngx_http_mcds_numbers_t, number)
           + n * sizeof(ngx_http_mcds_number_t);

    numbers = ngx_pcalloc(r->pool, size);
    if (numbers == NULL) {
        return NGX_ERROR;
    }

    for (i = 0; i < mlcf->counters->nelts; i++) {

        if (ngx_http_mcds_number_find(ctx, counter[i].index)) {
            continue;
        }

        n = numbers->n++;

        numbers->number[n].ctx = ctx;
        numbers->number[n].index = counter[i].index;

        if (ngx_http_mcds_count(r, &counter[i], &numbers->number[n],
                                mlcf->pool)
            != NGX_OK)
        {
            break;
        }
    }

    numbers->next = ctx->numbers;
    ctx->numbers = numbers;

    return i < mlcf->counters->nelts ? NGX_ERROR : NGX_OK;
}


/*
 * The page of an error counts what its own location declares.  What that
 * inherits was for the request itself, which may have been refused.
 */

static ngx_uint_t
ngx_http_mcds_counters_refused(ngx_http_request_t *r,
    ngx_http_mcds_loc_conf_t *mlcf)
{
    ngx_http_core_srv_conf_t  *cscf;
    ngx_http_mcds_loc_conf_t  *server;

    if (r->err_status == 0) {
        return 0;
    }

    cscf = ngx_http_get_module_srv_conf(r, ngx_http_core_module);
    server = cscf->ctx->loc_conf[ngx_http_mcds_module.ctx_index];

    return mlcf->counters == server->counters;
}


static ngx_int_t
ngx_http_mcds_count(ngx_http_request_t *r, ngx_http_mcds_counter_t *counter,
    ngx_http_mcds_number_t *number, ngx_mcds_pool_t *pool)
{
    ngx_str_t  key;

    if (ngx_http_complex_value(r, &counter->key, &key) != NGX_OK) {
        return NGX_ERROR;
    }

    if (key.len == 0) {
        return NGX_OK;
    }

    if (counter->visitor) {
        return ngx_http_mcds_visitor_start(r, counter, number, pool, &key,
                                           1);
    }

    /* without memory the page is more important than its number */

    number->count = ngx_mcds_counter_add(pool, &key, 1, 0,
                                         ngx_http_mcds_counted, number);
    if (number->count) {
        number->ctx->waiting++;
    }

    return NGX_OK;
}


static void
ngx_http_mcds_counted(void *data, ngx_uint_t rc, uint64_t value)
{
    ngx_http_mcds_number_t *number = data;

    number->count = NULL;
    number->valid = (rc == NGX_MCDS_OK);
    number->value = value;

    ngx_http_mcds_wake(number->ctx);
}


void
ngx_http_mcds_counters_cleanup(ngx_http_mcds_ctx_t *ctx)
{
    ngx_uint_t                i;
    ngx_http_mcds_numbers_t  *numbers;

    for (numbers = ctx->numbers; numbers; numbers = numbers->next) {

        for (i = 0; i < numbers->n; i++) {

            if (numbers->number[i].count) {
                ngx_mcds_counter_cancel(numbers->number[i].count);
            }

            ngx_http_mcds_visitor_cancel(&numbers->number[i]);
        }
    }

    ctx->numbers = NULL;
}


static ngx_http_mcds_number_t *
ngx_http_mcds_number_find(ngx_http_mcds_ctx_t *ctx, ngx_uint_t index)
{
    ngx_uint_t                i;
    ngx_http_mcds_numbers_t  *numbers;

    for (numbers = ctx->numbers; numbers; numbers = numbers->next) {

        for (i = 0; i < numbers->n; i++) {
            if (numbers->number[i].index == index) {
                return &numbers->number[i];
            }
        }
    }

    return NULL;
}


/* the number belongs to the main request, its subrequests show it too */

static ngx_int_t
ngx_http_mcds_number_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    u_char                  *p;
    ngx_http_mcds_ctx_t     *ctx;
    ngx_http_mcds_number_t  *number;

    ctx = ngx_http_mcds_get_ctx(r->main);

    number = ctx ? ngx_http_mcds_number_find(ctx, data) : NULL;

    if (number == NULL) {
        ngx_http_mcds_number_too_early(r, data);
    }

    if (number == NULL || !number->valid) {
        v->not_found = 1;
        return NGX_OK;
    }

    p = ngx_pnalloc(r->pool, NGX_INT64_LEN);
    if (p == NULL) {
        return NGX_ERROR;
    }

    v->data = p;
    v->len = ngx_sprintf(p, "%uL", number->value) - p;
    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;

    return NGX_OK;
}


static void
ngx_http_mcds_number_too_early(ngx_http_request_t *r, ngx_uint_t index)
{
    ngx_uint_t                   i;
    ngx_http_mcds_ctx_t         *ctx;
    ngx_http_mcds_counter_t     *counter;
    ngx_http_mcds_loc_conf_t    *mlcf;
    ngx_http_mcds_main_conf_t   *mmcf;
    ngx_http_mcds_number_var_t  *number;

    /* who was refused, has left, or refreshes a page was not to be counted */

    ctx = ngx_http_mcds_get_ctx(r);

    if (ctx && ctx->refresh) {
        return;
    }

    r = r->main;

    if (r->header_sent || r->err_status || r->count == 0) {
        return;
    }

    mmcf = ngx_http_get_module_main_conf(r, ngx_http_mcds_module);
    number = mmcf->numbers.elts;

    if (number[index].warned) {
        return;
    }

    mlcf = ngx_http_get_module_loc_conf(r, ngx_http_mcds_module);

    if (mlcf->counters == NULL) {
        return;
    }

    counter = mlcf->counters->elts;

    for (i = 0; i < mlcf->counters->nelts; i++) {

        if (counter[i].index == index) {
            number[index].warned = 1;

            ngx_log_error(NGX_LOG_WARN, r->connection->log, 0,
                          "variable \"%V\" is empty when it is read before "
                          "the precontent phase", &number[index].name);
            return;
        }
    }
}

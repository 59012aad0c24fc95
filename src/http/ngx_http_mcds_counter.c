
/*
 * Copyright (C) mcds authors
 *
 * mcds_counter, mcds_visitor_counter and their variables.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_module.h"


static ngx_uint_t ngx_http_mcds_counter_is_off(ngx_conf_t *cf);
static char *ngx_http_mcds_counter_off(ngx_conf_t *cf,
    ngx_http_mcds_loc_conf_t *mlcf, ngx_command_t *cmd);
static ngx_http_mcds_counter_t *ngx_http_mcds_counter_add(ngx_conf_t *cf,
    ngx_http_mcds_loc_conf_t *mlcf, ngx_command_t *cmd);
static ngx_int_t ngx_http_mcds_counter_variable(ngx_conf_t *cf,
    ngx_command_t *cmd, ngx_str_t *name, ngx_uint_t *index);
static char *ngx_http_mcds_counter_value(ngx_conf_t *cf, ngx_str_t *text,
    ngx_http_complex_value_t *cv);
static char *ngx_http_mcds_counter_window(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_mcds_loc_conf_t *mlcf, ngx_http_mcds_counter_t *counter);
static ngx_uint_t ngx_http_mcds_counters_refused(ngx_http_request_t *r,
    ngx_http_mcds_loc_conf_t *mlcf);
static ngx_http_mcds_number_t *ngx_http_mcds_number_find(
    ngx_http_mcds_ctx_t *ctx, ngx_uint_t index);
static ngx_int_t ngx_http_mcds_count(ngx_http_request_t *r,
    ngx_http_mcds_counter_t *counter, ngx_http_mcds_number_t *number,
    ngx_mcds_pool_t *pool);
static ngx_int_t ngx_http_mcds_visit(ngx_http_request_t *r,
    ngx_http_mcds_counter_t *counter, ngx_http_mcds_number_t *number,
    ngx_mcds_pool_t *pool, ngx_str_t *key);
static void ngx_http_mcds_counted(void *data, ngx_uint_t rc, uint64_t value);
static void ngx_http_mcds_summed(void *data, ngx_uint_t rc, uint64_t value);
static ngx_int_t ngx_http_mcds_number_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static void ngx_http_mcds_number_too_early(ngx_http_request_t *r,
    ngx_uint_t index);


static ngx_str_t  ngx_http_mcds_default_key = ngx_string("$host$uri");
static ngx_str_t  ngx_http_mcds_default_visitor =
    ngx_string("$remote_addr:$http_user_agent");


char *
ngx_http_mcds_counter(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mcds_loc_conf_t *mlcf = conf;

    ngx_str_t                *value, *key, s;
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
    key = &ngx_http_mcds_default_key;

    for (i = 2; i < cf->args->nelts; i++) {

        if (value[i].len > 4 && ngx_strncmp(value[i].data, "key=", 4) == 0) {
            s.data = value[i].data + 4;
            s.len = value[i].len - 4;
            key = &s;
            continue;
        }

        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid parameter \"%V\" in \"%V\"", &value[i],
                           &cmd->name);
        return NGX_CONF_ERROR;
    }

    return ngx_http_mcds_counter_value(cf, key, &counter->key);
}


char *
ngx_http_mcds_visitor_counter(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mcds_loc_conf_t *mlcf = conf;

    ngx_int_t                 n;
    ngx_str_t                *value, s, key, visitor;
    ngx_uint_t                i;
    ngx_http_mcds_counter_t  *counter;

    if (ngx_http_mcds_counter_is_off(cf)) {
        return ngx_http_mcds_counter_off(cf, mlcf, cmd);
    }

    counter = ngx_http_mcds_counter_add(cf, mlcf, cmd);
    if (counter == NULL) {
        return NGX_CONF_ERROR;
    }

    counter->window = 300;
    counter->slots = 5;

    value = cf->args->elts;
    ngx_str_set(&key, "$host");
    visitor = ngx_http_mcds_default_visitor;

    for (i = 2; i < cf->args->nelts; i++) {

        if (value[i].len > 4 && ngx_strncmp(value[i].data, "key=", 4) == 0) {
            key.data = value[i].data + 4;
            key.len = value[i].len - 4;
            continue;
        }

        if (value[i].len > 8
            && ngx_strncmp(value[i].data, "visitor=", 8) == 0)
        {
            visitor.data = value[i].data + 8;
            visitor.len = value[i].len - 8;
            continue;
        }

        if (value[i].len > 7 && ngx_strncmp(value[i].data, "window=", 7) == 0)
        {
            s.data = value[i].data + 7;
            s.len = value[i].len - 7;

            n = ngx_parse_time(&s, 1);

            if (n > 0 && n <= NGX_MCDS_MAX_TTL) {
                counter->window = n;
                continue;
            }
        }

        if (value[i].len > 6 && ngx_strncmp(value[i].data, "slots=", 6) == 0) {
            n = ngx_atoi(value[i].data + 6, value[i].len - 6);

            if (n > 0 && n <= NGX_MCDS_MAX_SLOTS) {
                counter->slots = n;
                continue;
            }
        }

        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid parameter \"%V\" in \"%V\"", &value[i],
                           &cmd->name);
        return NGX_CONF_ERROR;
    }

    counter->visitor = ngx_palloc(cf->pool, sizeof(ngx_http_complex_value_t));
    if (counter->visitor == NULL) {
        return NGX_CONF_ERROR;
    }

    if (ngx_http_mcds_counter_value(cf, &visitor, counter->visitor)
        != NGX_CONF_OK
        || ngx_http_mcds_counter_value(cf, &key, &counter->key)
           != NGX_CONF_OK)
    {
        return NGX_CONF_ERROR;
    }

    return ngx_http_mcds_counter_window(cf, cmd, mlcf, counter);
}


static char *
ngx_http_mcds_counter_window(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_mcds_loc_conf_t *mlcf, ngx_http_mcds_counter_t *counter)
{
    ngx_uint_t                i;
    ngx_http_mcds_counter_t  *other;

    if (counter->window % counter->slots) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\": a window of %uDs cannot be cut into %uD "
                           "slots of whole seconds", &cmd->name,
                           counter->window, counter->slots);
        return NGX_CONF_ERROR;
    }

    if (counter->window + counter->window / counter->slots + 1
        > NGX_MCDS_MAX_TTL)
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\": a window of %uDs and one of its %uD slots "
                           "are together more than 30 days", &cmd->name,
                           counter->window, counter->slots);
        return NGX_CONF_ERROR;
    }

    /* they would share the marks, and a visitor be counted by one alone */

    other = mlcf->counters->elts;

    for (i = 0; i < mlcf->counters->nelts; i++) {

        if (other[i].visitor
            && (other[i].window != counter->window
                || other[i].slots != counter->slots)
            && other[i].key.value.len == counter->key.value.len
            && ngx_strncmp(other[i].key.value.data, counter->key.value.data,
                           counter->key.value.len)
               == 0)
        {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "\"%V\": key \"%V\" is used twice, with "
                               "another window or other slots", &cmd->name,
                               &counter->key.value);
            return NGX_CONF_ERROR;
        }
    }

    return NGX_CONF_OK;
}


static ngx_uint_t
ngx_http_mcds_counter_is_off(ngx_conf_t *cf)
{
    ngx_str_t  *value;

    value = cf->args->elts;

    return cf->args->nelts == 2
           && value[1].len == 3
           && ngx_strncmp(value[1].data, "off", 3) == 0;
}


static char *
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


static ngx_http_mcds_counter_t *
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


static char *
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
        return ngx_http_mcds_visit(r, counter, number, pool, &key);
    }

    /* without memory the page is more important than its number */

    number->count = ngx_mcds_counter_add(pool, &key, 1, 0,
                                         ngx_http_mcds_counted, number);
    if (number->count) {
        number->ctx->waiting++;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_mcds_visit(ngx_http_request_t *r, ngx_http_mcds_counter_t *counter,
    ngx_http_mcds_number_t *number, ngx_mcds_pool_t *pool, ngx_str_t *key)
{
    time_t               now;
    ngx_int_t            rc;
    ngx_str_t            visitor;
    ngx_mcds_visitors_t  visitors;

    static ngx_uint_t    warned;

    if (ngx_http_complex_value(r, counter->visitor, &visitor) != NGX_OK) {
        return NGX_ERROR;
    }

    visitors.pool = pool;
    visitors.window = counter->window;
    visitors.slots = counter->slots;

    now = ngx_time();

    if (visitor.len) {
        ngx_mcds_visitors_visit(&visitors, key, &visitor, now);

    } else if (!warned) {
        warned = 1;
        ngx_log_error(NGX_LOG_WARN, r->connection->log, 0,
                      "empty \"visitor\" is not counted");
    }

    rc = ngx_mcds_visitors_sum(&visitors, key, now, &number->value,
                               ngx_http_mcds_summed, number, &number->sum);

    if (rc == NGX_OK) {
        number->valid = 1;

    } else if (rc == NGX_AGAIN) {
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


static void
ngx_http_mcds_summed(void *data, ngx_uint_t rc, uint64_t value)
{
    ngx_http_mcds_number_t *number = data;

    number->sum = NULL;
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

            if (numbers->number[i].sum) {
                ngx_mcds_visitors_cancel(numbers->number[i].sum);
            }
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


/*
 * Copyright (C) mcds authors
 *
 * mcds_visitor_counter.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_conf.h"
#include "ngx_http_mcds_param.h"
#include "ngx_http_mcds_stat.h"
#include "ngx_http_mcds_counter.h"
#include "ngx_http_mcds_counter_conf.h"
#include "ngx_http_mcds_visitor.h"


static ngx_int_t ngx_http_mcds_visitor_param(ngx_conf_t *cf,
    ngx_command_t *cmd, ngx_http_mcds_visitor_t *visitor, ngx_str_t *value,
    ngx_uint_t *seen);
static ngx_int_t ngx_http_mcds_visitor_set(ngx_http_mcds_visitor_t *visitor,
    ngx_uint_t param, ngx_str_t *text);
static char *ngx_http_mcds_visitor_window(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_mcds_counter_conf_t *ncf, ngx_http_mcds_counter_t *counter);
static void ngx_http_mcds_summed(void *data, ngx_uint_t rc, uint64_t value);


static ngx_str_t  ngx_http_mcds_default_visited = ngx_string("$host");
static ngx_str_t  ngx_http_mcds_default_visitor =
    ngx_string("$remote_addr:$http_user_agent");


/* their places are the bits of those that a directive has */

enum {
    NGX_HTTP_MCDS_VISITOR = 0,
    NGX_HTTP_MCDS_WINDOW,
    NGX_HTTP_MCDS_SLOTS,
    NGX_HTTP_MCDS_JITTER,
    NGX_HTTP_MCDS_INTERPOLATE,
    NGX_HTTP_MCDS_PARAMS
};


static struct {
    ngx_str_t   name;
    char       *must;                  /* what such a value is */

} ngx_http_mcds_visitor_params[NGX_HTTP_MCDS_PARAMS] = {
    { ngx_string("visitor="), "a text, most often with variables" },
    { ngx_string("window="), "1s to 30d" },
    { ngx_string("slots="), "1 to 60" },
    { ngx_string("jitter="), "0.01% to 100%" },
    { ngx_string("interpolate="), "\"on\" or \"off\"" }
};


char *
ngx_http_mcds_visitor_counter(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mcds_counter_conf_t *ncf = conf;

    ngx_int_t                 rc;
    ngx_str_t                *value;
    ngx_uint_t                i, seen;
    ngx_http_mcds_counter_t  *counter;
    ngx_http_mcds_visitor_t  *visitor;

    if (ngx_http_mcds_counter_is_off(cf)) {
        return ngx_http_mcds_counter_off(cf, ncf, cmd);
    }

    counter = ngx_http_mcds_counter_add(cf, ncf, cmd);
    if (counter == NULL) {
        return NGX_CONF_ERROR;
    }

    visitor = ngx_pcalloc(cf->pool, sizeof(ngx_http_mcds_visitor_t));
    if (visitor == NULL) {
        return NGX_CONF_ERROR;
    }

    counter->visitor = visitor;

    visitor->name = ngx_http_mcds_default_visitor;
    visitor->visitors.window = 300;
    visitor->visitors.slots = 5;
    visitor->visitors.interpolate = 1;

    value = cf->args->elts;
    seen = 0;

    for (i = 2; i < cf->args->nelts; i++) {

        rc = ngx_http_mcds_counter_param(cf, cmd, counter, &value[i]);

        if (rc == NGX_DECLINED) {
            rc = ngx_http_mcds_visitor_param(cf, cmd, visitor, &value[i],
                                             &seen);
        }

        if (rc == NGX_DECLINED) {
            return ngx_http_mcds_invalid(cf, cmd, &value[i], NULL);
        }

        if (rc == NGX_ERROR) {
            return NGX_CONF_ERROR;
        }
    }

    if (counter->read && (seen & (1 << NGX_HTTP_MCDS_VISITOR))) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\": \"read\" cannot be combined with "
                           "\"visitor=\"", &cmd->name);
        return NGX_CONF_ERROR;
    }

    if (ngx_http_mcds_compile(cf, &visitor->name, &visitor->text)
        != NGX_CONF_OK)
    {
        return NGX_CONF_ERROR;
    }

    if (counter->key.value.data == NULL
        && ngx_http_mcds_compile(cf, &ngx_http_mcds_default_visited,
                                       &counter->key)
           != NGX_CONF_OK)
    {
        return NGX_CONF_ERROR;
    }

    return ngx_http_mcds_visitor_window(cf, cmd, ncf, counter);
}


/* NGX_OK, NGX_DECLINED: no such parameter, NGX_ERROR: said already */

static ngx_int_t
ngx_http_mcds_visitor_param(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_mcds_visitor_t *visitor, ngx_str_t *value, ngx_uint_t *seen)
{
    ngx_int_t    rc;
    ngx_str_t   *name, text;
    ngx_uint_t   i;

    for (i = 0; i < NGX_HTTP_MCDS_PARAMS; i++) {
        name = &ngx_http_mcds_visitor_params[i].name;

        if (value->len < name->len
            || ngx_strncmp(value->data, name->data, name->len) != 0)
        {
            continue;
        }

        if (*seen & (1 << i)) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "duplicate parameter \"%V\" in \"%V\"", value,
                               &cmd->name);
            return NGX_ERROR;
        }

        *seen |= 1 << i;

        text.data = value->data + name->len;
        text.len = value->len - name->len;

        rc = ngx_http_mcds_visitor_set(visitor, i, &text);

        if (rc == NGX_DECLINED) {
            (void) ngx_http_mcds_invalid(cf, cmd, value,
                                       ngx_http_mcds_visitor_params[i].must);
            return NGX_ERROR;
        }

        return rc;
    }

    return NGX_DECLINED;
}


static ngx_int_t
ngx_http_mcds_visitor_set(ngx_http_mcds_visitor_t *visitor, ngx_uint_t param,
    ngx_str_t *text)
{
    ngx_int_t   n;
    ngx_uint_t  on;

    switch (param) {

    case NGX_HTTP_MCDS_VISITOR:
        visitor->name = *text;

        return text->len ? NGX_OK : NGX_DECLINED;

    case NGX_HTTP_MCDS_WINDOW:
        n = ngx_parse_time(text, 1);

        if (n <= 0 || n > NGX_MCDS_MAX_TTL) {
            return NGX_DECLINED;
        }

        visitor->visitors.window = n;

        return NGX_OK;

    case NGX_HTTP_MCDS_SLOTS:
        n = ngx_atoi(text->data, text->len);

        if (n <= 0 || n > NGX_MCDS_MAX_SLOTS) {
            return NGX_DECLINED;
        }

        visitor->visitors.slots = n;

        return NGX_OK;

    case NGX_HTTP_MCDS_JITTER:

        if (text->len == 0 || text->data[text->len - 1] != '%') {
            return NGX_DECLINED;
        }

        n = ngx_atofp(text->data, text->len - 1, 2);

        if (n <= 0 || n > 100 * NGX_MCDS_JITTER_PERCENT) {
            return NGX_DECLINED;
        }

        visitor->visitors.jitter = n;

        return NGX_OK;

    default: /* NGX_HTTP_MCDS_INTERPOLATE */

        if (ngx_http_mcds_counter_on(text, &on) != NGX_OK) {
            return NGX_DECLINED;
        }

        visitor->visitors.interpolate = on;

        return NGX_OK;
    }
}


static char *
ngx_http_mcds_visitor_window(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_mcds_counter_conf_t *ncf, ngx_http_mcds_counter_t *counter)
{
    uint32_t                  shown;
    ngx_uint_t                i;
    ngx_mcds_visitors_t      *v, *o;
    ngx_http_mcds_counter_t  *other;

    v = &counter->visitor->visitors;

    if (v->window % v->slots) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\": a window of %uDs cannot be cut into %uD "
                           "slots of whole seconds", &cmd->name, v->window,
                           v->slots);
        return NGX_CONF_ERROR;
    }

    shown = v->interpolate ? 2 : 1;

    if (v->window + shown * (v->window / v->slots) + 1 > NGX_MCDS_MAX_TTL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\": a window of %uDs and %uD of its %uD slots "
                           "are together more than 30 days", &cmd->name,
                           v->window, shown, v->slots);
        return NGX_CONF_ERROR;
    }

    /* they would share the marks, and a visitor be counted by one alone */

    other = ncf->counters->elts;

    for (i = 0; i < ncf->counters->nelts; i++) {

        if (other[i].visitor == NULL) {
            continue;
        }

        o = &other[i].visitor->visitors;

        if ((o->window != v->window || o->slots != v->slots)
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


ngx_int_t
ngx_http_mcds_visitor_start(ngx_http_request_t *r,
    ngx_http_mcds_counter_t *counter, ngx_http_mcds_number_t *number,
    ngx_mcds_pool_t *pool, ngx_str_t *key, ngx_uint_t counts)
{
    time_t               now;
    uint64_t             value;
    ngx_int_t            rc;
    ngx_str_t            visitor;
    ngx_mcds_visitors_t  visitors;

    static ngx_uint_t    warned;

    visitors = counter->visitor->visitors;
    visitors.pool = pool;
    visitors.stat = number->stat;

    now = ngx_time();

    if (counts) {

        if (ngx_http_complex_value(r, &counter->visitor->text, &visitor)
            != NGX_OK)
        {
            return NGX_ERROR;
        }

        if (visitor.len) {
            ngx_mcds_visitors_visit(&visitors, key, &visitor, now);

        } else if (!warned) {
            warned = 1;
            ngx_log_error(NGX_LOG_WARN, r->connection->log, 0,
                          "empty \"visitor\" is not counted");
        }
    }

    rc = ngx_mcds_visitors_sum(&visitors, key, now, &value,
                               ngx_http_mcds_summed, number, &number->sum);

    if (rc == NGX_OK) {
        ngx_http_mcds_number_set(number, value);

    } else if (rc == NGX_AGAIN) {
        number->task->waiting++;
        number->task->needed++;
    }

    return NGX_OK;
}


static void
ngx_http_mcds_summed(void *data, ngx_uint_t rc, uint64_t value)
{
    ngx_http_mcds_number_t *number = data;

    number->sum = NULL;

    if (rc == NGX_MCDS_OK) {
        ngx_http_mcds_number_set(number, value);

    } else {
        ngx_http_mcds_stat_failed(number->stat, rc);
    }

    number->task->needed--;

    ngx_http_mcds_task_wake(number->task);
}


void
ngx_http_mcds_visitor_cancel(ngx_http_mcds_number_t *number)
{
    if (number->sum) {
        ngx_mcds_visitors_cancel(number->sum);
    }
}


void
ngx_http_mcds_visitor_hurry(ngx_http_mcds_number_t *number)
{
    if (number->sum) {
        ngx_mcds_visitors_cancel(number->sum);
        ngx_http_mcds_summed(number, NGX_MCDS_TIMEOUT, 0);
    }
}

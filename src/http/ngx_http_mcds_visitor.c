
/*
 * Copyright (C) mcds authors
 *
 * mcds_visitor_counter.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_module.h"
#include "ngx_http_mcds_counter.h"
#include "ngx_http_mcds_visitor.h"


static char *ngx_http_mcds_visitor_window(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_mcds_loc_conf_t *mlcf, ngx_http_mcds_counter_t *counter);
static void ngx_http_mcds_summed(void *data, ngx_uint_t rc, uint64_t value);


static ngx_str_t  ngx_http_mcds_default_visited = ngx_string("$host");
static ngx_str_t  ngx_http_mcds_default_visitor =
    ngx_string("$remote_addr:$http_user_agent");


char *
ngx_http_mcds_visitor_counter(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mcds_loc_conf_t *mlcf = conf;

    ngx_int_t                 n, rc;
    ngx_str_t                *value, s, text;
    ngx_uint_t                i;
    ngx_http_mcds_counter_t  *counter;
    ngx_http_mcds_visitor_t  *visitor;

    if (ngx_http_mcds_counter_is_off(cf)) {
        return ngx_http_mcds_counter_off(cf, mlcf, cmd);
    }

    counter = ngx_http_mcds_counter_add(cf, mlcf, cmd);
    if (counter == NULL) {
        return NGX_CONF_ERROR;
    }

    visitor = ngx_pcalloc(cf->pool, sizeof(ngx_http_mcds_visitor_t));
    if (visitor == NULL) {
        return NGX_CONF_ERROR;
    }

    counter->visitor = visitor;

    visitor->window = 300;
    visitor->slots = 5;

    value = cf->args->elts;
    text = ngx_http_mcds_default_visitor;

    for (i = 2; i < cf->args->nelts; i++) {

        rc = ngx_http_mcds_counter_param(cf, cmd, counter, &value[i]);

        if (rc == NGX_OK) {
            continue;
        }

        if (rc == NGX_ERROR) {
            return NGX_CONF_ERROR;
        }

        if (value[i].len > 8
            && ngx_strncmp(value[i].data, "visitor=", 8) == 0)
        {
            text.data = value[i].data + 8;
            text.len = value[i].len - 8;
            continue;
        }

        if (value[i].len > 7 && ngx_strncmp(value[i].data, "window=", 7) == 0)
        {
            s.data = value[i].data + 7;
            s.len = value[i].len - 7;

            n = ngx_parse_time(&s, 1);

            if (n > 0 && n <= NGX_MCDS_MAX_TTL) {
                visitor->window = n;
                continue;
            }
        }

        if (value[i].len > 6 && ngx_strncmp(value[i].data, "slots=", 6) == 0) {
            n = ngx_atoi(value[i].data + 6, value[i].len - 6);

            if (n > 0 && n <= NGX_MCDS_MAX_SLOTS) {
                visitor->slots = n;
                continue;
            }
        }

        return ngx_http_mcds_counter_invalid(cf, cmd, &value[i]);
    }

    if (ngx_http_mcds_counter_value(cf, &text, &visitor->text)
        != NGX_CONF_OK)
    {
        return NGX_CONF_ERROR;
    }

    if (counter->key.value.data == NULL
        && ngx_http_mcds_counter_value(cf, &ngx_http_mcds_default_visited,
                                       &counter->key)
           != NGX_CONF_OK)
    {
        return NGX_CONF_ERROR;
    }

    return ngx_http_mcds_visitor_window(cf, cmd, mlcf, counter);
}


static char *
ngx_http_mcds_visitor_window(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_mcds_loc_conf_t *mlcf, ngx_http_mcds_counter_t *counter)
{
    ngx_uint_t                i;
    ngx_http_mcds_counter_t  *other;
    ngx_http_mcds_visitor_t  *visitor;

    visitor = counter->visitor;

    if (visitor->window % visitor->slots) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\": a window of %uDs cannot be cut into %uD "
                           "slots of whole seconds", &cmd->name,
                           visitor->window, visitor->slots);
        return NGX_CONF_ERROR;
    }

    if (visitor->window + visitor->window / visitor->slots + 1
        > NGX_MCDS_MAX_TTL)
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\": a window of %uDs and one of its %uD slots "
                           "are together more than 30 days", &cmd->name,
                           visitor->window, visitor->slots);
        return NGX_CONF_ERROR;
    }

    /* they would share the marks, and a visitor be counted by one alone */

    other = mlcf->counters->elts;

    for (i = 0; i < mlcf->counters->nelts; i++) {

        if (other[i].visitor
            && (other[i].visitor->window != visitor->window
                || other[i].visitor->slots != visitor->slots)
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
    ngx_int_t            rc;
    ngx_str_t            visitor;
    ngx_mcds_visitors_t  visitors;

    static ngx_uint_t    warned;

    visitors.pool = pool;
    visitors.window = counter->visitor->window;
    visitors.slots = counter->visitor->slots;

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
ngx_http_mcds_summed(void *data, ngx_uint_t rc, uint64_t value)
{
    ngx_http_mcds_number_t *number = data;

    number->sum = NULL;
    number->valid = (rc == NGX_MCDS_OK);
    number->value = value;

    ngx_http_mcds_wake(number->ctx);
}


void
ngx_http_mcds_visitor_cancel(ngx_http_mcds_number_t *number)
{
    if (number->sum) {
        ngx_mcds_visitors_cancel(number->sum);
    }
}


/*
 * Copyright (C) mcds authors
 *
 * mcds_visitor_counter: unique visitors in a sliding window.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_conf.h"
#include "ngx_http_mcds_param_type.h"
#include "ngx_http_mcds_stat.h"
#include "ngx_http_mcds_counter.h"
#include "ngx_http_mcds_counter_conf.h"
#include "ngx_http_mcds_visitor.h"


static char *ngx_http_mcds_visitor_percent(ngx_conf_t *cf,
    ngx_http_mcds_param_t *param, ngx_str_t *text, void *conf);
static char *ngx_http_mcds_visitor_window(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_mcds_counter_conf_t *ncf, ngx_http_mcds_counter_t *counter);
static void ngx_http_mcds_summed(void *data, ngx_uint_t rc, uint64_t value);


static ngx_str_t  ngx_http_mcds_default_visited = ngx_string("$host");
static ngx_str_t  ngx_http_mcds_default_visitor =
    ngx_string("$remote_addr:$http_user_agent");


/*
 * the structure into which the parameters of mcds_visitor_counter are read; the
 * counter must be the first member, since the parameters shared with
 * mcds_counter are written at their offsets in ngx_http_mcds_counter_t
 */

typedef struct {
    ngx_http_mcds_counter_t     counter;
    ngx_http_mcds_visitor_t     visitor;
} ngx_http_mcds_visited_t;


static ngx_http_mcds_param_t  ngx_http_mcds_visited_params[] = {

    { ngx_string("visitor="),
      ngx_http_mcds_param_string,
      ngx_http_mcds_field(ngx_http_mcds_visited_t, visitor.name),
      0, 0, 0, NULL },

    { ngx_string("window="),
      ngx_http_mcds_param_sec,
      ngx_http_mcds_field(ngx_http_mcds_visited_t, visitor.visitors.window),
      1, NGX_MCDS_MAX_TTL, 300, NULL },

    { ngx_string("slots="),
      ngx_http_mcds_param_num,
      ngx_http_mcds_field(ngx_http_mcds_visited_t, visitor.visitors.slots),
      1, NGX_MCDS_MAX_SLOTS, 5, NULL },

    { ngx_string("jitter="),
      ngx_http_mcds_visitor_percent,
      ngx_http_mcds_field(ngx_http_mcds_visited_t, visitor.visitors.jitter),
      1, 100 * NGX_MCDS_JITTER_PERCENT, 0, NULL },

    { ngx_string("interpolate="),
      ngx_http_mcds_param_flag,
      ngx_http_mcds_field(ngx_http_mcds_visited_t,
                          visitor.visitors.interpolate),
      0, 0, 1, NULL },

      ngx_http_mcds_params_of(ngx_http_mcds_counted_params)
};


char *
ngx_http_mcds_visitor_counter(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mcds_counter_conf_t *ncf = conf;

    ngx_http_mcds_counter_t  *counter;
    ngx_http_mcds_visitor_t  *visitor;
    ngx_http_mcds_visited_t   visited;

    static char  *counts[] = { "if=", "visitor=", NULL };

    if (ngx_http_mcds_is_off(cf)) {
        return ngx_http_mcds_counter_off(cf, ncf, cmd);
    }

    counter = ngx_http_mcds_counter_add(cf, ncf, cmd);
    if (counter == NULL) {
        return NGX_CONF_ERROR;
    }

    visitor = ngx_palloc(cf->pool, sizeof(ngx_http_mcds_visitor_t));
    if (visitor == NULL) {
        return NGX_CONF_ERROR;
    }

    ngx_memzero(&visited, sizeof(ngx_http_mcds_visited_t));
    visited.counter = *counter;

    if (ngx_http_mcds_params(cf, cmd, 2, ngx_http_mcds_visited_params,
                             &visited)
        != NGX_CONF_OK)
    {
        return NGX_CONF_ERROR;
    }

    *counter = visited.counter;
    *visitor = visited.visitor;

    counter->visitor = visitor;

    if (counter->read
        && ngx_http_mcds_counter_read_alone(cf, cmd, counts) != NGX_CONF_OK)
    {
        return NGX_CONF_ERROR;
    }

    if (visitor->name.len == 0) {
        visitor->name = ngx_http_mcds_default_visitor;
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


/*
 * parses the parameter "jitter=" of a counter of visitors, the random noise of
 * its number: a percentage, which is stored in hundredths of a percent
 */

static char *
ngx_http_mcds_visitor_percent(ngx_conf_t *cf, ngx_http_mcds_param_t *param,
    ngx_str_t *text, void *conf)
{
    ngx_int_t  n;

    n = NGX_ERROR;

    if (text->data[text->len - 1] == '%') {
        n = ngx_atofp(text->data, text->len - 1, 2);
    }

    if (n < param->low || n > param->high) {
        return "0.01% to 100%";
    }

    ngx_http_mcds_param_put(param, conf, n);

    return NULL;
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

    /*
     * two counters with the same key and different windows would share the
     * items in memcached that mark visitors as counted: each visitor would
     * count in one of them only
     */

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

    ngx_http_mcds_task_result(number->task);
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

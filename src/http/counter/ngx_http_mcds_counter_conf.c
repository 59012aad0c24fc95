
/*
 * Copyright (C) mcds authors
 *
 * The directive mcds_counter, and the functions that it shares with
 * mcds_visitor_counter.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_conf.h"
#include "ngx_http_mcds_param_type.h"
#include "ngx_http_mcds_counter.h"
#include "ngx_http_mcds_counter_conf.h"


/*
 * the limit of the parameter "by=" of a counter, so that sums of counts do not
 * overflow 64 bits
 */
#define NGX_HTTP_MCDS_MAX_BY      1000000000000000000LL


static char *ngx_http_mcds_counter_by(ngx_conf_t *cf,
    ngx_http_mcds_param_t *param, ngx_str_t *text, void *conf);
static char *ngx_http_mcds_counter_period(ngx_conf_t *cf,
    ngx_http_mcds_param_t *param, ngx_str_t *text, void *conf);
static char *ngx_http_mcds_counter_statuses(ngx_conf_t *cf,
    ngx_http_mcds_param_t *param, ngx_str_t *text, void *conf);
static ngx_int_t ngx_http_mcds_counter_status(u_char *p, size_t len);
static ngx_int_t ngx_http_mcds_counter_variable(ngx_conf_t *cf,
    ngx_command_t *cmd, ngx_str_t *name, ngx_uint_t *index);


static ngx_str_t  ngx_http_mcds_counter_default_key = ngx_string("$host$uri");


ngx_http_mcds_param_t  ngx_http_mcds_counted_params[] = {

    { ngx_string("key="),
      ngx_http_mcds_param_complex,
      ngx_http_mcds_field(ngx_http_mcds_counter_t, key),
      0, 0, 0, NULL },

    { ngx_string("if="),
      ngx_http_mcds_param_complex,
      ngx_http_mcds_field(ngx_http_mcds_counter_t, filter),
      0, 0, 0, NULL },

    { ngx_string("read"),
      ngx_http_mcds_param_word,
      ngx_http_mcds_field(ngx_http_mcds_counter_t, read),
      1, 0, 0, NULL },

      ngx_http_mcds_params_end
};


ngx_http_mcds_param_t  ngx_http_mcds_counter_params[] = {

    { ngx_string("by="),
      ngx_http_mcds_counter_by,
      ngx_http_mcds_field(ngx_http_mcds_counter_t, delta),
      0, 0, 1, NULL },

    { ngx_string("ttl="),
      ngx_http_mcds_param_sec,
      ngx_http_mcds_field(ngx_http_mcds_counter_t, ttl),
      1, NGX_MCDS_MAX_TTL, 0, NULL },

    { ngx_string("period="),
      ngx_http_mcds_counter_period,
      ngx_http_mcds_field(ngx_http_mcds_counter_t, period),
      0, 0, 0, NULL },

    { ngx_string("statuses="),
      ngx_http_mcds_counter_statuses,
      ngx_http_mcds_field(ngx_http_mcds_counter_t, statuses),
      0, 0, 0, NULL },

    { ngx_string("async="),
      ngx_http_mcds_param_msec,
      ngx_http_mcds_field(ngx_http_mcds_counter_t, flush),
      1, 60000, 0, NULL },

    { ngx_string("async"),
      ngx_http_mcds_param_word,
      ngx_http_mcds_field(ngx_http_mcds_counter_t, flush),
      100, 0, 0, NULL },

      ngx_http_mcds_params_of(ngx_http_mcds_counted_params)
};


char *
ngx_http_mcds_counter(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mcds_counter_conf_t *ncf = conf;

    ngx_http_mcds_counter_t       *counter;
    ngx_http_mcds_counter_main_t  *nmcf;

    static char  *counts[] = { "if=", "by=", "ttl=", "statuses=", "top=",
                               NULL };

    if (ngx_http_mcds_is_off(cf)) {
        return ngx_http_mcds_counter_off(cf, ncf, cmd);
    }

    counter = ngx_http_mcds_counter_add(cf, ncf, cmd);
    if (counter == NULL) {
        return NGX_CONF_ERROR;
    }

    counter->buffer = 1;
    counter->writeback = 1;
    counter->source.fetch = ngx_http_mcds_counter_fetch;

    if (ngx_http_mcds_params(cf, cmd, 2, ngx_http_mcds_counter_params,
                             counter)
        != NGX_CONF_OK)
    {
        return NGX_CONF_ERROR;
    }

    if (counter->key.value.data == NULL
        && ngx_http_mcds_compile(cf, &ngx_http_mcds_counter_default_key,
                                 &counter->key)
           != NGX_CONF_OK)
    {
        return NGX_CONF_ERROR;
    }

    counter->async = (counter->flush != 0);

    /*
     * mcds restores the number of a durable counter that memcached has lost;
     * this must not happen to a number that expires or decreases on purpose
     */

    counter->durable = ((counter->ttl == 0 || counter->period.length)
                        && counter->by == NULL && counter->delta > 0);

    nmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_mcds_counter_module);

    nmcf->responses |= counter->response;

    return counter->read ? ngx_http_mcds_counter_read_alone(cf, cmd, counts)
                         : NGX_CONF_OK;
}


char *
ngx_http_mcds_counter_read_alone(ngx_conf_t *cf, ngx_command_t *cmd,
    char **names)
{
    for ( /* void */ ; *names; names++) {

        if (ngx_http_mcds_param_given(cf, *names)) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "\"%V\": \"read\" cannot be combined with "
                               "\"%s\"", &cmd->name, *names);
            return NGX_CONF_ERROR;
        }
    }

    return NGX_CONF_OK;
}


static char *
ngx_http_mcds_counter_by(ngx_conf_t *cf, ngx_http_mcds_param_t *param,
    ngx_str_t *text, void *conf)
{
    ngx_http_mcds_counter_t *counter = conf;

    if (ngx_http_script_variables_count(text)) {

        counter->by = ngx_palloc(cf->pool, sizeof(ngx_http_complex_value_t));
        if (counter->by == NULL) {
            return NGX_CONF_ERROR;
        }

        return ngx_http_mcds_compile(cf, text, counter->by);
    }

    if (ngx_http_mcds_counter_delta(text, &counter->delta) != NGX_OK
        || counter->delta == 0)
    {
        return "a number but 0, or have variables";
    }

    return NULL;
}


/* parses the period of a counter: "length" or "length@start" */

static char *
ngx_http_mcds_counter_period(ngx_conf_t *cf, ngx_http_mcds_param_t *param,
    ngx_str_t *text, void *conf)
{
    ngx_http_mcds_counter_t *counter = conf;

    u_char     *at, *last;
    time_t      length, start;
    ngx_str_t   s;

    last = text->data + text->len;

    at = ngx_strlchr(text->data, last, '@');
    if (at == NULL) {
        at = last;
    }

    s.data = text->data;
    s.len = at - text->data;

    length = ngx_parse_time(&s, 1);
    start = 0;

    if (at < last) {
        s.data = at + 1;
        s.len = last - s.data;

        start = ngx_parse_time(&s, 1);
    }

    if (length <= 0 || length > NGX_MCDS_MAX_PERIOD
        || start < 0 || start >= length)
    {
        return "a time, with @ and a shorter one behind it, or without";
    }

    counter->period.length = length;
    counter->period.start = start;

    return NULL;
}


/* parses the statuses that a counter counts: "200,206,3xx" or "any" */

static char *
ngx_http_mcds_counter_statuses(ngx_conf_t *cf, ngx_http_mcds_param_t *param,
    ngx_str_t *text, void *conf)
{
    ngx_http_mcds_counter_t *counter = conf;

    u_char      *p, *comma, *last;
    ngx_int_t    n;
    ngx_uint_t  *status;

    counter->response = 1;

    if (ngx_http_mcds_is(text, "any")) {
        return NULL;
    }

    counter->statuses = ngx_array_create(cf->pool, 4, sizeof(ngx_uint_t));
    if (counter->statuses == NULL) {
        return NGX_CONF_ERROR;
    }

    p = text->data;
    last = p + text->len;

    for ( ;; ) {

        comma = ngx_strlchr(p, last, ',');
        if (comma == NULL) {
            comma = last;
        }

        n = ngx_http_mcds_counter_status(p, comma - p);
        if (n == NGX_ERROR) {
            return "\"any\", or statuses as 404 or 2xx, with commas";
        }

        status = ngx_array_push(counter->statuses);
        if (status == NULL) {
            return NGX_CONF_ERROR;
        }

        *status = n;

        if (comma == last) {
            return NULL;
        }

        p = comma + 1;
    }
}


static ngx_int_t
ngx_http_mcds_counter_status(u_char *p, size_t len)
{
    ngx_int_t  n;

    if (len != 3) {
        return NGX_ERROR;
    }

    if (*p >= '1' && *p <= '5' && p[1] == 'x' && p[2] == 'x') {
        return *p - '0';
    }

    n = ngx_atoi(p, len);

    return (n >= 100 && n <= 599) ? n : NGX_ERROR;
}


ngx_int_t
ngx_http_mcds_counter_delta(ngx_str_t *text, int64_t *delta)
{
    u_char      *p, *last;
    int64_t      n;
    ngx_uint_t   negative;

    p = text->data;
    last = p + text->len;

    negative = (p < last && *p == '-');
    p += negative;

    if (p == last) {
        return NGX_ERROR;
    }

    for (n = 0; p < last; p++) {

        if (*p < '0' || *p > '9' || n > NGX_HTTP_MCDS_MAX_BY / 10) {
            return NGX_ERROR;
        }

        n = n * 10 + (*p - '0');

        if (n > NGX_HTTP_MCDS_MAX_BY) {
            return NGX_ERROR;
        }
    }

    *delta = negative ? -n : n;

    return NGX_OK;
}


char *
ngx_http_mcds_counter_off(ngx_conf_t *cf, ngx_http_mcds_counter_conf_t *ncf,
    ngx_command_t *cmd)
{
    if (ncf->off == cmd) {
        return "is duplicate";
    }

    if (ncf->counters != NGX_CONF_UNSET_PTR && ncf->counters) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V off\" beside counters of the same level",
                           &cmd->name);
        return NGX_CONF_ERROR;
    }

    ncf->counters = NULL;
    ncf->off = cmd;

    return NGX_CONF_OK;
}


ngx_http_mcds_counter_t *
ngx_http_mcds_counter_add(ngx_conf_t *cf, ngx_http_mcds_counter_conf_t *ncf,
    ngx_command_t *cmd)
{
    ngx_str_t                *value;
    ngx_uint_t                i, index;
    ngx_http_mcds_counter_t  *counter, *other;

    value = cf->args->elts;

    if (ncf->counters == NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V %V\" beside \"off\" of the same level",
                           &cmd->name, &value[1]);
        return NULL;
    }

    if (ncf->counters == NGX_CONF_UNSET_PTR) {
        ncf->counters = ngx_array_create(cf->pool, 2,
                                          sizeof(ngx_http_mcds_counter_t));
        if (ncf->counters == NULL) {
            return NULL;
        }
    }

    if (ngx_http_mcds_counter_variable(cf, cmd, &value[1], &index) != NGX_OK) {
        return NULL;
    }

    other = ncf->counters->elts;

    for (i = 0; i < ncf->counters->nelts; i++) {
        if (other[i].index == index) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "\"%V\": variable \"%V\" is used twice",
                               &cmd->name, &value[1]);
            return NULL;
        }
    }

    counter = ngx_array_push(ncf->counters);
    if (counter == NULL) {
        return NULL;
    }

    ngx_memzero(counter, sizeof(ngx_http_mcds_counter_t));
    counter->index = index;
    ngx_http_mcds_set_place(cf, &counter->place);

    return counter;
}


static ngx_int_t
ngx_http_mcds_counter_variable(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_str_t *name, ngx_uint_t *index)
{
    ngx_str_t                      s;
    ngx_http_variable_t           *v;
    ngx_http_mcds_counter_main_t  *nmcf;
    ngx_http_mcds_number_var_t    *number;

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

    nmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_mcds_counter_module);

    number = ngx_array_push(&nmcf->numbers);
    if (number == NULL) {
        return NGX_ERROR;
    }

    number->name = *name;
    number->warned = 0;
    number->refused = 0;

    *index = nmcf->numbers.nelts - 1;

    v->get_handler = ngx_http_mcds_number_variable;
    v->data = *index;

    return NGX_OK;
}

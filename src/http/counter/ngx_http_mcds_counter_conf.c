
/*
 * Copyright (C) mcds authors
 *
 * mcds_counter, and what mcds_visitor_counter has in common with it.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_conf.h"
#include "ngx_http_mcds_param.h"
#include "ngx_http_mcds_counter.h"
#include "ngx_http_mcds_counter_conf.h"
#include "ngx_http_mcds_top.h"


/* by= is at most that, so that sums do not reach the end of their type */
#define NGX_HTTP_MCDS_MAX_BY      1000000000000000000LL

/* milliseconds */
#define NGX_HTTP_MCDS_MAX_FLUSH   60000


typedef struct {
    ngx_str_t     name;

    /* NGX_OK, NGX_DECLINED: no such value, NGX_ERROR: said already */
    ngx_int_t   (*set)(ngx_conf_t *cf, ngx_http_mcds_counter_t *counter,
                       ngx_str_t *text);
    char         *must;                /* what such a value is */
} ngx_http_mcds_counter_param_t;


static ngx_int_t ngx_http_mcds_counter_own_param(ngx_conf_t *cf,
    ngx_command_t *cmd, ngx_http_mcds_counter_t *counter, ngx_str_t *value,
    ngx_uint_t *seen);
static ngx_int_t ngx_http_mcds_counter_exclude(ngx_conf_t *cf,
    ngx_command_t *cmd, ngx_http_mcds_counter_t *counter);
static char *ngx_http_mcds_counter_check(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_mcds_counter_t *counter, ngx_uint_t seen);
static ngx_int_t ngx_http_mcds_counter_by(ngx_conf_t *cf,
    ngx_http_mcds_counter_t *counter, ngx_str_t *text);
static ngx_int_t ngx_http_mcds_counter_ttl(ngx_conf_t *cf,
    ngx_http_mcds_counter_t *counter, ngx_str_t *text);
static ngx_int_t ngx_http_mcds_counter_period(ngx_conf_t *cf,
    ngx_http_mcds_counter_t *counter, ngx_str_t *text);
static ngx_int_t ngx_http_mcds_counter_statuses(ngx_conf_t *cf,
    ngx_http_mcds_counter_t *counter, ngx_str_t *text);
static ngx_int_t ngx_http_mcds_counter_async(ngx_conf_t *cf,
    ngx_http_mcds_counter_t *counter, ngx_str_t *text);
static ngx_int_t ngx_http_mcds_counter_in_top(ngx_conf_t *cf,
    ngx_http_mcds_counter_t *counter, ngx_str_t *text);
static ngx_int_t ngx_http_mcds_counter_status(u_char *p, size_t len);
static ngx_int_t ngx_http_mcds_counter_variable(ngx_conf_t *cf,
    ngx_command_t *cmd, ngx_str_t *name, ngx_uint_t *index);


static ngx_str_t  ngx_http_mcds_default_key = ngx_string("$host$uri");


/* their places are the bits of those that a directive has */

enum {
    NGX_HTTP_MCDS_BY = 0,
    NGX_HTTP_MCDS_TTL,
    NGX_HTTP_MCDS_PERIOD,
    NGX_HTTP_MCDS_STATUSES,
    NGX_HTTP_MCDS_ASYNC,
    NGX_HTTP_MCDS_TOP
};


static ngx_http_mcds_counter_param_t  ngx_http_mcds_counter_params[] = {

    { ngx_string("by="), ngx_http_mcds_counter_by,
      "a number but 0, or have variables" },

    { ngx_string("ttl="), ngx_http_mcds_counter_ttl,
      "1s to 30d" },

    { ngx_string("period="), ngx_http_mcds_counter_period,
      "a time, with @ and a shorter one behind it, or without" },

    { ngx_string("statuses="), ngx_http_mcds_counter_statuses,
      "\"any\", or statuses as 404 or 2xx, with commas" },

    { ngx_string("async="), ngx_http_mcds_counter_async,
      "1ms to 60s" },

    { ngx_string("top="), ngx_http_mcds_counter_in_top,
      "the name of a list" },

    { ngx_null_string, NULL, NULL }
};


char *
ngx_http_mcds_counter(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mcds_counter_conf_t *ncf = conf;

    ngx_int_t                      rc;
    ngx_str_t                     *value;
    ngx_uint_t                     i, seen;
    ngx_http_mcds_counter_t       *counter;
    ngx_http_mcds_counter_main_t  *nmcf;

    if (ngx_http_mcds_counter_is_off(cf)) {
        return ngx_http_mcds_counter_off(cf, ncf, cmd);
    }

    counter = ngx_http_mcds_counter_add(cf, ncf, cmd);
    if (counter == NULL) {
        return NGX_CONF_ERROR;
    }

    counter->delta = 1;
    counter->flush = 100;
    counter->buffer = 1;
    counter->writeback = 1;
    counter->source.fetch = ngx_http_mcds_counter_fetch;

    value = cf->args->elts;
    seen = 0;

    for (i = 2; i < cf->args->nelts; i++) {

        rc = ngx_http_mcds_counter_param(cf, cmd, counter, &value[i]);

        if (rc == NGX_DECLINED) {
            rc = ngx_http_mcds_counter_own_param(cf, cmd, counter, &value[i],
                                                 &seen);
        }

        if (rc == NGX_DECLINED) {
            return ngx_http_mcds_invalid(cf, cmd, &value[i], NULL);
        }

        if (rc == NGX_ERROR) {
            return NGX_CONF_ERROR;
        }
    }

    if (counter->key.value.data == NULL
        && ngx_http_mcds_compile(cf, &ngx_http_mcds_default_key,
                                       &counter->key)
           != NGX_CONF_OK)
    {
        return NGX_CONF_ERROR;
    }

    nmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_mcds_counter_module);

    nmcf->responses |= counter->response;

    return ngx_http_mcds_counter_check(cf, cmd, counter, seen);
}


ngx_int_t
ngx_http_mcds_counter_param(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_mcds_counter_t *counter, ngx_str_t *value)
{
    ngx_str_t                  s;
    ngx_http_complex_value_t  *cv;

    if (ngx_http_mcds_counter_word(value, "read")) {

        if (counter->read) {
            return ngx_http_mcds_counter_duplicate(cf, cmd, value);
        }

        counter->read = 1;

        return ngx_http_mcds_counter_exclude(cf, cmd, counter);
    }

    if (value->len > 4 && ngx_strncmp(value->data, "key=", 4) == 0) {
        s.data = value->data + 4;
        s.len = value->len - 4;
        cv = &counter->key;

        if (cv->value.data) {
            return ngx_http_mcds_counter_duplicate(cf, cmd, value);
        }

    } else if (value->len > 3 && ngx_strncmp(value->data, "if=", 3) == 0) {
        s.data = value->data + 3;
        s.len = value->len - 3;

        if (counter->filter) {
            return ngx_http_mcds_counter_duplicate(cf, cmd, value);
        }

        cv = ngx_palloc(cf->pool, sizeof(ngx_http_complex_value_t));
        if (cv == NULL) {
            return NGX_ERROR;
        }

        counter->filter = cv;

        if (ngx_http_mcds_counter_exclude(cf, cmd, counter) != NGX_OK) {
            return NGX_ERROR;
        }

    } else {
        return NGX_DECLINED;
    }

    return ngx_http_mcds_compile(cf, &s, cv) == NGX_CONF_OK
           ? NGX_OK : NGX_ERROR;
}


static ngx_int_t
ngx_http_mcds_counter_own_param(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_mcds_counter_t *counter, ngx_str_t *value, ngx_uint_t *seen)
{
    ngx_int_t               rc;
    ngx_str_t               text;
    ngx_uint_t              i;
    ngx_http_mcds_counter_param_t  *param;

    for (i = 0; /* void */ ; i++) {
        param = &ngx_http_mcds_counter_params[i];

        if (param->set == NULL) {
            return NGX_DECLINED;
        }

        if (i == NGX_HTTP_MCDS_ASYNC
            && ngx_http_mcds_counter_word(value, "async"))
        {
            break;
        }

        if (value->len > param->name.len
            && ngx_strncmp(value->data, param->name.data, param->name.len)
               == 0)
        {
            break;
        }
    }

    if (*seen & ((ngx_uint_t) 1 << i)) {
        return ngx_http_mcds_counter_duplicate(cf, cmd, value);
    }

    *seen |= (ngx_uint_t) 1 << i;

    if (value->len < param->name.len) {
        counter->async = 1;
        return NGX_OK;
    }

    text.data = value->data + param->name.len;
    text.len = value->len - param->name.len;

    rc = param->set(cf, counter, &text);

    if (rc == NGX_DECLINED) {
        (void) ngx_http_mcds_invalid(cf, cmd, value, param->must);
        return NGX_ERROR;
    }

    return rc;
}


static ngx_int_t
ngx_http_mcds_counter_exclude(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_mcds_counter_t *counter)
{
    if (counter->read && counter->filter) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\": \"read\" cannot be combined with "
                           "\"if=\"", &cmd->name);
        return NGX_ERROR;
    }

    return NGX_OK;
}


ngx_int_t
ngx_http_mcds_counter_duplicate(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_str_t *value)
{
    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "duplicate parameter \"%V\" in \"%V\"", value,
                       &cmd->name);

    return NGX_ERROR;
}


/* what does not go together */

static char *
ngx_http_mcds_counter_check(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_mcds_counter_t *counter, ngx_uint_t seen)
{
    ngx_uint_t  i;

    static ngx_uint_t  counts[] = {
        NGX_HTTP_MCDS_BY, NGX_HTTP_MCDS_TTL, NGX_HTTP_MCDS_STATUSES,
        NGX_HTTP_MCDS_TOP
    };

    for (i = 0; i < sizeof(counts) / sizeof(ngx_uint_t); i++) {

        if (counter->read && (seen & ((ngx_uint_t) 1 << counts[i]))) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "\"%V\": \"read\" cannot be combined with "
                               "\"%V\"", &cmd->name,
                               &ngx_http_mcds_counter_params[counts[i]].name);
            return NGX_CONF_ERROR;
        }
    }

    /* what may go away, or down, on purpose is not brought back */

    counter->durable = ((counter->ttl == 0 || counter->period.length)
                        && counter->by == NULL && counter->delta > 0);

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_http_mcds_counter_by(ngx_conf_t *cf, ngx_http_mcds_counter_t *counter,
    ngx_str_t *text)
{
    if (ngx_http_script_variables_count(text)) {

        counter->by = ngx_palloc(cf->pool, sizeof(ngx_http_complex_value_t));
        if (counter->by == NULL) {
            return NGX_ERROR;
        }

        return ngx_http_mcds_compile(cf, text, counter->by)
               == NGX_CONF_OK ? NGX_OK : NGX_ERROR;
    }

    if (ngx_http_mcds_counter_delta(text, &counter->delta) != NGX_OK
        || counter->delta == 0)
    {
        return NGX_DECLINED;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_mcds_counter_ttl(ngx_conf_t *cf, ngx_http_mcds_counter_t *counter,
    ngx_str_t *text)
{
    ngx_int_t  n;

    n = ngx_parse_time(text, 1);

    if (n <= 0 || n > NGX_MCDS_MAX_TTL) {
        return NGX_DECLINED;
    }

    counter->ttl = n;

    return NGX_OK;
}


/* period[@start] */

static ngx_int_t
ngx_http_mcds_counter_period(ngx_conf_t *cf, ngx_http_mcds_counter_t *counter,
    ngx_str_t *text)
{
    u_char     *at, *last;
    ngx_int_t   n;
    ngx_str_t   s;

    last = text->data + text->len;

    at = ngx_strlchr(text->data, last, '@');
    if (at == NULL) {
        at = last;
    }

    s.data = text->data;
    s.len = at - text->data;

    n = ngx_parse_time(&s, 1);

    if (n <= 0 || n > NGX_MCDS_MAX_PERIOD) {
        return NGX_DECLINED;
    }

    counter->period.length = n;

    if (at == last) {
        return NGX_OK;
    }

    s.data = at + 1;
    s.len = last - s.data;

    n = ngx_parse_time(&s, 1);

    if (n < 0 || n >= (ngx_int_t) counter->period.length) {
        return NGX_DECLINED;
    }

    counter->period.start = n;

    return NGX_OK;
}


/* "200,206,3xx", or "any" */

static ngx_int_t
ngx_http_mcds_counter_statuses(ngx_conf_t *cf,
    ngx_http_mcds_counter_t *counter, ngx_str_t *text)
{
    u_char      *p, *comma, *last;
    ngx_int_t    n;
    ngx_uint_t  *status;

    counter->response = 1;

    if (ngx_http_mcds_counter_word(text, "any")) {
        return NGX_OK;
    }

    counter->statuses = ngx_array_create(cf->pool, 4, sizeof(ngx_uint_t));
    if (counter->statuses == NULL) {
        return NGX_ERROR;
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
            return NGX_DECLINED;
        }

        status = ngx_array_push(counter->statuses);
        if (status == NULL) {
            return NGX_ERROR;
        }

        *status = n;

        if (comma == last) {
            return NGX_OK;
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


static ngx_int_t
ngx_http_mcds_counter_async(ngx_conf_t *cf, ngx_http_mcds_counter_t *counter,
    ngx_str_t *text)
{
    ngx_int_t  n;

    n = ngx_parse_time(text, 0);

    if (n <= 0 || n > NGX_HTTP_MCDS_MAX_FLUSH) {
        return NGX_DECLINED;
    }

    counter->async = 1;
    counter->flush = n;

    return NGX_OK;
}


static ngx_int_t
ngx_http_mcds_counter_in_top(ngx_conf_t *cf, ngx_http_mcds_counter_t *counter,
    ngx_str_t *text)
{
    counter->top = ngx_http_mcds_top_ref(cf, text);

    return counter->top ? NGX_OK : NGX_ERROR;
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


ngx_uint_t
ngx_http_mcds_counter_word(ngx_str_t *text, char *word)
{
    return text->len == ngx_strlen(word)
           && ngx_strncmp(text->data, word, text->len) == 0;
}


ngx_int_t
ngx_http_mcds_counter_on(ngx_str_t *text, ngx_uint_t *flag)
{
    *flag = ngx_http_mcds_counter_word(text, "on");

    return *flag || ngx_http_mcds_counter_word(text, "off")
           ? NGX_OK : NGX_DECLINED;
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
ngx_http_mcds_counter_off(ngx_conf_t *cf, ngx_http_mcds_counter_conf_t *ncf,
    ngx_command_t *cmd)
{
    if (ncf->counters != NGX_CONF_UNSET_PTR && ncf->counters) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V off\" beside counters of the same level",
                           &cmd->name);
        return NGX_CONF_ERROR;
    }

    ncf->counters = NULL;

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

        ngx_http_mcds_set_place(cf, &ncf->counters_place);
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


/*
 * Copyright (C) mcds authors
 *
 * Directives for a counter that an earlier mcds_counter in the same block has
 * declared: mcds_counter_init, mcds_counter_durable, mcds_counter_buffer.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_conf.h"
#include "ngx_http_mcds_param_type.h"
#include "ngx_http_mcds_counter.h"
#include "ngx_http_mcds_counter_conf.h"


static char *ngx_http_mcds_counter_init_text(ngx_conf_t *cf,
    ngx_http_mcds_param_t *param, ngx_str_t *text, void *conf);
static char *ngx_http_mcds_counter_init_check(ngx_conf_t *cf,
    ngx_command_t *cmd, ngx_http_mcds_counter_t *counter);


static ngx_conf_enum_t  ngx_http_mcds_init_fail[] = {
    { ngx_string("zero"), 0 },
    { ngx_string("skip"), 1 },
    { ngx_null_string, 0 }
};


static ngx_http_mcds_param_t  ngx_http_mcds_init_params[] = {

    { ngx_string("number|uri"),
      ngx_http_mcds_counter_init_text,
      ngx_http_mcds_field(ngx_http_mcds_counter_t, initial),
      0, 0, 0, NULL },

    { ngx_string("timeout="),
      ngx_http_mcds_param_msec,
      ngx_http_mcds_field(ngx_http_mcds_counter_t, source.timeout),
      1, 60000, 2000, NULL },

    { ngx_string("fail="),
      ngx_http_mcds_param_enum,
      ngx_http_mcds_field(ngx_http_mcds_counter_t, source.skip),
      0, 0, 0, ngx_http_mcds_init_fail },

      ngx_http_mcds_params_end
};


static ngx_http_mcds_param_t  ngx_http_mcds_durable_params[] = {

    { ngx_string("on|off"),
      ngx_http_mcds_param_flag,
      ngx_http_mcds_field(ngx_http_mcds_counter_t, durable),
      0, 0, 1, NULL },

      ngx_http_mcds_params_end
};


static ngx_http_mcds_param_t  ngx_http_mcds_buffer_params[] = {

    { ngx_string("on|off"),
      ngx_http_mcds_param_flag,
      ngx_http_mcds_field(ngx_http_mcds_counter_t, buffer),
      0, 0, 1, NULL },

      ngx_http_mcds_params_end
};


char *
ngx_http_mcds_counter_init(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mcds_counter_t  *counter;

    counter = ngx_http_mcds_counter_find(cf, conf, cmd);
    if (counter == NULL) {
        return NGX_CONF_ERROR;
    }

    if (counter->has_init) {
        return "is duplicate";
    }

    counter->has_init = 1;
    ngx_http_mcds_set_place(cf, &counter->init_place);

    if (ngx_http_mcds_params(cf, cmd, 2, ngx_http_mcds_init_params, counter)
        != NGX_CONF_OK
        || ngx_http_mcds_counter_init_check(cf, cmd, counter) != NGX_CONF_OK)
    {
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


char *
ngx_http_mcds_counter_durable(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mcds_counter_t  *counter;

    counter = ngx_http_mcds_counter_find(cf, conf, cmd);
    if (counter == NULL) {
        return NGX_CONF_ERROR;
    }

    if (counter->has_durable) {
        return "is duplicate";
    }

    counter->has_durable = 1;

    if (ngx_http_mcds_params(cf, cmd, 2, ngx_http_mcds_durable_params, counter)
        != NGX_CONF_OK)
    {
        return NGX_CONF_ERROR;
    }

    /*
     * mcds restores the number of a durable counter that memcached has lost;
     * this must not happen to a number that expires or decreases on purpose
     */

    if (counter->durable
        && ((counter->ttl && counter->period.length == 0)
            || counter->delta < 0))
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\": a counter with %s cannot be durable",
                           &cmd->name,
                           (counter->delta < 0) ? "a negative \"by=\""
                                                : "\"ttl=\"");
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


char *
ngx_http_mcds_counter_buffer(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mcds_counter_t  *counter;

    counter = ngx_http_mcds_counter_find(cf, conf, cmd);
    if (counter == NULL) {
        return NGX_CONF_ERROR;
    }

    if (counter->has_buffer) {
        return "is duplicate";
    }

    counter->has_buffer = 1;

    return ngx_http_mcds_counter_kept(cf, cmd, counter,
                                      ngx_http_mcds_buffer_params);
}


ngx_http_mcds_counter_t *
ngx_http_mcds_counter_find(ngx_conf_t *cf, ngx_http_mcds_counter_conf_t *ncf,
    ngx_command_t *cmd)
{
    ngx_str_t                     *value, *name;
    ngx_uint_t                     i;
    ngx_http_mcds_counter_t       *counter;
    ngx_http_mcds_counter_main_t  *nmcf;
    ngx_http_mcds_number_var_t    *number;

    value = cf->args->elts;

    if (value[1].len < 2 || value[1].data[0] != '$') {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\": invalid variable name \"%V\"",
                           &cmd->name, &value[1]);
        return NULL;
    }

    if (ncf->counters != NGX_CONF_UNSET_PTR && ncf->counters) {

        nmcf = ngx_http_conf_get_module_main_conf(cf,
                                                  ngx_http_mcds_counter_module);
        number = nmcf->numbers.elts;
        counter = ncf->counters->elts;

        for (i = 0; i < ncf->counters->nelts; i++) {
            name = &number[counter[i].index].name;

            if (counter[i].visitor == NULL
                && name->len == value[1].len
                && ngx_strncasecmp(name->data, value[1].data, name->len) == 0)
            {
                return &counter[i];
            }
        }
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "\"%V\": there is no \"mcds_counter %V\" before it on "
                       "the same level", &cmd->name, &value[1]);

    return NULL;
}


static char *
ngx_http_mcds_counter_init_text(ngx_conf_t *cf, ngx_http_mcds_param_t *param,
    ngx_str_t *text, void *conf)
{
    ngx_http_mcds_counter_t *counter = conf;

    u_char  *last;

    if (text->len && text->data[0] == '/') {

        counter->init = ngx_palloc(cf->pool, sizeof(ngx_http_complex_value_t));
        if (counter->init == NULL) {
            return NGX_CONF_ERROR;
        }

        return ngx_http_mcds_compile(cf, text, counter->init);
    }

    last = text->data + text->len;

    /*
     * the counter's initial value must end with a digit, but
     * ngx_mcds_parse_number() permits a space, as memcached may append it to a
     * number
     */

    if (text->len == 0 || last[-1] < '0' || last[-1] > '9'
        || ngx_mcds_parse_number(text->data, text->len, &counter->initial)
           != NGX_OK)
    {
        return "a number, or a URI that begins with \"/\"";
    }

    return NULL;
}


/*
 * checks that a counter with a URI for its initial value is one that requests
 * wait for: it must not have "read", "statuses=" or "async"
 */

static char *
ngx_http_mcds_counter_init_check(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_mcds_counter_t *counter)
{
    char       *other;
    ngx_str_t  *value;

    value = cf->args->elts;

    if (counter->init == NULL) {

        if (cf->args->nelts == 3) {
            return NGX_CONF_OK;
        }

        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\": \"%V\" is for a URI, not for a number",
                           &cmd->name, &value[3]);
        return NGX_CONF_ERROR;
    }

    other = counter->read ? "read"
            : counter->response ? "statuses="
            : counter->async ? "async" : NULL;

    if (other) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\": a URI cannot be combined with \"%s\"",
                           &cmd->name, other);
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


char *
ngx_http_mcds_counter_kept(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_mcds_counter_t *counter, ngx_http_mcds_param_t *params)
{
    ngx_str_t  *value;

    if (!counter->read) {
        return ngx_http_mcds_params(cf, cmd, 2, params, counter);
    }

    value = cf->args->elts;

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "\"%V\": \"mcds_counter %V\" has \"read\" and does not "
                       "count", &cmd->name, &value[1]);

    return NGX_CONF_ERROR;
}

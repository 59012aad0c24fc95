
/*
 * Copyright (C) mcds authors
 *
 * Directives of a counter that mcds_counter has declared before, on the same
 * level: mcds_counter_init, mcds_counter_durable, mcds_counter_buffer, and
 * mcds_counter_writeback for one counter.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_conf.h"
#include "ngx_http_mcds_param.h"
#include "ngx_http_mcds_counter.h"
#include "ngx_http_mcds_counter_conf.h"


/* milliseconds */
#define NGX_HTTP_MCDS_MAX_INIT    60000


static ngx_http_mcds_counter_t *ngx_http_mcds_counter_find(ngx_conf_t *cf,
    ngx_http_mcds_counter_conf_t *ncf, ngx_command_t *cmd);
static char *ngx_http_mcds_counter_init_param(ngx_conf_t *cf,
    ngx_command_t *cmd, ngx_http_mcds_counter_t *counter, ngx_str_t *value);
static ngx_int_t ngx_http_mcds_counter_init_text(ngx_conf_t *cf,
    ngx_http_mcds_counter_t *counter, ngx_str_t *text);
static char *ngx_http_mcds_counter_init_waits(ngx_conf_t *cf,
    ngx_command_t *cmd, ngx_http_mcds_counter_t *counter);
static char *ngx_http_mcds_counter_flag(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_uint_t *flag);
static char *ngx_http_mcds_counter_kept(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_mcds_counter_t *counter, ngx_uint_t *flag);


char *
ngx_http_mcds_counter_init(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_int_t                      rc;
    ngx_str_t                     *value;
    ngx_uint_t                     i;
    ngx_http_mcds_counter_t       *counter;
    ngx_http_mcds_counter_main_t  *nmcf;

    counter = ngx_http_mcds_counter_find(cf, conf, cmd);
    if (counter == NULL) {
        return NGX_CONF_ERROR;
    }

    if (counter->has_init) {
        return "is duplicate";
    }

    counter->has_init = 1;

    value = cf->args->elts;

    rc = ngx_http_mcds_counter_init_text(cf, counter, &value[2]);

    if (rc == NGX_DECLINED) {
        return ngx_http_mcds_invalid(cf, cmd, &value[2],
                                             "a number, or a URI that begins "
                                             "with \"/\"");
    }

    if (rc != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    for (i = 3; i < cf->args->nelts; i++) {

        if (ngx_http_mcds_counter_init_param(cf, cmd, counter, &value[i])
            != NGX_CONF_OK)
        {
            return NGX_CONF_ERROR;
        }
    }

    if (counter->source.timeout == 0) {
        counter->source.timeout = 2000;
    }

    if (counter->init == NULL) {
        return NGX_CONF_OK;
    }

    nmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_mcds_counter_module);
    nmcf->inits = 1;

    return ngx_http_mcds_counter_init_waits(cf, cmd, counter);
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

    if (ngx_http_mcds_counter_flag(cf, cmd, &counter->durable)
        != NGX_CONF_OK)
    {
        return NGX_CONF_ERROR;
    }

    /* what may go away, or down, on purpose is not brought back */

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

    return ngx_http_mcds_counter_kept(cf, cmd, counter, &counter->buffer);
}


char *
ngx_http_mcds_counter_written_back(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_mcds_counter_conf_t *ncf)
{
    ngx_http_mcds_counter_t  *counter;

    counter = ngx_http_mcds_counter_find(cf, ncf, cmd);
    if (counter == NULL) {
        return NGX_CONF_ERROR;
    }

    if (counter->has_writeback) {
        return "is duplicate";
    }

    counter->has_writeback = 1;

    return ngx_http_mcds_counter_kept(cf, cmd, counter, &counter->writeback);
}


/* NULL: there is no such counter (logged) */

static ngx_http_mcds_counter_t *
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


static ngx_int_t
ngx_http_mcds_counter_init_text(ngx_conf_t *cf,
    ngx_http_mcds_counter_t *counter, ngx_str_t *text)
{
    u_char  *last;

    if (text->len == 0) {
        return NGX_DECLINED;
    }

    if (text->data[0] == '/') {

        counter->init = ngx_palloc(cf->pool, sizeof(ngx_http_complex_value_t));
        if (counter->init == NULL) {
            return NGX_ERROR;
        }

        return ngx_http_mcds_compile(cf, text, counter->init)
               == NGX_CONF_OK ? NGX_OK : NGX_ERROR;
    }

    last = text->data + text->len;

    /* a counter may have a space behind its digits, this may not */

    if (last[-1] < '0' || last[-1] > '9') {
        return NGX_DECLINED;
    }

    return ngx_mcds_parse_number(text->data, text->len, &counter->initial)
           == NGX_OK ? NGX_OK : NGX_DECLINED;
}


static char *
ngx_http_mcds_counter_init_param(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_mcds_counter_t *counter, ngx_str_t *value)
{
    ngx_int_t  n;
    ngx_str_t  s;

    if (value->len > 8 && ngx_strncmp(value->data, "timeout=", 8) == 0) {
        s.data = value->data + 8;
        s.len = value->len - 8;

        if (counter->source.timeout) {
            (void) ngx_http_mcds_counter_duplicate(cf, cmd, value);
            return NGX_CONF_ERROR;
        }

        n = ngx_parse_time(&s, 0);

        if (n <= 0 || n > NGX_HTTP_MCDS_MAX_INIT) {
            return ngx_http_mcds_invalid(cf, cmd, value, "1ms to 60s");
        }

        counter->source.timeout = n;

    } else if (value->len > 5 && ngx_strncmp(value->data, "fail=", 5) == 0) {
        s.data = value->data + 5;
        s.len = value->len - 5;

        if (counter->has_fail) {
            (void) ngx_http_mcds_counter_duplicate(cf, cmd, value);
            return NGX_CONF_ERROR;
        }

        counter->has_fail = 1;
        counter->source.skip = ngx_http_mcds_counter_word(&s, "skip");

        if (!counter->source.skip && !ngx_http_mcds_counter_word(&s, "zero")) {
            return ngx_http_mcds_invalid(cf, cmd, value,
                                                 "\"zero\" or \"skip\"");
        }

    } else {
        return ngx_http_mcds_invalid(cf, cmd, value, NULL);
    }

    if (counter->init == NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\": \"%V\" is for a URI, not for a number",
                           &cmd->name, value);
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


/* these have no request that could wait for it */

static char *
ngx_http_mcds_counter_init_waits(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_mcds_counter_t *counter)
{
    char  *other;

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


static char *
ngx_http_mcds_counter_flag(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_uint_t *flag)
{
    ngx_str_t  *value;

    value = cf->args->elts;

    if (ngx_http_mcds_counter_on(&value[2], flag) == NGX_OK) {
        return NGX_CONF_OK;
    }

    return ngx_http_mcds_invalid(cf, cmd, &value[2],
                                         "\"on\" or \"off\"");
}


/* of what has been counted */

static char *
ngx_http_mcds_counter_kept(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_mcds_counter_t *counter, ngx_uint_t *flag)
{
    ngx_str_t  *value;

    if (!counter->read) {
        return ngx_http_mcds_counter_flag(cf, cmd, flag);
    }

    value = cf->args->elts;

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "\"%V\": \"mcds_counter %V\" has \"read\" and does not "
                       "count", &cmd->name, &value[1]);

    return NGX_CONF_ERROR;
}

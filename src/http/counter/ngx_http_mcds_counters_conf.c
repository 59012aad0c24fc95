
/*
 * Copyright (C) mcds authors
 *
 * The directive mcds_counter_api.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_conf.h"
#include "ngx_http_mcds_counter.h"
#include "ngx_http_mcds_counter_conf.h"
#include "ngx_http_mcds_counters.h"
#include "ngx_http_mcds_top.h"


/* keys of one request, by default and at most */
#define NGX_HTTP_MCDS_KEYS        100
#define NGX_HTTP_MCDS_MAX_KEYS    500


static char *ngx_http_mcds_show_param(ngx_conf_t *cf,
    ngx_http_mcds_show_t *show, ngx_str_t *value);
static char *ngx_http_mcds_show_prefix(ngx_conf_t *cf,
    ngx_http_mcds_show_t *show, ngx_str_t *text);
static char *ngx_http_mcds_show_match(ngx_conf_t *cf,
    ngx_http_mcds_show_t *show, ngx_str_t *text);
static char *ngx_http_mcds_show_variable(ngx_conf_t *cf,
    ngx_http_mcds_show_t *show, ngx_str_t *variable);
static char *ngx_http_mcds_show_check(ngx_http_mcds_show_t *show);


char *
ngx_http_mcds_counters(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mcds_counter_conf_t *ncf = conf;

    char                      *rv;
    ngx_str_t                 *value;
    ngx_uint_t                 i;
    ngx_http_mcds_show_t      *show;

    if (ncf->show) {
        return "is duplicate";
    }

    show = ngx_pcalloc(cf->pool, sizeof(ngx_http_mcds_show_t));
    if (show == NULL) {
        return NGX_CONF_ERROR;
    }

    show->count = NGX_CONF_UNSET_UINT;

    if (ngx_array_init(&show->variables, cf->pool, 2,
                       sizeof(ngx_http_mcds_shown_t))
        != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    value = cf->args->elts;

    for (i = 1; i < cf->args->nelts; i++) {

        rv = ngx_http_mcds_show_param(cf, show, &value[i]);

        if (rv == NGX_CONF_ERROR) {
            return NGX_CONF_ERROR;
        }

        if (rv != NGX_CONF_OK) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid parameter \"%V\" in \"%V\"%s",
                               &value[i], &cmd->name, rv);
            return NGX_CONF_ERROR;
        }
    }

    ngx_conf_init_uint_value(show->count, 0);

    rv = ngx_http_mcds_show_check(show);

    if (rv != NGX_CONF_OK) {
        return rv;
    }

    if (show->max == 0) {
        show->max = NGX_HTTP_MCDS_KEYS;
    }

    ncf->show = show;
    ngx_http_mcds_set_place(cf, &ncf->show_place);

    return ngx_http_mcds_set_handler(cf, ngx_http_mcds_counters_handler);
}


/* NGX_CONF_OK, NGX_CONF_ERROR (logged), or what is to be said of it */

static char *
ngx_http_mcds_show_param(ngx_conf_t *cf, ngx_http_mcds_show_t *show,
    ngx_str_t *value)
{
    ngx_int_t  n;
    ngx_str_t  s;

    if (value->len > 1 && value->data[0] == '$') {
        return ngx_http_mcds_show_variable(cf, show, value);
    }

    if (value->len > 6 && ngx_strncmp(value->data, "count=", 6) == 0) {

        if (show->count != NGX_CONF_UNSET_UINT) {
            return ", it is a duplicate";
        }

        s.data = value->data + 6;
        s.len = value->len - 6;

        return ngx_http_mcds_counter_on(&s, &show->count) == NGX_OK
               ? NGX_CONF_OK : ", it must be \"on\" or \"off\"";
    }

    if (value->len > 7 && ngx_strncmp(value->data, "prefix=", 7) == 0) {
        s.data = value->data + 7;
        s.len = value->len - 7;

        return ngx_http_mcds_show_prefix(cf, show, &s);
    }

    if (value->len > 6 && ngx_strncmp(value->data, "match=", 6) == 0) {
        s.data = value->data + 6;
        s.len = value->len - 6;

        return ngx_http_mcds_show_match(cf, show, &s);
    }

    if (value->len > 4 && ngx_strncmp(value->data, "max=", 4) == 0) {
        n = ngx_atoi(value->data + 4, value->len - 4);

        if (show->max) {
            return ", it is a duplicate";
        }

        if (n < 1 || n > NGX_HTTP_MCDS_MAX_KEYS) {
            return ", it must be 1 to 500";
        }

        show->max = n;

        return NGX_CONF_OK;
    }

    if (value->len > 4 && ngx_strncmp(value->data, "ttl=", 4) == 0) {
        s.data = value->data + 4;
        s.len = value->len - 4;

        n = ngx_parse_time(&s, 1);

        if (show->ttl) {
            return ", it is a duplicate";
        }

        if (n == NGX_ERROR || n < 1 || n > NGX_MCDS_MAX_TTL) {
            return ", it must be 1s to 30d";
        }

        show->ttl = n;

        return NGX_CONF_OK;
    }

    if (value->len > 4 && ngx_strncmp(value->data, "top=", 4) == 0) {
        s.data = value->data + 4;
        s.len = value->len - 4;

        if (show->top) {
            return ", it is a duplicate";
        }

        show->top = ngx_http_mcds_top_ref(cf, &s);

        return show->top ? NGX_CONF_OK : NGX_CONF_ERROR;
    }

    return "";
}


static char *
ngx_http_mcds_show_prefix(ngx_conf_t *cf, ngx_http_mcds_show_t *show,
    ngx_str_t *text)
{
    ngx_http_compile_complex_value_t  ccv;

    if (show->prefix) {
        return ", it is a duplicate";
    }

    show->prefix = ngx_palloc(cf->pool, sizeof(ngx_http_complex_value_t));
    if (show->prefix == NULL) {
        return NGX_CONF_ERROR;
    }

    ngx_memzero(&ccv, sizeof(ngx_http_compile_complex_value_t));

    ccv.cf = cf;
    ccv.value = text;
    ccv.complex_value = show->prefix;

    return ngx_http_compile_complex_value(&ccv) == NGX_OK
           ? NGX_CONF_OK : NGX_CONF_ERROR;
}


static char *
ngx_http_mcds_show_match(ngx_conf_t *cf, ngx_http_mcds_show_t *show,
    ngx_str_t *text)
{
#if (NGX_PCRE)

    u_char               errstr[NGX_MAX_CONF_ERRSTR];
    ngx_regex_compile_t  rc;

    if (show->match) {
        return ", it is a duplicate";
    }

    ngx_memzero(&rc, sizeof(ngx_regex_compile_t));

    rc.pattern = *text;
    rc.err.len = NGX_MAX_CONF_ERRSTR;
    rc.err.data = errstr;

    show->match = ngx_http_regex_compile(cf, &rc);

    return show->match ? NGX_CONF_OK : NGX_CONF_ERROR;

#else

    return ", this nginx has no PCRE library";

#endif
}


static char *
ngx_http_mcds_show_variable(ngx_conf_t *cf, ngx_http_mcds_show_t *show,
    ngx_str_t *variable)
{
    ngx_uint_t              i;
    ngx_http_mcds_shown_t  *shown;

    shown = show->variables.elts;

    for (i = 0; i < show->variables.nelts; i++) {
        if (shown[i].name.len == variable->len - 1
            && ngx_strncmp(shown[i].name.data, variable->data + 1,
                           variable->len - 1)
               == 0)
        {
            return ", it is a duplicate";
        }
    }

    shown = ngx_array_push(&show->variables);
    if (shown == NULL) {
        return NGX_CONF_ERROR;
    }

    shown->name.data = variable->data + 1;
    shown->name.len = variable->len - 1;

    shown->index = ngx_http_get_variable_index(cf, &shown->name);

    return shown->index == NGX_ERROR ? NGX_CONF_ERROR : NGX_CONF_OK;
}


static char *
ngx_http_mcds_show_check(ngx_http_mcds_show_t *show)
{
    ngx_uint_t  keys;

    keys = show->max || show->ttl;
#if (NGX_PCRE)
    keys |= (show->match != NULL);
#endif

    if (show->top) {

        if (show->prefix == NULL
            && (keys || show->count || show->variables.nelts))
        {
            return "shows \"top=\" alone, or other numbers, not both";
        }

        if (show->prefix && !show->count) {
            return "has \"top=\" beside \"prefix=\" without \"count=on\"";
        }

    } else if (show->prefix == NULL) {

        if (keys) {
            return "has \"match=\", \"max=\" or \"ttl=\" without \"prefix=\"";
        }

        if (show->variables.nelts == 0) {
            return "needs \"prefix=\", \"top=\" or a variable";
        }
    }

    if (show->ttl && !show->count) {
        return "has \"ttl=\" without \"count=on\"";
    }

    return NGX_CONF_OK;
}


/*
 * Copyright (C) mcds authors
 *
 * The types of a directive's parameters: functions that parse a parameter's
 * value, and compose the text that tells the valid values in an error message.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_conf.h"
#include "ngx_http_mcds_header.h"
#include "ngx_http_mcds_param_type.h"


/*
 * bytes of the longest text that completes "it must be" in the error message
 * for a parameter's value
 */
#define NGX_HTTP_MCDS_MUST        256


typedef struct {
    int64_t                   n;
    char                     *suffix;
} ngx_http_mcds_unit_t;


typedef struct {
    char                     *name;
    char                     *low;      /* the unit that error messages have
                                           behind the lower bound of a
                                           parameter's value */
    ngx_http_mcds_unit_t     *units;    /* units of a parameter's value, the
                                           largest first; the last unit is 1 */
} ngx_http_mcds_kind_t;


static char *ngx_http_mcds_param_number(ngx_conf_t *cf,
    ngx_http_mcds_param_t *param, ngx_str_t *value, void *conf,
    ngx_http_mcds_kind_t *kind, int64_t n);
static int64_t ngx_http_mcds_param_most(ngx_http_mcds_param_t *param,
    ngx_http_mcds_kind_t *kind);
static char *ngx_http_mcds_param_must(ngx_conf_t *cf,
    ngx_http_mcds_param_t *param, ngx_http_mcds_kind_t *kind);
static u_char *ngx_http_mcds_param_words(u_char *p, u_char *last,
    ngx_conf_enum_t *word, ngx_uint_t more);
static u_char *ngx_http_mcds_param_bounds(u_char *p, u_char *last,
    ngx_http_mcds_param_t *param, ngx_http_mcds_kind_t *kind);
static u_char *ngx_http_mcds_param_bound(u_char *p, u_char *last, int64_t n,
    ngx_http_mcds_unit_t *unit);


static ngx_http_mcds_unit_t  ngx_http_mcds_units[] = { { 1, "" } };

static ngx_http_mcds_unit_t  ngx_http_mcds_percents[] = { { 1, "%" } };

static ngx_http_mcds_unit_t  ngx_http_mcds_seconds[] =
    { { 86400, "d" }, { 3600, "h" }, { 1, "s" } };

static ngx_http_mcds_unit_t  ngx_http_mcds_milliseconds[] =
    { { 86400000, "d" }, { 3600000, "h" }, { 1000, "s" }, { 1, "ms" } };

static ngx_http_mcds_unit_t  ngx_http_mcds_bytes[] =
    { { 1024 * 1024, "m" }, { 1024, "k" }, { 1, "" } };


static ngx_http_mcds_kind_t  ngx_http_mcds_num =
    { "a number", "", ngx_http_mcds_units };

static ngx_http_mcds_kind_t  ngx_http_mcds_percent =
    { "a percentage", "", ngx_http_mcds_percents };

static ngx_http_mcds_kind_t  ngx_http_mcds_sec =
    { "a time in whole seconds", "", ngx_http_mcds_seconds };

static ngx_http_mcds_kind_t  ngx_http_mcds_lock_sec =
    { "a time in whole seconds", ", since memcached counts in seconds,",
      ngx_http_mcds_seconds };

static ngx_http_mcds_kind_t  ngx_http_mcds_msec =
    { "a time", "", ngx_http_mcds_milliseconds };

static ngx_http_mcds_kind_t  ngx_http_mcds_size =
    { "a size", "", ngx_http_mcds_bytes };


char *
ngx_http_mcds_param_word(ngx_conf_t *cf, ngx_http_mcds_param_t *param,
    ngx_str_t *value, void *conf)
{
    ngx_http_mcds_param_put(param, conf, param->low);

    return NULL;
}


char *
ngx_http_mcds_param_flag(ngx_conf_t *cf, ngx_http_mcds_param_t *param,
    ngx_str_t *value, void *conf)
{
    /*
     * "on" and "off" may be in upper case, as for the flags of nginx's own
     * directives
     */

    if (ngx_http_mcds_header_is(value, "on")) {
        ngx_http_mcds_param_put(param, conf, 1);
        return NULL;
    }

    if (ngx_http_mcds_header_is(value, "off")) {
        ngx_http_mcds_param_put(param, conf, 0);
        return NULL;
    }

    return "\"on\" or \"off\"";
}


char *
ngx_http_mcds_param_enum(ngx_conf_t *cf, ngx_http_mcds_param_t *param,
    ngx_str_t *value, void *conf)
{
    return ngx_http_mcds_param_number(cf, param, value, conf, NULL, NGX_ERROR);
}


char *
ngx_http_mcds_param_num(ngx_conf_t *cf, ngx_http_mcds_param_t *param,
    ngx_str_t *value, void *conf)
{
    return ngx_http_mcds_param_number(cf, param, value, conf,
                                      &ngx_http_mcds_num,
                                      ngx_atoi(value->data, value->len));
}


char *
ngx_http_mcds_param_percent(ngx_conf_t *cf, ngx_http_mcds_param_t *param,
    ngx_str_t *value, void *conf)
{
    size_t  len;

    len = value->len;

    if (len && value->data[len - 1] == '%') {
        len--;
    }

    return ngx_http_mcds_param_number(cf, param, value, conf,
                                      &ngx_http_mcds_percent,
                                      ngx_atoi(value->data, len));
}


char *
ngx_http_mcds_param_sec(ngx_conf_t *cf, ngx_http_mcds_param_t *param,
    ngx_str_t *value, void *conf)
{
    return ngx_http_mcds_param_number(cf, param, value, conf,
                                      &ngx_http_mcds_sec,
                                      ngx_parse_time(value, 1));
}


char *
ngx_http_mcds_param_lock_sec(ngx_conf_t *cf, ngx_http_mcds_param_t *param,
    ngx_str_t *value, void *conf)
{
    return ngx_http_mcds_param_number(cf, param, value, conf,
                                      &ngx_http_mcds_lock_sec,
                                      ngx_parse_time(value, 1));
}


char *
ngx_http_mcds_param_msec(ngx_conf_t *cf, ngx_http_mcds_param_t *param,
    ngx_str_t *value, void *conf)
{
    return ngx_http_mcds_param_number(cf, param, value, conf,
                                      &ngx_http_mcds_msec,
                                      ngx_http_mcds_parse_msec(value));
}


char *
ngx_http_mcds_param_size(ngx_conf_t *cf, ngx_http_mcds_param_t *param,
    ngx_str_t *value, void *conf)
{
    return ngx_http_mcds_param_number(cf, param, value, conf,
                                      &ngx_http_mcds_size,
                                      ngx_parse_size(value));
}


/*
 * Checks the number n of a parameter's value and writes it to the parameter's
 * field.  n is NGX_ERROR if the value is not a number; kind is NULL if only
 * words are valid values.
 */

static char *
ngx_http_mcds_param_number(ngx_conf_t *cf, ngx_http_mcds_param_t *param,
    ngx_str_t *value, void *conf, ngx_http_mcds_kind_t *kind, int64_t n)
{
    int64_t           high;
    ngx_conf_enum_t  *word;

    for (word = param->post; word && word->name.len; word++) {

        if (word->name.len == value->len
            && ngx_strncmp(word->name.data, value->data, value->len) == 0)
        {
            ngx_http_mcds_param_put(param, conf, word->value);
            return NULL;
        }
    }

    high = param->high ? param->high : ngx_http_mcds_param_most(param, kind);

    if (n == NGX_ERROR || n < param->low || n > high) {
        return ngx_http_mcds_param_must(cf, param, kind);
    }

    ngx_http_mcds_param_put(param, conf, n);

    return NULL;
}


/*
 * The largest number that the field of a parameter can hold.  ngx_msec_t has no
 * sign: with 32 bits it lasts for 49 days; its largest value,
 * NGX_CONF_UNSET_MSEC, is reserved for a field that is not set.
 */

static int64_t
ngx_http_mcds_param_most(ngx_http_mcds_param_t *param,
    ngx_http_mcds_kind_t *kind)
{
    if (param->size > sizeof(int32_t)) {
        return NGX_MAX_OFF_T_VALUE;
    }

    return (kind == &ngx_http_mcds_msec) ? NGX_MAX_UINT32_VALUE - 1
                                         : NGX_MAX_INT32_VALUE;
}


static char *
ngx_http_mcds_param_must(ngx_conf_t *cf, ngx_http_mcds_param_t *param,
    ngx_http_mcds_kind_t *kind)
{
    u_char  *p, *last, *must;

    must = ngx_pnalloc(cf->temp_pool, NGX_HTTP_MCDS_MUST);
    if (must == NULL) {
        return NGX_CONF_ERROR;
    }

    p = must;
    last = must + NGX_HTTP_MCDS_MUST - 1;

    if (param->post) {
        p = ngx_http_mcds_param_words(p, last, param->post, kind != NULL);
    }

    if (kind) {
        p = ngx_http_mcds_param_bounds(p, last, param, kind);
    }

    *p = '\0';

    return (char *) must;
}


/*
 * Appends to an error message the words that are valid values of a parameter,
 * as "a", "b" or "c".  more: 1 if the caller appends another alternative.
 */

static u_char *
ngx_http_mcds_param_words(u_char *p, u_char *last, ngx_conf_enum_t *word,
    ngx_uint_t more)
{
    for ( /* void */ ; word->name.len; word++) {
        p = ngx_slprintf(p, last, "\"%V\"", &word->name);

        if (word[1].name.len && (more || word[2].name.len)) {
            p = ngx_slprintf(p, last, ", ");

        } else if (word[1].name.len || more) {
            p = ngx_slprintf(p, last, " or ");
        }
    }

    return p;
}


static u_char *
ngx_http_mcds_param_bounds(u_char *p, u_char *last,
    ngx_http_mcds_param_t *param, ngx_http_mcds_kind_t *kind)
{
    /*
     * the error message has a lower bound of 0 only if the parameter is a plain
     * number or percentage; for a time or a size, it says "a time" or "a size"
     * instead
     */

    if (param->high && (param->low || kind->units->n == 1)) {
        p = ngx_http_mcds_param_bound(p, last, param->low, kind->units);
        p = ngx_slprintf(p, last, "%s to ", kind->low);

        return ngx_http_mcds_param_bound(p, last, param->high, kind->units);
    }

    p = ngx_slprintf(p, last, "%s", kind->name);

    if (param->high) {
        p = ngx_slprintf(p, last, " up to ");

        return ngx_http_mcds_param_bound(p, last, param->high, kind->units);
    }

    if (param->low == 1) {
        return ngx_slprintf(p, last, " above 0");
    }

    if (param->low) {
        p = ngx_slprintf(p, last, " of ");
        p = ngx_http_mcds_param_bound(p, last, param->low, kind->units);

        return ngx_slprintf(p, last, " at least");
    }

    return p;
}


static u_char *
ngx_http_mcds_param_bound(u_char *p, u_char *last, int64_t n,
    ngx_http_mcds_unit_t *unit)
{
    while (n % unit->n) {
        unit++;
    }

    return ngx_slprintf(p, last, "%L%s", n / unit->n, unit->suffix);
}


char *
ngx_http_mcds_param_string(ngx_conf_t *cf, ngx_http_mcds_param_t *param,
    ngx_str_t *value, void *conf)
{
    ngx_str_t  *field;

    field = (ngx_str_t *) ((u_char *) conf + param->offset);
    *field = *value;

    return NULL;
}


char *
ngx_http_mcds_param_complex(ngx_conf_t *cf, ngx_http_mcds_param_t *param,
    ngx_str_t *value, void *conf)
{
    u_char                    *field;
    ngx_http_complex_value_t  *cv;

    field = (u_char *) conf + param->offset;
    cv = (ngx_http_complex_value_t *) field;

    if (param->size == sizeof(ngx_http_complex_value_t *)) {

        cv = ngx_palloc(cf->pool, sizeof(ngx_http_complex_value_t));
        if (cv == NULL) {
            return NGX_CONF_ERROR;
        }

        *(ngx_http_complex_value_t **) field = cv;
    }

    return ngx_http_mcds_compile(cf, value, cv);
}


int64_t
ngx_http_mcds_param_get(ngx_http_mcds_param_t *param, void *conf)
{
    u_char   *field;
    int32_t   n32;
    int64_t   n64;

    field = (u_char *) conf + param->offset;

    if (param->size == sizeof(int32_t)) {
        ngx_memcpy(&n32, field, sizeof(int32_t));
        return n32;
    }

    ngx_memcpy(&n64, field, sizeof(int64_t));

    return n64;
}


void
ngx_http_mcds_param_put(ngx_http_mcds_param_t *param, void *conf, int64_t n)
{
    u_char   *field;
    int32_t   n32;

    field = (u_char *) conf + param->offset;

    if (param->size == sizeof(int32_t)) {
        n32 = (int32_t) n;
        ngx_memcpy(field, &n32, sizeof(int32_t));

    } else if (param->size == sizeof(int64_t)) {
        ngx_memcpy(field, &n, sizeof(int64_t));
    }
}


/*
 * Copyright (C) mcds authors
 *
 * Types of parameters for the tables of ngx_http_mcds_param.h.  A type is a
 * function that parses a value and writes it to the parameter's field, or
 * returns the text that completes "it must be" in the error message.
 */


#ifndef _NGX_HTTP_MCDS_PARAM_TYPE_H_INCLUDED_
#define _NGX_HTTP_MCDS_PARAM_TYPE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_param.h"


/*
 * The type of a directive's parameter that has no value: the whole argument is
 * the parameter's name.  Writes param->low into the parameter's field.
 */

char *ngx_http_mcds_param_word(ngx_conf_t *cf, ngx_http_mcds_param_t *param,
    ngx_str_t *value, void *conf);


/*
 * the type of a directive's parameter that is a flag: "on" or "off", in any
 * case
 */

char *ngx_http_mcds_param_flag(ngx_conf_t *cf, ngx_http_mcds_param_t *param,
    ngx_str_t *value, void *conf);

/*
 * the type of a directive's parameter that is one of the words of param->post
 */

char *ngx_http_mcds_param_enum(ngx_conf_t *cf, ngx_http_mcds_param_t *param,
    ngx_str_t *value, void *conf);


/*
 * The type of a directive's parameter that is a number between param->low and
 * param->high, or one of the words of param->post.  The types below, up to
 * ngx_http_mcds_param_size(), have these bounds and words, too.
 */

char *ngx_http_mcds_param_num(ngx_conf_t *cf, ngx_http_mcds_param_t *param,
    ngx_str_t *value, void *conf);

/*
 * the type of a directive's parameter that is a percentage: a whole number,
 * with or without "%"
 */

char *ngx_http_mcds_param_percent(ngx_conf_t *cf, ngx_http_mcds_param_t *param,
    ngx_str_t *value, void *conf);

/*
 * the type of a directive's parameter that is a time with nginx's units; its
 * field gets the seconds
 */

char *ngx_http_mcds_param_sec(ngx_conf_t *cf, ngx_http_mcds_param_t *param,
    ngx_str_t *value, void *conf);

/*
 * the type of a directive's parameter that is the lifetime of a lock in
 * memcached; its field gets the seconds
 */

char *ngx_http_mcds_param_lock_sec(ngx_conf_t *cf,
    ngx_http_mcds_param_t *param, ngx_str_t *value, void *conf);

/*
 * the type of a directive's parameter that is a time with nginx's units; its
 * field gets the milliseconds
 */

char *ngx_http_mcds_param_msec(ngx_conf_t *cf, ngx_http_mcds_param_t *param,
    ngx_str_t *value, void *conf);

/*
 * the type of a directive's parameter that is a size, with "k" or "m"; its
 * field gets the bytes
 */

char *ngx_http_mcds_param_size(ngx_conf_t *cf, ngx_http_mcds_param_t *param,
    ngx_str_t *value, void *conf);


/*
 * the type of a directive's parameter that is a text: its field is a ngx_str_t
 */

char *ngx_http_mcds_param_string(ngx_conf_t *cf, ngx_http_mcds_param_t *param,
    ngx_str_t *value, void *conf);

/*
 * The type of a directive's parameter that is a text with variables: its field
 * is a ngx_http_complex_value_t, or a pointer to one, which is allocated.
 */

char *ngx_http_mcds_param_complex(ngx_conf_t *cf, ngx_http_mcds_param_t *param,
    ngx_str_t *value, void *conf);


/*
 * the number in the field of a directive's parameter; the field has 4 or 8
 * bytes
 */

int64_t ngx_http_mcds_param_get(ngx_http_mcds_param_t *param, void *conf);

/*
 * Writes the number n to the field of a directive's parameter; a field that has
 * neither 4 nor 8 bytes keeps its content.
 */

void ngx_http_mcds_param_put(ngx_http_mcds_param_t *param, void *conf,
    int64_t n);


#endif /* _NGX_HTTP_MCDS_PARAM_TYPE_H_INCLUDED_ */

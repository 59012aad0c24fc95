
/*
 * Copyright (C) mcds authors
 *
 * Types of parameters, see ngx_http_mcds_param.h.
 */


#ifndef _NGX_HTTP_MCDS_PARAM_TYPE_H_INCLUDED_
#define _NGX_HTTP_MCDS_PARAM_TYPE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_param.h"


/* the word that is the name: param->low is its value */

char *ngx_http_mcds_param_word(ngx_conf_t *cf, ngx_http_mcds_param_t *param,
    ngx_str_t *value, void *conf);


/* "on" or "off"; one of the words of param->post */

char *ngx_http_mcds_param_flag(ngx_conf_t *cf, ngx_http_mcds_param_t *param,
    ngx_str_t *value, void *conf);
char *ngx_http_mcds_param_enum(ngx_conf_t *cf, ngx_http_mcds_param_t *param,
    ngx_str_t *value, void *conf);


/*
 * Numbers with bounds, or one of the words of param->post.  percent: whole
 * ones, with "%" or without.  lock_sec: how long a lock lasts in memcached.
 */

char *ngx_http_mcds_param_num(ngx_conf_t *cf, ngx_http_mcds_param_t *param,
    ngx_str_t *value, void *conf);
char *ngx_http_mcds_param_percent(ngx_conf_t *cf, ngx_http_mcds_param_t *param,
    ngx_str_t *value, void *conf);
char *ngx_http_mcds_param_sec(ngx_conf_t *cf, ngx_http_mcds_param_t *param,
    ngx_str_t *value, void *conf);
char *ngx_http_mcds_param_lock_sec(ngx_conf_t *cf,
    ngx_http_mcds_param_t *param, ngx_str_t *value, void *conf);
char *ngx_http_mcds_param_msec(ngx_conf_t *cf, ngx_http_mcds_param_t *param,
    ngx_str_t *value, void *conf);
char *ngx_http_mcds_param_size(ngx_conf_t *cf, ngx_http_mcds_param_t *param,
    ngx_str_t *value, void *conf);


/* ngx_str_t; ngx_http_complex_value_t, or a pointer to one */

char *ngx_http_mcds_param_string(ngx_conf_t *cf, ngx_http_mcds_param_t *param,
    ngx_str_t *value, void *conf);
char *ngx_http_mcds_param_complex(ngx_conf_t *cf, ngx_http_mcds_param_t *param,
    ngx_str_t *value, void *conf);


/* the field of a number, of any width; put leaves fields of other sizes */

int64_t ngx_http_mcds_param_get(ngx_http_mcds_param_t *param, void *conf);
void ngx_http_mcds_param_put(ngx_http_mcds_param_t *param, void *conf,
    int64_t n);


#endif /* _NGX_HTTP_MCDS_PARAM_TYPE_H_INCLUDED_ */

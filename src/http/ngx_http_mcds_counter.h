
/*
 * Copyright (C) mcds authors
 *
 * What mcds_counter and mcds_visitor_counter share: both give a number to a
 * variable, once for each main request.
 */


#ifndef _NGX_HTTP_MCDS_COUNTER_H_INCLUDED_
#define _NGX_HTTP_MCDS_COUNTER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_module.h"
#include "ngx_http_mcds_visitor.h"
#include "ngx_mcds_counter.h"
#include "ngx_mcds_visitors.h"


struct ngx_http_mcds_counter_s {
    ngx_uint_t                  index;    /* in numbers */
    ngx_http_complex_value_t    key;
    ngx_http_mcds_visitor_t    *visitor;  /* NULL: each request counts */
};


/* what one request shows for one variable */

struct ngx_http_mcds_number_s {
    ngx_http_mcds_ctx_t        *ctx;
    ngx_uint_t                  index;
    uint64_t                    value;
    ngx_mcds_count_t           *count;    /* under way, or NULL */
    ngx_mcds_sum_t             *sum;
    ngx_uint_t                  valid;
};


struct ngx_http_mcds_numbers_s {
    ngx_http_mcds_numbers_t    *next;
    ngx_uint_t                  n;
    ngx_http_mcds_number_t      number[1];
};


/*
 * While the configuration is read.  is_off: the directive has the one word
 * "off"; off: obeys it.  add: a new counter of this level for the variable
 * that the directive names, NULL when that cannot be (logged).
 *
 * param: reads a parameter that both directives have; NGX_OK, NGX_DECLINED
 * when it is none of these, NGX_ERROR (logged).  invalid: logs that a
 * parameter is none of the directive's, or has no value that it may have;
 * returns NGX_CONF_ERROR.
 *
 * value: compiles a text that may contain variables.
 */

ngx_uint_t ngx_http_mcds_counter_is_off(ngx_conf_t *cf);
char *ngx_http_mcds_counter_off(ngx_conf_t *cf,
    ngx_http_mcds_loc_conf_t *mlcf, ngx_command_t *cmd);
ngx_http_mcds_counter_t *ngx_http_mcds_counter_add(ngx_conf_t *cf,
    ngx_http_mcds_loc_conf_t *mlcf, ngx_command_t *cmd);
ngx_int_t ngx_http_mcds_counter_param(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_mcds_counter_t *counter, ngx_str_t *value);
char *ngx_http_mcds_counter_invalid(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_str_t *value);
char *ngx_http_mcds_counter_value(ngx_conf_t *cf, ngx_str_t *text,
    ngx_http_complex_value_t *cv);


#endif /* _NGX_HTTP_MCDS_COUNTER_H_INCLUDED_ */


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
#include "ngx_http_mcds_writeback.h"
#include "ngx_mcds_counter.h"
#include "ngx_mcds_seed.h"
#include "ngx_mcds_visitors.h"


struct ngx_http_mcds_counter_s {
    ngx_uint_t                  index;    /* in numbers */
    ngx_http_complex_value_t    key;
    ngx_http_complex_value_t   *filter;   /* who counts, NULL: all */
    ngx_http_mcds_visitor_t    *visitor;  /* NULL: each request counts */

    /* of mcds_counter alone */

    int64_t                     delta;
    ngx_http_complex_value_t   *by;       /* instead of delta, or NULL */
    uint64_t                    initial;
    uint32_t                    ttl;
    ngx_mcds_period_t           period;
    ngx_array_t                *statuses; /* ngx_uint_t, 1 to 5: a class;
                                             NULL: all */
    ngx_msec_t                  flush;
    ngx_http_mcds_top_t        *top;      /* of its keys, or NULL */

    ngx_uint_t                  durable;
    ngx_uint_t                  buffer;
    ngx_uint_t                  writeback;   /* if there is one */

    ngx_http_complex_value_t   *init;     /* where the number to begin with
                                             is, or NULL */
    ngx_mcds_source_t           source;

    unsigned                    read:1;   /* nobody counts */
    unsigned                    response:1;  /* counts in the log phase */
    unsigned                    async:1;

    /* while the configuration is read: what was said */
    unsigned                    has_init:1;
    unsigned                    has_fail:1;
    unsigned                    has_durable:1;
    unsigned                    has_buffer:1;
    unsigned                    has_writeback:1;
};


/* what one request shows for one variable */

struct ngx_http_mcds_number_s {
    ngx_http_mcds_ctx_t        *ctx;
    ngx_http_mcds_counter_t    *counter;
    ngx_mcds_pool_t            *pool;
    ngx_mcds_stat_t            *stat;
    ngx_http_mcds_writeback_t  *writeback;   /* or NULL */
    ngx_str_t                   hot;      /* the key, while it is read */
    ngx_str_t                   key;      /* in the log phase, or empty */
    uint64_t                    value;
    ngx_mcds_count_t           *count;    /* under way, or NULL */
    ngx_mcds_grown_t           *grown;
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
 * when it is none of these, NGX_ERROR (logged).
 *
 * duplicate: logs that a parameter is there twice; returns NGX_ERROR.  word: 1
 * if the text is that word.  on: reads "on" or "off"; NGX_DECLINED if it is
 * neither.
 *
 * written_back: mcds_counter_writeback with the variable of a counter.
 *
 * number_variable: what gives the variables their values.
 *
 * delta: the number in the text of by=, NGX_ERROR if there is none.
 *
 * number_set: what a request shows for its variable is known.
 *
 * fetch: asks for the number that a counter begins with, see ngx_mcds_seed.h;
 * data is an ngx_http_mcds_number_t.
 */

ngx_uint_t ngx_http_mcds_counter_is_off(ngx_conf_t *cf);
char *ngx_http_mcds_counter_off(ngx_conf_t *cf,
    ngx_http_mcds_loc_conf_t *mlcf, ngx_command_t *cmd);
ngx_http_mcds_counter_t *ngx_http_mcds_counter_add(ngx_conf_t *cf,
    ngx_http_mcds_loc_conf_t *mlcf, ngx_command_t *cmd);
ngx_int_t ngx_http_mcds_counter_param(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_mcds_counter_t *counter, ngx_str_t *value);
ngx_int_t ngx_http_mcds_counter_duplicate(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_str_t *value);
ngx_uint_t ngx_http_mcds_counter_word(ngx_str_t *text, char *word);
ngx_int_t ngx_http_mcds_counter_on(ngx_str_t *text, ngx_uint_t *flag);
char *ngx_http_mcds_counter_written_back(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_mcds_loc_conf_t *mlcf);
ngx_int_t ngx_http_mcds_counter_fetch(ngx_mcds_seed_t *seed, void *data);
ngx_int_t ngx_http_mcds_counter_delta(ngx_str_t *text, int64_t *delta);
void ngx_http_mcds_number_set(ngx_http_mcds_number_t *number, uint64_t value);
ngx_int_t ngx_http_mcds_number_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);


#endif /* _NGX_HTTP_MCDS_COUNTER_H_INCLUDED_ */

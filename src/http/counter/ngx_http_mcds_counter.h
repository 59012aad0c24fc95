
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
#include "ngx_http_mcds_task.h"
#include "ngx_mcds_counter.h"
#include "ngx_mcds_ledger.h"
#include "ngx_mcds_seed.h"
#include "ngx_mcds_visitors.h"


typedef struct ngx_http_mcds_show_s       ngx_http_mcds_show_t;
typedef struct ngx_http_mcds_writeback_s  ngx_http_mcds_writeback_t;
typedef struct ngx_http_mcds_top_s        ngx_http_mcds_top_t;
typedef struct ngx_http_mcds_counter_s    ngx_http_mcds_counter_t;
typedef struct ngx_http_mcds_visitor_s    ngx_http_mcds_visitor_t;
typedef struct ngx_http_mcds_number_s     ngx_http_mcds_number_t;
typedef struct ngx_http_mcds_numbers_s    ngx_http_mcds_numbers_t;


/* a variable that a counter gives its number to */

typedef struct {
    ngx_str_t                   name;
    ngx_uint_t                  warned;   /* read too early, said once */
    ngx_uint_t                  refused;  /* by= is no number, said once */
} ngx_http_mcds_number_var_t;


typedef struct {
    ngx_array_t                 numbers;  /* ngx_http_mcds_number_var_t */
    ngx_array_t                 writebacks;  /* ngx_http_mcds_writeback_t * */
    ngx_array_t                 tops;     /* ngx_http_mcds_top_t * */
    ngx_mcds_ledger_t          *ledger;   /* in the zone, or NULL */

    ngx_uint_t                  counted;  /* some location counts */
    ngx_uint_t                  responses;  /* ... counts answers */
    ngx_uint_t                  inits;    /* ... asks where counters begin */
} ngx_http_mcds_counter_main_t;


typedef struct {
    ngx_mcds_pool_t            *pool;

    ngx_array_t                *counters; /* ngx_http_mcds_counter_t */
    ngx_http_mcds_place_t       counters_place;
    ngx_mcds_stat_t           **counter_stats;  /* of each of them */
    ngx_http_mcds_writeback_t  *writeback;   /* of them, or NULL */

    ngx_http_complex_value_t   *return_text;
    ngx_uint_t                  return_code;

    ngx_http_mcds_show_t       *show;     /* mcds_counter_api */
    ngx_http_mcds_place_t       show_place;
    ngx_mcds_stat_t            *show_stat;  /* of its keys */
} ngx_http_mcds_counter_conf_t;


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
    ngx_msec_t                  flush;    /* 0: not async */
    ngx_http_mcds_top_t        *top;      /* of its keys, or NULL */

    ngx_uint_t                  durable;
    ngx_uint_t                  buffer;
    ngx_uint_t                  writeback;   /* if there is one */

    ngx_http_complex_value_t   *init;     /* where the number to begin with
                                             is, or NULL */
    ngx_mcds_source_t           source;

    ngx_uint_t                  read;     /* nobody counts */
    unsigned                    response:1;  /* counts in the log phase */
    unsigned                    async:1;

    /* while the configuration is read: what was said */
    unsigned                    has_init:1;
    unsigned                    has_durable:1;
    unsigned                    has_buffer:1;
    unsigned                    has_writeback:1;
};


/* what one request shows for one variable */

struct ngx_http_mcds_number_s {
    ngx_http_mcds_task_t       *task;
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


/* of one request, in its task */

typedef struct {
    ngx_http_mcds_task_t       *task;
    ngx_http_mcds_numbers_t    *numbers;
} ngx_http_mcds_counter_ctx_t;


/*
 * set: the number that a request shows for its variable is known.  delta: the
 * number in the text of by=, NGX_ERROR if there is none.  fetch: asks for the
 * number that a counter begins with, see ngx_mcds_seed.h; data is an
 * ngx_http_mcds_number_t.
 */

void ngx_http_mcds_number_set(ngx_http_mcds_number_t *number, uint64_t value);
ngx_int_t ngx_http_mcds_number_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
ngx_int_t ngx_http_mcds_counter_delta(ngx_str_t *text, int64_t *delta);
ngx_int_t ngx_http_mcds_counter_fetch(ngx_mcds_seed_t *seed, void *data);


/* of the filters that end the answer of the location of a start */

void ngx_http_mcds_counter_init_filters(void);


/* content handlers: mcds_return, mcds_counter_api */

ngx_int_t ngx_http_mcds_return_handler(ngx_http_request_t *r);
ngx_int_t ngx_http_mcds_counters_handler(ngx_http_request_t *r);


extern ngx_module_t             ngx_http_mcds_counter_module;

extern ngx_http_mcds_feature_t  ngx_http_mcds_counter_feature;


#endif /* _NGX_HTTP_MCDS_COUNTER_H_INCLUDED_ */

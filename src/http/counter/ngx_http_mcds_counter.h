
/*
 * Copyright (C) mcds authors
 *
 * The structures and functions that mcds_counter and mcds_visitor_counter
 * share: both directives count, once for each main request, and give the value
 * of a counter to a variable.
 */


#ifndef _NGX_HTTP_MCDS_COUNTER_H_INCLUDED_
#define _NGX_HTTP_MCDS_COUNTER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_module.h"
#include "ngx_http_mcds_task.h"
#include "ngx_mcds_counter.h"
#include "ngx_mcds_outbox.h"
#include "ngx_mcds_seed.h"
#include "ngx_mcds_visitors.h"


typedef struct ngx_http_mcds_show_s       ngx_http_mcds_show_t;
typedef struct ngx_http_mcds_writeback_s  ngx_http_mcds_writeback_t;
typedef struct ngx_http_mcds_top_s        ngx_http_mcds_top_t;
typedef struct ngx_http_mcds_counter_s    ngx_http_mcds_counter_t;
typedef struct ngx_http_mcds_visitor_s    ngx_http_mcds_visitor_t;
typedef struct ngx_http_mcds_number_s     ngx_http_mcds_number_t;
typedef struct ngx_http_mcds_numbers_s    ngx_http_mcds_numbers_t;


/* a variable that shows the value of a counter */

typedef struct {
    ngx_str_t                   name;
    ngx_uint_t                  warned;   /* 1: nginx has logged that the
                                             counter's variable was read too
                                             early */
    ngx_uint_t                  refused;  /* 1: nginx has logged that the value
                                             of the counter's "by=" is no
                                             number */
} ngx_http_mcds_number_var_t;


typedef struct {
    ngx_array_t                 numbers;  /* the variables of all counters,
                                             array of
                                             ngx_http_mcds_number_var_t */
    ngx_mcds_outbox_t          *outbox;   /* counts in shared memory (mcds_zone)
                                             that memcached does not have yet;
                                             NULL: there is no such zone, or
                                             it has no room for them */

    ngx_uint_t                  counted;  /* 1: at least one location has
                                             counters or mcds_counter_api */
    ngx_uint_t                  responses;  /* 1: at least one counter counts
                                               responses by their status */
} ngx_http_mcds_counter_main_t;


typedef struct {
    ngx_mcds_pool_t            *pool;

    ngx_array_t                *counters; /* the counters of the location, array
                                             of ngx_http_mcds_counter_t */
    ngx_command_t              *off;      /* the directive, mcds_counter or
                                             mcds_visitor_counter, that is
                                             "off" in this block, or NULL */
    ngx_mcds_stat_t           **counter_stats;  /* the statistics of each
                                                   counter of the location */
    ngx_http_mcds_writeback_t  *writeback;   /* the destination to which
                                                mcds_counter_writeback posts the
                                                counts of the location's
                                                counters, or NULL */

    ngx_http_complex_value_t   *return_text;
    ngx_uint_t                  return_code;

    ngx_http_mcds_show_t       *show;     /* the parameters of the location's
                                             mcds_counter_api, or NULL */
    ngx_http_mcds_place_t       show_place;
    ngx_mcds_stat_t            *show_stat;  /* the statistics of the location's
                                               mcds_counter_api, or NULL */
} ngx_http_mcds_counter_conf_t;


struct ngx_http_mcds_counter_s {
    ngx_http_mcds_place_t       place;    /* file and line of mcds_counter or
                                             mcds_visitor_counter */
    ngx_http_mcds_place_t       init_place;  /* file and line of the counter's
                                                mcds_counter_init */
    ngx_uint_t                  index;    /* the index of the counter's variable
                                             in the array "numbers" of
                                             ngx_http_mcds_counter_main_t */
    ngx_http_complex_value_t    key;
    ngx_http_complex_value_t   *filter;   /* the value of the counter's "if=";
                                             NULL: all requests count */
    ngx_http_mcds_visitor_t    *visitor;  /* the parameters of
                                             mcds_visitor_counter; NULL: the
                                             counter counts each request */

    /*
     * fields that counters of mcds_counter use, but not the counters of
     * visitors (mcds_visitor_counter)
     */

    int64_t                     delta;
    ngx_http_complex_value_t   *by;       /* the value of the counter's "by=",
                                             the number that a request adds;
                                             NULL: it adds "delta" */
    uint64_t                    initial;
    uint32_t                    ttl;
    ngx_mcds_period_t           period;
    ngx_array_t                *statuses; /* statuses of the responses that the
                                             counter counts, array of
                                             ngx_uint_t; 1 to 5 stand for 1xx to
                                             5xx; NULL: all */
    ngx_msec_t                  flush;    /* milliseconds for which a worker
                                             adds up counts before it sends the
                                             sum to memcached; 0: each count is
                                             sent at once */
    ngx_http_mcds_top_t        *top;      /* the list (mcds_counter_top, the
                                             keys counted most) that the counter
                                             adds to, or NULL */

    ngx_uint_t                  durable;
    ngx_uint_t                  buffer;
    ngx_uint_t                  writeback;   /* 1: mcds_counter_writeback posts
                                                what requests add to this
                                                counter, if the location has
                                                this directive */

    ngx_http_complex_value_t   *init;     /* the URI that responds with the
                                             counter's initial value, or
                                             NULL */
    ngx_mcds_source_t           source;

    ngx_uint_t                  read;     /* 1: the counter only shows its
                                             number; requests do not count */
    unsigned                    response:1;  /* 1: the counter counts responses,
                                                in the log phase */
    unsigned                    async:1;

    /*
     * flags for reading the configuration: the counter already has the option
     * mcds_counter_init, mcds_counter_durable and so on, which may be set once
     */
    unsigned                    has_init:1;
    unsigned                    has_durable:1;
    unsigned                    has_buffer:1;
    unsigned                    has_writeback:1;
};


/* the number that one request shows for the variable of one counter */

struct ngx_http_mcds_number_s {
    ngx_http_mcds_task_t       *task;
    ngx_http_mcds_counter_t    *counter;
    ngx_mcds_pool_t            *pool;
    ngx_mcds_stat_t            *stat;
    ngx_http_mcds_writeback_t  *writeback;   /* the destination of
                                                mcds_counter_writeback, a
                                                location to which mcds posts
                                                what this request adds to the
                                                counter, or NULL */
    ngx_str_t                   hot;      /* the counter's key for the list of
                                             hot keys, those used most often */
    ngx_str_t                   key;      /* the key of a counter that counts in
                                             the log phase; empty for all other
                                             counters */
    ngx_str_t                   init;     /* the URI that responds with the
                                             counter's initial value, or
                                             empty */
    uint64_t                    value;

    /*
     * the operation in memcached that will give the value of the counter: one
     * of these pointers is set, or none
     */
    ngx_mcds_count_t           *count;
    ngx_mcds_increment_t       *increment;
    ngx_mcds_sum_t             *sum;

    ngx_uint_t                  valid;
};


struct ngx_http_mcds_numbers_s {
    ngx_http_mcds_numbers_t    *next;
    ngx_uint_t                  n;
    ngx_http_mcds_number_t      number[1];
};


/*
 * the values of counters that one request shows, and the structure by which
 * the request waits for them
 */

typedef struct {
    ngx_http_mcds_task_t       *task;
    ngx_http_mcds_numbers_t    *numbers;
} ngx_http_mcds_counter_ctx_t;


/*
 * The functions for lists of mcds_counter_top, the keys with the highest
 * counts.  count: adds delta to the count that the list top has for a counter's
 * key; the key does not end with the number of the period, which mcds appends
 * to keys of counters with "period=".  show: a content handler that sends the
 * list top as JSON.
 */

typedef struct {
    void                      (*count)(ngx_http_mcds_top_t *top,
                                   ngx_str_t *key, uint64_t delta);
    ngx_int_t                 (*show)(ngx_http_request_t *r,
                                   ngx_http_mcds_top_t *top);
} ngx_http_mcds_top_hooks_t;


/*
 * The functions for destinations of mcds_counter_writeback, locations to which
 * workers post sums of counts.  add: adds delta to the sum that will be posted
 * for the key.  start: lets a worker begin to post, or logs an error if there
 * is no outbox, the part of the shared memory (mcds_zone) that keeps the sums.
 * exit: called when the master exits, after all workers; logs how many counts
 * are lost because they were not posted.
 */

typedef struct {
    void                      (*add)(ngx_http_mcds_writeback_t *wb,
                                   ngx_str_t *key, int64_t delta);
    void                      (*start)(ngx_http_mcds_main_conf_t *mmcf);
    void                      (*exit)(ngx_http_mcds_main_conf_t *mmcf,
                                   ngx_mcds_outbox_t *outbox, ngx_log_t *log);
} ngx_http_mcds_writeback_hooks_t;


/*
 * The functions for mcds_counter_top and for mcds_counter_writeback, whose
 * features set these pointers in preconfiguration.  NULL: mcds was built
 * without the directive's feature, so no counter uses the directive.
 */

extern ngx_http_mcds_top_hooks_t        *ngx_http_mcds_top_hooks;
extern ngx_http_mcds_writeback_hooks_t  *ngx_http_mcds_writeback_hooks;


/* sets the number that a request shows for a counter's variable */

void ngx_http_mcds_number_set(ngx_http_mcds_number_t *number, uint64_t value);

/*
 * the get_handler of a counter's variable; data: the variable's index in the
 * array "numbers" of ngx_http_mcds_counter_main_t
 */

ngx_int_t ngx_http_mcds_number_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);

/*
 * Parses the value of a counter's parameter "by=", a number that may have a
 * minus sign; NGX_ERROR if the text is not a number from -10^18 to 10^18.
 */

ngx_int_t ngx_http_mcds_counter_delta(ngx_str_t *text, int64_t *delta);

/*
 * Requests the initial value of a counter from the URI of mcds_counter_init,
 * see ngx_mcds_seed.h; data: the ngx_http_mcds_number_t.  NGX_OK:
 * ngx_mcds_seed_value() is called later, even if the client leaves; NGX_ERROR:
 * it is not called.
 */

ngx_int_t ngx_http_mcds_counter_fetch(ngx_mcds_seed_t *seed, void *data);


/*
 * Adds the filters that read a counter's initial value from a response; the
 * postconfiguration handler of the counters' module.  Without mcds_counter_init
 * the filters are added, too: a configuration that nginx reads but refuses may
 * replace the master's filter chain, and workers that start later use the new
 * chain with the old configuration, which may have mcds_counter_init.
 */

ngx_int_t ngx_http_mcds_counter_init_filters(ngx_conf_t *cf);


/* the content handler of the directive mcds_return */

ngx_int_t ngx_http_mcds_return_handler(ngx_http_request_t *r);

/* the content handler of the directive mcds_counter_api */

ngx_int_t ngx_http_mcds_counter_api_handler(ngx_http_request_t *r);


extern ngx_module_t             ngx_http_mcds_counter_module;

extern ngx_http_mcds_feature_t  ngx_http_mcds_counter_feature;


#endif /* _NGX_HTTP_MCDS_COUNTER_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * mcds_counter_writeback: posts the counts of this host to a location, from
 * time to time.
 */


#ifndef _NGX_HTTP_MCDS_WRITEBACK_H_INCLUDED_
#define _NGX_HTTP_MCDS_WRITEBACK_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_counter.h"
#include "ngx_mcds_outbox.h"


typedef struct {
    ngx_array_t                 writebacks;  /* the destinations of
                                                mcds_counter_writeback, array of
                                                ngx_http_mcds_writeback_t * */
} ngx_http_mcds_writeback_main_t;


/* a destination of mcds_counter_writeback, to which workers post counts */

struct ngx_http_mcds_writeback_s {
    ngx_str_t                   uri;
    ngx_str_t                   args;
    ngx_msec_t                  interval;
    ngx_uint_t                  batch;    /* the maximum number of counters in
                                             one post */

    ngx_http_mcds_place_t       place;
    ngx_http_conf_ctx_t        *ctx;      /* configuration of the virtual server
                                             that has the destination */
    ngx_str_t                   name;     /* the destination's name in shared
                                             memory */
    ngx_uint_t                  generation;

    /* the state of the destination in this worker */

    ngx_mcds_account_t         *account;  /* the destination's sums in shared
                                             memory; NULL: nothing can be
                                             posted */
    ngx_event_t                 event;
    ngx_http_request_t         *request;  /* the post that is under way, or
                                             NULL */
    uint64_t                    posted;   /* number of the batch of counts in
                                             the last post */
    ngx_uint_t                  cursor;   /* place in shared memory at which the
                                             next batch of counts starts */
    ngx_msec_t                  give_up;  /* time at which an exiting worker
                                             stops to post */

    unsigned                    ended:1;  /* 1: the batch of counts is the last
                                             one */
    unsigned                    exiting:1;
};


extern ngx_module_t                ngx_http_mcds_writeback_module;

extern ngx_http_mcds_writebacks_t  ngx_http_mcds_writeback_posts;


#endif /* _NGX_HTTP_MCDS_WRITEBACK_H_INCLUDED_ */

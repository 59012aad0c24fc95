
/*
 * Copyright (C) mcds authors
 *
 * mcds_counter_writeback: workers post the counts of counters to a location
 * from time to time.
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


/*
 * a destination of mcds_counter_writeback: a location to which workers post the
 * counts of counters
 */

struct ngx_http_mcds_writeback_s {
    ngx_str_t                   uri;
    ngx_str_t                   args;
    ngx_msec_t                  interval;
    ngx_uint_t                  batch;    /* the maximum number of counters
                                             whose counts one POST request
                                             sends */

    ngx_http_mcds_place_t       place;
    ngx_http_conf_ctx_t        *ctx;      /* configuration of the virtual server
                                             whose location gets the POST
                                             requests with counts */
    ngx_str_t                   name;     /* the name that this destination of
                                             mcds_counter_writeback has in
                                             shared memory */
    ngx_uint_t                  generation;

    /*
     * fields for the POST requests by which this worker sends counts to this
     * destination of mcds_counter_writeback
     */

    ngx_mcds_account_t         *account;  /* counts, in shared memory, that are
                                             not yet posted to the location of
                                             mcds_counter_writeback; NULL: there
                                             is no room for them, and no count
                                             is posted */
    ngx_event_t                 event;
    ngx_http_request_t         *request;  /* the POST request with counts that
                                             is under way, or NULL */
    uint64_t                    posted;   /* sequence number of the batch of
                                             counts in the last POST request of
                                             mcds_counter_writeback */
    ngx_uint_t                  cursor;   /* place in shared memory at which the
                                             next batch of counts to post
                                             starts */
    ngx_msec_t                  give_up;  /* time at which an exiting worker
                                             stops posting counts */

    unsigned                    ended:1;  /* 1: shared memory has no further
                                             counts to post behind the batch in
                                             the last POST request */
    unsigned                    exiting:1;
    unsigned                    late:2;   /* counts that were added after this
                                             worker was told to exit; 0: none,
                                             or all are posted; 1: the POST
                                             requests under way have them;
                                             2: there are others */
};


extern ngx_module_t                     ngx_http_mcds_writeback_module;

extern ngx_http_mcds_writeback_hooks_t  ngx_http_mcds_writeback_posts;


#endif /* _NGX_HTTP_MCDS_WRITEBACK_H_INCLUDED_ */

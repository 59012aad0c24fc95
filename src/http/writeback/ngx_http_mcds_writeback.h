
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
    ngx_array_t                 writebacks;  /* ngx_http_mcds_writeback_t * */
} ngx_http_mcds_writeback_main_t;


/* a destination */

struct ngx_http_mcds_writeback_s {
    ngx_str_t                   uri;
    ngx_str_t                   args;
    ngx_msec_t                  interval;
    ngx_uint_t                  batch;    /* counters in one post, at most */

    ngx_http_mcds_place_t       place;
    ngx_http_conf_ctx_t        *ctx;      /* configuration of the server */
    ngx_str_t                   name;     /* name of the account */
    ngx_uint_t                  generation;

    /* the state of the destination in this worker */

    ngx_mcds_account_t         *account;  /* NULL: posting is not possible */
    ngx_event_t                 event;
    ngx_http_request_t         *request;  /* under way, or NULL */
    uint64_t                    posted;   /* number of the batch in it */
    ngx_uint_t                  cursor;   /* start of the next batch */
    ngx_msec_t                  give_up;  /* time when an exiting worker
                                             stops */

    unsigned                    ended:1;  /* no batch follows this one */
    unsigned                    exiting:1;
};


extern ngx_module_t                ngx_http_mcds_writeback_module;

extern ngx_http_mcds_writebacks_t  ngx_http_mcds_writeback_posts;


#endif /* _NGX_HTTP_MCDS_WRITEBACK_H_INCLUDED_ */

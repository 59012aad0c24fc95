
/*
 * Copyright (C) mcds authors
 *
 * A destination of what is counted.  Of the files writeback*.c only.
 */


#ifndef _NGX_HTTP_MCDS_WRITEBACK_CORE_H_INCLUDED_
#define _NGX_HTTP_MCDS_WRITEBACK_CORE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_counter.h"
#include "ngx_mcds_ledger.h"


struct ngx_http_mcds_writeback_s {
    ngx_str_t                   uri;
    ngx_str_t                   args;
    ngx_msec_t                  interval;
    ngx_uint_t                  batch;    /* counters in one post */

    ngx_http_mcds_place_t       place;
    ngx_http_conf_ctx_t        *ctx;      /* of the server */
    ngx_str_t                   name;     /* of the account */
    ngx_uint_t                  generation;

    /* of this worker */

    ngx_mcds_account_t         *account;  /* NULL: nothing can be posted */
    ngx_event_t                 event;
    ngx_http_request_t         *request;  /* under way, or NULL */
    uint64_t                    posted;   /* the batch in it */
    ngx_uint_t                  cursor;   /* where the next batch begins */
    ngx_msec_t                  give_up;  /* when exiting, then */

    unsigned                    ended:1;  /* no batch after this one */
    unsigned                    exiting:1;
};


#endif /* _NGX_HTTP_MCDS_WRITEBACK_CORE_H_INCLUDED_ */

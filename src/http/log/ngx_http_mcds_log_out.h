
/*
 * Copyright (C) mcds authors
 *
 * A body without an end, in pieces that several clients may share.
 */


#ifndef _NGX_HTTP_MCDS_LOG_OUT_H_INCLUDED_
#define _NGX_HTTP_MCDS_LOG_OUT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_mcds.h"


typedef struct {
    ngx_http_request_t       *request;
    ngx_queue_t               pieces;     /* on their way, the oldest first */
    ngx_queue_t               free;
    ngx_msec_t                sent;       /* when something was, last */
} ngx_http_mcds_log_out_t;


/*
 * init: of a request whose header was sent.  send: takes a reference for as
 * long as the value is on its way.  flush: goes on, when the client takes more;
 * its time runs out by send_timeout.  pending: how many bytes were not sent
 * yet.  free: when the request has ended.  NGX_ERROR: the client has gone, or
 * out of memory.
 */

void ngx_http_mcds_log_out_init(ngx_http_mcds_log_out_t *out,
    ngx_http_request_t *r);
ngx_int_t ngx_http_mcds_log_out_send(ngx_http_mcds_log_out_t *out,
    ngx_mcds_value_t *value);
ngx_int_t ngx_http_mcds_log_out_flush(ngx_http_mcds_log_out_t *out);
size_t ngx_http_mcds_log_out_pending(ngx_http_mcds_log_out_t *out);
void ngx_http_mcds_log_out_free(ngx_http_mcds_log_out_t *out);


#endif /* _NGX_HTTP_MCDS_LOG_OUT_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * An endless response body, in buffers that several clients may share.
 */


#ifndef _NGX_HTTP_MCDS_LOG_OUT_H_INCLUDED_
#define _NGX_HTTP_MCDS_LOG_OUT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_mcds.h"


typedef struct {
    ngx_http_request_t       *request;
    ngx_queue_t               pieces;     /* unsent buffers, the oldest
                                             first */
    ngx_queue_t               free;
    ngx_msec_t                sent;       /* time of the last send */
} ngx_http_mcds_log_out_t;


/* initializes the output of a request whose header has been sent */

void ngx_http_mcds_log_out_init(ngx_http_mcds_log_out_t *out,
    ngx_http_request_t *r);

/*
 * Sends a value, and holds a reference until the value is sent.  NGX_ERROR:
 * the client has left, or out of memory.
 */

ngx_int_t ngx_http_mcds_log_out_send(ngx_http_mcds_log_out_t *out,
    ngx_mcds_value_t *value);

/*
 * Call this when the connection is writable: continues to send.  While data is
 * left, the write event has a timer of send_timeout.  NGX_ERROR: the client
 * has left, or out of memory.
 */

ngx_int_t ngx_http_mcds_log_out_flush(ngx_http_mcds_log_out_t *out);

/* the number of bytes that the client has not got yet */

size_t ngx_http_mcds_log_out_pending(ngx_http_mcds_log_out_t *out);

/* call this when the request is freed: releases all values */

void ngx_http_mcds_log_out_free(ngx_http_mcds_log_out_t *out);


#endif /* _NGX_HTTP_MCDS_LOG_OUT_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * The endless body of a response that follows a log, in buffers of log lines
 * that several clients may share.
 */


#ifndef _NGX_HTTP_MCDS_LOG_OUT_H_INCLUDED_
#define _NGX_HTTP_MCDS_LOG_OUT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_mcds.h"


typedef struct {
    ngx_http_request_t       *request;
    ngx_queue_t               pieces;     /* buffers with log lines that were
                                             not sent yet, the oldest first */
    ngx_queue_t               free;
    ngx_msec_t                sent;       /* time at which the worker last sent
                                             something to the client */
} ngx_http_mcds_log_out_t;


/*
 * Initializes the output of log lines to the client of a request.  The caller
 * must send the header of the response before the first log lines.
 */

void ngx_http_mcds_log_out_init(ngx_http_mcds_log_out_t *out,
    ngx_http_request_t *r);

/*
 * Sends the log lines in value to the client, and holds a reference to value
 * until they are sent.  NGX_ERROR: the client has left, or out of memory.
 */

ngx_int_t ngx_http_mcds_log_out_send(ngx_http_mcds_log_out_t *out,
    ngx_mcds_value_t *value);

/*
 * Call this when the client's connection is writable: continues to send log
 * lines.  While data is left, the write event has a timer of send_timeout.
 * NGX_ERROR: the client has left, or out of memory.
 */

ngx_int_t ngx_http_mcds_log_out_flush(ngx_http_mcds_log_out_t *out);

/* the number of bytes of log lines that the client has not got yet */

size_t ngx_http_mcds_log_out_pending(ngx_http_mcds_log_out_t *out);

/*
 * Call this when a request that follows a log is freed: releases all log lines
 * that were not sent to the client.
 */

void ngx_http_mcds_log_out_free(ngx_http_mcds_log_out_t *out);


#endif /* _NGX_HTTP_MCDS_LOG_OUT_H_INCLUDED_ */

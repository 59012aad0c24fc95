
/*
 * Copyright (C) mcds authors
 *
 * A request of nobody that posts something to a location of nginx.
 */


#ifndef _NGX_HTTP_MCDS_POST_H_INCLUDED_
#define _NGX_HTTP_MCDS_POST_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>


/* status: that of the answer, 0 if there was none */

typedef void (*ngx_http_mcds_post_pt)(void *data, ngx_uint_t status);


typedef struct {
    ngx_http_conf_ctx_t        *ctx;      /* of the server */
    ngx_str_t                   uri;
    ngx_str_t                   args;
    ngx_str_t                   type;     /* of the body */
    ngx_str_t                   name;     /* of one more header, */
    ngx_str_t                   value;    /* and its value */
    ngx_str_t                   body;

    ngx_http_mcds_post_pt       handler;
    void                       *data;
} ngx_http_mcds_post_t;


/*
 * An internal request of that server, as if it came from 127.0.0.1, that runs
 * from a posted event.  All strings are copied.  The handler is called once,
 * not from inside of this call; the body of the answer is read to its end and
 * goes nowhere.  NULL when out of memory or of connections (logged): the
 * handler is not called then.
 *
 * cancel: of one whose handler was not called yet; it is called now.
 */

ngx_http_request_t *ngx_http_mcds_post(ngx_http_mcds_post_t *post);
void ngx_http_mcds_post_cancel(ngx_http_request_t *r);


#endif /* _NGX_HTTP_MCDS_POST_H_INCLUDED_ */

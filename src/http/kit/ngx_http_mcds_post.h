
/*
 * Copyright (C) mcds authors
 *
 * Posts a body to a location of this nginx, without a client.
 */


#ifndef _NGX_HTTP_MCDS_POST_H_INCLUDED_
#define _NGX_HTTP_MCDS_POST_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>


/*
 * The handler that is called when a location has responded to a POST request of
 * mcds itself; status: the status of the response, or 0 if there was none.
 */

typedef void (*ngx_http_mcds_post_pt)(void *data, ngx_uint_t status);


typedef struct {
    ngx_http_conf_ctx_t        *ctx;      /* configuration of the virtual
                                             server with the location to which
                                             the body is posted */
    ngx_str_t                   uri;
    ngx_str_t                   args;
    ngx_str_t                   type;     /* Content-Type of the body that is
                                             posted */
    ngx_str_t                   name;     /* the name of an additional header of
                                             the POST request */
    ngx_str_t                   value;    /* the value of the additional header
                                             of the POST request */
    ngx_str_t                   body;

    ngx_http_mcds_post_pt       handler;
    void                       *data;
} ngx_http_mcds_post_t;


/*
 * Posts a body to a location of the server in ctx, in an internal request that
 * seems to come from 127.0.0.1 and runs from a posted event.  All strings are
 * copied.  The handler is called once, never from inside this call, after the
 * body of the response has been read and dropped.
 *
 * NULL when out of memory or of connections (logged): the handler is not
 * called then.
 */

ngx_http_request_t *ngx_http_mcds_post(ngx_http_mcds_post_t *post);

/*
 * Ends the request r, which posts a body to a location, and whose handler has
 * not been called yet; the handler is called from inside this call.
 */

void ngx_http_mcds_post_cancel(ngx_http_request_t *r);


#endif /* _NGX_HTTP_MCDS_POST_H_INCLUDED_ */

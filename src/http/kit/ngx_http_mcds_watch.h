
/*
 * Copyright (C) mcds authors
 *
 * The client of a request that waits.
 */


#ifndef _NGX_HTTP_MCDS_WATCH_H_INCLUDED_
#define _NGX_HTTP_MCDS_WATCH_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>


/*
 * Sets both event handlers of a request: it is ended when its client leaves,
 * and nothing else comes of an event.  A subrequest has no client.
 */

ngx_int_t ngx_http_mcds_watch(ngx_http_request_t *r);


#endif /* _NGX_HTTP_MCDS_WATCH_H_INCLUDED_ */

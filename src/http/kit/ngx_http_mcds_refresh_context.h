
/*
 * Copyright (C) mcds authors
 *
 * Copies the URI, headers, variables and captures of a client's request to a
 * request without a client, which runs in the background, to build a page again
 * or for other work of mcds; private to ngx_http_mcds_refresh.c.
 */


#ifndef _NGX_HTTP_MCDS_REFRESH_CONTEXT_H_INCLUDED_
#define _NGX_HTTP_MCDS_REFRESH_CONTEXT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>


/*
 * Copies the request line, the URI, the headers that a refresh does not leave
 * out, the variables and the captures of the client's request r to main, a new
 * request on a connection of its own; afterwards nothing in main points into r.
 * Evaluates, in r, the variables that main could not evaluate.  NGX_OK, or
 * NGX_ERROR when out of memory.
 */

ngx_int_t ngx_http_mcds_refresh_context(ngx_http_request_t *main,
    ngx_http_request_t *r);


/*
 * Copies a text, with a zero byte behind the copy; "to" and "from" may be the
 * same.  NGX_OK, or NGX_ERROR when out of memory.
 */

ngx_int_t ngx_http_mcds_refresh_copy(ngx_pool_t *pool, ngx_str_t *to,
    ngx_str_t *from);


#endif /* _NGX_HTTP_MCDS_REFRESH_CONTEXT_H_INCLUDED_ */

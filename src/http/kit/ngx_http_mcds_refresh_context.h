
/*
 * Copyright (C) mcds authors
 *
 * What a detached refresh knows of the request behind it.  Of the refresh
 * itself only.
 */


#ifndef _NGX_HTTP_MCDS_REFRESH_CONTEXT_H_INCLUDED_
#define _NGX_HTTP_MCDS_REFRESH_CONTEXT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>


/*
 * Copies the request line, the URI, the headers less the unwanted, the
 * variables and the captures of r to main, a new request on a connection of
 * its own; nothing in main points into r then.  Takes the values of some
 * variables of r that main could not find out.
 */

ngx_int_t ngx_http_mcds_refresh_context(ngx_http_request_t *main,
    ngx_http_request_t *r);


/* a copy with a zero behind it; "to" and "from" may be the same */

ngx_int_t ngx_http_mcds_refresh_copy(ngx_pool_t *pool, ngx_str_t *to,
    ngx_str_t *from);


#endif /* _NGX_HTTP_MCDS_REFRESH_CONTEXT_H_INCLUDED_ */

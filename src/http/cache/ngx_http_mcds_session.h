
/*
 * Copyright (C) mcds authors
 *
 * Requests that are not for the page that all share.
 */


#ifndef _NGX_HTTP_MCDS_SESSION_H_INCLUDED_
#define _NGX_HTTP_MCDS_SESSION_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>


/*
 * 1 if an application may read a cookie of one of the names, an array of
 * ngx_str_t or NULL, out of the request.
 */

ngx_uint_t ngx_http_mcds_session(ngx_http_request_t *r, ngx_array_t *names);


#endif /* _NGX_HTTP_MCDS_SESSION_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * Requests with a session cookie, which do not use shared pages.
 */


#ifndef _NGX_HTTP_MCDS_SESSION_H_INCLUDED_
#define _NGX_HTTP_MCDS_SESSION_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>


/*
 * Returns 1 if an application may find a session cookie, one with a name in
 * names, in the request.  names: array of ngx_str_t, or NULL.
 */

ngx_uint_t ngx_http_mcds_session(ngx_http_request_t *r, ngx_array_t *names);


#endif /* _NGX_HTTP_MCDS_SESSION_H_INCLUDED_ */

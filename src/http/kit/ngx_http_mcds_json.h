
/*
 * Copyright (C) mcds authors
 *
 * Answers in JSON, for programs in browsers.
 */


#ifndef _NGX_HTTP_MCDS_JSON_H_INCLUDED_
#define _NGX_HTTP_MCDS_JSON_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_mcds_json.h"


/* a status that nginx has no name for, RFC 4918 */
#define NGX_HTTP_MCDS_LOCKED      423


/*
 * Send an answer that is not to be kept, from a content handler, and return
 * what that one is to return.  text: JSON, in memory of r's pool.  problem:
 * the problem details of RFC 9457; detail is a constant that needs no
 * escaping; its title is that of the status.  problem_more: with a member of
 * its own, whose value is JSON.  no_content: 204.
 */

ngx_int_t ngx_http_mcds_json_send(ngx_http_request_t *r, ngx_str_t *text);
ngx_int_t ngx_http_mcds_json_problem(ngx_http_request_t *r, ngx_uint_t status,
    char *detail);
ngx_int_t ngx_http_mcds_json_problem_more(ngx_http_request_t *r,
    ngx_uint_t status, char *detail, char *name, ngx_str_t *json);
ngx_int_t ngx_http_mcds_json_no_content(ngx_http_request_t *r);


#endif /* _NGX_HTTP_MCDS_JSON_H_INCLUDED_ */

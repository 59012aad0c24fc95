
/*
 * Copyright (C) mcds authors
 *
 * Responses in JSON, for programs and scripts in browsers.
 */


#ifndef _NGX_HTTP_MCDS_JSON_H_INCLUDED_
#define _NGX_HTTP_MCDS_JSON_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_mcds_json.h"


/* the HTTP status "Locked" (RFC 4918, 11.3), which nginx does not define */
#define NGX_HTTP_MCDS_LOCKED      423


/*
 * For a content handler: sends a text of JSON as a response of status 200 with
 * Cache-Control: no-store, and returns the result for the handler to return.
 * The text must live as long as r->pool.
 */

ngx_int_t ngx_http_mcds_json_send(ngx_http_request_t *r, ngx_str_t *text);

/*
 * For a content handler: sends problem details (RFC 9457) in a response with
 * the given status, whose reason phrase is the title, and returns the result
 * for the handler to return.  detail: a constant that needs no escaping.
 */

ngx_int_t ngx_http_mcds_json_problem(ngx_http_request_t *r, ngx_uint_t status,
    char *detail);

/*
 * For a content handler that has not read the request's body: discards the
 * body, then sends problem details as ngx_http_mcds_json_problem() does, and
 * returns the result for the handler to return.
 */

ngx_int_t ngx_http_mcds_json_refuse(ngx_http_request_t *r, ngx_uint_t status,
    char *detail);

/*
 * Sends problem details (RFC 9457) as ngx_http_mcds_json_problem() does, with
 * one more member: name, a constant, and json, the JSON text of its value.
 */

ngx_int_t ngx_http_mcds_json_problem_more(ngx_http_request_t *r,
    ngx_uint_t status, char *detail, char *name, ngx_str_t *json);

/*
 * For a content handler: sends a response of status 204 without a body, and
 * returns the result for the handler to return.
 */

ngx_int_t ngx_http_mcds_json_no_content(ngx_http_request_t *r);


#endif /* _NGX_HTTP_MCDS_JSON_H_INCLUDED_ */

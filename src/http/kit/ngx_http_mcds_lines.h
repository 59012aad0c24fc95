
/*
 * Copyright (C) mcds authors
 *
 * JSON values as lines of an array: each on a line of its own, written in one
 * way, so that equal values are equal lines.  Programs may write them in other
 * ways, and lines that are no JSON: these are strings.
 */


#ifndef _NGX_HTTP_MCDS_LINES_H_INCLUDED_
#define _NGX_HTTP_MCDS_LINES_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <jansson.h>
#include "ngx_http_mcds_resource.h"


/*
 * The line of a value, of a text as a string (what is not UTF-8 becomes
 * U+FFFD), and of what may be in memcached; without LF.  same: may return
 * what it was given.  NGX_ERROR: out of memory.
 */

ngx_int_t ngx_http_mcds_line_json(ngx_pool_t *pool, json_t *json,
    ngx_str_t *line);
ngx_int_t ngx_http_mcds_line_text(ngx_pool_t *pool, ngx_str_t *text,
    ngx_str_t *line);
ngx_int_t ngx_http_mcds_line_same(ngx_pool_t *pool, ngx_str_t *text,
    ngx_str_t *line);


/*
 * How a line is shown as text: a string without quotes, unless it has
 * control characters.  It may lie within the line.
 */

ngx_int_t ngx_http_mcds_line_show(ngx_pool_t *pool, ngx_str_t *line,
    ngx_str_t *text);


/* puts a text as a JSON string to what is sent */

ngx_int_t ngx_http_mcds_line_put(ngx_http_mcds_text_t *to, ngx_str_t *text);


/*
 * The body as JSON.  load: NULL if it is none, then *rc is to be returned,
 * the problem was sent.  array: the values of a JSON array, or of a JSON text
 * on each line, as a JSON array; single: another JSON text stands for an array
 * of that one.
 */

json_t *ngx_http_mcds_body_load(ngx_http_mcds_resource_t *res, ngx_int_t *rc);
json_t *ngx_http_mcds_body_array(ngx_http_mcds_resource_t *res,
    ngx_uint_t single, ngx_int_t *rc);


/* a set of texts, which must live as long; add: NGX_DECLINED: was there */

typedef struct {
    ngx_pool_t     *pool;
    ngx_str_t      *slots;
    ngx_uint_t      size;
    ngx_uint_t      n;
} ngx_http_mcds_set_t;

ngx_int_t ngx_http_mcds_set_add(ngx_http_mcds_set_t *set, ngx_str_t *text);
ngx_uint_t ngx_http_mcds_set_has(ngx_http_mcds_set_t *set, ngx_str_t *text);


#endif /* _NGX_HTTP_MCDS_LINES_H_INCLUDED_ */

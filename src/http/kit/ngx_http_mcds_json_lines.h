
/*
 * Copyright (C) mcds authors
 *
 * JSON values as elements of an array in memcached, each on a line of its own.
 * mcds writes a value in one spelling only, so that equal values are equal
 * lines.  Other programs may store other spellings, or lines that are not JSON:
 * mcds takes a line that is not JSON for a string.
 */


#ifndef _NGX_HTTP_MCDS_JSON_LINES_H_INCLUDED_
#define _NGX_HTTP_MCDS_JSON_LINES_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <jansson.h>
#include "ngx_http_mcds_resource.h"


/*
 * Writes a JSON value as one line of text, without LF, in memory of the pool:
 * memcached has the elements of arrays and tables as such lines.  NGX_OK, or
 * NGX_ERROR when out of memory.
 */

ngx_int_t ngx_http_mcds_line_json(ngx_pool_t *pool, json_t *json,
    ngx_str_t *line);

/*
 * Writes a text as a JSON string, which is one line; bytes that are not UTF-8
 * become U+FFFD.  NGX_OK, or NGX_ERROR when out of memory.
 */

ngx_int_t ngx_http_mcds_line_text(ngx_pool_t *pool, ngx_str_t *text,
    ngx_str_t *line);

/*
 * Writes a JSON text, which another program may have stored, as one line, in
 * the same spelling in which mcds itself writes that JSON value; a text that is
 * no JSON becomes a JSON string.  The line may point into the text.  NGX_OK, or
 * NGX_ERROR when out of memory.
 */

ngx_int_t ngx_http_mcds_line_same(ngx_pool_t *pool, ngx_str_t *text,
    ngx_str_t *line);


/*
 * Finds the text that a client sees for an element that is stored as a line of
 * JSON: the content of a JSON string, or, of other values and of strings with
 * control characters, the line itself.  text may point into line.  NGX_OK, or
 * NGX_ERROR when out of memory.
 */

ngx_int_t ngx_http_mcds_line_show(ngx_pool_t *pool, ngx_str_t *line,
    ngx_str_t *text);


/*
 * Appends a text as a JSON string to a response.  NGX_OK, or NGX_ERROR when
 * out of memory.
 */

ngx_int_t ngx_http_mcds_line_put(ngx_http_mcds_text_t *to, ngx_str_t *text);


/*
 * Parses the body of a request as JSON; the caller owns the reference.  NULL
 * on an error: *rc is the value for the handler to return, after problem
 * details were sent, or 500 when out of memory.
 */

json_t *ngx_http_mcds_body_load(ngx_http_mcds_resource_t *res, ngx_int_t *rc);

/*
 * Parses the body of a request into a JSON array: the body is an array itself,
 * or, if it is application/x-ndjson, has one JSON text on each line.  single: a
 * body that is another JSON value counts as an array of that one value.  NULL
 * on an error: *rc is the value for the handler to return, after problem
 * details were sent, or 500 when out of memory.
 */

json_t *ngx_http_mcds_body_array(ngx_http_mcds_resource_t *res,
    ngx_uint_t single, ngx_int_t *rc);


/*
 * a set of texts, as a hash; the texts are not copied and must outlive the set
 */

typedef struct {
    ngx_pool_t     *pool;
    ngx_str_t      *slots;
    ngx_uint_t      size;
    ngx_uint_t      n;
} ngx_http_mcds_set_t;

/*
 * Adds a text to a set of texts.  NGX_OK; NGX_DECLINED if the set already has
 * the text; NGX_ERROR when out of memory.
 */

ngx_int_t ngx_http_mcds_set_add(ngx_http_mcds_set_t *set, ngx_str_t *text);

/* 1 if the set of texts contains the text */

ngx_uint_t ngx_http_mcds_set_has(ngx_http_mcds_set_t *set, ngx_str_t *text);


#endif /* _NGX_HTTP_MCDS_JSON_LINES_H_INCLUDED_ */

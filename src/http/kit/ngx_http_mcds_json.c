
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_header.h"
#include "ngx_http_mcds_json.h"


static ngx_int_t ngx_http_mcds_json_output(ngx_http_request_t *r,
    ngx_uint_t status, char *type, ngx_str_t *text);
static char *ngx_http_mcds_json_title(ngx_uint_t status);


ngx_int_t
ngx_http_mcds_json_send(ngx_http_request_t *r, ngx_str_t *text)
{
    return ngx_http_mcds_json_output(r, NGX_HTTP_OK, "application/json",
                                     text);
}


ngx_int_t
ngx_http_mcds_json_problem(ngx_http_request_t *r, ngx_uint_t status,
    char *detail)
{
    return ngx_http_mcds_json_problem_more(r, status, detail, NULL, NULL);
}


ngx_int_t
ngx_http_mcds_json_refuse(ngx_http_request_t *r, ngx_uint_t status,
    char *detail)
{
    ngx_int_t  rc;

    rc = ngx_http_discard_request_body(r);
    if (rc != NGX_OK) {
        return rc;
    }

    return ngx_http_mcds_json_problem(r, status, detail);
}


ngx_int_t
ngx_http_mcds_json_problem_more(ngx_http_request_t *r, ngx_uint_t status,
    char *detail, char *name, ngx_str_t *json)
{
    char       *title;
    u_char     *p;
    size_t      size;
    ngx_str_t   text;

    title = ngx_http_mcds_json_title(status);

    size = ngx_strlen(detail) + ngx_strlen(title) + 100;

    if (name) {
        size += ngx_strlen(name) + json->len;
    }

    p = ngx_pnalloc(r->pool, size);
    if (p == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    text.data = p;

    p = ngx_sprintf(p, "{\"type\":\"about:blank\",\"title\":\"%s\","
                    "\"status\":%ui,\"detail\":\"%s\"",
                    title, status, detail);

    if (name) {
        p = ngx_sprintf(p, ",\"%s\":%V", name, json);
    }

    p = ngx_sprintf(p, "}" CRLF);

    text.len = p - text.data;

    return ngx_http_mcds_json_output(r, status, "application/problem+json",
                                     &text);
}


static char *
ngx_http_mcds_json_title(ngx_uint_t status)
{
    switch (status) {

    case NGX_HTTP_FORBIDDEN:
        return "Forbidden";

    case NGX_HTTP_NOT_FOUND:
        return "Not Found";

    case NGX_HTTP_NOT_ALLOWED:
        return "Method Not Allowed";

    case NGX_HTTP_CONFLICT:
        return "Conflict";

    case NGX_HTTP_PRECONDITION_FAILED:
        return "Precondition Failed";

    case NGX_HTTP_REQUEST_ENTITY_TOO_LARGE:
        return "Content Too Large";

    case NGX_HTTP_UNSUPPORTED_MEDIA_TYPE:
        return "Unsupported Media Type";

    case NGX_HTTP_MCDS_LOCKED:
        return "Locked";

    case NGX_HTTP_SERVICE_UNAVAILABLE:
        return "Service Unavailable";

    case NGX_HTTP_INSUFFICIENT_STORAGE:
        return "Insufficient Storage";

    default:
        return "Bad Request";
    }
}


static ngx_int_t
ngx_http_mcds_json_output(ngx_http_request_t *r, ngx_uint_t status,
    char *type, ngx_str_t *text)
{
    ngx_int_t     rc;
    ngx_buf_t    *b;
    ngx_chain_t   out;

    r->headers_out.content_length_n = text->len;

    rc = ngx_http_mcds_header_send(r, status, type);

    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) {
        return rc;
    }

    b = ngx_calloc_buf(r->pool);
    if (b == NULL) {
        return NGX_ERROR;
    }

    b->pos = text->data;
    b->last = text->data + text->len;
    b->temporary = 1;
    b->last_buf = (r == r->main);
    b->last_in_chain = 1;

    out.buf = b;
    out.next = NULL;

    return ngx_http_output_filter(r, &out);
}


ngx_int_t
ngx_http_mcds_json_no_content(ngx_http_request_t *r)
{
    r->headers_out.status = NGX_HTTP_NO_CONTENT;
    r->header_only = 1;

    if (ngx_http_mcds_header_no_store(r) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return ngx_http_send_header(r);
}

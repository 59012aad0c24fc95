
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_json.h"


static ngx_int_t ngx_http_mcds_json_output(ngx_http_request_t *r,
    ngx_uint_t status, char *type, ngx_str_t *text);
static ngx_int_t ngx_http_mcds_json_no_store(ngx_http_request_t *r);
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
    char       *title;
    ngx_str_t   text;

    title = ngx_http_mcds_json_title(status);

    text.data = ngx_pnalloc(r->pool, ngx_strlen(detail) + ngx_strlen(title)
                                     + 100);
    if (text.data == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    text.len = ngx_sprintf(text.data,
                           "{\"type\":\"about:blank\",\"title\":\"%s\","
                           "\"status\":%ui,\"detail\":\"%s\"}" CRLF,
                           title, status, detail)
               - text.data;

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

    rc = ngx_http_mcds_json_head(r, status, type);

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
ngx_http_mcds_json_head(ngx_http_request_t *r, ngx_uint_t status, char *type)
{
    r->headers_out.status = status;
    r->headers_out.content_type.data = (u_char *) type;
    r->headers_out.content_type.len = ngx_strlen(type);
    r->headers_out.content_type_len = r->headers_out.content_type.len;
    r->headers_out.content_type_lowcase = NULL;

    if (ngx_http_mcds_json_no_store(r) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return ngx_http_send_header(r);
}


ngx_int_t
ngx_http_mcds_json_no_content(ngx_http_request_t *r)
{
    r->headers_out.status = NGX_HTTP_NO_CONTENT;
    r->header_only = 1;

    if (ngx_http_mcds_json_no_store(r) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return ngx_http_send_header(r);
}


ngx_int_t
ngx_http_mcds_json_header(ngx_http_request_t *r, char *name, char *value)
{
    ngx_table_elt_t  *h;

    h = ngx_list_push(&r->headers_out.headers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    h->hash = 1;
#if (nginx_version >= 1023000)
    h->next = NULL;
#endif
    h->key.data = (u_char *) name;
    h->key.len = ngx_strlen(name);
    h->value.data = (u_char *) value;
    h->value.len = ngx_strlen(value);

    return NGX_OK;
}


/* known as such, so that "expires" replaces it */

static ngx_int_t
ngx_http_mcds_json_no_store(ngx_http_request_t *r)
{
    ngx_table_elt_t   *h;
#if (nginx_version < 1023000)
    ngx_table_elt_t  **cc;
#endif

    h = ngx_list_push(&r->headers_out.headers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    h->hash = 1;
    ngx_str_set(&h->key, "Cache-Control");
    ngx_str_set(&h->value, "no-store");

#if (nginx_version >= 1023000)

    h->next = NULL;
    r->headers_out.cache_control = h;

#else

    if (ngx_array_init(&r->headers_out.cache_control, r->pool, 1,
                       sizeof(ngx_table_elt_t *))
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    cc = ngx_array_push(&r->headers_out.cache_control);
    if (cc == NULL) {
        return NGX_ERROR;
    }

    *cc = h;

#endif

    return NGX_OK;
}


/*
 * Copyright (C) mcds authors
 *
 * HTTP semantics of the resources: counters, locks, logs, arrays, tables and
 * purges.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_module.h"
#include "ngx_http_mcds_header.h"
#include "ngx_http_mcds_json.h"
#include "ngx_http_mcds_nginx.h"
#include "ngx_http_mcds_resource.h"


/* bytes of an ETag: quotes, CAS, "-" and CRC32, in hexadecimal */
#define NGX_HTTP_MCDS_TAG         (2 + 16 + 1 + 8)


static ngx_int_t ngx_http_mcds_resource_methods(ngx_http_request_t *r,
    ngx_uint_t methods);
static void ngx_http_mcds_resource_body_handler(ngx_http_request_t *r);
static ngx_int_t ngx_http_mcds_resource_too_large(
    ngx_http_mcds_resource_t *res);
static ngx_int_t ngx_http_mcds_resource_collect(ngx_http_mcds_resource_t *res);
static ngx_int_t ngx_http_mcds_resource_append(ngx_http_mcds_resource_t *res,
    ngx_buf_t *b);
static void ngx_http_mcds_resource_end(ngx_http_mcds_resource_t *res,
    ngx_int_t rc);
static ngx_int_t ngx_http_mcds_resource_conditions(
    ngx_http_mcds_resource_t *res);
static ngx_int_t ngx_http_mcds_resource_copy(ngx_http_mcds_resource_t *res,
    ngx_str_t *text, ngx_table_elt_t *h);
static void ngx_http_mcds_resource_resume(ngx_http_mcds_park_t *park);
static void ngx_http_mcds_resource_cleanup(void *data);
static ngx_uint_t ngx_http_mcds_resource_listed(ngx_str_t *list, u_char *tag,
    size_t len);
static ngx_uint_t ngx_http_mcds_resource_bare(ngx_http_request_t *r,
    char *name);
static ngx_uint_t ngx_http_mcds_resource_type(ngx_str_t *text, char *type);


static struct {
    ngx_uint_t    method;
    char         *name;
} ngx_http_mcds_resource_names[] = {
    { NGX_HTTP_GET, "GET" },
    { NGX_HTTP_HEAD, "HEAD" },
    { NGX_HTTP_POST, "POST" },
    { NGX_HTTP_PUT, "PUT" },
    { NGX_HTTP_PATCH, "PATCH" },
    { NGX_HTTP_DELETE, "DELETE" },
    { NGX_HTTP_OPTIONS, "OPTIONS" },
    { 0, NULL }
};


ngx_int_t
ngx_http_mcds_resource_allow(ngx_http_request_t *r, ngx_uint_t possible)
{
    ngx_uint_t                 methods;
    ngx_http_mcds_loc_conf_t  *mlcf;

    mlcf = ngx_http_get_module_loc_conf(r, ngx_http_mcds_module);

    methods = mlcf->methods & possible;

    if (r->method & methods) {
        return NGX_DECLINED;
    }

    return ngx_http_mcds_resource_refuse(r, methods|NGX_HTTP_OPTIONS,
                                         (r->method & possible)
                                         ? "mcds_api_methods does not allow "
                                           "this method"
                                         : "there is no such method here");
}


ngx_int_t
ngx_http_mcds_resource_refuse(ngx_http_request_t *r, ngx_uint_t methods,
    char *detail)
{
    ngx_int_t  rc;

    rc = ngx_http_discard_request_body(r);
    if (rc != NGX_OK) {
        return rc;
    }

    if (ngx_http_mcds_resource_methods(r, methods) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    /*
     * OPTIONS gets status 204 instead of an error: browsers send it as the
     * preflight of a cross-origin request
     */

    if (r->method & methods & NGX_HTTP_OPTIONS) {
        return ngx_http_mcds_json_no_content(r);
    }

    return ngx_http_mcds_json_problem(r, NGX_HTTP_NOT_ALLOWED, detail);
}


/*
 * adds the response header Allow, with the HTTP methods whose bits are in the
 * mask
 */

static ngx_int_t
ngx_http_mcds_resource_methods(ngx_http_request_t *r, ngx_uint_t methods)
{
    u_char      *allow, *p;
    ngx_uint_t   i;

    allow = ngx_pnalloc(r->pool, sizeof("GET, HEAD, POST, PUT, PATCH, DELETE, "
                                        "OPTIONS, "));
    if (allow == NULL) {
        return NGX_ERROR;
    }

    p = allow;

    for (i = 0; ngx_http_mcds_resource_names[i].name; i++) {
        if (methods & ngx_http_mcds_resource_names[i].method) {
            p = ngx_sprintf(p, "%s, ", ngx_http_mcds_resource_names[i].name);
        }
    }

    /*
     * the list of methods for the header Allow ends with a zero byte, which
     * replaces its last comma
     */

    p[-2] = '\0';

    return ngx_http_mcds_header_text(r, "Allow", (char *) allow);
}


void *
ngx_http_mcds_resource_create(ngx_http_request_t *r, size_t size)
{
    ngx_pool_t                *pool;
    ngx_pool_cleanup_t        *cln;
    ngx_http_mcds_resource_t  *res;

    cln = ngx_pool_cleanup_add(r->pool, 0);
    if (cln == NULL) {
        return NULL;
    }

    pool = ngx_create_pool(ngx_max(size + 1024, 4096), ngx_cycle->log);
    if (pool == NULL) {
        return NULL;
    }

    res = ngx_pcalloc(pool, size);
    if (res == NULL) {
        ngx_destroy_pool(pool);
        return NULL;
    }

    cln->handler = ngx_http_mcds_resource_cleanup;
    cln->data = res;

    res->request = r;
    res->pool = pool;
    res->body.data = (u_char *) "";

    res->park.request = r;
    res->park.handler = ngx_http_mcds_resource_resume;
    res->park.data = res;

    return res;
}


ngx_int_t
ngx_http_mcds_resource_begin(ngx_http_mcds_resource_t *res,
    ngx_http_mcds_resource_pt start)
{
    ngx_int_t            rc;
    ngx_http_request_t  *r;

    r = res->request;

    res->start = start;

    if (!(r->method & (NGX_HTTP_GET|NGX_HTTP_HEAD))
        && !res->buffered
        && ngx_http_mcds_resource_conditions(res) != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (r->method & (NGX_HTTP_POST|NGX_HTTP_PUT|NGX_HTTP_PATCH)) {

        if (!res->buffered
            && r->headers_in.content_length_n > NGX_HTTP_MCDS_BODY)
        {
            rc = ngx_http_discard_request_body(r);
            if (rc != NGX_OK) {
                return rc;
            }

            return ngx_http_mcds_resource_too_large(res);
        }

        r->request_body_no_buffering = !res->buffered;

        rc = ngx_http_read_client_request_body(r,
                                           ngx_http_mcds_resource_body_handler);

        return (rc >= NGX_HTTP_SPECIAL_RESPONSE) ? rc : NGX_DONE;
    }

    rc = ngx_http_discard_request_body(r);
    if (rc != NGX_OK) {
        return rc;
    }

    rc = start(res);

    return (rc == NGX_DONE) ? ngx_http_mcds_resource_wait(res) : rc;
}


/*
 * Copies the values of If-Match and If-None-Match to the pool of the resource,
 * which outlives the request: mcds compares them before it changes an item, and
 * nginx's filter must not compare them with the response.
 */

static ngx_int_t
ngx_http_mcds_resource_conditions(ngx_http_mcds_resource_t *res)
{
    ngx_http_request_t  *r;

    r = res->request;

    r->disable_not_modified = 1;

    if (ngx_http_mcds_resource_copy(res, &res->match, r->headers_in.if_match)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_http_mcds_resource_copy(res, &res->none_match,
                                       r->headers_in.if_none_match);
}


static ngx_int_t
ngx_http_mcds_resource_copy(ngx_http_mcds_resource_t *res, ngx_str_t *text,
    ngx_table_elt_t *h)
{
    if (h == NULL) {
        return NGX_OK;
    }

    text->data = ngx_pstrdup(res->pool, &h->value);
    if (text->data == NULL) {
        return NGX_ERROR;
    }

    text->len = h->value.len;

    return NGX_OK;
}


/*
 * collects the request body in memory: nginx calls this handler when it has
 * read the body or, if the body is not buffered, the first and each next part
 */

static void
ngx_http_mcds_resource_body_handler(ngx_http_request_t *r)
{
    ngx_int_t                  rc;
    ngx_pool_cleanup_t        *cln;
    ngx_http_mcds_resource_t  *res;

    /*
     * a request and its subrequests, such as those of "mirror", share a pool,
     * which has the cleanup record of each one's resource
     */

    res = NULL;

    for (cln = r->pool->cleanup; cln; cln = cln->next) {
        res = cln->data;

        if (cln->handler == ngx_http_mcds_resource_cleanup
            && res->request == r)
        {
            break;
        }
    }

    if (cln == NULL) {
        ngx_http_finalize_request(r, NGX_HTTP_INTERNAL_SERVER_ERROR);
        return;
    }

    for ( ;; ) {

        rc = ngx_http_mcds_resource_collect(res);

        if (rc == NGX_DECLINED) {
            ngx_http_finalize_request(r, ngx_http_mcds_resource_too_large(res));
            return;
        }

        if (rc != NGX_OK) {
            ngx_http_finalize_request(r, NGX_HTTP_INTERNAL_SERVER_ERROR);
            return;
        }

        if (!r->reading_body) {
            break;
        }

        rc = ngx_http_read_unbuffered_request_body(r);

        if (rc >= NGX_HTTP_SPECIAL_RESPONSE) {
            ngx_http_finalize_request(r, rc);
            return;
        }

        if (rc == NGX_AGAIN && r->request_body->bufs == NULL) {
            r->read_event_handler = ngx_http_mcds_resource_body_handler;
            return;
        }
    }

    ngx_http_mcds_resource_end(res, res->start(res));
}


static ngx_int_t
ngx_http_mcds_resource_too_large(ngx_http_mcds_resource_t *res)
{
    return res->buffered
           ? ngx_http_mcds_json_problem(res->request, NGX_HTTP_BAD_REQUEST,
                                        "the body is too long")
           : ngx_http_mcds_json_problem(res->request,
                                        NGX_HTTP_REQUEST_ENTITY_TOO_LARGE,
                                        "the body is larger than 1 MB");
}


/*
 * Appends the part of the request body that nginx has just read to res->body,
 * which collects the body in memory.  NGX_DECLINED: the body is larger than the
 * limit.
 *
 * If nginx reads the body in parts, each part is removed from r->request_body.
 * A body that nginx has read as a whole stays there, since subrequests, such as
 * those of "mirror", share it.
 */

static ngx_int_t
ngx_http_mcds_resource_collect(ngx_http_mcds_resource_t *res)
{
    ngx_int_t            rc;
    ngx_uint_t           take;
    ngx_chain_t         *cl, *ln;
    ngx_http_request_t  *r;

    r = res->request;

    if (r->request_body == NULL) {
        return NGX_OK;
    }

    cl = r->request_body->bufs;
    take = r->request_body_no_buffering;

    if (take) {
        r->request_body->bufs = NULL;
    }

    while (cl) {

        rc = ngx_http_mcds_resource_append(res, cl->buf);

        if (rc != NGX_OK) {
            return rc;
        }

        ln = cl;
        cl = cl->next;

        if (take) {
            ln->buf->pos = ln->buf->last;
            ngx_free_chain(r->pool, ln);
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_mcds_resource_append(ngx_http_mcds_resource_t *res, ngx_buf_t *b)
{
    off_t                      len, max;
    size_t                     room;
    u_char                    *p;
    ssize_t                    n;
    ngx_str_t                 *body;
    ngx_http_core_loc_conf_t  *clcf;

    len = ngx_buf_size(b);
    body = &res->body;
    max = NGX_HTTP_MCDS_BODY;

    if (res->buffered) {
        clcf = ngx_http_get_module_loc_conf(res->request, ngx_http_core_module);

        /* nginx limits a body in memory, but a body in a file may be longer */

        max = b->in_file ? (off_t) clcf->client_body_buffer_size
                         : NGX_MAX_OFF_T_VALUE;
    }

    if (len > max - (off_t) body->len) {
        return NGX_DECLINED;
    }

    if ((size_t) len > res->room) {
        room = ngx_max(2 * (body->len + (size_t) len), 4096);

        p = ngx_pnalloc(res->pool, room);
        if (p == NULL) {
            return NGX_ERROR;
        }

        if (body->len) {
            ngx_memcpy(p, body->data, body->len);
        }

        body->data = p;
        res->room = room - body->len;
    }

    p = body->data + body->len;

    if (ngx_buf_in_memory(b)) {
        ngx_memcpy(p, b->pos, len);

    } else if (len) {

        /*
         * this part of the request body is in a file: another module has saved
         * the body there, or nginx has, because of client_body_in_file_only
         */

        n = ngx_read_file(b->file, p, len, b->file_pos);
        if (n != (ssize_t) len) {
            return NGX_ERROR;
        }
    }

    body->len += len;
    res->room -= len;

    return NGX_OK;
}


/*
 * Finalizes the request for a resource with the result rc of its handler.
 * NGX_DONE: operations are under way, and the request waits for them instead.
 */

static void
ngx_http_mcds_resource_end(ngx_http_mcds_resource_t *res, ngx_int_t rc)
{
    if (rc == NGX_DONE) {

        rc = ngx_http_mcds_park(&res->park);
        if (rc == NGX_AGAIN) {
            return;
        }
    }

    ngx_http_finalize_request(res->request, rc);
}


ngx_int_t
ngx_http_mcds_resource_wait(ngx_http_mcds_resource_t *res)
{
    ngx_int_t  rc;

    rc = ngx_http_mcds_park(&res->park);
    if (rc != NGX_AGAIN) {
        return rc;
    }

    res->request->main->count++;

    return NGX_DONE;
}


void
ngx_http_mcds_resource_done(ngx_http_mcds_resource_t *res)
{
    if (--res->waiting) {
        return;
    }

    if (res->request == NULL) {
        ngx_destroy_pool(res->pool);
        return;
    }

    if (res->task) {
        ngx_http_mcds_task_result(res->task);
        return;
    }

    ngx_http_mcds_wake(&res->park);
}


static void
ngx_http_mcds_resource_resume(ngx_http_mcds_park_t *park)
{
    ngx_http_mcds_resource_t *res = park->data;

    /* the client may have left: "post_action" then runs without the resource */

    if (!ngx_http_mcds_is_left(park)) {
        ngx_http_mcds_resource_end(res, res->respond(res));
    }
}


static void
ngx_http_mcds_resource_cleanup(void *data)
{
    ngx_http_mcds_resource_t *res = data;

    ngx_http_mcds_park_cancel(&res->park);

    if (res->cancel) {
        res->cancel(res);
    }

    res->request = NULL;

    if (res->waiting == 0) {
        ngx_destroy_pool(res->pool);
    }
}


ngx_int_t
ngx_http_mcds_resource_etag(ngx_http_request_t *r, uint64_t cas, uint32_t crc)
{
    ngx_str_t         value;

    static ngx_str_t  name = ngx_string("ETag");

    if (cas == 0) {
        return NGX_OK;
    }

    value.data = ngx_pnalloc(r->pool, NGX_HTTP_MCDS_TAG);
    if (value.data == NULL) {
        return NGX_ERROR;
    }

    value.len = ngx_sprintf(value.data, "\"%xL-%08xD\"", cas, crc)
                - value.data;

    r->headers_out.etag = ngx_http_mcds_header_add(r, &name, &value);

    return r->headers_out.etag ? NGX_OK : NGX_ERROR;
}


ngx_uint_t
ngx_http_mcds_resource_match(ngx_http_mcds_resource_t *res, ngx_uint_t found,
    uint64_t cas, uint32_t crc)
{
    u_char  tag[NGX_HTTP_MCDS_TAG];
    size_t  len;

    len = 0;

    if (found) {
        len = ngx_sprintf(tag, "\"%xL-%08xD\"", cas, crc) - tag;
    }

    return (res->match.data == NULL
            || ngx_http_mcds_resource_listed(&res->match, tag, len))
           && !ngx_http_mcds_resource_listed(&res->none_match, tag, len);
}


/*
 * 1 if the list of If-Match or If-None-Match has the ETag "tag" or is "*"; "W/"
 * in front of a listed ETag is ignored, since gzip makes a strong ETag weak
 */

static ngx_uint_t
ngx_http_mcds_resource_listed(ngx_str_t *list, u_char *tag, size_t len)
{
    u_char  *p, *last, *start;

    if (len == 0) {
        return 0;
    }

    if (list->len == 1 && list->data[0] == '*') {
        return 1;
    }

    p = list->data;
    last = p + list->len;

    while (p < last) {

        if (*p != '"') {
            p++;
            continue;
        }

        start = p++;

        while (p < last && *p != '"') {
            p++;
        }

        if (p == last) {
            return 0;
        }

        p++;

        if ((size_t) (p - start) == len && ngx_memcmp(start, tag, len) == 0) {
            return 1;
        }
    }

    return 0;
}


ngx_int_t
ngx_http_mcds_resource_failed(ngx_http_request_t *r, ngx_uint_t rc)
{
    char        *detail;
    ngx_uint_t   status;

    status = NGX_HTTP_SERVICE_UNAVAILABLE;

    switch (rc) {

    case NGX_MCDS_EXISTS:
        status = NGX_HTTP_CONFLICT;
        detail = "others have changed it at the same time, too often";
        break;

    case NGX_MCDS_TOO_LARGE:
        status = NGX_HTTP_INSUFFICIENT_STORAGE;
        detail = "it is too large";
        break;

    case NGX_MCDS_SERVER_ERROR:
        detail = "memcached has refused it";
        break;

    case NGX_MCDS_TIMEOUT:
    case NGX_MCDS_CLOSED:
    case NGX_MCDS_PROTOCOL:
        detail = (r->method & (NGX_HTTP_GET|NGX_HTTP_HEAD))
                 ? "memcached has not answered"
                 : "memcached has not answered, it is not known whether it "
                   "was done";
        break;

    default:
        detail = (r->method & (NGX_HTTP_GET|NGX_HTTP_HEAD))
                 ? "memcached cannot be asked"
                 : "memcached cannot be asked, nothing was done";
    }

    if (status == NGX_HTTP_SERVICE_UNAVAILABLE
        && ngx_http_mcds_header_text(r, "Retry-After", "1") != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return ngx_http_mcds_json_problem(r, status, detail);
}


ngx_uint_t
ngx_http_mcds_resource_wants(ngx_http_request_t *r)
{
    ngx_str_t         format;
    ngx_table_elt_t  *h;

    if (ngx_http_arg(r, (u_char *) "format", 6, &format) == NGX_OK) {

        if (format.len == 4 && ngx_strncmp(format.data, "text", 4) == 0) {
            return NGX_HTTP_MCDS_TEXT;
        }

        if (format.len == 6 && ngx_strncmp(format.data, "ndjson", 6) == 0) {
            return NGX_HTTP_MCDS_NDJSON;
        }

        if (format.len == 4 && ngx_strncmp(format.data, "json", 4) == 0) {
            return NGX_HTTP_MCDS_JSON;
        }

        return NGX_HTTP_MCDS_OTHER;
    }

    h = ngx_http_mcds_resource_header(r, "accept");

    if (h == NULL
        || ngx_http_mcds_resource_type(&h->value, "application/json"))
    {
        return NGX_HTTP_MCDS_JSON;
    }

    if (ngx_http_mcds_resource_type(&h->value, "application/x-ndjson")) {
        return NGX_HTTP_MCDS_NDJSON;
    }

    if (ngx_http_mcds_resource_type(&h->value, "text/plain")) {
        return NGX_HTTP_MCDS_TEXT;
    }

    return NGX_HTTP_MCDS_JSON;
}


ngx_uint_t
ngx_http_mcds_resource_has(ngx_http_request_t *r)
{
    u_char     *p;
    ngx_str_t   type;

    if (r->headers_in.content_type == NULL) {
        return NGX_HTTP_MCDS_OTHER;
    }

    /*
     * Content-Type is compared without its parameters: a page of another site
     * can send "text/plain; application/json" without a preflight request.
     */

    type = r->headers_in.content_type->value;

    p = ngx_strlchr(type.data, type.data + type.len, ';');

    if (p) {
        type.len = p - type.data;
    }

    while (type.len && type.data[type.len - 1] == ' ') {
        type.len--;
    }

    if (ngx_http_mcds_header_is(&type, "application/json")) {
        return NGX_HTTP_MCDS_JSON;
    }

    if (ngx_http_mcds_header_is(&type, "application/x-ndjson")) {
        return NGX_HTTP_MCDS_NDJSON;
    }

    if (ngx_http_mcds_header_is(&type, "text/plain")) {
        return NGX_HTTP_MCDS_TEXT;
    }

    return NGX_HTTP_MCDS_OTHER;
}


static ngx_uint_t
ngx_http_mcds_resource_type(ngx_str_t *text, char *type)
{
    return ngx_strlcasestrn(text->data, text->data + text->len,
                            (u_char *) type, ngx_strlen(type) - 1)
           != NULL;
}


/*
 * the list of request headers is searched by name, since nginx keeps pointers
 * to some headers only if certain modules are built in
 */

ngx_table_elt_t *
ngx_http_mcds_resource_header(ngx_http_request_t *r, char *name)
{
    size_t            len;
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h;

    len = ngx_strlen(name);

    part = &r->headers_in.headers.part;
    h = part->elts;

    for (i = 0; /* void */ ; i++) {

        if (i >= part->nelts) {

            if (part->next == NULL) {
                return NULL;
            }

            part = part->next;
            h = part->elts;
            i = 0;
        }

        if (h[i].key.len == len
            && ngx_strncmp(h[i].lowcase_key, name, len) == 0)
        {
            return &h[i];
        }
    }
}


/*
 * the value of a request's argument is decoded as a form encodes it: %XX, and
 * "+" for a space
 */

ngx_int_t
ngx_http_mcds_resource_arg(ngx_http_request_t *r, char *name, ngx_str_t *value)
{
    u_char     *dst, *src, *p;
    ngx_str_t   arg;

    if (ngx_http_arg(r, (u_char *) name, ngx_strlen(name), &arg) != NGX_OK) {
        return NGX_DECLINED;
    }

    p = ngx_pnalloc(r->pool, 2 * arg.len + 1);
    if (p == NULL) {
        return NGX_ERROR;
    }

    value->data = p + arg.len;

    for (src = p; arg.len--; arg.data++) {
        *src++ = (*arg.data == '+') ? ' ' : *arg.data;
    }

    dst = value->data;

    ngx_unescape_uri(&dst, &p, src - p, 0);

    value->len = dst - value->data;

    return NGX_OK;
}


/* Returns 1 if the request has this argument without "=". */

static ngx_uint_t
ngx_http_mcds_resource_bare(ngx_http_request_t *r, char *name)
{
    u_char  *p, *end, *last;
    size_t   len;

    p = r->args.data;
    last = p + r->args.len;
    len = ngx_strlen(name);

    while (p < last) {
        end = ngx_strlchr(p, last, '&');

        if (end == NULL) {
            end = last;
        }

        if ((size_t) (end - p) == len
            && ngx_strncasecmp(p, (u_char *) name, len) == 0)
        {
            return 1;
        }

        p = end + 1;
    }

    return 0;
}


ngx_int_t
ngx_http_mcds_resource_name(ngx_http_request_t *r, ngx_str_t *name)
{
    ngx_int_t                  rc;
    ngx_http_mcds_loc_conf_t  *mlcf;

    rc = ngx_http_mcds_resource_arg(r, "name", name);

    if (rc == NGX_ERROR) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (rc == NGX_OK && name->len) {
        return NGX_DECLINED;
    }

    if (rc == NGX_OK || ngx_http_mcds_resource_bare(r, "name")) {
        return ngx_http_mcds_json_refuse(r, NGX_HTTP_BAD_REQUEST,
                                         "the argument name is empty");
    }

    ngx_str_null(name);

    mlcf = ngx_http_get_module_loc_conf(r, ngx_http_mcds_module);

    rc = ngx_http_mcds_location_rest(mlcf->location, &r->uri, name);

    if (rc == NGX_DECLINED) {

        /* a URI names a lock, counter or row only in a prefix location */

        return NGX_DECLINED;
    }

    if (rc == NGX_OK) {

        if (name->len == 0 || name->data[-1] == '/') {
            return NGX_DECLINED;
        }

        if (name->data[0] == '/') {
            name->data++;
            name->len--;
            return NGX_DECLINED;
        }
    }

    /* a rewrite has led the URI out of the location, or it continues a name */

    return ngx_http_mcds_json_refuse(r, NGX_HTTP_NOT_FOUND,
                                     "the URI names nothing here");
}


char *
ngx_http_mcds_resource_check_name(ngx_str_t *name)
{
    size_t  i;

    if (name->len == 0) {
        return "a name is empty";
    }

    if (name->len > NGX_HTTP_MCDS_NAME) {
        return "a name is longer than 1024 bytes";
    }

    for (i = 0; i < name->len; i++) {
        if (name->data[i] < 0x20 || name->data[i] == 0x7f) {
            return "a name has control characters";
        }
    }

    if (!ngx_mcds_json_utf8(name)) {
        return "a name is not UTF-8";
    }

    return NULL;
}

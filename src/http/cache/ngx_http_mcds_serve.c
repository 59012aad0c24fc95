
/*
 * Copyright (C) mcds authors
 *
 * Sends a stored page.  nginx's own filters make 304 and 206 of the page, run
 * SSI in it, and compress it.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_header.h"
#include "ngx_http_mcds_cache.h"
#include "ngx_http_mcds_cache_stat.h"
#include "ngx_http_mcds_coding.h"
#include "ngx_http_mcds_serve.h"
#include "ngx_http_mcds_store.h"
#include "ngx_http_mcds_stream.h"
#include "ngx_mcds_memfile.h"


/* the maximum length of X-Accel-Charset, bytes: a longer one is ignored */
#define NGX_HTTP_MCDS_CHARSET_LEN  64


typedef struct {
    ngx_str_t    name;
    ngx_int_t  (*set)(ngx_http_request_t *r, ngx_table_elt_t *h,
                      ngx_uint_t offset);
    ngx_uint_t   offset;
} ngx_http_mcds_header_t;


typedef struct {
    ngx_table_elt_t          header;
    ngx_http_mcds_header_t  *known;    /* the header's description in the table
                                          ngx_http_mcds_headers, or NULL */
} ngx_http_mcds_line_t;


/*
 * the headers of a page, parsed once for all responses that this worker makes
 * from the same copy of the page in its memory
 */

typedef struct {
    ngx_str_t                date;     /* Date of the page, as the origin sent
                                          it, or empty */
    ngx_str_t                type;
    size_t                   type_len;
    ngx_str_t                charset;
    ngx_str_t                override;  /* X-Accel-Charset of the stored page,
                                           or empty */
    ngx_int_t                limit_rate;  /* rate in X-Accel-Limit-Rate of the
                                             stored page; NGX_ERROR: none */
    time_t                   last_modified;
    ngx_uint_t               n;
    ngx_http_mcds_line_t     lines[1];
} ngx_http_mcds_prepared_t;


static ngx_int_t ngx_http_mcds_serve_copy(ngx_http_request_t *r, ngx_buf_t *b);
static ngx_int_t ngx_http_mcds_serve_file(ngx_http_request_t *r,
    ngx_mcds_snapshot_t *snapshot, ngx_buf_t *b);
static ngx_http_mcds_prepared_t *ngx_http_mcds_prepare(
    ngx_mcds_snapshot_t *snapshot);
static void ngx_http_mcds_prepare_dropped(ngx_http_mcds_prepared_t *prepared,
    ngx_str_t *name, ngx_str_t *value);
static ngx_uint_t ngx_http_mcds_serve_weak(ngx_str_t *value,
    time_t last_modified, int64_t date);
static ngx_http_mcds_header_t *ngx_http_mcds_known(ngx_str_t *name);
static void ngx_http_mcds_prepare_type(ngx_http_mcds_prepared_t *prepared,
    ngx_str_t *value);
static ngx_int_t ngx_http_mcds_serve_headers(ngx_http_request_t *r,
    ngx_http_mcds_prepared_t *prepared);
static ngx_int_t ngx_http_mcds_serve_date(ngx_http_request_t *r,
    ngx_mcds_entry_t *entry, ngx_str_t *date);
static ngx_int_t ngx_http_mcds_set_header(ngx_http_request_t *r,
    ngx_table_elt_t *h, ngx_uint_t offset);
static ngx_int_t ngx_http_mcds_set_multi_header(ngx_http_request_t *r,
    ngx_table_elt_t *h, ngx_uint_t offset);


/*
 * response headers for which r->headers_out has pointers that nginx's filters
 * read
 */

static ngx_http_mcds_header_t  ngx_http_mcds_headers[] = {

    { ngx_string("Last-Modified"), ngx_http_mcds_set_header,
      offsetof(ngx_http_headers_out_t, last_modified) },

    { ngx_string("ETag"), ngx_http_mcds_set_header,
      offsetof(ngx_http_headers_out_t, etag) },

    { ngx_string("Cache-Control"), ngx_http_mcds_set_multi_header,
      offsetof(ngx_http_headers_out_t, cache_control) },

    { ngx_string("Expires"), ngx_http_mcds_set_header,
      offsetof(ngx_http_headers_out_t, expires) },

    { ngx_string("Content-Encoding"), ngx_http_mcds_set_header,
      offsetof(ngx_http_headers_out_t, content_encoding) },

    { ngx_string("Refresh"), ngx_http_mcds_set_header,
      offsetof(ngx_http_headers_out_t, refresh) },

    { ngx_string("WWW-Authenticate"), ngx_http_mcds_set_header,
      offsetof(ngx_http_headers_out_t, www_authenticate) },

    { ngx_string("Link"), ngx_http_mcds_set_multi_header,
      offsetof(ngx_http_headers_out_t, link) },

    { ngx_string("Server"), ngx_http_mcds_set_header,
      offsetof(ngx_http_headers_out_t, server) },

    { ngx_null_string, NULL, 0 }
};


/*
 * For a page whose Location nginx itself has written, as by proxy_redirect:
 * nginx makes this Location absolute, with the host and the port of the
 * request.  A relative Location from the origin stays relative.
 */

static ngx_http_mcds_header_t  ngx_http_mcds_absolute_location = {
    ngx_string("Location"), ngx_http_mcds_set_header,
    offsetof(ngx_http_headers_out_t, location)
};


/*
 * headers with a digest of the bytes of one message, RFC 9530, 2, and RFC 1864,
 * which would be wrong in a 206, as it does not have all bytes of the page
 */

static ngx_str_t  ngx_http_mcds_of_message[] = {
    ngx_string("Content-Digest"),
    ngx_string("Content-MD5"),
    ngx_null_string
};


ngx_int_t
ngx_http_mcds_serve_handler(ngx_http_request_t *r)
{
    ngx_int_t                   rc;
    ngx_chain_t                 out;
    ngx_http_mcds_cache_ctx_t  *ctx;

    rc = ngx_http_discard_request_body(r);
    if (rc != NGX_OK) {
        return rc;
    }

    ctx = ngx_http_mcds_cache_get(r);

    if (ngx_http_mcds_serve_page(r, ctx) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    rc = ngx_http_send_header(r);

    ctx->offered = 0;

    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) {
        return rc;
    }

    ngx_http_mcds_stat_served(r, ctx);

    if (ngx_mcds_body_apart(&ctx->snapshot->entry)
        || (!ctx->coded && ngx_http_mcds_streamed(&ctx->snapshot->entry)))
    {
        return ngx_http_mcds_stream_send(r, ctx);
    }

    out.buf = ngx_http_mcds_serve_body(r, ctx);
    out.next = NULL;

    if (out.buf == NULL) {
        return NGX_ERROR;
    }

    return ngx_http_output_filter(r, &out);
}


ngx_int_t
ngx_http_mcds_serve_page(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx)
{
    int64_t                    date;
    ngx_mcds_entry_t          *entry;
    ngx_http_mcds_prepared_t  *prepared;

    entry = &ctx->snapshot->entry;

    prepared = ngx_http_mcds_prepare(ctx->snapshot);
    if (prepared == NULL) {
        return NGX_ERROR;
    }

    r->headers_out.status = entry->status;
    r->headers_out.content_length_n = entry->length;
    r->allow_ranges = (entry->status == NGX_HTTP_OK
                       && r == r->main
                       && (!entry->coding
                           || entry->length <= NGX_HTTP_MCDS_DECODE_RANGE));
    r->single_range = ngx_http_mcds_streamed(entry);

    /*
     * If-Match and If-Unmodified-Since are for an origin only: a cache must not
     * evaluate them (RFC 9111, 4.3.2)
     */

    r->headers_in.if_match = NULL;
    r->headers_in.if_unmodified_since = NULL;

    date = (r->headers_in.if_range && prepared->date.len)
           ? ngx_http_mcds_date(&prepared->date)
           : (int64_t) (entry->created / 1000);

    ngx_http_mcds_serve_conditions(r, prepared->last_modified, date);

    ctx->coded = 0;
    ctx->offered = (entry->coding
                    && ngx_http_mcds_coding_hooks->accepted(r, ctx));

    if (ngx_http_mcds_serve_headers(r, prepared) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_http_mcds_serve_date(r, entry, &prepared->date);
}


/*
 * Applies the conditions of the request, RFC 9110, 13.2.2, before nginx's
 * filters do: they evaluate If-Modified-Since beside If-None-Match, which
 * overrides it; they read a date and ignore any text behind it, although a
 * value that is not one date is no condition (13.1.3); and they apply Range to
 * HEAD, for which Range has no meaning (14.2).
 */

void
ngx_http_mcds_serve_conditions(ngx_http_request_t *r, time_t last_modified,
    int64_t date)
{
    if (r->headers_in.if_none_match
        || (r->headers_in.if_modified_since
            && ngx_http_mcds_date(&r->headers_in.if_modified_since->value)
               == NGX_ERROR))
    {
        r->headers_in.if_modified_since = NULL;
    }

    if (r->method != NGX_HTTP_GET) {
        r->headers_in.range = NULL;
    }

    if (r->headers_in.if_range
        && ngx_http_mcds_serve_weak(&r->headers_in.if_range->value,
                                    last_modified, date))
    {
        r->headers_in.range = NULL;
    }
}


/*
 * Returns 1 if If-Range is not one strong validator: a weak ETag, a value that
 * is not one date, or a date within whose second the page may have changed
 * again (RFC 9110, 13.1.5 and 8.8.2.2).
 */

static ngx_uint_t
ngx_http_mcds_serve_weak(ngx_str_t *value, time_t last_modified, int64_t date)
{
    if (value->len && value->data[value->len - 1] == '"') {
        return value->data[0] != '"';
    }

    if (ngx_http_mcds_date(value) == NGX_ERROR) {
        return 1;
    }

    return last_modified >= date;
}


ngx_buf_t *
ngx_http_mcds_serve_body(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_buf_t         *b;
    ngx_mcds_entry_t  *entry;

    entry = &ctx->snapshot->entry;

    if (entry->coding && !ctx->coded) {
        return ngx_http_mcds_coding_hooks->body(r, ctx);
    }

    b = ngx_calloc_buf(r->pool);
    if (b == NULL) {
        return NULL;
    }

    /*
     * the body of the page is shared with other requests: a buffer with
     * "memory" set tells filters not to write to it
     */

    b->pos = entry->body.data;
    b->last = entry->body.data + entry->body.len;
    b->memory = (entry->body.len != 0);
    b->last_buf = (r == r->main);
    b->last_in_chain = 1;

    if (!b->memory && !b->last_buf) {
        b->sync = 1;
    }

    if (ctx->instead
        && r->filter_need_temporary
        && b->memory
        && ngx_http_mcds_serve_copy(r, b) != NGX_OK)
    {
        return NULL;
    }

    if (ngx_http_mcds_serve_file(r, ctx->snapshot, b) != NGX_OK) {
        return NULL;
    }

    return b;
}


/*
 * Copies the body of a page for filters that write to the body.  The copy
 * filter of nginx makes such a copy, but a page that is served in place of the
 * origin's response enters the chain of filters below the copy filter.
 */

static ngx_int_t
ngx_http_mcds_serve_copy(ngx_http_request_t *r, ngx_buf_t *b)
{
    size_t   size;
    u_char  *p;

    size = b->last - b->pos;

    p = ngx_pnalloc(r->pool, size);
    if (p == NULL) {
        return NGX_ERROR;
    }

    b->last = ngx_cpymem(p, b->pos, size);
    b->pos = p;
    b->start = p;
    b->end = b->last;
    b->memory = 0;
    b->temporary = 1;

    return NGX_OK;
}


/*
 * Lets sendfile() send the body of a page whose copy is in a memory file, if
 * that is less work than to send the bytes from memory: with HTTP/2, each frame
 * would take a call of sendfile(), and with "aio threads", a thread would call
 * it, although a memory file never blocks.
 */

static ngx_int_t
ngx_http_mcds_serve_file(ngx_http_request_t *r, ngx_mcds_snapshot_t *snapshot,
    ngx_buf_t *b)
{
    ngx_file_t                *file;
    ngx_mcds_value_t          *value;
    ngx_http_core_loc_conf_t  *clcf;

    value = snapshot->value;

    if (value->len < NGX_MCDS_MEMFILE_MIN
        || !b->memory
        || r->http_version >= NGX_HTTP_VERSION_20
        || r->main_filter_need_in_memory
        || !r->connection->sendfile)
    {
        return NGX_OK;
    }

    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);

    if (clcf->aio == NGX_HTTP_AIO_THREADS) {
        return NGX_OK;
    }

    if (value->fd == NGX_INVALID_FILE) {
        ngx_mcds_page_sent(snapshot);
        return NGX_OK;
    }

    file = ngx_pcalloc(r->pool, sizeof(ngx_file_t));
    if (file == NULL) {
        return NGX_ERROR;
    }

    file->fd = value->fd;
    file->log = r->connection->log;
    ngx_str_set(&file->name, "memfd:mcds");

    b->in_file = 1;
    b->file = file;
    b->file_pos = b->pos - (u_char *) value;
    b->file_last = b->last - (u_char *) value;

    return NGX_OK;
}


static ngx_http_mcds_prepared_t *
ngx_http_mcds_prepare(ngx_mcds_snapshot_t *snapshot)
{
    ngx_str_t                  headers, name, value;
    ngx_mcds_entry_t          *entry;
    ngx_http_mcds_line_t      *line;
    ngx_http_mcds_header_t    *known;
    ngx_http_mcds_prepared_t  *prepared;

    if (snapshot->prepared) {
        return snapshot->prepared;
    }

    entry = &snapshot->entry;

    prepared = ngx_alloc(sizeof(ngx_http_mcds_prepared_t)
                         + entry->lines * sizeof(ngx_http_mcds_line_t),
                         ngx_cycle->log);
    if (prepared == NULL) {
        return NULL;
    }

    ngx_memzero(prepared, offsetof(ngx_http_mcds_prepared_t, lines));

    prepared->last_modified = -1;
    prepared->limit_rate = NGX_ERROR;

    headers = entry->headers;
    line = prepared->lines;

    while (ngx_mcds_entry_header(&headers, &name, &value) == NGX_OK) {

        if (ngx_http_mcds_header_is(&name, "Content-Type")) {
            ngx_http_mcds_prepare_type(prepared, &value);
            continue;
        }

        known = ngx_http_mcds_known(&name);

        /*
         * the page's entry in memcached must not set headers that frame the
         * body, such as Content-Length: "known" is NULL for these headers
         */

        if (known == NULL && ngx_http_mcds_header_dropped(&name)) {
            ngx_http_mcds_prepare_dropped(prepared, &name, &value);
            continue;
        }

        if (known
            && known->offset == offsetof(ngx_http_headers_out_t, last_modified))
        {
            prepared->last_modified = ngx_parse_http_time(value.data,
                                                          value.len);
        }

        ngx_memzero(line, sizeof(ngx_http_mcds_line_t));

        line->header.hash = 1;
        line->header.key = name;
        line->header.value = value;
        line->known = known;

        if ((entry->flags & NGX_MCDS_ENTRY_ABSOLUTE)
            && ngx_http_mcds_header_is(&name, "Location")
            && value.len && value.data[0] == '/')
        {
            line->known = &ngx_http_mcds_absolute_location;
        }

        line++;
    }

    prepared->n = line - prepared->lines;

    snapshot->prepared = prepared;

    return prepared;
}


/*
 * Reads a header of a stored page that is not sent, but has an effect: Date,
 * X-Accel-Charset or X-Accel-Limit-Rate.  nginx looks up a charset in the
 * configuration and logs an unknown name, so the name must be a short token;
 * and nginx multiplies a rate by seconds, so the rate is limited.
 */

static void
ngx_http_mcds_prepare_dropped(ngx_http_mcds_prepared_t *prepared,
    ngx_str_t *name, ngx_str_t *value)
{
    ngx_int_t  n;
    ngx_str_t  empty;

    if (ngx_http_mcds_header_is(name, "Date")) {

        /*
         * the Date of the page was checked strictly when the page was stored
         */

        if (ngx_parse_http_time(value->data, value->len) != NGX_ERROR) {
            prepared->date = *value;
        }

    } else if (ngx_http_mcds_header_is(name, "X-Accel-Charset")) {
        ngx_str_null(&empty);

        if (value->len <= NGX_HTTP_MCDS_CHARSET_LEN
            && ngx_mcds_entry_header_check(value, &empty) == NGX_OK)
        {
            prepared->override = *value;
        }

    } else if (ngx_http_mcds_header_is(name, "X-Accel-Limit-Rate")) {
        n = ngx_atoi(value->data, value->len);

        if (n != NGX_ERROR) {
            prepared->limit_rate = ngx_min(n, 0x7fffffff);
        }
    }
}


static ngx_http_mcds_header_t *
ngx_http_mcds_known(ngx_str_t *name)
{
    ngx_http_mcds_header_t  *known;

    for (known = ngx_http_mcds_headers; known->set; known++) {

        if (known->name.len == name->len
            && ngx_mcds_is_name(name->data, known->name.data, name->len))
        {
            return known;
        }
    }

    return NULL;
}


static ngx_int_t
ngx_http_mcds_serve_headers(ngx_http_request_t *r,
    ngx_http_mcds_prepared_t *prepared)
{
    ngx_uint_t             i;
    ngx_table_elt_t       *h;
    ngx_http_mcds_line_t  *line;

    if (prepared->type.len) {
        r->headers_out.content_type = prepared->type;
        r->headers_out.content_type_len = prepared->type_len;
        r->headers_out.content_type_lowcase = NULL;
    }

    if (prepared->charset.len) {
        r->headers_out.charset = prepared->charset;
    }

    r->headers_out.last_modified_time = prepared->last_modified;

    if (prepared->override.len) {
        r->headers_out.override_charset = &prepared->override;
    }

    if (prepared->limit_rate != NGX_ERROR) {
        r->limit_rate = prepared->limit_rate;
        r->limit_rate_set = 1;
    }

    for (i = 0; i < prepared->n; i++) {
        line = &prepared->lines[i];

        if (ngx_http_mcds_serve_omits(r, &line->header.key)) {
            continue;
        }

        h = ngx_list_push(&r->headers_out.headers);
        if (h == NULL) {
            return NGX_ERROR;
        }

        *h = line->header;

        if (line->known
            && line->known->set(r, h, line->known->offset) != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


ngx_uint_t
ngx_http_mcds_serve_omits(ngx_http_request_t *r, ngx_str_t *name)
{
    return r->headers_in.range
           && r->allow_ranges
           && ngx_http_mcds_header_in(ngx_http_mcds_of_message, name);
}


ngx_table_elt_t *
ngx_http_mcds_serve_line(ngx_http_request_t *r, ngx_str_t *name,
    ngx_str_t *value)
{
    ngx_table_elt_t         *h;
    ngx_http_mcds_header_t  *known;

    h = ngx_http_mcds_header_add(r, name, value);
    if (h == NULL) {
        return NULL;
    }

    known = ngx_http_mcds_known(name);

    if (known && known->set(r, h, known->offset) != NGX_OK) {
        return NULL;
    }

    return h;
}


/*
 * Adds Age, RFC 9111, 5.1, to a response from the cache, and the Date of the
 * origin or, without one, the time of the origin's response, RFC 9110, 6.6.1.
 */

static ngx_int_t
ngx_http_mcds_serve_date(ngx_http_request_t *r, ngx_mcds_entry_t *entry,
    ngx_str_t *date)
{
    u_char           *p;
    ngx_str_t         name, value;
    ngx_table_elt_t  *h;

    p = ngx_pnalloc(r->pool, NGX_INT32_LEN
                             + sizeof("Mon, 28 Sep 1970 06:00:00 GMT") - 1);
    if (p == NULL) {
        return NGX_ERROR;
    }

    ngx_str_set(&name, "Age");

    value.data = p;
    p = ngx_mcds_decimal(p, ngx_mcds_fresh_age(entry, ngx_mcds_now()));
    value.len = p - value.data;

    if (ngx_http_mcds_header_add(r, &name, &value) == NULL) {
        return NGX_ERROR;
    }

    ngx_str_set(&name, "Date");

    if (date->len) {
        value = *date;

    } else {
        value.data = p;
        p = ngx_http_time(p, entry->created / 1000);
        value.len = p - value.data;
    }

    h = ngx_http_mcds_header_add(r, &name, &value);
    if (h == NULL) {
        return NGX_ERROR;
    }

    r->headers_out.date = h;

    return NGX_OK;
}


static ngx_int_t
ngx_http_mcds_set_header(ngx_http_request_t *r, ngx_table_elt_t *h,
    ngx_uint_t offset)
{
    ngx_table_elt_t  **ph;

    ph = (ngx_table_elt_t **) ((char *) &r->headers_out + offset);

    *ph = h;

    return NGX_OK;
}


static ngx_int_t
ngx_http_mcds_set_multi_header(ngx_http_request_t *r, ngx_table_elt_t *h,
    ngx_uint_t offset)
{
#if (nginx_version >= 1023000)

    ngx_table_elt_t  **ph;

    ph = (ngx_table_elt_t **) ((char *) &r->headers_out + offset);

    while (*ph) {
        ph = &(*ph)->next;
    }

    *ph = h;

#else

    ngx_array_t      *pa;
    ngx_table_elt_t **ph;

    pa = (ngx_array_t *) ((char *) &r->headers_out + offset);

    if (pa->elts == NULL
        && ngx_array_init(pa, r->pool, 2, sizeof(ngx_table_elt_t *))
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    ph = ngx_array_push(pa);
    if (ph == NULL) {
        return NGX_ERROR;
    }

    *ph = h;

#endif

    return NGX_OK;
}


/*
 * splits the Content-Type of a page, "type; charset=name", for the charset
 * filter
 */

static void
ngx_http_mcds_prepare_type(ngx_http_mcds_prepared_t *prepared,
    ngx_str_t *value)
{
    u_char  *p, *end, *last;

    prepared->type = *value;
    prepared->type_len = value->len;

    last = value->data + value->len;

    for (p = value->data; p < last; p++) {

        if (*p != ';') {
            continue;
        }

        end = p;

        while (++p < last && *p == ' ') { /* void */ }

        if (last - p >= 8
            && ngx_strncasecmp(p, (u_char *) "charset=", 8) == 0)
        {
            prepared->type_len = end - value->data;

            p += 8;

            if (p < last && *p == '"') {
                p++;
            }

            if (last > p && last[-1] == '"') {
                last--;
            }

            prepared->charset.data = p;
            prepared->charset.len = last - p;

            return;
        }

        p--;
    }
}

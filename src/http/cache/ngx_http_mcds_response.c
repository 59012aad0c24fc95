
/*
 * Copyright (C) mcds authors
 *
 * Reads a response for the storing filter: its headers that decide on storing,
 * and the headers to store.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_mcds_date.h"
#include "ngx_mcds_targeted.h"
#include "ngx_http_mcds_header.h"
#include "ngx_http_mcds_nginx.h"
#include "ngx_http_mcds_cache.h"
#include "ngx_http_mcds_store.h"


static void ngx_http_mcds_response_init(ngx_http_request_t *r,
    ngx_http_mcds_cache_conf_t *ccf, ngx_mcds_response_t *response,
    ngx_uint_t status);
static ngx_uint_t ngx_http_mcds_response_origin(ngx_array_t *cache_valid);
static uint32_t ngx_http_mcds_response_kept(ngx_http_request_t *r);
static void ngx_http_mcds_response_list(ngx_http_request_t *r, ngx_list_t *list,
    ngx_uint_t skip, ngx_mcds_response_t *response, ngx_uint_t ignore);
static ngx_uint_t ngx_http_mcds_response_sticky(ngx_http_request_t *r,
    ngx_table_elt_t *h);
static void ngx_http_mcds_response_control(ngx_str_t *value,
    ngx_mcds_response_t *response, ngx_uint_t ignore);
static void ngx_http_mcds_response_cdn(ngx_str_t *value,
    ngx_mcds_response_t *response, ngx_uint_t ignore);
static void ngx_http_mcds_response_age(ngx_str_t *value,
    ngx_mcds_response_t *response);
static void ngx_http_mcds_response_accel(ngx_str_t *value,
    ngx_mcds_response_t *response);
static ngx_uint_t ngx_http_mcds_has_star(ngx_str_t *value);
static ngx_uint_t ngx_http_mcds_carried_lines(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);
static ngx_int_t ngx_http_mcds_stored_list(ngx_http_request_t *r,
    ngx_array_t *lines, size_t *size, u_char **p);
static ngx_int_t ngx_http_mcds_connection(ngx_http_request_t *r,
    ngx_array_t **lines);
static ngx_uint_t ngx_http_mcds_named(ngx_array_t *lines, ngx_str_t *name);
static ngx_str_t *ngx_http_mcds_origin_date(ngx_http_request_t *r);
static size_t ngx_http_mcds_content_type_len(ngx_http_request_t *r);
static ngx_str_t *ngx_http_mcds_accel_charset(ngx_http_request_t *r);
static ngx_int_t ngx_http_mcds_accel_limit_rate(ngx_http_request_t *r);


/*
 * Headers of a response that are neither stored nor sent from the cache: those
 * of one connection or one response (RFC 9110, 7.6.1), those that frame the
 * body, those that nginx sets itself, and those that must never reach another
 * client.  Content-Range has no meaning in a complete page (RFC 9110, 14.4),
 * and nginx adds its own when a client asks for a range.
 */

static ngx_str_t  ngx_http_mcds_dropped[] = {
    ngx_string("Accept-Ranges"),
    ngx_string("Age"),
    ngx_string("Connection"),
    ngx_string("Content-Length"),
    ngx_string("Content-Range"),
    ngx_string("Date"),
    ngx_string("Keep-Alive"),
    ngx_string("Proxy-Authenticate"),
    ngx_string("Proxy-Authentication-Info"),
    ngx_string("Proxy-Authorization"),
    ngx_string("Proxy-Connection"),
    ngx_string("Set-Cookie"),
    ngx_string("Set-Cookie2"),
    ngx_string("Status"),
    ngx_string("TE"),
    ngx_string("Trailer"),
    ngx_string("Transfer-Encoding"),
    ngx_string("Upgrade"),
    ngx_null_string
};


ngx_uint_t
ngx_http_mcds_header_dropped(ngx_str_t *name)
{
    return ngx_http_mcds_header_in(ngx_http_mcds_dropped, name)
           || (name->len > 8
               && ngx_mcds_is_name(name->data, (u_char *) "X-Accel-", 8));
}


void
ngx_http_mcds_response(ngx_http_request_t *r, ngx_http_mcds_cache_conf_t *ccf,
    ngx_mcds_response_t *response, ngx_uint_t status, ngx_uint_t ignore)
{
    ngx_http_mcds_cache_ctx_t  *ctx;

    ctx = ngx_http_mcds_cache_get(r);

    ngx_http_mcds_response_init(r, ccf, response, status);
    response->authorization = ctx->authorization;
    response->took = ngx_current_msec - ctx->start;
    response->kept = ngx_http_mcds_response_kept(r);

    ngx_http_mcds_response_list(r, &r->headers_out.headers,
                                ngx_http_mcds_carried_lines(r, ctx), response,
                                ignore);

    if (r->headers_out.content_encoding
        && r->headers_out.content_encoding->hash)
    {
        response->encoded = 1;
    }

    /*
     * the upstream's list of response headers includes those that the location
     * hides from the client
     */

    if (r->upstream) {
        ngx_http_mcds_response_list(r, &r->upstream->headers_in.headers, 0,
                                    response, ignore);
    }

    if (response->kept) {
        response->age = (uint32_t) ngx_min((uint64_t) response->age
                                           + response->kept,
                                           NGX_MCDS_MAX_DELTA);

        if (response->date == NGX_ERROR) {
            response->date = ngx_mcds_epoch(ngx_time()) - response->kept;
        }
    }

    /*
     * for a static file, the time of the last modification is not in the list
     * of response headers
     */

    if (response->last_modified == NGX_ERROR) {
        response->last_modified = r->headers_out.last_modified_time;
    }
}


static void
ngx_http_mcds_response_init(ngx_http_request_t *r,
    ngx_http_mcds_cache_conf_t *ccf, ngx_mcds_response_t *response,
    ngx_uint_t status)
{
    time_t  valid;

    ngx_memzero(response, sizeof(ngx_mcds_response_t));

    response->status = status;
    response->date = NGX_ERROR;
    response->last_modified = NGX_ERROR;

    valid = ngx_http_file_cache_valid(ccf->cache_valid, status);
    response->valid = valid > 0 ? valid : -1;
    response->origin = ngx_http_mcds_response_origin(ccf->cache_valid);

    response->heuristic = ccf->cache_heuristic;
    response->heuristic_max = ccf->cache_heuristic_max;
}


/*
 * returns 1 if the location has "mcds_cache_valid origin": most errors to which
 * the origin gives a lifetime are then stored
 */

static ngx_uint_t
ngx_http_mcds_response_origin(ngx_array_t *cache_valid)
{
    ngx_uint_t               i;
    ngx_http_cache_valid_t  *valid;

    if (cache_valid == NULL) {
        return 0;
    }

    valid = cache_valid->elts;

    for (i = 0; i < cache_valid->nelts; i++) {
        if (valid[i].status == NGX_HTTP_MCDS_VALID_ORIGIN) {
            return 1;
        }
    }

    return 0;
}


/*
 * Returns the number of seconds for which nginx's own cache, such as that of
 * proxy_cache, has kept the response.  nginx does not add this time to Age, and
 * the lifetime that the origin has given began when nginx got the response.
 * Returns 0 if nginx has just got it, or a 304 that confirms it.
 */

static uint32_t
ngx_http_mcds_response_kept(ngx_http_request_t *r)
{
#if (NGX_HTTP_CACHE)

    time_t  kept;

    if (!r->cached
        || r->cache == NULL
        || r->upstream == NULL
        || r->upstream->cache_status == NGX_HTTP_CACHE_REVALIDATED)
    {
        return 0;
    }

    kept = ngx_time() - r->cache->date;

    return (kept > 0) ? (uint32_t) ngx_min((uint64_t) kept, NGX_MCDS_MAX_DELTA)
                      : 0;

#else

    return 0;

#endif
}


/*
 * reads the headers of a response from a list, but skips the first "skip"
 * headers: these were in the list before the content handler ran
 */

static void
ngx_http_mcds_response_list(ngx_http_request_t *r, ngx_list_t *list,
    ngx_uint_t skip, ngx_mcds_response_t *response, ngx_uint_t ignore)
{
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h;

    part = &list->part;
    h = part->elts;

    for (i = 0; /* void */ ; i++) {

        if (i >= part->nelts) {
            if (part->next == NULL) {
                return;
            }

            part = part->next;
            h = part->elts;
            i = 0;
        }

        if (skip) {
            skip--;
            continue;
        }

        if (h[i].hash && !ngx_http_mcds_response_sticky(r, &h[i])) {
            ngx_http_mcds_response_line(response, &h[i].key, &h[i].value,
                                        ignore);
        }
    }
}


/*
 * Returns 1 if the response header is the cookie of "sticky cookie", which
 * nginx itself adds: it names the server that has responded, and is the same
 * for all clients of that server.
 */

static ngx_uint_t
ngx_http_mcds_response_sticky(ngx_http_request_t *r, ngx_table_elt_t *h)
{
#if (NGX_HTTP_MCDS_HAVE_SID)

    u_char     *p, *last;
    ngx_str_t  *sid;

    sid = r->upstream ? r->upstream->peer.sid : NULL;

    /*
     * nginx sets the hash of its own headers to 1; an origin's header has
     * another hash
     */

    if (sid == NULL || sid->len == 0 || h->hash != 1
        || !ngx_http_mcds_header_is(&h->key, "Set-Cookie"))
    {
        return 0;
    }

    last = h->value.data + h->value.len;
    p = ngx_strlchr(h->value.data, last, '=');

    if (p == NULL
        || (size_t) (last - ++p) < sid->len
        || ngx_memcmp(p, sid->data, sid->len) != 0)
    {
        return 0;
    }

    p += sid->len;

    return p == last || *p == ';';

#else

    return 0;

#endif
}


/*
 * evaluates one header of a response for its storage; of headers that must not
 * be repeated, the first one counts
 */

void
ngx_http_mcds_response_line(ngx_mcds_response_t *response, ngx_str_t *name,
    ngx_str_t *value, ngx_uint_t ignore)
{
    ngx_mcds_cache_control_t  cc;

    if (ngx_http_mcds_header_is(name, "Cache-Control")) {
        ngx_http_mcds_response_control(value, response, ignore);

    } else if (ngx_http_mcds_header_is(name, "CDN-Cache-Control")) {
        ngx_http_mcds_response_cdn(value, response, ignore);

    } else if (ngx_http_mcds_header_is(name, "Expires")) {

        if (!response->has_expires && !(ignore & NGX_HTTP_MCDS_IGN_EXPIRES)) {
            response->expires = ngx_http_mcds_date(value);
            response->has_expires = 1;
        }

    } else if (ngx_http_mcds_header_is(name, "Date")) {

        if (response->date == NGX_ERROR) {
            response->date = ngx_http_mcds_date(value);
        }

    } else if (ngx_http_mcds_header_is(name, "Last-Modified")) {

        if (response->last_modified == NGX_ERROR) {
            response->last_modified = ngx_http_mcds_date(value);
        }

    } else if (ngx_http_mcds_header_is(name, "Age")) {
        ngx_http_mcds_response_age(value, response);

    } else if (ngx_http_mcds_header_is(name, "Pragma")) {
        ngx_memzero(&cc, sizeof(ngx_mcds_cache_control_t));
        ngx_mcds_cache_control_add(&cc, value);

        if (cc.no_cache) {
            response->pragma_no_cache = 1;
        }

    } else if (ngx_http_mcds_header_is(name, "Set-Cookie")
               || ngx_http_mcds_header_is(name, "Set-Cookie2"))
    {
        if (!(ignore & NGX_HTTP_MCDS_IGN_COOKIE)) {
            response->set_cookie = 1;
        }

    } else if (ngx_http_mcds_header_is(name, "Vary")) {

        /*
         * "*" in Vary is not a list of headers: the response varies by more
         * than headers
         */

        if (!(ignore & NGX_HTTP_MCDS_IGN_VARY)
            || ngx_http_mcds_has_star(value))
        {
            response->vary = 1;
        }

    } else if (ngx_http_mcds_header_is(name, "Content-Encoding")) {
        if (!ngx_http_mcds_header_is(value, "identity")) {
            response->encoded = 1;
        }

    } else if (ngx_http_mcds_header_is(name, "X-Accel-Expires")) {

        if (!(ignore & NGX_HTTP_MCDS_IGN_ACCEL)) {
            ngx_http_mcds_response_accel(value, response);
        }
    }
}


static void
ngx_http_mcds_response_control(ngx_str_t *value, ngx_mcds_response_t *response,
    ngx_uint_t ignore)
{
    if (!(ignore & NGX_HTTP_MCDS_IGN_CONTROL)) {
        ngx_mcds_cache_control_add(&response->cc, value);
        ngx_mcds_cache_control_ignore(&response->cc,
                                      (ignore
                                       >> NGX_HTTP_MCDS_IGN_CONTROL_SHIFT)
                                      & NGX_MCDS_CONTROL_ALL);
        return;
    }

    /*
     * Cache-Control in a response overrides Pragma even if the configuration
     * ignores Cache-Control
     */

    response->has_control = 1;
}


/*
 * evaluates a response's CDN-Cache-Control, which overrides Cache-Control even
 * if the configuration ignores all directives of CDN-Cache-Control
 */

static void
ngx_http_mcds_response_cdn(ngx_str_t *value, ngx_mcds_response_t *response,
    ngx_uint_t ignore)
{
    if ((ignore & NGX_HTTP_MCDS_IGN_CDN)
        || ngx_mcds_targeted_add(&response->cdn, value) == 0)
    {
        return;
    }

    response->has_cdn = 1;

    ngx_mcds_cache_control_ignore(&response->cdn,
                                  (ignore >> NGX_HTTP_MCDS_IGN_CDN_SHIFT)
                                  & NGX_MCDS_CONTROL_ALL);
}


/*
 * Evaluates the Age of a response, RFC 9111, 5.1: the first member of the
 * first line counts, even if it is 0.  If this member is not a number, Age is
 * ignored.
 */

static void
ngx_http_mcds_response_age(ngx_str_t *value, ngx_mcds_response_t *response)
{
    u_char    *p, *last;
    uint64_t   n;

    if (response->has_age) {
        return;
    }

    response->has_age = 1;

    p = value->data;
    last = p + value->len;
    n = 0;

    while (p < last && *p >= '0' && *p <= '9') {
        n = n * 10 + (*p++ - '0');
        n = ngx_min(n, NGX_MCDS_MAX_DELTA);
    }

    while (p < last && (*p == ' ' || *p == '\t')) {
        p++;
    }

    if (p == last || *p == ',') {
        response->age = (uint32_t) n;
    }
}


int64_t
ngx_http_mcds_date(ngx_str_t *value)
{
    return ngx_mcds_date_parse(value, ngx_mcds_now() / 1000);
}


/*
 * Evaluates an X-Accel-Expires of a response: seconds, or "@" and a time since
 * the epoch; 0: do not store.  Before nginx 1.23, which drops all lines but the
 * first, a response can have several: the shortest lifetime counts, so that
 * another part of the application cannot undo the 0 of one.
 */

static void
ngx_http_mcds_response_accel(ngx_str_t *value, ngx_mcds_response_t *response)
{
    int64_t     accel;
    ngx_int_t   n;
    ngx_uint_t  at;

    if (value->len == 0) {
        return;
    }

    at = (value->data[0] == '@');

    n = ngx_atoi(value->data + at, value->len - at);

    if (n == NGX_ERROR) {
        return;
    }

    if (at) {
        accel = n;

    } else {
        accel = ngx_mcds_epoch(ngx_time()) + ngx_min(n, 0x7fffffff)
                - response->kept;
    }

    if (!response->has_accel || accel < response->accel) {
        response->accel = accel;
        response->has_accel = 1;
    }
}


static ngx_uint_t
ngx_http_mcds_has_star(ngx_str_t *value)
{
    return ngx_strlchr(value->data, value->data + value->len, '*') != NULL;
}


ngx_int_t
ngx_http_mcds_stored_headers(ngx_http_request_t *r, ngx_str_t *headers)
{
    u_char                     *p;
    size_t                      size;
    ngx_int_t                   rc, rate;
    ngx_str_t                   name, *date, *charset;
    ngx_array_t                *lines;
    ngx_http_mcds_cache_ctx_t  *ctx;

    ctx = ngx_http_mcds_cache_get(r);
    size = 0;

    rc = ngx_http_mcds_connection(r, &lines);

    if (rc == NGX_OK) {
        rc = ngx_http_mcds_stored_list(r, lines, &size, NULL);
    }

    if (rc != NGX_OK) {
        return rc;
    }

    date = ngx_http_mcds_origin_date(r);
    charset = ngx_http_mcds_accel_charset(r);
    rate = ngx_http_mcds_accel_limit_rate(r);

    p = ngx_pnalloc(r->pool, size
                    + sizeof("Content-Type: " CRLF) - 1
                    + ngx_http_mcds_content_type_len(r)
                    + sizeof("Last-Modified: Mon, 28 Sep 1970 06:00:00 GMT"
                             CRLF) - 1
                    + sizeof("Date: " CRLF) - 1 + (date ? date->len : 0)
                    + sizeof("X-Accel-Charset: " CRLF) - 1
                    + (charset ? charset->len : 0)
                    + sizeof("X-Accel-Limit-Rate: " CRLF) - 1
                    + NGX_INT_T_LEN);
    if (p == NULL) {
        return NGX_ERROR;
    }

    headers->data = p;

    (void) ngx_http_mcds_stored_list(r, lines, NULL, &p);

    if (r->headers_out.content_type.len
        && r->headers_out.content_type.data != ctx->carried.type)
    {
        ngx_str_set(&name, "Content-Type");

        if (ngx_mcds_entry_header_check(&name, &r->headers_out.content_type)
            != NGX_OK)
        {
            return NGX_DECLINED;
        }

        p = ngx_sprintf(p, "Content-Type: %V", &r->headers_out.content_type);

        if (r->headers_out.content_type_len == r->headers_out.content_type.len
            && r->headers_out.charset.len
            && r->headers_out.charset.data != ctx->carried.charset)
        {
            p = ngx_sprintf(p, "; charset=%V", &r->headers_out.charset);
        }

        *p++ = CR;
        *p++ = LF;
    }

    if (r->headers_out.last_modified == NULL
        && r->headers_out.last_modified_time != -1)
    {
        p = ngx_cpymem(p, "Last-Modified: ", sizeof("Last-Modified: ") - 1);
        p = ngx_http_time(p, r->headers_out.last_modified_time);
        *p++ = CR;
        *p++ = LF;
    }

    if (date) {
        p = ngx_sprintf(p, "Date: %V" CRLF, date);
    }

    if (charset) {
        p = ngx_sprintf(p, "X-Accel-Charset: %V" CRLF, charset);
    }

    if (rate != NGX_ERROR) {
        p = ngx_sprintf(p, "X-Accel-Limit-Rate: %i" CRLF, rate);
    }

    headers->len = p - headers->data;

    return NGX_OK;
}


void
ngx_http_mcds_carried(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h;

    ctx->carried.lines = 0;

    for (part = &r->headers_out.headers.part; part; part = part->next) {
        ctx->carried.lines += part->nelts;
    }

    h = r->headers_out.headers.part.elts;

    ctx->carried.first = ctx->carried.lines ? h[0].value.data : NULL;
    ctx->carried.type = r->headers_out.content_type.data;
    ctx->carried.charset = r->headers_out.charset.data;
    ctx->carried.override = r->headers_out.override_charset;
}


/*
 * returns the number of headers that the response had before the content
 * handler ran, as they do not belong to the page; 0 if nginx has cleared the
 * list of headers, as after early hints
 */

static ngx_uint_t
ngx_http_mcds_carried_lines(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h;

    part = &r->headers_out.headers.part;
    h = part->elts;

    return (part->nelts && h[0].value.data == ctx->carried.first)
           ? ctx->carried.lines : 0;
}


/*
 * Adds to *size the bytes of the response headers that are stored with a page
 * or, if p is not NULL, writes these headers to *p and moves *p behind them.
 * "lines": the values of the upstream's Connection headers, or NULL; the
 * headers that these name are left out.  NGX_DECLINED: a header cannot be
 * stored.
 */

static ngx_int_t
ngx_http_mcds_stored_list(ngx_http_request_t *r, ngx_array_t *lines,
    size_t *size, u_char **p)
{
    ngx_uint_t                  i, n, carried;
    ngx_list_part_t            *part;
    ngx_table_elt_t            *h;
    ngx_http_mcds_cache_ctx_t  *ctx;

    ctx = ngx_http_mcds_cache_get(r);
    carried = ngx_http_mcds_carried_lines(r, ctx);
    n = 0;

    for (part = &r->headers_out.headers.part; part; part = part->next) {

        h = part->elts;

        for (i = 0; i < part->nelts; i++) {

            if (n++ < carried
                || h[i].hash == 0
                || ngx_http_mcds_header_dropped(&h[i].key)
                || (lines && ngx_http_mcds_named(lines, &h[i].key)))
            {
                continue;
            }

            if (p) {
                *p = ngx_sprintf(*p, "%V: %V" CRLF, &h[i].key, &h[i].value);
                continue;
            }

            if (ngx_mcds_entry_header_check(&h[i].key, &h[i].value)
                != NGX_OK)
            {
                return NGX_DECLINED;
            }

            *size += h[i].key.len + h[i].value.len + 4;
        }
    }

    return NGX_OK;
}


/*
 * sets *lines to the values of the upstream's Connection headers, without
 * "close" and "keep-alive": the headers that these values name must not be
 * stored; *lines is NULL if there are no such values; NGX_ERROR: out of memory
 */

static ngx_int_t
ngx_http_mcds_connection(ngx_http_request_t *r, ngx_array_t **lines)
{
    ngx_str_t        *line;
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h;

    *lines = NULL;

    if (r->upstream == NULL) {
        return NGX_OK;
    }

    for (part = &r->upstream->headers_in.headers.part;
         part;
         part = part->next)
    {
        h = part->elts;

        for (i = 0; i < part->nelts; i++) {

            if (!ngx_http_mcds_header_is(&h[i].key, "Connection")
                || ngx_http_mcds_header_is(&h[i].value, "close")
                || ngx_http_mcds_header_is(&h[i].value, "keep-alive"))
            {
                continue;
            }

            if (*lines == NULL) {
                *lines = ngx_array_create(r->pool, 2, sizeof(ngx_str_t));
                if (*lines == NULL) {
                    return NGX_ERROR;
                }
            }

            line = ngx_array_push(*lines);
            if (line == NULL) {
                return NGX_ERROR;
            }

            *line = h[i].value;
        }
    }

    return NGX_OK;
}


static ngx_uint_t
ngx_http_mcds_named(ngx_array_t *lines, ngx_str_t *name)
{
    u_char      *p, *last, *start;
    ngx_str_t   *line, word;
    ngx_uint_t   i;

    line = lines->elts;

    for (i = 0; i < lines->nelts; i++) {

        p = line[i].data;
        last = p + line[i].len;

        while (p < last) {

            while (p < last && (*p == ' ' || *p == '\t' || *p == ',')) {
                p++;
            }

            start = p;

            while (p < last && *p != ' ' && *p != '\t' && *p != ',') {
                p++;
            }

            word.data = start;
            word.len = p - start;

            if (word.len
                && word.len == name->len
                && ngx_strncasecmp(word.data, name->data, name->len) == 0)
            {
                return 1;
            }
        }
    }

    return 0;
}


/*
 * returns the origin's Date, which nginx does not pass on, RFC 9110, 6.6.1; or
 * NULL
 */

static ngx_str_t *
ngx_http_mcds_origin_date(ngx_http_request_t *r)
{
    ngx_uint_t        i;
    ngx_str_t        *value;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h;

    if (r->upstream == NULL) {
        return NULL;
    }

    for (part = &r->upstream->headers_in.headers.part;
         part;
         part = part->next)
    {
        h = part->elts;

        for (i = 0; i < part->nelts; i++) {

            if (!ngx_http_mcds_header_is(&h[i].key, "Date")) {
                continue;
            }

            value = &h[i].value;

            if (ngx_http_mcds_date(value) != NGX_ERROR
                && ngx_mcds_entry_header_check(&h[i].key, value) == NGX_OK)
            {
                return value;
            }
        }
    }

    return NULL;
}


static size_t
ngx_http_mcds_content_type_len(ngx_http_request_t *r)
{
    size_t  len;

    len = r->headers_out.content_type.len;

    if (len
        && r->headers_out.content_type_len == len
        && r->headers_out.charset.len)
    {
        len += sizeof("; charset=") - 1 + r->headers_out.charset.len;
    }

    return len;
}


/*
 * Returns the charset that nginx has taken from the response's
 * X-Accel-Charset, or NULL if there was none, or if the location ignores the
 * header, as by proxy_ignore_headers.
 */

static ngx_str_t *
ngx_http_mcds_accel_charset(ngx_http_request_t *r)
{
    ngx_str_t                  *charset, name;
    ngx_http_mcds_cache_ctx_t  *ctx;

    ctx = ngx_http_mcds_cache_get(r);

    charset = r->headers_out.override_charset;

    ngx_str_set(&name, "X-Accel-Charset");

    if (charset == NULL
        || charset == ctx->carried.override
        || charset->len == 0
        || ngx_mcds_entry_header_check(&name, charset) != NGX_OK)
    {
        return NULL;
    }

    return charset;
}


/*
 * Returns the rate in the response's X-Accel-Limit-Rate, or NGX_ERROR if there
 * is none, or if the location ignores the header.  r->limit_rate is not used:
 * it may come from the configuration, which is evaluated for each request.
 */

static ngx_int_t
ngx_http_mcds_accel_limit_rate(ngx_http_request_t *r)
{
    ngx_table_elt_t      *h;
    ngx_http_upstream_t  *u;

    u = r->upstream;

    if (u == NULL
        || u->headers_in.x_accel_limit_rate == NULL
        || (u->conf->ignore_headers & NGX_HTTP_UPSTREAM_IGN_XA_LIMIT_RATE))
    {
        return NGX_ERROR;
    }

    h = u->headers_in.x_accel_limit_rate;

    return ngx_atoi(h->value.data, h->value.len);
}


ngx_uint_t
ngx_http_mcds_stored_absolute(ngx_http_request_t *r)
{
    ngx_table_elt_t  *h;

    h = r->headers_out.location;

    return h && h->hash && h->value.len && h->value.data[0] == '/';
}


/*
 * Copyright (C) mcds authors
 *
 * Chooses the format of the statistics in a response: JSON, Prometheus, HTML.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_status.h"


/*
 * the best media range that was read so far from the header Accept: the format
 * of statistics for this media range, and its quality in thousandths
 */

typedef struct {
    ngx_uint_t               format;
    ngx_uint_t               quality;
} ngx_http_mcds_status_best_t;


static ngx_uint_t ngx_http_mcds_status_accept(ngx_http_request_t *r);
static void ngx_http_mcds_status_accept_line(ngx_str_t *line,
    ngx_http_mcds_status_best_t *best);
static void ngx_http_mcds_status_accept_range(u_char *p, u_char *last,
    ngx_http_mcds_status_best_t *best);
static ngx_uint_t ngx_http_mcds_status_accept_param(u_char *p, u_char *last,
    char *name, ngx_str_t *value);
static ngx_uint_t ngx_http_mcds_status_quality(ngx_str_t *text);


/*
 * the words for the formats of statistics, indexed by
 * ngx_http_mcds_status_format_e
 */

static ngx_str_t  ngx_http_mcds_status_words[] = {
    ngx_string("json"),
    ngx_string("prometheus"),
    ngx_string("html"),
    ngx_null_string
};


static struct {
    ngx_str_t    type;
    char        *version;               /* value of the parameter "version" that
                                           the media range must have; NULL: any
                                           or none */
    ngx_uint_t   format;
} ngx_http_mcds_status_ranges[] = {
    { ngx_string("application/json"), NULL, NGX_HTTP_MCDS_STATUS_JSON },
    { ngx_string("text/html"), NULL, NGX_HTTP_MCDS_STATUS_HTML },
    { ngx_string("application/openmetrics-text"), NULL,
      NGX_HTTP_MCDS_STATUS_PROMETHEUS },
    { ngx_string("text/plain"), "0.0.4", NGX_HTTP_MCDS_STATUS_PROMETHEUS },
    { ngx_string("application/*"), NULL, NGX_HTTP_MCDS_STATUS_JSON },
    { ngx_string("*/*"), NULL, NGX_HTTP_MCDS_STATUS_JSON },
    { ngx_null_string, NULL, 0 }
};


ngx_uint_t
ngx_http_mcds_status_format(ngx_str_t *word)
{
    ngx_uint_t  i;

    for (i = 0; ngx_http_mcds_status_words[i].len; i++) {
        if (ngx_http_mcds_status_words[i].len == word->len
            && ngx_strncmp(ngx_http_mcds_status_words[i].data, word->data,
                           word->len)
               == 0)
        {
            return i;
        }
    }

    return NGX_HTTP_MCDS_STATUS_NONE;
}


ngx_uint_t
ngx_http_mcds_status_wanted(ngx_http_request_t *r, ngx_uint_t fixed)
{
    ngx_str_t   word;
    ngx_uint_t  format;

    if (ngx_http_arg(r, (u_char *) "format", 6, &word) != NGX_OK) {
        return (fixed == NGX_HTTP_MCDS_STATUS_AUTO)
               ? ngx_http_mcds_status_accept(r) : fixed;
    }

    format = ngx_http_mcds_status_format(&word);

    if (fixed == NGX_HTTP_MCDS_STATUS_AUTO || format == fixed) {
        return format;
    }

    /*
     * a location with "format=html" sends JSON, too, since the script of the
     * live page requests the statistics there
     */

    if (fixed == NGX_HTTP_MCDS_STATUS_HTML
        && format == NGX_HTTP_MCDS_STATUS_JSON)
    {
        return format;
    }

    return NGX_HTTP_MCDS_STATUS_NONE;
}


/*
 * chooses the format of the statistics by the request header Accept (RFC 9110,
 * 12.5.1); JSON if no format is acceptable
 */

static ngx_uint_t
ngx_http_mcds_status_accept(ngx_http_request_t *r)
{
    ngx_uint_t                    i;
    ngx_list_part_t              *part;
    ngx_table_elt_t              *h;
    ngx_http_mcds_status_best_t   best;

    best.format = NGX_HTTP_MCDS_STATUS_JSON;
    best.quality = 0;

    part = &r->headers_in.headers.part;
    h = part->elts;

    for (i = 0; /* void */ ; i++) {

        if (i >= part->nelts) {
            if (part->next == NULL) {
                return best.format;
            }

            part = part->next;
            h = part->elts;
            i = 0;
        }

        if (h[i].hash && h[i].key.len == 6
            && ngx_strncasecmp(h[i].key.data, (u_char *) "Accept", 6) == 0)
        {
            ngx_http_mcds_status_accept_line(&h[i].value, &best);
        }
    }
}


static void
ngx_http_mcds_status_accept_line(ngx_str_t *line,
    ngx_http_mcds_status_best_t *best)
{
    u_char  *p, *last, *end;

    p = line->data;
    last = p + line->len;

    while (p < last) {
        end = ngx_strlchr(p, last, ',');

        if (end == NULL) {
            end = last;
        }

        while (p < end && (*p == ' ' || *p == '\t')) {
            p++;
        }

        ngx_http_mcds_status_accept_range(p, end, best);

        p = end + 1;
    }
}


/*
 * reads one media range of the header Accept, such as
 * "text/plain;version=0.0.4;q=0.5"
 */

static void
ngx_http_mcds_status_accept_range(u_char *p, u_char *last,
    ngx_http_mcds_status_best_t *best)
{
    u_char      *end;
    ngx_str_t    value;
    ngx_uint_t   i, quality;

    for (end = p; end < last; end++) {
        if (*end == ';' || *end == ' ' || *end == '\t') {
            break;
        }
    }

    quality = 1000;

    if (ngx_http_mcds_status_accept_param(end, last, "q", &value)) {
        quality = ngx_http_mcds_status_quality(&value);
    }

    if (quality <= best->quality) {
        return;
    }

    for (i = 0; ngx_http_mcds_status_ranges[i].type.len; i++) {

        if (ngx_http_mcds_status_ranges[i].type.len != (size_t) (end - p)
            || ngx_strncasecmp(ngx_http_mcds_status_ranges[i].type.data, p,
                               end - p)
               != 0)
        {
            continue;
        }

        if (ngx_http_mcds_status_ranges[i].version
            && (!ngx_http_mcds_status_accept_param(end, last, "version",
                                                   &value)
                || value.len
                   != ngx_strlen(ngx_http_mcds_status_ranges[i].version)
                || ngx_strncmp(value.data,
                               ngx_http_mcds_status_ranges[i].version,
                               value.len)
                   != 0))
        {
            continue;
        }

        best->format = ngx_http_mcds_status_ranges[i].format;
        best->quality = quality;
        return;
    }
}


/*
 * finds a parameter of a media range of the header Accept: p is at the range's
 * first ";", last is behind the range
 */

static ngx_uint_t
ngx_http_mcds_status_accept_param(u_char *p, u_char *last, char *name,
    ngx_str_t *value)
{
    size_t   len;
    u_char  *end;

    len = ngx_strlen(name);

    while (p < last) {

        while (p < last && (*p == ';' || *p == ' ' || *p == '\t')) {
            p++;
        }

        for (end = p; end < last; end++) {
            if (*end == ';' || *end == ' ' || *end == '\t') {
                break;
            }
        }

        if ((size_t) (end - p) > len
            && p[len] == '='
            && ngx_strncasecmp(p, (u_char *) name, len) == 0)
        {
            value->data = p + len + 1;
            value->len = end - value->data;
            return 1;
        }

        p = end;
    }

    return 0;
}


/* parses the quality of a media range, such as "0.8", into thousandths */

static ngx_uint_t
ngx_http_mcds_status_quality(ngx_str_t *text)
{
    ngx_int_t  n;

    n = ngx_atofp(text->data, text->len, 3);

    return (n == NGX_ERROR || n > 1000) ? 0 : (ngx_uint_t) n;
}

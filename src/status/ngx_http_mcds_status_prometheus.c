
/*
 * Copyright (C) mcds authors
 *
 * The statistics in Prometheus's text format 0.0.4.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <nginx.h>
#include "ngx_http_mcds_status.h"
#include "ngx_mcds_json.h"


/*
 * the maximum number of bytes that one byte of a label's value takes when it is
 * escaped
 */
#define NGX_HTTP_MCDS_STATUS_ESCAPED  5

/* U+FFFD, in front of a label's escaped value if the value is not UTF-8 */

#define NGX_HTTP_MCDS_STATUS_ODD      "\xef\xbf\xbd"


/* a gauge of a memcached server: a metric that is not a sum */

typedef struct {
    char                    *metric;
    char                    *help;
    size_t                   offset;    /* offset of the gauge's field in
                                           ngx_mcds_stat_totals_t */
} ngx_http_mcds_status_gauge_t;


static void ngx_http_mcds_status_head(ngx_http_mcds_status_text_t *text,
    char *metric, char *type, char *help);
static void ngx_http_mcds_status_instance(ngx_http_mcds_status_text_t *text,
    ngx_mcds_stats_t *stats);
static void ngx_http_mcds_status_value(ngx_http_mcds_status_text_t *text,
    char *metric, char *help, ngx_uint_t n);
static void ngx_http_mcds_status_worker(ngx_http_mcds_status_text_t *text,
    char *metric, char *help, size_t n);
static void ngx_http_mcds_status_gauges(ngx_http_mcds_status_text_t *text,
    ngx_array_t *servers, ngx_str_t *labels);
static void ngx_http_mcds_status_metrics(ngx_http_mcds_status_text_t *text,
    ngx_array_t *list, ngx_uint_t family);
static ngx_str_t *ngx_http_mcds_status_labels(
    ngx_http_mcds_status_text_t *text, ngx_array_t *list, ngx_uint_t family);
static u_char *ngx_http_mcds_status_label(u_char *p, ngx_str_t *value);
static void ngx_http_mcds_status_samples(ngx_http_mcds_status_text_t *text,
    ngx_http_mcds_status_group_t *group, ngx_str_t *labels,
    ngx_mcds_stat_totals_t *totals);
static void ngx_http_mcds_status_sample(ngx_http_mcds_status_text_t *text,
    char *metric, ngx_str_t *labels, char *label, ngx_str_t *value,
    uint64_t n);
static void ngx_http_mcds_status_buckets(ngx_http_mcds_status_text_t *text,
    ngx_http_mcds_status_group_t *group, ngx_str_t *labels,
    ngx_mcds_stat_totals_t *totals);
static u_char *ngx_http_mcds_status_seconds(u_char *p, uint64_t n,
    ngx_uint_t unit);


static ngx_http_mcds_status_gauge_t  ngx_http_mcds_status_server_gauges[] = {

    { "mcds_server_pending_operations",
      "Operations that wait for their answer.",
      offsetof(ngx_mcds_stat_totals_t, pending) },

    { "mcds_server_connections",
      "Connections that are open.",
      offsetof(ngx_mcds_stat_totals_t, connections) },

    { "mcds_server_breaker_open_workers",
      "Workers whose breaker is open.",
      offsetof(ngx_mcds_stat_totals_t, open) },

    { NULL, NULL, 0 }
};


void
ngx_http_mcds_status_prometheus(ngx_http_mcds_status_text_t *text,
    ngx_mcds_stats_t *stats)
{
    ngx_uint_t  i;

    ngx_http_mcds_status_head(text, "mcds_build_info", "gauge",
                              "Versions of mcds and nginx.");

    ngx_http_mcds_status_printf(text,
                                "mcds_build_info{version=\"%s\","
                                "nginx=\"%s\"} 1\n",
                                NGX_MCDS_VERSION, NGINX_VERSION);

    if (stats == NULL) {
        return;
    }

    ngx_http_mcds_status_instance(text, stats);

    for (i = 0; i < NGX_MCDS_STAT_FAMILIES; i++) {
        if (stats->families[i].nelts) {
            ngx_http_mcds_status_metrics(text, &stats->families[i], i);
        }
    }
}


static void
ngx_http_mcds_status_head(ngx_http_mcds_status_text_t *text, char *metric,
    char *type, char *help)
{
    ngx_http_mcds_status_printf(text, "# HELP %s %s\n# TYPE %s %s\n",
                                metric, help, metric, type);
}


static void
ngx_http_mcds_status_instance(ngx_http_mcds_status_text_t *text,
    ngx_mcds_stats_t *stats)
{
    ngx_http_mcds_status_value(text, "mcds_start_time_seconds",
                               "When the sums began.", stats->since);
    ngx_http_mcds_status_value(text, "mcds_config_load_time_seconds",
                               "When this configuration was loaded.",
                               stats->loaded);
    ngx_http_mcds_status_value(text, "mcds_config_generation",
                               "How many configurations there were.",
                               stats->generation);
    ngx_http_mcds_status_value(text, "mcds_workers",
                               "Workers of this configuration.",
                               stats->workers);

    ngx_http_mcds_status_worker(text, "mcds_worker_unsent_bytes",
                                "Answers that are stored and were not read.",
                                ngx_mcds_memory.unsent);
    ngx_http_mcds_status_worker(text, "mcds_worker_storing_bytes",
                                "Bodies in parts that are being stored.",
                                ngx_mcds_memory.storing);
    ngx_http_mcds_status_worker(text, "mcds_worker_pages_bytes",
                                "What is remembered of pages.",
                                ngx_mcds_memory.pages);
}


/* appends a metric that is a gauge of the worker that sends the response */

static void
ngx_http_mcds_status_worker(ngx_http_mcds_status_text_t *text, char *metric,
    char *help, size_t n)
{
    ngx_http_mcds_status_head(text, metric, "gauge", help);
    ngx_http_mcds_status_printf(text, "%s{worker=\"%ui\"} %uz\n", metric,
                                ngx_worker, n);
}


static void
ngx_http_mcds_status_value(ngx_http_mcds_status_text_t *text, char *metric,
    char *help, ngx_uint_t n)
{
    ngx_http_mcds_status_head(text, metric, "gauge", help);
    ngx_http_mcds_status_printf(text, "%s %ui\n", metric, n);
}


/*
 * appends the metrics of a family of statistics, such as those of counters; in
 * the format for Prometheus, all samples of a metric must be adjacent
 */

static void
ngx_http_mcds_status_metrics(ngx_http_mcds_status_text_t *text,
    ngx_array_t *list, ngx_uint_t family)
{
    char                           *type;
    ngx_str_t                      *labels;
    ngx_uint_t                      i;
    ngx_mcds_stat_t               **stat;
    ngx_mcds_stat_totals_t          totals;
    ngx_http_mcds_status_group_t   *group;

    labels = ngx_http_mcds_status_labels(text, list, family);
    if (labels == NULL) {
        text->failed = 1;
        return;
    }

    if (family == NGX_MCDS_STAT_SERVERS) {
        ngx_http_mcds_status_gauges(text, list, labels);
    }

    stat = list->elts;
    group = ngx_http_mcds_status_families[family].groups;

    for ( /* void */ ; group->kind != NGX_HTTP_MCDS_STATUS_END; group++) {

        type = (group->kind == NGX_HTTP_MCDS_STATUS_TIME
                || group->kind == NGX_HTTP_MCDS_STATUS_LATENCY)
               ? "histogram" : "counter";

        ngx_http_mcds_status_head(text, group->metric, type, group->help);

        for (i = 0; i < list->nelts; i++) {
            if (ngx_mcds_stat_read(stat[i], &totals) == NGX_OK) {
                ngx_http_mcds_status_samples(text, group, &labels[i],
                                             &totals);
            }
        }
    }
}


static void
ngx_http_mcds_status_gauges(ngx_http_mcds_status_text_t *text,
    ngx_array_t *servers, ngx_str_t *labels)
{
    ngx_uint_t                      i;
    ngx_mcds_stat_t               **stat;
    ngx_mcds_stat_totals_t          totals;
    ngx_http_mcds_status_gauge_t   *gauge;

    stat = servers->elts;

    for (gauge = ngx_http_mcds_status_server_gauges; gauge->metric; gauge++) {

        ngx_http_mcds_status_head(text, gauge->metric, "gauge", gauge->help);

        for (i = 0; i < servers->nelts; i++) {
            if (ngx_mcds_stat_read(stat[i], &totals) == NGX_OK) {
                ngx_http_mcds_status_sample(text, gauge->metric, &labels[i],
                                            NULL, NULL,
                                            *(uint64_t *)
                                            ((u_char *) &totals
                                             + gauge->offset));
            }
        }
    }
}


/*
 * composes the labels that the metrics of each server, counter or the like
 * have, such as pool="main",server="127.0.0.1:11211"
 */

static ngx_str_t *
ngx_http_mcds_status_labels(ngx_http_mcds_status_text_t *text,
    ngx_array_t *list, ngx_uint_t family)
{
    u_char                         *p;
    ngx_str_t                      *labels, *name, *pool;
    ngx_uint_t                      i;
    ngx_mcds_stat_t               **stat;
    ngx_http_mcds_status_family_t  *of;

    labels = ngx_palloc(text->pool, list->nelts * sizeof(ngx_str_t));
    if (labels == NULL) {
        return NULL;
    }

    stat = list->elts;
    of = &ngx_http_mcds_status_families[family];

    for (i = 0; i < list->nelts; i++) {

        name = &stat[i]->name;
        pool = &stat[i]->pool;

        p = ngx_pnalloc(text->pool, sizeof("pool=\"\",=\"\""
                                           NGX_HTTP_MCDS_STATUS_ODD
                                           NGX_HTTP_MCDS_STATUS_ODD)
                                    + ngx_strlen(of->label)
                                    + NGX_HTTP_MCDS_STATUS_ESCAPED
                                      * (name->len + pool->len));
        if (p == NULL) {
            return NULL;
        }

        labels[i].data = p;

        if (of->pools) {
            p = ngx_cpymem(p, "pool=\"", 6);
            p = ngx_http_mcds_status_label(p, pool);
            p = ngx_cpymem(p, "\",", 2);
        }

        p = ngx_sprintf(p, "%s=\"", of->label);
        p = ngx_http_mcds_status_label(p, name);
        *p++ = '"';

        labels[i].len = p - labels[i].data;
    }

    return labels;
}


/*
 * Escapes the value of a label, which must be UTF-8.  If a value is not UTF-8,
 * its bytes above 0x7f become \xXX, and U+FFFD in front of the value tells it
 * from a UTF-8 value that contains a text such as "\xff".
 */

static u_char *
ngx_http_mcds_status_label(u_char *p, ngx_str_t *value)
{
    size_t      i;
    ngx_uint_t  utf8;

    utf8 = ngx_mcds_json_utf8(value);

    if (!utf8) {
        p = ngx_cpymem(p, NGX_HTTP_MCDS_STATUS_ODD,
                       sizeof(NGX_HTTP_MCDS_STATUS_ODD) - 1);
    }

    for (i = 0; i < value->len; i++) {

        switch (value->data[i]) {

        case '\\':
        case '"':
            *p++ = '\\';
            *p++ = value->data[i];
            break;

        case LF:
            *p++ = '\\';
            *p++ = 'n';
            break;

        default:

            if (utf8 || value->data[i] < 0x80) {
                *p++ = value->data[i];

            } else {
                p = ngx_sprintf(p, "\\\\x%02xd", (int) value->data[i]);
            }

            break;
        }
    }

    return p;
}


static void
ngx_http_mcds_status_samples(ngx_http_mcds_status_text_t *text,
    ngx_http_mcds_status_group_t *group, ngx_str_t *labels,
    ngx_mcds_stat_totals_t *totals)
{
    ngx_uint_t                     i;
    ngx_http_mcds_status_field_t  *field;

    switch (group->kind) {

    case NGX_HTTP_MCDS_STATUS_SUM:
        ngx_http_mcds_status_sample(text, group->metric, labels, NULL, NULL,
                                    totals->sums[group->index]);
        break;

    case NGX_HTTP_MCDS_STATUS_GROUP:

        for (field = group->fields; field->name.len; field++) {
            ngx_http_mcds_status_sample(text, group->metric, labels,
                                        group->label, &field->name,
                                        totals->sums[field->index]);
        }

        break;

    case NGX_HTTP_MCDS_STATUS_REASONS:

        for (i = NGX_MCDS_REASON_NONE + 1; i < NGX_MCDS_REASON_LAST; i++) {
            if (totals->sums[group->index + i]) {
                ngx_http_mcds_status_sample(text, group->metric, labels,
                                            group->label, &ngx_mcds_reasons[i],
                                            totals->sums[group->index + i]);
            }
        }

        break;

    default: /* the kind TIME or LATENCY: the row shows a histogram of times */
        ngx_http_mcds_status_buckets(text, group, labels, totals);
        break;
    }
}


static void
ngx_http_mcds_status_sample(ngx_http_mcds_status_text_t *text, char *metric,
    ngx_str_t *labels, char *label, ngx_str_t *value, uint64_t n)
{
    u_char  *p;

    p = ngx_http_mcds_status_room(text, NGX_HTTP_MCDS_STATUS_PIECE
                                        + labels->len);
    if (p == NULL) {
        return;
    }

    p = ngx_sprintf(p, "%s{%V", metric, labels);

    if (label) {
        p = ngx_sprintf(p, ",%s=\"%V\"", label, value);
    }

    p = ngx_sprintf(p, "} %uL\n", n);

    ngx_http_mcds_status_add(text, p);
}


static void
ngx_http_mcds_status_buckets(ngx_http_mcds_status_text_t *text,
    ngx_http_mcds_status_group_t *group, ngx_str_t *labels,
    ngx_mcds_stat_totals_t *totals)
{
    u_char                        *p;
    uint64_t                       n;
    ngx_uint_t                     i;
    ngx_http_mcds_status_times_t   times;

    ngx_http_mcds_status_times(&times, group, totals);

    n = 0;

    for (i = 0; i < times.n; i++) {
        n += times.buckets[i];

        p = ngx_http_mcds_status_room(text, NGX_HTTP_MCDS_STATUS_PIECE
                                            + labels->len);
        if (p == NULL) {
            return;
        }

        p = ngx_sprintf(p, "%s_bucket{%V,le=\"", group->metric, labels);

        p = (i < times.n - 1)
            ? ngx_http_mcds_status_seconds(p, times.bounds[i], times.unit)
            : ngx_cpymem(p, "+Inf", 4);

        p = ngx_sprintf(p, "\"} %uL\n", n);

        ngx_http_mcds_status_add(text, p);
    }

    p = ngx_http_mcds_status_room(text, NGX_HTTP_MCDS_STATUS_PIECE
                                        + 2 * labels->len);
    if (p == NULL) {
        return;
    }

    p = ngx_sprintf(p, "%s_sum{%V} ", group->metric, labels);
    p = ngx_http_mcds_status_seconds(p, times.sum, times.unit);
    p = ngx_sprintf(p, "\n%s_count{%V} %uL\n", group->metric, labels, n);

    ngx_http_mcds_status_add(text, p);
}


/* writes a time of a metric in seconds, without trailing zeros */

static u_char *
ngx_http_mcds_status_seconds(u_char *p, uint64_t n, ngx_uint_t unit)
{
    uint64_t  rest;

    p = ngx_sprintf(p, "%uL", n / unit);
    rest = n % unit;

    if (rest) {
        *p++ = '.';
    }

    while (rest) {
        rest *= 10;
        *p++ = (u_char) ('0' + rest / unit);
        rest %= unit;
    }

    return p;
}


/*
 * Copyright (C) mcds authors
 *
 * mcds_status: shows the statistics of all workers as JSON, as Prometheus
 * metrics, and as an HTML page.
 */


#ifndef _NGX_HTTP_MCDS_STATUS_H_INCLUDED_
#define _NGX_HTTP_MCDS_STATUS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_mcds_stat.h"
#include "ngx_mcds_stat_sums.h"


/*
 * The text of a status response, which grows in buffers of the request's pool.
 */

typedef struct {
    ngx_pool_t               *pool;
    ngx_chain_t              *first;
    ngx_chain_t              *last;
    off_t                     size;
    ngx_uint_t                failed;   /* 1: nginx was out of memory, and
                                           nothing more is added to the
                                           response's text */
} ngx_http_mcds_status_text_t;


/*
 * the maximum number of bytes that one call of ngx_http_mcds_status_printf()
 * appends
 */
#define NGX_HTTP_MCDS_STATUS_PIECE  1024


/*
 * Returns the place at the end of a response's text to which n more bytes may
 * be written; NULL if out of memory.  ngx_http_mcds_status_add() makes the
 * bytes a part of the text.
 */

u_char *ngx_http_mcds_status_room(ngx_http_mcds_status_text_t *text, size_t n);

/*
 * Appends to a response's text the bytes, up to end, that the caller has
 * written to the place which ngx_http_mcds_status_room() has returned.
 */

void ngx_http_mcds_status_add(ngx_http_mcds_status_text_t *text, u_char *end);

/* Appends a copy of the len bytes at s to a response's text. */

void ngx_http_mcds_status_copy(ngx_http_mcds_status_text_t *text, char *s,
    size_t len);

/*
 * Appends a formatted text to a response's text, with the formats of
 * ngx_sprintf(); NGX_HTTP_MCDS_STATUS_PIECE bytes at most.
 */

void ngx_http_mcds_status_printf(ngx_http_mcds_status_text_t *text,
    const char *fmt, ...);


/*
 * The kinds of rows in the tables that describe how statistics are shown.  A
 * table is for one family of statistics, such as servers or counters; each row
 * of a table describes one member of the JSON, which is also one metric of
 * Prometheus.
 */

typedef enum {
    NGX_HTTP_MCDS_STATUS_SUM = 0, /* in a table of statistics, a row that shows
                                     one number, sums[index] */
    NGX_HTTP_MCDS_STATUS_GROUP,   /* in a table of statistics, a row that shows
                                     several numbers: each of the row's fields
                                     is a member of the JSON, and a value of
                                     the metric's label */
    NGX_HTTP_MCDS_STATUS_REASONS, /* in a table of statistics, a row that shows
                                     how many requests a cache handled, or how
                                     many responses it did not store, for each
                                     reason, such as "no-store":
                                     sums[index + i] for ngx_mcds_reasons[i];
                                     numbers that are 0 are left out */
    NGX_HTTP_MCDS_STATUS_TIME,    /* in a table of statistics, a row that shows
                                     a histogram of times in milliseconds, with
                                     the buckets of ngx_mcds_stat_times[] */
    NGX_HTTP_MCDS_STATUS_LATENCY, /* in a table of statistics, a row that shows
                                     a histogram of times in microseconds, with
                                     the buckets of ngx_mcds_stat_bounds[] */
    NGX_HTTP_MCDS_STATUS_END
} ngx_http_mcds_status_kind_e;


typedef struct {
    ngx_str_t                name;      /* the name of a number in the
                                           statistics; an empty name ends an
                                           array of such fields */
    ngx_uint_t               index;
} ngx_http_mcds_status_field_t;


typedef struct {
    ngx_uint_t                     kind;
    char                          *name;    /* the name of the JSON member that
                                               shows the group of statistics */
    char                          *metric;
    char                          *label;   /* a label of the Prometheus metric;
                                               the label's value is the name of
                                               one of the group's fields */
    char                          *help;
    ngx_uint_t                     index;
    ngx_http_mcds_status_field_t  *fields;
} ngx_http_mcds_status_group_t;


typedef struct {
    char                          *label;   /* a label of the metrics, such as
                                               "server"; the label's value is
                                               the name of a server, counter or
                                               the like */
    ngx_uint_t                     pools;   /* 1: the statistics are shown with
                                               the name of the memcached pool to
                                               which they belong */
    ngx_http_mcds_status_group_t  *groups;
} ngx_http_mcds_status_family_t;


/*
 * The tables that describe how the statistics of servers, caches, counters and
 * so on are shown, indexed by ngx_mcds_stat_family_e.  The arrays of fields
 * below are for the JSON about memcached servers, which does not follow these
 * tables.
 */

extern ngx_http_mcds_status_family_t
    ngx_http_mcds_status_families[NGX_MCDS_STAT_FAMILIES];

extern ngx_http_mcds_status_field_t  ngx_http_mcds_status_operations[];
extern ngx_http_mcds_status_field_t  ngx_http_mcds_status_answers[];
extern ngx_http_mcds_status_field_t  ngx_http_mcds_status_errors[];
extern ngx_http_mcds_status_field_t  ngx_http_mcds_status_lost[];

/*
 * A histogram of times: the sum of all times, the buckets, and the upper bounds
 * of all but the last bucket.
 */

typedef struct {
    uint64_t                 sum;
    uint64_t                *buckets;
    ngx_uint_t              *bounds;
    ngx_uint_t               n;
    ngx_uint_t               unit;      /* number of the histogram's units of
                                           time in a second: 1000 or 1000000 */
} ngx_http_mcds_status_times_t;

/*
 * Sets "times" to the histogram that a row of a table of statistics (a group)
 * shows; the kind of the row is TIME or LATENCY.
 */

void ngx_http_mcds_status_times(ngx_http_mcds_status_times_t *times,
    ngx_http_mcds_status_group_t *group, ngx_mcds_stat_totals_t *totals);


/*
 * The formats of the statistics in a response; NGX_HTTP_MCDS_STATUS_AUTO: the
 * client chooses.
 */

typedef enum {
    NGX_HTTP_MCDS_STATUS_JSON = 0,
    NGX_HTTP_MCDS_STATUS_PROMETHEUS,
    NGX_HTTP_MCDS_STATUS_HTML,
    NGX_HTTP_MCDS_STATUS_AUTO,
    NGX_HTTP_MCDS_STATUS_NONE
} ngx_http_mcds_status_format_e;

/*
 * Returns the format of the statistics, ngx_http_mcds_status_format_e, that a
 * word such as "json" stands for; NGX_HTTP_MCDS_STATUS_NONE if the word is
 * unknown.
 */

ngx_uint_t ngx_http_mcds_status_format(ngx_str_t *word);

/*
 * Returns the format of the statistics in the response to a request: the format
 * that the request's argument "format" names, or NONE if this format is unknown
 * or the directive mcds_status does not allow it.  Without this argument, the
 * format is "fixed", the format of the directive; if "fixed" is AUTO, it is the
 * format that the header Accept prefers (RFC 9110, 12.5.1).
 */

ngx_uint_t ngx_http_mcds_status_wanted(ngx_http_request_t *r,
    ngx_uint_t fixed);


/*
 * another host of the site: its name, and a URI of the local server from which
 * the live page gets that host's statistics
 */

typedef struct {
    ngx_str_t                name;
    ngx_str_t                uri;
} ngx_http_mcds_status_host_t;


/*
 * Appends the statistics as JSON to a response's text.  stats: NULL if there
 * are none; hosts: the other hosts of the site, an array of
 * ngx_http_mcds_status_host_t, or NULL; past: 1 if the member "history" is to
 * have the statistics of the last hour.
 */

void ngx_http_mcds_status_json(ngx_http_mcds_status_text_t *text,
    ngx_mcds_stats_t *stats, ngx_array_t *hosts, ngx_uint_t past);

/*
 * Appends the statistics as Prometheus metrics to a response's text; if stats
 * is NULL, only the versions of mcds and nginx.
 */

void ngx_http_mcds_status_prometheus(ngx_http_mcds_status_text_t *text,
    ngx_mcds_stats_t *stats);

/*
 * For a content handler that has discarded the request body: sends the page of
 * statistics, HTML that updates itself in the browser, and returns the result
 * for the content handler to return.  fixed is the format of the directive
 * mcds_status; with AUTO the page shows links to other formats.
 */

ngx_int_t ngx_http_mcds_status_html(ngx_http_request_t *r, ngx_uint_t fixed);


/*
 * For a content handler: sends a response with the given text, which must not
 * be empty, and HTTP status; 500 if text->failed is set.  Returns the result
 * for the content handler to return.  type: the Content-Type, a constant, with
 * its parameters.
 */

ngx_int_t ngx_http_mcds_status_send(ngx_http_request_t *r,
    ngx_http_mcds_status_text_t *text, ngx_uint_t status, char *type);


/*
 * Appends the keys requested most often (the hot keys) of all workers to the
 * JSON of the statistics, as the member "hot":{...}.
 */

void ngx_http_mcds_status_hotkeys(ngx_http_mcds_status_text_t *text);


extern ngx_module_t  ngx_http_mcds_status_module;


#endif /* _NGX_HTTP_MCDS_STATUS_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * mcds_status: the statistics of this host as JSON, as Prometheus metrics, and
 * as an HTML page that shows them.
 */


#ifndef _NGX_HTTP_MCDS_STATUS_H_INCLUDED_
#define _NGX_HTTP_MCDS_STATUS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_mcds_stat.h"
#include "ngx_mcds_stat_sums.h"


/* a text that grows, in buffers of the request's pool */

typedef struct {
    ngx_pool_t               *pool;
    ngx_chain_t              *first;
    ngx_chain_t              *last;
    off_t                     size;
    ngx_uint_t                failed;   /* out of memory; nothing more is
                                           added */
} ngx_http_mcds_status_text_t;


/* the most bytes that one call of ngx_http_mcds_status_printf() appends */
#define NGX_HTTP_MCDS_STATUS_PIECE  1024


/*
 * The place at the end of the text to which n more bytes may be written; NULL
 * when out of memory.  The bytes become part of the text by status_add().
 */

u_char *ngx_http_mcds_status_room(ngx_http_mcds_status_text_t *text, size_t n);

/*
 * Makes the bytes, up to end, part of the text that the caller has written to
 * the place that status_room() has returned.
 */

void ngx_http_mcds_status_add(ngx_http_mcds_status_text_t *text, u_char *end);

/* appends a copy of len bytes to the text */

void ngx_http_mcds_status_copy(ngx_http_mcds_status_text_t *text, char *s,
    size_t len);

/*
 * Appends to the text as ngx_sprintf() does, NGX_HTTP_MCDS_STATUS_PIECE bytes
 * at most.
 */

void ngx_http_mcds_status_printf(ngx_http_mcds_status_text_t *text,
    const char *fmt, ...);


/*
 * The statistics of a family, as a table.  Each group is a field of JSON and a
 * metric of Prometheus.
 */

typedef enum {
    NGX_HTTP_MCDS_STATUS_SUM = 0, /* sums[index] */
    NGX_HTTP_MCDS_STATUS_GROUP,   /* a field, or a label, for each of fields */
    NGX_HTTP_MCDS_STATUS_REASONS, /* the same for each of ngx_mcds_reasons[]
                                     with a count, from sums[index] on */
    NGX_HTTP_MCDS_STATUS_TIME,    /* milliseconds, ngx_mcds_stat_times[] */
    NGX_HTTP_MCDS_STATUS_LATENCY, /* microseconds, ngx_mcds_stat_bounds[] */
    NGX_HTTP_MCDS_STATUS_END
} ngx_http_mcds_status_kind_e;


typedef struct {
    ngx_str_t                name;      /* empty in the last row */
    ngx_uint_t               index;
} ngx_http_mcds_status_field_t;


typedef struct {
    ngx_uint_t                     kind;
    char                          *name;    /* member of JSON */
    char                          *metric;
    char                          *label;   /* label for the fields of a
                                               group */
    char                          *help;
    ngx_uint_t                     index;
    ngx_http_mcds_status_field_t  *fields;
} ngx_http_mcds_status_group_t;


typedef struct {
    char                          *label;   /* label for the name of an
                                               entry */
    ngx_uint_t                     pools;   /* an entry has a pool */
    ngx_http_mcds_status_group_t  *groups;
} ngx_http_mcds_status_family_t;


/*
 * indexed by ngx_mcds_stat_family_e; the parts of servers that JSON arranges
 * in its own way follow
 */

extern ngx_http_mcds_status_family_t
    ngx_http_mcds_status_families[NGX_MCDS_STAT_FAMILIES];

extern ngx_http_mcds_status_field_t  ngx_http_mcds_status_operations[];
extern ngx_http_mcds_status_field_t  ngx_http_mcds_status_answers[];
extern ngx_http_mcds_status_field_t  ngx_http_mcds_status_errors[];
extern ngx_http_mcds_status_field_t  ngx_http_mcds_status_lost[];

/*
 * a histogram: its sum, its buckets, and the bounds of all but the last bucket
 */

typedef struct {
    uint64_t                 sum;
    uint64_t                *buckets;
    ngx_uint_t              *bounds;
    ngx_uint_t               n;
    ngx_uint_t               unit;      /* units in a second */
} ngx_http_mcds_status_times_t;

/* sets times to the histogram of a group, TIME or LATENCY */

void ngx_http_mcds_status_times(ngx_http_mcds_status_times_t *times,
    ngx_http_mcds_status_group_t *group, ngx_mcds_stat_totals_t *totals);


/* the formats of the statistics; AUTO: the client chooses */

typedef enum {
    NGX_HTTP_MCDS_STATUS_JSON = 0,
    NGX_HTTP_MCDS_STATUS_PROMETHEUS,
    NGX_HTTP_MCDS_STATUS_HTML,
    NGX_HTTP_MCDS_STATUS_AUTO,
    NGX_HTTP_MCDS_STATUS_NONE
} ngx_http_mcds_status_format_e;

/* the format of that word, ngx_http_mcds_status_format_e, or NONE */

ngx_uint_t ngx_http_mcds_status_format(ngx_str_t *word);

/*
 * The format for a request: by the argument "format", or else by Accept (RFC
 * 9110, 12.5.1).  fixed: the format of the directive, or AUTO.  NONE: the
 * format is unknown, or not allowed by the directive.
 */

ngx_uint_t ngx_http_mcds_status_wanted(ngx_http_request_t *r,
    ngx_uint_t fixed);


/*
 * another host of the site, and the URI on this host that leads to its status
 */

typedef struct {
    ngx_str_t                name;
    ngx_str_t                uri;
} ngx_http_mcds_status_host_t;


/*
 * Appends the statistics as JSON.  stats: NULL if the host has none; hosts:
 * array of ngx_http_mcds_status_host_t, or NULL; past: add the last hour as
 * "history".
 */

void ngx_http_mcds_status_json(ngx_http_mcds_status_text_t *text,
    ngx_mcds_stats_t *stats, ngx_array_t *hosts, ngx_uint_t past);

/*
 * Appends the statistics as Prometheus metrics; stats: NULL if the host has
 * none.
 */

void ngx_http_mcds_status_prometheus(ngx_http_mcds_status_text_t *text,
    ngx_mcds_stats_t *stats);

/*
 * For a content handler that has discarded the body: sends the HTML page, and
 * returns the result for the content handler to return.  fixed: the format of
 * the directive, or AUTO, which shows links to other formats.
 */

ngx_int_t ngx_http_mcds_status_html(ngx_http_request_t *r, ngx_uint_t fixed);


/*
 * For a content handler: sends the text, which must not be empty, with that
 * status; 500 if text->failed is set.  Returns the result for the content
 * handler to return.  type: a constant, with its parameters.
 */

ngx_int_t ngx_http_mcds_status_send(ngx_http_request_t *r,
    ngx_http_mcds_status_text_t *text, ngx_uint_t status, char *type);


/* appends the hottest keys of all workers as the member "hot":{...} */

void ngx_http_mcds_status_hot(ngx_http_mcds_status_text_t *text);


extern ngx_module_t  ngx_http_mcds_status_module;


#endif /* _NGX_HTTP_MCDS_STATUS_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * mcds_status: the statistics of this host as JSON, for Prometheus, and as a
 * page that shows them.
 */


#ifndef _NGX_HTTP_MCDS_STATUS_H_INCLUDED_
#define _NGX_HTTP_MCDS_STATUS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_mcds_stat.h"
#include "ngx_mcds_stat_sums.h"


/* text that grows, in buffers of the request's pool */

typedef struct {
    ngx_pool_t               *pool;
    ngx_chain_t              *first;
    ngx_chain_t              *last;
    off_t                     size;
    ngx_uint_t                failed;   /* out of memory, nothing is added */
} ngx_http_mcds_status_text_t;


/*
 * room: where n more bytes may be written; NULL when out of memory.  add: what
 * ends at end was written there.  copy: adds that.  printf: adds at most
 * NGX_HTTP_MCDS_STATUS_PIECE bytes.
 */

#define NGX_HTTP_MCDS_STATUS_PIECE  1024

u_char *ngx_http_mcds_status_room(ngx_http_mcds_status_text_t *text, size_t n);
void ngx_http_mcds_status_add(ngx_http_mcds_status_text_t *text, u_char *end);
void ngx_http_mcds_status_copy(ngx_http_mcds_status_text_t *text, char *s,
    size_t len);
void ngx_http_mcds_status_printf(ngx_http_mcds_status_text_t *text,
    const char *fmt, ...);


/*
 * What there is to be told of a family.  Each group is a field of JSON and a
 * metric of Prometheus.
 */

typedef enum {
    NGX_HTTP_MCDS_STATUS_SUM = 0, /* sums[index] */
    NGX_HTTP_MCDS_STATUS_GROUP,   /* a field, or a label, for each of fields */
    NGX_HTTP_MCDS_STATUS_REASONS, /* the same for each of ngx_mcds_reasons[]
                                     that has come, from sums[index] on */
    NGX_HTTP_MCDS_STATUS_TIME,    /* milliseconds, ngx_mcds_stat_times[] */
    NGX_HTTP_MCDS_STATUS_LATENCY, /* microseconds, ngx_mcds_stat_bounds[] */
    NGX_HTTP_MCDS_STATUS_END
} ngx_http_mcds_status_kind_e;


typedef struct {
    ngx_str_t                name;      /* empty: there are no more */
    ngx_uint_t               index;
} ngx_http_mcds_status_field_t;


typedef struct {
    ngx_uint_t                     kind;
    char                          *name;    /* in JSON */
    char                          *metric;
    char                          *label;   /* of a group */
    char                          *help;
    ngx_uint_t                     index;
    ngx_http_mcds_status_field_t  *fields;
} ngx_http_mcds_status_group_t;


typedef struct {
    char                          *label;   /* of the name */
    ngx_uint_t                     pools;   /* have a pool, too */
    ngx_http_mcds_status_group_t  *groups;
} ngx_http_mcds_status_family_t;


/* by ngx_mcds_stat_family_e; and the parts of servers that JSON arranges */

extern ngx_http_mcds_status_family_t
    ngx_http_mcds_status_families[NGX_MCDS_STAT_FAMILIES];

extern ngx_http_mcds_status_field_t  ngx_http_mcds_status_operations[];
extern ngx_http_mcds_status_field_t  ngx_http_mcds_status_answers[];
extern ngx_http_mcds_status_field_t  ngx_http_mcds_status_errors[];
extern ngx_http_mcds_status_field_t  ngx_http_mcds_status_lost[];

/* the two histograms: sum, buckets, bounds but the last, and their number */

typedef struct {
    uint64_t                 sum;
    uint64_t                *buckets;
    ngx_uint_t              *bounds;
    ngx_uint_t               n;
    ngx_uint_t               unit;      /* in a second */
} ngx_http_mcds_status_times_t;

void ngx_http_mcds_status_times(ngx_http_mcds_status_times_t *times,
    ngx_http_mcds_status_group_t *group, ngx_mcds_stat_totals_t *totals);


/*
 * Which format is wanted.  format: by its word, NONE: there is no such.
 * wanted: by the argument "format", or by Accept; NONE: it is not to be had.
 * fixed: what the configuration allows.
 */

typedef enum {
    NGX_HTTP_MCDS_STATUS_JSON = 0,
    NGX_HTTP_MCDS_STATUS_PROMETHEUS,
    NGX_HTTP_MCDS_STATUS_HTML,
    NGX_HTTP_MCDS_STATUS_AUTO,
    NGX_HTTP_MCDS_STATUS_NONE
} ngx_http_mcds_status_format_e;

ngx_uint_t ngx_http_mcds_status_format(ngx_str_t *word);
ngx_uint_t ngx_http_mcds_status_wanted(ngx_http_request_t *r,
    ngx_uint_t fixed);


/* another host of the site, and where its mcds_status is on this one */

typedef struct {
    ngx_str_t                name;
    ngx_str_t                uri;
} ngx_http_mcds_status_host_t;


/*
 * The formats.  stats is NULL if there are none.  hosts: of
 * ngx_http_mcds_status_host_t, or NULL.  past: with the last hour, as
 * "history":[...].  html: answers the request (its body was discarded) all by
 * itself, returns as a content handler does; what is fixed decides whether it
 * offers other formats.
 */

void ngx_http_mcds_status_json(ngx_http_mcds_status_text_t *text,
    ngx_mcds_stats_t *stats, ngx_array_t *hosts, ngx_uint_t past);
void ngx_http_mcds_status_prometheus(ngx_http_mcds_status_text_t *text,
    ngx_mcds_stats_t *stats);
ngx_int_t ngx_http_mcds_status_html(ngx_http_request_t *r, ngx_uint_t fixed);


/* answers the request with the text, which is not empty, if it is whole */

ngx_int_t ngx_http_mcds_status_send(ngx_http_request_t *r,
    ngx_http_mcds_status_text_t *text, ngx_uint_t status, char *type);


/* the hottest keys, as "hot":{...} */

void ngx_http_mcds_status_hot(ngx_http_mcds_status_text_t *text);


extern ngx_module_t  ngx_http_mcds_status_module;


#endif /* _NGX_HTTP_MCDS_STATUS_H_INCLUDED_ */

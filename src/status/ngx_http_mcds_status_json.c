
/*
 * Copyright (C) mcds authors
 *
 * The statistics as JSON, with the names of docs/reference/status.md.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <nginx.h>
#include "ngx_mcds_json.h"
#include "ngx_mcds_past.h"
#include "ngx_http_mcds_status.h"


static void ngx_http_mcds_status_hosts(ngx_http_mcds_status_text_t *text,
    ngx_array_t *hosts);
static void ngx_http_mcds_status_past(ngx_http_mcds_status_text_t *text);
static ngx_http_mcds_status_group_t *ngx_http_mcds_status_latency_group(void);
static void ngx_http_mcds_status_name(ngx_http_mcds_status_text_t *text,
    ngx_str_t *name);
static void ngx_http_mcds_status_fields(ngx_http_mcds_status_text_t *text,
    char *name, ngx_http_mcds_status_field_t *field,
    ngx_mcds_stat_totals_t *totals);
static void ngx_http_mcds_status_group(ngx_http_mcds_status_text_t *text,
    ngx_http_mcds_status_group_t *group, ngx_mcds_stat_totals_t *totals);
static void ngx_http_mcds_status_reasons(ngx_http_mcds_status_text_t *text,
    ngx_http_mcds_status_group_t *group, ngx_mcds_stat_totals_t *totals);
static void ngx_http_mcds_status_histogram(ngx_http_mcds_status_text_t *text,
    ngx_http_mcds_status_group_t *group, ngx_mcds_stat_totals_t *totals);
static void ngx_http_mcds_status_pools(ngx_http_mcds_status_text_t *text,
    ngx_mcds_stats_t *stats);
static void ngx_http_mcds_status_server(ngx_http_mcds_status_text_t *text,
    ngx_mcds_stat_t *stat);
static void ngx_http_mcds_status_connections(ngx_http_mcds_status_text_t *text,
    ngx_mcds_stat_totals_t *totals);
static void ngx_http_mcds_status_breaker(ngx_http_mcds_status_text_t *text,
    ngx_mcds_stat_t *stat, ngx_mcds_stat_totals_t *totals);
static void ngx_http_mcds_status_usage(ngx_http_mcds_status_text_t *text,
    ngx_mcds_stat_totals_t *totals);
static void ngx_http_mcds_status_moment(ngx_http_mcds_status_text_t *text,
    char *name, uint64_t time);
static void ngx_http_mcds_status_list(ngx_http_mcds_status_text_t *text,
    ngx_mcds_stats_t *stats, ngx_uint_t family);
static void ngx_http_mcds_status_entry(ngx_http_mcds_status_text_t *text,
    ngx_mcds_stat_t *stat);


#define ngx_http_mcds_status_kind(name, word)  word,

static char  *ngx_http_mcds_status_kinds[] = {
    NGX_MCDS_KIND_LIST(ngx_http_mcds_status_kind)
};


void
ngx_http_mcds_status_json(ngx_http_mcds_status_text_t *text,
    ngx_mcds_stats_t *stats, ngx_array_t *hosts, ngx_uint_t past)
{
    ngx_uint_t   i;
    ngx_time_t  *tp;

    tp = ngx_timeofday();

    ngx_http_mcds_status_printf(text,
        "{\"version\":\"" NGX_MCDS_VERSION "\","
        "\"nginx\":\"" NGINX_VERSION "\","
        "\"time\":%T.%03ui,", tp->sec, (ngx_uint_t) tp->msec);

    ngx_http_mcds_status_printf(text,
        "\"since\":%T,\"loaded\":%T,\"generation\":%ui,"
        "\"workers\":%ui,\"worker\":%ui,\"pid\":%P,",
        stats ? stats->since : tp->sec, stats ? stats->loaded : tp->sec,
        stats ? stats->generation : 1, stats ? stats->workers : 1,
        ngx_worker, ngx_pid);

    ngx_http_mcds_status_printf(text,
        "\"memory\":{\"unsent\":%uz,\"storing\":%uz,\"pages\":%uz},",
        ngx_mcds_memory.unsent, ngx_mcds_memory.storing,
        ngx_mcds_memory.pages);

    ngx_http_mcds_status_printf(text, "\"pools\":[");

    if (stats) {
        ngx_http_mcds_status_pools(text, stats);
    }

    ngx_http_mcds_status_printf(text, "]");

    for (i = NGX_MCDS_STAT_ZONES; i < NGX_MCDS_STAT_FAMILIES; i++) {
        ngx_http_mcds_status_list(text, stats, i);
    }

    ngx_http_mcds_status_printf(text, ",");
    ngx_http_mcds_status_hotkeys(text);

    if (hosts) {
        ngx_http_mcds_status_hosts(text, hosts);
    }

    if (past) {
        ngx_http_mcds_status_past(text);
    }

    ngx_http_mcds_status_printf(text, "}\n");
}


static void
ngx_http_mcds_status_hosts(ngx_http_mcds_status_text_t *text,
    ngx_array_t *hosts)
{
    ngx_uint_t                    i;
    ngx_http_mcds_status_host_t  *host;

    host = hosts->elts;

    for (i = 0; i < hosts->nelts; i++) {
        ngx_http_mcds_status_printf(text, i ? ",{\"name\":"
                                            : ",\"hosts\":[{\"name\":");
        ngx_http_mcds_status_name(text, &host[i].name);

        ngx_http_mcds_status_printf(text, ",\"uri\":");
        ngx_http_mcds_status_name(text, &host[i].uri);

        ngx_http_mcds_status_printf(text, "}");
    }

    ngx_http_mcds_status_printf(text, "]");
}


/*
 * appends the member "history" to the JSON, an array of samples from the last
 * hour; statistics have the same names there as elsewhere in the JSON
 */

static void
ngx_http_mcds_status_past(ngx_http_mcds_status_text_t *text)
{
    char                          *comma;
    uint32_t                       set;
    uint64_t                       time;
    ngx_uint_t                     i;
    ngx_mcds_stat_totals_t         caches, servers;
    ngx_http_mcds_status_group_t  *group;

    ngx_http_mcds_status_printf(text, ",\"history\":[");

    comma = "";

    for (i = 0; ngx_mcds_past && i < NGX_MCDS_PAST_SAMPLES; i++) {

        if (ngx_mcds_past_read(ngx_mcds_past, i, &time, &set, &caches,
                               &servers)
            != NGX_OK)
        {
            continue;
        }

        ngx_http_mcds_status_printf(text, "%s{\"time\":%uL,\"set\":%uD,", comma,
                                    time, set);
        comma = ",";

        group = ngx_http_mcds_status_families[NGX_MCDS_STAT_ZONES].groups;

        for ( /* void */ ; group->kind != NGX_HTTP_MCDS_STATUS_END; group++) {

            if (ngx_strcmp(group->name, "requests") == 0
                || ngx_strcmp(group->name, "origin") == 0
                || ngx_strcmp(group->name, "built") == 0)
            {
                ngx_http_mcds_status_group(text, group, &caches);
                ngx_http_mcds_status_printf(text, ",");
            }
        }

        ngx_http_mcds_status_histogram(text,
                                       ngx_http_mcds_status_latency_group(),
                                       &servers);
        ngx_http_mcds_status_printf(text, "}");
    }

    ngx_http_mcds_status_printf(text, "]");
}


static ngx_http_mcds_status_group_t *
ngx_http_mcds_status_latency_group(void)
{
    ngx_http_mcds_status_group_t  *group;

    group = ngx_http_mcds_status_families[NGX_MCDS_STAT_SERVERS].groups;

    while (group->kind != NGX_HTTP_MCDS_STATUS_LATENCY) {
        group++;
    }

    return group;
}


static void
ngx_http_mcds_status_pools(ngx_http_mcds_status_text_t *text,
    ngx_mcds_stats_t *stats)
{
    ngx_str_t         *pool;
    ngx_uint_t         i;
    ngx_array_t       *servers;
    ngx_mcds_stat_t  **stat;

    servers = &stats->families[NGX_MCDS_STAT_SERVERS];
    stat = servers->elts;
    pool = NULL;

    /*
     * the servers of one pool follow each other in the list of the statistics
     * of servers
     */

    for (i = 0; i < servers->nelts; i++) {

        if (pool && pool->len == stat[i]->pool.len
            && ngx_memcmp(pool->data, stat[i]->pool.data, pool->len) == 0)
        {
            ngx_http_mcds_status_printf(text, ",");

        } else {
            ngx_http_mcds_status_printf(text, pool ? "]},{\"name\":"
                                                   : "{\"name\":");
            pool = &stat[i]->pool;

            ngx_http_mcds_status_name(text, pool);
            ngx_http_mcds_status_printf(text, ",\"servers\":[");
        }

        ngx_http_mcds_status_server(text, stat[i]);
    }

    if (pool) {
        ngx_http_mcds_status_printf(text, "]}");
    }
}


static void
ngx_http_mcds_status_server(ngx_http_mcds_status_text_t *text,
    ngx_mcds_stat_t *stat)
{
    ngx_mcds_stat_totals_t  totals;

    ngx_http_mcds_status_printf(text, "{\"name\":");
    ngx_http_mcds_status_name(text, &stat->name);

    if (ngx_mcds_stat_read(stat, &totals) != NGX_OK) {
        ngx_http_mcds_status_printf(text, ",\"statistics\":false}");
        return;
    }

    ngx_http_mcds_status_printf(text, ",\"statistics\":true,");

    ngx_http_mcds_status_fields(text, "operations",
                                ngx_http_mcds_status_operations, &totals);

    ngx_http_mcds_status_printf(text,
                                ",\"hits\":%uL,\"misses\":%uL,"
                                "\"pending\":%uL,",
                                totals.sums[NGX_MCDS_STAT_HITS],
                                totals.sums[NGX_MCDS_STAT_MISSES],
                                totals.pending);

    ngx_http_mcds_status_fields(text, "answers", ngx_http_mcds_status_answers,
                                &totals);
    ngx_http_mcds_status_printf(text, ",");
    ngx_http_mcds_status_fields(text, "errors", ngx_http_mcds_status_errors,
                                &totals);

    ngx_http_mcds_status_printf(text, ",");
    ngx_http_mcds_status_histogram(text, ngx_http_mcds_status_latency_group(),
                                   &totals);

    ngx_http_mcds_status_connections(text, &totals);

    ngx_http_mcds_status_printf(text,
                                "\"bytes\":{\"sent\":%uL,\"received\":%uL}",
                                totals.sums[NGX_MCDS_STAT_SENT],
                                totals.sums[NGX_MCDS_STAT_RECEIVED]);

    ngx_http_mcds_status_usage(text, &totals);
    ngx_http_mcds_status_breaker(text, stat, &totals);

    ngx_http_mcds_status_printf(text, "}");
}


static void
ngx_http_mcds_status_connections(ngx_http_mcds_status_text_t *text,
    ngx_mcds_stat_totals_t *totals)
{
    ngx_http_mcds_status_printf(text,
                                ",\"connections\":{\"open\":%uL,"
                                "\"opened\":%uL,",
                                totals->connections,
                                totals->sums[NGX_MCDS_STAT_CONNECTS]);

    ngx_http_mcds_status_fields(text, "lost", ngx_http_mcds_status_lost,
                                totals);
    ngx_http_mcds_status_printf(text, "},");
}


/*
 * appends the use of a memcached server's memory to the JSON; null if the
 * server was not asked for the use of its memory, or has not replied yet
 */

static void
ngx_http_mcds_status_usage(ngx_http_mcds_status_text_t *text,
    ngx_mcds_stat_totals_t *totals)
{
    if (totals->usage[NGX_MCDS_USAGE_TIME] == 0) {
        ngx_http_mcds_status_printf(text, ",\"memory\":null");
        return;
    }

    ngx_http_mcds_status_printf(text,
                                ",\"memory\":{\"time\":%uL,\"bytes\":%uL,"
                                "\"limit\":%uL,\"items\":%uL,"
                                "\"evictions\":%uL}",
                                totals->usage[NGX_MCDS_USAGE_TIME],
                                totals->usage[NGX_MCDS_USAGE_BYTES],
                                totals->usage[NGX_MCDS_USAGE_LIMIT],
                                totals->usage[NGX_MCDS_USAGE_ITEMS],
                                totals->usage[NGX_MCDS_USAGE_EVICTIONS]);
}


static void
ngx_http_mcds_status_breaker(ngx_http_mcds_status_text_t *text,
    ngx_mcds_stat_t *stat, ngx_mcds_stat_totals_t *totals)
{
    ngx_http_mcds_status_printf(text,
                                ",\"breaker\":{\"state\":\"%s\","
                                "\"open_workers\":%uL,",
                                stat->disabled ? "disabled"
                                               : totals->open ? "open"
                                                              : "closed",
                                totals->open);

    ngx_http_mcds_status_moment(text, "open_since", totals->open_since);
    ngx_http_mcds_status_moment(text, "next_probe", totals->retry);

    ngx_http_mcds_status_printf(text, "\"openings\":%uL,\"probes\":%uL}",
                                totals->sums[NGX_MCDS_STAT_BREAKS],
                                totals->sums[NGX_MCDS_STAT_PROBES]);
}


/*
 * appends a time of a memcached server's circuit breaker to the JSON, such as
 * that of the next probe; null: the server is up and has no such time
 */

static void
ngx_http_mcds_status_moment(ngx_http_mcds_status_text_t *text, char *name,
    uint64_t time)
{
    if (time) {
        ngx_http_mcds_status_printf(text, "\"%s\":%uL,", name, time);

    } else {
        ngx_http_mcds_status_printf(text, "\"%s\":null,", name);
    }
}


/*
 * appends the statistics of a family to the JSON, such as those of all caches:
 * ,"caches":[{...},{...}]
 */

static void
ngx_http_mcds_status_list(ngx_http_mcds_status_text_t *text,
    ngx_mcds_stats_t *stats, ngx_uint_t family)
{
    ngx_uint_t         i;
    ngx_mcds_stat_t  **stat;

    ngx_http_mcds_status_printf(text, ",\"%s\":[",
                                ngx_mcds_stat_family(family));

    if (stats) {
        stat = stats->families[family].elts;

        for (i = 0; i < stats->families[family].nelts; i++) {
            ngx_http_mcds_status_printf(text, i ? ",{" : "{");
            ngx_http_mcds_status_entry(text, stat[i]);
            ngx_http_mcds_status_printf(text, "}");
        }
    }

    ngx_http_mcds_status_printf(text, "]");
}


static void
ngx_http_mcds_status_entry(ngx_http_mcds_status_text_t *text,
    ngx_mcds_stat_t *stat)
{
    ngx_mcds_stat_totals_t         totals;
    ngx_http_mcds_status_group_t  *group;

    ngx_http_mcds_status_printf(text, "\"name\":");
    ngx_http_mcds_status_name(text, &stat->name);

    if (ngx_http_mcds_status_families[stat->family].pools) {
        ngx_http_mcds_status_printf(text, ",\"pool\":");
        ngx_http_mcds_status_name(text, &stat->pool);
    }

    if (stat->family == NGX_MCDS_STAT_COUNTERS) {
        ngx_http_mcds_status_printf(text, ",\"type\":\"%s\"",
                                    ngx_http_mcds_status_kinds[stat->kind]);
    }

    if (ngx_mcds_stat_read(stat, &totals) != NGX_OK) {
        ngx_http_mcds_status_printf(text, ",\"statistics\":false");
        return;
    }

    ngx_http_mcds_status_printf(text, ",\"statistics\":true");

    group = ngx_http_mcds_status_families[stat->family].groups;

    for ( /* void */ ; group->kind != NGX_HTTP_MCDS_STATUS_END; group++) {
        ngx_http_mcds_status_printf(text, ",");
        ngx_http_mcds_status_group(text, group, &totals);
    }
}


static void
ngx_http_mcds_status_group(ngx_http_mcds_status_text_t *text,
    ngx_http_mcds_status_group_t *group, ngx_mcds_stat_totals_t *totals)
{
    switch (group->kind) {

    case NGX_HTTP_MCDS_STATUS_SUM:
        ngx_http_mcds_status_printf(text, "\"%s\":%uL", group->name,
                                    totals->sums[group->index]);
        break;

    case NGX_HTTP_MCDS_STATUS_GROUP:
        ngx_http_mcds_status_fields(text, group->name, group->fields, totals);
        break;

    case NGX_HTTP_MCDS_STATUS_REASONS:
        ngx_http_mcds_status_reasons(text, group, totals);
        break;

    default: /* the kind TIME or LATENCY: the row shows a histogram of times */
        ngx_http_mcds_status_histogram(text, group, totals);
        break;
    }
}


/*
 * appends a group of statistics to the JSON, with a member for each field:
 * "name":{"field":1,"field":2}
 */

static void
ngx_http_mcds_status_fields(ngx_http_mcds_status_text_t *text, char *name,
    ngx_http_mcds_status_field_t *field,
    ngx_mcds_stat_totals_t *totals)
{
    ngx_uint_t  i;

    ngx_http_mcds_status_printf(text, "\"%s\":{", name);

    for (i = 0; field[i].name.len; i++) {
        ngx_http_mcds_status_printf(text, "%s\"%V\":%uL", i ? "," : "",
                                    &field[i].name,
                                    totals->sums[field[i].index]);
    }

    ngx_http_mcds_status_printf(text, "}");
}


static void
ngx_http_mcds_status_reasons(ngx_http_mcds_status_text_t *text,
    ngx_http_mcds_status_group_t *group, ngx_mcds_stat_totals_t *totals)
{
    char        *comma;
    uint64_t     n;
    ngx_uint_t   i;

    ngx_http_mcds_status_printf(text, "\"%s\":{", group->name);

    comma = "";

    for (i = NGX_MCDS_REASON_NONE + 1; i < NGX_MCDS_REASON_LAST; i++) {
        n = totals->sums[group->index + i];

        if (n) {
            ngx_http_mcds_status_printf(text, "%s\"%V\":%uL", comma,
                                        &ngx_mcds_reasons[i], n);
            comma = ",";
        }
    }

    ngx_http_mcds_status_printf(text, "}");
}


static void
ngx_http_mcds_status_histogram(ngx_http_mcds_status_text_t *text,
    ngx_http_mcds_status_group_t *group, ngx_mcds_stat_totals_t *totals)
{
    char                          *unit;
    uint64_t                       n;
    ngx_uint_t                     i;
    ngx_http_mcds_status_times_t   times;

    ngx_http_mcds_status_times(&times, group, totals);

    unit = (times.unit == 1000) ? "ms" : "us";
    n = 0;

    for (i = 0; i < times.n; i++) {
        n += times.buckets[i];
    }

    ngx_http_mcds_status_printf(text,
                                "\"%s\":{\"count\":%uL,\"sum_%s\":%uL,"
                                "\"le_%s\":{", group->name, n, unit,
                                times.sum, unit);
    n = 0;

    for (i = 0; i < times.n - 1; i++) {
        n += times.buckets[i];

        ngx_http_mcds_status_printf(text, "%s\"%ui\":%uL", i ? "," : "",
                                    times.bounds[i], n);
    }

    ngx_http_mcds_status_printf(text, "}}");
}


static void
ngx_http_mcds_status_name(ngx_http_mcds_status_text_t *text, ngx_str_t *name)
{
    u_char  *p;

    p = ngx_http_mcds_status_room(text, ngx_mcds_json_string(NULL, name) + 2);
    if (p == NULL) {
        return;
    }

    *p++ = '"';
    p = (u_char *) ngx_mcds_json_string(p, name);
    *p++ = '"';

    ngx_http_mcds_status_add(text, p);
}

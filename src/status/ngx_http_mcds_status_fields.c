
/*
 * Copyright (C) mcds authors
 *
 * The names of all statistics in JSON and Prometheus.
 * docs/reference/status.md documents them under "mcds_status".
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_status.h"


/*
 * fields for the results of memcached commands, in the statistics of servers,
 * of locks, and of data: counters, logs, arrays and tables
 */

#define ngx_http_mcds_status_server_rc(name, text, word)                      \
    { ngx_string(word), NGX_MCDS_STAT_RESULTS + NGX_MCDS_##name },

#define ngx_http_mcds_status_lock_rc(name, text, word)                        \
    { ngx_string(word), NGX_MCDS_STAT_LOCK_FAILED + NGX_MCDS_##name },

#define ngx_http_mcds_status_data_rc(name, text, word)                        \
    { ngx_string(word), NGX_MCDS_DATA_FAILED + NGX_MCDS_##name },


#define ngx_http_mcds_status_end                                              \
    { NGX_HTTP_MCDS_STATUS_END, NULL, NULL, NULL, NULL, 0, NULL }


/* tables that describe how the statistics of memcached servers are shown */

ngx_http_mcds_status_field_t  ngx_http_mcds_status_operations[] = {
    { ngx_string("get"), NGX_MCDS_STAT_GET },
    { ngx_string("set"), NGX_MCDS_STAT_SET },
    { ngx_string("add"), NGX_MCDS_STAT_ADD },
    { ngx_string("append"), NGX_MCDS_STAT_APPEND },
    { ngx_string("incr"), NGX_MCDS_STAT_INCR },
    { ngx_string("decr"), NGX_MCDS_STAT_DECR },
    { ngx_string("delete"), NGX_MCDS_STAT_DELETE },
    { ngx_string("touch"), NGX_MCDS_STAT_TOUCH },
    { ngx_null_string, 0 }
};


ngx_http_mcds_status_field_t  ngx_http_mcds_status_answers[] = {
    NGX_MCDS_ANSWER_LIST(ngx_http_mcds_status_server_rc)
    { ngx_null_string, 0 }
};


ngx_http_mcds_status_field_t  ngx_http_mcds_status_errors[] = {
    NGX_MCDS_FAILURE_LIST(ngx_http_mcds_status_server_rc)
    { ngx_null_string, 0 }
};


ngx_http_mcds_status_field_t  ngx_http_mcds_status_lost[] = {
    { ngx_string("closed"), NGX_MCDS_STAT_LOST_CLOSED },
    { ngx_string("timeout"), NGX_MCDS_STAT_LOST_TIMEOUT },
    { ngx_string("protocol"), NGX_MCDS_STAT_LOST_PROTOCOL },
    { ngx_string("tls"), NGX_MCDS_STAT_LOST_TLS },
    { ngx_string("refused"), NGX_MCDS_STAT_LOST_REFUSED },
    { ngx_null_string, 0 }
};


static ngx_http_mcds_status_group_t  ngx_http_mcds_status_server_groups[] = {

    { NGX_HTTP_MCDS_STATUS_GROUP, "operations",
      "mcds_server_operations_total", "operation",
      "Operations asked for.",
      0, ngx_http_mcds_status_operations },

    { NGX_HTTP_MCDS_STATUS_SUM, "hits", "mcds_server_hits_total", NULL,
      "Answers to get with a value.",
      NGX_MCDS_STAT_HITS, NULL },

    { NGX_HTTP_MCDS_STATUS_SUM, "misses", "mcds_server_misses_total", NULL,
      "Answers to get without a value.",
      NGX_MCDS_STAT_MISSES, NULL },

    { NGX_HTTP_MCDS_STATUS_GROUP, "answers",
      "mcds_server_answers_total", "answer",
      "Answers of memcached other than errors.",
      0, ngx_http_mcds_status_answers },

    { NGX_HTTP_MCDS_STATUS_GROUP, "errors",
      "mcds_server_errors_total", "error",
      "Operations without what they wanted.",
      0, ngx_http_mcds_status_errors },

    { NGX_HTTP_MCDS_STATUS_LATENCY, "latency",
      "mcds_server_latency_seconds", NULL,
      "Time to the answer of an operation.",
      NGX_MCDS_STAT_LATENCY_SUM, NULL },

    { NGX_HTTP_MCDS_STATUS_SUM, "opened",
      "mcds_server_connections_opened_total", NULL,
      "Connections that were made.",
      NGX_MCDS_STAT_CONNECTS, NULL },

    { NGX_HTTP_MCDS_STATUS_GROUP, "lost",
      "mcds_server_connections_lost_total", "cause",
      "Connections that could not be made or were given up.",
      0, ngx_http_mcds_status_lost },

    { NGX_HTTP_MCDS_STATUS_SUM, "sent", "mcds_server_sent_bytes_total", NULL,
      "Bytes sent, without TLS.",
      NGX_MCDS_STAT_SENT, NULL },

    { NGX_HTTP_MCDS_STATUS_SUM, "received",
      "mcds_server_received_bytes_total", NULL,
      "Bytes received, without TLS.",
      NGX_MCDS_STAT_RECEIVED, NULL },

    { NGX_HTTP_MCDS_STATUS_SUM, "openings",
      "mcds_server_breaker_openings_total", NULL,
      "Times that the breaker opened in a worker.",
      NGX_MCDS_STAT_BREAKS, NULL },

    { NGX_HTTP_MCDS_STATUS_SUM, "probes", "mcds_server_probes_total", NULL,
      "Probes sent while the breaker was open.",
      NGX_MCDS_STAT_PROBES, NULL },

    ngx_http_mcds_status_end
};


/* tables that describe how the statistics of caches are shown */

#define ngx_http_mcds_status_request(name, word)                              \
    { ngx_string(word), NGX_MCDS_ZONE_##name },

#define ngx_http_mcds_status_dry(name, word)                                  \
    { ngx_string(word), NGX_MCDS_ZONE_##name##_DRY },

static ngx_http_mcds_status_field_t  ngx_http_mcds_status_requests[] = {
    NGX_MCDS_STATUS_LIST(ngx_http_mcds_status_request)
    NGX_MCDS_DRY_STATUS_LIST(ngx_http_mcds_status_dry)
    { ngx_null_string, 0 }
};


static ngx_http_mcds_status_field_t  ngx_http_mcds_status_builds[] = {
    { ngx_string("fill"), NGX_MCDS_ZONE_FILL },
    { ngx_string("refresh"), NGX_MCDS_ZONE_REFRESH },
    { ngx_null_string, 0 }
};


#define ngx_http_mcds_status_build(name, word)                                \
    { ngx_string(word), NGX_MCDS_ZONE_BUILT_##name },

static ngx_http_mcds_status_field_t  ngx_http_mcds_status_built[] = {
    NGX_MCDS_BUILD_LIST(ngx_http_mcds_status_build)
    { ngx_null_string, 0 }
};


static ngx_http_mcds_status_field_t  ngx_http_mcds_status_stores[] = {
    { ngx_string("stored"), NGX_MCDS_ZONE_STORED },
    { ngx_string("too_large"), NGX_MCDS_ZONE_TOO_LARGE },
    { ngx_string("evicted_between"), NGX_MCDS_ZONE_EVICTED },
    { ngx_string("changed"), NGX_MCDS_ZONE_CHANGED },
    { ngx_string("failed"), NGX_MCDS_ZONE_STORE_FAILED },
    { ngx_null_string, 0 }
};


static ngx_http_mcds_status_field_t  ngx_http_mcds_status_waits[] = {
    { ngx_string("built"), NGX_MCDS_ZONE_WAIT_BUILT },
    { ngx_string("uncacheable"), NGX_MCDS_ZONE_WAIT_PASS },
    { ngx_string("failed"), NGX_MCDS_ZONE_WAIT_FAILED },
    { ngx_string("takeover"), NGX_MCDS_ZONE_WAIT_TAKEOVER },
    { ngx_string("again"), NGX_MCDS_ZONE_WAIT_AGAIN },
    { ngx_string("timeout"), NGX_MCDS_ZONE_WAIT_TIMEOUT },
    { ngx_string("aborted"), NGX_MCDS_ZONE_WAIT_ABORTED },
    { ngx_string("full"), NGX_MCDS_ZONE_WAIT_FULL },
    { ngx_null_string, 0 }
};


static ngx_http_mcds_status_group_t  ngx_http_mcds_status_zone_groups[] = {

    { NGX_HTTP_MCDS_STATUS_GROUP, "requests",
      "mcds_cache_requests_total", "status",
      "Requests, by $mcds_cache_status.",
      0, ngx_http_mcds_status_requests },

    { NGX_HTTP_MCDS_STATUS_REASONS, "reasons",
      "mcds_cache_reasons_total", "reason",
      "Requests, by $mcds_cache_reason.",
      NGX_MCDS_ZONE_REASONS, NULL },

    { NGX_HTTP_MCDS_STATUS_REASONS, "not_stored",
      "mcds_cache_not_stored_total", "reason",
      "Responses of the origin that were not stored, by reason.",
      NGX_MCDS_ZONE_REFUSED, NULL },

    { NGX_HTTP_MCDS_STATUS_SUM, "origin",
      "mcds_cache_origin_requests_total", NULL,
      "Requests sent to the origin, refreshes included.",
      NGX_MCDS_ZONE_ORIGIN, NULL },

    { NGX_HTTP_MCDS_STATUS_GROUP, "builds",
      "mcds_cache_builds_started_total", "kind",
      "Builds of pages that were begun.",
      0, ngx_http_mcds_status_builds },

    { NGX_HTTP_MCDS_STATUS_GROUP, "built",
      "mcds_cache_builds_total", "result",
      "Builds of pages that have ended.",
      0, ngx_http_mcds_status_built },

    { NGX_HTTP_MCDS_STATUS_TIME, "build_time",
      "mcds_cache_build_seconds", NULL,
      "Time that builds of pages took.",
      NGX_MCDS_ZONE_BUILD_TIME, NULL },

    { NGX_HTTP_MCDS_STATUS_GROUP, "stores",
      "mcds_cache_stores_total", "result",
      "Pages that were to be stored.",
      0, ngx_http_mcds_status_stores },

    { NGX_HTTP_MCDS_STATUS_GROUP, "waits",
      "mcds_cache_waits_total", "result",
      "Requests that waited for another to build a page.",
      0, ngx_http_mcds_status_waits },

    { NGX_HTTP_MCDS_STATUS_TIME, "wait_time",
      "mcds_cache_wait_seconds", NULL,
      "Time that requests waited for another to build a page.",
      NGX_MCDS_ZONE_WAIT_TIME, NULL },

    { NGX_HTTP_MCDS_STATUS_SUM, "backoffs", "mcds_cache_backoffs_total", NULL,
      "Failed builds after which nobody tries for a while.",
      NGX_MCDS_ZONE_BACKOFFS, NULL },

    { NGX_HTTP_MCDS_STATUS_SUM, "bytes_served",
      "mcds_cache_served_bytes_total", NULL,
      "Bytes of bodies from the cache.",
      NGX_MCDS_ZONE_BYTES, NULL },

    { NGX_HTTP_MCDS_STATUS_SUM, "purges", "mcds_cache_purges_total", NULL,
      "Pages, tags and hosts that were purged.",
      NGX_MCDS_ZONE_PURGES, NULL },

    ngx_http_mcds_status_end
};


/*
 * tables that describe how the statistics of counters, locks, logs, arrays and
 * tables are shown
 */

static ngx_http_mcds_status_field_t  ngx_http_mcds_status_failures[] = {
    NGX_MCDS_FAILURE_LIST(ngx_http_mcds_status_data_rc)
    { ngx_string("not_stored"), NGX_MCDS_DATA_FAILED + NGX_MCDS_NOT_STORED },
    { ngx_string("exists"), NGX_MCDS_DATA_FAILED + NGX_MCDS_EXISTS },
    { ngx_null_string, 0 }
};


static ngx_http_mcds_status_field_t  ngx_http_mcds_status_counts[] = {
    { ngx_string("count"), NGX_MCDS_DATA_COUNT },
    { ngx_string("read"), NGX_MCDS_DATA_READ },
    { ngx_null_string, 0 }
};


static ngx_http_mcds_status_group_t  ngx_http_mcds_status_counter_groups[] = {

    { NGX_HTTP_MCDS_STATUS_GROUP, "operations",
      "mcds_counters_operations_total", "operation",
      "What was counted, and numbers and lists that were read alone.",
      0, ngx_http_mcds_status_counts },

    { NGX_HTTP_MCDS_STATUS_SUM, "visitors",
      "mcds_counters_visitors_total", NULL,
      "Visitors that were counted.",
      NGX_MCDS_DATA_VISITORS, NULL },

    { NGX_HTTP_MCDS_STATUS_GROUP, "failures",
      "mcds_counters_failures_total", "error",
      "Requests without their number, attempts with async.",
      0, ngx_http_mcds_status_failures },

    ngx_http_mcds_status_end
};


#define ngx_http_mcds_status_lock(name, word)                                 \
    { ngx_string(word), NGX_MCDS_STAT_LOCK_##name },

static ngx_http_mcds_status_field_t  ngx_http_mcds_status_locked[] = {
    NGX_MCDS_LOCK_LIST(ngx_http_mcds_status_lock)
    { ngx_null_string, 0 }
};


static ngx_http_mcds_status_field_t  ngx_http_mcds_status_looks[] = {
    { ngx_string("read"), NGX_MCDS_STAT_LOCK_READ },
    { ngx_string("renew"), NGX_MCDS_STAT_LOCK_RENEW },
    { ngx_string("release"), NGX_MCDS_STAT_LOCK_RELEASE },
    { ngx_null_string, 0 }
};


static ngx_http_mcds_status_field_t  ngx_http_mcds_status_unlocked[] = {
    NGX_MCDS_FAILURE_LIST(ngx_http_mcds_status_lock_rc)
    { ngx_null_string, 0 }
};


static ngx_http_mcds_status_group_t  ngx_http_mcds_status_lock_groups[] = {

    { NGX_HTTP_MCDS_STATUS_GROUP, "requests",
      "mcds_lock_requests_total", "status",
      "Requests for the lock, by $mcds_lock_status.",
      0, ngx_http_mcds_status_locked },

    { NGX_HTTP_MCDS_STATUS_SUM, "lost", "mcds_lock_lost_total", NULL,
      "Locks that were lost while they were held.",
      NGX_MCDS_STAT_LOCK_LOST, NULL },

    { NGX_HTTP_MCDS_STATUS_TIME, "wait_time",
      "mcds_lock_wait_seconds", NULL,
      "Time that requests waited for the lock.",
      NGX_MCDS_STAT_LOCK_TIME, NULL },

    { NGX_HTTP_MCDS_STATUS_GROUP, "operations",
      "mcds_lock_operations_total", "operation",
      "Requests of mcds_lock_api that read, renew or release.",
      0, ngx_http_mcds_status_looks },

    { NGX_HTTP_MCDS_STATUS_GROUP, "failures",
      "mcds_lock_failures_total", "error",
      "Operations that failed.",
      0, ngx_http_mcds_status_unlocked },

    ngx_http_mcds_status_end
};


static ngx_http_mcds_status_field_t  ngx_http_mcds_status_lines[] = {
    { ngx_string("written"), NGX_MCDS_DATA_WRITTEN },
    { ngx_string("lost"), NGX_MCDS_DATA_LOST },
    { ngx_null_string, 0 }
};


static ngx_http_mcds_status_field_t  ngx_http_mcds_status_log_reads[] = {
    { ngx_string("read"), NGX_MCDS_DATA_READ },
    { ngx_string("follow"), NGX_MCDS_DATA_FOLLOW },
    { ngx_string("write"), NGX_MCDS_DATA_CHANGE },
    { ngx_null_string, 0 }
};


static ngx_http_mcds_status_group_t  ngx_http_mcds_status_log_groups[] = {

    { NGX_HTTP_MCDS_STATUS_GROUP, "lines", "mcds_log_lines_total", "result",
      "Lines that memcached has taken, and those that were lost.",
      0, ngx_http_mcds_status_lines },

    { NGX_HTTP_MCDS_STATUS_GROUP, "operations",
      "mcds_log_operations_total", "operation",
      "Requests of mcds_log_api that read, follow or write.",
      0, ngx_http_mcds_status_log_reads },

    { NGX_HTTP_MCDS_STATUS_GROUP, "failures",
      "mcds_log_failures_total", "error",
      "Attempts to append or read lines that failed.",
      0, ngx_http_mcds_status_failures },

    ngx_http_mcds_status_end
};


static ngx_http_mcds_status_field_t  ngx_http_mcds_status_pushes[] = {
    { ngx_string("read"), NGX_MCDS_DATA_READ },
    { ngx_string("push"), NGX_MCDS_DATA_PUSH },
    { ngx_string("change"), NGX_MCDS_DATA_CHANGE },
    { ngx_null_string, 0 }
};


static ngx_http_mcds_status_group_t  ngx_http_mcds_status_array_groups[] = {

    { NGX_HTTP_MCDS_STATUS_GROUP, "operations",
      "mcds_array_operations_total", "operation",
      "Requests that read, push or change the array.",
      0, ngx_http_mcds_status_pushes },

    { NGX_HTTP_MCDS_STATUS_GROUP, "failures",
      "mcds_array_failures_total", "error",
      "Operations that failed.",
      0, ngx_http_mcds_status_failures },

    ngx_http_mcds_status_end
};


static ngx_http_mcds_status_field_t  ngx_http_mcds_status_gets[] = {
    { ngx_string("get"), NGX_MCDS_DATA_GET },
    { ngx_string("read"), NGX_MCDS_DATA_READ },
    { ngx_string("change"), NGX_MCDS_DATA_CHANGE },
    { ngx_null_string, 0 }
};


static ngx_http_mcds_status_group_t  ngx_http_mcds_status_table_groups[] = {

    { NGX_HTTP_MCDS_STATUS_GROUP, "operations",
      "mcds_table_operations_total", "operation",
      "Requests that look up, read or change elements.",
      0, ngx_http_mcds_status_gets },

    { NGX_HTTP_MCDS_STATUS_SUM, "found", "mcds_table_found_total", NULL,
      "Elements that were looked up and found.",
      NGX_MCDS_DATA_FOUND, NULL },

    { NGX_HTTP_MCDS_STATUS_GROUP, "failures",
      "mcds_table_failures_total", "error",
      "Operations that failed.",
      0, ngx_http_mcds_status_failures },

    ngx_http_mcds_status_end
};


ngx_http_mcds_status_family_t
ngx_http_mcds_status_families[NGX_MCDS_STAT_FAMILIES] = {
    [NGX_MCDS_STAT_SERVERS] =
        { "server", 1, ngx_http_mcds_status_server_groups },
    [NGX_MCDS_STAT_ZONES] =
        { "cache", 0, ngx_http_mcds_status_zone_groups },
    [NGX_MCDS_STAT_COUNTERS] =
        { "counter", 1, ngx_http_mcds_status_counter_groups },
    [NGX_MCDS_STAT_LOCKS] =
        { "lock", 1, ngx_http_mcds_status_lock_groups },
    [NGX_MCDS_STAT_LOGS] =
        { "log", 1, ngx_http_mcds_status_log_groups },
    [NGX_MCDS_STAT_ARRAYS] =
        { "array", 1, ngx_http_mcds_status_array_groups },
    [NGX_MCDS_STAT_TABLES] =
        { "table", 1, ngx_http_mcds_status_table_groups }
};


void
ngx_http_mcds_status_times(ngx_http_mcds_status_times_t *times,
    ngx_http_mcds_status_group_t *group, ngx_mcds_stat_totals_t *totals)
{
    times->sum = totals->sums[group->index];
    times->buckets = &totals->sums[group->index + 1];

    if (group->kind == NGX_HTTP_MCDS_STATUS_LATENCY) {
        times->bounds = ngx_mcds_stat_bounds;
        times->n = NGX_MCDS_STAT_BUCKETS;
        times->unit = 1000000;

    } else {
        times->bounds = ngx_mcds_stat_times;
        times->n = NGX_MCDS_STAT_TIME_BUCKETS;
        times->unit = 1000;
    }
}

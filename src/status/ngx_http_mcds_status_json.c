
/*
 * Copyright (C) mcds authors
 *
 * The statistics as JSON.  The names are those of docs/reference.md.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <nginx.h>
#include "ngx_http_mcds_status.h"


/* no call of printf() writes more, nor has any group of fields more text */
#define NGX_HTTP_MCDS_STATUS_PIECE  1024


typedef struct {
    ngx_str_t                name;
    ngx_uint_t               index;
} ngx_http_mcds_status_field_t;


static void ngx_http_mcds_status_printf(ngx_http_mcds_status_text_t *text,
    const char *fmt, ...);
static void ngx_http_mcds_status_name(ngx_http_mcds_status_text_t *text,
    ngx_str_t *name);
static void ngx_http_mcds_status_fields(ngx_http_mcds_status_text_t *text,
    char *name, ngx_http_mcds_status_field_t *field,
    ngx_mcds_stat_totals_t *totals);
static void ngx_http_mcds_status_pools(ngx_http_mcds_status_text_t *text,
    ngx_mcds_stats_t *stats);
static void ngx_http_mcds_status_server(ngx_http_mcds_status_text_t *text,
    ngx_mcds_stat_t *stat);
static void ngx_http_mcds_status_connections(ngx_http_mcds_status_text_t *text,
    ngx_mcds_stat_totals_t *totals);
static void ngx_http_mcds_status_latency(ngx_http_mcds_status_text_t *text,
    ngx_mcds_stat_totals_t *totals);
static void ngx_http_mcds_status_breaker(ngx_http_mcds_status_text_t *text,
    ngx_mcds_stat_t *stat, ngx_mcds_stat_totals_t *totals);


#define ngx_http_mcds_status_rc(rc)  (NGX_MCDS_STAT_RESULTS + (rc))


static ngx_http_mcds_status_field_t  ngx_http_mcds_status_operations[] = {
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


static ngx_http_mcds_status_field_t  ngx_http_mcds_status_answers[] = {
    { ngx_string("ok"), ngx_http_mcds_status_rc(NGX_MCDS_OK) },
    { ngx_string("not_found"), ngx_http_mcds_status_rc(NGX_MCDS_NOT_FOUND) },
    { ngx_string("not_stored"), ngx_http_mcds_status_rc(NGX_MCDS_NOT_STORED) },
    { ngx_string("exists"), ngx_http_mcds_status_rc(NGX_MCDS_EXISTS) },
    { ngx_null_string, 0 }
};


static ngx_http_mcds_status_field_t  ngx_http_mcds_status_errors[] = {
    { ngx_string("not_numeric"),
      ngx_http_mcds_status_rc(NGX_MCDS_NOT_NUMERIC) },
    { ngx_string("too_large"), ngx_http_mcds_status_rc(NGX_MCDS_TOO_LARGE) },
    { ngx_string("server_error"),
      ngx_http_mcds_status_rc(NGX_MCDS_SERVER_ERROR) },
    { ngx_string("down"), ngx_http_mcds_status_rc(NGX_MCDS_DOWN) },
    { ngx_string("busy"), ngx_http_mcds_status_rc(NGX_MCDS_BUSY) },
    { ngx_string("tls"), ngx_http_mcds_status_rc(NGX_MCDS_TLS) },
    { ngx_string("timeout"), ngx_http_mcds_status_rc(NGX_MCDS_TIMEOUT) },
    { ngx_string("closed"), ngx_http_mcds_status_rc(NGX_MCDS_CLOSED) },
    { ngx_string("protocol"), ngx_http_mcds_status_rc(NGX_MCDS_PROTOCOL) },
    { ngx_null_string, 0 }
};


static ngx_http_mcds_status_field_t  ngx_http_mcds_status_lost[] = {
    { ngx_string("closed"), NGX_MCDS_STAT_LOST_CLOSED },
    { ngx_string("timeout"), NGX_MCDS_STAT_LOST_TIMEOUT },
    { ngx_string("protocol"), NGX_MCDS_STAT_LOST_PROTOCOL },
    { ngx_string("tls"), NGX_MCDS_STAT_LOST_TLS },
    { ngx_string("refused"), NGX_MCDS_STAT_LOST_REFUSED },
    { ngx_null_string, 0 }
};


static ngx_http_mcds_status_field_t  ngx_http_mcds_status_bytes[] = {
    { ngx_string("sent"), NGX_MCDS_STAT_SENT },
    { ngx_string("received"), NGX_MCDS_STAT_RECEIVED },
    { ngx_null_string, 0 }
};


void
ngx_http_mcds_status_json(ngx_http_mcds_status_text_t *text,
    ngx_mcds_stats_t *stats)
{
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

    ngx_http_mcds_status_printf(text, "\"pools\":[");

    if (stats) {
        ngx_http_mcds_status_pools(text, stats);
    }

    ngx_http_mcds_status_printf(text, "],");
    ngx_http_mcds_status_hot(text);
    ngx_http_mcds_status_printf(text, "}\n");
}


static void
ngx_http_mcds_status_pools(ngx_http_mcds_status_text_t *text,
    ngx_mcds_stats_t *stats)
{
    ngx_str_t         *pool;
    ngx_uint_t         i;
    ngx_mcds_stat_t  **stat;

    stat = stats->servers.elts;
    pool = NULL;

    /* servers of a pool follow each other */

    for (i = 0; i < stats->servers.nelts; i++) {

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
                                ",\"hits\":%uA,\"misses\":%uA,"
                                "\"pending\":%uA,",
                                totals.sums[NGX_MCDS_STAT_HITS],
                                totals.sums[NGX_MCDS_STAT_MISSES],
                                totals.pending);

    ngx_http_mcds_status_fields(text, "answers", ngx_http_mcds_status_answers,
                                &totals);
    ngx_http_mcds_status_printf(text, ",");
    ngx_http_mcds_status_fields(text, "errors", ngx_http_mcds_status_errors,
                                &totals);

    ngx_http_mcds_status_latency(text, &totals);
    ngx_http_mcds_status_connections(text, &totals);
    ngx_http_mcds_status_fields(text, "bytes", ngx_http_mcds_status_bytes,
                                &totals);
    ngx_http_mcds_status_breaker(text, stat, &totals);

    ngx_http_mcds_status_printf(text, "}");
}


static void
ngx_http_mcds_status_latency(ngx_http_mcds_status_text_t *text,
    ngx_mcds_stat_totals_t *totals)
{
    ngx_uint_t         i;
    ngx_atomic_uint_t  n;

    n = 0;

    for (i = 0; i < NGX_MCDS_STAT_BUCKETS; i++) {
        n += totals->sums[NGX_MCDS_STAT_LATENCY + i];
    }

    ngx_http_mcds_status_printf(text,
                                ",\"latency\":{\"count\":%uA,\"sum_us\":%uA,"
                                "\"le_us\":{", n,
                                totals->sums[NGX_MCDS_STAT_LATENCY_SUM]);
    n = 0;

    for (i = 0; i < NGX_MCDS_STAT_BUCKETS - 1; i++) {
        n += totals->sums[NGX_MCDS_STAT_LATENCY + i];

        ngx_http_mcds_status_printf(text, "%s\"%ui\":%uA", i ? "," : "",
                                    ngx_mcds_stat_bounds[i], n);
    }

    ngx_http_mcds_status_printf(text, "}}");
}


static void
ngx_http_mcds_status_connections(ngx_http_mcds_status_text_t *text,
    ngx_mcds_stat_totals_t *totals)
{
    ngx_http_mcds_status_printf(text,
                                ",\"connections\":{\"open\":%uA,"
                                "\"opened\":%uA,",
                                totals->connections,
                                totals->sums[NGX_MCDS_STAT_CONNECTS]);

    ngx_http_mcds_status_fields(text, "lost", ngx_http_mcds_status_lost,
                                totals);
    ngx_http_mcds_status_printf(text, "},");
}


static void
ngx_http_mcds_status_breaker(ngx_http_mcds_status_text_t *text,
    ngx_mcds_stat_t *stat, ngx_mcds_stat_totals_t *totals)
{
    ngx_http_mcds_status_printf(text,
                                ",\"breaker\":{\"state\":\"%s\","
                                "\"open_workers\":%uA,",
                                stat->disabled ? "disabled"
                                               : totals->open ? "open"
                                                              : "closed",
                                totals->open);

    if (totals->open) {
        ngx_http_mcds_status_printf(text, "\"open_since\":%uA,",
                                    totals->open_since);

    } else {
        ngx_http_mcds_status_printf(text, "\"open_since\":null,");
    }

    ngx_http_mcds_status_printf(text, "\"openings\":%uA,\"probes\":%uA}",
                                totals->sums[NGX_MCDS_STAT_BREAKS],
                                totals->sums[NGX_MCDS_STAT_PROBES]);
}


/* "name":{"field":1,"field":2} */

static void
ngx_http_mcds_status_fields(ngx_http_mcds_status_text_t *text, char *name,
    ngx_http_mcds_status_field_t *field,
    ngx_mcds_stat_totals_t *totals)
{
    ngx_uint_t  i;

    ngx_http_mcds_status_printf(text, "\"%s\":{", name);

    for (i = 0; field[i].name.len; i++) {
        ngx_http_mcds_status_printf(text, "%s\"%V\":%uA", i ? "," : "",
                                    &field[i].name,
                                    totals->sums[field[i].index]);
    }

    ngx_http_mcds_status_printf(text, "}");
}


static void
ngx_http_mcds_status_name(ngx_http_mcds_status_text_t *text, ngx_str_t *name)
{
    u_char  *p;

    p = ngx_http_mcds_status_room(text, name->len + 2
                                        + ngx_escape_json(NULL, name->data,
                                                          name->len));
    if (p == NULL) {
        return;
    }

    *p++ = '"';
    p = (u_char *) ngx_escape_json(p, name->data, name->len);
    *p++ = '"';

    ngx_http_mcds_status_add(text, p);
}


static void
ngx_http_mcds_status_printf(ngx_http_mcds_status_text_t *text,
    const char *fmt, ...)
{
    u_char   *p;
    va_list   args;

    p = ngx_http_mcds_status_room(text, NGX_HTTP_MCDS_STATUS_PIECE);
    if (p == NULL) {
        return;
    }

    va_start(args, fmt);
    p = ngx_vslprintf(p, p + NGX_HTTP_MCDS_STATUS_PIECE, fmt, args);
    va_end(args);

    ngx_http_mcds_status_add(text, p);
}

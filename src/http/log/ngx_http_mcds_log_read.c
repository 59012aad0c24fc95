
/*
 * Copyright (C) mcds authors
 *
 * mcds_log_api: the lines of a log as an HTTP resource.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_urlencoded.h"
#include "ngx_http_mcds_header.h"
#include "ngx_http_mcds_json.h"
#include "ngx_http_mcds_resource.h"
#include "ngx_http_mcds_stat.h"
#include "ngx_http_mcds_log.h"


/*
 * the number of log lines that a request gets if it has no argument "limit"
 */
#define NGX_HTTP_MCDS_LOG_LIMIT   1000

/*
 * the time of a log line in a request is in milliseconds if it is above this
 * number, otherwise in seconds
 */
#define NGX_HTTP_MCDS_LOG_MSEC    100000000000LL


typedef struct {
    ngx_http_mcds_resource_t  res;
    ngx_http_mcds_log_t      *log;
    ngx_mcds_log_read_t      *read;
    ngx_mcds_log_range_t      range;
    ngx_uint_t                type;
    ngx_uint_t                rc;
    ngx_http_mcds_text_t      text;
    ngx_mcds_log_id_t         id;        /* the id of the last log line in the
                                            response */
} ngx_http_mcds_log_api_t;


static ngx_int_t ngx_http_mcds_log_start(ngx_http_mcds_resource_t *res);
static ngx_int_t ngx_http_mcds_log_time_arg(ngx_http_request_t *r, char *name,
    uint64_t now, uint64_t *time);
static void ngx_http_mcds_log_read_cancel(ngx_http_mcds_resource_t *res);
static void ngx_http_mcds_log_read_done(void *data, ngx_uint_t rc,
    ngx_mcds_log_events_t *events);
static void ngx_http_mcds_log_show(ngx_http_mcds_log_api_t *lr,
    ngx_mcds_log_event_t *event);
static ngx_int_t ngx_http_mcds_log_respond(ngx_http_mcds_resource_t *res);
static ngx_int_t ngx_http_mcds_log_link(ngx_http_mcds_log_api_t *lr);


ngx_int_t
ngx_http_mcds_log_read_handler(ngx_http_request_t *r)
{
    ngx_int_t                   rc;
    ngx_http_mcds_log_conf_t   *lcf;
    ngx_http_mcds_log_api_t    *lr;

    lcf = ngx_http_get_module_loc_conf(r, ngx_http_mcds_log_module);

    rc = ngx_http_mcds_resource_allow(r, NGX_HTTP_GET|NGX_HTTP_HEAD
                                     |NGX_HTTP_POST);
    if (rc != NGX_DECLINED) {
        return rc;
    }

    if (r->method == NGX_HTTP_POST) {
        return ngx_http_mcds_log_post(r, lcf->read->log);
    }

    if (ngx_http_mcds_log_follow_asked(r)) {
        return ngx_http_mcds_log_follow(r, lcf->read->log);
    }

    lr = ngx_http_mcds_resource_create(r, sizeof(ngx_http_mcds_log_api_t));
    if (lr == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    lr->log = lcf->read->log;
    lr->res.respond = ngx_http_mcds_log_respond;
    lr->res.cancel = ngx_http_mcds_log_read_cancel;

    return ngx_http_mcds_resource_begin(&lr->res, ngx_http_mcds_log_start);
}


static ngx_int_t
ngx_http_mcds_log_start(ngx_http_mcds_resource_t *res)
{
    ngx_http_mcds_log_api_t *lr = (ngx_http_mcds_log_api_t *) res;

    char                *detail;
    ngx_int_t            rc;
    ngx_str_t            after;
    ngx_http_request_t  *r;

    r = res->request;

    lr->type = ngx_http_mcds_resource_wants(r);

    if (lr->type == NGX_HTTP_MCDS_OTHER) {
        return ngx_http_mcds_json_problem(r, NGX_HTTP_BAD_REQUEST,
                                          "format must be ndjson or text");
    }

    ngx_str_null(&after);

    rc = ngx_http_mcds_resource_arg(r, "after", &after);

    if (rc == NGX_ERROR) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    rc = ngx_http_mcds_log_range(r, &after, &lr->range, &detail);

    if (rc == NGX_DECLINED) {
        return ngx_http_mcds_json_problem(r, NGX_HTTP_BAD_REQUEST, detail);
    }

    if (rc != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    /*
     * the id from which the client's next request continues if this request
     * finds no log line: the argument "after", or else the end of the time
     * interval, but not a time so recent that late lines may still appear
     */

    lr->id = lr->range.after;

    if (lr->id.time == 0) {
        lr->id.time = ngx_min(lr->range.last,
                              ngx_mcds_now() - NGX_MCDS_LOG_SETTLE)
                      + 1;
    }

    lr->text.pool = res->pool;

    lr->read = ngx_mcds_log_read(&lr->log->log, &lr->range,
                                 ngx_mcds_now(),
                                 ngx_http_mcds_log_read_done, lr);
    if (lr->read == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ngx_mcds_stat_add(lr->log->log.stat, NGX_MCDS_DATA_READ, 1);

    res->waiting++;

    return NGX_DONE;
}


ngx_int_t
ngx_http_mcds_log_range(ngx_http_request_t *r, ngx_str_t *after,
    ngx_mcds_log_range_t *range, char **detail)
{
    uint64_t   now;
    ngx_int_t  rc, n;
    ngx_str_t  limit;

    ngx_memzero(range, sizeof(ngx_mcds_log_range_t));

    now = ngx_mcds_now();

    /*
     * by default, the response leaves out the last moments of the log, in which
     * late lines may still appear
     */

    range->last = now - NGX_MCDS_LOG_SETTLE;
    range->limit = NGX_HTTP_MCDS_LOG_LIMIT;
    range->newest = 1;

    rc = ngx_http_mcds_log_time_arg(r, "first", now, &range->first);

    if (rc == NGX_OK) {
        range->newest = 0;
    }

    if (rc == NGX_OK || rc == NGX_DECLINED) {
        rc = ngx_http_mcds_log_time_arg(r, "last", now, &range->last);
    }

    if (rc == NGX_ABORT) {
        *detail = "first and last must be seconds since 1970, or -seconds "
                  "from now";
        return NGX_DECLINED;
    }

    if (rc == NGX_ERROR) {
        return NGX_ERROR;
    }

    rc = ngx_http_mcds_resource_arg(r, "limit", &limit);

    if (rc == NGX_ERROR) {
        return NGX_ERROR;
    }

    if (rc == NGX_OK) {
        n = ngx_atoi(limit.data, limit.len);

        if (n < 1 || n > NGX_HTTP_MCDS_LOG_MAX) {
            *detail = "limit must be 1 to 10000";
            return NGX_DECLINED;
        }

        range->limit = n;
    }

    if (after->len) {

        if (ngx_mcds_log_id_parse(&range->after, after) != NGX_OK) {
            *detail = "after must be the id of a line";
            return NGX_DECLINED;
        }

        range->newest = 0;
    }

    return NGX_OK;
}


/*
 * reads an argument of the request that is the time of a log line;
 * NGX_DECLINED: the request has no such argument; NGX_ABORT: the argument is
 * not a time
 */

static ngx_int_t
ngx_http_mcds_log_time_arg(ngx_http_request_t *r, char *name, uint64_t now,
    uint64_t *time)
{
    ngx_int_t  rc;
    ngx_str_t  text;

    rc = ngx_http_mcds_resource_arg(r, name, &text);

    return rc == NGX_OK ? ngx_http_mcds_log_time(&text, now, time) : rc;
}


ngx_int_t
ngx_http_mcds_log_time(ngx_str_t *text, uint64_t now, uint64_t *time)
{
    u_char      *p, *last;
    int64_t      n;
    ngx_uint_t   negative, digits, point, more;

    p = text->data;
    last = p + text->len;

    negative = (p < last && *p == '-');
    p += negative;

    n = 0;
    digits = 0;
    point = 0;
    more = 0;

    for ( /* void */ ; p < last; p++) {

        if (*p == '.' && digits && !point) {
            point = 1;
            continue;
        }

        if (*p < '0' || *p > '9') {
            return NGX_ABORT;
        }

        if (point && ++more > 3) {
            continue;
        }

        /*
         * the seconds in the time of a log line are multiplied by 1000 later,
         * and must not overflow
         */

        if (++digits > 15) {
            return NGX_ABORT;
        }

        n = n * 10 + (*p - '0');
    }

    if (digits == 0) {
        return NGX_ABORT;
    }

    if (point || negative || n < NGX_HTTP_MCDS_LOG_MSEC) {

        for ( /* void */ ; more < 3; more++) {
            n *= 10;
        }
    }

    if (negative || n == 0) {
        *time = ((uint64_t) n < now) ? now - n : 0;

    } else {
        *time = n;
    }

    return NGX_OK;
}


static void
ngx_http_mcds_log_read_cancel(ngx_http_mcds_resource_t *res)
{
    ngx_http_mcds_log_api_t *lr = (ngx_http_mcds_log_api_t *) res;

    if (lr->read) {
        ngx_mcds_log_cancel(lr->read);
        lr->read = NULL;

        res->waiting--;
    }
}


static void
ngx_http_mcds_log_read_done(void *data, ngx_uint_t rc,
    ngx_mcds_log_events_t *events)
{
    ngx_http_mcds_log_api_t *lr = data;

    ngx_uint_t  i;

    lr->read = NULL;
    lr->rc = rc;

    if (rc != NGX_MCDS_OK) {
        ngx_http_mcds_stat_failed(lr->log->log.stat, rc);

    } else if (events->n) {

        for (i = 0; i < events->n; i++) {
            ngx_http_mcds_log_show(lr, &events->elts[i]);
        }

        lr->id = events->elts[events->n - 1].id;
    }

    ngx_http_mcds_resource_done(&lr->res);
}


static void
ngx_http_mcds_log_show(ngx_http_mcds_log_api_t *lr,
    ngx_mcds_log_event_t *event)
{
    u_char  *buf, *last;

    if (lr->type == NGX_HTTP_MCDS_TEXT) {
        ngx_http_mcds_text_put(&lr->text, event->line.data, event->line.len);
        ngx_http_mcds_text_put(&lr->text, (u_char *) "\n", 1);
        return;
    }

    buf = ngx_alloc(ngx_http_mcds_log_json_size(event) + 1, ngx_cycle->log);
    if (buf == NULL) {
        lr->text.failed = 1;
        return;
    }

    last = ngx_http_mcds_log_json(buf, event);
    *last++ = LF;

    ngx_http_mcds_text_put(&lr->text, buf, last - buf);

    ngx_free(buf);
}


size_t
ngx_http_mcds_log_json_size(ngx_mcds_log_event_t *event)
{
    return sizeof("{\"time\":.000,\"host\":\"\",\"line\":\"\",\"id\":\"\"}")
           + NGX_INT64_LEN
           + ngx_mcds_json_string(NULL, &event->host)
           + ngx_mcds_json_string(NULL, &event->line)
           + NGX_MCDS_LOG_ID;
}


u_char *
ngx_http_mcds_log_json(u_char *p, ngx_mcds_log_event_t *event)
{
    p = ngx_sprintf(p, "{\"time\":%uL.%03uL,\"host\":\"",
                    event->id.time / 1000, event->id.time % 1000);
    p = (u_char *) ngx_mcds_json_string(p, &event->host);
    p = ngx_cpymem(p, "\",\"line\":\"", sizeof("\",\"line\":\"") - 1);
    p = (u_char *) ngx_mcds_json_string(p, &event->line);
    p = ngx_cpymem(p, "\",\"id\":\"", sizeof("\",\"id\":\"") - 1);
    p = ngx_mcds_log_id_text(p, &event->id);
    *p++ = '"';
    *p++ = '}';

    return p;
}


static ngx_int_t
ngx_http_mcds_log_respond(ngx_http_mcds_resource_t *res)
{
    ngx_http_mcds_log_api_t *lr = (ngx_http_mcds_log_api_t *) res;

    if (lr->rc != NGX_MCDS_OK) {
        return ngx_http_mcds_resource_failed(res->request, lr->rc);
    }

    if (ngx_http_mcds_log_link(lr) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return ngx_http_mcds_text_send(res->request, &lr->text,
                                   lr->type == NGX_HTTP_MCDS_TEXT
                                   ? NGX_HTTP_MCDS_TEXT
                                   : NGX_HTTP_MCDS_NDJSON);
}


/*
 * adds to the response the position in the log from which the client's next
 * request continues: as the header X-Log-Cursor, and as the header Link, which
 * has the other arguments of the request, too
 */

static ngx_int_t
ngx_http_mcds_log_link(ngx_http_mcds_log_api_t *lr)
{
    char                *id;
    u_char              *link, *p;
    ngx_str_t            args, name, value;
    ngx_http_request_t  *r;

    r = lr->res.request;

    id = ngx_http_mcds_log_cursor(r, &lr->id);
    link = ngx_pnalloc(r->pool, sizeof("<?after=>; rel=\"next\"")
                                + NGX_MCDS_LOG_ID + r->args.len + 1);
    if (id == NULL || link == NULL) {
        return NGX_ERROR;
    }

    p = ngx_sprintf(link, "<?after=%s", id);

    args = r->args;

    while (ngx_http_mcds_urlencoded_next(&args, &name, &value) == NGX_OK) {

        /*
         * the header Link leaves out an argument with "<" or ">", which could
         * end the link
         */

        if ((name.len == 5 && ngx_strncmp(name.data, "after", 5) == 0)
            || (name.len == 5 && ngx_strncmp(name.data, "first", 5) == 0)
            || value.data == NULL
            || ngx_strlchr(name.data, value.data + value.len, '<')
            || ngx_strlchr(name.data, value.data + value.len, '>'))
        {
            continue;
        }

        p = ngx_sprintf(p, "&%V=%V", &name, &value);
    }

    (void) ngx_sprintf(p, ">; rel=\"next\"%Z");

    return ngx_http_mcds_header_text(r, "Link", (char *) link);
}


char *
ngx_http_mcds_log_cursor(ngx_http_request_t *r, ngx_mcds_log_id_t *id)
{
    u_char  *text;

    text = ngx_pnalloc(r->pool, NGX_MCDS_LOG_ID + 1);
    if (text == NULL) {
        return NULL;
    }

    *ngx_mcds_log_id_text(text, id) = '\0';

    return ngx_http_mcds_header_text(r, "X-Log-Cursor", (char *) text)
           == NGX_OK ? (char *) text : NULL;
}

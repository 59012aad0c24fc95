
/*
 * Copyright (C) mcds authors
 *
 * mcds_log_api: writes log lines that programs POST; the response is sent when
 * memcached has stored the lines.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_header.h"
#include "ngx_http_mcds_json.h"
#include "ngx_http_mcds_json_lines.h"
#include "ngx_http_mcds_resource.h"
#include "ngx_http_mcds_stat.h"
#include "ngx_http_mcds_log.h"


typedef struct {
    ngx_http_mcds_resource_t  res;
    ngx_http_mcds_log_t      *log;
    uint64_t                  now;
    uint64_t                  time;      /* the time that log lines in the body
                                            of a POST request get if they have
                                            none */
    ngx_mcds_log_event_t     *events;
    ngx_uint_t                n;
    ngx_uint_t                rc;
    ngx_uint_t                taken;
    ngx_mcds_log_id_t         id;        /* the id of the last log line in the
                                            body of the POST request */
} ngx_http_mcds_log_post_t;


static ngx_int_t ngx_http_mcds_log_post_start(ngx_http_mcds_resource_t *res);
static ngx_int_t ngx_http_mcds_log_post_lines(ngx_http_mcds_log_post_t *lp,
    json_t *json);
static ngx_int_t ngx_http_mcds_log_post_event(ngx_http_mcds_log_post_t *lp,
    json_t *json, ngx_mcds_log_event_t *event);
static ngx_int_t ngx_http_mcds_log_post_time(ngx_http_mcds_log_post_t *lp,
    json_t *json, uint64_t *time);
static ngx_int_t ngx_http_mcds_log_post_bounds(ngx_http_mcds_log_post_t *lp,
    uint64_t time);
static ngx_int_t ngx_http_mcds_log_post_put(ngx_http_mcds_log_post_t *lp);
static void ngx_http_mcds_log_post_done(void *data, ngx_uint_t rc,
    ngx_uint_t taken);
static ngx_int_t ngx_http_mcds_log_post_respond(ngx_http_mcds_resource_t *res);
static ngx_int_t ngx_http_mcds_log_post_bad(ngx_http_mcds_log_post_t *lp,
    char *detail);


ngx_int_t
ngx_http_mcds_log_post(ngx_http_request_t *r, ngx_http_mcds_log_t *log)
{
    ngx_http_mcds_log_post_t  *lp;

    ngx_mcds_stat_add(log->log.stat, NGX_MCDS_DATA_CHANGE, 1);

    lp = ngx_http_mcds_resource_create(r, sizeof(ngx_http_mcds_log_post_t));
    if (lp == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    lp->log = log;
    lp->res.respond = ngx_http_mcds_log_post_respond;

    return ngx_http_mcds_resource_begin(&lp->res, ngx_http_mcds_log_post_start);
}


static ngx_int_t
ngx_http_mcds_log_post_start(ngx_http_mcds_resource_t *res)
{
    ngx_http_mcds_log_post_t *lp = (ngx_http_mcds_log_post_t *) res;

    json_t     *json;
    ngx_int_t   rc;
    ngx_str_t   text;

    lp->now = ngx_mcds_now();
    lp->time = lp->now;

    rc = ngx_http_mcds_resource_arg(res->request, "time", &text);

    if (rc == NGX_ERROR) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (rc == NGX_OK) {

        if (ngx_http_mcds_log_time(&text, lp->now, &lp->time) != NGX_OK) {
            return ngx_http_mcds_log_post_bad(lp, NULL);
        }

        rc = ngx_http_mcds_log_post_bounds(lp, lp->time);
        if (rc != NGX_DECLINED) {
            return rc;
        }
    }

    json = ngx_http_mcds_body_array(res, 1, &rc);
    if (json == NULL) {
        return rc;
    }

    rc = ngx_http_mcds_log_post_lines(lp, json);

    if (rc == NGX_DECLINED) {
        rc = lp->n ? ngx_http_mcds_log_post_put(lp)
                   : ngx_http_mcds_json_no_content(res->request);
    }

    /*
     * the log lines point into the JSON, which can be freed, since the writer
     * has copied them
     */

    json_decref(json);

    return rc;
}


/*
 * Reads the log lines of a POST from its body, which is JSON.  Returns
 * NGX_DECLINED if all lines are valid, otherwise the result for the content
 * handler to return, and so do the functions that read one line and its time.
 */

static ngx_int_t
ngx_http_mcds_log_post_lines(ngx_http_mcds_log_post_t *lp, json_t *json)
{
    size_t      i;
    json_t     *value;
    ngx_int_t   rc;

    lp->n = json_array_size(json);

    if (lp->n > NGX_HTTP_MCDS_LOG_MAX) {
        return ngx_http_mcds_json_problem(lp->res.request,
                                          NGX_HTTP_REQUEST_ENTITY_TOO_LARGE,
                                          "there are more than 10000 lines");
    }

    lp->events = ngx_pcalloc(lp->res.pool,
                             (lp->n + 1) * sizeof(ngx_mcds_log_event_t));
    if (lp->events == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    json_array_foreach(json, i, value) {

        rc = ngx_http_mcds_log_post_event(lp, value, &lp->events[i]);
        if (rc != NGX_DECLINED) {
            return rc;
        }
    }

    return NGX_DECLINED;
}


static ngx_int_t
ngx_http_mcds_log_post_event(ngx_http_mcds_log_post_t *lp, json_t *json,
    ngx_mcds_log_event_t *event)
{
    json_t     *time;
    ngx_int_t   rc;
    ngx_str_t  *line;

    time = NULL;
    event->id.time = lp->time;

    if (json_is_object(json)) {

        time = json_object_get(json, "time");

        if (json_object_size(json) != (time ? 2 : 1)) {
            return ngx_http_mcds_log_post_bad(lp, "an object must have 'line'"
                                              " and may have 'time', no more");
        }

        json = json_object_get(json, "line");
    }

    if (!json_is_string(json)) {
        return ngx_http_mcds_log_post_bad(lp, "a line must be a string");
    }

    line = &event->line;

    line->data = (u_char *) json_string_value(json);
    line->len = json_string_length(json);

    if (line->len > NGX_MCDS_LOG_LINE) {
        return ngx_http_mcds_json_problem(lp->res.request,
                                          NGX_HTTP_REQUEST_ENTITY_TOO_LARGE,
                                          "a line is larger than 16 KB");
    }

    if (ngx_strlchr(line->data, line->data + line->len, LF)) {
        return ngx_http_mcds_log_post_bad(lp, "a line must not contain a line "
                                          "feed");
    }

    if (time == NULL) {
        return NGX_DECLINED;
    }

    rc = ngx_http_mcds_log_post_time(lp, time, &event->id.time);

    return rc == NGX_DECLINED
           ? ngx_http_mcds_log_post_bounds(lp, event->id.time) : rc;
}


/* reads the time of a log line; a JSON number is read as if it was a text */

static ngx_int_t
ngx_http_mcds_log_post_time(ngx_http_mcds_log_post_t *lp, json_t *json,
    uint64_t *time)
{
    double      n;
    u_char      buf[NGX_INT64_LEN + sizeof(".000")];
    ngx_str_t   text;

    text.data = (u_char *) json_string_value(json);
    text.len = json_string_length(json);

    if (json_is_integer(json)) {
        text.data = buf;
        text.len = ngx_sprintf(buf, "%L", (int64_t) json_integer_value(json))
                   - buf;

    } else if (json_is_real(json)) {

        n = json_real_value(json);

        /*
         * no log line can have a time of 10^12 s or more before or after the
         * epoch, and the digits of such numbers may not fit into the buffer
         */

        if (n > -1e12 && n < 1e12) {
            text.data = buf;
            text.len = ngx_sprintf(buf, "%.3f", n) - buf;
        }
    }

    return ngx_http_mcds_log_time(&text, lp->now, time) == NGX_OK
           ? NGX_DECLINED : ngx_http_mcds_log_post_bad(lp, NULL);
}


/* checks that the time of a log line is within the time that the log keeps */

static ngx_int_t
ngx_http_mcds_log_post_bounds(ngx_http_mcds_log_post_t *lp, uint64_t time)
{
    u_char          *detail;
    ngx_mcds_log_t  *log;

    log = &lp->log->log;

    switch (ngx_mcds_log_time(log, time, lp->now)) {

    case NGX_OK:
        return NGX_DECLINED;

    case NGX_ABORT:
        return ngx_http_mcds_log_post_bad(lp, "time is in the future");

    default: /* NGX_DECLINED: the log does not keep lines that old */
        break;
    }

    detail = ngx_pnalloc(lp->res.pool, 128);
    if (detail == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    (void) ngx_sprintf(detail, "time is too long ago, the log keeps %uL "
                       "seconds%Z",
                       (uint64_t) log->chunk * log->chunks / 1000);

    return ngx_http_mcds_log_post_bad(lp, (char *) detail);
}


static ngx_int_t
ngx_http_mcds_log_post_put(ngx_http_mcds_log_post_t *lp)
{
    /*
     * the log has no writer in a single process ("master_process off") after a
     * reload
     */

    if (lp->log->poster == NULL
        || ngx_mcds_log_put(lp->log->poster, lp->events, lp->n,
                            ngx_http_mcds_log_post_done, lp)
           != NGX_OK)
    {
        ngx_http_mcds_stat_failed(lp->log->log.stat, NGX_MCDS_BUSY);

        return ngx_http_mcds_resource_failed(lp->res.request, NGX_MCDS_BUSY);
    }

    lp->id = lp->events[lp->n - 1].id;
    lp->res.waiting++;

    return NGX_DONE;
}


static void
ngx_http_mcds_log_post_done(void *data, ngx_uint_t rc, ngx_uint_t taken)
{
    ngx_http_mcds_log_post_t *lp = data;

    lp->rc = rc;
    lp->taken = taken;

    ngx_http_mcds_resource_done(&lp->res);
}


static ngx_int_t
ngx_http_mcds_log_post_respond(ngx_http_mcds_resource_t *res)
{
    ngx_http_mcds_log_post_t *lp = (ngx_http_mcds_log_post_t *) res;

    u_char              *detail;
    ngx_http_request_t  *r;

    r = res->request;

    if (lp->rc == NGX_MCDS_OK) {
        return ngx_http_mcds_log_cursor(r, &lp->id)
               ? ngx_http_mcds_json_no_content(r)
               : NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (lp->taken == 0) {

        if (lp->rc == NGX_MCDS_TOO_LARGE || !ngx_mcds_answered(lp->rc)) {
            return ngx_http_mcds_resource_failed(r, lp->rc);
        }

        if (ngx_http_mcds_header_text(r, "Retry-After", "1") != NGX_OK) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }

        return ngx_http_mcds_json_problem(r, NGX_HTTP_SERVICE_UNAVAILABLE,
                                          "memcached has refused it, no line "
                                          "was stored");
    }

    detail = ngx_pnalloc(r->pool, 128);
    if (detail == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    (void) ngx_sprintf(detail, "memcached has taken the %ui oldest lines, "
                       "%s%Z", lp->taken,
                       lp->rc < NGX_MCDS_TIMEOUT
                       ? "no others"
                       : "of others it is not known");

    return ngx_http_mcds_json_problem(r, NGX_HTTP_SERVICE_UNAVAILABLE,
                                      (char *) detail);
}


static ngx_int_t
ngx_http_mcds_log_post_bad(ngx_http_mcds_log_post_t *lp, char *detail)
{
    return ngx_http_mcds_json_problem(lp->res.request, NGX_HTTP_BAD_REQUEST,
                                      detail ? detail
                                             : "time must be seconds since "
                                               "1970, or -seconds from now");
}

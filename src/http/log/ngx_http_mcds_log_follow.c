
/*
 * Copyright (C) mcds authors
 *
 * mcds_log_api with follow=1: sends log lines as they come, as server-sent
 * events.  If the client asks for older lines, the worker reads these first,
 * and queues newer lines meanwhile; a line that it has read and queued is sent
 * once.  The states of a request that follows a log:
 *
 *    waiting -> reading -> live
 *        |                  ^
 *        +- new lines only -+
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_mcds_log_feed.h"
#include "ngx_http_mcds_header.h"
#include "ngx_http_mcds_json.h"
#include "ngx_http_mcds_resource.h"
#include "ngx_http_mcds_stat.h"
#include "ngx_http_mcds_log.h"
#include "ngx_http_mcds_log_out.h"


/*
 * the maximum number of bytes of log lines that wait for a slow client; further
 * lines are dropped
 */
#define NGX_HTTP_MCDS_FOLLOW_PENDING  (1024 * 1024)

/*
 * the maximum number of batches of new log lines that are queued while older
 * lines are read
 */
#define NGX_HTTP_MCDS_FOLLOW_QUEUE    64

/*
 * milliseconds without a log line after which the client gets a comment of the
 * event stream (a line with ":"), so that the connection stays alive
 */
#define NGX_HTTP_MCDS_FOLLOW_BEAT     15000

/*
 * milliseconds before a failed read of older log lines is repeated: the first
 * pause, which doubles with each further failure, and the longest one
 */
#define NGX_HTTP_MCDS_FOLLOW_PAUSE      1000
#define NGX_HTTP_MCDS_FOLLOW_MAX_PAUSE  4000


typedef enum {
    NGX_HTTP_MCDS_FOLLOW_WAITING = 0,
    NGX_HTTP_MCDS_FOLLOW_READING,
    NGX_HTTP_MCDS_FOLLOW_LIVE
} ngx_http_mcds_follow_e;


typedef struct {
    ngx_http_request_t       *request;
    ngx_http_mcds_log_t      *log;
    ngx_mcds_log_follower_t   follower;
    ngx_mcds_log_read_t      *read;
    ngx_mcds_log_range_t      range;
    ngx_uint_t                state;
    ngx_uint_t                past;       /* 1: the client wants log lines from
                                             before its request, too */
    ngx_msec_t                failed;     /* when the last read of older log
                                             lines failed */
    ngx_msec_t                pause;      /* ms after "failed" until the read of
                                             older log lines is repeated; 0: the
                                             last read has not failed */

    ngx_mcds_log_batch_t     *batches[NGX_HTTP_MCDS_FOLLOW_QUEUE];
    ngx_uint_t                nbatches;

    ngx_mcds_log_event_t     *known;      /* older log lines that the client has
                                             got, and that may come again as
                                             new ones, in the order of their
                                             ids */
    ngx_uint_t                nknown;
    ngx_uint_t                look;       /* the worker numbers its reads of new
                                             log lines: number of the last read
                                             that may return lines which the
                                             client has got as older ones */

    ngx_http_mcds_log_out_t   out;
    ngx_uint_t                dropped;    /* number of log lines that were
                                             dropped, since the client was too
                                             slow */
    ngx_uint_t                rc;         /* the latest result of reading new
                                             lines from memcached; a change to a
                                             failure is told to the client */
} ngx_http_mcds_follow_t;


static ngx_int_t ngx_http_mcds_follow_head(ngx_http_request_t *r);
static ngx_int_t ngx_http_mcds_follow_after(ngx_http_request_t *r,
    ngx_str_t *after);
static void ngx_http_mcds_follow_cleanup(void *data);
static void ngx_http_mcds_follow_leave(ngx_http_mcds_follow_t *follow);
static void ngx_http_mcds_follow_unqueue(ngx_http_mcds_follow_t *follow);
static void ngx_http_mcds_follow_handler(void *data, ngx_uint_t rc,
    ngx_mcds_log_batch_t *batch);
static ngx_int_t ngx_http_mcds_follow_tick(ngx_http_mcds_follow_t *follow,
    ngx_uint_t rc);
static ngx_int_t ngx_http_mcds_follow_batch(ngx_http_mcds_follow_t *follow,
    ngx_mcds_log_batch_t *batch);
static void ngx_http_mcds_follow_past(void *data, ngx_uint_t rc,
    ngx_mcds_log_events_t *events);
static ngx_uint_t ngx_http_mcds_follow_again(ngx_http_mcds_follow_t *follow);
static ngx_int_t ngx_http_mcds_follow_join(ngx_http_mcds_follow_t *follow,
    ngx_mcds_log_events_t *events);
static ngx_int_t ngx_http_mcds_follow_live(ngx_http_mcds_follow_t *follow);
static ngx_int_t ngx_http_mcds_follow_know(ngx_http_mcds_follow_t *follow,
    ngx_mcds_log_events_t *events, ngx_uint_t more);
static ngx_int_t ngx_http_mcds_follow_show(ngx_http_mcds_follow_t *follow,
    ngx_mcds_log_batch_t *batch);
static ngx_int_t ngx_http_mcds_follow_is_known(
    ngx_http_mcds_follow_t *follow, ngx_mcds_log_id_t *id);
static ngx_mcds_value_t *ngx_http_mcds_follow_text(
    ngx_mcds_log_event_t *events, ngx_uint_t n, ngx_mcds_log_id_t *newest,
    ngx_http_mcds_follow_t *follow);
static ngx_int_t ngx_http_mcds_follow_say(ngx_http_mcds_follow_t *follow,
    char *event, ngx_uint_t n);
static void ngx_http_mcds_follow_writer(ngx_http_request_t *r);
static ngx_http_mcds_follow_t *ngx_http_mcds_follow_of(
    ngx_http_request_t *r);


ngx_uint_t
ngx_http_mcds_log_follow_asked(ngx_http_request_t *r)
{
    ngx_str_t  value;

    return ngx_http_arg(r, (u_char *) "follow", 6, &value) == NGX_OK
           && value.len == 1 && value.data[0] == '1';
}


ngx_int_t
ngx_http_mcds_log_follow(ngx_http_request_t *r, ngx_http_mcds_log_t *log)
{
    char                    *detail;
    ngx_int_t                rc;
    ngx_str_t                after, value;
    ngx_pool_cleanup_t      *cln;
    ngx_mcds_log_range_t     range;
    ngx_http_mcds_follow_t  *follow;

    rc = ngx_http_discard_request_body(r);
    if (rc != NGX_OK) {
        return rc;
    }

    if (r != r->main) {
        return ngx_http_mcds_json_problem(r, NGX_HTTP_BAD_REQUEST,
                                          "a subrequest cannot follow");
    }

    if (ngx_http_mcds_follow_after(r, &after) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    detail = "";
    ngx_memzero(&range, sizeof(ngx_mcds_log_range_t));

    rc = ngx_http_mcds_log_range(r, &after, &range, &detail);

    if (rc == NGX_DECLINED) {
        return ngx_http_mcds_json_problem(r, NGX_HTTP_BAD_REQUEST, detail);
    }

    if (rc != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (!range.newest) {

        /*
         * the client gets all log lines since a time or a line: the worker
         * reads them from memcached in steps of NGX_HTTP_MCDS_LOG_MAX lines
         */

        range.limit = NGX_HTTP_MCDS_LOG_MAX;
    }

    cln = ngx_pool_cleanup_add(r->pool, sizeof(ngx_http_mcds_follow_t));
    if (cln == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    follow = cln->data;
    ngx_memzero(follow, sizeof(ngx_http_mcds_follow_t));

    follow->request = r;
    follow->log = log;
    follow->range = range;
    follow->follower.handler = ngx_http_mcds_follow_handler;
    follow->follower.data = follow;
    follow->past = (after.len
                    || ngx_http_arg(r, (u_char *) "first", 5, &value)
                       == NGX_OK
                    || ngx_http_arg(r, (u_char *) "limit", 5, &value)
                       == NGX_OK);

    ngx_http_mcds_log_out_init(&follow->out, r);

    rc = ngx_http_mcds_follow_head(r);

    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) {
        return rc;
    }

    cln->handler = ngx_http_mcds_follow_cleanup;

    if (ngx_mcds_log_follow(&log->log, &follow->follower) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_mcds_stat_add(log->log.stat, NGX_MCDS_DATA_FOLLOW, 1);

    r->read_event_handler = ngx_http_test_reading;
    r->write_event_handler = ngx_http_mcds_follow_writer;

    /*
     * the field "retry:" is sent at once: it also tells the client that it is
     * connected
     */

    if (ngx_handle_read_event(r->connection->read, 0) != NGX_OK
        || ngx_http_mcds_follow_say(follow, "retry: ", 1000) != NGX_OK)
    {
        return NGX_ERROR;
    }

    r->main->count++;

    return NGX_DONE;
}


static ngx_int_t
ngx_http_mcds_follow_head(ngx_http_request_t *r)
{
    /*
     * X-Accel-Buffering: another nginx in front of this one must not buffer the
     * log lines
     */

    if (ngx_http_mcds_header_text(r, "X-Accel-Buffering", "no") != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return ngx_http_mcds_header_send(r, NGX_HTTP_OK, "text/event-stream");
}


/*
 * finds the log line after which a client wants to continue: when it
 * reconnects, it sends the id of the last line that it has seen
 */

static ngx_int_t
ngx_http_mcds_follow_after(ngx_http_request_t *r, ngx_str_t *after)
{
    ngx_int_t         rc;
    ngx_table_elt_t  *h;

    h = ngx_http_mcds_resource_header(r, "last-event-id");

    if (h && h->value.len) {
        *after = h->value;
        return NGX_OK;
    }

    ngx_str_null(after);

    rc = ngx_http_mcds_resource_arg(r, "after", after);

    return (rc == NGX_DECLINED) ? NGX_OK : rc;
}


static void
ngx_http_mcds_follow_cleanup(void *data)
{
    ngx_http_mcds_follow_t *follow = data;

    ngx_http_mcds_follow_leave(follow);
    ngx_http_mcds_follow_unqueue(follow);

    if (follow->known) {
        ngx_free(follow->known);
    }

    ngx_http_mcds_log_out_free(&follow->out);
}


/*
 * Ends the reads of log lines for a client.  This is done before the request is
 * freed, too: nginx may keep the request until a slow client has got all of the
 * response, or lead it to its "post_action".
 */

static void
ngx_http_mcds_follow_leave(ngx_http_mcds_follow_t *follow)
{
    ngx_mcds_log_leave(&follow->follower);

    if (follow->read) {
        ngx_mcds_log_cancel(follow->read);
        follow->read = NULL;
    }
}


static void
ngx_http_mcds_follow_unqueue(ngx_http_mcds_follow_t *follow)
{
    while (follow->nbatches) {
        ngx_mcds_log_batch_unref(follow->batches[--follow->nbatches]);
    }
}


static void
ngx_http_mcds_follow_handler(void *data, ngx_uint_t rc,
    ngx_mcds_log_batch_t *batch)
{
    ngx_http_mcds_follow_t *follow = data;

    ngx_int_t            result;
    ngx_connection_t    *c;
    ngx_http_request_t  *r;

    r = follow->request;

    if (r->post_action) {

        /*
         * the client has left, and nginx has led the request to its
         * "post_action": the request must not be finalized for the log
         */

        ngx_http_mcds_follow_leave(follow);

        return;
    }

    c = r->connection;

    ngx_http_set_log_request(c->log, r);

    if (batch) {
        result = ngx_http_mcds_follow_batch(follow, batch);

    } else {
        result = ngx_http_mcds_follow_tick(follow, rc);
    }

    if (result != NGX_OK) {
        ngx_http_mcds_follow_leave(follow);
        ngx_http_finalize_request(r, (result == NGX_DONE)
                                     ? ngx_http_send_special(r, NGX_HTTP_LAST)
                                     : NGX_ERROR);
    }

    ngx_http_run_posted_requests(c);
}


/*
 * called periodically for each client that follows a log, even if the log has
 * no new line: continues to read older lines, reports failures of memcached,
 * and keeps the connection alive; NGX_DONE: the response ends
 */

static ngx_int_t
ngx_http_mcds_follow_tick(ngx_http_mcds_follow_t *follow, ngx_uint_t rc)
{
    if (ngx_exiting || ngx_terminate) {

        /*
         * the worker exits and ends the response: the client reconnects to
         * another worker
         */

        return NGX_DONE;
    }

    if (rc != follow->rc
        && (follow->state != NGX_HTTP_MCDS_FOLLOW_READING || follow->pause))
    {
        follow->rc = rc;

        if (rc != NGX_MCDS_OK) {
            ngx_http_mcds_stat_failed(follow->log->log.stat, rc);

            if (ngx_http_mcds_follow_say(follow, ": memcached has failed ", 0)
                != NGX_OK)
            {
                return NGX_ERROR;
            }
        }
    }

    if (follow->known
        && ngx_mcds_log_held(&follow->follower) < follow->range.last)
    {
        /*
         * Since newer lines were given to other clients already, or the clock
         * was set back, the read of older lines has also returned lines that
         * the worker still holds back: its next read of new lines may give them
         * to this client again.
         */

        follow->look = ngx_mcds_log_look_count(&follow->follower) + 1;
    }

    if (follow->state == NGX_HTTP_MCDS_FOLLOW_WAITING
        && ngx_mcds_log_ready(&follow->follower))
    {
        if (!follow->past) {
            follow->state = NGX_HTTP_MCDS_FOLLOW_LIVE;

        } else {
            follow->state = NGX_HTTP_MCDS_FOLLOW_READING;
            follow->range.last = ngx_mcds_log_settled(&follow->follower);
        }
    }

    if (follow->state == NGX_HTTP_MCDS_FOLLOW_READING
        && follow->read == NULL
        && ngx_current_msec - follow->failed >= follow->pause
        && ngx_http_mcds_log_out_pending(&follow->out)
           <= NGX_HTTP_MCDS_FOLLOW_PENDING)
    {
        if (follow->pause && follow->nbatches == 0) {

            /*
             * The failed read of the log is repeated.  As no newer lines wait
             * for the client yet, the read may end later than before: at the
             * time before which no more lines can be added to the log.
             */

            follow->range.last = ngx_mcds_log_settled(&follow->follower);
        }

        follow->read = ngx_mcds_log_read(&follow->log->log, &follow->range,
                                         ngx_mcds_now(),
                                         ngx_http_mcds_follow_past, follow);
        if (follow->read == NULL) {
            return NGX_ERROR;
        }
    }

    if (ngx_current_msec - follow->out.sent >= NGX_HTTP_MCDS_FOLLOW_BEAT
        && ngx_http_mcds_log_out_pending(&follow->out) == 0)
    {
        return ngx_http_mcds_follow_say(follow, ":", 0);
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_mcds_follow_batch(ngx_http_mcds_follow_t *follow,
    ngx_mcds_log_batch_t *batch)
{
    switch (follow->state) {

    case NGX_HTTP_MCDS_FOLLOW_WAITING:

        if (follow->past) {

            /*
             * the new log lines are not queued: the read of older lines, which
             * is yet to start, returns them, too
             */
            return NGX_OK;
        }

        follow->state = NGX_HTTP_MCDS_FOLLOW_LIVE;
        break;

    case NGX_HTTP_MCDS_FOLLOW_READING:

        if (follow->nbatches == NGX_HTTP_MCDS_FOLLOW_QUEUE) {
            follow->dropped += batch->events.n;
            return NGX_OK;
        }

        follow->batches[follow->nbatches++] = ngx_mcds_log_batch_ref(batch);

        return NGX_OK;

    default: /* the client has got all older log lines: new ones are sent to it
                at once */
        break;
    }

    return ngx_http_mcds_follow_show(follow, batch);
}


static void
ngx_http_mcds_follow_past(void *data, ngx_uint_t rc,
    ngx_mcds_log_events_t *events)
{
    ngx_http_mcds_follow_t *follow = data;

    ngx_int_t            result;
    ngx_connection_t    *c;
    ngx_http_request_t  *r;

    r = follow->request;

    follow->read = NULL;

    if (r->post_action) {
        ngx_http_mcds_follow_leave(follow);
        return;
    }

    c = r->connection;

    ngx_http_set_log_request(c->log, r);

    if (rc != NGX_MCDS_OK) {
        ngx_http_mcds_stat_failed(follow->log->log.stat, rc);
    }

    if (rc == NGX_MCDS_OK) {
        follow->pause = 0;
        result = ngx_http_mcds_follow_join(follow, events);

    } else {

        if (rc != NGX_MCDS_TOO_LARGE && ngx_http_mcds_follow_again(follow)) {
            return;
        }

        /*
         * the older log lines would be too large at another read, too, or
         * several reads have failed: the client gets the new lines without them
         */

        result = ngx_http_mcds_follow_say(follow, (rc == NGX_MCDS_TOO_LARGE)
                                     ? ": older lines are too large to read "
                                     : ": older lines cannot be read ", 0);

        if (result == NGX_OK) {
            result = ngx_http_mcds_follow_live(follow);
        }
    }

    if (result != NGX_OK) {
        ngx_http_mcds_follow_leave(follow);
        ngx_http_finalize_request(r, NGX_ERROR);
    }

    ngx_http_run_posted_requests(c);
}


/*
 * Called when a read of older log lines has failed.  Returns 1 if the read is
 * to be repeated, after a pause; 0 if several reads in a row have failed and
 * new lines are queued, which would have to wait for the older ones.
 */

static ngx_uint_t
ngx_http_mcds_follow_again(ngx_http_mcds_follow_t *follow)
{
    if (follow->pause == NGX_HTTP_MCDS_FOLLOW_MAX_PAUSE && follow->nbatches) {
        return 0;
    }

    follow->failed = ngx_current_msec;
    follow->pause = ngx_max(follow->pause * 2, NGX_HTTP_MCDS_FOLLOW_PAUSE);
    follow->pause = ngx_min(follow->pause, NGX_HTTP_MCDS_FOLLOW_MAX_PAUSE);

    return 1;
}


static ngx_int_t
ngx_http_mcds_follow_join(ngx_http_mcds_follow_t *follow,
    ngx_mcds_log_events_t *events)
{
    ngx_int_t          rc;
    ngx_uint_t         more;
    ngx_mcds_value_t  *text;

    if (events->n) {
        text = ngx_http_mcds_follow_text(events->elts, events->n,
                                         &events->elts[0].id, NULL);

        more = (!follow->range.newest && events->n == follow->range.limit);

        if (text == NULL
            || ngx_http_mcds_follow_know(follow, events, more) != NGX_OK)
        {
            ngx_mcds_value_unref(text);
            return NGX_ERROR;
        }

        rc = ngx_http_mcds_log_out_send(&follow->out, text);

        ngx_mcds_value_unref(text);

        if (rc != NGX_OK) {
            return rc;
        }

        if (more) {

            /*
             * the periodic call of ngx_http_mcds_follow_tick() reads the next
             * of the older log lines
             */

            follow->range.after = events->elts[events->n - 1].id;

            return NGX_OK;
        }
    }

    return ngx_http_mcds_follow_live(follow);
}


/*
 * Sends the client the new log lines that were queued while it got older lines;
 * from now on, the client gets each new line at once.
 */

static ngx_int_t
ngx_http_mcds_follow_live(ngx_http_mcds_follow_t *follow)
{
    ngx_uint_t  i;

    follow->state = NGX_HTTP_MCDS_FOLLOW_LIVE;

    /*
     * The worker's present read of new log lines may have begun before a line
     * was written that the client has got as an older one.  Then the next read
     * returns this line as a new one; it is the last read that can do so.
     */

    follow->look = ngx_mcds_log_look_count(&follow->follower) + 1;

    for (i = 0; i < follow->nbatches; i++) {
        if (ngx_http_mcds_follow_show(follow, follow->batches[i]) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    ngx_http_mcds_follow_unqueue(follow);

    return NGX_OK;
}


/*
 * Remembers the older log lines that were sent to the client and that a read of
 * new lines may return again.  Older lines are read in steps: all lines of the
 * last step (more = 0) are remembered; of an earlier step, only the lines of
 * the last NGX_MCDS_LOG_LATE milliseconds, and those that are held back.
 */

static ngx_int_t
ngx_http_mcds_follow_know(ngx_http_mcds_follow_t *follow,
    ngx_mcds_log_events_t *events, ngx_uint_t more)
{
    uint64_t               last;
    ngx_uint_t             i, n;
    ngx_mcds_log_event_t  *known;

    i = 0;
    last = ngx_min(follow->range.last, ngx_mcds_log_held(&follow->follower));

    while (more
           && i < events->n
           && events->elts[i].id.time + NGX_MCDS_LOG_LATE < last)
    {
        i++;
    }

    n = events->n - i;

    if (n == 0) {
        return NGX_OK;
    }

    known = ngx_alloc((follow->nknown + n) * sizeof(ngx_mcds_log_event_t),
                      ngx_cycle->log);
    if (known == NULL) {
        return NGX_ERROR;
    }

    if (follow->known) {
        ngx_memcpy(known, follow->known,
                   follow->nknown * sizeof(ngx_mcds_log_event_t));
        ngx_free(follow->known);
    }

    ngx_memcpy(known + follow->nknown, events->elts + i,
               n * sizeof(ngx_mcds_log_event_t));

    follow->known = known;
    follow->nknown += n;

    return NGX_OK;
}


static ngx_int_t
ngx_http_mcds_follow_show(ngx_http_mcds_follow_t *follow,
    ngx_mcds_log_batch_t *batch)
{
    ngx_int_t          rc;
    ngx_mcds_value_t  *text;

    if (follow->known && batch->look > follow->look) {
        ngx_free(follow->known);
        follow->known = NULL;
        follow->nknown = 0;
    }

    if (ngx_http_mcds_log_out_pending(&follow->out)
        > NGX_HTTP_MCDS_FOLLOW_PENDING)
    {
        follow->dropped += batch->events.n;
        return NGX_OK;
    }

    if (follow->dropped) {

        if (ngx_http_mcds_follow_say(follow, "event: dropped\ndata: ",
                                     follow->dropped)
            != NGX_OK)
        {
            return NGX_ERROR;
        }

        follow->dropped = 0;
    }

    if (follow->known) {
        text = ngx_http_mcds_follow_text(batch->events.elts, batch->events.n,
                                         &batch->newest, follow);

    } else {

        if (batch->text == NULL) {
            batch->text = ngx_http_mcds_follow_text(batch->events.elts,
                                                    batch->events.n,
                                                    &batch->newest, NULL);
        }

        text = batch->text ? ngx_mcds_value_ref(batch->text) : NULL;
    }

    if (text == NULL) {
        return NGX_ERROR;
    }

    rc = text->len ? ngx_http_mcds_log_out_send(&follow->out, text) : NGX_OK;

    ngx_mcds_value_unref(text);

    return rc;
}


static ngx_int_t
ngx_http_mcds_follow_is_known(ngx_http_mcds_follow_t *follow,
    ngx_mcds_log_id_t *id)
{
    ngx_int_t   rc;
    ngx_uint_t  first, last, middle;

    first = 0;
    last = follow->nknown;

    while (first < last) {

        middle = (first + last) / 2;

        rc = ngx_mcds_log_id_cmp(id, &follow->known[middle].id);

        if (rc == 0) {
            return 1;
        }

        if (rc < 0) {
            last = middle;

        } else {
            first = middle + 1;
        }
    }

    return 0;
}


/*
 * Writes log lines as server-sent events.  If "follow", a request, is not NULL,
 * leaves out the lines that the request's client already has.  The event of a
 * line that appears late gets the newest id sent so far: with the older id of
 * the line, a client that reconnects would get newer lines again.
 */

static ngx_mcds_value_t *
ngx_http_mcds_follow_text(ngx_mcds_log_event_t *events, ngx_uint_t n,
    ngx_mcds_log_id_t *newest, ngx_http_mcds_follow_t *follow)
{
    size_t              len;
    u_char             *p;
    ngx_uint_t          i;
    ngx_mcds_value_t   *text;
    ngx_mcds_log_id_t   id;

    len = 0;

    for (i = 0; i < n; i++) {
        len += sizeof("id: \ndata: \n\n") + NGX_MCDS_LOG_ID
               + ngx_http_mcds_log_json_size(&events[i]);
    }

    text = ngx_mcds_value_create(len, ngx_cycle->log);
    if (text == NULL) {
        return NULL;
    }

    p = text->data;
    id = *newest;

    if (follow
        && ngx_mcds_log_id_cmp(&follow->known[follow->nknown - 1].id, &id) > 0)
    {
        id = follow->known[follow->nknown - 1].id;
    }

    for (i = 0; i < n; i++) {

        if (follow && ngx_http_mcds_follow_is_known(follow, &events[i].id)) {
            continue;
        }

        if (ngx_mcds_log_id_cmp(&events[i].id, &id) > 0) {
            id = events[i].id;
        }

        p = ngx_cpymem(p, "id: ", 4);
        p = ngx_mcds_log_id_text(p, &id);
        p = ngx_cpymem(p, "\ndata: ", 7);
        p = ngx_http_mcds_log_json(p, &events[i]);
        *p++ = LF;
        *p++ = LF;
    }

    text->len = p - text->data;

    return text;
}


/*
 * sends a comment or a field of the event stream to a client that follows a
 * log, with the number n unless n is 0
 */

static ngx_int_t
ngx_http_mcds_follow_say(ngx_http_mcds_follow_t *follow, char *event,
    ngx_uint_t n)
{
    u_char            *p;
    ngx_int_t          rc;
    ngx_mcds_value_t  *text;

    text = ngx_mcds_value_create(ngx_strlen(event) + NGX_INT_T_LEN + 2,
                                 ngx_cycle->log);
    if (text == NULL) {
        return NGX_ERROR;
    }

    p = ngx_cpymem(text->data, event, ngx_strlen(event));

    if (n) {
        p = ngx_sprintf(p, "%ui", n);
    }

    *p++ = LF;
    *p++ = LF;

    text->len = p - text->data;

    rc = ngx_http_mcds_log_out_send(&follow->out, text);

    ngx_mcds_value_unref(text);

    return rc;
}


static void
ngx_http_mcds_follow_writer(ngx_http_request_t *r)
{
    ngx_event_t             *wev;
    ngx_http_mcds_follow_t  *follow;

    wev = r->connection->write;
    follow = ngx_http_mcds_follow_of(r);

    if (follow == NULL) {
        return;
    }

    if (wev->timedout) {
        ngx_log_error(NGX_LOG_INFO, r->connection->log, NGX_ETIMEDOUT,
                      "client timed out");
        r->connection->timedout = 1;

        ngx_http_mcds_follow_leave(follow);
        ngx_http_finalize_request(r, NGX_HTTP_REQUEST_TIME_OUT);
        return;
    }

    /*
     * the client has read a part of the response: send_timeout begins anew; new
     * log lines alone must not renew it
     */

    if (wev->timer_set && !wev->delayed) {
        ngx_del_timer(wev);
    }

    /*
     * if there is no log line to send, only the write event shows that the
     * client has left
     */

    if (wev->error || ngx_http_mcds_log_out_flush(&follow->out) != NGX_OK) {
        ngx_http_mcds_follow_leave(follow);
        ngx_http_finalize_request(r, NGX_ERROR);
    }
}


static ngx_http_mcds_follow_t *
ngx_http_mcds_follow_of(ngx_http_request_t *r)
{
    ngx_pool_cleanup_t  *cln;

    for (cln = r->pool->cleanup; cln; cln = cln->next) {
        if (cln->handler == ngx_http_mcds_follow_cleanup) {
            return cln->data;
        }
    }

    return NULL;
}

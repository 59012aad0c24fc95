
/*
 * Copyright (C) mcds authors
 *
 * mcds_counter_writeback: counts wait in shared memory (the outbox in
 * mcds_zone) until a batch of them is posted to their destination, a location.
 * One worker of a host at a time owns a destination, and posts at intervals:
 *
 *   own -> open a batch, or resume the open one -> post -> 2xx: ack
 *    |                                  ^                       |
 *    |                                  +--- more counts left --+
 *    +--- no response, or another status: retry the same batch later, in
 *         any worker
 *
 * A batch does not change between its first post and its acknowledgment, and
 * has a name of its own, so that the receiver can detect a duplicate.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_mcds_json.h"
#include "ngx_http_mcds_post.h"
#include "ngx_http_mcds_counter.h"
#include "ngx_http_mcds_writeback.h"


/*
 * milliseconds for the POST requests of mcds_counter_writeback, which send
 * counts to a location: the interval at which a worker that has counts to send
 * checks whether they are due and whether it exits; the interval at which any
 * other worker looks for counts that exited workers have left; the first and
 * the longest delay before a failed request is repeated; the time for which an
 * exiting worker tries to send counts, from its last count on; the interval of
 * messages about lost counts
 */
#define NGX_HTTP_MCDS_WRITEBACK_TICK   500
#define NGX_HTTP_MCDS_WRITEBACK_LOOK   10000
#define NGX_HTTP_MCDS_WRITEBACK_FIRST  1000
#define NGX_HTTP_MCDS_WRITEBACK_LAST   60000
#define NGX_HTTP_MCDS_WRITEBACK_EXIT   5000
#define NGX_HTTP_MCDS_WRITEBACK_SAY    60000

/*
 * bytes of the longest body of a POST request of mcds_counter_writeback, and of
 * the longest element of its JSON array, which is the count of one counter
 */
#define NGX_HTTP_MCDS_WRITEBACK_BODY   (256 * 1024)
#define NGX_HTTP_MCDS_WRITEBACK_ITEM   (6 * NGX_MCDS_OUTBOX_KEY + 64)


static void ngx_http_mcds_writeback_start(ngx_http_mcds_main_conf_t *mmcf);
static void ngx_http_mcds_writeback_stop(void);
static void ngx_http_mcds_writeback_add(ngx_http_mcds_writeback_t *wb,
    ngx_str_t *key, int64_t delta);
static void ngx_http_mcds_writeback_wait(ngx_http_mcds_writeback_t *wb,
    ngx_msec_t wait);
static void ngx_http_mcds_writeback_look(ngx_http_mcds_writeback_t *wb);
static void ngx_http_mcds_writeback_handler(ngx_event_t *ev);
static ngx_uint_t ngx_http_mcds_writeback_leave(
    ngx_http_mcds_writeback_t *wb);
static ngx_uint_t ngx_http_mcds_writeback_newer(
    ngx_http_mcds_writeback_t *wb);
static ngx_uint_t ngx_http_mcds_writeback_due(ngx_http_mcds_writeback_t *wb);
static void ngx_http_mcds_writeback_begin(ngx_http_mcds_writeback_t *wb);
static ngx_uint_t ngx_http_mcds_writeback_collect(
    ngx_http_mcds_writeback_t *wb, ngx_str_t *body);
static ngx_int_t ngx_http_mcds_writeback_post(ngx_http_mcds_writeback_t *wb,
    ngx_str_t *body);
static void ngx_http_mcds_writeback_done(void *data, ngx_uint_t status);
static void ngx_http_mcds_writeback_failed(ngx_http_mcds_writeback_t *wb,
    ngx_uint_t status);
static void ngx_http_mcds_writeback_say(ngx_http_mcds_writeback_t *wb);
static void ngx_http_mcds_writeback_exit(ngx_http_mcds_main_conf_t *mmcf,
    ngx_mcds_outbox_t *outbox, ngx_log_t *log);


ngx_http_mcds_writeback_hooks_t  ngx_http_mcds_writeback_posts = {
    ngx_http_mcds_writeback_add,
    ngx_http_mcds_writeback_start,
    ngx_http_mcds_writeback_exit
};


/*
 * the destinations of mcds_counter_writeback: the locations to which this
 * worker posts counts
 */

static ngx_array_t  *ngx_http_mcds_writeback_started;


static void
ngx_http_mcds_writeback_start(ngx_http_mcds_main_conf_t *mmcf)
{
    ngx_uint_t                       i, generation;
    ngx_http_mcds_writeback_t       *wb, **wbp;
    ngx_http_mcds_writeback_main_t  *wmcf;

    ngx_http_mcds_writeback_stop();

    wmcf = mmcf->main_conf[ngx_http_mcds_writeback_module.ctx_index];
    generation = mmcf->stats.generation;

    ngx_http_mcds_writeback_started = &wmcf->writebacks;

    wbp = wmcf->writebacks.elts;

    for (i = 0; i < wmcf->writebacks.nelts; i++) {
        wb = wbp[i];

        if (ngx_mcds_outbox) {
            wb->account = ngx_mcds_outbox_account(ngx_mcds_outbox,
                                                  NGX_MCDS_OUTBOX_POST,
                                                  &wb->name,
                                                  generation);
        }

        if (wb->account == NULL) {
            ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                          "\"mcds_counter_writeback %V\" in %V:%ui: there is "
                          "no room in \"mcds_zone\", nothing will be posted",
                          &wb->uri, &wb->place.file, wb->place.line);
            continue;
        }

        /*
         * the account, which has the sums of counts to post, is in shared
         * memory and has the generation (number of reloads) of the newest
         * configuration: workers of older configurations leave it to newer
         * workers to post these sums
         */

        wb->generation = generation;

        wb->event.handler = ngx_http_mcds_writeback_handler;
        wb->event.data = wb;
        wb->event.log = ngx_cycle->log;

        if (ngx_mcds_account_dirty(wb->account)) {
            ngx_http_mcds_writeback_wait(wb, 1);

        } else {
            ngx_http_mcds_writeback_look(wb);
        }
    }
}


/*
 * Stops the POST requests of mcds_counter_writeback to the locations of the old
 * configuration, which a single process ("master_process off") still has after
 * a reload.
 */

static void
ngx_http_mcds_writeback_stop(void)
{
    ngx_uint_t                   i;
    ngx_http_mcds_writeback_t   *wb, **wbp;

    if (ngx_http_mcds_writeback_started == NULL) {
        return;
    }

    wbp = ngx_http_mcds_writeback_started->elts;

    for (i = 0; i < ngx_http_mcds_writeback_started->nelts; i++) {
        wb = wbp[i];

        if (wb->request) {
            ngx_http_mcds_post_cancel(wb->request);
        }

        if (wb->event.timer_set) {
            ngx_del_timer(&wb->event);
        }
    }
}


static void
ngx_http_mcds_writeback_add(ngx_http_mcds_writeback_t *wb, ngx_str_t *key,
    int64_t delta)
{
    ngx_mcds_account_t      *account;
    ngx_mcds_outbox_item_t   item;

    if (wb->account == NULL) {
        return;
    }

    if (ngx_exiting && wb->request == NULL) {

        /*
         * after many reloads, another destination of mcds_counter_writeback may
         * have got the account in shared memory that this worker has used
         */

        account = ngx_mcds_outbox_account(ngx_mcds_outbox,
                                          NGX_MCDS_OUTBOX_POST, &wb->name,
                                          wb->generation);
        if (account == NULL) {
            ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                          "\"mcds_counter_writeback %V\": a count is lost: "
                          "there is no room in \"mcds_zone\"", &wb->uri);
            return;
        }

        wb->account = account;
    }

    item.key = *key;
    item.delta = delta;
    item.flags = 0;

    (void) ngx_mcds_outbox_add(ngx_mcds_outbox, wb->account, &item);

    if (ngx_exiting) {

        /*
         * a request that has outlived its configuration has counted, maybe long
         * after this worker was told to exit: this worker posts the count
         * itself, as the workers of the new configuration may exit before they
         * find it
         */

        wb->late = 2;
        wb->give_up = ngx_current_msec + NGX_HTTP_MCDS_WRITEBACK_EXIT;
    }

    ngx_http_mcds_writeback_wait(wb, NGX_HTTP_MCDS_WRITEBACK_TICK);
}


/*
 * starts the timer of ngx_http_mcds_writeback_handler(), which posts counts if
 * they are due; the timer is not cancelable, so that an exiting worker does not
 * end before the timer has expired
 */

static void
ngx_http_mcds_writeback_wait(ngx_http_mcds_writeback_t *wb, ngx_msec_t wait)
{
    if (wb->event.timer_set) {

        if (!wb->event.cancelable) {
            return;
        }

        ngx_del_timer(&wb->event);
    }

    wb->event.cancelable = 0;
    ngx_add_timer(&wb->event, ngx_min(wait, wb->interval));
}


/*
 * Starts the same timer in a worker that has no counts to post.  A worker of an
 * older configuration, or one that was killed, may leave counts that no request
 * tells this worker of.
 */

static void
ngx_http_mcds_writeback_look(ngx_http_mcds_writeback_t *wb)
{
    wb->event.cancelable = 1;
    ngx_add_timer(&wb->event, NGX_HTTP_MCDS_WRITEBACK_LOOK);
}


static void
ngx_http_mcds_writeback_handler(ngx_event_t *ev)
{
    ngx_http_mcds_writeback_t  *wb;

    wb = ev->data;

    if (ngx_mcds_outbox == NULL) {
        return;
    }

    ngx_http_mcds_writeback_say(wb);

    if (ngx_exiting && ngx_http_mcds_writeback_leave(wb)) {
        return;
    }

    if (wb->request) {

        /*
         * a POST request to the location of this mcds_counter_writeback is
         * under way: the worker renews its exclusive right to post the counts
         * for this location
         */

        (void) ngx_mcds_outbox_own(ngx_mcds_outbox, wb->account);

    } else if (ngx_http_mcds_writeback_due(wb)
               && ngx_mcds_outbox_own(ngx_mcds_outbox, wb->account))
    {
        wb->cursor = 0;
        wb->late = ngx_min(wb->late, 1);

        ngx_http_mcds_writeback_begin(wb);
    }

    if (wb->request || ngx_mcds_account_dirty(wb->account)) {
        ngx_http_mcds_writeback_wait(wb, NGX_HTTP_MCDS_WRITEBACK_TICK);

    } else if (!wb->event.timer_set && !ngx_exiting) {
        ngx_http_mcds_writeback_look(wb);
    }
}


/*
 * Returns 1 if an exiting worker may leave counts unposted that are for a
 * location of mcds_counter_writeback.  After a reload, new workers post them.
 * When nginx stops, or a new binary starts with other shared memory, this
 * worker has to post the counts now.
 */

static ngx_uint_t
ngx_http_mcds_writeback_leave(ngx_http_mcds_writeback_t *wb)
{
    if (ngx_http_mcds_writeback_newer(wb)) {

        if (!wb->late) {
            return (wb->request == NULL);
        }

    } else if (!wb->exiting) {
        wb->exiting = 1;
        wb->give_up = ngx_current_msec + NGX_HTTP_MCDS_WRITEBACK_EXIT;
        wb->account->retry = ngx_current_msec;
        wb->account->delay = 0;
    }

    if ((ngx_msec_int_t) (ngx_current_msec - wb->give_up) < 0) {
        return 0;
    }

    if (wb->request) {
        ngx_http_mcds_post_cancel(wb->request);
    }

    return 1;
}


/*
 * returns 1 if workers of a newer configuration post to the same destination of
 * mcds_counter_writeback
 */

static ngx_uint_t
ngx_http_mcds_writeback_newer(ngx_http_mcds_writeback_t *wb)
{
    return wb->account->generation > wb->generation;
}


static ngx_uint_t
ngx_http_mcds_writeback_due(ngx_http_mcds_writeback_t *wb)
{
    ngx_mcds_account_t  *account;

    account = wb->account;

    if (!ngx_mcds_account_dirty(account)) {
        return 0;
    }

    if (account->delay
        && (ngx_msec_int_t) (ngx_current_msec - account->retry) < 0)
    {
        return 0;
    }

    /*
     * counts are posted before the interval of mcds_counter_writeback has
     * passed if the worker exits, if a batch of counts was begun, or if the
     * shared memory for counts is almost full
     */

    return (wb->exiting
            || wb->late
            || account->batch
            || ngx_mcds_outbox_crowded(ngx_mcds_outbox)
            || (ngx_msec_int_t) (ngx_current_msec - account->since)
               >= (ngx_msec_int_t) wb->interval);
}


/*
 * posts the next batch of counts to a destination of mcds_counter_writeback; if
 * there is no count, this worker lets other workers post to this destination
 */

static void
ngx_http_mcds_writeback_begin(ngx_http_mcds_writeback_t *wb)
{
    ngx_str_t            body;
    ngx_uint_t           n;
    ngx_mcds_account_t  *account;

    account = wb->account;

    body.data = ngx_alloc(NGX_HTTP_MCDS_WRITEBACK_BODY, ngx_cycle->log);

    if (body.data == NULL) {
        ngx_http_mcds_writeback_failed(wb, 0);
        return;
    }

    n = ngx_http_mcds_writeback_collect(wb, &body);

    wb->posted = account->batch;

    if (n == 0) {

        /*
         * mcds_counter_writeback has nothing to post: the batch of counts is
         * empty, or all of its sums are 0
         */

        ngx_mcds_outbox_ack(ngx_mcds_outbox, account, wb->posted);
        ngx_mcds_outbox_check(ngx_mcds_outbox, account);

        account->since = ngx_current_msec;

        if (wb->late == 1) {
            wb->late = 0;
        }

        ngx_mcds_outbox_disown(account);

    } else if (ngx_http_mcds_writeback_post(wb, &body) != NGX_OK) {
        ngx_http_mcds_writeback_failed(wb, 0);
    }

    ngx_free(body.data);
}


static ngx_uint_t
ngx_http_mcds_writeback_collect(ngx_http_mcds_writeback_t *wb,
    ngx_str_t *body)
{
    u_char                  *p, *last, key[NGX_MCDS_OUTBOX_KEY];
    ngx_int_t                rc;
    ngx_uint_t               n, fresh, cursor;
    ngx_mcds_outbox_item_t   item;

    fresh = ngx_mcds_outbox_open(ngx_mcds_outbox, wb->account);
    cursor = fresh ? wb->cursor : 0;

    last = body->data + NGX_HTTP_MCDS_WRITEBACK_BODY
           - NGX_HTTP_MCDS_WRITEBACK_ITEM;

    p = body->data;
    *p++ = '[';

    rc = NGX_OK;
    n = 0;

    while ((n < wb->batch || !fresh) && p < last) {

        rc = ngx_mcds_outbox_mark(ngx_mcds_outbox, wb->account, fresh,
                                  &cursor, &item, key);
        if (rc == NGX_DONE) {
            break;
        }

        if (rc == NGX_AGAIN) {
            continue;
        }

        p = ngx_sprintf(p, "%s{\"key\":\"", n ? ",\n" : "");
        p = (u_char *) ngx_mcds_json_string(p, &item.key);
        p = ngx_sprintf(p, "\",\"delta\":%L}", item.delta);

        n++;
    }

    *p++ = ']';
    *p++ = LF;

    body->len = p - body->data;

    /*
     * the next batch of counts that mcds_counter_writeback posts starts in
     * shared memory behind this batch, or, if this batch repeats a POST request
     * that was not confirmed, at the first count
     */

    wb->ended = (fresh && rc == NGX_DONE);
    wb->cursor = fresh ? cursor : 0;

    return n;
}


static ngx_int_t
ngx_http_mcds_writeback_post(ngx_http_mcds_writeback_t *wb, ngx_str_t *body)
{
    u_char                name[NGX_MCDS_OUTBOX_ID * 2 + 1 + NGX_INT64_LEN];
    ngx_http_mcds_post_t  post;

    post.ctx = wb->ctx;
    post.uri = wb->uri;
    post.args = wb->args;
    post.body = *body;
    post.handler = ngx_http_mcds_writeback_done;
    post.data = wb;

    ngx_str_set(&post.type, "application/json");
    ngx_str_set(&post.name, "X-Mcds-Batch");

    post.value.data = name;
    post.value.len = ngx_mcds_outbox_batch_name(ngx_mcds_outbox, wb->posted,
                                                name)
                     - name;

    wb->request = ngx_http_mcds_post(&post);

    return wb->request ? NGX_OK : NGX_ERROR;
}


static void
ngx_http_mcds_writeback_done(void *data, ngx_uint_t status)
{
    ngx_http_mcds_writeback_t *wb = data;

    ngx_mcds_account_t  *account;

    wb->request = NULL;

    if (ngx_mcds_outbox == NULL) {
        return;
    }

    account = wb->account;

    if (status < NGX_HTTP_OK || status >= NGX_HTTP_SPECIAL_RESPONSE) {
        ngx_http_mcds_writeback_failed(wb, status);
        return;
    }

    if (account->delay) {
        account->delay = 0;

        ngx_log_error(NGX_LOG_NOTICE, ngx_cycle->log, 0,
                      "\"mcds_counter_writeback %V\" is answered again",
                      &wb->uri);
    }

    ngx_mcds_outbox_ack(ngx_mcds_outbox, account, wb->posted);

    if (!ngx_mcds_outbox_own(ngx_mcds_outbox, account)) {

        /*
         * this worker has not run for so long that another worker posts the
         * counts for the location of mcds_counter_writeback now, and may be
         * about to make the next batch
         */

        return;
    }

    if (ngx_exiting && ngx_http_mcds_writeback_newer(wb) && !wb->late) {

        /*
         * this worker exits after a reload: workers of the new configuration
         * post the remaining counts to the location of mcds_counter_writeback
         */

        ngx_mcds_outbox_disown(account);
        return;
    }

    if (wb->ended) {
        wb->late = (wb->late == 2) ? 1 : 0;
    }

    if (!wb->ended || wb->exiting || wb->late) {

        /*
         * posts the next batch of counts to the location of
         * mcds_counter_writeback; an exiting worker starts over until no counts
         * are left, or, after a reload, none of its own
         */

        if (wb->ended) {
            wb->cursor = 0;
        }

        ngx_http_mcds_writeback_begin(wb);
        return;
    }

    ngx_mcds_outbox_check(ngx_mcds_outbox, account);

    account->since = ngx_current_msec;

    ngx_mcds_outbox_disown(account);
}


static void
ngx_http_mcds_writeback_failed(ngx_http_mcds_writeback_t *wb,
    ngx_uint_t status)
{
    u_char               answer[sizeof("answered ") + NGX_INT_T_LEN];
    ngx_msec_t           last;
    ngx_mcds_account_t  *account;

    account = wb->account;

    if (wb->late) {
        wb->late = 2;
    }

    if (account->owner != ngx_pid) {

        /*
         * this worker has not run for so long that another worker posts the
         * counts for the location of mcds_counter_writeback, or has posted
         * them: a failed POST of this worker delays no POST of the other one
         */

        return;
    }

    if (account->delay == 0) {
        *ngx_sprintf(answer, "answered %ui", status) = '\0';

        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                      "\"mcds_counter_writeback %V\" %s, it is tried again "
                      "until it answers 2xx", &wb->uri,
                      status ? (char *) answer : "did not answer");
    }

    last = wb->exiting ? NGX_HTTP_MCDS_WRITEBACK_TICK
                       : NGX_HTTP_MCDS_WRITEBACK_LAST;

    account->delay = account->delay ? account->delay * 2
                                    : NGX_HTTP_MCDS_WRITEBACK_FIRST;
    account->delay = ngx_min(account->delay, ngx_min(last, wb->interval));
    account->retry = ngx_current_msec + account->delay;

    ngx_mcds_outbox_disown(account);
}


/*
 * logs how many counts of mcds_counter_writeback were lost, since shared memory
 * had no room for them or a key was too long
 */

static void
ngx_http_mcds_writeback_say(ngx_http_mcds_writeback_t *wb)
{
    uint64_t             lost;
    ngx_mcds_account_t  *account;

    account = wb->account;
    lost = account->lost;

    if (lost == account->said
        || (account->said
            && (ngx_msec_int_t) (ngx_current_msec - account->told)
               < NGX_HTTP_MCDS_WRITEBACK_SAY))
    {
        return;
    }

    ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                  "\"mcds_counter_writeback %V\": counts are lost, %uL: no "
                  "room is left in \"mcds_zone\", or a key is longer than "
                  "%d bytes", &wb->uri, lost - account->said,
                  NGX_MCDS_OUTBOX_KEY);

    account->said = lost;
    account->told = ngx_current_msec;
}


static void
ngx_http_mcds_writeback_exit(ngx_http_mcds_main_conf_t *mmcf,
    ngx_mcds_outbox_t *outbox, ngx_log_t *log)
{
    uint64_t                         left;
    ngx_uint_t                       i;
    ngx_mcds_account_t              *account;
    ngx_http_mcds_writeback_t      **wbp;
    ngx_http_mcds_writeback_main_t  *wmcf;

    wmcf = mmcf->main_conf[ngx_http_mcds_writeback_module.ctx_index];
    wbp = wmcf->writebacks.elts;

    for (i = 0; i < wmcf->writebacks.nelts; i++) {

        account = ngx_mcds_outbox_account(outbox, NGX_MCDS_OUTBOX_POST,
                                          &wbp[i]->name, 0);

        left = account ? ngx_mcds_outbox_forget(outbox, account) : 0;

        if (left) {
            ngx_log_error(NGX_LOG_ERR, log, 0,
                          "\"mcds_counter_writeback %V\": counts are lost, "
                          "%uL: nginx exits before they were posted",
                          &wbp[i]->uri, left);
        }
    }
}

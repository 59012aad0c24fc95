
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_classic.h"
#include "ngx_mcds_exchange.h"


/*
 * the number of times that an operation tries to create a missing counter: if
 * the counter is missing once more, the operation fails
 */
#define NGX_MCDS_CLASSIC_ROUNDS   3


typedef enum {
    NGX_MCDS_STEP_CHECK = 0,      /* the command "gets", to compare the item's
                                     value with the one expected */
    NGX_MCDS_STEP_CHANGE,         /* the command that changes the item, such as
                                     "cas" or "incr" */
    NGX_MCDS_STEP_CREATE,         /* the command "add", which creates a missing
                                     counter */
    NGX_MCDS_STEP_LEARN           /* the command "gets", to learn the CAS value
                                     of the item just stored */
} ngx_mcds_step_e;


typedef struct {
    ngx_queue_t            queue;
    ngx_mcds_server_t     *server;

    /* the caller's operation, which takes several commands (steps) */
    ngx_mcds_op_t         *op;

    ngx_mcds_op_t          step_op;

    ngx_event_t            timer;        /* timeout of the whole operation, set
                                            from its second command on */
    ngx_msec_t             deadline;

    ngx_uint_t             step;         /* the current step of the operation,
                                            of ngx_mcds_step_e */
    ngx_uint_t             rounds;
    ngx_uint_t             changed;      /* 1: a step of the operation has
                                            stored a value */

    /* the request of the operation; its strings follow this struct in memory */
    ngx_mcds_request_t     req;
} ngx_mcds_steps_t;


static ngx_uint_t ngx_mcds_classic_needed(ngx_mcds_pool_t *pool,
    ngx_mcds_request_t *req);
static ngx_mcds_steps_t *ngx_mcds_classic_create(ngx_mcds_server_t *server,
    ngx_mcds_request_t *req);
static u_char *ngx_mcds_classic_copy(u_char *p, ngx_str_t *string);
static void ngx_mcds_classic_free(ngx_mcds_steps_t *steps);
static void ngx_mcds_classic_begin(ngx_mcds_steps_t *steps);
static void ngx_mcds_classic_next(ngx_mcds_steps_t *steps, ngx_uint_t step);
static void ngx_mcds_classic_timer_handler(ngx_event_t *ev);
static void ngx_mcds_classic_answered(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_classic_checked(ngx_mcds_steps_t *steps,
    ngx_mcds_result_t *result);
static void ngx_mcds_classic_changed(ngx_mcds_steps_t *steps,
    ngx_mcds_result_t *result);
static void ngx_mcds_classic_created(ngx_mcds_steps_t *steps,
    ngx_mcds_result_t *result);
static void ngx_mcds_classic_learned(ngx_mcds_steps_t *steps,
    ngx_mcds_result_t *result);
static ngx_uint_t ngx_mcds_classic_same(ngx_mcds_result_t *result,
    u_char *data, size_t len);
static void ngx_mcds_classic_fail(ngx_mcds_steps_t *steps, ngx_uint_t rc);
static void ngx_mcds_classic_done(ngx_mcds_steps_t *steps,
    ngx_mcds_result_t *result);


/* this worker's operations that take several commands (steps) */

static ngx_queue_t  ngx_mcds_classic_queue;


void
ngx_mcds_server_submit(ngx_mcds_server_t *server, ngx_mcds_request_t *req,
    ngx_mcds_op_t *op)
{
    if (server->pool->classic && ngx_mcds_classic_needed(server->pool, req)) {
        ngx_mcds_classic_submit(server, req, op);

    } else {
        ngx_mcds_exchange_submit(server, req, op);
    }
}


/* returns 1 if the classic protocol takes several commands for the request */

static ngx_uint_t
ngx_mcds_classic_needed(ngx_mcds_pool_t *pool, ngx_mcds_request_t *req)
{
    switch (req->verb) {

    case NGX_MCDS_INCR:
    case NGX_MCDS_DECR:
        return !req->update;

    case NGX_MCDS_ADD:
        return (req->want & NGX_MCDS_CAS) != 0;

    case NGX_MCDS_SET:
        return (req->want & NGX_MCDS_CAS) || (req->cas && req->old.len);

    case NGX_MCDS_DELETE:
        return req->cas && (req->old.len || pool->no_ttl);

    default:
        return 0;
    }
}


void
ngx_mcds_classic_submit(ngx_mcds_server_t *server, ngx_mcds_request_t *req,
    ngx_mcds_op_t *op)
{
    ngx_mcds_steps_t  *steps;

    steps = ngx_mcds_classic_create(server, req);

    if (steps == NULL) {
        ngx_mcds_op_fail(op, NGX_MCDS_BUSY);
        return;
    }

    ngx_mcds_op_link(&steps->op, op);

    steps->step_op.handler = ngx_mcds_classic_answered;
    steps->step_op.data = steps;
    steps->step = (req->cas && req->old.len) ? NGX_MCDS_STEP_CHECK
                                             : NGX_MCDS_STEP_CHANGE;

    ngx_mcds_classic_begin(steps);
}


static ngx_mcds_steps_t *
ngx_mcds_classic_create(ngx_mcds_server_t *server, ngx_mcds_request_t *req)
{
    u_char            *p;
    ngx_mcds_steps_t  *steps;

    if (ngx_mcds_classic_queue.next == NULL) {
        ngx_queue_init(&ngx_mcds_classic_queue);
    }

    steps = ngx_alloc(sizeof(ngx_mcds_steps_t) + req->key.len
                      + req->suffix.len + req->text.len + req->old.len,
                      ngx_cycle->log);
    if (steps == NULL) {
        return NULL;
    }

    ngx_memzero(steps, sizeof(ngx_mcds_steps_t));

    steps->server = server;
    steps->deadline = ngx_current_msec + server->pool->timeout;
    steps->req = *req;

    if (req->within && req->within < server->pool->timeout) {
        steps->deadline = ngx_current_msec + req->within;
    }

    p = (u_char *) steps + sizeof(ngx_mcds_steps_t);

    p = ngx_mcds_classic_copy(p, &steps->req.key);
    p = ngx_mcds_classic_copy(p, &steps->req.suffix);
    p = ngx_mcds_classic_copy(p, &steps->req.text);
    (void) ngx_mcds_classic_copy(p, &steps->req.old);

    if (req->value) {
        ngx_mcds_value_ref(req->value);
    }

    ngx_queue_insert_tail(&ngx_mcds_classic_queue, &steps->queue);

    return steps;
}


static u_char *
ngx_mcds_classic_copy(u_char *p, ngx_str_t *string)
{
    if (string->len) {
        ngx_memcpy(p, string->data, string->len);
    }

    string->data = p;

    return p + string->len;
}


static void
ngx_mcds_classic_free(ngx_mcds_steps_t *steps)
{
    ngx_mcds_op_unlink(&steps->op);
    ngx_mcds_cancel(&steps->step_op);

    if (steps->timer.timer_set) {
        ngx_del_timer(&steps->timer);
    }

    ngx_queue_remove(&steps->queue);
    ngx_mcds_value_unref(steps->req.value);
    ngx_free(steps);
}


/* sends the next command of an operation that takes several commands */

static void
ngx_mcds_classic_begin(ngx_mcds_steps_t *steps)
{
    u_char               text[NGX_INT64_LEN];
    ngx_mcds_request_t   req;

    req = steps->req;

    switch (steps->step) {

    case NGX_MCDS_STEP_CHECK:
    case NGX_MCDS_STEP_LEARN:
        req.verb = NGX_MCDS_GET;
        req.want = NGX_MCDS_VALUE|NGX_MCDS_CAS;
        req.value = NULL;
        req.text.len = 0;
        req.limit = 0;

        if (steps->req.value && steps->step == NGX_MCDS_STEP_LEARN) {
            req.limit = steps->req.value->len;
            req.bulk = (req.limit >= NGX_MCDS_BULK);
        }

        break;

    case NGX_MCDS_STEP_CREATE:
        req.verb = NGX_MCDS_ADD;
        req.text.data = text;
        req.text.len = ngx_sprintf(text, "%uL", req.initial) - text;
        break;

    default: /* NGX_MCDS_STEP_CHANGE sends the command that was requested */
        break;
    }

    ngx_mcds_exchange_submit(steps->server, &req, &steps->step_op);
}


static void
ngx_mcds_classic_next(ngx_mcds_steps_t *steps, ngx_uint_t step)
{
    ngx_msec_int_t  left;

    steps->step = step;

    left = (ngx_msec_int_t) (steps->deadline - ngx_current_msec);

    if (left <= 0) {
        ngx_mcds_classic_fail(steps, NGX_MCDS_TIMEOUT);
        return;
    }

    ngx_mcds_classic_begin(steps);

    if (!steps->timer.timer_set) {
        steps->timer.handler = ngx_mcds_classic_timer_handler;
        steps->timer.data = steps;
        steps->timer.log = ngx_cycle->log;

        ngx_add_timer(&steps->timer, left);
    }
}


/*
 * Ends an operation of several commands whose time is over.  The connection is
 * not closed, as other operations on it may still be in time.
 */

static void
ngx_mcds_classic_timer_handler(ngx_event_t *ev)
{
    ngx_mcds_steps_t  *steps;

    steps = ev->data;

    ngx_mcds_classic_fail(steps, NGX_MCDS_TIMEOUT);
}


static void
ngx_mcds_classic_answered(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_steps_t *steps = data;

    switch (steps->step) {

    case NGX_MCDS_STEP_CHECK:
        ngx_mcds_classic_checked(steps, result);
        break;

    case NGX_MCDS_STEP_CHANGE:
        ngx_mcds_classic_changed(steps, result);
        break;

    case NGX_MCDS_STEP_CREATE:
        ngx_mcds_classic_created(steps, result);
        break;

    default: /* NGX_MCDS_STEP_LEARN has read the CAS value of the new item */
        ngx_mcds_classic_learned(steps, result);
        break;
    }
}


static void
ngx_mcds_classic_checked(ngx_mcds_steps_t *steps, ngx_mcds_result_t *result)
{
    if (result->rc == NGX_MCDS_TOO_LARGE
        || (result->rc == NGX_MCDS_OK
            && !ngx_mcds_classic_same(result, steps->req.old.data,
                                      steps->req.old.len)))
    {
        ngx_mcds_classic_fail(steps, NGX_MCDS_EXISTS);
        return;
    }

    if (result->rc != NGX_MCDS_OK) {
        ngx_mcds_classic_fail(steps, result->rc);
        return;
    }

    /*
     * without a CAS value a change of the item between "gets" and the next
     * command would go unnoticed
     */

    if (result->cas == 0) {
        ngx_mcds_classic_fail(steps, NGX_MCDS_SERVER_ERROR);
        return;
    }

    steps->req.cas = result->cas;

    ngx_mcds_classic_next(steps, NGX_MCDS_STEP_CHANGE);
}


static void
ngx_mcds_classic_changed(ngx_mcds_steps_t *steps, ngx_mcds_result_t *result)
{
    ngx_mcds_request_t  *req;

    req = &steps->req;

    if (req->verb == NGX_MCDS_INCR || req->verb == NGX_MCDS_DECR) {

        if (result->rc != NGX_MCDS_NOT_FOUND) {
            ngx_mcds_classic_done(steps, result);
            return;
        }

        if (steps->rounds++ == NGX_MCDS_CLASSIC_ROUNDS) {
            ngx_mcds_classic_fail(steps, NGX_MCDS_NOT_STORED);
            return;
        }

        ngx_mcds_classic_next(steps, NGX_MCDS_STEP_CREATE);
        return;
    }

    if (result->rc == NGX_MCDS_OK
        && req->verb == NGX_MCDS_DELETE
        && req->cas
        && steps->server->pool->no_ttl)
    {
        /*
         * "cas" with a lifetime in the past stands for a deletion with a
         * condition; as this server knows no lifetimes, the "cas" has left an
         * empty item, which is now deleted without a condition
         */

        req->cas = 0;
        steps->changed = 1;
        ngx_mcds_classic_next(steps, NGX_MCDS_STEP_CHANGE);
        return;
    }

    if (result->rc == NGX_MCDS_NOT_FOUND
        && req->verb == NGX_MCDS_DELETE
        && steps->changed)
    {
        result->rc = NGX_MCDS_OK;
    }

    if (result->rc != NGX_MCDS_OK
        || req->verb == NGX_MCDS_DELETE
        || !(req->want & NGX_MCDS_CAS)
        || steps->op == NULL)
    {
        ngx_mcds_classic_done(steps, result);
        return;
    }

    steps->changed = 1;

    ngx_mcds_classic_next(steps, NGX_MCDS_STEP_LEARN);
}


static void
ngx_mcds_classic_created(ngx_mcds_steps_t *steps, ngx_mcds_result_t *result)
{
    u_char              text[NGX_INT64_LEN];
    ngx_mcds_result_t   created;

    if (result->rc == NGX_MCDS_NOT_STORED) {

        /* another client has just created the counter: increment it */

        ngx_mcds_classic_next(steps, NGX_MCDS_STEP_CHANGE);
        return;
    }

    if (result->rc != NGX_MCDS_OK) {
        ngx_mcds_classic_fail(steps, result->rc);
        return;
    }

    ngx_memzero(&created, sizeof(ngx_mcds_result_t));

    created.has = NGX_MCDS_VALUE|NGX_MCDS_CREATED;
    created.data = text;
    created.len = ngx_sprintf(text, "%uL", steps->req.initial) - text;

    ngx_mcds_classic_done(steps, &created);
}


static void
ngx_mcds_classic_learned(ngx_mcds_steps_t *steps, ngx_mcds_result_t *result)
{
    u_char              *data;
    size_t               len;
    ngx_uint_t           rc;
    ngx_mcds_request_t  *req;
    ngx_mcds_result_t    learned;

    req = &steps->req;
    rc = result->rc;

    data = req->value ? req->value->data : req->text.data;
    len = req->value ? req->value->len : req->text.len;

    if (rc == NGX_MCDS_OK && ngx_mcds_classic_same(result, data, len)) {

        ngx_memzero(&learned, sizeof(ngx_mcds_result_t));

        learned.has = NGX_MCDS_CAS;
        learned.cas = result->cas;

        ngx_mcds_classic_done(steps, &learned);
        return;
    }

    if (rc == NGX_MCDS_OK || rc == NGX_MCDS_TOO_LARGE) {
        rc = NGX_MCDS_EXISTS;
    }

    if ((rc == NGX_MCDS_EXISTS || rc == NGX_MCDS_NOT_FOUND)
        && req->verb == NGX_MCDS_ADD)
    {
        /*
         * another client has already replaced the value that this "add" stored:
         * the operation ends as if that client had been first
         */

        rc = NGX_MCDS_NOT_STORED;
    }

    ngx_mcds_classic_fail(steps, rc);
}


static ngx_uint_t
ngx_mcds_classic_same(ngx_mcds_result_t *result, u_char *data, size_t len)
{
    return result->len == len && ngx_memcmp(result->data, data, len) == 0;
}


static void
ngx_mcds_classic_fail(ngx_mcds_steps_t *steps, ngx_uint_t rc)
{
    ngx_mcds_result_t  result;

    ngx_memzero(&result, sizeof(ngx_mcds_result_t));

    /*
     * the results DOWN, BUSY and TLS of an operation say that nothing was sent;
     * that is untrue if an earlier command of the operation has stored a value
     */

    if (steps->changed && !ngx_mcds_answered(rc) && rc < NGX_MCDS_TIMEOUT) {
        rc = NGX_MCDS_CLOSED;
    }

    result.rc = rc;

    ngx_mcds_classic_done(steps, &result);
}


static void
ngx_mcds_classic_done(ngx_mcds_steps_t *steps, ngx_mcds_result_t *result)
{
    ngx_mcds_op_done(&steps->op, result);
    ngx_mcds_classic_free(steps);
}


void
ngx_mcds_classic_exit(ngx_mcds_pool_t *pool)
{
    ngx_queue_t       *q, *next;
    ngx_mcds_steps_t  *steps;

    if (ngx_mcds_classic_queue.next == NULL) {
        return;
    }

    for (q = ngx_queue_head(&ngx_mcds_classic_queue);
         q != ngx_queue_sentinel(&ngx_mcds_classic_queue);
         q = next)
    {
        next = ngx_queue_next(q);
        steps = ngx_queue_data(q, ngx_mcds_steps_t, queue);

        if (steps->server->pool == pool) {
            ngx_mcds_op_abandon(&steps->op);
            ngx_mcds_classic_free(steps);
        }
    }
}

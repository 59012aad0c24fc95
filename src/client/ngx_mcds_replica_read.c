
/*
 * Copyright (C) mcds authors
 *
 * Reading a key from the servers that have replicas of it.
 *
 * Replicas may differ: a server that was down still has its old items, and only
 * the other servers know the changes since then.  The client flags of a page
 * identify its content.  So one server is asked for the page, and all others
 * for its flags alone, a few bytes.  Only if these differ the pages of all
 * servers are read, and the newest one is stored on the other servers, unless
 * their items have changed meanwhile.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_group.h"
#include "ngx_mcds_op_link.h"


/*
 * the fields of a page that are needed to compare replicas, and to store the
 * page on another server
 */
#define NGX_MCDS_NEWEST_WANT                                                  \
    (NGX_MCDS_VALUE|NGX_MCDS_CAS|NGX_MCDS_FLAGS|NGX_MCDS_TTL)


typedef enum {
    NGX_MCDS_NEWEST_NONE = 0,
    NGX_MCDS_NEWEST_WAIT,
    NGX_MCDS_NEWEST_SAME,
    NGX_MCDS_NEWEST_DIFFER
} ngx_mcds_newest_e;


static void ngx_mcds_first_done(void *data, ngx_mcds_result_t *result);
static ngx_uint_t ngx_mcds_first_next(ngx_mcds_group_t *group);
static void ngx_mcds_first_timer(ngx_event_t *ev);
static void ngx_mcds_first_late(ngx_mcds_group_t *group);
static void ngx_mcds_read_timer(ngx_mcds_group_t *group,
    ngx_event_handler_pt handler);
static ngx_msec_t ngx_mcds_read_left(ngx_mcds_group_t *group);

static void ngx_mcds_newest_ask(ngx_mcds_leg_t *leg, ngx_uint_t want);
static void ngx_mcds_newest_done(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_newest_keep(ngx_mcds_leg_t *leg);
static void ngx_mcds_newest_timer(ngx_event_t *ev);
static void ngx_mcds_newest_late(ngx_mcds_group_t *group);
static void ngx_mcds_newest_decide(ngx_mcds_group_t *group);
static ngx_uint_t ngx_mcds_newest_state(ngx_mcds_group_t *group);
static ngx_mcds_leg_t *ngx_mcds_newest_asked(ngx_mcds_group_t *group);
static ngx_mcds_leg_t *ngx_mcds_newest_compared(ngx_mcds_group_t *group);
static void ngx_mcds_newest_end(ngx_mcds_group_t *group, ngx_mcds_leg_t *leg);
static void ngx_mcds_newest_none(ngx_mcds_group_t *group);
static void ngx_mcds_newest_spread(ngx_mcds_group_t *group,
    ngx_mcds_leg_t *newest);


#define ngx_mcds_newest_has(leg, want)                                        \
    (((leg)->answer.has & (want)) == (want))

#define ngx_mcds_newest_there(leg)                                            \
    (!(leg)->asking && (leg)->answer.rc == NGX_MCDS_OK)


void
ngx_mcds_replica_first(ngx_mcds_group_t *group)
{
    group->start = ngx_mcds_group_first_up(group);

    (void) ngx_mcds_first_next(group);

    ngx_mcds_read_timer(group, ngx_mcds_first_timer);
}


static void
ngx_mcds_first_done(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_leg_t *leg = data;

    ngx_mcds_group_t   *group;
    ngx_mcds_result_t   all;

    group = leg->group;
    group->unanswered--;

    ngx_mcds_group_take(leg, result->rc);

    if (result->rc == NGX_MCDS_OK && group->op) {
        ngx_mcds_group_mark_cas(leg, result);
        ngx_mcds_group_done(group, result);
    }

    if (group->op && ngx_mcds_first_next(group)) {
        return;
    }

    if (group->unanswered) {
        return;
    }

    ngx_memzero(&all, sizeof(ngx_mcds_result_t));
    all.rc = group->rc;

    ngx_mcds_group_done(group, &all);
    ngx_mcds_group_free(group);
}


/* asks the next replica for the key; returns 0 if all were asked already */

static ngx_uint_t
ngx_mcds_first_next(ngx_mcds_group_t *group)
{
    ngx_uint_t  i;

    if (group->asked == group->n) {
        return 0;
    }

    i = (group->start + group->asked++) % group->n;

    ngx_mcds_group_ask(group, i, &group->req, ngx_mcds_first_done);

    return 1;
}


/*
 * The second server is asked for the key after half of the pool's timeout,
 * further servers at equal intervals in the second half.
 */

static void
ngx_mcds_first_timer(ngx_event_t *ev)
{
    ngx_msec_t         left, timeout;
    ngx_mcds_group_t  *group;

    group = ev->data;

    if (group->op == NULL) {
        return;
    }

    left = ngx_mcds_read_left(group);

    if (left == 0) {
        ngx_mcds_first_late(group);
        return;
    }

    (void) ngx_mcds_first_next(group);

    if (group->asked < group->n) {
        timeout = group->legs[0].server->pool->timeout;
        left = ngx_min(left, timeout / 2 / (group->n - 1));
    }

    ngx_add_timer(ev, ngx_max(left, 1));
}


/*
 * ends a read of replicas at its deadline: a silent server counts as timed out,
 * and its later reply is ignored
 */

static void
ngx_mcds_first_late(ngx_mcds_group_t *group)
{
    ngx_mcds_result_t  all;

    ngx_mcds_group_take(&group->legs[0], NGX_MCDS_TIMEOUT);

    ngx_memzero(&all, sizeof(ngx_mcds_result_t));
    all.rc = group->rc;

    ngx_mcds_group_done(group, &all);
}


static void
ngx_mcds_read_timer(ngx_mcds_group_t *group, ngx_event_handler_pt handler)
{
    group->begin = ngx_current_msec;

    group->timer.handler = handler;
    group->timer.data = group;
    group->timer.log = ngx_cycle->log;

    ngx_add_timer(&group->timer, group->legs[0].server->pool->timeout / 2);
}


/*
 * returns the time that is left until a read of replicas reaches the pool's
 * timeout, in milliseconds
 */

static ngx_msec_t
ngx_mcds_read_left(ngx_mcds_group_t *group)
{
    ngx_msec_t  timeout, elapsed;

    timeout = group->legs[0].server->pool->timeout;
    elapsed = ngx_current_msec - group->begin;

    return (elapsed < timeout) ? timeout - elapsed : 0;
}


void
ngx_mcds_replica_newest(ngx_mcds_group_t *group)
{
    ngx_uint_t       i, want;
    ngx_mcds_leg_t  *leg;

    group->start = ngx_mcds_group_first_up(group);

    want = group->req.want;

    if (want & NGX_MCDS_VALUE) {
        want |= NGX_MCDS_NEWEST_WANT;
    }

    ngx_mcds_newest_ask(&group->legs[group->start], want);

    for (i = 0; i < group->n; i++) {
        leg = &group->legs[i];

        if (i == group->start) {
            continue;
        }

        if (leg->server->down) {
            leg->answer.rc = NGX_MCDS_DOWN;
            continue;
        }

        ngx_mcds_newest_ask(leg, NGX_MCDS_FLAGS);
    }

    ngx_mcds_read_timer(group, ngx_mcds_newest_timer);
}


static void
ngx_mcds_newest_ask(ngx_mcds_leg_t *leg, ngx_uint_t want)
{
    ngx_mcds_group_t    *group;
    ngx_mcds_request_t   req;

    group = leg->group;

    req = group->req;
    req.want = want;

    /*
     * the connection for large values is used only if the reply has the value;
     * a reply of the classic protocol always has it
     */

    req.bulk = group->req.bulk
               && ((want & NGX_MCDS_VALUE) || leg->server->pool->classic);

    leg->want = want;
    leg->asking = 1;
    leg->late = 0;

    ngx_mcds_group_ask(group, leg - group->legs, &req, ngx_mcds_newest_done);
}


static void
ngx_mcds_newest_done(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_leg_t *leg = data;

    ngx_mcds_group_t  *group;

    group = leg->group;
    group->unanswered--;

    leg->asking = 0;
    leg->late = 0;

    if (group->op) {
        leg->answer = *result;

        /*
         * the reply of the classic protocol always has the value, also if it
         * was not requested
         */

        leg->answer.has &= leg->want;

        ngx_mcds_newest_decide(group);
    }

    if (group->op) {
        ngx_mcds_newest_keep(leg);
    }

    if (group->unanswered == 0) {
        ngx_mcds_group_free(group);
    }
}


/*
 * keeps the value that a server has sent: takes a reference to it, or copies
 * it, as the reply is valid only until its handler returns
 */

static void
ngx_mcds_newest_keep(ngx_mcds_leg_t *leg)
{
    if (leg->asking || !(leg->answer.has & NGX_MCDS_VALUE)) {
        return;
    }

    leg->value = ngx_mcds_result_value(&leg->answer, ngx_cycle->log);

    if (leg->value == NULL) {
        leg->answer.rc = NGX_MCDS_BUSY;
        leg->answer.has = 0;
        return;
    }

    leg->answer.value = leg->value;
    leg->answer.data = leg->value->data;
}


/*
 * after half of the pool's timeout a read of replicas does not wait for silent
 * servers any more if another server has replied; after the whole timeout the
 * read ends
 */

static void
ngx_mcds_newest_timer(ngx_event_t *ev)
{
    ngx_uint_t         i;
    ngx_msec_t         left;
    ngx_mcds_group_t  *group;

    group = ev->data;

    if (group->op == NULL) {
        return;
    }

    left = ngx_mcds_read_left(group);

    if (left == 0) {
        ngx_mcds_newest_late(group);
        return;
    }

    ngx_add_timer(ev, left);

    for (i = 0; i < group->n; i++) {
        group->legs[i].late = group->legs[i].asking;
    }

    ngx_mcds_newest_decide(group);
}


/*
 * ends a read of replicas at its deadline, with the first reply that has all
 * requested fields of the item
 */

static void
ngx_mcds_newest_late(ngx_mcds_group_t *group)
{
    ngx_uint_t       i;
    ngx_mcds_leg_t  *leg;

    for (i = 0; i < group->n; i++) {
        leg = &group->legs[i];

        if (ngx_mcds_newest_there(leg)
            && ngx_mcds_newest_has(leg, group->req.want))
        {
            ngx_mcds_newest_end(group, leg);
            return;
        }
    }

    ngx_mcds_newest_none(group);
}


static void
ngx_mcds_newest_decide(ngx_mcds_group_t *group)
{
    ngx_mcds_leg_t  *leg;

    do {
        switch (ngx_mcds_newest_state(group)) {

        case NGX_MCDS_NEWEST_WAIT:
            return;

        case NGX_MCDS_NEWEST_SAME:
            leg = ngx_mcds_newest_asked(group);
            break;

        case NGX_MCDS_NEWEST_DIFFER:
            leg = ngx_mcds_newest_compared(group);
            break;

        default: /* NGX_MCDS_NEWEST_NONE: no server has sent the item */
            ngx_mcds_newest_none(group);
            return;
        }

    /*
     * none of the servers' replies is chosen yet: one of the servers was asked
     * for more fields of the item
     */

    } while (leg == NULL);

    ngx_mcds_newest_end(group, leg);
}


static ngx_uint_t
ngx_mcds_newest_state(ngx_mcds_group_t *group)
{
    ngx_uint_t       i, state, late;
    ngx_mcds_leg_t  *leg, *first;

    first = NULL;
    state = NGX_MCDS_NEWEST_NONE;
    late = 0;

    for (i = 0; i < group->n; i++) {
        leg = &group->legs[i];

        if (leg->asking) {

            if (!leg->late) {
                return NGX_MCDS_NEWEST_WAIT;
            }

            late = 1;

        } else if (leg->answer.rc != NGX_MCDS_OK) {
            continue;

        } else if (first == NULL) {
            first = leg;
            state = NGX_MCDS_NEWEST_SAME;

        } else if (leg->answer.flags != first->answer.flags) {
            state = NGX_MCDS_NEWEST_DIFFER;
        }
    }

    return (first == NULL && late) ? NGX_MCDS_NEWEST_WAIT : state;
}


/*
 * returns a reply with all requested fields of the item; NULL if no server's
 * reply has them: then a server that has the item is asked for them
 */

static ngx_mcds_leg_t *
ngx_mcds_newest_asked(ngx_mcds_group_t *group)
{
    ngx_uint_t       i;
    ngx_mcds_leg_t  *leg, *first;

    first = NULL;

    for (i = 0; i < group->n; i++) {
        leg = &group->legs[i];

        if (!ngx_mcds_newest_there(leg)) {
            continue;
        }

        if (ngx_mcds_newest_has(leg, group->req.want)) {
            return leg;
        }

        if (first == NULL) {
            first = leg;
        }
    }

    ngx_mcds_newest_ask(first, group->req.want);

    return NULL;
}


/*
 * returns the reply with the newest item of all servers; NULL if some servers
 * had to be asked for the values of their items first
 */

static ngx_mcds_leg_t *
ngx_mcds_newest_compared(ngx_mcds_group_t *group)
{
    ngx_uint_t       i, missing;
    ngx_mcds_leg_t  *leg, *newest;

    newest = NULL;
    missing = 0;

    for (i = 0; i < group->n; i++) {
        leg = &group->legs[i];

        if (!ngx_mcds_newest_there(leg)) {
            continue;
        }

        if (!ngx_mcds_newest_has(leg, NGX_MCDS_VALUE)) {
            ngx_mcds_newest_ask(leg, NGX_MCDS_NEWEST_WANT);
            missing = 1;
            continue;
        }

        if (newest == NULL
            || (leg->answer.flags != newest->answer.flags
                && group->req.newer(&group->req.key, &newest->answer,
                                    &leg->answer)))
        {
            newest = leg;
        }
    }

    if (missing) {
        return NULL;
    }

    ngx_mcds_newest_spread(group, newest);

    return newest;
}


static void
ngx_mcds_newest_end(ngx_mcds_group_t *group, ngx_mcds_leg_t *leg)
{
    ngx_mcds_result_t  result;

    result = leg->answer;

    if (!(group->req.want & NGX_MCDS_VALUE)) {
        result.has &= ~NGX_MCDS_VALUE;
        result.data = NULL;
        result.len = 0;
        result.value = NULL;
    }

    ngx_mcds_group_mark_cas(leg, &result);
    ngx_mcds_group_done(group, &result);
}


/*
 * ends a read of replicas without an item: each server lacks the key, has
 * failed, or has not sent the item in time
 */

static void
ngx_mcds_newest_none(ngx_mcds_group_t *group)
{
    ngx_uint_t          i;
    ngx_mcds_leg_t     *leg;
    ngx_mcds_result_t   result;

    group->rank = 0;

    for (i = 0; i < group->n; i++) {
        leg = &group->legs[i];

        ngx_mcds_group_take(leg, (leg->asking
                                  || leg->answer.rc == NGX_MCDS_OK)
                                 ? NGX_MCDS_TIMEOUT : leg->answer.rc);
    }

    ngx_memzero(&result, sizeof(ngx_mcds_result_t));
    result.rc = group->rc;

    ngx_mcds_group_done(group, &result);
}


/*
 * stores the newest page of all replicas on servers that have another page
 * under the key, unless that page has changed meanwhile
 */

static void
ngx_mcds_newest_spread(ngx_mcds_group_t *group, ngx_mcds_leg_t *newest)
{
    ngx_uint_t           i;
    ngx_mcds_leg_t      *leg;
    ngx_mcds_value_t    *value;
    ngx_mcds_request_t   req;

    /*
     * without the page's time to live, which the classic protocol does not
     * report, the page is not stored on other servers
     */

    if (!ngx_mcds_newest_has(newest, NGX_MCDS_TTL)) {
        return;
    }

    value = ngx_mcds_result_value(&newest->answer, ngx_cycle->log);
    if (value == NULL) {
        return;
    }

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.verb = NGX_MCDS_SET;
    req.key = group->req.key;
    req.suffix = group->req.suffix;
    req.page = group->req.page;
    req.value = value;
    req.flags = newest->answer.flags;

    if (newest->answer.ttl >= 0) {
        req.ttl = ngx_max(newest->answer.ttl, 1);
    }

    for (i = 0; i < group->n; i++) {
        leg = &group->legs[i];

        if (!ngx_mcds_newest_there(leg)
            || leg->answer.flags == newest->answer.flags
            || leg->answer.cas == 0)
        {
            continue;
        }

        req.cas = leg->answer.cas;

        ngx_mcds_server_submit(leg->server, &req, NULL);
    }

    ngx_mcds_value_unref(value);
}

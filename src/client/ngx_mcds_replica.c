
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_group.h"
#include "ngx_mcds_replica.h"
#include "ngx_mcds_op_link.h"


static ngx_mcds_group_t *ngx_mcds_replica_create(ngx_mcds_pool_t *pool,
    ngx_uint_t first, ngx_mcds_request_t *req);
static void ngx_mcds_replica_all(ngx_mcds_group_t *group);
static void ngx_mcds_replica_all_done(void *data, ngx_mcds_result_t *result);
static ngx_uint_t ngx_mcds_replica_rank(ngx_mcds_request_t *req,
    ngx_uint_t rc);
static ngx_uint_t ngx_mcds_replica_counted(ngx_mcds_group_t *group);
static uint64_t ngx_mcds_replica_largest(ngx_mcds_group_t *group);
static void ngx_mcds_replica_raise(ngx_mcds_group_t *group, uint64_t largest);
static void ngx_mcds_replica_recall(ngx_mcds_group_t *group,
    ngx_mcds_leg_t *leg, uint64_t largest);
static void ngx_mcds_replica_lead(ngx_mcds_group_t *group);
static void ngx_mcds_replica_lead_done(void *data, ngx_mcds_result_t *result);
static ngx_uint_t ngx_mcds_replica_must_follow(ngx_mcds_request_t *req,
    ngx_uint_t rc);
static ngx_uint_t ngx_mcds_replica_follow(ngx_mcds_group_t *group,
    ngx_uint_t leader, ngx_uint_t rc);


/* this worker's operations on the replicas of keys */

static ngx_queue_t  ngx_mcds_groups;


void
ngx_mcds_replica_submit(ngx_mcds_pool_t *pool, ngx_uint_t first,
    ngx_mcds_request_t *req, ngx_mcds_op_t *op)
{
    ngx_mcds_group_t  *group;

    group = ngx_mcds_replica_create(pool, first, req);

    if (group == NULL) {
        ngx_mcds_op_fail(op, NGX_MCDS_BUSY);
        return;
    }

    ngx_mcds_op_link(&group->op, op);

    if (req->single || req->cas || (req->value && req->verb == NGX_MCDS_ADD)) {
        ngx_mcds_replica_lead(group);

    } else if (req->verb != NGX_MCDS_GET || req->number) {
        ngx_mcds_replica_all(group);

    } else if (req->newer) {
        ngx_mcds_replica_newest(group);

    } else {
        ngx_mcds_replica_first(group);
    }
}


static ngx_mcds_group_t *
ngx_mcds_replica_create(ngx_mcds_pool_t *pool, ngx_uint_t first,
    ngx_mcds_request_t *req)
{
    u_char             *p;
    ngx_uint_t          i;
    ngx_mcds_group_t   *group;
    ngx_mcds_server_t  *server;

    group = ngx_alloc(sizeof(ngx_mcds_group_t) + req->key.len
                      + req->suffix.len + req->text.len, ngx_cycle->log);
    if (group == NULL) {
        return NULL;
    }

    ngx_memzero(group, sizeof(ngx_mcds_group_t));

    if (ngx_mcds_groups.next == NULL) {
        ngx_queue_init(&ngx_mcds_groups);
    }

    ngx_queue_insert_tail(&ngx_mcds_groups, &group->queue);

    group->n = pool->replicas;
    group->req = *req;

    p = (u_char *) group + sizeof(ngx_mcds_group_t);

    group->req.key.data = p;
    p = ngx_cpymem(p, req->key.data, req->key.len);

    /* the data of an empty string may be NULL, which memcpy() must not get */

    if (req->suffix.len) {
        group->req.suffix.data = p;
        p = ngx_cpymem(p, req->suffix.data, req->suffix.len);
    }

    if (req->text.len) {
        group->req.text.data = p;
        ngx_memcpy(p, req->text.data, req->text.len);
    }

    if (req->value) {
        ngx_mcds_value_ref(req->value);
    }

    server = pool->servers.elts;

    for (i = 0; i < group->n; i++) {
        group->legs[i].group = group;
        group->legs[i].op.data = &group->legs[i];
        group->legs[i].server = &server[(first + i) % pool->servers.nelts];
    }

    return group;
}


void
ngx_mcds_group_free(ngx_mcds_group_t *group)
{
    ngx_uint_t  i;

    ngx_queue_remove(&group->queue);
    ngx_mcds_op_unlink(&group->op);

    if (group->timer.timer_set) {
        ngx_del_timer(&group->timer);
    }

    for (i = 0; i < group->n; i++) {
        ngx_mcds_cancel(&group->legs[i].op);
        ngx_mcds_value_unref(group->legs[i].value);
    }

    ngx_mcds_value_unref(group->req.value);
    ngx_free(group);
}


void
ngx_mcds_replica_exit(ngx_mcds_pool_t *pool)
{
    ngx_queue_t       *q, *next;
    ngx_mcds_group_t  *group;

    if (ngx_mcds_groups.next == NULL) {
        return;
    }

    for (q = ngx_queue_head(&ngx_mcds_groups);
         q != ngx_queue_sentinel(&ngx_mcds_groups);
         q = next)
    {
        next = ngx_queue_next(q);
        group = ngx_queue_data(q, ngx_mcds_group_t, queue);

        if (group->legs[0].server->pool == pool) {
            ngx_mcds_op_abandon(&group->op);
            ngx_mcds_group_free(group);
        }
    }
}


void
ngx_mcds_group_ask(ngx_mcds_group_t *group, ngx_uint_t i,
    ngx_mcds_request_t *req, ngx_mcds_handler_pt handler)
{
    ngx_mcds_leg_t  *leg;

    leg = &group->legs[i];

    leg->op.handler = handler;
    group->unanswered++;

    ngx_mcds_server_submit(leg->server, req, &leg->op);
}


void
ngx_mcds_group_done(ngx_mcds_group_t *group, ngx_mcds_result_t *result)
{
    ngx_mcds_op_done(&group->op, result);

    if (group->timer.timer_set) {
        ngx_del_timer(&group->timer);
    }
}


static void
ngx_mcds_replica_all(ngx_mcds_group_t *group)
{
    ngx_uint_t  i;

    for (i = 0; i < group->n; i++) {
        ngx_mcds_group_ask(group, i, &group->req, ngx_mcds_replica_all_done);
    }
}


static void
ngx_mcds_replica_all_done(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_leg_t *leg = data;

    u_char              text[NGX_INT64_LEN];
    uint64_t            largest;
    ngx_uint_t          rc;
    ngx_mcds_group_t   *group;
    ngx_mcds_result_t   all;

    group = leg->group;
    rc = result->rc;

    if (rc == NGX_MCDS_OK && (result->has & NGX_MCDS_VALUE)) {

        if (ngx_mcds_parse_number(result->data, result->len, &leg->number)
            == NGX_OK)
        {
            leg->has_number = 1;
            leg->existed = (leg->server->pool->classic
                            && !(result->has & NGX_MCDS_CREATED));

        } else {
            rc = NGX_MCDS_NOT_NUMERIC;
        }
    }

    if (rc == NGX_MCDS_OK && (result->has & NGX_MCDS_TTL)) {
        group->ttl = result->ttl;
        group->has_ttl = 1;
    }

    leg->missing = (rc == NGX_MCDS_NOT_FOUND);

    ngx_mcds_group_take(leg, rc);

    if (--group->unanswered) {
        return;
    }

    ngx_memzero(&all, sizeof(ngx_mcds_result_t));
    all.rc = group->rc;

    if (group->req.verb == NGX_MCDS_DELETE
        && group->executed
        && !ngx_mcds_sent(all.rc))
    {
        /*
         * a server could not be asked, but another one has deleted the item: a
         * code that says "not sent" would be wrong
         */

        all.rc = NGX_MCDS_CLOSED;
    }

    if (ngx_mcds_replica_counted(group)) {
        largest = ngx_mcds_replica_largest(group);

        all.has = NGX_MCDS_VALUE;
        all.data = text;
        all.len = ngx_sprintf(text, "%uL", largest) - text;

        if (group->has_ttl) {
            all.has |= NGX_MCDS_TTL;
            all.ttl = group->ttl;
        }

        ngx_mcds_replica_raise(group, largest);
    }

    if (group->cas) {
        all.has = NGX_MCDS_CAS;
        all.cas = group->cas;
    }

    ngx_mcds_group_done(group, &all);
    ngx_mcds_group_free(group);
}


void
ngx_mcds_group_take(ngx_mcds_leg_t *leg, ngx_uint_t rc)
{
    ngx_uint_t         rank;
    ngx_mcds_group_t  *group;

    group = leg->group;

    if (rc == NGX_MCDS_OK) {
        group->executed = 1;
    }

    /*
     * the parameter "down" of a server does not make an operation on all
     * replicas fail
     */

    rank = (rc == NGX_MCDS_DOWN && leg->server->stat->disabled)
           ? 1 : ngx_mcds_replica_rank(&group->req, rc);

    if (rank > group->rank) {
        group->rank = rank;
        group->rc = rc;
    }
}


/*
 * returns the rank of a server's result; of the results of several servers the
 * one with the highest rank is that of the operation
 */

static ngx_uint_t
ngx_mcds_replica_rank(ngx_mcds_request_t *req, ngx_uint_t rc)
{
    ngx_uint_t  all;

    all = (req->verb == NGX_MCDS_DELETE || req->every);

    switch (rc) {

    case NGX_MCDS_OK:
        return 6;

    case NGX_MCDS_NOT_STORED:

        /* an add found the item on the server, or an append found none there */

        return req->verb == NGX_MCDS_ADD ? 7 : 4;

    case NGX_MCDS_TOO_LARGE:
        return req->verb == NGX_MCDS_GET ? 4 : 7;

    case NGX_MCDS_NOT_FOUND:
        return 4;

    case NGX_MCDS_TIMEOUT:
    case NGX_MCDS_CLOSED:
    case NGX_MCDS_PROTOCOL:

        /*
         * It is unknown whether the server has executed the command.  If all
         * servers must execute it, this becomes the result of the operation (a
         * high rank); otherwise only if no server has replied (a low rank).  A
         * change of a counter that must exist (update) is sent again if it was
         * not found: it must not be if this server may have made the change.
         */

        return all ? 9 : req->update ? 5 : 2;

    case NGX_MCDS_DOWN:
    case NGX_MCDS_BUSY:
    case NGX_MCDS_TLS:
        return all ? 8 : 1;

    default:
        return req->every ? 7 : 3;
    }
}


/*
 * returns 1 if the result of an operation on replicas has the value of a
 * counter
 */

static ngx_uint_t
ngx_mcds_replica_counted(ngx_mcds_group_t *group)
{
    ngx_uint_t  i;

    if (!group->req.number
        && group->req.verb != NGX_MCDS_INCR
        && group->req.verb != NGX_MCDS_DECR)
    {
        return 0;
    }

    if (group->rc == NGX_MCDS_OK) {
        return 1;
    }

    for (i = 0; i < group->n && group->req.every; i++) {
        if (group->legs[i].has_number) {
            return 1;
        }
    }

    return 0;
}


static uint64_t
ngx_mcds_replica_largest(ngx_mcds_group_t *group)
{
    uint64_t    largest;
    ngx_uint_t  i, existed;

    largest = 0;
    existed = 0;

    for (i = 0; i < group->n; i++) {
        if (group->legs[i].has_number) {
            largest = ngx_max(largest, group->legs[i].number);
            existed |= group->legs[i].existed;
        }
    }

    /*
     * if all servers that replied have created the counter anew, it continues
     * from req.known, a number that it has reached before; a counter that
     * existed on a server, and has the number req.initial, was set by a client,
     * and keeps this number
     */

    if (group->req.known && largest == group->req.initial && !existed) {
        largest = ngx_max(largest, group->req.known + group->req.delta);
    }

    return largest;
}


/*
 * Raises a counter on the replicas that have just created it, or lack it, to
 * the largest number of all replicas.  Only one operation finds the counter
 * missing and creates it, so the difference is added once; an operation with
 * the flag req.update creates no counter.  A counter that expires is not
 * raised: it may have expired on one server, and live a moment longer on
 * another.
 *
 * A counter whose numbers must only rise (req.rising) is raised at once, even
 * if it expires: that increments under way come on top does no harm.
 */

static void
ngx_mcds_replica_raise(ngx_mcds_group_t *group, uint64_t largest)
{
    ngx_uint_t       i;
    ngx_mcds_leg_t  *leg, *high;

    if (group->req.rising) {

        for (i = 0; i < group->n; i++) {
            leg = &group->legs[i];

            if (leg->has_number && leg->number < largest) {
                ngx_mcds_replica_recall(group, leg, largest);
            }
        }

        return;
    }

    if ((group->req.verb != NGX_MCDS_INCR && group->req.verb != NGX_MCDS_DECR)
        || (group->req.ttl && group->req.ttl <= NGX_MCDS_MAX_TTL))
    {
        return;
    }

    high = NULL;

    for (i = 0; i < group->n; i++) {
        leg = &group->legs[i];

        if (leg->has_number && leg->number == largest) {
            high = leg;
        }
    }

    for (i = 0; i < group->n; i++) {
        leg = &group->legs[i];

        if (leg->missing && high) {
            ngx_mcds_replica_level(group, high, leg);

        } else if (leg->has_number && leg->number < largest
                   && !group->req.update
                   && leg->number == group->req.initial)
        {
            if (high) {
                ngx_mcds_replica_level(group, high, leg);

            } else if (group->req.verb == NGX_MCDS_INCR) {
                ngx_mcds_replica_recall(group, leg, largest);
            }
        }
    }
}


/*
 * Adds to a counter on one replica (leg) the difference up to "largest": a
 * number that another replica has, if the counter's numbers must only rise
 * (req.rising); otherwise, as all replicas had lost this counter and have
 * created it anew, the number that the caller knew before, plus the increment
 * of this operation.
 */

static void
ngx_mcds_replica_recall(ngx_mcds_group_t *group, ngx_mcds_leg_t *leg,
    uint64_t largest)
{
    ngx_mcds_request_t  req;

    req = group->req;

    req.delta = largest - leg->number;
    req.want = 0;

    ngx_mcds_server_submit(leg->server, &req, NULL);
}


static void
ngx_mcds_replica_lead(ngx_mcds_group_t *group)
{
    ngx_uint_t  leader;

    if (group->req.cas) {
        leader = (group->req.cas >> NGX_MCDS_CAS_SHIFT) % group->n;
        group->req.cas &= NGX_MCDS_CAS_MASK;

    } else {
        leader = ngx_mcds_group_first_up(group);
    }

    ngx_mcds_group_ask(group, leader, &group->req, ngx_mcds_replica_lead_done);
}


static void
ngx_mcds_replica_lead_done(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_leg_t *leg = data;

    ngx_uint_t         followed;
    ngx_mcds_group_t  *group;

    group = leg->group;
    group->unanswered--;

    ngx_mcds_group_mark_cas(leg, result);
    ngx_mcds_group_take(leg, result->rc);

    followed = 0;

    if (ngx_mcds_replica_must_follow(&group->req, result->rc)) {
        followed = ngx_mcds_replica_follow(group, leg - group->legs,
                                           result->rc);
    }

    if (followed
        && (group->req.every || group->req.verb == NGX_MCDS_DELETE))
    {
        group->cas = (result->rc == NGX_MCDS_OK) ? result->cas : 0;
        return;
    }

    if (group->req.every) {
        result->rc = group->rc;
    }

    /*
     * if the leader, the replica that is changed first, did not reply, the
     * result comes from the other servers
     */

    if (result->rc == NGX_MCDS_OK || !followed) {
        ngx_mcds_group_done(group, result);
    }

    if (!followed) {
        ngx_mcds_group_free(group);
    }
}


/*
 * Returns 1 if the other servers are to be changed, too, when the leader, the
 * replica that is changed first, has returned rc.  A leader that did not reply
 * has not confirmed the condition of the change: only a purge ("every") then
 * goes to the other servers, and a new page to those that have no item.
 */

static ngx_uint_t
ngx_mcds_replica_must_follow(ngx_mcds_request_t *req, ngx_uint_t rc)
{
    if (req->single) {
        return 0;
    }

    if (ngx_mcds_answered(rc)) {
        return rc == NGX_MCDS_OK;
    }

    return req->every || (req->page && req->verb == NGX_MCDS_ADD);
}


/*
 * Sends the change to all servers but the leader, the replica that is changed
 * first and that has returned rc.  These servers make the change whatever item
 * they have: they get SET instead of ADD, and no CAS.  But if the leader did
 * not reply to the ADD of a page that is no purge ("every"), they get the ADD.
 * Returns the number of these servers.
 */

static ngx_uint_t
ngx_mcds_replica_follow(ngx_mcds_group_t *group, ngx_uint_t leader,
    ngx_uint_t rc)
{
    ngx_uint_t  i, n;

    if (group->req.verb == NGX_MCDS_ADD
        && (rc == NGX_MCDS_OK || group->req.every))
    {
        group->req.verb = NGX_MCDS_SET;
    }

    group->req.cas = 0;
    group->req.want = 0;

    n = 0;

    for (i = 0; i < group->n; i++) {

        if (i != leader) {
            ngx_mcds_group_ask(group, i, &group->req,
                               ngx_mcds_replica_all_done);
            n++;
        }
    }

    return n;
}


ngx_uint_t
ngx_mcds_group_first_up(ngx_mcds_group_t *group)
{
    ngx_uint_t  i;

    for (i = 0; i < group->n; i++) {
        if (!group->legs[i].server->down) {
            return i;
        }
    }

    return 0;
}


void
ngx_mcds_group_mark_cas(ngx_mcds_leg_t *leg, ngx_mcds_result_t *result)
{
    if (!(result->has & NGX_MCDS_CAS) || result->cas == 0) {
        return;
    }

    /*
     * no memcached lives long enough for a CAS value to need the two highest
     * bits
     */

    result->cas &= NGX_MCDS_CAS_MASK;
    result->cas |= (uint64_t) (leg - leg->group->legs) << NGX_MCDS_CAS_SHIFT;
}

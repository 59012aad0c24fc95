
/*
 * Copyright (C) mcds authors
 *
 * Reading from replicas.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_group.h"


static void ngx_mcds_first_done(void *data, ngx_mcds_result_t *result);
static ngx_uint_t ngx_mcds_first_next(ngx_mcds_group_t *group);
static void ngx_mcds_first_timer(ngx_event_t *ev);


ngx_mcds_op_t *
ngx_mcds_replica_first(ngx_mcds_group_t *group)
{
    ngx_mcds_op_t  *op;

    group->start = ngx_mcds_group_first_up(group);
    group->asked = 1;

    op = ngx_mcds_group_ask(group, group->start, &group->req,
                            ngx_mcds_first_done);

    if (op) {
        group->timer.handler = ngx_mcds_first_timer;
        group->timer.data = group;
        group->timer.log = ngx_cycle->log;

        ngx_add_timer(&group->timer,
                      group->legs[0].server->pool->timeout / 2);
    }

    return op;
}


static void
ngx_mcds_first_done(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_leg_t *leg = data;

    ngx_mcds_group_t   *group;
    ngx_mcds_result_t   all;

    group = leg->group;
    group->left--;

    ngx_mcds_group_take(leg, result->rc);

    if (result->rc == NGX_MCDS_OK && group->handler) {
        ngx_mcds_group_mark_cas(leg, result);
        ngx_mcds_group_done(group, result);
    }

    if (group->handler && ngx_mcds_first_next(group)) {
        return;
    }

    if (group->left) {
        return;
    }

    ngx_memzero(&all, sizeof(ngx_mcds_result_t));
    all.rc = group->rc;

    ngx_mcds_group_done(group, &all);
    ngx_mcds_group_free(group);
}


/* 1 if there was one to ask */

static ngx_uint_t
ngx_mcds_first_next(ngx_mcds_group_t *group)
{
    ngx_uint_t  i;

    while (group->asked < group->n) {
        i = (group->start + group->asked++) % group->n;

        if (ngx_mcds_group_ask(group, i, &group->req, ngx_mcds_first_done)) {
            return 1;
        }
    }

    return 0;
}


static void
ngx_mcds_first_timer(ngx_event_t *ev)
{
    (void) ngx_mcds_first_next(ev->data);
}


/*
 * Copyright (C) mcds authors
 *
 * A lock that nobody here holds: seen, extended and released by the name of
 * its owner.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_mutex.h"


/* how often the owner himself may be faster, with an extension */
#define NGX_MCDS_MUTEX_ROUNDS     3


static void ngx_mcds_mutex_change_start(ngx_mcds_mutex_change_t *change);
static void ngx_mcds_mutex_looked(void *data, ngx_mcds_result_t *result);
static ngx_uint_t ngx_mcds_mutex_same(ngx_mcds_mutex_change_t *change,
    ngx_mcds_mutex_item_t *item);
static void ngx_mcds_mutex_change_write(ngx_mcds_mutex_change_t *change,
    ngx_mcds_result_t *result);
static void ngx_mcds_mutex_changed(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_mutex_change_done(ngx_mcds_mutex_change_t *change,
    ngx_uint_t rc, ngx_mcds_mutex_item_t *item, int64_t ttl);


void
ngx_mcds_mutex_change(ngx_mcds_mutex_change_t *change)
{
    change->ttl = ngx_mcds_ttl_lasting(change->ttl);

    ngx_mcds_mutex_change_start(change);
}


static void
ngx_mcds_mutex_change_start(ngx_mcds_mutex_change_t *change)
{
    ngx_mcds_request_t  req;

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.verb = NGX_MCDS_GET;
    req.want = NGX_MCDS_VALUE|NGX_MCDS_CAS|NGX_MCDS_TTL;
    req.key = change->key;
    req.single = 1;
    req.limit = NGX_MCDS_MAX_LINE;

    change->op.handler = ngx_mcds_mutex_looked;
    change->op.data = change;

    ngx_mcds_submit(change->pool, &req, &change->op);
}


static void
ngx_mcds_mutex_looked(void *data, ngx_mcds_result_t *result)
{
    int64_t                   ttl;
    ngx_uint_t                rc;
    ngx_mcds_mutex_item_t     item, *found;
    ngx_mcds_mutex_change_t  *change;

    change = data;
    rc = result->rc;
    found = NULL;
    ttl = (result->has & NGX_MCDS_TTL) ? ngx_mcds_ttl_left(result->ttl) : -1;

    if (rc == NGX_MCDS_TOO_LARGE) {
        rc = NGX_MCDS_OK;

    } else if (rc == NGX_MCDS_OK
               && ngx_mcds_mutex_read(&item, result->data, result->len)
                  == NGX_OK)
    {
        found = &item;
    }

    if (rc != NGX_MCDS_OK || change->item.owner.len == 0) {
        ngx_mcds_mutex_change_done(change, rc, found, ttl);
        return;
    }

    if (found == NULL || !ngx_mcds_mutex_same(change, found)) {
        ngx_mcds_mutex_change_done(change, NGX_MCDS_EXISTS, found, ttl);
        return;
    }

    change->item.number = found->number;

    ngx_mcds_mutex_change_write(change, result);
}


/* an owner without a number does not have the lock yet */

static ngx_uint_t
ngx_mcds_mutex_same(ngx_mcds_mutex_change_t *change,
    ngx_mcds_mutex_item_t *item)
{
    if (item->number == 0
        || (change->item.number && change->item.number != item->number))
    {
        return 0;
    }

    return change->item.owner.len == item->owner.len
           && ngx_memcmp(change->item.owner.data, item->owner.data,
                         item->owner.len)
              == 0;
}


static void
ngx_mcds_mutex_change_write(ngx_mcds_mutex_change_t *change,
    ngx_mcds_result_t *result)
{
    ngx_mcds_request_t  req;

    if (result->cas == 0) {

        /* memcached -C: it would be that of anybody */

        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                      "memcached gives no CAS in pool \"%V\", "
                      "locks do not work", &change->pool->name);

        ngx_mcds_mutex_change_done(change, NGX_MCDS_BUSY, NULL, -1);
        return;
    }

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.verb = change->ttl ? NGX_MCDS_SET : NGX_MCDS_DELETE;
    req.key = change->key;
    req.single = 1;
    req.ttl = change->ttl;
    req.cas = result->cas;

    req.old.data = result->data;
    req.old.len = result->len;
    req.text = req.old;

    change->op.handler = ngx_mcds_mutex_changed;

    ngx_mcds_submit(change->pool, &req, &change->op);
}


static void
ngx_mcds_mutex_changed(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_mutex_change_t *change = data;

    if (result->rc == NGX_MCDS_EXISTS
        && ++change->rounds < NGX_MCDS_MUTEX_ROUNDS)
    {
        ngx_mcds_mutex_change_start(change);
        return;
    }

    if (result->rc == NGX_MCDS_OK && change->ttl == 0) {
        ngx_mcds_mutex_kick(change->pool, &change->key);
    }

    ngx_mcds_mutex_change_done(change, result->rc, &change->item,
                               ngx_mcds_ttl_sure(change->ttl));
}


static void
ngx_mcds_mutex_change_done(ngx_mcds_mutex_change_t *change, ngx_uint_t rc,
    ngx_mcds_mutex_item_t *item, int64_t ttl)
{
    ngx_mcds_mutex_state_t  state;

    state.rc = rc;
    state.item = item;
    state.ttl = ttl;

    change->handler(change->data, &state);
}

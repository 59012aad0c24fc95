
/*
 * Copyright (C) mcds authors
 *
 * A lock that this worker does not hold: it is read, extended and released by
 * the name of its owner.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_lock.h"


/*
 * the maximum number of attempts to change a lock, which fail if the owner
 * extends the lock meanwhile
 */
#define NGX_MCDS_LOCK_TRIES       2


static ngx_int_t ngx_mcds_lock_edit(void *data, ngx_mcds_result_t *now,
    ngx_mcds_request_t *req);
static ngx_uint_t ngx_mcds_lock_same(ngx_mcds_lock_change_t *change,
    ngx_mcds_lock_item_t *item);
static void ngx_mcds_lock_changed(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_lock_readd(ngx_mcds_lock_change_t *change);
static ngx_int_t ngx_mcds_lock_change_done(ngx_mcds_lock_change_t *change,
    ngx_uint_t rc, ngx_mcds_lock_item_t *item, int64_t ttl);


void
ngx_mcds_lock_change(ngx_mcds_lock_change_t *change)
{
    ngx_mcds_update_t  *update;

    change->ttl = ngx_mcds_ttl_lasting(change->ttl);

    update = &change->update;

    update->pool = change->pool;
    update->edit = ngx_mcds_lock_edit;
    update->handler = ngx_mcds_lock_changed;
    update->data = change;
    update->max = NGX_MCDS_LOCK_TRIES;
    update->gone = 1;

    update->get.verb = NGX_MCDS_GET;
    update->get.want = NGX_MCDS_VALUE|NGX_MCDS_CAS|NGX_MCDS_TTL;
    update->get.key = change->key;
    update->get.single = 1;
    update->get.limit = NGX_MCDS_MAX_LINE;

    ngx_mcds_update(update);
}


static ngx_int_t
ngx_mcds_lock_edit(void *data, ngx_mcds_result_t *now, ngx_mcds_request_t *req)
{
    int64_t                  ttl;
    ngx_uint_t               rc;
    ngx_mcds_lock_item_t     item, *found;
    ngx_mcds_lock_change_t  *change;

    change = data;
    rc = now->rc;
    found = NULL;
    ttl = (now->has & NGX_MCDS_TTL) ? ngx_mcds_ttl_left(now->ttl) : -1;

    if (rc == NGX_MCDS_TOO_LARGE) {
        rc = NGX_MCDS_OK;

    } else if (rc == NGX_MCDS_OK
               && ngx_mcds_lock_read(&item, now->data, now->len) == NGX_OK)
    {
        found = &item;
    }

    if (rc != NGX_MCDS_OK || change->item.owner.len == 0) {
        return ngx_mcds_lock_change_done(change, rc, found, ttl);
    }

    if (found == NULL || !ngx_mcds_lock_same(change, found)) {
        return ngx_mcds_lock_change_done(change, NGX_MCDS_EXISTS, found, ttl);
    }

    change->item.number = found->number;

    if (now->cas == 0) {

        /*
         * memcached -C gives no CAS values: the command would change the lock
         * of any owner
         */

        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                      "memcached gives no CAS in pool \"%V\", "
                      "locks do not work", &change->pool->name);

        return ngx_mcds_lock_change_done(change, NGX_MCDS_BUSY, NULL, -1);
    }

    req->ttl = change->ttl;
    req->old.data = now->data;
    req->old.len = now->len;
    req->text = req->old;

    return change->ttl ? NGX_OK : NGX_ABORT;
}


/*
 * Returns 1 if the owner that the change names has the lock, with the fencing
 * token in the change, if there is one.  An item without a fencing token, whose
 * owner does not have the lock yet, can only be released: if the owner has died
 * by now, its lock remains, and if the owner is still about to write its token,
 * it finds that the lock was lost.
 */

static ngx_uint_t
ngx_mcds_lock_same(ngx_mcds_lock_change_t *change,
    ngx_mcds_lock_item_t *item)
{
    if (item->number == 0 && change->ttl) {
        return 0;
    }

    if (change->item.number && change->item.number != item->number) {
        return 0;
    }

    return change->item.owner.len == item->owner.len
           && ngx_memcmp(change->item.owner.data, item->owner.data,
                         item->owner.len)
              == 0;
}


static void
ngx_mcds_lock_changed(void *data, ngx_mcds_result_t *result)
{
    ngx_uint_t               rc;
    ngx_mcds_lock_change_t  *change;

    change = data;
    rc = result->rc;

    if (rc == NGX_MCDS_SERVER_ERROR && change->ttl && !change->readded) {
        ngx_mcds_lock_readd(change);
        return;
    }

    if (rc == NGX_MCDS_OK && change->ttl == 0) {
        ngx_mcds_lock_kick(change->pool, &change->key);
    }

    if (rc == NGX_MCDS_NOT_STORED) {

        /* the item was to be added, but others have changed it again */

        rc = NGX_MCDS_SERVER_ERROR;
    }

    (void) ngx_mcds_lock_change_done(change, rc, &change->item,
                                     ngx_mcds_ttl_sure(change->ttl));
}


/*
 * Adds the item of a lock that memcached has not extended, as it had no memory
 * for the new item: it deletes the old one, whose memory is free then.  If the
 * item is still there, or another owner was faster, the lock is read again.
 */

static void
ngx_mcds_lock_readd(ngx_mcds_lock_change_t *change)
{
    u_char              text[NGX_MCDS_LOCK_TEXT];
    ngx_mcds_request_t  req;

    change->readded = 1;

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.verb = NGX_MCDS_ADD;
    req.key = change->key;
    req.single = 1;
    req.ttl = change->ttl;
    req.text.data = text;
    req.text.len = ngx_mcds_lock_write(text, &change->item) - text;

    ngx_mcds_update_write(&change->update, &req);
}


static ngx_int_t
ngx_mcds_lock_change_done(ngx_mcds_lock_change_t *change, ngx_uint_t rc,
    ngx_mcds_lock_item_t *item, int64_t ttl)
{
    ngx_mcds_lock_state_t  state;

    state.rc = rc;
    state.item = item;
    state.ttl = ttl;

    change->handler(change->data, &state);

    return NGX_DONE;
}


/*
 * Copyright (C) mcds authors
 *
 * The unsent sums of counters in an account of the outbox: taken one by one, or
 * posted in batches by the worker that owns the account.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <signal.h>
#include "ngx_mcds_outbox_core.h"


static void ngx_mcds_outbox_show(ngx_mcds_outbox_t *outbox,
    ngx_mcds_slot_t *slot, ngx_mcds_outbox_item_t *item, u_char *buf);


ngx_int_t
ngx_mcds_outbox_add(ngx_mcds_outbox_t *outbox, ngx_mcds_account_t *account,
    ngx_mcds_outbox_item_t *item)
{
    uint64_t          id;
    ngx_int_t         rc;
    ngx_uint_t        n, clean;
    ngx_mcds_slot_t  *slot;

    n = account - outbox->accounts;
    id = ngx_mcds_outbox_hash(outbox, n, item->key.data, item->key.len);

    ngx_shmtx_lock(outbox->mutex);

    clean = !ngx_mcds_account_dirty(account);

    slot = ngx_mcds_outbox_find(outbox, n, id, &item->key);

    if (slot == NULL && item->key.len <= NGX_MCDS_OUTBOX_KEY) {
        slot = ngx_mcds_outbox_create(outbox, n, id, &item->key);
    }

    if (slot && !ngx_mcds_outbox_fits(slot->total, item->delta)) {
        slot = NULL;
    }

    rc = slot ? NGX_OK : NGX_BUSY;

    if (slot) {

        if (clean) {
            account->since = ngx_current_msec;
        }

        /*
         * first increase account->added, by which workers see that the account
         * (the sums for one destination) has unsent sums, then add the change
         * to the counter's sum: the worker may be killed in between
         */

        account->added++;
        ngx_memory_barrier();

        slot->total += item->delta;

    } else {
        account->lost += (item->delta < 0) ? -item->delta : item->delta;
    }

    if (slot && item->flags) {
        slot->u.take.initial = item->initial;
        slot->flags = item->flags;    /* not 0: the sum is for a pool's counter,
                                         and "take" is the valid member of the
                                         slot's union "u" */
        ngx_memory_barrier();

        slot->u.take.since = ngx_time();
        slot->ttl = item->ttl;
    }

    ngx_shmtx_unlock(outbox->mutex);

    return rc;
}


ngx_uint_t
ngx_mcds_outbox_crowded(ngx_mcds_outbox_t *outbox)
{
    return outbox->nfree < outbox->nslots / 4;
}


uint64_t
ngx_mcds_outbox_left(ngx_mcds_outbox_t *outbox, ngx_mcds_account_t *account)
{
    int64_t           left;
    uint64_t          sum;
    ngx_uint_t        n, i;
    ngx_mcds_slot_t  *slot;

    n = account - outbox->accounts;
    sum = 0;

    ngx_shmtx_lock(outbox->mutex);

    for (i = 1; i <= outbox->nslots; i++) {
        slot = ngx_mcds_outbox_slot(outbox, i);

        if (slot->account == n) {
            left = slot->total - (slot->flags ? 0 : slot->u.post.posted);
            sum += (left < 0) ? -left : left;
        }
    }

    ngx_shmtx_unlock(outbox->mutex);

    return sum;
}


uint64_t
ngx_mcds_outbox_forget(ngx_mcds_outbox_t *outbox, ngx_mcds_account_t *account)
{
    uint64_t  left;

    left = ngx_mcds_outbox_left(outbox, account);

    account->kind = 0;

    return left;
}


uint64_t
ngx_mcds_outbox_forget_all(ngx_mcds_outbox_t *outbox)
{
    uint64_t    left;
    ngx_uint_t  i;

    left = 0;

    for (i = 1; i <= NGX_MCDS_OUTBOX_ACCOUNTS; i++) {
        if (outbox->accounts[i].kind) {
            left += ngx_mcds_outbox_forget(outbox, &outbox->accounts[i]);
        }
    }

    return left;
}


ngx_int_t
ngx_mcds_outbox_take(ngx_mcds_outbox_t *outbox, ngx_mcds_account_t *account,
    ngx_uint_t *cursor, ngx_mcds_outbox_item_t *item, u_char *buf)
{
    time_t            passed;
    ngx_int_t         rc;
    ngx_uint_t        n, i, end;
    ngx_mcds_slot_t  *slot;

    n = account - outbox->accounts;

    ngx_shmtx_lock(outbox->mutex);

    end = ngx_min(*cursor + NGX_MCDS_OUTBOX_STEP, outbox->nslots);
    rc = (end == outbox->nslots) ? NGX_DONE : NGX_AGAIN;

    for (i = *cursor + 1; i <= end; i++) {
        slot = ngx_mcds_outbox_slot(outbox, i);

        if (slot->account != n) {
            continue;
        }

        ngx_mcds_outbox_show(outbox, slot, item, buf);

        item->delta = slot->total;
        item->initial = slot->u.take.initial;
        item->flags = slot->flags;
        item->ttl = slot->ttl;

        passed = ngx_time() - slot->u.take.since;

        ngx_mcds_outbox_remove(outbox, i);

        /*
         * drop the unsent sum of a counter whose time to live has passed since
         * its last change was added: the counter has expired, and is not
         * created only to add the sum
         */

        if (item->ttl && passed >= (time_t) item->ttl) {
            continue;
        }

        if (item->ttl && passed > 0) {
            item->ttl -= passed;
        }

        if (item->delta) {
            end = i;
            rc = NGX_OK;
            break;
        }
    }

    *cursor = end;

    ngx_shmtx_unlock(outbox->mutex);

    return rc;
}


ngx_int_t
ngx_mcds_outbox_mark(ngx_mcds_outbox_t *outbox, ngx_mcds_account_t *account,
    ngx_uint_t fresh, ngx_uint_t *cursor, ngx_mcds_outbox_item_t *item,
    u_char *buf)
{
    ngx_int_t         rc;
    ngx_uint_t        n, i, end;
    ngx_mcds_slot_t  *slot;

    n = account - outbox->accounts;

    ngx_shmtx_lock(outbox->mutex);

    end = ngx_min(*cursor + NGX_MCDS_OUTBOX_STEP, outbox->nslots);
    rc = (end == outbox->nslots) ? NGX_DONE : NGX_AGAIN;

    for (i = *cursor + 1; i <= end; i++) {
        slot = ngx_mcds_outbox_slot(outbox, i);

        if (slot->account != n) {
            continue;
        }

        /* put the counter's sum into the new batch for the origin */

        if (fresh && slot->u.post.batch != account->batch) {
            slot->u.post.batch = account->batch;
            ngx_memory_barrier();

            slot->u.post.marked = slot->total;
        }

        if (slot->u.post.batch != account->batch
            || slot->u.post.marked == slot->u.post.posted)
        {
            continue;
        }

        ngx_mcds_outbox_show(outbox, slot, item, buf);

        item->delta = slot->u.post.marked - slot->u.post.posted;

        end = i;
        rc = NGX_OK;
        break;
    }

    *cursor = end;

    ngx_shmtx_unlock(outbox->mutex);

    return rc;
}


static void
ngx_mcds_outbox_show(ngx_mcds_outbox_t *outbox, ngx_mcds_slot_t *slot,
    ngx_mcds_outbox_item_t *item, u_char *buf)
{
    size_t   len, rest;
    u_char  *p;

    item->key.data = buf;
    item->key.len = slot->len;

    rest = slot->len;
    len = ngx_min(rest, NGX_MCDS_OUTBOX_INLINE);

    p = ngx_cpymem(buf, slot->key, len);

    for (rest -= len; rest; rest -= len) {
        slot = ngx_mcds_outbox_slot(outbox, slot->more);
        len = ngx_min(rest, NGX_MCDS_OUTBOX_REST);

        p = ngx_cpymem(p, ngx_mcds_outbox_rest(slot), len);
    }
}


ngx_uint_t
ngx_mcds_outbox_own(ngx_mcds_outbox_t *outbox, ngx_mcds_account_t *account)
{
    ngx_uint_t  own;

    ngx_shmtx_lock(outbox->mutex);

    own = (account->owner == 0
           || account->owner == ngx_pid
           || (ngx_msec_int_t) (ngx_current_msec - account->alive)
              > NGX_MCDS_OUTBOX_DEAD
           || (kill(account->owner, 0) == -1 && ngx_errno == ESRCH));

    if (own) {
        account->owner = ngx_pid;
        account->alive = ngx_current_msec;
    }

    ngx_shmtx_unlock(outbox->mutex);

    return own;
}


void
ngx_mcds_outbox_disown(ngx_mcds_account_t *account)
{
    if (account->owner == ngx_pid) {
        account->owner = 0;
    }
}


ngx_uint_t
ngx_mcds_outbox_open(ngx_mcds_outbox_t *outbox, ngx_mcds_account_t *account)
{
    ngx_uint_t  fresh;

    ngx_shmtx_lock(outbox->mutex);

    fresh = (account->batch == 0);

    if (fresh) {
        account->batch = ++outbox->sequence;
    }

    ngx_shmtx_unlock(outbox->mutex);

    return fresh;
}


void
ngx_mcds_outbox_ack(ngx_mcds_outbox_t *outbox, ngx_mcds_account_t *account,
    uint64_t batch)
{
    ngx_uint_t        n, i, end;
    ngx_mcds_slot_t  *slot;

    n = account - outbox->accounts;

    for (i = 1; i <= outbox->nslots; /* void */ ) {

        ngx_shmtx_lock(outbox->mutex);

        end = ngx_min(i + NGX_MCDS_OUTBOX_STEP - 1, outbox->nslots);

        for ( /* void */ ; i <= end; i++) {
            slot = ngx_mcds_outbox_slot(outbox, i);

            if (slot->account != n || slot->u.post.batch != batch) {
                continue;
            }

            slot->u.post.posted = slot->u.post.marked;
            ngx_memory_barrier();

            slot->u.post.batch = 0;

            if (slot->total == slot->u.post.posted) {
                ngx_mcds_outbox_remove(outbox, i);
            }
        }

        ngx_shmtx_unlock(outbox->mutex);
    }

    if (account->batch == batch) {
        account->batch = 0;
    }
}


void
ngx_mcds_outbox_check(ngx_mcds_outbox_t *outbox, ngx_mcds_account_t *account)
{
    uint64_t    added;
    ngx_uint_t  n, i, end, found;

    n = account - outbox->accounts;
    added = account->added;
    found = 0;

    for (i = 1; i <= outbox->nslots && !found; /* void */ ) {

        ngx_shmtx_lock(outbox->mutex);

        end = ngx_min(i + NGX_MCDS_OUTBOX_STEP - 1, outbox->nslots);

        for ( /* void */ ; i <= end; i++) {
            found |= (ngx_mcds_outbox_slot(outbox, i)->account == n);
        }

        ngx_shmtx_unlock(outbox->mutex);
    }

    if (!found) {
        account->clean = added;
    }
}


u_char *
ngx_mcds_outbox_batch_name(ngx_mcds_outbox_t *outbox, uint64_t batch,
    u_char *p)
{
    p = ngx_hex_dump(p, outbox->name, NGX_MCDS_OUTBOX_ID);

    return ngx_sprintf(p, "-%uL", batch);
}


/*
 * Copyright (C) mcds authors
 *
 * Extends a lease while it is held.  If a command for a lease had no reply,
 * looks for the item that the lease may have left in memcached, and deletes it.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_lease_core.h"


/*
 * the maximum time for which a lease is extended, unless other programs share
 * it, in multiples of its time to live
 */
#define NGX_MCDS_LEASE_LIVES       60

/*
 * If an extension of a lease fails, the worker tries again after 1 / PART of
 * the lease's time to live, but after AGAIN ms at most.
 */
#define NGX_MCDS_LEASE_PART        12
#define NGX_MCDS_LEASE_AGAIN       1000

/*
 * Milliseconds.  A lease is in doubt if its item may or may not exist.  The
 * worker looks for the item at intervals from FIRST to STEP, for DOUBT at least
 * if memcached does not reply; while the item's server is known to be down, a
 * timer checks the state of the server every DOWN.
 */
#define NGX_MCDS_DOUBT            60000
#define NGX_MCDS_DOUBT_FIRST      100
#define NGX_MCDS_DOUBT_STEP       1000
#define NGX_MCDS_DOUBT_DOWN       500


static void ngx_mcds_lease_doubt_handler(ngx_event_t *ev);
static ngx_uint_t ngx_mcds_lease_away(ngx_mcds_lease_t *lease);
static void ngx_mcds_lease_doubted(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_lease_extended(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_lease_readded(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_lease_again(ngx_mcds_lease_t *lease, ngx_uint_t rc);
static void ngx_mcds_lease_reread(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_lease_lost(ngx_mcds_lease_t *lease, ngx_uint_t rc);
static void ngx_mcds_lease_retake(ngx_mcds_lease_t *lease);
static void ngx_mcds_lease_retaken(void *data, ngx_mcds_result_t *result);
static ngx_uint_t ngx_mcds_lease_own(ngx_mcds_lease_t *lease,
    ngx_mcds_result_t *result);


void
ngx_mcds_lease_extend(ngx_event_t *ev)
{
    ngx_mcds_key_t     key;
    ngx_mcds_lease_t  *lease;

    lease = ev->data;

    if (!lease->open
        && ngx_current_msec - lease->since
           >= ngx_mcds_msec((uint64_t) lease->ttl * NGX_MCDS_LEASE_LIVES))
    {
        ngx_mcds_key_show(&key, &lease->key);

        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "lock of \"%*s\" is not extended any more: it is held "
                      "for %ui times its age", (size_t) key.len, key.data,
                      (ngx_uint_t) NGX_MCDS_LEASE_LIVES);
        return;
    }

    if (lease->cas == 0) {
        ngx_mcds_lease_retake(lease);
        return;
    }

    if (ngx_mcds_lease_late(lease)) {
        ngx_mcds_lease_again(lease, NGX_MCDS_BUSY);
        return;
    }

    ngx_mcds_lease_submit(lease, NGX_MCDS_SET, lease->lasting,
                          ngx_mcds_lease_extended);
}


static void
ngx_mcds_lease_extended(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_lease_t *lease = data;

    switch (result->rc) {

    case NGX_MCDS_OK:
        ngx_mcds_lease_held(lease, result->cas);
        break;

    case NGX_MCDS_EXISTS:

        if (lease->unsure) {

            /*
             * the CAS value of the lease's item may have been changed by an
             * earlier extension, which had no reply, not by another owner
             */

            if (lease->released) {
                ngx_mcds_lease_give_up(lease);

            } else {
                ngx_mcds_lease_look(lease, ngx_mcds_lease_reread);
            }

            return;
        }

        /* fall through */

    case NGX_MCDS_NOT_FOUND:
        ngx_mcds_lease_lost(lease, result->rc);
        return;

    case NGX_MCDS_SERVER_ERROR:

        if (lease->open && !lease->released) {

            /*
             * without memory for the new item of the lease, memcached deletes
             * the old one, whose memory is free then: the item is added at
             * once, before another client takes the lease
             */

            lease->cas = 0;

            ngx_mcds_lease_submit(lease, NGX_MCDS_ADD, lease->lasting,
                                  ngx_mcds_lease_readded);
            return;
        }

        /* fall through */

    default:

        if (ngx_mcds_sent(result->rc) && !ngx_mcds_answered(result->rc)) {
            lease->unsure = 1;
        }

        if (!lease->released) {
            ngx_mcds_lease_again(lease, result->rc);
            return;
        }
    }

    if (lease->released) {
        ngx_mcds_lease_give_up(lease);
    }
}


static void
ngx_mcds_lease_readded(void *data, ngx_mcds_result_t *result)
{
    ngx_uint_t         rc;
    ngx_mcds_lease_t  *lease;

    lease = data;
    rc = result->rc;

    if (rc == NGX_MCDS_OK && result->cas) {
        ngx_mcds_lease_held(lease, result->cas);

    } else if (rc == NGX_MCDS_NOT_STORED || !ngx_mcds_answered(rc)) {

        /*
         * The item is that of another owner, or still that of this lease: the
         * classic protocol keeps an item that could not be replaced.  It is
         * read before the next attempt.
         */

        lease->unsure = 1;

    } else {
        ngx_mcds_lease_lost(lease, NGX_MCDS_NOT_FOUND);
        return;
    }

    if (lease->released) {
        ngx_mcds_lease_give_up(lease);
        return;
    }

    if (rc != NGX_MCDS_OK) {
        ngx_mcds_lease_again(lease, rc);
    }
}


/*
 * Sets the timer of the next attempt to extend a lease.  If it is an open lease
 * (one that other programs see, too) and its time is over, calls the lease's
 * handler once.
 */

static void
ngx_mcds_lease_again(ngx_mcds_lease_t *lease, ngx_uint_t rc)
{
    ngx_mcds_key_t  key;

    ngx_add_timer(&lease->timer, ngx_min((ngx_msec_t) lease->ttl * 1000
                                         / NGX_MCDS_LEASE_PART,
                                         NGX_MCDS_LEASE_AGAIN));

    if (!lease->open || lease->told || ngx_mcds_lease_sure(lease) > 0) {
        return;
    }

    lease->told = 1;

    ngx_mcds_key_show(&key, &lease->key);

    ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                  "lock \"%*s\" may be lost, it could not be extended: %s",
                  (size_t) key.len, key.data, ngx_mcds_strerror(rc));

    lease->handler(lease->data, lease, rc);
}


static void
ngx_mcds_lease_reread(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_lease_t *lease = data;

    if (ngx_mcds_lease_own(lease, result)) {
        lease->unsure = 0;

    } else if (result->rc == NGX_MCDS_OK) {
        ngx_mcds_lease_lost(lease, NGX_MCDS_EXISTS);
        return;

    } else if (result->rc == NGX_MCDS_NOT_FOUND) {
        ngx_mcds_lease_lost(lease, NGX_MCDS_NOT_FOUND);
        return;
    }

    if (lease->released) {
        ngx_mcds_lease_give_up(lease);
        return;
    }

    if (result->rc == NGX_MCDS_OK) {
        ngx_mcds_lease_extend(&lease->timer);
        return;
    }

    ngx_mcds_lease_again(lease, result->rc);
}


/*
 * Notes that a lease was lost.  If memcached has lost the item of an open
 * lease, which other programs share, the item is added again, to keep other
 * clients out, unless another client was faster.  Any other lost lease cannot
 * be extended or released any more.
 */

static void
ngx_mcds_lease_lost(ngx_mcds_lease_t *lease, ngx_uint_t rc)
{
    ngx_uint_t      told;
    ngx_mcds_key_t  key;

    told = lease->told;

    lease->cas = 0;
    lease->unsure = 0;
    lease->told = 1;

    if (!told) {
        ngx_mcds_key_show(&key, &lease->key);

        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "lock of \"%*s\" was lost to %s", (size_t) key.len,
                      key.data,
                      rc == NGX_MCDS_EXISTS ? "another owner"
                                            : "eviction or restart");
    }

    if (lease->released) {
        ngx_mcds_lease_free(lease);
        return;
    }

    if (!lease->open) {
        return;
    }

    if (rc == NGX_MCDS_NOT_FOUND) {
        ngx_mcds_lease_retake(lease);
    }

    if (!told) {
        lease->handler(lease->data, lease, rc);
    }
}


static void
ngx_mcds_lease_retake(ngx_mcds_lease_t *lease)
{
    if (lease->unsure) {
        ngx_mcds_lease_look(lease, ngx_mcds_lease_reread);

    } else {
        ngx_mcds_lease_submit(lease, NGX_MCDS_ADD, lease->lasting,
                              ngx_mcds_lease_retaken);
    }
}


static void
ngx_mcds_lease_retaken(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_lease_t *lease = data;

    if (result->rc == NGX_MCDS_OK && result->cas) {
        ngx_mcds_lease_held(lease, result->cas);

    } else if (ngx_mcds_sent(result->rc) && !ngx_mcds_answered(result->rc)) {
        lease->unsure = 1;
    }

    if (lease->released) {
        ngx_mcds_lease_give_up(lease);
        return;
    }

    if (!ngx_mcds_answered(result->rc)
        || result->rc == NGX_MCDS_SERVER_ERROR)
    {
        ngx_mcds_lease_again(lease, result->rc);
    }
}


/*
 * Returns 1 if the item that was read has the token or the text of this lease;
 * the CAS value of the lease's item is then known again.
 */

static ngx_uint_t
ngx_mcds_lease_own(ngx_mcds_lease_t *lease, ngx_mcds_result_t *result)
{
    if (result->rc != NGX_MCDS_OK || result->cas == 0) {
        return 0;
    }

    if (result->len == lease->token_len
        && ngx_memcmp(result->data, lease->token, result->len) == 0)
    {
        lease->old.data = lease->token;

    } else if (lease->text.data == lease->next
               && result->len == lease->text.len
               && ngx_memcmp(result->data, lease->next, result->len) == 0)
    {
        lease->old.data = lease->next;

    } else {
        return 0;
    }

    lease->old.len = result->len;
    lease->cas = result->cas;
    lease->sure = ngx_current_msec + lease->pool->timeout;

    return 1;
}


/*
 * Starts to look for a lease's item, which may or may not exist.  A memcached
 * that was stopped may execute the add of the item later: then no client has
 * the lease, but all clients would wait until the item expires.
 */

void
ngx_mcds_lease_clean(ngx_mcds_lease_t *lease)
{
    ngx_msec_t  least;

    if (lease->doubt) {

        /* the lease's item was found, but deleting it failed: look again */

        ngx_add_timer(&lease->timer, lease->step);
        return;
    }

    least = lease->since ? ngx_mcds_msec(lease->lasting) : 0;

    lease->doubt = 1;
    lease->released = 1;
    lease->kept = NULL;
    lease->step = NGX_MCDS_DOUBT_FIRST;
    lease->end = ngx_current_msec + ngx_max(least, NGX_MCDS_DOUBT);

    lease->timer.handler = ngx_mcds_lease_doubt_handler;
    lease->timer.cancelable = 1;

    ngx_add_timer(&lease->timer, lease->step);
}


static void
ngx_mcds_lease_doubt_handler(ngx_event_t *ev)
{
    ngx_mcds_lease_t *lease = ev->data;

    if ((ngx_msec_int_t) (lease->end - ngx_current_msec) <= 0) {
        ngx_mcds_lease_free(lease);
        return;
    }

    if (ngx_mcds_lease_away(lease)) {
        lease->step = NGX_MCDS_DOUBT_FIRST;
        ngx_add_timer(ev, NGX_MCDS_DOUBT_DOWN);
        return;
    }

    lease->step = ngx_min(2 * lease->step, NGX_MCDS_DOUBT_STEP);

    ngx_mcds_lease_look(lease, ngx_mcds_lease_doubted);
}


/*
 * Returns 1 if the server of the lease's item is known to be down; 0, always,
 * with replicas, as this file does not know which of the servers has the item.
 */

static ngx_uint_t
ngx_mcds_lease_away(ngx_mcds_lease_t *lease)
{
    ngx_mcds_request_t  req;

    if (lease->pool->replicas > 1) {
        return 0;
    }

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.place = lease->place;

    return ngx_mcds_down(lease->pool, &req);
}


static void
ngx_mcds_lease_doubted(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_lease_t *lease = data;

    if (ngx_mcds_lease_own(lease, result)) {
        lease->unsure = 0;
        ngx_mcds_lease_give_up(lease);
        return;
    }

    switch (result->rc) {

    case NGX_MCDS_OK:
    case NGX_MCDS_NOT_FOUND:

        if (lease->since && !lease->open) {

            /*
             * Memcached has executed the command that added the lease's item,
             * and no longer has this item.  No other command of the lease can
             * create the item, so the search for it ends.
             */

            ngx_mcds_lease_free(lease);
            return;
        }

        break;

    case NGX_MCDS_DOWN:

        /* look for the lease's item soon after its server is up again */

        lease->step = NGX_MCDS_DOUBT_FIRST;
        break;
    }

    if (ngx_mcds_answered(result->rc) && !lease->answered) {

        /*
         * memcached replies again, but may still execute earlier commands for
         * the lease: look for its item for a whole time to live
         */

        lease->answered = 1;
        lease->end = ngx_current_msec + ngx_mcds_msec(lease->lasting);
    }

    ngx_add_timer(&lease->timer, lease->step);
}

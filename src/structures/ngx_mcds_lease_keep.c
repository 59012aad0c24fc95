
/*
 * Copyright (C) mcds authors
 *
 * A lock while it is held, and what may be left of it when memcached has not
 * answered.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_lease_core.h"


/* a lock is not extended for longer than so many times to live */
#define NGX_MCDS_LOCK_LIVES       60

/*
 * an extension that was not answered is tried again after this part of the
 * time to live, but not later than that; ms
 */
#define NGX_MCDS_LOCK_PART        12
#define NGX_MCDS_LOCK_AGAIN       1000

/* an add without an answer is looked for so long, and so often; ms */
#define NGX_MCDS_DOUBT            60000
#define NGX_MCDS_DOUBT_FIRST      100
#define NGX_MCDS_DOUBT_STEP       1000


static void ngx_mcds_lock_doubt_handler(ngx_event_t *ev);
static void ngx_mcds_lock_doubted(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_lock_extended(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_lock_again(ngx_mcds_lock_t *lock, ngx_uint_t rc);
static void ngx_mcds_lock_reread(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_lock_lost(ngx_mcds_lock_t *lock, ngx_uint_t rc);
static void ngx_mcds_lock_retake(ngx_mcds_lock_t *lock);
static void ngx_mcds_lock_retaken(void *data, ngx_mcds_result_t *result);
static ngx_uint_t ngx_mcds_lock_own(ngx_mcds_lock_t *lock,
    ngx_mcds_result_t *result);


void
ngx_mcds_lock_extend(ngx_event_t *ev)
{
    ngx_mcds_key_t    key;
    ngx_mcds_lock_t  *lock;

    lock = ev->data;

    if (!lock->open
        && ngx_current_msec - lock->since
           >= ngx_mcds_msec((uint64_t) lock->ttl * NGX_MCDS_LOCK_LIVES))
    {
        ngx_mcds_key_show(&key, &lock->key);

        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "lock of \"%*s\" is not extended any more: it is held "
                      "for %ui times its age", (size_t) key.len, key.data,
                      (ngx_uint_t) NGX_MCDS_LOCK_LIVES);
        return;
    }

    if (lock->cas == 0) {
        ngx_mcds_lock_retake(lock);
        return;
    }

    if (ngx_mcds_lock_late(lock)) {
        ngx_mcds_lock_again(lock, NGX_MCDS_BUSY);
        return;
    }

    ngx_mcds_lock_submit(lock, NGX_MCDS_SET, lock->lasting,
                         ngx_mcds_lock_extended);
}


static void
ngx_mcds_lock_extended(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_lock_t *lock = data;

    switch (result->rc) {

    case NGX_MCDS_OK:
        ngx_mcds_lock_held(lock, result->cas);
        break;

    case NGX_MCDS_EXISTS:

        if (lock->unsure && !lock->released) {

            /* perhaps by an extension whose answer was lost */

            ngx_mcds_lock_look(lock, ngx_mcds_lock_reread);
            return;
        }

        /* fall through */

    case NGX_MCDS_NOT_FOUND:
        ngx_mcds_lock_lost(lock, result->rc);
        return;

    default:

        if (ngx_mcds_sent(result->rc) && !ngx_mcds_answered(result->rc)) {
            lock->unsure = 1;
        }

        if (!lock->released) {
            ngx_mcds_lock_again(lock, result->rc);
            return;
        }
    }

    if (lock->released) {
        ngx_mcds_lock_give_up(lock);
    }
}


/* it may still be ours, as long as its time is not over */

static void
ngx_mcds_lock_again(ngx_mcds_lock_t *lock, ngx_uint_t rc)
{
    ngx_mcds_key_t  key;

    ngx_add_timer(&lock->timer, ngx_min((ngx_msec_t) lock->ttl * 1000
                                        / NGX_MCDS_LOCK_PART,
                                        NGX_MCDS_LOCK_AGAIN));

    if (!lock->open || lock->told || ngx_mcds_lock_sure(lock) > 0) {
        return;
    }

    lock->told = 1;

    ngx_mcds_key_show(&key, &lock->key);

    ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                  "lock \"%*s\" may be lost, it could not be extended: %s",
                  (size_t) key.len, key.data, ngx_mcds_strerror(rc));

    lock->handler(lock->data, lock, rc);
}


static void
ngx_mcds_lock_reread(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_lock_t *lock = data;

    if (ngx_mcds_lock_own(lock, result)) {
        lock->unsure = 0;

    } else if (result->rc == NGX_MCDS_OK) {
        ngx_mcds_lock_lost(lock, NGX_MCDS_EXISTS);
        return;

    } else if (result->rc == NGX_MCDS_NOT_FOUND) {
        ngx_mcds_lock_lost(lock, NGX_MCDS_NOT_FOUND);
        return;
    }

    if (lock->released) {
        ngx_mcds_lock_give_up(lock);
        return;
    }

    if (result->rc == NGX_MCDS_OK) {
        ngx_mcds_lock_extend(&lock->timer);
        return;
    }

    ngx_mcds_lock_again(lock, result->rc);
}


/*
 * There is nothing left to extend or to release.  Where memcached has lost it,
 * it is taken again if nobody else has it by now, to keep others out.
 */

static void
ngx_mcds_lock_lost(ngx_mcds_lock_t *lock, ngx_uint_t rc)
{
    ngx_uint_t      told;
    ngx_mcds_key_t  key;

    told = lock->told;

    lock->cas = 0;
    lock->unsure = 0;
    lock->told = 1;

    if (!told) {
        ngx_mcds_key_show(&key, &lock->key);

        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "lock of \"%*s\" was lost to %s", (size_t) key.len,
                      key.data,
                      rc == NGX_MCDS_EXISTS ? "another owner"
                                            : "eviction or restart");
    }

    if (lock->released) {
        ngx_mcds_lock_free(lock);
        return;
    }

    if (!lock->open) {
        return;
    }

    if (rc == NGX_MCDS_NOT_FOUND) {
        ngx_mcds_lock_retake(lock);
    }

    if (!told) {
        lock->handler(lock->data, lock, rc);
    }
}


static void
ngx_mcds_lock_retake(ngx_mcds_lock_t *lock)
{
    if (lock->unsure) {
        ngx_mcds_lock_look(lock, ngx_mcds_lock_reread);

    } else {
        ngx_mcds_lock_submit(lock, NGX_MCDS_ADD, lock->lasting,
                             ngx_mcds_lock_retaken);
    }
}


static void
ngx_mcds_lock_retaken(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_lock_t *lock = data;

    if (result->rc == NGX_MCDS_OK && result->cas) {
        ngx_mcds_lock_held(lock, result->cas);

    } else if (ngx_mcds_sent(result->rc) && !ngx_mcds_answered(result->rc)) {
        lock->unsure = 1;
    }

    if (lock->released) {
        ngx_mcds_lock_give_up(lock);
        return;
    }

    if (!ngx_mcds_answered(result->rc)) {
        ngx_mcds_lock_again(lock, result->rc);
    }
}


/* what was read is this lock: its CAS is known again */

static ngx_uint_t
ngx_mcds_lock_own(ngx_mcds_lock_t *lock, ngx_mcds_result_t *result)
{
    if (result->rc != NGX_MCDS_OK || result->cas == 0) {
        return 0;
    }

    if (result->len == lock->token_len
        && ngx_memcmp(result->data, lock->token, result->len) == 0)
    {
        lock->old.data = lock->token;

    } else if (lock->text.data == lock->next
               && result->len == lock->text.len
               && ngx_memcmp(result->data, lock->next, result->len) == 0)
    {
        lock->old.data = lock->next;

    } else {
        return 0;
    }

    lock->old.len = result->len;
    lock->cas = result->cas;
    lock->sure = ngx_current_msec + lock->pool->timeout;

    return 1;
}


/*
 * The add may be done later, by a memcached that was stopped: then nobody has
 * the lock, and everybody would wait for its end.
 */

void
ngx_mcds_lock_doubt(ngx_mcds_lock_t *lock)
{
    if (lock->doubt) {

        /* found, but deleting it was not answered either */

        ngx_add_timer(&lock->timer, lock->step);
        return;
    }

    lock->doubt = 1;
    lock->released = 1;
    lock->kept = NULL;
    lock->keep = 0;
    lock->step = NGX_MCDS_DOUBT_FIRST;
    lock->end = ngx_current_msec + NGX_MCDS_DOUBT;

    lock->timer.handler = ngx_mcds_lock_doubt_handler;
    lock->timer.cancelable = 1;

    ngx_add_timer(&lock->timer, lock->step);
}


static void
ngx_mcds_lock_doubt_handler(ngx_event_t *ev)
{
    ngx_mcds_lock_t *lock = ev->data;

    if ((ngx_msec_int_t) (lock->end - ngx_current_msec) <= 0) {
        ngx_mcds_lock_free(lock);
        return;
    }

    lock->step = ngx_min(2 * lock->step, NGX_MCDS_DOUBT_STEP);

    ngx_mcds_lock_look(lock, ngx_mcds_lock_doubted);
}


static void
ngx_mcds_lock_doubted(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_lock_t *lock = data;

    if (ngx_mcds_lock_own(lock, result)) {
        lock->unsure = 0;
        ngx_mcds_lock_give_up(lock);
        return;
    }

    if (ngx_mcds_answered(result->rc) && !lock->answered) {

        /* what was sent before may still be on its way */

        lock->answered = 1;
        lock->end = ngx_current_msec + ngx_mcds_msec(lock->lasting);
    }

    ngx_add_timer(&lock->timer, lock->step);
}

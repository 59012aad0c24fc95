
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <sys/random.h>
#include "ngx_mcds_lock.h"


#define NGX_MCDS_TOKEN            16


struct ngx_mcds_lock_s {
    ngx_mcds_pool_t     *pool;
    ngx_mcds_lock_pt     handler;
    void                *data;
    ngx_mcds_op_t       *op;           /* under way */
    ngx_event_t          timer;        /* extends */
    uint64_t             cas;
    ngx_msec_t           sent;         /* when a time to live began */
    ngx_msec_t           sure;         /* until when it has not ended */
    uint32_t             ttl;
    uint32_t             keep;
    u_char               token[NGX_MCDS_TOKEN * 2];
    unsigned             released:1;
    ngx_str_t            key;
};


static void ngx_mcds_lock_token(u_char *token);
static void ngx_mcds_lock_acquired(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_lock_extend(ngx_event_t *ev);
static void ngx_mcds_lock_extended(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_lock_give_up(ngx_mcds_lock_t *lock);
static ngx_mcds_op_t *ngx_mcds_lock_submit(ngx_mcds_lock_t *lock,
    ngx_uint_t verb, uint32_t ttl, ngx_mcds_handler_pt handler);
static void ngx_mcds_lock_dropped(void *data, ngx_mcds_result_t *result);


static ngx_str_t  ngx_mcds_lock_suffix = ngx_string(NGX_MCDS_LOCK_SUFFIX);


ngx_int_t
ngx_mcds_lock_acquire(ngx_mcds_pool_t *pool, ngx_str_t *key, uint32_t ttl,
    ngx_mcds_lock_pt handler, void *data)
{
    ngx_mcds_lock_t  *lock;

    lock = ngx_calloc(sizeof(ngx_mcds_lock_t) + key->len, ngx_cycle->log);
    if (lock == NULL) {
        return NGX_ERROR;
    }

    lock->pool = pool;
    lock->handler = handler;
    lock->data = data;
    lock->ttl = ttl;

    lock->key.data = (u_char *) lock + sizeof(ngx_mcds_lock_t);
    lock->key.len = key->len;
    ngx_memcpy(lock->key.data, key->data, key->len);

    lock->timer.handler = ngx_mcds_lock_extend;
    lock->timer.data = lock;
    lock->timer.log = ngx_cycle->log;

    ngx_mcds_lock_token(lock->token);

    lock->op = ngx_mcds_lock_submit(lock, NGX_MCDS_ADD, ttl,
                                    ngx_mcds_lock_acquired);
    if (lock->op == NULL) {
        ngx_free(lock);
        return NGX_ERROR;
    }

    return NGX_OK;
}


void
ngx_mcds_lock_release(ngx_mcds_lock_t *lock, uint32_t keep)
{
    lock->released = 1;
    lock->keep = keep;

    if (lock->timer.timer_set) {
        ngx_del_timer(&lock->timer);
    }

    if (lock->op == NULL) {
        ngx_mcds_lock_give_up(lock);
    }
}


static void
ngx_mcds_lock_token(u_char *token)
{
    ngx_uint_t  i;
    u_char      bytes[NGX_MCDS_TOKEN];

    if (getrandom(bytes, NGX_MCDS_TOKEN, GRND_NONBLOCK) != NGX_MCDS_TOKEN) {

        for (i = 0; i < NGX_MCDS_TOKEN; i++) {
            bytes[i] = (u_char) (ngx_random() >> 8);
        }
    }

    (void) ngx_hex_dump(token, bytes, NGX_MCDS_TOKEN);
}


static void
ngx_mcds_lock_acquired(void *data, ngx_mcds_result_t *result)
{
    ngx_uint_t        rc;
    ngx_mcds_lock_t  *lock;

    lock = data;
    lock->op = NULL;
    rc = result->rc;

    if (rc == NGX_MCDS_OK) {

        lock->cas = (result->has & NGX_MCDS_CAS) ? result->cas : 0;

        if (lock->cas == 0) {

            /* memcached -C: "md" would delete the lock of anybody */

            ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                          "memcached gives no CAS in pool \"%V\", "
                          "locks do not work", &lock->pool->name);

            rc = NGX_MCDS_SERVER_ERROR;

        } else {
            lock->sure = lock->sent + (lock->ttl - 1) * 1000;
            ngx_add_timer(&lock->timer, (ngx_msec_t) lock->ttl * 1000 / 3);
            lock->handler(lock->data, lock, rc);
            return;
        }
    }

    lock->handler(lock->data, NULL, rc);

    ngx_free(lock);
}


static void
ngx_mcds_lock_extend(ngx_event_t *ev)
{
    ngx_mcds_lock_t  *lock;

    lock = ev->data;

    lock->op = ngx_mcds_lock_submit(lock, NGX_MCDS_SET, lock->ttl,
                                    ngx_mcds_lock_extended);
    if (lock->op == NULL) {
        ngx_add_timer(&lock->timer, 1000);
    }
}


static void
ngx_mcds_lock_extended(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_key_t    key;
    ngx_mcds_lock_t  *lock;

    lock = data;
    lock->op = NULL;

    switch (result->rc) {

    case NGX_MCDS_OK:
        lock->cas = result->cas;
        lock->sure = lock->sent + (lock->ttl - 1) * 1000;
        break;

    case NGX_MCDS_EXISTS:
    case NGX_MCDS_NOT_FOUND:

        /* lost: there is nothing left to extend or to release */

        ngx_mcds_key_show(&key, &lock->key);

        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "lock of \"%*s\" was lost to %s", (size_t) key.len,
                      key.data,
                      result->rc == NGX_MCDS_EXISTS ? "another owner"
                                                    : "eviction or restart");

        if (lock->released) {
            ngx_free(lock);
            return;
        }

        lock->cas = 0;
        return;

    default:
        break;
    }

    if (lock->released) {
        ngx_mcds_lock_give_up(lock);
        return;
    }

    ngx_add_timer(&lock->timer, (ngx_msec_t) lock->ttl * 1000 / 3);
}


static void
ngx_mcds_lock_give_up(ngx_mcds_lock_t *lock)
{
    ngx_mcds_op_t  *op;

    if (lock->cas) {
        op = ngx_mcds_lock_submit(lock, lock->keep ? NGX_MCDS_SET
                                                   : NGX_MCDS_DELETE,
                                  lock->keep, ngx_mcds_lock_dropped);
        if (op) {
            return;
        }
    }

    ngx_free(lock);
}


static void
ngx_mcds_lock_dropped(void *data, ngx_mcds_result_t *result)
{
    ngx_free(data);
}


static ngx_mcds_op_t *
ngx_mcds_lock_submit(ngx_mcds_lock_t *lock, ngx_uint_t verb, uint32_t ttl,
    ngx_mcds_handler_pt handler)
{
    ngx_msec_int_t      left;
    ngx_mcds_request_t  req;

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    if (lock->cas) {

        /* between two commands of an operation it must not change hands */

        left = (ngx_msec_int_t) (lock->sure - ngx_current_msec);

        if (left <= 0 && lock->pool->classic) {
            return NULL;
        }

        req.within = ngx_max(left, 1);
    }

    lock->sent = ngx_current_msec;

    req.verb = verb;
    req.want = (verb == NGX_MCDS_DELETE) ? 0 : NGX_MCDS_CAS;
    req.key = lock->key;
    req.suffix = ngx_mcds_lock_suffix;
    req.by_key = 1;
    req.single = 1;
    req.movable = 1;
    req.ttl = ttl;
    req.cas = lock->cas;
    req.old.data = lock->token;
    req.old.len = NGX_MCDS_TOKEN * 2;

    if (lock->keep) {
        ngx_str_set(&req.text, NGX_MCDS_LOCK_KEPT);

    } else {
        req.text.data = lock->token;
        req.text.len = NGX_MCDS_TOKEN * 2;
    }

    return ngx_mcds_submit(lock->pool, &req, handler, lock);
}

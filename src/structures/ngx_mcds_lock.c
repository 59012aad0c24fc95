
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_lock.h"


#define NGX_MCDS_TOKEN            16

/* a lock is not extended for longer than so many times to live */
#define NGX_MCDS_LOCK_LIVES       60

/* an add without an answer is looked for so long, and so often; ms */
#define NGX_MCDS_DOUBT            60000
#define NGX_MCDS_DOUBT_STEP       1000

/* "kept", a step and milliseconds since the epoch */
#define NGX_MCDS_KEPT_LEN         (sizeof(NGX_MCDS_LOCK_KEPT) + 3              \
                                   + 2 * NGX_INT64_LEN)


struct ngx_mcds_lock_s {
    ngx_queue_t          queue;        /* of this worker's */
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
    ngx_msec_t           end;          /* no extension, no doubt after it */
    ngx_mcds_kept_t     *kept;         /* of the caller, or NULL */
    ngx_str_t            old;          /* what the item holds */
    ngx_str_t            text;         /* what it is to hold */
    u_char               token[NGX_MCDS_TOKEN * 2];
    u_char               seen[NGX_MCDS_KEPT_LEN];
    u_char               left[NGX_MCDS_KEPT_LEN];
    unsigned             released:1;
    unsigned             doubt:1;      /* asked for, and never answered */
    unsigned             answered:1;   /* memcached is there again */
    ngx_str_t            key;
};


static void ngx_mcds_lock_token(u_char *token);
static void ngx_mcds_lock_acquired(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_lock_failed(ngx_mcds_lock_t *lock, ngx_uint_t rc);
static ngx_mcds_op_t *ngx_mcds_lock_look(ngx_mcds_lock_t *lock,
    ngx_mcds_handler_pt handler);
static void ngx_mcds_lock_looked(void *data, ngx_mcds_result_t *result);
static ngx_uint_t ngx_mcds_lock_orphan(u_char *data, size_t len);
static void ngx_mcds_lock_taken(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_lock_doubt(ngx_mcds_lock_t *lock);
static void ngx_mcds_lock_doubt_handler(ngx_event_t *ev);
static void ngx_mcds_lock_doubted(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_lock_extend(ngx_event_t *ev);
static void ngx_mcds_lock_extended(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_lock_give_up(ngx_mcds_lock_t *lock);
static ngx_mcds_op_t *ngx_mcds_lock_submit(ngx_mcds_lock_t *lock,
    ngx_uint_t verb, uint32_t ttl, ngx_mcds_handler_pt handler);
static void ngx_mcds_lock_dropped(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_lock_free(ngx_mcds_lock_t *lock);


static ngx_str_t  ngx_mcds_lock_suffix = ngx_string(NGX_MCDS_LOCK_SUFFIX);

/* of this worker: all of its locks, and what its tokens begin with */

static ngx_queue_t  ngx_mcds_locks;
static ngx_pid_t    ngx_mcds_lock_pid;
static u_char       ngx_mcds_lock_worker[NGX_MCDS_TOKEN / 2];


ngx_int_t
ngx_mcds_lock_acquire(ngx_mcds_pool_t *pool, ngx_str_t *key, uint32_t ttl,
    ngx_mcds_lock_pt handler, void *data)
{
    return ngx_mcds_lock_acquire_after(pool, key, ttl, NULL, handler, data);
}


ngx_int_t
ngx_mcds_lock_acquire_after(ngx_mcds_pool_t *pool, ngx_str_t *key,
    uint32_t ttl, ngx_mcds_kept_t *kept, ngx_mcds_lock_pt handler, void *data)
{
    ngx_mcds_lock_t  *lock;

    if (kept) {
        ngx_memzero(kept, sizeof(ngx_mcds_kept_t));
    }

    lock = ngx_calloc(sizeof(ngx_mcds_lock_t) + key->len, ngx_cycle->log);
    if (lock == NULL) {
        return NGX_ERROR;
    }

    lock->pool = pool;
    lock->handler = handler;
    lock->data = data;
    lock->ttl = ttl;
    lock->kept = kept;

    lock->key.data = (u_char *) lock + sizeof(ngx_mcds_lock_t);
    lock->key.len = key->len;
    ngx_memcpy(lock->key.data, key->data, key->len);

    lock->timer.handler = ngx_mcds_lock_extend;
    lock->timer.data = lock;
    lock->timer.log = ngx_cycle->log;

    ngx_mcds_lock_token(lock->token);

    lock->text.data = lock->token;
    lock->text.len = NGX_MCDS_TOKEN * 2;
    lock->old = lock->text;

    lock->op = ngx_mcds_lock_submit(lock, NGX_MCDS_ADD, ttl,
                                    ngx_mcds_lock_acquired);
    if (lock->op == NULL) {
        ngx_free(lock);
        return NGX_ERROR;
    }

    ngx_queue_insert_tail(&ngx_mcds_locks, &lock->queue);

    return NGX_OK;
}


void
ngx_mcds_lock_fail(ngx_mcds_lock_t *lock, uint32_t keep, ngx_mcds_kept_t *kept)
{
    lock->text.data = lock->left;
    lock->text.len = ngx_sprintf(lock->left, NGX_MCDS_LOCK_KEPT " %ui %uL",
                                 kept->step, kept->until)
                     - lock->left;

    ngx_mcds_lock_release(lock, keep);
}


void
ngx_mcds_lock_release(ngx_mcds_lock_t *lock, uint32_t keep)
{
    lock->released = 1;
    lock->keep = keep;

    if (keep && lock->text.data == lock->token) {
        ngx_str_set(&lock->text, NGX_MCDS_LOCK_KEPT);
    }

    if (lock->timer.timer_set) {
        ngx_del_timer(&lock->timer);
    }

    if (lock->op == NULL) {
        ngx_mcds_lock_give_up(lock);
    }
}


ngx_int_t
ngx_mcds_lock_read(u_char *data, size_t len, ngx_mcds_kept_t *kept)
{
    u_char  *p, *last;
    size_t   n;

    ngx_memzero(kept, sizeof(ngx_mcds_kept_t));

    n = sizeof(NGX_MCDS_LOCK_KEPT " ") - 1;

    if (len <= n || len >= NGX_MCDS_KEPT_LEN
        || ngx_memcmp(data, NGX_MCDS_LOCK_KEPT " ", n) != 0)
    {
        return NGX_DECLINED;
    }

    last = data + len;
    data += n;

    p = ngx_strlchr(data, last, ' ');

    if (p == NULL
        || ngx_atoi(data, p - data) <= 0
        || ngx_mcds_parse_number(p + 1, last - p - 1, &kept->until) != NGX_OK)
    {
        kept->until = 0;
        return NGX_DECLINED;
    }

    kept->step = ngx_atoi(data, p - data);

    return NGX_OK;
}


/* the first half tells the worker */

static void
ngx_mcds_lock_token(u_char *token)
{
    size_t       half, n;
    u_char       bytes[NGX_MCDS_TOKEN];

    ngx_mcds_random(bytes, NGX_MCDS_TOKEN);

    half = NGX_MCDS_TOKEN / 2;

    if (ngx_mcds_lock_pid != ngx_pid) {
        ngx_mcds_lock_pid = ngx_pid;
        ngx_queue_init(&ngx_mcds_locks);
        ngx_memcpy(ngx_mcds_lock_worker, bytes + half, half);

        for (n = 0; n < half; n++) {
            bytes[half + n] ^= bytes[n];
        }
    }

    ngx_memcpy(bytes, ngx_mcds_lock_worker, half);

    (void) ngx_hex_dump(token, bytes, NGX_MCDS_TOKEN);
}


static void
ngx_mcds_lock_acquired(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_lock_t  *lock;

    lock = data;
    lock->op = NULL;

    if (result->rc != NGX_MCDS_OK) {

        if (result->rc == NGX_MCDS_NOT_STORED && lock->kept) {
            lock->op = ngx_mcds_lock_look(lock, ngx_mcds_lock_looked);

            if (lock->op) {
                return;
            }
        }

        ngx_mcds_lock_failed(lock, result->rc);
        return;
    }

    lock->cas = (result->has & NGX_MCDS_CAS) ? result->cas : 0;

    if (lock->cas == 0) {

        /* memcached -C: "md" would delete the lock of anybody */

        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                      "memcached gives no CAS in pool \"%V\", "
                      "locks do not work", &lock->pool->name);

        ngx_mcds_lock_failed(lock, NGX_MCDS_SERVER_ERROR);
        return;
    }

    lock->old.data = lock->token;
    lock->old.len = NGX_MCDS_TOKEN * 2;
    lock->sure = lock->sent + (lock->ttl - 1) * 1000;
    lock->end = ngx_current_msec
                + (ngx_msec_t) lock->ttl * NGX_MCDS_LOCK_LIVES * 1000;

    ngx_add_timer(&lock->timer, (ngx_msec_t) lock->ttl * 1000 / 3);

    lock->handler(lock->data, lock, NGX_MCDS_OK);
}


static void
ngx_mcds_lock_failed(ngx_mcds_lock_t *lock, ngx_uint_t rc)
{
    lock->handler(lock->data, NULL, rc);

    if (ngx_mcds_sent(rc) && !ngx_mcds_answered(rc)) {
        ngx_mcds_lock_doubt(lock);
        return;
    }

    ngx_mcds_lock_free(lock);
}


static ngx_mcds_op_t *
ngx_mcds_lock_look(ngx_mcds_lock_t *lock, ngx_mcds_handler_pt handler)
{
    ngx_mcds_request_t  req;

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.verb = NGX_MCDS_GET;
    req.want = NGX_MCDS_VALUE|NGX_MCDS_CAS;
    req.key = lock->key;
    req.suffix = ngx_mcds_lock_suffix;
    req.by_key = 1;
    req.single = 1;
    req.movable = 1;
    req.limit = NGX_MCDS_MAX_LINE;

    return ngx_mcds_submit(lock->pool, &req, handler, lock);
}


/* somebody else has it, or it only seems so */

static void
ngx_mcds_lock_looked(void *data, ngx_mcds_result_t *result)
{
    uint64_t          now;
    ngx_time_t       *tp;
    ngx_mcds_lock_t  *lock;

    lock = data;
    lock->op = NULL;

    if (result->rc != NGX_MCDS_OK || result->cas == 0
        || result->len > NGX_MCDS_KEPT_LEN)
    {
        ngx_mcds_lock_failed(lock, NGX_MCDS_NOT_STORED);
        return;
    }

    if (ngx_mcds_lock_read(result->data, result->len, lock->kept) == NGX_OK) {

        tp = ngx_timeofday();
        now = (uint64_t) tp->sec * 1000 + tp->msec;

        if (lock->kept->until > now) {
            ngx_mcds_lock_failed(lock, NGX_MCDS_NOT_STORED);
            return;
        }

    } else if (!ngx_mcds_lock_orphan(result->data, result->len)) {
        ngx_mcds_lock_failed(lock, NGX_MCDS_NOT_STORED);
        return;
    }

    ngx_memcpy(lock->seen, result->data, result->len);

    lock->old.data = lock->seen;
    lock->old.len = result->len;
    lock->cas = result->cas;
    lock->sure = ngx_current_msec + lock->pool->timeout;

    lock->op = ngx_mcds_lock_submit(lock, NGX_MCDS_SET, lock->ttl,
                                    ngx_mcds_lock_taken);
    if (lock->op == NULL) {
        ngx_mcds_lock_failed(lock, NGX_MCDS_NOT_STORED);
    }
}


static void
ngx_mcds_lock_taken(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_lock_t *lock = data;

    if (result->rc == NGX_MCDS_OK) {
        ngx_mcds_lock_acquired(lock, result);
        return;
    }

    lock->op = NULL;

    if (lock->kept) {
        ngx_memzero(lock->kept, sizeof(ngx_mcds_kept_t));
    }

    ngx_mcds_lock_failed(lock, ngx_mcds_answered(result->rc)
                               ? NGX_MCDS_NOT_STORED : result->rc);
}


/* a token of this worker's that no lock of it has */

static ngx_uint_t
ngx_mcds_lock_orphan(u_char *data, size_t len)
{
    u_char            worker[NGX_MCDS_TOKEN];
    ngx_queue_t      *q;
    ngx_mcds_lock_t  *lock;

    if (len != NGX_MCDS_TOKEN * 2) {
        return 0;
    }

    (void) ngx_hex_dump(worker, ngx_mcds_lock_worker, NGX_MCDS_TOKEN / 2);

    if (ngx_memcmp(data, worker, NGX_MCDS_TOKEN) != 0) {
        return 0;
    }

    for (q = ngx_queue_head(&ngx_mcds_locks);
         q != ngx_queue_sentinel(&ngx_mcds_locks);
         q = ngx_queue_next(q))
    {
        lock = ngx_queue_data(q, ngx_mcds_lock_t, queue);

        if (!lock->doubt && ngx_memcmp(data, lock->token, len) == 0) {
            return 0;
        }
    }

    return 1;
}


/*
 * The add may be done later, by a memcached that was stopped: then nobody has
 * the lock, and everybody would wait for its end.
 */

static void
ngx_mcds_lock_doubt(ngx_mcds_lock_t *lock)
{
    lock->doubt = 1;
    lock->released = 1;
    lock->kept = NULL;
    lock->keep = 0;
    lock->old.data = lock->token;
    lock->old.len = NGX_MCDS_TOKEN * 2;
    lock->end = ngx_current_msec + NGX_MCDS_DOUBT;

    lock->timer.handler = ngx_mcds_lock_doubt_handler;
    lock->timer.cancelable = 1;

    ngx_add_timer(&lock->timer, NGX_MCDS_DOUBT_STEP);
}


static void
ngx_mcds_lock_doubt_handler(ngx_event_t *ev)
{
    ngx_mcds_lock_t *lock = ev->data;

    if ((ngx_msec_int_t) (lock->end - ngx_current_msec) <= 0) {
        ngx_mcds_lock_free(lock);
        return;
    }

    lock->op = ngx_mcds_lock_look(lock, ngx_mcds_lock_doubted);

    if (lock->op == NULL) {
        ngx_add_timer(&lock->timer, NGX_MCDS_DOUBT_STEP);
    }
}


static void
ngx_mcds_lock_doubted(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_lock_t  *lock;

    lock = data;
    lock->op = NULL;

    if (result->rc == NGX_MCDS_OK
        && result->cas
        && result->len == NGX_MCDS_TOKEN * 2
        && ngx_memcmp(result->data, lock->token, result->len) == 0)
    {
        lock->cas = result->cas;
        lock->sure = ngx_current_msec + lock->pool->timeout;

        ngx_mcds_lock_give_up(lock);
        return;
    }

    if (ngx_mcds_answered(result->rc) && !lock->answered) {

        /* what was sent before may still be on its way */

        lock->answered = 1;
        lock->end = ngx_current_msec + (ngx_msec_t) lock->ttl * 1000;
    }

    ngx_add_timer(&lock->timer, NGX_MCDS_DOUBT_STEP);
}


static void
ngx_mcds_lock_extend(ngx_event_t *ev)
{
    ngx_mcds_key_t    key;
    ngx_mcds_lock_t  *lock;

    lock = ev->data;

    if ((ngx_msec_int_t) (lock->end - ngx_current_msec) <= 0) {
        ngx_mcds_key_show(&key, &lock->key);

        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "lock of \"%*s\" is not extended any more: it is held "
                      "for %ui times its age", (size_t) key.len, key.data,
                      (ngx_uint_t) NGX_MCDS_LOCK_LIVES);
        return;
    }

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
            ngx_mcds_lock_free(lock);
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

    ngx_mcds_lock_free(lock);
}


static void
ngx_mcds_lock_dropped(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_lock_free(data);
}


static void
ngx_mcds_lock_free(ngx_mcds_lock_t *lock)
{
    if (lock->timer.timer_set) {
        ngx_del_timer(&lock->timer);
    }

    ngx_queue_remove(&lock->queue);
    ngx_free(lock);
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
    req.old = lock->old;
    req.text = lock->text;

    return ngx_mcds_submit(lock->pool, &req, handler, lock);
}

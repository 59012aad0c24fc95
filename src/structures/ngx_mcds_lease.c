
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_lease_core.h"


static ngx_mcds_lock_t *ngx_mcds_lock_create(ngx_mcds_pool_t *pool,
    ngx_str_t *key, uint32_t ttl, ngx_mcds_lock_pt handler, void *data);
static void ngx_mcds_lock_start(ngx_mcds_lock_t *lock);
static uint64_t ngx_mcds_lock_owner_of(u_char *token, size_t len);
static void ngx_mcds_lock_token(u_char *token);
static void ngx_mcds_lock_acquired(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_lock_failed(ngx_mcds_lock_t *lock, ngx_uint_t rc);
static void ngx_mcds_lock_written(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_lock_looked(void *data, ngx_mcds_result_t *result);
static ngx_uint_t ngx_mcds_lock_orphan(u_char *data, size_t len);
static void ngx_mcds_lock_taken(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_lock_send(ngx_mcds_lock_t *lock,
    ngx_mcds_request_t *req, ngx_mcds_handler_pt handler);
static void ngx_mcds_lock_dropped(void *data, ngx_mcds_result_t *result);


static ngx_str_t  ngx_mcds_lock_suffix = ngx_string(NGX_MCDS_LOCK_SUFFIX);

/* of this worker: all of its locks, and what its tokens begin with */

static ngx_queue_t  ngx_mcds_locks;
static ngx_pid_t    ngx_mcds_lock_pid;
static u_char       ngx_mcds_lock_worker[NGX_MCDS_TOKEN / 2];


ngx_int_t
ngx_mcds_lock_acquire(ngx_mcds_pool_t *pool, ngx_str_t *key, uint32_t ttl,
    ngx_mcds_lock_pt handler, void *data)
{
    ngx_mcds_lock_t  *lock;

    lock = ngx_mcds_lock_create(pool, key, ttl, handler, data);
    if (lock == NULL) {
        return NGX_ERROR;
    }

    ngx_mcds_lock_start(lock);

    return NGX_OK;
}


ngx_int_t
ngx_mcds_lock_acquire_page(ngx_mcds_pool_t *pool, ngx_str_t *key,
    uint32_t ttl, ngx_uint_t at_once, ngx_mcds_kept_t *kept,
    ngx_mcds_lock_pt handler, void *data)
{
    ngx_mcds_lock_t  *lock;

    ngx_memzero(kept, sizeof(ngx_mcds_kept_t));

    lock = ngx_mcds_lock_create(pool, key, ttl, handler, data);
    if (lock == NULL) {
        return NGX_ERROR;
    }

    lock->page = 1;
    lock->at_once = at_once;
    lock->kept = kept;

    ngx_mcds_lock_start(lock);

    return NGX_OK;
}


ngx_int_t
ngx_mcds_lock_open(ngx_mcds_pool_t *pool, ngx_str_t *key, uint32_t ttl,
    ngx_str_t *text, ngx_mcds_lock_pt handler, void *data)
{
    ngx_mcds_lock_t  *lock;

    lock = ngx_mcds_lock_create(pool, key, ttl, handler, data);
    if (lock == NULL) {
        return NGX_ERROR;
    }

    lock->open = 1;
    lock->token_len = text->len;
    ngx_memcpy(lock->token, text->data, text->len);

    ngx_mcds_lock_start(lock);

    return NGX_OK;
}


static ngx_mcds_lock_t *
ngx_mcds_lock_create(ngx_mcds_pool_t *pool, ngx_str_t *key, uint32_t ttl,
    ngx_mcds_lock_pt handler, void *data)
{
    ngx_mcds_lock_t  *lock;

    lock = ngx_calloc(sizeof(ngx_mcds_lock_t) + key->len, ngx_cycle->log);
    if (lock == NULL) {
        return NULL;
    }

    lock->pool = pool;
    lock->handler = handler;
    lock->data = data;
    lock->ttl = ttl;
    lock->lasting = ngx_mcds_ttl_lasting(ttl);

    lock->key.data = (u_char *) lock + sizeof(ngx_mcds_lock_t);
    lock->key.len = key->len;
    ngx_memcpy(lock->key.data, key->data, key->len);

    lock->timer.handler = ngx_mcds_lock_extend;
    lock->timer.data = lock;
    lock->timer.log = ngx_cycle->log;

    ngx_mcds_lock_token(lock->token);
    lock->token_len = NGX_MCDS_TOKEN * 2;

    return lock;
}


static void
ngx_mcds_lock_start(ngx_mcds_lock_t *lock)
{
    lock->text.data = lock->token;
    lock->text.len = lock->token_len;
    lock->old = lock->text;

    ngx_queue_insert_tail(&ngx_mcds_locks, &lock->queue);

    ngx_mcds_lock_submit(lock, NGX_MCDS_ADD, lock->lasting,
                         ngx_mcds_lock_acquired);
}


ngx_int_t
ngx_mcds_lock_write(ngx_mcds_lock_t *lock, ngx_str_t *text)
{
    if (ngx_mcds_op_active(&lock->op) || lock->cas == 0
        || ngx_mcds_lock_late(lock))
    {
        return NGX_BUSY;
    }

    if (lock->timer.timer_set) {
        ngx_del_timer(&lock->timer);
    }

    lock->text.data = lock->next;
    lock->text.len = text->len;
    ngx_memcpy(lock->next, text->data, text->len);

    ngx_mcds_lock_submit(lock, NGX_MCDS_SET, lock->lasting,
                         ngx_mcds_lock_written);

    return NGX_OK;
}


void
ngx_mcds_lock_leave(ngx_mcds_lock_t *lock)
{
    lock->stays = 1;

    ngx_mcds_lock_release(lock, 0);
}


ngx_msec_int_t
ngx_mcds_lock_sure(ngx_mcds_lock_t *lock)
{
    return (ngx_msec_int_t) (lock->sure - ngx_current_msec);
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

    if (!ngx_mcds_op_active(&lock->op)) {
        ngx_mcds_lock_give_up(lock);
    }
}


ngx_int_t
ngx_mcds_lock_read(u_char *data, size_t len, ngx_mcds_kept_t *kept)
{
    u_char  *p, *last;
    size_t   n;

    ngx_memzero(kept, sizeof(ngx_mcds_kept_t));

    kept->owner = ngx_mcds_lock_owner_of(data, len);

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


uint64_t
ngx_mcds_lock_owner(ngx_mcds_lock_t *lock)
{
    return ngx_mcds_lock_owner_of(lock->token, lock->token_len);
}


/* 0: it is no token */

static uint64_t
ngx_mcds_lock_owner_of(u_char *token, size_t len)
{
    u_char      ch;
    uint64_t    owner;
    ngx_uint_t  i;

    if (len != NGX_MCDS_TOKEN * 2) {
        return 0;
    }

    owner = 0;

    for (i = NGX_MCDS_TOKEN; i < NGX_MCDS_TOKEN * 2; i++) {
        ch = token[i];

        if (ch >= '0' && ch <= '9') {
            ch -= '0';

        } else if (ch >= 'a' && ch <= 'f') {
            ch -= 'a' - 10;

        } else {
            return 0;
        }

        owner = owner << 4 | ch;
    }

    return owner;
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

    bytes[NGX_MCDS_TOKEN - 1] |= 1;

    (void) ngx_hex_dump(token, bytes, NGX_MCDS_TOKEN);
}


static void
ngx_mcds_lock_acquired(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_lock_t *lock = data;

    if (result->rc != NGX_MCDS_OK) {

        if (result->rc == NGX_MCDS_NOT_STORED && lock->kept) {
            ngx_mcds_lock_look(lock, ngx_mcds_lock_looked);
            return;
        }

        ngx_mcds_lock_failed(lock, result->rc);
        return;
    }

    if (!(result->has & NGX_MCDS_CAS) || result->cas == 0) {

        /* memcached -C: "md" would delete the lock of anybody */

        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                      "memcached gives no CAS in pool \"%V\", "
                      "locks do not work", &lock->pool->name);

        ngx_mcds_lock_failed(lock, NGX_MCDS_SERVER_ERROR);
        return;
    }

    lock->old.data = lock->token;
    lock->old.len = lock->token_len;
    lock->since = ngx_current_msec;

    ngx_mcds_lock_held(lock, result->cas);

    lock->handler(lock->data, lock, NGX_MCDS_OK);
}


/* for another time to live, counted from when the command was sent */

void
ngx_mcds_lock_held(ngx_mcds_lock_t *lock, uint64_t cas)
{
    lock->cas = cas;
    lock->unsure = 0;
    lock->sure = lock->sent + ngx_mcds_msec(ngx_mcds_ttl_sure(lock->lasting));

    if (!lock->released) {
        ngx_add_timer(&lock->timer, (ngx_msec_t) lock->ttl * 1000 / 3);
    }
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


static void
ngx_mcds_lock_written(void *data, ngx_mcds_result_t *result)
{
    ngx_uint_t        rc;
    ngx_mcds_lock_t  *lock;

    lock = data;
    rc = result->rc;

    if (rc == NGX_MCDS_OK) {
        lock->token_len = lock->text.len;
        ngx_memcpy(lock->token, lock->next, lock->token_len);

        lock->text.data = lock->token;
        lock->old = lock->text;

        ngx_mcds_lock_held(lock, result->cas);

        if (lock->released) {
            ngx_mcds_lock_give_up(lock);
            return;
        }

        lock->handler(lock->data, lock, rc);
        return;
    }

    /* the item has the old text or the new one, if it is still ours */

    if (rc == NGX_MCDS_EXISTS || rc == NGX_MCDS_NOT_FOUND) {
        lock->cas = 0;

    } else if (ngx_mcds_sent(rc) && !ngx_mcds_answered(rc)) {
        lock->unsure = 1;
    }

    if (!lock->released) {
        lock->released = 1;
        lock->handler(lock->data, NULL, rc);
    }

    ngx_mcds_lock_give_up(lock);
}


void
ngx_mcds_lock_look(ngx_mcds_lock_t *lock, ngx_mcds_handler_pt handler)
{
    ngx_mcds_request_t  req;

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.verb = NGX_MCDS_GET;
    req.want = NGX_MCDS_VALUE|NGX_MCDS_CAS;
    req.limit = NGX_MCDS_MAX_LINE;

    ngx_mcds_lock_send(lock, &req, handler);
}


/* somebody else has it, or it only seems so */

static void
ngx_mcds_lock_looked(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_lock_t *lock = data;

    if (result->rc != NGX_MCDS_OK || result->cas == 0
        || result->len > NGX_MCDS_KEPT_LEN)
    {
        ngx_mcds_lock_failed(lock, NGX_MCDS_NOT_STORED);
        return;
    }

    if (ngx_mcds_lock_read(result->data, result->len, lock->kept) == NGX_OK) {

        if (lock->kept->until > ngx_mcds_now() && !lock->at_once) {
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

    ngx_mcds_lock_submit(lock, NGX_MCDS_SET, lock->lasting,
                         ngx_mcds_lock_taken);
}


static void
ngx_mcds_lock_taken(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_lock_t *lock = data;

    if (result->rc == NGX_MCDS_OK) {
        ngx_mcds_lock_acquired(lock, result);
        return;
    }

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


void
ngx_mcds_lock_give_up(ngx_mcds_lock_t *lock)
{
    if (lock->stays) {
        ngx_mcds_lock_free(lock);
        return;
    }

    if (lock->unsure && !lock->keep) {

        /* by that CAS it may not be found */

        ngx_mcds_lock_doubt(lock);
        return;
    }

    if (lock->cas == 0 || ngx_mcds_lock_late(lock)) {
        ngx_mcds_lock_free(lock);
        return;
    }

    ngx_mcds_lock_submit(lock, lock->keep ? NGX_MCDS_SET : NGX_MCDS_DELETE,
                         lock->keep, ngx_mcds_lock_dropped);
}


static void
ngx_mcds_lock_dropped(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_lock_t *lock = data;

    /* nobody else waits for as long as for what is open to all */

    if (lock->open && !ngx_mcds_answered(result->rc)) {
        ngx_mcds_lock_doubt(lock);
        return;
    }

    ngx_mcds_lock_free(lock);
}


void
ngx_mcds_lock_free(ngx_mcds_lock_t *lock)
{
    if (lock->timer.timer_set) {
        ngx_del_timer(&lock->timer);
    }

    ngx_queue_remove(&lock->queue);
    ngx_free(lock);
}


ngx_uint_t
ngx_mcds_lock_late(ngx_mcds_lock_t *lock)
{
    return lock->pool->classic && lock->cas && ngx_mcds_lock_sure(lock) <= 0;
}


void
ngx_mcds_lock_submit(ngx_mcds_lock_t *lock, ngx_uint_t verb, uint32_t ttl,
    ngx_mcds_handler_pt handler)
{
    ngx_mcds_request_t  req;

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    if (lock->cas) {

        /* between two commands of an operation it must not change hands */

        req.within = ngx_max(ngx_mcds_lock_sure(lock), 1);
    }

    lock->sent = ngx_current_msec;

    req.verb = verb;
    req.want = (verb == NGX_MCDS_DELETE) ? 0 : NGX_MCDS_CAS;
    req.ttl = ttl;
    req.cas = lock->cas;
    req.old = lock->old;
    req.text = lock->text;

    ngx_mcds_lock_send(lock, &req, handler);
}


static void
ngx_mcds_lock_send(ngx_mcds_lock_t *lock, ngx_mcds_request_t *req,
    ngx_mcds_handler_pt handler)
{
    req->key = lock->key;
    req->single = 1;
    req->page = lock->page;

    /* what is open is where other programs find it, and nowhere else */

    if (!lock->open) {
        req->suffix = ngx_mcds_lock_suffix;
        req->by_key = 1;
        req->movable = 1;
    }

    lock->op.handler = handler;
    lock->op.data = lock;

    ngx_mcds_submit(lock->pool, req, &lock->op);
}

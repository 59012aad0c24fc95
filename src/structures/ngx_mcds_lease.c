
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_lease_core.h"


static uint64_t ngx_mcds_lease_owner_of(u_char *token, size_t len);
static void ngx_mcds_lease_token(u_char *token);
static void ngx_mcds_lease_acquired(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_lease_failed(ngx_mcds_lease_t *lease, ngx_uint_t rc);
static void ngx_mcds_lease_written(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_lease_looked(void *data, ngx_mcds_result_t *result);
static ngx_uint_t ngx_mcds_lease_orphan(u_char *data, size_t len);
static void ngx_mcds_lease_taken(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_lease_send(ngx_mcds_lease_t *lease,
    ngx_mcds_request_t *req, ngx_mcds_handler_pt handler);
static void ngx_mcds_lease_dropped(void *data, ngx_mcds_result_t *result);


static ngx_str_t  ngx_mcds_lease_suffix = ngx_string(NGX_MCDS_LEASE_SUFFIX);

/* this worker's leases, its pid, and the first half of its leases' tokens */

static ngx_queue_t  ngx_mcds_leases;
static ngx_pid_t    ngx_mcds_lease_pid;
static u_char       ngx_mcds_lease_worker[NGX_MCDS_TOKEN / 2];


ngx_int_t
ngx_mcds_lease_acquire(ngx_mcds_lease_wish_t *wish, ngx_mcds_lease_pt handler,
    void *data)
{
    ngx_mcds_lease_t  *lease;

    if (wish->left) {
        ngx_memzero(wish->left, sizeof(ngx_mcds_lease_left_t));
    }

    lease = ngx_calloc(sizeof(ngx_mcds_lease_t) + wish->key.len,
                       ngx_cycle->log);
    if (lease == NULL) {
        return NGX_ERROR;
    }

    lease->pool = wish->pool;
    lease->handler = handler;
    lease->data = data;
    lease->ttl = wish->ttl;
    lease->lasting = ngx_mcds_ttl_lasting(wish->ttl);

    lease->key.data = (u_char *) lease + sizeof(ngx_mcds_lease_t);
    lease->key.len = wish->key.len;
    ngx_memcpy(lease->key.data, wish->key.data, wish->key.len);

    lease->timer.handler = ngx_mcds_lease_extend;
    lease->timer.data = lease;
    lease->timer.log = ngx_cycle->log;

    ngx_mcds_lease_token(lease->token);
    lease->token_len = NGX_MCDS_TOKEN * 2;

    if (wish->text.len) {
        lease->open = 1;
        lease->token_len = wish->text.len;
        ngx_memcpy(lease->token, wish->text.data, wish->text.len);
    }

    if (wish->left) {
        lease->page = 1;
        lease->at_once = wish->at_once;
        lease->kept = wish->left;

        if (wish->due) {
            lease->token_len = ngx_sprintf(lease->token + lease->token_len,
                                           " %uL", wish->due)
                               - lease->token;
        }
    }

    lease->text.data = lease->token;
    lease->text.len = lease->token_len;
    lease->old = lease->text;

    ngx_queue_insert_tail(&ngx_mcds_leases, &lease->queue);

    ngx_mcds_lease_submit(lease, NGX_MCDS_ADD, lease->lasting,
                          ngx_mcds_lease_acquired);

    return NGX_OK;
}


ngx_int_t
ngx_mcds_lease_write(ngx_mcds_lease_t *lease, ngx_str_t *text)
{
    if (ngx_mcds_op_active(&lease->op) || lease->cas == 0
        || ngx_mcds_lease_late(lease))
    {
        return NGX_BUSY;
    }

    if (lease->timer.timer_set) {
        ngx_del_timer(&lease->timer);
    }

    lease->text.data = lease->next;
    lease->text.len = text->len;
    ngx_memcpy(lease->next, text->data, text->len);

    ngx_mcds_lease_submit(lease, NGX_MCDS_SET, lease->lasting,
                          ngx_mcds_lease_written);

    return NGX_OK;
}


void
ngx_mcds_lease_leave(ngx_mcds_lease_t *lease)
{
    lease->stays = 1;

    ngx_mcds_lease_release(lease, 0);
}


ngx_msec_int_t
ngx_mcds_lease_sure(ngx_mcds_lease_t *lease)
{
    return (ngx_msec_int_t) (lease->sure - ngx_current_msec);
}


void
ngx_mcds_lease_fail(ngx_mcds_lease_t *lease, uint32_t keep,
    ngx_mcds_lease_left_t *kept)
{
    lease->text.data = lease->left;
    lease->text.len = ngx_sprintf(lease->left, NGX_MCDS_LEASE_KEPT " %ui %uL",
                                  kept->step, kept->until)
                     - lease->left;

    ngx_mcds_lease_release(lease, keep);
}


void
ngx_mcds_lease_release(ngx_mcds_lease_t *lease, uint32_t keep)
{
    lease->released = 1;
    lease->keep = keep;
    lease->kept_end = ngx_current_msec + ngx_mcds_msec(keep);

    if (keep && lease->text.data == lease->token) {
        ngx_str_set(&lease->text, NGX_MCDS_LEASE_KEPT);
    }

    if (lease->timer.timer_set) {
        ngx_del_timer(&lease->timer);
    }

    if (!ngx_mcds_op_active(&lease->op)) {
        ngx_mcds_lease_give_up(lease);
    }
}


ngx_int_t
ngx_mcds_lease_read(u_char *data, size_t len, ngx_mcds_lease_left_t *kept)
{
    u_char  *p, *last;
    size_t   n;

    ngx_memzero(kept, sizeof(ngx_mcds_lease_left_t));

    kept->owner = ngx_mcds_lease_owner_of(data, len);

    if (kept->owner) {
        n = NGX_MCDS_TOKEN * 2 + 1;

        if (len > n
            && ngx_mcds_parse_number(data + n, len - n, &kept->due) != NGX_OK)
        {
            kept->due = 0;
        }

        return NGX_DECLINED;
    }

    n = sizeof(NGX_MCDS_LEASE_KEPT " ") - 1;

    if (len <= n || len >= NGX_MCDS_KEPT_LEN
        || ngx_memcmp(data, NGX_MCDS_LEASE_KEPT " ", n) != 0)
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
ngx_mcds_lease_owner(ngx_mcds_lease_t *lease)
{
    return ngx_mcds_lease_owner_of(lease->token, lease->token_len);
}


/*
 * Returns the id of the owner in the value of a lease; 0 if the value does not
 * begin with a token.
 */

static uint64_t
ngx_mcds_lease_owner_of(u_char *token, size_t len)
{
    u_char      ch;
    uint64_t    owner;
    ngx_uint_t  i;

    if (len < NGX_MCDS_TOKEN * 2
        || (len > NGX_MCDS_TOKEN * 2 && token[NGX_MCDS_TOKEN * 2] != ' '))
    {
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


/* Makes a random token for a lease; its first half identifies the worker. */

static void
ngx_mcds_lease_token(u_char *token)
{
    size_t       half, n;
    u_char       bytes[NGX_MCDS_TOKEN];

    ngx_mcds_random(bytes, NGX_MCDS_TOKEN);

    half = NGX_MCDS_TOKEN / 2;

    if (ngx_mcds_lease_pid != ngx_pid) {
        ngx_mcds_lease_pid = ngx_pid;
        ngx_queue_init(&ngx_mcds_leases);
        ngx_memcpy(ngx_mcds_lease_worker, bytes + half, half);

        for (n = 0; n < half; n++) {
            bytes[half + n] ^= bytes[n];
        }
    }

    ngx_memcpy(bytes, ngx_mcds_lease_worker, half);

    bytes[NGX_MCDS_TOKEN - 1] |= 1;

    (void) ngx_hex_dump(token, bytes, NGX_MCDS_TOKEN);
}


static void
ngx_mcds_lease_acquired(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_lease_t *lease = data;

    if (result->rc != NGX_MCDS_OK) {

        if (result->rc == NGX_MCDS_NOT_STORED && lease->kept) {
            ngx_mcds_lease_look(lease, ngx_mcds_lease_looked);
            return;
        }

        ngx_mcds_lease_failed(lease, result->rc);
        return;
    }

    if (!(result->has & NGX_MCDS_CAS) || result->cas == 0) {

        /*
         * memcached -C gives no CAS values: "md" would delete the lease of any
         * owner
         */

        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                      "memcached gives no CAS in pool \"%V\", "
                      "locks do not work", &lease->pool->name);

        ngx_mcds_lease_failed(lease, NGX_MCDS_SERVER_ERROR);
        return;
    }

    lease->old.data = lease->token;
    lease->old.len = lease->token_len;
    lease->since = ngx_current_msec;

    ngx_mcds_lease_held(lease, result->cas);

    lease->handler(lease->data, lease, NGX_MCDS_OK);
}


void
ngx_mcds_lease_held(ngx_mcds_lease_t *lease, uint64_t cas)
{
    lease->cas = cas;
    lease->unsure = 0;
    lease->sure = lease->sent
                  + ngx_mcds_msec(ngx_mcds_ttl_sure(lease->lasting));

    if (!lease->released) {
        ngx_add_timer(&lease->timer, (ngx_msec_t) lease->ttl * 1000 / 3);
    }
}


static void
ngx_mcds_lease_failed(ngx_mcds_lease_t *lease, ngx_uint_t rc)
{
    lease->handler(lease->data, NULL, rc);

    if (ngx_mcds_sent(rc) && !ngx_mcds_answered(rc)) {
        ngx_mcds_lease_clean(lease);
        return;
    }

    ngx_mcds_lease_free(lease);
}


static void
ngx_mcds_lease_written(void *data, ngx_mcds_result_t *result)
{
    ngx_uint_t         rc;
    ngx_mcds_lease_t  *lease;

    lease = data;
    rc = result->rc;

    if (rc == NGX_MCDS_OK) {
        lease->token_len = lease->text.len;
        ngx_memcpy(lease->token, lease->next, lease->token_len);

        lease->text.data = lease->token;
        lease->old = lease->text;

        ngx_mcds_lease_held(lease, result->cas);

        if (lease->released) {
            ngx_mcds_lease_give_up(lease);
            return;
        }

        lease->handler(lease->data, lease, rc);
        return;
    }

    /*
     * the write of another text into the lease failed: if the lease is still
     * held, its item has either the old or the new text
     */

    if (rc == NGX_MCDS_EXISTS || rc == NGX_MCDS_NOT_FOUND) {
        lease->cas = 0;

    } else if (ngx_mcds_sent(rc) && !ngx_mcds_answered(rc)) {
        lease->unsure = 1;
    }

    if (!lease->released) {
        lease->released = 1;
        lease->handler(lease->data, NULL, rc);
    }

    ngx_mcds_lease_give_up(lease);
}


void
ngx_mcds_lease_look(ngx_mcds_lease_t *lease, ngx_mcds_handler_pt handler)
{
    ngx_mcds_request_t  req;

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.verb = NGX_MCDS_GET;
    req.want = NGX_MCDS_VALUE|NGX_MCDS_CAS;
    req.limit = NGX_MCDS_MAX_LINE;
    req.cas = lease->cas;

    ngx_mcds_lease_send(lease, &req, handler);
}


/*
 * Handles the existing item because of which memcached did not add a lease: the
 * item belongs to another owner, was left by a failed owner, or comes from an
 * earlier add of this worker that had no reply.
 */

static void
ngx_mcds_lease_looked(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_lease_t *lease = data;

    if (result->rc != NGX_MCDS_OK || result->cas == 0
        || result->len > NGX_MCDS_LEASE_VALUE)
    {
        ngx_mcds_lease_failed(lease, NGX_MCDS_NOT_STORED);
        return;
    }

    if (ngx_mcds_lease_read(result->data, result->len, lease->kept)
        == NGX_OK)
    {

        if (lease->kept->until > ngx_mcds_now() && !lease->at_once) {
            ngx_mcds_lease_failed(lease, NGX_MCDS_NOT_STORED);
            return;
        }

    } else if (!ngx_mcds_lease_orphan(result->data, result->len)) {
        ngx_mcds_lease_failed(lease, NGX_MCDS_NOT_STORED);
        return;
    }

    ngx_memcpy(lease->seen, result->data, result->len);

    lease->old.data = lease->seen;
    lease->old.len = result->len;
    lease->cas = result->cas;
    lease->sure = ngx_current_msec + lease->pool->timeout;

    ngx_mcds_lease_submit(lease, NGX_MCDS_SET, lease->lasting,
                          ngx_mcds_lease_taken);
}


static void
ngx_mcds_lease_taken(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_lease_t *lease = data;

    if (result->rc == NGX_MCDS_OK) {
        ngx_mcds_lease_acquired(lease, result);
        return;
    }

    if (lease->kept) {
        ngx_memzero(lease->kept, sizeof(ngx_mcds_lease_left_t));
    }

    ngx_mcds_lease_failed(lease, ngx_mcds_answered(result->rc)
                               ? NGX_MCDS_NOT_STORED : result->rc);
}


/*
 * Returns 1 if the value of a lease's item is a token of this worker, but the
 * worker no longer uses a lease with this token.
 */

static ngx_uint_t
ngx_mcds_lease_orphan(u_char *data, size_t len)
{
    u_char             worker[NGX_MCDS_TOKEN];
    ngx_queue_t       *q;
    ngx_mcds_lease_t  *lease;

    if (ngx_mcds_lease_owner_of(data, len) == 0) {
        return 0;
    }

    (void) ngx_hex_dump(worker, ngx_mcds_lease_worker, NGX_MCDS_TOKEN / 2);

    if (ngx_memcmp(data, worker, NGX_MCDS_TOKEN) != 0) {
        return 0;
    }

    for (q = ngx_queue_head(&ngx_mcds_leases);
         q != ngx_queue_sentinel(&ngx_mcds_leases);
         q = ngx_queue_next(q))
    {
        lease = ngx_queue_data(q, ngx_mcds_lease_t, queue);

        if (!lease->doubt
            && len == lease->token_len
            && ngx_memcmp(data, lease->token, len) == 0)
        {
            return 0;
        }
    }

    return 1;
}


void
ngx_mcds_lease_give_up(ngx_mcds_lease_t *lease)
{
    ngx_msec_int_t  left;

    if (lease->stays) {
        ngx_mcds_lease_free(lease);
        return;
    }

    if (lease->unsure) {

        /*
         * an extension without a reply may have changed the CAS value of the
         * lease's item, so the item must be read
         */

        ngx_mcds_lease_clean(lease);
        return;
    }

    if (lease->cas == 0 || ngx_mcds_lease_late(lease)) {
        ngx_mcds_lease_free(lease);
        return;
    }

    left = lease->keep
               ? (ngx_msec_int_t) (lease->kept_end - ngx_current_msec) : 0;

    if (left > 0) {
        ngx_mcds_lease_submit(lease, NGX_MCDS_SET,
                              (uint32_t) ((left + 999) / 1000),
                              ngx_mcds_lease_dropped);
        return;
    }

    ngx_mcds_lease_submit(lease, NGX_MCDS_DELETE, 0, ngx_mcds_lease_dropped);
}


static void
ngx_mcds_lease_dropped(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_lease_t *lease = data;

    switch (result->rc) {

    case NGX_MCDS_OK:
    case NGX_MCDS_NOT_FOUND:
        ngx_mcds_lease_free(lease);
        return;

    case NGX_MCDS_EXISTS:

        /*
         * the lease's item is that of another owner, unless a late extension of
         * the lease has changed the item's CAS value
         */

        if (!lease->doubt) {
            ngx_mcds_lease_free(lease);
            return;
        }

        break;
    }

    /*
     * the lease's item may still be there: other clients see only the item, and
     * would wait until it expires
     */

    ngx_mcds_lease_clean(lease);
}


void
ngx_mcds_lease_free(ngx_mcds_lease_t *lease)
{
    if (lease->timer.timer_set) {
        ngx_del_timer(&lease->timer);
    }

    ngx_queue_remove(&lease->queue);
    ngx_free(lease);
}


ngx_uint_t
ngx_mcds_lease_late(ngx_mcds_lease_t *lease)
{
    return lease->pool->classic
           && lease->cas
           && ngx_mcds_lease_sure(lease) <= 0;
}


void
ngx_mcds_lease_submit(ngx_mcds_lease_t *lease, ngx_uint_t verb, uint32_t ttl,
    ngx_mcds_handler_pt handler)
{
    ngx_mcds_request_t  req;

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    if (lease->cas) {

        /*
         * the classic protocol needs two commands to change the lease's item:
         * the second one must be sent before the lease expires and another
         * client may take it
         */

        req.within = ngx_max(ngx_mcds_lease_sure(lease), 1);
    }

    lease->sent = ngx_current_msec;

    req.verb = verb;
    req.want = (verb == NGX_MCDS_DELETE) ? 0 : NGX_MCDS_CAS;
    req.ttl = ttl;
    req.cas = lease->cas;
    req.old = lease->old;
    req.text = lease->text;

    ngx_mcds_lease_send(lease, &req, handler);
}


static void
ngx_mcds_lease_send(ngx_mcds_lease_t *lease, ngx_mcds_request_t *req,
    ngx_mcds_handler_pt handler)
{
    req->key = lease->key;
    req->single = 1;
    req->page = lease->page;

    /*
     * other programs find an open lease, which they share, only under its own
     * key, without a suffix, and on the server of that key
     */

    if (!lease->open) {
        req->suffix = ngx_mcds_lease_suffix;
        req->by_key = 1;
        req->movable = 1;
    }

    /*
     * the lease's item stays on its server: while that server is ejected, the
     * reply of another server would say nothing about the item
     */

    if (lease->place == 0) {
        lease->place = ngx_mcds_first(lease->pool, req) + 1;
    }

    req->place = lease->place;

    lease->op.handler = handler;
    lease->op.data = lease;

    ngx_mcds_submit(lease->pool, req, &lease->op);
}

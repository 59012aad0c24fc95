
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_local.h"
#include "ngx_mcds_newer.h"
#include "ngx_mcds_purge_mark.h"


/*
 * The time to live of a purge mark (tombstone), in seconds: longer than any
 * build of a page; with replicas, long enough for a server that is down to
 * return and get the mark.
 */
#define NGX_MCDS_PURGED_TTL       3600
#define NGX_MCDS_PURGED_TTL_AWAY  86400

/*
 * the maximum size in bytes of an item that is read for the purge of a page: a
 * larger item is not a page
 */
#define NGX_MCDS_PURGE_LIMIT      (128 * 1024 * 1024)

/*
 * the time to live that a page gets when it is purged to make room for other
 * pages, seconds
 */
#define NGX_MCDS_PURGE_RETIRED    10

/*
 * the time after which a page that is to make room for other pages, but was not
 * found in memcached, is looked up once more, ms
 */
#define NGX_MCDS_PURGE_LATER      1000

/*
 * the time for which the parts of the body of a deleted page stay in memcached,
 * for requests that read them, seconds
 */
#define NGX_MCDS_PURGE_LINGER     60

/* the first and the longest interval between attempts to purge a page, ms */
#define NGX_MCDS_PURGE_AGAIN      1000
#define NGX_MCDS_PURGE_SELDOM     60000

/*
 * the maximum number of repeated purges that a worker has under way at one
 * time, and the time after which a purge beyond that number tries again, ms
 */
#define NGX_MCDS_PURGE_AT_ONCE    32
#define NGX_MCDS_PURGE_NEXT       100


static ngx_mcds_purge_t *ngx_mcds_purge_start(ngx_mcds_pool_t *pool,
    ngx_str_t *key, ngx_uint_t how, uint64_t now, ngx_array_t *secrets,
    ngx_mcds_purge_pt handler, void *data);
static ngx_int_t ngx_mcds_purge_edit(void *data, ngx_mcds_result_t *now,
    ngx_mcds_request_t *req);
static ngx_int_t ngx_mcds_purge_retire(ngx_mcds_purge_t *purge,
    ngx_mcds_result_t *now, ngx_mcds_request_t *req);
static void ngx_mcds_purge_later(ngx_event_t *ev);
static void ngx_mcds_purge_updated(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_purge_end(ngx_mcds_purge_t *purge, ngx_uint_t rc,
    uint64_t cas);
static ngx_int_t ngx_mcds_purge_wait(ngx_mcds_purge_t *purge, ngx_uint_t rc);
static ngx_uint_t ngx_mcds_purge_disabled(ngx_mcds_purge_t *purge);
static ngx_mcds_purge_t *ngx_mcds_purge_same(ngx_mcds_purge_t *purge);
static void ngx_mcds_purge_again(ngx_event_t *ev);
static void ngx_mcds_purge_free(ngx_mcds_purge_t *purge);


/*
 * this worker's failed purges that are to be repeated: the queue of those that
 * wait, the number of all, the number under way, and the bytes of all keys
 */

static ngx_queue_t  ngx_mcds_purge_waiting;
static ngx_uint_t   ngx_mcds_purge_nlate;
static ngx_uint_t   ngx_mcds_purge_nrunning;
static size_t       ngx_mcds_purge_late_size;


ngx_int_t
ngx_mcds_purge_key(ngx_mcds_pool_t *pool, ngx_str_t *key, ngx_uint_t how,
    uint64_t now, ngx_array_t *secrets, ngx_mcds_purge_pt handler, void *data)
{
    return ngx_mcds_purge_start(pool, key, how, now, secrets, handler, data)
               ? NGX_OK : NGX_ERROR;
}


ngx_int_t
ngx_mcds_purge_surely(ngx_mcds_pool_t *pool, ngx_str_t *key, ngx_uint_t how,
    uint64_t now, ngx_array_t *secrets, ngx_mcds_purge_pt handler, void *data)
{
    ngx_mcds_purge_t  *purge;

    purge = ngx_mcds_purge_start(pool, key, how, now, secrets, handler, data);
    if (purge == NULL) {
        return NGX_ERROR;
    }

    purge->surely = 1;

    return NGX_OK;
}


/* Starts the purge of a page by reading its item from memcached. */

static ngx_mcds_purge_t *
ngx_mcds_purge_start(ngx_mcds_pool_t *pool, ngx_str_t *key, ngx_uint_t how,
    uint64_t now, ngx_array_t *secrets, ngx_mcds_purge_pt handler, void *data)
{
    ngx_mcds_purge_t    *purge;
    ngx_mcds_update_t   *update;
    ngx_mcds_request_t  *get;

    purge = ngx_calloc(sizeof(ngx_mcds_purge_t) + key->len, ngx_cycle->log);
    if (purge == NULL) {
        return NULL;
    }

    purge->pool = pool;
    purge->how = how;
    purge->now = now;
    purge->secrets = secrets;
    purge->handler = handler;
    purge->data = data;

    purge->key.data = (u_char *) purge + sizeof(ngx_mcds_purge_t);
    purge->key.len = key->len;
    ngx_memcpy(purge->key.data, key->data, key->len);

    update = &purge->update;

    update->pool = pool;
    update->edit = ngx_mcds_purge_edit;
    update->handler = ngx_mcds_purge_updated;
    update->data = purge;

    if (how != NGX_MCDS_PURGE_RETIRE) {
        update->max = NGX_MCDS_PURGE_TRIES;
        update->force = 1;
    }

    get = &update->get;

    get->verb = NGX_MCDS_GET;
    get->want = NGX_MCDS_VALUE|NGX_MCDS_CAS|NGX_MCDS_FLAGS;
    get->newer = ngx_mcds_newer;
    get->key = purge->key;
    get->limit = NGX_MCDS_PURGE_LIMIT;
    get->bulk = 1;
    get->page = 1;
    get->movable = 1;

    ngx_mcds_update(update);

    return purge;
}


static ngx_int_t
ngx_mcds_purge_edit(void *data, ngx_mcds_result_t *now,
    ngx_mcds_request_t *req)
{
    ngx_mcds_purge_t *purge = data;

    ngx_mcds_value_t  *value;

    if (!ngx_mcds_answered(now->rc) || now->rc == NGX_MCDS_SERVER_ERROR) {
        ngx_mcds_purge_end(purge, now->rc, 0);
        return NGX_DONE;
    }

    purge->was_deleted = (now->rc != NGX_MCDS_NOT_FOUND);

    purge->purge_time = purge->now;
    value = (now->rc == NGX_MCDS_OK) ? ngx_mcds_purge_mark(purge, now) : NULL;

    if (purge->how == NGX_MCDS_PURGE_RETIRE) {
        return ngx_mcds_purge_retire(purge, now, req);
    }

    if (value == NULL) {
        value = ngx_mcds_purge_tombstone(purge);
        req->ttl = (purge->pool->replicas > 1) ? NGX_MCDS_PURGED_TTL_AWAY
                                               : NGX_MCDS_PURGED_TTL;
    }

    if (value == NULL) {
        ngx_mcds_purge_end(purge, NGX_MCDS_BUSY, 0);
        return NGX_DONE;
    }

    /*
     * an item of memcached without a CAS, or one that is too large, is replaced
     * unconditionally by the one that says that the page was purged
     */

    req->want = NGX_MCDS_CAS;
    req->flags = ngx_mcds_entry_client_flags(value);
    req->value = value;
    req->every = 1;

    purge->ejected = ngx_mcds_ejected(purge->pool, req);

    return NGX_OK;
}


/*
 * Lets a page expire soon, to make room for other pages; the list of headers
 * that a page varies by does not expire.  If another request has stored a new
 * version since the purge looked up the page, that version expires, too, and is
 * built again.
 */

static ngx_int_t
ngx_mcds_purge_retire(ngx_mcds_purge_t *purge, ngx_mcds_result_t *now,
    ngx_mcds_request_t *req)
{
    if (now->rc == NGX_MCDS_NOT_FOUND && !purge->looked) {

        /*
         * the page was not found, but another request may be storing it at
         * this moment; as this kind of purge is to free the page's memory in
         * memcached, it looks the page up once more
         */

        purge->looked = 1;

        purge->event.handler = ngx_mcds_purge_later;
        purge->event.data = purge;
        purge->event.log = ngx_cycle->log;
        purge->event.cancelable = 1;

        ngx_add_timer(&purge->event, NGX_MCDS_PURGE_LATER);
        return NGX_DONE;
    }

    if (purge->found != NGX_MCDS_PURGED_PAGE) {
        ngx_mcds_purge_end(purge, NGX_MCDS_OK, 0);
        return NGX_DONE;
    }

    req->verb = NGX_MCDS_TOUCH;
    req->cas = 0;
    req->ttl = NGX_MCDS_PURGE_RETIRED;

    return NGX_OK;
}


static void
ngx_mcds_purge_later(ngx_event_t *ev)
{
    ngx_mcds_purge_t *purge = ev->data;

    ngx_mcds_update(&purge->update);
}


static void
ngx_mcds_purge_updated(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_purge_t *purge = data;

    switch (result->rc) {

    case NGX_MCDS_OK:

        ngx_mcds_body_drop(purge->pool, &purge->key, &purge->cut,
                           NGX_MCDS_PURGE_LINGER);

        ngx_mcds_purge_end(purge, NGX_MCDS_OK, result->cas);
        return;

    case NGX_MCDS_TOO_LARGE:

        /*
         * memcached has refused the page with the mark of the purge, and has
         * removed the page: another attempt stores a purge mark (tombstone)
         * without the page
         */

        if (ngx_mcds_update_again(&purge->update) == NGX_OK) {
            return;
        }

        break;
    }

    ngx_mcds_purge_end(purge, result->rc, 0);
}


static void
ngx_mcds_purge_end(ngx_mcds_purge_t *purge, ngx_uint_t rc, uint64_t cas)
{
    if (purge->running) {
        purge->running = 0;
        ngx_mcds_purge_nrunning--;
    }

    /*
     * The page's purge counter in shared memory (mcds_zone) is incremented
     * before the client that purges gets its response, even if memcached has
     * not answered.  A repeated attempt that fails does not increment the
     * counter again, as the copies of the page on this host are newer than the
     * purge by then.
     */

    if (purge->how != NGX_MCDS_PURGE_RETIRE
        && (purge->handler || rc == NGX_MCDS_OK))
    {
        ngx_mcds_local_purged(&purge->pool->name, &purge->pool->prefix,
                              &purge->key,
                              purge->how == NGX_MCDS_PURGE_DELETE);
    }

    /*
     * the server of the purged page's key is down, and another one stands in:
     * when the server is up again, it still has the old page, so the purge is
     * not complete
     */

    if (rc == NGX_MCDS_OK && purge->ejected) {
        rc = NGX_MCDS_DOWN;
    }

    if (purge->handler) {
        purge->handler(purge->data, rc, purge->found, cas, &purge->left);
        purge->handler = NULL;
    }

    if (rc != NGX_MCDS_OK
        && purge->surely
        && ngx_mcds_purge_wait(purge, rc) == NGX_OK)
    {
        return;
    }

    ngx_mcds_purge_free(purge);
}


/*
 * Lets a failed purge of a page be repeated later.  Returns NGX_DECLINED if
 * the purge is not repeated.
 */

static ngx_int_t
ngx_mcds_purge_wait(ngx_mcds_purge_t *purge, ngx_uint_t rc)
{
    size_t             size;
    ngx_mcds_purge_t  *same;

    if (ngx_exiting || ngx_mcds_purge_disabled(purge)) {
        return NGX_DECLINED;
    }

    if (ngx_mcds_purge_waiting.next == NULL) {
        ngx_queue_init(&ngx_mcds_purge_waiting);
    }

    if (!purge->late) {

        same = ngx_mcds_purge_same(purge);

        if (same) {
            same->now = ngx_max(same->now, purge->now);
            same->until = ngx_current_msec + NGX_MCDS_PURGE_PATIENCE;
            same->delay = NGX_MCDS_PURGE_AGAIN;

            if (purge->how == NGX_MCDS_PURGE_DELETE) {
                same->how = NGX_MCDS_PURGE_DELETE;
            }

            return NGX_DECLINED;
        }

        size = ngx_mcds_purge_late_size + purge->key.len;

        if (ngx_mcds_purge_nlate >= NGX_MCDS_PURGE_LATE
            || size > NGX_MCDS_PURGE_LATE_SIZE)
        {
            ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                          "pool \"%V\" cannot invalidate a page, %s, and too "
                          "many others wait for that: \"%V\"",
                          &purge->pool->name, ngx_mcds_strerror(rc),
                          &purge->key);
            return NGX_DECLINED;
        }

        ngx_mcds_purge_late_size = size;
        ngx_mcds_purge_nlate++;

        purge->late = 1;
        purge->delay = NGX_MCDS_PURGE_AGAIN;
        purge->until = ngx_current_msec + NGX_MCDS_PURGE_PATIENCE;

        purge->event.handler = ngx_mcds_purge_again;
        purge->event.data = purge;
        purge->event.log = ngx_cycle->log;
        purge->event.cancelable = 1;

        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "pool \"%V\" cannot invalidate a page yet, %s: \"%V\"",
                      &purge->pool->name, ngx_mcds_strerror(rc), &purge->key);
    }

    ngx_queue_insert_tail(&ngx_mcds_purge_waiting, &purge->queue);
    ngx_add_timer(&purge->event, purge->delay);

    /*
     * the intervals between repeated purges grow, as each of them may also
     * purge a page that was built and stored after the first attempt
     */

    purge->delay = ngx_min(purge->delay * 2, NGX_MCDS_PURGE_SELDOM);

    return NGX_OK;
}


/*
 * Returns 1 if all servers of the purged page are down by configuration: the
 * purge is not repeated, as these servers do not return.
 */

static ngx_uint_t
ngx_mcds_purge_disabled(ngx_mcds_purge_t *purge)
{
    ngx_uint_t        i, n;
    ngx_mcds_pool_t  *pool;

    pool = purge->pool;
    n = ngx_mcds_place(pool, &purge->key) - 1;

    for (i = 0; i < ngx_max(pool->replicas, 1); i++) {
        if (!ngx_mcds_disabled(pool, (n + i) % pool->servers.nelts)) {
            return 0;
        }
    }

    return 1;
}


static ngx_mcds_purge_t *
ngx_mcds_purge_same(ngx_mcds_purge_t *purge)
{
    ngx_queue_t       *q;
    ngx_mcds_purge_t  *other;

    for (q = ngx_queue_head(&ngx_mcds_purge_waiting);
         q != ngx_queue_sentinel(&ngx_mcds_purge_waiting);
         q = ngx_queue_next(q))
    {
        other = ngx_queue_data(q, ngx_mcds_purge_t, queue);

        if (other->pool == purge->pool
            && ngx_mcds_same(&other->key, &purge->key))
        {
            return other;
        }
    }

    return NULL;
}


static void
ngx_mcds_purge_again(ngx_event_t *ev)
{
    ngx_mcds_purge_t *purge = ev->data;

    ngx_mcds_request_t  req;

    if ((ngx_msec_int_t) (purge->until - ngx_current_msec) < 0) {
        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                      "pool \"%V\" could not invalidate a page for too long, "
                      "it is given up: \"%V\"", &purge->pool->name,
                      &purge->key);

        ngx_queue_remove(&purge->queue);
        ngx_mcds_purge_free(purge);
        return;
    }

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.key = purge->key;
    req.page = 1;
    req.movable = 1;

    /*
     * the purge is repeated only on the page's own server: a stand-in for it
     * has already done the purge
     */

    if (ngx_mcds_down(purge->pool, &req)
        || ngx_mcds_ejected(purge->pool, &req))
    {
        ngx_add_timer(ev, NGX_MCDS_PURGE_AGAIN);
        return;
    }

    if (ngx_mcds_purge_nrunning >= NGX_MCDS_PURGE_AT_ONCE) {
        ngx_add_timer(ev, NGX_MCDS_PURGE_NEXT);
        return;
    }

    ngx_queue_remove(&purge->queue);

    purge->running = 1;
    ngx_mcds_purge_nrunning++;

    ngx_mcds_update(&purge->update);
}


static void
ngx_mcds_purge_free(ngx_mcds_purge_t *purge)
{
    if (purge->late) {
        ngx_mcds_purge_late_size -= purge->key.len;
        ngx_mcds_purge_nlate--;
    }

    ngx_free(purge);
}


/*
 * Copyright (C) mcds authors
 *
 * The body of a page on its way into memcached, in parts (pieces):
 *
 *   append: pieces are cut ---> some are sent ---> answered: freed, or kept
 *        ^                                       |
 *        +--- cut again, with a new generation <-+ all too large
 *
 * The generation is a random number in the memcached keys of the pieces.  All
 * pieces of one generation have the same length, so that a reader can compute
 * which piece has a byte.  A server may refuse the length only before it has
 * stored the first piece; all pieces are still in memory then.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_item_size.h"
#include "ngx_mcds_split_core.h"
#include "ngx_mcds_stat.h"


/*
 * the maximum number of bytes of a body that are sent to memcached and not yet
 * acknowledged
 */
#define NGX_MCDS_SPLIT_FLYING     (1024 * 1024)

/*
 * the maximum number of bytes of a body that are cut into parts and not yet
 * acknowledged: with more, the body is not stored, as memcached is slower than
 * the origin
 */
#define NGX_MCDS_SPLIT_PENDING    (32 * 1024 * 1024)

/*
 * The limits for all bodies that this worker stores in parts, in bytes: above
 * the first limit a body's parts are freed when memcached has them, above the
 * second one bodies are not stored.
 */
#define NGX_MCDS_SPLIT_KEPT       (64 * 1024 * 1024)
#define NGX_MCDS_SPLIT_SIZE       (128 * 1024 * 1024)


static ngx_int_t ngx_mcds_split_start(ngx_mcds_split_t *split);
static void ngx_mcds_split_send(ngx_mcds_split_t *split);
static void ngx_mcds_split_again(ngx_mcds_split_t *split, size_t len);
static void ngx_mcds_split_fail(ngx_mcds_split_t *split, ngx_uint_t rc);
static void ngx_mcds_split_log(ngx_mcds_split_t *split);
static void ngx_mcds_split_lose(ngx_mcds_split_t *split, ngx_uint_t all);
static void ngx_mcds_split_check(ngx_mcds_split_t *split);
static void ngx_mcds_split_handler(ngx_event_t *ev);
static void ngx_mcds_split_lower(ngx_mcds_split_t *split);
static void ngx_mcds_split_low_handler(ngx_event_t *ev);
static void ngx_mcds_split_leave(ngx_mcds_split_t *split);


ngx_mcds_split_t *
ngx_mcds_split_create(ngx_mcds_pool_t *pool, ngx_str_t *key,
    ngx_array_t *secrets)
{
    ngx_mcds_split_t  *split;

    split = ngx_calloc(sizeof(ngx_mcds_split_t) + key->len, ngx_cycle->log);
    if (split == NULL) {
        return NULL;
    }

    split->pool = pool;
    split->key.len = key->len;
    split->key.data = (u_char *) split + sizeof(ngx_mcds_split_t);
    ngx_memcpy(split->key.data, key->data, key->len);

    split->secrets = secrets;
    split->header = secrets ? NGX_MCDS_PART_SIGNED : NGX_MCDS_PART_HEADER;
    split->kept = 1;

    if (ngx_mcds_split_start(split) != NGX_OK) {
        ngx_free(split);
        return NULL;
    }

    return split;
}


/*
 * Starts to store a body in parts under a new generation, a random number in
 * the keys of the parts, so that parts of two bodies are not mixed up.
 */

static ngx_int_t
ngx_mcds_split_start(ngx_mcds_split_t *split)
{
    size_t           level;
    ngx_mcds_cut_t  *cut;

    level = ngx_mcds_item_size_level(split->pool);

    if (level == 0) {
        return NGX_DECLINED;
    }

    cut = &split->cut;

    ngx_mcds_random(&cut->generation, sizeof(uint64_t));

    cut->total = 0;
    cut->parts = 0;
    cut->part = (uint32_t) (level - split->header);

    ngx_queue_init(&split->pieces);
    split->pending = 0;
    split->flying = 0;
    split->sent = 0;

    return NGX_OK;
}


ngx_int_t
ngx_mcds_split_append(ngx_mcds_split_t *split, u_char *data, size_t len)
{
    if (split->rc != NGX_MCDS_OK && !split->kept) {
        return NGX_ERROR;
    }

    if (ngx_mcds_split_fill(split, data, len) != NGX_OK) {
        ngx_mcds_split_fail(split, NGX_MCDS_BUSY);
        split->kept = 0;
        return NGX_ERROR;
    }

    if (split->kept
        && (split->cut.total > NGX_MCDS_SPLIT_KEEP
            || ngx_mcds_memory.storing > NGX_MCDS_SPLIT_KEPT))
    {
        split->kept = 0;

        if (split->rc == NGX_MCDS_TOO_LARGE) {
            ngx_mcds_split_log(split);
        }

        ngx_mcds_split_lose(split, split->rc != NGX_MCDS_OK);
    }

    if ((split->pending > NGX_MCDS_SPLIT_PENDING
         || ngx_mcds_memory.storing > NGX_MCDS_SPLIT_SIZE)
        && split->rc == NGX_MCDS_OK)
    {
        ngx_mcds_split_fail(split, NGX_MCDS_BUSY);
    }

    ngx_mcds_split_send(split);

    return (split->kept || split->rc == NGX_MCDS_OK) ? NGX_OK : NGX_ERROR;
}


static void
ngx_mcds_split_send(ngx_mcds_split_t *split)
{
    u_char               suffix[NGX_MCDS_PART_SUFFIX];
    size_t               len;
    ngx_queue_t         *q;
    ngx_mcds_piece_t    *piece;
    ngx_mcds_request_t   req;

    if (split->rc != NGX_MCDS_OK) {
        return;
    }

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.verb = NGX_MCDS_SET;
    req.key = split->key;
    req.suffix.data = suffix;
    req.by_key = 1;
    req.bulk = 1;
    req.page = 1;
    req.movable = 1;

    for (q = ngx_queue_head(&split->pieces);
         q != ngx_queue_sentinel(&split->pieces);
         q = ngx_queue_next(q))
    {
        piece = ngx_queue_data(q, ngx_mcds_piece_t, queue);

        if (piece->sent) {
            continue;
        }

        len = piece->value->len;

        if (split->flying
            && (split->flying + len > NGX_MCDS_SPLIT_FLYING
                || split->sent >= ngx_mcds_pool_batch(split->pool, len)))
        {
            break;
        }

        ngx_mcds_part_suffix(&req.suffix, split->cut.generation, piece->n);
        req.value = piece->value;

        ngx_mcds_submit(split->pool, &req, &piece->op);

        piece->sent = 1;
        split->sent++;
        split->flying += len;
    }
}


void
ngx_mcds_split_answered(void *data, ngx_mcds_result_t *result)
{
    size_t             len;
    ngx_mcds_piece_t  *piece;
    ngx_mcds_split_t  *split;

    piece = data;
    split = piece->split;
    len = piece->value->len;

    piece->answered = 1;
    split->sent--;
    split->flying -= len;
    split->pending -= len;

    if (result->rc == NGX_MCDS_OK) {
        split->accepted++;

        if (!split->kept) {
            ngx_queue_remove(&piece->queue);
            ngx_mcds_split_free_piece(piece);
        }

    } else if (result->rc == NGX_MCDS_TOO_LARGE
               && split->rc == NGX_MCDS_OK
               && split->accepted == 0)
    {
        ngx_mcds_split_again(split, len);

    } else {
        ngx_mcds_split_fail(split, result->rc);
    }

    ngx_mcds_split_send(split);
    ngx_mcds_split_check(split);
    ngx_mcds_split_lower(split);
}


/*
 * Cuts a body again, into smaller parts, as memcached has refused the length of
 * a part; the store begins again with the first byte of the body.
 */

static void
ngx_mcds_split_again(ngx_mcds_split_t *split, size_t len)
{
    ngx_int_t          rc;
    ngx_queue_t        pieces, *q;
    ngx_mcds_piece_t  *piece;
    ngx_mcds_value_t  *value;

    if (ngx_mcds_item_size_learn(split->pool, len) != NGX_OK) {
        ngx_mcds_split_fail(split, NGX_MCDS_TOO_LARGE);
        return;
    }

    ngx_queue_init(&pieces);
    ngx_queue_add(&pieces, &split->pieces);
    ngx_queue_init(&split->pieces);

    value = split->value;
    split->value = NULL;

    rc = ngx_mcds_split_start(split);

    while (!ngx_queue_empty(&pieces)) {
        q = ngx_queue_head(&pieces);
        piece = ngx_queue_data(q, ngx_mcds_piece_t, queue);
        ngx_queue_remove(q);

        if (rc == NGX_OK) {
            rc = ngx_mcds_split_fill(split,
                                     piece->value->data + split->header,
                                     piece->value->len - split->header);
        }

        ngx_mcds_split_free_piece(piece);
    }

    if (value && rc == NGX_OK) {
        rc = ngx_mcds_split_fill(split, value->data + split->header,
                                 value->len - split->header);
    }

    ngx_mcds_split_free_value(value);

    if (rc == NGX_OK && split->ended && split->value) {
        rc = ngx_mcds_split_piece(split);
    }

    if (rc != NGX_OK) {
        split->kept = 0;
        ngx_mcds_split_fail(split, NGX_MCDS_BUSY);
    }
}


static void
ngx_mcds_split_fail(ngx_mcds_split_t *split, ngx_uint_t rc)
{
    if (split->rc != NGX_MCDS_OK) {
        return;
    }

    split->rc = rc;

    /*
     * Log here why memcached does not store the parts of the page's body.  But
     * if it refuses them as too large while this worker still has the whole
     * body in memory, ngx_mcds_store_too_large() is to log that.
     */

    if (rc != NGX_MCDS_TOO_LARGE || !split->kept) {
        ngx_mcds_split_log(split);
    }

    if (!split->kept) {
        ngx_mcds_split_lose(split, 1);
    }
}


/* logs why memcached does not get the body of a page */

static void
ngx_mcds_split_log(ngx_mcds_split_t *split)
{
    ngx_uint_t      level;
    ngx_mcds_key_t  key;

    ngx_mcds_key_show(&key, &split->key);

    if (split->rc == NGX_MCDS_BUSY) {
        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "page \"%*s\" is not stored, memcached does not keep up",
                      (size_t) key.len, key.data);
        return;
    }

    /* if memcached does not answer, that is logged as an error elsewhere */

    level = ngx_mcds_answered(split->rc) ? NGX_LOG_WARN : NGX_LOG_INFO;

    ngx_log_error(level, ngx_cycle->log, 0,
                  "a part of page \"%*s\" is not stored: %s",
                  (size_t) key.len, key.data, ngx_mcds_strerror(split->rc));
}


/*
 * Frees the parts of a body in memory: those that memcached has or, if "all"
 * is set, all of them.
 */

static void
ngx_mcds_split_lose(ngx_mcds_split_t *split, ngx_uint_t all)
{
    ngx_queue_t       *q, *next;
    ngx_mcds_piece_t  *piece;

    for (q = ngx_queue_head(&split->pieces);
         q != ngx_queue_sentinel(&split->pieces);
         q = next)
    {
        next = ngx_queue_next(q);
        piece = ngx_queue_data(q, ngx_mcds_piece_t, queue);

        if (!piece->answered && !all) {
            continue;
        }

        ngx_queue_remove(q);

        if (!piece->answered) {
            split->pending -= piece->value->len;
        }

        if (piece->sent && !piece->answered) {
            split->flying -= piece->value->len;
        }

        ngx_mcds_split_free_piece(piece);
    }

    if (all) {
        ngx_mcds_split_free_value(split->value);
        split->value = NULL;
    }
}


size_t
ngx_mcds_split_pending(ngx_mcds_split_t *split)
{
    return (split->rc == NGX_MCDS_OK) ? split->pending : 0;
}


void
ngx_mcds_split_wait(ngx_mcds_split_t *split, void (*handler)(void *data),
    void *data)
{
    split->low.handler = ngx_mcds_split_low_handler;
    split->low.data = split;
    split->low.log = ngx_cycle->log;

    split->low_handler = handler;
    split->low_data = data;
    split->low_pending = split->pending / 2;

    ngx_mcds_split_lower(split);
}


static void
ngx_mcds_split_lower(ngx_mcds_split_t *split)
{
    if (split->low_handler
        && ngx_mcds_split_pending(split) <= split->low_pending)
    {
        ngx_post_event(&split->low, &ngx_posted_events);
    }
}


static void
ngx_mcds_split_low_handler(ngx_event_t *ev)
{
    ngx_mcds_split_t *split = ev->data;

    void  (*handler)(void *data);

    handler = split->low_handler;
    split->low_handler = NULL;

    if (handler) {
        handler(split->low_data);
    }
}


void
ngx_mcds_split_end(ngx_mcds_split_t *split, ngx_mcds_split_pt handler,
    void *data)
{
    split->handler = handler;
    split->data = data;
    split->ended = 1;
    split->low_handler = NULL;

    if (split->value && ngx_mcds_split_piece(split) != NGX_OK) {
        split->kept = 0;
        ngx_mcds_split_fail(split, NGX_MCDS_BUSY);
    }

    ngx_mcds_split_send(split);
    ngx_mcds_split_check(split);
}


static void
ngx_mcds_split_check(ngx_mcds_split_t *split)
{
    if (!split->ended
        || (split->rc == NGX_MCDS_OK
            && split->accepted != split->cut.parts))
    {
        return;
    }

    if (!split->event.posted) {
        split->event.handler = ngx_mcds_split_handler;
        split->event.data = split;
        split->event.log = ngx_cycle->log;

        ngx_post_event(&split->event, &ngx_posted_events);
    }
}


static void
ngx_mcds_split_handler(ngx_event_t *ev)
{
    ngx_mcds_split_t *split = ev->data;

    split->handler(split->data, split, split->rc);

    if (split->rc != NGX_MCDS_OK && (split->accepted || split->sent)) {
        ngx_mcds_body_drop(split->pool, &split->key, &split->cut, 0);
    }

    ngx_mcds_split_leave(split);
}


void
ngx_mcds_split_abandon(ngx_mcds_split_t *split)
{
    if (split->accepted || split->sent) {
        ngx_mcds_body_drop(split->pool, &split->key, &split->cut, 0);
    }

    ngx_mcds_split_leave(split);
}


static void
ngx_mcds_split_leave(ngx_mcds_split_t *split)
{
    ngx_mcds_split_lose(split, 1);

    split->low_handler = NULL;

    if (split->low.posted) {
        ngx_delete_posted_event(&split->low);
    }

    ngx_free(split);
}


void
ngx_mcds_split_entry(ngx_mcds_split_t *split, ngx_mcds_entry_t *entry)
{
    ngx_mcds_cut_t  *cut;

    cut = &split->cut;

    entry->generation = cut->generation;
    entry->total = cut->total;
    entry->parts = cut->parts;
    entry->part = cut->part;
}


/*
 * Copyright (C) mcds authors
 *
 * Stores the body of a response: as it comes or compressed, in one item or in
 * parts.  Tells whether the response has come to its end.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_mcds_posted.h"
#include "ngx_http_mcds_header.h"
#include "ngx_http_mcds_cache.h"
#include "ngx_http_mcds_coding.h"
#include "ngx_http_mcds_store.h"
#include "ngx_http_mcds_store_core.h"


/*
 * the maximum bytes of a response that the origin has sent and memcached has
 * not yet stored
 */
#define NGX_HTTP_MCDS_AHEAD       (4 * 1024 * 1024)

/*
 * bytes of a response that the cache compresses in a turn of the event loop,
 * about a millisecond
 */
#define NGX_HTTP_MCDS_COMPRESS_TURN  (32 * 1024)


static ngx_int_t ngx_http_mcds_store_encode(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_store_t *store);
static ngx_int_t ngx_http_mcds_store_put(void *data, u_char *p, size_t size);
static ngx_uint_t ngx_http_mcds_store_buffered(ngx_http_request_t *r);
static void ngx_http_mcds_store_next(ngx_event_t *ev);


ngx_http_mcds_coding_hooks_t  *ngx_http_mcds_coding_hooks;


ngx_int_t
ngx_http_mcds_store_data(ngx_http_mcds_cache_ctx_t *ctx, u_char *p,
    size_t size)
{
    ngx_int_t               rc;
    ngx_http_mcds_store_t  *store;

    store = ctx->store;

    if (store->compress
        && store->encoder == NULL
        && (store->expected >= 0
            || store->length + size >= store->compress->min_length))
    {
        rc = ngx_http_mcds_store_encode(ctx->task->request, ctx, store);

        if (rc != NGX_OK) {
            return rc;
        }
    }

    if (store->encoder) {
        store->turn += size;

        return ngx_http_mcds_coding_hooks->run(store->encoder, p, size, 0,
                                               ngx_http_mcds_store_put, ctx);
    }

    return ngx_http_mcds_store_put(ctx, p, size);
}


ngx_int_t
ngx_http_mcds_store_data_end(ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_int_t               rc;
    ngx_http_mcds_store_t  *store;

    store = ctx->store;

    if (store->encoder) {
        rc = ngx_http_mcds_coding_hooks->run(store->encoder, NULL, 0, 1,
                                             ngx_http_mcds_store_put, ctx);

        if (rc != NGX_OK) {
            return rc;
        }

        ngx_http_mcds_store_encoded(store);
    }

    store->entry.length = store->length;

    return NGX_OK;
}


/*
 * starts to compress the body of the response that is stored: the bytes of the
 * body that were stored as they came are now compressed
 */

static ngx_int_t
ngx_http_mcds_store_encode(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_store_t *store)
{
    size_t              size;
    ngx_int_t           rc;
    ngx_mcds_value_t   *head, *value;

    size = (size_t) store->stored;

    store->encoder = NULL;

    if (!store->split) {
        store->encoder = ngx_http_mcds_coding_hooks->create(
                                                     store->compress->coding,
                                                     store->compress->level);
    }

    if (store->encoder == NULL) {

        /*
         * there is no encoder, as memory has run out or the body is stored in
         * parts: the body of the response is stored as it comes
         */

        store->compress = NULL;
        return NGX_OK;
    }

    store->entry.coding = store->compress->coding;

    if (size == 0) {
        return NGX_OK;
    }

    head = ngx_mcds_entry_begin(&store->entry,
                                NGX_HTTP_MCDS_ROOM + NGX_MCDS_VALUE_SPARE,
                                r->connection->log);
    if (head == NULL) {
        return NGX_ERROR;
    }

    value = store->value;

    store->value = head;
    store->stored = 0;

    rc = ngx_http_mcds_coding_hooks->run(store->encoder,
                                         value->data + head->len, size, 0,
                                         ngx_http_mcds_store_put, ctx);

    ngx_mcds_value_unref(value);

    return rc;
}


/*
 * stores bytes of the response's body, or of the output of the encoder that
 * compresses it
 */

static ngx_int_t
ngx_http_mcds_store_put(void *data, u_char *p, size_t size)
{
    ngx_http_mcds_cache_ctx_t *ctx = data;

    ngx_int_t               rc;
    ngx_mcds_value_t       *value;
    ngx_http_request_t     *r;
    ngx_http_mcds_store_t  *store;

    r = ctx->task->request;
    store = ctx->store;

    if (store->split == NULL && store->value->len + size > store->limit) {

        rc = ngx_http_mcds_store_split(r, ctx, store);

        if (rc == NGX_ERROR || rc == NGX_BUSY) {
            return rc;
        }
    }

    if (store->split) {

        if (ngx_mcds_split_append(store->split, p, size) != NGX_OK) {
            return NGX_DECLINED;
        }

        store->stored += size;

        return NGX_OK;
    }

    value = ngx_mcds_entry_grow(store->value, size + NGX_MCDS_VALUE_SPARE,
                                r->connection->log);
    if (value == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(value->data + value->len, p, size);
    value->len += size;

    store->value = value;
    store->stored += size;

    return NGX_OK;
}


ngx_int_t
ngx_http_mcds_store_split(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_store_t *store)
{
    size_t             size;
    ngx_mcds_value_t  *head, *value;

    if (store->entry.flags & NGX_MCDS_ENTRY_VALIDATE) {

        /*
         * when the origin confirms a page with no-cache by a 304, mcds sends
         * the page, which is not possible if the page's body is in parts
         */

        return NGX_BUSY;
    }

    store->split = ngx_mcds_page_split(store->waiter);

    if (store->split == NULL) {

        if (store->limit == NGX_MCDS_SPLIT_KEEP) {
            return NGX_BUSY;
        }

        store->limit = NGX_MCDS_SPLIT_KEEP;
        return NGX_DECLINED;
    }

    head = ngx_mcds_entry_begin(&store->entry, NGX_MCDS_VALUE_SPARE,
                                r->connection->log);
    if (head == NULL) {
        return NGX_ERROR;
    }

    value = store->value;
    size = (size_t) store->stored;

    store->value = head;

    if (size
        && ngx_mcds_split_append(store->split, value->data + head->len, size)
           != NGX_OK)
    {
        ngx_mcds_value_unref(value);
        return NGX_ERROR;
    }

    ngx_mcds_value_unref(value);

    return NGX_OK;
}


ngx_uint_t
ngx_http_mcds_store_waits(ngx_http_mcds_cache_ctx_t *ctx,
    void (*handler)(void *data))
{
    ngx_mcds_split_t       *split;
    ngx_http_mcds_store_t  *store;

    store = ctx->store;
    split = store->split;

    if (store->turn >= NGX_HTTP_MCDS_COMPRESS_TURN
        && (ctx->tee.limited
            || !ngx_http_mcds_store_buffered(ctx->task->request)))
    {
        store->resume = handler;

        if (!store->next.posted) {
            store->next.handler = ngx_http_mcds_store_next;
            store->next.data = ctx;
            store->next.log = ctx->task->request->connection->log;

            ngx_mcds_post_later(&store->next);
        }

        return 1;
    }

    if (split == NULL
        || ngx_mcds_split_pending(split) < NGX_HTTP_MCDS_AHEAD)
    {
        return 0;
    }

    ngx_mcds_split_wait(split, handler, ctx);

    return 1;
}


/*
 * returns 1 if an event pipe of the upstream would fill a temporary file while
 * the response is held back
 */

static ngx_uint_t
ngx_http_mcds_store_buffered(ngx_http_request_t *r)
{
    return r->upstream && r->upstream->cleanup && r->upstream->buffering;
}


static void
ngx_http_mcds_store_next(ngx_event_t *ev)
{
    ngx_http_mcds_cache_ctx_t *ctx = ev->data;

    ctx->store->turn = 0;
    ctx->store->resume(ctx);
}


ngx_uint_t
ngx_http_mcds_store_updates(ngx_http_request_t *r, ngx_mcds_entry_t *entry)
{
    return ngx_mcds_entry_fits(entry) == NGX_OK
           && !(entry->coding && ngx_http_mcds_coding_hooks->fixed(r));
}


void
ngx_http_mcds_store_encoded(ngx_http_mcds_store_t *store)
{
    if (store->next.posted) {
        ngx_delete_posted_event(&store->next);
    }

    if (store->encoder) {
        ngx_http_mcds_coding_hooks->free(store->encoder);
        store->encoder = NULL;
    }
}


off_t
ngx_http_mcds_store_expected(ngx_http_request_t *r, off_t length)
{
    off_t                 n;
    ngx_str_t            *value;
    ngx_http_upstream_t  *u;

    u = r->upstream;

    /*
     * If a stream of HTTP/2 ends with its header, nginx before 1.31.4 takes 0
     * for the length of the response, whatever Content-Length says.  A response
     * 204 has no body.  After X-Accel-Redirect, the response to be stored is
     * not that of the upstream, which has ended.
     */

    if (length != 0
        || r->headers_out.status == NGX_HTTP_NO_CONTENT
        || u == NULL
        || u->cleanup == NULL
        || u->headers_in.content_length == NULL)
    {
        return length;
    }

    value = &u->headers_in.content_length->value;

    n = ngx_atoof(value->data, value->len);

    return (n > 0) ? n : length;
}


ngx_uint_t
ngx_http_mcds_store_ended(ngx_http_request_t *r)
{
    ngx_http_upstream_t  *u;

    u = r->upstream;

    /*
     * after X-Accel-Redirect, the response to be stored is not that of the
     * upstream
     */

    if (u == NULL
        || !u->header_sent
        || u->conf->module.len != 7
        || ngx_strncmp(u->conf->module.data, "fastcgi", 7) != 0)
    {
        return 1;
    }

    return u->buffering ? u->pipe->upstream_done : (u->length == 0);
}


ngx_uint_t
ngx_http_mcds_store_status_trails(ngx_http_request_t *r)
{
    ngx_uint_t            i;
    ngx_list_part_t      *part;
    ngx_table_elt_t      *h;
    ngx_http_upstream_t  *u;

    u = r->upstream;

    if (u == NULL || !u->header_sent) {
        return 0;
    }

    /* this list also has the trailers that the location hides */

    for (part = &u->headers_in.trailers.part; part; part = part->next) {

        h = part->elts;

        for (i = 0; i < part->nelts; i++) {
            if (ngx_http_mcds_header_is(&h[i].key, "grpc-status")) {
                return 1;
            }
        }
    }

    return 0;
}


ngx_uint_t
ngx_http_mcds_store_broken(ngx_http_request_t *r, ngx_buf_t *b)
{
    ngx_http_upstream_t  *u;

    u = r->upstream;

    return u && u->header_sent && u->cleanup == NULL
           && b->flush && ngx_buf_special(b);
}

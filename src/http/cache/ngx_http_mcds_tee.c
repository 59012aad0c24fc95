
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"
#include "ngx_http_mcds_store.h"
#include "ngx_http_mcds_tee.h"


/*
 * the maximum bytes of responses that a worker has copied, and keeps for all
 * its slow clients until they read them, see ngx_http_mcds_may_detach()
 */
#define NGX_HTTP_MCDS_DETACHED    (64 * 1024 * 1024)

/*
 * milliseconds after which a slow client's request stops storing the page, if
 * the response bytes kept for all slow clients exceed NGX_HTTP_MCDS_DETACHED
 */
#define NGX_HTTP_MCDS_ATTACHED    1000


static ngx_uint_t ngx_http_mcds_may_hold(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_chain_t *in);
static void ngx_http_mcds_hold_back_handler(void *data);
static ngx_int_t ngx_http_mcds_attach(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);
static void ngx_http_mcds_attach_handler(ngx_event_t *ev);
static ngx_int_t ngx_http_mcds_detach_init(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);
static void ngx_http_mcds_detach_free(ngx_buf_t *b);
static void ngx_http_mcds_detach_cleanup(void *data);


ngx_int_t
ngx_http_mcds_hold_back(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx,
    ngx_chain_t **in)
{
    ngx_uint_t  hold;

    hold = ctx->store
           && ngx_http_mcds_may_hold(r, ctx, *in)
           && ngx_http_mcds_store_waits(ctx, ngx_http_mcds_hold_back_handler);

    if (!hold && ctx->tee.held == NULL) {
        return NGX_OK;
    }

    if (*in && ngx_chain_add_copy(r->pool, &ctx->tee.held, *in) != NGX_OK) {
        return NGX_ERROR;
    }

    *in = NULL;

    if (!hold) {
        *in = ctx->tee.held;
        ctx->tee.held = NULL;
    }

    return NGX_OK;
}


/*
 * Returns 1 if the data of an origin's response may be held back.  A background
 * refresh of a page ends when its upstream ends, so its data may be held only
 * if the upstream is unbuffered, without an event pipe.  A buffer with flags is
 * never held: it may be the last.
 */

static ngx_uint_t
ngx_http_mcds_may_hold(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx,
    ngx_chain_t *in)
{
    if (ctx->task->refresh && (r->upstream == NULL || r->upstream->buffering)) {
        return 0;
    }

    for ( /* void */ ; in; in = in->next) {

        if (ngx_buf_special(in->buf)
            || in->buf->last_buf
            || in->buf->last_in_chain)
        {
            return 0;
        }
    }

    return 1;
}


static void
ngx_http_mcds_hold_back_handler(void *data)
{
    ngx_http_mcds_cache_ctx_t *ctx = data;

    ngx_connection_t     *c;
    ngx_http_request_t   *r;
    ngx_http_upstream_t  *u;

    r = ctx->task->request;

    if (r->post_action) {

        /*
         * the client has left, and nginx has led the request to its
         * "post_action": the data that was held back is not sent any more
         */
        return;
    }

    u = r->upstream;
    c = r->connection;

    ngx_http_set_log_request(c->log, r);

    ngx_log_debug0(NGX_LOG_DEBUG_HTTP, c->log, 0, "mcds goes on storing");

    /*
     * while limit_rate delays the response to the client, only an event of the
     * upstream can continue the upstream's event pipe
     */

    if (u && u->cleanup && u->buffering && u->peer.connection) {
        ngx_post_event(u->peer.connection->read, &ngx_posted_events);
    }

    if (ngx_http_output_filter(r, NULL) == NGX_ERROR) {

        /* an upstream that nginx ends while it frees r would free r again */

        if (u && u->cleanup) {
            r->main->count++;
            (*u->cleanup)(r);
        }

        ngx_http_finalize_request(r, NGX_ERROR);

    } else {
        r->write_event_handler(r);
    }

    ngx_http_run_posted_requests(c);
}


ngx_uint_t
ngx_http_mcds_may_detach(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx,
    ngx_chain_t *in)
{
    size_t  size;

    for (size = 0; in; in = in->next) {
        if (ngx_buf_in_memory(in->buf)) {
            size += in->buf->last - in->buf->pos;
        }
    }

    if (size <= NGX_HTTP_MCDS_DETACHED
        && ngx_mcds_memory.unsent <= NGX_HTTP_MCDS_DETACHED - size)
    {
        return 1;
    }

    if (ctx->store && ngx_http_mcds_attach(r, ctx) != NGX_OK) {
        ngx_http_mcds_store_leave(ctx);
    }

    return 0;
}


static ngx_int_t
ngx_http_mcds_attach(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_event_t  *ev;

    if (ctx->tee.attached) {
        return NGX_OK;
    }

    ev = ngx_pcalloc(r->pool, sizeof(ngx_event_t));

    if (ev == NULL || ngx_http_mcds_detach_init(r, ctx) != NGX_OK) {
        return NGX_ERROR;
    }

    ev->handler = ngx_http_mcds_attach_handler;
    ev->data = ctx;
    ev->log = r->connection->log;

    ngx_add_timer(ev, NGX_HTTP_MCDS_ATTACHED);

    ctx->tee.attached = ev;

    return NGX_OK;
}


static void
ngx_http_mcds_attach_handler(ngx_event_t *ev)
{
    ngx_http_mcds_cache_ctx_t *ctx = ev->data;

    ngx_http_request_t  *r;

    r = ctx->task->request;

    ngx_http_set_log_request(r->connection->log, r);

    if (ctx->store) {
        ngx_http_mcds_store_leave(ctx);
    }

    /* the client now gets the data that was held back for memcached */

    if (ctx->tee.held) {
        ngx_http_mcds_hold_back_handler(ctx);
    }
}


ngx_int_t
ngx_http_mcds_detach(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx,
    ngx_chain_t *in, ngx_chain_t **out)
{
    size_t        size;
    ngx_buf_t    *b;
    ngx_chain_t  *cl;

    if (ngx_http_mcds_detach_init(r, ctx) != NGX_OK) {
        return NGX_ERROR;
    }

    for ( /* void */ ; in; in = in->next) {

        b = in->buf;
        size = ngx_buf_in_memory(b) ? b->last - b->pos : 0;

        if (size == 0) {
            cl = ngx_alloc_chain_link(r->pool);
            if (cl == NULL) {
                return NGX_ERROR;
            }

            cl->buf = b;

        } else {
            cl = ngx_chain_get_free_buf(r->pool, &ctx->tee.detach_free);
            if (cl == NULL) {
                return NGX_ERROR;
            }

            b = cl->buf;
            ngx_memzero(b, sizeof(ngx_buf_t));

            b->start = ngx_alloc(size, r->connection->log);
            if (b->start == NULL) {
                return NGX_ERROR;
            }

            ngx_mcds_memory.unsent += size;

            b->pos = b->start;
            b->last = ngx_cpymem(b->start, in->buf->pos, size);
            b->end = b->last;
            b->temporary = 1;
            b->tag = (ngx_buf_tag_t) &ngx_http_mcds_filter_module;
            b->flush = in->buf->flush || in->buf->recycled;
            b->last_buf = in->buf->last_buf;
            b->last_in_chain = in->buf->last_in_chain;

            in->buf->pos = in->buf->last;
            in->buf->file_pos = in->buf->file_last;
        }

        cl->next = NULL;
        *out = cl;
        out = &cl->next;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_mcds_detach_init(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_pool_cleanup_t  *cln;

    if (ctx->detaching) {
        return NGX_OK;
    }

    cln = ngx_pool_cleanup_add(r->pool, 0);
    if (cln == NULL) {
        return NGX_ERROR;
    }

    cln->handler = ngx_http_mcds_detach_cleanup;
    cln->data = ctx;

    ctx->detaching = 1;

    return NGX_OK;
}


void
ngx_http_mcds_detached(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx,
    ngx_chain_t *out)
{
    ngx_chain_t  *cl;

    if (ctx->tee.detached == NULL) {
        ctx->tee.detached_last = &ctx->tee.detached;
    }

    *ctx->tee.detached_last = out;

    for (cl = out; cl; cl = cl->next) {
        ctx->tee.detached_last = &cl->next;
    }

    while (ctx->tee.detached) {
        cl = ctx->tee.detached;

        if (cl->buf->tag != (ngx_buf_tag_t) &ngx_http_mcds_filter_module) {
            ctx->tee.detached = cl->next;
            ngx_free_chain(r->pool, cl);
            continue;
        }

        if (ngx_buf_size(cl->buf) != 0) {
            return;
        }

        ngx_http_mcds_detach_free(cl->buf);

        ctx->tee.detached = cl->next;
        cl->next = ctx->tee.detach_free;
        ctx->tee.detach_free = cl;
    }
}


static void
ngx_http_mcds_detach_free(ngx_buf_t *b)
{
    ngx_mcds_memory.unsent -= b->end - b->start;

    ngx_free(b->start);
}


static void
ngx_http_mcds_detach_cleanup(void *data)
{
    ngx_http_mcds_cache_ctx_t *ctx = data;

    ngx_chain_t  *cl;

    if (ctx->tee.attached && ctx->tee.attached->timer_set) {
        ngx_del_timer(ctx->tee.attached);
    }

    for (cl = ctx->tee.detached; cl; cl = cl->next) {
        if (cl->buf->tag == (ngx_buf_tag_t) &ngx_http_mcds_filter_module) {
            ngx_http_mcds_detach_free(cl->buf);
        }
    }

    ctx->tee.detached = NULL;
}

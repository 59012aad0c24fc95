
/*
 * Copyright (C) mcds authors
 *
 * The storing filter.  Its place is behind the copy filter, which reads files
 * into memory, and before the headers, SSI, charset and gzip filters: a page
 * is stored as the origin has sent it.  For a request with a client, the
 * response passes on as without the filter; a refresh has no client, and its
 * response ends in this filter.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_header.h"
#include "ngx_http_mcds_refresh.h"
#include "ngx_http_mcds_cache.h"
#include "ngx_http_mcds_coding.h"
#include "ngx_http_mcds_cache_vars.h"
#include "ngx_http_mcds_own.h"
#include "ngx_http_mcds_revalidate.h"
#include "ngx_http_mcds_route.h"
#include "ngx_http_mcds_store.h"
#include "ngx_http_mcds_vary.h"


/*
 * the size of a response, in bytes, above which the upstream of a refresh (a
 * request without a client that builds a page) is unbuffered, so that the cache
 * can hold the upstream back while memcached is slower
 */
#define NGX_HTTP_MCDS_UNBUFFERED  (1024 * 1024)

/*
 * the size of a response that is stored compressed, in bytes, above which its
 * upstream is unbuffered, as compression takes time
 */
#define NGX_HTTP_MCDS_COMPRESSED  (128 * 1024)

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


static ngx_int_t ngx_http_mcds_header_filter(ngx_http_request_t *r);
static void ngx_http_mcds_header_replaced(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);
static ngx_int_t ngx_http_mcds_instead(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_int_t rc);
static ngx_int_t ngx_http_mcds_header_pass(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);
static void ngx_http_mcds_header_withdraw(ngx_http_request_t *r);
static ngx_int_t ngx_http_mcds_body_filter(ngx_http_request_t *r,
    ngx_chain_t *in);
static ngx_int_t ngx_http_mcds_filter_init(ngx_conf_t *cf);
static ngx_int_t ngx_http_mcds_hold_back(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_chain_t **in);
static ngx_uint_t ngx_http_mcds_may_hold(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_chain_t *in);
static void ngx_http_mcds_hold_back_handler(void *data);
static ngx_uint_t ngx_http_mcds_may_detach(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_chain_t *in);
static ngx_int_t ngx_http_mcds_attach(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);
static void ngx_http_mcds_attach_handler(ngx_event_t *ev);
static ngx_int_t ngx_http_mcds_detach(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_chain_t *in, ngx_chain_t **out);
static ngx_int_t ngx_http_mcds_detach_init(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);
static void ngx_http_mcds_detached(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_chain_t *out);
static void ngx_http_mcds_detach_free(ngx_buf_t *b);
static void ngx_http_mcds_detach_cleanup(void *data);
static ngx_uint_t ngx_http_mcds_alone(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);
static void ngx_http_mcds_consume(ngx_chain_t *in);
static ngx_uint_t ngx_http_mcds_silent(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);
static ngx_uint_t ngx_http_mcds_unwanted(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);
static void ngx_http_mcds_unbuffer(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);
static ngx_uint_t ngx_http_mcds_limited(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);


static ngx_http_module_t  ngx_http_mcds_filter_module_ctx = {
    NULL,                                  /* preconfiguration */
    ngx_http_mcds_filter_init,             /* postconfiguration */

    NULL,                                  /* create main configuration */
    NULL,                                  /* init main configuration */

    NULL,                                  /* create server configuration */
    NULL,                                  /* merge server configuration */

    NULL,                                  /* create location configuration */
    NULL                                   /* merge location configuration */
};


ngx_module_t  ngx_http_mcds_filter_module = {
    NGX_MODULE_V1,
    &ngx_http_mcds_filter_module_ctx,      /* module context */
    NULL,                                  /* module directives */
    NGX_HTTP_MODULE,                       /* module type */
    NULL,                                  /* init master */
    NULL,                                  /* init module */
    NULL,                                  /* init process */
    NULL,                                  /* init thread */
    NULL,                                  /* exit thread */
    NULL,                                  /* exit process */
    NULL,                                  /* exit master */
    NGX_MODULE_V1_PADDING
};


/* headers of a page that are wrong in an error page that replaces the page */

static ngx_str_t  ngx_http_mcds_of_page[] = {
    ngx_string("Cache-Control"),
    ngx_string("Cache-Status"),
    ngx_string("Content-Digest"),
    ngx_string("Content-Encoding"),
    ngx_string("Content-Language"),
    ngx_string("Content-Location"),
    ngx_string("Content-MD5"),
    ngx_string("Digest"),
    ngx_string("Edge-Control"),
    ngx_string("Expires"),
    ngx_string("Pragma"),
    ngx_string("Repr-Digest"),
    ngx_string("Surrogate-Control"),
    ngx_null_string
};


static ngx_http_output_header_filter_pt  ngx_http_next_header_filter;
static ngx_http_output_body_filter_pt    ngx_http_next_body_filter;


static ngx_int_t
ngx_http_mcds_header_filter(ngx_http_request_t *r)
{
    ngx_int_t                    rc;
    ngx_http_mcds_cache_ctx_t   *ctx;
    ngx_http_mcds_cache_conf_t  *ccf;

    if (ngx_http_mcds_cache_asked(r) != NGX_OK) {
        return NGX_ERROR;
    }

    ctx = ngx_http_mcds_cache_get(r);

    if (ctx && ctx->store) {

        /*
         * another filter has refused the response that was being stored: the
         * header that comes now is that of the error page
         */

        ngx_http_mcds_store_cleanup(ctx);
    }

    if (ctx) {
        ctx->instead = 0;

        if (ngx_http_mcds_own_taking(ctx)) {
            ngx_http_mcds_own_end(ctx);
        }
    }

    if (ctx
        && (ctx->waiter.building
            || (ctx->state == NGX_HTTP_MCDS_STATE_STORE && !ctx->judged)))
    {
        ngx_http_mcds_header_replaced(r, ctx);

        rc = ngx_http_mcds_revalidate(r, ctx);

        if (ngx_http_mcds_revalidate_asked(r, ctx) != NGX_OK
            || rc == NGX_AGAIN)
        {
            return NGX_ERROR;
        }

        if (rc != NGX_DECLINED && rc != NGX_DONE) {
            return ngx_http_mcds_instead(r, ctx, rc);
        }

        ccf = ngx_http_get_module_loc_conf(r, ngx_http_mcds_cache_module);

        if (rc == NGX_DECLINED) {
            rc = ngx_http_mcds_store_begin(r, ctx, ccf);
        }

        if (rc == NGX_OK) {
            r->filter_need_in_memory = 1;

            if (ctx->waiter.building) {
                ngx_http_mcds_unbuffer(r, ctx);
            }

        } else if (rc == NGX_DECLINED && ctx->task->refresh) {
            ngx_http_mcds_own_take(r, ctx);
        }

        ctx->judged = 1;

    } else if (ctx) {
        ngx_http_mcds_revalidate_head(r, ctx);
    }

    if (ngx_http_mcds_silent(r, ctx)) {
        r->header_sent = 1;
        return ngx_http_mcds_unwanted(r, ctx) ? NGX_ERROR : NGX_OK;
    }

    rc = ngx_http_mcds_header_pass(r, ctx);

    return (rc == NGX_ERROR && ngx_http_mcds_alone(r, ctx)) ? NGX_OK : rc;
}


/*
 * Notes that the response is an error page, made by "return" or by an access
 * rule: such a response ends the request before the precontent phase, in which
 * ngx_http_mcds_phase_error_page() notes other error pages.
 */

static void
ngx_http_mcds_header_replaced(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_uint_t  status;

    if (ctx->replaced
        || !ctx->routed
        || r->upstream == NULL
        || !ngx_http_mcds_is_error_page(r)
        || ngx_http_mcds_is_accel(r)
        || !ngx_http_mcds_route_left(r, ctx))
    {
        return;
    }

    ctx->replaced = 1;

    /* if the upstream's status is no error, a filter refused the response */

    status = r->upstream->headers_in.status_n;

    if (status >= NGX_HTTP_BAD_REQUEST) {
        ctx->failed_status = status;
    }
}


/*
 * Replaces the origin's response: sends the stored page if rc is NGX_OK, or
 * status 502 if rc is NGX_HTTP_BAD_GATEWAY.  A refresh sends nothing.
 */

static ngx_int_t
ngx_http_mcds_instead(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx,
    ngx_int_t rc)
{
    ctx->judged = 1;

    if (ctx->task->refresh) {
        r->header_sent = 1;
        return NGX_OK;
    }

    if (rc == NGX_HTTP_BAD_GATEWAY) {

        /*
         * nginx closes the connection of a request that a filter finalizes, so
         * the header of the response must not promise keepalive
         */

        r->main->keepalive = 0;

        return ngx_http_filter_finalize_request(r,
                                                &ngx_http_mcds_filter_module,
                                                NGX_HTTP_BAD_GATEWAY);
    }

    if (rc != NGX_OK || ngx_http_mcds_instead_header(r, ctx) != NGX_OK) {
        return NGX_ERROR;
    }

    ctx->expire = ngx_http_mcds_vary_expire(ctx);

    rc = ngx_http_mcds_header_pass(r, ctx);

    ctx->offered = 0;

    return rc;
}


/*
 * Passes the header of the page or response to the next filter.  If a filter
 * refuses the response, as the range filter does with 416, nginx sends an
 * error page that keeps the headers of the page: these are withdrawn.
 */

static ngx_int_t
ngx_http_mcds_header_pass(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_int_t  rc;

    if (ctx == NULL || ctx->conf == NULL) {
        return ngx_http_next_header_filter(r);
    }

    if (ngx_http_mcds_cache_vars_header(r, ctx) != NGX_OK) {
        return NGX_ERROR;
    }

    rc = ngx_http_next_header_filter(r);

    if (rc >= NGX_HTTP_SPECIAL_RESPONSE) {
        ngx_http_mcds_header_withdraw(r);
    }

    return rc;
}


static void
ngx_http_mcds_header_withdraw(ngx_http_request_t *r)
{
    ngx_uint_t               i;
    ngx_list_part_t         *part;
    ngx_table_elt_t         *h;
    ngx_http_headers_out_t  *out;

    out = &r->headers_out;

    for (part = &out->headers.part; part; part = part->next) {

        h = part->elts;

        for (i = 0; i < part->nelts; i++) {
            if (ngx_http_mcds_header_in(ngx_http_mcds_of_page, &h[i].key)
                || ngx_http_mcds_header_targeted(&h[i].key))
            {
                h[i].hash = 0;
            }
        }
    }

    out->content_encoding = NULL;
    out->expires = NULL;

    /*
     * the field cache_control of headers_out is a pointer, or an array before
     * nginx 1.23
     */

    ngx_memzero(&out->cache_control, sizeof(out->cache_control));
}


static ngx_int_t
ngx_http_mcds_body_filter(ngx_http_request_t *r, ngx_chain_t *in)
{
    ngx_int_t                   rc;
    ngx_uint_t                  alone, detach;
    ngx_chain_t                *cl, *out;
    ngx_http_mcds_cache_ctx_t  *ctx;

    ctx = ngx_http_mcds_cache_here(r);

    out = NULL;

    if (ctx && ctx->instead && !ctx->instead_passing) {

        if (ngx_http_mcds_instead_body(r, ctx, in, &out) != NGX_OK) {
            return NGX_ERROR;
        }

        /*
         * during the call below, this filter passes buffers on unchanged: a
         * filter that appends to a body, such as addition, may send the last
         * buffer through all filters, this one included
         */

        ctx->instead_passing = 1;

        rc = ngx_http_next_body_filter(r, out);

        ctx->instead_passing = 0;

        return rc;
    }

    if (ctx
        && (ctx->store || ctx->tee.held)
        && ngx_http_mcds_hold_back(r, ctx, &in) != NGX_OK)
    {
        return NGX_ERROR;
    }

    alone = ngx_http_mcds_alone(r, ctx);

    if (in && ctx && ctx->store) {
        detach = ctx->waiter.building && !ctx->task->refresh && !alone;

        ngx_http_mcds_store_chain(r, ctx, in);

        if (detach && ngx_http_mcds_may_detach(r, ctx, in)) {
            rc = ngx_http_mcds_detach(r, ctx, in, &out);

            if (rc != NGX_OK) {
                ngx_http_mcds_detached(r, ctx, out);
                return NGX_ERROR;
            }

            in = out;
        }
    }

    if (alone) {
        ngx_http_mcds_consume(in);

        return ctx->store ? NGX_OK : NGX_ERROR;
    }

    if (!ngx_http_mcds_silent(r, ctx)) {
        rc = ngx_http_next_body_filter(r, in);

        if (ctx && (out || ctx->tee.detached)) {
            ngx_http_mcds_detached(r, ctx, out);
        }

        return (rc == NGX_ERROR && ngx_http_mcds_alone(r, ctx)) ? NGX_OK : rc;
    }

    if (ctx && ngx_http_mcds_own_taking(ctx)) {
        ngx_http_mcds_own_body(r, ctx, in);
    }

    ngx_http_mcds_consume(in);

    for (cl = in; cl; cl = cl->next) {
        if (cl->buf->last_buf || cl->buf->last_in_chain) {
            return NGX_OK;
        }
    }

    return ngx_http_mcds_unwanted(r, ctx) ? NGX_ERROR : NGX_OK;
}


/*
 * Returns 1 if a background refresh of a page does not store the origin's
 * response, so that the rest of a long or endless body need not be read.  A
 * short body is read, so that the connection to the origin can be reused.
 */

static ngx_uint_t
ngx_http_mcds_unwanted(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx)
{
    return ctx && ctx->task->refresh && ctx->judged && ctx->store == NULL
           && ctx->tee.held == NULL
           && !ctx->waiter.building
           && !ngx_http_mcds_own_taking(ctx)
           && (r->headers_out.content_length_n < 0
               || r->headers_out.content_length_n > 65536);
}


/*
 * Holds back an origin that is faster than memcached: data of the response
 * stays in the upstream's buffers, and the upstream waits for free ones.  Sets
 * *in to the data that is to be stored now.
 */

static ngx_int_t
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


/*
 * Returns 1 if a slow client may get a copy of the response's data.  The copies
 * for all slow clients together are limited: above the limit, a client slows
 * down its upstream, as without a cache, and delays the requests that wait for
 * the page.  After NGX_HTTP_MCDS_ATTACHED ms, its request gives up the build.
 */

static ngx_uint_t
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


/*
 * A client that reads slowly must not delay the requests that wait for the
 * page: the client gets a copy of the response's data, and the upstream's
 * buffers are freed.
 */

static ngx_int_t
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


/*
 * for a client that is slower than the origin: frees those copies of the
 * response's buffers that nginx has sent
 */

static void
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


/*
 * Turns off buffering in the upstream of a page's build, as
 * "X-Accel-Buffering: no" does, so that each part of the response is passed on
 * as it comes.  Otherwise an event pipe whose temporary file is too small for
 * the page reads as slowly as the client does, and an event pipe with a larger
 * file cannot be held back.  A slow client does not matter: it gets a copy.
 *
 * Buffering stays on if the rate of the response is limited and the temporary
 * file is large enough: without buffering, nginx ignores the rate.
 */

static void
ngx_http_mcds_unbuffer(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx)
{
    off_t                        length, most;
    ngx_http_upstream_t         *u;
    ngx_http_mcds_cache_conf_t  *ccf;

    u = r->upstream;

    if (u == NULL || u->cleanup == NULL || u->header_sent || u->store) {
        return;
    }

#if (NGX_HTTP_CACHE)
    if (r->cache) {
        return;
    }
#endif

    length = r->headers_out.content_length_n;

    if (length < 0) {
        ccf = ngx_http_get_module_loc_conf(r, ngx_http_mcds_cache_module);
        length = ccf->cache_max_size;
    }

    most = u->conf->max_temp_file_size;

    if (length <= most && ngx_http_mcds_limited(r, ctx)) {
        ctx->tee.limited = 1;
        return;
    }

    if (ctx->task->refresh) {
        most = ngx_min(most, NGX_HTTP_MCDS_UNBUFFERED);
    }

    if (ngx_http_mcds_store_compresses(ctx)) {
        most = ngx_min(most, NGX_HTTP_MCDS_COMPRESSED);
    }

    if (length > most) {
        u->buffering = 0;
    }
}


/*
 * Returns 1 if nginx may limit the rate of the response.  The rate of an
 * upstream is a number, or a complex value since nginx 1.27.  Variables are not
 * evaluated here, as they could have other values later.
 */

static ngx_uint_t
ngx_http_mcds_limited(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_http_complex_value_t  *rate;
    ngx_http_core_loc_conf_t  *clcf;

    if (r->upstream->conf->limit_rate) {
        return 1;
    }

    if (ctx->task->refresh) {
        return 0;
    }

    if (r->limit_rate_set) {
        return r->limit_rate != 0;
    }

    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);
    rate = clcf->limit_rate;

    return rate && (rate->lengths || rate->u.size);
}


/*
 * Returns 1 if the client of a request that builds a page has left, and the
 * build goes on without the client, as proxy_ignore_client_abort says, until
 * the response is stored.  The build ends if ctx->tee.attached is set: the
 * buffers of the upstream that were passed on to the client, and not copied,
 * would never be freed.
 */

static ngx_uint_t
ngx_http_mcds_alone(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx)
{
    return ctx && ctx->store && ctx->waiter.building
           && !ctx->task->refresh
           && ctx->tee.attached == NULL
           && r->connection->error
           && r->upstream && r->upstream->conf->ignore_client_abort;
}


static void
ngx_http_mcds_consume(ngx_chain_t *in)
{
    for ( /* void */ ; in; in = in->next) {
        in->buf->pos = in->buf->last;
        in->buf->file_pos = in->buf->file_last;
    }
}


/*
 * returns 1 if the request is a refresh, which has no client, even if the
 * request has lost its context or never got one
 */

static ngx_uint_t
ngx_http_mcds_silent(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx)
{
    return ctx ? ctx->task->refresh : (ngx_http_mcds_refresh_data(r) != NULL);
}


static ngx_int_t
ngx_http_mcds_filter_init(ngx_conf_t *cf)
{
    /*
     * The filters of the cache are added to every configuration, even one
     * without a cache: the chain of filters belongs to the master process, and
     * a configuration that is refused later changes it, too.
     */

    ngx_http_next_header_filter = ngx_http_top_header_filter;
    ngx_http_top_header_filter = ngx_http_mcds_header_filter;

    ngx_http_next_body_filter = ngx_http_top_body_filter;
    ngx_http_top_body_filter = ngx_http_mcds_body_filter;

    return NGX_OK;
}

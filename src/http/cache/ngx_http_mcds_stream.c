
/*
 * Copyright (C) mcds authors
 *
 * Sends the body of a page in parts, as the parts arrive: a few of them are in
 * memory until the client has got them, then the next ones are requested.  The
 * body of a compressed page is decompressed into a few buffers at a time.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"
#include "ngx_http_mcds_coding.h"
#include "ngx_http_mcds_stream.h"
#include "ngx_http_mcds_nginx.h"


struct ngx_http_mcds_piece_s {
    ngx_http_mcds_piece_t  *next;
    ngx_mcds_body_part_t   *part;
    ngx_chain_t             link;
    ngx_buf_t               buf;
};


static void ngx_http_mcds_stream_cleanup(void *data);
static void ngx_http_mcds_stream_handler(void *data);
static void ngx_http_mcds_stream_open(ngx_http_mcds_cache_ctx_t *ctx,
    off_t from, off_t to);
static ngx_int_t ngx_http_mcds_stream_start(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, off_t skip);
static ngx_uint_t ngx_http_mcds_stream_range(ngx_http_request_t *r,
    ngx_mcds_entry_t *entry, off_t *start, off_t *end);
static ngx_int_t ngx_http_mcds_stream_decode(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);
static void ngx_http_mcds_stream_writer(ngx_http_request_t *r);
static void ngx_http_mcds_stream_run(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);
static ngx_int_t ngx_http_mcds_stream_take(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_chain_t **out);
static ngx_uint_t ngx_http_mcds_stream_free(ngx_http_mcds_cache_ctx_t *ctx);
static void ngx_http_mcds_stream_wait(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);
static void ngx_http_mcds_stream_finalize(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_int_t rc);


void
ngx_http_mcds_stream_begin(ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_http_mcds_stream_end(ctx);

    if (ngx_mcds_body_apart(&ctx->snapshot->entry)
        && ngx_mcds_snapshot_signed(ctx->snapshot, ctx->conf->secrets)
           == NGX_OK)
    {
        ngx_http_mcds_stream_open(ctx, 0, NGX_MAX_OFF_T_VALUE);
    }
}


static void
ngx_http_mcds_stream_open(ngx_http_mcds_cache_ctx_t *ctx, off_t from, off_t to)
{
    ngx_pool_cleanup_t  *cln;

    if (!ctx->streamed) {
        cln = ngx_pool_cleanup_add(ctx->task->request->pool, 0);
        if (cln == NULL) {
            return;
        }

        cln->handler = ngx_http_mcds_stream_cleanup;
        cln->data = ctx;

        ctx->streamed = 1;
    }

    ctx->stream = ngx_mcds_body_open(ctx->snapshot, from, to,
                                     ctx->conf->secrets,
                                     ngx_http_mcds_stream_handler, ctx);
}


void
ngx_http_mcds_stream_end(ngx_http_mcds_cache_ctx_t *ctx)
{
    if (ctx->stream) {
        ngx_mcds_body_close(ctx->stream);
        ctx->stream = NULL;
    }
}


static void
ngx_http_mcds_stream_cleanup(void *data)
{
    ngx_http_mcds_cache_ctx_t *ctx = data;

    ngx_http_mcds_piece_t  *piece;

    ngx_http_mcds_stream_end(ctx);

    for (piece = ctx->pieces; piece; piece = piece->next) {
        ngx_mcds_body_done(NULL, piece->part);
    }

    ctx->pieces = NULL;
}


/* the handler that is called when parts of the page's body have arrived */

static void
ngx_http_mcds_stream_handler(void *data)
{
    ngx_http_mcds_cache_ctx_t *ctx = data;

    ngx_connection_t    *c;
    ngx_http_request_t  *r;

    if (!ctx->streaming) {
        return;
    }

    r = ctx->task->request;

    if (r->post_action) {

        /*
         * the client has left, and nginx has led the request to its
         * "post_action": the request must not be finalized for the page
         */

        ctx->streaming = 0;
        ngx_http_mcds_stream_end(ctx);

        return;
    }

    c = r->connection;

    ngx_http_set_log_request(c->log, r);

    ngx_http_mcds_stream_run(r, ctx);
    ngx_http_run_posted_requests(c);
}


ngx_int_t
ngx_http_mcds_stream_send(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx)
{
    off_t              start, end, skip;
    ngx_uint_t         decode;
    ngx_mcds_entry_t  *entry;

    entry = &ctx->snapshot->entry;
    decode = (entry->coding && !ctx->coded);

    /*
     * the decompression of a page starts at the beginning of the body, also
     * for a range
     */

    if (decode || !ngx_http_mcds_stream_range(r, entry, &start, &end)) {
        start = 0;
        end = NGX_MAX_OFF_T_VALUE - 1;
    }

    skip = ngx_mcds_body_skip(entry, start);

    if (skip) {
        ngx_http_mcds_stream_end(ctx);
    }

    if (ctx->stream == NULL && ngx_mcds_body_apart(entry)) {
        ngx_http_mcds_stream_open(ctx, skip, end + 1);

        if (ctx->stream == NULL) {
            return NGX_ERROR;
        }
    }

    r->write_event_handler = ngx_http_mcds_stream_writer;

    if (!ngx_http_mcds_discards(r)) {
        r->read_event_handler = ngx_http_test_reading;
    }

    r->main->count++;
    ctx->streaming = 1;

    if ((decode ? ngx_http_mcds_stream_decode(r, ctx)
                : ngx_http_mcds_stream_start(r, ctx, skip))
        != NGX_OK)
    {
        ngx_http_mcds_stream_finalize(r, ctx, NGX_ERROR);
        return NGX_DONE;
    }

    ngx_http_mcds_stream_run(r, ctx);

    return NGX_DONE;
}


static ngx_int_t
ngx_http_mcds_stream_decode(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx)
{
    off_t              start, end;
    ngx_mcds_entry_t  *entry;

    entry = &ctx->snapshot->entry;

    if (!ngx_http_mcds_stream_range(r, entry, &start, &end)) {
        end = (off_t) entry->length - 1;
    }

    return ngx_http_mcds_coding_hooks->begin(r, ctx, end + 1,
                                             ngx_http_mcds_stream_handler);
}


/*
 * Sends the start of the page's body, which is in the page's entry, before the
 * parts that have items of their own.  For a range that begins in a later part,
 * sends a buffer that stands for the "skip" bytes before this part.
 */

static ngx_int_t
ngx_http_mcds_stream_start(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, off_t skip)
{
    ngx_buf_t         *b;
    ngx_chain_t        out;
    ngx_mcds_entry_t  *entry;

    entry = &ctx->snapshot->entry;

    if (skip == 0 && entry->body.len == 0) {
        return NGX_OK;
    }

    b = ngx_calloc_buf(r->pool);
    if (b == NULL) {
        return NGX_ERROR;
    }

    if (skip) {

        /*
         * the range filter counts this first buffer of the page's body, which
         * stands for skipped bytes, and drops it unread
         */

        b->in_file = 1;
        b->file_last = skip;

    } else {
        b->pos = entry->body.data;
        b->last = b->pos + entry->body.len;
        b->memory = 1;
    }

    out.buf = b;
    out.next = NULL;

    return (ngx_http_output_filter(r, &out) == NGX_ERROR) ? NGX_ERROR : NGX_OK;
}


/*
 * returns 1 if the response is a single range of the page's body, and sets its
 * first and its last byte
 */

static ngx_uint_t
ngx_http_mcds_stream_range(ngx_http_request_t *r, ngx_mcds_entry_t *entry,
    off_t *start, off_t *end)
{
    u_char     *p, *dash, *slash;
    ngx_str_t  *value;

    if (r->headers_out.status != NGX_HTTP_PARTIAL_CONTENT
        || r->headers_out.content_range == NULL)
    {
        return 0;
    }

    /*
     * the value of the response's Content-Range is "bytes start-end/length",
     * as nginx writes it
     */

    value = &r->headers_out.content_range->value;

    p = value->data + sizeof("bytes ") - 1;
    dash = ngx_strlchr(p, value->data + value->len, '-');
    slash = ngx_strlchr(p, value->data + value->len, '/');

    if (dash == NULL || slash == NULL) {
        return 0;
    }

    *start = ngx_atoof(p, dash - p);
    *end = ngx_atoof(dash + 1, slash - dash - 1);

    return *start >= 0 && *end >= *start && *end < (off_t) entry->length;
}


static void
ngx_http_mcds_stream_writer(ngx_http_request_t *r)
{
    ngx_event_t                *wev;
    ngx_connection_t           *c;
    ngx_http_mcds_cache_ctx_t  *ctx;

    c = r->connection;
    wev = c->write;
    ctx = ngx_http_mcds_cache_here(r);

    if (wev->timedout) {
        ngx_log_error(NGX_LOG_INFO, c->log, NGX_ETIMEDOUT,
                      "client timed out");
        c->timedout = 1;

        ngx_http_mcds_stream_finalize(r, ctx, NGX_HTTP_REQUEST_TIME_OUT);
        return;
    }

    if (wev->delayed || r->aio) {
        ngx_http_mcds_stream_wait(r, ctx);
        return;
    }

    ngx_http_mcds_stream_run(r, ctx);
}


static void
ngx_http_mcds_stream_run(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_int_t     rc, taken;
    ngx_uint_t    freed;
    ngx_chain_t  *out;

    for ( ;; ) {
        out = NULL;
        taken = ctx->decode ? ngx_http_mcds_coding_hooks->take(r, ctx, &out)
                            : ngx_http_mcds_stream_take(r, ctx, &out);

        if (taken == NGX_ERROR) {
            ngx_http_mcds_stream_finalize(r, ctx, NGX_ERROR);
            return;
        }

        rc = ngx_http_output_filter(r, out);

        if (rc == NGX_ERROR || taken == NGX_DONE) {
            ngx_http_mcds_stream_finalize(r, ctx, rc);
            return;
        }

        freed = ctx->decode ? ngx_http_mcds_coding_hooks->back(ctx)
                            : ngx_http_mcds_stream_free(ctx);

        if (out == NULL && !freed) {
            break;
        }
    }

    ngx_http_mcds_stream_wait(r, ctx);
}


/*
 * Takes the parts of the page's body that have arrived, to send them.
 * NGX_DONE: no part follows; NGX_AGAIN: memcached has not yet sent the next
 * part; NGX_BUSY: the next part is not taken until earlier parts are freed.
 */

static ngx_int_t
ngx_http_mcds_stream_take(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_chain_t **out)
{
    ngx_int_t               rc;
    ngx_str_t               body;
    ngx_buf_t              *b;
    ngx_mcds_body_part_t   *part;
    ngx_http_mcds_piece_t  *piece, **last;

    for (last = &ctx->pieces; *last; last = &(*last)->next) { /* void */ }

    for ( ;; ) {
        rc = ngx_mcds_body_next(ctx->stream, &part, &body);

        if (rc != NGX_OK) {
            return rc;
        }

        piece = ngx_pcalloc(r->pool, sizeof(ngx_http_mcds_piece_t));
        if (piece == NULL) {
            ngx_mcds_body_done(ctx->stream, part);
            return NGX_ERROR;
        }

        piece->part = part;
        *last = piece;
        last = &piece->next;

        /*
         * The part of the body is shared with other requests: a buffer with
         * "memory" set tells filters not to write to it.  With "recycled" set,
         * nginx sends the buffer even if its bytes are fewer than
         * postpone_output: the next parts come only when it has been sent.
         */

        b = &piece->buf;
        b->pos = body.data;
        b->last = body.data + body.len;
        b->memory = 1;
        b->recycled = 1;

        if (ngx_mcds_body_ended(ctx->stream)) {
            b->last_buf = (r == r->main);
            b->last_in_chain = 1;
        }

        piece->link.buf = b;
        *out = &piece->link;
        out = &piece->link.next;
    }
}


/*
 * frees the parts of the page's body that the client has got, or that a filter
 * has copied; returns 1 if a part was freed
 */

static ngx_uint_t
ngx_http_mcds_stream_free(ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_uint_t              freed;
    ngx_http_mcds_piece_t  *piece;

    freed = 0;

    while (ctx->pieces && ngx_buf_size(&ctx->pieces->buf) == 0) {
        piece = ctx->pieces;
        ctx->pieces = piece->next;

        ngx_mcds_body_done(ctx->stream, piece->part);
        freed = 1;
    }

    return freed;
}


static void
ngx_http_mcds_stream_wait(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_event_t               *wev;
    ngx_connection_t          *c;
    ngx_http_core_loc_conf_t  *clcf;

    c = r->connection;
    wev = c->write;

    /*
     * the page's body is not sent now: another subrequest is being sent, or
     * limit_rate has set a timer
     */

    if (c->data != r || wev->delayed) {
        return;
    }

    clcf = ngx_http_get_module_loc_conf(r->main, ngx_http_core_module);

    if (ngx_handle_write_event(wev, clcf->send_lowat) != NGX_OK) {
        ngx_http_mcds_stream_finalize(r, ctx, NGX_ERROR);
        return;
    }

    if (wev->active && !wev->ready) {
        ngx_add_timer(wev, clcf->send_timeout);

    } else if (wev->timer_set) {
        ngx_del_timer(wev);
    }
}


static void
ngx_http_mcds_stream_finalize(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_int_t rc)
{
    ctx->streaming = 0;

    r->write_event_handler = ngx_http_request_empty_handler;

    ngx_http_finalize_request(r, rc);
}

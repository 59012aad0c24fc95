
/*
 * Copyright (C) mcds authors
 *
 * A copy of the client's request builds the page in the background.  If the
 * response to the copy cannot be stored, the client's request gets it.  The
 * response is kept in the memory of the client's request until it is complete;
 * then nginx's own filters make 304, 412 or 206 of it.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_header.h"
#include "ngx_http_mcds_nginx.h"
#include "ngx_http_mcds_cache.h"
#include "ngx_http_mcds_own.h"
#include "ngx_http_mcds_route.h"
#include "ngx_http_mcds_serve.h"
#include "ngx_http_mcds_store.h"


/*
 * the first size of the buffer for a response's body of unknown length, bytes
 */
#define NGX_HTTP_MCDS_OWN_ROOM  4096

/*
 * the largest body of an uncacheable response that a background request (a copy
 * of the client's request) keeps for the client, bytes
 */
#define NGX_HTTP_MCDS_OWN_MAX   (1024 * 1024)


/*
 * an uncacheable response that the copy of the client's request that builds the
 * page in the background keeps for the client, in the memory of the client's
 * request
 */

struct ngx_http_mcds_own_s {
    ngx_http_mcds_cache_ctx_t  *client;   /* context of the client's request,
                                             which waits for this response */
    ngx_http_mcds_cache_ctx_t  *build;    /* context of the copy of the request
                                             that builds the page in the
                                             background; NULL: the copy has
                                             ended, or has been unlinked */
    ngx_event_t                 timer;    /* timer that limits the wait of the
                                             client's request for the
                                             response */

    ngx_uint_t                  status;
    ngx_uint_t                  reason;   /* why the response is not stored,
                                             ngx_mcds_reason_e */
    ngx_str_t                   status_line;
    ngx_str_t                   type;
    size_t                      type_len;
    ngx_str_t                   charset;
    ngx_str_t                   override;
    time_t                      last_modified;
    int64_t                     made;     /* Date of the response for the
                                             client or, without Date, the time
                                             when its header came, seconds */
    ngx_array_t                 headers;  /* headers of the response for the
                                             client, ngx_table_elt_t */
    ngx_str_t                  *location; /* values of Location, Date and Server
                                             in the array "headers"; NULL: no
                                             such header */
    ngx_str_t                  *date;
    ngx_str_t                  *server;

    u_char                     *body;
    size_t                      length;
    size_t                      room;
    off_t                       expected;  /* length of the response's body for
                                              the client; -1: unknown */

    unsigned                    taking:1;
    unsigned                    complete:1;
    unsigned                    waiting:1;
};


static ngx_int_t ngx_http_mcds_own_header(ngx_http_request_t *r,
    ngx_http_mcds_own_t *own);
static ngx_int_t ngx_http_mcds_own_list(ngx_http_request_t *r,
    ngx_http_mcds_own_t *own);
static ngx_int_t ngx_http_mcds_own_append(ngx_http_mcds_own_t *own,
    ngx_buf_t *b);
static void ngx_http_mcds_own_wake(ngx_http_mcds_own_t *own);
static void ngx_http_mcds_own_timer(ngx_event_t *ev);
static void ngx_http_mcds_own_unlink(ngx_http_mcds_own_t *own);
static ngx_int_t ngx_http_mcds_own_handler(ngx_http_request_t *r);
static ngx_int_t ngx_http_mcds_own_send(ngx_http_request_t *r,
    ngx_http_mcds_own_t *own);
static void ngx_http_mcds_own_conditions(ngx_http_request_t *r,
    ngx_http_mcds_own_t *own);


ngx_int_t
ngx_http_mcds_own_create(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx)
{
    ctx->own = ngx_pcalloc(r->pool, sizeof(ngx_http_mcds_own_t));
    if (ctx->own == NULL) {
        return NGX_ERROR;
    }

    ctx->own->client = ctx;

    return NGX_OK;
}


void
ngx_http_mcds_own_link(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_ctx_t *build)
{
    if (ctx->own) {
        ctx->own->build = build;
        build->own = ctx->own;
    }
}


ngx_int_t
ngx_http_mcds_own_wait(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_http_mcds_own_t  *own;

    own = ctx->own;

    if (own == NULL || !(own->taking || own->complete)) {
        return NGX_DECLINED;
    }

    if (ctx->waiter.building) {

        /*
         * The client's request need not build the page: it gets the response to
         * the copy of the client's request that builds the page in the
         * background.  So another client's request may build the page.
         */

        ngx_mcds_page_abandon(&ctx->waiter, NGX_MCDS_BUILD_FAILED, NULL, 0);
    }

    if (own->complete) {
        ngx_mcds_page_leave(&ctx->waiter);

        ctx->reason = own->reason;
        r->content_handler = ngx_http_mcds_own_handler;

        return NGX_OK;
    }

    own->waiting = 1;
    ctx->task->waiting++;

    if (!own->timer.timer_set) {
        own->timer.handler = ngx_http_mcds_own_timer;
        own->timer.data = own;
        own->timer.log = r->connection->log;

        ngx_add_timer(&own->timer, ctx->conf->cache_lock_timeout);
    }

    return NGX_AGAIN;
}


ngx_uint_t
ngx_http_mcds_own_waiting(ngx_http_mcds_cache_ctx_t *ctx)
{
    return ctx->own && ctx->own->client == ctx && ctx->own->waiting;
}


void
ngx_http_mcds_own_take(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx)
{
    off_t                 length;
    ngx_http_request_t   *client;
    ngx_http_mcds_own_t  *own;

    own = ctx->own;

    /*
     * The copy of the client's request that builds the page in the background
     * must have the response that the client's request itself would get.
     * Another location may send it differently, and an error page is another
     * response: such a response is not kept for the client.
     */

    if (own == NULL
        || r->err_status
        || ngx_http_mcds_replaced(r, ctx)
        || ngx_http_mcds_route_left(r, ctx)
        || ngx_http_mcds_is_accel(r)
        || r->headers_out.status == NGX_HTTP_NOT_MODIFIED
        || (r->upstream && r->upstream->headers_in.x_accel_limit_rate))
    {
        return;
    }

    client = own->client->task->request;
    length = r->headers_out.content_length_n;

    /*
     * a response without a length may be a live stream, which has no end that
     * the client's request could wait for
     */

    if (length > NGX_HTTP_MCDS_OWN_MAX
        || (length < 0
            && client->headers_in.range
            && r->headers_out.status == NGX_HTTP_OK))
    {
        return;
    }

    own->expected = length;
    own->room = (length < 0) ? NGX_HTTP_MCDS_OWN_ROOM : (size_t) length;
    own->body = ngx_palloc(client->pool, own->room + 1);

    if (own->body == NULL || ngx_http_mcds_own_header(r, own) != NGX_OK) {
        return;
    }

    own->reason = ctx->reason;
    own->taking = 1;

    r->filter_need_in_memory = 1;
}


static ngx_int_t
ngx_http_mcds_own_header(ngx_http_request_t *r, ngx_http_mcds_own_t *own)
{
    ngx_pool_t               *pool;
    ngx_mcds_response_t       response;
    ngx_http_headers_out_t   *out;

    pool = own->client->task->request->pool;
    out = &r->headers_out;

    own->status = out->status;
    own->type_len = out->content_type_len;
    own->last_modified = out->last_modified_time;

    ngx_http_mcds_response(r, own->client->conf, &response, out->status,
                           own->client->conf->cache_ignore);

    own->made = (response.date == NGX_ERROR) ? ngx_time() : response.date;

    if (ngx_http_mcds_copy_text(pool, &own->status_line, &out->status_line)
        != NGX_OK
        || ngx_http_mcds_copy_text(pool, &own->type, &out->content_type)
           != NGX_OK
        || ngx_http_mcds_copy_text(pool, &own->charset, &out->charset)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (out->override_charset
        && ngx_http_mcds_copy_text(pool, &own->override, out->override_charset)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_http_mcds_own_list(r, own);
}


static ngx_int_t
ngx_http_mcds_own_list(ngx_http_request_t *r, ngx_http_mcds_own_t *own)
{
    ngx_uint_t        i, n;
    ngx_pool_t       *pool;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h, *to;

    pool = own->client->task->request->pool;
    n = 0;

    for (part = &r->headers_out.headers.part; part; part = part->next) {
        n += part->nelts;
    }

    if (ngx_array_init(&own->headers, pool, n + 1, sizeof(ngx_table_elt_t))
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    for (part = &r->headers_out.headers.part; part; part = part->next) {

        h = part->elts;

        for (i = 0; i < part->nelts; i++) {

            if (h[i].hash == 0) {
                continue;
            }

            to = ngx_array_push(&own->headers);

            if (to == NULL
                || ngx_http_mcds_copy_text(pool, &to->key, &h[i].key) != NGX_OK
                || ngx_http_mcds_copy_text(pool, &to->value, &h[i].value)
                   != NGX_OK)
            {
                return NGX_ERROR;
            }

            if (&h[i] == r->headers_out.location) {
                own->location = &to->value;

            } else if (&h[i] == r->headers_out.date) {
                own->date = &to->value;

            } else if (&h[i] == r->headers_out.server) {
                own->server = &to->value;
            }
        }
    }

    return NGX_OK;
}


void
ngx_http_mcds_own_body(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx,
    ngx_chain_t *in)
{
    ngx_uint_t            last;
    ngx_http_mcds_own_t  *own;

    own = ctx->own;

    for ( /* void */ ; in; in = in->next) {

        if (ngx_http_mcds_own_append(own, in->buf) != NGX_OK) {
            ngx_http_mcds_own_end(ctx);
            return;
        }

        last = in->buf->last_buf || in->buf->last_in_chain;

        if (last) {

            /*
             * trailers are not kept, and are only known now: with them, the
             * client's request goes to the origin itself
             */

            if (r->headers_out.trailers.part.nelts) {
                own->taking = 0;

            } else {
                own->complete = (own->expected < 0
                                 || own->length == (size_t) own->expected);
            }

            ngx_http_mcds_own_end(ctx);
            return;
        }
    }
}


/*
 * keeps a buffer of the response's body for the client's request; returns
 * NGX_DECLINED if the body cannot be kept
 */

static ngx_int_t
ngx_http_mcds_own_append(ngx_http_mcds_own_t *own, ngx_buf_t *b)
{
    size_t       size, room;
    u_char      *p;
    ngx_pool_t  *pool;

    if (ngx_buf_special(b)) {
        return NGX_OK;
    }

    if (!ngx_buf_in_memory(b)) {
        return NGX_DECLINED;
    }

    size = b->last - b->pos;

    if (size > NGX_HTTP_MCDS_OWN_MAX - own->length) {
        return NGX_DECLINED;
    }

    if (size > own->room - own->length) {

        if (own->expected >= 0) {
            return NGX_DECLINED;
        }

        pool = own->client->task->request->pool;
        room = ngx_max(2 * own->room, own->length + size);

        p = ngx_palloc(pool, room);
        if (p == NULL) {
            return NGX_DECLINED;
        }

        ngx_memcpy(p, own->body, own->length);
        (void) ngx_pfree(pool, own->body);

        own->body = p;
        own->room = room;
    }

    ngx_memcpy(own->body + own->length, b->pos, size);
    own->length += size;

    return NGX_OK;
}


ngx_uint_t
ngx_http_mcds_own_taking(ngx_http_mcds_cache_ctx_t *ctx)
{
    return ctx->own && ctx->task->refresh && ctx->own->taking;
}


void
ngx_http_mcds_own_end(ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_http_mcds_own_t  *own;

    own = ctx->own;

    if (own == NULL || own->client == ctx) {
        return;
    }

    /*
     * for an empty body of a response, nginx may not even send the last
     * buffer, so the response is complete now
     */

    if (own->taking && own->expected == 0) {
        own->complete = 1;
    }

    own->build = NULL;
    ctx->own = NULL;

    ngx_http_mcds_own_wake(own);
}


static void
ngx_http_mcds_own_wake(ngx_http_mcds_own_t *own)
{
    own->taking = 0;

    if (own->timer.timer_set) {
        ngx_del_timer(&own->timer);
    }

    if (own->waiting) {
        own->waiting = 0;
        ngx_http_mcds_task_result(own->client->task);
    }
}


static void
ngx_http_mcds_own_timer(ngx_event_t *ev)
{
    ngx_http_mcds_own_t *own = ev->data;

    ngx_http_mcds_own_unlink(own);
    ngx_http_mcds_own_wake(own);
}


/*
 * unlinks the client's request and the copy of it that builds the page in the
 * background; ends the copy if it was receiving an uncacheable response, which
 * is of use only to this client
 */

static void
ngx_http_mcds_own_unlink(ngx_http_mcds_own_t *own)
{
    ngx_connection_t    *c;
    ngx_http_request_t  *r;

    if (own->build == NULL) {
        return;
    }

    r = own->build->task->request;
    c = r->connection;

    own->build->own = NULL;
    own->build = NULL;

    if (own->taking) {
        ngx_http_finalize_request(r, NGX_ERROR);
        ngx_http_run_posted_requests(c);
    }
}


void
ngx_http_mcds_own_cleanup(ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_http_mcds_own_t  *own;

    own = ctx->own;

    if (own == NULL) {
        return;
    }

    if (own->client != ctx) {
        ngx_http_mcds_own_end(ctx);
        return;
    }

    if (own->timer.timer_set) {
        ngx_del_timer(&own->timer);
    }

    ngx_http_mcds_own_unlink(own);
}


static ngx_int_t
ngx_http_mcds_own_handler(ngx_http_request_t *r)
{
    ngx_int_t                   rc;
    ngx_buf_t                  *b;
    ngx_chain_t                 out;
    ngx_http_mcds_cache_ctx_t  *ctx;
    ngx_http_mcds_own_t        *own;

    rc = ngx_http_discard_request_body(r);
    if (rc != NGX_OK) {
        return rc;
    }

    ctx = ngx_http_mcds_cache_get(r);
    own = ctx->own;

    if (ngx_http_mcds_own_send(r, own) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    rc = ngx_http_send_header(r);

    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) {
        return rc;
    }

    b = ngx_calloc_buf(r->pool);
    if (b == NULL) {
        return NGX_ERROR;
    }

    b->start = own->body;
    b->pos = own->body;
    b->last = own->body + own->length;
    b->end = b->last;
    b->temporary = (own->length != 0);
    b->last_buf = (r == r->main);
    b->last_in_chain = 1;

    if (!b->temporary && !b->last_buf) {
        b->sync = 1;
    }

    out.buf = b;
    out.next = NULL;

    return ngx_http_output_filter(r, &out);
}


static ngx_int_t
ngx_http_mcds_own_send(ngx_http_request_t *r, ngx_http_mcds_own_t *own)
{
    ngx_uint_t        i;
    ngx_table_elt_t  *h, *from;

    r->headers_out.status = own->status;
    r->headers_out.status_line = own->status_line;
    r->headers_out.content_length_n = own->length;
    r->headers_out.last_modified_time = own->last_modified;

    if (own->type.len) {
        r->headers_out.content_type = own->type;
        r->headers_out.content_type_len = own->type_len;
        r->headers_out.content_type_lowcase = NULL;
    }

    if (own->charset.len) {
        r->headers_out.charset = own->charset;
    }

    if (own->override.len) {
        r->headers_out.override_charset = &own->override;
    }

    ngx_http_mcds_own_conditions(r, own);

    r->allow_ranges = (own->status == NGX_HTTP_OK
                       && r == r->main
                       && r->headers_in.range != NULL);

    from = own->headers.elts;

    for (i = 0; i < own->headers.nelts; i++) {

        if (ngx_http_mcds_serve_omits(r, &from[i].key)) {
            continue;
        }

        h = ngx_http_mcds_serve_line(r, &from[i].key, &from[i].value);
        if (h == NULL) {
            return NGX_ERROR;
        }

        if (&from[i].value == own->location) {
            r->headers_out.location = h;

        } else if (&from[i].value == own->date) {
            r->headers_out.date = h;

        } else if (&from[i].value == own->server) {
            r->headers_out.server = h;
        }
    }

    return NGX_OK;
}


/*
 * Removes the conditions of the request that do not apply to the response.  The
 * origin has made the response for this request alone.  So, unlike for a stored
 * page, If-Match counts.  If-Unmodified-Since counts, too, if it is a valid
 * date, the request has no If-Match, and the response has Last-Modified (RFC
 * 9110, 13.1.4).
 */

static void
ngx_http_mcds_own_conditions(ngx_http_request_t *r, ngx_http_mcds_own_t *own)
{
    if (r->headers_in.if_unmodified_since
        && (r->headers_in.if_match
            || own->last_modified == -1
            || ngx_http_mcds_date(&r->headers_in.if_unmodified_since->value)
               == NGX_ERROR))
    {
        r->headers_in.if_unmodified_since = NULL;
    }

    ngx_http_mcds_serve_conditions(r, own->last_modified, own->made);
}

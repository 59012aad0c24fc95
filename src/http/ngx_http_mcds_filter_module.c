
/*
 * Copyright (C) mcds authors
 *
 * The storing filter.  It stands behind the copy filter, which reads files
 * into memory for it, and before the headers, SSI, charset and gzip filters:
 * what is stored is the origin's page.  For a request with a client all
 * passes on as ever; a refresh has no client, and nothing passes on.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_module.h"
#include "ngx_http_mcds_refresh.h"
#include "ngx_http_mcds_store.h"


/* seconds that waiters are let through after an uncacheable answer */
#define NGX_HTTP_MCDS_PASS        10

/* first room for a body of unknown length */
#define NGX_HTTP_MCDS_ROOM        16384

/* the client's CRLF, see ngx_mcds_request_t */
#define NGX_HTTP_MCDS_SPARE       2


struct ngx_http_mcds_store_s {
    ngx_mcds_entry_t    entry;
    ngx_mcds_value_t   *value;
    size_t              start;         /* of the body in value */
    off_t               expected;      /* length of the body, -1: not said */
};


static ngx_int_t ngx_http_mcds_header_filter(ngx_http_request_t *r);
static ngx_int_t ngx_http_mcds_body_filter(ngx_http_request_t *r,
    ngx_chain_t *in);
static ngx_int_t ngx_http_mcds_filter_init(ngx_conf_t *cf);
static ngx_chain_t *ngx_http_mcds_detach(ngx_http_request_t *r,
    ngx_chain_t *in);
static ngx_uint_t ngx_http_mcds_silent(ngx_http_request_t *r,
    ngx_http_mcds_ctx_t *ctx);
static void ngx_http_mcds_unbuffer(ngx_http_request_t *r);
static ngx_int_t ngx_http_mcds_store_begin(ngx_http_request_t *r,
    ngx_http_mcds_ctx_t *ctx, ngx_http_mcds_loc_conf_t *mlcf);
static void ngx_http_mcds_store_refuse(ngx_http_request_t *r,
    ngx_http_mcds_ctx_t *ctx, ngx_uint_t reason);
static void ngx_http_mcds_store_pass(ngx_http_request_t *r,
    ngx_http_mcds_ctx_t *ctx);
static void ngx_http_mcds_store_fail(ngx_http_request_t *r,
    ngx_http_mcds_ctx_t *ctx);
static void ngx_http_mcds_store_body(ngx_http_request_t *r,
    ngx_http_mcds_ctx_t *ctx, ngx_chain_t *in);
static ngx_int_t ngx_http_mcds_store_append(ngx_http_request_t *r,
    ngx_http_mcds_ctx_t *ctx, ngx_buf_t *b);
static void ngx_http_mcds_store_finish(ngx_http_request_t *r,
    ngx_http_mcds_ctx_t *ctx);
static ngx_uint_t ngx_http_mcds_store_ended(ngx_http_request_t *r);
static ngx_uint_t ngx_http_mcds_store_broken(ngx_http_request_t *r,
    ngx_buf_t *b);


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


static ngx_http_output_header_filter_pt  ngx_http_next_header_filter;
static ngx_http_output_body_filter_pt    ngx_http_next_body_filter;


static ngx_int_t
ngx_http_mcds_header_filter(ngx_http_request_t *r)
{
    ngx_int_t                  rc;
    ngx_http_mcds_ctx_t       *ctx;
    ngx_http_mcds_loc_conf_t  *mlcf;

    ctx = ngx_http_mcds_get_ctx(r);

    if (ctx && ctx->store) {

        /* another filter has refused the answer: this is its error page */

        ngx_http_mcds_store_cleanup(ctx);
    }

    if (ctx
        && (ctx->seat.building || (ctx->storing && !ctx->judged)))
    {
        mlcf = ngx_http_get_module_loc_conf(r, ngx_http_mcds_module);

        rc = ngx_http_mcds_store_begin(r, ctx, mlcf);

        if (rc == NGX_OK) {
            r->filter_need_in_memory = 1;

            if (ctx->seat.building) {
                ngx_http_mcds_unbuffer(r);
            }
        }

        ctx->judged = 1;
    }

    if (ngx_http_mcds_silent(r, ctx)) {
        r->header_sent = 1;
        return NGX_OK;
    }

    return ngx_http_next_header_filter(r);
}


static ngx_int_t
ngx_http_mcds_body_filter(ngx_http_request_t *r, ngx_chain_t *in)
{
    ngx_uint_t            building;
    ngx_chain_t          *cl;
    ngx_http_mcds_ctx_t  *ctx;

    ctx = ngx_http_get_module_ctx(r, ngx_http_mcds_module);

    if (in && ctx && ctx->store) {
        building = ctx->seat.building && !ctx->refresh;

        ngx_http_mcds_store_body(r, ctx, in);

        if (building) {
            in = ngx_http_mcds_detach(r, in);
            if (in == NULL) {
                return NGX_ERROR;
            }
        }
    }

    if (!ngx_http_mcds_silent(r, ctx)) {
        return ngx_http_next_body_filter(r, in);
    }

    for (cl = in; cl; cl = cl->next) {
        cl->buf->pos = cl->buf->last;
        cl->buf->file_pos = cl->buf->file_last;
    }

    return NGX_OK;
}


/*
 * A client that reads slowly must not hold up those who wait for the page: it
 * gets a copy, and whoever sends the body has got rid of it.  There is one
 * such request for a page, and max_size bounds it.
 */

static ngx_chain_t *
ngx_http_mcds_detach(ngx_http_request_t *r, ngx_chain_t *in)
{
    size_t        size;
    ngx_buf_t    *b;
    ngx_chain_t  *out, **ll;

    out = NULL;
    ll = &out;

    for ( /* void */ ; in; in = in->next) {

        *ll = ngx_alloc_chain_link(r->pool);
        if (*ll == NULL) {
            return NULL;
        }

        b = in->buf;
        size = ngx_buf_in_memory(b) ? b->last - b->pos : 0;

        if (size) {
            b = ngx_create_temp_buf(r->pool, size);
            if (b == NULL) {
                return NULL;
            }

            b->last = ngx_cpymem(b->last, in->buf->pos, size);
            b->flush = in->buf->flush || in->buf->recycled;
            b->last_buf = in->buf->last_buf;
            b->last_in_chain = in->buf->last_in_chain;

            in->buf->pos = in->buf->last;
            in->buf->file_pos = in->buf->file_last;
        }

        (*ll)->buf = b;
        (*ll)->next = NULL;
        ll = &(*ll)->next;
    }

    return out;
}


/*
 * Without a temporary file an event pipe reads no faster than the client; what
 * is not buffered is passed to us as it comes, as with "X-Accel-Buffering: no".
 */

static void
ngx_http_mcds_unbuffer(ngx_http_request_t *r)
{
    ngx_http_upstream_t  *u;

    u = r->upstream;

    if (u == NULL || u->cleanup == NULL || u->header_sent || u->store) {
        return;
    }

#if (NGX_HTTP_CACHE)
    if (r->cache) {
        return;
    }
#endif

    if (u->buffering && u->conf->max_temp_file_size == 0) {
        u->buffering = 0;
    }
}


/* a refresh, also one that lost its context or never got one */

static ngx_uint_t
ngx_http_mcds_silent(ngx_http_request_t *r, ngx_http_mcds_ctx_t *ctx)
{
    return ctx ? ctx->refresh : (ngx_http_mcds_refresh_data(r) != NULL);
}


/* NGX_OK: the body is to be taken; anything else: it is not */

static ngx_int_t
ngx_http_mcds_store_begin(ngx_http_request_t *r, ngx_http_mcds_ctx_t *ctx,
    ngx_http_mcds_loc_conf_t *mlcf)
{
    off_t                   length;
    ngx_int_t               rc;
    ngx_uint_t              reason, status;
    ngx_mcds_answer_t       answer;
    ngx_http_mcds_store_t  *store;

    length = r->headers_out.content_length_n;

    if (r->err_status || r->error_page != ctx->error_page) {

        /*
         * What is shown in the place of an error is not the page.  Of the
         * client's errors those who wait get their own; any other status may
         * hide what happened.
         */

        status = r->err_status ? r->err_status : ctx->failed_status;

        if (!ctx->seat.has_old
            && status >= NGX_HTTP_BAD_REQUEST
            && status < NGX_HTTP_INTERNAL_SERVER_ERROR)
        {
            ngx_http_mcds_store_pass(r, ctx);

        } else {
            ngx_http_mcds_store_fail(r, ctx);
        }

        return NGX_DECLINED;
    }

    store = ngx_pcalloc(r->pool, sizeof(ngx_http_mcds_store_t));
    if (store == NULL) {
        ngx_http_mcds_store_fail(r, ctx);
        return NGX_ERROR;
    }

    ngx_http_mcds_answer(r, &answer);

    reason = ngx_mcds_fresh_decide(&answer, ngx_http_mcds_now(),
                                   &store->entry);

    if (reason == NGX_MCDS_STORE
        && (r->header_only || answer.status == NGX_HTTP_NO_CONTENT))
    {
        reason = NGX_MCDS_REFUSE_STATUS;
    }

    if (reason != NGX_MCDS_STORE) {
        ngx_http_mcds_store_refuse(r, ctx, reason);
        return NGX_DECLINED;
    }

    if (mlcf->cache_pool == NULL
        || length > (off_t) mlcf->cache_max_size
        || ngx_http_test_predicates(r, mlcf->no_cache) != NGX_OK)
    {
        ngx_http_mcds_store_pass(r, ctx);
        return NGX_DECLINED;
    }

    rc = ngx_http_mcds_stored_headers(r, &store->entry.headers);

    if (rc == NGX_DECLINED) {
        ngx_http_mcds_store_pass(r, ctx);
        return NGX_DECLINED;
    }

    if (rc != NGX_OK) {
        ngx_http_mcds_store_fail(r, ctx);
        return NGX_ERROR;
    }

    store->entry.key = ctx->key;
    store->expected = length;

    store->value = ngx_mcds_entry_begin(&store->entry,
                                        (length >= 0 ? (size_t) length
                                                     : NGX_HTTP_MCDS_ROOM)
                                        + NGX_HTTP_MCDS_SPARE,
                                        r->connection->log);
    if (store->value == NULL) {
        ngx_http_mcds_store_fail(r, ctx);
        return NGX_ERROR;
    }

    store->start = store->value->len;
    store->entry.took = ngx_current_msec - ctx->start;

    ctx->store = store;

    return NGX_OK;
}


/*
 * What an origin says once it has answered differs in weight: an error says
 * nothing about the page there is, and neither does an answer that was meant
 * for this one client.
 */

static void
ngx_http_mcds_store_refuse(ngx_http_request_t *r, ngx_http_mcds_ctx_t *ctx,
    ngx_uint_t reason)
{
    ngx_uint_t  status;

    ngx_log_debug1(NGX_LOG_DEBUG_HTTP, r->connection->log, 0,
                   "mcds answer is not stored: %s",
                   ngx_mcds_fresh_reason(reason));

    status = r->headers_out.status;

    if (status >= NGX_HTTP_INTERNAL_SERVER_ERROR) {
        ngx_http_mcds_store_fail(r, ctx);
        return;
    }

    if (ctx->seat.has_old
        && (reason == NGX_MCDS_REFUSE_SET_COOKIE
            || (status >= NGX_HTTP_BAD_REQUEST
                && status != NGX_HTTP_NOT_FOUND
                && status != 410)))
    {
        ngx_http_mcds_store_fail(r, ctx);
        return;
    }

    ngx_http_mcds_store_pass(r, ctx);
}


static void
ngx_http_mcds_store_pass(ngx_http_request_t *r, ngx_http_mcds_ctx_t *ctx)
{
    ngx_mcds_entry_t   entry;
    ngx_mcds_value_t  *value;

    if (!ctx->seat.building) {
        return;
    }

    ngx_memzero(&entry, sizeof(ngx_mcds_entry_t));

    entry.kind = NGX_MCDS_ENTRY_PASS;
    entry.created = ngx_http_mcds_now();
    entry.expire = entry.created + NGX_HTTP_MCDS_PASS * 1000;
    entry.swr = NGX_MCDS_ENTRY_UNSET;
    entry.sie = NGX_MCDS_ENTRY_UNSET;
    entry.key = ctx->key;

    value = ngx_mcds_entry_begin(&entry, NGX_HTTP_MCDS_SPARE,
                                 r->connection->log);
    if (value == NULL) {
        ngx_http_mcds_store_fail(r, ctx);
        return;
    }

    ngx_mcds_entry_finish(value, &entry);

    ngx_mcds_page_built(&ctx->seat, NGX_MCDS_BUILD_PASS, value,
                        NGX_HTTP_MCDS_PASS);
}


static void
ngx_http_mcds_store_fail(ngx_http_request_t *r, ngx_http_mcds_ctx_t *ctx)
{
    if (!ctx->seat.building) {
        return;
    }

    ngx_mcds_page_built(&ctx->seat,
                        ctx->seat.has_old ? NGX_MCDS_BUILD_BACKOFF
                                          : NGX_MCDS_BUILD_FAILED,
                        NULL, 0);
}


static void
ngx_http_mcds_store_body(ngx_http_request_t *r, ngx_http_mcds_ctx_t *ctx,
    ngx_chain_t *in)
{
    ngx_chain_t  *cl;

    for (cl = in; cl; cl = cl->next) {

        if (ngx_http_mcds_store_append(r, ctx, cl->buf) != NGX_OK) {
            return;
        }

        if (cl->buf->last_buf || (r != r->main && cl->buf->last_in_chain)) {
            ngx_http_mcds_store_finish(r, ctx);
            return;
        }

        if (ngx_http_mcds_store_broken(r, cl->buf)) {
            ngx_http_mcds_store_cleanup(ctx);
            ngx_http_mcds_store_fail(r, ctx);
            return;
        }
    }
}


static ngx_int_t
ngx_http_mcds_store_append(ngx_http_request_t *r, ngx_http_mcds_ctx_t *ctx,
    ngx_buf_t *b)
{
    size_t                     size;
    ngx_mcds_value_t          *value;
    ngx_http_mcds_store_t     *store;
    ngx_http_mcds_loc_conf_t  *mlcf;

    store = ctx->store;

    if (!ngx_buf_in_memory(b)) {

        if (ngx_buf_special(b)) {
            return NGX_OK;
        }

        /* a filter before us has sent a file past the copy filter */

        ngx_http_mcds_store_cleanup(ctx);
        ngx_http_mcds_store_pass(r, ctx);
        return NGX_DECLINED;
    }

    size = b->last - b->pos;

    if (size == 0) {
        return NGX_OK;
    }

    mlcf = ngx_http_get_module_loc_conf(r, ngx_http_mcds_module);

    if (store->value->len - store->start + size > mlcf->cache_max_size) {
        ngx_log_debug0(NGX_LOG_DEBUG_HTTP, r->connection->log, 0,
                       "mcds answer is too large to be stored");

        ngx_http_mcds_store_cleanup(ctx);
        ngx_http_mcds_store_pass(r, ctx);
        return NGX_DECLINED;
    }

    value = ngx_mcds_entry_grow(store->value, size + NGX_HTTP_MCDS_SPARE,
                                r->connection->log);
    if (value == NULL) {
        ngx_http_mcds_store_cleanup(ctx);
        ngx_http_mcds_store_fail(r, ctx);
        return NGX_ERROR;
    }

    ngx_memcpy(value->data + value->len, b->pos, size);
    value->len += size;

    store->value = value;

    return NGX_OK;
}


static void
ngx_http_mcds_store_finish(ngx_http_request_t *r, ngx_http_mcds_ctx_t *ctx)
{
    size_t                  length;
    ngx_mcds_value_t       *value;
    ngx_http_mcds_store_t  *store;

    store = ctx->store;
    value = store->value;
    length = value->len - store->start;

    if (store->expected >= 0 && (off_t) length != store->expected) {
        ngx_log_error(NGX_LOG_WARN, r->connection->log, 0,
                      "page of %uz bytes instead of %O is not stored",
                      length, store->expected);

        ngx_http_mcds_store_cleanup(ctx);
        ngx_http_mcds_store_fail(r, ctx);
        return;
    }

    if (!ngx_http_mcds_store_ended(r)) {
        ngx_http_mcds_store_cleanup(ctx);
        ngx_http_mcds_store_fail(r, ctx);
        return;
    }

    ngx_mcds_entry_finish(value, &store->entry);

    store->value = NULL;
    ctx->store = NULL;

    if (ctx->seat.building) {
        ngx_mcds_page_built(&ctx->seat, NGX_MCDS_BUILD_STORE, value, 0);
        return;
    }

    ngx_mcds_page_store(&ctx->seat, value, ctx->cas, ctx->replace);
}


/*
 * nginx takes a closed connection for the end of a FastCGI answer; without
 * the record that ends it the application has died over it.
 */

static ngx_uint_t
ngx_http_mcds_store_ended(ngx_http_request_t *r)
{
    ngx_http_upstream_t  *u;

    u = r->upstream;

    /* an X-Accel-Redirect has led from the upstream to something else */

    if (u == NULL
        || !u->header_sent
        || u->conf->module.len != 7
        || ngx_strncmp(u->conf->module.data, "fastcgi", 7) != 0)
    {
        return 1;
    }

    return u->buffering ? u->pipe->upstream_done : (u->length == 0);
}


/*
 * When an upstream has broken off, nginx sends just a flush behind what has
 * come, and the request lives on until its client, or the page that it is a
 * part of, has got that: those who wait must not wait for it.
 */

static ngx_uint_t
ngx_http_mcds_store_broken(ngx_http_request_t *r, ngx_buf_t *b)
{
    ngx_http_upstream_t  *u;

    u = r->upstream;

    return u && u->header_sent && u->cleanup == NULL
           && b->flush && ngx_buf_special(b);
}


void
ngx_http_mcds_store_cleanup(ngx_http_mcds_ctx_t *ctx)
{
    if (ctx->store) {
        ngx_mcds_value_unref(ctx->store->value);
        ctx->store = NULL;
    }
}


static ngx_int_t
ngx_http_mcds_filter_init(ngx_conf_t *cf)
{
    /*
     * Always, needed or not: the chain is the master's, and a configuration
     * that is refused in the end has been through here as well.
     */

    ngx_http_next_header_filter = ngx_http_top_header_filter;
    ngx_http_top_header_filter = ngx_http_mcds_header_filter;

    ngx_http_next_body_filter = ngx_http_top_body_filter;
    ngx_http_top_body_filter = ngx_http_mcds_body_filter;

    return NGX_OK;
}

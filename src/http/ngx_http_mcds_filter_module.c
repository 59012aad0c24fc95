
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


static ngx_int_t ngx_http_mcds_header_filter(ngx_http_request_t *r);
static ngx_int_t ngx_http_mcds_body_filter(ngx_http_request_t *r,
    ngx_chain_t *in);
static ngx_int_t ngx_http_mcds_filter_init(ngx_conf_t *cf);
static ngx_int_t ngx_http_mcds_detach(ngx_http_request_t *r,
    ngx_http_mcds_ctx_t *ctx, ngx_chain_t *in, ngx_chain_t **out);
static ngx_int_t ngx_http_mcds_detach_init(ngx_http_request_t *r,
    ngx_http_mcds_ctx_t *ctx);
static void ngx_http_mcds_detached(ngx_http_request_t *r,
    ngx_http_mcds_ctx_t *ctx, ngx_chain_t *out);
static void ngx_http_mcds_detach_cleanup(void *data);
static ngx_uint_t ngx_http_mcds_silent(ngx_http_request_t *r,
    ngx_http_mcds_ctx_t *ctx);
static void ngx_http_mcds_unbuffer(ngx_http_request_t *r);


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
    ngx_int_t             rc;
    ngx_uint_t            detach;
    ngx_chain_t          *cl, *out;
    ngx_http_mcds_ctx_t  *ctx;

    ctx = ngx_http_get_module_ctx(r, ngx_http_mcds_module);

    out = NULL;

    if (in && ctx && ctx->store) {
        detach = ctx->seat.building
                 && !ctx->refresh
                 && ngx_http_mcds_store_hurries(ctx);

        ngx_http_mcds_store_body(r, ctx, in);

        if (detach) {
            rc = ngx_http_mcds_detach(r, ctx, in, &out);

            if (rc != NGX_OK) {
                ngx_http_mcds_detached(r, ctx, out);
                return NGX_ERROR;
            }

            in = out;
        }
    }

    if (!ngx_http_mcds_silent(r, ctx)) {
        rc = ngx_http_next_body_filter(r, in);

        if (ctx && (out || ctx->detached)) {
            ngx_http_mcds_detached(r, ctx, out);
        }

        return rc;
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
 * such request for a page, and max_size bounds what it has not read.
 */

static ngx_int_t
ngx_http_mcds_detach(ngx_http_request_t *r, ngx_http_mcds_ctx_t *ctx,
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
            cl = ngx_chain_get_free_buf(r->pool, &ctx->detach_free);
            if (cl == NULL) {
                return NGX_ERROR;
            }

            b = cl->buf;
            ngx_memzero(b, sizeof(ngx_buf_t));

            b->start = ngx_alloc(size, r->connection->log);
            if (b->start == NULL) {
                return NGX_ERROR;
            }

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
ngx_http_mcds_detach_init(ngx_http_request_t *r, ngx_http_mcds_ctx_t *ctx)
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


/* frees what the client has got */

static void
ngx_http_mcds_detached(ngx_http_request_t *r, ngx_http_mcds_ctx_t *ctx,
    ngx_chain_t *out)
{
    ngx_chain_t  *cl;

    if (ctx->detached == NULL) {
        ctx->detached_last = &ctx->detached;
    }

    *ctx->detached_last = out;

    for (cl = out; cl; cl = cl->next) {
        ctx->detached_last = &cl->next;
    }

    while (ctx->detached) {
        cl = ctx->detached;

        if (cl->buf->tag != (ngx_buf_tag_t) &ngx_http_mcds_filter_module) {
            ctx->detached = cl->next;
            ngx_free_chain(r->pool, cl);
            continue;
        }

        if (ngx_buf_size(cl->buf) != 0) {
            return;
        }

        ngx_free(cl->buf->start);

        ctx->detached = cl->next;
        cl->next = ctx->detach_free;
        ctx->detach_free = cl;
    }
}


static void
ngx_http_mcds_detach_cleanup(void *data)
{
    ngx_http_mcds_ctx_t *ctx = data;

    ngx_chain_t  *cl;

    for (cl = ctx->detached; cl; cl = cl->next) {
        if (cl->buf->tag == (ngx_buf_tag_t) &ngx_http_mcds_filter_module) {
            ngx_free(cl->buf->start);
        }
    }

    ctx->detached = NULL;
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


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
#include "ngx_http_mcds_nginx.h"
#include "ngx_http_mcds_refresh.h"
#include "ngx_http_mcds_cache.h"
#include "ngx_http_mcds_coding.h"
#include "ngx_http_mcds_cache_vars.h"
#include "ngx_http_mcds_own.h"
#include "ngx_http_mcds_revalidate.h"
#include "ngx_http_mcds_route.h"
#include "ngx_http_mcds_store.h"
#include "ngx_http_mcds_tee.h"
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

    if (ngx_http_mcds_cache_note_auth(r) != NGX_OK) {
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

        if (ngx_http_mcds_revalidate_strip(r, ctx) != NGX_OK
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
    if (ctx->replaced
        || !ctx->routed
        || r->upstream == NULL
        || !ngx_http_mcds_is_error_page(r)
        || ngx_http_mcds_is_accel(r)
        || !ngx_http_mcds_route_left(r, ctx))
    {
        return;
    }

    ngx_http_mcds_note_replaced(r, ctx);
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

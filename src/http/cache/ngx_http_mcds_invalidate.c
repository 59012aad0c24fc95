
/*
 * Copyright (C) mcds authors
 *
 * RFC 9111, 4.4: the success of an unsafe request removes the page of its own
 * URI, and expires the pages in the response's Location and Content-Location.
 * The response is sent only when memcached has removed or expired these pages:
 * otherwise the client could still get an old page from another nginx host.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_header.h"
#include "ngx_http_mcds_nginx.h"
#include "ngx_http_mcds_param_type.h"
#include "ngx_http_mcds_variables.h"
#include "ngx_http_mcds_cache.h"
#include "ngx_http_mcds_head.h"
#include "ngx_http_mcds_invalidate.h"
#include "ngx_http_mcds_key.h"


/*
 * the safe methods of requests: all others invalidate pages, including those
 * that nginx does not know.  CONNECT names no page, and its tunnel is opaque.
 */
#define NGX_HTTP_MCDS_SAFE                                                    \
    (NGX_HTTP_GET|NGX_HTTP_HEAD|NGX_HTTP_OPTIONS|NGX_HTTP_TRACE               \
     |NGX_HTTP_PROPFIND|NGX_HTTP_CONNECT)


/*
 * a bit of c->buffered that nginx does not use: the response to an unsafe
 * request, or to HEAD, is held back until pages are invalidated
 */
#define NGX_HTTP_MCDS_BUFFERED    0x40


/*
 * the state of an unsafe request, or of a HEAD request, that invalidates pages;
 * it is freed only when the request has ended and memcached has answered
 */

struct ngx_http_mcds_gone_s {
    ngx_http_request_t  *request;      /* the request that invalidates pages;
                                          NULL: it has ended */
    ngx_uint_t           pending;
    ngx_chain_t         *out;          /* the held-back body of the response to
                                          the request */
    unsigned             held:1;       /* the header of the response to the
                                          request is held back */
    unsigned             head:1;       /* mcds has set r->header_only, and
                                          clears it when it sends the header
                                          that is held back */
};


static ngx_int_t ngx_http_mcds_gone_create(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);
static void ngx_http_mcds_gone_cleanup(void *data);
static void ngx_http_mcds_gone_release(ngx_http_mcds_gone_t *gone);
static void ngx_http_mcds_invalidate(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);
static void ngx_http_mcds_invalidate_all(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);
static ngx_int_t ngx_http_mcds_invalidate_own(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf,
    ngx_str_t *key);
static void ngx_http_mcds_invalidate_page(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf, ngx_str_t *key, ngx_uint_t how);
static void ngx_http_mcds_invalidate_handler(void *data, ngx_uint_t rc,
    ngx_uint_t found, uint64_t cas, ngx_mcds_cut_t *left);
static void ngx_http_mcds_invalidate_uri(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_str_t *value);
static ngx_int_t ngx_http_mcds_invalidate_path(ngx_http_request_t *r,
    ngx_str_t *value, ngx_str_t *path);
static ngx_int_t ngx_http_mcds_invalidate_key(ngx_http_request_t *r,
    ngx_http_mcds_cache_conf_t *ccf, ngx_str_t *path, ngx_str_t *key);
static ngx_uint_t ngx_http_mcds_of_uri(ngx_str_t *name);
static ngx_int_t ngx_http_mcds_invalidate_header_filter(
    ngx_http_request_t *r);
static ngx_int_t ngx_http_mcds_invalidate_body_filter(ngx_http_request_t *r,
    ngx_chain_t *in);


static ngx_http_output_header_filter_pt  ngx_http_next_header_filter;
static ngx_http_output_body_filter_pt    ngx_http_next_body_filter;


static ngx_str_t  ngx_http_mcds_of_uri_names[] = {
    ngx_string("uri"),
    ngx_string("document_uri"),
    ngx_string("request_uri"),
    ngx_string("args"),
    ngx_string("query_string"),
    ngx_string("is_args"),
    ngx_null_string
};


static ngx_conf_enum_t  ngx_http_mcds_invalidate_words[] = {
    { ngx_string("on"), NGX_HTTP_MCDS_INVALIDATE_ON },
    { ngx_string("stale"), NGX_HTTP_MCDS_INVALIDATE_STALE },
    { ngx_string("off"), NGX_HTTP_MCDS_INVALIDATE_OFF },
    { ngx_null_string, 0 }
};


static ngx_http_mcds_param_t  ngx_http_mcds_invalidate_params[] = {

    { ngx_string("on|stale|off"),
      ngx_http_mcds_param_enum,
      ngx_http_mcds_field(ngx_http_mcds_cache_conf_t, cache_invalidate),
      0, 0, NGX_HTTP_MCDS_INVALIDATE_ON, ngx_http_mcds_invalidate_words },

    { ngx_string("if="),
      ngx_http_mcds_param_complex,
      ngx_http_mcds_field(ngx_http_mcds_cache_conf_t, invalidate_if),
      0, 0, 0, NULL },

      ngx_http_mcds_params_end
};


char *
ngx_http_mcds_cache_invalidate(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mcds_cache_conf_t *ccf = conf;

    if (ccf->cache_invalidate != NGX_CONF_UNSET_UINT) {
        return "is duplicate";
    }

    return ngx_http_mcds_params(cf, cmd, 1, ngx_http_mcds_invalidate_params,
                                ccf);
}


void
ngx_http_mcds_invalidate_merge(ngx_http_mcds_cache_conf_t *prev,
    ngx_http_mcds_cache_conf_t *conf)
{
    /*
     * "if=" of mcds_cache_invalidate belongs to the argument before it, "on"
     * or "stale", and is inherited with it
     */

    if (conf->cache_invalidate == NGX_CONF_UNSET_UINT) {
        conf->invalidate_if = prev->invalidate_if;
    }

    ngx_conf_merge_uint_value(conf->cache_invalidate, prev->cache_invalidate,
                              NGX_HTTP_MCDS_INVALIDATE_ON);
}


ngx_int_t
ngx_http_mcds_invalidate_start(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf)
{
    ngx_int_t  rc;

    /*
     * an unsafe request that gets an error page invalidates nothing: the error
     * page may say that the request was refused
     */

    if (!ccf->cache_invalidate
        || r != r->main
        || r->error_page
        || r->err_status
        || (r->method & NGX_HTTP_MCDS_SAFE))
    {
        return NGX_OK;
    }

    rc = ngx_http_mcds_cache_key(r, ccf, &ctx->key);

    if (rc == NGX_OK) {
        ctx->conf = ccf;
        ctx->invalidate = 1;
        ngx_http_mcds_set_state(ctx, NGX_HTTP_MCDS_STATE_INVALIDATE);
    }

    return (rc == NGX_ERROR) ? NGX_ERROR : NGX_OK;
}


ngx_int_t
ngx_http_mcds_invalidate_arrive(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_int_t                    rc;
    ngx_str_t                    key;
    ngx_http_mcds_cache_conf_t  *ccf;

    ccf = ngx_http_get_module_loc_conf(r, ngx_http_mcds_cache_module);

    if (ccf == ctx->conf || ccf->cache_pool == NULL) {
        return NGX_OK;
    }

    if (!ccf->cache_invalidate) {

        /*
         * "mcds_cache_invalidate off" of the location that responds applies;
         * with X-Accel-Redirect, the application has responded in the location
         * before
         */

        if (!ngx_http_mcds_is_accel(r)) {
            ctx->invalidate = 0;
        }

        return NGX_OK;
    }

    if (!ctx->invalidate) {
        return ngx_http_mcds_invalidate_start(r, ctx, ccf);
    }

    rc = ngx_http_mcds_cache_key(r, ccf, &key);

    if (rc != NGX_OK) {
        return (rc == NGX_ERROR) ? NGX_ERROR : NGX_OK;
    }

    if (ccf->cache_pool != ctx->conf->cache_pool
        || !ngx_mcds_same(&key, &ctx->key))
    {
        /*
         * in the location that responds, the page of the unsafe request's URI
         * has another key or pool than in the location where the request
         * began: the pages of both are invalidated
         */

        ctx->asked_key = ctx->key;
        ctx->asked_conf = ctx->conf;
        ctx->key = key;
    }

    ctx->conf = ccf;

    return NGX_OK;
}


void
ngx_http_mcds_invalidate_init(void)
{
    ngx_http_next_header_filter = ngx_http_top_header_filter;
    ngx_http_top_header_filter = ngx_http_mcds_invalidate_header_filter;

    ngx_http_next_body_filter = ngx_http_top_body_filter;
    ngx_http_top_body_filter = ngx_http_mcds_invalidate_body_filter;
}


static ngx_int_t
ngx_http_mcds_invalidate_header_filter(ngx_http_request_t *r)
{
    ngx_http_mcds_cache_ctx_t  *ctx;

    ctx = (r == r->main) ? ngx_http_mcds_cache_get(r) : NULL;

    if (ctx && ctx->invalidate) {
        ngx_http_mcds_invalidate(r, ctx);

    } else if (ctx
               && ngx_http_mcds_head_differs(r, ctx)
               && ngx_http_mcds_gone_create(r, ctx) == NGX_OK)
    {
        ngx_http_mcds_invalidate_page(ctx, ctx->conf, &ctx->at,
                                      NGX_MCDS_PURGE_INVALIDATE);
    }

    if (ctx && ctx->gone && ctx->gone->pending) {
        ctx->gone->held = 1;
        r->connection->buffered |= NGX_HTTP_MCDS_BUFFERED;

        /*
         * nginx's header filter, which would suppress the body of a response
         * to HEAD, has not run yet, and an origin may send a body
         */

        if (r->method == NGX_HTTP_HEAD && !r->header_only) {
            ctx->gone->head = 1;
            r->header_only = 1;
        }

        return NGX_OK;
    }

    return ngx_http_next_header_filter(r);
}


static ngx_int_t
ngx_http_mcds_invalidate_body_filter(ngx_http_request_t *r, ngx_chain_t *in)
{
    ngx_http_mcds_cache_ctx_t  *ctx;

    if (r != r->main) {
        return ngx_http_next_body_filter(r, in);
    }

    ctx = ngx_http_mcds_cache_here(r);

    if (ctx == NULL || ctx->gone == NULL) {
        return ngx_http_next_body_filter(r, in);
    }

    if (ctx->gone->held) {

        if (in
            && ngx_chain_add_copy(r->pool, &ctx->gone->out, in) != NGX_OK)
        {
            return NGX_ERROR;
        }

        return NGX_AGAIN;
    }

    if (r->header_only) {

        /*
         * the body of the response to HEAD came while the header was held
         * back, so it was not suppressed
         */

        for ( /* void */ ; in; in = in->next) {
            in->buf->pos = in->buf->last;
            in->buf->file_pos = in->buf->file_last;
        }
    }

    return ngx_http_next_body_filter(r, in);
}


static ngx_int_t
ngx_http_mcds_gone_create(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_pool_cleanup_t    *cln;
    ngx_http_mcds_gone_t  *gone;

    cln = ngx_pool_cleanup_add(r->pool, 0);
    if (cln == NULL) {
        return NGX_ERROR;
    }

    gone = ngx_calloc(sizeof(ngx_http_mcds_gone_t), r->connection->log);
    if (gone == NULL) {
        return NGX_ERROR;
    }

    gone->request = r;

    cln->handler = ngx_http_mcds_gone_cleanup;
    cln->data = gone;

    ctx->gone = gone;

    return NGX_OK;
}


static void
ngx_http_mcds_gone_cleanup(void *data)
{
    ngx_http_mcds_gone_t *gone = data;

    gone->request = NULL;

    if (gone->pending == 0) {
        ngx_free(gone);
    }
}


static void
ngx_http_mcds_gone_release(ngx_http_mcds_gone_t *gone)
{
    ngx_int_t            rc;
    ngx_chain_t         *out;
    ngx_connection_t    *c;
    ngx_http_request_t  *r;

    r = gone->request;
    c = r->connection;

    ngx_http_set_log_request(c->log, r);

    gone->held = 0;
    c->buffered &= ~NGX_HTTP_MCDS_BUFFERED;

    if (gone->head) {
        r->header_only = 0;
    }

    rc = ngx_http_next_header_filter(r);

    out = gone->out;
    gone->out = NULL;

    if (out && rc != NGX_ERROR && rc <= NGX_OK) {
        rc = ngx_http_mcds_invalidate_body_filter(r, out);
    }

    if (rc == NGX_ERROR || rc > NGX_OK) {
        c->error = 1;
    }

    r->write_event_handler(r);
    ngx_http_run_posted_requests(c);
}


static void
ngx_http_mcds_invalidate(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_http_variable_value_t  *others;

    ctx->invalidate = 0;

    if (r->headers_out.status < NGX_HTTP_OK
        || r->headers_out.status >= NGX_HTTP_BAD_REQUEST
        || ngx_http_mcds_replaced(r, ctx)
        || ngx_http_mcds_gone_create(r, ctx) != NGX_OK)
    {
        return;
    }

    /*
     * the condition and the keys have the variables of the unsafe request, not
     * those that the location of its mirror has set
     */

    if (ngx_http_mcds_variables_own(&ctx->task->park, &others) == NGX_OK) {
        ngx_http_mcds_invalidate_all(r, ctx);
        ngx_http_mcds_variables_set(r, others);
    }
}


static void
ngx_http_mcds_invalidate_all(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h;

    if (ctx->asked_key.len) {
        (void) ngx_http_mcds_invalidate_own(r, ctx, ctx->asked_conf,
                                            &ctx->asked_key);
    }

    if (ngx_http_mcds_invalidate_own(r, ctx, ctx->conf, &ctx->key) != NGX_OK)
    {
        return;
    }

    for (part = &r->headers_out.headers.part; part; part = part->next) {

        h = part->elts;

        for (i = 0; i < part->nelts; i++) {

            if (h[i].hash == 0) {
                continue;
            }

            if (ngx_http_mcds_header_is(&h[i].key, "Location")
                || ngx_http_mcds_header_is(&h[i].key, "Content-Location"))
            {
                ngx_http_mcds_invalidate_uri(r, ctx, &h[i].value);
            }
        }
    }
}


/*
 * invalidates the page of the unsafe request's own URI; returns NGX_DECLINED
 * if the condition "if=" of mcds_cache_invalidate is false
 */

static ngx_int_t
ngx_http_mcds_invalidate_own(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf,
    ngx_str_t *key)
{
    ngx_str_t   text;
    ngx_uint_t  how;

    if (ccf->invalidate_if) {

        if (ngx_http_complex_value(r, ccf->invalidate_if, &text) != NGX_OK) {
            return NGX_ERROR;
        }

        if (text.len == 0 || (text.len == 1 && text.data[0] == '0')) {
            return NGX_DECLINED;
        }
    }

    how = (ccf->cache_invalidate == NGX_HTTP_MCDS_INVALIDATE_STALE)
          ? NGX_MCDS_PURGE_INVALIDATE : NGX_MCDS_PURGE_DELETE;

    ngx_http_mcds_invalidate_page(ctx, ccf, key, how);

    return NGX_OK;
}


static void
ngx_http_mcds_invalidate_page(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf, ngx_str_t *key, ngx_uint_t how)
{
    ngx_log_debug1(NGX_LOG_DEBUG_HTTP, ctx->task->request->connection->log, 0,
                   "mcds invalidate: \"%V\"", key);

    if (ngx_mcds_purge_surely(ccf->cache_pool, key, how,
                              ngx_mcds_now(), ccf->secrets,
                              ngx_http_mcds_invalidate_handler, ctx->gone)
        == NGX_OK)
    {
        ctx->gone->pending++;

    } else {
        ngx_log_error(NGX_LOG_ERR, ctx->task->request->connection->log, 0,
                      "page \"%V\" is not invalidated", key);
    }
}


static void
ngx_http_mcds_invalidate_handler(void *data, ngx_uint_t rc, ngx_uint_t found,
    uint64_t cas, ngx_mcds_cut_t *left)
{
    ngx_http_mcds_gone_t *gone = data;

    ngx_log_debug2(NGX_LOG_DEBUG_EVENT, ngx_cycle->log, 0,
                   "mcds invalidated: %ui, found: %ui", rc, found);

    if (--gone->pending) {
        return;
    }

    if (gone->request == NULL) {
        ngx_free(gone);

    } else if (gone->held) {
        ngx_http_mcds_gone_release(gone);
    }
}


static void
ngx_http_mcds_invalidate_uri(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_str_t *value)
{
    ngx_str_t  path, key;

    if (ngx_http_mcds_invalidate_path(r, value, &path) != NGX_OK
        || ngx_http_mcds_invalidate_key(r, ctx->conf, &path, &key) != NGX_OK
        || ngx_mcds_same(&key, &ctx->key))
    {
        return;
    }

    /*
     * RFC 9111 permits to delete or to expire the pages in Location and
     * Content-Location: they expire only, so that a client whose login
     * redirects to the front page does not make other clients wait for that
     * page.
     */

    ngx_http_mcds_invalidate_page(ctx, ctx->conf, &key,
                                  NGX_MCDS_PURGE_INVALIDATE);
}


/*
 * sets *path to the path and the arguments of a URI in Location or
 * Content-Location, in memory of the request; an empty path behind a host is
 * "/" (RFC 3986, 6.2.3); returns NGX_DECLINED if the URI has another scheme or
 * host than the request, or a path that does not begin with "/"
 */

static ngx_int_t
ngx_http_mcds_invalidate_path(ngx_http_request_t *r, ngx_str_t *value,
    ngx_str_t *path)
{
    u_char      *p, *last;
    size_t       scheme;
    ngx_str_t    host;
    ngx_uint_t   empty;

    p = value->data;
    last = p + value->len;
    empty = 0;

    scheme = sizeof("http:") - 1;

#if (NGX_HTTP_SSL)
    if (r->connection->ssl) {
        scheme++;
    }
#endif

    if (value->len > scheme
        && ngx_strncasecmp(p, (u_char *) "https:", scheme - 1) == 0
        && p[scheme - 1] == ':')
    {
        p += scheme;

        if (last - p < 2) {
            return NGX_DECLINED;
        }
    }

    if (last - p >= 2 && p[0] == '/' && p[1] == '/') {

        p += 2;

        if (r->headers_in.host == NULL) {
            return NGX_DECLINED;
        }

        host = r->headers_in.host->value;

        if ((size_t) (last - p) < host.len
            || ngx_strncasecmp(p, host.data, host.len) != 0)
        {
            return NGX_DECLINED;
        }

        p += host.len;

        empty = (p == last || *p == '?' || *p == '#');
    }

    if (!empty && (p == last || *p != '/')) {
        return NGX_DECLINED;
    }

    path->data = p;

    while (p < last && *p != '#') {
        p++;
    }

    path->len = p - path->data;

    if (empty) {
        p = ngx_pnalloc(r->pool, path->len + 1);
        if (p == NULL) {
            return NGX_ERROR;
        }

        *p = '/';
        ngx_memcpy(p + 1, path->data, path->len);

        path->data = p;
        path->len++;
    }

    return NGX_OK;
}


/*
 * makes the cache key of the page that a request for a path in Location or
 * Content-Location would get
 */

static ngx_int_t
ngx_http_mcds_invalidate_key(ngx_http_request_t *r,
    ngx_http_mcds_cache_conf_t *ccf, ngx_str_t *path, ngx_str_t *key)
{
    u_char                     *src, *dst, *args;
    ngx_int_t                   rc;
    ngx_str_t                   saved[3];
    ngx_uint_t                  i;
    ngx_http_variable_t        *v;
    ngx_http_variable_value_t  *vv;
    ngx_http_core_main_conf_t  *cmcf;

    cmcf = ngx_http_get_module_main_conf(r, ngx_http_core_module);

    v = cmcf->variables.elts;

    vv = ngx_palloc(r->pool, cmcf->variables.nelts
                             * sizeof(ngx_http_variable_value_t));
    if (vv == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(vv, r->variables, cmcf->variables.nelts
                                 * sizeof(ngx_http_variable_value_t));

    saved[0] = r->unparsed_uri;
    saved[1] = r->uri;
    saved[2] = r->args;

    r->unparsed_uri = *path;

    args = ngx_strlchr(path->data, path->data + path->len, '?');

    if (args) {
        r->args.data = args + 1;
        r->args.len = path->data + path->len - r->args.data;

    } else {
        args = path->data + path->len;
        ngx_str_null(&r->args);
    }

    r->uri.data = ngx_pnalloc(r->pool, path->len);

    if (r->uri.data) {
        src = path->data;
        dst = r->uri.data;

        ngx_unescape_uri(&dst, &src, args - path->data, 0);

        r->uri.len = dst - r->uri.data;

        for (i = 0; i < cmcf->variables.nelts; i++) {
            if (ngx_http_mcds_of_uri(&v[i].name)) {
                r->variables[i].valid = 0;
                r->variables[i].not_found = 0;
            }
        }

        rc = ngx_http_mcds_cache_key(r, ccf, key);

        ngx_memcpy(r->variables, vv, cmcf->variables.nelts
                                     * sizeof(ngx_http_variable_value_t));

    } else {
        rc = NGX_ERROR;
    }

    r->unparsed_uri = saved[0];
    r->uri = saved[1];
    r->args = saved[2];

    return rc;
}


static ngx_uint_t
ngx_http_mcds_of_uri(ngx_str_t *name)
{
    ngx_str_t  *s;

    for (s = ngx_http_mcds_of_uri_names; s->len; s++) {
        if (name->len == s->len
            && ngx_strncmp(name->data, s->data, s->len) == 0)
        {
            return 1;
        }
    }

    return name->len > 4 && ngx_strncmp(name->data, "arg_", 4) == 0;
}

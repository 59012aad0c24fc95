
/*
 * Copyright (C) mcds authors
 *
 * What a request does with the page under its key: serve it, build it, have
 * it refreshed, wait, or pass.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_module.h"
#include "ngx_http_mcds_refresh.h"
#include "ngx_http_mcds_revalidate.h"
#include "ngx_http_mcds_store.h"


/* room for the header, the key and the stored headers of an entry */
#define NGX_HTTP_MCDS_ENTRY_ROOM  (256 * 1024)


static ngx_int_t ngx_http_mcds_cache_sit(ngx_http_mcds_ctx_t *ctx,
    ngx_http_mcds_loc_conf_t *mlcf);
static ngx_uint_t ngx_http_mcds_cache_applies(ngx_http_request_t *r,
    ngx_http_mcds_loc_conf_t *mlcf);
static ngx_uint_t ngx_http_mcds_cache_session(ngx_http_request_t *r,
    ngx_array_t *names);
static ngx_uint_t ngx_http_mcds_cache_session_line(ngx_str_t *line,
    ngx_array_t *names);
static ngx_uint_t ngx_http_mcds_cache_match(u_char *p, u_char *last,
    u_char *name, u_char *end);
static ngx_int_t ngx_http_mcds_cache_key(ngx_http_request_t *r,
    ngx_http_mcds_ctx_t *ctx, ngx_http_mcds_loc_conf_t *mlcf);
static ngx_int_t ngx_http_mcds_cache_port(ngx_http_request_t *r,
    ngx_str_t *port);
static void ngx_http_mcds_cache_handler(void *data, ngx_uint_t outcome,
    ngx_mcds_copy_t *copy);
static ngx_int_t ngx_http_mcds_cache_found(ngx_http_request_t *r,
    ngx_http_mcds_ctx_t *ctx, ngx_http_mcds_loc_conf_t *mlcf);
static ngx_int_t ngx_http_mcds_cache_entered(ngx_http_request_t *r,
    ngx_http_mcds_ctx_t *ctx, ngx_http_mcds_loc_conf_t *mlcf);
static ngx_int_t ngx_http_mcds_cache_enter(ngx_http_request_t *r,
    ngx_http_mcds_ctx_t *ctx, ngx_http_mcds_loc_conf_t *mlcf,
    ngx_uint_t refresh, ngx_uint_t has_old);
static ngx_int_t ngx_http_mcds_cache_miss(ngx_http_request_t *r,
    ngx_http_mcds_ctx_t *ctx, ngx_http_mcds_loc_conf_t *mlcf);
static ngx_int_t ngx_http_mcds_cache_refresh(ngx_http_request_t *r,
    ngx_http_mcds_ctx_t *ctx);
static ngx_int_t ngx_http_mcds_cache_behind(ngx_http_request_t *r,
    ngx_http_mcds_ctx_t *ctx, ngx_http_mcds_loc_conf_t *mlcf);
static ngx_int_t ngx_http_mcds_cache_detach(ngx_http_request_t *r,
    ngx_http_mcds_ctx_t *ctx);
static void ngx_http_mcds_cache_refreshed(ngx_http_request_t *r, void *data,
    ngx_int_t rc);
static ngx_uint_t ngx_http_mcds_cache_split(ngx_http_mcds_ctx_t *ctx);
static ngx_uint_t ngx_http_mcds_cache_partial(ngx_http_request_t *r);
static ngx_int_t ngx_http_mcds_cache_fill(ngx_http_request_t *r,
    ngx_http_mcds_ctx_t *ctx);
static ngx_int_t ngx_http_mcds_cache_pass(ngx_http_request_t *r,
    ngx_http_mcds_ctx_t *ctx, ngx_uint_t store);
static ngx_int_t ngx_http_mcds_cache_unavailable(ngx_http_request_t *r);
static ngx_int_t ngx_http_mcds_status_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_mcds_age_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);


static ngx_str_t  ngx_http_mcds_statuses[] = {
    ngx_null_string,
    ngx_string("BYPASS"),
    ngx_string("MISS"),
    ngx_string("EXPIRED"),
    ngx_string("STALE"),
    ngx_string("UPDATING"),
    ngx_string("REVALIDATED"),
    ngx_string("HIT")
};


static ngx_http_variable_t  ngx_http_mcds_cache_vars[] = {

    { ngx_string("mcds_cache_status"), NULL,
      ngx_http_mcds_status_variable, 0,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("mcds_cache_age"), NULL,
      ngx_http_mcds_age_variable, 0,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

      ngx_http_null_variable
};


ngx_int_t
ngx_http_mcds_cache_add_variables(ngx_conf_t *cf)
{
    ngx_http_variable_t  *var, *v;

    for (v = ngx_http_mcds_cache_vars; v->name.len; v++) {
        var = ngx_http_add_variable(cf, &v->name, v->flags);
        if (var == NULL) {
            return NGX_ERROR;
        }

        var->get_handler = v->get_handler;
        var->data = v->data;
    }

    return NGX_OK;
}


uint64_t
ngx_http_mcds_now(void)
{
    ngx_time_t  *tp;

    tp = ngx_timeofday();

    return (uint64_t) tp->sec * 1000 + tp->msec;
}


ngx_int_t
ngx_http_mcds_cache_start(ngx_http_request_t *r, ngx_http_mcds_ctx_t *ctx,
    ngx_http_mcds_loc_conf_t *mlcf)
{
    ngx_int_t  rc;

    ctx->asked = 1;
    ctx->conf = mlcf;

    if (!ngx_http_mcds_cache_applies(r, mlcf)) {
        return NGX_OK;
    }

    if (mlcf->session_cookies
        && ngx_http_mcds_cache_session(r, mlcf->session_cookies))
    {
        ctx->status = NGX_HTTP_MCDS_BYPASS;
        return NGX_OK;
    }

    rc = ngx_http_mcds_cache_key(r, ctx, mlcf);

    if (rc == NGX_DECLINED) {
        ctx->status = NGX_HTTP_MCDS_BYPASS;
        return NGX_OK;
    }

    if (rc != NGX_OK) {
        return rc;
    }

    ctx->authorization = (r->headers_in.authorization != NULL);

    if (ngx_http_mcds_cache_sit(ctx, mlcf) != NGX_OK) {
        return NGX_ERROR;
    }

    if (ngx_http_test_predicates(r, mlcf->cache_bypass) != NGX_OK) {

        /* as in proxy_cache: not taken from the cache, but stored */

        ctx->status = NGX_HTTP_MCDS_BYPASS;
        ctx->decided = 1;
        ctx->replace = 1;

        rc = ngx_http_mcds_cache_pass(r, ctx, 1);

        return rc == NGX_DECLINED ? NGX_OK : NGX_ERROR;
    }

    if (ngx_mcds_page_lookup(&ctx->seat) != NGX_OK) {
        return NGX_ERROR;
    }

    ctx->waiting++;

    return NGX_OK;
}


static ngx_int_t
ngx_http_mcds_cache_sit(ngx_http_mcds_ctx_t *ctx,
    ngx_http_mcds_loc_conf_t *mlcf)
{
    ngx_http_request_t  *r;

    if (ngx_mcds_page_sit(&ctx->seat, mlcf->cache_pool, &ctx->key,
                          mlcf->cache_max_size + NGX_HTTP_MCDS_ENTRY_ROOM,
                          ngx_http_mcds_cache_handler, ctx)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    r = ctx->request;

    ctx->seat.no_body = (r->method != NGX_HTTP_GET
                         || r->header_only
                         || ngx_http_mcds_cache_partial(r));

    return NGX_OK;
}


static ngx_uint_t
ngx_http_mcds_cache_applies(ngx_http_request_t *r,
    ngx_http_mcds_loc_conf_t *mlcf)
{
    if (!(r->method & mlcf->cache_methods)) {
        return 0;
    }

    /* a body may mean something else, subrequests are sent with it too */

    if (r->headers_in.content_length_n > 0 || r->headers_in.chunked) {
        return 0;
    }

    /* an error page shows the error of another location */

    if (r->err_status) {
        return 0;
    }

    /* mirror, and background updates of other caches: nobody reads them */

    if (r->background) {
        return 0;
    }

    return 1;
}


static ngx_uint_t
ngx_http_mcds_cache_session(ngx_http_request_t *r, ngx_array_t *names)
{
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h;

    part = &r->headers_in.headers.part;
    h = part->elts;

    for (i = 0; /* void */ ; i++) {

        if (i >= part->nelts) {
            if (part->next == NULL) {
                return 0;
            }

            part = part->next;
            h = part->elts;
            i = 0;
        }

        if (h[i].hash
            && h[i].key.len == 6
            && ngx_strncasecmp(h[i].key.data, (u_char *) "Cookie", 6) == 0
            && ngx_http_mcds_cache_session_line(&h[i].value, names))
        {
            return 1;
        }
    }
}


static ngx_uint_t
ngx_http_mcds_cache_session_line(ngx_str_t *line, ngx_array_t *names)
{
    u_char      *p, *last, *start, *end;
    ngx_str_t   *name;
    ngx_uint_t   i;

    name = names->elts;
    p = line->data;
    last = p + line->len;

    while (p < last) {

        while (p < last && (*p == ' ' || *p == '\t' || *p == ';')) {
            p++;
        }

        start = p;

        while (p < last && *p != '=' && *p != ';') {
            p++;
        }

        end = p;

        while (end > start && (end[-1] == ' ' || end[-1] == '\t')) {
            end--;
        }

        for (i = 0; end > start && i < names->nelts; i++) {
            if (ngx_http_mcds_cache_match(name[i].data,
                                          name[i].data + name[i].len,
                                          start, end))
            {
                return 1;
            }
        }

        while (p < last && *p != ';') {
            p++;
        }
    }

    return 0;
}


/* "*" stands for any number of characters */

static ngx_uint_t
ngx_http_mcds_cache_match(u_char *p, u_char *last, u_char *name, u_char *end)
{
    u_char  *star, *mark;

    star = NULL;
    mark = NULL;

    while (name < end) {

        if (p < last && *p == '*') {
            star = ++p;
            mark = name;
            continue;
        }

        if (p < last && *p == *name) {
            p++;
            name++;
            continue;
        }

        if (star == NULL) {
            return 0;
        }

        p = star;
        name = ++mark;
    }

    while (p < last && *p == '*') {
        p++;
    }

    return p == last;
}


/*
 * Without mcds_cache_key: scheme, host with its port, if the client has named
 * one, and the URI as the client wrote it.  A
 * subrequest has only the URI it was made with; once that was rewritten, no
 * text tells its pages apart, and it is not cached.
 */

static ngx_int_t
ngx_http_mcds_cache_key(ngx_http_request_t *r, ngx_http_mcds_ctx_t *ctx,
    ngx_http_mcds_loc_conf_t *mlcf)
{
    u_char     *p;
    size_t      escape;
    ngx_str_t   scheme, host, port, uri, args;

    if (mlcf->cache_key) {

        if (ngx_http_complex_value(r, mlcf->cache_key, &ctx->key) != NGX_OK) {
            return NGX_ERROR;
        }

        return ctx->key.len ? NGX_OK : NGX_DECLINED;
    }

    ngx_str_set(&scheme, "http");

#if (NGX_HTTP_SSL)
    if (r->connection->ssl) {
        ngx_str_set(&scheme, "https");
    }
#endif

    host = r->headers_in.server;

    if (ngx_http_mcds_cache_port(r, &port) != NGX_OK) {
        return NGX_DECLINED;
    }

    ngx_str_null(&args);
    escape = 0;

    if (r == r->main) {
        uri = r->unparsed_uri;

    } else {
        if (r->uri_changes != NGX_HTTP_MAX_URI_CHANGES + 1) {
            return NGX_DECLINED;
        }

        uri = r->uri;
        args = r->args;
        escape = 2 * ngx_escape_uri(NULL, uri.data, uri.len, NGX_ESCAPE_URI);
    }

    p = ngx_pnalloc(r->pool, scheme.len + 3 + host.len + port.len + uri.len
                             + escape + 1 + args.len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    ctx->key.data = p;

    p = ngx_cpymem(p, scheme.data, scheme.len);
    p = ngx_cpymem(p, "://", 3);
    p = ngx_cpymem(p, host.data, host.len);
    p = ngx_cpymem(p, port.data, port.len);

    if (escape) {
        p = (u_char *) ngx_escape_uri(p, uri.data, uri.len, NGX_ESCAPE_URI);

    } else {
        p = ngx_cpymem(p, uri.data, uri.len);
    }

    if (args.len) {
        *p++ = '?';
        p = ngx_cpymem(p, args.data, args.len);
    }

    ctx->key.len = p - ctx->key.data;

    return NGX_OK;
}


/*
 * What an origin makes links of is the Host header, in full.  NGX_DECLINED if
 * that is not the host that was chosen: of a request line with a host in it
 * nginx takes that one and passes on the header.
 */

static ngx_int_t
ngx_http_mcds_cache_port(ngx_http_request_t *r, ngx_str_t *port)
{
    u_char     *p, *last;
    ngx_str_t  *server, *value;

    ngx_str_set(port, "");

    server = &r->headers_in.server;

    if (r->headers_in.host == NULL) {
        return server->len ? NGX_DECLINED : NGX_OK;
    }

    value = &r->headers_in.host->value;

    if (value->len < server->len
        || ngx_strncasecmp(value->data, server->data, server->len) != 0)
    {
        return NGX_DECLINED;
    }

    p = value->data + server->len;
    last = value->data + value->len;

    port->data = p;
    port->len = last - p;

    if (p < last && *p++ != ':') {
        return NGX_DECLINED;
    }

    while (p < last) {
        if (*p < '0' || *p > '9') {
            return NGX_DECLINED;
        }

        p++;
    }

    return NGX_OK;
}


static void
ngx_http_mcds_cache_handler(void *data, ngx_uint_t outcome,
    ngx_mcds_copy_t *copy)
{
    ngx_http_mcds_ctx_t *ctx = data;

    ctx->outcome = outcome;

    if (copy) {
        ngx_mcds_copy_unref(ctx->copy);
        ctx->copy = ngx_mcds_copy_ref(copy);

        /* the first parts are in memory now, but not for long */

        if (!ctx->seat.no_body) {
            ngx_http_mcds_stream_begin(ctx);
        }
    }

    ngx_http_mcds_wake(ctx);
}


ngx_int_t
ngx_http_mcds_cache_decide(ngx_http_request_t *r, ngx_http_mcds_ctx_t *ctx)
{
    ngx_http_mcds_loc_conf_t  *mlcf;

    mlcf = ngx_http_get_module_loc_conf(r, ngx_http_mcds_module);

    if (ctx->entered) {
        return ngx_http_mcds_cache_entered(r, ctx, mlcf);
    }

    if (ctx->outcome == NGX_MCDS_PAGE_FOUND) {
        return ngx_http_mcds_cache_found(r, ctx, mlcf);
    }

    ctx->status = NGX_HTTP_MCDS_MISS;

    return ngx_http_mcds_cache_miss(r, ctx, mlcf);
}


static ngx_int_t
ngx_http_mcds_cache_found(ngx_http_request_t *r, ngx_http_mcds_ctx_t *ctx,
    ngx_http_mcds_loc_conf_t *mlcf)
{
    ngx_uint_t         state, last;
    ngx_mcds_stale_t   stale;
    ngx_mcds_entry_t  *entry;

    entry = &ctx->copy->entry;

    if (entry->kind != NGX_MCDS_ENTRY_PAGE) {

        /* hit-for-miss: others need not wait for this one */

        ctx->status = NGX_HTTP_MCDS_MISS;
        ctx->cas = ctx->copy->cas;

        return ngx_http_mcds_cache_pass(r, ctx, 1);
    }

    if (ctx->authorization && !(entry->flags & NGX_MCDS_ENTRY_SHARED)) {
        ctx->status = NGX_HTTP_MCDS_BYPASS;
        return ngx_http_mcds_cache_pass(r, ctx, 0);
    }

    stale.update = mlcf->cache_update;
    stale.grace = mlcf->cache_grace;

    state = ngx_mcds_fresh_state(entry, &stale, ngx_http_mcds_now());

    if (state == NGX_MCDS_FRESH) {
        ctx->status = NGX_HTTP_MCDS_HIT;
        return NGX_OK;
    }

    last = (state == NGX_MCDS_STALE_LAST);

    if (state == NGX_MCDS_STALE_UNUSABLE || (last && !mlcf->cache_lock)) {
        ctx->status = NGX_HTTP_MCDS_EXPIRED;
        return ngx_http_mcds_cache_miss(r, ctx, mlcf);
    }

    if (ctx->authorization) {

        /* such a request starts no build and waits for none */

        if (last) {
            ctx->status = NGX_HTTP_MCDS_EXPIRED;
            return ngx_http_mcds_cache_pass(r, ctx, 0);
        }

        ctx->status = NGX_HTTP_MCDS_UPDATING;
        return NGX_OK;
    }

    if (last && r->method == NGX_HTTP_GET && !r->header_only) {
        ctx->status = NGX_HTTP_MCDS_EXPIRED;
        return ngx_http_mcds_cache_enter(r, ctx, mlcf, 0, 1);
    }

    /* HEAD builds nothing either, it has the page refreshed behind it */

    ctx->status = NGX_HTTP_MCDS_UPDATING;

    return ngx_http_mcds_cache_enter(r, ctx, mlcf, 1, 1);
}


/* nothing that could be served */

static ngx_int_t
ngx_http_mcds_cache_miss(ngx_http_request_t *r, ngx_http_mcds_ctx_t *ctx,
    ngx_http_mcds_loc_conf_t *mlcf)
{
    ctx->cas = ctx->copy ? ctx->copy->cas : 0;

    if (r->method != NGX_HTTP_GET || r->header_only) {
        return ngx_http_mcds_cache_pass(r, ctx, 0);
    }

    if (ctx->authorization || !mlcf->cache_lock) {
        return ngx_http_mcds_cache_pass(r, ctx, 1);
    }

    return ngx_http_mcds_cache_enter(r, ctx, mlcf, 0, 0);
}


static ngx_int_t
ngx_http_mcds_cache_enter(ngx_http_request_t *r, ngx_http_mcds_ctx_t *ctx,
    ngx_http_mcds_loc_conf_t *mlcf, ngx_uint_t refresh, ngx_uint_t has_old)
{
    ngx_int_t         rc;
    ngx_mcds_enter_t  enter;

    ngx_memzero(&enter, sizeof(ngx_mcds_enter_t));

    enter.lock_age = mlcf->cache_lock_age;
    enter.wait = has_old ? mlcf->cache_wait : mlcf->cache_lock_timeout;
    enter.max_waiters = mlcf->cache_max_waiters;
    enter.cas = ctx->copy ? ctx->copy->cas : 0;
    enter.refresh = refresh;
    enter.has_old = has_old;
    enter.local = (ctx->outcome == NGX_MCDS_PAGE_FAILED);

    ctx->entered = 1;

    ctx->waiting++;

    rc = ngx_mcds_page_enter(&ctx->seat, &enter, &ctx->outcome);

    if (rc == NGX_OK) {
        return NGX_AGAIN;
    }

    ctx->waiting--;

    return ngx_http_mcds_cache_entered(r, ctx, mlcf);
}


static ngx_int_t
ngx_http_mcds_cache_entered(ngx_http_request_t *r, ngx_http_mcds_ctx_t *ctx,
    ngx_http_mcds_loc_conf_t *mlcf)
{
    switch (ctx->outcome) {

    case NGX_MCDS_PAGE_FOUND:

        /* what was just built is right for who has waited for it */

        ctx->status = NGX_HTTP_MCDS_HIT;
        return NGX_OK;

    case NGX_MCDS_PAGE_BUILD:

        if (ctx->seat.refresh) {
            return ngx_http_mcds_cache_refresh(r, ctx);
        }

        if (ngx_http_mcds_cache_partial(r)
            || (ngx_http_mcds_cache_split(ctx) && !ctx->behind))
        {
            return ngx_http_mcds_cache_behind(r, ctx, mlcf);
        }

        return ngx_http_mcds_cache_fill(r, ctx);

    case NGX_MCDS_PAGE_OTHER:
        return NGX_OK;

    case NGX_MCDS_PAGE_PASS:
        return ngx_http_mcds_cache_pass(r, ctx, 0);

    default: /* NGX_MCDS_PAGE_TIMEOUT */

        if (ctx->seat.has_old) {
            ctx->status = NGX_HTTP_MCDS_STALE;
            return NGX_OK;
        }

        if (mlcf->cache_lock_pass) {
            return ngx_http_mcds_cache_pass(r, ctx, 0);
        }

        return ngx_http_mcds_cache_unavailable(r);
    }
}


/* this request shows the old page, and a copy of it builds the new one */

static ngx_int_t
ngx_http_mcds_cache_refresh(ngx_http_request_t *r, ngx_http_mcds_ctx_t *ctx)
{
    if (ngx_http_mcds_cache_detach(r, ctx) == NGX_OK) {
        ctx->status = NGX_HTTP_MCDS_STALE;
    }

    return NGX_OK;
}


/*
 * A conditional request, or one for a range, cannot fill: the origin is to be
 * asked for the whole page, and if that turns out to be uncacheable, it must
 * be asked for what the client wants.  So a copy builds, and the request
 * waits for it like others.  So does one that has found a page in parts: that
 * cannot take the place of the origin's answer, see
 * ngx_http_mcds_instead_body(), but be served when the copy has ended.
 */

static ngx_int_t
ngx_http_mcds_cache_behind(ngx_http_request_t *r, ngx_http_mcds_ctx_t *ctx,
    ngx_http_mcds_loc_conf_t *mlcf)
{
    ngx_uint_t  has_old;

    has_old = ctx->seat.has_old;

    if (ctx->behind || ngx_http_mcds_cache_detach(r, ctx) != NGX_OK) {

        /* it did not work out: let the next one try */

        return ngx_http_mcds_cache_pass(r, ctx, 0);
    }

    ctx->behind = 1;

    if (ngx_http_mcds_cache_sit(ctx, mlcf) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_http_mcds_cache_enter(r, ctx, mlcf, 0, has_old);
}


/* hands the build of r to a copy; ends it if that cannot be made */

static ngx_int_t
ngx_http_mcds_cache_detach(ngx_http_request_t *r, ngx_http_mcds_ctx_t *ctx)
{
    ngx_http_request_t   *sr;
    ngx_http_mcds_ctx_t  *sctx;

    /* the data serve as a mark only, see ngx_http_mcds_silent() */

    sr = ngx_http_mcds_refresh_create(r, ngx_http_mcds_cache_refreshed,
                                      ctx->seat.page);

    sctx = sr ? ngx_http_mcds_create_ctx(sr) : NULL;

    if (sctx) {
        sctx->asked = 1;
        sctx->decided = 1;
        sctx->refresh = 1;
        sctx->error_page = ctx->error_page;
        sctx->start = ngx_current_msec;

        sctx->key.len = ctx->key.len;
        sctx->key.data = ngx_pstrdup(sr->pool, &ctx->key);

        sctx->conf = ctx->conf;
        sctx->copy = ctx->copy ? ngx_mcds_copy_ref(ctx->copy) : NULL;
    }

    if (sctx == NULL
        || sctx->key.data == NULL
        || ngx_http_mcds_revalidate_ask(sr, sctx) != NGX_OK)
    {
        ngx_mcds_page_built(&ctx->seat, NGX_MCDS_BUILD_FAILED, NULL, 0);
        return NGX_ERROR;
    }

    ngx_mcds_page_hand(&ctx->seat, &sctx->seat);

    return NGX_OK;
}


static void
ngx_http_mcds_cache_refreshed(ngx_http_request_t *r, void *data, ngx_int_t rc)
{
    ngx_http_mcds_ctx_t  *ctx;

    ctx = ngx_http_mcds_get_ctx(r);

    if (ctx && ctx->seat.building) {
        ngx_http_mcds_store_cleanup(ctx);
        ngx_mcds_page_built(&ctx->seat, NGX_MCDS_BUILD_BACKOFF, NULL, 0);
    }
}


static ngx_uint_t
ngx_http_mcds_cache_split(ngx_http_mcds_ctx_t *ctx)
{
    return ctx->copy
           && ctx->copy->entry.kind == NGX_MCDS_ENTRY_PAGE
           && ctx->copy->entry.parts;
}


/* what it asks for is less than the page, or depends on what it has */

static ngx_uint_t
ngx_http_mcds_cache_partial(ngx_http_request_t *r)
{
    return r->headers_in.range != NULL
           || r->headers_in.if_range != NULL
           || r->headers_in.if_modified_since != NULL
           || r->headers_in.if_unmodified_since != NULL
           || r->headers_in.if_match != NULL
           || r->headers_in.if_none_match != NULL;
}


static ngx_int_t
ngx_http_mcds_cache_fill(ngx_http_request_t *r, ngx_http_mcds_ctx_t *ctx)
{
    if (ngx_http_mcds_refresh_strip(r) != NGX_OK) {
        return NGX_ERROR;
    }

    if (!ngx_http_mcds_cache_split(ctx)
        && ngx_http_mcds_revalidate_ask(r, ctx) != NGX_OK)
    {
        return NGX_ERROR;
    }

    ngx_http_mcds_stream_end(ctx);

    ctx->start = ngx_current_msec;

    return NGX_DECLINED;
}


/* store: the answer may be stored, though nobody waits for it */

static ngx_int_t
ngx_http_mcds_cache_pass(ngx_http_request_t *r, ngx_http_mcds_ctx_t *ctx,
    ngx_uint_t store)
{
    ngx_http_mcds_stream_end(ctx);

    if (!store || r->method != NGX_HTTP_GET || r->header_only
        || ngx_http_mcds_cache_partial(r))
    {
        ngx_mcds_page_leave(&ctx->seat);
        return NGX_DECLINED;
    }

    if (ngx_http_mcds_refresh_strip(r) != NGX_OK) {
        return NGX_ERROR;
    }

    if (!ngx_http_mcds_cache_split(ctx)
        && ngx_http_mcds_revalidate_ask(r, ctx) != NGX_OK)
    {
        return NGX_ERROR;
    }

    ctx->storing = 1;
    ctx->start = ngx_current_msec;

    return NGX_DECLINED;
}


static ngx_int_t
ngx_http_mcds_cache_unavailable(ngx_http_request_t *r)
{
    ngx_table_elt_t  *h;

    h = ngx_list_push(&r->headers_out.headers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    h->hash = 1;
    ngx_str_set(&h->key, "Retry-After");
    ngx_str_set(&h->value, "1");

#if (nginx_version >= 1023000)
    h->next = NULL;
#endif

    ngx_log_error(NGX_LOG_WARN, r->connection->log, 0,
                  "page is still being built by another request");

    return NGX_HTTP_SERVICE_UNAVAILABLE;
}


static ngx_int_t
ngx_http_mcds_status_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_http_mcds_ctx_t  *ctx;

    ctx = ngx_http_mcds_get_ctx(r);

    if (ctx == NULL || ctx->status == NGX_HTTP_MCDS_NONE) {
        v->not_found = 1;
        return NGX_OK;
    }

    v->data = ngx_http_mcds_statuses[ctx->status].data;
    v->len = ngx_http_mcds_statuses[ctx->status].len;
    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;

    return NGX_OK;
}


static ngx_int_t
ngx_http_mcds_age_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    u_char               *p;
    uint32_t              age;
    ngx_http_mcds_ctx_t  *ctx;

    ctx = ngx_http_mcds_get_ctx(r);

    if (ctx == NULL || !ctx->serving) {
        v->not_found = 1;
        return NGX_OK;
    }

    p = ngx_pnalloc(r->pool, NGX_INT32_LEN);
    if (p == NULL) {
        return NGX_ERROR;
    }

    age = ngx_mcds_fresh_age(&ctx->copy->entry, ngx_http_mcds_now());

    v->data = p;
    v->len = ngx_sprintf(p, "%uD", age) - p;
    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;

    return NGX_OK;
}

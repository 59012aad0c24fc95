
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_md5.h>
#include "ngx_http_mcds_header.h"
#include "ngx_http_mcds_cache.h"
#include "ngx_http_mcds_forwarded.h"
#include "ngx_http_mcds_route.h"


#if (NGX_PCRE)
static ngx_uint_t ngx_http_mcds_route_regex(ngx_http_mcds_cache_conf_t *prev,
    ngx_http_mcds_cache_conf_t *conf, ngx_str_t *regex);
#endif
static void ngx_http_mcds_route(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, u_char *route);
static ngx_uint_t ngx_http_mcds_route_plain(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf);
static ngx_uint_t ngx_http_mcds_route_args(ngx_str_t *args, ngx_str_t *asked);
static void ngx_http_mcds_route_add(ngx_md5_t *md5, ngx_str_t *s);


ngx_str_t  ngx_http_mcds_route_name = ngx_string(NGX_MCDS_VARY_ROUTE);


void
ngx_http_mcds_route_merge(ngx_conf_t *cf, ngx_http_mcds_cache_conf_t *prev,
    ngx_http_mcds_cache_conf_t *conf)
{
    u_char                     *p, kind, text[1 + NGX_INT_T_LEN];
    ngx_md5_t                   md5;
    ngx_uint_t                  n;
    ngx_http_core_loc_conf_t   *clcf;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    if (clcf->name.len == 0) {

        /*
         * a server block has no name, and adds nothing to the route of a
         * request, its way through the locations
         */

        return;
    }

    n = 0;

    if (clcf->noname || clcf->lmt_excpt) {

        /*
         * "if" and "limit_except" blocks have the name of their location:
         * their number distinguishes them in the route of a request
         */

        kind = clcf->lmt_excpt ? 'l' : 'i';
        n = ++prev->blocks;

    } else if (clcf->exact_match) {
        kind = '=';

    } else if (clcf->noregex) {
        kind = '^';

    } else if (clcf->named) {
        kind = '@';

#if (NGX_PCRE)
    } else if (clcf->regex) {
        kind = '~';
        n = ngx_http_mcds_route_regex(prev, conf, &clcf->name);
#endif

    } else {
        kind = '/';
    }

    p = ngx_sprintf(text, "%c%ui", kind, n);

    ngx_md5_init(&md5);
    ngx_md5_update(&md5, prev->route, NGX_HTTP_MCDS_ROUTE_LEN);
    ngx_md5_update(&md5, text, p - text);
    ngx_md5_update(&md5, clcf->name.data, clcf->name.len);
    ngx_md5_final(conf->route, &md5);
}


#if (NGX_PCRE)

/*
 * Returns the number of locations that come before "conf" on the same level of
 * the configuration and have the same regular expression, "regex".  By this
 * number, the route of a request distinguishes "location ~ regex" from
 * "location ~* regex": nginx keeps the same name for both.
 */

static ngx_uint_t
ngx_http_mcds_route_regex(ngx_http_mcds_cache_conf_t *prev,
    ngx_http_mcds_cache_conf_t *conf, ngx_str_t *regex)
{
    ngx_uint_t                   n;
    ngx_http_mcds_cache_conf_t  *other;

    n = 0;

    for (other = prev->regexes; other; other = other->regex_next) {
        n += ngx_mcds_same(other->regex, regex);
    }

    conf->regex = regex;
    conf->regex_next = prev->regexes;
    prev->regexes = conf;

    return n;
}

#endif


void
ngx_http_mcds_route_begin(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx)
{
    u_char  *p, *last;

    ctx->main = (r == r->main);

    if (!ctx->main) {

        if (r->uri_changes == NGX_HTTP_MAX_URI_CHANGES + 1) {
            ctx->uri = r->uri;
            ctx->args = r->args;
        }

        return;
    }

    last = r->unparsed_uri.data + r->unparsed_uri.len;
    p = ngx_strlchr(r->unparsed_uri.data, last, '?');

    if (p) {
        ctx->args.data = p + 1;
        ctx->args.len = last - ctx->args.data;
    }
}


ngx_int_t
ngx_http_mcds_route_inherit(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_ctx_t *from)
{
    ctx->main = from->main;
    ctx->routed = from->routed;
    ngx_memcpy(ctx->route, from->route, NGX_HTTP_MCDS_ROUTE_LEN);

    return (ngx_http_mcds_copy_text(r->pool, &ctx->uri, &from->uri) == NGX_OK
            && ngx_http_mcds_copy_text(r->pool, &ctx->args, &from->args)
               == NGX_OK
            && ngx_http_mcds_copy_text(r->pool, &ctx->forwarded,
                                       &from->forwarded)
               == NGX_OK)
           ? NGX_OK : NGX_ERROR;
}


ngx_int_t
ngx_http_mcds_route_here(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx)
{
    u_char                       route[NGX_HTTP_MCDS_ROUTE_LEN];
    ngx_http_mcds_cache_conf_t  *ccf;

    ccf = ngx_http_get_module_loc_conf(r, ngx_http_mcds_cache_module);

    if (ctx->forwarded_by != ccf) {
        ctx->forwarded_by = ccf;

        if (ngx_http_mcds_forwarded(r, ccf, &ctx->forwarded) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    ngx_http_mcds_route(r, ctx, route);

    if (ngx_memcmp(route, ctx->route, NGX_HTTP_MCDS_ROUTE_LEN) == 0) {
        return NGX_OK;
    }

    ngx_memcpy(ctx->route, route, NGX_HTTP_MCDS_ROUTE_LEN);

    return NGX_DECLINED;
}


ngx_uint_t
ngx_http_mcds_route_left(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx)
{
    u_char  route[NGX_HTTP_MCDS_ROUTE_LEN];

    ngx_http_mcds_route(r, ctx, route);

    return ngx_memcmp(route, ctx->route, NGX_HTTP_MCDS_ROUTE_LEN) != 0;
}


static void
ngx_http_mcds_route(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx,
    u_char *route)
{
    u_char                       own;
    ngx_md5_t                    md5;
    ngx_str_t                    args;
    ngx_uint_t                   plain;
    ngx_http_mcds_cache_conf_t  *ccf;

    ccf = ngx_http_get_module_loc_conf(r, ngx_http_mcds_cache_module);

    plain = ngx_http_mcds_route_plain(r, ctx, ccf);

    if (plain && ctx->forwarded.len == 0) {

        /*
         * the request's URI and arguments need not be in its route through the
         * locations, as the page's key determines them
         */

        ngx_memcpy(route, ccf->route, NGX_HTTP_MCDS_ROUTE_LEN);
        return;
    }

    ngx_md5_init(&md5);
    ngx_md5_update(&md5, ccf->route, NGX_HTTP_MCDS_ROUTE_LEN);
    ngx_http_mcds_route_add(&md5, &ctx->forwarded);

    if (!plain) {
        args = r->args;
        own = ngx_http_mcds_route_args(&args, &ctx->args) ? '1' : '0';

        ngx_http_mcds_route_add(&md5, &r->uri);
        ngx_http_mcds_route_add(&md5, &args);
        ngx_md5_update(&md5, &own, 1);
    }

    ngx_md5_final(route, &md5);
}


/*
 * Returns 1 if the URI and the arguments of the request are still those that
 * its page's key was made from.  Returns 0 for a subrequest with a key set by
 * mcds_cache_key, which may not distinguish subrequests.
 */

static ngx_uint_t
ngx_http_mcds_route_plain(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf)
{
    if (!ngx_mcds_same(&r->args, &ctx->args)) {
        return 0;
    }

    if (ctx->main) {
        return r->valid_unparsed_uri;
    }

    return ccf->cache_key == NULL
           && ngx_mcds_same(&r->uri, &ctx->uri);
}


/*
 * Cuts the arguments of the client, "asked", off args, so that args has only
 * those that nginx has added: the client's arguments are in the page's key,
 * unless mcds_cache_key_args leaves them out.  Returns 0 if nginx has removed
 * the client's arguments.  The same text inside of an argument that nginx has
 * added, such as "admin" in "role=admin", is not the client's.
 */

static ngx_uint_t
ngx_http_mcds_route_args(ngx_str_t *args, ngx_str_t *asked)
{
    u_char  *rest;
    size_t   len;

    if (asked->len == 0) {
        return 1;
    }

    if (args->len < asked->len) {
        return 0;
    }

    len = args->len - asked->len;
    rest = args->data + len;

    if ((len == 0 || rest[-1] == '&')
        && ngx_memcmp(rest, asked->data, asked->len) == 0)
    {
        args->len = len;
        return 1;
    }

    rest = args->data + asked->len;

    if (len && *rest == '&'
        && ngx_memcmp(args->data, asked->data, asked->len) == 0)
    {
        args->data = rest;
        args->len = len;
        return 1;
    }

    return 0;
}


/*
 * adds a text to the hash of a request's route through the locations, with its
 * length, so that two texts in sequence are unambiguous
 */

static void
ngx_http_mcds_route_add(ngx_md5_t *md5, ngx_str_t *s)
{
    u_char  *p, text[NGX_SIZE_T_LEN + 1];

    p = ngx_sprintf(text, "%uz:", s->len);

    ngx_md5_update(md5, text, p - text);

    if (s->len) {
        ngx_md5_update(md5, s->data, s->len);
    }
}


void
ngx_http_mcds_route_text(u_char *route, u_char *text)
{
    (void) ngx_hex_dump(text, route, NGX_HTTP_MCDS_ROUTE_LEN);
}


u_char *
ngx_http_mcds_route_put(u_char *p, u_char *route)
{
    *p++ = NGX_MCDS_ENTRY_EXT_ROUTE;
    *p++ = 0;
    *p++ = NGX_HTTP_MCDS_ROUTE_LEN;
    *p++ = 0;
    *p++ = 0;
    *p++ = 0;

    return ngx_cpymem(p, route, NGX_HTTP_MCDS_ROUTE_LEN);
}


ngx_int_t
ngx_http_mcds_route_ext(ngx_http_request_t *r, u_char *route, ngx_str_t *ext)
{
    u_char  *p, *last;

    p = ngx_pnalloc(r->pool, NGX_HTTP_MCDS_ROUTE_EXT + ext->len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    last = ngx_http_mcds_route_put(p, route);

    if (ext->len) {
        last = ngx_cpymem(last, ext->data, ext->len);
    }

    ext->data = p;
    ext->len = last - p;

    return NGX_OK;
}


ngx_uint_t
ngx_http_mcds_route_matches(ngx_mcds_entry_t *entry, u_char *route)
{
    ngx_str_t  data;

    if (entry->kind != NGX_MCDS_ENTRY_PAGE
        && entry->kind != NGX_MCDS_ENTRY_PASS)
    {
        return 1;
    }

    if (ngx_mcds_entry_ext(entry, NGX_MCDS_ENTRY_EXT_ROUTE, &data) != NGX_OK) {
        return 1;
    }

    return data.len == NGX_HTTP_MCDS_ROUTE_LEN
           && ngx_memcmp(data.data, route, NGX_HTTP_MCDS_ROUTE_LEN) == 0;
}

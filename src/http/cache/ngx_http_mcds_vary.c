
/*
 * Copyright (C) mcds authors
 *
 * Pages with variants, RFC 9111, 4.1: functions that compare lists of variants,
 * requests and responses.  They send no commands to memcached, and do not
 * change the state of a request.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_header.h"
#include "ngx_http_mcds_refresh.h"
#include "ngx_http_mcds_cache.h"
#include "ngx_http_mcds_route.h"
#include "ngx_http_mcds_variant.h"
#include "ngx_http_mcds_vary.h"


static void ngx_http_mcds_vary_values(ngx_http_request_t *r,
    ngx_mcds_variant_t *variant, ngx_str_t *name);
static void ngx_http_mcds_vary_response(ngx_http_request_t *r,
    ngx_mcds_response_t *response, ngx_str_t *names);
static ngx_int_t ngx_http_mcds_vary_names(ngx_list_t *headers,
    ngx_str_t *names);
static ngx_uint_t ngx_http_mcds_vary_coded(ngx_http_request_t *r);


ngx_http_mcds_varying_t  ngx_http_mcds_vary_functions = {
    ngx_http_mcds_vary_key,
    ngx_mcds_vary_names,
    ngx_mcds_vary_covers,
    ngx_http_mcds_vary_response,
    ngx_http_mcds_vary_covered,
    ngx_http_mcds_variant_begin,
    ngx_http_mcds_variant_store,
    ngx_http_mcds_variant_fork,
    ngx_http_mcds_variant_unfork,
    ngx_http_mcds_variant_hurry
};


static ngx_str_t  ngx_http_mcds_accept_encoding =
    ngx_string("accept-encoding");


ngx_int_t
ngx_http_mcds_vary_key(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_str_t *names, uint64_t generation,
    u_char *hash, ngx_str_t *key)
{
    u_char              *p, text[NGX_HTTP_MCDS_ROUTE_TEXT];
    ngx_str_t            left, name, value;
    ngx_mcds_variant_t   variant;

    left = *names;

    ngx_mcds_variant_begin(&variant);

    while (ngx_mcds_vary_next(&left, &name) == NGX_OK) {
        ngx_mcds_variant_name(&variant, &name);

        if (ngx_mcds_vary_covers(&ngx_http_mcds_route_name, &name)) {
            ngx_http_mcds_route_text(ctx->route, text);

            value.data = text;
            value.len = NGX_HTTP_MCDS_ROUTE_TEXT;
            ngx_mcds_variant_line(&variant, &value);

            continue;
        }

        ngx_http_mcds_vary_values(r, &variant, &name);
    }

    ngx_mcds_variant_end(&variant, hash);

    p = ngx_pnalloc(r->pool, ctx->key.len + NGX_MCDS_VARY_SUFFIX_LEN);
    if (p == NULL) {
        return NGX_ERROR;
    }

    key->data = p;

    p = ngx_cpymem(p, ctx->key.data, ctx->key.len);
    p = ngx_mcds_vary_suffix(p, generation, hash);

    key->len = p - key->data;

    return NGX_OK;
}


/*
 * adds the values of a request header to the hash that selects a variant; a
 * header such as Range, which mcds removes from a request that builds a page,
 * counts as absent
 */

static void
ngx_http_mcds_vary_values(ngx_http_request_t *r,
    ngx_mcds_variant_t *variant, ngx_str_t *name)
{
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h;

    if (ngx_http_mcds_refresh_unwanted(name)) {
        return;
    }

    for (part = &r->headers_in.headers.part; part; part = part->next) {

        h = part->elts;

        for (i = 0; i < part->nelts; i++) {

            if (h[i].hash
                && h[i].key.len == name->len
                && ngx_strncasecmp(h[i].key.data, name->data, name->len) == 0)
            {
                ngx_mcds_variant_line(variant, &h[i].value);
            }
        }
    }
}


static void
ngx_http_mcds_vary_response(ngx_http_request_t *r,
    ngx_mcds_response_t *response, ngx_str_t *names)
{
    ngx_http_mcds_cache_conf_t  *ccf;

    ngx_str_null(names);

    ccf = ngx_http_get_module_loc_conf(r, ngx_http_mcds_cache_module);

    /*
     * if mcds_ignore_headers has Vary, no variants are made; response->vary is
     * then set only for "Vary: *", and a response with "Vary: *" is not stored
     */

    if ((!response->vary && !response->encoded)
        || (ccf->cache_ignore & NGX_HTTP_MCDS_IGN_VARY))
    {
        return;
    }

    names->data = ngx_pnalloc(r->pool, NGX_MCDS_MAX_VARY_LEN);

    if (names->data == NULL
        || ngx_http_mcds_vary_names(&r->headers_out.headers,
                                       names)
           != NGX_OK
        || (r->upstream
            && ngx_http_mcds_vary_names(&r->upstream->headers_in.headers,
                                           names)
               != NGX_OK))
    {
        names->len = 0;
        return;
    }

    response->vary = 0;

    /*
     * a response with a Content-Encoding, but without Vary, is a variant for
     * requests that accept that coding
     */

    if (response->encoded
        && ngx_http_mcds_vary_coded(r)
        && ngx_mcds_vary_add(names, &ngx_http_mcds_accept_encoding)
           == NGX_OK)
    {
        response->encoded = 0;
    }
}


static ngx_int_t
ngx_http_mcds_vary_names(ngx_list_t *headers, ngx_str_t *names)
{
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h;

    for (part = &headers->part; part; part = part->next) {

        h = part->elts;

        for (i = 0; i < part->nelts; i++) {

            if (h[i].hash
                && ngx_http_mcds_header_is(&h[i].key, "Vary")
                && ngx_mcds_vary_add(names, &h[i].value) != NGX_OK)
            {
                return NGX_DECLINED;
            }
        }
    }

    return NGX_OK;
}


/*
 * returns 1 if all requests that accept the same codings (gzip, br, zstd) as
 * this request also accept the coding of the response
 */

static ngx_uint_t
ngx_http_mcds_vary_coded(ngx_http_request_t *r)
{
    ngx_uint_t           i, codings, found;
    ngx_list_part_t     *part;
    ngx_table_elt_t     *h;
    ngx_mcds_variant_t   variant;

    ngx_mcds_variant_begin(&variant);
    ngx_mcds_variant_name(&variant, &ngx_http_mcds_accept_encoding);
    ngx_http_mcds_vary_values(r, &variant, &ngx_http_mcds_accept_encoding);

    codings = ngx_mcds_variant_accepted(&variant);
    found = 0;

    for (part = &r->headers_out.headers.part; part; part = part->next) {

        h = part->elts;

        for (i = 0; i < part->nelts; i++) {

            if (h[i].hash == 0
                || !ngx_http_mcds_header_is(&h[i].key, "Content-Encoding"))
            {
                continue;
            }

            if (ngx_mcds_vary_coded(codings, &h[i].value) != NGX_OK) {
                return 0;
            }

            found = 1;
        }
    }

    return found;
}


ngx_uint_t
ngx_http_mcds_vary_covered(ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_str_t  names;

    if (ctx->vary.names.len == 0) {
        return 1;
    }

    if (ctx->vary.list == NULL) {
        return 0;
    }

    ngx_mcds_vary_names(&ctx->vary.list->entry.ext, &names);

    return ngx_mcds_vary_covers(&names, &ctx->vary.names);
}

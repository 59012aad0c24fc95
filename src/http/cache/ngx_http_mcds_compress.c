
/*
 * Copyright (C) mcds authors
 *
 * mcds_cache_compress: chooses the pages that are compressed when they are
 * stored.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_mcds_targeted.h"
#include "ngx_http_mcds_header.h"
#include "ngx_http_mcds_param_type.h"
#include "ngx_http_mcds_cache.h"
#include "ngx_http_mcds_coding.h"
#include "ngx_http_mcds_key.h"


/*
 * the longest media type of a response, in bytes, that is looked for among the
 * types to compress; a response with a longer one is not compressed
 */
#define NGX_HTTP_MCDS_TYPE        256


static char *ngx_http_mcds_compress_level(ngx_conf_t *cf,
    ngx_http_mcds_param_t *param, ngx_str_t *text, void *conf);
static char *ngx_http_mcds_compress_types(ngx_conf_t *cf,
    ngx_http_mcds_param_t *param, ngx_str_t *list, void *conf);
static ngx_uint_t ngx_http_mcds_compress_type(ngx_http_request_t *r,
    ngx_http_mcds_compress_t *compress);
static ngx_uint_t ngx_http_mcds_compress_forbids(ngx_list_t *list);


/*
 * the media types that are compressed by default: text, and other types that
 * compress well
 */

static ngx_str_t  ngx_http_mcds_compress_default = ngx_string(
    "text/*,"
    "*/xml,"
    "*+xml,"
    "*/json,"
    "*+json,"
    "*/javascript,"
    "application/x-javascript,"
    "application/wasm,"
    "application/vnd.ms-fontobject,"
    "font/ttf,"
    "font/otf,"
    "image/x-icon,"
    "image/bmp"
);


/*
 * the headers with a digest of a page's bytes: a page with such a header must
 * not be compressed (RFC 9530 and its predecessors)
 */

static ngx_str_t  ngx_http_mcds_digests[] = {
    ngx_string("Content-Digest"),
    ngx_string("Content-MD5"),
    ngx_string("Digest"),
    ngx_string("Repr-Digest"),
    ngx_null_string
};


static ngx_conf_enum_t  ngx_http_mcds_compress_codings[] = {
    { ngx_string("off"), NGX_MCDS_CODING_NONE },
    { ngx_string("gzip"), NGX_MCDS_CODING_GZIP },
    { ngx_string("zstd"), NGX_MCDS_CODING_ZSTD },
    { ngx_null_string, 0 }
};


static ngx_http_mcds_param_t  ngx_http_mcds_compress_params[] = {

    { ngx_string("off|gzip|zstd"),
      ngx_http_mcds_param_enum,
      ngx_http_mcds_field(ngx_http_mcds_compress_t, coding),
      0, 0, 0, ngx_http_mcds_compress_codings },

    { ngx_string("level="),
      ngx_http_mcds_compress_level,
      ngx_http_mcds_field(ngx_http_mcds_compress_t, level),
      0, 0, 0, NULL },

    { ngx_string("min_length="),
      ngx_http_mcds_param_size,
      ngx_http_mcds_field(ngx_http_mcds_compress_t, min_length),
      0, NGX_HTTP_MCDS_MAX_SIZE, 1024, NULL },

    { ngx_string("types="),
      ngx_http_mcds_compress_types,
      ngx_http_mcds_field(ngx_http_mcds_compress_t, types),
      0, 0, 0, NULL },

      ngx_http_mcds_params_end
};


char *
ngx_http_mcds_cache_compress(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    char                        *rv;
    ngx_http_mcds_compress_t    *compress;
    ngx_http_mcds_cache_conf_t  *ccf;

    ccf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_mcds_cache_module);

    rv = ngx_http_mcds_param_off(cf, &ccf->compress);

    if (rv != NGX_CONF_OK || ccf->compress == NULL) {
        return rv;
    }

    compress = ngx_pcalloc(cf->pool, sizeof(ngx_http_mcds_compress_t));
    if (compress == NULL) {
        return NGX_CONF_ERROR;
    }

    ccf->compress = compress;

    if (ngx_http_mcds_params(cf, cmd, 1, ngx_http_mcds_compress_params,
                             compress)
        != NGX_CONF_OK)
    {
        return NGX_CONF_ERROR;
    }

    if (compress->types) {
        return NGX_CONF_OK;
    }

    return ngx_http_mcds_compress_types(cf, NULL,
                                        &ngx_http_mcds_compress_default,
                                        compress);
}


/*
 * parses the level of mcds_cache_compress; the coding, its first argument, is
 * already known
 */

static char *
ngx_http_mcds_compress_level(ngx_conf_t *cf, ngx_http_mcds_param_t *param,
    ngx_str_t *text, void *conf)
{
    ngx_http_mcds_compress_t *compress = conf;

    ngx_http_mcds_param_t  level;

    level = *param;
    level.low = 1;
    level.high = ngx_mcds_coding_max_level(compress->coding);

    return ngx_http_mcds_param_num(cf, &level, text, conf);
}


static char *
ngx_http_mcds_compress_types(ngx_conf_t *cf, ngx_http_mcds_param_t *param,
    ngx_str_t *list, void *conf)
{
    ngx_http_mcds_compress_t *compress = conf;

    u_char     *p, *last, *comma;
    ngx_str_t  *type;

    compress->types = ngx_array_create(cf->pool, 16, sizeof(ngx_str_t));
    if (compress->types == NULL) {
        return NGX_CONF_ERROR;
    }

    p = list->data;
    last = p + list->len;

    for ( ;; ) {
        comma = ngx_strlchr(p, last, ',');

        if (comma == NULL) {
            comma = last;
        }

        if (comma == p || comma - p > NGX_HTTP_MCDS_TYPE) {
            return "a list as text/*,image/svg+xml, or \"*\"";
        }

        type = ngx_array_push(compress->types);
        if (type == NULL) {
            return NGX_CONF_ERROR;
        }

        type->len = comma - p;
        type->data = ngx_pnalloc(cf->pool, type->len);
        if (type->data == NULL) {
            return NGX_CONF_ERROR;
        }

        ngx_strlow(type->data, p, type->len);

        if (comma == last) {
            return NGX_CONF_OK;
        }

        p = comma + 1;
    }
}


ngx_http_mcds_compress_t *
ngx_http_mcds_compress(ngx_http_request_t *r, ngx_http_mcds_cache_conf_t *ccf)
{
    off_t                      length;
    ngx_http_mcds_compress_t  *compress;

    compress = ccf->compress;
    length = r->headers_out.content_length_n;

    if (length >= 0 && length < (off_t) compress->min_length) {
        return NULL;
    }

    if ((r->headers_out.content_encoding
         && r->headers_out.content_encoding->hash)
        || !ngx_http_mcds_compress_type(r, compress)
        || ngx_http_mcds_compress_fixed(r))
    {
        return NULL;
    }

    return compress;
}


static ngx_uint_t
ngx_http_mcds_compress_type(ngx_http_request_t *r,
    ngx_http_mcds_compress_t *compress)
{
    u_char      low[NGX_HTTP_MCDS_TYPE], *last;
    size_t      len;
    ngx_str_t  *type;
    ngx_uint_t  i;

    len = r->headers_out.content_type_len;

    if (len > NGX_HTTP_MCDS_TYPE) {
        return 0;
    }

    ngx_strlow(low, r->headers_out.content_type.data, len);

    last = ngx_strlchr(low, low + len, ';');

    if (last == NULL) {
        last = low + len;
    }

    while (last > low && last[-1] == ' ') {
        last--;
    }

    type = compress->types->elts;

    for (i = 0; i < compress->types->nelts; i++) {
        if (ngx_http_mcds_match(type[i].data, type[i].data + type[i].len, low,
                                last))
        {
            return 1;
        }
    }

    return 0;
}


ngx_uint_t
ngx_http_mcds_compress_fixed(ngx_http_request_t *r)
{
    /*
     * the upstream's list of headers includes those that the location hides
     * from the client
     */

    return ngx_http_mcds_compress_forbids(&r->headers_out.headers)
           || (r->upstream
               && ngx_http_mcds_compress_forbids(
                                          &r->upstream->headers_in.headers));
}


static ngx_uint_t
ngx_http_mcds_compress_forbids(ngx_list_t *list)
{
    ngx_uint_t                 i;
    ngx_list_part_t           *part;
    ngx_table_elt_t           *h;
    ngx_mcds_cache_control_t   cc, cdn;

    ngx_memzero(&cdn, sizeof(ngx_mcds_cache_control_t));

    for (part = &list->part; part; part = part->next) {

        h = part->elts;

        for (i = 0; i < part->nelts; i++) {

            if (h[i].hash == 0) {
                continue;
            }

            if (ngx_http_mcds_header_is(&h[i].key, "Cache-Control")) {
                ngx_memzero(&cc, sizeof(ngx_mcds_cache_control_t));
                ngx_mcds_cache_control_add(&cc, &h[i].value);

                if (cc.no_transform) {
                    return 1;
                }
            }

            if (ngx_http_mcds_header_is(&h[i].key, "CDN-Cache-Control")) {
                (void) ngx_mcds_targeted_add(&cdn, &h[i].value);
            }

            if (ngx_http_mcds_header_in(ngx_http_mcds_digests, &h[i].key)) {
                return 1;
            }
        }
    }

    return cdn.no_transform && !cdn.malformed;
}

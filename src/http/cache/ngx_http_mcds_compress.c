
/*
 * Copyright (C) mcds authors
 *
 * mcds_cache_compress: which pages are compressed when they are stored.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_conf.h"
#include "ngx_http_mcds_header.h"
#include "ngx_http_mcds_cache.h"
#include "ngx_http_mcds_coding.h"
#include "ngx_http_mcds_key.h"


#define NGX_HTTP_MCDS_MIN_LENGTH  1024

/* the longest name of a type that is looked at */
#define NGX_HTTP_MCDS_TYPE        256


static ngx_int_t ngx_http_mcds_compress_param(ngx_conf_t *cf,
    ngx_http_mcds_compress_t *compress, ngx_str_t *value);
static ngx_int_t ngx_http_mcds_compress_types(ngx_conf_t *cf,
    ngx_http_mcds_compress_t *compress, ngx_str_t list);
static ngx_uint_t ngx_http_mcds_compress_type(ngx_http_request_t *r,
    ngx_http_mcds_compress_t *compress);
static ngx_uint_t ngx_http_mcds_compress_fixed(ngx_list_t *list);


/* text that pages are made of; what else compresses well */

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


/* a body that is named by its bytes stays as it is, RFC 9530 and before */

static ngx_str_t  ngx_http_mcds_digests[] = {
    ngx_string("Content-Digest"),
    ngx_string("Content-MD5"),
    ngx_string("Digest"),
    ngx_string("Repr-Digest"),
    ngx_null_string
};


char *
ngx_http_mcds_cache_compress(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mcds_cache_conf_t *ccf = conf;

    ngx_str_t                 *value;
    ngx_uint_t                 i;
    ngx_http_mcds_compress_t  *compress;

    if (ccf->compress != NGX_CONF_UNSET_PTR) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (value[1].len == 3 && ngx_strncmp(value[1].data, "off", 3) == 0) {

        if (cf->args->nelts > 2) {
            return "\"off\" takes no further parameter";
        }

        ccf->compress = NULL;
        return NGX_CONF_OK;
    }

    compress = ngx_pcalloc(cf->pool, sizeof(ngx_http_mcds_compress_t));
    if (compress == NULL) {
        return NGX_CONF_ERROR;
    }

    compress->coding = ngx_mcds_coding_find(&value[1]);
    compress->min_length = NGX_HTTP_MCDS_MIN_LENGTH;

    if (compress->coding == NGX_MCDS_CODING_NONE) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid value \"%V\" in \"%V\", it must be "
                           "\"off\", \"gzip\" or \"zstd\"", &value[1],
                           &cmd->name);
        return NGX_CONF_ERROR;
    }

    for (i = 2; i < cf->args->nelts; i++) {

        if (ngx_http_mcds_check_twice(cf, cmd, i) != NGX_OK
            || ngx_http_mcds_compress_param(cf, compress, &value[i])
               != NGX_OK)
        {
            return NGX_CONF_ERROR;
        }
    }

    if (compress->types == NULL
        && ngx_http_mcds_compress_types(cf, compress,
                                        ngx_http_mcds_compress_default)
           != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    ccf->compress = compress;

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_http_mcds_compress_param(ngx_conf_t *cf,
    ngx_http_mcds_compress_t *compress, ngx_str_t *value)
{
    ngx_int_t  max;
    ngx_str_t  s;

    if (ngx_strncmp(value->data, "level=", 6) == 0) {

        s.data = value->data + 6;
        s.len = value->len - 6;

        max = ngx_mcds_coding_max_level(compress->coding);
        compress->level = ngx_atoi(s.data, s.len);

        if (compress->level < 1 || compress->level > max) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid \"%V\" in \"mcds_cache_compress\", "
                               "the level of %V is 1 to %i", value,
                               ngx_mcds_coding_name(compress->coding), max);
            return NGX_ERROR;
        }

        return NGX_OK;
    }

    if (ngx_strncmp(value->data, "min_length=", 11) == 0) {

        s.data = value->data + 11;
        s.len = value->len - 11;

        compress->min_length = (size_t) ngx_parse_size(&s);

        if (compress->min_length > NGX_HTTP_MCDS_MAX_SIZE) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid \"%V\" in \"mcds_cache_compress\", "
                               "it must be a size of 64m at most", value);
            return NGX_ERROR;
        }

        return NGX_OK;
    }

    if (ngx_strncmp(value->data, "types=", 6) == 0) {

        s.data = value->data + 6;
        s.len = value->len - 6;

        if (ngx_http_mcds_compress_types(cf, compress, s) != NGX_OK) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid \"%V\" in \"mcds_cache_compress\", "
                               "it must be a list as text/*,image/svg+xml, "
                               "or \"*\"", value);
            return NGX_ERROR;
        }

        return NGX_OK;
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "invalid parameter \"%V\" in \"mcds_cache_compress\", "
                       "there are level=, min_length= and types=", value);

    return NGX_ERROR;
}


static ngx_int_t
ngx_http_mcds_compress_types(ngx_conf_t *cf,
    ngx_http_mcds_compress_t *compress, ngx_str_t list)
{
    u_char     *p, *last, *comma;
    ngx_str_t  *type;

    if (compress->types == NULL) {
        compress->types = ngx_array_create(cf->pool, 16, sizeof(ngx_str_t));
        if (compress->types == NULL) {
            return NGX_ERROR;
        }
    }

    p = list.data;
    last = p + list.len;

    for ( ;; ) {
        comma = ngx_strlchr(p, last, ',');

        if (comma == NULL) {
            comma = last;
        }

        if (comma == p || comma - p > NGX_HTTP_MCDS_TYPE) {
            return NGX_ERROR;
        }

        type = ngx_array_push(compress->types);
        if (type == NULL) {
            return NGX_ERROR;
        }

        type->len = comma - p;
        type->data = ngx_pnalloc(cf->pool, type->len);
        if (type->data == NULL) {
            return NGX_ERROR;
        }

        ngx_strlow(type->data, p, type->len);

        if (comma == last) {
            return NGX_OK;
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

    if (compress == NULL) {
        return NULL;
    }

    length = r->headers_out.content_length_n;

    if (length >= 0 && length < (off_t) compress->min_length) {
        return NULL;
    }

    if ((r->headers_out.content_encoding
         && r->headers_out.content_encoding->hash)
        || !ngx_http_mcds_compress_type(r, compress)
        || ngx_http_mcds_compress_fixed(&r->headers_out.headers))
    {
        return NULL;
    }

    /* with what the location hides from the client */

    if (r->upstream
        && ngx_http_mcds_compress_fixed(&r->upstream->headers_in.headers))
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


/* 1 if a line says that the body must not be changed */

static ngx_uint_t
ngx_http_mcds_compress_fixed(ngx_list_t *list)
{
    ngx_uint_t                 i;
    ngx_list_part_t           *part;
    ngx_table_elt_t           *h;
    ngx_mcds_cache_control_t   cc;

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

            if (ngx_http_mcds_header_in(ngx_http_mcds_digests, &h[i].key)) {
                return 1;
            }
        }
    }

    return 0;
}

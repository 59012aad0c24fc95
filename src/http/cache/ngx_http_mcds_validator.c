
/*
 * Copyright (C) mcds authors
 *
 * The ETags and Last-Modified dates of stored pages and of responses.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_mcds_date.h"
#include "ngx_http_mcds_cache.h"
#include "ngx_http_mcds_validator.h"


static ngx_uint_t ngx_http_mcds_validator_same_etag(ngx_str_t *old,
    ngx_str_t *new);
static ngx_uint_t ngx_http_mcds_validator_same_date(ngx_str_t *old,
    ngx_str_t *new);


ngx_str_t  ngx_http_mcds_etag = ngx_string("ETag");
ngx_str_t  ngx_http_mcds_last_modified = ngx_string("Last-Modified");


ngx_int_t
ngx_http_mcds_stored_find(ngx_str_t headers, ngx_str_t *name,
    ngx_str_t *value)
{
    while (ngx_mcds_entry_find(&headers, name, value) == NGX_OK) {

        if (value->len) {
            return NGX_OK;
        }
    }

    return NGX_DECLINED;
}


/*
 * The Last-Modified dates of a page and of a 304 are not compared if both have
 * an ETag.  A strong ETag is for the bytes of one version, so a page without
 * ETag does not get a strong ETag from a 304: the origin has compared dates,
 * which do not tell the versions of one second apart.
 */

ngx_uint_t
ngx_http_mcds_validator_same(ngx_str_t page, ngx_str_t headers)
{
    ngx_str_t  old, new;

    if (ngx_http_mcds_stored_find(headers, &ngx_http_mcds_etag, &new)
        == NGX_OK)
    {
        if (ngx_http_mcds_stored_find(page, &ngx_http_mcds_etag, &old)
            == NGX_OK)
        {
            return ngx_http_mcds_validator_same_etag(&old, &new);
        }

        if (new.data[0] == '"') {
            return 0;
        }
    }

    return ngx_http_mcds_stored_find(page, &ngx_http_mcds_last_modified, &old)
               != NGX_OK
           || ngx_http_mcds_stored_find(headers, &ngx_http_mcds_last_modified,
                                        &new)
              != NGX_OK
           || ngx_http_mcds_validator_same_date(&old, &new);
}


/*
 * Compares the ETags of a stored page, "old", and of a 304, "new".  A weak
 * ETag matches the strong one of the stored page, since a server that
 * compresses makes ETags weak.  A strong ETag never matches a weak one.
 */

static ngx_uint_t
ngx_http_mcds_validator_same_etag(ngx_str_t *old, ngx_str_t *new)
{
    ngx_str_t  a, b;

    a = *old;
    b = *new;

    if (b.len > 2 && ngx_strncmp(b.data, "W/", 2) == 0) {
        b.data += 2;
        b.len -= 2;

        if (a.len > 2 && ngx_strncmp(a.data, "W/", 2) == 0) {
            a.data += 2;
            a.len -= 2;
        }
    }

    return ngx_mcds_same(&a, &b);
}


static ngx_uint_t
ngx_http_mcds_validator_same_date(ngx_str_t *old, ngx_str_t *new)
{
    int64_t  now, date;

    if (ngx_mcds_same(old, new)) {
        return 1;
    }

    now = ngx_time();
    date = ngx_mcds_date_parse(old, now);

    return date != NGX_ERROR && date == ngx_mcds_date_parse(new, now);
}


ngx_uint_t
ngx_http_mcds_validator_each(ngx_http_mcds_cache_conf_t *ccf,
    ngx_uint_t status, ngx_str_t *etag)
{
    return ccf->cache_revalidate
           && status == NGX_HTTP_OK
           && etag
           && etag->len > 1
           && etag->data[0] == '"';
}


ngx_uint_t
ngx_http_mcds_validator_ignored(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_str_t  old;

    return ctx->snapshot
           && ctx->snapshot->entry.kind == NGX_MCDS_ENTRY_PAGE
           && (ctx->snapshot->entry.flags & NGX_MCDS_ENTRY_VALIDATE)
           && r->headers_out.etag
           && ngx_http_mcds_stored_find(ctx->snapshot->entry.headers,
                                        &ngx_http_mcds_etag, &old)
              == NGX_OK
           && ngx_mcds_same(&r->headers_out.etag->value, &old);
}


/*
 * Copyright (C) mcds authors
 *
 * Revalidation, RFC 9111, 4.3: a conditional request asks the origin whether
 * the stored page has changed; the headers of a 304 update the stored page.
 * stale-if-error, RFC 5861, 4: if the origin fails, the stored page is served
 * in place of the error.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_header.h"
#include "ngx_http_mcds_cache.h"
#include "ngx_http_mcds_cache_stat.h"
#include "ngx_http_mcds_head.h"
#include "ngx_http_mcds_lookup.h"
#include "ngx_http_mcds_revalidate.h"
#include "ngx_http_mcds_serve.h"
#include "ngx_http_mcds_sign.h"
#include "ngx_http_mcds_store.h"
#include "ngx_http_mcds_store_core.h"
#include "ngx_http_mcds_tags.h"
#include "ngx_http_mcds_validator.h"
#include "ngx_http_mcds_refresh.h"
#include "ngx_http_mcds_vary.h"


static ngx_uint_t ngx_http_mcds_is_page(ngx_http_mcds_cache_ctx_t *ctx);
static ngx_int_t ngx_http_mcds_ask_header(ngx_http_request_t *r, char *name,
    ngx_str_t *value);
static ngx_int_t ngx_http_mcds_not_modified(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);
static ngx_int_t ngx_http_mcds_update(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_mcds_entry_t *entry,
    ngx_str_t *headers, ngx_uint_t *reason);
static ngx_mcds_value_t *ngx_http_mcds_updated(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_mcds_entry_t *entry);
static ngx_int_t ngx_http_mcds_merge_headers(ngx_http_request_t *r,
    ngx_str_t *old, ngx_str_t *new, ngx_str_t *merged);
static ngx_uint_t ngx_http_mcds_renew(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_mcds_entry_t *entry, ngx_str_t *old);
static ngx_uint_t ngx_http_mcds_says_nothing(ngx_mcds_response_t *response);
static ngx_int_t ngx_http_mcds_renewed(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_mcds_entry_t *entry,
    ngx_uint_t reason);
static ngx_uint_t ngx_http_mcds_same_response(ngx_mcds_entry_t *old,
    ngx_mcds_entry_t *new);
static ngx_int_t ngx_http_mcds_next_header(ngx_str_t *headers,
    ngx_str_t *name, ngx_str_t *value);
static ngx_int_t ngx_http_mcds_ask_again(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);
static ngx_int_t ngx_http_mcds_bad_gateway(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx);
static ngx_uint_t ngx_http_mcds_stale_error(ngx_http_mcds_cache_ctx_t *ctx,
    ngx_uint_t mask, ngx_uint_t status);
static ngx_uint_t ngx_http_mcds_failure(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_uint_t *status);


static ngx_str_t  ngx_http_mcds_location = ngx_string("Location");


/* headers of the stored body, which a 304 does not update, RFC 9111, 3.2 */

static ngx_str_t  ngx_http_mcds_of_body[] = {
    ngx_string("Content-Digest"),
    ngx_string("Content-Encoding"),
    ngx_string("Content-MD5"),
    ngx_null_string
};


/* headers of a stored page that determine its lifetime */

static ngx_str_t  ngx_http_mcds_of_lifetime[] = {
    ngx_string("Cache-Control"),
    ngx_string("CDN-Cache-Control"),
    ngx_string("Expires"),
    ngx_string("Last-Modified"),
    ngx_string("Pragma"),
    ngx_null_string
};


static struct {
    ngx_uint_t  status;
    ngx_uint_t  mask;
} ngx_http_mcds_failures[] = {
    { 500, NGX_HTTP_UPSTREAM_FT_HTTP_500 },
    { 502, NGX_HTTP_UPSTREAM_FT_HTTP_502 },
    { 503, NGX_HTTP_UPSTREAM_FT_HTTP_503 },
    { 504, NGX_HTTP_UPSTREAM_FT_HTTP_504 },
    { 403, NGX_HTTP_UPSTREAM_FT_HTTP_403 },
    { 404, NGX_HTTP_UPSTREAM_FT_HTTP_404 },
    { 429, NGX_HTTP_UPSTREAM_FT_HTTP_429 },
    { 0, 0 }
};


ngx_int_t
ngx_http_mcds_revalidate_ask(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_str_t          value;
    ngx_mcds_entry_t  *entry;

    if (!ctx->conf->cache_revalidate
        || ctx->authorization
        || !ngx_http_mcds_is_page(ctx)
        || ctx->snapshot->entry.status != NGX_HTTP_OK)
    {
        return NGX_OK;
    }

    entry = &ctx->snapshot->entry;

    if (ngx_http_mcds_stored_find(entry->headers, &ngx_http_mcds_etag, &value)
        == NGX_OK)
    {
        if (ngx_http_mcds_ask_header(r, "If-None-Match", &value) != NGX_OK) {
            return NGX_ERROR;
        }

        ctx->validating = 1;
    }

    if (!(entry->flags & NGX_MCDS_ENTRY_VALIDATE)
        && ngx_http_mcds_stored_find(entry->headers,
                                     &ngx_http_mcds_last_modified, &value)
           == NGX_OK)
    {
        if (ngx_http_mcds_ask_header(r, "If-Modified-Since", &value)
            != NGX_OK)
        {
            return NGX_ERROR;
        }

        ctx->validating = 1;
    }

    return NGX_OK;
}


ngx_int_t
ngx_http_mcds_revalidate_strip(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx)
{
    if (!ctx->validating) {
        return NGX_OK;
    }

    ctx->validating = 0;

    return ngx_http_mcds_refresh_strip(r);
}


static ngx_uint_t
ngx_http_mcds_is_page(ngx_http_mcds_cache_ctx_t *ctx)
{
    /*
     * with mcds_cache_bypass, the request does not revalidate the page that
     * was found
     */

    return ctx->snapshot
           && !ctx->overwrite
           && ctx->snapshot->entry.kind == NGX_MCDS_ENTRY_PAGE;
}


/*
 * adds a condition, such as If-None-Match, to the list of the request's headers
 * only: if a pointer such as r->headers_in.if_none_match was set, too, nginx's
 * own filters would apply the condition to the response to the client
 */

static ngx_int_t
ngx_http_mcds_ask_header(ngx_http_request_t *r, char *name, ngx_str_t *value)
{
    ngx_table_elt_t  *h;

    h = ngx_list_push(&r->headers_in.headers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    ngx_memzero(h, sizeof(ngx_table_elt_t));

    h->key.data = (u_char *) name;
    h->key.len = ngx_strlen(name);

    h->lowcase_key = ngx_pnalloc(r->pool, h->key.len);
    if (h->lowcase_key == NULL) {
        return NGX_ERROR;
    }

    h->hash = ngx_hash_strlow(h->lowcase_key, h->key.data, h->key.len);

    h->value.len = value->len;
    h->value.data = ngx_pnalloc(r->pool, value->len + 1);
    if (h->value.data == NULL) {
        return NGX_ERROR;
    }

    *ngx_cpymem(h->value.data, value->data, value->len) = '\0';

    return NGX_OK;
}


ngx_int_t
ngx_http_mcds_revalidate(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_uint_t  mask, status;

    if (!ngx_http_mcds_is_page(ctx)) {
        return NGX_DECLINED;
    }

    if (ctx->validating && r->headers_out.status == NGX_HTTP_NOT_MODIFIED) {

        if (!r->err_status && !ngx_http_mcds_replaced(r, ctx)) {
            return ngx_http_mcds_not_modified(r, ctx);
        }

        return ngx_http_mcds_bad_gateway(r, ctx);
    }

    /*
     * a streamed page, one that is sent in parts, cannot be served in place of
     * the origin's response, see ngx_http_mcds_cache_behind()
     */

    if (ngx_http_mcds_streamed(&ctx->snapshot->entry) && !ctx->task->refresh) {
        return NGX_DECLINED;
    }

    mask = ngx_http_mcds_failure(r, ctx, &status);

    if (mask == 0 || !ngx_http_mcds_stale_error(ctx, mask, status)) {
        return NGX_DECLINED;
    }

    ngx_http_mcds_store_fail(r, ctx);

    if (ctx->dry) {
        return NGX_DONE;
    }

    ctx->status = NGX_HTTP_MCDS_STALE;
    ctx->reason = NGX_MCDS_REASON_ERROR;

    return NGX_OK;
}


/* updates the stored page by the headers of a 304, RFC 9111, 4.3.4 */

static ngx_int_t
ngx_http_mcds_not_modified(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_int_t          rc;
    ngx_str_t          headers;
    ngx_uint_t         reason;
    ngx_mcds_entry_t   entry;

    entry = ctx->snapshot->entry;

    rc = ngx_http_mcds_stored_headers(r, &headers);

    if (rc == NGX_ERROR) {
        ngx_http_mcds_store_fail(r, ctx);
        return NGX_ERROR;
    }

    if (rc != NGX_OK || !ngx_http_mcds_validator_same(entry.headers, headers)) {
        ngx_log_error(NGX_LOG_WARN, r->connection->log, 0,
                      "origin sent 304 for another version than the "
                      "stored page");

        return ngx_http_mcds_ask_again(r, ctx);
    }

    if (ngx_http_mcds_update(r, ctx, &entry, &headers, &reason) != NGX_OK) {
        ngx_http_mcds_store_fail(r, ctx);
        return NGX_ERROR;
    }

    /* a purge has ended the page's lifetime: get a complete response instead */

    if (reason == NGX_MCDS_REFUSE_NO_LIFETIME
        && (entry.flags & NGX_MCDS_ENTRY_INVALID)
        && ngx_http_mcds_task_again(r, ctx->task) == NGX_OK)
    {
        return NGX_AGAIN;
    }

    if (!ngx_http_mcds_store_updates(r, &entry)) {
        return ngx_http_mcds_ask_again(r, ctx);
    }

    return ngx_http_mcds_renewed(r, ctx, &entry, reason);
}


void
ngx_http_mcds_revalidate_head(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx)
{
    uint64_t             expire;
    ngx_str_t            headers;
    ngx_uint_t           reason;
    ngx_mcds_entry_t     entry;
    ngx_mcds_value_t    *value;
    ngx_mcds_storing_t   storing;

    if (!ngx_http_mcds_head_same(r, ctx)
        || ngx_http_mcds_stored_headers(r, &headers) != NGX_OK)
    {
        return;
    }

    entry = ctx->snapshot->entry;

    if (ngx_http_mcds_update(r, ctx, &entry, &headers, &reason) != NGX_OK) {
        return;
    }

    if (reason != NGX_MCDS_STORE || !ngx_http_mcds_store_updates(r, &entry)) {

        /*
         * the response to HEAD confirms the stored page, but the page cannot
         * be stored with that response's headers: the page expires now, and
         * the response to the next GET sets its lifetime
         */

        expire = ngx_mcds_now();

        entry = ctx->snapshot->entry;

        if (entry.expire <= expire) {
            return;
        }

        entry.expire = expire;
    }

    value = ngx_http_mcds_updated(r, ctx, &entry);

    if (value == NULL) {
        return;
    }

    if (ngx_http_mcds_lookup_join(ctx, ctx->conf) != NGX_OK) {
        ngx_mcds_value_unref(value);
        return;
    }

    ngx_memzero(&storing, sizeof(ngx_mcds_storing_t));

    storing.value = value;
    storing.cas = ctx->cas;

    (void) ngx_mcds_page_store(&ctx->waiter, &storing);

    ngx_mcds_page_leave(&ctx->waiter);
}


/*
 * updates the entry of a page by the headers of a 304, or of a response to
 * HEAD, RFC 9111, 3.2
 */

static ngx_int_t
ngx_http_mcds_update(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx,
    ngx_mcds_entry_t *entry, ngx_str_t *headers, ngx_uint_t *reason)
{
    ngx_str_t   old, new;
    ngx_uint_t  absolute;

    old = entry->headers;

    if (ngx_http_mcds_merge_headers(r, &old, headers, &entry->headers)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    /*
     * the page's flag ABSOLUTE, by which nginx makes Location an absolute URL,
     * comes from the response that has Location, the page's other flags from
     * the response that sets the page's lifetime
     */

    absolute = (ngx_http_mcds_stored_find(*headers, &ngx_http_mcds_location,
                                          &new)
                == NGX_OK)
               ? ngx_http_mcds_stored_absolute(r)
               : (entry->flags & NGX_MCDS_ENTRY_ABSOLUTE);

    *reason = ngx_http_mcds_renew(r, ctx, entry, &old);

    if (absolute) {
        entry->flags |= NGX_MCDS_ENTRY_ABSOLUTE;
    }

    return NGX_OK;
}


/*
 * merges all headers of a 304, and those headers of the page that the 304 does
 * not have
 */

static ngx_int_t
ngx_http_mcds_merge_headers(ngx_http_request_t *r, ngx_str_t *old,
    ngx_str_t *new, ngx_str_t *merged)
{
    u_char     *p;
    ngx_str_t   rest, name, value, other;

    p = ngx_pnalloc(r->pool, old->len + new->len + 1);
    if (p == NULL) {
        return NGX_ERROR;
    }

    merged->data = p;
    rest = *old;

    while (ngx_mcds_entry_header(&rest, &name, &value) == NGX_OK) {

        if (!ngx_http_mcds_header_in(ngx_http_mcds_of_body, &name)
            && ngx_http_mcds_stored_find(*new, &name, &other) == NGX_OK)
        {
            continue;
        }

        /*
         * the Date of the page is not kept: a 304 without Date has the time at
         * which it was received
         */

        if (ngx_http_mcds_header_is(&name, "Date")) {
            continue;
        }

        p = ngx_sprintf(p, "%V: %V" CRLF, &name, &value);
    }

    rest = *new;

    while (ngx_mcds_entry_header(&rest, &name, &value) == NGX_OK) {
        if (!ngx_http_mcds_header_in(ngx_http_mcds_of_body, &name)) {
            p = ngx_sprintf(p, "%V: %V" CRLF, &name, &value);
        }
    }

    merged->len = p - merged->data;

    return NGX_OK;
}


/*
 * Computes the new lifetime of a page after a 304: by the headers of the 304,
 * then by the headers of the page that the 304 does not have, then by the
 * configuration, and else by the page's first lifetime, if no purge ended it.
 */

static ngx_uint_t
ngx_http_mcds_renew(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx,
    ngx_mcds_entry_t *entry, ngx_str_t *old)
{
    uint64_t                     now, life;
    ngx_str_t                    rest, name, value, other;
    ngx_uint_t                   reason;
    ngx_mcds_response_t          response;
    ngx_http_mcds_cache_conf_t  *ccf;

    ccf = ngx_http_get_module_loc_conf(r, ngx_http_mcds_cache_module);

    ngx_http_mcds_response(r, ccf, &response, entry->status, ccf->cache_ignore);

    /*
     * The 304 is judged without these headers: Vary could name other headers
     * than the page has; Content-Encoding belongs to the stored body; a cookie
     * is for the client that gets the 304, and is not stored.
     */

    response.encoded = 0;
    response.set_cookie = 0;

    if (ngx_http_mcds_varying) {
        ngx_http_mcds_varying->response(r, &response, &ctx->vary.names);

        if (!ngx_http_mcds_varying->covered(ctx)) {
            response.vary = 1;
        }
    }

    response.validated = !ngx_mcds_body_apart(entry)
                         && ngx_http_mcds_stored_find(entry->headers,
                                                      &ngx_http_mcds_etag,
                                                    &value)
                            == NGX_OK
                       && ngx_http_mcds_validator_each(ccf, entry->status,
                                                        &value);

    rest = entry->headers;

    while (ngx_mcds_entry_header(&rest, &name, &value) == NGX_OK) {

        if (ngx_http_mcds_header_in(ngx_http_mcds_of_lifetime, &name)
            && ngx_http_mcds_stored_find(*old, &name, &other) == NGX_OK)
        {
            ngx_http_mcds_response_line(&response, &name, &value,
                                        ccf->cache_ignore);
        }
    }

    /*
     * if neither the 304 nor the page's stored headers set a lifetime, no-cache
     * stays: it may have come in a header that the location hides
     */

    if ((entry->flags & NGX_MCDS_ENTRY_VALIDATE)
        && ngx_http_mcds_says_nothing(&response))
    {
        response.cc.no_cache = 1;
    }

    now = ngx_mcds_now();
    life = (entry->expire > entry->created
            && !(entry->flags & NGX_MCDS_ENTRY_INVALID))
           ? entry->expire - entry->created : 0;

    reason = ngx_mcds_fresh_decide(&response, now, entry);

    entry->took = response.took;

    if (reason == NGX_MCDS_REFUSE_NO_LIFETIME && life) {
        ngx_mcds_fresh_stale(&response, entry);

        entry->created = now;
        entry->expire = now + life;
        entry->age = response.age;

        reason = NGX_MCDS_STORE;

    } else if (reason != NGX_MCDS_STORE) {
        entry->created = now;
        entry->age = response.age;
    }

    return reason;
}


/*
 * returns 1 if no header of a 304, or of the page that it confirms, tells how
 * long the page may be used
 */

static ngx_uint_t
ngx_http_mcds_says_nothing(ngx_mcds_response_t *response)
{
    ngx_mcds_cache_control_t  none;

    ngx_memzero(&none, sizeof(ngx_mcds_cache_control_t));

    return !response->has_cdn
           && !response->has_control
           && !response->has_expires
           && !response->has_accel
           && !response->pragma_no_cache
           && ngx_memcmp(&response->cc, &none, sizeof(none)) == 0;
}


static ngx_int_t
ngx_http_mcds_renewed(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx,
    ngx_mcds_entry_t *entry, ngx_uint_t reason)
{
    ngx_uint_t                   same;
    ngx_mcds_snapshot_t         *snapshot;
    ngx_mcds_value_t            *value;
    ngx_mcds_storing_t           storing;
    ngx_http_mcds_cache_conf_t  *ccf;

    value = ngx_http_mcds_updated(r, ctx, entry);

    if (value == NULL) {
        ngx_http_mcds_store_fail(r, ctx);
        return NGX_ERROR;
    }

    snapshot = ngx_mcds_page_snapshot(&ctx->waiter, value);

    if (snapshot == NULL) {
        ngx_mcds_value_unref(value);
        ngx_http_mcds_store_fail(r, ctx);
        return NGX_ERROR;
    }

    same = ngx_http_mcds_same_response(&ctx->snapshot->entry, entry);

    ngx_mcds_snapshot_unref(ctx->snapshot);
    ctx->snapshot = snapshot;
    ctx->status = NGX_HTTP_MCDS_REVALIDATED;
    ctx->reason = NGX_MCDS_REASON_UNCHANGED;

    if (reason != NGX_MCDS_STORE) {
        ngx_mcds_value_unref(value);
        ngx_http_mcds_store_refuse(r, ctx, reason, entry->status);
        return NGX_OK;
    }

    ccf = ngx_http_get_module_loc_conf(r, ngx_http_mcds_cache_module);

    if (ngx_http_mcds_store_apply_rule(r, ctx, ccf)) {
        ngx_mcds_value_unref(value);
        return NGX_OK;
    }

    if (same && !ctx->waiter.building) {

        /*
         * the revalidated page is not stored again: only its times have
         * changed, and the next request revalidates it again anyway
         */

        ngx_mcds_value_unref(value);

        return NGX_OK;
    }

    ngx_memzero(&storing, sizeof(ngx_mcds_storing_t));

    storing.value = value;
    storing.cas = ctx->cas;
    storing.renewed = 1;
    storing.replace = ctx->overwrite;

    ctx->renewed = (ngx_mcds_page_store(&ctx->waiter, &storing) == NGX_OK);

    return NGX_OK;
}


/*
 * returns 1 if two versions of a page are revalidated for each request, and
 * differ in times only
 */

static ngx_uint_t
ngx_http_mcds_same_response(ngx_mcds_entry_t *old, ngx_mcds_entry_t *new)
{
    ngx_int_t  more;
    ngx_str_t  a, b, name, value, other_name, other;

    if (!(new->flags & NGX_MCDS_ENTRY_VALIDATE)
        || old->flags != new->flags
        || !ngx_mcds_same(&old->ext, &new->ext))
    {
        return 0;
    }

    a = old->headers;
    b = new->headers;

    do {
        more = ngx_http_mcds_next_header(&a, &name, &value);

        if (ngx_http_mcds_next_header(&b, &other_name, &other) != more) {
            return 0;
        }

        if (more != NGX_OK) {
            return 1;
        }

    } while (ngx_mcds_same(&name, &other_name)
             && ngx_mcds_same(&value, &other));

    return 0;
}


/* takes the next header of a stored page, but skips Date */

static ngx_int_t
ngx_http_mcds_next_header(ngx_str_t *headers, ngx_str_t *name,
    ngx_str_t *value)
{
    ngx_int_t  rc;

    do {
        rc = ngx_mcds_entry_header(headers, name, value);
    } while (rc == NGX_OK && ngx_http_mcds_header_is(name, "Date"));

    return rc;
}


static ngx_mcds_value_t *
ngx_http_mcds_updated(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx,
    ngx_mcds_entry_t *entry)
{
    ngx_mcds_value_t  *value;

    ngx_http_mcds_vary_note_purges(ctx, entry);

    entry->build = ngx_mcds_page_build_id(&ctx->waiter);

    entry->flags &= ~NGX_MCDS_ENTRY_INVALID;

    if (ngx_http_mcds_tagging
        && ngx_http_mcds_tagging->renew(r, ctx, entry) != NGX_OK)
    {
        return NULL;
    }

    value = ngx_mcds_entry_begin(entry, entry->body.len + NGX_MCDS_VALUE_SPARE,
                                 r->connection->log);
    if (value == NULL) {
        return NULL;
    }

    if (entry->body.len) {
        ngx_memcpy(value->data + value->len, entry->body.data,
                   entry->body.len);
        value->len += entry->body.len;
    }

    ngx_mcds_entry_finish(value, entry);
    ngx_http_mcds_sign(ctx->conf, value, entry);

    return value;
}


/*
 * repeats the request to the origin without If-None-Match and
 * If-Modified-Since, to get the complete page
 */

static ngx_int_t
ngx_http_mcds_ask_again(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx)
{
    return (ngx_http_mcds_task_again(r, ctx->task) == NGX_OK)
           ? NGX_AGAIN : ngx_http_mcds_bad_gateway(r, ctx);
}


/*
 * handles a 304 that does not match the stored page, or cannot update it: the
 * build of the page has failed, and the client gets the stale page or 502
 */

static ngx_int_t
ngx_http_mcds_bad_gateway(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_http_mcds_store_fail(r, ctx);

    if (ngx_http_mcds_stale_error(ctx, NGX_HTTP_UPSTREAM_FT_INVALID_HEADER,
                                  NGX_HTTP_BAD_GATEWAY))
    {
        ctx->status = NGX_HTTP_MCDS_STALE;
        ctx->reason = NGX_MCDS_REASON_ERROR;
        return NGX_OK;
    }

    return NGX_HTTP_BAD_GATEWAY;
}


/*
 * returns 1 if the stale page is served in place of the origin's error
 * response
 */

static ngx_uint_t
ngx_http_mcds_stale_error(ngx_http_mcds_cache_ctx_t *ctx, ngx_uint_t mask,
    ngx_uint_t status)
{
    ngx_uint_t        configured;
    ngx_mcds_stale_t  stale;
    ngx_mcds_entry_t  entry;

    entry = ctx->snapshot->entry;
    entry.expire = ngx_http_mcds_vary_expire(ctx);

    configured = ((ctx->conf->cache_use_stale & mask) != 0);

    if (ctx->unaccepted) {
        return 0;
    }

    /*
     * stale-if-error of a page is only for error statuses from 500 on, RFC
     * 5861, 4
     */

    if (!configured
        && (entry.sie == NGX_MCDS_ENTRY_UNSET
            || status < NGX_HTTP_INTERNAL_SERVER_ERROR))
    {
        return 0;
    }

    ngx_http_mcds_cache_bounds(ctx->conf, &stale);

    return ngx_mcds_fresh_error(&entry, &stale, configured,
                                ngx_mcds_now());
}


/*
 * returns the bits of mcds_cache_use_stale for the failure of the origin that
 * the response shows, or 0 if the response is no such failure
 */

static ngx_uint_t
ngx_http_mcds_failure(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx,
    ngx_uint_t *status)
{
    ngx_uint_t            i, tried;
    ngx_http_upstream_t  *u;

    u = r->upstream;
    tried = (r->upstream_states && r->upstream_states->nelts);

    *status = r->headers_out.status;

    if (ngx_http_mcds_replaced(r, ctx)) {

        /*
         * the response is an error page: the status that the upstream had sent
         * counts instead
         */

        *status = ngx_http_mcds_replaced_status(r, ctx);
        u = NULL;
    }

    if (*status == NGX_HTTP_BAD_GATEWAY
        || *status == NGX_HTTP_GATEWAY_TIME_OUT)
    {
        if (u ? (u->headers_in.status_n != *status)
              : (ctx->failed_status == 0 && tried))
        {
            if (*status == NGX_HTTP_GATEWAY_TIME_OUT) {
                return NGX_HTTP_UPSTREAM_FT_TIMEOUT;
            }

            /*
             * nginx responds with 502 to an invalid header of an upstream as
             * well as to a failed connection
             */

            return NGX_HTTP_UPSTREAM_FT_ERROR
                   |NGX_HTTP_UPSTREAM_FT_INVALID_HEADER;
        }
    }

    for (i = 0; ngx_http_mcds_failures[i].status; i++) {
        if (ngx_http_mcds_failures[i].status == *status) {
            return ngx_http_mcds_failures[i].mask;
        }
    }

    return 0;
}


ngx_int_t
ngx_http_mcds_instead_header(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_uint_t        i, n;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h, *cookies;

    /*
     * the cookies of a 304 are for this client only, and are kept in the
     * response to it
     */

    cookies = NULL;
    n = 0;

    if (ctx->status == NGX_HTTP_MCDS_REVALIDATED) {

        for (part = &r->headers_out.headers.part; part; part = part->next) {
            n += part->nelts;
        }

        cookies = ngx_palloc(r->pool, (n + 1) * sizeof(ngx_table_elt_t));
        if (cookies == NULL) {
            return NGX_ERROR;
        }

        n = 0;

        for (part = &r->headers_out.headers.part; part; part = part->next) {

            h = part->elts;

            for (i = 0; i < part->nelts; i++) {
                if (h[i].hash
                    && ngx_http_mcds_header_is(&h[i].key, "Set-Cookie"))
                {
                    cookies[n++] = h[i];
                }
            }
        }
    }

    ngx_http_clean_header(r);

    for (i = 0; i < n; i++) {
        if (ngx_http_mcds_header_add(r, &cookies[i].key, &cookies[i].value)
            == NULL)
        {
            return NGX_ERROR;
        }
    }

    r->err_status = 0;
    r->disable_not_modified = 0;
    r->expect_trailers = 0;

    ctx->instead = 1;

    ngx_http_mcds_set_state(ctx, NGX_HTTP_MCDS_STATE_INSTEAD);

    return ngx_http_mcds_serve_page(r, ctx);
}


ngx_int_t
ngx_http_mcds_instead_body(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_chain_t *in, ngx_chain_t **out)
{
    ngx_chain_t  *cl;

    *out = NULL;

    for (cl = in; cl; cl = cl->next) {
        cl->buf->pos = cl->buf->last;
        cl->buf->file_pos = cl->buf->file_last;
    }

    if (in == NULL || ctx->instead_sent) {
        return NGX_OK;
    }

    cl = ngx_alloc_chain_link(r->pool);
    if (cl == NULL) {
        return NGX_ERROR;
    }

    cl->next = NULL;
    cl->buf = ngx_http_mcds_serve_body(r, ctx);

    if (cl->buf == NULL) {
        return NGX_ERROR;
    }

    *out = cl;
    ctx->instead_sent = 1;

    ngx_http_mcds_stat_served(r, ctx);

    return NGX_OK;
}

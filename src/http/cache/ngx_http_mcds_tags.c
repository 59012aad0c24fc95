
/*
 * Copyright (C) mcds authors
 *
 * mcds_cache_tag: the tags of pages, and the purges by tag.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_param.h"
#include "ngx_http_mcds_variables.h"
#include "ngx_http_mcds_cache.h"
#include "ngx_http_mcds_tags.h"


static ngx_int_t ngx_http_mcds_tags_start(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf);
static void ngx_http_mcds_tags_handler(void *data);
static ngx_int_t ngx_http_mcds_tags_judge(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf,
    ngx_uint_t *verdict);
static ngx_int_t ngx_http_mcds_tags_store(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_http_mcds_cache_conf_t *ccf,
    ngx_str_t *ext);
static ngx_int_t ngx_http_mcds_tags_renew(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx, ngx_mcds_entry_t *entry);
static ngx_int_t ngx_http_mcds_tags_list(ngx_http_request_t *r,
    ngx_str_t *list);


ngx_http_mcds_tagging_t  ngx_http_mcds_tags_functions = {
    ngx_http_mcds_tags_start,
    ngx_http_mcds_tags_judge,
    ngx_http_mcds_tags_store,
    ngx_http_mcds_tags_renew,
    ngx_mcds_tags_hurry,
    ngx_mcds_tags_free,
    ngx_mcds_tag_check,
    ngx_mcds_tag_purge
};


char *
ngx_http_mcds_cache_tag(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mcds_cache_conf_t *ccf = conf;

    ngx_str_t                         *value;
    ngx_uint_t                         i, on, off;
    ngx_http_complex_value_t          *cv;
    ngx_http_compile_complex_value_t   ccv;

    value = cf->args->elts;

    for (i = 1, on = 0, off = 0; i < cf->args->nelts; i++) {
        on |= ngx_http_mcds_is(&value[i], "on");
        off |= ngx_http_mcds_is(&value[i], "off");
    }

    if (ccf->tags == NULL && off && cf->args->nelts == 2) {
        return "is duplicate";
    }

    if (ccf->tags == NULL
        || (off && (ccf->tags != NGX_CONF_UNSET_PTR || cf->args->nelts > 2)))
    {
        return "is \"off\" beside tags";
    }

    if (off) {
        ccf->tags = NULL;
        return NGX_CONF_OK;
    }

    if (on && cf->args->nelts > 2) {
        return "is \"on\" beside tags";
    }

    if (ccf->tags == NGX_CONF_UNSET_PTR) {
        ccf->tags = ngx_array_create(cf->pool, 2,
                                      sizeof(ngx_http_complex_value_t));
        if (ccf->tags == NULL) {
            return NGX_CONF_ERROR;
        }
    }

    /*
     * with "mcds_cache_tag on", pages have only the tag of their host and the
     * tag "all"
     */

    for (i = 1; i < cf->args->nelts && !on; i++) {

        cv = ngx_array_push(ccf->tags);
        if (cv == NULL) {
            return NGX_CONF_ERROR;
        }

        ngx_memzero(&ccv, sizeof(ngx_http_compile_complex_value_t));

        ccv.cf = cf;
        ccv.value = &value[i];
        ccv.complex_value = cv;

        if (ngx_http_compile_complex_value(&ccv) != NGX_OK) {
            return NGX_CONF_ERROR;
        }
    }

    return NGX_CONF_OK;
}


/*
 * sets *list to the two tags that every page has: "all", and a tag with the
 * name of the request's host; NGX_DECLINED: this name is not valid as a tag
 */

static ngx_int_t
ngx_http_mcds_tags_list(ngx_http_request_t *r, ngx_str_t *list)
{
    list->data = ngx_pnalloc(r->pool, NGX_MCDS_TAGS_LEN);
    if (list->data == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(list->data, "all", 3);
    list->len = 3;

    return ngx_mcds_tags_add(list, "host:", &r->headers_in.server);
}


static ngx_int_t
ngx_http_mcds_tags_start(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf)
{
    ngx_str_t  list;

    ngx_mcds_tags_remembered(ccf->cache_pool, &ctx->key, &list);

    if (list.len == 0
        && ngx_http_mcds_tags_list(r, &list) == NGX_ERROR)
    {
        return NGX_ERROR;
    }

    ctx->tags = ngx_mcds_tags_create(ccf->cache_pool, &ctx->key, &list,
                                     ngx_mcds_now(),
                                     ngx_http_mcds_tags_handler, ctx);
    if (ctx->tags == NULL) {
        return NGX_ERROR;
    }

    ctx->task->waiting++;

    return NGX_OK;
}


static void
ngx_http_mcds_tags_handler(void *data)
{
    ngx_http_mcds_cache_ctx_t *ctx = data;

    /*
     * the request may read the purge counter several times: the first value is
     * used, as it is from before the request to the origin
     */

    if (ctx->purges == 0) {
        ctx->purges = ngx_mcds_tags_counter(ctx->tags);
    }

    ngx_http_mcds_task_result(ctx->task);
}


static ngx_int_t
ngx_http_mcds_tags_judge(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf, ngx_uint_t *verdict)
{
    uint64_t   counter;
    ngx_int_t  rc;
    ngx_str_t  list;

    rc = ngx_mcds_tags_get(&ctx->snapshot->entry, &counter, &list);

    if (rc != NGX_OK) {
        *verdict = (rc == NGX_DECLINED) ? NGX_MCDS_TAGS_VALID
                                        : NGX_MCDS_TAGS_GONE;
        return NGX_OK;
    }

    ngx_mcds_tags_remember(ccf->cache_pool, &ctx->key, &list);

    if (ctx->tags == NULL) {
        ctx->tags = ngx_mcds_tags_create(ccf->cache_pool, &ctx->key, &list,
                                         ngx_mcds_now(),
                                         ngx_http_mcds_tags_handler, ctx);
        if (ctx->tags == NULL) {
            return NGX_ERROR;
        }

        ctx->task->waiting++;
        return NGX_AGAIN;
    }

    *verdict = ngx_mcds_tags_verdict(ctx->tags, counter, &list);

    if (*verdict != NGX_MCDS_TAGS_ASK) {
        return NGX_OK;
    }

    if (ngx_mcds_tags_ask(ctx->tags, &list) != NGX_OK) {
        return NGX_ERROR;
    }

    ctx->task->waiting++;

    return NGX_AGAIN;
}


static ngx_int_t
ngx_http_mcds_tags_store(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx,
    ngx_http_mcds_cache_conf_t *ccf, ngx_str_t *ext)
{
    ngx_int_t                   rc;
    ngx_str_t                   list, text;
    ngx_uint_t                  i;
    ngx_http_complex_value_t   *cv;
    ngx_http_variable_value_t  *others;

    rc = ngx_http_mcds_tags_list(r, &list);

    if (rc != NGX_OK) {
        return rc;
    }

    if (ngx_http_mcds_variables_own(&ctx->task->park, &others) != NGX_OK) {
        return NGX_ERROR;
    }

    cv = ccf->tags->elts;

    for (i = 0; i < ccf->tags->nelts && rc == NGX_OK; i++) {
        rc = ngx_http_complex_value(r, &cv[i], &text);

        if (rc == NGX_OK && ngx_mcds_tags_add(&list, "tag:", &text) != NGX_OK) {
            rc = NGX_DECLINED;
        }
    }

    ngx_http_mcds_variables_set(r, others);

    if (rc != NGX_OK) {
        return rc;
    }

    ext->data = ngx_pnalloc(r->pool, list.len + NGX_MCDS_TAGS_EXT);
    if (ext->data == NULL) {
        return NGX_ERROR;
    }

    ext->len = ngx_mcds_tags_put(ext->data, ctx->purges, &list) - ext->data;

    ngx_mcds_tags_make(ccf->cache_pool, &ctx->key, &list, ngx_mcds_now());

    return NGX_OK;
}


static ngx_int_t
ngx_http_mcds_tags_renew(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx,
    ngx_mcds_entry_t *entry)
{
    u_char     *p;
    uint64_t    counter;
    ngx_str_t   list;

    if (ngx_mcds_tags_get(entry, &counter, &list) != NGX_OK) {
        return NGX_OK;
    }

    p = ngx_pnalloc(r->pool, entry->ext.len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(p, entry->ext.data, entry->ext.len);

    /*
     * if this request could not read the pool's purge counter, the page is
     * stored again with the old value of the purge counter
     */

    (void) ngx_mcds_tags_put(p + (list.data - entry->ext.data)
                             - NGX_MCDS_TAGS_EXT,
                             ctx->purges ? ctx->purges : counter, &list);

    entry->ext.data = p;

    return NGX_OK;
}

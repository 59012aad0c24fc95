
/*
 * Copyright (C) mcds authors
 *
 * The context of a request in the cache: creates it, sets its state, and finds
 * the status of the response that an error page has replaced.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"


#if (NGX_DEBUG)

static char  *ngx_http_mcds_state_names[] = {
    NGX_HTTP_MCDS_STATES(ngx_http_mcds_state_name)
    NULL
};

#endif


ngx_http_mcds_cache_ctx_t *
ngx_http_mcds_cache_need(ngx_http_request_t *r)
{
    ngx_http_mcds_task_t  *task;

    task = ngx_http_mcds_task_begin(r);

    return task ? ngx_http_mcds_cache_ctx(task) : NULL;
}


void
ngx_http_mcds_set_state(ngx_http_mcds_cache_ctx_t *ctx, ngx_uint_t state)
{
    if (ctx->state == state) {
        return;
    }

    ngx_log_debug3(NGX_LOG_DEBUG_HTTP, ctx->task->request->connection->log, 0,
                   "mcds request %s -> %s \"%V\"",
                   ngx_http_mcds_state_names[ctx->state],
                   ngx_http_mcds_state_names[state], &ctx->key);

    ctx->state = state;
}


ngx_uint_t
ngx_http_mcds_replaced(ngx_http_request_t *r, ngx_http_mcds_cache_ctx_t *ctx)
{
    return ctx->replaced || r->error_page != ctx->error_page;
}


void
ngx_http_mcds_note_replaced(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_uint_t                  status;
    ngx_http_upstream_state_t  *state;

    ctx->replaced = 1;

    if (r->upstream_states == NULL || r->upstream_states->nelts == 0) {
        return;
    }

    ctx->failed_tries = r->upstream_states->nelts;

    /*
     * An error page never replaces a status below 300: a filter has refused the
     * response.  If the last attempt has another status than the response, the
     * attempt has failed after the status line, such as by a header that is too
     * large, and nginx has set 502 or 504.
     */

    state = r->upstream_states->elts;
    status = r->upstream->headers_in.status_n;

    if (status >= NGX_HTTP_SPECIAL_RESPONSE
        && state[ctx->failed_tries - 1].status == status)
    {
        ctx->failed_status = status;
    }
}


ngx_uint_t
ngx_http_mcds_replaced_status(ngx_http_request_t *r,
    ngx_http_mcds_cache_ctx_t *ctx)
{
    ngx_uint_t                  status, tries;
    ngx_http_upstream_state_t  *state;

    if (ctx->failed_status) {
        return ctx->failed_status;
    }

    status = 0;

    if (r->upstream_states && r->upstream_states->nelts) {

        /*
         * the first failed_tries upstream_states are those of the upstream that
         * failed; the upstream of an error page may have added more states
         */

        tries = ctx->failed_tries ? ctx->failed_tries
                                  : r->upstream_states->nelts;

        state = r->upstream_states->elts;
        status = state[tries - 1].status;
    }

    /*
     * the status of the upstream's last attempt counts, rather than the status
     * of the error page; if the upstream has not responded, nginx itself has
     * set the status of the attempt
     */

    if (ctx->replaced && status >= NGX_HTTP_BAD_REQUEST) {
        return status;
    }

    return (r->err_status >= NGX_HTTP_BAD_REQUEST) ? r->err_status : status;
}


/*
 * returns 1 if the request is for a range of the page, or is conditional, such
 * as with If-None-Match: the response may be 206 or 304, not the whole page
 */

ngx_uint_t
ngx_http_mcds_cache_partial(ngx_http_request_t *r)
{
    return r->headers_in.range != NULL
           || r->headers_in.if_range != NULL
           || r->headers_in.if_modified_since != NULL
           || r->headers_in.if_unmodified_since != NULL
           || r->headers_in.if_match != NULL
           || r->headers_in.if_none_match != NULL;
}


void
ngx_http_mcds_cache_bounds(ngx_http_mcds_cache_conf_t *ccf,
    ngx_mcds_stale_t *stale)
{
    stale->update = ccf->cache_update;
    stale->grace = ccf->cache_grace;
    stale->origin = ccf->cache_grace_origin;
}

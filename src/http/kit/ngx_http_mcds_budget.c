
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_module.h"
#include "ngx_http_mcds_budget.h"
#include "ngx_http_mcds_counter.h"
#include "ngx_http_mcds_herd.h"
#include "ngx_http_mcds_own.h"
#include "ngx_http_mcds_variant.h"
#include "ngx_mcds_tag.h"


/* of a request that has no context of the page and of counters, or had none */

typedef struct {
    ngx_http_request_t  *request;
    ngx_mcds_budget_t    budget;
} ngx_http_mcds_budget_t;


static ngx_mcds_budget_t *ngx_http_mcds_budget_find(ngx_http_request_t *r);
static void ngx_http_mcds_budget_cleanup(void *data);
static ngx_msec_t ngx_http_mcds_budget_timeout(ngx_http_mcds_ctx_t *ctx);
static void ngx_http_mcds_budget_over(void *data);


ngx_mcds_budget_t *
ngx_http_mcds_budget_get(ngx_http_request_t *r)
{
    ngx_mcds_budget_t       *budget;
    ngx_pool_cleanup_t      *cln;
    ngx_http_mcds_ctx_t     *ctx;
    ngx_http_mcds_budget_t  *record;

    ctx = ngx_http_mcds_get_ctx(r);

    if (ctx) {
        return &ctx->budget;
    }

    budget = ngx_http_mcds_budget_find(r);

    if (budget) {
        return budget;
    }

    cln = ngx_pool_cleanup_add(r->pool, sizeof(ngx_http_mcds_budget_t));
    if (cln == NULL) {
        return NULL;
    }

    record = cln->data;
    ngx_memzero(record, sizeof(ngx_http_mcds_budget_t));

    record->request = r;

    cln->handler = ngx_http_mcds_budget_cleanup;

    return &record->budget;
}


static ngx_mcds_budget_t *
ngx_http_mcds_budget_find(ngx_http_request_t *r)
{
    ngx_pool_cleanup_t      *cln;
    ngx_http_mcds_budget_t  *record;

    for (cln = r->pool->cleanup; cln; cln = cln->next) {

        if (cln->handler != ngx_http_mcds_budget_cleanup) {
            continue;
        }

        record = cln->data;

        if (record->request == r) {
            return &record->budget;
        }
    }

    return NULL;
}


/* it is what the record is found by */

static void
ngx_http_mcds_budget_cleanup(void *data)
{
}


void
ngx_http_mcds_budget_inherit(ngx_http_mcds_ctx_t *ctx)
{
    ngx_mcds_budget_t  *budget;

    budget = ngx_http_mcds_budget_find(ctx->request);

    if (budget) {
        ctx->budget = *budget;
    }
}


void
ngx_http_mcds_budget_begin(ngx_http_mcds_ctx_t *ctx)
{
    ngx_msec_t  timeout;

    if (ctx->purging) {
        return;
    }

    /* what is waited for beside memcached */

    if (ctx->waiting <= ctx->seat.queued + ngx_http_mcds_own_waits(ctx)) {
        return;
    }

    timeout = ngx_http_mcds_budget_timeout(ctx);

    if (timeout == 0) {
        return;
    }

    if (!ctx->seat.queued) {
        ctx->seat.parked = 0;
    }

    ctx->seeded = 0;

    ngx_mcds_wait_begin(&ctx->delay, &ctx->budget, timeout,
                        ngx_http_mcds_budget_over, ctx);
}


static ngx_msec_t
ngx_http_mcds_budget_timeout(ngx_http_mcds_ctx_t *ctx)
{
    ngx_msec_t                timeout;
    ngx_uint_t                i;
    ngx_http_mcds_numbers_t  *numbers;

    timeout = 0;

    if (ctx->conf && ctx->conf->cache_pool) {
        timeout = ctx->conf->cache_pool->timeout;
    }

    if (ctx->counts == 0) {
        return timeout;
    }

    for (numbers = ctx->numbers; numbers; numbers = numbers->next) {

        for (i = 0; i < numbers->n; i++) {
            timeout = ngx_max(timeout, numbers->number[i].pool->timeout);
        }
    }

    return timeout;
}


void
ngx_http_mcds_budget_end(ngx_http_mcds_ctx_t *ctx)
{
    if (ctx->seeded) {

        /* its location was asked, or another host asked it */

        ngx_mcds_wait_cancel(&ctx->delay);
        return;
    }

    ngx_mcds_wait_end(&ctx->delay, ctx->seat.parked ? ctx->seat.parked_at
                                                    : ngx_current_msec);
}


static void
ngx_http_mcds_budget_over(void *data)
{
    ngx_http_mcds_ctx_t *ctx = data;

    ngx_uint_t  waiting;

    waiting = ctx->waiting;

    ngx_http_mcds_counters_hurry(ctx);
    ngx_http_mcds_herd_hurry(ctx);
    ngx_http_mcds_variant_hurry(ctx);
    ngx_mcds_tags_hurry(ctx->tags);
    ngx_mcds_page_hurry(&ctx->base);
    ngx_mcds_page_hurry(&ctx->seat);

    if (ctx->waiting < waiting) {
        ngx_http_mcds_budget_log(ctx->request);
    }
}


void
ngx_http_mcds_budget_log(ngx_http_request_t *r)
{
    ngx_log_error(NGX_LOG_INFO, r->connection->log, 0,
                  "the request no longer waits for memcached");
}

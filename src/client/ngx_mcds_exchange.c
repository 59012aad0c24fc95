
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_exchange.h"


static ngx_mcds_exchange_t *ngx_mcds_exchange_alloc(void);


/* freed exchanges of commands and replies, kept by this worker for reuse */

static ngx_queue_t  ngx_mcds_exchange_spare;


ngx_mcds_exchange_t *
ngx_mcds_exchange_create(ngx_mcds_pool_t *pool, ngx_mcds_request_t *req)
{
    ngx_mcds_exchange_t  *ex;

    ex = ngx_mcds_exchange_alloc();
    if (ex == NULL) {
        return NULL;
    }

    ex->op = NULL;
    ex->value = NULL;
    ex->probe = 0;

    if (req->verb == NGX_MCDS_STATS) {
        ex->key.len = 0;

    } else {
        ngx_mcds_op_key(&ex->key, pool, req, &req->suffix);
    }

    return ex;
}


static ngx_mcds_exchange_t *
ngx_mcds_exchange_alloc(void)
{
    ngx_queue_t  *q;

    if (ngx_mcds_exchange_spare.next == NULL) {
        ngx_queue_init(&ngx_mcds_exchange_spare);
    }

    if (ngx_queue_empty(&ngx_mcds_exchange_spare)) {
        return ngx_alloc(sizeof(ngx_mcds_exchange_t), ngx_cycle->log);
    }

    q = ngx_queue_head(&ngx_mcds_exchange_spare);
    ngx_queue_remove(q);

    return ngx_queue_data(q, ngx_mcds_exchange_t, queue);
}


void
ngx_mcds_exchange_done(ngx_mcds_exchange_t *ex, ngx_mcds_result_t *result)
{
    ngx_mcds_op_done(&ex->op, result);
    ngx_mcds_exchange_free(ex);
}


void
ngx_mcds_exchange_free(ngx_mcds_exchange_t *ex)
{
    ngx_mcds_op_unlink(&ex->op);
    ngx_mcds_value_unref(ex->value);

    ngx_queue_insert_head(&ngx_mcds_exchange_spare, &ex->queue);
}

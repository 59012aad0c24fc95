
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_log.h"
#include "ngx_mcds_log_aside.h"


typedef struct {
    ngx_queue_t             queue;
    ngx_mcds_op_t           op;
    ngx_mcds_log_asides_t  *asides;
    uint64_t                chunk;
    ngx_uint_t              part;
    size_t                  len;
} ngx_mcds_log_aside_t;


static ngx_mcds_log_aside_t *ngx_mcds_log_aside_create(
    ngx_mcds_log_asides_t *asides, uint64_t chunk, ngx_uint_t part);
static void ngx_mcds_log_aside(ngx_mcds_log_aside_t *aside, ngx_uint_t verb);
static void ngx_mcds_log_aside_handler(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_log_aside_free(ngx_mcds_log_aside_t *aside);


void
ngx_mcds_log_add_size(ngx_mcds_log_asides_t *asides, uint64_t chunk, size_t len)
{
    ngx_mcds_log_aside_t  *aside;

    aside = ngx_mcds_log_aside_create(asides, chunk, NGX_MCDS_LOG_SIZE);
    if (aside == NULL) {
        return;
    }

    aside->len = len;

    ngx_mcds_log_aside(aside, NGX_MCDS_INCR);
}


void
ngx_mcds_log_fill(ngx_mcds_log_asides_t *asides, uint64_t chunk,
    ngx_uint_t part)
{
    ngx_mcds_log_aside_t  *aside;

    aside = ngx_mcds_log_aside_create(asides, chunk, part);

    if (aside) {
        ngx_mcds_log_aside(aside, NGX_MCDS_ADD);
    }
}


static ngx_mcds_log_aside_t *
ngx_mcds_log_aside_create(ngx_mcds_log_asides_t *asides, uint64_t chunk,
    ngx_uint_t part)
{
    ngx_mcds_log_aside_t  *aside;

    aside = ngx_calloc(sizeof(ngx_mcds_log_aside_t), ngx_cycle->log);
    if (aside == NULL) {
        return NULL;
    }

    aside->op.handler = ngx_mcds_log_aside_handler;
    aside->op.data = aside;
    aside->asides = asides;
    aside->chunk = chunk;
    aside->part = part;

    ngx_queue_insert_tail(&asides->queue, &aside->queue);

    return aside;
}


static void
ngx_mcds_log_aside(ngx_mcds_log_aside_t *aside, ngx_uint_t verb)
{
    u_char              buf[NGX_MCDS_LOG_SUFFIX], text[NGX_SIZE_T_LEN];
    ngx_mcds_log_t     *log;
    ngx_mcds_request_t  req;

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    log = aside->asides->log;

    req.verb = verb;
    req.key = log->name;
    ngx_mcds_log_suffix(&req.suffix, buf, aside->chunk, aside->part);
    req.ttl = ngx_mcds_log_ttl(log->chunk, log->chunks);
    req.single = 1;

    if (verb == NGX_MCDS_INCR) {
        req.want = NGX_MCDS_VALUE;
        req.initial = aside->len;
        req.delta = aside->len;

    } else {
        req.text.data = text;

        if (aside->len) {
            req.text.len = ngx_sprintf(text, "%uz", aside->len) - text;
        }
    }

    ngx_mcds_submit(log->pool, &req, &aside->op);
}


static void
ngx_mcds_log_aside_handler(void *data, ngx_mcds_result_t *result)
{
    uint64_t               n;
    ngx_mcds_log_aside_t  *aside;

    aside = data;

    if (aside->part == NGX_MCDS_LOG_SIZE) {

        if (result->rc == NGX_MCDS_NOT_FOUND) {

            /*
             * "incr" of the classic protocol does not create the counter of the
             * log's bytes: create it by "add"
             */

            ngx_mcds_log_aside(aside, NGX_MCDS_ADD);
            return;
        }

        if (result->rc == NGX_MCDS_OK
            && (result->has & NGX_MCDS_VALUE)
            && ngx_mcds_parse_number(result->data, result->len, &n) == NGX_OK)
        {
            aside->asides->handler(aside->asides->data, aside->chunk, n);
        }

    } else if (result->rc == NGX_MCDS_OK && aside->part) {

        /*
         * memcached lacked the item just added: the item before it in the same
         * time interval of the log may be missing, too, so add that one as well
         */

        aside->part--;
        ngx_mcds_log_aside(aside, NGX_MCDS_ADD);
        return;
    }

    ngx_mcds_log_aside_free(aside);
}


static void
ngx_mcds_log_aside_free(ngx_mcds_log_aside_t *aside)
{
    ngx_queue_remove(&aside->queue);
    ngx_free(aside);
}


void
ngx_mcds_log_asides_cancel(ngx_mcds_log_asides_t *asides)
{
    ngx_queue_t           *q;
    ngx_mcds_log_aside_t  *aside;

    while (!ngx_queue_empty(&asides->queue)) {

        q = ngx_queue_head(&asides->queue);
        aside = ngx_queue_data(q, ngx_mcds_log_aside_t, queue);

        ngx_mcds_cancel(&aside->op);
        ngx_mcds_log_aside_free(aside);
    }
}


/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_counter.h"


#define NGX_MCDS_COUNTER_BUCKETS  64


struct ngx_mcds_count_s {
    ngx_queue_t          queue;
    ngx_mcds_count_pt    handler;      /* NULL: canceled */
    void                *data;
    uint64_t             delta;
};


/* what is added to one counter in this turn */

typedef struct {
    ngx_queue_t          queue;        /* in a bucket, until it is sent */
    ngx_queue_t          counts;       /* ngx_mcds_count_t, in their order */
    ngx_mcds_pool_t     *pool;
    uint64_t             sum;
    uint32_t             ttl;
    uint32_t             hash;
    ngx_str_t            key;
} ngx_mcds_batch_t;


static ngx_mcds_batch_t *ngx_mcds_counter_batch(ngx_mcds_pool_t *pool,
    ngx_str_t *key, uint32_t ttl);
static void ngx_mcds_counter_init(void);
static void ngx_mcds_counter_flush_handler(ngx_event_t *ev);
static void ngx_mcds_counter_send(ngx_mcds_batch_t *batch);
static void ngx_mcds_counter_handler(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_counter_done(ngx_mcds_batch_t *batch, ngx_uint_t rc,
    uint64_t value);


static ngx_queue_t  ngx_mcds_counter_buckets[NGX_MCDS_COUNTER_BUCKETS];
static ngx_queue_t  ngx_mcds_counter_free;
static ngx_event_t  ngx_mcds_counter_flush;


ngx_mcds_count_t *
ngx_mcds_counter_add(ngx_mcds_pool_t *pool, ngx_str_t *key, uint64_t delta,
    uint32_t ttl, ngx_mcds_count_pt handler, void *data)
{
    ngx_queue_t       *q;
    ngx_mcds_count_t  *count;
    ngx_mcds_batch_t  *batch;

    if (ngx_mcds_counter_flush.handler == NULL) {
        ngx_mcds_counter_init();
    }

    if (ngx_queue_empty(&ngx_mcds_counter_free)) {
        count = ngx_alloc(sizeof(ngx_mcds_count_t), ngx_cycle->log);
        if (count == NULL) {
            return NULL;
        }

    } else {
        q = ngx_queue_head(&ngx_mcds_counter_free);
        ngx_queue_remove(q);
        count = ngx_queue_data(q, ngx_mcds_count_t, queue);
    }

    count->handler = handler;
    count->data = data;
    count->delta = delta;

    batch = ngx_mcds_counter_batch(pool, key, ttl);

    if (batch == NULL) {
        ngx_queue_insert_head(&ngx_mcds_counter_free, &count->queue);
        return NULL;
    }

    batch->sum += delta;
    ngx_queue_insert_tail(&batch->counts, &count->queue);

    if (!ngx_mcds_counter_flush.posted) {
        ngx_post_event(&ngx_mcds_counter_flush, &ngx_posted_events);
    }

    return count;
}


void
ngx_mcds_counter_cancel(ngx_mcds_count_t *count)
{
    count->handler = NULL;
}


static void
ngx_mcds_counter_init(void)
{
    ngx_uint_t  i;

    for (i = 0; i < NGX_MCDS_COUNTER_BUCKETS; i++) {
        ngx_queue_init(&ngx_mcds_counter_buckets[i]);
    }

    ngx_queue_init(&ngx_mcds_counter_free);

    ngx_mcds_counter_flush.handler = ngx_mcds_counter_flush_handler;
    ngx_mcds_counter_flush.log = ngx_cycle->log;
}


static ngx_mcds_batch_t *
ngx_mcds_counter_batch(ngx_mcds_pool_t *pool, ngx_str_t *key, uint32_t ttl)
{
    uint32_t           hash;
    ngx_queue_t       *q, *bucket;
    ngx_mcds_batch_t  *batch;

    hash = ngx_crc32_long(key->data, key->len);
    bucket = &ngx_mcds_counter_buckets[hash % NGX_MCDS_COUNTER_BUCKETS];

    for (q = ngx_queue_head(bucket);
         q != ngx_queue_sentinel(bucket);
         q = ngx_queue_next(q))
    {
        batch = ngx_queue_data(q, ngx_mcds_batch_t, queue);

        if (batch->hash == hash
            && batch->pool == pool
            && batch->key.len == key->len
            && ngx_memcmp(batch->key.data, key->data, key->len) == 0)
        {
            return batch;
        }
    }

    batch = ngx_alloc(sizeof(ngx_mcds_batch_t) + key->len, ngx_cycle->log);
    if (batch == NULL) {
        return NULL;
    }

    ngx_queue_init(&batch->counts);
    batch->pool = pool;
    batch->sum = 0;
    batch->ttl = ttl;
    batch->hash = hash;
    batch->key.data = (u_char *) batch + sizeof(ngx_mcds_batch_t);
    batch->key.len = key->len;
    ngx_memcpy(batch->key.data, key->data, key->len);

    ngx_queue_insert_tail(bucket, &batch->queue);

    return batch;
}


static void
ngx_mcds_counter_flush_handler(ngx_event_t *ev)
{
    ngx_uint_t         i;
    ngx_queue_t       *q, *bucket;
    ngx_mcds_batch_t  *batch;

    for (i = 0; i < NGX_MCDS_COUNTER_BUCKETS; i++) {
        bucket = &ngx_mcds_counter_buckets[i];

        while (!ngx_queue_empty(bucket)) {
            q = ngx_queue_head(bucket);
            ngx_queue_remove(q);

            batch = ngx_queue_data(q, ngx_mcds_batch_t, queue);
            ngx_mcds_counter_send(batch);
        }
    }
}


static void
ngx_mcds_counter_send(ngx_mcds_batch_t *batch)
{
    ngx_mcds_request_t  req;

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.verb = NGX_MCDS_INCR;
    req.want = NGX_MCDS_VALUE;
    req.key = batch->key;
    req.ttl = batch->ttl;
    req.initial = batch->sum;
    req.delta = batch->sum;

    if (ngx_mcds_submit(batch->pool, &req, ngx_mcds_counter_handler, batch)
        == NULL)
    {
        ngx_mcds_counter_done(batch, NGX_MCDS_BUSY, 0);
    }
}


static void
ngx_mcds_counter_handler(void *data, ngx_mcds_result_t *result)
{
    uint64_t    value;
    ngx_uint_t  rc;

    rc = result->rc;
    value = 0;

    if (rc == NGX_MCDS_OK
        && (!(result->has & NGX_MCDS_VALUE)
            || ngx_mcds_parse_number(result->data, result->len, &value)
               != NGX_OK))
    {
        rc = NGX_MCDS_NOT_NUMERIC;
    }

    ngx_mcds_counter_done(data, rc, value);
}


static void
ngx_mcds_counter_done(ngx_mcds_batch_t *batch, ngx_uint_t rc, uint64_t value)
{
    ngx_queue_t       *q;
    ngx_mcds_count_t  *count;

    /* the first of them found the counter as it was before the sum */

    value -= batch->sum;

    while (!ngx_queue_empty(&batch->counts)) {
        q = ngx_queue_head(&batch->counts);
        ngx_queue_remove(q);

        count = ngx_queue_data(q, ngx_mcds_count_t, queue);
        value += count->delta;

        if (count->handler) {
            count->handler(count->data, rc, value);
        }

        ngx_queue_insert_head(&ngx_mcds_counter_free, &count->queue);
    }

    ngx_free(batch);
}

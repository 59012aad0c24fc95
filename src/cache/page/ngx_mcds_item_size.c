
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_item_size.h"


/*
 * the largest item that memcached accepts with its default of -I, 1 MB, less
 * room for the header of the item and the longest key, in bytes
 */
#define NGX_MCDS_ITEM_SIZE_ITEM   (1024 * 1024 - 1024)

/* a length of an item's value that every memcached accepts */
#define NGX_MCDS_ITEM_SIZE_TAKEN  65000

/*
 * the time to live of a test value: this worker stores it to find out whether
 * memcached accepts values of its length; seconds
 */
#define NGX_MCDS_ITEM_SIZE_TTL    2


typedef struct ngx_mcds_item_size_s  ngx_mcds_item_size_t;


/*
 * the maximum length of an item's value in the servers of a pool, as this
 * worker knows it
 */

struct ngx_mcds_item_size_s {
    ngx_mcds_item_size_t      *next;
    ngx_mcds_pool_t           *pool;
    size_t                     len;     /* maximum length of a value that is
                                           sent to memcached in one item */
    size_t                     taken;   /* maximum length of a value that
                                           memcached surely accepts */
    size_t                     tried;   /* length of a value that memcached is
                                           being asked to accept; 0: none */
    ngx_mcds_op_t              op;
    ngx_queue_t                tries;   /* callers that wait until memcached
                                           has accepted or refused a value of
                                           the length "tried" */
};


/*
 * A caller of ngx_mcds_item_size_try(): its handler is called when memcached
 * has accepted or refused a test value, which the worker sent to find out
 * whether memcached accepts values of this length.
 */

typedef struct {
    ngx_queue_t            queue;
    void                 (*handler)(void *data);
    void                  *data;
} ngx_mcds_try_t;


static ngx_mcds_item_size_t *ngx_mcds_item_size_get(ngx_mcds_pool_t *pool);
static ngx_int_t ngx_mcds_item_size_send(ngx_mcds_item_size_t *limit,
    ngx_str_t *key, size_t len);
static void ngx_mcds_item_size_tried(void *data, ngx_mcds_result_t *result);
static size_t ngx_mcds_item_size_below(size_t len);


/*
 * The lengths of values that are sent to learn which lengths memcached accepts.
 * With a key and the item's header such a value just fits a chunk of memcached
 * (252696, 129376 or 66232 bytes).  The value of 65000 bytes also fits the item
 * size limit -I 64k; memcached does not work with a smaller limit.
 */

static size_t             ngx_mcds_item_size_levels[] = {
    252000, 129000, 65000, 0
};

static ngx_mcds_item_size_t  *ngx_mcds_limits;


size_t
ngx_mcds_item_size(ngx_mcds_pool_t *pool)
{
    ngx_mcds_item_size_t  *limit;

    limit = ngx_mcds_item_size_get(pool);

    return limit ? limit->len : NGX_MCDS_ITEM_SIZE_ITEM;
}


size_t
ngx_mcds_item_size_level(ngx_mcds_pool_t *pool)
{
    return ngx_mcds_item_size_below(ngx_mcds_item_size(pool));
}


static ngx_mcds_item_size_t *
ngx_mcds_item_size_get(ngx_mcds_pool_t *pool)
{
    ngx_mcds_item_size_t  *limit;

    for (limit = ngx_mcds_limits; limit; limit = limit->next) {
        if (limit->pool == pool) {
            return limit;
        }
    }

    limit = ngx_calloc(sizeof(ngx_mcds_item_size_t), ngx_cycle->log);
    if (limit == NULL) {
        return NULL;
    }

    limit->pool = pool;
    limit->len = NGX_MCDS_ITEM_SIZE_ITEM;
    limit->taken = NGX_MCDS_ITEM_SIZE_TAKEN;
    limit->op.handler = ngx_mcds_item_size_tried;
    limit->op.data = limit;
    ngx_queue_init(&limit->tries);

    limit->next = ngx_mcds_limits;
    ngx_mcds_limits = limit;

    return limit;
}


ngx_int_t
ngx_mcds_item_size_learn(ngx_mcds_pool_t *pool, size_t len)
{
    size_t                 level;
    ngx_mcds_item_size_t  *limit;

    limit = ngx_mcds_item_size_get(pool);
    if (limit == NULL) {
        return NGX_DECLINED;
    }

    if (len <= limit->len) {
        level = ngx_mcds_item_size_below(len - 1);

        if (level) {
            ngx_log_error(NGX_LOG_NOTICE, ngx_cycle->log, 0,
                          "memcached of pool \"%V\" takes no items of %uz "
                          "bytes, larger pages are stored in parts of %uz",
                          &pool->name, len, level);
        }

        limit->len = level ? level : len - 1;
    }

    return ngx_mcds_item_size_below(limit->len) ? NGX_OK : NGX_DECLINED;
}


ngx_int_t
ngx_mcds_item_size_try(ngx_mcds_pool_t *pool, ngx_str_t *key, size_t len,
    void (*handler)(void *data), void *data)
{
    ngx_mcds_try_t        *try;
    ngx_mcds_item_size_t  *limit;

    limit = ngx_mcds_item_size_get(pool);

    if (limit == NULL || len <= limit->taken || len > limit->len) {
        return NGX_DECLINED;
    }

    try = ngx_alloc(sizeof(ngx_mcds_try_t), ngx_cycle->log);
    if (try == NULL) {
        return NGX_DECLINED;
    }

    try->handler = handler;
    try->data = data;

    if (limit->tried == 0
        && ngx_mcds_item_size_send(limit, key, len) != NGX_OK)
    {
        ngx_free(try);
        return NGX_DECLINED;
    }

    ngx_queue_insert_tail(&limit->tries, &try->queue);

    return NGX_OK;
}


/*
 * Sends a value to find out whether memcached accepts values of len bytes.  The
 * value has the smallest length in ngx_mcds_item_size_levels that is not below
 * len, or limit->len if this is less or len is above all levels; so the reply
 * holds for all lengths between two levels.
 */

static ngx_int_t
ngx_mcds_item_size_send(ngx_mcds_item_size_t *limit, ngx_str_t *key, size_t len)
{
    size_t              *level, size;
    ngx_mcds_value_t    *value;
    ngx_mcds_request_t   req;

    size = limit->len;

    for (level = ngx_mcds_item_size_levels; *level >= len; level++) {
        size = ngx_min(*level, limit->len);
    }

    value = ngx_mcds_value_create(size + NGX_MCDS_VALUE_SPARE,
                                  ngx_cycle->log);
    if (value == NULL) {
        return NGX_ERROR;
    }

    ngx_memzero(value->data, size);
    value->len = size;

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.verb = NGX_MCDS_SET;
    req.key = *key;
    ngx_str_set(&req.suffix, NGX_MCDS_ITEM_SIZE_SUFFIX);
    req.by_key = 1;
    req.bulk = 1;
    req.page = 1;
    req.movable = 1;
    req.ttl = NGX_MCDS_ITEM_SIZE_TTL;
    req.value = value;

    ngx_mcds_submit(limit->pool, &req, &limit->op);

    ngx_mcds_value_unref(value);

    limit->tried = size;

    return NGX_OK;
}


/*
 * Handles the reply of memcached to a value that was sent to find out whether
 * memcached accepts its length.  The waiting callers continue whatever the
 * reply is.
 */

static void
ngx_mcds_item_size_tried(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_item_size_t *limit = data;

    ngx_queue_t      tries, *q;
    ngx_mcds_try_t  *try;

    if (result->rc == NGX_MCDS_OK) {
        limit->taken = ngx_max(limit->taken, limit->tried);

    } else if (result->rc == NGX_MCDS_TOO_LARGE) {
        (void) ngx_mcds_item_size_learn(limit->pool, limit->tried);
    }

    limit->tried = 0;

    ngx_queue_init(&tries);

    if (!ngx_queue_empty(&limit->tries)) {
        ngx_queue_add(&tries, &limit->tries);
        ngx_queue_init(&limit->tries);
    }

    while (!ngx_queue_empty(&tries)) {
        q = ngx_queue_head(&tries);
        ngx_queue_remove(q);

        try = ngx_queue_data(q, ngx_mcds_try_t, queue);

        try->handler(try->data);
        ngx_free(try);
    }
}


/*
 * Returns the largest of the lengths in ngx_mcds_item_size_levels that does not
 * exceed len; 0: all these lengths exceed len.
 */

static size_t
ngx_mcds_item_size_below(size_t len)
{
    size_t  *level;

    level = ngx_mcds_item_size_levels;

    while (*level > len) {
        level++;
    }

    return *level;
}

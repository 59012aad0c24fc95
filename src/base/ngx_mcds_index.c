
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_index.h"


static ngx_inline ngx_mcds_index_node_t *ngx_mcds_index_match(
    ngx_mcds_index_node_t *node, void *pool, ngx_str_t *key, uint32_t hash);
static void ngx_mcds_index_drop(ngx_mcds_index_t *index);


ngx_mcds_index_node_t *
ngx_mcds_index_find(ngx_mcds_index_t *index, void *pool, ngx_str_t *key,
    uint32_t hash)
{
    return ngx_mcds_index_match(index->buckets[hash & index->mask], pool, key,
                                hash);
}


ngx_mcds_index_node_t *
ngx_mcds_index_next(ngx_mcds_index_node_t *node)
{
    return ngx_mcds_index_match(node->next, node->pool, &node->key,
                                node->hash);
}


static ngx_inline ngx_mcds_index_node_t *
ngx_mcds_index_match(ngx_mcds_index_node_t *node, void *pool, ngx_str_t *key,
    uint32_t hash)
{
    for ( /* void */ ; node; node = node->next) {

        if (node->hash == hash
            && node->pool == pool
            && node->key.len == key->len
            && ngx_memcmp(node->key.data, key->data, key->len) == 0)
        {
            return node;
        }
    }

    return NULL;
}


ngx_int_t
ngx_mcds_index_insert(ngx_mcds_index_t *index, ngx_mcds_index_node_t *node,
    void *pool, ngx_str_t *key, uint32_t hash, size_t size)
{
    ngx_mcds_index_node_t  **bucket;

    node->link = NULL;
    node->pool = pool;
    node->key = *key;
    node->hash = hash;
    node->size = size;
    node->idle = 0;

    if (index->idle.next == NULL) {
        ngx_queue_init(&index->idle);
    }

    while (index->count >= index->max
           || index->size + size > index->max_size)
    {
        if (ngx_queue_empty(&index->idle)) {
            return NGX_BUSY;
        }

        ngx_mcds_index_drop(index);
    }

    bucket = &index->buckets[hash & index->mask];

    node->next = *bucket;
    node->link = bucket;

    if (node->next) {
        node->next->link = &node->next;
    }

    *bucket = node;

    index->count++;
    index->size += size;

    return NGX_OK;
}


void
ngx_mcds_index_remove(ngx_mcds_index_t *index, ngx_mcds_index_node_t *node)
{
    if (node->link == NULL) {
        return;
    }

    ngx_mcds_index_busy(index, node);

    *node->link = node->next;

    if (node->next) {
        node->next->link = node->link;
    }

    node->link = NULL;

    index->count--;
    index->size -= node->size;
}


void
ngx_mcds_index_idle(ngx_mcds_index_t *index, ngx_mcds_index_node_t *node)
{
    if (node->idle) {
        ngx_queue_remove(&node->queue);
        ngx_queue_insert_head(&index->idle, &node->queue);
        return;
    }

    node->idle = 1;
    ngx_queue_insert_head(&index->idle, &node->queue);

    index->idle_count++;
    index->idle_size += node->size;

    while (!ngx_queue_empty(&index->idle)
           && (index->idle_count > index->max_idle
               || index->idle_size > index->max_idle_size
               || index->size > index->max_size))
    {
        ngx_mcds_index_drop(index);
    }
}


void
ngx_mcds_index_busy(ngx_mcds_index_t *index, ngx_mcds_index_node_t *node)
{
    if (!node->idle) {
        return;
    }

    node->idle = 0;
    ngx_queue_remove(&node->queue);

    index->idle_count--;
    index->idle_size -= node->size;
}


/*
 * frees the least recently used of the idle nodes of an index, which are kept
 * only while the index has room
 */

static void
ngx_mcds_index_drop(ngx_mcds_index_t *index)
{
    ngx_queue_t            *q;
    ngx_mcds_index_node_t  *node;

    q = ngx_queue_last(&index->idle);
    node = ngx_queue_data(q, ngx_mcds_index_node_t, queue);

    ngx_mcds_index_remove(index, node);

    index->drop(node);
}


void
ngx_mcds_index_resize(ngx_mcds_index_t *index, ngx_mcds_index_node_t *node,
    size_t size)
{
    index->size += size - node->size;
    node->size = size;
}


void
ngx_mcds_index_walk(ngx_mcds_index_t *index,
    void (*handler)(ngx_mcds_index_node_t *node, void *data), void *data)
{
    ngx_uint_t              i;
    ngx_mcds_index_node_t  *node, *next;

    if (index->count == 0) {
        return;
    }

    for (i = 0; i <= index->mask; i++) {

        for (node = index->buckets[i]; node; node = next) {
            next = node->next;
            handler(node, data);
        }
    }
}

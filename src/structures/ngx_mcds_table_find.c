
/*
 * Copyright (C) mcds authors
 *
 * The elements of tables, and missing elements, that this worker remembers.
 * Lookups of an element that is being read share the read.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_table.h"
#include "ngx_mcds_index.h"


#define NGX_MCDS_TABLE_BUCKETS    16384

/*
 * the maximum number, and the maximum bytes, of the elements of all tables that
 * a worker remembers
 */
#define NGX_MCDS_TABLE_MEMORIES   65536
#define NGX_MCDS_TABLE_MEMORY     (16 * 1024 * 1024)

/*
 * the maximum number, and the maximum bytes, of the elements of all tables that
 * a worker remembers or is reading: too high to be reached in practice
 */
#define NGX_MCDS_TABLE_ALL        1048576
#define NGX_MCDS_TABLE_ALL_MEMORY (1024 * 1024 * 1024)

/* the maximum length of an element's value that is remembered, bytes */
#define NGX_MCDS_TABLE_SHORT      4096


typedef struct {
    ngx_mcds_index_node_t       node;      /* index node, by the name of the
                                              element; busy (not to be dropped)
                                              while the element is read */
    ngx_queue_t                 waits;
    ngx_mcds_op_t               op;
    ngx_str_t                   table;     /* key of the element's table */
    ngx_msec_t                  asked;
    ngx_mcds_value_t           *value;     /* value of the element; NULL: there
                                              is no element */
    unsigned                    asking:1;
    unsigned                    forget:1;
} ngx_mcds_table_memory_t;


static ngx_mcds_table_memory_t *ngx_mcds_table_memory(
    ngx_mcds_table_t *table, ngx_str_t *name, uint32_t hash);
static ngx_mcds_table_memory_t *ngx_mcds_table_memory_create(
    ngx_mcds_table_t *table, ngx_str_t *name, uint32_t hash);
static uint32_t ngx_mcds_table_hash(ngx_mcds_table_t *table,
    ngx_str_t *name);
static void ngx_mcds_table_memory_free(ngx_mcds_table_memory_t *memory);
static void ngx_mcds_table_memory_drop(ngx_mcds_index_node_t *node);
static void ngx_mcds_table_find_handler(void *data,
    ngx_mcds_result_t *result);
static void ngx_mcds_table_remember(ngx_mcds_table_memory_t *memory,
    ngx_mcds_result_t *result);


static ngx_mcds_index_node_t  *ngx_mcds_table_buckets[NGX_MCDS_TABLE_BUCKETS];
static ngx_mcds_index_t  ngx_mcds_table_memories =
    ngx_mcds_index(ngx_mcds_table_buckets, NGX_MCDS_TABLE_ALL,
                   NGX_MCDS_TABLE_ALL_MEMORY, NGX_MCDS_TABLE_MEMORIES,
                   NGX_MCDS_TABLE_MEMORY, ngx_mcds_table_memory_drop);


ngx_int_t
ngx_mcds_table_find(ngx_mcds_table_t *table, ngx_str_t *name, ngx_msec_t keep,
    ngx_str_t *value, ngx_mcds_table_wait_t *wait)
{
    u_char                    suffix[NGX_MCDS_TABLE_SUFFIX];
    uint32_t                  hash;
    ngx_mcds_request_t        req;
    ngx_mcds_table_memory_t  *memory;

    hash = ngx_mcds_table_hash(table, name);

    memory = ngx_mcds_table_memory(table, name, hash);

    if (memory && !memory->asking && ngx_current_msec - memory->asked < keep) {

        ngx_mcds_index_idle(&ngx_mcds_table_memories, &memory->node);

        if (memory->value == NULL) {
            return NGX_DECLINED;
        }

        value->data = memory->value->data;
        value->len = memory->value->len;

        return NGX_OK;
    }

    if (memory && memory->asking && !memory->forget) {
        ngx_queue_insert_tail(&memory->waits, &wait->queue);
        return NGX_AGAIN;
    }

    if (memory && !memory->asking) {
        ngx_mcds_table_memory_free(memory);
    }

    memory = ngx_mcds_table_memory_create(table, name, hash);
    if (memory == NULL) {
        return NGX_ERROR;
    }

    ngx_mcds_table_request(&req, table, name, suffix);

    req.verb = NGX_MCDS_GET;
    req.want = NGX_MCDS_VALUE;

    ngx_mcds_submit(table->pool, &req, &memory->op);

    ngx_queue_insert_tail(&memory->waits, &wait->queue);

    return NGX_AGAIN;
}


void
ngx_mcds_table_find_cancel(ngx_mcds_table_wait_t *wait)
{
    if (ngx_mcds_table_finding(wait)) {
        ngx_queue_remove(&wait->queue);
        wait->queue.next = NULL;
    }
}


void
ngx_mcds_table_forget(ngx_mcds_table_t *table, ngx_str_t *name)
{
    uint32_t                  hash;
    ngx_mcds_table_memory_t  *memory;

    hash = ngx_mcds_table_hash(table, name);

    memory = ngx_mcds_table_memory(table, name, hash);

    if (memory == NULL) {
        return;
    }

    if (memory->asking) {

        /*
         * the reply of memcached that is awaited may have the element's old
         * value: do not remember it
         */

        memory->forget = 1;
        return;
    }

    ngx_mcds_table_memory_free(memory);
}


/*
 * Returns this worker's newest entry for the table's element with this name, or
 * NULL; an older entry for the name, to be forgotten, may exist, too.
 */

static ngx_mcds_table_memory_t *
ngx_mcds_table_memory(ngx_mcds_table_t *table, ngx_str_t *name, uint32_t hash)
{
    ngx_mcds_index_node_t    *node;
    ngx_mcds_table_memory_t  *memory;

    for (node = ngx_mcds_index_find(&ngx_mcds_table_memories, table->pool,
                                    name, hash);
         node;
         node = ngx_mcds_index_next(node))
    {
        memory = ngx_mcds_index_data(node, ngx_mcds_table_memory_t, node);

        if (memory->table.len == table->key.len
            && ngx_memcmp(memory->table.data, table->key.data, table->key.len)
               == 0)
        {
            return memory;
        }
    }

    return NULL;
}


static ngx_mcds_table_memory_t *
ngx_mcds_table_memory_create(ngx_mcds_table_t *table, ngx_str_t *name,
    uint32_t hash)
{
    size_t                    len;
    u_char                   *p;
    ngx_str_t                 key;
    ngx_mcds_table_memory_t  *memory;

    len = table->key.len + name->len;

    memory = ngx_calloc(sizeof(ngx_mcds_table_memory_t) + len,
                        ngx_cycle->log);
    if (memory == NULL) {
        return NULL;
    }

    memory->op.handler = ngx_mcds_table_find_handler;
    memory->op.data = memory;
    memory->asked = ngx_current_msec;
    memory->asking = 1;

    p = (u_char *) memory + sizeof(ngx_mcds_table_memory_t);

    memory->table.data = p;
    memory->table.len = table->key.len;
    p = ngx_cpymem(p, table->key.data, table->key.len);

    ngx_memcpy(p, name->data, name->len);

    ngx_queue_init(&memory->waits);

    key.data = p;
    key.len = name->len;

    if (ngx_mcds_index_insert(&ngx_mcds_table_memories, &memory->node,
                              table->pool, &key, hash,
                              sizeof(ngx_mcds_table_memory_t) + len)
        != NGX_OK)
    {
        ngx_free(memory);
        return NULL;
    }

    return memory;
}


static uint32_t
ngx_mcds_table_hash(ngx_mcds_table_t *table, ngx_str_t *name)
{
    return ngx_mcds_hash(table->key.data, table->key.len) * 31
           + ngx_mcds_hash(name->data, name->len);
}


static void
ngx_mcds_table_memory_free(ngx_mcds_table_memory_t *memory)
{
    ngx_mcds_index_remove(&ngx_mcds_table_memories, &memory->node);

    ngx_mcds_value_unref(memory->value);
    ngx_free(memory);
}


static void
ngx_mcds_table_memory_drop(ngx_mcds_index_node_t *node)
{
    ngx_mcds_table_memory_free(ngx_mcds_index_data(node,
                                              ngx_mcds_table_memory_t, node));
}


static void
ngx_mcds_table_find_handler(void *data, ngx_mcds_result_t *result)
{
    ngx_str_t                 value;
    ngx_queue_t              *q;
    ngx_mcds_table_wait_t    *wait;
    ngx_mcds_table_memory_t  *memory;

    memory = data;

    value.data = result->data;
    value.len = (result->rc == NGX_MCDS_OK) ? result->len : 0;

    while (!ngx_queue_empty(&memory->waits)) {

        q = ngx_queue_head(&memory->waits);
        wait = ngx_queue_data(q, ngx_mcds_table_wait_t, queue);

        ngx_mcds_table_find_cancel(wait);
        wait->handler(wait->data, result->rc, &value);
    }

    ngx_mcds_table_remember(memory, result);
}


static void
ngx_mcds_table_remember(ngx_mcds_table_memory_t *memory,
    ngx_mcds_result_t *result)
{
    memory->asking = 0;

    if (result->rc == NGX_MCDS_OK && result->len <= NGX_MCDS_TABLE_SHORT) {
        memory->value = ngx_mcds_value_create(result->len, ngx_cycle->log);

        if (memory->value) {
            memory->value->len = result->len;
            ngx_memcpy(memory->value->data, result->data, result->len);
        }
    }

    if (memory->forget
        || (result->rc != NGX_MCDS_OK && result->rc != NGX_MCDS_NOT_FOUND)
        || (result->rc == NGX_MCDS_OK && memory->value == NULL))
    {
        ngx_mcds_table_memory_free(memory);
        return;
    }

    if (memory->value) {
        ngx_mcds_index_resize(&ngx_mcds_table_memories, &memory->node,
                              memory->node.size + sizeof(ngx_mcds_value_t)
                              + memory->value->len);
    }

    ngx_mcds_index_idle(&ngx_mcds_table_memories, &memory->node);
}

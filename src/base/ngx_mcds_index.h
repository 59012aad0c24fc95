
/*
 * Copyright (C) mcds authors
 *
 * A map of a worker from a pool and a key to a node, which is a member of a
 * struct of the caller.
 *
 * Ownership.  The caller allocates and frees the node, and its key; the index
 * allocates nothing.  A node that is in an index keeps its pool, key and hash.
 *
 * Busy and idle.  A node is busy when it is inserted.  A busy node stays until
 * the caller removes it.  A node that the caller has made idle may be dropped:
 * the index removes it and calls "drop", which frees it.  Idle nodes are in the
 * order of their last use, and the least recently used one is dropped first.
 *
 * Bounds.  "max" and "max_size" limit the number of all nodes, and the sum of
 * their sizes, which the caller states in bytes.  An insertion drops idle nodes
 * to make room, and fails with NGX_BUSY if there are none and still no room.
 * "max_idle" and "max_idle_size" limit the idle nodes alone.  A node that
 * becomes idle may be dropped before the call returns, if it alone exceeds a
 * bound.
 */


#ifndef _NGX_MCDS_INDEX_H_INCLUDED_
#define _NGX_MCDS_INDEX_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_hash.h"


typedef struct ngx_mcds_index_node_s  ngx_mcds_index_node_t;


struct ngx_mcds_index_node_s {
    ngx_mcds_index_node_t   *next;       /* of the bucket */
    ngx_mcds_index_node_t  **link;       /* the pointer to this node; NULL: it
                                            is in no index */
    ngx_queue_t              queue;      /* while it is idle */
    void                    *pool;
    ngx_str_t                key;
    size_t                   size;
    uint32_t                 hash;       /* of the key, and of all else by which
                                            nodes differ */
    unsigned                 idle:1;
};


typedef void (*ngx_mcds_index_drop_pt)(ngx_mcds_index_node_t *node);


typedef struct {
    ngx_mcds_index_node_t  **buckets;
    ngx_uint_t               mask;

    ngx_uint_t               max;
    size_t                   max_size;
    ngx_uint_t               max_idle;
    size_t                   max_idle_size;
    ngx_mcds_index_drop_pt   drop;       /* NULL: no node is ever idle */

    ngx_uint_t               count;
    size_t                   size;
    ngx_uint_t               idle_count;
    size_t                   idle_size;
    ngx_queue_t              idle;       /* the least recently used last */
} ngx_mcds_index_t;


/*
 * An empty index.  buckets: a static array of pointers to nodes, whose number
 * of elements is a power of two, about a quarter of the nodes to be expected.
 */

#define ngx_mcds_index(buckets, max, max_size, max_idle, max_idle_size, drop) \
    { buckets, sizeof(buckets) / sizeof(buckets[0]) - 1,                      \
      max, max_size, max_idle, max_idle_size, drop,                           \
      0, 0, 0, 0, { NULL, NULL } }

#define ngx_mcds_index_data(node, type, member)                               \
    (type *) ((u_char *) (node) - offsetof(type, member))


/* the node that was inserted last of those with this pool, key and hash */

ngx_mcds_index_node_t *ngx_mcds_index_find(ngx_mcds_index_t *index, void *pool,
    ngx_str_t *key, uint32_t hash);

/* the one with the same pool, key and hash that was inserted before it */

ngx_mcds_index_node_t *ngx_mcds_index_next(ngx_mcds_index_node_t *node);

/*
 * Inserts a node.  The text of the key is not copied.  NGX_BUSY: there is no
 * room; the node is as if it had been removed.
 */

ngx_int_t ngx_mcds_index_insert(ngx_mcds_index_t *index,
    ngx_mcds_index_node_t *node, void *pool, ngx_str_t *key, uint32_t hash,
    size_t size);

/* removes a node, busy, idle or in no index, without a call of drop */

void ngx_mcds_index_remove(ngx_mcds_index_t *index,
    ngx_mcds_index_node_t *node);

/* a busy node is not used any longer, of an idle one: it was used just now */

void ngx_mcds_index_idle(ngx_mcds_index_t *index, ngx_mcds_index_node_t *node);

/* an idle node is used again */

void ngx_mcds_index_busy(ngx_mcds_index_t *index, ngx_mcds_index_node_t *node);

/* changes the size of a busy node, even beyond the bounds */

void ngx_mcds_index_resize(ngx_mcds_index_t *index,
    ngx_mcds_index_node_t *node, size_t size);

/*
 * Calls the handler for each node, in no order.  The handler may remove and
 * free the node that it is called for, and no other one.
 */

void ngx_mcds_index_walk(ngx_mcds_index_t *index,
    void (*handler)(ngx_mcds_index_node_t *node, void *data), void *data);


#endif /* _NGX_MCDS_INDEX_H_INCLUDED_ */

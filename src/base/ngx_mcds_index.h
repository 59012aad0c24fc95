
/*
 * Copyright (C) mcds authors
 *
 * A worker's map from a pool and a key to a node, which is a member of a struct
 * of the caller.
 *
 * Ownership.  The caller allocates and frees the node and its key; the index
 * allocates nothing.  The pool, key and hash of a node must not change while
 * the node is in an index.
 *
 * Busy and idle.  A node is busy when it is inserted.  A busy node stays until
 * the caller removes it.  A node that the caller has made idle may be dropped:
 * the index removes it and calls "drop", which frees it.  The least recently
 * used idle node is dropped first.
 *
 * Bounds.  "max" and "max_size" limit the number of all nodes and the sum of
 * their sizes, which the caller states in bytes.  An insertion drops idle nodes
 * to make room; if there is no idle node and no room, it fails with NGX_BUSY.
 * "max_idle" and "max_idle_size" limit the idle nodes alone.  A node that
 * becomes idle may be dropped before the call returns, if this node alone
 * exceeds a bound.
 */


#ifndef _NGX_MCDS_INDEX_H_INCLUDED_
#define _NGX_MCDS_INDEX_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_hash.h"


typedef struct ngx_mcds_index_node_s  ngx_mcds_index_node_t;


struct ngx_mcds_index_node_s {
    ngx_mcds_index_node_t   *next;       /* the next node in the same bucket of
                                            the index */
    ngx_mcds_index_node_t  **link;       /* address of the pointer to this node,
                                            in the bucket or the previous node;
                                            NULL if the node is in no index */
    ngx_queue_t              queue;      /* link in the index's queue of idle
                                            nodes; used only if idle is set */
    void                    *pool;
    ngx_str_t                key;
    size_t                   size;
    uint32_t                 hash;       /* hash of the node's key and of other
                                            values by which the caller tells
                                            nodes apart */
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
    ngx_mcds_index_drop_pt   drop;       /* handler that frees an idle node
                                            dropped for lack of room; NULL if no
                                            node is ever idle */

    ngx_uint_t               count;
    size_t                   size;
    ngx_uint_t               idle_count;
    size_t                   idle_size;
    ngx_queue_t              idle;       /* queue of idle nodes, which may be
                                            dropped, the least recently used one
                                            last */
} ngx_mcds_index_t;


/*
 * The initial value of an index without nodes.  buckets is a static array of
 * pointers to nodes; its number of elements is a power of two, about a quarter
 * of the expected nodes.
 */

#define ngx_mcds_index(buckets, max, max_size, max_idle, max_idle_size, drop) \
    { buckets, sizeof(buckets) / sizeof(buckets[0]) - 1,                      \
      max, max_size, max_idle, max_idle_size, drop,                           \
      0, 0, 0, 0, { NULL, NULL } }

#define ngx_mcds_index_data(node, type, member)                               \
    (type *) ((u_char *) (node) - offsetof(type, member))


/*
 * Returns the node of the index with this pool, key and hash that was inserted
 * last, or NULL.
 */

ngx_mcds_index_node_t *ngx_mcds_index_find(ngx_mcds_index_t *index, void *pool,
    ngx_str_t *key, uint32_t hash);

/*
 * Returns the node of the index with the same pool, key and hash that was
 * inserted before the given one, or NULL.
 */

ngx_mcds_index_node_t *ngx_mcds_index_next(ngx_mcds_index_node_t *node);

/*
 * Inserts a node into the index, as busy: it cannot be dropped until it is made
 * idle.  The text of the key is not copied.  Returns NGX_BUSY if the index is
 * full; the node is then in no index.
 */

ngx_int_t ngx_mcds_index_insert(ngx_mcds_index_t *index,
    ngx_mcds_index_node_t *node, void *pool, ngx_str_t *key, uint32_t hash,
    size_t size);

/*
 * Removes a busy or idle node from the index, without calling drop, the handler
 * that frees a node.  Does nothing if the node is in no index.
 */

void ngx_mcds_index_remove(ngx_mcds_index_t *index,
    ngx_mcds_index_node_t *node);

/*
 * Makes a node of the index idle, so that the index may drop it.  The node,
 * even one that is idle already, becomes the most recently used idle node.
 * Idle nodes beyond the bounds of the index are dropped, possibly this one.
 */

void ngx_mcds_index_idle(ngx_mcds_index_t *index, ngx_mcds_index_node_t *node);

/*
 * Makes an idle node busy: from now on the index must not drop (remove and
 * free) the node to make room for others.  Has no effect on a busy node.
 */

void ngx_mcds_index_busy(ngx_mcds_index_t *index, ngx_mcds_index_node_t *node);

/*
 * Changes the size, in bytes, that the index counts for a busy node, and drops
 * no node: the sum of the sizes of all nodes may then exceed max_size.
 */

void ngx_mcds_index_resize(ngx_mcds_index_t *index,
    ngx_mcds_index_node_t *node, size_t size);

/*
 * Calls the handler for each node of the index, in no particular order.  The
 * handler may remove and free the node that it is called with, and no other
 * node.
 */

void ngx_mcds_index_walk(ngx_mcds_index_t *index,
    void (*handler)(ngx_mcds_index_node_t *node, void *data), void *data);


#endif /* _NGX_MCDS_INDEX_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * Pools, arrays and trees.  All that comes out of a pool is a block of its own,
 * so that tools which watch memory see each of them.
 */


#include <ngx_config.h>
#include <ngx_core.h>


static void ngx_tool_replace(ngx_rbtree_t *tree, ngx_rbtree_node_t *node,
    ngx_rbtree_node_t *other);


void *
ngx_alloc(size_t size, ngx_log_t *log)
{
    void  *p;

    p = malloc(size ? size : 1);

    if (p == NULL) {
        ngx_log_error(NGX_LOG_EMERG, log, ngx_errno,
                      "malloc(%uz) failed", size);
    }

    return p;
}


void *
ngx_calloc(size_t size, ngx_log_t *log)
{
    void  *p;

    p = ngx_alloc(size, log);

    if (p) {
        ngx_memzero(p, size);
    }

    return p;
}


ngx_pool_t *
ngx_create_pool(size_t size, ngx_log_t *log)
{
    ngx_pool_t  *pool;

    pool = ngx_calloc(sizeof(ngx_pool_t), log);

    if (pool) {
        pool->current = pool;
        pool->log = log;
    }

    return pool;
}


void
ngx_destroy_pool(ngx_pool_t *pool)
{
    ngx_pool_large_t    *l, *next;
    ngx_pool_cleanup_t  *c;

    for (c = pool->cleanup; c; c = c->next) {
        if (c->handler) {
            c->handler(c->data);
        }
    }

    for (l = pool->large; l; l = next) {
        next = l->next;
        ngx_free(l);
    }

    ngx_free(pool);
}


/* data stands behind the link, aligned as malloc() does it */

void *
ngx_palloc(ngx_pool_t *pool, size_t size)
{
    ngx_pool_large_t  *l;

    l = ngx_alloc(sizeof(ngx_pool_large_t) + size, pool->log);
    if (l == NULL) {
        return NULL;
    }

    l->alloc = (u_char *) l + sizeof(ngx_pool_large_t);
    l->next = pool->large;
    pool->large = l;

    return l->alloc;
}


void *
ngx_pnalloc(ngx_pool_t *pool, size_t size)
{
    return ngx_palloc(pool, size);
}


void *
ngx_pcalloc(ngx_pool_t *pool, size_t size)
{
    void  *p;

    p = ngx_palloc(pool, size);

    if (p) {
        ngx_memzero(p, size);
    }

    return p;
}


ngx_int_t
ngx_pfree(ngx_pool_t *pool, void *p)
{
    ngx_pool_large_t  *l, **prev;

    for (prev = &pool->large; *prev; prev = &(*prev)->next) {
        l = *prev;

        if (l->alloc == p) {
            *prev = l->next;
            ngx_free(l);
            return NGX_OK;
        }
    }

    return NGX_DECLINED;
}


ngx_pool_cleanup_t *
ngx_pool_cleanup_add(ngx_pool_t *pool, size_t size)
{
    ngx_pool_cleanup_t  *c;

    c = ngx_pcalloc(pool, sizeof(ngx_pool_cleanup_t));
    if (c == NULL) {
        return NULL;
    }

    if (size) {
        c->data = ngx_palloc(pool, size);

        if (c->data == NULL) {
            return NULL;
        }
    }

    c->next = pool->cleanup;
    pool->cleanup = c;

    return c;
}


ngx_array_t *
ngx_array_create(ngx_pool_t *pool, ngx_uint_t n, size_t size)
{
    ngx_array_t  *a;

    a = ngx_palloc(pool, sizeof(ngx_array_t));

    if (a == NULL || ngx_array_init(a, pool, n, size) != NGX_OK) {
        return NULL;
    }

    return a;
}


void *
ngx_array_push(ngx_array_t *a)
{
    return ngx_array_push_n(a, 1);
}


void *
ngx_array_push_n(ngx_array_t *a, ngx_uint_t n)
{
    void        *elts;
    ngx_uint_t   nalloc;

    if (a->nelts + n > a->nalloc) {
        nalloc = 2 * (a->nelts + n);

        elts = ngx_palloc(a->pool, nalloc * a->size);
        if (elts == NULL) {
            return NULL;
        }

        /* the old ones stay in the pool, as with nginx */

        ngx_memcpy(elts, a->elts, a->nelts * a->size);

        a->elts = elts;
        a->nalloc = nalloc;
    }

    elts = (u_char *) a->elts + a->nelts * a->size;
    a->nelts += n;

    return elts;
}


/*
 * Trees are not kept in balance: a program has a few timers and servers, no
 * thousands of connections.
 */

void
ngx_rbtree_insert(ngx_rbtree_t *tree, ngx_rbtree_node_t *node)
{
    if (tree->root == tree->sentinel) {
        node->parent = NULL;
        node->left = tree->sentinel;
        node->right = tree->sentinel;
        tree->root = node;
        return;
    }

    tree->insert(tree->root, node, tree->sentinel);
}


void
ngx_rbtree_insert_value(ngx_rbtree_node_t *root, ngx_rbtree_node_t *node,
    ngx_rbtree_node_t *sentinel)
{
    ngx_rbtree_node_t  **place;

    for ( ;; ) {
        place = (node->key < root->key) ? &root->left : &root->right;

        if (*place == sentinel) {
            break;
        }

        root = *place;
    }

    *place = node;
    node->parent = root;
    node->left = sentinel;
    node->right = sentinel;
}


void
ngx_rbtree_insert_timer_value(ngx_rbtree_node_t *root,
    ngx_rbtree_node_t *node, ngx_rbtree_node_t *sentinel)
{
    ngx_rbtree_node_t  **place;

    for ( ;; ) {
        place = ((ngx_rbtree_key_int_t) (node->key - root->key) < 0)
                ? &root->left : &root->right;

        if (*place == sentinel) {
            break;
        }

        root = *place;
    }

    *place = node;
    node->parent = root;
    node->left = sentinel;
    node->right = sentinel;
}


void
ngx_rbtree_delete(ngx_rbtree_t *tree, ngx_rbtree_node_t *node)
{
    ngx_rbtree_node_t  *next;

    if (node->left == tree->sentinel) {
        ngx_tool_replace(tree, node, node->right);
        return;
    }

    if (node->right == tree->sentinel) {
        ngx_tool_replace(tree, node, node->left);
        return;
    }

    /* the next one in order, which has no left child, takes its place */

    next = ngx_rbtree_min(node->right, tree->sentinel);

    if (next->parent != node) {
        ngx_tool_replace(tree, next, next->right);
        next->right = node->right;
        next->right->parent = next;
    }

    ngx_tool_replace(tree, node, next);
    next->left = node->left;
    next->left->parent = next;
}


static void
ngx_tool_replace(ngx_rbtree_t *tree, ngx_rbtree_node_t *node,
    ngx_rbtree_node_t *other)
{
    if (node == tree->root) {
        tree->root = other;

    } else if (node == node->parent->left) {
        node->parent->left = other;

    } else {
        node->parent->right = other;
    }

    if (other != tree->sentinel) {
        other->parent = (other == tree->root) ? NULL : node->parent;
    }
}


void
ngx_str_rbtree_insert_value(ngx_rbtree_node_t *root, ngx_rbtree_node_t *node,
    ngx_rbtree_node_t *sentinel)
{
    ngx_int_t            rc;
    ngx_str_node_t      *n, *t;
    ngx_rbtree_node_t  **place;

    for ( ;; ) {
        n = (ngx_str_node_t *) node;
        t = (ngx_str_node_t *) root;

        rc = (node->key > root->key) - (node->key < root->key);

        if (rc == 0) {
            rc = ngx_memn2cmp(n->str.data, t->str.data, n->str.len,
                              t->str.len);
        }

        place = (rc < 0) ? &root->left : &root->right;

        if (*place == sentinel) {
            break;
        }

        root = *place;
    }

    *place = node;
    node->parent = root;
    node->left = sentinel;
    node->right = sentinel;
}


ngx_str_node_t *
ngx_str_rbtree_lookup(ngx_rbtree_t *tree, ngx_str_t *name, uint32_t hash)
{
    ngx_int_t           rc;
    ngx_str_node_t     *n;
    ngx_rbtree_node_t  *node;

    node = tree->root;

    while (node != tree->sentinel) {
        n = (ngx_str_node_t *) node;

        rc = (hash > node->key) - (hash < node->key);

        if (rc == 0) {
            rc = ngx_memn2cmp(name->data, n->str.data, name->len, n->str.len);
        }

        if (rc == 0) {
            return n;
        }

        node = (rc < 0) ? node->left : node->right;
    }

    return NULL;
}

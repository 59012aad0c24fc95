
/*
 * Copyright (C) mcds authors
 *
 * The lists of tags that a worker remembers for its pages.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_index.h"
#include "ngx_mcds_tag.h"


/*
 * the index of the lists of tags, one for each page, that a worker remembers:
 * its hash buckets, and the maximum number and total bytes of the lists
 */
#define NGX_MCDS_TAG_BUCKETS      1024
#define NGX_MCDS_TAG_LISTS        4096
#define NGX_MCDS_TAG_SIZE         (8 * 1024 * 1024)


typedef struct {
    ngx_mcds_index_node_t node;        /* node in the index of pages' lists of
                                          tags; always idle: the index may drop
                                          any list to make room for new ones */
    ngx_str_t             list;
} ngx_mcds_tag_list_t;


static void ngx_mcds_tags_drop(ngx_mcds_index_node_t *node);


/* the lists of pages' tags that this worker remembers */

static ngx_mcds_index_node_t  *ngx_mcds_tag_buckets[NGX_MCDS_TAG_BUCKETS];
static ngx_mcds_index_t  ngx_mcds_tag_lists =
    ngx_mcds_index(ngx_mcds_tag_buckets, NGX_MCDS_TAG_LISTS, NGX_MCDS_TAG_SIZE,
                   NGX_MCDS_TAG_LISTS, NGX_MCDS_TAG_SIZE, ngx_mcds_tags_drop);


void
ngx_mcds_tags_remember(ngx_mcds_pool_t *pool, ngx_str_t *key, ngx_str_t *list)
{
    size_t                  size;
    u_char                 *p;
    uint32_t                hash;
    ngx_str_t               text;
    ngx_mcds_tag_list_t    *known;
    ngx_mcds_index_node_t  *node;

    if (list->len > NGX_MCDS_TAG_LEN) {
        return;
    }

    hash = ngx_mcds_hash(key->data, key->len);

    node = ngx_mcds_index_find(&ngx_mcds_tag_lists, pool, key, hash);

    if (node) {
        known = ngx_mcds_index_data(node, ngx_mcds_tag_list_t, node);

        if (known->list.len == list->len
            && ngx_memcmp(known->list.data, list->data, list->len) == 0)
        {
            ngx_mcds_index_idle(&ngx_mcds_tag_lists, node);
            return;
        }

        ngx_mcds_index_remove(&ngx_mcds_tag_lists, node);
        ngx_free(known);
    }

    size = sizeof(ngx_mcds_tag_list_t) + key->len + list->len;

    known = ngx_alloc(size, ngx_cycle->log);
    if (known == NULL) {
        return;
    }

    p = (u_char *) known + sizeof(ngx_mcds_tag_list_t);

    text.data = p;
    text.len = key->len;
    p = ngx_cpymem(p, key->data, key->len);

    known->list.data = p;
    known->list.len = list->len;
    ngx_memcpy(p, list->data, list->len);

    if (ngx_mcds_index_insert(&ngx_mcds_tag_lists, &known->node, pool, &text,
                              hash, size)
        != NGX_OK)
    {
        ngx_free(known);
        return;
    }

    ngx_mcds_index_idle(&ngx_mcds_tag_lists, &known->node);
}


static void
ngx_mcds_tags_drop(ngx_mcds_index_node_t *node)
{
    ngx_free(ngx_mcds_index_data(node, ngx_mcds_tag_list_t, node));
}


void
ngx_mcds_tags_remembered(ngx_mcds_pool_t *pool, ngx_str_t *key,
    ngx_str_t *list)
{
    ngx_mcds_tag_list_t    *known;
    ngx_mcds_index_node_t  *node;

    node = ngx_mcds_index_find(&ngx_mcds_tag_lists, pool, key,
                               ngx_mcds_hash(key->data, key->len));

    ngx_str_null(list);

    if (node) {
        known = ngx_mcds_index_data(node, ngx_mcds_tag_list_t, node);
        *list = known->list;
    }
}


/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_body_cut.h"
#include "ngx_mcds_part.h"


/*
 * the parts of a body that are being removed from memcached, some of them at a
 * time
 */

typedef struct {
    ngx_mcds_pool_t     *pool;
    ngx_str_t            key;
    ngx_mcds_cut_t       cut;
    uint32_t             linger;
    uint32_t             next;        /* index of the part to remove next */
    ngx_mcds_op_t        op;
} ngx_mcds_drop_t;


static void ngx_mcds_body_drop_send(ngx_mcds_drop_t *drop);
static void ngx_mcds_body_dropped(void *data, ngx_mcds_result_t *result);


void
ngx_mcds_body_cut(ngx_mcds_entry_t *entry, ngx_mcds_cut_t *cut)
{
    cut->generation = entry->generation;
    cut->total = entry->total;
    cut->parts = entry->parts;
    cut->part = entry->part;
}


ngx_uint_t
ngx_mcds_body_same(ngx_mcds_cut_t *cut, ngx_mcds_entry_t *entry)
{
    return cut->generation == entry->generation;
}


void
ngx_mcds_body_drop(ngx_mcds_pool_t *pool, ngx_str_t *key,
    ngx_mcds_cut_t *cut, uint32_t linger)
{
    ngx_mcds_drop_t  *drop;

    if (cut->parts == 0) {
        return;
    }

    drop = ngx_calloc(sizeof(ngx_mcds_drop_t) + key->len, ngx_cycle->log);
    if (drop == NULL) {
        return;
    }

    drop->pool = pool;
    drop->key.len = key->len;
    drop->key.data = (u_char *) drop + sizeof(ngx_mcds_drop_t);
    ngx_memcpy(drop->key.data, key->data, key->len);

    drop->cut = *cut;
    drop->linger = linger;
    drop->op.handler = ngx_mcds_body_dropped;
    drop->op.data = drop;

    ngx_mcds_body_drop_send(drop);
}


static void
ngx_mcds_body_drop_send(ngx_mcds_drop_t *drop)
{
    u_char              suffix[NGX_MCDS_PART_SUFFIX];
    ngx_uint_t          n, left;
    ngx_mcds_op_t      *op;
    ngx_mcds_request_t  req;

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    /*
     * the commands that remove parts of a body use the connection over which
     * the parts were stored, the one for large values, so that memcached stores
     * a part before it removes the part
     */

    req.verb = drop->linger ? NGX_MCDS_TOUCH : NGX_MCDS_DELETE;
    req.key = drop->key;
    req.suffix.data = suffix;
    req.ttl = drop->linger;
    req.by_key = 1;
    req.bulk = 1;
    req.page = 1;
    req.movable = 1;

    left = drop->cut.parts - drop->next;
    n = ngx_mcds_pool_batch(drop->pool, 0);

    if (n >= left) {
        n = left;
        op = NULL;

    } else {
        op = &drop->op;
    }

    /*
     * the commands for all parts of a body use one connection, so that the
     * reply to the last command comes after the others
     */

    while (n--) {
        ngx_mcds_part_suffix(&req.suffix, drop->cut.generation, drop->next++);

        ngx_mcds_submit(drop->pool, &req, n ? NULL : op);
    }

    if (op == NULL) {
        ngx_free(drop);
    }
}


static void
ngx_mcds_body_dropped(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_body_drop_send(data);
}

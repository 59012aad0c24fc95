
/*
 * Copyright (C) mcds authors
 *
 * Deletes parts, items with older lines of an array, to which the array's head
 * item no longer refers, or to which it has never referred.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_array.h"
#include "ngx_mcds_array_core.h"


/* the maximum number of parts that one drop deletes at once, with replies */
#define NGX_MCDS_ARRAY_DROPS      8


typedef struct {
    ngx_mcds_pool_t         *pool;
    ngx_str_t                key;
    ngx_mcds_array_ref_t    *ref;
    ngx_uint_t               n;
    ngx_uint_t               next;
    ngx_uint_t               unanswered;
    ngx_mcds_op_t            ops[NGX_MCDS_ARRAY_DROPS];
} ngx_mcds_array_drop_t;


static void ngx_mcds_array_drop_send(ngx_mcds_array_drop_t *drop);
static void ngx_mcds_array_drop_part(ngx_mcds_pool_t *pool, ngx_str_t *key,
    ngx_mcds_array_ref_t *ref, ngx_mcds_op_t *op);
static void ngx_mcds_array_dropped(void *data, ngx_mcds_result_t *result);


void
ngx_mcds_array_drop(ngx_mcds_array_t *array, ngx_mcds_array_ref_t *ref,
    ngx_uint_t n)
{
    u_char                 *p;
    ngx_uint_t              i;
    ngx_mcds_array_drop_t  *drop;

    if (n <= ngx_mcds_pool_batch(array->pool, 0)) {

        for (i = 0; i < n; i++) {
            ngx_mcds_array_drop_part(array->pool, &array->key, &ref[i], NULL);
        }

        return;
    }

    drop = ngx_calloc(sizeof(ngx_mcds_array_drop_t)
                      + n * sizeof(ngx_mcds_array_ref_t) + array->key.len,
                      ngx_cycle->log);
    if (drop == NULL) {
        return;
    }

    p = (u_char *) drop + sizeof(ngx_mcds_array_drop_t);

    drop->pool = array->pool;
    drop->n = n;

    drop->ref = (ngx_mcds_array_ref_t *) p;
    p = ngx_cpymem(p, ref, n * sizeof(ngx_mcds_array_ref_t));

    drop->key.data = p;
    drop->key.len = array->key.len;
    ngx_memcpy(p, array->key.data, array->key.len);

    for (i = 0; i < NGX_MCDS_ARRAY_DROPS; i++) {
        drop->ops[i].handler = ngx_mcds_array_dropped;
        drop->ops[i].data = drop;
    }

    ngx_mcds_array_drop_send(drop);
}


/*
 * Sends as many commands of a drop as max_pending of the pool leaves room for.
 * The parts of an array are on several servers, so all replies are awaited.
 */

static void
ngx_mcds_array_drop_send(ngx_mcds_array_drop_t *drop)
{
    ngx_uint_t      batch;
    ngx_mcds_op_t  *op;

    batch = ngx_mcds_pool_batch(drop->pool, 0);
    batch = ngx_min(batch, NGX_MCDS_ARRAY_DROPS);

    while (drop->unanswered < batch && drop->next < drop->n) {

        for (op = drop->ops; ngx_mcds_op_active(op); op++) { /* void */ }

        ngx_mcds_array_drop_part(drop->pool, &drop->key,
                                 &drop->ref[drop->next++], op);
        drop->unanswered++;
    }

    if (drop->unanswered == 0) {
        ngx_free(drop);
    }
}


static void
ngx_mcds_array_drop_part(ngx_mcds_pool_t *pool, ngx_str_t *key,
    ngx_mcds_array_ref_t *ref, ngx_mcds_op_t *op)
{
    u_char              buf[1 + NGX_MCDS_ARRAY_ID];
    ngx_mcds_request_t  req;

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.verb = NGX_MCDS_DELETE;
    req.key = *key;
    ngx_mcds_array_part_suffix(&req.suffix, buf, ref->id);

    ngx_mcds_submit(pool, &req, op);
}


static void
ngx_mcds_array_dropped(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_array_drop_t *drop = data;

    drop->unanswered--;

    ngx_mcds_array_drop_send(drop);
}

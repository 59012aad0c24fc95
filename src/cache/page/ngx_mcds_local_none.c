
/*
 * Copyright (C) mcds authors
 *
 * Replaces ngx_mcds_local.c and ngx_mcds_claim.c if mcds is compiled without
 * "local" (MCDS_WITHOUT): the host keeps no copies of pages, and no worker
 * knows which pages the other workers build.  The code of pages, which calls
 * these functions at some thirty places, acts on their results as on a host
 * without a zone (mcds_zone).
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_local.h"


ngx_mcds_local_t *
ngx_mcds_local_create(ngx_slab_pool_t *shpool)
{
    return NULL;
}


void
ngx_mcds_local_attach(ngx_mcds_local_t *local, ngx_slab_pool_t *shpool)
{
    /* void */
}


void
ngx_mcds_local_id(u_char *id, ngx_str_t *pool, ngx_str_t *prefix,
    ngx_str_t *key)
{
    /* void */
}


ngx_int_t
ngx_mcds_local_claim(ngx_mcds_hold_t *hold, ngx_msec_t age, ngx_uint_t at_once,
    ngx_mcds_local_left_t *left)
{
    return NGX_DECLINED;
}


ngx_int_t
ngx_mcds_local_look(u_char *id, ngx_uint_t wait, ngx_mcds_local_left_t *left)
{
    return NGX_DECLINED;
}


ngx_uint_t
ngx_mcds_local_wanted(ngx_mcds_hold_t *hold)
{
    return 0;
}


void
ngx_mcds_local_release(ngx_mcds_hold_t *hold, ngx_mcds_local_left_t *left)
{
    /* void */
}


ngx_int_t
ngx_mcds_local_put(u_char *id, ngx_mcds_value_t *value,
    ngx_mcds_item_id_t *item_id)
{
    return NGX_DECLINED;
}


ngx_mcds_value_t *
ngx_mcds_local_get(u_char *id, ngx_mcds_item_id_t *item_id, ngx_msec_t age,
    ngx_mcds_item_id_t *found)
{
    return NULL;
}


ngx_uint_t
ngx_mcds_local_place(ngx_str_t *key)
{
    return 0;
}


ngx_atomic_uint_t
ngx_mcds_local_purges(ngx_uint_t place)
{
    return 0;
}


void
ngx_mcds_local_purged(ngx_str_t *pool, ngx_str_t *prefix, ngx_str_t *key,
    ngx_uint_t forget)
{
    /* void */
}


void
ngx_mcds_local_forget(u_char *id, ngx_mcds_item_id_t *item_id, uint64_t asked)
{
    /* void */
}


void *
ngx_mcds_local_room(ngx_mcds_local_t *local, ngx_slab_pool_t *shpool,
    size_t size)
{
    return ngx_slab_calloc(shpool, size);
}


size_t
ngx_mcds_local_size(void)
{
    return 0;
}


/*
 * Copyright (C) mcds authors
 *
 * The memory that the workers of this host share.  Holds no pointers: two
 * generations of workers see it at different times of their lives.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_module.h"


#define NGX_HTTP_MCDS_ZONE_SIZE   (8 * 1024 * 1024)
#define NGX_HTTP_MCDS_SEQUENCES   1024

/* another number for another layout: a new binary then makes it anew */
#define NGX_HTTP_MCDS_ZONE_LAYOUT 1


typedef struct {
    ngx_uint_t      layout;
    ngx_atomic_t    sequences[NGX_HTTP_MCDS_SEQUENCES];
} ngx_http_mcds_shared_t;


static ngx_int_t ngx_http_mcds_zone_init(ngx_shm_zone_t *zone, void *data);


ngx_int_t
ngx_http_mcds_zone_add(ngx_conf_t *cf, ngx_http_mcds_main_conf_t *mmcf)
{
    ngx_str_t  name;

    ngx_str_set(&name, "mcds");

    mmcf->zone = ngx_shared_memory_add(cf, &name,
                                       mmcf->zone_size
                                           ? mmcf->zone_size
                                           : NGX_HTTP_MCDS_ZONE_SIZE,
                                       &ngx_http_mcds_module);
    if (mmcf->zone == NULL) {
        return NGX_ERROR;
    }

    mmcf->zone->init = ngx_http_mcds_zone_init;
    mmcf->zone->data = mmcf;

    return NGX_OK;
}


static ngx_int_t
ngx_http_mcds_zone_init(ngx_shm_zone_t *zone, void *data)
{
    ngx_slab_pool_t         *shpool;
    ngx_http_mcds_shared_t  *shared;

    shpool = (ngx_slab_pool_t *) zone->shm.addr;

    if (data || zone->shm.exists) {

        /* the same memory again, from the cycle before */

        shared = shpool->data;

        if (shared && shared->layout == NGX_HTTP_MCDS_ZONE_LAYOUT) {
            return NGX_OK;
        }
    }

    shared = ngx_slab_calloc(shpool, sizeof(ngx_http_mcds_shared_t));
    if (shared == NULL) {
        return NGX_ERROR;
    }

    shared->layout = NGX_HTTP_MCDS_ZONE_LAYOUT;
    shpool->data = shared;

    return NGX_OK;
}


void
ngx_http_mcds_zone_attach(ngx_http_mcds_main_conf_t *mmcf)
{
    ngx_slab_pool_t         *shpool;
    ngx_http_mcds_shared_t  *shared;

    shpool = (ngx_slab_pool_t *) mmcf->zone->shm.addr;
    shared = shpool->data;

    ngx_mcds_page_share(shared->sequences, NGX_HTTP_MCDS_SEQUENCES);
}

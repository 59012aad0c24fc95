
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_body_cut.h"
#include "ngx_mcds_part.h"


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
    u_char              suffix[NGX_MCDS_PART_SUFFIX];
    uint32_t            n;
    ngx_mcds_request_t  req;

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    /*
     * the commands that remove parts of a body use the connection over which
     * the parts were stored, the one for large values, so that memcached stores
     * a part before it removes the part
     */

    req.verb = linger ? NGX_MCDS_TOUCH : NGX_MCDS_DELETE;
    req.key = *key;
    req.suffix.data = suffix;
    req.ttl = linger;
    req.by_key = 1;
    req.bulk = 1;
    req.page = 1;
    req.movable = 1;

    for (n = 0; n < cut->parts; n++) {
        ngx_mcds_part_suffix(&req.suffix, cut->generation, n);

        ngx_mcds_submit(pool, &req, NULL);
    }
}

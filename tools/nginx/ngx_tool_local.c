
/*
 * Copyright (C) mcds authors
 *
 * The tool has no workers that keep copies of pages.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_local.h"


void
ngx_mcds_local_purged(ngx_str_t *pool, ngx_str_t *key, ngx_uint_t forget)
{
    (void) pool;
    (void) key;
    (void) forget;
}


/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_log_spot.h"


void
ngx_mcds_log_turn(ngx_mcds_log_spots_t *spots, uint64_t chunk)
{
    ngx_mcds_log_spot_t  at, *spot;

    at = spots->at;

    if (at.chunk == chunk) {
        return;
    }

    spot = ngx_mcds_log_spot(spots, chunk);

    if (spot) {
        spots->at = *spot;
        *spot = at;
        return;
    }

    ngx_memzero(&spots->at, sizeof(ngx_mcds_log_spot_t));
    spots->at.chunk = chunk;

    spots->others[spots->next] = at;
    spots->next = (spots->next + 1) % NGX_MCDS_LOG_SPOTS;
}


ngx_mcds_log_spot_t *
ngx_mcds_log_spot(ngx_mcds_log_spots_t *spots, uint64_t chunk)
{
    ngx_uint_t  i;

    if (spots->at.chunk == chunk) {
        return &spots->at;
    }

    for (i = 0; i < NGX_MCDS_LOG_SPOTS; i++) {
        if (spots->others[i].chunk == chunk) {
            return &spots->others[i];
        }
    }

    return NULL;
}

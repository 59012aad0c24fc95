
/*
 * Copyright (C) mcds authors
 *
 * The time window of a list of the most frequent keys is divided into slots.
 * Computes the number of the slot at a time, and the key and the time to live
 * of the memcached item that has the counts of a slot.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_top_core.h"


/*
 * the time by which the item with the counts of keys in one slot (part of the
 * window) outlives its use, as the clocks of hosts differ; seconds
 */
#define NGX_MCDS_TOP_SPARE        60


uint64_t
ngx_mcds_top_slot(ngx_mcds_top_t *top, time_t now)
{
    return now / (top->window / top->slots);
}


uint32_t
ngx_mcds_top_ttl(ngx_mcds_top_t *top, uint64_t slot, time_t now)
{
    int64_t  ttl;

    ttl = (int64_t) (slot + top->slots) * (top->window / top->slots) - now;

    if (ttl <= 0) {
        return 0;
    }

    return ngx_min(ttl + NGX_MCDS_TOP_SPARE, NGX_MCDS_MAX_TTL);
}


void
ngx_mcds_top_request(ngx_mcds_top_t *top, uint64_t slot,
    ngx_mcds_request_t *req, u_char *suffix)
{
    ngx_memzero(req, sizeof(ngx_mcds_request_t));

    req->key = top->key;
    req->suffix.data = suffix;
    req->suffix.len = ngx_sprintf(suffix, ":top:%uL", slot) - suffix;
}


/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_newer.h"
#include "ngx_mcds_purge.h"
#include "ngx_mcds_skew.h"


/*
 * the tolerance, ms, when two items of a page are compared by the times when
 * the origin was requested: each of these times is computed, as the time of the
 * response less the time that the origin took
 */
#define NGX_MCDS_NEWER_SLACK      3


static uint64_t ngx_mcds_newer_time(ngx_mcds_entry_t *entry);


ngx_uint_t
ngx_mcds_newer(ngx_str_t *key, ngx_mcds_result_t *a, ngx_mcds_result_t *b)
{
    char              *why;
    ngx_mcds_entry_t   first, second;

    if (ngx_mcds_entry_read(&second, b->data, b->len, key, &why) != NGX_OK) {
        return 0;
    }

    if (ngx_mcds_entry_read(&first, a->data, a->len, key, &why) != NGX_OK) {
        return 1;
    }

    return ngx_mcds_newer_time(&second)
           > ngx_mcds_newer_time(&first) + NGX_MCDS_NEWER_SLACK;
}


uint64_t
ngx_mcds_newer_after(ngx_mcds_entry_t *entry, uint64_t now)
{
    uint64_t  time;

    time = ngx_mcds_newer_time(entry);

    return (time > now) ? time + NGX_MCDS_NEWER_SLACK + 1 : now;
}


static uint64_t
ngx_mcds_newer_time(ngx_mcds_entry_t *entry)
{
    uint64_t  time, purged;

    time = entry->created;
    purged = entry->expire + NGX_MCDS_SKEW;

    switch (entry->kind) {

    case NGX_MCDS_ENTRY_PURGED:
        return time;

    case NGX_MCDS_ENTRY_VARY:
        return entry->purges ? ngx_max(time, purged) : time;

    default:
        time -= ngx_min(time, entry->took);

        return (entry->flags & NGX_MCDS_ENTRY_INVALID) ? ngx_max(time, purged)
                                                       : time;
    }
}

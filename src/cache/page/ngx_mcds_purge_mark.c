
/*
 * Copyright (C) mcds authors
 *
 * The value that a purge stores under the key of a page: the page, marked as
 * invalidated, or a purge mark without the page (tombstone).
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_newer.h"
#include "ngx_mcds_purge_mark.h"
#include "ngx_mcds_sign.h"
#include "ngx_mcds_skew.h"


static void ngx_mcds_purge_set_time(ngx_mcds_purge_t *purge,
    ngx_mcds_entry_t *entry);


ngx_mcds_value_t *
ngx_mcds_purge_mark(ngx_mcds_purge_t *purge, ngx_mcds_result_t *result)
{
    char              *why;
    uint64_t           now;
    ngx_mcds_entry_t   entry;
    ngx_mcds_value_t  *value;

    purge->found = NGX_MCDS_PURGED_NOTHING;
    ngx_memzero(&purge->cut, sizeof(ngx_mcds_cut_t));
    ngx_memzero(&purge->left, sizeof(ngx_mcds_cut_t));

    if (ngx_mcds_entry_read(&entry, result->data, result->len, &purge->key,
                            &why)
        != NGX_OK)
    {
        return NULL;
    }

    purge->was_deleted = (entry.kind == NGX_MCDS_ENTRY_PURGED
                          && !(entry.flags & NGX_MCDS_ENTRY_INVALID));

    if (purge->secrets
        && ngx_mcds_signing->check(result->data, result->len, &entry,
                                   purge->secrets)
           != NGX_OK)
    {
        /*
         * an item without a valid signature does not count as a page: no copy
         * of the item is marked as invalidated, and the parts of a body that
         * the item names are not removed
         */

        return NULL;
    }

    ngx_mcds_purge_set_time(purge, &entry);

    if (entry.kind == NGX_MCDS_ENTRY_PAGE) {
        purge->found = NGX_MCDS_PURGED_PAGE;

    } else if (entry.kind == NGX_MCDS_ENTRY_VARY) {
        purge->found = NGX_MCDS_PURGED_LIST;

    } else {
        return NULL;
    }

    if (purge->how == NGX_MCDS_PURGE_INVALIDATE
        && result->cas != 0
        && purge->update.tries < NGX_MCDS_PURGE_TRIES)
    {
        value = ngx_mcds_value_create(result->len + NGX_MCDS_VALUE_SPARE,
                                      ngx_cycle->log);
        if (value == NULL) {
            return NULL;
        }

        ngx_memcpy(value->data, result->data, result->len);
        value->len = result->len;

        now = purge->purge_time;

        if (entry.kind == NGX_MCDS_ENTRY_VARY) {
            ngx_mcds_entry_purge(value, now - NGX_MCDS_SKEW);

        } else {

            /*
             * a repeated purge may find a page whose build began after the time
             * of the purge: unless the page's date is in the future, the page
             * gets the start of its build as its expiry, not the earlier time
             * of the purge
             */

            if (entry.created > now + entry.took
                && entry.created <= ngx_mcds_now())
            {
                now = entry.created - entry.took;
            }

            ngx_mcds_entry_mark(value, NGX_MCDS_ENTRY_INVALID,
                                now - NGX_MCDS_SKEW);

            ngx_mcds_body_cut(&entry, &purge->left);
        }

        if (purge->secrets) {
            (void) ngx_mcds_signing->sign(value, &entry, purge->secrets);
        }

        return value;
    }

    ngx_mcds_body_cut(&entry, &purge->cut);

    return NULL;
}


/*
 * With replicas, sets the time of a purge so that the purge looks newer than
 * the purged page, as mcds uses the newest of the replicas' items.  If the
 * clock of the host that built the page is fast, this time is just after that
 * of the page, but at most NGX_MCDS_SKEW after purge->now.
 */

static void
ngx_mcds_purge_set_time(ngx_mcds_purge_t *purge, ngx_mcds_entry_t *entry)
{
    if (purge->pool->replicas > 1) {
        purge->purge_time = ngx_min(ngx_mcds_newer_after(entry, purge->now),
                                    purge->now + NGX_MCDS_SKEW);
    }
}


ngx_mcds_value_t *
ngx_mcds_purge_tombstone(ngx_mcds_purge_t *purge)
{
    ngx_mcds_entry_t   entry;
    ngx_mcds_value_t  *value;

    ngx_memzero(&entry, sizeof(ngx_mcds_entry_t));

    entry.kind = NGX_MCDS_ENTRY_PURGED;
    entry.flags = (purge->how == NGX_MCDS_PURGE_INVALIDATE
                   && !purge->was_deleted)
                  ? NGX_MCDS_ENTRY_INVALID : 0;
    entry.created = purge->purge_time;
    entry.expire = purge->purge_time;
    entry.swr = NGX_MCDS_ENTRY_UNSET;
    entry.sie = NGX_MCDS_ENTRY_UNSET;
    entry.key = purge->key;

    value = ngx_mcds_entry_begin(&entry, NGX_MCDS_VALUE_SPARE,
                                 ngx_cycle->log);

    if (value) {
        ngx_mcds_entry_finish(value, &entry);
    }

    return value;
}

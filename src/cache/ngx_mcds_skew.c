
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_skew.h"


/* pages whose stamps are remembered; others may live longer by their turn */
#define NGX_MCDS_SKEW_SLOTS   1024

/* how often the log is told; ms */
#define NGX_MCDS_SKEW_SILENT  60000


typedef struct {
    uint64_t    id;             /* of the key and the stamp; 0: free */
    uint64_t    seen;
} ngx_mcds_skew_slot_t;


static uint64_t ngx_mcds_skew_seen(ngx_mcds_entry_t *entry, uint64_t now_ms,
    ngx_uint_t ahead, ngx_log_t *log);
static void ngx_mcds_skew_tell(ngx_mcds_entry_t *entry, uint64_t now_ms,
    ngx_log_t *log);


static ngx_mcds_skew_slot_t  ngx_mcds_skew_slots[NGX_MCDS_SKEW_SLOTS];
static uint64_t              ngx_mcds_skew_told;
static ngx_uint_t            ngx_mcds_skew_pages;


void
ngx_mcds_skew_mend(ngx_mcds_entry_t *entry, uint64_t now_ms, ngx_log_t *log)
{
    uint64_t    seen;
    ngx_uint_t  ahead;

    ahead = (entry->created > now_ms + NGX_MCDS_SKEW_MAX);

    /* what was ahead once stays as old as it is when its time comes */

    if ((entry->kind == NGX_MCDS_ENTRY_PAGE
         || entry->kind == NGX_MCDS_ENTRY_PASS)
        && (ahead || ngx_mcds_skew_pages))
    {
        seen = ngx_mcds_skew_seen(entry, now_ms, ahead, log);

        if (seen) {

            if (entry->expire > entry->created) {
                entry->expire = seen + (entry->expire - entry->created);

            } else {

                /* it had expired when it came */

                entry->expire = ngx_min(entry->expire, seen);
            }

            entry->created = seen;
        }
    }

    /* of a list it says when its variants were purged */

    if (entry->expire > now_ms
        && (entry->kind == NGX_MCDS_ENTRY_VARY
            || (entry->flags & NGX_MCDS_ENTRY_INVALID)))
    {
        entry->expire = now_ms;
    }
}


/* 0: the page is not known, and not to be remembered */

static uint64_t
ngx_mcds_skew_seen(ngx_mcds_entry_t *entry, uint64_t now_ms, ngx_uint_t ahead,
    ngx_log_t *log)
{
    uint64_t               id;
    ngx_mcds_skew_slot_t  *slot;

    id = (uint64_t) ngx_murmur_hash2(entry->key.data, entry->key.len) << 32;
    id ^= entry->created * 0x9e3779b97f4a7c15;

    slot = &ngx_mcds_skew_slots[(id ^ id >> 32) % NGX_MCDS_SKEW_SLOTS];

    /* or this clock was set back meanwhile */

    if (slot->id == id && slot->seen <= now_ms) {
        return slot->seen;
    }

    if (!ahead) {
        return 0;
    }

    slot->id = id;
    slot->seen = now_ms;

    ngx_mcds_skew_tell(entry, now_ms, log);

    return now_ms;
}


static void
ngx_mcds_skew_tell(ngx_mcds_entry_t *entry, uint64_t now_ms, ngx_log_t *log)
{
    ngx_mcds_skew_pages++;

    if (now_ms >= ngx_mcds_skew_told
        && now_ms - ngx_mcds_skew_told < NGX_MCDS_SKEW_SILENT)
    {
        return;
    }

    ngx_mcds_skew_told = now_ms;

    ngx_log_error(NGX_LOG_WARN, log, 0,
                  "mcds: clocks differ, %ui pages are from the future by now, "
                  "the last one by %uL s", ngx_mcds_skew_pages,
                  (entry->created - now_ms) / 1000);
}

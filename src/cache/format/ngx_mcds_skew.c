
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_skew.h"


/* pages that are remembered, in sets; of a set those that were seen last */
#define NGX_MCDS_SKEW_SETS    2048
#define NGX_MCDS_SKEW_WAYS    4

/* how often the log is told; ms */
#define NGX_MCDS_SKEW_SILENT  60000


typedef struct {
    uint64_t    id;             /* of the key; 0: free */
    uint64_t    created;        /* as its writer says */
    uint64_t    made;           /* as far as this worker knows; 0: the same */
    uint64_t    seen;           /* the last time */
} ngx_mcds_skew_slot_t;


static uint64_t ngx_mcds_skew_made(ngx_mcds_entry_t *entry, void *place,
    uint64_t life, uint64_t now_ms, ngx_uint_t ahead, ngx_log_t *log);
static ngx_mcds_skew_slot_t *ngx_mcds_skew_find(ngx_str_t *key, void *place,
    ngx_uint_t *known);
static void ngx_mcds_skew_tell(ngx_mcds_entry_t *entry, uint64_t now_ms,
    ngx_log_t *log);


static ngx_mcds_skew_slot_t  ngx_mcds_skew_slots[NGX_MCDS_SKEW_SETS]
                                                [NGX_MCDS_SKEW_WAYS];
static uint64_t              ngx_mcds_skew_told;
static ngx_uint_t            ngx_mcds_skew_pages;


void
ngx_mcds_skew_mend(ngx_mcds_entry_t *entry, void *place, uint64_t now_ms,
    ngx_log_t *log)
{
    uint64_t    made, life;
    ngx_uint_t  ahead;

    ahead = (entry->created > now_ms + NGX_MCDS_SKEW_MAX);

    /* what was ahead once stays as old as it is when its time comes */

    if ((entry->kind == NGX_MCDS_ENTRY_PAGE
         || entry->kind == NGX_MCDS_ENTRY_PASS)
        && (ahead || ngx_mcds_skew_pages))
    {
        life = (entry->expire > entry->created)
               ? ngx_min(entry->expire - entry->created, now_ms - 1) : 0;

        made = ngx_mcds_skew_made(entry, place, life, now_ms, ahead, log);

        if (made) {

            if (life) {
                entry->expire = made + life;

            } else {

                /* it had expired when it came */

                entry->expire = ngx_min(entry->expire, made);
            }

            entry->created = made;
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


/* when the page was made, at the earliest; 0: when its writer says */

static uint64_t
ngx_mcds_skew_made(ngx_mcds_entry_t *entry, void *place, uint64_t life,
    uint64_t now_ms, ngx_uint_t ahead, ngx_log_t *log)
{
    ngx_uint_t             known;
    ngx_mcds_skew_slot_t  *slot;

    slot = ngx_mcds_skew_find(&entry->key, place, &known);

    /* unless this clock was set back meanwhile */

    known = (known && slot->seen <= now_ms);

    if (known && slot->created == entry->created) {
        slot->seen = now_ms;
        return slot->made;
    }

    if (!ahead) {
        slot->made = 0;

    } else if (known) {

        /* it took the place of the page that was there then */

        slot->made = slot->seen;

    } else if (entry->kind == NGX_MCDS_ENTRY_PASS) {

        /* a mark says not to wait, and makes no page older */

        slot->made = now_ms;

    } else {

        /* it may be of any age, and counts as one that expires now */

        slot->made = now_ms - life;
    }

    slot->created = entry->created;
    slot->seen = now_ms;

    if (ahead) {
        ngx_mcds_skew_tell(entry, now_ms, log);
    }

    return slot->made;
}


/* the slot of the key, or another one, which the key then has */

static ngx_mcds_skew_slot_t *
ngx_mcds_skew_find(ngx_str_t *key, void *place, ngx_uint_t *known)
{
    uint64_t               id;
    ngx_uint_t             i;
    ngx_mcds_skew_slot_t  *set, *slot;

    id = (uint64_t) ngx_murmur_hash2(key->data, key->len) << 32
         | ngx_crc32_long(key->data, key->len);
    id ^= (uintptr_t) place;

    set = ngx_mcds_skew_slots[id % NGX_MCDS_SKEW_SETS];
    slot = set;

    for (i = 0; i < NGX_MCDS_SKEW_WAYS; i++) {

        if (set[i].id == id) {
            *known = 1;
            return &set[i];
        }

        if (set[i].seen < slot->seen) {
            slot = &set[i];
        }
    }

    slot->id = id;
    *known = 0;

    return slot;
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

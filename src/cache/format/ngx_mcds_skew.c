
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_skew.h"


/*
 * the table of the pages that this worker has read from memcached, used to
 * correct the times of creation and expiry of pages from hosts with a fast
 * clock: sets of slots; a new page replaces the one of its set that the worker
 * read longest ago
 */
#define NGX_MCDS_SKEW_SETS    2048
#define NGX_MCDS_SKEW_WAYS    4

/*
 * the minimum time between two warnings in the log about pages from hosts with
 * a fast clock; ms
 */
#define NGX_MCDS_SKEW_SILENT  60000


typedef struct {
    uint64_t    id;             /* hash of the page's pool and key; 0: the slot
                                   has no page */
    uint64_t    created;        /* time when the page was created, as the page
                                   says, by the clock of the host that wrote
                                   it */
    uint64_t    made;           /* time, by this worker's clock, when the page
                                   was created; 0: the time in the page is
                                   right */
    uint64_t    seen;           /* time when this worker last saw the page in
                                   memcached */
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

    /*
     * a page from a host with a fast clock keeps the age that this worker has
     * computed for it, even when the page's "created" is no longer in the
     * future
     */

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

                /*
                 * the page had already expired when it was created, so its
                 * "expire" must not be later than "made", its corrected time of
                 * creation
                 */

                entry->expire = ngx_min(entry->expire, made);
            }

            entry->created = made;
        }
    }

    /*
     * in a list of the headers that a page varies by, and in the entry of a
     * purged page, "expire" is the time of the last purge; a purge in the
     * future counts as a purge now
     */

    if (entry->expire > now_ms
        && (entry->kind == NGX_MCDS_ENTRY_VARY
            || (entry->flags & NGX_MCDS_ENTRY_INVALID)))
    {
        entry->expire = now_ms;
    }
}


/*
 * Returns the time when a page counts as created, by this worker's clock, or 0
 * to trust the clock of the host that wrote the page.
 */

static uint64_t
ngx_mcds_skew_made(ngx_mcds_entry_t *entry, void *place, uint64_t life,
    uint64_t now_ms, ngx_uint_t ahead, ngx_log_t *log)
{
    ngx_uint_t             known;
    ngx_mcds_skew_slot_t  *slot;

    slot = ngx_mcds_skew_find(&entry->key, place, &known);

    /*
     * the slot, in which the worker remembers the page, is ignored if this
     * host's clock was set back since the worker last saw the page
     */

    known = (known && slot->seen <= now_ms);

    if (known && slot->created == entry->created) {
        slot->seen = now_ms;
        return slot->made;
    }

    if (!ahead) {
        slot->made = 0;

    } else if (known) {

        /*
         * the new page counts as created at the time when this worker last saw
         * the old page with the same key
         */

        slot->made = slot->seen;

    } else if (entry->kind == NGX_MCDS_ENTRY_PASS) {

        /*
         * the entry of a page that is not cacheable (hit-for-miss) counts as
         * created now: it has no content whose age matters
         */

        slot->made = now_ms;

    } else {

        /*
         * the age of a page whose creation is in the future is unknown: the
         * page counts as one that expires now
         */

        slot->made = now_ms - life;
    }

    slot->created = entry->created;
    slot->seen = now_ms;

    if (ahead) {
        ngx_mcds_skew_tell(entry, now_ms, log);
    }

    return slot->made;
}


/*
 * Returns the slot of the page with this key in the table of pages.  *known is
 * 1 if the table had the page already; 0 if the page replaces the page that was
 * seen longest ago in the same set.
 */

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

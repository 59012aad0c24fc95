
/*
 * Copyright (C) mcds authors
 *
 * The slots of the outbox, in shared memory.  A slot has the sum of the changes
 * of one counter that were not sent yet to one destination, a pool or a URL of
 * the origin; account is the number of the destination.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_outbox_core.h"


static ngx_uint_t ngx_mcds_outbox_is_key(ngx_mcds_outbox_t *outbox,
    ngx_mcds_slot_t *slot, ngx_str_t *key);
static uint32_t ngx_mcds_outbox_alloc(ngx_mcds_outbox_t *outbox);


ngx_mcds_slot_t *
ngx_mcds_outbox_find(ngx_mcds_outbox_t *outbox, ngx_uint_t account,
    uint64_t id, ngx_str_t *key)
{
    uint32_t          n;
    ngx_mcds_slot_t  *slot;

    for (n = *ngx_mcds_outbox_head(outbox, id); n; n = slot->next) {
        slot = ngx_mcds_outbox_slot(outbox, n);

        if (slot->id == id
            && slot->account == account
            && slot->len == key->len
            && ngx_mcds_outbox_is_key(outbox, slot, key))
        {
            return slot;
        }
    }

    return NULL;
}


static ngx_uint_t
ngx_mcds_outbox_is_key(ngx_mcds_outbox_t *outbox, ngx_mcds_slot_t *slot,
    ngx_str_t *key)
{
    size_t   len, rest;
    u_char  *p;

    p = key->data;
    rest = key->len;
    len = ngx_min(rest, NGX_MCDS_OUTBOX_INLINE);

    if (ngx_memcmp(slot->key, p, len) != 0) {
        return 0;
    }

    while (rest > len) {
        p += len;
        rest -= len;
        len = ngx_min(rest, NGX_MCDS_OUTBOX_REST);

        slot = ngx_mcds_outbox_slot(outbox, slot->more);

        if (ngx_memcmp(ngx_mcds_outbox_rest(slot), p, len) != 0) {
            return 0;
        }
    }

    return 1;
}


ngx_mcds_slot_t *
ngx_mcds_outbox_create(ngx_mcds_outbox_t *outbox, ngx_uint_t account,
    uint64_t id, ngx_str_t *key)
{
    size_t            len, rest;
    u_char           *p;
    uint32_t          n, more, *head;
    ngx_mcds_slot_t  *slot, *last;

    len = ngx_min(key->len, NGX_MCDS_OUTBOX_INLINE);
    rest = key->len - len;

    if (outbox->nfree
        < 1 + (rest + NGX_MCDS_OUTBOX_REST - 1) / NGX_MCDS_OUTBOX_REST)
    {
        return NULL;
    }

    n = ngx_mcds_outbox_alloc(outbox);
    slot = ngx_mcds_outbox_slot(outbox, n);

    ngx_memzero(slot, NGX_MCDS_OUTBOX_SLOT);

    slot->id = id;
    slot->len = key->len;
    slot->account = account;
    ngx_memcpy(slot->key, key->data, len);

    last = slot;

    for (p = key->data + len; rest; p += len, rest -= len) {
        len = ngx_min(rest, NGX_MCDS_OUTBOX_REST);

        more = ngx_mcds_outbox_alloc(outbox);
        last->more = more;

        last = ngx_mcds_outbox_slot(outbox, more);
        last->more = 0;

        ngx_memcpy(ngx_mcds_outbox_rest(last), p, len);
    }

    head = ngx_mcds_outbox_head(outbox, id);

    slot->next = *head;
    ngx_memory_barrier();

    *head = n;

    return slot;
}


/*
 * Takes a free slot of the outbox, for a counter's sum or the rest of its key,
 * and returns the slot's number.  The caller checks nfree, the count of free
 * slots, which may be too small if a worker was killed in this function.
 */

static uint32_t
ngx_mcds_outbox_alloc(ngx_mcds_outbox_t *outbox)
{
    uint32_t  n;

    n = outbox->free;

    outbox->nfree--;
    ngx_memory_barrier();

    outbox->free = ngx_mcds_outbox_slot(outbox, n)->next;

    return n;
}


void
ngx_mcds_outbox_free(ngx_mcds_outbox_t *outbox, uint32_t n)
{
    ngx_mcds_slot_t  *slot;

    slot = ngx_mcds_outbox_slot(outbox, n);

    slot->account = 0;
    slot->next = outbox->free;
    ngx_memory_barrier();

    outbox->free = n;
    ngx_memory_barrier();

    outbox->nfree++;
}


void
ngx_mcds_outbox_remove(ngx_mcds_outbox_t *outbox, uint32_t n)
{
    uint32_t         *link, more;
    ngx_mcds_slot_t  *slot;

    slot = ngx_mcds_outbox_slot(outbox, n);

    for (link = ngx_mcds_outbox_head(outbox, slot->id);
         *link != n;
         link = &ngx_mcds_outbox_slot(outbox, *link)->next)
    {
        if (*link == 0) {

            /*
             * a worker was killed before it put this slot of the outbox into
             * the hash chain
             */

            slot->account = 0;
            return;
        }
    }

    *link = slot->next;
    ngx_memory_barrier();

    do {
        more = slot->more;

        ngx_mcds_outbox_free(outbox, n);

        n = more;
        slot = ngx_mcds_outbox_slot(outbox, n);

    } while (n);
}

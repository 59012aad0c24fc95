
/*
 * Copyright (C) mcds authors
 *
 * The last known values of counters, in the outbox, shared memory of this host.
 * A counter that memcached has lost continues from its known value.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_outbox_core.h"


static ngx_mcds_known_t *ngx_mcds_outbox_find_known(ngx_mcds_outbox_t *outbox,
    uint64_t id);


uint64_t
ngx_mcds_outbox_known(ngx_mcds_outbox_t *outbox, uint64_t id)
{
    uint64_t           value;
    ngx_mcds_known_t  *known;

    ngx_shmtx_lock(outbox->mutex);

    known = ngx_mcds_outbox_find_known(outbox, id);
    value = (known->id == id) ? known->value : 0;

    ngx_shmtx_unlock(outbox->mutex);

    return value;
}


uint64_t
ngx_mcds_outbox_heard(ngx_mcds_outbox_t *outbox, uint64_t id, ngx_msec_t *age)
{
    uint64_t           now, value;
    ngx_mcds_known_t  *known;

    now = ngx_mcds_clock(ngx_current_msec);

    ngx_shmtx_lock(outbox->mutex);

    known = ngx_mcds_outbox_find_known(outbox, id);

    value = 0;
    *age = 0;

    if (known->id == id) {
        value = known->value;
        *age = (now > known->time) ? now - known->time : 0;
    }

    ngx_shmtx_unlock(outbox->mutex);

    return value;
}


void
ngx_mcds_outbox_learn(ngx_mcds_outbox_t *outbox, uint64_t id, uint64_t value,
    ngx_msec_t sent)
{
    ngx_mcds_known_t  *known;

    ngx_shmtx_lock(outbox->mutex);

    known = ngx_mcds_outbox_find_known(outbox, id);

    if (known->id != id) {
        known->id = 0;
        ngx_memory_barrier();

        known->value = value;
        known->time = ngx_mcds_clock(ngx_current_msec);
        ngx_memory_barrier();

        known->id = id;

    } else if (value >= known->value
               || ngx_mcds_clock(sent) > known->time + NGX_MCDS_OUTBOX_LATE)
    {
        known->value = value;
        known->time = ngx_mcds_clock(ngx_current_msec);
    }

    ngx_shmtx_unlock(outbox->mutex);
}


void
ngx_mcds_outbox_lower(ngx_mcds_outbox_t *outbox, uint64_t id, uint64_t value)
{
    ngx_mcds_known_t  *known;

    ngx_shmtx_lock(outbox->mutex);

    known = ngx_mcds_outbox_find_known(outbox, id);

    if (known->id == id && value < known->value) {
        known->value = value;
        known->time = ngx_mcds_clock(ngx_current_msec);
    }

    ngx_shmtx_unlock(outbox->mutex);
}


void
ngx_mcds_outbox_subtract(ngx_mcds_outbox_t *outbox, uint64_t id,
    uint64_t delta)
{
    ngx_mcds_known_t  *known;

    ngx_shmtx_lock(outbox->mutex);

    known = ngx_mcds_outbox_find_known(outbox, id);

    if (known->id == id) {
        known->value -= ngx_min(known->value, delta);
        known->time = ngx_mcds_clock(ngx_current_msec);
    }

    ngx_shmtx_unlock(outbox->mutex);
}


/*
 * Returns the entry with the known value of the counter with this id.  If
 * there is none, returns the entry to be replaced: an empty one or the oldest
 * one of the hash set that the id selects.
 */

static ngx_mcds_known_t *
ngx_mcds_outbox_find_known(ngx_mcds_outbox_t *outbox, uint64_t id)
{
    ngx_uint_t         i;
    ngx_mcds_known_t  *known, *oldest;

    known = outbox->known + (id % outbox->nsets) * NGX_MCDS_OUTBOX_WAYS;
    oldest = known;

    for (i = 0; i < NGX_MCDS_OUTBOX_WAYS; i++, known++) {

        if (known->id == id) {
            return known;
        }

        if (oldest->id
            && (known->id == 0
                || known->time < oldest->time))
        {
            oldest = known;
        }
    }

    return oldest;
}

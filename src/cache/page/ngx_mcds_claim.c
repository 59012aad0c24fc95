
/*
 * Copyright (C) mcds authors
 *
 * The claims to build pages in shared memory (mcds_zone): by them, workers of
 * one host do not build the same page at one time, even if memcached does not
 * answer.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_local_core.h"
#include "ngx_mcds_timer.h"


#define NGX_MCDS_CLAIM_PROBES     8

/* the interval at which a worker extends its claims to build pages, ms */
#define NGX_MCDS_CLAIM_EXTEND     500

/*
 * how long the outcome of a page's build is NGX_MCDS_LOCAL_ALONE, ms: only the
 * worker that built the page has it, so each other worker builds the page, too
 */
#define NGX_MCDS_CLAIM_ALONE      1000

/*
 * the time without another build after which the failed builds of a page are
 * counted from zero again, ms
 */
#define NGX_MCDS_CLAIM_FORGET     60000


static ngx_mcds_claim_t *ngx_mcds_claim_find(u_char *id);
static ngx_mcds_claim_t *ngx_mcds_claim_place(u_char *id);
static ngx_uint_t ngx_mcds_claim_held(ngx_mcds_claim_t *claim);
static ngx_uint_t ngx_mcds_claim_used(ngx_mcds_claim_t *claim);
static ngx_int_t ngx_mcds_claim_state(ngx_mcds_claim_t *claim,
    ngx_mcds_local_left_t *left);
static void ngx_mcds_claim_extend(ngx_event_t *ev);


/*
 * this worker's claims, each of which tells the other workers of the host that
 * this worker builds a page; and the timer by which it extends its claims
 */

static ngx_queue_t  ngx_mcds_local_holds;
static ngx_event_t  ngx_mcds_local_timer;


void
ngx_mcds_claim_init(void)
{
    ngx_queue_init(&ngx_mcds_local_holds);

    ngx_mcds_timer_init(&ngx_mcds_local_timer, ngx_mcds_claim_extend);
    ngx_mcds_local_timer.cancelable = 1;
}


ngx_int_t
ngx_mcds_local_claim(ngx_mcds_hold_t *hold, ngx_msec_t age, ngx_uint_t at_once,
    ngx_mcds_local_left_t *left)
{
    ngx_int_t          rc;
    ngx_mcds_claim_t  *claim;

    ngx_memzero(left, sizeof(ngx_mcds_local_left_t));

    if (ngx_mcds_local == NULL || hold->claim) {
        return NGX_DECLINED;
    }

    ngx_shmtx_lock(&ngx_mcds_local_pool->mutex);

    rc = NGX_DECLINED;
    claim = ngx_mcds_claim_place(hold->id);

    if (claim) {
        rc = ngx_mcds_claim_state(claim, left);

        if (rc == NGX_ABORT
            && at_once && left->state == NGX_MCDS_LOCAL_FAILED)
        {
            rc = NGX_OK;
        }

        if (rc == NGX_OK && left->state == NGX_MCDS_LOCAL_ALONE) {
            rc = NGX_DECLINED;

        } else if (rc == NGX_OK) {
            claim->pid = ngx_pid;
            claim->build = hold->build;
            claim->expire = ngx_mcds_clock(ngx_current_msec) + age;
            claim->wanted = 0;
            claim->state = NGX_MCDS_LOCAL_FREE;

        } else if (rc == NGX_BUSY) {
            claim->wanted = 1;
        }
    }

    ngx_shmtx_unlock(&ngx_mcds_local_pool->mutex);

    if (rc == NGX_OK) {
        hold->claim = claim;
        hold->age = age;
        ngx_queue_insert_tail(&ngx_mcds_local_holds, &hold->queue);

        if (!ngx_mcds_local_timer.timer_set) {
            ngx_add_timer(&ngx_mcds_local_timer, NGX_MCDS_CLAIM_EXTEND);
        }
    }

    return rc;
}


ngx_int_t
ngx_mcds_local_look(u_char *id, ngx_uint_t wait, ngx_mcds_local_left_t *left)
{
    ngx_int_t          rc;
    ngx_mcds_claim_t  *claim;

    ngx_memzero(left, sizeof(ngx_mcds_local_left_t));

    if (ngx_mcds_local == NULL) {
        return NGX_DECLINED;
    }

    ngx_shmtx_lock(&ngx_mcds_local_pool->mutex);

    rc = NGX_OK;
    claim = ngx_mcds_claim_find(id);

    if (claim) {
        rc = ngx_mcds_claim_state(claim, left);

        if (rc == NGX_BUSY && wait) {
            claim->wanted = 1;
        }
    }

    ngx_shmtx_unlock(&ngx_mcds_local_pool->mutex);

    return rc;
}


ngx_uint_t
ngx_mcds_local_wanted(ngx_mcds_hold_t *hold)
{
    ngx_uint_t  wanted;

    if (hold->claim == NULL) {
        return 0;
    }

    ngx_shmtx_lock(&ngx_mcds_local_pool->mutex);

    wanted = hold->claim->wanted;

    ngx_shmtx_unlock(&ngx_mcds_local_pool->mutex);

    return wanted;
}


void
ngx_mcds_local_release(ngx_mcds_hold_t *hold, ngx_mcds_local_left_t *left)
{
    ngx_mcds_claim_t  *claim;

    claim = hold->claim;

    if (claim == NULL) {
        return;
    }

    hold->claim = NULL;
    ngx_queue_remove(&hold->queue);

    ngx_shmtx_lock(&ngx_mcds_local_pool->mutex);

    /*
     * if this worker was stopped for too long, another worker may have claimed
     * the build of the page meanwhile
     */

    if (claim->pid == ngx_pid
        && ngx_memcmp(claim->id, hold->id, NGX_MCDS_LOCAL_ID) == 0)
    {
        claim->pid = 0;
        claim->wanted = 0;
        claim->state = left->state;
        claim->step = left->step;
        claim->until = ngx_mcds_clock(ngx_current_msec)
                       + (left->state == NGX_MCDS_LOCAL_ALONE
                          ? NGX_MCDS_CLAIM_ALONE : left->left);
    }

    ngx_shmtx_unlock(&ngx_mcds_local_pool->mutex);
}


static ngx_mcds_claim_t *
ngx_mcds_claim_find(u_char *id)
{
    ngx_uint_t         i, hash;
    ngx_mcds_claim_t  *claim;

    hash = ngx_mcds_local_hash(id);

    for (i = 0; i < NGX_MCDS_CLAIM_PROBES; i++) {
        claim = &ngx_mcds_local->claims[(hash + i) % NGX_MCDS_CLAIMS];

        if (ngx_memcmp(claim->id, id, NGX_MCDS_LOCAL_ID) == 0) {
            return claim;
        }
    }

    return NULL;
}


/*
 * Returns the claim to build a page (this host's lock) in shared memory
 * (mcds_zone); if the page has none, a free one.  NULL: there is no room.
 */

static ngx_mcds_claim_t *
ngx_mcds_claim_place(u_char *id)
{
    ngx_uint_t         i, hash;
    ngx_mcds_claim_t  *claim;

    claim = ngx_mcds_claim_find(id);

    if (claim) {
        return claim;
    }

    hash = ngx_mcds_local_hash(id);

    for (i = 0; i < NGX_MCDS_CLAIM_PROBES; i++) {
        claim = &ngx_mcds_local->claims[(hash + i) % NGX_MCDS_CLAIMS];

        if (!ngx_mcds_claim_used(claim)) {
            ngx_memzero(claim, sizeof(ngx_mcds_claim_t));
            ngx_memcpy(claim->id, id, NGX_MCDS_LOCAL_ID);
            return claim;
        }
    }

    return NULL;
}


static ngx_uint_t
ngx_mcds_claim_held(ngx_mcds_claim_t *claim)
{
    if (claim->pid == 0) {
        return 0;
    }

    if (claim->expire <= ngx_mcds_clock(ngx_current_msec)
        || (claim->pid != ngx_pid
            && kill(claim->pid, 0) == -1 && ngx_errno == NGX_ESRCH))
    {
        claim->pid = 0;
        claim->state = NGX_MCDS_LOCAL_FREE;
        return 0;
    }

    return 1;
}


static ngx_uint_t
ngx_mcds_claim_used(ngx_mcds_claim_t *claim)
{
    return ngx_mcds_claim_held(claim)
           || (claim->state != NGX_MCDS_LOCAL_FREE
               && claim->until > ngx_mcds_clock(ngx_current_msec));
}


static ngx_int_t
ngx_mcds_claim_state(ngx_mcds_claim_t *claim, ngx_mcds_local_left_t *left)
{
    int64_t  ms;

    if (ngx_mcds_claim_held(claim)) {
        left->build = claim->build;

        return (claim->pid == ngx_pid) ? NGX_DECLINED : NGX_BUSY;
    }

    left->step = claim->step;

    ms = claim->until - ngx_mcds_clock(ngx_current_msec);

    if (claim->state != NGX_MCDS_LOCAL_FREE && ms > 0) {
        left->state = claim->state;
        left->left = ms;

        return (claim->state == NGX_MCDS_LOCAL_ALONE) ? NGX_OK : NGX_ABORT;
    }

    if (ms <= - NGX_MCDS_CLAIM_FORGET) {
        left->step = 0;
    }

    return NGX_OK;
}


/*
 * extends all claims by which this worker tells other workers of the host that
 * it builds a page
 */

static void
ngx_mcds_claim_extend(ngx_event_t *ev)
{
    ngx_queue_t       *q;
    ngx_mcds_hold_t   *hold;
    ngx_mcds_claim_t  *claim;

    if (ngx_queue_empty(&ngx_mcds_local_holds)) {
        return;
    }

    ngx_shmtx_lock(&ngx_mcds_local_pool->mutex);

    for (q = ngx_queue_head(&ngx_mcds_local_holds);
         q != ngx_queue_sentinel(&ngx_mcds_local_holds);
         q = ngx_queue_next(q))
    {
        hold = ngx_queue_data(q, ngx_mcds_hold_t, queue);
        claim = hold->claim;

        if (claim->pid == ngx_pid
            && ngx_memcmp(claim->id, hold->id, NGX_MCDS_LOCAL_ID) == 0)
        {
            claim->expire = ngx_mcds_clock(ngx_current_msec) + hold->age;
        }
    }

    ngx_shmtx_unlock(&ngx_mcds_local_pool->mutex);

    ngx_add_timer(&ngx_mcds_local_timer, NGX_MCDS_CLAIM_EXTEND);
}


/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_replay.h"
#include "ngx_mcds_timer.h"


/*
 * the interval between attempts to send changes of counters to a server that
 * has not replied, ms; shared memory keeps the changes meanwhile
 */
#define NGX_MCDS_REPLAY_TICK      1000

/*
 * the interval at which a worker looks whether another worker, when it exited,
 * has left unsent changes of counters in shared memory, ms
 */
#define NGX_MCDS_REPLAY_LOOK      10000

/*
 * the maximum number of counters whose unsent changes, kept in shared memory,
 * are sent in one turn of the event loop
 */
#define NGX_MCDS_REPLAY_BURST     256

/*
 * flags that are stored with a counter's unsent change in the outbox (shared
 * memory): UPDATE and DURABLE, if the counter's fields of these names are not
 * 0; KEPT always: flags of 0 would say that the change is for the origin
 */
#define NGX_MCDS_REPLAY_KEPT      0x01
#define NGX_MCDS_REPLAY_UPDATE    0x02
#define NGX_MCDS_REPLAY_DURABLE   0x04


static ngx_mcds_account_t *ngx_mcds_replay_account(
    ngx_mcds_outbox_t *outbox, ngx_mcds_pool_t *pool, ngx_uint_t generation);
static ngx_uint_t ngx_mcds_replay_due(ngx_mcds_account_t *account);
static void ngx_mcds_replay_handler(ngx_event_t *ev);
static ngx_int_t ngx_mcds_replay_send(ngx_mcds_pool_t *pool,
    ngx_mcds_account_t *account);
static void ngx_mcds_replay_sent(void *data, ngx_uint_t rc, uint64_t value);
static void ngx_mcds_replay_next(void);
static void ngx_mcds_replay_wait(ngx_msec_t wait);
static void ngx_mcds_replay_lost_handler(ngx_event_t *ev);


static ngx_array_t  *ngx_mcds_replay_pools;
static ngx_uint_t    ngx_mcds_replay_generation;
static ngx_event_t   ngx_mcds_replay_event;
static ngx_uint_t    ngx_mcds_replay_pool;      /* number of the pool whose
                                                   unsent changes of counters
                                                   are sent */
static ngx_uint_t    ngx_mcds_replay_cursor;
static ngx_uint_t    ngx_mcds_replay_under_way;
static ngx_uint_t    ngx_mcds_replay_failed;    /* number of counters' changes
                                                   that could not be sent since
                                                   the timer last expired */
static ngx_uint_t    ngx_mcds_replay_again;     /* 1: there are more unsent
                                                   changes of counters */
static uint64_t      ngx_mcds_replay_lost;
static ngx_event_t   ngx_mcds_replay_lost_event;


void
ngx_mcds_replay_start(ngx_array_t *pools, ngx_uint_t generation)
{
    ngx_mcds_replay_pools = pools;
    ngx_mcds_replay_generation = generation;
    ngx_mcds_replay_pool = 0;
    ngx_mcds_replay_cursor = 0;

    /*
     * the timer is cancelable: the worker need not wait for the unsent changes
     * of counters, which outlive it in shared memory
     */

    ngx_mcds_timer_init(&ngx_mcds_replay_event, ngx_mcds_replay_handler);
    ngx_mcds_replay_event.cancelable = 1;

    ngx_mcds_timer_init(&ngx_mcds_replay_lost_event,
                        ngx_mcds_replay_lost_handler);
    ngx_mcds_replay_lost_event.cancelable = 1;

    /*
     * a worker that has exited may have left changes of counters in the outbox,
     * the shared memory for unsent changes
     */

    if (ngx_mcds_outbox) {
        ngx_mcds_replay_wait(1);
    }
}


ngx_int_t
ngx_mcds_replay_keep(ngx_mcds_counter_t *counter, int64_t delta)
{
    ngx_int_t                rc;
    ngx_mcds_account_t      *account;
    ngx_mcds_outbox_item_t   item;

    if (ngx_mcds_outbox == NULL || ngx_mcds_replay_pools == NULL) {
        return NGX_DECLINED;
    }

    account = ngx_mcds_replay_account(ngx_mcds_outbox, counter->pool,
                                      ngx_mcds_replay_generation);
    if (account == NULL) {
        return NGX_DECLINED;
    }

    item.key = counter->key;
    item.delta = delta;
    item.initial = counter->initial;
    item.ttl = counter->ttl;
    item.flags = NGX_MCDS_REPLAY_KEPT
                 | (counter->update ? NGX_MCDS_REPLAY_UPDATE : 0)
                 | (counter->durable ? NGX_MCDS_REPLAY_DURABLE : 0);

    rc = ngx_mcds_outbox_add(ngx_mcds_outbox, account, &item);

    if (!ngx_mcds_replay_under_way) {
        ngx_mcds_replay_wait(NGX_MCDS_REPLAY_TICK);
    }

    return rc;
}


static ngx_mcds_account_t *
ngx_mcds_replay_account(ngx_mcds_outbox_t *outbox, ngx_mcds_pool_t *pool,
    ngx_uint_t generation)
{
    return ngx_mcds_outbox_account(outbox, NGX_MCDS_OUTBOX_BUFFER,
                                   &pool->name, generation);
}


/*
 * Returns 1 if this worker may have to send the unsent changes of a pool's
 * counters: there are some, and no newer configuration has the pool.  Otherwise
 * only its workers send the changes, as the pool may have other servers there.
 */

static ngx_uint_t
ngx_mcds_replay_due(ngx_mcds_account_t *account)
{
    return account
           && account->generation <= ngx_mcds_replay_generation
           && ngx_mcds_account_dirty(account);
}


static void
ngx_mcds_replay_handler(ngx_event_t *ev)
{
    ngx_mcds_pool_t     **pools;
    ngx_mcds_account_t   *account;

    if (ngx_mcds_outbox == NULL) {
        return;
    }

    ngx_mcds_replay_again = 0;
    ngx_mcds_replay_failed = 0;

    pools = ngx_mcds_replay_pools->elts;

    while (ngx_mcds_replay_pool < ngx_mcds_replay_pools->nelts) {

        account = ngx_mcds_replay_account(ngx_mcds_outbox,
                                          pools[ngx_mcds_replay_pool],
                                          ngx_mcds_replay_generation);

        if (ngx_mcds_replay_due(account)) {

            /*
             * one worker of a host is enough to send the unsent changes of a
             * pool's counters
             */

            if (ngx_mcds_outbox_own(ngx_mcds_outbox, account)
                && ngx_mcds_replay_send(pools[ngx_mcds_replay_pool], account)
                   == NGX_AGAIN)
            {
                ngx_mcds_replay_again = 1;
                break;
            }

            ngx_mcds_outbox_disown(account);
        }

        ngx_mcds_replay_pool++;
        ngx_mcds_replay_cursor = 0;
    }

    if (ngx_mcds_replay_under_way == 0) {
        ngx_mcds_replay_next();
    }
}


/*
 * Sends changes of a pool's counters from shared memory, where the changes were
 * kept while a server was down.  Returns NGX_AGAIN if more may be left to send.
 */

static ngx_int_t
ngx_mcds_replay_send(ngx_mcds_pool_t *pool, ngx_mcds_account_t *account)
{
    u_char                   buf[NGX_MCDS_OUTBOX_KEY];
    ngx_int_t                rc;
    ngx_uint_t               n;
    ngx_mcds_counter_t       counter;
    ngx_mcds_outbox_item_t   item;

    for (n = 0; n < NGX_MCDS_REPLAY_BURST; /* void */) {

        rc = ngx_mcds_outbox_take(ngx_mcds_outbox, account,
                                  &ngx_mcds_replay_cursor, &item, buf);

        if (rc == NGX_DONE) {
            ngx_mcds_outbox_check(ngx_mcds_outbox, account);
            return NGX_OK;
        }

        n++;

        if (rc == NGX_AGAIN) {
            continue;
        }

        counter.pool = pool;
        counter.key = item.key;
        counter.initial = item.initial;
        counter.ttl = item.ttl;
        counter.durable = (item.flags & NGX_MCDS_REPLAY_DURABLE) ? 1 : 0;
        counter.buffer = 1;

        /*
         * without a request, a lost counter's initial value cannot be fetched
         * from the origin: the counter is created only from a known number
         */

        counter.update = 0;

        if (item.flags & NGX_MCDS_REPLAY_UPDATE) {
            counter.update = ngx_mcds_counter_known(&counter)
                             ? NGX_MCDS_COUNTER_NOW : NGX_MCDS_COUNTER_ONLY;
        }

        /*
         * the counter has the flag "buffer": its change returns to the outbox,
         * in shared memory, if it cannot be sent now, either
         */

        if (ngx_mcds_counter_change(&counter, item.delta,
                                    ngx_mcds_replay_sent, NULL)
            == NULL)
        {
            if (ngx_mcds_outbox_add(ngx_mcds_outbox, account, &item)
                != NGX_OK)
            {
                ngx_mcds_replay_lose(item.delta);
            }

            ngx_mcds_replay_failed++;
            return NGX_OK;
        }

        ngx_mcds_replay_under_way++;
    }

    return NGX_AGAIN;
}


static void
ngx_mcds_replay_sent(void *data, ngx_uint_t rc, uint64_t value)
{
    if (!ngx_mcds_answered(rc)) {
        ngx_mcds_replay_failed++;
    }

    if (--ngx_mcds_replay_under_way == 0) {
        ngx_mcds_replay_next();
    }
}


/*
 * Sets the timer for the next attempt to send unsent changes of counters.  The
 * attempt continues where the last one stopped, or starts with the first pool.
 * If no unsent changes are left, the timer is set to a longer time: a worker
 * may leave changes when it exits.
 */

static void
ngx_mcds_replay_next(void)
{
    ngx_msec_t            wait;
    ngx_uint_t            i, left;
    ngx_mcds_pool_t     **pools;
    ngx_mcds_account_t   *account;

    wait = ngx_mcds_replay_failed ? NGX_MCDS_REPLAY_TICK : 1;

    if (!ngx_mcds_replay_again) {
        ngx_mcds_replay_pool = 0;
        ngx_mcds_replay_cursor = 0;

        left = 0;

        pools = ngx_mcds_replay_pools->elts;

        for (i = 0; i < ngx_mcds_replay_pools->nelts; i++) {
            account = ngx_mcds_replay_account(ngx_mcds_outbox, pools[i],
                                              ngx_mcds_replay_generation);
            left |= ngx_mcds_replay_due(account);
        }

        wait = left ? NGX_MCDS_REPLAY_TICK : NGX_MCDS_REPLAY_LOOK;
    }

    ngx_mcds_replay_wait(wait);
}


/*
 * sets the timer that sends the unsent changes of counters, unless the timer is
 * set to an earlier time
 */

static void
ngx_mcds_replay_wait(ngx_msec_t wait)
{
    ngx_event_t  *ev;

    ev = &ngx_mcds_replay_event;

    if (!ev->timer_set
        || (ngx_msec_int_t) (ev->timer.key - ngx_current_msec)
           > (ngx_msec_int_t) wait)
    {
        ngx_add_timer(ev, wait);
    }
}


void
ngx_mcds_replay_lose(int64_t delta)
{
    ngx_mcds_replay_lost += (delta < 0) ? -delta : delta;

    if (!ngx_mcds_replay_lost_event.timer_set) {
        ngx_mcds_replay_lost_handler(&ngx_mcds_replay_lost_event);
    }
}


static void
ngx_mcds_replay_lost_handler(ngx_event_t *ev)
{
    if (ngx_mcds_replay_lost) {
        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "counts are lost, %uL: no room is left to keep them "
                      "until the server is back", ngx_mcds_replay_lost);

        ngx_mcds_replay_lost = 0;

        ngx_add_timer(ev, NGX_MCDS_REPLAY_TICK);
    }
}


void
ngx_mcds_replay_exit(ngx_mcds_outbox_t *outbox, ngx_array_t *pools,
    ngx_log_t *log)
{
    uint64_t              left;
    ngx_uint_t            i;
    ngx_mcds_pool_t     **pool;
    ngx_mcds_account_t   *account;

    pool = pools->elts;

    for (i = 0; i < pools->nelts; i++) {
        account = ngx_mcds_replay_account(outbox, pool[i], 0);

        left = account ? ngx_mcds_outbox_forget(outbox, account) : 0;

        if (left) {
            ngx_log_error(NGX_LOG_WARN, log, 0,
                          "counts are lost, %uL: nginx exits while they wait "
                          "for servers of pool \"%V\"", left,
                          &pool[i]->name);
        }
    }
}


/*
 * Copyright (C) mcds authors
 *
 * The data that a host remembers about its counters, in memory that all workers
 * share and that outlives them: known numbers, from which a counter continues
 * that memcached has lost, and sums that have not reached their destination
 * yet.
 *
 * A worker may be killed at any time, even during a change.  So the outbox has
 * no pointers, each change becomes visible by a single store, and
 * ngx_mcds_outbox_sweep() finds slots that a killed worker has left over.
 */


#ifndef _NGX_MCDS_OUTBOX_H_INCLUDED_
#define _NGX_MCDS_OUTBOX_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/*
 * the maximum length of a counter's key in the outbox, bytes; longer keys are
 * not kept
 */
#define NGX_MCDS_OUTBOX_KEY       1024

#define NGX_MCDS_OUTBOX_NAME      80
#define NGX_MCDS_OUTBOX_ID        16


typedef struct ngx_mcds_outbox_s  ngx_mcds_outbox_t;


typedef enum {
    NGX_MCDS_OUTBOX_BUFFER = 1,        /* unsent sums of a pool's counters, for
                                          ngx_mcds_outbox_take() */
    NGX_MCDS_OUTBOX_POST               /* sums to post to the origin, for
                                          ngx_mcds_outbox_mark() */
} ngx_mcds_outbox_kind_e;


/* an account of the outbox: a destination of sums, in shared memory */

typedef struct {
    ngx_uint_t          kind;          /* kind of the account; 0: unused */
    size_t              len;
    u_char              name[NGX_MCDS_OUTBOX_NAME];
    ngx_uint_t          generation;    /* generation of the configuration that
                                          uses the account */

    uint64_t            added;         /* number of additions to the account */
    uint64_t            clean;         /* "added" when the account was last
                                          empty */
    uint64_t            lost;          /* total of sums that found no room in
                                          the outbox */
    uint64_t            said;          /* part of "lost" that was logged */
    ngx_msec_t          told;          /* when "lost" was last logged */

    ngx_msec_t          since;         /* when the account became non-empty, or
                                          was last posted */
    ngx_msec_t          retry;         /* earliest time of the next attempt to
                                          send */
    ngx_msec_t          delay;         /* delay of the next attempt to send; 0:
                                          no failure */

    /* fields of an account whose sums are sent in batches */
    uint64_t            batch;         /* batch of sums that is marked and not
                                          acknowledged, or 0 */
    ngx_pid_t           owner;         /* process that sends the sums, or 0 */
    ngx_msec_t          alive;         /* last sign of life of the process that
                                          sends the sums */
} ngx_mcds_account_t;


/* 1 if sums were added to the account since it was empty */
#define ngx_mcds_account_dirty(account)  ((account)->added != (account)->clean)


typedef struct {
    ngx_str_t           key;
    int64_t             delta;

    /* fields that only ngx_mcds_outbox_take() returns */
    uint64_t            initial;
    uint32_t            ttl;           /* remaining time to live of the counter
                                          in seconds; 0: no expiry */
    ngx_uint_t          flags;         /* flags of the caller for the counter,
                                          up to 255 */
} ngx_mcds_outbox_item_t;


/* the outbox of this host, or NULL */
extern ngx_mcds_outbox_t  *ngx_mcds_outbox;


/*
 * Creates an outbox in zeroed memory.  Returns NULL if the memory is too small.
 * The other functions of the outbox lock the mutex.
 */

ngx_mcds_outbox_t *ngx_mcds_outbox_init(u_char *addr, size_t size,
    ngx_shmtx_t *mutex);


/*
 * Frees the slots of the outbox that belong to no account since a worker was
 * killed.
 */

void ngx_mcds_outbox_sweep(ngx_mcds_outbox_t *outbox);


/*
 * Returns the account of the outbox with this kind and name, which is created
 * if necessary.  Returns NULL if there are too many accounts.  generation is
 * that of the caller's configuration, and grows.
 */

ngx_mcds_account_t *ngx_mcds_outbox_account(ngx_mcds_outbox_t *outbox,
    ngx_uint_t kind, ngx_str_t *name, ngx_uint_t generation);


/* Returns the id of a counter in the outbox; the id is never 0. */

uint64_t ngx_mcds_outbox_id(ngx_mcds_outbox_t *outbox, ngx_str_t *pool,
    ngx_str_t *key);


/*
 * Returns the number that a counter had at least, as far as the outbox knows;
 * 0: unknown.
 */

uint64_t ngx_mcds_outbox_known(ngx_mcds_outbox_t *outbox, uint64_t id);


/*
 * Returns the number of a counter that the outbox knows, and in *age the
 * milliseconds since it was learned.
 */

uint64_t ngx_mcds_outbox_heard(ngx_mcds_outbox_t *outbox, uint64_t id,
    ngx_msec_t *age);


/*
 * Learns the number of a counter, for the outbox, from a result whose command
 * was sent at this time.  A number below the known one comes from a late reply
 * and is ignored or, if the command was sent later, shows that the counter was
 * lowered.
 */

void ngx_mcds_outbox_learn(ngx_mcds_outbox_t *outbox, uint64_t id,
    uint64_t value, ngx_msec_t sent);


/*
 * Learns, for the outbox, that a counter was certainly lowered to this number.
 */

void ngx_mcds_outbox_lower(ngx_mcds_outbox_t *outbox, uint64_t id,
    uint64_t value);


/*
 * Adds a sum to an account of the outbox.  Returns NGX_BUSY, and increases
 * account->lost, if there is no room or the key is too long.
 */

ngx_int_t ngx_mcds_outbox_add(ngx_mcds_outbox_t *outbox,
    ngx_mcds_account_t *account, ngx_mcds_outbox_item_t *item);


/* Returns 1 if less than a quarter of the outbox's slots are free. */

ngx_uint_t ngx_mcds_outbox_crowded(ngx_mcds_outbox_t *outbox);


/* Returns the total of the absolute values of all sums in an account. */

uint64_t ngx_mcds_outbox_left(ngx_mcds_outbox_t *outbox,
    ngx_mcds_account_t *account);


/*
 * Returns the total of the absolute values of all sums in an account, and
 * removes the account from the outbox.
 */

uint64_t ngx_mcds_outbox_forget(ngx_mcds_outbox_t *outbox,
    ngx_mcds_account_t *account);


/* Removes all accounts from the outbox, and returns the total of their sums. */

uint64_t ngx_mcds_outbox_forget_all(ngx_mcds_outbox_t *outbox);


/*
 * Takes the next sum of an account out of the outbox.  *cursor is 0 at the
 * start; buf has room for NGX_MCDS_OUTBOX_KEY bytes, and gets the key of item.
 * NGX_OK: *item is set; NGX_AGAIN: no sum so far, call again; NGX_DONE: there
 * are no more.
 */

ngx_int_t ngx_mcds_outbox_take(ngx_mcds_outbox_t *outbox,
    ngx_mcds_account_t *account, ngx_uint_t *cursor,
    ngx_mcds_outbox_item_t *item, u_char *buf);


/*
 * Returns the next sum of an account that belongs to account->batch, with the
 * parameters and results of ngx_mcds_outbox_take().  With fresh, sums without a
 * batch are put into this batch; otherwise only the sums that are in the batch
 * already are returned.
 */

ngx_int_t ngx_mcds_outbox_mark(ngx_mcds_outbox_t *outbox,
    ngx_mcds_account_t *account, ngx_uint_t fresh, ngx_uint_t *cursor,
    ngx_mcds_outbox_item_t *item, u_char *buf);


/*
 * Returns 1 if this process may send the sums of an account, exclusively.  The
 * call must be repeated within 5 seconds.
 */

ngx_uint_t ngx_mcds_outbox_own(ngx_mcds_outbox_t *outbox,
    ngx_mcds_account_t *account);


/* Gives up the exclusive right to send the sums of an account. */

void ngx_mcds_outbox_disown(ngx_mcds_account_t *account);


/*
 * Starts a batch of the sums of an account, unless there is one.  Returns 1 if
 * the batch is new.
 */

ngx_uint_t ngx_mcds_outbox_open(ngx_mcds_outbox_t *outbox,
    ngx_mcds_account_t *account);


/*
 * Acknowledges a batch of the sums of an account: the sums marked for the batch
 * have arrived.
 */

void ngx_mcds_outbox_ack(ngx_mcds_outbox_t *outbox,
    ngx_mcds_account_t *account, uint64_t batch);


/* Marks an account of the outbox as clean if no sum is left in it. */

void ngx_mcds_outbox_check(ngx_mcds_outbox_t *outbox,
    ngx_mcds_account_t *account);


/*
 * Writes the name of a batch of sums, at most NGX_MCDS_OUTBOX_ID * 2 + 1 +
 * NGX_INT64_LEN bytes, which is unique worldwide.  Returns its end.
 */

u_char *ngx_mcds_outbox_batch_name(ngx_mcds_outbox_t *outbox, uint64_t batch,
    u_char *p);


#endif /* _NGX_MCDS_OUTBOX_H_INCLUDED_ */

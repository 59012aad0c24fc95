
/*
 * Copyright (C) mcds authors
 *
 * The outbox: shared memory, which outlives the workers, for the data that a
 * host remembers about its counters.  These are the last known values (if
 * memcached loses a counter, the counter continues from its value here), and
 * sums of changes that have not reached their destination yet.
 *
 * A worker may be killed at any time, even during a change.  So the slots, each
 * with the sum of one counter, have no pointers; each change becomes visible by
 * a single store; and ngx_mcds_outbox_sweep() frees the slots that a killed
 * worker has left over.
 */


#ifndef _NGX_MCDS_OUTBOX_H_INCLUDED_
#define _NGX_MCDS_OUTBOX_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/*
 * the maximum length of a counter's key in the outbox, bytes; unsent changes of
 * counters with longer keys are lost
 */
#define NGX_MCDS_OUTBOX_KEY       1024

/*
 * the limit of the absolute value of a counter's unsent sum, far below the
 * maximum of int64_t; changes beyond it are lost
 */
#define NGX_MCDS_OUTBOX_MAX       (((int64_t) 1 << 62) - 1)

#define NGX_MCDS_OUTBOX_NAME      80
#define NGX_MCDS_OUTBOX_ID        16


typedef struct ngx_mcds_outbox_s  ngx_mcds_outbox_t;


typedef enum {
    NGX_MCDS_OUTBOX_BUFFER = 1,        /* sums of changes of a pool's counters;
                                          ngx_mcds_outbox_take() takes the sums
                                          out one by one */
    NGX_MCDS_OUTBOX_POST               /* sums of changes of counters, for the
                                          origin (mcds_counter_writeback);
                                          ngx_mcds_outbox_mark() puts the sums
                                          into batches */
} ngx_mcds_outbox_kind_e;


/*
 * an account of the outbox, in shared memory: the unsent sums, one for each
 * counter, for one destination (a pool, or a URL of the origin)
 */

typedef struct {
    ngx_uint_t          kind;          /* where the sums of counters in this
                                          account will be sent: to a pool or to
                                          the origin; 0: the account is free */
    size_t              len;
    u_char              name[NGX_MCDS_OUTBOX_NAME];
    ngx_uint_t          generation;    /* generation (number of reloads) of the
                                          newest configuration that has used
                                          this account (the unsent sums of
                                          counters for one destination) */

    uint64_t            added;         /* how often a change of a counter was
                                          added here, to be sent later */
    uint64_t            clean;         /* value of "added" when no change of a
                                          counter was left to send: if "added"
                                          is the same now, none is left now */
    uint64_t            lost;          /* total of the counter changes that were
                                          lost, as the outbox had no room for
                                          them */
    uint64_t            said;          /* part of the lost counter changes that
                                          the error log has already told */
    ngx_msec_t          told;          /* when a loss of counter changes was
                                          last logged */

    ngx_msec_t          since;         /* the later one of two times: when the
                                          first unsent sum of counter changes
                                          was added, and when sums were last
                                          posted to a location */
    ngx_msec_t          retry;         /* earliest time of the next attempt to
                                          send the sums of counters */
    ngx_msec_t          delay;         /* delay of the next attempt to send the
                                          sums of counters; 0: no failure */

    /*
     * the field "batch" is used only if the sums of counters are for the
     * origin, to which a worker posts them in batches (mcds_counter_writeback)
     */

    uint64_t            batch;         /* number of the batch of sums that the
                                          origin has not acknowledged yet, or
                                          0 */
    ngx_pid_t           owner;         /* process id of the worker that sends
                                          the sums of counters, or 0 */
    ngx_msec_t          alive;         /* last sign of life of the worker that
                                          sends the sums of counters */
} ngx_mcds_account_t;


/*
 * 1 if an account, the unsent sums of counters for one destination, may have
 * such sums: a change of a counter was added since the account was last empty
 */
#define ngx_mcds_account_dirty(account)  ((account)->added != (account)->clean)


typedef struct {
    ngx_str_t           key;
    int64_t             delta;

    /*
     * fields of a change that is to be sent to memcached, set by
     * ngx_mcds_outbox_take(); ngx_mcds_outbox_mark(), which returns the changes
     * that are to be posted to the origin, does not set these fields
     */
    uint64_t            initial;
    uint32_t            ttl;           /* remaining time to live of the counter
                                          in seconds; 0: no expiry */
    ngx_uint_t          flags;         /* flags that the caller has stored with
                                          the counter's sum, up to 255 */
} ngx_mcds_outbox_item_t;


/*
 * 1 if the sum of two changes of a counter, "total" and "delta", is within the
 * limit of unsent sums
 */
#define ngx_mcds_outbox_fits(total, delta)                                    \
    ((total) <= NGX_MCDS_OUTBOX_MAX - ngx_max(delta, 0)                       \
     && (total) >= -NGX_MCDS_OUTBOX_MAX - ngx_min(delta, 0))


/*
 * the outbox, shared memory in which this host remembers the last known values
 * and the unsent sums of counters; NULL: none
 */
extern ngx_mcds_outbox_t  *ngx_mcds_outbox;


/*
 * Creates an outbox, for the last known values and the unsent sums of counters,
 * in the zeroed memory at addr.  Returns NULL if the memory is too small.  The
 * functions below lock the mutex themselves if necessary.
 */

ngx_mcds_outbox_t *ngx_mcds_outbox_init(u_char *addr, size_t size,
    ngx_shmtx_t *mutex);


/*
 * Frees the slots that a killed worker has left in the outbox and that are in
 * no hash chain.  A slot has the sum of one counter's changes that have not
 * reached their destination yet.
 */

void ngx_mcds_outbox_sweep(ngx_mcds_outbox_t *outbox);


/*
 * Returns the account with this kind and name, which has the unsent sums of
 * counters for one destination; the account is created if necessary.  Returns
 * NULL if there are too many accounts.  generation is that of the caller's
 * configuration, and grows with each reload; the account keeps the largest one
 * of its callers.
 */

ngx_mcds_account_t *ngx_mcds_outbox_account(ngx_mcds_outbox_t *outbox,
    ngx_uint_t kind, ngx_str_t *name, ngx_uint_t generation);


/*
 * Returns the id of a counter, a hash of its pool's name and prefix and of its
 * key, by which this host finds the counter's last known value in shared memory
 * (the outbox).  The id is never 0.
 */

uint64_t ngx_mcds_outbox_id(ngx_mcds_outbox_t *outbox, ngx_str_t *pool,
    ngx_str_t *prefix, ngx_str_t *key);


/*
 * Returns a lower bound of a counter's value, as far as this host knows; 0:
 * unknown.
 */

uint64_t ngx_mcds_outbox_known(ngx_mcds_outbox_t *outbox, uint64_t id);


/*
 * Returns the last known value of a counter, and in *age the milliseconds since
 * this host learned the value.  Returns 0 if the value is unknown.
 */

uint64_t ngx_mcds_outbox_heard(ngx_mcds_outbox_t *outbox, uint64_t id,
    ngx_msec_t *age);


/*
 * Remembers on this host the value of a counter in memcached's reply to a
 * command that was sent at this time.  A value below the known one comes from
 * a late reply and is ignored or, if the command was sent well after the known
 * value was learned, shows that the counter was lowered.
 */

void ngx_mcds_outbox_learn(ngx_mcds_outbox_t *outbox, uint64_t id,
    uint64_t value, ngx_msec_t sent);


/*
 * Remembers on this host that a counter was certainly lowered to this value.
 */

void ngx_mcds_outbox_lower(ngx_mcds_outbox_t *outbox, uint64_t id,
    uint64_t value);


/*
 * Lowers the last known value of a counter by delta, which this host has
 * subtracted in memcached.  The value in memcached's reply is not used: it may
 * be too small, if memcached had lost the counter.
 */

void ngx_mcds_outbox_subtract(ngx_mcds_outbox_t *outbox, uint64_t id,
    uint64_t delta);


/*
 * Adds a counter's unsent sum to an account, the sums for one destination.
 * Returns NGX_BUSY, and increases account->lost, if the outbox has no room, the
 * key is too long, or the sum would exceed NGX_MCDS_OUTBOX_MAX.
 */

ngx_int_t ngx_mcds_outbox_add(ngx_mcds_outbox_t *outbox,
    ngx_mcds_account_t *account, ngx_mcds_outbox_item_t *item);


/*
 * Returns 1 if less than a quarter of the outbox is free for the unsent sums of
 * further counters.
 */

ngx_uint_t ngx_mcds_outbox_crowded(ngx_mcds_outbox_t *outbox);


/*
 * Returns the total of the absolute values of all unsent sums of counters in an
 * account (the sums for one destination).
 */

uint64_t ngx_mcds_outbox_left(ngx_mcds_outbox_t *outbox,
    ngx_mcds_account_t *account);


/*
 * Returns the total of the absolute values of all unsent sums of counters in an
 * account (the sums for one destination), and marks the account as unused.
 * Called when nginx exits: the sums stay in the outbox, whose memory is freed
 * afterwards.
 */

uint64_t ngx_mcds_outbox_forget(ngx_mcds_outbox_t *outbox,
    ngx_mcds_account_t *account);


/*
 * Returns the total of the absolute values of all unsent sums of counters in
 * shared memory (the outbox), and marks all accounts, each with the sums for
 * one destination, as unused, as ngx_mcds_outbox_forget() does.
 */

uint64_t ngx_mcds_outbox_forget_all(ngx_mcds_outbox_t *outbox);


/*
 * Takes the next unsent sum of a counter out of an account (the sums for one
 * destination).  *cursor is the caller's position in the outbox, 0 at the
 * start; buf has room for NGX_MCDS_OUTBOX_KEY bytes, and gets the counter's
 * key.  NGX_OK: *item is the sum; NGX_AGAIN: no sum so far, call again;
 * NGX_DONE: the account has no more sums.
 */

ngx_int_t ngx_mcds_outbox_take(ngx_mcds_outbox_t *outbox,
    ngx_mcds_account_t *account, ngx_uint_t *cursor,
    ngx_mcds_outbox_item_t *item, u_char *buf);


/*
 * Returns the next counter's sum in the batch of an account (the unsent sums
 * for one destination): a worker posts the batch to the origin server in one
 * request.  Parameters and results are as with ngx_mcds_outbox_take(), but the
 * sum stays in the account.  If fresh is 1, sums that are not in the batch are
 * put into it and returned, too; otherwise such sums are skipped.
 */

ngx_int_t ngx_mcds_outbox_mark(ngx_mcds_outbox_t *outbox,
    ngx_mcds_account_t *account, ngx_uint_t fresh, ngx_uint_t *cursor,
    ngx_mcds_outbox_item_t *item, u_char *buf);


/*
 * Returns 1 if no other process sends the counters' sums in an account (the
 * sums for one destination), and gives this process the exclusive right to
 * send the sums.  To keep this right, the process must call the function again
 * within 5 seconds.
 */

ngx_uint_t ngx_mcds_outbox_own(ngx_mcds_outbox_t *outbox,
    ngx_mcds_account_t *account);


/*
 * Ends the exclusive right of this process to send the counters' sums in an
 * account (the sums for one destination).
 */

void ngx_mcds_outbox_disown(ngx_mcds_account_t *account);


/*
 * Starts a batch of an account (the unsent sums of counters for one URL of the
 * origin): a worker posts the sums of a batch in one request.  Does nothing if
 * the origin has not acknowledged the account's last batch yet.  Returns 1 if
 * the batch is new.
 */

ngx_uint_t ngx_mcds_outbox_open(ngx_mcds_outbox_t *outbox,
    ngx_mcds_account_t *account);


/*
 * Called when the origin server has acknowledged a batch of counters' sums that
 * were posted to it: removes these sums from the account, the unsent sums for
 * this destination, except for changes of counters that were added meanwhile.
 */

void ngx_mcds_outbox_ack(ngx_mcds_outbox_t *outbox,
    ngx_mcds_account_t *account, uint64_t batch);


/*
 * Marks an account, the counters' sums for one destination, as empty if the
 * outbox has no unsent sum for it.
 */

void ngx_mcds_outbox_check(ngx_mcds_outbox_t *outbox,
    ngx_mcds_account_t *account);


/*
 * Writes the name of a batch of counters' sums, by which the origin recognizes
 * a repetition: unique worldwide, and at most NGX_MCDS_OUTBOX_ID * 2 + 1 +
 * NGX_INT64_LEN bytes.  Returns the end of the name.
 */

u_char *ngx_mcds_outbox_batch_name(ngx_mcds_outbox_t *outbox, uint64_t batch,
    u_char *p);


#endif /* _NGX_MCDS_OUTBOX_H_INCLUDED_ */

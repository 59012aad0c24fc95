
/*
 * Copyright (C) mcds authors
 *
 * What a host remembers of its counters, in memory that all of its workers
 * share and that outlives them: the last known numbers, so that a counter
 * which memcached has lost goes on from there; and sums that have not reached
 * their destination yet.
 *
 * A worker may be killed at any time, also in the middle of a change: there
 * are no pointers, each change becomes visible by one store, and what may be
 * left over by it is found by ngx_mcds_ledger_sweep().
 */


#ifndef _NGX_MCDS_LEDGER_H_INCLUDED_
#define _NGX_MCDS_LEDGER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* a key that is longer is not kept; bytes */
#define NGX_MCDS_LEDGER_KEY       1024

#define NGX_MCDS_LEDGER_NAME      80
#define NGX_MCDS_LEDGER_ID        16


typedef struct ngx_mcds_ledger_s  ngx_mcds_ledger_t;


typedef enum {
    NGX_MCDS_LEDGER_BUFFER = 1,        /* of a pool; for take() */
    NGX_MCDS_LEDGER_POST               /* for mark() */
} ngx_mcds_ledger_kind_e;


/* a destination of sums, in shared memory */

typedef struct {
    ngx_uint_t          kind;          /* 0: no account */
    size_t              len;
    u_char              name[NGX_MCDS_LEDGER_NAME];
    ngx_uint_t          generation;    /* of the configuration that uses it */

    uint64_t            added;         /* how often something was, */
    uint64_t            clean;         /* and when nothing was left */
    uint64_t            lost;          /* what found no room, */
    uint64_t            said;          /* and was logged, */
    ngx_msec_t          told;          /* then */

    ngx_msec_t          since;         /* there is something */
    ngx_msec_t          retry;         /* not earlier */
    ngx_msec_t          delay;         /* of the next retry; 0: it was well */

    /* of batches */
    uint64_t            batch;         /* marked and not acknowledged, or 0 */
    ngx_pid_t           owner;         /* who works on it, or 0 */
    ngx_msec_t          alive;         /* the owner was, then */
} ngx_mcds_account_t;


/* whether something has been added since all was taken or acknowledged */
#define ngx_mcds_account_dirty(account)  ((account)->added != (account)->clean)


typedef struct {
    ngx_str_t           key;
    int64_t             delta;

    /* of those that are taken */
    uint64_t            initial;
    uint32_t            ttl;           /* left of it, 0: for ever */
    ngx_uint_t          flags;         /* the caller's, up to 255 */
} ngx_mcds_ledger_item_t;


/* that of this process, or NULL */
extern ngx_mcds_ledger_t  *ngx_mcds_ledger;


/*
 * init: makes a ledger of memory that holds zeros; NULL if it is too small.
 * All that follows locks the mutex.
 *
 * sweep: frees what belongs to nobody because a worker was killed.
 *
 * account: that of the kind and name, made if there is none; NULL if there
 * are too many.  generation: that of the caller's configuration, which grows.
 */

ngx_mcds_ledger_t *ngx_mcds_ledger_init(u_char *addr, size_t size,
    ngx_shmtx_t *mutex);
void ngx_mcds_ledger_sweep(ngx_mcds_ledger_t *ledger);
ngx_mcds_account_t *ngx_mcds_ledger_account(ngx_mcds_ledger_t *ledger,
    ngx_uint_t kind, ngx_str_t *name, ngx_uint_t generation);


/*
 * Numbers.  id: of a counter, never 0.  known: what it had at least, 0 when
 * nothing is known.  heard: the same, and how many milliseconds ago that was
 * learned.  learn: it had that value, in answer to what was sent at
 * that time; lower ones than the known are answers that came late, or, if
 * they were asked for later, the counter was lowered.  lower: it was lowered to
 * that value, for sure.
 */

uint64_t ngx_mcds_ledger_id(ngx_mcds_ledger_t *ledger, ngx_str_t *pool,
    ngx_str_t *key);
uint64_t ngx_mcds_ledger_known(ngx_mcds_ledger_t *ledger, uint64_t id);
uint64_t ngx_mcds_ledger_heard(ngx_mcds_ledger_t *ledger, uint64_t id,
    ngx_msec_t *age);
void ngx_mcds_ledger_learn(ngx_mcds_ledger_t *ledger, uint64_t id,
    uint64_t value, ngx_msec_t sent);
void ngx_mcds_ledger_lower(ngx_mcds_ledger_t *ledger, uint64_t id,
    uint64_t value);


/*
 * Sums.  add: NGX_OK, or NGX_BUSY when there is no room or the key is too
 * long (account->lost grows).  crowded: less than a quarter of the room is
 * left.  left: the sum of what an account holds, without signs.  forget: the
 * same at the very end, after which there is no such account; all: of all
 * that are still there.
 */

ngx_int_t ngx_mcds_ledger_add(ngx_mcds_ledger_t *ledger,
    ngx_mcds_account_t *account, ngx_mcds_ledger_item_t *item);
ngx_uint_t ngx_mcds_ledger_crowded(ngx_mcds_ledger_t *ledger);
uint64_t ngx_mcds_ledger_left(ngx_mcds_ledger_t *ledger,
    ngx_mcds_account_t *account);
uint64_t ngx_mcds_ledger_forget(ngx_mcds_ledger_t *ledger,
    ngx_mcds_account_t *account);
uint64_t ngx_mcds_ledger_forget_all(ngx_mcds_ledger_t *ledger);


/*
 * Go through an account from *cursor on, which is 0 in the beginning.  buf has
 * room for NGX_MCDS_LEDGER_KEY bytes, in which item->key is.  NGX_OK: here is
 * one; NGX_AGAIN: none so far, call again; NGX_DONE: this was all.
 *
 * take: it is not in the ledger any more.  mark: it belongs to account->batch;
 * fresh: those that are in no batch are put into it, otherwise only those that
 * are in it already are shown.
 */

ngx_int_t ngx_mcds_ledger_take(ngx_mcds_ledger_t *ledger,
    ngx_mcds_account_t *account, ngx_uint_t *cursor,
    ngx_mcds_ledger_item_t *item, u_char *buf);
ngx_int_t ngx_mcds_ledger_mark(ngx_mcds_ledger_t *ledger,
    ngx_mcds_account_t *account, ngx_uint_t fresh, ngx_uint_t *cursor,
    ngx_mcds_ledger_item_t *item, u_char *buf);


/*
 * Batches.  own: 1 if this process may work on the account, alone; it has to
 * say so again within 5 seconds.  disown: it does not any more.  open: begins
 * a batch, if there is none; 1 if it is new.  ack: what was marked for this
 * batch has arrived.  check: account->clean, if there is nothing left.
 *
 * batch_name: the batch in NGX_MCDS_LEDGER_ID * 2 + 1 + NGX_INT64_LEN bytes
 * at most, unique in the world; returns its end.
 */

ngx_uint_t ngx_mcds_ledger_own(ngx_mcds_ledger_t *ledger,
    ngx_mcds_account_t *account);
void ngx_mcds_ledger_disown(ngx_mcds_account_t *account);
ngx_uint_t ngx_mcds_ledger_open(ngx_mcds_ledger_t *ledger,
    ngx_mcds_account_t *account);
void ngx_mcds_ledger_ack(ngx_mcds_ledger_t *ledger,
    ngx_mcds_account_t *account, uint64_t batch);
void ngx_mcds_ledger_check(ngx_mcds_ledger_t *ledger,
    ngx_mcds_account_t *account);
u_char *ngx_mcds_ledger_batch_name(ngx_mcds_ledger_t *ledger, uint64_t batch,
    u_char *p);


#endif /* _NGX_MCDS_LEDGER_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * The layout of the outbox, shared memory for the last known values of counters
 * and for the unsent sums of their changes:
 *
 *   ngx_mcds_outbox_t | known values, in sets of 8 | heads | slots
 *
 * The id of a counter selects the set for its known value; in a full set the
 * value that was learned the longest time ago makes room.  A slot with the sum
 * of a counter is in a hash chain, which begins at a head; further slots have
 * the rest of a long key.  Slots refer to each other by their numbers, 0 for
 * none.
 */


#ifndef _NGX_MCDS_OUTBOX_CORE_H_INCLUDED_
#define _NGX_MCDS_OUTBOX_CORE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds.h"
#include "ngx_mcds_outbox.h"


#define NGX_MCDS_OUTBOX_WAYS      8
#define NGX_MCDS_OUTBOX_ACCOUNTS  32

#define NGX_MCDS_OUTBOX_SLOT      128

/*
 * the number of slots of the outbox, each for one counter, that a function
 * examines before it unlocks the outbox for a moment
 */
#define NGX_MCDS_OUTBOX_STEP      256

/*
 * the longest delay of a reply of memcached; and the time without a sign of
 * life after which the process that sends counters' sums counts as dead; ms
 */
#define NGX_MCDS_OUTBOX_LATE      1000
#define NGX_MCDS_OUTBOX_DEAD      5000


typedef struct {
    uint64_t                  id;         /* id of the counter with this known
                                             value; 0: none */
    uint64_t                  value;
    uint64_t                  time;
} ngx_mcds_known_t;


typedef struct {
    uint32_t                  next;       /* number of the next slot (one
                                             counter's sum) in the same hash
                                             chain, or of the next free slot */
    uint32_t                  more;       /* number of the outbox's slot with
                                             the rest of a long key */
    u_char                    account;    /* number of the account (all sums for
                                             one destination) with the counter's
                                             sum; 0: the slot is free, or has
                                             the rest of a key */
    u_char                    flags;
    uint16_t                  len;        /* length of the whole key of the
                                             counter */
    uint32_t                  ttl;

    uint64_t                  id;
    int64_t                   total;      /* sum of all changes of the counter
                                             that were added to this slot */

    union {
        struct {
            int64_t           marked;     /* value of "total", the counter's
                                             sum, when the batch for the origin
                                             was made */
            int64_t           posted;     /* part of "total", the counter's
                                             sum, that the origin has
                                             acknowledged */
            uint64_t          batch;
        } post;

        struct {
            uint64_t          initial;
            time_t            since;
        } take;
    } u;

    u_char                    key[8];
} ngx_mcds_slot_t;


#define NGX_MCDS_OUTBOX_INLINE                                                \
    (NGX_MCDS_OUTBOX_SLOT - offsetof(ngx_mcds_slot_t, key))

/*
 * the number of bytes that a slot of the outbox has for the rest of a long key;
 * they begin after the field "account"
 */
#define NGX_MCDS_OUTBOX_REST                                                  \
    (NGX_MCDS_OUTBOX_SLOT - offsetof(ngx_mcds_slot_t, account) - 1)


struct ngx_mcds_outbox_s {
    ngx_shmtx_t              *mutex;
    uint64_t                  secret[2];
    u_char                    name[NGX_MCDS_OUTBOX_ID];
    uint64_t                  sequence;   /* number of the last batch of unsent
                                             changes of counters, to be posted
                                             to the origin server */

    ngx_mcds_known_t         *known;
    ngx_uint_t                nsets;

    uint32_t                 *heads;
    ngx_uint_t                nheads;     /* number of hash chains of slots in
                                             the outbox, a power of two */

    u_char                   *slots;      /* all slots of the outbox, one for
                                             each counter with an unsent sum;
                                             slot 0 is not used */
    ngx_uint_t                nslots;
    ngx_uint_t                nfree;
    uint32_t                  free;

    /*
     * all accounts: each has the unsent sums of counters for one destination (a
     * pool, or a URL of the origin); account 0 is not used
     */
    ngx_mcds_account_t        accounts[NGX_MCDS_OUTBOX_ACCOUNTS + 1];
};


#define ngx_mcds_outbox_slot(outbox, n)                                       \
    ((ngx_mcds_slot_t *) ((outbox)->slots                                     \
                          + (size_t) (n) * NGX_MCDS_OUTBOX_SLOT))

#define ngx_mcds_outbox_rest(slot)  (&(slot)->account + 1)

#define ngx_mcds_outbox_head(outbox, id)                                      \
    (&(outbox)->heads[(id) & ((outbox)->nheads - 1)])


/*
 * Returns a hash of the len bytes at p.  The key of the hash is the random
 * secret of the outbox (the memory of unsent changes of counters) xor tweak.
 */

uint64_t ngx_mcds_outbox_hash(ngx_mcds_outbox_t *outbox, uint64_t tweak,
    u_char *p, size_t len);


/* The functions of the outbox below are called while its lock is held. */


/*
 * Returns the slot with the unsent sum of the counter that has this key; NULL:
 * there is no sum.  account is the number of the account: the sums for one
 * destination (a pool, or a URL of the origin).  id is the key's hash:
 * ngx_mcds_outbox_hash() with the account's number as tweak.
 */

ngx_mcds_slot_t *ngx_mcds_outbox_find(ngx_mcds_outbox_t *outbox,
    ngx_uint_t account, uint64_t id, ngx_str_t *key);


/*
 * Makes a slot in shared memory (the outbox) for a counter's unsent sum, for a
 * destination for which the counter has no sum yet.  The parameters are those
 * of ngx_mcds_outbox_find().  NULL: too few slots are free.
 */

ngx_mcds_slot_t *ngx_mcds_outbox_create(ngx_mcds_outbox_t *outbox,
    ngx_uint_t account, uint64_t id, ngx_str_t *key);


/* Puts slot n of the outbox (one counter's sum) into the list of free slots. */

void ngx_mcds_outbox_free(ngx_mcds_outbox_t *outbox, uint32_t n);


/*
 * Removes a counter's sum from the outbox: takes its slot out of the hash
 * chain, and frees the slot and those with the rest of the counter's key.
 */

void ngx_mcds_outbox_remove(ngx_mcds_outbox_t *outbox, uint32_t n);


#endif /* _NGX_MCDS_OUTBOX_CORE_H_INCLUDED_ */

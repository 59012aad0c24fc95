
/*
 * Copyright (C) mcds authors
 *
 *   outbox | known numbers, in sets of 8 | heads | slots
 *
 * A known number has its place in one set; the number that was learned the
 * longest time ago makes room.  Sums are in chains of slots, which begin at a
 * head; the rest of a long key is in further slots.  Slots refer to each other
 * by their numbers, 0 for none.
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

/* the number of slots of the outbox that are examined while the lock is held */
#define NGX_MCDS_OUTBOX_STEP      256

/*
 * the longest delay of a reply, and the time without a sign of life after which
 * the owner of an account counts as dead; ms
 */
#define NGX_MCDS_OUTBOX_LATE      1000
#define NGX_MCDS_OUTBOX_DEAD      5000


typedef struct {
    uint64_t                  id;         /* id of the counter; 0: no counter */
    uint64_t                  value;
    uint64_t                  time;
} ngx_mcds_known_t;


typedef struct {
    uint32_t                  next;       /* next slot in the chain, or of the
                                             free slots */
    uint32_t                  more;       /* slot with the rest of a long key */
    u_char                    account;    /* account; 0: the slot is free, or
                                             has the rest of a key */
    u_char                    flags;
    uint16_t                  len;        /* length of the whole key of the
                                             counter */
    uint32_t                  ttl;

    uint64_t                  id;
    int64_t                   total;      /* sum of all additions to the
                                             counter */

    union {
        struct {
            int64_t           marked;     /* total when it was marked for the
                                             batch */
            int64_t           posted;     /* part of the total that is
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

/* the rest of a long key begins after the field "account" of a slot */
#define NGX_MCDS_OUTBOX_REST                                                  \
    (NGX_MCDS_OUTBOX_SLOT - offsetof(ngx_mcds_slot_t, account) - 1)


struct ngx_mcds_outbox_s {
    ngx_shmtx_t              *mutex;
    uint64_t                  secret[2];
    u_char                    name[NGX_MCDS_OUTBOX_ID];
    uint64_t                  sequence;   /* number of the last batch of sums */

    ngx_mcds_known_t         *known;
    ngx_uint_t                nsets;

    uint32_t                 *heads;
    ngx_uint_t                nheads;     /* number of heads of chains, a power
                                             of two */

    u_char                   *slots;      /* all slots of the outbox; slot 0 is
                                             not used */
    ngx_uint_t                nslots;
    ngx_uint_t                nfree;
    uint32_t                  free;

    /* all accounts of the outbox; account 0 is not used */
    ngx_mcds_account_t        accounts[NGX_MCDS_OUTBOX_ACCOUNTS + 1];
};


#define ngx_mcds_outbox_slot(outbox, n)                                       \
    ((ngx_mcds_slot_t *) ((outbox)->slots                                     \
                          + (size_t) (n) * NGX_MCDS_OUTBOX_SLOT))

#define ngx_mcds_outbox_rest(slot)  (&(slot)->account + 1)

#define ngx_mcds_outbox_head(outbox, id)                                      \
    (&(outbox)->heads[(id) & ((outbox)->nheads - 1)])


/* Returns the hash of a text, by the secret of the outbox. */

uint64_t ngx_mcds_outbox_hash(ngx_mcds_outbox_t *outbox, uint64_t tweak,
    u_char *p, size_t len);


/* The functions of the outbox below are called while its lock is held. */


/* Returns the slot of a key of an account of the outbox, or NULL. */

ngx_mcds_slot_t *ngx_mcds_outbox_find(ngx_mcds_outbox_t *outbox,
    ngx_uint_t account, uint64_t id, ngx_str_t *key);


/*
 * Makes the slot of a key of an account, which must not exist yet; NULL: there
 * is no room in the outbox.
 */

ngx_mcds_slot_t *ngx_mcds_outbox_create(ngx_mcds_outbox_t *outbox,
    ngx_uint_t account, uint64_t id, ngx_str_t *key);


/* Makes one slot of the outbox free. */

void ngx_mcds_outbox_free(ngx_mcds_outbox_t *outbox, uint32_t n);


/*
 * Takes a slot of the outbox out of its chain, and makes the slot, and the rest
 * of its key, free.
 */

void ngx_mcds_outbox_remove(ngx_mcds_outbox_t *outbox, uint32_t n);


#endif /* _NGX_MCDS_OUTBOX_CORE_H_INCLUDED_ */

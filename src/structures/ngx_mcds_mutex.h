
/*
 * Copyright (C) mcds authors
 *
 * A lock that programs share with nginx: one owner at a time on all hosts, who
 * gets a number that is larger than those of all owners before.  The item key
 * holds the number and the name of the owner,
 *
 *     1763668800123456 0f8c...
 *
 * with the number 0 until it is known, and has a time to live, which frees the
 * lock when its owner has died.  The item key:fence counts owners.  It begins
 * with the time in microseconds, so that it goes on with larger numbers after
 * memcached has lost it.
 *
 *     add key "0 owner"         not stored: somebody else has it
 *     incr key:fence, by 1      or add it, if it is not there
 *     cas key "number owner"    differs: it was lost meanwhile
 *     ...                       cas again and again, for another time to live
 *     delete key                by compare-and-delete
 *
 * An owner has its number only if nobody else can have got one between the
 * first step and the third: so the numbers rise from owner to owner.
 *
 * Those of one worker who wait for the same lock stand in a line.  Only the
 * first of them asks memcached, every few milliseconds, more often in the
 * second half of its time; it is tried at once when an owner of the same worker
 * releases the lock.  A worker that has had the lock again and again for
 * NGX_MCDS_MUTEX_SERIES then pauses for longer than others take to ask, so that
 * it is their turn.
 */


#ifndef _NGX_MCDS_MUTEX_H_INCLUDED_
#define _NGX_MCDS_MUTEX_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_client.h"
#include "ngx_mcds_update.h"


/* bytes of the name of an owner, 0x21 to 0x7e */
#define NGX_MCDS_MUTEX_OWNER      64

/* of a name that is made here */
#define NGX_MCDS_MUTEX_MADE       32

/* of what the item holds */
#define NGX_MCDS_MUTEX_TEXT       (NGX_INT64_LEN + 1 + NGX_MCDS_MUTEX_OWNER)

/* what stands behind the key for the counter, and how long that lives */
#define NGX_MCDS_MUTEX_FENCE      ":fence"
#define NGX_MCDS_MUTEX_FENCE_TTL  86400


/* 1 if the key is where owners are counted, and can be no lock */

ngx_uint_t ngx_mcds_mutex_is_fence(ngx_str_t *key);

/* milliseconds; see above */
#define NGX_MCDS_MUTEX_INTERVAL   6
#define NGX_MCDS_MUTEX_SERIES     50
#define NGX_MCDS_MUTEX_PAUSE      15

/* a time to live, seconds: it is extended every third of it */
#define NGX_MCDS_MUTEX_MIN_TTL    2


typedef struct ngx_mcds_mutex_s  ngx_mcds_mutex_t;


typedef enum {
    NGX_MCDS_MUTEX_HELD = 0,
    NGX_MCDS_MUTEX_BUSY,          /* somebody else has it */
    NGX_MCDS_MUTEX_LATE,          /* ... and had it all the time of waiting */
    NGX_MCDS_MUTEX_FULL,          /* ... and too many wait for it */
    NGX_MCDS_MUTEX_UNAVAILABLE,   /* memcached has not answered, or badly */
    NGX_MCDS_MUTEX_LOST           /* after HELD: perhaps somebody else has it */
} ngx_mcds_mutex_e;


/*
 * What became of a wish.  With HELD the mutex is the caller's, and may be LOST
 * later, once; with all others it is NULL.
 */

typedef void (*ngx_mcds_mutex_pt)(void *data, ngx_mcds_mutex_t *mutex,
    ngx_uint_t status);


/* the strings are copied */

typedef struct {
    ngx_mcds_pool_t      *pool;
    ngx_str_t             key;
    ngx_str_t             owner;     /* empty: is made */
    uint32_t              ttl;       /* seconds that it lasts */
    ngx_msec_t            wait;      /* for at most so long */
    ngx_uint_t            waiters;   /* in this worker, at most */
} ngx_mcds_mutex_wish_t;


/*
 * acquire: NULL when out of memory; otherwise the handler is called once, not
 * from inside of this call, unless the mutex is released before.  What is held
 * is extended every third of its time to live until it is released.
 *
 * release: at any time before the handler was called with anything but HELD.
 * leave: instead of that, when it is held: it stays for the rest of its time,
 * for a caller who will know it by its owner.
 *
 * number, owner: of one that is held.  asked: 1 if, before that, somebody else
 * had it, so that the caller waits, or has waited, for that one.
 */

ngx_mcds_mutex_t *ngx_mcds_mutex_acquire(ngx_mcds_mutex_wish_t *wish,
    ngx_mcds_mutex_pt handler, void *data);
void ngx_mcds_mutex_release(ngx_mcds_mutex_t *mutex);
void ngx_mcds_mutex_leave(ngx_mcds_mutex_t *mutex);
ngx_uint_t ngx_mcds_mutex_asked(ngx_mcds_mutex_t *mutex);
uint64_t ngx_mcds_mutex_number(ngx_mcds_mutex_t *mutex);
ngx_str_t *ngx_mcds_mutex_owner(ngx_mcds_mutex_t *mutex);


/* what is in memcached; the owner is a slice of what was read */

typedef struct {
    uint64_t              number;    /* 0: not known yet */
    ngx_str_t             owner;
} ngx_mcds_mutex_item_t;


/*
 * For who is not asked to hold it.  rc of ngx_mcds_rc_e: OK, or NOT_FOUND if
 * nobody has the lock; item: what it holds, NULL if that is no lock of this
 * kind; ttl: seconds that are left for sure, -1: not known.  All live as long
 * as the handler runs.
 */

typedef struct {
    ngx_uint_t              rc;
    ngx_mcds_mutex_item_t  *item;
    int64_t                 ttl;
} ngx_mcds_mutex_state_t;

typedef void (*ngx_mcds_mutex_state_pt)(void *data,
    ngx_mcds_mutex_state_t *state);


/*
 * Gives the lock of that owner, and of that number unless it is 0, so many
 * seconds from now, or releases it, with 0; rc: OK; EXISTS, somebody else has
 * it; NOT_FOUND, nobody; others as ever.  Without an owner: tells what is
 * there.  The handler is called once, not from inside of the call, and may free
 * the change, which lives in a struct of the caller's, as what key and owner
 * point to; all that the caller does not set is zero.
 */

typedef struct {
    ngx_mcds_pool_t          *pool;
    ngx_str_t                 key;
    ngx_mcds_mutex_item_t     item;
    uint32_t                  ttl;
    ngx_mcds_mutex_state_pt   handler;
    void                     *data;

    ngx_mcds_update_t         update;  /* of mutex_change.c */
} ngx_mcds_mutex_change_t;

void ngx_mcds_mutex_change(ngx_mcds_mutex_change_t *change);


/* somebody has released it: who waits here need not wait any longer */

void ngx_mcds_mutex_kick(ngx_mcds_pool_t *pool, ngx_str_t *key);


/*
 * Pure functions, in ngx_mcds_mutex_item.c.
 *
 * write: what the item holds, in NGX_MCDS_MUTEX_TEXT bytes; returns the end.
 * read: NGX_OK, or NGX_DECLINED if it is something else.
 * check: NGX_OK if the text can be the name of an owner.
 * first: the number to begin with, from the time in microseconds and the
 * largest number that this worker has seen, of any lock.
 * interval: milliseconds to the next try of one who has waited for so long, of
 * so long that he will, with that random number.
 * pause: the same for a worker that has just released it, and has had it for
 * so long again and again.
 */

u_char *ngx_mcds_mutex_write(u_char *buf, ngx_mcds_mutex_item_t *item);
ngx_int_t ngx_mcds_mutex_read(ngx_mcds_mutex_item_t *item, u_char *data,
    size_t len);
ngx_int_t ngx_mcds_mutex_check(ngx_str_t *owner);
uint64_t ngx_mcds_mutex_first(uint64_t now, uint64_t seen);
ngx_msec_t ngx_mcds_mutex_interval(ngx_msec_t waited, ngx_msec_t wait,
    ngx_uint_t random);
ngx_msec_t ngx_mcds_mutex_pause(ngx_msec_t series);


#endif /* _NGX_MCDS_MUTEX_H_INCLUDED_ */

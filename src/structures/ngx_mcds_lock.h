
/*
 * Copyright (C) mcds authors
 *
 * A lock that programs share with nginx.  The lock has one owner at a time on
 * all hosts.  Each owner gets a number that is larger than those of all
 * previous owners (a fencing token).  The value of the item "key" contains the
 * number and the name of the owner,
 *
 *   1763668800123456 0f8c...
 *
 * with 0 until the number is known.  The item's time to live frees the lock if
 * the owner has died.  The item key:fence counts owners.  Its count starts at
 * the time in microseconds, so that the numbers increase even after memcached
 * has lost the item.
 *
 *   add key "0 owner"        not stored: another owner has the lock
 *   incr key:fence, by 1     or add it, if it is missing
 *   cas key "number owner"   differs: the lock was lost meanwhile
 *   ...                      cas again and again, for another time to live
 *   delete key               by compare-and-delete
 *
 * ngx_mcds_lock.c sends the incr, the lease (ngx_mcds_lease.h) the others.
 *
 * An owner has its number only if no other client can have got one between the
 * first and the third step; so the numbers increase from owner to owner.
 *
 * The waiters of a worker for the same lock are served first come, first
 * served.  Only the first one asks memcached, every few milliseconds, and more
 * often in the second half of its waiting time; it tries at once when an owner
 * in the same worker releases the lock.  A worker that has had the lock
 * repeatedly for NGX_MCDS_LOCK_SERIES pauses for longer than the intervals of
 * other workers, so that one of them gets the lock.
 */


#ifndef _NGX_MCDS_LOCK_H_INCLUDED_
#define _NGX_MCDS_LOCK_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_client.h"
#include "ngx_mcds_stat_sums.h"
#include "ngx_mcds_update.h"


/* the maximum length of the name of a lock's owner, bytes of 0x21 to 0x7e */
#define NGX_MCDS_LOCK_OWNER       64

/* the length of a generated name of a lock's owner */
#define NGX_MCDS_LOCK_MADE        32

/* the maximum length of the value of a lock's item */
#define NGX_MCDS_LOCK_TEXT        (NGX_INT64_LEN + 1 + NGX_MCDS_LOCK_OWNER)

/*
 * the suffix of the key of the counter that gives the owners of a lock their
 * fencing tokens, and the counter's time to live, seconds
 */
#define NGX_MCDS_LOCK_FENCE       ":fence"
#define NGX_MCDS_LOCK_FENCE_TTL   86400


/*
 * Returns 1 if a key ends with ":fence".  Such a key cannot be the key of a
 * lock, only that of the counter of a lock's owners.
 */

ngx_uint_t ngx_mcds_lock_is_fence(ngx_str_t *key);

/*
 * milliseconds: the maximum interval between attempts to acquire a lock of
 * another owner; the time for which a worker may acquire a lock again and
 * again; and its pause after this time, in which other workers acquire the lock
 */
#define NGX_MCDS_LOCK_INTERVAL    6
#define NGX_MCDS_LOCK_SERIES      50
#define NGX_MCDS_LOCK_PAUSE       15

/*
 * the minimum time to live of a lock, seconds; a lock is extended every third
 * of its time to live
 */
#define NGX_MCDS_LOCK_MIN_TTL     2


typedef struct ngx_mcds_lock_s  ngx_mcds_lock_t;


/*
 * The results of a request for a lock:
 *
 * HELD          the request has the lock
 * BUSY          another owner has the lock
 * LATE          another owner had the lock during the whole wait
 * FULL          another owner has the lock, and too many requests wait
 * UNAVAILABLE   no reply or an error from memcached, or out of memory
 * LOST          after HELD: another owner may have the lock
 */

#define ngx_mcds_lock_result(name, word)  NGX_MCDS_LOCK_##name,

typedef enum {
    NGX_MCDS_LOCK_LIST(ngx_mcds_lock_result)
    NGX_MCDS_LOCK_LOST
} ngx_mcds_lock_e;


/*
 * The handler of a request for a lock.  With HELD the lock belongs to the
 * caller, and the handler may be called once more with LOST; with any other
 * status lock is NULL.
 */

typedef void (*ngx_mcds_lock_pt)(void *data, ngx_mcds_lock_t *lock,
    ngx_uint_t status);


/* The parameters of a request for a lock.  The strings are copied. */

typedef struct {
    ngx_mcds_pool_t      *pool;
    ngx_str_t             key;
    ngx_str_t             owner;     /* name of the lock's owner; empty: a name
                                        is generated */
    uint32_t              ttl;       /* guaranteed lifetime of the lock,
                                        seconds */
    ngx_msec_t            wait;      /* maximum wait for the lock, ms */
    ngx_uint_t            waiters;   /* maximum number of waiters for the lock
                                        in this worker */
} ngx_mcds_lock_wish_t;


/*
 * Acquires a lock.  Returns NULL if out of memory; otherwise the handler is
 * called once with the result, after this call has returned.  The handler is
 * not called if the caller has released the lock by then.  Until its release a
 * lock that is held is extended every third of its time to live.
 */

ngx_mcds_lock_t *ngx_mcds_lock_acquire(ngx_mcds_lock_wish_t *wish,
    ngx_mcds_lock_pt handler, void *data);


/*
 * Releases a lock that is held or was lost, or ends the request for a lock
 * whose handler was not called yet.  Must not be called after the handler got
 * a status other than HELD and LOST.
 */

void ngx_mcds_lock_release(ngx_mcds_lock_t *lock);


/*
 * Ends this worker's holding of a lock, but does not delete the lock's item,
 * which expires later: the caller can find its lock again by the owner's name.
 */

void ngx_mcds_lock_leave(ngx_mcds_lock_t *lock);


/*
 * Returns 1 if another owner had the lock, so that the caller waits, or has
 * waited.
 */

ngx_uint_t ngx_mcds_lock_waited(ngx_mcds_lock_t *lock);


/* Returns the fencing token of the owner of a held lock, a number. */

uint64_t ngx_mcds_lock_number(ngx_mcds_lock_t *lock);


/* Returns the name of the owner of a held lock. */

ngx_str_t *ngx_mcds_lock_owner(ngx_mcds_lock_t *lock);


/*
 * the content of a lock's item in memcached; the name "owner" points into the
 * item's value
 */

typedef struct {
    uint64_t              number;    /* fencing token of the lock's owner; 0:
                                        not known yet */
    ngx_str_t             owner;
} ngx_mcds_lock_item_t;


/*
 * The state of a lock that the caller does not hold.  rc is ngx_mcds_rc_e: OK,
 * or NOT_FOUND if the lock is free.  item has the name and the fencing token of
 * the lock's owner; NULL if the value in memcached is not that of a lock.  ttl
 * is the number of seconds for which the lock lasts at least; -1: unknown.  All
 * fields are valid until the handler that gets the state returns.
 */

typedef struct {
    ngx_uint_t             rc;
    ngx_mcds_lock_item_t  *item;
    int64_t                ttl;
} ngx_mcds_lock_state_t;


/* The handler of ngx_mcds_lock_change(), called with the lock's state. */

typedef void (*ngx_mcds_lock_state_pt)(void *data,
    ngx_mcds_lock_state_t *state);


/*
 * The parameters of ngx_mcds_lock_change(), to extend, release or read a lock.
 * The caller has them in a struct of its own, and zeroes the fields that it
 * does not set.  The strings key and item.owner must live until the handler is
 * called.  The handler may free the caller's struct.
 */

typedef struct {
    ngx_mcds_pool_t         *pool;
    ngx_str_t                key;
    ngx_mcds_lock_item_t     item;
    uint32_t                 ttl;
    ngx_mcds_lock_state_pt   handler;
    void                    *data;

    /* private fields of the change of a lock, for lock_change.c */

    ngx_mcds_update_t        update;   /* compare-and-swap of the lock's item */
    unsigned                 readded:1;   /* the lock's item was added, as
                                             memcached had refused to replace
                                             it */
} ngx_mcds_lock_change_t;


/*
 * Changes the lock change->key if it has the owner in change->item and, unless
 * change->item.number is 0, this number as its fencing token: gives the lock a
 * lifetime of ttl seconds from now or, with a ttl of 0, releases it.  A lock
 * whose item has no fencing token yet can be released, but not extended.
 * Without an owner the function only reads the state of the lock.  The handler
 * is called once, not from inside of this call.  rc is OK; EXISTS, another
 * owner has the lock; NOT_FOUND, the lock is free; or another code.
 */

void ngx_mcds_lock_change(ngx_mcds_lock_change_t *change);


/*
 * Lets a request of this worker that waits for the lock try to acquire it at
 * once.  To be called when ngx_mcds_lock_change() has released the lock for
 * another request, which gave the name of the lock's owner.
 */

void ngx_mcds_lock_kick(ngx_mcds_pool_t *pool, ngx_str_t *key);


/*
 * Writes the value of a lock's item into buf, which has NGX_MCDS_LOCK_TEXT
 * bytes.  Returns the end of the value.
 */

u_char *ngx_mcds_lock_write(u_char *buf, ngx_mcds_lock_item_t *item);


/*
 * Parses the value of a lock's item into *item, whose strings point into data.
 * Returns NGX_DECLINED if the value is not that of a lock.
 */

ngx_int_t ngx_mcds_lock_read(ngx_mcds_lock_item_t *item, u_char *data,
    size_t len);


/* Returns NGX_OK if the text can be the name of a lock's owner. */

ngx_int_t ngx_mcds_lock_check(ngx_str_t *owner);


/*
 * Returns the number at which the counter that gives a lock's owners their
 * fencing tokens begins if memcached does not have it: now, the time in
 * microseconds since the epoch; or seen + 1 if now is not larger than seen, the
 * largest fencing token of any lock that this worker has seen.
 */

uint64_t ngx_mcds_lock_first(uint64_t now, uint64_t seen);


/*
 * Returns the milliseconds until a waiting request tries again to acquire a
 * lock; the request has waited for "waited" milliseconds, and waits for at most
 * "wait" milliseconds.  The random number varies the result.
 */

ngx_msec_t ngx_mcds_lock_interval(ngx_msec_t waited, ngx_msec_t wait,
    ngx_uint_t random);


/*
 * Returns the pause, in milliseconds, of a worker that releases a lock and has
 * had it repeatedly for "series" milliseconds, so that other workers get it.
 */

ngx_msec_t ngx_mcds_lock_pause(ngx_msec_t series);


#endif /* _NGX_MCDS_LOCK_H_INCLUDED_ */

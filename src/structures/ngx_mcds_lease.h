
/*
 * Copyright (C) mcds authors
 *
 * A mutex across hosts, in memcached: an item that only one can add, with a
 * time to live that frees it when its owner died.  Released by
 * compare-and-delete, so that an owner who is late never takes away the lock
 * of the next one.
 */


#ifndef _NGX_MCDS_LEASE_H_INCLUDED_
#define _NGX_MCDS_LEASE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_client.h"


typedef struct ngx_mcds_lease_s  ngx_mcds_lease_t;


/*
 * What a lock of a page says to those who do not have it: what an owner who has
 * failed leaves behind for the next, or which owner has it.
 */

typedef struct {
    ngx_uint_t           step;         /* failures in a row, 0: none */
    uint64_t             until;        /* nobody tries before; ms since the
                                          epoch */
    uint64_t             owner;        /* see ngx_mcds_lease_owner();
                                          0: none */
} ngx_mcds_lease_left_t;


/*
 * rc NGX_MCDS_OK: the lock is held, and the caller's until it releases it;
 * NGX_MCDS_NOT_STORED: somebody else has it; any other: not known, to be
 * taken for not held.  With any rc but OK lock is NULL.
 */

typedef void (*ngx_mcds_lease_pt)(void *data, ngx_mcds_lease_t *lease,
    ngx_uint_t rc);


/*
 * A lease that is asked for.  Its item is key:lock on the server of key, with a
 * random token of the owner as its value.
 *
 * text: the lease is open, one that other programs can see and share: the item
 * is key itself, and holds this text, at most NGX_MCDS_LEASE_TEXT bytes that no
 * other attempt uses.  If memcached loses it, it is taken again, unless another
 * owner was faster.  The handler is called once more, with the lease and the
 * reason, when it was lost or could not be extended in time; the lease is still
 * to be released then.
 *
 * left: the lease is that of a page, of which key is the name.  The caller
 * obeys the other owners: *left, which must live until the handler is called,
 * is that of the last owner, or zeroed if there is none.  With NOT_STORED and
 * left->step the lease is free, but not to be taken before left->until; after
 * that, and with at_once before, it is taken over.  So is a lease that this
 * worker had asked for without having heard of the answer.  With NOT_STORED and
 * left->owner that one has it.
 */

#define NGX_MCDS_LEASE_TEXT       96

typedef struct {
    ngx_mcds_pool_t       *pool;
    ngx_str_t              key;
    uint32_t               ttl;        /* seconds that it outlives its owner,
                                          at least 2 */
    ngx_str_t              text;       /* or empty */
    ngx_mcds_lease_left_t *left;       /* or NULL */
    unsigned               at_once:1;
} ngx_mcds_lease_wish_t;


/*
 * Tries once to take a lease.  It is extended every third of its time to live
 * until it is released, but one that is not open no longer than sixty of them:
 * who is not done then may be hung.  NGX_ERROR when out of memory; otherwise
 * the handler is called once, not from inside of this call.
 */

ngx_int_t ngx_mcds_lease_acquire(ngx_mcds_lease_wish_t *wish,
    ngx_mcds_lease_pt handler, void *data);


/*
 * Of an open lease.  write: another text, when the handler was called with OK,
 * which it is then a second time; with any rc but OK lease is NULL and
 * released.  NGX_BUSY: nothing has changed, it is just being extended, or was
 * lost.  leave: as release, but the item stays for the rest of its time.  sure:
 * milliseconds for which the lease is held for sure, from now.
 */

ngx_int_t ngx_mcds_lease_write(ngx_mcds_lease_t *lease, ngx_str_t *text);
void ngx_mcds_lease_leave(ngx_mcds_lease_t *lease);
ngx_msec_int_t ngx_mcds_lease_sure(ngx_mcds_lease_t *lease);


/* what stands behind the key of what is locked */
#define NGX_MCDS_LEASE_SUFFIX      ":lock"

/* what a lock holds that was kept, see below, instead of a token */
#define NGX_MCDS_LEASE_KEPT        "kept"


/*
 * Reads the value of a lock that was left with ngx_mcds_lease_fail(): NGX_OK,
 * or NGX_DECLINED if it is another; then kept is zeroed but for the owner, if
 * the value is a token.
 */

ngx_int_t ngx_mcds_lease_read(u_char *data, size_t len,
    ngx_mcds_lease_left_t *kept);


/*
 * Names this holding of the lock: the second half of the token, which no other
 * attempt has; not 0.  It stays when the lock is extended.
 */

uint64_t ngx_mcds_lease_owner(ngx_mcds_lease_t *lease);


/*
 * Gives the lock up; the pointer is not to be used again.  keep: leaves the
 * item behind for so many seconds instead of deleting it, with the value
 * NGX_MCDS_LEASE_KEPT, so that nobody can take it; 0 deletes.
 */

void ngx_mcds_lease_release(ngx_mcds_lease_t *lease, uint32_t keep);


/*
 * The same after a failure: leaves the value "kept STEP UNTIL" behind for
 * keep seconds, which is more than until kept->until.
 */

void ngx_mcds_lease_fail(ngx_mcds_lease_t *lease, uint32_t keep,
    ngx_mcds_lease_left_t *kept);


#endif /* _NGX_MCDS_LEASE_H_INCLUDED_ */

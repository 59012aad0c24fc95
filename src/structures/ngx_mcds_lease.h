
/*
 * Copyright (C) mcds authors
 *
 * A lease: a lock across hosts, in memcached.  It is an item that only one
 * client can add, with a time to live that frees the lease if its owner has
 * died.  The owner releases the lease by compare-and-delete, so that a late
 * owner never deletes the lease of the next one.
 */


#ifndef _NGX_MCDS_LEASE_H_INCLUDED_
#define _NGX_MCDS_LEASE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_client.h"


typedef struct ngx_mcds_lease_s  ngx_mcds_lease_t;


/*
 * The data in the lease of a page for workers that do not own the lease: the
 * data that a failed owner has left, or the id of the present owner.
 */

typedef struct {
    ngx_uint_t           step;         /* failures in a row to build the page;
                                          0: none */

    /* no worker may build the page before this time, ms since the epoch */
    uint64_t             until;

    uint64_t             owner;        /* id of the owner, see
                                          ngx_mcds_lease_owner(); 0: none */

    /*
     * time before which the owner does not expect to end its build of the page,
     * ms since the epoch; 0: unknown
     */
    uint64_t             due;
} ngx_mcds_lease_left_t;


/*
 * The handler of a lease.  NGX_MCDS_OK: the lease is held, and the caller must
 * release it; NGX_MCDS_NOT_STORED: another owner has the lease; any other rc:
 * unknown, to be treated as not held.  With any rc but OK, lease is NULL.
 */

typedef void (*ngx_mcds_lease_pt)(void *data, ngx_mcds_lease_t *lease,
    ngx_uint_t rc);


/*
 * The request for a lease.  The lease's item is key:lock, on the server of key,
 * with a random token of the owner as its value.
 *
 * If "text" is set, the lease is open: other programs see its item, and can
 * take the lease, too.  The item is then key itself, with this text, at most
 * NGX_MCDS_LEASE_TEXT bytes, as its value; the text must differ from that of
 * any other attempt to take a lease.  If memcached loses the item, it is added
 * again unless another client was faster.  The handler is called once more,
 * with the lease and the reason, if the lease was lost or could not be extended
 * in time; even then the caller must release the lease.
 *
 * If "left" is set, the lease is that of the page whose name is key.  *left
 * must live until the handler is called.  It gets the data in the lease's item,
 * or zeros; the caller must honor them as ngx_mcds_lease_left_t says.
 *
 * If the last owner of a page's lease has failed, no worker owns the lease, but
 * none may take it before left->until.  Before that time, the handler gets
 * NOT_STORED, and left->step is not 0.  After it, or if "at_once" is set, this
 * worker takes the lease.  The worker also takes a lease whose item has one of
 * its own old tokens, left in memcached when a reply was missing.  If the
 * handler gets NOT_STORED, and left->owner is not 0, another owner has the
 * lease.
 */

#define NGX_MCDS_LEASE_TEXT       96

typedef struct {
    ngx_mcds_pool_t       *pool;
    ngx_str_t              key;
    uint32_t               ttl;        /* time for which a lease outlives its
                                          owner, at least 2 seconds */
    ngx_str_t              text;       /* text that other programs see in the
                                          lease's item; empty: none */
    ngx_mcds_lease_left_t *left;       /* gets the data in a page's lease; or
                                          NULL */
    uint64_t               due;        /* used only if the field "left" is set:
                                          time, shown to other workers, before
                                          which the worker that takes the lease
                                          does not expect to end its build of
                                          the page, ms since the epoch; 0:
                                          unknown */
    unsigned               at_once:1;
} ngx_mcds_lease_wish_t;


/*
 * Tries once to take a lease.  Until its release the lease is extended every
 * ttl / 3.  A lease whose item other programs do not see (without wish->text)
 * is extended for 60 ttl at most, as its owner may hang.  Returns NGX_ERROR if
 * out of memory; otherwise the handler is called once, not from inside of this
 * call.
 */

ngx_int_t ngx_mcds_lease_acquire(ngx_mcds_lease_wish_t *wish,
    ngx_mcds_lease_pt handler, void *data);


/*
 * Replaces the text that other programs see in a lease's item.  The lease was
 * acquired with a text (wish->text of ngx_mcds_lease_acquire()), and its
 * handler was called with OK.  The handler is called once more, with the
 * result; unless this is OK, the lease is released before, and the handler's
 * argument "lease" is NULL.  Returns NGX_BUSY, and changes nothing, while the
 * lease is being extended, if it was lost, or, with the classic protocol, if
 * its time is over.
 */

ngx_int_t ngx_mcds_lease_write(ngx_mcds_lease_t *lease, ngx_str_t *text);


/*
 * Releases a lease that was acquired with a text (wish->text) for other
 * programs to see, but does not delete its item: it stays in memcached for the
 * rest of its time to live.
 */

void ngx_mcds_lease_leave(ngx_mcds_lease_t *lease);


/*
 * Returns the milliseconds, from now, for which this worker is guaranteed to
 * hold the lease.  Only for a lease that was acquired with a text for its item
 * (wish->text of ngx_mcds_lease_acquire()).
 */

ngx_msec_int_t ngx_mcds_lease_sure(ngx_mcds_lease_t *lease);


/* the suffix of the key of a lease */
#define NGX_MCDS_LEASE_SUFFIX      ":lock"

/* the value of a released lease whose item stays, instead of a token */
#define NGX_MCDS_LEASE_KEPT        "kept"


/*
 * Parses the value of a lease's item.  NGX_OK: ngx_mcds_lease_fail() has left
 * the value, and kept->step and kept->until are set.  NGX_DECLINED: if the
 * value is a token of an owner, kept->owner and kept->due are set.  All
 * other fields of *kept are 0.
 */

ngx_int_t ngx_mcds_lease_read(u_char *data, size_t len,
    ngx_mcds_lease_left_t *kept);


/*
 * Returns the id of this holding of the lease, the second half of the lease's
 * token: the id is unique, not 0, and stays when the lease is extended.
 */

uint64_t ngx_mcds_lease_owner(ngx_mcds_lease_t *lease);


/*
 * Releases a lease; the pointer must not be used again.  If keep is not 0, the
 * lease's item is not deleted but stays for keep seconds, with the value
 * NGX_MCDS_LEASE_KEPT, so that no client can take the lease.
 */

void ngx_mcds_lease_release(ngx_mcds_lease_t *lease, uint32_t keep);


/*
 * Releases the lease of a page whose build has failed.  The lease's item stays
 * for keep seconds, which must end after kept->until, and gets the value "kept
 * STEP UNTIL": the number of failures in a row, and the time before which no
 * worker may build the page.
 */

void ngx_mcds_lease_fail(ngx_mcds_lease_t *lease, uint32_t keep,
    ngx_mcds_lease_left_t *kept);


#endif /* _NGX_MCDS_LEASE_H_INCLUDED_ */

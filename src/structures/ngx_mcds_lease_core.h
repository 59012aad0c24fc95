
/*
 * Copyright (C) mcds authors
 *
 * Private to the files of leases: ngx_mcds_lease.c takes and releases a lease,
 * ngx_mcds_lease_keep.c extends a lease that is held.
 */


#ifndef _NGX_MCDS_LEASE_CORE_H_INCLUDED_
#define _NGX_MCDS_LEASE_CORE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_lease.h"


#define NGX_MCDS_TOKEN            16

/*
 * the maximum length of the value that a failed owner leaves in a lease:
 * "kept", the number of failures in a row, and milliseconds since the epoch
 */
#define NGX_MCDS_KEPT_LEN         (sizeof(NGX_MCDS_LEASE_KEPT) + 3             \
                                   + 2 * NGX_INT64_LEN)

/*
 * the maximum length of the value of a page's lease: a token, which may be
 * followed by milliseconds since the epoch; the value that a failed owner
 * leaves is shorter
 */
#define NGX_MCDS_LEASE_VALUE      (NGX_MCDS_TOKEN * 2 + 1 + NGX_INT64_LEN)


struct ngx_mcds_lease_s {
    ngx_queue_t          queue;        /* link in the worker's queue of
                                          leases */
    ngx_mcds_pool_t     *pool;
    ngx_mcds_lease_pt    handler;
    void                *data;
    ngx_mcds_op_t        op;
    ngx_event_t          timer;        /* timer that extends the lease */
    uint64_t             cas;
    ngx_msec_t           sent;         /* when the last command that changes
                                          the lease's item was sent */
    ngx_msec_t           sure;         /* guaranteed end of the lease's time to
                                          live */
    uint32_t             ttl;          /* guaranteed lifetime of the lease,
                                          seconds */
    uint32_t             lasting;      /* time to live of the lease's item, in
                                          commands to memcached, seconds */
    ngx_uint_t           place;        /* 1 + index, in the pool, of the server
                                          that has the lease's item; 0: no
                                          command was sent */
    uint32_t             keep;
    ngx_msec_t           kept_end;     /* when the item of the released lease
                                          expires, if it stays in memcached for
                                          "keep" seconds; "keep" is 0 if it is
                                          deleted */
    ngx_msec_t           since;        /* when the lease was acquired; 0: its
                                          add is pending, or had no reply */
    ngx_msec_t           end;          /* until when the lease's item, which may
                                          or may not exist, is looked for */
    ngx_mcds_lease_left_t *kept;       /* the caller's memory for the data in a
                                          page's lease, or NULL */
    ngx_msec_t           step;         /* delay of the next read of the lease's
                                          item, which may or may not exist */
    ngx_str_t            old;          /* content that the lease's item in
                                          memcached has now */
    ngx_str_t            text;         /* content to write to the lease's
                                          item */
    size_t               token_len;
    u_char               token[NGX_MCDS_LEASE_TEXT];
    u_char               next[NGX_MCDS_LEASE_TEXT];  /* new text to write into
                                                        the item of a lease that
                                                        is held */
    u_char               seen[NGX_MCDS_LEASE_VALUE];
    u_char               left[NGX_MCDS_KEPT_LEN];
    unsigned             page:1;       /* the lease of a page, see
                                          ngx_mcds_key.h */
    unsigned             at_once:1;    /* take over a page's lease, left by a
                                          failed owner, before the back-off
                                          after the failure ends */
    unsigned             open:1;       /* the lease is open: other programs see
                                          the caller's text in its item */
    unsigned             released:1;
    unsigned             stays:1;      /* the item of the released lease is not
                                          deleted */
    unsigned             unsure:1;     /* a change of the lease's item had no
                                          reply: the item's CAS value is
                                          uncertain */
    unsigned             told:1;       /* the caller knows of the loss of the
                                          lease */
    unsigned             doubt:1;      /* the last command for the lease's item
                                          may or may not have been executed: the
                                          item is looked for */
    unsigned             answered:1;   /* 1: memcached has replied since the
                                          search for the lease's item began */
    ngx_str_t            key;
};


/*
 * Notes that memcached has stored or extended the lease's item: the lease is
 * held for another time to live, from the time when the command was sent.
 */

void ngx_mcds_lease_held(ngx_mcds_lease_t *lease, uint64_t cas);


/* Reads the item of a lease from memcached; the handler gets the result. */

void ngx_mcds_lease_look(ngx_mcds_lease_t *lease, ngx_mcds_handler_pt handler);


/*
 * Returns 1 if the pool uses the classic protocol, and the time of a held lease
 * is over: a change of the lease's item needs two commands, and the second
 * command might change the lease of another owner.
 */

ngx_uint_t ngx_mcds_lease_late(ngx_mcds_lease_t *lease);


/*
 * Submits a SET or DELETE of the lease's item, on condition of its CAS value,
 * or an ADD.  SET and ADD store lease->text.  A SET or DELETE must not be
 * submitted if ngx_mcds_lease_late() returns 1.
 */

void ngx_mcds_lease_submit(ngx_mcds_lease_t *lease, ngx_uint_t verb,
    uint32_t ttl, ngx_mcds_handler_pt handler);


/*
 * Ends a released lease: deletes its item, unless lease->keep or lease->stays
 * says that the item stays, and frees the lease, at once or after memcached's
 * reply.
 */

void ngx_mcds_lease_give_up(ngx_mcds_lease_t *lease);


/* Removes a lease from the worker's queue of leases, and frees it. */

void ngx_mcds_lease_free(ngx_mcds_lease_t *lease);


/* The handler of the timer of a held lease, which extends the lease. */

void ngx_mcds_lease_extend(ngx_event_t *ev);


/*
 * Deletes the item that a lease may have left in memcached, as the reply to the
 * item's add, extension or deletion is missing or is an error: looks for the
 * item repeatedly, and frees the lease at the end.  If the lease was released
 * with a "keep" that is not 0, the item is not deleted, but stays as
 * ngx_mcds_lease_release() says.
 */

void ngx_mcds_lease_clean(ngx_mcds_lease_t *lease);


#endif /* _NGX_MCDS_LEASE_CORE_H_INCLUDED_ */

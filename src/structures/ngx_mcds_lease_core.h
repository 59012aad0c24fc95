
/*
 * Copyright (C) mcds authors
 *
 * Inside of a lock: ngx_mcds_lease.c takes it and gives it up,
 * ngx_mcds_lease_keep.c looks after it meanwhile.
 */


#ifndef _NGX_MCDS_LEASE_CORE_H_INCLUDED_
#define _NGX_MCDS_LEASE_CORE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_lease.h"


#define NGX_MCDS_TOKEN            16

/* "kept", a step and milliseconds since the epoch */
#define NGX_MCDS_KEPT_LEN         (sizeof(NGX_MCDS_LEASE_KEPT) + 3             \
                                   + 2 * NGX_INT64_LEN)


struct ngx_mcds_lease_s {
    ngx_queue_t          queue;        /* of this worker's */
    ngx_mcds_pool_t     *pool;
    ngx_mcds_lease_pt    handler;
    void                *data;
    ngx_mcds_op_t        op;
    ngx_event_t          timer;        /* extends */
    uint64_t             cas;
    ngx_msec_t           sent;         /* when a time to live began */
    ngx_msec_t           sure;         /* until when it has not ended */
    uint32_t             ttl;          /* that it is to last */
    uint32_t             lasting;      /* the item's, for that */
    uint32_t             keep;
    ngx_msec_t           since;        /* it was acquired */
    ngx_msec_t           end;          /* no doubt after it */
    ngx_mcds_lease_left_t *kept;       /* of the caller, or NULL */
    ngx_msec_t           step;         /* of looking for it */
    ngx_str_t            old;          /* what the item holds */
    ngx_str_t            text;         /* what it is to hold */
    size_t               token_len;
    u_char               token[NGX_MCDS_LEASE_TEXT];
    u_char               next[NGX_MCDS_LEASE_TEXT];  /* instead of the token */
    u_char               seen[NGX_MCDS_KEPT_LEN];
    u_char               left[NGX_MCDS_KEPT_LEN];
    unsigned             page:1;       /* of a page, see ngx_mcds_key.h */
    unsigned             at_once:1;    /* what was left is taken over */
    unsigned             open:1;       /* the caller's text in key itself */
    unsigned             released:1;
    unsigned             stays:1;      /* ... and not to be deleted */
    unsigned             unsure:1;     /* a command was not answered */
    unsigned             told:1;       /* that it was lost */
    unsigned             doubt:1;      /* asked for, and never answered */
    unsigned             answered:1;   /* memcached is there again */
    ngx_str_t            key;
};


/*
 * held: for another time to live, counted from when the command was sent.
 * look: reads the item.  late: 1 if the time of a lock that is held is over, so
 * that two commands, which the classic protocol needs, might be another
 * owner's.  submit: SET and DELETE of lock->text under the CAS, unless it is
 * late, or ADD.  give_up: of a lock that was acquired, when it is released;
 * free may be the end of that.
 */

void ngx_mcds_lease_held(ngx_mcds_lease_t *lease, uint64_t cas);
void ngx_mcds_lease_look(ngx_mcds_lease_t *lease, ngx_mcds_handler_pt handler);
ngx_uint_t ngx_mcds_lease_late(ngx_mcds_lease_t *lease);
void ngx_mcds_lease_submit(ngx_mcds_lease_t *lease, ngx_uint_t verb,
    uint32_t ttl, ngx_mcds_handler_pt handler);
void ngx_mcds_lease_give_up(ngx_mcds_lease_t *lease);
void ngx_mcds_lease_free(ngx_mcds_lease_t *lease);


/*
 * extend: handler of the timer of a lock that is held.  doubt: nobody knows
 * whether the item is there: looks for it and deletes it, then frees.
 */

void ngx_mcds_lease_extend(ngx_event_t *ev);
void ngx_mcds_lease_doubt(ngx_mcds_lease_t *lease);


#endif /* _NGX_MCDS_LEASE_CORE_H_INCLUDED_ */

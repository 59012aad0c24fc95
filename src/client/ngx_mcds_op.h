
/*
 * Copyright (C) mcds authors
 *
 * Operations on the servers of a pool.
 */


#ifndef _NGX_MCDS_OP_H_INCLUDED_
#define _NGX_MCDS_OP_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds.h"
#include "ngx_mcds_key.h"
#include "ngx_mcds_proto.h"


typedef struct ngx_mcds_pool_s    ngx_mcds_pool_t;
typedef struct ngx_mcds_op_s      ngx_mcds_op_t;
typedef struct ngx_mcds_result_s  ngx_mcds_result_t;


/*
 * An operation to be.  The strings are copied, they need not outlive the
 * call.
 */

typedef struct {
    ngx_uint_t            verb;         /* ngx_mcds_verb_e */
    ngx_uint_t            want;
    ngx_str_t             key;          /* any text, without the prefix */
    ngx_str_t             suffix;       /* behind it in the key, or empty */
    ngx_uint_t            place;        /* of ngx_mcds_place(): the server of
                                           a page, whatever the key; or 0 */
    uint32_t              ttl;          /* seconds; above NGX_MCDS_MAX_TTL a
                                           time since the epoch, so far away
                                           that it counts as none */
    uint32_t              flags;        /* SET, ADD: the client flags */
    uint64_t              cas;          /* of a result, as it was given */
    uint64_t              initial;
    uint64_t              delta;
    uint64_t              known;        /* INCR on replicas: what all of them
                                           had, at least, or 0 */

    /* SET, ADD, APPEND: text is copied, up to 2048 bytes; or value, with
       two bytes to spare behind len, of which a reference is taken */
    ngx_str_t             text;
    ngx_mcds_value_t     *value;

    /* SET, DELETE with a CAS: what the item holds, if it is known, up to 2048
       bytes; where a CAS alone does not tell an item from its successor the
       item must hold this, and several commands are sent, within so many
       milliseconds if that is less than the pool's timeout and not 0 */
    ngx_str_t             old;
    ngx_msec_t            within;

    size_t                limit;        /* GET: the largest value to accept, a
                                           larger one is TOO_LARGE */

    /* GET: of replicas not the first that has the key counts, but the newest
       one of all that are up; where the client flags are the same the values
       are.  1 if b is newer than a, both of this key and with their values.
       NULL: the first.  FLAGS and CAS must be wanted, too. */
    ngx_uint_t          (*newer)(ngx_str_t *key, ngx_mcds_result_t *a,
                              ngx_mcds_result_t *b);

    unsigned              update:1;     /* INCR, DECR: NOT_FOUND where there
                                           is none, instead of making it */
    unsigned              by_key:1;     /* the server is chosen by key alone,
                                           without suffix */
    unsigned              bulk:1;       /* a large answer is expected */
    unsigned              number:1;     /* GET: a counter; of replicas the
                                           larger one */
    unsigned              single:1;     /* lives on one server, not on
                                           replicas */
    unsigned              every:1;      /* SET, ADD, INCR: done when every
                                           replica has done it */
    unsigned              page:1;       /* of a page, see ngx_mcds_key.h */
    unsigned              movable:1;    /* a page or its lock: with "eject"
                                           another server may have it while
                                           its own is down */
} ngx_mcds_request_t;


struct ngx_mcds_result_s {
    ngx_uint_t            rc;           /* ngx_mcds_rc_e */
    ngx_uint_t            has;          /* of VALUE, CAS, TTL, FLAGS */
    uint64_t              cas;
    int64_t               ttl;
    uint32_t              flags;

    u_char               *data;         /* the value; lives as long as the */
    size_t                len;          /* handler runs */
    ngx_mcds_value_t     *value;        /* where data lives, or NULL */
};


typedef void (*ngx_mcds_handler_pt)(void *data, ngx_mcds_result_t *result);


/*
 * An operation lives in a struct of the caller's, who sets handler and data;
 * all else is zero before the first use, and the client's from then on.
 */

struct ngx_mcds_op_s {
    ngx_mcds_handler_pt   handler;
    void                 *data;

    ngx_mcds_op_t       **link;         /* by which the client finds it */
    ngx_queue_t           queue;        /* of those that failed at once, */
    ngx_uint_t            rc;           /* and why */
};


/*
 * Starts an operation (with replicas several, see ngx_mcds_replica.h, whose
 * results are made one).  Nothing of req is needed afterwards.  The handler is
 * called exactly once, never from inside of this call, unless the operation is
 * cancelled or the worker exits; it may submit the operation anew, and free it.
 * An operation that is under way must not be submitted.  op may be NULL, if
 * the result is of no interest.
 *
 * The command leaves at the end of this turn of the event loop, in one write
 * with the others for its server.  An operation is never sent twice, but for a
 * GET whose idle connection the server was just closing.
 *
 * The result's rc is DOWN at once (in a posted event) while the breaker of
 * the server is open, and BUSY when too much is pending or out of memory; no
 * operation takes longer than the pool's timeout, but for one on replicas that
 * has a leader, see ngx_mcds_replica.h, or several commands.
 */

void ngx_mcds_submit(ngx_mcds_pool_t *pool, ngx_mcds_request_t *req,
    ngx_mcds_op_t *op);


/*
 * From now on the client does not know the operation: its handler is not
 * called, and it may be freed or submitted anew.  Commands of it that are under
 * way go on without it: a change is made, on all replicas and with all of its
 * commands, as if it had not been cancelled; a read asks no further replica.
 * An operation that is not under way is left as it is.
 */

void ngx_mcds_cancel(ngx_mcds_op_t *op);


/* 1 if the operation is under way: its handler is still to be called */

#define ngx_mcds_op_active(op)                                                \
    ((op)->link != NULL || (op)->queue.next != NULL)


/*
 * With pool->eject: 1 if the server that the request belongs to is down by now,
 * and another one would be asked in its place, which does not know what the
 * first one has when it is back.  A server that the configuration keeps down
 * does not come back; while it is down, and another server is out, it is not
 * known which one belongs to its place, and 1 is said for all of its keys.
 */

ngx_uint_t ngx_mcds_ejected(ngx_mcds_pool_t *pool, ngx_mcds_request_t *req);


/*
 * 1 if a server that the request belongs to, with replicas one of them, is down
 * by now; one that the configuration keeps down does not count.
 */

ngx_uint_t ngx_mcds_down(ngx_mcds_pool_t *pool, ngx_mcds_request_t *req);


/* the key of a request, with another suffix than its own or the same */

void ngx_mcds_op_key(ngx_mcds_key_t *key, ngx_mcds_pool_t *pool,
    ngx_mcds_request_t *req, ngx_str_t *suffix);


/*
 * The same on one server alone, of that index in the pool, whatever the key,
 * and whether it was ejected.
 */

void ngx_mcds_submit_to(ngx_mcds_pool_t *pool, ngx_uint_t n,
    ngx_mcds_request_t *req, ngx_mcds_op_t *op);


/* the index of the server of a request's key, with replicas the first one */

ngx_uint_t ngx_mcds_first(ngx_mcds_pool_t *pool, ngx_mcds_request_t *req);


/* 1 if the configuration keeps the server of that index down */

ngx_uint_t ngx_mcds_disabled(ngx_mcds_pool_t *pool, ngx_uint_t n);


/* where a page is now: on its server, with replicas the first of them */

ngx_uint_t ngx_mcds_place(ngx_mcds_pool_t *pool, ngx_str_t *page);


/*
 * The value of a result, to keep: a reference of the caller's; NULL when
 * out of memory.  To be called by the handler.
 */

ngx_mcds_value_t *ngx_mcds_result_value(ngx_mcds_result_t *result,
    ngx_log_t *log);


#endif /* _NGX_MCDS_OP_H_INCLUDED_ */

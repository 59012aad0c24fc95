
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
 * The parameters of an operation in memcached.  Strings are copied when the
 * operation is submitted.
 */

typedef struct {
    ngx_uint_t            verb;         /* the command for memcached, of
                                           ngx_mcds_verb_e */
    ngx_uint_t            want;
    ngx_str_t             key;          /* the key: any text, without the pool's
                                           prefix */
    ngx_str_t             suffix;       /* text appended to the key, or empty */

    /*
     * the server to use, with replicas the first one, as its index in the pool
     * plus 1: the result of ngx_mcds_place(), or 1 plus that of
     * ngx_mcds_first(); 0: the key determines the server
     */
    ngx_uint_t            place;

    /*
     * The time to live of the item in seconds.  Above NGX_MCDS_MAX_TTL it is a
     * time since the epoch, which must be so far away that it counts as no
     * expiry.
     */
    uint32_t              ttl;

    uint32_t              flags;        /* client flags that SET and ADD
                                           store */
    uint64_t              cas;          /* CAS value exactly as a previous
                                           result had it: SET and DELETE change
                                           the item only if this is its current
                                           CAS value; 0: no condition.  With
                                           replicas, SET, DELETE, and GET with
                                           "single" go to the server that sent
                                           the CAS value */
    uint64_t              initial;
    uint64_t              delta;

    /*
     * For INCR on replicas: a number that the counter has reached, to continue
     * from if all replicas have lost the counter; or 0.
     */
    uint64_t              known;

    /*
     * The value of SET, ADD and APPEND: either text, up to 2048 bytes, which is
     * copied; or value, whose buffer must have room for two bytes after its
     * data, and to which the operation takes a reference.
     */
    ngx_str_t             text;
    ngx_mcds_value_t     *value;

    /*
     * For SET and DELETE with a CAS value: the old content of the item, up to
     * 2048 bytes, if it is known.  On a server whose CAS values do not tell an
     * item from its successor, the content is compared, too.  The comparison
     * takes several commands, which end after "within" milliseconds, if
     * "within" is not 0 and less than the pool's timeout.
     */
    ngx_str_t             old;
    ngx_msec_t            within;

    /*
     * The maximum length of the value that a GET returns, in bytes; 0 is
     * NGX_MCDS_BULK.  With a longer value the result of the GET is TOO_LARGE.
     */
    size_t                limit;

    /*
     * For GET on replicas: return the newest value of all servers that are up,
     * instead of the first value.  The function returns 1 if b, another value
     * of the key, is newer than a; values with the same client flags are equal.
     * "want" must have FLAGS and CAS.  NULL: the first value.
     */
    ngx_uint_t          (*newer)(ngx_str_t *key, ngx_mcds_result_t *a,
                              ngx_mcds_result_t *b);

    unsigned              update:1;     /* INCR and DECR do not create a missing
                                           counter: the result is NOT_FOUND */
    unsigned              rising:1;     /* INCR whose number must only exceed
                                           all earlier ones, not count: on
                                           replicas, each server is raised to
                                           the largest number at once */
    unsigned              by_key:1;     /* "key" alone chooses the server;
                                           otherwise "key" and "suffix" do */
    unsigned              bulk:1;       /* a large reply is expected: use the
                                           connection for large values */
    unsigned              number:1;     /* GET of a counter: on replicas, the
                                           result is the largest number of all
                                           servers */
    unsigned              single:1;     /* the item is stored on one server, not
                                           on replicas */
    unsigned              every:1;      /* SET, ADD and INCR succeed only if all
                                           replicas have executed them */
    unsigned              page:1;       /* the key is that of a page, see
                                           ngx_mcds_key.h */
    unsigned              movable:1;    /* the key is that of a page or its
                                           lock: with pool->eject, the key moves
                                           to another server while its own
                                           server is down */
} ngx_mcds_request_t;


/*
 * a flag in the field "has" of the result of INCR or DECR with the classic
 * protocol: the counter was missing, and the operation has created it
 */
#define NGX_MCDS_CREATED  0x100


struct ngx_mcds_result_s {
    ngx_uint_t            rc;           /* the result code of the operation, of
                                           ngx_mcds_rc_e */
    ngx_uint_t            has;          /* bits of the fields that are set
                                           (NGX_MCDS_VALUE, _CAS, _TTL, _FLAGS);
                                           NGX_MCDS_CREATED: INCR or DECR has
                                           created the counter */
    uint64_t              cas;
    int64_t               ttl;
    uint32_t              flags;

    /*
     * The value that a GET has read, or the number that an INCR or DECR has
     * returned, as text: len bytes of data, valid until the handler returns.
     */
    u_char               *data;
    size_t                len;

    ngx_mcds_value_t     *value;        /* the shared value (with a reference
                                           count) that data points into; NULL:
                                           data is in another buffer */
};


typedef void (*ngx_mcds_handler_pt)(void *data, ngx_mcds_result_t *result);


/*
 * An operation is a member of a struct of the caller.  The caller sets handler
 * and data, and zeroes all other fields before the first use; afterwards these
 * belong to the memcached client.
 */

struct ngx_mcds_op_s {
    ngx_mcds_handler_pt   handler;
    void                 *data;

    /*
     * the address of the pointer to this operation in the object that executes
     * the operation, such as an exchange with a server; NULL: there is none
     */
    ngx_mcds_op_t       **link;

    /*
     * link in the queue of operations that failed at once, or of those that
     * an exiting worker has abandoned
     */
    ngx_queue_t           queue;

    ngx_uint_t            rc;           /* result code of an operation that
                                           failed at once */
};


/*
 * Starts an operation in memcached.  op may be NULL if the result is not
 * needed; otherwise op must not be active.  req is not needed after the call.
 * On replicas the operation becomes several operations with one result, see
 * ngx_mcds_replica.h.
 *
 * Unless the operation is cancelled or the worker exits, the handler is called
 * exactly once, and never from inside of this call.  The handler may submit the
 * operation again, or free it.
 *
 * The command is sent at the end of this turn of the event loop, in one write
 * with all other commands on the same connection.  No command is sent twice,
 * except a GET on a connection that was lost without a failure of the server:
 * the server has closed the idle connection, or the worker has closed it
 * because the value for another GET is too large to be skipped.
 *
 * The result is DOWN, from a posted event, while the server's circuit breaker
 * is open; BUSY if too many operations are pending or memory is exhausted.  No
 * operation takes longer than the pool's timeout, except on replicas with a
 * leader, see ngx_mcds_replica.h.
 */

void ngx_mcds_submit(ngx_mcds_pool_t *pool, ngx_mcds_request_t *req,
    ngx_mcds_op_t *op);


/*
 * Detaches an operation: its handler is not called, and it may be freed or
 * submitted again.  Commands that are under way continue: a change is
 * completed, on all replicas and with all its commands; a read asks no further
 * replica.  Has no effect on an operation that is not active.
 */

void ngx_mcds_cancel(ngx_mcds_op_t *op);


/*
 * 1 if the operation is active: its handler is still to be called, or an
 * exiting worker has abandoned the operation and will not call the handler
 */

#define ngx_mcds_op_active(op)                                                \
    ((op)->link != NULL || (op)->queue.next != NULL)


/*
 * With pool->eject and req->movable: returns 1 if the server of the request's
 * key is down, so that the operation would go to another server; when the key's
 * own server is up again, it lacks the changes made on the other server.  The
 * keys of a server that is down by configuration are always on other servers:
 * for such a key returns 1 while any other server is ejected, as the ejected
 * one may be the key's server.  Without pool->eject or req->movable returns 0.
 */

ngx_uint_t ngx_mcds_ejected(ngx_mcds_pool_t *pool, ngx_mcds_request_t *req);


/*
 * Returns 1 if the server of the request's key is down or, with replicas, any
 * server that holds a replica of the key.  A server that is down by
 * configuration does not count.
 */

ngx_uint_t ngx_mcds_down(ngx_mcds_pool_t *pool, ngx_mcds_request_t *req);


/*
 * Builds in *key the key that memcached gets: the pool's prefix, the key of the
 * request, and the given suffix, which may differ from the request's suffix.
 */

void ngx_mcds_op_key(ngx_mcds_key_t *key, ngx_mcds_pool_t *pool,
    ngx_mcds_request_t *req, ngx_str_t *suffix);


/*
 * Submits an operation to server n of the pool, n being an index from 0,
 * regardless of the key and of whether the server is ejected.  Otherwise as
 * ngx_mcds_submit().
 */

void ngx_mcds_submit_to(ngx_mcds_pool_t *pool, ngx_uint_t n,
    ngx_mcds_request_t *req, ngx_mcds_op_t *op);


/*
 * Returns the index of the server of a request's key; with replicas that of the
 * first server.
 */

ngx_uint_t ngx_mcds_first(ngx_mcds_pool_t *pool, ngx_mcds_request_t *req);


/* Returns 1 if server n of the pool is down by configuration. */

ngx_uint_t ngx_mcds_disabled(ngx_mcds_pool_t *pool, ngx_uint_t n);


/*
 * Returns the index in the pool of the server that now holds a page, plus 1;
 * with replicas that of the first server.  The result is a value for the field
 * "place" of ngx_mcds_request_t.
 */

ngx_uint_t ngx_mcds_place(ngx_mcds_pool_t *pool, ngx_str_t *page);


/*
 * Returns a reference to the value of an operation's result, which the caller
 * has to drop; NULL if out of memory.  Called by the handler of the operation.
 */

ngx_mcds_value_t *ngx_mcds_result_value(ngx_mcds_result_t *result,
    ngx_log_t *log);


#endif /* _NGX_MCDS_OP_H_INCLUDED_ */

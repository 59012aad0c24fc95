
/*
 * Copyright (C) mcds authors
 *
 * Private to client/: a group is an operation on all replicas of a key; each
 * leg of the group is the operation on one of the servers.
 */


#ifndef _NGX_MCDS_GROUP_H_INCLUDED_
#define _NGX_MCDS_GROUP_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_conn.h"


#define NGX_MCDS_CAS_SHIFT        62
#define NGX_MCDS_CAS_MASK         (((uint64_t) 1 << NGX_MCDS_CAS_SHIFT) - 1)


typedef struct ngx_mcds_group_s  ngx_mcds_group_t;


/* a leg: the operation on one of the servers that hold replicas of a key */

typedef struct {
    ngx_mcds_group_t      *group;
    ngx_mcds_server_t     *server;

    /*
     * the operation on this server, one of those that hold replicas of the key;
     * active while the command for the server is under way
     */
    ngx_mcds_op_t          op;

    uint64_t               number;

    /*
     * For a read that compares replicas: the fields of the item that were last
     * requested from this server, and the server's reply.  value, if not NULL,
     * keeps the reply's data valid after the handler of op has returned.
     */
    ngx_uint_t             want;
    ngx_mcds_result_t      answer;
    ngx_mcds_value_t      *value;

    unsigned               has_number:1;
    unsigned               missing:1;
    unsigned               existed:1;    /* 1: the counter that was changed
                                            certainly existed on the server */
    unsigned               asking:1;     /* 1: the server has not replied yet */
    unsigned               late:1;       /* 1: the read does not wait for this
                                            server's reply any more */
} ngx_mcds_leg_t;


struct ngx_mcds_group_s {
    ngx_queue_t            queue;

    /*
     * the operation of the caller, on all replicas; NULL: it has its result, or
     * was cancelled
     */
    ngx_mcds_op_t         *op;

    /*
     * the request of the operation on all replicas; its strings follow this
     * struct in memory
     */
    ngx_mcds_request_t     req;

    ngx_uint_t             n;            /* number of legs, the operations on
                                            one replica each */
    ngx_uint_t             unanswered;   /* number of commands to replicas that
                                            have no reply yet */
    ngx_uint_t             start;        /* index of the replica that is read
                                            first */
    ngx_uint_t             asked;        /* number of replicas asked for the
                                            value so far */
    ngx_uint_t             rc;           /* the operation's result code so far:
                                            of the replicas' codes, the one with
                                            the highest rank */
    ngx_uint_t             rank;
    ngx_uint_t             executed;     /* 1: a server has executed the
                                            command */
    uint64_t               cas;          /* CAS value from the leader, the
                                            replica changed first; or 0 */
    int64_t                ttl;          /* time to live that a replica reported
                                            for the item; valid if has_ttl */
    ngx_uint_t             has_ttl;

    ngx_event_t            timer;        /* timer that ends the wait for silent
                                            replicas of a read */
    ngx_msec_t             begin;        /* when the read of replicas began */

    ngx_mcds_leg_t         legs[NGX_MCDS_MAX_REPLICAS];
};


/*
 * Submits a request to the server of replica i: the request of the operation on
 * all replicas (the group), or a changed copy of it.  No command of the group
 * may be under way on this server.
 */

void ngx_mcds_group_ask(ngx_mcds_group_t *group, ngx_uint_t i,
    ngx_mcds_request_t *req, ngx_mcds_handler_pt handler);


/*
 * Merges the result code of one replica into that of the operation on all
 * replicas, which is the one with the highest rank.
 */

void ngx_mcds_group_take(ngx_mcds_leg_t *leg, ngx_uint_t rc);


/*
 * Passes the result of an operation on replicas to the operation of the caller,
 * unless the caller has got a result or cancelled.
 */

void ngx_mcds_group_done(ngx_mcds_group_t *group, ngx_mcds_result_t *result);


/*
 * Frees an operation on replicas (a group).  If the operation of the caller or
 * of a replica has no result yet, its handler will not be called.
 */

void ngx_mcds_group_free(ngx_mcds_group_t *group);


/* Returns the index of the first replica whose server is up; 0 if none is. */

ngx_uint_t ngx_mcds_group_first_up(ngx_mcds_group_t *group);


/* Puts the index of the replica into the CAS value of a result. */

void ngx_mcds_group_mark_cas(ngx_mcds_leg_t *leg, ngx_mcds_result_t *result);


/*
 * Reads the value from the first replica that has the key.  A cancelled read
 * asks no further server.
 */

void ngx_mcds_replica_first(ngx_mcds_group_t *group);


/*
 * Reads the values of all replicas, and returns the newest one, see "newer" of
 * ngx_mcds_request_t.  A cancelled read asks no further server.
 */

void ngx_mcds_replica_newest(ngx_mcds_group_t *group);


/*
 * Raises a counter that the replica "low" has started anew, or lacks, to the
 * current value on the replica "high".  The counter is raised some seconds
 * after the call, when the operation on replicas (the group) may have ended: of
 * the group, only the key is used, which is copied.
 */

void ngx_mcds_replica_level(ngx_mcds_group_t *group, ngx_mcds_leg_t *high,
    ngx_mcds_leg_t *low);


#endif /* _NGX_MCDS_GROUP_H_INCLUDED_ */

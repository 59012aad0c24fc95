
/*
 * Copyright (C) mcds authors
 *
 * Inside of client/: an operation on replicas, and the operations on each
 * of their servers.
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


/* the part of one server */

typedef struct {
    ngx_mcds_group_t      *group;
    ngx_mcds_server_t     *server;
    ngx_mcds_op_t          op;           /* the one under way there */
    uint64_t               number;

    /* of a read that compares: what was asked last, and the answer; value is
       what that points into, as soon as its handler has ended, or NULL */
    ngx_uint_t             want;
    ngx_mcds_result_t      answer;
    ngx_mcds_value_t      *value;

    unsigned               has_number:1;
    unsigned               missing:1;
    unsigned               asking:1;     /* no answer yet */
    unsigned               late:1;       /* ... and none is waited for */
} ngx_mcds_leg_t;


struct ngx_mcds_group_s {
    ngx_queue_t            queue;
    ngx_mcds_op_t         *op;           /* NULL: it has its result, or was
                                            cancelled */
    ngx_mcds_request_t     req;          /* the strings are behind the group */

    ngx_uint_t             n;            /* legs */
    ngx_uint_t             left;         /* under way */
    ngx_uint_t             start;        /* the first one read from */
    ngx_uint_t             asked;        /* how many were read from */
    ngx_uint_t             rc;           /* of all legs so far */
    ngx_uint_t             rank;
    uint64_t               cas;          /* of what the leader has, or 0 */
    int64_t                ttl;          /* of a number, if has_ttl */
    ngx_uint_t             has_ttl;

    ngx_event_t            timer;        /* of a read, */
    ngx_msec_t             begin;        /* which began then */

    ngx_mcds_leg_t         legs[NGX_MCDS_MAX_REPLICAS];
};


/*
 * ask: sends a request to leg i, that of the group or one like it; nothing may
 * be under way there.  take: the result of one leg goes into that of the group.
 * done: the operation gets its result, unless it has it.  free: when nothing is
 * under way any more.  first_up: the first leg that is not down, or 0.
 * mark_cas: says in the CAS of a result whose it is.
 */

void ngx_mcds_group_ask(ngx_mcds_group_t *group, ngx_uint_t i,
    ngx_mcds_request_t *req, ngx_mcds_handler_pt handler);
void ngx_mcds_group_take(ngx_mcds_leg_t *leg, ngx_uint_t rc);
void ngx_mcds_group_done(ngx_mcds_group_t *group, ngx_mcds_result_t *result);
void ngx_mcds_group_free(ngx_mcds_group_t *group);
ngx_uint_t ngx_mcds_group_first_up(ngx_mcds_group_t *group);
void ngx_mcds_group_mark_cas(ngx_mcds_leg_t *leg, ngx_mcds_result_t *result);


/*
 * Reads.  first: from the first server that has it.  newest: all are asked, see
 * newer of ngx_mcds_request_t.  One that was cancelled asks no further server.
 */

void ngx_mcds_replica_first(ngx_mcds_group_t *group);
void ngx_mcds_replica_newest(ngx_mcds_group_t *group);


/*
 * A counter that low has begun anew, or is missing there, is raised to what
 * high has now; later, and by what the group's request says of the key alone.
 */

void ngx_mcds_replica_level(ngx_mcds_group_t *group, ngx_mcds_leg_t *high,
    ngx_mcds_leg_t *low);


#endif /* _NGX_MCDS_GROUP_H_INCLUDED_ */

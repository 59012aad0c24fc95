
/*
 * Copyright (C) mcds authors
 *
 * What the files of the array share.
 */


#ifndef _NGX_MCDS_ARRAY_CORE_H_INCLUDED_
#define _NGX_MCDS_ARRAY_CORE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_array.h"
#include "ngx_mcds_index.h"
#include "ngx_mcds_update.h"


/* the largest item that is read */
#define NGX_MCDS_ARRAY_ITEM       (2 * 1024 * 1024)


/* how often something is tried while others are faster */
#define NGX_MCDS_ARRAY_ROUNDS     24


/* parts that are written at once */
#define NGX_MCDS_ARRAY_WRITES     8


typedef struct {
    ngx_queue_t                 queue;
    ngx_mcds_array_edit_pt      edit;      /* NULL: appends text */
    ngx_mcds_array_done_pt      handler;
    void                       *data;
    ngx_mcds_value_t           *text;
    size_t                      size;      /* of text or data */
    ngx_uint_t                  rc;
    ngx_uint_t                  shared;
} ngx_mcds_array_job_t;


typedef enum {
    NGX_MCDS_ARRAY_APPENDING = 0,
    NGX_MCDS_ARRAY_CHANGING,
    NGX_MCDS_ARRAY_MAKING_ROOM,            /* ... for what is appended */
    NGX_MCDS_ARRAY_LOOKING                 /* nobody waits for it */
} ngx_mcds_array_mode_e;


/* what the array is to be */

typedef struct {
    ngx_pool_t                 *pool;
    ngx_array_t                 refs;      /* ngx_mcds_array_ref_t */
    ngx_array_t                 drops;     /* ... no longer needed then */
    ngx_uint_t                  fresh;     /* the first new one of refs */
    ngx_uint_t                  base;
    ngx_uint_t                  lines;     /* in parts */
    size_t                      size;      /* of parts */
    ngx_mcds_value_t           *rest;      /* lines that have no part */
    size_t                      pos;       /* in the rest */
    ngx_mcds_value_t           *head;
    ngx_mcds_value_t           *before;    /* what the head was */
    ngx_uint_t                  waiting;
    ngx_uint_t                  rc;
    uint32_t                    ttl;
    ngx_uint_t                  changed;
} ngx_mcds_array_round_t;


/* all that a worker writes to one array */

typedef struct {
    ngx_mcds_index_node_t       node;
    ngx_mcds_array_t            array;
    ngx_queue_t                 jobs;      /* that wait */
    ngx_queue_t                 active;    /* of this round */
    ngx_event_t                 event;     /* begins a round */
    ngx_uint_t                  mode;
    ngx_uint_t                  verb;      /* appending: APPEND or ADD */
    ngx_mcds_value_t           *text;      /* to append */
    ngx_mcds_op_t               op;        /* ... to the head */

    ngx_mcds_array_read_t       read;
    ngx_mcds_update_t           update;    /* of the head; its tries are those
                                              of appending, too */
    ngx_mcds_op_t               parts[NGX_MCDS_ARRAY_WRITES];

    ngx_mcds_array_done_t       done;
    ngx_mcds_array_round_t      round;     /* of a change */
} ngx_mcds_array_work_t;


/* what stands behind the key of a part, written to buf */

#define ngx_mcds_array_part_suffix(suffix, buf, id)                           \
    (suffix)->data = buf;                                                     \
    (suffix)->len = 1 + NGX_MCDS_ARRAY_ID;                                    \
    (buf)[0] = ':';                                                           \
    ngx_memcpy(&(buf)[1], id, NGX_MCDS_ARRAY_ID)


/*
 * Rounds.  append_send: tries to append what was gathered, verb is APPEND or
 * ADD.  change_start: reads, and goes on.  end: tells those of this round and
 * begins the next one; next_round: the same when they know already.
 */

void ngx_mcds_array_append_send(ngx_mcds_array_work_t *work, ngx_uint_t verb);
void ngx_mcds_array_change_start(ngx_mcds_array_work_t *work);
void ngx_mcds_array_end(ngx_mcds_array_work_t *work, ngx_uint_t rc);
void ngx_mcds_array_next_round(ngx_mcds_array_work_t *work);


#endif /* _NGX_MCDS_ARRAY_CORE_H_INCLUDED_ */

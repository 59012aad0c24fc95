
/*
 * Copyright (C) mcds authors
 *
 * The definitions that the files of the array share.
 */


#ifndef _NGX_MCDS_ARRAY_CORE_H_INCLUDED_
#define _NGX_MCDS_ARRAY_CORE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_array.h"
#include "ngx_mcds_index.h"
#include "ngx_mcds_update.h"


/* the maximum size of an item that is read, bytes */
#define NGX_MCDS_ARRAY_ITEM       (2 * 1024 * 1024)


/* the maximum number of attempts while other changes come between */
#define NGX_MCDS_ARRAY_ROUNDS     24


/* the maximum number of parts written at once */
#define NGX_MCDS_ARRAY_WRITES     8


typedef struct {
    ngx_queue_t                 queue;
    ngx_mcds_array_edit_pt      edit;      /* NULL: text is appended */
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
    NGX_MCDS_ARRAY_MAKING_ROOM,            /* for the lines to append */
    NGX_MCDS_ARRAY_LOOKING                 /* for large heads; no caller
                                              waits */
} ngx_mcds_array_mode_e;


/* the new state of the array */

typedef struct {
    ngx_pool_t                 *pool;
    ngx_array_t                 refs;      /* ngx_mcds_array_ref_t */
    ngx_array_t                 drops;     /* parts not needed afterwards */
    ngx_uint_t                  fresh;     /* the first new one of refs */
    ngx_uint_t                  base;
    ngx_uint_t                  lines;     /* in parts */
    size_t                      size;      /* of parts */
    ngx_mcds_value_t           *rest;      /* lines that are not in a part */
    size_t                      pos;       /* position in rest */
    ngx_mcds_value_t           *head;
    ngx_mcds_value_t           *before;    /* the old head */
    ngx_uint_t                  waiting;
    ngx_uint_t                  rc;
    uint32_t                    ttl;
    ngx_uint_t                  changed;
} ngx_mcds_array_round_t;


/* all writes of a worker to one array */

typedef struct {
    ngx_mcds_index_node_t       node;
    ngx_mcds_array_t            array;
    ngx_queue_t                 jobs;      /* waiting */
    ngx_queue_t                 active;    /* of this round */
    ngx_event_t                 event;     /* starts a round */
    ngx_uint_t                  mode;
    ngx_uint_t                  verb;      /* appending: APPEND or ADD */
    ngx_mcds_value_t           *text;      /* to append */
    ngx_mcds_op_t               op;        /* appends the text */

    ngx_mcds_array_read_t       read;
    ngx_mcds_update_t           update;    /* of the head; its attempts include
                                              those of an append */
    ngx_mcds_op_t               parts[NGX_MCDS_ARRAY_WRITES];

    ngx_mcds_array_done_t       done;
    ngx_mcds_array_round_t      round;     /* of a change */
} ngx_mcds_array_work_t;


/* sets the suffix of a part's key, written to buf */

#define ngx_mcds_array_part_suffix(suffix, buf, id)                           \
    (suffix)->data = buf;                                                     \
    (suffix)->len = 1 + NGX_MCDS_ARRAY_ID;                                    \
    (buf)[0] = ':';                                                           \
    ngx_memcpy(&(buf)[1], id, NGX_MCDS_ARRAY_ID)


/* Appends the gathered lines; verb is APPEND or ADD. */

void ngx_mcds_array_append_send(ngx_mcds_array_work_t *work, ngx_uint_t verb);


/* Starts a round of changes, by reading the array. */

void ngx_mcds_array_change_start(ngx_mcds_array_work_t *work);


/* Ends a round: calls the handlers of its jobs, and starts the next round. */

void ngx_mcds_array_end(ngx_mcds_array_work_t *work, ngx_uint_t rc);


/* Starts the next round; all handlers were called. */

void ngx_mcds_array_next_round(ngx_mcds_array_work_t *work);


#endif /* _NGX_MCDS_ARRAY_CORE_H_INCLUDED_ */

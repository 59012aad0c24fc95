
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


/* the maximum size of an item of an array that is read, in bytes */
#define NGX_MCDS_ARRAY_ITEM       (2 * 1024 * 1024)


/*
 * the maximum number of attempts to change an array while other changes come
 * between
 */
#define NGX_MCDS_ARRAY_ROUNDS     24


/* the maximum number of parts of an array that are written at once */
#define NGX_MCDS_ARRAY_WRITES     8


typedef struct {
    ngx_queue_t                 queue;
    ngx_mcds_array_edit_pt      edit;      /* decides the change of the array;
                                              NULL: the text is appended */
    ngx_mcds_array_done_pt      handler;
    void                       *data;
    ngx_mcds_value_t           *text;
    size_t                      size;      /* size of the text or data, in
                                              bytes */
    ngx_uint_t                  rc;
    ngx_uint_t                  shared;
} ngx_mcds_array_job_t;


typedef enum {
    NGX_MCDS_ARRAY_APPENDING = 0,
    NGX_MCDS_ARRAY_CHANGING,
    NGX_MCDS_ARRAY_MAKING_ROOM,            /* make room in the head item for the
                                              lines to append */
    NGX_MCDS_ARRAY_LOOKING                 /* look whether the head item is
                                              large; no caller waits */
} ngx_mcds_array_mode_e;


/* the new state of an array, which a round of changes makes */

typedef struct {
    ngx_pool_t                 *pool;
    ngx_array_t                 refs;      /* all parts of the array,
                                              ngx_mcds_array_ref_t */
    ngx_array_t                 drops;     /* parts of the array to delete after
                                              the change */
    ngx_uint_t                  fresh;     /* index of the array's first new
                                              part in refs */
    ngx_uint_t                  base;
    ngx_uint_t                  lines;     /* number of lines in the array's
                                              parts */
    size_t                      size;      /* bytes of lines in the array's
                                              parts */
    ngx_mcds_value_t           *rest;      /* lines of the array that are not in
                                              a part */
    size_t                      pos;       /* position in rest of the first line
                                              that is not in a part */
    ngx_mcds_value_t           *head;
    ngx_mcds_value_t           *before;    /* head item of the array before the
                                              change */
    ngx_uint_t                  waiting;
    ngx_uint_t                  rc;
    uint32_t                    ttl;
    ngx_uint_t                  changed;
} ngx_mcds_array_round_t;


/* all writes of this worker to one array */

typedef struct {
    ngx_mcds_index_node_t       node;
    ngx_mcds_array_t            array;
    ngx_queue_t                 jobs;      /* writes to the array that wait for
                                              a round */
    ngx_queue_t                 active;    /* writes to the array of the present
                                              round */
    ngx_event_t                 event;     /* event that starts a round of
                                              writes */
    ngx_uint_t                  mode;
    ngx_uint_t                  verb;      /* command of an append: APPEND or
                                              ADD */
    ngx_mcds_value_t           *text;      /* lines to append to the array */
    ngx_mcds_op_t               op;        /* operation that appends the
                                              lines */

    ngx_mcds_array_read_t       read;
    ngx_mcds_update_t           update;    /* exchange of the array's head item;
                                              its attempts include those of an
                                              append */
    ngx_mcds_op_t               parts[NGX_MCDS_ARRAY_WRITES];

    ngx_mcds_array_done_t       done;
    ngx_mcds_array_round_t      round;     /* state of a round of changes of the
                                              array */
} ngx_mcds_array_work_t;


/* sets the suffix of the key of an array's part, written to buf */

#define ngx_mcds_array_part_suffix(suffix, buf, id)                           \
    (suffix)->data = buf;                                                     \
    (suffix)->len = 1 + NGX_MCDS_ARRAY_ID;                                    \
    (buf)[0] = ':';                                                           \
    ngx_memcpy(&(buf)[1], id, NGX_MCDS_ARRAY_ID)


/* Appends the gathered lines to the array; verb is APPEND or ADD. */

void ngx_mcds_array_append_send(ngx_mcds_array_work_t *work, ngx_uint_t verb);


/* Starts a round of changes of an array, by reading the array. */

void ngx_mcds_array_change_start(ngx_mcds_array_work_t *work);


/*
 * Ends a round of writes to an array: calls the handlers of its jobs, and
 * starts the next round.
 */

void ngx_mcds_array_end(ngx_mcds_array_work_t *work, ngx_uint_t rc);


/* Starts the next round of writes to an array; all handlers were called. */

void ngx_mcds_array_next_round(ngx_mcds_array_work_t *work);


#endif /* _NGX_MCDS_ARRAY_CORE_H_INCLUDED_ */

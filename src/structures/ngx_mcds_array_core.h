
/*
 * Copyright (C) mcds authors
 *
 * Private to the files of arrays, ngx_mcds_array_*.c: limits, structs and
 * functions that they share.
 */


#ifndef _NGX_MCDS_ARRAY_CORE_H_INCLUDED_
#define _NGX_MCDS_ARRAY_CORE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_array.h"
#include "ngx_mcds_index.h"
#include "ngx_mcds_update.h"


/*
 * The maximum size of an item that is read for an array, in bytes.  An append
 * does not know how much the array has, so that the head item of an array that
 * is full can grow until memcached refuses it.
 */
#define NGX_MCDS_ARRAY_ITEM       (2 * NGX_MCDS_ARRAY_SIZE)


/*
 * the maximum number of attempts to change an array; an attempt fails if
 * another client changes the array meanwhile
 */
#define NGX_MCDS_ARRAY_ROUNDS     24


/*
 * the maximum number of parts (memcached items with older lines of an array)
 * that are written at once; ngx_mcds_pool_batch() may allow fewer
 */
#define NGX_MCDS_ARRAY_WRITES     8


typedef struct {
    ngx_queue_t                 queue;
    ngx_mcds_array_edit_pt      edit;      /* function that decides how the
                                              array changes; NULL: text is
                                              appended */
    ngx_mcds_array_done_pt      handler;
    void                       *data;
    ngx_mcds_value_t           *text;
    size_t                      size;      /* bytes of this change of an array,
                                              which count for the limit of
                                              changes that wait */
    ngx_uint_t                  rc;
    ngx_uint_t                  shared;
} ngx_mcds_array_job_t;


typedef enum {
    NGX_MCDS_ARRAY_APPENDING = 0,
    NGX_MCDS_ARRAY_CHANGING,
    NGX_MCDS_ARRAY_MAKING_ROOM,            /* make room in the array's head item
                                              for the lines to append */
    NGX_MCDS_ARRAY_LOOKING                 /* look whether the array's head item
                                              has become large; no request
                                              waits for the result */
} ngx_mcds_array_mode_e;


/*
 * the new state of an array, after a round, in which the waiting changes are
 * made together
 */

typedef struct {
    ngx_pool_t                 *pool;
    ngx_array_t                 refs;      /* all parts (items of older lines)
                                              of the array,
                                              ngx_mcds_array_ref_t */
    ngx_array_t                 drops;     /* items of older lines (parts) to
                                              delete after the change of the
                                              array */
    ngx_uint_t                  fresh;     /* index in refs, the list of the
                                              array's parts, of the first part
                                              that this change of the array has
                                              written; the parts in front of it
                                              were written by earlier changes */
    ngx_uint_t                  base;
    ngx_uint_t                  lines;     /* number of lines in the array's
                                              parts (items of older lines) */
    size_t                      size;      /* bytes of lines in the array's
                                              parts (items of older lines) */
    ngx_mcds_value_t           *rest;      /* newest lines of the array, to be
                                              left in the head item or moved to
                                              new parts */
    size_t                      pos;       /* position in rest (the newest lines
                                              of the array) behind the lines
                                              that were dropped or moved to new
                                              items (parts) */
    ngx_mcds_value_t           *head;
    ngx_mcds_value_t           *before;    /* head item of the array before the
                                              change */
    ngx_uint_t                  unanswered;
    ngx_uint_t                  rc;
    ngx_uint_t                  restores;  /* number of attempts to store the
                                              array again, as it was before the
                                              change */
    uint32_t                    ttl;
    ngx_uint_t                  changed;
} ngx_mcds_array_round_t;


/* all writes of this worker to one array */

typedef struct {
    ngx_mcds_index_node_t       node;
    ngx_mcds_array_t            array;
    ngx_queue_t                 jobs;      /* writes to the array that wait for
                                              the present ones to end */
    ngx_queue_t                 active;    /* writes to the array that are being
                                              made together, a round */
    ngx_event_t                 event;     /* event that starts the waiting
                                              writes, to be made together; or
                                              timer that forgets that the array
                                              is full */
    ngx_uint_t                  full;      /* 1: the array was full after an
                                              append, so that the next lines are
                                              appended by compare-and-swap,
                                              which knows the array's size */
    ngx_uint_t                  mode;
    ngx_uint_t                  verb;      /* command that appends lines:
                                              APPEND, or ADD to create the
                                              array */
    ngx_mcds_value_t           *text;      /* lines to append to the array */
    ngx_mcds_op_t               op;        /* operation that appends lines to
                                              the array, or stores the array
                                              again */
    ngx_event_t                 restore;   /* timer of the next attempt to store
                                              the array again */

    ngx_mcds_array_read_t       read;
    ngx_mcds_update_t           update;    /* compare-and-swap of the array's
                                              head item; its field "tries"
                                              also counts failed appends */
    ngx_mcds_op_t               parts[NGX_MCDS_ARRAY_WRITES];

    ngx_mcds_array_done_t       done;
    ngx_mcds_array_round_t      round;     /* state of the present change of the
                                              array, which combines all waiting
                                              edits */
} ngx_mcds_array_work_t;


/*
 * sets the suffix of the key of a part, an array's item of older lines; buf
 * gets the text
 */

#define ngx_mcds_array_part_suffix(suffix, buf, id)                           \
    (suffix)->data = buf;                                                     \
    (suffix)->len = 1 + NGX_MCDS_ARRAY_ID;                                    \
    (buf)[0] = ':';                                                           \
    ngx_memcpy(&(buf)[1], id, NGX_MCDS_ARRAY_ID)


/*
 * Appends the lines of work->active, the writes that are made together, to the
 * array; verb is APPEND, or ADD if the array does not exist.
 */

void ngx_mcds_array_append_send(ngx_mcds_array_work_t *work, ngx_uint_t verb);


/*
 * Starts to make the waiting changes of an array together, by reading the
 * array.
 */

void ngx_mcds_array_change_start(ngx_mcds_array_work_t *work);


/*
 * Ends a round of writes to an array, which were made together: calls the
 * handlers of the writes, and starts the next round.
 */

void ngx_mcds_array_end(ngx_mcds_array_work_t *work, ngx_uint_t rc);


/*
 * Starts the next round of writes to an array, after the handlers of the last
 * round's writes were called.
 */

void ngx_mcds_array_next_round(ngx_mcds_array_work_t *work);


/*
 * Deletes n parts (items with older lines) of an array, to which its head item
 * does not refer; no result is awaited.  The parameters are copied.
 */

void ngx_mcds_array_drop(ngx_mcds_array_t *array, ngx_mcds_array_ref_t *ref,
    ngx_uint_t n);


#endif /* _NGX_MCDS_ARRAY_CORE_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * The structures of a body that is stored in parts, for ngx_mcds_split.c, which
 * sends the parts, and ngx_mcds_split_piece.c, which has them in memory.
 */


#ifndef _NGX_MCDS_SPLIT_CORE_H_INCLUDED_
#define _NGX_MCDS_SPLIT_CORE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_split.h"


typedef struct ngx_mcds_piece_s  ngx_mcds_piece_t;


struct ngx_mcds_piece_s {
    ngx_queue_t            queue;
    ngx_mcds_split_t      *split;
    ngx_mcds_value_t      *value;
    uint32_t               n;
    ngx_mcds_op_t          op;

    unsigned               sent:1;
    unsigned               answered:1;
};


struct ngx_mcds_split_s {
    ngx_mcds_pool_t       *pool;
    ngx_str_t              key;
    ngx_array_t           *secrets;
    size_t                 header;      /* size of the header of a part of the
                                           body */
    ngx_mcds_cut_t         cut;

    ngx_mcds_value_t      *value;       /* part of the body that is being
                                           filled with data */
    ngx_queue_t            pieces;      /* parts of the body that are still in
                                           memory, in order */
    size_t                 pending;     /* bytes of the body that memcached has
                                           not acknowledged */
    size_t                 flying;      /* bytes of the body that are sent and
                                           not acknowledged */
    ngx_uint_t             sent;        /* number of commands that store parts
                                           of the body, and that memcached has
                                           not answered yet */
    uint32_t               accepted;
    ngx_uint_t             rc;

    ngx_event_t            event;
    ngx_mcds_split_pt      handler;
    void                  *data;

    ngx_event_t            low;         /* event that calls the handler of
                                           ngx_mcds_split_wait(), when
                                           memcached has acknowledged enough
                                           bytes of the body */
    void                 (*low_handler)(void *data);
    void                  *low_data;
    size_t                 low_pending;

    unsigned               kept:1;      /* all parts of the body are still in
                                           memory */
    unsigned               ended:1;
};


/*
 * Copies len bytes of a body into its parts, and appends each part that is full
 * to split->pieces.  Returns NGX_ERROR if out of memory.
 */

ngx_int_t ngx_mcds_split_fill(ngx_mcds_split_t *split, u_char *data,
    size_t len);


/*
 * Appends split->value, filled with data, to the queue of parts of the body.
 * Returns NGX_ERROR if out of memory.
 */

ngx_int_t ngx_mcds_split_piece(ngx_mcds_split_t *split);


/* The handler of the command that stores a part of a body; data is the part. */

void ngx_mcds_split_answered(void *data, ngx_mcds_result_t *result);


/*
 * Frees a part of a body in memory.  If a memcached command is still storing
 * the part, the command continues.
 */

void ngx_mcds_split_free_piece(ngx_mcds_piece_t *piece);


/*
 * Drops the reference to a part of a body, and subtracts the part's size from
 * ngx_mcds_memory.storing, the bytes of all such parts in this worker's memory.
 * value may be NULL.
 */

void ngx_mcds_split_free_value(ngx_mcds_value_t *value);


#endif /* _NGX_MCDS_SPLIT_CORE_H_INCLUDED_ */

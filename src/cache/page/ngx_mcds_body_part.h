
/*
 * Copyright (C) mcds authors
 *
 * The parts of a body, see ngx_mcds_part.h, in this worker.
 */


#ifndef _NGX_MCDS_BODY_PART_H_INCLUDED_
#define _NGX_MCDS_BODY_PART_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_body.h"
#include "ngx_mcds_page_core.h"


typedef struct ngx_mcds_line_s  ngx_mcds_line_t;
typedef struct ngx_mcds_body_slot_s  ngx_mcds_body_slot_t;


/*
 * A part in memory, or on its way there, of which there is one for all who
 * want it.  The way there has a reference.
 */

struct ngx_mcds_body_part_s {
    ngx_mcds_index_node_t  node;      /* by the page, and the generation */
    ngx_uint_t           refs;

    ngx_mcds_page_t     *page;        /* a reference */
    uint64_t             generation;
    uint32_t             n;

    ngx_mcds_line_t     *line;
    ngx_mcds_op_t        op;
    ngx_queue_t          queue;       /* in the line */
    ngx_queue_t          slots;       /* who wait for it */

    ngx_mcds_value_t    *value;
    ngx_str_t            body;
    size_t               len;         /* that it must have */
    ngx_uint_t           rc;
    void                *checked;     /* the secrets by which it is signed */

    unsigned             under_way:1;
};


/* one who wants a part */

struct ngx_mcds_body_slot_s {
    ngx_queue_t          queue;
    ngx_mcds_body_part_t *part;
    ngx_event_t         *event;       /* posted when the part is there */
    unsigned             waiting:1;
};


/* makes the slot that of part n: "waiting" until event is posted */

ngx_int_t ngx_mcds_body_slot_get(ngx_mcds_body_slot_t *slot,
    ngx_mcds_copy_t *copy, uint32_t n, ngx_event_t *event);
void ngx_mcds_body_slot_free(ngx_mcds_body_slot_t *slot);


/*
 * find: part n of a copy if it is in memory, or on its way, or NULL.  create:
 * with one reference and nothing in it; NULL: out of memory.
 */

ngx_mcds_body_part_t *ngx_mcds_body_part_find(ngx_mcds_copy_t *copy,
    uint32_t n);
ngx_mcds_body_part_t *ngx_mcds_body_part_create(ngx_mcds_copy_t *copy,
    uint32_t n);
void ngx_mcds_body_part_unref(ngx_mcds_body_part_t *part);


#endif /* _NGX_MCDS_BODY_PART_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * The parts of pages' bodies, see ngx_mcds_part.h, that this worker has in
 * memory or is reading from memcached.
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
 * A part of a page's body in memory, or being read, which all requests that
 * need the part share.  The command that reads the part has a reference, too.
 */

struct ngx_mcds_body_part_s {
    ngx_mcds_index_node_t  node;      /* node in the index of parts of bodies;
                                         key: the page and the body's
                                         generation, a random id */
    ngx_uint_t           refs;

    ngx_mcds_page_t     *page;        /* the page of this part of a body,
                                         referenced */
    uint64_t             generation;
    uint32_t             n;

    ngx_mcds_line_t     *line;
    ngx_mcds_op_t        op;
    ngx_queue_t          queue;       /* place of the part in the queue
                                         line->parts until it is requested from
                                         memcached */
    ngx_queue_t          slots;       /* queue of the slots (references by open
                                         bodies) that wait for this part */

    ngx_mcds_value_t    *value;
    ngx_str_t            body;
    size_t               len;         /* expected length of the data in this
                                         part of a body */
    ngx_uint_t           rc;
    void                *checked;     /* the keys of mcds_cache_hmac_key, one of
                                         which has signed this part of a body;
                                         NULL: not checked */

    unsigned             under_way:1;
};


/*
 * a slot: the reference to one part of a body that is held while the body is
 * open (being sent with ngx_mcds_body_t, or checked)
 */

struct ngx_mcds_body_slot_s {
    ngx_queue_t          queue;
    ngx_mcds_body_part_t *part;
    ngx_event_t         *event;       /* event that is posted when the part of
                                         the body arrives */
    unsigned             waiting:1;
};


/*
 * Makes a slot of an open body refer to part n of the body of a page's
 * snapshot.  The part is read from memcached unless it is in memory already.
 * slot->waiting is 1 while the part is being read; the event is posted when the
 * part has arrived.  Returns NGX_ERROR if out of memory.
 */

ngx_int_t ngx_mcds_body_slot_get(ngx_mcds_body_slot_t *slot,
    ngx_mcds_snapshot_t *snapshot, uint32_t n, ngx_event_t *event);


/*
 * Empties a slot of an open body, and drops the reference to the part of the
 * body that the slot holds.  Has no effect on an empty slot.
 */

void ngx_mcds_body_slot_free(ngx_mcds_body_slot_t *slot);


/*
 * Returns part n of the body of a page's snapshot if the part is in memory or
 * being read, otherwise NULL.  Adds no reference.
 */

ngx_mcds_body_part_t *ngx_mcds_body_part_find(ngx_mcds_snapshot_t *snapshot,
    uint32_t n);


/*
 * Creates part n of the body of a page's snapshot in memory, without a value,
 * with one reference.  Returns NULL if out of memory.
 */

ngx_mcds_body_part_t *ngx_mcds_body_part_create(ngx_mcds_snapshot_t *snapshot,
    uint32_t n);


/* Drops a reference of a part of a body; the last one frees the part. */

void ngx_mcds_body_part_unref(ngx_mcds_body_part_t *part);


#endif /* _NGX_MCDS_BODY_PART_H_INCLUDED_ */

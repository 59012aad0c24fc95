
/*
 * Copyright (C) mcds authors
 *
 * The state of a list of the most viewed keys, in two independent halves: the
 * counts of this worker, which are merged into memcached, and the list of all
 * workers, which is read.
 */


#ifndef _NGX_MCDS_TOP_CORE_H_INCLUDED_
#define _NGX_MCDS_TOP_CORE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_top.h"
#include "ngx_mcds_update.h"


/* the maximum size of the item of a list's slot, bytes */
#define NGX_MCDS_TOP_LIMIT        (1024 * 1024)

/* how often a worker that has counts of keys looks whether it is to exit, ms */
#define NGX_MCDS_TOP_TICK         1000

/* the size of the suffix of a slot's key: ":top:" and a number */
#define NGX_MCDS_TOP_SUFFIX       (sizeof(":top:") - 1 + NGX_INT64_LEN)


struct ngx_mcds_top_wait_s {
    ngx_queue_t              queue;
    ngx_mcds_top_pt          handler;      /* called after the reading of the
                                              list; NULL: canceled */
    void                    *data;
};


/* one slot of a list's window, as it was read */

typedef struct {
    ngx_mcds_op_t            op;
    ngx_mcds_top_t          *top;
    uint64_t                 slot;
    ngx_mcds_value_t        *value;
    ngx_uint_t               final;        /* 1: the slot has ended, and is not
                                              read again */
} ngx_mcds_top_part_t;


struct ngx_mcds_top_state_s {

    /*
     * the counts of this worker: of the present slot, of the slot before, and
     * those that are being merged
     */

    ngx_mcds_topk_t         *current;
    ngx_mcds_topk_t         *old;
    ngx_mcds_topk_t         *flying;
    uint64_t                 current_slot;
    uint64_t                 old_slot;
    uint64_t                 flying_slot;
    ngx_mcds_update_t        update;       /* merge of counts into the item of
                                              flying_slot */
    u_char                   suffix[NGX_MCDS_TOP_SUFFIX];
    size_t                   fits;         /* size that is known to fit an
                                              item */
    size_t                   trial;        /* size of an item that is being
                                              tried */
    ngx_mcds_op_t            op;           /* command that tries the size of an
                                              item */
    ngx_event_t              give;
    ngx_msec_t               given;        /* time of the last merge of
                                              counts */

    /* fields of the reading of the list */

    ngx_event_t              reader;
    ngx_queue_t              waits;
    ngx_uint_t               missing;      /* missing answers; 1 while slots are
                                              added up */
    ngx_msec_t               asked;        /* when a request last used the
                                              list */
    ngx_msec_t               read;         /* time of the last reading of the
                                              list */
    ngx_uint_t               rc;           /* failure of the last reading of the
                                              list */
    ngx_uint_t               failed;       /* failure of this reading of the
                                              list */
    time_t                   now;          /* time of this reading of the
                                              list */
    ngx_mcds_topk_t         *ended;        /* sum of the counts of slots that
                                              have ended */
    uint64_t                 ended_slot;   /* present slot when "ended" was
                                              summed up */
    ngx_uint_t               ended_n;
    ngx_mcds_topk_t         *shown;
    ngx_mcds_topk_t         *next;         /* sum of counts that is shown
                                              next */
    ngx_event_t              adder;
    ngx_uint_t               adding;       /* number of slots added up so far */
    ngx_mcds_ranked_t      **order;
    ngx_mcds_top_list_t      list;

    unsigned                 listed:1;
    unsigned                 answered:1;   /* a server has replied to this
                                              reading */
    unsigned                 ending:1;     /* slots that have ended are added
                                              up */
    unsigned                 warned:1;
    unsigned                 bounded:1;    /* larger items do not fit a server
                                              of the pool */

    ngx_mcds_top_part_t      part[1];      /* the slots of the list, a ring */
};


/*
 * Zeroes req and sets the key of the item of a list's slot; suffix has room for
 * NGX_MCDS_TOP_SUFFIX bytes and lives as long as req.
 */

void ngx_mcds_top_request(ngx_mcds_top_t *top, uint64_t slot,
    ngx_mcds_request_t *req, u_char *suffix);


/* Makes the half of a list's new state that gives counts to memcached. */

void ngx_mcds_top_give_create(ngx_mcds_top_t *top,
    ngx_mcds_top_state_t *state);


/*
 * Frees the half of top->state that gives counts to memcached; the counts that
 * it has are lost.
 */

void ngx_mcds_top_give_free(ngx_mcds_top_t *top);


/* Counts a key as ngx_mcds_top_add() does, for a list that has a state. */

void ngx_mcds_top_count(ngx_mcds_top_t *top, ngx_str_t *key, uint64_t count);


/*
 * Makes the half of a list's new state that reads the list.  Returns NGX_OK, or
 * NGX_ERROR if out of memory.
 */

ngx_int_t ngx_mcds_top_read_create(ngx_mcds_top_t *top,
    ngx_mcds_top_state_t *state);


/* Frees the half of top->state that reads the list, and all waits. */

void ngx_mcds_top_read_free(ngx_mcds_top_t *top);


/*
 * Reads the slots of a list that may have changed; state->missing is 0
 * afterwards if there is none.
 */

void ngx_mcds_top_begin(ngx_mcds_top_t *top);


#endif /* _NGX_MCDS_TOP_CORE_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * A worker's state of a list of the most frequent keys, in two independent
 * halves: one merges the worker's own counts of keys into memcached; the other
 * reads the counts of all workers from memcached, and keeps the list.
 */


#ifndef _NGX_MCDS_TOP_CORE_H_INCLUDED_
#define _NGX_MCDS_TOP_CORE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_top.h"
#include "ngx_mcds_update.h"


/*
 * the maximum size of an item in memcached with the counts of the most frequent
 * keys in one slot (part of the list's time window), bytes
 */
#define NGX_MCDS_TOP_LIMIT        (1024 * 1024)

/*
 * the interval at which a worker that has yet to add counts of keys to
 * memcached checks whether it is exiting, and the shortest interval at which a
 * timer reads the list of the most frequent keys; ms
 */
#define NGX_MCDS_TOP_TICK         1000

/*
 * the maximum length of ":top:" and a slot's number.  Appended to the key of a
 * list of the most frequent keys, they make the key of an item in memcached: it
 * has the list's counts in this slot, a part of the list's time window.
 */
#define NGX_MCDS_TOP_SUFFIX       (sizeof(":top:") - 1 + NGX_INT64_LEN)


struct ngx_mcds_top_wait_s {
    ngx_queue_t              queue;
    ngx_mcds_top_pt          handler;      /* called after the list of the most
                                              frequent keys was read; NULL: the
                                              wait is canceled */
    void                    *data;
};


/*
 * the counts of keys in one slot, a part of the time window of a list of the
 * most frequent keys, as read from memcached
 */

typedef struct {
    ngx_mcds_op_t            op;
    ngx_mcds_top_t          *top;
    uint64_t                 slot;
    ngx_mcds_value_t        *value;
    int64_t                  read;         /* when these counts of keys were
                                              last read from memcached, seconds
                                              since the epoch */
    ngx_uint_t               final;        /* 1: the slot (part of the list's
                                              time window) is over; its counts
                                              of keys are not read again, or
                                              seldom */
} ngx_mcds_top_part_t;


struct ngx_mcds_top_state_s {

    /*
     * the keys counted by this worker: in the present slot (part of the list's
     * time window), in the slot before, and those being added to memcached
     */

    ngx_mcds_topk_t         *current;
    ngx_mcds_topk_t         *old;
    ngx_mcds_topk_t         *flying;
    uint64_t                 current_slot;
    uint64_t                 old_slot;
    uint64_t                 flying_slot;
    ngx_mcds_update_t        update;       /* adds this worker's counts of keys
                                              to those in memcached */
    u_char                   suffix[NGX_MCDS_TOP_SUFFIX];
    size_t                   fits;         /* size of an item, bytes, that the
                                              memcached servers are assumed to
                                              accept */
    size_t                   trial;        /* size of the item that is sent to a
                                              memcached server to find out
                                              whether it accepts so many
                                              bytes */
    ngx_mcds_op_t            op;           /* command that tries whether a
                                              memcached server accepts a large
                                              item */
    ngx_event_t              give;
    ngx_msec_t               given;        /* end of the last attempt to add
                                              counts of keys to memcached, ms */

    /* fields about reading the list of the most frequent keys */

    ngx_event_t              reader;
    ngx_queue_t              waits;
    ngx_uint_t               unanswered;   /* number of slots (parts of the time
                                              window) whose counts of keys are
                                              awaited from memcached; 1 while
                                              the counts are added up */
    ngx_msec_t               asked;        /* when a request last used the list
                                              of the most frequent keys */
    ngx_msec_t               read;         /* when the last attempt to read the
                                              list of the most frequent keys has
                                              begun; 0: never */
    ngx_uint_t               rc;           /* result of the last attempt to read
                                              the list of the most frequent
                                              keys */
    ngx_uint_t               failed;       /* NGX_MCDS_OK, or the last error in
                                              the present attempt to read the
                                              list of the most frequent keys */
    time_t                   now;          /* when the present attempt to read
                                              the list of the most frequent keys
                                              began */
    ngx_mcds_topk_t         *ended;        /* for each key, the sum of its
                                              counts in those slots (parts of
                                              the list's time window) which are
                                              over, and are not read from
                                              memcached again */
    uint64_t                 ended_slot;   /* number of the slot, a part of the
                                              list's time window, in which the
                                              sum "ended" was last computed; 0:
                                              compute it again */
    ngx_uint_t               ended_n;
    ngx_mcds_topk_t         *shown;
    ngx_mcds_topk_t         *next;         /* the list that will be shown next:
                                              of each key, the sum of its counts
                                              in all slots */
    ngx_event_t              adder;
    ngx_uint_t               adding;       /* number of slots (parts of the time
                                              window) whose counts of keys were
                                              added up or skipped */
    ngx_mcds_ranked_t      **order;
    ngx_mcds_top_list_t      list;

    unsigned                 held:1;       /* the last attempt to add the counts
                                              "old" to memcached has failed: the
                                              counts "current", which may have
                                              another server, are added next */

    unsigned                 listed:1;
    unsigned                 answered:1;   /* a memcached server has replied to
                                              the present attempt to read the
                                              list of the most frequent keys */
    unsigned                 ending:1;     /* 1: the worker computes the sum
                                              "ended" from slots (parts of the
                                              list's time window) that are over,
                                              before it adds the other slots */
    unsigned                 warned:1;
    unsigned                 bounded:1;    /* 1: items with counts of keys have
                                              at most "fits" bytes; 0: a larger
                                              size is tried out first */

    ngx_mcds_top_part_t      part[1];      /* ring of the counts of keys in each
                                              slot of the list's time window */
};


/*
 * Prepares a request for the item in memcached that says how often each of the
 * most frequent keys was counted in a slot, a part of the list's time window.
 * Zeroes req, and sets the name of this item: that of the list, and a suffix,
 * which the function writes to "suffix": NGX_MCDS_TOP_SUFFIX bytes that live as
 * long as req.
 */

void ngx_mcds_top_request(ngx_mcds_top_t *top, uint64_t slot,
    ngx_mcds_request_t *req, u_char *suffix);


/*
 * Sets up those fields of "state" that are used to add the worker's counts of
 * keys to memcached; the state, that of a list of the most frequent keys, is
 * new, and not yet top->state.
 */

void ngx_mcds_top_give_create(ngx_mcds_top_t *top,
    ngx_mcds_top_state_t *state);


/*
 * Frees those fields of top->state by which the worker adds its counts of keys
 * to memcached; counts that are not added yet are lost.
 */

void ngx_mcds_top_give_free(ngx_mcds_top_t *top);


/*
 * Counts a key, of 1 to NGX_MCDS_TOPK_KEY bytes, for a list of the most
 * frequent keys, of which the worker must have a state, top->state.
 */

void ngx_mcds_top_count(ngx_mcds_top_t *top, ngx_str_t *key, uint64_t count);


/*
 * Sets up those fields of "state" that are used to read the list of
 * mcds_counter_top, the keys with the highest counts, from memcached; the state
 * is new, and not yet top->state.  Returns NGX_OK, or NGX_ERROR if out of
 * memory.
 */

ngx_int_t ngx_mcds_top_read_create(ngx_mcds_top_t *top,
    ngx_mcds_top_state_t *state);


/*
 * Frees those fields of top->state by which the worker reads the list of the
 * most frequent keys, and the waits of requests for this list.
 */

void ngx_mcds_top_read_free(ngx_mcds_top_t *top);


/*
 * Requests from memcached those slots (parts of the list's window of time)
 * whose counts of keys may have changed.  Sets top->state->unanswered to the
 * number of replies to wait for.
 */

void ngx_mcds_top_begin(ngx_mcds_top_t *top);


#endif /* _NGX_MCDS_TOP_CORE_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * The hot keys of this host: those requested most often at the moment.
 *
 * Each worker watches NGX_MCDS_HOTKEYS_KEYS keys (see ngx_mcds_topk.h).  The
 * weight of a key loses a sixteenth each second, so that a request counts half
 * after about 11 seconds.  From time to time the worker copies its keys to its
 * own place in shared memory; the worker that shows the hot keys adds up the
 * places of all workers.
 *
 * A rate is a guaranteed lower bound: it is never too high, and too low by at
 * most a 64th of all requests that the workers have counted.  So a key that was
 * requested once among many others does not look hot.  To count a request takes
 * about 400 instructions, less than 0.1 us.
 */


#ifndef _NGX_MCDS_HOTKEYS_H_INCLUDED_
#define _NGX_MCDS_HOTKEYS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds.h"
#include "ngx_mcds_topk.h"


/*
 * the number of keys of each kind (pages, counters, visitors) that a worker
 * watches to find the hot ones
 */
#define NGX_MCDS_HOTKEYS_KEYS     64

/*
 * the bytes of a hot key that are kept: a longer key is counted and shown by
 * its beginning
 */
#define NGX_MCDS_HOTKEYS_KEY      120

/* the number of hot keys of a kind that mcds_status shows */
#define NGX_MCDS_HOTKEYS_TOP      20


typedef enum {
    NGX_MCDS_HOTKEYS_PAGES = 0,
    NGX_MCDS_HOTKEYS_COUNTERS,
    NGX_MCDS_HOTKEYS_VISITORS,

    NGX_MCDS_HOTKEYS_KINDS
} ngx_mcds_hotkeys_kind_e;


/* the hot keys that one worker has published, in its place in shared memory */

typedef struct ngx_mcds_hotkeys_place_s  ngx_mcds_hotkeys_place_t;


/* the hot keys of this worker, those requested most often */

typedef struct {
    ngx_mcds_topk_t      *tables[NGX_MCDS_HOTKEYS_KINDS];

    /* the second up to which the weights of the hot keys have decayed */
    ngx_uint_t            second;

    /*
     * 1: since it last published its hot keys, the worker has counted a request
     * or recorded the value, such as that of a counter, of a key
     */
    ngx_uint_t               changed;

    /* the list of the places of all workers' hot keys in shared memory */
    ngx_mcds_hotkeys_place_t    *places;

    /* the place of this worker's hot keys in shared memory, or NULL */
    ngx_mcds_hotkeys_place_t    *place;

    ngx_log_t                   *log;
} ngx_mcds_hotkeys_t;


typedef struct {
    uint64_t                 rate;     /* requests for the hot key in 1000
                                          seconds */
    uint64_t                 value;    /* the last known value of the hot key,
                                          such as that of a counter */
    uint64_t                 noted;    /* time when "value", such as that of a
                                          counter, was last recorded, ms since
                                          the epoch; 0: never */
    size_t                   len;      /* length of the hot key, 1 to
                                          NGX_MCDS_HOTKEYS_KEY */
    u_char                   data[NGX_MCDS_HOTKEYS_KEY];
} ngx_mcds_hotkeys_key_t;


/*
 * the hot keys of this worker, or NULL; set by the code that owns the shared
 * memory
 */

extern ngx_mcds_hotkeys_t  *ngx_mcds_hotkeys;


/*
 * The type of a function that returns zeroed shared memory for hot keys, or
 * NULL if there is none left.
 */

typedef void *(*ngx_mcds_hotkeys_alloc_pt)(void *data, size_t size);


/*
 * Makes places for the hot keys of all workers, when shared memory is created
 * or taken over by a new configuration.  *places is the list of the places that
 * exist, NULL at first.  The places take at most max bytes.  Returns the number
 * of workers without a place; the keys of these workers are not shown.
 */

ngx_uint_t ngx_mcds_hotkeys_zone(ngx_mcds_hotkeys_place_t **places,
    ngx_uint_t workers, size_t max, ngx_mcds_hotkeys_alloc_pt alloc,
    void *data);


/*
 * Creates the list of hot keys of the worker with this number.  It begins with
 * the keys that the previous worker of this number has published; the previous
 * worker may still be running, but publishes no more from then on.  Returns
 * NULL if out of memory.
 */

ngx_mcds_hotkeys_t *ngx_mcds_hotkeys_create(ngx_mcds_hotkeys_place_t *places,
    ngx_uint_t worker, ngx_log_t *log);


/* Frees the hot keys of this worker; its place in shared memory stays. */

void ngx_mcds_hotkeys_destroy(ngx_mcds_hotkeys_t *hotkeys);


/*
 * Counts a request for the key, which is copied, in the hot keys of this
 * worker.  kind is ngx_mcds_hotkeys_kind_e.  An empty key is ignored.
 */

void ngx_mcds_hotkeys_add(ngx_mcds_hotkeys_t *hotkeys, ngx_uint_t kind,
    ngx_str_t *key);


/*
 * Notes the current value, such as that of a counter, for a key that
 * ngx_mcds_hotkeys_add() has just counted.  A key of NGX_MCDS_HOTKEYS_KEY bytes
 * or more gets no value, as keys that are equal in so many bytes count as one.
 */

void ngx_mcds_hotkeys_note(ngx_mcds_hotkeys_t *hotkeys, ngx_uint_t kind,
    ngx_str_t *key, uint64_t value);


/*
 * Copies the hot keys of this worker to its place in shared memory, if they
 * have changed and the worker has a place.
 */

void ngx_mcds_hotkeys_publish(ngx_mcds_hotkeys_t *hotkeys);


/*
 * Fills the array keys, which has room for max, with the hottest keys of all
 * workers, the hottest one first.  Returns their number.
 */

ngx_uint_t ngx_mcds_hotkeys_read(ngx_mcds_hotkeys_t *hotkeys, ngx_uint_t kind,
    ngx_mcds_hotkeys_key_t *keys, ngx_uint_t max);


#endif /* _NGX_MCDS_HOTKEYS_H_INCLUDED_ */

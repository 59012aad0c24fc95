
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


/* the number of keys that a worker watches, of each kind */
#define NGX_MCDS_HOTKEYS_KEYS     64

/* a longer key is counted and shown by its beginning; bytes */
#define NGX_MCDS_HOTKEYS_KEY      120

/* the number of keys shown */
#define NGX_MCDS_HOTKEYS_TOP      20


typedef enum {
    NGX_MCDS_HOTKEYS_PAGES = 0,
    NGX_MCDS_HOTKEYS_COUNTERS,
    NGX_MCDS_HOTKEYS_VISITORS,

    NGX_MCDS_HOTKEYS_KINDS
} ngx_mcds_hotkeys_kind_e;


/* the published keys of one worker, in shared memory */

typedef struct ngx_mcds_hotkeys_place_s  ngx_mcds_hotkeys_place_t;


/* the hot keys of this worker */

typedef struct {
    ngx_mcds_topk_t      *tables[NGX_MCDS_HOTKEYS_KINDS];
    ngx_uint_t            second;      /* second up to which the weights have
                                          decayed */
    ngx_uint_t               changed;  /* a key changed since the last
                                          publication */

    ngx_mcds_hotkeys_place_t    *places;  /* the list of all workers' places */
    ngx_mcds_hotkeys_place_t    *place;  /* the place of this worker, or NULL */
    ngx_log_t                   *log;
} ngx_mcds_hotkeys_t;


typedef struct {
    uint64_t                 rate;     /* requests in 1000 seconds */
    uint64_t                 value;    /* the last value noted for the key */
    uint64_t                 noted;    /* when the value was noted, in
                                          milliseconds since the epoch; 0:
                                          never */
    size_t                   len;      /* length of the key, 1 to
                                          NGX_MCDS_HOTKEYS_KEY */
    u_char                   data[NGX_MCDS_HOTKEYS_KEY];
} ngx_mcds_hotkeys_key_t;


/*
 * the hot keys of this worker, or NULL; set by the code that owns the shared
 * memory
 */

extern ngx_mcds_hotkeys_t  *ngx_mcds_hotkeys;


/* returns zeroed shared memory, or NULL if there is none left */

typedef void *(*ngx_mcds_hotkeys_alloc_pt)(void *data, size_t size);


/*
 * Makes places for all workers, when shared memory is created or taken over by
 * a new configuration.  *places is the list of those that exist, NULL at first.
 * The places take at most max bytes.  Returns the number of workers without a
 * place; the keys of these workers are not shown.
 */

ngx_uint_t ngx_mcds_hotkeys_zone(ngx_mcds_hotkeys_place_t **places,
    ngx_uint_t workers, size_t max, ngx_mcds_hotkeys_alloc_pt alloc,
    void *data);


/*
 * Creates the hot keys of a worker, by its number.  The new worker continues
 * with the keys that the previous worker of this number has published; from
 * then on the previous one, which may still be running, publishes no more.
 * Returns NULL if out of memory.
 */

ngx_mcds_hotkeys_t *ngx_mcds_hotkeys_create(ngx_mcds_hotkeys_place_t *places,
    ngx_uint_t worker, ngx_log_t *log);


/* Frees the hot keys of this worker; its place in shared memory stays. */

void ngx_mcds_hotkeys_destroy(ngx_mcds_hotkeys_t *hotkeys);


/* Counts a request for the key, which is copied.  An empty key is ignored. */

void ngx_mcds_hotkeys_add(ngx_mcds_hotkeys_t *hotkeys, ngx_uint_t kind,
    ngx_str_t *key);


/*
 * Notes the current value of a key that was just added.  A key that is too long
 * to be stored in full gets no value.
 */

void ngx_mcds_hotkeys_note(ngx_mcds_hotkeys_t *hotkeys, ngx_uint_t kind,
    ngx_str_t *key, uint64_t value);


/*
 * Copies the keys of this worker to its place in shared memory, if they have
 * changed and the worker has a place.
 */

void ngx_mcds_hotkeys_publish(ngx_mcds_hotkeys_t *hotkeys);


/*
 * Fills keys, which has room for max, with the hottest keys of all workers, the
 * hottest one first.  Returns their number.
 */

ngx_uint_t ngx_mcds_hotkeys_read(ngx_mcds_hotkeys_t *hotkeys, ngx_uint_t kind,
    ngx_mcds_hotkeys_key_t *keys, ngx_uint_t max);


#endif /* _NGX_MCDS_HOTKEYS_H_INCLUDED_ */

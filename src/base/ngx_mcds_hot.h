
/*
 * Copyright (C) mcds authors
 *
 * The keys that this host is asked for most, now.
 *
 * Each worker watches NGX_MCDS_HOT_KEYS keys (see ngx_mcds_summary.h).  What
 * it has counted loses a sixteenth of its weight each second, so that after
 * about 11 seconds it counts half.  From time to time the worker copies its
 * keys to a place of its own in shared memory; who is asked adds up the places
 * of all.
 *
 * A rate is what surely came: it is never too high, and too low by no more
 * than a 64th of all that the workers have counted.  So a key that is asked
 * for once among many others does not look hot.  To count one takes about 400
 * instructions, less than 0.1 us.
 */


#ifndef _NGX_MCDS_HOT_H_INCLUDED_
#define _NGX_MCDS_HOT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds.h"
#include "ngx_mcds_summary.h"


/* keys that a worker watches, of each kind */
#define NGX_MCDS_HOT_KEYS         64

/* longer keys are counted and shown by their beginning; bytes */
#define NGX_MCDS_HOT_KEY          120

/* keys that are shown */
#define NGX_MCDS_HOT_TOP          20


typedef enum {
    NGX_MCDS_HOT_PAGES = 0,
    NGX_MCDS_HOT_COUNTERS,
    NGX_MCDS_HOT_VISITORS,

    NGX_MCDS_HOT_KINDS
} ngx_mcds_hot_kind_e;


/* of one worker, in shared memory */

typedef struct ngx_mcds_hot_place_s  ngx_mcds_hot_place_t;


/* of this worker */

typedef struct {
    ngx_mcds_summary_t      *tables[NGX_MCDS_HOT_KINDS];
    ngx_uint_t               second;   /* that they are of */
    ngx_uint_t               changed;  /* since they were published */

    ngx_mcds_hot_place_t    *places;   /* of all workers */
    ngx_mcds_hot_place_t    *place;    /* of this one, or NULL */
    ngx_log_t               *log;
} ngx_mcds_hot_t;


typedef struct {
    uint64_t                 rate;     /* a thousandth of one each second */
    uint64_t                 value;    /* the last that was noted, and when: */
    uint64_t                 noted;    /* milliseconds, 0: none was */
    size_t                   len;      /* 1 to NGX_MCDS_HOT_KEY */
    u_char                   data[NGX_MCDS_HOT_KEY];
} ngx_mcds_hot_key_t;


/* of this worker, or NULL; set by who has the shared memory */

extern ngx_mcds_hot_t  *ngx_mcds_hot;


/*
 * When the shared memory is made or got again: makes places for so many
 * workers, *places is NULL at first.  Takes no more than max bytes; returns how
 * many workers go without a place, what they are asked for is not seen.  alloc:
 * gives zeroed shared memory, or NULL.
 */

typedef void *(*ngx_mcds_hot_alloc_pt)(void *data, size_t size);

ngx_uint_t ngx_mcds_hot_zone(ngx_mcds_hot_place_t **places,
    ngx_uint_t workers, size_t max, ngx_mcds_hot_alloc_pt alloc, void *data);


/*
 * In a worker, by its number.  create: goes on from what the one before has
 * published; NULL when out of memory.  The one before may live on, it then
 * publishes no more.
 */

ngx_mcds_hot_t *ngx_mcds_hot_create(ngx_mcds_hot_place_t *places,
    ngx_uint_t worker, ngx_log_t *log);
void ngx_mcds_hot_destroy(ngx_mcds_hot_t *hot);


/*
 * add: the key was asked for; it is copied, and may be empty, which is not
 * counted.  note: the number of a key that was just added; a key that is shown
 * by its beginning has none.  publish: makes others see it.
 */

void ngx_mcds_hot_add(ngx_mcds_hot_t *hot, ngx_uint_t kind, ngx_str_t *key);
void ngx_mcds_hot_note(ngx_mcds_hot_t *hot, ngx_uint_t kind, ngx_str_t *key,
    uint64_t value);
void ngx_mcds_hot_publish(ngx_mcds_hot_t *hot);


/*
 * The hottest keys of all workers, the first one first; at most max, which is
 * what keys has room for.  Returns how many there are.
 */

ngx_uint_t ngx_mcds_hot_read(ngx_mcds_hot_t *hot, ngx_uint_t kind,
    ngx_mcds_hot_key_t *keys, ngx_uint_t max);


#endif /* _NGX_MCDS_HOT_H_INCLUDED_ */

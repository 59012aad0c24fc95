
/*
 * Copyright (C) mcds authors
 *
 * What the workers of a host share about pages, in memory of their zone: who
 * builds one of them here, for the time when memcached does not say, copies of
 * pages, and that one of them was purged here.  A worker that was killed leaves
 * nothing locked: what it held is free as soon as somebody looks, and ends by
 * itself.
 */


#ifndef _NGX_MCDS_LOCAL_H_INCLUDED_
#define _NGX_MCDS_LOCAL_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds.h"


#define NGX_MCDS_LOCAL_ID         16


typedef struct ngx_mcds_local_s  ngx_mcds_local_t;
typedef struct ngx_mcds_claim_s  ngx_mcds_claim_t;


/* a build of this worker's; zeroed memory holds nothing */

typedef struct {
    ngx_queue_t          queue;
    ngx_mcds_claim_t    *claim;        /* in the zone, or NULL */
    u_char               id[NGX_MCDS_LOCAL_ID];
    uint64_t             build;        /* which one, told to the others */
    ngx_msec_t           age;
} ngx_mcds_hold_t;


/* how a build ended, for those who wait in other workers */

typedef enum {
    NGX_MCDS_LOCAL_FREE = 0,      /* the next may build */
    NGX_MCDS_LOCAL_ALONE,         /* built, but for its worker alone */
    NGX_MCDS_LOCAL_FAILED         /* nobody is to try for a while */
} ngx_mcds_local_e;


typedef struct {
    ngx_uint_t           state;        /* ngx_mcds_local_e */
    ngx_uint_t           step;         /* FAILED: as in ngx_mcds_lease_left_t */
    ngx_msec_t           left;         /* ... for so long */
    uint64_t             build;        /* with NGX_BUSY: hold->build of the
                                          worker that builds */
} ngx_mcds_local_left_t;


/*
 * create: in memory of the zone, NULL if there is no room for it.  attach: in
 * a worker; without it there are no others.
 */

ngx_mcds_local_t *ngx_mcds_local_create(ngx_slab_pool_t *shpool);
void ngx_mcds_local_attach(ngx_mcds_local_t *local, ngx_slab_pool_t *shpool);


/*
 * What tells the items of a key apart.  The CAS alone does not where memcached
 * was restarted, since it counts from the beginning then, or where another
 * server has taken over.
 */

typedef struct {
    uint64_t             cas;          /* 0: not known */
    ngx_uint_t           flags;        /* see ngx_mcds_entry_client_flags() */
} ngx_mcds_stamp_t;


/* 1 if both are known and of one item */

ngx_uint_t ngx_mcds_stamp_same(ngx_mcds_stamp_t *a, ngx_mcds_stamp_t *b);


/* names a page */

void ngx_mcds_local_id(u_char *id, ngx_str_t *pool, ngx_str_t *key);


/*
 * Claims the build of hold->id.  NGX_OK: it is this worker's until it is
 * released; NGX_BUSY: another worker builds, and knows now that somebody
 * waits; NGX_ABORT: left->left ms nobody is to try; NGX_DECLINED: nothing is
 * known of others, and nothing to be told to them.  age: ms that it outlives
 * a worker that hangs.  With NGX_OK, left is what the last one has left.
 */

ngx_int_t ngx_mcds_local_claim(ngx_mcds_hold_t *hold, ngx_msec_t age,
    ngx_mcds_local_left_t *left);


/*
 * The same without a claim: NGX_OK it is free.  wait: the one who builds is
 * told that somebody waits.
 */

ngx_int_t ngx_mcds_local_look(u_char *id, ngx_uint_t wait,
    ngx_mcds_local_left_t *left);


/* 1 if another worker waits for what is held */

ngx_uint_t ngx_mcds_local_wanted(ngx_mcds_hold_t *hold);


/* gives it up; nothing happens if nothing is held */

void ngx_mcds_local_release(ngx_mcds_hold_t *hold,
    ngx_mcds_local_left_t *left);


/*
 * Copies.  put: keeps a copy of the value, in place of others that were not
 * read for long; NGX_DECLINED if there is no room for one of this size.  get:
 * the value in memory of its own, NULL if there is none; of this stamp, or of
 * any if it is NULL, *found is its own; not older than so many ms.
 */

ngx_int_t ngx_mcds_local_put(u_char *id, ngx_mcds_value_t *value,
    ngx_mcds_stamp_t *stamp);
ngx_mcds_value_t *ngx_mcds_local_get(u_char *id, ngx_mcds_stamp_t *stamp,
    ngx_msec_t age, ngx_mcds_stamp_t *found);


/*
 * Purges of this host.  purges: a number for the page of the key, which moves
 * on when any worker purges that page, and at times when another one is purged;
 * the pages of all variants have the number of their list.  A copy that was
 * confirmed by a command of before is not to be used unasked.  place: by which
 * the number is found.
 *
 * purged: moves the number on.  forget: the zone's copy goes, too, so that it
 * is not used when memcached does not answer.
 */

ngx_uint_t ngx_mcds_local_place(ngx_str_t *key);
ngx_atomic_uint_t ngx_mcds_local_purges(ngx_uint_t place);
void ngx_mcds_local_purged(ngx_str_t *pool, ngx_str_t *key,
    ngx_uint_t forget);


/*
 * Zeroed memory of the zone, in place of as many copies as it takes; NULL if
 * there is not so much.  local may be NULL, and need not be attached.
 */

void *ngx_mcds_local_room(ngx_mcds_local_t *local, ngx_slab_pool_t *shpool,
    size_t size);


/* bytes of the zone, a bound for what a worker keeps by itself */

size_t ngx_mcds_local_size(void);


#endif /* _NGX_MCDS_LOCAL_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * Counters that begin with a number which is known elsewhere.  Whoever finds
 * none asks for it, under a lock, so that all hosts ask once; it is stored
 * only if there is still no counter then, and all count on from there.  Of a
 * durable counter what this host knows is stored, if that is more.
 */


#ifndef _NGX_MCDS_SEED_H_INCLUDED_
#define _NGX_MCDS_SEED_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_client.h"
#include "ngx_mcds_counter.h"


typedef struct ngx_mcds_seed_s   ngx_mcds_seed_t;
typedef struct ngx_mcds_grown_s  ngx_mcds_grown_t;


/*
 * Asks for the number; data is that of one who waits and was not canceled.
 * It is answered once by ngx_mcds_seed_value(), not from inside of this call,
 * unless this is not NGX_OK: the number cannot be asked for (logged).
 */

typedef ngx_int_t (*ngx_mcds_seed_pt)(ngx_mcds_seed_t *seed, void *data);


/*
 * Told of each change once, by itself or in a sum, whether it was counted or
 * not, and not before the number that it is added to was answered: who adds it
 * to what that number is made of would have it twice.  Not told of what a
 * worker has not been answered when it is killed.
 */

typedef void (*ngx_mcds_settled_pt)(void *data, ngx_str_t *key, int64_t delta);


typedef struct {
    ngx_mcds_seed_pt     fetch;
    ngx_mcds_settled_pt  settled;      /* or NULL */
    void                *data;         /* of settled, not of a request */
    ngx_msec_t           timeout;
    ngx_uint_t           skip;         /* without the number nobody counts,
                                          instead of from what is known or
                                          initial on */
} ngx_mcds_source_t;


/*
 * As ngx_mcds_counter_change(), with delta not 0; where there is no counter
 * it waits for the number of source.
 *
 * Who has waited for so long as source says is told NGX_MCDS_TIMEOUT, and
 * counts all the same when the number comes.  NGX_MCDS_NOT_FOUND: there is no
 * number, and it was not counted.
 */

ngx_mcds_grown_t *ngx_mcds_seed_change(ngx_mcds_counter_t *counter,
    int64_t delta, ngx_mcds_source_t *source, ngx_mcds_count_pt handler,
    void *data);


/* counts all the same; not after the handler was called */

void ngx_mcds_seed_cancel(ngx_mcds_grown_t *grown);


/* 1 if there was no counter, so that it waits, or has waited, for source */

ngx_uint_t ngx_mcds_seed_sought(ngx_mcds_grown_t *grown);


/* rc NGX_OK: here is the number; otherwise there is none (logged) */

void ngx_mcds_seed_value(ngx_mcds_seed_t *seed, ngx_int_t rc, uint64_t value);


#endif /* _NGX_MCDS_SEED_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * A counter that memcached has lost is made again by one host, from what that
 * one knows.  A host that knows more raises it, once, by the difference.
 *
 * What tells such a counter from one that somebody has set lower, which stays
 * as it is, is its time to live.  mcds gives a durable counter one that ends
 * years from now, and of which the last digits say when it was made; whoever
 * sets a number gives it none.
 */


#ifndef _NGX_MCDS_RAISE_H_INCLUDED_
#define _NGX_MCDS_RAISE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_client.h"
#include "ngx_mcds_counter.h"


/*
 * The ends of marked counters: a point of time that memcached's clock of 31
 * bits can have, and the seconds from 1970 on, less their higher bits, behind
 * it.  They are given until two months before the first of them, that is
 * October 2036; counters that are made later have no mark.
 */

#define NGX_MCDS_MARK_FIRST       ((int64_t) 0x7fffffff - 0x2000000)
#define NGX_MCDS_MARK_SPAN        ((int64_t) 0x1000000)
#define NGX_MCDS_MARK_SPARE       ((int64_t) 60 * 86400)

/* seconds that the clocks of hosts may differ; a counter that is not older by
   more than this than what is known of it may be another one */
#define NGX_MCDS_MARK_SKEW        300


/*
 * Pure.  mark: the time to live, as memcached takes it, of one that is made
 * now; 0 when there are no marks any more.  marked: the age of a counter, in
 * seconds, which has ttl seconds left, or -1 if it has no mark.
 */

uint32_t ngx_mcds_raise_mark(time_t now);
int64_t ngx_mcds_raise_marked(int64_t ttl, time_t now);


/* what a counter that is made now is given: its own ttl, a mark, or none */

uint32_t ngx_mcds_raise_ttl(ngx_mcds_counter_t *counter);


/*
 * To a memcached whose clock is years ahead, counters with a mark would be past
 * their end at once.  doubt: 1 if none was seen in a pool for a minute; then
 * the time to live of the next one is to be asked for, and told to check().
 */

ngx_uint_t ngx_mcds_raise_doubt(ngx_mcds_pool_t *pool);
void ngx_mcds_raise_check(ngx_mcds_pool_t *pool, int64_t ttl);


/*
 * rc NGX_OK: the counter has the number, with what this one has counted, and
 * all that was known before; NGX_DECLINED: it was set lower, or lowered, and
 * has that number; NGX_ERROR: not known, or there was no time.
 */

typedef void (*ngx_mcds_raise_pt)(void *data, ngx_int_t rc, uint64_t value);


/* one who has counted, and found less than this host has known before */

typedef struct {
    ngx_queue_t          queue;
    uint64_t             known;        /* when the command was sent */
    uint64_t             sum;          /* counted by it; 0: has read */
    ngx_msec_t           sent;         /* it waits no longer than the pool's
                                          timeout from then on */
    ngx_mcds_raise_pt    handler;
    void                *data;
} ngx_mcds_wish_t;


/*
 * Raises the counter to what is known and what was counted by those who wish
 * it in this worker, together; never higher, so that nothing is counted twice:
 * what others have counted on the new one meanwhile is in it then.  It is
 * changed only as it was seen (by its CAS), so of several hosts each adds what
 * is missing still.  On replicas each one is raised.
 *
 * age: milliseconds since known was heard of.  NGX_OK: the handler will be
 * called once, not from inside of this call, and the wish must live until
 * then.  NGX_DECLINED: the pool cannot tell marks, NGX_ERROR: there is no
 * memory or no time; then it will not.
 */

ngx_int_t ngx_mcds_raise(ngx_mcds_counter_t *counter, uint64_t id,
    ngx_msec_t age, ngx_mcds_wish_t *wish);


#endif /* _NGX_MCDS_RAISE_H_INCLUDED_ */

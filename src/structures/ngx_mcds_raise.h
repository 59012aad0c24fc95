
/*
 * Copyright (C) mcds authors
 *
 * Raising counters.  A counter that memcached has lost is created again by one
 * host, from the number that this host knows.  A host that knows a larger
 * number raises the counter once, by the difference.
 *
 * A counter that was set to a lower number by other means must not be raised.
 * The time to live tells such a counter from one that was lost: mcds gives a
 * durable counter an expiry years ahead, which contains the time of the
 * counter's creation; other programs that set a number give it no expiry.
 */


#ifndef _NGX_MCDS_RAISE_H_INCLUDED_
#define _NGX_MCDS_RAISE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_client.h"
#include "ngx_mcds_counter.h"


/*
 * A mark, by which mcds knows counters that it has created, is an expiry in
 * years: a fixed time within the range of memcached's clock of 31 bits, plus
 * the lower bits of the time of creation in seconds.  Marks are given until
 * October 2036, two months before that fixed time; later counters have no mark.
 */

#define NGX_MCDS_MARK_FIRST       ((int64_t) 0x7fffffff - 0x2000000)
#define NGX_MCDS_MARK_SPAN        ((int64_t) 0x1000000)
#define NGX_MCDS_MARK_SPARE       ((int64_t) 60 * 86400)

/*
 * The maximum difference between the clocks of hosts, in seconds.  A counter
 * that was created after this host learned its number, or up to this time
 * before, may have been lost and created again.
 */
#define NGX_MCDS_MARK_SKEW        300


/*
 * Returns the mark that mcds gives to a counter created now: an expiry years
 * ahead, in seconds since the epoch, which memcached accepts as a time to live.
 * Returns 0 if no marks are given any more.
 */

uint32_t ngx_mcds_raise_mark(time_t now);


/*
 * Returns the age, in seconds, of a counter with ttl seconds left, from the
 * time of creation in its expiry (its mark); -1 if the expiry is no mark.
 */

int64_t ngx_mcds_raise_marked(int64_t ttl, time_t now);


/*
 * Returns the time to live for a counter that is created now: its own ttl; or,
 * if that is 0 and the counter is durable, a mark (an expiry in years), unless
 * counters of the pool get no marks; otherwise 0, for no expiry.
 */

uint32_t ngx_mcds_raise_ttl(ngx_mcds_counter_t *counter);


/*
 * Returns 1 if no counter with a mark, an expiry in years, was seen in the pool
 * for a minute.  Then the caller asks for the time to live of the next counter,
 * and passes it to ngx_mcds_raise_check(): a memcached whose clock is years
 * ahead would expire such a counter at once.
 */

ngx_uint_t ngx_mcds_raise_doubt(ngx_mcds_pool_t *pool);


/*
 * Notes whether the time to live of a counter is a mark, an expiry in years,
 * given by mcds.  After a ttl above INT32_MAX, by which memcached reports a
 * negative one, counters of this pool get no marks any more.
 */

void ngx_mcds_raise_check(ngx_mcds_pool_t *pool, int64_t ttl);


/*
 * The handler of a change or a read that waits until its counter is raised.
 * NGX_OK: value is the number of the counter, which contains the change and is
 * not below the number that this host knew when the change or read was sent.
 * NGX_DECLINED: the counter was set to, or lowered to, this value.
 * NGX_ERROR: the number is unknown, or there was no time to raise the counter.
 */

typedef void (*ngx_mcds_raise_pt)(void *data, ngx_int_t rc, uint64_t value);


/*
 * one reason to raise a counter in memcached: this worker has changed or read
 * the counter, and memcached had a smaller number than this host knew
 */

typedef struct {
    ngx_queue_t          queue;
    uint64_t             known;        /* number of the counter that this host
                                          knew when the counter's change or read
                                          was sent */
    uint64_t             sum;          /* sum by which the request changes the
                                          counter; 0: a read */
    ngx_msec_t           sent;         /* when the counter's change or read was
                                          sent; it waits for the raise for the
                                          rest of the pool's timeout */
    ngx_mcds_raise_pt    handler;
    void                *data;
} ngx_mcds_wish_t;


/*
 * Raises a counter to the number that this host knows, plus the sum of all
 * changes that wait for the counter in this worker.  The counter is not raised
 * above that total, so no change is counted twice: the changes that other
 * workers have made since the counter was created again become a part of the
 * total.  Each increment names the counter's CAS value, so that each host adds
 * only the part that is still missing.  On replicas the counter is raised on
 * each server.
 *
 * id is the counter's hash, by which this host's shared memory finds the known
 * number; age is the time since this number was received, in milliseconds.
 * NGX_OK: the handler is called once, not from inside of this call, and the
 * wish must live until then.  NGX_DECLINED: counters of this pool get no marks
 * (expiries in years); NGX_ERROR: out of memory, a limit is reached, or no time
 * is left; then no handler is called.
 */

ngx_int_t ngx_mcds_raise(ngx_mcds_counter_t *counter, uint64_t id,
    ngx_msec_t age, ngx_mcds_wish_t *wish);


#endif /* _NGX_MCDS_RAISE_H_INCLUDED_ */

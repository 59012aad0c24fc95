
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
 * A mark is the expiry, years ahead, by which mcds recognizes a counter that it
 * has created: a fixed time within the range of memcached's clock of 31 bits,
 * plus the lower bits of the time of creation in seconds.  Counters get marks
 * until October 2036, two months before that fixed time, and none later.
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
 * Returns the expiry, years ahead, for a counter that mcds creates now: a time
 * in seconds since the epoch, which memcached accepts as a time to live.  By
 * this expiry (a mark), mcds later recognizes the counter, and when it was
 * created.  Returns 0 from October 2036 on: counters get no such expiry then.
 */

uint32_t ngx_mcds_raise_mark(time_t now);


/*
 * Returns the age, in seconds, of a counter that expires in ttl seconds, if the
 * expiry is a mark: mcds has set it, years ahead, and it contains the time of
 * creation.  Otherwise returns -1.
 */

int64_t ngx_mcds_raise_marked(int64_t ttl, time_t now);


/*
 * Returns the time to live for a counter that is created now: its own ttl; or,
 * if that is 0 and the counter is durable, the expiry years ahead of
 * ngx_mcds_raise_mark(), unless counters of the pool get no such expiry;
 * otherwise 0, for no expiry.
 */

uint32_t ngx_mcds_raise_ttl(ngx_mcds_counter_t *counter);


/*
 * A memcached server whose clock is years ahead would at once expire a counter
 * to which mcds gives an expiry years ahead (a mark).  Returns 1 if for a
 * minute no reply of the pool's servers has shown a counter with such an
 * expiry: the caller then asks memcached for the time to live of the next
 * counter, and passes it to ngx_mcds_raise_check().
 */

ngx_uint_t ngx_mcds_raise_doubt(ngx_mcds_pool_t *pool);


/*
 * Checks ttl, a counter's time to live in a reply of memcached.  If it shows
 * the expiry, years ahead, that mcds gives to counters (a mark), notes this for
 * ngx_mcds_raise_doubt().  A ttl above INT32_MAX is a negative one: the clock
 * of a server is years ahead, and counters of this pool get no marks any more.
 */

void ngx_mcds_raise_check(ngx_mcds_pool_t *pool, int64_t ttl);


/*
 * The handler of a change or a read of a counter that waits until memcached has
 * the larger number that this host knows.  NGX_OK: value is the number of the
 * counter, which contains the change and is not below the number that this host
 * knew when the change or read was sent.  NGX_DECLINED: the counter was set to,
 * or lowered to, this value.  NGX_ERROR: the number is unknown, or there was no
 * time to raise the counter.
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
                                          sent; within the pool's timeout from
                                          then, the handler is called */
    ngx_mcds_raise_pt    handler;
    void                *data;
} ngx_mcds_wish_t;


/*
 * Raises a counter, which memcached has lost and has now with a smaller number,
 * to the number that this host knows, plus those changes waiting in this worker
 * that were sent when the host knew this number.  The counter is not raised
 * above that total, so no change is counted twice: the changes that other
 * workers have made since the counter was created again become a part of the
 * total.  Each increment names the counter's CAS value, so that each host adds
 * only the part that is still missing.  On replicas the counter is raised on
 * each server.
 *
 * id is the counter's hash, by which this host's shared memory finds the known
 * number; age is the time since this number was received, in milliseconds.
 * NGX_OK: the handler is called once, not from inside of this call, and the
 * wish must live until then.  NGX_DECLINED: counters of this pool get no expiry
 * years ahead, by which a lost counter is recognized; NGX_ERROR: out of memory,
 * a limit is reached, or no time is left; then no handler is called.
 */

ngx_int_t ngx_mcds_raise(ngx_mcds_counter_t *counter, uint64_t id,
    ngx_msec_t age, ngx_mcds_wish_t *wish);


#endif /* _NGX_MCDS_RAISE_H_INCLUDED_ */

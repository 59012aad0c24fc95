
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
 * Returns the time to live with which a counter is created now: counter->ttl if
 * it is not 0.  Otherwise, a durable counter gets the expiry that
 * ngx_mcds_raise_mark() returns, a time years ahead, unless counters of the
 * pool get no such expiry.  Any other counter gets 0, for no expiry.
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
 * Checks ttl, a counter's time to live in a reply of memcached, in seconds.  If
 * it shows that the server has kept the expiry, years ahead, by which mcds
 * knows its own counters, ngx_mcds_raise_doubt() returns 0 for a minute.
 * memcached reports a negative ttl as one above INT32_MAX: the server's clock
 * is years ahead, and counters of this pool get no such expiry any more.
 */

void ngx_mcds_raise_check(ngx_mcds_pool_t *pool, int64_t ttl);


/*
 * The handler of a counter's change or read, which waits while ngx_mcds_raise()
 * sets the counter to the number that this host knows, larger than the one in
 * memcached.  NGX_OK: value is that of the counter; it contains the
 * change, and is not below the number that this host knew when the change or
 * read was sent.  NGX_DECLINED: the counter was set to, or lowered to, this
 * value.  NGX_ERROR: the number is unknown, or there was no time to set it.
 */

typedef void (*ngx_mcds_raise_pt)(void *data, ngx_int_t rc, uint64_t value);


/*
 * one reason to raise a counter in memcached: this worker has changed or read
 * the counter, and memcached had a smaller number than this host knew
 */

typedef struct {
    ngx_queue_t          queue;
    uint64_t             known;        /* value of the counter that this host
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
 * Raises a counter that memcached has lost, and has now with a smaller number.
 * The new number is the one that this host knows, plus those changes waiting in
 * this worker that were sent when the host knew this number.  The counter is
 * not raised above that total, so no change is counted twice.  Other workers
 * may have changed the counter since it was created again: these changes count
 * towards the total, and are not added on top of it.  Each increment names the
 * counter's CAS value, so that each host adds only the part that is still
 * missing.  On replicas the counter is raised on each server.
 *
 * wish is the change or read of the counter that waits for the larger number.
 * id is the counter's hash, by which this host's shared memory finds the known
 * number; age is the time since this number was received, in milliseconds.
 * NGX_OK: wish->handler is called once, not from inside of this call, and *wish
 * must live until then.  NGX_DECLINED: counters of this pool get no expiry
 * years ahead, by which a lost counter is recognized; NGX_ERROR: out of memory,
 * a limit is reached, or no time is left; then no handler is called.
 */

ngx_int_t ngx_mcds_raise(ngx_mcds_counter_t *counter, uint64_t id,
    ngx_msec_t age, ngx_mcds_wish_t *wish);


#endif /* _NGX_MCDS_RAISE_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * Pools of memcached servers; ngx_mcds_op.h has the operations.  No function
 * blocks, except for the look-up of names while the configuration is read.
 */


#ifndef _NGX_MCDS_CLIENT_H_INCLUDED_
#define _NGX_MCDS_CLIENT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#if (NGX_SSL)
#include <ngx_event_openssl.h>
#endif
#include "ngx_mcds_op.h"
#include "ngx_mcds_stat.h"


/* the maximum number of servers in a pool: libmemcached aborts with more */
#define NGX_MCDS_MAX_SERVERS      100

/*
 * the maximum number of replicas: two bits of a CAS value identify the replica
 */
#define NGX_MCDS_MAX_REPLICAS     4

/* the maximum length of user and password together, in bytes */
#define NGX_MCDS_MAX_AUTH         512

/*
 * values of this size and above use the second connection to the server, the
 * one for large values; bytes
 */
#define NGX_MCDS_BULK             32768


typedef struct ngx_mcds_server_s  ngx_mcds_server_t;
typedef struct ngx_mcds_point_s   ngx_mcds_point_t;


typedef enum {
    NGX_MCDS_MODULA = 0,          /* libmemcached's default distribution,
                                     modulo */
    NGX_MCDS_MODULA_CRC,          /* the distribution of Cache::Memcached and
                                     nginx's "hash" */
    NGX_MCDS_KETAMA,              /* a ring of 160 points a server, MD5,
                                     weighted */
    NGX_MCDS_CONSISTENT,          /* the ring of libmemcached's distribution
                                     "consistent", of 100 points a server */
    NGX_MCDS_NGINX_CONSISTENT     /* the ring of nginx's "hash ...
                                     consistent" */
} ngx_mcds_distribution_e;


struct ngx_mcds_pool_s {
    ngx_str_t             name;
    ngx_str_t             prefix;       /* prepended to all keys of the pool */

    ngx_msec_t            timeout;      /* timeout of an operation in the
                                           pool */
    ngx_msec_t            connect_timeout;
    ngx_uint_t            max_fails;    /* number of consecutive failures that
                                           opens a server's circuit breaker; 0:
                                           the breaker never opens */
    ngx_msec_t            fail_timeout;
    ngx_uint_t            max_pending;  /* maximum of pending operations on a
                                           connection */
    size_t                max_pending_size;
    ngx_msec_t            keepalive;    /* timeout of an idle connection; 0:
                                           none */

    ngx_uint_t            classic;      /* 1: use memcached's classic
                                           protocol */
    ngx_uint_t            no_ttl;       /* 1: items are stored without expiry */

    ngx_str_t             user;         /* user to authenticate as (memcached
                                           -Y); empty: none */
    ngx_str_t             password;

#if (NGX_SSL)
    ngx_ssl_t            *ssl;          /* TLS context for connections to the
                                           servers; NULL: no TLS */
#endif
    ngx_str_t             ssl_name;     /* name to verify in the server's
                                           certificate; C string */
    ngx_str_t             ssl_trusted;  /* file of trusted CA certificates */
    ngx_uint_t            ssl_verify;

    ngx_uint_t            replicas;     /* number of servers with a copy of each
                                           key */
    ngx_uint_t            eject;        /* 1: keys of pages move away from a
                                           server that is down */
    ngx_uint_t            distribution;
    ngx_array_t           servers;      /* the pool's servers, an array of
                                           ngx_mcds_server_t */

    /* fields that are computed for the distribution of keys */
    void                 *memcached;    /* memcached_st, libmemcached's handle,
                                           or NULL */
    void                 *ejecting;     /* memcached_st without the servers that
                                           are down, or NULL */
    ngx_uint_t            weight;       /* sum of the weights of the pool's
                                           servers */
    ngx_mcds_point_t     *points;
    ngx_uint_t            npoints;

    /*
     * the highest value of a server's purge counter that this worker has seen,
     * see ngx_mcds_tag.h
     */
    uint64_t              purges;

    /*
     * mcds creates a durable counter with an expiry years ahead, and tells its
     * counters by this mark from numbers that other programs have set.  Only to
     * its own counters does it give back a number that memcached has lost, see
     * ngx_mcds_raise.h.
     */
    time_t                marked;       /* when this worker last saw a counter
                                           with an expiry that mcds has set
                                           years ahead */
    ngx_uint_t            unmarked;     /* 1: mcds gives counters no expiry
                                           years ahead, since the clock of a
                                           server is itself years ahead */
};


/*
 * Creates a pool with default settings and no server; called, as all functions
 * up to ngx_mcds_pool_init(), while the configuration is read.  Returns NULL if
 * out of memory.
 */

ngx_mcds_pool_t *ngx_mcds_pool_create(ngx_pool_t *pool, ngx_str_t *name);


/*
 * Adds a server to the pool.  address is "host", "host:port", "[v6]:port" or
 * "unix:path"; the default port is 11211.  A host name is looked up now, unless
 * down is 1: then the server keeps its keys, and operations on them end with
 * DOWN.  Returns NULL, or an error text in memory of cf->pool.
 */

char *ngx_mcds_pool_add(ngx_conf_t *cf, ngx_mcds_pool_t *pool,
    ngx_str_t *address, ngx_uint_t weight, ngx_uint_t down);


/*
 * Adds the servers and options of a configuration string of libmemcached to the
 * pool.  Words of the string may be separated by any blanks and line ends.
 * Options that are unsafe or have no meaning here are rejected first.  Returns
 * NULL, or an error text in memory of cf->pool.
 */

char *ngx_mcds_pool_config(ngx_conf_t *cf, ngx_mcds_pool_t *pool,
    ngx_str_t *string);


/*
 * Checks that the settings of a pool fit its servers, and prepares the
 * distribution of keys over them; called once, when the pool has all its
 * servers.  Returns NULL, or an error text in memory of cf->pool.
 */

char *ngx_mcds_pool_init(ngx_conf_t *cf, ngx_mcds_pool_t *pool);


/*
 * Makes the connections of the pool use TLS.  Returns NULL, or an error text.
 */

char *ngx_mcds_ssl_init(ngx_conf_t *cf, ngx_mcds_pool_t *pool);


/*
 * Checks the pool's settings of TLS, and loads the trusted CA certificates;
 * called when all settings of the pool are known.  Returns NULL, or an error
 * text.
 */

char *ngx_mcds_ssl_check(ngx_conf_t *cf, ngx_mcds_pool_t *pool);


/*
 * Makes workers look up the names of the pool's servers periodically.  Called
 * when the whole configuration has been read; the resolver must outlive the
 * pool.  Returns NGX_ERROR if out of memory.
 */

ngx_int_t ngx_mcds_resolve_init(ngx_conf_t *cf, ngx_mcds_pool_t *pool,
    ngx_resolver_t *resolver, ngx_msec_t timeout);


/*
 * Starts the look-ups of the names of the pool's servers; called in each
 * worker.
 */

void ngx_mcds_resolve_start(ngx_mcds_pool_t *pool);


/*
 * Closes all connections that this worker has to servers of the pool, without
 * calling a handler.
 */
void ngx_mcds_pool_exit(ngx_mcds_pool_t *pool);


/*
 * Returns how many operations with a value of len bytes, 0: without a value, a
 * caller should have pending at one time: half as many as max_pending allows on
 * a connection, but at least 1.  The other half is left to others.
 */

ngx_uint_t ngx_mcds_pool_batch(ngx_mcds_pool_t *pool, size_t len);


/*
 * Appends the statistics of each server of the pool, an ngx_mcds_stat_t *, to
 * the array.  Returns NGX_ERROR if out of memory.
 */

ngx_int_t ngx_mcds_pool_stats(ngx_mcds_pool_t *pool, ngx_array_t *stats);


/*
 * Starts the timer that flushes all statistics of this worker (of servers,
 * caches, counters etc.) to shared memory within 50 ms after a change.  Called
 * in each worker.
 */

void ngx_mcds_pool_stats_start(void);


/*
 * Requests "stats" from each server whose statistics are in the array; the
 * replies update the memory usage in shared memory.  Skips a server that is
 * down, that does not support "stats", that some worker has asked within this
 * second, or whose pool uses the classic protocol: a proxy may take the command
 * for an error and close the connection.
 */

void ngx_mcds_pool_usage(ngx_array_t *stats);


#endif /* _NGX_MCDS_CLIENT_H_INCLUDED_ */

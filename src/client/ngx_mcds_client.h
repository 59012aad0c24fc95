
/*
 * Copyright (C) mcds authors
 *
 * Pools of memcached servers; operations on them are in ngx_mcds_op.h.  Nothing
 * here blocks, but for the look-up of names while the configuration is read.
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


/* memcached has a ring of at most so many servers, libmemcached aborts */
#define NGX_MCDS_MAX_SERVERS      100

/* a key lies on at most so many of them: two bits of a CAS name one */
#define NGX_MCDS_MAX_REPLICAS     4

/* user and password together; bytes */
#define NGX_MCDS_MAX_AUTH         512

/* values of this size and above go over the bulk connection; bytes */
#define NGX_MCDS_BULK             32768


typedef struct ngx_mcds_server_s  ngx_mcds_server_t;
typedef struct ngx_mcds_point_s   ngx_mcds_point_t;


typedef enum {
    NGX_MCDS_MODULA = 0,          /* libmemcached's default */
    NGX_MCDS_MODULA_CRC,          /* Cache::Memcached, nginx's "hash" */
    NGX_MCDS_KETAMA,              /* 160 points, MD5, weighted */
    NGX_MCDS_CONSISTENT,          /* libmemcached's other ring, 100 points */
    NGX_MCDS_NGINX_CONSISTENT     /* nginx's "hash ... consistent" */
} ngx_mcds_distribution_e;


struct ngx_mcds_pool_s {
    ngx_str_t             name;
    ngx_str_t             prefix;       /* in front of every key */

    ngx_msec_t            timeout;      /* of an operation */
    ngx_msec_t            connect_timeout;
    ngx_uint_t            max_fails;    /* 0: the breaker never opens */
    ngx_msec_t            fail_timeout;
    ngx_uint_t            max_pending;  /* operations of one connection */
    size_t                max_pending_size;
    ngx_msec_t            keepalive;    /* of an idle connection, 0: ever */

    ngx_uint_t            classic;      /* not the meta commands */
    ngx_uint_t            no_ttl;       /* items never end by themselves */

    ngx_str_t             user;         /* memcached -Y, empty: none */
    ngx_str_t             password;

#if (NGX_SSL)
    ngx_ssl_t            *ssl;          /* memcached -Z, or NULL */
#endif
    ngx_str_t             ssl_name;     /* in the certificate; C string */
    ngx_str_t             ssl_trusted;  /* file of certificates */
    ngx_uint_t            ssl_verify;

    ngx_uint_t            replicas;     /* servers that have a key, 1 */
    ngx_uint_t            eject;        /* pages move off a server that is
                                           down */
    ngx_uint_t            distribution;
    ngx_array_t           servers;      /* ngx_mcds_server_t */

    /* of the choice of a server */
    void                 *memcached;    /* memcached_st, or NULL */
    void                 *ejecting;     /* the same, without those down */
    ngx_uint_t            weight;       /* of all servers */
    ngx_mcds_point_t     *points;
    ngx_uint_t            npoints;

    uint64_t              purges;       /* of this worker, see ngx_mcds_tag.h */

    /* of this worker, see ngx_mcds_raise.h */
    time_t                marked;       /* a mark was seen, then */
    ngx_uint_t            unmarked;     /* marks are not kept */
};


/*
 * While the configuration is read.  Create: a pool with the default settings
 * and no server; NULL when out of memory.
 *
 * add: address is "host", "host:port", "[v6]:port" or "unix:path"; port
 * 11211 if there is none.  Host names are looked up now.  A server that is
 * down keeps its keys, operations on them end with DOWN; its name is not
 * looked up.  config: a configuration string of libmemcached, checked first
 * for all that is known to be unsafe or to have no meaning here; any blanks
 * and line ends may stand between its words.  Both return NULL or a text that
 * says what is wrong (in pool memory).
 *
 * init: to be called once, after the last server was added, when distribution
 * is set; returns the same.
 */

ngx_mcds_pool_t *ngx_mcds_pool_create(ngx_pool_t *pool, ngx_str_t *name);
char *ngx_mcds_pool_add(ngx_conf_t *cf, ngx_mcds_pool_t *pool,
    ngx_str_t *address, ngx_uint_t weight, ngx_uint_t down);
char *ngx_mcds_pool_config(ngx_conf_t *cf, ngx_mcds_pool_t *pool,
    ngx_str_t *string);
char *ngx_mcds_pool_init(ngx_conf_t *cf, ngx_mcds_pool_t *pool);


/*
 * TLS.  init: connections of the pool use it; check: to be called when all
 * settings of the pool are known.  Both return NULL or what is wrong.
 */

char *ngx_mcds_ssl_init(ngx_conf_t *cf, ngx_mcds_pool_t *pool);
char *ngx_mcds_ssl_check(ngx_conf_t *cf, ngx_mcds_pool_t *pool);


/*
 * Names that are looked up again while running.  init: to be called when the
 * whole configuration has been read, with a resolver that outlives the pool;
 * NGX_ERROR: out of memory.  start: to be called in each worker.
 */

ngx_int_t ngx_mcds_resolve_init(ngx_conf_t *cf, ngx_mcds_pool_t *pool,
    ngx_resolver_t *resolver, ngx_msec_t timeout);
void ngx_mcds_resolve_start(ngx_mcds_pool_t *pool);


/* closes what this worker has open, without calling a handler */
void ngx_mcds_pool_exit(ngx_mcds_pool_t *pool);


/*
 * Statistics.  stats: appends the ngx_mcds_stat_t * of each server; NGX_ERROR
 * when out of memory.  stats_start: in a worker, from now on what it counts,
 * of anything, is added to what is shared within 50 ms.
 *
 * usage: asks each of these servers for its memory and evictions, unless one
 * worker has done so in this second, the server is down, or its pool speaks the
 * classic protocol: a proxy there may take the command for an error and close.
 * The answers go to what is shared, when they come.
 */

ngx_int_t ngx_mcds_pool_stats(ngx_mcds_pool_t *pool, ngx_array_t *stats);
void ngx_mcds_pool_stats_start(void);
void ngx_mcds_pool_usage(ngx_array_t *stats);


#endif /* _NGX_MCDS_CLIENT_H_INCLUDED_ */

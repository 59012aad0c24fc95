
/*
 * Copyright (C) mcds authors
 *
 * Pools of memcached servers and operations on them.  Nothing here blocks,
 * but for the look-up of names while the configuration is read.
 */


#ifndef _NGX_MCDS_CLIENT_H_INCLUDED_
#define _NGX_MCDS_CLIENT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#if (NGX_SSL)
#include <ngx_event_openssl.h>
#endif
#include "ngx_mcds.h"
#include "ngx_mcds_key.h"
#include "ngx_mcds_proto.h"
#include "ngx_mcds_stat.h"


/* memcached has a ring of at most so many servers, libmemcached aborts */
#define NGX_MCDS_MAX_SERVERS      100

/* a key lies on at most so many of them: two bits of a CAS name one */
#define NGX_MCDS_MAX_REPLICAS     4

/* user and password together; bytes */
#define NGX_MCDS_MAX_AUTH         512

/* values of this size and above go over the bulk connection; bytes */
#define NGX_MCDS_BULK             32768


typedef struct ngx_mcds_pool_s    ngx_mcds_pool_t;
typedef struct ngx_mcds_server_s  ngx_mcds_server_t;
typedef struct ngx_mcds_op_s      ngx_mcds_op_t;
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
 * An operation to be.  The strings are copied, they need not outlive the
 * call.
 */

typedef struct ngx_mcds_result_s  ngx_mcds_result_t;

typedef struct {
    ngx_uint_t            verb;         /* ngx_mcds_verb_e */
    ngx_uint_t            want;
    ngx_str_t             key;          /* any text, without the prefix */
    ngx_str_t             suffix;       /* what follows it, or empty */
    ngx_uint_t            place;        /* of ngx_mcds_place(): the server of
                                           a page, whatever the key; or 0 */
    uint32_t              ttl;          /* seconds; above NGX_MCDS_MAX_TTL a
                                           time since the epoch, so far away
                                           that it counts as none */
    uint32_t              flags;        /* SET, ADD: the client flags */
    uint64_t              cas;          /* of a result, as it was given */
    uint64_t              initial;
    uint64_t              delta;
    uint64_t              known;        /* INCR on replicas: what all of them
                                           had, at least, or 0 */

    /* SET, ADD, APPEND: text is copied, up to 2048 bytes; or value, with
       two bytes to spare behind len, of which a reference is taken */
    ngx_str_t             text;
    ngx_mcds_value_t     *value;

    /* SET, DELETE with a CAS: what the item holds, if it is known, up to 2048
       bytes; where a CAS alone does not tell an item from its successor the
       item must hold this, and several commands are sent, within so many
       milliseconds if that is less than the pool's timeout and not 0 */
    ngx_str_t             old;
    ngx_msec_t            within;

    size_t                limit;        /* GET: the largest value to accept, a
                                           larger one is TOO_LARGE */

    /* GET: of replicas not the first that has the key counts, but the newest
       one of all that are up; where the client flags are the same the values
       are.  1 if b is newer than a, both of this key and with their values.
       NULL: the first.  FLAGS and CAS must be wanted, too. */
    ngx_uint_t          (*newer)(ngx_str_t *key, ngx_mcds_result_t *a,
                              ngx_mcds_result_t *b);

    unsigned              update:1;     /* INCR, DECR: NOT_FOUND where there
                                           is none, instead of making it */
    unsigned              by_key:1;     /* the server is chosen by key alone,
                                           without suffix */
    unsigned              bulk:1;       /* a large answer is expected */
    unsigned              number:1;     /* GET: a counter; of replicas the
                                           larger one */
    unsigned              single:1;     /* lives on one server, not on
                                           replicas */
    unsigned              every:1;      /* SET, ADD, INCR: done when every
                                           replica has done it */
    unsigned              page:1;       /* of a page, see ngx_mcds_key.h */
    unsigned              movable:1;    /* a page or its lock: with "eject"
                                           another server may have it while
                                           its own is down */
} ngx_mcds_request_t;


struct ngx_mcds_result_s {
    ngx_uint_t            rc;           /* ngx_mcds_rc_e */
    ngx_uint_t            has;          /* of VALUE, CAS, TTL, FLAGS */
    uint64_t              cas;
    int64_t               ttl;
    uint32_t              flags;

    u_char               *data;         /* the value; lives as long as the */
    size_t                len;          /* handler runs */
    ngx_mcds_value_t     *value;        /* where data lives, or NULL */
};


typedef void (*ngx_mcds_handler_pt)(void *data, ngx_mcds_result_t *result);


/*
 * Starts an operation (with replicas several, see ngx_mcds_replica.h, whose
 * results are made one); NULL when out of memory.  The handler is called
 * exactly once, never from inside of this call, unless the worker exits.  The
 * command leaves at the end of this turn of the event loop, in one write with
 * the others for its server.  An operation is never sent twice, but for a
 * GET whose idle connection the server was just closing.  Who does not want the
 * answer any more has to say so to his own handler.
 *
 * The result's rc is DOWN at once (in a posted event) while the breaker of
 * the server is open, and BUSY when too much is pending; no operation takes
 * longer than the pool's timeout, but for one on replicas that has a leader,
 * see ngx_mcds_replica.h, or several commands.
 */

ngx_mcds_op_t *ngx_mcds_submit(ngx_mcds_pool_t *pool, ngx_mcds_request_t *req,
    ngx_mcds_handler_pt handler, void *data);


/*
 * With pool->eject: 1 if the server that the request belongs to is down by now,
 * and another one would be asked in its place, which does not know what the
 * first one has when it is back.  A server that the configuration keeps down
 * does not come back; while it is down, and another server is out, it is not
 * known which one belongs to its place, and 1 is said for all of its keys.
 */

ngx_uint_t ngx_mcds_ejected(ngx_mcds_pool_t *pool, ngx_mcds_request_t *req);


/*
 * 1 if a server that the request belongs to, with replicas one of them, is down
 * by now; one that the configuration keeps down does not count.
 */

ngx_uint_t ngx_mcds_down(ngx_mcds_pool_t *pool, ngx_mcds_request_t *req);


/* the key of a request, with another suffix than its own or the same */

void ngx_mcds_op_key(ngx_mcds_key_t *key, ngx_mcds_pool_t *pool,
    ngx_mcds_request_t *req, ngx_str_t *suffix);


/*
 * The same on one server alone, of that index in the pool, whatever the key,
 * and whether it was ejected.
 */

ngx_mcds_op_t *ngx_mcds_submit_to(ngx_mcds_pool_t *pool, ngx_uint_t n,
    ngx_mcds_request_t *req, ngx_mcds_handler_pt handler, void *data);


/* the index of the server of a request's key, with replicas the first one */

ngx_uint_t ngx_mcds_first(ngx_mcds_pool_t *pool, ngx_mcds_request_t *req);


/* 1 if the configuration keeps the server of that index down */

ngx_uint_t ngx_mcds_disabled(ngx_mcds_pool_t *pool, ngx_uint_t n);


/* where a page is now: on its server, with replicas the first of them */

ngx_uint_t ngx_mcds_place(ngx_mcds_pool_t *pool, ngx_str_t *page);


/*
 * The value of a result, to keep: a reference of the caller's; NULL when
 * out of memory.  To be called by the handler.
 */

ngx_mcds_value_t *ngx_mcds_result_value(ngx_mcds_result_t *result,
    ngx_log_t *log);


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

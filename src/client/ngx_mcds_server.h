
/*
 * Copyright (C) mcds authors
 *
 * Servers: addresses, health and reported usage.
 */


#ifndef _NGX_MCDS_SERVER_H_INCLUDED_
#define _NGX_MCDS_SERVER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_conn.h"


/*
 * Compares two addresses of a server's name for the order in which they are
 * tried; the result is as with memcmp().  IPv4 comes first: most hosts have
 * addresses of both kinds, but memcached rarely listens on both.
 */

ngx_int_t ngx_mcds_address_order(struct sockaddr *one, socklen_t one_len,
    struct sockaddr *two, socklen_t two_len);


#define NGX_MCDS_FIRST_PROBE      1000


/*
 * Records a failure of the server: a connection could not be made, was lost
 * with pending operations, or timed out.  May open its circuit breaker.
 */

void ngx_mcds_server_failed(ngx_mcds_server_t *server, ngx_uint_t rc);


/* Records a reply of the server; closes its circuit breaker. */

void ngx_mcds_server_answered(ngx_mcds_server_t *server);


/*
 * Returns the level for a log message about the server: the given level, or
 * NGX_LOG_INFO if the server is down, or a message about it was logged since
 * its last reply.
 */

ngx_uint_t ngx_mcds_server_level(ngx_mcds_server_t *server, ngx_uint_t level);


/*
 * Records that the server does not support the protocol, or refuses the user;
 * text is the server's reply, for the log.  Opens its circuit breaker.
 */

void ngx_mcds_server_unsupported(ngx_mcds_server_t *server, ngx_str_t *text);


/*
 * Records that the server has a new address, which may be healthy: if the
 * server is down, the new address is probed soon.
 */

void ngx_mcds_server_moved(ngx_mcds_server_t *server);


/* Schedules the next probe of a server that is down, after its probe_delay. */

void ngx_mcds_server_retry(ngx_mcds_server_t *server);


/*
 * The handler of the timer that probes a server; a pool sets it for its
 * servers.
 */

void ngx_mcds_server_probe_handler(ngx_event_t *ev);


/* Processes one line of the server's reply to "stats". */

void ngx_mcds_usage_line(ngx_mcds_server_t *server, ngx_str_t *name,
    ngx_str_t *value);


/*
 * Returns an error text about the configuration of a pool of servers, formatted
 * in memory of cf->pool; if the memory cannot be allocated, "out of memory".
 */

char *ngx_mcds_pool_error(ngx_conf_t *cf, const char *fmt, ...);


#endif /* _NGX_MCDS_SERVER_H_INCLUDED_ */


/*
 * Copyright (C) mcds authors
 *
 * Servers: addresses, health, and what they say of themselves.
 */


#ifndef _NGX_MCDS_SERVER_H_INCLUDED_
#define _NGX_MCDS_SERVER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_mcds_conn.h"


/*
 * Which of two addresses of a name is taken first: less than 0, 0 or more, as
 * memcmp() says.  IPv4 goes before IPv6, for memcached is rarely told to listen
 * on both, and the names of most machines have both.
 */

ngx_int_t ngx_mcds_address_order(struct sockaddr *one, socklen_t one_len,
    struct sockaddr *two, socklen_t two_len);


#define NGX_MCDS_FIRST_PROBE      1000


/*
 * Health.  failed: a connection could not be made, was lost with operations
 * pending, or timed out.  answered: the server has answered an operation.
 * unsupported: it does not speak our protocol; text says what it is.
 * moved: it has another address, which may be well.  level: that of a message
 * about it, or info when one was written and it has not answered since.
 * retry: a server that is down is probed after its delay.  probe_handler: of
 * the timer of that; a pool sets it for its servers.
 */

void ngx_mcds_server_failed(ngx_mcds_server_t *server, ngx_uint_t rc);
void ngx_mcds_server_answered(ngx_mcds_server_t *server);
ngx_uint_t ngx_mcds_server_level(ngx_mcds_server_t *server, ngx_uint_t level);
void ngx_mcds_server_unsupported(ngx_mcds_server_t *server, ngx_str_t *text);
void ngx_mcds_server_moved(ngx_mcds_server_t *server);
void ngx_mcds_server_retry(ngx_mcds_server_t *server);
void ngx_mcds_server_probe_handler(ngx_event_t *ev);


/* takes one line of the answer to "stats" */

void ngx_mcds_usage_line(ngx_mcds_server_t *server, ngx_str_t *name,
    ngx_str_t *value);


/* a text in pool memory that says what is wrong with the configuration */

char *ngx_mcds_pool_error(ngx_conf_t *cf, const char *fmt, ...);


#endif /* _NGX_MCDS_SERVER_H_INCLUDED_ */

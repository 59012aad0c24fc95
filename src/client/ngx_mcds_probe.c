
/*
 * Copyright (C) mcds authors
 *
 * Probes a server that is down, to find out when it replies again.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_exchange.h"
#include "ngx_mcds_server.h"


static void ngx_mcds_server_probed(void *data, ngx_mcds_result_t *result);


/*
 * Probes a server that is down.  The probe is an ordinary operation on an
 * ordinary connection, so that a server which replies only to the greeting
 * ("version") does not count as up.
 */

void
ngx_mcds_server_probe_handler(ngx_event_t *ev)
{
    ngx_mcds_server_t    *server;
    ngx_mcds_request_t    req;
    ngx_mcds_exchange_t  *ex;

    server = ev->data;

    /*
     * an earlier probe may still be under way: one on a connection to an
     * address that the server had before, or one that was sent when the
     * server's circuit breaker was open the last time
     */

    ngx_mcds_cancel(&server->probe_op);

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.verb = NGX_MCDS_GET;
    req.want = NGX_MCDS_TTL;
    ngx_str_set(&req.key, "mcds:probe");

    server->probe_op.handler = ngx_mcds_server_probed;
    server->probe_op.data = server;

    ex = ngx_mcds_exchange_create(server->pool, &req);

    if (ex) {
        ex->probe = 1;
    }

    ngx_mcds_exchange_start(server, ex, &req, &server->probe_op);
}


static void
ngx_mcds_server_probed(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_server_t *server = data;

    ngx_msec_t  delay;

    if (!server->down) {
        return;
    }

    /*
     * a refused connection costs nothing: the server is probed at the first
     * interval, so that a restarted server is found soon
     */

    delay = (server->lost == NGX_MCDS_CLOSED) ? NGX_MCDS_FIRST_PROBE
                                              : server->probe_delay * 2;

    server->probe_delay = ngx_min(delay, server->pool->fail_timeout);

    ngx_mcds_server_retry(server);
}

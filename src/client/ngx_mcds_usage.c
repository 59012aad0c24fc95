
/*
 * Copyright (C) mcds authors
 *
 * The memory usage of a server: "stats" of memcached, doc/protocol.txt,
 * "General-purpose statistics".
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_conn.h"
#include "ngx_mcds_exchange.h"


static void ngx_mcds_usage_ask(ngx_mcds_server_t *server);
static void ngx_mcds_usage_done(void *data, ngx_mcds_result_t *result);


void
ngx_mcds_pool_usage(ngx_array_t *stats)
{
    ngx_uint_t          i;
    ngx_mcds_stat_t   **stat;
    ngx_mcds_server_t  *server;

    stat = stats->elts;

    for (i = 0; i < stats->nelts; i++) {
        server = stat[i]->data;

        if (!server->down
            && !server->mute
            && !server->pool->classic
            && ngx_mcds_stat_ask(stat[i], ngx_time()))
        {
            ngx_mcds_usage_ask(server);
        }
    }
}


static void
ngx_mcds_usage_ask(ngx_mcds_server_t *server)
{
    ngx_mcds_request_t  req;

    if (ngx_mcds_op_active(&server->usage_op)) {
        return;
    }

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));
    req.verb = NGX_MCDS_STATS;

    server->usage_op.handler = ngx_mcds_usage_done;
    server->usage_op.data = server;

    ngx_mcds_exchange_submit(server, &req, &server->usage_op);
}


static void
ngx_mcds_usage_done(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_server_t *server = data;

    if (result->rc == NGX_MCDS_NOT_FOUND) {

        /* "END": the report of "stats" is complete */

        ngx_mcds_stat_usage(server->stat, NGX_MCDS_USAGE_TIME, ngx_time());
    }
}

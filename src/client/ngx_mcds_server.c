
/*
 * Copyright (C) mcds authors
 *
 * The health of a server: its circuit breaker, and the timer of its probes.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_distribution.h"
#include "ngx_mcds_conn.h"
#include "ngx_mcds_client_stat.h"
#include "ngx_mcds_server.h"


static void ngx_mcds_server_set_down(ngx_mcds_server_t *server,
    ngx_uint_t down);
static void ngx_mcds_server_down(ngx_mcds_server_t *server);


void
ngx_mcds_server_failed(ngx_mcds_server_t *server, ngx_uint_t rc)
{
    ngx_uint_t        level;
    ngx_mcds_pool_t  *pool;

    ngx_mcds_client_stat_lost(server, rc);

    server->lost = rc;
    pool = server->pool;

    if (server->down || pool->max_fails == 0) {
        return;
    }

    if (++server->fails < pool->max_fails) {
        return;
    }

    /* only the first worker of a host logs as an error that a server is down */

    level = ngx_mcds_client_stat_breaker(server, 1) ? NGX_LOG_ERR
                                                    : NGX_LOG_INFO;

    ngx_log_error(level, ngx_cycle->log, server->err,
                  "memcached server \"%V\" of pool \"%V\" is down after %ui "
                  "failures, last: %s%s", &server->name, &pool->name,
                  server->fails, ngx_mcds_strerror(rc),
                  (rc == NGX_MCDS_CLOSED && server->hung_up && !pool->classic)
                      ? " by the server when it was greeted; it may want "
                        "another \"auth_user\"; if it is a proxy it may need "
                        "\"protocol classic\"" : "");

    ngx_mcds_server_down(server);
}


void
ngx_mcds_server_unsupported(ngx_mcds_server_t *server, ngx_str_t *text)
{
    ngx_uint_t  level;

    ngx_mcds_client_stat_sum(server, NGX_MCDS_STAT_LOST_REFUSED, 1);

    server->lost = NGX_MCDS_PROTOCOL;
    level = NGX_LOG_ERR;

    if (!server->down && !ngx_mcds_client_stat_breaker(server, 1)) {
        level = NGX_LOG_INFO;
    }

    if (!server->unsupported
        && text->len > 20
        && ngx_strncmp(text->data, "CLIENT_ERROR unauthe", 20) == 0)
    {
        server->unsupported = 1;

        ngx_log_error(level, ngx_cycle->log, 0,
                      "memcached server \"%V\" of pool \"%V\" %s; it is not "
                      "used", &server->name, &server->pool->name,
                      server->pool->user.len
                          ? "refuses user and password"
                          : "wants \"auth_user\" and "
                            "\"auth_password_file\"");
    }

    if (!server->unsupported) {
        server->unsupported = 1;

        ngx_log_error(level, ngx_cycle->log, 0,
                      "server \"%V\" of pool \"%V\" does not speak %s, it "
                      "said \"%V\"; it is not used%s", &server->name,
                      &server->pool->name,
                      server->pool->classic
                          ? "the classic protocol of memcached"
                          : "the meta commands of memcached 1.6.13 or newer",
                      text,
                      server->pool->classic
                          ? "" : ", unless with \"protocol classic\"");
    }

    if (!server->down) {
        ngx_mcds_server_down(server);
    }
}


static void
ngx_mcds_server_set_down(ngx_mcds_server_t *server, ngx_uint_t down)
{
    ngx_mcds_server_t  *servers;

    server->down = down;

    servers = server->pool->servers.elts;
    ngx_mcds_distribution_eject(server->pool, server - servers, down);
}


void
ngx_mcds_server_answered(ngx_mcds_server_t *server)
{
    ngx_uint_t  level;

    server->fails = 0;
    server->told = 0;

    if (!server->down) {
        return;
    }

    ngx_mcds_server_set_down(server, 0);
    server->unsupported = 0;

    if (server->probe.timer_set) {
        ngx_del_timer(&server->probe);
    }

    level = ngx_mcds_client_stat_breaker(server, 0) ? NGX_LOG_NOTICE
                                                    : NGX_LOG_INFO;

    ngx_log_error(level, ngx_cycle->log, 0,
                  "memcached server \"%V\" of pool \"%V\" is up again",
                  &server->name, &server->pool->name);
}


ngx_uint_t
ngx_mcds_server_level(ngx_mcds_server_t *server, ngx_uint_t level)
{
    if (server->down || server->told) {
        return NGX_LOG_INFO;
    }

    server->told = 1;

    return level;
}


ngx_int_t
ngx_mcds_address_order(struct sockaddr *one, socklen_t one_len,
    struct sockaddr *two, socklen_t two_len)
{
    if (one_len != two_len) {
        return one->sa_family == AF_INET ? -1 : 1;
    }

    /*
     * the two addresses of a server's name have the same port, and their other
     * fields are zero: memcmp() compares the IP addresses
     */

    return ngx_memcmp(one, two, one_len);
}


void
ngx_mcds_server_moved(ngx_mcds_server_t *server)
{
    server->fails = 0;
    server->unsupported = 0;
    server->mute = 0;

    if (server->down) {
        server->probe_delay = ngx_min(NGX_MCDS_FIRST_PROBE,
                                      server->pool->fail_timeout);

        ngx_add_timer(&server->probe, 1);
    }
}


static void
ngx_mcds_server_down(ngx_mcds_server_t *server)
{
    ngx_mcds_server_set_down(server, 1);

    server->probe_delay = ngx_min(NGX_MCDS_FIRST_PROBE,
                                  server->pool->fail_timeout);

    server->probe.data = server;
    server->probe.log = ngx_cycle->log;
    server->probe.cancelable = 1;

    ngx_mcds_server_retry(server);
}


void
ngx_mcds_server_retry(ngx_mcds_server_t *server)
{
    ngx_add_timer(&server->probe, server->probe_delay);

    ngx_mcds_client_stat_retry(server, server->probe_delay);
}


/*
 * Copyright (C) mcds authors
 *
 * Pools of memcached servers: their creation, and their lists of servers.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_distribution.h"
#include "ngx_mcds_classic.h"
#include "ngx_mcds_conn.h"
#include "ngx_mcds_replica.h"
#include "ngx_mcds_resolve.h"
#include "ngx_mcds_client_stat.h"
#include "ngx_mcds_server.h"


#define NGX_MCDS_PORT             11211


static void ngx_mcds_pool_cleanup(void *data);
static char *ngx_mcds_pool_resolve(ngx_conf_t *cf, ngx_mcds_server_t *server);


ngx_mcds_pool_t *
ngx_mcds_pool_create(ngx_pool_t *p, ngx_str_t *name)
{
    ngx_mcds_pool_t     *pool;
    ngx_pool_cleanup_t  *cln;

    pool = ngx_pcalloc(p, sizeof(ngx_mcds_pool_t));
    if (pool == NULL) {
        return NULL;
    }

    /*
     * a handle of libmemcached must be freed even if the configuration is
     * rejected
     */

    cln = ngx_pool_cleanup_add(p, 0);
    if (cln == NULL) {
        return NULL;
    }

    cln->handler = ngx_mcds_pool_cleanup;
    cln->data = pool;

    if (ngx_array_init(&pool->servers, p, 4, sizeof(ngx_mcds_server_t))
        != NGX_OK)
    {
        return NULL;
    }

    pool->name = *name;
    pool->distribution = NGX_CONF_UNSET_UINT;
    pool->timeout = 200;
    pool->connect_timeout = 100;
    pool->max_fails = 3;
    pool->fail_timeout = 10000;
    pool->replicas = 1;
    pool->max_pending = 4096;
    pool->max_pending_size = 64 * 1024 * 1024;

    return pool;
}


char *
ngx_mcds_pool_add(ngx_conf_t *cf, ngx_mcds_pool_t *pool, ngx_str_t *address,
    ngx_uint_t weight, ngx_uint_t down)
{
    char               *err;
    ngx_uint_t          i;
    ngx_mcds_stat_t    *stat;
    ngx_mcds_server_t  *server, *other;

    if (pool->servers.nelts == NGX_MCDS_MAX_SERVERS) {
        return ngx_mcds_pool_error(cf, "more than %d servers",
                                   NGX_MCDS_MAX_SERVERS);
    }

    /*
     * each server in the pool's array has statistics, also while the pool of a
     * refused configuration is destroyed
     */

    stat = ngx_mcds_stat_create(cf->pool, NGX_MCDS_STAT_SERVERS, &pool->name,
                                address);
    if (stat == NULL) {
        return "out of memory";
    }

    stat->disabled = down;

    server = ngx_array_push(&pool->servers);
    if (server == NULL) {
        return "out of memory";
    }

    ngx_memzero(server, sizeof(ngx_mcds_server_t));

    server->pool = pool;
    server->name = *address;
    server->stat = stat;
    server->weight = weight;
    server->retire = ngx_mcds_server_retire;

    /*
     * no operation is ever sent to a server that is down by configuration, so
     * no reply can mark the server as up
     */

    server->down = down;

    err = ngx_mcds_pool_resolve(cf, server);
    if (err) {
        return err;
    }

    /* one server may be named twice, with and without the default port */

    other = pool->servers.elts;

    for (i = 0; &other[i] != server; i++) {

        if (other[i].port == server->port
            && ngx_mcds_same(&other[i].host, &server->host))
        {
            return ngx_mcds_pool_error(cf, "duplicate server \"%V\"", address);
        }
    }

    return NULL;
}


char *
ngx_mcds_pool_init(ngx_conf_t *cf, ngx_mcds_pool_t *pool)
{
    ngx_uint_t          i;
    ngx_mcds_server_t  *server;

    if (pool->servers.nelts == 0) {
        return "no servers";
    }

    ngx_conf_init_uint_value(pool->distribution, NGX_MCDS_MODULA);

    if (pool->replicas > pool->servers.nelts) {
        return ngx_mcds_pool_error(cf, "\"replicas %ui\" needs as many "
                                   "servers", pool->replicas);
    }

    if (pool->eject && pool->distribution != NGX_MCDS_KETAMA) {
        return "\"eject\" needs \"distribution ketama\"";
    }

    if (pool->eject && pool->replicas > 1) {
        return "\"eject\" and \"replicas\" exclude each other";
    }

    server = pool->servers.elts;

    for (i = 0; i < pool->servers.nelts; i++) {
        server[i].probe.handler = ngx_mcds_server_probe_handler;
    }

    return ngx_mcds_distribution_init(cf, pool);
}


ngx_uint_t
ngx_mcds_pool_batch(ngx_mcds_pool_t *pool, size_t len)
{
    size_t  n;

    n = pool->max_pending_size / (NGX_MCDS_MAX_COMMAND + len);
    n = ngx_min(n, pool->max_pending) / 2;

    return ngx_max(n, 1);
}


void
ngx_mcds_pool_exit(ngx_mcds_pool_t *pool)
{
    ngx_uint_t          i;
    ngx_mcds_server_t  *server;

    ngx_mcds_classic_exit(pool);
    ngx_mcds_replica_exit(pool);
    ngx_mcds_replica_level_exit(pool);

    server = pool->servers.elts;

    for (i = 0; i < pool->servers.nelts; i++) {

        if (server[i].control) {
            ngx_mcds_conn_destroy(server[i].control);
            server[i].control = NULL;
        }

        if (server[i].bulk) {
            ngx_mcds_conn_destroy(server[i].bulk);
            server[i].bulk = NULL;
        }

        while (server[i].retired) {
            ngx_mcds_conn_destroy(server[i].retired);
        }

        ngx_mcds_resolve_stop(&server[i]);

        if (server[i].probe.timer_set) {
            ngx_del_timer(&server[i].probe);
        }

        ngx_mcds_client_stat_exit(&server[i]);
    }
}


static void
ngx_mcds_pool_cleanup(void *data)
{
    ngx_mcds_pool_t *pool = data;

    ngx_mcds_pool_exit(pool);
    ngx_mcds_distribution_cleanup(pool);
}


static char *
ngx_mcds_pool_resolve(ngx_conf_t *cf, ngx_mcds_server_t *server)
{
    u_char      *p;
    ngx_url_t    u;
    ngx_uint_t   i;
    ngx_addr_t  *addr;

    ngx_memzero(&u, sizeof(ngx_url_t));

    u.url = server->name;
    u.default_port = NGX_MCDS_PORT;
    u.no_resolve = server->down;

    if (ngx_parse_url(cf->pool, &u) != NGX_OK) {
        return ngx_mcds_pool_error(cf, "%s in server \"%V\"",
                                   u.err ? u.err : "error", &server->name);
    }

    if (u.naddrs) {
        addr = &u.addrs[0];

        for (i = 1; i < u.naddrs; i++) {
            if (ngx_mcds_address_order(u.addrs[i].sockaddr, u.addrs[i].socklen,
                                       addr->sockaddr, addr->socklen)
                < 0)
            {
                addr = &u.addrs[i];
            }
        }

        server->addr = *addr;

    } else if (!server->down) {
        return ngx_mcds_pool_error(cf, "no address for server \"%V\"",
                                   &server->name);
    }

    /* libmemcached hashes the host as it is written, and expects a C string */

    if (u.family == AF_UNIX) {
        server->host.data = server->name.data + 5;
        server->host.len = server->name.len - 5;

    } else {
        server->host = u.host;
        server->port = u.port;

        if (u.host.len > 2 && u.host.data[0] == '[') {
            server->host.data++;
            server->host.len -= 2;
        }
    }

    p = ngx_pnalloc(cf->pool, server->host.len + 1);
    if (p == NULL) {
        return "out of memory";
    }

    (void) ngx_cpystrn(p, server->host.data, server->host.len + 1);
    server->host.data = p;

    return NULL;
}

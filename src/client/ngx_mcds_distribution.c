
/*
 * Copyright (C) mcds authors
 *
 * The distribution of keys over the servers of a pool.  The distributions of
 * libmemcached are computed by libmemcached; those of other clients here:
 *
 * modula_crc         Cache::Memcached and compatible clients, "hash" of nginx;
 *                    without weights also libmemcached with CRC
 *
 * nginx_consistent   "hash ... consistent" of nginx, Cache::Memcached::Fast
 *                    with ketama_points=160
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <libmemcached/memcached.h>
#include "ngx_mcds_distribution.h"
#include "ngx_mcds_conn.h"
#include "ngx_mcds_server.h"


#define NGX_MCDS_POINTS           160
#define NGX_MCDS_MAX_WEIGHTS      10000

static char *ngx_mcds_distribution_init_eject(ngx_conf_t *cf,
    ngx_mcds_pool_t *pool);
static char *ngx_mcds_distribution_init_libmemcached(ngx_conf_t *cf,
    ngx_mcds_pool_t *pool, void **handle);
static memcached_return_t ngx_mcds_distribution_add(memcached_st *mc,
    ngx_mcds_server_t *server);
static char *ngx_mcds_distribution_init_weights(ngx_conf_t *cf,
    ngx_mcds_pool_t *pool);
static char *ngx_mcds_distribution_init_ring(ngx_conf_t *cf,
    ngx_mcds_pool_t *pool);
static uint32_t ngx_mcds_distribution_hash_server(ngx_mcds_server_t *server);
static int ngx_libc_cdecl ngx_mcds_distribution_compare(const void *one,
    const void *two);
static ngx_uint_t ngx_mcds_distribution_get_weighted(ngx_mcds_pool_t *pool,
    uint32_t hash);
static ngx_uint_t ngx_mcds_distribution_get_point(ngx_mcds_pool_t *pool,
    uint32_t hash);


char *
ngx_mcds_distribution_init(ngx_conf_t *cf, ngx_mcds_pool_t *pool)
{
    char  *err;

    switch (pool->distribution) {

    case NGX_MCDS_MODULA_CRC:
        return ngx_mcds_distribution_init_weights(cf, pool);

    case NGX_MCDS_NGINX_CONSISTENT:

        err = ngx_mcds_distribution_init_weights(cf, pool);
        if (err) {
            return err;
        }

        return ngx_mcds_distribution_init_ring(cf, pool);

    case NGX_MCDS_KETAMA:

        err = ngx_mcds_distribution_init_libmemcached(cf, pool,
                                                      &pool->memcached);

        if (err == NULL && pool->eject) {
            err = ngx_mcds_distribution_init_eject(cf, pool);
        }

        return err;

    default:

        /*
         * a configuration string has already created the handle of libmemcached
         */

        if (pool->memcached) {
            return NULL;
        }

        return ngx_mcds_distribution_init_libmemcached(cf, pool,
                                                       &pool->memcached);
    }
}


void
ngx_mcds_distribution_cleanup(ngx_mcds_pool_t *pool)
{
    if (pool->memcached) {
        memcached_free(pool->memcached);
        pool->memcached = NULL;
    }

    if (pool->ejecting) {
        memcached_free(pool->ejecting);
        pool->ejecting = NULL;
    }
}


ngx_uint_t
ngx_mcds_distribution_get(ngx_mcds_pool_t *pool, u_char *key, size_t len,
    ngx_uint_t movable)
{
    uint32_t       hash;
    memcached_st  *mc;

    if (pool->servers.nelts == 1) {
        return 0;
    }

    switch (pool->distribution) {

    case NGX_MCDS_MODULA_CRC:
        hash = (ngx_crc32_long(key, len) >> 16) & 0x7fff;

        return ngx_mcds_distribution_get_weighted(pool, hash);

    case NGX_MCDS_NGINX_CONSISTENT:
        return ngx_mcds_distribution_get_point(pool, ngx_crc32_long(key, len));

    default:
        mc = (movable && pool->ejecting) ? pool->ejecting : pool->memcached;
        hash = memcached_generate_hash(mc, (char *) key, len);

        /* libmemcached's index of a server should never be out of range */

        return hash % pool->servers.nelts;
    }
}


void
ngx_mcds_distribution_eject(ngx_mcds_pool_t *pool, ngx_uint_t n,
    ngx_uint_t down)
{
    uint64_t       sort;
    memcached_st  *mc;

    mc = pool->ejecting;

    if (mc == NULL) {
        return;
    }

    /*
     * libmemcached ejects a server from its ring until the server's retry time,
     * which for a server that is down is set to never; if all servers are
     * ejected, libmemcached does not change the ring
     */

    memcached_instance_next_retry(memcached_server_instance_by_position(mc, n),
                                  down ? NGX_MAX_TIME_T_VALUE : 0);

    /*
     * an option of libmemcached is set to the value it has: this rebuilds the
     * ring without changing anything else
     */

    sort = memcached_behavior_get(mc, MEMCACHED_BEHAVIOR_SORT_HOSTS);

    (void) memcached_behavior_set(mc, MEMCACHED_BEHAVIOR_SORT_HOSTS, sort);
}


static char *
ngx_mcds_distribution_init_eject(ngx_conf_t *cf, ngx_mcds_pool_t *pool)
{
    char                *err;
    ngx_uint_t           i;
    ngx_mcds_server_t   *server;

    err = ngx_mcds_distribution_init_libmemcached(cf, pool, &pool->ejecting);
    if (err) {
        return err;
    }

    if (memcached_behavior_set(pool->ejecting,
                               MEMCACHED_BEHAVIOR_REMOVE_FAILED_SERVERS, 1)
        != MEMCACHED_SUCCESS)
    {
        return "libmemcached does not eject servers";
    }

    server = pool->servers.elts;

    for (i = 0; i < pool->servers.nelts; i++) {
        if (server[i].down) {
            ngx_mcds_distribution_eject(pool, i, 1);
        }
    }

    return NULL;
}


static char *
ngx_mcds_distribution_init_libmemcached(ngx_conf_t *cf, ngx_mcds_pool_t *pool,
    void **handle)
{
    ngx_uint_t           i;
    memcached_st        *mc;
    memcached_return_t   rc;
    ngx_mcds_server_t   *server;

    mc = memcached_create(NULL);
    if (mc == NULL) {
        return "out of memory";
    }

    *handle = mc;

    rc = MEMCACHED_SUCCESS;

    /*
     * libmemcached's distribution must be set before servers are added: later
     * it would drop their weights
     */

    if (pool->distribution == NGX_MCDS_CONSISTENT) {
        rc = memcached_behavior_set_distribution(mc,
                                         MEMCACHED_DISTRIBUTION_CONSISTENT);
    }

    server = pool->servers.elts;

    for (i = 0; i < pool->servers.nelts && rc == MEMCACHED_SUCCESS; i++) {

        rc = ngx_mcds_distribution_add(mc, &server[i]);

        if (rc != MEMCACHED_SUCCESS) {
            return ngx_mcds_pool_error(cf, "libmemcached does not accept "
                                       "server \"%V\": %s", &server[i].name,
                                       memcached_strerror(NULL, rc));
        }
    }

    /*
     * weighted ketama must be set after all servers were added: libmemcached
     * then rebuilds the ring
     */

    if (pool->distribution == NGX_MCDS_KETAMA && rc == MEMCACHED_SUCCESS) {
        rc = memcached_behavior_set(mc, MEMCACHED_BEHAVIOR_KETAMA_WEIGHTED, 1);
    }

    if (rc != MEMCACHED_SUCCESS
        || memcached_server_count(mc) != pool->servers.nelts)
    {
        return "libmemcached does not accept the list of servers";
    }

    return NULL;
}


static memcached_return_t
ngx_mcds_distribution_add(memcached_st *mc, ngx_mcds_server_t *server)
{
    char  *host;

    host = (char *) server->host.data;

    if (server->port == 0) {
        return memcached_server_add_unix_socket_with_weight(mc, host,
                                                            server->weight);
    }

    return memcached_server_add_with_weight(mc, host, server->port,
                                            server->weight);
}


static char *
ngx_mcds_distribution_init_weights(ngx_conf_t *cf, ngx_mcds_pool_t *pool)
{
    ngx_uint_t          i;
    ngx_mcds_server_t  *server;

    server = pool->servers.elts;

    for (i = 0; i < pool->servers.nelts; i++) {
        pool->weight += server[i].weight;
    }

    if (pool->weight > NGX_MCDS_MAX_WEIGHTS) {
        return ngx_mcds_pool_error(cf, "the weights of all servers are more "
                                   "than %d together", NGX_MCDS_MAX_WEIGHTS);
    }

    return NULL;
}


/* Computes the ring of points like ngx_http_upstream_init_chash(). */

static char *
ngx_mcds_distribution_init_ring(ngx_conf_t *cf, ngx_mcds_pool_t *pool)
{
    u_char             *p, prev[4];
    uint32_t            base, hash;
    ngx_uint_t          i, j;
    ngx_mcds_point_t   *point;
    ngx_mcds_server_t  *server;

    point = ngx_palloc(cf->pool, pool->weight * NGX_MCDS_POINTS
                                 * sizeof(ngx_mcds_point_t));
    if (point == NULL) {
        return "out of memory";
    }

    pool->points = point;

    server = pool->servers.elts;

    for (i = 0; i < pool->servers.nelts; i++) {

        base = ngx_mcds_distribution_hash_server(&server[i]);
        hash = 0;

        for (j = 0; j < server[i].weight * NGX_MCDS_POINTS; j++) {

            /* the hash of a point depends on the server's previous point */

            p = prev;
            *p++ = (u_char) hash;
            *p++ = (u_char) (hash >> 8);
            *p++ = (u_char) (hash >> 16);
            *p++ = (u_char) (hash >> 24);

            hash = base;
            ngx_crc32_update(&hash, prev, 4);
            ngx_crc32_final(hash);

            point->hash = hash;
            point->server = i;
            point++;
        }
    }

    pool->npoints = point - pool->points;

    ngx_qsort(pool->points, pool->npoints, sizeof(ngx_mcds_point_t),
              ngx_mcds_distribution_compare);

    return NULL;
}


/*
 * hashes the address of a server as "hash ... consistent" of nginx does: host,
 * a zero byte, port; an IPv6 host is in brackets, and always has a port
 */

static uint32_t
ngx_mcds_distribution_hash_server(ngx_mcds_server_t *server)
{
    u_char      *p, port[NGX_INT_T_LEN];
    uint32_t     hash;
    ngx_str_t   *host;
    ngx_uint_t   v6;

    host = &server->host;
    v6 = server->port && ngx_strlchr(host->data, host->data + host->len, ':');

    ngx_crc32_init(hash);

    if (v6) {
        ngx_crc32_update(&hash, (u_char *) "[", 1);
    }

    ngx_crc32_update(&hash, host->data, host->len);

    if (v6) {
        ngx_crc32_update(&hash, (u_char *) "]", 1);
    }

    ngx_crc32_update(&hash, (u_char *) "", 1);

    if (server->port) {
        p = ngx_sprintf(port, "%ui", (ngx_uint_t) server->port);
        ngx_crc32_update(&hash, port, p - port);
    }

    return hash;
}


/*
 * compares two points of the ring; of two servers with the same point, the one
 * that comes first in the pool gets it
 */

static int ngx_libc_cdecl
ngx_mcds_distribution_compare(const void *one, const void *two)
{
    const ngx_mcds_point_t  *first = one, *second = two;

    if (first->hash != second->hash) {
        return first->hash < second->hash ? -1 : 1;
    }

    return (int) first->server - (int) second->server;
}


static ngx_uint_t
ngx_mcds_distribution_get_weighted(ngx_mcds_pool_t *pool, uint32_t hash)
{
    ngx_uint_t          i, n;
    ngx_mcds_server_t  *server;

    server = pool->servers.elts;
    n = hash % pool->weight;

    for (i = 0; n >= server[i].weight; i++) {
        n -= server[i].weight;
    }

    return i;
}


/*
 * returns the index of the server that has the first point at or after hash on
 * the ring
 */

static ngx_uint_t
ngx_mcds_distribution_get_point(ngx_mcds_pool_t *pool, uint32_t hash)
{
    ngx_uint_t         left, right, middle;
    ngx_mcds_point_t  *point;

    point = pool->points;
    left = 0;
    right = pool->npoints;

    while (left < right) {
        middle = (left + right) / 2;

        if (point[middle].hash < hash) {
            left = middle + 1;

        } else {
            right = middle;
        }
    }

    return point[left % pool->npoints].server;
}


/*
 * Copyright (C) mcds authors
 *
 * Submits a request to the server of its key, or to the servers of replicas.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_distribution.h"
#include "ngx_mcds_conn.h"
#include "ngx_mcds_exchange.h"
#include "ngx_mcds_replica.h"


static ngx_uint_t ngx_mcds_op_choose(ngx_mcds_pool_t *pool,
    ngx_mcds_request_t *req, ngx_mcds_key_t *key);


void
ngx_mcds_submit(ngx_mcds_pool_t *pool, ngx_mcds_request_t *req,
    ngx_mcds_op_t *op)
{
    ngx_uint_t            n;
    ngx_mcds_server_t    *server;
    ngx_mcds_exchange_t  *ex;

    server = pool->servers.elts;

    if (pool->replicas > 1) {
        ngx_mcds_replica_submit(pool, ngx_mcds_first(pool, req), req, op);
        return;
    }

    if (pool->classic) {
        ngx_mcds_server_submit(&server[ngx_mcds_first(pool, req)], req, op);
        return;
    }

    /*
     * the key with the pool's prefix is built once, for the choice of the
     * server and for the command
     */

    ex = ngx_mcds_exchange_create(pool, req);
    n = ex ? ngx_mcds_op_choose(pool, req, &ex->key) : 0;

    ngx_mcds_exchange_start(&server[n], ex, req, op);
}


void
ngx_mcds_submit_to(ngx_mcds_pool_t *pool, ngx_uint_t n,
    ngx_mcds_request_t *req, ngx_mcds_op_t *op)
{
    ngx_mcds_server_t  *server;

    server = pool->servers.elts;

    ngx_mcds_server_submit(&server[n], req, op);
}


ngx_uint_t
ngx_mcds_first(ngx_mcds_pool_t *pool, ngx_mcds_request_t *req)
{
    ngx_mcds_key_t  key;

    ngx_mcds_op_key(&key, pool, req, &req->suffix);

    return ngx_mcds_op_choose(pool, req, &key);
}


ngx_uint_t
ngx_mcds_disabled(ngx_mcds_pool_t *pool, ngx_uint_t n)
{
    ngx_mcds_server_t  *server;

    server = pool->servers.elts;

    return server[n].stat->disabled;
}


ngx_uint_t
ngx_mcds_place(ngx_mcds_pool_t *pool, ngx_str_t *page)
{
    ngx_mcds_request_t  req;

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.key = *page;
    req.page = 1;
    req.movable = 1;

    return ngx_mcds_first(pool, &req) + 1;
}


static ngx_uint_t
ngx_mcds_op_choose(ngx_mcds_pool_t *pool, ngx_mcds_request_t *req,
    ngx_mcds_key_t *key)
{
    ngx_str_t       none;
    ngx_mcds_key_t  base;

    if (pool->servers.nelts == 1) {
        return 0;
    }

    if (req->place) {
        return req->place - 1;
    }

    if (req->by_key && req->suffix.len) {
        ngx_str_null(&none);
        ngx_mcds_op_key(&base, pool, req, &none);
        key = &base;
    }

    return ngx_mcds_distribution_get(pool, key->data + key->prefix,
                                     key->len - key->prefix, req->movable);
}


ngx_uint_t
ngx_mcds_ejected(ngx_mcds_pool_t *pool, ngx_mcds_request_t *req)
{
    ngx_uint_t          i, n;
    ngx_mcds_key_t      key;
    ngx_mcds_server_t  *server;

    if (!pool->eject || !req->movable) {
        return 0;
    }

    server = pool->servers.elts;

    for (i = 0; i < pool->servers.nelts; i++) {
        if (server[i].down && !server[i].stat->disabled) {
            break;
        }
    }

    if (i == pool->servers.nelts) {
        return 0;
    }

    ngx_mcds_op_key(&key, pool, req, &req->suffix);

    n = ngx_mcds_distribution_get(pool, key.data + key.prefix,
                                  key.len - key.prefix, 0);

    /*
     * Returns 1 if the operation goes to another server than the key's own.  If
     * the configuration marks the key's own server as "down", always returns 1:
     * another server stores the key, and may be one of those ejected now.
     */

    return server[n].stat->disabled
           || n != ngx_mcds_op_choose(pool, req, &key);
}


ngx_uint_t
ngx_mcds_down(ngx_mcds_pool_t *pool, ngx_mcds_request_t *req)
{
    ngx_uint_t          i, n;
    ngx_mcds_key_t      key;
    ngx_mcds_server_t  *server;

    n = 0;

    if (req->place) {
        n = req->place - 1;

    } else if (pool->servers.nelts > 1) {
        ngx_mcds_op_key(&key, pool, req, &req->suffix);

        n = ngx_mcds_distribution_get(pool, key.data + key.prefix,
                                      key.len - key.prefix, 0);
    }

    for (i = 0; i < ngx_max(pool->replicas, 1); i++) {
        server = pool->servers.elts;
        server += (n + i) % pool->servers.nelts;

        if (server->down && !server->stat->disabled) {
            return 1;
        }
    }

    return 0;
}


/*
 * Copyright (C) mcds authors
 *
 * Names of servers that are looked up at run time, with nginx's resolver.
 *
 * Each worker looks a name up when it starts, and again when the result has
 * expired.  The server keeps its address as long as the name resolves to this
 * address; otherwise the server moves to the name's first address.  The
 * addresses are sorted, so that all workers of all hosts move to the same one.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_resolve.h"
#include "ngx_mcds_server.h"


/*
 * the longest time between two look-ups of a server's name, the longest after a
 * failed look-up, and the longest random addition to either; milliseconds
 */
#define NGX_MCDS_RESOLVE_MAX      86400000
#define NGX_MCDS_RESOLVE_RETRY    10000
#define NGX_MCDS_RESOLVE_JITTER   5000


typedef struct {
    ngx_sockaddr_t           sockaddr;
    socklen_t                socklen;
} ngx_mcds_address_t;


struct ngx_mcds_resolve_s {
    ngx_mcds_server_t       *server;
    ngx_resolver_t          *resolver;
    ngx_msec_t               timeout;

    /* the name to look up: a copy, as the resolver lower-cases it */
    ngx_str_t                name;

    /* fields of this worker about the look-ups of the server's name */
    ngx_event_t              timer;
    ngx_resolver_ctx_t      *ctx;        /* pending query of the resolver for
                                            the name, or NULL */

    ngx_mcds_address_t      *addrs;      /* addresses of the server's name, as
                                            last found */
    ngx_uint_t               naddrs;
    ngx_uint_t               current;    /* index of the address that the server
                                            uses */

    ngx_mcds_address_t       addr;       /* copy of the address in use, to which
                                            server->addr points */
    u_char                   text[NGX_SOCKADDR_STRLEN];

    size_t                   told_len;   /* length of the text of the address
                                            that was last logged */
    u_char                   told[NGX_SOCKADDR_STRLEN];

    unsigned                 failed:1;
};


static ngx_int_t ngx_mcds_resolve_add(ngx_conf_t *cf,
    ngx_mcds_server_t *server, ngx_resolver_t *resolver, ngx_msec_t timeout);
static void ngx_mcds_resolve_cleanup(void *data);
static void ngx_mcds_resolve_ask(ngx_event_t *ev);
static void ngx_mcds_resolve_handler(ngx_resolver_ctx_t *ctx);
static ngx_msec_t ngx_mcds_resolve_delay(ngx_resolver_ctx_t *ctx);
static void ngx_mcds_resolve_failed(ngx_mcds_resolve_t *resolve,
    ngx_int_t state);
static void ngx_mcds_resolve_take(ngx_mcds_resolve_t *resolve,
    ngx_resolver_ctx_t *ctx);
static int ngx_libc_cdecl ngx_mcds_resolve_compare(const void *one,
    const void *two);
static void ngx_mcds_resolve_use(ngx_mcds_resolve_t *resolve, ngx_uint_t n);
static void ngx_mcds_resolve_tell(ngx_mcds_resolve_t *resolve);


ngx_int_t
ngx_mcds_resolve_init(ngx_conf_t *cf, ngx_mcds_pool_t *pool,
    ngx_resolver_t *resolver, ngx_msec_t timeout)
{
    ngx_uint_t           i;
    ngx_mcds_server_t   *server;
    ngx_pool_cleanup_t  *cln;

    /*
     * the look-ups must end before the cleanup of the resolver, which frees its
     * queries
     */

    cln = ngx_pool_cleanup_add(cf->pool, 0);
    if (cln == NULL) {
        return NGX_ERROR;
    }

    cln->handler = ngx_mcds_resolve_cleanup;
    cln->data = pool;

    server = pool->servers.elts;

    for (i = 0; i < pool->servers.nelts; i++) {
        if (ngx_mcds_resolve_add(cf, &server[i], resolver, timeout)
            != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_mcds_resolve_add(ngx_conf_t *cf, ngx_mcds_server_t *server,
    ngx_resolver_t *resolver, ngx_msec_t timeout)
{
    ngx_int_t            rc;
    ngx_addr_t           addr;
    ngx_mcds_resolve_t  *resolve;

    if (server->down || server->port == 0) {
        return NGX_OK;
    }

    rc = ngx_parse_addr(cf->pool, &addr, server->host.data, server->host.len);

    if (rc != NGX_DECLINED) {
        return rc;
    }

    resolve = ngx_pcalloc(cf->pool, sizeof(ngx_mcds_resolve_t));
    if (resolve == NULL) {
        return NGX_ERROR;
    }

    resolve->name.data = ngx_pstrdup(cf->pool, &server->host);
    if (resolve->name.data == NULL) {
        return NGX_ERROR;
    }

    resolve->name.len = server->host.len;
    resolve->server = server;
    resolve->resolver = resolver;
    resolve->timeout = timeout;

    resolve->told_len = ngx_min(server->addr.name.len, NGX_SOCKADDR_STRLEN);
    ngx_memcpy(resolve->told, server->addr.name.data, resolve->told_len);

    server->resolve = resolve;

    return NGX_OK;
}


static void
ngx_mcds_resolve_cleanup(void *data)
{
    ngx_mcds_pool_t *pool = data;

    ngx_uint_t          i;
    ngx_mcds_server_t  *server;

    server = pool->servers.elts;

    for (i = 0; i < pool->servers.nelts; i++) {
        ngx_mcds_resolve_stop(&server[i]);
    }
}


void
ngx_mcds_resolve_start(ngx_mcds_pool_t *pool)
{
    ngx_uint_t           i;
    ngx_mcds_server_t   *server;
    ngx_mcds_resolve_t  *resolve;

    if (!ngx_mcds_is_worker()) {
        return;
    }

    server = pool->servers.elts;

    for (i = 0; i < pool->servers.nelts; i++) {
        resolve = server[i].resolve;

        if (resolve == NULL) {
            continue;
        }

        resolve->timer.handler = ngx_mcds_resolve_ask;
        resolve->timer.data = resolve;
        resolve->timer.log = ngx_cycle->log;
        resolve->timer.cancelable = 1;

        /*
         * a new worker looks the servers' names up at once: the configuration,
         * with the first look-up, may have been read long ago
         */

        ngx_add_timer(&resolve->timer, 1);
    }
}


void
ngx_mcds_resolve_stop(ngx_mcds_server_t *server)
{
    ngx_mcds_resolve_t  *resolve;

    resolve = server->resolve;

    if (resolve == NULL) {
        return;
    }

    if (resolve->timer.timer_set) {
        ngx_del_timer(&resolve->timer);
    }

    if (resolve->ctx) {
        ngx_resolve_name_done(resolve->ctx);
        resolve->ctx = NULL;
    }

    if (resolve->addrs) {
        ngx_free(resolve->addrs);
        resolve->addrs = NULL;
        resolve->naddrs = 0;
    }
}


static void
ngx_mcds_resolve_ask(ngx_event_t *ev)
{
    ngx_resolver_ctx_t  *ctx;
    ngx_mcds_resolve_t  *resolve;

    resolve = ev->data;

    ctx = ngx_resolve_start(resolve->resolver, NULL);

    if (ctx == NULL || ctx == NGX_NO_RESOLVER) {
        ngx_add_timer(ev, NGX_MCDS_RESOLVE_RETRY);
        return;
    }

    ctx->name = resolve->name;
    ctx->handler = ngx_mcds_resolve_handler;
    ctx->data = resolve;
    ctx->timeout = resolve->timeout;
    ctx->cancelable = 1;

    /*
     * the handler of the look-up may be called from inside of
     * ngx_resolve_name(), and frees ctx, the look-up
     */

    resolve->ctx = ctx;

    if (ngx_resolve_name(ctx) != NGX_OK) {
        resolve->ctx = NULL;
        ngx_add_timer(ev, NGX_MCDS_RESOLVE_RETRY);
    }
}


static void
ngx_mcds_resolve_handler(ngx_resolver_ctx_t *ctx)
{
    ngx_msec_t           delay;
    ngx_mcds_resolve_t  *resolve;

    resolve = ctx->data;

    if (ctx->state || ctx->naddrs == 0) {
        ngx_mcds_resolve_failed(resolve, ctx->state);

    } else {
        ngx_mcds_resolve_take(resolve, ctx);
    }

    delay = ngx_mcds_resolve_delay(ctx);

    ngx_resolve_name_done(ctx);
    resolve->ctx = NULL;

    ngx_add_timer(&resolve->timer, delay);
}


/*
 * Returns the time until the next look-up of a server's name, in milliseconds.
 * nginx's resolver answers from its cache until the clock has passed
 * ctx->valid, a time in whole seconds.
 */

static ngx_msec_t
ngx_mcds_resolve_delay(ngx_resolver_ctx_t *ctx)
{
    time_t       left;
    ngx_msec_t   delay;
    ngx_time_t  *tp;

    tp = ngx_timeofday();

    left = ctx->valid - tp->sec;
    left = ngx_max(left, 0);
    left = ngx_min(left, NGX_MCDS_RESOLVE_MAX / 1000);

    delay = (ngx_msec_t) (left + 1) * 1000 - tp->msec;

    if (ctx->state) {

        /*
         * nginx's resolver does not cache failures; after a query that timed
         * out, which has taken long, a second is enough
         */

        delay = (ctx->state == NGX_RESOLVE_TIMEDOUT)
                ? 1000 : ngx_min(delay, NGX_MCDS_RESOLVE_RETRY);
    }

    return delay + ngx_random() % (ngx_min(delay / 10,
                                           NGX_MCDS_RESOLVE_JITTER) + 1);
}


static void
ngx_mcds_resolve_failed(ngx_mcds_resolve_t *resolve, ngx_int_t state)
{
    ngx_mcds_server_t  *server;

    server = resolve->server;

    if (resolve->failed) {
        return;
    }

    resolve->failed = 1;

    ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                  "name of memcached server \"%V\" of pool \"%V\" could not be "
                  "resolved (%i: %s), it keeps the address %V",
                  &server->name, &server->pool->name, state,
                  ngx_resolver_strerror(state), &server->addr.name);
}


static void
ngx_mcds_resolve_take(ngx_mcds_resolve_t *resolve, ngx_resolver_ctx_t *ctx)
{
    ngx_uint_t           i, n;
    ngx_mcds_server_t   *server;
    ngx_mcds_address_t  *addrs;

    server = resolve->server;

    addrs = ngx_calloc(ctx->naddrs * sizeof(ngx_mcds_address_t),
                       ngx_cycle->log);
    if (addrs == NULL) {
        return;
    }

    for (i = 0, n = 0; i < ctx->naddrs; i++) {

        if ((size_t) ctx->addrs[i].socklen > sizeof(ngx_sockaddr_t)) {
            continue;
        }

        ngx_memcpy(&addrs[n].sockaddr, ctx->addrs[i].sockaddr,
                   ctx->addrs[i].socklen);
        ngx_inet_set_port(&addrs[n].sockaddr.sockaddr, server->port);
        addrs[n].socklen = ctx->addrs[i].socklen;
        n++;
    }

    if (n == 0) {
        ngx_free(addrs);
        return;
    }

    ngx_qsort(addrs, (size_t) n, sizeof(ngx_mcds_address_t),
              ngx_mcds_resolve_compare);

    if (resolve->addrs) {
        ngx_free(resolve->addrs);
    }

    resolve->addrs = addrs;
    resolve->naddrs = n;

    if (resolve->failed) {
        resolve->failed = 0;

        ngx_log_error(NGX_LOG_NOTICE, ngx_cycle->log, 0,
                      "name of memcached server \"%V\" of pool \"%V\" is "
                      "resolved again", &server->name, &server->pool->name);
    }

    for (i = 0; i < n; i++) {
        if (ngx_cmp_sockaddr(&addrs[i].sockaddr.sockaddr, addrs[i].socklen,
                             server->addr.sockaddr, server->addr.socklen, 1)
            == NGX_OK)
        {
            resolve->current = i;
            return;
        }
    }

    ngx_mcds_resolve_use(resolve, 0);
    ngx_mcds_resolve_tell(resolve);
    ngx_mcds_server_moved(server);
}


static int ngx_libc_cdecl
ngx_mcds_resolve_compare(const void *one, const void *two)
{
    ngx_mcds_address_t  *first, *second;

    first = (ngx_mcds_address_t *) one;
    second = (ngx_mcds_address_t *) two;

    return ngx_mcds_address_order(&first->sockaddr.sockaddr, first->socklen,
                                  &second->sockaddr.sockaddr,
                                  second->socklen);
}


static void
ngx_mcds_resolve_use(ngx_mcds_resolve_t *resolve, ngx_uint_t n)
{
    ngx_mcds_server_t  *server;

    server = resolve->server;

    resolve->current = n;
    resolve->addr = resolve->addrs[n];

    server->addr.sockaddr = &resolve->addr.sockaddr.sockaddr;
    server->addr.socklen = resolve->addr.socklen;
    server->addr.name.data = resolve->text;
    server->addr.name.len = ngx_sock_ntop(server->addr.sockaddr,
                                          server->addr.socklen, resolve->text,
                                          NGX_SOCKADDR_STRLEN, 1);

#if (NGX_SSL)
    if (server->session) {
        ngx_ssl_free_session(server->session);
        server->session = NULL;
    }
#endif

    server->retire(server);
}


static void
ngx_mcds_resolve_tell(ngx_mcds_resolve_t *resolve)
{
    ngx_str_t           told;
    ngx_mcds_server_t  *server;

    server = resolve->server;

    told.len = resolve->told_len;
    told.data = resolve->told;

    if (told.len == server->addr.name.len
        && ngx_memcmp(told.data, server->addr.name.data, told.len) == 0)
    {
        return;
    }

    ngx_log_error(NGX_LOG_NOTICE, ngx_cycle->log, 0,
                  "address of memcached server \"%V\" of pool \"%V\" has "
                  "changed from %V to %V", &server->name, &server->pool->name,
                  &told, &server->addr.name);

    resolve->told_len = server->addr.name.len;
    ngx_memcpy(resolve->told, server->addr.name.data, resolve->told_len);
}


void
ngx_mcds_resolve_connected(ngx_mcds_server_t *server)
{
    if (server->resolve) {
        ngx_mcds_resolve_tell(server->resolve);
    }
}


void
ngx_mcds_resolve_next(ngx_mcds_server_t *server)
{
    ngx_mcds_resolve_t  *resolve;

    resolve = server->resolve;

    if (resolve == NULL || resolve->naddrs < 2) {
        return;
    }

    /* a ready connection of the server shows that its address is reachable */

    if ((server->control && server->control->state == NGX_MCDS_CONN_READY)
        || (server->bulk && server->bulk->state == NGX_MCDS_CONN_READY))
    {
        return;
    }

    ngx_mcds_resolve_use(resolve, (resolve->current + 1) % resolve->naddrs);
}


/*
 * Copyright (C) mcds authors
 *
 * TLS to memcached (memcached -Z), with nginx's functions for upstreams.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_mcds_conn.h"
#include "ngx_mcds_server.h"


#define NGX_MCDS_SSL_DEPTH        3


#if (NGX_SSL)

static void ngx_mcds_ssl_cleanup(void *data);
static ngx_int_t ngx_mcds_ssl_name(ngx_connection_t *c, ngx_str_t *name);
static void ngx_mcds_ssl_handler(ngx_connection_t *c);
static ngx_int_t ngx_mcds_ssl_verify(ngx_mcds_conn_t *conn);
static void ngx_mcds_ssl_save_session(ngx_connection_t *c);


char *
ngx_mcds_ssl_init(ngx_conf_t *cf, ngx_mcds_pool_t *pool)
{
    ngx_pool_cleanup_t  *cln;

    pool->ssl = ngx_pcalloc(cf->pool, sizeof(ngx_ssl_t));
    if (pool->ssl == NULL) {
        return "out of memory";
    }

    pool->ssl->log = cf->log;

    if (ngx_ssl_create(pool->ssl, NGX_SSL_TLSv1_2|NGX_SSL_TLSv1_3, NULL)
        != NGX_OK)
    {
        return "TLS is not available";
    }

    cln = ngx_pool_cleanup_add(cf->pool, 0);
    if (cln == NULL) {
        ngx_ssl_cleanup_ctx(pool->ssl);
        return "out of memory";
    }

    cln->handler = ngx_mcds_ssl_cleanup;
    cln->data = pool;

    if (ngx_ssl_client_session_cache(cf, pool->ssl, 1) != NGX_OK) {
        return "TLS is not available";
    }

    return NULL;
}


char *
ngx_mcds_ssl_check(ngx_conf_t *cf, ngx_mcds_pool_t *pool)
{
    if (pool->ssl == NULL) {

        if (pool->ssl_verify || pool->ssl_name.len || pool->ssl_trusted.len) {
            return "\"ssl_verify\", \"ssl_name\" and "
                   "\"ssl_trusted_certificate\" need \"ssl on\"";
        }

        return NULL;
    }

    if (!pool->ssl_verify) {
        return NULL;
    }

    if (pool->ssl_trusted.len == 0) {
        return "\"ssl_verify\" needs \"ssl_trusted_certificate\"";
    }

    if (ngx_ssl_trusted_certificate(cf, pool->ssl, &pool->ssl_trusted,
                                    NGX_MCDS_SSL_DEPTH)
        != NGX_OK)
    {
        return "\"ssl_trusted_certificate\" cannot be used";
    }

    return NULL;
}


static void
ngx_mcds_ssl_cleanup(void *data)
{
    ngx_mcds_pool_t *pool = data;

    ngx_uint_t          i;
    ngx_mcds_server_t  *server;

    server = pool->servers.elts;

    for (i = 0; i < pool->servers.nelts; i++) {
        if (server[i].session) {
            ngx_ssl_free_session(server[i].session);
            server[i].session = NULL;
        }
    }

    ngx_ssl_cleanup_ctx(pool->ssl);
}


ngx_int_t
ngx_mcds_ssl_handshake(ngx_mcds_conn_t *conn,
    void (*handler)(ngx_mcds_conn_t *conn, ngx_int_t rc))
{
    ngx_int_t           rc;
    ngx_connection_t   *c;
    ngx_mcds_pool_t    *pool;
    ngx_mcds_server_t  *server;

    c = conn->peer.connection;
    server = conn->server;
    pool = server->pool;

    conn->handshaked = handler;

    c->pool = ngx_create_pool(256, &conn->log);
    if (c->pool == NULL) {
        return NGX_ERROR;
    }

    if (ngx_ssl_create_connection(pool->ssl, c, NGX_SSL_CLIENT) != NGX_OK) {
        return NGX_ERROR;
    }

    if (ngx_mcds_ssl_name(c, pool->ssl_name.len ? &pool->ssl_name
                                                : &server->host)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    c->ssl->save_session = ngx_mcds_ssl_save_session;

    if (server->session
        && ngx_ssl_set_session(c, server->session) != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (c->tcp_nodelay == NGX_TCP_NODELAY_UNSET
        && ngx_tcp_nodelay(c) != NGX_OK)
    {
        return NGX_ERROR;
    }

    rc = ngx_ssl_handshake(c);

    if (rc == NGX_AGAIN) {
        c->ssl->handler = ngx_mcds_ssl_handler;
        return NGX_OK;
    }

    ngx_mcds_ssl_handler(c);

    return NGX_OK;
}


/*
 * sets the name of the server for SNI, which is for names only, not for
 * addresses, RFC 6066, section 3
 */

static ngx_int_t
ngx_mcds_ssl_name(ngx_connection_t *c, ngx_str_t *name)
{
#ifdef SSL_CTRL_SET_TLSEXT_HOSTNAME

    if (name->len == 0
        || name->data[0] == '/'
        || ngx_strlchr(name->data, name->data + name->len, ':')
        || ngx_inet_addr(name->data, name->len) != INADDR_NONE)
    {
        return NGX_OK;
    }

    if (SSL_set_tlsext_host_name(c->ssl->connection, (char *) name->data)
        == 0)
    {
        ngx_ssl_error(NGX_LOG_ERR, c->log, 0,
                      "SSL_set_tlsext_host_name(\"%s\") failed", name->data);
        return NGX_ERROR;
    }

#endif

    return NGX_OK;
}


static void
ngx_mcds_ssl_handler(ngx_connection_t *c)
{
    ngx_int_t         rc;
    ngx_mcds_conn_t  *conn;

    conn = c->data;

    rc = c->ssl->handshaked ? ngx_mcds_ssl_verify(conn) : NGX_ERROR;

    conn->handshaked(conn, rc);
}


static ngx_int_t
ngx_mcds_ssl_verify(ngx_mcds_conn_t *conn)
{
    long               rc;
    ngx_str_t         *name;
    ngx_uint_t         level;
    ngx_connection_t  *c;
    ngx_mcds_pool_t   *pool;

    c = conn->peer.connection;
    pool = conn->server->pool;

    if (!pool->ssl_verify) {
        return NGX_OK;
    }

    rc = SSL_get_verify_result(c->ssl->connection);

    if (rc != X509_V_OK) {
        level = ngx_mcds_server_level(conn->server, NGX_LOG_ERR);

        ngx_log_error(level, &conn->log, 0,
                      "memcached's certificate is not accepted: (%l:%s)",
                      rc, X509_verify_cert_error_string(rc));
        return NGX_ERROR;
    }

    name = pool->ssl_name.len ? &pool->ssl_name : &conn->server->host;

    if (ngx_ssl_check_host(c, name) != NGX_OK) {
        level = ngx_mcds_server_level(conn->server, NGX_LOG_ERR);

        ngx_log_error(level, &conn->log, 0,
                      "memcached's certificate is not for \"%V\"", name);
        return NGX_ERROR;
    }

    return NGX_OK;
}


/*
 * saves the TLS session of a connection for the server's next connection; with
 * TLS 1.3 a server sends sessions after the handshake, possibly several
 */

static void
ngx_mcds_ssl_save_session(ngx_connection_t *c)
{
    ngx_mcds_conn_t    *conn;
    ngx_mcds_server_t  *server;
    ngx_ssl_session_t  *session;

    conn = c->data;
    server = conn->server;

    session = ngx_ssl_get_session(c);

    if (session == NULL) {
        return;
    }

    if (server->session) {
        ngx_ssl_free_session(server->session);
    }

    server->session = session;
}


void
ngx_mcds_ssl_close(ngx_connection_t *c)
{
    ngx_mcds_conn_t *conn = c->data;

    /*
     * with unsent data OpenSSL would wait for a write when TLS is shut down,
     * and the connection would leak
     */

    if (conn->out) {
        c->timedout = 1;
    }

    c->ssl->no_wait_shutdown = 1;
    c->ssl->no_send_shutdown = !c->ssl->handshaked;

    (void) ngx_ssl_shutdown(c);
}


#else


char *
ngx_mcds_ssl_init(ngx_conf_t *cf, ngx_mcds_pool_t *pool)
{
    return "nginx was built without TLS";
}


char *
ngx_mcds_ssl_check(ngx_conf_t *cf, ngx_mcds_pool_t *pool)
{
    return NULL;
}

#endif


/*
 * Copyright (C) mcds authors
 *
 * What src/client/ngx_mcds_ssl.c wants of nginx, made of OpenSSL.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <openssl/x509v3.h>


#if (NGX_SSL)

static void ngx_tool_ssl_event(ngx_event_t *ev);
static ssize_t ngx_tool_ssl_recv(ngx_connection_t *c, u_char *buf,
    size_t size);
static ssize_t ngx_tool_ssl_send(ngx_connection_t *c, u_char *buf,
    size_t size);
static ngx_int_t ngx_tool_ssl_again(ngx_connection_t *c, int n);


ngx_int_t
ngx_ssl_create(ngx_ssl_t *ssl, ngx_uint_t protocols, void *data)
{
    ssl->ctx = SSL_CTX_new(TLS_client_method());

    if (ssl->ctx == NULL
        || SSL_CTX_set_min_proto_version(ssl->ctx, TLS1_2_VERSION) != 1)
    {
        return NGX_ERROR;
    }

    (void) SSL_CTX_set_mode(ssl->ctx, SSL_MODE_ENABLE_PARTIAL_WRITE
                                      |SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);

    return NGX_OK;
}


void
ngx_ssl_cleanup_ctx(void *data)
{
    ngx_ssl_t *ssl = data;

    SSL_CTX_free(ssl->ctx);
}


ngx_int_t
ngx_ssl_client_session_cache(ngx_conf_t *cf, ngx_ssl_t *ssl,
    ngx_uint_t enable)
{
    return NGX_OK;
}


ngx_int_t
ngx_ssl_trusted_certificate(ngx_conf_t *cf, ngx_ssl_t *ssl, ngx_str_t *cert,
    ngx_int_t depth)
{
    SSL_CTX_set_verify_depth(ssl->ctx, depth);

    if (ngx_conf_full_name(cf->cycle, cert, 1) != NGX_OK
        || SSL_CTX_load_verify_locations(ssl->ctx, (char *) cert->data, NULL)
           != 1)
    {
        return NGX_ERROR;
    }

    return NGX_OK;
}


ngx_int_t
ngx_ssl_create_connection(ngx_ssl_t *ssl, ngx_connection_t *c,
    ngx_uint_t flags)
{
    ngx_ssl_connection_t  *sc;

    sc = ngx_pcalloc(c->pool, sizeof(ngx_ssl_connection_t));
    if (sc == NULL) {
        return NGX_ERROR;
    }

    sc->connection = SSL_new(ssl->ctx);

    if (sc->connection == NULL || SSL_set_fd(sc->connection, c->fd) != 1) {
        SSL_free(sc->connection);
        return NGX_ERROR;
    }

    SSL_set_connect_state(sc->connection);

    c->ssl = sc;

    return NGX_OK;
}


ngx_int_t
ngx_ssl_handshake(ngx_connection_t *c)
{
    int  n;

    ERR_clear_error();
    n = SSL_do_handshake(c->ssl->connection);

    if (n == 1) {
        c->ssl->handshaked = 1;
        c->recv = ngx_tool_ssl_recv;
        c->send = ngx_tool_ssl_send;
        c->read->ready = 1;
        c->write->ready = 1;

        return NGX_OK;
    }

    c->read->handler = ngx_tool_ssl_event;
    c->write->handler = ngx_tool_ssl_event;

    return ngx_tool_ssl_again(c, n);
}


static void
ngx_tool_ssl_event(ngx_event_t *ev)
{
    ngx_connection_t  *c;

    c = ev->data;

    if (ngx_ssl_handshake(c) != NGX_AGAIN) {
        c->ssl->handler(c);
    }
}


/* NGX_AGAIN, what is waited for is not ready; or NGX_ERROR */

static ngx_int_t
ngx_tool_ssl_again(ngx_connection_t *c, int n)
{
    switch (SSL_get_error(c->ssl->connection, n)) {

    case SSL_ERROR_WANT_READ:
        c->read->ready = 0;
        return NGX_AGAIN;

    case SSL_ERROR_WANT_WRITE:
        c->write->ready = 0;
        return NGX_AGAIN;

    default:
        return NGX_ERROR;
    }
}


/* more may be there without the socket being readable: ready stays */

static ssize_t
ngx_tool_ssl_recv(ngx_connection_t *c, u_char *buf, size_t size)
{
    int  n;

    ERR_clear_error();
    n = SSL_read(c->ssl->connection, buf, ngx_min(size, 1 << 30));

    if (n > 0) {
        c->read->ready = 1;
        return n;
    }

    if (SSL_get_error(c->ssl->connection, n) == SSL_ERROR_ZERO_RETURN) {
        c->read->ready = 0;
        c->read->eof = 1;
        return 0;
    }

    return ngx_tool_ssl_again(c, n);
}


static ssize_t
ngx_tool_ssl_send(ngx_connection_t *c, u_char *buf, size_t size)
{
    int  n;

    ERR_clear_error();
    n = SSL_write(c->ssl->connection, buf, ngx_min(size, 1 << 30));

    if (n > 0) {
        c->sent += n;
        return n;
    }

    return ngx_tool_ssl_again(c, n);
}


ngx_int_t
ngx_ssl_shutdown(ngx_connection_t *c)
{
    if (!c->ssl->no_send_shutdown) {
        ERR_clear_error();
        (void) SSL_shutdown(c->ssl->connection);
    }

    SSL_free(c->ssl->connection);
    c->ssl = NULL;

    return NGX_OK;
}


ngx_int_t
ngx_ssl_check_host(ngx_connection_t *c, ngx_str_t *name)
{
    X509       *cert;
    ngx_int_t   rc;

    cert = SSL_get_peer_certificate(c->ssl->connection);

    if (cert == NULL) {
        return NGX_ERROR;
    }

    rc = NGX_ERROR;

    if (X509_check_host(cert, (char *) name->data, name->len, 0, NULL) == 1) {
        rc = NGX_OK;
    }

    X509_free(cert);

    return rc;
}


/* connections are made once: no session is worth keeping */

ngx_ssl_session_t *
ngx_ssl_get_session(ngx_connection_t *c)
{
    return NULL;
}


ngx_int_t
ngx_ssl_set_session(ngx_connection_t *c, ngx_ssl_session_t *session)
{
    return NGX_OK;
}


void
ngx_ssl_error(ngx_uint_t level, ngx_log_t *log, ngx_err_t err, char *fmt, ...)
{
    u_char   *p, text[NGX_MAX_CONF_ERRSTR];
    va_list   args;

    va_start(args, fmt);
    p = ngx_vslprintf(text, text + sizeof(text), fmt, args);
    va_end(args);

    ngx_log_error(level, log, err, "%*s", (size_t) (p - text), text);
}

#endif


/*
 * Copyright (C) mcds authors
 *
 * Addresses.  Names are looked up once, and that may take its time.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <netdb.h>


/* of a name; what comes behind is left out */
#define NGX_TOOL_URL_ADDRS  16


static ngx_int_t ngx_tool_url_unix(ngx_pool_t *pool, ngx_url_t *u);
static ngx_int_t ngx_tool_url_resolve(ngx_pool_t *pool, ngx_url_t *u);
static ngx_int_t ngx_tool_url_addr(ngx_pool_t *pool, ngx_url_t *u,
    struct sockaddr *sa, socklen_t len);


/* "host", "host:port", "[v6]", "[v6]:port" or "unix:path" */

ngx_int_t
ngx_parse_url(ngx_pool_t *pool, ngx_url_t *u)
{
    u_char     *p, *last, *colon;
    ngx_int_t   n;

    p = u->url.data;
    last = p + u->url.len;

    if (u->url.len > 5 && ngx_strncasecmp(p, (u_char *) "unix:", 5) == 0) {
        return ngx_tool_url_unix(pool, u);
    }

    u->family = AF_INET;
    u->host.data = p;
    u->port = u->default_port;
    colon = ngx_strlchr(p, last, ':');

    if (p < last && *p == '[') {
        u->family = AF_INET6;

        p = ngx_strlchr(p, last, ']');

        if (p == NULL) {
            u->err = "invalid host";
            return NGX_ERROR;
        }

        p++;
        colon = (p < last) ? p : NULL;

        if (colon && *colon != ':') {
            u->err = "invalid host";
            return NGX_ERROR;
        }
    }

    if (colon) {
        n = ngx_atoi(colon + 1, last - colon - 1);

        if (n < 1 || n > 65535) {
            u->err = "invalid port";
            return NGX_ERROR;
        }

        u->port = (in_port_t) n;
        last = colon;
    }

    u->host.len = last - u->host.data;

    if (u->host.len == 0 || ngx_strlchr(u->host.data, last, '/')) {
        u->err = u->host.len ? "invalid host" : "no host";
        return NGX_ERROR;
    }

    return u->no_resolve ? NGX_OK : ngx_tool_url_resolve(pool, u);
}


static ngx_int_t
ngx_tool_url_unix(ngx_pool_t *pool, ngx_url_t *u)
{
    struct sockaddr_un  sun;

    ngx_memzero(&sun, sizeof(struct sockaddr_un));

    u->family = AF_UNIX;
    u->host.data = u->url.data + 5;
    u->host.len = u->url.len - 5;

    if (u->host.len >= sizeof(sun.sun_path)) {
        u->err = "too long path in the unix domain socket";
        return NGX_ERROR;
    }

    sun.sun_family = AF_UNIX;
    ngx_memcpy(sun.sun_path, u->host.data, u->host.len);

    return ngx_tool_url_addr(pool, u, (struct sockaddr *) &sun,
                             sizeof(struct sockaddr_un));
}


static ngx_int_t
ngx_tool_url_resolve(ngx_pool_t *pool, ngx_url_t *u)
{
    char              host[256], port[NGX_INT_T_LEN + 1];
    ngx_int_t         rc;
    ngx_str_t         name;
    struct addrinfo   hints, *res, *ai;

    name = u->host;

    if (name.data[0] == '[') {
        name.data++;
        name.len -= 2;
    }

    if (name.len >= sizeof(host)) {
        u->err = "invalid host";
        return NGX_ERROR;
    }

    (void) ngx_cpystrn((u_char *) host, name.data, name.len + 1);
    *ngx_sprintf((u_char *) port, "%ud", (u_int) u->port) = '\0';

    ngx_memzero(&hints, sizeof(struct addrinfo));
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICSERV;

    if (getaddrinfo(host, port, &hints, &res) != 0) {
        u->err = "host not found";
        return NGX_ERROR;
    }

    rc = NGX_OK;

    for (ai = res; ai && rc == NGX_OK; ai = ai->ai_next) {
        rc = ngx_tool_url_addr(pool, u, ai->ai_addr, ai->ai_addrlen);
    }

    freeaddrinfo(res);

    return rc;
}


static ngx_int_t
ngx_tool_url_addr(ngx_pool_t *pool, ngx_url_t *u, struct sockaddr *sa,
    socklen_t len)
{
    ngx_addr_t  *addr;

    if (u->addrs == NULL) {
        u->addrs = ngx_pcalloc(pool,
                               NGX_TOOL_URL_ADDRS * sizeof(ngx_addr_t));
        if (u->addrs == NULL) {
            return NGX_ERROR;
        }
    }

    if (u->naddrs == NGX_TOOL_URL_ADDRS) {
        return NGX_OK;
    }

    addr = &u->addrs[u->naddrs++];

    addr->sockaddr = ngx_pcalloc(pool, len);
    if (addr->sockaddr == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(addr->sockaddr, sa, len);

    addr->socklen = len;
    addr->name = u->url;

    return NGX_OK;
}


in_addr_t
ngx_inet_addr(u_char *text, size_t len)
{
    char            buf[NGX_INET_ADDRSTRLEN + 1];
    struct in_addr  in;

    if (len >= sizeof(buf)) {
        return INADDR_NONE;
    }

    (void) ngx_cpystrn((u_char *) buf, text, len + 1);

    return (inet_pton(AF_INET, buf, &in) == 1) ? in.s_addr : INADDR_NONE;
}

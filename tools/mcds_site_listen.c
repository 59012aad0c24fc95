
/*
 * Copyright (C) mcds authors
 *
 * The addresses and the names of server{} blocks, by the directives "listen"
 * and "server_name".
 */


#include "mcds_site.h"
#include <netdb.h>


/* maximum length of the host in a "listen": "[", an address, "]" */
#define MCDS_LISTEN_HOST          (NI_MAXHOST + 2)

/*
 * added to the address family of a "listen ... quic", since UDP ports are
 * separate from TCP ports
 */
#define MCDS_LISTEN_QUIC          0x10000


typedef struct {
    mcds_scope_t  *scope;
    ngx_int_t      quic;      /* MCDS_LISTEN_QUIC if the "listen" has "quic", or
                                 0 */
    ngx_uint_t     is_default;
    ngx_uint_t     other;     /* 1: no plain HTTP, the "listen" has "ssl",
                                 "quic" or "proxy_protocol" */
    ngx_int_t      first;     /* first and last port of the "listen" */
    ngx_int_t      last;
} mcds_listen_t;


static void mcds_site_listen_host(mcds_t *m, mcds_listen_t *l,
    ngx_str_t *host);
static void mcds_site_listen_name(mcds_t *m, mcds_listen_t *l, char *name);
static void mcds_site_listen_ports(mcds_t *m, mcds_listen_t *l,
    ngx_int_t family, char *host);
static void mcds_site_listen_add(mcds_t *m, mcds_listen_t *l,
    ngx_int_t family, in_port_t port, ngx_str_t *text);
static ngx_http_conf_port_t *mcds_site_listen_port(mcds_t *m,
    ngx_int_t family, in_port_t port);


void
mcds_site_listen(mcds_t *m, ngx_conf_t *cf, mcds_scope_t *scope)
{
    u_char         *p, *last, *colon, *dash;
    ngx_str_t      *word, host;
    ngx_uint_t      i;
    mcds_listen_t   l;

    word = cf->args->elts;

    if (cf->args->nelts < 2) {
        return;
    }

    ngx_memzero(&l, sizeof(mcds_listen_t));
    l.scope = scope;

    for (i = 2; i < cf->args->nelts; i++) {
        if (mcds_is(&word[i], "default_server")
            || mcds_is(&word[i], "default"))
        {
            l.is_default = 1;

        } else if (mcds_is(&word[i], "quic")) {
            l.quic = MCDS_LISTEN_QUIC;
            l.other = 1;

        } else if (mcds_is(&word[i], "ssl")
                   || mcds_is(&word[i], "proxy_protocol"))
        {
            l.other = 1;
        }
    }

    scope->server->listen = 1;

    p = word[1].data;
    last = p + word[1].len;

    if (ngx_strncasecmp(p, (u_char *) "unix:", 5) == 0) {
        mcds_site_listen_add(m, &l, AF_UNIX, 0, &word[1]);
        return;
    }

    colon = (*p == '[') ? ngx_strlchr(p, last, ']') : p;
    colon = colon ? ngx_strlchr(colon, last, ':') : NULL;

    host.data = p;
    host.len = (colon ? colon : last) - p;

    if (colon) {
        p = colon + 1;

    } else if (strspn((char *) p, "0123456789-") == word[1].len) {
        host.len = 0;

    } else {
        p = NULL;
    }

    if (p == NULL) {
        l.first = 80;
        l.last = 80;

    } else {
        dash = ngx_strlchr(p, last, '-');

        l.first = ngx_atoi(p, (dash ? dash : last) - p);
        l.last = dash ? ngx_atoi(dash + 1, last - dash - 1) : l.first;
    }

    if (l.first < 1 || l.last > 65535) {

        /* a "listen" with a port that nginx would reject is ignored */

        return;
    }

    mcds_site_listen_host(m, &l, &host);
}


void
mcds_site_server_end(mcds_t *m, mcds_scope_t *scope)
{
    mcds_listen_t            l;
    ngx_http_server_name_t  *sn;

    if (!scope->server->listen) {
        ngx_memzero(&l, sizeof(mcds_listen_t));

        l.scope = scope;
        l.first = 80;
        l.last = 80;

        mcds_site_listen_ports(m, &l, AF_INET, "0.0.0.0");
    }

    if (scope->server->server_names.nelts == 0) {
        sn = ngx_array_push(&scope->server->server_names);

        if (sn == NULL) {
            mcds_no_memory();
        }

        ngx_memzero(sn, sizeof(ngx_http_server_name_t));
        sn->server = scope->server;
        ngx_str_set(&sn->name, "");
    }
}


static void
mcds_site_listen_host(mcds_t *m, mcds_listen_t *l, ngx_str_t *host)
{
    char    text[MCDS_LISTEN_HOST];
    u_char  addr[sizeof(struct in6_addr)];
    size_t  len;

    if (host->len == 0 || mcds_is(host, "*")) {
        mcds_site_listen_ports(m, l, AF_INET, "0.0.0.0");
        return;
    }

    if (host->len >= NI_MAXHOST) {
        return;
    }

    (void) ngx_cpystrn((u_char *) text, host->data, host->len + 1);

    if (text[0] != '[') {

        if (inet_pton(AF_INET, text, addr) == 1) {
            mcds_site_listen_ports(m, l, AF_INET, text);
            return;
        }

        mcds_site_listen_name(m, l, text);
        return;
    }

    /* an IPv6 address gets its shortest form, as nginx writes addresses */

    text[host->len - 1] = '\0';

    if (inet_pton(AF_INET6, text + 1, addr) != 1
        || inet_ntop(AF_INET6, addr, text + 1, NI_MAXHOST) == NULL)
    {
        return;
    }

    len = ngx_strlen(text);
    text[len] = ']';
    text[len + 1] = '\0';

    mcds_site_listen_ports(m, l, AF_INET6, text);
}


/*
 * Adds all addresses of the host name in a "listen"; a name that cannot be
 * resolved on this host is used as the address.
 */

static void
mcds_site_listen_name(mcds_t *m, mcds_listen_t *l, char *name)
{
    char              text[MCDS_LISTEN_HOST];
    struct addrinfo   hints, *res, *ai;

    ngx_memzero(&hints, sizeof(struct addrinfo));
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_ADDRCONFIG;

    if (getaddrinfo(name, NULL, &hints, &res) != 0) {
        mcds_site_listen_ports(m, l, AF_INET, name);
        return;
    }

    for (ai = res; ai; ai = ai->ai_next) {
        text[0] = '[';

        if (getnameinfo(ai->ai_addr, ai->ai_addrlen, text + 1, NI_MAXHOST,
                        NULL, 0, NI_NUMERICHOST)
            != 0)
        {
            continue;
        }

        if (ai->ai_family == AF_INET6) {
            (void) strcat(text, "]");
        }

        mcds_site_listen_ports(m, l, ai->ai_family,
                               text + (ai->ai_family != AF_INET6));
    }

    freeaddrinfo(res);
}


static void
mcds_site_listen_ports(mcds_t *m, mcds_listen_t *l, ngx_int_t family,
    char *host)
{
    ngx_int_t  port;
    ngx_str_t  text;

    for (port = l->first; port <= l->last; port++) {
        text.data = mcds_alloc(m, ngx_strlen(host) + sizeof(":65535"));
        text.len = ngx_sprintf(text.data, "%s:%i", host, port) - text.data;

        mcds_site_listen_add(m, l, family, (in_port_t) port, &text);
    }
}


static void
mcds_site_listen_add(mcds_t *m, mcds_listen_t *l, ngx_int_t family,
    in_port_t n, ngx_str_t *text)
{
    ngx_uint_t                  i;
    ngx_http_conf_port_t       *port;
    ngx_http_conf_addr_t       *addr;
    ngx_http_core_srv_conf_t  **server;

    port = mcds_site_listen_port(m, family + l->quic, n);

    addr = port->addrs.elts;

    for (i = 0; i < port->addrs.nelts; i++) {
        if (ngx_mcds_same(&addr[i].opt.addr_text, text)) {
            break;
        }
    }

    if (i < port->addrs.nelts) {
        addr = &addr[i];

    } else {
        addr = ngx_array_push(&port->addrs);

        if (addr == NULL) {
            mcds_no_memory();
        }

        ngx_memzero(addr, sizeof(ngx_http_conf_addr_t));

        addr->opt.addr_text = *text;
        addr->default_server = l->scope->server;

        if (ngx_array_init(&addr->servers, m->memory, 4,
                           sizeof(ngx_http_core_srv_conf_t *))
            != NGX_OK)
        {
            mcds_no_memory();
        }
    }

    if (l->is_default) {
        addr->default_server = l->scope->server;
    }

    if (l->other) {
        addr->opt.ssl = 1;
    }

    server = addr->servers.elts;

    for (i = 0; i < addr->servers.nelts; i++) {
        if (server[i] == l->scope->server) {
            return;
        }
    }

    server = ngx_array_push(&addr->servers);

    if (server == NULL) {
        mcds_no_memory();
    }

    *server = l->scope->server;
}


static ngx_http_conf_port_t *
mcds_site_listen_port(mcds_t *m, ngx_int_t family, in_port_t n)
{
    ngx_uint_t             i;
    ngx_http_conf_port_t  *port;

    port = m->sites->core.ports->elts;

    for (i = 0; i < m->sites->core.ports->nelts; i++) {
        if (port[i].port == n && port[i].family == family) {
            return &port[i];
        }
    }

    port = ngx_array_push(m->sites->core.ports);

    if (port == NULL) {
        mcds_no_memory();
    }

    ngx_memzero(port, sizeof(ngx_http_conf_port_t));

    port->family = family;
    port->port = n;

    if (ngx_array_init(&port->addrs, m->memory, 4,
                       sizeof(ngx_http_conf_addr_t))
        != NGX_OK)
    {
        mcds_no_memory();
    }

    return port;
}


void
mcds_site_server_name(mcds_t *m, ngx_conf_t *cf, mcds_scope_t *scope)
{
    char                     host[256];
    ngx_str_t               *word, name;
    ngx_uint_t               i;
    ngx_http_server_name_t  *sn;

    word = cf->args->elts;

    for (i = 1; i < cf->args->nelts; i++) {
        name = word[i];

        sn = ngx_array_push(&scope->server->server_names);

        if (sn == NULL) {
            mcds_no_memory();
        }

        ngx_memzero(sn, sizeof(ngx_http_server_name_t));
        sn->server = scope->server;

#if (NGX_PCRE)

        if (name.len && name.data[0] == '~') {
            sn->name.data = name.data + 1;
            sn->name.len = name.len - 1;

            /*
             * the server_name is a regular expression: only whether sn->regex
             * is NULL matters, so any other pointer will do
             */

            sn->regex = (ngx_http_regex_t *) sn;
            continue;
        }

#endif

        if (name.len == 9
            && ngx_strncasecmp(name.data, (u_char *) "$hostname", 9) == 0
            && gethostname(host, sizeof(host)) == 0)
        {
            host[sizeof(host) - 1] = '\0';
            name.len = ngx_strlen(host);
            name.data = (u_char *) host;
        }

        sn->name.len = name.len;
        sn->name.data = mcds_alloc(m, name.len + 1);
        ngx_strlow(sn->name.data, name.data, name.len);
    }
}

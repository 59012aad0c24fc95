
/*
 * Copyright (C) mcds authors
 */


#include "mcds_site.h"
#include <poll.h>
#include <sys/un.h>
#include "mcds_fetch.h"


/*
 * the maximum size of a response of nginx with its statistics, and the size by
 * which the buffer for such a response grows; bytes
 */
#define MCDS_FETCH_MAX            (16 * 1024 * 1024)
#define MCDS_FETCH_STEP           16384


typedef struct {
    mcds_t       *m;
    char         *at;
    ngx_msec_t    end;
    ngx_str_t     host;          /* value of the header Host in the request to
                                    nginx */
    ngx_str_t     path;
    u_char       *data;          /* the part of nginx's response that was
                                    read */
    size_t        len;
} mcds_fetch_t;


static json_t *mcds_fetch_scope(mcds_fetch_t *f, mcds_scope_t *scope);
static void mcds_fetch_host(mcds_fetch_t *f, mcds_scope_t *scope);
static ngx_uint_t mcds_fetch_listens(ngx_http_conf_addr_t *addr,
    ngx_http_core_srv_conf_t *server);
static json_t *mcds_fetch_address(mcds_fetch_t *f, ngx_int_t family,
    in_port_t port, ngx_str_t *text);
static ngx_int_t mcds_fetch_sockaddr(ngx_sockaddr_t *sa, ngx_int_t family,
    in_port_t port, ngx_str_t *text);
static int mcds_fetch_connect(mcds_fetch_t *f, ngx_sockaddr_t *sa);
static ngx_int_t mcds_fetch_wait(mcds_fetch_t *f, int fd, short events);
static ngx_int_t mcds_fetch_talk(mcds_fetch_t *f, int fd);
static json_t *mcds_fetch_parse(mcds_fetch_t *f, char *where);


json_t *
mcds_fetch(mcds_t *m, char *at)
{
    json_t            *json;
    ngx_str_t         *format;
    ngx_uint_t         i;
    mcds_fetch_t       f;
    mcds_directive_t  *directive;

    ngx_memzero(&f, sizeof(mcds_fetch_t));

    f.m = m;
    f.at = at;
    *at = '\0';

    if (m->sites == NULL) {
        return NULL;
    }

    directive = m->directives.elts;

    for (i = 0; i < m->directives.nelts; i++) {

        if (!mcds_is(&directive[i].words[0], "mcds_status")
            || directive[i].scope->level != MCDS_LEVEL_LOCATION)
        {
            continue;
        }

        format = mcds_site_param(&directive[i], "format=");

        if (format && mcds_is(format, "prometheus")) {
            continue;
        }

        json = mcds_fetch_scope(&f, directive[i].scope);

        if (json) {
            return json;
        }
    }

    return NULL;
}


static json_t *
mcds_fetch_scope(mcds_fetch_t *f, mcds_scope_t *scope)
{
    json_t                *json;
    ngx_uint_t             i, n;
    ngx_http_conf_port_t  *port;
    ngx_http_conf_addr_t  *addr;

    if (scope->location.len == 0 || scope->location.data[0] != '/') {
        (void) snprintf(f->at, MCDS_FETCH_AT, "the location of mcds_status in "
                        "%.*s:%d is a regular expression, or has no path",
                        (int) scope->file.len, scope->file.data,
                        (int) scope->line);
        return NULL;
    }

    f->path = scope->location;
    mcds_fetch_host(f, scope);

    (void) snprintf(f->at, MCDS_FETCH_AT, "the server of mcds_status in "
                    "%.*s:%d does not listen on a loopback address without "
                    "TLS", (int) scope->file.len, scope->file.data,
                    (int) scope->line);

    port = f->m->sites->core.ports->elts;

    for (i = 0; i < f->m->sites->core.ports->nelts; i++) {
        addr = port[i].addrs.elts;

        for (n = 0; n < port[i].addrs.nelts; n++) {

            if (addr[n].opt.ssl
                || !mcds_fetch_listens(&addr[n], scope->server))
            {
                continue;
            }

            json = mcds_fetch_address(f, port[i].family, port[i].port,
                                      &addr[n].opt.addr_text);
            if (json) {
                return json;
            }
        }
    }

    return NULL;
}


/*
 * sets the value of the request header Host to the first server_name of the
 * server{} block that is a plain name
 */

static void
mcds_fetch_host(mcds_fetch_t *f, mcds_scope_t *scope)
{
    ngx_uint_t               i;
    ngx_http_server_name_t  *sn;

    ngx_str_set(&f->host, "localhost");
    sn = scope->server->server_names.elts;

    for (i = 0; i < scope->server->server_names.nelts; i++) {

#if (NGX_PCRE)
        if (sn[i].regex) {
            continue;
        }
#endif

        if (sn[i].name.len
            && ngx_strlchr(sn[i].name.data, sn[i].name.data + sn[i].name.len,
                           '*')
               == NULL)
        {
            f->host = sn[i].name;

            if (f->host.data[0] == '.') {
                f->host.data++;
                f->host.len--;
            }

            return;
        }
    }
}


static ngx_uint_t
mcds_fetch_listens(ngx_http_conf_addr_t *addr,
    ngx_http_core_srv_conf_t *server)
{
    ngx_uint_t                  i;
    ngx_http_core_srv_conf_t  **one;

    one = addr->servers.elts;

    for (i = 0; i < addr->servers.nelts; i++) {
        if (one[i] == server) {
            return 1;
        }
    }

    return 0;
}


static json_t *
mcds_fetch_address(mcds_fetch_t *f, ngx_int_t family, in_port_t port,
    ngx_str_t *text)
{
    int             fd;
    char            where[MCDS_FETCH_AT / 2];
    json_t         *json;
    ngx_sockaddr_t  sa;

    if (mcds_fetch_sockaddr(&sa, family, port, text) != NGX_OK) {
        return NULL;
    }

    if (family == AF_UNIX) {
        (void) snprintf(where, sizeof(where), "%.*s, %.*s", (int) text->len,
                        text->data, (int) f->path.len, f->path.data);

    } else {
        (void) snprintf(where, sizeof(where), "http://%s:%d%.*s",
                        (family == AF_INET6) ? "[::1]" : "127.0.0.1",
                        (int) port, (int) f->path.len, f->path.data);
    }

    ngx_time_update();
    f->end = ngx_current_msec + f->m->o.timeout;
    f->data = NULL;
    f->len = 0;

    json = NULL;
    fd = mcds_fetch_connect(f, &sa);

    if (fd == -1 || mcds_fetch_talk(f, fd) != NGX_OK) {
        (void) snprintf(f->at, MCDS_FETCH_AT, "nginx does not answer at %s: "
                        "%s", where, strerror(errno));

    } else {
        json = mcds_fetch_parse(f, where);
    }

    if (fd != -1) {
        (void) close(fd);
    }

    free(f->data);

    return json;
}


/*
 * sets sa to the socket address at which the tool requests nginx's statistics,
 * from the address of a "listen", which must be a loopback address, a wildcard
 * or a unix socket; NGX_DECLINED otherwise
 */

static ngx_int_t
mcds_fetch_sockaddr(ngx_sockaddr_t *sa, ngx_int_t family, in_port_t port,
    ngx_str_t *text)
{
    char                 host[64];
    size_t               len;
    u_char              *colon;
    struct sockaddr_un  *sun;

    ngx_memzero(sa, sizeof(ngx_sockaddr_t));

    switch (family) {

    case AF_UNIX:
        sun = (struct sockaddr_un *) sa;
        len = text->len - 5;

        if (len >= sizeof(sun->sun_path)) {
            return NGX_DECLINED;
        }

        sun->sun_family = AF_UNIX;
        ngx_memcpy(sun->sun_path, text->data + 5, len);
        return NGX_OK;

    case AF_INET:
        colon = ngx_strlchr(text->data, text->data + text->len, ':');
        len = (colon ? (size_t) (colon - text->data) : text->len);

        if (len >= sizeof(host)) {
            return NGX_DECLINED;
        }

        (void) ngx_cpystrn((u_char *) host, text->data, len + 1);

        sa->sockaddr_in.sin_family = AF_INET;
        sa->sockaddr_in.sin_port = htons(port);

        if (strcmp(host, "0.0.0.0") == 0) {
            (void) strcpy(host, "127.0.0.1");
        }

        if (strncmp(host, "127.", 4) != 0
            || inet_pton(AF_INET, host, &sa->sockaddr_in.sin_addr) != 1)
        {
            return NGX_DECLINED;
        }

        return NGX_OK;

    case AF_INET6:

        if (ngx_strncmp(text->data, "[::]:", 5) != 0
            && ngx_strncmp(text->data, "[::1]:", 6) != 0)
        {
            return NGX_DECLINED;
        }

        sa->sockaddr_in6.sin6_family = AF_INET6;
        sa->sockaddr_in6.sin6_port = htons(port);
        sa->sockaddr_in6.sin6_addr = in6addr_loopback;
        return NGX_OK;

    default:
        return NGX_DECLINED;
    }
}


static int
mcds_fetch_connect(mcds_fetch_t *f, ngx_sockaddr_t *sa)
{
    int        fd, err;
    socklen_t  len;

    fd = socket(sa->sockaddr.sa_family, SOCK_STREAM|SOCK_NONBLOCK|SOCK_CLOEXEC,
                0);

    if (fd == -1) {
        return -1;
    }

    len = (sa->sockaddr.sa_family == AF_UNIX) ? sizeof(struct sockaddr_un)
          : (sa->sockaddr.sa_family == AF_INET6) ? sizeof(struct sockaddr_in6)
          : sizeof(struct sockaddr_in);

    if (connect(fd, &sa->sockaddr, len) == 0) {
        return fd;
    }

    if (errno == EINPROGRESS && mcds_fetch_wait(f, fd, POLLOUT) == NGX_OK) {
        len = sizeof(err);
        err = 0;

        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) == 0 && err == 0) {
            return fd;
        }

        errno = err;
    }

    err = errno;
    (void) close(fd);
    errno = err;

    return -1;
}


static ngx_int_t
mcds_fetch_wait(mcds_fetch_t *f, int fd, short events)
{
    int             n;
    struct pollfd   pfd;
    ngx_msec_int_t  left;

    pfd.fd = fd;
    pfd.events = events;

    do {
        ngx_time_update();
        left = (ngx_msec_int_t) (f->end - ngx_current_msec);
        n = (left > 0) ? poll(&pfd, 1, (int) left) : 0;
    } while (n == -1 && errno == EINTR);

    if (n == 0) {
        errno = ETIMEDOUT;
    }

    return (n > 0) ? NGX_OK : NGX_ERROR;
}


/*
 * sends a request, small enough for one call of send(), to nginx, and reads the
 * response
 */

static ngx_int_t
mcds_fetch_talk(mcds_fetch_t *f, int fd)
{
    char     request[2048];
    int      len;
    u_char  *data;
    ssize_t  n;

    len = snprintf(request, sizeof(request), "GET %.*s?format=json HTTP/1.0\r\n"
                   "Host: %.*s\r\nAccept: application/json\r\n\r\n",
                   (int) f->path.len, f->path.data, (int) f->host.len,
                   f->host.data);

    if (len >= (int) sizeof(request)) {
        errno = ENAMETOOLONG;
        return NGX_ERROR;
    }

    if (send(fd, request, len, MSG_NOSIGNAL) != len) {
        return NGX_ERROR;
    }

    for ( ;; ) {

        if (mcds_fetch_wait(f, fd, POLLIN) != NGX_OK) {
            return NGX_ERROR;
        }

        data = realloc(f->data, f->len + MCDS_FETCH_STEP);

        if (data == NULL) {
            mcds_no_memory();
        }

        f->data = data;

        n = recv(fd, f->data + f->len, MCDS_FETCH_STEP, 0);

        if (n == 0) {
            return NGX_OK;
        }

        if (n == -1) {

            if (errno == EAGAIN || errno == EINTR) {
                continue;
            }

            return NGX_ERROR;
        }

        f->len += n;

        if (f->len > MCDS_FETCH_MAX) {
            errno = EMSGSIZE;
            return NGX_ERROR;
        }
    }
}


static json_t *
mcds_fetch_parse(mcds_fetch_t *f, char *where)
{
    int      code;
    u_char  *body;
    json_t  *json;

    if (f->len < sizeof("HTTP/1.1 200") - 1
        || ngx_memcmp(f->data, "HTTP/1.", 7) != 0)
    {
        (void) snprintf(f->at, MCDS_FETCH_AT, "nginx does not speak HTTP at "
                        "%s", where);
        return NULL;
    }

    code = ngx_atoi(f->data + 9, 3);

    if (code != 200) {
        (void) snprintf(f->at, MCDS_FETCH_AT, "nginx returns status %d at %s",
                        code, where);
        return NULL;
    }

    body = memmem(f->data, f->len, "\r\n\r\n", 4);
    json = NULL;

    if (body) {
        body += 4;
        json = json_loadb((char *) body, f->data + f->len - body, 0, NULL);
    }

    if (!json_is_object(json) || json_object_get(json, "pools") == NULL) {
        json_decref(json);

        (void) snprintf(f->at, MCDS_FETCH_AT, "the response of nginx at %s is "
                        "not one of mcds_status", where);
        return NULL;
    }

    (void) snprintf(f->at, MCDS_FETCH_AT, "%s", where);

    return json;
}


/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_mcds_forwarded.h"
#include "ngx_http_mcds_cache.h"
#include "ngx_http_mcds_forwarded.h"


typedef struct {
    ngx_array_t      *names;
    ngx_mcds_own_t    own;        /* the request's scheme, host and ports as
                                     nginx sees them; the scheme is empty until
                                     it is needed */
    ngx_uint_t        differ;     /* 1: at least one forwarding header has
                                     another value than nginx itself sees */
    size_t            len;
    u_char           *last;
} ngx_http_mcds_forwarded_t;


static ngx_str_t *ngx_http_mcds_forwarded_pass(ngx_http_request_t *r,
    ngx_http_mcds_forwarded_t *ctx, ngx_str_t *name);
static ngx_uint_t ngx_http_mcds_forwarded_differs(ngx_http_request_t *r,
    ngx_http_mcds_forwarded_t *ctx, ngx_str_t *name, ngx_str_t *value);


ngx_uint_t
ngx_http_mcds_overridden(ngx_http_request_t *r)
{
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h;

    for (part = &r->headers_in.headers.part; part; part = part->next) {

        h = part->elts;

        for (i = 0; i < part->nelts; i++) {

            if (h[i].hash == 0 || !ngx_mcds_forwarded_method(&h[i].key)) {
                continue;
            }

            if (r->method != NGX_HTTP_GET
                || h[i].value.len != 3
                || ngx_strncmp(h[i].value.data, "GET", 3) != 0)
            {
                return 1;
            }
        }
    }

    return 0;
}


ngx_int_t
ngx_http_mcds_forwarded(ngx_http_request_t *r, ngx_http_mcds_cache_conf_t *ccf,
    ngx_str_t *text)
{
    u_char                     *p;
    ngx_str_t                  *name;
    ngx_http_mcds_forwarded_t   ctx;

    ngx_str_null(text);

    ctx.names = ccf->forwarded_headers;
    ctx.own.scheme.len = 0;
    ctx.differ = 0;
    ctx.len = 0;

    name = ngx_http_mcds_forwarded_pass(r, &ctx, NULL);

    /*
     * *text is for a copy of the forwarding headers, such as X-Forwarded-Host.
     * It stays empty if all of them repeat the host, scheme and ports that
     * nginx sees.  If one of them differs, *text gets all of them: an
     * application may obey any of them.
     */

    if (!ctx.differ) {
        return NGX_OK;
    }

    p = ngx_pnalloc(r->pool, ctx.len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    text->data = p;
    ctx.last = p;

    /*
     * *text gets the forwarding headers, such as X-Forwarded-Host, in the order
     * of the list of their names, whatever their order in the request
     */

    while (name) {
        name = ngx_http_mcds_forwarded_pass(r, &ctx, name);
    }

    text->len = ctx.last - p;

    return NGX_OK;
}


/*
 * Copies the request's forwarding headers that have the name "name", such as
 * X-Forwarded-Host, to ctx->last.  Returns the next name in the list of names
 * that the request has a header for, or NULL.  If name is NULL, copies no
 * header: adds up the sizes of all forwarding headers, sets ctx->differ if one
 * of them has another value than nginx itself sees, and returns the first name.
 */

static ngx_str_t *
ngx_http_mcds_forwarded_pass(ngx_http_request_t *r,
    ngx_http_mcds_forwarded_t *ctx, ngx_str_t *name)
{
    ngx_str_t        *found, *next;
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h;

    next = NULL;

    for (part = &r->headers_in.headers.part; part; part = part->next) {

        h = part->elts;

        for (i = 0; i < part->nelts; i++) {

            if (h[i].hash == 0) {
                continue;
            }

            found = ngx_mcds_forwarded_name(ctx->names, &h[i].key);

            if (found == NULL || found < name) {
                continue;
            }

            if (name == NULL) {
                ctx->differ = ctx->differ
                              || ngx_http_mcds_forwarded_differs(r, ctx, found,
                                                                 &h[i].value);

                ctx->len += NGX_MCDS_FORWARDED_LEN + found->len
                            + h[i].value.len;

            } else if (found == name) {
                ctx->last = ngx_mcds_forwarded_write(ctx->last, name,
                                                     &h[i].value);
                continue;
            }

            if (next == NULL || found < next) {
                next = found;
            }
        }
    }

    return next;
}


static ngx_uint_t
ngx_http_mcds_forwarded_differs(ngx_http_request_t *r,
    ngx_http_mcds_forwarded_t *ctx, ngx_str_t *name, ngx_str_t *value)
{
    ngx_str_t       *server;
    ngx_mcds_own_t  *own;

    own = &ctx->own;

    if (own->scheme.len) {
        return ngx_mcds_forwarded_differs(name, value, own);
    }

    ngx_str_set(&own->scheme, "http");
    own->port = 80;

#if (NGX_HTTP_SSL)
    if (r->connection->ssl) {
        ngx_str_set(&own->scheme, "https");
        own->port = 443;
    }
#endif

    own->local_port = ngx_inet_get_port(r->connection->local_sockaddr);

    server = &r->headers_in.server;
    own->host = *server;

    if (r->headers_in.host) {
        own->host = r->headers_in.host->value;

        if (own->host.len > server->len
            && own->host.data[server->len] == ':')
        {
            own->port = ngx_atoi(own->host.data + server->len + 1,
                                 own->host.len - server->len - 1);
        }
    }

    return ngx_mcds_forwarded_differs(name, value, own);
}


/*
 * parses mcds_cache_forwarded_headers: its arguments are names of headers,
 * "default" for the built-in names, or "off"
 */

char *
ngx_http_mcds_cache_forwarded_headers(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    ngx_http_mcds_cache_conf_t *ccf = conf;

    ngx_str_t    *value, *name;
    ngx_uint_t    i, off;
    ngx_array_t  *names;

    names = ccf->forwarded_headers;

    value = cf->args->elts;
    off = 0;

    for (i = 1; i < cf->args->nelts; i++) {

        if (value[i].len == 0) {
            return "needs names of headers";
        }

        off |= (ngx_strcmp(value[i].data, "off") == 0);
    }

    /* an empty array of names of forwarding headers stands for "off" */

    if (names != NGX_CONF_UNSET_PTR && names->nelts == 0 && off
        && cf->args->nelts == 2)
    {
        return "is duplicate";
    }

    if (names != NGX_CONF_UNSET_PTR
        ? (off || names->nelts == 0) : (off && cf->args->nelts > 2))
    {
        return "is \"off\" beside names";
    }

    if (names == NGX_CONF_UNSET_PTR) {

        names = ngx_array_create(cf->pool, 4, sizeof(ngx_str_t));
        if (names == NULL) {
            return NGX_CONF_ERROR;
        }

        ccf->forwarded_headers = names;
    }

    for (i = 1; i < cf->args->nelts && !off; i++) {

        if (ngx_strcmp(value[i].data, "default") == 0) {

            if (ngx_mcds_forwarded_add(names) != NGX_OK) {
                return NGX_CONF_ERROR;
            }

            continue;
        }

        name = ngx_array_push(names);
        if (name == NULL) {
            return NGX_CONF_ERROR;
        }

        *name = value[i];
    }

    return NGX_CONF_OK;
}

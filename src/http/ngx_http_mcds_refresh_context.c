
/*
 * Copyright (C) mcds authors
 *
 * The context of a detached refresh: all that the phases, the content handler
 * and the variables of its location may ask of the request behind it.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_refresh.h"
#include "ngx_http_mcds_refresh_context.h"


/* room for validators that the caller may push */
#define NGX_HTTP_MCDS_REFRESH_SPARE  4


typedef struct {
    ngx_table_elt_t           **from;
    ngx_table_elt_t            *to;
    ngx_uint_t                  n;
} ngx_http_mcds_refresh_map_t;


static ngx_int_t ngx_http_mcds_refresh_strings(ngx_http_request_t *main,
    ngx_http_request_t *r);
static ngx_int_t ngx_http_mcds_refresh_headers(ngx_http_request_t *to,
    ngx_http_request_t *from, ngx_uint_t deep);
static ngx_int_t ngx_http_mcds_refresh_parsed(ngx_http_request_t *to,
    ngx_http_request_t *from, ngx_http_mcds_refresh_map_t *map);
static ngx_table_elt_t *ngx_http_mcds_refresh_header(
    ngx_http_mcds_refresh_map_t *map, ngx_table_elt_t *h);
static ngx_int_t ngx_http_mcds_refresh_variables(ngx_http_request_t *main,
    ngx_http_request_t *r);
static ngx_uint_t ngx_http_mcds_refresh_unfit(ngx_http_variable_t *v);
static ngx_int_t ngx_http_mcds_refresh_captures(ngx_http_request_t *main,
    ngx_http_request_t *r);


static ngx_str_t  ngx_http_mcds_refresh_hidden[] = {
    ngx_string("if-"),                     /* and all that begin so */
    ngx_string("range"),
    ngx_string("expect"),
    ngx_string("upgrade"),
    ngx_string("te"),
    ngx_string("content-length"),
    ngx_string("transfer-encoding"),
    ngx_string("connection"),
    ngx_string("keep-alive"),
    ngx_string("proxy-connection"),
    ngx_string("trailer"),
    ngx_string("http2-settings"),
    ngx_null_string
};


/*
 * These cannot be told from the copy, which has no stream and does not know
 * the address before realip: their values are taken while the request is there.
 */

static ngx_str_t  ngx_http_mcds_refresh_eager[] = {
    ngx_string("http2"),
    ngx_string("http3"),
    ngx_string("realip_remote_addr"),
    ngx_string("realip_remote_port"),
    ngx_string("request_port"),
    ngx_string("is_request_port"),
    ngx_null_string
};


/* these are of the client's request or of its response only */

static ngx_str_t  ngx_http_mcds_refresh_lazy[] = {
    ngx_string("request_method"),
    ngx_string("request_body"),
    ngx_string("request_body_file"),
    ngx_string("content_length"),
    ngx_string("bytes_sent"),
    ngx_string("body_bytes_sent"),
    ngx_null_string
};


ngx_int_t
ngx_http_mcds_refresh_context(ngx_http_request_t *main, ngx_http_request_t *r)
{
    if (ngx_http_mcds_refresh_strings(main, r) != NGX_OK
        || ngx_http_mcds_refresh_headers(main, r, 1) != NGX_OK
        || ngx_http_mcds_refresh_variables(main, r) != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_http_mcds_refresh_captures(main, r);
}


ngx_int_t
ngx_http_mcds_refresh_strip(ngx_http_request_t *r)
{
    ngx_uint_t                  i;
    ngx_http_variable_t        *v;
    ngx_http_core_main_conf_t  *cmcf;

    if (ngx_http_mcds_refresh_headers(r, r, 0) != NGX_OK) {
        return NGX_ERROR;
    }

    /* what was read of these headers before */

    cmcf = ngx_http_get_module_main_conf(r, ngx_http_core_module);

    v = cmcf->variables.elts;

    for (i = 0; i < cmcf->variables.nelts; i++) {

        if (v[i].name.len > 5
            && ngx_strncmp(v[i].name.data, "http_", 5) == 0
            && ngx_http_mcds_refresh_unfit(&v[i]))
        {
            r->variables[i].valid = 0;
            r->variables[i].not_found = 0;
        }
    }

    return NGX_OK;
}


ngx_int_t
ngx_http_mcds_refresh_copy(ngx_pool_t *pool, ngx_str_t *to, ngx_str_t *from)
{
    u_char  *p;
    size_t   len;

    len = from->len;

    p = ngx_pnalloc(pool, len + 1);
    if (p == NULL) {
        return NGX_ERROR;
    }

    if (len) {
        ngx_memcpy(p, from->data, len);
    }

    p[len] = '\0';

    to->len = len;
    to->data = p;

    return NGX_OK;
}


static ngx_int_t
ngx_http_mcds_refresh_strings(ngx_http_request_t *main, ngx_http_request_t *r)
{
    ngx_uint_t   i;
    ngx_pool_t  *pool;
    ngx_str_t   *str[7][2] = {
        { &main->request_line, &r->request_line },
        { &main->uri, &r->uri },
        { &main->args, &r->args },
        { &main->exten, &r->exten },
        { &main->unparsed_uri, &r->unparsed_uri },
        { &main->http_protocol, &r->http_protocol },
        { &main->schema, &r->schema }
    };

    pool = main->pool;

    for (i = 0; i < 7; i++) {
        if (ngx_http_mcds_refresh_copy(pool, str[i][0], str[i][1]) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


/*
 * Gives "to" a new list with the headers of "from", less the unwanted.  They
 * cannot be marked as deleted in the old one: proxy and others do not look.
 */

static ngx_int_t
ngx_http_mcds_refresh_headers(ngx_http_request_t *to, ngx_http_request_t *from,
    ngx_uint_t deep)
{
    size_t                        size;
    ngx_uint_t                    i, n;
    ngx_list_t                    list;
    ngx_list_part_t              *part;
    ngx_table_elt_t              *h, *header;
    ngx_http_mcds_refresh_map_t   map;

    n = 0;

    for (part = &from->headers_in.headers.part; part; part = part->next) {
        n += part->nelts;
    }

    map.n = 0;
    map.from = ngx_palloc(to->pool, (n + 1) * sizeof(ngx_table_elt_t *));

    size = sizeof(ngx_table_elt_t);

    if (map.from == NULL
        || ngx_list_init(&list, to->pool, n + NGX_HTTP_MCDS_REFRESH_SPARE, size)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    map.to = list.part.elts;

    for (part = &from->headers_in.headers.part; part; part = part->next) {

        header = part->elts;

        for (i = 0; i < part->nelts; i++) {

            if (header[i].hash == 0
                || ngx_http_mcds_refresh_unwanted(&header[i].key))
            {
                continue;
            }

            h = ngx_list_push(&list);
            if (h == NULL) {
                return NGX_ERROR;
            }

            *h = header[i];
            map.from[map.n++] = &header[i];

#if (nginx_version >= 1023000)
            h->next = NULL;
#endif

            if (!deep) {
                continue;
            }

            if (ngx_http_mcds_refresh_copy(to->pool, &h->key, &h->key)
                != NGX_OK
                || ngx_http_mcds_refresh_copy(to->pool, &h->value, &h->value)
                   != NGX_OK)
            {
                return NGX_ERROR;
            }

            h->lowcase_key = ngx_pnalloc(to->pool, h->key.len);
            if (h->lowcase_key == NULL) {
                return NGX_ERROR;
            }

            ngx_strlow(h->lowcase_key, h->key.data, h->key.len);
        }
    }

    if (ngx_http_mcds_refresh_parsed(to, from, &map) != NGX_OK) {
        return NGX_ERROR;
    }

    to->headers_in.headers = list;
    to->headers_in.headers.last = &to->headers_in.headers.part;

#if (nginx_version >= 1023000)
    to->headers_in.multi = from->headers_in.multi;
    to->headers_in.multi_linked = 0;
#endif

    if (to == from) {
        return NGX_OK;
    }

    to->headers_in.msie = from->headers_in.msie;
    to->headers_in.msie6 = from->headers_in.msie6;
    to->headers_in.opera = from->headers_in.opera;
    to->headers_in.gecko = from->headers_in.gecko;
    to->headers_in.chrome = from->headers_in.chrome;
    to->headers_in.safari = from->headers_in.safari;
    to->headers_in.konqueror = from->headers_in.konqueror;

    return ngx_http_mcds_refresh_copy(to->pool, &to->headers_in.server,
                                      &from->headers_in.server);
}


/*
 * Whatever of nginx's table was known by a pointer, is, by one into the new
 * list.  Calling the table's handlers again instead would choose the server
 * anew and refuse what was accepted.
 */

static ngx_int_t
ngx_http_mcds_refresh_parsed(ngx_http_request_t *to, ngx_http_request_t *from,
    ngx_http_mcds_refresh_map_t *map)
{
    u_char             *src, *dst;
    ngx_table_elt_t    *h, *new, **ph;
    ngx_http_header_t  *hh;

#if (nginx_version < 1023000)
    ngx_uint_t          i;
    ngx_array_t         headers, *many;
#endif

    src = (u_char *) &from->headers_in;
    dst = (u_char *) &to->headers_in;

    for (hh = ngx_http_headers_in; hh->name.len; hh++) {

#if (nginx_version < 1023000)

        if (hh->offset == offsetof(ngx_http_headers_in_t, cookies)
#if (NGX_HTTP_X_FORWARDED_FOR)
            || hh->offset == offsetof(ngx_http_headers_in_t, x_forwarded_for)
#endif
           )
        {
            many = (ngx_array_t *) (src + hh->offset);

            if (many->elts == NULL) {
                continue;
            }

            if (ngx_array_init(&headers, to->pool, many->nelts + 1,
                               sizeof(ngx_table_elt_t *))
                != NGX_OK)
            {
                return NGX_ERROR;
            }

            ph = many->elts;

            for (i = 0; i < many->nelts; i++) {
                new = ngx_http_mcds_refresh_header(map, ph[i]);

                if (new) {
                    *(ngx_table_elt_t **) ngx_array_push(&headers) = new;
                }
            }

            *(ngx_array_t *) (dst + hh->offset) = headers;

            continue;
        }

        h = *(ngx_table_elt_t **) (src + hh->offset);
        ph = (ngx_table_elt_t **) (dst + hh->offset);

        *ph = ngx_http_mcds_refresh_header(map, h);

#else

        h = *(ngx_table_elt_t **) (src + hh->offset);
        ph = (ngx_table_elt_t **) (dst + hh->offset);

        for ( /* void */ ; h; h = h->next) {
            new = ngx_http_mcds_refresh_header(map, h);

            if (new) {
                *ph = new;
                ph = &new->next;
            }
        }

        *ph = NULL;

#endif
    }

    return NGX_OK;
}


static ngx_table_elt_t *
ngx_http_mcds_refresh_header(ngx_http_mcds_refresh_map_t *map,
    ngx_table_elt_t *h)
{
    ngx_uint_t  i;

    for (i = 0; i < map->n; i++) {
        if (map->from[i] == h) {
            return &map->to[i];
        }
    }

    return NULL;
}


ngx_uint_t
ngx_http_mcds_refresh_unwanted(ngx_str_t *name)
{
    u_char      c;
    ngx_str_t  *hidden;
    ngx_uint_t  i;

    for (hidden = ngx_http_mcds_refresh_hidden; hidden->len; hidden++) {

        if (name->len < hidden->len) {
            continue;
        }

        for (i = 0; i < hidden->len; i++) {

            /* a name is that of a header or, with "_", of its variable */

            c = ngx_tolower(name->data[i]);

            if (((c == '_') ? '-' : c) != hidden->data[i]) {
                break;
            }
        }

        if (i < hidden->len) {
            continue;
        }

        if (i == name->len || hidden->data[i - 1] == '-') {
            return 1;
        }
    }

    return 0;
}


static ngx_int_t
ngx_http_mcds_refresh_variables(ngx_http_request_t *main,
    ngx_http_request_t *r)
{
    u_char                     *p;
    ngx_uint_t                  i;
    ngx_str_t                  *eager;
    ngx_http_variable_t        *v;
    ngx_http_variable_value_t  *from, *to;
    ngx_http_core_main_conf_t  *cmcf;

    cmcf = ngx_http_get_module_main_conf(r, ngx_http_core_module);

    v = cmcf->variables.elts;

    for (i = 0; i < cmcf->variables.nelts; i++) {

        for (eager = ngx_http_mcds_refresh_eager; eager->len; eager++) {
            if (v[i].name.len == eager->len
                && ngx_strncmp(v[i].name.data, eager->data, eager->len) == 0)
            {
                (void) ngx_http_get_indexed_variable(r, i);
                break;
            }
        }

        from = &r->variables[i];
        to = &main->variables[i];

        if ((!from->valid && !from->not_found)
            || ngx_http_mcds_refresh_unfit(&v[i]))
        {
            continue;
        }

        *to = *from;

        if (!from->valid || from->len == 0) {
            to->data = (u_char *) "";
            continue;
        }

        /* some modules count on the zero behind */

        p = ngx_pnalloc(main->pool, from->len + 1);
        if (p == NULL) {
            return NGX_ERROR;
        }

        to->data = p;
        p = ngx_cpymem(p, from->data, from->len);
        *p = '\0';
    }

    return NGX_OK;
}


/* whether the value that a variable has in r must not be taken over */

static ngx_uint_t
ngx_http_mcds_refresh_unfit(ngx_http_variable_t *v)
{
    ngx_str_t   name, *lazy;

    name = v->name;

    /* a "set" or "map" that took the name of a header */

    if (v->flags & NGX_HTTP_VAR_CHANGEABLE) {
        return 0;
    }

    if ((name.len > 5 && ngx_strncmp(name.data, "sent_", 5) == 0)
        || (name.len > 9 && ngx_strncmp(name.data, "upstream_", 9) == 0))
    {
        return 1;
    }

    for (lazy = ngx_http_mcds_refresh_lazy; lazy->len; lazy++) {
        if (name.len == lazy->len
            && ngx_strncmp(name.data, lazy->data, name.len) == 0)
        {
            return 1;
        }
    }

    if (name.len <= 5 || ngx_strncmp(name.data, "http_", 5) != 0) {
        return 0;
    }

    name.data += 5;
    name.len -= 5;

    return ngx_http_mcds_refresh_unwanted(&name);
}


static ngx_int_t
ngx_http_mcds_refresh_captures(ngx_http_request_t *main, ngx_http_request_t *r)
{
#if (NGX_PCRE)

    int                         end;
    ngx_uint_t                  i;
    ngx_http_core_main_conf_t  *cmcf;

    /*
     * a regex without groups fills nothing, not even the pair of the whole
     * match, which nobody asks for
     */

    if (r->ncaptures <= 2) {
        return NGX_OK;
    }

    cmcf = ngx_http_get_module_main_conf(r, ngx_http_core_module);

    /* what a later regex does not fill must be no memory of somebody else */

    main->captures = ngx_pcalloc(main->pool, cmcf->ncaptures * sizeof(int));
    if (main->captures == NULL) {
        return NGX_ERROR;
    }

    end = 0;

    for (i = 2; i < r->ncaptures; i++) {
        main->captures[i] = r->captures[i];
        end = ngx_max(end, r->captures[i]);
    }

    main->captures_data = ngx_pnalloc(main->pool, end + 1);
    if (main->captures_data == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(main->captures_data, r->captures_data, end);
    main->captures_data[end] = '\0';

    main->ncaptures = r->ncaptures;

#endif

    return NGX_OK;
}


/*
 * Copyright (C) mcds authors
 *
 * The context of a refresh, the copy of the client's request that builds the
 * page in the background: all data of the client's request that the phases, the
 * content handler and the variables of the copy's location may read.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_header.h"
#include "ngx_http_mcds_nginx.h"
#include "ngx_http_mcds_refresh.h"
#include "ngx_http_mcds_refresh_context.h"


/*
 * free elements in the list of request headers of a refresh, for validators
 * such as If-None-Match that the caller may push
 */
#define NGX_HTTP_MCDS_REFRESH_SPARE  4


typedef struct {
    ngx_table_elt_t            *from;
    ngx_table_elt_t            *to;             /* the refresh's copy of the
                                                   header to which the field
                                                   "from" points; NULL: the
                                                   refresh leaves it out */
} ngx_http_mcds_refresh_pair_t;

typedef struct {
    ngx_http_mcds_refresh_pair_t  *pair;
    ngx_uint_t                     n;
} ngx_http_mcds_refresh_map_t;


static ngx_int_t ngx_http_mcds_refresh_strings(ngx_http_request_t *main,
    ngx_http_request_t *r);
static ngx_int_t ngx_http_mcds_refresh_headers(ngx_http_request_t *to,
    ngx_http_request_t *from, ngx_uint_t deep);
static ngx_int_t ngx_http_mcds_refresh_parsed(ngx_http_request_t *to,
    ngx_http_request_t *from, ngx_http_mcds_refresh_map_t *map);
#if (nginx_version < 1023000)
static ngx_int_t ngx_http_mcds_refresh_array(ngx_http_request_t *r,
    ngx_array_t *to, ngx_array_t *from, ngx_http_mcds_refresh_map_t *map);
#endif
static ngx_table_elt_t *ngx_http_mcds_refresh_header(
    ngx_http_mcds_refresh_map_t *map, ngx_table_elt_t *h, ngx_uint_t start);
static ngx_int_t ngx_http_mcds_refresh_variables(ngx_http_request_t *main,
    ngx_http_request_t *r);
static ngx_uint_t ngx_http_mcds_refresh_unfit(ngx_http_variable_t *v);
static ngx_int_t ngx_http_mcds_refresh_captures(ngx_http_request_t *main,
    ngx_http_request_t *r);


static ngx_str_t  ngx_http_mcds_refresh_hidden[] = {
    ngx_string("if-"),                     /* a refresh leaves out all request
                                              headers that begin with "if-" */
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
 * Variables that a refresh cannot evaluate: it has no stream of HTTP/2 or
 * HTTP/3 and does not know the client's address before realip changed it.
 * Their values are taken from the client's request.
 */

static ngx_str_t  ngx_http_mcds_refresh_eager[] = {
    ngx_string("http2"),
    ngx_string("http3"),
    ngx_string("realip_remote_addr"),
    ngx_string("realip_remote_port"),
    ngx_null_string
};


/*
 * variables whose values a refresh does not copy from the client's request,
 * since they belong to that request alone or to its response
 */

static ngx_str_t  ngx_http_mcds_refresh_lazy[] = {
    ngx_string("http_cache_control"),
    ngx_string("request_method"),
    ngx_string("request_body"),
    ngx_string("request_body_file"),
    ngx_string("content_length"),
    ngx_string("bytes_sent"),
    ngx_string("body_bytes_sent"),
    ngx_null_string
};


ngx_http_mcds_refresh_value_pt  ngx_http_mcds_refresh_value;


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

    /*
     * drops the values that nginx has cached of variables such as $http_range,
     * since the request headers of these variables may have been removed
     */

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
 * Gives the request "to" a new list with the headers of the request "from",
 * without those that a refresh leaves out.  "deep": copies the headers, for a
 * request without a client, and leaves out only-if-cached, too.  Marking
 * headers as deleted in the old list is not enough: the proxy module and others
 * ignore the mark.
 */

static ngx_int_t
ngx_http_mcds_refresh_headers(ngx_http_request_t *to, ngx_http_request_t *from,
    ngx_uint_t deep)
{
    size_t                         size;
    ngx_uint_t                     i, n;
    ngx_list_t                     list;
    ngx_list_part_t               *part;
    ngx_table_elt_t               *h, *header;
    ngx_http_mcds_refresh_map_t    map;
    ngx_http_mcds_refresh_pair_t  *pair;

    n = 0;

    for (part = &from->headers_in.headers.part; part; part = part->next) {
        n += part->nelts;
    }

    map.n = 0;
    map.pair = ngx_palloc(to->pool,
                          (n + 1) * sizeof(ngx_http_mcds_refresh_pair_t));

    size = sizeof(ngx_table_elt_t);
    if (map.pair == NULL
        || ngx_list_init(&list, to->pool, n + NGX_HTTP_MCDS_REFRESH_SPARE, size)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    for (part = &from->headers_in.headers.part; part; part = part->next) {

        header = part->elts;

        for (i = 0; i < part->nelts; i++) {

            pair = &map.pair[map.n++];
            pair->from = &header[i];
            pair->to = NULL;

            if (header[i].hash == 0
                || ngx_http_mcds_refresh_unwanted(&header[i].key)
                || (deep && ngx_http_mcds_header_only_if_cached(&header[i])))
            {
                continue;
            }

            h = ngx_list_push(&list);
            if (h == NULL) {
                return NGX_ERROR;
            }

            *h = header[i];
            pair->to = h;

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
 * Copies those fields of r->headers_in, such as "host" and "cookie", that point
 * to a parsed header, from the client's request to the refresh.  A pointer to a
 * header in the list of the client's request becomes a pointer to the copy of
 * this header in the list of the refresh; any other pointer becomes NULL.
 * Nginx's handlers for these headers are not called again: they would choose
 * the server anew, and could refuse a request that nginx has accepted.
 */

static ngx_int_t
ngx_http_mcds_refresh_parsed(ngx_http_request_t *to, ngx_http_request_t *from,
    ngx_http_mcds_refresh_map_t *map)
{
    ngx_uint_t              i;
    ngx_table_elt_t       **src, **dst;
    ngx_http_headers_in_t   in;
#if (nginx_version >= 1023000)
    ngx_table_elt_t        *h;
#endif

    in = from->headers_in;

    src = (ngx_table_elt_t **) ((u_char *) &in
                                + NGX_HTTP_MCDS_PARSED_FIRST);
    dst = (ngx_table_elt_t **) ((u_char *) &to->headers_in
                                + NGX_HTTP_MCDS_PARSED_FIRST);

    for (i = 0; i < NGX_HTTP_MCDS_PARSED_N; i++) {
        dst[i] = ngx_http_mcds_refresh_header(map, src[i], 0);
    }

#if (nginx_version >= 1023000)

    for (i = 0; i < map->n; i++) {
        h = map->pair[i].to;

        if (h) {
            h->next = ngx_http_mcds_refresh_header(map,
                                                   map->pair[i].from->next, i);
        }
    }

#else

#if (NGX_HTTP_X_FORWARDED_FOR)
    if (ngx_http_mcds_refresh_array(to, &to->headers_in.x_forwarded_for,
                                    &in.x_forwarded_for, map)
        != NGX_OK)
    {
        return NGX_ERROR;
    }
#endif

    if (ngx_http_mcds_refresh_array(to, &to->headers_in.cookies, &in.cookies,
                                    map)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

#endif

    return NGX_OK;
}


#if (nginx_version < 1023000)

static ngx_int_t
ngx_http_mcds_refresh_array(ngx_http_request_t *r, ngx_array_t *to,
    ngx_array_t *from, ngx_http_mcds_refresh_map_t *map)
{
    ngx_uint_t         i;
    ngx_table_elt_t   *new, **ph;

    if (from->elts == NULL) {
        ngx_memzero(to, sizeof(ngx_array_t));
        return NGX_OK;
    }

    if (ngx_array_init(to, r->pool, from->nelts + 1, sizeof(ngx_table_elt_t *))
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    ph = from->elts;

    for (i = 0; i < from->nelts; i++) {
        new = ngx_http_mcds_refresh_header(map, ph[i], 0);

        if (new) {
            *(ngx_table_elt_t **) ngx_array_push(to) = new;
        }
    }

    return NGX_OK;
}

#endif


/*
 * Finds the copy of a header of the client's request in the list of a refresh,
 * or, if the refresh leaves that header out, the copy of the next header of the
 * same name; NULL if there is none.  The search begins at the index "start",
 * since nginx chains headers of one name in the order of the list.
 */

static ngx_table_elt_t *
ngx_http_mcds_refresh_header(ngx_http_mcds_refresh_map_t *map,
    ngx_table_elt_t *h, ngx_uint_t start)
{
    ngx_uint_t                     i, k;
    ngx_http_mcds_refresh_pair_t  *pair;

    for (i = 0; h && i < map->n; i++) {

        k = start + i;
        pair = &map->pair[(k < map->n) ? k : k - map->n];

        if (pair->from != h) {
            continue;
        }

#if (nginx_version >= 1023000)

        if (pair->to == NULL) {
            h = h->next;
            continue;
        }

#endif

        return pair->to;
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

            /*
             * the name to look up among the headers that a refresh leaves out
             * may be that of a header, such as "if-match", or of the header's
             * variable, in which "_" replaces "-"
             */

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
    ngx_int_t                   rc;
    ngx_uint_t                  i;
    ngx_str_t                  *eager;
    ngx_http_variable_t        *v;
    ngx_http_variable_value_t  *from, *to, value;
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

        rc = ngx_http_mcds_refresh_value
             ? ngx_http_mcds_refresh_value(r, &v[i], &value) : NGX_DECLINED;

        if (rc == NGX_ERROR) {
            return NGX_ERROR;
        }

        if (rc == NGX_OK) {
            from = &value;
        }

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

        /*
         * some modules of nginx rely on a zero byte behind the value of a
         * variable
         */

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


/*
 * 1 if a refresh must not take over the value that the variable has in the
 * client's request
 */

static ngx_uint_t
ngx_http_mcds_refresh_unfit(ngx_http_variable_t *v)
{
    ngx_str_t   name, *lazy;

    name = v->name;

    /*
     * a refresh takes over a variable that "set", "map" or the like defines,
     * even one with the name of a header's variable: its value does not belong
     * to the client's request alone
     */

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
     * a regular expression without groups has no captures to copy, only the
     * pair of offsets for the whole match, which nginx never reads
     */

    if (r->ncaptures <= 2) {
        return NGX_OK;
    }

    cmcf = ngx_http_get_module_main_conf(r, ngx_http_core_module);

    /*
     * the array of captures is zeroed, since a later regular expression may
     * have fewer groups than the array has pairs of offsets
     */

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

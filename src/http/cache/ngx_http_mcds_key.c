
/*
 * Copyright (C) mcds authors
 *
 * Makes the key of a page from the request, by default or by mcds_cache_key.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_name.h"
#include "ngx_http_mcds_nginx.h"
#include "ngx_http_mcds_param_type.h"
#include "ngx_http_mcds_cache.h"
#include "ngx_http_mcds_key.h"
#include "ngx_http_mcds_site.h"


/*
 * the maximum number of arguments of a URI that are sorted in the page's key:
 * if there are more, they are not sorted
 */
#define NGX_HTTP_MCDS_MAX_ARGS    256

/*
 * the maximum length of the name of a URI's argument that mcds_cache_key_args
 * may leave out: arguments with longer names stay in the key
 */
#define NGX_HTTP_MCDS_ARG_NAME    64


typedef struct {
    ngx_str_t     text;           /* argument of the URI, with its name */
    size_t        name;           /* length of the name of the URI's
                                     argument */
    ngx_uint_t    order;
} ngx_http_mcds_arg_t;


static ngx_int_t ngx_http_mcds_default_key(ngx_http_request_t *r,
    ngx_http_mcds_cache_conf_t *ccf, ngx_str_t *key);
static ngx_int_t ngx_http_mcds_key_port(ngx_http_request_t *r,
    ngx_str_t *port);
static ngx_int_t ngx_http_mcds_key_args(ngx_http_request_t *r,
    ngx_http_mcds_cache_conf_t *ccf, ngx_str_t *args);
static ngx_int_t ngx_http_mcds_key_split(ngx_http_request_t *r,
    ngx_http_mcds_key_args_t *conf, ngx_str_t *args, ngx_array_t *list);
static ngx_uint_t ngx_http_mcds_key_ignored(ngx_http_mcds_key_args_t *conf,
    u_char *p, u_char *last);
static int ngx_libc_cdecl ngx_http_mcds_key_cmp(const void *one,
    const void *two);
static ngx_uint_t ngx_http_mcds_key_repeats(ngx_http_mcds_arg_t *arg,
    ngx_uint_t i, ngx_uint_t n);
static ngx_int_t ngx_http_mcds_key_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static char *ngx_http_mcds_key_names(ngx_conf_t *cf,
    ngx_http_mcds_param_t *param, ngx_str_t *text, void *conf);


static ngx_http_variable_t  ngx_http_mcds_key_vars[] = {

    { ngx_string("mcds_cache_key"), NULL,
      ngx_http_mcds_key_variable, 0,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

      ngx_http_null_variable
};

/*
 * not 0 while mcds_cache_key is evaluated: the variable $mcds_cache_key is
 * then the default key
 */
static ngx_uint_t  ngx_http_mcds_key_making;
/* 1 if mcds_cache_key uses the default key, but the request has none */
static ngx_uint_t  ngx_http_mcds_key_declined;


ngx_int_t
ngx_http_mcds_key_add_variables(ngx_conf_t *cf)
{
    return ngx_http_mcds_add_vars(cf, ngx_http_mcds_key_vars);
}


ngx_int_t
ngx_http_mcds_cache_key(ngx_http_request_t *r, ngx_http_mcds_cache_conf_t *ccf,
    ngx_str_t *key)
{
    ngx_int_t  rc;

    if (ccf->cache_key == NULL) {
        rc = ngx_http_mcds_default_key(r, ccf, key);

        if (rc != NGX_OK) {
            return rc;
        }

    } else {
        ngx_http_mcds_key_making++;
        ngx_http_mcds_key_declined = 0;

        rc = ngx_http_complex_value(r, ccf->cache_key, key);

        ngx_http_mcds_key_making--;

        if (rc != NGX_OK) {
            return NGX_ERROR;
        }

        /*
         * mcds_cache_key uses the default key, which this request does not
         * have: without it many pages could get the same key
         */

        if (ngx_http_mcds_key_declined) {
            return NGX_DECLINED;
        }
    }

    if (key->len == 0
        || key->len > NGX_MCDS_ENTRY_KEY
        || ngx_http_mcds_key_taken(key))
    {
        return NGX_DECLINED;
    }

    return ngx_http_mcds_site_add(r, ccf->site, key);
}


/*
 * Makes the default key of a page: scheme, host with the port that the client
 * has named, and the URI as the client wrote it, except for arguments that
 * mcds_cache_key_args leaves out or sorts.  A subrequest has only the URI that
 * it was created with; if this URI was rewritten before the lookup, nginx no
 * longer has it, and the subrequest is not cached.
 */

static ngx_int_t
ngx_http_mcds_default_key(ngx_http_request_t *r,
    ngx_http_mcds_cache_conf_t *ccf, ngx_str_t *key)
{
    u_char                     *p;
    size_t                      escape;
    ngx_str_t                   scheme, host, port, uri, args;
    ngx_http_mcds_cache_ctx_t  *ctx;

    ngx_str_set(&scheme, "http");

#if (NGX_HTTP_SSL)
    if (r->connection->ssl) {
        ngx_str_set(&scheme, "https");
    }
#endif

    host = r->headers_in.server;

    if (ngx_http_mcds_key_port(r, &port) != NGX_OK) {
        return NGX_DECLINED;
    }

    ngx_str_null(&args);
    escape = 0;

    if (r == r->main) {
        uri = r->unparsed_uri;

        if (ccf->key_args) {
            p = ngx_strlchr(uri.data, uri.data + uri.len, '?');

            if (p) {
                args.data = p + 1;
                args.len = uri.data + uri.len - args.data;
                uri.len = p - uri.data;
            }
        }

    } else {
        ctx = ngx_http_mcds_cache_get(r);

        if (ctx && ctx->uri.len) {
            uri = ctx->uri;
            args = ctx->args;

        } else if (r->uri_changes == NGX_HTTP_MAX_URI_CHANGES + 1) {
            uri = r->uri;
            args = r->args;

        } else {
            return NGX_DECLINED;
        }

        escape = 2 * ngx_escape_uri(NULL, uri.data, uri.len, NGX_ESCAPE_URI);
    }

    if (args.len && ngx_http_mcds_key_args(r, ccf, &args) != NGX_OK) {
        return NGX_ERROR;
    }

    p = ngx_pnalloc(r->pool, scheme.len + 3 + host.len + port.len + uri.len
                             + escape + 1 + args.len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    key->data = p;

    p = ngx_cpymem(p, scheme.data, scheme.len);
    p = ngx_cpymem(p, "://", 3);
    p = ngx_cpymem(p, host.data, host.len);
    p = ngx_cpymem(p, port.data, port.len);

    if (escape) {
        p = (u_char *) ngx_escape_uri(p, uri.data, uri.len, NGX_ESCAPE_URI);

    } else {
        p = ngx_cpymem(p, uri.data, uri.len);
    }

    if (args.len) {
        *p++ = '?';
        p = ngx_cpymem(p, args.data, args.len);
    }

    key->len = p - key->data;

    return NGX_OK;
}


ngx_int_t
ngx_http_mcds_key_host(ngx_http_request_t *r)
{
#ifdef NGX_HTTP_VERSION_30
    ngx_uint_t                  i, n;
    ngx_list_t                 *headers;
    ngx_list_part_t            *part;
    ngx_table_elt_t            *h;
    ngx_http_request_t         *main;
    ngx_http_variable_t        *v;
    ngx_http_core_main_conf_t  *cmcf;

    main = r->main;

    if (r->http_version != NGX_HTTP_VERSION_30
        || r->headers_in.host
        || main->host_start == NULL)
    {
        return NGX_OK;
    }

    /*
     * The Host header becomes a new first part of the request's list of
     * headers.  If the list has no other part, other modules push their headers
     * into this one: it gets room for them.
     */

    headers = &r->headers_in.headers;
    n = headers->part.nelts ? 1 : headers->nalloc;

    h = ngx_palloc(r->pool, n * sizeof(ngx_table_elt_t));
    part = ngx_palloc(r->pool, sizeof(ngx_list_part_t));

    if (h == NULL || part == NULL) {
        return NGX_ERROR;
    }

    ngx_memzero(h, sizeof(ngx_table_elt_t));

    ngx_str_set(&h->key, "host");
    h->lowcase_key = h->key.data;
    h->hash = ngx_hash_key(h->key.data, h->key.len);
    h->value.data = main->host_start;
    h->value.len = main->host_end - main->host_start;

    *part = headers->part;

    if (part->nelts == 0) {

        /*
         * the old first part of the list of headers is empty, and is left out:
         * nginx expects that only the first part of a list may be empty
         */

        headers->last = &headers->part;

    } else {
        headers->part.next = part;

        if (part->next == NULL) {
            headers->last = part;
        }
    }

    headers->part.elts = h;
    headers->part.nelts = 1;

    r->headers_in.host = h;

    /* an earlier evaluation of $http_host may have cached "not found" */

    cmcf = ngx_http_get_module_main_conf(r, ngx_http_core_module);

    v = cmcf->variables.elts;

    for (i = 0; i < cmcf->variables.nelts; i++) {
        if (r->variables[i].not_found
            && v[i].name.len == sizeof("http_host") - 1
            && ngx_strncmp(v[i].name.data, "http_host", v[i].name.len) == 0)
        {
            r->variables[i].not_found = 0;
        }
    }

#endif

    return NGX_OK;
}


/*
 * Sets *port to the port in the Host header of a request, with its ":", for
 * the key: an origin makes links from the whole header.  NGX_DECLINED if Host
 * names another host or port than nginx has chosen: for an absolute URI in the
 * request line, nginx chooses those in the URI.  nginx sends to the origin the
 * header, but since 1.29.5 FastCGI, SCGI and uwsgi send what nginx has chosen.
 */

static ngx_int_t
ngx_http_mcds_key_port(ngx_http_request_t *r, ngx_str_t *port)
{
    u_char     *p, *last;
    ngx_str_t  *server, *value;

    ngx_str_set(port, "");

    server = &r->headers_in.server;

    if (r->headers_in.host == NULL) {
        return server->len ? NGX_DECLINED : NGX_OK;
    }

    value = &r->headers_in.host->value;

    /*
     * the host of a request, as nginx has it, usually points into the Host
     * header: nginx copies it only to convert it to lower case
     */

    if (value->len < server->len
        || (value->data != server->data
            && ngx_strncasecmp(value->data, server->data, server->len) != 0))
    {
        return NGX_DECLINED;
    }

    p = value->data + server->len;
    last = value->data + value->len;

    port->data = p;
    port->len = last - p;

    if (p < last && *p++ != ':') {
        return NGX_DECLINED;
    }

    while (p < last) {
        if (*p < '0' || *p > '9') {
            return NGX_DECLINED;
        }

        p++;
    }

#if (NGX_HTTP_MCDS_HAVE_PORT)

    if (r->main->port
        && (port->len < 2
            || ngx_atoi(port->data + 1, port->len - 1)
               != (ngx_int_t) r->main->port))
    {
        return NGX_DECLINED;
    }

#endif

    return NGX_OK;
}


/*
 * removes the arguments of a URI that the page's key ignores, and sorts the
 * others
 */

static ngx_int_t
ngx_http_mcds_key_args(ngx_http_request_t *r, ngx_http_mcds_cache_conf_t *ccf,
    ngx_str_t *args)
{
    u_char               *p;
    ngx_uint_t            i, sort;
    ngx_array_t           list;
    ngx_http_mcds_arg_t  *arg;

    if (ccf->key_args == NULL) {
        return NGX_OK;
    }

    if (ngx_array_init(&list, r->pool, 8, sizeof(ngx_http_mcds_arg_t))
        != NGX_OK
        || ngx_http_mcds_key_split(r, ccf->key_args, args, &list) != NGX_OK)
    {
        return NGX_ERROR;
    }

    p = ngx_pnalloc(r->pool, args->len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    arg = list.elts;
    sort = ccf->key_args->sort && list.nelts <= NGX_HTTP_MCDS_MAX_ARGS;

    if (sort) {
        ngx_qsort(arg, list.nelts, sizeof(ngx_http_mcds_arg_t),
                  ngx_http_mcds_key_cmp);
    }

    args->data = p;

    for (i = 0; i < list.nelts; i++) {

        if (sort && ngx_http_mcds_key_repeats(arg, i, list.nelts)) {
            continue;
        }

        if (p != args->data) {
            *p++ = '&';
        }

        p = ngx_cpymem(p, arg[i].text.data, arg[i].text.len);
    }

    args->len = p - args->data;

    return NGX_OK;
}


static ngx_int_t
ngx_http_mcds_key_split(ngx_http_request_t *r,
    ngx_http_mcds_key_args_t *conf, ngx_str_t *args, ngx_array_t *list)
{
    u_char               *p, *last, *end, *name;
    ngx_http_mcds_arg_t  *arg;

    p = args->data;
    last = p + args->len;

    for ( /* void */ ; p < last; p = end + 1) {

        end = ngx_strlchr(p, last, '&');

        if (end == NULL) {
            end = last;
        }

        name = ngx_strlchr(p, end, '=');

        if (name == NULL) {
            name = end;
        }

        /*
         * an argument of the URI with a semicolon stays in the page's key, as
         * for some origins a semicolon separates arguments
         */

        if (end == p
            || (ngx_http_mcds_key_ignored(conf, p, name)
                && ngx_strlchr(p, end, ';') == NULL))
        {
            continue;
        }

        arg = ngx_array_push(list);
        if (arg == NULL) {
            return NGX_ERROR;
        }

        arg->text.data = p;
        arg->text.len = end - p;
        arg->name = name - p;
        arg->order = list->nelts;
    }

    return NGX_OK;
}


static ngx_uint_t
ngx_http_mcds_key_ignored(ngx_http_mcds_key_args_t *conf, u_char *p,
    u_char *last)
{
    u_char       lower[NGX_HTTP_MCDS_ARG_NAME];
    size_t       len;
    ngx_str_t   *name;
    ngx_uint_t   i;

    /*
     * With "only=page" of mcds_cache_key_args, an argument also stays in the
     * page's key if the origin may take its name for "page": "p%61ge", "Page",
     * and "page[]" or ".page", which PHP converts.
     */

    if (conf->only) {
        len = last - p;

        if (len > NGX_HTTP_MCDS_ARG_NAME) {
            return 0;
        }

        for (i = 0; i < len; i++) {
            lower[i] = ngx_tolower(p[i]);

            if (!((lower[i] >= 'a' && lower[i] <= 'z')
                  || (lower[i] >= '0' && lower[i] <= '9')
                  || lower[i] == '_' || lower[i] == '-'))
            {
                return 0;
            }
        }

        p = lower;
        last = lower + len;
    }

    name = conf->names.elts;

    for (i = 0; i < conf->names.nelts; i++) {
        if (ngx_http_mcds_match(name[i].data, name[i].data + name[i].len,
                                p, last))
        {
            return !conf->only;
        }
    }

    return conf->only;
}


/*
 * compares arguments of a URI by their names, to sort them: arguments of one
 * name keep their order, since some applications use the last one
 */

static int ngx_libc_cdecl
ngx_http_mcds_key_cmp(const void *one, const void *two)
{
    ngx_int_t             rc;
    ngx_http_mcds_arg_t  *a, *b;

    a = (ngx_http_mcds_arg_t *) one;
    b = (ngx_http_mcds_arg_t *) two;

    rc = ngx_memn2cmp(a->text.data, b->text.data, a->name, b->name);

    if (rc) {
        return (int) rc;
    }

    return (a->order < b->order) ? -1 : 1;
}


/*
 * Returns 1 if an argument repeats the one before it and can be left out of
 * the page's key: only if all arguments of this name are equal, since the
 * order of different values may matter, and not if repetition makes a list
 * longer, as "a[]" does.
 */

static ngx_uint_t
ngx_http_mcds_key_repeats(ngx_http_mcds_arg_t *arg, ngx_uint_t i,
    ngx_uint_t n)
{
    u_char     *p;
    ngx_int_t   first, last, k;

    p = arg[i].text.data;

    for (k = 0; k < (ngx_int_t) arg[i].name; k++) {
        if (p[k] == '[' || p[k] == '%') {
            return 0;
        }
    }

    first = i;

    while (first > 0
           && ngx_memn2cmp(arg[first - 1].text.data, p,
                           arg[first - 1].name, arg[i].name)
              == 0)
    {
        first--;
    }

    if (first == (ngx_int_t) i) {
        return 0;
    }

    last = i;

    while (last + 1 < (ngx_int_t) n
           && ngx_memn2cmp(arg[last + 1].text.data, p,
                           arg[last + 1].name, arg[i].name)
              == 0)
    {
        last++;
    }

    for (k = first; k <= last; k++) {
        if (ngx_memn2cmp(arg[k].text.data, p, arg[k].text.len,
                         arg[i].text.len)
            != 0)
        {
            return 0;
        }
    }

    return 1;
}


ngx_uint_t
ngx_http_mcds_match(u_char *p, u_char *last, u_char *name, u_char *end)
{
    u_char  *star, *mark;

    star = NULL;
    mark = NULL;

    while (name < end) {

        if (p < last && *p == '*') {
            star = ++p;
            mark = name;
            continue;
        }

        if (p < last && *p == *name) {
            p++;
            name++;
            continue;
        }

        if (star == NULL) {
            return 0;
        }

        p = star;
        name = ++mark;
    }

    while (p < last && *p == '*') {
        p++;
    }

    return p == last;
}


static ngx_int_t
ngx_http_mcds_key_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_int_t                    rc;
    ngx_str_t                    key;
    ngx_http_mcds_cache_ctx_t   *ctx;
    ngx_http_mcds_cache_conf_t  *ccf;

    if (ngx_http_mcds_key_making) {
        ccf = ngx_http_get_module_loc_conf(r, ngx_http_mcds_cache_module);

        rc = ngx_http_mcds_default_key(r, ccf, &key);

        if (rc == NGX_ERROR) {
            return NGX_ERROR;
        }

        if (rc == NGX_DECLINED) {
            ngx_http_mcds_key_declined = 1;
            ngx_str_null(&key);
        }

    } else {
        ctx = ngx_http_mcds_cache_get(r);

        if (ctx) {
            key = ngx_http_mcds_site_key(&ctx->key);

        } else {
            ngx_str_null(&key);
        }
    }

    if (key.len == 0) {
        v->not_found = 1;
        return NGX_OK;
    }

    v->data = key.data;
    v->len = key.len;
    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;

    return NGX_OK;
}


static ngx_http_mcds_param_t  ngx_http_mcds_key_args_params[] = {

    { ngx_string("sort"),
      ngx_http_mcds_param_word,
      ngx_http_mcds_field(ngx_http_mcds_key_args_t, sort),
      1, 0, 0, NULL },

    { ngx_string("ignore="),
      ngx_http_mcds_key_names,
      ngx_http_mcds_field(ngx_http_mcds_key_args_t, only),
      0, 0, 0, NULL },

    { ngx_string("only="),
      ngx_http_mcds_key_names,
      ngx_http_mcds_field(ngx_http_mcds_key_args_t, only),
      1, 0, 0, NULL },

      ngx_http_mcds_params_end
};


char *
ngx_http_mcds_cache_key_set(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_str_t  *value;

    value = cf->args->elts;

    /*
     * most directives can be turned off; "off" as the key would be the same key
     * for all pages of the location
     */

    if (ngx_http_mcds_is_off(cf)) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid key \"%V\" in \"%V\", it would be that of "
                           "all pages; \"$mcds_cache_key\" is the default key",
                           &value[1], &cmd->name);
        return NGX_CONF_ERROR;
    }

    return ngx_http_set_complex_value_slot(cf, cmd, conf);
}


char *
ngx_http_mcds_cache_key_args(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mcds_cache_conf_t *ccf = conf;

    char                      *rv;
    ngx_http_mcds_key_args_t  *args;

    rv = ngx_http_mcds_param_off(cf, &ccf->key_args);

    if (rv != NGX_CONF_OK || ccf->key_args == NULL) {
        return rv;
    }

    args = ngx_pcalloc(cf->pool, sizeof(ngx_http_mcds_key_args_t));
    if (args == NULL) {
        return NGX_CONF_ERROR;
    }

    if (ngx_array_init(&args->names, cf->pool, 4, sizeof(ngx_str_t))
        != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    ccf->key_args = args;

    return ngx_http_mcds_params(cf, cmd, 1, ngx_http_mcds_key_args_params,
                                args);
}


/*
 * parses a list of arguments' names separated by commas, for
 * mcds_cache_key_args
 */

static char *
ngx_http_mcds_key_names(ngx_conf_t *cf, ngx_http_mcds_param_t *param,
    ngx_str_t *text, void *conf)
{
    ngx_http_mcds_key_args_t *args = conf;

    u_char     *p, *comma, *last;
    ngx_str_t  *name;

    args->only = param->low;

    p = text->data;
    last = p + text->len;

    for ( ;; ) {

        comma = ngx_strlchr(p, last, ',');
        if (comma == NULL) {
            comma = last;
        }

        if (comma == p) {
            return "a list of names, of which none is empty";
        }

        name = ngx_array_push(&args->names);
        if (name == NULL) {
            return NGX_CONF_ERROR;
        }

        name->data = p;
        name->len = comma - p;

        if (args->only) {
            ngx_strlow(p, p, comma - p);
        }

        if (comma == last) {
            return NGX_CONF_OK;
        }

        p = comma + 1;
    }
}

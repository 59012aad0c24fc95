
/*
 * Copyright (C) mcds authors
 *
 * Compares the version of nginx that mcds is built for with those that mcds
 * knows.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_mcds.h"
#include "ngx_http_mcds_module.h"
#include "ngx_http_mcds_nginx.h"


/*
 * a name of a location and the kind of its match; Angie's ngx_http_core_loc_t
 * has the fields of nginx's ngx_http_core_loc_conf_t
 */

#if (NGX_PCRE)
#define ngx_http_mcds_nginx_prefix(loc)                                       \
    (!(loc)->exact_match && !(loc)->named && (loc)->regex == NULL)
#else
#define ngx_http_mcds_nginx_prefix(loc)                                       \
    (!(loc)->exact_match && !(loc)->named)
#endif

#define ngx_http_mcds_nginx_name(loc, uri, match)                             \
    ngx_http_mcds_nginx_match(&(loc)->name, ngx_http_mcds_nginx_prefix(loc),  \
                              (loc)->exact_match, uri, match)


typedef struct {
    size_t                  len;     /* of the longest prefix that matches */
    ngx_uint_t              prefix;  /* the location has a prefix */
    ngx_uint_t              other;   /* it may match by another name */
} ngx_http_mcds_nginx_match_t;


static ngx_uint_t ngx_http_mcds_nginx_known(ngx_uint_t offset);
static void ngx_http_mcds_nginx_match(ngx_str_t *name, ngx_uint_t prefix,
    ngx_uint_t exact, ngx_str_t *uri, ngx_http_mcds_nginx_match_t *match);


static char  ngx_http_mcds_auth_request[] = "ngx_http_auth_request_module";

/*
 * ctx_index of the auth_request module, or NGX_ERROR if nginx lacks the module
 */
static ngx_int_t  ngx_http_mcds_auth_index = NGX_ERROR;


#if (nginx_version > NGX_HTTP_MCDS_NGINX)

#pragma message "mcds does not know this version of nginx yet; it should work"

#if (NGX_COMPAT && NGX_PTR_SIZE == 8)

/*
 * The compiler compares the sizes of nginx's structures that mcds fills or
 * copies; with --with-compat, the sizes do not depend on other flags.  Its
 * warning, which is never an error, says that a structure has changed since the
 * version NGX_HTTP_MCDS_NGINX: check whether the structure has a new field that
 * a copy needs.
 */

#pragma GCC diagnostic push
#pragma GCC diagnostic warning "-Wattribute-warning"

#define ngx_http_mcds_nginx_size(type, size)                                  \
    if (sizeof(type) != size) {                                               \
        ngx_http_mcds_nginx_changed();                                        \
    }

static void ngx_http_mcds_nginx_changed(void)
    __attribute__((noinline, warning("mcds knows another size of it")));
void ngx_http_mcds_nginx_sizes(void);


void
ngx_http_mcds_nginx_sizes(void)
{
    ngx_http_mcds_nginx_size(ngx_http_request_t, 1408)
    ngx_http_mcds_nginx_size(ngx_http_headers_in_t, 384)
    ngx_http_mcds_nginx_size(ngx_http_connection_t, 72)
    ngx_http_mcds_nginx_size(ngx_connection_t, 248)
    ngx_http_mcds_nginx_size(ngx_proxy_protocol_t, 56)
    ngx_http_mcds_nginx_size(ngx_table_elt_t, 56)
    ngx_http_mcds_nginx_size(ngx_http_variable_value_t, 16)
    ngx_http_mcds_nginx_size(ngx_log_t, 120)
}


static void
ngx_http_mcds_nginx_changed(void)
{
    /*
     * the compiler drops calls of an empty function, and with them the warning
     * that the size of a structure of nginx has changed
     */

    ngx_memory_barrier();
}

#pragma GCC diagnostic pop

#endif

#endif


void
ngx_http_mcds_nginx_check(ngx_conf_t *cf)
{
    ngx_uint_t          i;
    ngx_module_t       *module;
    ngx_http_header_t  *hh;

    ngx_http_mcds_auth_index = NGX_ERROR;

    for (i = 0; cf->cycle->modules[i]; i++) {

        module = cf->cycle->modules[i];

        if (module->type == NGX_HTTP_MODULE
            && ngx_strcmp(module->name, ngx_http_mcds_auth_request) == 0)
        {
            ngx_http_mcds_auth_index = module->ctx_index;
        }
    }

    for (hh = ngx_http_headers_in; hh->name.len; hh++) {

        /*
         * in nginx's table of request headers, an entry without an offset has
         * no field for the header, only a handler
         */

        if (hh->offset == 0 || ngx_http_mcds_nginx_known(hh->offset)) {
            continue;
        }

        ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                           "mcds does not know how this nginx keeps the "
                           "request header \"%V\"; rebuilds of pages that are "
                           "detached from a client only pass it on",
                           &hh->name);
    }
}


ngx_int_t
ngx_http_mcds_location_rest(ngx_http_core_loc_conf_t *clcf, ngx_str_t *uri,
    ngx_str_t *rest)
{
#ifdef angie_version
    ngx_http_core_loc_t          *loc;
#endif
    ngx_http_mcds_nginx_match_t   match;

    ngx_memzero(&match, sizeof(ngx_http_mcds_nginx_match_t));

    if (clcf->name.len) {
        ngx_http_mcds_nginx_name(clcf, uri, &match);
    }

#ifdef angie_version
    for (loc = clcf->combined; loc; loc = loc->next) {
        ngx_http_mcds_nginx_name(loc, uri, &match);
    }
#endif

    if (match.len) {
        rest->data = uri->data + match.len;
        rest->len = uri->len - match.len;
        return NGX_OK;
    }

    return (match.prefix && !match.other) ? NGX_ERROR : NGX_DECLINED;
}


static void
ngx_http_mcds_nginx_match(ngx_str_t *name, ngx_uint_t prefix, ngx_uint_t exact,
    ngx_str_t *uri, ngx_http_mcds_nginx_match_t *match)
{
    if (!prefix) {
        match->other |= !exact || ngx_mcds_same(name, uri);
        return;
    }

    match->prefix = 1;

    if (name->len > match->len
        && name->len <= uri->len
        && ngx_memcmp(name->data, uri->data, name->len) == 0)
    {
        match->len = name->len;
    }
}


ngx_uint_t
ngx_http_mcds_auth_asked(ngx_http_request_t *r)
{
    return ngx_http_mcds_auth_index != NGX_ERROR
           && r->ctx[ngx_http_mcds_auth_index];
}


static ngx_uint_t
ngx_http_mcds_nginx_known(ngx_uint_t offset)
{
#if (nginx_version < 1023000)

    if (offset == offsetof(ngx_http_headers_in_t, cookies)) {
        return 1;
    }

#endif

    if (offset < NGX_HTTP_MCDS_PARSED_FIRST) {
        return 0;
    }

    offset -= NGX_HTTP_MCDS_PARSED_FIRST;

    return offset % sizeof(ngx_table_elt_t *) == 0
           && offset / sizeof(ngx_table_elt_t *) < NGX_HTTP_MCDS_PARSED_N;
}


/*
 * With "recursive_error_pages on", nginx does not set r->error_page for an
 * error page: an internal request that has had an upstream is taken for one,
 * unless this upstream has sent X-Accel-Redirect.
 */

ngx_uint_t
ngx_http_mcds_is_error_page(ngx_http_request_t *r)
{
    ngx_http_mcds_main_conf_t  *mmcf;

    mmcf = ngx_http_get_module_main_conf(r, ngx_http_mcds_module);

    return r->error_page
           || (mmcf->recursive
               && r->internal
               && r->upstream
               && !ngx_http_mcds_is_accel(r));
}


ngx_uint_t
ngx_http_mcds_is_second(ngx_http_request_t *r)
{
    ngx_uint_t                  i;
    ngx_http_upstream_state_t  *state;

    if (r->upstream_states == NULL) {
        return 0;
    }

    state = r->upstream_states->elts;

    for (i = 0; i < r->upstream_states->nelts; i++) {
        if (state[i].peer == NULL) {
            return 1;
        }
    }

    return 0;
}


ngx_uint_t
ngx_http_mcds_is_accel(ngx_http_request_t *r)
{
    ngx_http_upstream_t  *u;

    u = r->upstream;

    return u
           && u->headers_in.x_accel_redirect
           && !(u->conf->ignore_headers & NGX_HTTP_UPSTREAM_IGN_XA_REDIRECT);
}

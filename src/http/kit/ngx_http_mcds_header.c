
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_mcds_fresh.h"
#include "ngx_http_mcds_header.h"


ngx_table_elt_t *
ngx_http_mcds_header_add(ngx_http_request_t *r, ngx_str_t *name,
    ngx_str_t *value)
{
    ngx_table_elt_t  *h;

    h = ngx_list_push(&r->headers_out.headers);
    if (h == NULL) {
        return NULL;
    }

    h->hash = 1;
    h->key = *name;
    h->value = *value;
    h->lowcase_key = NULL;

#if (nginx_version >= 1023000)
    h->next = NULL;
#endif

    return h;
}


ngx_int_t
ngx_http_mcds_header_text(ngx_http_request_t *r, char *name, char *value)
{
    ngx_str_t  n, v;

    n.data = (u_char *) name;
    n.len = ngx_strlen(name);
    v.data = (u_char *) value;
    v.len = ngx_strlen(value);

    return ngx_http_mcds_header_add(r, &n, &v) ? NGX_OK : NGX_ERROR;
}


/*
 * nginx's own pointer to the response header Cache-Control is set, too: the
 * directive "expires" finds by this pointer the header that it replaces
 */

ngx_int_t
ngx_http_mcds_header_no_store(ngx_http_request_t *r)
{
    ngx_table_elt_t   *h;
#if (nginx_version < 1023000)
    ngx_table_elt_t  **cc;
#endif

    static ngx_str_t   name = ngx_string("Cache-Control");
    static ngx_str_t   value = ngx_string("no-store");

    h = ngx_http_mcds_header_add(r, &name, &value);
    if (h == NULL) {
        return NGX_ERROR;
    }

#if (nginx_version >= 1023000)

    r->headers_out.cache_control = h;

#else

    if (ngx_array_init(&r->headers_out.cache_control, r->pool, 1,
                       sizeof(ngx_table_elt_t *))
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    cc = ngx_array_push(&r->headers_out.cache_control);
    if (cc == NULL) {
        return NGX_ERROR;
    }

    *cc = h;

#endif

    return NGX_OK;
}


ngx_int_t
ngx_http_mcds_header_send(ngx_http_request_t *r, ngx_uint_t status, char *type)
{
    char       *end;
    ngx_str_t  *t;

    t = &r->headers_out.content_type;

    t->data = (u_char *) type;
    t->len = ngx_strlen(type);

    /*
     * directives such as "gzip_types" compare the Content-Type of the response
     * without its parameters
     */

    end = ngx_strchr(type, ';');

    r->headers_out.status = status;
    r->headers_out.content_type_len = end ? (size_t) (end - type) : t->len;
    r->headers_out.content_type_lowcase = NULL;

    if (ngx_http_mcds_header_no_store(r) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return ngx_http_send_header(r);
}


ngx_int_t
ngx_http_mcds_copy_text(ngx_pool_t *pool, ngx_str_t *to, ngx_str_t *from)
{
    to->len = from->len;

    if (from->len == 0) {
        to->data = NULL;
        return NGX_OK;
    }

    to->data = ngx_pstrdup(pool, from);

    return to->data ? NGX_OK : NGX_ERROR;
}


ngx_uint_t
ngx_http_mcds_header_in(ngx_str_t *names, ngx_str_t *name)
{
    for ( /* void */ ; names->len; names++) {
        if (name->len == names->len
            && ngx_mcds_is_name(name->data, names->data, name->len))
        {
            return 1;
        }
    }

    return 0;
}


ngx_uint_t
ngx_http_mcds_header_targeted(ngx_str_t *name)
{
    size_t  len;

    len = sizeof("-Cache-Control") - 1;

    return name->len > len
           && ngx_mcds_is_name(name->data + name->len - len,
                               (u_char *) "-Cache-Control", len);
}


ngx_uint_t
ngx_http_mcds_header_only_if_cached(ngx_table_elt_t *h)
{
    ngx_mcds_cache_control_t  cc;

    if (!ngx_http_mcds_header_is(&h->key, "Cache-Control")) {
        return 0;
    }

    ngx_memzero(&cc, sizeof(ngx_mcds_cache_control_t));
    ngx_mcds_cache_control_add(&cc, &h->value);

    return cc.only_if_cached;
}

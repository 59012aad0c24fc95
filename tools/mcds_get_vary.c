
/*
 * Copyright (C) mcds authors
 *
 * mcds get: finds the variants of a page, and those that a request may get.
 */


#include "mcds_get.h"
#include "ngx_mcds_vary.h"


static void mcds_get_routed(mcds_t *m, json_t *list, json_t *page,
    ngx_str_t *names, u_char *stored);


/*
 * adds the variants of a page to the JSON; with --header, those that a request
 * with such headers may get
 */

void
mcds_get_variants(mcds_t *m, json_t *o, ngx_mcds_entry_t *entry,
    ngx_array_t *secrets)
{
    u_char      hash[NGX_MCDS_VARIANT_LEN], *stored;
    json_t     *list, *page;
    ngx_str_t   names, key;
    ngx_uint_t  i, n, routed;

    if (ngx_mcds_vary_check(&entry->ext, &entry->body) != NGX_OK) {
        mcds_put(o, "state", json_string("not a page"));
        m->status = ngx_max(m->status, MCDS_NO);
        return;
    }

    ngx_mcds_vary_names(&entry->ext, &names);
    mcds_put(o, "vary", mcds_json(&names));
    mcds_put(o, "purges", json_integer(entry->purges));

    list = json_array();
    n = entry->body.len / NGX_MCDS_VARIANT_LEN;
    stored = entry->body.data;

    mcds_put(o, "listed", json_integer(n));

    routed = mcds_get_by_route(&names);

    if (routed) {
        mcds_put(o, "differ", json_string("by the location or URI that nginx "
                                          "chooses for a request"));

    } else if (m->o.headers.nelts) {
        mcds_get_variant(m, &names, NULL, hash);
        stored = hash;
        n = 1;
    }

    for (i = 0; i < n; i++) {
        mcds_get_variant_key(m, entry, stored + i * NGX_MCDS_VARIANT_LEN,
                             &key);

        page = mcds_get_page(m, &key, secrets, entry);
        mcds_get_lock(m, page, &key);

        if (routed && m->o.headers.nelts) {
            mcds_get_routed(m, list, page, &names,
                            stored + i * NGX_MCDS_VARIANT_LEN);
            continue;
        }

        (void) json_array_append_new(list, page);
    }

    mcds_put(o, "variants", list);
}


ngx_uint_t
mcds_get_by_route(ngx_str_t *names)
{
    ngx_str_t         list, name;
    static ngx_str_t  route = ngx_string(NGX_MCDS_VARY_ROUTE);

    list = *names;

    while (ngx_mcds_vary_next(&list, &name) == NGX_OK) {
        if (ngx_mcds_same(&name, &route)) {
            return 1;
        }
    }

    return 0;
}


/*
 * adds a stored variant of a page to the JSON list if the headers of --header
 * match the variant.  The tool does not know the location and URI that nginx
 * would choose, and uses the hash of both that is stored with the variant.
 */

static void
mcds_get_routed(mcds_t *m, json_t *list, json_t *page, ngx_str_t *names,
    u_char *stored)
{
    char       *text;
    u_char      hash[NGX_MCDS_VARIANT_LEN];
    ngx_str_t   route;

    text = (char *) json_string_value(json_object_get(page, "route"));

    if (text) {
        route.data = (u_char *) text;
        route.len = ngx_strlen(text);

        mcds_get_variant(m, names, &route, hash);

        if (ngx_memcmp(hash, stored, NGX_MCDS_VARIANT_LEN) != 0) {
            json_decref(page);
            return;
        }
    }

    (void) json_array_append_new(list, page);
}


ngx_int_t
mcds_get_list(mcds_t *m, ngx_str_t *key, ngx_mcds_entry_t *list,
    mcds_answer_t *answer)
{
    char                *why;
    u_char               none[NGX_MCDS_VARIANT_LEN];
    size_t               len;
    ngx_str_t            base, other;
    ngx_mcds_request_t   req;

    ngx_memzero(answer, sizeof(mcds_answer_t));

    ngx_mcds_vary_base(key, &base);

    if (base.len == key->len) {
        return NGX_DECLINED;
    }

    mcds_get_request(&req, &base);

    if (mcds_do(m, &req, answer) != NGX_MCDS_OK
        || ngx_mcds_entry_read(list, answer->text.data, answer->text.len,
                               &base, &why)
           != NGX_OK
        || list->kind != NGX_MCDS_ENTRY_VARY)
    {
        return NGX_DECLINED;
    }

    /*
     * the keys of a page's variants contain the generation, a random number in
     * the page's entry: a key with another number is not of a current variant
     */

    ngx_memzero(none, NGX_MCDS_VARIANT_LEN);
    mcds_get_variant_key(m, list, none, &other);

    len = other.len - 2 * NGX_MCDS_VARIANT_LEN;

    return (other.len == key->len
            && ngx_memcmp(other.data, key->data, len) == 0) ? NGX_OK
                                                            : NGX_DECLINED;
}


void
mcds_get_variant_key(mcds_t *m, ngx_mcds_entry_t *entry, u_char *hash,
    ngx_str_t *key)
{
    u_char  *p;

    key->data = mcds_alloc(m, entry->key.len + NGX_MCDS_VARY_SUFFIX_LEN);

    p = ngx_cpymem(key->data, entry->key.data, entry->key.len);
    p = ngx_mcds_vary_suffix(p, entry->generation, hash);

    key->len = p - key->data;
}


/*
 * computes the hash of the variant of a page that a request with the headers of
 * --header gets
 */

void
mcds_get_variant(mcds_t *m, ngx_str_t *names, ngx_str_t *route, u_char *hash)
{
    u_char              *p, *last;
    ngx_str_t            list, name, value, *header;
    ngx_uint_t           i;
    ngx_mcds_variant_t   variant;

    list = *names;
    header = m->o.headers.elts;

    ngx_mcds_variant_begin(&variant);

    while (ngx_mcds_vary_next(&list, &name) == NGX_OK) {
        ngx_mcds_variant_name(&variant, &name);

        if (mcds_get_by_route(&name)) {

            if (route) {
                ngx_mcds_variant_line(&variant, route);
            }

            continue;
        }

        for (i = 0; i < m->o.headers.nelts; i++) {
            last = header[i].data + header[i].len;
            p = ngx_strlchr(header[i].data, last, ':');

            if (p == NULL
                || (size_t) (p - header[i].data) != name.len
                || ngx_strncasecmp(header[i].data, name.data, name.len) != 0)
            {
                continue;
            }

            for (p++; p < last && (*p == ' ' || *p == '\t'); p++) {
                /* void */
            }

            value.data = p;
            value.len = last - p;
            ngx_mcds_variant_line(&variant, &value);
        }
    }

    ngx_mcds_variant_end(&variant, hash);
}

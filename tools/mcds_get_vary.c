
/*
 * Copyright (C) mcds authors
 *
 * mcds get: pages that vary.
 */


#include "mcds_get.h"
#include "ngx_mcds_vary.h"


/* of a page that varies; with --header, the one of such a request alone */

void
mcds_get_variants(mcds_t *m, json_t *o, ngx_mcds_entry_t *entry,
    ngx_array_t *secrets)
{
    u_char      hash[NGX_MCDS_VARIANT_LEN], *stored;
    json_t     *list, *page;
    ngx_str_t   names, key;
    ngx_uint_t  i, n;

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

    if (m->o.headers.nelts) {
        mcds_get_variant(m, &names, hash);
        stored = hash;
        n = 1;
    }

    for (i = 0; i < n; i++) {
        mcds_get_variant_key(m, entry, stored + i * NGX_MCDS_VARIANT_LEN,
                             &key);

        page = mcds_get_page(m, &key, secrets, 1);
        mcds_get_lock(m, page, &key);

        (void) json_array_append_new(list, page);
    }

    mcds_put(o, "variants", list);
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


/* what a request with the headers that were given would ask for */

void
mcds_get_variant(mcds_t *m, ngx_str_t *names, u_char *hash)
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

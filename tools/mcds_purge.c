
/*
 * Copyright (C) mcds authors
 *
 * mcds purge: purges pages, tags and hosts as the module does, see
 * src/cache/page/ngx_mcds_purge.h and ngx_mcds_tag.h.
 */


#include "mcds.h"
#include "mcds_page.h"
#include "ngx_mcds_purge.h"
#include "ngx_mcds_sign.h"
#include "ngx_mcds_tag.h"


/* the maximum size of a page that the command "purge" reads, bytes */
#define MCDS_PURGE_LIMIT          (128 * 1024 * 1024)


typedef struct {
    ngx_uint_t   done;
    ngx_uint_t   rc;
    ngx_uint_t   found;
} mcds_purged_t;


static void mcds_purge_page(mcds_t *m, json_t *list, mcds_page_t *page,
    ngx_array_t *secrets);
static ngx_array_t *mcds_purge_secrets(mcds_t *m, ngx_str_t *key,
    ngx_array_t *secrets);
static void mcds_purge_key_done(void *data, ngx_uint_t rc, ngx_uint_t found,
    uint64_t cas, ngx_mcds_cut_t *left);
static void mcds_purge_record(mcds_t *m, json_t *list, char *kind,
    ngx_str_t *name);
static void mcds_purge_record_done(void *data, ngx_uint_t rc);
static void mcds_purge_result(mcds_t *m, json_t *o, ngx_str_t *what,
    ngx_uint_t rc, ngx_uint_t found);


void
mcds_purge(mcds_t *m, ngx_str_t *args, ngx_uint_t n)
{
    json_t           *list;
    ngx_str_t        *name;
    ngx_uint_t        i;
    ngx_array_t      *pages, *secrets;
    ngx_mcds_pool_t  *pool;

    if (n + m->o.keys.nelts + m->o.tags.nelts + m->o.hosts.nelts + m->o.all
        == 0)
    {
        mcds_usage(m, "needs a URL, --key, --tag, --host or --all");
    }

    name = m->o.tags.elts;

    for (i = 0; i < m->o.tags.nelts; i++) {
        if (ngx_mcds_tag_check(&name[i]) != NGX_OK) {
            mcds_usage(m, "a tag must have at most %d bytes, without blanks "
                          "and commas", NGX_MCDS_TAG_LEN);
        }
    }

    name = m->o.hosts.elts;

    for (i = 0; i < m->o.hosts.nelts; i++) {
        if (ngx_mcds_tag_check(&name[i]) != NGX_OK) {
            mcds_usage(m, "--host needs the name of a host");
        }

        ngx_strlow(name[i].data, name[i].data, name[i].len);
    }

    pages = mcds_pages(m, args, n);
    secrets = mcds_site_secrets(m);

    if (m->o.tags.nelts + m->o.hosts.nelts + m->o.all) {
        m->pool = NULL;
        mcds_site_pool(m, "mcds_cache", NULL);
    }

    pool = m->pool;
    list = json_array();

    for (i = 0; i < pages->nelts; i++) {
        mcds_purge_page(m, list, (mcds_page_t *) pages->elts + i, secrets);
    }

    m->pool = pool;
    name = m->o.tags.elts;

    for (i = 0; i < m->o.tags.nelts; i++) {
        mcds_purge_record(m, list, "tag", &name[i]);
    }

    name = m->o.hosts.elts;

    for (i = 0; i < m->o.hosts.nelts; i++) {
        mcds_purge_record(m, list, "host", &name[i]);
    }

    if (m->o.all) {
        mcds_purge_record(m, list, "all", NULL);
    }

    mcds_show(m, list);
}


static void
mcds_purge_page(mcds_t *m, json_t *list, mcds_page_t *page,
    ngx_array_t *secrets)
{
    json_t         *o;
    ngx_str_t      *key;
    mcds_purged_t   purged;

    ngx_memzero(&purged, sizeof(mcds_purged_t));

    m->pool = page->pool;
    key = &page->name;

    secrets = mcds_purge_secrets(m, key, secrets);

    if (ngx_mcds_purge_key(m->pool, key, m->o.drop ? NGX_MCDS_PURGE_DELETE
                                                   : NGX_MCDS_PURGE_INVALIDATE,
                           mcds_now(), secrets, mcds_purge_key_done, &purged)
        != NGX_OK)
    {
        mcds_no_memory();
    }

    mcds_wait(&purged.done);

    o = json_object();

    mcds_page_put(o, key);

    if (purged.rc == NGX_MCDS_OK) {
        mcds_put(o, "found", json_boolean(purged.found));

        if (purged.found) {
            mcds_put(o, "variants",
                     json_boolean(purged.found == NGX_MCDS_PURGED_LIST));

        } else {
            m->status = ngx_max(m->status, MCDS_NO);
        }

        /*
         * the item that was purged may be an old one, which was stored before
         * the configuration changed the key of the page
         */

        mcds_page_doubt(m, page);
    }

    mcds_purge_result(m, o, key, purged.rc, purged.found);

    (void) json_array_append_new(list, o);
}


/*
 * Returns those of the secrets (keys of mcds_cache_hmac_key) with which a purge
 * checks the page under "key" and signs it again.  With --hmac-key-file these
 * are all secrets, so that the purge deletes a page that none of them has
 * signed.  Otherwise the tool does not know whether nginx wants this page
 * signed: it returns the secret that matches the page's signature, all secrets
 * if none matches, or NULL if the page has no signature or cannot be read.
 */

static ngx_array_t *
mcds_purge_secrets(mcds_t *m, ngx_str_t *key, ngx_array_t *secrets)
{
    char                *why;
    ngx_str_t            sign, *secret;
    ngx_uint_t           i;
    ngx_array_t         *one;
    mcds_answer_t        answer;
    ngx_mcds_entry_t     entry;
    ngx_mcds_request_t   req;

    if (secrets == NULL || m->o.hmac.nelts) {
        return secrets;
    }

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.verb = NGX_MCDS_GET;
    req.want = NGX_MCDS_VALUE;
    req.key = *key;
    req.limit = MCDS_PURGE_LIMIT;
    req.bulk = 1;
    req.page = 1;
    req.movable = 1;

    if (mcds_do(m, &req, &answer) != NGX_MCDS_OK
        || ngx_mcds_entry_read(&entry, answer.text.data, answer.text.len, key,
                               &why)
           != NGX_OK
        || ngx_mcds_entry_ext(&entry, NGX_MCDS_ENTRY_EXT_SIGN, &sign)
           != NGX_OK)
    {
        mcds_answer_free(&answer);
        return NULL;
    }

    one = ngx_array_create(m->memory, 1, sizeof(ngx_str_t));

    if (one == NULL) {
        mcds_no_memory();
    }

    secret = secrets->elts;
    one->nelts = 1;

    for (i = 0; i < secrets->nelts; i++) {
        *(ngx_str_t *) one->elts = secret[i];

        if (ngx_mcds_sign_check(answer.text.data, answer.text.len, &entry, one)
            == NGX_OK)
        {
            secrets = one;
            break;
        }
    }

    mcds_answer_free(&answer);

    return secrets;
}


static void
mcds_purge_key_done(void *data, ngx_uint_t rc, ngx_uint_t found,
    uint64_t cas, ngx_mcds_cut_t *left)
{
    mcds_purged_t *purged = data;

    purged->done = 1;
    purged->rc = rc;
    purged->found = found;
}


static void
mcds_purge_record(mcds_t *m, json_t *list, char *kind, ngx_str_t *name)
{
    json_t         *o;
    ngx_str_t       record;
    mcds_purged_t   purged;

    ngx_memzero(&purged, sizeof(mcds_purged_t));

    record.len = ngx_strlen(kind);
    record.data = mcds_alloc(m, record.len + 2 + (name ? name->len : 0));
    ngx_memcpy(record.data, kind, record.len);

    o = json_object();

    if (name) {
        record.len = ngx_sprintf(record.data, "%s:%V", kind, name)
                     - record.data;
        mcds_put(o, kind, mcds_json(name));

    } else {
        mcds_put(o, kind, json_true());
    }

    if (ngx_mcds_tag_purge(m->pool, &record,
                           m->o.drop ? NGX_MCDS_PURGE_DELETE
                                     : NGX_MCDS_PURGE_INVALIDATE,
                           mcds_now(), mcds_purge_record_done, &purged)
        == NGX_OK)
    {
        mcds_wait(&purged.done);

    } else {

        /* all servers of the pool are down by configuration */

        purged.rc = NGX_MCDS_DOWN;
    }

    mcds_purge_result(m, o, &record, purged.rc, 1);

    (void) json_array_append_new(list, o);
}


static void
mcds_purge_record_done(void *data, ngx_uint_t rc)
{
    mcds_purged_t *purged = data;

    purged->done = 1;
    purged->rc = rc;
}


static void
mcds_purge_result(mcds_t *m, json_t *o, ngx_str_t *what, ngx_uint_t rc,
    ngx_uint_t found)
{
    char  *result;

    if (rc != NGX_MCDS_OK) {
        result = "failed, or the outcome is unknown";

    } else if (found == NGX_MCDS_PURGED_NOTHING) {
        result = "there is no such page";

    } else if (found == NGX_MCDS_PURGED_LIST) {
        result = m->o.drop ? "deleted, with all variants"
                           : "expired, with all variants";

    } else {
        result = m->o.drop ? "deleted" : "expired";
    }

    mcds_put(o, "result", json_string(result));
    mcds_put(o, "mode", json_string(m->o.drop ? "delete" : "invalidate"));
    mcds_put(o, "purged", json_boolean(rc == NGX_MCDS_OK && found));

    if (rc != NGX_MCDS_OK) {
        mcds_put(o, "error", json_string(ngx_mcds_strerror(rc)));
        mcds_failed(m, what, rc);
    }
}

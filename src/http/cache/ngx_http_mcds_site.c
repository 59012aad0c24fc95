
/*
 * Copyright (C) mcds authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_cache.h"
#include "ngx_http_mcds_site.h"


/*
 * the maximum bytes of the name of a site (the first part of the keys of its
 * pages) in mcds_cache_site and in a purge request
 */
#define NGX_HTTP_MCDS_MAX_SITE    100


/* the parts of a server block with which the keys of its pages begin */

typedef enum {
    NGX_HTTP_MCDS_SITE_NAME = 0,  /* the name of the site is only the first
                                     server_name */
    NGX_HTTP_MCDS_SITE_LISTEN,    /* the name of the site is the first
                                     server_name and the listen addresses */
    NGX_HTTP_MCDS_SITE_NAMES,     /* the name of the site is all server_names
                                     and the listen addresses */
    NGX_HTTP_MCDS_SITE_LINE       /* the name of the site is all server_names,
                                     the listen addresses, and the number of
                                     the server block */
} ngx_http_mcds_site_e;


struct ngx_http_mcds_site_s {
    ngx_str_t                  name;
    ngx_http_core_srv_conf_t  *server;
    ngx_array_t                pools;    /* pools of memcached servers with
                                            pages of the site, ngx_mcds_pool_t
                                            * */
    ngx_uint_t                 level;    /* which properties of the server
                                            block, such as all its server_names,
                                            the field "name" contains:
                                            ngx_http_mcds_site_e */
    ngx_uint_t                 shared;   /* 1: another site in the same pool of
                                            memcached servers has the same
                                            name; this site gets another one */
};


static ngx_http_mcds_site_t *ngx_http_mcds_site_of(ngx_conf_t *cf,
    ngx_http_mcds_cache_main_t *cmcf);
static ngx_int_t ngx_http_mcds_site_pool(ngx_http_mcds_site_t *site,
    ngx_mcds_pool_t *pool);
static ngx_uint_t ngx_http_mcds_site_meets(ngx_http_mcds_site_t *a,
    ngx_http_mcds_site_t *b);
static void ngx_http_mcds_site_warn(ngx_conf_t *cf, ngx_http_mcds_site_t *a,
    ngx_http_mcds_site_t *b);
static ngx_int_t ngx_http_mcds_site_name(ngx_conf_t *cf,
    ngx_http_mcds_site_t *site, ngx_uint_t n);
static ngx_int_t ngx_http_mcds_site_names(ngx_array_t *text,
    ngx_http_mcds_site_t *site);
static ngx_int_t ngx_http_mcds_site_listen(ngx_conf_t *cf, ngx_array_t *text,
    ngx_http_mcds_site_t *site);
static ngx_int_t ngx_http_mcds_site_text(ngx_array_t *text, u_char *data,
    size_t len);


ngx_int_t
ngx_http_mcds_site_merge(ngx_conf_t *cf, ngx_http_mcds_cache_conf_t *prev,
    ngx_http_mcds_cache_conf_t *conf)
{
    ngx_http_mcds_site_t        *site;
    ngx_http_mcds_cache_main_t  *cmcf;

    if (conf->cache_site.data == NULL) {
        conf->cache_site = prev->cache_site;
    }

    if (conf->cache_pool == NULL && conf->purge == NULL) {
        return NGX_OK;
    }

    if (conf->cache_site.data) {
        conf->site = &conf->cache_site;
        return NGX_OK;
    }

    cmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_mcds_cache_module);

    site = ngx_http_mcds_site_of(cf, cmcf);

    if (site == NULL
        || (conf->cache_pool
            && ngx_http_mcds_site_pool(site, conf->cache_pool) != NGX_OK))
    {
        return NGX_ERROR;
    }

    conf->site = &site->name;

    return NGX_OK;
}


/*
 * returns the structure for the name (site) with which the keys of pages begin
 * in the server block that is being merged; NULL when out of memory
 */

static ngx_http_mcds_site_t *
ngx_http_mcds_site_of(ngx_conf_t *cf, ngx_http_mcds_cache_main_t *cmcf)
{
    ngx_uint_t                  i;
    ngx_http_mcds_site_t      **sites, **p, *site;
    ngx_http_core_srv_conf_t   *cscf;

    cscf = ngx_http_conf_get_module_srv_conf(cf, ngx_http_core_module);

    sites = cmcf->sites.elts;

    /*
     * the site of the server block that is being merged is most often the last
     * one in the list of sites
     */

    for (i = cmcf->sites.nelts; i > 0; i--) {
        if (sites[i - 1]->server == cscf) {
            return sites[i - 1];
        }
    }

    site = ngx_pcalloc(cf->pool, sizeof(ngx_http_mcds_site_t));

    if (site == NULL
        || ngx_array_init(&site->pools, cf->pool, 1,
                          sizeof(ngx_mcds_pool_t *))
           != NGX_OK)
    {
        return NULL;
    }

    site->server = cscf;

    p = ngx_array_push(&cmcf->sites);
    if (p == NULL) {
        return NULL;
    }

    *p = site;

    return site;
}


static ngx_int_t
ngx_http_mcds_site_pool(ngx_http_mcds_site_t *site, ngx_mcds_pool_t *pool)
{
    ngx_uint_t         i;
    ngx_mcds_pool_t  **pools;

    pools = site->pools.elts;

    for (i = 0; i < site->pools.nelts; i++) {
        if (pools[i] == pool) {
            return NGX_OK;
        }
    }

    pools = ngx_array_push(&site->pools);
    if (pools == NULL) {
        return NGX_ERROR;
    }

    *pools = pool;

    return NGX_OK;
}


ngx_int_t
ngx_http_mcds_site_init(ngx_conf_t *cf, ngx_http_mcds_cache_main_t *cmcf)
{
    ngx_uint_t             i, j, again;
    ngx_http_mcds_site_t **sites;

    sites = cmcf->sites.elts;

    for (i = 0; i < cmcf->sites.nelts; i++) {
        if (ngx_http_mcds_site_name(cf, sites[i], i) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    do {
        again = 0;

        /*
         * of three sites with the same name, each needs another one: all are
         * found before the first of them is renamed
         */

        for (i = 0; i < cmcf->sites.nelts; i++) {
            for (j = i + 1; j < cmcf->sites.nelts; j++) {

                if (!ngx_http_mcds_site_meets(sites[i], sites[j])) {
                    continue;
                }

                if (sites[j]->level == NGX_HTTP_MCDS_SITE_NAME
                    && !sites[j]->shared)
                {
                    ngx_http_mcds_site_warn(cf, sites[i], sites[j]);
                }

                again = 1;

                sites[i]->shared = 1;
                sites[j]->shared = 1;
            }
        }

        for (i = 0; i < cmcf->sites.nelts; i++) {

            if (!sites[i]->shared) {
                continue;
            }

            sites[i]->shared = 0;
            sites[i]->level++;

            if (ngx_http_mcds_site_name(cf, sites[i], i) != NGX_OK) {
                return NGX_ERROR;
            }
        }

    } while (again);

    return NGX_OK;
}


/* returns 1 if pages of two sites could have the same keys in memcached */

static ngx_uint_t
ngx_http_mcds_site_meets(ngx_http_mcds_site_t *a, ngx_http_mcds_site_t *b)
{
    ngx_uint_t         i, j;
    ngx_mcds_pool_t  **p, **q;

    if (a->name.len != b->name.len
        || ngx_memcmp(a->name.data, b->name.data, a->name.len) != 0)
    {
        return 0;
    }

    p = a->pools.elts;
    q = b->pools.elts;

    for (i = 0; i < a->pools.nelts; i++) {
        for (j = 0; j < b->pools.nelts; j++) {
            if (p[i] == q[j]) {
                return 1;
            }
        }
    }

    return 0;
}


static void
ngx_http_mcds_site_warn(ngx_conf_t *cf, ngx_http_mcds_site_t *a,
    ngx_http_mcds_site_t *b)
{
    if (a->name.len) {
        ngx_log_error(NGX_LOG_WARN, cf->log, 0,
                      "server blocks in %s:%ui and %s:%ui cache pages under "
                      "the same name \"%V\": their pages are kept apart by "
                      "their \"listen\" addresses; \"mcds_cache_site\" names "
                      "a site on all hosts",
                      a->server->file_name, a->server->line,
                      b->server->file_name, b->server->line, &a->name);
        return;
    }

    ngx_log_error(NGX_LOG_WARN, cf->log, 0,
                  "server blocks in %s:%ui and %s:%ui cache pages without a "
                  "\"server_name\": their pages are kept apart by their "
                  "\"listen\" addresses; \"mcds_cache_site\" names a site on "
                  "all hosts",
                  a->server->file_name, a->server->line,
                  b->server->file_name, b->server->line);
}


/*
 * composes the name of a site, which begins the keys of its pages; n is the
 * number of its server block in the configuration
 */

static ngx_int_t
ngx_http_mcds_site_name(ngx_conf_t *cf, ngx_http_mcds_site_t *site,
    ngx_uint_t n)
{
    u_char        place[NGX_INT_T_LEN + 1];
    ngx_array_t   text;

    if (ngx_array_init(&text, cf->pool, 64, 1) != NGX_OK
        || ngx_http_mcds_site_names(&text, site) != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (site->level >= NGX_HTTP_MCDS_SITE_LISTEN
        && ngx_http_mcds_site_listen(cf, &text, site) != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (site->level >= NGX_HTTP_MCDS_SITE_LINE
        && ngx_http_mcds_site_text(&text, place,
                                   ngx_sprintf(place, "#%ui", n) - place)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    site->name.data = text.elts;
    site->name.len = text.nelts;

    return NGX_OK;
}


/*
 * Adds server_names of a server block to "text", with which the keys of the
 * block's pages will begin.  If site->level is NGX_HTTP_MCDS_SITE_NAMES or a
 * larger value of ngx_http_mcds_site_e, adds all names; otherwise only the
 * first one, unless it is "_" or a regular expression.
 */

static ngx_int_t
ngx_http_mcds_site_names(ngx_array_t *text, ngx_http_mcds_site_t *site)
{
    ngx_uint_t               i, n;
    ngx_http_server_name_t  *sn;

    sn = site->server->server_names.elts;
    n = site->server->server_names.nelts;

    if (site->level < NGX_HTTP_MCDS_SITE_NAMES && n) {
        n = 1;
    }

    for (i = 0; i < n; i++) {

        if (i && ngx_http_mcds_site_text(text, (u_char *) ",", 1) != NGX_OK) {
            return NGX_ERROR;
        }

        if (site->level < NGX_HTTP_MCDS_SITE_NAMES) {

#if (NGX_PCRE)
            if (sn[i].regex) {
                continue;
            }
#endif

            if (sn[i].name.len == 1 && sn[i].name.data[0] == '_') {
                continue;
            }
        }

        if (ngx_http_mcds_site_text(text, sn[i].name.data, sn[i].name.len)
            != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_mcds_site_listen(ngx_conf_t *cf, ngx_array_t *text,
    ngx_http_mcds_site_t *site)
{
    u_char                      *mark;
    ngx_uint_t                   p, a, s;
    ngx_http_conf_port_t        *port;
    ngx_http_conf_addr_t        *addr;
    ngx_http_core_srv_conf_t   **server;
    ngx_http_core_main_conf_t   *cmcf;

    cmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);

    if (cmcf->ports == NULL) {
        return NGX_OK;
    }

    mark = (u_char *) "@";

    port = cmcf->ports->elts;

    for (p = 0; p < cmcf->ports->nelts; p++) {

        addr = port[p].addrs.elts;

        for (a = 0; a < port[p].addrs.nelts; a++) {

            server = addr[a].servers.elts;

            for (s = 0; s < addr[a].servers.nelts; s++) {

                if (server[s] != site->server) {
                    continue;
                }

                if (ngx_http_mcds_site_text(text, mark, 1) != NGX_OK
                    || ngx_http_mcds_site_text(text,
                                               addr[a].opt.addr_text.data,
                                               addr[a].opt.addr_text.len)
                       != NGX_OK)
                {
                    return NGX_ERROR;
                }

                mark = (u_char *) ",";
            }
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_mcds_site_text(ngx_array_t *text, u_char *data, size_t len)
{
    u_char  *p;

    if (len == 0) {
        return NGX_OK;
    }

    p = ngx_array_push_n(text, len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    while (len--) {

        /*
         * the ">" of a regular expression in server_name is replaced: ">" ends
         * the name of a site
         */

        *p++ = (*data == '>') ? '!' : *data;
        data++;
    }

    return NGX_OK;
}


ngx_int_t
ngx_http_mcds_site_add(ngx_http_request_t *r, ngx_str_t *site, ngx_str_t *key)
{
    u_char  *p, *name;

    name = ngx_pnalloc(r->pool, site->len + 2 + key->len);
    if (name == NULL) {
        return NGX_ERROR;
    }

    p = name;

    *p++ = NGX_MCDS_KEY_PAGE;
    p = ngx_cpymem(p, site->data, site->len);
    *p++ = '>';
    p = ngx_cpymem(p, key->data, key->len);

    key->data = name;
    key->len = p - name;

    return NGX_OK;
}


ngx_str_t
ngx_http_mcds_site_key(ngx_str_t *name)
{
    u_char     *p, *last;
    ngx_str_t   key;

    last = name->data + name->len;
    p = ngx_strlchr(name->data, last, '>');

    key.data = p ? p + 1 : name->data;
    key.len = last - key.data;

    return key;
}


ngx_uint_t
ngx_http_mcds_site_check(ngx_str_t *site)
{
    size_t  i;

    if (site->len == 0 || site->len > NGX_HTTP_MCDS_MAX_SITE) {
        return 0;
    }

    for (i = 0; i < site->len; i++) {
        if (site->data[i] <= ' '
            || site->data[i] == '>'
            || site->data[i] >= 0x7f)
        {
            return 0;
        }
    }

    return 1;
}


char *
ngx_http_mcds_cache_site(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mcds_cache_conf_t *ccf = conf;

    ngx_str_t  *value;

    if (ccf->cache_site.data) {
        return "is duplicate";
    }

    value = cf->args->elts;

    /*
     * mcds_cache_site does not support variables, so "$" is refused in the name
     */

    if (!ngx_http_mcds_site_check(&value[1])
        || ngx_strlchr(value[1].data, value[1].data + value[1].len, '$'))
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid name \"%V\" in \"%V\", it must "
                           "have 1 to %d ASCII characters, and no blank, "
                           "\">\" nor \"$\"", &value[1], &cmd->name,
                           NGX_HTTP_MCDS_MAX_SITE);
        return NGX_CONF_ERROR;
    }

    ccf->cache_site = value[1];

    return NGX_CONF_OK;
}

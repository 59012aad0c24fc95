
/*
 * Copyright (C) mcds authors
 *
 * Finds the server{} block that nginx would choose for a URL, and so the site
 * (mcds_cache_site) and the pool of the URL's page.
 */


#include "mcds_key.h"
#include "mcds_page.h"
#include "mcds_site.h"
#include "mcds_url.h"


/*
 * how well a server_name matches a URL's host: EXACT, HEAD ("*.name") or TAIL
 * ("name.*"); the length of a wildcard name, at most LEN, is added
 */
#define MCDS_PAGE_LEN             0xffff

#define MCDS_PAGE_TAIL            0x10000
#define MCDS_PAGE_HEAD            0x20000
#define MCDS_PAGE_EXACT           0x40000


/*
 * a place where the page of a URL or key may be stored: a site (the server{}
 * blocks with the same mcds_cache_site, which share pages) in one pool
 */

typedef struct {
    ngx_str_t        *site;
    ngx_mcds_pool_t  *pool;
    mcds_scope_t     *scope;      /* the first block of nginx's configuration
                                     with this mcds_cache_site and pool */
} mcds_found_t;


/* the choice of the server{} blocks that may answer a URL */

typedef struct {
    ngx_str_t         host;
    ngx_str_t         addr;       /* the URL's host, if it is an address, in the
                                     form of a "listen" */
    ngx_uint_t        v6;
    in_port_t         port;
    ngx_uint_t        best;
    ngx_array_t       servers;    /* of the server{} blocks seen so far, those
                                     that cache pages and match the URL's host
                                     best: ngx_http_core_srv_conf_t * */
} mcds_choice_t;


static void mcds_page_find(mcds_t *m, mcds_page_t *page, ngx_str_t *what,
    ngx_uint_t url, ngx_array_t *servers);
static void mcds_page_probe(mcds_t *m, ngx_array_t *pages);
static void mcds_page_probe_pool(mcds_t *m, ngx_mcds_pool_t *pool);
static void mcds_page_probed(void *data, ngx_mcds_result_t *result);
static void mcds_page_name(mcds_t *m, mcds_page_t *page, ngx_str_t *site,
    ngx_str_t *key);
static void mcds_page_several(mcds_t *m, ngx_array_t *found, ngx_str_t *what);
static ngx_array_t *mcds_page_sites(mcds_t *m, ngx_array_t *servers);
static mcds_found_t *mcds_page_site(mcds_t *m, ngx_array_t *found,
    mcds_scope_t *scope);
static ngx_array_t *mcds_page_servers(mcds_t *m, ngx_str_t *url);
static void mcds_page_host(mcds_t *m, mcds_choice_t *c, ngx_str_t *url);
static void mcds_page_port(mcds_t *m, mcds_choice_t *c,
    ngx_http_conf_port_t *port, ngx_uint_t any);
static void mcds_page_addr(mcds_t *m, mcds_choice_t *c,
    ngx_http_conf_addr_t *addr);
static ngx_uint_t mcds_page_rank(ngx_http_core_srv_conf_t *server,
    ngx_str_t *host);
static ngx_uint_t mcds_page_regex(ngx_http_core_srv_conf_t *server);
static void mcds_page_choose(mcds_t *m, mcds_choice_t *c,
    ngx_http_core_srv_conf_t *server, ngx_uint_t rank);
static mcds_scope_t *mcds_page_scope(mcds_t *m, ngx_uint_t *i,
    ngx_array_t *servers);


ngx_array_t *
mcds_pages(mcds_t *m, ngx_str_t *urls, ngx_uint_t n)
{
    ngx_str_t    *key;
    ngx_uint_t    i;
    ngx_array_t  *pages, *servers;
    mcds_page_t  *page;

    key = m->o.keys.elts;
    pages = ngx_array_create(m->memory, n + m->o.keys.nelts + 1,
                             sizeof(mcds_page_t));

    if (pages == NULL) {
        mcds_no_memory();
    }

    for (i = 0; i < n; i++) {
        mcds_url_key(m, &urls[i]);
    }

    if (m->o.pool) {
        mcds_site_pool(m, "mcds_cache", NULL);
    }

    for (i = 0; i < n + m->o.keys.nelts; i++) {
        page = ngx_array_push(pages);

        if (page == NULL) {
            mcds_no_memory();
        }

        ngx_memzero(page, sizeof(mcds_page_t));

        if (i >= n) {
            mcds_page_find(m, page, &key[i - n], 0, NULL);
            continue;
        }

        servers = (m->sites && m->o.site == NULL)
                  ? mcds_page_servers(m, &urls[i]) : NULL;

        mcds_page_find(m, page, &urls[i], 1, servers);
    }

    mcds_page_probe(m, pages);

    return pages;
}


/*
 * if one of the pages is in a pool with "eject", probes the pool's servers:
 * only after a server has failed does another server stand in for it
 */

static void
mcds_page_probe(mcds_t *m, ngx_array_t *pages)
{
    ngx_uint_t         i, n;
    mcds_page_t       *page;
    ngx_mcds_pool_t  **pool;

    pool = m->pools.elts;
    page = pages->elts;

    for (i = 0; i < m->pools.nelts; i++) {

        for (n = 0; pool[i]->eject && n < pages->nelts; n++) {
            if (page[n].pool == pool[i]) {
                mcds_page_probe_pool(m, pool[i]);
                break;
            }
        }
    }
}


static void
mcds_page_probe_pool(mcds_t *m, ngx_mcds_pool_t *pool)
{
    ngx_uint_t           i, *done;
    ngx_mcds_op_t       *op;
    ngx_mcds_request_t   req;

    op = mcds_alloc(m, pool->servers.nelts * sizeof(ngx_mcds_op_t));
    done = mcds_alloc(m, pool->servers.nelts * sizeof(ngx_uint_t));

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.verb = NGX_MCDS_GET;
    ngx_str_set(&req.key, "mcds:probe");

    for (i = 0; i < pool->servers.nelts; i++) {

        if (ngx_mcds_disabled(pool, i)) {
            done[i] = 1;
            continue;
        }

        op[i].handler = mcds_page_probed;
        op[i].data = &done[i];

        ngx_mcds_submit_to(pool, i, &req, &op[i]);
    }

    for (i = 0; i < pool->servers.nelts; i++) {
        mcds_wait(&done[i]);
    }
}


static void
mcds_page_probed(void *data, ngx_mcds_result_t *result)
{
    *(ngx_uint_t *) data = 1;
}


/*
 * finds the pool and the site (mcds_cache_site) of the page "what", a URL or
 * key; servers: the server{} blocks that may answer the URL, or NULL: all
 */

static void
mcds_page_find(mcds_t *m, mcds_page_t *page, ngx_str_t *what, ngx_uint_t url,
    ngx_array_t *servers)
{
    ngx_str_t      site;
    ngx_uint_t     i;
    ngx_array_t   *found;
    mcds_found_t  *one;

    found = mcds_page_sites(m, servers);
    one = found->elts;

    site.data = (u_char *) m->o.site;
    site.len = m->o.site ? ngx_strlen(m->o.site) : 0;

    if (found->nelts == 0) {

        /*
         * no mcds_cache_site is known: the tool has read no configuration of
         * nginx, or one without mcds_cache
         */

        mcds_site_pool(m, "mcds_cache", NULL);

        page->pool = m->pool;
        mcds_page_name(m, page, &site, what);
        return;
    }

    if (m->o.site) {

        for (i = 0; i < found->nelts; i++) {
            if (ngx_mcds_same(one[i].site, &site)) {
                break;
            }
        }

        if (i == found->nelts) {
            mcds_error(m, MCDS_USAGE, "unknown site: \"%s\"; known sites:",
                       m->o.site);
            mcds_page_several(m, found, NULL);
        }

        one = &one[i];

        for (i++; i < found->nelts; i++) {
            if (ngx_mcds_same(((mcds_found_t *) found->elts)[i].site, &site)) {
                mcds_usage(m, "several pools have pages of the site \"%s\", "
                              "choose one with --pool", m->o.site);
            }
        }

    } else if (found->nelts > 1) {
        mcds_page_several(m, found, what);
    }

    page->pool = one->pool;

    if (url) {
        page->why = mcds_key(m, one->scope, servers, what);
    }

    mcds_page_name(m, page, one->site, what);
}


/*
 * composes the name that a page has in memcached from its site
 * (mcds_cache_site) and its key, by the code of the nginx module
 */

static void
mcds_page_name(mcds_t *m, mcds_page_t *page, ngx_str_t *site, ngx_str_t *key)
{
    ngx_http_request_t  r;

    ngx_memzero(&r, sizeof(ngx_http_request_t));
    r.pool = m->memory;

    page->name = *key;

    if (ngx_http_mcds_site_add(&r, site, &page->name) != NGX_OK) {
        mcds_no_memory();
    }
}


/*
 * prints the sites (mcds_cache_site) that may have the page "what", or any page
 * if it is NULL, and ends the tool
 */

static void
mcds_page_several(mcds_t *m, ngx_array_t *found, ngx_str_t *what)
{
    char          *site, *pool, *file;
    ngx_uint_t     i, pools;
    mcds_found_t  *one;

    one = found->elts;
    pools = 0;

    for (i = 1; i < found->nelts; i++) {
        pools |= (one[i].pool != one[0].pool);
    }

    if (what) {
        mcds_error(m, MCDS_USAGE, "%.*s: several sites may have this page, "
                   "choose one with --site%s", (int) what->len, what->data,
                   pools ? " and --pool" : "");
    }

    for (i = 0; i < found->nelts; i++) {
        site = mcds_escape(one[i].site->data, one[i].site->len);
        pool = mcds_escape(one[i].pool->name.data, one[i].pool->name.len);
        file = mcds_escape(one[i].scope->file.data, one[i].scope->file.len);

        fprintf(stderr, "    --site='%s'%s%s in %s:%u\n", site,
                pools ? " --pool=" : "", pools ? pool : "", file,
                (unsigned) one[i].scope->line);

        free(site);
        free(pool);
        free(file);
    }

    exit(MCDS_USAGE);
}


static ngx_array_t *
mcds_page_sites(mcds_t *m, ngx_array_t *servers)
{
    ngx_uint_t     i;
    ngx_array_t   *found;
    mcds_scope_t  *scope;

    found = ngx_array_create(m->memory, 4, sizeof(mcds_found_t));

    if (found == NULL) {
        mcds_no_memory();
    }

    i = 0;

    while ((scope = mcds_page_scope(m, &i, servers))) {
        (void) mcds_page_site(m, found, scope);
    }

    return found;
}


static mcds_found_t *
mcds_page_site(mcds_t *m, ngx_array_t *found, mcds_scope_t *scope)
{
    ngx_uint_t     i;
    mcds_found_t  *one;

    one = found->elts;

    for (i = 0; i < found->nelts; i++) {
        if (one[i].pool == scope->conf.cache_pool
            && ngx_mcds_same(one[i].site, scope->conf.site))
        {
            return &one[i];
        }
    }

    one = ngx_array_push(found);

    if (one == NULL) {
        mcds_no_memory();
    }

    ngx_memzero(one, sizeof(mcds_found_t));

    one->site = scope->conf.site;
    one->pool = scope->conf.cache_pool;
    one->scope = scope;

    return one;
}


/* returns the server{} blocks that may answer a URL; NULL: any may do so */

static ngx_array_t *
mcds_page_servers(mcds_t *m, ngx_str_t *url)
{
    ngx_uint_t             i, any;
    mcds_choice_t          c;
    ngx_array_t           *servers;
    ngx_http_conf_port_t  *port;

    mcds_page_host(m, &c, url);

    port = m->sites->core.ports->elts;

    for (any = 0; any < 2; any++) {

        for (i = 0; i < m->sites->core.ports->nelts; i++) {
            if (any || port[i].port == c.port) {
                mcds_page_port(m, &c, &port[i], any);
            }
        }

        if (c.servers.nelts) {
            servers = mcds_alloc(m, sizeof(ngx_array_t));
            *servers = c.servers;
            return servers;
        }
    }

    return NULL;
}


/*
 * takes the host and the port from a URL, whose scheme and host are in lower
 * case
 */

static void
mcds_page_host(mcds_t *m, mcds_choice_t *c, ngx_str_t *url)
{
    u_char     *p, *last, *colon, addr[sizeof(struct in6_addr)];
    ngx_int_t   n;

    ngx_memzero(c, sizeof(mcds_choice_t));

    if (ngx_array_init(&c->servers, m->memory, 4,
                       sizeof(ngx_http_core_srv_conf_t *))
        != NGX_OK)
    {
        mcds_no_memory();
    }

    c->port = (url->data[4] == 's') ? 443 : 80;

    p = (u_char *) strstr((char *) url->data, "://") + 3;
    last = p + strcspn((char *) p, "/?");

    colon = (*p == '[') ? ngx_strlchr(p, last, ']') : p;
    colon = colon ? ngx_strlchr(colon, last, ':') : NULL;

    if (colon) {
        n = ngx_atoi(colon + 1, last - colon - 1);

        if (n > 0 && n <= 65535) {
            c->port = (in_port_t) n;
        }

        last = colon;
    }

    if (last > p && last[-1] == '.') {
        last--;
    }

    c->host.data = mcds_alloc(m, last - p + 1);
    c->host.len = last - p;
    ngx_memcpy(c->host.data, p, c->host.len);

    c->v6 = (*p == '[');

    if (c->v6 || inet_pton(AF_INET, (char *) c->host.data, addr) == 1) {
        c->addr.data = mcds_alloc(m, c->host.len + sizeof(":65535"));
        c->addr.len = ngx_sprintf(c->addr.data, "%V:%ui", &c->host,
                                  (ngx_uint_t) c->port)
                      - c->addr.data;
    }
}


/*
 * Adds to c the server{} blocks that listen on "port" and may get the request
 * for a URL.  If "any" is 1, no block that caches pages was found on the URL's
 * own port: "port" is tried instead, and an IP address in the URL is ignored.
 */

static void
mcds_page_port(mcds_t *m, mcds_choice_t *c, ngx_http_conf_port_t *port,
    ngx_uint_t any)
{
    ngx_str_t              all;
    ngx_uint_t             i;
    ngx_http_conf_addr_t  *addr;

    addr = port->addrs.elts;

    if (c->addr.len && !any) {

        for (i = 0; i < port->addrs.nelts; i++) {
            if (ngx_mcds_same(&addr[i].opt.addr_text, &c->addr)) {
                mcds_page_addr(m, c, &addr[i]);
                return;
            }
        }

        all.data = mcds_alloc(m, sizeof("0.0.0.0:65535"));
        all.len = ngx_sprintf(all.data, "%s:%ui",
                              c->v6 ? "[::]" : "0.0.0.0",
                              (ngx_uint_t) c->port)
                  - all.data;

        for (i = 0; i < port->addrs.nelts; i++) {
            if (ngx_mcds_same(&addr[i].opt.addr_text, &all)) {
                mcds_page_addr(m, c, &addr[i]);
            }
        }

        return;
    }

    for (i = 0; i < port->addrs.nelts; i++) {
        mcds_page_addr(m, c, &addr[i]);
    }
}


static void
mcds_page_addr(mcds_t *m, mcds_choice_t *c, ngx_http_conf_addr_t *addr)
{
    ngx_uint_t                  i, rank, best;
    ngx_http_core_srv_conf_t  **server, *chosen;

    server = addr->servers.elts;
    chosen = NULL;
    best = 0;

    for (i = 0; i < addr->servers.nelts; i++) {
        rank = mcds_page_rank(server[i], &c->host);

        if (rank > best) {
            best = rank;
            chosen = server[i];
        }
    }

    if (chosen) {
        mcds_page_choose(m, c, chosen, best);
        return;
    }

    for (i = 0; i < addr->servers.nelts; i++) {
        if (server[i] == addr->default_server || mcds_page_regex(server[i])) {
            mcds_page_choose(m, c, server[i], 0);
        }
    }
}


static ngx_uint_t
mcds_page_rank(ngx_http_core_srv_conf_t *server, ngx_str_t *host)
{
    size_t                   len;
    ngx_str_t                name, rest;
    ngx_uint_t               i, rank, best;
    ngx_http_server_name_t  *sn;

    sn = server->server_names.elts;
    best = 0;

    for (i = 0; i < server->server_names.nelts; i++) {
        name = sn[i].name;
        rank = 0;

#if (NGX_PCRE)

        if (sn[i].regex) {
            continue;
        }

#endif

        if (name.len > 1 && name.data[0] == '.') {

            /*
             * a server_name ".name" matches the name itself and all its
             * subdomains
             */

            rest.data = name.data + 1;
            rest.len = name.len - 1;

            if (ngx_mcds_same(&rest, host)) {
                return MCDS_PAGE_EXACT;
            }

        } else if (name.len > 2 && name.data[0] == '*') {
            name.data++;
            name.len--;

        } else if (ngx_mcds_same(&name, host)) {
            return MCDS_PAGE_EXACT;
        }

        len = ngx_min(name.len, MCDS_PAGE_LEN);

        if (name.len && name.data[0] == '.') {
            if (host->len > name.len && ngx_mcds_key_has_suffix(host, &name)) {
                rank = MCDS_PAGE_HEAD + len;
            }

        } else if (name.len > 2 && name.data[name.len - 1] == '*') {
            if (host->len >= name.len
                && ngx_memcmp(host->data, name.data, name.len - 1) == 0)
            {
                rank = MCDS_PAGE_TAIL + len;
            }
        }

        best = ngx_max(best, rank);
    }

    return best;
}


static ngx_uint_t
mcds_page_regex(ngx_http_core_srv_conf_t *server)
{
#if (NGX_PCRE)

    ngx_uint_t               i;
    ngx_http_server_name_t  *sn;

    sn = server->server_names.elts;

    for (i = 0; i < server->server_names.nelts; i++) {
        if (sn[i].regex) {
            return 1;
        }
    }

#endif

    return 0;
}


/*
 * adds a server{} block to those that may answer the URL, if it caches pages;
 * only the blocks with the best match are kept
 */

static void
mcds_page_choose(mcds_t *m, mcds_choice_t *c,
    ngx_http_core_srv_conf_t *server, ngx_uint_t rank)
{
    ngx_uint_t                  i;
    ngx_array_t                 one;
    ngx_http_core_srv_conf_t  **place;

    one.elts = &server;
    one.nelts = 1;
    i = 0;

    if (mcds_page_scope(m, &i, &one) == NULL
        || (c->servers.nelts && rank < c->best)
        || (c->servers.nelts && rank == c->best
            && mcds_page_one_of(&c->servers, server)))
    {
        return;
    }

    if (rank > c->best) {
        c->servers.nelts = 0;
    }

    c->best = rank;

    place = ngx_array_push(&c->servers);

    if (place == NULL) {
        mcds_no_memory();
    }

    *place = server;
}


ngx_uint_t
mcds_page_one_of(ngx_array_t *servers, ngx_http_core_srv_conf_t *server)
{
    ngx_uint_t                  i;
    ngx_http_core_srv_conf_t  **one;

    one = servers->elts;

    for (i = 0; i < servers->nelts; i++) {
        if (one[i] == server) {
            return 1;
        }
    }

    return 0;
}


/*
 * Returns the next block of the configuration, from *i on, that caches pages
 * and is in a server{} of the array servers; if servers is NULL, in any
 * server{}.  *i is advanced.  Returns NULL if there is none.
 */

static mcds_scope_t *
mcds_page_scope(mcds_t *m, ngx_uint_t *i, ngx_array_t *servers)
{
    mcds_scope_t  **scope, *one;

    if (m->sites == NULL) {
        return NULL;
    }

    scope = m->sites->scopes.elts;

    while (*i < m->sites->scopes.nelts) {
        one = scope[(*i)++];

        if (one->conf.cache_pool
            && (m->o.pool == NULL || one->conf.cache_pool == m->pool)
            && (servers == NULL || mcds_page_one_of(servers, one->server))
            && !(one->level == MCDS_LEVEL_SERVER && one->rest))
        {
            return one;
        }
    }

    return NULL;
}


void
mcds_page_put(json_t *o, ngx_str_t *name)
{
    ngx_str_t  key, site;

    key = ngx_http_mcds_site_key(name);

    /*
     * the page's site (mcds_cache_site) is the text between "<" and ">" at the
     * beginning of the page's name; it is empty if the page has no site
     */

    site.data = name->data + 1;
    site.len = name->len - key.len - 2;

    mcds_put(o, "key", mcds_json(&key));
    mcds_put(o, "site", site.len ? mcds_json(&site) : json_null());
}


void
mcds_page_doubt(mcds_t *m, mcds_page_t *page)
{
    ngx_str_t  key;

    if (page->why) {
        key = ngx_http_mcds_site_key(&page->name);

        mcds_error(m, MCDS_NO, "%.*s: the key of the page is unknown: %s; pass "
                   "the text of the key with --key", (int) key.len, key.data,
                   page->why);
    }
}


/*
 * Copyright (C) mcds authors
 *
 * The sites (mcds_cache_site) that pages belong to, which the code of the nginx
 * module computes from nginx's configuration.
 */


#include "mcds_site.h"


static void mcds_site_name(mcds_t *m, ngx_conf_t *cf, mcds_scope_t *scope);
static ngx_mcds_pool_t *mcds_site_cache_pool(mcds_t *m, mcds_scope_t *scope);


/*
 * the module structures of nginx's http core and of mcds's cache; only their
 * index into the arrays main_conf and srv_conf is set
 */

ngx_module_t  ngx_http_core_module = { .ctx_index = 0 };
ngx_module_t  ngx_http_mcds_cache_module = { .ctx_index = 1 };


void
mcds_site_make(mcds_t *m)
{
    void                 *main_conf[2], *srv_conf[2];
    ngx_uint_t            i;
    ngx_conf_t            cf;
    mcds_scope_t        **scope;
    ngx_http_conf_ctx_t   ctx;

    if (ngx_array_init(&m->sites->cache.sites, m->memory, 4,
                       sizeof(ngx_http_mcds_site_t *))
        != NGX_OK)
    {
        mcds_no_memory();
    }

    main_conf[0] = &m->sites->core;
    main_conf[1] = &m->sites->cache;
    srv_conf[1] = NULL;

    ngx_memzero(&ctx, sizeof(ngx_http_conf_ctx_t));
    ctx.main_conf = main_conf;
    ctx.srv_conf = srv_conf;

    ngx_memzero(&cf, sizeof(ngx_conf_t));
    cf.cycle = m->cycle;
    cf.pool = m->memory;
    cf.log = ngx_cycle->log;
    cf.ctx = &ctx;

    scope = m->sites->scopes.elts;

    for (i = 0; i < m->sites->scopes.nelts; i++) {

        /*
         * the http{} block itself has no pages: its directives only take effect
         * in the blocks that inherit them
         */

        if (scope[i]->level > MCDS_LEVEL_HTTP) {
            srv_conf[0] = scope[i]->server;
            mcds_site_name(m, &cf, scope[i]);
        }
    }

    if (ngx_http_mcds_site_init(&cf, &m->sites->cache) != NGX_OK) {
        mcds_no_memory();
    }
}


static void
mcds_site_name(mcds_t *m, ngx_conf_t *cf, mcds_scope_t *scope)
{
    mcds_scope_t  *parent;

    parent = scope->parent;

    if (scope->cache.data == NULL) {
        scope->cache = parent->cache;
    }

    if (scope->use.data == NULL) {
        scope->use = parent->use;
    }

    if (scope->text.data == NULL) {
        scope->text = parent->text;
    }

    if (scope->args.data == NULL) {
        scope->args = parent->args;
    }

    if (scope->conf.purge == NULL) {
        scope->conf.purge = parent->conf.purge;
    }

    scope->conf.cache_pool = mcds_site_cache_pool(m, scope);

    if (ngx_http_mcds_site_merge(cf, &parent->conf, &scope->conf) != NGX_OK) {
        mcds_no_memory();
    }
}


/*
 * the pool of memcached servers in which a block of nginx's configuration
 * stores pages; NULL: it does not cache pages
 */

static ngx_mcds_pool_t *
mcds_site_cache_pool(mcds_t *m, mcds_scope_t *scope)
{
    ngx_str_t         words[2];
    mcds_directive_t  directive;

    if (scope->cache.data == NULL || mcds_is(&scope->cache, "off")) {
        return NULL;
    }

    ngx_str_set(&words[0], "mcds_cache");
    words[1] = scope->cache;

    ngx_memzero(&directive, sizeof(mcds_directive_t));

    directive.words = words;
    directive.n = 2;
    directive.scope = scope;

    return mcds_site_block_pool(m, &directive, scope);
}


/*
 * Copyright (C) mcds authors
 *
 * How the tool reads the pools and the directives of mcds in the configuration
 * of nginx.  The pools are created by the same code as in the nginx module.
 */


#include "mcds_site.h"
#include <glob.h>
#include "ngx_mcds_sign.h"


#define MCDS_INCLUDES             32


static void mcds_site_servers(mcds_t *m);
static ngx_int_t mcds_site_file(mcds_t *m, ngx_conf_t *cf, ngx_str_t *path,
    mcds_scope_t *scope, ngx_uint_t depth);
static ngx_int_t mcds_site_level(mcds_t *m, ngx_conf_t *cf,
    mcds_scope_t *scope, ngx_uint_t depth, ngx_uint_t block);
static mcds_scope_t *mcds_site_enter(mcds_t *m, ngx_conf_t *cf,
    mcds_scope_t *parent);
static void mcds_site_location(ngx_conf_t *cf, mcds_scope_t *scope);
static ngx_uint_t mcds_site_level_of(ngx_conf_t *cf, mcds_scope_t *parent);
static ngx_uint_t mcds_site_other_language(ngx_str_t *name);
static ngx_int_t mcds_site_include(mcds_t *m, ngx_conf_t *cf,
    mcds_scope_t *scope, ngx_uint_t depth);
static ngx_int_t mcds_site_add_pool(mcds_t *m, ngx_conf_t *cf);
static void mcds_site_add(mcds_t *m, ngx_conf_t *cf, mcds_scope_t *scope);
static void mcds_site_secret(ngx_conf_t *cf, char *directive, ngx_str_t *file,
    ngx_array_t *secrets);


void
mcds_site_read(mcds_t *m)
{
    u_char             *p;
    ngx_str_t           path;
    ngx_conf_t          cf;
    mcds_scope_t       *scope;
    ngx_uint_t          i;
    ngx_mcds_pool_t   **pool;

    if (ngx_array_init(&m->pools, m->memory, 4, sizeof(ngx_mcds_pool_t *))
        != NGX_OK
        || ngx_array_init(&m->directives, m->memory, 32,
                          sizeof(mcds_directive_t))
           != NGX_OK)
    {
        mcds_no_memory();
    }

    m->cycle->pool = m->memory;

    if (m->o.servers) {
        m->o.conf = m->o.servers;
        mcds_site_servers(m);

    } else {
        if (m->o.prefix) {
            mcds_usage(m, "--prefix requires --servers");
        }

        path.data = (u_char *) m->o.conf;
        path.len = ngx_strlen(path.data);

        p = (u_char *) strrchr(m->o.conf, '/');

        m->cycle->conf_prefix.data = path.data;
        m->cycle->conf_prefix.len = p ? p + 1 - path.data : 0;
        m->cycle->prefix = m->cycle->conf_prefix;

        ngx_memzero(&cf, sizeof(ngx_conf_t));

        cf.cycle = m->cycle;
        cf.pool = m->memory;
        cf.log = ngx_cycle->log;
        cf.args = ngx_array_create(m->memory, 16, sizeof(ngx_str_t));

        scope = mcds_alloc(m, sizeof(mcds_scope_t));
        scope->level = MCDS_LEVEL_MAIN;

        m->sites = mcds_alloc(m, sizeof(mcds_sites_t));
        m->sites->core.ports = ngx_array_create(m->memory, 4,
                                               sizeof(ngx_http_conf_port_t));

        if (ngx_tool_ssl_init(m->cycle) != NGX_OK
            || cf.args == NULL
            || m->sites->core.ports == NULL
            || ngx_array_init(&m->sites->scopes, m->memory, 32,
                              sizeof(mcds_scope_t *))
               != NGX_OK)
        {
            mcds_no_memory();
        }

        if (mcds_site_file(m, &cf, &path, scope, 0) != NGX_OK) {
            exit(MCDS_USAGE);
        }

        mcds_site_make(m);
    }

    /*
     * all pools get the timeout of the tool; after one failure of a memcached
     * server, the tool sends it no operations until it answers a probe
     */

    pool = m->pools.elts;

    for (i = 0; i < m->pools.nelts; i++) {
        pool[i]->timeout = m->o.timeout;
        pool[i]->connect_timeout = m->o.timeout;
        pool[i]->max_fails = 1;
        pool[i]->fail_timeout = 1000;
        pool[i]->keepalive = 0;
    }
}


/*
 * makes a pool of the memcached servers in the option --servers, without
 * nginx's configuration
 */

static void
mcds_site_servers(mcds_t *m)
{
    char              *err;
    u_char            *p, *last, *end;
    ngx_str_t          name, text;
    ngx_conf_t         cf;
    ngx_mcds_pool_t   *pool, **place;

    ngx_memzero(&cf, sizeof(ngx_conf_t));

    cf.cycle = m->cycle;
    cf.pool = m->memory;
    cf.log = ngx_cycle->log;

    ngx_str_set(&name, "servers");

    pool = ngx_mcds_pool_create(m->memory, &name);
    place = ngx_array_push(&m->pools);

    if (pool == NULL || place == NULL) {
        mcds_no_memory();
    }

    *place = pool;

    if (m->o.prefix) {
        pool->prefix.data = (u_char *) m->o.prefix;
        pool->prefix.len = ngx_strlen(m->o.prefix);

        if (ngx_mcds_key_check_prefix(&pool->prefix) != NGX_OK) {
            mcds_usage(m, "--prefix must be at most 128 printable ASCII "
                          "characters, without spaces and \"<\"");
        }
    }

    text.data = (u_char *) m->o.servers;
    text.len = ngx_strlen(text.data);
    err = NULL;

    if (ngx_strncmp(text.data, "--", 2) == 0) {
        err = ngx_mcds_pool_config(&cf, pool, &text);
        p = text.data;
        last = p;

    } else {
        p = text.data;
        last = p + text.len;
    }

    for ( /* void */ ; p < last && err == NULL; p = end + 1) {
        end = ngx_strlchr(p, last, ',');

        if (end == NULL) {
            end = last;
        }

        text.data = p;
        text.len = end - p;

        err = ngx_mcds_pool_add(&cf, pool, &text, 1, 0);
    }

    if (err == NULL) {
        err = ngx_mcds_pool_init(&cf, pool);
    }

    if (err) {
        mcds_usage(m, "--servers: %s", err);
    }
}


static ngx_int_t
mcds_site_file(mcds_t *m, ngx_conf_t *cf, ngx_str_t *path,
    mcds_scope_t *scope, ngx_uint_t depth)
{
    ngx_int_t         rc;
    ngx_conf_file_t  *save;

    save = cf->conf_file;

    rc = ngx_tool_conf_open(cf, path);

    if (rc == NGX_OK) {
        rc = mcds_site_level(m, cf, scope, depth, 0);
    }

    cf->conf_file = save;

    return rc;
}


static ngx_int_t
mcds_site_level(mcds_t *m, ngx_conf_t *cf, mcds_scope_t *scope,
    ngx_uint_t depth, ngx_uint_t block)
{
    ngx_int_t      rc;
    ngx_str_t     *word;
    mcds_scope_t  *inner;

    for ( ;; ) {
        rc = ngx_tool_conf_read(cf);
        word = cf->args->elts;

        switch (rc) {

        case NGX_ERROR:
            return NGX_ERROR;

        case NGX_CONF_FILE_DONE:
        case NGX_CONF_BLOCK_DONE:

            if (block == (rc == NGX_CONF_BLOCK_DONE)) {
                return NGX_OK;
            }

            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               block ? "unexpected end of file, expecting "
                                       "\"}\""
                                     : "unexpected \"}\"");
            return NGX_ERROR;

        case NGX_CONF_BLOCK_START:

            if (mcds_is(&word[0], "mcds_pool")) {
                rc = mcds_site_add_pool(m, cf);

            } else if (mcds_site_other_language(&word[0])) {
                rc = ngx_tool_conf_skip(cf);

            } else {
                inner = mcds_site_enter(m, cf, scope);
                rc = mcds_site_level(m, cf, inner, depth, 1);

                if (inner->level == MCDS_LEVEL_SERVER) {
                    mcds_site_server_end(m, inner);
                }
            }

            break;

        default:

            if (mcds_is(&word[0], "include") && cf->args->nelts == 2) {
                rc = mcds_site_include(m, cf, scope, depth);

            } else if (mcds_is(&word[0], "mcds_pool")) {
                ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                                   "directive \"mcds_pool\" has no opening "
                                   "\"{\"");
                return NGX_ERROR;

            } else if (ngx_strncmp(word[0].data, "mcds_", 5) == 0) {
                mcds_site_add(m, cf, scope);

            } else if (mcds_is(&word[0], "merge_slashes")) {
                m->sites->unmerged |= (cf->args->nelts == 2
                                       && ngx_strcasecmp(word[1].data,
                                                         (u_char *) "off")
                                          == 0);

            } else if (scope->level == MCDS_LEVEL_SERVER) {

                if (mcds_is(&word[0], "listen")) {
                    mcds_site_listen(m, cf, scope);

                } else if (mcds_is(&word[0], "server_name")) {
                    mcds_site_server_name(m, cf, scope);
                }
            }
        }

        if (rc != NGX_OK) {
            return rc;
        }
    }
}


static mcds_scope_t *
mcds_site_enter(mcds_t *m, ngx_conf_t *cf, mcds_scope_t *parent)
{
    mcds_scope_t              *scope, **place;
    ngx_http_core_srv_conf_t  *server;

    scope = mcds_alloc(m, sizeof(mcds_scope_t));

    scope->parent = parent;
    scope->level = mcds_site_level_of(cf, parent);
    scope->file = cf->conf_file->file.name;
    scope->line = cf->conf_file->line;

    if (scope->level < MCDS_LEVEL_HTTP) {
        return scope;
    }

    place = ngx_array_push(&m->sites->scopes);

    if (place == NULL) {
        mcds_no_memory();
    }

    *place = scope;
    scope->server = parent->server;

    mcds_site_location(cf, scope);

    if (scope->level != MCDS_LEVEL_SERVER) {
        return scope;
    }

    server = mcds_alloc(m, sizeof(ngx_http_core_srv_conf_t));

    server->file_name = scope->file.data;
    server->line = scope->line;

    if (ngx_array_init(&server->server_names, m->memory, 4,
                       sizeof(ngx_http_server_name_t))
        != NGX_OK)
    {
        mcds_no_memory();
    }

    scope->server = server;

    return scope;
}


/*
 * stores the prefix or the exact URI of a location{} in nginx's configuration;
 * none if it is a regular expression; other blocks are parts of a location{}.
 * As in nginx, a modifier may be a part of the URI's word: "=/uri".
 */

static void
mcds_site_location(ngx_conf_t *cf, mcds_scope_t *scope)
{
    size_t       skip;
    ngx_str_t   *word;
    ngx_uint_t   n;

    word = cf->args->elts;
    n = cf->args->nelts;

    if (!mcds_is(&word[0], "location")) {
        scope->part = (scope->level == MCDS_LEVEL_LOCATION);
        return;
    }

    if (n == 3 && (mcds_is(&word[1], "=") || mcds_is(&word[1], "^~"))) {
        scope->location = word[2];
        scope->exact = mcds_is(&word[1], "=");
        scope->no_regex = !scope->exact;

    } else if (n == 2 && word[1].data[0] != '~') {
        scope->location = word[1];
        scope->exact = (word[1].data[0] == '=');
        scope->no_regex = (ngx_strncmp(word[1].data, "^~", 2) == 0);

        skip = scope->exact ? 1 : scope->no_regex ? 2 : 0;

        scope->location.data += skip;
        scope->location.len -= skip;

    } else {
        scope->regex = 1;
    }

    if (mcds_is(&scope->location, "/") && !scope->exact) {
        scope->parent->rest = 1;
    }
}


static ngx_uint_t
mcds_site_level_of(ngx_conf_t *cf, mcds_scope_t *parent)
{
    ngx_str_t  *word;

    word = cf->args->elts;

    switch (parent->level) {

    case MCDS_LEVEL_MAIN:
        return mcds_is(&word[0], "http") ? MCDS_LEVEL_HTTP : MCDS_LEVEL_OTHER;

    case MCDS_LEVEL_HTTP:

        if (mcds_is(&word[0], "server")) {
            parent->rest = 1;
            return MCDS_LEVEL_SERVER;
        }

        return MCDS_LEVEL_OTHER;

    case MCDS_LEVEL_SERVER:
    case MCDS_LEVEL_LOCATION:

        if (mcds_is(&word[0], "location")) {
            return MCDS_LEVEL_LOCATION;
        }

        /*
         * nginx runs the code of an "if" that is directly in a server{}, but
         * such a block never responds to a request itself
         */

        if (parent->level == MCDS_LEVEL_LOCATION
            && (mcds_is(&word[0], "if") || mcds_is(&word[0], "limit_except")))
        {
            return MCDS_LEVEL_LOCATION;
        }
    }

    return MCDS_LEVEL_OTHER;
}


/*
 * 1 if a block of nginx's configuration, such as content_by_lua_block, is in
 * another language, which the tool does not read
 */

static ngx_uint_t
mcds_site_other_language(ngx_str_t *name)
{
    return name->len > 13
           && ngx_strncmp(name->data + name->len - 13, "_by_lua_block", 13)
              == 0;
}


static ngx_int_t
mcds_site_include(mcds_t *m, ngx_conf_t *cf, mcds_scope_t *scope,
    ngx_uint_t depth)
{
    glob_t      found;
    size_t      i;
    ngx_int_t   rc;
    ngx_str_t  *word, name, path;

    word = cf->args->elts;
    name = word[1];

    if (depth == MCDS_INCLUDES) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "too many files include each other");
        return NGX_ERROR;
    }

    if (ngx_conf_full_name(m->cycle, &name, 1) != NGX_OK) {
        mcds_no_memory();
    }

    if (strpbrk((char *) name.data, "*?[") == NULL) {
        return mcds_site_file(m, cf, &name, scope, depth + 1);
    }

    switch (glob((char *) name.data, 0, NULL, &found)) {

    case 0:
        break;

    case GLOB_NOMATCH:
        return NGX_OK;

    default:
        ngx_conf_log_error(NGX_LOG_EMERG, cf, ngx_errno,
                           "cannot search for \"%V\"", &name);
        return NGX_ERROR;
    }

    rc = NGX_OK;

    for (i = 0; i < found.gl_pathc && rc == NGX_OK; i++) {

        path.len = ngx_strlen(found.gl_pathv[i]);
        path.data = mcds_alloc(m, path.len + 1);
        ngx_memcpy(path.data, found.gl_pathv[i], path.len);

        rc = mcds_site_file(m, cf, &path, scope, depth + 1);
    }

    globfree(&found);

    return rc;
}


static ngx_int_t
mcds_site_add_pool(mcds_t *m, ngx_conf_t *cf)
{
    ngx_http_mcds_main_conf_t  mmcf;

    if (cf->args->nelts != 2) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"mcds_pool\" needs a name");
        return NGX_ERROR;
    }

    ngx_memzero(&mmcf, sizeof(ngx_http_mcds_main_conf_t));
    mmcf.pools = m->pools;

    if (ngx_http_mcds_pool(cf, NULL, &mmcf) != NGX_CONF_OK) {
        return NGX_ERROR;
    }

    m->pools = mmcf.pools;

    return NGX_OK;
}


ngx_mcds_pool_t *
ngx_http_mcds_find_pool(ngx_http_mcds_main_conf_t *mmcf, ngx_str_t *name)
{
    ngx_uint_t         i;
    ngx_mcds_pool_t  **pool;

    pool = mmcf->pools.elts;

    for (i = 0; i < mmcf->pools.nelts; i++) {
        if (pool[i]->name.len == name->len
            && ngx_memcmp(pool[i]->name.data, name->data, name->len) == 0)
        {
            return pool[i];
        }
    }

    return NULL;
}


static void
mcds_site_add(mcds_t *m, ngx_conf_t *cf, mcds_scope_t *scope)
{
    ngx_str_t         *word;
    mcds_directive_t  *directive;

    word = cf->args->elts;

    if (cf->args->nelts == 2) {

        if (mcds_is(&word[0], "mcds_use")) {
            scope->use = word[1];
            return;
        }

        if (mcds_is(&word[0], "mcds_cache")) {
            scope->cache = word[1];

        } else if (mcds_is(&word[0], "mcds_cache_site")) {
            scope->conf.cache_site = word[1];
        }
    }

    if (mcds_is(&word[0], "mcds_cache_key") && cf->args->nelts == 2) {
        scope->text = word[1];

    } else if (mcds_is(&word[0], "mcds_cache_key_args")) {

        /*
         * "off" also stops the inheritance: data is not NULL, and the length
         * is 0
         */

        if (cf->args->nelts > 1) {
            scope->args.data = word[0].data;
            scope->args.len = mcds_is(&word[1], "off") ? 0 : word[0].len;
        }

    } else if (mcds_is(&word[0], "mcds_purge_api")) {

        /*
         * the location has mcds_purge_api: ngx_http_mcds_site_merge() only
         * tests whether conf.purge is NULL, so any other pointer will do
         */

        scope->conf.purge = (ngx_http_mcds_purge_t *) scope;
    }

    scope->own |= mcds_site_kind(&word[0]);

    directive = ngx_array_push(&m->directives);

    if (directive == NULL) {
        mcds_no_memory();
    }

    directive->n = cf->args->nelts;
    directive->words = mcds_alloc(m, directive->n * sizeof(ngx_str_t));
    ngx_memcpy(directive->words, word, directive->n * sizeof(ngx_str_t));

    directive->file = cf->conf_file->file.name;
    directive->line = cf->conf_file->line;
    directive->scope = scope;
}


ngx_array_t *
mcds_site_secrets(mcds_t *m)
{
    ngx_str_t         *file;
    ngx_uint_t         i, n;
    ngx_conf_t         cf;
    ngx_array_t       *secrets;
    mcds_directive_t  *directive;

    ngx_memzero(&cf, sizeof(ngx_conf_t));
    cf.cycle = m->cycle;
    cf.pool = m->memory;
    cf.log = ngx_cycle->log;

    secrets = ngx_array_create(m->memory, 2, sizeof(ngx_str_t));

    if (secrets == NULL) {
        mcds_no_memory();
    }

    file = m->o.hmac.elts;

    for (i = 0; i < m->o.hmac.nelts; i++) {
        mcds_site_secret(&cf, "--hmac-key-file", &file[i], secrets);
    }

    i = 0;

    while (m->o.hmac.nelts == 0
           && (directive = mcds_site_find(m, &i, "mcds_cache_hmac_key", NULL)))
    {
        for (n = 1; n < directive->n; n++) {
            if (!mcds_is(&directive->words[n], "off")) {
                file = &directive->words[n];
                (void) ngx_conf_full_name(m->cycle, file, 1);
                mcds_site_secret(&cf, "mcds_cache_hmac_key", file, secrets);
            }
        }
    }

    return secrets->nelts ? secrets : NULL;
}


static void
mcds_site_secret(ngx_conf_t *cf, char *directive, ngx_str_t *file,
    ngx_array_t *secrets)
{
    if (ngx_mcds_sign_read(cf, directive, file, secrets) != NGX_OK) {
        exit(MCDS_USAGE);
    }
}

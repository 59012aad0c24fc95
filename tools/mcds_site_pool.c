
/*
 * Copyright (C) mcds authors
 *
 * Chooses the pool of memcached servers for a command of the tool mcds: the
 * pool that nginx's directives use for the name, such as that of a log, or for
 * the counter's key on the command line.
 */


#include "mcds_site.h"
#include <ctype.h>


/* the directives of nginx's configuration that store data in a pool */
#define MCDS_SITE_DATA                                                        \
    "mcds_cache mcds_counter mcds_visitor_counter mcds_counter_top "          \
    "mcds_counter_api mcds_lock mcds_lock_api mcds_log mcds_log_api "         \
    "mcds_array_api mcds_array_push mcds_table_api mcds_table_lookup"


static ngx_uint_t mcds_site_one_pool(mcds_t *m);
static ngx_int_t mcds_site_agree(mcds_t *m, mcds_directive_t *directive);
static mcds_scope_t *mcds_site_block(mcds_t *m, ngx_uint_t *i,
    mcds_directive_t *directive);
static void mcds_site_any_pool(mcds_t *m);
static char *mcds_site_names(mcds_t *m);
static ngx_mcds_pool_t *mcds_site_used(mcds_t *m);
static ngx_mcds_pool_t *mcds_site_named(mcds_t *m, u_char *data, size_t len);
static ngx_uint_t mcds_site_one_of(char *names, ngx_str_t *name);
static ngx_str_t mcds_site_unnumbered(ngx_str_t *key);
static ngx_uint_t mcds_site_may(ngx_str_t *text, ngx_str_t *key,
    ngx_uint_t prefix, ngx_uint_t exact);
static ngx_uint_t mcds_site_fits(u_char *text, u_char *end, u_char *key,
    u_char *last, ngx_uint_t begin);
static u_char *mcds_site_variable(u_char *text, u_char *end);


void
mcds_site_pool(mcds_t *m, char *directives, ngx_str_t *name)
{
    ngx_uint_t         i;
    mcds_directive_t  *directive;

    if (mcds_site_one_pool(m)) {
        return;
    }

    /*
     * if all of the directives that have this name as argument, such as a
     * log's name, use the same pool of memcached servers, mcds uses it, too
     */

    i = 0;

    while ((directive = mcds_site_find(m, &i, directives, name))) {

        if (mcds_site_agree(m, directive) != NGX_OK) {
            break;
        }
    }

    mcds_site_any_pool(m);
}


void
mcds_site_key_pool(mcds_t *m, char *directives, ngx_str_t *key)
{
    ngx_int_t          exact;
    ngx_uint_t         i;
    mcds_directive_t  *directive;

    if (mcds_site_one_pool(m)) {
        return;
    }

    m->pool = NULL;

    for (exact = 1; exact >= 0 && m->pool == NULL; exact--) {
        i = 0;

        while ((directive = mcds_site_find_key(m, &i, directives, key,
                                               exact)))
        {
            if (mcds_site_agree(m, directive) != NGX_OK) {
                break;
            }
        }
    }

    mcds_site_any_pool(m);
}


/*
 * sets the pool of memcached servers that this run of mcds uses to that of
 * --pool, or to the only pool of nginx's configuration; 1 if there is one
 */

static ngx_uint_t
mcds_site_one_pool(mcds_t *m)
{
    ngx_mcds_pool_t  **pools;

    pools = m->pools.elts;

    if (m->o.pool) {
        m->pool = mcds_site_named(m, (u_char *) m->o.pool,
                                  ngx_strlen(m->o.pool));

        if (m->pool == NULL) {
            mcds_usage(m, "unknown pool: %s; known pools:%s", m->o.pool,
                       mcds_site_names(m));
        }

        return 1;
    }

    if (m->pools.nelts == 0) {
        mcds_usage(m, "%s has no \"mcds_pool\"", m->o.conf);
    }

    if (m->pools.nelts == 1) {
        m->pool = pools[0];
        return 1;
    }

    return 0;
}


/*
 * sets the pool of memcached servers that this run of mcds uses to that of a
 * directive; NGX_DECLINED: an earlier directive uses another pool, or the pool
 * of this one is unknown, and this run has no pool now
 */

static ngx_int_t
mcds_site_agree(mcds_t *m, mcds_directive_t *directive)
{
    ngx_mcds_pool_t  *pool;

    pool = mcds_site_in_pool(m, directive);

    if (pool == NULL || (m->pool && m->pool != pool)) {
        m->pool = NULL;
        return NGX_DECLINED;
    }

    m->pool = pool;

    return NGX_OK;
}


static void
mcds_site_any_pool(mcds_t *m)
{
    if (m->pool == NULL) {
        m->pool = mcds_site_used(m);
    }

    if (m->pool == NULL) {
        mcds_usage(m, "%s has several pools, choose one with --pool:%s",
                   m->o.conf, mcds_site_names(m));
    }
}


/*
 * the names of all pools of memcached servers in nginx's configuration, each
 * after a space
 */

static char *
mcds_site_names(mcds_t *m)
{
    u_char            *p, *names;
    size_t             len;
    ngx_uint_t         i;
    ngx_mcds_pool_t  **pool;

    pool = m->pools.elts;
    len = sizeof(" none");

    for (i = 0; i < m->pools.nelts; i++) {
        len += 1 + pool[i]->name.len;
    }

    names = mcds_alloc(m, len);
    p = names;

    for (i = 0; i < m->pools.nelts; i++) {
        p = ngx_sprintf(p, " %V", &pool[i]->name);
    }

    if (i == 0) {
        (void) ngx_sprintf(p, " none");
    }

    return (char *) names;
}


/*
 * the pool of memcached servers that all directives of nginx's configuration
 * use; NULL if they use several or none
 */

static ngx_mcds_pool_t *
mcds_site_used(mcds_t *m)
{
    ngx_uint_t         i;
    ngx_mcds_pool_t   *pool, *one;
    mcds_directive_t  *directive;

    one = NULL;
    i = 0;

    while ((directive = mcds_site_find(m, &i, MCDS_SITE_DATA, NULL))) {
        pool = mcds_site_in_pool(m, directive);

        if (pool == NULL || (one && one != pool)) {
            return NULL;
        }

        one = pool;
    }

    return one;
}


static ngx_mcds_pool_t *
mcds_site_named(mcds_t *m, u_char *data, size_t len)
{
    ngx_str_t                  name;
    ngx_http_mcds_main_conf_t  mmcf;

    name.data = data;
    name.len = len;
    mmcf.pools = m->pools;

    return ngx_http_mcds_find_pool(&mmcf, &name);
}


static ngx_uint_t
mcds_site_one_of(char *names, ngx_str_t *name)
{
    size_t  len;

    while (*names) {
        len = strcspn(names, " ");

        if (len == name->len && ngx_strncmp(names, name->data, len) == 0) {
            return 1;
        }

        names += len;
        names += (*names == ' ');
    }

    return 0;
}


mcds_directive_t *
mcds_site_find(mcds_t *m, ngx_uint_t *i, char *names, ngx_str_t *name)
{
    ngx_str_t         *word;
    ngx_uint_t         n;
    mcds_directive_t  *directive;

    while (*i < m->directives.nelts) {
        directive = (mcds_directive_t *) m->directives.elts + (*i)++;

        /*
         * word: the argument with the object's name, such as a table's; NULL:
         * the directive has no argument, as mcds_lock_api may.  It is the first
         * argument, but the second of mcds_table_lookup, after a variable.
         */

        n = mcds_is(&directive->words[0], "mcds_table_lookup") ? 2 : 1;
        word = (directive->n > n) ? &directive->words[n] : NULL;

        if (mcds_site_one_of(names, &directive->words[0])
            && !(directive->n == 2 && mcds_is(&directive->words[1], "off"))
            && (name == NULL || (word && ngx_mcds_same(word, name))))
        {
            return directive;
        }
    }

    return NULL;
}


mcds_directive_t *
mcds_site_find_key(mcds_t *m, ngx_uint_t *i, char *names, ngx_str_t *key,
    ngx_uint_t exact)
{
    ngx_str_t         *text, base;
    ngx_uint_t         prefix;
    mcds_directive_t  *directive;
    static ngx_str_t   any = ngx_string("$key");

    base = mcds_site_unnumbered(key);

    while ((directive = mcds_site_find(m, i, names, NULL))) {
        prefix = mcds_is(&directive->words[0], "mcds_counter_api");
        text = mcds_site_param(directive, prefix ? "prefix=" : "key=");

        if (text == NULL) {

            if (prefix) {
                continue;
            }

            /*
             * a counter without "key=" may have any key, since the default key
             * consists of variables only
             */

            text = &any;
        }

        if (mcds_site_may(text, key, prefix, exact)) {
            return directive;
        }

        if (base.len < key->len
            && mcds_site_may(text, &base, prefix, exact)
            && mcds_site_param(directive, "period="))
        {
            return directive;
        }
    }

    return NULL;
}


/*
 * the key of a counter without ":" and the number of a period, which nginx
 * appends to keys of counters with "period="; the key itself if it does not
 * end so
 */

static ngx_str_t
mcds_site_unnumbered(ngx_str_t *key)
{
    size_t     len;
    ngx_str_t  base;

    base = *key;
    len = key->len;

    while (len && isdigit(key->data[len - 1])) {
        len--;
    }

    if (len && len < key->len && key->data[len - 1] == ':') {
        base.len = len - 1;
    }

    return base;
}


static ngx_uint_t
mcds_site_may(ngx_str_t *text, ngx_str_t *key, ngx_uint_t prefix,
    ngx_uint_t exact)
{
    if (exact) {
        return !prefix && ngx_mcds_same(text, key);
    }

    return mcds_site_fits(text->data, text->data + text->len, key->data,
                          key->data + key->len, prefix);
}


/*
 * returns 1 if the key of a counter matches the text in "key=" or "prefix=" of
 * a directive, where a variable stands for any characters; if "begin" is 1, the
 * text is a prefix, which needs to match only the beginning of the key
 */

static ngx_uint_t
mcds_site_fits(u_char *text, u_char *end, u_char *key, u_char *last,
    ngx_uint_t begin)
{
    u_char  *rest, *mark;

    rest = NULL;
    mark = NULL;

    for ( ;; ) {

        if (text < end && *text == '$') {
            text = mcds_site_variable(text + 1, end);

            rest = text;
            mark = key;

        } else if (text == end && (begin || key == last)) {
            return 1;

        } else if (text < end && key < last && *text == *key) {
            text++;
            key++;

        } else {

            /*
             * the key does not match the directive's text: one more character
             * of the key becomes part of the value of the variable that was
             * last found in the text; if none was found, there is no match
             */

            if (rest == NULL || mark == last) {
                return 0;
            }

            text = rest;
            key = ++mark;
        }
    }
}


static u_char *
mcds_site_variable(u_char *text, u_char *end)
{
    if (text < end && *text == '{') {
        while (text < end && *text++ != '}') { /* void */ }
        return text;
    }

    while (text < end && (isalnum(*text) || *text == '_')) {
        text++;
    }

    return text;
}


ngx_mcds_pool_t *
mcds_site_in_pool(mcds_t *m, mcds_directive_t *directive)
{
    ngx_uint_t        i;
    mcds_scope_t     *scope;
    ngx_mcds_pool_t  *pool, *one;

    i = 0;
    one = NULL;

    while ((scope = mcds_site_block(m, &i, directive))) {
        pool = mcds_site_block_pool(m, directive, scope);

        if (pool == NULL || (one && one != pool)) {
            return NULL;
        }

        one = pool;
    }

    return one ? one : mcds_site_block_pool(m, directive, directive->scope);
}


ngx_uint_t
mcds_site_uses(mcds_t *m, mcds_directive_t *directive, ngx_mcds_pool_t *pool)
{
    ngx_uint_t        i, uses;
    mcds_scope_t     *scope;
    ngx_mcds_pool_t  *used;

    i = 0;
    uses = 0;

    scope = mcds_site_block(m, &i, directive);

    if (scope == NULL) {
        scope = directive->scope;
    }

    do {
        used = mcds_site_block_pool(m, directive, scope);

        if (used == pool) {
            return 1;
        }

        if (used == NULL) {
            uses = 2;
        }

    } while ((scope = mcds_site_block(m, &i, directive)));

    return uses;
}


/*
 * Returns the next block of nginx's configuration, from *i on, that responds to
 * requests and has or inherits the directive.  *i is advanced.  Returns NULL if
 * there is none.
 */

static mcds_scope_t *
mcds_site_block(mcds_t *m, ngx_uint_t *i, mcds_directive_t *directive)
{
    ngx_uint_t     kind;
    mcds_scope_t  *scope, *level;

    kind = mcds_site_kind(&directive->words[0]);

    if (kind == 0) {

        /* the directive uses the pool of its own block wherever it applies */

        return ((*i)++ == 0) ? directive->scope : NULL;
    }

    while (*i < m->sites->scopes.nelts) {
        scope = ((mcds_scope_t **) m->sites->scopes.elts)[(*i)++];

        if (scope->rest) {
            continue;
        }

        level = scope;

        while (level && level != directive->scope && !(level->own & kind)) {
            level = level->parent;
        }

        if (level == directive->scope) {
            return scope;
        }
    }

    return NULL;
}


ngx_uint_t
mcds_site_kind(ngx_str_t *name)
{
    ngx_uint_t  i;

    /*
     * the kinds of the directives that use the pool of the block that inherits
     * them; one mcds_counter also replaces the outer mcds_visitor_counter
     */

    static char  *kinds[] = {
        "mcds_cache", "mcds_counter mcds_visitor_counter", "mcds_lock",
        "mcds_array_push", "mcds_table_lookup", NULL
    };

    for (i = 0; kinds[i]; i++) {
        if (mcds_site_one_of(kinds[i], name)) {
            return (ngx_uint_t) 1 << i;
        }
    }

    return 0;
}


ngx_mcds_pool_t *
mcds_site_block_pool(mcds_t *m, mcds_directive_t *directive,
    mcds_scope_t *scope)
{
    ngx_str_t         *name;
    ngx_mcds_pool_t  **pool;

    name = mcds_site_param(directive, "pool=");

    if (name) {
        return mcds_site_named(m, name->data, name->len);
    }

    if (mcds_is(&directive->words[0], "mcds_cache")
        && directive->n > 1
        && !mcds_is(&directive->words[1], "on")
        && !mcds_is(&directive->words[1], "off"))
    {
        return mcds_site_named(m, directive->words[1].data,
                               directive->words[1].len);
    }

    for ( /* void */ ; scope; scope = scope->parent) {
        if (scope->use.len) {
            return mcds_site_named(m, scope->use.data, scope->use.len);
        }
    }

    pool = m->pools.elts;

    return (m->pools.nelts == 1) ? pool[0] : NULL;
}


/*
 * the value of a directive's parameter "name=", or NULL if the directive does
 * not have it
 */

ngx_str_t *
mcds_site_param(mcds_directive_t *directive, char *name)
{
    size_t            len;
    ngx_str_t        *word;
    ngx_uint_t        i;
    static ngx_str_t  value;

    len = ngx_strlen(name);
    word = directive->words;

    for (i = 1; i < directive->n; i++) {
        if (word[i].len > len && ngx_strncmp(word[i].data, name, len) == 0) {
            value.data = word[i].data + len;
            value.len = word[i].len - len;

            return &value;
        }
    }

    return NULL;
}

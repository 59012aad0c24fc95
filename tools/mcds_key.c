
/*
 * Copyright (C) mcds authors
 *
 * Computes the key that nginx makes of mcds_cache_key for a URL, if the URL
 * alone determines the key.
 */


#include "mcds_key.h"


/*
 * the parts of a URL such as http://example.com/a?b=c; "key" is the whole URL,
 * which is the key of the page by default
 */

typedef struct {
    ngx_str_t   key;
    ngx_str_t   scheme;
    ngx_str_t   host;         /* host of the URL, with the port */
    ngx_str_t   uri;          /* URI of the URL, with the arguments */
    ngx_str_t   path;
    ngx_str_t   args;
    ngx_uint_t  plain;        /* 1: the URL's path is equal to $uri, since nginx
                                 has nothing to decode or normalize */
} mcds_key_url_t;


#define MCDS_KEY_NO               0
#define MCDS_KEY_MAY              1
#define MCDS_KEY_SURE             2     /* the location certainly matches the
                                           URL; another may match better */


static void mcds_key_split(mcds_key_url_t *u, ngx_str_t *url);
static mcds_scope_t *mcds_key_scope(mcds_t *m, mcds_scope_t *site,
    ngx_array_t *servers, mcds_key_url_t *u, ngx_uint_t *several);
static ngx_uint_t mcds_key_answers(mcds_t *m, mcds_scope_t *scope,
    mcds_key_url_t *u);
static ngx_uint_t mcds_key_match(mcds_scope_t *scope, mcds_key_url_t *u);
static ngx_uint_t mcds_key_better(mcds_scope_t *a, mcds_scope_t *b);
static char *mcds_key_text(mcds_t *m, mcds_scope_t *scope, mcds_key_url_t *u,
    ngx_str_t *key);
static ngx_int_t mcds_key_variable(mcds_scope_t *scope, mcds_key_url_t *u,
    ngx_str_t *name, ngx_str_t *value);
static void mcds_key_arg(mcds_key_url_t *u, ngx_str_t *name,
    ngx_str_t *value);
static char *mcds_key_why(mcds_t *m, char *format, ngx_str_t *word);


char *
mcds_key(mcds_t *m, mcds_scope_t *site, ngx_array_t *servers, ngx_str_t *url)
{
    char            *why;
    ngx_str_t        key;
    ngx_uint_t       several;
    mcds_scope_t    *scope;
    mcds_key_url_t   u;

    mcds_key_split(&u, url);

    several = 0;
    scope = mcds_key_scope(m, site, servers, &u, &several);

    if (scope == NULL) {
        return NULL;
    }

    if (several) {
        return "the locations that match have different keys";
    }

    why = mcds_key_text(m, scope, &u, &key);

    if (why == NULL) {
        *url = key;
    }

    return why;
}


static void
mcds_key_split(mcds_key_url_t *u, ngx_str_t *url)
{
    u_char  *p, *last;

    ngx_memzero(u, sizeof(mcds_key_url_t));

    last = url->data + url->len;

    u->key = *url;

    p = ngx_strlchr(url->data, last, ':');

    u->scheme.data = url->data;
    u->scheme.len = p - url->data;

    u->host.data = p + 3;
    u->uri.data = ngx_strlchr(u->host.data, last, '/');
    u->host.len = u->uri.data - u->host.data;
    u->uri.len = last - u->uri.data;

    u->path = u->uri;
    p = ngx_strlchr(u->uri.data, last, '?');

    if (p) {
        u->path.len = p - u->uri.data;
        u->args.data = p + 1;
        u->args.len = last - u->args.data;
    }

    /*
     * nginx would change a URL's path with "%xx", which it decodes, or with
     * "//", "/." or "/..", which it normalizes
     */

    u->plain = 1;

    for (p = u->path.data; p < u->path.data + u->path.len; p++) {
        if (*p == '%'
            || (*p == '/' && p + 1 < last && (p[1] == '/' || p[1] == '.')))
        {
            u->plain = 0;
        }
    }
}


/*
 * finds a location that may answer the URL; sets *several if other locations,
 * in which pages have other keys, may answer the URL, too
 */

static mcds_scope_t *
mcds_key_scope(mcds_t *m, mcds_scope_t *site, ngx_array_t *servers,
    mcds_key_url_t *u, ngx_uint_t *several)
{
    ngx_uint_t      i;
    mcds_scope_t  **scope, *found;

    scope = m->sites->scopes.elts;
    found = NULL;

    for (i = 0; i < m->sites->scopes.nelts; i++) {

        if (scope[i]->conf.cache_pool != site->conf.cache_pool
            || scope[i]->conf.site == NULL
            || !ngx_mcds_same(scope[i]->conf.site, site->conf.site)
            || (servers && !mcds_page_one_of(servers, scope[i]->server))
            || !mcds_key_answers(m, scope[i], u))
        {
            continue;
        }

        if (found
            && (!ngx_mcds_same(&found->text, &scope[i]->text)
                || !ngx_mcds_same(&found->args, &scope[i]->args)))
        {
            *several = 1;
        }

        found = scope[i];
    }

    return found;
}


static ngx_uint_t
mcds_key_answers(mcds_t *m, mcds_scope_t *scope, mcds_key_url_t *u)
{
    ngx_uint_t      i;
    mcds_scope_t  **other, *level, *around;

    other = m->sites->scopes.elts;

    around = scope;

    while (around->part) {
        around = around->parent;
    }

    for (i = 0; i < m->sites->scopes.nelts; i++) {

        if (mcds_key_match(other[i], u) != MCDS_KEY_SURE) {
            continue;
        }

        /*
         * the location, with each "if" and limit_except in it, does not answer
         * the URL if a location inside of it matches
         */

        if (other[i]->parent == around) {
            return 0;
        }

        /*
         * the location does not answer the URL if a sibling of the location,
         * or of a location around it, matches the URL better
         */

        for (level = scope;
             level->level == MCDS_LEVEL_LOCATION;
             level = level->parent)
        {
            if (other[i]->parent == level->parent
                && mcds_key_better(other[i], level))
            {
                return 0;
            }
        }
    }

    for (level = scope;
         level->level == MCDS_LEVEL_LOCATION;
         level = level->parent)
    {
        if (mcds_key_match(level, u) == MCDS_KEY_NO) {
            return 0;
        }
    }

    return scope->level >= MCDS_LEVEL_SERVER;
}


static ngx_uint_t
mcds_key_match(mcds_scope_t *scope, mcds_key_url_t *u)
{
    if (scope->level != MCDS_LEVEL_LOCATION
        || scope->location.len == 0
        || scope->location.data[0] != '/')
    {
        return MCDS_KEY_MAY;
    }

    if (!u->plain) {
        return MCDS_KEY_MAY;
    }

    if (scope->exact) {
        return ngx_mcds_same(&scope->location, &u->path) ? MCDS_KEY_SURE
                                                         : MCDS_KEY_NO;
    }

    return (u->path.len >= scope->location.len
            && ngx_memcmp(u->path.data, scope->location.data,
                          scope->location.len)
               == 0) ? MCDS_KEY_SURE : MCDS_KEY_NO;
}


/*
 * 1 if location a, which matches the URL for certain, precedes location b,
 * which may match; a location with a regular expression may precede one with a
 * prefix
 */

static ngx_uint_t
mcds_key_better(mcds_scope_t *a, mcds_scope_t *b)
{
    if (a == b) {
        return 0;
    }

    if (a->exact) {
        return 1;
    }

    return b->location.len && b->location.data[0] == '/' && !b->exact
           && a->location.len > b->location.len;
}


/*
 * composes the key of a page from the text of mcds_cache_key and a URL; returns
 * NULL, or the reason why the key is unknown
 */

static char *
mcds_key_text(mcds_t *m, mcds_scope_t *scope, mcds_key_url_t *u,
    ngx_str_t *key)
{
    u_char      *p, *last, *to;
    size_t       size;
    ngx_str_t    text, name, value;

    text = scope->text;

    if (text.data == NULL) {
        ngx_str_set(&text, "$mcds_cache_key");
    }

    last = text.data + text.len;
    size = text.len;

    for (p = text.data; p < last; p++) {
        if (*p == '$') {
            size += u->key.len;
        }
    }

    to = mcds_alloc(m, size);
    key->data = to;

    for (p = text.data; p < last; /* void */) {

        if (*p != '$') {
            *to++ = *p++;
            continue;
        }

        name.data = ++p;

        if (p < last && *p == '{') {
            name.data = ++p;
        }

        while (p < last
               && ((*p >= '0' && *p <= '9') || *p == '_'
                   || ((*p | 0x20) >= 'a' && (*p | 0x20) <= 'z')))
        {
            p++;
        }

        name.len = p - name.data;

        if (p < last && name.data[-1] == '{') {
            p++;
        }

        if (mcds_key_variable(scope, u, &name, &value) == NGX_OK) {
            to = value.len ? ngx_cpymem(to, value.data, value.len) : to;
            continue;
        }

        if (mcds_is(&name, "mcds_cache_key")) {
            return mcds_key_why(m, "%.*s changes its arguments",
                                &scope->args);
        }

        return mcds_key_why(m, "mcds_cache_key has $%.*s, which the URL does "
                               "not determine", &name);
    }

    key->len = to - key->data;

    return key->len ? NULL : "mcds_cache_key is empty, and the page not cached";
}


/*
 * computes the value that a variable of mcds_cache_key has for a URL;
 * NGX_DECLINED: the URL does not determine it
 */

static ngx_int_t
mcds_key_variable(mcds_scope_t *scope, mcds_key_url_t *u, ngx_str_t *name,
    ngx_str_t *value)
{
    u_char  *p, *last;

    ngx_str_null(value);

    if (mcds_is(name, "mcds_cache_key")) {
        *value = u->key;

        return (scope->args.len && u->args.len) ? NGX_DECLINED : NGX_OK;
    }

    if (mcds_is(name, "scheme")) {
        *value = u->scheme;

    } else if (mcds_is(name, "http_host")) {
        *value = u->host;

    } else if (mcds_is(name, "host")) {
        *value = u->host;
        last = value->data + value->len;

        p = (*value->data == '[') ? ngx_strlchr(value->data, last, ']')
                                  : value->data;
        p = p ? ngx_strlchr(p, last, ':') : NULL;

        if (p) {
            value->len = p - value->data;
        }

        if (value->len && value->data[value->len - 1] == '.') {
            value->len--;
        }

    } else if (mcds_is(name, "request_uri")) {
        *value = u->uri;

    } else if (mcds_is(name, "uri") || mcds_is(name, "document_uri")) {
        *value = u->path;

        return u->plain ? NGX_OK : NGX_DECLINED;

    } else if (mcds_is(name, "args") || mcds_is(name, "query_string")) {
        *value = u->args;

    } else if (mcds_is(name, "is_args")) {

        if (u->args.len) {
            ngx_str_set(value, "?");
        }

    } else if (mcds_is(name, "request_method")) {
        ngx_str_set(value, "GET");

    } else if (name->len > 4 && ngx_strncmp(name->data, "arg_", 4) == 0) {
        mcds_key_arg(u, name, value);

    } else {
        return NGX_DECLINED;
    }

    return NGX_OK;
}


/*
 * computes the value of the variable "name", of the form arg_NAME: the value of
 * the URL's first argument NAME, whose case does not matter, as for nginx
 */

static void
mcds_key_arg(mcds_key_url_t *u, ngx_str_t *name, ngx_str_t *value)
{
    u_char  *p, *last, *end;
    size_t   len;

    len = name->len - 4;
    last = u->args.data + u->args.len;

    for (p = u->args.data; p < last; p = end + 1) {

        end = ngx_strlchr(p, last, '&');

        if (end == NULL) {
            end = last;
        }

        if ((size_t) (end - p) > len
            && p[len] == '='
            && ngx_strncasecmp(p, name->data + 4, len) == 0)
        {
            value->data = p + len + 1;
            value->len = end - value->data;
            return;
        }
    }
}


static char *
mcds_key_why(mcds_t *m, char *format, ngx_str_t *word)
{
    char    *why;
    size_t   size;

    size = ngx_strlen(format) + word->len;
    why = (char *) mcds_alloc(m, size);

    (void) snprintf(why, size, format, (int) word->len, word->data);

    return why;
}


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
    ngx_str_t   path;         /* path of the URL, as $uri if it is known */
    ngx_str_t   args;
    ngx_uint_t  known;        /* 1: the tool knows what nginx makes of the
                                 path */
} mcds_key_url_t;


static void mcds_key_split(mcds_key_url_t *u, ngx_str_t *url);
static void mcds_key_normalize(mcds_t *m, mcds_key_url_t *u);
static mcds_scope_t *mcds_key_scope(mcds_t *m, mcds_scope_t *site,
    ngx_array_t *servers, mcds_key_url_t *u, ngx_uint_t *several);
static ngx_uint_t mcds_key_answers(mcds_t *m, mcds_scope_t *around,
    mcds_key_url_t *u, ngx_array_t *answers);
static void mcds_key_answer(mcds_t *m, mcds_scope_t *answer,
    ngx_array_t *answers);
static ngx_uint_t mcds_key_match(mcds_scope_t *scope, mcds_key_url_t *u);
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
    mcds_key_normalize(m, &u);

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
}


/*
 * sets u->path to the URI that nginx compares with locations, by nginx's own
 * code, which decodes "%xx" and resolves "//", "/." and "/.."; u->known is 0 if
 * that depends on the configuration, or if nginx refuses the URI
 */

static void
mcds_key_normalize(mcds_t *m, mcds_key_url_t *u)
{
    ngx_str_t           path;
    ngx_uint_t          i;
    ngx_connection_t    c;
    ngx_http_request_t  r;

    ngx_memzero(&c, sizeof(ngx_connection_t));
    c.log = ngx_cycle->log;

    path = u->path;

    for (i = 0; i < 2; i++) {

        /*
         * nginx merges slashes by default; it reads the "merge_slashes" of a
         * server{} that it may choose before it knows the host
         */

        if (i == 1 && !m->sites->unmerged) {
            break;
        }

        ngx_memzero(&r, sizeof(ngx_http_request_t));

        r.connection = &c;
        r.uri_start = path.data;
        r.uri_end = path.data + path.len;
        r.uri.len = path.len;
        r.uri.data = mcds_alloc(m, path.len + 1);

        if (ngx_http_parse_complex_uri(&r, i == 0) != NGX_OK) {
            return;
        }

        if (i == 1 && !ngx_mcds_same(&r.uri, &u->path)) {
            return;
        }

        u->path = r.uri;
    }

    u->known = 1;
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
    ngx_array_t     answers;
    mcds_scope_t  **scope, *found;

    if (ngx_array_init(&answers, m->memory, 4, sizeof(mcds_scope_t *))
        != NGX_OK)
    {
        mcds_no_memory();
    }

    scope = m->sites->scopes.elts;

    for (i = 0; i < m->sites->scopes.nelts; i++) {
        if (scope[i]->level == MCDS_LEVEL_SERVER
            && (servers == NULL
                || mcds_page_one_of(servers, scope[i]->server)))
        {
            (void) mcds_key_answers(m, scope[i], u, &answers);
        }
    }

    scope = answers.elts;
    found = NULL;

    for (i = 0; i < answers.nelts; i++) {

        if (scope[i]->conf.cache_pool != site->conf.cache_pool
            || scope[i]->conf.site == NULL
            || !ngx_mcds_same(scope[i]->conf.site, site->conf.site))
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


/*
 * Adds the blocks in "around", a server{} or location{}, that may answer the
 * URL, in the order in which nginx looks for them: an exact location, the
 * longest prefix with the locations inside of it, then those with a regular
 * expression, unless the longest prefix has "^~" or an exact location is found
 * in it.  The tool evaluates no regular expression, so each may match; inside
 * of one, nginx looks only for other regular expressions.  Returns 1 if nginx
 * looks no further.
 */

static ngx_uint_t
mcds_key_answers(mcds_t *m, mcds_scope_t *around, mcds_key_url_t *u,
    ngx_array_t *answers)
{
    ngx_uint_t      i, last;
    mcds_scope_t  **scope, *best;

    scope = m->sites->scopes.elts;
    best = NULL;

    for (i = 0; u->known && i < m->sites->scopes.nelts; i++) {
        if (scope[i]->parent == around
            && !around->regex
            && mcds_key_match(scope[i], u)
            && (best == NULL
                || scope[i]->exact
                || (!best->exact
                    && scope[i]->location.len > best->location.len)))
        {
            best = scope[i];
        }
    }

    last = 0;

    if (best) {
        last = mcds_key_answers(m, best, u, answers) || best->exact;

    } else {
        mcds_key_answer(m, around, answers);
    }

    for (i = 0; i < m->sites->scopes.nelts; i++) {

        if (scope[i]->parent != around || scope[i]->part) {
            continue;
        }

        /*
         * "try_files" and the like may lead the request from any location but
         * an exact one to a named location
         */

        if (!u->known
            || (scope[i]->regex && !last && !(best && best->no_regex))
            || (scope[i]->location.len && scope[i]->location.data[0] == '@'
                && !(best && best->exact)))
        {
            (void) mcds_key_answers(m, scope[i], u, answers);
        }
    }

    return last;
}


/* adds a block, with each "if" and limit_except in it, to those that answer */

static void
mcds_key_answer(mcds_t *m, mcds_scope_t *answer, ngx_array_t *answers)
{
    ngx_uint_t      i;
    mcds_scope_t  **scope, **place;

    place = ngx_array_push(answers);

    if (place == NULL) {
        mcds_no_memory();
    }

    *place = answer;

    scope = m->sites->scopes.elts;

    for (i = 0; i < m->sites->scopes.nelts; i++) {
        if (scope[i]->parent == answer && scope[i]->part) {
            mcds_key_answer(m, scope[i], answers);
        }
    }
}


/* 1 if the block is a location{} with the URI, or a prefix of it */

static ngx_uint_t
mcds_key_match(mcds_scope_t *scope, mcds_key_url_t *u)
{
    if (scope->level != MCDS_LEVEL_LOCATION || scope->part || scope->regex) {
        return 0;
    }

    if (scope->exact) {
        return ngx_mcds_same(&scope->location, &u->path);
    }

    return u->path.len >= scope->location.len
           && ngx_memcmp(u->path.data, scope->location.data,
                         scope->location.len)
              == 0;
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
    ngx_str_t    text, name, lower, value;

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

        /* nginx ignores the case of a variable's name */

        lower.data = mcds_alloc(m, name.len + 1);
        lower.len = name.len;
        ngx_strlow(lower.data, name.data, name.len);

        if (mcds_key_variable(scope, u, &lower, &value) == NGX_OK) {
            to = value.len ? ngx_cpymem(to, value.data, value.len) : to;
            continue;
        }

        if (mcds_is(&lower, "mcds_cache_key")) {
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
 * computes the value that a variable of mcds_cache_key, with its name in lower
 * case, has for a URL; NGX_DECLINED: the URL does not determine it
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

        return u->known ? NGX_OK : NGX_DECLINED;

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

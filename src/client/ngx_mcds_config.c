
/*
 * Copyright (C) mcds authors
 *
 * Reads the servers and settings of a pool from a libmemcached configuration
 * string.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <libmemcached/memcached.h>
#include "ngx_mcds_conn.h"
#include "ngx_mcds_server.h"


static char *ngx_mcds_config_fold(ngx_conf_t *cf, ngx_str_t *folded,
    ngx_str_t *string);
static char *ngx_mcds_config_check_config(ngx_conf_t *cf, ngx_str_t *string);
static char *ngx_mcds_config_check_word(ngx_conf_t *cf, ngx_str_t *word);
static char *ngx_mcds_config_check_port(ngx_conf_t *cf, ngx_str_t *word);
static char *ngx_mcds_config_refused(ngx_conf_t *cf, char *error);
static char *ngx_mcds_config_take_servers(ngx_conf_t *cf,
    ngx_mcds_pool_t *pool);


/*
 * words that a configuration string of libmemcached must not contain, and the
 * reason
 */

static struct {
    ngx_str_t   word;
    char       *why;
} ngx_mcds_unsafe_words[] = {
    { ngx_string("INCLUDE"), "reads another file" },
    { ngx_string("--CONFIGURE-FILE"), "reads another file" },
    { ngx_string("RESET"), "undoes what stands before it" },
    { ngx_string("END"), "ends the string silently" },
    { ngx_string("ERROR"), "has no meaning here" },
    { ngx_string("DEBUG"), "has no meaning here" },
    { ngx_string("--USE-UDP"), "is not supported" },
    { ngx_string("--BINARY-PROTOCOL"), "is not supported" },
    { ngx_string("--BUFFER-REQUESTS"), "is not supported" },
    { ngx_string("--POOL-"), "has no meaning here" },
    { ngx_string("--FETCH-VERSION"), "has no meaning here" },
    { ngx_string("--DISTRIBUTION=RANDOM"), "cannot find a key again" },
    { ngx_string("--RANDOMIZE-REPLICA-READ"), "is not supported" },
    { ngx_string("--NUMBER-OF-REPLICAS"), "is not supported" },
    { ngx_string("--HASH-WITH-NAMESPACE"), "is not supported" },
    { ngx_string("--REMOVE-FAILED-SERVERS"), "is not supported" },
    { ngx_string("--NAMESPACE"), "is not supported, use \"prefix\"" },
    { ngx_null_string, NULL }
};


char *
ngx_mcds_pool_config(ngx_conf_t *cf, ngx_mcds_pool_t *pool, ngx_str_t *given)
{
    char          *err, error[512];
    int64_t        ms;
    ngx_str_t      string;
    memcached_st  *mc;

    if (pool->distribution != NGX_CONF_UNSET_UINT) {
        return "cannot be combined with \"distribution\"";
    }

    err = ngx_mcds_config_fold(cf, &string, given);
    if (err) {
        return err;
    }

    err = ngx_mcds_config_check_config(cf, &string);
    if (err) {
        return err;
    }

    error[0] = '\0';

    if (libmemcached_check_configuration((char *) string.data, string.len,
                                         error, sizeof(error))
        != MEMCACHED_SUCCESS)
    {
        return ngx_mcds_config_refused(cf, error);
    }

    mc = memcached((char *) string.data, string.len);
    if (mc == NULL) {
        return "libmemcached does not accept it";
    }

    pool->memcached = mc;

    /*
     * libmemcached's default timeouts of seconds are too long for a site: only
     * timeouts that the configuration string sets are used
     */

    ms = memcached_behavior_get(mc, MEMCACHED_BEHAVIOR_POLL_TIMEOUT);

    if (ms > 0 && ms != MEMCACHED_DEFAULT_TIMEOUT) {
        pool->timeout = ms;
    }

    ms = memcached_behavior_get(mc, MEMCACHED_BEHAVIOR_CONNECT_TIMEOUT);

    if (ms > 0 && ms != MEMCACHED_DEFAULT_CONNECT_TIMEOUT) {
        pool->connect_timeout = ms;
    }

    return ngx_mcds_config_take_servers(cf, pool);
}


/*
 * Copies a configuration string, and replaces any sequence of blanks by one
 * space: libmemcached rejects any other blanks.
 */

static char *
ngx_mcds_config_fold(ngx_conf_t *cf, ngx_str_t *folded, ngx_str_t *string)
{
    u_char      *p, ch;
    size_t       i;
    ngx_uint_t   space;

    p = ngx_pnalloc(cf->pool, string->len + 1);
    if (p == NULL) {
        return "out of memory";
    }

    folded->data = p;
    space = 0;

    for (i = 0; i < string->len; i++) {
        ch = string->data[i];

        if (ch == ' ' || ch == '\t' || ch == CR || ch == LF) {
            space = 1;
            continue;
        }

        if (space && p != folded->data) {
            *p++ = ' ';
        }

        space = 0;
        *p++ = ch;
    }

    *p = '\0';
    folded->len = p - folded->data;

    return NULL;
}


/*
 * Checks a configuration string before libmemcached parses it: libmemcached
 * accepts some words that read files or end the string, and does not check
 * ports.
 */

static char *
ngx_mcds_config_check_config(ngx_conf_t *cf, ngx_str_t *string)
{
    char        *err;
    u_char      *p, *last;
    ngx_str_t    word;
    ngx_uint_t   servers;

    if (string->len == 0) {
        return "empty configuration string";
    }

    servers = 0;
    p = string->data;
    last = string->data + string->len;

    while (p < last) {
        word.data = p;

        while (p < last && *p != ' ') {
            p++;
        }

        word.len = p++ - word.data;

        err = ngx_mcds_config_check_word(cf, &word);
        if (err) {
            return err;
        }

        if ((word.len > 9
             && ngx_strncasecmp(word.data, (u_char *) "--SERVER=", 9) == 0)
            || (word.len > 9
                && ngx_strncasecmp(word.data, (u_char *) "--SOCKET=", 9) == 0))
        {
            servers++;
        }
    }

    if (servers == 0) {
        return ngx_mcds_pool_error(cf, "no --SERVER or --SOCKET in \"%V\"",
                                   string);
    }

    if (servers > NGX_MCDS_MAX_SERVERS) {
        return ngx_mcds_pool_error(cf, "more than %d servers",
                                   NGX_MCDS_MAX_SERVERS);
    }

    return NULL;
}


static char *
ngx_mcds_config_check_word(ngx_conf_t *cf, ngx_str_t *word)
{
    ngx_str_t   *unsafe;
    ngx_uint_t   i;

    for (i = 0; ngx_mcds_unsafe_words[i].why; i++) {
        unsafe = &ngx_mcds_unsafe_words[i].word;

        if (word->len >= unsafe->len
            && ngx_strncasecmp(word->data, unsafe->data, unsafe->len) == 0)
        {
            return ngx_mcds_pool_error(cf, "\"%V\" %s", word,
                                       ngx_mcds_unsafe_words[i].why);
        }
    }

    for (i = 0; i < word->len; i++) {
        if (word->data[i] < 0x21 || word->data[i] == 0x7f) {
            return ngx_mcds_pool_error(cf, "control character in \"%V\"",
                                       word);
        }
    }

    if (word->len >= 9
        && ngx_strncasecmp(word->data, (u_char *) "--SERVER=", 9) == 0)
    {
        return ngx_mcds_config_check_port(cf, word);
    }

    return NULL;
}


static char *
ngx_mcds_config_check_port(ngx_conf_t *cf, ngx_str_t *word)
{
    u_char     *p, *last, *end;
    ngx_int_t   port;

    p = word->data + 9;
    last = word->data + word->len;

    if (p < last && *p == '[') {
        return ngx_mcds_pool_error(cf, "libmemcached cannot read the address "
                                   "in \"%V\", use \"server\"", word);
    }

    end = ngx_strlchr(p, last, '/');
    if (end == NULL) {
        end = last;
    }

    p = ngx_strlchr(p, end, ':');
    if (p == NULL) {
        return NULL;
    }

    p++;
    port = ngx_atoi(p, end - p);

    if (port < 1 || port > 65535) {
        return ngx_mcds_pool_error(cf, "invalid port in \"%V\"", word);
    }

    return NULL;
}


/*
 * Extracts the reason of an error from the text of libmemcached,
 * "(0x7ffd88d57b60) <reason>: last_token=.. -> <source file>:<line>".
 */

static char *
ngx_mcds_config_refused(ngx_conf_t *cf, char *error)
{
    char       *end;
    ngx_str_t   text;

    if (error[0] == '(') {
        end = ngx_strstr(error, ") ");
        error = end ? end + 2 : error;
    }

    end = ngx_strstr(error, ": last_token=");

    if (end == NULL) {
        end = ngx_strstr(error, " -> ");
    }

    text.data = (u_char *) error;
    text.len = end ? (size_t) (end - error) : ngx_strlen(error);

    return ngx_mcds_pool_error(cf, "libmemcached does not accept it: %V",
                               &text);
}


static char *
ngx_mcds_config_take_servers(ngx_conf_t *cf, ngx_mcds_pool_t *pool)
{
    char                            *err;
    u_char                          *p;
    size_t                           len;
    uint32_t                         i, n;
    ngx_str_t                        address;
    const char                      *host;
    memcached_st                    *mc;
    const memcached_instance_st     *instance;

    mc = pool->memcached;
    n = memcached_server_count(mc);

    for (i = 0; i < n; i++) {
        instance = memcached_server_instance_by_position(mc, i);

        host = memcached_server_name(instance);
        len = ngx_strlen(host);

        address.data = ngx_pnalloc(cf->pool, len + sizeof("unix::65535"));
        if (address.data == NULL) {
            return "out of memory";
        }

        if (host[0] == '/') {
            p = ngx_sprintf(address.data, "unix:%s", host);

        } else {
            p = ngx_sprintf(address.data, "%s:%uD", host,
                            (uint32_t) memcached_server_port(instance));
        }

        address.len = p - address.data;

        err = ngx_mcds_pool_add(cf, pool, &address, 1, 0);
        if (err) {
            return err;
        }
    }

    return NULL;
}

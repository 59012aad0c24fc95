
/*
 * Copyright (C) mcds authors
 *
 * The block "mcds_pool name { ... }": a pool of memcached servers.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_mcds_param.h"
#include "ngx_http_mcds_pool.h"


typedef struct {
    ngx_mcds_pool_t   *pool;
    ngx_uint_t         given;          /* bits of the parameters that the
                                          mcds_pool block has had so far */
} ngx_http_mcds_pool_block_t;


typedef struct {
    ngx_str_t          name;
    ngx_uint_t         args;           /* the largest number of words that a
                                          parameter of the mcds_pool block has,
                                          with its name; 2 or more */
    ngx_uint_t         many;           /* 1: a mcds_pool block may have the
                                          parameter several times */
    char            *(*set)(ngx_conf_t *cf, ngx_mcds_pool_t *pool,
                            ngx_uint_t data);
    ngx_uint_t         data;
} ngx_http_mcds_pool_param_t;


static char *ngx_http_mcds_pool_line(ngx_conf_t *cf, ngx_command_t *dummy,
    void *conf);
static char *ngx_http_mcds_pool_server(ngx_conf_t *cf, ngx_mcds_pool_t *pool,
    ngx_uint_t data);
static char *ngx_http_mcds_pool_libmemcached(ngx_conf_t *cf,
    ngx_mcds_pool_t *pool, ngx_uint_t data);
static char *ngx_http_mcds_pool_distribution(ngx_conf_t *cf,
    ngx_mcds_pool_t *pool, ngx_uint_t data);
static char *ngx_http_mcds_pool_replicas(ngx_conf_t *cf,
    ngx_mcds_pool_t *pool, ngx_uint_t data);
static char *ngx_http_mcds_pool_protocol(ngx_conf_t *cf,
    ngx_mcds_pool_t *pool, ngx_uint_t data);
static char *ngx_http_mcds_pool_prefix(ngx_conf_t *cf, ngx_mcds_pool_t *pool,
    ngx_uint_t data);
static char *ngx_http_mcds_pool_msec(ngx_conf_t *cf, ngx_mcds_pool_t *pool,
    ngx_uint_t data);
static char *ngx_http_mcds_pool_number(ngx_conf_t *cf, ngx_mcds_pool_t *pool,
    ngx_uint_t data);
static char *ngx_http_mcds_pool_max_pending(ngx_conf_t *cf,
    ngx_mcds_pool_t *pool, ngx_uint_t data);
static char *ngx_http_mcds_pool_auth_word(ngx_str_t *word);
static char *ngx_http_mcds_pool_auth_user(ngx_conf_t *cf,
    ngx_mcds_pool_t *pool, ngx_uint_t data);
static char *ngx_http_mcds_pool_auth_password(ngx_conf_t *cf,
    ngx_mcds_pool_t *pool, ngx_uint_t data);
static char *ngx_http_mcds_pool_flag(ngx_conf_t *cf, ngx_mcds_pool_t *pool,
    ngx_uint_t data);
static char *ngx_http_mcds_pool_on(ngx_conf_t *cf, ngx_uint_t *flag);
static char *ngx_http_mcds_pool_ssl(ngx_conf_t *cf, ngx_mcds_pool_t *pool,
    ngx_uint_t data);
static char *ngx_http_mcds_pool_ssl_trusted(ngx_conf_t *cf,
    ngx_mcds_pool_t *pool, ngx_uint_t data);
static char *ngx_http_mcds_pool_ssl_name(ngx_conf_t *cf,
    ngx_mcds_pool_t *pool, ngx_uint_t data);


/*
 * bits of the parameters "distribution" and "libmemcached" in the field "given"
 * of a mcds_pool block; they follow the order of the table of parameters below
 */
#define NGX_HTTP_MCDS_DISTRIBUTION    0x1
#define NGX_HTTP_MCDS_LIBMEMCACHED    0x2


static ngx_http_mcds_pool_param_t  ngx_http_mcds_pool_params[] = {

    { ngx_string("distribution"), 2, 0, ngx_http_mcds_pool_distribution, 0 },

    { ngx_string("libmemcached"), 2, 0, ngx_http_mcds_pool_libmemcached, 0 },

    { ngx_string("server"), 4, 1, ngx_http_mcds_pool_server, 0 },

    { ngx_string("eject"), 2, 0, ngx_http_mcds_pool_flag,
      offsetof(ngx_mcds_pool_t, eject) },

    { ngx_string("replicas"), 2, 0, ngx_http_mcds_pool_replicas, 0 },

    { ngx_string("protocol"), 3, 0, ngx_http_mcds_pool_protocol, 0 },

    { ngx_string("prefix"), 2, 0, ngx_http_mcds_pool_prefix, 0 },

    { ngx_string("timeout"), 2, 0, ngx_http_mcds_pool_msec,
      offsetof(ngx_mcds_pool_t, timeout) },

    { ngx_string("connect_timeout"), 2, 0, ngx_http_mcds_pool_msec,
      offsetof(ngx_mcds_pool_t, connect_timeout) },

    { ngx_string("fail_timeout"), 2, 0, ngx_http_mcds_pool_msec,
      offsetof(ngx_mcds_pool_t, fail_timeout) },

    { ngx_string("keepalive"), 2, 0, ngx_http_mcds_pool_msec,
      offsetof(ngx_mcds_pool_t, keepalive) },

    { ngx_string("auth_user"), 2, 0, ngx_http_mcds_pool_auth_user, 0 },

    { ngx_string("auth_password_file"), 2, 0,
      ngx_http_mcds_pool_auth_password, 0 },

    { ngx_string("ssl"), 2, 0, ngx_http_mcds_pool_ssl, 0 },

    { ngx_string("ssl_verify"), 2, 0, ngx_http_mcds_pool_flag,
      offsetof(ngx_mcds_pool_t, ssl_verify) },

    { ngx_string("ssl_trusted_certificate"), 2, 0,
      ngx_http_mcds_pool_ssl_trusted, 0 },

    { ngx_string("ssl_name"), 2, 0, ngx_http_mcds_pool_ssl_name, 0 },

    { ngx_string("max_fails"), 2, 0, ngx_http_mcds_pool_number,
      offsetof(ngx_mcds_pool_t, max_fails) },

    { ngx_string("max_pending"), 3, 0, ngx_http_mcds_pool_max_pending, 0 },

    { ngx_null_string, 0, 0, NULL, 0 }
};


static ngx_conf_enum_t  ngx_http_mcds_distributions[] = {
    { ngx_string("modula"), NGX_MCDS_MODULA },
    { ngx_string("modula_crc"), NGX_MCDS_MODULA_CRC },
    { ngx_string("ketama"), NGX_MCDS_KETAMA },
    { ngx_string("consistent"), NGX_MCDS_CONSISTENT },
    { ngx_string("nginx_consistent"), NGX_MCDS_NGINX_CONSISTENT },
    { ngx_null_string, 0 }
};


char *
ngx_http_mcds_pool(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_mcds_main_conf_t *mmcf = conf;

    char                        *rv, *err;
    ngx_str_t                   *value;
    ngx_conf_t                   save;
    ngx_mcds_pool_t             *pool, **p;
    ngx_http_mcds_pool_block_t   block;

    value = cf->args->elts;

    if (ngx_http_mcds_is(&value[1], "on") || ngx_http_mcds_is(&value[1], "off"))
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "pool name \"%V\" is reserved", &value[1]);
        return NGX_CONF_ERROR;
    }

    if (ngx_http_mcds_find_pool(mmcf, &value[1])) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "duplicate mcds_pool \"%V\"", &value[1]);
        return NGX_CONF_ERROR;
    }

    pool = ngx_mcds_pool_create(cf->pool, &value[1]);
    if (pool == NULL) {
        return NGX_CONF_ERROR;
    }

    p = ngx_array_push(&mmcf->pools);
    if (p == NULL) {
        return NGX_CONF_ERROR;
    }

    *p = pool;

    block.pool = pool;
    block.given = 0;

    save = *cf;
    cf->handler = ngx_http_mcds_pool_line;
    cf->handler_conf = (void *) &block;

    rv = ngx_conf_parse(cf, NULL);

    *cf = save;

    if (rv != NGX_CONF_OK) {
        return rv;
    }

    err = ngx_mcds_pool_init(cf, pool);

    if (err == NULL && pool->servers.nelts > 1
        && !(block.given
             & (NGX_HTTP_MCDS_DISTRIBUTION|NGX_HTTP_MCDS_LIBMEMCACHED)))
    {
        err = "several servers need a \"distribution\": ketama, with which few "
              "keys move when the servers change, or modula, if programs on "
              "libmemcached share the keys";
    }

    if (err == NULL) {
        err = ngx_mcds_ssl_check(cf, pool);
    }

    if (err == NULL && (pool->user.len == 0) != (pool->password.len == 0)) {
        err = "\"auth_user\" and \"auth_password_file\" need each other";
    }

    if (err) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "mcds_pool \"%V\": %s",
                           &pool->name, err);
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


static char *
ngx_http_mcds_pool_line(ngx_conf_t *cf, ngx_command_t *dummy, void *conf)
{
    char                        *err;
    u_char                      *p, words[NGX_MAX_CONF_ERRSTR];
    ngx_str_t                   *value;
    ngx_uint_t                   i;
    ngx_http_mcds_pool_block_t  *block;
    ngx_http_mcds_pool_param_t  *param;

    block = cf->handler_conf;
    value = cf->args->elts;
    param = ngx_http_mcds_pool_params;

    for (i = 0; param[i].name.len; i++) {
        if (param[i].name.len == value[0].len
            && ngx_strncmp(param[i].name.data, value[0].data, value[0].len)
               == 0)
        {
            break;
        }
    }

    if (param[i].name.len == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "unknown parameter \"%V\" in mcds_pool \"%V\"",
                           &value[0], &block->pool->name);
        return NGX_CONF_ERROR;
    }

    if (cf->args->nelts < 2 || cf->args->nelts > param[i].args) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid number of arguments of \"%V\" in "
                           "mcds_pool \"%V\"", &value[0], &block->pool->name);
        return NGX_CONF_ERROR;
    }

    if (!param[i].many && (block->given & ((ngx_uint_t) 1 << i))) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\" is duplicate in mcds_pool \"%V\"",
                           &value[0], &block->pool->name);
        return NGX_CONF_ERROR;
    }

    block->given |= (ngx_uint_t) 1 << i;

    err = param[i].set(cf, block->pool, param[i].data);
    if (err) {

        p = words;

        for (i = 1; i < cf->args->nelts; i++) {
            p = ngx_slprintf(p, words + NGX_MAX_CONF_ERRSTR, " %V", &value[i]);
        }

        /*
         * the values of the parameter come last in the error message, since a
         * long value would cut off the rest
         */

        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "mcds_pool \"%V\": %s in \"%V%*s\"",
                           &block->pool->name, err, &value[0],
                           (size_t) (p - words), words);
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


static char *
ngx_http_mcds_pool_server(ngx_conf_t *cf, ngx_mcds_pool_t *pool,
    ngx_uint_t data)
{
    ngx_int_t    weight;
    ngx_str_t   *value;
    ngx_uint_t   i, down;

    if (pool->memcached) {
        return "cannot be combined with \"libmemcached\"";
    }

    value = cf->args->elts;
    weight = 0;
    down = 0;

    for (i = 2; i < cf->args->nelts; i++) {

        if (value[i].len == 4 && ngx_strncmp(value[i].data, "down", 4) == 0) {

            if (down) {
                return "\"down\" is duplicate";
            }

            down = 1;
            continue;
        }

        if (value[i].len <= 7
            || ngx_strncmp(value[i].data, "weight=", 7) != 0)
        {
            return "an argument must be weight=number or \"down\"";
        }

        if (weight) {
            return "\"weight\" is duplicate";
        }

        weight = ngx_atoi(value[i].data + 7, value[i].len - 7);

        if (weight < 1 || weight > 1000) {
            return "weight must be a number from 1 to 1000";
        }
    }

    return ngx_mcds_pool_add(cf, pool, &value[1], weight ? weight : 1, down);
}


static char *
ngx_http_mcds_pool_libmemcached(ngx_conf_t *cf, ngx_mcds_pool_t *pool,
    ngx_uint_t data)
{
    ngx_str_t  *value;

    if (pool->servers.nelts) {
        return "cannot be combined with \"server\"";
    }

    value = cf->args->elts;

    return ngx_mcds_pool_config(cf, pool, &value[1]);
}


static char *
ngx_http_mcds_pool_distribution(ngx_conf_t *cf, ngx_mcds_pool_t *pool,
    ngx_uint_t data)
{
    ngx_str_t        *value;
    ngx_uint_t        i;
    ngx_conf_enum_t  *e;

    if (pool->memcached) {
        return "must be set in the string of \"libmemcached\"";
    }

    value = cf->args->elts;
    e = ngx_http_mcds_distributions;

    for (i = 0; e[i].name.len; i++) {
        if (e[i].name.len == value[1].len
            && ngx_strncmp(e[i].name.data, value[1].data, value[1].len) == 0)
        {
            pool->distribution = e[i].value;
            return NULL;
        }
    }

    return "must be \"modula\", \"modula_crc\", \"ketama\", \"consistent\" "
           "or \"nginx_consistent\"";
}


static char *
ngx_http_mcds_pool_replicas(ngx_conf_t *cf, ngx_mcds_pool_t *pool,
    ngx_uint_t data)
{
    ngx_int_t   n;
    ngx_str_t  *value;

    value = cf->args->elts;

    n = ngx_atoi(value[1].data, value[1].len);

    if (n < 1 || n > NGX_MCDS_MAX_REPLICAS) {
        return "must be a number from 1 to 4";
    }

    pool->replicas = n;

    return NULL;
}


static char *
ngx_http_mcds_pool_protocol(ngx_conf_t *cf, ngx_mcds_pool_t *pool,
    ngx_uint_t data)
{
    ngx_str_t  *value;

    value = cf->args->elts;

    if (value[1].len == 7 && ngx_strncmp(value[1].data, "classic", 7) == 0) {
        pool->classic = 1;

    } else if (value[1].len != 4
               || ngx_strncmp(value[1].data, "meta", 4) != 0)
    {
        return "must be \"meta\" or \"classic\"";
    }

    if (cf->args->nelts == 2) {
        return NULL;
    }

    if (!pool->classic) {
        return "\"meta\" has no parameters";
    }

    if (value[2].len == 7 && ngx_strncmp(value[2].data, "ttl=off", 7) == 0) {
        pool->no_ttl = 1;

    } else if (value[2].len != 6
               || ngx_strncmp(value[2].data, "ttl=on", 6) != 0)
    {
        return "a parameter must be \"ttl=on\" or \"ttl=off\"";
    }

    return NULL;
}


static char *
ngx_http_mcds_pool_prefix(ngx_conf_t *cf, ngx_mcds_pool_t *pool,
    ngx_uint_t data)
{
    ngx_str_t  *value;

    value = cf->args->elts;

    if (ngx_mcds_key_check_prefix(&value[1]) != NGX_OK) {
        return "at most 128 printable ASCII characters, without spaces "
               "and \"<\"";
    }

    pool->prefix = value[1];

    return NULL;
}


static char *
ngx_http_mcds_pool_msec(ngx_conf_t *cf, ngx_mcds_pool_t *pool, ngx_uint_t data)
{
    ngx_str_t   *value;
    ngx_msec_t   ms;

    value = cf->args->elts;

    ms = ngx_parse_time(&value[1], 0);

    if (ms == (ngx_msec_t) NGX_ERROR || ms == 0) {
        return "must be a time above 0";
    }

    *(ngx_msec_t *) ((char *) pool + data) = ms;

    return NULL;
}


static char *
ngx_http_mcds_pool_number(ngx_conf_t *cf, ngx_mcds_pool_t *pool,
    ngx_uint_t data)
{
    ngx_int_t   n;
    ngx_str_t  *value;

    value = cf->args->elts;

    n = ngx_atoi(value[1].data, value[1].len);

    if (n == NGX_ERROR) {
        return "invalid number";
    }

    *(ngx_uint_t *) ((char *) pool + data) = n;

    return NULL;
}


static char *
ngx_http_mcds_pool_max_pending(ngx_conf_t *cf, ngx_mcds_pool_t *pool,
    ngx_uint_t data)
{
    ssize_t     size;
    ngx_int_t   n;
    ngx_str_t  *value;

    value = cf->args->elts;

    n = ngx_atoi(value[1].data, value[1].len);

    if (n == NGX_ERROR || n == 0) {
        return "invalid number";
    }

    pool->max_pending = n;

    if (cf->args->nelts == 3) {
        size = ngx_parse_size(&value[2]);

        if (size == NGX_ERROR || size == 0) {
            return "invalid size";
        }

        pool->max_pending_size = size;
    }

    return NULL;
}


/*
 * checks the user's name or the password by which mcds authenticates itself to
 * memcached: returns NULL if the word is valid, else the text of the error
 */

static char *
ngx_http_mcds_pool_auth_word(ngx_str_t *word)
{
    size_t  i;

    if (word->len == 0) {
        return "is empty";
    }

    if (word->len > NGX_MCDS_MAX_AUTH / 2) {
        return "is longer than 256 bytes";
    }

    for (i = 0; i < word->len; i++) {
        if (word->data[i] < 0x21 || word->data[i] == 0x7f) {
            return "has spaces or control characters";
        }
    }

    return NULL;
}


static char *
ngx_http_mcds_pool_auth_user(ngx_conf_t *cf, ngx_mcds_pool_t *pool,
    ngx_uint_t data)
{
    ngx_str_t  *value;

    value = cf->args->elts;
    pool->user = value[1];

    return ngx_http_mcds_pool_auth_word(&pool->user);
}


/* reads the password for memcached from the first line of a file */

static char *
ngx_http_mcds_pool_auth_password(ngx_conf_t *cf, ngx_mcds_pool_t *pool,
    ngx_uint_t data)
{
    u_char      buf[NGX_MCDS_MAX_AUTH], *p;
    ssize_t     n;
    ngx_str_t  *value;
    ngx_file_t  file;

    value = cf->args->elts;

    if (ngx_conf_full_name(cf->cycle, &value[1], 1) != NGX_OK) {
        return "out of memory";
    }

    ngx_memzero(&file, sizeof(ngx_file_t));

    file.name = value[1];
    file.log = cf->log;
    file.fd = ngx_open_file(file.name.data, NGX_FILE_RDONLY, NGX_FILE_OPEN, 0);

    if (file.fd == NGX_INVALID_FILE) {
        return "cannot be opened";
    }

    n = ngx_read_file(&file, buf, sizeof(buf), 0);

    if (ngx_close_file(file.fd) == NGX_FILE_ERROR || n == NGX_ERROR) {
        return "cannot be read";
    }

    p = ngx_strlchr(buf, buf + n, LF);

    if (p) {
        n = p - buf;
    }

    if (n && buf[n - 1] == CR) {
        n--;
    }

    pool->password.data = ngx_pnalloc(cf->pool, n + 1);
    if (pool->password.data == NULL) {
        return "out of memory";
    }

    ngx_memcpy(pool->password.data, buf, n);
    pool->password.len = n;

    ngx_explicit_memzero(buf, sizeof(buf));

    return ngx_http_mcds_pool_auth_word(&pool->password);
}


static char *
ngx_http_mcds_pool_flag(ngx_conf_t *cf, ngx_mcds_pool_t *pool, ngx_uint_t data)
{
    return ngx_http_mcds_pool_on(cf, (ngx_uint_t *) ((char *) pool + data));
}


static char *
ngx_http_mcds_pool_on(ngx_conf_t *cf, ngx_uint_t *flag)
{
    ngx_str_t  *value;

    value = cf->args->elts;

    if (ngx_http_mcds_is(&value[1], "on")) {
        *flag = 1;
        return NULL;
    }

    if (ngx_http_mcds_is(&value[1], "off")) {
        *flag = 0;
        return NULL;
    }

    return "must be \"on\" or \"off\"";
}


static char *
ngx_http_mcds_pool_ssl(ngx_conf_t *cf, ngx_mcds_pool_t *pool, ngx_uint_t data)
{
    char        *err;
    ngx_uint_t   on;

    on = 0;

    err = ngx_http_mcds_pool_on(cf, &on);

    if (err || !on) {
        return err;
    }

    return ngx_mcds_ssl_init(cf, pool);
}


static char *
ngx_http_mcds_pool_ssl_trusted(ngx_conf_t *cf, ngx_mcds_pool_t *pool,
    ngx_uint_t data)
{
    ngx_str_t  *value;

    value = cf->args->elts;
    pool->ssl_trusted = value[1];

    return NULL;
}


static char *
ngx_http_mcds_pool_ssl_name(ngx_conf_t *cf, ngx_mcds_pool_t *pool,
    ngx_uint_t data)
{
    ngx_str_t  *value;

    /*
     * the name of the server for TLS ends with a zero byte, as each word of
     * nginx's configuration
     */

    value = cf->args->elts;
    pool->ssl_name = value[1];

    return value[1].len ? NULL : "is empty";
}

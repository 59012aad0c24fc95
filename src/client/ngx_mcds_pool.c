
/*
 * Copyright (C) mcds authors
 *
 * Pools: the list of servers, whether they are well, and operations.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <libmemcached/memcached.h>
#include "ngx_mcds_choice.h"
#include "ngx_mcds_conn.h"


#define NGX_MCDS_PORT             11211
#define NGX_MCDS_FIRST_PROBE      1000


static char *ngx_mcds_pool_fold(ngx_conf_t *cf, ngx_str_t *folded,
    ngx_str_t *string);
static char *ngx_mcds_pool_check_config(ngx_conf_t *cf, ngx_str_t *string);
static char *ngx_mcds_pool_check_word(ngx_conf_t *cf, ngx_str_t *word);
static char *ngx_mcds_pool_check_port(ngx_conf_t *cf, ngx_str_t *word);
static char *ngx_mcds_pool_refused(ngx_conf_t *cf, char *error);
static char *ngx_mcds_pool_take_servers(ngx_conf_t *cf, ngx_mcds_pool_t *pool);
static char *ngx_mcds_pool_resolve(ngx_conf_t *cf, ngx_mcds_server_t *server);
static void ngx_mcds_pool_cleanup(void *data);
static ngx_mcds_server_t *ngx_mcds_pool_server(ngx_mcds_pool_t *pool,
    ngx_mcds_key_t *key);
static ngx_mcds_op_t *ngx_mcds_op_alloc(void);
static ngx_int_t ngx_mcds_op_start(ngx_mcds_server_t *server,
    ngx_mcds_op_t *op, ngx_mcds_request_t *req, ngx_uint_t probe);
static void ngx_mcds_op_fail_later(ngx_mcds_op_t *op, ngx_uint_t rc);
static void ngx_mcds_op_fail_handler(ngx_event_t *ev);
static void ngx_mcds_server_probe_handler(ngx_event_t *ev);
static void ngx_mcds_server_probed(void *data, ngx_mcds_result_t *result);
static void ngx_mcds_server_down(ngx_mcds_server_t *server);


/* of this worker */

static ngx_queue_t   ngx_mcds_free_ops;
static ngx_queue_t   ngx_mcds_failed_ops;
static ngx_event_t   ngx_mcds_fail_event;
static uint32_t      ngx_mcds_opaque;


/* what a configuration string may not hold, and why */

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


ngx_mcds_pool_t *
ngx_mcds_pool_create(ngx_pool_t *p, ngx_str_t *name)
{
    ngx_mcds_pool_t     *pool;
    ngx_pool_cleanup_t  *cln;

    pool = ngx_pcalloc(p, sizeof(ngx_mcds_pool_t));
    if (pool == NULL) {
        return NULL;
    }

    /* a configuration that is refused later must not leave a handle */

    cln = ngx_pool_cleanup_add(p, 0);
    if (cln == NULL) {
        return NULL;
    }

    cln->handler = ngx_mcds_pool_cleanup;
    cln->data = pool;

    if (ngx_array_init(&pool->servers, p, 4, sizeof(ngx_mcds_server_t))
        != NGX_OK)
    {
        return NULL;
    }

    pool->name = *name;
    pool->timeout = 200;
    pool->connect_timeout = 100;
    pool->max_fails = 3;
    pool->fail_timeout = 10000;
    pool->max_pending = 4096;
    pool->max_pending_size = 64 * 1024 * 1024;

    return pool;
}


char *
ngx_mcds_pool_add(ngx_conf_t *cf, ngx_mcds_pool_t *pool, ngx_str_t *address,
    ngx_uint_t weight, ngx_uint_t down)
{
    ngx_uint_t          i;
    ngx_mcds_server_t  *server, *other;

    other = pool->servers.elts;

    for (i = 0; i < pool->servers.nelts; i++) {
        if (other[i].name.len == address->len
            && ngx_strncmp(other[i].name.data, address->data, address->len)
               == 0)
        {
            return ngx_mcds_pool_error(cf, "duplicate server \"%V\"", address);
        }
    }

    if (pool->servers.nelts == NGX_MCDS_MAX_SERVERS) {
        return ngx_mcds_pool_error(cf, "more than %d servers",
                                   NGX_MCDS_MAX_SERVERS);
    }

    server = ngx_array_push(&pool->servers);
    if (server == NULL) {
        return "out of memory";
    }

    ngx_memzero(server, sizeof(ngx_mcds_server_t));

    server->pool = pool;
    server->name = *address;
    server->weight = weight;

    /* nothing is ever asked of it, so nothing makes it up again */

    server->down = down;

    return ngx_mcds_pool_resolve(cf, server);
}


char *
ngx_mcds_pool_config(ngx_conf_t *cf, ngx_mcds_pool_t *pool, ngx_str_t *given)
{
    char          *err, error[512];
    int64_t        ms;
    ngx_str_t      string;
    memcached_st  *mc;

    if (pool->distribution != NGX_MCDS_MODULA) {
        return "cannot stand beside \"distribution\"";
    }

    err = ngx_mcds_pool_fold(cf, &string, given);
    if (err) {
        return err;
    }

    err = ngx_mcds_pool_check_config(cf, &string);
    if (err) {
        return err;
    }

    error[0] = '\0';

    if (libmemcached_check_configuration((char *) string.data, string.len,
                                         error, sizeof(error))
        != MEMCACHED_SUCCESS)
    {
        return ngx_mcds_pool_refused(cf, error);
    }

    mc = memcached((char *) string.data, string.len);
    if (mc == NULL) {
        return "libmemcached does not accept it";
    }

    pool->memcached = mc;

    /* the defaults of libmemcached are seconds: too long in front of a site */

    ms = memcached_behavior_get(mc, MEMCACHED_BEHAVIOR_POLL_TIMEOUT);

    if (ms > 0 && ms != MEMCACHED_DEFAULT_TIMEOUT) {
        pool->timeout = ms;
    }

    ms = memcached_behavior_get(mc, MEMCACHED_BEHAVIOR_CONNECT_TIMEOUT);

    if (ms > 0 && ms != MEMCACHED_DEFAULT_CONNECT_TIMEOUT) {
        pool->connect_timeout = ms;
    }

    return ngx_mcds_pool_take_servers(cf, pool);
}


char *
ngx_mcds_pool_init(ngx_conf_t *cf, ngx_mcds_pool_t *pool)
{
    if (pool->servers.nelts == 0) {
        return "no servers";
    }

    return ngx_mcds_choice_init(cf, pool);
}


void
ngx_mcds_pool_exit(ngx_mcds_pool_t *pool)
{
    ngx_uint_t          i;
    ngx_mcds_server_t  *server;

    server = pool->servers.elts;

    for (i = 0; i < pool->servers.nelts; i++) {

        if (server[i].control) {
            ngx_mcds_conn_destroy(server[i].control);
            server[i].control = NULL;
        }

        if (server[i].bulk) {
            ngx_mcds_conn_destroy(server[i].bulk);
            server[i].bulk = NULL;
        }

        if (server[i].probe.timer_set) {
            ngx_del_timer(&server[i].probe);
        }
    }
}


static void
ngx_mcds_pool_cleanup(void *data)
{
    ngx_mcds_pool_t *pool = data;

    ngx_mcds_pool_exit(pool);
    ngx_mcds_choice_cleanup(pool);
}


/* blanks other than one single space are errors to libmemcached */

static char *
ngx_mcds_pool_fold(ngx_conf_t *cf, ngx_str_t *folded, ngx_str_t *string)
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
 * libmemcached takes some words that would read files or end the string, and
 * never looks at ports.
 */

static char *
ngx_mcds_pool_check_config(ngx_conf_t *cf, ngx_str_t *string)
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

        err = ngx_mcds_pool_check_word(cf, &word);
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
ngx_mcds_pool_check_word(ngx_conf_t *cf, ngx_str_t *word)
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
        return ngx_mcds_pool_check_port(cf, word);
    }

    return NULL;
}


static char *
ngx_mcds_pool_check_port(ngx_conf_t *cf, ngx_str_t *word)
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
 * libmemcached says "(0x7ffd88d57b60) <what is wrong>: last_token=.. -> <source
 * file>:<line>".
 */

static char *
ngx_mcds_pool_refused(ngx_conf_t *cf, char *error)
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
ngx_mcds_pool_take_servers(ngx_conf_t *cf, ngx_mcds_pool_t *pool)
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


static char *
ngx_mcds_pool_resolve(ngx_conf_t *cf, ngx_mcds_server_t *server)
{
    u_char     *p;
    ngx_url_t   u;

    ngx_memzero(&u, sizeof(ngx_url_t));

    u.url = server->name;
    u.default_port = NGX_MCDS_PORT;
    u.no_resolve = server->down;

    if (ngx_parse_url(cf->pool, &u) != NGX_OK) {
        return ngx_mcds_pool_error(cf, "%s in server \"%V\"",
                                   u.err ? u.err : "error", &server->name);
    }

    if (u.naddrs) {
        server->addr = u.addrs[0];

    } else if (!server->down) {
        return ngx_mcds_pool_error(cf, "no address for server \"%V\"",
                                   &server->name);
    }

    /* libmemcached hashes a host as it is written, and wants a C string */

    if (u.family == AF_UNIX) {
        server->host.data = server->name.data + 5;
        server->host.len = server->name.len - 5;

    } else {
        server->host = u.host;
        server->port = u.port;

        if (u.host.len > 2 && u.host.data[0] == '[') {
            server->host.data++;
            server->host.len -= 2;
        }
    }

    p = ngx_pnalloc(cf->pool, server->host.len + 1);
    if (p == NULL) {
        return "out of memory";
    }

    (void) ngx_cpystrn(p, server->host.data, server->host.len + 1);
    server->host.data = p;

    return NULL;
}


char *
ngx_mcds_pool_error(ngx_conf_t *cf, const char *fmt, ...)
{
    u_char   *p, *last;
    va_list   args;

    p = ngx_pnalloc(cf->pool, NGX_MAX_CONF_ERRSTR);
    if (p == NULL) {
        return "out of memory";
    }

    va_start(args, fmt);
    last = ngx_vslprintf(p, p + NGX_MAX_CONF_ERRSTR - 1, fmt, args);
    va_end(args);

    *last = '\0';

    return (char *) p;
}


static ngx_mcds_server_t *
ngx_mcds_pool_server(ngx_mcds_pool_t *pool, ngx_mcds_key_t *key)
{
    ngx_uint_t          n;
    ngx_mcds_server_t  *server;

    server = pool->servers.elts;

    n = ngx_mcds_choice_get(pool, key->data + key->prefix,
                            key->len - key->prefix);

    return &server[n];
}


ngx_mcds_op_t *
ngx_mcds_submit(ngx_mcds_pool_t *pool, ngx_mcds_request_t *req,
    ngx_mcds_handler_pt handler, void *data)
{
    ngx_int_t           rc;
    ngx_str_t           none;
    ngx_mcds_op_t      *op;
    ngx_mcds_key_t     *key, base;
    ngx_mcds_server_t  *server;

    op = ngx_mcds_op_alloc();
    if (op == NULL) {
        return NULL;
    }

    op->handler = handler;
    op->data = data;

    ngx_mcds_key_build(&op->key, &pool->prefix, &req->key, &req->suffix);
    key = &op->key;

    if (req->by_key && req->suffix.len && pool->servers.nelts > 1) {
        ngx_str_null(&none);
        ngx_mcds_key_build(&base, &pool->prefix, &req->key, &none);
        key = &base;
    }

    server = ngx_mcds_pool_server(pool, key);

    rc = ngx_mcds_op_start(server, op, req, 0);

    if (rc == NGX_ERROR) {
        op->handler = NULL;
        ngx_mcds_op_done(op, NULL);
        return NULL;
    }

    return op;
}


ngx_mcds_value_t *
ngx_mcds_result_value(ngx_mcds_result_t *result, ngx_log_t *log)
{
    ngx_mcds_value_t  *value;

    if (result->value) {
        return ngx_mcds_value_ref(result->value);
    }

    /* as a value that is received in its place: it may be stored again */

    value = ngx_mcds_value_create(result->len + 2, log);
    if (value == NULL) {
        return NULL;
    }

    if (result->len) {
        ngx_memcpy(value->data, result->data, result->len);
    }

    value->len = result->len;

    return value;
}


static ngx_mcds_op_t *
ngx_mcds_op_alloc(void)
{
    ngx_queue_t    *q;
    ngx_mcds_op_t  *op;

    if (ngx_mcds_free_ops.next == NULL) {
        ngx_queue_init(&ngx_mcds_free_ops);
        ngx_queue_init(&ngx_mcds_failed_ops);
    }

    if (!ngx_queue_empty(&ngx_mcds_free_ops)) {
        q = ngx_queue_head(&ngx_mcds_free_ops);
        ngx_queue_remove(q);
        op = ngx_queue_data(q, ngx_mcds_op_t, queue);

    } else {
        op = ngx_alloc(sizeof(ngx_mcds_op_t), ngx_cycle->log);
        if (op == NULL) {
            return NULL;
        }
    }

    op->value = NULL;

    return op;
}


void
ngx_mcds_op_done(ngx_mcds_op_t *op, ngx_mcds_result_t *result)
{
    if (op->handler) {
        op->handler(op->data, result);
    }

    ngx_mcds_value_unref(op->value);
    ngx_queue_insert_head(&ngx_mcds_free_ops, &op->queue);
}


static ngx_int_t
ngx_mcds_op_start(ngx_mcds_server_t *server, ngx_mcds_op_t *op,
    ngx_mcds_request_t *req, ngx_uint_t probe)
{
    ngx_int_t         rc;
    ngx_uint_t        bulk;
    ngx_mcds_cmd_t    cmd;
    ngx_mcds_conn_t  *conn;

    if (req->value) {
        op->value = ngx_mcds_value_ref(req->value);
    }

    if (server->down && !probe) {
        ngx_mcds_op_fail_later(op, NGX_MCDS_DOWN);
        return NGX_OK;
    }

    cmd.verb = req->verb;
    cmd.want = req->want;
    cmd.key.data = op->key.data;
    cmd.key.len = op->key.len;
    cmd.opaque = ++ngx_mcds_opaque;
    cmd.ttl = req->ttl;
    cmd.cas = req->cas;
    cmd.initial = req->initial;
    cmd.delta = req->delta;
    cmd.len = req->value ? req->value->len : req->text.len;

    op->verb = req->verb;
    op->want = 0;
    op->opaque = cmd.opaque;
    op->limit = req->limit ? req->limit : NGX_MCDS_BULK;

    if (req->verb == NGX_MCDS_INCR || req->verb == NGX_MCDS_DECR) {
        op->want = NGX_MCDS_VALUE;

    } else if (req->verb == NGX_MCDS_GET) {
        op->want = req->want & NGX_MCDS_VALUE;
    }

    bulk = req->bulk || cmd.len >= NGX_MCDS_BULK;

    conn = ngx_mcds_conn_get(server, bulk);
    if (conn == NULL) {
        return NGX_ERROR;
    }

    rc = ngx_mcds_conn_push(conn, op, &cmd, &req->text);

    if (rc == NGX_BUSY) {
        ngx_mcds_op_fail_later(op, NGX_MCDS_BUSY);
        return NGX_OK;
    }

    return rc;
}


static void
ngx_mcds_op_fail_later(ngx_mcds_op_t *op, ngx_uint_t rc)
{
    op->rc = rc;

    ngx_queue_insert_tail(&ngx_mcds_failed_ops, &op->queue);

    if (!ngx_mcds_fail_event.posted) {
        ngx_mcds_fail_event.handler = ngx_mcds_op_fail_handler;
        ngx_mcds_fail_event.log = ngx_cycle->log;

        ngx_post_event(&ngx_mcds_fail_event, &ngx_posted_events);
    }
}


static void
ngx_mcds_op_fail_handler(ngx_event_t *ev)
{
    ngx_queue_t        *q;
    ngx_mcds_op_t      *op;
    ngx_mcds_result_t   result;

    ngx_memzero(&result, sizeof(ngx_mcds_result_t));

    while (!ngx_queue_empty(&ngx_mcds_failed_ops)) {
        q = ngx_queue_head(&ngx_mcds_failed_ops);
        op = ngx_queue_data(q, ngx_mcds_op_t, queue);
        ngx_queue_remove(q);

        result.rc = op->rc;
        ngx_mcds_op_done(op, &result);
    }
}


void
ngx_mcds_server_failed(ngx_mcds_server_t *server, ngx_uint_t rc)
{
    ngx_mcds_pool_t  *pool;

    pool = server->pool;

    if (server->down || pool->max_fails == 0) {
        return;
    }

    if (++server->fails < pool->max_fails) {
        return;
    }

    ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                  "memcached server \"%V\" of pool \"%V\" is down after %ui "
                  "failures, last: %s", &server->name, &pool->name,
                  server->fails, ngx_mcds_strerror(rc));

    ngx_mcds_server_down(server);
}


void
ngx_mcds_server_unsupported(ngx_mcds_server_t *server, ngx_str_t *text)
{
    if (!server->unsupported
        && text->len > 20
        && ngx_strncmp(text->data, "CLIENT_ERROR unauthe", 20) == 0)
    {
        server->unsupported = 1;

        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                      "memcached server \"%V\" of pool \"%V\" %s; it is not "
                      "used", &server->name, &server->pool->name,
                      server->pool->user.len
                          ? "refuses user and password"
                          : "wants \"auth_user\" and "
                            "\"auth_password_file\"");
    }

    if (!server->unsupported) {
        server->unsupported = 1;

        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                      "server \"%V\" of pool \"%V\" does not speak the meta "
                      "commands of memcached 1.6.13 or newer, it said \"%V\"; "
                      "it is not used", &server->name, &server->pool->name,
                      text);
    }

    if (!server->down) {
        ngx_mcds_server_down(server);
    }
}


static void
ngx_mcds_server_down(ngx_mcds_server_t *server)
{
    server->down = 1;
    server->probe_delay = ngx_min(NGX_MCDS_FIRST_PROBE,
                                  server->pool->fail_timeout);

    server->probe.handler = ngx_mcds_server_probe_handler;
    server->probe.data = server;
    server->probe.log = ngx_cycle->log;
    server->probe.cancelable = 1;

    ngx_add_timer(&server->probe, server->probe_delay);
}


void
ngx_mcds_server_answered(ngx_mcds_server_t *server)
{
    server->fails = 0;

    if (!server->down) {
        return;
    }

    server->down = 0;
    server->unsupported = 0;

    if (server->probe.timer_set) {
        ngx_del_timer(&server->probe);
    }

    ngx_log_error(NGX_LOG_NOTICE, ngx_cycle->log, 0,
                  "memcached server \"%V\" of pool \"%V\" is up again",
                  &server->name, &server->pool->name);
}


/*
 * The probe is an operation like others on a connection like others, so that
 * a server which greets and then falls silent does not count as well.
 */

static void
ngx_mcds_server_probe_handler(ngx_event_t *ev)
{
    ngx_str_t            text;
    ngx_mcds_op_t       *op;
    ngx_mcds_server_t   *server;
    ngx_mcds_request_t   req;

    server = ev->data;

    op = ngx_mcds_op_alloc();

    if (op) {
        ngx_memzero(&req, sizeof(ngx_mcds_request_t));

        req.verb = NGX_MCDS_GET;
        req.want = NGX_MCDS_TTL;

        ngx_str_set(&text, "mcds:probe");
        ngx_mcds_key_build(&op->key, &server->pool->prefix, &text,
                           &req.suffix);

        op->handler = ngx_mcds_server_probed;
        op->data = server;

        if (ngx_mcds_op_start(server, op, &req, 1) == NGX_OK) {
            return;
        }

        op->handler = NULL;
        ngx_mcds_op_done(op, NULL);
    }

    ngx_add_timer(&server->probe, server->probe_delay);
}


static void
ngx_mcds_server_probed(void *data, ngx_mcds_result_t *result)
{
    ngx_mcds_server_t *server = data;

    if (!server->down) {
        return;
    }

    server->probe_delay = ngx_min(server->probe_delay * 2,
                                  server->pool->fail_timeout);

    ngx_add_timer(&server->probe, server->probe_delay);
}

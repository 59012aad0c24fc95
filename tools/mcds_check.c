
/*
 * Copyright (C) mcds authors
 *
 * mcds check and mcds bench: test the memcached servers with the client that
 * nginx uses.  libmemcached, which supports "stats", reads their statistics.
 */


#include "mcds_site.h"
#include <libmemcached/memcached.h>
#include "ngx_mcds_conn.h"
#include "ngx_mcds_client_stat.h"
#include "ngx_mcds_op_link.h"


/*
 * the number of operations of each kind that the command "bench" sends to a
 * server, the bytes of small and of large values, and seconds until they expire
 */
#define MCDS_BENCH_ROUNDS         200
#define MCDS_BENCH_SMALL          100
#define MCDS_BENCH_LARGE          10240
#define MCDS_BENCH_TTL            60

/* the directives of nginx's configuration that store data under a name */
#define MCDS_CHECK_NAMES                                                      \
    "mcds_cache mcds_counter mcds_visitor_counter mcds_counter_top "          \
    "mcds_counter_api mcds_lock mcds_lock_api mcds_log mcds_log_api "         \
    "mcds_array_api mcds_array_push mcds_table_api mcds_table_lookup"

/* the section of the manual about the options -C and -M of memcached */
#define MCDS_CHECK_SETTINGS                                                   \
    "docs/troubleshooting.md#settings-of-memcached-that-prevent-caching"

/*
 * seconds by which the clocks of memcached and of this host may differ without
 * a warning; memcached reads its clock periodically
 */
#define MCDS_CHECK_SKEW           5


/* the name of a statistic, and its value in memcached's reply to "stats" */

typedef struct {
    char        *name;
    char         value[64];
} mcds_stat_t;


typedef struct {
    mcds_t             *m;
    ngx_mcds_server_t  *server;
    mcds_stat_t        *stats;
    uint64_t            until;
} mcds_asked_t;


static json_t *mcds_check_pool(mcds_t *m, ngx_mcds_pool_t *pool);
static mcds_directive_t *mcds_check_next(mcds_t *m, ngx_uint_t *i);
static ngx_uint_t mcds_check_pages(mcds_t *m, ngx_mcds_pool_t *pool);
static char *mcds_check_distribution(ngx_mcds_pool_t *pool);
static ngx_uint_t mcds_check_shared(mcds_t *m, ngx_mcds_server_t *server);
static json_t *mcds_check_cause(ngx_mcds_server_t *server, ngx_uint_t rc);
static void mcds_check_stats(mcds_t *m, ngx_mcds_server_t *server, json_t *o);
static void mcds_check_judge(mcds_t *m, ngx_mcds_server_t *server,
    mcds_stat_t *stats, json_t *o);
static void mcds_check_warnings(mcds_t *m, ngx_mcds_server_t *server,
    mcds_stat_t *stats, json_t *o);
static void mcds_check_number(json_t *o, char *name, char *value);
static memcached_return_t mcds_check_stat(
    const memcached_instance_st *instance, const char *key, size_t key_len,
    const char *value, size_t len, void *data);
static memcached_st *mcds_check_client(mcds_t *m, ngx_mcds_server_t *server);
static void mcds_check_warn(mcds_t *m, json_t *o, char *help,
    const char *fmt, ...);
static ngx_uint_t mcds_server_do(ngx_mcds_server_t *server,
    ngx_mcds_request_t *req, mcds_answer_t *answer);
static void mcds_server_done(void *data, ngx_mcds_result_t *result);
static json_t *mcds_bench_server(mcds_t *m, ngx_mcds_server_t *server);
static void mcds_bench_rows(json_t *list, json_t *o);
static ngx_uint_t mcds_bench_run(ngx_mcds_server_t *server, ngx_uint_t verb,
    ngx_str_t *key, ngx_uint_t size, json_t *o, char *name);
static int mcds_bench_cmp(const void *one, const void *two);


enum {
    MCDS_STAT_VERSION = 0,
    MCDS_STAT_UPTIME,
    MCDS_STAT_TIME,
    MCDS_STAT_ITEMS,
    MCDS_STAT_BYTES,
    MCDS_STAT_LIMIT,
    MCDS_STAT_EVICTIONS,
    MCDS_STAT_CONNECTIONS,
    MCDS_STAT_REJECTED,
    MCDS_STAT_MAXCONNS,
    MCDS_STAT_ITEM_SIZE,
    MCDS_STAT_CAS,
    MCDS_STAT_HITS,
    MCDS_STAT_MISSES,
    MCDS_STAT_EVICTED
};


void
mcds_check(mcds_t *m, ngx_str_t *args, ngx_uint_t n)
{
    json_t            *o, *pools, *names, *use;
    ngx_uint_t         i, line;
    ngx_mcds_pool_t  **pool;
    mcds_directive_t  *directive;

    o = json_object();
    pools = json_array();
    pool = m->pools.elts;

    mcds_put(o, "configuration", mcds_str((u_char *) m->o.conf,
                                          ngx_strlen(m->o.conf)));

    if (m->o.pool) {
        mcds_site_pool(m, "", NULL);
    }

    if (m->pools.nelts == 0) {
        mcds_error(m, MCDS_NO, "%s has no \"mcds_pool\"", m->o.conf);
    }

    for (i = 0; i < m->pools.nelts; i++) {

        if (m->o.pool && pool[i] != m->pool) {
            continue;
        }

        (void) json_array_append_new(pools, mcds_check_pool(m, pool[i]));
    }

    mcds_put(o, "pools", pools);

    /*
     * adds to the JSON object o the names under which the directives of nginx's
     * configuration store data in memcached
     */

    names = json_array();
    i = 0;

    while ((directive = mcds_check_next(m, &i))) {
        use = json_object();
        line = directive->line;

        mcds_put(use, "directive", mcds_json(&directive->words[0]));
        mcds_put(use, "name", directive->n > 1
                              ? mcds_json(&directive->words[1])
                              : json_null());
        m->pool = mcds_site_in_pool(m, directive);
        mcds_put(use, "pool", m->pool ? mcds_json(&m->pool->name)
                                      : json_null());
        mcds_put(use, "file", mcds_json(&directive->file));
        mcds_put(use, "line", json_integer(line));

        (void) json_array_append_new(names, use);
    }

    if (m->o.json) {
        mcds_put(o, "directives", names);

    } else {
        json_decref(names);
    }

    mcds_show(m, o);
}


static json_t *
mcds_check_pool(mcds_t *m, ngx_mcds_pool_t *pool)
{
    json_t             *o, *servers;
    ngx_uint_t          i;
    ngx_mcds_server_t  *server;

    o = json_object();
    servers = json_array();

    mcds_put(o, "pool", mcds_json(&pool->name));
    mcds_put(o, "distribution", json_string(mcds_check_distribution(pool)));
    mcds_put(o, "protocol", json_string(pool->classic ? "classic" : "meta"));

    if (pool->prefix.len) {
        mcds_put(o, "prefix", mcds_json(&pool->prefix));
    }

    if (pool->replicas > 1) {
        mcds_put(o, "replicas", json_integer(pool->replicas));
    }

#if (NGX_SSL)
    mcds_put(o, "tls", json_boolean(pool->ssl != NULL));
#endif

    server = pool->servers.elts;

    for (i = 0; i < pool->servers.nelts; i++) {
        (void) json_array_append_new(servers,
                                     mcds_check_server(m, &server[i]));
    }

    mcds_put(o, "servers", servers);

    return o;
}


/*
 * returns the next directive of nginx's configuration, from *i on, that stores
 * data under a name, and advances *i; NULL if there is none
 */

static mcds_directive_t *
mcds_check_next(mcds_t *m, ngx_uint_t *i)
{
    mcds_directive_t  *directive;

    while ((directive = mcds_site_find(m, i, MCDS_CHECK_NAMES, NULL))) {

        /*
         * without "prefix=", mcds_counter_api has no counters of its own: it
         * shows those of other directives, which may have other pools
         */

        if (!mcds_is(&directive->words[0], "mcds_counter_api")
            || mcds_site_param(directive, "prefix="))
        {
            return directive;
        }
    }

    return NULL;
}


/*
 * returns 1 for a pool in which nginx stores only pages: evictions of items are
 * normal there
 */

static ngx_uint_t
mcds_check_pages(mcds_t *m, ngx_mcds_pool_t *pool)
{
    ngx_uint_t         i, pages, uses;
    mcds_directive_t  *directive;

    i = 0;
    pages = 0;

    while ((directive = mcds_check_next(m, &i))) {
        uses = mcds_site_uses(m, directive, pool);

        if (uses == 0) {
            continue;
        }

        if (uses == 2 || !mcds_is(&directive->words[0], "mcds_cache")) {
            return 0;
        }

        pages = 1;
    }

    return pages;
}


static char *
mcds_check_distribution(ngx_mcds_pool_t *pool)
{
    static char  *distributions[] = {
        "modula", "modula_crc", "ketama", "consistent", "nginx_consistent"
    };

    if (pool->distribution != NGX_MCDS_MODULA || pool->memcached == NULL) {
        return distributions[pool->distribution];
    }

    /*
     * the directive "libmemcached" of a pool, a string that configures the
     * library, may set another distribution of keys than pool->distribution
     */

    switch (memcached_behavior_get_distribution(pool->memcached)) {

    case MEMCACHED_DISTRIBUTION_MODULA:
        return distributions[NGX_MCDS_MODULA];

    case MEMCACHED_DISTRIBUTION_CONSISTENT:
        return distributions[NGX_MCDS_CONSISTENT];

    default:
        return distributions[NGX_MCDS_KETAMA];
    }
}


json_t *
mcds_check_server(mcds_t *m, ngx_mcds_server_t *server)
{
    json_t              *o;
    uint64_t             start;
    ngx_uint_t           rc;
    mcds_answer_t        answer;
    ngx_mcds_request_t   req;

    o = json_object();

    mcds_put(o, "server", mcds_json(&server->name));
    mcds_put(o, "weight", json_integer(server->weight));

    if (server->stat->disabled) {
        mcds_put(o, "state", json_string("disabled"));
        return o;
    }

    /*
     * the tool tests a memcached server as nginx uses it: it connects, checks
     * the version, and sends a request
     */

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.verb = NGX_MCDS_GET;
    ngx_str_set(&req.key, "mcds:probe");

    start = ngx_mcds_client_stat_clock();
    rc = mcds_server_do(server, &req, &answer);
    mcds_answer_free(&answer);

    if (!ngx_mcds_answered(rc)) {
        mcds_put(o, "state", json_string(server->unsupported
                                         ? "unsupported" : "unreachable"));
        mcds_put(o, "error", mcds_check_cause(server, rc));

        m->status = ngx_max(m->status, MCDS_UNREACHABLE);
        return o;
    }

    mcds_put(o, "state", json_string("up"));
    mcds_put(o, "connect_ms",
             json_real((double) (ngx_mcds_client_stat_clock() - start) / 1000));

    start = ngx_mcds_client_stat_clock();
    (void) mcds_server_do(server, &req, &answer);
    mcds_answer_free(&answer);

    mcds_put(o, "latency_ms",
             json_real((double) (ngx_mcds_client_stat_clock() - start) / 1000));

    mcds_check_stats(m, server, o);

    if (json_object_get(o, "warnings") == NULL) {
        mcds_put(o, "warnings", json_array());
    }

    return o;
}


/*
 * returns, as a JSON string, why a connection to a memcached server failed; the
 * result code rc alone does not always tell the reason
 */

static json_t *
mcds_check_cause(ngx_mcds_server_t *server, ngx_uint_t rc)
{
    if (server->unsupported) {
        return json_string(server->pool->classic
                           ? "it does not speak the classic protocol"
                           : "it does not speak the meta commands");
    }

    if (server->err) {
        return json_string(strerror(server->err));
    }

    return json_string(ngx_mcds_strerror(rc == NGX_MCDS_DOWN ? server->lost
                                                             : rc));
}


static void
mcds_check_stats(mcds_t *m, ngx_mcds_server_t *server, json_t *o)
{
    memcached_st  *mc;
    mcds_asked_t   asked;

    mcds_stat_t  stats[] = {
        { "version", "" }, { "uptime", "" }, { "time", "" },
        { "curr_items", "" }, { "bytes", "" }, { "limit_maxbytes", "" },
        { "evictions", "" }, { "curr_connections", "" },
        { "rejected_connections", "" }, { "maxconns", "" },
        { "item_size_max", "" }, { "cas_enabled", "" },
        { "get_hits", "" }, { "get_misses", "" },
        { "", "" },
        { NULL, "" }
    };

    /*
     * the tool reads no statistics of servers with TLS or a password:
     * libmemcached has neither in the text protocol
     */

#if (NGX_SSL)
    if (server->pool->ssl) {
        return;
    }
#endif

    if (server->pool->user.len) {
        return;
    }

    mc = mcds_check_client(m, server);

    asked.m = m;
    asked.server = server;
    asked.stats = stats;
    asked.until = mcds_now() + m->o.timeout;

    if (memcached_stat_execute(mc, NULL, mcds_check_stat, &asked)
        != MEMCACHED_SUCCESS)
    {
        /*
         * the server does not know the command "stats": it may be a proxy in
         * front of memcached
         */

        memcached_free(mc);
        return;
    }

    /*
     * keeps memcached's number of evictions: the reply to "stats settings" has
     * a line of the same name, which would overwrite the number
     */

    (void) ngx_cpystrn((u_char *) stats[MCDS_STAT_EVICTED].value,
                       (u_char *) stats[MCDS_STAT_EVICTIONS].value, 64);

    asked.until = mcds_now() + m->o.timeout;

    (void) memcached_stat_execute(mc, "settings", mcds_check_stat, &asked);

    memcached_free(mc);

    mcds_check_judge(m, server, stats, o);
    mcds_check_warnings(m, server, stats, o);
}


static memcached_st *
mcds_check_client(mcds_t *m, ngx_mcds_server_t *server)
{
    memcached_st        *mc;
    memcached_return_t   rc;

    mc = memcached_create(NULL);

    if (mc == NULL) {
        mcds_no_memory();
    }

    rc = server->port ? memcached_server_add(mc, (char *) server->host.data,
                                             server->port)
                      : memcached_server_add_unix_socket(mc,
                                             (char *) server->host.data);

    if (rc != MEMCACHED_SUCCESS) {
        mcds_no_memory();
    }

    (void) memcached_behavior_set(mc, MEMCACHED_BEHAVIOR_CONNECT_TIMEOUT,
                                  m->o.timeout);
    (void) memcached_behavior_set(mc, MEMCACHED_BEHAVIOR_POLL_TIMEOUT,
                                  m->o.timeout);

    return mc;
}


static memcached_return_t
mcds_check_stat(const memcached_instance_st *instance, const char *key,
    size_t key_len, const char *value, size_t len, void *data)
{
    mcds_asked_t *asked = data;

    ngx_uint_t    i;
    mcds_stat_t  *stats;

    stats = asked->stats;

    /*
     * libmemcached reads statistics for as long as the memcached server sends
     * them: the tool ends if that exceeds the timeout
     */

    if (mcds_now() > asked->until) {
        mcds_failed(asked->m, &asked->server->name, NGX_MCDS_TIMEOUT);
        exit(MCDS_UNREACHABLE);
    }

    for (i = 0; stats[i].name; i++) {

        if (ngx_strlen(stats[i].name) == key_len
            && ngx_memcmp(stats[i].name, key, key_len) == 0)
        {
            (void) ngx_cpystrn((u_char *) stats[i].value, (u_char *) value,
                               ngx_min(len + 1, sizeof(stats[i].value)));
            break;
        }
    }

    return MEMCACHED_SUCCESS;
}


static void
mcds_check_number(json_t *o, char *name, char *value)
{
    if (*value) {
        mcds_put(o, name, json_integer(strtoll(value, NULL, 10)));
    }
}


static void
mcds_check_judge(mcds_t *m, ngx_mcds_server_t *server, mcds_stat_t *stats,
    json_t *o)
{
    ngx_str_t  version;

    version.data = (u_char *) stats[MCDS_STAT_VERSION].value;
    version.len = ngx_strlen(version.data);

    mcds_put(o, "version", mcds_json(&version));
    mcds_check_number(o, "uptime", stats[MCDS_STAT_UPTIME].value);
    mcds_check_number(o, "items", stats[MCDS_STAT_ITEMS].value);
    mcds_check_number(o, "bytes", stats[MCDS_STAT_BYTES].value);
    mcds_check_number(o, "limit_bytes", stats[MCDS_STAT_LIMIT].value);
    mcds_check_number(o, "hits", stats[MCDS_STAT_HITS].value);
    mcds_check_number(o, "misses", stats[MCDS_STAT_MISSES].value);
    mcds_put(o, "evictions",
             json_integer(strtoll(stats[MCDS_STAT_EVICTED].value, NULL, 10)));
    mcds_check_number(o, "connections", stats[MCDS_STAT_CONNECTIONS].value);
    mcds_check_number(o, "max_connections", stats[MCDS_STAT_MAXCONNS].value);
    mcds_check_number(o, "item_size_max", stats[MCDS_STAT_ITEM_SIZE].value);

    if (*stats[MCDS_STAT_CAS].value) {
        mcds_put(o, "cas",
                 json_boolean(strcmp(stats[MCDS_STAT_CAS].value, "no") != 0));
    }

    if (*stats[MCDS_STAT_TIME].value) {
        mcds_put(o, "clock_difference",
                 json_integer(strtoll(stats[MCDS_STAT_TIME].value, NULL, 10)
                              - (int64_t) (mcds_now() / 1000)));
    }
}


static void
mcds_check_warnings(mcds_t *m, ngx_mcds_server_t *server, mcds_stat_t *stats,
    json_t *o)
{
    int64_t    skew, evictions;
    ngx_str_t  version;

    evictions = strtoll(stats[MCDS_STAT_EVICTED].value, NULL, 10);
    skew = json_integer_value(json_object_get(o, "clock_difference"));

    version.data = (u_char *) stats[MCDS_STAT_VERSION].value;
    version.len = ngx_strlen(version.data);

    if (skew >= MCDS_CHECK_SKEW || skew <= -MCDS_CHECK_SKEW) {
        mcds_check_warn(m, o, "docs/operations.md#clocks", "has a clock that "
                        "differs from the clock of this host by %lld s",
                        (long long) skew);
    }

    if (!server->pool->classic
        && ngx_mcds_version_at_least(&version, 1, 6, 13) == NGX_DECLINED)
    {
        mcds_check_warn(m, o, "docs/compatibility.md#versions-of-memcached",
                        "is older than 1.6.13, the oldest version that works "
                        "without \"protocol classic\"");
    }

    if (strcmp(stats[MCDS_STAT_CAS].value, "no") == 0) {
        mcds_check_warn(m, o, MCDS_CHECK_SETTINGS, "runs with -C: without CAS, "
                        "locks do not work and pages are not cached");
    }

    if (evictions > 0 && mcds_check_shared(m, server)) {
        mcds_check_warn(m, o, "docs/operations.md#memory-of-memcached",
                        "has evicted %lld items, possibly counters: add memory "
                        "(-m), or move pages to other servers",
                        (long long) evictions);
    }

    if (strcmp(stats[MCDS_STAT_EVICTIONS].value, "off") == 0) {
        mcds_check_warn(m, o, MCDS_CHECK_SETTINGS, "runs with -M: when its "
                        "memory is full, it stores no further items");
    }

    if (*stats[MCDS_STAT_ITEM_SIZE].value
        && strtoll(stats[MCDS_STAT_ITEM_SIZE].value, NULL, 10) < 1024 * 1024)
    {
        mcds_check_warn(m, o, "docs/operations.md#memory-of-memcached",
                        "accepts only items of %s bytes (-I); logs and large "
                        "pages need 1m",
                        stats[MCDS_STAT_ITEM_SIZE].value);
    }

    if (strtoll(stats[MCDS_STAT_REJECTED].value, NULL, 10) > 0) {
        mcds_check_warn(m, o, "docs/operations.md#memory-of-memcached",
                        "has rejected %s connections: raise its limit of "
                        "connections (-c)",
                        stats[MCDS_STAT_REJECTED].value);
    }
}


/*
 * returns 1 if nginx stores more than pages in the memcached server, in any
 * pool
 */

static ngx_uint_t
mcds_check_shared(mcds_t *m, ngx_mcds_server_t *server)
{
    ngx_uint_t          i, n;
    ngx_mcds_pool_t   **pool;
    ngx_mcds_server_t  *other;

    pool = m->pools.elts;

    for (i = 0; i < m->pools.nelts; i++) {
        other = pool[i]->servers.elts;

        for (n = 0; n < pool[i]->servers.nelts; n++) {

            if (ngx_mcds_same(&other[n].name, &server->name)
                && !mcds_check_pages(m, pool[i]))
            {
                return 1;
            }
        }
    }

    return 0;
}


/*
 * adds a warning about a memcached server to its JSON; help: the section of the
 * manual about the warning
 */

static void
mcds_check_warn(mcds_t *m, json_t *o, char *help, const char *fmt, ...)
{
    char     text[512];
    va_list  args;

    va_start(args, fmt);
    (void) vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);

    if (json_object_get(o, "warnings") == NULL) {
        mcds_put(o, "warnings", json_array());
        mcds_put(o, "help", json_array());
    }

    (void) json_array_append_new(json_object_get(o, "warnings"),
                                 mcds_str((u_char *) text, ngx_strlen(text)));
    (void) json_array_append_new(json_object_get(o, "help"),
                                 json_string(help));

    m->status = ngx_max(m->status, MCDS_NO);
}


/*
 * sends an operation to this memcached server, whichever server its key belongs
 * to, and waits for the result as mcds_do() does
 */

static ngx_uint_t
mcds_server_do(ngx_mcds_server_t *server, ngx_mcds_request_t *req,
    mcds_answer_t *answer)
{
    ngx_mcds_op_t  op;

    ngx_memzero(answer, sizeof(mcds_answer_t));
    ngx_memzero(&op, sizeof(ngx_mcds_op_t));

    op.handler = mcds_server_done;
    op.data = answer;

    ngx_mcds_server_submit(server, req, &op);

    mcds_wait(&answer->done);

    return answer->rc;
}


static void
mcds_server_done(void *data, ngx_mcds_result_t *result)
{
    mcds_answer_t *answer = data;

    answer->done = 1;
    answer->rc = result->rc;
}


void
mcds_bench(mcds_t *m, ngx_str_t *args, ngx_uint_t n)
{
    json_t             *list, *o;
    ngx_uint_t          i, s;
    ngx_mcds_pool_t   **pool;
    ngx_mcds_server_t  *server;

    if (m->o.pool) {
        mcds_site_pool(m, "", NULL);
    }

    list = json_array();
    pool = m->pools.elts;

    for (i = 0; i < m->pools.nelts; i++) {

        if (m->pool && m->pool != pool[i]) {
            continue;
        }

        server = pool[i]->servers.elts;

        for (s = 0; s < pool[i]->servers.nelts; s++) {

            if (server[s].stat->disabled) {
                continue;
            }

            o = mcds_bench_server(m, &server[s]);

            if (m->o.json) {
                (void) json_array_append_new(list, o);
                continue;
            }

            mcds_bench_rows(list, o);
            json_decref(o);
        }
    }

    mcds_show(m, list);
}


/*
 * adds the benchmark's results for one server, o, to the list that the tool
 * prints as text: a row for each kind of operation
 */

static void
mcds_bench_rows(json_t *list, json_t *o)
{
    json_t      *row, *times;
    const char  *name;

    json_object_foreach(o, name, times) {

        if (!json_is_object(times)) {
            continue;
        }

        row = json_object();

        (void) json_object_set(row, "pool", json_object_get(o, "pool"));
        (void) json_object_set(row, "server", json_object_get(o, "server"));
        mcds_put(row, "operation", json_string(name));
        (void) json_object_update(row, times);

        (void) json_array_append_new(list, row);
    }
}


static json_t *
mcds_bench_server(mcds_t *m, ngx_mcds_server_t *server)
{
    json_t              *o;
    u_char               text[64];
    ngx_str_t            key;
    ngx_uint_t           rc;
    mcds_answer_t        answer;
    ngx_mcds_request_t   req;

    o = json_object();

    mcds_put(o, "pool", mcds_json(&server->pool->name));
    mcds_put(o, "server", mcds_json(&server->name));

    key.data = text;
    key.len = ngx_sprintf(text, "mcds:bench:%P:%xL", ngx_pid, mcds_now())
              - text;

    rc = mcds_bench_run(server, NGX_MCDS_SET, &key, MCDS_BENCH_SMALL, o,
                        "set_100");

    if (rc == NGX_MCDS_OK) {
        rc = mcds_bench_run(server, NGX_MCDS_GET, &key, MCDS_BENCH_SMALL, o,
                            "get_100");
    }

    if (rc == NGX_MCDS_OK) {
        rc = mcds_bench_run(server, NGX_MCDS_SET, &key, MCDS_BENCH_LARGE, o,
                            "set_10k");
    }

    if (rc == NGX_MCDS_OK) {
        rc = mcds_bench_run(server, NGX_MCDS_GET, &key, MCDS_BENCH_LARGE, o,
                            "get_10k");
    }

    if (rc != NGX_MCDS_OK) {
        mcds_put(o, "error", json_string(ngx_mcds_strerror(rc)));
        mcds_failed(m, &server->name, rc);
        return o;
    }

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.verb = NGX_MCDS_DELETE;
    req.key = key;

    (void) mcds_server_do(server, &req, &answer);

    return o;
}


static ngx_uint_t
mcds_bench_run(ngx_mcds_server_t *server, ngx_uint_t verb, ngx_str_t *key,
    ngx_uint_t size, json_t *o, char *name)
{
    json_t              *times;
    uint64_t             start, took[MCDS_BENCH_ROUNDS];
    ngx_uint_t           i, rc;
    mcds_answer_t        answer;
    ngx_mcds_value_t    *value;
    ngx_mcds_request_t   req;

    value = ngx_mcds_value_create(size + 2, ngx_cycle->log);

    if (value == NULL) {
        mcds_no_memory();
    }

    ngx_memset(value->data, 'x', size);
    value->len = size;

    ngx_memzero(&req, sizeof(ngx_mcds_request_t));

    req.verb = verb;
    req.key = *key;

    if (verb == NGX_MCDS_SET) {
        req.value = value;
        req.ttl = MCDS_BENCH_TTL;

    } else {
        req.want = NGX_MCDS_VALUE;
        req.limit = 2 * MCDS_BENCH_LARGE;
    }

    rc = NGX_MCDS_OK;

    for (i = 0; i < MCDS_BENCH_ROUNDS && rc == NGX_MCDS_OK; i++) {
        start = ngx_mcds_client_stat_clock();
        rc = mcds_server_do(server, &req, &answer);
        took[i] = ngx_mcds_client_stat_clock() - start;
    }

    ngx_mcds_value_unref(value);

    if (rc != NGX_MCDS_OK) {
        return rc;
    }

    qsort(took, MCDS_BENCH_ROUNDS, sizeof(uint64_t), mcds_bench_cmp);

    times = json_object();

    mcds_put(times, "p50_ms",
             json_real((double) took[MCDS_BENCH_ROUNDS / 2] / 1000));
    mcds_put(times, "p99_ms",
             json_real((double) took[MCDS_BENCH_ROUNDS * 99 / 100] / 1000));
    mcds_put(times, "max_ms",
             json_real((double) took[MCDS_BENCH_ROUNDS - 1] / 1000));

    mcds_put(o, name, times);

    return NGX_MCDS_OK;
}


static int
mcds_bench_cmp(const void *one, const void *two)
{
    const uint64_t  *first = one, *second = two;

    return (*first > *second) - (*first < *second);
}
